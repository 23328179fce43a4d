//! Tokens of tenants and workers.

use super::{
    Records,
    audit::note,
    database::{Row, unreadable, values},
};
use crate::{
    accounts::token::{Owner, TokenRecord},
    storage::audit::Event,
};
use std::io;
use sudare_roles::error::Result;

/// Stored names of roles.
const TENANT: &str = "tenant";
const WORKER: &str = "worker";

fn role(owner: &Owner) -> &'static str {
    match owner {
        Owner::Tenant(_) => TENANT,
        Owner::Worker(_) => WORKER,
    }
}

fn record(row: &Row) -> io::Result<TokenRecord> {
    let role: String = row.get("role")?;
    let name = row.get("owner")?;
    Ok(TokenRecord {
        id: row.get("id")?,
        owner: match &role[..] {
            TENANT => Owner::Tenant(name),
            WORKER => Owner::Worker(name),
            _ => return Err(unreadable(&format!("a token has the unknown role {role:?}"))),
        },
        digest: row.get("digest")?,
        created: row.get("created")?,
        expires: row.get("expires")?,
    })
}

impl Records {
    /// Stores a token.
    ///
    /// # Errors
    /// [`Error::Io`](sudare_roles::error::Error::Io) if the database fails.
    pub fn add_token(&self, token: &TokenRecord) -> Result<()> {
        let TokenRecord { id, owner, digest, created, expires } = token;
        self.write(|db| {
            let sql = "INSERT INTO tokens (id, role, owner, digest, created, expires) \
                       VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
            let values = values![id, role(owner), owner.name(), &digest[..], created, *expires];
            db.execute(sql, &values)?;
            note(db, &Event::TokenAdded { owner, token: id, expires: *expires })
        })
    }

    /// Finds a token by name.
    ///
    /// # Errors
    /// [`Error::Io`](sudare_roles::error::Error::Io) if the database fails.
    pub fn token(&self, id: &str) -> Result<Option<TokenRecord>> {
        // By the public part. An index on secrets would compare them in varying time.
        self.read(|db| db.find("SELECT * FROM tokens WHERE id = ?1", &values![id], record))
    }

    /// Lists the tokens of one owner or of all, oldest first.
    ///
    /// # Errors
    /// [`Error::Io`](sudare_roles::error::Error::Io) if the database fails.
    pub fn tokens(&self, owner: Option<&Owner>) -> Result<Vec<TokenRecord>> {
        self.read(|db| {
            let sql = "SELECT * FROM tokens WHERE CAST(?1 AS TEXT) IS NULL OR (role = ?1 AND owner = ?2) \
                       ORDER BY created, id";
            db.all(sql, &values![owner.map(role), owner.map(Owner::name)], record)
        })
    }

    /// Deletes a token of an owner, or all of them. Returns the number.
    ///
    /// # Errors
    /// [`Error::Io`](sudare_roles::error::Error::Io) if the database fails.
    pub fn revoke(&self, owner: &Owner, id: Option<&str>) -> Result<usize> {
        self.write(|db| {
            let sql = "DELETE FROM tokens WHERE role = ?1 AND owner = ?2 \
                       AND (CAST(?3 AS TEXT) IS NULL OR id = ?3) RETURNING id";
            let values = values![role(owner), owner.name(), id];
            let gone: Vec<String> = db.all(sql, &values, Row::first)?;
            for token in &gone {
                note(db, &Event::TokenRevoked { owner, token })?;
            }
            Ok(gone.len())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::accounts::token::Token;
    use crate::storage::records::testing::places;

    #[test]
    fn tokens_are_kept_listed_and_revoked_by_owner() {
        for place in places() {
            let records = place.open();
            let [a, b] = ["a", "b"].map(|name| Owner::Tenant(name.into()));
            // A worker of the same name is another owner.
            let worker = Owner::Worker("a".into());
            let all: Vec<TokenRecord> = [(&a, None), (&b, Some(9)), (&a, Some(7)), (&worker, None)]
                .into_iter()
                .map(|(owner, expires)| Token::random().unwrap().record(owner.clone(), 1, expires))
                .collect();
            all.iter().for_each(|token| records.add_token(token).unwrap());
            assert_eq!(records.token(&all[1].id).unwrap().as_ref(), Some(&all[1]));
            assert_eq!(records.tokens(Some(&a)).unwrap().len(), 2);
            assert_eq!(records.tokens(Some(&worker)).unwrap(), [all[3].clone()]);
            assert_eq!(records.tokens(None).unwrap().len(), 4);
            // A token can only be revoked for its own owner.
            assert_eq!(records.revoke(&a, Some(&all[1].id)).unwrap(), 0);
            assert_eq!(records.revoke(&a, Some(&all[3].id)).unwrap(), 0);
            assert_eq!(records.revoke(&a, Some(&all[0].id)).unwrap(), 1);
            assert_eq!(records.token(&all[0].id).unwrap(), None);
            assert_eq!(records.revoke(&a, None).unwrap(), 1);
            assert_eq!(records.revoke(&worker, None).unwrap(), 1);
            assert_eq!(records.tokens(None).unwrap(), [all[1].clone()]);
        }
    }
}

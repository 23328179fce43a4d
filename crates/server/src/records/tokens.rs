//! Tokens of tenants.

use super::{Records, audit::note};
use crate::{audit::Event, token::Kept};
use rusqlite::{OptionalExtension, Row};
use sudare_roles::error::Result;

fn kept(row: &Row<'_>) -> rusqlite::Result<Kept> {
    Ok(Kept {
        id: row.get("id")?,
        tenant: row.get("tenant")?,
        digest: row.get("digest")?,
        created: row.get("created")?,
        expires: row.get("expires")?,
    })
}

impl Records {
    /// Keeps a token.
    ///
    /// # Errors
    /// As all of [`Records`]: [`Error::Io`](sudare_roles::error::Error::Io).
    pub fn add_token(&self, token: &Kept) -> Result<()> {
        let Kept { id, tenant, digest, created, expires } = token;
        self.write(|db| {
            let sql = "INSERT INTO tokens (id, tenant, digest, created, expires) \
                       VALUES (?1, ?2, ?3, ?4, ?5)";
            db.execute(sql, (id, tenant, digest, created, expires))?;
            note(db, &Event::TokenAdded { tenant, token: id, expires: *expires })
        })
    }

    /// The token with this name.
    ///
    /// # Errors
    /// As all.
    pub fn token(&self, id: &str) -> Result<Option<Kept>> {
        self.read(|db| db.query_row("SELECT * FROM tokens WHERE id = ?1", (id,), kept).optional())
    }

    /// All tokens, of one tenant or of all, the oldest first.
    ///
    /// # Errors
    /// As all.
    pub fn tokens(&self, tenant: Option<&str>) -> Result<Vec<Kept>> {
        self.read(|db| {
            let sql = "SELECT * FROM tokens WHERE ?1 IS NULL OR tenant = ?1 ORDER BY created, id";
            db.prepare(sql)?.query_map((tenant,), kept)?.collect()
        })
    }

    /// Forgets the tokens of a tenant: that with this name, or all. Returns how many.
    ///
    /// # Errors
    /// As all.
    pub fn revoke(&self, tenant: &str, id: Option<&str>) -> Result<usize> {
        self.write(|db| {
            let sql =
                "DELETE FROM tokens WHERE tenant = ?1 AND (?2 IS NULL OR id = ?2) RETURNING id";
            let mut delete = db.prepare(sql)?;
            let gone = delete.query_map((tenant, id), |row| row.get(0))?;
            let gone = gone.collect::<rusqlite::Result<Vec<String>>>()?;
            for token in &gone {
                note(db, &Event::TokenRevoked { tenant, token })?;
            }
            Ok(gone.len())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::token::Token;

    #[test]
    fn tokens_are_kept_listed_and_revoked_by_tenant() {
        let folder = tempfile::tempdir().unwrap();
        let records = Records::open(&folder.path().join("records")).unwrap();
        let all: Vec<Kept> = [("a", None), ("b", Some(9)), ("a", Some(7))]
            .into_iter()
            .map(|(tenant, expires)| Token::random().unwrap().kept(tenant.into(), 1, expires))
            .collect();
        all.iter().for_each(|token| records.add_token(token).unwrap());
        assert_eq!(records.token(&all[1].id).unwrap().as_ref(), Some(&all[1]));
        assert_eq!(records.tokens(Some("a")).unwrap().len(), 2);
        assert_eq!(records.tokens(None).unwrap().len(), 3);
        // Nobody revokes what is another tenant's.
        assert_eq!(records.revoke("a", Some(&all[1].id)).unwrap(), 0);
        assert_eq!(records.revoke("a", Some(&all[0].id)).unwrap(), 1);
        assert_eq!(records.token(&all[0].id).unwrap(), None);
        assert_eq!(records.revoke("a", None).unwrap(), 1);
        assert_eq!(records.tokens(None).unwrap(), [all[1].clone()]);
    }
}

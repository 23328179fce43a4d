//! The signing key of servers that share the records.

use super::{
    Records,
    database::{Row, values},
};
use sudare_roles::error::{Error, Result};

impl Records {
    /// Records the public key of a server, in hexadecimal, as the key of all servers with these records.
    /// Replaces another key if `replaces`.
    ///
    /// # Errors
    /// [`Error::Usage`] if other servers use another key; [`Error::Io`].
    pub fn agree_on_key(&self, public: &str, replaces: bool) -> Result<()> {
        let kept = self.write(|db| {
            let kept: Option<String> = db.find("SELECT public FROM server_key", &[], Row::first)?;
            if kept.is_none() || replaces {
                db.execute("DELETE FROM server_key", &[])?;
                db.execute("INSERT INTO server_key VALUES (?1)", &values![public])?;
            }
            Ok(kept)
        })?;
        match kept.filter(|kept| kept != public && !replaces) {
            None => Ok(()),
            Some(kept) => Err(Error::Usage(format!(
                "servers with the records in {} sign with the key {kept}, and this one with {public}: pass one \
                 file to all of them with --key, or replace the key of all with --replace-key",
                self.place.display()
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::places;

    #[test]
    fn servers_with_the_same_records_have_one_key() {
        for place in places() {
            let agree = |public: &str, replaces| {
                place.open().agree_on_key(public, replaces).map_err(|error| error.to_string())
            };
            assert_eq!(agree("aa", false), Ok(()));
            assert_eq!(agree("aa", false), Ok(()));
            let refused = agree("bb", false).unwrap_err();
            assert!(refused.contains("sign with the key aa, and this one with bb"), "{refused}");
            assert_eq!(agree("bb", true), Ok(()));
            assert_eq!(agree("bb", false), Ok(()));
            assert!(agree("aa", false).is_err());
        }
    }
}

//! Tokens, by which tenants and workers are known.

use crate::{clock::Seconds, problem::internal};
use data_encoding::HEXLOWER;
use serde::Serialize;
use std::fmt;
use sudare_roles::{
    error::{Error, Result},
    hex,
};
use zeroize::Zeroizing;

/// What tokens begin with, so that scanners of secrets find them.
const PREFIX: &str = "sudare_";
/// Bytes of the public part, by which a token is found.
const ID_BYTES: usize = 8;
/// Bytes of the secret part.
const SECRET_BYTES: usize = 32;
/// What the digest of a secret is for.
const CONTEXT: &str = "sudare v1 token of a service";
/// Most letters of a name.
const MAX_NAME_CHARS: usize = 64;

/// A token as its holder has it: `sudare_`, 16 digits that name it and 64 that are secret.
pub struct Token {
    id: String,
    secret: Zeroizing<[u8; SECRET_BYTES]>,
}

/// Whose a token is, by name: whether it is a tenant's or a worker's says what it is good for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Owner {
    /// Who has keys, tables and jobs.
    Tenant(String),
    /// What computes for the server, and sees no more than the jobs that it has claimed.
    Worker(String),
}

impl Owner {
    /// The name of the tenant or the worker.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Tenant(name) | Self::Worker(name) => name,
        }
    }

    /// Refuses names that could not stand in paths.
    ///
    /// # Errors
    /// [`Error::Usage`].
    pub fn check(&self) -> Result<()> {
        #[cfg(not(feature = "cluster"))]
        if matches!(self, Self::Worker(_)) {
            return Err(Error::Usage(crate::cluster::absent::lacks("workers on other machines")));
        }
        let (name, what) = match self {
            Self::Tenant(name) => (name, "tenant"),
            Self::Worker(name) => (name, "worker"),
        };
        let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if (1..=MAX_NAME_CHARS).contains(&name.len()) && name.chars().all(fits) {
            return Ok(());
        }
        Err(Error::Usage(format!(
            "{name:?} is no name of a {what}: take 1 to {MAX_NAME_CHARS} letters from a to z, digits and -"
        )))
    }
}

/// What a server keeps of a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenRecord {
    /// The public part of the token.
    pub id: String,
    /// Whose it is.
    pub owner: Owner,
    /// Digest of its secret part.
    pub digest: [u8; 32],
    /// When it was made.
    pub created: Seconds,
    /// When it ends, if it does.
    pub expires: Option<Seconds>,
}

impl Token {
    /// A new one, of 256 random bits.
    ///
    /// # Errors
    /// [`Error::Library`] without randomness.
    pub fn random() -> Result<Self> {
        let mut secret = Zeroizing::new([0; SECRET_BYTES]);
        getrandom::fill(&mut secret[..]).map_err(internal)?;
        Ok(Self { id: random_id()?, secret })
    }

    /// Reads what a client sent.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (id, secret) = text.strip_prefix(PREFIX)?.split_at_checked(2 * ID_BYTES)?;
        let mut bytes = Zeroizing::new([0; SECRET_BYTES]);
        hex::read(id, &mut [0; ID_BYTES])?;
        hex::read(secret, &mut bytes[..])?;
        Some(Self { id: id.into(), secret: bytes })
    }

    /// The token as its holder keeps it.
    #[must_use]
    pub fn text(&self) -> Zeroizing<String> {
        let mut text = Zeroizing::new(String::with_capacity(128));
        text.push_str(PREFIX);
        text.push_str(&self.id);
        HEXLOWER.encode_append(&self.secret[..], &mut text);
        text
    }

    /// The public part of the token.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    fn digest(&self) -> blake3::Hash {
        blake3::Hash::from(blake3::derive_key(CONTEXT, &self.secret[..]))
    }

    /// What a server keeps of it.
    #[must_use]
    pub fn record(&self, owner: Owner, created: Seconds, expires: Option<Seconds>) -> TokenRecord {
        TokenRecord { id: self.id.clone(), owner, digest: self.digest().into(), created, expires }
    }

    /// Whose it is, if this is the token that was kept, and it is valid now. What there is none of
    /// takes as long as what is wrong.
    #[must_use]
    pub fn owner(&self, kept: Option<&TokenRecord>, now: Seconds) -> Option<Owner> {
        let digest = kept.map_or([0; 32], |kept| kept.digest);
        // In constant time.
        let same = self.digest() == blake3::Hash::from(digest);
        let kept = kept.filter(|kept| kept.expires.is_none_or(|expires| now < expires))?;
        same.then(|| kept.owner.clone())
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Token").field("id", &self.id).finish_non_exhaustive()
    }
}

/// A name for something new, of 16 random digits.
///
/// # Errors
/// [`Error::Library`] without randomness.
pub fn random_id() -> Result<String> {
    let mut bytes = [0; ID_BYTES];
    getrandom::fill(&mut bytes).map_err(internal)?;
    Ok(HEXLOWER.encode(&bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_known_by_their_secret_until_they_expire() {
        let token = Token::random().unwrap();
        let text = token.text();
        assert_eq!(text.len(), 7 + 16 + 64);
        let clinic = Owner::Tenant("clinic".into());
        let kept = token.record(clinic.clone(), 100, Some(200));
        let read = Token::parse(&text).unwrap();
        assert_eq!(read.owner(Some(&kept), 199), Some(clinic));
        assert_eq!(read.owner(Some(&kept), 200), None);
        assert_eq!(read.owner(None, 150), None);
        // Every digit counts.
        for at in 7..text.len() {
            let mut other = text.as_bytes().to_vec();
            other[at] = if other[at] == b'0' { b'1' } else { b'0' };
            let other = Token::parse(core::str::from_utf8(&other).unwrap()).unwrap();
            let named_otherwise = other.id() != kept.id;
            assert!(named_otherwise || other.owner(Some(&kept), 150).is_none(), "{at}");
        }
        assert!(!format!("{token:?}").contains(&text[23..]));
    }

    #[test]
    fn other_texts_are_no_tokens() {
        let text = Token::random().unwrap().text();
        let upper = text.to_uppercase();
        for bad in ["", "sudare_", &text[1..], &text[..text.len() - 1], &upper, "sudare_é"] {
            assert!(Token::parse(bad).is_none(), "{bad}");
        }
        assert!(Token::parse(&format!("{}0", &*text)).is_none());
    }

    #[test]
    fn owners_have_plain_names() {
        assert!(Owner::Tenant("clinic-7".into()).check().is_ok());
        let long = "a".repeat(65);
        for bad in ["", "..", "a/b", "A", "é", "a b", &long] {
            for owner in [Owner::Tenant(bad.into()), Owner::Worker(bad.into())] {
                assert!(owner.check().is_err(), "{bad}");
            }
        }
    }
}

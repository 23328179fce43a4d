//! Tokens that authenticate tenants and workers.

use crate::{clock::Seconds, problem::internal};
use data_encoding::HEXLOWER;
use serde::Serialize;
use std::fmt;
use sudare_roles::{
    error::{Error, Result},
    text::hex,
};
use zeroize::Zeroizing;

/// Prefix of tokens, by which secret scanners find them.
const PREFIX: &str = "sudare_";
/// Bytes of the public part, which identifies a token.
// 64 random bits are unique among the tokens of a server.
const ID_BYTES: usize = 8;
/// Bytes of the secret part.
// 256 random bits cannot be guessed, so a fast hash protects them in the records.
const SECRET_BYTES: usize = 32;
/// Context of the digest of a secret.
// Separates this digest from other uses of BLAKE3. A change makes every token invalid.
const CONTEXT: &str = "sudare v1 token of a service";
/// Maximum characters of a name.
// Names become directories, and file systems limit these to 255 bytes.
const MAX_NAME_CHARS: usize = 64;

/// A token as its holder has it: `sudare_`, 16 public digits and 64 secret digits.
pub struct Token {
    id: String,
    secret: Zeroizing<[u8; SECRET_BYTES]>,
}

/// Owner of a token, by name. The role determines the permissions of the token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Owner {
    /// A tenant, who has keys, tables and jobs.
    Tenant(String),
    /// A worker, which computes for the server and sees only the jobs that it has claimed.
    Worker(String),
}

impl Owner {
    /// Returns the name of the tenant or the worker.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Tenant(name) | Self::Worker(name) => name,
        }
    }

    /// Checks that the name can be part of a path.
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
        // Names become directories, keys of stores and labels of metrics, all without escaping.
        if (1..=MAX_NAME_CHARS).contains(&name.len()) && name.chars().all(fits) {
            return Ok(());
        }
        Err(Error::Usage(format!(
            "{name:?} is not a valid name of a {what}: use 1 to {MAX_NAME_CHARS} characters: a to z, 0 to 9 and -"
        )))
    }
}

/// The record of a token at a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenRecord {
    /// The public part of the token.
    pub id: String,
    /// Owner of the token.
    pub owner: Owner,
    /// Digest of the secret part.
    pub digest: [u8; 32],
    /// Time of creation.
    pub created: Seconds,
    /// Time of expiry, if there is one.
    pub expires: Option<Seconds>,
}

impl Token {
    /// Makes a token of 256 random bits.
    ///
    /// # Errors
    /// [`Error::Library`] without randomness.
    pub fn random() -> Result<Self> {
        let mut secret = Zeroizing::new([0; SECRET_BYTES]);
        getrandom::fill(&mut secret[..]).map_err(internal)?;
        Ok(Self { id: random_id()?, secret })
    }

    /// Parses the token that a client sent.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (id, secret) = text.strip_prefix(PREFIX)?.split_at_checked(2 * ID_BYTES)?;
        let mut bytes = Zeroizing::new([0; SECRET_BYTES]);
        hex::read(id, &mut [0; ID_BYTES])?;
        hex::read(secret, &mut bytes[..])?;
        Some(Self { id: id.into(), secret: bytes })
    }

    /// Returns the token as its holder stores it.
    #[must_use]
    pub fn text(&self) -> Zeroizing<String> {
        // Room for all 87 characters: a string that grows leaves copies of the secret in freed
        // memory.
        let mut text = Zeroizing::new(String::with_capacity(128));
        text.push_str(PREFIX);
        text.push_str(&self.id);
        HEXLOWER.encode_append(&self.secret[..], &mut text);
        text
    }

    /// Returns the public part of the token.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    fn digest(&self) -> blake3::Hash {
        // A fast digest is enough: unlike a password, 256 random bits cannot be guessed.
        blake3::Hash::from(blake3::derive_key(CONTEXT, &self.secret[..]))
    }

    /// Returns the record of the token for a server.
    #[must_use]
    pub fn record(&self, owner: Owner, created: Seconds, expires: Option<Seconds>) -> TokenRecord {
        TokenRecord { id: self.id.clone(), owner, digest: self.digest().into(), created, expires }
    }

    /// Returns the owner if the record matches this token and is valid now. A missing record takes as long
    /// as a wrong secret.
    #[must_use]
    pub fn owner(&self, kept: Option<&TokenRecord>, now: Seconds) -> Option<Owner> {
        // A missing record is compared, too, so that the time does not reveal which ids exist.
        let digest = kept.map_or([0; 32], |kept| kept.digest);
        // This comparison takes constant time.
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

/// Makes a name of 16 random digits.
///
/// # Errors
/// [`Error::Library`] without randomness.
pub fn random_id() -> Result<String> {
    // 64 bits: names must be unique, not secret. Each request of a tenant looks up tenant and name.
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
        // Every digit matters.
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

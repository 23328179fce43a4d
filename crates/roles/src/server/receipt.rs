//! Receipts: signed statements of a server about the inputs of a result.
//!
//! A receipt makes a server accountable: the server cannot deny later that it returned this result
//! for these keys and this table. It does not prove that the computation is right, since a server
//! can sign a wrong result too.
//!
//! The file is one line of JSON, `{"statement":{…},"signature":"…"}`, and has one form only: other
//! spaces, orders or digits are refused. The signature is Ed25519 (RFC 8032) over [`CONTEXT`] and
//! the bytes of the statement in the file.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

use crate::{
    error::{Error, ReceiptError, Result},
    os::files,
    text::hex,
};
use core::{fmt, str::FromStr};
use data_encoding::HEXLOWER;
use ed25519_dalek::{SECRET_KEY_LENGTH, SIGNATURE_LENGTH, Signature, Signer, VerifyingKey};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use sudare_arith::prng::Seed;
use zeroize::Zeroizing;

/// Prefix of a signed statement. It prevents the use of the signature for anything else.
pub const CONTEXT: &str = "sudare v1 receipt of a result\n";
/// Maximum size of a receipt, in bytes.
// A statement names at most 64 tables, each by 64 digits.
pub const MAX_BYTES: u64 = 64 << 10;
/// Version of the form of statements.
const VERSION: u32 = 1;
/// Prefix of the file of a signing key, by which secret scanners find it.
const PREFIX: &str = "sudare_server_key_";
/// Maximum size of the file of a signing key, in bytes.
const MAX_KEY_BYTES: u64 = 1024;

/// The secret key of a server. It is wiped when it is dropped.
pub struct SigningKey(ed25519_dalek::SigningKey);

impl SigningKey {
    /// Creates a random key.
    ///
    /// # Errors
    /// [`Error::Library`] if the machine has no randomness.
    pub fn random() -> Result<Self> {
        let seed = Seed::random().map_err(sudare::Error::from)?;
        Ok(Self(ed25519_dalek::SigningKey::from_bytes(seed.as_bytes())))
    }

    /// Reads the key in a file. If the file does not exist, creates one that only the user can
    /// read.
    ///
    /// # Errors
    /// [`Error::Usage`] for any other file, or one that other users may read; [`Error::Io`].
    pub fn open(path: &Path) -> Result<Self> {
        if !path.exists() {
            let made = Self::random()?.write(path);
            // Another process may create the file at the same time.
            if !matches!(made, Err(Error::Exists { .. })) {
                made?;
            }
        }
        let text = Zeroizing::new(files::read_text(path, MAX_KEY_BYTES)?);
        let metadata = path.metadata().map_err(|error| Error::io("read", path, error))?;
        // After the key exists: a new file is private, so only an older file can be refused.
        if files::others_may_read(&metadata) {
            return Err(Error::Usage(format!(
                "{} can be read by other users of this machine, who can then sign as this server: \
                 remove the permission, for example with chmod 600",
                path.display()
            )));
        }
        let mut bytes = Zeroizing::new([0; SECRET_KEY_LENGTH]);
        let digits = text.trim_end().strip_prefix(PREFIX);
        let read = digits.and_then(|digits| hex::read(digits, &mut bytes[..]));
        read.map(|()| Self(ed25519_dalek::SigningKey::from_bytes(&bytes))).ok_or_else(|| {
            Error::Usage(format!(
                "{} does not hold the key of a server: name the key's file, or move this one away \
                 to create a new key",
                path.display()
            ))
        })
    }

    fn write(&self, path: &Path) -> Result<()> {
        // Room for the whole text: a string that grows leaves copies of the key in freed memory.
        let mut text = Zeroizing::new(String::with_capacity(128));
        text.push_str(PREFIX);
        HEXLOWER.encode_append(self.0.as_bytes(), &mut text);
        text.push('\n');
        files::write_text(path, &text, false)
    }

    /// Returns the public key that verifies the signatures.
    #[must_use]
    pub fn public(&self) -> ServerKey {
        ServerKey(self.0.verifying_key())
    }

    /// Derives an independent key for another use by the server. `purpose` must be unique to that
    /// use.
    #[must_use]
    pub fn derive(&self, purpose: &str) -> Zeroizing<[u8; 32]> {
        Zeroizing::new(blake3::derive_key(purpose, self.0.as_bytes()))
    }

    /// Signs a statement, and writes its own public key into it.
    ///
    /// # Errors
    /// [`Error::Bug`] if the statement cannot be encoded as JSON.
    pub fn sign(&self, statement: Statement) -> Result<Receipt> {
        let server_key = self.public().to_string();
        // The own key replaces any given one, so that no statement names a key that did not sign
        // it.
        let statement = Statement { version: VERSION, server_key, ..statement };
        let signed = json(&statement)?;
        let signature = self.0.sign(&[CONTEXT.as_bytes(), signed.as_bytes()].concat());
        Ok(Receipt { statement, signature: HEXLOWER.encode(&signature.to_bytes()) })
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SigningKey").field("public", &self.public()).finish_non_exhaustive()
    }
}

/// The public key of a server, as 64 hexadecimal digits. Its operator publishes it to clients.
#[derive(Clone, PartialEq, Eq)]
pub struct ServerKey(VerifyingKey);

impl fmt::Display for ServerKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&HEXLOWER.encode(self.0.as_bytes()))
    }
}

impl fmt::Debug for ServerKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ServerKey({self})")
    }
}

impl FromStr for ServerKey {
    type Err = &'static str;

    fn from_str(text: &str) -> core::result::Result<Self, Self::Err> {
        let mut bytes = [0; 32];
        let read = hex::read(text.trim(), &mut bytes);
        let key = read.and_then(|()| VerifyingKey::from_bytes(&bytes).ok());
        // Under a key of small order, forged signatures verify.
        key.filter(|key| !key.is_weak())
            .map(Self)
            .ok_or("the key of a server is 64 hexadecimal digits, as `sudare serve key` shows them")
    }
}

/// A server's statement about a result. Objects are named by their BLAKE3 digests. Times are
/// seconds since 1970.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Statement {
    /// Version of the form.
    pub version: u32,
    /// The key that signs the statement.
    pub server_key: String,
    /// Version of the program that computed the result.
    pub program: String,
    /// Name of the job at the server.
    pub job: String,
    /// Kind of the job: `stats`, `groups`, `histogram`, `train` or `predict`.
    pub kind: String,
    /// The evaluation keys.
    pub keys: String,
    /// The encrypted tables.
    pub tables: Vec<String>,
    /// The model that scored the rows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Iterations of a training, if the request was for fewer than the keys allow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iterations: Option<u32>,
    /// True if the weights after each iteration were kept.
    pub history: bool,
    /// The result.
    pub result: String,
    /// Size of the result in bytes.
    pub bytes: u64,
    /// Time of the request.
    pub created: i64,
    /// Time of completion.
    pub finished: i64,
}

/// Facts about a job that a client compares with its receipt.
#[derive(Debug, Clone, Copy, Default)]
pub struct Expected<'a> {
    /// Name of the job.
    pub job: Option<&'a str>,
    /// Kind of the job.
    pub kind: Option<&'a str>,
    /// Digest of the evaluation keys.
    pub keys: Option<&'a str>,
    /// Digests of the encrypted tables, in order.
    pub tables: Option<&'a [String]>,
    /// Digest of the model, or `Some(None)` for a job without one.
    pub model: Option<Option<&'a str>>,
    /// The requested number of iterations, and whether a history was requested.
    pub training: Option<(Option<u32>, bool)>,
    /// Digest of the result.
    pub result: Option<&'a str>,
}

/// A statement with a verified signature.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Receipt {
    statement: Statement,
    signature: String,
}

fn json(value: &impl Serialize) -> Result<String> {
    serde_json::to_string(value).map_err(|error| Error::Bug(error.to_string()))
}

fn malformed(problem: impl fmt::Display) -> ReceiptError {
    ReceiptError::Malformed { problem: problem.to_string() }
}

impl Receipt {
    /// Returns the path of a result's receipt, in the same directory.
    #[must_use]
    pub fn beside(result: &Path) -> PathBuf {
        let mut name = result.as_os_str().to_owned();
        name.push(".receipt");
        name.into()
    }

    /// Returns the receipt as one line of JSON.
    ///
    /// # Errors
    /// [`Error::Bug`] if the receipt cannot be encoded as JSON.
    pub fn text(&self) -> Result<String> {
        Ok(json(self)? + "\n")
    }

    /// Reads a receipt and verifies its signature with the key that it names. Any key passes; see
    /// [`Receipt::expect_server`].
    ///
    /// # Errors
    /// [`ReceiptError::Malformed`]; [`ReceiptError::Forged`].
    pub fn read(text: &str) -> core::result::Result<Self, ReceiptError> {
        if text.len() as u64 > MAX_BYTES {
            return Err(malformed(format!(
                "it has {} bytes, but the maximum is {MAX_BYTES}",
                text.len()
            )));
        }
        let receipt: Self = serde_json::from_str(text).map_err(malformed)?;
        let Self { statement, signature } = &receipt;
        // The version before the form: a receipt of another version has another form.
        if statement.version != VERSION {
            return Err(malformed(format!(
                "it has version {}, but this program reads {VERSION}",
                statement.version
            )));
        }
        let form = receipt.text();
        let signed = json(statement);
        let (form, signed) = form.and_then(|form| Ok((form, signed?))).map_err(malformed)?;
        // The signature is checked for the statement as written anew, so it says nothing about
        // another form.
        if form != text {
            return Err(malformed("it is not in the form that servers write"));
        }
        let key: ServerKey = statement.server_key.parse().map_err(malformed)?;
        let mut bytes = [0; SIGNATURE_LENGTH];
        hex::read(signature, &mut bytes)
            .ok_or_else(|| malformed("its signature is not hexadecimal"))?;
        let message = [CONTEXT.as_bytes(), signed.as_bytes()].concat();
        // Strict: refuses points of small order, with which a signature fits several messages.
        let valid = key.0.verify_strict(&message, &Signature::from_bytes(&bytes));
        valid.map_err(|_| ReceiptError::Forged)?;
        Ok(receipt)
    }

    /// Reads the receipt in a file. See [`Receipt::read`].
    ///
    /// # Errors
    /// [`Error::ReceiptFile`]; [`Error::Io`].
    pub fn open(path: &Path) -> Result<Self> {
        let text = files::read_text(path, MAX_BYTES)?;
        Self::read(&text).map_err(Error::in_receipt(path))
    }

    /// Returns the statement.
    #[must_use]
    pub fn statement(&self) -> &Statement {
        &self.statement
    }

    /// Refuses a receipt that another server signed.
    ///
    /// # Errors
    /// [`ReceiptError::OtherServer`].
    pub fn expect_server(&self, key: &ServerKey) -> core::result::Result<(), ReceiptError> {
        let found = self.statement.server_key.clone();
        let expected = key.to_string();
        match found == expected {
            true => Ok(()),
            false => Err(ReceiptError::OtherServer { found, expected }),
        }
    }

    /// Refuses a receipt that differs from the known facts.
    ///
    /// # Errors
    /// [`ReceiptError::Differs`].
    pub fn expect(&self, known: &Expected<'_>) -> core::result::Result<(), ReceiptError> {
        let said = &self.statement;
        let differs = |what, found: String, expected: String| match found == expected {
            true => Ok(()),
            false => Err(ReceiptError::Differs { what, found, expected }),
        };
        let same = |what, found: &str, expected: Option<&str>| match expected {
            Some(expected) => differs(what, found.into(), expected.into()),
            None => Ok(()),
        };
        let or_none = |text: Option<&str>| text.unwrap_or("none").to_owned();
        same("the job", &said.job, known.job)?;
        same("a job of", &said.kind, known.kind)?;
        same("the evaluation keys", &said.keys, known.keys)?;
        if let Some(tables) = known.tables {
            differs("the tables", said.tables.join(", "), tables.join(", "))?;
        }
        if let Some(model) = known.model {
            differs("the model", or_none(said.model.as_deref()), or_none(model))?;
        }
        if let Some((iterations, history)) = known.training {
            let count = |iterations: Option<u32>| iterations.map(|count| count.to_string());
            let text = |iterations, history| match history {
                true => format!("{} with a history", or_none(count(iterations).as_deref())),
                false => or_none(count(iterations).as_deref()),
            };
            let found = text(said.iterations, said.history);
            differs("a number of iterations of", found, text(iterations, history))?;
        }
        same("the result", &said.result, known.result)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn statement() -> Statement {
        Statement {
            program: "0.2.0".into(),
            job: "0123456789abcdef".into(),
            kind: "train".into(),
            keys: "a".repeat(64),
            tables: vec!["b".repeat(64), "c".repeat(64)],
            iterations: Some(3),
            history: true,
            result: "d".repeat(64),
            bytes: 1 << 20,
            created: 1_700_000_000,
            finished: 1_700_000_100,
            ..Statement::default()
        }
    }

    /// Python's `cryptography` signed the same statement with the same key.
    #[test]
    fn signatures_are_ed25519() {
        let key = SigningKey(ed25519_dalek::SigningKey::from_bytes(&[7; 32]));
        assert_eq!(key.public().to_string(), PUBLIC);
        let receipt = key.sign(statement()).unwrap();
        assert_eq!(receipt.signature, SIGNATURE);
    }

    const PUBLIC: &str = "ea4a6c63e29c520abef5507b132ec5f9954776aebebe7b92421eea691446d22c";
    const SIGNATURE: &str = "155194c1e9d820008457d8ef7c7ca40f0d76debd23139c3cd2947fef34cdcc89\
        031b4fa947821532ceb8b2b653d8455e9161f4bedb0dd8f3fe9e77d77e901b05";

    #[test]
    fn receipts_are_read_as_they_were_signed() {
        let key = SigningKey::random().unwrap();
        let receipt = key.sign(statement()).unwrap();
        let read = Receipt::read(&receipt.text().unwrap()).unwrap();
        assert_eq!(read, receipt);
        assert_eq!(read.statement().server_key, key.public().to_string());
        read.expect_server(&key.public().to_string().parse().unwrap()).unwrap();
        let other = SigningKey::random().unwrap().public();
        let refused = read.expect_server(&other).unwrap_err();
        assert!(matches!(refused, ReceiptError::OtherServer { .. }), "{refused}");
    }

    /// Changes, removes and inserts a byte at every position.
    #[test]
    fn no_byte_of_a_receipt_can_be_changed() {
        let text = SigningKey::random().unwrap().sign(statement()).unwrap().text().unwrap();
        let refused = |bytes: &[u8], at: usize| {
            let read = core::str::from_utf8(bytes).map(Receipt::read);
            assert!(!matches!(read, Ok(Ok(_))), "byte {at}");
        };
        for at in 0..text.len() {
            for bit in 0..8 {
                let mut altered = text.clone().into_bytes();
                altered[at] ^= 1 << bit;
                refused(&altered, at);
            }
            let (before, after) = text.as_bytes().split_at(at);
            refused(before, at);
            refused(&[before, &after[1..]].concat(), at);
            refused(&[before, b" ", after].concat(), at);
        }
        refused(format!("{text}\n").as_bytes(), text.len());
        let other = SigningKey::random().unwrap().sign(statement()).unwrap();
        let swapped = Receipt { signature: other.signature, ..Receipt::read(&text).unwrap() };
        assert_eq!(Receipt::read(&swapped.text().unwrap()), Err(ReceiptError::Forged));
        let later = Statement { version: 2, ..Receipt::read(&text).unwrap().statement };
        let later = Receipt { statement: later, ..swapped };
        let refused = Receipt::read(&later.text().unwrap()).unwrap_err();
        assert!(refused.to_string().contains("version 2"), "{refused}");
    }

    /// Only known facts are compared.
    #[test]
    fn receipts_of_something_else_are_refused() {
        let receipt = SigningKey::random().unwrap().sign(statement()).unwrap();
        let said = receipt.statement();
        let known = Expected {
            job: Some(&said.job),
            kind: Some("train"),
            keys: Some(&said.keys),
            tables: Some(&said.tables),
            model: Some(None),
            training: Some((Some(3), true)),
            result: Some(&said.result),
        };
        receipt.expect(&known).unwrap();
        receipt.expect(&Expected::default()).unwrap();
        let swapped: Vec<String> = said.tables.iter().rev().cloned().collect();
        let others = [
            Expected { job: Some("0"), ..known },
            Expected { kind: Some("stats"), ..known },
            Expected { keys: Some(&said.result), ..known },
            Expected { tables: Some(&swapped), ..known },
            Expected { tables: Some(&said.tables[..1]), ..known },
            Expected { model: Some(Some(&said.keys)), ..known },
            Expected { training: Some((None, true)), ..known },
            Expected { training: Some((Some(3), false)), ..known },
            Expected { result: Some(&said.keys), ..known },
        ];
        for other in others {
            let refused = receipt.expect(&other).unwrap_err();
            assert!(matches!(refused, ReceiptError::Differs { .. }), "{other:?}");
        }
    }

    #[test]
    fn keys_are_made_once_and_for_the_user_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("server.key");
        let key = SigningKey::open(&path).unwrap();
        assert_eq!(SigningKey::open(&path).unwrap().public(), key.public());
        assert!(!format!("{key:?}").contains(&HEXLOWER.encode(key.0.as_bytes())));
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text.len(), PREFIX.len() + 65);
        for bad in ["", "sudare_server_key_", &text[1..], &text[..text.len() - 2], "\u{e9}"] {
            std::fs::write(&path, bad).unwrap();
            assert!(matches!(SigningKey::open(&path), Err(Error::Usage(_))), "{bad}");
        }
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            std::fs::write(&path, &text).unwrap();
            let mode = |mode| std::fs::set_permissions(&path, PermissionsExt::from_mode(mode));
            assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
            mode(0o644).unwrap();
            assert!(SigningKey::open(&path).unwrap_err().to_string().contains("chmod 600"));
            mode(0o600).unwrap();
            assert_eq!(SigningKey::open(&path).unwrap().public(), key.public());
        }
    }

    #[test]
    fn other_texts_are_no_keys_of_servers() {
        let weak = format!("01{}", "0".repeat(62));
        for bad in ["", "00", &weak, &"F".repeat(64), &"g".repeat(64)] {
            assert!(bad.parse::<ServerKey>().is_err(), "{bad}");
        }
    }
}

//! Receipts: what a server says, under its signature, that it computed from what.
//!
//! A receipt makes a server accountable: it cannot deny later that it gave this result for these
//! keys and this table. It proves nothing about the computation itself, since a server can sign a
//! wrong result too.
//!
//! The file is one line of JSON, `{"statement":{…},"signature":"…"}`, and has one form only: other
//! spaces, orders or digits are refused. The signature is that of Ed25519 (RFC 8032) on
//! [`CONTEXT`] and the bytes of the statement as they stand in the file.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

use crate::{
    error::{Error, ReceiptError, Result},
    files, hex,
};
use core::{fmt, str::FromStr};
use data_encoding::HEXLOWER;
use ed25519_dalek::{SECRET_KEY_LENGTH, SIGNATURE_LENGTH, Signature, Signer, VerifyingKey};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use sudare_arith::prng::Seed;
use zeroize::Zeroizing;

/// What stands before a statement when it is signed, so that the signature is one of nothing else.
pub const CONTEXT: &str = "sudare v1 receipt of a result\n";
/// Most bytes of a receipt.
pub const MOST_BYTES: u64 = 64 << 10;
/// Of the form of statements.
const VERSION: u32 = 1;
/// What the file of a signing key begins with, so that scanners of secrets find it.
const PREFIX: &str = "sudare_server_key_";
/// Most bytes of that file.
const MOST_KEY_BYTES: u64 = 1024;

/// The secret key of a server, wiped when it is dropped.
pub struct SigningKey(ed25519_dalek::SigningKey);

impl SigningKey {
    /// A new one.
    ///
    /// # Errors
    /// [`Error::Library`] if the machine has no randomness to give.
    pub fn random() -> Result<Self> {
        let seed = Seed::random().map_err(sudare::Error::from)?;
        Ok(Self(ed25519_dalek::SigningKey::from_bytes(seed.as_bytes())))
    }

    /// Reads the key in a file, which is made, for the user alone, if there is none.
    ///
    /// # Errors
    /// [`Error::Usage`] for a file of something else, or that other users may read; [`Error::Io`].
    pub fn open(path: &Path) -> Result<Self> {
        if !path.exists() {
            let made = Self::random()?.write(path);
            // Another process may make it at the same time.
            if !matches!(made, Err(Error::Exists { .. })) {
                made?;
            }
        }
        let text = Zeroizing::new(files::read_text(path, MOST_KEY_BYTES)?);
        let metadata = path.metadata().map_err(|error| Error::io("read", path, error))?;
        if files::others_may_read(&metadata) {
            return Err(Error::Usage(format!(
                "{} can be read by other users of this machine, who can then sign as this server: take \
                 the permission away, as with chmod 600",
                path.display()
            )));
        }
        let mut bytes = Zeroizing::new([0; SECRET_KEY_LENGTH]);
        let digits = text.trim_end().strip_prefix(PREFIX);
        let read = digits.and_then(|digits| hex::read(digits, &mut bytes[..]));
        read.map(|()| Self(ed25519_dalek::SigningKey::from_bytes(&bytes))).ok_or_else(|| {
            Error::Usage(format!(
                "{} is no key of a server: name its file, or move this one away for a new key",
                path.display()
            ))
        })
    }

    fn write(&self, path: &Path) -> Result<()> {
        let mut text = Zeroizing::new(String::with_capacity(128));
        text.push_str(PREFIX);
        HEXLOWER.encode_append(self.0.as_bytes(), &mut text);
        text.push('\n');
        files::write_text(path, &text, false)
    }

    /// The key by which its signatures are checked.
    #[must_use]
    pub fn public(&self) -> ServerKey {
        ServerKey(self.0.verifying_key())
    }

    /// A key for something else that the server does, which says nothing of this one; `purpose` is a
    /// text of that alone.
    #[must_use]
    pub fn derive(&self, purpose: &str) -> Zeroizing<[u8; 32]> {
        Zeroizing::new(blake3::derive_key(purpose, self.0.as_bytes()))
    }

    /// Signs a statement, in which it names itself.
    ///
    /// # Errors
    /// [`Error::Bug`] if the statement has no JSON.
    pub fn sign(&self, statement: Statement) -> Result<Receipt> {
        let server_key = self.public().to_string();
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

/// The public key of a server, of 64 hexadecimal digits, which clients are told by its operator.
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
        key.filter(|key| !key.is_weak())
            .map(Self)
            .ok_or("the key of a server is 64 hexadecimal digits, as `sudare serve key` shows them")
    }
}

/// What a server says about a result. Objects are named by their BLAKE3 digests, times are seconds
/// since 1970.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Statement {
    /// The version of this form.
    pub version: u32,
    /// The key that signs it.
    pub server_key: String,
    /// The version of the program that computed.
    pub program: String,
    /// The job's name at the server.
    pub job: String,
    /// What was computed: `stats`, `groups`, `histogram`, `train` or `predict`.
    pub kind: String,
    /// Evaluation keys.
    pub keys: String,
    /// Encrypted tables.
    pub tables: Vec<String>,
    /// The model that rows were scored by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Iterations of a training, if fewer than the keys are for were asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iterations: Option<u32>,
    /// Whether the weights after each iteration were kept.
    pub history: bool,
    /// The result.
    pub result: String,
    /// Bytes of the result.
    pub bytes: u64,
    /// When it was asked for.
    pub created: i64,
    /// When it was done.
    pub finished: i64,
}

/// What somebody knows of a job, to be compared with its receipt.
#[derive(Debug, Clone, Copy, Default)]
pub struct Expected<'a> {
    /// The job's name.
    pub job: Option<&'a str>,
    /// What was to be computed.
    pub kind: Option<&'a str>,
    /// Digest of evaluation keys.
    pub keys: Option<&'a str>,
    /// Digests of encrypted tables, in their order.
    pub tables: Option<&'a [String]>,
    /// Digest of a model, or that there was none.
    pub model: Option<Option<&'a str>>,
    /// Iterations, if a number was asked for, and whether there was to be a history.
    pub training: Option<(Option<u32>, bool)>,
    /// Digest of the result.
    pub result: Option<&'a str>,
}

/// A statement with its signature, which was checked.
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
    /// Where the receipt of a result is kept: beside it.
    #[must_use]
    pub fn beside(result: &Path) -> PathBuf {
        let mut name = result.as_os_str().to_owned();
        name.push(".receipt");
        name.into()
    }

    /// The receipt in JSON as it is kept, on one line.
    ///
    /// # Errors
    /// [`Error::Bug`] if it has no JSON.
    pub fn text(&self) -> Result<String> {
        Ok(json(self)? + "\n")
    }

    /// Reads a receipt and checks its signature by the key that it names, which is any key: see
    /// [`Receipt::expect_server`].
    ///
    /// # Errors
    /// [`ReceiptError::Malformed`]; [`ReceiptError::Forged`].
    pub fn read(text: &str) -> core::result::Result<Self, ReceiptError> {
        if text.len() as u64 > MOST_BYTES {
            return Err(malformed(format!("it has {} bytes", text.len())));
        }
        let receipt: Self = serde_json::from_str(text).map_err(malformed)?;
        let Self { statement, signature } = &receipt;
        if statement.version != VERSION {
            return Err(malformed(format!(
                "it has the version {}, this program reads {VERSION}",
                statement.version
            )));
        }
        let (form, signed) = (receipt.text(), json(statement));
        let (form, signed) = form.and_then(|form| Ok((form, signed?))).map_err(malformed)?;
        if form != text {
            return Err(malformed("it was written in another form"));
        }
        let key: ServerKey = statement.server_key.parse().map_err(malformed)?;
        let mut bytes = [0; SIGNATURE_LENGTH];
        hex::read(signature, &mut bytes).ok_or_else(|| malformed("its signature is none"))?;
        let message = [CONTEXT.as_bytes(), signed.as_bytes()].concat();
        let valid = key.0.verify_strict(&message, &Signature::from_bytes(&bytes));
        valid.map_err(|_| ReceiptError::Forged)?;
        Ok(receipt)
    }

    /// Reads the receipt in a file, as [`Receipt::read`].
    ///
    /// # Errors
    /// [`Error::ReceiptFile`]; [`Error::Io`].
    pub fn open(path: &Path) -> Result<Self> {
        let text = files::read_text(path, MOST_BYTES)?;
        Self::read(&text).map_err(Error::in_receipt(path))
    }

    /// What it says.
    #[must_use]
    pub fn statement(&self) -> &Statement {
        &self.statement
    }

    /// Refuses a receipt of another server.
    ///
    /// # Errors
    /// [`ReceiptError::OtherServer`].
    pub fn expect_server(&self, key: &ServerKey) -> core::result::Result<(), ReceiptError> {
        let (found, expected) = (self.statement.server_key.clone(), key.to_string());
        match found == expected {
            true => Ok(()),
            false => Err(ReceiptError::OtherServer { found, expected }),
        }
    }

    /// Refuses a receipt for something else than is known.
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

    /// The same key and statement, signed by Python's `cryptography`.
    #[test]
    fn signatures_are_those_of_ed25519() {
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

    /// Whatever byte is changed, in whatever way, left out or put in.
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

    /// What somebody knows is compared, and nothing else.
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

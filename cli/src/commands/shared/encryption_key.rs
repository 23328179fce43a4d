//! The file of the key that encrypts.

use super::secret_key;
use crate::passphrase;
use clap::ArgGroup;
use std::{path::PathBuf, sync::Arc};
use sudare::{ckks::Params, rlwe::SecretKey};
use sudare_roles::{
    error::{Error, Result},
    format::opened::Opened,
    owner::secret::SecretFile,
};

/// The public key that you mean.
#[derive(Debug, clap::Args)]
struct Expected {
    /// Digest of the public key, as `sudare keygen` and `sudare info` print it. Any other key is
    /// rejected
    #[arg(long = "expect", value_name = "DIGEST", value_parser = digest)]
    digest: Option<[u8; 32]>,
}

/// File of a public key, and the digest that you expect.
#[derive(Debug, clap::Args)]
pub struct PublicKeyFile {
    /// Public key
    #[arg(long, value_name = "FILE")]
    public: PathBuf,
    #[command(flatten)]
    expected: Expected,
}

/// File of the key that encrypts: the public or the secret key.
#[derive(Debug, clap::Args)]
#[command(group(ArgGroup::new("key").args(["public", "secret"]).required(true)))]
pub struct EncryptionKey {
    /// Public key
    #[arg(long, value_name = "FILE")]
    public: Option<PathBuf>,
    #[command(flatten)]
    expected: Expected,
    /// Secret key, in place of the public key: its ciphertexts have half the size
    // `--expect` guards against an exchanged public key. The secret key is the owner's own file.
    #[arg(long, value_name = "FILE", conflicts_with = "digest")]
    secret: Option<PathBuf>,
    #[command(flatten)]
    passphrase: passphrase::Source,
}

/// An open file of a key that encrypts.
pub enum OpenKey {
    Public(Opened),
    Secret(SecretFile),
}

impl PublicKeyFile {
    /// Opens the file.
    pub fn open(&self) -> Result<Opened> {
        Opened::public_key_file(&self.public, self.expected.digest)
    }
}

impl EncryptionKey {
    /// Opens the file.
    pub fn open(&self) -> Result<OpenKey> {
        match (&self.public, &self.secret) {
            (Some(path), _) => {
                Ok(OpenKey::Public(Opened::public_key_file(path, self.expected.digest)?))
            }
            (None, Some(path)) => Ok(OpenKey::Secret(secret_key::open(path)?)),
            (None, None) => Err(Error::Usage("no key: pass --public FILE or --secret FILE".into())),
        }
    }

    /// Returns the path of a file in the directory of the key.
    pub fn beside(&self, name: &str) -> Option<PathBuf> {
        let key = self.public.as_ref().or(self.secret.as_ref())?;
        Some(key.with_file_name(name))
    }

    /// Reads the secret key from an open file.
    pub fn secret_key(&self, file: SecretFile, params: &Params) -> Result<Arc<SecretKey>> {
        let path = file.opened().path().to_owned();
        Ok(Arc::new(file.key(params, || self.passphrase.of(&path))?))
    }
}

/// Reads a digest.
fn digest(text: &str) -> core::result::Result<[u8; 32], &'static str> {
    let digest = blake3::Hash::from_hex(text);
    digest.map(Into::into).map_err(|_| "expected the digest of a file: 64 hexadecimal digits")
}

//! The file of the secret key.

use crate::{output::say, passphrase};
use std::path::{Path, PathBuf};
use sudare::{
    ckks::{Decryptor, Params},
    rlwe::SecretKey,
};
use sudare_roles::{error::Result, ledger::Ledger, secret::SecretFile};

/// The file of a secret key, and where its passphrase comes from.
#[derive(Debug, clap::Args)]
pub struct SecretKeyFile {
    /// Secret key
    #[arg(long, value_name = "FILE")]
    secret: PathBuf,
    #[command(flatten)]
    passphrase: passphrase::Source,
}

impl SecretKeyFile {
    /// Opens the file, and warns if others may read it.
    pub fn open(&self) -> Result<SecretFile> {
        open(&self.secret)
    }

    /// The key in the open file.
    pub fn key(&self, file: SecretFile, params: &Params) -> Result<SecretKey> {
        file.key(params, || self.passphrase.of(&self.secret))
    }

    /// The ledger of the key's releases, which is beside the file. Says so if it does not exist.
    pub fn ledger(&self, params: &Params, decryptor: &Decryptor) -> Result<Ledger> {
        let ledger = Ledger::beside(&self.secret, params.rlwe().id(), decryptor.key_id())?;
        if let Some(notice) = ledger.notice() {
            say(notice);
        }
        Ok(ledger)
    }
}

/// Opens the file of a secret key, and warns if others may read it.
pub fn open(path: &Path) -> Result<SecretFile> {
    let file = SecretFile::open(path)?;
    if let Some(warning) = file.warning() {
        say(format_args!("warning: {warning}"));
    }
    Ok(file)
}

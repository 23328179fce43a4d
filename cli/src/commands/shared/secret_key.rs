//! The file of the secret key.

use crate::{output::say, passphrase};
use std::path::{Path, PathBuf};
use sudare::{
    ckks::{Decryptor, Params},
    rlwe::SecretKey,
};
use sudare_roles::{
    error::Result,
    owner::{ledger::Ledger, secret::SecretFile},
};

/// File of a secret key, and the source of its passphrase.
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

    /// Reads the key from the open file.
    pub fn key(&self, file: SecretFile, params: &Params) -> Result<SecretKey> {
        file.key(params, || self.passphrase.of(&self.secret))
    }

    /// Opens the ledger of the key's releases next to its file. Prints a notice if the ledger is missing.
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

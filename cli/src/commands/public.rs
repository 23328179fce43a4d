//! What the commands share that encrypt: the file of the public key.

use std::path::PathBuf;
use sudare_roles::{error::Result, opened::Opened};

/// The file of a public key, and which one is meant.
#[derive(Debug, clap::Args)]
pub struct Public {
    /// Public key
    #[arg(long, value_name = "FILE")]
    public: PathBuf,
    /// Refuse any other public key than that of this digest, as `sudare keygen` and `sudare info`
    /// print it
    #[arg(long, value_name = "DIGEST", value_parser = digest)]
    expect: Option<[u8; 32]>,
}

impl Public {
    /// Opens the file.
    pub fn open(&self) -> Result<Opened> {
        Opened::public_key_file(&self.public, self.expect)
    }
}

/// Reads a digest.
pub(super) fn digest(text: &str) -> core::result::Result<[u8; 32], &'static str> {
    let digest = blake3::Hash::from_hex(text);
    digest.map(Into::into).map_err(|_| "64 hexadecimal digits are needed, the digest of a file")
}

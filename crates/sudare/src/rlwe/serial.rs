//! What the files of all schemes share: their frame, keys in it, and how ciphertexts are read and
//! written.
//!
//! The format is described in `docs/file-format.md`. Writers and readers stream:
//! beside the object itself they hold the header and one packed row.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

mod content;
mod frame;
mod header;
mod reader;
mod scheme;
mod writer;

use crate::Error;
use core::fmt;
use frame::{FileReader, FileWriter, Preamble};
use header::{Content, Header, Sections};
pub use reader::{CiphertextReader, Info, Reader, digest};
pub use scheme::{PrimeCounts, Scheme};
use serde::{Deserialize, Serialize};
pub use writer::{
    CiphertextWriter, evaluation_keys_bytes, generate_evaluation_keys, write_ciphertexts,
    write_evaluation_keys, write_public_key, write_secret_key, write_seeded_ciphertexts,
};

/// The version of the format written and read here.
pub const FORMAT_VERSION: u32 = 1;

/// Sections begin at multiples of this.
const ALIGN: u64 = 64;
const HASH_BYTES: u64 = blake3::OUT_LEN as u64;
const PREAMBLE_BYTES: u64 = 64;

/// What a file holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A secret key.
    SecretKey,
    /// A public key.
    PublicKey,
    /// Evaluation keys.
    EvaluationKeys,
    /// Ciphertexts.
    Ciphertexts,
}

impl Kind {
    const ALL: [Self; 4] =
        [Self::SecretKey, Self::PublicKey, Self::EvaluationKeys, Self::Ciphertexts];

    /// Its number in files.
    fn code(self) -> u16 {
        match self {
            Self::SecretKey => 1,
            Self::PublicKey => 2,
            Self::EvaluationKeys => 3,
            Self::Ciphertexts => 4,
        }
    }

    /// Name of the kind in messages.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::SecretKey => "secret key",
            Self::PublicKey => "public key",
            Self::EvaluationKeys => "evaluation keys",
            Self::Ciphertexts => "ciphertexts",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// What an application says about the content. This crate stores it and gives it
/// back; together at most 16 MiB.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Label {
    /// Name of the parameters or preset.
    pub name: String,
    /// What the content is, such as `table`.
    pub content: String,
    /// Anything else.
    pub meta: Vec<u8>,
}

fn malformed(problem: String) -> Error {
    Error::Malformed { what: "file", problem }
}

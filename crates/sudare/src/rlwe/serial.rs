//! The parts that files of all schemes share: the frame, keys, and reading and writing of
//! ciphertexts.
//!
//! The format is described in `docs/file-format.md`. Writers and readers stream: in addition to the
//! object itself they hold the header and one packed row.
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

/// Alignment of sections, in bytes.
const ALIGN: u64 = 64;
const HASH_BYTES: u64 = blake3::OUT_LEN as u64;
const PREAMBLE_BYTES: u64 = 64;

/// Kind of the content of a file.
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

    /// Number of the kind in files.
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

/// An application's description of the content. This crate stores it and returns it. Maximum size:
/// 16 MiB in total.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Label {
    /// Name of the parameters or preset.
    pub name: String,
    /// Kind of the content, such as `table`.
    pub content: String,
    /// Any other data of the application.
    pub meta: Vec<u8>,
}

fn malformed(problem: String) -> Error {
    Error::Malformed { what: "file", problem }
}

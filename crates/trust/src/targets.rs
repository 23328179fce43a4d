//! Fuzz targets: plain functions that take any bytes and must not fail.
//!
//! There are three harnesses. The first one parses. The second one also evaluates accepted input,
//! and the third one decrypts it. A target must return for any bytes. A panic or more than a second
//! is a fault. For targets that only parse, so is more memory than [`heap_limit`].

mod clt;
mod decrypt;
mod evaluate;
mod exact;
mod parse;
mod script;
mod search;

use crate::mutate::{self, Rng};
use std::path::Path;

/// The treatment of accepted input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Harness {
    /// Nothing.
    Parse,
    /// Computes with the input.
    Evaluate,
    /// Decrypts the input.
    Decrypt,
}

/// The stage that an input reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reached {
    /// Refused at the frame: a checksum, a size, or a header that cannot be read.
    Frame,
    /// Refused after the frame.
    Content,
    /// Accepted.
    Accepted,
}

impl Reached {
    fn content<T, E>(result: Result<T, E>) -> Self {
        if result.is_ok() { Self::Accepted } else { Self::Content }
    }

    /// Classifies a result of the library. Checksums after the header may be wrong too.
    fn of_read<T>(result: &sudare::Result<T>) -> Self {
        use sudare::Error::{Checksum, Truncated};
        match result {
            Ok(_) => Self::Accepted,
            Err(Checksum { .. } | Truncated { .. }) => Self::Frame,
            Err(_) => Self::Content,
        }
    }
}

/// A fuzz target.
pub struct Target {
    /// The name of the target, and of the directory of its corpus.
    pub name: &'static str,
    /// The treatment of accepted input.
    pub harness: Harness,
    /// Updates checksums.
    pub prepare: fn(&[u8]) -> Vec<u8>,
    /// Runs the target on a prepared input.
    pub run: fn(&[u8]) -> Reached,
    /// Alters an input before it is prepared.
    pub mutate: fn(&mut Vec<u8>, &mut Rng),
    /// Initial inputs.
    pub seeds: fn() -> Vec<Vec<u8>>,
}

/// All targets.
pub const TARGETS: &[Target] = &[
    parse::SECRET_KEY,
    parse::PUBLIC_KEY,
    parse::SEALED,
    parse::EVALUATION_KEYS,
    parse::CIPHERTEXTS,
    parse::LABEL,
    parse::ARRAY,
    parse::PART,
    parse::CSV,
    parse::NPY,
    parse::PARQUET,
    parse::MODEL,
    parse::ONNX,
    parse::SCHEMA,
    parse::TRANSFORM,
    search::INDEX,
    exact::KEYS,
    exact::CIPHERTEXTS,
    clt::CIPHERTEXT,
    evaluate::KEYS_USED,
    evaluate::CIPHERTEXTS_USED,
    evaluate::JOB,
    search::LABEL,
    evaluate::TABLE,
    evaluate::CHECKPOINT,
    exact::USED,
    clt::USED,
    decrypt::CIPHERTEXTS_DECRYPTED,
    decrypt::RESULT,
    decrypt::NOTE,
    exact::DECRYPTED,
];

/// Returns the target with this name.
#[must_use]
pub fn target(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}

/// Returns the maximum heap for parsing an input, in bytes.
#[must_use]
pub fn heap_limit(input: usize) -> usize {
    2 * input + (1 << 20)
}

/// Alters an input of the named target, to at most `most` bytes. Fuzzers call this.
///
/// # Panics
/// If there is no such target.
pub fn mutate(name: &str, input: &[u8], most: usize, seed: u32) -> Vec<u8> {
    let mut altered = input.to_vec();
    (target(name).unwrap().mutate)(&mut altered, &mut Rng::new(seed.into()));
    altered.truncate(most);
    altered
}

/// Returns the directory of a target's committed corpus.
#[must_use]
pub fn corpus(target: &Target) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target.name)
}

fn unchanged(input: &[u8]) -> Vec<u8> {
    input.to_vec()
}

fn mutate_bytes(input: &mut Vec<u8>, rng: &mut Rng) {
    mutate::bytes(input, &[], rng);
}

/// Inserts and removes tokens of a text.
fn mutate_text(input: &mut Vec<u8>, rng: &mut Rng) {
    const WORDS: &[&[u8]] = &[
        b"1e308",
        b"-1e-320",
        b"NaN",
        b"inf",
        b"null",
        b"true",
        b"[]",
        b"{}",
        b"[[",
        b"\"\"",
        b",",
        b";",
        b"\t",
        b"\n",
        b"\r\n",
        b"\"",
        b"\\u0000",
        b"\xef\xbb\xbf",
        b"\xff",
        b"0,0",
        b"9999999999",
        b"-1",
        b"1.5",
        b"\"weights\":",
        b"\"columns\":",
        b"\"categories\":",
    ];
    mutate::bytes(input, WORDS, rng);
}

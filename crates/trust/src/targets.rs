//! Plain functions that take any bytes and must not fail: the targets of fuzzing.
//!
//! There are three harnesses. The first one parses; the second also evaluates what was accepted;
//! the third one decrypts it. A target is right if it returns for any bytes: a panic, more than a
//! second or, for what only parses, more memory than [`heap_limit`] is a fault.

mod decrypt;
mod evaluate;
mod exact;
mod integers;
mod parse;
mod script;
mod search;

use crate::mutate::{self, Rng};
use std::path::Path;

/// What a target does with bytes that are accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Harness {
    /// Nothing.
    Parse,
    /// Computes with them.
    Evaluate,
    /// Decrypts them.
    Decrypt,
}

/// How far bytes came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reached {
    /// They were refused by their frame: a checksum, a size, or a header that cannot be told.
    Frame,
    /// They were refused behind it.
    Content,
    /// They were accepted.
    Accepted,
}

impl Reached {
    fn content<T, E>(result: Result<T, E>) -> Self {
        if result.is_ok() { Self::Accepted } else { Self::Content }
    }

    /// Of what the library read, whose checksums may be wrong after the header's.
    fn of_read<T>(result: &sudare::Result<T>) -> Self {
        use sudare::Error::{Checksum, Truncated};
        match result {
            Ok(_) => Self::Accepted,
            Err(Checksum { .. } | Truncated { .. }) => Self::Frame,
            Err(_) => Self::Content,
        }
    }
}

/// A target.
pub struct Target {
    /// The name of the target, and of the folder of its corpus.
    pub name: &'static str,
    /// What it does with bytes that are accepted.
    pub harness: Harness,
    /// Makes checksums anew.
    pub prepare: fn(&[u8]) -> Vec<u8>,
    /// Takes what was prepared.
    pub run: fn(&[u8]) -> Reached,
    /// Alters an input before it is prepared.
    pub mutate: fn(&mut Vec<u8>, &mut Rng),
    /// Inputs to begin with.
    pub seeds: fn() -> Vec<Vec<u8>>,
}

/// All of them.
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
    integers::CIPHERTEXT,
    evaluate::KEYS_USED,
    evaluate::CIPHERTEXTS_USED,
    evaluate::JOB,
    search::LABEL,
    evaluate::TABLE,
    evaluate::CHECKPOINT,
    exact::USED,
    integers::USED,
    decrypt::CIPHERTEXTS_DECRYPTED,
    decrypt::RESULT,
    decrypt::NOTE,
    exact::DECRYPTED,
];

/// The target of a name.
#[must_use]
pub fn target(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}

/// Bytes that parsing an input may take at most.
#[must_use]
pub fn heap_limit(input: usize) -> usize {
    2 * input + (1 << 20)
}

/// Alters an input of the target of this name, at most to so many bytes: what a fuzzer calls.
///
/// # Panics
/// If there is no such target.
pub fn mutate(name: &str, input: &[u8], most: usize, seed: u32) -> Vec<u8> {
    let mut altered = input.to_vec();
    (target(name).unwrap().mutate)(&mut altered, &mut Rng::new(seed.into()));
    altered.truncate(most);
    altered
}

/// The corpus of a target, which is committed.
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

/// Text in which tokens come and go.
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

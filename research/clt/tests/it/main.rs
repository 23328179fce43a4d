//! The scheme against the clear, against its attack, and as a program.
#![expect(clippy::unwrap_used, reason = "a test may fail this way")]

mod aes;
mod key_recovery;
#[cfg(feature = "program")]
mod program;
mod scheme;

//! What the project promises, as programs and tests that could fail.
//!
//! | module | what it is for |
//! |---|---|
//! | [`targets`] | plain functions that take any bytes and must not fail: the targets of fuzzing |
//! | [`mod@file`] | files whose checksums are made anew after they were altered |
//! | [`mutate`] | altering bytes, with a seed |
//! | [`world`], [`exact`] | keys, tables and results to try them on |
//! | [`campaign`] | running a target on altered inputs, with limits of time and memory |
//! | [`promises`] | the table of promises in SECURITY.md, and its tests |
#![forbid(unsafe_code)]
#![expect(clippy::unwrap_used, reason = "what is made here has to work, or a test fails")]

pub mod campaign;
pub mod exact;
pub mod file;
pub mod mutate;
pub mod promises;
pub mod targets;
pub mod world;

//! Programs and tests that check the project's promises.
//!
//! | module | content |
//! |---|---|
//! | [`targets`] | fuzz targets: plain functions that take any bytes and must not fail |
//! | [`mod@file`] | files whose checksums are updated after an alteration |
//! | [`mutate`] | alterations of bytes, derived from a seed |
//! | [`world`], [`exact`] | keys, tables and results for the targets |
//! | [`campaign`] | runs of a target on altered inputs, within limits of time and memory |
//! | [`promises`] | the table of promises in SECURITY.md, and its tests |
#![forbid(unsafe_code)]
#![expect(clippy::unwrap_used, reason = "a failure here must fail the test")]

pub mod campaign;
pub mod exact;
pub mod file;
pub mod mutate;
pub mod promises;
pub mod targets;
pub mod world;

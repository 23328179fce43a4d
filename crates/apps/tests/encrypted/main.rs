//! What is computed on encrypted data, against the same in the clear. One program, since each would
//! compile most of the library's generic code for itself.
#![expect(clippy::unwrap_used, reason = "a test may fail this way")]

mod array;
mod bounds;
mod functions;
mod logreg;
mod parties;
mod ranges;
mod score;
#[path = "../../../sudare/tests/session/mod.rs"]
mod session;
mod share;
mod stats;

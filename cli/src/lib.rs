//! Computing on encrypted tables from the command line.
//!
//! [`run`] is the command `sudare`, for the binary of that name and for the Python package, which
//! ships the same command. [`sudare_roles`] has the work on tables and files. The program
//! `sudare-bench` shares [`program`], [`output`], [`progress`] and [`bench`](mod@bench).
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::arithmetic_side_effects))]
#![forbid(unsafe_code)]

mod args;
pub mod bench;
mod commands;
mod interrupt;
pub mod output;
mod passphrase;
pub mod program;
pub mod progress;
mod remote;
mod values;

use std::ffi::OsString;

/// Runs a command line, the name of the program first, and returns the exit status of the process.
/// Ctrl-C removes unfinished files and ends the process. Servers end as they do when they are told
/// to.
#[must_use]
pub fn run(args: Vec<OsString>) -> u8 {
    program::run::<args::Args>(args)
}

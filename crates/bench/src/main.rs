//! Benchmarks: operations, circuits and reproductions of published measurements.
//!
//! The program takes the operations of `sudare bench`, and more, and prints the same lines.
#![forbid(unsafe_code)]

mod args;
mod circuit;
mod clt;
mod digits;
mod fma;
mod matrices;
mod op;
mod published;
mod strategies;
mod trace;

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(sudare_cli::program::run::<args::Args>(std::env::args_os().collect()))
}

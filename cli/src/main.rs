//! The command `sudare`.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(sudare_cli::run(std::env::args_os().collect()))
}

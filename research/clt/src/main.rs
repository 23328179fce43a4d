//! The program `sudare-clt`: sets of the scheme explained, and AES-128 on encrypted blocks.
#![forbid(unsafe_code)]

use std::process::ExitCode;
use sudare_research_clt::program::Args;

fn main() -> ExitCode {
    ExitCode::from(sudare_cli::program::run::<Args>(std::env::args_os().collect()))
}

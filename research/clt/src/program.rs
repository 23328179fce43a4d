//! Commands of the program `sudare-clt`, and parts that benchmarks share with them.

mod aes;
mod sets;

use clap::{Parser, Subcommand};
use sudare_cli::{
    output::Output,
    program::{Common, Program},
};
use sudare_roles::error::Result;

pub use sets::{Session, refused};

/// Computing on ciphertexts that are plain integers: insecure, for research
///
/// Lattice reduction finds the secret primes of the published parameters. Protect nothing with them.
#[derive(Debug, Parser)]
#[command(
    name = "sudare-clt",
    version,
    after_help = "Examples:\n  sudare-clt aes\n  sudare-clt params clt-500"
)]
pub struct Args {
    #[command(flatten)]
    common: Common,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Aes(aes::Args),
    Params(sets::Args),
}

impl Program for Args {
    fn common(&self) -> &Common {
        &self.common
    }

    fn run(&self, _threads: &[usize], output: Output) -> Result<()> {
        match &self.command {
            Command::Aes(args) => aes::run(args, output),
            Command::Params(args) => sets::run(args, output),
        }
    }
}

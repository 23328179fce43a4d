//! The commands, one file each: its arguments, its result and what makes it.

pub mod bench;
pub mod decrypt;
pub mod demo;
pub mod doctor;
pub mod encrypt;
pub mod evaluate;
mod exact;
pub mod info;
pub mod integers;
pub mod key;
pub mod keygen;
pub mod params;
pub mod pool;
pub mod predict;
mod public;
pub mod report;
pub mod schema;
mod secret;
pub mod selftest;
pub mod server;
pub mod stats;
pub mod train;

use crate::{
    args::{Args, Command},
    output::Output,
};
use clap::CommandFactory;
use sudare_roles::error::Result;

/// Does what `command` says; `threads` are those asked for.
pub fn run(command: &Command, threads: &[usize], output: Output) -> Result<()> {
    match command {
        Command::Demo(args) => demo::run(args, output),
        Command::Params(args) => params::run(args, output),
        Command::Keygen(args) => keygen::run(args, output),
        Command::Key(args) => key::run(args, output),
        Command::Encrypt(args) => encrypt::run(args, output),
        Command::Schema(args) => schema::run(args, output),
        Command::Pool(args) => pool::run(args, output),
        Command::Stats(args) => stats::run(args, output),
        Command::Train(args) => train::run(args, output),
        Command::Decrypt(args) => decrypt::run(args, output),
        Command::Predict(args) => predict::run(args, output),
        Command::Evaluate(args) => evaluate::run(args, output),
        Command::Report(args) => report::run(args, output),
        Command::Info(args) => info::run(args, output),
        Command::Bench(args) => bench::run(args, threads, output),
        Command::Selftest(args) => selftest::run(args, output),
        Command::Doctor(args) => doctor::run(args, output),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(*shell, &mut Args::command(), "sudare", &mut script);
            output.write_data(&String::from_utf8_lossy(&script))
        }
    }
}

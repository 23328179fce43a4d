//! The arguments of every command.

use crate::commands::{
    bench, decrypt, demo, doctor, encrypt, evaluate, info, keygen, params, predict, selftest,
    stats, train,
};
use clap::{Parser, Subcommand};
use clap_complete::Shell;
use std::num::NonZeroU16;

/// Computing on encrypted tables: statistics and logistic regression on data that
/// the computing machine cannot read.
///
/// The data owner makes keys, encrypts a table and decrypts the result. The server
/// gets evaluation keys and ciphertexts only.
#[derive(Debug, Parser)]
#[command(name = "sudare", version, after_help = "Start with: sudare demo")]
pub struct Args {
    /// Print one JSON object, or JSON lines, on standard output
    #[arg(long, global = true)]
    pub json: bool,
    /// Threads to work on, as many as there are processors if left out; several numbers, such as
    /// 1,2, for bench strategies
    #[arg(long, global = true, value_name = "N")]
    pub threads: Option<Threads>,
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    Demo(demo::Args),
    Params(params::Args),
    Keygen(keygen::Args),
    Encrypt(encrypt::Args),
    Stats(stats::Args),
    Train(train::Args),
    Decrypt(decrypt::Args),
    Predict(predict::Args),
    Evaluate(evaluate::Args),
    Info(info::Args),
    Bench(bench::Args),
    Selftest(selftest::Args),
    Doctor(doctor::Args),
    /// Print a completion script for a shell
    #[command(
        after_help = "Example: sudare completions bash > ~/.local/share/bash-completion/completions/sudare"
    )]
    Completions {
        /// The shell
        shell: Shell,
    },
}

/// Numbers of threads, 1 to 1024 each.
#[derive(Debug, Clone)]
pub struct Threads(Vec<NonZeroU16>);

impl core::str::FromStr for Threads {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let number =
            |text: &str| text.parse::<NonZeroU16>().ok().filter(|count| count.get() <= 1024);
        let all = text.split(',').map(number).collect::<Option<_>>();
        all.map(Self).ok_or("a whole number from 1 to 1024 is needed")
    }
}

impl Threads {
    /// All of them.
    pub fn counts(&self) -> Vec<usize> {
        self.0.iter().map(|&count| count.get().into()).collect()
    }
}

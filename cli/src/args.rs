//! The arguments of every command.

#[cfg(not(feature = "cluster"))]
use crate::commands::absent;
#[cfg(feature = "cluster")]
use crate::commands::server::work;
#[cfg(feature = "serve")]
use crate::commands::{owner::web, server::serve};
use crate::{
    commands::{
        owner::{
            decrypt, encrypt, evaluate, key, keygen, pool, receipt, remote, report, schema, search,
            trees,
        },
        server::{predict, stats, train},
        tools::{bench, demo, doctor, info, params, selftest},
    },
    output::Output,
    program::{Common, Program},
};
use clap::{CommandFactory, Parser, Subcommand};
use clap_complete::Shell;
use sudare_roles::error;

/// Compute on encrypted tables: statistics and logistic regression on data that the computing
/// machine cannot read
///
/// The data owner makes keys, encrypts a table and decrypts the result. The server has only
/// evaluation keys and ciphertexts.
#[derive(Debug, Parser)]
#[command(name = "sudare", version, after_help = "Start with: sudare demo")]
pub struct Args {
    #[command(flatten)]
    common: Common,
    #[command(subcommand)]
    command: Command,
}

/// A command.
#[derive(Debug, Subcommand)]
pub enum Command {
    Demo(demo::Args),
    Params(params::Args),
    Keygen(keygen::Args),
    Key(key::Args),
    Encrypt(encrypt::Args),
    Schema(schema::Args),
    Pool(pool::Args),
    Search(search::Args),
    Trees(trees::Args),
    Stats(stats::Args),
    Train(train::Args),
    Decrypt(decrypt::Args),
    Predict(predict::Args),
    Evaluate(evaluate::Args),
    Report(report::Args),
    #[cfg(feature = "serve")]
    Serve(serve::Args),
    #[cfg(feature = "cluster")]
    Work(work::Args),
    Remote(remote::Args),
    Receipt(receipt::Args),
    #[cfg(feature = "serve")]
    Web(web::Args),
    Info(info::Args),
    Bench(bench::Args),
    Selftest(selftest::Args),
    Doctor(doctor::Args),
    #[cfg(not(feature = "cluster"))]
    #[command(flatten)]
    Absent(absent::Command),
    /// Print a completion script for a shell
    #[command(
        after_help = "Example: sudare completions bash > ~/.local/share/bash-completion/completions/sudare"
    )]
    Completions {
        /// Shell to print the script for
        shell: Shell,
    },
}

impl Program for Args {
    fn common(&self) -> &Common {
        &self.common
    }

    fn handles_interrupts(&self) -> bool {
        match &self.command {
            #[cfg(feature = "serve")]
            Command::Serve(args) => serve::minds_interrupts(args),
            #[cfg(feature = "serve")]
            Command::Web(args) => args.serves(),
            #[cfg(feature = "cluster")]
            Command::Work(_) => true,
            _ => false,
        }
    }

    fn run(&self, _threads: &[usize], output: Output) -> error::Result<()> {
        match &self.command {
            Command::Demo(args) => demo::run(args, output),
            Command::Params(args) => params::run(args, output),
            Command::Keygen(args) => keygen::run(args, output),
            Command::Key(args) => key::run(args, output),
            Command::Encrypt(args) => encrypt::run(args, output),
            Command::Schema(args) => schema::run(args, output),
            Command::Pool(args) => pool::run(args, output),
            Command::Search(args) => search::run(args, output),
            Command::Trees(args) => trees::run(args, output),
            Command::Stats(args) => stats::run(args, output),
            Command::Train(args) => train::run(args, output),
            Command::Decrypt(args) => decrypt::run(args, output),
            Command::Predict(args) => predict::run(args, output),
            Command::Evaluate(args) => evaluate::run(args, output),
            Command::Report(args) => report::run(args, output),
            #[cfg(feature = "serve")]
            Command::Serve(args) => serve::run(args, output),
            #[cfg(feature = "cluster")]
            Command::Work(args) => work::run(args, output),
            Command::Remote(args) => remote::run(args, output),
            Command::Receipt(args) => receipt::run(args, output),
            #[cfg(feature = "serve")]
            Command::Web(args) => web::run(args, output),
            Command::Info(args) => info::run(args, output),
            Command::Bench(args) => bench::run(args, output),
            Command::Selftest(args) => selftest::run(args, output),
            Command::Doctor(args) => doctor::run(args, output),
            #[cfg(not(feature = "cluster"))]
            Command::Absent(command) => absent::run(command),
            Command::Completions { shell } => {
                let mut script = Vec::new();
                clap_complete::generate(*shell, &mut Args::command(), "sudare", &mut script);
                output.write_data(&String::from_utf8_lossy(&script))
            }
        }
    }
}

//! Computing on encrypted tables from the command line.
//!
//! [`run`] is the command `sudare`, for the binary of that name and for the Python package, which
//! ships the same command. What commands do with tables and files is [`sudare_roles`].
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::arithmetic_side_effects))]
#![forbid(unsafe_code)]

mod args;
mod commands;
mod interrupt;
mod output;
mod passphrase;
mod progress;
mod remote;
mod values;

use args::{Args, Command, Threads};
use clap::Parser;
use output::{Output, say};
use serde_json::json;
use std::{
    ffi::OsString,
    panic::{self, AssertUnwindSafe},
};
use sudare_arith::par;
use sudare_roles::error::{self, Error, MISTAKE};

/// Does what a command line says, the name of the program first, and returns the exit status of
/// the process. From then on Ctrl-C removes unfinished files and ends the process, but for servers,
/// which end as they do when they are told to.
#[must_use]
pub fn run(args: Vec<OsString>) -> u8 {
    let json = args.iter().any(|arg| arg == "--json");
    let args = match Args::try_parse_from(args) {
        Ok(args) => args,
        Err(error) => return usage(&error, json),
    };
    if !args.command.stops_by_itself() {
        interrupt::clean_up();
    }
    let outcome = panic::catch_unwind(AssertUnwindSafe(|| work(&args)));
    let error = match outcome {
        Ok(Ok(())) => return 0,
        Ok(Err(error)) => error,
        Err(_) => Error::Bug("the program stopped in the middle of its work".into()),
    };
    if error.exit_code() != 0 {
        say(format_args!("error: {error}"));
        if args.json {
            report(&error.to_string(), &error.kind(), error.exit_code());
        }
    }
    error.exit_code()
}

fn work(args: &Args) -> error::Result<()> {
    let output = Output { json: args.json };
    let threads = args.threads.as_ref().map_or_else(Vec::new, Threads::counts);
    let work = || args::run(&args.command, &threads, output);
    match threads[..] {
        [] => work(),
        [count] => par::with_threads(count, work).map_err(sudare::Error::from)?,
        _ if matches!(&args.command, Command::Bench(bench) if bench.compares_threads()) => work(),
        _ => Err(Error::Usage(
            "several numbers of threads are for `bench strategies`: write --threads N".into(),
        )),
    }
}

/// What the argument parser has to say: help and version on standard output, else
/// the user's mistake.
fn usage(error: &clap::Error, json: bool) -> u8 {
    let printed = error.print();
    if !error.use_stderr() {
        return printed.map_or_else(|error| Error::Stdout(error).exit_code(), |()| 0);
    }
    if json {
        report(&first_paragraph(&error.to_string()), "Usage", MISTAKE);
    }
    MISTAKE
}

/// What the argument parser says is wrong, on one line, without advice on its use.
fn first_paragraph(text: &str) -> String {
    let lines = text.lines().map(str::trim).take_while(|line| !line.is_empty());
    let line = lines.collect::<Vec<_>>().join(" ");
    line.strip_prefix("error: ").map_or(line.clone(), str::to_owned)
}

fn report(message: &str, kind: &str, exit_code: u8) {
    say(json!({ "error": message, "kind": kind, "exit_code": exit_code }));
}

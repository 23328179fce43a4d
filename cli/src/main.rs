//! Computing on encrypted tables from the command line.
#![forbid(unsafe_code)]

mod args;
mod artefacts;
mod commands;
mod error;
mod files;
mod machine;
mod model;
mod output;
mod progress;
mod sets;

use args::{Args, Command, Threads};
use clap::Parser;
use error::{Error, MISTAKE};
use output::{Output, say};
use serde_json::json;
use std::{
    panic::{self, AssertUnwindSafe},
    process::ExitCode,
};
use sudare_arith::par;

fn main() -> ExitCode {
    files::clean_up_on_interrupt();
    let args = match Args::try_parse() {
        Ok(args) => args,
        Err(error) => return usage(&error),
    };
    let outcome = panic::catch_unwind(AssertUnwindSafe(|| run(&args)));
    let error = match outcome {
        Ok(Ok(())) => return ExitCode::SUCCESS,
        Ok(Err(error)) => error,
        Err(_) => Error::Bug("the program stopped in the middle of its work".into()),
    };
    if error.exit_code() != 0 {
        say(format_args!("error: {error}"));
        if args.json {
            report(&error.to_string(), &error.kind(), error.exit_code());
        }
    }
    ExitCode::from(error.exit_code())
}

fn run(args: &Args) -> error::Result<()> {
    let output = Output { json: args.json };
    let threads = args.threads.as_ref().map_or_else(Vec::new, Threads::counts);
    let work = || commands::run(&args.command, &threads, output);
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
fn usage(error: &clap::Error) -> ExitCode {
    let printed = error.print();
    if !error.use_stderr() {
        let code = printed.map_or_else(|error| Error::Stdout(error).exit_code(), |()| 0);
        return ExitCode::from(code);
    }
    if std::env::args_os().any(|arg| arg == "--json") {
        report(&first_paragraph(&error.to_string()), "Usage", MISTAKE);
    }
    ExitCode::from(MISTAKE)
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

//! The way from a command line to an exit status, which programs share.

use crate::{
    interrupt,
    output::{Output, say},
};
use clap::Parser;
use serde_json::json;
use std::{
    ffi::OsString,
    num::NonZeroU16,
    panic::{self, AssertUnwindSafe},
};
use sudare_arith::par;
use sudare_roles::error::{self, Error, MISTAKE};

/// Options of every command.
#[derive(Debug, clap::Args)]
pub struct Common {
    /// Print one JSON object, or JSON lines, on standard output
    #[arg(long, global = true, display_order = 900)]
    pub json: bool,
    /// Threads to work on, 1 to 1024; default: all processors
    #[arg(long, global = true, value_name = "N", display_order = 901)]
    pub threads: Option<Threads>,
}

/// Arguments of a program.
pub trait Program: Parser + Sync {
    /// Returns the options of every command.
    fn common(&self) -> &Common;

    /// Decides whether the program ends by itself after Ctrl-C, as servers do.
    fn handles_interrupts(&self) -> bool {
        false
    }

    /// Decides whether the command compares several numbers of threads.
    fn compares_threads(&self) -> bool {
        false
    }

    /// Runs the command; `threads` are the numbers of threads given.
    ///
    /// # Errors
    /// Errors of the command.
    fn run(&self, threads: &[usize], output: Output) -> error::Result<()>;
}

/// Runs a program with a command line, the name of the program first, and returns the exit status
/// of the process. Ctrl-C removes unfinished files and ends the process, unless the program
/// handles it.
#[must_use]
pub fn run<P: Program>(args: Vec<OsString>) -> u8 {
    // Looked for by hand: if parsing fails, there are no parsed options.
    let json = args.iter().any(|arg| arg == "--json");
    let args = match P::try_parse_from(args) {
        Ok(args) => args,
        Err(error) => return usage(&error, json),
    };
    if !args.handles_interrupts() {
        interrupt::clean_up();
    }
    // A panic is a bug. It must end with status 1 and the promised JSON, not with 101.
    let outcome = panic::catch_unwind(AssertUnwindSafe(|| work(&args)));
    let error = match outcome {
        Ok(Ok(())) => return 0,
        Ok(Err(error)) => error,
        Err(_) => Error::Bug("the program stopped in the middle of its work".into()),
    };
    // Status 0 with an error means a closed pipe, as after `| head`: nothing went wrong.
    if error.exit_code() != 0 {
        say(format_args!("error: {error}"));
        if args.common().json {
            report(&error.to_string(), &error.kind(), error.exit_code());
        }
    }
    error.exit_code()
}

fn work<P: Program>(args: &P) -> error::Result<()> {
    let output = Output { json: args.common().json };
    let threads = args.common().threads.as_ref().map_or_else(Vec::new, Threads::counts);
    let work = || args.run(&threads, output);
    match threads[..] {
        // The global pool has all processors.
        [] => work(),
        [count] => par::with_threads(count, work).map_err(sudare::Error::from)?,
        // Such a command sets the number of threads itself, for each measurement.
        _ if args.compares_threads() => work(),
        _ => Err(Error::Usage(
            "several numbers of threads are for `sudare-bench strategies`: pass --threads N".into(),
        )),
    }
}

/// Prints a message of the argument parser: help and version on standard output, a mistake on
/// standard error. Returns the exit status.
fn usage(error: &clap::Error, json: bool) -> u8 {
    let printed = error.print();
    if !error.use_stderr() {
        // Help and version also come here as errors of the parser.
        return printed.map_or_else(|error| Error::Stdout(error).exit_code(), |()| 0);
    }
    if json {
        report(&first_paragraph(&error.to_string()), "Usage", MISTAKE);
    }
    MISTAKE
}

/// Returns the first paragraph of the argument parser's message on one line, without advice on its
/// use.
fn first_paragraph(text: &str) -> String {
    let lines = text.lines().map(str::trim).take_while(|line| !line.is_empty());
    let line = lines.collect::<Vec<_>>().join(" ");
    line.strip_prefix("error: ").map_or(line.clone(), str::to_owned)
}

fn report(message: &str, kind: &str, exit_code: u8) {
    say(json!({ "error": message, "kind": kind, "exit_code": exit_code }));
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
        all.map(Self).ok_or(
            "expected a whole number from 1 to 1024, or for sudare-bench strategies several such as 1,2",
        )
    }
}

impl Threads {
    /// Lists all of the numbers.
    #[must_use]
    pub fn counts(&self) -> Vec<usize> {
        self.0.iter().map(|&count| count.get().into()).collect()
    }
}

//! Times CKKS operations and bootstrapping of poulpy-ckks and prints one JSON line per operation,
//! in the form of `sudare bench --json`.
//!
//! Inputs are drawn afresh in every run of the program. Every result is decrypted and compared with
//! what it should be; a wrong one makes the exit status 1.

mod backend;
mod bootstrap;
mod client;
mod leveled;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use backend::INSTRUCTION_SET;

const USAGE: &str = "usage: sudare-peer-poulpy --params SET [--ops mul_rescale,rotate] [--runs 5] \
                     [--threads 1]\nwith n15-q610 or n16-d24 for SET, or a bootstrapping preset of \
                     the library, +pow2 behind it for keys of power-of-two rotations alone";
const LIBRARY_VERSION: &str = "0.10.0";

/// Shortest time over which one run averages; far above the clock's resolution.
const MIN_RUN: Duration = Duration::from_millis(2);

struct Options {
    params: String,
    ops: Vec<String>,
    runs: usize,
}

impl Options {
    fn parse(mut args: impl Iterator<Item = String>) -> Result<Self> {
        let (mut params, mut ops, mut runs) = (None, None, 5);
        while let Some(flag) = args.next() {
            let value = args.next().with_context(|| format!("{flag} needs a value\n{USAGE}"))?;
            let number = || value.parse::<usize>().with_context(|| format!("{flag} {value}"));
            match flag.as_str() {
                "--params" => params = Some(value),
                "--ops" => ops = Some(value.split(',').map(String::from).collect()),
                "--runs" => runs = number()?,
                "--threads" => {
                    ensure!(number()? == 1, "this backend of the library has one thread")
                }
                _ => bail!("unknown option {flag}\n{USAGE}"),
            }
        }
        ensure!(runs > 0, "--runs must be at least 1");
        let params = params.with_context(|| format!("--params is missing\n{USAGE}"))?;
        Ok(Self { params, ops: ops.unwrap_or_default(), runs })
    }
}

/// Milliseconds of each timed run, sorted.
struct Times(Vec<f64>);

impl Times {
    fn new(mut ms: Vec<f64>) -> Self {
        ms.sort_by(f64::total_cmp);
        Self(ms)
    }

    /// Times one call after a warm-up; short ones are averaged over [`MIN_RUN`].
    fn measure(runs: usize, mut call: impl FnMut() -> Result<()>) -> Result<Self> {
        let mut repeats: u32 = 1;
        loop {
            let start = Instant::now();
            (0..repeats).try_for_each(|_| call())?;
            if start.elapsed() >= MIN_RUN {
                break;
            }
            repeats *= 2;
        }
        let mut ms = Vec::with_capacity(runs);
        for _ in 0..runs {
            let start = Instant::now();
            (0..repeats).try_for_each(|_| call())?;
            ms.push(start.elapsed().as_secs_f64() * 1e3 / f64::from(repeats));
        }
        Ok(Self::new(ms))
    }

    /// The fields of a line that every operation has.
    fn fields(&self, op: &str, params: &str) -> String {
        let (ms, middle) = (&self.0, self.0.len() / 2);
        let median =
            if ms.len() % 2 == 1 { ms[middle] } else { (ms[middle - 1] + ms[middle]) / 2.0 };
        format!(
            "\"op\":\"{op}\",\"params\":\"{params}\",\"threads\":1,\"isa\":\"{INSTRUCTION_SET}\",\
             \"median_ms\":{median:.6},\"min_ms\":{:.6},\"runs\":{},\"library\":\"poulpy\",\
             \"version\":\"{LIBRARY_VERSION}\"",
            ms[0],
            ms.len(),
        )
    }
}

/// A published key, for the driver to price: what it is, log2 of its modulus, and the weight of the
/// ternary secret that it is under.
struct Key {
    what: &'static str,
    log2_q: usize,
    weight: usize,
}

fn keys_field(keys: &[Key]) -> String {
    let keys: Vec<String> = keys
        .iter()
        .map(|Key { what, log2_q, weight }| {
            format!("{{\"what\":\"{what}\",\"log2_q\":{log2_q},\"weight\":{weight}}}")
        })
        .collect();
    format!("\"keys\":[{}]", keys.join(","))
}

fn run(options: &Options) -> Result<()> {
    match leveled::Set::named(&options.params) {
        Some(set) => leveled::run(&set, &options.ops, options.runs),
        None => {
            let only = options.ops.iter().all(|op| op == "bootstrap");
            ensure!(only, "the set {} is for --ops bootstrap alone", options.params);
            bootstrap::run(&options.params, options.runs)
        }
    }
}

fn main() -> ExitCode {
    match Options::parse(std::env::args().skip(1)) {
        Err(error) => {
            eprintln!("sudare-peer-poulpy: {error:#}");
            ExitCode::from(2)
        }
        Ok(options) => match run(&options) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("sudare-peer-poulpy: {error:#}");
                ExitCode::from(1)
            }
        },
    }
}

//! Times operations of TFHE-rs on encrypted integers and prints one JSON line per operation, in the
//! form of `sudare bench --json`.
//!
//! The parameters are the library's defaults, which fail with a probability of at most 2^-128. A
//! look-up table of eight bits in one bootstrapping takes its parameters of four and four bits.
//! Every call draws new inputs, and its result is decrypted and compared with the clear result. A
//! wrong one makes the exit status 1.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use rand::Rng;
use tfhe::prelude::*;
use tfhe::shortint::parameters::v1_8::V1_8_PARAM_MESSAGE_4_CARRY_4_KS_PBS_TUNIFORM_2M128;
use tfhe::{
    ClientKey, ConfigBuilder, FheUint8, FheUint32, FheUint64, generate_keys, set_server_key,
};

const USAGE: &str = "usage: sudare-peer-tfhe [--params default] [--runs 5] [--threads 1] \
                     [--ops u8_add,u32_less,…]";
const LIBRARY_VERSION: &str = "1.8.2";
/// The look-up of eight bits needs keys of its own.
const LOOKUP: &str = "u8_table";

/// Shortest time over which one run averages; far above the clock's resolution.
const MIN_RUN: Duration = Duration::from_millis(2);

/// An operation on fresh inputs: returns the time of the call alone.
type Call = fn(&ClientKey) -> Result<Duration, String>;

/// Defines calls on two random words of a type.
macro_rules! call {
    ($word:ty, $cipher:ty, $out:ty, $run:expr, $clear:expr) => {
        |key| {
            let a: $word = rand::rng().random();
            let b: $word = rand::rng().random();
            let x = <$cipher>::encrypt(a, key);
            let y = <$cipher>::encrypt(b, key);
            let start = Instant::now();
            let result = $run(&x, &y);
            let time = start.elapsed();
            let found: $out = result.decrypt(key);
            let wanted: $out = $clear(a, b);
            if found == wanted {
                Ok(time)
            } else {
                Err(format!("{found} for {wanted} from {a} and {b}"))
            }
        }
    };
}

/// Defines the operations of words of a type.
macro_rules! words {
    ($name:literal, $word:ty, $cipher:ty) => {
        [
            (
                concat!($name, "_add"),
                call!($word, $cipher, $word, |x: &$cipher, y| x + y, <$word>::wrapping_add) as Call,
            ),
            (
                concat!($name, "_less"),
                call!($word, $cipher, bool, |x: &$cipher, y| x.lt(y), |a, b| a < b) as Call,
            ),
            (
                concat!($name, "_max"),
                call!($word, $cipher, $word, |x: &$cipher, y| x.max(y), Ord::max) as Call,
            ),
            (
                concat!($name, "_mul"),
                call!($word, $cipher, $word, |x: &$cipher, y| x * y, <$word>::wrapping_mul) as Call,
            ),
        ]
    };
}

fn calls() -> Vec<(&'static str, Call)> {
    let mut all = Vec::new();
    all.extend(words!("u8", u8, FheUint8));
    all.extend(words!("u32", u32, FheUint32));
    all.extend(words!("u64", u64, FheUint64));
    all
}

struct Options {
    ops: Vec<String>,
    runs: usize,
    threads: usize,
}

impl Options {
    fn parse(mut args: impl Iterator<Item = String>) -> Result<Self, String> {
        let known: Vec<&str> = calls().into_iter().map(|(name, _)| name).chain([LOOKUP]).collect();
        let mut options =
            Self { ops: known.iter().copied().map(String::from).collect(), runs: 5, threads: 1 };
        while let Some(flag) = args.next() {
            let value = args.next().ok_or_else(|| format!("{flag} needs a value\n{USAGE}"))?;
            let number =
                || value.parse::<usize>().map_err(|error| format!("{flag} {value}: {error}"));
            match flag.as_str() {
                "--params" if value == "default" => {}
                "--params" => return Err(format!("--params {value}: there is default\n{USAGE}")),
                "--ops" => options.ops = value.split(',').map(String::from).collect(),
                "--runs" => options.runs = number()?,
                "--threads" => options.threads = number()?,
                _ => return Err(format!("unknown option {flag}\n{USAGE}")),
            }
        }
        if options.runs == 0 || options.threads == 0 {
            return Err("--runs and --threads must be at least 1".into());
        }
        match options.ops.iter().find(|op| !known.contains(&op.as_str())) {
            Some(op) => Err(format!("unknown operation {op}; there are {}", known.join(", "))),
            None => Ok(options),
        }
    }
}

/// Prints the line of an operation from the milliseconds of its runs.
fn print(op: &str, options: &Options, mut ms: Vec<f64>) {
    ms.sort_by(f64::total_cmp);
    let middle = ms.len() / 2;
    let median = if ms.len() % 2 == 1 { ms[middle] } else { (ms[middle - 1] + ms[middle]) / 2.0 };
    println!(
        "{{\"op\":\"{op}\",\"params\":\"default\",\"threads\":{},\"values\":1,\"median_ms\":{median:.6},\
         \"min_ms\":{:.6},\"runs\":{},\"log2_failure\":-128,\"library\":\"tfhe-rs\",\
         \"version\":\"{LIBRARY_VERSION}\"}}",
        options.threads,
        ms[0],
        ms.len(),
    );
}

/// Returns the milliseconds of each run, after a warm-up.
fn measure(
    runs: usize,
    mut call: impl FnMut() -> Result<Duration, String>,
) -> Result<Vec<f64>, String> {
    let mut repeats = 1;
    while (0..repeats).map(|_| call()).sum::<Result<Duration, String>>()? < MIN_RUN {
        repeats *= 2;
    }
    (0..runs)
        .map(|_| {
            let time = (0..repeats).map(|_| call()).sum::<Result<Duration, String>>()?;
            Ok(time.as_secs_f64() * 1e3 / f64::from(repeats))
        })
        .collect()
}

fn run(options: &Options) -> Result<(), String> {
    let calls = calls();
    let asked = |name: &str| options.ops.iter().any(|op| op == name);
    if calls.iter().any(|(name, _)| asked(name)) {
        let (client, server) = generate_keys(ConfigBuilder::default().build());
        // Each thread of the pool has its own place for the key.
        rayon::broadcast(|_| set_server_key(server.clone()));
        set_server_key(server);
        for (name, call) in calls.into_iter().filter(|(name, _)| asked(name)) {
            let ms = measure(options.runs, || call(&client)).map_err(|e| format!("{name}: {e}"))?;
            print(name, options, ms);
        }
    }
    if asked(LOOKUP) {
        let parameters = V1_8_PARAM_MESSAGE_4_CARRY_4_KS_PBS_TUNIFORM_2M128;
        let (client, server) = tfhe::shortint::gen_keys(parameters);
        let table: Vec<u64> = (0..256).map(|_| rand::rng().random_range(0..256)).collect();
        let prepared = server.generate_lookup_table(|x| table[x as usize]);
        let ms = measure(options.runs, || {
            let input = rand::rng().random_range(0..256);
            let x = client.unchecked_encrypt(input);
            let start = Instant::now();
            let result = server.apply_lookup_table(&x, &prepared);
            let time = start.elapsed();
            let found = client.decrypt_message_and_carry(&result);
            let wanted = table[input as usize];
            if found == wanted { Ok(time) } else { Err(format!("{found} for {wanted}")) }
        });
        print(LOOKUP, options, ms.map_err(|error| format!("{LOOKUP}: {error}"))?);
    }
    Ok(())
}

fn main() -> ExitCode {
    let found = Options::parse(std::env::args().skip(1)).and_then(|options| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(options.threads).build();
        // The library spreads an operation over the threads of the pool that it is called in.
        pool.map_err(|error| error.to_string())?.install(|| run(&options))
    });
    match found {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("sudare-peer-tfhe: {message}");
            ExitCode::FAILURE
        }
    }
}

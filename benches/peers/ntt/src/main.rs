//! Times the negacyclic transforms of tfhe-ntt and prints one JSON line per operation.
//!
//! Every plan is checked in the run that times it: the forward transform against Horner evaluation
//! at the plan's own roots, and the normalised inverse against the input.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::hint::black_box;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use tfhe_ntt::prime::largest_prime_in_arithmetic_progression64;
use tfhe_ntt::prime64::Plan;

const USAGE: &str = "usage: sudare-peer-ntt [--log-n 13,14,15,16] [--prime-bits 50] [--runs 21] \
                     [--threads 1] [--ops ntt_forward,ntt_inverse,ntt_inverse_normalized]";
const OPS: [&str; 3] = ["ntt_forward", "ntt_inverse", "ntt_inverse_normalized"];
const LIBRARY_VERSION: &str = "0.7.1";

/// Shortest time over which one run averages; far above the clock's resolution.
const MIN_RUN: Duration = Duration::from_millis(2);
/// Coefficients of the forward transform that are compared with Horner evaluation.
const CHECKED_POINTS: usize = 16;

struct Options {
    log_n: Vec<u32>,
    prime_bits: u32,
    runs: usize,
    /// Threads that the caller allows; a transform of tfhe-ntt uses one.
    threads: usize,
    ops: Vec<String>,
}

impl Options {
    fn parse(mut args: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut options = Self {
            log_n: vec![13, 14, 15, 16],
            prime_bits: 50,
            runs: 21,
            threads: 1,
            ops: OPS.map(String::from).to_vec(),
        };
        while let Some(flag) = args.next() {
            let value = args.next().ok_or_else(|| format!("{flag} needs a value\n{USAGE}"))?;
            let number =
                |text: &str| text.parse::<usize>().map_err(|e| format!("{flag} {text}: {e}"));
            match flag.as_str() {
                "--log-n" => {
                    options.log_n = value
                        .split(',')
                        .map(|text| number(text).map(|n| n as u32))
                        .collect::<Result<_, _>>()?;
                }
                "--prime-bits" => options.prime_bits = number(&value)? as u32,
                "--runs" => options.runs = number(&value)?,
                "--threads" => options.threads = number(&value)?,
                "--ops" => options.ops = value.split(',').map(String::from).collect(),
                _ => return Err(format!("unknown option {flag}\n{USAGE}")),
            }
        }
        if options.runs == 0 || options.threads == 0 {
            return Err("--runs and --threads must be at least 1".into());
        }
        if let Some(&n) = options.log_n.iter().find(|n| !(4..=20).contains(*n)) {
            return Err(format!("--log-n {n}: must be from 4 to 20"));
        }
        if !(30..=61).contains(&options.prime_bits) {
            return Err(format!("--prime-bits {}: must be from 30 to 61", options.prime_bits));
        }
        if let Some(op) = options.ops.iter().find(|op| !OPS.contains(&op.as_str())) {
            return Err(format!("unknown operation {op}; there are {}", OPS.join(", ")));
        }
        Ok(options)
    }
}

/// SplitMix64, seeded by the operating system through the standard library's hasher keys.
struct Random(u64);

impl Random {
    fn new() -> Self {
        Self(RandomState::new().build_hasher().finish())
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((u128::from(z ^ (z >> 31)) * u128::from(bound)) >> 64) as u64
    }

    fn vector(&mut self, n: usize, bound: u64) -> Vec<u64> {
        (0..n).map(|_| self.below(bound)).collect()
    }
}

fn mul_mod(a: u64, b: u64, p: u64) -> u64 {
    (u128::from(a) * u128::from(b) % u128::from(p)) as u64
}

fn pow_mod(mut base: u64, mut exponent: u64, p: u64) -> u64 {
    let mut power = 1;
    while exponent > 0 {
        if exponent & 1 == 1 {
            power = mul_mod(power, base, p);
        }
        base = mul_mod(base, base, p);
        exponent >>= 1;
    }
    power
}

/// Checks the plan on a fresh input.
///
/// The transform of the polynomial X holds the evaluation points themselves, so the check does not
/// depend on the order of the outputs.
fn verify(plan: &Plan, random: &mut Random) -> Result<(), String> {
    let (n, p) = (plan.ntt_size(), plan.modulus());
    let mut points = vec![0; n];
    points[1] = 1;
    plan.fwd(&mut points);

    let input = random.vector(n, p);
    let mut values = input.clone();
    plan.fwd(&mut values);
    for _ in 0..CHECKED_POINTS {
        let i = random.below(n as u64) as usize;
        let x = points[i];
        if pow_mod(x, n as u64, p) != p - 1 {
            return Err(format!("output {i} is not taken at a root of X^{n} + 1 mod {p}"));
        }
        let horner = input.iter().rev().fold(0, |sum, &a| {
            ((u128::from(sum) * u128::from(x) + u128::from(a)) % u128::from(p)) as u64
        });
        if values[i] != horner {
            return Err(format!("forward, output {i}: got {}, Horner gives {horner}", values[i]));
        }
    }

    plan.inv(&mut values);
    plan.normalize(&mut values);
    match values.iter().zip(&input).position(|(got, want)| got != want) {
        None => Ok(()),
        Some(i) => Err(format!("inverse(forward(a))[{i}] = {}, not {}", values[i], input[i])),
    }
}

/// Median and minimum over `runs` of the time of one call in milliseconds, after a warm-up.
fn time_ms(runs: usize, mut call: impl FnMut()) -> (f64, f64) {
    let mut repeats: u32 = 1;
    loop {
        let start = Instant::now();
        (0..repeats).for_each(|_| call());
        if start.elapsed() >= MIN_RUN {
            break;
        }
        repeats *= 2;
    }
    let mut times: Vec<f64> = (0..runs)
        .map(|_| {
            let start = Instant::now();
            (0..repeats).for_each(|_| call());
            start.elapsed().as_secs_f64() * 1e3 / f64::from(repeats)
        })
        .collect();
    times.sort_by(f64::total_cmp);
    let middle = runs / 2;
    let median =
        if runs % 2 == 1 { times[middle] } else { (times[middle - 1] + times[middle]) / 2.0 };
    (median, times[0])
}

fn instruction_set(plan: &Plan) -> &'static str {
    if plan.use_ifma() {
        return "avx512ifma";
    }
    #[cfg(target_arch = "x86_64")]
    {
        if std::arch::is_x86_feature_detected!("avx512dq") {
            return "avx512";
        }
        if std::arch::is_x86_feature_detected!("avx2") {
            return "avx2";
        }
    }
    "scalar"
}

fn run(options: &Options) -> Result<(), String> {
    let mut random = Random::new();
    for &log_n in &options.log_n {
        let n = 1_usize << log_n;
        let (low, high) = (1_u64 << (options.prime_bits - 1), 1_u64 << options.prime_bits);
        let p = largest_prime_in_arithmetic_progression64(2 * n as u64, 1, low, high).ok_or_else(
            || format!("no {}-bit prime is 1 mod 2^{}", options.prime_bits, log_n + 1),
        )?;
        let plan = Plan::try_new(n, p).ok_or_else(|| format!("no plan for N = {n}, p = {p}"))?;
        verify(&plan, &mut random).map_err(|e| format!("N = 2^{log_n}, p = {p}: {e}"))?;

        for op in &options.ops {
            let mut buffer = random.vector(n, p);
            let (median_ms, min_ms) = time_ms(options.runs, || {
                let row = black_box(buffer.as_mut_slice());
                match op.as_str() {
                    "ntt_forward" => plan.fwd(row),
                    "ntt_inverse" => plan.inv(row),
                    _ => {
                        plan.inv(row);
                        plan.normalize(row);
                    }
                }
            });
            println!(
                "{{\"op\":\"{op}\",\"params\":\"n{log_n}\",\"level\":0,\"threads\":{},\
                 \"isa\":\"{}\",\"median_ms\":{median_ms:.6},\"min_ms\":{min_ms:.6},\
                 \"runs\":{},\"bytes\":{},\"library\":\"tfhe-ntt\",\
                 \"version\":\"{LIBRARY_VERSION}\",\"log_n\":{log_n},\"prime_bits\":{}}}",
                options.threads,
                instruction_set(&plan),
                options.runs,
                8 * n,
                options.prime_bits,
            );
        }
    }
    Ok(())
}

fn main() -> ExitCode {
    let options = match Options::parse(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(message) => {
            eprintln!("sudare-peer-ntt: {message}");
            return ExitCode::from(2);
        }
    };
    match run(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("sudare-peer-ntt: {message}");
            ExitCode::from(1)
        }
    }
}

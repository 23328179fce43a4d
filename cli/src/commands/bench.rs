mod bootstrap;
mod circuit;
mod exact;
mod fma;
mod integers;
mod matrices;
mod parties;
mod published;
mod rates;
mod slim;
mod strategies;
mod trace;

use crate::{
    output::{self, Output},
    progress::Progress,
    values::whole,
};
use circuit::Circuit;
use clap::ValueEnum;
use matrices::{Matrices, Radix};
use parties::Parties;
use serde::Serialize;
use std::time::{Duration, Instant};
use sudare::{
    ckks::{Ciphertext, Complex, Params, Plaintext, Scale},
    rlwe::{GaloisElement, KeyRequest, Level},
};
use sudare_arith::{
    Isa, NttTable, par,
    prng::{Seed, Stream},
};
use sudare_roles::{
    error::{Error, Result},
    machine,
    sets::Set,
};

/// Time operations on fresh inputs and check their results
///
/// Functions, statistics, transforms of the slots and bootstrapping, which need parameter sets of
/// their own or much memory, run only if named.
///
/// A run is repeated until it takes two milliseconds; times are per operation. A
/// wrong result ends the command with status 1.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    sudare bench mul_rescale rotate --params n15 --threads 1 --json\n  \
    sudare bench inverse exp sigmoid --params functions-n14\n  \
    sudare bench dft --log-slots 13 --radix 4\n  \
    sudare bench bootstrap --params n16-boot --log-slots 5..15 --runs 3\n  \
    sudare bench bfv_mul bfv_rotate --params n14-t65537\n  \
    sudare bench clt_mul clt_bootstrap --params clt-500 --threads 2\n  \
    sudare bench trace --m 15 --level 9 --special 1,5,10 --h 4..15 --threads 1\n  \
    sudare bench strategies --op mult,rotate --levels 1..32 --threads 1,2 --json")]
pub struct Args {
    /// Operations; all of the scheme if left out
    #[arg(value_name = "OP")]
    ops: Vec<Op>,
    /// Parameter set; if left out, for dft alone the smallest leveled one, for strategies that of
    /// the paper
    #[arg(long, value_name = "NAME")]
    params: Option<String>,
    /// Level of the operands, the highest if left out; for trace and strategies one or several,
    /// such as 1,4,9 or 1..32
    #[arg(long, visible_alias = "levels", value_name = "L", allow_negative_numbers = true)]
    level: Option<Numbers>,
    /// Timed runs of each operation, after a warm-up
    #[arg(long, value_name = "R", default_value_t = 10, allow_negative_numbers = true)]
    #[arg(value_parser = whole(1..=1_000_000))]
    runs: u32,
    /// log2 of the slots of dft or bootstrap, such as 15, or several: 5,10,15 or 5..15 with both
    /// ends; all slots of the ring if left out
    #[arg(long, value_name = "K", allow_negative_numbers = true)]
    log_slots: Option<Numbers>,
    /// Values that each factor of dft combines, a power of two; 4 if left out
    #[arg(long, value_name = "R")]
    radix: Option<Radix>,
    /// log2 of the images that trace sums, such as 2,7,15, or log2 of the ring for all of them
    #[arg(long, value_name = "M", allow_negative_numbers = true)]
    m: Option<Numbers>,
    /// Special primes of the parameter sets of trace, such as 1,5,10
    #[arg(long, value_name = "K", allow_negative_numbers = true)]
    special: Option<Numbers>,
    /// Groups in which trace sums, such as 1..15; all numbers if left out
    #[arg(long, value_name = "H", allow_negative_numbers = true)]
    h: Option<Numbers>,
    /// Operations of strategies; all if left out
    #[arg(long, value_name = "OP", value_delimiter = ',')]
    op: Vec<strategies::Op>,
    /// Ciphertexts that are bootstrapped together; 1 if left out
    #[arg(long, value_name = "M", value_parser = whole(1..=u32::MAX))]
    ciphertexts: Option<u32>,
    /// Keep half of the keys for bootstrapping and compute the other when it is needed
    #[arg(long)]
    small_keys: bool,
    /// Count what each stage of bootstrapping does, and compare the time that this machine should
    /// take for it with the time measured
    #[arg(long)]
    profile: bool,
    /// Rounds of aes128_block, from the first on; all ten if left out
    #[arg(long, value_name = "K", value_parser = whole(1..=10))]
    rounds: Option<u32>,
    /// Bootstrap even if keys and matrices seem not to fit in memory
    #[arg(long)]
    force: bool,
}

/// Small numbers: a list or a range.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Numbers(Vec<u32>);

impl core::str::FromStr for Numbers {
    type Err = &'static str;

    fn from_str(text: &str) -> core::result::Result<Self, Self::Err> {
        let number = |text: &str| text.parse::<u32>().ok().filter(|&k| k <= MAX_NUMBER);
        let all = match text.split_once("..") {
            Some((first, last)) => number(first).zip(number(last)).map(|(a, b)| (a..=b).collect()),
            None => text.split(',').map(number).collect::<Option<Vec<u32>>>(),
        };
        let all = all.filter(|all| !all.is_empty());
        all.map(Self).ok_or(
            "a number from 0 to 127, a list such as 5,10 or a rising range such as 5..15 is needed",
        )
    }
}

impl Numbers {
    /// The only one, if there is only one.
    fn single(&self) -> Option<u32> {
        if let [number] = self.0[..] { Some(number) } else { None }
    }
}

/// An operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
enum Op {
    /// Transform of one limb, the largest prime of at most 50 bits
    NttForward,
    /// Inverse transform of the same limb
    NttInverse,
    /// Complex slots to a plaintext
    Encode,
    /// Plaintext to complex slots
    Decode,
    /// Encryption under a public key
    Encrypt,
    /// Decryption to a plaintext
    Decrypt,
    /// Sum of two ciphertexts
    Add,
    /// Product with a constant
    MulConst,
    /// Product with a plaintext
    MulPlain,
    /// Product, relinearised
    Mul,
    /// Product, relinearised and rescaled
    MulRescale,
    /// Division by the primes of the level
    Rescale,
    /// Rotation by one
    Rotate,
    /// Complex conjugate
    Conjugate,
    /// Rotations by 1 to 8 of one ciphertext
    #[value(name = "rotate_hoisted_8")]
    RotateHoisted8,
    /// Key switch of an automorphism that rotates and conjugates
    Keyswitch,
    /// 1/x on [1/2, 3/2] of every slot, degree 15
    Inverse,
    /// Exponential on [-1, 1] of every slot, degree 7
    Exp,
    /// Sigmoid on [-4, 4] of every slot, degree 7
    Sigmoid,
    /// Mean of all slots
    Mean,
    /// Variance of all slots
    Variance,
    /// Product with a matrix of 32 diagonals on all slots
    LinearTransform,
    /// Discrete Fourier transform of the slots, over the square root of their number
    Dft,
    /// Sums of 2^M images in h groups, beside those of a thesis
    Trace,
    /// a b + c of rows modulo primes of 60 bits, beside those of the same thesis
    Fma,
    /// Operations with their limbs and coefficients cut over threads as in a paper, beside the
    /// engine's own way: transforms on one thread and all else by coefficients, a job a limb, or
    /// both
    Strategies,
    /// Back to a level for more products, and its stages
    Bootstrap,
    /// Product of BFV, relinearised
    BfvMul,
    /// Rotation of rows by one, with operands of BFV
    BfvRotate,
    /// Product of BGV, relinearised
    BgvMul,
    /// Rotation of rows by one, with operands of BGV
    BgvRotate,
    /// Back to a level for more products of integers, every slot exact, and its stages
    BfvBootstrapSlim,
    /// Product of bits over the integers (insecure, for research)
    CltMul,
    /// Bootstrapping of bits over the integers (insecure, for research)
    CltBootstrap,
    /// AES-128 over the integers, a block a slot, once; times are per block (insecure, for
    /// research)
    Aes128Block,
}

impl Op {
    /// Whether it is one operation of the scheme, and runs if nothing is named.
    fn is_basic(self) -> bool {
        !(self.is_circuit() || self.is_table() || matches!(self, Self::LinearTransform | Self::Dft))
    }

    /// Whether it has parameter sets and lines of its own.
    fn is_table(self) -> bool {
        matches!(
            self,
            Self::Trace | Self::Fma | Self::Strategies | Self::Bootstrap | Self::BfvBootstrapSlim
        ) || self.is_of_integers()
            || self.is_exact()
    }

    /// Whether it is one of BGV or BFV.
    fn is_exact(self) -> bool {
        matches!(self, Self::BfvMul | Self::BgvMul) || self.is_rotation()
    }

    /// Whether it is a rotation of BGV or BFV.
    fn is_rotation(self) -> bool {
        matches!(self, Self::BfvRotate | Self::BgvRotate)
    }

    /// Whether it is one over the integers.
    fn is_of_integers(self) -> bool {
        matches!(self, Self::CltMul | Self::CltBootstrap | Self::Aes128Block)
    }

    /// Whether it has levels and a scale of its own.
    fn is_circuit(self) -> bool {
        matches!(self, Self::Inverse | Self::Exp | Self::Sigmoid | Self::Mean | Self::Variance)
    }

    /// Whether its result has the product of two scales, or comes from one that has.
    fn is_product(self) -> bool {
        matches!(
            self,
            Self::MulConst | Self::MulPlain | Self::Mul | Self::MulRescale | Self::Rescale
        )
    }

    fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }
}

/// One benchmark line.
#[derive(Serialize)]
struct Line {
    op: String,
    params: String,
    level: u32,
    threads: usize,
    isa: &'static str,
    median_ms: f64,
    min_ms: f64,
    runs: u32,
    /// `-log2` of the largest error of a slot; nothing for exact operations.
    precision_bits: Option<f64>,
    /// Of the key that the operation reads, else of the object that it makes.
    bytes: u64,
    /// `log2` of the number of slots, where not all are used.
    #[serde(skip_serializing_if = "Option::is_none")]
    log_slots: Option<u32>,
}

/// Bits that results may lose of the scale, besides `log2(N)`: half of that for the
/// norm of the noise and the rest for its size.
const NOISE_BITS: f64 = 10.0;
/// A run lasts at least this long.
const RUN: Duration = Duration::from_millis(2);
const HOISTED: i64 = 8;
/// Of lists and ranges.
const MAX_NUMBER: u32 = 127;
/// Of dft if nothing is said.
const DFT_LOG_SLOTS: u32 = 13;

impl Args {
    /// Whether several numbers of threads can be compared.
    pub fn compares_threads(&self) -> bool {
        self.ops == [Op::Strategies]
    }
}

/// Runs on the ambient threads; `threads` are those asked for.
pub fn run(args: &Args, threads: &[usize], output: Output) -> Result<()> {
    let mut ops = match &args.ops[..] {
        [] => Op::value_variants().iter().copied().filter(|&op| op.is_basic()).collect(),
        ops => ops.to_vec(),
    };
    check_options(args, &ops)?;
    if ops.iter().any(|op| op.is_of_integers()) {
        let options = integers::Options {
            params: args.params.as_deref().unwrap_or_default(),
            ops: &ops,
            runs: args.runs,
            rounds: args.rounds.unwrap_or(sudare_integers::aes::ROUNDS),
        };
        return integers::run(&options, output);
    }
    if ops.iter().any(|op| op.is_exact()) {
        let options = exact::Options {
            params: args.params.as_deref().unwrap_or_default(),
            level: args.level.as_ref().and_then(Numbers::single),
            ops: &ops,
            runs: args.runs,
        };
        return exact::run(&options, output);
    }
    if ops.contains(&Op::BfvBootstrapSlim) {
        let set =
            crate::commands::exact::bootstrapping(args.params.as_deref().unwrap_or_default())?;
        let options = slim::Options {
            ciphertexts: args.ciphertexts.unwrap_or(1) as usize,
            runs: args.runs,
            small_keys: args.small_keys,
            force: args.force,
        };
        return slim::run(&set, &options, output);
    }
    let [trace, fma, strategies, bootstrap] =
        [Op::Trace, Op::Fma, Op::Strategies, Op::Bootstrap].map(|op| ops.contains(&op));
    ops.retain(|&op| !op.is_table());
    if !ops.is_empty() {
        operations(args, &ops, output)?;
    }
    let list = |numbers: &'_ Option<Numbers>| {
        numbers.as_ref().map_or_else(Vec::new, |Numbers(all)| all.clone())
    };
    if trace {
        let options = trace::Options {
            m: list(&args.m),
            levels: list(&args.level),
            special: list(&args.special),
            h: list(&args.h),
            runs: args.runs,
        };
        trace::run(&options, output)?;
    }
    if fma {
        fma::run(args.runs, output)?;
    }
    if strategies {
        let options = strategies::Options {
            params: args.params.as_deref(),
            ops: args.op.clone(),
            levels: list(&args.level),
            threads: threads.to_vec(),
            runs: args.runs,
        };
        strategies::run(&options, output)?;
    }
    if bootstrap {
        let set = Set::bootstrapping(args.params.as_deref().unwrap_or_default())?;
        let options = bootstrap::Options {
            log_slots: args.log_slots.as_ref().map_or(&[], |Numbers(all)| all),
            ciphertexts: args.ciphertexts.unwrap_or(1) as usize,
            small_keys: args.small_keys,
            profile: args.profile,
            runs: args.runs,
            force: args.force,
        };
        bootstrap::run(&set, &options, output)?;
    }
    Ok(())
}

/// Refuses options that no operation named uses, and operations that do not go together.
fn check_options(args: &Args, ops: &[Op]) -> Result<()> {
    let usage = |problem: &str| Err(Error::Usage(problem.into()));
    let [dft, trace, strategies, bootstrap] =
        [Op::Dft, Op::Trace, Op::Strategies, Op::Bootstrap].map(|op| ops.contains(&op));
    if strategies && ops.len() > 1 {
        return usage("strategies have lines of their own: time other operations on their own");
    }
    if ops.iter().any(|op| op.is_of_integers()) && !ops.iter().all(|op| op.is_of_integers()) {
        return usage(
            "integers have parameter sets of their own: time other operations on their own",
        );
    }
    if ops.iter().any(|op| op.is_exact()) && !ops.iter().all(|op| op.is_exact()) {
        return usage(
            "BGV and BFV have parameter sets of their own: time other operations on their own",
        );
    }
    let slim = ops.contains(&Op::BfvBootstrapSlim);
    if slim && ops.len() > 1 {
        return usage(
            "bfv_bootstrap_slim has parameter sets of its own: time other operations on their own",
        );
    }
    let own_params = |op: &Op| matches!(op, Op::Trace | Op::Fma);
    if trace && !ops.iter().all(own_params) {
        return usage("trace has parameter sets of its own: time other operations on their own");
    }
    if args.params.is_some() && !ops.is_empty() && ops.iter().all(own_params) {
        return usage("trace and fma have parameters of their own: leave --params out");
    }
    let has_default = |op: &Op| matches!(op, Op::Dft | Op::Trace | Op::Fma | Op::Strategies);
    if let (None, Some(op)) = (&args.params, ops.iter().find(|op| !has_default(op))) {
        let example = match op {
            _ if bootstrap => "n16-boot",
            _ if slim => "n15-t65537-boot",
            op if op.is_of_integers() => "clt-500",
            op if op.is_exact() => "n14-t65537",
            _ => "n15",
        };
        return usage(&format!(
            "{} needs a parameter set: name one with --params, such as {example}; `sudare params` \
             lists them",
            op.name()
        ));
    }
    if !(strategies || args.op.is_empty()) {
        return usage("--op is for strategies: name operations without it");
    }
    check_used(
        dft || bootstrap,
        "dft and bootstrap",
        &[("--log-slots", args.log_slots.is_some())],
    )?;
    check_used(dft, "dft", &[("--radix", args.radix.is_some())])?;
    let given = [
        ("--m", args.m.is_some()),
        ("--special", args.special.is_some()),
        ("--h", args.h.is_some()),
    ];
    check_used(trace, "trace", &given)?;
    let given = [
        ("--ciphertexts", args.ciphertexts.is_some()),
        ("--small-keys", args.small_keys),
        ("--force", args.force),
    ];
    check_used(bootstrap || slim, "bootstrap and bfv_bootstrap_slim", &given)?;
    check_used(bootstrap, "bootstrap", &[("--profile", args.profile)])?;
    let aes = ops.contains(&Op::Aes128Block);
    check_used(aes, "aes128_block", &[("--rounds", args.rounds.is_some())])?;
    let several =
        |numbers: &Option<Numbers>| numbers.as_ref().is_some_and(|n| n.single().is_none());
    if !(trace || strategies) && several(&args.level) {
        return usage("several levels are for trace and strategies: write --level L");
    }
    if dft && several(&args.log_slots) {
        return usage("dft takes one number of slots: write --log-slots K");
    }
    if args.profile && args.small_keys {
        return usage("--profile knows what whole keys cost: leave --small-keys out");
    }
    if args.level.is_some() && (bootstrap || slim) {
        return usage("bootstrap takes ciphertexts at its input level: leave --level out");
    }
    if args.level.is_some() && ops.iter().any(|op| op.is_of_integers()) {
        return usage("integers have no levels: leave --level out");
    }
    let own_level = |op: &Op| op.is_circuit() || *op == Op::Fma;
    if let (Some(_), [op, ..]) = (&args.level, ops)
        && ops.iter().all(own_level)
    {
        return usage(&format!("{} has a level of its own: leave --level out", op.name()));
    }
    Ok(())
}

/// Refuses the options that are given, by name, unless what they are for is named.
fn check_used(named: bool, users: &str, options: &[(&str, bool)]) -> Result<()> {
    let given = options.iter().filter(|(_, given)| *given).map(|(name, _)| *name);
    let given: Vec<&str> = given.collect();
    if named || given.is_empty() {
        return Ok(());
    }
    let (are, them) = if given.len() == 1 { ("is", "it") } else { ("are", "them") };
    Err(Error::Usage(format!("{} {are} for {users}: leave {them} out", given.join(" and "))))
}

/// Refuses numbers of slots that a ring does not have, and one slot alone.
fn check_log_slots(name: &str, log_n: u32, log_slots: u32) -> Result<()> {
    let range = 1..=log_n - 1;
    if range.contains(&log_slots) {
        return Ok(());
    }
    Err(Error::Usage(format!(
        "2^{log_slots} slots are not possible with {name}: --log-slots may be {} to {}",
        range.start(),
        range.end()
    )))
}

/// All operations but bootstrapping, under one key pair.
fn operations(args: &Args, ops: &[Op], output: Output) -> Result<()> {
    let radix = args.radix.unwrap_or_default();
    let log_slots = args.log_slots.as_ref().and_then(Numbers::single);
    let preset = match &args.params {
        Some(name) => Set::named(name)?.into_preset(),
        None => {
            let log_slots = log_slots.unwrap_or(DFT_LOG_SLOTS);
            matrices::smallest(radix.layers(log_slots).len(), log_slots)?
        }
    };
    let params = Params::new(preset.spec)?;
    let level = Level(args.level.as_ref().and_then(Numbers::single).unwrap_or(params.top().0));
    params.rlwe().check_level(level)?;
    if let (Level(0), Some(op)) = (level, ops.iter().find(|op| op.is_product())) {
        return Err(Error::Usage(format!(
            "{} at level 0 has no level to rescale to: write --level 1 or higher",
            op.name()
        )));
    }
    let mut transforms = Vec::new();
    for &op in ops {
        let matrices = match op {
            Op::LinearTransform => Matrices::random(&params, level)?,
            Op::Dft => {
                let all = if args.params.is_some() { params.log_n() - 1 } else { DFT_LOG_SLOTS };
                let log_slots = log_slots.unwrap_or(all);
                check_log_slots(&preset.name, params.log_n(), log_slots)?;
                Matrices::dft(&params, level, log_slots, radix)?
            }
            _ => continue,
        };
        transforms.push((op, matrices));
    }
    let session = Session::new(&params, level, ops, transforms)?;
    let mut lines = Vec::new();
    for (done, &op) in ops.iter().enumerate() {
        let measured = {
            let progress = Progress::new(format!("Timing {}", op.name()), ops.len());
            progress.set(done);
            session.measure(op, args.runs)?
        };
        let line = Line {
            op: op.name(),
            params: preset.name.clone(),
            level: measured.level.0,
            threads: par::threads(),
            isa: Isa::detect().name(),
            median_ms: measured.time.median_ms,
            min_ms: measured.time.min_ms,
            runs: args.runs,
            precision_bits: measured.precision_bits,
            bytes: measured.bytes,
            log_slots: measured.log_slots,
        };
        session.check(&line, measured.log2_scale)?;
        if output.json {
            output.write(&line, |_| String::new())?;
        }
        lines.push(line);
    }
    if output.json { Ok(()) } else { output.write_text(&text(&lines)) }
}

fn text(lines: &[Line]) -> String {
    let rows: Vec<Vec<String>> = lines
        .iter()
        .map(|line| {
            vec![
                line.op.clone(),
                format!("{:.4}", line.median_ms),
                format!("{:.4}", line.min_ms),
                line.precision_bits.map_or_else(|| "exact".into(), |bits| format!("{bits:.1}")),
                machine::bytes(line.bytes),
            ]
        })
        .collect();
    let head = lines.first().map_or_else(String::new, |line| {
        format!(
            "{}, level {}, {} thread(s), {}, {} runs\n",
            line.params, line.level, line.threads, line.isa, line.runs
        )
    });
    head + &output::table(&["op", "median ms", "min ms", "precision bits", "touches"], &rows)
}

struct Time {
    median_ms: f64,
    min_ms: f64,
}

struct Measured {
    time: Time,
    level: Level,
    /// Of the result.
    log2_scale: f64,
    precision_bits: Option<f64>,
    bytes: u64,
    log_slots: Option<u32>,
}

/// Times `work`, and returns the result of the last run.
fn time<T>(runs: u32, mut work: impl FnMut() -> Result<T>) -> Result<(Time, T)> {
    let start = Instant::now();
    let mut last = work()?;
    let once = start.elapsed().max(Duration::from_nanos(1));
    let repeats = RUN.as_nanos().div_ceil(once.as_nanos()).clamp(1, 100_000) as u32;
    let mut times = Vec::new();
    for _ in 0..runs {
        let start = Instant::now();
        for _ in 0..repeats {
            last = work()?;
        }
        times.push(start.elapsed().as_secs_f64() * 1e3 / f64::from(repeats));
    }
    Ok((summary(times), last))
}

/// Of the milliseconds of one run or more.
fn summary(mut times: Vec<f64>) -> Time {
    times.sort_by(f64::total_cmp);
    let (middle, even) = (times.len() / 2, times.len().is_multiple_of(2));
    let median_ms = if even { (times[middle - 1] + times[middle]) / 2.0 } else { times[middle] };
    Time { median_ms, min_ms: times[0] }
}

/// Keys for the operations asked for, and fresh operands.
struct Session {
    params: Params,
    level: Level,
    scale: Scale,
    parties: Parties,
    x: Vec<Complex<f64>>,
    y: Vec<Complex<f64>>,
    transforms: Vec<(Op, Matrices)>,
}

impl Session {
    fn new(
        params: &Params,
        level: Level,
        ops: &[Op],
        transforms: Vec<(Op, Matrices)>,
    ) -> Result<Self> {
        let log_n = params.log_n();
        let mut request = KeyRequest::new();
        for op in ops {
            request = match op {
                Op::Mul | Op::MulRescale => request.relinearize(level),
                Op::Rotate => request.rotations(log_n, [1], level),
                Op::RotateHoisted8 => request.rotations(log_n, 1..=HOISTED, level),
                Op::Conjugate => request.automorphism(GaloisElement::conjugation(log_n), level),
                Op::Keyswitch => request.automorphism(mixed(log_n), level),
                _ => request,
            };
            if op.is_circuit() {
                request |= Circuit::new(*op, params)?.required_keys();
            }
        }
        for (_, matrices) in &transforms {
            request |= matrices.required_keys();
        }
        let parties = Parties::new(params, &request)?;
        let slots = params.max_slots();
        Ok(Self {
            params: params.clone(),
            level,
            scale: params.scale_at(level),
            x: parties.uniform("x", slots),
            y: parties.uniform("y", slots),
            parties,
            transforms,
        })
    }

    fn measure(&self, op: Op, runs: u32) -> Result<Measured> {
        let Parties { encoder, encryptor, evaluator, decryptor, .. } = &self.parties;
        let half = Complex { re: 0.5, im: 0.0 };
        let rotated = |k: i64| -> Vec<Complex<f64>> {
            let mut slots = self.x.clone();
            slots.rotate_left(k as usize);
            slots
        };
        let conjugate = |slots: Vec<Complex<f64>>| slots.into_iter().map(|v| v.conj()).collect();
        let products = || self.x.iter().zip(&self.y).map(|(&x, &y)| x * y).collect();
        match op {
            Op::NttForward | Op::NttInverse => self.transform(op == Op::NttInverse, runs),
            Op::Encode => {
                let (time, plain) =
                    time(runs, || Ok(encoder.encode(&self.x, self.level, self.scale)?))?;
                self.measured(time, &encoder.decode(&plain)?, &self.x, self.poly_bytes())
            }
            Op::Decode => {
                let plain = self.plain(&self.x)?;
                let (time, slots) = time(runs, || Ok(encoder.decode(&plain)?))?;
                self.measured(time, &slots, &self.x, self.poly_bytes())
            }
            Op::Encrypt => {
                let plain = self.plain(&self.x)?;
                self.ciphertext(runs, &self.x, || Ok(encryptor.encrypt(&plain)?))
            }
            Op::Decrypt => {
                let a = self.encrypted(&self.x)?;
                let (time, plain) = time(runs, || Ok(decryptor.decrypt(&a)?))?;
                self.measured(time, &encoder.decode(&plain)?, &self.x, 2 * self.poly_bytes())
            }
            Op::Add => {
                let (a, b) = (self.encrypted(&self.x)?, self.encrypted(&self.y)?);
                let sums: Vec<_> = self.x.iter().zip(&self.y).map(|(&x, &y)| x + y).collect();
                self.ciphertext(runs, &sums, || Ok(evaluator.add(&a, &b)?))
            }
            Op::MulConst => {
                let a = self.encrypted(&self.x)?;
                let expected: Vec<_> = self.x.iter().map(|&x| x * half).collect();
                self.ciphertext(runs, &expected, || Ok(evaluator.mul_const(&a, half, self.scale)?))
            }
            Op::MulPlain => {
                let (a, b) = (self.encrypted(&self.x)?, self.plain(&self.y)?);
                let expected: Vec<_> = products();
                self.ciphertext(runs, &expected, || Ok(evaluator.mul_plain(&a, &b)?))
            }
            Op::Mul | Op::MulRescale => {
                let (a, b) = (self.encrypted(&self.x)?, self.encrypted(&self.y)?);
                let expected: Vec<_> = products();
                self.with_key(runs, &expected, || {
                    Ok(match op {
                        Op::Mul => evaluator.mul(&a, &b)?,
                        _ => evaluator.mul_rescale(&a, &b)?,
                    })
                })
            }
            Op::Rescale => {
                let product =
                    evaluator.mul_plain(&self.encrypted(&self.x)?, &self.plain(&self.y)?)?;
                let expected: Vec<_> = products();
                self.ciphertext(runs, &expected, || Ok(evaluator.rescale(&product)?))
            }
            Op::Rotate => {
                let a = self.encrypted(&self.x)?;
                self.with_key(runs, &rotated(1), || Ok(evaluator.rotate(&a, 1)?))
            }
            Op::Conjugate => {
                let a = self.encrypted(&self.x)?;
                let expected: Vec<_> = conjugate(self.x.clone());
                self.with_key(runs, &expected, || Ok(evaluator.conjugate(&a)?))
            }
            Op::Keyswitch => {
                let a = self.encrypted(&self.x)?;
                let g = mixed(self.params.log_n());
                let expected: Vec<_> = conjugate(rotated(1));
                self.with_key(runs, &expected, || Ok(evaluator.automorphism(&a, g)?))
            }
            Op::RotateHoisted8 => {
                let a = self.encrypted(&self.x)?;
                let (time, all) = time(runs, || {
                    let hoisted = evaluator.hoist(&a)?;
                    let rotation = |k| evaluator.rotate_hoisted(&hoisted, k);
                    Ok((1..=HOISTED).map(rotation).collect::<sudare::Result<Vec<_>>>()?)
                })?;
                let mut precision_bits = f64::INFINITY;
                for (k, found) in (1..).zip(&all) {
                    let bits = precision(&self.parties.open(found)?, &rotated(k));
                    precision_bits = precision_bits.min(bits);
                }
                let bytes = HOISTED as u64 * self.key_bytes();
                let precision_bits = Some(precision_bits);
                Ok(Measured { precision_bits, ..self.exact(time, bytes) })
            }
            Op::Inverse | Op::Exp | Op::Sigmoid | Op::Mean | Op::Variance => {
                let circuit = Circuit::new(op, &self.params)?;
                let (slots, expected) = circuit.example(&self.x);
                let plain = encoder.encode_real(&slots, circuit.level(), circuit.scale())?;
                let a = encryptor.encrypt(&plain)?;
                let found = self.with_key(runs, &expected, || circuit.run(evaluator, &a))?;
                Ok(Measured { level: circuit.level(), ..found })
            }
            Op::LinearTransform
            | Op::Dft
            | Op::Trace
            | Op::Fma
            | Op::Strategies
            | Op::Bootstrap
            | Op::BfvMul
            | Op::BfvRotate
            | Op::BgvMul
            | Op::BgvRotate
            | Op::BfvBootstrapSlim
            | Op::CltMul
            | Op::CltBootstrap
            | Op::Aes128Block => self.matrices(op, runs),
        }
    }

    fn matrices(&self, op: Op, runs: u32) -> Result<Measured> {
        let Some((_, matrices)) = self.transforms.iter().find(|(known, _)| *known == op) else {
            return Err(Error::Bug(format!("{} has no matrices", op.name())));
        };
        let slots = &self.x[..1 << matrices.log_slots()];
        let evaluator = &self.parties.evaluator;
        let (a, prepared) = (self.encrypted(slots)?, matrices.prepare(evaluator)?);
        let run = || matrices.run(evaluator, &prepared, &a);
        let found = self.ciphertext(runs, &matrices.apply(slots), run)?;
        let bytes = matrices.required_keys().bytes(self.params.rlwe())?;
        Ok(Measured { bytes, log_slots: Some(matrices.log_slots()), ..found })
    }

    /// Of a wrong result nobody needs the speed.
    fn check(&self, line: &Line, log2_scale: f64) -> Result<()> {
        let needed =
            self.scale.log2().min(log2_scale) - f64::from(self.params.log_n()) - NOISE_BITS;
        match line.precision_bits {
            Some(bits) if bits.is_nan() || bits < needed => Err(Error::WrongResult(format!(
                "{} has {bits:.1} bits of precision at level {}, {needed:.1} are expected",
                line.op, line.level
            ))),
            _ => Ok(()),
        }
    }

    fn plain(&self, slots: &[Complex<f64>]) -> Result<Plaintext> {
        Ok(self.parties.encoder.encode(slots, self.level, self.scale)?)
    }

    fn encrypted(&self, slots: &[Complex<f64>]) -> Result<Ciphertext> {
        self.parties.encrypt(slots, self.level, self.scale)
    }

    fn ciphertext(
        &self,
        runs: u32,
        expected: &[Complex<f64>],
        work: impl FnMut() -> Result<Ciphertext>,
    ) -> Result<Measured> {
        let (time, a) = time(runs, work)?;
        let measured =
            self.measured(time, &self.parties.open(&a)?, expected, 2 * self.poly_bytes())?;
        Ok(Measured { log2_scale: a.scale().log2(), ..measured })
    }

    /// As [`Session::ciphertext`], counting the key's bytes.
    fn with_key(
        &self,
        runs: u32,
        expected: &[Complex<f64>],
        work: impl FnMut() -> Result<Ciphertext>,
    ) -> Result<Measured> {
        Ok(Measured { bytes: self.key_bytes(), ..self.ciphertext(runs, expected, work)? })
    }

    fn measured(
        &self,
        time: Time,
        found: &[Complex<f64>],
        expected: &[Complex<f64>],
        bytes: u64,
    ) -> Result<Measured> {
        let precision_bits = Some(precision(found, expected));
        Ok(Measured { precision_bits, ..self.exact(time, bytes) })
    }

    fn exact(&self, time: Time, bytes: u64) -> Measured {
        let (level, log2_scale) = (self.level, self.scale.log2());
        Measured { time, level, log2_scale, precision_bits: None, bytes, log_slots: None }
    }

    fn poly_bytes(&self) -> u64 {
        8 * ((self.params.rlwe().limbs(self.level).q() as u64) << self.params.log_n())
    }

    fn key_bytes(&self) -> u64 {
        self.params.rlwe().switching_key_bytes(self.level)
    }

    /// One limb, in place. Forward is checked by Horner's rule, inverse by what it
    /// came from.
    fn transform(&self, inverse: bool, runs: u32) -> Result<Measured> {
        let basis = self.params.rlwe().basis();
        let narrow = basis.tables(basis.all()).filter(|t| t.modulus().bits() <= 50);
        let table = narrow
            .max_by_key(|table| table.modulus().value())
            .unwrap_or_else(|| basis.table(basis.all(), 0));
        let mut stream = self.parties.stream("row");
        let row: Vec<u64> =
            (0..basis.n()).map(|_| table.modulus().reduce(stream.next_u64())).collect();
        let mut work = row.clone();
        let (time, ()) = time(runs, || {
            if inverse {
                table.inverse(&mut work)
            } else {
                table.forward(&mut work)
            }
            Ok(())
        })?;
        let mut evaluations = row.clone();
        table.forward(&mut evaluations);
        let places = (0..16).map(|_| stream.next_u64() as usize % basis.n());
        let wrong =
            places.filter(|&place| evaluations[place] != horner(table, &row, place)).count();
        table.inverse(&mut evaluations);
        if wrong > 0 || evaluations != row {
            let what = format!("transform modulo {}", table.modulus().value());
            return Err(Error::WrongResult(what));
        }
        let bytes = 8 * basis.n() as u64;
        Ok(self.exact(time, bytes))
    }
}

/// Rotates by one and conjugates.
fn mixed(log_n: u32) -> GaloisElement {
    GaloisElement((2 << log_n) - GaloisElement::rotation(log_n, 1).0)
}

/// The value of the polynomial `row` at the root that `place` stands for.
pub fn horner(table: &NttTable, row: &[u64], place: usize) -> u64 {
    let (m, log_n) = (table.modulus(), table.log_n());
    // The polynomial X has the root itself as value.
    let mut x = vec![0; row.len()];
    x[1] = 1;
    table.forward(&mut x);
    let psi = x[NttTable::place(log_n, 1)];
    let root = m.pow(psi, NttTable::exponent(log_n, place) as u64);
    row.iter().rev().fold(0, |sum, &c| m.add(m.mul(sum, root), c))
}

/// Complex numbers with parts in [-1, 1).
fn uniform(seed: &Seed, label: &str, count: usize) -> Vec<Complex<f64>> {
    let mut stream = Stream::new(seed, label, 0);
    let mut part = || (stream.next_u64() >> 11) as f64 / (1u64 << 52) as f64 - 1.0;
    (0..count).map(|_| Complex { re: part(), im: part() }).collect()
}

/// `-log2` of the largest error.
pub fn precision(found: &[Complex<f64>], expected: &[Complex<f64>]) -> f64 {
    if found.len() != expected.len() {
        return f64::NAN;
    }
    let errors = found.iter().zip(expected).map(|(x, y)| (x.re - y.re).hypot(x.im - y.im));
    // A NaN is the worst error.
    let worst = errors.fold(0.0f64, |worst, e| if e > worst || e.is_nan() { e } else { worst });
    if worst == 0.0 { -f64::MIN_POSITIVE.log2() } else { -worst.log2() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sudare::ckks;

    #[test]
    fn precision_is_that_of_the_worst_slot() {
        let slots = |parts: &[f64]| -> Vec<Complex<f64>> {
            parts.iter().map(|&re| Complex { re, im: 0.0 }).collect()
        };
        assert_eq!(precision(&slots(&[1.0, 2.25]), &slots(&[1.0625, 2.0])), 2.0);
        assert!(precision(&slots(&[1.0, f64::NAN, 2.0]), &slots(&[1.0, 2.0, 2.0])).is_nan());
        assert!(precision(&slots(&[1.0]), &slots(&[1.0, 2.0])).is_nan());
        assert!(precision(&slots(&[1.0]), &slots(&[1.0])) > 100.0);
    }

    #[test]
    fn numbers_are_lists_and_ranges() {
        let read = |text: &str| text.parse::<Numbers>().map(|Numbers(all)| all);
        assert_eq!(read("15"), Ok(vec![15]));
        assert_eq!(read("5,10,15"), Ok(vec![5, 10, 15]));
        assert_eq!(read("3..5"), Ok(vec![3, 4, 5]));
        for bad in ["", "5,", "5..", "5..3", "128", "5...7", "1,2..3", "-1"] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn short_work_is_repeated_and_the_warm_up_is_not_timed() {
        let mut calls = 0;
        let (time, last) = time(4, || {
            calls += 1;
            if calls == 1 {
                std::thread::sleep(RUN);
            }
            Ok(calls)
        })
        .unwrap();
        assert_eq!((calls, last), (5, 5));
        assert!(time.min_ms <= time.median_ms && time.median_ms < 1.0);
    }

    #[test]
    fn a_wrong_result_is_an_error() {
        let params = Params::new(ckks::preset("n13").unwrap().spec).unwrap();
        let session = Session::new(&params, Level(1), &[Op::Add], Vec::new()).unwrap();
        let line = |precision_bits| Line {
            op: "add".into(),
            params: "n13".into(),
            level: 1,
            threads: 1,
            isa: "scalar",
            median_ms: 1.0,
            min_ms: 1.0,
            runs: 1,
            precision_bits,
            bytes: 1,
            log_slots: None,
        };
        assert!(session.check(&line(Some(18.0)), 40.0).is_ok());
        assert!(session.check(&line(None), 40.0).is_ok());
        // A result of a smaller scale has fewer bits.
        assert!(session.check(&line(Some(3.0)), 25.0).is_ok());
        for bits in [12.0, -3.0, f64::NAN] {
            assert_eq!(session.check(&line(Some(bits)), 40.0).unwrap_err().exit_code(), 1);
        }
    }
}

//! Strategies to divide operations among threads, compared with a paper.

use crate::published;
use clap::ValueEnum;
use serde::Serialize;
use std::time::{Duration, Instant};
use sudare::{
    ckks::{Ciphertext, Complex, Params, Scale},
    rlwe::{KeyRequest, Level},
};
use sudare_arith::par::{self, Strategy};
use sudare_cli::{
    bench::{
        line::Line,
        parties::Parties,
        timing::{Time, summary},
        values::{NOISE_BITS, precision},
    },
    output::{self, Output},
    progress::Progress,
};
use sudare_roles::{
    error::{Error, Result},
    os::memory,
    plan::sets::Set,
};

/// Options of a comparison. Empty lists select everything.
pub(super) struct Options<'a> {
    /// The parameter set, by default the set of the paper.
    pub params: Option<&'a str>,
    pub ops: Vec<Op>,
    pub levels: Vec<u32>,
    pub threads: Vec<usize>,
    pub runs: u32,
}

/// An operation, by its name in the paper.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Op {
    /// Sum of two ciphertexts
    Add,
    /// Product with a constant
    Cmult,
    /// Product, relinearised
    Mult,
    /// Division by the primes of the level
    Rescale,
    /// Rotation by one
    Rotate,
}

impl Op {
    fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// Finds the milliseconds that Table 1 prints for FullRNS-HEAAN. Figures 1 and 2 are curves without
    /// numbers.
    fn published_ms(self, level: u32, threads: usize) -> Option<f64> {
        let case = format!("op={} level={level} threads={threads}", self.name());
        published::published("strategies", case).map(|row| row.value("ms"))
    }
}

/// The engine's choice, then the strategies of the paper.
const STRATEGIES: [Strategy; 4] =
    [Strategy::Own, Strategy::Coefficients, Strategy::Limbs, Strategy::Both];
const SET: &str = "fullrns-boot";
/// Maximum time of the engine's choice over the time of the best strategy.
const ALLOWED: f64 = 1.05;
/// Maximum number of times that the runs are repeated if the engine's choice seems slower, before
/// this is reported.
const AGAIN: u32 = 3;
/// Minimum duration of a sample. Shorter operations are repeated in it.
const SAMPLE: Duration = Duration::from_millis(20);
/// Estimated memory in addition to the keys, in bytes.
const WORKING_BYTES: u64 = 1 << 30;

/// A line of output: an operation at a level, on a number of threads.
#[derive(Serialize)]
struct Compared {
    /// The engine's choice.
    #[serde(flatten)]
    line: Line,
    strategies: Times,
    /// The strategy of the paper with the smallest median.
    best: &'static str,
    /// The largest of the ratios: the engine's choice over the best of the others.
    ratio: f64,
    slower: bool,
    /// Digest of the result, which is the same with all strategies.
    digest: String,
    published: Published,
}

#[derive(Serialize)]
struct Times {
    coefficients: Cut,
    limbs: Cut,
    both: Cut,
}

/// One strategy.
#[derive(Serialize)]
struct Cut {
    median_ms: f64,
    min_ms: f64,
    /// The engine's time over the time of this strategy.
    ratio: f64,
}

/// Claims of the paper. On many threads, dividing by limbs and coefficients is fastest for every
/// operation at nearly every level, and dividing by coefficients is slowest.
#[derive(Serialize)]
struct Published {
    fastest: &'static str,
    slowest: &'static str,
    /// Time at that level on one thread, if it is printed.
    ms: Option<f64>,
}

pub(super) fn run(options: &Options<'_>, output: Output) -> Result<()> {
    let session = Session::new(options)?;
    let ops = match &options.ops[..] {
        [] => Op::value_variants(),
        ops => ops,
    };
    let threads = match &options.threads[..] {
        // The same number twice would be measured twice.
        [] if par::threads() == 1 => vec![1],
        [] => vec![1, par::threads()],
        threads => threads.to_vec(),
    };
    let mut lines = Vec::new();
    for &op in ops {
        let progress = Progress::new(format!("Timing {}", op.name()), session.levels.len());
        for (done, &level) in session.levels.iter().enumerate() {
            progress.set(done);
            let work = Work::new(&session, op, level)?;
            for &threads in &threads {
                let line = work.compare(threads, options.runs)?;
                if output.json {
                    output.write(&line, |_| String::new())?;
                }
                lines.push(line);
            }
        }
    }
    if output.json { Ok(()) } else { output.write_text(&text(&lines)) }
}

/// Keys for all levels.
struct Session {
    name: String,
    params: Params,
    levels: Vec<Level>,
    parties: Parties,
    x: Vec<Complex<f64>>,
    y: Vec<Complex<f64>>,
}

impl Session {
    fn new(options: &Options<'_>) -> Result<Self> {
        let preset = Set::named(options.params.unwrap_or(SET))?.into_preset();
        let params = Params::new(preset.spec)?;
        let levels: Vec<Level> = match &options.levels[..] {
            [] => (1..=params.top().0).map(Level).collect(),
            levels => levels.iter().copied().map(Level).collect(),
        };
        let top = levels.iter().copied().max().unwrap_or(params.top());
        params.rlwe().check_level(top)?;
        if levels.contains(&Level(0)) {
            let problem = "products and rescalings need a level: compare from level 1 on";
            return Err(Error::Usage(problem.into()));
        }
        let request = KeyRequest::new().relinearize(top).rotations(params.log_n(), [1], top);
        let needed = request.bytes(params.rlwe())?.saturating_add(WORKING_BYTES);
        memory::check("keys", needed, "take lower levels or a smaller set")?;
        let parties = Parties::new(&params, &request)?;
        let slots = params.max_slots();
        Ok(Self {
            name: preset.name,
            levels,
            x: parties.uniform("x", slots),
            y: parties.uniform("y", slots),
            parties,
            params,
        })
    }
}

/// An operation with its operands.
struct Work<'a> {
    session: &'a Session,
    op: Op,
    level: Level,
    scale: Scale,
    a: Ciphertext,
    b: Ciphertext,
}

impl<'a> Work<'a> {
    fn new(session: &'a Session, op: Op, level: Level) -> Result<Self> {
        let scale = session.params.scale_at(level);
        let Session { parties, x, y, .. } = session;
        let [mut a, b] = [parties.encrypt(x, level, scale)?, parties.encrypt(y, level, scale)?];
        // Rescaling divides the scale of a product. A fresh operand would have none left.
        if op == Op::Rescale {
            let factor = parties.encoder.encode_at(y, level, scale)?;
            a = parties.evaluator.mul_plain(&a, &factor)?;
        }
        Ok(Self { session, op, level, scale, a, b })
    }

    fn run(&self) -> Result<Ciphertext> {
        let (evaluator, Self { a, b, .. }) = (&self.session.parties.evaluator, self);
        Ok(match self.op {
            Op::Add => evaluator.add(a, b)?,
            Op::Cmult => evaluator.mul_const(a, Complex { re: 0.5, im: 0.0 }, self.scale)?,
            Op::Mult => evaluator.mul(a, b)?,
            Op::Rescale => evaluator.rescale(a)?,
            Op::Rotate => evaluator.rotate(a, 1)?,
        })
    }

    /// Returns the expected slots of the result.
    fn expected(&self) -> Vec<Complex<f64>> {
        let x = &self.session.x;
        let y = &self.session.y;
        let pairs = x.iter().zip(y);
        match self.op {
            Op::Add => pairs.map(|(&x, &y)| x + y).collect(),
            Op::Cmult => x.iter().map(|&x| Complex { re: x.re / 2.0, im: x.im / 2.0 }).collect(),
            Op::Mult | Op::Rescale => pairs.map(|(&x, &y)| x * y).collect(),
            Op::Rotate => x[1..].iter().chain(&x[..1]).copied().collect(),
        }
    }

    /// Returns the bits of precision of a result, if they are enough.
    fn check(&self, found: &Ciphertext) -> Result<f64> {
        let Session { params, parties, .. } = self.session;
        let bits = precision(&parties.open(found)?, &self.expected());
        let needed =
            self.scale.log2().min(found.scale().log2()) - f64::from(params.log_n()) - NOISE_BITS;
        if bits.is_nan() || bits < needed {
            return Err(Error::WrongResult(format!(
                "{} has {bits:.1} bits of precision at level {}, {needed:.1} are expected",
                self.op.name(),
                self.level.0
            )));
        }
        Ok(bits)
    }

    /// Compares all strategies, which take turns in each run.
    fn compare(&self, threads: usize, runs: u32) -> Result<Compared> {
        let results: Vec<Ciphertext> = STRATEGIES
            .iter()
            .map(|&strategy| within(threads, strategy, || self.run())?)
            .collect::<Result<_>>()?;
        let precision_bits = self.check(&results[0])?;
        let digests: Vec<String> = results.iter().map(digest).collect();
        // Strategies only divide work, so a different bit is a bug and no rounding.
        if digests.iter().any(|digest| *digest != digests[0]) {
            return Err(Error::WrongResult(format!(
                "{} at level {} on {threads} thread(s) has different results with {STRATEGIES:?}: \
                 {digests:?}",
                self.op.name(),
                self.level.0
            )));
        }
        drop(results);
        let start = Instant::now();
        self.run()?;
        let once = start.elapsed().max(Duration::from_nanos(1));
        let repeats = SAMPLE.as_nanos().div_ceil(once.as_nanos()).clamp(1, 10_000) as u32;
        let mut times: [Vec<f64>; 4] = Default::default();
        // Times of all rounds count: a disturbance weighs less in each round.
        for _ in 0..=AGAIN {
            self.sample(threads, runs, repeats, &mut times)?;
            if worst_ratio(&times) <= ALLOWED {
                break;
            }
        }
        let rlwe = self.session.params.rlwe();
        let limbs = rlwe.limbs(self.level).q() as u64;
        let bytes = match self.op {
            Op::Mult | Op::Rotate => rlwe.switching_key_bytes(self.level),
            _ => 2 * 8 * (limbs << self.session.params.log_n()),
        };
        let time = summary(times[0].clone());
        let runs = times[0].len() as u32;
        let line = Line {
            threads,
            precision_bits: Some(precision_bits),
            bytes,
            ..Line::new(self.op.name(), &self.session.name, self.level, &time, runs)
        };
        Ok(self.compared(line, &times, digests.into_iter().next().unwrap_or_default()))
    }

    /// Adds `runs` times of each strategy. The first strategy changes from run to run.
    fn sample(
        &self,
        threads: usize,
        runs: u32,
        repeats: u32,
        times: &mut [Vec<f64>; 4],
    ) -> Result<()> {
        for run in 0..runs as usize {
            for k in 0..STRATEGIES.len() {
                let place = (run + k) % STRATEGIES.len();
                let seconds = within(threads, STRATEGIES[place], || -> Result<f64> {
                    // The strategy before has left its data in the caches. Long operations warm
                    // them by themselves.
                    if repeats > 1 {
                        self.run()?;
                    }
                    let start = Instant::now();
                    for _ in 0..repeats {
                        self.run()?;
                    }
                    Ok(start.elapsed().as_secs_f64())
                })??;
                times[place].push(seconds * 1e3 / f64::from(repeats));
            }
        }
        Ok(())
    }

    fn compared(&self, line: Line, times: &[Vec<f64>; 4], digest: String) -> Compared {
        let cut = |other: &Vec<f64>| {
            let Time { median_ms, min_ms } = summary(other.clone());
            Cut { median_ms, min_ms, ratio: ratio(&times[0], other) }
        };
        let [_, coefficients, limbs, both] = times;
        let strategies =
            Times { coefficients: cut(coefficients), limbs: cut(limbs), both: cut(both) };
        let named = [
            ("coefficients", &strategies.coefficients),
            ("limbs", &strategies.limbs),
            ("both", &strategies.both),
        ];
        let best = named.iter().min_by(|(_, a), (_, b)| a.median_ms.total_cmp(&b.median_ms));
        let best = best.map_or("", |(name, _)| *name);
        let ratio = worst_ratio(times);
        let ms = self.op.published_ms(line.level, line.threads);
        Compared {
            line,
            strategies,
            best,
            ratio,
            slower: ratio > ALLOWED,
            digest,
            published: Published { fastest: "both", slowest: "coefficients", ms },
        }
    }
}

/// Runs `f` on `threads` threads of its own, with grids divided by `strategy`.
fn within<T: Send>(threads: usize, strategy: Strategy, f: impl FnOnce() -> T + Send) -> Result<T> {
    Ok(par::with_strategy(threads, strategy, f).map_err(sudare::Error::from)?)
}

/// Returns the quotient of the fastest runs, or the median of the quotients of paired runs if that
/// is smaller. A disturbance seldom raises both.
fn ratio(own: &[f64], other: &[f64]) -> f64 {
    let fastest = |times: &[f64]| times.iter().copied().fold(f64::INFINITY, f64::min);
    let in_turn = summary(own.iter().zip(other).map(|(own, other)| own / other).collect());
    in_turn.median_ms.min(fastest(own) / fastest(other))
}

/// Returns the ratio of the engine's choice, which is first, to the best of the others.
fn worst_ratio([own, others @ ..]: &[Vec<f64>; 4]) -> f64 {
    others.iter().map(|other| ratio(own, other)).fold(0.0, f64::max)
}

fn digest(a: &Ciphertext) -> String {
    let mut hasher = blake3::Hasher::new();
    for word in a.polys().iter().flat_map(|poly| poly.rows()).flatten() {
        hasher.update(&word.to_le_bytes());
    }
    hasher.finalize().to_hex()[..16].to_owned()
}

fn text(lines: &[Compared]) -> String {
    let rows: Vec<Vec<String>> = lines
        .iter()
        .map(|compared| {
            let Compared { line, strategies, .. } = compared;
            vec![
                line.op.clone(),
                line.level.to_string(),
                line.threads.to_string(),
                format!("{:.3}", strategies.coefficients.median_ms),
                format!("{:.3}", strategies.limbs.median_ms),
                format!("{:.3}", strategies.both.median_ms),
                format!("{:.3}", line.median_ms),
                compared.best.to_owned(),
                format!("{:.3}{}", compared.ratio, if compared.slower { " !" } else { "" }),
                compared.published.ms.map_or_else(String::new, |ms| format!("{ms:.1}")),
            ]
        })
        .collect();
    let head = lines.first().map_or_else(String::new, |Compared { line, .. }| {
        format!("{}, {}, {} runs in turn; milliseconds\n", line.params, line.isa, line.runs)
    });
    let titles = [
        "op",
        "level",
        "threads",
        "coefficients",
        "limbs",
        "both",
        "own",
        "best",
        "own/best",
        "printed",
    ];
    let slower = lines.iter().filter(|compared| compared.slower).count();
    let foot = format!(
        "own/best is over {ALLOWED} in {slower} of {} rows\nprinted: Akimoto, Sakuma, Table 1, one \
         thread; their Figures 1 and 2, curves of up to 32 threads: both is the fastest at nearly \
         every level, limbs the same or slower, coefficients the slowest\n",
        lines.len()
    );
    head + &output::table(&titles, &rows) + &foot
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disturbed_runs_do_not_count() {
        // Both the pairs and the fastest runs give 1.5, for any third run.
        assert_eq!(ratio(&[3.0, 3.0, 90.0], &[2.0, 2.0, 2.0]), 1.5);
        // The machine slowed down for most of one's runs.
        assert_eq!(ratio(&[2.0, 4.0, 4.0], &[2.0, 2.0, 2.0]), 1.0);
        assert_eq!(ratio(&[4.0, 2.0, 2.0], &[2.0, 2.0, 1.0]), 2.0);
        let own = vec![2.0, 4.0, 8.0];
        let times = [own.clone(), vec![4.0, 8.0, 9.0], own, vec![20.0, 40.0, 90.0]];
        assert_eq!(worst_ratio(&times), 1.0);
    }
}

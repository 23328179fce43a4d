//! Sums of images under automorphisms, compared with a thesis.

use crate::published;
use serde::Serialize;
use std::cmp::Ordering;
use sudare::{
    circuits::{Trace, TracePlan, ckks::cost::Rates},
    ckks::{self, Complex, Params},
};
use sudare_arith::par;
use sudare_cli::{
    bench::{
        line::Line,
        parties::Parties,
        timing::time,
        values::{NOISE_BITS, precision},
    },
    output::{self, Output, say},
};
use sudare_roles::{
    error::{Error, Result},
    os::memory,
    text::size,
};

/// Options of a comparison. Empty lists select everything.
pub(super) struct Options {
    /// `log2` of the numbers of images.
    pub m: Vec<u32>,
    /// Levels. Each has its own parameter set.
    pub levels: Vec<u32>,
    /// Numbers of special primes. Each has its own parameter set.
    pub special: Vec<u32>,
    /// Numbers of groups.
    pub h: Vec<u32>,
    pub runs: u32,
}

/// Times in the thesis: milliseconds on a Xeon Gold 6334 at 3.6 GHz, the mean of 100 runs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
struct Published {
    /// Time of unrolled loops, as in PALISADE.
    normal_ms: f64,
    /// Time with the thesis's kernels for AVX-512.
    avx512_ms: f64,
    threads: u32,
    table: &'static str,
}

/// Finds the entry for `2^m` images in `h` groups: the one for a single thread, or for eight threads
/// if there are more.
fn published(m: u32, h: u32, special: u32, level: u32, threads: usize) -> Option<Published> {
    let threads = if threads == 1 { 1 } else { 8 };
    let case = format!("m={m} h={h} special={special} level={level} threads={threads}");
    let row = published::published("trace", case)?;
    let [normal_ms, avx512_ms] = ["normal_ms", "avx512_ms"].map(|name| row.value(name));
    Some(Published { normal_ms, avx512_ms, threads, table: row.table })
}

const M: [u32; 3] = [2, 7, 15];
const LEVELS: [u32; 3] = [1, 4, 9];
const SPECIAL: [u32; 3] = [1, 5, 10];
/// Estimated memory in addition to the keys, in bytes.
const WORKING_BYTES: u64 = 512 << 20;

/// A line of output: a number of images in a number of groups.
#[derive(Serialize)]
struct Traced {
    #[serde(flatten)]
    line: Line,
    special: u32,
    /// `log2` of the number of images.
    m: u32,
    h: u32,
    /// Images of each group.
    groups: Vec<usize>,
    /// True if the cost model chose these groups.
    chosen: bool,
    /// Time that the cost model predicts.
    expected_ms: f64,
    published: Option<Published>,
}

pub(super) fn run(options: &Options, output: Output) -> Result<()> {
    let all = |chosen: &[u32], grid: &[u32]| match chosen.is_empty() {
        true => grid.to_vec(),
        false => chosen.to_vec(),
    };
    let specials = all(&options.special, &SPECIAL);
    let levels = all(&options.levels, &LEVELS);
    let all_m = all(&options.m, &M);
    for &special in &specials {
        levels.iter().try_for_each(|&level| check_set(special, level))?;
    }
    let mut lines = Vec::new();
    for &special in &specials {
        for &level in &levels {
            let session = Session::new(special, level)?;
            // Impossible sums are refused before the first one of this set is timed.
            all_m.iter().try_for_each(|&m| session.trace(m).map(drop))?;
            for &m in &all_m {
                for h in all(&options.h, &(1..=m).collect::<Vec<_>>()) {
                    let Some(plan) = session.plan(m, h)? else { continue };
                    let traced = session.measure(&plan, m, options.runs)?;
                    if output.json {
                        output.write(&traced, |_| String::new())?;
                    }
                    lines.push(traced);
                }
            }
        }
    }
    if lines.is_empty() {
        return Err(Error::Usage(
            "no sum of 2^M images in h groups is left to time: --m must be at least 1 and --h from 1 \
             to M"
                .into(),
        ));
    }
    if output.json { Ok(()) } else { output.write_text(&text(&lines)) }
}

/// Rejects parameter sets that do not exist, before any is timed.
fn check_set(special: u32, level: u32) -> Result<()> {
    if SPECIAL.contains(&special) && LEVELS.contains(&level) {
        return Ok(());
    }
    let list = |all: &[u32]| all.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
    Err(Error::Usage(format!(
        "trace has no parameter set of level {level} with {special} special primes: --level may be \
         {} and --special {}",
        list(&LEVELS),
        list(&SPECIAL)
    )))
}

/// One parameter set.
struct Session {
    name: String,
    params: Params,
    special: u32,
}

impl Session {
    fn new(special: u32, level: u32) -> Result<Self> {
        let name = format!("trace-k{special}-l{level}");
        Ok(Self { params: Params::new(ckks::preset(&name)?.spec)?, name, special })
    }

    /// Returns the sum of all images for `m = log2(N)`, and otherwise of rotations by one.
    fn trace(&self, m: u32) -> Result<Trace> {
        let log_n = self.params.log_n();
        match m.cmp(&log_n) {
            Ordering::Less => Ok(Trace::inner_sum(log_n, 1, 1 << m)?),
            Ordering::Equal => Ok(Trace::field(log_n)?),
            Ordering::Greater => Err(Error::Usage(format!(
                "2^{m} images are more than the 2^{log_n} of the ring: --m may be 1 to {log_n}"
            ))),
        }
    }

    /// Plans a sum. Returns `None` for more groups than doublings, for too many images in a group,
    /// and for keys that do not fit into memory.
    fn plan(&self, m: u32, h: u32) -> Result<Option<TracePlan>> {
        let Ok(plan) = self.trace(m)?.unrolled(h as usize) else { return Ok(None) };
        let keys = plan.required_keys(self.params.top()).bytes(self.params.rlwe())?;
        let needed = keys.saturating_add(WORKING_BYTES);
        match memory::check("keys", needed, "take more groups") {
            Ok(()) => Ok(Some(plan)),
            Err(error) => {
                // Left out and not refused, so that the rest of a grid is still timed.
                say(format_args!("{}, 2^{m} images in {h} groups left out: {error}", self.name));
                Ok(None)
            }
        }
    }

    fn measure(&self, plan: &TracePlan, m: u32, runs: u32) -> Result<Traced> {
        let params = &self.params;
        let level = self.params.top();
        let request = plan.required_keys(level);
        let parties = Parties::new(params, &request)?;
        let x = parties.uniform("x", params.max_slots());
        let a = parties.encrypt(&x, level, params.scale_at(level))?;
        let (time, sum) = time(runs, || Ok(plan.run(&parties.evaluator, &a)?))?;
        let bits = precision(&parties.open(&sum)?, &sums(&x, m));
        // Errors of images are independent, so a sum of 2^m of them is 2^(m / 2) times as large.
        let needed = params.scale_at(level).log2()
            - f64::from(params.log_n())
            - NOISE_BITS
            - f64::from(m) / 2.0;
        if bits.is_nan() || bits < needed {
            return Err(Error::WrongResult(format!(
                "a sum of 2^{m} images has {bits:.1} bits of precision with {}, {needed:.1} are \
                 expected",
                self.name
            )));
        }
        let groups = plan.groups();
        let h = groups.len() as u32;
        let reference = Rates::reference(params.log_n());
        Ok(Traced {
            line: Line {
                precision_bits: Some(bits),
                bytes: request.bytes(params.rlwe())?,
                ..Line::new("trace".into(), &self.name, level, &time, runs)
            },
            special: self.special,
            m,
            h,
            chosen: self.trace(m)?.fastest(params.rlwe(), level)?.groups() == groups,
            expected_ms: 1e3 * plan.work(params.rlwe(), level)?.seconds(&reference),
            groups,
            published: published(m, h, self.special, level.0, par::threads()),
        })
    }
}

/// Sums `2^m` rotations of all slots. If that is twice the number of slots, conjugates are
/// included.
fn sums(x: &[Complex<f64>], m: u32) -> Vec<Complex<f64>> {
    let images = 1 << m;
    if images > x.len() {
        // A slot and its conjugate add up to twice the real part.
        let twice = 2.0 * x.iter().map(|z| z.re).sum::<f64>();
        return vec![Complex { re: twice, im: 0.0 }; x.len()];
    }
    // A running sum: the next slot loses one image and gains one.
    let mut sum = x[..images].iter().fold(Complex { re: 0.0, im: 0.0 }, |sum, &z| sum + z);
    let mut sums = Vec::with_capacity(x.len());
    for (i, &first) in x.iter().enumerate() {
        sums.push(sum);
        sum = sum - first + x[(i + images) % x.len()];
    }
    sums
}

fn text(lines: &[Traced]) -> String {
    let rows: Vec<Vec<String>> = lines
        .iter()
        .map(|traced| {
            let line = &traced.line;
            let milliseconds =
                |ms: Option<f64>| ms.map_or_else(String::new, |ms| format!("{ms:.1}"));
            let avx512_ms = traced.published.map(|entry| entry.avx512_ms);
            vec![
                format!("{}{}", traced.h, if traced.chosen { " *" } else { "" }),
                traced.m.to_string(),
                line.level.to_string(),
                traced.special.to_string(),
                format!("{:.2}", line.median_ms),
                format!("{:.2}", line.min_ms),
                milliseconds(traced.published.map(|entry| entry.normal_ms)),
                milliseconds(avx512_ms),
                avx512_ms.map_or_else(String::new, |ms| format!("{:.1}", ms / line.median_ms)),
                size::bytes(line.bytes),
            ]
        })
        .collect();
    let titles = [
        "h",
        "M",
        "level",
        "special",
        "median ms",
        "min ms",
        "printed ms",
        "AVX-512",
        "times",
        "keys",
    ];
    let head = lines.first().map_or_else(String::new, |traced| {
        let printed = traced.published.map_or(1, |entry| entry.threads);
        format!(
            "sums of 2^M images in h groups, * as chosen by their cost, {} thread(s), {}, {} runs; \
             printed: Inoue, Tables 5.3 to 5.5 and 5.9 to 5.11, {printed} thread(s)\n",
            traced.line.threads, traced.line.isa, traced.line.runs
        )
    });
    head + &output::table(&titles, &rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_those_of_the_next_slots() {
        let x: Vec<_> = (0..8).map(|i| Complex { re: f64::from(i), im: 1.0 }).collect();
        let found = sums(&x, 1);
        assert_eq!((found[0].re, found[0].im, found[7].re), (1.0, 2.0, 7.0));
        assert!(sums(&x, 3).iter().all(|z| (z.re, z.im) == (28.0, 8.0)));
        assert!(sums(&x, 4).iter().all(|z| (z.re, z.im) == (56.0, 0.0)));
    }

    #[test]
    fn every_set_has_a_name() {
        let sets = SPECIAL.iter().flat_map(|k| LEVELS.map(|level| format!("trace-k{k}-l{level}")));
        let known = ckks::presets().into_iter().map(|preset| preset.name);
        let known = known.filter(|name| name.starts_with("trace-"));
        assert_eq!(sets.collect::<Vec<_>>(), known.collect::<Vec<_>>());
    }

    #[test]
    fn a_small_sum_is_measured_beside_its_publication() {
        let session = Session::new(1, 1).unwrap();
        assert!(session.plan(2, 3).unwrap().is_none());
        assert!(session.trace(16).is_err());
        let plan = session.plan(2, 2).unwrap().unwrap();
        let traced = session.measure(&plan, 2, 1).unwrap();
        assert_eq!((traced.h, &traced.groups[..]), (2, &[2, 2][..]));
        assert!(traced.published.is_some() && traced.expected_ms > 0.0);
        assert!(text(&[traced]).contains("AVX-512"));
    }

    #[test]
    fn entries_are_those_of_their_table() {
        let entry = published(15, 5, 5, 9, 1).unwrap();
        assert_eq!((entry.normal_ms, entry.avx512_ms), (1095.0, 825.54));
        assert_eq!((entry.threads, entry.table), (1, "Inoue, Table 5.5"));
        let entry = published(7, 2, 10, 4, 2).unwrap();
        assert_eq!((entry.avx512_ms, entry.table), (72.081, "Inoue, Table 5.10"));
        for missing in [(15, 1, 1, 1), (2, 3, 1, 1), (3, 1, 1, 1), (2, 1, 2, 1), (2, 1, 1, 2)] {
            let (m, h, special, level) = missing;
            assert_eq!(published(m, h, special, level, 1), None);
        }
    }

    /// The ratios of both times in Tables 5.6 to 5.8 and 5.12 to 5.14, for some rows.
    #[test]
    fn times_agree_with_the_printed_ratios() {
        for (m, h, threads, printed) in [
            (2, 1, 1, [1.21, 1.30, 1.39, 1.09, 1.12, 1.19, 1.16, 1.17, 1.11]),
            (7, 1, 1, [1.75, 2.04, 2.30, 1.51, 1.53, 1.69, 1.52, 1.46, 1.44]),
            (7, 7, 1, [1.09, 1.13, 1.16, 1.06, 1.05, 1.08, 1.06, 1.06, 1.05]),
            (15, 2, 1, [1.75, 2.07, 2.3, 1.45, 1.51, 1.7, 1.46, 1.47, 1.44]),
            (15, 15, 1, [1.09, 1.13, 1.16, 1.05, 1.06, 1.08, 1.07, 1.05, 1.05]),
            (2, 2, 8, [1.16, 1.30, 1.32, 1.16, 1.14, 1.18, 1.17, 1.15, 1.11]),
            (15, 9, 8, [1.21, 1.35, 1.32, 1.16, 1.14, 1.17, 1.17, 1.1, 1.1]),
        ] {
            let columns = [1, 5, 10].into_iter().flat_map(|k| [1, 4, 9].map(|l| (k, l)));
            for ((k, l), printed) in columns.zip(printed) {
                let Published { normal_ms, avx512_ms, .. } =
                    published(m, h, k, l, threads).unwrap();
                assert!((normal_ms / avx512_ms - printed).abs() < 0.011, "{m} {h} {k} {l}");
            }
        }
    }
}

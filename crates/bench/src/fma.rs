//! `a b + c` of rows, compared with a thesis.

use crate::published;
use serde::Serialize;
use std::ops::RangeInclusive;
use sudare_arith::{
    Isa, Modulus, previous_prime,
    prng::{Seed, Stream},
};
use sudare_cli::{
    bench::timing::{Time, time},
    output::{self, Output},
};
use sudare_roles::{
    error::{Error, Result},
    text::size,
};

// The sizes of the thesis's table.
const LOG_N: RangeInclusive<u32> = 10..=15;
const LIMBS: RangeInclusive<u32> = 1..=15;
const PRIME_BITS: u32 = 60;

/// A line of output: `a b + c` of rows modulo `limbs` primes.
#[derive(Serialize)]
struct Fused {
    op: &'static str,
    log_n: u32,
    limbs: u32,
    prime_bits: u32,
    threads: usize,
    isa: &'static str,
    median_ms: f64,
    min_ms: f64,
    runs: u32,
    bytes: u64,
    /// Inoue, Table 5.2: a product and then a sum, and both fused.
    published_multiply_add_us: Option<f64>,
    published_fused_us: Option<f64>,
}

/// Finds the microseconds of a product and then a sum, and of both fused, on a Xeon Gold 6334 at
/// 3.6 GHz.
fn published(log_n: u32, limbs: u32) -> Option<[f64; 2]> {
    let row = published::published("fma", format!("log_n={log_n} limbs={limbs}"))?;
    Some(["multiply_add_us", "fused_us"].map(|name| row.value(name)))
}

pub(super) fn run(runs: u32, output: Output) -> Result<()> {
    let mut lines = Vec::new();
    for log_n in LOG_N {
        for limbs in LIMBS {
            let line = measure(log_n, limbs, runs)?;
            if output.json {
                output.write(&line, |_| String::new())?;
            }
            lines.push(line);
        }
    }
    if output.json { Ok(()) } else { output.write_text(&text(&lines)) }
}

fn measure(log_n: u32, limbs: u32, runs: u32) -> Result<Fused> {
    let moduli = moduli(log_n, limbs)?;
    let n = 1usize << log_n;
    let seed = Seed::random().map_err(sudare::Error::from)?;
    let random = |label| -> Vec<Vec<u64>> {
        let mut stream = Stream::new(&seed, label, 0);
        let row = |m: &Modulus| (0..n).map(|_| m.reduce(stream.next_u64())).collect();
        moduli.iter().map(row).collect()
    };
    let [a, b, c] = ["a", "b", "c"].map(random);
    let mut out = a.clone();
    let (Time { median_ms, min_ms }, ()) = time(runs, || {
        for (i, m) in moduli.iter().enumerate() {
            m.mul_add(&mut out[i], &a[i], &b[i], &c[i]);
        }
        Ok(())
    })?;
    for (i, m) in moduli.iter().enumerate() {
        let q = u128::from(m.value());
        let wrong = (0..n).any(|x| {
            let exact = u128::from(a[i][x]) * u128::from(b[i][x]) + u128::from(c[i][x]);
            u128::from(out[i][x]) != exact % q
        });
        if wrong {
            return Err(Error::WrongResult(format!("fma modulo {q}")));
        }
    }
    let published = published(log_n, limbs);
    Ok(Fused {
        op: "fma",
        log_n,
        limbs,
        prime_bits: PRIME_BITS,
        // The loop above does not divide its rows, whatever the number of threads.
        threads: 1,
        isa: Isa::detect().name(),
        median_ms,
        min_ms,
        runs,
        // Three operands and the result, of eight bytes a residue.
        bytes: 8 * 4 * (u64::from(limbs) << log_n),
        published_multiply_add_us: published.map(|[us, _]| us),
        published_fused_us: published.map(|[_, us]| us),
    })
}

fn moduli(log_n: u32, limbs: u32) -> Result<Vec<Modulus>> {
    let mut below = 1 << PRIME_BITS;
    let mut moduli = Vec::new();
    for _ in 0..limbs {
        let Some(prime) = previous_prime(below, 2 << log_n) else {
            return Err(Error::Bug(format!("too few primes of {PRIME_BITS} bits")));
        };
        moduli.push(Modulus::new(prime).map_err(sudare::Error::from)?);
        // The next prime is searched below, so that all are different.
        below = prime;
    }
    Ok(moduli)
}

fn text(lines: &[Fused]) -> String {
    let us = |us: Option<f64>| us.map_or_else(String::new, |us| format!("{us:.2}"));
    let rows: Vec<Vec<String>> = lines
        .iter()
        .map(|line| {
            let found = 1e3 * line.median_ms;
            vec![
                line.log_n.to_string(),
                line.limbs.to_string(),
                format!("{found:.2}"),
                us(line.published_multiply_add_us),
                us(line.published_fused_us),
                us(line.published_fused_us.map(|us| us / found)),
                size::bytes(line.bytes),
            ]
        })
        .collect();
    let head = lines.first().map_or_else(String::new, |line| {
        format!(
            "a b + c modulo primes of {PRIME_BITS} bits, 1 thread, {}, {} runs; printed: Inoue, \
             Table 5.2\n",
            line.isa, line.runs
        )
    });
    let titles = ["log N", "limbs", "us", "multiply, add us", "fused us", "times", "touches"];
    head + &output::table(&titles, &rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_size_has_a_printed_time() {
        for log_n in LOG_N {
            for limbs in LIMBS {
                assert!(published(log_n, limbs).is_some());
            }
        }
        assert_eq!(published(15, 15), Some([539.31, 475.72]));
        assert_eq!(published(12, 11), Some([40.34, 39.76]));
        for (log_n, limbs) in [(9, 1), (16, 1), (10, 0), (10, 16)] {
            assert_eq!(published(log_n, limbs), None);
        }
    }

    #[test]
    fn results_are_checked() {
        let line = measure(11, 2, 1).unwrap();
        assert!(line.min_ms > 0.0 && text(&[line]).contains("3.57"));
    }
}

#![cfg_attr(
    not(test),
    allow(
        clippy::indexing_slicing,
        clippy::arithmetic_side_effects,
        reason = "computes with what it made itself"
    )
)]

use super::doctor::PRIME_BITS;
use crate::{
    bench::values::{horner, precision},
    output::Output,
};
use serde::Serialize;
use std::sync::Arc;
use sudare::{
    ckks::{self, Complex, Decryptor, Encoder, Encryptor, Evaluator, Params},
    rlwe::{self, GaloisElement, KeyGenerator, KeyRequest, SecretDistribution},
};
use sudare_arith::{
    Isa, Modulus, NttTable, previous_prime,
    prng::{Seed, Stream},
};
use sudare_roles::error::{Error, Result};

/// Check this build on this machine: known answers, kernels, and a round trip
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: sudare selftest --json")]
pub struct Args {}

#[derive(Serialize)]
struct Report {
    passed: usize,
    failed: usize,
    isa: &'static str,
    failures: Vec<String>,
}

/// Outcome of a check, with its failure in words.
type Check = core::result::Result<(), String>;

pub fn run(_: &Args, output: Output) -> Result<()> {
    let mut checks: Vec<(String, Check)> =
        vec![("security table".into(), known_security()), ("random stream".into(), known_stream())];
    // All kernels of this machine, also slower ones: a user can select each.
    for isa in Isa::ALL.into_iter().filter(|isa| isa.is_available()) {
        for bits in PRIME_BITS {
            let name = |what: &str| format!("{what}, {} kernels, {bits}-bit prime", isa.name());
            checks.push((name("arithmetic"), arithmetic(isa, bits)));
            checks.push((name("transforms"), transforms(isa, bits)));
        }
    }
    checks.push(("CKKS round trip".into(), round_trip().map_err(|e| e.to_string()).flatten()));
    let failures: Vec<String> = checks
        .iter()
        .filter_map(|(name, check)| Some(format!("{name}: {}", check.as_ref().err()?)))
        .collect();
    let report = Report {
        passed: checks.len() - failures.len(),
        failed: failures.len(),
        isa: Isa::detect().name(),
        failures,
    };
    output.write(&report, |report| {
        format!("{} passed, {} failed, {} kernels\n", report.passed, report.failed, report.isa)
    })?;
    if report.failed == 0 { Ok(()) } else { Err(Error::WrongResult(report.failures.join("; "))) }
}

fn equal<T: PartialEq + core::fmt::Debug>(what: &str, found: &T, expected: &T) -> Check {
    if found == expected { Ok(()) } else { Err(format!("{what}: {found:?} is not {expected:?}")) }
}

/// The published limits at 128 bits (ePrint 2024/463, Table 5.2).
fn known_security() -> Check {
    for (log_n, limit) in [(13, 214.0), (14, 430.0), (15, 868.0), (16, 1747.0)] {
        let found = rlwe::max_log2_qp(log_n, SecretDistribution::UniformTernary, 128.0);
        equal("limit of the modulus", &found, &limit)?;
    }
    Ok(())
}

/// Streams repeat, differ by label, and have about equal numbers of ones and zeros.
fn known_stream() -> Check {
    let seed = Seed::from_bytes([7; 32]);
    let words = |label: &str| {
        let mut words = vec![0; 4096];
        Stream::new(&seed, label, 0).fill(&mut words);
        words
    };
    equal("the same stream", &words("a"), &words("a"))?;
    if words("a") == words("b") {
        return Err("two labels give one stream".into());
    }
    let ones: u32 = words("a").iter().map(|word: &u64| word.count_ones()).sum();
    let mean = 4096 * 32;
    // Half the square root of 2^18 bits. Six deviations: a right stream never fails.
    let deviation = 256;
    if ones.abs_diff(mean) > 6 * deviation {
        return Err(format!("{ones} ones in {} bits", 2 * mean));
    }
    Ok(())
}

fn prime(bits: u32, step: u64) -> core::result::Result<u64, String> {
    previous_prime(1 << bits, step).ok_or_else(|| format!("no prime of {bits} bits"))
}

/// Rows with the extreme residues first.
fn rows<const K: usize>(q: u64, len: usize) -> [Vec<u64>; K] {
    let seed = Seed::from_bytes([1; 32]);
    core::array::from_fn(|i| {
        let mut stream = Stream::new(&seed, "row", i as u64);
        let mut row: Vec<u64> = (0..len).map(|_| stream.next_u64() % q).collect();
        // Carries and reductions go wrong at these first.
        row[..3].copy_from_slice(&[0, 1, q - 1]);
        row.rotate_left(i % 3);
        row
    })
}

/// Row kernels against 128-bit integers.
fn arithmetic(isa: Isa, bits: u32) -> Check {
    let q = prime(bits, 1 << 14)?;
    let m = Modulus::with_isa(q, isa).map_err(|e| e.to_string())?;
    let wide = u128::from(q);
    // No multiple of a vector's length, so that the rest after the last vector is tested, too.
    let [a, b, c, d] = rows::<4>(q, 1003);
    let naive = |f: &dyn Fn(usize) -> u128| -> Vec<u64> {
        (0..a.len()).map(|i| (f(i) % wide) as u64).collect()
    };
    let at = |row: &[u64], i: usize| u128::from(row[i]);
    let mut out = vec![0; a.len()];
    m.add_rows(&mut out, &a, &b);
    equal("sum", &out, &naive(&|i| at(&a, i) + at(&b, i)))?;
    m.sub_rows(&mut out, &a, &b);
    equal("difference", &out, &naive(&|i| at(&a, i) + wide - at(&b, i)))?;
    m.mul_rows(&mut out, &a, &b);
    equal("product", &out, &naive(&|i| at(&a, i) * at(&b, i)))?;
    m.mul_sum(&mut out, &[&a, &c], &[&b, &d]);
    equal("sum of products", &out, &naive(&|i| at(&a, i) * at(&b, i) + at(&c, i) * at(&d, i)))?;
    m.scale(&mut out, &a, m.shoup(q - 2));
    equal("multiple", &out, &naive(&|i| at(&a, i) * (wide - 2)))
}

/// Transforms against Horner's rule and the schoolbook product.
fn transforms(isa: Isa, bits: u32) -> Check {
    for log_n in [4, 6, 9, 13] {
        let n = 1usize << log_n;
        let q = prime(bits, 2 << log_n)?;
        let table = NttTable::with_isa(q, log_n, isa).map_err(|e| e.to_string())?;
        let m = table.modulus();
        let [a, b] = rows::<2>(q, n);
        let mut x = a.clone();
        let mut y = b.clone();
        table.forward(&mut x);
        table.forward(&mut y);
        for place in [0, 1, n / 2 + 1, n - 1] {
            equal("evaluation", &x[place], &horner(&table, &a, place))?;
        }
        let mut product = vec![0; n];
        m.mul_rows(&mut product, &x, &y);
        table.inverse(&mut product);
        table.inverse(&mut x);
        equal("inverse", &x, &a)?;
        // The schoolbook product takes N^2 steps.
        if log_n <= 9 {
            equal("negacyclic product", &product, &schoolbook(m, &a, &b))?;
        }
    }
    Ok(())
}

fn schoolbook(m: &Modulus, a: &[u64], b: &[u64]) -> Vec<u64> {
    let n = a.len();
    let mut out = vec![0; n];
    for (i, &x) in a.iter().enumerate() {
        for (j, &y) in b.iter().enumerate() {
            let term = m.mul(x, y);
            let k = (i + j) % n;
            out[k] = if i + j < n { m.add(out[k], term) } else { m.sub(out[k], term) };
        }
    }
    out
}

/// Keys, encryption, a product, a rotation and a conjugation, decryption.
fn round_trip() -> sudare::Result<Check> {
    let params = Params::new(ckks::preset("n13")?.spec)?;
    let top = params.top();
    let mut generator = KeyGenerator::new(params.rlwe())?;
    let secret = generator.secret_key()?;
    let public = Arc::new(generator.public_key(&secret)?);
    let request = KeyRequest::new()
        .relinearize(top)
        .rotations(params.log_n(), [3], top)
        .automorphism(GaloisElement::conjugation(params.log_n()), top);
    let keys = generator.evaluation_keys(&secret, &request)?;
    let encoder = Encoder::new(&params);
    let encryptor = Encryptor::new(&params, public)?;
    let evaluator = Evaluator::new(&params, Arc::new(keys))?;
    let decryptor = Decryptor::new(&params, secret)?;

    let x: Vec<Complex<f64>> = (0..params.max_slots())
        .map(|i| Complex { re: (i as f64).sin(), im: (0.7 * i as f64).cos() })
        .collect();
    let plain = encoder.encode_at(&x, top, params.scale_at(top))?;
    let a = encryptor.encrypt(&plain)?;
    let square = evaluator.mul_rescale(&a, &a)?;
    let result = evaluator.conjugate(&evaluator.rotate(&square, 3)?)?;
    let found = encoder.decode(&decryptor.decrypt(&result)?)?;
    let mut expected: Vec<Complex<f64>> = x.iter().map(|&v| (v * v).conj()).collect();
    expected.rotate_left(3);
    let bits = precision(&found, &expected);
    // A right result has far more bits, a wrong one has none.
    Ok(if bits > 16.0 { Ok(()) } else { Err(format!("{bits:.1} bits of precision")) })
}

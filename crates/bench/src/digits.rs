//! Removal of lowest digits, for the sizes of a thesis.

use crate::published;
use serde::Serialize;
use std::{sync::Arc, time::Instant};
use sudare::{
    circuits::exact::digits::{DigitRemoval, RemovalPlan},
    exact::{
        self, Decryptor, Encryptor, Evaluator, IntegerEncoder, Modulus, Needs, Params, PlainPoly,
    },
    rlwe::KeyGenerator,
};
use sudare_arith::prng::{Seed, Stream};
use sudare_cli::{
    bench::{line::Line as OfAll, timing::summary},
    output::{self, Output},
    progress::{self, Progress},
};
use sudare_roles::{
    error::{Error, Result},
    plan::security::least_security,
};

const OP: &str = "digit_removal";

/// Number of levels that remain.
const LEFT: u32 = 2;
/// Number of products with constants whose sum has room in a level.
const SUMMED: u32 = 16;

/// A line of output. Results are exact, so there is no precision.
#[derive(Serialize)]
struct Line {
    #[serde(flatten)]
    of_all: OfAll,
    plaintext_modulus: String,
    digits_removed: u32,
    log_n: u32,
    /// 1 if a plaintext has one value, its constant.
    slots: usize,
    degree: u128,
    products: usize,
    levels_left: u32,
    seconds: f64,
    /// Security of the weakest key, in bits.
    security_bits: f64,
    published: Option<Removed>,
}

/// A row of Table 3.3 of the thesis: its own method, and the method that it is compared with.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
struct Removed {
    seconds: f64,
    levels_before: u32,
    levels_left: u32,
    /// Seconds of Halevi and Shoup's procedure, as HElib had it.
    helib_seconds: f64,
    helib_levels_left: u32,
    table: &'static str,
}

/// Finds the row for the sizes.
fn removed((p, e, v): Sizes) -> Option<Removed> {
    let row = published::published(OP, format!("p={p} e={e} v={v}"))?;
    Some(Removed {
        seconds: row.value("seconds"),
        levels_before: row.whole("levels_before"),
        levels_left: row.whole("levels_left"),
        helib_seconds: row.value("helib_seconds"),
        helib_levels_left: row.whole("helib_levels_left"),
        table: row.table,
    })
}

/// Lists the sizes of that table.
fn published_sizes() -> Vec<Sizes> {
    let number = |text: &str, name| -> Option<u32> { text.strip_prefix(name)?.parse().ok() };
    let sizes = |case: &str| {
        let mut parts = case.split(' ');
        let p = number(parts.next()?, "p=")?;
        let e = number(parts.next()?, "e=")?;
        let v = number(parts.next()?, "v=")?;
        Some((p.into(), e, v))
    };
    published::cases(OP).filter_map(sizes).collect()
}

/// The sizes `(p, e, v)`: removal of the `v` lowest digits of integers modulo `p^e`.
type Sizes = (u64, u32, u32);

/// Sets are named `digits-P-E-V`. Without a name, the sets of the thesis are run.
pub(super) fn run(name: Option<&str>, runs: u32, output: Output) -> Result<()> {
    let all = match name {
        None => published_sizes(),
        Some(name) => vec![sizes(name)?],
    };
    let mut lines = Vec::new();
    for sizes in all {
        let line = measure(sizes, runs)?;
        if output.json {
            output.write(&line, |_| String::new())?;
        }
        lines.push(line);
    }
    if output.json { Ok(()) } else { output.write_text(&text(&lines)) }
}

fn sizes(name: &str) -> Result<Sizes> {
    let parts: Option<Vec<u64>> = name
        .strip_prefix("digits-")
        .and_then(|sizes| sizes.split('-').map(|part| part.parse().ok()).collect());
    match parts.as_deref() {
        Some(&[p, e, v]) if e.max(v) <= 124 => Ok((p, e as u32, v as u32)),
        _ => Err(Error::Usage(format!(
            "{name}: digits are removed in sets such as digits-127-3-1, for the lowest digit of \
             integers modulo 127^3"
        ))),
    }
}

/// Returns the smallest ring of 128 bits of security for the removal.
fn params(removal: &DigitRemoval) -> Result<Params> {
    let plaintext_modulus = removal.modulus();
    let depth = removal.depth() + LEFT;
    let choice =
        exact::choose(Needs { plaintext_modulus, depth, rotations: SUMMED, last_rotations: 0 })?;
    Ok(Params::new(choice.spec)?)
}

/// Returns random values, in all slots if there are any, as a plaintext and as residues.
fn values(t: Modulus, log_n: u32, stream: &mut Stream) -> Result<Vec<u128>> {
    let slots = encoder(t, log_n)?.map_or(1, |encoder| encoder.slots());
    let mut word = || u128::from(stream.next_u64());
    Ok((0..slots).map(|_| t.reduce(word() << 64 | word())).collect())
}

fn encoder(t: Modulus, log_n: u32) -> Result<Option<IntegerEncoder>> {
    // Modulo powers of two a plaintext has no slots, only its constant.
    let most = if t.prime() == 2 { None } else { IntegerEncoder::most_slots(t, log_n) };
    Ok(most.map(|log_slots| IntegerEncoder::new(t, log_n, log_slots)).transpose()?)
}

fn plaintext(t: Modulus, log_n: u32, values: &[u128]) -> Result<PlainPoly> {
    let centered: Vec<i128> = values.iter().map(|&x| t.centered(x)).collect();
    Ok(match encoder(t, log_n)? {
        Some(encoder) => encoder.encode(&centered)?,
        None => PlainPoly::from_unsigned(t, log_n, values)?,
    })
}

fn measure(sizes: Sizes, runs: u32) -> Result<Line> {
    let (p, e, v) = sizes;
    let removal = DigitRemoval::new(Modulus::new(p, e)?, v)?;
    let params = params(&removal)?;
    let t = removal.modulus();
    let log_n = params.log_n();
    let top = params.top();
    let factor = params.fresh_factor(top, t)?;
    let plan: RemovalPlan = removal.plan(&params, top, factor)?;
    let request = plan.required_keys(&params);
    let mut generator = KeyGenerator::new(params.rlwe())?;
    let secret = generator.secret_key()?;
    let encryptor = Encryptor::new(&params, Arc::new(generator.public_key(&secret)?))?;
    let keys = progress::evaluation_keys("Making keys", &mut generator, &secret, &request)?;
    let evaluator = Evaluator::new(&params, Arc::new(keys))?;
    let decryptor = Decryptor::new(&params, Arc::new(secret))?;
    let seed = Seed::random().map_err(sudare::Error::from)?;
    let name = format!("digits-{p}-{e}-{v}");
    let progress = Progress::new(format!("Timing {name}"), runs as usize + 1);
    let mut times = Vec::new();
    let mut slots = 0;
    // The first run is the warm-up.
    for run in 0..=runs {
        let x = values(t, log_n, &mut Stream::new(&seed, "values", run.into()))?;
        let a = encryptor.encrypt(&plaintext(t, log_n, &x)?)?;
        // Encryption and decryption are not part of the removal.
        let start = Instant::now();
        let found = plan.run(&evaluator, &a)?;
        let time = start.elapsed().as_secs_f64() * 1e3;
        let expected: Vec<u128> =
            x.iter().map(|&x| removal.evaluate(x)).collect::<sudare::Result<_>>()?;
        if decryptor.decrypt(&found)? != plaintext(removal.output_modulus(), log_n, &expected)? {
            return Err(Error::WrongResult(format!("{OP}, {name}")));
        }
        slots = x.len();
        progress.set(run as usize + 1);
        times.extend((run > 0).then_some(time));
    }
    drop(progress);
    let time = summary(times);
    let security = request.key_security(params.rlwe())?;
    Ok(Line {
        of_all: OfAll {
            bytes: request.bytes(params.rlwe())?,
            ..OfAll::new(OP.into(), &name, top, &time, runs)
        },
        plaintext_modulus: t.to_string(),
        digits_removed: v,
        log_n,
        slots,
        degree: removal.degree(),
        products: plan.products(),
        levels_left: plan.output_level().0,
        seconds: time.median_ms / 1e3,
        security_bits: least_security(&security),
        published: removed(sizes),
    })
}

fn text(lines: &[Line]) -> String {
    let row = |line: &Line| {
        vec![
            line.of_all.params.clone(),
            format!("2^{}", line.log_n),
            line.slots.to_string(),
            line.degree.to_string(),
            line.products.to_string(),
            format!("{}/{}", line.of_all.level, line.levels_left),
            format!("{:.2}", line.seconds),
            line.published.map_or_else(String::new, |row| format!("{:.1}", row.seconds)),
        ]
    };
    let rows: Vec<_> = lines.iter().map(row).collect();
    let head =
        ["set", "N", "slots", "degree", "products", "levels before/after", "seconds", "published"];
    output::table(&head, &rows) + "all values exact\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_are_named_by_their_sizes() {
        assert_eq!(sizes("digits-127-3-1").unwrap(), (127, 3, 1));
        for bad in
            ["digits-127-3", "127-3-1", "digits-127-3-x", "digits-127-3-1-1", "digits-2-999-1"]
        {
            assert!(sizes(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn digits_are_removed_and_checked() {
        let line = measure((5, 3, 1), 1).unwrap();
        assert_eq!((line.slots, line.digits_removed), (2, 1));
        assert!(line.levels_left >= LEFT && line.security_bits >= 128.0);
        assert!(text(&[line]).contains("digits-5-3-1"));
        let line = measure((2, 4, 2), 1).unwrap();
        assert_eq!((line.slots, line.published.is_some()), (1, false));
    }

    /// Every size of the thesis has a ring.
    #[test]
    fn every_row_has_parameters() {
        assert_eq!(published_sizes().len(), 6);
        for (p, e, v) in published_sizes() {
            let removal = DigitRemoval::new(Modulus::new(p, e).unwrap(), v).unwrap();
            assert_eq!(params(&removal).unwrap().top().0, removal.depth() + LEFT);
            assert!(removed((p, e, v)).is_some());
        }
    }
}

//! Choice of primes by size.

use super::{
    UpperChain,
    params::{MAX_PRIMES, check_primes},
};
use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use sudare_arith::{dd::Dd, next_prime, previous_prime, real};

/// Sizes of the primes of an [`UpperChain`], in bits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UpperSpec {
    /// Sizes in bits of the primes that replace the chain. Their sum equals the chain's to half a
    /// bit: the last prime is chosen to make the products as close as possible.
    pub base_bits: Vec<f64>,
    /// Sizes in bits of the primes of each level.
    pub levels_bits: Vec<Vec<f64>>,
}

impl UpperSpec {
    /// Rejects levels without primes, and a product that differs from the chain's.
    fn check(&self, q_bits: &[Vec<f64>]) -> Result<()> {
        let invalid = |problem| Err(Error::InvalidSpec { field: "upper", problem });
        if self.levels_bits.is_empty() || self.levels_bits.iter().any(Vec::is_empty) {
            return invalid("one level or more, each of one prime or more, are needed".into());
        }
        let base: f64 = self.base_bits.iter().sum();
        let chain: f64 = q_bits.iter().flatten().sum();
        // The comparison is also false for NaN.
        let alike = (base - chain).abs() <= 0.5;
        if alike {
            return Ok(());
        }
        invalid(format!(
            "base_bits are {base:.2} bits together and the chain, q_bits, {chain:.2}: choose sizes \
             of the same sum, to half a bit"
        ))
    }
}

/// Primes `1 mod 2N`, each used once.
pub(crate) struct Supply {
    /// `2N`.
    pub(crate) step: u64,
    /// Primes already used.
    pub(crate) used: Vec<u64>,
}

impl Supply {
    /// Returns the largest free prime below `2^bits` and above half of that.
    pub(crate) fn below(&mut self, bits: f64) -> Result<u64> {
        let mut end = power_of_two(bits) as u64;
        let least = end / 2;
        loop {
            let prime = previous_prime(end, self.step)
                .filter(|&prime| prime > least)
                .ok_or_else(|| none_left(bits))?;
            if !self.used.contains(&prime) {
                self.used.push(prime);
                return Ok(prime);
            }
            end = prime;
        }
    }

    /// Returns the free prime nearest to `target`, between half and twice the target.
    pub(crate) fn nearest(&mut self, target: f64) -> Result<u64> {
        let mut down = target as u64;
        let mut up = target as u64;
        loop {
            let below = previous_prime(down, self.step);
            // The search upwards includes its start, the one downwards excludes its end.
            let above = next_prime(up + 1, self.step);
            let distance = |p: Option<u64>| p.map_or(f64::INFINITY, |p| (p as f64 - target).abs());
            let nearer = if distance(below) <= distance(above) { below } else { above };
            let prime = nearer
                .filter(|&p| (target / 2.0..target * 2.0).contains(&(p as f64)))
                .ok_or_else(|| none_left(real::log2(target)))?;
            if !self.used.contains(&prime) {
                self.used.push(prime);
                return Ok(prime);
            }
            if nearer == below { down = prime } else { up = prime }
        }
    }

    /// Returns primes of these sizes, except for the last, which is the prime nearest to
    /// `last(others)`.
    pub(crate) fn several(
        &mut self,
        bits: &[f64],
        last: impl Fn(&[u64]) -> f64,
    ) -> Result<Vec<u64>> {
        let (_, first) = bits.split_last().ok_or_else(|| none_left(0.0))?;
        let mut primes: Vec<u64> =
            first.iter().map(|&bits| self.nearest(power_of_two(bits))).collect::<Result<_>>()?;
        // The last prime makes up for the deviations of the others.
        primes.push(self.nearest(last(&primes))?);
        Ok(primes)
    }

    /// Returns primes of these sizes for levels above a chain of these primes.
    pub(crate) fn upper(&mut self, spec: &UpperSpec, chain: &[u64]) -> Result<UpperChain> {
        let base = |others: &[u64]| quotient(chain, others).to_f64();
        let base = self.several(&spec.base_bits, base)?;
        let level = |bits: &Vec<f64>| {
            let target = power_of_two(bits.iter().sum());
            self.several(bits, |others| target / quotient(others, &[]).to_f64())
        };
        Ok(UpperChain { base, levels: spec.levels_bits.iter().map(level).collect::<Result<_>>()? })
    }
}

/// Returns the quotient of products of about the same size, which may exceed the range of doubles.
pub(crate) fn quotient(mut above: &[u64], mut below: &[u64]) -> Dd {
    let mut quotient = Dd::ONE;
    loop {
        // Alternating between the factors keeps the partial quotient near 1, within the range of
        // doubles.
        let large = quotient.to_f64() > 1.0;
        quotient = match (above, below) {
            (_, [prime, rest @ ..]) if large || above.is_empty() => {
                below = rest;
                quotient / Dd::from(*prime)
            }
            ([prime, rest @ ..], _) => {
                above = rest;
                quotient * Dd::from(*prime)
            }
            ([], _) => return quotient,
        };
    }
}

/// Maximum bits of a level: the quotient of two moduli is a double, with room for a scale.
const MAX_LEVEL_BITS: f64 = 720.0;

/// Rejects unsupported rings and levels without primes.
pub(crate) fn check_ring(log_n: u32, q_bits: &[Vec<f64>]) -> Result<()> {
    let invalid = |field, problem: String| Err(Error::InvalidSpec { field, problem });
    if !(4..=17).contains(&log_n) {
        return invalid("log_n", format!("{log_n} is out of range: 4 to 17 are supported"));
    }
    if q_bits.is_empty() || q_bits.iter().any(Vec::is_empty) {
        return invalid("q_bits", "every level needs the size of at least one prime".into());
    }
    Ok(())
}

/// Rejects primes of sizes out of range and levels of too many bits, without a search for primes.
/// Checks the levels of the chain, the levels above it, and the special primes.
pub(crate) fn check_sizes(
    log_n: u32,
    q_bits: &[Vec<f64>],
    upper: Option<&UpperSpec>,
    special: &[f64],
) -> Result<()> {
    let invalid = |field, problem: String| Err(Error::InvalidSpec { field, problem });
    if let Some(upper) = upper {
        upper.check(q_bits)?;
    }
    // Primes `1 mod 2N` exceed `2N`, so the smallest has more than `log_n + 1` bits.
    let least = f64::from(log_n + 2);
    let base = upper.iter().flat_map(|upper| &upper.base_bits);
    let levels = || q_bits.iter().chain(upper.iter().flat_map(|upper| &upper.levels_bits));
    let chain: Vec<f64> = levels().flatten().chain(base).copied().collect();
    check_primes(log_n, chain.len() + special.len())?;
    for (field, sizes) in [("q_bits", &chain[..]), ("p_bits", special)] {
        if sizes.len() > MAX_PRIMES {
            let count = sizes.len();
            return invalid(field, format!("{count} primes are too many: at most {MAX_PRIMES}"));
        }
        // Primes are below `2^62`, and the prime nearest to a size may be above that size.
        if let Some(bits) = sizes.iter().find(|bits| !(least..=61.5).contains(*bits)) {
            return invalid(
                field,
                format!("a prime of {bits} bits is out of range: {least} to 61.5 in this ring"),
            );
        }
    }
    let mut sums = levels().map(|level| level.iter().sum::<f64>()).enumerate();
    if let Some((level, bits)) = sums.find(|(_, bits)| *bits > MAX_LEVEL_BITS) {
        return invalid(
            "q_bits",
            format!("level {level} has {bits} bits: give it at most {MAX_LEVEL_BITS}"),
        );
    }
    Ok(())
}

fn none_left(bits: f64) -> Error {
    Error::InvalidSpec {
        field: "q_bits",
        problem: format!("there are not enough primes of {bits:.1} bits for this ring"),
    }
}

/// Rounds `2^bits` to the nearest double, the same on every platform, because primes depend on it.
/// NaN for `bits` that are not finite.
pub(crate) fn power_of_two(bits: f64) -> f64 {
    if !bits.is_finite() {
        return f64::NAN;
    }
    let whole = bits.floor();
    // `real::exp2` need not return the nearest double, so compute in double words: the `i`-th
    // binary digit of the fraction contributes the `i`-fold square root of 2.
    let mut digits = ((bits - whole) * 2.0 * (1u64 << 63) as f64) as u64;
    let mut power = Dd::ONE;
    let mut root = Dd::from(2);
    while digits != 0 {
        root = root.sqrt();
        if digits >> 63 == 1 {
            power *= root;
        }
        digits <<= 1;
    }
    Dd::from(power.to_f64()).mul_pow2(whole as i32).to_f64()
}

#[cfg(test)]
mod tests {
    use super::*;
    use sudare_arith::is_prime;

    /// Every prime `1 mod 32` below `2^16`, for the ring of degree 16.
    fn all() -> Vec<u64> {
        (1..1 << 16).step_by(32).filter(|&n| is_prime(n)).collect()
    }

    fn supply() -> Supply {
        Supply { step: 32, used: Vec::new() }
    }

    #[test]
    fn primes_below_are_the_largest_until_half_the_size() {
        // 2^12.5 is 5792.6.
        for (bits, size) in [(12.0, 4096), (12.5, 5793), (16.0, 1 << 16)] {
            let mut supply = supply();
            let found: Vec<_> = core::iter::from_fn(|| supply.below(bits).ok()).collect();
            let expected = all().into_iter().rev().filter(|&p| p < size && 2 * p > size);
            assert_eq!(found, expected.collect::<Vec<_>>());
        }
    }

    #[test]
    fn nearest_primes_come_by_their_distance() {
        for target in [4096.0, 5792.6, 12_345.25] {
            let mut expected = all();
            let distance = |p: &u64| (*p as f64 - target).abs();
            expected.retain(|&p| 2.0 * p as f64 > target && (p as f64) < 2.0 * target);
            expected.sort_by(|p, q| distance(p).total_cmp(&distance(q)));
            let mut supply = supply();
            for prime in &expected[..20] {
                assert_eq!(supply.nearest(target), Ok(*prime));
            }
        }
    }
}

//! The choice of primes by size.

use crate::{Error, Result};
use sudare_arith::{dd::Dd, next_prime, previous_prime};

/// Primes `1 mod 2N`, each taken once.
pub(crate) struct Supply {
    /// `2N`.
    pub(crate) step: u64,
    /// Those taken.
    pub(crate) used: Vec<u64>,
}

impl Supply {
    /// The largest free prime below `2^bits`, and above half of that.
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

    /// The free prime nearest to `target`, between half and twice that.
    pub(crate) fn nearest(&mut self, target: f64) -> Result<u64> {
        let (mut down, mut up) = (target as u64, target as u64);
        loop {
            let below = previous_prime(down, self.step);
            let above = next_prime(up + 1, self.step);
            let distance = |p: Option<u64>| p.map_or(f64::INFINITY, |p| (p as f64 - target).abs());
            let nearer = if distance(below) <= distance(above) { below } else { above };
            let prime = nearer
                .filter(|&p| (target / 2.0..target * 2.0).contains(&(p as f64)))
                .ok_or_else(|| none_left(target.log2()))?;
            if !self.used.contains(&prime) {
                self.used.push(prime);
                return Ok(prime);
            }
            if nearer == below { down = prime } else { up = prime }
        }
    }

    /// Primes of these sizes, but for the last, which is the one nearest to `last(others)`.
    pub(crate) fn several(
        &mut self,
        bits: &[f64],
        last: impl Fn(&[u64]) -> f64,
    ) -> Result<Vec<u64>> {
        let (_, first) = bits.split_last().ok_or_else(|| none_left(0.0))?;
        let mut primes: Vec<u64> =
            first.iter().map(|&bits| self.nearest(power_of_two(bits))).collect::<Result<_>>()?;
        primes.push(self.nearest(last(&primes))?);
        Ok(primes)
    }
}

fn none_left(bits: f64) -> Error {
    Error::InvalidSpec {
        field: "q_bits",
        problem: format!("there are not enough primes of {bits:.1} bits for this ring"),
    }
}

/// `2^bits` to the nearest double, the same on every platform, as primes must be; NaN for `bits`
/// that are not finite.
pub(crate) fn power_of_two(bits: f64) -> f64 {
    if !bits.is_finite() {
        return f64::NAN;
    }
    let whole = bits.floor();
    // The last bits of `f64::exp2` are up to the platform, those of square roots are not:
    // the `i`-th binary digit of the fraction stands for the `i`-fold square root of 2.
    let mut digits = ((bits - whole) * 2.0 * (1u64 << 63) as f64) as u64;
    let (mut power, mut root) = (Dd::ONE, Dd::from(2));
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

    /// Every prime `1 mod 32` below `2^16`, the ring being of degree 16.
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

use super::SecretDistribution;
use crate::ring::RnsBasis;
use core::f64::consts::{LN_2, PI};
use sudare_arith::{
    fft::{Complex, SpecialFft},
    mem::{Buf, Secrecy},
    real,
};
use zeroize::Zeroize;

/// Excess over the usual value `ln(N / 2)` of the largest of `N / 2` squares of complex normal
/// numbers, divided by their mean. It is exceeded with a probability of one in a thousand.
const RARELY: f64 = 7.0;

/// `-log2` of the probability that a shared secret exceeds its limit, once for each key.
const SHARED_FAILURE_BITS: f64 = 64.0;

/// Number of directions of the complex plane. In one of them, the projection of a number is nearly
/// as long as the number.
const DIRECTIONS: f64 = 16.0;

/// The limit on a secret's canonical norm: the largest magnitude of its values at the roots of
/// `X^N + 1`.
///
/// A value is nearly a complex normal number. The mean of its square is the expected number of
/// nonzero coefficients. Secrets above the limit, `e^-7` of all, are drawn again, which costs less
/// than 0.002 bits of security.
///
/// A shared secret is never seen as a whole. Each piece is below the limit of one ternary
/// polynomial, so that the sum is below their number times this limit. The sum of many pieces is
/// smaller except with a probability of `2^-64`.
pub(crate) fn canonical_limit(distribution: SecretDistribution, log_n: u32) -> f64 {
    let degree = real::exp2(f64::from(log_n));
    let weight = match distribution {
        SecretDistribution::UniformTernary => degree * 2.0 / 3.0,
        SecretDistribution::FixedWeight { h } => f64::from(h),
        SecretDistribution::SharedTernary { pieces, .. } => {
            let pieces = f64::from(pieces);
            let certain = pieces * canonical_limit(SecretDistribution::UniformTernary, log_n);
            // Each direction has the tail of a normal number, for `N / 2` pairs of roots.
            let tail = SHARED_FAILURE_BITS + real::log2(degree / 2.0 * DIRECTIONS);
            let square = tail * LN_2 * pieces * degree * 2.0 / 3.0;
            return certain.min(square.sqrt() / real::cos(PI / DIRECTIONS));
        }
    };
    (weight * (real::ln(degree / 2.0) + RARELY)).sqrt()
}

/// Returns the canonical norm of a polynomial with these coefficients.
pub(super) fn canonical_norm(coeffs: &[i8]) -> f64 {
    let (low, high) = coeffs.split_at(coeffs.len() / 2);
    let pairs = low.iter().zip(high);
    let mut values: Vec<_> =
        pairs.map(|(&a, &b)| Complex::new(f64::from(a), f64::from(b))).collect();
    SpecialFft::new(values.len().max(1).ilog2()).forward(&mut values);
    // Nonnegative doubles have the same order as their bits, whose maximum needs no branch.
    let squares = values.iter().map(|z| (z.re * z.re + z.im * z.im).to_bits());
    let largest = f64::from_bits(squares.fold(0, u64::max));
    for z in &mut values {
        z.re.zeroize();
        z.im.zeroize();
    }
    largest.sqrt()
}

/// Room for small coefficients that are secret.
pub(super) fn small_secret(basis: &RnsBasis) -> Buf {
    // Eight coefficients of one byte in a word.
    basis.pool().take_as(Secrecy::Key, basis.n() / size_of::<u64>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use sudare_arith::{
        prng::{Seed, Stream},
        sample,
    };

    #[test]
    fn the_norm_is_that_at_the_roots() {
        let coeffs = [1i8, -1, 0, 1, 1, 0, -1, 1];
        let value = |k: u32| {
            let angle = core::f64::consts::PI * f64::from(2 * k + 1) / 8.0;
            let term = |f: fn(f64) -> f64| -> f64 {
                coeffs.iter().zip(0..).map(|(&c, i)| f64::from(c) * f(angle * f64::from(i))).sum()
            };
            term(f64::cos).hypot(term(f64::sin))
        };
        let largest = (0..8).map(value).fold(0.0, f64::max);
        assert!((canonical_norm(&coeffs) - largest).abs() < 1e-12);
        // A secret with equal coefficients.
        let ones = canonical_norm(&[1; 1024]);
        assert!(ones > canonical_limit(SecretDistribution::UniformTernary, 10), "{ones}");
    }

    /// About as many uniform secrets exceed a limit as normal numbers would.
    #[test]
    fn few_secrets_are_above_the_limit() {
        let mut stream = Stream::new(&Seed::from_bytes([3; 32]), "test", 0);
        let limit = canonical_limit(SecretDistribution::UniformTernary, 8);
        // `e^(-x)` of each of 128 squares, at 5 below the limit.
        let lower = (limit * limit - 5.0 * 256.0 * 2.0 / 3.0).sqrt();
        let mut above = 0;
        let mut often = 0;
        let mut coeffs = vec![0i8; 256];
        for _ in 0..1000 {
            sample::ternary(&mut stream, &mut coeffs);
            let norm = canonical_norm(&coeffs);
            above += u32::from(norm > limit);
            often += u32::from(norm > lower);
        }
        assert!(above <= 8, "{above}");
        // `1 - exp(-e^-2)` is 0.127.
        assert!((70..190).contains(&often), "{often}");
    }
}

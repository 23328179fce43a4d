use super::{Level, Params, SecretDistribution};
use crate::ring::LimbSet;
use sudare_arith::{real, sample::CBD21_VARIANCE as ERROR_VARIANCE};

/// Variance of a uniform ternary coefficient.
const TERNARY_VARIANCE: f64 = 2.0 / 3.0;

/// Variance of a remainder of rounding, uniform on an interval of length 1.
const ROUNDING_VARIANCE: f64 = 1.0 / 12.0;

/// `-log2` of the probability that a bound does not hold.
const FAILURE_BITS: f64 = 64.0;

/// Directions of the complex plane in one of which a number is nearly as long as it is.
const DIRECTIONS: f64 = 16.0;

/// Bounds of error polynomials in the canonical norm: the largest magnitude of their values at
/// the roots of `X^N + 1`, which divided by the scale are those of the slots.
///
/// Each holds for all slots but for a probability of `2^-64`, whatever the message is and
/// however often the polynomial is used: products are bounded by products of bounds, sums by
/// sums. Remainders of rounding and digits of key switches are taken for uniform. Derivations:
/// `docs/notes/worst-case-error.md`.
#[derive(Debug, Clone)]
pub struct CanonicalBounds {
    params: Params,
    degree: f64,
    tail: f64,
}

impl CanonicalBounds {
    /// Bounds of errors under these parameters.
    #[must_use]
    pub fn new(params: &Params) -> Self {
        let log_n = f64::from(params.log_n());
        let bits = FAILURE_BITS + (log_n - 1.0) + real::log2(DIRECTIONS);
        let shrinks = real::cos(core::f64::consts::PI / DIRECTIONS);
        let tail = (bits * core::f64::consts::LN_2).sqrt() / shrinks;
        Self { params: params.clone(), degree: real::exp2(log_n), tail }
    }

    /// Of a polynomial with independent centred coefficients of this variance, whose tails are at
    /// most those of a normal law: at a root, in any direction, it is such a number of variance
    /// `N / 2` times that.
    fn polynomial(&self, variance: f64) -> f64 {
        self.tail * (variance * self.degree).sqrt()
    }

    fn secret(&self) -> f64 {
        match self.params.spec().secret {
            SecretDistribution::UniformTernary => self.polynomial(TERNARY_VARIANCE),
            // Of few coefficients, all may be where they count most.
            SecretDistribution::FixedWeight { h } => {
                self.polynomial((2.0 * f64::from(h) / self.degree).min(1.0))
            }
        }
    }

    /// A fresh encryption under a public key: `v e + e_0 + e_1 s`.
    #[must_use]
    pub fn fresh(&self) -> f64 {
        self.polynomial(ERROR_VARIANCE) * (self.polynomial(TERNARY_VARIANCE) + 1.0 + self.secret())
    }

    /// Rounding both polynomials of a ciphertext: `t_0 + t_1 s`.
    #[must_use]
    pub fn rounding(&self) -> f64 {
        self.polynomial(ROUNDING_VARIANCE) * (1.0 + self.secret())
    }

    /// What a key switch at `level` adds, by the level key for `key_level` if there is one:
    /// `sum_j d_j e_j / P` over the digits, and the rounding of the division by `P`.
    #[must_use]
    pub fn key_switch(&self, level: Level, key_level: Option<Level>) -> f64 {
        let highest = self.params.upper_top();
        let limbs = self.params.limbs_of_keys(key_level, level.min(highest));
        self.switch(limbs)
    }

    fn switch(&self, limbs: LimbSet) -> f64 {
        let log2_prime =
            |i: usize| real::log2(self.params.basis().modulus(limbs, i).value() as f64);
        let log2_p = self.params.log2_special(limbs.p());
        let digits = self.params.digit_primes_of(limbs).into_iter();
        let ratios = digits.map(|owned| real::exp2(owned.map(log2_prime).sum::<f64>() - log2_p));
        let digit = self.polynomial(ROUNDING_VARIANCE) * self.polynomial(ERROR_VARIANCE);
        ratios.sum::<f64>() * digit + self.rounding()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rlwe::{Noise, Spec};
    use sudare_arith::previous_prime;

    /// By other formulas, of coefficients.
    #[test]
    fn bounds_are_some_bits_above_standard_deviations() {
        for secret in
            [SecretDistribution::UniformTernary, SecretDistribution::FixedWeight { h: 16 }]
        {
            let prime = |end| previous_prime(end, 2048).unwrap();
            let [base, first, special] = [1 << 50, 1 << 40, 1 << 48].map(prime);
            let params = Params::new(Spec {
                log_n: 10,
                q: vec![vec![base], vec![first], vec![prime(first)]],
                upper: None,
                p: vec![special, prime(special)],
                extra_p: Vec::new(),
                secret,
                security_bits: None,
            });
            let params = &params.unwrap();
            let bounds = CanonicalBounds::new(params);
            let above = |bound: f64, noise: Noise| bound.log2() - noise.log2_sd() - 5.0;
            for (bound, noise) in [
                (bounds.fresh(), Noise::fresh(params)),
                (bounds.rounding(), Noise::rounding(params)),
                (bounds.key_switch(Level(0), None), Noise::key_switch(params, Level(0))),
                (bounds.key_switch(Level(2), None), Noise::key_switch(params, Level(2))),
            ] {
                let bits = above(bound, noise);
                assert!((4.0..8.0).contains(&bits), "{secret:?}: {bits}");
            }
        }
    }
}

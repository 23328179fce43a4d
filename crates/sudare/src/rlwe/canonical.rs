use super::{Level, Params, SecretDistribution, canonical_limit};
use crate::ring::LimbSet;
use core::{
    f64::consts::{LN_2, PI},
    ops::Range,
};
use sudare_arith::{real, sample::CBD21_VARIANCE as ERROR_VARIANCE};

/// Variance of a uniform ternary coefficient.
const TERNARY_VARIANCE: f64 = 2.0 / 3.0;

/// Variance of a rounding remainder, uniform on an interval of length 1.
const ROUNDING_VARIANCE: f64 = 1.0 / 12.0;

/// `-log2` of the probability that a bound fails. A key releases the results of at least 2^40
/// operations. Over all of them the probability must stay below the 2^-40 that the release noise
/// allows.
const FAILURE_BITS: f64 = 96.0;

/// Number of directions of the complex plane. In one of them, the projection of a number is nearly
/// as long as the number.
const DIRECTIONS: f64 = 16.0;

/// Bounds of error polynomials in the canonical norm: the largest magnitude of their values at the
/// roots of `X^N + 1`. Divided by the scale, these values are the errors of the slots.
///
/// Each bound holds for all slots except with probability `2^-96`, for any message and any number
/// of uses of the polynomial. Rounding remainders and key-switching digits are assumed to be
/// uniform. Derivations: `docs/notes/worst-case-error.md`.
#[derive(Debug, Clone)]
pub struct CanonicalBounds {
    params: Params,
    degree: f64,
    /// Variance of a coefficient of the secret.
    secret: f64,
}

/// A sum of polynomials and of products of polynomials, with independent centred coefficients whose
/// tails are at most the tails of normal distributions.
#[derive(Debug)]
struct Sum {
    /// Product of the variances of both factors' coefficients, for each product.
    products: Vec<f64>,
    /// Variance of the coefficients of the polynomials outside products.
    alone: f64,
}

impl CanonicalBounds {
    /// Computes bounds of errors under these parameters.
    #[must_use]
    pub fn new(params: &Params) -> Self {
        let degree = real::exp2(f64::from(params.log_n()));
        let secret = match params.spec().secret {
            SecretDistribution::UniformTernary => TERNARY_VARIANCE,
            SecretDistribution::SharedTernary { pieces, .. } => {
                TERNARY_VARIANCE * f64::from(pieces)
            }
            // All of a few coefficients may meet where they count most.
            SecretDistribution::FixedWeight { h } => (2.0 * f64::from(h) / degree).min(1.0),
        };
        Self { params: params.clone(), degree, secret }
    }

    /// Returns a bound of the largest magnitude at a root.
    ///
    /// In one direction, the exponential of `theta` times the value has a mean of at most
    /// `exp(theta^2 N V / 4)` for polynomials outside products, and of at most
    /// `1 / (1 - theta^2 N^2 V / 4)` for a product.
    fn largest(&self, sum: &Sum) -> f64 {
        const STEPS: u32 = 64;
        let failure = FAILURE_BITS + real::log2(self.degree / 2.0 * DIRECTIONS);
        let shrinks = real::cos(PI / DIRECTIONS);
        if sum.products.is_empty() {
            // The best theta of normal tails.
            return (failure * LN_2 * self.degree * sum.alone).sqrt() / shrinks;
        }
        let most = sum.products.iter().copied().fold(0.0, f64::max);
        let bound = |step: u32| {
            // The value of theta^2 N^2 / 4.
            // Up to the first zero of a factor `1 - theta^2 N^2 V / 4`, beyond which the bound does
            // not hold.
            let square = f64::from(step) / f64::from(STEPS) / most;
            let products = sum.products.iter().map(|variance| -real::ln(1.0 - square * variance));
            let exponent =
                failure * LN_2 + square * sum.alone / self.degree + products.sum::<f64>();
            exponent * self.degree / (2.0 * square.sqrt() * shrinks)
        };
        // Every theta yields a valid bound. The smallest on a grid is close to the optimum.
        (1..STEPS).map(bound).fold(f64::INFINITY, f64::min)
    }

    /// Bound for a fresh encryption under a public key: `v e + e_0 + e_1 s`.
    #[must_use]
    pub fn fresh(&self) -> f64 {
        let of_key = TERNARY_VARIANCE * self.parties();
        let products = [of_key, self.secret].map(|variance| variance * ERROR_VARIANCE);
        self.largest(&Sum { products: products.into(), alone: ERROR_VARIANCE })
    }

    /// Bound for rounding both polynomials of a ciphertext: `t_0 + t_1 s`.
    #[must_use]
    pub fn rounding(&self) -> f64 {
        self.largest(&self.rounded())
    }

    fn rounded(&self) -> Sum {
        Sum { products: vec![self.secret * ROUNDING_VARIANCE], alone: ROUNDING_VARIANCE }
    }

    /// Bound for the error of a key switch at `level`, with the level key for `key_level` if given:
    /// `sum_j d_j e_j / P` over the digits, plus the rounding of the division by `P`.
    #[must_use]
    pub fn key_switch(&self, level: Level, key_level: Option<Level>) -> f64 {
        let highest = self.params.upper_top();
        let limbs = self.params.limbs_of_keys(key_level, level.min(highest));
        let Sum { products, alone } = self.rounded();
        let products = products.into_iter().chain(self.digits(limbs)).collect();
        self.largest(&Sum { products, alone })
    }

    /// Bound for the error of a relinearisation; see [`CanonicalBounds::key_switch`]. The key of a
    /// shared secret has the error `s e_0 + u e_1 + e_2`, where `u` and all errors are sums over
    /// the key holders. The values of `s` at the roots have a limit, and so have the values of `u`.
    #[must_use]
    pub fn relinearization(&self, level: Level, key_level: Option<Level>) -> f64 {
        let secret = self.params.spec().secret;
        if !secret.is_shared() {
            return self.key_switch(level, key_level);
        }
        let highest = self.params.upper_top();
        let limbs = self.params.limbs_of_keys(key_level, level.min(highest));
        let digits = self.largest(&Sum { products: self.digits(limbs), alone: 0.0 });
        let of_secret = canonical_limit(secret, self.params.log_n());
        let alone = TERNARY_VARIANCE * self.parties();
        let of_ephemeral = self.largest(&Sum { products: Vec::new(), alone });
        digits * (of_secret + of_ephemeral + 1.0) + self.rounding()
    }

    /// Variances of the products of digits with the errors of a key.
    fn digits(&self, limbs: LimbSet) -> Vec<f64> {
        let log2_prime =
            |i: usize| real::log2(self.params.basis().modulus(limbs, i).value() as f64);
        let log2_p = self.params.log2_special(limbs.p());
        let variance = ROUNDING_VARIANCE * ERROR_VARIANCE * self.parties();
        let product = |owned: Range<usize>| {
            let ratio = real::exp2(owned.map(log2_prime).sum::<f64>() - log2_p);
            ratio * ratio * variance
        };
        self.params.digit_primes_of(limbs).into_iter().map(product).collect()
    }

    /// Number of errors that add up in a key.
    fn parties(&self) -> f64 {
        self.params.spec().secret.parties()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rlwe::{Noise, Spec};
    use sudare_arith::previous_prime;

    fn small(secret: SecretDistribution) -> Params {
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
        params.unwrap()
    }

    /// Compares with other formulas, of coefficients.
    #[test]
    fn bounds_are_some_bits_above_standard_deviations() {
        for secret in
            [SecretDistribution::UniformTernary, SecretDistribution::FixedWeight { h: 16 }]
        {
            let params = &small(secret);
            let bounds = CanonicalBounds::new(params);
            let above = |bound: f64, noise: Noise| bound.log2() - noise.log2_sd() - 5.0;
            for (bound, noise) in [
                (bounds.fresh(), Noise::fresh(params)),
                (bounds.rounding(), Noise::rounding(params)),
                (bounds.key_switch(Level(0), None), Noise::key_switch(params, Level(0))),
                (bounds.key_switch(Level(2), None), Noise::key_switch(params, Level(2))),
            ] {
                let bits = above(bound, noise);
                assert!((3.0..7.0).contains(&bits), "{secret:?}: {bits}");
            }
        }
    }
    /// If all numbers are normal, `|sum x_j y_j|` of `k` products of variance 1 is above `r` with
    /// the probability `int exp(-r^2 / w) w^(k - 1) exp(-w) dw / (k - 1)!`, as `sum |y_j|^2` has a
    /// gamma distribution.
    #[test]
    fn sums_of_products_are_bounded_within_a_bit_of_normal_ones() {
        let degree = 1024.0;
        let secret = TERNARY_VARIANCE;
        let bounds =
            CanonicalBounds { params: small(SecretDistribution::UniformTernary), degree, secret };
        let tail = |k: usize, r: f64| {
            let factorial: f64 = (1..k).map(|i| i as f64).product();
            let density = |w: f64| (-r * r / w - w).exp() * w.powi(k as i32 - 1) / factorial;
            (1..200_000).map(|i| f64::from(i) / 1000.0).map(density).sum::<f64>() / 1000.0
        };
        for k in [1, 2, 5, 20] {
            let products = vec![1.0 / (degree * degree); k];
            let bound = bounds.largest(&Sum { products, alone: 0.0 });
            let failure = |r: f64| (degree / 2.0 * tail(k, r)).log2();
            let at = failure(bound);
            let below = failure(bound / 2.0);
            assert!(at < -FAILURE_BITS && below > -FAILURE_BITS, "{k}: 2^{at}, 2^{below}");
        }
        // A number outside products exceeds it with `exp(-r^2)`.
        let sum = Sum { products: vec![0.01 / (degree * degree)], alone: 1.0 / degree };
        let r = bounds.largest(&sum);
        let failure = (degree / 2.0).log2() - r * r / LN_2;
        assert!((-1.2 * FAILURE_BITS..-FAILURE_BITS).contains(&failure), "2^{failure}");
    }
}

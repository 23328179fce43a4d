use super::{
    Modulus,
    norms::{PlainNorms, log2_sum},
};
use crate::rlwe::{self, Level, SecretDistribution};
use serde::{Deserialize, Serialize};
use sudare_arith::{real, sample::CBD21_VARIANCE as ERROR_VARIANCE};

/// `-log2` of the probability that a bound fails.
const FAILURE_BITS: f64 = 128.0;

/// Number of directions of the complex plane. In one of them, the projection of a number is nearly
/// as long as the number.
const DIRECTIONS: f64 = 16.0;

/// Variances of a uniform ternary coefficient, and of a rounding remainder.
// Each of -1, 0 and 1 is equally likely.
const TERNARY_VARIANCE: f64 = 2.0 / 3.0;
// Uniform between -1/2 and 1/2.
const ROUNDING_VARIANCE: f64 = 1.0 / 12.0;

/// Bounds of three norms of the error `e` of a ciphertext `c0 + c1 s = t^-1 f m + e mod Q`, known
/// without any key.
///
/// The norms are the largest coefficient, the root of the sum of squares of coefficients, and the
/// canonical norm: the largest magnitude of its values at the roots of `X^N + 1`. Errors of single
/// operations are bounded except with probability `2^-128`, for any plaintexts. From there on the
/// bounds always hold, for any circuit. The bound of a sum is at most the sum of bounds. Products
/// of polynomials are bounded by products of norms, for any dependence between factors.
///
/// Derivations and assumptions: `docs/notes/exact-errors.md`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct NoiseBound {
    /// `log2` of a bound of coefficients.
    coefficient: f64,
    /// `log2` of a bound of the root of the sum of squares of the coefficients. By Parseval this is
    /// the root mean square of the values at the roots.
    two: f64,
    /// `log2` of a bound of values at the roots.
    canonical: f64,
}

impl NoiseBound {
    /// `log2` of a bound of the error's coefficients, which holds except with negligible
    /// probability.
    #[must_use]
    pub fn log2(self) -> f64 {
        self.coefficient
    }

    /// `log2` of a bound of the error's values at the roots of `X^N + 1`.
    #[must_use]
    pub fn canonical_log2(self) -> f64 {
        self.canonical
    }

    /// `log2` of a bound of the root of the sum of squares of the error's coefficients.
    pub(super) fn log2_two(self) -> f64 {
        self.two
    }

    /// Bound of the rounding of both polynomials of a ciphertext.
    pub(crate) fn rounding(log_n: u32, secret: SecretDistribution) -> Self {
        RingErrors::new(log_n, secret).rounding()
    }

    /// Returns `true` if it consists of numbers, which a file might violate.
    pub(super) fn is_valid(self) -> bool {
        [self.coefficient, self.two, self.canonical].iter().all(|x| x.is_finite())
    }

    fn times(self, log2_factor: f64) -> Self {
        Self {
            coefficient: self.coefficient + log2_factor,
            two: self.two + log2_factor,
            canonical: self.canonical + log2_factor,
        }
    }

    /// Returns norms reduced to the maximum that the other norms allow, in dimension `2^log_n`.
    fn settled(self, log_n: f64) -> Self {
        let two = self.two.min(self.canonical).min(self.coefficient + log_n / 2.0);
        // Roots come in pairs with values of the same magnitude.
        let canonical = self.canonical.min(two + (log_n - 1.0) / 2.0);
        Self { coefficient: self.coefficient.min(two), two, canonical }
    }

    /// Bound of coefficients that never exceed `2^log2_size`.
    fn at_most(log2_size: f64, log_n: f64) -> Self {
        let [coefficient, canonical] = [log2_size, log2_size + log_n];
        Self { coefficient, two: canonical, canonical }.settled(log_n)
    }

    /// Bound of a product of polynomials of dimension `2^log_n`.
    fn product(self, other: Self, log_n: f64) -> Self {
        let canonical = self.canonical + other.canonical;
        let two = (self.two + other.canonical).min(self.canonical + other.two);
        // The inequality of Cauchy and Schwarz.
        Self { coefficient: self.two + other.two, two, canonical }.settled(log_n)
    }

    /// Norms of the polynomial 1.
    const ONE: Self = Self { coefficient: 0.0, two: 0.0, canonical: 0.0 };
}

/// The sum of two errors, which may depend on each other.
impl core::ops::Add for NoiseBound {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self {
            coefficient: log2_sum(self.coefficient, other.coefficient),
            two: log2_sum(self.two, other.two),
            canonical: log2_sum(self.canonical, other.canonical),
        }
    }
}

/// Random polynomials of a ring, and its secret.
#[derive(Debug, Clone, Copy)]
pub(super) struct RingErrors {
    log_n: f64,
    secret: NoiseBound,
    /// Number of errors that add up in a key.
    parties: f64,
    distribution: SecretDistribution,
    /// Negative logarithms of the probabilities that one coefficient, or one value at a root in a
    /// direction, exceeds its bound. Over all of them the probability is [`FAILURE_BITS`].
    coefficient_tail: f64,
    canonical_tail: f64,
}

impl RingErrors {
    pub(super) fn new(log_n: u32, distribution: SecretDistribution) -> Self {
        let canonical = real::log2(rlwe::canonical_limit(distribution, log_n));
        let log_n = f64::from(log_n);
        let tail = |log2_count: f64| (FAILURE_BITS + log2_count) * core::f64::consts::LN_2;
        let weight = match distribution {
            // Replaced below, where its norms follow from random coefficients.
            SecretDistribution::SharedTernary { pieces, .. } => {
                real::exp2(log_n) * real::powi(f64::from(pieces), 2)
            }
            // Hoeffding's inequality.
            SecretDistribution::UniformTernary => {
                let n = real::exp2(log_n);
                // No ternary secret has more than `n` nonzero coefficients.
                (n * TERNARY_VARIANCE + (n * tail(0.0) / 2.0).sqrt()).min(n)
            }
            SecretDistribution::FixedWeight { h } => f64::from(h),
        };
        let coefficient = real::log2(distribution.pieces());
        let secret = NoiseBound { coefficient, two: real::log2(weight) / 2.0, canonical };
        let mut this = Self {
            log_n,
            secret: secret.settled(log_n),
            parties: distribution.parties(),
            distribution,
            // Both signs of `N` coefficients.
            coefficient_tail: tail(log_n + 1.0),
            // `N / 2` pairs of roots, each in every direction.
            canonical_tail: tail(log_n - 1.0 + real::log2(DIRECTIONS)),
        };
        if distribution.is_shared() {
            let random = this.alone(TERNARY_VARIANCE * distribution.pieces());
            let secret = NoiseBound {
                coefficient: coefficient.min(random.coefficient),
                two: random.two,
                canonical: canonical.min(random.canonical),
            };
            this.secret = secret.settled(log_n);
        }
        this
    }

    /// Bounds the product of two independent polynomials. The first has independent centred
    /// coefficients of this variance, whose tails are at most the tails of a normal distribution.
    fn random(self, variance: f64, other: NoiseBound) -> NoiseBound {
        let spread = real::log2(variance) / 2.0;
        let deviations = real::log2(2.0 * self.coefficient_tail) / 2.0;
        let shrinks = real::log2(real::cos(core::f64::consts::PI / DIRECTIONS));
        let tail = real::log2(self.canonical_tail) / 2.0 - shrinks;
        // A quadratic form in the random coefficients. Its eigenvalues are the squares of values at
        // roots, taken at their largest.
        let largest = 2.0 * (other.canonical - other.two) - self.log_n;
        let x = real::exp2(largest) * self.coefficient_tail;
        let mean = other.two + self.log_n / 2.0;
        NoiseBound {
            coefficient: spread + deviations + other.two,
            two: spread + mean + real::log2(1.0 + 2.0 * x.sqrt() + 2.0 * x) / 2.0,
            canonical: spread + tail + self.log_n / 2.0 + other.canonical,
        }
        .settled(self.log_n)
    }

    /// Bounds the random polynomial of [`RingErrors::random`] alone.
    fn alone(self, variance: f64) -> NoiseBound {
        self.random(variance, NoiseBound::ONE)
    }

    /// Bound for rounding both polynomials of a ciphertext: `r_0 + r_1 s`.
    fn rounding(self) -> NoiseBound {
        self.alone(ROUNDING_VARIANCE) + self.random(ROUNDING_VARIANCE, self.secret)
    }

    /// Bound for rounding three polynomials: `r_0 + r_1 s + r_2 s^2`.
    fn rounding_of_three(self) -> NoiseBound {
        let square = self.secret.product(self.secret, self.log_n);
        self.rounding() + self.random(ROUNDING_VARIANCE, square)
    }

    /// Bound for a fresh encryption under a public key: `v e + e_0 + e_1 s`.
    fn fresh(self) -> NoiseBound {
        let of_key = self.random(TERNARY_VARIANCE, self.alone(ERROR_VARIANCE * self.parties));
        of_key + self.alone(ERROR_VARIANCE) + self.random(ERROR_VARIANCE, self.secret)
    }

    /// Bound for `sum_j d_j e_j` for digits uniform in `(-D_j/2, D_j/2)`, where `squares` is the
    /// sum of squares of `D_j`.
    fn digits(self, squares: f64) -> NoiseBound {
        self.random(squares * ROUNDING_VARIANCE, self.alone(ERROR_VARIANCE * self.parties))
    }

    /// Same as [`RingErrors::digits`], for a relinearisation. The key of a shared secret has the
    /// errors `s e_0 + u e_1 + e_2`, where `u` and all errors are sums over the key holders.
    fn relinearized(self, squares: f64) -> NoiseBound {
        if !self.distribution.is_shared() {
            return self.digits(squares);
        }
        let errors = ERROR_VARIANCE * self.parties;
        let ephemeral = self.alone(TERNARY_VARIANCE * self.parties);
        let of_key =
            self.random(errors, self.secret) + self.random(errors, ephemeral) + self.alone(errors);
        self.random(squares * ROUNDING_VARIANCE, of_key)
    }
}

/// Growth of errors of ciphertexts modulo `t` in one ring.
#[derive(Debug, Clone, Copy)]
pub(super) struct Growth {
    ring: RingErrors,
    log2_t: f64,
}

impl Growth {
    pub(super) fn new(log_n: u32, secret: SecretDistribution, t: Modulus) -> Self {
        Self { ring: RingErrors::new(log_n, secret), log2_t: t.log2() }
    }

    fn at_most(self, log2_size: f64) -> NoiseBound {
        NoiseBound::at_most(log2_size, self.ring.log_n)
    }

    /// Norms of a plaintext with coefficients in `(-t/2, t/2]`.
    fn message(self) -> NoiseBound {
        self.at_most(self.log2_t - 1.0)
    }

    /// Bound for an encryption under a public key.
    pub(super) fn fresh(self) -> NoiseBound {
        self.ring.fresh()
    }

    /// Bound for a key switch with up to 16 digits, each `margin_bits` bits smaller than the
    /// special primes.
    pub(super) fn key_switch(self, margin_bits: f64) -> NoiseBound {
        self.ring.digits(real::exp2(4.0 - 2.0 * margin_bits)) + self.ring.rounding()
    }

    /// Bound for a sum whose plaintexts may together exceed `t`.
    pub(super) fn sum(self, a: NoiseBound, b: NoiseBound) -> NoiseBound {
        self.sum_plain(a + b)
    }

    /// Bound for a sum with `count` images.
    pub(super) fn sum_of_images(self, a: NoiseBound, image: NoiseBound, count: u32) -> NoiseBound {
        let images = (image + self.at_most(0.0)).times(real::log2(f64::from(count)));
        (a + images).settled(self.ring.log_n)
    }

    /// Bound for a sum with a plaintext.
    fn sum_plain(self, a: NoiseBound) -> NoiseBound {
        (a + self.at_most(0.0)).settled(self.ring.log_n)
    }

    /// Bound for a product with a plaintext `p`, `p e`. The plaintext `u` of the ciphertext leaves
    /// a carry `(p u - u') / t`, where `u'` is the result.
    fn product_plain(self, a: NoiseBound, p: PlainNorms) -> NoiseBound {
        let log_n = self.ring.log_n;
        let product = NoiseBound {
            coefficient: (p.log2_sum + a.coefficient).min(p.log2_root_sum_squares + a.two),
            two: (p.log2_canonical + a.two).min(p.log2_root_sum_squares + a.canonical),
            canonical: p.log2_canonical + a.canonical,
        };
        let carry = NoiseBound {
            // `|u| <= t / 2`, hence one bit less.
            coefficient: p.log2_sum - 1.0,
            two: p.log2_canonical + log_n / 2.0 - 1.0,
            canonical: p.log2_canonical + log_n - 1.0,
        };
        (product + carry + self.at_most(-1.0)).settled(log_n)
    }

    /// Bound after a division by primes of `log2_divisor` bits, with rounding. The plaintexts `u`
    /// before and `u'` after it leave `u / (t q) - u' / t`.
    pub(super) fn rescaled(self, a: NoiseBound, log2_divisor: f64) -> NoiseBound {
        let carry = self.at_most(-1.0) + self.at_most(-1.0 - log2_divisor);
        (a.times(-log2_divisor) + self.ring.rounding() + carry).settled(self.ring.log_n)
    }

    /// Bound for the product of BGV, `t a b`. With plaintexts `u_i` that is
    /// `u_1 e_2 + u_2 e_1 + t e_1 e_2`, and a carry `(u_1 u_2 - u') / t`.
    pub(super) fn product(self, a: NoiseBound, b: NoiseBound) -> NoiseBound {
        let u = self.message();
        let log_n = self.ring.log_n;
        let linear = a.product(u, log_n) + b.product(u, log_n);
        let quadratic = a.product(b, log_n).times(self.log2_t);
        let carry = u.product(u, log_n).times(-self.log2_t) + self.at_most(-1.0);
        (linear + quadratic + carry).settled(log_n)
    }

    /// Bound for the product of BFV modulo `Q`, `round(t/Q a b)`. One factor is rounded to a
    /// modulus of at least the size of `Q`.
    ///
    /// Over the integers factors are `(Q/t) u_i + e_i + Q k_i`, where `k_i` has the bound of
    /// rounding both polynomials. The result has the error
    /// `u_1 e_2 + u_2 e_1 + t (e_1 k_2 + e_2 k_1) + (t/Q) e_1 e_2`, plus the rounding of three
    /// polynomials and of one factor.
    fn scaled_product(self, a: NoiseBound, b: NoiseBound, log2_q: f64) -> NoiseBound {
        let u = self.message();
        let log_n = self.ring.log_n;
        // Includes the rounding of `Q u / t` to integers.
        let [a, b] = [a, b].map(|e| e + self.at_most(-1.0));
        let k = self.ring.rounding();
        let linear = a.product(u, log_n) + b.product(u, log_n);
        let wrapped = a.product(k, log_n) + b.product(k, log_n) + k.product(k, log_n);
        let quadratic = a.product(b, log_n).times(self.log2_t - log2_q);
        let rounding = self.ring.rounding_of_three() + self.at_most(0.0);
        (linear + wrapped.times(self.log2_t) + quadratic + rounding).settled(log_n)
    }
}

/// Changes of errors by operations on ciphertexts modulo `t`.
///
/// In the form with `t^-1 f m`, division by primes, key switching and encryption have errors that
/// do not depend on `t`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NoiseModel<'a> {
    params: &'a rlwe::Params,
    growth: Growth,
}

impl<'a> NoiseModel<'a> {
    pub(crate) fn new(params: &'a rlwe::Params, t: Modulus) -> Self {
        Self { params, growth: Growth::new(params.log_n(), params.spec().secret, t) }
    }

    /// `log2` of the bound below which errors decrypt at `level`: `Q / 2t - 1/2`.
    pub(crate) fn log2_room(self, level: Level) -> f64 {
        let log2_half = self.params.log2_q(level) - self.growth.log2_t - 1.0;
        let half = real::exp2(log2_half);
        // In larger numbers a double does not show the half.
        if half.is_finite() && half < (1u64 << 52) as f64 {
            // A modulus of about the size of `t` leaves no room, and NaN would hide that.
            return real::log2((half - 0.5).max(0.0));
        }
        log2_half
    }

    /// Bound for an encryption under a public key.
    pub(crate) fn fresh(self) -> NoiseBound {
        self.growth.fresh()
    }

    /// Bound for an encryption under the secret key.
    pub(crate) fn fresh_symmetric(self) -> NoiseBound {
        self.growth.ring.alone(ERROR_VARIANCE)
    }

    /// Bound for the error of a key switch, with level keys for `key_level` or with keys for every
    /// level: `sum_j d_j e_j / P`, plus the rounding of the division by `P`.
    pub(crate) fn key_switch(self, level: Level, key_level: Option<Level>) -> NoiseBound {
        let ring = self.growth.ring;
        ring.digits(self.digit_squares(level, key_level)) + ring.rounding()
    }

    /// Bound for the error of a relinearisation; see [`NoiseModel::key_switch`].
    pub(crate) fn relinearization(self, level: Level, key_level: Option<Level>) -> NoiseBound {
        let ring = self.growth.ring;
        ring.relinearized(self.digit_squares(level, key_level)) + ring.rounding()
    }

    /// Returns the sum of squares of digits, divided by `P`.
    fn digit_squares(self, level: Level, key_level: Option<Level>) -> f64 {
        let params = self.params;
        let limbs = params.limbs_of_keys(key_level, level.min(params.upper_top()));
        let log2_prime = |i: usize| real::log2(params.basis().modulus(limbs, i).value() as f64);
        let log2_p = params.log2_special(limbs.p());
        let digits = params.digit_primes_of(limbs).into_iter();
        let ratios = digits.map(|owned| real::exp2(owned.map(log2_prime).sum::<f64>() - log2_p));
        ratios.map(|ratio| ratio * ratio).sum()
    }

    /// Bound for a sum whose plaintexts may together exceed `t`.
    pub(crate) fn sum(self, a: NoiseBound, b: NoiseBound) -> NoiseBound {
        self.growth.sum(a, b)
    }

    /// Bound for a sum with a plaintext.
    pub(crate) fn sum_plain(self, a: NoiseBound) -> NoiseBound {
        self.growth.sum_plain(a)
    }

    /// Bound for a product with a plaintext.
    pub(crate) fn product_plain(self, a: NoiseBound, b: PlainNorms) -> NoiseBound {
        self.growth.product_plain(a, b)
    }

    /// Rounds a ciphertext at level 0 to `t` under an ephemeral secret of this weight. Returns
    /// `log2` of the contribution of its error, without the rounding itself.
    pub(crate) fn log2_brought(self, a: NoiseBound, weight: u32) -> f64 {
        let ring = self.growth.ring;
        let log2_q = self.params.log2_q(Level(0));
        // A weight of 0, which raising refuses, has no logarithm.
        let weight = real::log2(f64::from(weight.max(1)));
        // At a root, `h` coefficients of magnitude 1 add up to at most `h`.
        let sparse = NoiseBound { coefficient: 0.0, two: weight / 2.0, canonical: weight };
        let rounding = ring.alone(ROUNDING_VARIANCE) + ring.random(ROUNDING_VARIANCE, sparse);
        let error = a + self.raising_digit(log2_q) + rounding;
        // Half a unit of the larger modulus is rounded as well.
        log2_sum(error.coefficient, -1.0) + self.growth.log2_t - log2_q
    }

    /// Bound for a ciphertext rounded to `t` and raised through an ephemeral secret of this weight:
    /// the multiple of `t` from lifting, plus the key switch back.
    pub(crate) fn raised(self, weight: u32) -> NoiseBound {
        // `|J| <= h / 2 + 1`: raising in docs/notes/exact-errors.md.
        let multiple = self.growth.at_most(real::log2(f64::from(weight) / 2.0 + 1.0));
        multiple + self.raising_digit(self.growth.log2_t) + self.growth.ring.rounding()
    }

    /// Bound for a digit uniform below `2^log2_digit`, with a key of raising.
    fn raising_digit(self, log2_digit: f64) -> NoiseBound {
        let special = self.params.log2_special(self.params.raising_limbs(Level(0)).p());
        self.growth.ring.digits(real::exp2(2.0 * (log2_digit - special)))
    }

    /// Bound after a division by the primes of a level, with rounding.
    pub(crate) fn rescaled(self, a: NoiseBound, level: Level) -> NoiseBound {
        let below = Level(level.0 - 1);
        self.growth.rescaled(a, self.params.log2_q(level) - self.params.log2_q(below))
    }

    /// Bound for the product of BGV.
    pub(crate) fn product(self, a: NoiseBound, b: NoiseBound) -> NoiseBound {
        self.growth.product(a, b)
    }

    /// Bound for the product of BFV at `level`.
    pub(crate) fn scaled_product(self, a: NoiseBound, b: NoiseBound, level: Level) -> NoiseBound {
        self.growth.scaled_product(a, b, self.params.log2_q(level))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sudare_arith::{
        fft::{Complex, SpecialFft},
        prng::{Seed, Stream},
        sample,
    };

    const LOG_N: u32 = 10;

    /// Returns `log2` of the three norms.
    fn norms(a: &[f64]) -> NoiseBound {
        let n = a.len();
        let largest = a.iter().fold(0.0, |max: f64, x| max.max(x.abs()));
        let squares: f64 = a.iter().map(|x| x * x).sum();
        let mut values: Vec<_> = (0..n / 2).map(|i| Complex::new(a[i], a[i + n / 2])).collect();
        SpecialFft::new(LOG_N - 1).forward(&mut values);
        let canonical = values.iter().map(|z| z.re.hypot(z.im)).fold(0.0, f64::max);
        let [coefficient, two, canonical] = [largest, squares.sqrt(), canonical].map(f64::log2);
        NoiseBound { coefficient, two, canonical }
    }

    fn product(a: &[f64], b: &[f64]) -> Vec<f64> {
        let n = a.len();
        let mut out = vec![0.0; n];
        for (i, x) in a.iter().enumerate() {
            for (j, y) in b.iter().enumerate() {
                out[(i + j) % n] += if i + j < n { x * y } else { -x * y };
            }
        }
        out
    }

    fn assert_below(found: NoiseBound, bound: NoiseBound) {
        assert!(found.coefficient <= bound.coefficient + 1e-9, "{found:?}, {bound:?}");
        assert!(found.two <= bound.two + 1e-9, "{found:?}, {bound:?}");
        assert!(found.canonical <= bound.canonical + 1e-9, "{found:?}, {bound:?}");
    }

    fn ternary(stream: &mut Stream) -> Vec<f64> {
        let mut coeffs = vec![0i8; 1 << LOG_N];
        sample::ternary(stream, &mut coeffs);
        coeffs.into_iter().map(f64::from).collect()
    }

    #[test]
    fn norms_of_products_are_bounded_by_those_of_factors() {
        let mut stream = Stream::new(&Seed::from_bytes([1; 32]), "test", 0);
        let log_n = f64::from(LOG_N);
        let random = ternary(&mut stream);
        let ones = vec![1.0; 1 << LOG_N];
        let mut sparse = vec![0.0; 1 << LOG_N];
        (sparse[3], sparse[700]) = (5.0, -2.0);
        for a in [&random, &ones, &sparse] {
            let found = norms(a);
            assert_below(found, found.settled(log_n));
            let size = NoiseBound::at_most(found.coefficient, log_n);
            assert_below(found, size);
            for b in [&random, &ones, &sparse] {
                assert_below(norms(&product(a, b)), found.product(norms(b), log_n));
                let sum: Vec<f64> = a.iter().zip(b).map(|(x, y)| x + y).collect();
                assert_below(norms(&sum), found + norms(b));
            }
        }
        // Equal coefficients are the worst case.
        let gap = NoiseBound::at_most(0.0, log_n).canonical - norms(&ones).canonical;
        assert!(gap < 0.5, "{gap}");
    }

    /// The bounds are not far above some hundred random polynomials.
    #[test]
    fn random_polynomials_and_their_products_are_within_bounds() {
        let ring = RingErrors::new(LOG_N, SecretDistribution::UniformTernary);
        let mut stream = Stream::new(&Seed::from_bytes([2; 32]), "test", 0);
        let fixed = ternary(&mut stream);
        let alone = ring.alone(TERNARY_VARIANCE);
        let times = ring.random(TERNARY_VARIANCE, norms(&fixed));
        for _ in 0..20 {
            let a = ternary(&mut stream);
            for (found, bound) in [(norms(&a), alone), (norms(&product(&a, &fixed)), times)] {
                assert_below(found, bound);
                assert!(bound.coefficient < found.coefficient + 4.0, "{found:?}, {bound:?}");
                assert!(bound.two < found.two + 2.0, "{found:?}, {bound:?}");
                assert!(bound.canonical < found.canonical + 4.0, "{found:?}, {bound:?}");
            }
        }
    }

    /// Secrets of several holders, and the errors of their keys, are within bounds.
    #[test]
    fn shared_secrets_are_within_bounds() {
        let mut stream = Stream::new(&Seed::from_bytes([3; 32]), "test", 0);
        let mut errors = |parties: u32| {
            let mut sum = vec![0.0; 1 << LOG_N];
            for _ in 0..parties {
                let mut coeffs = vec![0i8; 1 << LOG_N];
                sample::cbd21(&mut stream, &mut coeffs);
                sum.iter_mut().zip(coeffs).for_each(|(sum, c)| *sum += f64::from(c));
            }
            sum
        };
        let mut words = Stream::new(&Seed::from_bytes([5; 32]), "test", 0);
        let mut pieces = Stream::new(&Seed::from_bytes([4; 32]), "test", 0);
        let mut added = |count: u32| {
            let all = (0..count).map(|_| ternary(&mut pieces));
            let add = |a: Vec<f64>, b: Vec<f64>| a.iter().zip(&b).map(|(a, b)| a + b).collect();
            all.reduce(add).unwrap()
        };
        for (parties, count) in [(2, 2), (3, 3), (5, 10), (8, 70)] {
            let secret = SecretDistribution::SharedTernary { parties, pieces: count };
            let ring = RingErrors::new(LOG_N, secret);
            for _ in 0..5 {
                let s = added(count);
                assert_below(norms(&s), ring.secret);
                let found = norms(&s);
                assert!(ring.secret.two < found.two + 1.0, "{found:?}, {:?}", ring.secret);
                assert!(ring.secret.canonical < found.canonical + 3.5, "{:?}", ring.secret);
                // `s e_0 + u e_1 + e_2` times a digit of the size of the special primes.
                let u = added(parties);
                let e = [errors(parties), errors(parties), errors(parties)];
                let products = [product(&s, &e[0]), product(&u, &e[1])];
                let of_key: Vec<f64> =
                    (0..s.len()).map(|i| products[0][i] + products[1][i] + e[2][i]).collect();
                let digit: Vec<f64> = s
                    .iter()
                    .map(|_| (words.next_u64() >> 11) as f64 / 2f64.powi(53) - 0.5)
                    .collect();
                let error = norms(&product(&digit, &of_key));
                let bound = ring.relinearized(1.0);
                assert_below(error, bound);
                // Three chained bounds of random factors, each some two bits above.
                assert!(bound.two < error.two + 7.0, "{error:?}, {bound:?}");
            }
            let one = RingErrors::new(LOG_N, SecretDistribution::UniformTernary);
            assert!(ring.relinearized(1.0).two > one.relinearized(1.0).two + 5.0);
        }
    }

    #[test]
    fn sums_of_equal_errors_are_twice_as_large() {
        let e = NoiseBound::at_most(10.0, 4.0);
        assert!(((e + e).coefficient - 11.0).abs() < 1e-12);
        assert!((e + NoiseBound::at_most(-1e6, 4.0)) == e);
    }

    /// At each root, a square that is rescaled has a fixed point below `q / 2t`, or no fixed point.
    #[test]
    fn squares_are_stable_from_four_times_the_rounding() {
        let t = Modulus::new(65537, 1).unwrap();
        let growth = Growth::new(15, SecretDistribution::UniformTernary, t);
        let rounding = growth.rescaled(growth.message().times(-100.0), 100.0).canonical;
        let after = |bits: f64, count: u32| {
            let square = |e, _| growth.rescaled(growth.product(e, e), bits);
            (0..count).fold(growth.ring.rounding(), square).canonical
        };
        let stable = rounding + t.log2() + 2.1;
        assert!(after(stable, 100) < rounding + 1.0);
        assert!(after(stable - 0.3, 100) > rounding + 100.0);
    }
}

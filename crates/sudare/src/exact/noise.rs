use super::Modulus;
use crate::rlwe::{self, Level, Noise};
use serde::{Deserialize, Serialize};
use sudare_arith::real;

/// Standard deviations within which errors are taken to stay: a normal variable is beyond them
/// with probability below `2^-145`, and so one of the at most `2^17` coefficients of a
/// ciphertext with probability below `2^-128`.
const DEVIATIONS: f64 = 14.0;

/// What is known, without any key, about the error `e` of a ciphertext
/// `c0 + c1 s = t^-1 f m + e mod Q`: a bound of the standard deviation of its coefficients.
///
/// Terms of a sum may depend on each other, so their deviations are added, not their squares: a
/// ciphertext added to itself has twice the error. What is bounded whatever it is, such as the
/// carry where two plaintexts exceed `t` together, counts as a fourteenth of its size. In a
/// product of polynomials `N` products of coefficients are summed as independent ones, and
/// coefficients of plaintexts as if their signs were random. As each factor depends on the same
/// secret, the error is a polynomial in it: one of degree `i` times one of degree `j` has, with
/// a normal secret, `binomial(i + j, i)` times the variance that independent ones would have.
///
/// References: Biasioli, Marcolla, Murru, Urani, "Accurate BGV Parameters Selection: Accounting for
/// Secret and Public Key Dependencies in Average-Case Analysis" (arXiv 2504.18597), for the effect;
/// the factor is that of complex normal values, `E |z|^(2k) = k! (E |z|^2)^k`. Derivations:
/// `docs/notes/exact-errors.md`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct NoiseBound {
    /// `log2` of the standard deviation.
    log2_sd: f64,
    /// Degree in the secret.
    degree: u32,
}

impl NoiseBound {
    /// `log2` of what a coefficient of the error exceeds with negligible probability: 14
    /// standard deviations.
    #[must_use]
    pub fn log2(self) -> f64 {
        self.log2_sd + real::log2(DEVIATIONS)
    }

    /// Whether it is a number, as one read from a file might not be.
    pub(super) fn is_valid(self) -> bool {
        self.log2_sd.is_finite() && (1..=MAX_DEGREE).contains(&self.degree)
    }

    fn of(log2_sd: f64, degree: u32) -> Self {
        Self { log2_sd, degree: degree.min(MAX_DEGREE) }
    }

    /// What is at most `2^log2_size`, always.
    fn at_most(log2_size: f64) -> Self {
        Self::of(log2_size - real::log2(DEVIATIONS), 1)
    }

    fn times(self, log2_factor: f64) -> Self {
        Self::of(self.log2_sd + log2_factor, self.degree)
    }

    /// A product of polynomials of dimension `2^log_n`.
    fn product(self, other: Self, log_n: f64) -> Self {
        let (i, j) = (self.degree, other.degree);
        let moment = log2_binomial(i + j, i) / 2.0;
        Self::of(self.log2_sd + other.log2_sd + log_n / 2.0 + moment, i + j)
    }
}

/// Errors of higher degree count as of this one: longer products than any chain allows.
const MAX_DEGREE: u32 = 1 << 10;

/// The sum of two errors, which may depend on each other.
impl core::ops::Add for NoiseBound {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        let degree = self.degree.max(other.degree);
        Self::of(log2_sum(self.log2_sd, other.log2_sd), degree)
    }
}

/// `log2(binomial(n, k))`.
fn log2_binomial(n: u32, k: u32) -> f64 {
    (0..k.min(n - k)).map(|i| real::log2(f64::from(n - i) / f64::from(i + 1))).sum()
}

/// Sizes of a plaintext operand, its coefficients in `(-t/2, t/2]`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PlainNorms {
    /// `log2` of the sum of the sizes of coefficients, at least 0.
    pub log2_sum: f64,
    /// `log2` of the root of the sum of their squares, at least 0.
    pub log2_root_sum_squares: f64,
}

impl PlainNorms {
    /// Norms of a polynomial of these coefficients.
    #[must_use]
    pub fn of(t: Modulus, coeffs: &[u128]) -> Self {
        let sizes = || coeffs.iter().map(|&c| t.centered(c).unsigned_abs() as f64);
        Self {
            log2_sum: real::log2(sizes().sum::<f64>().max(1.0)),
            log2_root_sum_squares: real::log2(sizes().map(|x| x * x).sum::<f64>().max(1.0)) / 2.0,
        }
    }

    /// Norms of a constant.
    #[must_use]
    pub fn constant(t: Modulus, c: u128) -> Self {
        Self::of(t, &[t.reduce(c)])
    }

    /// Of zero.
    pub(crate) const NONE: Self =
        Self { log2_sum: f64::NEG_INFINITY, log2_root_sum_squares: f64::NEG_INFINITY };

    /// The largest possible, in dimension `2^log_n`.
    #[must_use]
    pub fn any(t: Modulus, log_n: u32) -> Self {
        let (half, log_n) = (t.log2() - 1.0, f64::from(log_n));
        Self { log2_sum: half + log_n, log2_root_sum_squares: half + log_n / 2.0 }
    }
}

/// Of two operands whose products are summed.
impl core::ops::Add for PlainNorms {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self {
            log2_sum: log2_sum(self.log2_sum, other.log2_sum),
            log2_root_sum_squares: log2_sum(
                self.log2_root_sum_squares,
                other.log2_root_sum_squares,
            ),
        }
    }
}

/// `log2(2^a + 2^b)`.
pub(super) fn log2_sum(a: f64, b: f64) -> f64 {
    let (high, low) = (a.max(b), a.min(b));
    if low == f64::NEG_INFINITY {
        return high;
    }
    high + real::ln_1p(real::exp2(low - high)) / core::f64::consts::LN_2
}

/// How operations of ciphertexts modulo `t` change their errors.
///
/// In the form with `t^-1 f m`, division by primes, key switching and encryption have the errors
/// of [`Noise`], whatever `t` is; products have those of the functions here.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NoiseModel<'a> {
    params: &'a rlwe::Params,
    log2_t: f64,
    log_n: f64,
}

impl<'a> NoiseModel<'a> {
    pub(crate) fn new(params: &'a rlwe::Params, t: Modulus) -> Self {
        Self { params, log2_t: t.log2(), log_n: f64::from(params.log_n()) }
    }

    /// `log2` of the bound below which errors decrypt at `level`: `Q / 2t - 1/2`.
    pub(crate) fn log2_room(self, level: Level) -> f64 {
        let half = real::exp2(self.params.log2_q(level) - self.log2_t) / 2.0;
        if half.is_finite() && half < (1u64 << 52) as f64 {
            return real::log2((half - 0.5).max(0.0));
        }
        self.params.log2_q(level) - self.log2_t - 1.0
    }

    /// Under a public key.
    pub(crate) fn fresh(self) -> NoiseBound {
        self.base(Noise::fresh(self.params))
    }

    /// Under the secret key.
    pub(crate) fn fresh_symmetric(self) -> NoiseBound {
        NoiseBound::of(real::log2(sudare_arith::sample::CBD21_VARIANCE) / 2.0, 1)
    }

    fn base(self, noise: Noise) -> NoiseBound {
        NoiseBound::of(noise.log2_sd(), 1)
    }

    fn rounding(self) -> NoiseBound {
        self.base(Noise::rounding(self.params))
    }

    /// What a key switch adds, by level keys for `key_level` or by others.
    pub(crate) fn key_switch(self, level: Level, key_level: Option<Level>) -> NoiseBound {
        self.base(match key_level {
            Some(key_level) => Noise::level_key_switch(self.params, level, key_level),
            None => Noise::key_switch(self.params, level),
        })
    }

    /// Of a sum whose plaintexts may exceed `t` together.
    pub(crate) fn sum(self, a: NoiseBound, b: NoiseBound) -> NoiseBound {
        a + b + NoiseBound::at_most(0.0)
    }

    /// Of a sum with a plaintext.
    pub(crate) fn sum_plain(self, a: NoiseBound) -> NoiseBound {
        a + NoiseBound::at_most(0.0)
    }

    /// Of a product with a plaintext.
    pub(crate) fn product_plain(self, a: NoiseBound, b: PlainNorms) -> NoiseBound {
        a.times(b.log2_root_sum_squares) + NoiseBound::at_most(b.log2_sum)
    }

    /// `log2` of what rounding to `t` under an ephemeral secret of this weight makes of an error at
    /// level 0, beside the rounding itself.
    pub(crate) fn log2_brought(self, a: NoiseBound, weight: u32) -> f64 {
        let error = a + self.base(Noise::to_ephemeral(self.params, weight));
        // Half a unit of the larger modulus is rounded, too.
        log2_sum(error.log2(), -1.0) + self.log2_t - self.params.log2_q(Level(0))
    }

    /// Of what was rounded to `t` and raised through an ephemeral secret of this weight: the
    /// multiple of `t` that lifting adds, and the key switch back.
    pub(crate) fn raised(self, weight: u32) -> NoiseBound {
        let multiple = NoiseBound::at_most(real::log2(f64::from(weight) / 2.0 + 1.0));
        multiple + self.base(Noise::from_ephemeral(self.params, self.log2_t))
    }

    /// Divided by the primes of a level, rounding.
    pub(crate) fn rescaled(self, a: NoiseBound, level: Level) -> NoiseBound {
        let below = Level(level.0 - 1);
        let rest = a.times(self.params.log2_q(below) - self.params.log2_q(level));
        let added = self.rounding() + NoiseBound::at_most(0.0);
        let sum = rest + added;
        let degree = if rest.log2_sd > added.log2_sd { sum.degree } else { added.degree };
        NoiseBound { degree, ..sum }
    }

    /// A coefficient of a plaintext in `(-t/2, t/2]`, as what is independent of errors.
    fn message(self) -> f64 {
        self.log2_t - 1.0 + self.log_n / 2.0
    }

    /// Of the product of BGV, `t a b`: with `u_i = f_i m_i` in `(-t/2, t/2]` that is
    /// `u_1 e_2 + u_2 e_1 + t e_1 e_2`, and a carry of at most `N t / 4`. A factor may be the
    /// other one, which doubles the variance of what is quadratic.
    pub(crate) fn product(self, a: NoiseBound, b: NoiseBound) -> NoiseBound {
        let linear = a.times(self.message()) + b.times(self.message());
        let quadratic = a.product(b, self.log_n).times(self.log2_t + 0.5);
        linear + quadratic + NoiseBound::at_most(self.log_n + self.log2_t - 2.0)
    }

    /// Of the product of BFV at `level`, `round(t/Q a b)`, one factor of which is rounded to a
    /// modulus of at least the size of `Q`.
    ///
    /// Over the integers factors are `(Q/t) u_i + e_i + Q k_i`, where `k_i` is as large as what
    /// rounding both polynomials adds: that leaves `u_1 e_2 + u_2 e_1 + t (e_1 k_2 + e_2 k_1) +
    /// (t/Q) e_1 e_2`, the rounding of three polynomials, and what rounding one factor adds.
    pub(crate) fn scaled_product(self, a: NoiseBound, b: NoiseBound, level: Level) -> NoiseBound {
        // With the rounding of `Q u / t` to integers.
        let [a, b] = [a, b].map(|e| e + NoiseBound::at_most(-1.0));
        let k = self.rounding();
        let linear = a.times(self.message()) + b.times(self.message());
        let wrapped = (a.product(k, self.log_n) + b.product(k, self.log_n)).times(self.log2_t);
        let log2_ratio_t = self.log2_t - self.params.log2_q(level);
        let quadratic = a.product(b, self.log_n).times(log2_ratio_t + 0.5);
        let factor = k.product(k, self.log_n).times(self.log2_t);
        // With the secret of weight `w`, `(1 + w) / 12` is the variance of `k`, and the square
        // of the secret has coefficients of which the squares sum up to `2 w^2`.
        let weight = 12.0 * real::exp2(2.0 * k.log2_sd);
        let tensor = real::log2((weight + 2.0 * weight * weight) / 12.0) / 2.0;
        let kept = [linear, wrapped, factor, NoiseBound::of(tensor, 2), NoiseBound::at_most(0.0)];
        let kept = kept.into_iter().reduce(|a, b| a + b).unwrap_or(k);
        let degree = if kept.log2_sd > quadratic.log2_sd { kept.degree } else { quadratic.degree };
        NoiseBound { degree, ..kept + quadratic }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_of_equal_errors_are_twice_as_large() {
        let e = NoiseBound::of(10.0, 1);
        assert!(((e + e).log2_sd - 11.0).abs() < 1e-12);
        assert!((NoiseBound::at_most(3.0).log2() - 3.0).abs() < 1e-12);
        assert!((e + NoiseBound::of(-1e6, 1)).log2_sd == 10.0);
    }

    #[test]
    fn powers_of_one_error_have_the_moments_of_normal_ones() {
        // `k!` times the variance of independent factors.
        let one = NoiseBound::of(0.0, 1);
        let fourth = one.product(one, 0.0).product(one.product(one, 0.0), 0.0);
        let third = one.product(one, 0.0).product(one, 0.0);
        assert!((2.0 * fourth.log2_sd - 24f64.log2()).abs() < 1e-12);
        assert!((2.0 * third.log2_sd - 6f64.log2()).abs() < 1e-12);
        assert_eq!((fourth.degree, third.degree), (4, 3));
    }

    #[test]
    fn norms_are_of_centred_coefficients() {
        let t = Modulus::new(17, 1).unwrap();
        let norms = PlainNorms::of(t, &[16, 0, 3, 14]);
        assert!((norms.log2_sum - 7f64.log2()).abs() < 1e-12);
        assert!((norms.log2_root_sum_squares - 19f64.log2() / 2.0).abs() < 1e-12);
        assert_eq!(PlainNorms::constant(t, 18), PlainNorms::of(t, &[0, 0]));
        assert!(PlainNorms::any(t, 2).log2_sum > norms.log2_sum);
    }
}

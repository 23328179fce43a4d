//! Bounds of the noise of a ciphertext, without its key.

use crate::{Error, Params, Result, digits::lifting_polynomial};
use sudare_arith::real;

/// A prediction of the noise of every slot.
///
/// Modulo `p_j^2` a ciphertext of `m` in `Z_{t^a}` is `floor(p_j / t^a) M + r`, where
/// `M = m + t^a r*`. Both `r` and `M`, the *lift*, are random over keys and encryptions. The
/// prediction stores `E[x^8]^(1/8)` of each. This is a norm, so sums are bounded for any dependence
/// of operands. In products, lifts are assumed to be independent of errors. There the norm grows
/// with the tails of many factors, unlike a variance. By Markov's inequality, a slot exceeds
/// [`Noise::bits`] with a probability below `2^-32`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Noise {
    log2_error: f64,
    log2_lift: f64,
}

/// Bits above the norm that an error exceeds with a probability of at most `2^(-8 * TAIL_BITS)`.
const TAIL_BITS: f64 = 4.0;
/// `log2` of the variance of uniform values on an interval of length 1.
const LOG2_VARIANCE: f64 = -3.584_962_500_721_156;
/// `log2` of the norm of the same values, centred: `9^(-1/8) / 2`.
const LOG2_UNIFORM: f64 = -1.396_240_625_180_289;
/// `log2` of the norm of normal values of variance 1: `105^(1/8)`.
const LOG2_NORMAL: f64 = 0.839_280_692_189_887;

impl Noise {
    /// Noise of a ciphertext encrypted modulo `t^exponent`.
    pub(crate) fn fresh(params: &Params, exponent: u32) -> Self {
        let spec = params.spec();
        // Errors are uniform within 2^rho of zero. Lifts are the messages, below t^a.
        let log2_lift = f64::from(exponent) * params.log2_t();
        Self { log2_error: f64::from(spec.rho + 1) + LOG2_UNIFORM, log2_lift }
    }

    /// Noise with these bits, as files have them.
    pub(crate) fn from_parts(log2_error: f64, log2_lift: f64) -> Option<Self> {
        (log2_error.is_finite() && log2_lift.is_finite()).then_some(Self { log2_error, log2_lift })
    }

    pub(crate) fn parts(self) -> [f64; 2] {
        [self.log2_error, self.log2_lift]
    }

    /// Returns `log2` of the error of any slot, except with negligible probability.
    #[must_use]
    pub fn bits(self) -> f64 {
        self.log2_error + TAIL_BITS
    }

    /// Noise of a sum or difference.
    pub(crate) fn sum(self, other: Self) -> Self {
        Self {
            log2_error: add_log2(self.log2_error, other.log2_error),
            log2_lift: add_log2(self.log2_lift, other.log2_lift),
        }
    }

    /// Noise of a sum or a difference, as a coin decides: its square is on average the sum of
    /// squares, however the operands depend on each other.
    pub(crate) fn signed_sum(self, other: Self) -> Self {
        let root = |a: f64, b: f64| add_log2(2.0 * a, 2.0 * b) / 2.0;
        Self {
            log2_error: root(self.log2_error, other.log2_error),
            log2_lift: root(self.log2_lift, other.log2_lift),
        }
    }

    /// Noise of a multiple.
    pub(crate) fn times(self, factor: u64) -> Self {
        let bits = real::log2(factor as f64);
        Self { log2_error: self.log2_error + bits, log2_lift: self.log2_lift + bits }
    }

    /// Noise of the same ciphertext, read modulo a power of `t` that is `steps` higher; lower if negative.
    pub(crate) fn shifted(self, params: &Params, steps: i32) -> Self {
        Self { log2_lift: self.log2_lift + f64::from(steps) * params.log2_t(), ..self }
    }

    /// Noise of a product modulo `t^exponent`.
    ///
    /// With `M_1, r_1` and `M_2, r_2` the product is
    /// `p M_1 M_2 / t^a + M_1 r_2 + M_2 r_1 + t^a r_1 r_2 / p`, to which the conversion adds the
    /// error of its words times the noise of its key.
    pub(crate) fn product(self, other: Self, params: &Params, exponent: u32) -> Self {
        let spec = params.spec();
        let modulus_bits = f64::from(exponent) * params.log2_t();
        let crossed =
            add_log2(self.log2_lift + other.log2_error, self.log2_error + other.log2_lift);
        // The primes have eta bits, so they are at least 2^(eta - 1).
        let squared = self.log2_error + other.log2_error + modulus_bits - f64::from(spec.eta - 1);
        // Words are uniform with w bits, and the key's errors uniform with rho + 1 bits. Everything
        // is doubled.
        let terms = (spec.convert.len * params.words()) as f64;
        let words = 1.0
            + real::log2(terms) / 2.0
            + (f64::from(spec.word_bits + spec.rho + 1) + LOG2_VARIANCE)
            + LOG2_NORMAL;
        // Number of turns of a sum of theta fractions, uniform on [-1/2, 1/2).
        let turns = (real::log2(spec.convert.weight as f64) + LOG2_VARIANCE) / 2.0 + LOG2_NORMAL;
        Self {
            log2_error: add_log2(add_log2(crossed, squared), words),
            log2_lift: modulus_bits + add_log2(turns, LOG2_UNIFORM),
        }
    }

    /// Noise of the sum that bootstrapping begins with.
    pub(crate) fn refreshed_sum(params: &Params) -> Self {
        let spec = params.spec();
        let bits = f64::from(params.max_exponent()) * params.log2_t();
        // Sums of multipliers, uniform on an interval of length t^(n + 1).
        let sum =
            |count: usize| bits + (real::log2(count as f64) + LOG2_VARIANCE) / 2.0 + LOG2_NORMAL;
        let error = f64::from(spec.rho + 1) + LOG2_VARIANCE / 2.0;
        Self {
            log2_error: sum(spec.bootstrap.len) + error,
            log2_lift: add_log2(sum(spec.bootstrap.weight), bits - 1.0 - params.log2_t()),
        }
    }

    /// Returns the noise after bootstrapping, which
    /// [`Evaluator::bootstrap`](crate::Evaluator::bootstrap) predicts.
    pub(crate) fn bootstrapped(params: &Params) -> Result<Self> {
        let whole = Self::refreshed_sum(params);
        let digits = params.spec().digits;
        let mut rest = whole;
        let mut lifted = Vec::new();
        for i in 0..digits {
            lifted.push(rest);
            let mut left = whole;
            for (k, digit) in (0..).zip(&mut lifted) {
                *digit = digit.lifted(params, digits - k + 1)?;
                left = left.sum(digit.shifted(params, k as i32));
            }
            rest = left.shifted(params, -(i as i32 + 1));
        }
        rest.check("bootstrapping", params.bootstrap_limit_bits())
    }

    /// Noise of the polynomial that clears higher digits modulo `t^exponent`.
    fn lifted(self, params: &Params, exponent: u32) -> Result<Self> {
        let mut power = self;
        let mut sum: Option<Self> = None;
        for factor in lifting_polynomial(params.spec().t, exponent - 1) {
            if factor != 0 {
                let term = power.times(factor.unsigned_abs());
                sum = Some(sum.map_or(term, |sum| sum.sum(term)));
            }
            power = power.product(self, params, exponent);
        }
        sum.unwrap_or(self).check("a digit", params.noise_limit_bits(exponent))
    }

    /// Rejects noise beyond `limit_bits`.
    pub(crate) fn check(self, operation: &'static str, limit_bits: f64) -> Result<Self> {
        let found_bits = self.bits();
        // The comparison also rejects NaN.
        if found_bits <= limit_bits {
            return Ok(self);
        }
        Err(Error::NoiseExhausted { operation, found_bits, limit_bits })
    }
}

/// Returns `log2(2^a + 2^b)`.
fn add_log2(a: f64, b: f64) -> f64 {
    // The power of the difference is at most 1, so it cannot overflow.
    let (more, less) = if a > b { (a, b) } else { (b, a) };
    more + real::ln_1p(real::exp2(less - more)) / core::f64::consts::LN_2
}

use crate::{
    Error, Result,
    rlwe::{self, power_of_two},
};
use core::fmt;
use serde::{Deserialize, Serialize};
use sudare_arith::{dd::Dd, real};

/// A plaintext scale: the positive factor between values and integer plaintexts, to about 100 bits.
///
/// Scales follow the computation: products multiply them, rescaling divides them by the dropped
/// primes, and sums require equal ones.
#[derive(Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(from = "(f64, f64)", into = "(f64, f64)")]
pub struct Scale(Dd);

impl Scale {
    /// Relative difference up to which scales count as equal: far above the
    /// rounding of this type, far below the precision of any plaintext.
    pub const TOLERANCE: f64 = 1.0 / (1u64 << 60) as f64;

    /// Returns `2^bits` to the nearest double, the same on every platform; NaN for `bits` that are
    /// not finite.
    #[must_use]
    pub fn from_log2(bits: f64) -> Self {
        Self(Dd::from(power_of_two(bits)))
    }

    /// The scale `x`.
    #[must_use]
    pub fn from_f64(x: f64) -> Self {
        Self(Dd::from(x))
    }

    /// The scale `x`, exactly.
    #[must_use]
    pub fn from_u64(x: u64) -> Self {
        Self(Dd::from(x))
    }

    /// The scale as a double-double number.
    #[must_use]
    pub fn to_dd(self) -> Dd {
        self.0
    }

    /// The nearest double.
    #[must_use]
    pub fn to_f64(self) -> f64 {
        self.0.to_f64()
    }

    /// `log2` of the scale; NaN if it is not positive.
    #[must_use]
    pub fn log2(self) -> f64 {
        real::log2(self.to_f64())
    }

    /// Returns the square root of the scale; NaN if it is not positive.
    #[must_use]
    pub fn sqrt(self) -> Self {
        Self(self.0.sqrt())
    }

    /// Returns `true` if the scale is a finite positive normal number.
    #[must_use]
    pub fn is_valid(self) -> bool {
        // Subnormal numbers have fewer digits, so quotients of them would no longer match.
        self.to_f64().is_normal() && self.to_f64() > 0.0
    }

    /// Returns `true` if the two count as equal: their relative difference is at most
    /// [`Scale::TOLERANCE`].
    #[must_use]
    pub fn matches(self, other: Self) -> bool {
        let difference = (self.0 - other.0).to_f64().abs();
        // The comparison is also false for NaN.
        difference <= Self::TOLERANCE * self.to_f64().abs()
    }

    fn out_of_range(self, op: &'static str, log2_q: f64) -> Error {
        Error::ScaleOutOfRange { op, log2_scale: self.log2(), log2_q }
    }

    /// Returns the change of values, relative to them, if 1 at this scale is rounded to an integer;
    /// infinite if it becomes 0.
    pub(super) fn rounding(self) -> f64 {
        let factor = self.to_f64();
        match factor.round_ties_even() {
            rounded if rounded >= 1.0 => (factor - rounded).abs() / factor,
            _ => f64::INFINITY,
        }
    }
}

impl rlwe::Scale for Scale {
    fn matches(self, other: Self) -> bool {
        self.matches(other)
    }

    fn check_matches(self, other: Self, op: &'static str) -> Result<()> {
        if self.matches(other) {
            return Ok(());
        }
        Err(Error::ScaleMismatch { op, left: self.log2(), right: other.log2(), levels: None })
    }

    fn check_fits(self, op: &'static str, log2_q: f64) -> Result<()> {
        // One bit is for the sign.
        if self.is_valid() && self.log2() + 1.0 <= log2_q {
            return Ok(());
        }
        Err(self.out_of_range(op, log2_q))
    }

    fn encodes_one(self, result: Self) -> bool {
        self.rounding() * result.to_f64() <= 1.0
    }

    fn check_weights(self, op: &'static str, log2_q: f64) -> Result<()> {
        rlwe::Scale::check_fits(self, op, log2_q)?;
        // Weights at a scale below 1 would round to 0.
        if self.log2() >= 0.0 { Ok(()) } else { Err(self.out_of_range(op, log2_q)) }
    }
}

impl core::ops::Mul for Scale {
    type Output = Self;
    fn mul(self, other: Self) -> Self {
        Self(self.0 * other.0)
    }
}

impl core::ops::Div for Scale {
    type Output = Self;
    fn div(self, other: Self) -> Self {
        Self(self.0 / other.0)
    }
}

impl From<(f64, f64)> for Scale {
    fn from(words: (f64, f64)) -> Self {
        let (hi, lo) = words;
        // Numbers from a file need not be in this form. The reader then finds that its header is
        // not in the one form.
        Self(Dd::from_sum(hi, lo))
    }
}

impl From<Scale> for (f64, f64) {
    fn from(scale: Scale) -> Self {
        (scale.0.hi(), scale.0.lo())
    }
}

impl fmt::Debug for Scale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "2^{:.6}", self.log2())
    }
}

impl fmt::Display for Scale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use num_bigint::BigInt;

    #[test]
    fn products_and_quotients_stay_equal() {
        let scale = Scale::from_log2(40.3);
        let prime = Scale::from_u64((1 << 45) - 229_375);
        let mut there = scale;
        for _ in 0..50 {
            there = there * prime / prime;
        }
        assert!(there.matches(scale));
        assert!((scale.sqrt() * scale.sqrt()).matches(scale));
        assert!(!(there * Scale::from_f64(1.0 + 1e-15)).matches(scale));
        assert!((scale.log2() - 40.3).abs() < 1e-12);
    }

    /// Compares in integers: the 64th power of a 64th root of a power of two, and half a unit on
    /// either side.
    #[test]
    fn powers_of_two_are_the_nearest_doubles() {
        for n in 0..64u32 {
            let x = Scale::from_log2(52.0 + f64::from(n) / 64.0).to_f64();
            let exact = BigInt::from(1) << (64 * 53 + n);
            // Twice as large, so that half a unit is an integer.
            let [below, above] = [-1i64, 1].map(|half| BigInt::from(2 * x as i64 + half).pow(64));
            assert!(below <= exact && exact <= above, "{n}");
        }
        for bits in [-1022, -1, 0, 1, 62, 120, 1023] {
            let exact = f64::from_bits(((bits + 1023) as u64) << 52);
            assert_eq!(Scale::from_log2(bits as f64), Scale::from_f64(exact));
        }
        assert_eq!(Scale::from_log2(-1e-20), Scale::from_f64(1.0));
        for bits in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e300, -1e300] {
            assert!(!Scale::from_log2(bits).is_valid(), "{bits}");
        }
    }

    #[test]
    fn only_positive_normal_scales_are_valid() {
        for bad in [0.0, -1.0, f64::NAN, f64::INFINITY, f64::MIN_POSITIVE / 2.0] {
            assert!(!Scale::from_f64(bad).is_valid());
        }
        assert!(Scale::from_f64(1.0).is_valid());
    }
}

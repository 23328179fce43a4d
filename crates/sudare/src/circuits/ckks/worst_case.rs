//! What holds of a ciphertext for all inputs; `docs/notes/worst-case-error.md`.

use crate::ckks::{Complex, MAX_LOG2_SCALE_F64, Scale};
use sudare_arith::real;

/// Of a number that `f64` rounds in each of the steps of a transform, relative to the largest.
const TRANSFORM_ERROR: f64 = 16.0 * f64::EPSILON;

/// By how much the argument of a polynomial may exceed 1 since intervals are rounded.
const ARGUMENT_ROUNDING: f64 = 1.0 / (1u64 << 30) as f64;

/// What holds of a ciphertext whatever its inputs are, as long as they are no larger than was
/// declared, and however often they are used.
#[derive(Debug, Clone, PartialEq)]
pub struct WorstCase {
    /// The largest magnitude that each slot can have, its error not counted.
    pub largest: Vec<f64>,
    /// The largest error of any slot, by encryption, rounding and encoding; infinite if none is
    /// known. Each operation adds a probability below `2^-96` that it is larger.
    pub error: f64,
    /// The largest magnitude that the argument of a polynomial on `[-1, 1]` on the way here can
    /// have, its error not counted; 0 if there was none. The error relies on its being 1 at most,
    /// which whoever wrote the program promises where magnitudes do not imply it.
    pub argument: f64,
    /// Bits left between the largest scaled value so far, error and sign included, and the
    /// modulus that held it. Negative: for some inputs decryption could give noise.
    pub headroom_bits: f64,
}

impl WorstCase {
    /// The largest [`WorstCase::argument`] that counts as 1: ends of intervals are rounded.
    pub const LARGEST_ARGUMENT: f64 = 1.0 + ARGUMENT_ROUNDING;

    /// Of slots up to these magnitudes with an error.
    pub(super) fn new(largest: Vec<f64>, error: f64) -> Self {
        Self { largest, error, argument: 0.0, headroom_bits: f64::INFINITY }
    }

    /// [`WorstCase::error`] where nothing has to be promised; infinite where values could exceed
    /// their modulus or arguments of polynomials leave `[-1, 1]`.
    #[must_use]
    pub fn largest_error(&self) -> f64 {
        let held = self.headroom_bits >= 0.0 && self.argument <= Self::LARGEST_ARGUMENT;
        if held { self.error } else { f64::INFINITY }
    }

    /// The largest magnitude of a slot.
    #[must_use]
    pub fn magnitude(&self) -> f64 {
        self.largest.iter().copied().fold(0.0, f64::max)
    }

    /// Held by a modulus of so many bits, the sign not counted, at a scale.
    pub(super) fn held(self, available_bits: f64, scale: Scale) -> Self {
        // An infinite error times zero is not a number.
        let error = if self.error.is_nan() { f64::INFINITY } else { self.error };
        let reach = self.magnitude() + if error.is_finite() { error } else { 0.0 };
        let headroom_bits =
            self.headroom_bits.min(available_bits - real::log2(reach) - scale.log2());
        Self { error, headroom_bits, ..self }
    }

    pub(super) fn with_more_error(self, error: f64) -> Self {
        Self { error: self.error + error, ..self }
    }

    /// Of the sum or the difference of two ciphertexts.
    pub(super) fn sum(&self, other: &Self) -> Self {
        // Scales count as equal that are not quite.
        let mismatch = Scale::TOLERANCE * other.magnitude();
        Self {
            largest: zipped(&self.largest, &other.largest, |a, b| a + b),
            error: self.error + other.error + mismatch,
            argument: self.argument.max(other.argument),
            headroom_bits: self.headroom_bits.min(other.headroom_bits),
        }
    }

    /// Of the product of two ciphertexts.
    pub(super) fn product(&self, other: &Self) -> Self {
        Self {
            largest: zipped(&self.largest, &other.largest, |a, b| a * b),
            error: self.magnitude() * other.error
                + self.error * other.magnitude()
                + self.error * other.error,
            argument: self.argument.max(other.argument),
            headroom_bits: self.headroom_bits.min(other.headroom_bits),
        }
    }

    /// Of the sum with a constant that is encoded with an error.
    pub(super) fn plus(&self, constant: f64, error: f64) -> Self {
        let largest = self.largest.iter().map(|a| a + constant).collect();
        Self { largest, ..*self }.with_more_error(error)
    }

    /// Of the product with a constant that is encoded with an error.
    pub(super) fn times(&self, constant: f64, error: f64) -> Self {
        let reach = self.magnitude() + self.error;
        let largest = self.largest.iter().map(|a| a * constant).collect();
        Self { largest, error: self.error * constant + reach * error, ..*self }
    }

    /// Of the sum with a vector of slots that is encoded at a scale.
    pub(super) fn plus_slots(&self, slots: &[Complex<f64>], scale: Scale) -> Self {
        let slots = magnitudes(slots);
        let largest = zipped(&self.largest, &slots, |a, b| a + b);
        Self { largest, ..*self }.with_more_error(encoding(&slots, scale))
    }

    /// Of the product with a vector of slots that is encoded at a scale.
    pub(super) fn times_slots(&self, slots: &[Complex<f64>], scale: Scale) -> Self {
        let slots = magnitudes(slots);
        let reach = self.magnitude() + self.error;
        let error = self.error * most(&slots) + reach * encoding(&slots, scale);
        Self { largest: zipped(&self.largest, &slots, |a, b| a * b), error, ..*self }
    }

    /// Of slots moved by `k` places.
    pub(super) fn rotated(&self, k: usize) -> Self {
        let mut largest = self.largest.clone();
        largest.rotate_left(k % self.largest.len().max(1));
        Self { largest, ..*self }
    }
}

/// The largest error of slots up to these magnitudes that are encoded at a scale: each of twice as
/// many coefficients is off by 1/2 at most, and by what `f64` rounds if that is precise enough.
pub(super) fn encoding(largest: &[f64], scale: Scale) -> f64 {
    let transform = if scale.log2() > MAX_LOG2_SCALE_F64 { 0.0 } else { TRANSFORM_ERROR };
    rounding(largest.len(), scale) + transform * most(largest)
}

/// The largest error of a slot of so many by rounding coefficients to integers.
pub(super) fn rounding(slots: usize, scale: Scale) -> f64 {
    slots as f64 / scale.to_f64()
}

pub(super) fn magnitudes(slots: &[Complex<f64>]) -> Vec<f64> {
    slots.iter().map(|z| (z.re * z.re + z.im * z.im).sqrt()).collect()
}

fn zipped(a: &[f64], b: &[f64], f: impl Fn(f64, f64) -> f64) -> Vec<f64> {
    a.iter().zip(b).map(|(&a, &b)| f(a, b)).collect()
}

pub(super) fn most(numbers: &[f64]) -> f64 {
    numbers.iter().copied().fold(0.0, f64::max)
}

/// The largest value of a Chebyshev polynomial of this degree within `excess` of `[-1, 1]`.
pub(super) fn chebyshev_beyond(degree: usize, excess: f64) -> f64 {
    real::cosh(degree as f64 * real::acosh(1.0 + ARGUMENT_ROUNDING + excess))
}

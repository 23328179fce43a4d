//! Bounds of a ciphertext for all inputs; see `docs/notes/worst-case-error.md`.

use crate::ckks::{Complex, MAX_LOG2_SCALE_F64, Scale};
use sudare_arith::real;

/// Error of a number that `f64` rounds in each step of a transform, relative to the largest.
const TRANSFORM_ERROR: f64 = 16.0 * f64::EPSILON;

/// Maximum excess of the argument of a polynomial over 1, because ends of intervals are rounded.
const ARGUMENT_ROUNDING: f64 = 1.0 / (1u64 << 30) as f64;

/// Bounds of a ciphertext for all inputs within their declared bounds, and for any number of uses.
#[derive(Debug, Clone, PartialEq)]
pub struct WorstCase {
    /// The largest possible magnitude of each slot, without its error.
    pub largest: Vec<f64>,
    /// The largest error of any slot, from encryption, rounding and encoding; infinite if no bound
    /// is known. Each operation adds a probability below `2^-96` of a larger error.
    pub error: f64,
    /// The largest possible magnitude of the argument of any previous polynomial on `[-1, 1]`,
    /// without its error; 0 without polynomials. The error assumes that it is at most 1. If
    /// magnitudes do not imply this, the author of the program guarantees it.
    pub argument: f64,
    /// Bits left between the largest scaled value until now, error and sign included, and its
    /// modulus. If negative, decryption could return noise for some inputs.
    pub headroom_bits: f64,
}

impl WorstCase {
    /// The largest [`WorstCase::argument`] that counts as 1, because ends of intervals are rounded.
    pub const LARGEST_ARGUMENT: f64 = 1.0 + ARGUMENT_ROUNDING;

    /// Makes the bounds of slots up to these magnitudes with an error.
    pub(super) fn new(largest: Vec<f64>, error: f64) -> Self {
        Self { largest, error, argument: 0.0, headroom_bits: f64::INFINITY }
    }

    /// Returns [`WorstCase::error`] if it holds without a guarantee by the author. Infinite if
    /// values could exceed their modulus or arguments of polynomials leave `[-1, 1]`.
    #[must_use]
    pub fn largest_error(&self) -> f64 {
        let held = self.headroom_bits >= 0.0 && self.argument <= Self::LARGEST_ARGUMENT;
        if held { self.error } else { f64::INFINITY }
    }

    /// Returns the largest magnitude of a slot.
    #[must_use]
    pub fn magnitude(&self) -> f64 {
        self.largest.iter().copied().fold(0.0, f64::max)
    }

    /// Applies a modulus of `available_bits` bits, without the sign, at a scale.
    pub(super) fn held(self, available_bits: f64, scale: Scale) -> Self {
        // An infinite error times zero is NaN.
        let error = if self.error.is_nan() { f64::INFINITY } else { self.error };
        let reach = self.magnitude() + if error.is_finite() { error } else { 0.0 };
        let headroom_bits =
            self.headroom_bits.min(available_bits - real::log2(reach) - scale.log2());
        Self { error, headroom_bits, ..self }
    }

    pub(super) fn with_more_error(self, error: f64) -> Self {
        Self { error: self.error + error, ..self }
    }

    /// Bounds the sum or the difference of two ciphertexts.
    pub(super) fn sum(&self, other: &Self) -> Self {
        // Scales that count as equal may differ slightly.
        let mismatch = Scale::TOLERANCE * other.magnitude();
        Self {
            largest: zipped(&self.largest, &other.largest, |a, b| a + b),
            error: self.error + other.error + mismatch,
            argument: self.argument.max(other.argument),
            headroom_bits: self.headroom_bits.min(other.headroom_bits),
        }
    }

    /// Bounds the product of two ciphertexts.
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

    /// Bounds the sum with a constant that is encoded with an error.
    pub(super) fn plus(&self, constant: f64, error: f64) -> Self {
        let largest = self.largest.iter().map(|a| a + constant).collect();
        Self { largest, ..*self }.with_more_error(error)
    }

    /// Bounds the product with a constant that is encoded with an error.
    pub(super) fn times(&self, constant: f64, error: f64) -> Self {
        let reach = self.magnitude() + self.error;
        let largest = self.largest.iter().map(|a| a * constant).collect();
        Self { largest, error: self.error * constant + reach * error, ..*self }
    }

    /// Bounds the sum with a vector of slots encoded at a scale.
    pub(super) fn plus_slots(&self, slots: &[Complex<f64>], scale: Scale) -> Self {
        let slots = magnitudes(slots);
        let largest = zipped(&self.largest, &slots, |a, b| a + b);
        Self { largest, ..*self }.with_more_error(encoding(&slots, scale))
    }

    /// Bounds the product with a vector of slots encoded at a scale.
    pub(super) fn times_slots(&self, slots: &[Complex<f64>], scale: Scale) -> Self {
        let slots = magnitudes(slots);
        let reach = self.magnitude() + self.error;
        let error = self.error * most(&slots) + reach * encoding(&slots, scale);
        Self { largest: zipped(&self.largest, &slots, |a, b| a * b), error, ..*self }
    }

    /// Moves the bounds of slots by `k` places.
    pub(super) fn rotated(&self, k: usize) -> Self {
        let mut largest = self.largest.clone();
        largest.rotate_left(k % self.largest.len().max(1));
        Self { largest, ..*self }
    }
}

/// Returns the largest error of slots up to these magnitudes encoded at a scale. Each of twice as
/// many coefficients has an error of at most 1/2, plus the rounding of `f64` if that is precise
/// enough.
pub(super) fn encoding(largest: &[f64], scale: Scale) -> f64 {
    let transform = if scale.log2() > MAX_LOG2_SCALE_F64 { 0.0 } else { TRANSFORM_ERROR };
    rounding(largest.len(), scale) + transform * most(largest)
}

/// Returns the largest error of one of `slots` slots from rounding coefficients to integers.
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

/// Returns the largest value of a Chebyshev polynomial of this degree within `excess` of `[-1, 1]`.
pub(super) fn chebyshev_beyond(degree: usize, excess: f64) -> f64 {
    real::cosh(degree as f64 * real::acosh(1.0 + ARGUMENT_ROUNDING + excess))
}

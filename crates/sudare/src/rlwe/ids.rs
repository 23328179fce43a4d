//! Levels, Galois elements and fingerprints.

use core::fmt;
use serde::{Deserialize, Serialize};

/// Number of rescalings that a ciphertext has left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Level(pub u32);

impl Level {
    /// The index of this level in a table by level.
    #[must_use]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// An odd `g` modulo `2N`, acting as `X -> X^g`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct GaloisElement(pub u32);

impl GaloisElement {
    /// The element that rotates slots left by `k`: `5^k mod 2N`.
    #[must_use]
    pub fn rotation(log_n: u32, k: i64) -> Self {
        let modulus = 2u64 << log_n;
        // The order of 5 modulo `2N`.
        let slots = 1i64 << (log_n - 1);
        let mut exponent = k.rem_euclid(slots);
        let mut power = 1;
        let mut base = 5;
        while exponent > 0 {
            if exponent & 1 == 1 {
                power = power * base % modulus;
            }
            base = base * base % modulus;
            exponent >>= 1;
        }
        Self(power as u32)
    }

    /// The element that conjugates slots: `2N - 1`.
    #[must_use]
    pub fn conjugation(log_n: u32) -> Self {
        Self((2 << log_n) - 1)
    }

    /// Returns the product of this element and [`GaloisElement::conjugation`].
    #[must_use]
    pub fn conjugated(self, log_n: u32) -> Self {
        // `2N - 1` is -1 modulo `2N`.
        Self((2 << log_n) - self.0)
    }

    /// Returns the inverse element.
    #[must_use]
    pub fn inverse(self, log_n: u32) -> Self {
        // Inverse of a unit modulo 2^k: five Newton steps double the number of correct bits,
        // starting from 3.
        let mut inverse = self.0;
        for _ in 0..5 {
            inverse = inverse.wrapping_mul(2u32.wrapping_sub(self.0.wrapping_mul(inverse)));
        }
        Self(inverse & ((2 << log_n) - 1))
    }
}

/// Fingerprint of a parameter set, stored in every object that depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ParamsId(pub u64);

/// Fingerprint of a secret key, drawn at random with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct KeyId(pub u64);

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for GaloisElement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for ParamsId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rotations_compose_and_invert() {
        for log_n in [4, 11, 16] {
            let product = |a: GaloisElement, b: GaloisElement| {
                (u64::from(a.0) * u64::from(b.0) % (2 << log_n)) as u32
            };
            let [one, two, back] = [1, 2, -1].map(|k| GaloisElement::rotation(log_n, k));
            assert_eq!(one.0, 5);
            assert_eq!(product(one, one), two.0);
            assert_eq!(product(one, back), 1);
            assert_eq!(one.inverse(log_n), back);
            let conjugation = GaloisElement::conjugation(log_n);
            assert_eq!(conjugation.inverse(log_n), conjugation);
            assert_eq!(product(two, conjugation), two.conjugated(log_n).0);
            assert_eq!(GaloisElement::rotation(log_n, 1 << (log_n - 1)).0, 1);
        }
    }
}

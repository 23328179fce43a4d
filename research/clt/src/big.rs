//! Conversion of long integers between the limbs of `sudare-arith` and `num-bigint`.

use num_bigint::BigUint;

/// Returns the integer of these limbs.
pub(crate) fn big(limbs: &[u64]) -> BigUint {
    BigUint::new(limbs.iter().flat_map(|&limb| [limb as u32, (limb >> 32) as u32]).collect())
}

/// Returns the `len` limbs of an integer, which must fit.
pub(crate) fn limbs(x: &BigUint, len: usize) -> Vec<u64> {
    let mut limbs = x.to_u64_digits();
    debug_assert!(limbs.len() <= len);
    limbs.resize(len, 0);
    limbs
}

/// Returns `round(a / b)`, with halves rounded up.
pub(crate) fn div_round(a: BigUint, b: &BigUint) -> BigUint {
    ((a << 1u32) + b) / (b << 1u32)
}

/// Computes `a += b` modulo `2^(64 a.len())`, where `b` is not longer.
pub(crate) fn add_wrapping(a: &mut [u64], b: &[u64]) {
    let (low, high) = a.split_at_mut(b.len());
    let mut carry = false;
    for (a, &b) in low.iter_mut().zip(b) {
        let (sum, first) = a.overflowing_add(b);
        let (sum, second) = sum.overflowing_add(carry.into());
        (*a, carry) = (sum, first || second);
    }
    for a in high {
        if !carry {
            break;
        }
        (*a, carry) = a.overflowing_add(1);
    }
}

/// Computes `a = -a` modulo `2^(64 a.len())`.
pub(crate) fn negate_wrapping(a: &mut [u64]) {
    let mut carry = true;
    for a in a {
        let (sum, over) = (!*a).overflowing_add(carry.into());
        (*a, carry) = (sum, over);
    }
}

/// The public modulus `x_0`, prepared for reductions.
#[derive(Debug, Clone)]
pub(crate) struct Modulus {
    value: BigUint,
    /// `floor(2^(128 limbs) / x_0)`.
    inverse: BigUint,
    limbs: usize,
}

impl Modulus {
    pub(crate) fn new(value: BigUint, limbs: usize) -> Self {
        let inverse = (BigUint::from(1u32) << (128 * limbs)) / &value;
        Self { value, inverse, limbs }
    }

    pub(crate) fn value(&self) -> &BigUint {
        &self.value
    }

    /// Returns `x mod x_0` for `x < 2^(128 limbs)`, by Barrett's method.
    pub(crate) fn reduce(&self, x: BigUint) -> BigUint {
        // Spares two long products for values that are reduced already.
        if x < self.value {
            return x;
        }
        let quotient = ((&x >> (64 * (self.limbs - 1))) * &self.inverse) >> (64 * (self.limbs + 1));
        let mut rest = x - quotient * &self.value;
        // Barrett's quotient is at most 2 too small, so this takes at most two steps.
        while rest >= self.value {
            rest -= &self.value;
        }
        rest
    }

    /// Returns `a b mod x_0`.
    pub(crate) fn mul(&self, a: &BigUint, b: &BigUint) -> BigUint {
        self.reduce(a * b)
    }

    /// Returns `a + b mod x_0`.
    pub(crate) fn add(&self, a: &BigUint, b: &BigUint) -> BigUint {
        let sum = a + b;
        if sum >= self.value { sum - &self.value } else { sum }
    }

    /// Returns `-a mod x_0`.
    pub(crate) fn neg(&self, a: &BigUint) -> BigUint {
        if *a == BigUint::ZERO { BigUint::ZERO } else { &self.value - a }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn remainders_are_those_of_division(
            x in prop::collection::vec(any::<u64>(), 0..8),
            modulus in prop::collection::vec(any::<u64>(), 4),
        ) {
            let value = big(&modulus) | (BigUint::from(1u32) << 250u32);
            let x = big(&x);
            let modulus = Modulus::new(value.clone(), 4);
            prop_assert_eq!(modulus.reduce(x.clone()), x % value);
        }

        #[test]
        fn limbs_wrap(a in prop::collection::vec(any::<u64>(), 3), b in any::<[u64; 3]>()) {
            let mut sum = a.clone();
            let all = BigUint::from(1u32) << 192u32;
            add_wrapping(&mut sum, &b);
            prop_assert_eq!(big(&sum), (big(&a) + big(&b)) % &all);
            negate_wrapping(&mut sum);
            add_wrapping(&mut sum, &a);
            add_wrapping(&mut sum, &b);
            prop_assert_eq!(sum, vec![0; 3]);
        }
    }
}

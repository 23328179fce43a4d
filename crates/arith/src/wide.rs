//! Products of two words.
//!
//! WebAssembly has no instruction for them. Its compilers call a function of 128-bit integers,
//! which passes results through memory. This module combines products of half words there instead.

/// `a * b`.
#[inline(always)]
pub(crate) fn product(a: u64, b: u64) -> u128 {
    if cfg!(target_arch = "wasm32") {
        u128::from(high_of_halves(a, b)) << 64 | u128::from(a.wrapping_mul(b))
    } else {
        u128::from(a) * u128::from(b)
    }
}

/// `floor(a * b / 2^64)`.
#[inline(always)]
pub(crate) fn high(a: u64, b: u64) -> u64 {
    if cfg!(target_arch = "wasm32") {
        high_of_halves(a, b)
    } else {
        ((u128::from(a) * u128::from(b)) >> 64) as u64
    }
}

/// Returns [`high`], or up to 2 less on machines where that is cheaper.
#[inline(always)]
pub(crate) fn nearly_high(a: u64, b: u64) -> u64 {
    if cfg!(target_arch = "wasm32") { nearly_high_of_halves(a, b) } else { high(a, b) }
}

/// Sums three of the four products of half words, each truncated: together less than 3 too small.
#[inline(always)]
fn nearly_high_of_halves(a: u64, b: u64) -> u64 {
    const HALF: u64 = u32::MAX as u64;
    let ([a0, a1], [b0, b1]) = ([a & HALF, a >> 32], [b & HALF, b >> 32]);
    a1 * b1 + ((a1 * b0) >> 32) + ((a0 * b1) >> 32)
}

/// Computes [`high`] by products of half words. Their order of addition keeps LLVM from recognising
/// a product of whole words, for which it would call the function.
#[inline(always)]
fn high_of_halves(a: u64, b: u64) -> u64 {
    const HALF: u64 = u32::MAX as u64;
    let ([a0, a1], [b0, b1]) = ([a & HALF, a >> 32], [b & HALF, b >> 32]);
    let left = a1 * b0;
    // No overflow: `(2^32 - 1)^2 + 2^32 - 1 < 2^64`.
    let right = a0 * b1 + ((a0 * b0) >> 32);
    let carried = ((left & HALF) + (right & HALF)) >> 32;
    a1 * b1 + (left >> 32) + (right >> 32) + carried
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Words that propagate carries, and others.
    fn word() -> impl Strategy<Value = u64> {
        prop_oneof![
            any::<u64>(),
            (0..64u32, -1..=1i64).prop_map(|(k, d)| (1u64 << k).wrapping_add_signed(d)),
        ]
    }

    proptest! {
        #[test]
        fn products_are_those_of_integers(a in word(), b in word()) {
            let expected = u128::from(a) * u128::from(b);
            prop_assert_eq!(product(a, b), expected);
            prop_assert_eq!(high(a, b), (expected >> 64) as u64);
            prop_assert_eq!(high_of_halves(a, b), (expected >> 64) as u64);
            for nearly in [nearly_high(a, b), nearly_high_of_halves(a, b)] {
                prop_assert!(nearly <= high(a, b) && high(a, b) - nearly <= 2);
            }
        }
    }
}

//! Products of two words.
//!
//! WebAssembly has none, and its compilers call a function of 128-bit integers for each, which passes
//! results through memory. There they are put together from products of half words.

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

/// [`high`], or up to 2 less where that is cheaper.
#[inline(always)]
pub(crate) fn nearly_high(a: u64, b: u64) -> u64 {
    if cfg!(target_arch = "wasm32") { nearly_high_of_halves(a, b) } else { high(a, b) }
}

/// Three of the four products of half words, each cut: they are less than 3 too small together.
#[inline(always)]
fn nearly_high_of_halves(a: u64, b: u64) -> u64 {
    const HALF: u64 = u32::MAX as u64;
    let ([a0, a1], [b0, b1]) = ([a & HALF, a >> 32], [b & HALF, b >> 32]);
    a1 * b1 + ((a1 * b0) >> 32) + ((a0 * b1) >> 32)
}

/// [`high`] by products of half words, added in an order that LLVM does not take for one of whole
/// words, which it would call the function for.
#[inline(always)]
fn high_of_halves(a: u64, b: u64) -> u64 {
    const HALF: u64 = u32::MAX as u64;
    let ([a0, a1], [b0, b1]) = ([a & HALF, a >> 32], [b & HALF, b >> 32]);
    let (left, right) = (a1 * b0, a0 * b1 + ((a0 * b0) >> 32));
    let carried = ((left & HALF) + (right & HALF)) >> 32;
    a1 * b1 + (left >> 32) + (right >> 32) + carried
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Words that carries go through, and others.
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

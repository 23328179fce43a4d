//! Random streams with the vectors of WebAssembly: four blocks of ChaCha20 at a time. A module
//! either uses these vectors or not, so the choice is made at compile time.

use super::chacha::{self, BLOCK_WORDS, Blocks};
use core::arch::wasm32::*;

/// Computes [`chacha::key_stream`].
pub(super) fn key_stream(state: &mut [u32; 16], words: &mut [u64]) -> usize {
    // SAFETY: this is compiled for the set.
    unsafe { chacha::key_stream::<v128>(state, words) }
}

impl Blocks for v128 {
    const COUNT: usize = 4;

    #[inline(always)]
    unsafe fn splat(word: u32) -> Self {
        u32x4_splat(word)
    }

    #[inline(always)]
    unsafe fn numbers() -> Self {
        u32x4(0, 1, 2, 3)
    }

    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        u32x4_add(self, other)
    }

    #[inline(always)]
    unsafe fn xor_turned<const BITS: i32>(self, other: Self) -> Self {
        let word = v128_xor(self, other);
        v128_or(u32x4_shl(word, BITS as u32), u32x4_shr(word, 32 - BITS as u32))
    }

    /// Combines two words of a block from two vectors each.
    #[inline(always)]
    unsafe fn write(words: [Self; 16], out: *mut u64) {
        for (pair, [a, b]) in words.as_chunks().0.iter().enumerate() {
            let low = u32x4_shuffle::<0, 4, 1, 5>(*a, *b);
            let high = u32x4_shuffle::<2, 6, 3, 7>(*a, *b);
            let blocks = [
                u64x2_extract_lane::<0>(low),
                u64x2_extract_lane::<1>(low),
                u64x2_extract_lane::<0>(high),
                u64x2_extract_lane::<1>(high),
            ];
            for (block, word) in blocks.into_iter().enumerate() {
                // SAFETY: guaranteed by the caller.
                unsafe { out.add(block * BLOCK_WORDS + pair).write(word) }
            }
        }
    }
}

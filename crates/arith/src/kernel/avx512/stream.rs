//! Random streams: sixteen blocks of ChaCha20 at a time, and rejection.

use super::{LANES, load, splat, store};
use crate::kernel::chacha::{self, BLOCK_WORDS, Blocks};
use core::arch::x86_64::*;

/// Computes [`chacha::key_stream`].
///
/// # Safety
/// The CPU has AVX-512 F.
#[target_feature(enable = "avx512f")]
pub(in crate::kernel) unsafe fn key_stream(state: &mut [u32; 16], words: &mut [u64]) -> usize {
    // SAFETY: guaranteed by the caller.
    unsafe { chacha::key_stream::<__m512i>(state, words) }
}

impl Blocks for __m512i {
    const COUNT: usize = 16;

    #[inline(always)]
    unsafe fn splat(word: u32) -> Self {
        // SAFETY: guaranteed by the caller.
        unsafe { _mm512_set1_epi32(word as i32) }
    }

    #[inline(always)]
    unsafe fn numbers() -> Self {
        // SAFETY: guaranteed by the caller.
        unsafe { _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15) }
    }

    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        // SAFETY: guaranteed by the caller.
        unsafe { _mm512_add_epi32(self, other) }
    }

    #[inline(always)]
    unsafe fn xor_turned<const BITS: i32>(self, other: Self) -> Self {
        // SAFETY: guaranteed by the caller.
        unsafe { _mm512_rol_epi32::<BITS>(_mm512_xor_si512(self, other)) }
    }

    /// Transposes four words of four blocks at a time, then parts of 128 bits.
    #[inline(always)]
    unsafe fn write(v: [Self; 16], out: *mut u64) {
        // SAFETY: guaranteed by the caller.
        unsafe {
            let parts: [[__m512i; 4]; 4] = core::array::from_fn(|g| {
                let [a, b, c, d] = [v[4 * g], v[4 * g + 1], v[4 * g + 2], v[4 * g + 3]];
                let ab = _mm512_unpacklo_epi32(a, b);
                let cd = _mm512_unpacklo_epi32(c, d);
                let ab_high = _mm512_unpackhi_epi32(a, b);
                let cd_high = _mm512_unpackhi_epi32(c, d);
                [
                    _mm512_unpacklo_epi64(ab, cd),
                    _mm512_unpackhi_epi64(ab, cd),
                    _mm512_unpacklo_epi64(ab_high, cd_high),
                    _mm512_unpackhi_epi64(ab_high, cd_high),
                ]
            });
            for j in 0..4 {
                let [a, b, c, d] = parts.map(|part| part[j]);
                let ab = _mm512_shuffle_i32x4::<0x44>(a, b);
                let cd = _mm512_shuffle_i32x4::<0x44>(c, d);
                let ab_high = _mm512_shuffle_i32x4::<0xee>(a, b);
                let cd_high = _mm512_shuffle_i32x4::<0xee>(c, d);
                let blocks = [
                    _mm512_shuffle_i32x4::<0x88>(ab, cd),
                    _mm512_shuffle_i32x4::<0xdd>(ab, cd),
                    _mm512_shuffle_i32x4::<0x88>(ab_high, cd_high),
                    _mm512_shuffle_i32x4::<0xdd>(ab_high, cd_high),
                ];
                for (k, block) in blocks.into_iter().enumerate() {
                    store(out.add((4 * k + j) * BLOCK_WORDS), block);
                }
            }
        }
    }
}

/// Masks the words of full vectors and moves those below `q` to the front, in order. Returns their
/// number and the number of words read.
///
/// # Safety
/// The CPU has AVX-512 F.
#[target_feature(enable = "avx512f")]
pub(in crate::kernel) unsafe fn compact(q: u64, mask: u64, words: &mut [u64]) -> (usize, usize) {
    let start = words.as_mut_ptr();
    let end = words.len() / LANES * LANES;
    let mut accepted = 0;
    for i in (0..end).step_by(LANES) {
        // SAFETY: guaranteed by the caller; no more words are accepted than were read, so every
        // write is within the row and to words already read.
        unsafe {
            let masked = _mm512_and_si512(load(start.add(i)), splat(mask));
            let below = _mm512_cmplt_epu64_mask(masked, splat(q));
            store(start.add(accepted), _mm512_maskz_compress_epi64(below, masked));
            accepted += below.count_ones() as usize;
        }
    }
    (accepted, end)
}

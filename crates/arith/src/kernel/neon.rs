//! Kernels for NEON and `q < 2^50`, on vectors of two words, by the arithmetic of [`double`].

use super::{
    KernelTable, Repeated, Rows, SCALAR,
    vector::{
        AHEAD_BYTES, Lanes, Strided, Vector,
        double::{self, Double, Doubles, Single, Words},
        pair::Pair,
        prefetch, transform,
    },
};
use crate::{ConstantDot, Modulus, NttTable, Shoup, fraction::Fraction};
use core::arch::aarch64::*;

double::kernels!("neon-50", uint64x2_t, Pair<uint64x2_t>, "neon");

impl Vector for uint64x2_t {
    const LANES: usize = 2;

    #[inline(always)]
    unsafe fn splat(word: u64) -> Self {
        // SAFETY: guaranteed by the caller.
        unsafe { vdupq_n_u64(word) }
    }

    #[inline(always)]
    unsafe fn load(p: *const u64) -> Self {
        // SAFETY: guaranteed by the caller.
        unsafe { vld1q_u64(p) }
    }

    #[inline(always)]
    unsafe fn store(self, p: *mut u64) {
        // SAFETY: guaranteed by the caller.
        unsafe { vst1q_u64(p, self) }
    }

    #[inline(always)]
    unsafe fn transpose(from: Strided, to: Strided) {
        for i in (0..8).step_by(2) {
            for j in (0..8).step_by(2) {
                // SAFETY: guaranteed by the caller.
                unsafe {
                    let [a, b] = [i, i + 1].map(|row| Self::load(from.row(row).add(j)));
                    vtrn1q_u64(a, b).store(to.row(j).add(i));
                    vtrn2q_u64(a, b).store(to.row(j + 1).add(i));
                }
            }
        }
    }
}

impl Words for uint64x2_t {
    type Doubles = float64x2_t;

    // Like AVX2, with twice the registers and half the words.
    const LOG_RADIX: u32 = 2;

    #[inline(always)]
    unsafe fn doubles(self) -> float64x2_t {
        // SAFETY: guaranteed by the caller.
        unsafe { vreinterpretq_f64_u64(self) }
    }

    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        // SAFETY: guaranteed by the caller.
        unsafe { vaddq_u64(self, other) }
    }

    #[inline(always)]
    unsafe fn sub(self, other: Self) -> Self {
        // SAFETY: guaranteed by the caller.
        unsafe { vsubq_u64(self, other) }
    }

    #[inline(always)]
    unsafe fn or(self, other: Self) -> Self {
        // SAFETY: guaranteed by the caller.
        unsafe { vorrq_u64(self, other) }
    }

    #[inline(always)]
    unsafe fn xor(self, other: Self) -> Self {
        // SAFETY: guaranteed by the caller.
        unsafe { veorq_u64(self, other) }
    }

    #[inline(always)]
    unsafe fn if_negative(self, other: Self) -> Self {
        // SAFETY: guaranteed by the caller.
        unsafe { vandq_u64(vcltzq_s64(vreinterpretq_s64_u64(self)), other) }
    }
}

impl Single for uint64x2_t {
    #[inline(always)]
    unsafe fn is_zero(self) -> bool {
        // SAFETY: guaranteed by the caller.
        unsafe { vmaxvq_u32(vreinterpretq_u32_u64(self)) == 0 }
    }

    /// The first half reads from the first 8 packed bytes and the second half from the last 8, one
    /// word each.
    #[inline(always)]
    unsafe fn spread(width: usize) -> Self {
        let spread: [u8; 16] = core::array::from_fn(|k| {
            let word = k / 8;
            let byte = k % 8;
            let place = byte + if word == 0 { 0 } else { 16 - width };
            // An index out of range clears the byte.
            if byte < width { place as u8 } else { 0xff }
        });
        // SAFETY: guaranteed by the caller; the array has the bytes of a vector.
        unsafe { vreinterpretq_u64_u8(vld1q_u8(spread.as_ptr())) }
    }

    #[inline(always)]
    unsafe fn unpack(p: *const u8, width: usize, spread: Self) -> Self {
        // SAFETY: guaranteed by the caller; both halves are within the packed words, which have 8
        // bytes or more.
        unsafe {
            prefetch::<1>(p.wrapping_add(AHEAD_BYTES));
            let bytes = vcombine_u8(vld1_u8(p), vld1_u8(p.add(2 * width - 8)));
            vreinterpretq_u64_u8(vqtbl1q_u8(bytes, vreinterpretq_u8_u64(spread)))
        }
    }
}

impl Doubles for float64x2_t {
    type Words = uint64x2_t;

    #[inline(always)]
    unsafe fn splat(x: f64) -> Self {
        // SAFETY: guaranteed by the caller.
        unsafe { vdupq_n_f64(x) }
    }

    #[inline(always)]
    unsafe fn words(self) -> uint64x2_t {
        // SAFETY: guaranteed by the caller.
        unsafe { vreinterpretq_u64_f64(self) }
    }

    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        // SAFETY: guaranteed by the caller.
        unsafe { vaddq_f64(self, other) }
    }

    #[inline(always)]
    unsafe fn sub(self, other: Self) -> Self {
        // SAFETY: guaranteed by the caller.
        unsafe { vsubq_f64(self, other) }
    }

    #[inline(always)]
    unsafe fn mul(self, other: Self) -> Self {
        // SAFETY: guaranteed by the caller.
        unsafe { vmulq_f64(self, other) }
    }

    #[inline(always)]
    unsafe fn plus_product(self, a: Self, b: Self) -> Self {
        // SAFETY: guaranteed by the caller.
        unsafe { vfmaq_f64(self, a, b) }
    }

    #[inline(always)]
    unsafe fn less_product(self, a: Self, b: Self) -> Self {
        // SAFETY: guaranteed by the caller.
        unsafe { vfmsq_f64(self, a, b) }
    }

    #[inline(always)]
    unsafe fn floor(self) -> Self {
        // SAFETY: guaranteed by the caller.
        unsafe { vrndmq_f64(self) }
    }

    #[inline(always)]
    unsafe fn if_negative(self, other: Self) -> Self {
        // SAFETY: guaranteed by the caller.
        unsafe { vandq_u64(vcltzq_f64(self), other.words()).doubles() }
    }

    #[inline(always)]
    unsafe fn differs(self, other: Self) -> uint64x2_t {
        // SAFETY: guaranteed by the caller.
        unsafe { vceqq_f64(self, other).xor(vdupq_n_u64(u64::MAX)) }
    }
}

#[cfg(test)]
#[test]
fn products_are_exact_up_to_their_bounds() {
    #[target_feature(enable = "neon")]
    fn check() {
        // SAFETY: the feature is enabled.
        unsafe { double::tests::check_products::<uint64x2_t>() }
    }
    // SAFETY: every CPU of this kind has the set.
    unsafe { check() }
}

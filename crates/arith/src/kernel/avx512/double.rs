//! Kernels for AVX-512 without IFMA and `q < 2^50`, on vectors of eight words, by the arithmetic
//! of [`double`].

use super::rows;
use crate::{
    ConstantDot, Modulus, NttTable, Shoup,
    fraction::Fraction,
    kernel::{
        KernelTable, Repeated, Rows, SCALAR,
        vector::{
            AHEAD_BYTES, Lanes,
            double::{self, Double, Doubles, Single, Words},
            prefetch, transform,
        },
    },
};
use core::arch::x86_64::*;

double::kernels!("avx512-50", __m512i, __m512i, "avx512f,avx512dq,avx512vl,avx512bw", rows::lift);

impl Words for __m512i {
    type Doubles = __m512d;

    // 32 registers hold sixteen values and their factors.
    const LOG_RADIX: u32 = 4;

    #[inline(always)]
    unsafe fn doubles(self) -> __m512d {
        // SAFETY: guaranteed by the caller.
        unsafe { _mm512_castsi512_pd(self) }
    }

    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        // SAFETY: guaranteed by the caller.
        unsafe { _mm512_add_epi64(self, other) }
    }

    #[inline(always)]
    unsafe fn sub(self, other: Self) -> Self {
        // SAFETY: guaranteed by the caller.
        unsafe { _mm512_sub_epi64(self, other) }
    }

    #[inline(always)]
    unsafe fn or(self, other: Self) -> Self {
        // SAFETY: guaranteed by the caller.
        unsafe { _mm512_or_si512(self, other) }
    }

    #[inline(always)]
    unsafe fn xor(self, other: Self) -> Self {
        // SAFETY: guaranteed by the caller.
        unsafe { _mm512_xor_si512(self, other) }
    }

    #[inline(always)]
    unsafe fn if_negative(self, other: Self) -> Self {
        // SAFETY: guaranteed by the caller.
        unsafe { _mm512_maskz_mov_epi64(_mm512_movepi64_mask(self), other) }
    }
}

impl Single for __m512i {
    #[inline(always)]
    unsafe fn is_zero(self) -> bool {
        // SAFETY: guaranteed by the caller.
        unsafe { _mm512_test_epi64_mask(self, self) == 0 }
    }

    /// Each word starts in the first of its four pairs of bytes, at the lower or the upper byte.
    #[inline(always)]
    unsafe fn spread(width: usize) -> Self {
        let spread: [u16; 32] = core::array::from_fn(|k| (k / 4 * width / 2 + k % 4) as u16);
        // SAFETY: guaranteed by the caller; the array has the bytes of a vector.
        unsafe { _mm512_loadu_si512(spread.as_ptr().cast()) }
    }

    #[inline(always)]
    unsafe fn unpack(p: *const u8, width: usize, spread: Self) -> Self {
        // SAFETY: guaranteed by the caller; bytes beyond the packed words are not read. A prefetch
        // is allowed at any address.
        unsafe {
            prefetch::<1>(p.wrapping_add(AHEAD_BYTES));
            let packed = _mm512_maskz_loadu_epi8((1 << (8 * width)) - 1, p.cast());
            let words = _mm512_permutexvar_epi16(spread, packed);
            // Words of an odd number of bytes start at the upper byte every second time.
            let odd = if width % 2 == 1 { 8 } else { 0 };
            let words = _mm512_srlv_epi64(words, _mm512_setr_epi64(0, odd, 0, odd, 0, odd, 0, odd));
            _mm512_and_si512(words, _mm512_set1_epi64((1 << (8 * width)) - 1))
        }
    }
}

impl Doubles for __m512d {
    type Words = __m512i;

    #[inline(always)]
    unsafe fn splat(x: f64) -> Self {
        // SAFETY: guaranteed by the caller.
        unsafe { _mm512_set1_pd(x) }
    }

    #[inline(always)]
    unsafe fn words(self) -> __m512i {
        // SAFETY: guaranteed by the caller.
        unsafe { _mm512_castpd_si512(self) }
    }

    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        // SAFETY: guaranteed by the caller.
        unsafe { _mm512_add_pd(self, other) }
    }

    #[inline(always)]
    unsafe fn sub(self, other: Self) -> Self {
        // SAFETY: guaranteed by the caller.
        unsafe { _mm512_sub_pd(self, other) }
    }

    #[inline(always)]
    unsafe fn mul(self, other: Self) -> Self {
        // SAFETY: guaranteed by the caller.
        unsafe { _mm512_mul_pd(self, other) }
    }

    #[inline(always)]
    unsafe fn plus_product(self, a: Self, b: Self) -> Self {
        // SAFETY: guaranteed by the caller.
        unsafe { _mm512_fmadd_pd(a, b, self) }
    }

    #[inline(always)]
    unsafe fn less_product(self, a: Self, b: Self) -> Self {
        // SAFETY: guaranteed by the caller.
        unsafe { _mm512_fnmadd_pd(a, b, self) }
    }

    #[inline(always)]
    unsafe fn floor(self) -> Self {
        // SAFETY: guaranteed by the caller.
        unsafe { _mm512_roundscale_pd::<{ _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC }>(self) }
    }

    #[inline(always)]
    unsafe fn if_negative(self, other: Self) -> Self {
        // SAFETY: guaranteed by the caller.
        unsafe {
            let negative = _mm512_cmp_pd_mask::<_CMP_LT_OQ>(self, _mm512_setzero_pd());
            _mm512_maskz_mov_pd(negative, other)
        }
    }

    #[inline(always)]
    unsafe fn differs(self, other: Self) -> __m512i {
        // SAFETY: guaranteed by the caller.
        unsafe { _mm512_movm_epi64(_mm512_cmp_pd_mask::<_CMP_NEQ_OQ>(self, other)) }
    }
}

#[cfg(test)]
#[test]
fn products_are_exact_up_to_their_bounds() {
    #[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512bw")]
    fn check() {
        // SAFETY: the features are enabled.
        unsafe { double::tests::check_products::<__m512i>() }
    }
    if crate::Isa::Avx512.is_available() {
        // SAFETY: the CPU has the set.
        unsafe { check() }
    }
}

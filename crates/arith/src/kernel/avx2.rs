//! Kernels for AVX2 with FMA and `q < 2^50`, on vectors of four words, by the arithmetic of
//! [`double`].

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
use core::arch::x86_64::*;

double::kernels!("avx2-50", __m256i, Pair<__m256i>, "avx2,fma");

impl Vector for __m256i {
    const LANES: usize = 4;

    #[inline(always)]
    unsafe fn splat(word: u64) -> Self {
        // SAFETY: guaranteed by the caller.
        unsafe { _mm256_set1_epi64x(word as i64) }
    }

    #[inline(always)]
    unsafe fn load(p: *const u64) -> Self {
        // SAFETY: guaranteed by the caller.
        unsafe { _mm256_loadu_si256(p.cast()) }
    }

    #[inline(always)]
    unsafe fn store(self, p: *mut u64) {
        // SAFETY: guaranteed by the caller.
        unsafe { _mm256_storeu_si256(p.cast(), self) }
    }

    #[inline(always)]
    unsafe fn transpose(from: Strided, to: Strided) {
        for (i, j) in [(0, 0), (4, 0), (0, 4), (4, 4)] {
            // SAFETY: guaranteed by the caller.
            unsafe {
                // Load halves of rows two apart together: this saves shuffles.
                let joined = |row: usize, column: usize| {
                    let half = |row: usize| from.row(row).add(column).cast_const().cast();
                    pair(half(i + row), half(i + row + 2))
                };
                for column in [j, j + 2] {
                    let even = joined(0, column);
                    let odd = joined(1, column);
                    _mm256_unpacklo_epi64(even, odd).store(to.row(column).add(i));
                    _mm256_unpackhi_epi64(even, odd).store(to.row(column + 1).add(i));
                }
            }
        }
    }
}

/// Loads the 16 bytes at each of two places.
///
/// # Safety
/// Both are readable. The CPU has AVX2.
#[inline(always)]
unsafe fn pair(low: *const __m128i, high: *const __m128i) -> __m256i {
    // SAFETY: guaranteed by the caller.
    unsafe {
        let low = _mm256_castsi128_si256(_mm_loadu_si128(low));
        _mm256_inserti128_si256::<1>(low, _mm_loadu_si128(high))
    }
}

impl Words for __m256i {
    type Doubles = __m256d;

    // Sixteen registers hold eight values, but not their factors too (performance log, AVX2). Two
    // chains of four values hide more latency than one of eight.
    const LOG_RADIX: u32 = 2;

    #[inline(always)]
    unsafe fn doubles(self) -> __m256d {
        // SAFETY: guaranteed by the caller.
        unsafe { _mm256_castsi256_pd(self) }
    }

    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        // SAFETY: guaranteed by the caller.
        unsafe { _mm256_add_epi64(self, other) }
    }

    #[inline(always)]
    unsafe fn sub(self, other: Self) -> Self {
        // SAFETY: guaranteed by the caller.
        unsafe { _mm256_sub_epi64(self, other) }
    }

    #[inline(always)]
    unsafe fn or(self, other: Self) -> Self {
        // SAFETY: guaranteed by the caller.
        unsafe { _mm256_or_si256(self, other) }
    }

    #[inline(always)]
    unsafe fn xor(self, other: Self) -> Self {
        // SAFETY: guaranteed by the caller.
        unsafe { _mm256_xor_si256(self, other) }
    }

    #[inline(always)]
    unsafe fn if_negative(self, other: Self) -> Self {
        // SAFETY: guaranteed by the caller.
        unsafe { _mm256_and_si256(_mm256_cmpgt_epi64(_mm256_setzero_si256(), self), other) }
    }
}

impl Single for __m256i {
    #[inline(always)]
    unsafe fn is_zero(self) -> bool {
        // SAFETY: guaranteed by the caller.
        unsafe { _mm256_testz_si256(self, self) == 1 }
    }

    /// The first half reads from the first 16 packed bytes and the second half from the last 16,
    /// two words each.
    #[inline(always)]
    unsafe fn spread(width: usize) -> Self {
        let spread: [u8; 32] = core::array::from_fn(|k| {
            let word = k / 8;
            let byte = k % 8;
            let place = word * width + byte - if word < 2 { 0 } else { 4 * width - 16 };
            // The highest bit of an index clears the byte.
            if byte < width { place as u8 } else { 0x80 }
        });
        // SAFETY: guaranteed by the caller; the array has the bytes of a vector.
        unsafe { _mm256_loadu_si256(spread.as_ptr().cast()) }
    }

    #[inline(always)]
    unsafe fn unpack(p: *const u8, width: usize, spread: Self) -> Self {
        // SAFETY: guaranteed by the caller; both halves are within the packed words, which have at
        // least 16 bytes. A prefetch is allowed at any address.
        unsafe {
            prefetch::<1>(p.wrapping_add(AHEAD_BYTES));
            _mm256_shuffle_epi8(pair(p.cast(), p.add(4 * width - 16).cast()), spread)
        }
    }
}

impl Doubles for __m256d {
    type Words = __m256i;

    #[inline(always)]
    unsafe fn splat(x: f64) -> Self {
        // SAFETY: guaranteed by the caller.
        unsafe { _mm256_set1_pd(x) }
    }

    #[inline(always)]
    unsafe fn words(self) -> __m256i {
        // SAFETY: guaranteed by the caller.
        unsafe { _mm256_castpd_si256(self) }
    }

    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        // SAFETY: guaranteed by the caller.
        unsafe { _mm256_add_pd(self, other) }
    }

    #[inline(always)]
    unsafe fn sub(self, other: Self) -> Self {
        // SAFETY: guaranteed by the caller.
        unsafe { _mm256_sub_pd(self, other) }
    }

    #[inline(always)]
    unsafe fn mul(self, other: Self) -> Self {
        // SAFETY: guaranteed by the caller.
        unsafe { _mm256_mul_pd(self, other) }
    }

    #[inline(always)]
    unsafe fn plus_product(self, a: Self, b: Self) -> Self {
        // SAFETY: guaranteed by the caller.
        unsafe { _mm256_fmadd_pd(a, b, self) }
    }

    #[inline(always)]
    unsafe fn less_product(self, a: Self, b: Self) -> Self {
        // SAFETY: guaranteed by the caller.
        unsafe { _mm256_fnmadd_pd(a, b, self) }
    }

    #[inline(always)]
    unsafe fn floor(self) -> Self {
        // SAFETY: guaranteed by the caller.
        unsafe { _mm256_floor_pd(self) }
    }

    #[inline(always)]
    unsafe fn if_negative(self, other: Self) -> Self {
        // SAFETY: guaranteed by the caller.
        unsafe { _mm256_and_pd(_mm256_cmp_pd::<_CMP_LT_OQ>(self, _mm256_setzero_pd()), other) }
    }

    #[inline(always)]
    unsafe fn differs(self, other: Self) -> __m256i {
        // SAFETY: guaranteed by the caller.
        unsafe { _mm256_cmp_pd::<_CMP_NEQ_OQ>(self, other).words() }
    }
}

#[cfg(test)]
#[test]
fn products_are_exact_up_to_their_bounds() {
    #[target_feature(enable = "avx2,fma")]
    fn check() {
        // SAFETY: the features are enabled.
        unsafe { double::tests::check_products::<__m256i>() }
    }
    if crate::Isa::Avx2.is_available() {
        // SAFETY: the CPU has the set.
        unsafe { check() }
    }
}

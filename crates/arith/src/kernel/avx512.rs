//! Kernels for AVX-512 with IFMA, on vectors of eight words.
//!
//! [`Lanes`] is the arithmetic of one range of moduli: [`narrow`] below `2^50`
//! with the 52-bit multiply-add, [`wide`] above with 64-bit products. The row
//! kernels ([`rows`]) and the transforms ([`transform`]) are written once on it.

mod narrow;
mod rows;
pub(super) mod stream;
mod transform;
mod wide;

use super::KernelTable;
use core::arch::x86_64::{__m512i, _mm512_loadu_si512, _mm512_set1_epi64, _mm512_storeu_si512};
use narrow::Narrow;
use wide::Wide;

/// The table for `q`.
pub(super) fn table(q: u64) -> &'static KernelTable {
    static BELOW_48: KernelTable = rows::table::<Narrow<16>>("avx512ifma-48");
    static BELOW_49: KernelTable = rows::table::<Narrow<8>>("avx512ifma-49");
    static BELOW_50: KernelTable = rows::table::<Narrow<4>>("avx512ifma-50");
    static BELOW_62: KernelTable = rows::table::<Wide>("avx512-62");
    match u64::BITS - q.leading_zeros() {
        ..=48 => &BELOW_48,
        49 => &BELOW_49,
        50 => &BELOW_50,
        _ => &BELOW_62,
    }
}

/// Words of a vector.
const LANES: usize = 8;

/// # Safety
/// `p` points to eight readable words; the CPU has AVX-512.
#[inline(always)]
unsafe fn load(p: *const u64) -> __m512i {
    // SAFETY: the caller's.
    unsafe { _mm512_loadu_si512(p.cast()) }
}

/// # Safety
/// `p` points to eight writable words; the CPU has AVX-512.
#[inline(always)]
unsafe fn store(p: *mut u64, v: __m512i) {
    // SAFETY: the caller's.
    unsafe { _mm512_storeu_si512(p.cast(), v) }
}

/// # Safety
/// The CPU has AVX-512.
#[inline(always)]
unsafe fn splat(x: u64) -> __m512i {
    // SAFETY: the caller's.
    unsafe { _mm512_set1_epi64(x as i64) }
}

/// Vectors of a Shoup factor: its value and its quotient.
type Factor = (__m512i, __m512i);

/// Arithmetic of one range of moduli.
///
/// # Safety
/// Every function: only on a CPU with AVX-512 F, DQ, VL and IFMA. They are
/// inlined into functions compiled for these.
trait Lanes: Copy {
    /// Values inside a transform are below `LIMIT * q`.
    const LIMIT: u32;
    /// Shoup quotients are `floor(w * 2^RADIX_BITS / q)`.
    const RADIX_BITS: u32;
    /// Layers done at a time in registers: 2, 3 or 4.
    const LOG_RADIX: u32;
    /// A sum of up to 15 products.
    type Sum: Copy;

    unsafe fn new(m: &crate::Modulus) -> Self;
    /// Any value that a transform can hold, in the middle of the range: below
    /// `(LIMIT / 2 + 1) q` and not below `(LIMIT / 2 - 1) q`, or below `2q` if `LIMIT` is 4.
    unsafe fn centre(self, a: __m512i) -> __m512i;
    /// `a w` in the middle of the range, likewise.
    unsafe fn mul_centred(self, a: __m512i, w: Factor) -> __m512i;
    /// `(x + w y, x - w y)`. The outputs are within `q` of `x`; if `LIMIT` is 4,
    /// `x` must be in the middle of the range.
    unsafe fn forward(self, x: __m512i, y: __m512i, w: Factor) -> (__m512i, __m512i);
    /// `(x + y, (x - y) w)` for inputs below `LIMIT / 2 * q`; the second output
    /// is below `2q`.
    unsafe fn inverse(self, x: __m512i, y: __m512i, w: Factor) -> (__m512i, __m512i);
    /// `a w`, below `2q`, for any value that a transform can hold.
    unsafe fn mul_lazy(self, a: __m512i, w: Factor) -> __m512i;
    /// Any value that a transform can hold, to below `2q`.
    unsafe fn reduce(self, a: __m512i) -> __m512i;
    /// `[0, 2q)` to `[0, q)`.
    unsafe fn fold(self, a: __m512i) -> __m512i;
    /// `a + b` for canonical `a` and `b`.
    unsafe fn add(self, a: __m512i, b: __m512i) -> __m512i;
    /// `a - b`, likewise.
    unsafe fn sub(self, a: __m512i, b: __m512i) -> __m512i;
    /// `a - b + q`, likewise.
    unsafe fn sub_lazy(self, a: __m512i, b: __m512i) -> __m512i;

    unsafe fn empty_sum() -> Self::Sum;
    unsafe fn accumulate(sum: Self::Sum, a: __m512i, b: __m512i) -> Self::Sum;
    /// Canonical.
    unsafe fn reduce_sum(self, sum: Self::Sum) -> __m512i;
}

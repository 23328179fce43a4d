//! AVX-512 arithmetic for any `q < 2^62`.
//!
//! Butterflies are Harvey's, on 64-bit products. High words and sums of products use the 52-bit
//! multiply-add on operands cut in two: seven multiply-adds per term, and one reduction of the
//! 128-bit sum.

use super::{Factor, splat, sums::Sums};
use crate::{
    Modulus, Shoup,
    kernel::{TERMS, vector::Lanes},
};
use core::arch::x86_64::*;

/// Arithmetic on values below `4q`.
#[derive(Clone, Copy)]
pub(super) struct Wide {
    q: __m512i,
    twice: __m512i,
    /// `floor(2^64 / q)`.
    one: __m512i,
    /// `2^64 mod q`.
    radix: Factor,
}

/// `p0 + 2^52 p1 + 2^104 p2`.
#[derive(Clone, Copy)]
pub(super) struct Sum {
    p0: __m512i,
    p1: __m512i,
    p2: __m512i,
}

/// Returns the high words of `a b`, from products of 52 and 12 bits. The lowest product does not
/// reach bit 64.
#[inline(always)]
unsafe fn mul_high(a: __m512i, b: __m512i) -> __m512i {
    // SAFETY: guaranteed by the caller.
    unsafe {
        let zero = _mm512_setzero_si512();
        let a1 = _mm512_srli_epi64::<52>(a);
        let b1 = _mm512_srli_epi64::<52>(b);
        let p1 = _mm512_madd52hi_epu64(zero, a, b);
        let p1 = _mm512_madd52lo_epu64(p1, a, b1);
        let p1 = _mm512_madd52lo_epu64(p1, a1, b);
        let p2 = _mm512_madd52hi_epu64(zero, a, b1);
        let p2 = _mm512_madd52hi_epu64(p2, a1, b);
        let p2 = _mm512_madd52lo_epu64(p2, a1, b1);
        _mm512_add_epi64(_mm512_srli_epi64::<12>(p1), _mm512_slli_epi64::<40>(p2))
    }
}

/// Reduces `[0, 2m)` to `[0, m)`.
#[inline(always)]
unsafe fn fold(a: __m512i, m: __m512i) -> __m512i {
    // SAFETY: guaranteed by the caller.
    unsafe { _mm512_min_epu64(a, _mm512_sub_epi64(a, m)) }
}

impl Lanes for Wide {
    type V = __m512i;

    const LIMIT: u32 = 4;
    // Radix 16 would not keep the longer arithmetic in registers (performance log, transforms).
    const LOG_RADIX: u32 = 3;
    const LOG_COLUMN_RADIX: u32 = 3;
    const CONVERTS: bool = false;

    fn factor(_: &Modulus, w: Shoup) -> [u64; 2] {
        [w.value, w.quotient]
    }

    fn residue(_: &Modulus, first: u64) -> u64 {
        first
    }

    #[inline(always)]
    unsafe fn new(m: &Modulus) -> Self {
        let q = m.value();
        // SAFETY: guaranteed by the caller.
        unsafe {
            Self {
                q: splat(q),
                twice: splat(2 * q),
                one: splat(m.one().quotient),
                radix: (splat(m.radix().value), splat(m.radix().quotient)),
            }
        }
    }

    #[inline(always)]
    unsafe fn value(words: __m512i) -> __m512i {
        words
    }

    #[inline(always)]
    unsafe fn centre(self, a: __m512i) -> __m512i {
        // SAFETY: guaranteed by the caller.
        unsafe { self.reduce(a) }
    }

    #[inline(always)]
    unsafe fn enter(self, words: __m512i) -> __m512i {
        words
    }

    #[inline(always)]
    unsafe fn mul_centred(self, a: __m512i, w: Factor) -> __m512i {
        // SAFETY: guaranteed by the caller.
        unsafe { self.mul_lazy(a, w) }
    }

    #[inline(always)]
    unsafe fn forward(self, x: __m512i, y: __m512i, w: Factor) -> (__m512i, __m512i) {
        // SAFETY: guaranteed by the caller.
        unsafe {
            let t = self.mul_lazy(y, w);
            (_mm512_add_epi64(x, t), _mm512_sub_epi64(_mm512_add_epi64(x, self.twice), t))
        }
    }

    #[inline(always)]
    unsafe fn inverse(self, x: __m512i, y: __m512i, w: Factor) -> (__m512i, __m512i) {
        // SAFETY: guaranteed by the caller.
        unsafe {
            let difference = _mm512_sub_epi64(_mm512_add_epi64(x, self.twice), y);
            (_mm512_add_epi64(x, y), self.mul_lazy(difference, w))
        }
    }

    #[inline(always)]
    unsafe fn mul_lazy(self, a: __m512i, w: Factor) -> __m512i {
        // SAFETY: guaranteed by the caller.
        unsafe {
            let h = mul_high(a, w.1);
            _mm512_sub_epi64(_mm512_mullo_epi64(a, w.0), _mm512_mullo_epi64(h, self.q))
        }
    }

    #[inline(always)]
    unsafe fn reduce(self, a: __m512i) -> __m512i {
        // SAFETY: guaranteed by the caller.
        unsafe { fold(a, self.twice) }
    }

    #[inline(always)]
    unsafe fn fold(self, a: __m512i) -> __m512i {
        // SAFETY: guaranteed by the caller.
        unsafe { fold(a, self.q) }
    }

    #[inline(always)]
    unsafe fn add(self, a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: guaranteed by the caller.
        unsafe { fold(_mm512_add_epi64(a, b), self.q) }
    }

    #[inline(always)]
    unsafe fn sub(self, a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: guaranteed by the caller.
        unsafe {
            let d = _mm512_sub_epi64(a, b);
            _mm512_min_epu64(d, _mm512_add_epi64(d, self.q))
        }
    }

    #[inline(always)]
    unsafe fn sub_lazy(self, a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: guaranteed by the caller.
        unsafe { _mm512_add_epi64(_mm512_sub_epi64(a, b), self.q) }
    }

    #[inline(always)]
    unsafe fn mul(self, a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: guaranteed by the caller.
        unsafe { self.reduce_sum(Self::accumulate(Self::empty_sum(), a, b)) }
    }
}

impl Sums for Wide {
    type Sum = Sum;

    const TERMS: usize = TERMS;
    const DOTS: usize = 1;

    #[inline(always)]
    unsafe fn empty_sum() -> Sum {
        // SAFETY: guaranteed by the caller.
        unsafe {
            let zero = _mm512_setzero_si512();
            Sum { p0: zero, p1: zero, p2: zero }
        }
    }

    #[inline(always)]
    unsafe fn accumulate(sum: Sum, a: __m512i, b: __m512i) -> Sum {
        // SAFETY: guaranteed by the caller.
        unsafe {
            let a1 = _mm512_srli_epi64::<52>(a);
            let b1 = _mm512_srli_epi64::<52>(b);
            let p0 = _mm512_madd52lo_epu64(sum.p0, a, b);
            let p1 = _mm512_madd52hi_epu64(sum.p1, a, b);
            let p1 = _mm512_madd52lo_epu64(p1, a, b1);
            let p1 = _mm512_madd52lo_epu64(p1, a1, b);
            let p2 = _mm512_madd52hi_epu64(sum.p2, a, b1);
            let p2 = _mm512_madd52hi_epu64(p2, a1, b);
            let p2 = _mm512_madd52lo_epu64(p2, a1, b1);
            Sum { p0, p1, p2 }
        }
    }

    /// The sum is below `15 * 2^124 < 2^128`.
    #[inline(always)]
    unsafe fn reduce_sum(self, sum: Sum) -> __m512i {
        // SAFETY: guaranteed by the caller.
        unsafe {
            let mask = splat((1 << 52) - 1);
            let p1 = _mm512_add_epi64(sum.p1, _mm512_srli_epi64::<52>(sum.p0));
            let p2 = _mm512_add_epi64(sum.p2, _mm512_srli_epi64::<52>(p1));
            let p1 = _mm512_and_si512(p1, mask);
            let low = _mm512_and_si512(sum.p0, mask);
            let low = _mm512_or_si512(low, _mm512_slli_epi64::<52>(p1));
            let high = _mm512_slli_epi64::<40>(p2);
            let high = _mm512_add_epi64(high, _mm512_srli_epi64::<12>(p1));
            let quotient = mul_high(low, self.one);
            let low = _mm512_sub_epi64(low, _mm512_mullo_epi64(quotient, self.q));
            let total = _mm512_add_epi64(self.mul_lazy(high, self.radix), low);
            fold(fold(total, self.twice), self.q)
        }
    }
}

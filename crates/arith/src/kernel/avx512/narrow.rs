//! IFMA arithmetic for `q < 2^50`.
//!
//! The instructions return a product as its low and high 52 bits. Adding to the accumulator of a
//! multiply-add is free. The multipliers read only 52 bits of their operands, so higher bits of
//! intermediate values are arbitrary.
//!
//! A butterfly adds `w y - (h + 1) q` to `x`, with `h` the Shoup estimate of the quotient: a value
//! in `[-q, q)`. A transform's values therefore drift by less than `q` per layer and are centred
//! once in `(LIMIT - 1) / 2` layers. Centring subtracts the multiple of `q` that
//! `k = floor(2^52 / q)` estimates and adds one modulus per layer. With `2^52 = (k + f) q` and
//! `k >= LIMIT`, less than `1 + f` moduli remain above these, and the layers need at most
//! `LIMIT + f` moduli.

use super::{Factor, splat, sums::Sums};
use crate::{
    Modulus, Shoup,
    kernel::{TERMS, vector::Lanes},
};
use core::arch::x86_64::*;

/// Arithmetic for `LIMIT * q <= 2^52`.
#[derive(Clone, Copy)]
pub(super) struct Narrow<const LIMIT: u32> {
    q: __m512i,
    /// `2^52 - q`.
    minus_q: __m512i,
    /// `floor(2^52 / q)`.
    one: __m512i,
    /// `(LIMIT - 1) / 2` times `q`.
    raise: __m512i,
    /// `LIMIT / 2 * q`.
    half: __m512i,
    /// `2^52 mod q`.
    radix: Factor,
    mask: __m512i,
    /// `q^-1 mod 2^52`.
    inverse: __m512i,
}

/// `low + 2^52 high`.
#[derive(Clone, Copy)]
pub(super) struct Sum {
    low: __m512i,
    high: __m512i,
}

impl<const LIMIT: u32> Lanes for Narrow<LIMIT> {
    type V = __m512i;

    const LIMIT: u32 = LIMIT;
    const LAYERS_CENTRED: u32 = (LIMIT - 1) / 2;
    // 32 registers hold sixteen values and their factors.
    const LOG_RADIX: u32 = 4;
    const LOG_COLUMN_RADIX: u32 = 4;
    const CONVERTS: bool = false;

    fn factor(_: &Modulus, w: Shoup) -> [u64; 2] {
        // The quotient for a radix of 2^52 is the upper part of the one for 2^64.
        [w.value, w.quotient >> 12]
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
                minus_q: splat((1 << 52) - q),
                one: splat(m.one().quotient >> 12),
                raise: splat(u64::from((LIMIT - 1) / 2) * q),
                half: splat(u64::from(LIMIT / 2) * q),
                radix: (splat(m.radix().value), splat(m.radix().quotient >> 12)),
                mask: splat((1 << 52) - 1),
                inverse: splat(m.inverse() & ((1 << 52) - 1)),
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
        unsafe {
            let h = _mm512_madd52hi_epu64(_mm512_setzero_si512(), a, self.one);
            _mm512_madd52lo_epu64(_mm512_add_epi64(a, self.raise), h, self.minus_q)
        }
    }

    #[inline(always)]
    unsafe fn enter(self, words: __m512i) -> __m512i {
        // SAFETY: guaranteed by the caller.
        unsafe { _mm512_add_epi64(words, self.raise) }
    }

    #[inline(always)]
    unsafe fn mul_centred(self, a: __m512i, w: Factor) -> __m512i {
        // SAFETY: guaranteed by the caller.
        unsafe {
            let h = _mm512_madd52hi_epu64(_mm512_setzero_si512(), a, w.1);
            _mm512_madd52lo_epu64(_mm512_madd52lo_epu64(self.raise, a, w.0), h, self.minus_q)
        }
    }

    #[inline(always)]
    unsafe fn forward(self, x: __m512i, y: __m512i, w: Factor) -> (__m512i, __m512i) {
        // SAFETY: guaranteed by the caller.
        unsafe {
            // Starts at 1, so that `w y - (h + 1) q` is in `[-q, q)` and drifts in both directions.
            let h = _mm512_madd52hi_epu64(splat(1), y, w.1);
            let sum = _mm512_madd52lo_epu64(_mm512_madd52lo_epu64(x, y, w.0), h, self.minus_q);
            // `x - t` from `x + t`, without computing `t` alone.
            (sum, _mm512_sub_epi64(_mm512_add_epi64(x, x), sum))
        }
    }

    #[inline(always)]
    unsafe fn inverse(self, x: __m512i, y: __m512i, w: Factor) -> (__m512i, __m512i) {
        // SAFETY: guaranteed by the caller.
        unsafe {
            // `y` is below `LIMIT / 2` moduli, so the difference stays positive.
            let difference = _mm512_add_epi64(_mm512_sub_epi64(x, y), self.half);
            (_mm512_add_epi64(x, y), self.mul_lazy(difference, w))
        }
    }

    #[inline(always)]
    unsafe fn mul_lazy(self, a: __m512i, w: Factor) -> __m512i {
        // SAFETY: guaranteed by the caller.
        unsafe {
            let zero = _mm512_setzero_si512();
            let h = _mm512_madd52hi_epu64(zero, a, w.1);
            _mm512_madd52lo_epu64(_mm512_madd52lo_epu64(zero, a, w.0), h, self.minus_q)
        }
    }

    #[inline(always)]
    unsafe fn reduce(self, a: __m512i) -> __m512i {
        // SAFETY: guaranteed by the caller.
        unsafe {
            let h = _mm512_madd52hi_epu64(_mm512_setzero_si512(), a, self.one);
            _mm512_madd52lo_epu64(a, h, self.minus_q)
        }
    }

    #[inline(always)]
    unsafe fn fold(self, a: __m512i) -> __m512i {
        // SAFETY: guaranteed by the caller.
        unsafe {
            // Bits above 52 are arbitrary here.
            let a = _mm512_and_si512(a, self.mask);
            _mm512_min_epu64(a, _mm512_sub_epi64(a, self.q))
        }
    }

    #[inline(always)]
    unsafe fn add(self, a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: guaranteed by the caller.
        unsafe {
            let sum = _mm512_add_epi64(a, b);
            _mm512_min_epu64(sum, _mm512_sub_epi64(sum, self.q))
        }
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

impl<const LIMIT: u32> Sums for Narrow<LIMIT> {
    type Sum = Sum;

    const TERMS: usize = TERMS;
    const DOTS: usize = 4;
    const WEIGHS: bool = true;

    /// `c 2^52 mod q`.
    fn weight(m: &Modulus, c: u64) -> u64 {
        m.mul(c, m.radix().value)
    }

    #[inline(always)]
    unsafe fn empty_sum() -> Sum {
        // SAFETY: guaranteed by the caller.
        unsafe { Sum { low: _mm512_setzero_si512(), high: _mm512_setzero_si512() } }
    }

    #[inline(always)]
    unsafe fn accumulate(sum: Sum, a: __m512i, b: __m512i) -> Sum {
        // SAFETY: guaranteed by the caller.
        unsafe {
            Sum {
                low: _mm512_madd52lo_epu64(sum.low, a, b),
                high: _mm512_madd52hi_epu64(sum.high, a, b),
            }
        }
    }

    /// The high part is below `15 * 2^48 + 30 < 2^52`: the factors of a product
    /// have at most 100 bits together. The two parts reduce to below `2q` each,
    /// together below `4q <= 2^52`.
    #[inline(always)]
    unsafe fn reduce_sum(self, sum: Sum) -> __m512i {
        // SAFETY: guaranteed by the caller.
        unsafe {
            let a = _mm512_add_epi64(sum.high, _mm512_srli_epi64::<52>(sum.low));
            let h = _mm512_madd52hi_epu64(_mm512_setzero_si512(), a, self.radix.1);
            let low = _mm512_madd52lo_epu64(self.reduce(sum.low), a, self.radix.0);
            let r = _mm512_and_si512(_mm512_madd52lo_epu64(low, h, self.minus_q), self.mask);
            let twice = _mm512_add_epi64(self.q, self.q);
            let r = _mm512_min_epu64(r, _mm512_sub_epi64(r, twice));
            _mm512_min_epu64(r, _mm512_sub_epi64(r, self.q))
        }
    }

    #[inline(always)]
    unsafe fn empty_weighted(self) -> Sum {
        // The modulus that keeps the result of Montgomery's reduction positive.
        // SAFETY: guaranteed by the caller.
        unsafe { Sum { low: _mm512_setzero_si512(), high: self.q } }
    }

    /// Montgomery's reduction. Let `s = low + 2^52 high` and `m = s q^-1 mod 2^52`, so that `m q`
    /// and `s` have the same low 52 bits. The result is `(s - m q) / 2^52 + q`, and `s < q total`
    /// for the sum `total` of the words.
    #[inline(always)]
    unsafe fn reduce_weighted<const LOG_WIDTH: u32, const LAZY: bool>(self, sum: Sum) -> __m512i {
        // SAFETY: guaranteed by the caller.
        unsafe {
            let zero = _mm512_setzero_si512();
            let high = _mm512_add_epi64(sum.high, _mm512_srli_epi64::<52>(sum.low));
            let m = _mm512_madd52lo_epu64(zero, sum.low, self.inverse);
            let mut r = _mm512_sub_epi64(high, _mm512_madd52hi_epu64(zero, m, self.q));
            // Without the step `k = 0` the result stays below `2 q`, which saves two instructions.
            for k in (u32::from(LAZY)..LOG_WIDTH).rev() {
                let multiple = _mm512_sll_epi64(self.q, _mm_cvtsi32_si128(k as i32));
                r = _mm512_min_epu64(r, _mm512_sub_epi64(r, multiple));
            }
            r
        }
    }
}

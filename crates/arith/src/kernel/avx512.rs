//! Kernels for AVX-512, on vectors of eight words.
//!
//! With IFMA, [`narrow`] is the arithmetic for `q < 2^50` with the 52-bit multiply-add, and [`wide`]
//! the arithmetic for larger `q` with 64-bit products. Without IFMA, [`double`] is the arithmetic
//! for `q < 2^50`.

pub(super) mod double;
mod narrow;
pub(super) mod rows;
pub(super) mod stream;
mod sums;
mod wide;

use super::{
    KernelTable, Rows,
    vector::{Lanes, Strided, Vector, entry_points, transform},
};
use crate::{ConstantDot, Modulus, NttTable, Shoup};
use core::arch::x86_64::*;
use narrow::Narrow;
use sums::Sums;
use wide::Wide;

/// The table for `q` on a CPU with IFMA.
pub(super) fn table(q: u64) -> &'static KernelTable {
    // A smaller modulus leaves room for more moduli in 52 bits, so transforms centre values less
    // often.
    static BELOW_47: KernelTable = narrow::<32>("avx512ifma-47");
    static BELOW_48: KernelTable = narrow::<16>("avx512ifma-48");
    static BELOW_49: KernelTable = narrow::<8>("avx512ifma-49");
    static BELOW_49_6: KernelTable = narrow::<5>("avx512ifma-49.6");
    static BELOW_50: KernelTable = narrow::<4>("avx512ifma-50");
    static BELOW_62: KernelTable = kernels::<Wide>("avx512-62");
    const fn narrow<const LIMIT: u32>(name: &'static str) -> KernelTable {
        KernelTable { radix_bits: 52, wide: Some(&BELOW_62), ..kernels::<Narrow<LIMIT>>(name) }
    }
    match u64::BITS - q.leading_zeros() {
        ..=47 => &BELOW_47,
        48 => &BELOW_48,
        49 => &BELOW_49,
        // Five moduli fit 52 bits only up to here.
        50 if q <= (1 << 52) / 5 => &BELOW_49_6,
        50 => &BELOW_50,
        _ => &BELOW_62,
    }
}

const fn kernels<L: Sums<V = __m512i>>(name: &'static str) -> KernelTable {
    KernelTable {
        name,
        radix_bits: 64,
        wide: None,
        add: add::<L>,
        sub: sub::<L>,
        mul_add: mul_add::<L>,
        mul_sum: mul_sum::<L>,
        mul_sum_packed: rows::mul_sum_packed::<L>,
        pack: rows::pack,
        unpack: rows::unpack,
        weight: L::weight,
        dot: dot::<L>,
        scale: scale::<L>,
        scale_add: scale_add::<L>,
        sub_scale: sub_scale::<L>,
        add_constant: add_constant::<L>,
        lift: rows::lift,
        round_sum: rows::round_sum,
        ntt_forward: forward::<L>,
        ntt_forward_groups: forward_groups::<L>,
        // `Lanes::enter` takes lazy sums too.
        ntt_forward_sums: forward_groups::<L>,
        ntt_forward_block: forward_block::<L>,
        ntt_inverse: inverse::<L>,
        ntt_inverse_block: inverse_block::<L>,
        ntt_inverse_groups: inverse_groups::<L>,
        min_log_n: transform::MIN_LOG_N,
        twiddles: transform::twiddles::<L>,
    }
}

entry_points!("avx512f,avx512dq,avx512vl,avx512ifma");
entry_points! {
    "avx512f,avx512dq,avx512vl,avx512ifma", sums, Sums;
    mul_sum(m: &Modulus, out: *mut u64, a: &[*const u64], b: &[*const u64], len: usize);
    dot(weights: &[&ConstantDot], out: &[*mut u64], a: Rows<'_>, lazy: bool, len: usize);
}

/// Words of a vector.
const LANES: usize = 8;

/// A factor's value and its quotient, in vectors.
type Factor = (__m512i, __m512i);

/// # Safety
/// `p` points to eight readable words. The CPU has AVX-512.
#[inline(always)]
unsafe fn load(p: *const u64) -> __m512i {
    // SAFETY: guaranteed by the caller.
    unsafe { _mm512_loadu_si512(p.cast()) }
}

/// # Safety
/// `p` points to eight writable words. The CPU has AVX-512.
#[inline(always)]
unsafe fn store(p: *mut u64, v: __m512i) {
    // SAFETY: guaranteed by the caller.
    unsafe { _mm512_storeu_si512(p.cast(), v) }
}

/// # Safety
/// The CPU has AVX-512.
#[inline(always)]
unsafe fn splat(x: u64) -> __m512i {
    // SAFETY: guaranteed by the caller.
    unsafe { _mm512_set1_epi64(x as i64) }
}

impl Vector for __m512i {
    const LANES: usize = LANES;

    #[inline(always)]
    unsafe fn splat(word: u64) -> Self {
        // SAFETY: guaranteed by the caller.
        unsafe { splat(word) }
    }

    #[inline(always)]
    unsafe fn load(p: *const u64) -> Self {
        // SAFETY: guaranteed by the caller.
        unsafe { load(p) }
    }

    #[inline(always)]
    unsafe fn store(self, p: *mut u64) {
        // SAFETY: guaranteed by the caller.
        unsafe { store(p, self) }
    }

    #[inline(always)]
    unsafe fn transpose(from: Strided, to: Strided) {
        // SAFETY: guaranteed by the caller.
        unsafe {
            // Load halves of lines two apart together: loads do not occupy the only port that
            // shuffles.
            let half = |line: usize, k: usize| {
                _mm256_loadu_si256(from.start.add(line * from.stride + 4 * k).cast())
            };
            let joined = |line: usize, k: usize| {
                let low = _mm512_castsi256_si512(half(line, k));
                _mm512_inserti64x4::<1>(low, half(line + 2, k))
            };
            for k in 0..2 {
                let a = joined(0, k);
                let b = joined(1, k);
                let c = joined(4, k);
                let d = joined(5, k);
                let even = (_mm512_unpacklo_epi64(a, b), _mm512_unpacklo_epi64(c, d));
                let odd = (_mm512_unpackhi_epi64(a, b), _mm512_unpackhi_epi64(c, d));
                _mm512_shuffle_i64x2::<0x88>(even.0, even.1).store(to.row(4 * k));
                _mm512_shuffle_i64x2::<0x88>(odd.0, odd.1).store(to.row(4 * k + 1));
                _mm512_shuffle_i64x2::<0xdd>(even.0, even.1).store(to.row(4 * k + 2));
                _mm512_shuffle_i64x2::<0xdd>(odd.0, odd.1).store(to.row(4 * k + 3));
            }
        }
    }
}

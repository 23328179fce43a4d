//! Row kernels that need instructions of AVX-512: packed words, signed bytes and sums of
//! fractions.

use super::{
    LANES, load, splat, store,
    sums::{Residues, Sums, alone, write_sums},
};
use crate::{
    Modulus,
    fraction::{Fraction, UNDECIDED},
    kernel::{
        Repeated, SCALAR,
        vector::{
            AHEAD_BYTES, prefetch,
            rows::{ABREAST, advance, full},
        },
    },
};
use core::arch::x86_64::*;

/// Converts eight words between a vector and their packed form.
#[derive(Clone, Copy)]
struct Packing {
    /// Bytes of a packed word; eight words end at eight times this.
    width: usize,
    /// Source of each byte of a vector in the packed form.
    spread: __m512i,
    /// Bytes of a vector that the packed form contains.
    kept: __mmask64,
    /// Source of each packed byte in a vector.
    gather: __m512i,
    /// Mask of the eight-byte groups of eight packed words.
    whole: __mmask8,
}

impl Packing {
    /// # Safety
    /// The CPU has AVX-512.
    #[inline(always)]
    unsafe fn new(m: &Modulus) -> Self {
        let width = m.packed_bytes();
        let spread: [u8; 64] = core::array::from_fn(|k| (k / 8 * width + k % 8) as u8);
        let gather: [u8; 64] = core::array::from_fn(|k| (k / width * 8 + k % width) as u8);
        Self {
            width,
            // SAFETY: guaranteed by the caller; the arrays have as many bytes as a vector.
            spread: unsafe { _mm512_loadu_si512(spread.as_ptr().cast()) },
            kept: (0xff >> (8 - width)) * 0x0101_0101_0101_0101,
            // SAFETY: as above.
            gather: unsafe { _mm512_loadu_si512(gather.as_ptr().cast()) },
            whole: 0xff >> (8 - width),
        }
    }

    /// # Safety
    /// There are eight packed words at `p`. The CPU has AVX-512 and VBMI.
    #[inline(always)]
    unsafe fn load(self, p: *const u8) -> __m512i {
        // SAFETY: guaranteed by the caller; bytes beyond the packed words are not read, and a
        // prefetch is allowed at any address.
        unsafe {
            prefetch::<1>(p.wrapping_add(AHEAD_BYTES));
            // Eight words of `width` bytes are `width` groups of eight bytes, so this mask is
            // exact.
            let bytes = _mm512_maskz_loadu_epi64(self.whole, p.cast());
            _mm512_maskz_permutexvar_epi8(self.kept, self.spread, bytes)
        }
    }

    /// # Safety
    /// There is room for eight packed words at `p`. The CPU has AVX-512 and VBMI.
    #[inline(always)]
    unsafe fn store(self, p: *mut u8, words: __m512i) {
        // SAFETY: guaranteed by the caller; bytes beyond the packed words are not written.
        unsafe {
            let bytes = _mm512_permutexvar_epi8(self.gather, words);
            _mm512_mask_storeu_epi64(p.cast(), self.whole, bytes);
        }
    }
}

#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma,avx512vbmi")]
pub(super) unsafe fn mul_sum_packed<L: Sums<V = __m512i>>(
    m: &Modulus,
    out: &[*mut u64],
    a: &[&[*const u64]],
    b: Repeated<'_>,
    len: usize,
) {
    // Both polynomials of a ciphertext meet the same weights, which are read and unpacked once
    // (performance log, packed rows).
    for (out, a) in out.chunks(2).zip(a.chunks(2)) {
        // SAFETY: the table's contract.
        unsafe {
            match (out, a) {
                (&[first, second], &[a0, a1]) => {
                    mul_sums_packed::<L, 2>(m, [first, second], [a0, a1], b, len);
                }
                (&[out], &[a]) => mul_sums_packed::<L, 1>(m, [out], [a], b, len),
                _ => {}
            }
        }
    }
}

/// Unpacks each word once for all sums.
#[inline(always)]
unsafe fn mul_sums_packed<L: Sums<V = __m512i>, const SUMS: usize>(
    m: &Modulus,
    out: [*mut u64; SUMS],
    a: [&[*const u64]; SUMS],
    b: Repeated<'_>,
    len: usize,
) {
    let end = full::<__m512i>(len);
    // SAFETY: the table's contract.
    unsafe {
        let lanes = L::new(m);
        let packing = Packing::new(m);
        let terms = b.rows.len();
        let weight = |t: usize, i: usize| {
            packing.load(b.rows.get_unchecked(t).add(b.place(i) * packing.width))
        };
        let pairs = |b, t: usize, i: usize| a.map(|a| (load(a.get_unchecked(t).add(i)), b));
        let lanes = [lanes; SUMS];
        if ABREAST >> b.log_repeats <= 1 {
            // All vectors that are summed side by side meet the same words.
            write_sums::<L, Residues, _, SUMS, ABREAST>(lanes, out, terms, weight, pairs, end);
        } else {
            let factors = |(), t, i| pairs(weight(t, i), t, i);
            write_sums::<L, Residues, _, SUMS, ABREAST>(lanes, out, terms, alone, factors, end);
        }
        if end < len {
            let rows = advance(b.rows, b.place(end) * packing.width);
            let b = Repeated { rows: &rows[..], ..b };
            for (out, a) in out.into_iter().zip(a) {
                let a = advance(a, end);
                (SCALAR.mul_sum_packed)(m, &[out.add(end)], &[&a], b, len - end);
            }
        }
    }
}

#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma,avx512vbmi")]
pub(super) unsafe fn pack(m: &Modulus, out: *mut u8, a: *const u64, len: usize) {
    let end = full::<__m512i>(len);
    // SAFETY: the table's contract.
    unsafe {
        let packing = Packing::new(m);
        for i in (0..end).step_by(LANES) {
            packing.store(out.add(i * packing.width), load(a.add(i)));
        }
        (SCALAR.pack)(m, out.add(end * packing.width), a.add(end), len - end);
    }
}

#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma,avx512vbmi")]
pub(super) unsafe fn unpack(m: &Modulus, out: *mut u64, a: *const u8, len: usize) -> bool {
    let end = full::<__m512i>(len);
    // SAFETY: the table's contract.
    unsafe {
        let packing = Packing::new(m);
        let q = splat(m.value());
        let mut above = 0;
        for i in (0..end).step_by(LANES) {
            let words = packing.load(a.add(i * packing.width));
            above |= _mm512_cmpge_epu64_mask(words, q);
            store(out.add(i), words);
        }
        (SCALAR.unpack)(m, out.add(end), a.add(end * packing.width), len - end) && above == 0
    }
}

/// Processes the full vectors of [`kernel::pick`](crate::kernel::pick) and returns their number of
/// words.
///
/// # Safety
/// See [`kernel::pick`](crate::kernel::pick). The CPU has AVX-512.
#[target_feature(enable = "avx512f,avx512vl")]
pub(in crate::kernel) unsafe fn pick(out: &mut [u64], a: &[u64], source: &[u16]) -> usize {
    let end = full::<__m512i>(out.len());
    for i in (0..end).step_by(LANES) {
        // SAFETY: guaranteed by the caller.
        unsafe {
            let from = _mm_loadu_si128(source.as_ptr().add(i).cast());
            let from = _mm256_cvtepu16_epi32(from);
            let words = _mm512_i32gather_epi64::<8>(from, a.as_ptr().cast());
            store(out.as_mut_ptr().add(i), words);
        }
    }
    end
}

#[target_feature(enable = "avx512f,avx512dq,avx512vl")]
pub(super) unsafe fn lift(m: &Modulus, out: *mut u64, a: *const i8, len: usize) {
    let end = full::<__m512i>(len);
    // SAFETY: the table's contract.
    unsafe {
        let q = splat(m.value());
        for i in (0..end).step_by(LANES) {
            let v = _mm512_cvtepi8_epi64(_mm_loadl_epi64(a.add(i).cast()));
            store(out.add(i), _mm512_min_epu64(v, _mm512_add_epi64(v, q)));
        }
        (SCALAR.lift)(m, out.add(end), a.add(end), len - end);
    }
}

/// Rounds in units of `2^-51`. Each term is underestimated by less than three units: one each for
/// the low bits of `y`, of the reciprocal and of the product.
#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma")]
pub(super) unsafe fn round_sum(
    fractions: &[Fraction],
    y: &[*const u64],
    out: *mut u64,
    len: usize,
) -> bool {
    const BITS: u32 = 51;
    let end = full::<__m512i>(len);
    // SAFETY: the table's contract.
    unsafe {
        // The multiplier reads 52 bits: the upper ones of 62. It ignores the bits that rotate to
        // the top.
        let place = |f: &Fraction| splat((u64::from(f.shift) + 54) % 64);
        let slack = splat(3 * fractions.len() as u64);
        let undecided = splat(UNDECIDED);
        let mut any = 0;
        for x in (0..end).step_by(LANES) {
            let mut sum = splat(1 << (BITS - 1));
            for (f, row) in fractions.iter().zip(y) {
                let y = _mm512_rolv_epi64(load(row.add(x)), place(f));
                // `r'` of docs/notes/base-conversion.md: 52 of the 60 bits.
                sum = _mm512_madd52hi_epu64(sum, y, splat(f.reciprocal >> 8));
            }
            let v = _mm512_srli_epi64::<BITS>(sum);
            let upper = _mm512_srli_epi64::<BITS>(_mm512_add_epi64(sum, slack));
            let unsure = _mm512_cmpneq_epu64_mask(v, upper);
            any |= unsure;
            store(out.add(x), _mm512_mask_mov_epi64(v, unsure, undecided));
        }
        let rest = advance(y, end);
        (SCALAR.round_sum)(fractions, &rest, out.add(end), len - end) && any == 0
    }
}

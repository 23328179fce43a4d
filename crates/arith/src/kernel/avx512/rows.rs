//! Row kernels on any [`Lanes`]. What is left of a row after its last full
//! vector goes to the scalar kernels.

use super::{Factor, LANES, Lanes, load, splat, store, transform};
use crate::{
    Modulus, Shoup,
    fraction::{Fraction, UNDECIDED},
    kernel::{KernelTable, SCALAR, TERMS},
};
use core::arch::x86_64::*;

pub(super) const fn table<L: Lanes>(name: &'static str) -> KernelTable {
    KernelTable {
        name,
        radix_bits: L::RADIX_BITS,
        add: add::<L>,
        sub: sub::<L>,
        mul_sum: mul_sum::<L>,
        mul_sum_packed: mul_sum_packed::<L>,
        pack,
        unpack,
        dot: dot::<L>,
        scale: scale::<L>,
        scale_add: scale_add::<L>,
        sub_scale: sub_scale::<L>,
        add_constant: add_constant::<L>,
        lift,
        round_sum,
        ntt_forward: transform::forward::<L>,
        ntt_inverse: transform::inverse::<L>,
        min_log_n: transform::MIN_LOG_N,
        twiddles: transform::twiddles::<L>,
    }
}

/// Words in full vectors.
fn full(len: usize) -> usize {
    len / LANES * LANES
}

#[inline(always)]
unsafe fn factor(w: Shoup) -> Factor {
    // SAFETY: the caller's.
    unsafe { (splat(w.value), splat(w.quotient)) }
}

/// The same factor with the radix of the scalar kernels.
fn scalar_factor(m: &Modulus, w: Shoup) -> Shoup {
    Shoup { value: w.value, quotient: m.quotient(w.value) }
}

fn advance<T>(rows: &[*const T], by: usize) -> Vec<*const T> {
    rows.iter().map(|p| p.wrapping_add(by)).collect()
}

#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma")]
unsafe fn add<L: Lanes>(m: &Modulus, out: *mut u64, a: *const u64, b: *const u64, len: usize) {
    let end = full(len);
    // SAFETY: the table's contract.
    unsafe {
        let lanes = L::new(m);
        for i in (0..end).step_by(LANES) {
            store(out.add(i), lanes.add(load(a.add(i)), load(b.add(i))));
        }
        (SCALAR.add)(m, out.add(end), a.add(end), b.add(end), len - end);
    }
}

#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma")]
unsafe fn sub<L: Lanes>(m: &Modulus, out: *mut u64, a: *const u64, b: *const u64, len: usize) {
    let end = full(len);
    // SAFETY: the table's contract.
    unsafe {
        let lanes = L::new(m);
        for i in (0..end).step_by(LANES) {
            store(out.add(i), lanes.sub(load(a.add(i)), load(b.add(i))));
        }
        (SCALAR.sub)(m, out.add(end), a.add(end), b.add(end), len - end);
    }
}

/// Vectors of a sum of products that are computed side by side: a sum alone would wait for
/// its own last product.
const ABREAST: usize = 4;

/// `sum_t a(t, v) * b(t, v)` over `terms` vectors for each `v`, canonical.
#[inline(always)]
unsafe fn sums_of_products<L: Lanes, const V: usize>(
    lanes: L,
    terms: usize,
    a: impl Fn(usize, usize) -> __m512i,
    b: impl Fn(usize, usize) -> __m512i,
) -> [__m512i; V] {
    // SAFETY: the caller's.
    unsafe {
        let mut totals = [_mm512_setzero_si512(); V];
        let mut start = 0;
        while start < terms {
            let end = terms.min(start + TERMS);
            let mut sums = [L::empty_sum(); V];
            for t in start..end {
                for (v, sum) in sums.iter_mut().enumerate() {
                    *sum = L::accumulate(*sum, a(t, v), b(t, v));
                }
            }
            for (total, sum) in totals.iter_mut().zip(sums) {
                let part = lanes.reduce_sum(sum);
                *total = if start == 0 { part } else { lanes.add(*total, part) };
            }
            start = end;
        }
        totals
    }
}

/// Writes sums of `terms` products of the vectors that `a` and `b` have at each place.
#[inline(always)]
unsafe fn write_sums<L: Lanes>(
    lanes: L,
    out: *mut u64,
    terms: usize,
    a: impl Fn(usize, usize) -> __m512i,
    b: impl Fn(usize, usize) -> __m512i,
    end: usize,
) {
    let mut i = 0;
    // SAFETY: the caller's.
    unsafe {
        while i < end {
            let at = |v: usize| i + v * LANES;
            if i + ABREAST * LANES <= end {
                let sums = sums_of_products::<L, ABREAST>(
                    lanes,
                    terms,
                    |t, v| a(t, at(v)),
                    |t, v| b(t, at(v)),
                );
                for (v, sum) in sums.into_iter().enumerate() {
                    store(out.add(at(v)), sum);
                }
                i += ABREAST * LANES;
            } else {
                let [sum] = sums_of_products::<L, 1>(lanes, terms, |t, _| a(t, i), |t, _| b(t, i));
                store(out.add(i), sum);
                i += LANES;
            }
        }
    }
}

#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma")]
unsafe fn mul_sum<L: Lanes>(
    m: &Modulus,
    out: *mut u64,
    a: &[*const u64],
    b: &[*const u64],
    len: usize,
) {
    let end = full(len);
    // SAFETY: the table's contract.
    unsafe {
        let lanes = L::new(m);
        let at = |rows: &[*const u64], t: usize, i: usize| load(rows.get_unchecked(t).add(i));
        write_sums(lanes, out, a.len(), |t, i| at(a, t, i), |t, i| at(b, t, i), end);
        if end < len {
            (SCALAR.mul_sum)(m, out.add(end), &advance(a, end), &advance(b, end), len - end);
        }
    }
}

/// How far ahead packed rows are asked for. Sums of products read several of them, which
/// come from memory, a tile at a time.
const AHEAD_BYTES: usize = 1 << 10;

/// Moves eight words between a vector and the bytes of their packed form.
#[derive(Clone, Copy)]
struct Packing {
    /// The eightfold of them is where the packed form ends.
    width: usize,
    /// Where each byte of a vector is in the packed form.
    spread: __m512i,
    /// Bytes of a vector that are there.
    kept: __mmask64,
    /// Where each packed byte is in a vector.
    gather: __m512i,
    /// Eight packed words, eight bytes at a time.
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
            // SAFETY: the caller's; the arrays have the bytes of a vector.
            spread: unsafe { _mm512_loadu_si512(spread.as_ptr().cast()) },
            kept: (0xff >> (8 - width)) * 0x0101_0101_0101_0101,
            // SAFETY: as above.
            gather: unsafe { _mm512_loadu_si512(gather.as_ptr().cast()) },
            whole: 0xff >> (8 - width),
        }
    }

    /// # Safety
    /// There are eight packed words at `p`; the CPU has AVX-512 and VBMI.
    #[inline(always)]
    unsafe fn load(self, p: *const u8) -> __m512i {
        // SAFETY: the caller's; bytes beyond the packed words are not read, and asking for
        // them is allowed at any address.
        unsafe {
            _mm_prefetch::<_MM_HINT_T0>(p.wrapping_add(AHEAD_BYTES).cast());
            let bytes = _mm512_maskz_loadu_epi64(self.whole, p.cast());
            _mm512_maskz_permutexvar_epi8(self.kept, self.spread, bytes)
        }
    }

    /// # Safety
    /// There is room for eight packed words at `p`; the CPU has AVX-512 and VBMI.
    #[inline(always)]
    unsafe fn store(self, p: *mut u8, words: __m512i) {
        // SAFETY: the caller's; bytes beyond the packed words are not written.
        unsafe {
            let bytes = _mm512_permutexvar_epi8(self.gather, words);
            _mm512_mask_storeu_epi64(p.cast(), self.whole, bytes);
        }
    }
}

#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma,avx512vbmi")]
unsafe fn mul_sum_packed<L: Lanes>(
    m: &Modulus,
    out: *mut u64,
    a: &[*const u64],
    b: &[*const u8],
    len: usize,
) {
    let end = full(len);
    // SAFETY: the table's contract.
    unsafe {
        let (lanes, packing) = (L::new(m), Packing::new(m));
        let word = |t: usize, i: usize| load(a.get_unchecked(t).add(i));
        let packed = |t: usize, i: usize| packing.load(b.get_unchecked(t).add(i * packing.width));
        write_sums(lanes, out, a.len(), word, packed, end);
        if end < len {
            let b = advance(b, end * packing.width);
            (SCALAR.mul_sum_packed)(m, out.add(end), &advance(a, end), &b, len - end);
        }
    }
}

#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma,avx512vbmi")]
unsafe fn pack(m: &Modulus, out: *mut u8, a: *const u64, len: usize) {
    let end = full(len);
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
unsafe fn unpack(m: &Modulus, out: *mut u64, a: *const u8, len: usize) -> bool {
    let end = full(len);
    // SAFETY: the table's contract.
    unsafe {
        let (packing, q) = (Packing::new(m), splat(m.value()));
        let mut above = 0;
        for i in (0..end).step_by(LANES) {
            let words = packing.load(a.add(i * packing.width));
            above |= _mm512_cmpge_epu64_mask(words, q);
            store(out.add(i), words);
        }
        (SCALAR.unpack)(m, out.add(end), a.add(end * packing.width), len - end) && above == 0
    }
}

#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma")]
unsafe fn dot<L: Lanes>(m: &Modulus, out: *mut u64, a: &[*const u64], c: &[u64], len: usize) {
    let end = full(len);
    // SAFETY: the table's contract.
    unsafe {
        let lanes = L::new(m);
        let at = |t: usize, i: usize| load(a.get_unchecked(t).add(i));
        write_sums(lanes, out, a.len(), at, |t, _| splat(*c.get_unchecked(t)), end);
        if end < len {
            (SCALAR.dot)(m, out.add(end), &advance(a, end), c, len - end);
        }
    }
}

#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma")]
unsafe fn scale<L: Lanes>(m: &Modulus, out: *mut u64, a: *const u64, w: Shoup, len: usize) {
    let end = full(len);
    // SAFETY: the table's contract.
    unsafe {
        let (lanes, v) = (L::new(m), factor(w));
        for i in (0..end).step_by(LANES) {
            store(out.add(i), lanes.fold(lanes.mul_lazy(load(a.add(i)), v)));
        }
        (SCALAR.scale)(m, out.add(end), a.add(end), scalar_factor(m, w), len - end);
    }
}

#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma")]
unsafe fn scale_add<L: Lanes>(m: &Modulus, out: *mut u64, a: *const u64, w: Shoup, len: usize) {
    let end = full(len);
    // SAFETY: the table's contract.
    unsafe {
        let (lanes, v) = (L::new(m), factor(w));
        for i in (0..end).step_by(LANES) {
            let product = lanes.fold(lanes.mul_lazy(load(a.add(i)), v));
            store(out.add(i), lanes.add(load(out.add(i)), product));
        }
        (SCALAR.scale_add)(m, out.add(end), a.add(end), scalar_factor(m, w), len - end);
    }
}

#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma")]
unsafe fn sub_scale<L: Lanes>(
    m: &Modulus,
    out: *mut u64,
    a: *const u64,
    b: *const u64,
    w: Shoup,
    len: usize,
) {
    let end = full(len);
    // SAFETY: the table's contract.
    unsafe {
        let (lanes, v) = (L::new(m), factor(w));
        for i in (0..end).step_by(LANES) {
            let difference = lanes.sub_lazy(load(a.add(i)), load(b.add(i)));
            store(out.add(i), lanes.fold(lanes.mul_lazy(difference, v)));
        }
        let w = scalar_factor(m, w);
        (SCALAR.sub_scale)(m, out.add(end), a.add(end), b.add(end), w, len - end);
    }
}

#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma")]
unsafe fn add_constant<L: Lanes>(m: &Modulus, out: *mut u64, c: u64, len: usize) {
    let end = full(len);
    // SAFETY: the table's contract.
    unsafe {
        let (lanes, c_lanes) = (L::new(m), splat(c));
        for i in (0..end).step_by(LANES) {
            store(out.add(i), lanes.add(load(out.add(i)), c_lanes));
        }
        (SCALAR.add_constant)(m, out.add(end), c, len - end);
    }
}

#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma")]
unsafe fn lift(m: &Modulus, out: *mut u64, a: *const i8, len: usize) {
    let end = full(len);
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

/// In units of `2^-51`: each term is underestimated by less than three of them,
/// one each for the low bits of `y`, of the reciprocal and of the product.
#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma")]
unsafe fn round_sum(fractions: &[Fraction], y: &[*const u64], out: *mut u64, len: usize) -> bool {
    const BITS: u32 = 51;
    let end = full(len);
    // SAFETY: the table's contract.
    unsafe {
        let slack = splat(3 * fractions.len() as u64);
        let undecided = splat(UNDECIDED);
        let mut any = 0;
        for x in (0..end).step_by(LANES) {
            let mut sum = splat(1 << (BITS - 1));
            for (f, row) in fractions.iter().zip(y) {
                let y = _mm512_sllv_epi64(load(row.add(x)), splat(f.shift.into()));
                let y = _mm512_srli_epi64::<10>(y);
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

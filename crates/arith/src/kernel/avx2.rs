//! Kernels for AVX2 with FMA and `q < 2^50`, on vectors of four words.
//!
//! There is no multiplication of words beyond 32 bits, but the one of doubles has 53: with
//! fused multiply-adds a product comes exactly, as its rounding and what that leaves. A
//! residue inside a transform is a double, an integer around zero. Its product with a factor
//! `w` is reduced by `c q`, with `c` the integer next to its product with the rounded `w / q`,
//! as in [HLQ16](https://arxiv.org/abs/1407.3383) but for that quotient being made in advance.
//! For `|a| <= 2^52` and `|w| < q / 2` its rounding shifts `c` by at most `2^52 2^-55`, so that
//! reduced products are at most `5/8 q`, and all differences on the way below `2^53`.

use super::{
    AHEAD_BYTES, KernelTable, Rows, SCALAR,
    vector::{
        Factor, Lanes, Strided, Vector, entry_points,
        rows::{ABREAST, Residues, advance, full, write_sums},
        transform,
    },
};
use crate::{
    ConstantDot, Modulus, NttTable, Shoup,
    fraction::{Fraction, UNDECIDED},
};
use core::arch::x86_64::*;

pub(super) static BELOW_50: KernelTable = KernelTable {
    name: "avx2-50",
    wide: Some(&SCALAR),
    add: add::<Double>,
    sub: sub::<Double>,
    mul_add: mul_add::<Double>,
    mul_sum: mul_sum::<Double>,
    mul_sum_packed,
    dot: dot::<Double>,
    scale: scale::<Double>,
    scale_add: scale_add::<Double>,
    sub_scale: sub_scale::<Double>,
    add_constant: add_constant::<Double>,
    round_sum,
    ntt_forward: forward::<Double>,
    ntt_forward_groups: forward_groups::<Double>,
    ntt_forward_block: forward_block::<Double>,
    ntt_inverse: inverse::<Double>,
    ntt_inverse_block: inverse_block::<Double>,
    ntt_inverse_groups: inverse_groups::<Double>,
    min_log_n: transform::MIN_LOG_N,
    twiddles: transform::twiddles::<Double>,
    ..SCALAR
};

entry_points!("avx2,fma");

impl Vector for __m256i {
    const LANES: usize = 4;

    #[inline(always)]
    unsafe fn splat(word: u64) -> Self {
        // SAFETY: the caller's.
        unsafe { _mm256_set1_epi64x(word as i64) }
    }

    #[inline(always)]
    unsafe fn load(p: *const u64) -> Self {
        // SAFETY: the caller's.
        unsafe { _mm256_loadu_si256(p.cast()) }
    }

    #[inline(always)]
    unsafe fn store(self, p: *mut u64) {
        // SAFETY: the caller's.
        unsafe { _mm256_storeu_si256(p.cast(), self) }
    }

    #[inline(always)]
    unsafe fn transpose(from: Strided, to: Strided) {
        for (i, j) in [(0, 0), (4, 0), (0, 4), (4, 4)] {
            // SAFETY: the caller's.
            unsafe {
                // Halves of rows two apart, joined as they are loaded.
                let joined = |row: usize, column: usize| {
                    let half = |row: usize| from.row(row).add(column).cast_const().cast();
                    pair(half(i + row), half(i + row + 2))
                };
                for column in [j, j + 2] {
                    let (even, odd) = (joined(0, column), joined(1, column));
                    _mm256_unpacklo_epi64(even, odd).store(to.row(column).add(i));
                    _mm256_unpackhi_epi64(even, odd).store(to.row(column + 1).add(i));
                }
            }
        }
    }
}

/// The 16 bytes at each of two places.
///
/// # Safety
/// They are readable; the CPU has AVX2.
#[inline(always)]
unsafe fn pair(low: *const __m128i, high: *const __m128i) -> __m256i {
    // SAFETY: the caller's.
    unsafe {
        let low = _mm256_castsi128_si256(_mm_loadu_si128(low));
        _mm256_inserti128_si256::<1>(low, _mm_loadu_si128(high))
    }
}

/// Arithmetic for `q < 2^50`. Values are doubles of width 8 at most.
#[derive(Clone, Copy)]
struct Double {
    q: __m256d,
    /// `1 / q`.
    inverse: __m256d,
    q_words: __m256i,
}

/// Sums of products in two parts: the upper one has an exponent that no sum changes, so that
/// the difference of two is what a product rounds to.
#[derive(Clone, Copy)]
struct Sum {
    /// `2^103` and a multiple of `2^51`.
    high: __m256d,
    low: __m256d,
}

const SUM_START: f64 = (1u128 << 103) as f64;
/// Added to an integer below it, leaves that in the low bits.
const INTEGER: f64 = (1u64 << 52) as f64;
/// Rounds to an integer when added to a number below `2^51` and subtracted.
const ROUND: f64 = 1.5 * INTEGER;

#[inline(always)]
unsafe fn double(x: f64) -> __m256d {
    // SAFETY: the caller's.
    unsafe { _mm256_set1_pd(x) }
}

impl Double {
    /// `a` less `c q` for the integer `c` nearest to `estimate`, where that is exact.
    #[inline(always)]
    unsafe fn remainder(self, a: __m256d, estimate: __m256d) -> __m256d {
        // SAFETY: the caller's.
        unsafe {
            let c = _mm256_round_pd::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(estimate);
            _mm256_fnmadd_pd(c, self.q, a)
        }
    }

    /// As [`Double::remainder`], for an estimate `a b` below `2^51`.
    #[inline(always)]
    unsafe fn less_multiple(self, whole: __m256d, a: __m256d, b: __m256d) -> __m256d {
        // SAFETY: the caller's.
        unsafe {
            let c = _mm256_sub_pd(_mm256_fmadd_pd(a, b, double(ROUND)), double(ROUND));
            _mm256_fnmadd_pd(c, self.q, whole)
        }
    }

    /// `a w`, at most `5/8 q`.
    #[inline(always)]
    unsafe fn product(self, a: __m256i, w: Factor<Self>) -> __m256d {
        // SAFETY: the caller's.
        unsafe {
            let [a, w, quotient] = [a, w.0, w.1].map(|v| _mm256_castsi256_pd(v));
            let high = _mm256_mul_pd(a, w);
            let low = _mm256_fmsub_pd(a, w, high);
            _mm256_add_pd(self.less_multiple(high, a, quotient), low)
        }
    }

    /// Adds `q` to words that are negative.
    #[inline(always)]
    unsafe fn raise(self, a: __m256i) -> __m256i {
        // SAFETY: the caller's.
        unsafe {
            let negative = _mm256_cmpgt_epi64(_mm256_setzero_si256(), a);
            _mm256_add_epi64(a, _mm256_and_si256(negative, self.q_words))
        }
    }
}

/// The words of doubles that are integers in `[0, 2^52)`.
#[inline(always)]
unsafe fn words(a: __m256d) -> __m256i {
    // SAFETY: the caller's.
    unsafe {
        let offset = double(INTEGER);
        _mm256_castpd_si256(_mm256_xor_pd(_mm256_add_pd(a, offset), offset))
    }
}

impl Lanes for Double {
    type V = __m256i;
    type Sum = Sum;

    const LIMIT: u32 = 8;
    const LOG_RADIX: u32 = 2;
    const TERMS: usize = 8;
    const DOTS: usize = 1;
    const CONVERTS: bool = true;

    fn factor(m: &Modulus, w: Shoup) -> [u64; 2] {
        let w = m.centered(w.value) as f64;
        [w.to_bits(), (w / m.value() as f64).to_bits()]
    }

    fn residue(m: &Modulus, first: u64) -> u64 {
        m.reduce_i64(f64::from_bits(first) as i64)
    }

    #[inline(always)]
    unsafe fn new(m: &Modulus) -> Self {
        let q = m.value();
        // SAFETY: the caller's.
        unsafe {
            Self {
                q: double(q as f64),
                inverse: double(1.0 / q as f64),
                q_words: __m256i::splat(q),
            }
        }
    }

    #[inline(always)]
    unsafe fn value(words: __m256i) -> __m256i {
        // SAFETY: the caller's.
        unsafe {
            let offset = double(INTEGER);
            let raised = _mm256_or_pd(_mm256_castsi256_pd(words), offset);
            _mm256_castpd_si256(_mm256_sub_pd(raised, offset))
        }
    }

    #[inline(always)]
    unsafe fn fold(self, a: __m256i) -> __m256i {
        // SAFETY: the caller's.
        unsafe {
            let a = _mm256_castsi256_pd(a);
            let negative = _mm256_cmp_pd::<_CMP_LT_OQ>(a, _mm256_setzero_pd());
            words(_mm256_add_pd(a, _mm256_and_pd(negative, self.q)))
        }
    }

    #[inline(always)]
    unsafe fn reduce(self, a: __m256i) -> __m256i {
        // SAFETY: the caller's.
        unsafe {
            let a = _mm256_castsi256_pd(a);
            _mm256_castpd_si256(self.less_multiple(a, a, self.inverse))
        }
    }

    #[inline(always)]
    unsafe fn centre(self, a: __m256i) -> __m256i {
        // SAFETY: the caller's.
        unsafe { self.reduce(a) }
    }

    #[inline(always)]
    unsafe fn enter(self, words: __m256i) -> __m256i {
        // SAFETY: the caller's.
        unsafe { Self::value(words) }
    }

    #[inline(always)]
    unsafe fn mul_lazy(self, a: __m256i, w: Factor<Self>) -> __m256i {
        // SAFETY: the caller's.
        unsafe { _mm256_castpd_si256(self.product(a, w)) }
    }

    #[inline(always)]
    unsafe fn mul_centred(self, a: __m256i, w: Factor<Self>) -> __m256i {
        // SAFETY: the caller's.
        unsafe { self.mul_lazy(a, w) }
    }

    #[inline(always)]
    unsafe fn forward(self, x: __m256i, y: __m256i, w: Factor<Self>) -> (__m256i, __m256i) {
        // SAFETY: the caller's.
        unsafe {
            let (x, t) = (_mm256_castsi256_pd(x), self.product(y, w));
            let (sum, difference) = (_mm256_add_pd(x, t), _mm256_sub_pd(x, t));
            (_mm256_castpd_si256(sum), _mm256_castpd_si256(difference))
        }
    }

    #[inline(always)]
    unsafe fn inverse(self, x: __m256i, y: __m256i, w: Factor<Self>) -> (__m256i, __m256i) {
        // SAFETY: the caller's.
        unsafe {
            let (x, y) = (_mm256_castsi256_pd(x), _mm256_castsi256_pd(y));
            let difference = _mm256_castpd_si256(_mm256_sub_pd(x, y));
            (_mm256_castpd_si256(_mm256_add_pd(x, y)), self.mul_lazy(difference, w))
        }
    }

    #[inline(always)]
    unsafe fn add(self, a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: the caller's.
        unsafe { self.raise(_mm256_sub_epi64(_mm256_add_epi64(a, b), self.q_words)) }
    }

    #[inline(always)]
    unsafe fn sub(self, a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: the caller's.
        unsafe { self.raise(_mm256_sub_epi64(a, b)) }
    }

    #[inline(always)]
    unsafe fn sub_lazy(self, a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: the caller's.
        unsafe { _mm256_add_epi64(_mm256_sub_epi64(a, b), self.q_words) }
    }

    #[inline(always)]
    unsafe fn empty_sum() -> Sum {
        // SAFETY: the caller's.
        unsafe { Sum { high: double(SUM_START), low: double(0.0) } }
    }

    /// Exact: eight products below `2^100` leave `high` below `2^104`, and round to multiples
    /// of `2^51`; the parts that are rounded off are at most `2^50` each, together `2^53`.
    #[inline(always)]
    unsafe fn accumulate(sum: Sum, a: __m256i, b: __m256i) -> Sum {
        // SAFETY: the caller's.
        unsafe {
            let [a, b] = [a, b].map(|v| _mm256_castsi256_pd(Self::value(v)));
            let high = _mm256_fmadd_pd(a, b, sum.high);
            let rounded = _mm256_sub_pd(high, sum.high);
            Sum { high, low: _mm256_add_pd(sum.low, _mm256_fmsub_pd(a, b, rounded)) }
        }
    }

    /// The quotient of the upper part is below `2^55` for `q < 2^48`, and `2^53` next to
    /// `2^50`. Its estimate is off by `2^-52` of it and a rounding, so that the remainder is
    /// below `9 q` and `3 q`, in any case below `2^52`. That of the lower part is below `2 q`.
    #[inline(always)]
    unsafe fn reduce_sum(self, sum: Sum) -> __m256i {
        // SAFETY: the caller's.
        unsafe {
            let high = _mm256_sub_pd(sum.high, double(SUM_START));
            let high = self.remainder(high, _mm256_mul_pd(high, self.inverse));
            let low = self.remainder(sum.low, _mm256_mul_pd(sum.low, self.inverse));
            let total = _mm256_castpd_si256(_mm256_add_pd(high, low));
            self.fold(self.reduce(total))
        }
    }
}

/// Spreads four packed words, of `width` bytes of which there are 4 to 7, over a vector.
#[derive(Clone, Copy)]
struct Packing {
    width: usize,
    /// Where each byte of a vector is in the first and in the last 16 packed bytes, for the
    /// two words of each half.
    spread: __m256i,
}

impl Packing {
    /// # Safety
    /// The CPU has AVX2.
    #[inline(always)]
    unsafe fn new(width: usize) -> Self {
        let spread: [u8; 32] = core::array::from_fn(|k| {
            let (word, byte) = (k / 8, k % 8);
            let place = word * width + byte - if word < 2 { 0 } else { 4 * width - 16 };
            // The highest bit clears a byte.
            if byte < width { place as u8 } else { 0x80 }
        });
        // SAFETY: the caller's; the array has the bytes of a vector.
        Self { width, spread: unsafe { _mm256_loadu_si256(spread.as_ptr().cast()) } }
    }

    /// # Safety
    /// There are four packed words at `p`; the CPU has AVX2.
    #[inline(always)]
    unsafe fn load(self, p: *const u8) -> __m256i {
        // SAFETY: the caller's; both halves are within the packed words, which have 16 bytes
        // or more, and asking for what is beyond is allowed at any address.
        unsafe {
            _mm_prefetch::<_MM_HINT_T0>(p.wrapping_add(AHEAD_BYTES).cast());
            let bytes = pair(p.cast(), p.add(4 * self.width - 16).cast());
            _mm256_shuffle_epi8(bytes, self.spread)
        }
    }
}

#[target_feature(enable = "avx2,fma")]
unsafe fn mul_sum_packed(
    m: &Modulus,
    out: &[*mut u64],
    a: &[&[*const u64]],
    b: &[*const u8],
    len: usize,
) {
    let width = m.packed_bytes();
    let end = if width < 4 { 0 } else { full::<__m256i>(len) };
    for (&out, a) in out.iter().zip(a) {
        // SAFETY: the table's contract; below 2^50 words have at most seven bytes.
        unsafe {
            if end > 0 {
                let (lanes, packing) = (Double::new(m), Packing::new(width));
                let factors = |t: usize, i: usize| {
                    let word = __m256i::load(a.get_unchecked(t).add(i));
                    [(word, packing.load(b.get_unchecked(t).add(i * width)))]
                };
                write_sums::<Double, Residues, 1, ABREAST>([lanes], [out], a.len(), factors, end);
            }
            if end < len {
                let (a, b) = (advance(a, end), advance(b, end * width));
                (SCALAR.mul_sum_packed)(m, &[out.add(end)], &[&a], &b, len - end);
            }
        }
    }
}

/// At most 256 terms below 1 are off by less than `2^-44` each: half a unit in the last place
/// of the sum and the rounding of the reciprocal.
#[target_feature(enable = "avx2,fma")]
unsafe fn round_sum(fractions: &[Fraction], y: &[*const u64], out: *mut u64, len: usize) -> bool {
    const UNIT: f64 = 1.0 / (1u64 << 44) as f64;
    if fractions.iter().any(|f| f.q >> 50 != 0) {
        // SAFETY: the table's contract.
        return unsafe { (SCALAR.round_sum)(fractions, y, out, len) };
    }
    let end = full::<__m256i>(len);
    let reciprocals: Vec<f64> = fractions.iter().map(|f| 1.0 / f.q as f64).collect();
    // SAFETY: the table's contract.
    unsafe {
        let slack = double(fractions.len() as f64 * UNIT);
        let mut any = _mm256_setzero_pd();
        for x in (0..end).step_by(__m256i::LANES) {
            let mut sum = double(0.5);
            for (reciprocal, row) in reciprocals.iter().zip(y) {
                let y = _mm256_castsi256_pd(Double::value(__m256i::load(row.add(x))));
                sum = _mm256_fmadd_pd(y, double(*reciprocal), sum);
            }
            let v = _mm256_floor_pd(_mm256_sub_pd(sum, slack));
            let upper = _mm256_floor_pd(_mm256_add_pd(sum, slack));
            let unsure = _mm256_cmp_pd::<_CMP_NEQ_OQ>(v, upper);
            any = _mm256_or_pd(any, unsure);
            // Ones all over are the mark.
            const { assert!(UNDECIDED == u64::MAX) }
            _mm256_or_si256(words(v), _mm256_castpd_si256(unsure)).store(out.add(x));
        }
        let rest = advance(y, end);
        let decided = _mm256_movemask_pd(any) == 0;
        (SCALAR.round_sum)(fractions, &rest, out.add(end), len - end) && decided
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Isa, next_prime, previous_prime};

    /// `a w mod q` as the kernels compute it.
    #[target_feature(enable = "avx2,fma")]
    fn product(m: &Modulus, a: i64, w: u64) -> i64 {
        let [value, quotient] = Double::factor(m, m.shoup(w));
        // SAFETY: the features are enabled; the array has the words of a vector.
        unsafe {
            let factor = (__m256i::splat(value), __m256i::splat(quotient));
            let found = Double::new(m).product(__m256i::splat((a as f64).to_bits()), factor);
            let mut out = [0.0; 4];
            _mm256_storeu_pd(out.as_mut_ptr(), found);
            assert!(out.iter().all(|&x| x == out[0] && x.fract() == 0.0));
            out[0] as i64
        }
    }

    #[test]
    fn products_are_exact_up_to_their_bounds() {
        if !Isa::Avx2.is_available() {
            return;
        }
        let mut moduli = vec![3, 5, 97, (1 << 50) - 27];
        for bits in [30, 47, 48, 49, 50] {
            moduli.extend(previous_prime(1 << bits, 32));
            moduli.extend(next_prime(1 << (bits - 1), 32));
        }
        let random = (1..100u64).map(|k| k.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let edges = [0, 1, 2, 3, 4].into_iter().flat_map(|k| [k, (1 << 52) - k, (1 << 51) + k]);
        let values: Vec<i64> = edges.chain(random.clone().map(|x| (x >> 12) as i64)).collect();
        for q in moduli {
            let m = Modulus::new(q).unwrap();
            let edges = [0, 1, q / 2 - 1, q / 2, q / 2 + 1, q - 1];
            for w in edges.into_iter().chain(random.clone().map(|x| x % q)) {
                assert_eq!(Double::residue(&m, Double::factor(&m, m.shoup(w))[0]), w);
                for a in values.iter().flat_map(|&a| [a, -a]) {
                    // SAFETY: the CPU has the set.
                    let found = unsafe { product(&m, a, w) };
                    let expected = m.reduce_i128(i128::from(a) * i128::from(w));
                    assert_eq!(m.reduce_i64(found), expected, "{a} times {w} modulo {q}");
                    assert!(8 * found.unsigned_abs() <= 5 * q, "{a} times {w} modulo {q}");
                }
            }
        }
    }
}

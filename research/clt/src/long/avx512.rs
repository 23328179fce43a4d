//! Long integers: windows of products in digits of 52 bits, and sums of rows times short weights.

use super::kernel::add_multiples_in_words;
use core::{arch::x86_64::*, ops::Range};

/// Words of a vector.
const LANES: usize = 8;
const DIGIT_BITS: usize = 52;
const DIGIT: u64 = (1 << DIGIT_BITS) - 1;
/// Bytes of eight digits.
const GROUP_BYTES: usize = DIGIT_BITS * LANES / 8;
/// Number of columns below a window that are computed to determine the carry into it.
const GUARDS: usize = 2;
/// Number of columns that fit into the registers.
const MAX_COLUMNS: usize = 8;
/// Number of zeros on both sides of the reversed digits. They exceed the reach of the columns
/// beyond the digits, including the vectors that are read.
const PAD: usize = MAX_COLUMNS + 2 * LANES;
/// Maximum number of vectors that a lane of an accumulator can add without overflow.
const VECTORS: usize = 1 << 11;

/// Returns the digits of `limbs` between `PAD` zeros, the highest first.
pub(super) fn reversed_digits(limbs: &[u64]) -> Vec<u64> {
    let count = digits(limbs.len());
    let mut reversed = vec![0; count + 2 * PAD];
    for (i, digit) in reversed[PAD..][..count].iter_mut().rev().enumerate() {
        *digit = bits(limbs, DIGIT_BITS * i) & DIGIT;
    }
    reversed
}

/// Returns the number of digits of `limbs` limbs.
fn digits(limbs: usize) -> usize {
    (64 * limbs).div_ceil(DIGIT_BITS)
}

/// Returns the 64 bits from bit `at` on.
fn bits(limbs: &[u64], at: usize) -> u64 {
    let limb = |i: usize| limbs.get(i).copied().unwrap_or(0);
    let i = at / 64;
    let shift = at % 64;
    let pair = u128::from(limb(i + 1)) << 64 | u128::from(limb(i));
    (pair >> shift) as u64
}

/// Computes the specification's `window` of the product of `b` with the integer of `limbs` limbs
/// whose reversed digits are `a`. Returns false if this kernel does not find it.
///
/// # Safety
/// The CPU has AVX-512 F, IFMA and VBMI.
#[target_feature(enable = "avx512f,avx512ifma,avx512vbmi")]
pub(super) unsafe fn vector_window(
    a: &[u64],
    limbs: usize,
    b: &[u64],
    first: usize,
    out: &mut [u64],
) -> bool {
    let start = 64 * first;
    let Some(lowest) = (start / DIGIT_BITS).checked_sub(GUARDS) else { return false };
    let columns = (start + 64 * out.len()).div_ceil(DIGIT_BITS) - lowest;
    let terms = digits(limbs).min(digits(b.len()));
    // Windows at either end, and wide ones, are rare: the portable kernel finds them.
    if lowest == 0 || columns > MAX_COLUMNS || lowest + 1 >= digits(limbs) + digits(b.len()) {
        return false;
    }
    let mut sums = [0; MAX_COLUMNS];
    // SAFETY: guaranteed by the caller.
    unsafe {
        match columns {
            ..=4 => column_sums::<4>(a, b, lowest, &mut sums),
            5 => column_sums::<5>(a, b, lowest, &mut sums),
            6 => column_sums::<6>(a, b, lowest, &mut sums),
            7 => column_sums::<7>(a, b, lowest, &mut sums),
            _ => column_sums::<MAX_COLUMNS>(a, b, lowest, &mut sums),
        }
    }
    let mut carry = 0;
    let digits = sums.map(|sum: u128| {
        carry += sum;
        let digit = carry as u64 & DIGIT;
        carry >>= DIGIT_BITS;
        digit
    });
    for (i, limb) in out.iter_mut().enumerate() {
        let at = start + 64 * i - DIGIT_BITS * lowest;
        let digit = at / DIGIT_BITS;
        let shift = at % DIGIT_BITS;
        let three = digits[digit..].iter().take(3).rev();
        *limb = (three.fold(0u128, |bits, &digit| bits << DIGIT_BITS | u128::from(digit)) >> shift)
            as u64;
    }
    // The missing carry is below this many times 2^52 at the lowest column.
    digits[GUARDS - 1] + terms as u64 + 2 <= DIGIT
}

/// Returns the sums of digits at the columns from `lowest` on. A sum has the low halves of the
/// products at its column, and the high halves of the products one column below. The lowest column
/// lacks the high halves.
///
/// # Safety
/// The conditions of [`vector_window`], and `lowest` is not 0.
#[target_feature(enable = "avx512f,avx512ifma,avx512vbmi")]
unsafe fn column_sums<const COLUMNS: usize>(
    a: &[u64],
    b: &[u64],
    lowest: usize,
    sums: &mut [u128; MAX_COLUMNS],
) {
    let last = a.len() - 2 * PAD - 1;
    // Digits of `b` that are multiplied by digits of `a` in these columns, in whole vectors.
    let groups =
        lowest.saturating_sub(last) / LANES..digits(b.len()).min(lowest + COLUMNS).div_ceil(LANES);
    let mut group = groups.start;
    while group < groups.end {
        let mut low = [_mm512_setzero_si512(); COLUMNS];
        let mut high = [_mm512_setzero_si512(); COLUMNS];
        // Emptied before a lane overflows.
        let end = groups.end.min(group + VECTORS);
        for group in group..end {
            // Digit `j` of `b` is multiplied by digit `column - j` of `a`, at `last - (column - j)`
            // of the reversed digits.
            let at = PAD + last + LANES * group - lowest;
            debug_assert!(at + 1 >= COLUMNS && at + LANES <= a.len());
            // SAFETY: guaranteed by the caller; the columns begin at `COLUMNS - 1` before `at` or
            // later, and the padding covers them and the vector from `at` on.
            unsafe {
                let y = unpack(b, group);
                for (k, (low, high)) in low.iter_mut().zip(&mut high).enumerate() {
                    let x = load(a.as_ptr().add(at - k));
                    *low = _mm512_madd52lo_epu64(*low, x, y);
                    *high = _mm512_madd52hi_epu64(*high, x, y);
                }
            }
        }
        for k in 0..COLUMNS {
            // SAFETY: guaranteed by the caller.
            unsafe {
                sums[k] += lane_sum(low[k]);
                if k + 1 < COLUMNS {
                    sums[k + 1] += lane_sum(high[k]);
                }
            }
        }
        group = end;
    }
}

/// Returns digits `8 * group` to `8 * group + 7` of `b`. Ignore the bits above each digit.
///
/// # Safety
/// The CPU has AVX-512 F and VBMI.
#[inline]
#[target_feature(enable = "avx512f,avx512vbmi")]
unsafe fn unpack(b: &[u64], group: usize) -> __m512i {
    const BYTES: [u8; 64] = {
        let mut bytes = [0; 64];
        let mut i = 0;
        while i < 64 {
            // Start of the lane's digit, rounded down to a byte, plus the byte of the lane.
            bytes[i] = ((i / 8) * DIGIT_BITS / 8 + i % 8) as u8;
            i += 1;
        }
        bytes
    };
    let start = GROUP_BYTES * group;
    // SAFETY: the vector is within `b`, or within a copy of its end; the rest is guaranteed by the
    // caller.
    unsafe {
        let packed = if start + 64 <= 8 * b.len() {
            _mm512_loadu_si512(b.as_ptr().cast::<u8>().add(start).cast())
        } else {
            let mut end = [0; LANES];
            for (i, limb) in end.iter_mut().enumerate() {
                *limb = bits(b, 8 * start + 64 * i);
            }
            load(end.as_ptr())
        };
        let bytes = _mm512_loadu_si512(BYTES.as_ptr().cast());
        // 52 bits are six bytes and a half, so every other digit begins in the middle of a byte.
        let shifts = _mm512_setr_epi64(0, 4, 0, 4, 0, 4, 0, 4);
        _mm512_srlv_epi64(_mm512_permutexvar_epi8(bytes, packed), shifts)
    }
}

/// # Safety
/// The CPU has AVX-512 F.
#[target_feature(enable = "avx512f")]
unsafe fn lane_sum(v: __m512i) -> u128 {
    let mut lanes = [0; LANES];
    // SAFETY: there are eight words; the rest is guaranteed by the caller.
    unsafe { store(lanes.as_mut_ptr(), v) };
    lanes.into_iter().map(u128::from).sum()
}

/// Computes the specification's `add_multiples`, for at most `2^11` rows.
///
/// # Safety
/// The CPU has AVX-512 F and IFMA.
#[target_feature(enable = "avx512f,avx512ifma")]
pub(super) unsafe fn add_multiples<'a>(
    sums: &mut [u128],
    row: impl Fn(usize) -> &'a [u64],
    weights: &[u32],
    rows: Range<usize>,
) {
    /// Number of vectors of a row that are summed together.
    const WIDTH: usize = 4;
    debug_assert!(rows.len() <= VECTORS);
    let mut done = 0;
    while done + LANES <= sums.len() {
        let width = WIDTH.min((sums.len() - done) / LANES);
        let part = &mut sums[done..done + width * LANES];
        // SAFETY: guaranteed by the caller.
        unsafe {
            match width {
                WIDTH => add_vectors::<WIDTH>(part, |k| &row(k)[done..], weights, rows.clone()),
                _ => {
                    for (i, part) in part.chunks_exact_mut(LANES).enumerate() {
                        let row = |k| &row(k)[done + i * LANES..];
                        add_vectors::<1>(part, row, weights, rows.clone());
                    }
                }
            }
        }
        done += width * LANES;
    }
    add_multiples_in_words(&mut sums[done..], |k| &row(k)[done..], weights, rows);
}

/// Computes [`add_multiples`] for `WIDTH` vectors of each row.
///
/// # Safety
/// The CPU has AVX-512 F and IFMA.
#[inline]
#[target_feature(enable = "avx512f,avx512ifma")]
unsafe fn add_vectors<'a, const WIDTH: usize>(
    sums: &mut [u128],
    row: impl Fn(usize) -> &'a [u64],
    weights: &[u32],
    rows: Range<usize>,
) {
    // Accumulators at bit 0 and at bit 52.
    let mut low = [_mm512_setzero_si512(); WIDTH];
    let mut high = [_mm512_setzero_si512(); WIDTH];
    for (k, &weight) in weights.iter().enumerate().take(rows.end).skip(rows.start) {
        let limbs = &row(k)[..WIDTH * LANES];
        // SAFETY: each vector is within the limbs; the rest is guaranteed by the caller.
        unsafe {
            let weight = splat(u64::from(weight));
            for (i, (low, high)) in low.iter_mut().zip(&mut high).enumerate() {
                let limbs = load(limbs.as_ptr().add(i * LANES));
                *low = _mm512_madd52lo_epu64(*low, limbs, weight);
                *high = _mm512_madd52hi_epu64(*high, limbs, weight);
                let top = _mm512_srli_epi64::<{ DIGIT_BITS as u32 }>(limbs);
                *high = _mm512_madd52lo_epu64(*high, top, weight);
            }
        }
    }
    for (i, sums) in sums.chunks_exact_mut(LANES).enumerate() {
        let mut lows = [0; LANES];
        let mut highs = [0; LANES];
        // SAFETY: there are eight words each; the caller's.
        unsafe {
            store(lows.as_mut_ptr(), low[i]);
            store(highs.as_mut_ptr(), high[i]);
        }
        for (sum, (low, high)) in sums.iter_mut().zip(lows.into_iter().zip(highs)) {
            *sum += u128::from(low) + (u128::from(high) << DIGIT_BITS);
        }
    }
}

/// # Safety
/// `p` points to eight readable words; the CPU has AVX-512 F.
#[inline(always)]
unsafe fn load(p: *const u64) -> __m512i {
    // SAFETY: the caller's.
    unsafe { _mm512_loadu_si512(p.cast()) }
}

/// # Safety
/// `p` points to eight writable words; the CPU has AVX-512 F.
#[inline(always)]
unsafe fn store(p: *mut u64, v: __m512i) {
    // SAFETY: the caller's.
    unsafe { _mm512_storeu_si512(p.cast(), v) }
}

/// # Safety
/// The CPU has AVX-512 F.
#[inline(always)]
unsafe fn splat(x: u64) -> __m512i {
    // SAFETY: the caller's.
    unsafe { _mm512_set1_epi64(x as i64) }
}

//! Kernels on long integers. `window` and `add_multiples` of this module are the specification.

use core::ops::Range;
use sudare_arith::Isa;

#[cfg(target_arch = "x86_64")]
pub(super) use super::avx512::{reversed_digits, vector_window};

/// Computes limbs `first .. first + out.len()` of `a * b`, using the columns from `start` on.
/// Returns whether the columns below `start` cannot carry into them, which always holds for `start`
/// 0.
pub(super) fn window(a: &[u64], b: &[u64], first: usize, start: usize, out: &mut [u64]) -> bool {
    let mut carry = [0u64; 2];
    let mut highest = 0;
    for column in start..first + out.len() {
        let [low, middle, high] = column_sum(a, b, column);
        let (low, over) = low.overflowing_add(carry[0]);
        let sum = u128::from(middle) + u128::from(carry[1]) + u128::from(over);
        carry = [sum as u64, high + (sum >> 64) as u64];
        match column.checked_sub(first) {
            Some(place) => out[place] = low,
            None => highest = low,
        }
    }
    // The missing carry is below this many times 2^64 at the first column.
    let missing = a.len().min(b.len()) as u64 + 2;
    start == 0 || highest.checked_add(missing).is_some()
}

/// Returns `sum_i a[i] * b[column - i]`.
fn column_sum(a: &[u64], b: &[u64], column: usize) -> [u64; 3] {
    let from = (column + 1).saturating_sub(b.len());
    let to = a.len().min(column + 1);
    if from >= to {
        return [0; 3];
    }
    let a = &a[from..to];
    let b = &b[column + 1 - to..=column - from];
    let mut sum = 0u128;
    let mut over = 0;
    for (&x, &y) in a.iter().zip(b.iter().rev()) {
        let (next, carry) = sum.overflowing_add(u128::from(x) * u128::from(y));
        sum = next;
        over += u64::from(carry);
    }
    [sum as u64, (sum >> 64) as u64, over]
}

/// Computes `sums[x] += sum_k weights[k] * row(k)[x]` for `k` in `rows`.
///
/// Sums stay below `2^128` for a total of `2^32` rows.
pub(super) fn add_multiples<'a>(
    sums: &mut [u128],
    row: impl Fn(usize) -> &'a [u64],
    weights: &[u32],
    rows: Range<usize>,
    best: Isa,
) {
    #[cfg(target_arch = "x86_64")]
    if best == Isa::Avx512Ifma && best.is_available() {
        // SAFETY: the CPU has the set.
        return unsafe { super::avx512::add_multiples(sums, row, weights, rows) };
    }
    let _ = best;
    add_multiples_in_words(sums, row, weights, rows);
}

/// Computes [`add_multiples`] in portable code, four rows at a time.
pub(super) fn add_multiples_in_words<'a>(
    sums: &mut [u128],
    row: impl Fn(usize) -> &'a [u64],
    weights: &[u32],
    rows: Range<usize>,
) {
    let product = |weight: u32, limb: u64| u128::from(weight) * u128::from(limb);
    let mut k = rows.start;
    // Four rows share a pass over the sums.
    while k + 4 <= rows.end {
        let [a, b, c, d] = [row(k), row(k + 1), row(k + 2), row(k + 3)];
        let limbs = a.iter().zip(b).zip(c.iter().zip(d));
        let [s, t, u, v] = [weights[k], weights[k + 1], weights[k + 2], weights[k + 3]];
        for (sum, ((&a, &b), (&c, &d))) in sums.iter_mut().zip(limbs) {
            *sum += product(s, a) + product(t, b) + product(u, c) + product(v, d);
        }
        k += 4;
    }
    for (k, &weight) in weights.iter().enumerate().take(rows.end).skip(k) {
        for (sum, &limb) in sums.iter_mut().zip(row(k)) {
            *sum += product(weight, limb);
        }
    }
}

//! Parts of products of long integers.
//!
//! Integers are limbs of 64 bits, the lowest first. [`Factor::window`] returns a few limbs from the
//! middle of a product of thousands, at the cost of these limbs alone. [`weighted_sums`] adds up
//! many integers times short weights. Both are exact on every instruction set.
//!
//! The scheme spends most of its time here, on products of 380,000 bits. The kernels for AVX-512 are
//! `unsafe` because they read vectors by pointers. Each block states its reason.
//!
//! ```
//! use sudare_arith::Isa;
//! use sudare_research_clt::long::Factor;
//!
//! let mut middle = [0];
//! // (2^128 + 5) * (2^64 + 7) = 2^192 + 7 * 2^128 + 5 * 2^64 + 35
//! Factor::new(&[5, 0, 1], Isa::detect()).window(&[7, 1], 2, &mut middle);
//! assert_eq!(middle, [7]);
//! ```

#[cfg(target_arch = "x86_64")]
mod avx512;
mod kernel;

use sudare_arith::Isa;

/// An integer, prepared to be multiplied by many others.
#[derive(Clone)]
pub struct Factor {
    limbs: Vec<u64>,
    /// Digits for the vector kernel, where the CPU has one.
    #[cfg(target_arch = "x86_64")]
    digits: Option<Vec<u64>>,
}

impl Factor {
    /// Prepares `limbs` for the kernels up to `best` that this CPU has.
    #[must_use]
    pub fn new(limbs: &[u64], best: Isa) -> Self {
        // Unused on processors without the vector kernel.
        let _ = best;
        Self {
            limbs: limbs.to_vec(),
            #[cfg(target_arch = "x86_64")]
            digits: (best == Isa::Avx512Ifma && best.is_available())
                .then(|| kernel::reversed_digits(limbs)),
        }
    }

    /// Returns the limbs.
    #[must_use]
    pub fn limbs(&self) -> &[u64] {
        &self.limbs
    }

    /// Computes limbs `first .. first + out.len()` of the product with `other`.
    ///
    /// For the carry from lower columns, two of them and a bound on the rest are enough. All lower
    /// columns are computed only if that leaves a carry open, about once in `2^38` calls.
    pub fn window(&self, other: &[u64], first: usize, out: &mut [u64]) {
        if !(self.vector_window(other, first, out)
            || kernel::window(&self.limbs, other, first, first.saturating_sub(GUARDS), out))
        {
            kernel::window(&self.limbs, other, first, 0, out);
        }
    }

    /// Returns whether a vector kernel has found the window.
    fn vector_window(&self, other: &[u64], first: usize, out: &mut [u64]) -> bool {
        #[cfg(target_arch = "x86_64")]
        if let Some(digits) = &self.digits {
            // SAFETY: digits exist only if the CPU has the set.
            return unsafe { kernel::vector_window(digits, self.limbs.len(), other, first, out) };
        }
        let _ = (other, first, out);
        false
    }
}

/// Number of columns below a window that are computed to determine the carry into it.
const GUARDS: usize = 2;

/// Computes for each list of `weights` the sum `sum_k weights[k] * rows[k][columns]`, written to the
/// `outs` of the same place.
///
/// `rows` has a row of `stride` limbs for each weight. The columns are the limbs from `start` on, one
/// less than each of `outs` has.
///
/// # Panics
/// If numbers of weights, rows, lists or limbs do not match.
pub fn weighted_sums(
    outs: &mut [&mut [u64]],
    rows: &[u64],
    stride: usize,
    start: usize,
    weights: &[&[u32]],
    best: Isa,
) {
    assert_eq!(outs.len(), weights.len(), "one output a list of weights is needed");
    let Some(columns) = outs.first().map(|out| out.len() - 1) else { return };
    assert!(start + columns <= stride, "the columns end beyond the rows");
    let same = |out: &&mut [u64]| out.len() == columns + 1;
    assert!(outs.iter().all(same), "outputs of one length are needed");
    let count = rows.len() / stride;
    let complete = rows.len() == count * stride && weights.iter().all(|list| list.len() == count);
    assert!(complete, "one weight a row is needed");

    for tile in (0..columns).step_by(TILE) {
        let len = TILE.min(columns - tile);
        let mut sums = vec![[0u128; TILE]; outs.len()];
        for block in (0..count).step_by(BLOCK) {
            let block = block..count.min(block + BLOCK);
            for (sums, weights) in sums.iter_mut().zip(weights) {
                let row = |k: usize| &rows[k * stride + start + tile..][..len];
                kernel::add_multiples(&mut sums[..len], row, weights, block.clone(), best);
            }
        }
        for (out, sums) in outs.iter_mut().zip(&sums) {
            // The carry of the tile before goes into the start of this tile.
            let mut carry = if tile == 0 { 0 } else { u128::from(out[tile]) };
            for (limb, sum) in out[tile..].iter_mut().zip(&sums[..len]) {
                carry += sum;
                *limb = carry as u64;
                carry >>= 64;
            }
            out[tile + len] = carry as u64;
        }
    }
    // Without a column the loop above writes no carry.
    if columns == 0 {
        outs.iter_mut().for_each(|out| out.fill(0));
    }
}

/// Limbs of each row that are processed together, and rows: a part of the L2 cache.
const TILE: usize = 256;
/// Rows that are processed together: 256 limbs of 64 rows are 128 KiB.
const BLOCK: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use num_bigint::BigUint;
    use proptest::prelude::*;
    use sudare_arith::prng::{Seed, Stream};

    fn random(label: &str, index: u64, len: usize) -> Vec<u64> {
        let mut limbs = vec![0; len];
        Stream::new(&Seed::from_bytes([3; 32]), label, index).fill(&mut limbs);
        limbs
    }

    fn big(limbs: &[u64]) -> BigUint {
        BigUint::from_bytes_le(&limbs.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<_>>())
    }

    /// Returns the same window of the whole product.
    fn expected(a: &[u64], b: &[u64], first: usize, len: usize) -> Vec<u64> {
        let mut limbs = (big(a) * big(b)).to_u64_digits();
        limbs.resize(limbs.len().max(first + len), 0);
        limbs[first..first + len].to_vec()
    }

    fn check(a: &[u64], b: &[u64], first: usize, len: usize) {
        let expected = expected(a, b, first, len);
        for isa in Isa::ALL {
            let mut found = vec![1; len];
            Factor::new(a, isa).window(b, first, &mut found);
            assert_eq!(found, expected, "{isa:?}, {} and {} from {first}", a.len(), b.len());
        }
    }

    proptest! {
        #[test]
        fn windows_are_those_of_whole_products(
            a in 1_usize..90, b in 1_usize..90, first in 0_usize..190, len in 1_usize..6,
            index in any::<u64>(),
        ) {
            check(&random("a", index, a), &random("b", index, b), first, len);
        }

        #[test]
        fn sums_are_those_of_integers(
            count in 0_usize..150, columns in 0_usize..600, start in 0_usize..3,
            lists in 1_usize..4, index in any::<u64>(),
        ) {
            let stride = start + columns + 1;
            let rows = random("rows", index, count * stride);
            let weights: Vec<Vec<u32>> = (0..lists as u64)
                .map(|i| random("weights", index ^ i, count).iter().map(|&x| x as u32).collect())
                .collect();
            for isa in Isa::ALL {
                let mut outs = vec![vec![1; columns + 1]; lists];
                let mut parts: Vec<&mut [u64]> = outs.iter_mut().map(Vec::as_mut_slice).collect();
                let lists: Vec<&[u32]> = weights.iter().map(Vec::as_slice).collect();
                weighted_sums(&mut parts, &rows, stride, start, &lists, isa);
                for (out, weights) in outs.iter().zip(&weights) {
                    let row = |k: usize| big(&rows[k * stride + start..][..columns]);
                    let sum: BigUint = (0..count).map(|k| row(k) * weights[k]).sum();
                    prop_assert_eq!(big(out), sum, "{:?}", isa);
                }
            }
        }
    }

    #[test]
    fn windows_of_thousands_of_limbs() {
        let a = random("a", 0, 2100);
        let b = random("b", 0, 2103);
        for (first, len) in [(2099, 1), (2100, 3), (2101, 4), (4200, 3), (1, 2)] {
            check(&a, &b, first, len);
        }
    }

    /// Limbs of all ones or zeros leave carries undecided and fill every accumulator.
    #[test]
    fn carries_from_far_below_are_found() {
        let ones = |len: usize| vec![u64::MAX; len];
        for (a, b) in [(40, 40), (37, 64), (200, 8), (700, 700)] {
            for first in [0, 3, 20, 36, 39, 60, 64, 100] {
                check(&ones(a), &ones(b), first, 3);
                check(&ones(a), &ones(b), first, 1);
            }
        }
        // 2^k - 1 times 1 and 2: the guards are all ones, or all ones except the lowest bit.
        let mut sparse = vec![0; 40];
        sparse[0] = 1;
        check(&ones(40), &sparse, 30, 3);
        // A carry that starts in the lowest column and goes through all of them. The product of
        // 2^(64 k) - 1 with itself, plus 2^(64 k) - 1, consists of ones and zeros.
        let mut product = ones(60);
        product[59] = 1;
        check(&product, &[u64::MAX, 1], 30, 3);
        assert!(
            !kernel::window(&ones(40), &sparse, 30, 28, &mut [0; 3]),
            "guards of ones leave the carry open"
        );
    }

    #[test]
    fn weights_of_all_ones_fill_no_accumulator() {
        let count = 9000;
        let rows = vec![u64::MAX; 3 * count];
        let weights = vec![u32::MAX; count];
        let expected = big(&[u64::MAX; 3]) * u32::MAX * count;
        for isa in Isa::ALL {
            let mut out = vec![0; 4];
            weighted_sums(&mut [&mut out[..]], &rows, 3, 0, &[&weights], isa);
            assert_eq!(big(&out), expected, "{isa:?}");
        }
    }
}

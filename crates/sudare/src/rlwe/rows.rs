//! Rows of keys in the form that products with digits read.

use super::{Params, SwitchingKey, keygen::expand_row};
use std::sync::Arc;
use sudare_arith::{Modulus, mem::Buf, prng::Seed};

/// Rows of a key's first digits modulo one prime.
#[derive(Clone)]
pub(super) struct KeyRows<'a> {
    modulus: &'a Modulus,
    /// Rows of the first halves, packed.
    first: Vec<&'a [u8]>,
    second: Second<'a>,
}

/// Rows of the second halves.
#[derive(Clone)]
enum Second<'a> {
    Packed(Vec<&'a [u8]>),
    /// Not expanded yet.
    Seed(&'a Params, &'a Seed),
    /// Words, digit by digit.
    Expanded(Arc<Buf>),
}

impl SwitchingKey {
    /// Returns the rows modulo the `i`-th of the key's primes. Prepare them before multiplying.
    pub(super) fn rows<'a>(&'a self, params: &'a Params, digits: usize, i: usize) -> KeyRows<'a> {
        let first = (0..digits).map(|digit| self.first.row(digit, i)).collect();
        let second = match (&self.second, &self.seed) {
            (None, Some(seed)) => Second::Seed(params, seed),
            // Keys without a seed store both halves.
            (half, _) => Second::Packed(
                half.iter().flat_map(|half| (0..digits).map(|digit| half.row(digit, i))).collect(),
            ),
        };
        KeyRows { modulus: params.basis().modulus(self.limbs(), i), first, second }
    }
}

impl KeyRows<'_> {
    /// Expands the rows that are still seeds.
    pub(super) fn prepare(&mut self) {
        if let Second::Seed(params, seed) = self.second {
            let n = params.basis().n();
            let mut words = params.basis().pool().take(self.first.len() * n);
            for (digit, row) in words.chunks_exact_mut(n).enumerate() {
                expand_row(self.modulus, seed, digit as u64, row);
            }
            self.second = Second::Expanded(Arc::new(words));
        }
    }

    /// Returns the same rows, prepared.
    pub(super) fn prepared(mut self) -> Self {
        self.prepare();
        self
    }

    /// Computes the sums of products of `digits`, residues from `start` on, with both halves.
    pub(super) fn multiply(&self, digits: &[&[u64]], start: usize, out: [&mut [u64]; 2]) {
        let m = self.modulus;
        let width = self.modulus.packed_bytes();
        let [first, second] = out;
        let len = first.len();
        let packed = |rows: &[&[u8]], out: &mut [u64]| {
            let rows: Vec<&[u8]> =
                rows.iter().map(|row| &row[width * start..][..width * len]).collect();
            m.mul_sum_packed(out, digits, &rows);
        };
        packed(&self.first, first);
        match &self.second {
            Second::Packed(rows) => packed(rows, second),
            Second::Expanded(words) => {
                let rows: Vec<&[u64]> = words
                    .chunks_exact(words.len() / self.first.len())
                    .map(|row| &row[start..][..len])
                    .collect();
                m.mul_sum(second, digits, &rows);
            }
            Second::Seed(..) => debug_assert!(false, "rows that were not prepared"),
        }
    }
}

//! Cost of operations, counted before any key exists: the work of [`Evaluator`](super::Evaluator),
//! by its bottleneck.

use super::{AutomorphismSum, Level, Params, WeightForm};
use crate::ring::LimbSet;
use core::ops::{AddAssign, Sub};
use serde::Serialize;
use sudare_arith::real;

/// Maximum bits of primes that the fast kernels support.
const NARROW_BITS: u32 = 50;

/// Work of an evaluator, by its bottleneck. A row is `N` residues modulo one prime.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Work {
    /// Rows transformed, in either direction, modulo primes of at most 50 bits.
    pub narrow_transforms: u64,
    /// Transforms of rows modulo wider primes.
    pub wide_transforms: u64,
    /// Residues of keys and matrices that are read from memory, packed, and are multiplied and
    /// summed. The rate includes the reading.
    pub streamed_products: u64,
    /// Products of residues in cache that are summed: changes of basis, products with constants and
    /// between ciphertexts, and further products with keys and matrices that are already in cache.
    pub cached_products: u64,
    /// Residues moved by automorphisms.
    pub permuted: u64,
    /// Bytes of keys read for the streamed products.
    pub key_bytes: u64,
    /// Bytes of matrices read for the streamed products.
    pub matrix_bytes: u64,
    /// Bytes of rows of ciphertexts and digits, eight per residue, read and written in addition to
    /// the transforms.
    pub row_bytes: u64,
}

/// Cost of work on a machine, in nanoseconds, with the number of threads that will run it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Rates {
    /// Nanoseconds per row of [`Work::narrow_transforms`], read from memory.
    pub narrow_transform_ns: f64,
    /// Nanoseconds per row of [`Work::wide_transforms`].
    pub wide_transform_ns: f64,
    /// Nanoseconds per residue of [`Work::streamed_products`].
    pub streamed_product_ns: f64,
    /// Nanoseconds per residue of [`Work::cached_products`].
    pub cached_product_ns: f64,
    /// Nanoseconds per residue of [`Work::permuted`].
    pub permuted_ns: f64,
    /// Nanoseconds per byte of [`Work::row_bytes`].
    pub row_byte_ns: f64,
}

impl Rates {
    /// Returns approximate rates of one thread of the machine in `docs/performance.md`, in rings of
    /// degree `2^log_n`. Use them to compare plans.
    #[must_use]
    pub fn reference(log_n: u32) -> Self {
        let row = f64::from(log_n) * real::exp2(f64::from(log_n));
        Self {
            // Rounded from the rates in docs/notes/performance-log.md (predicted time of a stage).
            // Wide primes take 2.5 times as long.
            narrow_transform_ns: 0.14 * row,
            wide_transform_ns: 0.35 * row,
            streamed_product_ns: 0.5,
            cached_product_ns: 0.2,
            permuted_ns: 0.4,
            // 16 GB/s.
            row_byte_ns: 1.0 / 16.0,
        }
    }
}

impl Work {
    /// Rows transformed.
    #[must_use]
    pub fn transforms(&self) -> u64 {
        self.narrow_transforms + self.wide_transforms
    }

    /// Residues multiplied and summed.
    #[must_use]
    pub fn products(&self) -> u64 {
        self.streamed_products + self.cached_products
    }

    /// Returns the total time, if each kind takes as long as it does alone.
    #[must_use]
    pub fn seconds(&self, rates: &Rates) -> f64 {
        let parts = [
            (self.narrow_transforms, rates.narrow_transform_ns),
            (self.wide_transforms, rates.wide_transform_ns),
            (self.streamed_products, rates.streamed_product_ns),
            (self.cached_products, rates.cached_product_ns),
            (self.permuted, rates.permuted_ns),
            (self.row_bytes, rates.row_byte_ns),
        ];
        // A kind with no work takes no time at any rate, even an infinite one.
        let parts = parts.into_iter().filter(|&(count, _)| count > 0);
        1e-9 * parts.map(|(count, ns)| count as f64 * ns).sum::<f64>()
    }

    /// Combines both field by field.
    fn zip(self, other: Self, f: impl Fn(u64, u64) -> u64) -> Self {
        Self {
            narrow_transforms: f(self.narrow_transforms, other.narrow_transforms),
            wide_transforms: f(self.wide_transforms, other.wide_transforms),
            streamed_products: f(self.streamed_products, other.streamed_products),
            cached_products: f(self.cached_products, other.cached_products),
            permuted: f(self.permuted, other.permuted),
            key_bytes: f(self.key_bytes, other.key_bytes),
            matrix_bytes: f(self.matrix_bytes, other.matrix_bytes),
            row_bytes: f(self.row_bytes, other.row_bytes),
        }
    }
}

impl AddAssign for Work {
    fn add_assign(&mut self, other: Self) {
        *self = self.zip(other, |a, b| a + b);
    }
}

/// Work since an earlier count.
impl Sub for Work {
    type Output = Self;

    fn sub(self, earlier: Self) -> Self {
        self.zip(earlier, u64::saturating_sub)
    }
}

/// Operand of a key switch, in the cases that the switcher distinguishes.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Operand {
    /// One polynomial is switched, the other kept.
    Ciphertext,
    /// A single polynomial is switched.
    Alone,
    /// A product computed on the way, with or without an added ciphertext.
    Product { adds: bool },
    /// Two polynomials are kept and a third is switched.
    Tensor,
}

/// Adds up the work of the layers below an evaluator.
pub(crate) struct Ledger<'a> {
    pub(crate) params: &'a Params,
    pub(crate) work: Work,
}

impl Ledger<'_> {
    fn residues(&self, rows: usize) -> u64 {
        (rows as u64) << self.params.log_n()
    }

    pub(crate) fn cached_products(&mut self, rows: usize) {
        self.work.cached_products += self.residues(rows);
    }

    pub(crate) fn permutes(&mut self, rows: usize) {
        self.work.permuted += self.residues(rows);
    }

    /// Counts reads or writes of rows.
    pub(crate) fn moves(&mut self, rows: usize) {
        self.work.row_bytes += 8 * self.residues(rows);
    }

    /// Counts `count(i)` transforms of rows modulo the `i`-th prime.
    pub(crate) fn transforms(&mut self, limbs: LimbSet, count: impl Fn(usize) -> usize) {
        for i in 0..limbs.count() {
            let narrow = self.params.basis().modulus(limbs, i).bits() <= NARROW_BITS;
            let transforms = match narrow {
                true => &mut self.work.narrow_transforms,
                false => &mut self.work.wide_transforms,
            };
            *transforms += count(i) as u64;
        }
    }

    /// Counts a conversion of rows modulo `from` primes to rows modulo `to` others: one sum of
    /// fractions, and a sum with one more term for each target.
    fn converts(&mut self, from: usize, to: usize) {
        self.cached_products(from + (from + 1) * to);
        self.moves(from + to);
    }

    /// Counts cutting a polynomial modulo the chain primes of `limbs`, and lifting and transforming
    /// the digits.
    fn cuts(&mut self, limbs: LimbSet, operand: Operand) {
        let q = limbs.q();
        let all = limbs.count();
        if let Operand::Product { .. } = operand {
            self.cached_products(q);
            self.moves(2 * q);
        }
        self.moves(q);
        let digits = self.params.digit_primes_of(limbs);
        for owned in &digits {
            self.converts(owned.len(), all - owned.len());
        }
        // Inverse transforms for chain primes, forward ones for every prime that a digit was lifted
        // to.
        let owned = |i| usize::from(i < q);
        self.transforms(limbs, |i| owned(i) + digits.len() - owned(i));
    }

    /// Counts products of the digits of `count` polynomials with one key.
    fn multiplies_key(&mut self, limbs: LimbSet, digits: usize, count: usize) {
        let residues = self.residues(2 * digits * limbs.count());
        self.work.streamed_products += residues;
        // Only the first polynomial reads the key from memory.
        self.work.cached_products += (count as u64 - 1) * residues;
        self.work.key_bytes += 2 * digits as u64 * self.params.basis().packed_bytes(limbs);
    }

    /// Counts sums with the kept polynomials, modulo the `q` primes of the chain.
    fn keeps(&mut self, q: usize, operand: Operand) {
        let (products, rows) = match operand {
            Operand::Ciphertext => (1, 2),
            Operand::Alone => (0, 1),
            Operand::Tensor => (2, 3),
            // The row of the digit that owns a prime is a product again. So are both kept
            // polynomials, one of two terms. Each is summed with a factor.
            Operand::Product { adds } => {
                let added = 2 * usize::from(adds);
                (1 + 1 + 2 + 2 + added, 4 + added)
            }
        };
        self.cached_products(products * q);
        self.moves(rows * q);
    }

    /// Counts bringing `count` polynomials modulo `limbs` to the primes `after`: the first of
    /// these, or others.
    fn divides(&mut self, limbs: LimbSet, after: LimbSet, count: usize) {
        let kept = if after.start() == limbs.start() { after.q() } else { 0 };
        self.transforms(limbs, |i| count * usize::from(i >= kept));
        self.transforms(after, |_| count);
        for _ in 0..count {
            self.converts(limbs.count() - kept, after.q());
            self.cached_products(after.q());
        }
    }

    /// Counts a whole key switch of `count` operands with one key.
    pub(crate) fn switches(
        &mut self,
        limbs: LimbSet,
        operand: Operand,
        after: LimbSet,
        count: usize,
    ) {
        let digits = self.params.digit_primes_of(limbs).len();
        self.multiplies_key(limbs, digits, count);
        for _ in 0..count {
            self.cuts(limbs, operand);
            self.keeps(limbs.q(), operand);
            self.divides(limbs, after, 2);
        }
    }

    /// Counts the sum of `products` before relinearisation, with or without an added ciphertext.
    pub(crate) fn tensors(&mut self, q: usize, products: usize, adds: bool) {
        let added = 2 * usize::from(adds);
        self.cached_products(4 * products * q);
        self.moves((8 * products + 3 + 3 * added) * q);
    }

    /// Counts the sum of `products` divided by `Q / t` before relinearisation, modulo the primes of
    /// `limbs`, with or without an added ciphertext. It uses `auxiliary` additional primes of at
    /// most [`NARROW_BITS`] bits. Both factors are computed modulo these primes, one of them after
    /// a division.
    pub(crate) fn scaled_tensors(
        &mut self,
        limbs: LimbSet,
        auxiliary: usize,
        products: usize,
        adds: bool,
    ) {
        let q = limbs.q();
        let all = limbs.q() + auxiliary;
        for _ in 0..2 * products {
            // A polynomial of either factor.
            self.converts(q, auxiliary);
            self.moves(2 * q);
            self.converts(q, auxiliary);
            self.cached_products(auxiliary);
            self.converts(auxiliary, q);
            // Rows of both bases side by side, of one factor times `t`.
            self.cached_products(all);
            self.moves(3 * 2 * all);
        }
        self.tensors(all, products, false);
        for _ in 0..3 {
            self.converts(auxiliary, q);
            self.cached_products(q);
        }
        if adds {
            self.moves(3 * 2 * q);
        }
        let transforms = 6 * products + 3;
        self.transforms(limbs, |_| transforms);
        self.work.narrow_transforms += (transforms * auxiliary) as u64;
    }

    pub(crate) fn rescales(&mut self, level: Level) {
        let limbs = self.params.limbs(level);
        self.moves(2 * limbs.q());
        self.divides(limbs, self.after(level), 2);
    }

    /// The primes one level down.
    pub(crate) fn after(&self, level: Level) -> LimbSet {
        let limbs = |below| self.params.limbs(Level(below));
        level.0.checked_sub(1).map_or(LimbSet::chain(0), limbs)
    }

    /// Counts the sums of products of the images of `count` ciphertexts with the weights of a
    /// matrix, for both polynomials. Images are computed in cache, one block of a group at a time.
    /// Each stored residue of a weight is read from memory once: its repetitions, the second
    /// polynomial and the other ciphertexts find it in cache.
    fn multiplies_weights(
        &mut self,
        limbs: LimbSet,
        sum: &AutomorphismSum,
        weights: WeightForm,
        count: usize,
    ) {
        let all = limbs.count();
        let residues = self.residues(weights.count * all);
        let stored = residues >> weights.log_repeats;
        self.work.streamed_products += stored;
        self.work.cached_products += 2 * count as u64 * residues - stored;
        self.work.matrix_bytes += weights.bytes(self.params, limbs);
        self.moves(2 * count * sum.stages * all);
    }

    /// Counts a sum of automorphisms of `count` ciphertexts with these weights, rescaled.
    pub(crate) fn multiplies_diagonals(
        &mut self,
        limbs: LimbSet,
        sum: &AutomorphismSum,
        weights: WeightForm,
        count: usize,
    ) {
        let q = limbs.q();
        let all = limbs.count();
        let digits = self.params.digit_primes_of(limbs).len();
        let turns = sum.baby.iter().filter(|g| g.0 != 1).count();
        for _ in 0..turns {
            self.multiplies_key(limbs, digits, count);
        }
        self.multiplies_weights(limbs, sum, weights, count);
        for _ in 0..count {
            if turns > 0 {
                self.cuts(limbs, Operand::Ciphertext);
            }
            for g in &sum.baby {
                match g.0 {
                    1 => {
                        self.cached_products(2 * q);
                        self.moves(2 * q);
                    }
                    _ => {
                        self.keeps(q, Operand::Ciphertext);
                        self.permutes(2 * all);
                    }
                }
            }
            for _ in 1..sum.stages {
                self.moves(all);
                self.divides(limbs, limbs.first(q), 1);
                self.cuts(limbs, Operand::Alone);
                self.multiplies_key(limbs, digits, 1);
                self.keeps(q, Operand::Alone);
                self.permutes(2 * all);
                // The kept polynomial is read, and both sums are read and written.
                self.moves(5 * all);
            }
            self.moves(2 * all);
            self.divides(limbs, self.after(sum.level), 2);
        }
    }

    /// Counts lifting both polynomials modulo the primes of level 0.
    fn lifts_residues(&mut self, to: [LimbSet; 2]) {
        let low = self.params.limbs(Level(0));
        self.transforms(low, |_| 2);
        for limbs in to {
            self.converts(low.q(), limbs.count());
            self.transforms(limbs, |_| 1);
        }
    }

    /// Counts the switch to an ephemeral secret and the lift to level `to`, with the primes of a
    /// key back.
    fn lifts_under_sparse(&mut self, to: Level) {
        let low = self.params.raising_limbs(Level(0));
        self.switches(low, Operand::Ciphertext, low.first(low.q()), 1);
        self.lifts_residues([self.params.limbs(to), self.params.raising_limbs(to)]);
    }

    pub(crate) fn raises(&mut self, to: Level, through_ephemeral: bool) {
        if !through_ephemeral {
            return self.lifts_residues([self.params.limbs(to); 2]);
        }
        let limbs = self.params.raising_limbs(to);
        self.lifts_under_sparse(to);
        self.multiplies_key(limbs, 1, 1);
        self.keeps(limbs.q(), Operand::Ciphertext);
        self.divides(limbs, limbs.first(limbs.q()), 2);
    }

    /// Counts a sum of automorphisms of raised ciphertexts, with keys of one digit.
    pub(crate) fn raises_and_multiplies(
        &mut self,
        sum: &AutomorphismSum,
        weights: WeightForm,
        count: usize,
    ) {
        let limbs = self.params.raising_limbs(sum.level);
        for _ in &sum.baby {
            self.multiplies_key(limbs, 1, count);
        }
        self.multiplies_weights(limbs, sum, weights, count);
        for _ in 0..count {
            self.lifts_under_sparse(sum.level);
            for g in &sum.baby {
                self.keeps(limbs.q(), Operand::Ciphertext);
                self.permutes(2 * limbs.count() * usize::from(g.0 != 1));
            }
            self.moves(2 * limbs.count());
            self.divides(limbs, self.after(sum.level), 2);
        }
    }

    /// Counts a group of a sum of images with `keys` keys, and with the identity if `identity` is
    /// set.
    pub(crate) fn sums_group(&mut self, limbs: LimbSet, keys: usize, identity: bool) {
        let q = limbs.q();
        let all = limbs.count();
        let digits = self.params.digit_primes_of(limbs).len();
        self.cuts(limbs, Operand::Alone);
        for _ in 0..keys {
            self.multiplies_key(limbs, digits, 1);
            self.keeps(q, Operand::Alone);
            self.permutes(2 * all);
            self.moves(all);
        }
        if identity {
            self.cached_products(q);
            self.moves(q + all);
        }
        // Both sums are written, and one is read again.
        self.moves(3 * all);
        self.divides(limbs, limbs.first(q), 1);
    }

    /// Counts the work before the first group and after the last, for the polynomial that stays
    /// undivided in between.
    pub(crate) fn raises_and_divides_kept(&mut self, limbs: LimbSet) {
        let q = limbs.q();
        let all = limbs.count();
        self.cached_products(q);
        self.moves(q + 2 * all);
        self.divides(limbs, limbs.first(q), 1);
    }

    pub(crate) fn adds(&mut self, level: Level) {
        self.moves(3 * 2 * self.params.limbs(level).q());
    }
}

/// One group of a sum of images.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AutomorphismGroup {
    pub images: usize,
    /// `true` if the sum's input is added. Otherwise one of the images is the identity.
    pub adds_input: bool,
    /// `true` for the last group.
    pub last: bool,
}

impl AutomorphismGroup {
    pub(crate) fn keys(self) -> usize {
        self.images - usize::from(!self.adds_input)
    }

    /// Returns the work with keys for every level.
    pub(crate) fn work(self, params: &Params, level: Level) -> Work {
        let mut ledger = Ledger { params, work: Work::default() };
        let limbs = params.key_limbs(level);
        ledger.sums_group(limbs, self.keys(), !self.adds_input);
        if self.adds_input || self.last {
            ledger.raises_and_divides_kept(limbs);
        }
        if self.adds_input {
            ledger.adds(level);
        }
        ledger.work
    }
}

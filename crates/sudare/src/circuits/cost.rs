//! An evaluator that says what circuits cost before any key exists.
//!
//! It runs a circuit on clear slots as [`sim`] does and adds up the [`Work`] that
//! [`crate::ckks::Evaluator`] would do with given keys. With the [`Rates`] of a machine
//! that is a time.

use super::{LinearPlan, Ops, sim};
use crate::{
    Result,
    ckks::{self, Chain, Complex, Scale},
    ring::LimbSet,
    rlwe::{GaloisElement, KeyRequest, Level, Params, ProductSum},
};
use core::ops::{AddAssign, Sub};
use serde::Serialize;
use std::sync::{Mutex, PoisonError};

/// Bits of the largest primes with the fast kernels of machines that have any.
const NARROW_BITS: u32 = 50;

/// What an evaluator does, by what limits it. A row is `N` residues modulo one prime.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Work {
    /// Rows transformed, in either direction, modulo primes of at most 50 bits.
    pub narrow_transforms: u64,
    /// The same modulo wider primes.
    pub wide_transforms: u64,
    /// Residues of keys and matrices that come from memory, packed, and are multiplied and
    /// summed. The rate includes the reading.
    pub streamed_products: u64,
    /// Products of residues in cache that are summed: changes of basis, products with
    /// constants and between ciphertexts, and what keys and matrices are multiplied with again
    /// once they are there.
    pub cached_products: u64,
    /// Residues moved by automorphisms.
    pub permuted: u64,
    /// Bytes of keys read for the streamed products.
    pub key_bytes: u64,
    /// Bytes of matrices read for them.
    pub matrix_bytes: u64,
    /// Bytes of rows of ciphertexts and digits, eight a residue, read and written beside the
    /// transforms.
    pub row_bytes: u64,
}

/// What work costs on a machine, in nanoseconds, with as many threads as will do it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Rates {
    /// Of a row in [`Work::narrow_transforms`], which comes from memory.
    pub narrow_transform_ns: f64,
    /// Of a row in [`Work::wide_transforms`].
    pub wide_transform_ns: f64,
    /// Of a residue in [`Work::streamed_products`].
    pub streamed_product_ns: f64,
    /// Of a residue in [`Work::cached_products`].
    pub cached_product_ns: f64,
    /// Of a residue in [`Work::permuted`].
    pub permuted_ns: f64,
    /// Of a byte in [`Work::row_bytes`].
    pub row_byte_ns: f64,
}

impl Rates {
    /// About those of one thread of the machine of `docs/performance.md` in rings of degree
    /// `2^log_n`: good for comparing one plan with another.
    #[must_use]
    pub fn reference(log_n: u32) -> Self {
        let row = f64::from(log_n) * f64::from(log_n).exp2();
        Self {
            narrow_transform_ns: 0.14 * row,
            wide_transform_ns: 0.35 * row,
            streamed_product_ns: 0.5,
            cached_product_ns: 0.2,
            permuted_ns: 0.4,
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

    /// The time that it takes, if each kind takes as long as alone.
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
        // Nothing of a kind takes no time at any rate.
        let parts = parts.into_iter().filter(|&(count, _)| count > 0);
        1e-9 * parts.map(|(count, ns)| count as f64 * ns).sum::<f64>()
    }

    /// Both, field by field.
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

/// What was done since an earlier count.
impl Sub for Work {
    type Output = Self;

    fn sub(self, earlier: Self) -> Self {
        self.zip(earlier, u64::saturating_sub)
    }
}

/// What a key switch is applied to, as the switcher tells operands apart.
#[derive(Debug, Clone, Copy)]
enum Operand {
    /// One polynomial is switched, the other kept.
    Ciphertext,
    /// A polynomial without another.
    Alone,
    /// A product that is computed on the way, with a ciphertext added or not.
    Product { adds: bool },
    /// Two polynomials are kept and a third is switched.
    Tensor,
}

/// Adds up what the layers below an evaluator do.
struct Ledger<'a> {
    params: &'a Params,
    work: Work,
}

impl Ledger<'_> {
    fn residues(&self, rows: usize) -> u64 {
        (rows as u64) << self.params.log_n()
    }

    fn cached_products(&mut self, rows: usize) {
        self.work.cached_products += self.residues(rows);
    }

    fn permutes(&mut self, rows: usize) {
        self.work.permuted += self.residues(rows);
    }

    /// Reads or writes rows.
    fn moves(&mut self, rows: usize) {
        self.work.row_bytes += 8 * self.residues(rows);
    }

    /// `count(i)` rows modulo the `i`-th prime.
    fn transforms(&mut self, limbs: LimbSet, count: impl Fn(usize) -> usize) {
        for i in 0..limbs.count() {
            let narrow = self.params.basis().modulus(limbs, i).bits() <= NARROW_BITS;
            let transforms = match narrow {
                true => &mut self.work.narrow_transforms,
                false => &mut self.work.wide_transforms,
            };
            *transforms += count(i) as u64;
        }
    }

    /// From rows modulo `from` primes to rows modulo `to` others: a sum of fractions, and for
    /// each a sum of one term more.
    fn converts(&mut self, from: usize, to: usize) {
        self.cached_products(from + (from + 1) * to);
        self.moves(from + to);
    }

    /// Cuts a polynomial modulo the chain primes of `limbs` and lifts and transforms digits.
    fn cuts(&mut self, limbs: LimbSet, operand: Operand) {
        let (q, all) = (limbs.q(), limbs.count());
        if let Operand::Product { .. } = operand {
            self.cached_products(q);
            self.moves(2 * q);
        }
        self.moves(q);
        let digits = self.params.digit_primes_of(limbs);
        for owned in &digits {
            self.converts(owned.len(), all - owned.len());
        }
        // Backwards for primes of the chain, forwards wherever a digit was lifted to.
        let owned = |i| usize::from(i < q);
        self.transforms(limbs, |i| owned(i) + digits.len() - owned(i));
    }

    /// Products of the digits of `count` polynomials with one key.
    fn multiplies_key(&mut self, limbs: LimbSet, digits: usize, count: usize) {
        let residues = self.residues(2 * digits * limbs.count());
        self.work.streamed_products += residues;
        self.work.cached_products += (count as u64 - 1) * residues;
        self.work.key_bytes += 2 * digits as u64 * self.params.basis().packed_bytes(limbs);
    }

    /// Sums with what is kept, modulo the `q` primes of the chain.
    fn keeps(&mut self, q: usize, operand: Operand) {
        let (products, rows) = match operand {
            Operand::Ciphertext => (1, 2),
            Operand::Alone => (0, 1),
            Operand::Tensor => (2, 3),
            // The digit that owns a prime is a product again, so are both that are kept, one of
            // them of two terms; each is summed with a factor.
            Operand::Product { adds } => {
                let added = 2 * usize::from(adds);
                (1 + 1 + 2 + 2 + added, 4 + added)
            }
        };
        self.cached_products(products * q);
        self.moves(rows * q);
    }

    /// Brings `count` polynomials modulo `limbs` to the primes `after`: the first of these, or
    /// others.
    fn divides(&mut self, limbs: LimbSet, after: LimbSet, count: usize) {
        let kept = if after.start() == limbs.start() { after.q() } else { 0 };
        self.transforms(limbs, |i| count * usize::from(i >= kept));
        self.transforms(after, |_| count);
        for _ in 0..count {
            self.converts(limbs.count() - kept, after.q());
            self.cached_products(after.q());
        }
    }

    /// A whole key switch of `count` operands with one key.
    fn switches(&mut self, limbs: LimbSet, operand: Operand, after: LimbSet, count: usize) {
        let digits = self.params.digit_primes_of(limbs).len();
        self.multiplies_key(limbs, digits, count);
        for _ in 0..count {
            self.cuts(limbs, operand);
            self.keeps(limbs.q(), operand);
            self.divides(limbs, after, 2);
        }
    }

    /// What `products` are together before relinearisation, with a ciphertext added or not.
    fn tensors(&mut self, q: usize, products: usize, adds: bool) {
        let added = 2 * usize::from(adds);
        self.cached_products(4 * products * q);
        self.moves((8 * products + 3 + 3 * added) * q);
    }

    fn rescales(&mut self, level: Level) {
        let limbs = self.params.limbs(level);
        self.moves(2 * limbs.q());
        self.divides(limbs, self.after(level), 2);
    }

    /// The primes one level down.
    fn after(&self, level: Level) -> LimbSet {
        let limbs = |below| self.params.limbs(Level(below));
        level.0.checked_sub(1).map_or(LimbSet::chain(0), limbs)
    }

    /// The sums of products of the images of `count` ciphertexts with the weights of a matrix,
    /// for both polynomials. Images are computed in cache, a block of a group of them at a time.
    /// A weight comes from memory once: the second polynomial and the other ciphertexts find it
    /// in cache.
    fn multiplies_matrix(&mut self, limbs: LimbSet, plan: &LinearPlan, count: usize) {
        let (weights, sum, all) = (plan.weights(), plan.rotation_sum(), limbs.count());
        let residues = self.residues(weights * all);
        self.work.streamed_products += residues;
        self.work.cached_products += (2 * count as u64 - 1) * residues;
        self.work.matrix_bytes += weights as u64 * self.params.basis().packed_bytes(limbs);
        self.moves(2 * count * sum.stages * all);
    }

    fn transforms_slots(&mut self, limbs: LimbSet, plan: &LinearPlan, count: usize) {
        let sum = plan.rotation_sum();
        let (q, all) = (limbs.q(), limbs.count());
        let digits = self.params.digit_primes_of(limbs).len();
        let turns = sum.baby.iter().filter(|&&k| k != 0).count();
        for _ in 0..turns {
            self.multiplies_key(limbs, digits, count);
        }
        self.multiplies_matrix(limbs, plan, count);
        for _ in 0..count {
            if turns > 0 {
                self.cuts(limbs, Operand::Ciphertext);
            }
            for &k in &sum.baby {
                match k {
                    0 => {
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
                // What is kept is read, both sums are read and written.
                self.moves(5 * all);
            }
            self.moves(2 * all);
            self.divides(limbs, self.after(plan.level()), 2);
        }
    }

    /// Both polynomials modulo the primes of level 0, lifted.
    fn lifts_residues(&mut self, to: [LimbSet; 2]) {
        let low = self.params.limbs(Level(0));
        self.transforms(low, |_| 2);
        for limbs in to {
            self.converts(low.q(), limbs.count());
            self.transforms(limbs, |_| 1);
        }
    }

    /// To an ephemeral secret and up to level `to`, there with the primes of a key back.
    fn lifts_under_sparse(&mut self, to: Level) {
        let low = self.params.raising_limbs(Level(0));
        self.switches(low, Operand::Ciphertext, low.first(low.q()), 1);
        self.lifts_residues([self.params.limbs(to), self.params.raising_limbs(to)]);
    }

    fn raises(&mut self, to: Level, through_ephemeral: bool) {
        if !through_ephemeral {
            return self.lifts_residues([self.params.limbs(to); 2]);
        }
        let limbs = self.params.raising_limbs(to);
        self.lifts_under_sparse(to);
        self.multiplies_key(limbs, 1, 1);
        self.keeps(limbs.q(), Operand::Ciphertext);
        self.divides(limbs, limbs.first(limbs.q()), 2);
    }

    fn raises_and_transforms(&mut self, plan: &LinearPlan, count: usize) {
        let limbs = self.params.raising_limbs(plan.level());
        let steps = plan.rotation_sum().baby;
        for _ in &steps {
            self.multiplies_key(limbs, 1, count);
        }
        self.multiplies_matrix(limbs, plan, count);
        for _ in 0..count {
            self.lifts_under_sparse(plan.level());
            for &k in &steps {
                self.keeps(limbs.q(), Operand::Ciphertext);
                self.permutes(2 * limbs.count() * usize::from(k != 0));
            }
            self.moves(2 * limbs.count());
            self.divides(limbs, self.after(plan.level()), 2);
        }
    }

    /// A group of a sum of images, with `keys` and once with the identity or not.
    fn sums_group(&mut self, limbs: LimbSet, keys: usize, identity: bool) {
        let (q, all) = (limbs.q(), limbs.count());
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

    /// Before the first group and after the last: the polynomial that stays undivided between.
    fn raises_and_divides_kept(&mut self, limbs: LimbSet) {
        let (q, all) = (limbs.q(), limbs.count());
        self.cached_products(q);
        self.moves(q + 2 * all);
        self.divides(limbs, limbs.first(q), 1);
    }

    fn adds(&mut self, level: Level) {
        self.moves(3 * 2 * self.params.limbs(level).q());
    }
}

/// A group of a sum of images that is divided into groups.
#[derive(Debug, Clone, Copy)]
pub(super) struct ImageGroup {
    pub images: usize,
    /// Whether the input of the whole is added. If not, one of the images is the identity.
    pub adds_input: bool,
    /// Whether it is the last group.
    pub last: bool,
}

impl ImageGroup {
    pub(super) fn keys(self) -> usize {
        self.images - usize::from(!self.adds_input)
    }

    /// With keys that are not fitted.
    pub(super) fn work(self, params: &Params, level: Level) -> Work {
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

/// [`Ops`] on clear slots, adding up [`Work`].
#[derive(Debug)]
pub struct Evaluator {
    params: Params,
    keys: KeyRequest,
    slots: sim::Evaluator,
    work: Mutex<Work>,
}

impl Evaluator {
    /// For these parameters and the whole keys of a request.
    #[must_use]
    pub fn new(params: &ckks::Params, keys: &KeyRequest) -> Self {
        let slots = sim::Evaluator::for_params(params).with_fitted_keys(keys);
        Self {
            params: params.rlwe().clone(),
            slots: match keys.raise {
                Some(raise) => slots.with_ephemeral_secret(raise.weight),
                None => slots,
            },
            keys: keys.clone(),
            work: Mutex::default(),
        }
    }

    /// The evaluator on clear slots inside, which makes ciphertexts and knows the keys used.
    #[must_use]
    pub fn slots(&self) -> &sim::Evaluator {
        &self.slots
    }

    /// What has been done since this evaluator was made.
    #[must_use]
    pub fn work(&self) -> Work {
        *self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add_work(&self, f: impl FnOnce(&mut Ledger<'_>)) {
        let mut ledger = Ledger { params: &self.params, work: Work::default() };
        f(&mut ledger);
        *self.work.lock().unwrap_or_else(PoisonError::into_inner) += ledger.work;
    }

    /// The primes of the keys that an operation at `level` uses.
    fn limbs(&self, level: Level, needed: &KeyRequest) -> LimbSet {
        let tier = self.keys.tier(self.params.levels().above(level), needed);
        self.params.tier_limbs(tier, level)
    }

    /// Sums of so many products, with a ciphertext added or not, at these levels; two in a row at
    /// one level share the reading of the key.
    fn add_products(&self, sums: impl Iterator<Item = (Level, usize, bool)>, rescales: bool) {
        let mut sums = sums.peekable();
        while let Some((level, products, adds)) = sums.next() {
            let count = 1 + usize::from(sums.next_if(|second| second.0 == level).is_some());
            let limbs = self.limbs(level, &KeyRequest::new().relinearize(level));
            self.add_work(|ledger| {
                let after = if rescales { ledger.after(level) } else { limbs.first(limbs.q()) };
                if products == 1 {
                    return ledger.switches(limbs, Operand::Product { adds }, after, count);
                }
                (0..count).for_each(|_| ledger.tensors(limbs.q(), products, adds));
                ledger.switches(limbs, Operand::Tensor, after, count);
            });
        }
    }

    /// Transforms a polynomial that is encoded at `level`.
    fn add_encoding(&self, level: Level) {
        self.add_work(|ledger| {
            let limbs = ledger.params.limbs(level);
            ledger.transforms(limbs, |_| 1);
        });
    }

    /// Reads `read` ciphertexts at `level` for each that is written, and multiplies `terms`.
    fn add_rows(&self, level: Level, read: usize, terms: usize) {
        self.add_work(|ledger| {
            let rows = 2 * ledger.params.limbs(level).q();
            ledger.cached_products(terms * rows);
            ledger.moves((read + 1) * rows);
        });
    }
}

impl Ops for Evaluator {
    type Ct = sim::Ciphertext;
    type Matrix = LinearPlan;

    fn log_n(&self) -> u32 {
        self.slots.log_n()
    }
    fn chain(&self) -> &Chain {
        self.slots.chain()
    }
    fn level(&self, a: &Self::Ct) -> Level {
        self.slots.level(a)
    }
    fn log_slots(&self, a: &Self::Ct) -> u32 {
        self.slots.log_slots(a)
    }
    fn scale(&self, a: &Self::Ct) -> Scale {
        self.slots.scale(a)
    }
    fn with_scale(&self, a: &Self::Ct, scale: Scale) -> Result<Self::Ct> {
        self.slots.with_scale(a, scale)
    }
    fn with_log_slots(&self, a: &Self::Ct, log_slots: u32) -> Result<Self::Ct> {
        self.slots.with_log_slots(a, log_slots)
    }
    fn add(&self, a: &Self::Ct, b: &Self::Ct) -> Result<Self::Ct> {
        let sum = self.slots.add(a, b)?;
        self.add_work(|ledger| ledger.adds(sum.level));
        Ok(sum)
    }
    fn sub(&self, a: &Self::Ct, b: &Self::Ct) -> Result<Self::Ct> {
        let difference = self.slots.sub(a, b)?;
        self.add_work(|ledger| ledger.adds(difference.level));
        Ok(difference)
    }
    fn mul(&self, a: &Self::Ct, b: &Self::Ct) -> Result<Self::Ct> {
        Ok(self.mul_many(&[(a, b)])?.remove(0))
    }
    fn mul_rescale(&self, a: &Self::Ct, b: &Self::Ct) -> Result<Self::Ct> {
        Ok(self.mul_rescale_many(&[(a, b)])?.remove(0))
    }
    fn mul_many(&self, pairs: &[(&Self::Ct, &Self::Ct)]) -> Result<Vec<Self::Ct>> {
        let products = self.slots.mul_many(pairs)?;
        self.add_products(products.iter().map(|product| (product.level, 1, false)), false);
        Ok(products)
    }
    fn mul_rescale_many(&self, pairs: &[(&Self::Ct, &Self::Ct)]) -> Result<Vec<Self::Ct>> {
        let products = self.slots.mul_rescale_many(pairs)?;
        self.add_products(products.iter().map(|product| (above(product), 1, false)), true);
        Ok(products)
    }
    fn mul_sum_rescale(&self, sum: &ProductSum<'_, Self::Ct>) -> Result<Self::Ct> {
        Ok(self.mul_sum_rescale_many(core::slice::from_ref(sum))?.remove(0))
    }
    fn mul_sum_rescale_many(&self, sums: &[ProductSum<'_, Self::Ct>]) -> Result<Vec<Self::Ct>> {
        let results = self.slots.mul_sum_rescale_many(sums)?;
        let parts = results
            .iter()
            .zip(sums)
            .map(|(result, sum)| (above(result), sum.products.len(), sum.addend.is_some()));
        self.add_products(parts, true);
        Ok(results)
    }
    fn add_const(&self, a: &Self::Ct, c: Complex<f64>) -> Result<Self::Ct> {
        let sum = self.slots.add_const(a, c)?;
        self.add_rows(sum.level, 1, 0);
        Ok(sum)
    }
    /// A constant that is not real is a polynomial, which is transformed.
    fn mul_const(&self, a: &Self::Ct, c: Complex<f64>, scale: Scale) -> Result<Self::Ct> {
        let product = self.slots.mul_const(a, c, scale)?;
        self.add_rows(product.level, 1, 1);
        if c.im != 0.0 {
            self.add_encoding(product.level);
        }
        Ok(product)
    }
    fn mul_const_sum(&self, terms: &[(&Self::Ct, f64, Scale)]) -> Result<Self::Ct> {
        let sum = self.slots.mul_const_sum(terms)?;
        self.add_rows(sum.level, terms.len(), terms.len());
        Ok(sum)
    }
    fn add_plain(&self, a: &Self::Ct, values: &[Complex<f64>]) -> Result<Self::Ct> {
        let sum = self.slots.add_plain(a, values)?;
        self.add_encoding(sum.level);
        self.add_rows(sum.level, 1, 0);
        Ok(sum)
    }
    fn mul_plain_many(
        &self,
        xs: &[&Self::Ct],
        values: &[Complex<f64>],
        scale: Scale,
    ) -> Result<Vec<Self::Ct>> {
        let products = self.slots.mul_plain_many(xs, values, scale)?;
        if let Some(level) = products.iter().map(|product| product.level).max() {
            self.add_encoding(level);
        }
        products.iter().for_each(|product| self.add_rows(product.level, 1, 1));
        Ok(products)
    }
    fn rescale_assign(&self, a: &mut Self::Ct) -> Result<()> {
        let level = a.level;
        self.slots.rescale_assign(a)?;
        self.add_work(|ledger| ledger.rescales(level));
        Ok(())
    }
    fn drop_to(&self, a: &mut Self::Ct, level: Level) -> Result<()> {
        self.slots.drop_to(a, level)
    }
    fn automorphism(&self, a: &Self::Ct, g: GaloisElement) -> Result<Self::Ct> {
        let image = self.slots.automorphism(a, g)?;
        if g.0 != 1 {
            let limbs = self.limbs(a.level, &KeyRequest::new().automorphism(g, a.level));
            self.add_work(|ledger| {
                ledger.switches(limbs, Operand::Ciphertext, limbs.first(limbs.q()), 1);
                ledger.permutes(2 * limbs.q());
            });
        }
        Ok(image)
    }
    fn sum_images(&self, a: &Self::Ct, groups: &[&[GaloisElement]]) -> Result<Self::Ct> {
        let sum = self.slots.sum_images(a, groups)?;
        let elements = groups.iter().copied().flatten().filter(|g| g.0 != 1);
        let needed = elements.fold(KeyRequest::new(), |all, &g| all.automorphism(g, a.level));
        let limbs = self.limbs(a.level, &needed);
        self.add_work(|ledger| {
            for group in groups {
                let keys = group.iter().filter(|g| g.0 != 1).count();
                ledger.sums_group(limbs, keys, keys < group.len());
            }
            ledger.raises_and_divides_kept(limbs);
        });
        Ok(sum)
    }
    fn mod_raise(&self, a: &Self::Ct, to: Level, weight: Option<u32>) -> Result<Self::Ct> {
        let raised = self.slots.mod_raise(a, to, weight)?;
        self.add_work(|ledger| ledger.raises(to, self.keys.raise.is_some()));
        Ok(raised)
    }
    fn prepare(&self, plan: &LinearPlan) -> Result<LinearPlan> {
        self.slots.prepare(plan)
    }
    fn transform(&self, a: &Self::Ct, plan: &LinearPlan) -> Result<Self::Ct> {
        Ok(self.transform_many(&[a], plan)?.remove(0))
    }
    fn transform_many(&self, xs: &[&Self::Ct], plan: &LinearPlan) -> Result<Vec<Self::Ct>> {
        let products = self.slots.transform_many(xs, plan)?;
        if xs.is_empty() {
            return Ok(products);
        }
        let limbs = self.limbs(plan.level(), plan.required_keys());
        self.add_work(|ledger| ledger.transforms_slots(limbs, plan, xs.len()));
        Ok(products)
    }
    fn within(&self, a: Self::Ct, most: f64) -> Self::Ct {
        self.slots.within(a, most)
    }
    fn argument(&self, a: Self::Ct) -> (Self::Ct, f64) {
        self.slots.argument(a)
    }
    fn image(&self, y: Self::Ct, error: f64, degree: usize, slope: f64) -> Self::Ct {
        self.slots.image(y, error, degree, slope)
    }
    fn raise_transform(&self, a: &Self::Ct, plan: &LinearPlan) -> Result<Self::Ct> {
        Ok(self.raise_transform_many(&[a], plan)?.remove(0))
    }
    fn raise_transform_many(&self, xs: &[&Self::Ct], plan: &LinearPlan) -> Result<Vec<Self::Ct>> {
        let products = self.slots.raise_transform_many(xs, plan)?;
        if !xs.is_empty() {
            self.add_work(|ledger| ledger.raises_and_transforms(plan, xs.len()));
        }
        Ok(products)
    }
}

/// The level that `a` was rescaled from.
fn above(a: &sim::Ciphertext) -> Level {
    Level(a.level.0 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        circuits::LinearTransform,
        rlwe::{KeyGenerator, Raise},
    };
    use std::sync::Arc;

    const LOG_N: u32 = 6;
    const N: u64 = 1 << LOG_N;
    /// Bytes of a row.
    const ROW: u64 = 8 * N;
    /// Chain primes, special ones and digits at the top.
    const Q: u64 = 4;
    const P: u64 = 2;
    const DIGITS: u64 = 2;

    fn params() -> ckks::Params {
        let spec = ckks::Spec::uniform(LOG_N, 50.0, 3, 40.0, vec![48.0, 48.0]);
        ckks::Params::new(ckks::Spec { insecure: true, ..spec }).unwrap()
    }

    /// The work of a circuit on a ciphertext at the top.
    fn work<T>(
        params: &ckks::Params,
        keys: &KeyRequest,
        circuit: impl FnOnce(&Evaluator, &sim::Ciphertext) -> Result<T>,
    ) -> Work {
        let e = Evaluator::new(params, keys);
        let (top, slots) = (params.top(), vec![Complex::new(0.5, 0.0); params.max_slots()]);
        let x = e.slots().encrypt(&slots, top, params.scale_at(top)).unwrap();
        circuit(&e, &x).unwrap();
        e.work()
    }

    /// Transforms of a key switch with a division: of every prime back, of every digit to the
    /// primes that it lacks, of the divisor back and of what stays forth, for two polynomials.
    fn switch_transforms(q: u64, p: u64, digits: u64) -> u64 {
        q + (digits * (q + p) - q) + 2 * p + 2 * q
    }

    /// Products of a change of basis: fractions, and a sum of one term more for each target.
    fn conversion(from: u64, to: u64) -> u64 {
        from + (from + 1) * to
    }

    #[test]
    fn a_product_costs_what_its_key_switch_does() {
        let params = params();
        let key_bytes = params.rlwe().switching_key_bytes(params.top());
        let keys = KeyRequest::new();
        let product = work(&params, &keys, |e, x| e.mul_rescale(x, x));
        assert_eq!(product.transforms(), switch_transforms(Q, P, DIGITS));
        assert_eq!(product.streamed_products, 2 * DIGITS * (Q + P) * N);
        assert_eq!((product.key_bytes, product.matrix_bytes), (key_bytes, 0));
        // Digits of two primes each: fractions, four primes of sums of three terms. Division by
        // three primes of two polynomials: fractions, three primes of sums of four, differences.
        let conversions = 2 * (2 + 4 * 3) + 2 * (3 + 3 * 4 + 3);
        // What is switched, twice, and what is kept, 1 and 2 terms, each with a factor.
        let tensor = (2 + 3 + 2) * Q;
        assert_eq!(product.cached_products, (conversions + tensor) * N);
        assert_eq!(product.permuted, 0);

        // The rescaling costs a division of its own where it does not come with the product.
        let separate = work(&params, &keys, |e, x| {
            let mut product = e.mul(x, x)?;
            e.rescale_assign(&mut product)
        });
        assert_eq!(separate.transforms(), product.transforms() + 2 * Q);

        let pair = work(&params, &keys, |e, x| e.mul_rescale_many(&[(x, x), (x, x)]));
        assert_eq!(pair.transforms(), 2 * product.transforms());
        assert_eq!(pair.products(), 2 * product.products());
        assert_eq!(pair.key_bytes, key_bytes);

        // The sum that is added comes with a factor, both polynomials of it.
        let sum = |e: &Evaluator, x: &_| {
            let c = e.mul(x, x)?;
            let before = e.work();
            e.mul_sum_rescale(&ProductSum { products: vec![(x, x)], addend: Some(&c) })?;
            Ok(e.work() - before)
        };
        let mut difference = Work::default();
        work(&params, &keys, |e, x| sum(e, x).map(|sum| difference = sum - product));
        let added = Work { cached_products: 2 * Q * N, row_bytes: 2 * Q * ROW, ..Work::default() };
        assert_eq!(difference, added);

        // Several products take one key switch. They are there before it, and both polynomials
        // that are kept come with a factor.
        let two = work(&params, &keys, |e, x| {
            e.mul_sum_rescale(&ProductSum { products: vec![(x, x); 2], addend: None })
        });
        assert_eq!((two.transforms(), two.key_bytes), (product.transforms(), key_bytes));
        assert_eq!(two.cached_products, (conversions + 2 * 4 * Q + 2 * Q) * N);
    }

    /// Every row of every operand is read once and every row of the result written once.
    #[test]
    fn what_takes_no_key_costs_its_rows() {
        let params = params();
        let count = |circuit: &dyn Fn(&Evaluator, &sim::Ciphertext) -> Result<()>| {
            work(&params, &KeyRequest::new(), circuit)
        };
        let rows = |rows: u64| Work { row_bytes: rows * 2 * Q * ROW, ..Work::default() };
        let (scale, i) = (params.scale_at(params.top()), Complex::new(0.0, 1.0));
        assert_eq!(count(&|e, x| e.add(x, x).map(drop)), rows(3));
        assert_eq!(count(&|e, x| e.sub(x, x).map(drop)), rows(3));
        assert_eq!(count(&|e, x| e.add_const(x, i).map(drop)), rows(2));
        let real = count(&|e, x| e.mul_const(x, Complex::new(0.5, 0.0), scale).map(drop));
        assert_eq!(real, Work { cached_products: 2 * Q * N, ..rows(2) });
        let complex = count(&|e, x| e.mul_const(x, i, scale).map(drop));
        assert_eq!((complex.transforms(), complex.products()), (Q, 2 * Q * N));
        let sum = count(&|e, x| e.mul_const_sum(&[(x, 0.5, scale); 3]).map(drop));
        assert_eq!(sum, Work { cached_products: 3 * 2 * Q * N, ..rows(4) });

        let slots = vec![i; 1 << (LOG_N - 1)];
        let sum = count(&|e, x| e.add_plain(x, &slots).map(drop));
        assert_eq!((sum.transforms(), sum.row_bytes), (Q, rows(2).row_bytes));
        let products = count(&|e, x| e.mul_plain_many(&[x; 3], &slots, scale).map(drop));
        assert_eq!((products.transforms(), products.products()), (Q, 3 * 2 * Q * N));
        assert_eq!(products.row_bytes, rows(6).row_bytes);

        // Both polynomials are read, their last rows lifted to the others and subtracted.
        let rescaled = count(&|e, x| e.rescale_assign(&mut x.clone()));
        assert_eq!(rescaled.transforms(), 2 * Q);
        assert_eq!(rescaled.cached_products, 2 * (conversion(1, Q - 1) + Q - 1) * N);
        assert_eq!(rescaled.row_bytes, rows(2).row_bytes);
    }

    #[test]
    fn raising_through_an_ephemeral_secret_takes_both_its_keys() {
        let params = params();
        let (top, weight) = (params.top(), 8);
        let direct = work(&params, &KeyRequest::new(), |e, x| e.mod_raise(x, top, None));
        assert_eq!(direct.transforms(), 2 + 2 * Q);
        assert_eq!((direct.streamed_products, direct.key_bytes), (0, 0));

        let keys = KeyRequest::new().raise(Raise { level: top, weight });
        let raised = work(&params, &keys, |e, x| e.mod_raise(x, top, Some(weight)));
        // A switch at level 0, both polynomials lifted, one of them with the special primes of
        // the key back, which divide two.
        let transforms = switch_transforms(1, P, 1) + 2 + Q + (Q + P) + 2 * (Q + P);
        assert_eq!(raised.transforms(), transforms);
        assert_eq!(raised.streamed_products, 2 * (1 + P + Q + P) * N);
        assert_eq!(raised.key_bytes, keys.bytes(params.rlwe()).unwrap());
        assert_eq!(raised.permuted, 0);
    }

    /// What `docs/performance.md` counts in one product of this set.
    #[test]
    fn a_product_at_610_bits_takes_90_transforms() {
        let params = ckks::Params::new(ckks::preset("bench-n15-q610").unwrap().spec).unwrap();
        let product = work(&params, &KeyRequest::new(), |e, x| e.mul_rescale(x, x));
        assert_eq!((product.narrow_transforms, product.wide_transforms), (90, 0));
    }

    #[test]
    fn a_rotation_is_a_key_switch_and_a_permutation() {
        let params = params();
        let rotation = work(&params, &KeyRequest::new(), |e, x| e.rotate(x, 3));
        assert_eq!(rotation.transforms(), switch_transforms(Q, P, DIGITS));
        assert_eq!(rotation.permuted, 2 * Q * N);
        // Digits, what is kept, the division of both sums.
        let cached = DIGITS * conversion(2, Q + P - 2) + Q + 2 * (conversion(P, Q) + Q);
        assert_eq!(rotation.cached_products, cached * N);
        let rows = Q + DIGITS * (Q + P) + 2 * Q + 2 * (Q + P);
        assert_eq!(rotation.row_bytes, rows * ROW);
        assert_eq!(rotation.key_bytes, params.rlwe().switching_key_bytes(params.top()));
        let identity = work(&params, &KeyRequest::new(), |e, x| e.rotate(x, 0));
        assert_eq!(identity, Work::default());
    }

    /// Each key and each weight is read once, whatever the keys are.
    #[test]
    fn a_matrix_reads_what_an_evaluator_holds() {
        let spec = ckks::Spec::uniform(LOG_N, 50.0, 3, 40.0, vec![48.0; 2]);
        let spec = ckks::Spec { insecure: true, fitted_p_bits: vec![48.0; 2], ..spec };
        let params = ckks::Params::new(spec).unwrap();
        let (rlwe, top) = (params.rlwe(), params.top());
        let slots = params.max_slots();
        let diagonal = |k: usize| (k, vec![Complex::new(0.5, k as f64); slots]);
        let matrix = LinearTransform::new(LOG_N - 1, (0..7).map(diagonal).collect()).unwrap();
        let (scale, out) = (params.scale_at(top), params.scale_at(Level(top.0 - 1)));
        let plan = matrix.plan(LOG_N, params.chain(), top, scale, out).unwrap();
        let stages = plan.rotation_sum().stages as u64;
        assert!(stages > 1);
        for fitted in [false, true] {
            let mut request = plan.required_keys().clone();
            if fitted {
                request = request.into_fitted(rlwe);
                assert_eq!(request.fitted.len(), 1);
            }
            let work = work(&params, &request, |e, x| plan.run(e, &plan, x));
            assert_eq!(work.key_bytes, request.bytes(rlwe).unwrap());
            let mut generator = KeyGenerator::new(rlwe).unwrap();
            let secret = generator.secret_key().unwrap();
            let keys = generator.evaluation_keys(&secret, &request).unwrap();
            let evaluator = ckks::Evaluator::new(&params, Arc::new(keys)).unwrap();
            assert_eq!(work.matrix_bytes, evaluator.prepare(&plan).unwrap().bytes());

            let limbs = if fitted { rlwe.fitted_limbs(top).unwrap() } else { rlwe.key_limbs(top) };
            let (digits, all) = (rlwe.digit_primes_of(limbs).len() as u64, limbs.count() as u64);
            // A decomposition a stage; a division of one polynomial between, of two at the end.
            assert_eq!(work.transforms(), all * (digits * stages + (stages - 1) + 2));
            assert_eq!(work.permuted, 2 * all * N * request.count() as u64);
            let weights = plan.weights() as u64;
            let streamed = (2 * digits * request.count() as u64 + weights) * all * N;
            assert_eq!(work.streamed_products, streamed);
            // Weights again for the second polynomial; digits; the chain primes of what is kept,
            // of one polynomial for each key of a baby step and of two for the identity;
            // divisions of one polynomial between stages, of two at the end.
            let (q, after) = (limbs.q() as u64, rlwe.limbs(Level(top.0 - 1)).q() as u64);
            let lift = |owned: &core::ops::Range<usize>| {
                conversion(owned.len() as u64, all - owned.len() as u64)
            };
            let lifts: u64 = rlwe.digit_primes_of(limbs).iter().map(lift).sum();
            let divisions = (stages - 1) * (conversion(all - q, q) + q)
                + 2 * (conversion(all - after, after) + after);
            let kept = (request.count() as u64 - 1 + 2) * q;
            let cached = weights * all + stages * lifts + kept + divisions;
            assert_eq!(work.cached_products, cached * N);
        }
    }

    #[test]
    fn work_becomes_time() {
        let rates = Rates {
            narrow_transform_ns: 100.0,
            wide_transform_ns: 0.0,
            streamed_product_ns: 10.0,
            cached_product_ns: 2.0,
            permuted_ns: 3.0,
            row_byte_ns: 0.5,
        };
        let work = Work {
            narrow_transforms: 1,
            streamed_products: 2,
            cached_products: 3,
            permuted: 4,
            row_bytes: 8,
            key_bytes: 1000,
            ..Work::default()
        };
        assert!((work.seconds(&rates) - 142e-9).abs() < 1e-18);
        let mut twice = work;
        twice += work;
        assert_eq!(twice - work, work);
    }

    /// To the top all primes before are transformed back and all after forth, of which there
    /// may be more than before.
    #[test]
    fn a_change_of_primes_transforms_all() {
        let spec = ckks::Spec::uniform(LOG_N, 40.0, 7, 40.0, vec![54.0]);
        let raised =
            ckks::RaisedSpec { base_bits: vec![320.0 / 6.0; 6], levels_bits: vec![vec![50.0]] };
        let spec = ckks::Spec { insecure: true, raised: Some(raised), ..spec };
        let params = ckks::Params::new(spec).unwrap();
        let (rlwe, highest) = (params.rlwe(), params.raised_top());
        assert_eq!((rlwe.limbs(highest).q(), rlwe.limbs(params.top()).q()), (7, 8));
        let keys = KeyRequest::new().relinearize(highest).into_fitted(rlwe);
        let digits = rlwe.digit_primes_of(rlwe.fitted_limbs(highest).unwrap()).len() as u64;
        let work = |circuit: &dyn Fn(&Evaluator, &sim::Ciphertext)| {
            let e = Evaluator::new(&params, &keys);
            let slots = vec![Complex::new(0.5, 0.0); params.max_slots()];
            let x = e.slots().encrypt(&slots, Level(0), Scale::from_log2(30.0)).unwrap();
            let x = e.slots().mod_raise(&x, highest, None).unwrap();
            circuit(&e, &x);
            e.work()
        };
        let rescaled = work(&|e, x| e.rescale_assign(&mut x.clone()).unwrap());
        assert_eq!(rescaled.transforms(), 2 * (7 + 8));
        let product = work(&|e, x| drop(e.mul_rescale(x, x).unwrap()));
        assert_eq!(product.transforms(), 7 + (digits * 8 - 7) + 2 * (8 + 8));
        assert_eq!(product.key_bytes, keys.bytes(rlwe).unwrap());
    }
}

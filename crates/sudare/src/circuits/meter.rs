//! Work of a circuit, added up operation by operation.

use crate::{
    ring::LimbSet,
    rlwe::{
        AutomorphismSum, GaloisElement, KeyRequest, Level, Params, WeightForm, Work,
        work::{Ledger, Operand},
    },
};
use std::sync::{Mutex, PoisonError};

/// Adds up the [`Work`] of operations with given keys, for any algebra.
#[derive(Debug)]
pub(super) struct Meter {
    params: Params,
    keys: KeyRequest,
    work: Mutex<Work>,
}

impl Meter {
    /// Makes a meter for these parameters and the whole keys of a request.
    pub(super) fn new(params: &Params, keys: &KeyRequest) -> Self {
        Self { params: params.clone(), keys: keys.clone(), work: Mutex::default() }
    }

    /// Work since the meter was made.
    pub(super) fn work(&self) -> Work {
        *self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, f: impl FnOnce(&mut Ledger<'_>)) {
        let mut ledger = Ledger { params: &self.params, work: Work::default() };
        f(&mut ledger);
        *self.work.lock().unwrap_or_else(PoisonError::into_inner) += ledger.work;
    }

    /// Returns the level of the level keys for an operation at `level`, or `None` for keys for
    /// every level.
    pub(super) fn key_level(&self, level: Level, needed: &KeyRequest) -> Option<Level> {
        self.keys.key_level(self.params.levels().above(level), needed)
    }

    /// Returns the primes of the keys for an operation at `level`.
    fn limbs(&self, level: Level, needed: &KeyRequest) -> LimbSet {
        self.params.limbs_of_keys(self.key_level(level, needed), level)
    }

    /// Counts a sum of two ciphertexts.
    pub(super) fn adds(&self, level: Level) {
        self.add(|ledger| ledger.adds(level));
    }

    /// Counts sums of products at these levels, each with its number of products, and with or
    /// without an added ciphertext. Two consecutive sums at one level share the reading of the key.
    pub(super) fn multiplies(
        &self,
        sums: impl Iterator<Item = (Level, usize, bool)>,
        rescales: bool,
    ) {
        let mut sums = sums.peekable();
        while let Some((level, products, adds)) = sums.next() {
            // As `rlwe::Evaluator::mul_sums` pairs them.
            let count = 1 + usize::from(sums.next_if(|second| second.0 == level).is_some());
            let limbs = self.limbs(level, &KeyRequest::new().relinearize(level));
            self.add(|ledger| {
                let after = if rescales { ledger.after(level) } else { limbs.first(limbs.q()) };
                // The key switch computes a single product on its way, without a tensor of its own.
                if products == 1 {
                    return ledger.switches(limbs, Operand::Product { adds }, after, count);
                }
                (0..count).for_each(|_| ledger.tensors(limbs.q(), products, adds));
                ledger.switches(limbs, Operand::Tensor, after, count);
            });
        }
    }

    /// Counts a sum of `products` products divided by `Q / t`, with `auxiliary` additional primes,
    /// and with or without an added ciphertext.
    pub(super) fn multiplies_scaled(
        &self,
        level: Level,
        products: usize,
        adds: bool,
        auxiliary: usize,
        rescales: bool,
    ) {
        let limbs = self.limbs(level, &KeyRequest::new().relinearize(level));
        self.add(|ledger| {
            let chain = limbs.first(limbs.q());
            ledger.scaled_tensors(chain, auxiliary, products, adds);
            let after = if rescales { ledger.after(level) } else { chain };
            ledger.switches(limbs, Operand::Tensor, after, 1);
        });
    }

    /// Counts the transforms of a polynomial encoded at `level`.
    pub(super) fn encodes(&self, level: Level) {
        self.add(|ledger| {
            let limbs = ledger.params.limbs(level);
            ledger.transforms(limbs, |_| 1);
        });
    }

    /// Counts passes over ciphertexts at `level`: `read` of them per written one, and `terms`
    /// products.
    pub(super) fn passes(&self, level: Level, read: usize, terms: usize) {
        self.add(|ledger| {
            let rows = 2 * ledger.params.limbs(level).q();
            ledger.cached_products(terms * rows);
            ledger.moves((read + 1) * rows);
        });
    }

    /// Counts a rescaling from `level`.
    pub(super) fn rescales(&self, level: Level) {
        self.add(|ledger| ledger.rescales(level));
    }

    /// Counts an automorphism.
    pub(super) fn permutes(&self, level: Level, g: GaloisElement) {
        if g.0 == 1 {
            return;
        }
        let limbs = self.limbs(level, &KeyRequest::new().automorphism(g, level));
        self.add(|ledger| {
            ledger.switches(limbs, Operand::Ciphertext, limbs.first(limbs.q()), 1);
            ledger.permutes(2 * limbs.q());
        });
    }

    /// Counts a sum of images for each group in turn.
    pub(super) fn sums_images(&self, level: Level, groups: &[&[GaloisElement]]) {
        let elements = groups.iter().copied().flatten().filter(|g| g.0 != 1);
        let needed = elements.fold(KeyRequest::new(), |all, &g| all.automorphism(g, level));
        let limbs = self.limbs(level, &needed);
        self.add(|ledger| {
            for group in groups {
                let keys = group.iter().filter(|g| g.0 != 1).count();
                ledger.sums_group(limbs, keys, keys < group.len());
            }
            ledger.raises_and_divides_kept(limbs);
        });
    }

    /// Counts a sum of automorphisms of `count` ciphertexts with a matrix of these weights, with
    /// the required keys.
    pub(super) fn multiplies_matrix(
        &self,
        needed: &KeyRequest,
        sum: &AutomorphismSum,
        weights: WeightForm,
        count: usize,
    ) {
        let limbs = self.limbs(sum.level, needed);
        self.add(|ledger| ledger.multiplies_diagonals(limbs, sum, weights, count));
    }

    /// Counts raising from level 0.
    pub(super) fn raises(&self, to: Level) {
        self.add(|ledger| ledger.raises(to, self.keys.raise.is_some()));
    }

    /// Counts raising `count` ciphertexts, and a sum of automorphisms of the raised ones.
    pub(super) fn raises_and_multiplies(
        &self,
        sum: &AutomorphismSum,
        weights: WeightForm,
        count: usize,
    ) {
        self.add(|ledger| ledger.raises_and_multiplies(sum, weights, count));
    }
}

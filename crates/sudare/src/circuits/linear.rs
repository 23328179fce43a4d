//! Products of matrices with encrypted slots, by diagonals.

use super::algebra::{Algebra, OwnedVector};
use crate::{
    Error, Result,
    ring::LimbSet,
    rlwe::{
        AutomorphismSum, Chain, GaloisElement, KeyRequest, Level, Params, Raise, Scale, WeightForm,
    },
};
use core::{borrow::Borrow, fmt::Debug};
use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};
use steps::{Steps, first_after_gap};
use sudare_arith::NttTable;

mod steps;

/// `log2` of the maximum number of slots: half the largest ring.
pub(super) const MAX_LOG_SLOTS: u32 = 16;

/// The name of the operation in errors.
pub(super) const OP: &str = "linear transform";

/// The image of the slots that a diagonal multiplies. An image by a rotation alone converts from a
/// number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Offset {
    /// Slots of the left rotation, within each row if slots form several.
    pub columns: usize,
    /// `true` if the image under `X -> X^-1` is taken as well, which conjugates complex slots and
    /// swaps two rows of slots.
    pub conjugated: bool,
}

impl From<usize> for Offset {
    fn from(columns: usize) -> Self {
        Self { columns, conjugated: false }
    }
}

impl Offset {
    /// Returns the offset of `columns` more, modulo the number of rows.
    fn moved(self, columns: usize, rows: usize) -> Self {
        Self { columns: (self.columns + columns) % rows, ..self }
    }

    /// Returns the automorphism of the image, in the ring of degree `2^log_n`.
    pub(super) fn element(self, log_n: u32) -> GaloisElement {
        let rotation = GaloisElement::rotation(log_n, self.columns as i64);
        if self.conjugated { rotation.conjugated(log_n) } else { rotation }
    }
}

/// A square matrix over the slots whose diagonals are computed when they are needed.
///
/// The matrix of a layer of a network has thousands of diagonals, which take more memory than its
/// weights. A [`LinearPlan`] asks for one at a time.
pub trait Diagonals<A: Algebra>: Debug + Send + Sync {
    /// `log2` of the number of rows.
    fn log_slots(&self) -> u32;
    /// Returns the offsets of the diagonals that are not zero, in ascending order.
    fn offsets(&self) -> Vec<Offset>;
    /// Returns the diagonal of an offset, with an entry for each row, or `None` if it is zero.
    fn diagonal(&self, offset: Offset) -> Option<Cow<'_, A::Vector>>;
    /// Returns the smallest gap of all diagonals in the ring of degree `2^log_n`; see
    /// [`Algebra::log_gap`]. A matrix without a known period has none.
    fn log_gap(&self, _log_n: u32) -> u32 {
        0
    }
}

/// A square matrix over the slots, by its nonzero diagonals.
///
/// Diagonal `k` holds the entries `(i, i + k mod slots)` in the order of `i`, so the product with
/// `x` is `sum_k diagonal_k * rotate(x, k)`. Diagonals of conjugated offsets multiply rotations of
/// the conjugate of `x`.
#[derive(Debug, Clone, PartialEq)]
pub struct LinearTransform<A: Algebra> {
    pub(super) log_slots: u32,
    pub(super) diagonals: BTreeMap<Offset, OwnedVector<A>>,
}

impl<A: Algebra> LinearTransform<A> {
    /// Makes the matrix of `2^log_slots` rows with these diagonals, each with its offset, which is
    /// below the number of rows.
    ///
    /// # Errors
    /// [`Error::Circuit`] for an offset or a length that does not fit the number of rows;
    /// [`Error::NotFinite`] for an entry that is NaN or infinite.
    pub fn new<O: Into<Offset>>(
        log_slots: u32,
        diagonals: BTreeMap<O, OwnedVector<A>>,
    ) -> Result<Self> {
        // Before the shift below, which would overflow.
        if log_slots > MAX_LOG_SLOTS {
            return Err(Error::Circuit(format!(
                "{OP}: 2^{log_slots} rows; at most 2^{MAX_LOG_SLOTS} are possible"
            )));
        }
        let rows = 1usize << log_slots;
        let diagonals: BTreeMap<Offset, _> =
            diagonals.into_iter().map(|(offset, entries)| (offset.into(), entries)).collect();
        for (offset, entries) in &diagonals {
            if offset.columns >= rows || !A::fits(entries.borrow(), rows)? {
                return Err(Error::Circuit(format!(
                    "{OP}: diagonal {} does not fit a matrix of {rows} rows: an offset below that \
                     and an entry for each row are needed",
                    offset.columns
                )));
            }
        }
        Ok(Self { log_slots, diagonals })
    }

    /// `log2` of the number of rows.
    #[must_use]
    pub fn log_slots(&self) -> u32 {
        self.log_slots
    }

    /// Returns the matrix that rotates the result of this one to the left by `columns`, below
    /// the number of rows.
    #[must_use]
    pub(super) fn rotated(&self, columns: usize) -> Self {
        let rows = 1usize << self.log_slots;
        let turned = self.diagonals.iter().map(|(&offset, entries)| {
            let entries = A::rotated_right(entries.borrow(), (rows - columns) % rows);
            (offset.moved(columns, rows), entries)
        });
        Self { log_slots: self.log_slots, diagonals: turned.collect() }
    }

    /// Returns the matrix that has the result of this one for a vector rotated to the left by
    /// `columns`, below the number of rows.
    #[must_use]
    pub(super) fn of_rotated(mut self, columns: usize) -> Self {
        let rows = 1usize << self.log_slots;
        let moved = |(offset, entries): (Offset, _)| (offset.moved(rows - columns, rows), entries);
        self.diagonals = self.diagonals.into_iter().map(moved).collect();
        self
    }

    /// Returns the rotation of the first baby step.
    pub(super) fn first_step(&self) -> usize {
        let columns = self.diagonals.keys().map(|offset| offset.columns);
        let mut columns: Vec<usize> = columns.collect();
        columns.dedup();
        first_after_gap(&columns, 1 << self.log_slots)
    }

    /// The diagonals by offset.
    #[must_use]
    pub fn diagonals(&self) -> &BTreeMap<Offset, OwnedVector<A>> {
        &self.diagonals
    }
}

/// A plan to apply a [`LinearTransform`] to ciphertexts of one level and scale, with baby and giant
/// steps.
///
/// With the offsets of the diagonals at `b + j turn`, for any set of baby steps `b`, the product is
/// `sum_j rotate(sum_b w_jb rotate(x, b), j turn)`, where `w_jb` is the diagonal rotated back by the
/// rotation of the giant steps.
///
/// Reference: [BMTH21](https://eprint.iacr.org/2020/1203), section 4.
#[derive(Debug, Clone)]
pub struct LinearPlan<A: Algebra> {
    /// Shared by clones: diagonals in the clear take as much memory as encoded ones with few primes.
    diagonals: Arc<dyn Diagonals<A>>,
    /// Number and form of the encoded diagonals.
    weights: WeightForm,
    steps: Steps,
    baby: Vec<Offset>,
    /// Sum of automorphisms with the baby and giant steps.
    sum: AutomorphismSum,
    pub(super) scale: A::Scale,
    weight_scale: A::Scale,
    output_scale: A::Scale,
    request: KeyRequest,
}

impl<A: Algebra> LinearTransform<A> {
    /// Plans the product with ciphertexts of the given level and scale. The result is one level
    /// down and has scale `out`, which determines the scale of the weights.
    ///
    /// # Errors
    /// [`Error::LevelOutOfRange`] for a level beyond the chain; [`Error::LevelExhausted`] at level
    /// 0; [`Error::ScaleOutOfRange`] if the scale of the weights is below 1 or the product does not
    /// fit the modulus; [`Error::Circuit`] for a matrix that is zero or has more rows than the ring
    /// has slots.
    pub fn plan(
        &self,
        log_n: u32,
        chain: &Chain<A::Scale>,
        level: Level,
        scale: A::Scale,
        out: A::Scale,
    ) -> Result<LinearPlan<A>> {
        self.plan_for(log_n, chain, level, [scale, out], None)
    }

    /// Plans the product as in [`LinearTransform::plan`], for ciphertexts raised from level 0 to
    /// the given level through an ephemeral secret of at most the given weight. All steps are baby
    /// steps, which cost little there.
    ///
    /// # Errors
    /// See [`LinearTransform::plan`].
    pub fn plan_raised(
        &self,
        log_n: u32,
        chain: &Chain<A::Scale>,
        raise: Raise,
        [scale, out]: [A::Scale; 2],
    ) -> Result<LinearPlan<A>> {
        self.plan_for(log_n, chain, raise.level, [scale, out], Some(raise))
    }

    fn plan_for(
        &self,
        log_n: u32,
        chain: &Chain<A::Scale>,
        level: Level,
        scales: [A::Scale; 2],
        raise: Option<Raise>,
    ) -> Result<LinearPlan<A>> {
        LinearPlan::of(Arc::new(self.clone()), log_n, chain, level, scales, raise)
    }
}

impl<A: Algebra> Diagonals<A> for LinearTransform<A> {
    fn log_slots(&self) -> u32 {
        self.log_slots
    }
    fn offsets(&self) -> Vec<Offset> {
        self.diagonals.keys().copied().collect()
    }
    fn diagonal(&self, offset: Offset) -> Option<Cow<'_, A::Vector>> {
        self.diagonals.get(&offset).map(|entries| Cow::Borrowed(entries.borrow()))
    }
    fn log_gap(&self, log_n: u32) -> u32 {
        // Rotations do not change the gap.
        let gaps = self.diagonals.values().map(|entries| A::log_gap(entries.borrow(), log_n));
        gaps.min().unwrap_or(0)
    }
}

impl<A: Algebra> LinearPlan<A> {
    /// Plans the product with a matrix whose diagonals are computed when they are needed, as
    /// [`LinearTransform::plan`] does with one that has them.
    ///
    /// # Errors
    /// See [`LinearTransform::plan`]; [`Error::Circuit`] also for an offset beyond the rows.
    pub fn new(
        diagonals: Arc<dyn Diagonals<A>>,
        log_n: u32,
        chain: &Chain<A::Scale>,
        level: Level,
        [scale, out]: [A::Scale; 2],
    ) -> Result<Self> {
        Self::of(diagonals, log_n, chain, level, [scale, out], None)
    }

    fn of(
        diagonals: Arc<dyn Diagonals<A>>,
        log_n: u32,
        chain: &Chain<A::Scale>,
        level: Level,
        [scale, out]: [A::Scale; 2],
        raise: Option<Raise>,
    ) -> Result<Self> {
        chain.levels().check(level)?;
        if level == Level(0) {
            return Err(Error::LevelExhausted { op: OP, needed: 1, level });
        }
        let log_slots = diagonals.log_slots();
        let offsets = diagonals.offsets();
        // Before the shift below, which would overflow.
        let fits = log_slots < log_n && log_n <= MAX_LOG_SLOTS + 1;
        if !fits || offsets.is_empty() || offsets.iter().any(|k| k.columns >> log_slots != 0) {
            return Err(Error::Circuit(format!(
                "{OP}: 2^{log_slots} rows and {} diagonals in a ring of degree 2^{log_n}; at most \
                 half as many rows as the degree, at most 2^{MAX_LOG_SLOTS}, and a diagonal that \
                 is not zero are needed, at offsets below the rows",
                offsets.len(),
            )));
        }
        let product = out * chain.divisor(level);
        let weight_scale = product / scale;
        for scale in [product, weight_scale] {
            scale.check_weights(OP, chain.log2_q(level))?;
        }
        let mut columns: Vec<usize> = offsets.iter().map(|offset| offset.columns).collect();
        // Offsets are in order of columns, so equal ones are neighbours.
        columns.dedup();
        let conjugates = offsets.iter().filter(|offset| offset.conjugated).count();
        let steps = Steps::of(&columns, conjugates, 1 << log_slots, raise.is_none());
        let baby = baby_steps(&steps, &offsets.iter().copied().collect());
        let sum = AutomorphismSum {
            level,
            baby: baby.iter().map(|offset| offset.element(log_n)).collect(),
            giant: GaloisElement::rotation(log_n, steps.turned(1) as i64),
            stages: steps.stages(),
            raise,
        };
        let request = sum.required_keys();
        let log_repeats = NttTable::log_repeats(log_n, diagonals.log_gap(log_n));
        let weights = WeightForm { count: offsets.len(), log_repeats };
        let output_scale = out;
        Ok(Self {
            diagonals,
            weights,
            steps,
            baby,
            sum,
            scale,
            weight_scale,
            output_scale,
            request,
        })
    }

    /// The matrix.
    #[must_use]
    pub fn diagonals(&self) -> &dyn Diagonals<A> {
        &*self.diagonals
    }

    /// Level of the inputs.
    #[must_use]
    pub fn level(&self) -> Level {
        self.sum.level
    }

    /// Level of the result, one below the level of the inputs.
    #[must_use]
    pub fn output_level(&self) -> Level {
        Level(self.sum.level.0 - 1)
    }

    /// Scale of the result.
    #[must_use]
    pub fn output_scale(&self) -> A::Scale {
        self.output_scale
    }

    /// Scale of the encoded diagonals.
    #[must_use]
    pub fn weight_scale(&self) -> A::Scale {
        self.weight_scale
    }

    /// Required keys.
    #[must_use]
    pub fn required_keys(&self) -> &KeyRequest {
        &self.request
    }

    /// Number of encoded diagonals that an evaluator stores.
    #[must_use]
    pub fn weights(&self) -> usize {
        self.weights.count
    }

    /// Bytes of the encoded diagonals that an evaluator with these keys stores.
    #[must_use]
    pub fn bytes(&self, params: &Params, keys: &KeyRequest) -> u64 {
        let level = self.sum.level;
        let limbs = match self.sum.raise {
            Some(_) => params.raising_limbs(level),
            None => {
                let key_level = keys.key_level(params.levels().above(level), &self.request);
                params.limbs_of_keys(key_level, level)
            }
        };
        self.weight_bytes(params, limbs)
    }

    /// Bytes of the encoded diagonals modulo the primes of `limbs`.
    #[must_use]
    pub fn weight_bytes(&self, params: &Params, limbs: LimbSet) -> u64 {
        self.weights.bytes(params, limbs)
    }

    /// Returns number and form of the encoded diagonals.
    pub(super) fn weight_form(&self) -> WeightForm {
        self.weights
    }

    /// Raising of the inputs to the level, if they are raised.
    #[must_use]
    pub fn raise(&self) -> Option<Raise> {
        self.sum.raise
    }

    /// The sum of rotations that the plan computes.
    #[must_use]
    pub fn sum(&self) -> &AutomorphismSum {
        &self.sum
    }

    /// Returns `w_jb`, or `None` if it is zero.
    pub(super) fn weight(&self, j: usize, b: usize) -> Option<OwnedVector<A>> {
        let baby = self.baby[b];
        let columns = self.steps.reached(baby.columns, j)?;
        let diagonal = self.diagonals.diagonal(Offset { columns, ..baby })?;
        Some(A::rotated_right(&diagonal, self.steps.turned(j)))
    }
}

/// Returns every baby step from which a step reaches one of the offsets, of the slots and of their
/// conjugates.
fn baby_steps(steps: &Steps, offsets: &BTreeSet<Offset>) -> Vec<Offset> {
    let both = |columns| [false, true].map(|conjugated| Offset { columns, conjugated });
    let is_taken = |baby: &Offset| {
        let mut reached = (0..steps.stages()).filter_map(|j| steps.reached(baby.columns, j));
        reached.any(|columns| offsets.contains(&Offset { columns, ..*baby }))
    };
    steps.babies().flat_map(both).filter(is_taken).collect()
}

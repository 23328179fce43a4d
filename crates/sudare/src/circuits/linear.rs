//! Products of matrices with encrypted slots, by diagonals.

use super::algebra::{Algebra, OwnedVector};
use crate::{
    Error, Result,
    ring::LimbSet,
    rlwe::{
        self, AutomorphismSum, Chain, GaloisElement, KeyRequest, Level, Raise, Scale, WeightForm,
    },
};
use core::borrow::Borrow;
use std::{collections::BTreeMap, sync::Arc};
use sudare_arith::NttTable;

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
    /// Returns the automorphism of the image, in the ring of degree `2^log_n`.
    pub(super) fn element(self, log_n: u32) -> GaloisElement {
        let rotation = GaloisElement::rotation(log_n, self.columns as i64);
        if self.conjugated { rotation.conjugated(log_n) } else { rotation }
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

    /// The diagonals by offset.
    #[must_use]
    pub fn diagonals(&self) -> &BTreeMap<Offset, OwnedVector<A>> {
        &self.diagonals
    }
}

/// A plan to apply a [`LinearTransform`] to ciphertexts of one level and scale, with baby and giant
/// steps.
///
/// With the offsets of the diagonals at `start + (j baby + b) stride`, the product is
/// `sum_j rotate(sum_b w_jb rotate(x, start + b stride), j baby stride)`, where `w_jb` is the
/// diagonal rotated back by the rotation of the giant steps.
///
/// Reference: [BMTH21](https://eprint.iacr.org/2020/1203), section 4.
#[derive(Debug, Clone)]
pub struct LinearPlan<A: Algebra> {
    /// Shared by clones: diagonals in the clear take as much memory as encoded ones with few primes.
    transform: Arc<LinearTransform<A>>,
    steps: Steps,
    baby: Vec<Offset>,
    /// Sum of automorphisms with the baby and giant steps.
    sum: AutomorphismSum,
    /// `log2` of the times that the residues of encoded diagonals repeat.
    log_repeats: u32,
    pub(super) scale: A::Scale,
    weight_scale: A::Scale,
    output_scale: A::Scale,
    request: KeyRequest,
}

/// Offsets `start + t stride` for `t < baby giant`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Steps {
    start: usize,
    stride: usize,
    baby: usize,
    giant: usize,
}

/// Cost of a giant step in baby steps: a decomposition and a division in addition to the product
/// with a key.
const GIANT_COST: usize = 3;

impl Steps {
    /// Finds steps for offsets below `slots`, in ascending order, where `conjugates` of them also
    /// use the conjugate. Without `giants` there are baby steps only.
    fn of(offsets: &[usize], conjugates: usize, slots: usize, giants: bool) -> Self {
        // Order the offsets on a circle, starting after the widest gap.
        let gap = |i: usize| {
            let next = offsets.get(i + 1).map_or_else(|| offsets[0] + slots, |&next| next);
            next - offsets[i]
        };
        let last = (0..offsets.len()).max_by_key(|&i| gap(i)).unwrap_or(0);
        let start = offsets.get(last + 1).or(offsets.first()).copied().unwrap_or(0);
        let distance = |&offset: &usize| (offset + slots - start) % slots;
        let stride = match offsets.iter().map(distance).fold(0, gcd) {
            // With a single offset any stride will do.
            0 => slots,
            stride => stride,
        };
        let count = offsets.iter().map(distance).max().unwrap_or(0) / stride + 1;
        let images = |baby: usize| baby + baby.min(conjugates);
        let cost = |baby: &usize| images(*baby) + GIANT_COST * count.div_ceil(*baby);
        let baby = if giants { (1..=count).min_by_key(cost).unwrap_or(1) } else { count };
        Self { start, stride, baby, giant: count.div_ceil(baby) }
    }

    /// Returns `true` if giant step `j` after the baby step that rotates by `columns` reaches one
    /// of the offsets. Steps may pass once round all slots and would then reach the first offsets
    /// again.
    fn reach(self, columns: usize, j: usize, slots: usize) -> bool {
        let distance = (columns + slots - self.start) % slots;
        distance + j * self.baby * self.stride < slots
    }

    /// Returns the rotation of a giant step.
    fn turn(self, slots: usize) -> usize {
        self.baby * self.stride % slots
    }

    fn baby_offsets(self, slots: usize) -> impl Iterator<Item = usize> {
        (0..self.baby).map(move |b| (self.start + b * self.stride) % slots)
    }
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
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
        [scale, out]: [A::Scale; 2],
        raise: Option<Raise>,
    ) -> Result<LinearPlan<A>> {
        chain.levels().check(level)?;
        if level == Level(0) {
            return Err(Error::LevelExhausted { op: OP, needed: 1, level });
        }
        let rows = 1u64 << self.log_slots;
        if self.log_slots >= log_n || log_n > MAX_LOG_SLOTS + 1 || self.diagonals.is_empty() {
            return Err(Error::Circuit(format!(
                "{OP}: {rows} rows and {} diagonals in a ring of degree 2^{log_n}; at most half as \
                 many rows as the degree, at most 2^{MAX_LOG_SLOTS}, and a diagonal that is not \
                 zero are needed",
                self.diagonals.len(),
            )));
        }
        let product = out * chain.divisor(level);
        let weight_scale = product / scale;
        for scale in [product, weight_scale] {
            scale.check_weights(OP, chain.log2_q(level))?;
        }
        let slots = 1 << self.log_slots;
        let mut columns: Vec<usize> = self.diagonals.keys().map(|offset| offset.columns).collect();
        // Keys are in order of columns, so equal ones are neighbours.
        columns.dedup();
        let conjugates = self.diagonals.keys().filter(|offset| offset.conjugated).count();
        let steps = Steps::of(&columns, conjugates, slots, raise.is_none());
        let baby = self.baby_steps(steps);
        let sum = AutomorphismSum {
            level,
            baby: baby.iter().map(|offset| offset.element(log_n)).collect(),
            giant: GaloisElement::rotation(log_n, steps.turn(slots) as i64),
            stages: steps.giant,
            raise,
        };
        // Rotations do not change the gap.
        let gaps = self.diagonals.values().map(|entries| A::log_gap(entries.borrow(), log_n));
        let log_repeats = NttTable::log_repeats(log_n, gaps.min().unwrap_or(0));
        Ok(LinearPlan {
            transform: Arc::new(self.clone()),
            steps,
            baby,
            request: sum.required_keys(),
            sum,
            log_repeats,
            scale,
            weight_scale,
            output_scale: out,
        })
    }

    /// Returns every baby step, and the conjugated ones that a diagonal uses.
    fn baby_steps(&self, steps: Steps) -> Vec<Offset> {
        let slots = 1 << self.log_slots;
        let turns = |columns: usize| {
            (0..steps.giant).map(move |j| (columns + j * steps.turn(slots)) % slots)
        };
        let is_taken = |baby: &Offset| {
            let mut offsets = turns(baby.columns).map(|columns| Offset { columns, ..*baby });
            !baby.conjugated || offsets.any(|offset| self.diagonals.contains_key(&offset))
        };
        let both = |columns| [false, true].map(|conjugated| Offset { columns, conjugated });
        steps.baby_offsets(slots).flat_map(both).filter(is_taken).collect()
    }
}

impl<A: Algebra> LinearPlan<A> {
    /// The matrix.
    #[must_use]
    pub fn transform(&self) -> &LinearTransform<A> {
        &self.transform
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
        self.transform.diagonals.len()
    }

    /// Bytes of the encoded diagonals modulo the primes of `limbs`.
    #[must_use]
    pub fn weight_bytes(&self, params: &rlwe::Params, limbs: LimbSet) -> u64 {
        self.weight_form().bytes(params, limbs)
    }

    /// Returns number and form of the encoded diagonals.
    pub(super) fn weight_form(&self) -> WeightForm {
        WeightForm { count: self.weights(), log_repeats: self.log_repeats }
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
        let slots = 1 << self.transform.log_slots;
        let turned = j * self.steps.turn(slots) % slots;
        let baby = self.baby[b];
        if !self.steps.reach(baby.columns, j, slots) {
            return None;
        }
        let offset = Offset { columns: (baby.columns + turned) % slots, ..baby };
        let diagonal = self.transform.diagonals.get(&offset)?;
        Some(A::rotated_right(diagonal.borrow(), turned))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_reach_every_offset_and_no_more_than_needed() {
        let slots = 64;
        let cases: [(&[usize], Steps); 5] = [
            (&[0], Steps { start: 0, stride: 64, baby: 1, giant: 1 }),
            (&[5], Steps { start: 5, stride: 64, baby: 1, giant: 1 }),
            (&[0, 3], Steps { start: 0, stride: 3, baby: 2, giant: 1 }),
            // From -3 to 3.
            (&[0, 1, 2, 3, 61, 62, 63], Steps { start: 61, stride: 1, baby: 4, giant: 2 }),
            // From -24 to 24 in steps of 8.
            (&[0, 8, 16, 24, 40, 48, 56], Steps { start: 40, stride: 8, baby: 4, giant: 2 }),
        ];
        for (offsets, expected) in cases {
            assert_eq!(Steps::of(offsets, 0, slots, true), expected, "{offsets:?}");
            let Steps { start, stride, baby, giant } = Steps::of(offsets, 0, slots, false);
            assert_eq!((start, stride, giant), (expected.start, expected.stride, 1));
            assert!(baby <= expected.baby * expected.giant);
        }
    }

    /// Includes dense matrices, where the last giant step would reach the first offsets again.
    #[test]
    fn every_offset_is_reached_once() {
        for log_slots in 0..=10 {
            let slots = 1usize << log_slots;
            for stride in (0..=log_slots).map(|i| 1 << i) {
                let offsets: Vec<usize> = (0..slots).step_by(stride).collect();
                for start in [0, slots / 2] {
                    let few: Vec<usize> = offsets.iter().copied().filter(|&k| k >= start).collect();
                    for offsets in [&offsets, &few] {
                        let steps = Steps::of(offsets, 0, slots, true);
                        let mut reached: Vec<usize> = steps
                            .baby_offsets(slots)
                            .flat_map(|columns| (0..steps.giant).map(move |j| (columns, j)))
                            .filter(|&(columns, j)| steps.reach(columns, j, slots))
                            .map(|(columns, j)| (columns + j * steps.turn(slots)) % slots)
                            .collect();
                        reached.sort_unstable();
                        let count = reached.len();
                        reached.dedup();
                        assert_eq!(reached.len(), count, "{offsets:?}");
                        assert!(offsets.iter().all(|k| reached.binary_search(k).is_ok()));
                    }
                }
            }
        }
    }

    /// A step for both the ciphertext and its conjugate costs two images.
    #[test]
    fn conjugates_shorten_baby_steps() {
        let offsets: Vec<usize> = (0..127).collect();
        for (conjugates, baby, giant) in [(0, 16, 8), (1, 16, 8), (127, 13, 10)] {
            let expected = Steps { start: 0, stride: 1, baby, giant };
            assert_eq!(Steps::of(&offsets, conjugates, 1 << 14, true), expected);
        }
    }
}

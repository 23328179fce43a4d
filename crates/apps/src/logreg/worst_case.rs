//! A bound of the errors of trained weights that holds for every table that a plan takes.
//!
//! An iteration makes `w' = v + gamma (labels - h v + 1/m sum_i p(x_i . v) c_i x_i)`. Its Jacobian
//! is symmetric, with eigenvalues between `1 - gamma (h + L lambda)` and `1 + gamma l lambda`,
//! where the slope of `p` is between `-L` and `l`, and `lambda` bounds the eigenvalues of `1/m
//! sum_i c_i x_i x_i^T`. So Euclidean norms of errors grow by a known factor, and each iteration
//! adds errors of its own: of the encrypted rows, of rounding and of key switches. These are taken
//! at their bounds ([`CanonicalBounds`]), as if all had the same sign. Errors of the inner product
//! of a row reach the sum over rows as `X^T d / m`, whose norm is at most `sqrt(lambda) max |d_i|`
//! where all slots of a row have the same, and as many times that as the root of their number where
//! each has its own; those of entries may be as large in every one. Products of errors are covered
//! by [`SECOND_ORDER`].
//!
//! Weights repeat in their slots, and each copy has errors of its own beside those of all of them.
//! A row meets the copies of its own blocks, so that only what all have in common grows by that
//! factor; the others are carried apart ([`Errors`]). Where slots repeat in the ring, decoding takes
//! the mean of repetitions, for which that holds as long as products of errors are small in each.
//! Derivation: `docs/notes/worst-case-error.md`.

use super::{
    budget::{Budget, Round, Scales},
    layout::Order,
    spec::{Penalty, Preparation, TrainSpec},
};
use crate::release::DECODING_ERROR;
use sudare::{
    ckks::{Params, Scale},
    rlwe::{CanonicalBounds, Level},
};

/// What products of errors add at most, as a factor, while errors are below 1 %.
const SECOND_ORDER: f64 = 1.1;

/// Above the largest error for which that holds, none is known.
const LARGEST_ERROR: f64 = 0.01;

/// Whose weights' errors are bounded.
pub(super) struct Training<'a> {
    pub budget: &'a Budget<'a>,
    pub scales: &'a Scales,
    pub params: &'a Params,
    pub spec: &'a TrainSpec,
    /// Rows planned.
    pub rows: usize,
}

/// Bounds of the errors of a vector that repeats in the slots of a ciphertext.
#[derive(Debug, Clone, Copy)]
struct Errors {
    /// The Euclidean norm of what all copies have in common.
    common: f64,
    /// What any entry of a copy is off beside that.
    own: f64,
}

impl Errors {
    fn plus(self, other: Self) -> Self {
        Self { common: self.common + other.common, own: self.own + other.own }
    }

    fn times(self, factor: f64) -> Self {
        Self { common: self.common * factor.abs(), own: self.own * factor.abs() }
    }
}

/// Bounds of errors of a slot, as integers.
struct Integers {
    /// Of a fresh encryption, encoding included.
    fresh: f64,
    rounding: f64,
    switch: f64,
}

impl Training<'_> {
    /// The largest error of a weight; infinite if none is known.
    pub fn largest_error(&self) -> f64 {
        let Self { budget, scales, .. } = self;
        let fresh = self.integers(None).fresh * self.spec.tables as f64;
        // Of weights and momentum.
        let labels = budget.first_gamma() * fresh / scales.labels.to_f64();
        let mut w = Errors { common: 0.0, own: labels };
        let mut v = w;
        // Of any repetition of the slots by itself, as norms.
        let (mut any_w, mut any_v) = (self.norm(w), self.norm(v));
        let mut inner: f64 = 0.0;
        for (k, round) in scales.rounds.iter().enumerate() {
            inner = inner.max(self.largest_row(k) * any_v / budget.sigmoid.range);
            let (added, ahead) = self.added(k, round, v.own);
            let (common, own) = self.growth(k);
            let next = Errors { common: common * v.common, own: own * v.own }.plus(added);
            let any_next = self.growth_of_any(k) * any_v + self.norm(added);
            let eta = round.step.eta;
            let ahead = Errors { common: 0.0, own: if round.last { 0.0 } else { ahead } };
            v = next.times(1.0 - eta).plus(w.times(eta)).plus(ahead);
            any_v = (1.0 - eta).abs() * any_next + eta.abs() * any_w + self.norm(ahead);
            (w, any_w) = (next, any_next);
        }
        let decoding = DECODING_ERROR * budget.largest_weight();
        let error = SECOND_ORDER * (w.common + w.own) + decoding;
        if error < LARGEST_ERROR && inner < LARGEST_ERROR { error } else { f64::INFINITY }
    }

    /// The Euclidean norm of the errors of a copy.
    fn norm(&self, errors: Errors) -> f64 {
        errors.common + (self.budget.layout.entries as f64).sqrt() * errors.own
    }

    /// The largest norm of a row of the batch of iteration `k`, of prepared ones of weight 1: all together
    /// have no more.
    fn largest_row(&self, k: usize) -> f64 {
        let entries = self.budget.layout.entries as f64;
        match self.spec.preparation {
            Preparation::Scale => entries.sqrt(),
            Preparation::Standardize | Preparation::Whiten => {
                (self.budget.rows(k) * entries * self.curvature(k)).sqrt()
            }
        }
    }

    fn integers(&self, round: Option<&Round>) -> Integers {
        let bounds = CanonicalBounds::new(self.params.rlwe());
        let levels = round.map_or(0..=0, |round| round.left.0..=round.level.0);
        let switch = levels.map(|level| bounds.key_switch(Level(level), None)).fold(0.0, f64::max);
        let encoding = self.params.max_slots() as f64;
        Integers { fresh: bounds.fresh() + encoding, rounding: 1.0 + bounds.rounding(), switch }
    }

    /// Batches as large as that of iteration `k`.
    fn batches(&self, k: usize) -> f64 {
        (self.rows as f64 / self.budget.rows(k)).max(1.0)
    }

    /// The mean weight of a row of the batch, at most: it is 1 over all rows, and no more than
    /// their root mean square in a batch.
    fn mean_row_weight(&self, k: usize) -> f64 {
        self.budget.row_weight.min(self.batches(k))
    }

    /// `lambda`: of prepared rows it is 1 over all of them; of others entries are at most 1.
    fn curvature(&self, k: usize) -> f64 {
        match self.spec.preparation {
            Preparation::Scale => self.budget.layout.entries as f64 * self.mean_row_weight(k),
            Preparation::Standardize | Preparation::Whiten => self.batches(k),
        }
    }

    /// Blocks of slots for each row of the batch: those without one have errors of rounding, too.
    fn blocks_a_row(&self, k: usize) -> f64 {
        let layout = self.budget.layout;
        ((layout.groups * layout.blocks) as f64 / self.budget.rows(k)).max(1.0)
    }

    /// The largest strength of the penalty on a weight.
    fn penalty(&self) -> f64 {
        match (self.spec.penalty, self.spec.preparation) {
            (Penalty::None, _) => 0.0,
            (_, Preparation::Standardize | Preparation::Whiten) => 0.25,
            (penalty, Preparation::Scale) => penalty.alpha(1.0),
        }
    }

    /// How much iteration `k` makes an error of `v` larger that all copies have, and one that a copy
    /// has of its own.
    fn growth(&self, k: usize) -> (f64, f64) {
        let (gamma, lambda) = (self.budget.full()[k].gamma, self.curvature(k));
        let (falls, rises) = self.budget.sigmoid.slopes();
        let per_inner = lambda / self.budget.sigmoid.range;
        let penalty = self.penalty();
        let common =
            (gamma * (penalty + falls * per_inner) - 1.0).max(1.0 + gamma * rises * per_inner);
        (common, (gamma * penalty - 1.0).max(1.0))
    }

    /// How much iteration `k` makes the error of a copy larger whatever those of others are. In a ring that
    /// has more slots than rows fill, what rows and weights are repeats, and sums go from each copy to
    /// those that follow, so that no two copies have the same.
    fn growth_of_any(&self, k: usize) -> f64 {
        if self.budget.layout.slots() == self.params.max_slots() {
            return self.growth(k).0;
        }
        let (gamma, (falls, rises)) = (self.budget.full()[k].gamma, self.budget.sigmoid.slopes());
        // A row of several pieces meets parts of two copies.
        let met = self.budget.layout.pieces.min(2) as f64;
        let per_copy = self.scattered(k) * (met / self.budget.layout.entries as f64).sqrt();
        self.growth(k).1 + gamma * falls.max(rises) * per_copy / self.budget.sigmoid.range
    }

    /// What an error of each slot of the vectors that rows are multiplied with adds to inner
    /// products, as the norm of the sum over rows: these vectors differ from block to block.
    fn scattered(&self, k: usize) -> f64 {
        let (entries, blocks) = (self.budget.layout.entries, self.budget.layout.blocks);
        self.curvature(k) * (entries as f64 * entries.min(blocks) as f64).sqrt()
    }

    /// The errors that iteration `k` adds to the weights, where copies of `v` are off by `own` beside
    /// what they have in common, and those that it adds to the momentum beside these, of a slot.
    fn added(&self, k: usize, round: &Round, own: f64) -> (Errors, f64) {
        let Self { budget, scales, spec, .. } = self;
        let Integers { fresh, rounding, switch } = self.integers(Some(round));
        let computed = rounding + switch;
        let (layout, sigmoid, within) = (budget.layout, budget.sigmoid, &round.within);
        let (entries, largest) = (layout.entries as f64, budget.largest_weight());
        let (root, gamma) = (entries.sqrt(), round.step.gamma);
        let of = |integer: f64, scale: Scale| integer / scale.to_f64();
        let constant = |scale: Scale| of(0.5, scale);

        // Of the inner products over the range, beside those of turned weights: what all slots of a
        // row are off by, and what each is.
        let data = of(fresh, scales.data);
        let of_data = data * entries * largest / sigmoid.range;
        let of_sums = layout.block() as f64 * of(computed + switch, within.t);
        let turned = f64::from(layout.pieces.ilog2()) * of(switch, round.scale);

        // What a change of what is computed changes the polynomial by, at most.
        let (falls, rises) = sigmoid.slopes();
        let (slope, size, lead) = (falls.max(rises), sigmoid.size, sigmoid.lead.abs());
        let reach = sigmoid.reach();
        let squares = lead * (reach.square * of(computed, within.y))
            + lead * reach.factor * of(computed, within.factor);
        let constants = size * (constant(round.lift) + constant(within.product));
        let of_rows = slope * of_data + constants;
        let (of_slots, of_entries) = match budget.order {
            Order::RowsFirst => (
                slope * of_sums + squares,
                size * (data + of(rounding, within.other))
                    + self.blocks_a_row(k)
                        * (size * of(computed, within.a)
                            + lead * reach.product * of(computed, within.product)),
            ),
            Order::SigmoidFirst => (
                slope * of_sums
                    + squares
                    + size * of(rounding, within.a)
                    + lead * reach.product * of(computed, within.product)
                    + lead * of(computed, within.other),
                size * data,
            ),
        };
        let of_copies = slope / sigmoid.range * (turned + own) * self.scattered(k);
        let rows = (self.curvature(k) * self.mean_row_weight(k)).sqrt();

        // The sum over rows: those before it are relinearised, and its own rotations. The last of
        // these bring it to every copy.
        let (sums, blocks) = (layout.sums() as f64, layout.blocks as f64);
        let summed = of(blocks * (sums * computed + switch), within.weights);
        let copied = of(blocks / layout.pieces as f64 * switch, within.weights);

        // Weights, labels and penalty are brought together.
        let at = |scale: Scale| constant(within.weights * within.above / scale);
        let labels = gamma * of(fresh * spec.tables as f64, scales.labels);
        let mut joined = of(rounding, within.weights)
            + labels
            + largest * at(round.scale)
            + gamma.max(1.0) * self.mean_row_weight(k) * at(scales.labels);
        if budget.penalised {
            let pull = round.scale * scales.penalty / within.first;
            let penalty = of(fresh, scales.penalty) * largest + of(computed, pull);
            joined += gamma * penalty + largest * self.penalty() * at(pull);
        }
        let common = gamma * (rows * (of_rows + root * of_slots) + root * of_entries + of_copies)
            + root * summed;
        // What momentum takes of earlier weights has up to twice the scale of these.
        let ahead = (1.0 - round.step.eta).abs()
            * (of(rounding, within.weights) + 2.0 * largest * at(round.scale));
        (Errors { common, own: copied + joined }, ahead)
    }
}

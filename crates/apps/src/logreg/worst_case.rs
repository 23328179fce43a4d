//! A bound of the errors of trained weights that holds for every table that a plan takes.
//!
//! An iteration makes `w' = v + gamma (labels - h v + 1/m sum_i p(x_i . v) c_i x_i)`. Its Jacobian
//! is symmetric, with eigenvalues between `1 - gamma (h + L lambda)` and `1 + gamma l lambda`,
//! where the slope of `p` is between `-L` and `l`, and `lambda` bounds the eigenvalues of `1/m
//! sum_i c_i x_i x_i^T`. So Euclidean norms of errors grow by a known factor, and each iteration
//! adds errors of its own: of the encrypted rows, of rounding and of key switches. These are taken
//! at their bounds ([`CanonicalBounds`]), as if all had the same sign. Errors of the inner product
//! of a row reach the sum over rows as `X^T d / m`, whose norm is at most `sqrt(lambda) max |d_i|`;
//! those of single slots may be as large in every entry. Products of errors are covered by
//! [`SECOND_ORDER`]. Derivation: `docs/notes/worst-case-error.md`.

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
        let root = (budget.layout.entries as f64).sqrt();
        let fresh = self.integers(None).fresh * self.spec.tables as f64;
        // Of weights and momentum, as Euclidean norms.
        let mut w = root * budget.first_gamma() * fresh / scales.labels.to_f64();
        let mut v = w;
        for (k, round) in scales.rounds.iter().enumerate() {
            let (next, ahead) = self.added(k, round);
            let next = self.growth(k) * v + next;
            let eta = round.step.eta;
            v = (1.0 - eta).abs() * next + eta.abs() * w + ahead;
            w = next;
        }
        let error = SECOND_ORDER * w + DECODING_ERROR * budget.largest_weight();
        if error < LARGEST_ERROR { error } else { f64::INFINITY }
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

    /// How much iteration `k` makes an error of `v` larger.
    fn growth(&self, k: usize) -> f64 {
        let (gamma, lambda) = (self.budget.full()[k].gamma, self.curvature(k));
        let (falls, rises) = self.budget.sigmoid.slopes();
        let per_inner = lambda / self.budget.sigmoid.range;
        (1.0 + gamma * rises * per_inner).max(gamma * (self.penalty() + falls * per_inner) - 1.0)
    }

    /// The errors that iteration `k` adds to the weights, and to the momentum beside these, as
    /// Euclidean norms.
    fn added(&self, k: usize, round: &Round) -> (f64, f64) {
        let Self { budget, scales, spec, .. } = self;
        let Integers { fresh, rounding, switch } = self.integers(Some(round));
        let computed = rounding + switch;
        let (layout, sigmoid, within) = (budget.layout, budget.sigmoid, &round.within);
        let (entries, largest) = (layout.entries as f64, budget.largest_weight());
        let (root, gamma) = (entries.sqrt(), round.step.gamma);
        let of = |integer: f64, scale: Scale| integer / scale.to_f64();
        let constant = |scale: Scale| of(0.5, scale);

        // Of the inner products over the range, beside those of turned weights.
        let data = of(fresh, scales.data);
        let inner = data * entries * largest / sigmoid.range
            + layout.block() as f64 * of(computed + switch, within.t);
        let turned = f64::from(layout.pieces.ilog2()) * of(switch, round.scale);

        // What a change of what is computed changes the polynomial by, at most.
        let (falls, rises) = sigmoid.slopes();
        let (slope, size, lead) = (falls.max(rises), sigmoid.size, sigmoid.lead.abs());
        let reach = sigmoid.reach();
        let squares = lead * (reach.square * of(computed, within.y))
            + lead * reach.factor * of(computed, within.factor);
        let constants = size * (constant(round.lift) + constant(within.product));
        let (of_rows, of_entries) = match budget.order {
            Order::RowsFirst => (
                slope * inner + squares + constants,
                size * (data + of(rounding, within.other))
                    + self.blocks_a_row(k)
                        * (size * of(computed, within.a)
                            + lead * reach.product * of(computed, within.product)),
            ),
            Order::SigmoidFirst => (
                slope * inner
                    + squares
                    + constants
                    + size * of(rounding, within.a)
                    + lead * reach.product * of(computed, within.product)
                    + lead * of(computed, within.other),
                size * data,
            ),
        };
        let of_turned = slope / sigmoid.range * turned * entries * self.curvature(k);
        let rows = (self.curvature(k) * self.mean_row_weight(k)).sqrt();

        // The sum over rows: those before it are relinearised, and its own rotations.
        let (sums, blocks) = (layout.sums() as f64, layout.blocks as f64);
        let summed = of(blocks * (sums * computed + 2.0 * switch), within.weights);

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
        let next =
            gamma * (rows * of_rows + root * (of_entries + of_turned)) + root * (summed + joined);
        let ahead = (1.0 - round.step.eta).abs()
            * root
            * (of(rounding, within.weights) + largest * at(round.scale));
        (next, if round.last { 0.0 } else { ahead })
    }
}

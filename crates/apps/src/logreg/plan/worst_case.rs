//! A bound of the errors of trained weights that holds for every table of a plan.
//!
//! An iteration makes `w' = v + gamma (labels - h v + 1/m sum_i p(x_i . v) c_i x_i)`. Its Jacobian
//! is symmetric, with eigenvalues between `1 - gamma (h + L lambda)` and `1 + gamma l lambda`,
//! where the slope of `p` is between `-L` and `l`, and `lambda` bounds the eigenvalues of
//! `1/m sum_i c_i x_i x_i^T`. Euclidean norms of errors therefore grow by a known factor. Each
//! iteration adds errors of the encrypted rows, of rounding and of key switches. They are assumed
//! to be at their bounds ([`CanonicalBounds`]) and to have the same sign.
//!
//! Errors `d_i` of the inner product of a row reach the sum over rows as `X^T d / m`. If all slots
//! of a row have the same error, its norm is at most `sqrt(lambda) max |d_i|`. If each of `k` slots
//! has its own error, it is at most `sqrt(k)` times that. Errors of entries may have the maximum in
//! every entry. [`SECOND_ORDER`] covers products of errors.
//!
//! Weights repeat in their slots. Each copy has its own errors, in addition to the errors that all
//! copies share. A row is multiplied by the copies of its own blocks, so only the shared errors
//! grow by that factor. The other errors are tracked separately ([`Errors`]). If slots repeat in
//! the ring, decoding uses the mean of the repetitions. The bound holds for this mean as long as
//! products of errors are small in each repetition. Derivation: `docs/notes/worst-case-error.md`.

use crate::logreg::{
    budget::{Budget, Round, Scales},
    layout::Order,
    spec::{Penalty, Preparation, TrainSpec},
};
use crate::release::DECODING_ERROR;
use sudare::{
    ckks::{Params, Scale},
    rlwe::{CanonicalBounds, Level},
};

/// Factor that bounds the effect of products of errors, while errors are below 1 %.
const SECOND_ORDER: f64 = 1.1;

/// The largest error for which [`SECOND_ORDER`] is valid. Above it, no bound is known.
const LARGEST_ERROR: f64 = 0.01;

/// The training whose weights' errors are bounded.
pub(in crate::logreg) struct Training<'a> {
    pub budget: &'a Budget<'a>,
    pub scales: &'a Scales,
    pub params: &'a Params,
    pub spec: &'a TrainSpec,
    /// Number of rows planned.
    pub rows: usize,
}

/// Bounds of the errors of a vector that repeats in the slots of a ciphertext.
#[derive(Debug, Clone, Copy)]
struct Errors {
    /// The Euclidean norm of the error that all copies share.
    common: f64,
    /// The error of each entry of a copy in addition to the shared error.
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
    /// Error of a fresh encryption, including encoding.
    fresh: f64,
    rounding: f64,
    switch: f64,
}

impl Training<'_> {
    /// Returns the largest error of a weight, infinite if no bound is known.
    pub fn largest_error(&self) -> f64 {
        let Self { budget, scales, .. } = self;
        // The means of labels of all tables are added up.
        let fresh = self.integers(None).fresh * self.spec.tables as f64;
        // Errors of weights and momentum.
        let labels = budget.first_gamma() * fresh / scales.labels.to_f64();
        let mut w = Errors { common: 0.0, own: labels };
        let mut v = w;
        // Norms of the errors of any single repetition of the slots.
        let mut any_w = self.norm(w);
        let mut any_v = self.norm(v);
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

    /// Returns the Euclidean norm of the errors of a copy.
    fn norm(&self, errors: Errors) -> f64 {
        errors.common + (self.budget.layout.entries as f64).sqrt() * errors.own
    }

    /// Returns the largest norm of a row of the batch of iteration `k`, for prepared rows of weight
    /// 1. The norm of all rows together bounds it.
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
        let chain = self.params.chain();
        let levels = round.map_or(0..=0, |round| round.left.0..=round.level.0);
        let of_level = |level: u32| {
            let level = Level(level);
            // Products are rescaled in the same step. Keys of a shared secret have larger errors
            // for products, which this leaves small.
            let product = match level {
                Level(0) => 0.0,
                _ => bounds.relinearization(level, None) / chain.divisor(level).to_f64(),
            };
            bounds.key_switch(level, None).max(product)
        };
        let switch = levels.map(of_level).fold(0.0, f64::max);
        // Encoding `n` slots is off by `n` at most (docs/notes/worst-case-error.md).
        let encoding = self.params.max_slots() as f64;
        Integers { fresh: bounds.fresh() + encoding, rounding: 1.0 + bounds.rounding(), switch }
    }

    /// Returns the number of batches of the size of iteration `k`'s batch.
    fn batches(&self, k: usize) -> f64 {
        (self.rows as f64 / self.budget.rows(k)).max(1.0)
    }

    /// Returns the largest possible mean weight of a row of the batch. It is 1 over all rows. In a
    /// batch it is at most the root mean square.
    fn mean_row_weight(&self, k: usize) -> f64 {
        self.budget.row_weight.min(self.batches(k))
    }

    /// Returns `lambda`: 1 over all prepared rows. For other rows, entries are at most 1.
    fn curvature(&self, k: usize) -> f64 {
        match self.spec.preparation {
            Preparation::Scale => self.budget.layout.entries as f64 * self.mean_row_weight(k),
            Preparation::Standardize | Preparation::Whiten => self.batches(k),
        }
    }

    /// Returns the number of blocks of slots for each row of the batch. Blocks without a row have
    /// errors of rounding, too.
    fn blocks_a_row(&self, k: usize) -> f64 {
        let layout = self.budget.layout;
        ((layout.groups * layout.blocks) as f64 / self.budget.rows(k)).max(1.0)
    }

    /// Returns the largest strength of the penalty on a weight.
    fn penalty(&self) -> f64 {
        match (self.spec.penalty, self.spec.preparation) {
            (Penalty::None, _) => 0.0,
            // A transform divides `alpha` by a variance plus `4 alpha`.
            (_, Preparation::Standardize | Preparation::Whiten) => 0.25,
            // `TrainSpec::alpha` refuses weights of rows whose sum is below 1 here.
            (penalty, Preparation::Scale) => penalty.alpha(1.0),
        }
    }

    /// Returns the growth factors of iteration `k`: for an error of `v` that all copies share, and
    /// for an error of a single copy.
    fn growth(&self, k: usize) -> (f64, f64) {
        let gamma = self.budget.full()[k].gamma;
        let lambda = self.curvature(k);
        let (falls, rises) = self.budget.sigmoid.slopes();
        let per_inner = lambda / self.budget.sigmoid.range;
        let penalty = self.penalty();
        let common =
            (gamma * (penalty + falls * per_inner) - 1.0).max(1.0 + gamma * rises * per_inner);
        (common, (gamma * penalty - 1.0).max(1.0))
    }

    /// Returns the growth factor of iteration `k` for the error of a copy, for any errors of other
    /// copies. If rows do not fill the slots of the ring, rows and weights repeat. Sums then go
    /// from each copy to the following ones, so no two copies have the same error.
    fn growth_of_any(&self, k: usize) -> f64 {
        if self.budget.layout.slots() == self.params.max_slots() {
            return self.growth(k).0;
        }
        let (gamma, (falls, rises)) = (self.budget.full()[k].gamma, self.budget.sigmoid.slopes());
        // A row of several pieces is multiplied by parts of two copies.
        let met = self.budget.layout.pieces.min(2) as f64;
        let per_copy = self.scattered(k) * (met / self.budget.layout.entries as f64).sqrt();
        self.growth(k).1 + gamma * falls.max(rises) * per_copy / self.budget.sigmoid.range
    }

    /// Returns the norm of the sum over rows of the errors that independent errors of the weights'
    /// slots add to inner products. The copies of weights differ from block to block.
    fn scattered(&self, k: usize) -> f64 {
        let entries = self.budget.layout.entries;
        let blocks = self.budget.layout.blocks;
        self.curvature(k) * (entries as f64 * entries.min(blocks) as f64).sqrt()
    }

    /// Returns the errors that iteration `k` adds to the weights and, in addition, to a slot of the
    /// momentum. Copies of `v` have errors of `own` in addition to the shared error.
    fn added(&self, k: usize, round: &Round, own: f64) -> (Errors, f64) {
        let Self { budget, scales, spec, .. } = self;
        let Integers { fresh, rounding, switch } = self.integers(Some(round));
        let computed = rounding + switch;
        let layout = budget.layout;
        let sigmoid = budget.sigmoid;
        let within = &round.within;
        let entries = layout.entries as f64;
        let largest = budget.largest_weight();
        let root = entries.sqrt();
        let gamma = round.step.gamma;
        let of = |integer: f64, scale: Scale| integer / scale.to_f64();
        // Constants are rounded to integers.
        let constant = |scale: Scale| of(0.5, scale);

        // Errors of the inner products over the range, without the errors of turned weights. One
        // part is common to all slots of a row, and the other is separate in each slot.
        let data = of(fresh, scales.data);
        let of_data = data * entries * largest / sigmoid.range;
        let of_sums = layout.block() as f64 * of(computed + switch, within.t);
        let turned = f64::from(layout.pieces.ilog2()) * of(switch, round.scale);

        // Largest change of the polynomial per change of an intermediate value.
        let (falls, rises) = sigmoid.slopes();
        let slope = falls.max(rises);
        let size = sigmoid.size;
        let lead = sigmoid.lead.abs();
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

        // Errors of the sum over rows: from before its relinearisation, and from its own rotations.
        // The last of these move it to every copy.
        let sums = layout.sums() as f64;
        let blocks = layout.blocks as f64;
        let summed = of(blocks * (sums * computed + switch), within.weights);
        let copied = of(blocks / layout.pieces as f64 * switch, within.weights);

        // Weights, labels and penalty are combined.
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
        // The earlier weights in the momentum have up to twice their scale.
        let ahead = (1.0 - round.step.eta).abs()
            * (of(rounding, within.weights) + 2.0 * largest * at(round.scale));
        (Errors { common, own: copied + joined }, ahead)
    }
}

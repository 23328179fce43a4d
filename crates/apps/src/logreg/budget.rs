//! Scales and primes of encrypted training: a budget of errors, as `log2`.
//!
//! Every quantity is an integer: the scale times the value. Every rescaling, rotation and product
//! adds an integer error of about the same size to each slot. The scales therefore determine the
//! relative error, and the primes determine the scales. With [`Sigmoid`], an iteration that
//! multiplies rows first ([`Order`]) computes
//!
//! ```text
//! level l      v: scale s_v       x: scale s_x
//! l - 1        t = (x . v) / range: s_t = s_v s_x range / q_l       x: s_x', free to choose
//! l - 2        a = t x: s_a = s_t s_x' / q_(l-1)                    y = t^2: s_y = s_t^2 / q_(l-1)
//! l - 3        degree 3: a (y + c), whose sum over the m rows is read as the new weights' share
//!              by a scale m / (gamma lead) times as large, lead = c_3 range^3
//! ```
//!
//! with one level more for degrees 5 and 7. An iteration that evaluates the polynomial first
//! computes
//!
//! ```text
//! l - 1        t as before
//! l - 2        t: s_t', free to choose                              y as before
//! l - 3        degree 3: p = t (y + c): s_p = s_t' s_y / q_(l-2)
//! l - 4        p x: s_p s_x / q_(l-3), whose sum is read as before
//! ```
//!
//! Errors of `t`, `a`, `p` and `y` are independent in each row, so the sum averages them. Errors of
//! the sum itself are not averaged, so weights have a larger scale. The scale of the next `v` is
//! fixed in advance, and `s_x'` or `s_t'` is chosen to reach it exactly.
//!
//! With class weights, the last `x` is a second ciphertext of `c x`. The errors of its other factor
//! are then multiplied by `c`, and grow in the sum by the root mean square of `c` over the rows.
//! Scales and primes are the same as without class weights, and the bound of errors is larger.
//!
//! Iterations with products are divided into segments, each on the same levels. Without
//! bootstrapping there is one segment. Otherwise a segment lies between two bootstrappings.

use super::{
    layout::{Layout, Order},
    sigmoid::Sigmoid,
    spec::{Batches, Step},
};
use core::ops::Range;
use sudare::ckks::{
    Chain, Scale,
    planner::{self, Errors, MAX_PRIME_BITS, SLACK_BITS},
};
use sudare::rlwe::Level;
use sudare_arith::real;

/// Scales inside an iteration.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Within {
    /// Scale of the inner products, over the range.
    pub t: Scale,
    /// Scale of the squares of inner products.
    pub y: Scale,
    /// Scale of rows in their product with `t`, or of the polynomial in its product with rows.
    pub other: Scale,
    /// Scale of `t` times rows, or of `t` in its product.
    pub a: Scale,
    /// Scale of the last factor of the polynomial.
    pub factor: Scale,
    /// Scale of the other factor of the last factor.
    pub product: Scale,
    /// Scale of the next weights.
    pub weights: Scale,
    /// Divisor of the first products when they are rescaled.
    pub first: Scale,
    /// Divisor of the sums when they are rescaled.
    pub above: Scale,
}

/// Bound of the absolute value of weights, unless the learning rate is larger.
const LARGEST_WEIGHT: f64 = 16.0;

/// Maximum reduction of errors by averaging over rows, as `log2`. Products of errors are not
/// averaged.
const AVERAGING_BITS: f64 = 6.0;

/// `log2` of the assumed size of weights, by which errors of the penalty are multiplied. Few
/// weights are larger.
const PENALISED_WEIGHT_BITS: f64 = 1.0;

/// Bits by which the penalty may be less precise than the target of the primes. Plans accept this
/// much. With few rows, primes would otherwise be too small for the penalty's scale, which is one
/// of them.
const PENALTY_SLACK_BITS: f64 = 3.5;

/// An iteration that multiplies ciphertexts: any iteration except those that use sums of labels
/// alone.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Round {
    /// Level and scale of `v` after the previous iteration.
    pub arrival: (Level, Scale),
    /// True if the weights are bootstrapped first.
    pub refresh: bool,
    /// Level of `v` before the iteration.
    pub level: Level,
    /// Level of the sum over rows and of the weights after the iteration, [`Order::levels`] below.
    pub left: Level,
    /// Scale of `v` before the iteration.
    pub scale: Scale,
    pub step: Step,
    /// True if no momentum is needed afterwards.
    pub last: bool,
    /// Scale of the encoded 1 by which rows are multiplied at `level`, or `t` one level below.
    pub lift: Scale,
    /// Scale of the sum over rows.
    pub sum: Scale,
    /// Factor on the scale of the sum before it is read as weights.
    pub read: Scale,
    /// Scales inside the iteration.
    pub within: Within,
}

/// Scales of a whole training.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Scales {
    /// Scale of encrypted rows.
    pub data: Scale,
    /// Scale of the means of labels.
    pub labels: Scale,
    /// Scale of the penalty of each weight.
    pub penalty: Scale,
    /// Scale of the means of labels when read as the weights after the first iterations.
    pub start: Scale,
    /// Scale of the weights at the start of the first round.
    pub first: Scale,
    /// Scale of the trained weights.
    pub end: Scale,
    pub rounds: Vec<Round>,
    /// `-log2` of the error that is expected to dominate.
    pub precision_bits: f64,
}

/// `log2` of the scales that a precision requires.
struct Wanted {
    data: f64,
    /// Scale of the means of labels, read as weights.
    start: f64,
    weights: f64,
    /// Scale of the values of each row.
    row: f64,
    /// Scale of the penalty. Negative infinity without a penalty.
    penalty: f64,
}

/// The facts of a job and a ring that determine errors and scales.
pub(super) struct Budget<'a> {
    pub layout: &'a Layout,
    pub order: Order,
    pub batches: &'a Batches,
    pub sigmoid: &'a Sigmoid,
    /// One step per iteration, at least one.
    pub schedule: &'a [Step],
    /// Number of leading iterations that use sums of labels alone, at least one.
    pub label_iterations: usize,
    pub penalised: bool,
    pub log_n: u32,
    pub segments: Segments,
    /// Levels below the levels of a single segment: one, if rows are to be scored with the weights.
    pub spare: u32,
    /// Maximum root mean square of the weights of rows.
    pub row_weight: f64,
}

/// Division of the levels into segments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Segments {
    /// All rounds one after the other, which end at level 0.
    One,
    /// Repeated segments from level `top` down, each with at most `rounds` rounds.
    Many { top: Level, rounds: usize },
}

impl Budget<'_> {
    /// Returns the rows planned for the batch of full iteration `k`.
    pub fn rows(&self, k: usize) -> f64 {
        let iteration = (k + self.label_iterations) as u32;
        self.batches.rows(self.batches.of(iteration)).len() as f64
    }

    /// Returns the step size that turns the means of labels into weights: the one of the last
    /// iteration that uses them alone.
    pub fn first_gamma(&self) -> f64 {
        self.schedule[self.label_iterations - 1].gamma
    }

    /// Returns the bound of the absolute value of weights.
    pub fn largest_weight(&self) -> f64 {
        LARGEST_WEIGHT.max(self.first_gamma())
    }

    /// Returns the bits at level 0 above the scale of the weights, for the values and signs of
    /// weights or scores.
    fn headroom_bits(&self) -> f64 {
        match self.spare {
            // One bit for the sign.
            0 => 1.0 + real::log2(self.largest_weight()),
            _ => trained_room_bits(self.layout.entries, self.largest_weight()),
        }
    }

    pub fn full(&self) -> &[Step] {
        self.schedule.get(self.label_iterations..).unwrap_or(&[])
    }

    fn levels(&self) -> u32 {
        self.order.levels(self.sigmoid)
    }

    /// Returns the factor on the scale of the sum of full iteration `k` that turns the sum into the
    /// step of `w`.
    fn read_factor(&self, k: usize) -> f64 {
        self.rows(k) / (self.full()[k].gamma * self.sigmoid.lead.abs())
    }

    /// Returns whether full iteration `k` is the last.
    fn is_last(&self, k: usize) -> bool {
        k + 1 == self.full().len()
    }

    /// Returns the factor between the scales of the next weights and the next `v`, or 1 if there is
    /// no next `v`.
    fn momentum_factor(&self, k: usize) -> f64 {
        if self.is_last(k) { 1.0 } else { 1.0 - self.full()[k].eta }
    }

    /// Returns the factor between the scales of the sum of full iteration `k` and the next `v`.
    fn read_of(&self, k: usize) -> f64 {
        self.read_factor(k) / self.momentum_factor(k)
    }

    /// Returns the growth of independent errors by the sums over a row's slots.
    fn window_bits(&self) -> f64 {
        real::log2(2.0 * self.layout.block() as f64) / 2.0
    }

    /// Returns the share of independent errors in the sums over rows.
    fn sum_share(&self) -> f64 {
        let summands = self.layout.blocks as f64 * self.layout.sums() as f64;
        real::log2(2.0 * summands) / 2.0 - self.unit_bits()
    }

    fn sum_of_gammas(&self) -> f64 {
        self.first_gamma() + self.full().iter().map(|step| step.gamma).sum::<f64>()
    }

    /// Returns the unit of errors of weights: 1, or the size that weights are expected to reach at
    /// a low learning rate.
    fn unit_bits(&self) -> f64 {
        real::log2((self.sum_of_gammas() / 4.0).min(1.0))
    }

    /// Returns the share of a row's error in the weights, if errors are independent in all rows.
    fn share(&self, gamma: f64, slope: f64) -> f64 {
        let rows = self.batches.most_rows() as f64;
        (real::log2(gamma * slope / rows.sqrt()) - self.unit_bits()).max(-AVERAGING_BITS)
    }

    /// Returns the share of the errors of encrypted rows, for this weight of rows. These errors are
    /// the same in all iterations, and half of their effect is through inner products.
    fn data_share(&self, row_weight: f64) -> f64 {
        // A quarter is the steepest slope of the sigmoid.
        self.share(self.sum_of_gammas(), 0.25 * (1.0 + row_weight))
    }

    /// Returns the share of the errors of means of labels, which are the same in all iterations.
    fn label_share(&self) -> f64 {
        real::log2(self.sum_of_gammas()) - self.unit_bits()
    }

    /// Returns `log2` of the ratio of two scales: the scale of the weights after the first
    /// iterations over the scale of rows. At this ratio, errors of the means of labels match the
    /// errors of rows, and do not exceed the errors of a sum over rows.
    fn start_bits(&self) -> f64 {
        self.label_share() - self.data_share(1.0) - real::log2(self.first_gamma())
    }

    /// Returns `log2` of scales at which no single error is above `2^-precision_bits`.
    fn wanted(&self, precision_bits: f64) -> Wanted {
        let errors = Errors::new(self.log_n);
        let largest = self.full().iter().map(|step| step.gamma).fold(0.0, f64::max);
        let data = errors.fresh + self.data_share(1.0) + precision_bits;
        // Without full iterations, the logarithm of 0 would be infinite.
        let step_bits = real::log2(largest.max(f64::MIN_POSITIVE)) - self.unit_bits();
        let penalty = match self.penalised {
            true => errors.fresh + PENALISED_WEIGHT_BITS + step_bits - PENALTY_SLACK_BITS,
            false => f64::NEG_INFINITY,
        };
        Wanted {
            penalty: penalty + precision_bits,
            data,
            start: data + self.start_bits(),
            weights: errors.rounding + self.sum_share() + precision_bits,
            row: errors.rounding + self.share(largest, self.sigmoid.size) + precision_bits,
        }
    }

    /// Returns the sizes of the primes of a round, from the bottom. The round starts with `v` at
    /// one scale, and reads the sum over rows at a scale `read` times as large.
    fn round_bits(&self, wanted: &Wanted, v: f64, read: f64) -> Vec<Vec<f64>> {
        let &Wanted { data, weights, row, .. } = wanted;
        let window = self.window_bits();
        let range = real::log2(self.sigmoid.range);
        // From this size on, there are enough primes, and they are close enough to the requested
        // sizes.
        let least = f64::from(self.log_n) + 10.0;
        let inner = (v + data + range - row - window).max(wanted.penalty);
        let other = match self.order {
            Order::RowsFirst => row,
            Order::SigmoidFirst => data,
        };
        let last = row + other + real::log2(read) - weights;
        let mut levels = vec![level_of(last.max(least))];
        levels.extend((3..self.levels()).map(|_| level_of(row.max(least))));
        levels.push(level_of((row + 2.0 * window).max(least)));
        levels.push(level_of(inner.max(least)));
        levels
    }

    /// Returns the sizes of the primes of a segment of `rounds` rounds, from the bottom, which fit
    /// every segment. Also returns `log2` of the scale of the weights at both ends of a segment.
    pub fn segment_bits(&self, rounds: usize, precision_bits: f64) -> (Vec<Vec<f64>>, f64) {
        let wanted = self.wanted(precision_bits);
        let read = (0..self.full().len()).map(|k| self.read_of(k)).fold(0.0, f64::max);
        let round = self.round_bits(&wanted, wanted.weights, read);
        (core::iter::repeat_n(round, rounds).flatten().collect(), wanted.weights)
    }

    /// Returns the sizes of the primes of each level at which no single error is above
    /// `2^-precision_bits`.
    pub fn prime_bits(&self, precision_bits: f64) -> Vec<Vec<f64>> {
        let wanted = self.wanted(precision_bits);
        let full = self.full();
        let end = if full.is_empty() { wanted.start } else { wanted.weights };
        let mut levels = vec![level_of(end + self.headroom_bits())];
        if self.spare > 0 {
            let rows = row_scale_bits(self.layout.entries, self.largest_weight(), self.log_n);
            levels.push(level_of(rows + precision_bits));
        }
        // A chain lists its levels from the bottom, where the last iteration ends.
        for k in (0..full.len()).rev() {
            let v = if k == 0 { wanted.start } else { wanted.weights };
            levels.extend(self.round_bits(&wanted, v, self.read_of(k)));
        }
        levels
    }

    /// Returns the levels of the whole training, including the levels below it.
    pub fn depth(&self) -> u32 {
        self.levels() * self.full().len() as u32 + self.spare
    }

    /// Returns the maximum number of rounds of a segment.
    fn segment(&self) -> usize {
        match self.segments {
            Segments::One => self.full().len(),
            Segments::Many { rounds, .. } => rounds,
        }
    }

    /// Returns the level of `v` before full iteration `k`.
    fn level(&self, k: usize) -> u32 {
        let top = match self.segments {
            Segments::One => self.depth(),
            Segments::Many { top, .. } => top.0,
        };
        top - self.levels() * (k % self.segment()) as u32
    }

    /// Returns the scales of `v` before full iterations, whose last scale is `end` as `log2`. They
    /// are pairs of `a` and `b` for `log2(v) = a - b log2(data)`. In each iteration, from the last
    /// to the first, `t` and its other factor share the bits of the primes.
    fn targets(&self, chain: &Chain, iterations: Range<usize>, end: f64) -> Vec<(f64, f64)> {
        // Rows are multiplied at their own scale only if the polynomial comes first.
        let own = if self.order == Order::SigmoidFirst { 1.0 } else { 0.0 };
        let mut next = (end, 0.0);
        let above = iterations.rev().map(|k| {
            let offset = self.offset(chain, k, next.0);
            next = (offset, 1.0 + (next.1 + own) / f64::from(self.sigmoid.degree));
            next
        });
        let mut targets: Vec<_> = above.collect();
        targets.reverse();
        targets
    }

    /// Returns the scales for a chain with at least [`Budget::depth`] levels and a single segment,
    /// whose result must fit level 0.
    pub fn scales(&self, chain: &Chain) -> Scales {
        let weights = chain.log2_q(Level(0)) - self.headroom_bits();
        let mut targets = self.targets(chain, 0..self.full().len(), weights);
        targets.push((weights, 0.0));
        let (offset, part) = targets[0];
        let log2_data = (offset - self.start_bits()) / (1.0 + part);
        let data = Scale::from_log2(log2_data);
        let mut scales = targets.iter().map(|(a, b)| Scale::from_log2(a - b * log2_data));
        // The first scale is replaced by `start`, at which the means of labels are read exactly.
        scales.next();
        self.chained(chain, data, |start| core::iter::once(start).chain(scales).collect())
    }

    /// Returns the scales for segments that all start with weights of scale `v` and end with
    /// momentum of that scale. The scale of the rows is a compromise between the best scales of all
    /// segments.
    pub fn segment_scales(&self, chain: &Chain, v: Scale) -> Scales {
        let count = self.full().len();
        let segment = self.segment();
        let end = v.log2();
        let starts = (0..count).step_by(segment);
        let targets: Vec<_> =
            starts.map(|k| self.targets(chain, k..count.min(k + segment), end)).collect();
        let best = |targets: &Vec<(f64, f64)>| targets.first().map(|(a, b)| (a - end) / b);
        let (low, high) = targets
            .iter()
            .filter_map(best)
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), x| (x.min(low), x.max(high)));
        let log2_data = 0.5 * (low + high);
        let within = |targets: &Vec<(f64, f64)>| -> Vec<_> {
            let inner = targets.iter().skip(1).map(|(a, b)| Scale::from_log2(a - b * log2_data));
            core::iter::once(v).chain(inner).collect()
        };
        let mut scales: Vec<_> = targets.iter().flat_map(within).collect();
        scales.push(v);
        self.chained(chain, Scale::from_log2(log2_data), |_| scales)
    }

    /// Returns the rounds for scales of `v` before each round and after the last. These scales
    /// follow from the scale of the weights after the first iterations.
    fn chained(&self, chain: &Chain, data: Scale, v: impl FnOnce(Scale) -> Vec<Scale>) -> Scales {
        let start = data * Scale::from_log2(self.start_bits());
        let labels = start * Scale::from_f64(self.first_gamma());
        let v = v(start);
        let first = v[0];
        let end = v[v.len() - 1];
        let count = self.full().len();
        // With a prime as its scale, rescaled products with `v` have about the scale of `v`.
        let penalty = match count {
            0 => first,
            _ => chain.divisor(Level(self.level(count - 1))),
        };
        let errors = Errors::new(self.log_n);
        let mut precision_bits = least([
            data.log2() - errors.fresh - self.data_share(self.row_weight),
            labels.log2() - errors.fresh - self.label_share(),
        ]);
        let mut arrival = (Level(0), first);
        let mut rounds = Vec::with_capacity(count);
        for (k, v) in v.windows(2).enumerate() {
            let (round, bits) = self.round(chain, k, [data, labels, penalty], (v[0], v[1]));
            precision_bits = least([precision_bits, bits]);
            let left = round.left;
            let refresh = k > 0 && k % self.segment() == 0;
            if !refresh {
                arrival = (round.level, round.scale);
            }
            rounds.push(Round { arrival, refresh, ..round });
            arrival = (left, v[1]);
        }
        Scales { data, labels, penalty, start, first, end, rounds, precision_bits }
    }

    /// Returns, as `log2`, the product of the scales of `v` before full iteration `k` and of the
    /// rows, times the growth of its errors. The scale after the iteration is `next`, and `t` has
    /// the scale of its other factor.
    fn offset(&self, chain: &Chain, k: usize, next: f64) -> f64 {
        let top = self.level(k);
        let levels = self.levels();
        let prime = |below: u32| chain.divisor(Level(top - below)).log2();
        // The degree is the number of factors t in the sum. Each square is divided by the prime of
        // its level.
        let squares = f64::from(self.sigmoid.degree - 1) / 2.0;
        let squared_squares =
            if self.sigmoid.tail.is_some() { (squares - 1.0) * prime(2) } else { 0.0 };
        let last = match self.order {
            Order::RowsFirst => prime(levels - 1),
            Order::SigmoidFirst => prime(levels - 1) + prime(levels - 2),
        };
        let t = next + last + squares * prime(1) + squared_squares - real::log2(self.read_of(k))
            + self.window_bits();
        t / f64::from(self.sigmoid.degree) + prime(0) - real::log2(self.sigmoid.range)
    }

    /// Returns full iteration `k`, which takes `v` from one scale to the next, and `-log2` of the
    /// largest single error that it adds.
    fn round(
        &self,
        chain: &Chain,
        k: usize,
        [data, labels, penalty]: [Scale; 3],
        (v, next): (Scale, Scale),
    ) -> (Round, f64) {
        let top = self.level(k);
        let step = self.full()[k];
        let levels = self.levels();
        let prime = |below: u32| chain.divisor(Level(top - below));
        let read = Scale::from_f64(self.read_factor(k));
        let weights = next * Scale::from_f64(self.momentum_factor(k));
        let t = v * data / prime(0) * Scale::from_f64(self.sigmoid.range);
        let y = t * t / prime(1);
        // Scales from the sum down, before rescaling: the polynomial in its product with rows, and
        // its factors, or the sum itself.
        let sum = weights / read;
        let polynomial = sum * prime(levels - 1) / data;
        let last = match self.order {
            Order::RowsFirst => sum * prime(levels - 1),
            Order::SigmoidFirst => polynomial * prime(levels - 2),
        };
        // The other factor of `a` (degree 3), or of `a (y + shift)`.
        let (a, factor, product) = match &self.sigmoid.tail {
            None => (last / y, y, y),
            Some(tail) => {
                let factor = if tail.inner.is_some() { y * y / prime(2) } else { y };
                let product = last / factor;
                (product * prime(2) / y, factor, product)
            }
        };
        let (lift, other) = match self.order {
            Order::RowsFirst => {
                let rows = a * prime(1) / t;
                (rows * prime(0) / data, rows)
            }
            Order::SigmoidFirst => (a * prime(1) / t, polynomial),
        };
        let errors = Errors::new(self.log_n);
        let rounding = errors.rounding;
        // Share of errors that are made before the multiplication by a row.
        let weighted_share = self.share(step.gamma, self.sigmoid.size * self.row_weight);
        let share = match self.order {
            Order::RowsFirst => self.share(step.gamma, self.sigmoid.size),
            Order::SigmoidFirst => weighted_share,
        };
        let above = prime(levels - 1);
        let step_bits = real::log2(step.gamma) - self.unit_bits();
        let mut precision_bits = least([
            t.log2() - self.window_bits() - rounding - weighted_share,
            least([y, factor].map(Scale::log2)) - rounding - weighted_share,
            least([other, a, product].map(Scale::log2)) - rounding - share,
            weights.log2() - rounding - self.sum_share(),
            // Constants are rounded to integers at these scales.
            lift.log2() - real::log2(self.row_weight),
            (weights * above / v).log2(),
            (weights * above / labels).log2() - self.unit_bits(),
        ]);
        if self.penalised {
            let product = v * penalty / prime(0);
            precision_bits = least([
                precision_bits,
                penalty.log2() - errors.fresh - PENALISED_WEIGHT_BITS - step_bits,
                product.log2() - rounding - step_bits,
                (weights * above / product).log2() - self.unit_bits(),
            ]);
        }
        let level = Level(top);
        let left = Level(top - levels);
        let arrival = (level, v);
        let refresh = false;
        let last = self.is_last(k);
        let first = prime(0);
        let within = Within { t, y, other, a, factor, product, weights, first, above };
        let round =
            Round { arrival, refresh, level, left, scale: v, step, last, lift, sum, read, within };
        (round, precision_bits)
    }
}

/// Returns the smallest number, or NaN if there is one.
fn least<const K: usize>(numbers: [f64; K]) -> f64 {
    numbers.into_iter().fold(f64::INFINITY, |a, b| if a.is_nan() || a <= b { a } else { b })
}

/// Bound of the root mean square of the entries of a row that is scored by a trained model. Over
/// all training rows the value is 1 if they were whitened.
pub(super) const LARGEST_ROW: f64 = 32.0;

/// Returns `log2` of the room at level 0 above the scale of scores, for their values and signs.
/// Rows are prepared like the rows of a training.
pub(super) fn trained_room_bits(entries: usize, largest_weight: f64) -> f64 {
    room_bits(entries, largest_weight, LARGEST_ROW)
}

/// Returns `log2` of the room at level 0 above the scale of scores, for weights and entries of
/// these sizes.
pub(super) fn room_bits(entries: usize, largest_weight: f64, largest_entry: f64) -> f64 {
    1.0 + SLACK_BITS + real::log2(largest_weight * largest_entry * entries as f64)
}

/// Returns `log2` of the scale of rows at which the error of their encryption is 1 in a score.
pub(super) fn row_scale_bits(entries: usize, largest_weight: f64, log_n: u32) -> f64 {
    Errors::new(log_n).fresh + real::log2(largest_weight) + real::log2(entries as f64) / 2.0
}

/// Returns the primes of a level of this number of bits.
pub(super) fn level_of(bits: f64) -> Vec<f64> {
    planner::level(bits, MAX_PRIME_BITS)
}

//! How large scales and primes must be: errors and scales of encrypted training, as `log2`.
//!
//! Every quantity is held as an integer, the scale times the value, and every rescaling, rotation
//! and product leaves an integer error of about the same size in each slot. So the relative error
//! is chosen by the scales, and these by the primes. With [`Sigmoid`], an iteration that multiplies
//! rows first ([`Order`]) computes
//!
//! ```text
//! level l      v: scale s_v       x: scale s_x
//! l - 1        t = (x . v) / range: s_t = s_v s_x range / q_l       x: s_x', free to choose
//! l - 2        a = t x: s_a = s_t s_x' / q_(l-1)                    y = t^2: s_y = s_t^2 / q_(l-1)
//! l - 3        degree 3: a (y + c), whose sum over the m rows is read as the new weights' share
//!              by a scale m / (gamma lead) times as large, lead = c_3 range^3
//! ```
//!
//! with one level more for degrees 5 and 7; and one that evaluates the polynomial first
//!
//! ```text
//! l - 1        t as before
//! l - 2        t: s_t', free to choose                              y as before
//! l - 3        degree 3: p = t (y + c): s_p = s_t' s_y / q_(l-2)
//! l - 4        p x: s_p s_x / q_(l-3), whose sum is read as before
//! ```
//!
//! Errors of `t`, `a`, `p` and `y` are independent in each row and averaged by the sum; those of
//! the sum itself are not, so weights have the larger scale. The scale of the next `v` is fixed in
//! advance and `s_x'` or `s_t'` chosen to reach it exactly.
//!
//! With class weights, the last `x` is a second ciphertext of `c x`: then errors of what it is
//! multiplied with are multiplied by `c`, and grow in the sum by the root mean square of `c` over
//! the rows. Scales and primes are those without class weights; the bound of errors is larger.
//!
//! Iterations with products come in segments, each on the same levels: one segment if nothing
//! is bootstrapped, else those between two bootstrappings.

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

/// Scales of what an iteration computes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Within {
    /// Scale of the inner products, over the range.
    pub t: Scale,
    /// Scale of the squares of inner products.
    pub y: Scale,
    /// Scale of rows as they are multiplied with `t`, or of the polynomial with which rows are.
    pub other: Scale,
    /// Scale of `t` times rows, or of `t` as it is multiplied.
    pub a: Scale,
    /// Scale of the last factor of the polynomial.
    pub factor: Scale,
    /// Scale of what the last factor is multiplied with.
    pub product: Scale,
    /// Scale of the next weights.
    pub weights: Scale,
    /// What the first products are divided by when they are rescaled.
    pub first: Scale,
    /// What sums are.
    pub above: Scale,
}

/// Weights stay below this in absolute value, or below the learning rate if that is larger.
const LARGEST_WEIGHT: f64 = 16.0;

/// Averaging over rows makes errors smaller by this factor at most, as `log2`: products of errors
/// are not averaged.
const AVERAGING_BITS: f64 = 6.0;

/// `log2` of what errors of the penalty are multiplied with: weights, of which few are larger.
const PENALISED_WEIGHT_BITS: f64 = 1.0;

/// By how many bits the penalty may be less precise than primes are made for: plans accept that.
/// Where rows are few, primes would otherwise be too small for its scale, which is one of them.
const PENALTY_SLACK_BITS: f64 = 3.5;

/// An iteration that multiplies ciphertexts: any but those that take sums of labels alone.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Round {
    /// Level and scale of `v` as the last iteration left it.
    pub arrival: (Level, Scale),
    /// Whether the weights are bootstrapped first.
    pub refresh: bool,
    /// Level of `v` before.
    pub level: Level,
    /// Level of the sum over rows and of the weights after, [`Order::levels`] below.
    pub left: Level,
    /// Scale of `v` before.
    pub scale: Scale,
    pub step: Step,
    /// Whether no momentum is needed after it.
    pub last: bool,
    /// What 1 is encoded at, to multiply the rows with at `level`, or `t` a level below.
    pub lift: Scale,
    /// Scale of the sum over rows.
    pub sum: Scale,
    /// The factor on it, before the sum is read as weights.
    pub read: Scale,
    /// Scales in between.
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
    /// Scale of the weights that the first round takes.
    pub first: Scale,
    /// Scale of the trained weights.
    pub end: Scale,
    pub rounds: Vec<Round>,
    /// `-log2` of the error expected to dominate.
    pub precision_bits: f64,
}

/// `log2` of scales that a precision asks for.
struct Wanted {
    data: f64,
    /// Of the means of labels, read as weights.
    start: f64,
    weights: f64,
    /// Of what is computed for each row.
    row: f64,
    /// Of the penalty; none without one.
    penalty: f64,
}

/// What decides about errors and scales of a job in a ring.
pub(super) struct Budget<'a> {
    pub layout: &'a Layout,
    pub order: Order,
    pub batches: &'a Batches,
    pub sigmoid: &'a Sigmoid,
    /// One per iteration, at least one.
    pub schedule: &'a [Step],
    /// Leading iterations that take sums of labels alone, at least one.
    pub label_iterations: usize,
    pub penalised: bool,
    pub log_n: u32,
    pub segments: Segments,
    /// Levels below those of a single segment: one, if rows are to be scored with the weights.
    pub spare: u32,
    /// Root mean square of the weights of rows, at most.
    pub row_weight: f64,
}

/// On which levels rounds are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Segments {
    /// All rounds one after the other, ending at level 0.
    One,
    /// From level `top` on, so many rounds at most, and again.
    Many { top: Level, rounds: usize },
}

impl Budget<'_> {
    /// Rows planned for the batch of full iteration `k`.
    pub fn rows(&self, k: usize) -> f64 {
        let iteration = (k + self.label_iterations) as u32;
        self.batches.rows(self.batches.of(iteration)).len() as f64
    }

    /// The step that makes the weights out of the means of labels: the last that takes them alone.
    pub fn first_gamma(&self) -> f64 {
        self.schedule[self.label_iterations - 1].gamma
    }

    /// Weights stay below this in absolute value.
    pub fn largest_weight(&self) -> f64 {
        LARGEST_WEIGHT.max(self.first_gamma())
    }

    /// Bits at level 0 above the scale of the weights, for their values and signs, or those of
    /// scores.
    fn headroom_bits(&self) -> f64 {
        match self.spare {
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

    /// Factor on the scale of the sum of full iteration `k` that makes it the step of `w`.
    fn read_factor(&self, k: usize) -> f64 {
        self.rows(k) / (self.full()[k].gamma * self.sigmoid.lead.abs())
    }

    /// Whether full iteration `k` is the last.
    fn is_last(&self, k: usize) -> bool {
        k + 1 == self.full().len()
    }

    /// Factor between the scales of the next weights and the next `v`, which has none if last.
    fn momentum_factor(&self, k: usize) -> f64 {
        if self.is_last(k) { 1.0 } else { 1.0 - self.full()[k].eta }
    }

    /// Factor between the scales of the sum of full iteration `k` and the next `v`.
    fn read_of(&self, k: usize) -> f64 {
        self.read_factor(k) / self.momentum_factor(k)
    }

    /// Growth of independent errors by the sums over a row's slots.
    fn window_bits(&self) -> f64 {
        real::log2(2.0 * self.layout.block() as f64) / 2.0
    }

    /// Share of independent errors in the sums over rows.
    fn sum_share(&self) -> f64 {
        let summands = self.layout.blocks as f64 * self.layout.sums() as f64;
        real::log2(2.0 * summands) / 2.0 - self.unit_bits()
    }

    fn sum_of_gammas(&self) -> f64 {
        self.first_gamma() + self.full().iter().map(|step| step.gamma).sum::<f64>()
    }

    /// What errors of weights are compared with: 1, or the size that weights can be expected to
    /// reach at a low learning rate.
    fn unit_bits(&self) -> f64 {
        real::log2((self.sum_of_gammas() / 4.0).min(1.0))
    }

    /// Share of an error of a row in the weights, when independent in all rows.
    fn share(&self, gamma: f64, slope: f64) -> f64 {
        let rows = self.batches.most_rows() as f64;
        (real::log2(gamma * slope / rows.sqrt()) - self.unit_bits()).max(-AVERAGING_BITS)
    }

    /// Share of the errors of encrypted rows, which are the same in all iterations, if rows weigh
    /// so much: half of it is through inner products.
    fn data_share(&self, row_weight: f64) -> f64 {
        self.share(self.sum_of_gammas(), 0.25 * (1.0 + row_weight))
    }

    /// Share of the errors of means of labels, which are the same in all iterations.
    fn label_share(&self) -> f64 {
        real::log2(self.sum_of_gammas()) - self.unit_bits()
    }

    /// `log2` of the scale of the weights after the first iterations over that of rows, with which
    /// errors of the means of labels are as large as those of the rows, but at least as small as
    /// a sum over rows leaves them.
    fn start_bits(&self) -> f64 {
        self.label_share() - self.data_share(1.0) - real::log2(self.first_gamma())
    }

    /// `log2` of scales such that no single error is above `2^-precision_bits`.
    fn wanted(&self, precision_bits: f64) -> Wanted {
        let errors = Errors::new(self.log_n);
        let largest = self.full().iter().map(|step| step.gamma).fold(0.0, f64::max);
        let data = errors.fresh + self.data_share(1.0) + precision_bits;
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

    /// Sizes of the primes of a round, from the bottom, that takes `v` at a scale and reads the
    /// sum over rows at one `read` times as large.
    fn round_bits(&self, wanted: &Wanted, v: f64, read: f64) -> Vec<Vec<f64>> {
        let &Wanted { data, weights, row, .. } = wanted;
        let (window, range) = (self.window_bits(), real::log2(self.sigmoid.range));
        // Primes are then close enough to the sizes asked for, and enough of them.
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

    /// Sizes of the primes of a segment of `rounds` rounds, from the bottom, that serve every
    /// segment, and `log2` of the scale of the weights that it takes and leaves.
    pub fn segment_bits(&self, rounds: usize, precision_bits: f64) -> (Vec<Vec<f64>>, f64) {
        let wanted = self.wanted(precision_bits);
        let read = (0..self.full().len()).map(|k| self.read_of(k)).fold(0.0, f64::max);
        let round = self.round_bits(&wanted, wanted.weights, read);
        (core::iter::repeat_n(round, rounds).flatten().collect(), wanted.weights)
    }

    /// Sizes of the primes of each level such that no single error is above `2^-precision_bits`.
    pub fn prime_bits(&self, precision_bits: f64) -> Vec<Vec<f64>> {
        let wanted = self.wanted(precision_bits);
        let full = self.full();
        let end = if full.is_empty() { wanted.start } else { wanted.weights };
        let mut levels = vec![level_of(end + self.headroom_bits())];
        if self.spare > 0 {
            let rows = row_scale_bits(self.layout.entries, self.largest_weight(), self.log_n);
            levels.push(level_of(rows + precision_bits));
        }
        for k in (0..full.len()).rev() {
            let v = if k == 0 { wanted.start } else { wanted.weights };
            levels.extend(self.round_bits(&wanted, v, self.read_of(k)));
        }
        levels
    }

    /// Levels of the whole training, with those below it.
    pub fn depth(&self) -> u32 {
        self.levels() * self.full().len() as u32 + self.spare
    }

    /// Rounds of a segment, at most.
    fn segment(&self) -> usize {
        match self.segments {
            Segments::One => self.full().len(),
            Segments::Many { rounds, .. } => rounds,
        }
    }

    /// The level of `v` before full iteration `k`.
    fn level(&self, k: usize) -> u32 {
        let top = match self.segments {
            Segments::One => self.depth(),
            Segments::Many { top, .. } => top.0,
        };
        top - self.levels() * (k % self.segment()) as u32
    }

    /// Scales of `v` before full iterations that end with one of `log2` `end`, as numbers `a` and
    /// `b` of `log2(v) = a - b log2(data)`: in each iteration, `t` and what it is multiplied with
    /// share what the primes offer, from the last upwards.
    fn targets(&self, chain: &Chain, iterations: Range<usize>, end: f64) -> Vec<(f64, f64)> {
        // Rows are multiplied at their own scale only after the polynomial.
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

    /// Scales for a chain with at least [`Budget::depth`] levels and a single segment, whose
    /// result must fit level 0.
    pub fn scales(&self, chain: &Chain) -> Scales {
        let weights = chain.log2_q(Level(0)) - self.headroom_bits();
        let mut targets = self.targets(chain, 0..self.full().len(), weights);
        targets.push((weights, 0.0));
        let (offset, part) = targets[0];
        let log2_data = (offset - self.start_bits()) / (1.0 + part);
        let data = Scale::from_log2(log2_data);
        let mut scales = targets.iter().map(|(a, b)| Scale::from_log2(a - b * log2_data));
        // Exactly what is read.
        scales.next();
        self.chained(chain, data, |start| core::iter::once(start).chain(scales).collect())
    }

    /// Scales for segments that all begin with weights of scale `v` and leave momentum of that
    /// scale. The scale of the rows is between those that suit each segment best.
    pub fn segment_scales(&self, chain: &Chain, v: Scale) -> Scales {
        let (count, segment, end) = (self.full().len(), self.segment(), v.log2());
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

    /// Rounds from the scales of `v` before each and after the last, which follow from that of the
    /// weights after the first iterations.
    fn chained(&self, chain: &Chain, data: Scale, v: impl FnOnce(Scale) -> Vec<Scale>) -> Scales {
        let start = data * Scale::from_log2(self.start_bits());
        let labels = start * Scale::from_f64(self.first_gamma());
        let v = v(start);
        let (first, end) = (v[0], v[v.len() - 1]);
        let count = self.full().len();
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

    /// The scale of `v` before full iteration `k` times that of the rows, if the scale after it is
    /// `next` and `t` has the scale of what it is multiplied with, times the growth of its errors:
    /// as `log2`.
    fn offset(&self, chain: &Chain, k: usize, next: f64) -> f64 {
        let (top, levels) = (self.level(k), self.levels());
        let prime = |below: u32| chain.divisor(Level(top - below)).log2();
        // The degree counts the factors t of the sum; each square loses the prime at its level.
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

    /// Full iteration `k`, that takes `v` at one scale to the next; and `-log2` of the largest
    /// single error that it adds.
    fn round(
        &self,
        chain: &Chain,
        k: usize,
        [data, labels, penalty]: [Scale; 3],
        (v, next): (Scale, Scale),
    ) -> (Round, f64) {
        let (top, step, levels) = (self.level(k), self.full()[k], self.levels());
        let prime = |below: u32| chain.divisor(Level(top - below));
        let read = Scale::from_f64(self.read_factor(k));
        let weights = next * Scale::from_f64(self.momentum_factor(k));
        let t = v * data / prime(0) * Scale::from_f64(self.sigmoid.range);
        let y = t * t / prime(1);
        // From the sum down: the polynomial that rows are multiplied with, and what it is, or the
        // sum itself, before it was rescaled.
        let sum = weights / read;
        let polynomial = sum * prime(levels - 1) / data;
        let last = match self.order {
            Order::RowsFirst => sum * prime(levels - 1),
            Order::SigmoidFirst => polynomial * prime(levels - 2),
        };
        // The factor beside a (degree 3), or beside a (y + shift).
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
        // Of what is multiplied by a row after its error is made.
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
        let (level, left) = (Level(top), Level(top - levels));
        let (arrival, refresh, last) = ((level, v), false, self.is_last(k));
        let first = prime(0);
        let within = Within { t, y, other, a, factor, product, weights, first, above };
        let round =
            Round { arrival, refresh, level, left, scale: v, step, last, lift, sum, read, within };
        (round, precision_bits)
    }
}

/// The least number, or NaN if there is one.
fn least<const K: usize>(numbers: [f64; K]) -> f64 {
    numbers.into_iter().fold(f64::INFINITY, |a, b| if a.is_nan() || a <= b { a } else { b })
}

/// The root mean square of the entries of a row to be scored by a trained model stays below this:
/// over all rows that it was trained on, it is 1 if they were whitened.
pub(super) const LARGEST_ROW: f64 = 32.0;

/// `log2` of what level 0 has above the scale of scores of rows prepared as those of a training:
/// for their values and signs.
pub(super) fn trained_room_bits(entries: usize, largest_weight: f64) -> f64 {
    room_bits(entries, largest_weight, LARGEST_ROW)
}

/// `log2` of what level 0 has above the scale of scores, for weights and entries of these sizes.
pub(super) fn room_bits(entries: usize, largest_weight: f64, largest_entry: f64) -> f64 {
    1.0 + SLACK_BITS + real::log2(largest_weight * largest_entry * entries as f64)
}

/// `log2` of the scale of rows at which the error of their encryption is 1 in a score.
pub(super) fn row_scale_bits(entries: usize, largest_weight: f64, log_n: u32) -> f64 {
    Errors::new(log_n).fresh + real::log2(largest_weight) + real::log2(entries as f64) / 2.0
}

/// The primes of a level of this many bits.
pub(super) fn level_of(bits: f64) -> Vec<f64> {
    planner::level(bits, MAX_PRIME_BITS)
}

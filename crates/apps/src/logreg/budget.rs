//! How large scales and primes must be: errors and scales of encrypted training, as `log2`.
//!
//! Every quantity is held as an integer, the scale times the value, and every rescaling, rotation
//! and product leaves an integer error of about the same size in each slot. So the relative error
//! is chosen by the scales, and these by the primes. With [`Sigmoid`], an iteration computes
//!
//! ```text
//! level l      v: scale s_v       z: scale s_z
//! l - 1        t = (z . v) / range: s_t = s_v s_z range / q_l       z: s_z', free to choose
//! l - 2        a = t z: s_a = s_t s_z' / q_(l-1)                    y = t^2: s_y = s_t^2 / q_(l-1)
//! l - 3        degree 3: a (y + c), whose sum over the m rows is read as the new weights' share
//!              by a scale m / (gamma c_3 range^3) times as large
//! ```
//!
//! with one level more for degrees 5 and 7. Errors of `t`, `a` and `y` are independent in each row
//! and averaged by the sum; those of the sum itself are not, so weights have the larger scale.
//! The scale of the next `v` is fixed in advance and `s_z'` chosen to reach it exactly.

use super::{
    plan::Layout,
    reference::{SigmoidApprox, Step, TrainError},
};
use sudare::ckks::{Chain, Scale};
use sudare::rlwe::Level;
use sudare_arith::sample::CBD21_VARIANCE;

/// Weights stay below this in absolute value, or below the learning rate if that is larger.
const LARGEST_WEIGHT: f64 = 16.0;

/// Averaging over rows makes errors smaller by this factor at most, as `log2`: products of errors
/// are not averaged.
const AVERAGING_BITS: f64 = 6.0;

/// A sigmoid's polynomial, in the variable `t = x / range`, as it is evaluated:
///
/// ```text
/// s(x) = 1/2 + lead t (t^2 + shift)                               degree 3
///        1/2 + lead t ((t^2 + shift) t^2 + rest)                  degree 5
///        1/2 + lead t ((t^2 + shift) (t^4 + inner) + rest)        degree 7
/// ```
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Sigmoid {
    pub degree: u32,
    pub range: f64,
    /// Positive for degrees 3 and 7, negative for 5.
    pub lead: f64,
    pub shift: f64,
    pub tail: Option<Tail>,
    /// Sum of the absolute coefficients of odd powers of `t`.
    size: f64,
}

/// What degrees 5 and 7 have beyond degree 3.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Tail {
    /// For degree 7.
    pub inner: Option<f64>,
    pub rest: f64,
}

impl Sigmoid {
    pub fn new(approx: &SigmoidApprox) -> Result<Self, TrainError> {
        let powers = approx.coefficients()?;
        let range = approx.range;
        let odd: Vec<f64> =
            (1..powers.len()).step_by(2).map(|k| powers[k] * range.powi(k as i32)).collect();
        let size = odd.iter().map(|c| c.abs()).sum();
        let degree = powers.len() as u32 - 1;
        let (lead, shift, tail) = match odd[..] {
            [c1, c3] => (c3, c1 / c3, None),
            [c1, c3, c5] => (c5, c3 / c5, Some(Tail { inner: None, rest: c1 / c5 })),
            [c1, c3, c5, c7] => {
                let (shift, inner) = (c5 / c7, c3 / c7);
                let rest = c1 / c7 - shift * inner;
                (c7, shift, Some(Tail { inner: Some(inner), rest }))
            }
            _ => return Err(TrainError::Degree { found: degree }),
        };
        Ok(Self { degree, range, lead, shift, tail, size })
    }

    /// Levels of an iteration.
    pub fn levels(&self) -> u32 {
        if self.tail.is_some() { 4 } else { 3 }
    }
}

/// `log2` of the standard deviation of integer errors in a slot.
#[derive(Debug, Clone, Copy)]
struct Errors {
    /// Of a fresh encryption under a public key, `v e + e_0 + e_1 s`.
    fresh: f64,
    /// Of rounding both parts of a ciphertext under a uniform ternary secret: `N / 18` in
    /// coefficients, `N` times that in slots.
    rounding: f64,
}

impl Errors {
    fn new(log_n: u32) -> Self {
        let log_n = f64::from(log_n);
        Self {
            fresh: log_n + (CBD21_VARIANCE * 4.0 / 3.0).log2() / 2.0,
            rounding: log_n - 18f64.log2() / 2.0,
        }
    }
}

/// Iterations that multiply ciphertexts: all but the first two.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Round {
    /// Level of `v` before; the weights after are [`Sigmoid::levels`] below.
    pub level: Level,
    /// Scale of `v` before.
    pub scale: Scale,
    pub step: Step,
    /// Whether no momentum is needed after it.
    pub last: bool,
    /// What the rows are multiplied by, as a scale, at `level`.
    pub lift: Scale,
    /// The factor on the scale of the sum over rows, before it is read as weights.
    pub read: Scale,
}

/// Scales of a whole training.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Scales {
    /// Of encrypted rows.
    pub data: Scale,
    /// Of the sum of all rows when read as the weights after the first iterations.
    pub start: Scale,
    pub rounds: Vec<Round>,
    /// `-log2` of the error expected to dominate.
    pub precision_bits: f64,
}

/// What decides about errors and scales of a job in a ring.
pub(super) struct Budget<'a> {
    pub layout: &'a Layout,
    pub sigmoid: &'a Sigmoid,
    /// One per iteration, at least one.
    pub schedule: &'a [Step],
    pub log_n: u32,
}

impl Budget<'_> {
    fn rows(&self) -> f64 {
        self.layout.rows as f64
    }

    /// The step that makes the weights out of the sum of all rows: the second, if there is one.
    fn first_gamma(&self) -> f64 {
        self.schedule[self.schedule.len().min(2) - 1].gamma
    }

    /// Bits at level 0 above the scale of the weights, for their values and signs.
    fn headroom_bits(&self) -> f64 {
        1.0 + LARGEST_WEIGHT.max(self.first_gamma()).log2()
    }

    fn full(&self) -> &[Step] {
        self.schedule.get(2..).unwrap_or(&[])
    }

    /// `2 m / gamma`: the sum of all rows read at a scale this much larger is `gamma / (2m)` of it.
    fn start_factor(&self) -> f64 {
        2.0 * self.rows() / self.first_gamma()
    }

    /// Factor on the scale of the sum that makes it the step of `w`.
    fn read_factor(&self, step: &Step) -> f64 {
        self.rows() / (step.gamma * self.sigmoid.lead.abs())
    }

    /// Whether full iteration `k` is the last.
    fn is_last(&self, k: usize) -> bool {
        k + 1 == self.full().len()
    }

    /// Factor between the scales of the next weights and the next `v`, which has none if last.
    fn momentum_factor(&self, k: usize) -> f64 {
        if self.is_last(k) { 1.0 } else { 1.0 - self.full()[k].eta }
    }

    /// Growth of independent errors by the sums over a row's slots.
    fn window_bits(&self) -> f64 {
        (2.0 * self.layout.block as f64).log2() / 2.0
    }

    /// Share of independent errors in the sums over rows.
    fn sum_share(&self) -> f64 {
        let summands = self.layout.blocks as f64 * self.layout.ciphertexts as f64;
        (2.0 * summands).log2() / 2.0 - self.unit_bits()
    }

    fn sum_of_gammas(&self) -> f64 {
        self.first_gamma() + self.full().iter().map(|step| step.gamma).sum::<f64>()
    }

    /// What errors of weights are compared with: 1, or the size that weights can be expected to
    /// reach at a low learning rate.
    fn unit_bits(&self) -> f64 {
        (self.sum_of_gammas() / 4.0).min(1.0).log2()
    }

    /// Share of an error of a row in the weights, when independent in all rows.
    fn share(&self, gamma: f64, slope: f64) -> f64 {
        ((gamma * slope / self.rows().sqrt()).log2() - self.unit_bits()).max(-AVERAGING_BITS)
    }

    /// Share of the errors of encrypted rows, which are the same in all iterations.
    fn data_share(&self) -> f64 {
        self.share(self.sum_of_gammas(), 0.5)
    }

    /// Sizes of the primes of each level such that no single error is above `2^-precision_bits`.
    pub fn prime_bits(&self, precision_bits: f64) -> Vec<Vec<f64>> {
        let errors = Errors::new(self.log_n);
        let data = errors.fresh + self.data_share() + precision_bits;
        let weights = errors.rounding + self.sum_share() + precision_bits;
        let start = data + self.start_factor().log2();
        let full = self.full();
        if full.is_empty() {
            return vec![split(start + self.headroom_bits())];
        }
        let largest = full.iter().map(|step| step.gamma).fold(0.0, f64::max);
        let row = errors.rounding + self.share(largest, self.sigmoid.size) + precision_bits;
        let (window, range) = (self.window_bits(), self.sigmoid.range.log2());
        // Primes are then close enough to the sizes asked for, and enough of them.
        let least = f64::from(self.log_n) + 10.0;
        let mut levels = vec![split(weights + self.headroom_bits())];
        for (k, step) in full.iter().enumerate().rev() {
            let v = if k == 0 { start } else { weights };
            let read = (self.read_factor(step) / self.momentum_factor(k)).log2();
            let inner = (v + data + range - row - window).max(least);
            let last = (2.0 * row + read - weights).max(least);
            levels.push(split(last));
            levels.extend((3..self.sigmoid.levels()).map(|_| split(row.max(least))));
            levels.push(split((row + 2.0 * window).max(least)));
            levels.push(split(inner));
        }
        levels
    }

    /// Levels of the whole training.
    pub fn depth(&self) -> u32 {
        self.sigmoid.levels() * self.full().len() as u32
    }

    /// The level of `v` before full iteration `k`.
    fn level(&self, k: usize) -> u32 {
        self.depth() - self.sigmoid.levels() * k as u32
    }

    /// Scales for a chain with at least [`Budget::depth`] levels: in each iteration, `t` and `a`
    /// share what the primes offer, from the last iteration, whose result must fit level 0,
    /// upwards.
    pub fn scales(&self, chain: &Chain) -> Scales {
        let (full, factor) = (self.full(), Scale::from_f64(self.start_factor()));
        let weights = chain.log2_q(Level(0)) - self.headroom_bits();
        // Scales of the weights, `offset - part log2(data)`, the last first. The scale of `data`
        // follows from the weights that are the sum of all rows.
        let mut targets = vec![(weights, 0.0)];
        let mut next = (weights, 0.0);
        for k in (0..full.len()).rev() {
            let offset = self.offset(chain, k, next.0);
            next = (offset, 1.0 + next.1 / f64::from(self.sigmoid.degree));
            targets.push(next);
        }
        let (offset, part) = next;
        let log2_data = (offset - factor.log2()) / (1.0 + part);
        let data = Scale::from_log2(log2_data);
        let start = data * factor;
        let mut precision_bits = self.start_precision_bits(data);
        let mut v = start;
        let mut rounds = Vec::with_capacity(full.len());
        for (k, (offset, part)) in targets.iter().rev().skip(1).enumerate() {
            let target = Scale::from_log2(offset - part * log2_data);
            let (round, bits) = self.round(chain, k, data, v, target);
            precision_bits = least([precision_bits, bits]);
            rounds.push(round);
            v = target;
        }
        Scales { data, start, rounds, precision_bits }
    }

    /// The scale of `v` before full iteration `k` times that of the rows, if the scale after it is
    /// `next` and `t` has the scale of `a` times the growth of its errors: as `log2`.
    fn offset(&self, chain: &Chain, k: usize, next: f64) -> f64 {
        let (top, levels) = (self.level(k), self.sigmoid.levels());
        let prime = |below: u32| chain.divisor(Level(top - below)).log2();
        // The degree counts the factors t of the sum; each square loses the prime at its level.
        let squares = f64::from(self.sigmoid.degree - 1) / 2.0;
        let squared_squares = if levels == 4 { (squares - 1.0) * prime(2) } else { 0.0 };
        let t = next + prime(levels - 1) + squares * prime(1) + squared_squares
            - (self.read_factor(&self.full()[k]) / self.momentum_factor(k)).log2()
            + self.window_bits();
        t / f64::from(self.sigmoid.degree) + prime(0) - self.sigmoid.range.log2()
    }

    fn start_precision_bits(&self, data: Scale) -> f64 {
        data.log2() - Errors::new(self.log_n).fresh - self.data_share()
    }

    /// Full iteration `k`, that takes `v` at one scale to the next, with rows of scale `data`; and
    /// `-log2` of the largest single error that it adds.
    fn round(&self, chain: &Chain, k: usize, data: Scale, v: Scale, next: Scale) -> (Round, f64) {
        let (top, step) = (self.level(k), self.full()[k]);
        let prime = |below: u32| chain.divisor(Level(top - below));
        let read = Scale::from_f64(self.read_factor(&step));
        let weights = next * Scale::from_f64(self.momentum_factor(k));
        let t = v * data / prime(0) * Scale::from_f64(self.sigmoid.range);
        let y = t * t / prime(1);
        let last = prime(self.sigmoid.levels() - 1);
        // From the sum down: the factor beside a (degree 3), or beside a (y + shift).
        let sum = weights / read * last;
        let (a, factor, product) = match &self.sigmoid.tail {
            None => (sum / y, y, y),
            Some(tail) => {
                let factor = if tail.inner.is_some() { y * y / prime(2) } else { y };
                let product = sum / factor;
                (product * prime(2) / y, factor, product)
            }
        };
        let rows = a * prime(1) / t;
        let lift = rows * prime(0) / data;
        let rounding = Errors::new(self.log_n).rounding;
        let share = self.share(step.gamma, self.sigmoid.size);
        let start = Scale::from_f64(2.0 * self.rows() / step.gamma);
        let precision_bits = [
            t.log2() - self.window_bits() - rounding - share,
            least([rows, a, y, factor, product].map(Scale::log2)) - rounding - share,
            weights.log2() - rounding - self.sum_share(),
            // Constants are rounded to integers at these scales.
            lift.log2(),
            (weights * last / v).log2(),
            (weights * last / (data * start)).log2(),
        ];
        let level = Level(top);
        let round = Round { level, scale: v, step, last: self.is_last(k), lift, read };
        (round, least(precision_bits))
    }
}

/// The least number, or NaN if there is one.
fn least<const K: usize>(numbers: [f64; K]) -> f64 {
    numbers.into_iter().fold(f64::INFINITY, |a, b| if a.is_nan() || a <= b { a } else { b })
}

/// A level of this many bits, as primes of at most 60, if a modulus can hold them at all.
fn split(bits: f64) -> Vec<f64> {
    let primes = (bits / 60.0).ceil().clamp(1.0, 128.0);
    vec![bits / primes; primes as usize]
}

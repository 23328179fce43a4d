//! Logistic regression in clear double precision: the algorithm of the encrypted training, step
//! for step.
//!
//! A model is a weight vector `w` with the intercept first; `sigmoid(w . (1, x))` is the
//! probability of a true label. Training sees rows `z = y (1, x)` with `y = 1` for a true label
//! and `y = -1` for a false one, and lowers the mean of `log(1 + exp(-z . w))` by Nesterov's
//! accelerated gradient over batches of rows, or over all of them. With `w = v = 0` at first,
//! iteration `t = 0, 1, ...` computes, over the `m` rows of its batch,
//!
//! ```text
//! w' = v + gamma_t / m * sum_i s(z_i . v) z_i      s(a) close to sigmoid(-a)
//! v' = (1 - eta_t) w' + eta_t w
//! ```
//!
//! With an L2 penalty `lambda`, `w' = D v + ...` where `D` multiplies all but the intercept by
//! `1 - gamma_t lambda`, and what is lowered is that mean plus `lambda / 2` times the sum of the
//! squares of these weights. The gradient of the loss is `-1/m sum_i sigmoid(-z_i . v) z_i`, hence the plus sign. Batches
//! come in order, again and again ([`Batches`]): rows should be in no order ([`Table::shuffle`]).
//!
//! With [`ClassWeights`], the loss of a row is multiplied by the weight `c_i` of its class, so its
//! summand is `s(z_i . v) c_i z_i`. Weights have the mean 1 over all rows, so that step sizes,
//! penalties and the interval of `s` mean what they mean without.
//!
//! [`Table::shuffle`]: crate::table::Table::shuffle
//!
//! References: Kim, Song, Kim, Lee, Cheon, "Logistic regression model training based on the
//! approximate homomorphic encryption", BMC Medical Genomics 11(4), 83, 2018; Cheon, Han, Kim,
//! Kim, Song, "A full RNS variant of approximate homomorphic encryption", SAC 2018, section 5.3.

use core::ops::Range;
use std::f64::consts::PI;

use serde::{Deserialize, Serialize};

/// Why clear training is impossible.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum TrainError {
    /// No iterations are asked for.
    #[error("found 0 iterations; training needs at least 1")]
    Iterations,
    /// Batches of no rows are asked for.
    #[error("found batches of 0 rows; a batch needs at least 1")]
    Batch,
    /// Batches are to be divided among no workers.
    #[error("batches are to be divided among 0 workers; name at least 1")]
    Workers,
    /// The penalty is negative, not finite, or so large that a step turns weights around.
    #[error(
        "the L2 penalty is {found}, but with these step sizes it must be from 0 to {most}: lower \
         one of them"
    )]
    L2 {
        /// The offending penalty.
        found: f64,
        /// The largest that is possible.
        most: f64,
    },
    /// A class weight is no weight.
    #[error("a class weight is {found}, but it must be positive and finite")]
    ClassWeight {
        /// The offending weight.
        found: f64,
    },
    /// Class weights are planned for, and none are given.
    #[error(
        "the training is planned with class weights that are given with the rows: give one for \
         each class"
    )]
    NoClassWeights,
    /// Class weights are given, and none are planned for.
    #[error(
        "class weights are given, but the training is planned without, or with balanced ones: \
         leave them out, or plan it with given ones"
    )]
    UnplannedClassWeights,
    /// Weights cannot be shared to so many bits.
    #[error(
        "weights to be shared to {found} bits after the point; 1 to {max} are possible",
        max = TrainSpec::MAX_SHARED_BITS
    )]
    SharedBits {
        /// Bits asked for.
        found: u32,
    },
    /// The learning rate is not a positive finite number.
    #[error("the learning rate is {found}, but it must be positive and finite")]
    LearningRate {
        /// The offending rate.
        found: f64,
    },
    /// The interval of the sigmoid's approximation is empty or too wide.
    #[error(
        "the sigmoid's range is {found}, but it must be above 0 and at most {max}",
        max = SigmoidApprox::MAX_RANGE
    )]
    Range {
        /// The offending half width.
        found: f64,
    },
    /// No polynomial of this degree is available.
    #[error("the sigmoid's degree is {found}, but it must be 3, 5 or 7")]
    Degree {
        /// The wanted degree.
        found: u32,
    },
    /// There are no rows, or rows without entries.
    #[error("there are no rows to train on; training needs at least one")]
    Empty,
    /// Rows differ in length.
    #[error("row {row} has {found} entries, but row 0 has {needed}; all rows need the same number")]
    RowLength {
        /// The first row that differs, counted from 0.
        row: usize,
        /// Its length.
        found: usize,
        /// Length of row 0.
        needed: usize,
    },
    /// Weights or inner products overflow.
    #[error(
        "training diverges in iteration {iteration} (counted from 0): |z . v| was {largest} \
         before; lower the learning rate, or widen the sigmoid's range, and scale the features \
         into [-1, 1]"
    )]
    Diverged {
        /// Iteration that gave a value that is not finite.
        iteration: u32,
        /// Largest `|z . v|` of the iteration before, 0 if there was none.
        largest: f64,
    },
}

/// Step size of each iteration `t = 0, 1, ...`, before the division by the number of rows.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LearningRate {
    /// `gamma_t = initial / (t + 1)`.
    Decaying {
        /// Step size of the first iteration.
        initial: f64,
    },
    /// `gamma_t` is the same in all iterations.
    Constant(f64),
}

/// `10 / (t + 1)`, usual in work on encrypted training.
impl Default for LearningRate {
    fn default() -> Self {
        Self::Decaying { initial: 10.0 }
    }
}

impl LearningRate {
    /// Step size of iteration `t`, counted from 0.
    pub fn at(self, t: u32) -> f64 {
        match self {
            Self::Decaying { initial } => initial / (f64::from(t) + 1.0),
            Self::Constant(rate) => rate,
        }
    }
}

/// Degree of the polynomial that stands for the sigmoid. Serialised as the number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(try_from = "u32", into = "u32")]
pub enum SigmoidDegree {
    /// Degree 3.
    #[default]
    Three,
    /// Degree 5.
    Five,
    /// Degree 7.
    Seven,
}

impl From<SigmoidDegree> for u32 {
    fn from(degree: SigmoidDegree) -> Self {
        match degree {
            SigmoidDegree::Three => 3,
            SigmoidDegree::Five => 5,
            SigmoidDegree::Seven => 7,
        }
    }
}

impl TryFrom<u32> for SigmoidDegree {
    type Error = TrainError;

    fn try_from(degree: u32) -> Result<Self, TrainError> {
        match degree {
            3 => Ok(Self::Three),
            5 => Ok(Self::Five),
            7 => Ok(Self::Seven),
            found => Err(TrainError::Degree { found }),
        }
    }
}

/// Least squares polynomial of `sigmoid(-x)` on `[-range, range]`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct SigmoidApprox {
    /// Degree of the polynomial.
    pub degree: SigmoidDegree,
    /// Half width of the interval, in `(0, MAX_RANGE]`.
    pub range: f64,
}

/// Degree 3 on `[-8, 8]`.
impl Default for SigmoidApprox {
    fn default() -> Self {
        Self { degree: SigmoidDegree::default(), range: 8.0 }
    }
}

impl SigmoidApprox {
    /// Widest half interval on offer; a polynomial of degree 7 is useless well before it.
    pub const MAX_RANGE: f64 = 256.0;

    /// Coefficients `c` of `s(x) = c[0] + c[1] x + ...`, the polynomial of this degree with the
    /// smallest integral of `(s(x) - sigmoid(-x))^2` over `[-range, range]`.
    ///
    /// `c[0]` is 1/2 and the other even coefficients are 0. The approximation of `sigmoid(x)`
    /// itself is `s(-x)`.
    ///
    /// # Errors
    /// [`TrainError::Range`] if the range is not in `(0, MAX_RANGE]`.
    pub fn coefficients(&self) -> Result<Vec<f64>, TrainError> {
        let range = self.range;
        if !(range > 0.0 && range <= Self::MAX_RANGE) {
            return Err(TrainError::Range { found: range });
        }
        let degree = u32::from(self.degree) as usize;
        // sigmoid(-range u) = 1/2 - tanh(range u / 2) / 2 has its poles nearest to [-1, 1] at
        // u = ±i pi / range, so the quadrature's error falls as exp(-2 asinh(pi / range)) per node.
        let nodes = (20.0 / (PI / range).asinh()).ceil() as usize + degree;
        let legendre = legendre_monomials(degree);
        let mut projections = vec![0.0; degree + 1];
        for (u, weight) in gauss_legendre(nodes) {
            let value = -0.5 * (0.5 * range * u).tanh();
            for k in (1..=degree).step_by(2) {
                projections[k] += weight * value * horner(&legendre[k], u);
            }
        }
        let mut coefficients = vec![0.0; degree + 1];
        coefficients[0] = 0.5;
        for k in (1..=degree).step_by(2) {
            let projection = (k as f64 + 0.5) * projections[k];
            for (power, monomial) in legendre[k].iter().enumerate().skip(1).step_by(2) {
                coefficients[power] += projection * monomial / range.powi(power as i32);
            }
        }
        Ok(coefficients)
    }
}

/// Coefficients of the least squares polynomial of `sigmoid(-x)` on `[-range, range]`, constant
/// first; see [`SigmoidApprox::coefficients`].
///
/// # Errors
/// [`TrainError::Range`] if the range is not in `(0, SigmoidApprox::MAX_RANGE]`.
pub fn sigmoid_coefficients(degree: SigmoidDegree, range: f64) -> Result<Vec<f64>, TrainError> {
    SigmoidApprox { degree, range }.coefficients()
}

/// Where the weights come from that the losses of rows are multiplied by, one for each class.
///
/// Only their ratio counts: they are divided by their mean over all rows. Who trains under
/// encryption learns that there are weights and where they come from, but not the weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClassWeights {
    /// From the rows: both classes count alike, `n / (2 n_c)` for the `n_c` of `n` rows of a class.
    Balanced,
    /// From the owner of the rows, who gives them with these.
    Given,
}

/// How to train.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct TrainSpec {
    /// Number of iterations, at least 1.
    pub iterations: u32,
    /// Step sizes.
    pub learning_rate: LearningRate,
    /// Polynomial in place of the sigmoid.
    pub sigmoid: SigmoidApprox,
    /// Most rows of a batch, at least 1; all of the table if none.
    #[serde(default)]
    pub batch: Option<usize>,
    /// Bits after the binary point to which the weights are to be shared with others than the
    /// owner of the key, 1 to [`TrainSpec::MAX_SHARED_BITS`]; none if with nobody. Encrypted
    /// training then computes with as much more precision as [`Release`](sudare::ckks::Release)
    /// takes.
    #[serde(default)]
    pub shared_bits: Option<u32>,
    /// Whether rows are to be scored with the weights before they are decrypted: see
    /// [`ScorePlan`](super::ScorePlan). It takes a level more.
    #[serde(default)]
    pub scorable: bool,
    /// The L2 penalty `lambda` on all weights but the intercept, for features as they are scaled
    /// for training: 0 for none, at most 1 by the step size of the third iteration. It takes no
    /// level.
    #[serde(default)]
    pub l2: f64,
    /// Workers that each batch is to be divided among, at least 1: it has as many shares then, if
    /// the ring allows it, at the price of some key switches. Without, shares are as is cheapest:
    /// see [`TrainPlan::shares`](super::TrainPlan::shares).
    #[serde(default)]
    pub workers: Option<usize>,
    /// What rows weigh by their class; all the same if none. With weights, the encrypted table has
    /// twice the ciphertexts; it takes no level.
    #[serde(default)]
    pub class_weights: Option<ClassWeights>,
}

/// 5 iterations at the default rate and sigmoid, as in Cheon et al. 2018, table 4.
impl Default for TrainSpec {
    fn default() -> Self {
        Self {
            iterations: 5,
            learning_rate: LearningRate::default(),
            sigmoid: SigmoidApprox::default(),
            batch: None,
            shared_bits: None,
            scorable: false,
            l2: 0.0,
            workers: None,
            class_weights: None,
        }
    }
}

impl TrainSpec {
    /// Most bits after the binary point to which weights can be shared. With more, `f64` would
    /// round what noise must hide.
    pub const MAX_SHARED_BITS: u32 = 12;

    /// Checks that the spec can be trained with.
    ///
    /// # Errors
    /// [`TrainError::Iterations`], [`TrainError::Batch`], [`TrainError::Workers`],
    /// [`TrainError::SharedBits`], [`TrainError::LearningRate`], [`TrainError::L2`] or
    /// [`TrainError::Range`].
    pub fn check(&self) -> Result<(), TrainError> {
        if self.iterations == 0 {
            return Err(TrainError::Iterations);
        }
        if self.batch == Some(0) {
            return Err(TrainError::Batch);
        }
        if self.workers == Some(0) {
            return Err(TrainError::Workers);
        }
        if let Some(found) = self.shared_bits
            && !(1..=Self::MAX_SHARED_BITS).contains(&found)
        {
            return Err(TrainError::SharedBits { found });
        }
        let (LearningRate::Decaying { initial: found } | LearningRate::Constant(found)) =
            self.learning_rate;
        if !(found.is_finite() && found > 0.0) {
            return Err(TrainError::LearningRate { found });
        }
        // Before the third iteration, there is nothing to penalise.
        let (found, most) = (self.l2, 1.0 / self.learning_rate.at(2));
        if !(0.0..=most).contains(&found) {
            return Err(TrainError::L2 { found, most });
        }
        let range = self.sigmoid.range;
        if !(range > 0.0 && range <= SigmoidApprox::MAX_RANGE) {
            return Err(TrainError::Range { found: range });
        }
        Ok(())
    }
}

impl TrainSpec {
    /// The weights of a row with a false and of one with a true label, of mean 1 over rows with
    /// these labels. `given` are any positive multiples of them, for [`ClassWeights::Given`].
    ///
    /// # Errors
    /// [`TrainError::ClassWeight`]; [`TrainError::NoClassWeights`];
    /// [`TrainError::UnplannedClassWeights`].
    pub fn class_weights(
        &self,
        labels: impl IntoIterator<Item = bool>,
        given: Option<[f64; 2]>,
    ) -> Result<[f64; 2], TrainError> {
        if let Some(found) =
            given.into_iter().flatten().find(|&weight| !(weight.is_finite() && weight > 0.0))
        {
            return Err(TrainError::ClassWeight { found });
        }
        let mut rows = [0.0, 0.0];
        labels.into_iter().for_each(|label| rows[usize::from(label)] += 1.0);
        // Of the other class in units of this one, without overflow.
        let mean_1 = |[own, other]: [f64; 2], ratio: f64| match (own > 0.0, other > 0.0) {
            (true, true) => (own + other) / (own + other * ratio),
            _ => 1.0,
        };
        let [zeros, ones] = rows;
        match (self.class_weights, given) {
            (None, None) => Ok([1.0; 2]),
            (Some(ClassWeights::Balanced), None) => {
                Ok([mean_1([zeros, ones], zeros / ones), mean_1([ones, zeros], ones / zeros)])
            }
            (Some(ClassWeights::Given), Some([zero, one])) => {
                Ok([mean_1([zeros, ones], one / zero), mean_1([ones, zeros], zero / one)])
            }
            (Some(ClassWeights::Given), None) => Err(TrainError::NoClassWeights),
            (_, Some(_)) => Err(TrainError::UnplannedClassWeights),
        }
    }
}

/// The label of a row `z = y (1, x)`.
pub(super) fn label(z: &[f64]) -> bool {
    z.first().is_some_and(|&y| y > 0.0)
}

/// How the rows of a table are cut into batches: consecutive rows, as evenly as can be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Batches {
    rows: usize,
    count: usize,
}

impl Batches {
    /// As few batches as have no more rows than [`TrainSpec::batch`].
    #[must_use]
    pub fn new(rows: usize, spec: &TrainSpec) -> Self {
        let most = spec.batch.unwrap_or(rows).max(1);
        Self { rows, count: rows.div_ceil(most).max(1) }
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }

    /// How many a training of so many iterations looks at.
    #[must_use]
    pub fn used(&self, iterations: u32) -> usize {
        self.count.min(iterations.saturating_sub(1).max(1) as usize)
    }

    /// The batch of an iteration, both counted from 0: in turn, but for the first iteration, of
    /// which nothing is left after the second ([`schedule`]) and which takes the same.
    #[must_use]
    pub fn of(&self, iteration: u32) -> usize {
        iteration.saturating_sub(1) as usize % self.count
    }

    /// The rows of a batch.
    #[must_use]
    pub fn rows(&self, batch: usize) -> Range<usize> {
        let (size, longer) = (self.rows / self.count, self.rows % self.count);
        let start = batch * size + batch.min(longer);
        start..start + size + usize::from(batch < longer)
    }

    /// The most rows of a batch.
    #[must_use]
    pub fn most_rows(&self) -> usize {
        self.rows.div_ceil(self.count)
    }
}

/// Constants of one iteration.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Step {
    /// Step size `gamma_t`, to be divided by the number of rows.
    pub gamma: f64,
    /// Momentum `eta_t`: `v' = (1 - eta_t) w' + eta_t w`. In `(-1, 1]`.
    pub eta: f64,
    /// What `v` is multiplied by for `w'`, but for the intercept: `1 - gamma_t lambda`.
    pub decay: f64,
}

/// Step sizes and momenta of all iterations.
///
/// `eta_t = (1 - lambda_t) / lambda_{t+1}` with `lambda_0 = 0` and
/// `lambda_{t+1} = (1 + sqrt(1 + 4 lambda_t^2)) / 2`, so `eta_0 = 1`, `eta_1 = 0`, and the others
/// are negative. Because `eta_0 = 1`, `v` is still 0 in the second iteration: all inner products
/// of the first two iterations are 0, and after these `w = v = gamma_1 / (2 m) sum_i z_i`, over
/// the rows of the second.
pub fn schedule(spec: &TrainSpec) -> Vec<Step> {
    let mut lambda = 0.0_f64;
    (0..spec.iterations)
        .map(|t| {
            let next = (1.0 + (1.0 + 4.0 * lambda * lambda).sqrt()) / 2.0;
            let eta = (1.0 - lambda) / next;
            lambda = next;
            let gamma = spec.learning_rate.at(t);
            Step { gamma, eta, decay: 1.0 - gamma * spec.l2 }
        })
        .collect()
}

/// Trains on rows `z = y (1, x)` with the polynomial sigmoid; returns the weights. `given` are the
/// class weights, of a false and of a true label, of a spec with [`ClassWeights::Given`].
///
/// # Errors
/// [`TrainError`] for a bad spec, weights or none where the spec has it otherwise, rows of unequal
/// length, or divergence.
pub fn train<R: AsRef<[f64]>>(
    z: &[R],
    spec: &TrainSpec,
    given: Option<[f64; 2]>,
) -> Result<Vec<f64>, TrainError> {
    ranges(z, spec, given).map(|ranges| ranges.weights)
}

/// As [`train`], with the true sigmoid in place of the polynomial.
///
/// # Errors
/// As [`train`].
pub fn train_exact<R: AsRef<[f64]>>(
    z: &[R],
    spec: &TrainSpec,
    given: Option<[f64; 2]>,
) -> Result<Vec<f64>, TrainError> {
    descend(z, spec, given, |a| 1.0 / (1.0 + a.exp()), |_| ()).map(|ranges| ranges.weights)
}

/// The weights after each iteration of [`train`].
///
/// # Errors
/// As [`train`].
pub fn history<R: AsRef<[f64]>>(
    z: &[R],
    spec: &TrainSpec,
    given: Option<[f64; 2]>,
) -> Result<Vec<Vec<f64>>, TrainError> {
    let coefficients = spec.sigmoid.coefficients()?;
    let mut history = Vec::new();
    let keep = |weights: &[f64]| history.push(weights.to_vec());
    descend(z, spec, given, |a| horner(&coefficients, a), keep)?;
    Ok(history)
}

/// Sizes of the quantities met in training, and its result. Each list has one entry per iteration.
#[derive(Debug, Clone, PartialEq)]
pub struct Ranges {
    /// The trained weights.
    pub weights: Vec<f64>,
    /// Largest `|z_i . v|` over the rows of the batch, for the `v` that the iteration starts from. The
    /// polynomial is meant for values up to [`SigmoidApprox::range`].
    pub max_abs_inner: Vec<f64>,
    /// Largest entry of `|w|` after the iteration.
    pub max_abs_weight: Vec<f64>,
    /// Largest entry of `|v|` after the iteration.
    pub max_abs_momentum: Vec<f64>,
}

/// Trains as [`train`] does and records the ranges that a plan for encrypted training needs.
///
/// # Errors
/// As [`train`].
pub fn ranges<R: AsRef<[f64]>>(
    z: &[R],
    spec: &TrainSpec,
    given: Option<[f64; 2]>,
) -> Result<Ranges, TrainError> {
    let coefficients = spec.sigmoid.coefficients()?;
    descend(z, spec, given, |a| horner(&coefficients, a), |_| ())
}

/// Nesterov's descent with `s(a)` in place of `sigmoid(-a)`; `after` sees the weights after each
/// iteration.
fn descend<R: AsRef<[f64]>>(
    z: &[R],
    spec: &TrainSpec,
    given: Option<[f64; 2]>,
    s: impl Fn(f64) -> f64,
    mut after: impl FnMut(&[f64]),
) -> Result<Ranges, TrainError> {
    spec.check()?;
    let width = z.first().map_or(0, |row| row.as_ref().len());
    if width == 0 {
        return Err(TrainError::Empty);
    }
    if let Some(row) = z.iter().position(|row| row.as_ref().len() != width) {
        return Err(TrainError::RowLength { row, found: z[row].as_ref().len(), needed: width });
    }

    let class_weights = spec.class_weights(z.iter().map(|row| label(row.as_ref())), given)?;

    let mut w = vec![0.0; width];
    let mut v = vec![0.0; width];
    let mut gradient = vec![0.0; width];
    let batches = Batches::new(z.len(), spec);
    let (mut max_abs_inner, mut max_abs_weight, mut max_abs_momentum) = (vec![], vec![], vec![]);
    for (iteration, step) in (0..).zip(schedule(spec)) {
        gradient.fill(0.0);
        let mut largest = 0.0_f64;
        let batch = &z[batches.rows(batches.of(iteration))];
        for row in batch {
            let row = row.as_ref();
            let inner: f64 = row.iter().zip(&v).map(|(z, v)| z * v).sum();
            largest = largest.max(inner.abs());
            let slope = class_weights[usize::from(label(row))] * s(inner);
            for (sum, z) in gradient.iter_mut().zip(row) {
                *sum += slope * z;
            }
        }
        let gamma = step.gamma / batch.len() as f64;
        for (j, ((w, v), sum)) in w.iter_mut().zip(&mut v).zip(&gradient).enumerate() {
            let decay = if j == 0 { 1.0 } else { step.decay };
            let next = decay * *v + gamma * sum;
            *v = (1.0 - step.eta) * next + step.eta * *w;
            *w = next;
        }
        if !w.iter().chain(&v).all(|value| value.is_finite()) {
            let largest = max_abs_inner.last().copied().unwrap_or(0.0);
            return Err(TrainError::Diverged { iteration, largest });
        }
        after(&w);
        max_abs_inner.push(largest);
        max_abs_weight.push(max_abs(&w));
        max_abs_momentum.push(max_abs(&v));
    }
    Ok(Ranges { weights: w, max_abs_inner, max_abs_weight, max_abs_momentum })
}

fn max_abs(values: &[f64]) -> f64 {
    values.iter().fold(0.0, |largest, value| largest.max(value.abs()))
}

/// `c[0] + c[1] x + ...`
fn horner(coefficients: &[f64], x: f64) -> f64 {
    coefficients.iter().rev().fold(0.0, |sum, coefficient| sum * x + coefficient)
}

/// Monomial coefficients of the Legendre polynomials `P_0, ..., P_degree`, constant first, by
/// `(k + 1) P_{k+1} = (2k + 1) x P_k - k P_{k-1}`.
fn legendre_monomials(degree: usize) -> Vec<Vec<f64>> {
    let mut all = vec![vec![1.0], vec![0.0, 1.0]];
    for k in 1..degree {
        let mut next = vec![0.0; k + 2];
        for (power, coefficient) in all[k].iter().enumerate() {
            next[power + 1] += (2 * k + 1) as f64 * coefficient;
        }
        for (power, coefficient) in all[k - 1].iter().enumerate() {
            next[power] -= k as f64 * coefficient;
        }
        for coefficient in &mut next {
            *coefficient /= (k + 1) as f64;
        }
        all.push(next);
    }
    all
}

/// Nodes and weights of the Gauss-Legendre rule with `count` nodes on `[-1, 1]`: zeros of `P_count`
/// by Newton's method from `cos(pi (i + 3/4) / (count + 1/2))`, weights
/// `2 / ((1 - u^2) P_count'(u)^2)`.
fn gauss_legendre(count: usize) -> Vec<(f64, f64)> {
    let n = count as f64;
    (0..count)
        .map(|i| {
            let mut u = (PI * (i as f64 + 0.75) / (n + 0.5)).cos();
            let mut slope = 1.0;
            // Quadratic convergence from a start with error O(n^-4): a few steps reach the rounding.
            for _ in 0..8 {
                let (mut previous, mut value) = (1.0, u);
                for k in 1..count {
                    let k = k as f64;
                    let next = ((2.0 * k + 1.0) * u * value - k * previous) / (k + 1.0);
                    (previous, value) = (value, next);
                }
                slope = n * (previous - u * value) / (1.0 - u * u);
                u -= value / slope;
            }
            (u, 2.0 / ((1.0 - u * u) * slope * slope))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::metrics;
    use crate::table::{Scaling, Table};

    const DEGREES: [SigmoidDegree; 3] =
        [SigmoidDegree::Three, SigmoidDegree::Five, SigmoidDegree::Seven];

    fn spec(degree: SigmoidDegree) -> TrainSpec {
        TrainSpec {
            sigmoid: SigmoidApprox { degree, ..SigmoidApprox::default() },
            ..TrainSpec::default()
        }
    }

    fn signed(name: &str) -> Vec<Vec<f64>> {
        let table = Table::bundled(name).unwrap();
        Scaling::max_abs(&table).signed_rows(&table).unwrap()
    }

    fn dot(a: &[f64], b: &[f64]) -> f64 {
        a.iter().zip(b).map(|(a, b)| a * b).sum()
    }

    fn loss(z: &[Vec<f64>], w: &[f64]) -> f64 {
        z.iter().map(|z| (-dot(z, w)).exp().ln_1p()).sum::<f64>() / z.len() as f64
    }

    /// Accuracy and AUC of `w` on signed rows, whose first entry is the sign.
    fn quality(z: &[Vec<f64>], w: &[f64]) -> (f64, f64) {
        let labels: Vec<bool> = z.iter().map(|z| z[0] > 0.0).collect();
        let scores: Vec<f64> = z.iter().map(|z| z[0] * dot(z, w)).collect();
        (metrics::accuracy(&scores, &labels).unwrap(), metrics::auc(&scores, &labels).unwrap())
    }

    fn assert_close(found: &[f64], expected: &[f64], tolerance: f64) {
        assert_eq!(found.len(), expected.len());
        for (a, b) in found.iter().zip(expected) {
            assert!((a - b).abs() <= tolerance, "{found:?} against {expected:?}");
        }
    }

    /// Published work on encrypted training uses, for `sigmoid(x)`, the polynomials
    /// `0.5 + 1.20096 (x/8) - 0.81562 (x/8)^3` and `0.5 + 1.73496 (x/8) - 4.19407 (x/8)^3 +
    /// 5.43402 (x/8)^5 - 2.50739 (x/8)^7`. Coefficients of the second are off the continuous
    /// optimum by up to a factor of 1.0008.
    #[test]
    fn coefficients_agree_with_published_ones() {
        let published: [(SigmoidDegree, &[f64], f64); 2] = [
            (SigmoidDegree::Three, &[1.20096, -0.81562], 1e-5),
            (SigmoidDegree::Seven, &[1.73496, -4.19407, 5.43402, -2.50739], 1e-3),
        ];
        for (degree, odd, tolerance) in published {
            let s = sigmoid_coefficients(degree, 8.0).unwrap();
            assert_eq!(s.len(), 2 * odd.len());
            assert_eq!(s[0], 0.5);
            for (k, expected) in odd.iter().enumerate() {
                let power = 2 * k + 1;
                let found = -s[power] * 8_f64.powi(power as i32);
                assert!((found / expected - 1.0).abs() < tolerance, "{found} {expected}");
            }
            assert!(s.iter().skip(2).step_by(2).all(|&even| even == 0.0));
        }
    }

    /// The error of a least squares fit is orthogonal to all polynomials of the degree.
    #[test]
    fn approximation_error_is_orthogonal_to_monomials() {
        for range in [0.5, 2.0, 8.0, 30.0, SigmoidApprox::MAX_RANGE] {
            for degree in DEGREES {
                let s = sigmoid_coefficients(degree, range).unwrap();
                for power in (1..s.len()).step_by(2) {
                    // Simpson's rule over u = x / range.
                    let intervals = 40_000;
                    let integral: f64 = (0..=intervals)
                        .map(|i| {
                            let u = 2.0 * f64::from(i) / f64::from(intervals) - 1.0;
                            let ends = i == 0 || i == intervals;
                            let weight = if ends { 1.0 } else { f64::from(2 + 2 * (i % 2)) };
                            let error = horner(&s, range * u) - 1.0 / (1.0 + (range * u).exp());
                            weight * error * u.powi(power as i32)
                        })
                        .sum::<f64>()
                        * 2.0
                        / (3.0 * f64::from(intervals));
                    assert!(integral.abs() < 1e-11, "{range} {degree:?} {power}: {integral:e}");
                }
            }
        }
    }

    #[test]
    fn higher_degrees_fit_better() {
        let error = |degree| {
            let s = sigmoid_coefficients(degree, 8.0).unwrap();
            (0..=800)
                .map(|i| f64::from(i) / 50.0 - 8.0)
                .map(|x| (horner(&s, x) - 1.0 / (1.0 + x.exp())).abs())
                .fold(0.0, f64::max)
        };
        let [three, five, seven] = DEGREES.map(error);
        assert!(seven < five && five < three && three < 0.12, "{three} {five} {seven}");
        assert!(seven < 0.035, "{seven}");
    }

    #[test]
    fn gauss_legendre_is_exact_for_polynomials() {
        for count in [1, 2, 5, 64] {
            let rule = gauss_legendre(count);
            for power in 0..2 * count.min(10) as i32 {
                let found: f64 = rule.iter().map(|(u, weight)| weight * u.powi(power)).sum();
                let exact = if power % 2 == 0 { 2.0 / f64::from(power + 1) } else { 0.0 };
                assert!((found - exact).abs() < 1e-13, "{count} {power}: {found}");
            }
        }
    }

    #[test]
    fn schedule_follows_nesterov() {
        let steps = schedule(&TrainSpec { iterations: 4, ..TrainSpec::default() });
        // lambda = 0, 1, (1 + sqrt 5) / 2, ...
        let golden = (1.0 + 5_f64.sqrt()) / 2.0;
        let fourth = (1.0 + (1.0 + 4.0 * golden * golden).sqrt()) / 2.0;
        let etas: Vec<f64> = steps.iter().map(|step| step.eta).collect();
        assert_close(&etas[..3], &[1.0, 0.0, (1.0 - golden) / fourth], 1e-15);
        assert!(etas[3] < etas[2] && etas[3] > -1.0);
        let gammas: Vec<f64> = steps.iter().map(|step| step.gamma).collect();
        assert_close(&gammas, &[10.0, 5.0, 10.0 / 3.0, 2.5], 1e-15);
        let constant =
            TrainSpec { learning_rate: LearningRate::Constant(0.25), ..TrainSpec::default() };
        assert!(schedule(&constant).iter().all(|step| step.gamma == 0.25));
    }

    /// Weights from a separate program in another language, which fits the sigmoid by rational
    /// normal equations and loops over rows and columns as the formulas are printed.
    #[test]
    fn lbw_weights_equal_an_independent_computation() {
        let z = signed("lbw");
        let three = [
            0.6422000977835151,
            0.4088236221302122,
            0.46367017531575494,
            0.6647802043563793,
            -0.08669938875429607,
            -0.3506998192909643,
            -0.17899572342208633,
            -0.21431749958936946,
            -0.2961716813355386,
            0.14481388157750985,
        ];
        let seven = [
            0.4763808990735279,
            0.3221430739020906,
            0.37724150479434176,
            0.5771380563323281,
            -0.10056835014065095,
            -0.3763516980216315,
            -0.18443059628881295,
            -0.22082630236151365,
            -0.3053356973017747,
            0.12138878090184065,
        ];
        let exact = [
            0.4246267139616898,
            0.29653948611739317,
            0.35149920095729126,
            0.5623203109546706,
            -0.10662542540235423,
            -0.3803072471095629,
            -0.18621252232973845,
            -0.2230503434707993,
            -0.3087274677053658,
            0.11513886367151191,
        ];
        assert_close(&train(&z, &spec(SigmoidDegree::Three), None).unwrap(), &three, 1e-10);
        assert_close(&train(&z, &spec(SigmoidDegree::Seven), None).unwrap(), &seven, 1e-10);
        assert_close(&train_exact(&z, &TrainSpec::default(), None).unwrap(), &exact, 1e-10);
    }

    /// The same figures from the same separate program: rows right of all, AUC.
    #[test]
    fn five_iterations_reach_the_expected_quality() {
        let expected = [
            ("lbw", [(130, 0.6968709), (130, 0.6997392), (130, 0.7009127)]),
            ("uis", [(428, 0.6188648), (428, 0.6189443), (428, 0.6192304)]),
        ];
        for (name, by_degree) in expected {
            let z = signed(name);
            for (degree, (right, area)) in DEGREES.into_iter().zip(by_degree) {
                let (accuracy, auc) = quality(&z, &train(&z, &spec(degree), None).unwrap());
                assert_eq!(accuracy, f64::from(right) / z.len() as f64, "{name} {degree:?}");
                assert!((auc - area).abs() < 1e-6, "{name} {degree:?}: {auc}");
            }
        }
    }

    /// Cheon et al. 2018, table 4: accuracy 69.73 % and AUC 0.62 for lbw, 74.43 % and 0.59 for
    /// uis, which are 129 of 185 and 428 of 575 rows: five folds of 37 and of 115 rows. The
    /// published shuffle is not known, so means over shuffles are compared.
    #[test]
    fn cross_validation_agrees_with_the_paper() {
        for (name, paper_accuracy, paper_auc) in [("lbw", 0.6973, 0.62), ("uis", 0.7443, 0.59)] {
            let mut z = signed(name);
            let fold = z.len() / 5;
            let (mut accuracy, mut auc, mut folds) = (0.0, 0.0, 0.0);
            let mut state = 1_u64;
            for _ in 0..10 {
                for i in (1..z.len()).rev() {
                    state = state.wrapping_mul(6364136223846793005).wrapping_add(1);
                    z.swap(i, (state >> 33) as usize % (i + 1));
                }
                for k in 0..5 {
                    let held_out = k * fold..(k + 1) * fold;
                    let rest = [&z[..held_out.start], &z[held_out.end..]].concat();
                    let w = train(&rest, &TrainSpec::default(), None).unwrap();
                    let (a, b) = quality(&z[held_out], &w);
                    accuracy += a;
                    auc += b;
                    folds += 1.0;
                }
            }
            let (accuracy, auc) = (accuracy / folds, auc / folds);
            assert!((accuracy - paper_accuracy).abs() < 0.02, "{name}: {accuracy}");
            assert!(auc > paper_auc && auc < paper_auc + 0.06, "{name}: {auc}");
        }
    }

    /// One step from zero goes down the numerical gradient of the loss.
    #[test]
    fn first_step_is_the_negative_gradient() {
        let z = signed("lbw");
        let one = TrainSpec {
            iterations: 1,
            learning_rate: LearningRate::Constant(0.5),
            ..TrainSpec::default()
        };
        let gradient: Vec<f64> = (0..z[0].len())
            .map(|j| {
                let at = |h: f64| {
                    let mut w = vec![0.0; z[0].len()];
                    w[j] = h;
                    loss(&z, &w)
                };
                (at(1e-4) - at(-1e-4)) / 2e-4
            })
            .collect();
        let expected: Vec<f64> = gradient.iter().map(|slope| -0.5 * slope).collect();
        assert_close(&train_exact(&z, &one, None).unwrap(), &expected, 1e-8);
        assert_close(&train(&z, &one, None).unwrap(), &expected, 1e-8);
    }

    #[test]
    fn loss_falls_and_exact_training_converges() {
        for name in Table::BUNDLED {
            let z = signed(name);
            let start = loss(&z, &vec![0.0; z[0].len()]);
            assert!((start - 2_f64.ln()).abs() < 1e-12);
            for degree in DEGREES {
                let end = loss(&z, &train(&z, &spec(degree), None).unwrap());
                assert!(end < start - 0.08, "{name} {degree:?}: {end}");
            }
            let long = TrainSpec {
                iterations: 4000,
                learning_rate: LearningRate::Constant(1.0),
                ..TrainSpec::default()
            };
            let w = train_exact(&z, &long, None).unwrap();
            for j in 0..w.len() {
                let slope: f64 = z.iter().map(|z| z[j] / (1.0 + dot(z, &w).exp())).sum();
                assert!(slope.abs() / (z.len() as f64) < 1e-5, "{name} {j}: {slope}");
            }
        }
    }

    /// At the minimum, the gradient of the mean loss is that of the penalty: `-lambda w`, and 0 for
    /// the intercept.
    #[test]
    fn penalised_training_converges_to_its_minimum() {
        for l2 in [0.02, 0.3] {
            let z = signed("lbw");
            let long = TrainSpec {
                iterations: 4000,
                learning_rate: LearningRate::Constant(1.0),
                l2,
                ..TrainSpec::default()
            };
            let w = train_exact(&z, &long, None).unwrap();
            for j in 0..w.len() {
                let slope: f64 = z.iter().map(|z| z[j] / (1.0 + dot(z, &w).exp())).sum();
                let pull = if j == 0 { 0.0 } else { l2 * w[j] };
                let slope = slope / z.len() as f64 - pull;
                assert!(slope.abs() < 1e-9, "{l2} {j}: {slope}");
            }
        }
    }

    /// The 130 rows of true labels weigh three times as much as the others. Weights from a separate
    /// program in another language, which sums the gradients of the classes apart and divides them
    /// by the sum of the weights of all rows.
    #[test]
    fn weighted_training_equals_an_independent_computation() {
        let z = signed("lbw");
        let three = [
            1.3458538000855975,
            0.7290226441137373,
            0.7670684126048436,
            0.7592065385567991,
            0.08834428028587557,
            0.05301301432381489,
            -0.055398480847903116,
            -0.07593182810973412,
            -0.05860683463817463,
            0.20265847189642958,
        ];
        let exact = [
            1.0542675822762972,
            0.5904221473115443,
            0.6239935835524283,
            0.7404273140868325,
            0.028527689058691696,
            0.022744065605823774,
            -0.06764010819339927,
            -0.08840475486199567,
            -0.09389900761314826,
            0.17477706714263025,
        ];
        let class_weights = Some(ClassWeights::Given);
        let spec = TrainSpec { class_weights, ..TrainSpec::default() };
        let given = Some([0.5, 1.5]);
        assert_close(&train(&z, &spec, given).unwrap(), &three, 1e-10);
        assert_close(&train_exact(&z, &spec, given).unwrap(), &exact, 1e-10);
    }

    /// At the minimum, both classes pull alike: their weighted residuals cancel, for each feature.
    #[test]
    fn weighted_training_converges_to_its_minimum() {
        for name in Table::BUNDLED {
            let z = signed(name);
            let ones = z.iter().filter(|z| label(z)).count() as f64;
            let zeros = z.len() as f64 - ones;
            let long = TrainSpec {
                iterations: 4000,
                learning_rate: LearningRate::Constant(1.0),
                ..TrainSpec::default()
            };
            let balanced = TrainSpec { class_weights: Some(ClassWeights::Balanced), ..long };
            let given = TrainSpec { class_weights: Some(ClassWeights::Given), ..long };
            for (spec, weights, [zero, one]) in [
                (balanced, None, [ones, zeros]),
                (given, Some([2.0, 2.0]), [1.0, 1.0]),
                (given, Some([1.0, 5.0]), [1.0, 5.0]),
            ] {
                let w = train_exact(&z, &spec, weights).unwrap();
                for j in 0..w.len() {
                    let pull = |of: bool| -> f64 {
                        let rows = z.iter().filter(|z| label(z) == of);
                        rows.map(|z| z[j] / (1.0 + dot(z, &w).exp())).sum()
                    };
                    let slope = (zero * pull(false) + one * pull(true)) / (zero + one);
                    assert!(slope.abs() / (z.len() as f64) < 1e-5, "{name} {j}: {slope}");
                }
            }
        }
    }

    #[test]
    fn class_weights_have_the_mean_1() {
        let spec = |weights| TrainSpec { class_weights: weights, ..TrainSpec::default() };
        let labels = |zeros, ones| {
            core::iter::repeat_n(false, zeros).chain(core::iter::repeat_n(true, ones))
        };
        let [balanced, given] = [ClassWeights::Balanced, ClassWeights::Given].map(Some).map(spec);
        let found = |zeros, ones, weights| {
            let given = given.class_weights(labels(zeros, ones), Some(weights)).unwrap();
            let mean = (zeros as f64 * given[0] + ones as f64 * given[1]) / (zeros + ones) as f64;
            assert!((mean - 1.0).abs() < 1e-12, "{given:?}");
            given
        };
        assert_eq!(spec(None).class_weights(labels(3, 1), None), Ok([1.0; 2]));
        // n / (2 n_c).
        assert_eq!(balanced.class_weights(labels(3, 1), None), Ok([2.0 / 3.0, 2.0]));
        assert_close(&found(3, 1, [1.0, 3.0]), &[2.0 / 3.0, 2.0], 1e-15);
        assert_close(&found(3, 1, [1e300, 3e300]), &[2.0 / 3.0, 2.0], 1e-15);
        assert_eq!(found(3, 1, [f64::MIN_POSITIVE, f64::MAX]), [0.0, 4.0]);
        assert_eq!(found(3, 1, [0.7, 0.7]), [1.0; 2]);
        // A class without rows.
        assert_eq!(balanced.class_weights(labels(3, 0), None), Ok([1.0; 2]));
        assert_eq!(given.class_weights(labels(0, 2), Some([1.0, 4.0])), Ok([1.0; 2]));

        for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            for weights in [[1.0, bad], [bad, 1.0]] {
                let refused = given.class_weights(labels(3, 1), Some(weights));
                assert!(matches!(refused, Err(TrainError::ClassWeight { .. })), "{bad}");
            }
        }
        let z = [[1.0, 0.5], [-1.0, 0.5]];
        assert_eq!(train(&z, &given, None), Err(TrainError::NoClassWeights));
        for spec in [spec(None), balanced] {
            let refused = train(&z, &spec, Some([1.0; 2]));
            assert_eq!(refused, Err(TrainError::UnplannedClassWeights));
        }
    }

    #[test]
    fn ranges_record_every_iteration() {
        for name in Table::BUNDLED {
            let z = signed(name);
            let spec = TrainSpec::default();
            let all = ranges(&z, &spec, None).unwrap();
            assert_eq!(all.weights, train(&z, &spec, None).unwrap());
            assert_eq!(all.max_abs_inner[..2], [0.0, 0.0]);
            assert_eq!(all.max_abs_momentum[0], 0.0);
            assert_eq!(all.max_abs_weight[1], all.max_abs_momentum[1]);
            assert!(all.max_abs_inner.iter().all(|&inner| inner < spec.sigmoid.range));
            for iterations in 1..=5 {
                let w = train(&z, &TrainSpec { iterations, ..spec }, None).unwrap();
                assert_eq!(all.max_abs_weight[iterations as usize - 1], max_abs(&w));
            }
            // v before the third iteration is w after the second.
            let w = train(&z, &TrainSpec { iterations: 2, ..spec }, None).unwrap();
            let inner = z.iter().map(|z| dot(z, &w).abs()).fold(0.0, f64::max);
            assert!((all.max_abs_inner[2] - inner).abs() < 1e-12);
        }
    }

    /// Every row is in one batch, batches differ by a row at most, and none is too large.
    #[test]
    fn batches_cut_the_rows_evenly() {
        for rows in 1..60 {
            for most in 1..70 {
                let spec = TrainSpec { batch: Some(most), ..TrainSpec::default() };
                let batches = Batches::new(rows, &spec);
                let all: Vec<_> = (0..batches.count()).map(|batch| batches.rows(batch)).collect();
                assert_eq!(
                    all.iter().cloned().flatten().collect::<Vec<_>>(),
                    Vec::from_iter(0..rows)
                );
                let sizes: Vec<usize> = all.iter().map(ExactSizeIterator::len).collect();
                let (least, largest) = (sizes.iter().min(), sizes.iter().max());
                assert!(
                    largest <= Some(&most) && largest.zip(least).unwrap().0 - least.unwrap() <= 1
                );
                assert_eq!(largest, Some(&batches.most_rows()));
                assert_eq!(batches.count(), rows.div_ceil(most));
            }
        }
        let batches = Batches::new(9, &TrainSpec { batch: Some(3), ..TrainSpec::default() });
        assert_eq!((0..6).map(|t| batches.of(t)).collect::<Vec<_>>(), [0, 0, 1, 2, 0, 1]);
        assert_eq!([1, 2, 3, 4, 9].map(|iterations| batches.used(iterations)), [1, 1, 2, 3, 3]);
        assert_eq!(Batches::new(9, &TrainSpec::default()).rows(0), 0..9);
    }

    /// With one row a batch, each iteration is a step on that row.
    #[test]
    fn batches_are_taken_in_turn() {
        let z = [[1.0, 0.5], [-1.0, 0.25], [1.0, -0.75]];
        let spec = TrainSpec {
            iterations: 5,
            learning_rate: LearningRate::Constant(0.5),
            batch: Some(1),
            ..TrainSpec::default()
        };
        let c = spec.sigmoid.coefficients().unwrap();
        let steps = schedule(&spec);
        let (mut w, mut v) = ([0.0; 2], [0.0; 2]);
        for (row, step) in [0, 0, 1, 2, 0].map(|row| z[row]).iter().zip(steps) {
            let slope = horner(&c, dot(row, &v));
            let next = [0, 1].map(|j| v[j] + 0.5 * slope * row[j]);
            v = [0, 1].map(|j| (1.0 - step.eta) * next[j] + step.eta * w[j]);
            w = next;
        }
        assert_close(&train(&z, &spec, None).unwrap(), &w, 1e-15);
    }

    #[test]
    fn bad_input_is_refused() {
        let z = [[1.0, 0.5], [-1.0, 0.5]];
        let good = TrainSpec::default();
        let rate = |rate| TrainSpec { learning_rate: LearningRate::Constant(rate), ..good };
        assert_eq!(
            train(&z, &TrainSpec { iterations: 0, ..good }, None),
            Err(TrainError::Iterations)
        );
        assert_eq!(train(&z, &TrainSpec { batch: Some(0), ..good }, None), Err(TrainError::Batch));
        assert_eq!(train(&z, &rate(0.0), None), Err(TrainError::LearningRate { found: 0.0 }));
        assert!(train(&z, &rate(f64::NAN), None).is_err());
        assert_eq!(
            train(&z, &TrainSpec { workers: Some(0), ..good }, None),
            Err(TrainError::Workers)
        );
        for l2 in [-1e-9, 0.31, f64::NAN, f64::INFINITY] {
            let refused = train(&z, &TrainSpec { l2, ..good }, None);
            assert!(matches!(refused, Err(TrainError::L2 { most, .. }) if most == 0.3), "{l2}");
        }
        for range in [0.0, -1.0, f64::NAN, f64::INFINITY, 257.0] {
            let sigmoid = SigmoidApprox { range, ..good.sigmoid };
            assert!(matches!(
                train(&z, &TrainSpec { sigmoid, ..good }, None),
                Err(TrainError::Range { .. })
            ));
            assert!(sigmoid.coefficients().is_err());
        }
        assert_eq!(train::<Vec<f64>>(&[], &good, None), Err(TrainError::Empty));
        assert_eq!(train(&[vec![]], &good, None), Err(TrainError::Empty));
        assert_eq!(
            train(&[vec![1.0], vec![1.0, 2.0]], &good, None),
            Err(TrainError::RowLength { row: 1, found: 2, needed: 1 })
        );
    }

    #[test]
    fn divergence_is_reported() {
        let z = [[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0]];
        let wild = TrainSpec {
            iterations: 100,
            learning_rate: LearningRate::Constant(200.0),
            ..TrainSpec::default()
        };
        match train(&z, &wild, None) {
            Err(TrainError::Diverged { iteration, largest }) => {
                assert!(iteration > 1 && largest > 8.0, "{iteration} {largest}");
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn specs_survive_serialisation() {
        let spec = spec(SigmoidDegree::Seven);
        let text = serde_json::to_string(&spec).unwrap();
        assert_eq!(
            text,
            "{\"iterations\":5,\"learning_rate\":{\"decaying\":{\"initial\":10.0}},\
             \"sigmoid\":{\"degree\":7,\"range\":8.0},\"batch\":null,\"shared_bits\":null,\
             \"scorable\":false,\"l2\":0.0,\"workers\":null,\"class_weights\":null}"
        );
        assert_eq!(serde_json::from_str::<TrainSpec>(&text).unwrap(), spec);
        let error = serde_json::from_str::<TrainSpec>(&text.replace('7', "4")).unwrap_err();
        assert!(error.to_string().contains("the sigmoid's degree is 4"), "{error}");
    }

    proptest! {
        /// Two weight updates written out without a loop over iterations.
        #[test]
        fn three_iterations_equal_the_closed_form(
            z in prop::collection::vec(prop::array::uniform3(-1.0..1.0_f64), 1..12),
            rate in 0.1..4.0_f64,
        ) {
            let spec = TrainSpec {
                iterations: 3,
                learning_rate: LearningRate::Constant(rate),
                ..TrainSpec::default()
            };
            let m = z.len() as f64;
            let [_, c1, _, c3] = spec.sigmoid.coefficients().unwrap()[..] else { unreachable!() };
            let mean = |j: usize| z.iter().map(|z| z[j]).sum::<f64>() / m;
            let v: Vec<f64> = (0..3).map(|j| rate / 2.0 * mean(j)).collect();
            let expected: Vec<f64> = (0..3)
                .map(|j| {
                    let linear: f64 = z.iter().map(|z| dot(z, &v) * z[j]).sum();
                    let cubic: f64 = z.iter().map(|z| dot(z, &v).powi(3) * z[j]).sum();
                    v[j] + rate * (0.5 * mean(j) + (c1 * linear + c3 * cubic) / m)
                })
                .collect();
            assert_close(&train(&z, &spec, None).unwrap(), &expected, 1e-12);
        }
    }
}

//! The public facts of a training, and values that follow from them alone.
//!
//! A model is a weight vector `w` with the intercept first. `sigmoid(w . x)` with `x_0 = 1` is the
//! probability of the model's class. Labels are `y = 1` for rows of that class and `y = -1` for the
//! others. Training minimises the mean of `c_i log(1 + exp(-y_i x_i . w))` plus a penalty by
//! Nesterov's accelerated gradient, over all rows or over batches. It starts with `w = v = 0`.
//! Iteration `t = 0, 1, ...` computes, over the `m` rows of its batch,
//!
//! ```text
//! w' = v + gamma_t (sum_i c_i y_i x_i / 2m  +  sum_i o(x_i . v) c_i x_i / m  -  h v)
//! v' = (1 - eta_t) w' + eta_t w
//! ```
//!
//! where `1/2 + o(u)` is close to `sigmoid(-u)` and `o` is odd. Signs of labels are therefore
//! needed in the first sum only. The owner of the rows computes this vector in the clear and
//! encrypts it. The rows are encrypted without their labels, once for all classes. The penalty is
//! `sum_j h_j w_j^2 / 2`, and 0 for the intercept.
//!
//! The [`Preparation`] of the table determines the rows `x` and the penalties `h`.
//!
//! References: Kim, Song, Kim, Lee, Cheon, "Logistic regression model training based on the
//! approximate homomorphic encryption", BMC Medical Genomics 11(4), 83, 2018; Cheon, Han, Kim, Kim,
//! Song, "A full RNS variant of approximate homomorphic encryption", SAC 2018, section 5.3. Both
//! sum `y_i x_i` of encrypted rows, which gives the same weights.

use core::ops::Range;
use serde::{Deserialize, Serialize};

/// Reason why training is impossible.
#[derive(Debug, Clone, PartialEq, thiserror::Error, strum::IntoStaticStr, strum::VariantNames)]
#[non_exhaustive]
pub enum TrainError {
    /// The number of iterations is zero.
    #[error("found 0 iterations; training needs at least 1")]
    Iterations,
    /// Batches have no rows.
    #[error("found batches of 0 rows; a batch needs at least 1")]
    Batch,
    /// The number of workers is zero.
    #[error("found 0 workers; dividing batches needs at least 1")]
    Workers,
    /// The number of tables is zero or too large.
    #[error(
        "found {found} tables; one training can use 1 to {max}",
        max = TrainSpec::MAX_TABLES
    )]
    Tables {
        /// The requested number of tables.
        found: usize,
    },
    /// The target has fewer than two classes, or too many.
    #[error(
        "found {found} classes of the target; training needs 2 to {max}",
        max = TrainSpec::MAX_CLASSES
    )]
    Classes {
        /// The requested number of classes.
        found: u32,
    },
    /// The weight of the penalty is invalid.
    #[error("the penalty's {name} is {found}, but it must be {needed}")]
    Penalty {
        /// `alpha` or `C`.
        name: &'static str,
        /// The invalid number.
        found: f64,
        /// The possible values.
        needed: &'static str,
    },
    /// A class weight is not a positive finite number.
    #[error("a class weight is {found}, but it must be positive and finite")]
    ClassWeight {
        /// The invalid weight.
        found: f64,
    },
    /// The number of class weights differs from the number of classes.
    #[error("found {found} class weights for {needed} classes: pass one for each class")]
    ClassWeightCount {
        /// Number of weights passed.
        found: usize,
        /// Classes of the target.
        needed: usize,
    },
    /// The plan expects class weights, but none were passed.
    #[error(
        "the training is planned with weights that are passed with the rows: pass one for each \
         class, or one for each row"
    )]
    NoClassWeights,
    /// Weights of classes or rows were passed, but the plan does not expect them.
    #[error(
        "weights were passed, but the training is planned without weights or with balanced ones: \
         omit them, or plan the training with given ones"
    )]
    UnplannedClassWeights,
    /// Values cannot be shared to this number of bits.
    #[error(
        "values cannot be shared to {found} bits after the point; choose 1 to {max}",
        max = TrainSpec::MAX_SHARED_BITS
    )]
    SharedBits {
        /// The requested number of bits.
        found: u32,
    },
    /// The learning rate is not a positive finite number.
    #[error("the learning rate is {found}, but it must be positive and finite")]
    LearningRate {
        /// The invalid rate.
        found: f64,
    },
    /// The interval of the sigmoid's approximation is empty or too wide.
    #[error(
        "the sigmoid's range is {found}, but it must be above 0 and at most {max}",
        max = SigmoidApprox::MAX_RANGE
    )]
    Range {
        /// The invalid half-width.
        found: f64,
    },
    /// No polynomial of this degree is available.
    #[error("the sigmoid's degree is {found}, but it must be 3, 5 or 7")]
    Degree {
        /// The requested degree.
        found: u32,
    },
    /// There are no rows, or rows without entries.
    #[error("there are no rows to train on; training needs at least one")]
    Empty,
    /// Weights or inner products overflow.
    #[error(
        "training diverges in iteration {iteration} (counted from 0): an inner product of a row \
         and the weights was {largest:.1e} before; lower the learning rate, or widen the sigmoid's \
         range"
    )]
    Diverged {
        /// The iteration that produced a value that is not finite.
        iteration: u32,
        /// Largest `|x . v|` of the previous iteration, 0 in the first one.
        largest: f64,
    },
}

/// Degree of the polynomial in place of the sigmoid. Serialised as the number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(try_from = "u32", into = "u32")]
pub enum SigmoidDegree {
    /// Degree 3.
    Three,
    /// Degree 5.
    Five,
    /// Degree 7.
    #[default]
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

/// Part of the interval where the polynomial is closest to the sigmoid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SigmoidFit {
    /// The whole interval alike: the fit of the papers.
    Uniform,
    /// Around 0, where most rows are: the weight of squared errors is
    /// `exp(-8 (x / range)^2) + 0.002`. At degree 7 on [-8, 8] errors are below 0.012 up to 3 and
    /// below 0.022 up to 5, where the uniform fit has 0.03. Towards the ends they reach 0.22, with
    /// the correct sign.
    #[default]
    Centred,
}

/// Least-squares polynomial of `sigmoid(-x)` on `[-range, range]`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct SigmoidApprox {
    /// Degree of the polynomial.
    pub degree: SigmoidDegree,
    /// Half width of the interval, in `(0, MAX_RANGE]`.
    pub range: f64,
    /// Weighting of squared errors.
    pub fit: SigmoidFit,
}

/// Degree 7 on `[-8, 8]`, closest around 0.
impl Default for SigmoidApprox {
    fn default() -> Self {
        Self { degree: SigmoidDegree::default(), range: 8.0, fit: SigmoidFit::default() }
    }
}

impl SigmoidApprox {
    /// Maximum half-width of the interval. A polynomial of degree 7 is useless well before it.
    pub const MAX_RANGE: f64 = 256.0;

    /// Candidate ranges. If the table is available, the smallest range that it fits is chosen.
    pub const RANGES: [f64; 8] = [6.0, 8.0, 12.0, 16.0, 24.0, 32.0, 48.0, 64.0];

    /// The range for rows of several owners. None of them can compute the inner products of all
    /// rows.
    pub const POOLED_RANGE: f64 = 16.0;

    /// Returns degree 3 on `[-8, 8]`, fitted alike everywhere, as in the papers on encrypted
    /// training.
    #[must_use]
    pub fn published() -> Self {
        Self { degree: SigmoidDegree::Three, range: 8.0, fit: SigmoidFit::Uniform }
    }

    /// Checks the range.
    ///
    /// # Errors
    /// [`TrainError::Range`] if it is not in `(0, MAX_RANGE]`.
    pub fn check(&self) -> Result<(), TrainError> {
        let range = self.range;
        if range > 0.0 && range <= Self::MAX_RANGE {
            return Ok(());
        }
        Err(TrainError::Range { found: range })
    }
}

/// Transform of the columns of a table into the coordinates of a training, by the owner.
///
/// The moments of the columns stay with the owner. The same step sizes suit the prepared columns of
/// all tables.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Preparation {
    /// Standardised columns in the basis of the eigenvectors of their correlation matrix, with each
    /// direction divided by the square root of its eigenvalue. The Hessian of the loss is then at
    /// most a quarter of the identity and close to a multiple of it, so few steps are enough.
    /// Nearly collinear columns do no harm.
    #[default]
    Whiten,
    /// Columns minus their mean, divided by their standard deviation and by the square root of the
    /// largest eigenvalue of their correlation matrix. Columns that depend more on each other need
    /// more iterations.
    Standardize,
    /// Columns divided by their largest magnitude, as in the papers on encrypted training. This
    /// does not determine suitable step sizes.
    Scale,
}

/// The L2 penalty on the weights of standardised columns, for every [`Preparation`]. The intercept
/// has no penalty.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Penalty {
    /// No penalty.
    None,
    /// Adds `alpha / 2` times the sum of the squares of the weights to the mean loss.
    Alpha(f64),
    /// The `C` of scikit-learn: `alpha` is 1 over `C` times the sum of the weights of all rows as
    /// passed, or the number of rows if none are passed.
    C(f64),
}

impl Penalty {
    /// Returns `alpha` for rows whose passed weights have this sum.
    #[must_use]
    pub fn alpha(self, weight_of_rows: f64) -> f64 {
        match self {
            Self::None => 0.0,
            Self::Alpha(alpha) => alpha,
            Self::C(c) => 1.0 / (c * weight_of_rows),
        }
    }

    fn check(self) -> Result<(), TrainError> {
        let (name, found, needed, possible) = match self {
            Self::None => return Ok(()),
            Self::Alpha(x) => ("alpha", x, "finite and not negative", x >= 0.0),
            Self::C(x) => ("C", x, "positive and finite, as the strength is its inverse", x > 0.0),
        };
        if possible && found.is_finite() {
            return Ok(());
        }
        Err(TrainError::Penalty { name, found, needed })
    }
}

/// Step size `gamma_t` of each iteration `t = 0, 1, ...`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LearningRate {
    /// `initial / (t + 1)`.
    Decaying {
        /// Step size of the first iteration.
        initial: f64,
    },
    /// `initial / (t / 2 + 1)`, for batches of prepared rows, whose correlations differ from the
    /// correlations of all rows.
    Slowing {
        /// Step size of the first iteration.
        initial: f64,
    },
    /// The same size in all iterations.
    Constant(f64),
}

impl LearningRate {
    /// Returns the step size of iteration `t`, counted from 0.
    #[must_use]
    pub fn at(self, t: u32) -> f64 {
        match self {
            Self::Decaying { initial } => initial / (f64::from(t) + 1.0),
            Self::Slowing { initial } => initial / (f64::from(t) / 2.0 + 1.0),
            Self::Constant(rate) => rate,
        }
    }
}

/// Source of the class weights, by which the losses of rows are multiplied.
///
/// Weights are divided by their mean over all rows, so only ratios matter for the loss. The sum of
/// the weights as passed matters for [`Penalty::C`], as in scikit-learn. The server learns that
/// there are weights, and their source, but not the weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClassWeights {
    /// Computed from the rows, so that all classes count alike: `n / (k n_c)` for `n` rows, `k`
    /// classes, and `n_c` rows of a class.
    Balanced,
    /// Passed by the owner together with the rows.
    Given,
}

/// Specification of a training.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct TrainSpec {
    /// Number of iterations, at least 1. Each iteration is a pass over a batch of rows, except the
    /// first, or the first two with [`Preparation::Scale`].
    pub iterations: u32,
    /// Preparation of columns.
    pub preparation: Preparation,
    /// Step sizes.
    pub learning_rate: LearningRate,
    /// Polynomial in place of the sigmoid.
    pub sigmoid: SigmoidApprox,
    /// The L2 penalty. It costs no level.
    pub penalty: Penalty,
    /// Maximum number of rows of a batch, at least 1. `None` uses the whole table.
    pub batch: Option<usize>,
    /// Number of classes of the target, 2 to [`TrainSpec::MAX_CLASSES`]. For more than two, a
    /// separate model distinguishes each class from all others, on the same encrypted rows.
    pub classes: u32,
    /// Class weights of rows, or `None` for equal weights. With weights, the encrypted table has
    /// twice the ciphertexts. They cost no level.
    pub class_weights: Option<ClassWeights>,
    /// Bits after the binary point to which the weights will be shared with people other than the
    /// key's owner, 1 to [`TrainSpec::MAX_SHARED_BITS`]. `None` does not share them. Encrypted
    /// training then has the additional precision that [`Release`](sudare::ckks::Release) needs.
    pub shared_bits: Option<u32>,
    /// Reserve a level to score rows with the weights before they are decrypted: see
    /// [`ScorePlan`](super::ScorePlan).
    pub scorable: bool,
    /// Number of workers that each batch will be divided among, at least 1. A batch then has this
    /// number of shares if the ring allows it, at the cost of some key switches. `None` chooses the
    /// cheapest shares: see [`TrainPlan::shares`](super::TrainPlan::shares).
    pub workers: Option<usize>,
    /// Number of tables of several owners that are trained on together, at least 1. The rows of
    /// each table are encrypted separately, which may leave room in its last ciphertexts.
    pub tables: usize,
}

/// Five iterations on whitened columns with a penalty of `C = 1`, the matching steps, and a sigmoid
/// for inner products of rows and weights up to 8.
impl Default for TrainSpec {
    fn default() -> Self {
        Self {
            iterations: 5,
            preparation: Preparation::default(),
            learning_rate: LearningRate::Constant(Self::PREPARED_STEP),
            sigmoid: SigmoidApprox::default(),
            penalty: Penalty::C(1.0),
            batch: None,
            classes: 2,
            class_weights: None,
            shared_bits: None,
            scorable: false,
            workers: None,
            tables: 1,
        }
    }
}

impl TrainSpec {
    /// Maximum number of bits after the binary point to which weights can be shared. With more,
    /// `f64` would round the digits that noise must hide.
    pub const MAX_SHARED_BITS: u32 = 12;

    /// Maximum number of classes of a target.
    pub const MAX_CLASSES: u32 = 1000;

    /// The step size for prepared rows: the inverse of the sigmoid's steepest slope, since the
    /// largest variance of their entries is 1.
    pub const PREPARED_STEP: f64 = 4.0;

    /// Maximum number of tables that are trained on together.
    pub const MAX_TABLES: usize = 1000;

    /// Maximum root mean square of the class weights of the rows of a batch.
    pub const MAX_ROW_WEIGHT: f64 = 8.0;

    /// Number of rows of a batch above which more rows hardly change a model of prepared columns.
    pub const AMPLE_BATCH: usize = 32_768;

    /// Returns the training of Cheon et al. 2018, table 4. It has five iterations on columns
    /// divided by their largest magnitude, at the rate `10 / (t + 1)`, without a penalty. The
    /// sigmoid is the least-squares polynomial of degree 3 on [-8, 8].
    #[must_use]
    pub fn published() -> Self {
        Self {
            preparation: Preparation::Scale,
            learning_rate: LearningRate::Decaying { initial: 10.0 },
            sigmoid: SigmoidApprox::published(),
            penalty: Penalty::None,
            ..Self::default()
        }
    }

    /// Returns the number of models: one for two classes, otherwise one for each class.
    #[must_use]
    pub fn models(&self) -> usize {
        if self.classes == 2 { 1 } else { self.classes as usize }
    }

    /// Returns the number of leading iterations whose inner products are all 0, so that they use
    /// the sums of the labels alone. In the schedule of the papers, `eta_0 = 1` undoes the first of
    /// them ([`schedule`]).
    #[must_use]
    pub fn label_iterations(&self) -> u32 {
        let leading = if self.preparation == Preparation::Scale { 2 } else { 1 };
        self.iterations.min(leading)
    }

    /// Checks that training with this specification is possible.
    ///
    /// # Errors
    /// [`TrainError::Iterations`], [`TrainError::Batch`], [`TrainError::Workers`],
    /// [`TrainError::Tables`], [`TrainError::Classes`], [`TrainError::SharedBits`],
    /// [`TrainError::LearningRate`], [`TrainError::Penalty`] or [`TrainError::Range`].
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
        if !(1..=Self::MAX_TABLES).contains(&self.tables) {
            return Err(TrainError::Tables { found: self.tables });
        }
        if !(2..=Self::MAX_CLASSES).contains(&self.classes) {
            return Err(TrainError::Classes { found: self.classes });
        }
        if let Some(found) = self.shared_bits
            && !(1..=Self::MAX_SHARED_BITS).contains(&found)
        {
            return Err(TrainError::SharedBits { found });
        }
        // Later steps are not larger, so the first one stands for all.
        let found = self.learning_rate.at(0);
        if !(found.is_finite() && found > 0.0) {
            return Err(TrainError::LearningRate { found });
        }
        self.penalty.check()?;
        self.sigmoid.check()
    }

    /// Returns the strength of the penalty for rows whose own weights have these `sums` for each
    /// class: the number of its rows, if all weigh 1. `given` are the weights of the classes, for
    /// [`ClassWeights::Given`]. A larger sum over all rows weakens [`Penalty::C`]. Balanced weights
    /// leave the sum of the own weights as it is.
    ///
    /// # Errors
    /// The errors of [`TrainSpec::row_weights`]; [`TrainError::Penalty`] if `C` and the weights are
    /// so small that the strength is not finite, or exceeds the bound of errors of a shared model.
    pub fn alpha(&self, sums: &[f64], given: Option<&[f64]>) -> Result<f64, TrainError> {
        // Only for its checks of the weights.
        self.row_weights(sums, given)?;
        let sum = match given {
            Some(given) => given.iter().zip(sums).map(|(weight, sum)| weight * sum).sum(),
            None => sums.iter().sum::<f64>(),
        };
        let alpha = self.penalty.alpha(sum);
        let Penalty::C(found) = self.penalty else { return Ok(alpha) };
        let needed = if !alpha.is_finite() {
            "so large that 1 / (C times the sum of the weights of all rows) is finite"
        } else if sum < 1.0 && self.preparation == Preparation::Scale && self.shared_bits.is_some()
        {
            "used with class weights whose sum over all rows is 1 or more, for scaled columns and \
             a shared model: multiply the class weights by a number and divide C by it"
        } else {
            return Ok(alpha);
        };
        Err(TrainError::Penalty { name: "C", found, needed })
    }

    /// Returns the weight of each class, such that the mean over rows is 1. The rows have own
    /// weights with a mean of 1 and these `sums` for each class: the number of its rows, if all
    /// weigh 1. `given` are any positive multiples of the weights, for [`ClassWeights::Given`].
    ///
    /// # Errors
    /// [`TrainError::ClassWeight`]; [`TrainError::ClassWeightCount`];
    /// [`TrainError::NoClassWeights`]; [`TrainError::UnplannedClassWeights`].
    pub fn row_weights(&self, sums: &[f64], given: Option<&[f64]>) -> Result<Vec<f64>, TrainError> {
        if let Some(given) = given {
            let bad = |&&weight: &&f64| !(weight.is_finite() && weight > 0.0);
            if let Some(&found) = given.iter().find(bad) {
                return Err(TrainError::ClassWeight { found });
            }
            if given.len() != sums.len() {
                let found = given.len();
                let needed = sums.len();
                return Err(TrainError::ClassWeightCount { found, needed });
            }
        }
        let weights = match (self.class_weights, given) {
            (None, None) => return Ok(vec![1.0; sums.len()]),
            (Some(ClassWeights::Balanced), None) => {
                // No row has the weight of a class without rows, but it must be finite.
                sums.iter().map(|&sum| if sum > 0.0 { 1.0 / sum } else { 1.0 }).collect()
            }
            (Some(ClassWeights::Given), Some(given)) => given.to_vec(),
            (Some(ClassWeights::Given), None) => return Err(TrainError::NoClassWeights),
            (_, Some(_)) => return Err(TrainError::UnplannedClassWeights),
        };
        // Divided by the largest weight of a class that has rows, so that nothing overflows.
        let present = weights.iter().zip(sums).filter(|&(_, &sum)| sum > 0.0);
        let largest = present.map(|(&weight, _)| weight).fold(0.0, f64::max);
        // Without rows there is no mean to divide by.
        if largest == 0.0 {
            return Ok(vec![1.0; sums.len()]);
        }
        let parts: Vec<f64> = weights.iter().map(|weight| weight / largest).collect();
        let rows: f64 = sums.iter().sum();
        let weighted: f64 = parts.iter().zip(sums).map(|(part, sum)| part * sum).sum();
        let with_rows = parts.iter().zip(sums);
        Ok(with_rows
            .map(|(part, &sum)| if sum > 0.0 { part / weighted * rows } else { 1.0 })
            .collect())
    }
}

/// Division of the rows of a table into batches of consecutive rows, as evenly as possible.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Batches {
    rows: usize,
    count: usize,
}

impl Batches {
    /// Divides rows into the fewest batches of at most [`TrainSpec::batch`] rows.
    #[must_use]
    pub fn new(rows: usize, spec: &TrainSpec) -> Self {
        let most = spec.batch.unwrap_or(rows).max(1);
        // Never 0 batches: rows are divided by their number.
        Self { rows, count: rows.div_ceil(most).max(1) }
    }

    /// Divides `rows` other rows into the same number of batches.
    #[must_use]
    pub fn of_rows(&self, rows: usize) -> Self {
        Self { rows, ..*self }
    }

    /// Returns the rows of all batches.
    #[must_use]
    pub fn total(&self) -> usize {
        self.rows
    }

    /// Returns the number of batches.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }

    /// Returns the number of batches that a training of this number of iterations uses.
    #[must_use]
    pub fn used(&self, iterations: u32) -> usize {
        // The first iteration shares the batch of the second one.
        self.count.min(iterations.saturating_sub(1).max(1) as usize)
    }

    /// Returns the batch of an iteration, both counted from 0. Iterations use the batches in turn,
    /// except that the first iteration uses the same batch as the second.
    #[must_use]
    pub fn of(&self, iteration: u32) -> usize {
        iteration.saturating_sub(1) as usize % self.count
    }

    /// Returns the rows of a batch.
    #[must_use]
    pub fn rows(&self, batch: usize) -> Range<usize> {
        let size = self.rows / self.count;
        let longer = self.rows % self.count;
        let start = batch * size + batch.min(longer);
        start..start + size + usize::from(batch < longer)
    }

    /// Returns the maximum number of rows of a batch.
    #[must_use]
    pub fn most_rows(&self) -> usize {
        self.rows.div_ceil(self.count)
    }
}

/// Constants of an iteration.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Step {
    /// Step size `gamma_t`.
    pub gamma: f64,
    /// Momentum `eta_t`: `v' = (1 - eta_t) w' + eta_t w`. In `(-1, 1]`.
    pub eta: f64,
}

/// Returns the step sizes and momenta of all iterations.
///
/// `eta_t = (1 - lambda_t) / lambda_{t+1}` with `lambda_{t+1} = (1 + sqrt(1 + 4 lambda_t^2)) / 2`.
/// Prepared rows begin at `lambda_0 = 1`: `eta_0 = 0`, and the others are negative. The papers on
/// scaled rows begin at `lambda_0 = 0`: `eta_0 = 1`, so `v` is still 0 in the second iteration,
/// where `eta_1 = 0`. The first iteration then has no effect.
#[must_use]
pub fn schedule(spec: &TrainSpec) -> Vec<Step> {
    let mut lambda = if spec.preparation == Preparation::Scale { 0.0_f64 } else { 1.0 };
    (0..spec.iterations)
        .map(|t| {
            let next = (1.0 + (1.0 + 4.0 * lambda * lambda).sqrt()) / 2.0;
            let eta = (1.0 - lambda) / next;
            lambda = next;
            Step { gamma: spec.learning_rate.at(t), eta }
        })
        .collect()
}

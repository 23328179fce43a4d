//! What is public about a training, and what follows from that alone.
//!
//! A model is a weight vector `w` with the intercept first; `sigmoid(w . x)` with `x_0 = 1` is the
//! probability of the class that it tells from the others. Labels are `y = 1` for rows of that
//! class and `y = -1` for the others. Training lowers the mean of `c_i log(1 + exp(-y_i x_i . w))`
//! plus a penalty by Nesterov's accelerated gradient over all rows, or over batches of them. With
//! `w = v = 0` at first, iteration `t = 0, 1, ...` computes, over the `m` rows of its batch,
//!
//! ```text
//! w' = v + gamma_t (sum_i c_i y_i x_i / 2m  +  sum_i o(x_i . v) c_i x_i / m  -  h v)
//! v' = (1 - eta_t) w' + eta_t w
//! ```
//!
//! where `1/2 + o(u)` is close to `sigmoid(-u)` and odd but for the 1/2, so that signs of labels
//! are needed in the first sum only. That is a vector which whoever has the rows computes in the
//! clear and encrypts; the rows themselves are encrypted without their labels, once for all
//! classes. The penalty is `sum_j h_j w_j^2 / 2`, and 0 for the intercept.
//!
//! What rows `x` and penalties `h` are is decided by the [`Preparation`] of the table.
//!
//! References: Kim, Song, Kim, Lee, Cheon, "Logistic regression model training based on the
//! approximate homomorphic encryption", BMC Medical Genomics 11(4), 83, 2018; Cheon, Han, Kim,
//! Kim, Song, "A full RNS variant of approximate homomorphic encryption", SAC 2018, section 5.3.
//! Both sum `y_i x_i` of encrypted rows, which gives the same weights.

use core::ops::Range;
use serde::{Deserialize, Serialize};

/// Why training is impossible.
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
    /// No tables, or too many, are to be trained on together.
    #[error(
        "{found} tables are to be trained on together; 1 to {max} are possible",
        max = TrainSpec::MAX_TABLES
    )]
    Tables {
        /// Tables asked for.
        found: usize,
    },
    /// The target is to have fewer than two classes, or too many.
    #[error(
        "the target is planned with {found} classes; 2 to {max} are possible",
        max = TrainSpec::MAX_CLASSES
    )]
    Classes {
        /// Classes asked for.
        found: u32,
    },
    /// The weight of the penalty cannot be.
    #[error("the penalty's {name} is {found}, but it must be {needed}")]
    Penalty {
        /// `alpha` or `C`.
        name: &'static str,
        /// The offending number.
        found: f64,
        /// What is possible.
        needed: &'static str,
    },
    /// A class weight is no weight.
    #[error("a class weight is {found}, but it must be positive and finite")]
    ClassWeight {
        /// The offending weight.
        found: f64,
    },
    /// There are more or fewer class weights than classes.
    #[error("{found} class weights are given for {needed} classes: give one for each")]
    ClassWeightCount {
        /// Weights given.
        found: usize,
        /// Classes of the target.
        needed: usize,
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
    /// Weights or scores cannot be shared to so many bits.
    #[error(
        "values to be shared to {found} bits after the point; 1 to {max} are possible",
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
    /// Weights or inner products overflow.
    #[error(
        "training diverges in iteration {iteration} (counted from 0): an inner product of a row \
         and the weights was {largest} before; lower the learning rate, or widen the sigmoid's \
         range"
    )]
    Diverged {
        /// Iteration that gave a value that is not finite.
        iteration: u32,
        /// Largest `|x . v|` of the iteration before, 0 if there was none.
        largest: f64,
    },
}

/// Degree of the polynomial that stands for the sigmoid. Serialised as the number.
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

/// Where in its interval the polynomial is closest to the sigmoid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SigmoidFit {
    /// Everywhere alike: the fit of the papers.
    Uniform,
    /// Around 0, where most rows are: squares of errors weigh `exp(-8 (x / range)^2) + 0.002`. At
    /// degree 7 on [-8, 8] they are below 0.012 up to 3 and below 0.022 up to 5, where the uniform
    /// fit has 0.03; towards the ends they reach 0.22, with the right sign.
    #[default]
    Centred,
}

/// Least squares polynomial of `sigmoid(-x)` on `[-range, range]`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct SigmoidApprox {
    /// Degree of the polynomial.
    pub degree: SigmoidDegree,
    /// Half width of the interval, in `(0, MAX_RANGE]`.
    pub range: f64,
    /// What squares of errors weigh.
    pub fit: SigmoidFit,
}

/// Degree 7 on `[-8, 8]`, closest around 0.
impl Default for SigmoidApprox {
    fn default() -> Self {
        Self { degree: SigmoidDegree::default(), range: 8.0, fit: SigmoidFit::default() }
    }
}

impl SigmoidApprox {
    /// Widest half interval on offer; a polynomial of degree 7 is useless well before it.
    pub const MAX_RANGE: f64 = 256.0;

    /// Ranges from which the smallest that a table fits is chosen where the table is at hand.
    pub const RANGES: [f64; 8] = [6.0, 8.0, 12.0, 16.0, 24.0, 32.0, 48.0, 64.0];

    /// The range for rows of several owners, none of whom can see the inner products of all.
    pub const POOLED_RANGE: f64 = 16.0;

    /// Degree 3 on `[-8, 8]`, fitted alike everywhere, as the papers on encrypted training have it.
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

/// How the owner of a table brings its columns into the coordinates of a training.
///
/// What is measured of the columns stays with the owner: the step sizes that suit prepared columns
/// are the same for all tables.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Preparation {
    /// Standardised columns in the basis of the eigenvectors of their correlation matrix, each
    /// direction divided by the root of its eigenvalue: the Hessian of the loss is then at most a
    /// quarter of the identity and close to a multiple of it, so that few steps lead far. Nearly
    /// collinear columns do no harm.
    #[default]
    Whiten,
    /// Columns minus their mean, divided by their standard deviation and by the root of the
    /// largest eigenvalue of their correlation matrix. More iterations are needed the more columns
    /// depend on each other.
    Standardize,
    /// Columns divided by their largest magnitude, as in the papers on encrypted training, which
    /// says nothing about the step sizes that suit them.
    Scale,
}

/// The L2 penalty on the weights of standardised columns, whatever the [`Preparation`] is; there
/// is none on the intercept.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Penalty {
    /// None.
    None,
    /// `alpha / 2` times the sum of the squares of the weights is added to the mean loss.
    Alpha(f64),
    /// As scikit-learn's `C`: `alpha` is 1 over `C` times the sum of the weights of all rows, as
    /// they are given, or the number of rows if none are given.
    C(f64),
}

impl Penalty {
    /// `alpha` for rows whose given weights have this sum.
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
    /// `initial / (t / 2 + 1)`: for batches of prepared rows, whose correlations differ from those
    /// of all rows.
    Slowing {
        /// Step size of the first iteration.
        initial: f64,
    },
    /// The same in all iterations.
    Constant(f64),
}

impl LearningRate {
    /// Step size of iteration `t`, counted from 0.
    #[must_use]
    pub fn at(self, t: u32) -> f64 {
        match self {
            Self::Decaying { initial } => initial / (f64::from(t) + 1.0),
            Self::Slowing { initial } => initial / (f64::from(t) / 2.0 + 1.0),
            Self::Constant(rate) => rate,
        }
    }
}

/// Where the weights come from that the losses of rows are multiplied by, one for each class.
///
/// The losses of rows are multiplied by the weights divided by their mean over all rows, so only
/// ratios count there. The sum of the weights as they are given counts for [`Penalty::C`], as in
/// scikit-learn. The server learns that there are weights and where they come from, but not the
/// weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClassWeights {
    /// From the rows: all classes count alike, `n / (k n_c)` for the `n_c` of `n` rows of one of
    /// `k` classes.
    Balanced,
    /// From the owner of the rows, who gives them with these.
    Given,
}

/// How to train.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct TrainSpec {
    /// Number of iterations, at least 1. Each but the first, or the first two with
    /// [`Preparation::Scale`], is a pass over a batch of rows.
    pub iterations: u32,
    /// How columns are prepared.
    pub preparation: Preparation,
    /// Step sizes.
    pub learning_rate: LearningRate,
    /// Polynomial in place of the sigmoid.
    pub sigmoid: SigmoidApprox,
    /// The L2 penalty. It takes no level.
    pub penalty: Penalty,
    /// Most rows of a batch, at least 1; all of the table if none.
    pub batch: Option<usize>,
    /// Classes of the target, 2 to [`TrainSpec::MAX_CLASSES`]. Of more than two, each is told from
    /// all others by a model of its own, on the same encrypted rows.
    pub classes: u32,
    /// What rows weigh by their class; all the same if none. With weights, the encrypted table has
    /// twice the ciphertexts; it takes no level.
    pub class_weights: Option<ClassWeights>,
    /// Bits after the binary point to which the weights are to be shared with others than the
    /// owner of the key, 1 to [`TrainSpec::MAX_SHARED_BITS`]; none if with nobody. Encrypted
    /// training then computes with as much more precision as [`Release`](sudare::ckks::Release)
    /// takes.
    pub shared_bits: Option<u32>,
    /// Whether rows are to be scored with the weights before they are decrypted: see
    /// [`ScorePlan`](super::ScorePlan). It takes a level more.
    pub scorable: bool,
    /// Workers that each batch is to be divided among, at least 1: it has as many shares then, if
    /// the ring allows it, at the price of some key switches. Without, shares are as is cheapest:
    /// see [`TrainPlan::shares`](super::TrainPlan::shares).
    pub workers: Option<usize>,
    /// Tables that are trained on together, of several owners, at least 1: the rows of each are
    /// encrypted apart, which may leave room in its last ciphertexts.
    pub tables: usize,
}

/// Five iterations on whitened columns with a penalty of `C = 1`: the steps that suit them and a
/// sigmoid for inner products of rows and weights up to 8.
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
    /// Most bits after the binary point to which weights can be shared. With more, `f64` would
    /// round what noise must hide.
    pub const MAX_SHARED_BITS: u32 = 12;

    /// Most classes of a target.
    pub const MAX_CLASSES: u32 = 1000;

    /// The step size that suits prepared rows: the inverse of the steepest slope of the sigmoid,
    /// since the largest variance of their entries is 1.
    pub const PREPARED_STEP: f64 = 4.0;

    /// Most tables that are trained on together.
    pub const MAX_TABLES: usize = 1000;

    /// What rows may weigh at most by their class, as the root mean square of the rows of a batch.
    pub const MAX_ROW_WEIGHT: f64 = 8.0;

    /// Rows of a batch from which on more would hardly change a model of prepared columns.
    pub const AMPLE_BATCH: usize = 32_768;

    /// What Cheon et al. 2018, table 4, train with: five iterations on columns divided by their
    /// largest magnitude, at the rate `10 / (t + 1)`, with the least squares polynomial of degree 3
    /// for the sigmoid on [-8, 8], and without a penalty.
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

    /// Models: one for two classes, else one for each.
    #[must_use]
    pub fn models(&self) -> usize {
        if self.classes == 2 { 1 } else { self.classes as usize }
    }

    /// Leading iterations whose inner products are all 0, so that they take the sums of the labels
    /// alone. In the schedule of the papers, `eta_0 = 1` undoes the first of them ([`schedule`]).
    #[must_use]
    pub fn label_iterations(&self) -> u32 {
        let leading = if self.preparation == Preparation::Scale { 2 } else { 1 };
        self.iterations.min(leading)
    }

    /// Checks that the spec can be trained with.
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
        let found = self.learning_rate.at(0);
        if !(found.is_finite() && found > 0.0) {
            return Err(TrainError::LearningRate { found });
        }
        self.penalty.check()?;
        self.sigmoid.check()
    }

    /// The strength of the penalty for rows of which there are `counts` of each class. `given` are
    /// the weights of the classes, for [`ClassWeights::Given`]: the larger their sum over all rows,
    /// the weaker is [`Penalty::C`]. Balanced weights sum to the number of rows.
    ///
    /// # Errors
    /// The errors of [`TrainSpec::row_weights`]; [`TrainError::Penalty`] where `C` and the weights
    /// are so small that the strength is not finite, or beyond the bound of errors of a model to be
    /// shared.
    pub fn alpha(&self, counts: &[usize], given: Option<&[f64]>) -> Result<f64, TrainError> {
        self.row_weights(counts, given)?;
        let count = |class: usize| counts.get(class).map_or(0.0, |&count| count as f64);
        let sum = match given {
            Some(given) => (0..).zip(given).map(|(class, weight)| weight * count(class)).sum(),
            None => counts.iter().sum::<usize>() as f64,
        };
        let alpha = self.penalty.alpha(sum);
        let Penalty::C(found) = self.penalty else { return Ok(alpha) };
        let needed = if !alpha.is_finite() {
            "so large that 1 / (C times the sum of the weights of all rows) is finite"
        } else if sum < 1.0 && self.preparation == Preparation::Scale && self.shared_bits.is_some()
        {
            "given with class weights that sum to 1 or more over all rows, for scaled columns and a \
             model to be shared: multiply the class weights by a number and divide C by it"
        } else {
            return Ok(alpha);
        };
        Err(TrainError::Penalty { name: "C", found, needed })
    }

    /// The weight of the rows of each class, of mean 1 over rows of which there are `counts` of
    /// each class. `given` are any positive multiples of them, for [`ClassWeights::Given`].
    ///
    /// # Errors
    /// [`TrainError::ClassWeight`]; [`TrainError::ClassWeightCount`];
    /// [`TrainError::NoClassWeights`]; [`TrainError::UnplannedClassWeights`].
    pub fn row_weights(
        &self,
        counts: &[usize],
        given: Option<&[f64]>,
    ) -> Result<Vec<f64>, TrainError> {
        if let Some(given) = given {
            let bad = |&&weight: &&f64| !(weight.is_finite() && weight > 0.0);
            if let Some(&found) = given.iter().find(bad) {
                return Err(TrainError::ClassWeight { found });
            }
            if given.len() != counts.len() {
                let (found, needed) = (given.len(), counts.len());
                return Err(TrainError::ClassWeightCount { found, needed });
            }
        }
        let weights = match (self.class_weights, given) {
            (None, None) => return Ok(vec![1.0; counts.len()]),
            (Some(ClassWeights::Balanced), None) => {
                counts.iter().map(|&count| 1.0 / count.max(1) as f64).collect()
            }
            (Some(ClassWeights::Given), Some(given)) => given.to_vec(),
            (Some(ClassWeights::Given), None) => return Err(TrainError::NoClassWeights),
            (_, Some(_)) => return Err(TrainError::UnplannedClassWeights),
        };
        // Those of the largest class that has rows, so that nothing overflows.
        let present = weights.iter().zip(counts).filter(|&(_, &count)| count > 0);
        let largest = present.map(|(&weight, _)| weight).fold(0.0, f64::max);
        if largest == 0.0 {
            return Ok(vec![1.0; counts.len()]);
        }
        let parts: Vec<f64> = weights.iter().map(|weight| weight / largest).collect();
        let rows: usize = counts.iter().sum();
        let sum: f64 = parts.iter().zip(counts).map(|(part, &count)| part * count as f64).sum();
        let with_rows = parts.iter().zip(counts);
        Ok(with_rows
            .map(|(part, &count)| if count > 0 { part / sum * rows as f64 } else { 1.0 })
            .collect())
    }
}

/// How the rows of a table are cut into batches: consecutive rows, as evenly as can be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Batches {
    rows: usize,
    count: usize,
}

impl Batches {
    /// Batches, as few as have no more rows than [`TrainSpec::batch`].
    #[must_use]
    pub fn new(rows: usize, spec: &TrainSpec) -> Self {
        let most = spec.batch.unwrap_or(rows).max(1);
        Self { rows, count: rows.div_ceil(most).max(1) }
    }

    /// Batches of other rows, as many.
    #[must_use]
    pub fn of_rows(&self, rows: usize) -> Self {
        Self { rows, ..*self }
    }

    /// The rows of all batches.
    #[must_use]
    pub fn total(&self) -> usize {
        self.rows
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

    /// The batch of an iteration, both counted from 0: in turn, but for the first iteration, which
    /// takes the same as the second.
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
    /// Step size `gamma_t`.
    pub gamma: f64,
    /// Momentum `eta_t`: `v' = (1 - eta_t) w' + eta_t w`. In `(-1, 1]`.
    pub eta: f64,
}

/// Step sizes and momenta of all iterations.
///
/// `eta_t = (1 - lambda_t) / lambda_{t+1}` with `lambda_{t+1} = (1 + sqrt(1 + 4 lambda_t^2)) / 2`.
/// Prepared rows begin at `lambda_0 = 1`: `eta_0 = 0`, and the others are negative. The papers on
/// scaled rows begin at `lambda_0 = 0`: `eta_0 = 1`, so that `v` is still 0 in the second
/// iteration, of which `eta_1 = 0`, and nothing is left of the first.
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

//! Options of trainings and of scores.

use crate::{
    output::say,
    values::{finite, whole},
};
use sudare_apps::{
    logreg::{
        ClassWeights, LearningRate, Penalty, Preparation, Prepared, Probability, ScoredModel,
        SigmoidApprox, SigmoidDegree, TrainSpec,
    },
    pool::Schema,
};
use sudare_roles::{
    error::{Error, Result},
    job::Purpose,
};
use sudare_table::Table;

/// Options of a training. The number of rows and columns determines the defaults.
#[derive(Debug, Clone, clap::Args)]
pub struct Training {
    /// Preparation of columns by the owner: whiten, which needs few iterations; standardize; or
    /// scale by the largest magnitude, as in the papers on encrypted training
    #[arg(long, value_name = "whiten|standardize|scale", default_value = "whiten", value_parser = preparation)]
    pub preparation: Preparation,
    /// Iterations of training; default: by the shape of the table. The plan bootstraps where that
    /// is faster than a ring with more levels
    #[arg(long, value_name = "K", value_parser = whole(1..=u32::MAX))]
    iterations: Option<u32>,
    /// Maximum rows of a batch; default: by the shape of the table
    #[arg(long, value_name = "B", value_parser = whole(1..=u32::MAX))]
    batch: Option<u32>,
    /// Step size of the first iteration; default: by the preparation
    #[arg(long, value_name = "R", allow_negative_numbers = true, value_parser = finite)]
    learning_rate: Option<f64>,
    /// Step sizes of iterations t = 0, 1, …: constant; slowing, divided by 1 + t / 2; or decaying,
    /// divided by 1 + t
    #[arg(long, value_name = "constant|slowing|decaying", value_parser = rate)]
    rate: Option<Rate>,
    /// Use the same step size in all iterations
    #[arg(long, conflicts_with = "rate")]
    constant_rate: bool,
    /// Inverse strength of the L2 penalty, as C of scikit-learn: smaller values penalise more;
    /// default: 1, or no penalty for columns that are only scaled
    #[arg(long = "C", value_name = "C", allow_negative_numbers = true, value_parser = finite)]
    c: Option<f64>,
    /// Weight of the L2 penalty, in place of --C: the loss adds half the sum of the squared weights
    /// of standardised columns, times ALPHA, to the mean loss
    #[arg(long, visible_alias = "l2", value_name = "ALPHA", conflicts_with = "c", allow_negative_numbers = true, value_parser = finite)]
    alpha: Option<f64>,
    /// Number of classes of the target; default: the classes of the table or the schema, or 2 for a
    /// shape
    #[arg(long, value_name = "N", value_parser = whole(2..=TrainSpec::MAX_CLASSES))]
    classes: Option<u32>,
    /// Weights of rows by class: balanced, for equal weight of all classes; or given, for the
    /// weights of `sudare encrypt --class-weight`. The server does not learn the weights
    #[arg(long, value_name = "balanced|given", value_parser = weighting)]
    class_weight: Option<ClassWeights>,
    /// Number of workers among which a distributed training divides each batch
    #[arg(long, value_name = "N", value_parser = whole(1..=u32::MAX))]
    workers: Option<u32>,
    /// Bits after the binary point of weights, statistics or scores that you will share with others
    /// by `sudare decrypt --share`
    #[arg(long, value_name = "BITS", value_parser = whole(1..=TrainSpec::MAX_SHARED_BITS))]
    pub share: Option<u32>,
    /// Choose parameters that are precise enough for exact counts of histograms, for any number of
    /// rows. Without it, counts have error bounds, which are 0 for tables with few rows
    #[arg(long, conflicts_with = "share")]
    pub exact: bool,
    /// Reserve a level, so that the server can score any number of encrypted rows by the encrypted
    /// model (`sudare predict`)
    #[arg(long)]
    predict: bool,
    /// Bits to which the server computes probabilities next to the scores of a predict job, for
    /// scores within the range of the sigmoid; default: scores only
    #[arg(long, value_name = "BITS", value_parser = whole(1..=Probability::MAX_BITS))]
    probability: Option<u32>,
    /// Maximum absolute value of a score of a predict job with --share, 1 to 1024. A model whose
    /// weights could exceed it is rejected
    #[arg(long, value_name = "X", allow_negative_numbers = true, value_parser = finite)]
    score_range: Option<f64>,
    /// Maximum inner product of a row and the weights that the sigmoid approximation covers;
    /// default: the smallest that the table needs, 8 for a shape, 16 for several owners
    #[arg(long, value_name = "X", allow_negative_numbers = true, value_parser = finite)]
    sigmoid_range: Option<f64>,
    /// Degree of the sigmoid's polynomial: 3, 5 or 7; default: by the range
    #[arg(long, value_name = "D", value_parser = whole(3..=7))]
    sigmoid_degree: Option<u32>,
}

/// Step sizes over the iterations.
#[derive(Debug, Clone, Copy)]
enum Rate {
    Constant,
    Slowing,
    Decaying,
}

impl Rate {
    fn from(self, initial: f64) -> LearningRate {
        match self {
            Self::Constant => LearningRate::Constant(initial),
            Self::Slowing => LearningRate::Slowing { initial },
            Self::Decaying => LearningRate::Decaying { initial },
        }
    }
}

impl Training {
    /// Returns the training for tables of a shape. Only its degree is checked.
    pub fn spec(&self, rows: usize, features: usize) -> Result<TrainSpec> {
        let mut spec = TrainSpec::recommended(rows, features, self.preparation)?;
        spec.iterations = self.iterations.unwrap_or(spec.iterations);
        if let Some(batch) = self.batch {
            spec.batch = Some(batch as usize);
        }
        spec.learning_rate = self.rate(&spec);
        spec.sigmoid.range = self.sigmoid_range.unwrap_or(spec.sigmoid.range);
        if let Some(degree) = self.sigmoid_degree {
            spec.sigmoid.degree = SigmoidDegree::try_from(degree)?;
        }
        spec.penalty = match (self.alpha, self.c) {
            (Some(0.0), _) => Penalty::None,
            (Some(alpha), _) => Penalty::Alpha(alpha),
            (None, Some(c)) => Penalty::C(c),
            (None, None) => spec.penalty,
        };
        spec.classes = self.classes.unwrap_or(spec.classes);
        spec.class_weights = self.class_weight;
        spec.shared_bits = self.share;
        spec.scorable = self.predict;
        spec.workers = self.workers.map(|workers| workers as usize);
        Ok(spec)
    }

    /// Returns the model with `features` columns by which rows are scored. It has `classes` classes
    /// unless the user names another number.
    pub fn scored(&self, features: usize, classes: u32) -> ScoredModel {
        let classes = self.classes.unwrap_or(classes);
        if let Some(range) = self.score_range {
            return ScoredModel::Shared { features, classes, range };
        }
        let range = self.sigmoid_range.unwrap_or(SigmoidApprox::default().range);
        let probability = self.probability.map(|bits| Probability { range, bits });
        ScoredModel::Given { features, classes, probability }
    }

    /// Adapts a training to the rows of several owners. No owner can see whether the sigmoid fits
    /// the rows of the others.
    pub fn pooled(&self, spec: TrainSpec, features: usize, schema: &Schema) -> Result<TrainSpec> {
        let columns = schema.columns().len();
        if columns != features {
            return Err(Error::Usage(format!(
                "the schema has {columns} columns, but --for has {features}: write --for \
                 train:ROWSx{columns}"
            )));
        }
        if spec.preparation == Preparation::Scale {
            return Err(Error::Usage(
                "columns of several owners cannot be scaled, because no owner may reveal its largest \
                 values: leave out --preparation, or pass --preparation standardize"
                    .into(),
            ));
        }
        let tables = schema.owners().len();
        let classes = schema.classes().len() as u32;
        // The owners agreed on the schema, so its classes count and not --classes.
        let mut spec = TrainSpec { tables, classes, ..spec };
        if self.sigmoid_range.is_none() {
            spec.sigmoid.range = SigmoidApprox::POOLED_RANGE;
        }
        Ok(spec)
    }

    /// Chooses the learning rate. For prepared columns, batches take ever smaller steps.
    fn rate(&self, usual: &TrainSpec) -> LearningRate {
        let initial = self.learning_rate.unwrap_or(usual.learning_rate.at(0));
        match (self.rate, usual.learning_rate) {
            (Some(rate), _) => rate.from(initial),
            (None, _) if self.constant_rate => LearningRate::Constant(initial),
            (None, LearningRate::Constant(_)) if usual.batch.is_none() => {
                LearningRate::Constant(initial)
            }
            (None, LearningRate::Decaying { .. }) => LearningRate::Decaying { initial },
            (None, _) => LearningRate::Slowing { initial },
        }
    }

    /// Returns the training for a table at hand. The sigmoid covers its inner products, unless
    /// --sigmoid-range is given.
    ///
    /// # Errors
    /// [`Error::Table`] and [`Error::Apps`] for a table that cannot be trained on.
    pub fn spec_for(&self, table: &Table) -> Result<TrainSpec> {
        table.check_for_training()?;
        let mut spec = self.spec(table.rows(), table.features())?;
        if self.classes.is_none() {
            spec.classes = table.classes()?.len() as u32;
        }
        // With given weights, the inner products depend on weights that only `encrypt` gets.
        let fixed = self.sigmoid_range.is_some() || spec.class_weights == Some(ClassWeights::Given);
        if fixed || spec.preparation == Preparation::Scale {
            return Ok(spec);
        }
        let usual = spec.sigmoid.range;
        let spec = spec.with_fitting_range(&Prepared::new(table, &spec, table.rows(), None)?)?;
        // A wider range makes the polynomial less accurate, which the user should know.
        if spec.sigmoid.range > usual {
            say(format_args!(
                "inner products of rows and weights exceed {usual}: the sigmoid approximation covers \
                 them up to {}",
                spec.sigmoid.range
            ));
        }
        Ok(spec)
    }

    /// Rejects options of other jobs.
    pub fn check(&self, purpose: &Purpose) -> Result<()> {
        let (train, predict) = match purpose {
            Purpose::Train(_) => (true, false),
            Purpose::Predict { .. } | Purpose::PredictOf(_) => (false, true),
            _ => (false, false),
        };
        if self.predict && !train {
            return Err(Error::Usage(
                "--predict is for trainings: leave it out, or make keys with --for \
                 train:ROWSxFEATURES"
                    .into(),
            ));
        }
        if self.class_weight.is_some() && !train {
            return Err(Error::Usage(
                "--class-weight is for trainings: leave it out, or make keys with --for \
                 train:ROWSxFEATURES"
                    .into(),
            ));
        }
        if self.probability.is_some() && !predict {
            return Err(Error::Usage(
                "--probability is for predict jobs: leave it out, or make keys with --for \
                 predict:ROWSxFEATURES"
                    .into(),
            ));
        }
        if self.score_range.is_some() && !(predict && self.share.is_some()) {
            return Err(Error::Usage(
                "--score-range is for shared scores: leave it out, or make keys with \
                 --for predict:ROWSxFEATURES --share BITS"
                    .into(),
            ));
        }
        if self.probability.is_some() && self.share.is_some() {
            return Err(Error::Usage(
                "--probability does not go with --share: leave it out; anyone who sees shared scores can \
                 compute their probabilities"
                    .into(),
            ));
        }
        if self.probability.is_some() && self.classes.is_some_and(|classes| classes > 2) {
            return Err(Error::Usage(
                "--probability is for two classes: leave it out; `sudare decrypt` computes the \
                 probabilities of more classes from scores"
                    .into(),
            ));
        }
        Ok(())
    }
}

/// Reads the preparation of columns.
fn preparation(text: &str) -> core::result::Result<Preparation, &'static str> {
    match text {
        "whiten" => Ok(Preparation::Whiten),
        "standardize" => Ok(Preparation::Standardize),
        "scale" => Ok(Preparation::Scale),
        _ => Err("expected whiten, standardize or scale"),
    }
}

/// Reads the change of step sizes.
fn rate(text: &str) -> core::result::Result<Rate, &'static str> {
    match text {
        "constant" => Ok(Rate::Constant),
        "slowing" => Ok(Rate::Slowing),
        "decaying" => Ok(Rate::Decaying),
        _ => Err("expected constant, slowing or decaying"),
    }
}

/// Reads the source of class weights.
fn weighting(text: &str) -> core::result::Result<ClassWeights, &'static str> {
    match text {
        "balanced" => Ok(ClassWeights::Balanced),
        "given" => Ok(ClassWeights::Given),
        _ => Err("expected balanced or given: pass the weights themselves to `sudare encrypt \
                  --class-weight`, so that the server does not learn them"),
    }
}

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

/// How to train. What is left out is chosen by the number of rows and columns.
#[derive(Debug, Clone, clap::Args)]
pub struct Training {
    /// How the owner prepares columns: whiten, so that few iterations lead far; standardize; or
    /// scale, by their largest magnitude, as in the papers on encrypted training
    #[arg(long, value_name = "whiten|standardize|scale", default_value = "whiten", value_parser = preparation)]
    pub preparation: Preparation,
    /// Iterations of training; bootstrapped when that takes less time than more levels
    #[arg(long, value_name = "K", value_parser = whole(1..=u32::MAX))]
    iterations: Option<u32>,
    /// Rows of a batch, at most
    #[arg(long, value_name = "B", value_parser = whole(1..=u32::MAX))]
    batch: Option<u32>,
    /// Step size of the first iteration
    #[arg(long, value_name = "R", allow_negative_numbers = true, value_parser = finite)]
    learning_rate: Option<f64>,
    /// Step sizes of iterations t = 0, 1, …: constant; slowing, divided by 1 + t / 2; or decaying,
    /// by 1 + t
    #[arg(long, value_name = "constant|slowing|decaying", value_parser = rate)]
    rate: Option<Rate>,
    /// The same step size in all iterations
    #[arg(long, conflicts_with = "rate")]
    constant_rate: bool,
    /// Strength of the L2 penalty as scikit-learn has it: the smaller the stronger [default: 1, of
    /// columns that are scaled no penalty]
    #[arg(long = "C", value_name = "C", allow_negative_numbers = true, value_parser = finite)]
    c: Option<f64>,
    /// The same as a weight of the penalty: half the sum of the squares of the weights of
    /// standardised columns, times this, is added to the mean loss
    #[arg(long, visible_alias = "l2", value_name = "ALPHA", conflicts_with = "c", allow_negative_numbers = true, value_parser = finite)]
    alpha: Option<f64>,
    /// Classes of the target [default: those of the table or schema, or of a shape 2]
    #[arg(long, value_name = "N", value_parser = whole(2..=TrainSpec::MAX_CLASSES))]
    classes: Option<u32>,
    /// What rows weigh by their class: balanced, so that all classes count alike, or given, as
    /// `sudare encrypt --class-weight` says. The server does not learn the weights
    #[arg(long, value_name = "balanced|given", value_parser = weighting)]
    class_weight: Option<ClassWeights>,
    /// Workers that each batch is to be divided among, where the training is distributed
    #[arg(long, value_name = "N", value_parser = whole(1..=u32::MAX))]
    workers: Option<u32>,
    /// Bits after the binary point to which weights, statistics or scores are to be shared with
    /// others: see `sudare decrypt --share`
    #[arg(long, value_name = "BITS", value_parser = whole(1..=TrainSpec::MAX_SHARED_BITS))]
    pub share: Option<u32>,
    /// For histograms: parameters that are precise enough for exact counts, of any number of rows.
    /// Without, counts come with a bound of their errors, which is 0 for tables of few rows
    #[arg(long, conflicts_with = "share")]
    pub exact: bool,
    /// Of a training: leave the model fit to score encrypted rows by before it is decrypted, as
    /// many as one likes: see `sudare predict`
    #[arg(long)]
    predict: bool,
    /// Of predict: have the server compute probabilities beside scores, to so many bits, for scores
    /// up to the range of the sigmoid
    #[arg(long, value_name = "BITS", value_parser = whole(1..=Probability::MAX_BITS))]
    probability: Option<u32>,
    /// Of predict with --share: what no score exceeds in absolute value, 1 to 1024. A model whose
    /// weights could bring scores beyond it is refused
    #[arg(long, value_name = "X", allow_negative_numbers = true, value_parser = finite)]
    score_range: Option<f64>,
    /// Largest inner product of a row and the weights that the sigmoid is approximated for
    /// [default: what the table takes, or of a shape 8, of several owners 16]
    #[arg(long, value_name = "X", allow_negative_numbers = true, value_parser = finite)]
    sigmoid_range: Option<f64>,
    /// Degree of the sigmoid's polynomial: 3, 5 or 7
    #[arg(long, value_name = "D", value_parser = whole(3..=7))]
    sigmoid_degree: Option<u32>,
}

/// How step sizes change.
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
    /// How to train on tables of a shape, not yet checked but for the degree.
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

    /// The model of so many columns to score rows by.
    pub fn scored(&self, features: usize) -> ScoredModel {
        let classes = self.classes.unwrap_or(2);
        if let Some(range) = self.score_range {
            return ScoredModel::Shared { features, classes, range };
        }
        let range = self.sigmoid_range.unwrap_or(SigmoidApprox::default().range);
        let probability = self.probability.map(|bits| Probability { range, bits });
        ScoredModel::Given { features, classes, probability }
    }

    /// The same for the rows of several owners, of whom none can see whether the sigmoid suits
    /// those of the others.
    pub fn pooled(&self, spec: TrainSpec, features: usize, schema: &Schema) -> Result<TrainSpec> {
        let columns = schema.columns().len();
        if columns != features {
            return Err(Error::Usage(format!(
                "the schema has {columns} columns, {features} are asked for: write --for \
                 train:ROWSx{columns}"
            )));
        }
        if spec.preparation == Preparation::Scale {
            return Err(Error::Usage(
                "the columns of several owners cannot be scaled, as nobody may tell their largest \
                 values: leave out --preparation, or standardize"
                    .into(),
            ));
        }
        let tables = schema.owners().len();
        let classes = schema.classes().len() as u32;
        let mut spec = TrainSpec { tables, classes, ..spec };
        if self.sigmoid_range.is_none() {
            spec.sigmoid.range = SigmoidApprox::POOLED_RANGE;
        }
        Ok(spec)
    }

    /// As asked for. Of prepared columns, batches take smaller and smaller steps.
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

    /// How to train on a table that is at hand: with a sigmoid for its inner products, unless
    /// another is asked for.
    ///
    /// # Errors
    /// [`Error::Table`] and [`Error::Apps`] for a table that cannot be trained on so.
    pub fn spec_for(&self, table: &Table) -> Result<TrainSpec> {
        table.check_for_training()?;
        let mut spec = self.spec(table.rows(), table.features())?;
        if self.classes.is_none() {
            spec.classes = table.classes()?.len() as u32;
        }
        let fixed = self.sigmoid_range.is_some() || spec.class_weights == Some(ClassWeights::Given);
        if fixed || spec.preparation == Preparation::Scale {
            return Ok(spec);
        }
        let usual = spec.sigmoid.range;
        let spec = spec.with_fitting_range(&Prepared::new(table, &spec, table.rows(), None)?)?;
        if spec.sigmoid.range > usual {
            say(format_args!(
                "inner products of rows and weights exceed {usual}: the sigmoid is approximated up \
                 to {}",
                spec.sigmoid.range
            ));
        }
        Ok(spec)
    }

    /// Refuses options of other jobs.
    pub fn check(&self, purpose: &Purpose) -> Result<()> {
        let (train, predict) = match purpose {
            Purpose::Train(_) => (true, false),
            Purpose::Predict { .. } => (false, true),
            _ => (false, false),
        };
        if self.predict && !train {
            return Err(Error::Usage(
                "--predict is for the model of a training: leave it out, or make keys with --for \
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
                "--probability is for scores of a model that is given: leave it out, or make keys \
                 with --for predict:ROWSxFEATURES"
                    .into(),
            ));
        }
        if self.score_range.is_some() && !(predict && self.share.is_some()) {
            return Err(Error::Usage(
                "--score-range is for scores that are shared: leave it out, or make keys with \
                 --for predict:ROWSxFEATURES --share BITS"
                    .into(),
            ));
        }
        if self.probability.is_some() && self.share.is_some() {
            return Err(Error::Usage(
                "--probability is not for scores that are shared, from which all who see them \
                 compute probabilities: leave it out"
                    .into(),
            ));
        }
        if self.probability.is_some() && self.classes.is_some_and(|classes| classes > 2) {
            return Err(Error::Usage(
                "--probability is for two classes: leave it out, probabilities of more are computed \
                 from decrypted scores"
                    .into(),
            ));
        }
        Ok(())
    }
}

/// Reads how columns are prepared.
fn preparation(text: &str) -> core::result::Result<Preparation, &'static str> {
    match text {
        "whiten" => Ok(Preparation::Whiten),
        "standardize" => Ok(Preparation::Standardize),
        "scale" => Ok(Preparation::Scale),
        _ => Err("whiten, standardize or scale is needed"),
    }
}

/// Reads how step sizes change.
fn rate(text: &str) -> core::result::Result<Rate, &'static str> {
    match text {
        "constant" => Ok(Rate::Constant),
        "slowing" => Ok(Rate::Slowing),
        "decaying" => Ok(Rate::Decaying),
        _ => Err("constant, slowing or decaying is needed"),
    }
}

/// Reads where class weights come from.
fn weighting(text: &str) -> core::result::Result<ClassWeights, &'static str> {
    match text {
        "balanced" => Ok(ClassWeights::Balanced),
        "given" => Ok(ClassWeights::Given),
        _ => Err("balanced or given is needed; the server would learn weights that keys are made \
                  for, so `sudare encrypt --class-weight` takes them"),
    }
}

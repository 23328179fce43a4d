//! What keys are made for, and what is to be done with tables under them.

use crate::error::{Error, Result};
use core::iter::repeat_n;
use serde::{Deserialize, Serialize};
use std::{fmt, path::PathBuf, str::FromStr};
use sudare::{
    ckks::{Params, Scale},
    rlwe::{KeyRequest, Level},
};
use sudare_apps::{
    logreg::{
        self, ClassWeights, LearningRate, Penalty, Preparation, Probability, ScoreJob, ScorePlan,
        ScoredModel, TrainPlan, TrainSpec,
    },
    stats::{self, GroupJob, GroupPlan, HistogramJob, HistogramPlan, StatsPlan},
    table::Table,
};

/// What keys are made for: the public part of a computation.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub enum Job {
    /// Logistic regression.
    Train(logreg::Job),
    /// Statistics of columns.
    Stats(stats::Job),
    /// Refreshing ciphertexts, as the parameter set that the label names has it.
    Bootstrap,
    /// Sums of columns by groups of rows.
    Groups(GroupJob),
    /// Counts of the values of columns in bins.
    Histogram(HistogramJob),
    /// Scores of rows by a model.
    Predict(ScoreJob),
}

/// A job as the command line names it, such as `train:189x9`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "fields are those of the jobs")]
pub enum Purpose {
    /// [`Job::Train`], however it is trained.
    Train(Extent),
    /// [`Job::Stats`].
    Stats(Extent),
    /// [`Job::Groups`].
    Groups { rows: usize, features: usize, groups: usize },
    /// [`Job::Histogram`].
    Histogram { rows: usize, features: usize, bins: usize },
    /// [`Job::Predict`], by a model that is given.
    Predict { rows: usize, features: usize },
    /// [`Job::Bootstrap`].
    Bootstrap,
}

/// How large a table is.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "said by the names")]
pub enum Extent {
    /// So many rows at most, and columns without the target.
    Shape { rows: usize, features: usize },
    /// As large as the table in this file.
    File(PathBuf),
}

impl FromStr for Extent {
    type Err = &'static str;

    /// A shape if there are digits and an `x` only, and otherwise the name of a file.
    fn from_str(text: &str) -> core::result::Result<Self, &'static str> {
        let is_shape = |c: char| c.is_ascii_digit() || c == 'x';
        match counts(text).as_deref() {
            Some(&[rows, features]) => Ok(Self::Shape { rows, features }),
            _ if text.chars().all(is_shape) => Err("it is neither ROWSxFEATURES nor a file"),
            _ => Ok(Self::File(text.into())),
        }
    }
}

/// Positive numbers with an `x` between them.
fn counts(text: &str) -> Option<Vec<usize>> {
    text.split('x').map(|text| text.parse().ok().filter(|&count| count > 0)).collect()
}

impl FromStr for Purpose {
    type Err = String;

    fn from_str(text: &str) -> core::result::Result<Self, String> {
        let help = "write train:ROWSxFEATURES, stats:ROWSxFEATURES or bootstrap, such as \
                    train:189x9, where the target does not count as a feature, or train:TABLE.csv \
                    for a table of that size; or groups:ROWSxFEATURESxGROUPS, where the key column \
                    does not count, histogram:ROWSxFEATURESxBINS or predict:ROWSxFEATURES";
        if text == "bootstrap" {
            return Ok(Self::Bootstrap);
        }
        let (what, shape) = text.split_once(':').ok_or(help)?;
        match (what, counts(shape).as_deref()) {
            ("train", _) => Ok(Self::Train(shape.parse().map_err(|_| help)?)),
            ("stats", _) => Ok(Self::Stats(shape.parse().map_err(|_| help)?)),
            ("predict", Some(&[rows, features])) => Ok(Self::Predict { rows, features }),
            ("groups", Some(&[rows, features, groups])) => {
                Ok(Self::Groups { rows, features, groups })
            }
            ("histogram", Some(&[rows, features, bins])) => {
                Ok(Self::Histogram { rows, features, bins })
            }
            ("groups" | "histogram" | "predict", _) => Err(help.into()),
            _ => Err(format!("{what:?} is not a job for tables; {help}")),
        }
    }
}

impl fmt::Display for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Train(job) => training(job, f),
            Self::Stats(job) => write!(f, "stats:{}x{}", job.rows, job.features),
            Self::Bootstrap => write!(f, "bootstrap"),
            Self::Groups(GroupJob { rows, features, groups }) => {
                write!(f, "groups:{rows}x{features}x{groups}")
            }
            Self::Histogram(HistogramJob { rows, features, bins }) => {
                write!(f, "histogram:{rows}x{features}x{bins}")
            }
            Self::Predict(ScoreJob { rows, model }) => {
                write!(f, "predict:{rows}x{}", model.features())?;
                match model {
                    ScoredModel::Trained(training) => {
                        write!(f, ", after {}", Self::Train(*training))
                    }
                    ScoredModel::Given { classes, probability, .. } => {
                        if *classes > 2 {
                            write!(f, ", {classes} classes")?;
                        }
                        match probability {
                            Some(Probability { range, bits }) => {
                                write!(f, ", probabilities to {bits} bits up to a score of {range}")
                            }
                            None => Ok(()),
                        }
                    }
                }
            }
        }
    }
}

fn training(job: &logreg::Job, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let spec = &job.spec;
    write!(f, "train:{}x{}, {} iterations", job.rows, job.features, spec.iterations)?;
    if let Some(batch) = spec.batch {
        write!(f, " of {batch} rows")?;
    }
    if spec.classes > 2 {
        write!(f, ", {} classes", spec.classes)?;
    }
    let prepared = match spec.preparation {
        Preparation::Whiten => "whitened",
        Preparation::Standardize => "standardized",
        Preparation::Scale => "scaled",
    };
    write!(f, ", {prepared} columns")?;
    match spec.penalty {
        Penalty::None => {}
        Penalty::Alpha(alpha) => write!(f, ", L2 penalty {alpha}")?,
        Penalty::C(c) => write!(f, ", C = {c}")?,
    }
    match spec.class_weights {
        Some(ClassWeights::Balanced) => write!(f, ", balanced class weights")?,
        Some(ClassWeights::Given) => write!(f, ", given class weights")?,
        None => {}
    }
    match spec.tables {
        1 => Ok(()),
        tables => write!(f, ", {tables} tables"),
    }
}

/// What the command line calls how step sizes change.
#[must_use]
pub fn rate_name(rate: LearningRate) -> &'static str {
    match rate {
        LearningRate::Constant(_) => "constant",
        LearningRate::Slowing { .. } => "slowing",
        LearningRate::Decaying { .. } => "decaying",
    }
}

impl Job {
    /// Rows and features of the table.
    ///
    /// # Errors
    /// [`Error::Usage`] if the job has none.
    pub fn shape(&self) -> Result<(usize, usize)> {
        match self {
            Self::Train(job) => Ok((job.rows, job.features)),
            Self::Stats(job) => Ok((job.rows, job.features)),
            Self::Groups(job) => Ok((job.rows, job.features)),
            Self::Histogram(job) => Ok((job.rows, job.features)),
            Self::Predict(job) => Ok((job.rows, job.model.features())),
            Self::Bootstrap => Err(no_table()),
        }
    }

    /// `train`, `stats`, `groups`, `histogram`, `predict` or `bootstrap`.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Train(_) => "train",
            Self::Stats(_) => "stats",
            Self::Groups(_) => "groups",
            Self::Histogram(_) => "histogram",
            Self::Predict(_) => "predict",
            Self::Bootstrap => "bootstrap",
        }
    }

    /// How the model is trained that the job makes, or scores by.
    #[must_use]
    pub fn training(&self) -> Option<&TrainSpec> {
        match self {
            Self::Train(training)
            | Self::Predict(ScoreJob { model: ScoredModel::Trained(training), .. }) => {
                Some(&training.spec)
            }
            _ => None,
        }
    }

    /// Whether the owner of a table has to say what its rows weigh.
    #[must_use]
    pub fn takes_class_weights(&self) -> bool {
        let Self::Train(job) = self else { return false };
        job.spec.class_weights == Some(ClassWeights::Given)
    }

    /// The smallest secure parameters for the table.
    ///
    /// # Errors
    /// [`Error::Usage`] if the job has none; those of the job's plan.
    pub fn auto_params(&self) -> Result<Params> {
        Ok(match self {
            Self::Train(job) => TrainPlan::auto_params(job)?,
            Self::Stats(job) => StatsPlan::auto_params(job)?,
            Self::Groups(job) => GroupPlan::auto_params(job)?,
            Self::Histogram(job) => HistogramPlan::auto_params(job)?,
            Self::Predict(job) => ScorePlan::auto_params(job)?,
            Self::Bootstrap => return Err(no_table()),
        })
    }

    /// Those with as much more precision as sharing the results to `bits` bits takes; trainings
    /// say themselves if they are shared.
    ///
    /// # Errors
    /// As [`Job::auto_params`]; [`Error::Usage`] for results that cannot be shared.
    pub fn shared_params(&self, bits: u32) -> Result<Params> {
        Ok(match self {
            Self::Train(job) => TrainPlan::auto_params(job)?,
            Self::Stats(job) => StatsPlan::shared_params(job, bits)?,
            Self::Groups(job) => GroupPlan::shared_params(job, bits)?,
            Self::Histogram(job) => HistogramPlan::shared_params(job, bits)?,
            Self::Predict(_) | Self::Bootstrap => return Err(not_shared()),
        })
    }

    /// The job of scoring rows with keys for this one: by a model that is given, or by the one that
    /// is trained, so many rows as one likes.
    ///
    /// # Errors
    /// [`Error::Usage`] for keys of other jobs, and of a training that leaves a model without a
    /// level.
    pub fn scoring(&self, rows: usize) -> Result<Self> {
        match self {
            Self::Predict(_) => Ok(*self),
            Self::Train(training) => {
                let model = ScoredModel::Trained(*training);
                Ok(Self::Predict(ScoreJob { rows, model }))
            }
            _ => Err(Error::Usage(format!(
                "the keys are for {self}, which scores no rows: make keys with --for \
                 predict:ROWSxFEATURES, or with --for train:ROWSxFEATURES --predict"
            ))),
        }
    }

    /// Whether keys for this job serve a table that was encrypted for `other`: for the same, or for
    /// rows that are scored by the model that the keys were made to train.
    #[must_use]
    pub fn serves(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Train(training), Self::Predict(job)) => {
                job.model == ScoredModel::Trained(*training)
            }
            _ => self == other,
        }
    }

    /// What to do with the table under `params`.
    ///
    /// # Errors
    /// [`Error::Usage`] if the job has no table or too large a one; those of the job's plan.
    pub fn plan(&self, params: &Params) -> Result<Plan> {
        let (rows, features) = self.shape()?;
        if rows.checked_mul(features).is_none_or(|cells| cells > Table::DEFAULT_MAX_CELLS) {
            return Err(Error::Usage(format!(
                "a table of {rows} rows and {features} features is too large: at most {} cells",
                Table::DEFAULT_MAX_CELLS
            )));
        }
        Ok(match self {
            Self::Train(job) => Plan::Train(Box::new(TrainPlan::new(job, params)?)),
            Self::Stats(job) => Plan::Stats(StatsPlan::new(job, params)?),
            Self::Groups(job) => Plan::Groups(GroupPlan::new(job, params)?),
            Self::Histogram(job) => Plan::Histogram(Box::new(HistogramPlan::new(job, params)?)),
            Self::Predict(job) => Plan::Predict(Box::new(ScorePlan::new(job, params)?)),
            Self::Bootstrap => return Err(no_table()),
        })
    }
}

fn no_table() -> Error {
    Error::Usage(
        "these keys are for bootstrapping, a table is needed here: make keys with \
         --for train:ROWSxFEATURES or --for stats:ROWSxFEATURES"
            .into(),
    )
}

fn not_shared() -> Error {
    Error::Usage(
        "--share is for trained models and statistics, not for this job: leave it out, and give \
         its results to nobody else"
            .into(),
    )
}

/// A job on a table, planned for parameters.
pub enum Plan {
    /// Of [`Job::Train`].
    Train(Box<TrainPlan>),
    /// Of [`Job::Stats`].
    Stats(StatsPlan),
    /// Of [`Job::Groups`].
    Groups(GroupPlan),
    /// Of [`Job::Histogram`].
    Histogram(Box<HistogramPlan>),
    /// Of [`Job::Predict`].
    Predict(Box<ScorePlan>),
}

impl Plan {
    /// The command that does it.
    #[must_use]
    pub fn command(&self) -> &'static str {
        match self {
            Self::Train(_) => "train",
            Self::Predict(_) => "predict",
            Self::Stats(_) | Self::Groups(_) | Self::Histogram(_) => "stats",
        }
    }

    /// Keys that the server needs.
    #[must_use]
    pub fn required_keys(&self) -> &KeyRequest {
        match self {
            Self::Train(plan) => plan.required_keys(),
            Self::Stats(plan) => plan.required_keys(),
            Self::Groups(plan) => plan.required_keys(),
            Self::Histogram(plan) => plan.required_keys(),
            Self::Predict(plan) => plan.required_keys(),
        }
    }

    /// Bootstrappings of the whole computation.
    #[must_use]
    pub fn bootstraps(&self) -> u32 {
        match self {
            Self::Train(plan) => plan.bootstraps(plan.job().spec.iterations),
            Self::Stats(_) | Self::Groups(_) | Self::Histogram(_) | Self::Predict(_) => 0,
        }
    }

    /// Ciphertexts of the encrypted table.
    #[must_use]
    pub fn ciphertexts(&self) -> usize {
        match self {
            Self::Train(plan) => plan.ciphertexts(),
            Self::Stats(plan) => plan.ciphertexts(),
            Self::Groups(plan) => plan.ciphertexts(),
            Self::Histogram(plan) => plan.ciphertexts(),
            Self::Predict(plan) => plan.ciphertexts(),
        }
    }

    /// Ciphertexts of the result.
    #[must_use]
    pub fn outputs(&self) -> usize {
        match self {
            Self::Train(plan) => plan.job().spec.models(),
            Self::Stats(plan) => plan.outputs(),
            Self::Groups(plan) => plan.outputs(),
            Self::Histogram(plan) => plan.outputs(),
            Self::Predict(plan) => plan.groups() * plan.outputs(),
        }
    }

    /// Level and scale of each ciphertext of the result, after so many iterations of a training: of
    /// its weights, then of those after each iteration, where they were kept.
    ///
    /// # Errors
    /// [`Error::Stats`] if it cannot be simulated.
    pub fn result_shapes(&self, iterations: u32) -> Result<Vec<(Level, Scale)>> {
        Ok(match self {
            Self::Train(plan) => {
                let kept = plan.snapshot_shapes(iterations);
                let all = core::iter::once(plan.output_after(iterations)).chain(kept);
                all.flat_map(|shape| repeat_n(shape, plan.job().spec.models())).collect()
            }
            Self::Stats(plan) => plan.output_shapes()?,
            Self::Groups(plan) => plan.output_shapes()?,
            Self::Histogram(plan) => plan.output_shapes()?,
            Self::Predict(plan) => {
                let of_group: Vec<_> = plan.output_shapes().collect();
                repeat_n(of_group, plan.groups()).flatten().collect()
            }
        })
    }

    /// Refuses a plan whose results are not precise enough to be shared to `bits` bits.
    ///
    /// # Errors
    /// [`Error::Library`] with `TooLittlePrecision`; [`Error::Usage`] for results that cannot be
    /// shared.
    pub fn expect_shared(&self, bits: u32) -> Result<()> {
        let (found, needed) = match self {
            // Planned for, or refused, by itself.
            Self::Train(_) => return Ok(()),
            Self::Stats(plan) => (plan.largest_error(), plan.largest_shared_error(bits)),
            Self::Groups(plan) => (plan.largest_error(), plan.largest_shared_error(bits)),
            Self::Histogram(plan) => (plan.largest_error(), plan.largest_shared_error(bits)),
            Self::Predict(_) => return Err(not_shared()),
        };
        match found <= needed {
            true => Ok(()),
            false => Err(sudare::Error::TooLittlePrecision { bits, found, needed }.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn purposes_are_read() {
        let (rows, features) = (189, 9);
        let shape = Extent::Shape { rows, features };
        assert_eq!("train:189x9".parse(), Ok(Purpose::Train(shape.clone())));
        assert_eq!("stats:189x9".parse(), Ok(Purpose::Stats(shape)));
        let file = |name: &str| Extent::File(name.into());
        assert_eq!("train:births.csv".parse(), Ok(Purpose::Train(file("births.csv"))));
        assert_eq!("stats:a:b/12x3.csv".parse(), Ok(Purpose::Stats(file("a:b/12x3.csv"))));
        assert_eq!("bootstrap".parse(), Ok(Purpose::Bootstrap));
        assert_eq!("groups:189x9x3".parse(), Ok(Purpose::Groups { rows, features, groups: 3 }));
        let histogram = Purpose::Histogram { rows, features, bins: 8 };
        assert_eq!("histogram:189x9x8".parse(), Ok(histogram));
        let bad =
            ["train", "train:0x9", "train:9", "train:", "stats:x", "bootstrap:", "groups:1x1"];
        for text in bad.into_iter().chain(["stats:1x1x1", "histogram:1x1x0", "predict:a.csv"]) {
            let refused: core::result::Result<Purpose, _> = text.parse();
            assert!(refused.unwrap_err().contains("stats:ROWSxFEATURES or bootstrap"), "{text}");
        }
        let refused: core::result::Result<Purpose, _> = "bootstrap:1x1".parse();
        assert!(refused.unwrap_err().contains("\"bootstrap\" is not a job for tables"));
    }

    #[test]
    fn jobs_say_how_they_train() {
        let spec = TrainSpec { classes: 3, tables: 2, ..TrainSpec::default() };
        let job = |spec| Job::Train(logreg::Job { rows: 9, features: 2, spec }).to_string();
        assert_eq!(
            job(spec),
            "train:9x2, 5 iterations, 3 classes, whitened columns, C = 1, 2 tables"
        );
        assert_eq!(job(TrainSpec::published()), "train:9x2, 5 iterations, scaled columns");
    }
}

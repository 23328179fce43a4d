//! Jobs that keys are made for, and their plans.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

mod groups;
mod histogram;
mod predict;
mod stats;
mod train;

use crate::{
    clear::{
        decrypted::Decrypted,
        groups::KeyColumn,
        note::{About, Note},
    },
    error::{Error, Result},
    key::Messages,
    plan::price::Price,
};
use serde::{Deserialize, Serialize};
use std::{fmt, ops::Deref, path::PathBuf, str::FromStr};
use sudare::{ckks::Params, rlwe::Level};
use sudare_apps::{
    TablePlan, ciphertext_bytes,
    logreg::{self, LearningRate, ScoreJob, ScorePlan, ScoredModel, TrainPlan, TrainSpec},
    stats::{Circuit, Cost, Edges, GroupJob, HistogramJob, Planned, TableStatistics},
};
use sudare_table::Table;

/// The job of keys: the public part of a computation.
// Files store the number of the variant, so only append variants.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub enum Job {
    /// Logistic regression.
    Train(logreg::Job),
    /// Statistics of columns.
    Stats(sudare_apps::stats::Job),
    /// Bootstrapping, with the parameter set that the label names.
    Bootstrap,
    /// Sums of columns by groups of rows.
    Groups(GroupJob),
    /// Counts of the values of columns in bins.
    Histogram(HistogramJob),
    /// Scores of rows by a model.
    Predict(ScoreJob),
}

/// A job as the command line names it, such as `train:189x9`.
#[derive(Debug, Clone, PartialEq)]
#[expect(missing_docs, reason = "fields are those of the jobs")]
pub enum Purpose {
    /// A job that its name describes completely.
    Job(Job),
    /// [`Job::Train`], with settings that the name omits.
    Train(Extent),
    /// [`Job::Stats`] for a table of the size of the table in this file.
    StatsOf(PathBuf),
    /// [`Job::Groups`] for the table in this file.
    GroupsOf(PathBuf),
    /// [`Job::Histogram`] for the table in this file.
    HistogramOf(PathBuf),
    /// [`Job::Predict`], by a given model.
    Predict { rows: usize, features: usize },
    /// [`Job::Predict`] for the rows in this file, by a given model.
    PredictOf(PathBuf),
}

/// The size of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "said by the names")]
pub enum Extent {
    /// The maximum number of rows, and the number of columns without the target.
    Shape { rows: usize, features: usize },
    /// The size of the table in this file.
    File(PathBuf),
}

/// Creates the job for the counts in its name, if their number fits.
type OfCounts = fn(&[usize]) -> Option<Job>;

/// Prefixes of the names that describe a job completely.
const NAMED: [(&str, OfCounts); 3] =
    [("stats", stats::named), ("groups", groups::named), ("histogram", histogram::named)];

/// Parses positive numbers with an `x` between them.
fn counts(text: &str) -> Option<Vec<usize>> {
    // A table without rows or columns has no plan, so 0 is not a count.
    text.split('x').map(|text| text.parse().ok().filter(|&count| count > 0)).collect()
}

/// Parses the name of a file. Names of digits, `x` and signs only are refused, since they look like
/// counts.
fn file(text: &str) -> Option<PathBuf> {
    let of_counts = |c: char| c.is_ascii_digit() || "x+-".contains(c);
    (!text.chars().all(of_counts)).then(|| text.into())
}

impl FromStr for Purpose {
    type Err = String;

    fn from_str(text: &str) -> core::result::Result<Self, String> {
        let help = "write train:ROWSxFEATURES, stats:ROWSxFEATURES or bootstrap, such as \
                    train:189x9, where the target does not count as a feature, or train:TABLE.csv \
                    for a table of that size; or groups:ROWSxFEATURESxGROUPS, where the key column \
                    does not count, histogram:ROWSxFEATURESxBINS, either with TABLE.csv in place \
                    of the numbers, or predict:ROWSxFEATURES or predict:TABLE.csv";
        if text == "bootstrap" {
            return Ok(Self::Job(Job::Bootstrap));
        }
        let (what, table) = text.split_once(':').ok_or(help)?;
        let counts = counts(table);
        let named = NAMED.iter().find(|(kind, _)| *kind == what);
        let purpose = match (what, counts.as_deref(), named) {
            ("train", Some(&[rows, features]), _) => {
                Some(Self::Train(Extent::Shape { rows, features }))
            }
            ("train", ..) => file(table).map(|path| Self::Train(Extent::File(path))),
            ("predict", Some(&[rows, features]), _) => Some(Self::Predict { rows, features }),
            ("predict", ..) => file(table).map(Self::PredictOf),
            ("stats", None, _) => file(table).map(Self::StatsOf),
            ("groups", None, _) => file(table).map(Self::GroupsOf),
            ("histogram", None, _) => file(table).map(Self::HistogramOf),
            (_, counts, Some((_, job))) => counts.and_then(job).map(Self::Job),
            // An unknown job is named first: help on counts would not show the mistake.
            _ => return Err(format!("{what:?} is not a job for tables; {help}")),
        };
        purpose.ok_or_else(|| help.into())
    }
}

impl fmt::Display for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.table() {
            Ok(job) => job.describe(f),
            Err(_) => write!(f, "bootstrap"),
        }
    }
}

/// A job on a table, for making keys. Each job has its own file.
trait TableJob {
    /// Returns the prefix of the job's name on the command line.
    fn kind(&self) -> &'static str;

    /// Returns the numbers of rows and features of the table.
    fn shape(&self) -> (usize, usize);

    /// Returns the job's name on the command line, for a table of another shape.
    fn named(&self, rows: usize, features: usize) -> String {
        format!("{}:{rows}x{features}", self.kind())
    }

    /// Returns the inputs that the job requires besides the features.
    fn required_inputs(&self) -> RequiredInputs {
        RequiredInputs::default()
    }

    /// Returns the settings of the training that made, or will make, the model.
    fn training(&self) -> Option<&TrainSpec> {
        None
    }

    /// Returns the training whose encrypted model scores the rows, if there is one.
    fn trained(&self) -> Option<&logreg::Job> {
        None
    }

    /// Returns the smallest secure parameters.
    fn auto_params(&self) -> Result<Params>;

    /// Returns the smallest secure parameters for releases to `bits` bits.
    fn shared_params(&self, _bits: u32) -> Result<Params> {
        Err(not_shared())
    }

    /// Returns the smallest secure parameters for exact results.
    fn exact_params(&self) -> Result<Params> {
        Err(not_exact())
    }

    /// Plans the job under `params`.
    fn plan(&self, params: &Params) -> Result<Plan>;

    /// Writes the job's description for messages.
    fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (rows, features) = self.shape();
        write!(f, "{}", self.named(rows, features))
    }
}

/// The inputs that a job requires besides the features.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RequiredInputs {
    /// A column of labels to learn.
    pub labels: bool,
    /// Weights of the classes.
    pub class_weights: bool,
    /// A column that defines groups of rows, and the maximum number of groups.
    pub groups: Option<usize>,
    /// Edges of this number of bins.
    pub bins: Option<usize>,
    /// The model that scores the rows and determines their preparation.
    pub model: bool,
}

/// A planned job, for those who encrypt, compute and decrypt. See [`Plan`].
trait StatisticsJob: Copy {
    type Circuit: Circuit<Job = Self> + 'static;

    const KIND: &'static str;

    /// Groups or bins.
    fn parts(&self) -> Option<usize> {
        None
    }

    fn required_inputs(&self) -> RequiredInputs {
        RequiredInputs::default()
    }

    fn exact_params(&self) -> Result<Params> {
        Err(not_exact())
    }
}

impl<J: StatisticsJob> TableJob for J
where
    Planned<J::Circuit>: Noted,
{
    fn kind(&self) -> &'static str {
        J::KIND
    }

    fn shape(&self) -> (usize, usize) {
        let table = J::Circuit::table(self);
        (table.rows, table.features)
    }

    fn named(&self, rows: usize, features: usize) -> String {
        let parts = self.parts().map(|parts| format!("x{parts}")).unwrap_or_default();
        format!("{}:{rows}x{features}{parts}", J::KIND)
    }

    fn required_inputs(&self) -> RequiredInputs {
        self.required_inputs()
    }

    fn auto_params(&self) -> Result<Params> {
        Ok(Planned::<J::Circuit>::auto_params(self)?)
    }

    fn shared_params(&self, bits: u32) -> Result<Params> {
        Ok(Planned::<J::Circuit>::shared_params(self, bits)?)
    }

    fn exact_params(&self) -> Result<Params> {
        self.exact_params()
    }

    fn plan(&self, params: &Params) -> Result<Plan> {
        let plan = Planned::<J::Circuit>::new(self, params)?;
        Ok(Plan::Statistics(StatisticsPlan(Box::new(plan))))
    }
}

/// Planned statistics whose notes say how the owner of a table encrypted it.
pub(crate) trait Noted: TableStatistics {
    /// Returns the encoding of values, for the note of the table's owner. `key` defines groups, and
    /// bins have these edges, of all columns or of each.
    fn about(&self, table: &Table, key: Option<&KeyColumn>, edges: &[Edges]) -> Result<About>;

    /// Returns the contents of a table's ciphertexts, by the result of [`Noted::about`].
    fn pack<'a>(
        &'a self,
        table: &'a Table,
        key: Option<&'a KeyColumn>,
        about: &'a About,
    ) -> Result<Messages<'a>>;

    /// Returns the statistics from the slots, released to `shared_bits` bits if given, or `None`
    /// for the note of another job.
    fn decode(
        &self,
        slots: &[Vec<f64>],
        note: Note,
        shared_bits: Option<u32>,
    ) -> Result<Option<Decrypted>>;
}

/// Returns the command line's name of a learning rate schedule.
#[must_use]
pub fn rate_name(rate: LearningRate) -> &'static str {
    match rate {
        LearningRate::Constant(_) => "constant",
        LearningRate::Slowing { .. } => "slowing",
        LearningRate::Decaying { .. } => "decaying",
    }
}

impl Job {
    /// Returns the job on a table.
    ///
    /// # Errors
    /// [`Error::Usage`] if the job has no table.
    fn table(&self) -> Result<&dyn TableJob> {
        match self {
            Self::Train(job) => Ok(job),
            Self::Stats(job) => Ok(job),
            Self::Groups(job) => Ok(job),
            Self::Histogram(job) => Ok(job),
            Self::Predict(job) => Ok(job),
            Self::Bootstrap => Err(no_table()),
        }
    }

    /// Returns the numbers of rows and features of the table.
    ///
    /// # Errors
    /// [`Error::Usage`] if the job has no table.
    pub fn shape(&self) -> Result<(usize, usize)> {
        Ok(self.table()?.shape())
    }

    /// Returns `train`, `stats`, `groups`, `histogram`, `predict` or `bootstrap`.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        self.table().map_or("bootstrap", TableJob::kind)
    }

    /// Returns the settings of the training that made, or will make, the model.
    #[must_use]
    pub fn training(&self) -> Option<&TrainSpec> {
        self.table().ok()?.training()
    }

    /// Returns the training whose encrypted model scores the rows, if there is one.
    #[must_use]
    pub fn trained(&self) -> Option<&logreg::Job> {
        self.table().ok()?.trained()
    }

    /// Returns the inputs that the job requires besides the features. Without a table there are
    /// none.
    #[must_use]
    pub fn required_inputs(&self) -> RequiredInputs {
        self.table().map_or_else(|_| RequiredInputs::default(), TableJob::required_inputs)
    }

    /// Returns the job's name on the command line, for a table of another shape. Example:
    /// `histogram:189x9x8`.
    ///
    /// # Errors
    /// [`Error::Usage`] if the job has no table.
    pub fn named(&self, rows: usize, features: usize) -> Result<String> {
        Ok(self.table()?.named(rows, features))
    }

    /// Returns the smallest secure parameters for the table.
    ///
    /// # Errors
    /// [`Error::Usage`] if the job has no table; errors from planning the job.
    pub fn auto_params(&self) -> Result<Params> {
        self.table()?.auto_params()
    }

    /// Returns the smallest secure parameters with enough precision for releases to `bits` bits. A
    /// training states in its own settings whether its results are released.
    ///
    /// # Errors
    /// The errors of [`Job::auto_params`]; [`Error::Usage`] for results that cannot be shared.
    pub fn shared_params(&self, bits: u32) -> Result<Params> {
        self.table().map_err(|_| not_shared())?.shared_params(bits)
    }

    /// Returns the smallest secure parameters with enough precision for exact results.
    ///
    /// # Errors
    /// The errors of [`Job::auto_params`]; [`Error::Usage`] for jobs without exact results.
    pub fn exact_params(&self) -> Result<Params> {
        self.table()?.exact_params()
    }

    /// Returns the job of scoring `rows` rows under keys of this job: by a given model, or by the
    /// trained one.
    ///
    /// # Errors
    /// [`Error::Usage`] for keys of other jobs, and of a training that leaves its model no level.
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

    /// Returns whether keys for this job serve a table that was encrypted for `other`. They serve
    /// the same job. Keys of a training also serve rows that its model scores.
    #[must_use]
    pub fn serves(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Train(training), Self::Predict(job)) => {
                // The model of another training has other levels, even if its tables have the same
                // shape.
                job.model == ScoredModel::Trained(*training)
            }
            _ => self == other,
        }
    }

    /// Plans the job under `params`.
    ///
    /// # Errors
    /// [`Error::Usage`] if the job has no table, or too large a one; errors from planning the job.
    pub fn plan(&self, params: &Params) -> Result<Plan> {
        let (rows, features) = self.shape()?;
        // Before planning: a label may state any size, and a plan of it would take long.
        if rows.checked_mul(features).is_none_or(|cells| cells > Table::DEFAULT_MAX_CELLS) {
            // The product may overflow, and an overflow is too large as well.
            return Err(Error::Usage(format!(
                "a table of {rows} rows and {features} features is too large: the maximum is {} \
                 cells",
                Table::DEFAULT_MAX_CELLS
            )));
        }
        self.table()?.plan(params)
    }
}

fn no_table() -> Error {
    Error::Usage(
        "these keys are for bootstrapping, but a table is needed here: make keys with --for \
         train:ROWSxFEATURES or --for stats:ROWSxFEATURES"
            .into(),
    )
}

fn not_exact() -> Error {
    Error::Usage(
        "only histograms have exact counts: leave out --exact, or make keys with --for \
         histogram:ROWSxFEATURESxBINS"
            .into(),
    )
}

fn not_shared() -> Error {
    Error::Usage(
        "--share is for trained models, statistics, and scores by a given model whose range \
         --score-range states; it is not for this job: leave it out, and do not give its results \
         to anyone else"
            .into(),
    )
}

/// A job on a table, planned under parameters.
pub enum Plan {
    /// Plan of a [`Job::Train`].
    Train(Box<TrainPlan>),
    /// Plan of a [`Job::Predict`].
    Predict(Box<ScorePlan>),
    /// Plan of any other job on a table.
    Statistics(StatisticsPlan),
}

/// Statistics, sums by groups or histograms, planned under parameters.
pub struct StatisticsPlan(pub(crate) Box<dyn Noted>);

impl StatisticsPlan {
    /// Returns counts, bytes and operations of the server.
    ///
    /// # Errors
    /// [`Error::Stats`] if the job cannot be simulated.
    pub fn cost(&self) -> Result<Cost> {
        Ok(self.0.cost()?)
    }
}

impl Deref for Plan {
    type Target = dyn TablePlan;

    fn deref(&self) -> &(dyn TablePlan + 'static) {
        match self {
            Self::Train(plan) => &**plan,
            Self::Predict(plan) => &**plan,
            Self::Statistics(plan) => &*plan.0,
        }
    }
}

impl Plan {
    /// Returns the name of the command that computes the job.
    #[must_use]
    pub fn command(&self) -> &'static str {
        match self {
            Self::Train(_) => "train",
            Self::Predict(_) => "predict",
            Self::Statistics(_) => "stats",
        }
    }

    /// Returns the bytes of the result in memory, which its file packs: after `iterations` of a
    /// training, with or without the weights after each, and with a note of `note` ciphertexts.
    #[must_use]
    pub fn result_bytes(
        &self,
        params: &Params,
        (iterations, with_history): (u32, bool),
        note: u32,
    ) -> u64 {
        let shapes = self.result_shapes(iterations);
        let count = if with_history { shapes.len() } else { self.outputs() };
        let values: u64 =
            shapes.iter().take(count).map(|(level, _)| ciphertext_bytes(params, *level)).sum();
        let note = ciphertext_bytes(params, Level(0)).saturating_mul(note.into());
        values.saturating_add(note)
    }

    /// Refuses a plan whose results are not precise enough for releases to `bits` bits.
    ///
    /// # Errors
    /// [`Error::Library`] with `TooLittlePrecision`; [`Error::Usage`] for results that cannot be
    /// shared.
    pub fn expect_shared(&self, bits: u32) -> Result<()> {
        let (found, needed) = match self {
            // The training was planned for it, or was refused.
            Self::Train(_) => return Ok(()),
            Self::Predict(plan) => match plan.job().model {
                ScoredModel::Shared { .. } => {
                    (plan.largest_error(), plan.largest_shared_error(bits))
                }
                ScoredModel::Given { .. } | ScoredModel::Trained(_) => return Err(not_shared()),
            },
            Self::Statistics(StatisticsPlan(plan)) => {
                (plan.largest_error(), plan.largest_shared_error(bits))
            }
        };
        match found <= needed {
            true => Ok(()),
            false => Err(sudare::Error::TooLittlePrecision { bits, found, needed }.into()),
        }
    }

    /// Returns the cost for a server with `threads` threads.
    ///
    /// # Errors
    /// [`Error::Stats`] and [`Error::Apps`] if the job cannot be simulated.
    pub fn price(&self, threads: usize) -> Result<Price> {
        let (work, held) = match self {
            Self::Train(plan) => train::demand(plan)?,
            Self::Predict(plan) => predict::demand(plan)?,
            // The table is read at once.
            Self::Statistics(plan) => {
                let cost = plan.cost()?;
                (cost.work, cost.input_bytes.saturating_add(cost.output_bytes))
            }
        };
        Price::new(self.params(), self.required_keys(), work, held, threads)
    }
}

/// Creates the error for a missing input of the job, which is a bug of the caller.
pub(crate) fn incomplete() -> Error {
    Error::Bug("a table lacks an input of its job".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn purposes_are_read() {
        let rows = 189;
        let features = 9;
        assert_eq!("train:189x9".parse(), Ok(Purpose::Train(Extent::Shape { rows, features })));
        let train = Purpose::Train(Extent::File("births.csv".into()));
        assert_eq!("train:births.csv".parse(), Ok(train));
        assert_eq!("stats:a:b/12x3.csv".parse(), Ok(Purpose::StatsOf("a:b/12x3.csv".into())));
        assert_eq!("groups:a.csv".parse(), Ok(Purpose::GroupsOf("a.csv".into())));
        assert_eq!("histogram:a.csv".parse(), Ok(Purpose::HistogramOf("a.csv".into())));
        assert_eq!("predict:189x9".parse(), Ok(Purpose::Predict { rows, features }));
        assert_eq!("predict:a.csv".parse(), Ok(Purpose::PredictOf("a.csv".into())));
        let named = [
            ("bootstrap", Job::Bootstrap),
            ("stats:189x9", Job::Stats(sudare_apps::stats::Job { rows, features })),
            ("groups:189x9x3", Job::Groups(GroupJob { rows, features, groups: 3 })),
            ("histogram:189x9x8", Job::Histogram(HistogramJob { rows, features, bins: 8 })),
        ];
        for (text, job) in named {
            assert_eq!(text.parse(), Ok(Purpose::Job(job)));
        }
        let bad =
            ["train", "train:0x9", "train:9", "train:", "stats:x", "bootstrap:", "groups:1x1"];
        for text in bad.into_iter().chain(["stats:1x1x1", "histogram:1x1x0", "predict:1x1x1"]) {
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

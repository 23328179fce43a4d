//! What keys are made for, and what is to be done with tables under them.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

/// What a plan of statistics is to those who plan for any job, in terms of what all of them have.
macro_rules! plan_of_statistics {
    ($plan:ty) => {
        impl TablePlan for $plan {
            fn command(&self) -> &'static str {
                "stats"
            }

            fn required_keys(&self) -> &KeyRequest {
                self.required_keys()
            }

            fn ciphertexts(&self) -> usize {
                self.ciphertexts()
            }

            fn table_bytes(&self) -> Result<u64> {
                Ok(self.cost()?.input_bytes)
            }

            fn outputs(&self) -> usize {
                self.outputs()
            }

            fn result_shapes(&self, _iterations: u32) -> Result<Vec<(Level, Scale)>> {
                Ok(self.output_shapes())
            }

            fn expect_shared(&self, bits: u32) -> Result<()> {
                expect_precise(bits, self.largest_error(), self.largest_shared_error(bits))
            }

            fn price(&self, threads: usize) -> Result<Price> {
                Price::of_statistics(self.params(), self.required_keys(), self.cost()?, threads)
            }
        }
    };
}

/// The methods of [`TableStatistics`] that all plans of statistics have under these names.
macro_rules! computed_statistics {
    () => {
        fn cost(&self) -> StatsResult<Cost> {
            self.cost()
        }

        fn run(
            &self,
            e: &Evaluator,
            table: &[Ciphertext],
            progress: &(dyn Fn(usize) + Send + Sync),
        ) -> StatsResult<Vec<Ciphertext>> {
            self.run(e, table, progress)
        }

        fn share(&self, slots: &[Vec<f64>], bits: u32, noise: &Seed) -> StatsResult<Vec<Vec<f64>>> {
            self.share(slots, bits, noise)
        }
    };
}

mod groups;
mod histogram;
mod predict;
mod stats;
mod train;

pub use groups::KeyColumn;

use crate::{
    decrypted::Decrypted,
    error::{Error, Result},
    key::Messages,
    note::{About, Note},
    price::{Price, ciphertext_bytes},
};
use serde::{Deserialize, Serialize};
use std::{fmt, path::PathBuf, str::FromStr};
use sudare::{
    ckks::{Ciphertext, Evaluator, Params, Scale},
    rlwe::{KeyRequest, Level},
};
use sudare_apps::{
    logreg::{self, LearningRate, ScoreJob, ScorePlan, ScoredModel, TrainPlan, TrainSpec},
    stats::{Cost, Edges, GroupJob, HistogramJob, StatsError},
};
use sudare_arith::prng::Seed;
use sudare_table::Table;

type StatsResult<T> = core::result::Result<T, StatsError>;

/// What keys are made for: the public part of a computation.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub enum Job {
    /// Logistic regression.
    Train(logreg::Job),
    /// Statistics of columns.
    Stats(sudare_apps::stats::Job),
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
#[derive(Debug, Clone, PartialEq)]
#[expect(missing_docs, reason = "fields are those of the jobs")]
pub enum Purpose {
    /// One that its name says in full.
    Job(Job),
    /// [`Job::Train`], however it is trained.
    Train(Extent),
    /// [`Job::Stats`] for a table as large as the one in this file.
    StatsOf(PathBuf),
    /// [`Job::Predict`], by a model that is given.
    Predict { rows: usize, features: usize },
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

/// The job for the counts in its name, if they are as many as it takes.
type OfCounts = fn(&[usize]) -> Option<Job>;

/// How names of jobs begin that say them in full.
const NAMED: [(&str, OfCounts); 3] =
    [("stats", stats::named), ("groups", groups::named), ("histogram", histogram::named)];

/// Positive numbers with an `x` between them.
fn counts(text: &str) -> Option<Vec<usize>> {
    text.split('x').map(|text| text.parse().ok().filter(|&count| count > 0)).collect()
}

/// The name of a file: not of digits and `x` only, which are meant as counts.
fn file(text: &str) -> Option<PathBuf> {
    let of_counts = |c: char| c.is_ascii_digit() || c == 'x';
    (!text.chars().all(of_counts)).then(|| text.into())
}

impl FromStr for Purpose {
    type Err = String;

    fn from_str(text: &str) -> core::result::Result<Self, String> {
        let help = "write train:ROWSxFEATURES, stats:ROWSxFEATURES or bootstrap, such as \
                    train:189x9, where the target does not count as a feature, or train:TABLE.csv \
                    for a table of that size; or groups:ROWSxFEATURESxGROUPS, where the key column \
                    does not count, histogram:ROWSxFEATURESxBINS or predict:ROWSxFEATURES";
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
            ("predict", ..) => None,
            ("stats", None, _) => file(table).map(Self::StatsOf),
            (_, counts, Some((_, job))) => counts.and_then(job).map(Self::Job),
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

/// What each job on a table is to those who make keys for it; one file a job.
trait TableJob {
    /// How the command line begins its name.
    fn kind(&self) -> &'static str;

    /// Rows and features of the table.
    fn shape(&self) -> (usize, usize);

    /// How the command line names it with keys for a table of another shape.
    fn named(&self, rows: usize, features: usize) -> String {
        format!("{}:{rows}x{features}", self.kind())
    }

    /// What of a table it takes beside the features.
    fn takes(&self) -> Takes {
        Takes::default()
    }

    /// How the model is trained that the job makes, or scores by.
    fn training(&self) -> Option<&TrainSpec> {
        None
    }

    /// The training whose model rows are scored by as it leaves it.
    fn trained(&self) -> Option<&logreg::Job> {
        None
    }

    /// The smallest secure parameters.
    fn auto_params(&self) -> Result<Params>;

    /// The smallest secure parameters for results that are shared to `bits` bits.
    fn shared_params(&self, _bits: u32) -> Result<Params> {
        Err(not_shared())
    }

    /// The smallest secure parameters for exact results.
    fn exact_params(&self) -> Result<Params> {
        Err(Error::Usage(
            "exact counts are those of histograms: leave out --exact, or make keys with --for \
             histogram:ROWSxFEATURESxBINS"
                .into(),
        ))
    }

    /// What to do with the table under `params`.
    fn plan(&self, params: &Params) -> Result<Plan>;

    /// Writes the job as messages name it.
    fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (rows, features) = self.shape();
        write!(f, "{}", self.named(rows, features))
    }
}

/// What of a table a job takes beside the features.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Takes {
    /// A column of labels to learn.
    pub labels: bool,
    /// What rows of each class weigh.
    pub class_weights: bool,
    /// A column that tells groups of rows apart, of which there are at most so many.
    pub groups: Option<usize>,
    /// Edges of bins, of which there are so many.
    pub bins: Option<usize>,
    /// The model that rows are scored by, for which they are prepared.
    pub model: bool,
}

/// What each planned job is to those who encrypt, compute and decrypt; see [`Plan`].
pub(crate) trait TablePlan {
    fn command(&self) -> &'static str;

    fn required_keys(&self) -> &KeyRequest;

    fn bootstraps(&self) -> u32 {
        0
    }

    fn ciphertexts(&self) -> usize;

    fn table_bytes(&self) -> Result<u64>;

    fn outputs(&self) -> usize;

    fn result_shapes(&self, iterations: u32) -> Result<Vec<(Level, Scale)>>;

    fn expect_shared(&self, bits: u32) -> Result<()>;

    fn price(&self, threads: usize) -> Result<Price>;
}

/// What planned statistics are besides: a table is encrypted, computed with and decoded as a whole.
pub(crate) trait TableStatistics: TablePlan + Send + Sync {
    fn cost(&self) -> StatsResult<Cost>;

    /// How values are encrypted, as the note of the table's owner says it. Groups are told apart by
    /// `key`, and bins have these edges, of all columns or of each.
    fn about(&self, table: &Table, key: Option<&KeyColumn>, edges: &[Edges]) -> Result<About>;

    /// What the ciphertexts of a table hold, by what [`TableStatistics::about`] says.
    fn pack<'a>(
        &'a self,
        table: &'a Table,
        key: Option<&'a KeyColumn>,
        about: &'a About,
    ) -> Result<Messages<'a>>;

    fn run(
        &self,
        e: &Evaluator,
        table: &[Ciphertext],
        progress: &(dyn Fn(usize) + Send + Sync),
    ) -> StatsResult<Vec<Ciphertext>>;

    /// The decrypted slots as others may see them to `bits` bits.
    fn share(&self, slots: &[Vec<f64>], bits: u32, noise: &Seed) -> StatsResult<Vec<Vec<f64>>>;

    /// The statistics, of slots as they were shared to some bits if they were; none for the note of
    /// another job.
    fn decode(
        &self,
        slots: &[Vec<f64>],
        note: Note,
        shared_bits: Option<u32>,
    ) -> Result<Option<Decrypted>>;
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
    /// The job on a table.
    ///
    /// # Errors
    /// [`Error::Usage`] if it has none.
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

    /// Rows and features of the table.
    ///
    /// # Errors
    /// [`Error::Usage`] if the job has none.
    pub fn shape(&self) -> Result<(usize, usize)> {
        Ok(self.table()?.shape())
    }

    /// `train`, `stats`, `groups`, `histogram`, `predict` or `bootstrap`.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        self.table().map_or("bootstrap", TableJob::kind)
    }

    /// How the model is trained that the job makes, or scores by.
    #[must_use]
    pub fn training(&self) -> Option<&TrainSpec> {
        self.table().ok()?.training()
    }

    /// The training whose model rows are scored by as it leaves it, encrypted, if they are.
    #[must_use]
    pub fn trained(&self) -> Option<&logreg::Job> {
        self.table().ok()?.trained()
    }

    /// What of a table it takes beside the features; nothing without a table.
    #[must_use]
    pub fn takes(&self) -> Takes {
        self.table().map_or_else(|_| Takes::default(), TableJob::takes)
    }

    /// How the command line names it with keys for a table of another shape, such as
    /// `histogram:189x9x8`.
    ///
    /// # Errors
    /// [`Error::Usage`] if the job has no table.
    pub fn named(&self, rows: usize, features: usize) -> Result<String> {
        Ok(self.table()?.named(rows, features))
    }

    /// The smallest secure parameters for the table.
    ///
    /// # Errors
    /// [`Error::Usage`] if the job has none; those of the job's plan.
    pub fn auto_params(&self) -> Result<Params> {
        self.table()?.auto_params()
    }

    /// The smallest secure parameters with as much more precision as sharing the results to `bits`
    /// bits takes; trainings say themselves if they are shared.
    ///
    /// # Errors
    /// As [`Job::auto_params`]; [`Error::Usage`] for results that cannot be shared.
    pub fn shared_params(&self, bits: u32) -> Result<Params> {
        self.table().map_err(|_| not_shared())?.shared_params(bits)
    }

    /// The smallest secure parameters with as much more precision as exact results take.
    ///
    /// # Errors
    /// As [`Job::auto_params`]; [`Error::Usage`] for jobs whose results are not exact.
    pub fn exact_params(&self) -> Result<Params> {
        self.table()?.exact_params()
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
        self.table()?.plan(params)
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
        "--share is for trained models, statistics, and scores by a model that is given, of which \
         --score-range says how large they are; not for this job: leave it out, and give its \
         results to nobody else"
            .into(),
    )
}

/// A job on a table, planned for parameters.
pub enum Plan {
    /// Of [`Job::Train`].
    Train(Box<TrainPlan>),
    /// Of [`Job::Predict`].
    Predict(Box<ScorePlan>),
    /// Of all other jobs on tables.
    Statistics(StatisticsPlan),
}

/// Statistics, sums by groups or histograms, planned for parameters.
pub struct StatisticsPlan(pub(crate) Box<dyn TableStatistics>);

impl StatisticsPlan {
    /// Counts, bytes and work of the server.
    ///
    /// # Errors
    /// [`Error::Stats`] if it cannot be simulated.
    pub fn cost(&self) -> Result<Cost> {
        Ok(self.0.cost()?)
    }
}

impl Plan {
    fn of_statistics(plan: impl TableStatistics + 'static) -> Self {
        Self::Statistics(StatisticsPlan(Box::new(plan)))
    }

    fn table(&self) -> &dyn TablePlan {
        match self {
            Self::Train(plan) => &**plan,
            Self::Predict(plan) => &**plan,
            Self::Statistics(plan) => &*plan.0,
        }
    }

    /// The command that does it.
    #[must_use]
    pub fn command(&self) -> &'static str {
        self.table().command()
    }

    /// Keys that the server needs.
    #[must_use]
    pub fn required_keys(&self) -> &KeyRequest {
        self.table().required_keys()
    }

    /// Bootstrappings of the whole computation.
    #[must_use]
    pub fn bootstraps(&self) -> u32 {
        self.table().bootstraps()
    }

    /// Ciphertexts of the encrypted table.
    #[must_use]
    pub fn ciphertexts(&self) -> usize {
        self.table().ciphertexts()
    }

    /// Bytes of the encrypted table in memory, without its note; its file packs them.
    ///
    /// # Errors
    /// [`Error::Stats`] if the job cannot be simulated.
    pub fn table_bytes(&self) -> Result<u64> {
        self.table().table_bytes()
    }

    /// Ciphertexts of the result.
    #[must_use]
    pub fn outputs(&self) -> usize {
        self.table().outputs()
    }

    /// Level and scale of each ciphertext of the result, after so many iterations of a training: of
    /// its weights, then of those after each iteration, where they were kept.
    ///
    /// # Errors
    /// [`Error::Stats`] if it cannot be simulated.
    pub fn result_shapes(&self, iterations: u32) -> Result<Vec<(Level, Scale)>> {
        self.table().result_shapes(iterations)
    }

    /// Bytes of the result after so many iterations of a training, with the weights after each of them or
    /// without, and with a note of so many ciphertexts: as in memory, its file packs them.
    ///
    /// # Errors
    /// As [`Plan::result_shapes`].
    pub fn result_bytes(
        &self,
        params: &Params,
        (iterations, with_history): (u32, bool),
        note: u32,
    ) -> Result<u64> {
        let shapes = self.result_shapes(iterations)?;
        let count = if with_history { shapes.len() } else { self.outputs() };
        let values: u64 =
            shapes.iter().take(count).map(|(level, _)| ciphertext_bytes(params, *level)).sum();
        let note = ciphertext_bytes(params, Level(0)).saturating_mul(note.into());
        Ok(values.saturating_add(note))
    }

    /// Refuses a plan whose results are not precise enough to be shared to `bits` bits.
    ///
    /// # Errors
    /// [`Error::Library`] with `TooLittlePrecision`; [`Error::Usage`] for results that cannot be
    /// shared.
    pub fn expect_shared(&self, bits: u32) -> Result<()> {
        self.table().expect_shared(bits)
    }

    /// What it takes of a server that works on so many threads.
    ///
    /// # Errors
    /// [`Error::Stats`] and [`Error::Apps`] if it cannot be simulated.
    pub fn price(&self, threads: usize) -> Result<Price> {
        self.table().price(threads)
    }
}

fn expect_precise(bits: u32, found: f64, needed: f64) -> Result<()> {
    match found <= needed {
        true => Ok(()),
        false => Err(sudare::Error::TooLittlePrecision { bits, found, needed }.into()),
    }
}

/// What a caller left out that the job takes.
pub(crate) fn incomplete() -> Error {
    Error::Bug("a table without what its job takes".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn purposes_are_read() {
        let (rows, features) = (189, 9);
        assert_eq!("train:189x9".parse(), Ok(Purpose::Train(Extent::Shape { rows, features })));
        let train = Purpose::Train(Extent::File("births.csv".into()));
        assert_eq!("train:births.csv".parse(), Ok(train));
        assert_eq!("stats:a:b/12x3.csv".parse(), Ok(Purpose::StatsOf("a:b/12x3.csv".into())));
        assert_eq!("predict:189x9".parse(), Ok(Purpose::Predict { rows, features }));
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

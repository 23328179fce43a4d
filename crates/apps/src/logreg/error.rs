use super::spec::{SigmoidApprox, TrainError};
use sudare_table::TableError;

/// Errors of computations on an encrypted table.
#[derive(Debug, Clone, PartialEq, thiserror::Error, strum::IntoStaticStr, strum::VariantNames)]
#[non_exhaustive]
pub enum Error {
    /// Error of the underlying library.
    #[error(transparent)]
    Library(#[from] sudare::Error),
    /// The table cannot be used.
    #[error(transparent)]
    Table(#[from] TableError),
    /// The training specification cannot be used.
    #[error(transparent)]
    Train(#[from] TrainError),
    /// The modulus is too short for the training.
    #[error(
        "{found} iterations need {needed} levels, more than the ring N = 2^{log_n} offers here: {}",
        fewer_iterations(*.fit)
    )]
    TooManyIterations {
        /// Iterations requested.
        found: u32,
        /// Levels that the iterations need.
        needed: u64,
        /// `log2(N)` of the ring.
        log_n: u32,
        /// Iterations that fit.
        fit: u32,
    },
    /// A row does not fit into a ciphertext.
    #[error(
        "{found} features do not fit a ciphertext of the ring N = 2^{log_n}, which holds rows of \
         up to {fit}: choose a larger ring, or fewer features"
    )]
    TooManyFeatures {
        /// Features requested.
        found: usize,
        /// `log2(N)` of the ring.
        log_n: u32,
        /// Features that fit.
        fit: usize,
    },
    /// The primes are too small for a useful result.
    #[error(
        "the error of {what} would be about 2^-{found:.1}, but at most 2^-{needed:.0} is allowed: \
         choose larger primes, or parameters made for the job"
    )]
    Precision {
        /// The quantity.
        what: &'static str,
        /// `-log2` of the expected error.
        found: f64,
        /// `-log2` of the largest tolerable error.
        needed: f64,
    },
    /// Training leads to weights beyond the capacity of an encrypted training.
    #[error(
        "a weight or its momentum reaches {found:.1}, but at most {most:.1} can be trained under \
         encryption: lower the learning rate"
    )]
    WeightsTooLarge {
        /// The largest absolute value.
        found: f64,
        /// The largest possible value.
        most: f64,
    },
    /// Weights of a training whose range was not checked, although the bound of errors relies on
    /// it.
    #[error(
        "the weights cannot be shared: the bound of their errors holds only if inner products are \
         at most {range} and weights at most {weight:.0} in every iteration, and this program \
         cannot check that for rows of several owners, or for a training that was not planned for \
         sharing; if you know that the range holds, pass --assume-range (Python: assume_range=True)"
    )]
    RangeUnchecked {
        /// The largest magnitude of an inner product for which the bound holds.
        range: f64,
        /// The largest magnitude of a weight and its momentum for which the bound holds.
        weight: f64,
    },
    /// A few rows have such a large weight that errors of encryption would be amplified too much.
    #[error(
        "by their weights, rows of a batch weigh up to {found:.1} (root mean square), but at most \
         {most:.1} can be trained under encryption: choose weights that are closer together, leave \
         out rows with small weights, or use larger batches"
    )]
    RowsTooHeavy {
        /// The largest root mean square of the weights of the rows of a batch.
        found: f64,
        /// The largest possible value.
        most: f64,
    },
    /// A training leaves a model that cannot score rows.
    #[error(
        "the training leaves its weights at level 0, but scoring rows needs one level: make keys for \
         a training whose model scores encrypted rows, or decrypt the model"
    )]
    NotScorable,
    /// Planning would exceed the limit of simulated work.
    #[error(
        "planning needs {found} simulated slots, but the limit is {limit}: choose fewer features, \
         rows or iterations, or parameters made for the job"
    )]
    TooMuchWork {
        /// Slots of the ciphertexts that would be simulated.
        found: u64,
        /// The limit of slots.
        limit: u64,
    },
    /// A row to score has a feature far outside the training rows.
    #[error(
        "row {row}, column {column:?}: the value is {found:.1} times as far from the mean as the \
         farthest training value, but at most {most} times can be scored: check its unit, or leave \
         the row out"
    )]
    FeatureTooLarge {
        /// The row, counted from 0.
        row: usize,
        /// Name of the column.
        column: String,
        /// The distance of the value from the column's center, divided by its divisor.
        found: f64,
        /// The largest possible distance.
        most: f64,
    },
    /// A row to score is far from the training rows.
    #[error(
        "row {row} is {found:.0} times as far from the mean as the training rows, mainly \
         because of column {column:?}, but at most {most} times can be scored: check units, or \
         leave the row out"
    )]
    RowTooLarge {
        /// The row, counted from 0.
        row: usize,
        /// Name of the column whose value is farthest from its mean.
        column: String,
        /// The root mean square of its transformed entries.
        found: f64,
        /// The largest possible value.
        most: f64,
    },
    /// A model to score by has a weight beyond the capacity of encrypted scores.
    #[error(
        "the model has a weight of size {found}, but rows can be scored by weights of at most \
         {most}: divide the features by larger divisors, or train with a penalty on weights"
    )]
    WeightTooLarge {
        /// The absolute value.
        found: f64,
        /// The largest possible value.
        most: f64,
    },
    /// The scores of a model may exceed the interval of the sigmoid's polynomial.
    #[error(
        "by its weights, the model's scores may reach {found:.1}, but the sigmoid is approximated \
         up to {range}: make keys for a range of {} or more, or for scores without probabilities",
        .found.ceil()
    )]
    ScoresTooLarge {
        /// The largest possible score.
        found: f64,
        /// Half the interval.
        range: f64,
    },
    /// Inner products of rows and weights leave the interval of the sigmoid's polynomial.
    #[error(
        "an inner product of a row and the weights reaches {found:.1} in iteration {iteration} \
         (counted from 0), but the sigmoid's polynomial is valid up to {range}: plan with a range \
         of {}, with fewer iterations, or with a larger penalty",
        wider(*.found, *.range)
    )]
    InnerProductsTooLarge {
        /// The largest absolute value.
        found: f64,
        /// The first iteration in which there is one.
        iteration: u32,
        /// Half the interval.
        range: f64,
    },
    /// There are too many columns for correlations of all of them.
    #[error(
        "found {found} columns, but at most {most} can be whitened, standardised or penalised: scale \
         them without a penalty, or leave some out"
    )]
    TooManyToCorrelate {
        /// Number of columns.
        found: usize,
        /// Maximum number of columns.
        most: usize,
    },
    /// A transform is for another number of columns than the table has.
    #[error(
        "the transform is for {found} columns, but the table has {needed}: use the transform that \
         was made for tables with these columns"
    )]
    TransformColumns {
        /// Columns of the transform.
        found: usize,
        /// Columns of the table.
        needed: usize,
    },
    /// Rows were prepared without directions in which a model has weights.
    #[error(
        "a fraction of {:.1e} of the model's weights lies in directions that the rows lack: score the rows by the \
         model of the training that they were prepared for, or prepare them for this model",
        .part
    )]
    OtherDirections {
        /// Length of the lost part of the weights over the length of all weights.
        part: f64,
    },
    /// A target has another number of classes than planned.
    #[error(
        "the target has {found} classes, but the plan is for {needed}: make a plan for {found} \
         classes"
    )]
    TableClasses {
        /// Classes of the table.
        found: usize,
        /// Classes planned for.
        needed: usize,
    },
    /// A table does not match the plan.
    #[error(
        "the table has {rows} rows and {features} features, but the plan is for at most \
         {needed_rows} rows and for {needed_features} features; make a plan for this table"
    )]
    TableShape {
        /// Rows found.
        rows: usize,
        /// Features found.
        features: usize,
        /// Maximum number of rows planned.
        needed_rows: usize,
        /// Features planned for.
        needed_features: usize,
    },
    /// A ciphertext or an evaluator differs from the plan.
    #[error("{what}: found {found}, but the plan needs {needed}; use objects made for this plan")]
    NotAsPlanned {
        /// The quantity.
        what: &'static str,
        /// The value found.
        found: String,
        /// The value planned.
        needed: String,
    },
    /// All iterations are done.
    #[error("all {iterations} iterations are done; use the model, or plan for more iterations")]
    Finished {
        /// Iterations planned.
        iterations: u32,
    },
    /// A note is too long.
    #[error("a note of {found} bytes is too long: at most {max} bytes can be encrypted")]
    NoteTooLong {
        /// Length of the note in bytes.
        found: usize,
        /// Maximum length in bytes.
        max: usize,
    },
    /// Ciphertexts do not decrypt to a note.
    #[error(
        "this is not an intact note: {problem}; decrypt the ciphertexts of one note, in order, \
         with the key pair they were made for"
    )]
    DamagedNote {
        /// The problem.
        problem: String,
    },
}

/// Results of this crate.
pub type Result<T> = core::result::Result<T, Error>;

/// Returns the remedy for too many iterations, of which `fit` are possible.
fn fewer_iterations(fit: u32) -> String {
    match fit {
        0 => "not even one fits, so choose parameters with more levels".into(),
        _ => format!("{fit} iterations fit, so train {fit}, or choose parameters with more levels"),
    }
}

/// Returns the range to plan with for inner products of this size.
fn wider(found: f64, range: f64) -> f64 {
    let ranges = SigmoidApprox::RANGES;
    let fits = ranges.into_iter().find(|&other| other > range && other >= found);
    fits.unwrap_or(SigmoidApprox::MAX_RANGE)
}

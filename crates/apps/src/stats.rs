//! Statistics of encrypted numbers.
//!
//! [`SlotPlan`] computes the mean and the variance of the numbers in one ciphertext, wholly under
//! encryption. The other plans are for tables of any length. The owner finishes the cheap part in
//! the clear:
//!
//! | plan | the server computes | the owner reads |
//! |---|---|---|
//! | [`StatsPlan`] | sums of powers and of products of pairs of columns | [`Statistics`]: moments, covariances, correlations, weighted means, [`LeastSquares`] |
//! | [`GroupPlan`] | sums by encrypted groups of rows, of columns and their squares | [`GroupStatistics`]: counts, sums, means and variances by group |
//! | [`HistogramPlan`] | counts of values above edges | [`Histogram`] and its quantiles |
//!
//! A table may have fewer rows than planned. The cost stays the same, and the number of rows stays
//! with the owner.
//!
//! [`TTest`] compares two [`Sample`]s: two columns, or a column in two groups.
//!
//! # Results for others
//! To show results to people other than the key's owner, plan with [`StatsPlan::shared_params`] and
//! pass the results through [`StatsPlan::share`]. Each sum of scaled values is divided by the
//! number of rows. Noise that hides its error is added, and it is rounded to the requested bits
//! after the point; see [`Release`](sudare::ckks::Release). Each call counts as one of the 1024
//! releases of a key.

mod bins;
mod bounded;
mod columns;
mod cost;
mod groups;
mod histogram;
mod inference;
mod packing;
mod planned;
mod regression;
mod slots;
mod summary;

pub use bins::{Bins, Edges};
pub use columns::{ColumnSums, StatsPlan};
pub use cost::Cost;
pub use groups::{GroupJob, GroupPlan, GroupStatistics, GroupSums, Grouping};
pub use histogram::{BinCounts, Histogram, HistogramJob, HistogramPlan};
pub use inference::{Sample, TTest, student_two_sided};
pub use packing::Job;
pub use planned::{Circuit, Planned, TableStatistics};
pub use regression::LeastSquares;
pub use slots::SlotPlan;
pub use summary::{ColumnScaling, Statistics};

use crate::logreg::TrainSpec;

/// Errors of planning, computing or reading statistics.
#[derive(Debug, Clone, PartialEq, thiserror::Error, strum::IntoStaticStr, strum::VariantNames)]
#[non_exhaustive]
pub enum StatsError {
    /// Error of the underlying library.
    #[error(transparent)]
    Library(#[from] sudare::Error),
    /// The table has no rows or no columns.
    #[error("found {rows} rows and {features} columns; statistics need at least one of each")]
    Empty {
        /// Rows found.
        rows: usize,
        /// Columns found.
        features: usize,
    },
    /// A count is below the minimum of a job.
    #[error("found {found} {what}; at least {needed} are needed")]
    TooFew {
        /// The counted quantity.
        what: &'static str,
        /// The count found.
        found: usize,
        /// The minimum.
        needed: usize,
    },
    /// A count is above the maximum of a job.
    #[error(
        "found {found} {what}, but a job holds at most {limit}; choose fewer, or split the table"
    )]
    TooLarge {
        /// The counted quantity.
        what: &'static str,
        /// The count found.
        found: u128,
        /// The maximum.
        limit: u128,
    },
    /// The parameters have too few levels or too small a modulus for the sums.
    #[error(
        "{what} of {rows} scaled rows needs {levels} level(s) and room for sums below them, which \
         these parameters (log2 Q = {log2_q:.0}, scale 2^{log2_scale:.0}) do not have: use the \
         parameters made for the job"
    )]
    ParamsTooSmall {
        /// The computation.
        what: &'static str,
        /// Levels that it consumes.
        levels: u32,
        /// Rows, including padding.
        rows: u128,
        /// `log2` of the modulus at the top level.
        log2_q: f64,
        /// `log2` of the default scale.
        log2_scale: f64,
    },
    /// A table has more rows than planned.
    #[error("found {found} rows, but the plan is for 1 to {most}: make a plan for {found} rows")]
    Rows {
        /// Rows found.
        found: usize,
        /// Rows planned.
        most: usize,
    },
    /// A count differs from the plan.
    #[error("found {found} {what}, but the plan needs {needed}; use objects made for this plan")]
    Shape {
        /// The counted quantity.
        what: &'static str,
        /// The count passed.
        found: usize,
        /// The count planned.
        needed: usize,
    },
    /// A scaled value outside `[-1, 1]`, or a sum of such values, is too large or NaN.
    #[error(
        "output {output}: a sum of {rows} scaled values is {found}, larger than scaled values can \
         reach; decode with the scaling and the plan that the table was encrypted under"
    )]
    OutOfRange {
        /// Index of the output.
        output: usize,
        /// Rows summed.
        rows: usize,
        /// The sum found.
        found: f64,
    },
    /// The centre or half-range of a scaling is impossible.
    #[error(
        "column {column} is scaled by centre {centre} and half-range {half_range}: both must be \
         finite, and the half-range not negative"
    )]
    Scaling {
        /// Index of the column.
        column: usize,
        /// The centre.
        centre: f64,
        /// The half-range.
        half_range: f64,
    },
    /// The column does not exist.
    #[error("there is no column {found}: the table has {columns} columns, counted from 0")]
    Column {
        /// The requested index.
        found: usize,
        /// Number of columns.
        columns: usize,
    },
    /// The group does not exist.
    #[error("there is no group {found}: the result has {groups} groups, counted from 0")]
    Group {
        /// The requested index.
        found: usize,
        /// Number of groups.
        groups: usize,
    },
    /// A value of a key column may also represent other values.
    #[error(
        "rows are grouped by {found}, but integers from 2^53 on are not exact here, so different \
         values could be one group: number the groups from 0"
    )]
    GroupKey {
        /// The value.
        found: f64,
    },
    /// The edges do not form bins.
    #[error("column {column:?} cannot be divided into bins: {problem}")]
    Edges {
        /// Name of the column.
        column: String,
        /// The problem.
        problem: String,
    },
    /// The fraction of a quantile is not in `[0, 1]`.
    #[error("there is no quantile of the fraction {found}: choose a fraction from 0 to 1")]
    Quantile {
        /// The requested fraction.
        found: f64,
    },
    /// Means cannot be weighted by this column.
    #[error(
        "the weights in column {column} have the mean {mean} with an error of up to {error:.1e}, \
         so the mean may not be positive: choose a column of positive weights"
    )]
    Weights {
        /// Index of the column.
        column: usize,
        /// The mean of the weights.
        mean: f64,
        /// The bound of the mean's error.
        error: f64,
    },
    /// The sample cannot be tested.
    #[error(
        "a sample of {count} values with mean {mean} and variance {variance}, with an error of up \
         to {variance_error:.1e}, cannot be tested: pass samples of at least two values, and at \
         least one sample with a variance well above its error"
    )]
    Sample {
        /// Number of values.
        count: usize,
        /// The mean of the values.
        mean: f64,
        /// The variance of the values.
        variance: f64,
        /// The bound of the variance's error.
        variance_error: f64,
    },
    /// Results cannot be shared to this number of bits.
    #[error(
        "results cannot be shared to {found} bits after the point; choose 1 to {MAX_SHARED_BITS}"
    )]
    SharedBits {
        /// The requested number of bits.
        found: u32,
    },
    /// A linear model cannot be fitted.
    #[error("a linear model cannot be fitted: {problem}")]
    Regression {
        /// The problem.
        problem: String,
    },
}

/// Maximum number of bits after the binary point to which results can be shared. With more, `f64`
/// would round the digits that noise must hide.
pub const MAX_SHARED_BITS: u32 = TrainSpec::MAX_SHARED_BITS;

/// Bits of a modulus that stay free above the largest sum, for errors.
const ROOM_BITS: f64 = 0.1;

/// Results of this module.
pub type Result<T> = core::result::Result<T, StatsError>;

#[cfg(test)]
mod testkit {
    use super::Statistics;
    use sudare_table::Table;

    /// Computes statistics by definition: means first, then moments of the deviations.
    pub fn two_passes(table: &Table) -> Statistics {
        let n = table.rows() as f64;
        let columns: Vec<Vec<f64>> =
            (0..table.features()).map(|i| table.column(i).collect()).collect();
        let mean: Vec<f64> = columns.iter().map(|c| c.iter().sum::<f64>() / n).collect();
        let moment =
            |i: usize, k: i32| columns[i].iter().map(|x| (x - mean[i]).powi(k)).sum::<f64>() / n;
        let covariance = |i: usize, j: usize| {
            let pairs = columns[i].iter().zip(&columns[j]);
            pairs.map(|(x, y)| (x - mean[i]) * (y - mean[j])).sum::<f64>() / (n - 1.0)
        };
        let all = || 0..columns.len();
        let matrix = |f: &dyn Fn(usize, usize) -> f64| -> Vec<Vec<f64>> {
            all().map(|i| all().map(|j| f(i, j)).collect()).collect()
        };
        let variance: Vec<f64> = all().map(|i| covariance(i, i)).collect();
        Statistics {
            rows: table.rows(),
            std_dev: variance.iter().map(|v| v.sqrt()).collect(),
            skewness: all().map(|i| moment(i, 3) / moment(i, 2).powf(1.5)).collect(),
            kurtosis: all().map(|i| moment(i, 4) / moment(i, 2).powi(2) - 3.0).collect(),
            covariance: matrix(&covariance),
            correlation: matrix(&|i, j| {
                (moment(i, 2) * moment(j, 2)).sqrt().recip() * covariance(i, j) * (n - 1.0) / n
            }),
            variance,
            mean,
            mean_error: vec![0.0; columns.len()],
            covariance_error: vec![vec![0.0; columns.len()]; columns.len()],
        }
    }

    /// Checks that all statistics agree within `tolerance`, relative to the standard deviations of
    /// the columns where a statistic has their unit.
    pub fn assert_close(found: &Statistics, expected: &Statistics, tolerance: f64) {
        assert_eq!(found.rows, expected.rows);
        let check = |what: &str, a: f64, b: f64, unit: f64| {
            let same = a.is_nan() && b.is_nan() || (a - b).abs() <= tolerance * unit;
            assert!(same, "{what}: {a}, expected {b}, unit {unit}");
        };
        for i in 0..expected.mean.len() {
            let deviation = expected.std_dev[i];
            // A single row has no deviation. Its mean is exact up to rounding.
            let unit = if deviation.is_nan() { expected.mean[i].abs() } else { deviation };
            check("mean", found.mean[i], expected.mean[i], unit);
            check("variance", found.variance[i], expected.variance[i], deviation.powi(2));
            check("std_dev", found.std_dev[i], expected.std_dev[i], deviation);
            check(
                "skewness",
                found.skewness[i],
                expected.skewness[i],
                1.0 + expected.skewness[i].abs(),
            );
            check(
                "kurtosis",
                found.kurtosis[i],
                expected.kurtosis[i],
                3.0 + expected.kurtosis[i].abs(),
            );
            for j in 0..expected.mean.len() {
                let unit = deviation * expected.std_dev[j];
                check("covariance", found.covariance[i][j], expected.covariance[i][j], unit);
                check("correlation", found.correlation[i][j], expected.correlation[i][j], 1.0);
            }
        }
    }
}

//! Statistics from power sums, in the clear.

use core::array::from_fn;

use serde::{Deserialize, Serialize};
use sudare_table::Table;

use super::{Result, Sample, StatsError, bounded::Bounded};

/// The affine map `x -> (x - centre) / half_range` of each column to `[-1, 1]`, from its mean and
/// the largest distance from the mean. It reveals both, so it stays with the owner.
///
/// Central moments are differences of raw moments, and lose digits if the mean is large compared to
/// the spread. After this map the mean is 0 up to rounding, so nothing cancels, and the largest
/// deviation is 1. One far outlier still leaves the other values little of the range.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Vec<(f64, f64)>", into = "Vec<(f64, f64)>")]
pub struct ColumnScaling {
    /// Centre and half-range of each column. A half-range of 0 maps to 0.
    maps: Vec<(f64, f64)>,
}

impl ColumnScaling {
    /// Returns the scaling of each feature column of `table`.
    #[must_use]
    pub fn of(table: &Table) -> Self {
        Self::of_rows(table, 0..table.rows())
    }

    /// Returns the scaling of each feature column by some rows of the table. Without rows, it maps
    /// to 0.
    pub(super) fn of_rows(table: &Table, rows: impl Iterator<Item = usize> + Clone) -> Self {
        let features = table.features();
        let rows = || rows.clone().map(|row| &table.values()[row * features..][..features]);
        let mut maps = vec![(0.0, 0.0); features];
        for (count, row) in (1..).zip(rows()) {
            let count = f64::from(count);
            for ((centre, _), &x) in maps.iter_mut().zip(row) {
                let step = (x - *centre) / count;
                // The mean cannot overflow `f64`, but differences may.
                *centre += if step.is_finite() { step } else { x / count - *centre / count };
            }
        }
        // A second pass, because distances are from the final mean.
        for row in rows() {
            for ((centre, half_range), &x) in maps.iter_mut().zip(row) {
                *half_range = f64::max(*half_range, (x - *centre).abs());
            }
        }
        for (column, map) in maps.iter_mut().enumerate().filter(|(_, map)| map.1.is_infinite()) {
            // Distances from the middle cannot overflow.
            let ends = (f64::INFINITY, f64::NEG_INFINITY);
            let (low, high) =
                rows().fold(ends, |(low, high), row| (low.min(row[column]), high.max(row[column])));
            *map = (high / 2.0 + low / 2.0, high / 2.0 - low / 2.0);
        }
        Self { maps }
    }

    /// Creates a scaling from the centre and the half-range of each column.
    ///
    /// # Errors
    /// [`StatsError::Scaling`] unless they are finite and half-ranges not negative.
    pub fn new(maps: Vec<(f64, f64)>) -> Result<Self> {
        let bad = |&(c, h): &(f64, f64)| !(c.is_finite() && h.is_finite() && h >= 0.0);
        match maps.iter().position(bad) {
            Some(column) => {
                let (centre, half_range) = maps[column];
                Err(StatsError::Scaling { column, centre, half_range })
            }
            None => Ok(Self { maps }),
        }
    }

    /// Returns the number of columns.
    #[must_use]
    pub fn features(&self) -> usize {
        self.maps.len()
    }

    /// Returns the centre and the half-range of each column.
    #[must_use]
    pub fn maps(&self) -> &[(f64, f64)] {
        &self.maps
    }

    /// Returns the scaled value, clamped to `[-1, 1]` against rounding.
    pub(super) fn scaled(&self, column: usize, x: f64) -> f64 {
        let (centre, half_range) = self.maps[column];
        if half_range == 0.0 { 0.0 } else { ((x - centre) / half_range).clamp(-1.0, 1.0) }
    }
}

impl TryFrom<Vec<(f64, f64)>> for ColumnScaling {
    type Error = StatsError;

    fn try_from(maps: Vec<(f64, f64)>) -> Result<Self> {
        Self::new(maps)
    }
}

impl From<ColumnScaling> for Vec<(f64, f64)> {
    fn from(scaling: ColumnScaling) -> Self {
        scaling.maps
    }
}

/// Statistics of the columns of a table, in their order.
///
/// Conventions: variance, standard deviation and covariance divide by `rows - 1`, as in pandas and
/// R. Skewness is `g1 = m3 / m2^1.5` and kurtosis the excess `g2 = m4 / m2^2 - 3`. Their moments
/// divide by `rows`, which is the default of `scipy.stats`.
///
/// Undefined values are NaN, `null` in JSON: dispersion of one row, and shape and correlation of a
/// constant column. Values that the error of encryption dominates are NaN, too: a variance or a
/// covariance below its error, and a shape or a correlation whose error exceeds a sixteenth of its
/// magnitude, or a sixteenth for magnitudes below 1.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Statistics {
    /// Number of rows.
    pub rows: usize,
    /// Arithmetic mean of each column.
    #[serde(with = "undefined_as_null")]
    pub mean: Vec<f64>,
    /// Sample variance of each column.
    #[serde(with = "undefined_as_null")]
    pub variance: Vec<f64>,
    /// Square root of the variance.
    #[serde(with = "undefined_as_null")]
    pub std_dev: Vec<f64>,
    /// Skewness `g1`.
    #[serde(with = "undefined_as_null")]
    pub skewness: Vec<f64>,
    /// Excess kurtosis `g2`.
    #[serde(with = "undefined_as_null")]
    pub kurtosis: Vec<f64>,
    /// Sample covariance of each pair of columns, symmetric.
    #[serde(with = "undefined_as_null::matrix")]
    pub covariance: Vec<Vec<f64>>,
    /// Pearson correlation of each pair of columns, symmetric.
    #[serde(with = "undefined_as_null::matrix")]
    pub correlation: Vec<Vec<f64>>,
    /// Bound of the error of each mean.
    #[serde(with = "undefined_as_null")]
    pub mean_error: Vec<f64>,
    /// Bound of the error of each covariance. Variances are on the diagonal.
    #[serde(with = "undefined_as_null::matrix")]
    pub covariance_error: Vec<Vec<f64>>,
}

impl Statistics {
    /// Returns the mean of each column with the values of column `weights` as weights:
    /// `sum w x / sum w = mean(x) + cov(w, x) / mean(w)`. The weighted mean of the weights
    /// themselves is `sum w^2 / sum w`. A mean is NaN if its error exceeds both a sixteenth of the
    /// mean and a sixteenth of the standard deviation of the column.
    ///
    /// # Errors
    /// [`StatsError::Column`] if there is no such column, [`StatsError::Weights`] if the weights do
    /// not have a mean above its error.
    pub fn weighted_mean(&self, weights: usize) -> Result<Vec<f64>> {
        self.check_column(weights)?;
        let mean = self.mean_of(weights);
        if mean.positive().is_nan() {
            let Bounded { value: mean, error } = mean;
            return Err(StatsError::Weights { column: weights, mean, error });
        }
        let n = self.rows as f64;
        let weighted = |j: usize| match self.rows {
            // One row has no covariance.
            1 => self.mean[j],
            _ => {
                let shift = self.covariance_of(weights, j).times((n - 1.0) / n) / mean;
                // A constant column has no spread to compare the error with, so its mean is always
                // told.
                let constant = self.variance[j] == 0.0;
                let unit = if constant { f64::INFINITY } else { self.std_dev[j] };
                (self.mean_of(j) + shift).if_precise(unit)
            }
        };
        Ok((0..self.mean.len()).map(weighted).collect())
    }

    /// Returns column `index` as a sample.
    ///
    /// # Errors
    /// [`StatsError::Column`] if there is no such column.
    pub fn sample(&self, index: usize) -> Result<Sample> {
        self.check_column(index)?;
        Ok(Sample {
            count: self.rows,
            mean: self.mean[index],
            variance: self.variance[index],
            mean_error: self.mean_error[index],
            variance_error: self.covariance_error[index][index],
        })
    }

    pub(super) fn check_column(&self, found: usize) -> Result<()> {
        let columns = self.mean.len();
        if found < columns { Ok(()) } else { Err(StatsError::Column { found, columns }) }
    }

    pub(super) fn mean_of(&self, j: usize) -> Bounded {
        Bounded::new(self.mean[j], self.mean_error[j])
    }

    /// Returns the covariance of columns `i` and `j`. For one column this is its variance.
    pub(super) fn covariance_of(&self, i: usize, j: usize) -> Bounded {
        Bounded::new(self.covariance[i][j], self.covariance_error[i][j])
    }

    /// Returns the correlation with its error, from the fields.
    pub(super) fn correlation_of(&self, i: usize, j: usize) -> Bounded {
        if i == j {
            return Bounded::exact(1.0);
        }
        // Square roots come first, because products of variances may overflow `f64`.
        let root = |j: usize| self.covariance_of(j, j).sqrt();
        let error = (self.covariance_of(i, j) / root(i) / root(j)).error;
        Bounded::new(self.correlation[i][j], error)
    }
}

/// Sums of scaled columns `x_i`.
pub(super) struct PowerSums {
    pub rows: usize,
    /// `sum x, sum x^2, sum x^3, sum x^4` of each column.
    pub powers: Vec<[f64; 4]>,
    /// `sum x_i x_j` for `i < j`, in row `i` and place `j - i - 1`.
    pub products: Vec<Vec<f64>>,
    /// Bound of the error of the sums of each power.
    pub power_errors: [f64; 4],
    /// Bound of the error of the sums of products.
    pub product_error: f64,
}

impl PowerSums {
    /// Computes the statistics of the columns before scaling.
    pub fn statistics(&self, scaling: &ColumnScaling) -> Statistics {
        let n = self.rows as f64;
        let per_row = |sum: f64, error: f64| Bounded::new(sum / n, error / n);
        let column = |(sums, &map): (&[f64; 4], &(f64, f64))| {
            Column::new(from_fn(|k| per_row(sums[k], self.power_errors[k])), map)
        };
        let columns: Vec<Column> = self.powers.iter().zip(scaling.maps()).map(column).collect();
        // 0 / 0 for a single row: undefined.
        let sample = n / (n - 1.0);
        let of_each = |f: &dyn Fn(&Column) -> f64| columns.iter().map(f).collect::<Vec<f64>>();
        let moment = |i: usize, j: usize| {
            let low = i.min(j);
            let high = i.max(j);
            let a = &columns[low];
            let b = &columns[high];
            if low == high {
                a.m2
            } else if a.is_constant() || b.is_constant() {
                Bounded::exact(0.0)
            } else {
                let sum = self.products[low][high - low - 1];
                per_row(sum, self.product_error) - a.mean * b.mean
            }
        };
        let correlation = |i: usize, j: usize| match i == j {
            // 1 if the variance is known, otherwise NaN.
            true => columns[i].m2.positive().signum(),
            false => columns[i].shape(|a| {
                let spread = a.m2.sqrt() * columns[j].m2.sqrt();
                let found = moment(i, j) / spread;
                // Errors may lead beyond the largest correlation.
                Bounded::new(found.value.clamp(-1.0, 1.0), found.error)
            }),
        };
        let covariance = |i: usize, j: usize| {
            let found = moment(i, j);
            let constant = columns[i].is_constant() || columns[j].is_constant();
            // A covariance near 0 is known if the correlation is, as for independent columns.
            let below = found.value.abs() <= found.error;
            let known = constant || !below || i != j && !correlation(i, j).is_nan();
            if known { found.value } else { f64::NAN }
        };
        let matrix = |f: &dyn Fn(usize, usize) -> f64| {
            let row = |i| (0..columns.len()).map(|j| f(i, j)).collect();
            (0..columns.len()).map(row).collect::<Vec<Vec<f64>>>()
        };
        let in_units = |i: usize, j: usize, value: f64| {
            value * sample * columns[i].half_range * columns[j].half_range
        };
        let covariance = matrix(&|i, j| in_units(i, j, covariance(i, j)));
        Statistics {
            rows: self.rows,
            mean: of_each(&|c| c.centre + c.half_range * c.mean.value),
            // The variance may overflow `f64` while its root does not.
            std_dev: of_each(&|c| c.half_range * (c.variance() * sample).sqrt()),
            variance: (0..columns.len()).map(|j| covariance[j][j]).collect(),
            skewness: of_each(&|c| c.shape(|c| c.m3 / (c.m2 * c.m2.sqrt()))),
            kurtosis: of_each(&|c| c.shape(|c| c.m4 / (c.m2 * c.m2) - Bounded::exact(3.0))),
            covariance,
            correlation: matrix(&correlation),
            mean_error: of_each(&Column::mean_error),
            covariance_error: matrix(&|i, j| in_units(i, j, moment(i, j).error)),
        }
    }
}

/// Mean and central moments of a scaled column, and its scaling.
struct Column {
    centre: f64,
    half_range: f64,
    mean: Bounded,
    m2: Bounded,
    m3: Bounded,
    m4: Bounded,
}

impl Column {
    /// Creates a column from the means of the first four powers.
    fn new(powers: [Bounded; 4], scaling: (f64, f64)) -> Self {
        let (centre, half_range) = scaling;
        let [m, s2, s3, s4] = match half_range == 0.0 {
            true => [Bounded::exact(0.0); 4],
            false => powers,
        };
        let square = m * m;
        Self {
            centre,
            half_range,
            mean: m,
            m2: s2 - square,
            m3: s3 - (m * s2).times(3.0) + (square * m).times(2.0),
            m4: s4 - (m * s3).times(4.0) + (square * s2).times(6.0) - (square * square).times(3.0),
        }
    }

    fn is_constant(&self) -> bool {
        self.half_range == 0.0
    }

    /// Returns the variance of the population, in scaled units.
    fn variance(&self) -> f64 {
        if self.is_constant() { 0.0 } else { self.m2.positive() }
    }

    fn mean_error(&self) -> f64 {
        self.half_range * self.mean.error + self.centre.abs() * f64::EPSILON
    }

    /// Returns `f` of a column, or NaN for a column without spread.
    fn shape(&self, f: impl Fn(&Self) -> Bounded) -> f64 {
        if self.is_constant() { f64::NAN } else { f(self).if_precise(1.0) }
    }
}

/// Serialises NaN as `null`, because JSON has no NaN.
pub(super) mod undefined_as_null {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub fn serialize<S: Serializer>(values: &[f64], serializer: S) -> Result<S::Ok, S::Error> {
        to_options(values).serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<f64>, D::Error> {
        Ok(from_options(Vec::deserialize(deserializer)?))
    }

    fn to_options(values: &[f64]) -> Vec<Option<f64>> {
        values.iter().map(|&x| (!x.is_nan()).then_some(x)).collect()
    }

    fn from_options(values: Vec<Option<f64>>) -> Vec<f64> {
        values.into_iter().map(|x| x.unwrap_or(f64::NAN)).collect()
    }

    /// Matrices in JSON, as rows of numbers that may be missing.
    pub mod matrix {
        use super::{Deserialize, Deserializer, Serialize, Serializer, from_options, to_options};

        pub fn serialize<S: Serializer>(
            rows: &[Vec<f64>],
            serializer: S,
        ) -> Result<S::Ok, S::Error> {
            let rows: Vec<_> = rows.iter().map(|row| to_options(row)).collect();
            rows.serialize(serializer)
        }

        pub fn deserialize<'de, D: Deserializer<'de>>(
            deserializer: D,
        ) -> Result<Vec<Vec<f64>>, D::Error> {
            let rows: Vec<Vec<Option<f64>>> = Vec::deserialize(deserializer)?;
            Ok(rows.into_iter().map(from_options).collect())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 1, 2, 4, 8 and their squares, from deviations written out by hand.
    #[test]
    fn conventions_are_those_documented() {
        let x: [f64; 4] = [1.0, 2.0, 4.0, 8.0];
        let y = x.map(|x| x * x);
        let powers = [x, y].map(|c| [1, 2, 3, 4].map(|k| c.iter().map(|v| v.powi(k)).sum()));
        let products = vec![vec![x.iter().zip(&y).map(|(x, y)| x * y).sum()], vec![]];
        let powers = powers.to_vec();
        let sums =
            PowerSums { rows: 4, powers, products, power_errors: [0.0; 4], product_error: 0.0 };
        let identity = ColumnScaling::new(vec![(0.0, 1.0); 2]).unwrap();
        let found = sums.statistics(&identity);
        let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-12 * b.abs().max(1.0), "{a} {b}");
        // m = 3.75, deviations -2.75, -1.75, 0.25, 4.25.
        close(found.mean[0], 3.75);
        close(found.variance[0], 28.75 / 3.0);
        close(found.std_dev[0], (28.75_f64 / 3.0).sqrt());
        let m3 = (-2.75_f64.powi(3) - 1.75_f64.powi(3) + 0.25_f64.powi(3) + 4.25_f64.powi(3)) / 4.0;
        let m4 = (2.75_f64.powi(4) + 1.75_f64.powi(4) + 0.25_f64.powi(4) + 4.25_f64.powi(4)) / 4.0;
        close(found.skewness[0], m3 / (28.75_f64 / 4.0).powf(1.5));
        close(found.kurtosis[0], m4 / (28.75_f64 / 4.0).powi(2) - 3.0);
        // sum x y = 585, n mean mean = 4 * 3.75 * 21.25.
        close(found.covariance[0][1], (585.0 - 4.0 * 3.75 * 21.25) / 3.0);
        assert_eq!(found.covariance[0][1], found.covariance[1][0]);
        let spread = (found.variance[0] * found.variance[1]).sqrt();
        close(found.correlation[1][0], found.covariance[0][1] / spread);
        assert_eq!((found.correlation[0][0], found.correlation[1][1]), (1.0, 1.0));
    }

    #[test]
    fn weighted_means_are_those_of_their_definition() {
        let names = ["w", "x"].map(String::from).to_vec();
        let table = Table::new(names, vec![1.0, 10.0, 2.0, -3.0, 5.0, 0.5], None).unwrap();
        let found = crate::stats::testkit::two_passes(&table);
        let weighted = found.weighted_mean(0).unwrap();
        assert!((weighted[1] - (10.0 - 6.0 + 2.5) / 8.0).abs() < 1e-12);
        assert!((weighted[0] - 30.0 / 8.0).abs() < 1e-12);
        assert!(matches!(found.weighted_mean(2), Err(StatsError::Column { columns: 2, .. })));
        let negative = Statistics { mean: vec![-1.0, 0.0], ..found };
        assert!(matches!(negative.weighted_mean(0), Err(StatsError::Weights { column: 0, .. })));
        assert_eq!(negative.sample(1).unwrap().count, 3);
    }

    #[test]
    fn scalings_fill_the_unit_interval_and_survive_json() {
        let names = ["year", "constant", "huge"].map(String::from).to_vec();
        let values = vec![1990.0, 5.0, -1e308, 2020.0, 5.0, 1e308];
        let table = Table::new(names, values, None).unwrap();
        let scaling = ColumnScaling::of(&table);
        assert_eq!(scaling.maps(), [(2005.0, 15.0), (5.0, 0.0), (0.0, 1e308)]);
        assert_eq!((scaling.scaled(0, 1990.0), scaling.scaled(0, 2012.5)), (-1.0, 0.5));
        assert_eq!(scaling.scaled(1, 5.0), 0.0);
        let text = serde_json::to_string(&scaling).unwrap();
        assert_eq!(serde_json::from_str::<ColumnScaling>(&text).unwrap(), scaling);
        let refused = serde_json::from_str::<ColumnScaling>("[[0.0,1.0],[0.0,-1.0]]").unwrap_err();
        assert!(refused.to_string().contains("column 1"), "{refused}");
        assert!(ColumnScaling::new(vec![(f64::NAN, 1.0)]).is_err());
    }
}

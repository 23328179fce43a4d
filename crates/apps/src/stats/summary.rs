//! From power sums to statistics, in the clear.

use serde::{Deserialize, Serialize};

use super::{Result, Sample, StatsError};
use crate::table::Table;
use sudare_arith::real;

/// The affine map `x -> (x - centre) / half_range` of each column to `[-1, 1]`, from
/// its smallest and largest value. It stays with the owner: it tells both.
///
/// Central moments are differences of raw ones, and lose digits where the mean is
/// large against the spread. After this map the mean is at most 1 and the largest
/// deviation at least 1, so that a column of years loses none; one far outlier still
/// leaves the others little of the range.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Vec<(f64, f64)>", into = "Vec<(f64, f64)>")]
pub struct ColumnScaling {
    /// Centre and half-range of each column; a half-range of 0 maps to 0.
    maps: Vec<(f64, f64)>,
}

impl ColumnScaling {
    /// The scaling of each feature column of `table`.
    #[must_use]
    pub fn of(table: &Table) -> Self {
        let empty = (f64::INFINITY, f64::NEG_INFINITY);
        let mut ends = vec![empty; table.features()];
        for row in table.iter_rows() {
            for ((low, high), &x) in ends.iter_mut().zip(row) {
                (*low, *high) = (low.min(x), high.max(x));
            }
        }
        let halves = |(low, high): (f64, f64)| (high / 2.0 + low / 2.0, high / 2.0 - low / 2.0);
        Self { maps: ends.into_iter().map(halves).collect() }
    }

    /// From the centre and half-range of each column.
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

    /// Number of columns.
    #[must_use]
    pub fn features(&self) -> usize {
        self.maps.len()
    }

    /// Centre and half-range of each column.
    #[must_use]
    pub fn maps(&self) -> &[(f64, f64)] {
        &self.maps
    }

    /// The scaled value, cut to `[-1, 1]` against rounding.
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
/// Conventions: variance, standard deviation and covariance divide by `rows - 1`, as
/// pandas and R do; skewness is `g1 = m3 / m2^1.5` and kurtosis the excess
/// `g2 = m4 / m2^2 - 3`, of moments that divide by `rows`, as `scipy.stats` does by
/// default. What is undefined is NaN, `null` in JSON: dispersion of one row, and shape
/// and correlation of a constant column.
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
}

impl Statistics {
    /// The mean of each column with the values of column `weights` as weights,
    /// `sum w x / sum w = mean(x) + cov(w, x) / mean(w)`; that of the weights themselves
    /// is `sum w^2 / sum w`.
    ///
    /// # Errors
    /// [`StatsError::Column`] if there is no such column, [`StatsError::Weights`] if the
    /// weights do not have a positive mean.
    pub fn weighted_mean(&self, weights: usize) -> Result<Vec<f64>> {
        self.check_column(weights)?;
        let mean = self.mean[weights];
        if mean.is_nan() || mean <= 0.0 {
            return Err(StatsError::Weights { column: weights, mean });
        }
        let n = self.rows as f64;
        let shift = |j: usize| match self.rows {
            1 => 0.0,
            _ => self.covariance[weights][j] * (n - 1.0) / n / mean,
        };
        Ok(self.mean.iter().enumerate().map(|(j, m)| m + shift(j)).collect())
    }

    /// Column `index` as a sample.
    ///
    /// # Errors
    /// [`StatsError::Column`] if there is no such column.
    pub fn sample(&self, index: usize) -> Result<Sample> {
        self.check_column(index)?;
        Ok(Sample { count: self.rows, mean: self.mean[index], variance: self.variance[index] })
    }

    pub(super) fn check_column(&self, found: usize) -> Result<()> {
        let columns = self.mean.len();
        if found < columns { Ok(()) } else { Err(StatsError::Column { found, columns }) }
    }
}

/// Sums of scaled columns `x_i`.
pub(super) struct PowerSums {
    pub rows: usize,
    /// `sum x, sum x^2, sum x^3, sum x^4` of each column.
    pub powers: Vec<[f64; 4]>,
    /// `sum x_i x_j` for `i < j`, in row `i` and place `j - i - 1`.
    pub products: Vec<Vec<f64>>,
}

impl PowerSums {
    /// The statistics of the columns before scaling.
    pub fn statistics(&self, scaling: &ColumnScaling) -> Statistics {
        let n = self.rows as f64;
        let columns: Vec<Column> = self
            .powers
            .iter()
            .zip(scaling.maps())
            .map(|(sums, &(centre, half_range))| {
                Column::new(sums.map(|s| s / n), centre, half_range)
            })
            .collect();
        // 0 / 0 for a single row: undefined.
        let sample = n / (n - 1.0);
        let of_each = |f: &dyn Fn(&Column) -> f64| columns.iter().map(f).collect::<Vec<f64>>();
        let variance = of_each(&|c| c.population_variance() * sample);
        let moment = |i: usize, j: usize| {
            let (low, high) = (i.min(j), i.max(j));
            if low == high {
                columns[low].m2
            } else {
                let product = self.products[low][high - low - 1] / n;
                product - columns[low].mean * columns[high].mean
            }
        };
        let matrix = |f: &dyn Fn(usize, usize) -> f64| {
            let row = |i| (0..columns.len()).map(|j| f(i, j)).collect();
            (0..columns.len()).map(row).collect::<Vec<Vec<f64>>>()
        };
        let covariance =
            matrix(&|i, j| moment(i, j) * columns[i].half_range * columns[j].half_range * sample);
        let correlation = matrix(&|i, j| {
            let spread = (columns[i].m2 * columns[j].m2).sqrt();
            if spread > 0.0 { (moment(i, j) / spread).clamp(-1.0, 1.0) } else { f64::NAN }
        });
        Statistics {
            rows: self.rows,
            mean: of_each(&|c| c.centre + c.half_range * c.mean),
            std_dev: variance.iter().map(|v| v.sqrt()).collect(),
            variance,
            skewness: of_each(&|c| c.shape(c.m3 / real::powf(c.m2, 1.5))),
            kurtosis: of_each(&|c| c.shape(c.m4 / (c.m2 * c.m2) - 3.0)),
            covariance,
            correlation,
        }
    }
}

/// Mean and central moments of a scaled column, and its scaling.
struct Column {
    centre: f64,
    half_range: f64,
    mean: f64,
    m2: f64,
    m3: f64,
    m4: f64,
}

impl Column {
    /// From the means of the first four powers.
    fn new([m, s2, s3, s4]: [f64; 4], centre: f64, half_range: f64) -> Self {
        let constant = half_range == 0.0;
        let m2 = if constant { 0.0 } else { (s2 - m * m).max(0.0) };
        Self {
            centre,
            half_range,
            mean: m,
            m2,
            m3: s3 - 3.0 * m * s2 + 2.0 * m * m * m,
            m4: s4 - 4.0 * m * s3 + 6.0 * m * m * s2 - 3.0 * m * m * m * m,
        }
    }

    fn population_variance(&self) -> f64 {
        self.m2 * self.half_range * self.half_range
    }

    /// `value`, which a column without spread does not have.
    fn shape(&self, value: f64) -> f64 {
        if self.m2 > 0.0 { value } else { f64::NAN }
    }
}

/// NaN as `null`, which JSON has in its place.
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

    /// Matrices as rows of numbers that may be missing, in JSON.
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
        let sums = PowerSums { rows: 4, powers: powers.to_vec(), products };
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

//! Moments and statistics from the sums of all owners' rows.

use num_bigint::{BigInt, Sign};

use super::{
    PoolError, Schema,
    sums::{FRACTION_BITS, Sums},
};
use crate::{logreg::Moments, stats::Statistics};
use sudare_arith::real;

/// Relative spread below which a column is constant up to rounding: its standard deviation over its
/// mean.
const CONSTANT: f64 = 1e-14;

/// Smaller deviations count as zero, because their inverses would not be finite.
const SMALLEST: f64 = 1e-305;

/// The sums of all owners' rows, with moments and statistics.
#[derive(Debug, Clone, PartialEq)]
pub struct Totals {
    sums: Sums,
    centers: Vec<f64>,
    units: Vec<f64>,
}

impl Totals {
    /// Creates totals from sums in the clear, of one owner or of several owners combined by
    /// [`Sums::add`].
    ///
    /// # Errors
    /// [`PoolError::OtherSchema`] for sums of another schema.
    pub fn new(schema: &Schema, sums: Sums) -> Result<Self, PoolError> {
        if sums.shape().digest != schema.digest() {
            return Err(PoolError::OtherSchema { what: "the sums".to_owned() });
        }
        Ok(Self { sums, centers: schema.centers(), units: schema.units() })
    }

    /// Returns the rows of all owners.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.sums.rows()
    }

    /// Returns the rows of each class of the target, or one number for a schema without a target.
    #[must_use]
    pub fn class_counts(&self) -> Vec<usize> {
        self.sums.counts().collect()
    }

    /// Returns the means, spreads and correlations of all rows, weighted by class: the values of
    /// [`Moments::of`] for the table of all rows. Classes beyond the end of `row_weights` have
    /// weight 1.
    ///
    /// Sums are centred at the means of all rows before they become `f64`. A column counts as
    /// constant if its standard deviation is below `2^-47` of its unit, or below the error of
    /// rounding.
    ///
    /// # Errors
    /// [`PoolError::RowWeight`] for weights that are negative, not finite or all 0;
    /// [`PoolError::NotByClass`] for weights that differ, if the sums are not by class.
    pub fn moments(&self, row_weights: &[f64]) -> Result<Moments, PoolError> {
        let weighted = self.weighted(row_weights)?;
        let shifts = self.shifts(&weighted);
        let columns = self.centers.len();
        let mut centers = Vec::with_capacity(columns);
        let mut spreads = Vec::with_capacity(columns);
        for j in 0..columns {
            let mean = self.mean(j) + shifts.offsets[j];
            centers.push(self.centers[j] + self.units[j] * mean);
            spreads.push(self.spread(j, centers[j]));
        }
        let inverse: Vec<f64> =
            // A constant column gets correlations of 0 instead of a division by its spread.
            spreads.iter().map(|&d| if d > 0.0 { 1.0 / d } else { 0.0 }).collect();
        let mut correlations = vec![0.0; columns * columns];
        for j in 0..columns {
            for k in 0..=j {
                // Covariance within groups, plus covariance of the means of groups.
                let covariance = weighted.mean(|group, rows| {
                    let of_means = rows as f64 * shifts.of(group, j) * shifts.of(group, k);
                    self.scatter(group, rows, j, k) + of_means
                });
                let correlation = covariance * inverse[j] * inverse[k];
                correlations[j * columns + k] = correlation;
                correlations[k * columns + j] = correlation;
            }
        }
        let deviations = spreads.iter().zip(&self.units).map(|(d, unit)| d * unit).collect();
        Ok(Moments { rows: self.rows(), centers, deviations, correlations })
    }

    /// Returns the statistics of all rows, by the conventions of [`Statistics`].
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        let columns = 0..self.centers.len();
        let n = self.rows() as f64;
        // 0 / 0 for a single row: undefined.
        let sample = n / (n - 1.0);
        let each = |f: &dyn Fn(usize) -> f64| columns.clone().map(f).collect::<Vec<f64>>();
        let matrix = |f: &dyn Fn(usize, usize) -> f64| {
            columns.clone().map(|j| each(&|k| f(j, k))).collect::<Vec<Vec<f64>>>()
        };
        let moments = matrix(&|j, k| self.moment(j, k));
        // The sums are exact, but each value is rounded by up to half a step.
        let step = real::exp2(-f64::from(FRACTION_BITS));
        let spread = each(&|j| moments[j][j].sqrt());
        let error = |j: usize, k: usize| (spread[j] + spread[k] + step) * step / 2.0;
        // Zero for a constant column. NaN for a column whose spread may be rounding only.
        let told = |j: usize| spread[j] == 0.0 || moments[j][j] > error(j, j);
        let second = each(&|j| if told(j) { moments[j][j] } else { f64::NAN });
        let shape = |j: usize, value: f64| if second[j] > 0.0 { value } else { f64::NAN };
        let unit = |j: usize| self.units[j];
        let in_units = |j: usize, k: usize, value: f64| value * sample * unit(j) * unit(k);
        let covariance = matrix(&|j, k| match told(j) && told(k) {
            true => in_units(j, k, moments[j][k]),
            false => f64::NAN,
        });
        let variance = each(&|j| covariance[j][j]);
        Statistics {
            rows: self.rows(),
            mean: each(&|j| self.centers[j] + unit(j) * self.mean(j)),
            std_dev: each(&|j| unit(j) * (second[j] * sample).sqrt()),
            variance,
            skewness: each(&|j| shape(j, self.third(j) / real::powf(second[j], 1.5))),
            kurtosis: each(&|j| shape(j, self.fourth(j) / (second[j] * second[j]) - 3.0)),
            covariance,
            correlation: matrix(&|j, k| {
                let spread = second[j].sqrt() * second[k].sqrt();
                if spread > 0.0 { (moments[j][k] / spread).clamp(-1.0, 1.0) } else { f64::NAN }
            }),
            mean_error: each(&|j| unit(j) * step / 2.0 + self.centers[j].abs() * f64::EPSILON),
            covariance_error: matrix(&|j, k| match spread[j] == 0.0 || spread[k] == 0.0 {
                true => 0.0,
                false => in_units(j, k, error(j, k)),
            }),
        }
    }

    /// Returns the rows of each group, the weight of a row of each group, and the total weight.
    fn weighted(&self, row_weights: &[f64]) -> Result<Weighted, PoolError> {
        let of_class = |class: usize| row_weights.get(class).copied().unwrap_or(1.0);
        let counts = self.class_counts();
        let mut weights: Vec<f64> = (0..counts.len()).map(of_class).collect();
        let bad = |weight: &f64| !(weight.is_finite() && *weight >= 0.0);
        if let Some(class) = weights.iter().position(bad) {
            return Err(PoolError::RowWeight { class, found: weights[class] });
        }
        let rows = self.sums.group_rows();
        if rows.len() < counts.len() {
            // Without sums by class, equal weights are still possible: they cancel in the mean.
            if weights.iter().any(|weight| *weight != weights[0]) {
                return Err(PoolError::NotByClass);
            }
            weights.truncate(rows.len());
        }
        let weight = rows.iter().zip(&weights).map(|(&rows, weight)| rows as f64 * weight).sum();
        if weight > 0.0 {
            return Ok(Weighted { rows, weights, weight });
        }
        // The error names a class that has rows: its weight must be 0, as the total is.
        let class = counts.iter().position(|&count| count > 0).unwrap_or(0);
        Err(PoolError::RowWeight { class, found: of_class(class) })
    }

    /// Returns the means of all groups.
    fn shifts(&self, weighted: &Weighted) -> Shifts {
        let columns = 0..self.centers.len();
        let of_group = |(group, &rows): (usize, &usize)| {
            columns.clone().map(|j| self.shift(group, rows, j)).collect::<Vec<f64>>()
        };
        let groups: Vec<Vec<f64>> = weighted.rows.iter().enumerate().map(of_group).collect();
        let offset = |j: usize| weighted.mean(|group, rows| rows as f64 * groups[group][j]);
        Shifts { offsets: columns.clone().map(offset).collect(), groups }
    }

    /// Returns the sum over all groups.
    fn total<'a>(&'a self, of: impl Fn(usize) -> &'a BigInt) -> BigInt {
        (0..self.sums.shape().groups).map(of).sum()
    }

    fn sum(&self, j: usize) -> BigInt {
        self.total(|group| self.sums.sum(group, j))
    }

    fn product(&self, j: usize, k: usize) -> BigInt {
        self.total(|group| self.sums.product(group, j, k))
    }

    /// Returns the mean of column `j`, in its unit from its center.
    fn mean(&self, j: usize) -> f64 {
        to_f64(&self.sum(j), 1) / self.rows() as f64
    }

    /// Returns the mean of column `j` in a group, relative to the mean of all rows.
    fn shift(&self, group: usize, rows: usize, j: usize) -> f64 {
        // A class without rows has no mean. Its sums below are multiplied by its rows, so 0 is
        // neutral.
        if rows == 0 {
            return 0.0;
        }
        let all = self.rows();
        // Both means over a common denominator: the difference of integers cancels without error.
        let difference = self.sums.sum(group, j) * all - self.sum(j) * rows;
        to_f64(&difference, 1) / (all as f64 * rows as f64)
    }

    /// Returns the sum of products of deviations from the means of a group.
    fn scatter(&self, group: usize, rows: usize, j: usize, k: usize) -> f64 {
        if rows == 0 {
            return 0.0;
        }
        let sum_j = self.sums.sum(group, j);
        let sum_k = self.sums.sum(group, k);
        // Subtracted as integers, where a spread far below the mean loses no digits.
        to_f64(&(self.sums.product(group, j, k) * rows - sum_j * sum_k), 2) / rows as f64
    }

    /// Returns the mean product of deviations of two columns.
    fn moment(&self, j: usize, k: usize) -> f64 {
        let n = self.rows();
        let scatter = self.product(j, k) * n - self.sum(j) * self.sum(k);
        to_f64(&scatter, 2) / real::powi(n as f64, 2)
    }

    /// Returns the mean of third powers of deviations.
    fn third(&self, j: usize) -> f64 {
        let n = BigInt::from(self.rows());
        let sum = self.sum(j);
        let cubes = &n * &n * self.sums.cube(j);
        // `n³` times the mean third power of deviations, in integers, since its terms nearly
        // cancel.
        let centered = cubes - 3 * &n * &sum * self.product(j, j) + 2 * sum.pow(3);
        to_f64(&centered, 3) / real::powi(self.rows() as f64, 3)
    }

    /// Returns the mean of fourth powers of deviations.
    fn fourth(&self, j: usize) -> f64 {
        let n = BigInt::from(self.rows());
        let sum = self.sum(j);
        let fourths = n.pow(3) * self.sums.fourth(j);
        let cubes = 4 * n.pow(2) * &sum * self.sums.cube(j);
        let squares = 6 * &n * sum.pow(2) * self.product(j, j);
        to_f64(&(fourths - cubes + squares - 3 * sum.pow(4)), 4) / real::powi(self.rows() as f64, 4)
    }

    /// Returns the standard deviation of column `j` with this mean, in its unit, or 0 if it is
    /// constant.
    fn spread(&self, j: usize, mean: f64) -> f64 {
        let spread = self.moment(j, j).sqrt();
        let deviation = spread * self.units[j];
        let step = real::exp2(-f64::from(FRACTION_BITS));
        let constant = spread < step || deviation < CONSTANT * mean.abs() || deviation < SMALLEST;
        if constant { 0.0 } else { spread }
    }
}

/// Groups of rows, and their weights.
struct Weighted {
    rows: Vec<usize>,
    /// Weight of a row of each group.
    weights: Vec<f64>,
    /// Total weight of all rows.
    weight: f64,
}

impl Weighted {
    /// Returns the weighted mean of `of`, which returns a sum over the rows of a group for the
    /// group and its number of rows.
    fn mean(&self, of: impl Fn(usize, usize) -> f64) -> f64 {
        let groups = self.rows.iter().zip(&self.weights).enumerate();
        let sum: f64 = groups.map(|(group, (&rows, weight))| weight * of(group, rows)).sum();
        sum / self.weight
    }
}

/// Means of groups in the units of columns, relative to the means of all rows.
struct Shifts {
    /// The means of each group.
    groups: Vec<Vec<f64>>,
    /// The weighted means of all rows.
    offsets: Vec<f64>,
}

impl Shifts {
    /// Returns the mean of a group, relative to the weighted mean.
    fn of(&self, group: usize, j: usize) -> f64 {
        self.groups[group][j] - self.offsets[j]
    }
}

/// Converts a sum of products of `power` values from integers to the values' units.
fn to_f64(number: &BigInt, power: u32) -> f64 {
    // The highest 64 bits are more than `f64` keeps. All bits may be more than its range.
    let dropped = number.bits().saturating_sub(64);
    let top = (number.magnitude() >> dropped).iter_u64_digits().next().unwrap_or(0) as f64;
    let size = top * real::powi(2_f64, dropped as i32 - (power * FRACTION_BITS) as i32);
    if number.sign() == Sign::Minus { -size } else { size }
}

#[cfg(test)]
mod tests;

//! Least squares from means and covariances, in the clear.

use serde::{Deserialize, Serialize};

use super::{
    Result, Statistics, StatsError, bounded::Bounded, inference::student_two_sided,
    summary::undefined_as_null,
};
use sudare_arith::real;

/// Maximum condition number of the correlations of predictors, however precise they are. Up to it,
/// rounding changes coefficients by at most `10^-11`.
const MAX_CONDITION: f64 = 1e5;

/// Maximum relative change of the inverse of correlations by their errors.
const MAX_CHANGE: f64 = 0.5;

/// Number of sweeps of Jacobi rotations. About ten are enough.
const SWEEPS: usize = 60;

/// A linear model of one column, fitted to the others with an intercept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LeastSquares {
    /// Index of the target column.
    pub target: usize,
    /// Indices of the other columns, in the order of the fields below.
    pub predictors: Vec<usize>,
    /// Prediction for predictors that are all 0.
    pub intercept: f64,
    /// Coefficient of each predictor.
    #[serde(with = "undefined_as_null")]
    pub coefficients: Vec<f64>,
    /// Standard errors of the coefficients.
    #[serde(with = "undefined_as_null")]
    pub standard_errors: Vec<f64>,
    /// Two-sided probabilities, under Student's distribution, of coefficients of at least these
    /// magnitudes if the coefficients of the population are 0.
    #[serde(with = "undefined_as_null")]
    pub p_values: Vec<f64>,
    /// Fraction of the variance of the target that the model explains.
    pub r_squared: f64,
    /// Variance of the residuals: their sum of squares over `rows - predictors - 1`.
    pub residual_variance: f64,
    /// Condition number of the correlations of the predictors, at most `10^5`.
    pub condition: f64,
}

impl Statistics {
    /// Fits the linear model of column `target` by least squares, with the normal equations. It
    /// uses the correlations of the columns, which the server has summed, and their Cholesky
    /// factor. The condition number is the ratio of their largest to their smallest eigenvalue.
    ///
    /// Results that are uncertain because of the errors of these sums are NaN. These are
    /// coefficients with an error above a sixteenth of their value and, for standardised columns,
    /// above 1/16. They are also all results derived from a variance of residuals below its error.
    ///
    /// # Errors
    /// [`StatsError::Column`] if there is no such column; [`StatsError::Regression`] without
    /// predictors, for too few rows, a constant column, or predictors that are nearly linear
    /// functions of each other within the precision of their correlations.
    pub fn least_squares(&self, target: usize) -> Result<LeastSquares> {
        self.check_column(target)?;
        let predictors: Vec<usize> = (0..self.mean.len()).filter(|&j| j != target).collect();
        let count = predictors.len();
        let refused = |problem: String| Err(StatsError::Regression { problem });
        if count == 0 || self.rows < count + 2 {
            return refused(format!(
                "{} rows and {count} predictors: at least one predictor is needed, and two rows \
                 more than predictors",
                self.rows
            ));
        }
        let without = |spread: fn(f64) -> bool| {
            let columns = (0..self.mean.len()).filter(|&j| spread(self.variance[j]));
            columns.map(|j| j.to_string()).collect::<Vec<_>>().join(", ")
        };
        let constant = without(|v| v <= 0.0);
        let unknown = without(f64::is_nan);
        if !constant.is_empty() {
            return refused(format!("column {constant} is constant; leave it out"));
        }
        if !unknown.is_empty() {
            return refused(format!(
                "the variance of column {unknown} is below the error of encryption; leave it out, \
                 or its outliers"
            ));
        }
        let correlation = |i: usize, j: usize| self.correlation_of(i, j);
        let among: Vec<Vec<f64>> = predictors
            .iter()
            .map(|&i| predictors.iter().map(|&j| correlation(i, j).value).collect())
            .collect();
        let nearly = |condition: f64| {
            refused(format!(
                "the predictors are nearly linear functions of each other (condition number \
                 {condition:.1e}, at most {MAX_CONDITION:.0e} and less where correlations are less \
                 precise): leave some out"
            ))
        };
        let eigenvalues = eigenvalues(among.clone());
        let largest = eigenvalues.iter().copied().fold(0.0, f64::max);
        let smallest = eigenvalues.iter().copied().fold(f64::INFINITY, f64::min);
        let condition = if smallest > 0.0 { largest / smallest } else { f64::INFINITY };
        let (true, Some(inverse)) = (condition <= MAX_CONDITION, inverse(&among)) else {
            return nearly(condition);
        };
        let sum = |terms: &mut dyn Iterator<Item = Bounded>| {
            terms.fold(Bounded::exact(0.0), |sum, term| sum + term)
        };
        let with_target: Vec<Bounded> =
            predictors.iter().map(|&j| correlation(j, target)).collect();
        let Some(inverse) = self.bounded_inverse(&predictors, &inverse) else {
            return nearly(condition);
        };
        let standardised: Vec<Bounded> = inverse
            .iter()
            .map(|row| sum(&mut row.iter().zip(&with_target).map(|(&a, &b)| a * b)))
            .collect();
        let r_squared = sum(&mut standardised.iter().zip(&with_target).map(|(&a, &b)| a * b));
        let rows = self.rows as f64;
        let freedom = rows - count as f64 - 1.0;
        let of_target = self.covariance_of(target, target);
        // Fractions of the variance of the target.
        let residual = (Bounded::exact(1.0) - r_squared).times((rows - 1.0) / freedom);
        let residual_known = residual.positive();
        let mut coefficients = Vec::new();
        let mut standard_errors = Vec::new();
        let mut p_values = Vec::new();
        let mut explained = Bounded::exact(0.0);
        for (k, &j) in predictors.iter().enumerate() {
            let unit = of_target.sqrt() / self.covariance_of(j, j).sqrt();
            let coefficient = standardised[k] * unit;
            let error = (residual * inverse[k][k]).times(1.0 / (rows - 1.0)).sqrt();
            let t = (standardised[k] / error).if_precise(1.0);
            let told = standardised[k].if_precise(1.0).is_finite();
            coefficients.push(if told { coefficient.value } else { f64::NAN });
            standard_errors.push((error * unit).value);
            p_values.push(if t.is_nan() { f64::NAN } else { student_two_sided(t, freedom) });
            explained = explained + coefficient * self.mean_of(j);
        }
        let intercept = self.mean_of(target) - explained;
        Ok(LeastSquares {
            target,
            predictors,
            intercept: intercept.if_precise(self.std_dev[target]),
            coefficients,
            standard_errors,
            p_values,
            r_squared: r_squared.if_precise(1.0).clamp(0.0, 1.0),
            residual_variance: residual_known * of_target.value,
            condition,
        })
    }

    /// Returns the inverse of the correlations of some columns with its errors, or `None` if they
    /// may be singular.
    ///
    /// The inverse of `A + E` is `B - B E B + B E B E B - ...`, where `B` is the inverse of `A`. If
    /// `r`, the largest sum of a row of `|B| |E|`, is below 1, an entry of the terms from the
    /// second on is at most `r^2 / (1 - r)` times the largest entry of its column of `|B|`.
    fn bounded_inverse(
        &self,
        columns: &[usize],
        inverse: &[Vec<f64>],
    ) -> Option<Vec<Vec<Bounded>>> {
        let error = |i: usize, j: usize| self.correlation_of(columns[i], columns[j]).error;
        let n = columns.len();
        let product: Vec<Vec<f64>> = (0..n)
            .map(|i| {
                let entry = |j| (0..n).map(|k| inverse[i][k].abs() * error(k, j)).sum::<f64>();
                (0..n).map(entry).collect()
            })
            .collect();
        let largest = product.iter().map(|row| row.iter().sum::<f64>()).fold(0.0, f64::max);
        if largest.is_nan() || largest >= MAX_CHANGE {
            return None;
        }
        let change = |i: usize, j: usize| {
            let first: f64 = (0..n).map(|k| product[i][k] * inverse[k][j].abs()).sum();
            let column = (0..n).map(|k| inverse[k][j].abs()).fold(0.0, f64::max);
            first + largest * largest / (1.0 - largest) * column
        };
        let entry = |i: usize, j: usize| Bounded::new(inverse[i][j], change(i, j));
        Some((0..n).map(|i| (0..n).map(|j| entry(i, j)).collect()).collect())
    }
}

/// Inverts a positive definite matrix by its Cholesky factor `L`: `L^-T L^-1`.
#[expect(clippy::needless_range_loop, reason = "as the formulas are written")]
fn inverse(matrix: &[Vec<f64>]) -> Option<Vec<Vec<f64>>> {
    let n = matrix.len();
    let mut factor = vec![vec![0.0; n]; n];
    for i in 0..n {
        for j in 0..=i {
            let known: f64 = (0..j).map(|k| factor[i][k] * factor[j][k]).sum();
            let rest = matrix[i][j] - known;
            if i != j {
                factor[i][j] = rest / factor[j][j];
            } else if rest > 0.0 {
                factor[i][i] = rest.sqrt();
            } else {
                return None;
            }
        }
    }
    let mut lower = vec![vec![0.0; n]; n];
    for j in 0..n {
        for i in j..n {
            let unit = if i == j { 1.0 } else { 0.0 };
            let known: f64 = (j..i).map(|k| factor[i][k] * lower[k][j]).sum();
            lower[i][j] = (unit - known) / factor[i][i];
        }
    }
    let product = |i: usize, j: usize| (i.max(j)..n).map(|k| lower[k][i] * lower[k][j]).sum();
    Some((0..n).map(|i| (0..n).map(|j| product(i, j)).collect()).collect())
}

/// Returns the eigenvalues of a symmetric matrix, by cyclic Jacobi rotations (Golub, Van Loan,
/// "Matrix computations", section 8.5).
#[expect(clippy::needless_range_loop, reason = "two rows of one matrix change")]
fn eigenvalues(mut a: Vec<Vec<f64>>) -> Vec<f64> {
    let n = a.len();
    for _ in 0..SWEEPS {
        let beside: f64 = (0..n)
            .flat_map(|i| (0..i).map(move |j| (i, j)))
            .map(|(i, j)| real::powi(a[i][j], 2))
            .sum();
        // The squares of rounding errors, for a matrix whose diagonal is 1.
        if beside < 1e-30 {
            break;
        }
        for p in 0..n {
            for q in p + 1..n {
                // Equal diagonal entries would give 0 / 0.
                if a[p][q] == 0.0 {
                    continue;
                }
                let tau = (a[q][q] - a[p][p]) / (2.0 * a[p][q]);
                // `signum` of 0 is 1, as equal diagonal entries need.
                let t = tau.signum() / (tau.abs() + (1.0 + tau * tau).sqrt());
                let cos = 1.0 / (1.0 + t * t).sqrt();
                let sin = t * cos;
                for row in &mut a {
                    let x = row[p];
                    let y = row[q];
                    (row[p], row[q]) = (cos * x - sin * y, sin * x + cos * y);
                }
                for k in 0..n {
                    let x = a[p][k];
                    let y = a[q][k];
                    (a[p][k], a[q][k]) = (cos * x - sin * y, sin * x + cos * y);
                }
            }
        }
    }
    (0..n).map(|i| a[i][i]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::testkit::two_passes;
    use sudare_table::Table;

    fn of_columns(columns: &[&[f64]]) -> Statistics {
        let rows = columns[0].len();
        let values = (0..rows).flat_map(|i| columns.iter().map(move |c| c[i])).collect();
        let names = (0..columns.len()).map(|i| format!("c{i}")).collect();
        two_passes(&Table::new(names, values, None).unwrap())
    }

    /// The first set of Anscombe, "Graphs in statistical analysis", The American
    /// Statistician 27, 1973, with the figures printed there.
    #[test]
    fn anscombe() {
        let x = [10.0, 8.0, 13.0, 9.0, 11.0, 14.0, 6.0, 4.0, 12.0, 7.0, 5.0];
        let y = [8.04, 6.95, 7.58, 8.81, 8.33, 9.96, 7.24, 4.26, 10.84, 4.82, 5.68];
        let fit = of_columns(&[&x, &y]).least_squares(1).unwrap();
        assert!((fit.intercept - 3.0).abs() < 1e-3 && (fit.coefficients[0] - 0.5).abs() < 1e-3);
        assert!((fit.standard_errors[0] - 0.118).abs() < 5e-4);
        assert!((fit.r_squared - 0.667).abs() < 5e-4);
        // The residual sum of squares, 13.75, has 9 degrees of freedom.
        assert!((fit.residual_variance * 9.0 - 13.75).abs() < 0.02);
        assert!((fit.p_values[0] - 0.00217).abs() < 1e-5);
        assert_eq!((fit.condition, fit.predictors), (1.0, vec![0]));
    }

    /// An exact plane, and residuals that are orthogonal to the predictors.
    #[test]
    fn planes_and_residuals() {
        let a = [1.0, 2.0, 4.0, 8.0, 16.0, 3.0];
        let b = [5.0, -1.0, 0.5, 2.0, 1.0, 7.0];
        let plane: Vec<f64> = a.iter().zip(&b).map(|(a, b)| 3.0 - 2.0 * a + 0.25 * b).collect();
        let fit = of_columns(&[&a, &plane, &b]).least_squares(1).unwrap();
        assert!((fit.intercept - 3.0).abs() < 1e-9 && fit.predictors == [0, 2]);
        assert!((fit.coefficients[0] + 2.0).abs() < 1e-10);
        assert!((fit.coefficients[1] - 0.25).abs() < 1e-10);
        // Residuals are below the error of rounding, so no test of a coefficient is possible.
        assert!(fit.r_squared > 1.0 - 1e-12 && fit.residual_variance.is_nan());
        assert!(fit.p_values.iter().chain(&fit.standard_errors).all(|x| x.is_nan()));
        let noisy: Vec<f64> = (0..).zip(&plane).map(|(i, y)| y + f64::from(i * i % 5)).collect();
        let fit = of_columns(&[&a, &noisy, &b]).least_squares(1).unwrap();
        let residual = |i: usize| {
            noisy[i] - fit.intercept - fit.coefficients[0] * a[i] - fit.coefficients[1] * b[i]
        };
        for weight in [&[1.0; 6], &a, &b] {
            let product: f64 = (0..6).map(|i| residual(i) * weight[i]).sum();
            assert!(product.abs() < 1e-9, "{product:e}");
        }
        let squares: f64 = (0..6).map(|i| residual(i).powi(2)).sum();
        assert!((fit.residual_variance - squares / 3.0).abs() < 1e-9);
    }

    #[test]
    fn hopeless_models_are_refused() {
        let a = [1.0, 2.0, 4.0, 8.0];
        let twice = a.map(|x| 2.0 * x + 1.0);
        let b = [1.0, 3.0, 2.0, 0.0];
        let refused = |columns: &[&[f64]], target| of_columns(columns).least_squares(target);
        for (found, text) in [
            (refused(&[&a, &twice, &b], 2), "condition number"),
            (refused(&[&a, &[5.0; 4], &b], 2), "column 1 is constant"),
            (refused(&[&a], 0), "0 predictors"),
            (refused(&[&a, &[1.0, 0.0, 0.0, 0.0], &b], 3), "no column 3"),
        ] {
            let message = found.unwrap_err().to_string();
            assert!(message.contains(text), "{message}");
        }
        assert!(refused(&[&a[..2], &b[..2]], 0).is_err());
    }

    #[test]
    fn eigenvalues_are_those_of_closed_forms() {
        // All off-diagonal entries are r: the eigenvalues are 1 - r, and 1 + (n - 1) r once.
        let n = 5;
        let r = 0.4;
        let matrix = (0..n).map(|i| (0..n).map(|j| if i == j { 1.0 } else { r }).collect());
        let mut found = eigenvalues(matrix.collect());
        found.sort_by(f64::total_cmp);
        assert!((found[4] - 2.6).abs() < 1e-12);
        assert!(found[..4].iter().all(|x| (x - 0.6).abs() < 1e-12));
    }
}

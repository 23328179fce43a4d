//! Transforms from the columns of a table to the coordinates of a training, and back.

pub(super) mod calibrate;
mod moments;
pub(super) mod optimum;

use super::spec::{Batches, Penalty, Preparation, TrainError, TrainSpec};
use crate::{Error, Result};
use core::ops::Range;
pub use moments::Moments;
use moments::{BLOCK, Weights, largest, parts, row, units};
use nalgebra::{DMatrix, DMatrixView, DVector, SymmetricEigen};
use serde::{Deserialize, Serialize};
use sudare_arith::par;
use sudare_table::{Table, TableError};

/// Relative spread below which a column is constant up to rounding: its standard deviation over its
/// largest magnitude.
const CONSTANT: f64 = 1e-14;

/// Smaller deviations count as zero, because their inverses would not be finite.
const SMALLEST: f64 = 1e-305;

/// Directions below this fraction of the largest variance are rounding errors of other directions.
const RANK: f64 = 1e-11;

/// Weights that lose less than this fraction count as the same.
const SAME_DIRECTIONS: f64 = 1e-6;

/// Transform from rows of a table to rows of a training, and from trained weights to weights of the
/// columns. It reveals means, spreads and correlations of the table, so it stays with the owners.
///
/// A row `x` becomes `size (1, B^T (x - center) / divisor)`: the columns of `B` are directions, or
/// `B` is diagonal. A weight `w` of the training belongs to `size B w / divisor` of the columns.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Parts", into = "Parts")]
pub struct Transform {
    /// Center of each column.
    centers: Vec<f64>,
    /// Divisor of each column, positive.
    divisors: Vec<f64>,
    basis: Basis,
    /// `h_j` of the training's entries after the first.
    penalty: Vec<f64>,
    /// The square root of the planned rows over the actual rows. It makes a mean over planned rows
    /// a mean over actual rows.
    size: f64,
}

/// The matrix `B` of [`Transform`].
#[derive(Debug, Clone, PartialEq)]
enum Basis {
    Diagonal(DVector<f64>),
    Full(DMatrix<f64>),
}

/// The serialised form of a [`Transform`]. A full basis is stored column by column.
#[derive(Serialize, Deserialize)]
struct Parts {
    centers: Vec<f64>,
    divisors: Vec<f64>,
    basis: Vec<f64>,
    penalty: Vec<f64>,
    size: f64,
}

impl From<Transform> for Parts {
    fn from(transform: Transform) -> Self {
        let Transform { centers, divisors, basis, penalty, size } = transform;
        let basis = match basis {
            Basis::Diagonal(basis) => basis.as_slice().to_vec(),
            Basis::Full(basis) => basis.as_slice().to_vec(),
        };
        Self { centers, divisors, basis, penalty, size }
    }
}

impl TryFrom<Parts> for Transform {
    type Error = &'static str;

    fn try_from(parts: Parts) -> core::result::Result<Self, &'static str> {
        let Parts { centers, divisors, basis, penalty, size } = parts;
        let columns = centers.len();
        let positive = |x: &f64| *x > 0.0 && x.is_finite();
        let sound = !centers.is_empty()
            && divisors.len() == columns
            && penalty.len() == columns
            && centers.iter().chain(&basis).all(|x| x.is_finite())
            && divisors.iter().all(positive)
            && penalty.iter().all(|h| *h >= 0.0 && h.is_finite())
            && positive(&size);
        let basis = match basis.len() {
            len if len == columns => Basis::Diagonal(DVector::from_vec(basis)),
            len if Some(len) == columns.checked_mul(columns) => {
                Basis::Full(DMatrix::from_vec(columns, columns, basis))
            }
            _ => return Err("a basis of other columns"),
        };
        if !sound {
            return Err("these numbers are not a transform of columns");
        }
        Ok(Self { centers, divisors, basis, penalty, size })
    }
}

impl Transform {
    /// Creates the transform for a table with these moments and a penalty of strength `alpha`. Its
    /// rows are trained on as if there were `planned` rows. [`Preparation::Scale`] divides by
    /// `largest`, the largest magnitudes of the columns.
    fn new(
        preparation: Preparation,
        alpha: f64,
        moments: &Moments,
        largest: Option<Vec<f64>>,
        planned: usize,
    ) -> Self {
        let columns = moments.centers.len();
        let size = (planned as f64 / moments.rows as f64).sqrt();
        let varied = moments.deviations.iter().map(|&d| d > 0.0);
        let own = moments.deviations.iter().map(|&d| if d > 0.0 { d } else { 1.0 }).collect();
        if let Some(largest) = largest {
            let divisors: Vec<f64> =
                largest.iter().map(|&most| if most > 0.0 { most } else { 1.0 }).collect();
            let in_units = moments.deviations.iter().zip(&divisors).map(|(d, unit)| d / unit);
            let penalty = in_units.map(|d| alpha * d * d).collect();
            let basis = Basis::Diagonal(DVector::from_element(columns, 1.0));
            return Self { centers: vec![0.0; columns], divisors, basis, penalty, size };
        }
        let correlations = DMatrix::from_row_slice(columns, columns, &moments.correlations);
        let (basis, penalty) = match preparation {
            Preparation::Whiten => {
                let SymmetricEigen { eigenvalues, mut eigenvectors } =
                    SymmetricEigen::new(correlations);
                let floor = RANK * eigenvalues.max();
                let mut penalty = Vec::with_capacity(columns);
                for (mut direction, &variance) in eigenvectors.column_iter_mut().zip(&eigenvalues) {
                    // Along a direction, the mean loss and the penalty curve by at most a quarter
                    // of the variance plus `alpha`. This is four times as much.
                    let least = variance + 4.0 * alpha;
                    let kept = variance > floor && least > 0.0;
                    direction *= if kept { 1.0 / least.sqrt() } else { 0.0 };
                    penalty.push(if kept { alpha / least } else { 0.0 });
                }
                (Basis::Full(eigenvectors), penalty)
            }
            Preparation::Standardize | Preparation::Scale => {
                let largest = if moments.deviations.iter().any(|&d| d > 0.0) {
                    correlations.symmetric_eigenvalues().max()
                } else {
                    1.0
                };
                let least = largest + 4.0 * alpha;
                let per_column = |value: f64| move |varied| if varied { value } else { 0.0 };
                let basis = varied.clone().map(per_column(1.0 / least.sqrt()));
                let basis = Basis::Diagonal(DVector::from_iterator(columns, basis));
                (basis, varied.map(per_column(alpha / least)).collect())
            }
        };
        Self { centers: moments.centers.clone(), divisors: own, basis, penalty, size }
    }

    /// Returns the identity after an entry of 1, for a table whose columns need no preparation.
    #[must_use]
    pub fn identity(columns: usize) -> Self {
        Self {
            centers: vec![0.0; columns],
            divisors: vec![1.0; columns],
            basis: Basis::Diagonal(DVector::from_element(columns, 1.0)),
            penalty: vec![0.0; columns],
            size: 1.0,
        }
    }

    /// Returns a transform for rows to score by a model in the clear. It subtracts the mean of each
    /// column and divides by the largest distance from the mean in the table.
    #[must_use]
    pub fn spreading(table: &Table) -> Self {
        let zeros = vec![0.0; table.features()];
        let units = units(table);
        let mut centers = zeros;
        for i in 0..table.rows() {
            let row = row(table, i).iter().zip(&units);
            // In units of the column, sums cannot overflow.
            centers.iter_mut().zip(row).for_each(|(sum, (x, unit))| *sum += x / unit);
        }
        let rows = table.rows() as f64;
        centers.iter_mut().zip(&units).for_each(|(sum, unit)| *sum = *sum / rows * unit);
        let divisors = largest(table, &centers).into_iter();
        let divisors = divisors.map(|most| if most > SMALLEST { most } else { 1.0 }).collect();
        Self { centers, divisors, ..Self::identity(table.features()) }
    }

    /// Returns the transform that subtracts the center of each column and divides by its divisor.
    ///
    /// # Errors
    /// [`Error::TransformColumns`] for different numbers of centers and divisors;
    /// [`TableError::Scale`] unless centers are finite and divisors positive and finite.
    pub fn affine(centers: Vec<f64>, divisors: Vec<f64>) -> Result<Self> {
        if centers.len() != divisors.len() || centers.is_empty() {
            let found = centers.len();
            let needed = divisors.len();
            return Err(Error::TransformColumns { found, needed });
        }
        let sound = |(center, divisor): (&f64, &f64)| {
            center.is_finite() && divisor.is_finite() && *divisor > 0.0
        };
        if let Some(feature) = centers.iter().zip(&divisors).position(|pair| !sound(pair)) {
            let found = if centers[feature].is_finite() { divisors[feature] } else { f64::NAN };
            return Err(TableError::Scale { feature, found }.into());
        }
        let identity = Self::identity(centers.len());
        Ok(Self { centers, divisors, ..identity })
    }

    /// Returns the column whose value is farthest from its center, in the unit of the column.
    pub(super) fn farthest(&self, values: &[f64]) -> usize {
        let distance = |j: usize| self.near(j, values[j]).abs();
        (0..values.len()).max_by(|&a, &b| distance(a).total_cmp(&distance(b))).unwrap_or(0)
    }

    /// Returns the factor of rows.
    pub(super) fn size(&self) -> f64 {
        self.size
    }

    /// Returns the value that is subtracted from each column.
    #[must_use]
    pub fn centers(&self) -> &[f64] {
        &self.centers
    }

    /// Returns the value by which each column is then divided.
    #[must_use]
    pub fn divisors(&self) -> &[f64] {
        &self.divisors
    }

    /// Converts weights from this transform to `other`. The scores of rows prepared by `other` are
    /// then the same as the scores by `weights` of rows prepared by this transform.
    ///
    /// # Errors
    /// [`Error::TransformColumns`] for other columns; [`Error::OtherDirections`] if `other` omits
    /// directions in which the weights are nonzero.
    pub fn weights_under(&self, weights: &[f64], other: &Self) -> Result<Vec<f64>> {
        if other.columns() != self.columns() {
            let found = other.columns();
            let needed = self.columns();
            return Err(Error::TransformColumns { found, needed });
        }
        let mut near = self.of_near(weights);
        for (j, center) in other.centers.iter().enumerate() {
            near[0] += near[1 + j] * self.near(j, *center);
            near[1 + j] *= other.divisors[j] / self.divisors[j];
        }
        let found = other.trained_from(&near);
        let back = other.of_near(&found);
        let size = |entries: &[f64]| entries.iter().map(|x| x * x).sum::<f64>().sqrt();
        let lost: Vec<f64> = near.iter().zip(&back).map(|(a, b)| a - b).collect();
        // For weights that are all 0 the fraction is NaN, which passes.
        let part = size(&lost) / size(&near);
        if part > SAME_DIRECTIONS {
            return Err(Error::OtherDirections { part });
        }
        Ok(found)
    }

    /// Creates the transform for a table that has these moments, a penalty of strength
    /// [`alpha`](TrainSpec::alpha), and some of `planned` rows. Use it if several owners prepare
    /// rows by their common moments.
    #[must_use]
    pub fn of_moments(
        moments: &Moments,
        preparation: Preparation,
        alpha: f64,
        planned: usize,
    ) -> Self {
        Self::new(preparation, alpha, moments, None, planned)
    }

    /// Returns the number of columns of the tables for this transform.
    #[must_use]
    pub fn columns(&self) -> usize {
        self.centers.len()
    }

    /// Returns the number of entries of a row of the training: one more than the columns.
    #[must_use]
    pub fn entries(&self) -> usize {
        1 + self.columns()
    }

    /// Returns `h` of each entry of the weights: 0 for the first, the intercept.
    #[must_use]
    pub fn penalty(&self) -> Vec<f64> {
        core::iter::once(0.0).chain(self.penalty.iter().copied()).collect()
    }

    /// Returns the rows of a training for some rows of a table. Input and output are row-major,
    /// with [`Transform::entries`] entries for each output row.
    #[must_use]
    pub fn rows(&self, values: &[f64]) -> Vec<f64> {
        let columns = self.columns();
        let mut out = Vec::with_capacity(values.len() / columns * self.entries());
        for block in values.chunks(BLOCK * columns) {
            let near: Vec<f64> =
                block.iter().enumerate().map(|(at, x)| self.near(at % columns, *x)).collect();
            match &self.basis {
                Basis::Diagonal(basis) => {
                    for row in near.chunks_exact(columns) {
                        out.push(self.size);
                        out.extend(row.iter().zip(basis).map(|(x, b)| self.size * b * x));
                    }
                }
                Basis::Full(basis) => {
                    let near = DMatrixView::from_slice(&near, columns, near.len() / columns);
                    let turned = basis.tr_mul(&near) * self.size;
                    for row in turned.column_iter() {
                        out.push(self.size);
                        out.extend(row.iter());
                    }
                }
            }
        }
        out
    }

    /// Returns a value of a column relative to its center, in its unit.
    fn near(&self, column: usize, x: f64) -> f64 {
        let center = self.centers[column];
        let divisor = self.divisors[column];
        let distance = x - center;
        // The distance of huge values may overflow, although its quotient does not.
        if distance.is_finite() { distance / divisor } else { x / divisor - center / divisor }
    }

    /// Returns the weights of the columns, intercept first, for trained weights. The score of a row
    /// `x` is the intercept plus the products of `x` with the other weights.
    #[must_use]
    pub fn of_columns(&self, trained: &[f64]) -> Vec<f64> {
        let mut weights = vec![0.0];
        let of_near = self.of_near(trained);
        weights[0] = of_near[0];
        for ((w, divisor), center) in of_near[1..].iter().zip(&self.divisors).zip(&self.centers) {
            let weight = w / divisor;
            weights[0] -= if weight == 0.0 { 0.0 } else { weight * center };
            weights.push(weight);
        }
        weights
    }

    /// Returns the weights for values relative to their center, in their unit.
    fn of_near(&self, trained: &[f64]) -> Vec<f64> {
        let (first, rest) = trained.split_first().map_or((0.0, trained), |(a, b)| (*a, b));
        let rest = DVector::from_column_slice(rest);
        let turned = match &self.basis {
            Basis::Diagonal(basis) => basis.component_mul(&rest),
            Basis::Full(basis) => basis * rest,
        };
        let turned = turned.iter().map(|w| self.size * w);
        core::iter::once(self.size * first).chain(turned).collect()
    }

    /// Returns the trained weights whose [`Transform::of_near`] is nearest to these weights.
    fn trained_from(&self, near: &[f64]) -> Vec<f64> {
        let (first, rest) = near.split_first().map_or((0.0, near), |(a, b)| (*a, b));
        let rest = DVector::from_column_slice(rest);
        // Directions are orthogonal.
        let along = |dot: f64, square: f64| if square > 0.0 { dot / square } else { 0.0 };
        let own: Vec<f64> = match &self.basis {
            Basis::Diagonal(basis) => {
                basis.iter().zip(&rest).map(|(b, x)| along(b * x, b * b)).collect()
            }
            Basis::Full(basis) => {
                basis.column_iter().map(|b| along(b.dot(&rest), b.norm_squared())).collect()
            }
        };
        core::iter::once(first).chain(own).map(|x| x / self.size).collect()
    }

    /// Converts a sum over the entries of rows. The input is over 1 and values relative to their
    /// center, in their unit. The output is over entries of the training.
    fn of_sums(&self, near: &[f64]) -> Vec<f64> {
        let (first, rest) = near.split_first().map_or((0.0, near), |(a, b)| (*a, b));
        let rest = DVector::from_column_slice(rest);
        let turned = match &self.basis {
            Basis::Diagonal(basis) => basis.component_mul(&rest),
            Basis::Full(basis) => basis.tr_mul(&rest),
        };
        let turned = turned.iter().map(|x| self.size * x);
        core::iter::once(self.size * first).chain(turned).collect()
    }
}

/// A table, prepared for a training.
#[derive(Debug, Clone)]
pub struct Prepared<'a> {
    pub(super) table: &'a Table,
    pub(super) transform: Transform,
    /// Weights of the classes, by which the own weights of rows are multiplied.
    pub(super) row_weights: Vec<f64>,
    /// Batches of the actual rows, in the same number as the planned batches.
    pub(super) batches: Batches,
    /// Batches of the planned rows.
    pub(super) planned: Batches,
    /// True if labels are summed for each batch.
    by_batch: bool,
}

impl<'a> Prepared<'a> {
    /// Prepares a table of at most `planned` rows by its own moments. `given` are class weights,
    /// for [`ClassWeights::Given`](super::ClassWeights::Given). A table whose rows have weights
    /// needs a plan with class weights.
    ///
    /// # Errors
    /// [`Error::Table`] if it has no target; [`Error::Train`]; [`Error::TooManyToCorrelate`].
    pub fn new(
        table: &'a Table,
        spec: &TrainSpec,
        planned: usize,
        given: Option<&[f64]>,
    ) -> Result<Self> {
        spec.check()?;
        let sums = class_sums(table)?;
        if table.row_weights().is_some() && spec.class_weights.is_none() {
            return Err(TrainError::UnplannedClassWeights.into());
        }
        let row_weights = spec.row_weights(&sums, given)?;
        let unscaled: Vec<f64> = sums.iter().map(|sum| sum * table.mean_row_weight()).collect();
        let alpha = spec.alpha(&unscaled, given)?;
        let transform = match (spec.preparation, spec.penalty) {
            // Correlations are not needed.
            (Preparation::Scale, Penalty::None) => {
                let rows = table.rows();
                let columns = table.features();
                let zeros = || vec![0.0; columns];
                let centers = zeros();
                let deviations = zeros();
                let moments = Moments { rows, centers, deviations, correlations: Vec::new() };
                let largest = largest(table, &moments.centers);
                Transform::new(spec.preparation, alpha, &moments, Some(largest), planned)
            }
            (preparation, _) => {
                let moments = Moments::of(table, &row_weights)?;
                let scaled = preparation == Preparation::Scale;
                let largest = scaled.then(|| largest(table, &vec![0.0; table.features()]));
                Transform::new(preparation, alpha, &moments, largest, planned)
            }
        };
        Self::with(table, spec, planned, row_weights, transform)
    }

    /// Prepares a table by a transform that it shares with other tables.
    ///
    /// # Errors
    /// [`Error::TransformColumns`] for a transform of other columns; [`Error::Train`].
    pub fn with(
        table: &'a Table,
        spec: &TrainSpec,
        planned: usize,
        row_weights: Vec<f64>,
        transform: Transform,
    ) -> Result<Self> {
        if transform.columns() != table.features() {
            let found = transform.columns();
            let needed = table.features();
            return Err(Error::TransformColumns { found, needed });
        }
        let planned = Batches::new(planned, spec);
        let batches = planned.of_rows(table.rows());
        if batches.count() > table.rows() {
            return Err(TrainError::Empty.into());
        }
        let by_batch = spec.preparation == Preparation::Scale;
        Ok(Self { table, transform, row_weights, batches, planned, by_batch })
    }

    /// Returns the table.
    #[must_use]
    pub fn table(&self) -> &'a Table {
        self.table
    }

    /// Returns the transform of rows to rows of the training.
    #[must_use]
    pub fn transform(&self) -> &Transform {
        &self.transform
    }

    /// Returns the weight of each class. Multiplied by the own weights of rows, the mean over all
    /// rows is 1.
    #[must_use]
    pub fn row_weights(&self) -> &[f64] {
        &self.row_weights
    }

    /// Returns the label of a row for a model: 1 if the row belongs to the class that the model
    /// separates from the others.
    pub(super) fn label(&self, row: usize, model: usize, models: usize) -> f64 {
        let class = self.table.members().map_or(0, |members| members[row] as usize);
        // A single model separates the second class from the first.
        let own = if models == 1 { 1 } else { model };
        if class == own { 1.0 } else { -1.0 }
    }

    pub(super) fn weight(&self, row: usize) -> f64 {
        Weights::new(self.table, &self.row_weights).of(row)
    }

    /// Returns the rows of the training for some rows of the table, row-major.
    pub(super) fn rows(&self, rows: Range<usize>) -> Vec<f64> {
        let columns = self.table.features();
        self.transform.rows(&self.table.values()[rows.start * columns..rows.end * columns])
    }

    /// Returns the scores of each row by the weights of each model, followed by 1, row-major.
    pub(super) fn scores(&self, weights: &[Vec<f64>]) -> Vec<f64> {
        let t = &self.transform;
        let of_near: Vec<Vec<f64>> = weights.iter().map(|weights| t.of_near(weights)).collect();
        let mut scores = Vec::with_capacity(self.table.rows() * (1 + weights.len()));
        for x in self.table.iter_rows() {
            let near: Vec<f64> = x.iter().enumerate().map(|(j, x)| t.near(j, *x)).collect();
            scores.extend(of_near.iter().map(|weights| {
                weights[0] + near.iter().zip(&weights[1..]).map(|(x, w)| x * w).sum::<f64>()
            }));
            scores.push(1.0);
        }
        scores
    }

    /// Returns the number of label sums for each model: one, or one for each batch that this number
    /// of iterations uses.
    #[must_use]
    pub(super) fn label_batches(&self, iterations: u32) -> usize {
        if self.by_batch { self.batches.used(iterations) } else { 1 }
    }

    /// Returns `sum_i c_i y_i x_i / 2m` over the rows of a batch, or over all rows.
    pub(super) fn label_mean(&self, batch: usize, model: usize, models: usize) -> Vec<f64> {
        let (rows, planned) = match self.by_batch {
            true => (self.batches.rows(batch), self.planned.rows(batch).len()),
            false => (0..self.table.rows(), self.planned.total()),
        };
        let half = |row, _| 0.5 * self.weight(row) * self.label(row, model, models);
        let Pass { sum, .. } = self.pass(rows, &vec![0.0; self.transform.entries()], half);
        sum.iter().map(|sum| sum / planned as f64).collect()
    }

    /// Returns the sum of `slope(i, x_i . v) x_i` over some rows, and the largest `|x_i . v|`. Rows
    /// stay in the coordinates of the table. Only `v` and the sum change coordinates.
    pub(super) fn pass(
        &self,
        rows: Range<usize>,
        v: &[f64],
        slope: impl Fn(usize, f64) -> f64 + Sync,
    ) -> Pass {
        let t = &self.transform;
        let v = t.of_near(v);
        // Parts do not depend on the number of threads, so that sums have the same bits.
        let parts = par::map(parts(rows.len(), 1), |part| {
            let mut sum = vec![0.0; t.entries()];
            let mut largest = 0.0_f64;
            let mut near = vec![0.0; t.columns()];
            for i in part {
                let i = rows.start + i;
                for ((near, x), j) in near.iter_mut().zip(row(self.table, i)).zip(0..) {
                    *near = t.near(j, *x);
                }
                let inner = v[0] + near.iter().zip(&v[1..]).map(|(x, v)| x * v).sum::<f64>();
                largest = largest.max(inner.abs());
                let slope = slope(i, inner);
                sum[0] += slope;
                sum[1..].iter_mut().zip(&near).for_each(|(sum, x)| *sum += slope * x);
            }
            (sum, largest)
        });
        let mut all = vec![0.0; t.entries()];
        for (part, _) in &parts {
            all.iter_mut().zip(part).for_each(|(all, part)| *all += part);
        }
        let largest = parts.iter().map(|(_, largest)| *largest).fold(0.0, f64::max);
        Pass { sum: t.of_sums(&all), largest }
    }
}

/// The result of [`Prepared::pass`].
pub(super) struct Pass {
    pub sum: Vec<f64>,
    pub largest: f64,
}

/// Returns the sum of the weights of the rows of each class: their number, if no row has a weight.
///
/// # Errors
/// [`Error::Table`] if the table has no target.
pub fn class_sums(table: &Table) -> Result<Vec<f64>> {
    let mut sums = vec![0.0; table.classes()?.len()];
    let own = table.row_weights();
    for (row, &class) in table.members()?.iter().enumerate() {
        sums[class as usize] += own.map_or(1.0, |weights| weights[row]);
    }
    Ok(sums)
}

#[cfg(test)]
mod tests;

//! The exact optimum that a training approximates, in the clear.

use crate::Result;
use crate::logreg::{
    prepare::Prepared,
    spec::{TrainError, TrainSpec},
};
use nalgebra::{Cholesky, DMatrix, DMatrixView, DVector};
use sudare_arith::{par, real};

/// Maximum number of steps.
const STEPS: u32 = 100;

/// Change of a weight below which the iteration stops.
const TOLERANCE: f64 = 1e-10;

/// Maximum number of halvings of a step that does not lower the loss.
const HALVINGS: u32 = 30;

/// Number of rows that are summed together, and of parts of the table that are summed in parallel.
const BLOCK: usize = 512;
// Fixed, so that sums do not depend on the number of cores of a machine.
const PARTS: usize = 16;

impl Prepared<'_> {
    /// Returns the weights of each model that minimise the penalised loss on these rows with the
    /// true sigmoid. For two classes these are the weights of scikit-learn's `LogisticRegression`
    /// with the same `C`, after convergence.
    ///
    /// It uses Newton's method, and memory for a block of rows in addition to the table.
    ///
    /// # Errors
    /// [`Error::Train`](crate::Error::Train) with `Diverged` if the loss has no minimum, for
    /// example for classes that a plane separates without a penalty.
    pub fn optimum(&self, spec: &TrainSpec) -> Result<Vec<Vec<f64>>> {
        (0..spec.models()).map(|model| self.optimum_of(model, spec.models())).collect()
    }

    fn optimum_of(&self, model: usize, models: usize) -> Result<Vec<f64>> {
        let mut weights = DVector::zeros(self.transform.entries());
        let mut now = self.expansion(&weights, (model, models));
        for iteration in 0..STEPS {
            let diverged = || TrainError::Diverged { iteration, largest: weights.amax() };
            let step = now.newton_step().ok_or_else(diverged)?;
            if step.amax() < TOLERANCE * (1.0 + weights.amax()) {
                return Ok((weights - step).as_slice().to_vec());
            }
            let mut length = 1.0;
            let mut halvings = 0;
            now = loop {
                let next = &weights - &step * length;
                let there = self.expansion(&next, (model, models));
                // After the last halving the step is accepted: near the optimum, rounding can raise
                // the loss.
                if there.loss <= now.loss || halvings == HALVINGS {
                    weights = next;
                    break there;
                }
                (length, halvings) = (length / 2.0, halvings + 1);
            };
        }
        Err(TrainError::Diverged { iteration: STEPS, largest: weights.amax() }.into())
    }

    /// Expands the penalised loss around some weights.
    fn expansion(&self, weights: &DVector<f64>, (model, models): (usize, usize)) -> Expansion {
        let rows = self.table.rows();
        let entries = self.transform.entries();
        let part = rows.div_ceil(PARTS).next_multiple_of(BLOCK);
        let parts = par::map((0..rows).step_by(part).collect::<Vec<_>>(), |first| {
            let mut sums = Expansion::zeros(entries);
            let end = rows.min(first + part);
            for start in (first..end).step_by(BLOCK) {
                let block = start..end.min(start + BLOCK);
                let values = self.rows(block.clone());
                let x = DMatrixView::from_slice(&values, entries, block.len());
                let scores = x.tr_mul(weights);
                let mut heavy = x.clone_owned();
                let mut slopes = DVector::zeros(block.len());
                for (at, row) in block.enumerate() {
                    let weight = self.weight(row);
                    let label = self.label(row, model, models);
                    let margin = label * scores[at];
                    let wrong = 1.0 / (1.0 + real::exp(margin));
                    // `ln(1 + exp(-margin))`, without overflow.
                    sums.loss += weight * (real::ln_1p(real::exp(-margin.abs())) - margin.min(0.0));
                    slopes[at] = -weight * label * wrong;
                    heavy.column_mut(at).scale_mut(weight * wrong * (1.0 - wrong));
                }
                sums.gradient.gemv(1.0, &x, &slopes, 1.0);
                sums.hessian.gemm(1.0, &heavy, &x.transpose(), 1.0);
            }
            sums
        });
        let mut all = Expansion::zeros(entries);
        let count = self.planned.total() as f64;
        for part in parts {
            all.loss += part.loss / count;
            all.gradient += part.gradient / count;
            all.hessian += part.hessian / count;
        }
        for (j, h) in self.transform.penalty().into_iter().enumerate() {
            all.loss += 0.5 * h * weights[j] * weights[j];
            all.gradient[j] += h * weights[j];
            all.hessian[(j, j)] += h;
        }
        all
    }
}

/// The second-order expansion of a function.
struct Expansion {
    loss: f64,
    gradient: DVector<f64>,
    hessian: DMatrix<f64>,
}

impl Expansion {
    fn zeros(entries: usize) -> Self {
        Self {
            loss: 0.0,
            gradient: DVector::zeros(entries),
            hessian: DMatrix::zeros(entries, entries),
        }
    }

    /// Returns the step to the minimum of the expansion. Flat directions are skipped.
    fn newton_step(&self) -> Option<DVector<f64>> {
        let mut hessian = self.hessian.clone();
        let largest = hessian.diagonal().amax();
        // A tiny curvature in flat directions, so that the factor exists.
        for j in 0..hessian.nrows() {
            hessian[(j, j)] += largest * f64::EPSILON;
        }
        let step = Cholesky::new(hessian)?.solve(&self.gradient);
        step.iter().all(|x| x.is_finite()).then_some(step)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Error,
        logreg::{Penalty, Preparation},
    };
    use sudare_table::Table;

    fn of(table: &Table, spec: &TrainSpec, planned: usize) -> Result<Vec<f64>> {
        let rows = Prepared::new(table, spec, planned, None)?;
        Ok(rows.transform().of_columns(&rows.optimum(spec)?[0]))
    }

    /// The gradient of the penalised loss on the user's columns is 0. The model is the same for all
    /// preparations and numbers of planned rows.
    #[test]
    fn the_loss_is_stationary_whatever_the_preparation() {
        let table = Table::bundled("lbw").unwrap();
        let rows = table.rows() as f64;
        let labels = table.labels().unwrap();
        let spec = TrainSpec::default();
        let weights = of(&table, &spec, table.rows()).unwrap();
        let mut slopes = vec![0.0; weights.len()];
        for (x, label) in table.iter_rows().zip(labels) {
            let score = weights[0] + x.iter().zip(&weights[1..]).map(|(x, w)| x * w).sum::<f64>();
            let slope = 1.0 / (1.0 + (-score).exp()) - f64::from(u8::from(label));
            slopes[0] += slope;
            slopes[1..].iter_mut().zip(x).for_each(|(sum, x)| *sum += slope * x);
        }
        assert!(slopes[0].abs() < 1e-9, "{slopes:?}");
        for j in 0..table.features() {
            let mean = table.column(j).sum::<f64>() / rows;
            let variance = table.column(j).map(|x| (x - mean).powi(2)).sum::<f64>() / rows;
            // The derivative of sum_j (w_j sigma_j)^2 / 2.
            let slope = slopes[1 + j] + weights[1 + j] * variance;
            assert!(slope.abs() < 1e-8 * (1.0 + variance), "{j}: {slope:e}");
        }
        for preparation in [Preparation::Standardize, Preparation::Scale] {
            let same = of(&table, &TrainSpec { preparation, ..spec }, 250).unwrap();
            for (a, b) in same.iter().zip(&weights) {
                assert!((a - b).abs() < 1e-7 * (1.0 + b.abs()), "{preparation:?}: {a} {b}");
            }
        }
    }

    #[test]
    fn separated_classes_have_a_model_only_with_a_penalty() {
        let values = [1.0, 2.0, 3.0, 4.0].to_vec();
        let labels = vec![false, false, true, true];
        let table = Table::new(vec!["x".into()], values, Some(("y".into(), labels))).unwrap();
        let free = TrainSpec { penalty: Penalty::None, ..TrainSpec::default() };
        let refused = of(&table, &free, 4).unwrap_err();
        assert!(matches!(refused, Error::Train(TrainError::Diverged { .. })), "{refused}");
        assert!(of(&table, &TrainSpec::default(), 4).unwrap()[1] > 0.5);
    }
}

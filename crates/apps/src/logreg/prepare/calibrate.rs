//! Calibration, which the owner of rows does in the clear: scores become logits of probabilities
//! again.

use crate::logreg::prepare::Prepared;
use nalgebra::{Cholesky, DMatrix, DVector, Dyn};
use sudare_arith::{par, real};

/// Maximum number of steps, and the change of a factor below which the iteration stops.
const STEPS: usize = 1000;
const TOLERANCE: f64 = 1e-8;

/// Number of rows in each partial sum.
const PART: usize = 4096;

impl Prepared<'_> {
    /// Calibrates trained weights: returns the weights of minimum penalised loss on these rows,
    /// among affine functions of the trained scores.
    ///
    /// For one model the new score is a factor times its score plus a constant. For several models,
    /// each new score is a linear function of all scores, and the softmax compares them.
    ///
    /// A polynomial in place of the sigmoid, and steps that stop before convergence, yield scores
    /// that order rows well but are not logits of probabilities. A single model that has converged
    /// with the true sigmoid does not change. The cost is at most
    /// `1000 x rows x (models + 1) x models` products.
    ///
    /// References: Platt, "Probabilistic outputs for support vector machines", 1999; for several
    /// models Guo, Pleiss, Sun, Weinberger, "On calibration of modern neural networks", ICML 2017,
    /// section 4.2 (matrix scaling). Descent by a fixed bound of the Hessian: Böhning, "Multinomial
    /// logistic regression algorithm", Ann. Inst. Stat. Math. 44, 1992.
    #[must_use]
    pub fn calibrated(&self, weights: &[Vec<f64>]) -> Vec<Vec<f64>> {
        let Some(factors) = Fit::new(self, weights).and_then(|fit| fit.minimise()) else {
            return weights.to_vec();
        };
        let models = weights.len();
        let size = self.transform.size();
        let combined = |to: usize| {
            let mut sum = vec![0.0; self.transform.entries()];
            for (from, weights) in weights.iter().enumerate() {
                let factor = factors[(from, to)];
                sum.iter_mut().zip(weights).for_each(|(sum, w)| *sum += factor * w);
            }
            // The entry of the intercept is `size`, not 1.
            sum[0] += factors[(models, to)] / size;
            sum
        };
        (0..models).map(combined).collect()
    }
}

/// The loss as a function of factors. They multiply the scores and a trailing 1, with a column of
/// factors for each new score.
struct Fit<'a> {
    rows: &'a Prepared<'a>,
    models: usize,
    /// The scores of each row, followed by 1.
    scores: Vec<f64>,
    /// The Hessian of the penalty of a column of factors.
    penalty: DMatrix<f64>,
    /// A bound of the Hessian of the loss for a column of factors.
    bound: Cholesky<f64, Dyn>,
}

impl<'a> Fit<'a> {
    /// Returns `None` if scores are not finite, or equal for all rows.
    fn new(rows: &'a Prepared<'a>, weights: &[Vec<f64>]) -> Option<Self> {
        let models = weights.len();
        let scores = rows.scores(weights);
        if !scores.iter().all(|score| score.is_finite()) {
            return None;
        }
        let of_weights = |k: usize| DVector::from_column_slice(&weights[k]);
        let h = DVector::from_vec(rows.transform.penalty());
        let mut penalty = DMatrix::zeros(models + 1, models + 1);
        for j in 0..models {
            for k in 0..models {
                penalty[(j, k)] = of_weights(j).component_mul(&h).dot(&of_weights(k));
            }
        }
        // The rows planned, to which the penalty of the weights refers.
        let count = rows.planned.total() as f64;
        let mut products = DMatrix::zeros(models + 1, models + 1);
        for (row, scores) in scores.chunks_exact(models + 1).enumerate() {
            let scores = DVector::from_column_slice(scores);
            products.ger(rows.weight(row) / count, &scores, &scores, 1.0);
        }
        // The variance of a label is at most 1/4, and the covariance matrix of labels at most 1/2.
        let curvature = if models == 1 { 0.25 } else { 0.5 };
        let bound = Cholesky::new(products * curvature + &penalty)?;
        Some(Self { rows, models, scores, penalty, bound })
    }

    /// Finds the factors of minimum loss by accelerated steps, which restart when they overshoot.
    fn minimise(&self) -> Option<DMatrix<f64>> {
        // The scores as they are, so that calibrated models stay unchanged.
        let mut now = DMatrix::identity(self.models + 1, self.models);
        let mut ahead = now.clone();
        let mut momentum = 1.0_f64;
        for _ in 0..STEPS {
            let step = self.bound.solve(&self.gradient(&ahead));
            let next = &ahead - &step;
            let moved = &next - &now;
            if !next.iter().all(|factor| factor.is_finite()) {
                return None;
            }
            if step.amax() < TOLERANCE {
                return Some(next);
            }
            // The step overshoots if it points away from the previous movement.
            let uphill = step.dot(&moved) > 0.0;
            let following =
                if uphill { 1.0 } else { (1.0 + (1.0 + 4.0 * momentum * momentum).sqrt()) / 2.0 };
            let carried = if uphill { 0.0 } else { (momentum - 1.0) / following };
            ahead = &next + moved * carried;
            (now, momentum) = (next, following);
        }
        Some(now)
    }

    fn gradient(&self, factors: &DMatrix<f64>) -> DMatrix<f64> {
        let models = self.models;
        let rows = self.rows.table.rows();
        let count = self.rows.planned.total() as f64;
        let parts: Vec<usize> = (0..rows).step_by(PART).collect();
        let parts = par::map(parts, |start| {
            let mut sum = DMatrix::zeros(models + 1, models);
            for row in start..rows.min(start + PART) {
                let scores = &self.scores[row * (models + 1)..][..=models];
                let scores = DVector::from_column_slice(scores);
                let mut slope = probabilities(&(factors.tr_mul(&scores)));
                for (model, slope) in slope.iter_mut().enumerate() {
                    *slope -= (1.0 + self.rows.label(row, model, models)) / 2.0;
                }
                sum.ger(self.rows.weight(row) / count, &scores, &slope, 1.0);
            }
            sum
        });
        let mut all = &self.penalty * factors;
        parts.iter().for_each(|part| all += part);
        all
    }
}

/// Returns the sigmoid of one score, or the softmax of several.
fn probabilities(scores: &DVector<f64>) -> DVector<f64> {
    if scores.len() == 1 {
        return scores.map(|score| 1.0 / (1.0 + real::exp(-score)));
    }
    // The largest exponent becomes 0, so that nothing overflows.
    let largest = scores.max();
    let parts = scores.map(|score| real::exp(score - largest));
    let sum = parts.sum();
    parts / sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logreg::{LearningRate, Penalty, TrainSpec, reference};
    use sudare_table::Table;

    fn loss(rows: &Prepared<'_>, weights: &[Vec<f64>]) -> f64 {
        let models = weights.len();
        let scores = rows.scores(weights);
        let of_rows = scores.chunks_exact(models + 1).enumerate().map(|(row, scores)| {
            let p = probabilities(&DVector::from_column_slice(&scores[..models]));
            let own = (0..models).find(|&m| rows.label(row, m, models) > 0.0);
            -own.map_or_else(|| 1.0 - p[0], |own| p[own]).ln() * rows.weight(row)
        });
        let h = rows.transform.penalty();
        let squares = weights.iter().flat_map(|w| w.iter().zip(&h).map(|(w, h)| h * w * w));
        of_rows.sum::<f64>() / rows.planned.total() as f64 + squares.sum::<f64>() / 2.0
    }

    /// The loss increases in every direction of factors.
    #[test]
    fn calibrated_weights_have_the_least_loss() {
        let lbw = Table::bundled("lbw").unwrap();
        // Three classes by the weight of the mother and the age.
        let members = lbw.iter_rows().map(|x| u32::from(x[0] > 22.0) + u32::from(x[1] > 130.0));
        let names = ["a", "b", "c"].map(String::from).to_vec();
        let target = ("y".into(), names, members.collect());
        let columns = lbw.columns().to_vec();
        let three = Table::with_classes(columns, lbw.values().to_vec(), target).unwrap();
        for (table, classes) in [(&lbw, 2), (&three, 3)] {
            let spec = TrainSpec { classes, iterations: 3, ..TrainSpec::default() };
            let rows = Prepared::new(table, &spec, table.rows() + 10, None).unwrap();
            let trained = reference::train(&rows, &spec).unwrap();
            let found = rows.calibrated(&trained);
            let least = loss(&rows, &found);
            assert!(least < loss(&rows, &trained), "{classes}");
            for (to, from) in
                (0..found.len()).flat_map(|to| (0..=found.len()).map(move |f| (to, f)))
            {
                for h in [-1e-3, 1e-3] {
                    let mut other = found.clone();
                    match trained.get(from) {
                        None => other[to][0] += h,
                        Some(trained) => {
                            other[to].iter_mut().zip(trained).for_each(|(w, t)| *w += h * t);
                        }
                    }
                    assert!(loss(&rows, &other) > least, "{classes} {to} {from}");
                }
            }
        }
    }

    #[test]
    fn rows_that_are_planned_for_change_nothing() {
        let table = Table::bundled("lbw").unwrap();
        let spec = TrainSpec { penalty: Penalty::C(0.01), ..TrainSpec::default() };
        let calibrated = |planned| {
            let rows = Prepared::new(&table, &spec, planned, None).unwrap();
            let trained = reference::train(&rows, &spec).unwrap();
            rows.transform().of_columns(&rows.calibrated(&trained)[0])
        };
        let own = calibrated(table.rows());
        let many = calibrated(10 * table.rows());
        for (own, many) in own.iter().zip(&many) {
            assert!((own - many).abs() < 1e-6 * (1.0 + own.abs()), "{own} {many}");
        }
    }

    #[test]
    fn converged_models_stay() {
        let table = Table::bundled("lbw").unwrap();
        let spec = TrainSpec {
            iterations: 400,
            penalty: Penalty::C(1.0),
            learning_rate: LearningRate::Constant(4.0),
            ..TrainSpec::default()
        };
        let rows = Prepared::new(&table, &spec, table.rows(), None).unwrap();
        let trained = reference::train_exact(&rows, &spec).unwrap();
        for (a, b) in rows.calibrated(&trained)[0].iter().zip(&trained[0]) {
            assert!((a - b).abs() < 1e-6, "{a} {b}");
        }
    }

    /// Weights of 0, and classes that a score separates without a penalty, stay unchanged.
    #[test]
    fn nothing_is_made_of_nothing() {
        let table = Table::bundled("lbw").unwrap();
        let spec = TrainSpec { penalty: Penalty::None, ..TrainSpec::default() };
        let rows = Prepared::new(&table, &spec, table.rows(), None).unwrap();
        let zeros = vec![vec![0.0; 10]];
        assert_eq!(rows.calibrated(&zeros), zeros);
        assert_eq!(rows.calibrated(&[vec![f64::NAN; 10]]).len(), 1);
        let values = (0..20).map(f64::from).collect();
        let labels = (0..20).map(|i| i > 9).collect();
        let apart = Table::new(vec!["x".into()], values, Some(("y".into(), labels))).unwrap();
        let rows = Prepared::new(&apart, &spec, 20, None).unwrap();
        let trained = reference::train(&rows, &spec).unwrap();
        assert!(rows.calibrated(&trained)[0].iter().all(|w| w.is_finite()));
    }
}

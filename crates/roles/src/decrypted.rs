//! What results hold, once the owner of a table has decrypted them.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

use crate::{
    error::{Error, Result},
    fingerprint::{Fingerprints, other_columns},
    model::{Model, ModelKind},
    note::Trained,
    reading::arranged,
};
use sudare_apps::{
    logreg::{Prepared, Scores, TrainPlan, Transform},
    stats::{GroupStatistics, Histogram, Statistics},
};
use sudare_table::Table;

/// What a result holds, for the owner of the key alone.
pub enum Decrypted {
    /// Of a training.
    Model(Box<TrainedModel>),
    /// Of the columns of a table.
    Statistics {
        /// Their names.
        columns: Vec<String>,
        /// In their order.
        statistics: Statistics,
    },
    /// Of columns by groups of rows.
    Groups {
        /// Name of the column whose values tell groups apart.
        key: String,
        /// Its values, ascending.
        labels: Vec<f64>,
        /// Names of the other columns.
        columns: Vec<String>,
        /// In the order of both.
        statistics: GroupStatistics,
    },
    /// Of the values of columns.
    Histograms {
        /// Rows of the table.
        rows: usize,
        /// Names of the columns.
        columns: Vec<String>,
        /// In their order.
        histograms: Vec<Histogram>,
    },
    /// Of rows by a model.
    Scores {
        /// And their probabilities, if the server computed them.
        scores: Scores,
        /// The classes that the model tells apart.
        classes: Vec<String>,
        /// Whether the classes are text, also where they look like numbers.
        text_labels: bool,
        /// Those of the rows, if they are known.
        members: Option<Vec<u32>>,
    },
}

/// The weights of each model after each iteration.
type History = Vec<Vec<Vec<f64>>>;

/// A model as it was trained, and what else its owner can make of it.
pub struct TrainedModel {
    /// The model of the table's own columns.
    pub model: Model,
    /// How it was trained, which also says whether it can be shared.
    pub plan: Box<TrainPlan>,
    /// The weights in the coordinates of the training.
    weights: Vec<Vec<f64>>,
    trained: Trained,
}

impl TrainedModel {
    /// A model of the weights that so many iterations on some rows gave, as [`TrainPlan::decode`] gives
    /// them, and of those after each of them, where they were kept. Also of a training in the
    /// clear.
    ///
    /// # Errors
    /// [`Error::Apps`] for a note of other columns.
    pub fn new(
        (plan, iterations): (Box<TrainPlan>, u32),
        note: (Vec<String>, usize, Trained),
        (weights, history): (Vec<Vec<f64>>, Option<History>),
    ) -> Result<Self> {
        let (columns, rows, trained) = note;
        let Trained { transform, shown, .. } = &trained;
        let of_columns = |weights: &Vec<Vec<f64>>| -> Result<Vec<Vec<f64>>> {
            let under = |weights: &Vec<f64>| Ok(transform.weights_under(weights, shown)?);
            weights.iter().map(under).collect()
        };
        let model = Model {
            kind: ModelKind::LogisticRegression,
            weights: of_columns(&weights)?,
            columns,
            target: trained.target.clone(),
            classes: trained.classes.clone(),
            text_labels: trained.text_labels,
            centers: shown.centers().to_vec(),
            divisors: shown.divisors().to_vec(),
            iterations,
            rows,
            training: Some(plan.job().spec),
            class_weights: trained.class_weights.clone(),
            calibrated: false,
            shared_bits: None,
            encoding: trained.encoding.clone(),
            held_out: trained.held_out,
            fingerprints: trained.fingerprints,
            transform: plan.job().spec.scorable.then(|| transform.clone()),
            history: history.map(|all| all.iter().map(of_columns).collect()).transpose()?,
        };
        Ok(Self { model, plan, weights, trained })
    }

    /// The model whose probabilities are right on the rows that it was trained on: weights are
    /// fitted to them along the scores that they give, which changes the order of scores of two
    /// classes nowhere. See [`Prepared::calibrated`].
    ///
    /// # Errors
    /// [`Error::Usage`] and [`Error::Apps`] for a table that it was not trained on, and for scores
    /// that would have to be negated to suit the classes.
    pub fn calibrated(&self, table: &Table) -> Result<Model> {
        let (model, job) = (&self.model, self.plan.job());
        let table = arranged(table, &model.columns, &model.classes)?;
        if table.rows() != model.rows {
            return Err(other_table(&format!(
                "it has {} rows, and the model was trained on {}",
                table.rows(),
                model.rows
            )));
        }
        table.check_for_training()?;
        let given = self.trained.class_weights.as_deref();
        self.expect_trained_on(&table)?;
        let mut counts = vec![0; model.classes.len()];
        for &class in table.members()? {
            // A table has no class beyond those that it names.
            if let Some(count) = counts.get_mut(class as usize) {
                *count = usize::saturating_add(*count, 1);
            }
        }
        let weights = job.spec.row_weights(&counts, given).map_err(sudare_apps::Error::from)?;
        let (transform, rows) = (self.trained.transform.clone(), job.rows);
        let prepared = Prepared::with(&table, &job.spec, rows, weights, transform)?;
        let fitted = prepared.calibrated(&self.weights);
        if opposed(&self.weights, &fitted) {
            return Err(Error::Usage(
                "the model cannot be calibrated: its scores suit the classes of these rows only when \
                 they are negated. Give the classes that were encrypted; if they are, train with a \
                 lower learning rate or more iterations, or leave the model uncalibrated"
                    .into(),
            ));
        }
        let under =
            |weights: &Vec<f64>| self.trained.transform.weights_under(weights, &self.trained.shown);
        let weights = fitted.iter().map(under).collect::<sudare_apps::Result<_>>()?;
        Ok(Model { weights, calibrated: true, ..model.clone() })
    }

    /// Refuses other rows than the model was trained on, as far as its note tells.
    fn expect_trained_on(&self, table: &Table) -> Result<()> {
        let Trained { transform, shown, fingerprints, class_weights, .. } = &self.trained;
        let columns = match fingerprints {
            Some(Fingerprints { trained, .. }) if trained.fits(table, shown)? => return Ok(()),
            Some(_) => other_columns(table, shown, &Transform::spreading(table)),
            // Nobody had all rows when they were encrypted, or it was an earlier version.
            None => {
                let (spec, planned) = (&self.plan.job().spec, self.plan.job().rows);
                let found = Prepared::new(table, spec, planned, class_weights.as_deref())?;
                let columns = other_columns(table, transform, found.transform());
                if columns.is_empty() {
                    return Ok(());
                }
                columns
            }
        };
        Err(other_table(&match &columns[..] {
            [] => "its rows have other values or classes".into(),
            columns => format!("other values are in column {}", columns.join(", ")),
        }))
    }
}

fn other_table(found: &str) -> Error {
    Error::Usage(format!(
        "this is not the table that the model was trained on: {found}. Calibrate the model with the \
         rows and classes that were encrypted, in any order"
    ))
}

/// Whether scores by some weights go up where scores by others go down.
fn opposed(weights: &[Vec<f64>], others: &[Vec<f64>]) -> bool {
    let several = weights.len() > 1;
    let mean = |of: &[Vec<f64>], at: usize| {
        let sum: f64 = of.iter().filter_map(|weights| weights.get(at)).sum();
        if several { sum / of.len() as f64 } else { 0.0 }
    };
    let entries = weights.first().map_or(0, Vec::len);
    // Only differences of scores count among several classes, and the intercept orders no rows.
    let product = (1..entries).map(|at| {
        let (center, other) = (mean(weights, at), mean(others, at));
        let pairs = weights.iter().zip(others);
        let products =
            pairs.filter_map(|(w, o)| Some((w.get(at)? - center) * (o.get(at)? - other)));
        products.sum::<f64>()
    });
    product.sum::<f64>() < 0.0
}

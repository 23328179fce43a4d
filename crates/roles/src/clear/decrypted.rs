//! Decrypted results of the owner of a table.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

use crate::{
    clear::{
        fingerprint::{Fingerprints, other_columns},
        groups::GroupLabels,
        model::{Model, ModelKind},
        note::Trained,
        reading::arranged,
    },
    error::{Error, Result},
};
use sudare_apps::{
    logreg::{Prepared, Scores, TrainPlan, Transform, class_sums},
    stats::{GroupStatistics, Histogram, Statistics},
};
use sudare_table::Table;

/// A decrypted result, for the owner of the key alone.
pub enum Decrypted {
    /// The result of a training.
    Model(Box<TrainedModel>),
    /// Statistics of the columns of a table.
    Statistics {
        /// Names of the columns.
        columns: Vec<String>,
        /// The statistics, in the order of the columns.
        statistics: Statistics,
    },
    /// Statistics of columns by groups of rows.
    Groups {
        /// Name of the column whose values define the groups.
        key: String,
        /// The values of the key column, in order.
        labels: GroupLabels,
        /// Names of the other columns.
        columns: Vec<String>,
        /// The statistics, in the order of labels and columns.
        statistics: GroupStatistics,
    },
    /// Histograms of columns.
    Histograms {
        /// Number of rows of the table.
        rows: usize,
        /// Names of the columns.
        columns: Vec<String>,
        /// The histograms, in the order of the columns.
        histograms: Vec<Histogram>,
    },
    /// Scores of rows by a model.
    Scores {
        /// The scores, and the probabilities if the server computed them.
        scores: Scores,
        /// The classes of the model.
        classes: Vec<String>,
        /// True if the classes are text even where they look like numbers.
        text_labels: bool,
        /// The class of each row, if it is known.
        members: Option<Vec<u32>>,
    },
}

/// The weights of each model after each iteration.
type History = Vec<Vec<Vec<f64>>>;

/// A trained model, and the values that its owner needs to calibrate it.
pub struct TrainedModel {
    /// The model in the coordinates of the table's own columns.
    pub model: Model,
    /// The plan of the training, which also says whether the model can be shared.
    pub plan: Box<TrainPlan>,
    /// The weights in the coordinates of the training.
    weights: Vec<Vec<f64>>,
    trained: Trained,
}

impl TrainedModel {
    /// Creates a model from the weights after `iterations` iterations, as [`TrainPlan::decode`]
    /// returns them. `history` has the weights after each iteration, where they were kept. A
    /// training in the clear uses this function too.
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
            // Only a scorable training leaves an encrypted model whose rows need this preparation.
            transform: plan.job().spec.scorable.then(|| transform.clone()),
            history: history.map(|all| all.iter().map(of_columns).collect()).transpose()?,
        };
        Ok(Self { model, plan, weights, trained })
    }

    /// Returns the model, calibrated on the rows that it was trained on. The weights are fitted to
    /// the rows along their scores. With two classes this never changes the order of the scores.
    /// See [`Prepared::calibrated`].
    ///
    /// # Errors
    /// [`Error::Usage`] and [`Error::Apps`] for a table other than the training table, and for
    /// scores that fit the classes only when negated.
    pub fn calibrated(&self, table: &Table) -> Result<Model> {
        let model = &self.model;
        let job = self.plan.job();
        let table = arranged(table, &model.columns, &model.classes)?;
        // Counted first: with rows missing, the checks below would name columns that are not at
        // fault.
        if table.rows() != model.rows {
            return Err(other_table(&format!(
                "it has {} rows, but the model was trained on {}",
                table.rows(),
                model.rows
            )));
        }
        table.check_for_training()?;
        let given = self.trained.class_weights.as_deref();
        self.expect_trained_on(&table)?;
        let sums = class_sums(&table)?;
        let weights = job.spec.row_weights(&sums, given).map_err(sudare_apps::Error::from)?;
        let transform = self.trained.transform.clone();
        let rows = job.rows;
        let prepared = Prepared::with(&table, &job.spec, rows, weights, transform)?;
        let fitted = prepared.calibrated(&self.weights);
        // With two classes, calibration by a negative factor would swap the classes of all rows.
        if opposed(&self.weights, &fitted) {
            return Err(Error::Usage(
                "the model cannot be calibrated: its scores fit the classes of these rows only \
                 when they are negated. Pass the classes that were encrypted. If you did, train \
                 with a lower learning rate or more iterations, or leave the model uncalibrated"
                    .into(),
            ));
        }
        let under =
            |weights: &Vec<f64>| self.trained.transform.weights_under(weights, &self.trained.shown);
        let weights = fitted.iter().map(under).collect::<sudare_apps::Result<_>>()?;
        Ok(Model { weights, calibrated: true, ..model.clone() })
    }

    /// Refuses rows other than the training rows, as far as the note tells.
    fn expect_trained_on(&self, table: &Table) -> Result<()> {
        let Trained { transform, shown, fingerprints, class_weights, .. } = &self.trained;
        let columns = match fingerprints {
            Some(Fingerprints { trained, .. }) if trained.fits(table, shown)? => return Ok(()),
            Some(_) => other_columns(table, shown, &Transform::spreading(table)),
            // Several owners encrypted the rows, or an earlier version did.
            None => {
                let spec = &self.plan.job().spec;
                let planned = self.plan.job().rows;
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

/// Returns whether scores by `weights` rise where scores by `others` fall.
fn opposed(weights: &[Vec<f64>], others: &[Vec<f64>]) -> bool {
    let several = weights.len() > 1;
    let mean = |of: &[Vec<f64>], at: usize| {
        let sum: f64 = of.iter().filter_map(|weights| weights.get(at)).sum();
        if several { sum / of.len() as f64 } else { 0.0 }
    };
    let entries = weights.first().map_or(0, Vec::len);
    // Among several classes only differences of scores count. The intercept does not order rows.
    let product = (1..entries).map(|at| {
        let center = mean(weights, at);
        let other = mean(others, at);
        let pairs = weights.iter().zip(others);
        let products =
            pairs.filter_map(|(w, o)| Some((w.get(at)? - center) * (o.get(at)? - other)));
        products.sum::<f64>()
    });
    // Strictly below 0: weights of 0 order no rows, so they oppose nothing.
    product.sum::<f64>() < 0.0
}

//! Pages about decrypted results, for the owner: quality, charts and weights of models, and figures
//! of columns.

mod figures;
mod page;
mod svg;

pub use figures::Figures;
pub use page::{STYLE, fields};

use crate::{clear::model::Model, error::Result};
use serde::Serialize;
use sudare_apps::logreg::{Batches, Prepared, TrainSpec, Transform, reference};
use sudare_arith::{par, real};
use sudare_table::{
    Table,
    metrics::{self, Quality},
};

/// A model and its quality on a table, in figures. [`Report::page`] shows them.
#[derive(Serialize)]
pub struct Report {
    target: String,
    classes: Vec<String>,
    features: usize,
    iterations: u32,
    trained_rows: usize,
    /// Fractional bits of the released weights; `None` if they are for the owner of the key alone.
    shared_bits: Option<u32>,
    #[serde(flatten)]
    quality: Quality,
    /// Quality on the other table.
    #[serde(skip_serializing_if = "Option::is_none")]
    test: Option<Quality>,
    /// Share of rows in the second of two classes.
    #[serde(skip_serializing_if = "Option::is_none")]
    base_rate: Option<f64>,
    /// Quality after each iteration; empty without a history.
    curve: Vec<Step>,
    /// False and true positive rates at falling thresholds, for two classes.
    #[serde(skip_serializing_if = "Option::is_none")]
    roc: Option<Vec<[f64; 2]>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    histogram: Option<Histogram>,
    /// Groups of rows, in the order of their probabilities.
    calibration: Vec<Calibration>,
    /// Row counts by class and predicted class.
    confusion: Vec<Vec<usize>>,
    /// Intercept of each weight vector.
    intercepts: Vec<f64>,
    /// Weights of all classes, the largest effect of a standard deviation first.
    weights: Vec<Weight>,
}

/// Quality of the weights after an iteration, and of the same training in the clear.
#[derive(Serialize)]
struct Step {
    iteration: u32,
    log_loss: f64,
    auc: Option<f64>,
    clear_log_loss: Option<f64>,
    clear_auc: Option<f64>,
}

/// Row counts of either class by their probability of the second class, in bins of equal width.
#[derive(Serialize)]
struct Histogram {
    edges: Vec<f64>,
    zeros: Vec<usize>,
    ones: Vec<usize>,
}

#[derive(Serialize)]
struct Calibration {
    rows: usize,
    /// Mean probability of the second class. With more than two classes, of the predicted class.
    predicted: f64,
    /// Share of rows in that class.
    observed: f64,
}

#[derive(Serialize)]
struct Weight {
    /// The class of the weight vector, if there are more than two classes.
    #[serde(skip_serializing_if = "Option::is_none")]
    class: Option<String>,
    column: String,
    weight: f64,
    divisor: f64,
    /// Change of the score by a standard deviation of the column in the measured rows. A single
    /// outlier hardly changes it, but it changes `divisor`.
    per_std: f64,
}

/// Maximum number of products of entries and weights, about a second of work. The curve and the
/// training in the clear have this budget each.
const MAX_PRODUCTS: usize = 1 << 30;
/// Approximate number of corners of a ROC curve.
// The picture is 340 pixels wide, so more corners would not show.
const ROC_POINTS: f64 = 400.0;
const BINS: usize = 20;
/// Maximum number of calibration groups, and minimum number of rows in each.
const GROUPS: usize = 10;
const GROUP_ROWS: usize = 10;

impl Report {
    /// Measures a model on a table with known classes, and on `test` too if it is given.
    ///
    /// # Errors
    /// [`Error::Usage`](crate::error::Error::Usage) for a table with other columns;
    /// [`Error::Table`](crate::error::Error::Table) for a table without classes;
    /// [`Error::Metric`](crate::error::Error::Metric).
    pub fn new(model: &Model, table: &Table, test: Option<&Table>) -> Result<Self> {
        let scores = model.scores(table)?;
        let members = table.members()?;
        let quality = Quality::of(&scores, members)?;
        let binary = match (&scores[..], table.labels()) {
            ([scores], Ok(labels)) => Some((scores, labels)),
            _ => None,
        };
        // With rows of one class only, there is no rate of the other class to draw.
        let of_binary = binary.as_ref().filter(|_| quality.auc.is_some());
        Ok(Self {
            target: table.target().unwrap_or_default().into(),
            classes: model.classes.clone(),
            features: table.features(),
            iterations: model.iterations,
            trained_rows: model.rows,
            shared_bits: model.shared_bits,
            base_rate: binary.as_ref().map(|(_, labels)| {
                labels.iter().filter(|&&label| label).count() as f64 / labels.len() as f64
            }),
            curve: curve(model, table)?,
            roc: of_binary.map(|(scores, l)| metrics::roc(scores, l)).transpose()?.map(thinned),
            histogram: binary.as_ref().map(|(scores, labels)| Histogram::new(scores, labels)),
            calibration: calibration(&scores, members),
            confusion: confusion(&scores, members, model.classes.len()),
            intercepts: model.weights.iter().map(|weights| weights[0]).collect(),
            weights: weights(model, table),
            quality,
            test: test.map(|test| model.quality(test)).transpose()?,
        })
    }

    /// Returns the quality on the first table.
    #[must_use]
    pub fn quality(&self) -> &Quality {
        &self.quality
    }
}

/// Returns the weights of all classes, the largest effect of a standard deviation first.
fn weights(model: &Model, table: &Table) -> Vec<Weight> {
    let several = model.weights.len() > 1;
    let deviations: Vec<f64> =
        model.columns.iter().map(|column| deviation(table, column)).collect();
    let of_model = |(class, of_class): (usize, &Vec<f64>)| -> Vec<Weight> {
        let columns = model.columns.iter().zip(&model.divisors).zip(&deviations);
        let weights = columns.zip(&of_class[1..]);
        let weights = weights.map(|(((column, &divisor), deviation), &weight)| Weight {
            class: several.then(|| model.classes[class].clone()),
            column: column.clone(),
            weight,
            divisor,
            per_std: weight * (deviation / divisor),
        });
        weights.collect()
    };
    let mut weights: Vec<Weight> = model.weights.iter().enumerate().flat_map(of_model).collect();
    weights.sort_by(|a, b| b.per_std.abs().total_cmp(&a.per_std.abs()));
    weights
}

/// Returns the standard deviation of a column, which divides by the number of rows. The column
/// exists: the model has scored the table.
fn deviation(table: &Table, column: &str) -> f64 {
    let Some(at) = table.columns().iter().position(|name| name == column) else { return 0.0 };
    let largest = table.column(at).map(f64::abs).fold(0.0, f64::max);
    if largest == 0.0 {
        return 0.0;
    }
    // In units of the largest magnitude, so that squares neither overflow nor vanish.
    let mean = table.column(at).map(|x| x / largest).sum::<f64>() / table.rows() as f64;
    let squares = table.column(at).map(|x| (x / largest - mean) * (x / largest - mean));
    largest * (squares.sum::<f64>() / table.rows() as f64).sqrt()
}

/// Counts rows by class and predicted class.
fn confusion(scores: &[Vec<f64>], members: &[u32], classes: usize) -> Vec<Vec<usize>> {
    let mut counts = vec![vec![0; classes]; classes];
    for (row, &class) in members.iter().enumerate() {
        counts[class as usize][metrics::named(scores, row)] += 1;
    }
    counts
}

/// Measures the weights after each iteration. A long training on a large table is sampled at some
/// iterations.
fn curve(model: &Model, table: &Table) -> Result<Vec<Step>> {
    let Some(history) = &model.history else { return Ok(Vec::new()) };
    let members = table.members()?;
    let clear = clear_history(model, table)?;
    let products = table.rows() * (1 + model.columns.len()) * model.weights.len();
    // At least 20 points, so that even a large table shows the course of its training.
    let most = (MAX_PRODUCTS / products).max(20);
    let last = history.len() - 1;
    let every = history.len().div_ceil(most);
    // The last iteration is always shown: its weights are the model.
    let shown = (0..history.len()).filter(|i| i % every == 0 || *i == last);
    par::try_map(shown.collect::<Vec<_>>(), |i| {
        let quality = |weights: &[Vec<f64>]| -> Result<_> {
            Ok(Quality::of(&model.scores_with(weights, table)?, members)?)
        };
        let encrypted = quality(&history[i])?;
        let clear = clear.as_ref().map(|clear| quality(&clear[i])).transpose()?;
        Ok(Step {
            iteration: i as u32 + 1,
            log_loss: encrypted.log_loss,
            auc: encrypted.auc,
            clear_log_loss: clear.as_ref().map(|clear| clear.log_loss),
            clear_auc: clear.and_then(|clear| clear.auc),
        })
    })
}

/// Repeats the training in the clear, and returns its weights after each iteration. Returns `None`
/// if the table does not look like the training table (by rows, means and ranges), or if the
/// training would take longer than about a second.
fn clear_history(model: &Model, table: &Table) -> Result<Option<Vec<Vec<Vec<f64>>>>> {
    let Some(spec) = model.training else { return Ok(None) };
    let spec = TrainSpec { iterations: model.iterations, ..spec };
    let batch_rows = Batches::new(table.rows(), &spec).most_rows();
    let entries = (1 + model.columns.len()) * model.weights.len();
    let products = (batch_rows * entries).saturating_mul(spec.iterations as usize);
    // Cheap comparisons first: preparing the rows costs a pass over the table.
    let other = table.target() != Some(&model.target) || table.rows() != model.rows;
    if other || products > MAX_PRODUCTS {
        return Ok(None);
    }
    let shown = model.inputs()?.shown;
    let found = Transform::spreading(table);
    // Programs that parse decimals differently agree except for the last bits.
    let near = |(a, b): (&f64, &f64)| (a - b).abs() <= 1e-12 * (a.abs() + b.abs());
    let as_trained = shown.divisors().iter().zip(found.divisors()).all(near)
        && shown.centers().iter().zip(found.centers()).all(near);
    if !as_trained {
        return Ok(None);
    }
    let given = model.class_weights.as_deref();
    // The table may not suit the training at all, and the report is complete without this curve.
    let Ok(rows) = Prepared::new(table, &spec, table.rows(), given) else { return Ok(None) };
    // A training that fails in the clear is left out of the comparison.
    let Ok(history) = reference::history(&rows, &spec) else { return Ok(None) };
    let under = |weights: &Vec<f64>| Ok(rows.transform().weights_under(weights, &shown)?);
    let of_iteration = |models: &Vec<Vec<f64>>| models.iter().map(under).collect();
    history.iter().map(of_iteration).collect::<Result<_>>().map(Some)
}

/// Drops corners of a curve that are too close to the one before.
fn thinned(corners: Vec<[f64; 2]>) -> Vec<[f64; 2]> {
    let last = corners.len() - 1;
    let mut kept: Vec<[f64; 2]> = Vec::new();
    for (i, corner) in corners.into_iter().enumerate() {
        let far = |kept: &[f64; 2]| corner[0] - kept[0] + corner[1] - kept[1] >= 2.0 / ROC_POINTS;
        if i == last || kept.last().is_none_or(far) {
            kept.push(corner);
        }
    }
    kept
}

impl Histogram {
    fn new(scores: &[f64], labels: &[bool]) -> Self {
        let edges = (0..=BINS).map(|i| i as f64 / BINS as f64).collect();
        let mut zeros = vec![0; BINS];
        let mut ones = vec![0; BINS];
        for (&score, &label) in scores.iter().zip(labels) {
            let bin = (BINS as f64 / (1.0 + real::exp(-score))) as usize;
            // A probability of 1 is the upper edge, which belongs to the last bin.
            (if label { &mut ones } else { &mut zeros })[bin.min(BINS - 1)] += 1;
        }
        Self { edges, zeros, ones }
    }
}

/// Splits rows, sorted by probability, into groups of nearly equal size.
fn calibration(scores: &[Vec<f64>], members: &[u32]) -> Vec<Calibration> {
    let probabilities = metrics::probabilities(scores);
    let stated = |row: usize| {
        // With two classes the diagram is about the second class, as probabilities are everywhere.
        let class = if scores.len() == 1 { 1 } else { metrics::named(scores, row) };
        (probabilities[class][row], members[row] as usize == class)
    };
    let mut rows: Vec<(f64, bool)> = (0..members.len()).map(stated).collect();
    rows.sort_by(|a, b| a.0.total_cmp(&b.0));
    let groups = (rows.len() / GROUP_ROWS).clamp(1, GROUPS);
    let group = |i: usize| {
        let rows = &rows[i * rows.len() / groups..(i + 1) * rows.len() / groups];
        let count = rows.len() as f64;
        Calibration {
            rows: rows.len(),
            predicted: rows.iter().map(|row| row.0).sum::<f64>() / count,
            observed: rows.iter().filter(|row| row.1).count() as f64 / count,
        }
    };
    (0..groups).map(group).collect()
}

//! Decrypted results in files for their owner.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

use crate::{
    clear::{
        features::{Inputs, check_classes, not_a_model, text_of},
        fingerprint::{Fingerprints, other_columns},
        groups::GroupLabels,
        note::HeldOut,
        reading,
    },
    error::{Error, Result},
    text::escape,
};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use serde_json::Value;
use std::{collections::HashSet, iter, path::Path};
use sudare_apps::{
    logreg::{TrainSpec, Transform},
    stats::{GroupStatistics, Histogram, LeastSquares, Statistics, TTest},
};
use sudare_table::{
    Code, Encoding, Table, list,
    metrics::{self, Quality},
};

/// A decrypted model of logistic regression.
///
/// The score of a row `x` is `weights . (1, (x - centers) / divisors)`. With two classes its
/// sigmoid is the probability of the second class. With more classes each class has its own
/// weights, and the softmax of the scores is the probability of each.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Model {
    /// Identifies the type of the file.
    pub kind: ModelKind,
    /// The intercept, then one weight for each column. With more than two classes, one such vector
    /// for each class.
    #[serde(with = "weights")]
    pub weights: Vec<Vec<f64>>,
    /// Names of the features.
    pub columns: Vec<String>,
    /// Name of the predicted column.
    pub target: String,
    /// The classes of the target. Default: `0` and `1`.
    #[serde(default = "binary")]
    pub classes: Vec<String>,
    /// True if the classes are text even where they look like numbers.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub text_labels: bool,
    /// The value that is subtracted from each feature. Default: 0.
    #[serde(default)]
    pub centers: Vec<f64>,
    /// The divisor of each feature, applied after the subtraction.
    pub divisors: Vec<f64>,
    /// Number of iterations done.
    pub iterations: u32,
    /// Number of training rows.
    pub rows: usize,
    /// The settings of the training, if they are known.
    #[serde(default, deserialize_with = "known", skip_serializing_if = "Option::is_none")]
    pub training: Option<TrainSpec>,
    /// Class weights that the user gave, up to a common factor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class_weights: Option<Vec<f64>>,
    /// True if the weights were calibrated after training.
    #[serde(default)]
    pub calibrated: bool,
    /// Fractional bits of the released weights, in the coordinates of the training. Without it the
    /// weights are for the owner of the key alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shared_bits: Option<u32>,
    /// The encoding of columns with text or gaps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encoding: Option<Encoding>,
    /// The held-out rows of the table, if there are any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_out: Option<HeldOut>,
    /// Fingerprints of the rows of the table.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fingerprints: Option<Fingerprints>,
    /// Preparation of rows for scoring by the encrypted model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transform: Option<Transform>,
    /// The weights after each iteration, if they were kept.
    #[serde(default, with = "history", skip_serializing_if = "Option::is_none")]
    pub history: Option<Vec<Vec<Vec<f64>>>>,
}

/// Type of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ModelKind {
    /// Logistic regression.
    #[serde(rename = "logistic regression")]
    LogisticRegression,
}

/// The JSON form of weights: one vector as a list, several as a list of lists.
#[derive(Serialize)]
#[serde(untagged)]
enum Written {
    One(Vec<f64>),
    Several(Vec<Vec<f64>>),
}

impl From<Vec<Vec<f64>>> for Written {
    fn from(mut weights: Vec<Vec<f64>>) -> Self {
        match weights.len() {
            1 => Self::One(weights.swap_remove(0)),
            _ => Self::Several(weights),
        }
    }
}

/// Reads weight vectors from JSON.
fn weights_of(written: &Value) -> core::result::Result<Vec<Vec<f64>>, String> {
    let numbers = |list: &Value| -> core::result::Result<Vec<f64>, String> {
        let Some(list) = list.as_array() else {
            return Err(format!("found {list} where a list of weights is needed"));
        };
        let number = |(at, item): (usize, &Value)| {
            item.as_f64().ok_or_else(|| format!("weight {at} of a list is {item}, not a number"))
        };
        list.iter().enumerate().map(number).collect()
    };
    match written.as_array() {
        Some(lists) if lists.iter().any(Value::is_array) => lists.iter().map(numbers).collect(),
        _ => Ok(vec![numbers(written)?]),
    }
}

mod weights {
    use super::*;

    pub fn serialize<S: Serializer>(weights: &[Vec<f64>], out: S) -> Result<S::Ok, S::Error> {
        Written::from(weights.to_vec()).serialize(out)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Vec<f64>>, D::Error> {
        weights_of(&Value::deserialize(from)?).map_err(D::Error::custom)
    }

    use core::result::Result;
}

mod history {
    use super::*;

    type History = Option<Vec<Vec<Vec<f64>>>>;

    pub fn serialize<S: Serializer>(history: &History, out: S) -> Result<S::Ok, S::Error> {
        let history = history.iter().flatten().cloned().map(Written::from);
        history.collect::<Vec<_>>().serialize(out)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<History, D::Error> {
        let history = Option::<Vec<Value>>::deserialize(from)?;
        let of_all = |all: Vec<Value>| all.iter().map(weights_of).collect();
        history.map(of_all).transpose().map_err(D::Error::custom)
    }

    use core::result::Result;
}

fn binary() -> Vec<String> {
    ["0", "1"].map(str::to_owned).to_vec()
}

/// Ignores training settings of another version of the program.
fn known<'de, D: Deserializer<'de>>(from: D) -> core::result::Result<Option<TrainSpec>, D::Error> {
    Ok(serde_json::from_value(serde_json::Value::deserialize(from)?).ok())
}

impl Model {
    /// Reads a file that `sudare decrypt` wrote.
    ///
    /// # Errors
    /// [`Error::Parse`] for any other file; [`Error::Io`]; [`Error::NotAFile`].
    pub fn read(path: &Path) -> Result<Self> {
        Self::from_json(&text_of(path)?, path)
    }

    /// Reads the text of such a file. Messages call it `path`.
    ///
    /// # Errors
    /// [`Error::Parse`].
    pub fn from_json(text: &[u8], path: &Path) -> Result<Self> {
        let model = serde_json::from_slice(text);
        let model = model.map_err(|error| not_a_model(path, &problem_of(text, &error)))?;
        Self::checked(model).map_err(|problem| not_a_model(path, &problem))
    }

    /// Returns the model if its parts have matching sizes.
    ///
    /// # Errors
    /// A description of the problem.
    pub fn checked(mut self) -> core::result::Result<Self, String> {
        let features = self.columns.len();
        if self.centers.is_empty() {
            self.centers = vec![0.0; features];
        }
        check_classes(&self.classes)?;
        self.check_sizes()?;
        Transform::affine(self.centers.clone(), self.divisors.clone())
            .map_err(|error| error.to_string())?;
        if let Some(encoding) = &self.encoding
            && (encoding.columns() != self.columns || encoding.classes() != self.classes)
        {
            return Err("its encoding has other columns or classes".into());
        }
        let mut seen = HashSet::new();
        match self.columns.iter().find(|name| !seen.insert(*name)) {
            Some(name) => Err(format!("two columns are named {name:?}")),
            None => Ok(self),
        }
    }

    fn check_sizes(&self) -> core::result::Result<(), String> {
        let features = self.columns.len();
        let models = models(&self.classes);
        // The intercept comes first.
        let needed = features.saturating_add(1);
        let sizes = |weights: &Vec<Vec<f64>>| {
            weights.len() == models && weights.iter().all(|w| w.len() == needed)
        };
        if !sizes(&self.weights) {
            let found: Vec<String> =
                self.weights.iter().map(|weights| weights.len().to_string()).collect();
            return Err(format!(
                "{features} columns and {} classes need {models} times {needed} weights, found {}",
                self.classes.len(),
                found.join(" and ")
            ));
        }
        let centers = self.centers.len();
        let divisors = self.divisors.len();
        if centers != features || divisors != features {
            return Err(format!(
                "{features} columns need {features} centers and divisors, found {centers} and \
                 {divisors}"
            ));
        }
        match &self.history {
            Some(history)
                if history.is_empty()
                    || history.len() != self.iterations as usize
                    || !history.iter().all(sizes) =>
            {
                Err(format!(
                    "a history of {} iterations with {} weights each is needed, but the model has \
                     another one",
                    self.iterations,
                    models.saturating_mul(needed)
                ))
            }
            _ => Ok(()),
        }
    }

    /// Returns the categories, with their numbers of training rows, that have fewer rows than
    /// [`Model::MIN_CATEGORY_ROWS`]. The file of the model tells anyone who reads it that such rows
    /// exist, and their share.
    #[must_use]
    pub fn small_categories(&self) -> Vec<(&str, usize)> {
        let Some(encoding) = &self.encoding else { return Vec::new() };
        let is_category = |column: &str| {
            encoding.codes().any(|(name, code)| {
                let coded = matches!(code, Code::Categories { .. } | Code::Joined { .. });
                let rest = column.strip_prefix(name);
                coded && rest.is_some_and(|rest| rest.starts_with('=') || rest == " missing")
            })
        };
        let rows = |center: &f64| (center * self.rows as f64).round() as usize;
        let categories = self.columns.iter().map(String::as_str).zip(self.centers.iter().map(rows));
        let is_small =
            |&(column, rows): &(&str, usize)| rows < Self::MIN_CATEGORY_ROWS && is_category(column);
        categories.filter(is_small).collect()
    }

    /// Rejects a model with categories of few rows.
    ///
    /// # Errors
    /// [`Error::Usage`], which lists the categories of [`Model::small_categories`].
    pub fn expect_no_small_categories(&self) -> Result<()> {
        let found = self.small_categories();
        if found.is_empty() {
            return Ok(());
        }
        let told: Vec<String> =
            found.iter().map(|(name, rows)| format!("{name} ({rows})")).collect();
        let least = Self::MIN_CATEGORY_ROWS;
        Err(Error::Usage(format!(
            "the model has categories of fewer than {least} rows, so sharing it would tell about \
             single rows: {}; plan again with --rare {least}, in Python rare={least}, which joins rare \
             categories",
            list(&told)
        )))
    }

    /// Returns the model's features and the preparation of its rows.
    ///
    /// # Errors
    /// [`Error::Bug`] for a model that was not [checked](Model::checked).
    pub fn inputs(&self) -> Result<Inputs> {
        let shown = Transform::affine(self.centers.clone(), self.divisors.clone());
        Ok(Inputs {
            columns: self.columns.clone(),
            target: self.target.clone(),
            classes: self.classes.clone(),
            text_labels: self.text_labels,
            shown: shown.map_err(|error| Error::Bug(error.to_string()))?,
            transform: self.transform.clone(),
            encoding: self.encoding.clone(),
        })
    }

    /// Number of rows from which a category tells little about a single row.
    pub const MIN_CATEGORY_ROWS: usize = 5;

    /// Returns the scores of every row for each weight vector. With two classes a positive score
    /// means the second class.
    ///
    /// # Errors
    /// [`Error::Usage`] for a table with other columns, or a score that is not finite.
    pub fn scores(&self, table: &Table) -> Result<Vec<Vec<f64>>> {
        self.scores_with(&self.weights, table)
    }

    /// Same as [`Model::scores`], with other weights, such as the weights after an iteration.
    pub fn scores_with(&self, weights: &[Vec<f64>], table: &Table) -> Result<Vec<Vec<f64>>> {
        if table.columns() != self.columns {
            let table = reading::arranged(table, &self.columns, &self.classes)?;
            return self.scores_with(weights, &table);
        }
        let rows = self.inputs()?.shown.rows(table.values());
        let score = |weights: &Vec<f64>| {
            let products = rows.chunks_exact(weights.len());
            let scores = products.map(|x| x.iter().zip(weights).map(|(x, w)| x * w).sum());
            finite(scores.collect())
        };
        weights.iter().map(score).collect()
    }

    /// Measures the quality of the scores on a table.
    ///
    /// # Errors
    /// The errors of [`Model::scores`]; [`Error::Table`] without labels.
    pub fn quality(&self, table: &Table) -> Result<Quality> {
        Ok(Quality::of(&self.scores(table)?, table.members()?)?)
    }

    /// Returns the held-out rows of the model's table.
    ///
    /// # Errors
    /// [`Error::Usage`] for a model that was trained on all rows, and for a table other than the
    /// encrypted one, or with its rows in another order.
    pub fn rows_held_out(&self, table: &Table) -> Result<Table> {
        let Some(held_out) = self.held_out else {
            return Err(Error::Usage(
                "the model was trained on all rows of its table: leave out --held-out, or encrypt with \
                 --hold-out"
                    .into(),
            ));
        };
        let table = reading::arranged(table, &self.columns, &self.classes)?;
        let (trained, held) = held_out.split(&table)?;
        let shown = self.inputs()?.shown;
        let columns = other_columns(&trained, &shown, &Transform::spreading(&trained));
        let of_held = self.fingerprints.and_then(|all| all.held_out);
        let same_rows = match of_held {
            Some(print) => print.fits(&held, &shown)?,
            // A file of an earlier version.
            None => columns.is_empty(),
        };
        if trained.rows() == self.rows && same_rows {
            return Ok(held);
        }
        let found = match (trained.rows(), &columns[..]) {
            (rows, _) if rows != self.rows => {
                format!(
                    "without the held-out rows it has {rows} rows, but the model was trained on {}",
                    self.rows
                )
            }
            (_, []) => "its held-out rows have other values or classes".into(),
            (_, columns) => format!(
                "its rows have another order, or other values in column {}",
                columns.join(", ")
            ),
        };
        Err(Error::Usage(format!(
            "this is not the table that the model was trained on: {found}. Pass the table as it \
             was encrypted, with its rows in the same order"
        )))
    }

    /// Returns the intercept and the weight of each column in its own unit, for each weight vector.
    ///
    /// # Errors
    /// The errors of [`Model::inputs`].
    pub fn coefficients(&self) -> Result<Vec<Vec<f64>>> {
        let shown = self.inputs()?.shown;
        Ok(self.weights.iter().map(|weights| shown.of_columns(weights)).collect())
    }

    /// Formats the model as CSV, one line per weight.
    ///
    /// # Errors
    /// [`Error::Bug`] if the CSV cannot be written.
    pub fn to_csv(&self) -> Result<String> {
        let several = self.weights.len() > 1;
        let coefficients = self.coefficients()?;
        let units = self.centers.iter().zip(&self.divisors);
        let units: Vec<[f64; 2]> =
            iter::once([0.0, 1.0]).chain(units.map(|(&c, &d)| [c, d])).collect();
        let models = self.weights.iter().zip(&coefficients).zip(&self.classes);
        let rows = models.flat_map(|((weights, coefficients), class)| {
            let names = iter::once("(intercept)").chain(self.columns.iter().map(String::as_str));
            let numbers = weights.iter().zip(coefficients).zip(&units);
            let class = several.then(|| class.clone());
            names.zip(numbers).map(move |(name, ((weight, own), [center, divisor]))| {
                let numbers = [weight, divisor, center, own].map(f64::to_string);
                class.clone().into_iter().chain([name.to_owned()]).chain(numbers).collect()
            })
        });
        let head = ["column", "weight", "divisor", "center", "coefficient"];
        let head = several.then_some("class").into_iter().chain(head).map(str::to_owned);
        csv_text(&head.collect::<Vec<_>>(), rows)
    }
}

/// Explains why a text is not a model. JSON has no NaN or infinity, so the message names these.
fn problem_of(text: &[u8], error: &serde_json::Error) -> String {
    let text = String::from_utf8_lossy(text);
    match error.is_syntax() && ["NaN", "Infinity"].iter().any(|word| text.contains(word)) {
        true => format!("it holds NaN or Infinity, and weights must be finite numbers ({error})"),
        false => error.to_string(),
    }
}

/// Returns the number of weight vectors for these classes.
fn models(classes: &[String]) -> usize {
    if classes.len() == 2 { 1 } else { classes.len() }
}

fn finite(scores: Vec<f64>) -> Result<Vec<f64>> {
    match (1_u64..).zip(&scores).find(|(_, score)| !score.is_finite()) {
        None => Ok(scores),
        Some((row, score)) => Err(Error::Usage(format!(
            "the score of row {row} is {score}, but scores must be finite: check the model's weights \
             and the sizes of the row's values"
        ))),
    }
}

/// Decrypted scores of rows.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NamedScores {
    /// The constant `scores`.
    pub kind: &'static str,
    /// Number of rows.
    pub rows: usize,
    /// The classes of the model.
    pub classes: Vec<String>,
    /// True if the classes are text even where they look like numbers.
    #[serde(skip_serializing_if = "core::ops::Not::not")]
    pub text_labels: bool,
    /// Score of each row, positive for the second class. With more than two classes, a list with
    /// the score of each.
    pub scores: OfRows,
    /// Probability of the second class, or a list with one for each class. The server computed them
    /// if the keys were made for that; otherwise they follow from the scores.
    pub probabilities: OfRows,
    /// The predicted class of each row.
    pub predicted: Vec<String>,
    /// Accuracy, if the classes of the rows are known.
    pub accuracy: Option<f64>,
    /// AUC, if there are rows of all classes.
    pub auc: Option<f64>,
    /// Share of the largest class, if the classes of the rows are known.
    pub largest_class: Option<f64>,
    /// Calibration error, if the classes of the rows are known. See [`Quality::calibration_error`].
    pub calibration_error: Option<f64>,
}

/// Numbers for each row.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum OfRows {
    /// One number for each row.
    One(Vec<f64>),
    /// Several numbers for each row.
    Several(Vec<Vec<f64>>),
}

impl OfRows {
    /// Converts numbers by class into numbers by row. With two classes only the second one is kept.
    fn new(mut of_classes: Vec<Vec<f64>>) -> Self {
        if let 1..=2 = of_classes.len() {
            return Self::One(of_classes.pop().unwrap_or_default());
        }
        let rows = of_classes.first().map_or(0, Vec::len);
        let of_row =
            |i| of_classes.iter().filter_map(move |class: &Vec<f64>| class.get(i).copied());
        Self::Several((0..rows).map(|i| of_row(i).collect()).collect())
    }

    /// Returns the numbers of a row, empty if there is no such row.
    pub(crate) fn of(&self, row: usize) -> &[f64] {
        match self {
            Self::One(numbers) => numbers.get(row).map_or(&[][..], core::slice::from_ref),
            Self::Several(numbers) => numbers.get(row).map_or(&[][..], Vec::as_slice),
        }
    }

    fn texts(&self, row: usize) -> Vec<String> {
        self.of(row).iter().map(f64::to_string).collect()
    }
}

impl NamedScores {
    /// Creates scores with classes. `members` are the classes of the rows, if they are known.
    /// Probabilities that are not given are computed from the scores.
    ///
    /// # Errors
    /// [`Error::Metric`] for a wrong number of members, and for scores that are not finite.
    pub fn new(
        scores: Vec<Vec<f64>>,
        probabilities: Option<Vec<Vec<f64>>>,
        classes: &[String],
        members: Option<&[u32]>,
    ) -> Result<Self> {
        let rows = scores.first().map_or(0, Vec::len);
        let quality = members.map(|members| Quality::of(&scores, members)).transpose()?;
        let name = |row| classes.get(metrics::named(&scores, row)).cloned().unwrap_or_default();
        let predicted = (0..rows).map(name).collect();
        let probabilities = probabilities.unwrap_or_else(|| metrics::probabilities(&scores));
        Ok(Self {
            kind: "scores",
            rows,
            classes: classes.to_vec(),
            text_labels: false,
            probabilities: OfRows::new(probabilities),
            scores: OfRows::new(scores),
            predicted,
            accuracy: quality.as_ref().map(|quality| quality.accuracy),
            auc: quality.as_ref().and_then(|quality| quality.auc),
            largest_class: quality.as_ref().map(|quality| quality.largest_class),
            calibration_error: quality.as_ref().map(|quality| quality.calibration_error),
        })
    }

    /// Formats the scores as CSV, one line per row.
    ///
    /// # Errors
    /// [`Error::Bug`] if the CSV cannot be written.
    pub fn to_csv(&self) -> Result<String> {
        let of_classes = |what: &str| -> Vec<String> {
            match self.scores {
                OfRows::One(_) => vec![what.into()],
                OfRows::Several(_) => {
                    self.classes.iter().map(|class| format!("{what} {class}")).collect()
                }
            }
        };
        let mut head = [of_classes("score"), of_classes("probability")].concat();
        head.push("predicted".into());
        let lines = self.predicted.iter().enumerate().map(|(row, class)| {
            let mut line = [self.scores.texts(row), self.probabilities.texts(row)].concat();
            line.push(class.clone());
            line
        });
        csv_text(&head, lines)
    }
}

/// Decrypted statistics with the names of their columns.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NamedStatistics {
    /// The constant `statistics`.
    pub kind: &'static str,
    /// Names of the columns.
    pub columns: Vec<String>,
    /// The statistics, in the order of the columns.
    #[serde(flatten)]
    pub statistics: Statistics,
    /// Weighted mean of each column, by the requested column of weights.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weighted_mean: Option<Vec<f64>>,
    /// The requested model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub least_squares: Option<NamedLeastSquares>,
    /// The requested test.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub t_test: Option<TTest>,
}

/// A linear model with the names of its columns.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[expect(missing_docs, reason = "fields are those of `LeastSquares`")]
pub struct NamedLeastSquares {
    pub target: String,
    pub predictors: Vec<String>,
    pub intercept: f64,
    pub coefficients: Vec<f64>,
    pub standard_errors: Vec<f64>,
    pub p_values: Vec<f64>,
    pub r_squared: f64,
    pub residual_variance: f64,
    pub condition: f64,
}

impl NamedLeastSquares {
    /// Names the columns of a model.
    #[must_use]
    pub fn new(fit: LeastSquares, columns: &[String]) -> Self {
        let name = |place: usize| columns.get(place).cloned().unwrap_or_default();
        Self {
            target: name(fit.target),
            predictors: fit.predictors.iter().map(|&place| name(place)).collect(),
            intercept: fit.intercept,
            coefficients: fit.coefficients,
            standard_errors: fit.standard_errors,
            p_values: fit.p_values,
            r_squared: fit.r_squared,
            residual_variance: fit.residual_variance,
            condition: fit.condition,
        }
    }
}

/// Decrypted sums by groups, with the names of columns and the values of the key.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NamedGroups {
    /// The constant `groups`.
    pub kind: &'static str,
    /// Name of the column whose values define the groups.
    pub key: String,
    /// Values of the key column, in order.
    pub labels: GroupLabels,
    /// Names of the other columns.
    pub columns: Vec<String>,
    /// The statistics, in the order of labels and columns.
    #[serde(flatten)]
    pub statistics: GroupStatistics,
    /// Test of each column between the two requested groups. An entry is `None` where the column is
    /// constant in both groups or a group has fewer than two rows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub t_test: Option<Vec<Option<TTest>>>,
}

impl NamedGroups {
    /// Names the columns of statistics by groups, without tests between groups.
    #[must_use]
    pub fn new(
        columns: Vec<String>,
        (key, labels): (String, GroupLabels),
        statistics: GroupStatistics,
    ) -> Self {
        Self { kind: "groups", key, labels, columns, statistics, t_test: None }
    }

    /// Formats the statistics as CSV, one line per group and column.
    ///
    /// # Errors
    /// [`Error::Bug`] if the CSV cannot be written.
    #[expect(clippy::indexing_slicing, reason = "statistics are of these groups and columns")]
    pub fn to_csv(&self) -> Result<String> {
        let head = [&self.key, "column", "count", "sum", "mean", "variance"].map(str::to_owned);
        let cell = |x: f64| if x.is_nan() { String::new() } else { x.to_string() };
        let s = &self.statistics;
        let rows = self.labels.texts().into_iter().enumerate().flat_map(|(group, label)| {
            self.columns.iter().enumerate().map(move |(j, column)| {
                let values = [&s.sum, &s.mean, &s.variance].map(|values| cell(values[group][j]));
                let mut line = vec![label.clone(), column.clone(), s.count[group].to_string()];
                line.extend(values);
                line
            })
        });
        csv_text(&head, rows)
    }
}

/// Decrypted histograms with the names of their columns.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NamedHistograms {
    /// The constant `histograms`.
    pub kind: &'static str,
    /// Number of rows of the table.
    pub rows: usize,
    /// Names of the columns.
    pub columns: Vec<String>,
    /// Histogram of each column.
    pub histograms: Vec<Histogram>,
    /// Probabilities of the quantiles.
    pub probabilities: Vec<f64>,
    /// Quantiles of each column at these probabilities.
    pub quantiles: Vec<Vec<f64>>,
    /// Edges of the bin of each quantile.
    pub quantile_bounds: Vec<Vec<(f64, f64)>>,
}

impl NamedHistograms {
    /// Default probabilities of quantiles.
    pub const QUARTILES: [f64; 3] = [0.25, 0.5, 0.75];

    /// Names the columns of histograms of `rows` rows, and computes quantiles at these
    /// probabilities.
    ///
    /// # Errors
    /// [`Error::Stats`] for probabilities outside of `[0, 1]`.
    pub fn new(
        columns: Vec<String>,
        rows: usize,
        histograms: Vec<Histogram>,
        probabilities: Vec<f64>,
    ) -> Result<Self> {
        let of_column = |histogram: &Histogram| {
            probabilities.iter().map(|&part| Ok(histogram.quantile(part)?)).collect()
        };
        let quantiles = histograms.iter().map(of_column).collect::<Result<_>>()?;
        let bounds = |histogram: &Histogram| {
            probabilities.iter().map(|&part| Ok(histogram.quantile_bounds(part)?)).collect()
        };
        let quantile_bounds = histograms.iter().map(bounds).collect::<Result<_>>()?;
        let kind = "histograms";
        Ok(Self { kind, rows, columns, histograms, probabilities, quantiles, quantile_bounds })
    }

    /// Formats the histograms as CSV, one line per column and bin.
    ///
    /// # Errors
    /// [`Error::Bug`] if the CSV cannot be written.
    pub fn to_csv(&self) -> Result<String> {
        let head = ["column", "low", "high", "count", "error"].map(str::to_owned);
        let rows = self.columns.iter().zip(&self.histograms).flat_map(|(column, histogram)| {
            let low = histogram.edges.iter();
            let high = histogram.edges.iter().skip(1);
            let counts = histogram.counts.iter().zip(&histogram.errors);
            low.zip(high).zip(counts).map(move |((low, high), (count, error))| {
                let error = if error.is_nan() { String::new() } else { error.to_string() };
                let numbers = [low, high, count].map(f64::to_string);
                let numbers = numbers.into_iter().chain([error]);
                core::iter::once(column.clone()).chain(numbers).collect()
            })
        });
        csv_text(&head, rows)
    }
}

impl NamedStatistics {
    /// Names the columns of statistics, without the optional results.
    #[must_use]
    pub fn new(columns: Vec<String>, statistics: Statistics) -> Self {
        Self {
            kind: "statistics",
            columns,
            statistics,
            weighted_mean: None,
            least_squares: None,
            t_test: None,
        }
    }

    /// Formats the statistics as CSV, one line per column, with the matrices to the right.
    ///
    /// # Errors
    /// [`Error::Bug`] if the CSV cannot be written.
    pub fn to_csv(&self) -> Result<String> {
        let Statistics {
            mean, variance, std_dev, skewness, kurtosis, covariance, correlation, ..
        } = &self.statistics;
        let of_columns: [(&str, &[f64]); 5] = [
            ("mean", mean),
            ("variance", variance),
            ("std_dev", std_dev),
            ("skewness", skewness),
            ("kurtosis", kurtosis),
        ];
        let of_pairs: [(&str, &[Vec<f64>]); 2] =
            [("covariance", covariance), ("correlation", correlation)];
        let mut head = vec!["column".to_owned()];
        head.extend(of_columns.map(|(name, _)| name.to_owned()));
        for (name, _) in of_pairs {
            head.extend(self.columns.iter().map(|column| format!("{name} {column}")));
        }
        let cell = |x: &f64| if x.is_nan() { String::new() } else { x.to_string() };
        let rows = self.columns.iter().enumerate().map(|(i, column)| {
            let mut line = vec![column.clone()];
            line.extend(of_columns.iter().filter_map(|(_, values)| values.get(i)).map(cell));
            for (_, matrix) in of_pairs {
                line.extend(matrix.get(i).into_iter().flatten().map(cell));
            }
            line
        });
        csv_text(&head, rows)
    }
}

/// Formats comma-separated text that is safe to open in a spreadsheet, regardless of the names in
/// it.
///
/// # Errors
/// [`Error::Bug`] if the CSV cannot be written.
pub fn csv_text(head: &[String], rows: impl IntoIterator<Item = Vec<String>>) -> Result<String> {
    let bug = |error: String| Error::Bug(error);
    let mut writer = csv::Writer::from_writer(Vec::new());
    for row in iter::once(head.to_vec()).chain(rows) {
        let cells = row.iter().map(|cell| escape::cell(cell).into_owned());
        writer.write_record(cells).map_err(|error| bug(error.to_string()))?;
    }
    let bytes = writer.into_inner().map_err(|error| bug(error.to_string()))?;
    String::from_utf8(bytes).map_err(|error| bug(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every text in a file of results is harmless, and reads back unchanged.
    #[test]
    fn csv_has_no_formulas_whatever_is_named() {
        let evil = ["=1+1", "@x", "-a", "+a", "\t=1", "\x1b[2J", "a\nb", "\"=1\"", "'=1"];
        let rows = || evil.iter().map(|name| vec![(*name).to_owned(), "-2.5".into()]);
        for name in evil {
            let text = csv_text(&[name.into(), format!("mean {name}")], rows()).unwrap();
            assert!(text.chars().all(|c| !c.is_control() || c == '\n'), "{text:?}");
            assert_eq!(text.lines().count(), evil.len() + 1, "{text:?}");
            let mut reader =
                csv::ReaderBuilder::new().has_headers(false).from_reader(text.as_bytes());
            let records: Vec<_> = reader.records().map(|record| record.unwrap()).collect();
            assert_eq!(records.len(), evil.len() + 1);
            for record in &records {
                assert!(!record[0].starts_with(['=', '+', '-', '@', '\t', '\r']), "{record:?}");
            }
            assert!(records[1..].iter().all(|record| &record[1] == "-2.5"));
        }
    }

    fn read(weights: &str, more: &str) -> Result<Model> {
        let text = format!(
            "{{\"kind\": \"logistic regression\", \"weights\": {weights}, \"columns\": [\"a\"], \
             \"target\": \"y\", \"divisors\": [1], \"iterations\": 1, \"rows\": 1{more}}}"
        );
        Model::from_json(text.as_bytes(), Path::new("m.json"))
    }

    #[test]
    fn weights_are_a_list_or_a_list_of_lists() {
        assert_eq!(read("[0.5, 1]", "").unwrap().weights, [[0.5, 1.0]]);
        let three = r#", "classes": ["r", "g", "b"]"#;
        let several = read("[[0, 1], [2, 3], [4, 5.5]]", three).unwrap();
        assert_eq!(several.weights, [[0.0, 1.0], [2.0, 3.0], [4.0, 5.5]]);
        let again = serde_json::to_vec(&several).unwrap();
        assert_eq!(Model::from_json(&again, Path::new("m.json")).unwrap(), several);
        let history = r#", "history": [[0.25, 2]]"#;
        assert_eq!(read("[0.5, 1]", history).unwrap().history, Some(vec![vec![vec![0.25, 2.0]]]));
    }

    #[test]
    fn bad_models_are_told_what_is_wrong() {
        for (weights, more, problem) in [
            ("null", "", "found null"),
            ("\"1\"", "", "found \"1\""),
            ("[0, null]", "", "weight 1 of a list is null"),
            ("[0, \"1\"]", "", "weight 1 of a list is \"1\""),
            ("[[0, 1], null]", r#", "classes": ["r", "g", "b"]"#, "found null"),
            ("[0, NaN]", "", "NaN or Infinity"),
            ("[0, -Infinity]", "", "NaN or Infinity"),
            ("[0, 1]", r#", "history": [[0, true]]"#, "weight 1 of a list is true"),
            ("[[0, 1]]", r#", "classes": ["x"]"#, "1 class"),
            ("[]", r#", "classes": []"#, "0 class"),
            ("[0, 1]", r#", "classes": ["x", "x"]"#, "two classes are named \"x\""),
        ] {
            let error = read(weights, more).unwrap_err().to_string();
            assert!(error.contains(problem), "{weights} {more}: {error}");
        }
    }
}

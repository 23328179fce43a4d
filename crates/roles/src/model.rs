//! Decrypted results, as files for their owner.

use crate::{
    error::{Error, Result},
    files::{self, Access},
};
use serde::{Deserialize, Serialize};
use std::{io::Read, path::Path};
use sudare_apps::{
    logreg::TrainSpec,
    metrics::{self, MetricError},
    stats::{GroupStatistics, Histogram, LeastSquares, Statistics, TTest},
    table::{Scaling, Table, TableError},
};

/// A decrypted model of logistic regression: `sigmoid(weights . (1, x / divisors))` is
/// the probability that the target is 1.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Model {
    /// Says what the file is.
    pub kind: ModelKind,
    /// The intercept, then one for each column.
    pub weights: Vec<f64>,
    /// Names of the features.
    pub columns: Vec<String>,
    /// Name of what is predicted.
    pub target: String,
    /// Of the features.
    pub divisors: Scaling,
    /// Iterations that were done.
    pub iterations: u32,
    /// Rows that it was trained on.
    pub rows: usize,
    /// How.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub training: Option<TrainSpec>,
    /// What rows with target 0 and with 1 weighed, if that was given: any multiples.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class_weights: Option<[f64; 2]>,
    /// The weights after each iteration, where they were kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub history: Option<Vec<Vec<f64>>>,
}

/// Says what the file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ModelKind {
    /// The only one.
    #[serde(rename = "logistic regression")]
    LogisticRegression,
}

/// Largest model file.
const MAX_BYTES: u64 = 256 << 20;

impl Model {
    /// Reads the file that `sudare decrypt` wrote.
    ///
    /// # Errors
    /// [`Error::Parse`] for any other; [`Error::Io`]; [`Error::NotAFile`].
    pub fn read(path: &Path) -> Result<Self> {
        let bad = |problem: String| not_a_model(path, &problem);
        let text = text_of(path)?;
        let model: Self = serde_json::from_slice(&text).map_err(|error| bad(error.to_string()))?;
        let (weights, features) = (model.weights.len(), model.columns.len());
        if weights != features + 1 || model.divisors.features() != features {
            let divisors = model.divisors.features();
            return Err(bad(format!(
                "{features} columns need {} weights and {features} divisors, found {weights} and \
                 {divisors}",
                features + 1
            )));
        }
        if let Some(history) = &model.history
            && (history.is_empty()
                || history.len() != model.iterations as usize
                || history.iter().any(|earlier| earlier.len() != weights))
        {
            return Err(bad(format!(
                "a history of {} iterations of {weights} weights is needed, and it has another",
                model.iterations
            )));
        }
        let mut names: Vec<&String> = model.columns.iter().collect();
        names.sort_unstable();
        if let Some(pair) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(bad(format!("two columns are named {:?}", pair[0])));
        }
        Ok(model)
    }

    /// Reads a table that has this model's columns in any order and, if `target` or the
    /// model's target is among its columns, labels.
    ///
    /// # Errors
    /// As [`files::read_table`].
    pub fn read_table(&self, path: &Path, target: Option<&str>) -> Result<Table> {
        match files::read_table(path, Some(target.unwrap_or(&self.target))) {
            Err(Error::TableFile { source: TableError::UnknownTarget { .. }, .. })
                if target.is_none() =>
            {
                files::read_table(path, None)
            }
            other => other,
        }
    }

    /// `weights . (1, x / divisors)` of every row: above 0 where the model says 1.
    ///
    /// # Errors
    /// [`Error::Usage`] for a table of other columns, or a score that is not finite.
    pub fn scores(&self, table: &Table) -> Result<Vec<f64>> {
        self.scores_with(&self.weights, table)
    }

    /// [`Model::scores`] with weights of an iteration.
    pub fn scores_with(&self, weights: &[f64], table: &Table) -> Result<Vec<f64>> {
        let rows = self.rows(table)?;
        let score = |(number, x): (usize, Vec<f64>)| {
            let design = self.divisors.design_row(&x)?;
            let score: f64 = design.iter().zip(weights).map(|(x, w)| x * w).sum();
            if score.is_finite() {
                return Ok(score);
            }
            Err(Error::Usage(format!(
                "the score of row {} is {score}, but scores must be finite: check the model's \
                 weights and the sizes of the row's values",
                number + 1
            )))
        };
        rows.enumerate().map(score).collect()
    }

    /// The rows of a table, their values in the order of the model's columns.
    ///
    /// # Errors
    /// [`Error::Usage`] for a table of other columns.
    pub fn rows<'a>(&self, table: &'a Table) -> Result<impl Iterator<Item = Vec<f64>> + use<'a>> {
        let places = places(&self.columns, table)?;
        Ok(table.iter_rows().map(move |row| places.iter().map(|&place| row[place]).collect()))
    }

    /// One line per weight.
    ///
    /// # Errors
    /// [`Error::Bug`] if the text cannot be made.
    pub fn to_csv(&self) -> Result<String> {
        let divisors = self.divisors.divisors().iter().map(f64::to_string);
        let names = core::iter::once("(intercept)").chain(self.columns.iter().map(String::as_str));
        let rows = names
            .zip(&self.weights)
            .zip(core::iter::once("1".to_owned()).chain(divisors))
            .map(|((name, weight), divisor)| vec![name.to_owned(), weight.to_string(), divisor]);
        csv_text(&["column", "weight", "divisor"].map(str::to_owned), rows)
    }
}

/// Where a model's columns stand in a table that has exactly these.
pub(crate) fn places(columns: &[String], table: &Table) -> Result<Vec<usize>> {
    let names = table.columns();
    let place = |name: &String| names.iter().position(|other| other == name);
    let places: Option<Vec<usize>> = columns.iter().map(place).collect();
    places.filter(|places| places.len() == names.len()).ok_or_else(|| {
        Error::Usage(format!(
            "the rows have the columns {}, the model has {}: give rows with exactly these",
            names.join(", "),
            columns.join(", ")
        ))
    })
}

/// The probability of a label of 1 that a score stands for.
pub fn sigmoid(score: f64) -> f64 {
    1.0 / (1.0 + (-score).exp())
}

fn not_a_model(path: &Path, problem: &str) -> Error {
    Error::Parse {
        path: path.into(),
        what: "model",
        problem: format!("{problem}; name the JSON file that `sudare decrypt` made of a model"),
    }
}

/// The text of a file that may be a model in the clear.
pub(crate) fn text_of(path: &Path) -> Result<Vec<u8>> {
    let (file, bytes) = files::open(path, Access::Shared)?;
    if bytes > MAX_BYTES {
        let problem = format!("it has {bytes} bytes, a model at most {MAX_BYTES}");
        return Err(not_a_model(path, &problem));
    }
    let mut text = Vec::new();
    file.take(MAX_BYTES).read_to_end(&mut text).map_err(|e| Error::io("read", path, e))?;
    if text.starts_with(b"\x89sudare") {
        return Err(not_a_model(path, "it is encrypted, decrypt it first"));
    }
    Ok(text)
}

/// Decrypted scores of rows.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NamedScores {
    /// `scores`.
    pub kind: &'static str,
    /// Number of rows.
    pub rows: usize,
    /// `weights . (1, x / divisors)` of each row: above 0 where the model says 1.
    pub scores: Vec<f64>,
    /// Of a label of 1: as the server computed it if the keys were made for that, else from the
    /// score.
    pub probabilities: Vec<f64>,
    /// Where labels were encrypted with the rows.
    pub accuracy: Option<f64>,
    /// Where there were labels of both classes.
    pub auc: Option<f64>,
}

impl NamedScores {
    /// Of rows with these labels, if there are any.
    ///
    /// # Errors
    /// [`Error::Metric`] for labels of other rows, and scores that are not finite.
    pub fn new(
        scores: Vec<f64>,
        probabilities: Option<Vec<f64>>,
        labels: Option<&[bool]>,
    ) -> Result<Self> {
        let probabilities =
            probabilities.unwrap_or_else(|| scores.iter().map(|&score| sigmoid(score)).collect());
        let (accuracy, auc) = match labels {
            None => (None, None),
            Some(labels) => {
                let auc = match metrics::auc(&scores, labels) {
                    Err(MetricError::OneClass { .. }) => None,
                    other => Some(other?),
                };
                (Some(metrics::accuracy(&scores, labels)?), auc)
            }
        };
        let (kind, rows) = ("scores", scores.len());
        Ok(Self { kind, rows, scores, probabilities, accuracy, auc })
    }

    /// One line per row.
    ///
    /// # Errors
    /// [`Error::Bug`] if the text cannot be made.
    pub fn to_csv(&self) -> Result<String> {
        let lines = self.scores.iter().zip(&self.probabilities);
        let lines =
            lines.map(|(score, probability)| vec![score.to_string(), probability.to_string()]);
        csv_text(&["score", "probability"].map(str::to_owned), lines)
    }
}

/// Decrypted statistics with the names of their columns.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NamedStatistics {
    /// `statistics`.
    pub kind: &'static str,
    /// Names of the columns.
    pub columns: Vec<String>,
    /// In their order.
    #[serde(flatten)]
    pub statistics: Statistics,
    /// Of each column, by the column of weights that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weighted_mean: Option<Vec<f64>>,
    /// The model that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub least_squares: Option<NamedLeastSquares>,
    /// The test that was asked for.
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
    /// Of a table with these columns.
    #[must_use]
    pub fn new(fit: LeastSquares, columns: &[String]) -> Self {
        Self {
            target: columns[fit.target].clone(),
            predictors: fit.predictors.iter().map(|&j| columns[j].clone()).collect(),
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
    /// `groups`.
    pub kind: &'static str,
    /// Name of the column whose values tell groups apart.
    pub key: String,
    /// Its values, ascending.
    pub labels: Vec<f64>,
    /// Names of the other columns.
    pub columns: Vec<String>,
    /// In the order of both.
    #[serde(flatten)]
    pub statistics: GroupStatistics,
    /// Of each column between the two groups that were asked for; nothing where it is
    /// constant in both or a group has fewer than two rows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub t_test: Option<Vec<Option<TTest>>>,
}

impl NamedGroups {
    /// One line per group and column.
    ///
    /// # Errors
    /// [`Error::Bug`] if the text cannot be made.
    pub fn to_csv(&self) -> Result<String> {
        let head = [&self.key, "column", "count", "sum", "mean", "variance"].map(str::to_owned);
        let cell = |x: f64| if x.is_nan() { String::new() } else { x.to_string() };
        let s = &self.statistics;
        let rows = self.labels.iter().enumerate().flat_map(|(group, label)| {
            self.columns.iter().enumerate().map(move |(j, column)| {
                let values = [&s.sum, &s.mean, &s.variance].map(|values| cell(values[group][j]));
                let mut line = vec![label.to_string(), column.clone(), s.count[group].to_string()];
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
    /// `histograms`.
    pub kind: &'static str,
    /// Rows of the table.
    pub rows: usize,
    /// Names of the columns.
    pub columns: Vec<String>,
    /// Of each column.
    pub histograms: Vec<Histogram>,
    /// Parts of the values.
    pub probabilities: Vec<f64>,
    /// Of each column, below which these parts lie.
    pub quantiles: Vec<Vec<f64>>,
}

impl NamedHistograms {
    /// One line per column and bin.
    ///
    /// # Errors
    /// [`Error::Bug`] if the text cannot be made.
    pub fn to_csv(&self) -> Result<String> {
        let head = ["column", "low", "high", "count"].map(str::to_owned);
        let rows = self.columns.iter().zip(&self.histograms).flat_map(|(column, histogram)| {
            histogram.edges.windows(2).zip(&histogram.counts).map(move |(edges, count)| {
                let numbers = [edges[0], edges[1], *count].map(|x| x.to_string());
                core::iter::once(column.clone()).chain(numbers).collect()
            })
        });
        csv_text(&head, rows)
    }
}

impl NamedStatistics {
    /// One line per column, the matrices to the right.
    ///
    /// # Errors
    /// [`Error::Bug`] if the text cannot be made.
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

/// Comma-separated text.
///
/// # Errors
/// [`Error::Bug`] if it cannot be made.
pub fn csv_text(head: &[String], rows: impl IntoIterator<Item = Vec<String>>) -> Result<String> {
    let bug = |error: String| Error::Bug(error);
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(head).map_err(|error| bug(error.to_string()))?;
    for row in rows {
        writer.write_record(row).map_err(|error| bug(error.to_string()))?;
    }
    let bytes = writer.into_inner().map_err(|error| bug(error.to_string()))?;
    String::from_utf8(bytes).map_err(|error| bug(error.to_string()))
}

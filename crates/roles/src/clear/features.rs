//! The features of a model, and the preparation of its rows.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

use crate::{
    clear::reading::Reading,
    error::{Error, Result},
    os::files::{self, Access},
};
use serde::{Deserialize, Serialize};
use std::{collections::HashSet, io::Read, path::Path};
use sudare_apps::logreg::{self, Prepared, ScoredModel, Transform};
use sudare_table::{Encoding, Table};

/// Maximum size of a model file, in bytes.
const MAX_BYTES: u64 = 256 << 20;

/// The features of a model: its columns in order, and the preparation of rows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Described", into = "Described")]
pub struct Inputs {
    /// Names of the columns.
    pub columns: Vec<String>,
    /// The column that the model predicts.
    pub target: String,
    /// The classes of the target.
    pub classes: Vec<String>,
    /// True if the classes are text even where they look like numbers.
    pub text_labels: bool,
    /// Preparation of rows for a model in the clear.
    pub shown: Transform,
    /// Preparation of rows for an encrypted model.
    pub transform: Option<Transform>,
    /// The encoding of the columns, if they are not numbers.
    pub encoding: Option<Encoding>,
}

/// The JSON form of [`Inputs`].
#[derive(Serialize, Deserialize)]
struct Described {
    columns: Vec<String>,
    #[serde(default)]
    target: String,
    #[serde(default)]
    classes: Vec<String>,
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    text_labels: bool,
    #[serde(default)]
    centers: Vec<f64>,
    divisors: Vec<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    transform: Option<Transform>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    encoding: Option<Encoding>,
}

impl TryFrom<Described> for Inputs {
    type Error = String;

    fn try_from(described: Described) -> core::result::Result<Self, String> {
        let Described {
            columns,
            target,
            mut classes,
            text_labels,
            mut centers,
            divisors,
            transform,
            encoding,
        } = described;
        // People may write this file by hand, where unscaled columns have no centers.
        if centers.is_empty() {
            centers = vec![0.0; columns.len()];
        }
        // The default classes of the format, as in files of models.
        if classes.is_empty() {
            classes = ["0", "1"].map(str::to_owned).to_vec();
        }
        check_classes(&classes)?;
        let of_columns = |found: usize| found == columns.len();
        let others = transform.iter().map(Transform::columns);
        let mut others = others.chain(encoding.iter().map(|encoding| encoding.columns().len()));
        if ![centers.len(), divisors.len()].into_iter().all(of_columns) || !others.all(of_columns) {
            let columns = columns.len();
            let divisors = divisors.len();
            return Err(format!("it has {columns} columns and {divisors} divisors"));
        }
        let shown = Transform::affine(centers, divisors).map_err(|error| error.to_string())?;
        Ok(Self { columns, target, classes, text_labels, shown, transform, encoding })
    }
}

impl From<Inputs> for Described {
    fn from(inputs: Inputs) -> Self {
        let Inputs { columns, target, classes, text_labels, shown, transform, encoding } = inputs;
        let centers = shown.centers().to_vec();
        let divisors = shown.divisors().to_vec();
        Self { columns, target, classes, text_labels, centers, divisors, transform, encoding }
    }
}

impl Inputs {
    /// Returns the features of a table that a model was trained on, for rows to score. Pass
    /// `training` if the training leaves the model encrypted, and `class_weights` if they were
    /// given.
    ///
    /// # Errors
    /// [`Error::Table`] and [`Error::Apps`] for a table that does not fit the training.
    pub fn of(
        table: &Table,
        encoding: Option<Encoding>,
        training: Option<&logreg::Job>,
        class_weights: Option<&[f64]>,
    ) -> Result<Self> {
        let transform = |training: &logreg::Job| -> Result<_> {
            let prepared = Prepared::new(table, &training.spec, training.rows, class_weights)?;
            Ok(prepared.transform().clone())
        };
        let transform = training.map(transform).transpose()?;
        Ok(Self {
            columns: table.columns().to_vec(),
            target: table.target().unwrap_or_default().into(),
            classes: table.classes().map(<[_]>::to_vec).unwrap_or_default(),
            text_labels: table.has_text_labels(),
            shown: Transform::spreading(table),
            transform,
            encoding: encoding.filter(|encoding| !encoding.is_plain()),
        })
    }

    /// Returns whether a file describes features, as a model in the clear does. Any other file is a
    /// table.
    #[must_use]
    pub fn is_described(path: &Path) -> bool {
        path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("json"))
    }

    /// Reads features from a JSON file, which is a model in the clear or any object with `columns`
    /// and `divisors`. Any other file must be the table that the model was trained on; see
    /// [`Inputs::of`].
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::Table`]; [`Error::Parse`]; the errors of [`Inputs::of`].
    pub fn read(
        path: &Path,
        training: Option<&logreg::Job>,
        (target, class_weights): (Option<&str>, Option<&[f64]>),
        reading: &Reading,
    ) -> Result<Self> {
        // Tables have many extensions, and only JSON can be a model, so all others count as tables.
        if !Self::is_described(path) {
            // The preparation of encrypted training rows depends on the labels.
            if training.is_some() && target.is_none() {
                return Err(Error::Usage(format!(
                    "no target column for {}: pass the column that the model was trained to \
                     predict with --target",
                    path.display()
                )));
            }
            let (table, encoding) = reading.table(path, target)?;
            return Self::of(&table, Some(encoding), training, class_weights);
        }
        serde_json::from_slice(&text_of(path)?).map_err(|error| Error::Parse {
            path: path.into(),
            what: "description of features",
            problem: format!(
                "{error}; name a decrypted model, or the table that a model was trained on"
            ),
        })
    }

    /// Reads a table. Includes labels if the table has the column `target`, which defaults to the
    /// model's own target.
    ///
    /// # Errors
    /// The errors of [`Reading::rows`].
    pub fn read_table(
        &self,
        path: &Path,
        target: Option<&str>,
        reading: &Reading,
    ) -> Result<Table> {
        let labels = (target.unwrap_or(&self.target), &self.classes[..]);
        reading.rows(path, &self.columns, labels, self.encoding.as_ref())
    }

    /// Returns the preparation of rows for the model of a job.
    ///
    /// # Errors
    /// [`Error::Usage`] if the job scores by the model of a training and only the features of a
    /// plain model are known.
    pub fn prepares_for(&self, model: &ScoredModel) -> Result<&Transform> {
        match model {
            // The rows of a given model are prepared in the units of the model's file.
            ScoredModel::Given { .. } | ScoredModel::Shared { .. } => Ok(&self.shown),
            ScoredModel::Trained(_) => self.transform.as_ref().ok_or_else(|| {
                Error::Usage(
                    "the keys are for scoring rows by the model of a training, which requires the \
                     preparation of its rows: pass the table that it was trained on, or its \
                     decrypted model"
                        .into(),
                )
            }),
        }
    }
}

/// Refuses fewer than two classes, and duplicates.
pub(crate) fn check_classes(classes: &[String]) -> core::result::Result<(), String> {
    if classes.len() < 2 {
        return Err(format!("it has {} class(es), but a model needs at least 2", classes.len()));
    }
    let mut seen = HashSet::new();
    match classes.iter().find(|class| !seen.insert(*class)) {
        Some(class) => Err(format!("two classes are named {class:?}")),
        None => Ok(()),
    }
}

/// Creates the error for a file that is not a model in the clear.
pub(crate) fn not_a_model(path: &Path, problem: &str) -> Error {
    Error::Parse {
        path: path.into(),
        what: "model",
        problem: format!("{problem}; name the JSON file of a model that `sudare decrypt` made"),
    }
}

/// Reads the text of a file that may be a model in the clear.
pub(crate) fn text_of(path: &Path) -> Result<Vec<u8>> {
    let (file, bytes) = files::open(path, Access::Shared)?;
    if bytes > MAX_BYTES {
        let problem = format!("it has {bytes} bytes, but a model has at most {MAX_BYTES}");
        return Err(not_a_model(path, &problem));
    }
    let mut text = Vec::new();
    // The file may grow after its size was read, so the limit applies to the read as well.
    file.take(MAX_BYTES).read_to_end(&mut text).map_err(|e| Error::io("read", path, e))?;
    // Encrypted results start with these bytes, and JSON errors would not name the cause.
    if text.starts_with(b"\x89sudare") {
        return Err(not_a_model(path, "it is encrypted: decrypt it first"));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn features_are_columns_and_divisors_at_least() {
        let inputs: Inputs =
            serde_json::from_str(r#"{"columns": ["a", "b"], "divisors": [2, 4], "more": 1}"#)
                .unwrap();
        assert_eq!(
            (inputs.shown.centers(), inputs.shown.divisors()),
            (&[0.0; 2][..], &[2.0, 4.0][..])
        );
        assert_eq!(inputs.classes, ["0", "1"]);
        let again = serde_json::to_string(&inputs).unwrap();
        assert_eq!(serde_json::from_str::<Inputs>(&again).unwrap(), inputs);
        for bad in [
            r#"{"columns": ["a"], "divisors": [2, 4]}"#,
            r#"{"columns": ["a"], "divisors": [0]}"#,
            r#"{"columns": ["a"], "divisors": [1], "centers": [1, 2]}"#,
            r#"{"columns": ["a"]}"#,
            r#"{"columns": ["a"], "divisors": [1], "classes": ["x"]}"#,
            r#"{"columns": ["a"], "divisors": [1], "classes": ["x", "x"]}"#,
        ] {
            assert!(serde_json::from_str::<Inputs>(bad).is_err(), "{bad}");
        }
    }
}

//! What scores of encrypted rows take beside the rows: how these are prepared for a model, and the
//! model itself.

use crate::{
    error::{Error, Result},
    files::{self, Access},
    job::Job,
    label::{Content, Meta, ScoredBy},
    model::{Model, text_of},
    note::prepared_digest,
    opened::Opened,
    reading::Reading,
    server::Session,
};
use serde::{Deserialize, Serialize};
use std::{
    io::{Read, Seek},
    path::Path,
};
use sudare::ckks::{Ciphertext, serial::Kind};
use sudare_apps::{
    logreg::{Prepared, ScorePlan, ScoredModel, Transform, Weights},
    table::{Encoding, Table},
};

/// The features of a model: their columns, in its order, and how rows of them are prepared.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Described", into = "Described")]
pub struct Inputs {
    /// Names of the columns.
    pub columns: Vec<String>,
    /// The column that the model predicts.
    pub target: String,
    /// The classes of that.
    pub classes: Vec<String>,
    /// For a model in the clear.
    pub shown: Transform,
    /// For an encrypted one.
    pub transform: Option<Transform>,
    /// How columns become numbers, if they are not.
    pub encoding: Option<Encoding>,
}

/// What files say of features.
#[derive(Serialize, Deserialize)]
struct Described {
    columns: Vec<String>,
    #[serde(default)]
    target: String,
    #[serde(default)]
    classes: Vec<String>,
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
        let Described { columns, target, mut classes, mut centers, divisors, transform, encoding } =
            described;
        if centers.is_empty() {
            centers = vec![0.0; columns.len()];
        }
        if classes.is_empty() {
            classes = ["0", "1"].map(str::to_owned).to_vec();
        }
        let of_columns = |found: usize| found == columns.len();
        let others = transform.iter().map(Transform::columns);
        let mut others = others.chain(encoding.iter().map(|encoding| encoding.columns().len()));
        if ![centers.len(), divisors.len()].into_iter().all(of_columns) || !others.all(of_columns) {
            let (columns, divisors) = (columns.len(), divisors.len());
            return Err(format!("it has {columns} columns and {divisors} divisors"));
        }
        let shown = Transform::affine(centers, divisors).map_err(|error| error.to_string())?;
        Ok(Self { columns, target, classes, shown, transform, encoding })
    }
}

impl From<Inputs> for Described {
    fn from(inputs: Inputs) -> Self {
        let Inputs { columns, target, classes, shown, transform, encoding } = inputs;
        let (centers, divisors) = (shown.centers().to_vec(), shown.divisors().to_vec());
        Self { columns, target, classes, centers, divisors, transform, encoding }
    }
}

impl Inputs {
    /// Of a table that a model was trained on, for rows that keys for `job` are to score; with the
    /// weights of its classes, if they were given.
    ///
    /// # Errors
    /// [`Error::Table`] and [`Error::Apps`] for a table that cannot have been trained on so.
    pub fn of(
        table: &Table,
        encoding: Option<Encoding>,
        job: &Job,
        class_weights: Option<&[f64]>,
    ) -> Result<Self> {
        let transform = match job {
            Job::Predict(job) => match &job.model {
                ScoredModel::Trained(training) => {
                    let (spec, rows) = (&training.spec, training.rows);
                    let prepared = Prepared::new(table, spec, rows, class_weights)?;
                    Some(prepared.transform().clone())
                }
                ScoredModel::Given { .. } => None,
            },
            _ => None,
        };
        Ok(Self {
            columns: table.columns().to_vec(),
            target: table.target().unwrap_or_default().into(),
            classes: table.classes().map(<[_]>::to_vec).unwrap_or_default(),
            shown: Transform::spreading(table),
            transform,
            encoding: encoding.filter(|encoding| !encoding.is_plain()),
        })
    }

    /// From a model in the clear, or any JSON file with its `columns` and `divisors`; or, of
    /// another name, from the table that a model was trained on, as [`Inputs::of`] it.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::Table`]; [`Error::Parse`]; as [`Inputs::of`].
    pub fn read(
        path: &Path,
        job: &Job,
        (target, class_weights): (Option<&str>, Option<&[f64]>),
        reading: &Reading,
    ) -> Result<Self> {
        if !path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("json")) {
            if matches!(job, Job::Predict(job) if matches!(job.model, ScoredModel::Trained(_)))
                && target.is_none()
            {
                return Err(Error::Usage(format!(
                    "which column of {} the model was trained to predict is not said: name it with \
                     --target",
                    path.display()
                )));
            }
            let (table, encoding) = reading.table(path, target)?;
            return Self::of(&table, Some(encoding), job, class_weights);
        }
        serde_json::from_slice(&text_of(path)?).map_err(|error| Error::Parse {
            path: path.into(),
            what: "description of features",
            problem: format!(
                "{error}; name a decrypted model, or the table that one was trained on"
            ),
        })
    }

    /// Reads a table, with labels if `target`, or else the model's own, is among its columns.
    ///
    /// # Errors
    /// As [`Reading::rows`].
    pub fn read_table(
        &self,
        path: &Path,
        target: Option<&str>,
        reading: &Reading,
    ) -> Result<Table> {
        let labels = (target.unwrap_or(&self.target), &self.classes[..]);
        reading.rows(path, &self.columns, labels, self.encoding.as_ref())
    }

    /// How rows are prepared for the model of a job.
    ///
    /// # Errors
    /// [`Error::Usage`] for a model that a training leaves, if only the features of a plain one are
    /// known.
    pub fn prepares_for(&self, model: &ScoredModel) -> Result<&Transform> {
        match model {
            ScoredModel::Given { .. } => Ok(&self.shown),
            ScoredModel::Trained(_) => self.transform.as_ref().ok_or_else(|| {
                Error::Usage(
                    "the keys are for scoring rows by the model of a training, which takes the \
                     preparation of its rows: name the table that it was trained on, or its \
                     decrypted model"
                        .into(),
                )
            }),
        }
    }
}

/// A model that rows are scored by.
pub enum AnyModel {
    /// In the clear.
    Plain {
        /// For rows that are prepared as those of the plan.
        weights: Vec<Vec<f64>>,
        /// Digest of that preparation.
        prepared: [u8; 32],
    },
    /// With the note of the table that it was trained on, or of whoever encrypted it.
    Encrypted {
        /// The weights of each class, or of the second of two.
        weights: Vec<Ciphertext>,
        /// What it says of its columns, encrypted.
        note: Vec<Ciphertext>,
    },
}

impl AnyModel {
    /// Reads a model of either kind, which must suit the rows of `session` and their plan.
    ///
    /// # Errors
    /// [`Error::Usage`] for a model of another job; [`Error::File`] for one of another key, or a
    /// damaged one; [`Error::Parse`] for another file.
    pub fn read<R: Read + Seek>(
        path: &Path,
        session: &Session<R>,
        plan: &ScorePlan,
    ) -> Result<Self> {
        let (mut file, _) = files::open(path, Access::Shared)?;
        let mut start = Vec::new();
        file.by_ref().take(7).read_to_end(&mut start).map_err(|e| Error::io("read", path, e))?;
        if start != b"\x89sudare" {
            return Self::plain(&Model::read(path)?, plan);
        }
        Self::encrypted(Opened::open(path, Kind::Ciphertexts)?, session, plan)
    }

    /// A model in the clear, for the rows of a plan.
    ///
    /// # Errors
    /// [`Error::Usage`] for a model that does not say how rows are prepared for it; [`Error::Apps`]
    /// for one of other columns.
    pub fn plain(model: &Model, plan: &ScorePlan) -> Result<Self> {
        let inputs = model.inputs()?;
        let prepares = inputs.prepares_for(&plan.job().model)?;
        let under = |weights: &Vec<f64>| inputs.shown.weights_under(weights, prepares);
        let weights = model.weights.iter().map(under).collect::<sudare_apps::Result<_>>()?;
        Ok(Self::Plain { weights, prepared: prepared_digest(&inputs.columns, prepares)? })
    }

    /// Reads an encrypted model, which must suit the rows of `session` and their plan.
    ///
    /// # Errors
    /// As [`AnyModel::read`].
    pub fn encrypted<F: Read, R: Read + Seek>(
        file: Opened<F>,
        session: &Session<R>,
        plan: &ScorePlan,
    ) -> Result<Self> {
        let path = file.path().to_owned();
        let (_, meta) = file.meta(&[Content::Model])?;
        file.expect_key(session.params.rlwe().id(), session.key)?;
        let model = plan.job().model;
        let suits = match (&meta.job, &model) {
            (Job::Train(job), ScoredModel::Trained(needed)) => {
                job == needed && meta.iterations == job.spec.iterations
            }
            (Job::Predict(job), _) => job.model == model,
            _ => false,
        };
        if !suits {
            let done = match meta.iterations {
                0 => String::new(),
                done => format!(" after {done} iterations"),
            };
            return Err(Error::Usage(format!(
                "{} is a model of {}{done}, the rows were encrypted for {}: encrypt them for this \
                 model, with the keys of a finished training or with those of the model",
                path.display(),
                meta.job,
                session.meta.job
            )));
        }
        let mut parts = file.ciphertexts(&session.params, meta.note)?;
        let (found, needed) = (parts.content.len(), model.models());
        if found < needed {
            let problem = format!("a model has {needed} ciphertexts of weights, it has {found}");
            return Err(Error::in_file(&path)(sudare::Error::Malformed { what: "file", problem }));
        }
        // Those of a history come after.
        parts.content.truncate(needed);
        Ok(Self::Encrypted { weights: parts.content, note: parts.note })
    }

    /// As scoring takes it.
    #[must_use]
    pub fn weights(&self) -> Weights<'_, Ciphertext> {
        match self {
            Self::Plain { weights, .. } => Weights::Plain(weights),
            Self::Encrypted { weights, .. } => Weights::Encrypted(weights),
        }
    }

    /// The ciphertexts of a file of scores by this model, and what it says of itself.
    #[must_use]
    pub fn results<R: Read + Seek>(
        self,
        scores: Vec<Ciphertext>,
        session: &Session<R>,
    ) -> (Vec<Ciphertext>, Meta) {
        let (count, mut results) = (scores.len(), session.with_note(scores));
        let scored_by = match self {
            Self::Plain { prepared, .. } => ScoredBy::Plain(prepared),
            Self::Encrypted { note, .. } => {
                let scored_by = ScoredBy::Encrypted(note.len() as u32);
                results.extend(note);
                scored_by
            }
        };
        let note = (results.len() - count) as u32;
        (results, Meta { note, scored_by: Some(scored_by), ..session.meta_of_result() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows and a model that were prepared alike have the same digest, though their numbers were
    /// written and read any number of times.
    #[test]
    fn numbers_in_json_are_read_to_the_last_bit() {
        let numbers = (1..20_000).map(|i| f64::from(i).sqrt() * 1e3 / 7.0).collect::<Vec<_>>();
        let text = serde_json::to_string(&numbers).unwrap();
        assert_eq!(serde_json::from_str::<Vec<f64>>(&text).unwrap(), numbers);
    }

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
        ] {
            assert!(serde_json::from_str::<Inputs>(bad).is_err(), "{bad}");
        }
    }
}

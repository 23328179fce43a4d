//! What scores of encrypted rows take beside the rows: how features were scaled for a model, and
//! the model itself.

use crate::{
    artefacts::{Content, Job, Meta, Opened, ScoredBy},
    error::{Error, Result},
    files::{self, Access},
    model::{self, Model, text_of},
    server::Session,
};
use serde::{Deserialize, Serialize};
use std::{io::Read, path::Path};
use sudare::ckks::{Ciphertext, serial::Kind};
use sudare_apps::{
    logreg::{ScorePlan, ScoredModel, Weights},
    table::{Scaling, Table, TableError},
};

/// The features of a model: their columns, in its order, and what they are divided by.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Inputs {
    /// Names of the columns.
    pub columns: Vec<String>,
    /// Of each.
    pub divisors: Scaling,
    /// The column that the model predicts.
    #[serde(default)]
    pub target: String,
}

impl Inputs {
    /// Of a table that a model was trained on.
    #[must_use]
    pub fn of(table: &Table) -> Self {
        let target = table.target().unwrap_or_default().into();
        Self { columns: table.columns().to_vec(), divisors: Scaling::max_abs(table), target }
    }

    /// From a model in the clear, or any JSON file with its `columns` and `divisors`; or, of
    /// another name, from the table that a model was trained on, without its column `target`.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::Table`]; [`Error::Parse`].
    pub fn read(path: &Path, target: Option<&str>) -> Result<Self> {
        if !path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("json")) {
            return Ok(Self::of(&files::read_table(path, target)?));
        }
        let bad = |problem: String| Error::Parse {
            path: path.into(),
            what: "description of features",
            problem: format!(
                "{problem}; name a decrypted model, or the table that one was trained on"
            ),
        };
        let inputs: Self =
            serde_json::from_slice(&text_of(path)?).map_err(|error| bad(error.to_string()))?;
        let (columns, divisors) = (inputs.columns.len(), inputs.divisors.features());
        if columns != divisors {
            return Err(bad(format!("it has {columns} columns and {divisors} divisors")));
        }
        Ok(inputs)
    }

    /// Reads a table, with labels if `target`, or else the model's own, is among its columns.
    ///
    /// # Errors
    /// [`Error::Table`].
    pub fn read_table(&self, path: &Path, target: Option<&str>) -> Result<Table> {
        let target = target.or((!self.target.is_empty()).then_some(self.target.as_str()));
        match files::read_table(path, target) {
            Err(Error::TableFile { source: TableError::UnknownTarget { .. }, .. }) => {
                files::read_table(path, None)
            }
            other => other,
        }
    }

    /// The columns of the model, in its order.
    ///
    /// # Errors
    /// [`Error::Usage`] unless the table has exactly these.
    pub fn arrange(&self, table: &Table) -> Result<Table> {
        let places = model::places(&self.columns, table)?;
        let values = table.iter_rows().flat_map(|row| places.iter().map(|&place| row[place]));
        let target = table
            .labels()
            .ok()
            .map(|labels| (table.target().unwrap_or_default().to_owned(), labels.to_vec()));
        Ok(Table::new(self.columns.clone(), values.collect(), target)?)
    }

    /// Tells columns and divisors from others.
    #[must_use]
    pub fn digest(columns: &[String], divisors: &Scaling) -> [u8; 32] {
        let mut hasher = blake3::Hasher::new();
        for (column, divisor) in columns.iter().zip(divisors.divisors()) {
            hasher.update(&(column.len() as u64).to_le_bytes());
            hasher.update(column.as_bytes());
            hasher.update(&divisor.to_le_bytes());
        }
        hasher.finalize().into()
    }
}

/// A model that rows are scored by.
pub enum AnyModel {
    /// In the clear.
    Plain(Box<Model>),
    /// With the note of the table that it was trained on, or of whoever encrypted it.
    Encrypted {
        /// The weights.
        weights: Box<Ciphertext>,
        /// Names and divisors of its columns, encrypted.
        note: Vec<Ciphertext>,
    },
}

impl AnyModel {
    /// Reads a model of either kind, which must suit the rows of `session` and their plan.
    ///
    /// # Errors
    /// [`Error::Usage`] for a model of another job; [`Error::File`] for one of another key, or a
    /// damaged one; [`Error::Parse`] for another file.
    pub fn read<R: Read + std::io::Seek>(
        path: &Path,
        session: &Session<R>,
        plan: &ScorePlan,
    ) -> Result<Self> {
        let (mut file, _) = files::open(path, Access::Shared)?;
        let mut start = Vec::new();
        file.by_ref().take(7).read_to_end(&mut start).map_err(|e| Error::io("read", path, e))?;
        if start != b"\x89sudare" {
            return Ok(Self::Plain(Box::new(Model::read(path)?)));
        }
        Self::encrypted(Opened::open(path, Kind::Ciphertexts)?, session, plan)
    }

    /// Reads an encrypted model, which must suit the rows of `session` and their plan.
    ///
    /// # Errors
    /// As [`AnyModel::read`].
    pub fn encrypted<F: Read, R: Read + std::io::Seek>(
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
        if parts.content.is_empty() {
            let problem = "a model has a ciphertext of weights, it has none".into();
            return Err(Error::in_file(&path)(sudare::Error::Malformed { what: "file", problem }));
        }
        Ok(Self::Encrypted { weights: Box::new(parts.content.swap_remove(0)), note: parts.note })
    }

    /// As scoring takes it.
    #[must_use]
    pub fn weights(&self) -> Weights<'_, Ciphertext> {
        match self {
            Self::Plain(model) => Weights::Plain(&model.weights),
            Self::Encrypted { weights, .. } => Weights::Encrypted(weights),
        }
    }

    /// The ciphertexts of a file of scores by this model, and what it says of itself.
    #[must_use]
    pub fn results<R: Read + std::io::Seek>(
        self,
        scores: Vec<Ciphertext>,
        session: &Session<R>,
    ) -> (Vec<Ciphertext>, Meta) {
        let (count, mut results) = (scores.len(), session.with_note(scores));
        let scored_by = match self {
            Self::Plain(model) => ScoredBy::Plain(Inputs::digest(&model.columns, &model.divisors)),
            Self::Encrypted { note, .. } => {
                let scored_by = ScoredBy::Encrypted(note.len() as u32);
                results.extend(note);
                scored_by
            }
        };
        let note = (results.len() - count) as u32;
        (results, Meta { note, scored_by: Some(scored_by), ..Meta::of(session.meta.job) })
    }
}

#[cfg(test)]
mod tests {
    /// Rows and a model that were scaled alike have the same digest, though their numbers were
    /// written and read any number of times.
    #[test]
    fn numbers_in_json_are_read_to_the_last_bit() {
        let numbers = (1..20_000).map(|i| f64::from(i).sqrt() * 1e3 / 7.0).collect::<Vec<_>>();
        let text = serde_json::to_string(&numbers).unwrap();
        assert_eq!(serde_json::from_str::<Vec<f64>>(&text).unwrap(), numbers);
    }
}

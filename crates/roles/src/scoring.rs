//! The models that encrypted rows are scored by.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

use crate::{
    error::{Error, Result},
    files::{self, Access},
    job::Job,
    label::{Content, Meta, ScoredBy},
    model::Model,
    note::prepared_digest,
    opened::Opened,
    server::Session,
};
use std::{
    io::{Read, Seek},
    path::Path,
};
use sudare::ckks::{Ciphertext, serial::Kind};
use sudare_apps::logreg::{ScorePlan, ScoredModel, Weights};

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

    /// The weights, as scoring takes them.
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
        let note = results.len().saturating_sub(count) as u32;
        (results, Meta { note, scored_by: Some(scored_by), ..session.meta_of_result() })
    }
}

#[cfg(test)]
mod tests {
    /// Rows and a model that were prepared alike have the same digest, though their numbers were
    /// written and read any number of times.
    #[test]
    fn numbers_in_json_are_read_to_the_last_bit() {
        let numbers = (1..20_000).map(|i| f64::from(i).sqrt() * 1e3 / 7.0).collect::<Vec<_>>();
        let text = serde_json::to_string(&numbers).unwrap();
        assert_eq!(serde_json::from_str::<Vec<f64>>(&text).unwrap(), numbers);
    }
}

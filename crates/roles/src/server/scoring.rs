//! Models that score encrypted rows.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

use crate::{
    clear::{model::Model, note::prepared_digest},
    error::{Error, Result},
    format::{
        label::{Content, Meta, ScoredBy},
        opened::Opened,
    },
    job::Job,
    os::files::{self, Access},
    server::session::Session,
};
use std::{
    io::{Read, Seek},
    path::Path,
};
use sudare::ckks::{Ciphertext, serial::Kind};
use sudare_apps::logreg::{ScorePlan, ScoredModel, Weights};

/// A model that scores rows.
pub enum AnyModel {
    /// A model in the clear.
    Plain {
        /// Weights for rows with the plan's preparation.
        weights: Vec<Vec<f64>>,
        /// Digest of the preparation.
        prepared: [u8; 32],
    },
    /// An encrypted model, with the note of its training table or of the owner who encrypted it.
    Encrypted {
        /// Weights of each class. With two classes, weights of the second one.
        weights: Vec<Ciphertext>,
        /// The encrypted note about the model's columns.
        note: Vec<Ciphertext>,
    },
}

impl AnyModel {
    /// Reads a model of either kind. It must match the rows of `session` and their plan.
    ///
    /// # Errors
    /// [`Error::Usage`] for a model of another job; [`Error::File`] for a model of another key, or
    /// a damaged one; [`Error::Parse`] for any other file.
    pub fn read<R: Read + Seek>(
        path: &Path,
        session: &Session<R>,
        plan: &ScorePlan,
    ) -> Result<Self> {
        let (mut file, _) = files::open(path, Access::Shared)?;
        let mut start = Vec::new();
        // Seven bytes tell encrypted models apart. The readers check the rest with better messages.
        file.by_ref().take(7).read_to_end(&mut start).map_err(|e| Error::io("read", path, e))?;
        if start != b"\x89sudare" {
            return Self::plain(&Model::read(path)?, plan);
        }
        Self::encrypted(Opened::open(path, Kind::Ciphertexts)?, session, plan)
    }

    /// Prepares a model in the clear for the rows of a plan.
    ///
    /// # Errors
    /// [`Error::Usage`] for a model without the preparation of its rows; [`Error::Apps`] for a
    /// model with other columns.
    pub fn plain(model: &Model, plan: &ScorePlan) -> Result<Self> {
        let inputs = model.inputs()?;
        let prepares = inputs.prepares_for(&plan.job().model)?;
        let under = |weights: &Vec<f64>| inputs.shown.weights_under(weights, prepares);
        let weights = model.weights.iter().map(under).collect::<sudare_apps::Result<_>>()?;
        Ok(Self::Plain { weights, prepared: prepared_digest(&inputs.columns, prepares)? })
    }

    /// Reads an encrypted model. It must match the rows of `session` and their plan.
    ///
    /// # Errors
    /// The errors of [`AnyModel::read`].
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
                // The plan expects the level of the weights after the last iteration.
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
                "{} is a model of {}{done}, but the rows were encrypted for {}: encrypt them for \
                 this model, with the keys of the finished training or with the model's keys",
                path.display(),
                meta.job,
                session.meta.job
            )));
        }
        let mut parts = file.ciphertexts(&session.params, meta.note)?;
        let found = parts.content.len();
        let needed = model.models();
        if found < needed {
            let problem = format!(
                "a model has {needed} ciphertexts of weights, but this file has \
                                   {found}"
            );
            return Err(Error::in_file(&path)(sudare::Error::Malformed { what: "file", problem }));
        }
        // Weights of a history follow.
        parts.content.truncate(needed);
        Ok(Self::Encrypted { weights: parts.content, note: parts.note })
    }

    /// Returns the weights in the form that scoring takes.
    #[must_use]
    pub fn weights(&self) -> Weights<'_, Ciphertext> {
        match self {
            Self::Plain { weights, .. } => Weights::Plain(weights),
            Self::Encrypted { weights, .. } => Weights::Encrypted(weights),
        }
    }

    /// Returns the ciphertexts of a file of scores by this model, and the file's metadata.
    #[must_use]
    pub fn results<R: Read + Seek>(
        self,
        scores: Vec<Ciphertext>,
        session: &Session<R>,
    ) -> (Vec<Ciphertext>, Meta) {
        // The notes come after the scores, the rows' note first, as the reader splits them.
        let count = scores.len();
        let mut results = session.with_note(scores);
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
    /// Rows and a model with the same preparation have the same digest, even after any number of
    /// round trips through JSON.
    #[test]
    fn numbers_in_json_are_read_to_the_last_bit() {
        let numbers = (1..20_000).map(|i| f64::from(i).sqrt() * 1e3 / 7.0).collect::<Vec<_>>();
        let text = serde_json::to_string(&numbers).unwrap();
        assert_eq!(serde_json::from_str::<Vec<f64>>(&text).unwrap(), numbers);
    }
}

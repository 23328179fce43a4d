//! The common transform by which all owners prepare their rows.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

use super::of_owner;
use crate::{
    clear::note::Trained,
    error::{Error, Result},
    format::label::Pooled,
    job::Job,
    os::files,
};
use serde::{Deserialize, Serialize};
use std::path::Path;
use sudare_apps::{
    logreg::{self, TrainSpec, Transform},
    pool::{Schema, Totals},
};
use sudare_arith::prng::Seed;

/// A transform that the holder of the key makes from the total of all owners, and gives to each of
/// them. It reveals means, spreads and correlations of all rows together, so it must stay among the
/// owners.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PooledTransform {
    /// Identifies the type of the file.
    kind: Kind,
    /// Identifies the transform. The server learns this number, and nothing else of the transform.
    id: [u8; 32],
    /// The schema that the owners agreed on.
    schema: Schema,
    /// Number of rows of all owners.
    rows: usize,
    /// Weights of the classes.
    row_weights: Vec<f64>,
    /// Class weights that the user gave, if any.
    class_weights: Option<Vec<f64>>,
    /// Preparation of the rows.
    transform: Transform,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum Kind {
    #[serde(rename = "transform of several owners")]
    Transform,
}

/// Maximum size of a transform's file, in bytes.
const MAX_BYTES: u64 = 512 << 20;

impl PooledTransform {
    /// Makes the transform of a training from the total of all owners. `given` are class weights,
    /// for a training that is planned with given weights.
    ///
    /// # Errors
    /// [`Error::Usage`] for a job without training; [`Error::Apps`] and [`Error::Pool`] for totals
    /// that do not permit training, such as totals of one class only; [`Error::Library`] if the
    /// machine has no randomness.
    pub fn new(
        schema: &Schema,
        totals: &Totals,
        job: &Job,
        given: Option<Vec<f64>>,
    ) -> Result<Self> {
        let Job::Train(logreg::Job { rows: planned, spec, .. }) = job else {
            return Err(Error::Usage(format!(
                "the sums are for {job}, which prepares no rows: decrypt them with `sudare decrypt`"
            )));
        };
        let counts = totals.class_counts();
        if counts.iter().filter(|&&count| count > 0).count() < 2 {
            return Err(Error::Usage(
                "all rows of all owners are in one class, but training needs two: check each \
                 owner's column of labels"
                    .into(),
            ));
        }
        // The plan has room for this number of row groups and no more.
        if totals.rows() > *planned {
            return Err(Error::Usage(format!(
                "the owners have {} rows together, but the keys are for {planned}: make keys for \
                 that many rows, and start over",
                totals.rows()
            )));
        }
        let sums: Vec<f64> = counts.iter().map(|&count| count as f64).collect();
        let weights = spec.row_weights(&sums, given.as_deref());
        let row_weights = weights.map_err(sudare_apps::Error::from)?;
        let alpha = spec.alpha(&sums, given.as_deref()).map_err(sudare_apps::Error::from)?;
        let squares = counts.iter().zip(&row_weights).map(|(&n, w)| n as f64 * w * w).sum::<f64>();
        let found = (squares / totals.rows() as f64).sqrt();
        let most = TrainSpec::MAX_ROW_WEIGHT;
        if found > most {
            return Err(sudare_apps::Error::RowsTooHeavy { found, most }.into());
        }
        let moments = totals.moments(&row_weights)?;
        Ok(Self {
            kind: Kind::Transform,
            // Random and not a hash of the transform: a server could test guesses of means with a
            // hash.
            id: *Seed::random().map_err(sudare::Error::from)?.as_bytes(),
            schema: schema.clone(),
            rows: totals.rows(),
            row_weights,
            class_weights: given,
            transform: Transform::of_moments(&moments, spec.preparation, alpha, *planned),
        })
    }

    /// Reads a file that the holder of the key made.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::Parse`].
    pub fn read(path: &Path) -> Result<Self> {
        Self::from_json(&files::read_text(path, MAX_BYTES)?, path)
    }

    /// Reads the text of such a file. Messages call it `path`.
    ///
    /// # Errors
    /// [`Error::Parse`].
    pub fn from_json(text: &str, path: &Path) -> Result<Self> {
        let this: Self = serde_json::from_str(text).map_err(|error| bad(path, &error))?;
        // Parsed alone it would be valid, and rows would be prepared with the wrong columns.
        match this.transform.columns() == this.schema.columns().len() {
            true => Ok(this),
            false => Err(bad(path, &"its columns differ from the columns of its schema")),
        }
    }

    /// Formats the transform as the text of its file.
    ///
    /// # Errors
    /// [`Error::Bug`] if the transform cannot be encoded.
    pub fn to_json(&self) -> Result<String> {
        let text = serde_json::to_string(self);
        text.map(|text| text + "\n").map_err(|error| Error::Bug(error.to_string()))
    }

    /// Returns the schema that the owners agreed on.
    #[must_use]
    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    /// Returns the number of rows of all owners.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Returns the weights of the classes.
    #[must_use]
    pub fn row_weights(&self) -> &[f64] {
        &self.row_weights
    }

    /// Returns the preparation of the rows.
    #[must_use]
    pub fn transform(&self) -> &Transform {
        &self.transform
    }

    /// Returns the metadata for the label of an owner's table.
    ///
    /// # Errors
    /// [`Error::Pool`] if the schema has no such owner.
    pub fn of_owner(&self, owner: &str) -> Result<Pooled> {
        of_owner(&self.schema, owner, Some(self.id))
    }

    /// Returns the metadata that turns weights, trained on the tables of all owners, into a model.
    ///
    /// # Errors
    /// [`Error::Apps`] for invalid bounds of columns.
    pub fn trained(&self) -> Result<Trained> {
        let schema = &self.schema;
        let encoding = schema.encoding();
        Ok(Trained {
            target: encoding.target().unwrap_or_default().into(),
            classes: schema.classes().to_vec(),
            transform: self.transform.clone(),
            // The schema's bounds, which all owners know: real ranges would show an owner's data.
            shown: Transform::affine(schema.centers(), schema.units())?,
            class_weights: self.class_weights.clone(),
            encoding: (!encoding.is_plain()).then(|| encoding.clone()),
            held_out: None,
            // No owner sees all rows, so no one can make or check a fingerprint of them.
            fingerprints: None,
            text_labels: false,
        })
    }
}

fn bad(path: &Path, problem: &impl ToString) -> Error {
    Error::Parse {
        path: path.into(),
        what: "transform of several owners",
        problem: format!(
            "{}; name the file that `sudare pool transform` made",
            problem.to_string()
        ),
    }
}

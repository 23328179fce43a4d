//! How all owners prepare their rows, by what they have in common.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

use super::of_owner;
use crate::{
    error::{Error, Result},
    files,
    job::Job,
    label::Pooled,
    note::Trained,
};
use serde::{Deserialize, Serialize};
use std::path::Path;
use sudare_apps::{
    logreg::{self, TrainSpec, Transform},
    pool::{Schema, Totals},
};
use sudare_arith::prng::Seed;

/// What the holder of the key makes of the total of all owners, and gives to each of them: it tells
/// means, spreads and correlations of all rows together, so that it stays among them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PooledTransform {
    /// Says what the file is.
    kind: Kind,
    /// Tells it from others; the server learns this, and nothing else of it.
    id: [u8; 32],
    /// What the owners agreed on.
    schema: Schema,
    /// Rows of all owners.
    rows: usize,
    /// What rows of each class weigh.
    row_weights: Vec<f64>,
    /// What was given for that, if it was.
    class_weights: Option<Vec<f64>>,
    /// How rows are prepared.
    transform: Transform,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum Kind {
    #[serde(rename = "transform of several owners")]
    Transform,
}

/// Largest file of a transform.
const MAX_BYTES: u64 = 512 << 20;

impl PooledTransform {
    /// A transform from the total of all owners, for a training. `given` are class weights, for a
    /// training that is planned with given ones.
    ///
    /// # Errors
    /// [`Error::Usage`] for a job that trains nothing; [`Error::Apps`] and [`Error::Pool`] for
    /// totals that cannot be trained on so, such as of one class only; [`Error::Library`] if the
    /// machine has no randomness to give.
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
                "all rows of all owners are of one class, and training needs two: check the \
                 column of labels of each"
                    .into(),
            ));
        }
        if totals.rows() > *planned {
            return Err(Error::Usage(format!(
                "the owners have {} rows together, the keys are for {planned}: make keys for as \
                 many, and begin again",
                totals.rows()
            )));
        }
        let weights = spec.row_weights(&counts, given.as_deref());
        let row_weights = weights.map_err(sudare_apps::Error::from)?;
        let alpha = spec.alpha(&counts, given.as_deref()).map_err(sudare_apps::Error::from)?;
        let squares = counts.iter().zip(&row_weights).map(|(&n, w)| n as f64 * w * w).sum::<f64>();
        let (found, most) = ((squares / totals.rows() as f64).sqrt(), TrainSpec::MAX_ROW_WEIGHT);
        if found > most {
            return Err(sudare_apps::Error::RowsTooHeavy { found, most }.into());
        }
        let moments = totals.moments(&row_weights)?;
        Ok(Self {
            kind: Kind::Transform,
            id: *Seed::random().map_err(sudare::Error::from)?.as_bytes(),
            schema: schema.clone(),
            rows: totals.rows(),
            row_weights,
            class_weights: given,
            transform: Transform::of_moments(&moments, spec.preparation, alpha, *planned),
        })
    }

    /// Reads the file that the holder of the key made.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::Parse`].
    pub fn read(path: &Path) -> Result<Self> {
        Self::from_json(&files::read_text(path, MAX_BYTES)?, path)
    }

    /// Reads the text of that file, which messages call `path`.
    ///
    /// # Errors
    /// [`Error::Parse`].
    pub fn from_json(text: &str, path: &Path) -> Result<Self> {
        let this: Self = serde_json::from_str(text).map_err(|error| bad(path, &error))?;
        match this.transform.columns() == this.schema.columns().len() {
            true => Ok(this),
            false => Err(bad(path, &"it is of other columns than its schema")),
        }
    }

    /// The text of its file.
    ///
    /// # Errors
    /// [`Error::Bug`] if it cannot be made.
    pub fn to_json(&self) -> Result<String> {
        let text = serde_json::to_string(self);
        text.map(|text| text + "\n").map_err(|error| Error::Bug(error.to_string()))
    }

    /// What the owners agreed on.
    #[must_use]
    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    /// Rows of all owners.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// What rows of each class weigh.
    #[must_use]
    pub fn row_weights(&self) -> &[f64] {
        &self.row_weights
    }

    /// How rows are prepared.
    #[must_use]
    pub fn transform(&self) -> &Transform {
        &self.transform
    }

    /// What the label of an owner's table says.
    ///
    /// # Errors
    /// [`Error::Pool`] if there is no such owner.
    pub fn of_owner(&self, owner: &str) -> Result<Pooled> {
        of_owner(&self.schema, owner, Some(self.id))
    }

    /// What makes a model of weights that are trained on the tables of all owners.
    ///
    /// # Errors
    /// [`Error::Apps`] for bounds of columns that are none.
    pub fn trained(&self) -> Result<Trained> {
        let schema = &self.schema;
        let encoding = schema.encoding();
        Ok(Trained {
            target: encoding.target().unwrap_or_default().into(),
            classes: schema.classes().to_vec(),
            transform: self.transform.clone(),
            shown: Transform::affine(schema.centers(), schema.units())?,
            class_weights: self.class_weights.clone(),
            encoding: (!encoding.is_plain()).then(|| encoding.clone()),
            held_out: None,
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

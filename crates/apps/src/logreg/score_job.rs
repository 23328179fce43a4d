//! What is public about scoring.

use super::{budget::LARGEST_ROW, job::Job};
use serde::{Deserialize, Serialize};

/// Entries of rows to be scored by a given model stay below this in absolute value: features of the
/// rows that it was trained on are at most 1.
pub(super) const LARGEST_FEATURE: f64 = 4.0;

/// What is public about scoring: how many rows, and by which model.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ScoreJob {
    /// Rows to score, at least 1.
    pub rows: usize,
    /// What they are scored by.
    pub model: ScoredModel,
}

/// The model that rows are scored by.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub enum ScoredModel {
    /// One that somebody has in the clear, and gives to the server plain or encrypted.
    Given {
        /// Its columns, at least 1; the intercept does not count.
        features: usize,
        /// Classes that it tells apart: 2, or more with a weight vector for each.
        classes: u32,
        /// What to compute beside scores.
        probability: Option<Probability>,
    },
    /// The encrypted one that a training of this kind leaves; or one given, of as many features.
    Trained(Job),
}

impl ScoredModel {
    /// Feature columns of the rows.
    #[must_use]
    pub fn features(&self) -> usize {
        match self {
            Self::Given { features, .. } => *features,
            Self::Trained(job) => job.features,
        }
    }

    /// Scores of a row: one for two classes, else one for each.
    #[must_use]
    pub fn models(&self) -> usize {
        match self {
            Self::Given { classes: 2, .. } => 1,
            Self::Given { classes, .. } => *classes as usize,
            Self::Trained(job) => job.spec.models(),
        }
    }

    /// What entries of rows must not exceed in absolute value; if rows are prepared as those of a
    /// training, their root mean square.
    pub(super) fn largest_entry(&self) -> f64 {
        match self {
            Self::Given { .. } => LARGEST_FEATURE,
            Self::Trained(_) => LARGEST_ROW,
        }
    }
}

/// How sigmoids of scores are computed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Probability {
    /// The largest absolute value of a score, at most [`Probability::MAX_RANGE`].
    pub range: f64,
    /// `-log2` of the largest error of the polynomial in place of the sigmoid, 1 to
    /// [`Probability::MAX_BITS`].
    pub bits: u32,
}

impl Probability {
    /// Most bits of a probability.
    pub const MAX_BITS: u32 = 16;

    /// Largest range: beyond, no polynomial that is possible tells more than a score's sign, and
    /// looking for one takes seconds.
    pub const MAX_RANGE: f64 = 1024.0;
}

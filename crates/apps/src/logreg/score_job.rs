//! What is public about scoring.

use super::{
    budget::LARGEST_ROW,
    job::Job,
    spec::{TrainError, TrainSpec},
};
use crate::Result;
use serde::{Deserialize, Serialize};

/// Entries of rows to be scored by a given model stay below this in absolute value: features of the
/// rows that it was trained on are at most 1.
pub(super) const LARGEST_FEATURE: f64 = 4.0;

/// Weights of a given model stay below this in absolute value.
const LARGEST_GIVEN_WEIGHT: f64 = 64.0;

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
        /// Classes that it tells apart: 2, or up to [`TrainSpec::MAX_CLASSES`] with a weight vector
        /// for each.
        classes: u32,
        /// What to compute beside scores.
        probability: Option<Probability>,
    },
    /// The encrypted one that a training of this kind leaves; or one given, of as many features.
    Trained(Job),
    /// One that is given, for scores that others than the owner of the key may see.
    Shared {
        /// Its columns, as of one that is given.
        features: usize,
        /// Classes, likewise.
        classes: u32,
        /// What no score exceeds in absolute value, of rows as large as they may be: 1 to
        /// [`ScoredModel::MAX_RANGE`]. The larger, the fewer digits does `f64` have for noise.
        range: f64,
    },
}

impl ScoredModel {
    /// Largest range of scores that others may see.
    pub const MAX_RANGE: f64 = 1024.0;

    /// Feature columns of the rows.
    #[must_use]
    pub fn features(&self) -> usize {
        match self {
            Self::Given { features, .. } | Self::Shared { features, .. } => *features,
            Self::Trained(job) => job.features,
        }
    }

    /// Scores of a row: one for two classes, else one for each.
    #[must_use]
    pub fn models(&self) -> usize {
        match self {
            Self::Given { classes: 2, .. } | Self::Shared { classes: 2, .. } => 1,
            Self::Given { classes, .. } | Self::Shared { classes, .. } => *classes as usize,
            Self::Trained(job) => job.spec.models(),
        }
    }

    /// What is computed beside scores.
    pub(super) fn probability(&self) -> Option<Probability> {
        match self {
            Self::Given { probability, .. } => *probability,
            Self::Shared { .. } | Self::Trained(_) => None,
        }
    }

    /// What scores must not exceed in absolute value, if they have to be so small.
    pub(super) fn range(&self) -> Option<f64> {
        match self {
            Self::Given { probability, .. } => probability.map(|of| of.range),
            Self::Shared { range, .. } => Some(*range),
            Self::Trained(_) => None,
        }
    }

    /// Refuses other numbers of classes than a target may have, and ranges that scores which others may
    /// see cannot have.
    pub(super) fn check(&self) -> Result<()> {
        match self {
            Self::Given { classes, .. } | Self::Shared { classes, .. }
                if !(2..=TrainSpec::MAX_CLASSES).contains(classes) =>
            {
                Err(TrainError::Classes { found: *classes }.into())
            }
            Self::Shared { range, .. } if !(1.0..=Self::MAX_RANGE).contains(range) => {
                let most = Self::MAX_RANGE;
                let problem =
                    format!("scores up to {range} for others: a range of 1 to {most} is possible");
                Err(sudare::Error::Circuit(problem).into())
            }
            _ => Ok(()),
        }
    }

    /// What entries of rows must not exceed in absolute value; if rows are prepared as those of a
    /// training, their root mean square.
    pub(super) fn largest_entry(&self) -> f64 {
        match self {
            Self::Given { .. } | Self::Shared { .. } => LARGEST_FEATURE,
            Self::Trained(_) => LARGEST_ROW,
        }
    }

    /// What weights must not exceed in absolute value, of a model that is given.
    pub(super) fn largest_given_weight(&self) -> f64 {
        match self {
            Self::Shared { range, .. } => *range,
            Self::Given { .. } | Self::Trained(_) => LARGEST_GIVEN_WEIGHT,
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

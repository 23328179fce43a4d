//! The public facts of scoring.

use crate::Result;
use crate::logreg::{
    budget::LARGEST_ROW,
    job::Job,
    spec::{TrainError, TrainSpec},
};
use serde::{Deserialize, Serialize};

/// Bound of the absolute value of entries of rows scored by a given model. Features of the rows
/// that it was trained on are at most 1.
pub(in crate::logreg) const LARGEST_FEATURE: f64 = 4.0;

/// Bound of the absolute value of weights of a given model.
const LARGEST_GIVEN_WEIGHT: f64 = 64.0;

/// The public facts of scoring: the number of rows, and the model.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ScoreJob {
    /// Number of rows to score, at least 1.
    pub rows: usize,
    /// The model that scores the rows.
    pub model: ScoredModel,
}

/// The model that scores rows.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub enum ScoredModel {
    /// A model that somebody has in the clear, and passes to the server plain or encrypted.
    Given {
        /// Number of its columns without the intercept, at least 1.
        features: usize,
        /// Number of classes: 2, or up to [`TrainSpec::MAX_CLASSES`] with a weight vector for each.
        classes: u32,
        /// Probabilities to compute in addition to scores, if any.
        probability: Option<Probability>,
    },
    /// The encrypted model from a training of this kind, or a given model with the same number of
    /// features.
    Trained(Job),
    /// A given model, for scores that people other than the key's owner may see.
    Shared {
        /// Number of its columns without the intercept, at least 1.
        features: usize,
        /// Number of classes: 2, or up to [`TrainSpec::MAX_CLASSES`] with a weight vector for each.
        classes: u32,
        /// Bound of the absolute value of scores, for the largest possible rows: 1 to
        /// [`ScoredModel::MAX_RANGE`]. A larger range leaves fewer digits of `f64` for noise.
        range: f64,
    },
}

impl ScoredModel {
    /// Maximum range of scores that others may see.
    pub const MAX_RANGE: f64 = 1024.0;

    /// Returns the number of feature columns of the rows.
    #[must_use]
    pub fn features(&self) -> usize {
        match self {
            Self::Given { features, .. } | Self::Shared { features, .. } => *features,
            Self::Trained(job) => job.features,
        }
    }

    /// Returns the number of scores of a row: one for two classes, otherwise one for each class.
    #[must_use]
    pub fn models(&self) -> usize {
        match self {
            Self::Given { classes: 2, .. } | Self::Shared { classes: 2, .. } => 1,
            Self::Given { classes, .. } | Self::Shared { classes, .. } => *classes as usize,
            Self::Trained(job) => job.spec.models(),
        }
    }

    /// Returns the probabilities that are computed in addition to scores, if any.
    pub(in crate::logreg) fn probability(&self) -> Option<Probability> {
        match self {
            Self::Given { probability, .. } => *probability,
            Self::Shared { .. } | Self::Trained(_) => None,
        }
    }

    /// Returns the bound of the absolute value of scores, if there is one.
    pub(in crate::logreg) fn range(&self) -> Option<f64> {
        match self {
            Self::Given { probability, .. } => probability.map(|of| of.range),
            Self::Shared { range, .. } => Some(*range),
            Self::Trained(_) => None,
        }
    }

    /// Rejects numbers of classes that a target cannot have, and invalid ranges of shared scores.
    pub(in crate::logreg) fn check(&self) -> Result<()> {
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

    /// Returns the bound of the absolute value of entries of rows. If rows are prepared like the
    /// rows of a training, this bounds their root mean square.
    pub(in crate::logreg) fn largest_entry(&self) -> f64 {
        match self {
            Self::Given { .. } | Self::Shared { .. } => LARGEST_FEATURE,
            Self::Trained(_) => LARGEST_ROW,
        }
    }

    /// Returns the bound of the absolute value of weights of a given model.
    pub(in crate::logreg) fn largest_given_weight(&self) -> f64 {
        match self {
            Self::Shared { range, .. } => *range,
            Self::Given { .. } | Self::Trained(_) => LARGEST_GIVEN_WEIGHT,
        }
    }
}

/// Accuracy of the sigmoids of scores.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Probability {
    /// The largest absolute value of a score, at most [`Probability::MAX_RANGE`].
    pub range: f64,
    /// `-log2` of the largest error of the polynomial in place of the sigmoid, 1 to
    /// [`Probability::MAX_BITS`].
    pub bits: u32,
}

impl Probability {
    /// Maximum bits of a probability.
    pub const MAX_BITS: u32 = 16;

    /// Maximum range. Beyond it, every possible polynomial shows only the sign of a score, and the
    /// search for one takes seconds.
    pub const MAX_RANGE: f64 = 1024.0;
}

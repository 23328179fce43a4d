//! What is public about a training: what its plans are made from.

use super::spec::TrainSpec;
use serde::{Deserialize, Serialize};

/// Most iterations of a plan.
pub(super) const MOST_ITERATIONS: u32 = 1000;

/// What is public about a training: the shape of the table, and how to train.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// Rows of the table at most, at least 1.
    pub rows: usize,
    /// Feature columns, at least 1; the intercept and the target do not count.
    pub features: usize,
    /// How to train.
    pub spec: TrainSpec,
}

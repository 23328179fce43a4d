//! The public facts of a training, from which its plans are made.

use super::spec::TrainSpec;
use serde::{Deserialize, Serialize};

/// Maximum number of iterations of a plan.
pub(super) const MAX_ITERATIONS: u32 = 1000;

/// The public facts of a training: the shape of the table, and the specification.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// Maximum number of rows of the table, at least 1.
    pub rows: usize,
    /// Number of feature columns, at least 1, without the intercept and the target.
    pub features: usize,
    /// Specification of the training.
    pub spec: TrainSpec,
}

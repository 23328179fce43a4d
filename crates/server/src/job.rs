//! What a tenant asks to be computed, and what a process is told of it.

use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// What is computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Statistics of columns.
    Stats,
    /// Sums by groups of rows.
    Groups,
    /// Counts in bins.
    Histogram,
    /// A training.
    Train,
    /// Scores of rows.
    Predict,
}

impl Kind {
    /// As [`Job::kind`](sudare_roles::job::Job::kind) has it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Stats => "stats",
            Self::Groups => "groups",
            Self::Histogram => "histogram",
            Self::Train => "train",
            Self::Predict => "predict",
        }
    }
}

/// A job as a tenant asks for it. Objects are named by their digests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// What is computed.
    pub kind: Kind,
    /// Evaluation keys.
    pub keys: String,
    /// Encrypted tables, of which trainings may have several.
    pub tables: Vec<String>,
    /// What rows are scored by: an object of models, or the result of a training.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Iterations of a training; all that the keys are for if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iterations: Option<u32>,
    /// Whether the weights after each iteration are kept.
    #[serde(default)]
    pub history: bool,
}

impl Request {
    /// The objects that it takes.
    pub fn objects(&self) -> impl Iterator<Item = &str> {
        let model = self.model.iter();
        core::iter::once(&self.keys).chain(&self.tables).chain(model).map(String::as_str)
    }

    /// The request in JSON, as records keep it.
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// What a process is told to do, on one line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Task {
    /// What is computed.
    pub kind: Kind,
    /// File of the evaluation keys.
    pub keys: PathBuf,
    /// Files of the encrypted tables.
    pub tables: Vec<PathBuf>,
    /// File of the model to score by.
    pub model: Option<PathBuf>,
    /// Iterations of a training.
    pub iterations: Option<u32>,
    /// Whether the weights after each iteration are kept.
    pub history: bool,
    /// Bytes of memory that it is predicted to take on as many threads as there are, if that is known: the
    /// system refuses it many more.
    pub memory: Option<u64>,
    /// Seconds of processors after which the system ends it.
    pub most_cpu_seconds: u64,
    /// Folder of states of a training.
    pub states: PathBuf,
    /// File of the result.
    pub output: PathBuf,
}

/// What a process says, one on a line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Message {
    /// So many steps are done, of so many.
    Progress(u64, u64),
    /// So many milliseconds of processors were used.
    Cpu(u64),
    /// The result is written.
    Done,
    /// The job is left as it is, to be gone on with.
    Stopped,
    /// The job cannot be done.
    Failed {
        /// [`Error::kind`](sudare_roles::error::Error::kind).
        kind: String,
        /// For people.
        detail: String,
    },
}

/// What a process is told to end with, on a line, so that what was done is kept.
pub const STOP: &str = "stop";

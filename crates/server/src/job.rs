//! Requests for jobs, and the messages between the server and the process of a job.

use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Maximum characters of an idempotency key.
pub const MAX_IDEMPOTENCY_CHARS: usize = 128;
/// Maximum encrypted tables of a job.
// An audit line names each table, so this bounds the size of a line (`MAX_LINE_BYTES` of the log).
pub const MAX_TABLES: usize = 64;

/// Kind of computation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Statistics of columns.
    Stats,
    /// Sums by groups of rows.
    Groups,
    /// Counts in bins.
    Histogram,
    /// Training.
    Train,
    /// Scores of rows.
    Predict,
}

impl Kind {
    /// Returns the name, as [`Job::kind`](sudare_roles::job::Job::kind) does.
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

/// A tenant's request for a job. Digests name the objects.
// A misspelled field is an error, so that no option is silently left out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// Kind of computation.
    pub kind: Kind,
    /// Evaluation keys.
    pub keys: String,
    /// Encrypted tables. Trainings accept several.
    pub tables: Vec<String>,
    /// Model for scoring: an uploaded model, or the result of a training.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Iterations of a training. Default: all that the keys allow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iterations: Option<u32>,
    /// Store the weights after each iteration.
    #[serde(default)]
    pub history: bool,
}

impl Request {
    /// Lists the objects of the request.
    pub fn objects(&self) -> impl Iterator<Item = &str> {
        let model = self.model.iter();
        core::iter::once(&self.keys).chain(&self.tables).chain(model).map(String::as_str)
    }

    /// Returns the request as JSON, as the records store it.
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// A task for a process, on one line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Task {
    /// Kind of computation.
    pub kind: Kind,
    /// File of the evaluation keys.
    pub keys: PathBuf,
    /// Files of the encrypted tables.
    pub tables: Vec<PathBuf>,
    /// File of the model for scoring.
    pub model: Option<PathBuf>,
    /// Iterations of a training.
    pub iterations: Option<u32>,
    /// Store the weights after each iteration.
    pub history: bool,
    /// Predicted memory on the threads of this machine, in bytes, if known. The system refuses the process
    /// much more.
    pub memory: Option<u64>,
    /// CPU seconds after which the system ends the process.
    pub most_cpu_seconds: u64,
    /// Directory of the states of a training.
    pub states: PathBuf,
    /// File of the result.
    pub output: PathBuf,
}

/// A message of a process, on one line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Message {
    /// Completed steps, and total steps.
    Progress(u64, u64),
    /// CPU time used, in milliseconds.
    Cpu(u64),
    /// The result is written.
    Done,
    /// The process stopped, and the job can be resumed.
    Stopped,
    /// The job failed.
    Failed {
        /// [`Error::kind`](sudare_roles::error::Error::kind).
        kind: String,
        /// Explanation for people.
        detail: String,
    },
}

/// Line that tells a process to stop, so that its progress is kept.
pub const STOP: &str = "stop";

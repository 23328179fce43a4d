//! What the server and workers on other machines tell each other.
//!
//! A worker claims a job and has a lease on it, whose number, the *fence*, rises with each claim. It
//! renews the lease; once it has run out, the job waits for others, and nothing that comes under the
//! old fence is taken.

use crate::job::Kind;
use serde::{Deserialize, Serialize};
use std::{path::Path, time::Duration};
use sudare_roles::{error::Result, files::NewFile};

/// What a worker has for a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Offer {
    /// Version of its program, which must be that of the server.
    pub program: String,
    /// Bytes of memory.
    pub memory_bytes: u64,
    /// Seconds that it waits for a job, at most 30.
    pub wait_seconds: u64,
}

/// A job that a worker has claimed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Assignment {
    /// The name of the job.
    pub job: String,
    /// The number of the lease.
    pub fence: u64,
    /// Seconds after which the lease ends that is not renewed.
    pub lease_seconds: u64,
    /// Steps done, as the server knows them.
    pub done: u64,
    /// Steps in all; 0 before they are known.
    pub total: u64,
    /// What is computed.
    pub kind: Kind,
    /// Iterations of a training.
    pub iterations: Option<u32>,
    /// Whether the weights after each iteration are kept.
    pub history: bool,
    /// Seconds of processors after which a process is ended.
    pub most_cpu_seconds: u64,
    /// Evaluation keys.
    pub keys: Blob,
    /// Encrypted tables.
    pub tables: Vec<Blob>,
    /// What rows are scored by.
    pub model: Option<Blob>,
    /// States of a training to go on from.
    pub states: Vec<Blob>,
}

/// A file that a worker may read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Blob {
    /// The name of a state; the digest of anything else.
    pub name: String,
    /// BLAKE3 of its bytes, in hexadecimal.
    pub digest: String,
    /// How large it is.
    pub bytes: u64,
    /// A signed path at the server, which takes no token.
    pub path: String,
}

/// The right to a job, for as long as the lease is renewed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hold {
    /// The name of the job.
    pub job: String,
    /// The number of the lease.
    pub fence: u64,
}

/// How far a worker is with a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Report {
    /// Steps done.
    pub done: u64,
    /// Steps in all; 0 before they are known.
    pub total: u64,
    /// Milliseconds of processors that were used since the claim.
    pub cpu_milliseconds: u64,
}

/// Why a worker leaves a job without a result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Leaving {
    /// It ends, and others go on.
    Released,
    /// The process of the job died.
    Died,
    /// The job cannot be done.
    Failed {
        /// [`Error::kind`](sudare_roles::error::Error::kind).
        kind: String,
        /// For people.
        detail: String,
    },
}

/// The server, as a worker reaches it. Every call waits for its answer; but for
/// [`renew`](Self::renew), one that fails to reach the server is made again for a while.
///
/// # Errors
/// Of all calls: [`Error::Unreachable`](sudare_roles::error::Error::Unreachable);
/// [`Error::Refused`](sudare_roles::error::Error::Refused) with the server's words, of kind `Stale` or
/// `Cancelled` if the job is not the worker's any more.
pub trait Desk: Send + Sync + 'static {
    /// Claims a job, unless there is none within the time that the offer says.
    ///
    /// # Errors
    /// As all.
    fn claim(&self, offer: &Offer) -> Result<Option<Assignment>>;

    /// Renews a lease, by one request that takes no longer than `within`.
    ///
    /// # Errors
    /// As all.
    fn renew(&self, hold: &Hold, report: &Report, within: Duration) -> Result<()>;

    /// Reads a file into a new one, and checks its digest.
    ///
    /// # Errors
    /// As all; [`Error::OtherFile`](sudare_roles::error::Error::OtherFile) for another digest.
    fn fetch(&self, blob: &Blob, file: NewFile) -> Result<()>;

    /// Leaves a state of a training at the server.
    ///
    /// # Errors
    /// As all.
    fn keep(&self, hold: &Hold, name: &str, state: &Path) -> Result<()>;

    /// Hands the result in; the job is done then.
    ///
    /// # Errors
    /// As all.
    fn finish(&self, hold: &Hold, result: &Path) -> Result<()>;

    /// Leaves the job without a result.
    ///
    /// # Errors
    /// As all.
    fn leave(&self, hold: &Hold, why: &Leaving) -> Result<()>;
}

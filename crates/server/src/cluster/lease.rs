//! The protocol between the server and workers on other machines.
//!
//! A worker claims a job and has a lease on it. The number of the lease, the *fence*, rises with each
//! claim. The worker renews the lease. When the lease has ended, the job waits for other workers, and the
//! server rejects everything under the old fence.

use crate::job::Kind;
use serde::{Deserialize, Serialize};
use std::{path::Path, time::Duration};
use sudare_roles::{
    error::{Error, Result},
    os::files::NewFile,
    server::checkpoint::StateFile,
};

/// A worker's offer to compute a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Offer {
    /// Version of the worker's program, which must equal the server's.
    pub program: String,
    /// Memory for a job, in bytes.
    pub memory_bytes: u64,
    /// Seconds that the worker waits for a job, at most 30.
    pub wait_seconds: u64,
}

/// A job that a worker has claimed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Assignment {
    /// Name of the job.
    pub job: String,
    /// Number of the lease.
    pub fence: u64,
    /// Seconds after which the lease ends, unless it is renewed.
    pub lease_seconds: u64,
    /// Completed steps, as the server knows them.
    pub done: u64,
    /// Total steps, 0 until they are known.
    pub total: u64,
    /// Kind of computation.
    pub kind: Kind,
    /// Iterations of a training.
    pub iterations: Option<u32>,
    /// Store the weights after each iteration.
    pub history: bool,
    /// CPU seconds after which the process is stopped.
    pub most_cpu_seconds: u64,
    /// Evaluation keys.
    pub keys: Blob,
    /// Encrypted tables.
    pub tables: Vec<Blob>,
    /// Model for scoring.
    pub model: Option<Blob>,
    /// States from which a training resumes.
    pub states: Vec<Blob>,
}

impl Assignment {
    /// Rejects names and paths that a genuine server does not send, because they would lead to other files
    /// here or at the server.
    ///
    /// # Errors
    /// [`Error::Refused`] with the wrong value.
    pub fn check(&self) -> Result<()> {
        let wrong = |what: &str, found: &str| {
            let detail =
                format!("the server sent {what} {found:?}, which is invalid: check its address");
            Err(Error::Refused { kind: "Http".into(), detail })
        };
        if !is_name(&self.job) {
            return wrong("a job", &self.job);
        }
        let blobs = self.tables.iter().chain([&self.keys]).chain(&self.model).chain(&self.states);
        for Blob { name, digest, path, .. } in blobs {
            if !is_digest(digest) {
                return wrong("a digest", digest);
            }
            // The worker makes files of these names.
            if name != digest && StateFile::of_name(name).is_none() {
                return wrong("a file", name);
            }
            // Clients append the path to the server's address, so `@host/x` would lead to another
            // machine.
            let start = format!("/v1/work/{}/{}/files/", self.job, self.fence);
            let rest = path.strip_prefix(&start).and_then(|rest| {
                let (expires, rest) = rest.split_once('/')?;
                let (signature, last) = rest.split_once('/')?;
                let digits = !expires.is_empty() && expires.bytes().all(|b| b.is_ascii_digit());
                (digits && is_digest(signature)).then_some(last)
            });
            if rest != Some(name) {
                return wrong("a path", path);
            }
        }
        Ok(())
    }
}

/// Returns whether `text` is a digest, in hexadecimal.
fn is_digest(text: &str) -> bool {
    text.len() == 64 && is_name(text)
}

/// Returns whether `text` is the name of a job: hexadecimal digits.
fn is_name(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
}

/// A file that a worker may download.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Blob {
    /// Name of a state, or digest of another file.
    pub name: String,
    /// BLAKE3 digest of the file, in hexadecimal.
    pub digest: String,
    /// Size in bytes.
    pub bytes: u64,
    /// Signed path at the server, which requires no token.
    pub path: String,
}

/// The right to a job while its lease is renewed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hold {
    /// Name of the job.
    pub job: String,
    /// Number of the lease.
    pub fence: u64,
}

/// Progress of a worker with a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Report {
    /// Completed steps.
    pub done: u64,
    /// Total steps, 0 until they are known.
    pub total: u64,
    /// CPU time since the claim, in milliseconds.
    pub cpu_milliseconds: u64,
}

/// Reason why a worker returns a job without a result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Leaving {
    /// The worker stops, and others may resume the job.
    Released,
    /// The process of the job died.
    Died,
    /// The job failed.
    Failed {
        /// [`Error::kind`](sudare_roles::error::Error::kind).
        kind: String,
        /// Explanation for people.
        detail: String,
    },
}

/// The server, as a worker reaches it. Each call blocks until the response. A call that cannot reach the
/// server is repeated for a while, except [`renew`](Self::renew).
///
/// # Errors
/// All calls: [`Error::Unreachable`](sudare_roles::error::Error::Unreachable);
/// [`Error::Refused`](sudare_roles::error::Error::Refused) with the server's message, of kind `Stale` or
/// `Cancelled` if the job is no longer the worker's.
pub trait Desk: Send + Sync + 'static {
    /// Claims a job. Returns `None` if no job comes within the time of the offer.
    ///
    /// # Errors
    /// See [`Desk`].
    fn claim(&self, offer: &Offer) -> Result<Option<Assignment>>;

    /// Renews a lease, by one request that takes at most `within`.
    ///
    /// # Errors
    /// See [`Desk`].
    fn renew(&self, hold: &Hold, report: &Report, within: Duration) -> Result<()>;

    /// Downloads a file, and checks its digest.
    ///
    /// # Errors
    /// See [`Desk`]; [`Error::OtherFile`](sudare_roles::error::Error::OtherFile) for another digest.
    fn fetch(&self, blob: &Blob, file: NewFile) -> Result<()>;

    /// Stores a state of a training at the server.
    ///
    /// # Errors
    /// See [`Desk`].
    fn store_state(&self, hold: &Hold, name: &str, state: &Path) -> Result<()>;

    /// Submits the result, which completes the job.
    ///
    /// # Errors
    /// See [`Desk`].
    fn finish(&self, hold: &Hold, result: &Path) -> Result<()>;

    /// Returns the job without a result.
    ///
    /// # Errors
    /// See [`Desk`].
    fn leave(&self, hold: &Hold, why: &Leaving) -> Result<()>;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::addresses::{Address, Addresses};
    use sudare_roles::server::receipt::SigningKey;

    /// Accepts what a server sends, and rejects names and paths that lead elsewhere.
    #[test]
    fn files_are_those_of_the_job() {
        let addresses = Addresses::of(&SigningKey::random().unwrap());
        let digest = "0f".repeat(32);
        let blob = |name: &str| {
            let address = Address { job: "0123abcd", fence: 7, expires: 1000, name };
            let path = addresses.path(&address);
            Blob { name: name.into(), digest: digest.clone(), bytes: 1, path }
        };
        let good = Assignment {
            job: "0123abcd".into(),
            fence: 7,
            lease_seconds: 30,
            done: 0,
            total: 0,
            kind: Kind::Train,
            iterations: None,
            history: false,
            most_cpu_seconds: 1,
            keys: blob(&digest),
            tables: vec![blob(&digest)],
            model: None,
            states: vec![blob(&StateFile::State(2).name())],
        };
        good.check().unwrap();
        let path = &good.keys.path;
        for bad in [
            format!("@127.0.0.2:80{path}"),
            format!("//other{path}"),
            format!("http://127.0.0.2{path}"),
            path.replace("/7/", "/8/"),
            path.replace("0123abcd", "0123abce"),
            path.replace("/1000/", "/../"),
            format!("{path}?x"),
            "/v1/usage".into(),
        ] {
            let keys = Blob { path: bad.clone(), ..good.keys.clone() };
            assert!(Assignment { keys, ..good.clone() }.check().is_err(), "{bad}");
        }
        let elsewhere = Blob { digest: "../".repeat(21) + "x", ..good.keys.clone() };
        assert!(Assignment { model: Some(elsewhere), ..good.clone() }.check().is_err());
        let named = Blob { name: "../x".into(), ..good.keys.clone() };
        assert!(Assignment { states: vec![named], ..good.clone() }.check().is_err());
        assert!(Assignment { job: "../x".into(), ..good }.check().is_err());
    }
}

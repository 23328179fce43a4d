//! What the server and workers on other machines tell each other.
//!
//! A worker claims a job and has a lease on it, whose number, the *fence*, rises with each claim. It
//! renews the lease; once it has run out, the job waits for others, and nothing that comes under the
//! old fence is taken.

use crate::job::Kind;
use serde::{Deserialize, Serialize};
use std::{path::Path, time::Duration};
use sudare_roles::{
    checkpoint::StateFile,
    error::{Error, Result},
    files::NewFile,
};

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

impl Assignment {
    /// Refuses what a server does not send: names and paths that would lead elsewhere, here or at the server.
    ///
    /// # Errors
    /// [`Error::Refused`] with what is wrong.
    pub fn check(&self) -> Result<()> {
        let wrong = |what: &str, found: &str| {
            let detail =
                format!("the server names {what} {found:?}, which none of a service would");
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
            if name != digest && StateFile::of_name(name).is_none() {
                return wrong("a file", name);
            }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::addresses::{Address, Addresses};
    use sudare_roles::receipt::SigningKey;

    /// Takes what a server sends, and refuses what would lead elsewhere.
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

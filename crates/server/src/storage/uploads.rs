//! Locks of uploads, and the digests of their data.

use std::{
    collections::HashMap,
    fs::File,
    io::{self, Read, Seek},
    sync::{Arc, Mutex, PoisonError},
};
use tokio::sync::OwnedMutexGuard;

/// Progress of an upload.
#[derive(Default)]
pub struct Progress {
    /// Digest so far, and number of bytes.
    hashed: Option<(blake3::Hasher, u64)>,
    /// Facts from the header, once it was read.
    pub about: Option<serde_json::Value>,
}

/// The uploads under way.
#[derive(Default)]
pub struct Uploads(Mutex<HashMap<String, Arc<tokio::sync::Mutex<Progress>>>>);

impl Uploads {
    /// Locks an upload for writing. Returns `None` if it is locked.
    pub fn take(&self, id: &str) -> Option<OwnedMutexGuard<Progress>> {
        self.of(id).try_lock_owned().ok()
    }

    /// Waits for the lock of an upload.
    pub async fn wait(&self, id: &str) -> OwnedMutexGuard<Progress> {
        self.of(id).lock_owned().await
    }

    fn of(&self, id: &str) -> Arc<tokio::sync::Mutex<Progress>> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(all.entry(id.into()).or_default())
    }

    /// Drops the state of an upload.
    pub fn forget(&self, id: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(id);
    }
}

impl Progress {
    /// Returns the digest of the first `received` bytes of an upload, if known, or reads the file from its
    /// start.
    pub fn hasher(&mut self, mut file: &File, received: u64) -> io::Result<blake3::Hasher> {
        // Taken away: if the next write fails, the file is read again.
        match self.hashed.take() {
            Some((hasher, bytes)) if bytes == received => Ok(hasher),
            _ => {
                let mut hasher = blake3::Hasher::new();
                file.rewind()?;
                io::copy(&mut file.take(received), &mut hasher)?;
                Ok(hasher)
            }
        }
    }

    /// Stores the digest of the first `received` bytes.
    pub fn set_digest(&mut self, hasher: blake3::Hasher, received: u64) {
        self.hashed = Some((hasher, received));
    }
}

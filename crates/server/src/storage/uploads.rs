//! Who writes to which upload, and the digests of what is there.

use std::{
    collections::HashMap,
    fs::File,
    io::{self, Read, Seek},
    sync::{Arc, Mutex, PoisonError},
};
use tokio::sync::OwnedMutexGuard;

/// What is known of the bytes of an upload that are here.
#[derive(Default)]
pub struct Progress {
    /// Their digest so far, and how many they are.
    hashed: Option<(blake3::Hasher, u64)>,
    /// What the header says, once it was read.
    pub about: Option<serde_json::Value>,
}

/// The uploads that are under way.
#[derive(Default)]
pub struct Uploads(Mutex<HashMap<String, Arc<tokio::sync::Mutex<Progress>>>>);

impl Uploads {
    /// The right to write to an upload; none while somebody else has it.
    pub fn take(&self, id: &str) -> Option<OwnedMutexGuard<Progress>> {
        self.of(id).try_lock_owned().ok()
    }

    /// The same right, once nobody else has it.
    pub async fn wait(&self, id: &str) -> OwnedMutexGuard<Progress> {
        self.of(id).lock_owned().await
    }

    fn of(&self, id: &str) -> Arc<tokio::sync::Mutex<Progress>> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(all.entry(id.into()).or_default())
    }

    /// Forgets an upload.
    pub fn forget(&self, id: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(id);
    }
}

impl Progress {
    /// The digest of the first `received` bytes of an upload, as far as it is known, else from its
    /// file, which is read from the start.
    pub fn hasher(&mut self, mut file: &File, received: u64) -> io::Result<blake3::Hasher> {
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

    /// Keeps the digest of the first `received` bytes.
    pub fn keep(&mut self, hasher: blake3::Hasher, received: u64) {
        self.hashed = Some((hasher, received));
    }
}

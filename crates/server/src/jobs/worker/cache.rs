//! A cache of downloaded files by digest, with a maximum size.

use crate::{
    cluster::lease::Blob,
    private::make_private,
    storage::store::{entries, last_used, touch},
};
use std::{fs, path::PathBuf};
use sudare_roles::{
    error::{Error, Result},
    os::files::{Access, NewFile},
};

/// A directory of downloaded files.
pub struct Cache {
    folder: PathBuf,
    max_bytes: u64,
}

impl Cache {
    /// Opens the cache in a directory, created if missing. `max_bytes` is the maximum size.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn open(folder: PathBuf, max_bytes: u64) -> Result<Self> {
        make_private(&folder)?;
        Ok(Self { folder, max_bytes })
    }

    /// Returns the local paths of `blobs`, in order, and downloads missing ones with `fetch`. Removes the
    /// least recently used files for them. The blobs together may exceed the maximum size.
    ///
    /// # Errors
    /// [`Error::Io`]; errors of `fetch`.
    pub fn ensure(
        &self,
        blobs: &[Blob],
        mut fetch: impl FnMut(&Blob, NewFile) -> Result<()>,
    ) -> Result<Vec<PathBuf>> {
        let places: Vec<PathBuf> =
            blobs.iter().map(|blob| self.folder.join(&blob.digest)).collect();
        for (blob, path) in blobs.iter().zip(&places) {
            // A file here is whole and checked, because it gets its name only then.
            if !path.exists() {
                self.evict(blob.bytes, &places)?;
                fetch(blob, NewFile::create(path, Access::Shared, true)?)?;
            }
            touch(path)?;
        }
        Ok(places)
    }

    /// Removes the least recently used files, except `needed` ones, until `more` bytes fit.
    fn evict(&self, more: u64, needed: &[PathBuf]) -> Result<()> {
        let mut files = Vec::new();
        for (_, path) in entries(&self.folder)? {
            let io = |error| Error::io("read", &path, error);
            let metadata = path.metadata().map_err(io)?;
            files.push((last_used(&metadata).map_err(io)?, metadata.len(), path));
        }
        files.sort_unstable();
        let mut bytes =
            files.iter().map(|(_, bytes, _)| bytes).fold(more, |sum, &one| sum.saturating_add(one));
        for (_, size, path) in files.iter().filter(|(_, _, path)| !needed.contains(path)) {
            if bytes <= self.max_bytes {
                break;
            }
            fs::remove_file(path).map_err(|error| Error::io("remove", path, error))?;
            bytes = bytes.saturating_sub(*size);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{collections::BTreeSet, io::Write, thread, time::Duration};

    fn blob(digest: &str, bytes: u64) -> Blob {
        Blob { name: digest.into(), digest: digest.into(), bytes, path: String::new() }
    }

    /// Downloads each file once, and removes the least recently used ones.
    #[test]
    fn files_are_fetched_once_and_the_oldest_go() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::open(folder.path().join("objects"), 100).unwrap();
        let bring = |blobs: &[Blob]| {
            let mut fetched = Vec::new();
            let places = cache.ensure(blobs, |blob, mut file| {
                fetched.push(blob.digest.clone());
                file.write_all(&vec![7; blob.bytes as usize]).unwrap();
                file.finish()
            });
            assert!(places.unwrap().iter().all(|path| path.exists()));
            thread::sleep(Duration::from_millis(20));
            fetched.concat()
        };
        let here = || -> BTreeSet<String> {
            let entries = fs::read_dir(folder.path().join("objects")).unwrap();
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
        };
        assert_eq!(bring(&[blob("a", 40), blob("b", 40)]), "ab");
        assert_eq!(bring(&[blob("a", 40)]), "");
        assert_eq!(bring(&[blob("c", 20)]), "c");
        assert_eq!(bring(&[blob("d", 10)]), "d");
        assert_eq!(here(), ["a", "c", "d"].map(String::from).into());
        // The files of a job stay, even beyond the maximum size.
        assert_eq!(bring(&[blob("a", 40), blob("e", 90)]), "e");
        assert_eq!(here(), ["a", "e"].map(String::from).into());
        // A partial download leaves no file.
        let failed = cache.ensure(&[blob("f", 1)], |_, _| Err(Error::Usage("x".into())));
        assert!(failed.is_err() && !here().iter().any(|name| name.contains('f')));
    }
}

//! Stores of objects that several servers share: S3, Google Cloud Storage, Azure, or a shared directory.

use crate::tls;
use futures_util::StreamExt;
use object_store::{
    ObjectStore, ObjectStoreExt, buffered::BufWriter, local::LocalFileSystem, parse_url_opts,
    path::Path as Key,
};
use std::{
    collections::HashSet,
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime},
};
use sudare_roles::error::{Error, Result};
use tokio::{
    fs::File,
    io::AsyncWriteExt,
    runtime::{Builder, Handle, Runtime},
    time::timeout,
};
use url::Url;

/// Maximum time of a usable store to respond.
const PATIENCE: Duration = Duration::from_secs(5);
/// Size of one part of a large file. A store accepts at most 10,000 parts.
// A file may thus have 312 GiB.
const PART_BYTES: usize = 32 << 20;
/// Parts of a file that are sent at the same time.
// Each part takes `PART_BYTES` of memory.
const PARTS_AT_ONCE: usize = 2;
/// Prefixes of the environment variables that configure stores.
const SETTINGS: [&str; 3] = ["AWS_", "AZURE_", "GOOGLE_"];

/// The part of a store that belongs to this service.
pub struct Bucket {
    store: Arc<dyn ObjectStore>,
    /// Prefix of all keys.
    root: Key,
    /// The directory, if the store is one.
    folder: Option<PathBuf>,
    /// Runtime that waits for the store. It is separate, because blocked threads of the server must not be
    /// the ones that the store needs.
    runtime: Handle,
    _ends: Ends,
}

/// Shuts a runtime down in the background, since the thread that drops it may not block.
struct Ends(Option<Runtime>);

impl Drop for Ends {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

fn failed(action: &'static str, key: &str) -> impl FnOnce(object_store::Error) -> Error {
    // Not the address of the store, which logs and errors must not contain.
    let path = Path::new("the store").join(key);
    move |error| {
        let kind = match &error {
            object_store::Error::NotFound { .. } => io::ErrorKind::NotFound,
            _ => io::ErrorKind::Other,
        };
        Error::io(action, &path, io::Error::new(kind, error.to_string()))
    }
}

impl Bucket {
    /// Opens the store at an address such as `s3://bucket/prefix`, `gs://bucket`, `az://container` or
    /// `file:///shared`. Other settings, such as credentials, are in the environment variables that the
    /// vendors' tools use.
    ///
    /// # Errors
    /// [`Error::Usage`] for an invalid address; [`Error::Io`] for a directory that does not exist.
    pub fn open(address: &str) -> Result<Self> {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let ends = runtime.map_err(|error| Error::io("open", Path::new("the store"), error))?;
        let runtime = ends.handle().clone();
        let _ends = Ends(Some(ends));
        let usage = |problem: &dyn core::fmt::Display| {
            Error::Usage(format!(
                "{address}: {problem}; use an address such as s3://bucket/prefix, gs://bucket, \
                 az://container or file:///directory"
            ))
        };
        let url = Url::parse(address).map_err(|error| usage(&error))?;
        if url.scheme() == "file" {
            let folder = url.to_file_path().map_err(|()| usage(&"the path must be absolute"))?;
            let there = folder.canonicalize();
            let there = there.map_err(|error| Error::io("open", &folder, error))?;
            let store = LocalFileSystem::new_with_prefix(&there);
            // The records name an object once it is stored, so it must survive a power failure.
            let store = store.map_err(|error| usage(&error))?.with_fsync(true);
            let store = Arc::new(store);
            let root = Key::default();
            return Ok(Self { store, root, folder: Some(there), runtime, _ends });
        }
        tls::install_provider();
        let settings = std::env::vars_os().filter_map(|(name, value)| {
            let name = name.into_string().ok()?;
            let value = value.into_string().ok()?;
            let is_setting = SETTINGS.iter().any(|start| name.starts_with(start));
            // The library has the names of settings in lower case.
            is_setting.then(|| (name.to_lowercase(), value))
        });
        let opened = parse_url_opts(&url, settings);
        let (store, root) = opened.map_err(|error| usage(&error))?;
        Ok(Self { store: store.into(), root, folder: None, runtime, _ends })
    }

    fn key(&self, name: &str) -> Key {
        let parts = name.split('/').filter(|part| !part.is_empty());
        parts.fold(self.root.clone(), |key, part| key.join(part))
    }

    /// Returns whether the store responds in time.
    #[must_use]
    pub fn is_usable(&self) -> bool {
        let key = self.key("probe");
        let answered = async { timeout(PATIENCE, self.store.head(&key)).await };
        let answered = self.runtime.block_on(answered);
        // The file need not exist: an answer is enough.
        matches!(answered, Ok(Ok(_) | Err(object_store::Error::NotFound { .. })))
    }

    /// Returns whether a file exists.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn has(&self, name: &str) -> Result<bool> {
        match self.runtime.block_on(self.store.head(&self.key(name))) {
            Ok(_) => Ok(true),
            Err(object_store::Error::NotFound { .. }) => Ok(false),
            Err(error) => Err(failed("look for", name)(error)),
        }
    }

    /// Uploads a file, completely or not at all.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn put(&self, name: &str, path: &Path) -> Result<()> {
        let writer = BufWriter::with_capacity(Arc::clone(&self.store), self.key(name), PART_BYTES);
        let mut writer = writer.with_max_concurrency(PARTS_AT_ONCE);
        let sent = async {
            let mut file = File::open(path).await?;
            let sent = match tokio::io::copy(&mut file, &mut writer).await {
                Ok(_) => writer.shutdown().await,
                Err(error) => Err(error),
            };
            // Without this, the store keeps the parts sent so far, invisible but paid for.
            if sent.is_err() {
                let _ = writer.abort().await;
            }
            sent
        };
        self.runtime.block_on(sent).map_err(|error| Error::io("send", path, error))
    }

    /// Downloads a file.
    ///
    /// # Errors
    /// [`Error::Io`], of kind `NotFound` if the file does not exist.
    pub fn get(&self, name: &str, file: &mut impl Write) -> Result<()> {
        let key = self.key(name);
        self.runtime.block_on(async {
            let size = self.store.head(&key).await.map_err(failed("read", name))?.size;
            let mut start = 0;
            while start < size {
                // The store's time limit applies to one request, so each part is a request.
                let end = size.min(start.saturating_add(PART_BYTES as u64));
                let part = self.store.get_range(&key, start..end).await;
                let part = part.map_err(failed("read", name))?;
                file.write_all(&part)
                    .map_err(|error| Error::io("write", Path::new(name), error))?;
                start = end;
            }
            Ok(())
        })
    }

    /// Removes a file, if it exists.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn remove(&self, name: &str) -> Result<()> {
        match self.runtime.block_on(self.store.delete(&self.key(name))) {
            // A removal is repeated after a kill, so a missing file is a success.
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(failed("remove", name)(error)),
        }
    }

    /// Lists the files in a directory, by the part of the name after it.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn list(&self, folder: &str) -> Result<HashSet<String>> {
        Ok(self.list_with_times(folder)?.into_iter().map(|(name, _)| name).collect())
    }

    /// Lists the files in a directory, with the time at which each was stored.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn list_with_times(&self, folder: &str) -> Result<Vec<(String, SystemTime)>> {
        let start = self.key(folder);
        self.runtime.block_on(async {
            let mut found = self.store.list(Some(&start));
            let mut files = Vec::new();
            while let Some(file) = found.next().await {
                let file = file.map_err(failed("list", folder))?;
                let rest = file.location.prefix_match(&start);
                let name = rest.map(|parts| parts.map(|part| part.as_ref().to_owned()).collect());
                let name: Vec<String> = name.unwrap_or_default();
                files.push((name.join("/"), file.last_modified.into()));
            }
            Ok(files)
        })
    }

    /// Lists partly written files of a store that is a directory: uploads under way, or left by a killed
    /// server. No other method lists these files. Other stores delete incomplete uploads themselves, if
    /// configured to.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn unfinished(&self) -> Result<Vec<PathBuf>> {
        let mut found = Vec::new();
        let mut folders = Vec::from_iter(self.folder.clone());
        while let Some(folder) = folders.pop() {
            let read = |error| Error::io("read", &folder, error);
            for entry in fs::read_dir(&folder).map_err(read)? {
                let entry = entry.map_err(read)?;
                if entry.file_type().map_err(read)?.is_dir() {
                    folders.push(entry.path());
                } else if is_unfinished(&entry.file_name().to_string_lossy()) {
                    found.push(entry.path());
                }
            }
        }
        Ok(found)
    }
}

/// Returns whether a store in a directory uses such a name for a partly written file: the final name, `#`
/// and a number.
fn is_unfinished(name: &str) -> bool {
    let number = name.rsplit_once('#').map(|(_, number)| number);
    number.is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()))
}

//! Objects where several servers have them: in S3, in Google Cloud Storage, in Azure, or in a folder
//! that they share.

use futures_util::StreamExt;
use object_store::{
    ObjectStore, ObjectStoreExt, PutPayload, buffered::BufWriter, local::LocalFileSystem,
    parse_url_opts, path::Path as Key,
};
use std::{
    io::{self, Write},
    path::Path,
    sync::Arc,
};
use sudare_roles::error::{Error, Result};
use tokio::{fs::File, io::AsyncWriteExt, runtime::Handle};
use tokio_rustls::rustls::crypto::ring;
use url::Url;

/// Bytes of a part of a large file: 10,000 parts are the most that there are.
const PART_BYTES: usize = 32 << 20;
/// Parts of a file that are sent at a time.
const PARTS_AT_ONCE: usize = 2;
/// What the names of settings of stores begin with, in the environment.
const SETTINGS: [&str; 3] = ["AWS_", "AZURE_", "GOOGLE_"];

/// A part of a store that is this service's own.
pub struct Bucket {
    store: Arc<dyn ObjectStore>,
    /// What all keys begin with.
    root: Key,
    /// What waits for the store: threads that may wait call, and none that answers requests.
    runtime: Handle,
}

/// A file in a bucket.
pub struct Stored {
    /// What follows the prefix that was asked for.
    pub name: String,
    /// When it was put there, in seconds since 1970.
    pub modified: i64,
}

fn failed(action: &'static str, key: &str) -> impl FnOnce(object_store::Error) -> Error {
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
    /// The store with an address, such as `s3://bucket/prefix`, `gs://bucket`, `az://container` or
    /// `file:///shared`; what it needs besides, such as credentials, is in the environment under the names
    /// that its makers' tools have for it.
    ///
    /// # Errors
    /// [`Error::Usage`] for an address that is none; [`Error::Io`] for a folder that does not exist.
    pub fn open(address: &str, runtime: Handle) -> Result<Self> {
        let usage =
            |problem: &dyn core::fmt::Display| Error::Usage(format!("{address}: {problem}"));
        let url = Url::parse(address).map_err(|error| usage(&error))?;
        if url.scheme() == "file" {
            let folder =
                url.to_file_path().map_err(|()| usage(&"a path from the root is needed"))?;
            let store = LocalFileSystem::new_with_prefix(&folder);
            let store = store.map_err(failed("open", ""))?.with_fsync(true);
            return Ok(Self { store: Arc::new(store), root: Key::default(), runtime });
        }
        // Once for the process; others may have.
        let _ = ring::default_provider().install_default();
        let settings = std::env::vars()
            .filter(|(name, _)| SETTINGS.iter().any(|start| name.starts_with(start)));
        let opened =
            parse_url_opts(&url, settings.map(|(name, value)| (name.to_lowercase(), value)));
        let (store, root) = opened.map_err(|error| usage(&error))?;
        Ok(Self { store: store.into(), root, runtime })
    }

    fn key(&self, name: &str) -> Key {
        let parts = name.split('/').filter(|part| !part.is_empty());
        parts.fold(self.root.clone(), |key, part| key.join(part))
    }

    /// Whether the store answers, and takes what it is sent.
    #[must_use]
    pub fn is_usable(&self) -> bool {
        let probe = async {
            let key = self.key("probe");
            self.store.put(&key, PutPayload::from_static(b"sudare")).await?;
            self.store.get(&key).await?.bytes().await
        };
        self.runtime.block_on(probe).is_ok()
    }

    /// Puts a file there, whole or not at all.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn put(&self, name: &str, path: &Path) -> Result<()> {
        let writer = BufWriter::with_capacity(Arc::clone(&self.store), self.key(name), PART_BYTES);
        let mut writer = writer.with_max_concurrency(PARTS_AT_ONCE);
        let sent = async {
            let mut file = File::open(path).await?;
            if let Err(error) = tokio::io::copy(&mut file, &mut writer).await {
                let _ = writer.abort().await;
                return Err(error);
            }
            writer.shutdown().await
        };
        self.runtime.block_on(sent).map_err(|error| Error::io("send", path, error))
    }

    /// Reads a file into a new one.
    ///
    /// # Errors
    /// [`Error::Io`], of kind `NotFound` if there is none.
    pub fn get(&self, name: &str, file: &mut impl Write) -> Result<()> {
        self.runtime.block_on(async {
            let found = self.store.get(&self.key(name)).await.map_err(failed("read", name))?;
            let mut chunks = found.into_stream();
            while let Some(chunk) = chunks.next().await {
                let chunk = chunk.map_err(failed("read", name))?;
                file.write_all(&chunk)
                    .map_err(|error| Error::io("write", Path::new(name), error))?;
            }
            Ok(())
        })
    }

    /// Removes a file, if it is there.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn remove(&self, name: &str) -> Result<()> {
        match self.runtime.block_on(self.store.delete(&self.key(name))) {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(failed("remove", name)(error)),
        }
    }

    /// The files whose names begin with this folder.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn list(&self, folder: &str) -> Result<Vec<Stored>> {
        let start = self.key(folder);
        self.runtime.block_on(async {
            let mut found = self.store.list(Some(&start));
            let mut files = Vec::new();
            while let Some(file) = found.next().await {
                let file = file.map_err(failed("list", folder))?;
                let rest = file.location.prefix_match(&start);
                let name = rest.map(|parts| parts.map(|part| part.as_ref().to_owned()).collect());
                let name: Vec<String> = name.unwrap_or_default();
                files.push(Stored {
                    name: name.join("/"),
                    modified: file.last_modified.timestamp(),
                });
            }
            Ok(files)
        })
    }
}

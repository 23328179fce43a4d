//! The directory of a server: objects of tenants, uploads under way, and directories of jobs.
//!
//! An object is a file named by its digest, in a directory of its tenant. It is moved there as a whole and
//! never written to again, so that processes may map it.
//!
//! Objects that several servers share are in a [`Bucket`], as are states of trainings that other servers
//! may resume. The directory then has copies, and unused copies are removed.

use crate::{accounts::token::random_id, cluster::Bucket, private::make_private};
use std::{
    collections::{BTreeSet, HashSet},
    fs::{self, File, FileTimes, Metadata, OpenOptions},
    io::{self, Seek, SeekFrom, Write},
    path::{MAIN_SEPARATOR, Path, PathBuf},
    time::{Duration, SystemTime},
};
use sudare_roles::{
    error::{Error, Result},
    os::files::{self, Access, NewFile},
    server::checkpoint::StateFile,
};

/// Objects in the store without a record, as of the last check.
#[derive(Default)]
pub struct Orphans {
    /// Time of the check.
    pub looked: Option<SystemTime>,
    /// Tenants and digests of the objects.
    pub found: HashSet<(String, String)>,
}

/// Bytes that are overwritten at a time.
const WIPED_AT_ONCE: usize = 1 << 16;

/// Directory of objects.
pub const OBJECTS: &str = "objects";
/// Directory of uploads under way.
const UPLOADS: &str = "uploads";
/// Directory of the jobs' directories.
pub const JOBS: &str = "jobs";
/// Time for which an unknown file stays, since it may be about to become known.
const NEW: Duration = Duration::from_secs(3600);

/// The directory of a server, which this process has for itself.
pub struct Store {
    root: PathBuf,
    name: String,
    /// The store that other servers share.
    bucket: Option<Bucket>,
    /// Lock on the directory, which the system releases when the process ends.
    _lock: File,
}

/// File of the name of a server.
pub const NAME: &str = "server.name";
/// File of the signing key of a server, by default.
pub const KEY: &str = "server.key";
/// File of the records of a server.
pub const RECORDS: &str = "records.sqlite";

/// Returns the path of the records of the server in a directory. Creates a missing directory.
///
/// # Errors
/// [`Error::Io`]; [`Error::NotAFolder`].
pub fn records_path(root: &Path) -> Result<PathBuf> {
    make_private(root)?;
    Ok(root.join(RECORDS))
}

/// Returns the name of the server in a directory, which identifies its jobs and uploads in shared records.
/// Makes a name if it is missing.
///
/// # Errors
/// [`Error::Io`]; [`Error::Library`] without randomness.
fn name(root: &Path) -> Result<String> {
    let path = root.join(NAME);
    match fs::read_to_string(&path) {
        Ok(name) if !name.trim().is_empty() => return Ok(name.trim().into()),
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(Error::io("read", &path, error));
        }
        _ => {}
    }
    let name = random_id()?;
    let mut file = NewFile::create(&path, Access::Shared, true)?;
    file.write_all(name.as_bytes()).map_err(|error| Error::io("write", &path, error))?;
    file.finish()?;
    Ok(name)
}

/// Returns the default path of the signing key of the server in a directory. Creates a missing directory.
///
/// # Errors
/// [`Error::Io`]; [`Error::NotAFolder`].
pub fn key_path(root: &Path) -> Result<PathBuf> {
    make_private(root)?;
    Ok(root.join(KEY))
}

impl Store {
    /// Opens a directory, created if missing, and uses `bucket` for data that servers share.
    ///
    /// # Errors
    /// [`Error::InUse`] if another server has it; [`Error::Io`]; [`Error::NotAFolder`].
    pub fn open(root: &Path, bucket: Option<Bucket>) -> Result<Self> {
        make_private(root)?;
        let lock = files::lock_folder(root)?;
        let root = root.canonicalize().map_err(|error| Error::io("open", root, error))?;
        for part in [OBJECTS, UPLOADS, JOBS] {
            make_private(&root.join(part))?;
        }
        let name = name(&root)?;
        Ok(Self { root, name, bucket, _lock: lock })
    }

    /// Returns the path of the directory.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the unique name of the server.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns whether other servers share the objects.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        self.bucket.is_some()
    }

    /// Returns the path of an object of a tenant. Downloads the object from the shared store if it is
    /// missing here.
    ///
    /// # Errors
    /// [`Error::Io`], also for an object that was altered in the shared store.
    pub fn fetch_object(&self, tenant: &str, digest: &str) -> Result<PathBuf> {
        let path = self.object(tenant, digest);
        let Some(bucket) = &self.bucket else { return Ok(path) };
        if path.exists() {
            // `tidy_copies` removes the copies that were not used for the longest time.
            touch(&path)?;
            return Ok(path);
        }
        make_private(path.parent().unwrap_or(&self.root))?;
        let mut file = NewFile::create(&path, Access::Shared, true)?;
        let mut hashing = Hashing { file: &mut file, hasher: blake3::Hasher::new() };
        bucket.get(&object_name(tenant, digest), &mut hashing)?;
        let found = hashing.hasher.finalize().to_string();
        // The file gets its name only with the right digest, so no process maps altered bytes.
        if found != digest {
            let altered = format!("the file in the store has another digest, {found}");
            return Err(Error::io(
                "fetch",
                &path,
                io::Error::new(io::ErrorKind::InvalidData, altered),
            ));
        }
        file.finish()?;
        Ok(path)
    }

    /// Returns the local path of an object.
    fn object(&self, tenant: &str, digest: &str) -> PathBuf {
        self.root.join(OBJECTS).join(tenant).join(digest)
    }

    /// Returns the path of an upload under way.
    #[must_use]
    pub fn upload(&self, id: &str) -> PathBuf {
        self.root.join(UPLOADS).join(id)
    }

    /// Returns the directory of a job.
    #[must_use]
    pub fn job(&self, id: &str) -> PathBuf {
        self.root.join(JOBS).join(id)
    }

    /// Returns the directory of the states of a training, in the directory of its job.
    #[must_use]
    pub fn states_in(job: &Path) -> PathBuf {
        job.join("states")
    }

    /// Returns the path of a job's result before it is an object, in the directory of the job.
    #[must_use]
    pub fn result_in(job: &Path) -> PathBuf {
        job.join("result.ct")
    }

    /// Uploads a file, which is on the disk, to the shared store, before it is recorded as an object.
    /// Replaces an existing one only if `anew`.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn share_object(&self, file: &Path, tenant: &str, digest: &str, anew: bool) -> Result<()> {
        let Some(bucket) = &self.bucket else { return Ok(()) };
        let name = object_name(tenant, digest);
        if anew || !bucket.has(&name)? { bucket.put(&name, file) } else { Ok(()) }
    }

    /// Moves a file, which is on the disk, to the objects.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn adopt(&self, file: &Path, tenant: &str, digest: &str) -> Result<()> {
        let path = self.object(tenant, digest);
        let io = |error| Error::io("write", &path, error);
        let folder = path.parent().unwrap_or(&self.root);
        // Names must be durable before the record that relies on them.
        if !folder.is_dir() {
            make_private(folder)?;
            sync(&self.root.join(OBJECTS)).map_err(io)?;
        }
        fs::rename(file, &path).map_err(io)?;
        sync(folder).map_err(io)
    }

    /// Removes the file of an object, here and in the shared store.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn remove_object(&self, tenant: &str, digest: &str) -> Result<()> {
        // The store first: if it is out of reach, the local file is still here for the next
        // attempt.
        if let Some(bucket) = &self.bucket {
            bucket.remove(&object_name(tenant, digest))?;
        }
        files::remove(&self.object(tenant, digest))
    }

    /// Removes local copies of objects that are not `known`, and the least recently used ones until
    /// `most_bytes` are left. Keeps new copies and ones in use.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn tidy_copies(
        &self,
        most_bytes: u64,
        known: &HashSet<(String, String)>,
        used: &HashSet<(String, String)>,
    ) -> Result<()> {
        let Some(bucket) = &self.bucket else { return Ok(()) };
        let mut copies = Vec::new();
        let mut bytes = 0_u64;
        for (tenant, digest, path) in self.objects_here()? {
            let metadata = path.metadata().map_err(|error| Error::io("read", &path, error))?;
            let is_new = is_new(&path)?;
            bytes = bytes.saturating_add(metadata.len());
            let named = (tenant, digest);
            if !known.contains(&named) && !is_new {
                files::remove(&path)?;
                bytes = bytes.saturating_sub(metadata.len());
            } else if !is_new && !used.contains(&named) {
                let name = object_name(&named.0, &named.1);
                copies.push((last_used(&metadata).ok(), metadata.len(), path, name));
            }
        }
        copies.sort_unstable();
        for (_, size, path, name) in copies {
            if bytes <= most_bytes {
                break;
            }
            if !bucket.has(&name)? {
                // The object may be older than the shared store.
                bucket.put(&name, &path)?;
            }
            files::remove(&path)?;
            bytes = bytes.saturating_sub(size);
        }
        Ok(())
    }

    /// Lists the local objects: tenants, digests and paths.
    fn objects_here(&self) -> Result<Vec<(String, String, PathBuf)>> {
        let mut found = Vec::new();
        for (tenant, folder) in entries(&self.root.join(OBJECTS))? {
            let objects = entries(&folder)?.into_iter();
            found.extend(objects.map(|(digest, path)| (tenant.clone(), digest, path)));
        }
        Ok(found)
    }

    /// Lists the objects in the shared store, or else the objects here: tenants, digests and times of
    /// storage.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn objects_stored(&self) -> Result<Vec<((String, String), SystemTime)>> {
        let Some(bucket) = &self.bucket else {
            let here = self.objects_here()?.into_iter().filter_map(|(tenant, digest, path)| {
                let written = path.metadata().and_then(|found| found.modified());
                // A missing file was removed meanwhile.
                written.ok().map(|written| ((tenant, digest), written))
            });
            return Ok(here.collect());
        };
        let stored = bucket.list_with_times(OBJECTS)?.into_iter().filter_map(|(name, written)| {
            let (tenant, digest) = name.split_once('/')?;
            Some(((tenant.to_owned(), digest.to_owned()), written))
        });
        Ok(stored.collect())
    }

    /// Removes the data of an upload.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn remove_upload(&self, id: &str) -> Result<()> {
        files::remove(&self.upload(id))
    }

    /// Removes the data of uploads that are not `known`, except new data.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn tidy_uploads(&self, known: &HashSet<String>) -> Result<()> {
        for (id, path) in entries(&self.root.join(UPLOADS))? {
            if !known.contains(&id) && !is_new(&path)? {
                files::remove(&path)?;
            }
        }
        Ok(())
    }

    /// Overwrites the data of an upload, as far as the disk permits, and removes it.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn wipe_upload(&self, id: &str) -> Result<()> {
        let path = self.upload(id);
        let io = |error| Error::io("wipe", &path, error);
        // Without truncation, which would free the blocks before they are overwritten.
        let mut file = OpenOptions::new().write(true).open(&path).map_err(io)?;
        let mut left = file.seek(SeekFrom::End(0)).map_err(io)?;
        file.rewind().map_err(io)?;
        let zeros = [0; WIPED_AT_ONCE];
        while left > 0 {
            let count = left.min(zeros.len() as u64);
            file.write_all(&zeros[..count as usize]).map_err(io)?;
            left -= count;
        }
        // The zeros must reach the disk before the blocks are free for others.
        file.sync_all().map_err(io)?;
        files::remove(&path)
    }

    /// Creates the directory of a job.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn make_job(&self, id: &str) -> Result<PathBuf> {
        let folder = self.job(id);
        make_private(&folder)?;
        Ok(folder)
    }

    /// Replaces the local states of a job's training by the ones in the shared store.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn fetch_states(&self, id: &str) -> Result<()> {
        let Some(bucket) = &self.bucket else { return Ok(()) };
        let folder = Self::states_in(&self.job(id));
        let shared = states_name(id);
        make_private(&folder)?;
        // Before anything is removed here: the store may be out of reach.
        let there = bucket.list(&shared)?;
        for file in StateFile::all_in(&folder)? {
            // A state of the same name may be of a claim that ended.
            files::remove(&folder.join(file.name()))?;
        }
        for file in there.iter().filter_map(|name| StateFile::of_name(name)) {
            let mut new = NewFile::create(&folder.join(file.name()), Access::Shared, true)?;
            bucket.get(&format!("{shared}/{}", file.name()), &mut new)?;
            new.finish()?;
        }
        Ok(())
    }

    /// Uploads the states of a training to the shared store, as [`Store::share_state`] does for each.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn share_states(&self, id: &str) -> Result<()> {
        let Some(bucket) = &self.bucket else { return Ok(()) };
        let there = bucket.list(&states_name(id))?;
        for state in StateFile::all_in(&Self::states_in(&self.job(id)))? {
            if !there.contains(&state.name()) {
                self.share_state(id, state)?;
            }
        }
        Ok(())
    }

    /// Uploads one state of a training to the shared store, and removes earlier ones. Later states and the
    /// weights of iterations stay, whichever server stored them.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn share_state(&self, id: &str, state: StateFile) -> Result<()> {
        let Some(bucket) = &self.bucket else { return Ok(()) };
        let folder = Self::states_in(&self.job(id));
        let shared = states_name(id);
        // Before earlier states go, so that there is always a state to resume from.
        bucket.put(&format!("{shared}/{}", state.name()), &folder.join(state.name()))?;
        let StateFile::State(iterations) = state else { return Ok(()) };
        for stored in bucket.list(&shared)? {
            let found = StateFile::of_name(&stored);
            if matches!(found, Some(StateFile::State(before)) if before < iterations) {
                bucket.remove(&format!("{shared}/{stored}"))?;
            }
        }
        Ok(())
    }

    /// Removes the directory of a job, and its states in the shared store.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn remove_job(&self, id: &str) -> Result<()> {
        self.remove_shared_states(id)?;
        let folder = self.job(id);
        match fs::remove_dir_all(&folder) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(Error::io("remove", &folder, error))
            }
            _ => Ok(()),
        }
    }

    /// Removes the states of a job from the shared store.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn remove_shared_states(&self, id: &str) -> Result<()> {
        let Some(bucket) = &self.bucket else { return Ok(()) };
        let shared = states_name(id);
        for stored in bucket.list(&shared)? {
            bucket.remove(&format!("{shared}/{stored}"))?;
        }
        Ok(())
    }

    /// Lists the names of jobs with states in the shared store.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn jobs_shared(&self) -> Result<Vec<String>> {
        let Some(bucket) = &self.bucket else { return Ok(Vec::new()) };
        let ids = bucket.list(JOBS)?.into_iter().filter_map(|name| {
            let (id, _) = name.split_once('/')?;
            Some(id.to_owned())
        });
        Ok(ids.collect::<BTreeSet<_>>().into_iter().collect())
    }

    /// Removes incomplete files that killed servers left in the shared store, except new ones.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn tidy_shared(&self) -> Result<()> {
        let Some(bucket) = &self.bucket else { return Ok(()) };
        for path in bucket.unfinished()? {
            // A missing file was finished meanwhile.
            if matches!(is_new(&path), Ok(false)) {
                files::remove(&path)?;
            }
        }
        Ok(())
    }

    /// Lists the names of jobs with directories here.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn jobs_here(&self) -> Result<Vec<String>> {
        Ok(entries(&self.root.join(JOBS))?.into_iter().map(|(id, _)| id).collect())
    }

    /// Removes directories of jobs, except new ones.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn tidy_jobs(&self, ids: impl Iterator<Item = String>) -> Result<()> {
        for folder in ids.map(|id| self.job(&id)) {
            if !is_new(&folder)? {
                fs::remove_dir_all(&folder).map_err(|e| Error::io("remove", &folder, e))?;
            }
        }
        Ok(())
    }

    /// Returns whether the directory is writable, and the shared store is usable.
    #[must_use]
    pub fn is_usable(&self) -> bool {
        // A random name, since several checks may run at the same time.
        let probe = random_id().map(|id| self.root.join(UPLOADS).join(format!(".probe-{id}")));
        let written = |probe: &PathBuf| {
            fs::write(probe, b"sudare").and_then(|()| fs::remove_file(probe)).is_ok()
        };
        probe.as_ref().is_ok_and(written) && self.bucket.as_ref().is_none_or(Bucket::is_usable)
    }

    /// Removes the path of this directory from a text.
    #[must_use]
    pub fn without_paths(&self, text: &str) -> String {
        without_paths(&self.root, text)
    }
}

/// Returns the name of an object in the shared store.
fn object_name(tenant: &str, digest: &str) -> String {
    format!("{OBJECTS}/{tenant}/{digest}")
}

/// Returns the prefix of a job's states in the shared store.
fn states_name(id: &str) -> String {
    format!("{JOBS}/{id}/states")
}

/// Returns whether a file was written or used recently. A file that is gone counts as new.
fn is_new(path: &Path) -> Result<bool> {
    let used = match path.metadata().and_then(|metadata| last_used(&metadata)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(true),
        used => used.map_err(|error| Error::io("read", path, error))?,
    };
    // The time is in the future if the clock was set back.
    Ok(used.elapsed().is_ok_and(|age| age < NEW) || used.elapsed().is_err())
}

/// Lists the entries of a directory, by name. Ignores names that are not valid UTF-8.
pub fn entries(folder: &Path) -> Result<Vec<(String, PathBuf)>> {
    let io = |error| Error::io("read", folder, error);
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(io)? {
        let entry = entry.map_err(io)?;
        found.extend(entry.file_name().into_string().ok().map(|name| (name, entry.path())));
    }
    Ok(found)
}

/// Sets the access time of a file to now, by which copies are kept or removed. The modification time stays,
/// since processes that map the file check it.
pub fn touch(path: &Path) -> Result<()> {
    let now = FileTimes::new().set_accessed(SystemTime::now());
    let touched = File::options().append(true).open(path).and_then(|file| file.set_times(now));
    touched.map_err(|error| Error::io("touch", path, error))
}

/// Returns the time when a file was last written or used, by [`touch`] or, where the system records it, by
/// reading.
pub fn last_used(metadata: &Metadata) -> io::Result<SystemTime> {
    let written = metadata.modified()?;
    Ok(metadata.accessed().map_or(written, |accessed| accessed.max(written)))
}

/// A new file, with the digest of the written data.
struct Hashing<'a> {
    file: &'a mut NewFile,
    hasher: blake3::Hasher,
}

impl Write for Hashing<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.hasher.update(bytes.get(..written).unwrap_or(bytes));
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Makes the paths in a text relative to a directory.
pub fn without_paths(folder: &Path, text: &str) -> String {
    text.replace(&format!("{}{MAIN_SEPARATOR}", folder.display()), "")
}

/// Makes the names in a directory durable.
pub fn sync(folder: &Path) -> io::Result<()> {
    #[cfg(unix)]
    File::open(folder)?.sync_all()?;
    #[cfg(not(unix))]
    let _ = folder;
    Ok(())
}

/// Stores for tests.
#[cfg(test)]
pub(crate) mod testing {
    use super::*;

    /// Makes two servers that share the directory `shared`.
    pub fn sharing(folder: &Path) -> [Store; 2] {
        let shared = folder.join("shared");
        fs::create_dir(&shared).unwrap();
        let bucket = || Bucket::open(&format!("file://{}", shared.display())).unwrap();
        let [one, two] =
            ["one", "two"].map(|name| Store::open(&folder.join(name), Some(bucket())).unwrap());
        assert_ne!(one.name(), two.name());
        [one, two]
    }
}

#[cfg(test)]
mod tests {
    #[cfg(feature = "cluster")]
    use super::testing::sharing;
    use super::*;

    #[test]
    fn objects_are_whole_and_secrets_are_wiped() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("store");
        let store = Store::open(&root, None).unwrap();
        assert!(matches!(Store::open(&root, None), Err(Error::InUse { .. })));
        fs::write(store.upload("1"), b"keys").unwrap();
        store.adopt(&store.upload("1"), "clinic", "d1").unwrap();
        assert_eq!(fs::read(store.object("clinic", "d1")).unwrap(), b"keys");
        assert!(!store.upload("1").exists());
        store.remove_object("clinic", "d1").unwrap();
        store.remove_object("clinic", "d1").unwrap();
        assert!(!store.object("clinic", "d1").exists());
        // A second link to the file shows the overwritten bytes.
        let secret = vec![7; WIPED_AT_ONCE + 5];
        fs::write(store.upload("2"), &secret).unwrap();
        fs::hard_link(store.upload("2"), root.join("other")).unwrap();
        store.wipe_upload("2").unwrap();
        assert_eq!(fs::read(root.join("other")).unwrap(), vec![0; secret.len()]);
        assert!(!store.upload("2").exists());
        // Old data of an unknown upload is removed.
        fs::write(store.upload("3"), b"known").unwrap();
        fs::write(store.upload("4"), b"old").unwrap();
        fs::write(store.upload("5"), b"new").unwrap();
        ["3", "4"].iter().for_each(|id| age(&store.upload(id)));
        store.tidy_uploads(&HashSet::from(["3".into()])).unwrap();
        assert_eq!(["3", "4", "5"].map(|id| store.upload(id).exists()), [true, false, true]);
        // Several checks may run at the same time.
        std::thread::scope(|scope| {
            let looks = || (0..50).all(|_| store.is_usable());
            let all = [(); 4].map(|()| scope.spawn(looks));
            assert!(all.into_iter().all(|looks| looks.join().unwrap()));
        });
        let path = store.object("clinic", "d1");
        let told = store.without_paths(&format!("{}: damaged", path.display()));
        assert_eq!(told, "objects/clinic/d1: damaged");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
            assert_eq!(mode(&root), 0o700);
            // The permissions are corrected if they were different before.
            drop(store);
            let objects = root.join(OBJECTS);
            for folder in [&root, &objects] {
                fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).unwrap();
            }
            drop(Store::open(&root, None).unwrap());
            assert_eq!((mode(&root), mode(&objects)), (0o700, 0o700));
        }
    }

    /// Makes a file look unused for a long time.
    fn age(path: &Path) {
        let long_ago = SystemTime::now() - 2 * NEW;
        let times = FileTimes::new().set_modified(long_ago).set_accessed(long_ago);
        File::options().append(true).open(path).unwrap().set_times(times).unwrap();
    }

    /// A task of the server may drop the last reference.
    #[cfg(feature = "cluster")]
    #[test]
    fn stores_end_where_nothing_may_wait() {
        let folder = tempfile::tempdir().unwrap();
        let stores = sharing(folder.path());
        tokio::runtime::Runtime::new().unwrap().block_on(async { drop(stores) });
    }

    /// Copies of shared objects are removed when unused, and downloaded again.
    #[cfg(feature = "cluster")]
    #[test]
    fn copies_are_removed_and_fetched_again() {
        let folder = tempfile::tempdir().unwrap();
        let [one, two] = sharing(folder.path());
        let texts = ["first", "second", "third"];
        let digests = texts.map(|text| blake3::hash(text.as_bytes()).to_string());
        for (text, digest) in texts.iter().zip(&digests) {
            let upload = one.upload("1");
            fs::write(&upload, text).unwrap();
            one.share_object(&upload, "clinic", digest, true).unwrap();
            one.adopt(&upload, "clinic", digest).unwrap();
        }
        let read = |store: &Store, at: usize| {
            fs::read_to_string(store.fetch_object("clinic", &digests[at]).unwrap()).unwrap()
        };
        for (at, text) in texts.iter().enumerate() {
            assert_eq!((&read(&one, at)[..], &read(&two, at)[..]), (*text, *text));
        }
        // A process that has a file mapped is not disturbed when another one uses it.
        let path = one.fetch_object("clinic", &digests[0]).unwrap();
        age(&path);
        let watched = files::Watch::new(&path, &File::open(&path).unwrap()).unwrap();
        one.fetch_object("clinic", &digests[0]).unwrap();
        watched.check().unwrap();
        assert!(is_new(&path).unwrap());
        let named = |all: &[usize]| -> HashSet<(String, String)> {
            all.iter().map(|&at| ("clinic".into(), digests[at].clone())).collect()
        };
        let here = |store: &Store| {
            digests.each_ref().map(|digest| store.object("clinic", digest).exists())
        };
        // New copies stay, known or not.
        two.tidy_copies(0, &named(&[]), &named(&[])).unwrap();
        assert_eq!(here(&two), [true; 3]);
        digests.iter().for_each(|digest| age(&two.object("clinic", digest)));
        two.tidy_copies(1 << 20, &named(&[0, 1]), &named(&[])).unwrap();
        assert_eq!(here(&two), [true, true, false]);
        two.tidy_copies(0, &named(&[0, 1]), &named(&[1])).unwrap();
        assert_eq!(here(&two), [false, true, false]);
        assert_eq!(read(&two, 0), texts[0]);
        // A removed object is gone for the other servers, too.
        one.remove_object("clinic", &digests[2]).unwrap();
        assert!(two.fetch_object("clinic", &digests[2]).is_err());
        // An object that the shared store lacks is uploaded before its removal.
        let shared = folder.path().join("shared/objects/clinic");
        fs::remove_file(shared.join(&digests[0])).unwrap();
        age(&two.object("clinic", &digests[0]));
        two.tidy_copies(0, &named(&[0]), &named(&[])).unwrap();
        assert_eq!((here(&two)[0], &read(&one, 0)[..]), (false, texts[0]));
        fs::remove_file(one.object("clinic", &digests[0])).unwrap();
        assert_eq!(read(&one, 0), texts[0]);
    }

    /// The states of a job are the ones that its last holder stored.
    #[cfg(feature = "cluster")]
    #[test]
    fn states_go_from_server_to_server() {
        let folder = tempfile::tempdir().unwrap();
        let [one, two] = sharing(folder.path());
        let names = |store: &Store| {
            let files = StateFile::all_in(&Store::states_in(&store.job("7"))).unwrap();
            let mut names: Vec<String> = files.into_iter().map(StateFile::name).collect();
            names.sort();
            names
        };
        for store in [&one, &two] {
            store.make_job("7").unwrap();
            store.fetch_states("7").unwrap();
        }
        let left = |store: &Store, state: StateFile| {
            fs::write(Store::states_in(&store.job("7")).join(state.name()), b"state").unwrap();
        };
        for state in [StateFile::Weights(1), StateFile::State(1)] {
            left(&one, state);
        }
        one.share_states("7").unwrap();
        two.fetch_states("7").unwrap();
        assert_eq!(names(&two), names(&one));
        // Another server stores the next states without having the earlier ones.
        fs::remove_dir_all(Store::states_in(&one.job("7"))).unwrap();
        make_private(&Store::states_in(&one.job("7"))).unwrap();
        for state in [StateFile::Weights(2), StateFile::State(2)] {
            left(&one, state);
            one.share_state("7", state).unwrap();
        }
        two.fetch_states("7").unwrap();
        let wanted = [StateFile::State(2), StateFile::Weights(1), StateFile::Weights(2)];
        let mut wanted = wanted.map(StateFile::name);
        wanted.sort();
        assert_eq!(names(&two), wanted);
        // A late server removes no newer state.
        left(&one, StateFile::State(1));
        one.share_state("7", StateFile::State(1)).unwrap();
        two.fetch_states("7").unwrap();
        assert!(names(&two).contains(&StateFile::State(2).name()));
        two.tidy_jobs(two.jobs_here().unwrap().into_iter()).unwrap();
        assert!(two.job("7").exists());
        two.remove_job("7").unwrap();
        one.fetch_states("7").unwrap();
        assert!(names(&one).is_empty());
    }

    /// Removes what a killed server left incomplete in a store in a directory, but not what a server sends
    /// now.
    #[cfg(feature = "cluster")]
    #[test]
    fn partial_uploads_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let [store, _] = sharing(folder.path());
        let objects = folder.path().join("shared/objects/clinic");
        fs::create_dir_all(&objects).unwrap();
        let files = ["cut#1", "sent#12", "whole"].map(|name| objects.join(name));
        for path in &files {
            fs::write(path, b"bytes").unwrap();
        }
        age(&files[0]);
        age(&files[2]);
        store.tidy_shared().unwrap();
        assert_eq!(files.map(|path| path.exists()), [false, true, true]);
    }
}

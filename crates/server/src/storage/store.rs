//! The folder of a server: what tenants have as files, uploads under way, and folders of jobs.
//!
//! An object is a file named by its digest in a folder of its tenant. It gets there whole, by
//! renaming, and is never written to again, so that processes may map it.
//!
//! Where several servers have the same objects, these are in a [`Bucket`], as are states of trainings
//! that others may go on from; the folder has copies then, of which those go that are not used.

use crate::{accounts::token::random_id, cluster::Bucket};
use std::{
    collections::{BTreeSet, HashSet},
    fs::{self, File, FileTimes, Metadata, OpenOptions},
    io::{self, Seek, SeekFrom, Write},
    path::{MAIN_SEPARATOR, Path, PathBuf},
    time::{Duration, SystemTime},
};
use sudare_roles::{
    checkpoint::StateFile,
    error::{Error, Result},
    files::{self, Access, NewFile},
};

/// Objects in the store that no record knows, as they were last found.
#[derive(Default)]
pub struct Orphans {
    /// When they were looked for.
    pub looked: Option<SystemTime>,
    /// Their tenants and digests.
    pub found: HashSet<(String, String)>,
}

/// Bytes that are overwritten at a time.
const WIPED_AT_ONCE: usize = 1 << 16;

/// The folder of objects.
const OBJECTS: &str = "objects";
/// That of uploads under way.
const UPLOADS: &str = "uploads";
/// That of folders of jobs.
const JOBS: &str = "jobs";
/// How long a file stays that nobody knows: it may be about to be known.
const NEW: Duration = Duration::from_secs(3600);

/// The folder of a server, which is this process's own.
pub struct Store {
    root: PathBuf,
    name: String,
    /// What other servers have, too.
    bucket: Option<Bucket>,
    /// Locked until the process ends, however it does.
    _lock: File,
}

/// The file of the records of a server.
pub const RECORDS: &str = "records.sqlite";

/// Where the records of the server in a folder are; the folder is made if it does not exist.
///
/// # Errors
/// [`Error::Io`]; [`Error::NotAFolder`].
pub fn records_path(root: &Path) -> Result<PathBuf> {
    make_private(root)?;
    Ok(root.join(RECORDS))
}

/// The name of the server in a folder, by which it knows its jobs and uploads among those of others
/// that share its records; it is given one if it has none.
///
/// # Errors
/// [`Error::Io`]; [`Error::Library`] without randomness.
fn name(root: &Path) -> Result<String> {
    let path = root.join("server.name");
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

/// Where the key is that the server in a folder signs with, if it is nowhere else; the folder is
/// made if it does not exist.
///
/// # Errors
/// [`Error::Io`]; [`Error::NotAFolder`].
pub fn key_path(root: &Path) -> Result<PathBuf> {
    make_private(root)?;
    Ok(root.join("server.key"))
}

impl Store {
    /// Takes a folder, which is made if it does not exist, and shares with other servers what is in a bucket.
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

    /// The folder.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The name of the server, which no other one has.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether others have its objects, too.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        self.bucket.is_some()
    }

    /// Where the object of a tenant is, by its digest; if only other servers had it, it is here then.
    ///
    /// # Errors
    /// [`Error::Io`], also for one that was altered where others have it.
    pub fn fetch_object(&self, tenant: &str, digest: &str) -> Result<PathBuf> {
        let path = self.object(tenant, digest);
        let Some(bucket) = &self.bucket else { return Ok(path) };
        if path.exists() {
            touch(&path)?;
            return Ok(path);
        }
        make_private(path.parent().unwrap_or(&self.root))?;
        let mut file = NewFile::create(&path, Access::Shared, true)?;
        let mut hashing = Hashing { file: &mut file, hasher: blake3::Hasher::new() };
        bucket.get(&object_name(tenant, digest), &mut hashing)?;
        let found = hashing.hasher.finalize().to_string();
        if found != digest {
            let altered = format!("what the store has under this digest has another one, {found}");
            return Err(Error::io(
                "fetch",
                &path,
                io::Error::new(io::ErrorKind::InvalidData, altered),
            ));
        }
        file.finish()?;
        Ok(path)
    }

    /// Where the object of a tenant is among the files here.
    fn object(&self, tenant: &str, digest: &str) -> PathBuf {
        self.root.join(OBJECTS).join(tenant).join(digest)
    }

    /// Where an upload is while it is under way.
    #[must_use]
    pub fn upload(&self, id: &str) -> PathBuf {
        self.root.join(UPLOADS).join(id)
    }

    /// The folder of a job.
    #[must_use]
    pub fn job(&self, id: &str) -> PathBuf {
        self.root.join(JOBS).join(id)
    }

    /// Where states of a training are, in the folder of its job.
    #[must_use]
    pub fn states_in(job: &Path) -> PathBuf {
        job.join("states")
    }

    /// Where the result of a job is, in its folder, before it is an object.
    #[must_use]
    pub fn result_in(job: &Path) -> PathBuf {
        job.join("result.ct")
    }

    /// Has a file, which is on the disk, where other servers find it once it is known as an object; one that is
    /// there is sent in its place only `anew`.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn share_object(&self, file: &Path, tenant: &str, digest: &str, anew: bool) -> Result<()> {
        let Some(bucket) = &self.bucket else { return Ok(()) };
        let name = object_name(tenant, digest);
        if anew || !bucket.has(&name)? { bucket.put(&name, file) } else { Ok(()) }
    }

    /// Makes an object of a file, which is on the disk.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn adopt(&self, file: &Path, tenant: &str, digest: &str) -> Result<()> {
        let path = self.object(tenant, digest);
        let io = |error| Error::io("write", &path, error);
        let folder = path.parent().unwrap_or(&self.root);
        if !folder.is_dir() {
            make_private(folder)?;
            sync(&self.root.join(OBJECTS)).map_err(io)?;
        }
        fs::rename(file, &path).map_err(io)?;
        sync(folder).map_err(io)
    }

    /// Removes the file of an object, here and where other servers find it.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn remove_object(&self, tenant: &str, digest: &str) -> Result<()> {
        if let Some(bucket) = &self.bucket {
            bucket.remove(&object_name(tenant, digest))?;
        }
        files::remove(&self.object(tenant, digest))
    }

    /// Removes what is not `known` any more, and of the other copies of what is elsewhere the least lately
    /// used until there are `most_bytes`; but nothing that is new, or is in use.
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
                // As for what was here before there was a store.
                bucket.put(&name, &path)?;
            }
            files::remove(&path)?;
            bytes = bytes.saturating_sub(size);
        }
        Ok(())
    }

    /// Objects among the files here: tenants, digests and paths.
    fn objects_here(&self) -> Result<Vec<(String, String, PathBuf)>> {
        let mut found = Vec::new();
        for (tenant, folder) in entries(&self.root.join(OBJECTS))? {
            let objects = entries(&folder)?.into_iter();
            found.extend(objects.map(|(digest, path)| (tenant.clone(), digest, path)));
        }
        Ok(found)
    }

    /// Objects where all servers find them: tenants, digests, and when they were put there.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn objects_stored(&self) -> Result<Vec<((String, String), SystemTime)>> {
        let Some(bucket) = &self.bucket else {
            let here = self.objects_here()?.into_iter().filter_map(|(tenant, digest, path)| {
                let written = path.metadata().and_then(|found| found.modified());
                // One that is gone was removed meanwhile.
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

    /// Removes what came of an upload.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn remove_upload(&self, id: &str) -> Result<()> {
        files::remove(&self.upload(id))
    }

    /// Removes what came of uploads that are not `known` any more; but nothing that is new.
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

    /// Overwrites what came of an upload, as far as the disk lets, and removes it.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn wipe_upload(&self, id: &str) -> Result<()> {
        let path = self.upload(id);
        let io = |error| Error::io("wipe", &path, error);
        let mut file = OpenOptions::new().write(true).open(&path).map_err(io)?;
        let mut left = file.seek(SeekFrom::End(0)).map_err(io)?;
        file.rewind().map_err(io)?;
        let zeros = [0; WIPED_AT_ONCE];
        while left > 0 {
            let count = left.min(zeros.len() as u64);
            file.write_all(&zeros[..count as usize]).map_err(io)?;
            left -= count;
        }
        file.sync_all().map_err(io)?;
        files::remove(&path)
    }

    /// Makes the folder of a job.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn make_job(&self, id: &str) -> Result<PathBuf> {
        let folder = self.job(id);
        make_private(&folder)?;
        Ok(folder)
    }

    /// Has in the folder of a job the states of its training that another server may have left, and no
    /// others.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn fetch_states(&self, id: &str) -> Result<()> {
        let Some(bucket) = &self.bucket else { return Ok(()) };
        let (folder, shared) = (Self::states_in(&self.job(id)), states_name(id));
        make_private(&folder)?;
        let there = bucket.list(&shared)?;
        for file in StateFile::all_in(&folder)? {
            // One that has the same name may be of a claim that ended.
            files::remove(&folder.join(file.name()))?;
        }
        for file in there.iter().filter_map(|name| StateFile::of_name(name)) {
            let mut new = NewFile::create(&folder.join(file.name()), Access::Shared, true)?;
            bucket.get(&format!("{shared}/{}", file.name()), &mut new)?;
            new.finish()?;
        }
        Ok(())
    }

    /// Has the states of a training where another server finds them, as [`Store::share_state`] each.
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

    /// Has one state of a training where another server finds it, in place of earlier ones; later ones and
    /// the weights of iterations stay, whoever left them.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn share_state(&self, id: &str, state: StateFile) -> Result<()> {
        let Some(bucket) = &self.bucket else { return Ok(()) };
        let (folder, shared) = (Self::states_in(&self.job(id)), states_name(id));
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

    /// Removes the folder of a job, and what other servers find of it.
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

    /// Removes what other servers find of the states of a job.
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

    /// Names of jobs of which other servers find states.
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

    /// Removes what servers that were killed had not sent whole to where others find it; but nothing that is
    /// new.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn tidy_shared(&self) -> Result<()> {
        let Some(bucket) = &self.bucket else { return Ok(()) };
        for path in bucket.unfinished()? {
            // One that is gone was finished meanwhile.
            if matches!(is_new(&path), Ok(false)) {
                files::remove(&path)?;
            }
        }
        Ok(())
    }

    /// Names of jobs that have folders here.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn jobs_here(&self) -> Result<Vec<String>> {
        Ok(entries(&self.root.join(JOBS))?.into_iter().map(|(id, _)| id).collect())
    }

    /// Removes folders of jobs, but for those that are new.
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

    /// Whether the folder can be written to.
    #[must_use]
    pub fn is_usable(&self) -> bool {
        // Several may look at the same time.
        let probe = random_id().map(|id| self.root.join(UPLOADS).join(format!(".probe-{id}")));
        let written = |probe: &PathBuf| {
            fs::write(probe, b"sudare").and_then(|()| fs::remove_file(probe)).is_ok()
        };
        probe.as_ref().is_ok_and(written) && self.bucket.as_ref().is_none_or(Bucket::is_usable)
    }

    /// Text in which paths of this folder are not told.
    #[must_use]
    pub fn without_paths(&self, text: &str) -> String {
        without_paths(&self.root, text)
    }
}

/// The name of an object where other servers find it.
fn object_name(tenant: &str, digest: &str) -> String {
    format!("{OBJECTS}/{tenant}/{digest}")
}

/// What the names of states of a job begin with there.
fn states_name(id: &str) -> String {
    format!("{JOBS}/{id}/states")
}

/// Whether a file was written to or used a moment ago, as one was that is gone since it was looked for.
fn is_new(path: &Path) -> Result<bool> {
    let used = match path.metadata().and_then(|metadata| last_used(&metadata)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(true),
        used => used.map_err(|error| Error::io("read", path, error))?,
    };
    // In the future, if the clock was set back.
    Ok(used.elapsed().is_ok_and(|age| age < NEW) || used.elapsed().is_err())
}

/// What is in a folder, by name; what is not named by text is none of this program's.
pub fn entries(folder: &Path) -> Result<Vec<(String, PathBuf)>> {
    let io = |error| Error::io("read", folder, error);
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(io)? {
        let entry = entry.map_err(io)?;
        found.extend(entry.file_name().into_string().ok().map(|name| (name, entry.path())));
    }
    Ok(found)
}

/// Remembers that a file is used now: what was used last is kept longest. When it was written stays as
/// it was, by which who has it mapped knows that it is the same.
pub fn touch(path: &Path) -> Result<()> {
    let now = FileTimes::new().set_accessed(SystemTime::now());
    let touched = File::options().append(true).open(path).and_then(|file| file.set_times(now));
    touched.map_err(|error| Error::io("touch", path, error))
}

/// When a file was last written to or used, by [`touch`] or, where the system notes that, by reading.
pub fn last_used(metadata: &Metadata) -> io::Result<SystemTime> {
    let written = metadata.modified()?;
    Ok(metadata.accessed().map_or(written, |accessed| accessed.max(written)))
}

/// A new file, and the digest of what has been written to it.
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

/// Text in which paths of a folder are told as from there.
pub fn without_paths(folder: &Path, text: &str) -> String {
    text.replace(&format!("{}{MAIN_SEPARATOR}", folder.display()), "")
}

/// Makes a folder for the user alone, and those above it. One that was there before others could look
/// into is closed to them.
pub fn make_private(folder: &Path) -> Result<()> {
    if !folder.is_dir() {
        files::make_folder(folder)?;
    }
    restrict(folder).map_err(|error| Error::io("protect", folder, error))
}

/// Takes from a file or a folder what others than its user may do with it.
pub fn restrict(path: &Path) -> io::Result<()> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        const OTHERS: u32 = 0o077;
        let mode = fs::metadata(path)?.permissions().mode();
        if mode & OTHERS != 0 {
            fs::set_permissions(path, fs::Permissions::from_mode(mode & 0o7777 & !OTHERS))?;
        }
    }
    #[cfg(not(unix))]
    let _ = path;
    Ok(())
}

/// Makes names in a folder durable.
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

    /// Two servers that share what is in a folder, `shared`.
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
        // What was overwritten is seen by another link to the same file.
        let secret = vec![7; WIPED_AT_ONCE + 5];
        fs::write(store.upload("2"), &secret).unwrap();
        fs::hard_link(store.upload("2"), root.join("other")).unwrap();
        store.wipe_upload("2").unwrap();
        assert_eq!(fs::read(root.join("other")).unwrap(), vec![0; secret.len()]);
        assert!(!store.upload("2").exists());
        // What came of an upload that nobody knows goes when it is old.
        fs::write(store.upload("3"), b"known").unwrap();
        fs::write(store.upload("4"), b"old").unwrap();
        fs::write(store.upload("5"), b"new").unwrap();
        ["3", "4"].iter().for_each(|id| age(&store.upload(id)));
        store.tidy_uploads(&HashSet::from(["3".into()])).unwrap();
        assert_eq!(["3", "4", "5"].map(|id| store.upload(id).exists()), [true, false, true]);
        // However many look at the same time.
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
            // Also where it was another one before.
            drop(store);
            let objects = root.join(OBJECTS);
            for folder in [&root, &objects] {
                fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).unwrap();
            }
            drop(Store::open(&root, None).unwrap());
            assert_eq!((mode(&root), mode(&objects)), (0o700, 0o700));
        }
    }

    /// Has a file look as if nobody had used it for long.
    fn age(path: &Path) {
        let long_ago = SystemTime::now() - 2 * NEW;
        let times = FileTimes::new().set_modified(long_ago).set_accessed(long_ago);
        File::options().append(true).open(path).unwrap().set_times(times).unwrap();
    }

    /// The last that has it may be a task of the server.
    #[cfg(feature = "cluster")]
    #[test]
    fn stores_end_where_nothing_may_wait() {
        let folder = tempfile::tempdir().unwrap();
        let stores = sharing(folder.path());
        tokio::runtime::Runtime::new().unwrap().block_on(async { drop(stores) });
    }

    /// Of what others have, too, copies go when they are not used, and come back when they are.
    #[cfg(feature = "cluster")]
    #[test]
    fn copies_go_and_come_back() {
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
        // Whoever has one mapped is not disturbed where another one asks for it.
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
        // What is new stays, whether it is known or not.
        two.tidy_copies(0, &named(&[]), &named(&[])).unwrap();
        assert_eq!(here(&two), [true; 3]);
        digests.iter().for_each(|digest| age(&two.object("clinic", digest)));
        two.tidy_copies(1 << 20, &named(&[0, 1]), &named(&[])).unwrap();
        assert_eq!(here(&two), [true, true, false]);
        two.tidy_copies(0, &named(&[0, 1]), &named(&[1])).unwrap();
        assert_eq!(here(&two), [false, true, false]);
        assert_eq!(read(&two, 0), texts[0]);
        // What is removed is gone where the others look for it.
        one.remove_object("clinic", &digests[2]).unwrap();
        assert!(two.fetch_object("clinic", &digests[2]).is_err());
        // What others do not have yet is not removed before they do.
        let shared = folder.path().join("shared/objects/clinic");
        fs::remove_file(shared.join(&digests[0])).unwrap();
        age(&two.object("clinic", &digests[0]));
        two.tidy_copies(0, &named(&[0]), &named(&[])).unwrap();
        assert_eq!((here(&two)[0], &read(&one, 0)[..]), (false, texts[0]));
        fs::remove_file(one.object("clinic", &digests[0])).unwrap();
        assert_eq!(read(&one, 0), texts[0]);
    }

    /// States of a job are those that its last holder left.
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
        // Another server is sent what follows, which has nothing of that.
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
        // Who is late removes nothing of that.
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

    /// What a server was sending to a store in a folder when it was killed goes, but not what one sends now.
    #[cfg(feature = "cluster")]
    #[test]
    fn what_was_not_sent_whole_goes() {
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

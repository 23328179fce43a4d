//! Files that are whole or absent.

use crate::error::{Error, Result};
use std::{
    ffi::{OsStr, OsString},
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, BufReader, BufWriter, Read, Write},
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
    time::SystemTime,
};
use sudare_arith::{
    mem::Mapping,
    prng::{Seed, Stream},
};

/// Files being written, which are removed if the user interrupts.
static UNFINISHED: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

fn unfinished() -> MutexGuard<'static, Vec<PathBuf>> {
    // A panic while the list was locked leaves it valid: each entry is pushed or removed at once.
    UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes files that are being written, before the process ends. No file is finished or started
/// until `end` returns.
pub fn remove_unfinished(end: impl FnOnce()) {
    let mut files = unfinished();
    for path in files.drain(..) {
        // The process ends now, so a file that cannot be removed is left for the next writer.
        let _ = fs::remove_file(path);
    }
    // Under the lock, so that no other thread starts a file between removal and end.
    end();
}

/// Read access to a new file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Everybody whom the directory and the user's mask permit.
    Shared,
    /// The user alone.
    Owner,
}

impl Access {
    /// Returns the buffer size. Secrets are not buffered.
    fn buffer_bytes(self) -> usize {
        // A buffer would hold a copy of the secret that stays in memory.
        if self == Self::Owner { 0 } else { 1 << 20 }
    }
}

/// A new file. It is written under a temporary name in its directory, gets its own name when it is
/// complete, and is removed otherwise.
///
/// The temporary file is locked while it is written. The lock tells leftovers of a killed process
/// from a file that another process is writing. The next file of the same name removes the
/// leftovers.
pub struct NewFile {
    writer: BufWriter<File>,
    temporary: PathBuf,
    path: PathBuf,
    overwrite: bool,
}

/// A free name is found within this many attempts, unless another process interferes on purpose.
const ATTEMPTS: usize = 16;
/// Number of random digits in the name of a temporary file.
const RANDOM_DIGITS: usize = 16;
/// Suffix of the name of a temporary file.
const PART: &str = ".part";

/// Returns the prefix of the names of temporary files of `path`.
fn part_prefix(path: &Path) -> Result<OsString> {
    let name = path.file_name().ok_or_else(|| Error::NotAFile { path: path.into() })?;
    let mut prefix = OsString::from(".");
    prefix.push(name);
    prefix.push(".");
    Ok(prefix)
}

/// Creates and locks a new temporary file of `path`.
fn create_part(path: &Path, access: Access) -> Result<(File, PathBuf)> {
    let prefix = part_prefix(path)?;
    let io = |error| Error::io("create", path, error);
    for _ in 0..ATTEMPTS {
        // Random, since every container has a process 1, whose leftovers would block the next one.
        let seed = Seed::random().map_err(sudare::Error::from)?;
        let random = Stream::new(&seed, "name of a temporary file", 0).next_u64();
        let mut name = prefix.clone();
        name.push(format!("{random:0RANDOM_DIGITS$x}{PART}"));
        let temporary = path.with_file_name(name);
        let mut options = OpenOptions::new();
        // Never opens a file or follows a link that somebody put at this name.
        options.write(true).create_new(true);
        #[cfg(unix)]
        if access == Access::Owner {
            use std::os::unix::fs::OpenOptionsExt;
            // At creation: a later change would leave a moment in which others can open the file.
            options.mode(0o600);
        }
        #[cfg(not(unix))]
        let _ = access;
        let file = match options.open(&temporary) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
            opened => opened.map_err(io)?,
        };
        // Another process that takes this file for a stale one may hold its lock for a moment. On
        // file systems without locks, leftovers stay.
        let _ = file.lock();
        // Another process may have removed the file before the lock was taken.
        if temporary.exists() {
            return Ok((file, temporary));
        }
    }
    Err(io(io::Error::other(
        "another program removes temporary files in this directory as soon as \
                             they are created",
    )))
}

/// Removes temporary files of `path` that no process writes any more. Files that cannot be removed
/// are harmless.
fn remove_stale_parts(path: &Path) -> Result<()> {
    let prefix = part_prefix(path)?;
    let folder = path.parent().filter(|folder| *folder != Path::new(""));
    let Ok(entries) = fs::read_dir(folder.unwrap_or(Path::new("."))) else { return Ok(()) };
    let parts = entries.flatten().filter(|entry| {
        // Opening a pipe would wait for its reader.
        let is_file = entry.file_type().is_ok_and(|kind| kind.is_file());
        is_file && is_part(&entry.file_name(), &prefix)
    });
    for part in parts {
        // Append mode truncates nothing, in case the part is still being written.
        let Ok(file) = OpenOptions::new().append(true).open(part.path()) else { continue };
        // A locked part still has its writer.
        if file.try_lock().is_ok() {
            let _ = fs::remove_file(part.path());
        }
    }
    Ok(())
}

/// Returns whether `name` is the name of a temporary file with this prefix.
fn is_part(name: &OsStr, prefix: &OsStr) -> bool {
    let digits = name.as_encoded_bytes().strip_prefix(prefix.as_encoded_bytes());
    let digits = digits.and_then(|rest| rest.strip_suffix(PART.as_bytes()));
    digits.is_some_and(|digits| {
        digits.len() == RANDOM_DIGITS && digits.iter().all(u8::is_ascii_hexdigit)
    })
}

impl NewFile {
    /// Starts a file.
    ///
    /// # Errors
    /// [`Error::Exists`] unless `overwrite`; [`Error::Io`].
    pub fn create(path: &Path, access: Access, overwrite: bool) -> Result<Self> {
        check_free(path, overwrite)?;
        // Locked before the file exists, so that an interruption cannot miss it.
        let mut files = unfinished();
        remove_stale_parts(path)?;
        let (file, temporary) = create_part(path, access)?;
        files.push(temporary.clone());
        let writer = BufWriter::with_capacity(access.buffer_bytes(), file);
        Ok(Self { writer, temporary, path: path.into(), overwrite })
    }

    /// Waits until all written bytes are on the disk, so that [`NewFile::finish`] takes no time.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn sync(&mut self) -> Result<()> {
        let io = |error| Error::io("write", &self.path, error);
        self.writer.flush().map_err(io)?;
        self.writer.get_ref().sync_all().map_err(io)
    }

    /// Renames the file to its own name. After a crash of the machine the complete file has its
    /// name or does not exist.
    ///
    /// # Errors
    /// [`Error::Exists`] if another file has taken the name; [`Error::Io`].
    pub fn finish(mut self) -> Result<()> {
        // Before the list is locked, because a sync may take long.
        self.sync()?;
        let io = |error| Error::io("write", &self.path, error);
        let mut files = unfinished();
        // Another process may have taken the name since the beginning.
        check_free(&self.path, self.overwrite)?;
        if self.overwrite {
            fs::rename(&self.temporary, &self.path).map_err(io)?;
        } else {
            rename_if_free(&self.temporary, &self.path).map_err(|error| match error.kind() {
                io::ErrorKind::AlreadyExists => Error::Exists { path: self.path.clone() },
                _ => io(error),
            })?;
        }
        files.retain(|path| *path != self.temporary);
        drop(files);
        // After the rename: only the synced directory makes the new name survive a crash.
        sync_folder(&self.path).map_err(io)
    }

    /// Writes text.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn write_text(&mut self, text: &str) -> Result<()> {
        let written = self.write_all(text.as_bytes());
        written.map_err(|error| Error::io("write", &self.path, error))
    }

    /// Returns the final path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Removes a file if it exists.
///
/// # Errors
/// [`Error::Io`].
pub fn remove(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(Error::io("remove", path, error))
        }
        _ => Ok(()),
    }
}

/// Makes a new name of a file durable.
fn sync_folder(path: &Path) -> io::Result<()> {
    #[cfg(unix)]
    {
        let folder = path.parent().filter(|folder| *folder != Path::new(""));
        File::open(folder.unwrap_or(Path::new(".")))?.sync_all()?;
    }
    #[cfg(not(unix))]
    let _ = path;
    Ok(())
}

/// Renames a file unless the new name is taken, atomically. File systems without hard links do not
/// guarantee this.
fn rename_if_free(from: &Path, to: &Path) -> io::Result<()> {
    // A rename would replace an existing file. A link fails then, in one step.
    match fs::hard_link(from, to) {
        Ok(()) => {
            let _ = fs::remove_file(from);
            Ok(())
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(error),
        // The file system has no hard links. The check just before leaves only a short gap.
        Err(_) => fs::rename(from, to),
    }
}

impl Write for NewFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.writer.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        let mut files = unfinished();
        // A finished file is no longer in the list.
        // Dropped without `finish`, after an error: a file that is not whole must not stay.
        if let Some(at) = files.iter().position(|path| *path == self.temporary) {
            files.swap_remove(at);
            let _ = fs::remove_file(&self.temporary);
        }
    }
}

/// A mapped file that must not change.
pub struct Watch {
    path: PathBuf,
    file: File,
    bytes: u64,
    written: SystemTime,
    mapping: Mapping,
}

impl Watch {
    /// Maps a file in its current state.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn new(path: &Path, file: &File) -> Result<Self> {
        let io = |error| Error::io("read", path, error);
        let file = file.try_clone().map_err(io)?;
        // The state is read before mapping, so that a change in between is detected.
        let (bytes, written) = state(&file).map_err(io)?;
        let mapping = Mapping::new(&file).map_err(io)?;
        Ok(Self { path: path.into(), file, bytes, written, mapping })
    }

    /// Returns the bytes of the file.
    #[must_use]
    pub fn mapping(&self) -> &Mapping {
        &self.mapping
    }

    /// Refuses a file that was written to or truncated since it was mapped, or that could not be
    /// read. Values computed from such a file may be wrong. A new file under the same name does not
    /// count as a change. A writer that resets the modification time goes unnoticed.
    ///
    /// # Errors
    /// [`Error::FileChanged`]; [`Error::Io`].
    pub fn check(&self) -> Result<()> {
        let now = state(&self.file).map_err(|error| Error::io("read", &self.path, error))?;
        let problem = if now.0 != self.bytes {
            format!("it has {} bytes instead of {}", now.0, self.bytes)
        } else if now.1 != self.written {
            "it was written to while it was mapped".into()
        } else if !self.mapping.is_intact() {
            "some of its bytes were missing when they were read".into()
        } else {
            return Ok(());
        };
        Err(Error::FileChanged { path: self.path.clone(), problem })
    }
}

/// Returns the size of a file and its modification time.
fn state(file: &File) -> io::Result<(u64, SystemTime)> {
    let metadata = file.metadata()?;
    Ok((metadata.len(), metadata.modified()?))
}

/// Writes a whole text file that only the user can read.
///
/// # Errors
/// The errors of [`NewFile::create`] and [`NewFile::finish`].
pub fn write_text(path: &Path, text: &str, overwrite: bool) -> Result<()> {
    let mut file = NewFile::create(path, Access::Owner, overwrite)?;
    file.write_text(text)?;
    file.finish()
}

/// Refuses a path that is taken, before work is done for it. Directories and devices are never
/// replaced.
///
/// # Errors
/// [`Error::Exists`]; [`Error::NotAFile`]; [`Error::NoFolder`]; [`Error::NotAFolder`].
pub fn check_free(path: &Path, overwrite: bool) -> Result<()> {
    // A link that leads nowhere counts as taken. Writing through it would make a file elsewhere.
    match fs::symlink_metadata(path) {
        Ok(_) if fs::metadata(path).is_ok_and(|found| !found.is_file()) => {
            Err(Error::NotAFile { path: path.into() })
        }
        Ok(_) if !overwrite => Err(Error::Exists { path: path.into() }),
        Ok(_) => Ok(()),
        Err(_) => match path.parent() {
            Some(folder) if folder.exists() && !folder.is_dir() => {
                Err(Error::NotAFolder { path: folder.into() })
            }
            Some(folder) if folder != Path::new("") && !folder.is_dir() => {
                Err(Error::NoFolder { path: path.into(), folder: folder.into() })
            }
            _ => Ok(()),
        },
    }
}

/// Creates a directory and its missing parents.
///
/// # Errors
/// [`Error::NotAFolder`]; [`Error::Io`].
pub fn make_folder(folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).map_err(|error| {
        match folder.ancestors().find(|part| part.exists() && !part.is_dir()) {
            Some(part) => Error::NotAFolder { path: part.into() },
            None => Error::io("create the directory", folder, error),
        }
    })
}

/// Locks a directory for this process, until the file is dropped or the process ends, even if it is
/// killed.
///
/// # Errors
/// [`Error::InUse`] if another process has it; [`Error::Io`].
pub fn lock_folder(folder: &Path) -> Result<File> {
    let path = folder.join("lock");
    let io = |error| Error::io("lock", &path, error);
    // Append mode creates the file without truncating it, and the lock is on the file, not its
    // text.
    let lock = OpenOptions::new().create(true).append(true).open(&path).map_err(io)?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(TryLockError::WouldBlock) => Err(Error::InUse { folder: folder.into() }),
        Err(TryLockError::Error(error)) => Err(io(error)),
    }
}

/// Opens a file for reading and returns its size. Secret content is not buffered.
///
/// # Errors
/// [`Error::Io`]; [`Error::NotAFile`] for anything but a regular file.
pub fn open(path: &Path, access: Access) -> Result<(BufReader<File>, u64)> {
    let io = |error| Error::io("read", path, error);
    // Opening a pipe would wait for its writer.
    if !fs::metadata(path).map_err(io)?.is_file() {
        return Err(Error::NotAFile { path: path.into() });
    }
    let file = File::open(path).map_err(io)?;
    // The size of the open file, since another one may have the path by now.
    let metadata = file.metadata().map_err(io)?;
    Ok((BufReader::with_capacity(access.buffer_bytes(), file), metadata.len()))
}

/// Returns whether users other than the owner may read a file, as far as the system reports it.
#[must_use]
pub fn others_may_read(metadata: &fs::Metadata) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        // The group counts as others, since mode 0600 clears its bit, too.
        metadata.permissions().mode() & 0o044 != 0
    }
    #[cfg(not(unix))]
    {
        let _ = metadata;
        false
    }
}

/// Reads a text file of at most `most` bytes.
///
/// # Errors
/// The errors of [`open`]; [`Error::Io`] for a larger file, or one that is not UTF-8.
pub fn read_text(path: &Path, most: u64) -> Result<String> {
    let io = |error| Error::io("read", path, error);
    let (file, bytes) = open(path, Access::Shared)?;
    if bytes > most {
        let problem = format!("it has {bytes} bytes, but the maximum is {most}");
        return Err(io(io::Error::new(io::ErrorKind::FileTooLarge, problem)));
    }
    let mut text = String::new();
    // The file may have grown since its size was read.
    file.take(most).read_to_string(&mut text).map_err(io)?;
    Ok(text)
}

/// Returns the BLAKE3 digest of a file in hexadecimal. Services name the file by it.
///
/// # Errors
/// The errors of [`open`].
pub fn digest(path: &Path) -> Result<String> {
    let (file, _) = open(path, Access::Shared)?;
    let (digest, _) =
        digest_of(&mut file.into_inner()).map_err(|error| Error::io("read", path, error))?;
    Ok(digest)
}

/// Returns the BLAKE3 digest of all bytes read, in hexadecimal, and their number.
///
/// # Errors
/// Errors from reading.
pub fn digest_of(file: &mut impl Read) -> io::Result<(String, u64)> {
    let mut hasher = blake3::Hasher::new();
    let bytes = io::copy(file, &mut hasher)?;
    Ok((hasher.finalize().to_string(), bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn files_are_whole_or_absent() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let path = folder.join("a.ct");
        let mut file = NewFile::create(&path, Access::Shared, false).unwrap();
        file.write_all(b"half").unwrap();
        file.flush().unwrap();
        assert_eq!(names(folder).len(), 1);
        assert!(!path.exists());
        drop(file);
        assert!(names(folder).is_empty());

        write_text(&path, "first", false).unwrap();
        assert!(matches!(write_text(&path, "second", false), Err(Error::Exists { .. })));
        assert_eq!(fs::read_to_string(&path).unwrap(), "first");
        write_text(&path, "second", true).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "second");
        assert_eq!(names(folder), ["a.ct"]);
        assert!(unfinished().iter().all(|path| !path.starts_with(folder)));
    }

    /// A file that appears while another is written under its name is kept.
    #[test]
    fn a_name_taken_meanwhile_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret.key");
        let mut file = NewFile::create(&path, Access::Owner, false).unwrap();
        file.write_all(b"new").unwrap();
        fs::write(&path, "old").unwrap();
        assert!(matches!(file.finish(), Err(Error::Exists { .. })));
        assert_eq!(fs::read_to_string(&path).unwrap(), "old");
        assert_eq!(names(folder.path()), ["secret.key"]);
    }

    /// Another process may take the name after the last check.
    #[test]
    fn a_file_created_at_the_last_moment_stays() {
        let folder = tempfile::tempdir().unwrap();
        let [new, taken, free] = ["new", "taken", "free"].map(|name| folder.path().join(name));
        fs::write(&new, "new").unwrap();
        fs::write(&taken, "old").unwrap();
        let error = rename_if_free(&new, &taken).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read_to_string(&taken).unwrap(), "old");
        rename_if_free(&new, &free).unwrap();
        assert_eq!(fs::read_to_string(&free).unwrap(), "new");
        assert_eq!(names(folder.path()), ["free", "taken"]);
    }

    /// Leftovers of a killed process are removed. Files that another process writes, and files with
    /// other names, stay.
    #[test]
    fn stale_parts_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let stale = [".a.ct.0123456789abcdef.part", ".a.ct.ffffffffffffffff.part"];
        let others = [
            ".a.ct.0123456789abcdeg.part",
            ".a.ct.1.part",
            ".a.ct.part",
            ".b.a.ct.0123456789abcdef.part",
            ".b.ct.0123456789abcdef.part",
            "a.ct.0123456789abcdef.part",
        ];
        for name in stale.iter().chain(&others) {
            fs::write(folder.join(name), "half").unwrap();
        }
        let path = folder.join("a.ct");
        let mut first = NewFile::create(&path, Access::Shared, false).unwrap();
        first.write_all(b"first").unwrap();
        assert!(names(folder).iter().all(|name| !stale.contains(&name.as_str())));
        let mut second = NewFile::create(&path, Access::Shared, false).unwrap();
        second.write_all(b"second").unwrap();
        assert_eq!(names(folder).len(), others.len() + 2);
        first.finish().unwrap();
        assert!(matches!(second.finish(), Err(Error::Exists { .. })));
        assert_eq!(fs::read(&path).unwrap(), b"first");
        assert!(others.iter().all(|name| folder.join(name).exists()));
        assert_eq!(names(folder).len(), others.len() + 1);
    }

    #[test]
    fn a_file_that_is_changed_in_its_place_is_found_out() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("evaluation.key");
        fs::write(&path, "keys").unwrap();
        let file = File::options().read(true).write(true).open(&path).unwrap();
        let watch = Watch::new(&path, &file).unwrap();
        // Another file under the name.
        write_text(&path, "other keys", true).unwrap();
        watch.check().unwrap();
        file.set_modified(SystemTime::UNIX_EPOCH).unwrap();
        let changed = watch.check().unwrap_err();
        assert!(changed.to_string().contains("written to"), "{changed}");
        file.set_len(1).unwrap();
        let changed = watch.check().unwrap_err();
        assert_eq!(changed.kind(), "FileChanged");
        assert!(changed.to_string().contains("1 bytes instead of 4"), "{changed}");

        // Bytes that were missing for a while, with the modification time restored.
        fs::write(&path, vec![1; 1 << 16]).unwrap();
        let file = File::options().read(true).write(true).open(&path).unwrap();
        let watch = Watch::new(&path, &file).unwrap();
        let written = file.metadata().unwrap().modified().unwrap();
        file.set_len(1).unwrap();
        assert_eq!(watch.mapping()[1 << 15], if cfg!(target_os = "linux") { 0 } else { 1 });
        file.set_len(1 << 16).unwrap();
        file.set_modified(written).unwrap();
        let changed = watch.check().map_err(|error| error.kind());
        assert_eq!(changed.is_err(), cfg!(target_os = "linux"), "{changed:?}");
    }

    #[test]
    fn places_that_hold_no_file() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        assert!(matches!(check_free(folder, true), Err(Error::NotAFile { .. })));
        assert!(matches!(check_free(&folder.join("a/b"), true), Err(Error::NoFolder { .. })));
        assert!(matches!(open(folder, Access::Shared), Err(Error::NotAFile { .. })));
        assert!(matches!(open(&folder.join("a"), Access::Shared), Err(Error::Io { .. })));
        assert!(check_free(Path::new("a name without a folder"), false).is_ok());
        #[cfg(unix)]
        for overwrite in [false, true] {
            let refused = check_free(Path::new("/dev/null"), overwrite);
            assert!(matches!(refused, Err(Error::NotAFile { .. })));
        }
    }
}

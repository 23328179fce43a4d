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

/// Files being written, removed when the user interrupts.
static UNFINISHED: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

fn unfinished() -> MutexGuard<'static, Vec<PathBuf>> {
    UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes files that are being written, for a process that ends: until `end` returns, none is
/// finished or begun.
pub fn remove_unfinished(end: impl FnOnce()) {
    let mut files = unfinished();
    for path in files.drain(..) {
        let _ = fs::remove_file(path);
    }
    end();
}

/// Who may read a new file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Whoever the folder and the mask of the user let.
    Shared,
    /// The user alone.
    Owner,
}

impl Access {
    /// Nothing secret stays in a buffer.
    fn buffer_bytes(self) -> usize {
        if self == Self::Owner { 0 } else { 1 << 20 }
    }
}

/// A file under a temporary name in its folder, which gets its own name when it is
/// complete and is removed otherwise.
///
/// The temporary file is locked while it is written, so that what a process left that was killed
/// can be told from what another one is writing. The next file of the same name removes the former.
pub struct NewFile {
    writer: BufWriter<File>,
    temporary: PathBuf,
    path: PathBuf,
    overwrite: bool,
}

/// A name that was free is found within as many attempts, unless somebody plays tricks.
const ATTEMPTS: usize = 16;
/// Digits, drawn at random, in the name of a temporary file.
const RANDOM_DIGITS: usize = 16;
/// What the name of a temporary file ends with.
const PART: &str = ".part";

/// What the names of temporary files of `path` begin with.
fn part_prefix(path: &Path) -> Result<OsString> {
    let name = path.file_name().ok_or_else(|| Error::NotAFile { path: path.into() })?;
    let mut prefix = OsString::from(".");
    prefix.push(name);
    prefix.push(".");
    Ok(prefix)
}

/// A temporary file of `path`, locked, that no other process has.
fn create_part(path: &Path, access: Access) -> Result<(File, PathBuf)> {
    let prefix = part_prefix(path)?;
    let io = |error| Error::io("create", path, error);
    for _ in 0..ATTEMPTS {
        let seed = Seed::random().map_err(sudare::Error::from)?;
        let random = Stream::new(&seed, "name of a temporary file", 0).next_u64();
        let mut name = prefix.clone();
        name.push(format!("{random:0RANDOM_DIGITS$x}{PART}"));
        let temporary = path.with_file_name(name);
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        if access == Access::Owner {
            use std::os::unix::fs::OpenOptionsExt;
            options.mode(0o600);
        }
        #[cfg(not(unix))]
        let _ = access;
        let file = match options.open(&temporary) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
            opened => opened.map_err(io)?,
        };
        // Whoever takes it for a stale one has it locked for a moment. Where the file system has no
        // locks, what is left by others stays.
        let _ = file.lock();
        // It may have been removed before it was locked.
        if temporary.exists() {
            return Ok((file, temporary));
        }
    }
    Err(io(io::Error::other("temporary files in its folder are removed as soon as they are made")))
}

/// Removes temporary files of `path` that nobody writes any more. What cannot be removed harms
/// nothing.
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
        let Ok(file) = OpenOptions::new().append(true).open(part.path()) else { continue };
        if file.try_lock().is_ok() {
            let _ = fs::remove_file(part.path());
        }
    }
    Ok(())
}

/// Whether a name is that of a temporary file, by what these begin with.
fn is_part(name: &OsStr, prefix: &OsStr) -> bool {
    let digits = name.as_encoded_bytes().strip_prefix(prefix.as_encoded_bytes());
    let digits = digits.and_then(|rest| rest.strip_suffix(PART.as_bytes()));
    digits.is_some_and(|digits| {
        digits.len() == RANDOM_DIGITS && digits.iter().all(u8::is_ascii_hexdigit)
    })
}

impl NewFile {
    /// Begins a file.
    ///
    /// # Errors
    /// [`Error::Exists`] unless `overwrite`; [`Error::Io`].
    pub fn create(path: &Path, access: Access, overwrite: bool) -> Result<Self> {
        check_free(path, overwrite)?;
        let mut files = unfinished();
        remove_stale_parts(path)?;
        let (file, temporary) = create_part(path, access)?;
        files.push(temporary.clone());
        let writer = BufWriter::with_capacity(access.buffer_bytes(), file);
        Ok(Self { writer, temporary, path: path.into(), overwrite })
    }

    /// Waits until all that was written is on the disk, so that [`NewFile::finish`] takes no time.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn sync(&mut self) -> Result<()> {
        let io = |error| Error::io("write", &self.path, error);
        self.writer.flush().map_err(io)?;
        self.writer.get_ref().sync_all().map_err(io)
    }

    /// Gives the file its name. After a crash of the machine it has it too, or has never been
    /// there.
    ///
    /// # Errors
    /// [`Error::Exists`] if another file has taken the name; [`Error::Io`].
    pub fn finish(mut self) -> Result<()> {
        self.sync()?;
        let io = |error| Error::io("write", &self.path, error);
        let mut files = unfinished();
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

    /// The name that it will get.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Removes a file, if it is there.
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

/// Renames a file unless the name is taken, whatever other processes do meanwhile; where the file
/// system has no links, without that guarantee.
fn rename_if_free(from: &Path, to: &Path) -> io::Result<()> {
    match fs::hard_link(from, to) {
        Ok(()) => {
            let _ = fs::remove_file(from);
            Ok(())
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(error),
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
        if let Some(at) = files.iter().position(|path| *path == self.temporary) {
            files.swap_remove(at);
            let _ = fs::remove_file(&self.temporary);
        }
    }
}

/// A file that is mapped and must stay as it is.
pub struct Watch {
    path: PathBuf,
    file: File,
    bytes: u64,
    written: SystemTime,
    mapping: Mapping,
}

impl Watch {
    /// Maps a file as it is now.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn new(path: &Path, file: &File) -> Result<Self> {
        let io = |error| Error::io("read", path, error);
        let file = file.try_clone().map_err(io)?;
        // Before it is mapped: a change in between is found.
        let (bytes, written) = state(&file).map_err(io)?;
        let mapping = Mapping::new(&file).map_err(io)?;
        Ok(Self { path: path.into(), file, bytes, written, mapping })
    }

    /// The bytes of the file.
    #[must_use]
    pub fn mapping(&self) -> &Mapping {
        &self.mapping
    }

    /// Refuses a file that was written to or cut since, or that could not be read: what was
    /// computed from it may be wrong. A file that took its name is no change. What sets the time
    /// of the last change back after a change hides it.
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
            "bytes of it were gone when they were read".into()
        } else {
            return Ok(());
        };
        Err(Error::FileChanged { path: self.path.clone(), problem })
    }
}

/// The size of a file, and when it was last written to.
fn state(file: &File) -> io::Result<(u64, SystemTime)> {
    let metadata = file.metadata()?;
    Ok((metadata.len(), metadata.modified()?))
}

/// Writes a whole text file for the user alone.
///
/// # Errors
/// As [`NewFile::create`] and [`NewFile::finish`].
pub fn write_text(path: &Path, text: &str, overwrite: bool) -> Result<()> {
    let mut file = NewFile::create(path, Access::Owner, overwrite)?;
    file.write_text(text)?;
    file.finish()
}

/// Refuses a name that is taken, before work is done for it. Folders and devices are never
/// replaced.
///
/// # Errors
/// [`Error::Exists`]; [`Error::NotAFile`]; [`Error::NoFolder`]; [`Error::NotAFolder`].
pub fn check_free(path: &Path, overwrite: bool) -> Result<()> {
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

/// Makes a folder and those above it, where they do not exist.
///
/// # Errors
/// [`Error::NotAFolder`]; [`Error::Io`].
pub fn make_folder(folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).map_err(|error| {
        match folder.ancestors().find(|part| part.exists() && !part.is_dir()) {
            Some(part) => Error::NotAFolder { path: part.into() },
            None => Error::io("make the folder", folder, error),
        }
    })
}

/// Takes a folder for this process alone, until the file is dropped or the process ends, however it
/// does.
///
/// # Errors
/// [`Error::InUse`] if another process has it; [`Error::Io`].
pub fn lock_folder(folder: &Path) -> Result<File> {
    let path = folder.join("lock");
    let io = |error| Error::io("lock", &path, error);
    let lock = OpenOptions::new().create(true).append(true).open(&path).map_err(io)?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(TryLockError::WouldBlock) => Err(Error::InUse { folder: folder.into() }),
        Err(TryLockError::Error(error)) => Err(io(error)),
    }
}

/// Opens a file for reading, without a buffer if its content is the user's alone;
/// returns its size as well.
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
    let metadata = file.metadata().map_err(io)?;
    Ok((BufReader::with_capacity(access.buffer_bytes(), file), metadata.len()))
}

/// Whether other users than the owner of a file may read it, as far as the system says.
#[must_use]
pub fn others_may_read(metadata: &fs::Metadata) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        metadata.permissions().mode() & 0o044 != 0
    }
    #[cfg(not(unix))]
    {
        let _ = metadata;
        false
    }
}

/// Reads a text file of at most so many bytes.
///
/// # Errors
/// As [`open`]; [`Error::Io`] for one that is larger, or that is not UTF-8.
pub fn read_text(path: &Path, most: u64) -> Result<String> {
    let io = |error| Error::io("read", path, error);
    let (file, bytes) = open(path, Access::Shared)?;
    if bytes > most {
        let problem = format!("it has {bytes} bytes, at most {most} are possible");
        return Err(io(io::Error::new(io::ErrorKind::FileTooLarge, problem)));
    }
    let mut text = String::new();
    file.take(most).read_to_string(&mut text).map_err(io)?;
    Ok(text)
}

/// BLAKE3 of all bytes of a file, in hexadecimal: by which services name it.
///
/// # Errors
/// As [`open`].
pub fn digest(path: &Path) -> Result<String> {
    let (file, _) = open(path, Access::Shared)?;
    let (digest, _) =
        digest_of(&mut file.into_inner()).map_err(|error| Error::io("read", path, error))?;
    Ok(digest)
}

/// BLAKE3 of all that is read, in hexadecimal, and how many bytes these are.
///
/// # Errors
/// Those of reading.
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

    /// Another process may take the name after the last look.
    #[test]
    fn a_name_taken_at_the_last_moment_is_kept() {
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

    /// What a killed process left is removed, and nothing that another one writes, or that has
    /// another name.
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

        // Bytes that were not there for a while, as if nothing had happened.
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

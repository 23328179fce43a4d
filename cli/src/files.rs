//! Files that are whole or absent.

use crate::error::{Error, Result};
use std::{
    fs::{self, File, OpenOptions},
    io::{self, BufReader, BufWriter, Write},
    path::{Path, PathBuf},
    process,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// Files being written, removed when the user interrupts.
static UNFINISHED: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

fn unfinished() -> MutexGuard<'static, Vec<PathBuf>> {
    UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Exit status after Ctrl-C.
pub const INTERRUPTED: i32 = 130;

/// From now on Ctrl-C removes unfinished files and ends the process.
pub fn clean_up_on_interrupt() {
    // Without a handler the process ends as the system has it end.
    let _ = ctrlc::set_handler(|| {
        // The lock is kept, so that no file is finished or begun after this.
        let files = unfinished();
        for path in files.iter() {
            let _ = fs::remove_file(path);
        }
        process::exit(INTERRUPTED);
    });
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
pub struct NewFile {
    writer: Option<BufWriter<File>>,
    temporary: PathBuf,
    path: PathBuf,
    overwrite: bool,
}

impl NewFile {
    /// Begins a file.
    ///
    /// # Errors
    /// [`Error::Exists`] unless `overwrite`; [`Error::Io`].
    pub fn create(path: &Path, access: Access, overwrite: bool) -> Result<Self> {
        check_free(path, overwrite)?;
        let name = path.file_name().ok_or_else(|| Error::NotAFile { path: path.into() })?;
        let mut hidden = std::ffi::OsString::from(".");
        hidden.push(name);
        hidden.push(format!(".{}.part", process::id()));
        let temporary = path.with_file_name(hidden);
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        if access == Access::Owner {
            use std::os::unix::fs::OpenOptionsExt;
            options.mode(0o600);
        }
        #[cfg(not(unix))]
        let _ = access;
        let mut files = unfinished();
        let file = options.open(&temporary).map_err(|e| Error::io("create", path, e))?;
        files.push(temporary.clone());
        let writer = Some(BufWriter::with_capacity(access.buffer_bytes(), file));
        Ok(Self { writer, temporary, path: path.into(), overwrite })
    }

    /// Gives the file its name.
    ///
    /// # Errors
    /// [`Error::Exists`] if another file has taken the name; [`Error::Io`].
    pub fn finish(mut self) -> Result<()> {
        let io = |error| Error::io("write", &self.path, error);
        if let Some(writer) = self.writer.take() {
            let file = writer.into_inner().map_err(|error| io(error.into_error()))?;
            file.sync_all().map_err(io)?;
        }
        let mut files = unfinished();
        check_free(&self.path, self.overwrite)?;
        fs::rename(&self.temporary, &self.path).map_err(io)?;
        files.retain(|path| *path != self.temporary);
        Ok(())
    }
}

impl Write for NewFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.writer.as_mut().map_or(Ok(0), |writer| writer.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.as_mut().map_or(Ok(()), Write::flush)
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

/// Writes a whole text file for the user alone.
///
/// # Errors
/// As [`NewFile::create`] and [`NewFile::finish`].
pub fn write_text(path: &Path, text: &str, overwrite: bool) -> Result<()> {
    let mut file = NewFile::create(path, Access::Owner, overwrite)?;
    file.write_all(text.as_bytes()).map_err(|e| Error::io("write", path, e))?;
    file.finish()
}

/// Refuses a name that is taken, before work is done for it.
///
/// # Errors
/// [`Error::Exists`]; [`Error::NotAFile`].
pub fn check_free(path: &Path, overwrite: bool) -> Result<()> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => Err(Error::NotAFile { path: path.into() }),
        Ok(_) if !overwrite => Err(Error::Exists { path: path.into() }),
        Ok(_) => Ok(()),
        Err(_) => match path.parent() {
            Some(folder) if folder != Path::new("") && !folder.is_dir() => {
                Err(Error::NoFolder { path: path.into(), folder: folder.into() })
            }
            _ => Ok(()),
        },
    }
}

/// Opens a file for reading, without a buffer if its content is the user's alone;
/// returns its size as well.
///
/// # Errors
/// [`Error::Io`]; [`Error::NotAFile`] for anything but a regular file.
pub fn open(path: &Path, access: Access) -> Result<(BufReader<File>, u64)> {
    let file = File::open(path).map_err(|e| Error::io("read", path, e))?;
    let metadata = file.metadata().map_err(|e| Error::io("read", path, e))?;
    if !metadata.is_file() {
        return Err(Error::NotAFile { path: path.into() });
    }
    Ok((BufReader::with_capacity(access.buffer_bytes(), file), metadata.len()))
}

/// The BLAKE3 digest of a file.
///
/// # Errors
/// As [`open`].
pub fn digest(path: &Path) -> Result<[u8; 32]> {
    let (file, _) = open(path, Access::Shared)?;
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(file).map_err(|e| Error::io("read", path, e))?;
    Ok(*hasher.finalize().as_bytes())
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

    #[test]
    fn places_that_hold_no_file() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        assert!(matches!(check_free(folder, true), Err(Error::NotAFile { .. })));
        assert!(matches!(check_free(&folder.join("a/b"), true), Err(Error::NoFolder { .. })));
        assert!(matches!(open(folder, Access::Shared), Err(Error::NotAFile { .. })));
        assert!(matches!(open(&folder.join("a"), Access::Shared), Err(Error::Io { .. })));
        assert!(check_free(Path::new("a name without a folder"), false).is_ok());
    }

    #[test]
    fn digests_differ() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        write_text(&path, "a", false).unwrap();
        let first = digest(&path).unwrap();
        assert_eq!(first, *blake3::hash(b"a").as_bytes());
    }
}

//! The folder of a server: what tenants have as files, uploads under way, and folders of jobs.
//!
//! An object is a file named by its digest in a folder of its tenant. It gets there whole, by
//! renaming, and is never written to again, so that processes may map it.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Seek, SeekFrom, Write},
    path::{MAIN_SEPARATOR, Path, PathBuf},
};
use sudare_roles::{
    error::{Error, Result},
    files,
};

/// Bytes that are overwritten at a time.
const WIPED_AT_ONCE: usize = 1 << 16;

/// The folder of a server, which is this process's own.
pub struct Store {
    root: PathBuf,
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
    /// Takes a folder, which is made if it does not exist.
    ///
    /// # Errors
    /// [`Error::InUse`] if another server has it; [`Error::Io`]; [`Error::NotAFolder`].
    pub fn open(root: &Path) -> Result<Self> {
        make_private(root)?;
        let lock = files::lock_folder(root)?;
        let root = root.canonicalize().map_err(|error| Error::io("open", root, error))?;
        for part in ["objects", "uploads", "jobs"] {
            make_private(&root.join(part))?;
        }
        Ok(Self { root, _lock: lock })
    }

    /// Where the object of a tenant is, by its digest.
    #[must_use]
    pub fn object(&self, tenant: &str, digest: &str) -> PathBuf {
        self.root.join("objects").join(tenant).join(digest)
    }

    /// Where an upload is while it is under way.
    #[must_use]
    pub fn upload(&self, id: &str) -> PathBuf {
        self.root.join("uploads").join(id)
    }

    /// The folder of a job.
    #[must_use]
    pub fn job(&self, id: &str) -> PathBuf {
        self.root.join("jobs").join(id)
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
            sync(&self.root.join("objects")).map_err(io)?;
        }
        fs::rename(file, &path).map_err(io)?;
        sync(folder).map_err(io)
    }

    /// Removes the file of an object.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn remove_object(&self, tenant: &str, digest: &str) -> Result<()> {
        files::remove(&self.object(tenant, digest))
    }

    /// Removes what came of an upload.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn remove_upload(&self, id: &str) -> Result<()> {
        files::remove(&self.upload(id))
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

    /// Removes the folder of a job.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn remove_job(&self, id: &str) -> Result<()> {
        let folder = self.job(id);
        match fs::remove_dir_all(&folder) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(Error::io("remove", &folder, error))
            }
            _ => Ok(()),
        }
    }

    /// Whether the folder can be written to.
    #[must_use]
    pub fn is_usable(&self) -> bool {
        let probe = self.root.join("uploads").join(".probe");
        fs::write(&probe, b"sudare").and_then(|()| fs::remove_file(&probe)).is_ok()
    }

    /// Text in which paths of this folder are not told.
    #[must_use]
    pub fn without_paths(&self, text: &str) -> String {
        without_paths(&self.root, text)
    }
}

/// Text in which paths of a folder are told as from there.
pub fn without_paths(folder: &Path, text: &str) -> String {
    text.replace(&format!("{}{MAIN_SEPARATOR}", folder.display()), "")
}

/// Makes a folder for the user alone, and those above it.
pub fn make_private(folder: &Path) -> Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    files::make_folder(folder)?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let private = fs::Permissions::from_mode(0o700);
        fs::set_permissions(folder, private).map_err(|e| Error::io("protect", folder, e))?;
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_whole_and_secrets_are_wiped() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("store");
        let store = Store::open(&root).unwrap();
        assert!(matches!(Store::open(&root), Err(Error::InUse { .. })));
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
        let path = store.object("clinic", "d1");
        let told = store.without_paths(&format!("{}: damaged", path.display()));
        assert_eq!(told, "objects/clinic/d1: damaged");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            assert_eq!(fs::metadata(&root).unwrap().permissions().mode() & 0o777, 0o700);
        }
    }
}

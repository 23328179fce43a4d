//! Files and directories that only their user can read.

use std::{fs, io, path::Path};
use sudare_roles::{
    error::{Error, Result},
    os::files,
};

/// Creates a directory and its parents, with access for the user only. Also restricts an existing
/// directory.
pub fn make_private(folder: &Path) -> Result<()> {
    if !folder.is_dir() {
        files::make_folder(folder)?;
    }
    restrict(folder).map_err(|error| Error::io("protect", folder, error))
}

/// Removes other users' permissions from a file or a directory.
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

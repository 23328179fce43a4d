//! Copies of the records in files, for backups.

use super::{Error, Result, VERSION, failed, sqlite::Sqlite};
use crate::storage::records::database::{Database, unreadable};
use std::path::Path;
use sudare_roles::os::files;

/// Objects, jobs and audit lines that a copy of the records refers to.
pub struct Known {
    /// Tenants and digests of all objects.
    pub objects: Vec<(String, String)>,
    /// Jobs that have not ended.
    pub unfinished: Vec<String>,
    /// Number of the last line of the audit log, or 0.
    pub audit_line: u64,
}

/// Copies the records of a server, also while it runs, as they are at one moment. Replaces an earlier copy.
/// Leaves out unfinished uploads, whose data is not in the records.
///
/// # Errors
/// [`Error::Io`].
pub fn copy_records(from: &Path, to: &Path) -> Result<()> {
    files::remove(to)?;
    let copied = Sqlite::open_to_read(from).and_then(|records| records.copy_to(to));
    copied.map_err(|error| failed(from, error))?;
    let trimmed = Sqlite::open_copy(to)
        .and_then(|mut copy| copy.write(|db| db.execute("DELETE FROM uploads", &[])));
    trimmed.map(|_| ()).map_err(|error| failed(to, error))
}

/// Reads a copy, and checks that it is intact.
///
/// # Errors
/// [`Error::Io`]; [`Error::Usage`] for records of another version.
pub fn read_copy(path: &Path) -> Result<Known> {
    let read = |db: &dyn Database| {
        let state: String = db.value("PRAGMA quick_check(1)", &[])?;
        if state != "ok" {
            return Err(unreadable(&state));
        }
        let version: i64 = db.value("PRAGMA user_version", &[])?;
        if version != VERSION {
            let nothing = Known { objects: Vec::new(), unfinished: Vec::new(), audit_line: 0 };
            return Ok((version, nothing));
        }
        let objects = db.all("SELECT tenant, digest FROM objects", &[], |row| {
            Ok((row.get("tenant")?, row.get("digest")?))
        })?;
        let sql = "SELECT id FROM jobs WHERE state IN ('queued', 'running')";
        let unfinished = db.all(sql, &[], |row| row.get("id"))?;
        let audit_line = db.value("SELECT coalesce(max(number), 0) FROM audit", &[])?;
        Ok((version, Known { objects, unfinished, audit_line }))
    };
    let found = Sqlite::open_copy_to_read(path).and_then(|copy| copy.read(read));
    match found.map_err(|error| failed(path, error))? {
        (VERSION, known) => Ok(known),
        (version, _) => Err(Error::Usage(format!(
            "{} has records of version {version}, and this program copies version {VERSION}: use the program \
             that wrote them, or start the server of this program once",
            path.display()
        ))),
    }
}

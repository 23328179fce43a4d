//! What a server remembers: tokens, what tenants have, uploads under way, and jobs. All SQL is here.

/// Has the variants of an enum stored by its `name`; `ALL` are those that there are.
macro_rules! stored_by_name {
    ($kind:ty) => {
        impl rusqlite::types::ToSql for $kind {
            fn to_sql(&self) -> rusqlite::Result<rusqlite::types::ToSqlOutput<'_>> {
                Ok(self.name().into())
            }
        }

        impl rusqlite::types::FromSql for $kind {
            fn column_result(
                value: rusqlite::types::ValueRef<'_>,
            ) -> rusqlite::types::FromSqlResult<Self> {
                let name = value.as_str()?;
                let known = Self::ALL.into_iter().find(|kind| kind.name() == name);
                known.ok_or_else(|| super::unknown(name))
            }
        }
    };
}

mod audit;
mod jobs;
mod leases;
mod objects;
mod tokens;
mod usage;

pub use audit::last_lines;
pub use jobs::{Added, Change, Job, NewJob, State};
pub use leases::Claimant;
pub use objects::{Collection, Object, Upload};
pub use usage::{CpuLimits, CpuPeriod, Usage};

use crate::audit::Log;
use rusqlite::{Connection, types::FromSqlError};
use std::{
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use sudare_roles::error::{Error, Result};

/// What makes the tables of each version of those of the one before.
const STEPS: [&str; 6] = [TABLES, RECEIPTS, AUDIT, USAGE, WORKERS, FURTHEST];
/// Of the last.
const VERSION: i64 = STEPS.len() as i64;

const TABLES: &str = "
CREATE TABLE tokens (
  id TEXT PRIMARY KEY,
  tenant TEXT NOT NULL,
  digest BLOB NOT NULL,
  created INTEGER NOT NULL,
  expires INTEGER
) STRICT;
CREATE TABLE objects (
  tenant TEXT NOT NULL,
  digest TEXT NOT NULL,
  collection TEXT NOT NULL,
  bytes INTEGER NOT NULL,
  created INTEGER NOT NULL,
  about TEXT NOT NULL,
  PRIMARY KEY (tenant, digest)
) STRICT;
CREATE TABLE uploads (
  id TEXT PRIMARY KEY,
  tenant TEXT NOT NULL,
  collection TEXT NOT NULL,
  digest TEXT NOT NULL,
  bytes INTEGER NOT NULL,
  received INTEGER NOT NULL,
  complete INTEGER NOT NULL,
  touched INTEGER NOT NULL
) STRICT;
CREATE INDEX uploads_of_tenant ON uploads (tenant, digest);
CREATE TABLE jobs (
  id TEXT PRIMARY KEY,
  tenant TEXT NOT NULL,
  request TEXT NOT NULL,
  idempotency TEXT,
  state TEXT NOT NULL,
  seq INTEGER NOT NULL,
  done INTEGER NOT NULL,
  total INTEGER NOT NULL,
  seconds REAL NOT NULL,
  memory INTEGER NOT NULL,
  created INTEGER NOT NULL,
  started INTEGER,
  finished INTEGER,
  deaths INTEGER NOT NULL,
  problem_kind TEXT,
  problem_detail TEXT,
  result TEXT,
  UNIQUE (tenant, idempotency)
) STRICT;
CREATE INDEX jobs_by_state ON jobs (state, created);
";

const RECEIPTS: &str = "ALTER TABLE jobs ADD COLUMN receipt TEXT;";

/// The last lines of the audit log, as its files have them, and those that they do not have yet.
const AUDIT: &str = "CREATE TABLE audit (number INTEGER PRIMARY KEY, line TEXT NOT NULL) STRICT;";

/// Milliseconds of processors that jobs took, and what each was predicted to take.
const USAGE: &str = "
CREATE TABLE usage (
  tenant TEXT NOT NULL,
  day INTEGER NOT NULL,
  cpu_ms INTEGER NOT NULL,
  PRIMARY KEY (tenant, day)
) STRICT;
ALTER TABLE jobs ADD COLUMN cpu_seconds REAL NOT NULL DEFAULT 0;
";

/// Tokens of workers, and their leases of jobs: `fence` counts claims.
const WORKERS: &str = "
ALTER TABLE tokens RENAME COLUMN tenant TO owner;
ALTER TABLE tokens ADD COLUMN role TEXT NOT NULL DEFAULT 'tenant';
ALTER TABLE jobs ADD COLUMN fence INTEGER NOT NULL DEFAULT 0;
ALTER TABLE jobs ADD COLUMN worker TEXT;
ALTER TABLE jobs ADD COLUMN lease_until INTEGER;
ALTER TABLE jobs ADD COLUMN lease_cpu_ms INTEGER NOT NULL DEFAULT 0;
";

/// The most steps that were done of a job, by whichever process.
const FURTHEST: &str = "ALTER TABLE jobs ADD COLUMN furthest INTEGER NOT NULL DEFAULT 0;";

/// How long a process waits for another one that writes.
const PATIENCE: Duration = Duration::from_secs(10);

/// The records of a server, in a file of SQLite.
pub struct Records {
    path: PathBuf,
    log: Log,
    open: Mutex<Open>,
}

/// Records that are open.
struct Open {
    connection: Connection,
    /// The last line that the files of the log have, as far as this process knows.
    in_log: u64,
}

impl Records {
    /// Opens the records in a file, making them if there are none. The audit log is beside them, and is
    /// brought to where they are.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::Usage`] for records of another version; [`Error::Parse`] for a log that
    /// does not go with them.
    pub fn open(path: &Path) -> Result<Self> {
        let failed = |error: rusqlite::Error| failed(path, &error);
        let connection = Connection::open(path).map_err(failed)?;
        connection.busy_timeout(PATIENCE).map_err(failed)?;
        // What is answered is on the disk.
        connection.pragma_update(None, "journal_mode", "wal").map_err(failed)?;
        connection.pragma_update(None, "synchronous", "full").map_err(failed)?;
        let log = Log::of(path.parent().unwrap_or(Path::new(".")));
        let this =
            Self { path: path.into(), log, open: Mutex::new(Open { connection, in_log: 0 }) };
        this.write(|db| {
            let version: i64 = db.query_row("PRAGMA user_version", (), |row| row.get(0))?;
            for (at, step) in STEPS.iter().enumerate().skip(usize::try_from(version).unwrap_or(0)) {
                db.execute_batch(step)?;
                db.pragma_update(None, "user_version", at as i64 + 1)?;
            }
            Ok(())
        })?;
        let version = this.read(|db| db.query_row("PRAGMA user_version", (), |row| row.get(0)))?;
        match version {
            VERSION => this.settle_log().map(|()| this),
            found => Err(Error::Usage(format!(
                "{} has records of version {found}, this program has {VERSION}: use the program \
                 that wrote them last",
                path.display()
            ))),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read<T>(&self, read: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T> {
        read(&self.lock().connection).map_err(|error| failed(&self.path, &error))
    }

    /// All that `write` does, or nothing of it; what it takes down for the audit log is in its files
    /// then, or follows when they can be written again.
    fn write<T>(&self, write: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T> {
        let mut open = self.lock();
        let written = open
            .connection
            .transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)
            .and_then(|transaction| {
                let value = write(&transaction)?;
                transaction.commit()?;
                Ok(value)
            });
        let written = written.map_err(|error| failed(&self.path, &error))?;
        if let Err(error) = self.bring_forward(&mut open) {
            tracing::error!(%error, "the audit log cannot be written");
        }
        Ok(written)
    }
}

fn failed(path: &Path, error: &rusqlite::Error) -> Error {
    let kind = match error.sqlite_error_code() {
        Some(rusqlite::ErrorCode::DiskFull) => std::io::ErrorKind::StorageFull,
        _ => std::io::ErrorKind::Other,
    };
    Error::io("use the records in", path, std::io::Error::new(kind, error.to_string()))
}

/// What stands in a column that this program does not write there.
fn unknown(text: &str) -> FromSqlError {
    FromSqlError::Other(format!("{text:?} is unknown").into())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Records of the first version, with what stands in them, become those of this one.
    #[test]
    fn old_records_are_brought_forward() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("records");
        let old = Connection::open(&path).unwrap();
        old.execute_batch(TABLES).unwrap();
        let job = "INSERT INTO jobs VALUES ('1', 'a', '{\"kind\":\"stats\",\"keys\":\"k\",\"tables\":[]}', \
                   'x', 'done', 4, 2, 2, 1.5, 7, 10, 11, 12, 0, NULL, NULL, 'd')";
        old.execute(job, ()).unwrap();
        old.pragma_update(None, "user_version", 1).unwrap();
        drop(old);
        for _ in 0..2 {
            let job = Records::open(&path).unwrap().job("a", "1").unwrap().unwrap();
            assert_eq!((job.result.as_deref(), job.receipt), (Some("d"), None));
        }
    }

    #[test]
    fn records_stay_and_know_their_version() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("records");
        drop(Records::open(&path).unwrap());
        let again = Records::open(&path).unwrap();
        again.write(|db| db.pragma_update(None, "user_version", 7)).unwrap();
        let refused = Records::open(&path).map(|_| ()).unwrap_err();
        assert!(refused.to_string().contains("version 7"), "{refused}");
        std::fs::write(folder.path().join("other"), [7; 5000]).unwrap();
        assert!(Records::open(&folder.path().join("other")).is_err());
    }
}

//! Records: tokens, objects, uploads under way, and jobs. All SQL is here.

/// Stores the variants of an enum by `name`. `ALL` lists the variants.
macro_rules! stored_by_name {
    ($kind:ty) => {
        impl From<$kind> for super::database::Value {
            fn from(kind: $kind) -> Self {
                kind.name().into()
            }
        }

        impl super::database::Column for $kind {
            fn read(value: &super::database::Value) -> Option<Self> {
                let name = String::read(value)?;
                Self::ALL.into_iter().find(|kind| kind.name() == name)
            }
        }
    };
}

mod audit;
mod copy;
mod database;
mod jobs;
mod keys;
mod leases;
mod limits;
mod objects;
#[cfg_attr(not(feature = "cluster"), path = "records/absent.rs")]
mod postgres;
mod sqlite;
mod tokens;
mod usage;
#[cfg(feature = "cluster")]
mod worker_leases;

pub use audit::last_lines;
pub use copy::{copy_records, read_copy};
pub use jobs::{Added, Change, Job, NewJob, State};
pub use leases::Claimant;
pub use limits::{CpuLimits, TenantLimits};
pub use objects::{Begun, Collection, MIN_BYTES, Object, Removal, Removing, Upload};
pub use usage::{CpuPeriod, Usage};

use crate::storage::{audit::Log, disk::Ballast};
use database::Database;
use postgres::Postgres;
use sqlite::Sqlite;
use std::{
    fmt, io,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
};
use sudare_roles::error::{Error, Result};

/// Migrations, each from one version of the tables to the next.
// Only append: records in use have the earlier steps behind them.
const MIGRATIONS: [&str; 10] =
    [TABLES, RECEIPTS, AUDIT, USAGE, WORKERS, FURTHEST, SERVERS, SERVER_KEY, FORESEEN, REMOVALS];
/// Current version of the tables.
const VERSION: i64 = MIGRATIONS.len() as i64;

// With STRICT, SQLite refuses values of another type, as PostgreSQL does.
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

/// Lines of the audit log: the last ones in the files, and the ones that the files lack.
const AUDIT: &str = "CREATE TABLE audit (number INTEGER PRIMARY KEY, line TEXT NOT NULL) STRICT;";

/// CPU milliseconds of jobs, and the prediction for each.
const USAGE: &str = "
CREATE TABLE usage (
  tenant TEXT NOT NULL,
  day INTEGER NOT NULL,
  cpu_ms INTEGER NOT NULL,
  PRIMARY KEY (tenant, day)
) STRICT;
ALTER TABLE jobs ADD COLUMN cpu_seconds REAL NOT NULL DEFAULT 0;
";

/// Tokens of workers, and their leases of jobs. `fence` counts claims.
const WORKERS: &str = "
ALTER TABLE tokens RENAME COLUMN tenant TO owner;
ALTER TABLE tokens ADD COLUMN role TEXT NOT NULL DEFAULT 'tenant';
ALTER TABLE jobs ADD COLUMN fence INTEGER NOT NULL DEFAULT 0;
ALTER TABLE jobs ADD COLUMN worker TEXT;
ALTER TABLE jobs ADD COLUMN lease_until INTEGER;
ALTER TABLE jobs ADD COLUMN lease_cpu_ms INTEGER NOT NULL DEFAULT 0;
";

/// The most steps that any process of a job completed.
const FURTHEST: &str = "ALTER TABLE jobs ADD COLUMN furthest INTEGER NOT NULL DEFAULT 0;";

/// The server that has an upload or a job, and the order of jobs.
const SERVERS: &str = "
ALTER TABLE jobs ADD COLUMN server TEXT;
ALTER TABLE jobs ADD COLUMN number INTEGER NOT NULL DEFAULT 0;
ALTER TABLE uploads ADD COLUMN server TEXT;
CREATE INDEX jobs_by_number ON jobs (number);
";

/// The public key of all servers that share the records: one row at most.
const SERVER_KEY: &str = "CREATE TABLE server_key (public TEXT NOT NULL) STRICT;";

/// Maximum size of a job's result.
const FORESEEN: &str = "ALTER TABLE jobs ADD COLUMN result_bytes INTEGER NOT NULL DEFAULT 0;";

/// Objects whose files are being removed, with the server, and the number of finished removals of each
/// tenant.
const REMOVALS: &str = "
CREATE TABLE removals (
  tenant TEXT NOT NULL,
  digest TEXT NOT NULL,
  server TEXT NOT NULL,
  since INTEGER NOT NULL,
  PRIMARY KEY (tenant, digest)
) STRICT;
CREATE TABLE removals_done (tenant TEXT PRIMARY KEY, count INTEGER NOT NULL) STRICT;
";

/// Address of a PostgreSQL database. It may contain a password, so it is never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct DatabaseAddress(String);

impl From<String> for DatabaseAddress {
    /// Converts an address such as `postgresql://user:password@host/name`.
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl fmt::Debug for DatabaseAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DatabaseAddress(..)")
    }
}

/// The records of a server in an SQLite file, or of several servers in a PostgreSQL database.
pub struct Records {
    /// Name of the records in errors.
    place: PathBuf,
    /// Other servers may use the records at the same time.
    are_shared: bool,
    /// The ballast, which is removed when the disk is full.
    ballast: Ballast,
    log: Log,
    open: Mutex<Open>,
}

/// Open records.
struct Open {
    engine: Engine,
    /// The last line in the files of the log, as far as this process knows.
    in_log: u64,
}

/// Database engine.
enum Engine {
    Sqlite(Sqlite),
    Postgres(Box<Postgres>),
}

impl Engine {
    fn migrate(&mut self, steps: &[&str]) -> io::Result<i64> {
        match self {
            Self::Sqlite(file) => file.migrate(steps),
            Self::Postgres(database) => database.migrate(steps),
        }
    }

    fn read<T>(&mut self, read: impl FnOnce(&dyn Database) -> io::Result<T>) -> io::Result<T> {
        match self {
            Self::Sqlite(file) => file.read(read),
            Self::Postgres(database) => database.read(read),
        }
    }

    fn write<T>(&mut self, write: impl FnOnce(&dyn Database) -> io::Result<T>) -> io::Result<T> {
        match self {
            Self::Sqlite(file) => file.write(write),
            Self::Postgres(database) => database.write(write),
        }
    }
}

impl Records {
    /// Opens the records of the server in a directory: in a database if one is named, else in a file.
    /// Creates missing records.
    ///
    /// # Errors
    /// Same as [`Records::open`]; [`Error::Usage`] for an invalid address.
    pub fn of(folder: &Path, database: Option<&DatabaseAddress>) -> Result<Self> {
        let path = crate::storage::store::records_path(folder)?;
        // Opening needs space for a moment, which a full disk does not have.
        Ballast::of(folder).release_to_start();
        match database {
            Some(database) => {
                Self::with(Engine::Postgres(Box::new(connect(database)?)), DATABASE.into(), folder)
            }
            None => Self::open(&path),
        }
    }

    /// Opens the records in a file, creating them if missing. Brings the audit log next to the file up to
    /// date.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::Usage`] for records of another version; [`Error::Parse`] for a log that does
    /// not match the records.
    pub fn open(path: &Path) -> Result<Self> {
        let engine = Engine::Sqlite(Sqlite::open(path).map_err(|error| failed(path, error))?);
        Self::with(engine, path.into(), path.parent().unwrap_or(Path::new(".")))
    }

    /// Migrates the tables to this version, and opens the audit log in a directory.
    fn with(mut engine: Engine, place: PathBuf, folder: &Path) -> Result<Self> {
        match engine.migrate(&MIGRATIONS).map_err(|error| failed(&place, error))? {
            VERSION => {}
            // A newer program may rely on tables in ways that this one does not know.
            found => {
                return Err(Error::Usage(format!(
                    "{} has records of version {found}, and this program supports {VERSION}: use the \
                     program that last wrote them",
                    place.display()
                )));
            }
        }
        let are_shared = matches!(engine, Engine::Postgres(_));
        let open = Mutex::new(Open { engine, in_log: 0 });
        let log = Log::of(folder);
        let ballast = Ballast::of(folder);
        let this = Self { place, are_shared, ballast, log, open };
        // A killed process may have recorded lines that the files lack.
        this.sync_log()?;
        Ok(this)
    }

    /// Returns whether other servers may use the records at the same time.
    #[must_use]
    pub fn are_shared(&self) -> bool {
        self.are_shared
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read<T>(&self, read: impl FnOnce(&dyn Database) -> io::Result<T>) -> Result<T> {
        self.lock().engine.read(read).map_err(|error| failed(&self.place, error))
    }

    /// Runs a transaction, and appends its audit events to the files. If the files cannot be written, the
    /// events follow later. On a full disk the ballast is removed, and the transaction runs again.
    fn write<T>(&self, mut write: impl FnMut(&dyn Database) -> io::Result<T>) -> Result<T> {
        let mut open = self.lock();
        let mut written = open.engine.write(&mut write);
        if is_full(&written) && self.ballast.give_up() {
            written = open.engine.write(&mut write);
        }
        self.written(&mut open, written)
    }

    /// Runs a transaction that must not run twice, such as renaming files. It does not use the ballast.
    fn write_once<T>(&self, write: impl FnOnce(&dyn Database) -> io::Result<T>) -> Result<T> {
        let mut open = self.lock();
        let written = open.engine.write(write);
        self.written(&mut open, written)
    }

    fn written<T>(&self, open: &mut Open, written: io::Result<T>) -> Result<T> {
        let written = written.map_err(|error| failed(&self.place, error))?;
        let mut appended = self.append_to_log(open);
        if matches!(&appended, Err(Error::Io { source, .. }) if is_storage_full(source))
            && self.ballast.give_up()
        {
            appended = self.append_to_log(open);
        }
        if let Err(error) = appended {
            // No error for the caller: the event is durable in the records, and the files follow.
            tracing::error!(%error, "cannot write the audit log");
        }
        Ok(written)
    }
}

fn is_storage_full(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::StorageFull
}

fn is_full<T>(written: &io::Result<T>) -> bool {
    written.as_ref().is_err_and(is_storage_full)
}

/// Name of a PostgreSQL database in errors.
// Not the address, which may contain a password.
const DATABASE: &str = "the database";

fn connect(DatabaseAddress(address): &DatabaseAddress) -> Result<Postgres> {
    Postgres::open(address).map_err(|error| match error.kind() {
        io::ErrorKind::InvalidInput => Error::Usage(error.to_string()),
        _ => failed(Path::new(DATABASE), error),
    })
}

fn failed(place: &Path, error: io::Error) -> Error {
    Error::io("use the records in", place, error)
}

/// Records for tests.
#[cfg(test)]
pub(crate) mod testing {
    use super::{objects::add_object, *};
    use crate::job::{Kind, Request};
    #[cfg(feature = "cluster")]
    use ::postgres::{Client, NoTls};
    use tempfile::TempDir;

    #[cfg(feature = "cluster")]
    /// Variable with the address of a PostgreSQL server for tests. `make test-stores` starts one.
    const SERVER: &str = "SUDARE_TEST_POSTGRES";

    /// A directory, and possibly a database for its records.
    pub struct Place {
        folder: TempDir,
        database: Option<DatabaseAddress>,
    }

    /// Makes a job of statistics, which needs next to nothing.
    pub fn new_job(id: &str, tenant: &str) -> NewJob {
        let request = Request {
            kind: Kind::Stats,
            keys: "k".into(),
            tables: vec!["t".into()],
            model: None,
            iterations: None,
            history: false,
        };
        NewJob {
            id: id.into(),
            tenant: tenant.into(),
            request,
            idempotency: None,
            seconds: 1.0,
            cpu_seconds: 1.0,
            memory: 1,
            result_bytes: 1,
        }
    }

    /// Queues a job of a tenant, and stores its objects.
    pub fn queue(records: &Records, new: &NewJob) {
        send_objects(records, &new.tenant, &new.request);
        let added = records.add_job(new, &TenantLimits::default());
        assert!(matches!(added.unwrap(), Added::New(_)));
    }

    /// Stores the objects of a request.
    pub fn send_objects(records: &Records, tenant: &str, request: &Request) {
        let collection = Collection::Keys;
        let about = serde_json::Value::Null;
        for digest in request.objects() {
            let tenant = tenant.into();
            let digest = digest.into();
            let about = about.clone();
            let object = Object { tenant, digest, collection, bytes: 1, created: 0, about };
            records.write(|db| add_object(db, &object)).unwrap();
        }
    }

    /// Makes an empty place for each kind of database.
    pub fn places() -> Vec<Place> {
        let file = Place { folder: tempfile::tempdir().unwrap(), database: None };
        #[cfg(not(feature = "cluster"))]
        let database: Option<DatabaseAddress> = None;
        #[cfg(feature = "cluster")]
        let database = std::env::var(SERVER).ok().map(|server| {
            let schema = format!("t{}", crate::accounts::token::random_id().unwrap());
            administer(&server, &format!("CREATE SCHEMA {schema}"));
            let mark = if server.contains('?') { '&' } else { '?' };
            format!("{server}{mark}options=-csearch_path%3D{schema}").into()
        });
        let database = database.map(|database| Place {
            folder: tempfile::tempdir().unwrap(),
            database: Some(database),
        });
        [file].into_iter().chain(database).collect()
    }

    #[cfg(feature = "cluster")]
    fn administer(server: &str, sql: &str) {
        Client::connect(server, NoTls).unwrap().batch_execute(sql).unwrap();
    }

    impl Place {
        pub fn folder(&self) -> &Path {
            self.folder.path()
        }

        pub fn database(&self) -> Option<&DatabaseAddress> {
            self.database.as_ref()
        }

        #[cfg(feature = "cluster")]
        /// Makes the place of another server with the same database.
        pub fn beside(&self) -> Self {
            Self { folder: tempfile::tempdir().unwrap(), database: self.database.clone() }
        }

        #[cfg(feature = "cluster")]
        /// Runs a statement on the PostgreSQL server.
        pub fn administer(&self, sql: &str) {
            administer(&std::env::var(SERVER).unwrap(), sql);
        }

        pub fn try_open(&self) -> Result<Records> {
            Records::of(self.folder(), self.database())
        }

        pub fn open(&self) -> Records {
            self.try_open().unwrap()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rusqlite::Connection;

    /// Migrates records of the first version, with their content.
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

    /// Digests of tokens and names of tenants are private, even if everyone could read them before.
    #[cfg(unix)]
    #[test]
    fn records_are_private() {
        use std::{fs, os::unix::fs::PermissionsExt};
        let folder = tempfile::tempdir().unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let path = folder.path().join("records");
        let records = Records::open(&path).unwrap();
        let beside = folder.path().join("records-wal");
        assert_eq!((mode(&path), mode(&beside)), (0o600, 0o600));
        drop(records);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        drop(Records::open(&path).unwrap());
        assert_eq!(mode(&path), 0o600);
    }

    /// Writes again after the ballast is gone, and otherwise only once.
    #[test]
    fn writes_are_done_again_without_the_ballast() {
        let folder = tempfile::tempdir().unwrap();
        let records = Records::open(&folder.path().join("records")).unwrap();
        let full = |count: &mut u32| {
            *count += 1;
            if *count == 1 { Err(io::ErrorKind::StorageFull.into()) } else { Ok(*count) }
        };
        let mut count = 0;
        let refused = records.write(|_| full(&mut count)).unwrap_err();
        assert!(matches!(&refused, Error::Io { source, .. } if is_storage_full(source)));
        std::fs::write(folder.path().join("ballast"), b"room").unwrap();
        let mut count = 0;
        assert_eq!(records.write(|_| full(&mut count)).unwrap(), 2);
        assert!(!folder.path().join("ballast").exists());
    }

    #[test]
    fn records_stay_and_know_their_version() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("records");
        drop(Records::open(&path).unwrap());
        drop(Records::open(&path).unwrap());
        let next = VERSION + 1;
        Connection::open(&path).unwrap().pragma_update(None, "user_version", next).unwrap();
        let refused = Records::open(&path).map(|_| ()).unwrap_err();
        assert!(refused.to_string().contains(&format!("version {next}")), "{refused}");
        std::fs::write(folder.path().join("other"), [7; 5000]).unwrap();
        assert!(Records::open(&folder.path().join("other")).is_err());
    }
}

//! Records in an SQLite file.

use super::database::{Database, Row, Value};
use crate::private::restrict;
use rusqlite::{
    Connection, OpenFlags, Statement, TransactionBehavior,
    types::{ToSql, ToSqlOutput, ValueRef},
};
use std::{fs::OpenOptions, io, path::Path, sync::Arc, time::Duration};

/// Maximum time to wait for another process that writes.
const PATIENCE: Duration = Duration::from_secs(10);

/// An open file.
pub struct Sqlite(Connection);

fn failed(error: rusqlite::Error) -> io::Error {
    let kind = match error.sqlite_error_code() {
        // By this kind `Records::write` knows that removing the ballast may help.
        Some(rusqlite::ErrorCode::DiskFull) => io::ErrorKind::StorageFull,
        _ => io::ErrorKind::Other,
    };
    io::Error::new(kind, error.to_string())
}

impl ToSql for Value {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(match self {
            Self::Null => ToSqlOutput::Borrowed(ValueRef::Null),
            Self::Integer(value) => ToSqlOutput::Borrowed(ValueRef::Integer(*value)),
            Self::Real(value) => ToSqlOutput::Borrowed(ValueRef::Real(*value)),
            Self::Text(text) => ToSqlOutput::Borrowed(ValueRef::Text(text.as_bytes())),
            Self::Bytes(bytes) => ToSqlOutput::Borrowed(ValueRef::Blob(bytes)),
        })
    }
}

fn value(value: ValueRef<'_>) -> io::Result<Value> {
    Ok(match value {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(value) => Value::Integer(value),
        ValueRef::Real(value) => Value::Real(value),
        ValueRef::Text(text) => Value::Text(String::from_utf8(text.into()).map_err(|_| {
            io::Error::new(io::ErrorKind::InvalidData, "a column is not valid UTF-8")
        })?),
        ValueRef::Blob(bytes) => Value::Bytes(bytes.into()),
    })
}

fn bind(statement: &mut Statement<'_>, values: &[Value]) -> rusqlite::Result<()> {
    values
        .iter()
        .enumerate()
        .try_for_each(|(at, value)| statement.raw_bind_parameter(at.saturating_add(1), value))
}

impl Database for Connection {
    fn execute(&self, sql: &str, values: &[Value]) -> io::Result<u64> {
        let mut statement = self.prepare_cached(sql).map_err(failed)?;
        bind(&mut statement, values).map_err(failed)?;
        statement.raw_execute().map(|rows| rows as u64).map_err(failed)
    }

    fn query(&self, sql: &str, values: &[Value]) -> io::Result<Vec<Row>> {
        let mut statement = self.prepare_cached(sql).map_err(failed)?;
        bind(&mut statement, values).map_err(failed)?;
        let names: Vec<String> = statement.column_names().map(String::from).collect();
        let names: Arc<[String]> = names.into();
        let mut found = statement.raw_query();
        let mut rows = Vec::new();
        while let Some(row) = found.next().map_err(failed)? {
            let columns = 0..names.len();
            let values = columns.map(|at| value(row.get_ref(at).map_err(failed)?));
            rows.push(Row {
                names: Arc::clone(&names),
                values: values.collect::<io::Result<_>>()?,
            });
        }
        Ok(rows)
    }
}

/// Creates a missing file with access for its owner only. SQLite gives the files next to it the same
/// permissions.
fn make_private(path: &Path) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.create(true).append(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        options.mode(0o600);
    }
    options.open(path)?;
    for end in ["", "-wal", "-shm"] {
        let mut name = path.as_os_str().to_owned();
        name.push(end);
        match restrict(Path::new(&name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

impl Sqlite {
    /// Opens a file, creating it if missing.
    ///
    /// # Errors
    /// Errors of SQLite.
    pub fn open(path: &Path) -> io::Result<Self> {
        make_private(path)?;
        let connection = Connection::open(path).map_err(failed)?;
        // Commands such as `sudare serve token` write while the server runs.
        connection.busy_timeout(PATIENCE).map_err(failed)?;
        // Changes are on the disk before the server responds.
        connection.pragma_update(None, "journal_mode", "wal").map_err(failed)?;
        // With WAL and `normal`, a power failure would take the last transactions.
        connection.pragma_update(None, "synchronous", "full").map_err(failed)?;
        Ok(Self(connection))
    }

    /// Opens an existing file for reading.
    ///
    /// # Errors
    /// Errors of SQLite.
    pub fn open_to_read(path: &Path) -> io::Result<Self> {
        // Reading in WAL mode writes the shared-memory file next to the records.
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE;
        Connection::open_with_flags(path, flags).map(Self).map_err(failed)
    }

    /// Writes a copy to a new file: all transactions up to now, and none that is under way.
    ///
    /// # Errors
    /// Errors of SQLite.
    pub fn copy_to(&self, path: &Path) -> io::Result<()> {
        let name = path.to_str();
        let name = name.ok_or_else(|| io::Error::other("the path of the copy is not UTF-8"))?;
        // SQLite accepts an empty file, whose permissions it keeps.
        make_private(path)?;
        self.0.execute("VACUUM INTO ?1", [name]).map(|_| ()).map_err(failed)
    }

    /// Opens a copy for writing, durably and without files next to it.
    ///
    /// # Errors
    /// Errors of SQLite.
    pub fn open_copy(path: &Path) -> io::Result<Self> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE;
        let connection = Connection::open_with_flags(path, flags).map_err(failed)?;
        connection.pragma_update(None, "journal_mode", "delete").map_err(failed)?;
        connection.pragma_update(None, "synchronous", "full").map_err(failed)?;
        Ok(Self(connection))
    }

    /// Opens a copy for reading, also on a medium that cannot be written.
    ///
    /// # Errors
    /// Errors of SQLite.
    pub fn open_copy_to_read(path: &Path) -> io::Result<Self> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY;
        Connection::open_with_flags(path, flags).map(Self).map_err(failed)
    }

    /// Applies the missing migrations. Returns the version of the tables, which is higher if a newer
    /// program wrote them.
    ///
    /// # Errors
    /// Errors of SQLite.
    pub fn migrate(&mut self, steps: &[&str]) -> io::Result<i64> {
        let transaction =
            self.0.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failed)?;
        let version = |db: &Connection| db.query_row("PRAGMA user_version", (), |row| row.get(0));
        let before: i64 = version(&transaction).map_err(failed)?;
        for (at, step) in steps.iter().enumerate().skip(usize::try_from(before).unwrap_or(0)) {
            transaction.execute_batch(step).map_err(failed)?;
            // In the transaction of the step, so that a kill leaves both or neither.
            transaction.pragma_update(None, "user_version", at as i64 + 1).map_err(failed)?;
        }
        transaction.commit().map_err(failed)?;
        version(&self.0).map_err(failed)
    }

    /// Reads.
    pub fn read<T>(&self, read: impl FnOnce(&dyn Database) -> io::Result<T>) -> io::Result<T> {
        read(&self.0)
    }

    /// Runs `write` in a transaction.
    ///
    /// # Errors
    /// Errors of SQLite and of `write`.
    pub fn write<T>(
        &mut self,
        write: impl FnOnce(&dyn Database) -> io::Result<T>,
    ) -> io::Result<T> {
        // The lock for writing from the start: a transaction that reads first could find later that
        // another process wrote.
        let transaction =
            self.0.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failed)?;
        let value = write(&*transaction)?;
        transaction.commit().map_err(failed)?;
        Ok(value)
    }
}

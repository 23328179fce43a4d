//! Records in a PostgreSQL database, which several servers may share.

use super::database::{Database, Row, Value, unreadable};
use bytes::BytesMut;
use postgres::{
    Client, Config,
    config::{Host, SslMode},
    types::{IsNull, ToSql, Type, to_sql_checked},
};
use std::{
    cell::RefCell, error::Error as StdError, fs, io, str::FromStr, sync::Arc, time::Duration,
};
use tokio_postgres_rustls::MakeRustlsConnect;
use tokio_rustls::rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, pem::PemObject},
};

/// Maximum time to connect.
const PATIENCE: Duration = Duration::from_secs(10);
/// Time within which a lost machine is noticed.
const MAX_SILENCE: Duration = Duration::from_secs(30);
/// Timeouts, so that a server that is lost or hangs does not block the others.
const SETTINGS: &str =
    "SET idle_in_transaction_session_timeout = '30s'; SET statement_timeout = '60s'";
/// Advisory lock that serializes writers. The number is arbitrary, but must differ from the locks of other
/// programs.
// `sudare` in ASCII.
const LOCK: i64 = 0x7375_6461_7265;
/// Setting in an address that names a file of authorities, as in other programs.
const AUTHORITIES: &str = "sslrootcert";

/// A database, with a connection while there is one.
pub struct Postgres {
    config: Config,
    tls: MakeRustlsConnect,
    client: Option<Client>,
}

fn failed(error: postgres::Error) -> io::Error {
    use postgres::error::SqlState;
    let kind = match error.code() {
        Some(&SqlState::DISK_FULL) => io::ErrorKind::StorageFull,
        _ => io::ErrorKind::Other,
    };
    // The message of the database is in the source.
    let cause = error.source().map(|cause| format!(": {cause}")).unwrap_or_default();
    io::Error::new(kind, format!("{error}{cause}"))
}

fn usage(problem: impl Into<Box<dyn StdError + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, problem)
}

impl ToSql for Value {
    fn to_sql(
        &self,
        kind: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn StdError + Sync + Send>> {
        match self {
            Self::Null => Ok(IsNull::Yes),
            Self::Integer(value) => value.to_sql(kind, out),
            Self::Real(value) => value.to_sql(kind, out),
            Self::Text(text) => text.to_sql(kind, out),
            Self::Bytes(bytes) => bytes.to_sql(kind, out),
        }
    }

    fn accepts(kind: &Type) -> bool {
        [Type::INT8, Type::FLOAT8, Type::TEXT, Type::BYTEA].contains(kind)
    }

    to_sql_checked!();
}

fn value(row: &postgres::Row, at: usize, kind: &Type) -> io::Result<Value> {
    Ok(match *kind {
        Type::INT8 => row.try_get::<_, Option<i64>>(at).map_err(failed)?.into(),
        Type::INT4 => row.try_get::<_, Option<i32>>(at).map_err(failed)?.map(i64::from).into(),
        Type::BOOL => row.try_get::<_, Option<bool>>(at).map_err(failed)?.into(),
        Type::FLOAT8 => row.try_get::<_, Option<f64>>(at).map_err(failed)?.into(),
        Type::TEXT => row.try_get::<_, Option<String>>(at).map_err(failed)?.into(),
        Type::BYTEA => row.try_get::<_, Option<&[u8]>>(at).map_err(failed)?.into(),
        _ => return Err(unreadable(&format!("a column has the unknown type {kind}"))),
    })
}

/// Converts the numbering of values to PostgreSQL's.
fn numbered(sql: &str) -> String {
    // No statement has a question mark for anything else.
    sql.replace('?', "$")
}

/// Converts the types in a migration to PostgreSQL's.
fn translated(step: &str) -> String {
    [(" STRICT", ""), ("INTEGER", "BIGINT"), ("REAL", "DOUBLE PRECISION"), ("BLOB", "BYTEA")]
        .iter()
        .fold(step.into(), |step: String, (from, to)| step.replace(from, to))
}

/// A connection in a transaction.
struct Session<'a>(RefCell<&'a mut Client>);

impl Session<'_> {
    /// Executes one or more statements without values.
    fn batch(&self, sql: &str) -> io::Result<()> {
        self.0.borrow_mut().batch_execute(sql).map_err(failed)
    }
}

impl Database for Session<'_> {
    fn execute(&self, sql: &str, values: &[Value]) -> io::Result<u64> {
        let values: Vec<&(dyn ToSql + Sync)> = values.iter().map(|value| value as _).collect();
        self.0.borrow_mut().execute(&numbered(sql), &values).map_err(failed)
    }

    fn query(&self, sql: &str, values: &[Value]) -> io::Result<Vec<Row>> {
        let values: Vec<&(dyn ToSql + Sync)> = values.iter().map(|value| value as _).collect();
        let mut client = self.0.borrow_mut();
        let statement = client.prepare(&numbered(sql)).map_err(failed)?;
        let columns = statement.columns();
        let names: Arc<[String]> = columns.iter().map(|column| column.name().into()).collect();
        let found = client.query(&statement, &values).map_err(failed)?;
        let read = |row: &postgres::Row| {
            let values =
                columns.iter().enumerate().map(|(at, column)| value(row, at, column.type_()));
            Ok(Row { names: Arc::clone(&names), values: values.collect::<io::Result<_>>()? })
        };
        found.iter().map(read).collect()
    }
}

/// Reads the authorities in a file. Default: the ones that browsers trust.
fn authorities(file: Option<&str>) -> io::Result<RootCertStore> {
    let Some(file) = file else {
        return Ok(RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() });
    };
    let mut roots = RootCertStore::empty();
    let read = fs::read(file);
    let read = read.map_err(|error| io::Error::new(error.kind(), format!("{file}: {error}")))?;
    for certificate in CertificateDer::pem_slice_iter(&read) {
        let certificate = certificate.map_err(|error| usage(format!("{file}: {error}")))?;
        roots.add(certificate).map_err(|error| usage(format!("{file}: {error}")))?;
    }
    Ok(roots)
}

/// Splits an address into the driver's part and the file of authorities. TLS always verifies certificates,
/// so `verify-ca` and `verify-full` become `require`.
fn split_address(address: &str) -> (String, Option<String>) {
    let Some((place, settings)) = address.split_once('?') else { return (address.into(), None) };
    let mut file = None;
    let mut others = Vec::new();
    for setting in settings.split('&') {
        match setting.split_once('=') {
            Some((AUTHORITIES, named)) => file = Some(named.to_owned()),
            Some(("sslmode", "verify-ca" | "verify-full")) => others.push("sslmode=require"),
            _ => others.push(setting),
        }
    }
    let others = others.join("&");
    (if others.is_empty() { place.into() } else { format!("{place}?{others}") }, file)
}

/// Returns whether all hosts of an address are this machine.
fn is_here(config: &Config) -> bool {
    let is_local = |host: &Host| match host {
        Host::Tcp(name) => ["localhost", "127.0.0.1", "::1"].contains(&&name[..]),
        #[cfg(unix)]
        Host::Unix(_) => true,
    };
    config.get_hosts().iter().all(is_local)
        && config.get_hostaddrs().iter().all(std::net::IpAddr::is_loopback)
}

impl Postgres {
    /// Connects to the database at an address such as `postgresql://user:password@host/name`.
    ///
    /// # Errors
    /// Errors of the connection; [`io::ErrorKind::InvalidInput`] for an address that is invalid, or to
    /// which no password may be sent.
    pub fn open(address: &str) -> io::Result<Self> {
        let (address, file) = split_address(address);
        let mut config =
            // The error must not contain the address, which may contain a password.
            Config::from_str(&address).map_err(|error| usage(format!("the address of the database is invalid: {error}")))?;
        if config.get_ssl_mode() == SslMode::Prefer {
            // An attacker on the network could claim that the database has no TLS. On this machine there is
            // no network.
            config.ssl_mode(if is_here(&config) { SslMode::Disable } else { SslMode::Require });
        }
        config.application_name("sudare");
        config
            .tcp_user_timeout(MAX_SILENCE)
            .keepalives_idle(MAX_SILENCE / 3)
            .keepalives_interval(MAX_SILENCE / 3);
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(PATIENCE);
        }
        let roots = authorities(file.as_deref())?;
        let tls = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
        let mut this = Self { config, tls: MakeRustlsConnect::new(tls), client: None };
        this.connect()?;
        Ok(this)
    }

    /// Replaces the connection.
    fn connect(&mut self) -> io::Result<&mut Client> {
        self.disconnect();
        let mut client = self.config.connect(self.tls.clone()).map_err(failed)?;
        client.batch_execute(SETTINGS).map_err(failed)?;
        Ok(self.client.insert(client))
    }

    /// Closes the connection on another thread, since closing blocks and this thread may not.
    fn disconnect(&mut self) {
        if let Some(client) = self.client.take() {
            let _ = std::thread::spawn(move || drop(client)).join();
        }
    }

    /// Begins a transaction, on a new connection if the old one is missing or broken.
    fn begin(&mut self, begin: &str) -> io::Result<()> {
        // Only the beginning is tried again, since nothing has happened yet.
        if let Some(client) = &mut self.client
            && client.batch_execute(begin).is_ok()
        {
            return Ok(());
        }
        let begun = self.connect()?.batch_execute(begin).map_err(failed);
        if begun.is_err() {
            // The connection may be in a half-begun transaction.
            self.disconnect();
        }
        begun
    }

    /// Runs `act` in a transaction.
    fn within<T>(
        &mut self,
        begin: &str,
        act: impl FnOnce(&Session<'_>) -> io::Result<T>,
    ) -> io::Result<T> {
        self.begin(begin)?;
        // The connection is put back after the transaction, so that no other one begins within it.
        let mut client = self.client.take().ok_or_else(|| unreadable("there is no connection"))?;
        let session = Session(RefCell::new(&mut client));
        let done = act(&session);
        let ended = session.batch(if done.is_ok() { "COMMIT" } else { "ROLLBACK" });
        self.client = Some(client);
        if ended.is_err() {
            self.disconnect();
        }
        // A transaction that did not commit has failed, whatever it returned.
        done.and_then(|value| ended.map(|()| value))
    }

    /// Migrates the tables, as [`Sqlite::migrate`](super::sqlite::Sqlite::migrate).
    ///
    /// # Errors
    /// Errors of the database.
    pub fn migrate(&mut self, steps: &[&str]) -> io::Result<i64> {
        self.within(&writing(), |session| {
            let db: &dyn Database = session;
            session.batch("CREATE TABLE IF NOT EXISTS version (steps BIGINT NOT NULL)")?;
            let before = db.find("SELECT steps FROM version", &[], Row::first)?.unwrap_or(0);
            for step in steps.iter().skip(usize::try_from(before).unwrap_or(0)) {
                session.batch(&translated(step))?;
            }
            let after = before.max(steps.len() as i64);
            session.batch(&format!("DELETE FROM version; INSERT INTO version VALUES ({after})"))?;
            Ok(after)
        })
    }

    /// Runs a read-only transaction.
    ///
    /// # Errors
    /// Errors of the database and of `read`.
    pub fn read<T>(&mut self, read: impl FnOnce(&dyn Database) -> io::Result<T>) -> io::Result<T> {
        self.within("BEGIN READ ONLY", |session| read(session))
    }

    /// Runs a transaction that writes. Writers run one after the other.
    ///
    /// # Errors
    /// Errors of the database and of `write`.
    pub fn write<T>(
        &mut self,
        write: impl FnOnce(&dyn Database) -> io::Result<T>,
    ) -> io::Result<T> {
        self.within(&writing(), |session| write(session))
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        self.disconnect();
    }
}

/// Returns the statement that begins a writing transaction. It waits for all other writers, and then sees
/// their changes.
fn writing() -> String {
    // A stricter level would fix its view of the data before the lock is granted.
    format!("BEGIN ISOLATION LEVEL READ COMMITTED; SELECT pg_advisory_xact_lock({LOCK})")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::{
        audit::Event,
        records::{
            Records, last_lines,
            testing::{Place, places},
        },
    };
    use sudare_roles::error::Error;

    #[test]
    fn addresses_are_parted_from_files_of_authorities() {
        let plain = "postgresql://a@b/c?sslmode=require";
        assert_eq!(split_address(plain), (plain.into(), None));
        let both = "postgresql://a@b/c?sslrootcert=/x.pem&sslmode=require";
        assert_eq!(split_address(both), (plain.into(), Some("/x.pem".into())));
        let alone = "postgresql://a@b/c?sslrootcert=/x.pem";
        assert_eq!(split_address(alone), ("postgresql://a@b/c".into(), Some("/x.pem".into())));
        let full = "postgresql://a@b/c?sslmode=verify-full";
        assert_eq!(split_address(full), (plain.into(), None));
        let is_here = |address: &str| is_here(&Config::from_str(address).unwrap());
        for here in ["postgresql://a@localhost/c", "postgresql://a@[::1]:7/c", "host=/run user=a"] {
            assert!(is_here(here), "{here}");
        }
        for away in
            ["postgresql://a@b/c", "postgresql://a@localhost,b/c", "hostaddr=10.0.0.1 user=a"]
        {
            assert!(!is_here(away), "{away}");
        }
    }

    #[test]
    fn refusals_do_not_tell_the_password() {
        for bad in ["postgresql://a:secret@b:port/c", "postgresql://a:secret@b/c?sslmode=never"] {
            let told = Postgres::open(bad).map(|_| ()).unwrap_err();
            assert_eq!(told.kind(), io::ErrorKind::InvalidInput, "{told}");
            assert!(!told.to_string().contains("secret"), "{told}");
        }
    }

    /// Reconnects after a broken connection, and undoes the interrupted transaction.
    #[test]
    fn broken_connections_are_replaced() {
        for place in places().iter().filter(|place| place.database().is_some()) {
            let records = place.open();
            for times in 0..3 {
                records.note(&Event::AuthenticationRefused { times }).unwrap();
                break_connection(place, &records);
            }
            let failed = records.write(|db| {
                db.execute("DELETE FROM audit", &[])?;
                break_connection_of(place, db);
                db.execute("DELETE FROM audit", &[])
            });
            assert!(matches!(failed, Err(Error::Io { .. })));
            assert_eq!(last_lines(place.folder(), place.database()).unwrap().len(), 3);
            records.note(&Event::AuthenticationRefused { times: 3 }).unwrap();
        }
    }

    fn break_connection(place: &Place, records: &Records) {
        // The transaction may or may not report the broken connection.
        let _ = records.read(|db| {
            break_connection_of(place, db);
            Ok(())
        });
    }

    fn break_connection_of(place: &Place, db: &dyn Database) {
        let process = db.value::<i64>("SELECT CAST(pg_backend_pid() AS BIGINT)", &[]).unwrap();
        place.administer(&format!("SELECT pg_terminate_backend({process})"));
    }
}

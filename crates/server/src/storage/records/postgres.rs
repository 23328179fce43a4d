//! Records in a database of PostgreSQL, which several servers may share.

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

/// How long a connection may take to be made.
const PATIENCE: Duration = Duration::from_secs(10);
/// Within which a machine that is gone is noticed.
const MAX_SILENCE: Duration = Duration::from_secs(30);
/// A server that is lost or stands still keeps others waiting no longer than this.
const SETTINGS: &str =
    "SET idle_in_transaction_session_timeout = '30s'; SET statement_timeout = '60s'";
/// What those who write have one after the other; any number that no other program's locks have.
const LOCK: i64 = 0x7375_6461_7265;
/// By which a file of authorities is named in an address, as by other programs.
const AUTHORITIES: &str = "sslrootcert";

/// A database, and the connection to it while there is one.
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
    // What the database says is in the cause.
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
        _ => return Err(unreadable(&format!("a column has type {kind}"))),
    })
}

/// SQL with values numbered as PostgreSQL has it.
fn numbered(sql: &str) -> String {
    sql.replace('?', "$")
}

/// What changes tables, in the words of PostgreSQL.
fn translated(step: &str) -> String {
    [(" STRICT", ""), ("INTEGER", "BIGINT"), ("REAL", "DOUBLE PRECISION"), ("BLOB", "BYTEA")]
        .iter()
        .fold(step.into(), |step: String, (from, to)| step.replace(from, to))
}

/// A connection in a transaction.
struct Session<'a>(RefCell<&'a mut Client>);

impl Session<'_> {
    /// Does what takes no values, and may be several things.
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

/// The authorities in a file, or those that browsers trust.
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

/// An address as the driver takes it, and the file of authorities that it names. Certificates are checked
/// whenever there is TLS, so that the words of other programs for that mean that it is required.
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

/// Whether all hosts of an address are this machine.
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
    /// Connects to a database by its address, `postgresql://user:password@host/name`.
    ///
    /// # Errors
    /// Those of the connection; [`io::ErrorKind::InvalidInput`] for what is no address, or none to which a password
    /// may be sent.
    pub fn open(address: &str) -> io::Result<Self> {
        let (address, file) = split_address(address);
        let mut config =
            // What is wrong is told without the address, which has a password.
            Config::from_str(&address).map_err(|error| usage(format!("the address of the database: {error}")))?;
        if config.get_ssl_mode() == SslMode::Prefer {
            // Whoever is in between could say that the database speaks no TLS; here nobody is.
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

    /// Makes a connection in place of the one that there is.
    fn connect(&mut self) -> io::Result<&mut Client> {
        self.disconnect();
        let mut client = self.config.connect(self.tls.clone()).map_err(failed)?;
        client.batch_execute(SETTINGS).map_err(failed)?;
        Ok(self.client.insert(client))
    }

    /// Ends the connection, which waits for that: elsewhere, since this may be a thread that must not.
    fn disconnect(&mut self) {
        if let Some(client) = self.client.take() {
            let _ = std::thread::spawn(move || drop(client)).join();
        }
    }

    /// Begins a transaction; by a new connection if there is none, or the one that there was is of no use.
    fn begin(&mut self, begin: &str) -> io::Result<()> {
        if let Some(client) = &mut self.client
            && client.batch_execute(begin).is_ok()
        {
            return Ok(());
        }
        let begun = self.connect()?.batch_execute(begin).map_err(failed);
        if begun.is_err() {
            // It may be in a transaction that did not begin as it should.
            self.disconnect();
        }
        begun
    }

    /// All that `act` does in a transaction, or nothing of it.
    fn within<T>(
        &mut self,
        begin: &str,
        act: impl FnOnce(&Session<'_>) -> io::Result<T>,
    ) -> io::Result<T> {
        self.begin(begin)?;
        // It is put back when the transaction has ended, so that no other one is begun within it.
        let mut client = self.client.take().ok_or_else(|| unreadable("there is no connection"))?;
        let session = Session(RefCell::new(&mut client));
        let done = act(&session);
        let ended = session.batch(if done.is_ok() { "COMMIT" } else { "ROLLBACK" });
        self.client = Some(client);
        if ended.is_err() {
            self.disconnect();
        }
        done.and_then(|value| ended.map(|()| value))
    }

    /// As [`Sqlite::migrate`](super::sqlite::Sqlite::migrate).
    ///
    /// # Errors
    /// Those of the database.
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

    /// To read.
    ///
    /// # Errors
    /// Those of the database and of `read`.
    pub fn read<T>(&mut self, read: impl FnOnce(&dyn Database) -> io::Result<T>) -> io::Result<T> {
        self.within("BEGIN READ ONLY", |session| read(session))
    }

    /// All that `write` does, or nothing of it; those who write do so one after the other.
    ///
    /// # Errors
    /// Those of the database and of `write`.
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

/// Begins a transaction that waits for all others of this kind; each statement sees what they wrote.
fn writing() -> String {
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

    /// A connection that broke is made anew by whoever asks next, and what it was at is undone.
    #[test]
    fn broken_connections_are_made_anew() {
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
        // Of which it may hear at the end.
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

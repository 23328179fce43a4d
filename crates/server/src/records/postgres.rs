//! Records in a database of PostgreSQL, which several servers may share.

use super::database::{Database, Row, Value, unreadable};
use bytes::BytesMut;
use postgres::{
    Client, Config, GenericClient, IsolationLevel, Transaction,
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

/// A client, or a transaction of one.
struct Session<C>(RefCell<C>);

impl<C: GenericClient> Database for Session<C> {
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
    for certificate in CertificateDer::pem_slice_iter(&fs::read(file)?) {
        let certificate = certificate.map_err(|error| usage(format!("{file}: {error}")))?;
        roots.add(certificate).map_err(|error| usage(format!("{file}: {error}")))?;
    }
    Ok(roots)
}

/// An address without the file of authorities that it names, and that file.
fn parted(address: &str) -> (String, Option<String>) {
    let Some((place, settings)) = address.split_once('?') else { return (address.into(), None) };
    let is_file = |setting: &&str| setting.split('=').next() == Some(AUTHORITIES);
    let (files, others): (Vec<&str>, Vec<&str>) = settings.split('&').partition(is_file);
    let file =
        files.last().and_then(|setting| setting.split_once('=')).map(|(_, file)| file.into());
    let others = others.join("&");
    (if others.is_empty() { place.into() } else { format!("{place}?{others}") }, file)
}

impl Postgres {
    /// Connects to a database by its address, `postgresql://user:password@host/name`.
    ///
    /// # Errors
    /// Those of the connection; [`io::ErrorKind::InvalidInput`] for what is no address, or none to which a password
    /// may be sent.
    pub fn open(address: &str) -> io::Result<Self> {
        let (address, file) = parted(address);
        let mut config =
            // What is wrong is told without the address, which has a password.
            Config::from_str(&address).map_err(|error| usage(format!("the address: {error}")))?;
        let is_here = |host: &Host| match host {
            Host::Tcp(name) => ["localhost", "127.0.0.1", "::1"].contains(&&name[..]),
            #[cfg(unix)]
            Host::Unix(_) => true,
        };
        if !config.get_hosts().iter().all(is_here) && config.get_ssl_mode() == SslMode::Prefer {
            // Whoever is in between could say that the database speaks no TLS.
            config.ssl_mode(SslMode::Require);
        }
        config.application_name("sudare");
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(PATIENCE);
        }
        let roots = authorities(file.as_deref())?;
        let tls = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
        let mut this = Self { config, tls: MakeRustlsConnect::new(tls), client: None };
        this.client()?;
        Ok(this)
    }

    /// The connection, which is made anew if it broke.
    fn client(&mut self) -> io::Result<&mut Client> {
        if self.client.as_ref().is_none_or(Client::is_closed) {
            self.drop_client();
            self.client = Some(self.config.connect(self.tls.clone()).map_err(failed)?);
        }
        self.client.as_mut().ok_or_else(|| unreadable("there is no connection"))
    }

    /// Ends the connection, which waits for that: elsewhere, since this may be a thread that must not.
    fn drop_client(&mut self) {
        if let Some(client) = self.client.take() {
            let _ = std::thread::spawn(move || drop(client)).join();
        }
    }

    /// As [`Sqlite::bring_forward`](super::sqlite::Sqlite::bring_forward).
    ///
    /// # Errors
    /// Those of the database.
    pub fn bring_forward(&mut self, steps: &[&str]) -> io::Result<i64> {
        let mut transaction = locked(self.client()?)?;
        let made = "CREATE TABLE IF NOT EXISTS version (steps BIGINT NOT NULL)";
        transaction.batch_execute(made).map_err(failed)?;
        let rows = transaction.query("SELECT steps FROM version", &[]).map_err(failed)?;
        let before: i64 = match rows.first() {
            Some(row) => row.try_get(0).map_err(failed)?,
            None => 0,
        };
        let after = before.max(steps.len() as i64);
        for step in steps.iter().skip(usize::try_from(before).unwrap_or(0)) {
            transaction.batch_execute(&translated(step)).map_err(failed)?;
        }
        if after > before {
            let noted = format!("DELETE FROM version; INSERT INTO version VALUES ({after})");
            transaction.batch_execute(&noted).map_err(failed)?;
        }
        transaction.commit().map_err(failed)?;
        Ok(after)
    }

    /// To read.
    ///
    /// # Errors
    /// Those of the database and of `read`.
    pub fn read<T>(&mut self, read: impl FnOnce(&dyn Database) -> io::Result<T>) -> io::Result<T> {
        let transaction = self.client()?.build_transaction().read_only(true).start();
        read(&Session(RefCell::new(transaction.map_err(failed)?)))
    }

    /// All that `write` does, or nothing of it; those who write do so one after the other.
    ///
    /// # Errors
    /// Those of the database and of `write`.
    pub fn write<T>(
        &mut self,
        write: impl FnOnce(&dyn Database) -> io::Result<T>,
    ) -> io::Result<T> {
        let session = Session(RefCell::new(locked(self.client()?)?));
        let value = write(&session)?;
        session.0.into_inner().commit().map_err(failed)?;
        Ok(value)
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        self.drop_client();
    }
}

/// A transaction that waits for all others of this kind.
fn locked(client: &mut Client) -> io::Result<Transaction<'_>> {
    // Each statement sees what others wrote before it; the first waits for them.
    let settings = client.build_transaction().isolation_level(IsolationLevel::ReadCommitted);
    let mut transaction = settings.start().map_err(failed)?;
    transaction.execute("SELECT pg_advisory_xact_lock($1)", &[&LOCK]).map_err(failed)?;
    Ok(transaction)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_parted_from_files_of_authorities() {
        let plain = "postgresql://a@b/c?sslmode=require";
        assert_eq!(parted(plain), (plain.into(), None));
        let both = "postgresql://a@b/c?sslrootcert=/x.pem&sslmode=require";
        assert_eq!(parted(both), (plain.into(), Some("/x.pem".into())));
        let alone = "postgresql://a@b/c?sslrootcert=/x.pem";
        assert_eq!(parted(alone), ("postgresql://a@b/c".into(), Some("/x.pem".into())));
    }

    #[test]
    fn refusals_do_not_tell_the_password() {
        for bad in ["postgresql://a:secret@b:port/c", "postgresql://a:secret@b/c?sslmode=never"] {
            let told = Postgres::open(bad).map(|_| ()).unwrap_err();
            assert_eq!(told.kind(), io::ErrorKind::InvalidInput, "{told}");
            assert!(!told.to_string().contains("secret"), "{told}");
        }
    }
}

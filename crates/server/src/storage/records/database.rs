//! The interface of a database: SQL that both SQLite and PostgreSQL accept, with values in and rows out.
//!
//! Values are numbered `?1`, `?2`, … Sums are cast to BIGINT, because PostgreSQL widens them. A value that
//! is tested for NULL is cast too, because it has no type otherwise.

use std::{io, sync::Arc};

/// Value of a column.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    Null,
    Integer(i64),
    Real(f64),
    Text(String),
    Bytes(Vec<u8>),
}

/// Makes an array of values.
macro_rules! values {
    ($($value:expr),* $(,)?) => { [$($crate::storage::records::database::Value::from($value)),*] };
}
pub(super) use values;

macro_rules! integers {
    ($($integer:ty),*) => { $(
        impl From<$integer> for Value {
            /// Clamps to the largest integer of the database.
            fn from(value: $integer) -> Self {
                Self::Integer(value.try_into().unwrap_or(i64::MAX))
            }
        }

        impl From<&$integer> for Value {
            fn from(value: &$integer) -> Self {
                (*value).into()
            }
        }

        impl Column for $integer {
            fn read(value: &Value) -> Option<Self> {
                match value {
                    Value::Integer(value) => (*value).try_into().ok(),
                    _ => None,
                }
            }
        }
    )* };
}
integers!(u32, u64, i64);

// Both databases store booleans as numbers, because SQLite has no type for them.
impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Self::Integer(value.into())
    }
}

impl From<f64> for Value {
    fn from(value: f64) -> Self {
        Self::Real(value)
    }
}

impl From<&str> for Value {
    /// Replaces zero bytes, which PostgreSQL rejects, by the replacement character.
    fn from(text: &str) -> Self {
        Self::Text(text.replace('\0', "\u{fffd}"))
    }
}

impl From<&String> for Value {
    fn from(text: &String) -> Self {
        text[..].into()
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        text[..].into()
    }
}

impl From<&[u8]> for Value {
    fn from(bytes: &[u8]) -> Self {
        Self::Bytes(bytes.into())
    }
}

impl<T: Into<Self>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, T::into)
    }
}

/// A type that a column can be read as.
pub trait Column: Sized {
    /// Reads a value. Returns `None` for another type.
    fn read(value: &Value) -> Option<Self>;
}

impl Column for bool {
    fn read(value: &Value) -> Option<Self> {
        i64::read(value).map(|value| value != 0)
    }
}

impl Column for f64 {
    fn read(value: &Value) -> Option<Self> {
        match value {
            Value::Real(value) => Some(*value),
            _ => None,
        }
    }
}

impl Column for String {
    fn read(value: &Value) -> Option<Self> {
        match value {
            Value::Text(text) => Some(text.clone()),
            _ => None,
        }
    }
}

impl<const N: usize> Column for [u8; N] {
    fn read(value: &Value) -> Option<Self> {
        match value {
            Value::Bytes(bytes) => bytes[..].try_into().ok(),
            _ => None,
        }
    }
}

impl<T: Column> Column for Option<T> {
    fn read(value: &Value) -> Option<Self> {
        if *value == Value::Null { Some(None) } else { T::read(value).map(Some) }
    }
}

/// A row of a result.
pub struct Row {
    pub names: Arc<[String]>,
    pub values: Vec<Value>,
}

impl Row {
    /// Reads a column by name.
    ///
    /// # Errors
    /// [`io::Error`] if the column is missing or has another type.
    pub fn get<T: Column>(&self, name: &str) -> io::Result<T> {
        let at = self.names.iter().position(|known| known == name);
        self.read(at.and_then(|at| self.values.get(at)), name)
    }

    /// Reads the first column.
    ///
    /// # Errors
    /// Same as [`Row::get`].
    pub fn first<T: Column>(&self) -> io::Result<T> {
        self.read(self.values.first(), "1")
    }

    fn read<T: Column>(&self, value: Option<&Value>, name: &str) -> io::Result<T> {
        value.and_then(T::read).ok_or_else(|| {
            let found = value.map_or("nothing".into(), |value| format!("{value:?}"));
            unreadable(&format!("column {name} contains {found}"))
        })
    }
}

/// Makes an error for content that this program does not write.
pub fn unreadable(problem: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, problem)
}

/// An open database, or a transaction.
pub trait Database {
    /// Runs a statement, and returns the number of changed rows.
    ///
    /// # Errors
    /// Errors of the database.
    fn execute(&self, sql: &str, values: &[Value]) -> io::Result<u64>;

    /// Runs a query.
    ///
    /// # Errors
    /// Errors of the database.
    fn query(&self, sql: &str, values: &[Value]) -> io::Result<Vec<Row>>;
}

impl dyn Database + '_ {
    /// Runs a query, and reads each row.
    ///
    /// # Errors
    /// Errors of the database and of `read`.
    pub fn all<T>(
        &self,
        sql: &str,
        values: &[Value],
        read: impl Fn(&Row) -> io::Result<T>,
    ) -> io::Result<Vec<T>> {
        self.query(sql, values)?.iter().map(read).collect()
    }

    /// Runs a query, and reads the first row, if there is one.
    ///
    /// # Errors
    /// Errors of the database and of `read`.
    pub fn find<T>(
        &self,
        sql: &str,
        values: &[Value],
        read: impl Fn(&Row) -> io::Result<T>,
    ) -> io::Result<Option<T>> {
        self.query(sql, values)?.first().map(read).transpose()
    }

    /// Runs a query for one value.
    ///
    /// # Errors
    /// Errors of the database; an error if there is no row.
    pub fn value<T: Column>(&self, sql: &str, values: &[Value]) -> io::Result<T> {
        self.find(sql, values, Row::first)?.ok_or_else(|| unreadable("a row is missing"))
    }
}

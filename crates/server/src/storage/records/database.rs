//! What the records take of a database: SQL that SQLite and PostgreSQL both know, with values in
//! and rows out.
//!
//! Values are numbered `?1`, `?2`, … Sums are cast to BIGINT, since PostgreSQL adds wider, and so is a value
//! that is asked whether it is there, which has no type otherwise.

use std::{io, sync::Arc};

/// What stands in a column, or is put there.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    Null,
    Integer(i64),
    Real(f64),
    Text(String),
    Bytes(Vec<u8>),
}

/// Values of these, in order.
macro_rules! values {
    ($($value:expr),* $(,)?) => { [$($crate::storage::records::database::Value::from($value)),*] };
}
pub(super) use values;

macro_rules! integers {
    ($($integer:ty),*) => { $(
        impl From<$integer> for Value {
            /// What is larger than a database knows is the largest that it does.
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
    /// PostgreSQL takes no zero bytes: they are replaced, as what is no text is elsewhere.
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

/// What a column is read as.
pub trait Column: Sized {
    /// None if it is something else.
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

/// A row of what was asked for.
pub struct Row {
    pub names: Arc<[String]>,
    pub values: Vec<Value>,
}

impl Row {
    /// The column with this name.
    ///
    /// # Errors
    /// If there is none, or something else stands in it.
    pub fn get<T: Column>(&self, name: &str) -> io::Result<T> {
        let at = self.names.iter().position(|known| known == name);
        self.read(at.and_then(|at| self.values.get(at)), name)
    }

    /// The only column, or the first.
    ///
    /// # Errors
    /// As [`Row::get`].
    pub fn first<T: Column>(&self) -> io::Result<T> {
        self.read(self.values.first(), "1")
    }

    fn read<T: Column>(&self, value: Option<&Value>, name: &str) -> io::Result<T> {
        value.and_then(T::read).ok_or_else(|| {
            let found = value.map_or("nothing".into(), |value| format!("{value:?}"));
            unreadable(&format!("{found} stands in column {name}"))
        })
    }
}

/// What this program does not write into a database.
pub fn unreadable(problem: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, problem)
}

/// A database that is open, or a transaction of it.
pub trait Database {
    /// Does what changes rows, and says how many.
    ///
    /// # Errors
    /// Those of the database.
    fn execute(&self, sql: &str, values: &[Value]) -> io::Result<u64>;

    /// Asks for rows.
    ///
    /// # Errors
    /// Those of the database.
    fn query(&self, sql: &str, values: &[Value]) -> io::Result<Vec<Row>>;
}

impl dyn Database + '_ {
    /// Asks for rows, each read as one thing.
    ///
    /// # Errors
    /// Those of the database and of `read`.
    pub fn all<T>(
        &self,
        sql: &str,
        values: &[Value],
        read: impl Fn(&Row) -> io::Result<T>,
    ) -> io::Result<Vec<T>> {
        self.query(sql, values)?.iter().map(read).collect()
    }

    /// Asks for one row, if there is one.
    ///
    /// # Errors
    /// Those of the database and of `read`.
    pub fn find<T>(
        &self,
        sql: &str,
        values: &[Value],
        read: impl Fn(&Row) -> io::Result<T>,
    ) -> io::Result<Option<T>> {
        self.query(sql, values)?.first().map(read).transpose()
    }

    /// Asks for one value, which there is.
    ///
    /// # Errors
    /// Those of the database; if there is none.
    pub fn value<T: Column>(&self, sql: &str, values: &[Value]) -> io::Result<T> {
        self.find(sql, values, Row::first)?.ok_or_else(|| unreadable("a row is missing"))
    }
}

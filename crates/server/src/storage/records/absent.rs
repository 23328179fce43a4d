//! A stand-in for PostgreSQL in a build without the feature `cluster`: no database can be opened.

use super::database::Database;
use crate::cluster::absent::lacks;
use std::{convert::Infallible, io};

/// Stand-in for a database.
pub struct Postgres(Infallible);

impl Postgres {
    pub fn open(_: &str) -> io::Result<Self> {
        Err(io::Error::new(io::ErrorKind::InvalidInput, lacks("PostgreSQL")))
    }

    pub fn migrate(&mut self, _: &[&str]) -> io::Result<i64> {
        match self.0 {}
    }

    pub fn read<T>(&mut self, _: impl FnOnce(&dyn Database) -> io::Result<T>) -> io::Result<T> {
        match self.0 {}
    }

    pub fn write<T>(&mut self, _: impl FnOnce(&dyn Database) -> io::Result<T>) -> io::Result<T> {
        match self.0 {}
    }
}

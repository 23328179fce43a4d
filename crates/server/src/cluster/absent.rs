//! Stand-ins for a build without the feature `cluster`: they have no values, and opening one fails.

use std::{
    collections::HashSet,
    convert::Infallible,
    io::Write,
    path::{Path, PathBuf},
    str::FromStr,
    time::SystemTime,
};
use sudare_roles::error::{Error, Result};

/// Explains that the build lacks something, and how to get it.
pub fn lacks(what: &str) -> String {
    format!("this build has no {what}: install with `--features cluster`")
}

/// Stand-in for a store of objects that servers share.
pub struct Bucket(Infallible);

impl Bucket {
    pub fn open(_: &str) -> Result<Self> {
        Err(Error::Usage(lacks("shared stores of objects")))
    }

    pub fn is_usable(&self) -> bool {
        match self.0 {}
    }

    pub fn has(&self, _: &str) -> Result<bool> {
        match self.0 {}
    }

    pub fn put(&self, _: &str, _: &Path) -> Result<()> {
        match self.0 {}
    }

    pub fn get(&self, _: &str, _: &mut impl Write) -> Result<()> {
        match self.0 {}
    }

    pub fn remove(&self, _: &str) -> Result<()> {
        match self.0 {}
    }

    pub fn list(&self, _: &str) -> Result<HashSet<String>> {
        match self.0 {}
    }

    pub fn list_with_times(&self, _: &str) -> Result<Vec<(String, SystemTime)>> {
        match self.0 {}
    }

    pub fn unfinished(&self) -> Result<Vec<PathBuf>> {
        match self.0 {}
    }
}

/// Stand-in for a collector of spans.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Collector(Infallible);

impl FromStr for Collector {
    type Err = String;

    fn from_str(_: &str) -> core::result::Result<Self, String> {
        Err(lacks("OpenTelemetry"))
    }
}

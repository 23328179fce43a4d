//! The coding of a table: how its file was read when keys were planned, for all later steps.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

use crate::{
    clear::{
        groups::KeyColumn,
        reading::{Reading, is_text},
    },
    error::{Error, Result},
    os::files,
};
use serde::{Deserialize, Serialize};
use std::path::Path;
use sudare_table::{Encoding, Table};

/// Maximum size of the file, in bytes.
const MAX_BYTES: u64 = 256 << 20;

/// Version of the file.
const VERSION: u32 = 1;

/// The reading of the owner's table when the keys were planned.
///
/// The JSON file stays with the owner: it has the names of columns, categories, and the numbers that
/// replace missing ones.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Coding {
    version: u32,
    /// Id of the keys.
    key_id: String,
    /// The column that groups rows, which is the target of the encoding.
    by: Option<String>,
    encoding: Encoding,
    delimiter: Option<char>,
    decimal: Option<char>,
    missing_words: Option<Vec<String>>,
}

impl Coding {
    /// Name of the file, in the directory of the keys.
    pub const FILE: &str = "coding.json";

    /// Creates the coding of a table that `reading` read, under keys of this id.
    #[must_use]
    pub fn new(reading: &Reading, by: Option<&str>, encoding: Encoding, key_id: String) -> Self {
        Self {
            version: VERSION,
            key_id,
            by: by.map(str::to_owned),
            encoding,
            delimiter: reading.delimiter,
            decimal: reading.decimal,
            missing_words: reading.missing_words.clone(),
        }
    }

    /// Reads the file of a coding, which must have been made with the keys of this id.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::Parse`] for another file, and for the coding of other keys.
    pub fn read(path: &Path, key_id: &str) -> Result<Self> {
        let bad = |problem: String| Error::Parse {
            path: path.into(),
            what: "coding of a table",
            problem: format!(
                "{problem}; name the file that `sudare keygen` made with these keys, or \
                              remove it and pass the options of the table again"
            ),
        };
        let text = files::read_text(path, MAX_BYTES)?;
        let coding: Self = serde_json::from_str(&text).map_err(|error| bad(error.to_string()))?;
        if coding.version != VERSION {
            return Err(bad(format!("it has version {}, not {VERSION}", coding.version)));
        }
        if coding.key_id != key_id {
            return Err(bad(format!("it belongs to other keys, {}, not {key_id}", coding.key_id)));
        }
        Ok(coding)
    }

    /// Returns the JSON text of the file.
    ///
    /// # Errors
    /// [`Error::Bug`] if it cannot be written.
    pub fn to_json(&self) -> Result<String> {
        let text = serde_json::to_string_pretty(self);
        text.map(|text| text + "\n").map_err(|error| Error::Bug(error.to_string()))
    }

    /// Returns the column that groups rows, if any.
    #[must_use]
    pub fn by(&self) -> Option<&str> {
        self.by.as_deref()
    }

    /// Returns the target, which is no feature.
    #[must_use]
    pub fn target(&self) -> Option<&str> {
        self.encoding.target().filter(|_| self.by.is_none())
    }

    /// Returns the encoding of the columns.
    #[must_use]
    pub fn encoding(&self) -> &Encoding {
        &self.encoding
    }

    /// Returns the number format of the table, without its encoding.
    #[must_use]
    pub fn reading(&self) -> Reading {
        Reading {
            delimiter: self.delimiter,
            decimal: self.decimal,
            missing_words: self.missing_words.clone(),
            ..Reading::default()
        }
    }

    /// Reads a table of the same columns, with the column that groups rows, if any.
    ///
    /// # Errors
    /// [`Error::TableFile`], which locates the first fault.
    pub fn table(&self, path: &Path) -> Result<(Table, Option<KeyColumn>)> {
        let frame = self.reading().frame(path, self.encoding.read_options())?;
        let in_table = Error::in_table(path);
        // An encoding accepts rows without labels, but here they are needed.
        if let Some(target) = self.encoding.target() {
            frame.expect(&[target.to_owned()]).map_err(&in_table)?;
        }
        let text = self.by.as_deref().is_some_and(|by| is_text(&frame, by));
        let table = self.encoding.apply(frame).map_err(in_table)?;
        let key = self.by.as_ref().map(|_| KeyColumn::of_target(&table, text)).transpose()?;
        Ok((table, key))
    }
}

//! A decrypted model that scores rows.

use serde::Serialize;
use std::path::Path;
use sudare_roles::{clear::model::Model, error::Result};

/// A decrypted model that scores rows.
#[derive(Clone)]
pub struct Scorer(Model);

/// Facts about a model, for the user.
#[derive(Debug, Serialize)]
pub struct About<'a> {
    /// The predicted column.
    pub target: &'a str,
    /// The classes of the target.
    pub classes: &'a [String],
    /// Columns of a table that the model uses.
    pub columns: Vec<&'a str>,
    /// Number of rows that the model was trained on.
    pub rows: usize,
}

impl Scorer {
    /// Reads the file of a model that this page or `sudare decrypt` wrote. Messages call it `name`.
    ///
    /// # Errors
    /// [`Error::Parse`](sudare_roles::error::Error::Parse) for any other file.
    pub fn read(text: &[u8], name: &str) -> Result<Self> {
        Model::from_json(text, Path::new(name)).map(Self)
    }

    pub(crate) fn of(model: Model) -> Self {
        Self(model)
    }

    pub(crate) fn model(&self) -> &Model {
        &self.0
    }

    /// Returns facts about the model.
    #[must_use]
    pub fn about(&self) -> About<'_> {
        let Model { target, classes, rows, .. } = &self.0;
        About { target, classes, columns: self.columns(), rows: *rows }
    }

    /// Returns true for a column that the model's encoding has, and for the target.
    pub(crate) fn knows(&self, column: &str) -> bool {
        let left_out = self.0.encoding.iter().flat_map(|encoding| encoding.left_out());
        column == self.0.target
            || self.columns().contains(&column)
            || left_out.map(|(name, _)| name).any(|name| name == column)
    }

    /// Returns the columns of a table that become features.
    fn columns(&self) -> Vec<&str> {
        match &self.0.encoding {
            None => self.0.columns.iter().map(String::as_str).collect(),
            Some(encoding) => {
                let left_out: Vec<&str> = encoding.left_out().map(|(name, _)| name).collect();
                encoding.inputs().filter(|name| !left_out.contains(name)).collect()
            }
        }
    }
}

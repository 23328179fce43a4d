//! A model as the page shows it and gives it away.

use crate::table::{Csv, reading};
use sudare_apps::table::Missing;
use sudare_roles::{
    error::{Error, Result},
    model::Model,
    report::Report,
};

/// A decrypted model.
pub struct Shown {
    model: Model,
}

impl Shown {
    pub(crate) fn new(model: Model) -> Self {
        Self { model }
    }

    /// The model itself.
    #[must_use]
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// The file that `sudare decrypt` writes.
    ///
    /// # Errors
    /// [`Error::Bug`].
    pub fn json(&self) -> Result<String> {
        let text = serde_json::to_string_pretty(&self.model);
        text.map(|text| text + "\n").map_err(|error| Error::Bug(error.to_string()))
    }

    /// How well the model does on a table, for pages.
    ///
    /// # Errors
    /// [`Error::TableFile`], [`Error::Usage`] and [`Error::Metric`] for a table without the columns
    /// and classes of the model.
    pub fn report(&self, csv: &Csv) -> Result<Report> {
        let Model { columns, target, classes, encoding, .. } = &self.model;
        // What becomes of gaps stands in the encoding, if there were any.
        let reading = reading(Missing::Refuse);
        let labels = (&target[..], &classes[..]);
        let table = reading.rows_of_text(csv.parts(), columns, labels, encoding.as_ref())?;
        Report::new(&self.model, &table, None)
    }
}

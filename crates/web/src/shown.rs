//! Results in the forms that the page shows and downloads.

use crate::table::Csv;
use serde::Serialize;
use sudare_roles::{
    clear::{
        decrypted::Decrypted,
        model::{Model, NamedGroups, NamedHistograms, NamedStatistics},
        report::{Figures, Report},
    },
    error::{Error, Result},
};
use sudare_table::Missing;

/// A decrypted result.
#[derive(Serialize)]
#[serde(untagged)]
pub enum Shown {
    /// The result of a training.
    Model(Box<Model>),
    /// Statistics of the columns of a table.
    Statistics(Box<NamedStatistics>),
    /// Statistics of columns by groups of rows.
    Groups(NamedGroups),
    /// Histograms of columns.
    Histograms(NamedHistograms),
}

impl Shown {
    pub(crate) fn new(decrypted: Decrypted) -> Result<Self> {
        Ok(match decrypted {
            Decrypted::Model(trained) => Self::Model(Box::new(trained.model)),
            Decrypted::Statistics { columns, statistics } => {
                Self::Statistics(Box::new(NamedStatistics::new(columns, statistics)))
            }
            Decrypted::Groups { key, labels, columns, statistics } => {
                Self::Groups(NamedGroups::new(columns, (key, labels), statistics))
            }
            Decrypted::Histograms { rows, columns, histograms } => {
                let quartiles = NamedHistograms::QUARTILES.to_vec();
                Self::Histograms(NamedHistograms::new(columns, rows, histograms, quartiles)?)
            }
            // The page makes no keys for scoring, so such a result is from elsewhere.
            Decrypted::Scores { .. } => {
                return Err(Error::Usage(
                    "this page does not show scores of rows: decrypt them with `sudare decrypt`"
                        .into(),
                ));
            }
        })
    }

    /// Returns the file that `sudare decrypt` writes.
    ///
    /// # Errors
    /// [`Error::Bug`].
    pub fn json(&self) -> Result<String> {
        let text = serde_json::to_string_pretty(self);
        text.map(|text| text + "\n").map_err(|error| Error::Bug(error.to_string()))
    }

    /// Returns the table that `sudare decrypt` writes in CSV.
    ///
    /// # Errors
    /// [`Error::Bug`].
    pub fn csv(&self) -> Result<String> {
        match self {
            Self::Model(model) => model.to_csv(),
            Self::Statistics(named) => named.to_csv(),
            Self::Groups(named) => named.to_csv(),
            Self::Histograms(named) => named.to_csv(),
        }
    }

    /// Returns figures of columns for pages. Returns `None` for a model.
    #[must_use]
    pub fn figures(&self) -> Option<Figures> {
        match self {
            Self::Model(_) => None,
            Self::Statistics(named) => Some(Figures::of_statistics(named)),
            Self::Groups(named) => Some(Figures::of_groups(named)),
            Self::Histograms(named) => Some(Figures::of_histograms(named)),
        }
    }

    /// Measures a model on a table, for pages.
    ///
    /// # Errors
    /// [`Error::TableFile`], [`Error::Usage`] and [`Error::Metric`] for a table without the columns
    /// and classes of the model; [`Error::Usage`] for other results.
    pub fn report(&self, csv: &Csv) -> Result<Report> {
        let Self::Model(model) = self else {
            return Err(Error::Usage("only a model can be measured on a table".into()));
        };
        let Model { columns, target, classes, encoding, .. } = &**model;
        // If the training table had gaps, the model's encoding handles them.
        let csv = csv.fitting(model)?;
        let reading = csv.reading(Missing::Refuse);
        let labels = (&target[..], &classes[..]);
        let table = reading.rows_of_text(csv.parts(), columns, labels, encoding.as_ref())?;
        Report::new(model, &table, None)
    }
}

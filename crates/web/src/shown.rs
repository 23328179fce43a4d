//! Results in the forms that the page shows and downloads.

use crate::{scorer::Scorer, table::Csv};
use serde::Serialize;
use sudare_apps::logreg::Scores;
use sudare_roles::{
    clear::{
        decrypted::Decrypted,
        model::{Model, NamedGroups, NamedHistograms, NamedScores, NamedStatistics},
        reading::Reading,
        report::{Figures, Report},
    },
    error::{Error, Result},
};

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
    /// Scores of rows.
    Scores(NamedScores),
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
            Decrypted::Scores { scores, classes, text_labels, members } => {
                let Scores { scores, probabilities } = scores;
                let members = members.as_deref();
                let named = NamedScores::new(scores, probabilities, &classes, members)?;
                Self::Scores(NamedScores { text_labels, ..named })
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
            Self::Scores(named) => named.to_csv(),
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
            Self::Scores(named) => Some(Figures::of_scores(named)),
        }
    }

    /// Returns the model for scoring rows. Returns `None` for other results.
    #[must_use]
    pub fn scorer(&self) -> Option<Scorer> {
        match self {
            Self::Model(model) => Some(Scorer::of((**model).clone())),
            _ => None,
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
        // The model's encoding says how the columns are read, if they are not plain numbers.
        let reading = Reading::default();
        let labels = (&target[..], &classes[..]);
        let table = reading.rows_of_text(csv.parts(), columns, labels, encoding.as_ref())?;
        Report::new(model, &table, None)
    }
}

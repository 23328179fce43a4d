//! The chosen table, and the plan of a job.

pub mod columns;

use self::columns::{Chosen, Rewritten};
use serde::Deserialize;
use std::{path::Path, sync::Arc};
use sudare_roles::{clear::reading::Reading, error::Result};
use sudare_table::{Categorical, EncodingOptions, Frame, Missing};

/// The text of a CSV file.
#[derive(Clone)]
pub struct Csv {
    name: String,
    text: Arc<[u8]>,
    /// The columns of categories, if the text was rewritten.
    categorical: Option<Vec<String>>,
}

/// The owner's choice of a job on a table.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Choice {
    /// The job.
    pub job: Wanted,
    /// The treatment of missing values.
    pub missing: Missing,
    /// The columns that the job uses, including the target. Default: all columns, with the types
    /// that their values suggest.
    #[serde(default)]
    pub columns: Option<Vec<Chosen>>,
}

/// The job on a table. Kinds have the service's names.
#[derive(Debug, Clone, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
pub enum Wanted {
    /// A logistic regression.
    Train {
        /// The column to learn.
        target: String,
        /// Number of iterations. Default: chosen for the table.
        iterations: Option<u32>,
    },
    /// Statistics of columns.
    Stats {},
    /// Statistics of columns by groups of rows.
    Groups {
        /// The column whose values define the groups.
        by: String,
    },
    /// Counts of values in bins of each column.
    Histogram {
        /// Number of bins of each column.
        bins: usize,
    },
}

impl Csv {
    /// Creates a table from the text of a file. Messages call the file `name`.
    #[must_use]
    pub fn new(name: String, text: Vec<u8>) -> Self {
        Self { name, text: text.into(), categorical: None }
    }

    /// Returns the name of the file in messages.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn parts(&self) -> (&[u8], &Path) {
        (&self.text, Path::new(&self.name))
    }

    /// Returns the rewritten table of a choice, for the command. Returns `None` if the job uses the
    /// file as it is.
    ///
    /// # Errors
    /// The errors of [`Csv::chosen`].
    pub fn rewritten(&self, choice: &Choice) -> Result<Option<Rewritten>> {
        let Self { text, categorical, .. } = self.chosen(choice)?;
        Ok(categorical.map(|categorical| Rewritten { text, categorical }))
    }

    pub(crate) fn rewritten_as(&self, text: String, categorical: Vec<String>) -> Self {
        let name = self.name.clone();
        Self { name, text: text.into_bytes().into(), categorical: Some(categorical) }
    }

    /// Returns the table as the file has it.
    pub(crate) fn frame(&self, target: Option<&str>) -> Result<Frame> {
        let (text, path) = self.parts();
        // The user chooses the treatment of gaps after this, so gaps must not be refused yet.
        let reading = self.reading(Missing::Mean);
        let options = reading.encoding.read_options(target);
        reading.frame_of_text(text, path, options)
    }

    /// Returns the reading of the command with `--categorical all`, or with the columns of
    /// categories of a rewritten text.
    pub(crate) fn reading(&self, missing: Missing) -> Reading {
        let (categorical, marks) = match &self.categorical {
            None => (Categorical::Every, None),
            Some(names) => (Categorical::Columns(names.clone()), Some((',', '.'))),
        };
        let encoding = EncodingOptions { categorical, missing, ..EncodingOptions::default() };
        let (delimiter, decimal) = marks.unzip();
        Reading { encoding, delimiter, decimal, ..Reading::default() }
    }
}

impl Wanted {
    pub(crate) fn target(&self) -> Option<&str> {
        match self {
            Self::Train { target, .. } => Some(target),
            Self::Stats {} | Self::Groups { .. } | Self::Histogram { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn csv(text: &str) -> Csv {
        Csv::new("t.csv".into(), text.into())
    }

    #[test]
    fn what_cannot_be_trained_on_is_refused() {
        let plan = |text: &str, missing| {
            let job = Wanted::Train { target: "y".into(), iterations: None };
            csv(text)
                .plan(&Choice { job, missing, columns: None })
                .map(|_| ())
                .map_err(|error| error.kind())
        };
        assert_eq!(plan("a,y\n1,0\n2,0\n", Missing::Refuse), Err("ConstantTarget".into()));
        assert_eq!(plan("a,z\n1,0\n2,1\n", Missing::Refuse), Err("UnknownTarget".into()));
        let gaps = "a,y\n1,0\n,1\n3,1\n4,0\n";
        assert!(plan(gaps, Missing::Refuse).is_err());
        assert_eq!(plan(gaps, Missing::Mean), Ok(()));
    }

    #[test]
    fn choices_are_read_and_refused() {
        let plan = |text: &str| {
            let choice: Choice = serde_json::from_str(text).map_err(|_| "unread".to_owned())?;
            let owner = csv("ward,age\n1,30\n2,50\n1,70\n").plan(&choice);
            owner.and_then(|owner| owner.summary()).map(|s| s.named).map_err(|error| error.kind())
        };
        let wanted = |job: &str| plan(&format!("{{\"missing\":\"refuse\",\"job\":{job}}}"));
        assert_eq!(wanted("{\"kind\":\"stats\"}"), Ok("stats:3x2".into()));
        assert_eq!(wanted("{\"kind\":\"groups\",\"by\":\"ward\"}"), Ok("groups:3x1x2".into()));
        assert_eq!(wanted("{\"kind\":\"histogram\",\"bins\":4}"), Ok("histogram:3x2x4".into()));
        assert_eq!(wanted("{\"kind\":\"groups\",\"by\":\"wing\"}"), Err("UnknownColumn".into()));
        assert!(wanted("{\"kind\":\"histogram\",\"bins\":1}").is_err());
        assert_eq!(wanted("{\"kind\":\"stats\",\"bins\":4}"), Err("unread".into()));
        assert_eq!(wanted("{\"kind\":\"predict\"}"), Err("unread".into()));
    }
}

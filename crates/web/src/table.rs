//! The chosen table, and the owner's choice of a job on it.

pub mod columns;

use self::columns::{Chosen, suggested};
use serde::Deserialize;
use std::{path::Path, sync::Arc};
use sudare_roles::{clear::reading::Reading, error::Result};
use sudare_table::{Frame, Missing, Unseen};

/// The text of a CSV file.
#[derive(Clone)]
pub struct Csv {
    name: String,
    text: Arc<[u8]>,
}

/// The owner's choice of a job on a table.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Choice {
    /// The job.
    pub job: Wanted,
    /// The columns that the job uses, including the target. Default: the columns that the coding
    /// suggests, with the types that it suggests.
    #[serde(default)]
    pub columns: Option<Vec<Chosen>>,
    /// The treatment of missing values.
    #[serde(default)]
    pub missing: Missing,
    /// The treatment of categories in later tables that this table does not have.
    #[serde(default)]
    pub unseen: Unseen,
    /// Number of rows below which a category is joined with others. 0 joins nothing.
    #[serde(default)]
    pub rare: usize,
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
        Self { name, text: text.into() }
    }

    /// Returns the name of the file in messages.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn parts(&self) -> (&[u8], &Path) {
        (&self.text, Path::new(&self.name))
    }

    /// Returns the table as the file has it.
    pub(crate) fn frame(&self) -> Result<Frame> {
        let (text, path) = self.parts();
        Reading::default().frame_of_text(text, path, suggested().read_options(None))
    }
}

impl Choice {
    /// Creates the choice of a job with suggested columns, which refuses missing values.
    #[must_use]
    pub fn new(job: Wanted) -> Self {
        let missing = Missing::Refuse;
        let unseen = Unseen::Refuse;
        Self { job, columns: None, missing, unseen, rare: 0 }
    }
}

impl Wanted {
    /// Returns the column that is no feature of the job: the target, or the column of groups.
    pub(crate) fn labels(&self) -> Option<&str> {
        match self {
            Self::Train { target, .. } => Some(target),
            Self::Groups { by } => Some(by),
            Self::Stats {} | Self::Histogram { .. } => None,
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
    fn unusable_tables_for_training_are_refused() {
        let plan = |text: &str, missing| {
            let choice = Choice::new(Wanted::Train { target: "y".into(), iterations: None });
            csv(text).plan(&Choice { missing, ..choice }).map(|_| ()).map_err(|error| error.kind())
        };
        assert_eq!(plan("a,y\n1,0\n2,0\n", Missing::Refuse), Err("ConstantTarget".into()));
        assert_eq!(plan("a,z\n1,0\n2,1\n", Missing::Refuse), Err("UnknownTarget".into()));
        let gaps = "a,y\n1,0\n,1\n3,1\n4,0\n";
        assert_eq!(plan(gaps, Missing::Refuse), Err("Gap".into()));
        assert_eq!(plan(gaps, Missing::Mean), Ok(()));
    }

    #[test]
    fn choices_are_read_and_refused() {
        let plan = |text: &str| {
            let choice: Choice = serde_json::from_str(text).map_err(|_| "unread".to_owned())?;
            let owner = csv("ward,age\nA,30\nB,50\nA,70\n").plan(&choice);
            owner.and_then(|owner| owner.summary()).map(|s| s.named).map_err(|error| error.kind())
        };
        let wanted = |job: &str| plan(&format!("{{\"missing\":\"most_frequent\",\"job\":{job}}}"));
        assert_eq!(wanted("{\"kind\":\"stats\"}"), Ok("stats:3x3".into()));
        assert_eq!(wanted("{\"kind\":\"groups\",\"by\":\"ward\"}"), Ok("groups:3x1x2".into()));
        assert_eq!(wanted("{\"kind\":\"histogram\",\"bins\":4}"), Ok("histogram:3x3x4".into()));
        assert_eq!(wanted("{\"kind\":\"groups\",\"by\":\"wing\"}"), Err("UnknownColumns".into()));
        assert!(wanted("{\"kind\":\"histogram\",\"bins\":1}").is_err());
        assert_eq!(wanted("{\"kind\":\"stats\",\"bins\":4}"), Err("unread".into()));
        assert_eq!(wanted("{\"kind\":\"predict\"}"), Err("unread".into()));
    }
}

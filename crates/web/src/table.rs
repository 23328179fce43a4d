//! The chosen table, and the plan of a job.

use serde::{Deserialize, Serialize};
use std::{collections::HashSet, path::Path};
use sudare_roles::{clear::reading::Reading, error::Result};
use sudare_table::{Categorical, EncodingOptions, Frame, Missing, TextColumn};

/// Maximum number of different values to count in a column.
const MAX_COUNTED: usize = 1000;

/// The text of a CSV file.
pub struct Csv {
    name: String,
    text: Vec<u8>,
}

/// The columns of a CSV file.
#[derive(Debug, Serialize)]
pub struct Contents {
    /// Number of rows.
    pub rows: usize,
    /// Columns in the order of the file.
    pub columns: Vec<Column>,
}

/// A column of the file.
#[derive(Debug, Serialize)]
pub struct Column {
    /// The name of the column.
    pub name: String,
    /// True if the column is text.
    pub text: bool,
    /// Number of rows without a value.
    pub missing: usize,
    /// Number of different values, up to a maximum.
    pub values: usize,
    /// True if there are more different values.
    pub more: bool,
}

/// The owner's choice of a job on a table.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Choice {
    /// The job.
    pub job: Wanted,
    /// The treatment of missing values.
    pub missing: Missing,
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
        Self { name, text }
    }

    /// Returns the name of the file in messages.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn parts(&self) -> (&[u8], &Path) {
        (&self.text, Path::new(&self.name))
    }

    /// Returns the columns of the file.
    ///
    /// # Errors
    /// [`Error::TableFile`](sudare_roles::error::Error::TableFile), which locates the first fault.
    pub fn contents(&self) -> Result<Contents> {
        let (text, path) = self.parts();
        // The user chooses the treatment of gaps after this, so gaps must not be refused yet.
        let options = reading(Missing::Mean).encoding.read_options(None);
        let frame = reading(Missing::Mean).frame_of_text(text, path, options)?;
        let columns = frame.columns().iter().enumerate();
        let columns = columns.map(|(index, name)| column(&frame, index, name.clone())).collect();
        Ok(Contents { rows: frame.rows(), columns })
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

/// Returns the reading of the command with `--categorical all`.
pub(crate) fn reading(missing: Missing) -> Reading {
    let categorical = Categorical::Every;
    let encoding = EncodingOptions { categorical, missing, ..EncodingOptions::default() };
    Reading { encoding, ..Reading::default() }
}

fn column(frame: &Frame, index: usize, name: String) -> Column {
    if let Some(text) = frame.text(index) {
        let missing = text.codes().iter().filter(|&&code| code == TextColumn::MISSING).count();
        let values = text.values().len();
        let more = values > MAX_COUNTED;
        return Column { name, text: true, missing, values: values.min(MAX_COUNTED), more };
    }
    let width = frame.columns().len();
    let numbers = frame.numbers().iter().skip(index).step_by(width);
    let mut missing = 0_usize;
    let mut values = HashSet::new();
    let mut more = false;
    for number in numbers {
        if number.is_nan() {
            missing = missing.saturating_add(1);
        } else if values.len() < MAX_COUNTED {
            values.insert(number.to_bits());
        } else {
            // The set is full. A column of measurements may have another value in every row.
            more |= !values.contains(&number.to_bits());
        }
    }
    Column { name, text: false, missing, values: values.len(), more }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn csv(text: &str) -> Csv {
        Csv::new("t.csv".into(), text.into())
    }

    #[test]
    fn columns_are_told_as_they_are() {
        let contents = csv("\u{feff}ward;age;y\r\n\"A\";1,5;0\r\nB;NA;1\r\n;1,5;1\r\n").contents();
        let Contents { rows, columns } = contents.unwrap();
        let found: Vec<_> =
            columns.iter().map(|c| (&c.name[..], c.text, c.missing, c.values, c.more)).collect();
        assert_eq!(rows, 3);
        assert_eq!(
            found,
            [("ward", true, 1, 2, false), ("age", false, 1, 1, false), ("y", false, 0, 2, false)]
        );
        let many: String = (0..=MAX_COUNTED).map(|i| format!("{i}\n")).collect();
        let column = &csv(&format!("x\n{many}")).contents().unwrap().columns[0];
        assert!(column.more && column.values == MAX_COUNTED);
        assert_eq!(csv("a,b\n1\n").contents().unwrap_err().kind(), "Ragged");
    }

    #[test]
    fn what_cannot_be_trained_on_is_refused() {
        let plan = |text: &str, missing| {
            let job = Wanted::Train { target: "y".into(), iterations: None };
            csv(text).plan(&Choice { job, missing }).map(|_| ()).map_err(|error| error.kind())
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

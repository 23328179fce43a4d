//! The table that was chosen, and what is planned for it.

use crate::owner::Owner;
use serde::{Deserialize, Serialize};
use std::{collections::HashSet, path::Path};
use sudare_apps::{
    logreg::{self, Preparation, Prepared, TrainSpec},
    table::{Categorical, EncodingOptions, Frame, Missing, TextColumn},
};
use sudare_roles::{
    error::{Error, Result},
    job::Job,
    reading::Reading,
};

/// Different values of a column that are counted.
const MOST_COUNTED: usize = 1000;

/// The text of a CSV file.
pub struct Csv {
    name: String,
    text: Vec<u8>,
}

/// What a CSV file has.
#[derive(Debug, Serialize)]
pub struct Contents {
    /// Rows.
    pub rows: usize,
    /// In the order of the file.
    pub columns: Vec<Column>,
}

/// A column as the file has it.
#[derive(Debug, Serialize)]
pub struct Column {
    /// The name of the column.
    pub name: String,
    /// Whether it is text.
    pub text: bool,
    /// Rows without a value.
    pub missing: usize,
    /// Different values, as far as these are counted.
    pub values: usize,
    /// Whether there are more.
    pub more: bool,
}

/// What its owner wants of a table.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Choice {
    /// The column to learn.
    pub target: String,
    /// What becomes of missing values.
    pub missing: Missing,
    /// Iterations; as many as suit the table if left out.
    pub iterations: Option<u32>,
}

impl Csv {
    /// The text of a file that messages call `name`.
    #[must_use]
    pub fn new(name: String, text: Vec<u8>) -> Self {
        Self { name, text }
    }

    /// What messages call it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn parts(&self) -> (&[u8], &Path) {
        (&self.text, Path::new(&self.name))
    }

    /// What there is to choose from.
    ///
    /// # Errors
    /// [`Error::TableFile`] names the place of the first fault.
    pub fn contents(&self) -> Result<Contents> {
        let (text, path) = self.parts();
        let options = reading(Missing::Mean).encoding.read_options(None);
        let frame = reading(Missing::Mean).frame_of_text(text, path, options)?;
        let columns = frame.columns().iter().enumerate();
        let columns = columns.map(|(index, name)| column(&frame, index, name.clone())).collect();
        Ok(Contents { rows: frame.rows(), columns })
    }

    /// Plans a training.
    ///
    /// # Errors
    /// [`Error::TableFile`], [`Error::Table`] and [`Error::Apps`] for a table that cannot be trained
    /// on.
    pub fn plan(&self, choice: &Choice) -> Result<Owner> {
        let reading = reading(choice.missing);
        let (table, encoding) = reading.table_of_text(self.parts(), Some(&choice.target))?;
        table.check_for_training().map_err(Error::in_table(self.parts().1))?;
        let (rows, features) = (table.rows(), table.features());
        let mut spec = TrainSpec::recommended(rows, features, Preparation::Whiten)?;
        spec.iterations = choice.iterations.unwrap_or(spec.iterations);
        spec.classes = table.classes()?.len() as u32;
        let spec = spec.with_fitting_range(&Prepared::new(&table, &spec, rows, None)?)?;
        Owner::new(Job::Train(logreg::Job { rows, features, spec }), table, encoding)
    }
}

/// As the command reads with `--categorical all`.
pub(crate) fn reading(missing: Missing) -> Reading {
    let categorical = Categorical::Every;
    let encoding = EncodingOptions { categorical, missing, ..EncodingOptions::default() };
    Reading { encoding, ..Reading::default() }
}

fn column(frame: &Frame, index: usize, name: String) -> Column {
    if let Some(text) = frame.text(index) {
        let missing = text.codes().iter().filter(|&&code| code == TextColumn::MISSING).count();
        let values = text.values().len();
        let more = values > MOST_COUNTED;
        return Column { name, text: true, missing, values: values.min(MOST_COUNTED), more };
    }
    let width = frame.columns().len();
    let numbers = frame.numbers().iter().skip(index).step_by(width);
    let (mut missing, mut values, mut more) = (0_usize, HashSet::new(), false);
    for number in numbers {
        if number.is_nan() {
            missing = missing.saturating_add(1);
        } else if values.len() < MOST_COUNTED {
            values.insert(number.to_bits());
        } else {
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
        let many: String = (0..=MOST_COUNTED).map(|i| format!("{i}\n")).collect();
        let column = &csv(&format!("x\n{many}")).contents().unwrap().columns[0];
        assert!(column.more && column.values == MOST_COUNTED);
        assert_eq!(csv("a,b\n1\n").contents().unwrap_err().kind(), "Ragged");
    }

    #[test]
    fn what_cannot_be_trained_on_is_refused() {
        let plan = |text: &str, missing| {
            let choice = Choice { target: "y".into(), missing, iterations: None };
            csv(text).plan(&choice).map(|_| ()).map_err(|error| error.kind())
        };
        assert_eq!(plan("a,y\n1,0\n2,0\n", Missing::Refuse), Err("ConstantTarget".into()));
        assert_eq!(plan("a,z\n1,0\n2,1\n", Missing::Refuse), Err("UnknownTarget".into()));
        let gaps = "a,y\n1,0\n,1\n3,1\n4,0\n";
        assert!(plan(gaps, Missing::Refuse).is_err());
        assert_eq!(plan(gaps, Missing::Mean), Ok(()));
    }
}

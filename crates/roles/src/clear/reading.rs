//! Reads tables with text, gaps, and the number formats of any country.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

use crate::{
    clear::groups::KeyColumn,
    error::{Error, Result},
};
use std::{io::Cursor, path::Path};
use sudare_apps::pool::{PoolError, Schema};
use sudare_table::{Encoding, EncodingOptions, Frame, ReadOptions, Selection, Table, lacking};

/// Options for reading a file and encoding its columns as numbers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reading {
    /// The encoding of text and of gaps.
    pub encoding: EncodingOptions,
    /// Delimiter of a CSV file, detected if `None`.
    pub delimiter: Option<char>,
    /// Decimal mark of a CSV file, detected if `None`.
    pub decimal: Option<char>,
    /// Words of a CSV file that mean a missing value in any column. The default is
    /// [`ReadOptions::MISSING`], in columns of numbers only.
    pub missing_words: Option<Vec<String>>,
}

impl Reading {
    /// Reads the table in a file, with labels from the column `target`, and returns the encoding of
    /// its columns.
    ///
    /// # Errors
    /// [`Error::Table`] and [`Error::TableFile`], which locate the first fault.
    pub fn table(&self, path: &Path, target: Option<&str>) -> Result<(Table, Encoding)> {
        self.fitted(self.frame(path, self.encoding.read_options(target))?, path, target)
    }

    /// Same as [`Reading::table`], for the text of a CSV file. Messages call it `path`.
    ///
    /// # Errors
    /// The errors of [`Reading::table`].
    pub fn table_of_text(
        &self,
        (text, path): (&[u8], &Path),
        target: Option<&str>,
    ) -> Result<(Table, Encoding)> {
        self.fitted(
            self.frame_of_text(text, path, self.encoding.read_options(target))?,
            path,
            target,
        )
    }

    /// Reads the table in a file, and returns it with the column `by` that groups its rows and the
    /// encoding. The column `target`, if any, is no feature.
    ///
    /// # Errors
    /// The errors of [`Reading::table`] and [`KeyColumn::of_target`].
    pub fn grouped(
        &self,
        path: &Path,
        by: &str,
        target: Option<&str>,
    ) -> Result<(Table, KeyColumn, Encoding)> {
        let mut reading = self.clone();
        reading.encoding.selection.drop.extend(target.map(str::to_owned));
        let frame = reading.frame(path, reading.encoding.read_options(Some(by)))?;
        reading.fitted_groups(frame, path, by)
    }

    /// Same as [`Reading::grouped`], for the text of a CSV file. Messages call it `path`.
    ///
    /// # Errors
    /// The errors of [`Reading::grouped`].
    pub fn grouped_of_text(
        &self,
        text: &[u8],
        path: &Path,
        by: &str,
    ) -> Result<(Table, KeyColumn, Encoding)> {
        let frame = self.frame_of_text(text, path, self.encoding.read_options(Some(by)))?;
        self.fitted_groups(frame, path, by)
    }

    fn fitted_groups(
        &self,
        frame: Frame,
        path: &Path,
        by: &str,
    ) -> Result<(Table, KeyColumn, Encoding)> {
        frame.expect(&[by.to_owned()]).map_err(Error::in_table(path))?;
        let is_text = is_text(&frame, by);
        let (table, encoding) = self.fitted(frame, path, Some(by))?;
        let key = KeyColumn::of_target(&table, is_text)?;
        Ok((table, key, encoding))
    }

    fn fitted(&self, frame: Frame, path: &Path, target: Option<&str>) -> Result<(Table, Encoding)> {
        let in_table = Error::in_table(path);
        let encoding = Encoding::fit(&frame, target, &self.encoding).map_err(&in_table)?;
        let table = encoding.apply(frame).map_err(in_table)?;
        Ok((table, encoding))
    }

    /// Reads the table of one owner of several, and encodes it by the common schema.
    ///
    /// # Errors
    /// The errors of [`Reading::table`]; [`Error::Pool`] for a table that does not match the
    /// schema.
    pub fn pooled(&self, path: &Path, schema: &Schema) -> Result<Table> {
        let mut options = schema.read_options();
        let drop = self.encoding.selection.drop.clone();
        options.selection.drop.extend(drop.iter().cloned());
        let frame = self.frame(path, options)?.select(&Selection { columns: None, drop });
        schema.apply(&frame.map_err(Error::in_table(path))?).map_err(|error| match error {
            // An error of the table locates the fault in the file. All others concern the schema.
            PoolError::Table(error) => Error::in_table(path)(error),
            other => Error::PoolFile { path: path.into(), source: other },
        })
    }

    fn read_options(&self, options: ReadOptions) -> ReadOptions {
        let missing_words = self.missing_words.clone();
        let delimiter = self.delimiter;
        let decimal = self.decimal;
        ReadOptions { delimiter, decimal, missing_words, ..options }
    }

    /// Reads the file without encoding its columns.
    ///
    /// # Errors
    /// The errors of [`Reading::table`].
    pub fn frame(&self, path: &Path, options: ReadOptions) -> Result<Frame> {
        let options = self.read_options(options);
        Frame::read(path, &options).map_err(Error::in_table(path))
    }

    /// Reads the text of a CSV file without encoding its columns. Messages call it `path`.
    ///
    /// # Errors
    /// The errors of [`Reading::table`].
    pub fn frame_of_text(&self, text: &[u8], path: &Path, options: ReadOptions) -> Result<Frame> {
        let options = self.read_options(options);
        Frame::from_csv(Cursor::new(text), &options).map_err(Error::in_table(path))
    }

    /// Reads rows with `columns` in any order and, if the file has the column `target`, labels of
    /// `classes`. Uses `encoding` if there is one.
    ///
    /// # Errors
    /// The errors of [`Reading::table`] and [`arranged`].
    pub fn rows(
        &self,
        path: &Path,
        columns: &[String],
        (target, classes): (&str, &[String]),
        encoding: Option<&Encoding>,
    ) -> Result<Table> {
        let read = |options| self.frame(path, options);
        self.rows_as((path, &read), columns, (target, classes), encoding)
    }

    /// Same as [`Reading::rows`], for the text of a CSV file. Messages call it `path`.
    ///
    /// # Errors
    /// The errors of [`Reading::rows`].
    pub fn rows_of_text(
        &self,
        (text, path): (&[u8], &Path),
        columns: &[String],
        labels: (&str, &[String]),
        encoding: Option<&Encoding>,
    ) -> Result<Table> {
        let read = |options| self.frame_of_text(text, path, options);
        self.rows_as((path, &read), columns, labels, encoding)
    }

    fn rows_as(
        &self,
        (path, read): (&Path, &dyn Fn(ReadOptions) -> Result<Frame>),
        columns: &[String],
        (target, classes): (&str, &[String]),
        encoding: Option<&Encoding>,
    ) -> Result<Table> {
        let in_table = Error::in_table(path);
        let table = match encoding {
            Some(encoding) => {
                // Rows to be scored may call the labels by another name than the training table.
                let renamed = encoding.clone().with_target(target).map_err(&in_table)?;
                let mut options = renamed.read_options();
                let drop = self.encoding.selection.drop.clone();
                options.selection.drop.extend(drop.iter().cloned());
                let frame = read(options)?.select(&Selection { columns: None, drop });
                frame.and_then(|frame| renamed.apply(frame)).map_err(in_table)?
            }
            None => {
                let frame = read(self.encoding.read_options(Some(target)))?;
                // Labels are optional here, and a missing target would be an error of the encoding.
                let target = frame.columns().iter().any(|name| name == target).then_some(target);
                // The model says which columns are features, so nothing is left out as an identifier.
                let mut options = self.encoding.clone();
                let drop = options.selection.drop.clone();
                let used = frame.columns().iter().filter(|name| !drop.contains(name));
                options.selection.columns.get_or_insert_with(|| used.cloned().collect());
                let encoding = Encoding::fit(&frame, target, &options).map_err(&in_table)?;
                encoding.apply(frame).map_err(in_table)?
            }
        };
        arranged(&table, columns, classes)
    }
}

/// Returns whether a column of a frame is text.
pub(crate) fn is_text(frame: &Frame, column: &str) -> bool {
    let at = frame.columns().iter().position(|name| name == column);
    at.is_some_and(|at| frame.text(at).is_some())
}

/// Returns the table with its columns in this order, and labels numbered by `classes`.
///
/// # Errors
/// [`Error::Usage`] unless the table has exactly these columns, and labels of these classes only.
pub fn arranged(table: &Table, columns: &[String], classes: &[String]) -> Result<Table> {
    let names = table.columns();
    let place = |name: &String| names.iter().position(|other| other == name);
    let places: Option<Vec<usize>> = columns.iter().map(place).collect();
    let places = places.filter(|places| places.len() == names.len()).ok_or_else(|| {
        let lacks: Vec<&String> = columns.iter().filter(|&name| !names.contains(name)).collect();
        let lacks = match &lacks[..] {
            [] => String::new(),
            lacks => format!("; they lack {}", lacking(lacks, names)),
        };
        Error::Usage(format!(
            "the rows have the columns {}, but the model has {}: pass rows with exactly these \
             columns{lacks}",
            names.join(", "),
            columns.join(", ")
        ))
    })?;
    let rows = table.iter_rows();
    let values = rows.flat_map(|row| places.iter().filter_map(|&place| row.get(place).copied()));
    let values = values.collect();
    let Some(target) = table.target() else {
        return Ok(Table::new(columns.to_vec(), values, None)?);
    };
    let members = members(table, target, classes)?;
    let labels = (target.to_owned(), classes.to_vec(), members);
    let arranged = Table::with_classes(columns.to_vec(), values, labels)?;
    Ok(match table.row_weights() {
        None => arranged,
        Some(weights) => {
            let mean = table.mean_row_weight();
            arranged.with_row_weights(weights.iter().map(|weight| weight * mean).collect())?
        }
    })
}

/// Splits a text of names at commas. A name that contains a comma stands in double quotes. Returns
/// `None` if a name is empty.
#[must_use]
pub fn names_between_commas(text: &str) -> Option<Vec<String>> {
    let mut reader = csv::ReaderBuilder::new().has_headers(false).from_reader(text.as_bytes());
    let record = reader.records().next()?.ok()?;
    record.iter().map(|name| (!name.is_empty()).then(|| name.to_owned())).collect()
}

/// Returns the class of each row as a position in `classes`.
fn members(table: &Table, target: &str, classes: &[String]) -> Result<Vec<u32>> {
    let place = |found: &String| classes.iter().position(|class| class == found);
    let places: Vec<Option<usize>> = table.classes()?.iter().map(place).collect();
    let member = |&member: &u32| {
        let class = member as usize;
        places.get(class).copied().flatten().map(|place| place as u32).ok_or_else(|| {
            let own = table.classes().unwrap_or_default();
            let found = own.get(class).map_or("", String::as_str);
            Error::Usage(format!(
                "column {target:?} has the class {found:?}, but the model has {}: leave out rows \
                 of other classes",
                classes.join(", ")
            ))
        })
    };
    table.members()?.iter().map(member).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    #[test]
    fn columns_and_classes_are_matched_by_name() {
        let labels = ("y".to_owned(), names(&["no", "yes"]), vec![1, 0]);
        let table = Table::with_classes(names(&["a", "b"]), vec![1.0, 2.0, 3.0, 4.0], labels);
        let table = table.unwrap();
        let classes = names(&["maybe", "yes", "no"]);
        let arranged_table = arranged(&table, &names(&["b", "a"]), &classes).unwrap();
        assert_eq!(arranged_table.values(), [2.0, 1.0, 4.0, 3.0]);
        assert_eq!(arranged_table.members().unwrap(), [1, 2]);
        for (columns, classes, problem) in [
            (&["a"][..], &["no", "yes"][..], "exactly these"),
            (&["a", "c"], &["no", "yes"], "exactly these"),
            (&["a", "b"], &["no", "maybe"], "the class \"yes\""),
        ] {
            let refused = arranged(&table, &names(columns), &names(classes)).unwrap_err();
            assert!(refused.to_string().contains(problem), "{refused}");
        }
        // A class that no row has may be unknown.
        let no_rows = table.take(&[1]).unwrap();
        assert!(arranged(&no_rows, &names(&["a", "b"]), &names(&["no"])).is_ok());
    }

    #[test]
    fn rows_are_read_for_a_model_with_labels_or_without() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows.csv");
        let columns = names(&["a", "b"]);
        let classes = names(&["0", "1"]);
        let read = |text: &str, target: &str| {
            std::fs::write(&path, text).unwrap();
            Reading::default().rows(&path, &columns, (target, &classes), None)
        };
        let with = read("b;y;a\n1,5;1;2\n", "y").unwrap();
        assert_eq!((with.values(), with.members().unwrap()), (&[2.0, 1.5][..], &[1][..]));
        let without = read("a,b\n2,1.5\n", "y").unwrap();
        assert_eq!((without.values(), without.target()), (&[2.0, 1.5][..], None));
        assert!(read("a,b,y\n2,1.5,0\n", "z").is_err());
    }
}

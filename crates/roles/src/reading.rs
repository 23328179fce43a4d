//! Tables in files as they come: with text, gaps, and marks of any country.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

use crate::error::{Error, Result};
use std::{io::Cursor, path::Path};
use sudare_apps::pool::{PoolError, Schema};
use sudare_table::{Encoding, EncodingOptions, Frame, ReadOptions, Table, lacking};

/// How a file is read, and how its columns become numbers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reading {
    /// What becomes of text and of gaps.
    pub encoding: EncodingOptions,
    /// What stands between the cells of a CSV file, if that is not to be found out.
    pub delimiter: Option<char>,
    /// Decimal mark of a CSV file, if that is not to be found out.
    pub decimal: Option<char>,
    /// Words of a CSV file that stand for a missing value in any column, in place of
    /// [`ReadOptions::MISSING`] in columns of numbers.
    pub missing_words: Option<Vec<String>>,
}

impl Reading {
    /// The table in a file, with labels of column `target`, and how its columns became numbers.
    ///
    /// # Errors
    /// [`Error::Table`] and [`Error::TableFile`] name the place of the first fault.
    pub fn table(&self, path: &Path, target: Option<&str>) -> Result<(Table, Encoding)> {
        self.fitted(self.frame(path, self.encoding.read_options(target))?, path, target)
    }

    /// As [`Reading::table`], of the text of a CSV file; messages call it `path`.
    ///
    /// # Errors
    /// As [`Reading::table`].
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

    fn fitted(&self, frame: Frame, path: &Path, target: Option<&str>) -> Result<(Table, Encoding)> {
        let in_table = Error::in_table(path);
        let encoding = Encoding::fit(&frame, target, &self.encoding).map_err(&in_table)?;
        let table = encoding.apply(frame).map_err(in_table)?;
        Ok((table, encoding))
    }

    /// The table of one of several owners, coded by what they agreed on.
    ///
    /// # Errors
    /// As [`Reading::table`]; [`Error::Pool`] for a table that the schema does not have.
    pub fn pooled(&self, path: &Path, schema: &Schema) -> Result<Table> {
        let frame = self.frame(path, schema.read_options())?;
        schema.apply(&frame).map_err(|error| match error {
            PoolError::Table(error) => Error::in_table(path)(error),
            other => Error::PoolFile { path: path.into(), source: other },
        })
    }

    fn read_options(&self, options: ReadOptions) -> ReadOptions {
        let missing_words = self.missing_words.clone();
        let (delimiter, decimal) = (self.delimiter, self.decimal);
        ReadOptions { delimiter, decimal, missing_words, ..options }
    }

    /// The file as it is.
    ///
    /// # Errors
    /// As [`Reading::table`].
    pub fn frame(&self, path: &Path, options: ReadOptions) -> Result<Frame> {
        let options = self.read_options(options);
        Frame::read(path, &options).map_err(Error::in_table(path))
    }

    /// The text of a CSV file as it is; messages call it `path`.
    ///
    /// # Errors
    /// As [`Reading::table`].
    pub fn frame_of_text(&self, text: &[u8], path: &Path, options: ReadOptions) -> Result<Frame> {
        let options = self.read_options(options);
        Frame::from_csv(Cursor::new(text), &options).map_err(Error::in_table(path))
    }

    /// Rows in a file that have `columns` in any order and, if it has column `target`, labels of
    /// `classes`. They become numbers by `encoding`, if there is one.
    ///
    /// # Errors
    /// As [`Reading::table`]; as [`arranged`].
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

    /// As [`Reading::rows`], of the text of a CSV file; messages call it `path`.
    ///
    /// # Errors
    /// As [`Reading::rows`].
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
                let renamed = encoding.clone().with_target(target).map_err(&in_table)?;
                renamed.apply(read(renamed.read_options())?).map_err(in_table)?
            }
            None => {
                let frame = read(self.encoding.read_options(Some(target)))?;
                let target = frame.columns().iter().any(|name| name == target).then_some(target);
                let encoding = Encoding::fit(&frame, target, &self.encoding).map_err(&in_table)?;
                encoding.apply(frame).map_err(in_table)?
            }
        };
        arranged(&table, columns, classes)
    }
}

/// The table with its columns in this order, and labels by their places among `classes`.
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
            "the rows have the columns {}, the model has {}: give rows with exactly these{lacks}",
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
    Ok(Table::with_classes(columns.to_vec(), values, labels)?)
}

/// The names in a text, between commas; a name with a comma stands in double quotes. None if a
/// name is empty.
#[must_use]
pub fn names_between_commas(text: &str) -> Option<Vec<String>> {
    let mut reader = csv::ReaderBuilder::new().has_headers(false).from_reader(text.as_bytes());
    let record = reader.records().next()?.ok()?;
    record.iter().map(|name| (!name.is_empty()).then(|| name.to_owned())).collect()
}

/// The class of each row by its place among `classes`.
fn members(table: &Table, target: &str, classes: &[String]) -> Result<Vec<u32>> {
    let place = |found: &String| classes.iter().position(|class| class == found);
    let places: Vec<Option<usize>> = table.classes()?.iter().map(place).collect();
    let member = |&member: &u32| {
        let class = member as usize;
        places.get(class).copied().flatten().map(|place| place as u32).ok_or_else(|| {
            let own = table.classes().unwrap_or_default();
            let found = own.get(class).map_or("", String::as_str);
            Error::Usage(format!(
                "column {target:?} has the class {found:?}, the model tells {} apart: leave out \
                 rows of other classes",
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
        // A class that no row has need not be known.
        let no_rows = table.take(&[1]).unwrap();
        assert!(arranged(&no_rows, &names(&["a", "b"]), &names(&["no"])).is_ok());
    }

    #[test]
    fn rows_are_read_for_a_model_with_labels_or_without() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows.csv");
        let (columns, classes) = (names(&["a", "b"]), names(&["0", "1"]));
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

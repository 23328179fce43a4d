//! Tables from CSV or Parquet files: as they come, and coded as numbers.
//!
//! [`Table::read_csv`] reads what is numbers already, with a target of 0 and 1, and refuses
//! anything else cell by cell. A [`Frame`] is a table as its file has it, with text and missing
//! values; an [`Encoding`] is fitted to it and makes a [`Table`] of it, and of rows that come later:
//!
//! ```
//! use std::io::Cursor;
//! use sudare_table::{Categorical, Encoding, EncodingOptions, Frame, Missing, Unseen};
//!
//! # fn main() -> Result<(), sudare_table::TableError> {
//! let options = EncodingOptions {
//!     categorical: Categorical::Every,
//!     missing: Missing::Flag,
//!     unseen: Unseen::Zero,
//! };
//! let text = "age;purpose;default\n31,5;car;no\n;home;yes\n40,5;car;no\n";
//! let frame = Frame::from_csv(Cursor::new(text), &options.read_options(Some("default")))?;
//! let encoding = Encoding::fit(&frame, Some("default"), &options)?;
//! let table = encoding.apply(frame)?;
//! assert_eq!(table.columns(), ["age", "age missing", "purpose=car", "purpose=home"]);
//! assert_eq!(table.values()[4..8], [36.0, 1.0, 0.0, 1.0]);
//! assert_eq!(table.classes()?, ["no", "yes"]);
//!
//! let later = "purpose,age\nboat,28\n";
//! let frame = Frame::from_csv(Cursor::new(later), &encoding.read_options())?;
//! assert_eq!(encoding.apply(frame)?.values(), [28.0, 0.0, 0.0, 0.0]);
//! # Ok(())
//! # }
//! ```

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]
#![forbid(unsafe_code)]

mod csv;
mod encoding;
mod error;
mod frame;
pub mod metrics;
#[cfg(feature = "parquet")]
mod parquet;
mod reading;
mod record_limit;

use std::{
    collections::HashSet,
    fmt,
    io::{self, Read},
    path::Path,
};

use sudare_arith::prng::{Seed, Stream};

pub use encoding::{Code, Encoding, EncodingOptions, Missing, Unseen};
pub use error::{Cell, Place, TableError, excerpt, lacking, list};
pub use frame::{Categorical, Frame, ReadOptions, TextColumn, is_exact};
pub use record_limit::{MAX_RECORD_BYTES, RecordLimit};

use frame::Rules;
use reading::open;

/// A table of finite numbers with named feature columns and, optionally, a target column of
/// classes.
///
/// Features are stored row-major, without the target. `Debug` shows the shape, not the values.
#[derive(Clone, PartialEq)]
pub struct Table {
    columns: Vec<String>,
    values: Vec<f64>,
    target: Option<Target>,
    dropped: usize,
}

#[derive(Clone, PartialEq)]
struct Target {
    name: String,
    classes: Vec<String>,
    /// The class of each row, by its index.
    members: Vec<u32>,
    /// Whether the labels are text, also where they look like numbers.
    is_text: bool,
}

impl Table {
    /// Largest number of cells that [`Table::read_csv`] accepts: 2^28, 2 GiB of values.
    pub const DEFAULT_MAX_CELLS: usize = 1 << 28;

    /// Names that [`Table::bundled`] knows.
    pub const BUNDLED: [&str; 2] = ["lbw", "uis"];

    /// Reads text whose first line names the columns, with commas, semicolons, tabs or vertical bars
    /// between cells; numbers have a decimal point or, unless between commas, a decimal comma.
    /// [`ReadOptions`] says how these are recognised.
    ///
    /// All cells must be finite numbers; blanks around a cell and a byte order mark are ignored,
    /// line ends may be LF, CRLF or CR. The column named `target` must hold 0 and 1 only and is
    /// kept apart from the features. At most [`Table::DEFAULT_MAX_CELLS`] cells are read;
    /// [`Table::from_csv`] takes another limit.
    ///
    /// # Errors
    /// [`TableError`] names the line and the column of the first fault.
    pub fn read_csv(path: impl AsRef<Path>, target: Option<&str>) -> Result<Self, TableError> {
        let (file, name) = open(path.as_ref())?;
        Self::of_csv(file, &name, target, Self::DEFAULT_MAX_CELLS)
    }

    /// Reads text as [`Table::read_csv`] does, with at most `max_cells` cells, the target's
    /// included. Reading stops at the first row beyond the limit.
    ///
    /// # Errors
    /// [`TableError`] names the line and the column of the first fault.
    pub fn from_csv(
        reader: impl Read,
        target: Option<&str>,
        max_cells: usize,
    ) -> Result<Self, TableError> {
        Self::of_csv(reader, "the table", target, max_cells)
    }

    fn of_csv(
        source: impl Read,
        name: &str,
        target: Option<&str>,
        max_cells: usize,
    ) -> Result<Self, TableError> {
        // Where no column may be text, nothing is read again.
        let forward = |_: &mut _| Err(io::ErrorKind::NotSeekable.into());
        Self::of_numbers(target, max_cells, |rules| csv::read(source, forward, name, rules))
    }

    #[cfg(feature = "parquet")]
    fn of_parquet(
        source: impl Read + io::Seek,
        name: &str,
        target: Option<&str>,
        max_cells: usize,
    ) -> Result<Self, TableError> {
        Self::of_numbers(target, max_cells, |rules| parquet::read(source, name, rules))
    }

    /// A table that must be numbers already, with a target of 0 and 1.
    fn of_numbers(
        target: Option<&str>,
        max_cells: usize,
        read: impl FnOnce(Rules<'_>) -> Result<Frame, TableError>,
    ) -> Result<Self, TableError> {
        let target_name = target.map(str::to_owned);
        let options = ReadOptions { target: target_name, max_cells, ..ReadOptions::default() };
        let frame = read(Rules { options: &options, binary: true })?;
        Encoding::fit(&frame, target, &EncodingOptions::default())?.apply(frame)
    }

    /// Reads a Parquet file whose columns are integers, floating-point numbers or truth values
    /// (0 and 1), none of them nested and none with nulls; compressed by nothing, Snappy, gzip,
    /// Zstandard or LZ4. The target is as for [`Table::read_csv`], and so is the number of cells.
    /// Integers beyond 2^53 are rounded to double precision.
    ///
    /// # Errors
    /// [`TableError`] names the row, counted from 0, and the column of the first fault.
    #[cfg(feature = "parquet")]
    pub fn read_parquet(path: impl AsRef<Path>, target: Option<&str>) -> Result<Self, TableError> {
        let (file, name) = open(path.as_ref())?;
        Self::of_parquet(file, &name, target, Self::DEFAULT_MAX_CELLS)
    }

    /// A table of `values`, row-major with one value per name in `columns`, and a target column's
    /// name and labels, one per row: its classes are "0" and "1".
    ///
    /// # Errors
    /// [`TableError::Empty`], [`TableError::Shape`], [`TableError::UnnamedColumn`],
    /// [`TableError::DuplicateColumn`] or [`TableError::NotFinite`].
    pub fn new(
        columns: Vec<String>,
        values: Vec<f64>,
        target: Option<(String, Vec<bool>)>,
    ) -> Result<Self, TableError> {
        let target = target.map(|(name, labels)| {
            let members = labels.into_iter().map(u32::from).collect();
            Target { name, classes: binary_classes(), members, is_text: false }
        });
        Self::checked(columns, values, target)
    }

    /// A table of `values`, row-major with one value per name in `columns`, and a target column's
    /// name, its classes, and the class of each row by its index.
    ///
    /// # Errors
    /// [`TableError::Classes`] unless the classes differ and each row has one of them; otherwise as
    /// [`Table::new`].
    pub fn with_classes(
        columns: Vec<String>,
        values: Vec<f64>,
        (name, classes, members): (String, Vec<String>, Vec<u32>),
    ) -> Result<Self, TableError> {
        let bad = |problem| TableError::Classes { column: excerpt(&name), problem };
        let mut seen = HashSet::new();
        if let Some(class) = classes.iter().find(|class| !seen.insert(*class)) {
            return Err(bad(format!("two are named {:?}", excerpt(class))));
        }
        if let Some(row) = members.iter().position(|&class| class as usize >= classes.len()) {
            let (class, count) = (members[row], classes.len());
            return Err(bad(format!("row {row} has the index {class}, and there are {count}")));
        }
        Self::checked(columns, values, Some(Target { name, classes, members, is_text: false }))
    }

    /// A table whose shape, names and numbers are checked.
    fn checked(
        columns: Vec<String>,
        values: Vec<f64>,
        target: Option<Target>,
    ) -> Result<Self, TableError> {
        let features = columns.len();
        check_names(columns.iter().chain(target.iter().map(|target| &target.name)))?;
        if features == 0 || values.is_empty() {
            let rows = values.len().checked_div(features).unwrap_or(0);
            return Err(TableError::Empty { rows, features });
        }
        let rows = values.len() / features;
        if rows * features != values.len() {
            let needed = values.len().next_multiple_of(features);
            return Err(TableError::Shape { what: "values", found: values.len(), needed });
        }
        if let Some(at) = values.iter().position(|value| !value.is_finite()) {
            return Err(TableError::NotFinite {
                place: Place::Row(at / features),
                column: columns[at % features].clone(),
                found: values[at].to_string(),
            });
        }
        if let Some(Target { members, .. }) = &target
            && members.len() != rows
        {
            return Err(TableError::Shape { what: "labels", found: members.len(), needed: rows });
        }
        Ok(Self { columns, values, target, dropped: 0 })
    }

    /// A data set that is part of this crate, with its target: `"lbw"`, the Low Birth Weight
    /// Study (189 rows, 9 features), or `"uis"`, the UMARU IMPACT Study (575 rows, 8 features),
    /// both from Hosmer and Lemeshow in the coding used by the papers on encrypted training.
    /// `data/NOTICE.md` states origin, coding and licence.
    ///
    /// # Errors
    /// [`TableError::UnknownBundled`] for any other name.
    pub fn bundled(name: &str) -> Result<Self, TableError> {
        let text = match name {
            "lbw" => include_str!("../data/lbw.csv"),
            "uis" => include_str!("../data/uis.csv"),
            _ => return Err(TableError::UnknownBundled { name: excerpt(name) }),
        };
        Self::of_csv(text.as_bytes(), name, Some("y"), Self::DEFAULT_MAX_CELLS)
    }

    /// Names of the feature columns, in order.
    pub fn columns(&self) -> &[String] {
        &self.columns
    }

    /// Number of rows, at least 1.
    pub fn rows(&self) -> usize {
        self.values.len() / self.columns.len()
    }

    /// Number of feature columns, at least 1; the target does not count.
    pub fn features(&self) -> usize {
        self.columns.len()
    }

    /// Features of all rows, row-major: `rows() * features()` values.
    pub fn values(&self) -> &[f64] {
        &self.values
    }

    /// The rows in order, each with `features()` values.
    pub fn iter_rows(&self) -> impl ExactSizeIterator<Item = &[f64]> {
        self.values.chunks_exact(self.columns.len())
    }

    /// Values of feature `index` in row order; nothing if there is no such feature.
    pub fn column(&self, index: usize) -> impl Iterator<Item = f64> {
        let start = if index < self.columns.len() { index } else { self.values.len() };
        self.values[start..].iter().step_by(self.columns.len()).copied()
    }

    /// The table without one of its feature columns, and the values of that.
    ///
    /// # Errors
    /// [`TableError::UnknownColumn`] if there is no such column, [`TableError::Empty`] if
    /// there is no other.
    pub fn without(&self, column: &str) -> Result<(Self, Vec<f64>), TableError> {
        let Some(index) = self.columns.iter().position(|name| name == column) else {
            let columns = excerpt(&self.columns.join(", "));
            return Err(TableError::UnknownColumn { column: excerpt(column), columns });
        };
        if self.features() == 1 {
            return Err(TableError::Empty { rows: self.rows(), features: 0 });
        }
        let mut rest = self.clone();
        rest.columns.remove(index);
        let others = self.values.iter().enumerate();
        let others = others.filter(|(cell, _)| cell % self.features() != index);
        rest.values = others.map(|(_, &value)| value).collect();
        Ok((rest, self.column(index).collect()))
    }

    /// Name of the target column, if the table has one.
    pub fn target(&self) -> Option<&str> {
        self.target.as_ref().map(|target| target.name.as_str())
    }

    /// The classes of the target, in the order of their indices.
    ///
    /// # Errors
    /// [`TableError::NoTarget`] if the table was read without a target.
    pub fn classes(&self) -> Result<&[String], TableError> {
        self.labelled().map(|target| &target.classes[..])
    }

    /// The class of each row, as an index of [`Table::classes`].
    ///
    /// # Errors
    /// [`TableError::NoTarget`] if the table was read without a target.
    pub fn members(&self) -> Result<&[u32], TableError> {
        self.labelled().map(|target| &target.members[..])
    }

    /// One label per row, true for the second of two classes, such as a target of 1.
    ///
    /// # Errors
    /// [`TableError::NoTarget`] if the table was read without a target,
    /// [`TableError::NotTwoClasses`] if it has more classes.
    pub fn labels(&self) -> Result<Vec<bool>, TableError> {
        let Target { name, classes, members, .. } = self.labelled()?;
        if classes.len() > 2 {
            let (column, count, classes) = (excerpt(name), classes.len(), list(classes));
            return Err(TableError::NotTwoClasses { column, count, classes });
        }
        Ok(members.iter().map(|&class| class == 1).collect())
    }

    /// The table with labels that are text, also where they look like numbers, such as `"3"`.
    #[must_use]
    pub fn with_text_labels(mut self) -> Self {
        if let Some(target) = &mut self.target {
            target.is_text = true;
        }
        self
    }

    /// Whether the labels are known to be text, also where they look like numbers.
    pub fn has_text_labels(&self) -> bool {
        self.target.as_ref().is_some_and(|target| target.is_text)
    }

    fn labelled(&self) -> Result<&Target, TableError> {
        self.target.as_ref().ok_or(TableError::NoTarget)
    }

    /// How many rows [`Encoding::apply`] left out since values were missing there.
    pub fn dropped(&self) -> usize {
        self.dropped
    }

    /// Brings the rows into an order that only who knows `seed` can tell, each as likely as any
    /// other: for training in batches, whose order is public.
    pub fn shuffle(&mut self, seed: &Seed) {
        let mut stream = Stream::new(seed, "order of rows", 0);
        let (rows, features) = (self.rows(), self.features());
        shuffle(&mut stream, rows, |first, second| {
            let (head, tail) = self.values.split_at_mut(second * features);
            head[first * features..][..features].swap_with_slice(&mut tail[..features]);
            if let Some(target) = &mut self.target {
                target.members.swap(first, second);
            }
        });
    }

    /// The rows with these indices, in this order; one may come more than once.
    ///
    /// # Errors
    /// [`TableError::UnknownRow`] for an index beyond the table, [`TableError::Empty`] without any.
    pub fn take(&self, rows: &[usize]) -> Result<Self, TableError> {
        let (found, features) = (self.rows(), self.features());
        if let Some(&row) = rows.iter().find(|&&row| row >= found) {
            return Err(TableError::UnknownRow { row, rows: found });
        }
        if rows.is_empty() {
            return Err(TableError::Empty { rows: 0, features });
        }
        let mut values = Vec::with_capacity(rows.len() * features);
        for &row in rows {
            values.extend_from_slice(&self.values[row * features..][..features]);
        }
        let target =
            self.target.as_ref().map(|Target { name, classes, members, is_text }| Target {
                name: name.clone(),
                classes: classes.clone(),
                members: rows.iter().map(|&row| members[row]).collect(),
                is_text: *is_text,
            });
        Ok(Self { columns: self.columns.clone(), values, target, dropped: 0 })
    }

    /// The table in two: most rows, and a `share` of them that is held out, such as 0.2, to test on.
    ///
    /// The same seed gives the same split. Of each class the same share is held out, to the row; of
    /// all rows it is `share` times their number, rounded, but at least one and not all. Both
    /// tables keep the order of rows.
    ///
    /// # Errors
    /// [`TableError::Split`] unless the share lies between 0 and 1, exclusively, and there are two
    /// rows.
    pub fn split(&self, share: f64, seed: &Seed) -> Result<(Self, Self), TableError> {
        let rows = self.rows();
        if !(share > 0.0 && share < 1.0 && rows > 1) {
            return Err(TableError::Split { share, rows });
        }
        let mut classes: Vec<Vec<usize>> = match &self.target {
            None => vec![(0..rows).collect()],
            Some(target) => {
                let mut classes = vec![Vec::new(); target.classes.len()];
                for (row, &class) in target.members.iter().enumerate() {
                    classes[class as usize].push(row);
                }
                classes
            }
        };
        let mut stream = Stream::new(seed, "rows held out", 0);
        let mut is_held = vec![false; rows];
        let sizes: Vec<usize> = classes.iter().map(Vec::len).collect();
        for (members, held) in classes.iter_mut().zip(shares(&sizes, share)) {
            shuffle(&mut stream, members.len(), |first, second| members.swap(first, second));
            members.iter().take(held).for_each(|&row| is_held[row] = true);
        }
        let (held, kept): (Vec<usize>, Vec<usize>) = (0..rows).partition(|&row| is_held[row]);
        Ok((self.take(&kept)?, self.take(&held)?))
    }

    /// Checks what training needs beyond a readable table.
    ///
    /// # Errors
    /// [`TableError::NoTarget`], or [`TableError::ConstantTarget`] if all rows are of one class.
    pub fn check_for_training(&self) -> Result<(), TableError> {
        let Target { name, classes, members, .. } = self.labelled()?;
        let first = members[0];
        if members.iter().all(|&class| class == first) {
            let (column, value) = (excerpt(name), excerpt(&classes[first as usize]));
            return Err(TableError::ConstantTarget { column, value });
        }
        Ok(())
    }
}

impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Table")
            .field("rows", &self.rows())
            .field("columns", &self.columns)
            .field("target", &self.target())
            .finish_non_exhaustive()
    }
}

/// The classes of a target of truth values.
fn binary_classes() -> Vec<String> {
    ["0", "1"].map(str::to_owned).to_vec()
}

/// How many of each class are held out: a share of all, at least one and not all, which the classes
/// have part in by their sizes, to one.
fn shares(sizes: &[usize], share: f64) -> Vec<usize> {
    let all: usize = sizes.iter().sum();
    let held = ((all as f64 * share).round() as usize).clamp(1, all - 1);
    let exact: Vec<f64> = sizes.iter().map(|&size| size as f64 * share).collect();
    let mut counts: Vec<usize> = exact.iter().map(|&exact| exact as usize).collect();
    let mut order: Vec<usize> = (0..sizes.len()).collect();
    order.sort_by(|&a, &b| exact[b].fract().total_cmp(&exact[a].fract()));
    let rest = held.saturating_sub(counts.iter().sum());
    for class in order.into_iter().take(rest) {
        counts[class] = (counts[class] + 1).min(sizes[class]);
    }
    counts
}

/// A number below `end`, which is positive, each equally likely.
fn below(stream: &mut Stream, end: u64) -> u64 {
    // The last incomplete run of `end` numbers would favour small ones.
    let runs = u64::MAX - u64::MAX % end;
    loop {
        let number = stream.next_u64();
        if number < runs {
            return number % end;
        }
    }
}

/// Swaps what two indices below `count` stand for until every order is as likely as any other.
fn shuffle(stream: &mut Stream, count: usize, mut swap: impl FnMut(usize, usize)) {
    for last in (1..count).rev() {
        let other = below(stream, last as u64 + 1) as usize;
        if other != last {
            swap(other, last);
        }
    }
}

fn check_names<'a>(columns: impl Iterator<Item = &'a String>) -> Result<(), TableError> {
    let mut seen = HashSet::new();
    for (index, column) in columns.enumerate() {
        if column.is_empty() {
            return Err(TableError::UnnamedColumn { number: index + 1 });
        }
        if !seen.insert(column) {
            return Err(TableError::DuplicateColumn { column: excerpt(column) });
        }
    }
    Ok(())
}

fn unknown_target(target: &str, columns: &[String]) -> TableError {
    TableError::UnknownTarget { target: excerpt(target), columns: list(columns) }
}

#[cfg(test)]
mod tests;

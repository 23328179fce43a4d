//! Tables from CSV or Parquet files, raw or encoded as numbers.
//!
//! [`Table::read_csv`] reads a table of numbers with a target of 0 and 1, and rejects any other
//! cell. A [`Frame`] is a table as its file has it, with text and missing values. An [`Encoding`]
//! is fitted to the frame, and encodes it and later rows as a [`Table`]:
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
//!     ..EncodingOptions::default()
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
mod dates;
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

pub use dates::{DatePart, days};
pub use encoding::{Code, Content, Encoding, EncodingOptions, Missing, Omission, Unseen};
pub use error::{Cell, Place, TableError, excerpt, lacking, list};
pub use frame::{Categorical, Frame, ReadOptions, Selection, TextColumn, is_exact};
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
    row_weights: Option<RowWeights>,
    dropped: usize,
}

#[derive(Clone, PartialEq)]
struct RowWeights {
    /// The weight of each row, divided by the mean.
    relative: Vec<f64>,
    mean: f64,
}

#[derive(Clone, PartialEq)]
struct Target {
    name: String,
    classes: Vec<String>,
    /// The class of each row, by its index.
    members: Vec<u32>,
    /// True if the labels are text, even if they look like numbers.
    is_text: bool,
}

impl Table {
    /// Maximum number of cells that [`Table::read_csv`] accepts: 2^28, which is 2 GiB of values.
    pub const DEFAULT_MAX_CELLS: usize = 1 << 28;

    /// Names for [`Table::bundled`].
    pub const BUNDLED: [&str; 2] = ["lbw", "uis"];

    /// Reads a text file whose first line names the columns, with commas, semicolons, tabs or
    /// vertical bars between cells. Numbers have a decimal point. A decimal comma is possible if
    /// the delimiter is not a comma. [`ReadOptions`] describes the detection.
    ///
    /// All cells must be finite numbers. Blanks around a cell and a byte order mark are ignored,
    /// and line ends may be LF, CRLF or CR. The column named `target` must contain 0 and 1 only and
    /// is separate from the features. The maximum is [`Table::DEFAULT_MAX_CELLS`] cells. For
    /// another limit use [`Table::from_csv`].
    ///
    /// # Errors
    /// [`TableError`] names the line and the column of the first fault.
    pub fn read_csv(path: impl AsRef<Path>, target: Option<&str>) -> Result<Self, TableError> {
        let (file, name) = open(path.as_ref())?;
        Self::of_csv(file, &name, target, Self::DEFAULT_MAX_CELLS)
    }

    /// Reads text as [`Table::read_csv`] does, with at most `max_cells` cells, including the
    /// target. Reading stops at the first row beyond the limit.
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
        // Without text columns, nothing is read again.
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

    /// Returns the table of a frame that contains only numbers, with a target of 0 and 1.
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

    /// Reads a Parquet file whose columns are integers, floating-point numbers or booleans (0 and
    /// 1), without nesting and nulls. It may be uncompressed or compressed with Snappy, gzip,
    /// Zstandard or LZ4. The target and the maximum number of cells are the same as for
    /// [`Table::read_csv`]. Integers beyond 2^53 are rounded to double precision.
    ///
    /// # Errors
    /// [`TableError`] names the row, counted from 0, and the column of the first fault.
    #[cfg(feature = "parquet")]
    pub fn read_parquet(path: impl AsRef<Path>, target: Option<&str>) -> Result<Self, TableError> {
        let (file, name) = open(path.as_ref())?;
        Self::of_parquet(file, &name, target, Self::DEFAULT_MAX_CELLS)
    }

    /// Creates a table of `values`, row-major with one value per name in `columns`. The target has
    /// a name and one label per row. Its classes are "0" and "1".
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

    /// Creates a table of `values`, row-major with one value per name in `columns`. The target has
    /// a name, its classes, and the index of the class of each row.
    ///
    /// # Errors
    /// [`TableError::Classes`] unless the classes differ and each row has one of them; the errors
    /// of [`Table::new`].
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
            let class = members[row];
            let count = classes.len();
            return Err(bad(format!("row {row} has the index {class}, and there are {count}")));
        }
        Self::checked(columns, values, Some(Target { name, classes, members, is_text: false }))
    }

    /// Creates a table, and checks its shape, names and numbers.
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
        Ok(Self { columns, values, target, row_weights: None, dropped: 0 })
    }

    /// Returns a data set that is part of this crate, with its target. These are `"lbw"`, the Low
    /// Birth Weight Study (189 rows, 9 features), or `"uis"`, the UMARU IMPACT Study (575 rows, 8
    /// features), both from Hosmer and Lemeshow, in the coding of the papers on encrypted training.
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

    /// Returns the names of the feature columns, in order.
    pub fn columns(&self) -> &[String] {
        &self.columns
    }

    /// Returns the number of rows, at least 1.
    pub fn rows(&self) -> usize {
        self.values.len() / self.columns.len()
    }

    /// Returns the number of feature columns without the target, at least 1.
    pub fn features(&self) -> usize {
        self.columns.len()
    }

    /// Returns the features of all rows, row-major: `rows() * features()` values.
    pub fn values(&self) -> &[f64] {
        &self.values
    }

    /// Returns the rows in order, each with `features()` values.
    pub fn iter_rows(&self) -> impl ExactSizeIterator<Item = &[f64]> {
        self.values.chunks_exact(self.columns.len())
    }

    /// Returns the values of feature `index` in row order. The iterator is empty if there is no
    /// such feature.
    pub fn column(&self, index: usize) -> impl Iterator<Item = f64> {
        let start = if index < self.columns.len() { index } else { self.values.len() };
        self.values[start..].iter().step_by(self.columns.len()).copied()
    }

    /// Returns the table without one of its feature columns, and the values of this column.
    ///
    /// # Errors
    /// [`TableError::UnknownColumn`] if there is no such column, [`TableError::Empty`] if it is the
    /// only column.
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

    /// Returns the name of the target column, if any.
    pub fn target(&self) -> Option<&str> {
        self.target.as_ref().map(|target| target.name.as_str())
    }

    /// Returns the classes of the target, in the order of their indices.
    ///
    /// # Errors
    /// [`TableError::NoTarget`] if the table was read without a target.
    pub fn classes(&self) -> Result<&[String], TableError> {
        self.labelled().map(|target| &target.classes[..])
    }

    /// Returns the class of each row, as an index of [`Table::classes`].
    ///
    /// # Errors
    /// [`TableError::NoTarget`] if the table was read without a target.
    pub fn members(&self) -> Result<&[u32], TableError> {
        self.labelled().map(|target| &target.members[..])
    }

    /// Returns one label per row. It is true for the second of two classes, such as a target of 1.
    ///
    /// # Errors
    /// [`TableError::NoTarget`] if the table was read without a target,
    /// [`TableError::NotTwoClasses`] if it has more classes.
    pub fn labels(&self) -> Result<Vec<bool>, TableError> {
        let Target { name, classes, members, .. } = self.labelled()?;
        if classes.len() > 2 {
            let column = excerpt(name);
            let count = classes.len();
            let classes = list(classes);
            return Err(TableError::NotTwoClasses { column, count, classes });
        }
        Ok(members.iter().map(|&class| class == 1).collect())
    }

    /// Marks the labels as text, even if they look like numbers, such as `"3"`.
    #[must_use]
    pub fn with_text_labels(mut self) -> Self {
        if let Some(target) = &mut self.target {
            target.is_text = true;
        }
        self
    }

    /// Returns whether the labels are known to be text, even if they look like numbers.
    pub fn has_text_labels(&self) -> bool {
        self.target.as_ref().is_some_and(|target| target.is_text)
    }

    /// Returns the table with a weight for each row, by which a training multiplies its loss.
    ///
    /// # Errors
    /// [`TableError::Shape`] for another number of weights, and [`TableError::RowWeights`] unless
    /// they are finite and not negative, with a finite and positive sum.
    pub fn with_row_weights(mut self, weights: Vec<f64>) -> Result<Self, TableError> {
        let rows = self.rows();
        if weights.len() != rows {
            let found = weights.len();
            return Err(TableError::Shape { what: "row weights", found, needed: rows });
        }
        let bad = |weight: &f64| !(weight.is_finite() && *weight >= 0.0);
        if let Some(row) = weights.iter().position(bad) {
            let problem = format!("row {row} has the weight {}", weights[row]);
            return Err(TableError::RowWeights { problem });
        }
        let mean = weights.iter().sum::<f64>() / rows as f64;
        if !(mean.is_finite() && mean > 0.0) {
            return Err(TableError::RowWeights { problem: format!("their mean is {mean}") });
        }
        let relative = weights.iter().map(|weight| weight / mean).collect();
        self.row_weights = Some(RowWeights { relative, mean });
        Ok(self)
    }

    /// Returns the weights of the rows, divided by their mean.
    pub fn row_weights(&self) -> Option<&[f64]> {
        self.row_weights.as_ref().map(|weights| &weights.relative[..])
    }

    /// Returns the mean of the weights of the rows, which is 1 for a table without weights.
    pub fn mean_row_weight(&self) -> f64 {
        self.row_weights.as_ref().map_or(1.0, |weights| weights.mean)
    }

    fn labelled(&self) -> Result<&Target, TableError> {
        self.target.as_ref().ok_or(TableError::NoTarget)
    }

    /// Returns the number of rows that [`Encoding::apply`] dropped because values were missing.
    pub fn dropped(&self) -> usize {
        self.dropped
    }

    /// Shuffles the rows into an order that is unpredictable without `seed`. Each order is equally
    /// likely. Use it for training in batches, whose order is public.
    pub fn shuffle(&mut self, seed: &Seed) {
        let mut stream = Stream::new(seed, "order of rows", 0);
        let rows = self.rows();
        let features = self.features();
        shuffle(&mut stream, rows, |first, second| {
            // The first index is the smaller one, so it is in the head.
            let (head, tail) = self.values.split_at_mut(second * features);
            head[first * features..][..features].swap_with_slice(&mut tail[..features]);
            if let Some(target) = &mut self.target {
                target.members.swap(first, second);
            }
            if let Some(weights) = &mut self.row_weights {
                weights.relative.swap(first, second);
            }
        });
    }

    /// Returns the rows with these indices, in this order. An index may occur more than once.
    ///
    /// # Errors
    /// [`TableError::UnknownRow`] for an index beyond the table, [`TableError::Empty`] without
    /// indices, [`TableError::RowWeights`] if all weights of these rows are 0.
    pub fn take(&self, rows: &[usize]) -> Result<Self, TableError> {
        let found = self.rows();
        let features = self.features();
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
        let taken =
            Self { columns: self.columns.clone(), values, target, row_weights: None, dropped: 0 };
        match &self.row_weights {
            None => Ok(taken),
            Some(RowWeights { relative, mean }) => {
                taken.with_row_weights(rows.iter().map(|&row| relative[row] * mean).collect())
            }
        }
    }

    /// Splits the table in two: rows to train on, and a `share` of the rows that is held out for
    /// tests, such as 0.2.
    ///
    /// The same seed gives the same split. The held-out rows number `share` times all rows,
    /// rounded, at least one and not all. Each class contributes in proportion, to within a row.
    /// Both tables keep the order of rows.
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
        // Another label than the order of rows has, so both may use one seed.
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

    /// Checks the requirements of training: a target with rows of at least two classes.
    ///
    /// # Errors
    /// [`TableError::NoTarget`], or [`TableError::ConstantTarget`] if all rows have the same class.
    pub fn check_for_training(&self) -> Result<(), TableError> {
        let Target { name, classes, members, .. } = self.labelled()?;
        let first = members[0];
        if members.iter().all(|&class| class == first) {
            let column = excerpt(name);
            let value = excerpt(&classes[first as usize]);
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

/// Returns the classes of a boolean target.
fn binary_classes() -> Vec<String> {
    ["0", "1"].map(str::to_owned).to_vec()
}

/// Returns the number of held-out rows of each class. Together they are a share of all rows, at
/// least one and not all. They are proportional to the sizes of the classes, to within a row.
fn shares(sizes: &[usize], share: f64) -> Vec<usize> {
    let all: usize = sizes.iter().sum();
    let held = ((all as f64 * share).round() as usize).clamp(1, all - 1);
    let exact: Vec<f64> = sizes.iter().map(|&size| size as f64 * share).collect();
    // Largest remainders: all classes are rounded down, and the rest goes to the largest fractions.
    let mut counts: Vec<usize> = exact.iter().map(|&exact| exact as usize).collect();
    let mut order: Vec<usize> = (0..sizes.len()).collect();
    // The sort is stable, so that equal fractions are in the order of classes.
    order.sort_by(|&a, &b| exact[b].fract().total_cmp(&exact[a].fract()));
    let rest = held.saturating_sub(counts.iter().sum());
    for class in order.into_iter().take(rest) {
        counts[class] = (counts[class] + 1).min(sizes[class]);
    }
    counts
}

/// Returns a uniform number below `end`, which must be positive.
fn below(stream: &mut Stream, end: u64) -> u64 {
    // Rejects numbers in the last incomplete run of `end`, which would favour small results.
    let runs = u64::MAX - u64::MAX % end;
    loop {
        let number = stream.next_u64();
        if number < runs {
            return number % end;
        }
    }
}

/// Calls `swap` for pairs of indices below `count`, so that every order is equally likely.
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

/// Rejects names that no column has.
fn expect_known<'a>(
    names: impl Iterator<Item = &'a String>,
    columns: &[String],
) -> Result<(), TableError> {
    let unknown: Vec<&String> = names.filter(|name| !columns.contains(name)).collect();
    if unknown.is_empty() {
        return Ok(());
    }
    let unknown = error::with_nearest(&unknown, columns);
    Err(TableError::UnknownColumns { unknown, columns: list(columns) })
}

fn unknown_target(target: &str, columns: &[String]) -> TableError {
    TableError::UnknownTarget { target: excerpt(target), columns: list(columns) }
}

#[cfg(test)]
mod tests;

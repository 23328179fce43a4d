//! Numeric tables read from CSV or Parquet, checked cell by cell, and their scaling for training.

#[cfg(feature = "parquet")]
mod parquet;

use std::collections::HashMap;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

use serde::{Deserialize, Serialize};
use sudare_arith::prng::{Seed, Stream};

/// Longest excerpt of a cell or name that an error message repeats, in characters.
const MAX_EXCERPT: usize = 40;

/// Where a value stands in its source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// Line of a CSV file, counted from 1; the header is normally line 1.
    Line(u64),
    /// Row of a table in memory, counted from 0.
    Row(usize),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Line(line) => write!(f, "line {line}"),
            Place::Row(row) => write!(f, "row {row}"),
        }
    }
}

/// Why a table cannot be read, scaled or trained on.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum TableError {
    /// The operating system refused to open or read the source.
    #[error("cannot read {name}: {message}")]
    Read {
        /// Path of the file, or "the table" for other readers.
        name: String,
        /// Kind of the failure.
        kind: io::ErrorKind,
        /// The operating system's description.
        message: String,
    },
    /// The first line holds numbers where column names belong.
    #[error(
        "line {line} holds only numbers, but the first line must name the columns; add a line of \
         column names"
    )]
    NoHeader {
        /// Line of the supposed header.
        line: u64,
    },
    /// A column has an empty name.
    #[error(
        "column {number} has no name; name it, or write the file without row numbers if it holds \
         them"
    )]
    UnnamedColumn {
        /// Position of the column, counted from 1.
        number: usize,
    },
    /// Two columns share a name.
    #[error("two columns are named {column:?}; column names must differ, rename one")]
    DuplicateColumn {
        /// The repeated name.
        column: String,
    },
    /// The wanted target is no column of the table.
    #[error("there is no column {target:?} to serve as target; the columns are {columns}")]
    UnknownTarget {
        /// The wanted target.
        target: String,
        /// Names of the columns that exist.
        columns: String,
    },
    /// There is no feature column of a name.
    #[error("there is no column {column:?} besides the target; the columns are {columns}")]
    UnknownColumn {
        /// The wanted column.
        column: String,
        /// Names of the columns that exist.
        columns: String,
    },
    /// A line has too few or too many cells.
    #[error(
        "line {line} has {found} cells, but the header names {needed} columns; fill the missing \
         cells or remove the surplus ones"
    )]
    Ragged {
        /// Line of the row.
        line: u64,
        /// Cells on that line.
        found: usize,
        /// Columns of the header.
        needed: usize,
    },
    /// An empty line stands between two rows.
    #[error(
        "line {line} is empty, though rows follow; remove it, or fill it if values are missing"
    )]
    BlankLine {
        /// The empty line.
        line: u64,
    },
    /// A cell is empty.
    #[error(
        "{place}, column {column:?}: the cell is empty, but every cell needs a number; fill the \
         gap, or drop the row or the column"
    )]
    Gap {
        /// Row of the cell.
        place: Place,
        /// Column of the cell.
        column: String,
    },
    /// A cell holds text.
    #[error(
        "{place}, column {column:?}: found {found:?}, but a cell must be one number such as -1.5 \
         or 2e3, with a decimal point and commas between cells; replace it, or code the column \
         as numbers"
    )]
    Text {
        /// Row of the cell.
        place: Place,
        /// Column of the cell.
        column: String,
        /// The text, cut to a short excerpt.
        found: String,
    },
    /// A cell is infinite, not a number, or too large for double precision.
    #[error(
        "{place}, column {column:?}: found {found}, but values must be finite numbers; replace \
         it, or drop the row"
    )]
    NotFinite {
        /// Row of the cell.
        place: Place,
        /// Column of the cell.
        column: String,
        /// The cell, cut to a short excerpt.
        found: String,
    },
    /// The source is not UTF-8 text.
    #[error(
        "line {line}, column {column}: the bytes are not UTF-8; save the file as comma-separated \
         UTF-8 text"
    )]
    NotUtf8 {
        /// Line of the cell.
        line: u64,
        /// Position of the column, counted from 1.
        column: usize,
    },
    /// A cell of the target column is neither 0 nor 1.
    #[error(
        "{place}, target column {column:?}: found {found}, but a target must be 0 or 1; code the \
         two classes as 0 and 1"
    )]
    TargetNotBinary {
        /// Row of the cell.
        place: Place,
        /// Name of the target.
        column: String,
        /// The cell.
        found: f64,
    },
    /// There are no rows or no feature columns.
    #[error(
        "the table has {rows} rows and {features} feature columns; it needs at least one of each"
    )]
    Empty {
        /// Rows found.
        rows: usize,
        /// Feature columns found, the target not counted.
        features: usize,
    },
    /// The table holds more cells than the caller allows.
    #[error(
        "the table passes the limit of {limit} cells at line {line}; raise the limit, or split \
         the table"
    )]
    TooManyCells {
        /// Largest number of cells allowed.
        limit: usize,
        /// First line beyond it.
        line: u64,
    },
    /// The table of a Parquet file holds more cells than the caller allows.
    #[error(
        "the table has {rows} rows and {columns} columns, more than {limit} cells; raise the \
         limit, or split the table"
    )]
    TooLarge {
        /// Rows.
        rows: usize,
        /// Columns, the target included.
        columns: usize,
        /// Largest number of cells allowed.
        limit: usize,
    },
    /// A Parquet file is damaged, or uses what is not read here.
    #[error(
        "this Parquet file cannot be read: {problem}; write it again, or save the table as CSV"
    )]
    Parquet {
        /// What is wrong.
        problem: String,
    },
    /// A column of a Parquet file holds something else than numbers.
    #[error(
        "column {column:?} holds {found}, but a column must hold integers, floating-point numbers \
         or truth values; code it as such, or drop it"
    )]
    NotNumbers {
        /// Name of the column.
        column: String,
        /// What it holds.
        found: &'static str,
    },
    /// Values in memory do not fill whole rows, or labels do not match the rows.
    #[error("found {found} {what}, but the shape of the table needs {needed}")]
    Shape {
        /// What was counted.
        what: &'static str,
        /// How many were given.
        found: usize,
        /// How many the table needs.
        needed: usize,
    },
    /// Labels are needed, but no target column was named.
    #[error("the table has no target column; name one when reading the table")]
    NoTarget,
    /// A feature has one value in all rows.
    #[error(
        "column {column:?} is {value} in every row; a constant feature repeats the intercept, \
         drop it before training"
    )]
    ConstantFeature {
        /// Name of the feature.
        column: String,
        /// Its only value.
        value: f64,
    },
    /// The target has one value in all rows.
    #[error(
        "target column {column:?} is {value} in every row; training needs rows of both classes"
    )]
    ConstantTarget {
        /// Name of the target.
        column: String,
        /// Its only value, 0 or 1.
        value: u8,
    },
    /// No bundled table has this name.
    #[error("there is no bundled table {name:?}; the bundled tables are {names}", names = Table::BUNDLED.join(", "))]
    UnknownBundled {
        /// The wanted name.
        name: String,
    },
    /// A scale is not a positive finite number.
    #[error("the scale of feature {feature} is {found}, but scales must be positive and finite")]
    Scale {
        /// Index of the feature, counted from 0.
        feature: usize,
        /// The offending scale.
        found: f64,
    },
}

/// A table of finite numbers with named feature columns and, optionally, a 0/1 target column.
///
/// Features are stored row-major, without the target. `Debug` shows the shape, not the values.
#[derive(Clone, PartialEq)]
pub struct Table {
    columns: Vec<String>,
    values: Vec<f64>,
    target: Option<Target>,
}

#[derive(Clone, PartialEq)]
struct Target {
    name: String,
    labels: Vec<bool>,
}

impl Table {
    /// Largest number of cells that [`Table::read_csv`] accepts: 2^28, 2 GiB of values.
    pub const DEFAULT_MAX_CELLS: usize = 1 << 28;

    /// Names that [`Table::bundled`] knows.
    pub const BUNDLED: [&str; 2] = ["lbw", "uis"];

    /// Reads a comma-separated file whose first line names the columns.
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
        parse(file, &name, target, Self::DEFAULT_MAX_CELLS)
    }

    /// Reads comma-separated text as [`Table::read_csv`] does, with at most `max_cells` cells, the
    /// target's included. Reading stops at the first row beyond the limit.
    ///
    /// # Errors
    /// [`TableError`] names the line and the column of the first fault.
    pub fn from_csv(
        reader: impl Read,
        target: Option<&str>,
        max_cells: usize,
    ) -> Result<Self, TableError> {
        parse(reader, "the table", target, max_cells)
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
        parquet::read(file, &name, target, Self::DEFAULT_MAX_CELLS)
    }

    /// A table of `values`, row-major with one value per name in `columns`, and a target column's
    /// name and labels, one per row.
    ///
    /// # Errors
    /// [`TableError::Empty`], [`TableError::Shape`], [`TableError::UnnamedColumn`],
    /// [`TableError::DuplicateColumn`] or [`TableError::NotFinite`].
    pub fn new(
        columns: Vec<String>,
        values: Vec<f64>,
        target: Option<(String, Vec<bool>)>,
    ) -> Result<Self, TableError> {
        let features = columns.len();
        check_names(columns.iter().chain(target.iter().map(|(name, _)| name)))?;
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
        let target = target.map(|(name, labels)| Target { name, labels });
        if let Some(Target { labels, .. }) = &target
            && labels.len() != rows
        {
            return Err(TableError::Shape { what: "labels", found: labels.len(), needed: rows });
        }
        Ok(Self { columns, values, target })
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
        parse(text.as_bytes(), name, Some("y"), Self::DEFAULT_MAX_CELLS)
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

    /// One label per row, true for a target of 1.
    ///
    /// # Errors
    /// [`TableError::NoTarget`] if the table was read without a target.
    pub fn labels(&self) -> Result<&[bool], TableError> {
        self.target.as_ref().map(|target| &target.labels[..]).ok_or(TableError::NoTarget)
    }

    /// Brings the rows into an order that only who knows `seed` can tell, each as likely as any
    /// other: for training in batches, whose order is public.
    pub fn shuffle(&mut self, seed: &Seed) {
        let mut stream = Stream::new(seed, "order of rows", 0);
        let features = self.columns.len();
        for last in (1..self.rows()).rev() {
            let other = below(&mut stream, last as u64 + 1) as usize;
            if other != last {
                let (head, tail) = self.values.split_at_mut(last * features);
                head[other * features..][..features].swap_with_slice(&mut tail[..features]);
            }
            if let Some(target) = &mut self.target {
                target.labels.swap(last, other);
            }
        }
    }

    /// Checks what training needs beyond a readable table. A feature that is 0 in all rows, such
    /// as a pixel at the edge of images, does no harm: its weight stays 0.
    ///
    /// # Errors
    /// [`TableError::NoTarget`], [`TableError::ConstantTarget`] or
    /// [`TableError::ConstantFeature`].
    pub fn check_for_training(&self) -> Result<(), TableError> {
        let target = self.target.as_ref().ok_or(TableError::NoTarget)?;
        let first = target.labels[0];
        if target.labels.iter().all(|&label| label == first) {
            let column = excerpt(&target.name);
            return Err(TableError::ConstantTarget { column, value: first.into() });
        }
        for (index, name) in self.columns.iter().enumerate() {
            let value = self.values[index];
            if value != 0.0 && self.column(index).all(|other| other == value) {
                return Err(TableError::ConstantFeature { column: excerpt(name), value });
            }
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

/// One positive divisor per feature column, which brings every feature into [-1, 1].
///
/// It belongs to the model: a row must be scored under the scaling that the model was trained
/// under. Serialised as the list of divisors.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Vec<f64>", into = "Vec<f64>")]
pub struct Scaling {
    divisors: Vec<f64>,
}

impl Scaling {
    /// Divides each feature by its largest absolute value in `table`, the normalisation of
    /// Kim, Song, Kim, Lee, Cheon 2018 (BMC Medical Genomics 11(4), 83). A feature that is 0 in
    /// all rows is left as it is.
    pub fn max_abs(table: &Table) -> Self {
        let mut divisors = vec![0.0_f64; table.features()];
        for row in table.iter_rows() {
            for (divisor, value) in divisors.iter_mut().zip(row) {
                *divisor = divisor.max(value.abs());
            }
        }
        for divisor in &mut divisors {
            if *divisor == 0.0 {
                *divisor = 1.0;
            }
        }
        Self { divisors }
    }

    /// The scaling with the given divisors, one per feature.
    ///
    /// # Errors
    /// [`TableError::Scale`] if a divisor is not positive and finite.
    pub fn from_divisors(divisors: Vec<f64>) -> Result<Self, TableError> {
        match divisors.iter().position(|&divisor| !(divisor.is_finite() && divisor > 0.0)) {
            Some(feature) => Err(TableError::Scale { feature, found: divisors[feature] }),
            None => Ok(Self { divisors }),
        }
    }

    /// Number of features.
    pub fn features(&self) -> usize {
        self.divisors.len()
    }

    /// The divisors, one per feature.
    pub fn divisors(&self) -> &[f64] {
        &self.divisors
    }

    /// `(1, x / divisors)`: the intercept's 1, then the scaled features.
    ///
    /// # Errors
    /// [`TableError::Shape`] if `x` has another number of features.
    pub fn design_row(&self, x: &[f64]) -> Result<Vec<f64>, TableError> {
        self.scaled_row(x, 1.0)
    }

    /// `z = y (1, x / divisors)` with `y = 1` for a true label and `y = -1` for a false one.
    ///
    /// # Errors
    /// [`TableError::Shape`] if `x` has another number of features.
    pub fn signed_row(&self, x: &[f64], label: bool) -> Result<Vec<f64>, TableError> {
        self.scaled_row(x, if label { 1.0 } else { -1.0 })
    }

    /// [`Scaling::design_row`] of every row.
    ///
    /// # Errors
    /// [`TableError::Shape`] if the table has another number of features.
    pub fn design_rows(&self, table: &Table) -> Result<Vec<Vec<f64>>, TableError> {
        table.iter_rows().map(|row| self.design_row(row)).collect()
    }

    /// [`Scaling::signed_row`] of every row: what logistic regression trains on.
    ///
    /// # Errors
    /// [`TableError::NoTarget`], or [`TableError::Shape`] if the table has another number of
    /// features.
    pub fn signed_rows(&self, table: &Table) -> Result<Vec<Vec<f64>>, TableError> {
        let labels = table.labels()?;
        table.iter_rows().zip(labels).map(|(row, &label)| self.signed_row(row, label)).collect()
    }

    fn scaled_row(&self, x: &[f64], sign: f64) -> Result<Vec<f64>, TableError> {
        let needed = self.divisors.len();
        if x.len() != needed {
            return Err(TableError::Shape { what: "features", found: x.len(), needed });
        }
        let scaled = x.iter().zip(&self.divisors).map(|(value, divisor)| sign * (value / divisor));
        Ok(std::iter::once(sign).chain(scaled).collect())
    }
}

impl TryFrom<Vec<f64>> for Scaling {
    type Error = TableError;

    fn try_from(divisors: Vec<f64>) -> Result<Self, TableError> {
        Self::from_divisors(divisors)
    }
}

impl From<Scaling> for Vec<f64> {
    fn from(scaling: Scaling) -> Self {
        scaling.divisors
    }
}

/// The file of a table, and its name for messages.
fn open(path: &Path) -> Result<(File, String), TableError> {
    let name = path.display().to_string();
    let failed = |error| read_error(&name, &error);
    // A pipe may never end, and what it holds is not bounded by a size.
    if !fs::metadata(path).map_err(failed)?.is_file() {
        let problem = "it is not a regular file, save the table as one";
        return Err(failed(io::Error::new(io::ErrorKind::InvalidInput, problem)));
    }
    let file = File::open(path).map_err(failed)?;
    Ok((file, name))
}

fn parse(
    source: impl Read,
    name: &str,
    target: Option<&str>,
    max_cells: usize,
) -> Result<Table, TableError> {
    let mut reader = csv::ReaderBuilder::new()
        .has_headers(false)
        .flexible(true)
        .trim(csv::Trim::All)
        .from_reader(UnixLines::new(source));
    let mut record = csv::ByteRecord::new();
    // Line that follows the last record read.
    let mut next_line = 1;
    let mut read = |record: &mut csv::ByteRecord| match reader.read_byte_record(record) {
        Ok(more) => Ok(more.then(|| {
            let breaks = record.as_slice().iter().filter(|&&byte| byte == b'\n').count() as u64;
            let after = reader.position().line();
            let line = after.saturating_sub(1 + breaks);
            let blank = (line > next_line).then_some(next_line);
            next_line = after;
            (line, blank)
        })),
        Err(error) => Err(match error.into_kind() {
            csv::ErrorKind::Io(error) => read_error(name, &error),
            other => read_error(name, &io::Error::other(format!("{other:?}"))),
        }),
    };

    let Some((line, _)) = read(&mut record)? else {
        return Err(TableError::Empty { rows: 0, features: 0 });
    };
    let mut columns = header(&record, line)?;
    let target_at = match target {
        None => None,
        Some(target) => match columns.iter().position(|column| column == target) {
            None => {
                return Err(TableError::UnknownTarget {
                    target: excerpt(target),
                    columns: list(&columns),
                });
            }
            at => at,
        },
    };

    let width = columns.len();
    let mut values = Vec::new();
    let mut labels = Vec::new();
    let mut rows = 0_usize;
    while let Some((line, blank)) = read(&mut record)? {
        if let Some(line) = blank {
            return Err(TableError::BlankLine { line });
        }
        if record.len() != width {
            return Err(TableError::Ragged { line, found: record.len(), needed: width });
        }
        rows += 1;
        if rows.checked_mul(width).is_none_or(|cells| cells > max_cells) {
            return Err(TableError::TooManyCells { limit: max_cells, line });
        }
        for (index, cell) in record.iter().enumerate() {
            let value = number(cell, line, index, &columns[index])?;
            if target_at != Some(index) {
                values.push(value);
            } else if value == 0.0 || value == 1.0 {
                labels.push(value == 1.0);
            } else {
                return Err(TableError::TargetNotBinary {
                    place: Place::Line(line),
                    column: excerpt(&columns[index]),
                    found: value,
                });
            }
        }
    }
    let target = target_at.map(|at| Target { name: columns.remove(at), labels });
    if rows == 0 || columns.is_empty() {
        return Err(TableError::Empty { rows, features: columns.len() });
    }
    Ok(Table { columns, values, target })
}

fn header(record: &csv::ByteRecord, line: u64) -> Result<Vec<String>, TableError> {
    let mut columns = Vec::with_capacity(record.len());
    for (index, cell) in record.iter().enumerate() {
        columns.push(utf8(cell, line, index)?.to_owned());
    }
    // The reader drops a byte order mark only if its first chunk holds all of it.
    if let Some(first) = columns.first_mut()
        && let Some(name) = first.strip_prefix('\u{feff}')
    {
        *first = name.trim_start().to_owned();
    }
    if columns.iter().all(|column| column.parse::<f64>().is_ok()) {
        return Err(TableError::NoHeader { line });
    }
    check_names(columns.iter())?;
    Ok(columns)
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

fn check_names<'a>(columns: impl Iterator<Item = &'a String>) -> Result<(), TableError> {
    let mut seen = HashMap::new();
    for (index, column) in columns.enumerate() {
        if column.is_empty() {
            return Err(TableError::UnnamedColumn { number: index + 1 });
        }
        if seen.insert(column, index).is_some() {
            return Err(TableError::DuplicateColumn { column: excerpt(column) });
        }
    }
    Ok(())
}

fn number(cell: &[u8], line: u64, index: usize, column: &str) -> Result<f64, TableError> {
    let text = utf8(cell, line, index)?;
    let parsed = text.parse::<f64>();
    if let Ok(value) = parsed
        && value.is_finite()
    {
        return Ok(value);
    }
    let (place, column, found) = (Place::Line(line), excerpt(column), excerpt(text));
    Err(if text.is_empty() {
        TableError::Gap { place, column }
    } else if parsed.is_ok() {
        TableError::NotFinite { place, column, found }
    } else {
        TableError::Text { place, column, found }
    })
}

fn utf8(cell: &[u8], line: u64, index: usize) -> Result<&str, TableError> {
    std::str::from_utf8(cell).map_err(|_| TableError::NotUtf8 { line, column: index + 1 })
}

fn read_error(name: &str, error: &io::Error) -> TableError {
    TableError::Read { name: name.to_owned(), kind: error.kind(), message: error.to_string() }
}

fn excerpt(text: &str) -> String {
    match text.char_indices().nth(MAX_EXCERPT) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

fn list(columns: &[String]) -> String {
    const SHOWN: usize = 12;
    let mut names: Vec<_> = columns.iter().take(SHOWN).map(|column| excerpt(column)).collect();
    if columns.len() > SHOWN {
        names.push(format!("and {} more", columns.len() - SHOWN));
    }
    names.join(", ")
}

/// Turns CRLF and CR line ends into LF and ends the last line, so that line counts are exact:
/// `csv` counts LF bytes, and leaves the LF of a CRLF to the next record.
struct UnixLines<R> {
    inner: R,
    /// Last byte read from `inner`.
    last: u8,
    finished: bool,
}

impl<R: Read> UnixLines<R> {
    fn new(inner: R) -> Self {
        Self { inner, last: b'\n', finished: false }
    }
}

impl<R: Read> Read for UnixLines<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() || self.finished {
            return Ok(0);
        }
        loop {
            let count = self.inner.read(buffer)?;
            if count == 0 {
                self.finished = true;
                if matches!(self.last, b'\n' | b'\r') {
                    return Ok(0);
                }
                buffer[0] = b'\n';
                return Ok(1);
            }
            let mut written = 0;
            for at in 0..count {
                let byte = buffer[at];
                let joined = byte == b'\n' && self.last == b'\r';
                self.last = byte;
                if !joined {
                    buffer[written] = if byte == b'\r' { b'\n' } else { byte };
                    written += 1;
                }
            }
            if written > 0 {
                return Ok(written);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn csv(text: &str) -> Result<Table, TableError> {
        Table::from_csv(text.as_bytes(), None, 1000)
    }

    fn csv_target(text: &str) -> Result<Table, TableError> {
        Table::from_csv(text.as_bytes(), Some("y"), 1000)
    }

    /// Hands out one byte at a time.
    struct Trickle<'a>(&'a [u8]);

    impl Read for Trickle<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.0.read(&mut buffer[..1])
        }
    }

    /// Rows and labels stay together, all are there, and every place can be any row's.
    #[test]
    fn rows_are_shuffled() {
        let rows = 5;
        let table = {
            let values = (0..rows).flat_map(|i| [i as f64, 10.0 * i as f64]).collect();
            let labels = (0..rows).map(|i| i % 2 == 1).collect();
            let columns = ["a", "b"].map(String::from).to_vec();
            Table::new(columns, values, Some(("y".into(), labels))).unwrap()
        };
        let mut counts = vec![vec![0; rows]; rows];
        for k in 0..200 {
            let mut shuffled = table.clone();
            let seed = Seed::from_bytes([k; 32]);
            shuffled.shuffle(&seed);
            let order: Vec<usize> = shuffled.column(0).map(|x| x as usize).collect();
            for (place, (&row, x)) in order.iter().zip(shuffled.iter_rows()).enumerate() {
                assert_eq!(x[1], 10.0 * x[0]);
                assert_eq!(shuffled.labels().unwrap()[place], row % 2 == 1);
                counts[place][row] += 1;
            }
            let mut sorted = order;
            sorted.sort_unstable();
            assert_eq!(sorted, (0..rows).collect::<Vec<_>>());
            let mut again = table.clone();
            again.shuffle(&seed);
            assert_eq!(again, shuffled);
        }
        // 40 are expected, with a standard deviation below 6.
        assert!(counts.iter().flatten().all(|count| (10..=70).contains(count)), "{counts:?}");
    }

    #[test]
    fn reads_features_and_target_from_any_line_ends() {
        let unix = "\u{feff}a, y ,b\n1,0, 2.5\n-3e2,1,\"+4\"\n\n\n";
        for text in [
            unix.to_owned(),
            unix.trim_end().to_owned(),
            unix.replace('\n', "\r\n"),
            unix.replace('\n', "\r"),
        ] {
            for table in [
                csv_target(&text).unwrap(),
                Table::from_csv(Trickle(text.as_bytes()), Some("y"), 6).unwrap(),
            ] {
                assert_eq!(table.columns(), ["a", "b"]);
                assert_eq!((table.rows(), table.features()), (2, 2));
                assert_eq!(table.values(), [1.0, 2.5, -300.0, 4.0]);
                assert_eq!(table.column(1).collect::<Vec<_>>(), [2.5, 4.0]);
                assert_eq!(table.column(2).count(), 0);
                assert_eq!(table.iter_rows().nth(1).unwrap(), [-300.0, 4.0]);
                assert_eq!(table.target(), Some("y"));
                assert_eq!(table.labels().unwrap(), [false, true]);
            }
        }
    }

    #[test]
    fn names_line_and_column_of_a_bad_cell() {
        let at = |line| Place::Line(line);
        let b = || "b".to_owned();
        for end in ["\n", "\r\n", "\r"] {
            let bad = |cell: &str| {
                let text = ["a,b", "1,2", "3,4", &format!("5,{cell}"), "6,7"].join(end);
                csv(&text).unwrap_err()
            };
            let found = |text: &str| text.to_owned();
            assert_eq!(
                bad("NA"),
                TableError::Text { place: at(4), column: b(), found: found("NA") }
            );
            assert_eq!(
                bad("1;5"),
                TableError::Text { place: at(4), column: b(), found: found("1;5") }
            );
            assert_eq!(bad(" "), TableError::Gap { place: at(4), column: b() });
            for cell in ["nan", "-inf", "1e999"] {
                let expected =
                    TableError::NotFinite { place: at(4), column: b(), found: found(cell) };
                assert_eq!(bad(cell), expected);
            }
            assert_eq!(bad("1,2"), TableError::Ragged { line: 4, found: 3, needed: 2 });
        }
        assert_eq!(csv("a,b\n1\n"), Err(TableError::Ragged { line: 2, found: 1, needed: 2 }));
        let long = "é".repeat(100);
        match csv(&format!("a\n1\n{long}\n")) {
            Err(TableError::Text { found, .. }) => assert_eq!(found.chars().count(), 41),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn line_numbers_survive_mixed_line_ends_and_blank_lines() {
        assert_eq!(csv("a\n1\r\n2\n\n3\n"), Err(TableError::BlankLine { line: 4 }));
        assert_eq!(csv("a\r\n1\r\n\r\n3"), Err(TableError::BlankLine { line: 3 }));
        assert_eq!(
            csv("\n\na\r\n1\n2\r\nx"),
            Err(TableError::Text { place: Place::Line(6), column: "a".into(), found: "x".into() })
        );
        assert_eq!(
            csv("a,b\n1,\"2\n3,4\n5,6\n"),
            Err(TableError::Text {
                place: Place::Line(2),
                column: "b".into(),
                found: "2\n3,4\n5,6".into()
            })
        );
    }

    #[test]
    fn refuses_bytes_that_are_not_utf8() {
        let read = |bytes: &[u8]| Table::from_csv(bytes, None, 10);
        assert_eq!(read(b"a,b\n1,\xff\n"), Err(TableError::NotUtf8 { line: 2, column: 2 }));
        let utf16: Vec<u8> = [0xfeff]
            .into_iter()
            .chain("a\n1\n".encode_utf16())
            .flat_map(u16::to_le_bytes)
            .collect();
        assert_eq!(read(&utf16), Err(TableError::NotUtf8 { line: 1, column: 1 }));
    }

    #[test]
    fn refuses_bad_headers_and_targets() {
        assert_eq!(csv("1,2\n3,4\n"), Err(TableError::NoHeader { line: 1 }));
        assert_eq!(csv(",a\n0,4\n"), Err(TableError::UnnamedColumn { number: 1 }));
        assert_eq!(csv("a,b,a\n"), Err(TableError::DuplicateColumn { column: "a".into() }));
        assert_eq!(
            csv_target("y,a,y\n0,1,0\n"),
            Err(TableError::DuplicateColumn { column: "y".into() })
        );
        let error = csv_target("a,b\n1,2\n").unwrap_err();
        assert_eq!(error, TableError::UnknownTarget { target: "y".into(), columns: "a, b".into() });
        assert_eq!(
            error.to_string(),
            "there is no column \"y\" to serve as target; the columns are a, b"
        );
        for cell in ["2", "-1", "0.5"] {
            assert_eq!(
                csv_target(&format!("a,y\n3,1\n4,{cell}\n")),
                Err(TableError::TargetNotBinary {
                    place: Place::Line(3),
                    column: "y".into(),
                    found: cell.parse().unwrap()
                })
            );
        }
    }

    #[test]
    fn refuses_empty_and_oversized_tables() {
        assert_eq!(csv(""), Err(TableError::Empty { rows: 0, features: 0 }));
        assert_eq!(csv("\n\n"), Err(TableError::Empty { rows: 0, features: 0 }));
        assert_eq!(csv("a,b\n"), Err(TableError::Empty { rows: 0, features: 2 }));
        assert_eq!(csv_target("y\n1\n"), Err(TableError::Empty { rows: 1, features: 0 }));
        let text = "a,b\n1,2\n3,4\n5,6\n";
        assert!(Table::from_csv(text.as_bytes(), None, 6).is_ok());
        assert_eq!(
            Table::from_csv(text.as_bytes(), None, 5),
            Err(TableError::TooManyCells { limit: 5, line: 4 })
        );
        // An endless source is given up at the limit.
        let endless = "a,b\n".as_bytes().chain(Endless);
        assert_eq!(
            Table::from_csv(endless, None, 100),
            Err(TableError::TooManyCells { limit: 100, line: 52 })
        );
    }

    /// "1,1\n1,1\n…" for ever.
    struct Endless;

    impl Read for Endless {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let rows = buffer.len() / 4;
            for row in buffer.chunks_exact_mut(4) {
                row.copy_from_slice(b"1,1\n");
            }
            Ok(4 * rows)
        }
    }

    #[test]
    fn reports_failures_of_the_source() {
        let missing = "no-such-directory/table.csv";
        match Table::read_csv(missing, None) {
            Err(TableError::Read { name, kind: io::ErrorKind::NotFound, .. }) => {
                assert_eq!(name, missing);
            }
            other => panic!("{other:?}"),
        }
        for place in [".", "/dev/zero"] {
            match Table::read_csv(place, None) {
                Err(TableError::Read { name, message, .. }) => {
                    assert_eq!(name, place);
                    assert!(message.contains("regular file") || !Path::new(place).exists());
                }
                other => panic!("{other:?}"),
            }
        }
        struct Broken;
        impl Read for Broken {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                Err(io::Error::new(io::ErrorKind::TimedOut, "too slow"))
            }
        }
        assert_eq!(
            Table::from_csv("a\n1\n".as_bytes().chain(Broken), None, 10),
            Err(TableError::Read {
                name: "the table".into(),
                kind: io::ErrorKind::TimedOut,
                message: "too slow".into()
            })
        );
    }

    #[test]
    fn new_checks_names_shape_and_values() {
        let names = |names: &[&str]| names.iter().map(|&name| name.into()).collect::<Vec<String>>();
        let ab = || names(&["a", "b"]);
        let table = Table::new(ab(), vec![1.0, 2.0], Some(("y".into(), vec![true]))).unwrap();
        assert_eq!(table, csv_target("a,b,y\n1,2,1\n").unwrap());
        assert_eq!(
            Table::new(vec![], vec![], None),
            Err(TableError::Empty { rows: 0, features: 0 })
        );
        assert_eq!(Table::new(ab(), vec![], None), Err(TableError::Empty { rows: 0, features: 2 }));
        assert_eq!(
            Table::new(ab(), vec![1.0; 3], None),
            Err(TableError::Shape { what: "values", found: 3, needed: 4 })
        );
        assert_eq!(
            Table::new(ab(), vec![1.0; 4], Some(("y".into(), vec![true]))),
            Err(TableError::Shape { what: "labels", found: 1, needed: 2 })
        );
        assert_eq!(
            Table::new(ab(), vec![1.0; 2], Some(("a".into(), vec![true]))),
            Err(TableError::DuplicateColumn { column: "a".into() })
        );
        assert_eq!(
            Table::new(ab(), vec![1.0, 2.0, 3.0, f64::NAN], None),
            Err(TableError::NotFinite {
                place: Place::Row(1),
                column: "b".into(),
                found: "NaN".into()
            })
        );
    }

    #[test]
    fn training_needs_varied_features_and_both_classes() {
        assert_eq!(csv("a\n1\n2\n").unwrap().check_for_training(), Err(TableError::NoTarget));
        assert_eq!(
            csv_target("a,y\n1,1\n2,1\n").unwrap().check_for_training(),
            Err(TableError::ConstantTarget { column: "y".into(), value: 1 })
        );
        assert_eq!(
            csv_target("a,b,y\n1,5,1\n2,5,0\n").unwrap().check_for_training(),
            Err(TableError::ConstantFeature { column: "b".into(), value: 5.0 })
        );
        assert_eq!(csv_target("a,b,y\n1,0,1\n2,0,0\n").unwrap().check_for_training(), Ok(()));
        for name in Table::BUNDLED {
            assert_eq!(Table::bundled(name).unwrap().check_for_training(), Ok(()));
        }
    }

    #[test]
    fn bundled_tables_have_the_published_counts() {
        let positives = |table: &Table| table.labels().unwrap().iter().filter(|&&y| y).count();
        let lbw = Table::bundled("lbw").unwrap();
        assert_eq!((lbw.rows(), lbw.features(), positives(&lbw)), (189, 9, 189 - 59));
        let uis = Table::bundled("uis").unwrap();
        assert_eq!((uis.rows(), uis.features(), positives(&uis)), (575, 8, 575 - 147));
        let error = Table::bundled("iris").unwrap_err().to_string();
        assert!(error.ends_with("the bundled tables are lbw, uis"), "{error}");
    }

    /// Hosmer and Lemeshow, Applied Logistic Regression, table 4.1 fits the probability of staying
    /// free of drugs to age: intercept -1.6602, slope 0.0182, deviance 652.3309. The bundled target
    /// is the opposite class.
    #[test]
    fn uis_reproduces_the_published_age_model() {
        let uis = Table::bundled("uis").unwrap();
        assert_eq!(uis.columns()[0], "age");
        let data: Vec<(f64, f64)> = uis
            .column(0)
            .zip(uis.labels().unwrap())
            .map(|(age, &label)| (age, f64::from(!label)))
            .collect();
        let (mut intercept, mut slope) = (0.0, 0.0);
        for _ in 0..20 {
            let (mut g0, mut g1, mut h00, mut h01, mut h11) = (0.0, 0.0, 0.0, 0.0, 0.0);
            for &(age, y) in &data {
                let p = 1.0 / (1.0 + f64::exp(-(intercept + slope * age)));
                let weight = p * (1.0 - p);
                g0 += y - p;
                g1 += (y - p) * age;
                h00 += weight;
                h01 += weight * age;
                h11 += weight * age * age;
            }
            let det = h00 * h11 - h01 * h01;
            intercept += (h11 * g0 - h01 * g1) / det;
            slope += (h00 * g1 - h01 * g0) / det;
        }
        let deviance: f64 = data
            .iter()
            .map(|&(age, y)| {
                2.0 * f64::ln_1p(f64::exp((1.0 - 2.0 * y) * (intercept + slope * age)))
            })
            .sum();
        assert!((intercept + 1.6602).abs() < 5e-5, "{intercept}");
        assert!((slope - 0.0182).abs() < 5e-5, "{slope}");
        assert!((deviance - 652.3309).abs() < 5e-5, "{deviance}");
    }

    #[test]
    fn debug_shows_no_values() {
        let shown = format!("{:?}", csv_target("a,y\n123456,1\n").unwrap());
        assert!(shown.contains("rows: 1") && !shown.contains("123456"), "{shown}");
    }

    #[test]
    fn scaling_divides_by_the_largest_absolute_value() {
        let table = csv_target("a,b,zero,y\n1,-8,0,1\n4,2,0,0\n").unwrap();
        let scaling = Scaling::max_abs(&table);
        assert_eq!(scaling.divisors(), [4.0, 8.0, 1.0]);
        assert_eq!(
            scaling.design_rows(&table).unwrap(),
            [[1.0, 0.25, -1.0, 0.0], [1.0, 1.0, 0.25, 0.0]]
        );
        assert_eq!(
            scaling.signed_rows(&table).unwrap(),
            [[1.0, 0.25, -1.0, 0.0], [-1.0, -1.0, -0.25, 0.0]]
        );
        assert_eq!(
            scaling.design_row(&[1.0]),
            Err(TableError::Shape { what: "features", found: 1, needed: 3 })
        );
        assert_eq!(scaling.signed_rows(&csv("a\n1\n").unwrap()), Err(TableError::NoTarget));
    }

    #[test]
    fn columns_can_be_taken_out() {
        let names = ["a", "b", "c"].map(String::from).to_vec();
        let values = vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
        let table = Table::new(names, values, Some(("y".into(), vec![true, false]))).unwrap();
        let (rest, taken) = table.without("b").unwrap();
        assert_eq!(
            (rest.columns(), rest.values()),
            (&["a".into(), "c".into()][..], &[1.0, 3.0, 4.0, 6.0][..])
        );
        assert_eq!((taken, rest.target()), (vec![2.0, 5.0], Some("y")));
        let unknown = table.without("y").unwrap_err();
        assert!(matches!(unknown, TableError::UnknownColumn { .. }), "{unknown}");
        let (alone, _) = rest.without("a").unwrap();
        assert_eq!(alone.without("c"), Err(TableError::Empty { rows: 2, features: 0 }));
    }

    #[test]
    fn scaling_survives_serialisation_and_refuses_bad_divisors() {
        let scaling = Scaling::from_divisors(vec![0.1, 45.0, 3e-5]).unwrap();
        let text = serde_json::to_string(&scaling).unwrap();
        assert_eq!(text, "[0.1,45.0,0.00003]");
        assert_eq!(serde_json::from_str::<Scaling>(&text).unwrap(), scaling);
        for bad in ["[1.0,0.0]", "[1.0,-2.0]"] {
            let error = serde_json::from_str::<Scaling>(bad).unwrap_err().to_string();
            assert!(error.contains("feature 1"), "{error}");
        }
        assert!(Scaling::from_divisors(vec![f64::NAN]).is_err());
        assert!(Scaling::from_divisors(vec![f64::INFINITY]).is_err());
    }

    proptest! {
        #[test]
        fn written_tables_are_read_back(
            rows in prop::collection::vec(
                (prop::collection::vec(prop::num::f64::NORMAL | prop::num::f64::ZERO, 3),
                 any::<bool>()),
                1..20),
            crlf: bool,
            target_at in 0_usize..4,
        ) {
            let end = if crlf { "\r\n" } else { "\n" };
            let mut names = vec!["a", "b", "c"];
            names.insert(target_at, "y");
            let mut text = names.join(",") + end;
            for (row, label) in &rows {
                let mut cells: Vec<String> = row.iter().map(f64::to_string).collect();
                cells.insert(target_at, u8::from(*label).to_string());
                text += &(cells.join(",") + end);
            }
            let table = Table::from_csv(text.as_bytes(), Some("y"), 80).unwrap();
            prop_assert_eq!(
                table.values(), rows.iter().flat_map(|(row, _)| row.clone()).collect::<Vec<_>>());
            prop_assert_eq!(
                table.labels().unwrap(), rows.iter().map(|row| row.1).collect::<Vec<_>>());
        }

        #[test]
        fn no_input_panics(bytes: Vec<u8>, text in "[a,0-9\n\r\". -]{0,60}") {
            let _ = Table::from_csv(&bytes[..], None, 50);
            let _ = Table::from_csv(text.as_bytes(), Some("a"), 50);
        }
    }
}

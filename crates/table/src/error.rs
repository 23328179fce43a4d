//! Why a table cannot be read, encoded, scaled or trained on.

use std::{fmt, io};

use super::Table;

/// Longest excerpt of a cell or name that an error message repeats, in characters.
const MAX_EXCERPT: usize = 40;

/// Where a value stands in its source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
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

/// A cell of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cell {
    /// The row of the cell.
    pub place: Place,
    /// The column of the cell.
    pub column: String,
    /// What it holds, cut to a short excerpt.
    pub found: String,
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, column {:?}: {}", self.place, self.column, self.found)
    }
}

/// Why a table cannot be read, encoded, scaled or trained on.
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
    /// The quotes around a cell do not end.
    #[error("line {line} begins a cell in quotes that do not end; close or double them")]
    OpenQuote {
        /// Line of the row.
        line: u64,
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
        "{place}, column {column:?}: the cell is empty, but every cell needs a value here; fill the \
         gap, drop the row or the column, or say what becomes of gaps: --missing, in Python missing="
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
         or 2e3; {}",
        instead(.found)
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
    /// The target has one value in all rows.
    #[error(
        "target column {column:?} is {value} in every row; training needs rows of both classes"
    )]
    ConstantTarget {
        /// Name of the target.
        column: String,
        /// The only class.
        value: String,
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
    /// An option of reading is not one of those that make sense.
    #[error("the {option} cannot be {found:?}; it must be {needed}")]
    ReadOption {
        /// The option.
        option: &'static str,
        /// Its value.
        found: char,
        /// What is possible.
        needed: &'static str,
    },
    /// A file has numbers with a decimal point and others with a decimal comma, or marks that may
    /// all separate thousands.
    #[error("{}", marks(.point.as_deref(), .comma.as_deref()))]
    DecimalMarks {
        /// The first cell with a point.
        point: Option<Box<Cell>>,
        /// The first cell with a comma.
        comma: Option<Box<Cell>>,
    },
    /// The different texts of a table take more memory than they may.
    #[error(
        "with column {column:?} the different texts of the table take more than {limit} bytes; \
         drop columns of free text"
    )]
    TooMuchText {
        /// Name of the column.
        column: String,
        /// Most bytes.
        limit: usize,
    },
    /// No row has a value in a column.
    #[error("column {column:?} has no value in any row; drop it")]
    AllMissing {
        /// Name of the column.
        column: String,
    },
    /// Rows with missing values are to be dropped, and each has one.
    #[error(
        "each of the {rows} rows lacks a value, so none is left when these are dropped; fill the \
         missing values, or drop the columns that have few"
    )]
    NoCompleteRow {
        /// Rows found.
        rows: usize,
    },
    /// A column has too many values to be coded by categories or classes.
    #[error(
        "column {column:?} has {found} different values, but at most {limit} can be categories or \
         classes; drop it, or bring its values into groups"
    )]
    TooManyCategories {
        /// Name of the column.
        column: String,
        /// Its different values.
        found: usize,
        /// The most that can be coded.
        limit: usize,
    },
    /// A number that names a category or a class, and may stand for other numbers, too.
    #[error(
        "column {column:?} has categories or classes such as {found}, but whole numbers from 2^53 on \
         are not exact here, so that different ones could be one: store the column as text"
    )]
    InexactName {
        /// Name of the column.
        column: String,
        /// The number.
        found: f64,
    },
    /// A table lacks columns that its encoding codes.
    #[error("the table lacks {missing}, which its encoding needs; its columns are {columns}")]
    MissingColumns {
        /// Names of the columns that it lacks.
        missing: String,
        /// Names of the columns that it has.
        columns: String,
    },
    /// A table has columns that its encoding does not know.
    #[error("the table has {surplus} besides the columns of its encoding, {columns}; drop them")]
    SurplusColumns {
        /// Names of the columns that are too many.
        surplus: String,
        /// Names of the columns of the encoding.
        columns: String,
    },
    /// A category is none of those that an encoding was fitted to.
    #[error(
        "{}, column {:?}: found {:?}, but the encoding knows {known}; correct it, drop the row, or \
         have unknown categories coded by zeros",
        .cell.place, .cell.column, .cell.found
    )]
    UnseenCategory {
        /// Where it stands.
        cell: Box<Cell>,
        /// The categories that the encoding knows, or the first of them.
        known: String,
    },
    /// A label is none of the classes that an encoding was fitted to.
    #[error(
        "{}, target column {:?}: found {:?}, but the classes are {classes}; correct it, or drop \
         the row",
        .cell.place, .cell.column, .cell.found
    )]
    UnknownClass {
        /// Where it stands.
        cell: Box<Cell>,
        /// The classes, or the first of them.
        classes: String,
    },
    /// Two columns of a table would be one by the names of their codes.
    #[error("columns {first:?} and {second:?} would both be coded as {name:?}; rename one of them")]
    EncodedName {
        /// The name that two codes have.
        name: String,
        /// The column of one of them.
        first: String,
        /// The column of the other.
        second: String,
    },
    /// An encoding contradicts itself.
    #[error("this is no encoding of a table: {problem}; fit one again")]
    Encoding {
        /// What is wrong.
        problem: String,
    },
    /// Classes do not belong to a table's rows.
    #[error("the classes of target column {column:?} cannot be used: {problem}")]
    Classes {
        /// Name of the target.
        column: String,
        /// What is wrong.
        problem: String,
    },
    /// Two classes are needed, and the target has more.
    #[error(
        "target column {column:?} has {count} classes, {classes}, but two are needed here; tell \
         one class from all others, or keep the rows of two"
    )]
    NotTwoClasses {
        /// Name of the target.
        column: String,
        /// How many classes.
        count: usize,
        /// The classes, or the first of them.
        classes: String,
    },
    /// A table has no such row.
    #[error("there is no row {row}; the table has {rows} rows, counted from 0")]
    UnknownRow {
        /// The wanted row.
        row: usize,
        /// Rows of the table.
        rows: usize,
    },
    /// A table cannot be split in such a share.
    #[error(
        "a share of {share} of {rows} rows cannot be held out; shares lie between 0 and 1, and \
         there must be two rows at least"
    )]
    Split {
        /// The share.
        share: f64,
        /// Rows of the table.
        rows: usize,
    },
}

/// What to do with a cell that is no number.
fn instead(found: &str) -> &'static str {
    let with_point = found.replacen(',', ".", 1);
    if found.contains(',') && with_point.parse::<f64>().is_ok() {
        return "if its comma is a decimal mark, say so by the option `decimal` (--decimal ,); if it \
                separates thousands, save the numbers without separators";
    }
    "replace it, or code the column as categories: --categorical, in Python text in a data frame"
}

/// Why the decimal mark of a file is not known.
fn marks(point: Option<&Cell>, comma: Option<&Cell>) -> String {
    match (point, comma) {
        (Some(point), Some(comma)) => format!(
            "{point} has a decimal point, but {comma} a decimal comma, and a file has one of them; \
             say which by the option `decimal`, and correct the other cells"
        ),
        (point, comma) => {
            let cell = point.or(comma).map(ToString::to_string).unwrap_or_default();
            format!(
                "{cell} and all other numbers with a mark have three digits behind it, so that it \
                 may separate thousands; if it is a decimal mark, say so by the option `decimal`, or \
                 save the table with points in numbers and commas between cells; else save the \
                 numbers without separators"
            )
        }
    }
}

/// Names that a table with the columns `found` lacks, as messages list them, each with the column
/// whose name differs only in how accents are written.
pub fn lacking(missing: &[impl AsRef<str>], found: &[String]) -> String {
    let written = |name: &str| -> String {
        let twin = found.iter().find(|other| differ_by_accents(name, other));
        match twin {
            None => name.to_owned(),
            Some(twin) => format!(
                "{name} (written {} in the table: write accented letters in one Unicode form, such \
                 as NFC)",
                twin.chars().flat_map(char::escape_default).collect::<String>()
            ),
        }
    };
    let names: Vec<String> = missing.iter().map(|name| excerpt(name.as_ref())).collect();
    let mut shown: Vec<String> = names.iter().take(SHOWN).map(|name| written(name)).collect();
    if names.len() > SHOWN {
        shown.push(format!("and {} more", names.len() - SHOWN));
    }
    shown.join(", ")
}

/// Whether two different names are the same letters, in one of them with marks of their own for
/// accents.
fn differ_by_accents(a: &str, b: &str) -> bool {
    let is_mark = |c: &char| ('\u{300}'..='\u{36f}').contains(c);
    let composed = |composed: &str, apart: &str| {
        let mut apart = apart.chars().peekable();
        composed.chars().all(|letter| {
            let base = apart.next();
            let mut marks = 0;
            while apart.next_if(is_mark).is_some() {
                marks += 1;
            }
            match marks {
                0 => base == Some(letter),
                _ => !letter.is_ascii() && base.is_some_and(|base| base != letter),
            }
        }) && apart.next().is_none()
    };
    a != b && (composed(a, b) || composed(b, a))
}

/// Names that a message lists.
const SHOWN: usize = 12;

pub(super) fn read_error(name: &str, error: &io::Error) -> TableError {
    TableError::Read { name: name.to_owned(), kind: error.kind(), message: error.to_string() }
}

/// Shortens a text for a message.
pub fn excerpt(text: &str) -> String {
    match text.char_indices().nth(MAX_EXCERPT) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Lists names in a message: the first ones, and a count of the rest.
pub fn list(names: &[impl AsRef<str>]) -> String {
    let mut shown: Vec<_> = names.iter().take(SHOWN).map(|name| excerpt(name.as_ref())).collect();
    if names.len() > SHOWN {
        shown.push(format!("and {} more", names.len() - SHOWN));
    }
    shown.join(", ")
}

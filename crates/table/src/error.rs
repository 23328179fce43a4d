//! Errors of reading, encoding, scaling and training on tables.

use std::{fmt, io};

use super::Table;

/// Maximum length of an excerpt of a cell or name in an error message, in characters.
// A cell may hold a whole document.
const MAX_EXCERPT: usize = 40;

/// Place of a value in its source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// Line of a CSV file, counted from 1. The header is normally line 1.
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
    /// The content, cut to a short excerpt.
    pub found: String,
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, column {:?}: {}", self.place, self.column, self.found)
    }
}

/// Errors of reading, encoding, scaling and training on tables.
#[derive(Debug, Clone, PartialEq, thiserror::Error, strum::IntoStaticStr, strum::VariantNames)]
#[non_exhaustive]
pub enum TableError {
    /// The operating system could not open or read the source.
    #[error("cannot read {name}: {message}")]
    Read {
        /// Path of the file, or "the table" for other readers.
        name: String,
        /// Kind of the failure.
        kind: io::ErrorKind,
        /// The operating system's description.
        message: String,
    },
    /// The first line contains numbers instead of column names.
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
        "column {number} has no name; name it or, if it holds row numbers, write the file without \
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
    /// The target column does not exist.
    #[error("there is no target column {target:?}; choose one of the columns {columns}")]
    UnknownTarget {
        /// The requested target.
        target: String,
        /// Names of the existing columns.
        columns: String,
    },
    /// A feature column does not exist.
    #[error("there is no feature column {column:?}; choose one of the columns {columns}")]
    UnknownColumn {
        /// The requested column.
        column: String,
        /// Names of the existing columns.
        columns: String,
    },
    /// Columns that the options name do not exist.
    #[error("there is no column {unknown}; choose among the columns {columns}")]
    UnknownColumns {
        /// The requested columns, with similar names of existing columns.
        unknown: String,
        /// Names of the existing columns.
        columns: String,
    },
    /// The options contradict each other about a column.
    #[error(
        "column {column:?} is to be left out, but is {role} as well; take it out of one of the two lists"
    )]
    Contradiction {
        /// Name of the column.
        column: String,
        /// The other role of the column.
        role: &'static str,
    },
    /// A rule for a single column cannot be applied.
    #[error("column {column:?} has a rule of its own, but {problem}")]
    Rule {
        /// Name of the column.
        column: String,
        /// The problem.
        problem: &'static str,
    },
    /// Several columns have faults, or several faults.
    #[error("{}", several(.faults))]
    Several {
        /// The faults, in the order of the columns.
        faults: Vec<TableError>,
    },
    /// A value of a column of dates is not a date.
    #[error(
        "{}, column {:?}: found {:?}, but the column has dates such as 2024-01-31 or \
         2024-01-31T08:30; correct it, or drop the row",
        .cell.place, .cell.column, .cell.found
    )]
    NotDate {
        /// The cell.
        cell: Box<Cell>,
    },
    /// Every value of a column has fewer rows than a category needs.
    #[error(
        "no value of column {column:?} has {rare} rows, so all of them would be joined; leave the \
         column out with --drop {}, in Python drop=[{column:?}]",
        quoted(.column)
    )]
    AllRare {
        /// Name of the column.
        column: String,
        /// Number of rows that a category needs.
        rare: usize,
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
    /// A quoted cell is not closed.
    #[error("line {line} begins a quoted cell that is not closed; close or double the quotes")]
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
        "{place}, column {column:?}: the cell is empty or stands for no value; fill gaps with \
         --missing mean, or leave the column out with --drop {}, in Python missing=\"mean\" or \
         drop=[{column:?}]",
        quoted(.column)
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
    /// A cell is infinite, NaN, or too large for double precision.
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
        "{place}, target column {column:?}: found {found}, but a target must be 0 or 1; encode the \
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
    /// The table has no rows or no feature columns.
    #[error(
        "the table has {rows} rows and {features} feature columns; it needs at least one of each"
    )]
    Empty {
        /// Rows found.
        rows: usize,
        /// Feature columns found, without the target.
        features: usize,
    },
    /// The table has more cells than the caller allows.
    #[error(
        "the table exceeds the limit of {limit} cells at line {line}; raise the limit, or split \
         the table"
    )]
    TooManyCells {
        /// Maximum number of cells.
        limit: usize,
        /// First line beyond it.
        line: u64,
    },
    /// The table of a Parquet file has more cells than the caller allows.
    #[error(
        "the table has {rows} rows and {columns} columns, more than {limit} cells; raise the \
         limit, or split the table"
    )]
    TooLarge {
        /// Rows.
        rows: usize,
        /// Columns, including the target.
        columns: usize,
        /// Maximum number of cells.
        limit: usize,
    },
    /// A Parquet file is damaged, or uses an unsupported feature.
    #[error(
        "this Parquet file cannot be read: {problem}; write it again, or save the table as CSV"
    )]
    Parquet {
        /// The problem.
        problem: String,
    },
    /// A column of a Parquet file does not contain numbers.
    #[error(
        "column {column:?} holds {found}, but a column must hold integers, floating-point numbers \
         or booleans; convert it, or drop it"
    )]
    NotNumbers {
        /// Name of the column.
        column: String,
        /// The type of its content.
        found: &'static str,
    },
    /// Values in memory do not fill whole rows, or labels do not match the rows.
    #[error(
        "found {found} {what}, but the shape of the table needs {needed}; pass exactly {needed}"
    )]
    Shape {
        /// The counted quantity.
        what: &'static str,
        /// The count passed.
        found: usize,
        /// The count that the table needs.
        needed: usize,
    },
    /// Labels are needed, but no target column was named.
    #[error("the table has no target column; name one when reading the table")]
    NoTarget,
    /// The target has one value in all rows.
    #[error(
        "target column {column:?} is {value} in every row, but training needs rows of both classes; \
         add rows of the other class"
    )]
    ConstantTarget {
        /// Name of the target.
        column: String,
        /// The only class.
        value: String,
    },
    /// There is no bundled table of this name.
    #[error("there is no bundled table {name:?}; choose one of {names}", names = Table::BUNDLED.join(", "))]
    UnknownBundled {
        /// The requested name.
        name: String,
    },
    /// A scale is not a positive finite number.
    #[error(
        "the scale of feature {feature}, counted from 0, is {found}; it must be positive and finite"
    )]
    Scale {
        /// Index of the feature, counted from 0.
        feature: usize,
        /// The invalid scale.
        found: f64,
    },
    /// The value of a read option is not possible.
    #[error("the {option} cannot be {found:?}; it must be {needed}")]
    ReadOption {
        /// The option.
        option: &'static str,
        /// The value of the option.
        found: char,
        /// The possible values.
        needed: &'static str,
    },
    /// A file has both decimal points and decimal commas, or marks that may all separate thousands.
    #[error("{}", marks(.point.as_deref(), .comma.as_deref()))]
    DecimalMarks {
        /// The first cell with a point.
        point: Option<Box<Cell>>,
        /// The first cell with a comma.
        comma: Option<Box<Cell>>,
    },
    /// The different texts of a table exceed the memory limit.
    #[error(
        "the different texts of the table exceed {limit} bytes at column {column:?}; drop columns \
         of free text"
    )]
    TooMuchText {
        /// Name of the column.
        column: String,
        /// Maximum memory, in bytes.
        limit: usize,
    },
    /// No row has a value in a column.
    #[error(
        "column {column:?} has no value in any row; leave it out with --drop {}, in Python \
         drop=[{column:?}]",
        quoted(.column)
    )]
    AllMissing {
        /// Name of the column.
        column: String,
    },
    /// Rows with missing values are to be dropped, and each row has one.
    #[error(
        "each of the {rows} rows lacks a value, so no row is left after they are dropped; fill the \
         missing values, or drop the columns with many gaps"
    )]
    NoCompleteRow {
        /// Rows found.
        rows: usize,
    },
    /// A column has too many values for categories or classes.
    #[error(
        "column {column:?} has {found} different values, but at most {limit} can be categories or \
         classes; leave it out with --drop {}, in Python drop=[{column:?}], or join rare \
         categories with --rare 5, in Python rare=5",
        quoted(.column)
    )]
    TooManyCategories {
        /// Name of the column.
        column: String,
        /// Number of different values.
        found: usize,
        /// Maximum number of different values.
        limit: usize,
    },
    /// A number that names a category or a class may also represent other numbers.
    #[error(
        "column {column:?} has categories or classes such as {found}, but integers from 2^53 on \
         are not exact here, so different values could become equal: store the column as text"
    )]
    InexactName {
        /// Name of the column.
        column: String,
        /// The number.
        found: f64,
    },
    /// A table lacks columns of its encoding.
    #[error(
        "the table lacks {missing}, which its encoding needs; add the missing columns to {columns}"
    )]
    MissingColumns {
        /// Names of the missing columns.
        missing: String,
        /// Names of the columns of the table.
        columns: String,
    },
    /// A table has columns that its encoding does not have.
    #[error(
        "the table has {surplus} in addition to the columns of its encoding, {columns}; leave them \
         out with --drop, in Python drop them from the frame"
    )]
    SurplusColumns {
        /// Names of the surplus columns.
        surplus: String,
        /// Names of the columns of the encoding.
        columns: String,
    },
    /// A category is not among the categories of the fitted table.
    #[error(
        "{}, column {:?}: found {:?}, but the encoding knows {known}; correct it, drop the row, or \
         code unknown categories as zeros",
        .cell.place, .cell.column, .cell.found
    )]
    UnseenCategory {
        /// The cell.
        cell: Box<Cell>,
        /// The categories of the encoding, or the first of them.
        known: String,
    },
    /// A label is not among the classes of the fitted table.
    #[error(
        "{}, target column {:?}: found {:?}, but the classes are {classes}; correct it, or drop \
         the row",
        .cell.place, .cell.column, .cell.found
    )]
    UnknownClass {
        /// The cell.
        cell: Box<Cell>,
        /// The classes, or the first of them.
        classes: String,
    },
    /// Two features of a table would have the same name.
    #[error(
        "columns {first:?} and {second:?} would both be encoded as {name:?}; rename one of them"
    )]
    EncodedName {
        /// The common name.
        name: String,
        /// The column of the first feature.
        first: String,
        /// The column of the second feature.
        second: String,
    },
    /// An encoding contradicts itself.
    #[error("this is not an encoding of a table: {problem}; fit one again")]
    Encoding {
        /// The contradiction.
        problem: String,
    },
    /// The classes do not match the rows of a table.
    #[error("the classes of target column {column:?} cannot be used: {problem}")]
    Classes {
        /// Name of the target.
        column: String,
        /// The problem.
        problem: String,
    },
    /// The weights of rows cannot be used.
    #[error("the weights of rows cannot be used: {problem}; pass finite weights of at least 0")]
    RowWeights {
        /// The problem.
        problem: String,
    },
    /// The target has more than two classes.
    #[error(
        "target column {column:?} has {count} classes, {classes}, but two are needed here; combine \
         all classes except one, or keep the rows of two"
    )]
    NotTwoClasses {
        /// Name of the target.
        column: String,
        /// Number of classes.
        count: usize,
        /// The classes, or the first of them.
        classes: String,
    },
    /// A row does not exist in the table.
    #[error("there is no row {row}; the table has {rows} rows, counted from 0")]
    UnknownRow {
        /// The requested row.
        row: usize,
        /// Rows of the table.
        rows: usize,
    },
    /// A table cannot be split by this share.
    #[error(
        "a share of {share} of {rows} rows cannot be held out; shares lie between 0 and 1, and at \
         least two rows are needed"
    )]
    Split {
        /// The share.
        share: f64,
        /// Rows of the table.
        rows: usize,
    },
}

/// Returns the remedy for a cell that is not a number.
fn instead(found: &str) -> &'static str {
    let with_point = found.replacen(',', ".", 1);
    // Only the first comma, as in reading: `1,234,567` is not a number with a decimal mark.
    if found.contains(',') && with_point.parse::<f64>().is_ok() {
        return "if its comma is a decimal mark, set the option `decimal` (--decimal ,); if it \
                separates thousands, save the numbers without separators";
    }
    "replace it, or code the column as categories: --categorical, in Python text in a data frame"
}

/// Returns the reason why the decimal mark of a file is ambiguous.
fn marks(point: Option<&Cell>, comma: Option<&Cell>) -> String {
    match (point, comma) {
        (Some(point), Some(comma)) => format!(
            "{point} has a decimal point, but {comma} has a decimal comma, and a file can use only \
             one of them; set the option `decimal` (--decimal), and correct the other cells"
        ),
        (point, comma) => {
            let cell = point.or(comma).map(ToString::to_string).unwrap_or_default();
            format!(
                "{cell} has a mark that may separate thousands, because three digits follow it, as in \
                 all numbers with a mark; if it is a decimal mark, set the option `decimal` \
                 (--decimal), or save the table with decimal points, and commas between cells; \
                 otherwise save the numbers without separators"
            )
        }
    }
}

/// Writes a name as lists of names on the command line have it.
fn quoted(name: &str) -> String {
    let name = if name.contains([',', '"']) {
        format!("\"{}\"", name.replace('"', "\"\""))
    } else {
        name.into()
    };
    let is_plain = |c: char| c.is_alphanumeric() || "_-.,:".contains(c);
    if name.chars().all(is_plain) { name } else { format!("'{}'", name.replace('\'', "'\\''")) }
}

/// Returns the faults of several columns, and the options that remedy them.
fn several(faults: &[TableError]) -> String {
    let mut drop = Vec::new();
    let mut categorical = Vec::new();
    let mut fill = false;
    let mut told = Vec::new();
    for fault in faults {
        told.push(match fault {
            TableError::Gap { place, column } => {
                fill = true;
                format!("{column:?} lacks values, first on {place}")
            }
            TableError::Text { place, column, found } => {
                categorical.push(column.as_str());
                format!("{column:?} has text among numbers, {found:?} on {place}")
            }
            TableError::TooManyCategories { column, found, .. } => {
                drop.push(column.as_str());
                format!("{column:?} has {found} different values")
            }
            TableError::AllMissing { column } => {
                drop.push(column.as_str());
                format!("{column:?} has no values")
            }
            TableError::AllRare { column, rare } => {
                drop.push(column.as_str());
                format!("{column:?} has no value with {rare} rows")
            }
            other => other.to_string(),
        });
    }
    let list = |names: &[&str]| names.iter().map(|name| quoted(name)).collect::<Vec<_>>().join(",");
    let mut options = Vec::new();
    let mut python = Vec::new();
    if fill {
        options.push("--missing mean".to_owned());
        python.push("missing=\"mean\"".to_owned());
    }
    if !categorical.is_empty() {
        options.push(format!("--categorical {}", list(&categorical)));
        python.push(format!("categories as text in {categorical:?}"));
    }
    if !drop.is_empty() {
        options.push(format!("--drop {}", list(&drop)));
        python.push(format!("drop={drop:?}"));
    }
    let told = told.join("; ");
    let pass = format!("pass {}, in Python {}", options.join(" "), python.join(", "));
    let remedy = if options.is_empty() { "correct them".to_owned() } else { pass };
    format!("{} columns cannot be used as they are: {told}; {remedy}", faults.len())
}

/// Lists unknown names, each with the most similar of the `known` names, if one is similar.
pub(super) fn with_nearest(unknown: &[&String], known: &[String]) -> String {
    let near = |name: &str| {
        let lower = name.to_lowercase();
        let distances = known.iter().map(|other| (distance(&lower, &other.to_lowercase()), other));
        // A third of the letters may be wrong.
        let most = name.chars().count() / 3;
        distances.filter(|&(distance, _)| distance <= most).min_by_key(|&(distance, _)| distance)
    };
    let written = unknown.iter().take(SHOWN).map(|name| match near(name) {
        Some((_, other)) => format!("{:?} (did you mean {:?}?)", excerpt(name), excerpt(other)),
        None => format!("{:?}", excerpt(name)),
    });
    written.collect::<Vec<_>>().join(", ")
}

/// Returns the number of inserted, removed or replaced characters between two texts.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, letter) in a.chars().enumerate() {
        let mut corner = i;
        let mut left = i + 1;
        row[0] = left;
        for (other, above) in b.iter().zip(&mut row[1..]) {
            let replaced = corner + usize::from(letter != *other);
            corner = *above;
            left = replaced.min(left + 1).min(corner + 1);
            *above = left;
        }
    }
    row[b.len()]
}

/// Lists names that a table with the columns `found` lacks, for a message. Each name is followed by
/// the column that differs only in the encoding of accents, if any.
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

/// Returns whether two different names are the same characters, except that accents are combining
/// marks in one of them.
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
                // A composed character is not ASCII, and its base is another character.
                _ => !letter.is_ascii() && base.is_some_and(|base| base != letter),
            }
        }) && apart.next().is_none()
    };
    a != b && (composed(a, b) || composed(b, a))
}

/// Maximum number of names in a message.
// A table may have thousands of columns.
const SHOWN: usize = 12;

pub(super) fn read_error(name: &str, error: &io::Error) -> TableError {
    TableError::Read { name: name.to_owned(), kind: error.kind(), message: error.to_string() }
}

/// Shortens a text for a message.
pub fn excerpt(text: &str) -> String {
    match text.char_indices().nth(MAX_EXCERPT) {
        // By characters, because a cut within the bytes of one would panic.
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Lists names for a message: the first ones, and a count of the rest.
pub fn list(names: &[impl AsRef<str>]) -> String {
    let mut shown: Vec<_> = names.iter().take(SHOWN).map(|name| excerpt(name.as_ref())).collect();
    if names.len() > SHOWN {
        shown.push(format!("and {} more", names.len() - SHOWN));
    }
    shown.join(", ")
}

//! The public schema of a pool.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};
use sudare_table::{
    Code, Encoding, EncodingOptions, Frame, Missing, Omission, Place, ReadOptions, Table,
    TableError, TextColumn, Unseen, excerpt, list,
};

use super::PoolError;

/// Version of the document.
const VERSION: u32 = 1;

/// The public schema that all owners of a pool and the holder of the key agree on. It has the
/// columns in order with their bounds or categories, the target with its classes, the treatment of
/// missing values and of unknown categories, and the names of the owners.
///
/// It is a JSON document that people can read and edit:
///
/// ```json
/// {
///   "version": 1,
///   "owners": ["north", "south"],
///   "target": { "name": "default", "classes": ["no", "yes"] },
///   "missing": "flag",
///   "unseen": "zero",
///   "columns": [
///     { "name": "age", "kind": { "number": { "low": 18.0, "high": 100.0 } }, "missing": true },
///     { "name": "purpose", "kind": { "categories": ["car", "home"] }, "missing": false }
///   ]
/// }
/// ```
///
/// Other kinds are `{ "date": { "low": 18000.0, "high": 20000.0 } }`, in days since 1970-01-01,
/// `{ "common": ["car", "home"] }` with a category `other` for all other values, and `"left_out"` for
/// columns that tables may have and that are not used.
///
/// With `"missing": "flag"`, a column whose values may be missing gets an additional column, which
/// is 1 where the value is missing and 0 elsewhere. A missing number then becomes the middle of its
/// bounds. [`Encoding`] describes the rest of the encoding.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Document", into = "Document")]
pub struct Schema {
    document: Document,
    encoding: Encoding,
    bounds: Vec<Bounds>,
    digest: [u8; 32],
}

/// The JSON form of a schema.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    version: u32,
    owners: Vec<String>,
    target: Option<Target>,
    missing: Missing,
    unseen: Unseen,
    columns: Vec<Column>,
}

/// The target.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Target {
    name: String,
    classes: Vec<String>,
}

/// A column of the frames.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Column {
    name: String,
    kind: Kind,
    /// True if an additional column flags missing values.
    #[serde(default)]
    missing: bool,
}

/// The content of a column.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Kind {
    Number(Bounds),
    Categories(Vec<String>),
    /// Days since 1970-01-01.
    Date(Bounds),
    /// Categories, and one more for all other values.
    Common(Vec<String>),
    /// A column that tables may have and that is not used.
    LeftOut,
}

/// The smallest and the largest value that a column may have.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bounds {
    /// The smallest value.
    pub low: f64,
    /// The largest value, above `low`.
    pub high: f64,
}

impl Bounds {
    /// Bounds of columns that are 0 or 1.
    const BINARY: Self = Self { low: 0.0, high: 1.0 };

    /// Returns the middle.
    #[must_use]
    pub fn center(self) -> f64 {
        // Halved first: the sum of two large bounds would be infinite.
        self.high / 2.0 + self.low / 2.0
    }

    /// Returns half the width.
    #[must_use]
    pub fn unit(self) -> f64 {
        self.high / 2.0 - self.low / 2.0
    }

    /// Returns whether a value lies within the bounds.
    fn hold(self, value: f64) -> bool {
        (self.low..=self.high).contains(&value)
    }

    /// Returns bounds around the values, rounded outward to two significant digits so that they
    /// reveal less of the values.
    fn around(values: impl Iterator<Item = f64>) -> Self {
        let empty = (f64::INFINITY, f64::NEG_INFINITY);
        let (low, high) = values.fold(empty, |(low, high), x| (x.min(low), x.max(high)));
        if low < high {
            return Self { low: two_digits(low, false), high: two_digits(high, true) };
        }
        // The bounds must differ, and close ones would reveal the only value.
        let margin = if low == 0.0 { 1.0 } else { low.abs() / 10.0 };
        // The margin of a huge value must not make a bound infinite.
        let low = (low - margin).max(f64::MIN);
        let high = (high + margin).min(f64::MAX);
        Self { low: two_digits(low, false), high: two_digits(high, true) }
    }
}

/// Returns the next number of two significant digits above or below.
fn two_digits(x: f64, above: bool) -> f64 {
    // From the decimal text, because a division by a power of ten would be rounded.
    let text = format!("{:e}", x.abs());
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let mut digits = digits.chars().filter_map(|c| c.to_digit(10));
    let first = 10 * digits.next().unwrap_or(0) + digits.next().unwrap_or(0);
    // Rounding outward adds to the digits only away from 0, and only if digits are dropped.
    let grows = above == (x > 0.0) && digits.any(|digit| digit != 0);
    let exponent = exponent.parse::<i32>().unwrap_or(0) - 1;
    let size: f64 = format!("{}e{exponent}", first + u32::from(grows)).parse().unwrap_or(f64::MAX);
    // Above the largest number, rounding outward gives infinity.
    size.min(f64::MAX).copysign(x)
}

impl Schema {
    /// Maximum number of owners of a pool.
    pub const MAX_OWNERS: usize = 1000;

    /// Maximum number of encoded columns. The number of sums grows with its square.
    pub const MAX_COLUMNS: usize = 1024;

    /// Drafts a schema from the table of one owner: its columns, categories and classes, and bounds
    /// of its numbers, rounded outward to two significant digits.
    ///
    /// The draft reveals names, categories, classes, and bounds near the extremes of this table.
    /// Its owner should review it before sharing it: widen bounds for the values of other owners,
    /// add categories that only others have, and mark columns in which only others lack values.
    ///
    /// # Errors
    /// [`PoolError::FilledByMean`]; [`PoolError::Table`] with the errors of [`Encoding::fit`];
    /// [`PoolError::Schema`] with the errors of [`Schema::from_json`].
    pub fn draft(
        frame: &Frame,
        target: Option<&str>,
        options: &EncodingOptions,
        owners: &[String],
    ) -> Result<Self, PoolError> {
        let EncodingOptions { missing, unseen, .. } = *options;
        if missing.fills() && missing != Missing::Flag {
            return Err(PoolError::FilledByMean);
        }
        if let Some(column) = options.missing_of.keys().chain(options.dates.keys()).next() {
            let problem = "a schema of several owners has the same rules for all columns";
            return Err(TableError::Rule { column: excerpt(column), problem }.into());
        }
        let encoding = Encoding::fit(frame, target, options)?;
        let table = encoding.apply(frame.clone())?;
        let mut first = 0;
        let columns = encoding.codes().map(|(name, code)| {
            let (kind, missing) = match code {
                Code::Number { flag, .. } => {
                    (Kind::Number(Bounds::around(table.column(first))), *flag)
                }
                Code::Categories { values, missing } => {
                    (Kind::Categories(values.clone()), *missing)
                }
                Code::Date { flag, .. } => (Kind::Date(Bounds::around(table.column(first))), *flag),
                Code::Joined { values, missing, .. } => (Kind::Common(values.clone()), *missing),
                Code::LeftOut { .. } => (Kind::LeftOut, false),
            };
            let column = Column { name: name.to_owned(), kind, missing };
            first += column.bounds().count();
            column
        });
        let columns = columns.collect();
        let classes = encoding.classes().to_vec();
        let target = encoding.target().map(|name| Target { name: name.to_owned(), classes });
        let owners = owners.to_vec();
        Self::try_from(Document { version: VERSION, owners, target, missing, unseen, columns })
    }

    /// Reads the schema of a JSON document.
    ///
    /// # Errors
    /// [`PoolError::FilledByMean`]. [`PoolError::Schema`] for every other problem: text that is not
    /// a schema, or of another version; not 1 to 1000 different owners with names; fewer than two
    /// classes; bounds that are not finite or contain only one value; columns without names or with
    /// equal names, without categories, or with a flag that `missing` does not allow; more than
    /// [`Schema::MAX_COLUMNS`] columns after coding.
    pub fn from_json(text: &str) -> Result<Self, PoolError> {
        let document: Document = serde_json::from_str(text).map_err(problem)?;
        Self::try_from(document)
    }

    /// Returns the document, indented for people to read. Equal schemas give equal documents.
    ///
    /// # Errors
    /// [`PoolError::Schema`] if it cannot be written, which no checked schema causes.
    pub fn to_json(&self) -> Result<String, PoolError> {
        serde_json::to_string_pretty(&self.document).map_err(problem)
    }

    /// Returns the names of the owners, by their index.
    pub fn owners(&self) -> &[String] {
        &self.document.owners
    }

    /// Returns the index of an owner.
    ///
    /// # Errors
    /// [`PoolError::UnknownOwner`].
    pub fn owner(&self, name: &str) -> Result<usize, PoolError> {
        let found = self.owners().iter().position(|owner| owner == name);
        found.ok_or_else(|| self.unknown_owner(name))
    }

    /// Returns the error for an unknown name or index of an owner.
    pub(super) fn unknown_owner(&self, owner: &str) -> PoolError {
        PoolError::UnknownOwner { owner: excerpt(owner), owners: list(self.owners()) }
    }

    /// Returns the encoding of frames as tables, the same for all owners.
    pub fn encoding(&self) -> &Encoding {
        &self.encoding
    }

    /// Returns the options to read a file to which you apply the schema.
    pub fn read_options(&self) -> ReadOptions {
        self.encoding.read_options()
    }

    /// Returns the names of the encoded columns, in order.
    pub fn columns(&self) -> &[String] {
        self.encoding.columns()
    }

    /// Returns the classes of the target in order, empty without a target.
    pub fn classes(&self) -> &[String] {
        self.encoding.classes()
    }

    /// Returns the bounds of each encoded column: 0 and 1 for columns of categories or missing
    /// values.
    pub fn bounds(&self) -> &[Bounds] {
        &self.bounds
    }

    /// Returns the middle of the bounds of each encoded column.
    #[must_use]
    pub fn centers(&self) -> Vec<f64> {
        self.bounds.iter().map(|bounds| bounds.center()).collect()
    }

    /// Returns half the width of the bounds of each encoded column, which is positive.
    #[must_use]
    pub fn units(&self) -> Vec<f64> {
        self.bounds.iter().map(|bounds| bounds.unit()).collect()
    }

    /// Returns the BLAKE3 hash of the document in its shortest form. Equal hashes mean equal
    /// schemas.
    #[must_use]
    pub fn digest(&self) -> [u8; 32] {
        self.digest
    }

    /// Encodes the frame of an owner as a table. The frame has the columns of the schema in any
    /// order, and the target if the schema has one.
    ///
    /// # Errors
    /// [`PoolError::Table`], which names missing and surplus columns, or the place of an unknown
    /// text, category or class; [`PoolError::Missing`]; [`PoolError::OutOfBounds`].
    pub fn apply(&self, frame: &Frame) -> Result<Table, PoolError> {
        // An encoding accepts frames without a target, for rows to be scored. Here labels are
        // needed.
        if let Some(Target { name, .. }) = &self.document.target
            && !frame.columns().contains(name)
        {
            let missing = excerpt(name);
            let columns = list(frame.columns());
            return Err(TableError::MissingColumns { missing, columns }.into());
        }
        // On the frame: the encoding fills gaps, which the table does not show.
        self.check_gaps(frame)?;
        let table = self.encoding.apply(frame.clone())?;
        self.check_bounds(&table, |row| {
            // The encoding may have dropped rows with missing values.
            let dropped = table.dropped() > 0;
            let is_used = |name: &String| self.encoding.left_out().all(|(other, _)| other != name);
            let names = frame.columns().iter().enumerate();
            let used: Vec<usize> =
                names.filter(|(_, name)| is_used(name)).map(|(at, _)| at).collect();
            let kept =
                |&row: &usize| !(dropped && used.iter().any(|&at| is_missing(frame, row, at)));
            frame.place((0..frame.rows()).filter(kept).nth(row).unwrap_or(row))
        })?;
        Ok(table)
    }

    /// Rejects a table that the schema did not encode.
    pub(super) fn check(&self, table: &Table) -> Result<(), PoolError> {
        if table.columns() != self.columns() {
            return Err(PoolError::OtherTable { what: "columns" });
        }
        if table.target() != self.encoding.target() {
            return Err(PoolError::OtherTable { what: "targets" });
        }
        if self.document.target.is_some() && table.classes()? != self.classes() {
            return Err(PoolError::OtherTable { what: "classes" });
        }
        self.check_bounds(table, Place::Row)
    }

    fn check_bounds(&self, table: &Table, place: impl Fn(usize) -> Place) -> Result<(), PoolError> {
        let outside = |row: &[f64]| {
            row.iter().zip(&self.bounds).position(|(&value, bounds)| !bounds.hold(value))
        };
        let fault = table.iter_rows().enumerate().find_map(|(row, values)| {
            outside(values).map(|at| (row, at, values[at], self.bounds[at]))
        });
        let Some((row, at, found, Bounds { low, high })) = fault else { return Ok(()) };
        let place = place(row);
        let column = excerpt(&self.columns()[at]);
        Err(PoolError::OutOfBounds { place, column, found, low, high })
    }

    /// Rejects missing values without a flag column, which the encoding would fill.
    fn check_gaps(&self, frame: &Frame) -> Result<(), PoolError> {
        if self.document.missing != Missing::Flag {
            return Ok(());
        }
        let unflagged = |column: &&Column| !column.missing && column.kind != Kind::LeftOut;
        for Column { name, .. } in self.document.columns.iter().filter(unflagged) {
            let at = frame.columns().iter().position(|column| column == name);
            let gap = |at| (0..frame.rows()).find(|&row| is_missing(frame, row, at));
            if let Some(row) = at.and_then(gap) {
                let place = frame.place(row);
                let column = excerpt(name);
                return Err(PoolError::Missing { place, column });
            }
        }
        Ok(())
    }
}

/// Returns whether a row lacks the value of a column.
fn is_missing(frame: &Frame, row: usize, at: usize) -> bool {
    match frame.text(at) {
        Some(text) => text.codes()[row] == TextColumn::MISSING,
        None => frame.numbers()[row * frame.columns().len() + at].is_nan(),
    }
}

fn problem(problem: impl ToString) -> PoolError {
    PoolError::Schema { problem: problem.to_string() }
}

impl TryFrom<Document> for Schema {
    type Error = PoolError;

    fn try_from(document: Document) -> Result<Self, PoolError> {
        document.check()?;
        let bounds: Vec<Bounds> = document.columns.iter().flat_map(Column::bounds).collect();
        if bounds.len() > Self::MAX_COLUMNS {
            let found = bounds.len();
            let most = Self::MAX_COLUMNS;
            return Err(problem(format!(
                "it has {found} columns after coding, but at most {most} fit"
            )));
        }
        let encoding = document.encoding().map_err(problem)?;
        let text = serde_json::to_vec(&document).map_err(problem)?;
        Ok(Self { digest: *blake3::hash(&text).as_bytes(), document, encoding, bounds })
    }
}

impl From<Schema> for Document {
    fn from(schema: Schema) -> Self {
        schema.document
    }
}

impl Document {
    /// Rejects documents that would pass as an encoding but are not allowed in a pool.
    fn check(&self) -> Result<(), PoolError> {
        let bad = |text: String| Err(problem(text));
        if self.version != VERSION {
            return bad(format!(
                "it has version {}, but this program reads {VERSION}",
                self.version
            ));
        }
        if self.missing.fills() && self.missing != Missing::Flag {
            return Err(PoolError::FilledByMean);
        }
        let owners = self.owners.len();
        let most = Schema::MAX_OWNERS;
        if !(1..=most).contains(&owners) {
            return bad(format!("it has {owners} owners, but 1 to {most} are possible"));
        }
        let mut seen = HashSet::new();
        if let Some(owner) =
            self.owners.iter().find(|owner| owner.is_empty() || !seen.insert(owner.as_str()))
        {
            return bad(format!(
                "two owners, or one without a name, are called {:?}",
                excerpt(owner)
            ));
        }
        if let Some(Target { name, classes }) = &self.target
            && classes.len() < 2
        {
            let name = excerpt(name);
            let found = classes.len();
            return bad(format!("target {name:?} has {found} classes, but at least 2 are needed"));
        }
        self.columns.iter().try_for_each(|column| column.check(self.missing))
    }

    fn encoding(&self) -> Result<Encoding, TableError> {
        let columns =
            self.columns.iter().map(|column| (column.name.clone(), column.code(self.missing)));
        let target = self.target.clone().map(|Target { name, classes }| (name, classes));
        Encoding::of_codes(columns, target, self.missing, self.unseen)
    }
}

impl Column {
    fn check(&self, missing: Missing) -> Result<(), PoolError> {
        let name = excerpt(&self.name);
        if self.missing && missing != Missing::Flag {
            return Err(problem(format!(
                "values of column {name:?} may be missing, but missing values are not flagged"
            )));
        }
        let (Kind::Number(bounds) | Kind::Date(bounds)) = self.kind else { return Ok(()) };
        let Bounds { low, high } = bounds;
        let finite = low.is_finite() && high.is_finite();
        // A unit below the normal numbers has few bits.
        if !finite || !bounds.unit().is_normal() || bounds.unit() < 0.0 {
            return Err(problem(format!(
                "column {name:?} has values from {low} to {high}, but the second bound must be \
                 larger than the first, and both finite; drop the column if it is constant"
            )));
        }
        Ok(())
    }

    fn code(&self, missing: Missing) -> Code {
        match &self.kind {
            // The middle follows from the schema alone, where a mean would follow from one owner's
            // rows.
            Kind::Number(bounds) => {
                let mean = (missing == Missing::Flag).then(|| bounds.center());
                Code::Number { mean, flag: self.missing }
            }
            Kind::Date(bounds) => {
                let mean = (missing == Missing::Flag).then(|| bounds.center());
                Code::Date { mean, flag: self.missing }
            }
            Kind::Categories(values) => {
                Code::Categories { values: values.clone(), missing: self.missing }
            }
            Kind::Common(values) => {
                let values = values.clone();
                Code::Joined { values, other: true, missing: self.missing, fill: None }
            }
            Kind::LeftOut => Code::LeftOut { reason: Omission::Unselected },
        }
    }

    /// Returns the bounds of each of the column's encoded columns.
    fn bounds(&self) -> impl Iterator<Item = Bounds> + use<> {
        let (own, binary) = match &self.kind {
            Kind::Number(bounds) | Kind::Date(bounds) => (Some(*bounds), 0),
            Kind::Categories(values) => (None, values.len()),
            Kind::Common(values) => (None, values.len() + 1),
            Kind::LeftOut => (None, 0),
        };
        let binary = binary + usize::from(self.missing);
        own.into_iter().chain(std::iter::repeat_n(Bounds::BINARY, binary))
    }
}

#[cfg(test)]
mod tests;

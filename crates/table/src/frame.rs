//! Tables as files have them, before they are encoded as numbers.

use std::{borrow::Cow, collections::HashMap, fmt};

use super::{Cell, Place, Table, TableError, check_names, dates::days, error::excerpt};

/// The columns that contain names of categories.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Categorical {
    /// No column. Text is rejected, except in labels.
    #[default]
    None,
    /// Every text column.
    Every,
    /// The columns with these names, even if they contain numbers. Text in other columns is
    /// rejected.
    Columns(Vec<String>),
    /// The columns with these names, and every other text column that is not a date and does not
    /// identify rows. In a CSV file, where types are guessed, text among numbers is rejected.
    Detect(Vec<String>),
}

/// The columns of a file that are used. A target is always used.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Selection {
    /// Names of the only columns to use. Without it, all columns are used.
    pub columns: Option<Vec<String>>,
    /// Names of columns to leave out.
    pub drop: Vec<String>,
}

impl Selection {
    /// Returns whether a column is used.
    pub fn takes(&self, column: &str) -> bool {
        let among = |names: &[String]| names.iter().any(|name| name == column);
        self.columns.as_ref().is_none_or(|columns| among(columns)) && !among(&self.drop)
    }
}

/// Options to read a file.
///
/// By default, a file is a table of numbers: text and missing values are rejected. For the options
/// that match an encoding, see [`EncodingOptions::read_options`] and [`Encoding::read_options`].
///
/// [`EncodingOptions::read_options`]: super::EncodingOptions::read_options
/// [`Encoding::read_options`]: super::Encoding::read_options
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadOptions {
    /// The delimiter between the cells of a CSV file. Without it, comma, semicolon, tab and
    /// vertical bar are tried. A candidate must split the header and the first rows into the same
    /// number of cells, more than one. Among several candidates, the one with the most numbers in
    /// the rows wins, then the one with the most cells, then the first in this list.
    pub delimiter: Option<char>,
    /// The decimal mark of a CSV file, point or comma. Without it, the mark is the point if the
    /// delimiter is a comma. Otherwise it is detected from the numbers of the file.
    pub decimal: Option<char>,
    /// The columns that may contain text. [`Categorical::Columns`] are text from the first cell on,
    /// so `1` and `1.0` differ there.
    pub categorical: Categorical,
    /// True if values may be missing. In a CSV file, empty cells are missing, and in number columns
    /// also the words [`ReadOptions::MISSING`]. In a Parquet file, nulls and NaN are missing.
    pub missing: bool,
    /// Words for a missing value in any column of a CSV file, including text columns. They replace
    /// [`ReadOptions::MISSING`].
    pub missing_words: Option<Vec<String>>,
    /// The column of labels, which may contain text for any value of `categorical`. The file may
    /// lack it.
    pub target: Option<String>,
    /// The used columns. The cells of other columns are not read, and are missing in the frame.
    pub selection: Selection,
    /// Maximum number of cells, including the target.
    pub max_cells: usize,
}

impl ReadOptions {
    /// The words for a missing number in a CSV file, in addition to an empty cell. In a text column
    /// these words are values: `NA` may be Namibia.
    pub const MISSING: [&str; 15] = [
        "NA", "N/A", "n/a", "na", "#N/A", "<NA>", "NaN", "nan", "NAN", "null", "NULL", "Null",
        "None", "?", "-",
    ];
}

impl Default for ReadOptions {
    fn default() -> Self {
        Self {
            delimiter: None,
            decimal: None,
            categorical: Categorical::None,
            missing: false,
            missing_words: None,
            target: None,
            selection: Selection::default(),
            max_cells: Table::DEFAULT_MAX_CELLS,
        }
    }
}

/// The allowed content of the cells of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CellKind {
    /// Cells of a column that is not used.
    Unread,
    /// Numbers, or `true` and `false` in all cells, which are 1 and 0.
    Number,
    /// Like [`CellKind::Number`], or text if any cell is text.
    Detect,
    /// Numbers, or text if any cell is text.
    Any,
    /// Like [`CellKind::Any`]. The column is also text if a number is not exact, because a number
    /// names a class.
    Label,
    Text,
}

/// Memory of the different texts of a table.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct TextMemory {
    bytes: usize,
}

impl TextMemory {
    /// Maximum memory, in bytes.
    const LIMIT: usize = 1 << 30;

    /// Estimated overhead of a stored text, in bytes.
    const BYTES_EACH: usize = 64;

    /// Counts a new text of `column`, and rejects it beyond the limit.
    pub(super) fn take(&mut self, text: &str, column: &str) -> Result<(), TableError> {
        self.bytes = self.bytes.saturating_add(text.len() + Self::BYTES_EACH);
        if self.bytes > Self::LIMIT {
            let column = excerpt(column);
            let limit = Self::LIMIT;
            return Err(TableError::TooMuchText { column, limit });
        }
        Ok(())
    }
}

/// A text column: its different values, and the index of each row's value.
#[derive(Clone, PartialEq, Eq)]
pub struct TextColumn {
    values: Vec<String>,
    codes: Vec<u32>,
}

impl TextColumn {
    /// The code of rows whose value is missing.
    pub const MISSING: u32 = u32::MAX;

    /// Returns the different values, in order of their first appearance.
    pub fn values(&self) -> &[String] {
        &self.values
    }

    /// Returns the index of the value of each row, or [`TextColumn::MISSING`].
    pub fn codes(&self) -> &[u32] {
        &self.codes
    }

    /// Returns the number of rows.
    pub fn rows(&self) -> usize {
        self.codes.len()
    }

    /// Returns the value of a row, or `None` if it is missing or there is no such row.
    pub fn get(&self, row: usize) -> Option<&str> {
        let code = *self.codes.get(row)?;
        self.values.get(code as usize).map(String::as_str)
    }

    /// Parses the values as numbers, or returns the first value that is not a number.
    pub(super) fn numbers(&self) -> Result<Vec<f64>, &str> {
        let number = |value: &String| value.parse().ok().filter(|number: &f64| number.is_finite());
        self.values.iter().map(|value| number(value).ok_or(value.as_str())).collect()
    }

    /// Returns the first row with a value.
    fn row_of(&self, value: &str) -> Option<usize> {
        (0..self.rows()).find(|&row| self.get(row) == Some(value))
    }

    /// Returns the text of column `at`, or its numbers as text. Numbers are in rows of `width`.
    ///
    /// # Errors
    /// [`TableError::InexactName`] for numbers that are not exact. The message names one of
    /// `columns`.
    pub(super) fn or_numbers<'a>(
        text: Option<&'a Self>,
        numbers: &[f64],
        at: usize,
        columns: &[String],
    ) -> Result<Cow<'a, Self>, TableError> {
        if let Some(text) = text {
            return Ok(Cow::Borrowed(text));
        }
        let numbers = numbers.iter().skip(at).step_by(columns.len()).copied();
        Self::of_numbers(numbers).map(Cow::Owned).map_err(|found| {
            let column = columns.get(at).map_or("", String::as_str);
            TableError::InexactName { column: excerpt(column), found }
        })
    }

    /// Converts numbers to text, each in the shortest form that parses to the same number. NaN is
    /// missing. Fails with the first number that may represent other numbers, too.
    fn of_numbers(numbers: impl Iterator<Item = f64>) -> Result<Self, f64> {
        let mut known = HashMap::new();
        let mut values = Vec::new();
        let mut code = |number: f64| {
            if number.is_nan() {
                return Ok(Self::MISSING);
            }
            if !is_exact(number) {
                return Err(number);
            }
            // Adding 0 turns -0 into 0, so both are one value.
            Ok(*known.entry((number + 0.0).to_bits()).or_insert_with(|| {
                values.push(Self::name_of(number));
                code_of(values.len() - 1)
            }))
        };
        let codes = numbers.map(&mut code).collect::<Result<_, f64>>()?;
        Ok(Self { values, codes })
    }

    /// Returns the shortest text that parses to the number. -0 becomes 0.
    pub(super) fn name_of(number: f64) -> String {
        (number + 0.0).to_string()
    }
}

impl<S: AsRef<str>> FromIterator<Option<S>> for TextColumn {
    /// Collects the values of the rows in order. `None` is a missing value.
    fn from_iter<I: IntoIterator<Item = Option<S>>>(cells: I) -> Self {
        let mut column = TextBuilder::default();
        for cell in cells {
            column.push(cell.as_ref().map(S::as_ref));
        }
        column.finish()
    }
}

impl fmt::Debug for TextColumn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TextColumn")
            .field("rows", &self.rows())
            .field("values", &self.values.len())
            .finish_non_exhaustive()
    }
}

/// Returns whether the magnitude of an integer is below `2^53`. From there on, other numbers round
/// to it.
pub fn is_exact(number: f64) -> bool {
    number.abs() < 9_007_199_254_740_992.0
}

/// Returns the code of the value at this index. More values than codes do not fit into memory.
fn code_of(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(TextColumn::MISSING)
}

/// Builder of a text column.
#[derive(Default)]
pub(super) struct TextBuilder {
    known: HashMap<String, u32>,
    codes: Vec<u32>,
}

impl TextBuilder {
    /// Adds a row. Returns whether its value is new.
    pub(super) fn push(&mut self, cell: Option<&str>) -> bool {
        let known = cell.and_then(|text| self.known.get(text).copied());
        let (code, new) = match (cell, known) {
            (None, _) => (TextColumn::MISSING, None),
            (_, Some(code)) => (code, None),
            (new, None) => (code_of(self.known.len()), new),
        };
        self.codes.push(code);
        if let Some(new) = new {
            self.known.insert(new.to_owned(), code);
        }
        new.is_some()
    }

    /// Adds rows without a value, up to `rows` rows.
    #[cfg(feature = "parquet")]
    pub(super) fn pad(&mut self, rows: usize) {
        self.codes.resize(rows.max(self.codes.len()), TextColumn::MISSING);
    }

    pub(super) fn finish(self) -> TextColumn {
        // The order of a hash map is random. Codes are in the order of first appearance.
        let mut values: Vec<(String, u32)> = self.known.into_iter().collect();
        values.sort_unstable_by_key(|&(_, code)| code);
        let values = values.into_iter().map(|(value, _)| value).collect();
        TextColumn { values, codes: self.codes }
    }
}

/// Places of rows in their source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Places {
    /// In memory, or in a file of rows.
    Rows,
    /// In a text file: some rows with their lines. Rows in between are on consecutive lines.
    Lines(Vec<(usize, u64)>),
}

impl Places {
    /// Records that the next row, `row`, is on this line.
    pub(super) fn push(&mut self, row: usize, line: u64) {
        if self.of(row) != Place::Line(line)
            && let Self::Lines(lines) = self
        {
            lines.push((row, line));
        }
    }

    pub(super) fn of(&self, row: usize) -> Place {
        let Self::Lines(lines) = self else { return Place::Row(row) };
        let before = lines.partition_point(|&(first, _)| first <= row);
        match before.checked_sub(1).and_then(|at| lines.get(at)) {
            Some(&(first, line)) => Place::Line(line + (row - first) as u64),
            None => Place::Row(row),
        }
    }
}

/// A table as its file has it: named number and text columns, with missing values.
///
/// An [`Encoding`](super::Encoding) turns it into a [`Table`]. `Debug` shows the shape, not the
/// values.
#[derive(Clone)]
pub struct Frame {
    pub(super) columns: Vec<String>,
    /// Row-major, with a place for every column. NaN for missing values and in text columns.
    pub(super) numbers: Vec<f64>,
    /// The text columns, `None` for number columns.
    pub(super) text: Vec<Option<TextColumn>>,
    pub(super) places: Places,
}

impl Frame {
    /// Creates a frame. Each of `columns` has a name, and its text if it is a text column.
    /// `numbers` is row-major with a place for every column, and NaN marks a missing number. The
    /// places of text columns are ignored.
    ///
    /// # Errors
    /// [`TableError::Empty`], [`TableError::Shape`], [`TableError::UnnamedColumn`],
    /// [`TableError::DuplicateColumn`], or [`TableError::NotFinite`] for an infinite number.
    pub fn new(
        columns: Vec<(String, Option<TextColumn>)>,
        mut numbers: Vec<f64>,
    ) -> Result<Self, TableError> {
        let (columns, text): (Vec<_>, Vec<_>) = columns.into_iter().unzip();
        check_names(columns.iter())?;
        let width = columns.len();
        let rows = numbers.len().checked_div(width).unwrap_or(0);
        if rows == 0 {
            return Err(TableError::Empty { rows, features: width });
        }
        if rows * width != numbers.len() {
            let needed = numbers.len().next_multiple_of(width);
            return Err(TableError::Shape { what: "values", found: numbers.len(), needed });
        }
        if let Some(other) = text.iter().flatten().find(|text| text.rows() != rows) {
            return Err(TableError::Shape { what: "texts", found: other.rows(), needed: rows });
        }
        for (at, number) in numbers.iter_mut().enumerate() {
            if text[at % width].is_some() {
                // NaN, so that a text column never passes for numbers.
                *number = f64::NAN;
            } else if number.is_infinite() {
                let place = Place::Row(at / width);
                let found = number.to_string();
                let column = excerpt(&columns[at % width]);
                return Err(TableError::NotFinite { place, column, found });
            }
        }
        Ok(Self { columns, numbers, text, places: Places::Rows })
    }

    /// Returns the names of the columns, in order.
    pub fn columns(&self) -> &[String] {
        &self.columns
    }

    /// Returns the number of rows, at least 1.
    pub fn rows(&self) -> usize {
        self.numbers.len() / self.columns.len()
    }

    /// Returns the numbers of all rows, row-major with a place for every column. Missing values and
    /// the places of text columns are NaN.
    pub fn numbers(&self) -> &[f64] {
        &self.numbers
    }

    /// Returns the text of column `index`, or `None` for a number column.
    pub fn text(&self, index: usize) -> Option<&TextColumn> {
        self.text.get(index)?.as_ref()
    }

    /// Rejects names that no column has.
    ///
    /// # Errors
    /// [`TableError::UnknownColumns`].
    pub fn expect(&self, names: &[String]) -> Result<(), TableError> {
        super::expect_known(names.iter(), &self.columns)
    }

    /// Returns the frame without the columns that are not used.
    ///
    /// # Errors
    /// [`TableError::UnknownColumns`] for names that no column has, [`TableError::Empty`] if no
    /// column is used.
    pub fn select(self, selection: &Selection) -> Result<Self, TableError> {
        if *selection == Selection::default() {
            return Ok(self);
        }
        let named = selection.columns.iter().flatten().chain(&selection.drop);
        super::expect_known(named, &self.columns)?;
        let width = self.columns.len();
        let taken: Vec<bool> = self.columns.iter().map(|name| selection.takes(name)).collect();
        if !taken.contains(&true) {
            return Err(TableError::Empty { rows: self.rows(), features: 0 });
        }
        let numbers = self.numbers.iter().enumerate();
        let numbers = numbers.filter(|(at, _)| taken[at % width]).map(|(_, &number)| number);
        let numbers = numbers.collect();
        let is_taken = |at: &mut usize| {
            *at += 1;
            taken[*at - 1]
        };
        let mut at = 0;
        let columns = self.columns.into_iter().filter(|_| is_taken(&mut at)).collect();
        let mut at = 0;
        let text = self.text.into_iter().filter(|_| is_taken(&mut at)).collect();
        Ok(Self { columns, numbers, text, places: self.places })
    }

    /// Returns whether types were guessed from the cells of a text file.
    pub(super) fn is_guessed(&self) -> bool {
        matches!(self.places, Places::Lines(_))
    }

    /// Returns the place of a row in the source.
    pub fn place(&self, row: usize) -> Place {
        self.places.of(row)
    }

    /// Returns the index of the column of this name.
    pub(super) fn position(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column == name)
    }

    /// Returns the number of missing values of each column.
    pub(super) fn gaps(&self) -> Vec<usize> {
        let mut gaps = vec![0; self.columns.len()];
        for row in self.numbers.chunks_exact(self.columns.len()) {
            for (gaps, number) in gaps.iter_mut().zip(row) {
                *gaps += usize::from(number.is_nan());
            }
        }
        // The numbers of a text column are all NaN, so its codes decide.
        for (gaps, text) in gaps.iter_mut().zip(&self.text) {
            if let Some(text) = text {
                *gaps = text.codes.iter().filter(|&&code| code == TextColumn::MISSING).count();
            }
        }
        gaps
    }

    /// Returns whether a row lacks the value of a column.
    pub(super) fn is_missing(&self, row: usize, at: usize) -> bool {
        match &self.text[at] {
            Some(text) => text.codes[row] == TextColumn::MISSING,
            None => self.numbers[row * self.columns.len() + at].is_nan(),
        }
    }

    /// Returns the text of a column, or its numbers as text.
    ///
    /// # Errors
    /// [`TableError::InexactName`] for numbers that are not exact.
    pub(super) fn texts(&self, at: usize) -> Result<Cow<'_, TextColumn>, TableError> {
        TextColumn::or_numbers(self.text(at), &self.numbers, at, &self.columns)
    }

    /// Converts a column to numbers.
    ///
    /// # Errors
    /// [`TableError::Text`] if it has a value that is not a number.
    pub(super) fn make_numbers(&mut self, at: usize) -> Result<(), TableError> {
        let Some(text) = &self.text[at] else { return Ok(()) };
        let values = self.numbers_of(at, text)?;
        let places = self.numbers.iter_mut().skip(at).step_by(self.columns.len());
        for (place, &code) in places.zip(&text.codes) {
            *place = values.get(code as usize).copied().unwrap_or(f64::NAN);
        }
        self.text[at] = None;
        Ok(())
    }

    /// Converts a column of dates to days.
    ///
    /// # Errors
    /// [`TableError::NotDate`] if it has a value that is not a date.
    pub(super) fn make_days(&mut self, at: usize) -> Result<(), TableError> {
        let width = self.columns.len();
        let Some(text) = &self.text[at] else {
            // A number may count from any day, or be a date such as 20240131.
            let mut numbers = self.numbers.iter().skip(at).step_by(width);
            let Some(row) = numbers.position(|number| !number.is_nan()) else { return Ok(()) };
            let found = self.numbers[row * width + at].to_string();
            return Err(self.not_date(row, at, &found));
        };
        let days = self.days_of(at, text)?;
        let places = self.numbers.iter_mut().skip(at).step_by(width);
        for (place, &code) in places.zip(&text.codes) {
            *place = days.get(code as usize).copied().unwrap_or(f64::NAN);
        }
        self.text[at] = None;
        Ok(())
    }

    /// Returns the days of each value of a text column of dates.
    pub(super) fn days_of(&self, at: usize, text: &TextColumn) -> Result<Vec<f64>, TableError> {
        let days = |value: &String| {
            days(value).ok_or_else(|| {
                let row = text.row_of(value).unwrap_or_default();
                self.not_date(row, at, value)
            })
        };
        text.values().iter().map(days).collect()
    }

    fn not_date(&self, row: usize, at: usize, found: &str) -> TableError {
        let place = self.place(row);
        let column = excerpt(&self.columns[at]);
        TableError::NotDate { cell: Box::new(Cell { place, column, found: excerpt(found) }) }
    }

    /// Returns the number of each value of a text column.
    pub(super) fn numbers_of(&self, at: usize, text: &TextColumn) -> Result<Vec<f64>, TableError> {
        text.numbers().map_err(|value| {
            let row = text.row_of(value).unwrap_or_default();
            let place = self.place(row);
            let column = excerpt(&self.columns[at]);
            TableError::Text { place, column, found: excerpt(value) }
        })
    }
}

impl fmt::Debug for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Frame")
            .field("rows", &self.rows())
            .field("columns", &self.columns)
            .finish_non_exhaustive()
    }
}

/// Rules for the content of a file: the options, and whether a target must exist and contain 0 and
/// 1 only.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rules<'a> {
    pub(super) options: &'a ReadOptions,
    pub(super) binary: bool,
}

impl Rules<'_> {
    /// Returns the allowed content of the cells of a column.
    pub(super) fn kind(&self, column: &str) -> CellKind {
        let ReadOptions { categorical, target, selection, .. } = self.options;
        let is_target = target.as_deref() == Some(column);
        match categorical {
            _ if !is_target && !selection.takes(column) => CellKind::Unread,
            // First, because a listed target is text as it is written.
            Categorical::Columns(names) | Categorical::Detect(names)
                if names.iter().any(|name| name == column) =>
            {
                CellKind::Text
            }
            _ if is_target && !self.binary => CellKind::Label,
            Categorical::Every => CellKind::Any,
            Categorical::Detect(_) => CellKind::Detect,
            _ => CellKind::Number,
        }
    }

    /// Returns the index of a target that must exist.
    pub(super) fn binary_target(&self, columns: &[String]) -> Result<Option<usize>, TableError> {
        let Some(target) = self.options.target.as_ref().filter(|_| self.binary) else {
            return Ok(None);
        };
        let at = columns.iter().position(|column| column == target);
        at.map(Some).ok_or_else(|| super::unknown_target(target, columns))
    }

    /// Returns the number of columns without the target.
    pub(super) fn features(&self, columns: &[String]) -> usize {
        let target = self.options.target.as_ref();
        columns.iter().filter(|column| Some(*column) != target).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(cells: &[Option<&str>]) -> TextColumn {
        cells.iter().copied().collect()
    }

    #[test]
    fn texts_are_kept_once() {
        let column = text(&[Some("b"), None, Some("a"), Some("b"), Some("")]);
        assert_eq!(column.values(), ["b", "a", ""]);
        assert_eq!(column.codes(), [0, TextColumn::MISSING, 1, 0, 2]);
        let cells: Vec<_> = (0..6).map(|row| column.get(row)).collect();
        assert_eq!(cells, [Some("b"), None, Some("a"), Some("b"), Some(""), None]);
        let shown = format!("{column:?}");
        assert!(!shown.contains("\"b\""), "{shown}");
    }

    #[test]
    fn numbers_become_the_shortest_texts() {
        let numbers = [1.0, -0.0, 0.5, f64::NAN, 0.0, 1e15, 9_007_199_254_740_991.0];
        let column = TextColumn::of_numbers(numbers.into_iter()).unwrap();
        assert_eq!(column.values(), ["1", "0", "0.5", "1000000000000000", "9007199254740991"]);
        assert_eq!(column.codes(), [0, 1, 2, TextColumn::MISSING, 1, 3, 4]);
        assert_eq!(column.numbers().unwrap(), [1.0, 0.0, 0.5, 1e15, 9_007_199_254_740_991.0]);
        for inexact in [9_007_199_254_740_993.0, -1e300] {
            assert_eq!(TextColumn::of_numbers([1.0, inexact].into_iter()), Err(inexact));
        }
        assert_eq!(text(&[Some("1"), Some("inf")]).numbers(), Err("inf"));
    }

    #[test]
    fn frames_in_memory_are_checked() {
        let columns = |text: Option<TextColumn>| vec![("a".into(), None), ("b".into(), text)];
        let ab = || text(&[Some("x"), None]);
        let frame = Frame::new(columns(Some(ab())), vec![1.0, 7.0, f64::NAN, f64::INFINITY]);
        let frame = frame.unwrap();
        assert_eq!((frame.columns(), frame.rows()), (&["a".into(), "b".into()][..], 2));
        assert!(frame.numbers()[1..].iter().all(|number| number.is_nan()));
        assert_eq!((frame.text(0), frame.text(1), frame.text(2)), (None, Some(&ab()), None));
        assert_eq!((frame.place(1), frame.gaps()), (Place::Row(1), vec![1, 1]));

        let error = |columns, numbers| Frame::new(columns, numbers).unwrap_err();
        let shape = |what, found, needed| TableError::Shape { what, found, needed };
        assert_eq!(error(vec![], vec![]), TableError::Empty { rows: 0, features: 0 });
        assert_eq!(error(columns(None), vec![]), TableError::Empty { rows: 0, features: 2 });
        assert_eq!(error(columns(None), vec![0.0; 3]), shape("values", 3, 4));
        assert_eq!(error(columns(Some(ab())), vec![0.0; 6]), shape("texts", 2, 3));
        let same = vec![("a".into(), None), ("a".into(), None)];
        assert_eq!(error(same, vec![0.0; 2]), TableError::DuplicateColumn { column: "a".into() });
        let place = Place::Row(1);
        let column = "b".to_owned();
        assert_eq!(
            error(columns(None), vec![0.0, 0.0, 0.0, -f64::INFINITY]),
            TableError::NotFinite { place, column, found: "-inf".into() }
        );
    }

    #[test]
    fn lines_that_follow_each_other_take_no_memory() {
        let mut places = Places::Lines(Vec::new());
        for (row, line) in [2, 3, 4, 7, 8, 11, 12].into_iter().enumerate() {
            places.push(row, line);
        }
        assert_eq!(places, Places::Lines(vec![(0, 2), (3, 7), (5, 11)]));
        let lines: Vec<Place> = (0..7).map(|row| places.of(row)).collect();
        assert_eq!(lines, [2, 3, 4, 7, 8, 11, 12].map(Place::Line));
        assert_eq!(Places::Rows.of(3), Place::Row(3));
    }

    #[test]
    fn the_memory_of_texts_is_limited() {
        let mut memory = TextMemory { bytes: TextMemory::LIMIT - 2 * TextMemory::BYTES_EACH - 3 };
        assert_eq!(memory.take("abc", "a"), Ok(()));
        assert_eq!(memory.take("", "a"), Ok(()));
        let column = "b".to_owned();
        let limit = TextMemory::LIMIT;
        assert_eq!(memory.take("", "b"), Err(TableError::TooMuchText { column, limit }));
    }

    /// The ending of a file name decides the format.
    #[test]
    fn names_that_end_in_parquet() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/parquet/");
        let options = ReadOptions { missing: true, ..ReadOptions::default() };
        let read = Frame::read(format!("{folder}refused-null.parquet"), &options);
        if cfg!(feature = "parquet") {
            let frame = read.unwrap();
            assert_eq!(
                (frame.columns(), frame.gaps()),
                (&["one".into(), "bad".into()][..], vec![0, 1])
            );
        } else {
            assert!(matches!(read, Err(TableError::Parquet { .. })), "{read:?}");
        }
        let data = concat!(env!("CARGO_MANIFEST_DIR"), "/data/lbw.csv");
        assert_eq!(Frame::read(data, &options).unwrap().rows(), 189);
    }
}

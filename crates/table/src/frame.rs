//! Tables as their files have them, before they are coded as numbers.

use std::{borrow::Cow, collections::HashMap, fmt};

use super::{Place, Table, TableError, check_names, error::excerpt};

/// Which columns hold names of categories.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Categorical {
    /// None: text is refused, but for labels.
    #[default]
    None,
    /// Every column of text.
    Every,
    /// Those with these names, even if they hold numbers; text in others is refused.
    Columns(Vec<String>),
}

/// How a file is read.
///
/// By default it is a table of numbers: text is refused, and so are missing values.
/// [`EncodingOptions::read_options`] and [`Encoding::read_options`] give the options that suit an
/// encoding.
///
/// [`EncodingOptions::read_options`]: super::EncodingOptions::read_options
/// [`Encoding::read_options`]: super::Encoding::read_options
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadOptions {
    /// What stands between the cells of a CSV file. Without it, comma, semicolon, tab or vertical
    /// bar, whichever splits the header and the first rows into as many cells, more than one. If
    /// several do, the one that makes most of the rows' cells numbers, then the one that makes
    /// most cells, then the first of these.
    pub delimiter: Option<char>,
    /// The decimal mark of a CSV file, point or comma. Without it, the point where the delimiter
    /// is a comma, and elsewhere the one that the numbers of the file have.
    pub decimal: Option<char>,
    /// The columns that may hold text. [`Categorical::Columns`] are text from the first cell,
    /// whatever they hold: `1` and `1.0` differ there.
    pub categorical: Categorical,
    /// Whether values may be missing: in a CSV file cells that are empty, and in columns of numbers
    /// also one of [`ReadOptions::MISSING`]; in a Parquet file nulls and NaN.
    pub missing: bool,
    /// Words that stand for a missing value in any column of a CSV file, of text also, in place of
    /// [`ReadOptions::MISSING`].
    pub missing_words: Option<Vec<String>>,
    /// The column of labels, which may hold text whatever `categorical` says. The file may lack it.
    pub target: Option<String>,
    /// The most cells, the target's included.
    pub max_cells: usize,
}

impl ReadOptions {
    /// What stands for a missing number in a CSV file, besides nothing. In a column of text, these
    /// words are values: `NA` may be Namibia.
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
            max_cells: Table::DEFAULT_MAX_CELLS,
        }
    }
}

/// What the cells of a column may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CellKind {
    Number,
    /// Numbers, or text if any of them is.
    Any,
    /// As [`CellKind::Any`], and text if any number is not exact, since it names a class.
    Label,
    Text,
}

/// Memory that the different texts of a table take.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct TextMemory {
    bytes: usize,
}

impl TextMemory {
    /// Most bytes.
    const LIMIT: usize = 1 << 30;

    /// What keeping a text takes beside its own bytes.
    const BYTES_EACH: usize = 64;

    /// Refuses a new text of `column` that is one too many.
    pub(super) fn take(&mut self, text: &str, column: &str) -> Result<(), TableError> {
        self.bytes = self.bytes.saturating_add(text.len() + Self::BYTES_EACH);
        if self.bytes > Self::LIMIT {
            let (column, limit) = (excerpt(column), Self::LIMIT);
            return Err(TableError::TooMuchText { column, limit });
        }
        Ok(())
    }
}

/// A column of text: its different values, and which of them each row has.
#[derive(Clone, PartialEq, Eq)]
pub struct TextColumn {
    values: Vec<String>,
    codes: Vec<u32>,
}

impl TextColumn {
    /// The code of rows whose value is missing.
    pub const MISSING: u32 = u32::MAX;

    /// The different values, in order of their first appearance.
    pub fn values(&self) -> &[String] {
        &self.values
    }

    /// The index of the value of each row, or [`TextColumn::MISSING`].
    pub fn codes(&self) -> &[u32] {
        &self.codes
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.codes.len()
    }

    /// The value of a row, unless it is missing or there is no such row.
    pub fn get(&self, row: usize) -> Option<&str> {
        let code = *self.codes.get(row)?;
        self.values.get(code as usize).map(String::as_str)
    }

    /// The numbers that the values are, or the first value that is none.
    pub(super) fn numbers(&self) -> Result<Vec<f64>, &str> {
        let number = |value: &String| value.parse().ok().filter(|number: &f64| number.is_finite());
        self.values.iter().map(|value| number(value).ok_or(value.as_str())).collect()
    }

    /// The first row with a value.
    fn row_of(&self, value: &str) -> Option<usize> {
        (0..self.rows()).find(|&row| self.get(row) == Some(value))
    }

    /// The text of column `at`, or else its numbers in rows of `width` as text.
    ///
    /// # Errors
    /// [`TableError::InexactName`] for numbers that are not exact, which messages place in one of
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

    /// Numbers as text, each in the shortest form that is read as the same number, or the first one
    /// that may stand for other numbers, too; NaN is missing.
    fn of_numbers(numbers: impl Iterator<Item = f64>) -> Result<Self, f64> {
        let (mut known, mut values) = (HashMap::new(), Vec::new());
        let mut code = |number: f64| {
            if number.is_nan() {
                return Ok(Self::MISSING);
            }
            if !is_exact(number) {
                return Err(number);
            }
            Ok(*known.entry((number + 0.0).to_bits()).or_insert_with(|| {
                values.push(Self::name_of(number));
                code_of(values.len() - 1)
            }))
        };
        let codes = numbers.map(&mut code).collect::<Result<_, f64>>()?;
        Ok(Self { values, codes })
    }

    /// The shortest text that is read as a number; -0 is 0.
    pub(super) fn name_of(number: f64) -> String {
        (number + 0.0).to_string()
    }
}

impl<S: AsRef<str>> FromIterator<Option<S>> for TextColumn {
    /// The values of the rows in order, `None` where one is missing.
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

/// Tests whether a whole number is below `2^53`, from where on the reader rounds other numbers to it.
pub fn is_exact(number: f64) -> bool {
    number.abs() < 9_007_199_254_740_992.0
}

/// The code of the value at this index. So many different values as have none fit no memory.
fn code_of(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(TextColumn::MISSING)
}

/// A text column that is being read.
#[derive(Default)]
pub(super) struct TextBuilder {
    known: HashMap<String, u32>,
    codes: Vec<u32>,
}

impl TextBuilder {
    /// Adds a row; returns whether its value is a new one.
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

    /// Adds rows without a value until there are so many.
    #[cfg(feature = "parquet")]
    pub(super) fn pad(&mut self, rows: usize) {
        self.codes.resize(rows.max(self.codes.len()), TextColumn::MISSING);
    }

    pub(super) fn finish(self) -> TextColumn {
        let mut values: Vec<(String, u32)> = self.known.into_iter().collect();
        values.sort_unstable_by_key(|&(_, code)| code);
        let values = values.into_iter().map(|(value, _)| value).collect();
        TextColumn { values, codes: self.codes }
    }
}

/// Where rows stand in their source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Places {
    /// In memory, or in a file of rows.
    Rows,
    /// In a text: rows with their lines. Those in between are on the lines that follow.
    Lines(Vec<(usize, u64)>),
}

impl Places {
    /// Row `row`, the next one, stands on this line.
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

/// A table as its file has it: named columns of numbers and of text, with missing values.
///
/// An [`Encoding`](super::Encoding) makes a [`Table`] of it. `Debug` shows the shape, not the
/// values.
#[derive(Clone)]
pub struct Frame {
    pub(super) columns: Vec<String>,
    /// Row-major, of all columns; NaN where a value is missing or the column is text.
    pub(super) numbers: Vec<f64>,
    /// The columns that are text.
    pub(super) text: Vec<Option<TextColumn>>,
    pub(super) places: Places,
}

impl Frame {
    /// A frame of `columns`, each a name and its text if it is a column of text, and of `numbers`,
    /// row-major with a place for every column, NaN where a number is missing. What stands in the
    /// places of text columns does not matter.
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
                *number = f64::NAN;
            } else if number.is_infinite() {
                let (place, found) = (Place::Row(at / width), number.to_string());
                let column = excerpt(&columns[at % width]);
                return Err(TableError::NotFinite { place, column, found });
            }
        }
        Ok(Self { columns, numbers, text, places: Places::Rows })
    }

    /// Names of the columns, in order.
    pub fn columns(&self) -> &[String] {
        &self.columns
    }

    /// Number of rows, at least 1.
    pub fn rows(&self) -> usize {
        self.numbers.len() / self.columns.len()
    }

    /// Numbers of all rows, row-major with a place for every column; NaN where a value is missing,
    /// and in columns of text.
    pub fn numbers(&self) -> &[f64] {
        &self.numbers
    }

    /// The text of column `index`; nothing for a column of numbers.
    pub fn text(&self, index: usize) -> Option<&TextColumn> {
        self.text.get(index)?.as_ref()
    }

    /// Where a row stands in the source.
    pub fn place(&self, row: usize) -> Place {
        self.places.of(row)
    }

    /// Where the column of a name is.
    pub(super) fn position(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column == name)
    }

    /// How many values each column lacks.
    pub(super) fn gaps(&self) -> Vec<usize> {
        let mut gaps = vec![0; self.columns.len()];
        for row in self.numbers.chunks_exact(self.columns.len()) {
            for (gaps, number) in gaps.iter_mut().zip(row) {
                *gaps += usize::from(number.is_nan());
            }
        }
        for (gaps, text) in gaps.iter_mut().zip(&self.text) {
            if let Some(text) = text {
                *gaps = text.codes.iter().filter(|&&code| code == TextColumn::MISSING).count();
            }
        }
        gaps
    }

    /// Whether a row lacks the value of a column.
    pub(super) fn is_missing(&self, row: usize, at: usize) -> bool {
        match &self.text[at] {
            Some(text) => text.codes[row] == TextColumn::MISSING,
            None => self.numbers[row * self.columns.len() + at].is_nan(),
        }
    }

    /// The text of a column, or its numbers as text.
    ///
    /// # Errors
    /// [`TableError::InexactName`] for numbers that are not exact.
    pub(super) fn texts(&self, at: usize) -> Result<Cow<'_, TextColumn>, TableError> {
        TextColumn::or_numbers(self.text(at), &self.numbers, at, &self.columns)
    }

    /// Makes a column one of numbers.
    ///
    /// # Errors
    /// [`TableError::Text`] if it has a value that is none.
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

    /// Of a column of text, the number that each of its values is.
    pub(super) fn numbers_of(&self, at: usize, text: &TextColumn) -> Result<Vec<f64>, TableError> {
        text.numbers().map_err(|value| {
            let row = text.row_of(value).unwrap_or_default();
            let (place, column) = (self.place(row), excerpt(&self.columns[at]));
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

/// How a file is read, and whether its target must be there and hold 0 and 1 only.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rules<'a> {
    pub(super) options: &'a ReadOptions,
    pub(super) binary: bool,
}

impl Rules<'_> {
    /// What the cells of a column may be.
    pub(super) fn kind(&self, column: &str) -> CellKind {
        let ReadOptions { categorical, target, .. } = self.options;
        match categorical {
            Categorical::Columns(names) if names.iter().any(|name| name == column) => {
                CellKind::Text
            }
            _ if target.as_deref() == Some(column) && !self.binary => CellKind::Label,
            Categorical::Every => CellKind::Any,
            _ => CellKind::Number,
        }
    }

    /// The place of a target that must be there.
    pub(super) fn binary_target(&self, columns: &[String]) -> Result<Option<usize>, TableError> {
        let Some(target) = self.options.target.as_ref().filter(|_| self.binary) else {
            return Ok(None);
        };
        let at = columns.iter().position(|column| column == target);
        at.map(Some).ok_or_else(|| super::unknown_target(target, columns))
    }

    /// The number of columns besides the target.
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
        let (place, column) = (Place::Row(1), "b".to_owned());
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
        let (column, limit) = ("b".to_owned(), TextMemory::LIMIT);
        assert_eq!(memory.take("", "b"), Err(TableError::TooMuchText { column, limit }));
    }

    /// The name of a file says how it is read.
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

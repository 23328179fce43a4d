//! Tables in text files with a delimiter between cells.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

mod delimiter;
mod lines;

use std::io::{self, Cursor, Read};

use super::{
    Cell, Place, TableError, check_names,
    error::{excerpt, read_error},
    frame::{CellKind, Frame, Places, ReadOptions, Rules, TextBuilder, TextMemory, is_exact},
    record_limit::RecordLimit,
};
use lines::UnixLines;

// Detection examines 100 records, and this is room for 100 records of 2.6 kB each.
/// Number of bytes from which the delimiter is detected.
const HEAD_BYTES: u64 = 1 << 18;

/// Number of rows after which reading restarts if columns turned out to be text, instead of at the
/// end. Most text columns show it early.
const EARLY_ROWS: usize = 1000;

type Result<T, E = TableError> = core::result::Result<T, E>;

/// Reads a frame. `rewind` moves the source back to its beginning. It is needed if columns that may
/// be text turn out to be text.
pub(super) fn read<R: Read>(
    mut source: R,
    rewind: impl Fn(&mut R) -> io::Result<()>,
    name: &str,
    rules: Rules<'_>,
) -> Result<Frame> {
    let mut text = Vec::new();
    // Each pass finds at least one more text column, so this ends.
    loop {
        match Pass::run(&mut source, name, rules, &text)? {
            Outcome::Read(frame) => return Ok(frame),
            Outcome::Text(found) => text.extend(found),
        }
        rewind(&mut source).map_err(|error| read_error(name, &error))?;
    }
}

/// The outcome of one pass over a file.
enum Outcome {
    /// The whole frame.
    Read(Frame),
    /// These columns are text, and must be read as text.
    Text(Vec<usize>),
}

/// The decimal mark of numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Decimal {
    Point,
    Comma,
    Either,
}

/// The format of cells.
#[derive(Clone, Copy)]
struct Dialect<'a> {
    delimiter: u8,
    decimal: Decimal,
    missing: bool,
    /// The words for a missing value in any column, if passed.
    missing_words: Option<&'a [String]>,
}

impl<'a> Dialect<'a> {
    fn of(options: &'a ReadOptions, head: &[u8]) -> Result<Self> {
        let delimiter = match options.delimiter {
            // A head below the limit is the whole file, so its last record is not cut off.
            None => delimiter::recognised(head, (head.len() as u64) < HEAD_BYTES),
            Some(given) => {
                // Quotes, signs and points are parts of cells and numbers, so they cannot separate
                // cells.
                let possible = given.is_ascii_punctuation() || given == '\t' || given == ' ';
                let byte =
                    u8::try_from(given).ok().filter(|_| possible && !"\"+-.".contains(given));
                byte.ok_or(TableError::ReadOption {
                    option: "delimiter",
                    found: given,
                    needed: "a comma, a semicolon, a tab or the like",
                })?
            }
        };
        let decimal = match options.decimal {
            // A comma cannot be delimiter and decimal mark at once.
            None if delimiter == b',' => Decimal::Point,
            None => Decimal::Either,
            Some('.') => Decimal::Point,
            Some(',') => Decimal::Comma,
            Some(found) => {
                let option = "decimal mark";
                let needed = "a point or a comma";
                return Err(TableError::ReadOption { option, found, needed });
            }
        };
        let missing_words = options.missing_words.as_deref();
        Ok(Self { delimiter, decimal, missing: options.missing, missing_words })
    }

    /// Returns whether a cell of a number column is a missing value.
    fn is_missing_number(self, text: &str) -> bool {
        self.missing && (text.is_empty() || self.is_missing_word(text))
    }

    /// Returns whether a cell of a text column is a missing value. Words such as `NA` may be
    /// categories there, so only words that the caller passed count.
    fn is_missing_text(self, text: &str) -> bool {
        let given = self.missing_words.is_some() && self.is_missing_word(text);
        self.missing && (text.is_empty() || given)
    }

    /// Returns whether a text is one of the words for a missing number.
    fn is_missing_word(self, text: &str) -> bool {
        match self.missing_words {
            Some(words) => words.iter().any(|word| word == text),
            None => ReadOptions::MISSING.contains(&text),
        }
    }
}

/// Recognises files that are not text by their first bytes. Returns the type of the file and a
/// remedy.
fn not_text(head: &[u8]) -> Option<&'static str> {
    const KINDS: [(&[u8], &str); 4] = [
        (b"PK\x03\x04", "it is a workbook or an archive, not text: save the sheet as CSV"),
        (b"\xd0\xcf\x11\xe0", "it is a workbook, not text: save the sheet as CSV"),
        (b"\x1f\x8b", "it is compressed by gzip: decompress it"),
        (b"PAR1", "it is a Parquet file: give it a name that ends in .parquet"),
    ];
    KINDS.iter().find(|(start, _)| head.starts_with(start)).map(|(_, problem)| *problem)
}

/// Returns whether the mark in a number may separate thousands, as in `12,500`: one to three digits
/// precede it, the first of them nonzero, and three digits follow it.
fn may_separate_thousands(text: &str, mark: char) -> bool {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let Some((whole, rest)) = unsigned.split_once(mark) else { return false };
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    (1..=3).contains(&whole.len())
        && !whole.starts_with('0')
        && rest.len() == 3
        && digits(whole)
        && digits(rest)
}

/// Parses a number with one of these decimal marks.
fn parse(text: &str, decimal: Decimal) -> Option<f64> {
    if decimal == Decimal::Point || (decimal == Decimal::Either && !text.contains(',')) {
        return text.parse().ok();
    }
    // A number with both marks has separators of thousands, which are never removed silently.
    if text.contains('.') {
        return None;
    }
    // Only the first comma: a number such as `1,234,567` then fails to parse.
    text.replacen(',', ".", 1).parse().ok()
}

/// A column that is being read.
struct Column {
    name: String,
    role: Role,
    truth: Truth,
    /// The first cells with a decimal point and with a decimal comma, if both are allowed.
    point: Option<Cell>,
    comma: Option<Cell>,
    /// True if a mark was found that cannot separate thousands.
    has_decimals: bool,
}

/// Truth values in a column of numbers.
#[derive(Default)]
struct Truth {
    /// True if the column may consist of the words `true` and `false`.
    words: bool,
    /// The first such word.
    first: Option<Cell>,
    /// True if another cell is a number.
    beside_numbers: bool,
}

/// Returns the number of a truth value, in the spellings that other programs write.
fn truth(text: &str) -> Option<f64> {
    match text {
        "true" | "True" | "TRUE" => Some(1.0),
        "false" | "False" | "FALSE" => Some(0.0),
        _ => None,
    }
}

enum Role {
    /// Cells that are not read.
    Unread,
    /// Numbers.
    Number,
    /// 0 and 1.
    Binary,
    /// Numbers, until a cell shows otherwise.
    Any(Findings),
    Text(TextBuilder),
}

/// Findings in a column that may be text.
#[derive(Default)]
struct Findings {
    /// True if the column is text.
    text: bool,
    /// True if a number that is not exact also makes the column text.
    exact: bool,
    /// The fault if the column is not text, and its row.
    fault: Option<(usize, TableError)>,
}

/// A row that is being read.
#[derive(Clone, Copy)]
struct Row {
    number: usize,
    line: u64,
}

/// One pass over a file.
struct Pass<'a> {
    dialect: Dialect<'a>,
    columns: Vec<Column>,
    numbers: Vec<f64>,
    places: Places,
    rows: usize,
    memory: TextMemory,
}

impl<'a> Pass<'a> {
    /// Reads a file. The columns with the indices `text` are text.
    fn run(
        source: &mut impl Read,
        name: &str,
        rules: Rules<'a>,
        text: &[usize],
    ) -> Result<Outcome> {
        let mut head = Vec::new();
        let read = source.by_ref().take(HEAD_BYTES).read_to_end(&mut head);
        read.map_err(|error| read_error(name, &error))?;
        // Checked first: a delimiter found in the bytes of a workbook would lead to a misleading
        // error.
        if let Some(problem) = not_text(&head) {
            return Err(read_error(name, &io::Error::new(io::ErrorKind::InvalidData, problem)));
        }
        let dialect = Dialect::of(rules.options, &head)?;
        let mut records = Records::new(Cursor::new(head).chain(source), name, dialect.delimiter);

        let Some((line, _)) = records.next()? else {
            return Err(TableError::Empty { rows: 0, features: 0 });
        };
        let names = header(&records.record, line, dialect.decimal)?;
        let features = rules.features(&names);
        let mut pass = Self::new(dialect, names, rules, text)?;
        while let Some((line, blank)) = records.next()? {
            // An empty line may be a row of missing values, so it is not skipped.
            if let Some(line) = blank {
                return Err(TableError::BlankLine { line });
            }
            pass.row(&records.record, line, rules.options.max_cells)?;
            // Asked once, at this row: later findings wait for the end of the file.
            if pass.rows == EARLY_ROWS
                && let Some(found) = pass.found_text()
            {
                return Ok(Outcome::Text(found));
            }
        }
        if pass.rows == 0 {
            return Err(TableError::Empty { rows: 0, features });
        }
        // An open quote puts the rest of the file into one cell, so the record ends with the file.
        if let Some(line) = records.open_line {
            return Err(TableError::OpenQuote { line });
        }
        pass.finish()
    }

    fn new(
        dialect: Dialect<'a>,
        names: Vec<String>,
        rules: Rules<'_>,
        text: &[usize],
    ) -> Result<Self> {
        let target_at = rules.binary_target(&names)?;
        let column = |(index, name): (usize, String)| {
            let role = match rules.kind(&name) {
                // The target of a binary table has a check of its own, whatever the options allow.
                _ if target_at == Some(index) => Role::Binary,
                CellKind::Unread => Role::Unread,
                CellKind::Number => Role::Number,
                kind @ (CellKind::Any | CellKind::Detect | CellKind::Label)
                    if !text.contains(&index) =>
                {
                    let exact = kind == CellKind::Label;
                    Role::Any(Findings { exact, ..Findings::default() })
                }
                CellKind::Any | CellKind::Detect | CellKind::Label | CellKind::Text => {
                    Role::Text(TextBuilder::default())
                }
            };
            let words = matches!(rules.kind(&name), CellKind::Number | CellKind::Detect);
            let truth = Truth { words, ..Truth::default() };
            Column { name, role, truth, point: None, comma: None, has_decimals: false }
        };
        Ok(Self {
            dialect,
            columns: names.into_iter().enumerate().map(column).collect(),
            numbers: Vec::new(),
            places: Places::Lines(Vec::new()),
            rows: 0,
            memory: TextMemory::default(),
        })
    }

    fn row(&mut self, record: &csv::ByteRecord, line: u64, max_cells: usize) -> Result<()> {
        let width = self.columns.len();
        if record.len() != width {
            return Err(TableError::Ragged { line, found: record.len(), needed: width });
        }
        let row = Row { number: self.rows, line };
        self.rows = self.rows.saturating_add(1);
        // Checked before the cells of this row are stored.
        if self.rows.checked_mul(width).is_none_or(|cells| cells > max_cells) {
            return Err(TableError::TooManyCells { limit: max_cells, line });
        }
        self.places.push(row.number, line);
        for (index, (cell, column)) in record.iter().zip(&mut self.columns).enumerate() {
            if matches!(column.role, Role::Unread) {
                self.numbers.push(f64::NAN);
                continue;
            }
            let text = utf8(cell, line, index)?;
            let number = match &mut column.role {
                Role::Text(builder) => {
                    let missing = self.dialect.is_missing_text(text);
                    if text.is_empty() && !missing {
                        return Err(column.fault(text, None, row));
                    }
                    if builder.push((!missing).then_some(text)) {
                        self.memory.take(text, &column.name)?;
                    }
                    // A text column keeps a place among the numbers, so that all rows have the same
                    // width.
                    f64::NAN
                }
                _ => column.number(text, row, self.dialect)?,
            };
            self.numbers.push(number);
        }
        Ok(())
    }

    /// Returns the columns that turned out to be text, if any.
    fn found_text(&self) -> Option<Vec<usize>> {
        let text = |column: &Column| matches!(column.role, Role::Any(Findings { text: true, .. }));
        let columns = self.columns.iter().enumerate();
        let found: Vec<usize> =
            columns.filter(|(_, column)| text(column)).map(|(index, _)| index).collect();
        (!found.is_empty()).then_some(found)
    }

    fn finish(mut self) -> Result<Outcome> {
        // A text column is read again as text, so its faults as a number column do not count.
        if let Some(found) = self.found_text() {
            return Ok(Outcome::Text(found));
        }
        let faults = self.columns.iter_mut().filter_map(|column| match &mut column.role {
            Role::Any(findings) => findings.fault.take(),
            _ => None,
        });
        // The first fault of the file is reported, in any column.
        if let Some((_, fault)) = faults.min_by_key(|&(row, _)| row) {
            return Err(fault);
        }
        let words = self.columns.iter().filter(|column| column.truth.beside_numbers);
        if let Some(cell) = words.filter_map(|column| column.truth.first.as_ref()).next() {
            let Cell { place, column, found } = cell.clone();
            return Err(TableError::Text { place, column, found });
        }
        self.check_marks()?;
        let mut columns = Vec::new();
        let mut text = Vec::new();
        for column in self.columns {
            columns.push(column.name);
            text.push(match column.role {
                Role::Text(builder) => Some(builder.finish()),
                _ => None,
            });
        }
        Ok(Outcome::Read(Frame { columns, numbers: self.numbers, text, places: self.places }))
    }

    /// Rejects files with both decimal marks, and files whose marks may all separate thousands.
    fn check_marks(&self) -> Result<()> {
        let columns = || self.columns.iter();
        let point = columns().filter_map(|column| column.point.as_ref());
        let comma = columns().filter_map(|column| column.comma.as_ref());
        let first = |cell: Option<&Cell>| cell.cloned().map(Box::new);
        let point = first(point.min_by_key(|cell| cell.place));
        let comma = first(comma.min_by_key(|cell| cell.place));
        let ambiguous = match (&point, &comma) {
            (None, None) => false,
            (Some(_), Some(_)) => true,
            // Each number could equally be 1000 times as large.
            _ => !columns().any(|column| column.has_decimals),
        };
        if ambiguous { Err(TableError::DecimalMarks { point, comma }) } else { Ok(()) }
    }
}

impl Column {
    /// Returns the number of a cell, or NaN if it is missing or turns the column into text.
    fn number(&mut self, text: &str, row: Row, dialect: Dialect<'_>) -> Result<f64> {
        // A word for a missing value may look like a number, such as -9.
        if dialect.missing_words.is_some() && dialect.is_missing_number(text) {
            return Ok(f64::NAN);
        }
        let parsed = parse(text, dialect.decimal);
        if let Some(number) = parsed
            && number.is_finite()
        {
            if dialect.decimal == Decimal::Either {
                self.mark(text, row);
            }
            if let Role::Any(findings) = &mut self.role {
                findings.text |= findings.exact && !is_exact(number);
            }
            self.truth.beside_numbers = true;
            if matches!(self.role, Role::Binary) && number != 0.0 && number != 1.0 {
                let place = Place::Line(row.line);
                let column = excerpt(&self.name);
                return Err(TableError::TargetNotBinary { place, column, found: number });
            }
            return Ok(number);
        }
        if self.truth.words
            && let Some(number) = truth(text)
        {
            if self.truth.first.is_none() {
                let place = Place::Line(row.line);
                let column = excerpt(&self.name);
                self.truth.first = Some(Cell { place, column, found: text.to_owned() });
            }
            return Ok(number);
        }
        // Once a column is text, only the next pass stores its texts.
        let is_text = matches!(self.role, Role::Any(Findings { text: true, .. }));
        if dialect.is_missing_number(text) || (is_text && !text.is_empty()) {
            return Ok(f64::NAN);
        }
        let fault = self.fault(text, parsed, row);
        // Only a column that may be text postpones its fault to the end.
        let Role::Any(findings) = &mut self.role else { return Err(fault) };
        // An empty cell is a fault of text columns, too, so it is final here.
        if text.is_empty() {
            return Err(fault);
        }
        // A number, or a word for a missing number, does not turn a column into text.
        if parsed.is_some() || dialect.is_missing_word(text) {
            findings.fault.get_or_insert((row.number, fault));
        } else {
            findings.text = true;
        }
        Ok(f64::NAN)
    }

    /// Returns the reason why a cell is not a number.
    fn fault(&self, text: &str, parsed: Option<f64>, row: Row) -> TableError {
        let place = Place::Line(row.line);
        let column = excerpt(&self.name);
        let found = excerpt(text);
        if text.is_empty() {
            TableError::Gap { place, column }
        } else if parsed.is_some() {
            TableError::NotFinite { place, column, found }
        } else {
            TableError::Text { place, column, found }
        }
    }

    /// Records the first cells with either decimal mark.
    fn mark(&mut self, text: &str, row: Row) {
        for (mark, first) in [('.', &mut self.point), (',', &mut self.comma)] {
            if !text.contains(mark) {
                continue;
            }
            self.has_decimals |= !may_separate_thousands(text, mark);
            if first.is_none() {
                let place = Place::Line(row.line);
                let column = excerpt(&self.name);
                *first = Some(Cell { place, column, found: excerpt(text) });
            }
        }
    }
}

/// The records of a file, with the lines on which they begin.
struct Records<'a, R> {
    reader: csv::Reader<RecordLimit<UnixLines<R>>>,
    /// The most recent record.
    record: csv::ByteRecord,
    /// The line that follows it.
    next_line: u64,
    /// First line of a record that is closed by the end of the file instead of a line end.
    open_line: Option<u64>,
    name: &'a str,
}

impl<'a, R: Read> Records<'a, R> {
    fn new(source: R, name: &'a str, delimiter: u8) -> Self {
        // Read as a record, so that its line is known. Flexible, because `Pass::row` names the line
        // of a row of another width.
        let reader = csv::ReaderBuilder::new()
            .has_headers(false)
            .flexible(true)
            .delimiter(delimiter)
            .from_reader(RecordLimit::new(UnixLines::new(source)));
        Self { reader, record: csv::ByteRecord::new(), next_line: 1, open_line: None, name }
    }

    /// Reads the next record. Returns its line, and the line of an empty line before it.
    fn next(&mut self) -> Result<Option<(u64, Option<u64>)>> {
        self.reader.get_mut().begin();
        match self.reader.read_byte_record(&mut self.record) {
            Ok(false) => Ok(None),
            Ok(true) => {
                // The reader is already behind the record. Line ends within quoted cells lead back
                // to its start.
                let breaks = self.record.as_slice().iter().filter(|&&byte| byte == b'\n').count();
                let after = self.reader.position().line();
                let line = after.saturating_sub(1).saturating_sub(breaks as u64);
                let blank = (line > self.next_line).then_some(self.next_line);
                // At the end of the file the reader does not count a line for an unfinished record.
                self.open_line = (line < self.next_line).then_some(self.next_line);
                let line = line.max(self.next_line);
                self.next_line = after;
                Ok(Some((line, blank)))
            }
            Err(error) => Err(match error.into_kind() {
                // The limit counts bytes and does not know lines, so the line is added here.
                csv::ErrorKind::Io(error) if error.kind() == io::ErrorKind::FileTooLarge => {
                    let problem = format!("the row on line {}: {error}", self.next_line);
                    read_error(self.name, &io::Error::new(error.kind(), problem))
                }
                csv::ErrorKind::Io(error) => read_error(self.name, &error),
                other => read_error(self.name, &io::Error::other(format!("{other:?}"))),
            }),
        }
    }
}

fn header(record: &csv::ByteRecord, line: u64, decimal: Decimal) -> Result<Vec<String>> {
    let cells = record.iter().enumerate();
    let columns = cells.map(|(index, cell)| utf8(cell, line, index).map(str::to_owned));
    let columns: Vec<String> = columns.collect::<Result<_>>()?;
    // Names that are all numbers are most likely the first row of data.
    if columns.iter().all(|column| parse(column, decimal).is_some()) {
        return Err(TableError::NoHeader { line });
    }
    check_names(columns.iter())?;
    Ok(columns)
}

/// Returns the text of a cell without surrounding blanks.
fn utf8(cell: &[u8], line: u64, index: usize) -> Result<&str> {
    std::str::from_utf8(cell.trim_ascii())
        .map_err(|_| TableError::NotUtf8 { line, column: index.saturating_add(1) })
}

#[cfg(test)]
mod tests;

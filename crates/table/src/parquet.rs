//! Tables in Parquet files. Only the part of the format that flat tables of numbers and text use is
//! supported.
//!
//! Sizes in a file are untrusted. Each is compared with the available bytes, or with the rows of
//! the table, before memory is allocated for it. Memory is used for the numbers of a table, its
//! different texts up to a limit, a column chunk as it is in the file, and one decompressed page.
//!
//! Reference: the Apache Parquet format, version 2.12 (`parquet.thrift`, `Encodings.md`,
//! `Compression.md`), and the compact protocol of Apache Thrift.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

mod arrow;
mod decode;
mod thrift;

use super::{
    Cell, Place, TableError, check_names, dates,
    error::{excerpt, read_error},
    frame::{CellKind, Frame, Places, Rules, TextBuilder, TextMemory},
};
use decode::{Item, Kind, page_values};
use std::io::{Read, Seek, SeekFrom};
use thrift::{Bad, Fields};

const MAGIC: &[u8; 4] = b"PAR1";
/// Magic of files whose footer is encrypted.
const MAGIC_ENCRYPTED: &[u8; 4] = b"PARE";
/// Maximum number of bytes of a footer, and of a decompressed page.
const MAX_FOOTER_BYTES: u64 = 32 << 20;
// Writers make pages of about a mebibyte, and sizes in a file may be false.
const MAX_PAGE_BYTES: usize = 256 << 20;

/// Prefix of the name of an index that `pandas` writes.
const INDEX_PREFIX: &str = "__index_level_";

type Result<T, E = TableError> = core::result::Result<T, E>;

/// Reads a frame.
pub(super) fn read(mut source: impl Read + Seek, name: &str, rules: Rules<'_>) -> Result<Frame> {
    let bytes = source.seek(SeekFrom::End(0)).map_err(|error| read_error(name, &error))?;
    let mut file = Parts { source, name, bytes };
    let info = file.info()?;
    let columns = info.columns(rules)?;
    let (kinds, names): (Vec<Option<Content>>, Vec<String>) = columns.into_iter().unzip();
    let target_at = rules.binary_target(&names)?;
    let rows = info.rows()?;
    let width = names.len();
    // Counted before the memory of the cells is allocated.
    let limit = rules.options.max_cells;
    let Some(cells) = rows.checked_mul(width).filter(|&cells| cells <= limit) else {
        return Err(TableError::TooLarge { rows, columns: width, limit });
    };
    let features = rules.features(&names);
    if rows == 0 || width == 0 || (rules.binary && features == 0) {
        return Err(TableError::Empty { rows, features });
    }

    let mut numbers = vec![0.0; cells];
    let mut text = Vec::with_capacity(width);
    let mut claimed = 0_u64;
    let mut memory = TextMemory::default();
    let columns = names.iter().zip(kinds).zip(info.leaves());
    for (index, ((name, content), leaf)) in columns.enumerate() {
        let Some(Content { kind, time }) = content else {
            numbers.iter_mut().skip(index).step_by(width).for_each(|cell| *cell = f64::NAN);
            text.push(None);
            continue;
        };
        let is_text = kind == Kind::Text || time.is_some();
        let mut cells = Cells {
            name,
            missing: rules.options.missing,
            binary: target_at == Some(index),
            time,
            text: is_text.then(TextBuilder::default),
            memory,
        };
        // 1 is OPTIONAL: pages of such a column have definition levels.
        let optional = leaf.repetition == Some(1);
        let mut first = 0_usize;
        // A group without rows needs no pages.
        for group in info.groups.iter().filter(|group| group.rows > 0) {
            let chunk = group.chunks.get(index).ok_or_else(|| bad("a column has no data"))?;
            claimed = claimed.saturating_add(chunk.bytes()?);
            // Without overlap, columns have at most the bytes of the file. A small file could
            // otherwise claim its bytes again for every column.
            if claimed > bytes {
                return Err(bad("its columns overlap"));
            }
            let data = file.read(chunk.start()?, chunk.bytes()?)?;
            page_values(&data, chunk, kind, optional, group.rows, |row, item| {
                let row = first.saturating_add(row);
                let place = row.checked_mul(width).and_then(|start| start.checked_add(index));
                let cell = place.and_then(|place| numbers.get_mut(place));
                *cell.ok_or_else(|| bad("a column has more values than rows"))? =
                    cells.number(row, item)?;
                Ok(())
            })?;
            first = first.saturating_add(group.rows);
        }
        memory = cells.memory;
        text.push(cells.text.map(|mut text| {
            // Missing values at the end of a column have not added rows yet.
            text.pad(rows);
            text.finish()
        }));
    }
    Ok(Frame { numbers, text, columns: names, places: Places::Rows })
}

/// The content of a column: the form of its values, and the unit of dates or points in time.
#[derive(Clone, Copy)]
struct Content {
    kind: Kind,
    time: Option<Unit>,
}

impl From<Kind> for Content {
    fn from(kind: Kind) -> Self {
        Self { kind, time: None }
    }
}

/// Unit of numbers that count from the start of 1970.
#[derive(Clone, Copy)]
enum Unit {
    Days,
    /// This part of a second.
    Seconds(f64),
}

impl Unit {
    /// Returns the date or the point in time as text, as CSV files have it.
    fn text(self, number: f64) -> Option<String> {
        match self {
            Self::Days => dates::date(number as i32),
            Self::Seconds(unit) => dates::point_in_time(number * unit),
        }
    }
}

/// The parts of a file.
struct Parts<'a, S> {
    source: S,
    name: &'a str,
    /// Total number of bytes.
    bytes: u64,
}

impl<S: Read + Seek> Parts<'_, S> {
    fn read(&mut self, start: u64, length: u64) -> Result<Vec<u8>> {
        // Checked before the allocation, because the length comes from the file.
        let within = start.checked_add(length).is_some_and(|end| end <= self.bytes);
        let length = usize::try_from(length).ok().filter(|_| within);
        let length = length.ok_or_else(|| bad("it ends before its content does"))?;
        let mut part = vec![0; length];
        let read = self.source.seek(SeekFrom::Start(start));
        let read = read.and_then(|_| self.source.read_exact(&mut part));
        read.map_err(|error| read_error(self.name, &error))?;
        Ok(part)
    }

    fn info(&mut self) -> Result<FileInfo> {
        let short = || bad("it is too short");
        // The end must not overlap the 4 bytes of magic at the front.
        let tail_start = self.bytes.checked_sub(8).filter(|&start| start >= 4).ok_or_else(short)?;
        let tail = self.read(tail_start, 8)?;
        let (length, magic) = tail.split_first_chunk::<4>().ok_or_else(short)?;
        // Named separately from other endings, because the remedy differs.
        if magic == MAGIC_ENCRYPTED {
            return Err(bad("it is encrypted"));
        }
        if magic != MAGIC {
            return Err(bad("it does not end as a Parquet file does"));
        }
        let length = u64::from(u32::from_le_bytes(*length));
        if length > MAX_FOOTER_BYTES {
            return Err(bad("its footer is too large"));
        }
        let start = tail_start.checked_sub(length).ok_or_else(short)?;
        FileInfo::read(&self.read(start, length)?)
    }
}

/// A column that is being read.
struct Cells<'a> {
    name: &'a str,
    missing: bool,
    /// True if only 0 and 1 are allowed.
    binary: bool,
    /// The unit of dates, which are kept as text.
    time: Option<Unit>,
    /// The text of a text column.
    text: Option<TextBuilder>,
    /// Memory of the texts of all columns so far.
    memory: TextMemory,
}

impl Cells<'_> {
    /// Returns the number of a cell, or NaN if it is missing or text.
    fn number(&mut self, row: usize, item: Option<Item<'_>>) -> Result<f64> {
        let place = Place::Row(row);
        let column = || excerpt(self.name);
        let number = match item {
            None if self.missing => return Ok(f64::NAN),
            None => return Err(TableError::Gap { place, column: column() }),
            Some(Item::Text(text)) => return self.keep(row, text).map(|()| f64::NAN),
            Some(Item::Number(number)) => number,
        };
        if let Some(unit) = self.time {
            let text = unit.text(number).ok_or_else(|| {
                let found = number.to_string();
                let cell = Cell { place, column: column(), found };
                TableError::NotDate { cell: Box::new(cell) }
            })?;
            return self.keep(row, &text).map(|()| f64::NAN);
        }
        let is_missing = number.is_nan() && self.missing;
        if !number.is_finite() && !is_missing {
            let column = column();
            let found = number.to_string();
            return Err(TableError::NotFinite { place, column, found });
        }
        if self.binary && number != 0.0 && number != 1.0 {
            return Err(TableError::TargetNotBinary { place, column: column(), found: number });
        }
        Ok(number)
    }

    /// Stores the text of a row. Rows must come in order.
    fn keep(&mut self, row: usize, text: &str) -> Result<()> {
        let Some(column) = &mut self.text else { return Ok(()) };
        // Missing values only skip rows, so the rows up to this one lack a text.
        column.pad(row);
        if column.push(Some(text)) { self.memory.take(text, self.name) } else { Ok(()) }
    }
}

fn bad(problem: impl Into<String>) -> TableError {
    TableError::Parquet { problem: problem.into() }
}

impl From<Bad> for TableError {
    fn from(Bad(problem): Bad) -> Self {
        bad(problem)
    }
}

/// The content of a footer.
#[derive(Default)]
struct FileInfo {
    schema: Vec<SchemaElement>,
    rows: i64,
    groups: Vec<RowGroup>,
    /// Names of columns of integers that are durations.
    durations: Vec<String>,
}

#[derive(Default)]
struct SchemaElement {
    physical: Option<i32>,
    repetition: Option<i32>,
    name: String,
    children: i32,
    converted: Option<i32>,
    logical: Option<Logical>,
}

/// A logical type: the number of its field in the union, and the signedness of integers.
#[derive(Clone, Copy)]
struct Logical {
    number: i16,
    signed: bool,
    /// Unit of points in time: 1 for milliseconds, 2 for microseconds, 3 for nanoseconds.
    unit: i16,
}

struct RowGroup {
    rows: usize,
    chunks: Vec<Chunk>,
}

/// Position of the data of a column.
#[derive(Default)]
struct Chunk {
    physical: i32,
    codec: i32,
    compressed_bytes: i64,
    data_offset: i64,
    dictionary_offset: Option<i64>,
    elsewhere: bool,
}

impl Chunk {
    fn start(&self) -> Result<u64> {
        // An offset of 0 or behind the data stands for no dictionary.
        let before = |&offset: &i64| 0 < offset && offset < self.data_offset;
        let start = self.dictionary_offset.filter(before).unwrap_or(self.data_offset);
        u64::try_from(start).map_err(|_| bad("a column begins before the file"))
    }

    fn bytes(&self) -> Result<u64> {
        if self.elsewhere {
            return Err(bad("a column is in another file, or encrypted"));
        }
        u64::try_from(self.compressed_bytes).map_err(|_| bad("a column has a negative size"))
    }
}

impl FileInfo {
    fn read(footer: &[u8]) -> Result<Self> {
        let mut info = Self::default();
        let mut encrypted = false;
        // Fields of `FileMetaData`. The first argument of `list` is the minimum size of an item.
        Fields::of(footer).each(|fields, field| {
            match field {
                2 => info.schema = fields.list(5, SchemaElement::read)?,
                3 => info.rows = fields.integer()?,
                4 => info.groups = fields.list(8, RowGroup::read)?,
                5 => {
                    let pairs = fields.list(1, KeyValue::read)?;
                    let schemas = pairs.iter().filter(|pair| pair.key == arrow::KEY);
                    info.durations =
                        schemas.flat_map(|pair| arrow::durations(&pair.value)).collect();
                }
                8 => encrypted = true,
                _ => {}
            }
            Ok(())
        })?;
        // Columns may be encrypted even if the footer is readable.
        if encrypted { Err(bad("it is encrypted")) } else { Ok(info) }
    }

    /// Returns the schema element of each column.
    fn leaves(&self) -> &[SchemaElement] {
        self.schema.split_first().map_or(&[], |(_, leaves)| leaves)
    }

    /// Returns the contents and names of the columns, without the contents of columns that are not
    /// read.
    fn columns(&self, rules: Rules<'_>) -> Result<Vec<(Option<Content>, String)>> {
        let Some((root, leaves)) = self.schema.split_first() else {
            return Err(bad("it has no schema"));
        };
        // 2 is REPEATED.
        let nested = leaves.iter().find(|leaf| leaf.children != 0 || leaf.repetition == Some(2));
        if let Some(leaf) = nested {
            return Err(leaf.refused("lists or nested columns"));
        }
        if usize::try_from(root.children) != Ok(leaves.len()) {
            return Err(bad("its schema contradicts itself"));
        }
        let names: Vec<String> = leaves.iter().map(|leaf| leaf.name.clone()).collect();
        check_names(names.iter())?;
        if let Some(at) = names.iter().position(|name| name.starts_with(INDEX_PREFIX)) {
            return Err(TableError::UnnamedColumn { number: at.saturating_add(1) });
        }
        let is_read = |leaf: &SchemaElement| rules.kind(&leaf.name) != CellKind::Unread;
        let mut durations = leaves.iter().filter(|leaf| self.durations.contains(&leaf.name));
        if let Some(leaf) = durations.find(|leaf| is_read(leaf)) {
            return Err(leaf.refused("durations"));
        }
        let kinds =
            leaves.iter().map(|leaf| is_read(leaf).then(|| leaf.content(rules)).transpose());
        kinds.zip(names).map(|(kind, name)| Ok((kind?, name))).collect()
    }

    /// Returns the rows of all groups.
    fn rows(&self) -> Result<usize> {
        let sum = self.groups.iter().try_fold(0_usize, |sum, group| sum.checked_add(group.rows));
        let rows = sum.filter(|&sum| usize::try_from(self.rows) == Ok(sum));
        rows.ok_or_else(|| bad("its numbers of rows contradict each other"))
    }
}

impl SchemaElement {
    fn read(fields: &mut Fields<'_>) -> Result<Self, Bad> {
        let mut element = Self::default();
        // Fields of `SchemaElement`.
        fields.each(|fields, field| {
            match field {
                1 => element.physical = Some(fields.small()?),
                3 => element.repetition = Some(fields.small()?),
                4 => element.name = fields.text()?,
                5 => element.children = fields.small()?,
                6 => element.converted = Some(fields.small()?),
                10 => element.logical = Some(Logical::read(fields)?),
                _ => {}
            }
            Ok(())
        })?;
        Ok(element)
    }

    fn refused(&self, found: &'static str) -> TableError {
        TableError::NotNumbers { column: excerpt(&self.name), found }
    }

    /// Returns the type of the column's values: numbers, or text and dates where they are allowed.
    fn content(&self, rules: Rules<'_>) -> Result<Content> {
        let Self { physical, converted, logical, .. } = self;
        let not_number = rules.kind(&self.name) != CellKind::Number;
        let may_be_text = not_number && *physical == Some(6);
        if let Some(content) = self.time().filter(|_| not_number) {
            return Ok(content);
        }
        // Numbers of `LogicalType` and of the older `ConvertedType`. Writers set one of them or
        // both.
        let other = match (converted, logical.map(|logical| logical.number)) {
            (_, Some(1 | 4)) | (Some(0 | 4), _) if may_be_text => return Ok(Kind::Text.into()),
            (_, Some(1)) | (Some(0), _) => Some("text"),
            (_, Some(4)) | (Some(4), _) => Some("names of categories"),
            (_, Some(5)) | (Some(5), _) => Some("decimals"),
            (_, Some(6)) | (Some(6), _) => Some("dates"),
            (_, Some(7)) | (Some(7 | 8), _) => Some("times of day"),
            (_, Some(8)) | (Some(9 | 10), _) => Some("points in time"),
            (_, Some(11)) if rules.options.missing => None,
            (_, Some(11)) => Some("nothing but nulls"),
            (_, Some(15)) => Some("16-bit floating-point numbers"),
            (Some(21), _) => Some("durations"),
            // Integers of some width, or an unknown type.
            (None | Some(11..=18), None | Some(10)) => None,
            _ => Some("values that are no numbers"),
        };
        if let Some(found) = other {
            return Err(self.refused(found));
        }
        // 11 to 14 are UINT_8 to UINT_64.
        let unsigned = matches!(converted, Some(11..=14)) || logical.is_some_and(|l| !l.signed);
        let kind = match (physical, unsigned) {
            (Some(0), _) => Kind::Bool,
            (Some(1), false) => Kind::I32,
            (Some(1), true) => Kind::U32,
            (Some(2), false) => Kind::I64,
            (Some(2), true) => Kind::U64,
            // INT96, which only stores points in time.
            (Some(3), _) => return Err(self.refused("points in time")),
            (Some(4), _) => Kind::F32,
            (Some(5), _) => Kind::F64,
            (Some(6 | 7), _) => return Err(self.refused("text or bytes")),
            _ => return Err(self.refused("values of an unknown kind")),
        };
        Ok(kind.into())
    }

    /// Returns the content of a column of dates or points in time.
    fn time(&self) -> Option<Content> {
        let Self { physical, converted, logical, .. } = self;
        let logical = logical.map(|logical| (logical.number, logical.unit));
        let (needed, kind, unit) = match (converted, logical) {
            (_, Some((6, _))) | (Some(6), _) => (1, Kind::I32, Unit::Days),
            (_, Some((8, 1))) | (Some(9), _) => (2, Kind::I64, Unit::Seconds(1e-3)),
            (_, Some((8, 2))) | (Some(10), _) => (2, Kind::I64, Unit::Seconds(1e-6)),
            (_, Some((8, 3))) => (2, Kind::I64, Unit::Seconds(1e-9)),
            _ => return None,
        };
        (*physical == Some(needed)).then_some(Content { kind, time: Some(unit) })
    }
}

impl Logical {
    fn read(fields: &mut Fields<'_>) -> Result<Self, Bad> {
        let mut logical = Self { number: 0, signed: true, unit: 0 };
        fields.each(|fields, field| {
            // A union has one field, so its number is the type.
            logical.number = field;
            if field == 10 {
                fields.each(|fields, field| {
                    if field == 2 {
                        logical.signed = fields.boolean()?;
                    }
                    Ok(())
                })?;
            }
            if field == 8 {
                // The first field of `TimestampType` says whether times are UTC. Others count as UTC.
                fields.each(|fields, field| match field {
                    2 => fields.each(|_, unit| {
                        logical.unit = unit;
                        Ok(())
                    }),
                    _ => Ok(()),
                })?;
            }
            Ok(())
        })?;
        Ok(logical)
    }
}

/// Metadata that writers store in a footer next to the schema.
#[derive(Default)]
struct KeyValue {
    key: String,
    value: String,
}

impl KeyValue {
    fn read(fields: &mut Fields<'_>) -> Result<Self, Bad> {
        let mut pair = Self::default();
        fields.each(|fields, field| {
            match field {
                1 => pair.key = fields.text()?,
                // Other writers may store values that are not text.
                2 => pair.value = fields.text().unwrap_or_default(),
                _ => {}
            }
            Ok(())
        })?;
        Ok(pair)
    }
}

impl RowGroup {
    fn read(fields: &mut Fields<'_>) -> Result<Self, Bad> {
        let mut rows = 0;
        let mut chunks = Vec::new();
        // Fields of `RowGroup`.
        fields.each(|fields, field| {
            match field {
                1 => chunks = fields.list(16, Chunk::read)?,
                3 => rows = fields.integer()?,
                _ => {}
            }
            Ok(())
        })?;
        let rows =
            usize::try_from(rows).map_err(|_| Bad("a row group has a negative number of rows"))?;
        Ok(Self { rows, chunks })
    }
}

impl Chunk {
    fn read(fields: &mut Fields<'_>) -> Result<Self, Bad> {
        let mut chunk = Self::default();
        // Fields of `ColumnChunk`; 3 is its `ColumnMetaData`.
        fields.each(|fields, field| {
            match field {
                3 => fields.each(|fields, field| {
                    match field {
                        1 => chunk.physical = fields.small()?,
                        4 => chunk.codec = fields.small()?,
                        7 => chunk.compressed_bytes = fields.integer()?,
                        9 => chunk.data_offset = fields.integer()?,
                        11 => chunk.dictionary_offset = Some(fields.integer()?),
                        _ => {}
                    }
                    Ok(())
                })?,
                // A path, or encryption.
                1 | 8 | 9 => chunk.elsewhere = true,
                _ => {}
            }
            Ok(())
        })?;
        Ok(chunk)
    }
}

#[cfg(test)]
mod tests;

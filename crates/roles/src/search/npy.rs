//! Reads NumPy arrays from files, row by row.
//!
//! Format: [NEP 1](https://numpy.org/neps/nep-0001-npy-format.html), versions 1 to 3.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

use std::io::{self, Cursor, Read};

/// Maximum length of a header in bytes.
// Version 1 of the format stores the length in two bytes.
const MAX_HEADER: usize = 1 << 16;
/// Number of elements to read at once.
const CHUNK: usize = 1 << 13;

/// Type of the elements of an array.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Element {
    /// A floating-point number of 2, 4 or 8 bytes.
    Float(usize),
    /// An integer of 1, 2, 4 or 8 bytes, and whether it is signed.
    Integer(usize, bool),
    /// A text of this many bytes.
    Bytes(usize),
    /// A text of this many characters, of 4 bytes each.
    Text(usize),
}

/// An array with one or two dimensions, whose elements are still unread.
#[derive(Debug)]
pub struct Npy<R> {
    input: Input<R>,
    element: Element,
    /// True if elements start with their most significant byte.
    big_endian: bool,
    rows: usize,
    columns: usize,
}

/// The source of elements, in row order.
#[derive(Debug)]
enum Input<R> {
    File(R),
    /// The transposed elements of an array in column order.
    Memory(Cursor<Vec<u8>>),
}

/// A result whose error is a message for people.
type Result<T> = core::result::Result<T, String>;

impl<R: Read> Npy<R> {
    /// Reads the header of a file of `file_bytes` bytes, which must contain all elements.
    ///
    /// # Errors
    /// A description of the problem with the file. All methods return such errors.
    pub fn new(mut input: R, file_bytes: u64) -> Result<Self> {
        let (header, before) = header(&mut input)?;
        let (element, big_endian) = element(&quoted(&header, "descr")?)?;
        let by_columns = match field(&header, "fortran_order")? {
            rest if rest.starts_with("False") => false,
            rest if rest.starts_with("True") => true,
            _ => return Err("its header has no fortran_order".into()),
        };
        let (rows, columns) = match shape(field(&header, "shape")?)?[..] {
            [rows] => (rows, 1),
            [rows, columns] => (rows, columns),
            ref shape => {
                return Err(format!(
                    "it has {} dimensions, but only 1 or 2 are supported",
                    shape.len()
                ));
            }
        };
        let input = Input::File(input);
        let mut this = Self { input, element, big_endian, rows, columns };
        let elements = (rows as u64).checked_mul(columns as u64);
        let needed = elements.and_then(|count| count.checked_mul(this.width() as u64));
        let needed = needed.and_then(|bytes| bytes.checked_add(before as u64));
        // Before memory is allocated for elements: a header may state any shape.
        if needed != Some(file_bytes) {
            return Err(format!(
                "it has {file_bytes} bytes, which do not match {rows} rows of {columns}"
            ));
        }
        // A single row or column has the same bytes in both orders.
        if by_columns && rows > 1 && columns > 1 {
            this.transpose()?;
        }
        Ok(this)
    }

    /// Reads all elements in column order, and transposes them into row order.
    fn transpose(&mut self) -> Result<()> {
        let Input::File(file) = &mut self.input else { return Ok(()) };
        // The size was checked against the file, so this reads no more than the header admits.
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(said)?;
        let width = self.width();
        let columns = self.columns;
        let mut rows = vec![0; bytes.len()];
        let row_bytes = width.saturating_mul(columns);
        let column_bytes = width.saturating_mul(self.rows);
        // `chunks_exact` panics for a width of 0.
        if width > 0 {
            for (number, column) in bytes.chunks_exact(column_bytes).enumerate() {
                let first = number.saturating_mul(width);
                let places = rows.chunks_exact_mut(row_bytes);
                for (row, element) in places.zip(column.chunks_exact(width)) {
                    let place = row.get_mut(first..first.saturating_add(width));
                    place.ok_or("its columns are too long")?.copy_from_slice(element);
                }
            }
        }
        self.input = Input::Memory(Cursor::new(rows));
        Ok(())
    }

    /// Returns the numbers of rows and columns.
    #[must_use]
    pub fn shape(&self) -> (usize, usize) {
        (self.rows, self.columns)
    }

    fn width(&self) -> usize {
        match self.element {
            Element::Float(bytes) | Element::Integer(bytes, _) | Element::Bytes(bytes) => bytes,
            Element::Text(characters) => characters.saturating_mul(4),
        }
    }

    /// Reads the next `count` elements as floating-point numbers.
    ///
    /// # Errors
    /// If fewer elements are left, or they are not numbers.
    pub fn floats(&mut self, count: usize) -> Result<Vec<f64>> {
        let number: fn(u64) -> f64 = match self.element {
            Element::Float(2) => |bits| half(bits as u16),
            Element::Float(4) => |bits| f64::from(f32::from_bits(bits as u32)),
            Element::Float(_) => f64::from_bits,
            Element::Integer(1, true) => |bits| f64::from(bits as i8),
            Element::Integer(2, true) => |bits| f64::from(bits as i16),
            Element::Integer(4, true) => |bits| f64::from(bits as i32),
            Element::Integer(_, true) => |bits| bits.cast_signed() as f64,
            Element::Integer(_, false) => |bits| bits as f64,
            Element::Bytes(_) | Element::Text(_) => {
                return Err("its elements are not numbers: save floats or integers".into());
            }
        };
        let mut numbers = Vec::new();
        self.each(count, |bits, _| {
            numbers.push(number(bits));
            Ok(())
        })?;
        Ok(numbers)
    }

    /// Reads the next `count` elements as nonnegative integers.
    ///
    /// # Errors
    /// If fewer elements are left, or they are not nonnegative integers.
    pub fn integers(&mut self, count: usize) -> Result<Vec<u64>> {
        let Element::Integer(width, signed) = self.element else {
            return Err("its elements are not whole numbers".into());
        };
        let mut numbers = Vec::new();
        let sign = (width as u32).saturating_mul(8).saturating_sub(1);
        self.each(count, |bits, _| {
            // Elements are widened without their sign, so the top bit of their own width tells.
            if signed && bits >> sign == 1 {
                return Err("it has negative numbers".into());
            }
            numbers.push(bits);
            Ok(())
        })?;
        Ok(numbers)
    }

    /// Reads the next `count` elements as bytes, without trailing zeros. Text is converted to
    /// UTF-8.
    ///
    /// # Errors
    /// If fewer elements are left, or they are neither bytes nor text.
    pub fn bytes(&mut self, count: usize) -> Result<Vec<Vec<u8>>> {
        let mut all = Vec::new();
        if let Element::Text(_) = self.element {
            let big_endian = self.big_endian;
            self.each(count, |_, bytes| {
                let codes = bytes.as_chunks().0.iter().map(|&code| match big_endian {
                    true => u32::from_be_bytes(code),
                    false => u32::from_le_bytes(code),
                });
                let text: Option<String> = codes.map(char::from_u32).collect();
                let text = text.ok_or("its elements are not valid text")?;
                all.push(text.trim_end_matches('\0').into());
                Ok(())
            })?;
            return Ok(all);
        }
        let Element::Bytes(_) = self.element else {
            return Err("its elements are neither bytes nor text (types S and U)".into());
        };
        self.each(count, |_, bytes| {
            let end = bytes.iter().rposition(|&byte| byte != 0);
            let end = end.map_or(0, |last| last.saturating_add(1));
            all.push(bytes.get(..end).unwrap_or_default().to_vec());
            Ok(())
        })?;
        Ok(all)
    }

    /// Calls `f` with each of the next elements: its bits as a number if it has up to 8 bytes, and
    /// its bytes.
    fn each(&mut self, count: usize, mut f: impl FnMut(u64, &[u8]) -> Result<()>) -> Result<()> {
        let width = self.width();
        // Arrays of empty texts have such elements, and `chunks_exact` panics for a width of 0.
        if width == 0 {
            return (0..count).try_for_each(|_| f(0, &[]));
        }
        let mut left = count;
        while left > 0 {
            let now = left.min(CHUNK);
            let mut buffer = vec![0; now.saturating_mul(width)];
            match &mut self.input {
                Input::File(file) => file.read_exact(&mut buffer),
                Input::Memory(bytes) => bytes.read_exact(&mut buffer),
            }
            .map_err(said)?;
            for bytes in buffer.chunks_exact(width) {
                let shifted = |bits: u64, &byte: &u8| bits << 8 | u64::from(byte);
                let bits = match self.big_endian {
                    true => bytes.iter().fold(0, shifted),
                    false => bytes.iter().rev().fold(0, shifted),
                };
                f(bits, bytes)?;
            }
            left = left.saturating_sub(now);
        }
        Ok(())
    }
}

fn said(error: io::Error) -> String {
    error.to_string()
}

/// Reads the text of the header, and returns it with the number of bytes before the elements.
fn header(input: &mut impl Read) -> Result<(String, usize)> {
    let mut start = [0; 8];
    input.read_exact(&mut start).map_err(said)?;
    let [magic @ .., major, _] = start;
    if magic != *b"\x93NUMPY" {
        return Err("it is not a NumPy array: write one with numpy.save".into());
    }
    let (length, size) = match major {
        1 => {
            let mut length = [0; 2];
            input.read_exact(&mut length).map_err(said)?;
            (usize::from(u16::from_le_bytes(length)), 2_usize)
        }
        2 | 3 => {
            let mut length = [0; 4];
            input.read_exact(&mut length).map_err(said)?;
            (u32::from_le_bytes(length) as usize, 4)
        }
        _ => {
            return Err(format!(
                "its format has version {major}, but only versions 1 to 3 are \
                                 supported"
            ));
        }
    };
    if length > MAX_HEADER {
        return Err(format!("its header has {length} bytes, but the maximum is {MAX_HEADER}"));
    }
    let mut text = vec![0; length];
    input.read_exact(&mut text).map_err(said)?;
    let text = String::from_utf8(text).map_err(|_| "its header is not text".to_owned())?;
    Ok((text, size.saturating_add(8).saturating_add(length)))
}

/// Returns the text after a key of the header.
fn field<'a>(header: &'a str, key: &str) -> Result<&'a str> {
    let after = header.split_once(&format!("'{key}'")).map(|(_, rest)| rest.trim_start());
    let value = after.and_then(|rest| rest.strip_prefix(':'));
    value.map(str::trim_start).ok_or_else(|| format!("its header has no {key}"))
}

fn quoted(header: &str, key: &str) -> Result<String> {
    // The types of records are lists, which do not begin with a quotation mark.
    let value = field(header, key)?.strip_prefix('\'').and_then(|rest| rest.split_once('\''));
    value.map(|(text, _)| text.to_owned()).ok_or_else(|| "its elements are records".into())
}

/// Converts a half-precision number (IEEE 754, binary16): a sign, 5 exponent bits and 10 fraction
/// bits.
fn half(bits: u16) -> f64 {
    let exponent = i32::from(bits >> 10 & 31);
    let fraction = f64::from(bits & 1023);
    let size = match exponent {
        0 => fraction * SMALLEST_HALF,
        31 if fraction == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        _ => (1024.0 + fraction) * SMALLEST_HALF * f64::from(1u32 << exponent.saturating_sub(1)),
    };
    if bits >> 15 == 1 { -size } else { size }
}

/// The smallest positive half-precision number, 2^-24.
const SMALLEST_HALF: f64 = 1.0 / (1u32 << 24) as f64;

/// Parses a type, and returns whether its elements start with the most significant byte.
fn element(text: &str) -> Result<(Element, bool)> {
    let refused = || {
        format!(
            "its elements have the type {text:?}, but only floats, integers, bytes and text \
                    are supported"
        )
    };
    let (order, kind) = text.split_at_checked(1).ok_or_else(refused)?;
    let (kind, width) = kind.split_at_checked(1).ok_or_else(refused)?;
    let width: usize = width.parse().map_err(|_| refused())?;
    let element = match (kind, width) {
        ("f", 2 | 4 | 8) => Element::Float(width),
        ("i", 1 | 2 | 4 | 8) => Element::Integer(width, true),
        ("u", 1 | 2 | 4 | 8) => Element::Integer(width, false),
        // Bounded like the header: the width of a text comes from the file and sizes a buffer.
        ("S", 0..=MAX_HEADER) => Element::Bytes(width),
        ("U", 0..=MAX_HEADER) => Element::Text(width),
        _ => return Err(refused()),
    };
    match order {
        "<" | "|" => Ok((element, false)),
        ">" => Ok((element, true)),
        _ => Err(refused()),
    }
}

/// Parses numbers in parentheses.
fn shape(text: &str) -> Result<Vec<usize>> {
    let inside = text.strip_prefix('(').and_then(|rest| rest.split_once(')'));
    let (inside, _) = inside.ok_or("its header has no shape")?;
    let numbers = inside.split(',').map(str::trim).filter(|text| !text.is_empty());
    let numbers: Option<Vec<usize>> = numbers.map(|text| text.parse().ok()).collect();
    numbers.ok_or_else(|| "its shape is not a list of whole numbers".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(descr: &str, fortran: &str, shape: &str, data: &[u8]) -> Vec<u8> {
        let header =
            format!("{{'descr': '{descr}', 'fortran_order': {fortran}, 'shape': {shape}, }}");
        let header = format!("{header:117}\n");
        let length = (header.len() as u16).to_le_bytes();
        [b"\x93NUMPY\x01\x00", &length[..], header.as_bytes(), data].concat()
    }

    fn read(file: &[u8]) -> Result<Npy<&[u8]>> {
        Npy::new(file, file.len() as u64)
    }

    #[test]
    fn numbers_come_in_their_order() {
        let data: Vec<u8> = [1.5_f32, -2.0, 3.0, f32::NAN].map(f32::to_le_bytes).concat();
        let bytes = file("<f4", "False", "(2, 2)", &data);
        let mut array = read(&bytes).unwrap();
        assert_eq!(array.shape(), (2, 2));
        assert_eq!(array.floats(3).unwrap(), [1.5, -2.0, 3.0]);
        assert!(array.floats(1).unwrap()[0].is_nan());
        assert!(array.floats(1).is_err());
        let bytes = file(">f8", "False", "(1,)", &2.25_f64.to_be_bytes());
        assert_eq!(read(&bytes).unwrap().floats(1).unwrap(), [2.25]);
        let bytes = file("<i2", "False", "(2,)", &[1, 2, 255, 127]);
        assert_eq!(read(&bytes).unwrap().integers(2).unwrap(), [513, 32767]);
        let bytes = file("<i2", "False", "(1,)", &[255, 255]);
        assert!(read(&bytes).unwrap().integers(1).unwrap_err().contains("negative"));
        let bytes = file("|S3", "False", "(2,)", b"ab\0abc");
        assert_eq!(read(&bytes).unwrap().bytes(2).unwrap(), [&b"ab"[..], b"abc"]);
    }

    #[test]
    fn numbers_of_all_types_are_read() {
        // By numpy.float16: 1.5, -2, the smallest positive and the largest number, infinity, and
        // NaN.
        let halves = [0x3e00_u16, 0xc000, 1, 0x7bff, 0x7c00, 0x7e00].map(u16::to_le_bytes).concat();
        let bytes = file("<f2", "False", "(6,)", &halves);
        let found = read(&bytes).unwrap().floats(6).unwrap();
        assert_eq!(found[..5], [1.5, -2.0, 5.960_464_477_539_063e-8, 65504.0, f64::INFINITY]);
        assert!(found[5].is_nan());
        for (descr, data, expected) in [
            ("|i1", vec![255], -1.0),
            ("<i2", vec![0, 128], -32768.0),
            (">i4", vec![255, 255, 255, 254], -2.0),
            ("<i8", (-(1_i64 << 40)).to_le_bytes().to_vec(), -1_099_511_627_776.0),
            ("|u1", vec![255], 255.0),
            ("<u8", u64::MAX.to_le_bytes().to_vec(), 18_446_744_073_709_551_616.0),
        ] {
            let bytes = file(descr, "False", "(1,)", &data);
            assert_eq!(read(&bytes).unwrap().floats(1).unwrap(), [expected], "{descr}");
        }
        assert!(read(&file("|S1", "False", "(1,)", b"7")).unwrap().floats(1).is_err());
    }

    /// Column after column, as NumPy saves a transposed array.
    #[test]
    fn arrays_by_columns_come_by_rows() {
        let data: Vec<u8> = [1.0_f64, 4.0, 2.0, 5.0, 3.0, 6.0].map(f64::to_le_bytes).concat();
        let bytes = file("<f8", "True", "(2, 3)", &data);
        let mut array = read(&bytes).unwrap();
        assert_eq!(array.shape(), (2, 3));
        assert_eq!(array.floats(2).unwrap(), [1.0, 2.0]);
        assert_eq!(array.floats(4).unwrap(), [3.0, 4.0, 5.0, 6.0]);
        assert!(array.floats(1).is_err());
        let bytes = file("|S2", "True", "(2, 2)", b"a\0ccb\0d\0");
        assert_eq!(read(&bytes).unwrap().bytes(4).unwrap(), [&b"a"[..], b"b", b"cc", b"d"]);
    }

    #[test]
    fn text_is_read_as_utf8() {
        let codes = |order: fn(u32) -> [u8; 4]| {
            ['m', 'ß', '\0', '€', '\0', '\0'].map(|letter| order(letter.into())).concat()
        };
        for (descr, data) in [("<U3", codes(u32::to_le_bytes)), (">U3", codes(u32::to_be_bytes))] {
            let bytes = file(descr, "False", "(2,)", &data);
            let found = read(&bytes).unwrap().bytes(2).unwrap();
            assert_eq!(found, ["mß".as_bytes(), "€".as_bytes()]);
        }
        let bytes = file("<U1", "False", "(1,)", &[0, 0, 255, 0]);
        assert!(read(&bytes).unwrap().bytes(1).unwrap_err().contains("not valid text"));
    }

    #[test]
    fn other_files_are_refused() {
        let good = file("<f8", "False", "(1, 1)", &[0; 8]);
        for (bad, part) in [
            (file("<f8", "None", "(1, 1)", &[0; 8]), "no fortran_order"),
            (file("<f8", "True", "(2, 2)", &[0; 8]), "2 rows of 2"),
            (file("<c16", "False", "(1, 1)", &[0; 16]), "<c16"),
            (file("|O", "False", "(1, 1)", &[0; 16]), "|O"),
            (file("<f8", "False", "(1, 1, 1)", &[0; 8]), "3 dimensions"),
            (file("<f8", "False", "(2, 1)", &[0; 8]), "2 rows of 1"),
            (file("<f8", "False", "(4294967296, 4294967296)", &[0; 8]), "rows of"),
            (file("<f8", "False", "(x,)", &[0; 8]), "shape"),
            (b"\x93NUMPY\x09\x00".to_vec(), "version 9"),
            (b"1,2,3,4,5\n".to_vec(), "numpy.save"),
            (b"\x93NUMPY\x02\x00\xff\xff\xff\xff".to_vec(), "maximum"),
        ] {
            let refused = read(&bad).unwrap_err();
            assert!(refused.contains(part), "{part}: {refused}");
        }
        for length in 0..good.len() {
            assert!(read(&good[..length]).is_err(), "{length}");
        }
        assert!(
            read(&good).unwrap().integers(1).is_err() && read(&good).unwrap().bytes(1).is_err()
        );
    }
}

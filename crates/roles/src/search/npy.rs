//! Arrays of NumPy in files, read row by row.
//!
//! Format: [NEP 1](https://numpy.org/neps/nep-0001-npy-format.html), versions 1 to 3.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

use std::io::{self, Read};

/// Longest header that is read.
const MOST_HEADER: usize = 1 << 16;
/// Elements that are read at once.
const CHUNK: usize = 1 << 13;

/// What an element of an array is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Element {
    /// A number with a point, of 4 or 8 bytes.
    Float(usize),
    /// A whole number of 1, 2, 4 or 8 bytes; signed or not.
    Integer(usize, bool),
    /// So many bytes.
    Bytes(usize),
}

/// An array in one or two dimensions, of which the elements are still to be read.
#[derive(Debug)]
pub struct Npy<R> {
    input: R,
    element: Element,
    /// Where bytes of an element are the most significant first.
    big_endian: bool,
    rows: usize,
    columns: usize,
}

/// Results with what is wrong, for people.
type Result<T> = core::result::Result<T, String>;

impl<R: Read> Npy<R> {
    /// Reads the header of a file of so many bytes, which must have all elements.
    ///
    /// # Errors
    /// What is wrong with the file, for people; so all methods.
    pub fn new(mut input: R, file_bytes: u64) -> Result<Self> {
        let (header, before) = header(&mut input)?;
        let (element, big_endian) = element(&quoted(&header, "descr")?)?;
        match field(&header, "fortran_order")? {
            rest if rest.starts_with("False") => {}
            _ => {
                return Err(
                    "its order is that of columns: save numpy.ascontiguousarray of it".into()
                );
            }
        }
        let (rows, columns) = match shape(field(&header, "shape")?)?[..] {
            [rows] => (rows, 1),
            [rows, columns] => (rows, columns),
            ref shape => {
                return Err(format!("it has {} dimensions, 1 or 2 are possible", shape.len()));
            }
        };
        let this = Self { input, element, big_endian, rows, columns };
        let elements = (rows as u64).checked_mul(columns as u64);
        let needed = elements.and_then(|count| count.checked_mul(this.width() as u64));
        let needed = needed.and_then(|bytes| bytes.checked_add(before as u64));
        match needed == Some(file_bytes) {
            true => Ok(this),
            false => Err(format!(
                "it has {file_bytes} bytes, which are not those of {rows} rows of {columns}"
            )),
        }
    }

    /// Rows, and elements of each.
    #[must_use]
    pub fn shape(&self) -> (usize, usize) {
        (self.rows, self.columns)
    }

    fn width(&self) -> usize {
        match self.element {
            Element::Float(bytes) | Element::Integer(bytes, _) | Element::Bytes(bytes) => bytes,
        }
    }

    /// The next `count` elements as numbers with a point.
    ///
    /// # Errors
    /// If there are fewer, or others.
    pub fn floats(&mut self, count: usize) -> Result<Vec<f64>> {
        let Element::Float(width) = self.element else {
            return Err("its elements are not float32 or float64".into());
        };
        let mut numbers = Vec::new();
        self.each(count, |bits, _| {
            numbers.push(match width {
                4 => f64::from(f32::from_bits(bits as u32)),
                _ => f64::from_bits(bits),
            });
            Ok(())
        })?;
        Ok(numbers)
    }

    /// The next `count` elements as whole numbers that are not negative.
    ///
    /// # Errors
    /// If there are fewer, or others.
    pub fn integers(&mut self, count: usize) -> Result<Vec<u64>> {
        let Element::Integer(width, signed) = self.element else {
            return Err("its elements are not whole numbers".into());
        };
        let mut numbers = Vec::new();
        let sign = (width as u32).saturating_mul(8).saturating_sub(1);
        self.each(count, |bits, _| {
            if signed && bits >> sign == 1 {
                return Err("it has negative numbers".into());
            }
            numbers.push(bits);
            Ok(())
        })?;
        Ok(numbers)
    }

    /// The next `count` elements as bytes, without those of 0 at the end.
    ///
    /// # Errors
    /// If there are fewer, or others.
    pub fn bytes(&mut self, count: usize) -> Result<Vec<Vec<u8>>> {
        let Element::Bytes(_) = self.element else {
            return Err("its elements are not bytes, as of the type S".into());
        };
        let mut all = Vec::new();
        self.each(count, |_, bytes| {
            let end = bytes.iter().rposition(|&byte| byte != 0);
            let end = end.map_or(0, |last| last.saturating_add(1));
            all.push(bytes.get(..end).unwrap_or_default().to_vec());
            Ok(())
        })?;
        Ok(all)
    }

    /// Calls `f` with the bits, as far as they are a number, and bytes of each of the next elements.
    fn each(&mut self, count: usize, mut f: impl FnMut(u64, &[u8]) -> Result<()>) -> Result<()> {
        let width = self.width();
        if width == 0 {
            return (0..count).try_for_each(|_| f(0, &[]));
        }
        let mut left = count;
        while left > 0 {
            let now = left.min(CHUNK);
            let mut buffer = vec![0; now.saturating_mul(width)];
            self.input.read_exact(&mut buffer).map_err(said)?;
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

/// The text of the header, and the bytes before the elements.
fn header(input: &mut impl Read) -> Result<(String, usize)> {
    let mut start = [0; 8];
    input.read_exact(&mut start).map_err(said)?;
    let [magic @ .., major, _] = start;
    if magic != *b"\x93NUMPY" {
        return Err("it is no array of NumPy: write one with numpy.save".into());
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
        _ => return Err(format!("its format has version {major}, 1 to 3 are known")),
    };
    if length > MOST_HEADER {
        return Err(format!("its header has {length} bytes, at most {MOST_HEADER} are possible"));
    }
    let mut text = vec![0; length];
    input.read_exact(&mut text).map_err(said)?;
    let text = String::from_utf8(text).map_err(|_| "its header is no text".to_owned())?;
    Ok((text, size.saturating_add(8).saturating_add(length)))
}

/// What follows a key of the header.
fn field<'a>(header: &'a str, key: &str) -> Result<&'a str> {
    let after = header.split_once(&format!("'{key}'")).map(|(_, rest)| rest.trim_start());
    let value = after.and_then(|rest| rest.strip_prefix(':'));
    value.map(str::trim_start).ok_or_else(|| format!("its header says no {key}"))
}

fn quoted(header: &str, key: &str) -> Result<String> {
    let value = field(header, key)?.strip_prefix('\'').and_then(|rest| rest.split_once('\''));
    value.map(|(text, _)| text.to_owned()).ok_or_else(|| "its elements are records".into())
}

/// What elements are, and whether their first byte is the most significant.
fn element(text: &str) -> Result<(Element, bool)> {
    let refused = || format!("its elements are of type {text:?}");
    let (order, kind) = text.split_at_checked(1).ok_or_else(refused)?;
    let (kind, width) = kind.split_at_checked(1).ok_or_else(refused)?;
    let width: usize = width.parse().map_err(|_| refused())?;
    let element = match (kind, width) {
        ("f", 4 | 8) => Element::Float(width),
        ("i", 1 | 2 | 4 | 8) => Element::Integer(width, true),
        ("u", 1 | 2 | 4 | 8) => Element::Integer(width, false),
        ("S", 0..=MOST_HEADER) => Element::Bytes(width),
        _ => return Err(refused()),
    };
    match order {
        "<" | "|" => Ok((element, false)),
        ">" => Ok((element, true)),
        _ => Err(refused()),
    }
}

/// Numbers in brackets.
fn shape(text: &str) -> Result<Vec<usize>> {
    let inside = text.strip_prefix('(').and_then(|rest| rest.split_once(')'));
    let (inside, _) = inside.ok_or("its header says no shape")?;
    let numbers = inside.split(',').map(str::trim).filter(|text| !text.is_empty());
    let numbers: Option<Vec<usize>> = numbers.map(|text| text.parse().ok()).collect();
    numbers.ok_or_else(|| "its shape is no list of whole numbers".into())
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
    fn other_files_are_refused() {
        let good = file("<f8", "False", "(1, 1)", &[0; 8]);
        for (bad, part) in [
            (file("<f8", "True", "(1, 1)", &[0; 8]), "ascontiguousarray"),
            (file("<c16", "False", "(1, 1)", &[0; 16]), "<c16"),
            (file("<f8", "False", "(1, 1, 1)", &[0; 8]), "3 dimensions"),
            (file("<f8", "False", "(2, 1)", &[0; 8]), "2 rows of 1"),
            (file("<f8", "False", "(4294967296, 4294967296)", &[0; 8]), "rows of"),
            (file("<f8", "False", "(x,)", &[0; 8]), "shape"),
            (b"\x93NUMPY\x09\x00".to_vec(), "version 9"),
            (b"1,2,3,4,5\n".to_vec(), "numpy.save"),
            (b"\x93NUMPY\x02\x00\xff\xff\xff\xff".to_vec(), "at most"),
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

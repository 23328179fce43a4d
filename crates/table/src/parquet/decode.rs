//! Values in the pages of a column chunk.

use super::{
    Chunk, MAX_PAGE_BYTES, bad,
    thrift::{self, Bad, Fields, varint, zigzag},
};
use crate::TableError;
use std::io::Read;

/// The type of the values of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Bool,
    I32,
    U32,
    I64,
    U64,
    F32,
    F64,
    Text,
}

/// A value of a column.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Item<'a> {
    Number(f64),
    Text(&'a str),
}

impl Kind {
    /// Returns the number of the physical type.
    fn physical(self) -> i32 {
        match self {
            Self::Bool => 0,
            Self::I32 | Self::U32 => 1,
            Self::I64 | Self::U64 => 2,
            Self::F32 => 4,
            Self::F64 => 5,
            Self::Text => 6,
        }
    }

    /// Returns the bytes of a value: 0 for booleans, which share bytes, and for texts, whose length
    /// varies.
    fn bytes(self) -> usize {
        match self {
            Self::Bool | Self::Text => 0,
            Self::I32 | Self::U32 | Self::F32 => 4,
            Self::I64 | Self::U64 | Self::F64 => 8,
        }
    }

    /// Returns the number that these bits represent. For 4 bytes the upper half is ignored.
    fn number(self, bits: u64) -> f64 {
        match self {
            Self::Text => f64::NAN,
            Self::Bool => (bits & 1) as f64,
            Self::I32 => f64::from(bits as i32),
            Self::U32 => f64::from(bits as u32),
            Self::I64 => bits as i64 as f64,
            Self::U64 => bits as f64,
            Self::F32 => f64::from(f32::from_bits(bits as u32)),
            Self::F64 => f64::from_bits(bits),
        }
    }
}

const SHORT: Bad = Bad("a page ends before its values do");

/// Encodings.
const PLAIN: i32 = 0;
const PLAIN_DICTIONARY: i32 = 2;
const RLE: i32 = 3;
const DELTA_BINARY_PACKED: i32 = 5;
const DELTA_LENGTH_BYTE_ARRAY: i32 = 6;
const DELTA_BYTE_ARRAY: i32 = 7;
const RLE_DICTIONARY: i32 = 8;
const BYTE_STREAM_SPLIT: i32 = 9;

/// Kinds of pages.
const DATA: i32 = 0;
const DICTIONARY: i32 = 2;
const DATA_V2: i32 = 3;

/// The header of a page. Missing sizes are 0.
#[derive(Default)]
struct Page {
    kind: i32,
    bytes: usize,
    compressed_bytes: usize,
    values: usize,
    encoding: i32,
    level_encoding: i32,
    /// In version 2: bytes before the compressed part.
    repetition_bytes: usize,
    definition_bytes: usize,
    /// In version 2: true if the page is not compressed, even if the chunk has a codec.
    stored: bool,
}

impl Page {
    /// Reads a header, and advances `bytes` to its end.
    fn read(bytes: &mut &[u8]) -> thrift::Result<Self> {
        // Pages of version 2 have no such field: their levels are always RLE.
        let mut page = Self { level_encoding: RLE, ..Self::default() };
        let mut fields = Fields::of(bytes);
        let size = |fields: &mut Fields<'_>| {
            usize::try_from(fields.small()?).map_err(|_| Bad("a page has a negative size"))
        };
        fields.each(|fields, field| {
            match field {
                1 => page.kind = fields.small()?,
                2 => page.bytes = size(fields)?,
                3 => page.compressed_bytes = size(fields)?,
                // Headers of data pages (5) and of dictionaries (7) share their first two fields.
                5 | 7 => fields.each(|fields, field_within| {
                    match field_within {
                        1 => page.values = size(fields)?,
                        2 => page.encoding = fields.small()?,
                        // In a dictionary, field 3 says whether values are sorted.
                        3 if field == 5 => page.level_encoding = fields.small()?,
                        _ => {}
                    }
                    Ok(())
                })?,
                8 => fields.each(|fields, field| {
                    match field {
                        1 => page.values = size(fields)?,
                        4 => page.encoding = fields.small()?,
                        5 => page.definition_bytes = size(fields)?,
                        6 => page.repetition_bytes = size(fields)?,
                        7 => page.stored = !fields.boolean()?,
                        _ => {}
                    }
                    Ok(())
                })?,
                _ => {}
            }
            Ok(())
        })?;
        *bytes = fields.rest();
        Ok(page)
    }

    /// Returns the definition levels, if they are separate, and the decompressed rest.
    fn unpack<'a>(
        &self,
        content: &'a [u8],
        chunk: &Chunk,
        kind: Kind,
    ) -> Result<(&'a [u8], Vec<u8>), TableError> {
        // The widest numbers, plus room for levels and for the padding of the last block.
        let of_numbers = self.values.saturating_mul(16).saturating_add(1 << 16);
        let most = if kind == Kind::Text { MAX_PAGE_BYTES } else { of_numbers.min(MAX_PAGE_BYTES) };
        if self.bytes > most {
            return Err(bad("a page has more bytes than its values need"));
        }
        // Columns are flat, so repetition levels are skipped, if there are any.
        let (_, content) = content.split_at_checked(self.repetition_bytes).ok_or(SHORT)?;
        let (levels, packed) = content.split_at_checked(self.definition_bytes).ok_or(SHORT)?;
        // In version 2 the sizes include the levels, which are not compressed.
        let bytes = self.bytes.checked_sub(self.repetition_bytes);
        let bytes = bytes.and_then(|bytes| bytes.checked_sub(levels.len())).ok_or(SHORT)?;
        let codec = if self.stored { UNCOMPRESSED } else { chunk.codec };
        Ok((levels, decompress(codec, packed, bytes)?))
    }
}

/// Calls `put` for every row of a column chunk with its value, or `None` if it is missing. Values
/// are in the order of rows, except that a page's missing values come before its other values.
#[expect(
    clippy::arithmetic_side_effects,
    reason = "no page has more values than rows are left, nor more that are missing"
)]
pub fn page_values(
    data: &[u8],
    chunk: &Chunk,
    kind: Kind,
    optional: bool,
    rows: usize,
    mut put: impl FnMut(usize, Option<Item<'_>>) -> Result<(), TableError>,
) -> Result<(), TableError> {
    if chunk.physical != kind.physical() {
        return Err(bad("a column has other values than its schema says"));
    }
    let mut data = data;
    let mut dictionary = None;
    let no_dictionary = Dictionary::default();
    let mut row = 0;
    while row < rows {
        let page = Page::read(&mut data)?;
        let (content, rest) = data
            .split_at_checked(page.compressed_bytes)
            .ok_or(Bad("a page ends behind its column"))?;
        data = rest;
        // An index page, for example, has no values.
        if ![DATA, DATA_V2, DICTIONARY].contains(&page.kind) {
            continue;
        }
        // A dictionary may contain values that no row uses.
        let spare = if page.kind == DICTIONARY { 1 << 20 } else { 0 };
        if page.values > (rows - row).max(spare) {
            return Err(bad("a page has more values than its column"));
        }
        let (levels, body) = page.unpack(content, chunk, kind)?;
        let mut body = body.as_slice();
        if page.kind == DICTIONARY {
            if dictionary.is_some() {
                return Err(bad("a column has two dictionaries"));
            }
            dictionary = Some(Dictionary::read(kind, &page, body)?);
            continue;
        }
        let first = row;
        row += page.values;
        let mut missing = match page.level_encoding {
            _ if !optional || page.values == 0 => Vec::new(),
            _ if page.kind == DATA_V2 => nulls(levels, page.values)?,
            // Version 1 compresses the levels together with the values and puts them first.
            RLE => nulls(prefixed(&mut body)?, page.values)?,
            _ => return Err(unknown_encoding()),
        };
        missing.iter().try_for_each(|&missing| put(first + missing as usize, None))?;
        let count = page.values - missing.len();
        // The row of the next value, and the rows to skip, the next one last.
        let mut next = first;
        missing.reverse();
        let mut put = |item: Item<'_>| {
            while missing.last().is_some_and(|&missing| first + missing as usize == next) {
                missing.pop();
                next += 1;
            }
            next += 1;
            put(next - 1, Some(item))
        };
        let dictionary = dictionary.as_ref().unwrap_or(&no_dictionary);
        match kind {
            // Such a page may have no body, not even the width of its indices.
            _ if count == 0 => {}
            Kind::Text => texts(&page, body, count, dictionary, |text| put(Item::Text(text)))?,
            _ => numbers(kind, &page, body, count, dictionary, |x| put(Item::Number(x)))?,
        }
    }
    Ok(())
}

/// The values that indices refer to.
#[derive(Default)]
struct Dictionary {
    numbers: Vec<f64>,
    texts: Vec<u8>,
    /// End of each text.
    ends: Vec<usize>,
}

impl Dictionary {
    fn read(kind: Kind, page: &Page, body: &[u8]) -> Result<Self, TableError> {
        if ![PLAIN, PLAIN_DICTIONARY].contains(&page.encoding) || kind == Kind::Bool {
            return Err(unknown_encoding());
        }
        let Self { mut numbers, mut texts, mut ends } = Self::default();
        if kind == Kind::Text {
            plain_texts(body, page.values, |text| {
                texts.extend_from_slice(text);
                ends.push(texts.len());
                Ok(())
            })?;
        } else {
            plain(kind, body, page.values, |value| {
                numbers.push(value);
                Ok(())
            })?;
        }
        Ok(Self { numbers, texts, ends })
    }

    fn text(&self, index: u32) -> Option<&[u8]> {
        let index = index as usize;
        let start = index.checked_sub(1).and_then(|before| self.ends.get(before)).unwrap_or(&0);
        self.texts.get(*start..*self.ends.get(index)?)
    }
}

/// Returns the missing ones of `count` values.
fn nulls(definitions: &[u8], count: usize) -> Result<Vec<u32>, TableError> {
    let mut at = 0_u32;
    let mut missing = Vec::new();
    // In a flat column a level has one bit, and 0 is a missing value.
    hybrid(definitions, 1, count, |defined| {
        if defined == 0 {
            missing.push(at);
        }
        at = at.saturating_add(1);
        Ok(())
    })?;
    Ok(missing)
}

/// Reads numbers, each by an index into a dictionary.
fn indices(
    body: &[u8],
    count: usize,
    put: impl FnMut(u32) -> Result<(), TableError>,
) -> Result<(), TableError> {
    let (&width, body) = body.split_first().ok_or(SHORT)?;
    hybrid(body, u32::from(width), count, put)
}

const NOT_LISTED: Bad = Bad("a value is not in the dictionary");

/// Reads the `count` texts of a page of data.
fn texts(
    page: &Page,
    mut body: &[u8],
    count: usize,
    dictionary: &Dictionary,
    mut put: impl FnMut(&str) -> Result<(), TableError>,
) -> Result<(), TableError> {
    let mut put =
        |text: &[u8]| put(std::str::from_utf8(text).map_err(|_| Bad("a text is not UTF-8"))?);
    match page.encoding {
        PLAIN => plain_texts(body, count, put),
        PLAIN_DICTIONARY | RLE_DICTIONARY => {
            indices(body, count, |index| put(dictionary.text(index).ok_or(NOT_LISTED)?))
        }
        DELTA_LENGTH_BYTE_ARRAY => {
            let lengths = lengths(&mut body, count)?;
            lengths.into_iter().try_for_each(|length| put(part(&mut body, length)?))
        }
        DELTA_BYTE_ARRAY => {
            let shared = lengths(&mut body, count)?;
            let rest = lengths(&mut body, count)?;
            let mut text = Vec::new();
            shared.into_iter().zip(rest).try_for_each(|(shared, rest)| {
                if shared > text.len() {
                    return Err(bad("a text begins as a longer one than there is"));
                }
                text.truncate(shared);
                text.extend_from_slice(part(&mut body, rest)?);
                put(&text)
            })
        }
        _ => Err(unknown_encoding()),
    }
}

/// Reads lengths that are stored as differences.
fn lengths(body: &mut &[u8], count: usize) -> Result<Vec<usize>, TableError> {
    let mut lengths = Vec::new();
    deltas(body, count, |length| {
        // A negative length arrives as a huge number, which `part` refuses.
        lengths.push(usize::try_from(length).unwrap_or(usize::MAX));
        Ok(())
    })?;
    Ok(lengths)
}

/// Splits off the first `length` bytes.
fn part<'a>(bytes: &mut &'a [u8], length: usize) -> thrift::Result<&'a [u8]> {
    let (part, rest) = bytes.split_at_checked(length).ok_or(SHORT)?;
    *bytes = rest;
    Ok(part)
}

/// Reads texts that follow each other, each after its length.
fn plain_texts(
    mut bytes: &[u8],
    count: usize,
    mut put: impl FnMut(&[u8]) -> Result<(), TableError>,
) -> Result<(), TableError> {
    (0..count).try_for_each(|_| put(prefixed(&mut bytes)?))
}

/// Reads the `count` numbers of a page of data.
fn numbers(
    kind: Kind,
    page: &Page,
    mut body: &[u8],
    count: usize,
    dictionary: &Dictionary,
    mut put: impl FnMut(f64) -> Result<(), TableError>,
) -> Result<(), TableError> {
    match page.encoding {
        PLAIN => plain(kind, body, count, put),
        PLAIN_DICTIONARY | RLE_DICTIONARY => indices(body, count, |index| {
            put(*dictionary.numbers.get(index as usize).ok_or(NOT_LISTED)?)
        }),
        RLE if kind == Kind::Bool => {
            let body = prefixed(&mut body)?;
            hybrid(body, 1, count, |bit| put(f64::from(bit)))
        }
        DELTA_BINARY_PACKED if !matches!(kind, Kind::Bool | Kind::F32 | Kind::F64) => {
            deltas(&mut body, count, |bits| put(kind.number(bits)))
        }
        BYTE_STREAM_SPLIT if kind != Kind::Bool => {
            let width = kind.bytes();
            if body.len() != count.saturating_mul(width) {
                return Err(SHORT.into());
            }
            (0..count).try_for_each(|i| {
                // The bytes `k` of all values are stored together, the lowest first.
                let bytes = body.iter().skip(i).step_by(count).rev();
                put(kind.number(bytes.fold(0, |number, &byte| number << 8 | u64::from(byte))))
            })
        }
        _ => Err(unknown_encoding()),
    }
}

fn unknown_encoding() -> TableError {
    bad("its encoding is not supported (plain, dictionary, RLE, delta and byte stream split are)")
}

/// Codecs.
const UNCOMPRESSED: i32 = 0;

/// Decompresses exactly `bytes` bytes.
fn decompress(codec: i32, packed: &[u8], bytes: usize) -> Result<Vec<u8>, TableError> {
    const BROKEN: Bad = Bad("a page cannot be decompressed");
    // Codecs that need the output's size in advance compress by at most 256 to 1.
    let given = || match packed.len().checked_mul(256) {
        Some(most) if bytes <= most => Ok(vec![0; bytes]),
        _ => Err(BROKEN),
    };
    let stream = |reader: &mut dyn Read| {
        let mut out = Vec::new();
        // One more byte, to detect surplus output.
        let read = reader.take((bytes as u64).saturating_add(1)).read_to_end(&mut out);
        read.map(|_| out).map_err(|_| BROKEN)
    };
    let out = match codec {
        UNCOMPRESSED => packed.to_vec(),
        // Empty data may be stored as no bytes at all.
        1..=7 if bytes == 0 => Vec::new(),
        1 => {
            let mut out = given()?;
            let done = snap::raw::Decoder::new().decompress(packed, &mut out);
            out.truncate(done.map_err(|_| BROKEN)?);
            out
        }
        // A gzip page may consist of several members.
        2 => stream(&mut flate2::read::MultiGzDecoder::new(packed))?,
        6 => {
            let decoder = ruzstd::decoding::StreamingDecoder::new(packed);
            stream(&mut decoder.map_err(|_| BROKEN)?)?
        }
        7 => {
            let mut out = given()?;
            let done = lz4_flex::block::decompress_into(packed, &mut out);
            out.truncate(done.map_err(|_| BROKEN)?);
            out
        }
        // LZO, Brotli, and the deprecated LZ4 in the frames of Hadoop.
        3..=5 => {
            return Err(bad(
                "its compression is not supported (none, Snappy, gzip, Zstandard and LZ4 are)",
            ));
        }
        _ => return Err(bad("its compression is unknown")),
    };
    if out.len() == bytes { Ok(out) } else { Err(BROKEN.into()) }
}

/// Splits off a part that follows its length.
fn prefixed<'a>(bytes: &mut &'a [u8]) -> thrift::Result<&'a [u8]> {
    let (length, rest) = bytes.split_first_chunk::<4>().ok_or(SHORT)?;
    *bytes = rest;
    part(bytes, u32::from_le_bytes(*length) as usize)
}

/// Reads values that follow each other.
fn plain(
    kind: Kind,
    bytes: &[u8],
    count: usize,
    mut put: impl FnMut(f64) -> Result<(), TableError>,
) -> Result<(), TableError> {
    let width = kind.bytes();
    if bytes.len() < if width == 0 { count.div_ceil(8) } else { count.saturating_mul(width) } {
        return Err(SHORT.into());
    }
    if width == 0 {
        let bits = bytes.iter().flat_map(|&byte| (0..8).map(move |bit| byte >> bit & 1));
        return bits.take(count).try_for_each(|bit| put(f64::from(bit)));
    }
    bytes.chunks_exact(width).take(count).try_for_each(|value| {
        let bits = value.iter().rev().fold(0, |bits, &byte| bits << 8 | u64::from(byte));
        put(kind.number(bits))
    })
}

/// Reads runs of equal numbers and groups of eight numbers of `width` bits, which alternate.
#[expect(
    clippy::arithmetic_side_effects,
    reason = "runs are at most as long as the numbers left, whose bits are within a page"
)]
fn hybrid(
    mut bytes: &[u8],
    width: u32,
    count: usize,
    mut put: impl FnMut(u32) -> Result<(), TableError>,
) -> Result<(), TableError> {
    if width > 32 {
        return Err(bad("its numbers have more than 32 bits"));
    }
    let mut left = count;
    while left > 0 {
        let head = varint(&mut bytes).ok_or(SHORT)?;
        if head & 1 == 0 {
            // A file may claim any length. An empty run uses a byte, so the loop ends.
            let run = usize::try_from(head >> 1).unwrap_or(usize::MAX).min(left);
            let length = width.div_ceil(8) as usize;
            let (value, rest) = bytes.split_at_checked(length).ok_or(SHORT)?;
            bytes = rest;
            let value = value.iter().rev().fold(0, |value, &byte| value << 8 | u32::from(byte));
            (0..run).try_for_each(|_| put(value))?;
            left -= run;
        } else {
            let groups = usize::try_from(head >> 1).map_err(|_| SHORT)?;
            let run = groups.saturating_mul(8).min(left);
            // The last group may be cut off after the last number.
            let needed = (run as u64 * u64::from(width)).div_ceil(8) as usize;
            let whole = groups.saturating_mul(width as usize).min(bytes.len());
            let (numbers, rest) = bytes.split_at(whole);
            if numbers.len() < needed {
                return Err(SHORT.into());
            }
            bytes = rest;
            (0..run).try_for_each(|i| put(bits(numbers, i, width) as u32))?;
            left -= run;
        }
    }
    Ok(())
}

/// Returns number `i` of packed numbers of `width` bits each, at most 64, the lowest bits first.
/// `i` must be in range.
#[expect(
    clippy::arithmetic_side_effects,
    reason = "all numbers are in memory, so their bits are within the bytes there"
)]
fn bits(bytes: &[u8], i: usize, width: u32) -> u64 {
    let first = i * width as usize;
    let byte = first / 8;
    let shift = first % 8;
    let end = (first + width as usize).div_ceil(8).min(bytes.len());
    // 64 bits behind a shift of up to 7 extend over nine bytes.
    let number = bytes
        .get(byte..end)
        .unwrap_or_default()
        .iter()
        .rev()
        .fold(0_u128, |number, &byte| number << 8 | u128::from(byte));
    // With a width of 0 the shift is by 64 bits, and the mask has to be 0.
    (number >> shift) as u64 & u64::MAX.checked_shr(64 - width).unwrap_or(0)
}

/// Reads integers that are stored as differences, in blocks with a minimum difference each.
/// Advances to the end of the integers.
#[expect(
    clippy::arithmetic_side_effects,
    reason = "blocks have at most 2^20 differences of 64 bits, parts divide them"
)]
fn deltas(
    bytes: &mut &[u8],
    count: usize,
    mut put: impl FnMut(u64) -> Result<(), TableError>,
) -> Result<(), TableError> {
    let mut next = || varint(bytes).ok_or(SHORT);
    let block = next()?;
    let parts = next()?;
    let total = next()?;
    let first = next()?;
    // Parts of a multiple of 8 numbers fill whole bytes.
    let per_part = block.checked_div(parts).filter(|part| part * parts == block && part % 8 == 0);
    // The limit keeps the sizes of parts, and the indices of their bits, far from overflow.
    let per_part = per_part.filter(|&part| part > 0 && block <= 1 << 20);
    let per_part = per_part.ok_or(Bad("its differences come in impossible blocks"))? as usize;
    if total != count as u64 {
        return Err(bad("a page has another number of differences than of values"));
    }
    let mut value = zigzag(first);
    let mut left = count;
    if left > 0 {
        put(value as u64)?;
        left -= 1;
    }
    while left > 0 {
        let least = zigzag(varint(bytes).ok_or(SHORT)?);
        let (widths, rest) = bytes.split_at_checked(parts as usize).ok_or(SHORT)?;
        *bytes = rest;
        for &width in widths {
            // The last block has all its widths, but only the parts that contain values.
            if left == 0 {
                break;
            }
            if width > 64 {
                return Err(bad("its differences have more than 64 bits"));
            }
            // The last part is padded to its full size.
            let (numbers, rest) =
                bytes.split_at_checked(per_part / 8 * usize::from(width)).ok_or(SHORT)?;
            *bytes = rest;
            for i in 0..per_part.min(left) {
                let difference = bits(numbers, i, u32::from(width)) as i64;
                // The format defines differences modulo 2^64.
                value = value.wrapping_add(least).wrapping_add(difference);
                put(value as u64)?;
            }
            left -= per_part.min(left);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(
        decode: impl FnOnce(&mut dyn FnMut(u64) -> Result<(), TableError>) -> Result<(), TableError>,
    ) -> Result<Vec<u64>, TableError> {
        let mut found = Vec::new();
        decode(&mut |value| {
            found.push(value);
            Ok(())
        })?;
        Ok(found)
    }

    /// The examples of `Encodings.md`.
    #[test]
    fn examples_of_the_specification() {
        // 0 to 7, of 3 bits.
        let packed = [0b1000_1000, 0b1100_0110, 0b1111_1010];
        let runs = [&[3][..], &packed, &[8, 5]].concat();
        let found = all(|put| hybrid(&runs, 3, 11, |value| put(value.into()))).unwrap();
        assert_eq!(found, [0, 1, 2, 3, 4, 5, 6, 7, 5, 5, 5]);
        // 1 to 5: a first value, the smallest difference 1, and four parts of no bits.
        let bytes = [128, 1, 4, 5, 2, 2, 0, 0, 0, 0];
        assert_eq!(all(|put| deltas(&mut &bytes[..], 5, put)).unwrap(), [1, 2, 3, 4, 5]);
        // 7, 5, 3, 1, 2, 3, 4, 5: the smallest difference -2, others above it of 2 bits.
        let mut bytes = vec![128, 1, 4, 8, 14, 3, 2, 0, 0, 0, 0b1100_0000, 0b0011_1111];
        bytes.resize(bytes.len() + 6, 0);
        assert_eq!(all(|put| deltas(&mut &bytes[..], 8, put)).unwrap(), [7, 5, 3, 1, 2, 3, 4, 5]);
    }

    /// Bytes after differences stay unread, and texts are assembled.
    #[test]
    fn texts_by_differences() {
        let page = |encoding| Page { encoding, ..Page::default() };
        let all = |encoding, body: &[u8], count| {
            let mut found = Vec::new();
            let none = Dictionary::default();
            texts(&page(encoding), body, count, &none, |text| {
                found.push(text.to_owned());
                Ok(())
            })
            .map(|()| found)
        };
        // The example of `Encodings.md`: lengths 5, 5, 6, 6 (first 5, the smallest difference 0, then
        // 0, 1, 0 of 1 bit each in parts of 32).
        let lengths = [128, 1, 4, 4, 10, 0, 1, 0, 0, 0, 0b010, 0, 0, 0];
        let body = [&lengths[..], b"HelloWorldFoobarABCDEF"].concat();
        let expected = ["Hello", "World", "Foobar", "ABCDEF"];
        assert_eq!(all(DELTA_LENGTH_BYTE_ARRAY, &body, 4).unwrap(), expected);
        assert!(all(DELTA_LENGTH_BYTE_ARRAY, &body[..body.len() - 1], 4).is_err());
        assert!(all(DELTA_LENGTH_BYTE_ARRAY, &body, 3).is_err());
        // axis, axle, babble, babyhood: 0, 2, 0, 3 bytes of the one before, and 4, 2, 6, 5 new ones.
        let deltas_of = |values: [i64; 4]| {
            // One part of 8 bits a difference.
            let least = -8_i64;
            let mut bytes = vec![128, 1, 4, 4, (values[0] << 1) as u8, 15, 8, 0, 0, 0];
            let steps = values.windows(2).map(|pair| (pair[1] - pair[0] - least) as u8);
            bytes.extend(steps);
            bytes.resize(10 + 32, 0);
            bytes
        };
        let body =
            [&deltas_of([0, 2, 0, 3])[..], &deltas_of([4, 2, 6, 5]), b"axislebabbleyhood"].concat();
        let expected = ["axis", "axle", "babble", "babyhood"];
        assert_eq!(all(DELTA_BYTE_ARRAY, &body, 4).unwrap(), expected);
        let body =
            [&deltas_of([0, 5, 0, 3])[..], &deltas_of([4, 2, 6, 5]), b"axislebabbleyhood"].concat();
        assert!(all(DELTA_BYTE_ARRAY, &body, 4).is_err());
        // Lengths that are negative, or larger than all there is.
        for length in [-1, 63] {
            let body = [&deltas_of([0, length, 0, 0])[..], b"abc"].concat();
            assert!(all(DELTA_LENGTH_BYTE_ARRAY, &body, 4).is_err());
        }
        assert_eq!(all(PLAIN, b"\x02\0\0\0ab\0\0\0\0", 2).unwrap(), ["ab", ""]);
        assert!(all(PLAIN, b"\x02\0\0\0a", 1).is_err());
        assert!(all(PLAIN, b"\x01\0\0\0\xff", 1).is_err());
        assert!(all(RLE_DICTIONARY, &[1, 2, 0], 1).is_err());
    }

    #[test]
    fn numbers_of_any_width() {
        for width in 0..=64 {
            let mask = u64::MAX.checked_shr(64 - width).unwrap_or(0);
            let numbers: Vec<u64> =
                (1..=16_u64).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15) & mask).collect();
            let mut bytes = vec![0_u8; 2 * width as usize];
            for (i, number) in numbers.iter().enumerate() {
                for bit in 0..width as usize {
                    let at = i * width as usize + bit;
                    bytes[at / 8] |= ((number >> bit & 1) as u8) << (at % 8);
                }
            }
            let found: Vec<u64> = (0..16).map(|i| bits(&bytes, i, width)).collect();
            assert_eq!(found, numbers, "{width}");
        }
    }

    #[test]
    fn claims_are_checked_first() {
        // A run of 2^62 numbers ends with the page. Groups of 2^62 numbers are rejected.
        let endless = [254, 255, 255, 255, 255, 255, 255, 255, 127, 1];
        assert_eq!(all(|put| hybrid(&endless, 1, 3, |v| put(v.into()))).unwrap(), [1, 1, 1]);
        let endless = [255, 255, 255, 255, 255, 255, 255, 255, 127, 1];
        assert!(all(|put| hybrid(&endless, 9, 3, |v| put(v.into()))).is_err());
        for bytes in [[0, 0, 5, 2], [128, 1, 3, 2], [1, 1, 5, 2], [128, 1, 0, 2]] {
            assert!(all(|put| deltas(&mut &bytes[..], 5, put)).is_err());
        }
        for codec in 1..8 {
            assert!(decompress(codec, &[1, 2, 3], 1 << 40).is_err(), "{codec}");
            assert!(decompress(codec, &[], 1 << 40).is_err(), "{codec}");
        }
    }
}

//! Structures in the compact protocol of Apache Thrift, as `thrift-compact-protocol.md` specifies it.

/// The problem of a file.
#[derive(Debug, Clone, PartialEq)]
pub struct Bad(pub &'static str);

pub type Result<T> = core::result::Result<T, Bad>;

/// Maximum nesting of structures. Reading recurses, so a file must not choose the depth.
const MAX_DEPTH: u32 = 24;

/// Types of values.
const TRUE: u8 = 1;
const FALSE: u8 = 2;
const BYTE: u8 = 3;
const I16: u8 = 4;
const I32: u8 = 5;
const I64: u8 = 6;
const DOUBLE: u8 = 7;
const BINARY: u8 = 8;
const LIST: u8 = 9;
const SET: u8 = 10;
const MAP: u8 = 11;
const STRUCT: u8 = 12;
const UUID: u8 = 13;

const SHORT: Bad = Bad("it ends in the middle of its description");

/// The fields of structures, one after the other.
pub struct Fields<'a> {
    bytes: &'a [u8],
    /// Type of the next value, until it is read.
    next: Option<u8>,
    depth: u32,
}

impl<'a> Fields<'a> {
    /// Starts at the fields of a structure.
    pub fn of(bytes: &'a [u8]) -> Self {
        // The outermost structure has no header that would say its type.
        Self { bytes, next: Some(STRUCT), depth: 0 }
    }

    /// Returns the bytes after the last value read.
    pub fn rest(&self) -> &'a [u8] {
        self.bytes
    }

    /// Reads a structure. `field` is called with the number of each field, and reads the value or
    /// ignores it.
    pub fn each(&mut self, mut field: impl FnMut(&mut Self, i16) -> Result<()>) -> Result<()> {
        self.expect(&[STRUCT])?;
        self.nest()?;
        let mut number = 0_i16;
        loop {
            let head = self.byte()?;
            if head == 0 {
                self.depth = self.depth.saturating_sub(1);
                return Ok(());
            }
            // The upper half is the distance from the last field. 0 means that the number itself
            // follows.
            let next = match i16::from(head >> 4) {
                0 => i16::try_from(zigzag(self.varint()?)).ok(),
                further => number.checked_add(further),
            };
            number = next.ok_or(Bad("a field has no number"))?;
            self.next = Some(head & 15);
            field(self, number)?;
            // Whatever the callback left unread.
            if let Some(kind) = self.next.take() {
                self.skip(kind)?;
            }
        }
    }

    /// Reads a list of structures. Each of them has at least `least` bytes.
    pub fn list<T>(&mut self, least: u64, item: impl Fn(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        self.expect(&[LIST])?;
        let (kind, count) = self.list_head()?;
        if kind != STRUCT {
            return Err(Bad("a list has items of another type"));
        }
        // Checked before items are allocated, because the count comes from the file.
        if count.saturating_mul(least) > self.bytes.len() as u64 {
            return Err(SHORT);
        }
        let item = |_| {
            self.next = Some(STRUCT);
            item(self)
        };
        (0..count).map(item).collect()
    }

    pub fn integer(&mut self) -> Result<i64> {
        match self.expect(&[BYTE, I16, I32, I64])? {
            BYTE => Ok(i64::from(self.byte()? as i8)),
            _ => self.varint().map(zigzag),
        }
    }

    pub fn small(&mut self) -> Result<i32> {
        i32::try_from(self.integer()?).map_err(|_| Bad("a number is too large"))
    }

    pub fn boolean(&mut self) -> Result<bool> {
        // A boolean field has no bytes: its type is its value.
        Ok(self.expect(&[TRUE, FALSE])? == TRUE)
    }

    pub fn text(&mut self) -> Result<String> {
        self.expect(&[BINARY])?;
        let length = self.varint()?;
        let text = core::str::from_utf8(self.take(length)?);
        text.map(str::to_owned).map_err(|_| Bad("a name is not UTF-8"))
    }

    fn expect(&mut self, kinds: &[u8]) -> Result<u8> {
        let kind = self.next.take().filter(|kind| kinds.contains(kind));
        kind.ok_or(Bad("a field has another type than it must"))
    }

    fn nest(&mut self) -> Result<()> {
        self.depth = self.depth.saturating_add(1);
        if self.depth > MAX_DEPTH { Err(Bad("it is nested too deep")) } else { Ok(()) }
    }

    fn byte(&mut self) -> Result<u8> {
        let (&byte, rest) = self.bytes.split_first().ok_or(SHORT)?;
        self.bytes = rest;
        Ok(byte)
    }

    fn take(&mut self, length: u64) -> Result<&'a [u8]> {
        let length = usize::try_from(length).map_err(|_| SHORT)?;
        let (part, rest) = self.bytes.split_at_checked(length).ok_or(SHORT)?;
        self.bytes = rest;
        Ok(part)
    }

    fn varint(&mut self) -> Result<u64> {
        varint(&mut self.bytes).ok_or(SHORT)
    }

    /// Reads the type and the number of the items of a list or set.
    fn list_head(&mut self) -> Result<(u8, u64)> {
        let head = self.byte()?;
        let count = match head >> 4 {
            // 15 means that the count did not fit into the half byte.
            15 => self.varint()?,
            count => u64::from(count),
        };
        Ok((head & 15, count))
    }

    fn skip(&mut self, kind: u8) -> Result<()> {
        match kind {
            TRUE | FALSE => Ok(()),
            BYTE => self.byte().map(|_| ()),
            I16 | I32 | I64 => self.varint().map(|_| ()),
            DOUBLE => self.take(8).map(|_| ()),
            UUID => self.take(16).map(|_| ()),
            BINARY => {
                let length = self.varint()?;
                self.take(length).map(|_| ())
            }
            LIST | SET => {
                let (kind, count) = self.list_head()?;
                self.skip_items(&[kind], count)
            }
            // An empty map ends here, without a byte for its types.
            MAP => match self.varint()? {
                0 => Ok(()),
                count => {
                    let kinds = self.byte()?;
                    self.skip_items(&[kinds >> 4, kinds & 15], count)
                }
            },
            STRUCT => {
                self.next = Some(STRUCT);
                self.each(|_, _| Ok(()))
            }
            _ => Err(Bad("a field has an unknown type")),
        }
    }

    fn skip_items(&mut self, kinds: &[u8], count: u64) -> Result<()> {
        // Lists of lists recurse, too.
        self.nest()?;
        // Each item has at least one byte, so a false count ends with the file.
        for _ in 0..count {
            for &kind in kinds {
                // In lists and maps a boolean is a byte.
                self.skip(if kind == TRUE || kind == FALSE { BYTE } else { kind })?;
            }
        }
        self.depth = self.depth.saturating_sub(1);
        Ok(())
    }
}

/// Reads a number in groups of seven bits, the lowest first.
pub fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        let bits = u64::from(byte & 127);
        // Bits beyond the 64th are refused, not lost.
        if bits << shift >> shift != bits {
            return None;
        }
        number |= bits << shift;
        if byte < 128 {
            return Some(number);
        }
    }
    None
}

/// Returns the signed number that an unsigned one encodes, in the order `0, -1, 1, -2, …`.
pub fn zigzag(number: u64) -> i64 {
    (number >> 1) as i64 ^ ((number & 1) as i64).wrapping_neg()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_all_lengths() {
        for (bytes, expected) in [
            (&[0][..], Some(0)),
            (&[127], Some(127)),
            (&[0xac, 2], Some(300)),
            (&[255, 255, 255, 255, 255, 255, 255, 255, 255, 1], Some(u64::MAX)),
            (&[255, 255, 255, 255, 255, 255, 255, 255, 255, 2], None),
            (&[128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 0], None),
            (&[128], None),
            (&[], None),
        ] {
            assert_eq!(varint(&mut &bytes[..]), expected, "{bytes:?}");
        }
        let all = [(0, 0), (1, -1), (2, 1), (u64::MAX, i64::MIN), (u64::MAX - 1, i64::MAX)];
        assert!(all.iter().all(|&(number, expected)| zigzag(number) == expected));
    }

    #[test]
    fn unread_fields_are_passed_over() {
        // Field 1: a list of three truth values; 2: a map of one byte to a structure with a text; 3:
        // a double; 20: the number -2.
        let bytes = [
            0x19, 0x31, 1, 2, 1, 0x1b, 1, 0x3c, 7, 0x18, 2, b'h', b'i', 0, 0x17, 0, 0, 0, 0, 0, 0,
            0, 0, 0x05, 40, 3, 0, 9,
        ];
        let mut fields = Fields::of(&bytes);
        let mut seen = Vec::new();
        let read = fields.each(|fields, number| {
            seen.push((number, if number == 20 { fields.integer()? } else { 0 }));
            Ok(())
        });
        assert_eq!((read, seen), (Ok(()), vec![(1, 0), (2, 0), (3, 0), (20, -2)]));
        assert_eq!(fields.rest(), [9]);
        for deep in [[0x1c; 1000], [0x19; 1000]] {
            assert!(Fields::of(&deep).each(|_, _| Ok(())).is_err());
        }
        // A list of 2^42 structures.
        let long = [0x19, 0xfc, 128, 128, 128, 128, 128, 128, 1, 0, 0];
        let list = |fields: &mut Fields<'_>| fields.list(1, |fields| fields.each(|_, _| Ok(())));
        let read = Fields::of(&long).each(|fields, _| list(fields).map(|_| ()));
        assert_eq!(read, Err(SHORT));
    }
}

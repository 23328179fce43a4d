//! Detection of durations. Parquet stores them as integers. Only the schema of Arrow, which writers
//! store next to the schema of Parquet, distinguishes them.
//!
//! Reference: `Message.fbs` and `Schema.fbs` of Apache Arrow, and the binary format of FlatBuffers.

/// The key under which writers store the schema, in base64.
pub(super) const KEY: &str = "ARROW:schema";

/// The type of a duration in the union `Type`.
const DURATION: u8 = 18;

/// The header of a message that contains a schema.
const SCHEMA: u8 = 1;

/// Returns the names of the columns that are durations, empty if the text is not a schema.
pub(super) fn durations(text: &str) -> Vec<String> {
    base64(text).and_then(|bytes| of_message(&bytes)).unwrap_or_default()
}

fn of_message(bytes: &[u8]) -> Option<Vec<String>> {
    let (first, rest) = bytes.split_first_chunk::<4>()?;
    // The length of the message follows. Except in old files, a mark precedes it.
    let message = if *first == [0xff; 4] { rest.get(4..)? } else { rest };
    let root = Node { bytes: message, at: 0 }.target()?;
    // Fields of `Message`: 1 is the type of its header, 2 the header. Field 1 of `Schema` is the
    // list of its fields.
    if root.field(1)?.byte()? != SCHEMA {
        return None;
    }
    let fields = root.field(2)?.target()?.field(1)?.target()?;
    let mut names = Vec::new();
    // A false count ends at the end of the buffer.
    for place in 0..fields.number()? {
        // The offsets of the items follow their count.
        let offset = place.checked_mul(4)?.checked_add(4)?;
        let field = fields.moved(offset)?.target()?;
        if field.field(2).and_then(Node::byte) == Some(DURATION) {
            names.push(field.field(0)?.target()?.text()?);
        }
    }
    Some(names)
}

/// A place in a buffer.
#[derive(Clone, Copy)]
struct Node<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Node<'a> {
    fn part<const N: usize>(self) -> Option<[u8; N]> {
        self.bytes.get(self.at..)?.first_chunk().copied()
    }

    fn byte(self) -> Option<u8> {
        self.part().map(|[byte]| byte)
    }

    fn short(self) -> Option<u16> {
        self.part().map(u16::from_le_bytes)
    }

    fn number(self) -> Option<u32> {
        self.part().map(u32::from_le_bytes)
    }

    fn moved(self, by: u32) -> Option<Self> {
        let at = self.at.checked_add(usize::try_from(by).ok()?)?;
        Some(Self { at, ..self })
    }

    /// Returns the target of the offset at this node.
    fn target(self) -> Option<Self> {
        self.moved(self.number()?)
    }

    /// Returns a field of the table at this node, if it has the field.
    fn field(self, place: u16) -> Option<Self> {
        // The first word of a table is the distance back to the offsets of its fields.
        let back = self.part().map(i32::from_le_bytes)?;
        let at = self.at.checked_add_signed(isize::try_from(back.checked_neg()?).ok()?)?;
        let offsets = Self { at, ..self };
        // The offsets follow two sizes of two bytes: of themselves, and of the table.
        let at = place.checked_mul(2)?.checked_add(4)?;
        if at.checked_add(2)? > offsets.short()? {
            return None;
        }
        let offset = offsets.moved(at.into())?.short()?;
        // An offset of 0 means that the field is absent.
        (offset > 0).then(|| self.moved(offset.into())).flatten()
    }

    /// Returns the text at this node, which follows its length.
    fn text(self) -> Option<String> {
        let length = usize::try_from(self.number()?).ok()?;
        let text: &'a [u8] = self.bytes.get(self.at..)?.get(4..)?.get(..length)?;
        String::from_utf8(text.to_vec()).ok()
    }
}

/// Decodes a text in base64.
fn base64(text: &str) -> Option<Vec<u8>> {
    let value = |letter: u8| {
        let value = match letter {
            b'A'..=b'Z' => letter.checked_sub(b'A'),
            b'a'..=b'z' => letter.checked_sub(b'a')?.checked_add(26),
            b'0'..=b'9' => letter.checked_sub(b'0')?.checked_add(52),
            b'+' => Some(62),
            b'/' => Some(63),
            _ => None,
        };
        value.map(u32::from)
    };
    let mut bytes = Vec::new();
    for letters in text.trim_end_matches('=').as_bytes().chunks(4) {
        let bits = (0..4).try_fold(0, |bits: u32, place| {
            let value = letters.get(place).map_or(Some(0), |&letter| value(letter));
            Some(bits << 6 | value?)
        });
        // A group of `n` characters decodes to `n - 1` bytes. They follow the first of the four
        // bytes of `bits`, which is 0.
        bytes.extend(bits?.to_be_bytes().get(1..letters.len())?);
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_that_of_rfc_4648() {
        for (text, bytes) in
            [("", ""), ("Zg==", "f"), ("Zm8=", "fo"), ("Zm9v", "foo"), ("Zm9vYmFy", "foobar")]
        {
            assert_eq!(base64(text).unwrap(), bytes.as_bytes());
        }
        assert_eq!(base64("Z-=="), None);
    }

    /// A schema as `pyarrow.schema([("n", int64()), ("t", duration("s"))])` has it.
    const ONE: &str = include_str!("arrow-schema.txt");

    #[test]
    fn durations_are_named_and_damaged_schemas_are_none() {
        assert_eq!(durations(ONE.trim()), ["t"]);
        assert!(durations("").is_empty() && durations("no schema").is_empty());
        let bytes = base64(ONE.trim()).unwrap();
        for end in 0..bytes.len() {
            // Every cut must end in an error or a shorter result, never in a panic or in invented
            // data.
            let found = of_message(&bytes[..end]);
            assert!(found.is_none_or(|names| names.is_empty() || names == ["t"]));
        }
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0xff;
            let _ = of_message(&damaged);
        }
    }
}

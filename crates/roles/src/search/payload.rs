//! Payloads of records, as bytes that a search adds up.

use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr};

/// Maximum bits of an integer.
// `pack` shifts a word by this number of bits, and 64 would overflow.
const MAX_BITS: u32 = 63;
/// Maximum numbers, or bytes, in a record. A plan has the same limit.
const MAX_BYTES: usize = 1 << 10;

/// The kind of payload of each record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "lowercase")]
pub enum Payload {
    /// No payload. Answers name the rows that match.
    Rows,
    /// Nonnegative integers.
    Integers {
        /// Number of integers in a record, 1 to 1024.
        columns: usize,
        /// Bits of each integer, 1 to 63.
        bits: u32,
    },
    /// Bytes that do not end with 0, as in NumPy arrays of type `S`.
    Bytes {
        /// Maximum bytes of a record, 1 to 1024.
        most: usize,
    },
}

/// The payload of one record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Value {
    /// A record of [`Payload::Rows`].
    Nothing,
    /// A record of [`Payload::Integers`].
    Integers(Vec<u64>),
    /// A record of [`Payload::Bytes`].
    Bytes(Vec<u8>),
}

impl Payload {
    /// Returns the payload if it is within the limits.
    ///
    /// # Errors
    /// [`Error::Usage`].
    pub fn checked(self) -> Result<Self> {
        let possible = match self {
            Self::Rows => true,
            Self::Integers { columns, bits } => {
                (1..=MAX_BYTES).contains(&columns)
                    && (1..=MAX_BITS).contains(&bits)
                    // Narrow integers in many columns fit their own limits and still exceed the
                    // bytes of a plan.
                    && self.bytes() <= MAX_BYTES
            }
            Self::Bytes { most } => (1..=MAX_BYTES).contains(&most),
        };
        match possible {
            true => Ok(self),
            false => Err(Error::Usage(format!(
                "no record can carry {self}: the maximum is {MAX_BYTES} bytes, and whole numbers have 1 \
                 to {MAX_BITS} bits"
            ))),
        }
    }

    /// Returns the bytes of a record.
    #[must_use]
    pub fn bytes(self) -> usize {
        match self {
            Self::Rows => 0,
            Self::Integers { columns, bits } => columns.saturating_mul(bits as usize).div_ceil(8),
            Self::Bytes { most } => most,
        }
    }

    /// Packs the payload of row `row` into bytes.
    ///
    /// # Errors
    /// [`Error::Usage`] for a value of another kind, or one that is too large.
    pub fn pack(self, row: usize, value: &Value) -> Result<Vec<u8>> {
        let refused = |found: String| {
            Err(Error::Usage(format!("row {row} carries {found}, but the plan is for {self}")))
        };
        let mut bytes = vec![0; self.bytes()];
        match (self, value) {
            (Self::Rows, Value::Nothing) => {}
            (Self::Integers { columns, bits }, Value::Integers(numbers)) => {
                if numbers.len() != columns {
                    return refused(format!("{} numbers", numbers.len()));
                }
                for (i, &number) in numbers.iter().enumerate() {
                    if number >> bits > 0 {
                        return refused(format!("the number {number}"));
                    }
                    for bit in (0..bits as usize).filter(|bit| number >> bit & 1 == 1) {
                        let at = i * bits as usize + bit;
                        bytes[at / 8] |= 1 << (at % 8);
                    }
                }
            }
            (Self::Bytes { most }, Value::Bytes(text)) => {
                if text.len() > most {
                    return refused(format!("{} bytes", text.len()));
                }
                // Padding is made of zeros, so zeros at the end of a text would be lost.
                if text.last() == Some(&0) {
                    return refused("bytes that end with 0".into());
                }
                bytes[..text.len()].copy_from_slice(text);
            }
            (_, Value::Nothing) => return refused("nothing".into()),
            (_, Value::Integers(numbers)) => return refused(format!("{} numbers", numbers.len())),
            (_, Value::Bytes(text)) => return refused(format!("{} bytes", text.len())),
        }
        Ok(bytes)
    }

    /// Unpacks bytes from [`Payload::pack`]. Missing bytes count as 0.
    #[must_use]
    pub fn unpack(self, bytes: &[u8]) -> Value {
        let bit = |at: usize| u64::from(bytes.get(at / 8).is_some_and(|b| b >> (at % 8) & 1 == 1));
        match self {
            Self::Rows => Value::Nothing,
            Self::Integers { columns, bits } => {
                let bits = bits as usize;
                let number = |i: usize| (0..bits).map(|b| bit(i * bits + b) << b).sum();
                Value::Integers((0..columns).map(number).collect())
            }
            Self::Bytes { .. } => {
                let end = bytes.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
                Value::Bytes(bytes[..end].to_vec())
            }
        }
    }
}

impl fmt::Display for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rows => write!(f, "rows"),
            Self::Integers { columns, bits } => write!(f, "integers:{columns}x{bits}"),
            Self::Bytes { most } => write!(f, "bytes:{most}"),
        }
    }
}

impl FromStr for Payload {
    type Err = String;

    /// Parses the form that `Display` writes.
    fn from_str(text: &str) -> core::result::Result<Self, String> {
        let help = "write rows, integers:COLUMNSxBITS such as integers:1x32, or bytes:MAXIMUM";
        let payload = match text.split_once(':') {
            None if text == "rows" => Some(Self::Rows),
            Some(("integers", shape)) => shape.split_once('x').and_then(|(columns, bits)| {
                Some(Self::Integers { columns: columns.parse().ok()?, bits: bits.parse().ok()? })
            }),
            Some(("bytes", most)) => most.parse().ok().map(|most| Self::Bytes { most }),
            _ => None,
        };
        payload.ok_or(help)?.checked().map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_values_survive_a_round_trip() {
        let numbers = Payload::Integers { columns: 7, bits: 9 };
        assert_eq!(numbers.bytes(), 8);
        for value in [[0; 7], [511; 7], [1, 2, 4, 8, 16, 256, 300]] {
            let value = Value::Integers(value.to_vec());
            assert_eq!(numbers.unpack(&numbers.pack(0, &value).unwrap()), value);
        }
        // The first number is in the lowest bits.
        let value = Value::Integers(vec![3, 0, 0, 0, 0, 0, 1]);
        assert_eq!(numbers.pack(0, &value).unwrap(), (3_u64 + (1 << 54)).to_le_bytes());
        let wide = Payload::Integers { columns: 1, bits: 63 };
        let value = Value::Integers(vec![(1 << 63) - 1]);
        assert_eq!(wide.unpack(&wide.pack(0, &value).unwrap()), value);
        let text = Payload::Bytes { most: 5 };
        for value in [&b""[..], b"a", b"\0a", b"abcde"] {
            let value = Value::Bytes(value.to_vec());
            assert_eq!(text.unpack(&text.pack(0, &value).unwrap()), value);
        }
        assert_eq!(Payload::Rows.unpack(&[]), Value::Nothing);
    }

    #[test]
    fn oversized_cells_are_refused_with_their_row() {
        let numbers = Payload::Integers { columns: 2, bits: 9 };
        for (payload, value) in [
            (numbers, Value::Integers(vec![512, 0])),
            (numbers, Value::Integers(vec![1])),
            (numbers, Value::Nothing),
            (Payload::Bytes { most: 2 }, Value::Bytes(b"abc".to_vec())),
            (Payload::Bytes { most: 2 }, Value::Bytes(vec![1, 0])),
            (Payload::Rows, Value::Bytes(vec![1])),
        ] {
            let refused = payload.pack(12, &value).unwrap_err().to_string();
            assert!(refused.contains("row 12") && refused.contains(&payload.to_string()));
        }
    }

    #[test]
    fn payloads_are_read_as_they_are_written() {
        for text in ["rows", "integers:7x9", "bytes:32"] {
            assert_eq!(text.parse::<Payload>().unwrap().to_string(), text);
        }
        for bad in ["", "rows:1", "integers:0x9", "integers:1x64", "bytes:1025", "bytes:0", "x"] {
            assert!(bad.parse::<Payload>().is_err(), "{bad}");
        }
        assert!("integers:1024x9".parse::<Payload>().unwrap_err().contains("1024 bytes"));
    }
}

//! Bytes as lower-case hexadecimal digits, as keys, tokens and signatures are written.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

/// Appends two digits for each byte.
pub fn push(text: &mut String, bytes: &[u8]) {
    let digits = bytes.iter().flat_map(|&byte| [byte >> 4, byte & 15]);
    text.extend(digits.filter_map(|digit| char::from_digit(digit.into(), 16)));
}

/// Two digits for each byte.
#[must_use]
pub fn text(bytes: &[u8]) -> String {
    let mut text = String::new();
    push(&mut text, bytes);
    text
}

/// Reads digits, exactly as many as `bytes` has room for; capital letters are none.
#[must_use]
pub fn read(text: &str, bytes: &mut [u8]) -> Option<()> {
    if text.len().checked_div(2) != Some(bytes.len()) || !text.len().is_multiple_of(2) {
        return None;
    }
    let digit = |c: u8| match c {
        b'0'..=b'9' => c.checked_sub(b'0'),
        b'a'..=b'f' => c.checked_sub(b'a' - 10),
        _ => None,
    };
    for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
        let &[high, low] = pair else { return None };
        *byte = digit(high)? << 4 | digit(low)?;
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_read_as_they_are_written() {
        let bytes: Vec<u8> = (0..=255).collect();
        let written = text(&bytes);
        assert_eq!((&written[..6], &written[506..]), ("000102", "fdfeff"));
        let mut read_back = [0; 256];
        read(&written, &mut read_back).unwrap();
        assert_eq!(read_back[..], bytes);
        for bad in ["", "0", "000", "0g", "0A", "é", " 0", "0:", "0`"] {
            assert_eq!(read(bad, &mut [0; 1]), None, "{bad}");
        }
    }
}

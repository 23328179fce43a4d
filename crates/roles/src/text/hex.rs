//! Lower-case hexadecimal digits, as keys, tokens and signatures are written.

use data_encoding::HEXLOWER;

/// Decodes exactly the digits that `bytes` has room for. Upper-case digits are invalid.
#[must_use]
pub fn read(text: &str, bytes: &mut [u8]) -> Option<()> {
    // `decode_mut` panics for any other length.
    if HEXLOWER.decode_len(text.len()) != Ok(bytes.len()) {
        return None;
    }
    HEXLOWER.decode_mut(text.as_bytes(), bytes).ok().map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_read_as_they_are_written() {
        let bytes: Vec<u8> = (0..=255).collect();
        let written = HEXLOWER.encode(&bytes);
        assert_eq!((&written[..6], &written[506..]), ("000102", "fdfeff"));
        let mut read_back = [0; 256];
        read(&written, &mut read_back).unwrap();
        assert_eq!(read_back[..], bytes);
        for bad in ["", "0", "000", "0g", "0A", "é", " 0", "0:", "0`"] {
            assert_eq!(read(bad, &mut [0; 1]), None, "{bad}");
        }
    }
}

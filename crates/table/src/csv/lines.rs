//! Line ends.

use std::io::{self, Read};

/// Converts CRLF and CR line ends to LF and ends the last line, so that line counts are exact.
/// `csv` counts LF bytes, and leaves the LF of a CRLF to the next record.
pub(super) struct UnixLines<R> {
    inner: R,
    /// Last byte read from `inner`.
    last: u8,
    finished: bool,
}

impl<R: Read> UnixLines<R> {
    pub(super) fn new(inner: R) -> Self {
        // As if a line had just ended: an empty file gets no line end.
        Self { inner, last: b'\n', finished: false }
    }
}

impl<R> UnixLines<R> {
    /// Converts line ends in a buffer that continues the previous one. Returns the number of
    /// remaining bytes, which are moved to the front.
    #[expect(
        clippy::indexing_slicing,
        clippy::arithmetic_side_effects,
        reason = "at most the bytes read are written; this runs for each byte of a table"
    )]
    fn joined(&mut self, bytes: &mut [u8]) -> usize {
        let mut written = 0;
        for at in 0..bytes.len() {
            let byte = bytes[at];
            let joined = byte == b'\n' && self.last == b'\r';
            self.last = byte;
            if !joined {
                bytes[written] = if byte == b'\r' { b'\n' } else { byte };
                written += 1;
            }
        }
        written
    }
}

impl<R: Read> Read for UnixLines<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() || self.finished {
            return Ok(0);
        }
        loop {
            let count = self.inner.read(buffer)?;
            if count == 0 {
                // Set first: after the added line end nothing is read.
                self.finished = true;
                if matches!(self.last, b'\n' | b'\r') {
                    return Ok(0);
                }
                if let Some(byte) = buffer.first_mut() {
                    *byte = b'\n';
                }
                return Ok(1);
            }
            let written = self.joined(buffer.get_mut(..count).unwrap_or_default());
            // A lone LF after CR leaves no bytes, but 0 would mean the end of the file.
            if written > 0 {
                return Ok(written);
            }
        }
    }
}

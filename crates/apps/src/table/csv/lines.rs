//! Line ends.

use std::io::{self, Read};

/// Turns CRLF and CR line ends into LF and ends the last line, so that line counts are exact:
/// `csv` counts LF bytes, and leaves the LF of a CRLF to the next record.
pub(super) struct UnixLines<R> {
    inner: R,
    /// Last byte read from `inner`.
    last: u8,
    finished: bool,
}

impl<R: Read> UnixLines<R> {
    pub(super) fn new(inner: R) -> Self {
        Self { inner, last: b'\n', finished: false }
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
                self.finished = true;
                if matches!(self.last, b'\n' | b'\r') {
                    return Ok(0);
                }
                buffer[0] = b'\n';
                return Ok(1);
            }
            let mut written = 0;
            for at in 0..count {
                let byte = buffer[at];
                let joined = byte == b'\n' && self.last == b'\r';
                self.last = byte;
                if !joined {
                    buffer[written] = if byte == b'\r' { b'\n' } else { byte };
                    written += 1;
                }
            }
            if written > 0 {
                return Ok(written);
            }
        }
    }
}

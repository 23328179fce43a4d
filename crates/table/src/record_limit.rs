//! Rows that end.

use std::io::{self, Read};

/// A row of a table has at most so many bytes.
pub const MAX_RECORD_BYTES: u64 = 64 << 20;

/// Refuses to read on once a row has more than [`MAX_RECORD_BYTES`]: a file without line ends, or with
/// an open quote, would otherwise be held in memory whole. Counts what was read ahead, too.
pub struct RecordLimit<R> {
    inner: R,
    left: u64,
}

impl<R> RecordLimit<R> {
    /// Reads rows from `inner`.
    pub fn new(inner: R) -> Self {
        Self { inner, left: MAX_RECORD_BYTES }
    }

    /// Says that the next row begins.
    pub fn begin(&mut self) {
        self.left = MAX_RECORD_BYTES;
    }
}

impl<R: Read> Read for RecordLimit<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        let Some(left) = self.left.checked_sub(count as u64) else {
            return Err(io::Error::new(
                io::ErrorKind::FileTooLarge,
                format!(
                    "it has more than {} MiB, which no row of a table has: end each row by a line \
                     end, and close all quotes",
                    MAX_RECORD_BYTES >> 20
                ),
            ));
        };
        self.left = left;
        Ok(count)
    }
}

//! A limit on the length of rows.

use std::io::{self, Read};

/// Maximum length of a row of a table, in bytes.
pub const MAX_RECORD_BYTES: u64 = 64 << 20;

/// Stops reading when a row exceeds [`MAX_RECORD_BYTES`]. Otherwise a file without line ends, or
/// with an open quote, would be held in memory as a whole. Bytes read ahead count, too.
pub struct RecordLimit<R> {
    inner: R,
    left: u64,
}

impl<R> RecordLimit<R> {
    /// Creates a limit for rows from `inner`.
    pub fn new(inner: R) -> Self {
        Self { inner, left: MAX_RECORD_BYTES }
    }

    /// Marks the start of the next row.
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

//! Reading of frames and tables from files.

use std::{
    fs::{self, File},
    io::{self, Read, Seek},
    path::Path,
};

#[cfg(feature = "parquet")]
use super::parquet;
use super::{Frame, ReadOptions, TableError, csv, error::read_error, frame::Rules};

impl Frame {
    /// Reads a file: Parquet if its name ends in `.parquet`, and otherwise text with a delimiter
    /// between cells, whose first line names the columns.
    ///
    /// In text files, blanks around a cell and a byte order mark are ignored, cells may be quoted,
    /// and line ends may be LF, CRLF or CR. A column is text if any of its cells is neither a
    /// number nor missing. It then keeps all cells as they are written.
    ///
    /// Columns of a Parquet file are integers, floating-point numbers, booleans (0 and 1) or UTF-8
    /// text, without nesting. The file may be uncompressed or compressed with Snappy, gzip,
    /// Zstandard or LZ4.
    ///
    /// Integers beyond 2^53 are rounded to double precision. In labels and categories they stay
    /// text in a CSV file, and are rejected if they are stored as numbers.
    ///
    /// # Errors
    /// [`TableError`] names the line or row and the column of a fault. Text and missing values that
    /// `options` do not allow are faults, and so are infinite numbers.
    pub fn read(path: impl AsRef<Path>, options: &ReadOptions) -> Result<Self, TableError> {
        let path = path.as_ref();
        let (file, name) = open(path)?;
        let options = Rules { options, binary: false };
        if path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("parquet")) {
            #[cfg(feature = "parquet")]
            return parquet::read(file, &name, options);
            #[cfg(not(feature = "parquet"))]
            return Err(TableError::Parquet {
                problem: "this program was built without the feature for it".to_owned(),
            });
        }
        csv::read(file, Seek::rewind, &name, options)
    }

    /// Reads text as [`Frame::read`] does, from its beginning. The text is read more than once if a
    /// column turns out to be text.
    ///
    /// # Errors
    /// The errors of [`Frame::read`].
    pub fn from_csv(
        mut reader: impl Read + Seek,
        options: &ReadOptions,
    ) -> Result<Self, TableError> {
        reader.rewind().map_err(|error| read_error("the table", &error))?;
        csv::read(reader, Seek::rewind, "the table", Rules { options, binary: false })
    }

    /// Reads a Parquet file as [`Frame::read`] does, from its beginning.
    ///
    /// # Errors
    /// The errors of [`Frame::read`].
    #[cfg(feature = "parquet")]
    pub fn from_parquet(
        reader: impl Read + Seek,
        options: &ReadOptions,
    ) -> Result<Self, TableError> {
        parquet::read(reader, "the table", Rules { options, binary: false })
    }
}

/// Opens the file of a table. Returns it with its name for messages.
pub(super) fn open(path: &Path) -> Result<(File, String), TableError> {
    let name = path.display().to_string();
    let failed = |error| read_error(&name, &error);
    // A pipe may never end, and its content is not bounded by a size.
    // Asked before opening, which would wait for the other end of a pipe.
    if !fs::metadata(path).map_err(failed)?.is_file() {
        let problem = "it is not a regular file, save the table as one";
        return Err(failed(io::Error::new(io::ErrorKind::InvalidInput, problem)));
    }
    let file = File::open(path).map_err(failed)?;
    Ok((file, name))
}

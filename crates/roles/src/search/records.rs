//! Sources of records, block by block and in order.

use super::{
    npy::Npy,
    payload::{Payload, Value},
};
use crate::{
    error::{Error, Result},
    os::files::{self, Access},
};
use std::{
    fs::File,
    io::{BufRead, BufReader, Read},
    path::{Path, PathBuf},
};
use sudare_table::RecordLimit;

/// Maximum length of a line in a text file of payloads, in bytes.
// A payload has at most a kibibyte. A longer line is a file of another kind.
const MAX_LINE: u64 = 1 << 16;

/// Consecutive records.
#[derive(Debug, Clone, Default)]
pub struct Batch {
    /// The vectors, one after the other.
    pub vectors: Vec<f64>,
    /// The payload of each record, from [`Payload::pack`].
    pub payloads: Vec<Vec<u8>>,
}

/// A source of records, in order.
pub trait Records {
    /// Reads the next `most` records. Returns fewer only at the end.
    ///
    /// # Errors
    /// Any error from reading.
    fn next(&mut self, most: usize) -> Result<Batch>;
}

/// Records from files: vectors from a NumPy array or a CSV file, and payloads.
pub struct FileRecords {
    vectors: VectorFile,
    payloads: Option<PayloadFile>,
    dimension: usize,
    payload: Payload,
    /// Number of records read.
    row: usize,
}

impl FileRecords {
    /// Opens the files of vectors with `dimension` coordinates and of their payloads.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::Parse`] for any other file; [`Error::Usage`] if payloads are
    /// missing, or given but not planned.
    pub fn open(
        vectors: &Path,
        dimension: usize,
        payloads: Option<&Path>,
        payload: Payload,
    ) -> Result<Self> {
        let payloads = match (payloads, payload) {
            (None, Payload::Rows) => None,
            (Some(path), Payload::Integers { .. } | Payload::Bytes { .. }) => {
                Some(PayloadFile::open(path, payload)?)
            }
            (None, _) => {
                return Err(Error::Usage(format!(
                    "the plan is for payloads of {payload}, but none are given: name their file"
                )));
            }
            (Some(path), Payload::Rows) => {
                return Err(Error::Usage(format!(
                    "the plan has no payloads, but {} is given: leave it out, or plan for payloads",
                    path.display()
                )));
            }
        };
        let vectors = VectorFile::open(vectors, dimension)?;
        Ok(Self { vectors, payloads, dimension, payload, row: 0 })
    }
}

impl Records for FileRecords {
    fn next(&mut self, most: usize) -> Result<Batch> {
        let vectors = self.vectors.next(most, self.dimension)?;
        let count = vectors.len() / self.dimension;
        let values = match &mut self.payloads {
            None => vec![Value::Nothing; count],
            Some(file) => file.next(count, count < most)?,
        };
        let packed = values.iter().enumerate();
        let payloads = packed.map(|(i, value)| self.payload.pack(self.row + i, value));
        let batch = Batch { vectors, payloads: payloads.collect::<Result<_>>()? };
        self.row += count;
        Ok(batch)
    }
}

/// Reads the only vector of a file. It must have `dimension` coordinates.
///
/// # Errors
/// [`Error::Io`]; [`Error::Parse`].
pub fn read_vector(path: &Path, dimension: usize) -> Result<Vec<f64>> {
    if let Some((npy, _)) = open_npy(path)? {
        let mut npy = npy;
        // One row, or a one-dimensional array.
        if npy.shape() == (dimension, 1) {
            return npy.floats(dimension).map_err(parse(path, NPY));
        }
    }
    // Two, so that a second row is noticed.
    let vectors = VectorFile::open(path, dimension)?.next(2, dimension)?;
    if vectors.len() != dimension {
        let found = vectors.len() / dimension;
        let problem = format!("it has {found} rows or more, but a query is one vector");
        return Err(parse(path, VECTORS)(problem));
    }
    Ok(vectors)
}

const NPY: &str = "NumPy array, which is needed here";
const VECTORS: &str = "file of vectors of this plan";
const PAYLOADS: &str = "file of payloads of this plan";

fn parse<'a>(path: &'a Path, what: &'static str) -> impl Fn(String) -> Error + 'a {
    move |problem| Error::Parse { path: path.into(), what, problem }
}

/// Opens a file if it is a NumPy array, and returns its size too.
fn open_npy(path: &Path) -> Result<Option<(Npy<BufReader<File>>, u64)>> {
    let (mut file, bytes) = files::open(path, Access::Shared)?;
    let start = file.fill_buf().map_err(|error| Error::io("read", path, error))?;
    if !start.starts_with(b"\x93NUMPY") {
        return Ok(None);
    }
    Ok(Some((Npy::new(file, bytes).map_err(parse(path, NPY))?, bytes)))
}

/// A file of vectors.
enum VectorFile {
    Npy { path: PathBuf, array: Npy<BufReader<File>>, left: usize },
    Csv { path: PathBuf, reader: Box<csv::Reader<RecordLimit<BufReader<File>>>>, begun: bool },
}

impl VectorFile {
    fn open(path: &Path, dimension: usize) -> Result<Self> {
        if let Some((array, _)) = open_npy(path)? {
            let (rows, columns) = array.shape();
            if columns != dimension {
                let problem = format!(
                    "it has {columns} coordinates, but the plan is for \
                                       {dimension}"
                );
                return Err(parse(path, VECTORS)(problem));
            }
            return Ok(Self::Npy { path: path.into(), array, left: rows });
        }
        let (file, _) = files::open(path, Access::Shared)?;
        let reader = csv::ReaderBuilder::new()
            .has_headers(false)
            .flexible(true)
            .trim(csv::Trim::All)
            // A line without an end must not fill the memory.
            .from_reader(RecordLimit::new(file));
        Ok(Self::Csv { path: path.into(), reader: Box::new(reader), begun: false })
    }

    /// Reads the next `most` vectors. Returns fewer at the end.
    fn next(&mut self, most: usize, dimension: usize) -> Result<Vec<f64>> {
        match self {
            Self::Npy { path, array, left } => {
                let count = most.min(*left);
                *left -= count;
                array.floats(count * dimension).map_err(parse(path, VECTORS))
            }
            Self::Csv { path, reader, begun } => {
                let mut vectors = Vec::new();
                let mut record = csv::StringRecord::new();
                while vectors.len() < most * dimension {
                    let refused = |error: csv::Error| parse(path, VECTORS)(error.to_string());
                    reader.get_mut().begin();
                    if !reader.read_record(&mut record).map_err(refused)? {
                        break;
                    }
                    let line = record.position().map_or(0, csv::Position::line);
                    let numbers: Vec<Option<f64>> =
                        record.iter().map(|cell| cell.parse().ok()).collect();
                    // Skip column names.
                    let head = !core::mem::replace(begun, true);
                    if head && numbers.iter().all(Option::is_none) {
                        continue;
                    }
                    // A row of such numbers is also a possible vector, so it is refused and not
                    // skipped.
                    if head && counts_columns(&record) {
                        let problem = "its first line counts columns from 0, as pandas does for \
                                       columns without names: write it without a header, or, if it \
                                       is a vector, with exponents, such as 0e0";
                        return Err(parse(path, VECTORS)(problem.into()));
                    }
                    if numbers.len() != dimension {
                        let found = numbers.len();
                        let problem = format!(
                            "line {line} has {found} coordinates, but the plan is for {dimension}"
                        );
                        return Err(parse(path, VECTORS)(problem));
                    }
                    for (number, cell) in numbers.into_iter().zip(&record) {
                        let no_number = || {
                            let cell: String = cell.chars().take(40).collect();
                            parse(path, VECTORS)(format!(
                                "line {line} has {cell:?}, which is not a \
                                                          number"
                            ))
                        };
                        vectors.push(number.ok_or_else(no_number)?);
                    }
                }
                Ok(vectors)
            }
        }
    }
}

/// Returns whether the cells of a line are 0, 1, 2 and so on, or 0.0, 1.0, 2.0. Exponents tell that
/// a line is a vector.
fn counts_columns(record: &csv::StringRecord) -> bool {
    let counts = |(number, cell): (usize, &str)| {
        cell.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
            && cell.parse() == Ok(number as f64)
    };
    record.iter().enumerate().all(counts)
}

/// A file of payloads.
enum PayloadFile {
    Npy {
        path: PathBuf,
        array: Npy<BufReader<File>>,
        payload: Payload,
        left: usize,
    },
    /// A line for each record: its text, or its integers between commas.
    Lines {
        path: PathBuf,
        lines: BufReader<File>,
        payload: Payload,
    },
}

impl PayloadFile {
    fn open(path: &Path, payload: Payload) -> Result<Self> {
        let Some((array, _)) = open_npy(path)? else {
            let (lines, _) = files::open(path, Access::Shared)?;
            return Ok(Self::Lines { path: path.into(), lines, payload });
        };
        let (rows, found) = array.shape();
        let needed = if let Payload::Integers { columns, .. } = payload { columns } else { 1 };
        if found != needed {
            let problem = format!("it has {found} columns, but the plan is for {payload}");
            return Err(parse(path, PAYLOADS)(problem));
        }
        Ok(Self::Npy { path: path.into(), array, payload, left: rows })
    }

    /// Reads the payloads of the next `count` records. `last` means that no records follow.
    fn next(&mut self, count: usize, last: bool) -> Result<Vec<Value>> {
        match self {
            Self::Npy { path, array, payload, left } => {
                let refused = parse(path, PAYLOADS);
                // At the end the counts must agree. Too many payloads mean that the files do not
                // belong together.
                if *left < count || (last && *left > count) {
                    return Err(refused(
                        "its number of rows differs from the number of vectors".into(),
                    ));
                }
                *left -= count;
                Ok(match *payload {
                    Payload::Integers { columns, .. } => {
                        let numbers = array.integers(count * columns).map_err(refused)?;
                        numbers.chunks(columns).map(|row| Value::Integers(row.into())).collect()
                    }
                    _ => {
                        let all = array.bytes(count).map_err(refused)?;
                        all.into_iter().map(Value::Bytes).collect()
                    }
                })
            }
            Self::Lines { path, lines, payload } => {
                let refused = parse(path, PAYLOADS);
                let values = (0..count).map(|_| {
                    let line = next_line(lines).map_err(&refused)?;
                    let needed = || refused("it has fewer lines than there are vectors".into());
                    let line = line.ok_or_else(needed)?;
                    let Payload::Integers { .. } = payload else { return Ok(Value::Bytes(line)) };
                    let text = String::from_utf8_lossy(&line);
                    let numbers = text.split(',').map(|cell| cell.trim().parse().ok());
                    let numbers: Option<Vec<u64>> = numbers.collect();
                    let cell: String = text.chars().take(40).collect();
                    let none = || refused(format!("{cell:?} is not a list of whole numbers"));
                    numbers.map(Value::Integers).ok_or_else(none)
                });
                let values = values.collect::<Result<_>>()?;
                if last && next_line(lines).map_err(&refused)?.is_some() {
                    return Err(refused("it has more lines than there are vectors".into()));
                }
                Ok(values)
            }
        }
    }
}

/// Reads the next line without its line end. Returns `None` at the end of the file.
fn next_line(lines: &mut BufReader<File>) -> core::result::Result<Option<Vec<u8>>, String> {
    let mut line = Vec::new();
    let read = lines.take(MAX_LINE).read_until(b'\n', &mut line);
    if read.map_err(|error| error.to_string())? == 0 {
        return Ok(None);
    }
    // A line of exactly this length may have been cut, so it is refused as well.
    if line.len() as u64 == MAX_LINE {
        return Err(format!("it has a line of {MAX_LINE} bytes or more"));
    }
    if line.last() == Some(&b'\n') {
        line.pop();
    }
    // Files that were written on Windows end their lines with two characters.
    if line.last() == Some(&b'\r') {
        line.pop();
    }
    Ok(Some(line))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn written(folder: &tempfile::TempDir, name: &str, text: &str) -> PathBuf {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path
    }

    #[test]
    fn records_of_text_come_in_batches() {
        let folder = tempfile::tempdir().unwrap();
        let vectors = written(&folder, "v.csv", "x,y\n1,2\n3, 4\r\n-5e-1,nan\n");
        let texts = written(&folder, "p.txt", "a\nbc\r\n\n");
        let payload = Payload::Bytes { most: 2 };
        let mut records = FileRecords::open(&vectors, 2, Some(&texts), payload).unwrap();
        let first = records.next(2).unwrap();
        assert_eq!(first.vectors, [1.0, 2.0, 3.0, 4.0]);
        assert_eq!(first.payloads, [b"a\0", b"bc"]);
        let last = records.next(2).unwrap();
        assert_eq!((last.vectors[0], last.vectors[1].is_nan()), (-0.5, true));
        assert_eq!(last.payloads, [[0, 0]]);
        assert!(records.next(2).unwrap().vectors.is_empty());
        let numbers = written(&folder, "p.csv", "1,2\n3,4\n5,600\n");
        let payload = Payload::Integers { columns: 2, bits: 9 };
        let mut records = FileRecords::open(&vectors, 2, Some(&numbers), payload).unwrap();
        assert_eq!(records.next(1).unwrap().payloads, [[1, 4, 0]]);
        assert!(records.next(5).unwrap_err().to_string().contains("row 2"));
    }

    #[test]
    fn files_that_do_not_fit_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let vectors = written(&folder, "v.csv", "1,2\n3,4\n");
        let refused = |vectors: &Path, dimension, payloads: Option<&Path>, payload| {
            let records = FileRecords::open(vectors, dimension, payloads, payload);
            records.and_then(|mut records| records.next(9)).unwrap_err().to_string()
        };
        let text = Payload::Bytes { most: 2 };
        assert!(refused(&vectors, 3, None, Payload::Rows).contains("2 coordinates"));
        assert!(refused(&vectors, 2, None, text).contains("none are given"));
        assert!(refused(&vectors, 2, Some(&vectors), Payload::Rows).contains("leave it out"));
        for (lines, part) in [("a\n", "fewer"), ("a\nb\nc\n", "more"), ("a\nbcd\n", "row 1")] {
            let payloads = written(&folder, "p.txt", lines);
            assert!(refused(&vectors, 2, Some(&payloads), text).contains(part), "{part}");
        }
        // pandas numbers columns without names, also as decimals. Exponents identify a vector.
        for counted in ["0,1\n3.5,4.5\n", "0.0,1.0\n3.5,4.5\n"] {
            let counted = written(&folder, "c.csv", counted);
            assert!(refused(&counted, 2, None, Payload::Rows).contains("counts columns"));
            assert!(read_vector(&counted, 2).unwrap_err().to_string().contains("counts columns"));
        }
        let pointed = written(&folder, "c.csv", "0e0,1\n0,1\n");
        let mut records = FileRecords::open(&pointed, 2, None, Payload::Rows).unwrap();
        assert_eq!(records.next(9).unwrap().vectors, [0.0, 1.0, 0.0, 1.0]);
        let bad = written(&folder, "b.csv", "1,2\n3,x\n");
        assert!(refused(&bad, 2, None, Payload::Rows).contains("line 2"));
        assert!(read_vector(&vectors, 2).unwrap_err().to_string().contains("one vector"));
        let one = written(&folder, "q.csv", "7,8\n");
        assert_eq!(read_vector(&one, 2).unwrap(), [7.0, 8.0]);
    }
}

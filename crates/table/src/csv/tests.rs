//! Reading text, of numbers only and of any columns.

use std::{
    io::{self, Cursor, Read, Seek, SeekFrom},
    path::Path,
};

use proptest::prelude::*;

use super::super::{
    Categorical, Cell, Frame, MAX_RECORD_BYTES, Place, ReadOptions, RecordLimit, Table, TableError,
    TextColumn,
};

fn csv(text: &str) -> Result<Table, TableError> {
    Table::from_csv(text.as_bytes(), None, 1000)
}

fn csv_target(text: &str) -> Result<Table, TableError> {
    Table::from_csv(text.as_bytes(), Some("y"), 1000)
}

/// Hands out one byte at a time.
struct Trickle<'a>(&'a [u8]);

impl Read for Trickle<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(&mut buffer[..1])
    }
}

#[test]
fn reads_features_and_target_from_any_line_ends() {
    let unix = "\u{feff}a, y ,b\n1,0, 2.5\n-3e2,1,\"+4\"\n\n\n";
    for text in [
        unix.to_owned(),
        unix.trim_end().to_owned(),
        unix.replace('\n', "\r\n"),
        unix.replace('\n', "\r"),
    ] {
        for table in [
            csv_target(&text).unwrap(),
            Table::from_csv(Trickle(text.as_bytes()), Some("y"), 6).unwrap(),
        ] {
            assert_eq!(table.columns(), ["a", "b"]);
            assert_eq!((table.rows(), table.features()), (2, 2));
            assert_eq!(table.values(), [1.0, 2.5, -300.0, 4.0]);
            assert_eq!(table.column(1).collect::<Vec<_>>(), [2.5, 4.0]);
            assert_eq!(table.column(2).count(), 0);
            assert_eq!(table.iter_rows().nth(1).unwrap(), [-300.0, 4.0]);
            assert_eq!(table.target(), Some("y"));
            assert_eq!(table.labels().unwrap(), [false, true]);
        }
    }
}

#[test]
fn names_line_and_column_of_a_bad_cell() {
    let at = |line| Place::Line(line);
    let b = || "b".to_owned();
    for end in ["\n", "\r\n", "\r"] {
        let bad = |cell: &str| {
            let text = ["a,b", "1,2", "3,4", &format!("5,{cell}"), "6,7"].join(end);
            csv(&text).unwrap_err()
        };
        let found = |text: &str| text.to_owned();
        assert_eq!(bad("NA"), TableError::Text { place: at(4), column: b(), found: found("NA") });
        assert_eq!(bad("1;5"), TableError::Text { place: at(4), column: b(), found: found("1;5") });
        assert_eq!(bad(" "), TableError::Gap { place: at(4), column: b() });
        for cell in ["nan", "-inf", "1e999"] {
            let expected = TableError::NotFinite { place: at(4), column: b(), found: found(cell) };
            assert_eq!(bad(cell), expected);
        }
        assert_eq!(bad("1,2"), TableError::Ragged { line: 4, found: 3, needed: 2 });
    }
    assert_eq!(csv("a,b\n1\n"), Err(TableError::Ragged { line: 2, found: 1, needed: 2 }));
    let long = "é".repeat(100);
    match csv(&format!("a\n1\n{long}\n")) {
        Err(TableError::Text { found, .. }) => assert_eq!(found.chars().count(), 41),
        other => panic!("{other:?}"),
    }
}

#[test]
fn line_numbers_survive_mixed_line_ends_and_blank_lines() {
    assert_eq!(csv("a\n1\r\n2\n\n3\n"), Err(TableError::BlankLine { line: 4 }));
    assert_eq!(csv("a\r\n1\r\n\r\n3"), Err(TableError::BlankLine { line: 3 }));
    assert_eq!(
        csv("\n\na\r\n1\n2\r\nx"),
        Err(TableError::Text { place: Place::Line(6), column: "a".into(), found: "x".into() })
    );
    assert_eq!(
        csv("a,b\n1,\"2\n3,4\n5,6\n"),
        Err(TableError::Text {
            place: Place::Line(2),
            column: "b".into(),
            found: "2\n3,4\n5,6".into()
        })
    );
}

#[test]
fn refuses_bytes_that_are_not_utf8() {
    let read = |bytes: &[u8]| Table::from_csv(bytes, None, 10);
    assert_eq!(read(b"a,b\n1,\xff\n"), Err(TableError::NotUtf8 { line: 2, column: 2 }));
    let utf16: Vec<u8> =
        [0xfeff].into_iter().chain("a\n1\n".encode_utf16()).flat_map(u16::to_le_bytes).collect();
    assert_eq!(read(&utf16), Err(TableError::NotUtf8 { line: 1, column: 1 }));
}

#[test]
fn refuses_bad_headers_and_targets() {
    assert_eq!(csv("1,2\n3,4\n"), Err(TableError::NoHeader { line: 1 }));
    assert_eq!(csv(",a\n0,4\n"), Err(TableError::UnnamedColumn { number: 1 }));
    assert_eq!(csv("a,b,a\n"), Err(TableError::DuplicateColumn { column: "a".into() }));
    assert_eq!(
        csv_target("y,a,y\n0,1,0\n"),
        Err(TableError::DuplicateColumn { column: "y".into() })
    );
    let error = csv_target("a,b\n1,2\n").unwrap_err();
    assert_eq!(error, TableError::UnknownTarget { target: "y".into(), columns: "a, b".into() });
    assert_eq!(
        error.to_string(),
        "there is no target column \"y\"; choose one of the columns a, b"
    );
    for cell in ["2", "-1", "0.5"] {
        assert_eq!(
            csv_target(&format!("a,y\n3,1\n4,{cell}\n")),
            Err(TableError::TargetNotBinary {
                place: Place::Line(3),
                column: "y".into(),
                found: cell.parse().unwrap()
            })
        );
    }
}

#[test]
fn refuses_empty_and_oversized_tables() {
    assert_eq!(csv(""), Err(TableError::Empty { rows: 0, features: 0 }));
    assert_eq!(csv("\n\n"), Err(TableError::Empty { rows: 0, features: 0 }));
    assert_eq!(csv("a,b\n"), Err(TableError::Empty { rows: 0, features: 2 }));
    assert_eq!(csv_target("y\n1\n"), Err(TableError::Empty { rows: 1, features: 0 }));
    let text = "a,b\n1,2\n3,4\n5,6\n";
    assert!(Table::from_csv(text.as_bytes(), None, 6).is_ok());
    assert_eq!(
        Table::from_csv(text.as_bytes(), None, 5),
        Err(TableError::TooManyCells { limit: 5, line: 4 })
    );
    // The reader gives up an endless source at the limit.
    let endless = "a,b\n".as_bytes().chain(Endless);
    assert_eq!(
        Table::from_csv(endless, None, 100),
        Err(TableError::TooManyCells { limit: 100, line: 52 })
    );
}

/// "1,1\n1,1\n…" without an end.
struct Endless;

impl Read for Endless {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let rows = buffer.len() / 4;
        for row in buffer.chunks_exact_mut(4) {
            row.copy_from_slice(b"1,1\n");
        }
        Ok(4 * rows)
    }
}

/// A source without line ends, or with an open quote, is not held in memory as a whole.
#[test]
fn refuses_rows_without_an_end() {
    for (start, line, rest) in [
        ("", 1, &b"0"[..]),
        ("a,b\n1,2\n", 3, b"0"),
        ("a,b\n1,2\n", 3, b"\0"),
        ("a,b\n\"", 2, b"x\n"),
    ] {
        let source = start.as_bytes().chain(Repeated(rest));
        let Err(TableError::Read { kind, message, .. }) = Table::from_csv(source, None, 1 << 30)
        else {
            panic!("{start:?} is read to its end")
        };
        assert_eq!(kind, io::ErrorKind::FileTooLarge, "{message}");
        let said = format!("the row on line {line}: it has more than 64 MiB");
        assert!(message.contains(&said), "{message}");
    }
}

/// The same bytes without an end.
struct Repeated(&'static [u8]);

impl Read for Repeated {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let parts = buffer.chunks_exact_mut(self.0.len());
        Ok(parts.map(|part| part.copy_from_slice(self.0)).count() * self.0.len())
    }
}

/// Many rows together may exceed the limit of one row.
#[test]
fn rows_are_limited_one_by_one() {
    let mut rows = RecordLimit::new(io::repeat(b'0'));
    let mut part = vec![0; MAX_RECORD_BYTES as usize / 2];
    for _ in 0..3 {
        rows.begin();
        rows.read_exact(&mut part).unwrap();
        rows.read_exact(&mut part).unwrap();
    }
    assert_eq!(rows.read(&mut part).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
}

#[test]
fn reports_failures_of_the_source() {
    let missing = "no-such-directory/table.csv";
    match Table::read_csv(missing, None) {
        Err(TableError::Read { name, kind: io::ErrorKind::NotFound, .. }) => {
            assert_eq!(name, missing);
        }
        other => panic!("{other:?}"),
    }
    for place in [".", "/dev/zero"] {
        match Table::read_csv(place, None) {
            Err(TableError::Read { name, message, .. }) => {
                assert_eq!(name, place);
                assert!(message.contains("regular file") || !Path::new(place).exists());
            }
            other => panic!("{other:?}"),
        }
    }
    struct Broken;
    impl Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::new(io::ErrorKind::TimedOut, "too slow"))
        }
    }
    assert_eq!(
        Table::from_csv("a\n1\n".as_bytes().chain(Broken), None, 10),
        Err(TableError::Read {
            name: "the table".into(),
            kind: io::ErrorKind::TimedOut,
            message: "too slow".into()
        })
    );
}

/// Text and missing values are allowed.
fn lenient() -> ReadOptions {
    ReadOptions { categorical: Categorical::Every, missing: true, ..ReadOptions::default() }
}

fn frame(text: &str, options: &ReadOptions) -> Result<Frame, TableError> {
    Frame::from_csv(Cursor::new(text), options)
}

/// The cells of a column of text.
fn cells(frame: &Frame, at: usize) -> Vec<Option<&str>> {
    let text = frame.text(at).unwrap();
    (0..frame.rows()).map(|row| text.get(row)).collect()
}

fn at(line: u64) -> Place {
    Place::Line(line)
}

#[test]
fn columns_are_numbers_or_text() {
    let text = "\u{feff}a;b;c;d\r\n1,5;x y;;?\r\n;\"p;q\"\"r\";NA;01\r\n-2; z ;7;-\r\n";
    for text in [text.to_owned(), text.replace("\r\n", "\r"), text.replace("\r\n", "\n")] {
        let frame = frame(&text, &lenient()).unwrap();
        assert_eq!(frame.columns(), ["a", "b", "c", "d"]);
        let numbers: Vec<f64> = frame.numbers().to_vec();
        assert_eq!((numbers[0], numbers[8], numbers[10], numbers[7]), (1.5, -2.0, 7.0, 1.0));
        assert_eq!(numbers.iter().filter(|number| number.is_nan()).count(), 8);
        assert_eq!(cells(&frame, 1), [Some("x y"), Some("p;q\"r"), Some("z")]);
        assert_eq!((frame.text(0), frame.text(2), frame.text(3)), (None, None, None));
        assert_eq!((frame.place(0), frame.place(2)), (at(2), at(4)));
    }
    // Declared columns are text for any content, in the original spelling.
    let options = ReadOptions { categorical: Categorical::Columns(vec!["b".into()]), ..lenient() };
    let declared = frame("a,b\n1,1\n2,1.0\n3,NA\n", &options).unwrap();
    assert_eq!(cells(&declared, 1), [Some("1"), Some("1.0"), Some("NA")]);
    let place = at(3);
    let column = "a".to_owned();
    let found = "x".to_owned();
    assert_eq!(
        frame("a,b\n1,1\nx,1.0\n", &options).unwrap_err(),
        TableError::Text { place, column, found }
    );
    // Labels may be text if nothing else may.
    let options = ReadOptions { target: Some("y".into()), ..ReadOptions::default() };
    let labelled = frame("a,y\n1,no\n2,yes\n", &options).unwrap();
    assert_eq!(cells(&labelled, 1), [Some("no"), Some("yes")]);
    assert_eq!(frame("a\n1\n", &options).unwrap().columns(), ["a"]);
}

/// Counts how often it is read from its beginning, and the bytes that are read.
struct Counted<'a>(Cursor<&'a str>, usize, usize);

impl Read for Counted<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.0.read(buffer)?;
        self.2 += count;
        Ok(count)
    }
}

impl Seek for Counted<'_> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.1 += 1;
        self.0.seek(to)
    }
}

#[test]
fn text_that_comes_late_is_read_from_the_beginning() {
    for (rows, late, times) in [(10, 5, 2), (50_000, 500, 2), (5000, 4000, 2), (5000, 5000, 1)] {
        let cell = |row: usize| if row == late { "late".to_owned() } else { format!("0{row}") };
        let lines = (0..rows).map(|row| format!("{},{},0{row}\n", cell(row), cell(row)));
        let text = format!("a,b,c\n{}", lines.collect::<String>());
        let mut source = Counted(Cursor::new(&text), 0, 0);
        let frame = Frame::from_csv(&mut source, &lenient()).unwrap();
        assert_eq!((frame.rows(), source.1), (rows, times));
        // Early, before the end of a long file.
        assert!(late != 500 || 2 * source.2 < 3 * text.len());
        assert_eq!(frame.numbers()[2], 0.0);
        assert_eq!(frame.numbers()[3 * rows - 1], (rows - 1) as f64);
        if late < rows {
            for column in 0..2 {
                let expected: Vec<String> = (0..rows).map(cell).collect();
                let found = cells(&frame, column);
                assert!(found.iter().zip(&expected).all(|(found, cell)| *found == Some(cell)));
            }
        }
    }
}

#[test]
fn a_column_is_no_text_for_missing_or_infinite_numbers() {
    let strict = ReadOptions { missing: false, ..lenient() };
    let column = || "a".to_owned();
    for cell in ["NA", "?", "-"] {
        let found = cell.to_owned();
        assert_eq!(
            frame(&format!("a,b\n1,2\n{cell},x\n"), &strict).unwrap_err(),
            TableError::Text { place: at(3), column: column(), found }
        );
    }
    for (options, cell) in [(&strict, "nan"), (&strict, "inf"), (&lenient(), "-1e999")] {
        let found = cell.to_owned();
        assert_eq!(
            frame(&format!("a,b\n1,x\n{cell},2\n"), options).unwrap_err(),
            TableError::NotFinite { place: at(3), column: column(), found }
        );
    }
    for categorical in [Categorical::Every, Categorical::Columns(vec!["a".into()])] {
        let strict = ReadOptions { categorical, ..strict.clone() };
        let gap = TableError::Gap { place: at(3), column: column() };
        assert_eq!(frame("a,b\nx,2\n,1\n", &strict).unwrap_err(), gap);
        // In a column of text, they are text.
        let text = frame("a,b\nNA,2\ninf,1\nx,1\n", &strict).unwrap();
        assert_eq!(cells(&text, 0), [Some("NA"), Some("inf"), Some("x")]);
    }
    // This holds even if values may be missing: `NA` may be Namibia. An empty cell is not a value.
    for missing in ReadOptions::MISSING {
        for cell in [missing.to_owned(), format!("\"{missing}\"")] {
            let text = format!("a,b\n1,x\n{cell},{cell}\n2,\n");
            let frame = frame(&text, &lenient()).unwrap();
            assert!(frame.numbers()[2].is_nan());
            assert_eq!(cells(&frame, 1), [Some("x"), Some(missing), None]);
        }
    }
}

#[test]
fn words_that_are_given_stand_for_missing_values_in_any_column() {
    let words = ["NA", "-9"].map(String::from).to_vec();
    for categorical in [Categorical::Every, Categorical::Columns(vec!["b".into()])] {
        let options = ReadOptions { categorical, missing_words: Some(words.clone()), ..lenient() };
        let frame = frame("a,b\n-9,x\nNA,NA\n2,-9\n,?\n", &options).unwrap();
        let gaps: Vec<bool> = frame.numbers().iter().step_by(2).map(|x| x.is_nan()).collect();
        assert_eq!(gaps, [true, true, false, true]);
        assert_eq!(cells(&frame, 1), [Some("x"), None, None, Some("?")]);
    }
    // Only these words, and only where values may be missing.
    let options = ReadOptions { missing_words: Some(words), ..ReadOptions::default() };
    let text = |cell: &str| format!("a\n1\n{cell}\n");
    let lenient = ReadOptions { missing: true, ..options.clone() };
    assert!(frame(&text("?"), &lenient).is_err());
    assert_eq!(frame(&text("-9"), &options).unwrap().numbers(), [1.0, -9.0]);
    assert!(frame(&text("-9"), &lenient).unwrap().numbers()[1].is_nan());
}

/// `12,500` may be 12,500 or 12.5.
#[test]
fn marks_that_may_separate_thousands_are_refused() {
    let refused = |text: &str, found: &str| match csv(text).unwrap_err() {
        error @ TableError::DecimalMarks { .. } => {
            let message = error.to_string();
            assert!(message.contains(found) && message.contains("`decimal`"), "{message}");
        }
        other => panic!("{text:?}: {other}"),
    };
    for delimiter in [";", "\t", "|"] {
        let text = |text: &str| text.replace(';', delimiter);
        refused(&text("id;income\n1;12,500\n2;825\n3;101,000\n"), "12,500");
        refused(&text("id;income\n1;-1.234\n2;+8.250\n"), "-1.234");
        // Marks that cannot separate thousands: no digit before the mark except 0, or not three
        // digits after it.
        for cell in ["0,125", "1234,567", "12,5", "1,2345", ",250", "12,500e1", "007,125"] {
            assert!(csv(&text(&format!("id;income\n1;12,500\n2;{cell}\n"))).is_ok(), "{cell}");
        }
        for (decimal, expected) in [(',', 12.5), ('.', f64::NAN)] {
            let options = ReadOptions { decimal: Some(decimal), ..ReadOptions::default() };
            let read = frame(&text("id;income\n1;12,500\n"), &options);
            match expected.is_nan() {
                true => assert!(matches!(read, Err(TableError::Text { .. })), "{read:?}"),
                false => assert_eq!(read.unwrap().numbers()[1], expected),
            }
        }
    }
    // Between commas a point is a decimal mark, and categories are not numbers.
    assert_eq!(csv("id,income\n1,12.500\n").unwrap().values(), [1.0, 12.5]);
    let options = ReadOptions { categorical: Categorical::Columns(vec!["b".into()]), ..lenient() };
    assert_eq!(cells(&frame("a;b\n1;2.500\n", &options).unwrap(), 1), [Some("2.500")]);
}

#[test]
fn files_that_are_no_text_are_told_by_their_first_bytes() {
    for (bytes, problem) in [
        (&b"PK\x03\x04\x14\x00"[..], "save the sheet as CSV"),
        (b"\xd0\xcf\x11\xe0\xa1", "save the sheet as CSV"),
        (b"\x1f\x8b\x08", "decompress it"),
        (b"PAR1\x15", "ends in .parquet"),
    ] {
        let error = Table::from_csv(bytes, None, 10).unwrap_err();
        assert!(matches!(error, TableError::Read { kind: io::ErrorKind::InvalidData, .. }));
        assert!(error.to_string().contains(problem), "{error}");
    }
}

#[test]
fn decimal_commas_between_commas_are_told_the_option() {
    let advice = |cell: &str| csv(&format!("a\n\"{cell}\"\n")).unwrap_err().to_string();
    for cell in ["1,5", "-2,25", "12,500"] {
        assert!(advice(cell).contains("--decimal ,"), "{}", advice(cell));
    }
    for cell in ["x,5", "1,2,3", "1.5,2"] {
        assert!(advice(cell).contains("--categorical"), "{}", advice(cell));
    }
}

#[test]
fn decimal_marks() {
    let values =
        |text: &str| Table::from_csv(text.as_bytes(), None, 100).unwrap().values().to_vec();
    for delimiter in [";", "\t", "|"] {
        assert_eq!(
            values(&"a;b\n3,5;2\n-1,25e2;4\n".replace(';', delimiter)),
            [3.5, 2.0, -125.0, 4.0]
        );
        assert_eq!(values(&"a;b\n3.5;2\n".replace(';', delimiter)), [3.5, 2.0]);
    }
    let text = "a;b\n1;2,5\n3.5;4\n";
    let cell = |line, column: &str, found: &str| {
        Box::new(Cell { place: at(line), column: column.into(), found: found.into() })
    };
    let point = cell(3, "a", "3.5");
    let comma = cell(2, "b", "2,5");
    let error = csv(text).unwrap_err();
    assert_eq!(error, TableError::DecimalMarks { point: Some(point), comma: Some(comma) });
    let message = error.to_string();
    for part in ["line 3, column \"a\": 3.5", "line 2, column \"b\": 2,5", "`decimal`"] {
        assert!(message.contains(part), "{message}");
    }
    // With a declared decimal mark, the other mark is rejected, or read as text.
    for (decimal, line, column, found) in [(',', 3, "a", "3.5"), ('.', 2, "b", "2,5")] {
        let options = ReadOptions { decimal: Some(decimal), ..ReadOptions::default() };
        let place = at(line);
        let column = column.to_owned();
        let found = found.to_owned();
        assert_eq!(frame(text, &options).unwrap_err(), TableError::Text { place, column, found });
    }
    // Marks in columns of text do not count, wherever the text appears.
    let text = "version;price\n1.0;3,5\n2.1;4\n2.1.1;5,5\n";
    let prices = frame(text, &lenient()).unwrap();
    assert_eq!(cells(&prices, 0), [Some("1.0"), Some("2.1"), Some("2.1.1")]);
    assert_eq!((prices.numbers()[1], prices.numbers()[5]), (3.5, 5.5));
    // Between commas, decimal commas need the option.
    let text = "a,b\n\"3,5\",1\n";
    let place = at(2);
    let column = "a".to_owned();
    let found = "3,5".to_owned();
    assert_eq!(csv(text), Err(TableError::Text { place, column, found }));
    let options = ReadOptions { decimal: Some(','), ..ReadOptions::default() };
    assert_eq!(frame(text, &options).unwrap().numbers(), [3.5, 1.0]);
    // Groups of thousands are not numbers.
    assert!(matches!(csv("a;b\n1.234,5;1\n"), Err(TableError::Text { .. })));
    assert!(matches!(csv("a;b\n1,234,5;1\n"), Err(TableError::Text { .. })));
    assert_eq!(csv("1,5;2,5\n3;4\n"), Err(TableError::NoHeader { line: 1 }));
}

#[test]
fn delimiters_that_are_given() {
    let read = |text: &str, delimiter: char| {
        let options = ReadOptions { delimiter: Some(delimiter), ..lenient() };
        frame(text, &options).map(|frame| frame.columns().len())
    };
    assert_eq!(read("a;b,c\n1;2,3\n", ';'), Ok(2));
    assert_eq!(read("a;b,c\n1;2,3\n", ','), Ok(2));
    assert_eq!(read("a b\n1 2\n", ' '), Ok(2));
    assert_eq!(read("a:b\n1:2\n", ':'), Ok(2));
    for delimiter in ['"', '\n', '.', '-', 'x', '7', 'é', '…'] {
        let error = read("a;b\n1;2\n", delimiter).unwrap_err();
        assert!(matches!(error, TableError::ReadOption { option: "delimiter", .. }), "{error}");
    }
    let options = ReadOptions { decimal: Some(';'), ..ReadOptions::default() };
    let error = frame("a;b\n1;2\n", &options).unwrap_err().to_string();
    assert_eq!(error, "the decimal mark cannot be ';'; it must be a point or a comma");
}

#[test]
fn quotes() {
    let text = "a;b\n\"x;\"\"y\"\"\n=\n\";1\n\"\n\";2\n ;3\n\"z\n\n\";4\n";
    let quoted = frame(text, &lenient()).unwrap();
    // Blanks and line ends around a cell do not count, but lines are counted.
    assert_eq!(cells(&quoted, 0), [Some("x;\"y\"\n="), None, None, Some("z")]);
    let lines: Vec<Place> = (0..4).map(|row| quoted.place(row)).collect();
    assert_eq!(lines, [2, 5, 7, 8].map(at));
    // An open quote would swallow the rest of the file.
    for text in ["a,b\nx,1\ny,\"2\nz,3\n", "a,b\nx,1\ny,\"2\nz,3", "a,b\nx,1\ny,\""] {
        assert_eq!(frame(text, &lenient()).unwrap_err(), TableError::OpenQuote { line: 3 });
    }
}

#[test]
fn refused_whatever_the_columns_may_be() {
    let error = |text: &[u8]| Frame::from_csv(Cursor::new(text), &lenient()).unwrap_err();
    assert_eq!(error(b""), TableError::Empty { rows: 0, features: 0 });
    assert_eq!(error(b"\xef\xbb\xbf"), TableError::Empty { rows: 0, features: 0 });
    assert_eq!(error(b"a;b\n"), TableError::Empty { rows: 0, features: 2 });
    assert_eq!(error(b"a,b\nx,y,z\n"), TableError::Ragged { line: 2, found: 3, needed: 2 });
    assert_eq!(error(b"a;b\n1;2\n3\n"), TableError::Ragged { line: 3, found: 1, needed: 2 });
    assert_eq!(error(b"a\nx\n\ny\n"), TableError::BlankLine { line: 3 });
    assert_eq!(error(b"a,b\nx,\xff\n"), TableError::NotUtf8 { line: 2, column: 2 });
    assert_eq!(error(b"a,b,a\n1,2,3\n"), TableError::DuplicateColumn { column: "a".into() });
    assert_eq!(error(b",b\nx,2\n"), TableError::UnnamedColumn { number: 1 });
    let options = ReadOptions { max_cells: 5, ..lenient() };
    assert_eq!(
        frame("a,b\nx,2\ny,4\nz,6\n", &options).unwrap_err(),
        TableError::TooManyCells { limit: 5, line: 4 }
    );
}

#[test]
fn extreme_numbers() {
    let frame = frame("a,b\n1e300,9007199254740993\n-1e-300,18446744073709551616\n", &lenient());
    let expected = [1e300, 9_007_199_254_740_992.0, -1e-300, 18_446_744_073_709_551_616.0];
    assert_eq!(frame.unwrap().numbers(), expected);
}

/// A column as it is written and should be read.
#[derive(Debug, Clone)]
enum Written {
    Numbers(Vec<Option<f64>>),
    Text(Vec<Option<String>>),
}

fn written_column(rows: usize) -> impl Strategy<Value = Written> {
    let number = prop::num::f64::NORMAL | prop::num::f64::ZERO | prop::num::f64::SUBNORMAL;
    // Neither a number, nor blanks at the ends, nor a word for missing values.
    let text = "x[a-c,;|\t\"\n=. é]{0,4}x";
    let numbers = prop::collection::vec(prop::option::weighted(0.8, number), rows);
    let texts = prop::collection::vec(prop::option::weighted(0.8, text), rows);
    let texts = texts.prop_filter("a text", |texts| texts.iter().any(Option::is_some));
    prop_oneof![numbers.prop_map(Written::Numbers), texts.prop_map(Written::Text)]
}

/// A file with this delimiter and decimal mark.
fn write(columns: &[Written], rows: usize, delimiter: char, decimal: char, end: &str) -> String {
    let cell = |column: &Written, row: usize| {
        let text = match column {
            Written::Numbers(numbers) => {
                numbers[row].map(|x| x.to_string().replace('.', &decimal.to_string()))
            }
            Written::Text(texts) => texts[row].clone(),
        };
        let text = text.unwrap_or_default();
        // An empty line would not be a row.
        if columns.len() == 1 || text.contains(['"', '\n', delimiter]) {
            format!("\"{}\"", text.replace('"', "\"\""))
        } else {
            text
        }
    };
    let line = |cells: Vec<String>| cells.join(&delimiter.to_string()) + end;
    let header = line((0..columns.len()).map(|at| format!("c{at}")).collect());
    let rows = (0..rows).map(|row| line(columns.iter().map(|column| cell(column, row)).collect()));
    header + &rows.collect::<String>()
}

fn written_frame() -> impl Strategy<Value = (usize, Vec<Written>)> {
    (1_usize..12)
        .prop_flat_map(|rows| (Just(rows), prop::collection::vec(written_column(rows), 1..5)))
}

fn check(frame: &Frame, columns: &[Written]) -> Result<(), TestCaseError> {
    for (at, column) in columns.iter().enumerate() {
        match column {
            Written::Text(texts) => {
                prop_assert_eq!(
                    frame.text(at),
                    Some(&texts.iter().map(Option::as_ref).collect::<TextColumn>())
                );
            }
            Written::Numbers(numbers) => {
                prop_assert_eq!(frame.text(at), None);
                let found = frame.numbers().iter().skip(at).step_by(columns.len());
                for (found, number) in found.zip(numbers) {
                    let number = number.unwrap_or(f64::NAN);
                    prop_assert!(
                        found.to_bits() == number.to_bits() || found.is_nan() && number.is_nan()
                    );
                }
            }
        }
    }
    Ok(())
}

proptest! {
    #[test]
    fn written_tables_are_read_back(
        rows in prop::collection::vec(
            (prop::collection::vec(prop::num::f64::NORMAL | prop::num::f64::ZERO, 3),
             any::<bool>()),
            1..20),
        crlf: bool,
        target_at in 0_usize..4,
    ) {
        let end = if crlf { "\r\n" } else { "\n" };
        let mut names = vec!["a", "b", "c"];
        names.insert(target_at, "y");
        let mut text = names.join(",") + end;
        for (row, label) in &rows {
            let mut cells: Vec<String> = row.iter().map(f64::to_string).collect();
            cells.insert(target_at, u8::from(*label).to_string());
            text += &(cells.join(",") + end);
        }
        let table = Table::from_csv(text.as_bytes(), Some("y"), 80).unwrap();
        prop_assert_eq!(
            table.values(), rows.iter().flat_map(|(row, _)| row.clone()).collect::<Vec<_>>());
        prop_assert_eq!(
            table.labels().unwrap(), rows.iter().map(|row| row.1).collect::<Vec<_>>());
    }

    #[test]
    fn no_input_panics(bytes: Vec<u8>, text in "[a,0-9\n\r\". -]{0,60}") {
        let _ = Table::from_csv(&bytes[..], None, 50);
        let _ = Table::from_csv(text.as_bytes(), Some("a"), 50);
    }

    #[test]
    fn written_frames_are_read_back(
        (rows, columns) in written_frame(),
        delimiter in prop::sample::select(vec![',', ';', '\t', '|', ':']),
        decimal in prop::sample::select(vec!['.', ',']),
        end in prop::sample::select(vec!["\n", "\r\n", "\r"]),
    ) {
        let text = write(&columns, rows, delimiter, decimal, end);
        let options = ReadOptions { delimiter: Some(delimiter), ..lenient() };
        let given = ReadOptions { decimal: Some(decimal), ..options.clone() };
        check(&frame(&text, &given).unwrap(), &columns)?;
        if decimal == '.' || delimiter != ',' {
            check(&frame(&text, &options).unwrap(), &columns)?;
        }
    }

    /// Without texts that might be split, too.
    #[test]
    fn delimiters_and_decimal_marks_are_recognised(
        (rows, columns) in written_frame(),
        delimiter in prop::sample::select(vec![',', ';', '\t', '|']),
        decimal in prop::sample::select(vec!['.', ',']),
    ) {
        let simple = |column: &Written| match column {
            Written::Numbers(_) => column.clone(),
            Written::Text(texts) => {
                let simple = |text: &String| text.replace([',', ';', '|', '\t'], "_");
                Written::Text(texts.iter().map(|text| text.as_ref().map(simple)).collect())
            }
        };
        let columns: Vec<Written> = columns.iter().map(simple).collect();
        let decimal = if delimiter == ',' || columns.len() == 1 { '.' } else { decimal };
        let text = write(&columns, rows, delimiter, decimal, "\n");
        check(&frame(&text, &lenient()).unwrap(), &columns)?;
    }

    #[test]
    fn no_frame_panics(bytes: Vec<u8>, text in "[a,;|0-9\n\r\"\t. -]{0,60}") {
        let options = ReadOptions { max_cells: 50, ..lenient() };
        let _ = Frame::from_csv(Cursor::new(&bytes), &options);
        if let Ok(frame) = frame(&text, &options) {
            prop_assert_eq!(frame.numbers().len(), frame.rows() * frame.columns().len());
        }
    }
}

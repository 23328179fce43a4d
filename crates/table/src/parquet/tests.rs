//! Files that pyarrow and polars wrote (`tests/parquet/make.py`), whole and damaged.

use super::{
    super::{Categorical, ReadOptions, Selection, Table, TextColumn},
    *,
};
use proptest::prelude::*;
use std::io::Cursor;

macro_rules! files {
    ($($name:literal),* $(,)?) => {
        [$((
            $name,
            include_bytes!(concat!("../../tests/parquet/", $name, ".parquet")) as &[u8],
        )),*]
    };
}

const GOOD: [(&str, &[u8]); 9] =
    files!["none", "snappy", "gzip", "zstd", "lz4", "v2", "encodings", "plain", "required",];

/// With text and nulls.
const TEXT: [(&str, &[u8]); 5] =
    files!["text", "text-plain", "text-v2", "text-delta", "text-polars"];

fn read(bytes: &[u8], target: Option<&str>, max_cells: usize) -> Result<Table> {
    Table::of_parquet(Cursor::new(bytes), "the table", target, max_cells)
}

/// The table that `make.py` writes.
fn expected() -> Table {
    let names = ["flag", "byte", "word", "long", "large", "count", "single", "double"];
    let row = |i: u64| {
        let x = (i * i % 17) as f64 - 8.0;
        let large = (1_u64 << 63) + (i << 40);
        let flag = f64::from(u8::from(i.is_multiple_of(3)));
        let count = f64::from(u32::MAX) - i as f64;
        [flag, x, 1000.0 * x, 1e12 * x, large as f64, count, x / 4.0, x / 7.0]
    };
    let labels = (0..60).map(|i| i % 2 == 1).collect();
    let values = (0..60).flat_map(row).collect();
    Table::new(names.map(String::from).to_vec(), values, Some(("y".into(), labels))).unwrap()
}

/// Text and missing values are allowed.
fn lenient() -> ReadOptions {
    ReadOptions { categorical: Categorical::Every, missing: true, ..ReadOptions::default() }
}

fn frame(bytes: &[u8], options: &ReadOptions) -> Result<Frame> {
    super::read(Cursor::new(bytes), "the table", Rules { options, binary: false })
}

/// The frame that `make.py` writes.
fn expected_frame() -> Frame {
    let names = ["Zoë", "", "a, b", "\"c\"", "naïve\nline", "aa", "aab"];
    let name = |i: usize| (i % 7 != 3).then(|| names[i * i % 11 % 7].to_owned());
    let kind = |i: usize| (i % 13 != 12).then(|| format!("k{}", i % 5));
    let label = |i: usize| Some(if i % 3 == 1 { "yes" } else { "no" });
    let row = |i: usize| {
        let number = if i % 4 == 1 { f64::NAN } else { i as f64 - 30.0 };
        let real = if (20..45).contains(&i) { f64::NAN } else { i as f64 / 8.0 };
        let flag = if i % 3 == 2 { f64::NAN } else { f64::from(u8::from(i.is_multiple_of(2))) };
        [0.0, 0.0, number, real, flag, 0.0]
    };
    let columns = vec![
        ("name".to_owned(), Some((0..60).map(name).collect())),
        ("kind".to_owned(), Some((0..60).map(kind).collect())),
        ("number".to_owned(), None),
        ("real".to_owned(), None),
        ("flag".to_owned(), None),
        ("y".to_owned(), Some((0..60).map(label).collect())),
    ];
    Frame::new(columns, (0..60).flat_map(row).collect()).unwrap()
}

fn same(frame: &Frame, other: &Frame) -> bool {
    let bits = |frame: &Frame| frame.numbers().iter().map(|x| x.to_bits()).collect::<Vec<_>>();
    (&frame.columns, &frame.text) == (&other.columns, &other.text) && bits(frame) == bits(other)
}

#[test]
fn text_and_nulls_of_all_encodings() {
    for (name, bytes) in TEXT {
        let found = frame(bytes, &lenient()).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(same(&found, &expected_frame()), "{name}: {:?}", found.numbers());
    }
}

#[test]
fn text_and_nulls_are_read_where_they_may_be() {
    let not_numbers = |column: &str| {
        let column = column.to_owned();
        let found = "text";
        TableError::NotNumbers { column, found }
    };
    let gap = |row, column: &str| TableError::Gap { place: Place::Row(row), column: column.into() };
    for (name, bytes) in TEXT {
        for target in [None, Some("y"), Some("name")] {
            assert_eq!(read(bytes, target, 1000), Err(not_numbers("name")), "{name}");
        }
        let options = ReadOptions { missing: false, ..lenient() };
        assert_eq!(frame(bytes, &options).unwrap_err(), gap(3, "name"), "{name}");
        let declared = |columns: &[&str]| {
            let columns = columns.iter().map(|&column| column.into()).collect();
            ReadOptions { categorical: Categorical::Columns(columns), ..lenient() }
        };
        let options = declared(&["name", "y", "number"]);
        assert_eq!(frame(bytes, &options).unwrap_err(), not_numbers("kind"), "{name}");
        let options = ReadOptions { target: Some("y".into()), ..declared(&["name", "kind"]) };
        assert!(same(&frame(bytes, &options).unwrap(), &expected_frame()), "{name}");
        let options = ReadOptions { max_cells: 359, ..lenient() };
        let limit = TableError::TooLarge { rows: 60, columns: 6, limit: 359 };
        assert_eq!(frame(bytes, &options).unwrap_err(), limit, "{name}");
    }
    let [(_, null), (_, nan), (_, category), (_, none)] =
        files!["refused-null", "refused-nan", "refused-category", "text-none"];
    for (bytes, row) in [(null, 1), (nan, 1)] {
        let found = frame(bytes, &lenient()).unwrap();
        let nan = found.numbers().iter().position(|number| number.is_nan());
        assert_eq!(nan, Some(2 * row + 1));
    }
    let infinite = ReadOptions { missing: false, ..lenient() };
    assert!(matches!(frame(nan, &infinite), Err(TableError::NotFinite { .. })));
    let text: TextColumn = ["a", "b", "a"].map(Some).into_iter().collect();
    assert_eq!(frame(category, &infinite).unwrap().text(1), Some(&text));
    // Columns without any value.
    let found = frame(none, &lenient()).unwrap();
    assert_eq!(found.gaps(), [0, 2, 2]);
    let nulls = TableError::NotNumbers { column: "b".into(), found: "nothing but nulls" };
    assert_eq!(frame(none, &infinite).unwrap_err(), nulls);
    // Unsupported types are rejected, even if text is allowed.
    for (name, bytes) in files!["refused-decimal", "refused-nested", "refused-duration"] {
        let error = frame(bytes, &lenient()).unwrap_err();
        assert!(matches!(error, TableError::NotNumbers { .. }), "{name}: {error}");
    }
    // Columns that are not used may have any flat type.
    let [(_, decimal), (_, date), (_, time)] =
        files!["refused-decimal", "refused-date", "refused-time"];
    let selection = Selection { columns: None, drop: vec!["bad".into()] };
    let found = frame(decimal, &ReadOptions { selection, ..lenient() }).unwrap();
    assert_eq!((found.columns().len(), found.gaps()), (2, vec![0, 3]));
    // Dates are text where text is allowed, as in CSV files.
    let text: TextColumn =
        ["1970-01-02", "1970-01-03", "1970-01-04"].map(Some).into_iter().collect();
    assert_eq!(frame(date, &lenient()).unwrap().text(1), Some(&text));
    let times = frame(time, &lenient()).unwrap();
    assert_eq!(times.text(1).unwrap().get(2), Some("1970-01-01T00:00:00.003000"));
}

#[test]
fn all_codecs_and_encodings_give_the_table() {
    for (name, bytes) in GOOD {
        let table = read(bytes, Some("y"), 540).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(table == expected(), "{name}: {:?}", table.values());
        let whole = read(bytes, None, 540).unwrap();
        assert_eq!((whole.features(), whole.column(8).sum::<f64>()), (9, 30.0), "{name}");
    }
}

#[test]
fn cells_without_numbers_are_refused_by_row_and_column() {
    let column = "bad".to_owned();
    let place = Place::Row(1);
    for (name, bytes) in files!["refused-null", "refused-nan"] {
        let column = column.clone();
        let expected = match name {
            "refused-null" => TableError::Gap { place, column },
            _ => TableError::NotFinite { place, column, found: "NaN".into() },
        };
        assert_eq!(read(bytes, None, 100), Err(expected), "{name}");
    }
    let kinds = files![
        "refused-text",
        "refused-category",
        "refused-decimal",
        "refused-date",
        "refused-time",
        "refused-duration",
        "refused-nested",
    ];
    let found = [
        "text",
        "text",
        "decimals",
        "dates",
        "points in time",
        "durations",
        "lists or nested columns",
    ];
    for ((name, bytes), found) in kinds.into_iter().zip(found) {
        let error = read(bytes, None, 100).unwrap_err();
        // The name of a nested column is the name of its outermost part.
        assert_eq!(error, TableError::NotNumbers { column: column.clone(), found }, "{name}");
    }
    let [(_, brotli)] = files!["brotli"];
    let error = read(brotli, Some("y"), 540).unwrap_err();
    assert!(error.to_string().contains("Zstandard"), "{error}");

    let bytes = GOOD[1].1;
    let unknown = read(bytes, Some("z"), 540).unwrap_err();
    assert!(matches!(unknown, TableError::UnknownTarget { .. }), "{unknown}");
    let refused = read(bytes, Some("byte"), 540).unwrap_err();
    let place = Place::Row(0);
    let column = "byte".into();
    assert_eq!(refused, TableError::TargetNotBinary { place, column, found: -8.0 });
    let limit = TableError::TooLarge { rows: 60, columns: 9, limit: 539 };
    assert_eq!(read(bytes, Some("y"), 539), Err(limit));
}

#[test]
fn other_files_are_refused() {
    let problem = |bytes: &[u8]| match read(bytes, None, 540) {
        Err(TableError::Parquet { problem }) => problem,
        other => panic!("{other:?}"),
    };
    assert_eq!(problem(b""), "it is too short");
    assert_eq!(problem(b"PAR1PAR1"), "it is too short");
    assert_eq!(problem(b"a,b\n1,2\n3,4\n"), "it does not end as a Parquet file does");
    assert_eq!(problem(b"PAR1\0\0\0\0PARE"), "it is encrypted");
    assert_eq!(problem(b"PAR1\xff\xff\xff\x7fPAR1"), "its footer is too large");
    assert_eq!(problem(b"PAR1\x00\x00\x00\x00PAR1"), "it ends in the middle of its description");
}

#[test]
fn every_truncation_is_refused() {
    for (name, bytes) in TEXT {
        for length in 0..bytes.len() {
            let cut = [&bytes[..length], &bytes[bytes.len() - 8..]].concat();
            assert!(frame(&bytes[..length], &lenient()).is_err(), "{name} {length}");
            let _ = frame(&cut, &lenient());
        }
    }
    for (name, bytes) in [GOOD[0], GOOD[5], GOOD[7]] {
        for length in 0..bytes.len() {
            let cut = [&bytes[..length], &bytes[bytes.len() - 8..]].concat();
            assert!(read(&bytes[..length], Some("y"), 540).is_err(), "{name} {length}");
            let _ = read(&cut, Some("y"), 540);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Neither a panic nor memory beyond the limit, for any result.
    #[test]
    fn damage_does_no_harm(
        file in 0..GOOD.len(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        in_footer: bool,
    ) {
        let mut bytes = GOOD[file].1.to_vec();
        let length = bytes.len();
        // The last kilobytes describe the rest.
        let from = if in_footer { length.saturating_sub(2000) } else { 0 };
        for (at, byte) in changes {
            bytes[from + at.index(length - from)] = byte;
        }
        if let Ok(table) = read(&bytes, Some("y"), 600) {
            prop_assert!(table.rows() * (table.features() + 1) <= 600);
            prop_assert!(table.values().iter().all(|x| x.is_finite()));
        }
    }

    /// The same where text is read.
    #[test]
    fn damage_of_text_does_no_harm(
        file in 0..TEXT.len(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        in_footer: bool,
    ) {
        let mut bytes = TEXT[file].1.to_vec();
        let length = bytes.len();
        let from = if in_footer { length.saturating_sub(1500) } else { 0 };
        for (at, byte) in changes {
            bytes[from + at.index(length - from)] = byte;
        }
        if let Ok(frame) = frame(&bytes, &ReadOptions { max_cells: 400, ..lenient() }) {
            prop_assert!(frame.numbers().len() <= 400);
            let texts = (0..frame.columns().len()).filter_map(|at| frame.text(at));
            for text in texts {
                prop_assert_eq!(text.rows(), frame.rows());
            }
        }
    }

    #[test]
    fn no_footer_panics(footer: Vec<u8>) {
        let length = (footer.len() as u32).to_le_bytes();
        let bytes = [b"PAR1", &footer[..], &length, b"PAR1"].concat();
        prop_assert!(read(&bytes, None, 600).is_err());
        prop_assert!(frame(&bytes, &lenient()).is_err());
    }
}

//! Files that pyarrow wrote (`tests/parquet/make.py`), whole and damaged.

use super::*;
use proptest::prelude::*;
use std::io::Cursor;

macro_rules! files {
    ($($name:literal),* $(,)?) => {
        [$((
            $name,
            include_bytes!(concat!("../../../tests/parquet/", $name, ".parquet")) as &[u8],
        )),*]
    };
}

const GOOD: [(&str, &[u8]); 9] =
    files!["none", "snappy", "gzip", "zstd", "lz4", "v2", "encodings", "plain", "required",];

fn read(bytes: &[u8], target: Option<&str>, max_cells: usize) -> Result<Table> {
    super::read(Cursor::new(bytes), "the table", target, max_cells)
}

/// As `make.py` has it.
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
fn what_is_no_number_is_refused_by_row_and_column() {
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
        "refused-nested",
    ];
    let found = ["text", "text", "decimals", "dates", "points in time", "lists or nested columns"];
    for ((name, bytes), found) in kinds.into_iter().zip(found) {
        let error = read(bytes, None, 100).unwrap_err();
        // The name of a nested column is that of its outermost part.
        assert_eq!(error, TableError::NotNumbers { column: column.clone(), found }, "{name}");
    }
    let [(_, brotli)] = files!["brotli"];
    let error = read(brotli, Some("y"), 540).unwrap_err();
    assert!(error.to_string().contains("Zstandard"), "{error}");

    let bytes = GOOD[1].1;
    let unknown = read(bytes, Some("z"), 540).unwrap_err();
    assert!(matches!(unknown, TableError::UnknownTarget { .. }), "{unknown}");
    let refused = read(bytes, Some("byte"), 540).unwrap_err();
    let (place, column) = (Place::Row(0), "byte".into());
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

    /// Neither a panic nor memory for more than the limit, whatever the result.
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

    #[test]
    fn no_footer_panics(footer: Vec<u8>) {
        let length = (footer.len() as u32).to_le_bytes();
        let bytes = [b"PAR1", &footer[..], &length, b"PAR1"].concat();
        prop_assert!(read(&bytes, None, 600).is_err());
    }
}

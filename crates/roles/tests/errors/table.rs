use crate::{assert_listed, section};
use std::io;
use sudare_table::{Cell, Place, TableError, metrics::MetricError};

const PLACE: Place = Place::Line(17);

fn column() -> String {
    "age".into()
}

fn cell(found: &str) -> Box<Cell> {
    Box::new(Cell { place: PLACE, column: column(), found: found.into() })
}

fn reading() -> Vec<TableError> {
    let text =
        |found: &str| TableError::Text { place: PLACE, column: column(), found: found.into() };
    vec![
        TableError::Read {
            name: "births.csv".into(),
            kind: io::ErrorKind::NotFound,
            message: "No such file or directory (os error 2)".into(),
        },
        TableError::NoHeader { line: 1 },
        TableError::UnnamedColumn { number: 1 },
        TableError::DuplicateColumn { column: column() },
        TableError::UnknownTarget { target: "low".into(), columns: "age, smoke".into() },
        TableError::UnknownColumn { column: column(), columns: "low, smoke".into() },
        TableError::UnknownColumns {
            unknown: "\"agee\" (did you mean \"age\"?)".into(),
            columns: "age, low".into(),
        },
        TableError::Contradiction { column: column(), role: "the target" },
        TableError::NotDate { cell: cell("31.1.2024") },
        TableError::AllRare { column: column(), rare: 5 },
        TableError::Rule {
            column: column(),
            problem: "it is left out: use it, or take its rule away",
        },
        TableError::Several {
            faults: vec![
                TableError::Gap { place: PLACE, column: "ward, old".into() },
                text("<5"),
                TableError::TooManyCategories { column: "note".into(), found: 1200, limit: 1000 },
            ],
        },
        TableError::Ragged { line: 17, found: 4, needed: 5 },
        TableError::OpenQuote { line: 17 },
        TableError::BlankLine { line: 17 },
        TableError::Gap { place: PLACE, column: column() },
        text("old"),
        text("1,5"),
        TableError::NotFinite { place: PLACE, column: column(), found: "inf".into() },
        TableError::NotUtf8 { line: 17, column: 2 },
        TableError::Empty { rows: 0, features: 3 },
        TableError::TooManyCells { limit: 1_000_000, line: 4711 },
        TableError::TooLarge { rows: 2_000_000, columns: 5, limit: 1_000_000 },
        TableError::Parquet { problem: "it does not end as a Parquet file does".into() },
        TableError::NotNumbers { column: column(), found: "text" },
        TableError::ReadOption { option: "decimal mark", found: ';', needed: "a point or a comma" },
        TableError::DecimalMarks { point: Some(cell("1.5")), comma: Some(cell("2,5")) },
        TableError::DecimalMarks { point: None, comma: Some(cell("2,500")) },
        TableError::TooMuchText { column: column(), limit: 1 << 30 },
    ]
}

fn tables() -> Vec<TableError> {
    vec![
        TableError::Shape { what: "labels", found: 188, needed: 189 },
        TableError::UnknownBundled { name: "iris".into() },
        TableError::Scale { feature: 2, found: 0.0 },
        TableError::AllMissing { column: column() },
        TableError::NoCompleteRow { rows: 189 },
        TableError::TooManyCategories { column: column(), found: 1200, limit: 1000 },
        TableError::InexactName { column: column(), found: 9_007_199_254_740_993.0 },
        TableError::MissingColumns { missing: column(), columns: "low, smoke".into() },
        TableError::SurplusColumns { surplus: column(), columns: "low, smoke".into() },
        TableError::UnseenCategory { cell: cell("green"), known: "blue, red".into() },
        TableError::EncodedName {
            name: "color=red".into(),
            first: "color".into(),
            second: "color=red".into(),
        },
        TableError::Encoding { problem: "it has no columns".into() },
        TableError::UnknownRow { row: 189, rows: 189 },
        TableError::Split { share: 1.5, rows: 189 },
    ]
}

fn targets() -> Vec<TableError> {
    let column = || "low".to_owned();
    vec![
        TableError::NoTarget,
        TableError::TargetNotBinary { place: PLACE, column: column(), found: 2.0 },
        TableError::ConstantTarget { column: column(), value: "1".into() },
        TableError::UnknownClass { cell: cell("maybe"), classes: "no, yes".into() },
        TableError::Classes { column: column(), problem: "two are named \"yes\"".into() },
        TableError::RowWeights { problem: "row 3 has the weight -1".into() },
        TableError::NotTwoClasses {
            column: column(),
            count: 3,
            classes: "low, normal, high".into(),
        },
    ]
}

#[test]
fn messages_of_tables_are_those_of_the_list() {
    let metrics = [
        MetricError::Length { scores: 188, labels: 189 },
        MetricError::Empty,
        MetricError::NotANumber { row: 17 },
        MetricError::OneClass { positives: 189, negatives: 0 },
    ];
    let tables = [reading(), tables(), targets()].concat();
    assert_listed("table.txt", &[section("TableError", &tables), section("MetricError", &metrics)]);
}

use std::io::Cursor;

use proptest::prelude::*;
use serde_json::{Value, json};
use sudare_table::{Categorical, Cell};

use super::{super::testkit, *};

const LOANS: &str =
    "age,purpose,income,y\n30,car,1234,no\n,home,2000,yes\n50,,3000,no\n40.5,car,-4,yes\n";

fn options(missing: Missing, unseen: Unseen) -> EncodingOptions {
    let categorical = Categorical::Every;
    EncodingOptions { categorical, missing, unseen, ..EncodingOptions::default() }
}

fn owners() -> Vec<String> {
    ["north", "south"].map(str::to_owned).to_vec()
}

fn draft(text: &str, options: &EncodingOptions) -> Result<Schema, PoolError> {
    let frame = Frame::from_csv(Cursor::new(text), &options.read_options(Some("y"))).unwrap();
    Schema::draft(&frame, Some("y"), options, &owners())
}

fn loans(missing: Missing) -> Schema {
    draft(LOANS, &options(missing, Unseen::Refuse)).unwrap()
}

fn apply(schema: &Schema, text: &str) -> Result<Table, PoolError> {
    schema.apply(&Frame::from_csv(Cursor::new(text), &schema.read_options()).unwrap())
}

#[test]
fn drafts_say_what_a_table_is_like() {
    let schema = loans(Missing::Flag);
    let expected = json!({
        "version": 1,
        "owners": ["north", "south"],
        "target": { "name": "y", "classes": ["no", "yes"] },
        "missing": "flag",
        "unseen": "refuse",
        "columns": [
            { "name": "age", "kind": { "number": { "low": 30.0, "high": 50.0 } }, "missing": true },
            { "name": "purpose", "kind": { "categories": ["car", "home"] }, "missing": true },
            {
                "name": "income",
                "kind": { "number": { "low": -4.0, "high": 3000.0 } },
                "missing": false
            },
        ],
    });
    let text = schema.to_json().unwrap();
    assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), expected);
    assert_eq!(
        schema.columns(),
        ["age", "age missing", "purpose=car", "purpose=home", "purpose missing", "income"]
    );
    let bounds: Vec<(f64, f64)> = schema.bounds().iter().map(|b| (b.low, b.high)).collect();
    let binary = (0.0, 1.0);
    assert_eq!(bounds, [(30.0, 50.0), binary, binary, binary, binary, (-4.0, 3000.0)]);
    assert_eq!(schema.centers(), [40.0, 0.5, 0.5, 0.5, 0.5, 1498.0]);
    assert_eq!(schema.units(), [10.0, 0.5, 0.5, 0.5, 0.5, 1502.0]);
    assert_eq!((schema.owner("north"), schema.owner("south")), (Ok(0), Ok(1)));
    let unknown = PoolError::UnknownOwner { owner: "west".into(), owners: "north, south".into() };
    assert_eq!(schema.owner("west"), Err(unknown));
    assert_eq!(schema.classes(), ["no", "yes"]);
    // A missing number becomes the middle of its bounds.
    let table = apply(&schema, LOANS).unwrap();
    assert_eq!(table.values()[6..12], [40.0, 1.0, 0.0, 1.0, 0.0, 2000.0]);
}

#[test]
fn documents_survive_and_each_part_of_them_counts() {
    let schema = loans(Missing::Flag);
    let text = schema.to_json().unwrap();
    let again = Schema::from_json(&text).unwrap();
    assert_eq!((&again, again.digest()), (&schema, schema.digest()));
    assert_eq!(again.to_json().unwrap(), text);
    // The schema inside other documents and files.
    let inner: Schema = serde_json::from_str(&serde_json::to_string(&schema).unwrap()).unwrap();
    assert_eq!(inner, schema);
    let bytes = postcard::to_allocvec(&schema).unwrap();
    assert_eq!(postcard::from_bytes::<Schema>(&bytes).unwrap(), schema);

    for (place, value) in [
        ("/owners/1", json!("west")),
        ("/target/classes", json!(["yes", "no"])),
        ("/target/name", json!("z")),
        ("/unseen", json!("zero")),
        ("/columns/0/kind/number/high", json!(50.1)),
        ("/columns/1/missing", json!(false)),
        ("/columns/1/kind/categories/0", json!("boat")),
        ("/columns/2/name", json!("wages")),
    ] {
        let other = Schema::from_json(&edited(&text, place, value)).unwrap();
        assert_ne!(other.digest(), schema.digest(), "{place}");
    }
}

fn edited(text: &str, place: &str, value: Value) -> String {
    let mut document: Value = serde_json::from_str(text).unwrap();
    *document.pointer_mut(place).unwrap() = value;
    document.to_string()
}

#[test]
fn documents_that_contradict_themselves_are_refused() {
    let text = loans(Missing::Flag).to_json().unwrap();
    let number = |low: f64, high: f64| json!({ "number": { "low": low, "high": high } });
    let many = |count: usize| json!((0..count).map(|i| i.to_string()).collect::<Vec<_>>());
    for (place, value, part) in [
        ("/version", json!(2), "version 2, but this program reads 1"),
        ("/owners", json!([]), "0 owners"),
        ("/owners", many(1001), "1001 owners"),
        ("/owners/0", json!("south"), "called \"south\""),
        ("/owners/0", json!(""), "without a name"),
        ("/target/classes", json!(["no"]), "target \"y\" has 1 classes"),
        ("/target/classes", json!(["no", "no"]), "classes are not"),
        ("/target/classes", many(1001), "classes are not"),
        ("/target/name", json!("age"), "named \"age\""),
        ("/target/extra", json!(1), "extra"),
        ("/missing", json!("refuse"), "column \"age\" may be missing"),
        ("/missing", json!("fill"), "unknown variant `fill`"),
        ("/columns", json!([]), "no columns"),
        ("/columns/0/name", json!("income"), "named \"income\""),
        ("/columns/0/name", json!(""), "no name"),
        ("/columns/0/name", json!("purpose=car"), "purpose=car"),
        ("/columns/0/kind", number(5.0, 5.0), "column \"age\" has values from 5 to 5"),
        ("/columns/0/kind", number(5.0, 4.0), "from 5 to 4"),
        ("/columns/0/kind", number(0.0, 1e-310), "must be larger"),
        ("/columns/0/kind", json!({ "number": { "low": 1.0 } }), "high"),
        ("/columns/0/kind", json!({ "text": [] }), "unknown variant `text`"),
        ("/columns/1/kind/categories", json!([]), "categories are not"),
        ("/columns/1/kind/categories", json!(["a", "a"]), "categories are not"),
        ("/columns/1/kind/categories", many(1000), ""),
        ("/columns/1/kind/categories", many(1001), "categories are not"),
    ] {
        let mut document: Value = serde_json::from_str(&text).unwrap();
        match document.pointer_mut(place) {
            Some(old) => *old = value,
            None => document["target"]["extra"] = value,
        }
        match Schema::from_json(&document.to_string()) {
            Ok(_) => assert_eq!(part, "", "{place}"),
            Err(PoolError::Schema { problem }) => {
                assert!(!part.is_empty() && problem.contains(part), "{place}: {problem}");
            }
            Err(other) => panic!("{place}: {other}"),
        }
    }
    let mean = edited(&text, "/missing", json!("mean"));
    assert_eq!(Schema::from_json(&mean), Err(PoolError::FilledByMean));
    assert_eq!(draft(LOANS, &options(Missing::Mean, Unseen::Zero)), Err(PoolError::FilledByMean));
    assert!(matches!(Schema::from_json("{"), Err(PoolError::Schema { .. })));
    let infinite = text.replace("30.0", "1e999");
    assert!(matches!(Schema::from_json(&infinite), Err(PoolError::Schema { .. })));
    let columns: Vec<Value> =
        (0..1025).map(|at| json!({ "name": format!("c{at}"), "kind": number(0.0, 1.0) })).collect();
    let wide = edited(&text, "/columns", json!(columns));
    match Schema::from_json(&wide) {
        Err(PoolError::Schema { problem }) => assert!(problem.contains("1025"), "{problem}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn bundled_tables_are_as_their_drafts_say() {
    for name in Table::BUNDLED {
        let table = Table::bundled(name).unwrap();
        let frame = testkit::frame(&table);
        let schema =
            Schema::draft(&frame, Some("y"), &EncodingOptions::default(), &owners()).unwrap();
        assert_eq!(schema.apply(&frame).unwrap(), table);
        let again = Schema::from_json(&schema.to_json().unwrap()).unwrap();
        assert_eq!(again.apply(&frame).unwrap(), table);
    }
}

/// One column of each kind: numbers from 30 to 41, and the categories car and home.
const FEW: &str = "age,purpose,y\n30,car,no\n,car,no\n40.5,home,yes\n";

#[test]
fn columns_may_stand_in_any_order() {
    let schema = draft(FEW, &options(Missing::Drop, Unseen::Refuse)).unwrap();
    let one = apply(&schema, "age,purpose,y\n30,car,no\n31,home,yes\n").unwrap();
    let other = apply(&schema, "y;age;purpose\nno;30;car\nyes;31;home\n").unwrap();
    assert_eq!(one, other);
    assert_eq!(one.columns(), schema.columns());
    // A column of numbers that was read as text.
    let numbers = ["30", "31"].map(Some).into_iter().collect();
    let [purpose, target] = [["car", "home"], ["no", "yes"]].map(|v| v.map(Some));
    let text = |name: &str, column| (name.to_owned(), Some(column));
    let columns = vec![
        text("age", numbers),
        text("purpose", purpose.into_iter().collect()),
        text("y", target.into_iter().collect()),
    ];
    assert_eq!(schema.apply(&Frame::new(columns, vec![f64::NAN; 6]).unwrap()).unwrap(), one);
}

#[test]
fn values_unknown_to_a_schema_are_refused_with_their_place() {
    let schema = draft(FEW, &options(Missing::Drop, Unseen::Refuse)).unwrap();
    let cell = |column: &str, found: &str| {
        Box::new(Cell { place: Place::Line(4), column: column.into(), found: found.into() })
    };
    let outside = |found| PoolError::OutOfBounds {
        place: Place::Line(4),
        column: "age".into(),
        found,
        low: 30.0,
        high: 41.0,
    };
    // The line after a dropped row.
    let last = |row: &str| apply(&schema, &format!("age,purpose,y\n30,car,no\n,car,no\n{row}\n"));
    assert_eq!(last("41,car,no").unwrap().rows(), 2);
    assert_eq!(last("41.1,car,no"), Err(outside(41.1)));
    assert_eq!(last("-29,car,no"), Err(outside(-29.0)));
    let unseen =
        TableError::UnseenCategory { cell: cell("purpose", "boat"), known: "car, home".into() };
    assert_eq!(last("31,boat,no"), Err(unseen.into()));
    let unknown =
        TableError::UnknownClass { cell: cell("y", "perhaps"), classes: "no, yes".into() };
    assert_eq!(last("31,car,perhaps"), Err(unknown.into()));
    for (text, part) in [
        ("age,y\n30,no\n", "the table lacks purpose"),
        ("age,purpose\n30,car\n", "the table lacks y"),
        ("age,purpose,y,z\n30,car,no,1\n", "the table has z in addition"),
    ] {
        let refused = apply(&schema, text).unwrap_err().to_string();
        assert!(refused.contains(part), "{refused}");
    }
    let message = outside(41.1).to_string();
    assert!(message.contains("line 4, column \"age\": found 41.1"), "{message}");
    assert!(message.contains("from 30 to 41"), "{message}");

    // Or zeros in all its columns.
    let schema = draft(FEW, &options(Missing::Drop, Unseen::Zero)).unwrap();
    let table = apply(&schema, "age,purpose,y\n30,boat,no\n").unwrap();
    assert_eq!(table.values(), [30.0, 0.0, 0.0]);
}

#[test]
fn gaps_are_filled_only_where_a_column_tells() {
    for unseen in [Unseen::Refuse, Unseen::Zero] {
        let schema = draft(FEW, &options(Missing::Flag, unseen)).unwrap();
        assert_eq!(schema.columns(), ["age", "age missing", "purpose=car", "purpose=home"]);
        let table = apply(&schema, "age,purpose,y\n,car,no\n").unwrap();
        assert_eq!(table.values(), [35.5, 1.0, 1.0, 0.0]);
        let gap = PoolError::Missing { place: Place::Line(3), column: "purpose".into() };
        assert_eq!(apply(&schema, "age,purpose,y\n,car,no\n31,,no\n"), Err(gap));
    }
    let schema = draft(FEW, &options(Missing::Drop, Unseen::Refuse)).unwrap();
    let text = schema.to_json().unwrap().replace("drop", "refuse");
    let schema = Schema::from_json(&text).unwrap();
    let options = ReadOptions { missing: true, ..schema.read_options() };
    let frame = Frame::from_csv(Cursor::new(FEW), &options).unwrap();
    let gap = TableError::Gap { place: Place::Line(3), column: "age".into() };
    assert_eq!(schema.apply(&frame), Err(gap.into()));
}

#[test]
fn bounds_are_rounded_outward() {
    for (x, below, above) in [
        (0.0, 0.0, 0.0),
        (18.0, 18.0, 18.0),
        (18.01, 18.0, 19.0),
        (-18.01, -19.0, -18.0),
        (999.0, 990.0, 1000.0),
        (0.3, 0.3, 0.3),
        (0.301, 0.3, 0.31),
        (-1e-7, -1e-7, -1e-7),
        (f64::MAX, 1.7e308, f64::MAX),
        (f64::MIN, f64::MIN, -1.7e308),
        (5e-324, 5e-324, 5e-324),
    ] {
        assert_eq!((two_digits(x, false), two_digits(x, true)), (below, above), "{x}");
    }
    let around = |values: &[f64]| {
        let Bounds { low, high } = Bounds::around(values.iter().copied());
        (low, high)
    };
    assert_eq!(around(&[4.14, -271.8, 0.0]), (-280.0, 4.2));
    // Bounds of a constant column have a width.
    assert_eq!(around(&[5.0, 5.0]), (4.5, 5.5));
    assert_eq!(around(&[0.0]), (-1.0, 1.0));
    assert_eq!(around(&[f64::MAX]), (1.6e308, f64::MAX));
}

proptest! {
    #[test]
    fn bounds_hold_the_values(values in prop::collection::vec(prop::num::f64::NORMAL, 1..5)) {
        let bounds = Bounds::around(values.iter().copied());
        prop_assert!(values.iter().all(|&x| bounds.hold(x)));
        prop_assert!(bounds.unit() > 0.0);
        for bound in [bounds.low, bounds.high] {
            let digits = format!("{bound:e}").split('e').next().unwrap().replace(['-', '.'], "");
            prop_assert!(digits.len() <= 2 || bound.abs() == f64::MAX, "{bound}");
        }
    }
}

use std::{collections::BTreeMap, io::Cursor};

use proptest::prelude::*;

use super::{
    super::{Cell, Place, TextColumn},
    *,
};

fn options(categorical: Categorical, missing: Missing, unseen: Unseen) -> EncodingOptions {
    EncodingOptions { categorical, missing, unseen, ..EncodingOptions::default() }
}

fn every(missing: Missing) -> EncodingOptions {
    options(Categorical::Every, missing, Unseen::Refuse)
}

/// The frame of a text, read as an encoding with these options needs it.
fn read(text: &str, options: &EncodingOptions) -> Frame {
    Frame::from_csv(Cursor::new(text), &options.read_options(Some("y"))).unwrap()
}

/// The encoding of a text with the target `y`, if it has one.
fn fit(text: &str, options: &EncodingOptions) -> Result<Encoding, TableError> {
    let frame = read(text, options);
    let target = frame.columns().iter().find(|column| *column == "y");
    Encoding::fit(&frame, target.map(String::as_str), options)
}

/// The table of the text that the encoding was fitted to, and of another.
fn apply(encoding: &Encoding, text: &str) -> Result<Table, TableError> {
    encoding.apply(Frame::from_csv(Cursor::new(text), &encoding.read_options())?)
}

const LOANS: &str = "age,purpose,income,y\n30,car,1,no\n,home,2,yes\n50,,3,no\n40,car,4,yes\n";

#[test]
fn means_fill_gaps_and_flags_tell_where() {
    for missing in [Missing::Mean, Missing::Flag] {
        let encoding = fit(LOANS, &every(missing)).unwrap();
        let table = apply(&encoding, LOANS).unwrap();
        let flag = missing == Missing::Flag;
        let mut columns =
            vec!["age", "age missing", "purpose=car", "purpose=home", "purpose missing", "income"];
        let mut rows = [
            vec![30.0, 0.0, 1.0, 0.0, 0.0, 1.0],
            vec![40.0, 1.0, 0.0, 1.0, 0.0, 2.0],
            vec![50.0, 0.0, 0.0, 0.0, 1.0, 3.0],
            vec![40.0, 0.0, 1.0, 0.0, 0.0, 4.0],
        ];
        if !flag {
            columns.remove(1);
            rows.iter_mut().for_each(|row| {
                row.remove(1);
            });
        }
        assert_eq!(table.columns(), columns);
        assert_eq!(encoding.columns(), columns);
        assert_eq!(encoding.inputs().collect::<Vec<_>>(), ["age", "purpose", "income"]);
        assert_eq!(table.values(), rows.concat());
        assert_eq!((table.target(), encoding.target()), (Some("y"), Some("y")));
        assert_eq!(
            (table.classes().unwrap(), encoding.classes()),
            (&["no".into(), "yes".into()][..], table.classes().unwrap())
        );
        assert_eq!(table.labels().unwrap(), [false, true, false, true]);
        assert_eq!((table.dropped(), encoding.is_plain()), (0, false));

        // Later rows: a value that was never missing before is filled without a flag, columns may
        // have another order, and the target may be absent.
        let later = apply(&encoding, "income;purpose;age\nNA;home;2,5\n").unwrap();
        let mut expected = vec![2.5, 0.0, 0.0, 1.0, 0.0, 2.5];
        if !flag {
            expected.remove(1);
        }
        assert_eq!((later.columns(), later.values()), (table.columns(), &expected[..]));
        assert_eq!(later.labels(), Err(TableError::NoTarget));
    }
}

#[test]
fn words_for_missing_numbers_are_categories_in_text() {
    // Namibia is a category of its own, and its rows are kept.
    let text = "x,k,y\n1,NA,0\n2,DE,1\n,NA,0\n4,,1\n";
    for missing in [Missing::Drop, Missing::Mean, Missing::Flag] {
        let encoding = fit(text, &every(missing)).unwrap();
        assert!(encoding.columns().contains(&"k=NA".into()), "{missing:?}");
        let table = apply(&encoding, text).unwrap();
        assert_eq!(table.rows(), if missing == Missing::Drop { 2 } else { 4 });
    }
    // An encoding of an earlier version, without such a category, treats them as missing.
    let encoding = fit("k,y\nDE,0\n,1\nZA,1\n", &every(Missing::Mean)).unwrap();
    assert_eq!(apply(&encoding, "k\nNA\n-\n").unwrap().values(), [0.0, 0.0, 1.0, 0.0, 0.0, 1.0]);
    let strict = fit("k,y\nDE,0\nZA,1\n", &every(Missing::Mean)).unwrap();
    assert!(matches!(apply(&strict, "k\nNA\n"), Err(TableError::UnseenCategory { .. })));
}

#[test]
fn names_that_differ_by_accents_are_shown_apart() {
    let encoding = fit("caf\u{e9},x\n1,2\n", &EncodingOptions::default()).unwrap();
    let error = apply(&encoding, "cafe\u{301},x\n1,2\n").unwrap_err().to_string();
    assert!(error.contains("cafe\\u{301}") && error.contains("NFC"), "{error}");
    let encoding = fit("cafe\u{301},x\n1,2\n", &EncodingOptions::default()).unwrap();
    let error = apply(&encoding, "caf\u{e9},x\n1,2\n").unwrap_err().to_string();
    assert!(error.contains("caf\\u{e9}") && error.contains("NFC"), "{error}");
    for other in ["cafe", "caf\u{e9}s", "tee\u{301}"] {
        let error = apply(&encoding, &format!("{other},x\n1,2\n")).unwrap_err().to_string();
        assert!(!error.contains("NFC"), "{other}: {error}");
    }
}

#[test]
fn rows_that_lack_anything_are_dropped() {
    let text = "a,b,y\n1,x,0\n,x,1\n2,z,\n3,,1\n4,w,1\n";
    let encoding = fit(text, &every(Missing::Drop)).unwrap();
    let table = apply(&encoding, text).unwrap();
    // No remaining row has "z".
    assert_eq!(table.columns(), ["a", "b=w", "b=x"]);
    assert_eq!(table.values(), [1.0, 0.0, 1.0, 4.0, 1.0, 0.0]);
    assert_eq!((table.labels().unwrap(), table.dropped()), (vec![false, true], 3));
    // A row with a missing value is dropped even if its category is unknown.
    let later = apply(&encoding, "a,b\n,new\n7,x\n").unwrap();
    assert_eq!((later.values(), later.dropped()), (&[7.0, 0.0, 1.0][..], 1));
    assert_eq!(apply(&encoding, "a,b\n,x\n1,\n"), Err(TableError::NoCompleteRow { rows: 2 }));
    assert_eq!(
        fit("a,b,y\n1,,0\n,x,1\n", &every(Missing::Drop)),
        Err(TableError::NoCompleteRow { rows: 2 })
    );
}

#[test]
fn numbers_are_moved() {
    let numbers: Vec<f64> = (0..12).map(f64::from).collect();
    let place = numbers.as_ptr();
    let columns = ["a", "b", "y", "c"].map(|name| (name.to_owned(), None)).to_vec();
    let frame = Frame::new(columns, numbers).unwrap();
    let encoding = Encoding::fit(&frame, Some("y"), &EncodingOptions::default()).unwrap();
    let table = encoding.apply(frame).unwrap();
    assert_eq!(table.values(), [0.0, 1.0, 3.0, 4.0, 5.0, 7.0, 8.0, 9.0, 11.0]);
    assert_eq!(table.values().as_ptr(), place);
    assert_eq!(table.classes().unwrap(), ["2", "6", "10"]);
    assert_eq!(table.members().unwrap(), [0, 1, 2]);
}

#[test]
fn defaults_refuse_text_and_gaps() {
    let refuse = EncodingOptions::default();
    let frame = |b: Option<TextColumn>, a: f64| {
        Frame::new(vec![("a".into(), None), ("b".into(), b)], vec![1.0, 2.0, a, 4.0]).unwrap()
    };
    let text: TextColumn = [Some("1"), Some("x")].into_iter().collect();
    let place = Place::Row(1);
    let column = "b".to_owned();
    assert_eq!(
        Encoding::fit(&frame(Some(text.clone()), 3.0), None, &refuse),
        Err(TableError::Text { place, column, found: "x".into() })
    );
    // Labels may have them.
    let labelled = Encoding::fit(&frame(Some(text), 3.0), Some("b"), &refuse).unwrap();
    assert_eq!((labelled.classes(), labelled.is_plain()), (&["1".into(), "x".into()][..], false));
    let gap = |column: &str| Err(TableError::Gap { place, column: column.into() });
    assert_eq!(Encoding::fit(&frame(None, f64::NAN), None, &refuse), gap("a"));
    assert_eq!(Encoding::fit(&frame(None, f64::NAN), Some("a"), &refuse), gap("a"));
    assert_eq!(Encoding::fit(&frame(None, f64::NAN), Some("a"), &every(Missing::Mean)), gap("a"));
    let plain = Encoding::fit(&frame(None, 3.0), None, &refuse).unwrap();
    assert!(plain.is_plain());
    let applied = plain.apply(frame(None, f64::NAN));
    assert_eq!(applied.unwrap_err(), gap("a").unwrap_err());
    assert!(!Encoding::fit(&frame(None, 3.0), None, &every(Missing::Drop)).unwrap().is_plain());
    // Text that is numbers counts as numbers, unless the options declare it as categories.
    let text: TextColumn = [Some("1"), Some("2.5")].into_iter().collect();
    let table = Encoding::fit(&frame(Some(text.clone()), 3.0), None, &refuse).unwrap();
    assert_eq!(table.apply(frame(Some(text.clone()), 3.0)).unwrap().values(), [1.0, 1.0, 3.0, 2.5]);
    let mean = options(Categorical::None, Missing::Mean, Unseen::Refuse);
    let filled = Encoding::fit(&frame(Some(text), 3.0), None, &mean).unwrap();
    let gap = [None, Some("9")].into_iter().collect();
    assert_eq!(filled.apply(frame(Some(gap), 3.0)).unwrap().values(), [1.0, 1.75, 3.0, 9.0]);
}

#[test]
fn categories_of_any_kind() {
    let value = "a, \"b\"=\nc";
    let text = format!("v;x\n\"{}\";10\nplain;9\n;10\n", value.replace('"', "\"\""));
    let columns = Categorical::Columns(vec!["v".into(), "x".into()]);
    let both = options(columns, Missing::Mean, Unseen::Refuse);
    let encoding = fit(&text, &both).unwrap();
    let names = [&format!("v={value}"), "v=plain", "v missing", "x=9", "x=10"];
    assert_eq!(encoding.columns(), names);
    let expected =
        [[1.0, 0.0, 0.0, 0.0, 1.0], [0.0, 1.0, 0.0, 1.0, 0.0], [0.0, 0.0, 1.0, 0.0, 1.0]];
    assert_eq!(apply(&encoding, &text).unwrap().values(), expected.concat());

    // Numbers in memory or in a Parquet file are the same categories.
    let text = ["plain", "plain"].map(Some).into_iter().collect();
    let columns = vec![("x".into(), None), ("v".into(), Some(text))];
    let frame = Frame::new(columns, vec![10.0, 0.0, 9.0, 0.0]).unwrap();
    let values = encoding.apply(frame).unwrap();
    assert_eq!(values.values()[..5], [0.0, 1.0, 0.0, 0.0, 1.0]);
}

#[test]
fn unseen_categories() {
    let text = "a,v\n1,x\n2,y\n";
    let refusing = fit(text, &every(Missing::Mean)).unwrap();
    let error = apply(&refusing, "a,v\n1,x\n2,new\n").unwrap_err();
    let place = Place::Line(3);
    let column = "v".to_owned();
    let found = "new".to_owned();
    let cell = Box::new(Cell { place, column, found });
    let known = "x, y".to_owned();
    assert_eq!(error, TableError::UnseenCategory { cell, known });
    assert!(error.to_string().starts_with("line 3, column \"v\": found \"new\", but"), "{error}");
    let zero = options(Categorical::Every, Missing::Mean, Unseen::Zero);
    let lenient = fit(text, &zero).unwrap();
    let table = apply(&lenient, "v,a\nnew,5\n,6\ny,7\n").unwrap();
    assert_eq!(table.values(), [5.0, 0.0, 0.0, 6.0, 0.0, 0.0, 7.0, 0.0, 1.0]);
    // A missing category is unseen, too, if none was missing before.
    let gap = TableError::Gap { place: Place::Line(2), column: "v".into() };
    assert_eq!(apply(&refusing, "a,v\n1,\n"), Err(gap.clone()));
    // It is refused where missing values are refused.
    let zero = options(Categorical::Every, Missing::Refuse, Unseen::Zero);
    let zero = fit(text, &zero).unwrap();
    assert_eq!(apply(&zero, "a,v\n1,\n"), Err(gap));
    let gap = TableError::Gap { place: Place::Row(0), column: "v".into() };
    let missing: TextColumn = [None::<&str>].into_iter().collect();
    let columns = vec![("a".into(), None), ("v".into(), Some(missing))];
    assert_eq!(zero.apply(Frame::new(columns, vec![1.0, 0.0]).unwrap()), Err(gap));
}

#[test]
fn labels_of_any_kind() {
    let none = EncodingOptions::default();
    let classes = |labels: &[&str]| {
        let rows: String = labels.iter().map(|label| format!("1,{label}\n")).collect();
        let encoding = fit(&format!("a,y\n{rows}"), &none).unwrap();
        let table = apply(&encoding, &format!("a,y\n{rows}")).unwrap();
        assert_eq!(table.classes().unwrap(), encoding.classes());
        (encoding.classes().join(" "), table.members().unwrap().to_vec(), encoding.is_plain())
    };
    assert_eq!(classes(&["1", "0", "1.0"]), ("0 1".into(), vec![1, 0, 1], true));
    assert_eq!(classes(&["1", "1"]), ("0 1".into(), vec![1, 1], true));
    assert_eq!(classes(&["10", "9", "-1"]), ("-1 9 10".into(), vec![2, 1, 0], false));
    assert_eq!(classes(&["1", "2", "1"]), ("1 2".into(), vec![0, 1, 0], false));
    assert_eq!(classes(&["b", "a", "c"]), ("a b c".into(), vec![1, 0, 2], false));
    assert_eq!(classes(&["1", "yes"]), ("1 yes".into(), vec![0, 1], false));
    assert_eq!(classes(&["only"]), ("only".into(), vec![0], false));

    let text = "a,y\n1,no\n2,yes\n3,no\n";
    let encoding = fit(text, &none).unwrap();
    let unknown = apply(&encoding, "a,y\n1,no\n2,perhaps\n").unwrap_err();
    let place = Place::Line(3);
    let column = "y".to_owned();
    let found = "perhaps".to_owned();
    let cell = Box::new(Cell { place, column, found });
    let classes = "no, yes".to_owned();
    assert_eq!(unknown, TableError::UnknownClass { cell, classes });
    let gap = TableError::Gap { place: Place::Line(2), column: "y".into() };
    assert_eq!(apply(&encoding, "a,y\n1,\n"), Err(gap.clone()));
    let gap = TableError::Gap { place: Place::Line(4), column: "y".into() };
    let filling = every(Missing::Mean);
    assert_eq!(fit("a,y\n1,no\n2,yes\n3,\n", &filling), Err(gap));

    // Numbers may be written in other ways than before, text may not.
    let numbers = fit("a;y\n1;0\n2;2,5\n", &none).unwrap();
    for text in ["a;y\n1;2,50\n2;-0\n", "a,y\n1,2.5\n2,0e1\n"] {
        assert_eq!(apply(&numbers, text).unwrap().members().unwrap(), [1, 0]);
    }
    // A mistake turns all labels into text, but only the mistake is refused.
    let error = apply(&numbers, "a,y\n1,2.50\n2,x\n").unwrap_err();
    let place = Place::Line(3);
    let column = "y".to_owned();
    let found = "x".to_owned();
    let cell = Box::new(Cell { place, column, found });
    let classes = "0, 2.5".to_owned();
    assert_eq!(error, TableError::UnknownClass { cell, classes });
    let columns = Categorical::Columns(vec!["y".into()]);
    let codes = fit("a,y\n1,01\n2,2\n", &options(columns, Missing::Refuse, Unseen::Refuse));
    let codes = codes.unwrap();
    assert_eq!(codes.classes(), ["01", "2"]);
    assert_eq!(apply(&codes, "a,y\n1,2\n2,01\n").unwrap().members().unwrap(), [1, 0]);
    assert!(matches!(apply(&codes, "a,y\n1,1\n"), Err(TableError::UnknownClass { .. })));

    let three = apply(&fit("a,y\n1,x\n2,y\n3,z\n", &none).unwrap(), "a,y\n1,x\n2,y\n").unwrap();
    let column = "y".into();
    let count = 3;
    let classes = "x, y, z".into();
    assert_eq!(three.labels(), Err(TableError::NotTwoClasses { column, count, classes }));
    assert_eq!(three.check_for_training(), Ok(()));
}

#[test]
fn columns_are_matched_by_name() {
    let encoding = fit("a,b,y\n1,2,0\n3,4,1\n", &EncodingOptions::default()).unwrap();
    let table = apply(&encoding, "y,b,a\n1,2,1\n").unwrap();
    assert_eq!((table.values(), table.labels().unwrap()), (&[1.0, 2.0][..], vec![true]));
    let missing = "a, b".to_owned();
    let columns = "c, y".to_owned();
    assert_eq!(
        apply(&encoding, "c,y\n1,1\n"),
        Err(TableError::MissingColumns { missing, columns })
    );
    let surplus = "c, d".to_owned();
    let columns = "a, b, y".to_owned();
    assert_eq!(
        apply(&encoding, "a,c,b,d\n1,1,2,1\n"),
        Err(TableError::SurplusColumns { surplus, columns })
    );
    // A target that the encoding does not know is surplus, too.
    let unlabelled = fit("a,b\n1,2\n", &EncodingOptions::default()).unwrap();
    assert!(matches!(apply(&unlabelled, "a,b,y\n1,2,1\n"), Err(TableError::SurplusColumns { .. })));
}

#[test]
fn fits_that_are_refused() {
    let frame = read("a,v,y\n1,x,0\n,x,1\n,z,1\n", &every(Missing::Mean));
    let fit_to =
        |target, options: &EncodingOptions| Encoding::fit(&frame, target, options).unwrap_err();
    let unknown = fit_to(Some("w"), &every(Missing::Mean));
    assert!(matches!(unknown, TableError::UnknownTarget { .. }), "{unknown}");
    let columns = Categorical::Columns(vec!["v".into(), "w".into()]);
    let unknown = fit_to(Some("y"), &options(columns, Missing::Mean, Unseen::Refuse));
    assert!(matches!(unknown, TableError::UnknownColumns { .. }), "{unknown}");

    let missing = |text: &str, missing| fit(text, &every(missing)).unwrap_err();
    for how in [Missing::Mean, Missing::Flag, Missing::Drop] {
        let column = "b".to_owned();
        assert_eq!(missing("a,b\n1,\n2,NA\n", how), TableError::AllMissing { column });
    }
    let columns = Categorical::Columns(vec!["b".into()]);
    let all = fit("a,b\n1,\n2,\n", &options(columns, Missing::Mean, Unseen::Refuse));
    assert_eq!(all, Err(TableError::AllMissing { column: "b".into() }));
    let only = fit("y\n1\n2\n", &every(Missing::Mean)).unwrap_err();
    assert_eq!(only, TableError::Empty { rows: 2, features: 0 });

    // Codes of two columns with one name.
    for (text, name) in [
        ("a;a=b\nb=c;c\nd;e\n", "a=b=c"),
        ("x missing;x\n1;\n2;3\n", "x missing"),
        ("p=a,p\n1,a\n2,b\n", "p=a"),
    ] {
        let error = fit(text, &every(Missing::Flag)).unwrap_err();
        let TableError::EncodedName { name: found, first, second } = &error else {
            panic!("{error}");
        };
        assert_eq!(found, name);
        assert!(first != second && text.contains(first.as_str()), "{error}");
    }
    let error = fit("y;x\n1;=\n0;b\n", &every(Missing::Flag)).map(|_| ());
    assert_eq!(error, Ok(()));
}

#[test]
fn categories_are_limited() {
    let text = |count: usize| {
        let rows: String = (0..count).map(|row| format!("c{row},{row}\n")).collect();
        format!("id,y\n{rows}")
    };
    let refused = |text: &str, column: &str, found| {
        let error = fit(text, &every(Missing::Refuse)).unwrap_err();
        let column = column.to_owned();
        assert_eq!(error, TableError::TooManyCategories { column, found, limit: 1000 });
    };
    refused(&text(100_000).replace(",y\n", ",b\n"), "id", 100_000);
    refused(&text(1001).replace(",y\n", ",b\n"), "id", 1001);
    let both = fit(&text(1001), &every(Missing::Refuse)).unwrap_err();
    assert!(matches!(&both, TableError::Several { faults } if faults.len() == 2), "{both}");
    refused(&text(1001).replace('c', ""), "y", 1001);
    let encoding = fit(&text(1000), &every(Missing::Refuse)).unwrap();
    assert_eq!((encoding.columns().len(), encoding.classes().len()), (1000, 1000));
}

/// Encodings that would need too much memory are rejected before it is allocated.
#[test]
fn features_are_limited() {
    let columns = |rows: usize| {
        let text: TextColumn = (0..rows).map(|row| Some((row % 1000).to_string())).collect();
        (0..20).map(move |at| (format!("c{at}"), Some(text.clone()))).collect::<Vec<_>>()
    };
    let few = Frame::new(columns(1000), vec![0.0; 20 * 1000]).unwrap();
    let encoding = Encoding::fit(&few, None, &every(Missing::Refuse)).unwrap();
    let many = Frame::new(columns(20_000), vec![0.0; 20 * 20_000]).unwrap();
    let limit = Table::DEFAULT_MAX_CELLS;
    assert_eq!(
        encoding.apply(many),
        Err(TableError::TooLarge { rows: 20_000, columns: 20_000, limit })
    );
}

#[test]
fn extreme_numbers_are_filled() {
    let text = "a,b\n1e300,1e-300\n1e300,\n,3e-300\n1.7e308,5e-324\n";
    let table = apply(&fit(text, &every(Missing::Mean)).unwrap(), text).unwrap();
    let a = table.values()[4];
    let b = table.values()[3];
    assert!((a / ((1e300 + 1e300 + 1.7e308) / 3.0) - 1.0).abs() < 1e-14, "{a}");
    assert!((b / (4e-300 / 3.0) - 1.0).abs() < 1e-14, "{b}");
}

#[test]
fn encodings_are_written_plainly() {
    let encoding = fit(LOANS, &every(Missing::Flag)).unwrap();
    let text = serde_json::to_string(&encoding).unwrap();
    let expected = [
        r#"{"inputs":[{"name":"age","code":{"number":{"mean":40.0,"flag":true}}},"#,
        r#"{"name":"purpose","code":{"categories":{"values":["car","home"],"missing":true}}},"#,
        r#"{"name":"income","code":{"number":{"mean":2.5,"flag":false}}}],"#,
        r#""target":{"name":"y","classes":["no","yes"]},"missing":"flag","unseen":"refuse"}"#,
    ];
    assert_eq!(text, expected.concat());
    for (from, to, part) in [
        (r#"40.0"#, "null", "gaps"),
        (r#""mean":2.5,"flag":false"#, r#""mean":null,"flag":false"#, "gaps"),
        (r#""flag","unseen""#, r#""mean","unseen""#, "gaps"),
        (r#""flag","unseen""#, r#""refuse","unseen""#, "gaps"),
        (r#"["car","home"]"#, r#"["car","car"]"#, "categories"),
        (r#"["car","home"]"#, "[]", "categories"),
        (r#"["no","yes"]"#, r#"["no","no"]"#, "classes"),
        (r#"["no","yes"]"#, "[]", "classes"),
        (r#""name":"income""#, r#""name":"age""#, "\"age\""),
        (r#""name":"income""#, r#""name":"""#, "no name"),
        (r#""name":"income""#, r#""name":"y""#, "\"y\""),
        (r#""name":"income""#, r#""name":"purpose=car""#, "purpose=car"),
        (r#""unseen""#, r#""more":1,"unseen""#, "more"),
    ] {
        let changed = text.replacen(from, to, 1);
        assert_ne!(changed, text, "{from}");
        let error = serde_json::from_str::<Encoding>(&changed).unwrap_err().to_string();
        assert!(error.contains(part), "{changed}: {error}");
    }
    let dropping = [
        r#"{"inputs":[{"name":"v","code":{"categories":{"values":["a"],"missing":true}}}],"#,
        r#""target":null,"missing":"drop","unseen":"refuse"}"#,
    ]
    .concat();
    let error = serde_json::from_str::<Encoding>(&dropping).unwrap_err().to_string();
    assert!(error.contains("gaps"), "{error}");
    assert!(serde_json::from_str::<Encoding>(&dropping.replace("true", "false")).is_ok());
    let none = r#"{"inputs":[],"target":null,"missing":"refuse","unseen":"refuse"}"#;
    assert!(serde_json::from_str::<Encoding>(none).is_err());
    // JSON has no infinite numbers, other formats have.
    let mut infinite = encoding.clone();
    infinite.parts.inputs[0].code = Code::Number { mean: Some(f64::INFINITY), flag: true };
    let bytes = postcard::to_allocvec(&infinite).unwrap();
    assert!(postcard::from_bytes::<Encoding>(&bytes).is_err());
    let bytes = postcard::to_allocvec(&encoding).unwrap();
    assert_eq!(postcard::from_bytes::<Encoding>(&bytes).unwrap(), encoding);
}

/// A column of a frame in a test.
#[derive(Debug, Clone)]
enum Column {
    Numbers(Vec<Option<f64>>),
    Text(Vec<Option<String>>),
}

impl Column {
    fn is_missing(&self, row: usize) -> bool {
        match self {
            Self::Numbers(numbers) => numbers[row].is_none(),
            Self::Text(texts) => texts[row].is_none(),
        }
    }
}

/// Columns of three to twelve rows, none without a value.
fn any_columns() -> impl Strategy<Value = Vec<Column>> {
    (3_usize..12).prop_flat_map(|rows| {
        let number = prop::option::weighted(0.8, (-20..20).prop_map(|x| f64::from(x) / 4.0));
        let text = prop::option::weighted(0.8, "[a-d=]{0,1}|1|10|9");
        let numbers = prop::collection::vec(number, rows).prop_map(Column::Numbers);
        let texts = prop::collection::vec(text, rows).prop_map(Column::Text);
        let column = prop_oneof![numbers, texts]
            .prop_filter("a value", move |column| (0..rows).any(|row| !column.is_missing(row)));
        prop::collection::vec(column, 2..6)
    })
}

fn rows_of(columns: &[Column]) -> usize {
    match &columns[0] {
        Column::Numbers(numbers) => numbers.len(),
        Column::Text(texts) => texts.len(),
    }
}

/// The frame of columns `c0`, `c1` and so on, in this order.
fn frame_of(columns: &[Column], order: &[usize]) -> Frame {
    let rows = rows_of(columns);
    let mut numbers = vec![0.0; rows * order.len()];
    let mut named = Vec::new();
    for (place, &at) in order.iter().enumerate() {
        named.push((
            format!("c{at}"),
            match &columns[at] {
                Column::Text(texts) => Some(texts.iter().map(Option::as_ref).collect()),
                Column::Numbers(column) => {
                    for (row, number) in column.iter().enumerate() {
                        numbers[row * order.len() + place] = number.unwrap_or(f64::NAN);
                    }
                    None
                }
            },
        ));
    }
    Frame::new(named, numbers).unwrap()
}

/// Values in order: of numbers if all are numbers.
fn sorted(values: impl Iterator<Item = String>) -> Vec<String> {
    let mut values: Vec<String> = values.collect();
    values.sort();
    values.dedup();
    if values.iter().all(|value| value.parse::<f64>().is_ok()) {
        values.sort_by(|a, b| a.parse::<f64>().unwrap().total_cmp(&b.parse().unwrap()));
    }
    values
}

/// An encoder that goes column by column: names and values of the features, and the label of each
/// row that is kept.
fn naive(
    columns: &[Column],
    target: Option<usize>,
    missing: Missing,
) -> (BTreeMap<String, Vec<f64>>, Vec<String>) {
    let keeps = |row: &usize| {
        missing != Missing::Drop || !columns.iter().any(|column| column.is_missing(*row))
    };
    let rows: Vec<usize> = (0..rows_of(columns)).filter(keeps).collect();
    let mut features = BTreeMap::new();
    for (at, column) in columns.iter().enumerate().filter(|(at, _)| Some(*at) != target) {
        let has_gaps =
            missing != Missing::Drop && (0..rows_of(columns)).any(|row| column.is_missing(row));
        let flags =
            || rows.iter().map(|&row| f64::from(u8::from(column.is_missing(row)))).collect();
        match column {
            Column::Numbers(numbers) => {
                let present: Vec<f64> = numbers.iter().flatten().copied().collect();
                let mean = present.iter().sum::<f64>() / present.len() as f64;
                let filled = rows.iter().map(|&row| numbers[row].unwrap_or(mean)).collect();
                features.insert(format!("c{at}"), filled);
                if has_gaps && missing == Missing::Flag {
                    features.insert(format!("c{at} missing"), flags());
                }
            }
            Column::Text(texts) => {
                for value in sorted(rows.iter().filter_map(|&row| texts[row].clone())) {
                    let is =
                        |&row: &usize| f64::from(u8::from(texts[row].as_ref() == Some(&value)));
                    features.insert(format!("c{at}={value}"), rows.iter().map(is).collect());
                }
                if has_gaps {
                    features.insert(format!("c{at} missing"), flags());
                }
            }
        }
    }
    let label = |row: &usize| match &columns[target?] {
        Column::Numbers(numbers) => numbers[*row].map(|number| number.to_string()),
        Column::Text(texts) => texts[*row].clone(),
    };
    (features, rows.iter().filter_map(label).collect())
}

fn same(table: &Table, other: &Table) -> bool {
    let bits = |table: &Table| table.values().iter().map(|x| x.to_bits()).collect::<Vec<_>>();
    table == other && bits(table) == bits(other)
}

proptest! {
    #[test]
    fn encodings_are_as_a_naive_encoder_has_them(
        columns in any_columns(),
        target in prop::option::of(0_usize..2),
        missing in prop::sample::select(vec![Missing::Mean, Missing::Flag, Missing::Drop]),
        shuffled in Just(()).prop_perturb(|(), mut random| random.random::<u64>()),
    ) {
        let order: Vec<usize> = (0..columns.len()).collect();
        let frame = || frame_of(&columns, &order);
        let (features, labels) = naive(&columns, target, missing);
        let target_name = target.map(|at| format!("c{at}"));
        let fitted = Encoding::fit(&frame(), target_name.as_deref(), &every(missing));
        let some_lack_labels = target.is_some() && labels.len() < rows_of(&columns);
        if some_lack_labels && missing != Missing::Drop {
            let gap = matches!(fitted, Err(TableError::Gap { .. }));
            prop_assert!(gap);
            return Ok(());
        }
        let rows = features.values().map(Vec::len).max().unwrap_or(0);
        if rows == 0 {
            let none = matches!(fitted, Err(TableError::NoCompleteRow { .. }));
            prop_assert!(none);
            return Ok(());
        }
        let encoding = fitted.unwrap();
        let table = encoding.apply(frame()).unwrap();
        prop_assert_eq!(table.rows(), rows);
        prop_assert_eq!(table.dropped(), rows_of(&columns) - rows);
        prop_assert_eq!(table.features(), features.len());
        for (at, name) in table.columns().iter().enumerate() {
            for (found, expected) in table.column(at).zip(&features[name]) {
                prop_assert!((found - expected).abs() < 1e-12, "{name}: {found} for {expected}");
            }
        }
        if target.is_some() {
            let name = |&class: &u32| table.classes().unwrap()[class as usize].clone();
            let names: Vec<String> = table.members().unwrap().iter().map(name).collect();
            prop_assert_eq!(names, labels.clone());
            let classes = sorted(labels.into_iter());
            let binary = classes.iter().all(|class| class == "0" || class == "1");
            let classes = if binary { vec!["0".to_owned(), "1".to_owned()] } else { classes };
            prop_assert_eq!(table.classes().unwrap(), classes);
        }

        // In another order of columns, and after a round trip.
        let mut other = order.clone();
        other.rotate_left(shuffled as usize % columns.len());
        if shuffled & 1 << 40 == 0 {
            other.reverse();
        }
        prop_assert!(same(&encoding.apply(frame_of(&columns, &other)).unwrap(), &table));
        let json = serde_json::to_string(&encoding).unwrap();
        let json: Encoding = serde_json::from_str(&json).unwrap();
        let bytes = postcard::to_allocvec(&encoding).unwrap();
        let bytes: Encoding = postcard::from_bytes(&bytes).unwrap();
        for travelled in [json, bytes] {
            prop_assert_eq!(&travelled, &encoding);
            prop_assert!(same(&travelled.apply(frame()).unwrap(), &table));
        }
    }
}

/// In the order that they are given, which rows are then labelled by.
#[test]
fn labels_may_come_from_elsewhere() {
    let features = "purpose\ncar\nhome\n";
    let labels = "purpose,y\nhome,9\ncar,10\n";
    let plain = fit(features, &every(Missing::Refuse)).unwrap();
    assert_eq!(plain.target(), None);
    let classes = ["10", "9"].map(String::from).to_vec();
    let encoding = plain.clone().with_labels("y".into(), classes.clone()).unwrap();
    assert_eq!((encoding.target(), encoding.classes()), (Some("y"), &classes[..]));
    let table = apply(&encoding, labels).unwrap();
    assert_eq!((table.classes().unwrap(), table.members().unwrap()), (&classes[..], &[1, 0][..]));
    let same = vec!["a".to_owned(); 2];
    let refused = plain.clone().with_labels("y".into(), same).unwrap_err();
    assert!(matches!(refused, TableError::Encoding { .. }), "{refused}");
    let refused = plain.with_labels("purpose".into(), classes).unwrap_err();
    assert!(matches!(refused, TableError::DuplicateColumn { .. }), "{refused}");
}

/// Integers that double precision cannot distinguish are separate classes if they are text, and are
/// rejected if they are numbers.
#[test]
fn large_whole_numbers_stay_apart() {
    let options = options(Categorical::Columns(vec!["id".into()]), Missing::Refuse, Unseen::Refuse);
    let text = "id,x,y\n9007199254740992,1,95820843523155097\n9007199254740993,2,95820843523155098\n\
                9007199254740992,3,95820843523155099\n";
    let encoding = fit(text, &options).unwrap();
    let classes = ["95820843523155097", "95820843523155098", "95820843523155099"];
    assert_eq!(encoding.classes(), classes);
    let table = apply(&encoding, text).unwrap();
    assert_eq!(table.columns(), ["id=9007199254740992", "id=9007199254740993", "x"]);
    assert_eq!(table.members().unwrap(), [0, 1, 2]);
    assert_eq!(table.column(0).collect::<Vec<_>>(), [1.0, 0.0, 1.0]);
    // A class that is off by one is not in the fitted classes.
    let other = text.replace("95820843523155098", "95820843523155100");
    assert!(matches!(apply(&encoding, &other), Err(TableError::UnknownClass { .. })));
    // Numbers from a Parquet file.
    let columns = ["id", "x", "y"].map(|name| (name.to_owned(), None)).to_vec();
    let frame = Frame::new(columns, vec![1.0, 2.0, 1.0, 9.1e15, 3.0, 0.0]).unwrap();
    let refused = Encoding::fit(&frame, Some("y"), &options).unwrap_err();
    assert_eq!(refused, TableError::InexactName { column: "id".into(), found: 9.1e15 });
}

/// Options as the command has them by default.
fn detect(missing: Missing) -> EncodingOptions {
    options(Categorical::Detect(Vec::new()), missing, Unseen::Refuse)
}

/// A table of visits with an identifier, a date, text, truth values and gaps.
fn visits(rows: usize) -> String {
    let row = |i: usize| {
        let day = 1 + i % 28;
        let ward = ["north", "east", "west"][i * i % 3];
        let crp = if i % 5 == 2 { String::new() } else { format!("{}.5", i % 9) };
        let icu = if i.is_multiple_of(2) { "True" } else { "False" };
        format!("P{i:05},{i},2024-02-{day:02},{ward},{crp},{icu},{}\n", i % 2)
    };
    let rows: String = (0..rows).map(row).collect();
    format!("patient_id,caseNo,admitted,ward,crp,icu,y\n{rows}")
}

#[test]
fn types_and_identifiers_are_detected() {
    let encoding = fit(&visits(40), &detect(Missing::Mean)).unwrap();
    assert_eq!(encoding.columns(), ["admitted", "ward=east", "ward=north", "crp", "icu"]);
    assert_eq!(encoding.identifiers(), ["patient_id", "caseNo"]);
    assert!(!encoding.is_plain());
    let table = apply(&encoding, &visits(40)).unwrap();
    // 2024-02-02 is day 19755; the mean of a column replaces its gaps.
    assert_eq!(table.values()[5..10], [19_755.0, 1.0, 0.0, 1.5, 0.0]);
    let later = "ward,icu,crp,admitted\neast,true,,1970-01-02T12:00\n";
    let mean = table.values()[13];
    assert_eq!(apply(&encoding, later).unwrap().values(), [1.5, 1.0, 0.0, mean, 1.0]);
    let wrong = apply(&encoding, &later.replace("1970-01-02T12:00", "20240131")).unwrap_err();
    assert!(matches!(&wrong, TableError::NotDate { cell } if cell.column == "admitted"), "{wrong}");
    let stored: Encoding =
        serde_json::from_str(&serde_json::to_string(&encoding).unwrap()).unwrap();
    assert_eq!(stored, encoding);

    // Few rows do not show identifiers. Names of columns can insist.
    let few = fit(&visits(19), &detect(Missing::Mean)).unwrap();
    assert_eq!(few.identifiers(), [""; 0]);
    let mut chosen = detect(Missing::Mean);
    chosen.selection.columns = Some(vec!["caseNo".into(), "crp".into()]);
    assert_eq!(fit(&visits(40), &chosen).unwrap().columns(), ["caseNo", "crp"]);
    let named =
        options(Categorical::Detect(vec!["patient_id".into()]), Missing::Mean, Unseen::Zero);
    assert_eq!(fit(&visits(40), &named).unwrap().identifiers(), ["caseNo"]);
}

#[test]
fn columns_that_are_not_used_are_not_read() {
    let text = "a,b,c,y\n1,inf,x,0\n2,,\"1,5\",1\n";
    let mut options = detect(Missing::Refuse);
    options.selection.drop = vec!["b".into(), "c".into()];
    let encoding = fit(text, &options).unwrap();
    assert_eq!(encoding.columns(), ["a"]);
    assert_eq!(apply(&encoding, text).unwrap().values(), [1.0, 2.0]);
    assert_eq!(apply(&encoding, "a\n3\n").unwrap().values(), [3.0]);
    options.selection.drop = vec!["b".into(), "y".into()];
    assert!(matches!(fit(text, &options), Err(TableError::Contradiction { .. })));
    let text = &text.replace("inf", "5");
    options.selection.drop = vec!["bb".into(), "Y".into()];
    let unknown = fit(text, &options).unwrap_err().to_string();
    assert!(unknown.contains("\"bb\", \"Y\" (did you mean \"y\"?)"), "{unknown}");
    options.selection.drop = ["a", "b", "c"].map(String::from).to_vec();
    assert_eq!(fit(text, &options), Err(TableError::Empty { rows: 2, features: 0 }));
}

#[test]
fn faults_of_all_columns_are_told_together() {
    let text = "age,crp,code,y\n1,,7,0\n,2,<5,1\n3,4,8,0\n";
    let told = fit(text, &detect(Missing::Refuse)).unwrap_err().to_string();
    for part in [
        "3 columns",
        "\"age\" lacks values, first on line 3",
        "\"crp\" lacks values, first on line 2",
        "\"<5\" on line 3",
        "--missing mean --categorical code",
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }
    let right = options(Categorical::Detect(vec!["code".into()]), Missing::Mean, Unseen::Refuse);
    assert_eq!(fit(text, &right).unwrap().columns().len(), 5);
    let one = fit("age,y\n1,0\n,1\n", &detect(Missing::Refuse)).unwrap_err();
    assert_eq!(one, TableError::Gap { place: Place::Line(3), column: "age".into() });
    let words = "v,y\ntrue,0\n2,1\n";
    let mixed =
        Frame::from_csv(Cursor::new(words), &detect(Missing::Refuse).read_options(Some("y")));
    assert!(matches!(mixed, Err(TableError::Text { place: Place::Line(2), .. })));
}

#[test]
fn rare_categories_are_joined() {
    let text = "v,y\na,0\na,1\na,0\nb,1\nb,0\nc,1\n,0\n";
    let joined = |rare| {
        let encoding = fit(text, &EncodingOptions { rare, ..detect(Missing::Mean) }).unwrap();
        (encoding.columns().join(" "), encoding)
    };
    assert_eq!(joined(0).0, "v=a v=b v=c v missing");
    // `c` alone would be a category of one row.
    let (columns, encoding) = joined(2);
    assert_eq!(columns, "v=a v=other v missing");
    let table = apply(&encoding, "v,y\nc,0\nb,0\nnew,0\na,0\n,0\n").unwrap();
    let rows: Vec<&[f64]> = table.iter_rows().collect();
    let other: &[f64] = &[0.0, 1.0, 0.0];
    assert_eq!(rows, [other, other, other, &[1.0, 0.0, 0.0], &[0.0, 0.0, 1.0]]);
    let all = fit(text, &EncodingOptions { rare: 9, ..detect(Missing::Mean) });
    assert_eq!(all, Err(TableError::AllRare { column: "v".into(), rare: 9 }));
}

#[test]
fn gaps_get_medians_and_most_frequent_values() {
    let text = "v,w,y\n1,a,0\n5,b,1\n2,b,0\n,,1\n5,a,1\n";
    let filled = |missing| {
        let encoding = fit(text, &detect(missing)).unwrap();
        let row = apply(&encoding, text).unwrap().iter_rows().nth(3).unwrap().to_vec();
        (row, encoding)
    };
    assert_eq!(filled(Missing::Median).0, [3.5, 0.0, 0.0, 1.0]);
    let (row, encoding) = filled(Missing::MostFrequent);
    assert_eq!(row, [5.0, 1.0, 0.0]);
    assert_eq!(encoding.columns(), ["v", "w=a", "w=b"]);
}

const VISITS: &str = "age,sex,ward,stay,admitted,y\n\
    30,f,a,1,2024-01-31T08:00,0\n\
    ,m,b,2,2023-12-03T23:59:59,1\n\
    50,,a,,2024-02-29,0\n\
    41,m,,9,2000-03-01T12:30:00,1\n\
    90,f,b,4,,1\n";

/// Rules of single columns, beside the rule of all others.
fn ruled(missing: Missing, of_columns: &[(&str, Missing)]) -> EncodingOptions {
    let missing_of = of_columns.iter().map(|&(name, rule)| (name.to_owned(), rule)).collect();
    let categorical = Categorical::Detect(Vec::new());
    EncodingOptions { categorical, missing, missing_of, ..EncodingOptions::default() }
}

#[test]
fn columns_have_rules_of_their_own() {
    let rules = [
        ("age", Missing::Median),
        ("sex", Missing::MostFrequent),
        ("ward", Missing::Drop),
        ("admitted", Missing::Flag),
    ];
    let encoding = fit(VISITS, &ruled(Missing::Mean, &rules)).unwrap();
    let table = apply(&encoding, VISITS).unwrap();
    let columns = ["age", "sex=f", "sex=m", "ward=a", "ward=b", "stay", "admitted"];
    assert_eq!(table.columns()[..7], columns);
    assert_eq!(table.columns()[7..], ["admitted missing"]);
    // The row without a ward counts nowhere: the median of 30, 50 and 90, and the mean of 1, 2 and 4.
    assert_eq!((table.rows(), table.dropped()), (4, 1));
    assert_eq!(table.column(0).collect::<Vec<_>>(), [30.0, 50.0, 50.0, 90.0]);
    assert_eq!(table.column(1).collect::<Vec<_>>(), [1.0, 0.0, 1.0, 1.0]);
    assert_eq!(table.column(5).collect::<Vec<_>>(), [1.0, 2.0, 7.0 / 3.0, 4.0]);
    assert_eq!(table.column(7).collect::<Vec<_>>(), [0.0, 0.0, 0.0, 1.0]);
    assert_eq!(table.labels().unwrap(), [false, true, false, true]);
    // Later rows follow the rules: filled where they fill, dropped where they drop.
    let later = "age,sex,ward,stay,admitted\n,,b,3,2024-01-01\n7,m,,1,2024-01-01\n";
    let table = apply(&encoding, later).unwrap();
    assert_eq!((table.rows(), table.dropped()), (1, 1));
    assert_eq!(table.values()[..6], [50.0, 1.0, 0.0, 0.0, 1.0, 3.0]);

    // A column without a rule of its own is refused, as without rules.
    let some = fit(VISITS, &ruled(Missing::Refuse, &rules[1..3])).unwrap_err();
    assert!(matches!(&some, TableError::Several { faults } if faults.len() == 3), "{some}");
    // Labels are dropped by their own rule, and features are not.
    let text = "a,y\n1,0\n2,\n,1\n";
    let labels = fit(text, &ruled(Missing::Mean, &[("y", Missing::Drop)])).unwrap();
    let table = apply(&labels, text).unwrap();
    assert_eq!((table.values(), table.dropped()), (&[1.0, 1.0][..], 1));
    // Where all values are in dropped rows, nothing can fill gaps.
    let none = fit("a,b\n1,\n,2\n", &ruled(Missing::Drop, &[("b", Missing::Mean)]));
    assert_eq!(none, Err(TableError::AllMissing { column: "b".into() }));

    for (text, rules, problem) in [
        (text, ruled(Missing::Mean, &[("y", Missing::Mean)]), "never filled"),
        (text, ruled(Missing::Mean, &[("z", Missing::Mean)]), "\"z\""),
    ] {
        let error = fit(text, &rules).unwrap_err().to_string();
        assert!(error.contains(problem), "{error}");
    }
    let mut dropped = ruled(Missing::Mean, &[("age", Missing::Mean)]);
    dropped.selection.drop = vec!["age".into()];
    let error = fit(VISITS, &dropped).unwrap_err();
    assert!(matches!(&error, TableError::Rule { column, .. } if column == "age"), "{error}");
}

fn split(options: EncodingOptions, parts: &[DatePart]) -> EncodingOptions {
    EncodingOptions { dates: [("admitted".to_owned(), parts.to_vec())].into(), ..options }
}

/// Parts as Python's `datetime` has them.
#[test]
fn dates_become_their_parts() {
    let parts = [DatePart::Year, DatePart::Month, DatePart::Weekday, DatePart::Hour];
    let text = "admitted,x,y\n2024-01-31T08:00,1,0\n2023-12-03T23:59:59,2,1\n1969-07-20T20:17,3,0\n\
                2024-02-29,4,1\n2024-01-01T00:30+02:00,5,1\n";
    let encoding = fit(text, &split(ruled(Missing::Refuse, &[]), &parts)).unwrap();
    let table = apply(&encoding, text).unwrap();
    let names = ["admitted year", "admitted month", "admitted weekday", "admitted hour", "x"];
    assert_eq!(table.columns(), names);
    let expected = [
        [2024.0, 1.0, 2.0, 8.0, 1.0],
        [2023.0, 12.0, 6.0, 23.0, 2.0],
        [1969.0, 7.0, 6.0, 20.0, 3.0],
        [2024.0, 2.0, 3.0, 0.0, 4.0],
        [2023.0, 12.0, 6.0, 22.0, 5.0],
    ];
    assert_eq!(table.values(), expected.concat());
    let shown = serde_json::to_string(&encoding).unwrap();
    assert!(
        shown.contains(r#"{"name":"admitted","code":{"split":{"parts":[{"part":"year","#),
        "{shown}"
    );
    assert!(!encoding.is_plain());

    // Options name parts, and rules of the column hold for its parts, with one flag.
    let mut options = split(ruled(Missing::Mean, &[("admitted", Missing::Flag)]), &parts[1..3]);
    options.categorical = Categorical::Detect(vec!["admitted weekday".into()]);
    options.selection.columns = Some(vec!["admitted".into(), "age".into()]);
    let encoding = fit(VISITS, &options).unwrap();
    let table = apply(&encoding, VISITS).unwrap();
    let names = [
        "age",
        "admitted month",
        "admitted month missing",
        "admitted weekday=2",
        "admitted weekday=3",
        "admitted weekday=6",
        "admitted weekday missing",
    ];
    assert_eq!(table.columns(), names);
    assert_eq!(table.values()[28..], [90.0, 4.5, 1.0, 0.0, 0.0, 0.0, 1.0]);
    let lacks = apply(&encoding, "age\n1\n").unwrap_err();
    assert!(matches!(&lacks, TableError::MissingColumns { missing, .. } if missing == "admitted"));

    let refused = |options: &EncodingOptions| fit(VISITS, options).unwrap_err().to_string();
    let whole = |parts: &[DatePart]| split(ruled(Missing::Mean, &[]), parts);
    let mut left = whole(&parts);
    left.selection.drop = vec!["admitted".into()];
    assert!(refused(&left).contains("left out"));
    let mut coded = whole(&parts);
    coded.categorical = Categorical::Detect(vec!["admitted".into()]);
    assert!(refused(&coded).contains("one of its parts"));
    assert!(refused(&whole(&[])).contains("at least one"));
    assert!(refused(&whole(&[DatePart::Year, DatePart::Year])).contains("once"));
    let mut other = whole(&parts);
    other.dates = [("age".to_owned(), vec![DatePart::Year])].into();
    assert!(matches!(fit(VISITS, &other), Err(TableError::NotDate { .. })));
    other.dates = [("y".to_owned(), vec![DatePart::Year])].into();
    assert!(refused(&other).contains("target"));
}

/// Both forms of a stored encoding say the same, and encodings without rules keep their bytes.
#[test]
fn rules_are_stored() {
    let rules = [("ward", Missing::Drop), ("y", Missing::Drop), ("admitted month", Missing::Flag)];
    let parts = [DatePart::Year, DatePart::Month];
    for options in [
        every(Missing::Mean),
        ruled(Missing::Mean, &rules[..2]),
        split(ruled(Missing::Mean, &rules), &parts),
    ] {
        let encoding = fit(VISITS, &options).unwrap();
        let text = serde_json::to_string(&encoding).unwrap();
        assert_eq!(serde_json::from_str::<Encoding>(&text).unwrap(), encoding);
        let bytes = postcard::to_allocvec(&encoding).unwrap();
        assert_eq!(postcard::from_bytes::<Encoding>(&bytes).unwrap(), encoding);
        let table = apply(&encoding, VISITS).unwrap();
        assert_eq!(apply(&serde_json::from_str(&text).unwrap(), VISITS).unwrap(), table);
    }
    // The first variants have the numbers of earlier versions: a number with a mean and a flag.
    let encoding = fit("a,y\n1,0\n,1\n", &every(Missing::Flag)).unwrap();
    let bytes = postcard::to_allocvec(&encoding).unwrap();
    let mean = 1.0_f64.to_le_bytes();
    let target = [1, 1, b'y', 2, 1, b'0', 1, b'1', 3, 0];
    assert_eq!(bytes, [&[1, 1, b'a', 0, 1][..], &mean[..], &[1][..], &target[..]].concat());
    for (from, to) in [("\"drop\"", "\"mean\""), ("\"month\"", "\"year\"")] {
        let encoding = fit(VISITS, &split(ruled(Missing::Drop, &[]), &parts)).unwrap();
        let text = serde_json::to_string(&encoding).unwrap().replacen(from, to, 1);
        assert!(serde_json::from_str::<Encoding>(&text).is_err(), "{text}");
    }
}

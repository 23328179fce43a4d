use proptest::prelude::*;

use super::*;

fn csv(text: &str) -> Result<Table, TableError> {
    Table::from_csv(text.as_bytes(), None, 1000)
}

fn csv_target(text: &str) -> Result<Table, TableError> {
    Table::from_csv(text.as_bytes(), Some("y"), 1000)
}

/// Rows and labels stay together, all are there, and every place can be any row's.
#[test]
fn rows_are_shuffled() {
    let rows = 5;
    let table = {
        let values = (0..rows).flat_map(|i| [i as f64, 10.0 * i as f64]).collect();
        let labels = (0..rows).map(|i| i % 2 == 1).collect();
        let columns = ["a", "b"].map(String::from).to_vec();
        Table::new(columns, values, Some(("y".into(), labels))).unwrap()
    };
    let mut counts = vec![vec![0; rows]; rows];
    for k in 0..200 {
        let mut shuffled = table.clone();
        let seed = Seed::from_bytes([k; 32]);
        shuffled.shuffle(&seed);
        let order: Vec<usize> = shuffled.column(0).map(|x| x as usize).collect();
        for (place, (&row, x)) in order.iter().zip(shuffled.iter_rows()).enumerate() {
            assert_eq!(x[1], 10.0 * x[0]);
            assert_eq!(shuffled.labels().unwrap()[place], row % 2 == 1);
            counts[place][row] += 1;
        }
        let mut sorted = order;
        sorted.sort_unstable();
        assert_eq!(sorted, (0..rows).collect::<Vec<_>>());
        let mut again = table.clone();
        again.shuffle(&seed);
        assert_eq!(again, shuffled);
    }
    // 40 are expected, with a standard deviation below 6.
    assert!(counts.iter().flatten().all(|count| (10..=70).contains(count)), "{counts:?}");
}

#[test]
fn weights_stay_with_their_rows() {
    let plain = classified(&[0, 1, 2, 1]);
    assert_eq!((plain.row_weights(), plain.mean_row_weight()), (None, 1.0));
    let table = plain.clone().with_row_weights(vec![0.0, 2.0, 4.0, 6.0]).unwrap();
    assert_eq!(table.mean_row_weight(), 3.0);
    let expect = |table: &Table, mean: f64| {
        let weights = table.row_weights().unwrap();
        for (row, weight) in table.iter_rows().zip(weights) {
            assert!((weight * mean - 2.0 * row[0]).abs() < 1e-15, "{row:?}: {weight}");
        }
    };
    expect(&table, 3.0);
    for k in 0..5 {
        let mut shuffled = table.clone();
        shuffled.shuffle(&Seed::from_bytes([k; 32]));
        expect(&shuffled, 3.0);
    }
    expect(&table.take(&[3, 1, 3, 2]).unwrap(), 4.5);
    assert!(matches!(table.take(&[0]), Err(TableError::RowWeights { .. })));
    for weights in [[1.0, -1.0, 1.0, 1.0], [f64::NAN; 4], [0.0; 4], [f64::MAX; 4]] {
        let refused = plain.clone().with_row_weights(weights.to_vec());
        assert!(matches!(refused, Err(TableError::RowWeights { .. })), "{weights:?}");
    }
    let refused = plain.with_row_weights(vec![1.0; 3]);
    assert_eq!(refused, Err(TableError::Shape { what: "row weights", found: 3, needed: 4 }));
}

#[test]
fn new_checks_names_shape_and_values() {
    let names = |names: &[&str]| names.iter().map(|&name| name.into()).collect::<Vec<String>>();
    let ab = || names(&["a", "b"]);
    let table = Table::new(ab(), vec![1.0, 2.0], Some(("y".into(), vec![true]))).unwrap();
    assert_eq!(table, csv_target("a,b,y\n1,2,1\n").unwrap());
    assert_eq!(Table::new(vec![], vec![], None), Err(TableError::Empty { rows: 0, features: 0 }));
    assert_eq!(Table::new(ab(), vec![], None), Err(TableError::Empty { rows: 0, features: 2 }));
    assert_eq!(
        Table::new(ab(), vec![1.0; 3], None),
        Err(TableError::Shape { what: "values", found: 3, needed: 4 })
    );
    assert_eq!(
        Table::new(ab(), vec![1.0; 4], Some(("y".into(), vec![true]))),
        Err(TableError::Shape { what: "labels", found: 1, needed: 2 })
    );
    assert_eq!(
        Table::new(ab(), vec![1.0; 2], Some(("a".into(), vec![true]))),
        Err(TableError::DuplicateColumn { column: "a".into() })
    );
    assert_eq!(
        Table::new(ab(), vec![1.0, 2.0, 3.0, f64::NAN], None),
        Err(TableError::NotFinite {
            place: Place::Row(1),
            column: "b".into(),
            found: "NaN".into()
        })
    );
}

#[test]
fn training_needs_both_classes() {
    assert_eq!(csv("a\n1\n2\n").unwrap().check_for_training(), Err(TableError::NoTarget));
    assert_eq!(
        csv_target("a,y\n1,1\n2,1\n").unwrap().check_for_training(),
        Err(TableError::ConstantTarget { column: "y".into(), value: "1".into() })
    );
    for constant in ["a,b,y\n1,5,1\n2,5,0\n", "a,b,y\n1,0,1\n2,0,0\n"] {
        assert_eq!(csv_target(constant).unwrap().check_for_training(), Ok(()));
    }
    for name in Table::BUNDLED {
        assert_eq!(Table::bundled(name).unwrap().check_for_training(), Ok(()));
    }
}

#[test]
fn bundled_tables_have_the_published_counts() {
    let positives = |table: &Table| table.labels().unwrap().iter().filter(|&&y| y).count();
    let lbw = Table::bundled("lbw").unwrap();
    assert_eq!((lbw.rows(), lbw.features(), positives(&lbw)), (189, 9, 189 - 59));
    let uis = Table::bundled("uis").unwrap();
    assert_eq!((uis.rows(), uis.features(), positives(&uis)), (575, 8, 575 - 147));
    let error = Table::bundled("iris").unwrap_err().to_string();
    assert!(error.ends_with("choose one of lbw, uis"), "{error}");
}

/// Hosmer and Lemeshow, Applied Logistic Regression, table 4.1 fits the probability of staying
/// free of drugs to age: intercept -1.6602, slope 0.0182, deviance 652.3309. The bundled target
/// is the opposite class.
#[test]
fn uis_reproduces_the_published_age_model() {
    let uis = Table::bundled("uis").unwrap();
    assert_eq!(uis.columns()[0], "age");
    let data: Vec<(f64, f64)> = uis
        .column(0)
        .zip(uis.labels().unwrap())
        .map(|(age, label)| (age, f64::from(!label)))
        .collect();
    let mut intercept = 0.0;
    let mut slope = 0.0;
    for _ in 0..20 {
        let mut g0 = 0.0;
        let mut g1 = 0.0;
        let mut h00 = 0.0;
        let mut h01 = 0.0;
        let mut h11 = 0.0;
        for &(age, y) in &data {
            let p = 1.0 / (1.0 + f64::exp(-(intercept + slope * age)));
            let weight = p * (1.0 - p);
            g0 += y - p;
            g1 += (y - p) * age;
            h00 += weight;
            h01 += weight * age;
            h11 += weight * age * age;
        }
        let det = h00 * h11 - h01 * h01;
        intercept += (h11 * g0 - h01 * g1) / det;
        slope += (h00 * g1 - h01 * g0) / det;
    }
    let deviance: f64 = data
        .iter()
        .map(|&(age, y)| 2.0 * f64::ln_1p(f64::exp((1.0 - 2.0 * y) * (intercept + slope * age))))
        .sum();
    assert!((intercept + 1.6602).abs() < 5e-5, "{intercept}");
    assert!((slope - 0.0182).abs() < 5e-5, "{slope}");
    assert!((deviance - 652.3309).abs() < 5e-5, "{deviance}");
}

#[test]
fn debug_shows_no_values() {
    let shown = format!("{:?}", csv_target("a,y\n123456,1\n").unwrap());
    assert!(shown.contains("rows: 1") && !shown.contains("123456"), "{shown}");
}

#[test]
fn columns_can_be_taken_out() {
    let names = ["a", "b", "c"].map(String::from).to_vec();
    let values = vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
    let table = Table::new(names, values, Some(("y".into(), vec![true, false]))).unwrap();
    let (rest, taken) = table.without("b").unwrap();
    assert_eq!(
        (rest.columns(), rest.values()),
        (&["a".into(), "c".into()][..], &[1.0, 3.0, 4.0, 6.0][..])
    );
    assert_eq!((taken, rest.target()), (vec![2.0, 5.0], Some("y")));
    let unknown = table.without("y").unwrap_err();
    assert!(matches!(unknown, TableError::UnknownColumn { .. }), "{unknown}");
    let (alone, _) = rest.without("a").unwrap();
    assert_eq!(alone.without("c"), Err(TableError::Empty { rows: 2, features: 0 }));
}

/// A table of one feature, the number of the row, with these classes.
fn classified(members: &[u32]) -> Table {
    let values = (0..members.len()).map(|row| row as f64).collect();
    let classes = ["a", "b", "c"].map(String::from).to_vec();
    Table::with_classes(vec!["x".into()], values, ("y".into(), classes, members.to_vec())).unwrap()
}

#[test]
fn classes_are_checked() {
    let table = |classes: &[&str], members: &[u32]| {
        let classes = classes.iter().map(|&class| class.into()).collect();
        Table::with_classes(
            vec!["x".into()],
            vec![1.0, 2.0],
            ("y".into(), classes, members.to_vec()),
        )
    };
    let two = table(&["no", "yes"], &[1, 0]).unwrap();
    assert_eq!(
        (two.classes().unwrap(), two.members().unwrap()),
        (&["no".into(), "yes".into()][..], &[1, 0][..])
    );
    assert_eq!(two.labels().unwrap(), [true, false]);
    assert_eq!(csv_target("a,y\n1,1\n2,0\n").unwrap().classes().unwrap(), ["0", "1"]);
    assert_eq!(csv("a\n1\n").unwrap().classes(), Err(TableError::NoTarget));
    assert_eq!(csv("a\n1\n").unwrap().members(), Err(TableError::NoTarget));
    for (classes, members, part) in [
        (&["no", "no"][..], [0, 1], "two are named \"no\""),
        (&["no", "yes"], [0, 2], "row 1 has the index 2, and there are 2"),
        (&[], [0, 0], "row 0"),
    ] {
        let error = table(classes, &members).unwrap_err();
        assert!(matches!(error, TableError::Classes { .. }), "{error}");
        assert!(error.to_string().contains(part), "{error}");
    }
    let found = 1;
    let needed = 2;
    assert_eq!(table(&["a"], &[0]), Err(TableError::Shape { what: "labels", found, needed }));
    // Only targets of at most two classes have boolean labels.
    let three = classified(&[0, 1, 2]);
    assert_eq!(
        three.labels().unwrap_err().to_string(),
        "target column \"y\" has 3 classes, a, b, c, but two are needed here; combine all \
         classes except one, or keep the rows of two"
    );
    assert_eq!(table(&["a"], &[0, 0]).unwrap().labels().unwrap(), [false, false]);
    let one = classified(&[2, 2]).check_for_training();
    assert_eq!(one, Err(TableError::ConstantTarget { column: "y".into(), value: "c".into() }));
}

#[test]
fn rows_can_be_taken() {
    let table = classified(&[0, 1, 2, 1]);
    let taken = table.take(&[3, 0, 3]).unwrap();
    assert_eq!((taken.values(), taken.members().unwrap()), (&[3.0, 0.0, 3.0][..], &[1, 0, 1][..]));
    assert_eq!(table.take(&[4]), Err(TableError::UnknownRow { row: 4, rows: 4 }));
    assert_eq!(table.take(&[]), Err(TableError::Empty { rows: 0, features: 1 }));
}

#[test]
fn tables_that_cannot_be_split() {
    let seed = Seed::from_bytes([0; 32]);
    for share in [0.0, 1.0, -0.5, 1.5, f64::NAN, f64::INFINITY] {
        assert!(matches!(classified(&[0, 1]).split(share, &seed), Err(TableError::Split { .. })));
    }
    let one = classified(&[0]).split(0.5, &seed);
    assert_eq!(one, Err(TableError::Split { share: 0.5, rows: 1 }));
}

/// Each row can be held out, equally often as any other row of its class.
#[test]
fn held_out_rows_are_random() {
    let table = classified(&[0, 0, 0, 0, 1, 1]);
    let mut counts = [0; 6];
    for k in 0..200 {
        let (_, held) = table.split(0.5, &Seed::from_bytes([k; 32])).unwrap();
        held.column(0).for_each(|row| counts[row as usize] += 1);
    }
    // 100 are expected, with a standard deviation of 7.
    assert!(counts.iter().all(|count| (70..=130).contains(count)), "{counts:?}");
}

proptest! {
    #[test]
    fn splits_hold_out_the_same_share_of_each_class(
        members in prop::collection::vec(0_u32..3, 2..60),
        share in 0.001_f64..0.999,
        labelled: bool,
        seed: [u8; 32],
    ) {
        let mut table = classified(&members);
        if !labelled {
            table.target = None;
        }
        let seed = Seed::from_bytes(seed);
        let (rest, held) = table.split(share, &seed).unwrap();
        prop_assert_eq!(table.split(share, &seed).unwrap(), (rest.clone(), held.clone()));
        let rows = members.len();
        let expected = ((rows as f64 * share).round() as usize).clamp(1, rows - 1);
        prop_assert_eq!((held.rows(), rest.rows()), (expected, rows - expected));
        // All rows, each once and in order.
        let mut all: Vec<f64> = rest.column(0).collect();
        prop_assert!(all.is_sorted() && held.column(0).collect::<Vec<_>>().is_sorted());
        all.extend(held.column(0));
        all.sort_by(f64::total_cmp);
        prop_assert_eq!(all, table.values());
        if labelled {
            let of = |table: &Table, class| {
                table.members().unwrap().iter().filter(|&&m| m == class).count() as f64
            };
            for class in 0..3 {
                prop_assert!((of(&held, class) - of(&table, class) * share).abs() < 1.0);
            }
            for (row, &class) in held.column(0).zip(held.members().unwrap()) {
                prop_assert_eq!(members[row as usize], class);
            }
        }
    }
}

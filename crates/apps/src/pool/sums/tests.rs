use std::time::Instant;
use sudare_table::Place;

use super::{super::testkit, *};

/// Power sums of the integers of values, one by one.
fn slow(schema: &Schema, table: &Table, by_class: bool) -> Vec<BigInt> {
    let centers = schema.centers();
    let units = schema.units();
    let integer = |row: usize, j: usize| -> BigInt {
        let x = table.values()[row * table.features() + j];
        let u = (x - centers[j]) / units[j] * 2_f64.powi(47);
        format!("{:.0}", u.round_ties_even()).parse().unwrap()
    };
    let members = table.members().unwrap();
    let classes = schema.classes().len();
    let columns = 0..table.features();
    let rows_of = |class: Option<u32>| {
        (0..table.rows()).filter(move |&row| class.is_none_or(|class| class == members[row]))
    };
    let groups: Vec<Option<u32>> =
        if by_class { (0..classes as u32).map(Some).collect() } else { vec![None] };
    let counts = (0..classes as u32).map(|class| rows_of(Some(class)).count().into());
    let mut all: Vec<BigInt> = counts.collect();
    for group in groups {
        all.extend(columns.clone().map(|j| rows_of(group).map(|row| integer(row, j)).sum()));
        for j in columns.clone() {
            all.extend((0..=j).map(|k| {
                rows_of(group).map(|row| integer(row, j) * integer(row, k)).sum::<BigInt>()
            }));
        }
    }
    for power in [3, 4] {
        let sum = |j| rows_of(None).map(|row| integer(row, j).pow(power)).sum::<BigInt>();
        all.extend(columns.clone().map(sum));
    }
    all
}

#[test]
fn sums_are_those_of_big_integers() {
    let schema = testkit::schema(1);
    let table = testkit::mixed(391, 1);
    for by_class in [false, true] {
        let sums = Sums::of(&schema, &table, by_class).unwrap();
        let shape = sums.shape();
        assert_eq!(
            (shape.numbers(), shape.powers().count()),
            (sums.numbers().len(), shape.numbers())
        );
        assert_eq!(sums.numbers(), slow(&schema, &table, by_class));
        assert_eq!(sums.rows(), 391);
    }
}

#[test]
fn values_at_their_bounds_are_exact() {
    // Limbs are largest, and all products of a block have one sign.
    let schema = testkit::schema(1);
    let classes = schema.classes().to_vec();
    for upper in [false, true] {
        let ends = schema.bounds().iter().map(|b| if upper { b.high } else { b.low });
        let row: Vec<f64> = ends.collect();
        let labels = ("y".to_owned(), classes.clone(), vec![1; 1000]);
        let columns = schema.columns().to_vec();
        let table = Table::with_classes(columns, row.repeat(1000), labels).unwrap();
        let sums = Sums::of(&schema, &table, false).unwrap();
        for (number, power) in sums.numbers().iter().zip(sums.shape().powers()).skip(3) {
            let sign = if upper || power % 2 == 0 { 1 } else { -1 };
            assert_eq!(*number, (BigInt::from(1000 * sign)) << (47 * power));
        }
    }
    // Lower limbs are largest in the middle of a step of the upper one.
    let mut part = Part::zero(1);
    let mut products = Products::new(1);
    for v in [(1_i64 << 47) - (1 << 23), -(1 << 47) + (1 << 23) - 1] {
        products.clear();
        (0..BLOCK).for_each(|_| products.push(v));
        part.products[0] = 0;
        products.add_to(&mut part.products, 1);
        assert_eq!(part.products[0], 128 * i128::from(v) * i128::from(v));
    }
}

#[test]
fn sums_of_thirds_are_sums_of_the_whole() {
    let schema = testkit::schema(3);
    let table = testkit::mixed(5000, 2);
    for by_class in [false, true] {
        let whole = Sums::of(&schema, &table, by_class).unwrap();
        let parts = (0..3).map(|third| {
            let rows: Vec<usize> = (third..5000).step_by(3).collect();
            Sums::of(&schema, &table.take(&rows).unwrap(), by_class).unwrap()
        });
        let mut parts = parts.collect::<Vec<_>>().into_iter();
        let mut total = parts.next().unwrap();
        parts.for_each(|part| total.add(&part).unwrap());
        assert_eq!(total, whole);
    }
}

#[test]
fn sums_of_another_schema_are_refused() {
    let schema = testkit::schema(1);
    let table = testkit::mixed(20, 3);
    let other = |what| Err(PoolError::OtherTable { what });
    let bundled = Table::bundled("lbw").unwrap();
    assert_eq!(Sums::of(&schema, &bundled, false), other("columns"));
    let columns = table.columns().to_vec();
    let values = table.values().to_vec();
    let plain = Table::new(columns.clone(), values.clone(), None).unwrap();
    assert_eq!(Sums::of(&schema, &plain, false), other("targets"));
    let labels = Some(("y".to_owned(), vec![true; 20]));
    let binary = Table::new(columns.clone(), values.clone(), labels).unwrap();
    assert_eq!(Sums::of(&schema, &binary, false), other("classes"));
    let classes = ("y".to_owned(), schema.classes().to_vec(), vec![0; 20]);
    let mut far = values;
    far[6 * 7 + 1] = 3e6;
    let far = Table::with_classes(columns, far, classes).unwrap();
    let expected = PoolError::OutOfBounds {
        place: Place::Row(7),
        column: "far".into(),
        found: 3e6,
        low: 0.0,
        high: 2.1e6,
    };
    assert_eq!(Sums::of(&schema, &far, false), Err(expected));

    let mut sums = Sums::of(&schema, &table, false).unwrap();
    for other in [
        Sums::of(&schema, &table, true).unwrap(),
        Sums::of(&testkit::schema(2), &table, false).unwrap(),
    ] {
        assert!(matches!(sums.add(&other), Err(PoolError::OtherSchema { .. })));
    }
    assert!(!format!("{sums:?}").contains("391"));
    let many = sums.shape().clone();
    let many = Shape { columns: 1024, ..many };
    assert!(many.numbers() as u128 <= MAX_NUMBERS);
}

/// Timings: `cargo test --release -- --ignored --nocapture timings`.
#[test]
#[ignore = "takes seconds and gigabytes; says how long tables take"]
fn timings() {
    for (rows, columns) in [(16_384, 15), (300_000, 200)] {
        let names: Vec<String> = (0..columns).map(|j| format!("c{j}")).collect();
        let mut next = testkit::uniform(5);
        let values: Vec<f64> = (0..rows * columns).map(|_| next()).collect();
        let table = Table::new(names.clone(), values, None).unwrap();
        let kinds = names.iter().map(|name| {
            serde_json::json!({ "name": name, "kind": { "number": { "low": 0.0, "high": 1.0 } } })
        });
        let document = serde_json::json!({
            "version": 1, "owners": ["one"], "target": null, "missing": "refuse",
            "unseen": "refuse", "columns": kinds.collect::<Vec<_>>(),
        });
        let schema = Schema::from_json(&document.to_string()).unwrap();
        let start = Instant::now();
        let sums = Sums::of(&schema, &table, false).unwrap();
        let seconds = start.elapsed().as_secs_f64();
        assert!(seconds < 60.0, "{rows} x {columns}: {seconds} s, {sums:?}");
        std::io::Write::write_fmt(
            &mut std::io::stderr(),
            format_args!("{rows} x {columns}: {seconds:.3} s\n"),
        )
        .unwrap();
    }
}

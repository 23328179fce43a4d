use super::{super::testkit, *};
use sudare_table::Table;

fn totals(table: &Table, by_class: bool) -> Totals {
    let schema = testkit::schema(3);
    let mut sums = (0..3).map(|third| {
        let rows: Vec<usize> = (0..table.rows()).filter(|row| row % 3 == third).collect();
        Sums::of(&schema, &table.take(&rows).unwrap(), by_class).unwrap()
    });
    let mut total = sums.next().unwrap();
    sums.for_each(|part| total.add(&part).unwrap());
    Totals::new(&schema, total).unwrap()
}

#[track_caller]
fn assert_close(found: &[f64], expected: &[f64], tolerance: impl Fn(usize) -> f64) {
    assert_eq!(found.len(), expected.len());
    for (at, (a, b)) in found.iter().zip(expected).enumerate() {
        let same = a.is_nan() && b.is_nan() || (a - b).abs() <= tolerance(at);
        assert!(same, "{at}: {a}, expected {b}: {:e}", a - b);
    }
}

#[test]
fn moments_are_those_of_all_rows() {
    let table = testkit::mixed(3000, 1);
    for (by_class, weights) in [
        (false, &[][..]),
        (false, &[2.0, 2.0, 2.0]),
        (true, &[]),
        (true, &[0.25, 1.0, 7.5]),
        (true, &[0.0, 1.0, 0.0]),
    ] {
        let totals = totals(&table, by_class);
        let found = totals.moments(weights).unwrap();
        let expected = Moments::of(&table, weights).unwrap();
        assert_eq!(found.rows, expected.rows);
        let tolerance = |j: usize| match expected.deviations[j] {
            // Constant columns: a step of their values.
            0.0 => 1e-14 * totals.units[j],
            deviation => 1e-9 * deviation,
        };
        assert_close(&found.centers, &expected.centers, tolerance);
        assert_close(&found.deviations, &expected.deviations, |j| 1e-9 * expected.deviations[j]);
        assert_eq!((found.deviations[2], expected.deviations[2]), (0.0, 0.0));
        assert!(expected.centers[1] / expected.deviations[1] > 5e5);
        assert_close(&found.correlations, &expected.correlations, |_| 2e-9);
    }
}

#[test]
fn classes_without_rows_count_nothing() {
    let table = testkit::mixed(500, 4);
    let members = table.members().unwrap();
    let rows: Vec<usize> = (0..500).filter(|&row| members[row] != 2).collect();
    let table = table.take(&rows).unwrap();
    let totals = totals(&table, true);
    assert_eq!((totals.rows(), totals.class_counts()[2]), (rows.len(), 0));
    let weights = [1.0, 3.0, 100.0];
    let found = totals.moments(&weights).unwrap();
    let expected = Moments::of(&table, &weights).unwrap();
    assert_close(&found.correlations, &expected.correlations, |_| 1e-8);
}

#[test]
fn weights_that_rows_cannot_have_are_refused() {
    let table = testkit::mixed(60, 1);
    let plain = totals(&table, false);
    let by_class = totals(&table, true);
    assert_eq!(plain.moments(&[1.0, 2.0]), Err(PoolError::NotByClass));
    for totals in [&plain, &by_class] {
        let bad = |class, found| Err(PoolError::RowWeight { class, found });
        assert_eq!(totals.moments(&[1.0, -2.0]), bad(1, -2.0));
        assert_eq!(totals.moments(&[1.0, f64::INFINITY]), bad(1, f64::INFINITY));
        assert_eq!(totals.moments(&[0.0; 3]), bad(0, 0.0));
        assert!(totals.moments(&[f64::NAN]).is_err());
    }
}

/// By definition, from deviations.
fn two_passes(table: &Table) -> Statistics {
    let n = table.rows() as f64;
    let columns: Vec<Vec<f64>> = (0..table.features()).map(|j| table.column(j).collect()).collect();
    let each = |f: &dyn Fn(usize) -> f64| (0..columns.len()).map(f).collect::<Vec<f64>>();
    let first = each(&|j| columns[j][0]);
    let mean = each(&|j| first[j] + columns[j].iter().map(|x| x - first[j]).sum::<f64>() / n);
    let moment = |j: usize, power: i32| {
        columns[j].iter().map(|x| (x - mean[j]).powi(power)).sum::<f64>() / n
    };
    let covariance = |j: usize, k: usize| {
        let pairs = columns[j].iter().zip(&columns[k]);
        pairs.map(|(x, y)| (x - mean[j]) * (y - mean[k])).sum::<f64>() / (n - 1.0)
    };
    let variance = each(&|j| covariance(j, j));
    let matrix = |f: &dyn Fn(usize, usize) -> f64| -> Vec<Vec<f64>> {
        (0..columns.len()).map(|j| each(&|k| f(j, k))).collect()
    };
    Statistics {
        rows: table.rows(),
        std_dev: variance.iter().map(|v| v.sqrt()).collect(),
        skewness: each(&|j| moment(j, 3) / moment(j, 2).powf(1.5)),
        kurtosis: each(&|j| moment(j, 4) / moment(j, 2).powi(2) - 3.0),
        covariance: matrix(&covariance),
        correlation: matrix(&|j, k| covariance(j, k) / (variance[j] * variance[k]).sqrt()),
        mean: mean.clone(),
        variance,
        mean_error: vec![0.0; columns.len()],
        covariance_error: vec![vec![0.0; columns.len()]; columns.len()],
    }
}

#[test]
fn statistics_are_those_of_all_rows() {
    let table = testkit::mixed(3000, 7);
    let expected = two_passes(&table);
    for by_class in [false, true] {
        let totals = totals(&table, by_class);
        let found = totals.statistics();
        assert_eq!(found.rows, 3000);
        let unit = |j: usize| 1e-9 * expected.std_dev[j].max(1e-300);
        assert_close(&found.mean, &expected.mean, |j| match expected.std_dev[j] {
            0.0 => 1e-14 * totals.units[j],
            _ => unit(j),
        });
        assert_close(&found.std_dev, &expected.std_dev, unit);
        assert_close(&found.variance, &expected.variance, |j| 2.0 * unit(j) * expected.std_dev[j]);
        assert_close(&found.skewness, &expected.skewness, |j| {
            1e-8 * (1.0 + expected.skewness[j].abs())
        });
        assert_close(&found.kurtosis, &expected.kurtosis, |j| {
            1e-8 * (3.0 + expected.kurtosis[j].abs())
        });
        assert!(found.skewness[2].is_nan() && found.correlation[2][1].is_nan());
        for j in 0..6 {
            assert_close(&found.covariance[j], &expected.covariance[j], |k| {
                2.0 * unit(j) * expected.std_dev[k]
            });
            assert_close(&found.correlation[j], &expected.correlation[j], |_| 2e-9);
        }
    }
}

#[test]
fn a_single_row_has_no_spread() {
    let schema = testkit::schema(1);
    let table = testkit::mixed(1, 2);
    let totals = Totals::new(&schema, Sums::of(&schema, &table, true).unwrap()).unwrap();
    let found = totals.statistics();
    assert_eq!((found.rows, totals.rows()), (1, 1));
    assert!((found.mean[0] / table.values()[0] - 1.0).abs() < 1e-12);
    assert!(found.variance.iter().chain(&found.kurtosis).all(|x| x.is_nan()));
    let moments = totals.moments(&[]).unwrap();
    assert_eq!(moments.deviations, [0.0; 6]);
    assert_eq!(moments.correlations, [0.0; 36]);
    let other = testkit::schema(2);
    let sums = Sums::of(&schema, &table, true).unwrap();
    assert!(matches!(Totals::new(&other, sums), Err(PoolError::OtherSchema { .. })));
}

/// Spreads of a millionth of the unit and less, compared with integers.
#[test]
fn small_spreads_keep_their_digits() {
    let schema = testkit::schema(1);
    let mut values = Vec::new();
    // 1.05e6 is the center: take 2e6, where a step is 7e-9 and the spread is 1.
    for row in 0..1000_i32 {
        values.extend([0.0, 2e6 + f64::from(row % 5) - 2.0, 7.0, 0.0, 0.0, 0.0]);
    }
    let labels = ("y".to_owned(), schema.classes().to_vec(), vec![0; 1000]);
    let table = Table::with_classes(schema.columns().to_vec(), values, labels).unwrap();
    let totals = Totals::new(&schema, Sums::of(&schema, &table, false).unwrap()).unwrap();
    let found = totals.statistics();
    // The values -2 to 2, equally often: variance 2, fourth moment 34 / 5.
    assert!((found.variance[1] * 0.999 / 2.0 - 1.0).abs() < 2e-8, "{}", found.variance[1]);
    assert!((found.mean[1] - 2e6).abs() < 1e-8);
    assert!(found.skewness[1].abs() < 1e-7);
    assert!((found.kurtosis[1] - (34.0 / 20.0 - 3.0)).abs() < 1e-7);
}

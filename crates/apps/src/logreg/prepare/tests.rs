use super::*;
use crate::logreg::ClassWeights;
use proptest::prelude::*;

fn table(columns: usize, values: Vec<f64>) -> Table {
    let names = (0..columns).map(|j| format!("x{j}")).collect();
    let labels = (0..values.len() / columns).map(|i| i % 3 == 1).collect();
    Table::new(names, values, Some(("y".into(), labels))).unwrap()
}

fn transform(table: &Table, preparation: Preparation, penalty: Penalty) -> Transform {
    let spec = TrainSpec { preparation, penalty, ..TrainSpec::default() };
    Prepared::new(table, &spec, table.rows(), None).unwrap().transform
}

fn column(rows: &[f64], entries: usize, j: usize) -> Vec<f64> {
    rows.iter().skip(j).step_by(entries).copied().collect()
}

fn mean_product(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>() / a.len() as f64
}

/// Columns of very different units, two of them collinear and one constant, in more rows than a
/// block.
fn mixed() -> Table {
    let values = (0..1100_u32).flat_map(|i| {
        let a = f64::from(i * i % 101);
        let b = f64::from(i * i % 37);
        [a * 1e300, b * 1e-300, 2.0 * a - 3.0 * b, 4.0, 1e9 + f64::from(i % 5)]
    });
    table(5, values.collect())
}

/// Compares with moments by their definitions, of columns in units that do not overflow.
#[test]
fn moments_are_those_of_the_definitions() {
    let table = mixed();
    let row_weights = [0.5, 2.0];
    let moments = Moments::of(&table, &row_weights).unwrap();
    let weights: Vec<f64> =
        table.members().unwrap().iter().map(|&class| row_weights[class as usize]).collect();
    let total: f64 = weights.iter().sum();
    assert_eq!(moments.rows, 1100);
    let units = [1e300, 1e-300, 1.0, 1.0, 1.0];
    let columns: Vec<Vec<f64>> =
        (0..5).map(|j| table.column(j).map(|x| x / units[j]).collect()).collect();
    let mean = |x: &[f64]| x.iter().sum::<f64>() / x.len() as f64;
    let weighted = |x: &[f64]| x.iter().zip(&weights).map(|(x, c)| x * c).sum::<f64>() / total;
    for (j, x) in columns.iter().enumerate() {
        let center = moments.centers[j] / units[j];
        assert!((center - weighted(x)).abs() <= 1e-12 * center.abs(), "{j}");
        let m = mean(x);
        let deviation = mean(&x.iter().map(|x| (x - m).powi(2)).collect::<Vec<_>>()).sqrt();
        let found = moments.deviations[j] / units[j];
        assert!((found - deviation).abs() <= 1e-7 * deviation, "{j}: {found} {deviation}");
        for (k, y) in columns.iter().enumerate() {
            let mx = weighted(x);
            let my = weighted(y);
            let products = x.iter().zip(y).map(|(x, y)| (x - mx) * (y - my));
            let covariance = weighted(&products.collect::<Vec<_>>());
            let spread = found * moments.deviations[k] / units[k];
            let expected = if spread > 0.0 { covariance / spread } else { 0.0 };
            let found = moments.correlations[5 * j + k];
            assert!((found - expected).abs() < 1e-6, "{j} {k}: {found} {expected}");
        }
    }
    assert_eq!(moments.deviations[3], 0.0);
}

/// Uncorrelated entries of variance 1, and zeros for missing directions.
#[test]
fn whitened_rows_are_white() {
    let table = mixed();
    let found = transform(&table, Preparation::Whiten, Penalty::None);
    let rows = found.rows(table.values());
    let mut kept = 0;
    for j in 0..6 {
        let x = column(&rows, 6, j);
        let own = mean_product(&x, &x);
        kept += usize::from(own > 0.5);
        assert!((own - 1.0).abs() < 1e-9 || own == 0.0, "{j}: {own}");
        for k in 0..j {
            assert!(mean_product(&x, &column(&rows, 6, k)).abs() < 1e-9, "{j} {k}");
        }
    }
    // The intercept, and the directions of three independent columns.
    assert_eq!(kept, 4);
}

/// With a penalty, the Hessian of loss and penalty is at most a quarter in every direction.
#[test]
fn penalised_directions_have_a_bounded_hessian() {
    let table = mixed();
    for preparation in [Preparation::Whiten, Preparation::Standardize] {
        let found = transform(&table, preparation, Penalty::Alpha(0.01));
        let rows = found.rows(table.values());
        for (j, h) in found.penalty().iter().enumerate() {
            let x = column(&rows, 6, j);
            let hessian = mean_product(&x, &x) / 4.0 + h;
            assert!(hessian <= 0.25 + 1e-9, "{preparation:?} {j}: {hessian}");
        }
    }
}

#[test]
fn too_many_columns_are_refused() {
    let table = table(4097, vec![1.0; 2 * 4097]);
    let refused = Prepared::new(&table, &TrainSpec::default(), 2, None).unwrap_err();
    assert_eq!(refused, Error::TooManyToCorrelate { found: 4097, most: 4096 });
    assert!(Prepared::new(&table, &TrainSpec::published(), 2, None).is_ok());
}

#[test]
fn damaged_transforms_are_refused() {
    let table = mixed();
    let good = transform(&table, Preparation::Whiten, Penalty::C(1.0));
    let text = serde_json::to_string(&good).unwrap();
    assert_eq!(serde_json::from_str::<Transform>(&text).unwrap(), good);
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    let mut damaged = Vec::new();
    for (name, bad) in [
        ("centers", serde_json::json!([1.0])),
        ("divisors", serde_json::json!([1.0, 1.0, -1.0, 1.0, 1.0])),
        ("basis", serde_json::json!(vec![1.0; 24])),
        ("penalty", serde_json::json!(vec![-2.0; 5])),
        ("size", serde_json::json!(0.0)),
    ] {
        let mut value = value.clone();
        value[name] = bad;
        damaged.push(value);
    }
    damaged.push(serde_json::json!({
        "centers": [], "divisors": [], "basis": [], "penalty": [], "size": 1.0
    }));
    for value in damaged {
        assert!(serde_json::from_value::<Transform>(value.clone()).is_err(), "{value}");
    }
}

proptest! {
    /// The score of a row by trained weights equals its score by the weights of the columns. The
    /// mean of scores over a pass equals the mean over the rows of the training.
    #[test]
    fn scores_are_those_of_the_columns(
        values in prop::collection::vec(-1.0..1.0_f64, 30..120),
        exponents in prop::collection::vec(-200..200_i32, 3),
        trained in prop::collection::vec(-3.0..3.0_f64, 4),
        which in 0..3_usize,
        planned in 40..100_usize,
    ) {
        let scaled = values.iter().enumerate().map(|(at, x)| {
            (x + 0.5) * 10f64.powi(exponents[at % 3])
        });
        let values: Vec<f64> = scaled.take(values.len() / 3 * 3).collect();
        let table = table(3, values);
        let preparation =
            [Preparation::Whiten, Preparation::Standardize, Preparation::Scale][which];
        let spec = TrainSpec { preparation, ..TrainSpec::default() };
        let rows = Prepared::new(&table, &spec, planned, None).unwrap();
        let design = rows.rows(0..table.rows());
        let weights = rows.transform.of_columns(&trained);
        // Through other centers and units, and back.
        let spread = Transform::spreading(&table);
        let other = rows.transform.weights_under(&trained, &spread).unwrap();
        let back = spread.weights_under(&other, &rows.transform).unwrap();
        let again = rows.transform.of_columns(&back);
        for (again, weight) in again.iter().zip(&weights).skip(1) {
            prop_assert!((again - weight).abs() <= 1e-9 * weight.abs());
        }
        let mut sum = vec![0.0; 4];
        for (x, own) in design.chunks_exact(4).zip(table.iter_rows()) {
            let score: f64 = x.iter().zip(&trained).map(|(x, w)| x * w).sum();
            let of_columns: f64 =
                weights[0] + own.iter().zip(&weights[1..]).map(|(x, w)| x * w).sum::<f64>();
            prop_assert!((score - of_columns).abs() < 1e-9 * (1.0 + score.abs()));
            let spread: f64 = spread.rows(own).iter().zip(&other).map(|(x, w)| x * w).sum();
            prop_assert!((score - spread).abs() < 1e-9 * (1.0 + score.abs()));
            sum.iter_mut().zip(x).for_each(|(sum, x)| *sum += score * x);
        }
        let pass = rows.pass(0..table.rows(), &trained, |_, inner| inner);
        for (found, expected) in pass.sum.iter().zip(&sum) {
            prop_assert!((found - expected).abs() < 1e-9 * (1.0 + expected.abs()));
        }
    }
}

/// A weight of a row stands for this number of copies.
#[test]
fn weighted_rows_are_copies() {
    let copies = [0, 3, 1, 2, 0, 1, 4];
    let table = table(2, (0..14).map(|at| f64::from(at * at * 7 % 11) - 4.0).collect());
    let rows: Vec<usize> = (0..copies.len()).collect();
    let repeated: Vec<usize> =
        rows.iter().flat_map(|&row| core::iter::repeat_n(row, copies[row])).collect();
    let repeated = table.take(&repeated).unwrap();
    let weights = copies.iter().map(|&copies| 5.0 * copies as f64).collect();
    let weighted = table.clone().with_row_weights(weights).unwrap();
    for (class_weights, given) in
        [(ClassWeights::Given, Some([1.0, 3.0])), (ClassWeights::Balanced, None)]
    {
        let spec = TrainSpec {
            class_weights: Some(class_weights),
            preparation: Preparation::Standardize,
            penalty: Penalty::Alpha(0.1),
            ..TrainSpec::default()
        };
        let given = given.as_ref().map(|given| &given[..]);
        let of_weights = Prepared::new(&weighted, &spec, 7, given).unwrap();
        let of_copies = Prepared::new(&repeated, &spec, 11, given).unwrap();
        let mean: f64 = rows.iter().map(|&row| of_weights.weight(row)).sum::<f64>() / 7.0;
        assert!((mean - 1.0).abs() < 1e-12, "{mean}");
        let prepared = [&of_weights, &of_copies].map(|p| p.transform().rows(table.values()));
        for (a, b) in prepared[0].iter().zip(&prepared[1]) {
            assert!((a - b).abs() < 1e-12, "{a} {b}");
        }
    }
    // Without planned weights the server has no second copy of the rows.
    let plain = Prepared::new(&weighted, &TrainSpec::default(), 100, None);
    assert!(matches!(plain, Err(Error::Train(TrainError::UnplannedClassWeights))));
}

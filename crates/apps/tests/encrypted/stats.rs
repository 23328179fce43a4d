//! Statistics under encryption, at real ring sizes.

use crate::session::Session;
use sudare::{
    ckks::{self, Ciphertext, Params, Spec},
    rlwe::{KeyRequest, Level},
};
use sudare_apps::{
    TablePlan,
    stats::{
        ColumnScaling, Edges, GroupJob, GroupPlan, Grouping, HistogramJob, HistogramPlan, Job,
        SlotPlan, Statistics, StatsPlan, TTest,
    },
};
use sudare_table::Table;

fn session(params: &Params, request: &KeyRequest) -> Session {
    assert!(params.rlwe().security_bits() >= 128.0);
    Session::new(params.clone(), request)
}

impl Session {
    fn decrypt(&self, a: &Ciphertext) -> Vec<f64> {
        self.encoder.decode_real(&self.decryptor.decrypt(a).unwrap()).unwrap()
    }
}

#[test]
fn mean_and_variance_of_8192_numbers() {
    let params = Params::new(ckks::preset("stats-n14").unwrap().spec).unwrap();
    let plan = SlotPlan::new(1 << 13, &params).unwrap();
    let s = session(&params, plan.variance_keys());
    let xs: Vec<f64> = (0..1 << 13).map(|i| (f64::from(i) * 0.37).sin().powi(3) + 0.05).collect();
    let xs: Vec<f64> = xs.iter().map(|x| x / 1.05).collect();
    let n = xs.len() as f64;
    let mean = xs.iter().sum::<f64>() / n;
    let variance = xs.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n;
    let largest = |found: Vec<f64>, expected: f64| {
        assert_eq!(found.len(), 1 << 13);
        found.iter().map(|y| (y - expected).abs()).fold(0.0, f64::max).log2()
    };

    let plain = s.encoder.encode_real_at(&xs, plan.mean_level(), plan.scale()).unwrap();
    let x = s.encryptor.encrypt(&plain).unwrap();
    let found = plan.mean(&s.evaluator, &x).unwrap();
    assert_eq!(found.level(), Level(0));
    let log2_error = largest(s.decrypt(&found), mean);
    assert!(log2_error < -23.0, "mean: 2^{log2_error:.1}");

    let plain = s.encoder.encode_real_at(&xs, plan.level(), plan.scale()).unwrap();
    let x = s.encryptor.encrypt(&plain).unwrap();
    let log2_error = largest(s.decrypt(&plan.mean(&s.evaluator, &x).unwrap()), mean);
    assert!(log2_error < -23.0, "mean from above: 2^{log2_error:.1}");
    let log2_error = largest(s.decrypt(&plan.variance(&s.evaluator, &x).unwrap()), variance);
    assert!(log2_error < -22.0, "variance: 2^{log2_error:.1}");
}

/// All slots at the ends of the interval: the sums that fill the modulus.
#[test]
fn extreme_numbers_do_not_overflow() {
    let params = Params::new(ckks::preset("stats-n14").unwrap().spec).unwrap();
    let plan = SlotPlan::new(1 << 13, &params).unwrap();
    let s = session(&params, plan.variance_keys());
    for (ends, mean, variance) in [([1.0, 1.0], 1.0, 0.0), ([-1.0, 1.0], 0.0, 1.0)] {
        let xs = ends.repeat(1 << 12);
        let plain = s.encoder.encode_real_at(&xs, plan.level(), plan.scale()).unwrap();
        let x = s.encryptor.encrypt(&plain).unwrap();
        for (found, expected) in [
            (plan.mean(&s.evaluator, &x).unwrap(), mean),
            (plan.variance(&s.evaluator, &x).unwrap(), variance),
        ] {
            assert!(s.decrypt(&found).iter().all(|y| (y - expected).abs() < 1e-6));
        }
    }
}

fn encrypted(table: &Table) -> Statistics {
    let job = Job::of(table);
    let params = StatsPlan::auto_params(&job).unwrap();
    let plan = StatsPlan::new(&job, &params).unwrap();
    let s = session(&params, plan.required_keys());
    let scaling = ColumnScaling::of(table);
    let data = plan.encrypt(&s.encryptor, table, &scaling, |_| {}).unwrap();
    assert_eq!(data.len(), plan.ciphertexts());
    let sums = plan.run(&s.evaluator, &data, |_| {}).unwrap();
    assert!(sums.iter().all(|sum| sum.level() == Level(0)));
    let slots: Vec<_> = sums.iter().map(|sum| s.decrypt(sum)).collect();
    plan.decode(&slots, &scaling, table.rows(), None).unwrap()
}

/// Compares with moments of deviations, relative to the standard deviations.
fn check(table: &Table, tolerance: f64) {
    let found = encrypted(table);
    let n = table.rows() as f64;
    let columns: Vec<Vec<f64>> = (0..table.features()).map(|i| table.column(i).collect()).collect();
    let mean: Vec<f64> = columns.iter().map(|c| c.iter().sum::<f64>() / n).collect();
    let moment = |i: usize, j: usize, k: i32| {
        let pairs = columns[i].iter().zip(&columns[j]);
        pairs.map(|(x, y)| (x - mean[i]).powi(k) * (y - mean[j])).sum::<f64>() / n
    };
    let deviation = |i: usize| moment(i, i, 1).sqrt();
    let near = |what: &str, found: f64, expected: f64, unit: f64| {
        let error = (found - expected).abs() / unit;
        assert!(error < tolerance, "{what}: {found}, expected {expected}");
    };
    for (i, &mean) in mean.iter().enumerate() {
        let sigma = deviation(i);
        near("mean", found.mean[i], mean, sigma);
        let sample = sigma * (n / (n - 1.0)).sqrt();
        near("std_dev", found.std_dev[i], sample, sigma);
        near("variance", found.variance[i], sample * sample, sigma * sigma);
        let skewness = moment(i, i, 2) / sigma.powi(3);
        near("skewness", found.skewness[i], skewness, 1.0 + skewness.abs());
        let kurtosis = moment(i, i, 3) / sigma.powi(4) - 3.0;
        near("kurtosis", found.kurtosis[i], kurtosis, 3.0 + kurtosis.abs());
        for j in 0..columns.len() {
            let product = moment(i, j, 1);
            let unit = sigma * deviation(j);
            near("covariance", found.covariance[i][j], product * n / (n - 1.0), unit);
            near("correlation", found.correlation[i][j], product / unit, 1.0);
        }
    }
}

#[test]
fn lbw_and_uis_equal_their_statistics_in_the_clear() {
    for name in Table::BUNDLED {
        check(&Table::bundled(name).unwrap(), 2e-6);
    }
}

#[test]
fn long_columns_take_several_ciphertexts() {
    let rows = 5000_usize;
    let value = |i: usize| [(i as f64).sqrt(), 1e6 + ((i * i) % 1009) as f64];
    let values = (0..rows).flat_map(value).collect();
    let table = Table::new(vec!["a".into(), "b".into()], values, None).unwrap();
    check(&table, 1e-6);
}

/// The normal equations hold in the clear for coefficients from encrypted sums, and the
/// coefficients are those of sums in the clear.
#[test]
fn least_squares_of_encrypted_columns() {
    let table = Table::bundled("uis").unwrap();
    let found = encrypted(&table).least_squares(0).unwrap();
    assert!(found.condition < 1e4 && found.r_squared > 0.0);
    let n = table.rows() as f64;
    let columns: Vec<Vec<f64>> = (0..table.features()).map(|i| table.column(i).collect()).collect();
    let residual = |row: &[f64]| {
        let terms = found.predictors.iter().zip(&found.coefficients).map(|(&j, c)| c * row[j]);
        row[0] - found.intercept - terms.sum::<f64>()
    };
    let residuals: Vec<f64> = table.iter_rows().map(residual).collect();
    let deviation = |x: &[f64]| {
        let mean = x.iter().sum::<f64>() / n;
        (x.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n).sqrt()
    };
    let unit = deviation(&residuals);
    assert!(residuals.iter().sum::<f64>().abs() / n < 1e-4 * unit);
    for &j in &found.predictors {
        let product: f64 = residuals.iter().zip(&columns[j]).map(|(r, x)| r * x).sum();
        let size = unit * (columns[j].iter().map(|x| x * x).sum::<f64>() / n).sqrt();
        assert!(product.abs() / n < 1e-4 * size, "column {j}: {product:e}");
    }
    let squares: f64 = residuals.iter().map(|r| r * r).sum();
    let freedom = n - found.predictors.len() as f64 - 1.0;
    assert!((found.residual_variance / (squares / freedom) - 1.0).abs() < 1e-4);
}

/// Columns of lbw by its target, against sums over the rows, and a test between the groups.
#[test]
fn groups_of_rows_nobody_can_tell() {
    let table = Table::bundled("lbw").unwrap();
    let keys: Vec<f64> = table.labels().unwrap().iter().map(|&y| f64::from(u8::from(y))).collect();
    let grouping = Grouping::of(&keys).unwrap();
    let job = GroupJob { rows: table.rows(), features: table.features(), groups: 2 };
    let params = GroupPlan::auto_params(&job).unwrap();
    let plan = GroupPlan::new(&job, &params).unwrap();
    let s = session(&params, plan.required_keys());
    let scalings = plan.scalings(&table, &grouping);
    let data = plan.encrypt(&s.encryptor, &table, &scalings, &grouping, |_| {}).unwrap();
    assert_eq!(data.len(), plan.ciphertexts());
    let sums = plan.run(&s.evaluator, &data, |_| {}).unwrap();
    let slots: Vec<_> = sums.iter().map(|sum| s.decrypt(sum)).collect();
    let found = plan.decode(&slots, &scalings, 2, None).unwrap();
    // 59 of the 189 children had a low weight at birth, label 0.
    assert_eq!(found.count, [59, 130]);
    for j in 0..table.features() {
        let samples = [0.0, 1.0].map(|label| {
            let pairs = table.column(j).zip(&keys);
            pairs.filter(|(_, key)| **key == label).map(|(x, _)| x).collect::<Vec<f64>>()
        });
        for (group, x) in samples.iter().enumerate() {
            let n = x.len() as f64;
            let sum: f64 = x.iter().sum();
            let variance = x.iter().map(|x| (x - sum / n).powi(2)).sum::<f64>() / (n - 1.0);
            let deviation = variance.sqrt();
            assert!((found.sum[group][j] - sum).abs() < 1e-5 * n * deviation);
            assert!((found.mean[group][j] - sum / n).abs() < 1e-5 * deviation);
            assert!((found.variance[group][j] / variance - 1.0).abs() < 1e-4);
        }
        let test = TTest::welch(&found.sample(0, j).unwrap(), &found.sample(1, j).unwrap());
        let test = test.unwrap();
        assert!(test.p_value > 0.0 && test.p_value <= 1.0);
    }
}

#[test]
fn histograms_of_encrypted_columns() {
    let table = Table::bundled("lbw").unwrap();
    let rows = table.rows();
    let features = table.features();
    let bins = 4;
    let spec = Spec::uniform(12, 60.0, 11, 40.0, vec![50.0; 3]);
    let params = Params::new(Spec { insecure: true, ..spec }).unwrap();
    let plan = HistogramPlan::new(&HistogramJob { rows, features, bins }, &params).unwrap();
    let s = Session::new(params, plan.required_keys());
    let binned = plan.bins(&table, &[Edges::Equal]).unwrap();
    let data = plan.encrypt(&s.encryptor, &table, &binned, |_| {}).unwrap();
    let above = plan.run(&s.evaluator, &data, |_| {}).unwrap();
    let slots: Vec<_> = above.iter().map(|above| s.decrypt(above)).collect();
    let found = plan.decode(&slots, &binned, rows, None).unwrap();
    assert!(plan.is_exact());
    for (j, histogram) in found.iter().enumerate() {
        for (edges, counted) in histogram.edges.windows(2).zip(&histogram.counts) {
            // All columns are whole numbers, so no value lies at an edge.
            let count = table.column(j).filter(|x| edges[0] < *x && *x < edges[1]).count();
            assert_eq!(*counted, count as f64, "column {j}");
        }
        let mut values: Vec<f64> = table.column(j).collect();
        values.sort_by(f64::total_cmp);
        let (low, high) = histogram.quantile_bounds(0.5).unwrap();
        // The median of 189 values is one of them.
        assert!(low < values[94] && values[94] < high, "column {j}");
        let median = histogram.quantile(0.5).unwrap();
        assert!(low <= median && median <= high, "column {j}: {median}");
    }
}

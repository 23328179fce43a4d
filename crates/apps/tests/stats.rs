//! Statistics under encryption, at real ring sizes.
#![expect(clippy::unwrap_used, reason = "a test may fail this way")]

#[path = "../../sudare/tests/session/mod.rs"]
mod session;

use session::Session;
use sudare::{
    ckks::{self, Ciphertext, Params},
    rlwe::{KeyRequest, Level},
};
use sudare_apps::{
    stats::{ColumnScaling, Job, SlotPlan, Statistics, StatsPlan},
    table::Table,
};

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

    let plain = s.encoder.encode_real(&xs, plan.mean_level(), plan.scale()).unwrap();
    let x = s.encryptor.encrypt(&plain).unwrap();
    let found = plan.mean(&s.evaluator, &x).unwrap();
    assert_eq!(found.level(), Level(0));
    let log2_error = largest(s.decrypt(&found), mean);
    assert!(log2_error < -23.0, "mean: 2^{log2_error:.1}");

    let plain = s.encoder.encode_real(&xs, plan.level(), plan.scale()).unwrap();
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
        let plain = s.encoder.encode_real(&xs, plan.level(), plan.scale()).unwrap();
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
    plan.decode(&slots, &scaling).unwrap()
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

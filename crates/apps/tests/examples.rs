//! The programs in `examples` do what they say.
#![allow(dead_code, clippy::print_stdout, reason = "examples are programs")]

#[path = "../examples/arrays.rs"]
mod arrays;
#[path = "../examples/boosted_trees.rs"]
mod boosted_trees;
#[path = "../examples/logistic_regression.rs"]
mod logistic_regression;
#[path = "../examples/neural_network.rs"]
mod neural_network;
#[path = "../examples/private_search.rs"]
mod private_search;
#[path = "../examples/release.rs"]
mod release;
#[path = "../examples/statistics.rs"]
mod statistics;

use sudare_apps::{
    array::PlainArray,
    logreg::{Prepared, TrainSpec, reference},
};
use sudare_table::Table;

#[test]
fn the_index_lists_every_example() {
    let examples = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    let index = std::fs::read_to_string(examples.join("README.md")).unwrap();
    for entry in std::fs::read_dir(examples).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let listed = |program: &str| index.contains(&format!("`{program}`"));
        assert!(name.strip_suffix(".rs").is_none_or(listed), "{name}");
    }
}

#[test]
fn statistics_are_those_of_the_table() {
    let table = Table::bundled("lbw").unwrap();
    let found = statistics::run(&table).unwrap();
    for (column, mean) in found.mean.iter().enumerate() {
        let values = table.iter_rows().map(|row| row[column]);
        let expected = values.sum::<f64>() / table.rows() as f64;
        assert!((mean - expected).abs() < 1e-4 * expected.abs().max(1.0), "{column}: {mean}");
    }
}

#[test]
fn trees_predict_as_they_do_in_the_clear() {
    let [found, promised] = boosted_trees::run(&boosted_trees::model(2).unwrap(), 200).unwrap();
    assert!(found > 0.0 && found <= promised, "{found} {promised}");
}

#[test]
fn arrays_have_the_covariance_of_the_matrix() {
    let values: Vec<f64> = (0..120).map(|i| f64::from(i * i % 23) / 23.0).collect();
    let found = arrays::run(&PlainArray::new(&[40, 3], values.clone())).unwrap();
    assert_eq!(found.shape, [3, 3]);
    let column = |j: usize| values.iter().skip(j).step_by(3);
    let mean = |j: usize| column(j).sum::<f64>() / 40.0;
    for i in 0..3 {
        for j in 0..3 {
            let products = column(i).zip(column(j)).map(|(x, y)| (x - mean(i)) * (y - mean(j)));
            let expected = products.sum::<f64>() / 40.0;
            let found = found.values[3 * i + j];
            assert!((found - expected).abs() < 1e-5, "{i}, {j}: {found} for {expected}");
        }
    }
}

#[test]
fn a_released_mean_is_right_to_its_last_bit() {
    let answers: Vec<f64> = (0..100).map(|i| f64::from(i % 7) / 6.0).collect();
    let found = release::run(&answers).unwrap();
    let unit = 2f64.powi(release::BITS as i32);
    assert_eq!((found * unit).fract(), 0.0, "{found}");
    let expected = answers.iter().sum::<f64>() / 100.0;
    assert!((found - expected).abs() < 1.01 / unit, "{found} for {expected}");
}

#[test]
fn logistic_regression_is_the_training_in_the_clear() {
    let table = Table::bundled("lbw").unwrap();
    let found = logistic_regression::run(&table).unwrap();
    let spec = TrainSpec { iterations: 3, ..TrainSpec::default() };
    let rows = Prepared::new(&table, &spec, table.rows(), None).unwrap();
    let trained = reference::history(&rows, &spec).unwrap().pop().unwrap();
    let expected = rows.transform().of_columns(&trained[0]);
    let largest = expected.iter().fold(0.0_f64, |most, weight| most.max(weight.abs()));
    for (found, expected) in found.iter().zip(&expected) {
        assert!((found - expected).abs() < 1e-3 * largest, "{found} for {expected}");
    }
    assert!(logistic_regression::accuracy(&table, &found).unwrap() > 0.72);
}

#[test]
fn private_search_ranks_by_the_angle() {
    let vectors: Vec<Vec<f64>> = (0..60).map(private_search::vector).collect();
    let question: Vec<f64> = vectors[17].iter().map(|x| x + 0.05).collect();
    let product = |x: &[f64], y: &[f64]| x.iter().zip(y).map(|(x, y)| x * y).sum::<f64>();
    let cosine =
        |x: &[f64]| product(x, &question) / (product(x, x) * product(&question, &question)).sqrt();
    let found = private_search::run(&vectors, &question, 3).unwrap();
    assert_eq!((found.len(), found[0].0), (3, 17));
    for (row, similarity) in found {
        let expected = cosine(&vectors[row]);
        assert!((similarity - expected).abs() < 1e-3, "{row}: {similarity} for {expected}");
    }
}

#[test]
fn a_network_is_the_same_encrypted_and_in_the_clear() {
    let network = neural_network::network().unwrap();
    let samples = neural_network::samples();
    let found = neural_network::run(&network, &samples).unwrap();
    assert_eq!(found.len(), samples.len());
    for (sample, found) in samples.iter().zip(found) {
        for (found, expected) in found.iter().zip(network.forward(sample).unwrap()) {
            assert!((found - expected).abs() < 0.01, "{found} for {expected}");
        }
    }
}

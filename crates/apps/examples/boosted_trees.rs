//! Gradient boosted trees on encrypted rows. The server has the model, and sees neither rows nor
//! predictions.
//!
//! `cargo run --release -p sudare-apps --example boosted_trees -- 100` takes 100 trees.

#![allow(clippy::print_stdout, missing_docs, reason = "it is a program")]

use std::{sync::Arc, time::Instant};
use sudare::{
    exact::{Decryptor, Evaluator, SymmetricEncryptor},
    rlwe::KeyGenerator,
};
use sudare_apps::trees::{
    Feature, Forest, ForestPlan, Link, Node, Outside, PlanOptions, Setup, Split, Tree, TreesError,
};

/// Number of features, each a byte.
const FEATURES: usize = 20;

/// Random bytes, the same in each run.
struct Bytes(u64);

impl Bytes {
    fn below(&mut self, n: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
}

/// Returns a model of full trees of height 4, in place of a trained one.
pub fn model(trees: usize) -> Result<Forest, TreesError> {
    let mut random = Bytes(1);
    let mut tree = || {
        let node = |number: usize| match number < 15 {
            true => Node::Split(Split {
                feature: random.below(FEATURES as u64) as usize,
                at: 0.5 + random.below(255) as f64,
                or_equal: false,
                single: true,
                left: 2 * number + 1,
                right: 2 * number + 2,
            }),
            false => Node::Leaf(vec![random.below(2001) as f64 / 1e4 - 0.1]),
        };
        Tree { output: Some(0), nodes: (0..31).map(node).collect() }
    };
    let trees = (0..trees).map(|_| tree()).collect();
    let names = (0..FEATURES).map(|number| format!("f{number}")).collect();
    Forest::new(names, Link::Logistic, vec![0.0], Vec::new(), trees)
}

/// Predicts rows of bytes with a model, and returns the largest difference of a raw score to the
/// model in the clear, and the bound of the plan.
pub fn run(forest: &Forest, rows: usize) -> Result<[f64; 2], TreesError> {
    // The server plans, and sends the setup and the parameters to the owner.
    let grid = forest.features().iter().map(|name| Feature::new(name, 0.0, 1.0, 256));
    let grid = grid.collect::<Result<Vec<_>, _>>()?;
    let plan = ForestPlan::new(forest, &grid, &PlanOptions::default())?;
    let explained = plan.explain()?;
    println!(
        "{} trees, {} thresholds: {} relinearisations, {} products with constants, {} levels, \
         {} MB of keys",
        explained.trees,
        explained.thresholds,
        explained.relinearizations,
        explained.constant_products,
        explained.levels,
        explained.key_bytes / 1_000_000
    );
    let setup: &Setup = plan.setup();
    let params = plan.params();

    // The owner makes keys and encrypts.
    let mut keygen = KeyGenerator::new(params.rlwe())?;
    let secret = Arc::new(keygen.secret_key()?);
    let keys = Arc::new(keygen.evaluation_keys(&secret, plan.required_keys())?);
    let mut random = Bytes(2);
    let numbers: Vec<f64> = (0..rows * FEATURES).map(|_| random.below(256) as f64).collect();
    let codes = setup.codes(&numbers, Outside::Refuse)?;
    let encryptor = SymmetricEncryptor::new(params, Arc::clone(&secret))?;
    let plains = setup.plaintexts(params, &codes)?;
    let encrypted = plains
        .map(|plain| Ok(encryptor.encrypt(&plain?)?))
        .collect::<Result<Vec<_>, TreesError>>()?;

    // The server computes.
    let evaluator = Evaluator::new(params, keys)?;
    let start = Instant::now();
    let scores = plan.run(&evaluator, |place| Ok::<_, TreesError>(encrypted[place].clone()))?;
    let seconds = start.elapsed().as_secs_f64();
    println!("{rows} rows in {seconds:.2} s, {:.0} us a row", 1e6 * seconds / rows as f64);

    // The owner decrypts.
    let decryptor = Decryptor::new(params, secret)?;
    let opened = scores.iter().map(|score| decryptor.decrypt(score));
    let opened = opened.collect::<sudare::Result<Vec<_>>>()?;
    let raw = setup.raw(params, &opened, rows)?;
    let mut largest = 0.0f64;
    for (row, found) in numbers.chunks(FEATURES).zip(raw) {
        largest = largest.max((found - forest.raw(row)?[0]).abs());
    }
    println!(
        "raw scores are within {largest:.1e} of the model, and {:.1e} was promised",
        setup.error()
    );
    Ok([largest, setup.error()])
}

fn main() -> Result<(), TreesError> {
    let trees = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(10);
    run(&model(trees)?, 1 << 15).map(|_| ())
}

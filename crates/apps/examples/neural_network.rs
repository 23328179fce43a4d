//! A dense network on encrypted samples: the server has the weights, and learns neither samples nor
//! results.
//!
//! `cargo run --release -p sudare-apps --example neural_network`

#![allow(clippy::print_stdout, missing_docs, reason = "it is a program")]

use std::{error::Error, sync::Arc};
use sudare::{
    ckks::{Ciphertext, Decryptor, Evaluator, SymmetricEncryptor},
    rlwe::{EvaluationKeys, KeyGenerator},
};
use sudare_apps::nn::{Activation, Layer, Network, Options, Plan, Ranges};

fn main() -> Result<(), Box<dyn Error>> {
    let samples = samples();
    for (sample, result) in samples.iter().zip(run(&network()?, &samples)?) {
        println!("{sample:5.2?} -> {result:7.4?}");
    }
    Ok(())
}

/// Three inputs, four hidden values and their squares, two outputs.
pub fn network() -> Result<Network, Box<dyn Error>> {
    // Weights are integers times `step`: exact, in the smallest ring.
    let dense = |weights: &[&[f64]], bias: &[f64]| Layer::Dense {
        weights: weights.iter().map(|row| row.to_vec()).collect(),
        bias: bias.to_vec(),
        step: 0.125,
    };
    let hidden: [&[f64]; 4] =
        [&[8.0, -4.0, 2.0], &[4.0, 4.0, -8.0], &[-6.0, 8.0, 4.0], &[1.0, -8.0, 8.0]];
    let output: [&[f64]; 2] = [&[8.0, -4.0, 2.0, 4.0], &[-8.0, 6.0, 4.0, -2.0]];
    let layers = vec![
        dense(&hidden, &[0.0, 0.25, -0.25, 0.5]),
        Layer::Activation(Activation::Square),
        dense(&output, &[0.125, -0.5]),
    ];
    Ok(Network::new(vec![3], layers)?)
}

/// Samples from -1 to 1. They also calibrate the ranges.
pub fn samples() -> Vec<[f64; 3]> {
    let value = |i: u32| f64::from(i % 9) / 4.0 - 1.0;
    (0..8).map(|i| [value(i), value(3 * i + 1), value(5 * i + 2)]).collect()
}

/// Classifies encrypted samples.
pub fn run(network: &Network, samples: &[[f64; 3]]) -> Result<Vec<Vec<f64>>, Box<dyn Error>> {
    let samples: Vec<&[f64]> = samples.iter().map(|sample| &sample[..]).collect();
    // Owner and server make the same plan from the network and the range of every number in it.
    let ranges = Ranges::calibrate(network, samples.iter().copied(), 1.25)?;
    let plan = Plan::new(network, &ranges, Options::for_samples(samples.len()))?;

    // The owner. An encryption under the secret key itself is half as large in a file.
    let params = plan.params();
    let mut keygen = KeyGenerator::new(params.rlwe())?;
    let secret = Arc::new(keygen.secret_key()?);
    let keys = Arc::new(keygen.evaluation_keys(&secret, plan.required_keys())?);
    let encryptor = SymmetricEncryptor::new(params, Arc::clone(&secret))?;
    let encrypted = plan.encrypt(&encryptor, &samples)?;

    let results = serve(&plan, keys, &encrypted)?;

    // The owner again.
    let decryptor = Decryptor::new(params, secret)?;
    Ok(plan.decrypt(&decryptor, &results, samples.len())?)
}

/// The server.
fn serve(
    plan: &Plan,
    keys: Arc<EvaluationKeys>,
    encrypted: &[Ciphertext],
) -> Result<Vec<Ciphertext>, Box<dyn Error>> {
    let evaluator = Evaluator::new(plan.params(), keys)?;
    let prepared = plan.prepare(&evaluator)?;
    Ok(plan.run(&evaluator, &prepared, encrypted)?)
}

//! The sigmoid of encrypted slots: a polynomial on an interval, planned before a key exists.
//!
//! `cargo run --release --example sigmoid`

#![allow(clippy::print_stdout, missing_docs, reason = "it is a program")]

use std::sync::Arc;
use sudare::{
    Result,
    circuits::ckks::{Polynomial, PolynomialPlan},
    ckks::{Ciphertext, Decryptor, Encoder, Encryptor, Evaluator, Params},
    rlwe::{EvaluationKeys, KeyGenerator},
};

/// Arguments must lie in this interval: outside, the polynomial is far from the sigmoid.
const INTERVAL: core::ops::Range<f64> = -8.0..8.0;
const DEGREE: usize = 31;

fn main() -> Result<()> {
    let arguments = [-6.0, -1.0, 0.0, 0.5, 4.0];
    for (x, y) in arguments.iter().zip(run(&arguments)?) {
        println!("sigmoid({x:4.1}) = {y:.5}");
    }
    Ok(())
}

/// The function itself, in the clear.
pub fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// Owner and server make the same plan from the parameters.
fn plan(params: &Params) -> Result<PolynomialPlan> {
    let polynomial = Polynomial::chebyshev(sigmoid, INTERVAL, DEGREE)?;
    let top = params.top();
    polynomial.plan_to(
        params.chain(),
        top,
        params.scale_at(top),
        |level| Ok(params.scale_at(level)),
    )
}

/// Encrypts the arguments, and decrypts their sigmoids.
pub fn run(arguments: &[f64]) -> Result<Vec<f64>> {
    let params = Params::preset("n14")?;
    let plan = plan(&params)?;
    println!("{} levels, {} products", plan.depth(), plan.relinearizations());

    // The owner.
    let mut keygen = KeyGenerator::new(params.rlwe())?;
    let secret = keygen.secret_key()?;
    let public = Arc::new(keygen.public_key(&secret)?);
    let keys = Arc::new(keygen.evaluation_keys(&secret, plan.required_keys())?);
    let encoder = Encoder::new(&params);
    let x = Encryptor::new(&params, public)?.encrypt(&encoder.encode_real(arguments)?)?;

    let y = serve(&params, keys, &x)?;

    // The owner again. Slots beyond the arguments hold the sigmoid of 0.
    let mut values = encoder.decode_real(&Decryptor::new(&params, secret)?.decrypt(&y)?)?;
    values.truncate(arguments.len());
    Ok(values)
}

/// The server.
fn serve(params: &Params, keys: Arc<EvaluationKeys>, x: &Ciphertext) -> Result<Ciphertext> {
    plan(params)?.run(&Evaluator::new(params, keys)?, x)
}

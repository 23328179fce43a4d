//! Arrays with automatic levels: the covariance of an encrypted matrix. The program is written
//! once, and the plan finds ring, levels and keys from the shape of its input.
//!
//! `cargo run --release -p sudare-apps --example arrays`

#![allow(clippy::print_stdout, missing_docs, reason = "it is a program")]

use std::{error::Error, sync::Arc};
use sudare::{
    circuits::ckks::ComplexOps,
    ckks::{Decryptor, Encryptor, Evaluator, Params},
    rlwe::{EvaluationKeys, KeyGenerator},
};
use sudare_apps::array::{self, Array, Engine, Layout, PlainArray, PlanOptions, Planned};

fn main() -> Result<(), Box<dyn Error>> {
    let values = (0..300).map(|i| f64::from(i * i % 17) / 17.0).collect();
    let found = run(&PlainArray::new(&[100, 3], values))?;
    found.values.chunks(3).for_each(|row| println!("{row:8.5?}"));
    Ok(())
}

/// The program: it runs on ciphertexts, and on clear numbers while the plan is made.
fn covariance<E: ComplexOps>(engine: &Engine<'_, E>, x: &Array<E>) -> array::Result<Array<E>> {
    let rows = x.shape()[0] as f64;
    let centred = engine.sub(x, &engine.mean(x, Some(&[0]), false)?)?;
    let products = engine.matmul(&engine.transpose(&centred, None)?, &centred)?;
    engine.mul_scalar(&products, 1.0 / rows)
}

/// Encrypts a matrix, and decrypts the covariance of its columns.
pub fn run(table: &PlainArray) -> Result<PlainArray, Box<dyn Error>> {
    // The shape is public, and all that the plan uses.
    let planned = array::plan(&[&table.shape], &PlanOptions::default(), |engine, inputs| {
        Ok(vec![covariance(engine, &inputs[0])?])
    })?;
    println!(
        "N = 2^{}, {:.0} bits of security, {} levels, {} keys of {} MB",
        planned.log_n,
        planned.security_bits,
        planned.depth,
        planned.keys,
        planned.key_bytes / 1_000_000
    );

    // The owner.
    let params = Params::new(planned.spec.clone())?;
    let mut keygen = KeyGenerator::new(params.rlwe())?;
    let secret = keygen.secret_key()?;
    let public = Arc::new(keygen.public_key(&secret)?);
    let keys = Arc::new(keygen.evaluation_keys(&secret, &planned.required_keys)?);
    let encryptor = Encryptor::new(&params, public)?;
    let layout = Layout::new(&table.shape, params.log_n() - 1)?;
    let encrypted = array::encrypt(&encryptor, &params, &layout, table, params.top())?;

    let result = serve(&planned, keys, &encrypted)?;

    // The owner again.
    Ok(array::decrypt(&Decryptor::new(&params, secret)?, &params, &result)?)
}

/// The server: the same program on ciphertexts.
fn serve(
    planned: &Planned,
    keys: Arc<EvaluationKeys>,
    x: &Array<Evaluator>,
) -> Result<Array<Evaluator>, Box<dyn Error>> {
    let params = Params::new(planned.spec.clone())?;
    let evaluator = Evaluator::new(&params, keys)?;
    let engine = Engine::new(&evaluator, &params, None)?;
    Ok(covariance(&engine.for_keys(&params, &planned.required_keys), x)?)
}

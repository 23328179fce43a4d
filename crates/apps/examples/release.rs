//! A result for others than the owner of the key: a mean, released with noise that hides the error
//! of encryption. That error depends on the secret key, so decrypted values must not be shown.
//!
//! `cargo run --release -p sudare-apps --example release`

#![allow(clippy::print_stdout, missing_docs, reason = "it is a program")]

use std::{error::Error, sync::Arc};
use sudare::{
    circuits::ckks::ComplexOps,
    ckks::{Decryptor, Encryptor, Evaluator, Params, Release},
    rlwe::KeyGenerator,
};
use sudare_apps::array::{self, Array, Engine, Layout, PlainArray, PlanOptions};

/// Bits after the binary point that others may see.
pub const BITS: u32 = 10;

fn main() -> Result<(), Box<dyn Error>> {
    let answers: Vec<f64> = (0..500).map(|i| f64::from(i % 11) / 10.0).collect();
    println!("mean {:.4}, a multiple of 2^-{BITS}", run(&answers)?);
    Ok(())
}

fn mean<E: ComplexOps>(engine: &Engine<'_, E>, x: &Array<E>) -> array::Result<Array<E>> {
    engine.mean(x, None, false)
}

/// Encrypts answers from 0 to 1, and releases their mean.
pub fn run(answers: &[f64]) -> Result<f64, Box<dyn Error>> {
    // The plan makes scales large enough to hide errors below the last bit shown, and bounds the
    // error for all inputs. Never use an error that you measured.
    let shape = [answers.len()];
    let range = vec![Some((0.0, 1.0))];
    let options = PlanOptions { share_bits: Some(BITS), ranges: range, ..PlanOptions::default() };
    let planned =
        array::plan(&[&shape], &options, |engine, inputs| Ok(vec![mean(engine, &inputs[0])?]))?;
    let bound = planned.outputs[0].largest_error();
    println!("errors below 2^{:.1}", bound.log2());

    // The owner.
    let params = Params::new(planned.spec.clone())?;
    let mut keygen = KeyGenerator::new(params.rlwe())?;
    let secret = keygen.secret_key()?;
    let public = Arc::new(keygen.public_key(&secret)?);
    let keys = Arc::new(keygen.evaluation_keys(&secret, &planned.required_keys)?);
    let encryptor = Encryptor::new(&params, public)?;
    let layout = Layout::new(&shape, params.log_n() - 1)?;
    let plain = PlainArray::new(&shape, answers.to_vec());
    let encrypted = array::encrypt(&encryptor, &params, &layout, &plain, params.top())?;
    let encrypted = encrypted.declared(&plain, 0.0, 1.0)?;

    // The server.
    let evaluator = Evaluator::new(&params, keys)?;
    let engine = Engine::new(&evaluator, &params, None)?;
    let result = mean(&engine.for_keys(&params, &planned.required_keys), &encrypted)?;

    // The owner again. The noise follows from the key and from everything that the values follow
    // from, so the same release has the same noise each time. A key has 1024 releases: count them.
    let decryptor = Decryptor::new(&params, secret)?;
    let own = array::decrypt(&decryptor, &params, &result)?.values;
    let mut subject = blake3::Hasher::new();
    subject.update(&BITS.to_le_bytes());
    own.iter().for_each(|value| {
        subject.update(&value.to_le_bytes());
    });
    let noise = decryptor.release_seed(subject.finalize().as_bytes())?;
    Ok(Release::default().values(&own, bound, BITS, &noise)?[0])
}

//! Two parties: an owner encrypts a list of numbers, a server without the secret key computes
//! their mean square, the owner decrypts it.
//!
//! `cargo run --release --example encrypt_compute_decrypt`

#![allow(clippy::print_stdout, missing_docs, reason = "it is a program")]

use sudare::{
    Result,
    circuits::Trace,
    ckks::{Ciphertext, Decryptor, Encoder, Encryptor, Evaluator, Params, Scale},
    rlwe::{EvaluationKeys, KeyGenerator, KeyRequest},
};

/// Slots that the numbers fill: a power of two.
const COUNT: usize = 1024;

fn main() -> Result<()> {
    println!("mean square {:.6}", run()?);
    Ok(())
}

/// The mean square of 0, 1/1024, 2/1024, … as it is decrypted.
pub fn run() -> Result<f64> {
    // Parameters of 128 bits of security in the smallest ring; both parties know them.
    let params = Params::preset("n13")?;
    let top = params.top();
    let sum = Trace::inner_sum(params.log_n(), 1, COUNT)?.doubling();

    // The owner makes keys for exactly what the server will do, and encrypts.
    let mut request = KeyRequest::new().relinearize(top);
    request |= sum.required_keys(top);
    let mut keygen = KeyGenerator::new(params.rlwe())?;
    let secret = keygen.secret_key()?;
    let public = keygen.public_key(&secret)?;
    let evaluation = keygen.evaluation_keys(&secret, &request)?;
    let encoder = Encoder::new(&params);
    let numbers: Vec<f64> = (0..COUNT).map(|i| i as f64 / COUNT as f64).collect();
    let plain = encoder.encode_real(&numbers)?;
    let encrypted = Encryptor::new(&params, public)?.encrypt(&plain)?;

    let result = serve(&params, evaluation, &encrypted)?;

    // The owner again. Each slot holds the mean.
    let decrypted = Decryptor::new(&params, secret)?.decrypt(&result)?;
    Ok(encoder.decode_real(&decrypted)?[0])
}

/// The server: it has the evaluation keys and ciphertexts, and no secret key.
fn serve(params: &Params, keys: EvaluationKeys, x: &Ciphertext) -> Result<Ciphertext> {
    let evaluator = Evaluator::new(params, keys)?;
    let squares = evaluator.mul_rescale(x, x)?;
    let sum = Trace::inner_sum(params.log_n(), 1, COUNT)?.doubling().run(&evaluator, &squares)?;
    // Dividing by a number is reading the sum at a larger scale.
    evaluator.with_scale(&sum, sum.scale() * Scale::from_u64(COUNT as u64))
}

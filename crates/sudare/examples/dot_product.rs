//! The dot product of two encrypted vectors: one product, then a sum over slots by rotations.
//!
//! `cargo run --release --example dot_product`

#![allow(clippy::print_stdout, missing_docs, reason = "it is a program")]

use sudare::{
    Result,
    circuits::{Trace, TracePlan},
    ckks::{Ciphertext, Decryptor, Encoder, Encryptor, Evaluator, Params},
    rlwe::{EvaluationKeys, KeyGenerator, KeyRequest, Level},
};

fn main() -> Result<()> {
    let found = run(&[0.5, -1.0, 2.0, 3.0, 0.25], &[4.0, 2.0, -0.5, 1.5, 8.0])?;
    println!("dot product {found:.4}");
    Ok(())
}

/// Plans the sum of the slots of a vector. Vectors are filled with zeros up to a power of two.
fn sum_of(params: &Params, length: usize) -> Result<TracePlan> {
    Ok(Trace::inner_sum(params.log_n(), 1, length.next_power_of_two())?.doubling())
}

/// Encrypts both vectors, and decrypts their dot product.
pub fn run(left: &[f64], right: &[f64]) -> Result<f64> {
    let params = Params::preset("n13")?;
    let top = params.top();

    // The owner: a key for the product, and keys for the rotations one level below it.
    let mut request = KeyRequest::new().relinearize(top);
    request |= sum_of(&params, left.len())?.required_keys(Level(top.0 - 1));
    let mut keygen = KeyGenerator::new(params.rlwe())?;
    let secret = keygen.secret_key()?;
    let public = keygen.public_key(&secret)?;
    let keys = keygen.evaluation_keys(&secret, &request)?;
    let encoder = Encoder::new(&params);
    let encryptor = Encryptor::new(&params, public)?;
    let x = encryptor.encrypt(&encoder.encode_real(left)?)?;
    let y = encryptor.encrypt(&encoder.encode_real(right)?)?;

    let result = serve(&params, keys, [&x, &y], left.len())?;

    // The owner again. Each slot holds the dot product.
    let decrypted = Decryptor::new(&params, secret)?.decrypt(&result)?;
    Ok(encoder.decode_real(&decrypted)?[0])
}

/// The server: it has keys, both ciphertexts, and the length of the vectors.
fn serve(
    params: &Params,
    keys: EvaluationKeys,
    vectors: [&Ciphertext; 2],
    length: usize,
) -> Result<Ciphertext> {
    let evaluator = Evaluator::new(params, keys)?;
    let products = evaluator.mul_rescale(vectors[0], vectors[1])?;
    sum_of(params, length)?.run(&evaluator, &products)
}

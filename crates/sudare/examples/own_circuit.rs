//! A circuit of one's own: written once against `Ops`, tried on clear numbers, which finds its
//! depth and its keys, and then run on ciphertexts.
//!
//! `cargo run --release --example own_circuit`

#![allow(clippy::print_stdout, missing_docs, reason = "it is a program")]

use std::sync::Arc;
use sudare::{
    Result,
    circuits::ckks::{ComplexOps, sim},
    ckks::{Complex, Decryptor, Encoder, Encryptor, Evaluator, Params, Scale},
    rlwe::KeyGenerator,
};

/// `x (3 - x^2) / 2` in every slot, a step towards the sign of `x`: two levels.
fn towards_sign<E: ComplexOps>(e: &E, x: &E::Ct) -> Result<E::Ct> {
    let square = e.mul_rescale(x, x)?;
    let zero = e.sub(&square, &square)?;
    let difference = e.add_const(&e.sub(&zero, &square)?, Complex::new(3.0, 0.0))?;
    let product = e.mul_rescale(x, &difference)?;
    // Half of it: the same integers read at twice the scale.
    e.with_scale(&product, e.scale(&product) * Scale::from_u64(2))
}

fn main() -> Result<()> {
    run().map(drop)
}

/// The results on ciphertexts and on clear numbers, slot by slot.
pub fn run() -> Result<Vec<(f64, f64)>> {
    let params = Params::preset("n14")?;
    let (top, scale) = (params.top(), params.scale_at(params.top()));
    let numbers = [-0.9, -0.4, 0.1, 0.7];

    // On clear numbers: what encryption would refuse is refused, and keys are written down.
    let clear = sim::Evaluator::new(params.log_n(), params.chain().clone());
    let slots = numbers.map(|x| Complex::new(x, 0.0));
    let expected = towards_sign(&clear, &clear.encrypt(&slots, top, scale)?)?;
    println!(
        "{} levels, {} products, error about 2^{:.0}",
        top.0 - expected.level.0,
        clear.counts().products,
        expected.noise_log2
    );

    // On ciphertexts, with exactly those keys.
    let mut keygen = KeyGenerator::new(params.rlwe())?;
    let secret = keygen.secret_key()?;
    let public = Arc::new(keygen.public_key(&secret)?);
    let keys = Arc::new(keygen.evaluation_keys(&secret, &clear.used_keys())?);
    let encoder = Encoder::new(&params);
    let x =
        Encryptor::new(&params, public)?.encrypt(&encoder.encode_real_at(&numbers, top, scale)?)?;
    let found = towards_sign(&Evaluator::new(&params, keys)?, &x)?;
    let found = encoder.decode_real(&Decryptor::new(&params, secret)?.decrypt(&found)?)?;
    for (x, found) in numbers.iter().zip(&found) {
        println!("{x:5.2} -> {found:8.5}");
    }
    Ok(found.into_iter().zip(expected.slots.iter().map(|slot| slot.re)).collect())
}

//! Your own formula, written once for any evaluator: a simulation states its depth, its keys and
//! its error before any key exists, then it runs on ciphertexts.
//!
//! `cargo run --release --example own_circuit`

#![allow(clippy::print_stdout, missing_docs, reason = "it is a program")]

use sudare::{
    Result, Value,
    circuits::ckks::{ComplexOps, sim},
    ckks::{Complex, Decryptor, Encoder, Encryptor, Evaluator, Needs, Params, Scale, choose},
    rlwe::KeyGenerator,
};

/// `x (3 - x^2) / 2` in every slot, a step towards the sign of `x`: two levels.
fn towards_sign<'e, E: ComplexOps>(x: &Value<'e, E>) -> Value<'e, E> {
    let twice = x * (3.0 - x * x);
    // Half of it without a level: the same integers read at twice the scale.
    twice.apply(|e, a| e.with_scale(a, e.scale(a) * Scale::from_u64(2)))
}

fn main() -> Result<()> {
    run().map(drop)
}

/// The results on ciphertexts and on clear numbers, slot by slot.
pub fn run() -> Result<Vec<(f64, f64)>> {
    let numbers = [-0.9, -0.4, 0.1, 0.7];
    let choice = choose(Needs { slots: 4, depth: 2, magnitude: 3.0, ..Needs::default() })?;
    println!("{choice}");
    let params = Params::new(choice.spec)?;
    let top = params.top();

    // On clear numbers: it refuses what encryption would refuse, and records the keys.
    let clear = sim::Evaluator::for_params(&params);
    let slots = numbers.map(|x| Complex::new(x, 0.0));
    let x = Value::new(&clear, clear.encrypt(&slots, top, params.scale_at(top))?);
    let expected = towards_sign(&x).into_ciphertext()?;
    println!(
        "{} levels, {} products, error about 2^{:.0}",
        top.0 - expected.level.0,
        clear.counts().products,
        expected.noise_log2
    );

    // On ciphertexts, with exactly those keys.
    let mut keygen = KeyGenerator::new(params.rlwe())?;
    let secret = keygen.secret_key()?;
    let public = keygen.public_key(&secret)?;
    let keys = keygen.evaluation_keys(&secret, &clear.used_keys())?;
    let encoder = Encoder::new(&params);
    let encrypted = Encryptor::new(&params, public)?.encrypt(&encoder.encode_real(&numbers)?)?;
    let evaluator = Evaluator::new(&params, keys)?;
    let found = towards_sign(&Value::new(&evaluator, encrypted)).into_ciphertext()?;
    let found = encoder.decode_real(&Decryptor::new(&params, secret)?.decrypt(&found)?)?;
    for (x, found) in numbers.iter().zip(&found) {
        println!("{x:5.2} -> {found:8.5}");
    }
    Ok(found.into_iter().zip(expected.slots.iter().map(|slot| slot.re)).collect())
}

//! BFV beyond the levels of a ring: parameters for bootstrapping integers modulo 257, a product,
//! and another one after the ciphertext got new levels.
//!
//! `cargo run --release --example bfv_bootstrapping`; it takes some seconds.

#![allow(clippy::print_stdout, missing_docs, reason = "it is a program")]

use std::sync::Arc;
use sudare::{
    Result, bfv,
    circuits::exact::bootstrap,
    exact::{Decryptor, Encryptor, Modulus, Params, Tensor},
    rlwe::KeyGenerator,
};

const T: u64 = 257;
const LOG_N: u32 = 14;

fn main() -> Result<()> {
    let fourth_powers = run(&[1, 2, 3, -4, 5])?;
    println!("fourth powers modulo {T}: {fourth_powers:?}");
    Ok(())
}

/// Returns fourth powers modulo 257. The ciphertext is bootstrapped before the first product.
pub fn run(values: &[i128]) -> Result<Vec<i128>> {
    // Parameters of 128 bits of security for a modulus of your choice, with the most levels.
    let set = bootstrap::choose(Modulus::new(T, 1)?, LOG_N)?;
    let params = Params::new(set.preset.spec.clone())?;
    let plan = set.bootstrap.plan_with(&params, Tensor::Scaled, Params::fresh_factor)?;
    let request = plan.required_keys().clone().relinearize(plan.output_level());
    println!(
        "{}: {} levels after bootstrapping, {} keys, {} MB, failure 2^{:.0}",
        set.preset.name,
        plan.usable_levels(),
        request.count(),
        request.bytes(params.rlwe())? / 1_000_000,
        plan.log2_failure()
    );

    // The owner encrypts at the lowest level that a bootstrapping starts from.
    let mut keygen = KeyGenerator::new(params.rlwe())?;
    let secret = keygen.secret_key()?;
    let public = Arc::new(keygen.public_key(&secret)?);
    let keys = Arc::new(keygen.evaluation_keys(&secret, &request)?);
    let encoder = set.bootstrap.encoder(params.log_n())?;
    let level = plan.input_level();
    let factor = params.fresh_factor(level, encoder.modulus())?;
    let encryptor = Encryptor::new(&params, public)?;
    let exhausted = encryptor.encrypt_at(&encoder.encode(values)?, level, factor)?;

    // The server.
    let evaluator = bfv::Evaluator::new(&params, keys)?;
    let bootstrapper = plan.prepare(&evaluator)?;
    let fresh = bootstrapper.run(&evaluator, &exhausted)?;
    println!("from level {} to {}", exhausted.level(), fresh.level());
    let squares = evaluator.mul_rescale(&fresh, &fresh)?;
    let powers = evaluator.mul_rescale(&squares, &squares)?;

    // The owner again.
    let decrypted = Decryptor::new(&params, secret)?.decrypt(&powers)?;
    let mut powers = encoder.decode(&decrypted)?;
    powers.truncate(values.len());
    Ok(powers)
}

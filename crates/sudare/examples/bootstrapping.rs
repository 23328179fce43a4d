//! A ciphertext without levels gets new ones: bootstrapping of 256 complex slots in a ring of
//! dimension 2^15, at 128 bits of security.
//!
//! `cargo run --release --example bootstrapping`; it takes some seconds and 2 GB of memory.

#![allow(clippy::print_stdout, missing_docs, reason = "it is a program")]

use std::{sync::Arc, time::Instant};
use sudare::{
    Result,
    circuits::ckks::bootstrap,
    ckks::{Complex, Decryptor, Encoder, Encryptor, Evaluator, Params},
    rlwe::KeyGenerator,
};

const LOG_SLOTS: u32 = 8;

fn main() -> Result<()> {
    run().map(drop)
}

/// The largest error of a slot, and the levels that there are again.
pub fn run() -> Result<(f64, u32)> {
    let set = bootstrap::preset("n15-boot")?;
    let params = Params::new(set.preset.spec.clone())?;
    // Levels, scales and keys are known before a key is made.
    let plan = set.plan(&params, LOG_SLOTS)?;
    let request = plan.required_keys();
    println!("{} keys, {} MB", request.count(), request.bytes(params.rlwe())? / 1_000_000);

    let mut keygen = KeyGenerator::new(params.rlwe())?;
    let secret = keygen.secret_key()?;
    let public = Arc::new(keygen.public_key(&secret)?);
    let keys = Arc::new(keygen.evaluation_keys(&secret, request)?);
    let evaluator = Evaluator::new(&params, keys)?;
    let bootstrapper = plan.prepare(&evaluator)?;

    // The lowest level that a bootstrapping starts from: no product is possible there.
    let slots: Vec<_> = (0..1 << LOG_SLOTS).map(|i| (f64::from(i) * 0.37).sin()).collect();
    let slots: Vec<_> = slots.iter().map(|&x| Complex::new(x / 2.0, -x / 3.0)).collect();
    let encoder = Encoder::new(&params);
    let input = encoder.encode_at(&slots, plan.input_level(), plan.input_scale())?;
    let exhausted = Encryptor::new(&params, public)?.encrypt(&input)?;

    let start = Instant::now();
    let refreshed = bootstrapper.run(&evaluator, &exhausted)?;
    println!(
        "from level {} to {} in {:.2} s",
        exhausted.level(),
        refreshed.level(),
        start.elapsed().as_secs_f64()
    );

    let found = encoder.decode(&Decryptor::new(&params, secret)?.decrypt(&refreshed)?)?;
    let errors = found.iter().zip(&slots).map(|(a, b)| (a.re - b.re).hypot(a.im - b.im));
    let largest = errors.fold(0.0, f64::max);
    println!("largest error 2^{:.1}", largest.log2());
    Ok((largest, plan.usable_levels()))
}

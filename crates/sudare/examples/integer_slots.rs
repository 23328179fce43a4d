//! What slots of integers become: prints a line of JSON for each operation, with the slots of its result
//! modulo 65537, so that they can be compared with those of another library.
//!
//! ```console
//! cargo run --release --example integer_slots
//! ```

#![allow(clippy::print_stdout, missing_docs, reason = "it is a program")]

use std::sync::Arc;
use sudare::{
    bfv,
    exact::{BatchEncoder, Ciphertext, Decryptor, Encryptor, Modulus, Params, Spec},
    rlwe::{GaloisElement, KeyGenerator, KeyRequest},
};

/// The plaintext modulus of what is printed.
pub const T: u64 = 65537;
pub const ROTATIONS: [i64; 3] = [1, 5, -3];

fn main() -> sudare::Result<()> {
    for (op, slots) in run(T, 12)? {
        println!(r#"{{"op": "{op}", "slots": {slots:?}}}"#);
    }
    Ok(())
}

/// Slots modulo `t` that are encrypted: those of a polynomial of the number of the slot.
pub fn slots([a, b, c]: [u128; 3], t: u64, count: usize) -> Vec<u128> {
    (0..count as u128).map(|i| (a * i * i + b * i + c) % u128::from(t)).collect()
}

/// Digits of pi and of e, so that they are not small beside moduli.
pub const X: [u128; 3] = [31_415_926_535, 8_979_323_846, 2_643_383_279];
pub const Y: [u128; 3] = [27_182_818_284, 5_904_523_536, 287_471_352];

/// Operations and the slots of their results modulo a prime, in the ring of degree `2^log_n`; first the
/// coefficients of the first plaintext.
pub fn run(t: u64, log_n: u32) -> sudare::Result<Vec<(String, Vec<u128>)>> {
    let modulus = Modulus::new(t, 1)?;
    let spec = Spec::uniform(log_n, modulus, 50.0, 3, 50.0, vec![51.0]);
    let params = Params::new(Spec { insecure: true, ..spec })?;
    let top = params.top();
    let encoder = BatchEncoder::new(modulus, log_n)?;
    let [x, y] = [X, Y].map(|polynomial| slots(polynomial, t, encoder.slots()));

    let mut keygen = KeyGenerator::new(params.rlwe())?;
    let secret = keygen.secret_key()?;
    let encryptor = Encryptor::new(&params, Arc::new(keygen.public_key(&secret)?))?;
    let request = KeyRequest::new().relinearize(top).rotations(log_n, ROTATIONS, top);
    let request = request.automorphism(GaloisElement::conjugation(log_n), top);
    let keys = Arc::new(keygen.evaluation_keys(&secret, &request)?);
    let evaluator = bfv::Evaluator::new(&params, keys)?;
    let decryptor = Decryptor::new(&params, Arc::new(secret))?;

    let encoded = encoder.encode_unsigned(&x)?;
    let mut results = vec![("coefficients".to_owned(), encoded.coeffs().to_vec())];
    let [a, b] = [encryptor.encrypt(&encoded)?, encryptor.encrypt(&encoder.encode_unsigned(&y)?)?];
    let mut add = |op: &str, result: Ciphertext| -> sudare::Result<()> {
        let slots = encoder.decode_unsigned(&decryptor.decrypt(&result)?)?;
        results.push((op.to_owned(), slots));
        Ok(())
    };
    let exact = evaluator.exact();
    add("add", exact.add(&a, &b)?)?;
    add("bgv_mul", exact.mul(&a, &b)?)?;
    add("bfv_mul", evaluator.mul(&a, &b)?)?;
    add("swap_rows", exact.swap_rows(&a)?)?;
    for k in ROTATIONS {
        add(&format!("rotate {k}"), exact.rotate(&a, k)?)?;
    }
    Ok(results)
}

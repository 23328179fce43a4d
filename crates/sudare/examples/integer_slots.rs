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

/// The plaintext modulus.
pub const T: u128 = 65537;
pub const ROTATIONS: [i64; 3] = [1, 5, -3];

fn main() -> sudare::Result<()> {
    for (op, slots) in run()? {
        println!(r#"{{"op": "{op}", "slots": {slots:?}}}"#);
    }
    Ok(())
}

/// Slots that are encrypted: those of a polynomial of the number of the slot.
pub fn slots([a, b, c]: [u128; 3], count: usize) -> Vec<u128> {
    (0..count as u128).map(|i| (a * i * i + b * i + c) % T).collect()
}

pub const X: [u128; 3] = [31, 7, 5];
pub const Y: [u128; 3] = [17, 3, 11];

/// Operations and the slots of their results; first the coefficients of the first plaintext.
pub fn run() -> sudare::Result<Vec<(String, Vec<u128>)>> {
    let t = Modulus::new(T as u64, 1)?;
    let spec = Spec { insecure: true, ..Spec::uniform(12, t, 50.0, 1, 50.0, vec![51.0]) };
    let params = Params::new(spec)?;
    let (log_n, top) = (params.log_n(), params.top());
    let encoder = BatchEncoder::new(t, log_n)?;
    let (x, y) = (slots(X, encoder.slots()), slots(Y, encoder.slots()));

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
    add("bgv_mul", exact.mul(&a, &b)?)?;
    add("bfv_mul", evaluator.mul(&a, &b)?)?;
    add("swap_rows", exact.swap_rows(&a)?)?;
    for k in ROTATIONS {
        add(&format!("rotate {k}"), exact.rotate(&a, k)?)?;
    }
    Ok(results)
}

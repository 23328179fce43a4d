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

const ROTATIONS: [i64; 3] = [1, 5, -3];

fn main() -> sudare::Result<()> {
    let t = Modulus::new(65537, 1)?;
    let spec = Spec { insecure: true, ..Spec::uniform(12, t, 50.0, 1, 50.0, vec![51.0]) };
    let params = Params::new(spec)?;
    let (log_n, top) = (params.log_n(), params.top());
    let encoder = BatchEncoder::new(t, log_n)?;
    let polynomial = |[a, b, c]: [u128; 3]| -> Vec<u128> {
        (0..encoder.slots() as u128).map(|i| t.reduce(a * i * i + b * i + c)).collect()
    };
    let (x, y) = (polynomial([31, 7, 5]), polynomial([17, 3, 11]));

    let mut keygen = KeyGenerator::new(params.rlwe())?;
    let secret = keygen.secret_key()?;
    let encryptor = Encryptor::new(&params, Arc::new(keygen.public_key(&secret)?))?;
    let request = KeyRequest::new().relinearize(top).rotations(log_n, ROTATIONS, top);
    let request = request.automorphism(GaloisElement::conjugation(log_n), top);
    let keys = Arc::new(keygen.evaluation_keys(&secret, &request)?);
    let evaluator = bfv::Evaluator::new(&params, keys)?;
    let decryptor = Decryptor::new(&params, Arc::new(secret))?;

    let encoded = encoder.encode_unsigned(&x)?;
    println!(r#"{{"op": "coefficients", "slots": {:?}}}"#, encoded.coeffs());
    let [a, b] = [encryptor.encrypt(&encoded)?, encryptor.encrypt(&encoder.encode_unsigned(&y)?)?];
    let show = |op: &str, result: Ciphertext| -> sudare::Result<()> {
        let slots = encoder.decode_unsigned(&decryptor.decrypt(&result)?)?;
        println!(r#"{{"op": "{op}", "slots": {slots:?}}}"#);
        Ok(())
    };
    let exact = evaluator.exact();
    show("bgv_mul", exact.mul(&a, &b)?)?;
    show("bfv_mul", evaluator.mul(&a, &b)?)?;
    show("swap_rows", exact.swap_rows(&a)?)?;
    for k in ROTATIONS {
        show(&format!("rotate {k}"), exact.rotate(&a, k)?)?;
    }
    Ok(())
}

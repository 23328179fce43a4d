//! What slots of real numbers become: prints a line of JSON for each operation, with the slots of its
//! decrypted result, so that they can be compared with those of another library.
//!
//! ```console
//! cargo run --release --example real_slots
//! ```

#![allow(clippy::print_stdout, missing_docs, reason = "it is a program")]

use std::sync::Arc;
use sudare::{
    ckks::{Ciphertext, Decryptor, Encoder, Encryptor, Evaluator, Params, preset},
    rlwe::{KeyGenerator, KeyRequest},
};

fn main() -> sudare::Result<()> {
    let params = Params::new(preset("n13")?.spec)?;
    let (top, scale) = (params.top(), params.scale_at(params.top()));
    let slots = params.max_slots() as i64;
    // Binary fractions, the same numbers everywhere.
    let values = |a: i64, b: i64, m: i64| -> Vec<f64> {
        (0..slots).map(|i| ((a * i * i + b * i) % m - m / 2) as f64 / 1024.0).collect()
    };
    let (x, y) = (values(31, 7, 4093), values(17, 3, 2039));

    let mut keygen = KeyGenerator::new(params.rlwe())?;
    let secret = keygen.secret_key()?;
    let encryptor = Encryptor::new(&params, Arc::new(keygen.public_key(&secret)?))?;
    let request = KeyRequest::new().relinearize(top);
    let keys = Arc::new(keygen.evaluation_keys(&secret, &request)?);
    let evaluator = Evaluator::new(&params, keys)?;
    let (encoder, decryptor) = (Encoder::new(&params), Decryptor::new(&params, secret)?);

    let encrypt = |values: &[f64]| encryptor.encrypt(&encoder.encode_real(values, top, scale)?);
    let (a, b) = (encrypt(&x)?, encrypt(&y)?);
    let plain = encoder.encode_real(&y, top, scale)?;
    let show = |op: &str, result: &Ciphertext| -> sudare::Result<()> {
        let slots = encoder.decode_real(&decryptor.decrypt(result)?)?;
        println!(r#"{{"op": "{op}", "slots": {slots:?}}}"#);
        Ok(())
    };
    show("encrypted", &a)?;
    show("sum", &evaluator.add(&a, &b)?)?;
    show("difference", &evaluator.sub(&a, &b)?)?;
    show("product", &evaluator.mul_rescale(&a, &b)?)?;
    let square = evaluator.mul_rescale(&a, &a)?;
    show("fourth_power", &evaluator.mul_rescale(&square, &square)?)?;
    show("product_plain", &evaluator.rescale(&evaluator.mul_plain(&a, &plain)?)?)
}

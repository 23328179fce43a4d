//! What slots of real numbers become: prints a line of JSON for each operation, with the slots of its
//! decrypted result, so that they can be compared with those of another library.
//!
//! ```console
//! cargo run --release --example real_slots
//! ```

#![allow(clippy::print_stdout, missing_docs, reason = "it is a program")]

use std::sync::Arc;
use sudare::{
    ckks::{Decryptor, Encoder, Encryptor, Evaluator, Params},
    rlwe::{KeyGenerator, KeyRequest},
};

fn main() -> sudare::Result<()> {
    for (op, slots) in run()? {
        println!(r#"{{"op": "{op}", "slots": {slots:?}}}"#);
    }
    Ok(())
}

/// Slots that are encrypted: binary fractions, the same numbers everywhere.
pub fn values([a, b, m]: [i64; 3], slots: usize) -> Vec<f64> {
    (0..slots as i64).map(|i| ((a * i * i + b * i) % m - m / 2) as f64 / 1024.0).collect()
}

pub const X: [i64; 3] = [31, 7, 4093];
pub const Y: [i64; 3] = [17, 3, 2039];

/// Operations and the slots of their results.
pub fn run() -> sudare::Result<Vec<(&'static str, Vec<f64>)>> {
    let params = Params::preset("n13")?;
    let top = params.top();
    let scale = params.scale_at(params.top());
    let x = values(X, params.max_slots());
    let y = values(Y, params.max_slots());

    let mut keygen = KeyGenerator::new(params.rlwe())?;
    let secret = keygen.secret_key()?;
    let encryptor = Encryptor::new(&params, Arc::new(keygen.public_key(&secret)?))?;
    let request = KeyRequest::new().relinearize(top);
    let keys = Arc::new(keygen.evaluation_keys(&secret, &request)?);
    let evaluator = Evaluator::new(&params, keys)?;
    let encoder = Encoder::new(&params);
    let decryptor = Decryptor::new(&params, secret)?;

    let encrypt = |values: &[f64]| encryptor.encrypt(&encoder.encode_real_at(values, top, scale)?);
    let a = encrypt(&x)?;
    let b = encrypt(&y)?;
    let plain = encoder.encode_real_at(&y, top, scale)?;
    let square = evaluator.mul_rescale(&a, &a)?;
    let results = [
        ("encrypted", a.clone()),
        ("sum", evaluator.add(&a, &b)?),
        ("difference", evaluator.sub(&a, &b)?),
        ("product", evaluator.mul_rescale(&a, &b)?),
        ("fourth_power", evaluator.mul_rescale(&square, &square)?),
        ("product_plain", evaluator.rescale(&evaluator.mul_plain(&a, &plain)?)?),
    ];
    let open = |result| encoder.decode_real(&decryptor.decrypt(result)?);
    results.iter().map(|(op, result)| Ok((*op, open(result)?))).collect()
}

//! Exact counts with BGV: an owner encrypts two columns of 0 and 1, and a server counts the rows
//! that have both marks.
//!
//! `cargo run --release --example bgv_counts`

#![allow(clippy::print_stdout, missing_docs, reason = "it is a program")]

use sudare::{
    Result,
    bgv::{self, BatchEncoder, Ciphertext, Decryptor, Encryptor, Evaluator, Params},
    exact::{Modulus, Needs, inner_sum_keys},
    rlwe::{EvaluationKeys, KeyGenerator, KeyRequest, Level},
};

/// Maximum number of rows, a power of two. It is public, and the number of rows is not.
const ROWS: usize = 1 << 11;

fn main() -> Result<()> {
    let smokes: Vec<bool> = (0..1000).map(|row| row % 3 == 0).collect();
    let early: Vec<bool> = (0..1000).map(|row| row % 7 < 2).collect();
    println!("{} rows have both marks", run(&smokes, &early)?);
    Ok(())
}

/// Encrypts both columns, and decrypts the number of rows where both are true.
pub fn run(left: &[bool], right: &[bool]) -> Result<i128> {
    // The smallest ring of 128 bits of security for one product and a sum of all rows. Counts must
    // stay below half the plaintext modulus.
    let choice = bgv::choose(Needs {
        plaintext_modulus: Modulus::new(65537, 1)?,
        depth: 1,
        rotations: 1,
        last_rotations: ROWS as u32,
    })?;
    println!("{choice}");
    let params = Params::new(choice.spec)?;
    let top = params.top();

    // The owner.
    let mut request = KeyRequest::new().relinearize(top);
    request |= inner_sum_keys(params.log_n(), ROWS, Level(top.0 - 1))?;
    let mut keygen = KeyGenerator::new(params.rlwe())?;
    let secret = keygen.secret_key()?;
    let public = keygen.public_key(&secret)?;
    let keys = keygen.evaluation_keys(&secret, &request)?;
    let encoder = BatchEncoder::new(params.plaintext_modulus(), params.log_n())?;
    let encryptor = Encryptor::new(&params, public)?;
    let encrypt = |column: &[bool]| {
        let marks: Vec<i128> = column.iter().map(|&mark| mark.into()).collect();
        encryptor.encrypt(&encoder.encode(&marks)?)
    };
    let x = encrypt(left)?;
    let y = encrypt(right)?;

    let count = serve(&params, keys, &x, &y)?;

    // The owner again: the first slot holds the count, without any error.
    let decrypted = Decryptor::new(&params, secret)?.decrypt(&count)?;
    Ok(encoder.decode(&decrypted)?[0])
}

/// The server: a product marks the rows that have both marks, and a sum counts them.
fn serve(
    params: &Params,
    keys: EvaluationKeys,
    x: &Ciphertext,
    y: &Ciphertext,
) -> Result<Ciphertext> {
    let evaluator = Evaluator::new(params, keys)?;
    let both = evaluator.mul_rescale(x, y)?;
    evaluator.inner_sum(&both, ROWS)
}

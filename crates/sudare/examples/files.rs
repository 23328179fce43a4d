//! Keys and ciphertexts in files: an owner and a server that exchange nothing else.
//!
//! `cargo run --release --example files`

#![allow(clippy::print_stdout, missing_docs, reason = "it is a program")]

use std::{
    fs::{self, File},
    io::BufReader,
    path::Path,
};
use sudare::{
    Result,
    ckks::{
        Decryptor, Encoder, Encryptor, Evaluator, Params,
        serial::{self, Label, Reader},
    },
    rlwe::{KeyGenerator, KeyRequest},
};

fn main() -> Result<()> {
    let directory = std::env::temp_dir().join(format!("sudare-files-{}", std::process::id()));
    fs::create_dir(&directory)?;
    let squares = run(&directory, &[1.5, -2.0, 3.0])?;
    fs::remove_dir_all(&directory)?;
    println!("squares {squares:.3?}");
    Ok(())
}

/// Squares the numbers. All steps share this directory.
pub fn run(directory: &Path, numbers: &[f64]) -> Result<Vec<f64>> {
    make_keys(directory)?;
    encrypt(directory, numbers)?;
    serve(directory)?;
    decrypt(directory, numbers.len())
}

/// The owner makes keys. Files name their parameters, so the other steps need no preset.
fn make_keys(directory: &Path) -> Result<()> {
    let params = Params::preset("n13")?;
    let request = KeyRequest::new().relinearize(params.top());
    let mut keygen = KeyGenerator::new(params.rlwe())?;
    let secret = keygen.secret_key()?;
    let public = keygen.public_key(&secret)?;
    let label = Label { name: "n13".into(), ..Label::default() };
    // In a program of your own, let only the owner read this file.
    let mut file = File::create_new(directory.join("secret.key"))?;
    serial::write_secret_key(&mut file, &params, &secret, &label)?;
    let mut file = File::create_new(directory.join("public.key"))?;
    serial::write_public_key(&mut file, &params, &public, &label)?;
    // Each key goes to the file as soon as it is made, so memory holds only one.
    let mut file = File::create_new(directory.join("evaluation.key"))?;
    let owner = (&mut keygen, &secret);
    serial::generate_evaluation_keys(&mut file, &params, owner, &request, &label, |_| {})?;
    Ok(())
}

/// Opens a file. Reading checks every length, number and checksum.
fn open(directory: &Path, name: &str) -> Result<Reader<BufReader<File>>> {
    let file = File::open(directory.join(name))?;
    let bytes = file.metadata()?.len();
    Reader::new(BufReader::new(file), bytes)
}

/// Anyone with the public key encrypts.
fn encrypt(directory: &Path, numbers: &[f64]) -> Result<()> {
    let reader = open(directory, "public.key")?;
    let params = reader.params()?;
    let encryptor = Encryptor::new(&params, reader.public_key(&params)?)?;
    let encrypted = encryptor.encrypt(&Encoder::new(&params).encode_real(numbers)?)?;
    let mut file = File::create_new(directory.join("numbers.ct"))?;
    serial::write_ciphertexts(&mut file, &params, &[encrypted], &Label::default())?;
    Ok(())
}

/// The server reads evaluation keys and ciphertexts, and writes the result.
fn serve(directory: &Path) -> Result<()> {
    let reader = open(directory, "evaluation.key")?;
    let params = reader.params()?;
    let evaluator = Evaluator::new(&params, reader.evaluation_keys(&params)?)?;
    let numbers = open(directory, "numbers.ct")?.ciphertexts(&params)?;
    let squares =
        numbers.iter().map(|x| evaluator.mul_rescale(x, x)).collect::<Result<Vec<_>>>()?;
    let mut file = File::create_new(directory.join("squares.ct"))?;
    serial::write_ciphertexts(&mut file, &params, &squares, &Label::default())?;
    Ok(())
}

/// The owner decrypts.
fn decrypt(directory: &Path, count: usize) -> Result<Vec<f64>> {
    let reader = open(directory, "secret.key")?;
    let params = reader.params()?;
    let decryptor = Decryptor::new(&params, reader.secret_key(&params)?)?;
    let results = open(directory, "squares.ct")?.ciphertexts(&params)?;
    let mut values = Encoder::new(&params).decode_real(&decryptor.decrypt(&results[0])?)?;
    values.truncate(count);
    Ok(values)
}

//! Private search: a server finds the vectors nearest to a query, and sees neither.
//!
//! `cargo run --release -p sudare-apps --example private_search`

#![allow(clippy::print_stdout, missing_docs, reason = "it is a program")]

use std::{error::Error, sync::Arc};
use sudare::{
    ckks::{Ciphertext, Decryptor, Encryptor, Evaluator},
    rlwe::{EvaluationKeys, KeyGenerator},
};
use sudare_apps::search::{Answer, Block, Metric, Mode, Plan, Query, Record, Spec};

fn main() -> Result<(), Box<dyn Error>> {
    let vectors: Vec<Vec<f64>> = (0..200).map(vector).collect();
    let question: Vec<f64> = vectors[42].iter().map(|x| x + 0.01).collect();
    for (row, similarity) in run(&vectors, &question, 3)? {
        println!("row {row:3}  similarity {similarity:.4}");
    }
    Ok(())
}

/// Makes a vector of a row. In your program, vectors come from an embedding model.
pub fn vector(row: u32) -> Vec<f64> {
    (0..16).map(|i| f64::from(row * 37 + i * i * 11 + row * i * 7).sin()).collect()
}

/// Returns the nearest rows, with the cosine of their angle to the query.
pub fn run(
    vectors: &[Vec<f64>],
    question: &[f64],
    count: usize,
) -> Result<Vec<(usize, f64)>, Box<dyn Error>> {
    // Owner and server make the same plan from public facts. The plan has room for 1000 vectors.
    let spec = Spec {
        dimension: question.len(),
        rows: 1000,
        metric: Metric::Cosine,
        mode: Mode::Encrypted,
        answer: Answer::Scores,
    };
    let params = Plan::auto_params(&spec)?;
    let plan = Plan::new(&spec, &params)?;

    // The owner encrypts the index in blocks, and later a query.
    let mut keygen = KeyGenerator::new(params.rlwe())?;
    let secret = keygen.secret_key()?;
    let public = Arc::new(keygen.public_key(&secret)?);
    let keys = Arc::new(keygen.evaluation_keys(&secret, plan.required_keys())?);
    let encryptor = Encryptor::new(&params, public)?;
    let records: Vec<_> =
        vectors.iter().map(|vector| Some(Record { vector, payload: &[] })).collect();
    let mut index = Vec::new();
    for (number, records) in records.chunks(plan.block_len()).enumerate() {
        let mut block = Vec::new();
        plan.encrypt_block(&encryptor, number, records, |_, part| {
            block.push(part);
            Ok(())
        })?;
        index.push(block);
    }
    let query = plan.encrypt_query(&encryptor, question)?;

    let answers = serve(&plan, keys, &index, &query)?;

    // The owner again decrypts the similarity of every row, and ranks.
    let decryptor = Decryptor::new(&params, secret)?;
    let slots = plan.decrypt(&decryptor, &answers)?;
    let mut scores = Vec::new();
    for (number, block) in records.chunks(plan.block_len()).enumerate() {
        scores.extend(plan.decode_scores(number, block.len(), &slots[number])?);
    }
    Ok(plan.nearest(scores.into_iter().enumerate(), count))
}

/// The server: an answer for each block of the index.
fn serve(
    plan: &Plan,
    keys: Arc<EvaluationKeys>,
    index: &[Vec<Ciphertext>],
    query: &Ciphertext,
) -> Result<Vec<Ciphertext>, Box<dyn Error>> {
    let evaluator = Evaluator::new(plan.params(), keys)?;
    let search = plan.search(&evaluator, Query::Encrypted(query))?;
    let mut answers = Vec::new();
    for (number, block) in index.iter().enumerate() {
        let mut read = |part: usize| Ok(block[part].clone());
        answers.push(search.scores(number, Block::Encrypted(&mut read))?);
    }
    Ok(answers)
}

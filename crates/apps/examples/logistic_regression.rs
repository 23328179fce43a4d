//! Logistic regression: the owner encrypts the Low Birth Weight Study, a server trains on rows that
//! it cannot read, and the owner decrypts the model.
//!
//! `cargo run --release -p sudare-apps --example logistic_regression`

#![allow(clippy::print_stdout, missing_docs, reason = "it is a program")]

use std::{error::Error, sync::Arc};
use sudare::{
    ckks::{Ciphertext, Decryptor, Encoder, Encryptor, Evaluator},
    rlwe::{EvaluationKeys, KeyGenerator},
};
use sudare_apps::{
    TablePlan,
    logreg::{Job, TrainPlan, TrainSpec},
};
use sudare_table::{Table, metrics};

fn main() -> Result<(), Box<dyn Error>> {
    let table = Table::bundled("lbw")?;
    let weights = run(&table)?;
    println!("accuracy {:.4}", accuracy(&table, &weights)?);
    println!("AUC      {:.4}", metrics::auc(&scores(&table, &weights), &table.labels()?)?);
    Ok(())
}

/// Returns the score of each row: the intercept plus the product of the row and the weights.
pub fn scores(table: &Table, weights: &[f64]) -> Vec<f64> {
    let score = |row: &[f64]| row.iter().zip(&weights[1..]).map(|(x, w)| x * w).sum::<f64>();
    table.iter_rows().map(|row| weights[0] + score(row)).collect()
}

/// Returns the share of rows with a score on the right side of 0.
pub fn accuracy(table: &Table, weights: &[f64]) -> Result<f64, Box<dyn Error>> {
    Ok(metrics::accuracy(&scores(table, weights), &table.labels()?)?)
}

/// Trains, and returns the intercept and the weight of each column.
pub fn run(table: &Table) -> Result<Vec<f64>, Box<dyn Error>> {
    // Owner and server know the job: the size of the table and the options of the training.
    let spec = TrainSpec { iterations: 3, ..TrainSpec::default() };
    let job = Job { rows: table.rows(), features: table.features(), spec };
    let params = TrainPlan::auto_params(&job)?;
    let plan = TrainPlan::new(&job, &params)?;

    // The owner. Rows are whitened before they are encrypted, so few iterations are enough.
    let mut keygen = KeyGenerator::new(params.rlwe())?;
    let secret = keygen.secret_key()?;
    let public = Arc::new(keygen.public_key(&secret)?);
    let keys = Arc::new(keygen.evaluation_keys(&secret, plan.required_keys())?);
    let rows = plan.prepare(table, None)?;
    plan.check(&rows)?;
    let encryptor = Encryptor::new(&params, public)?;
    let encrypted = plan.encryptions(&encryptor, &rows).collect::<Result<Vec<_>, _>>()?;

    let model = serve(&plan, &job, keys, encrypted)?;

    // The owner again: weights of whitened columns become weights of the table's columns.
    let plain = Decryptor::new(&params, secret)?.decrypt(&model)?;
    let trained = plan.decode(&Encoder::new(&params).decode_real(&plain)?);
    Ok(rows.transform().of_columns(&trained))
}

/// The server: it has the plan, evaluation keys and ciphertexts.
fn serve(
    plan: &TrainPlan,
    job: &Job,
    keys: Arc<EvaluationKeys>,
    mut encrypted: Vec<Ciphertext>,
) -> Result<Ciphertext, Box<dyn Error>> {
    let evaluator = Evaluator::new(plan.params(), keys)?;
    let sums = encrypted.split_off(plan.row_ciphertexts());
    let trainer = plan.trainer(&evaluator, sums)?;
    let mut training = trainer.start()?;
    while training.iteration < job.spec.iterations {
        trainer.step(&encrypted[plan.batch(training.iteration)], &mut training)?;
    }
    Ok(plan.model(&training)?.remove(0))
}

//! Statistics of an encrypted table: the owner encrypts the Low Birth Weight Study, a server sums
//! what it cannot read, and the owner finishes means and correlations.
//!
//! `cargo run --release -p sudare-apps --example statistics`

#![allow(clippy::print_stdout, missing_docs, reason = "it is a program")]

use std::{error::Error, sync::Arc};
use sudare::{
    ckks::{Decryptor, Encoder, Encryptor, Evaluator},
    rlwe::KeyGenerator,
};
use sudare_apps::{
    TablePlan,
    stats::{ColumnScaling, Job, Statistics, StatsPlan},
};
use sudare_table::Table;

fn main() -> Result<(), Box<dyn Error>> {
    let table = Table::bundled("lbw")?;
    let statistics = run(&table)?;
    for (column, mean) in table.columns().iter().zip(&statistics.mean) {
        println!("{column:12} {mean:10.4}");
    }
    Ok(())
}

/// The statistics of a table as they are decrypted.
pub fn run(table: &Table) -> Result<Statistics, Box<dyn Error>> {
    // The number of rows and columns is public, and all that the plan takes.
    let job = Job::of(table);
    let params = StatsPlan::auto_params(&job)?;
    let plan = StatsPlan::new(&job, &params)?;

    // The owner.
    let mut keygen = KeyGenerator::new(params.rlwe())?;
    let secret = keygen.secret_key()?;
    let public = Arc::new(keygen.public_key(&secret)?);
    let keys = Arc::new(keygen.evaluation_keys(&secret, plan.required_keys())?);
    let scaling = ColumnScaling::of(table);
    let encrypted = plan.encrypt(&Encryptor::new(&params, public)?, table, &scaling, |_| {})?;

    // The server: `keys` and `encrypted`.
    let sums = plan.run(&Evaluator::new(&params, keys)?, &encrypted, |_| {})?;

    // The owner again.
    let decryptor = Decryptor::new(&params, secret)?;
    let encoder = Encoder::new(&params);
    let decode = |sum| encoder.decode_real(&decryptor.decrypt(sum)?);
    let slots = sums.iter().map(decode).collect::<Result<Vec<_>, _>>()?;
    Ok(plan.decode(&slots, &scaling, table.rows(), None)?)
}

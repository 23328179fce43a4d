use crate::{
    error::Result,
    model::Model,
    output::{self, Output},
};
use serde::Serialize;
use std::path::PathBuf;
use sudare_apps::metrics;

/// Measure how well a decrypted model separates the classes of a table
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: sudare evaluate --model model.json --data test.csv --target low")]
pub struct Args {
    /// Model, as `sudare decrypt` writes it
    #[arg(long, value_name = "M.json")]
    model: PathBuf,
    /// CSV or Parquet file with the columns of the model and its target
    #[arg(long, value_name = "T.csv")]
    data: PathBuf,
    /// Column of 0 and 1; the model's target if left out
    #[arg(long, value_name = "COL")]
    target: Option<String>,
}

#[derive(Serialize)]
struct Report {
    rows: usize,
    accuracy: f64,
    auc: f64,
    ks: f64,
}

pub fn run(args: &Args, output: Output) -> Result<()> {
    let model = Model::read(&args.model)?;
    let target = args.target.as_deref().unwrap_or(&model.target);
    let table = model.read_table(&args.data, Some(target))?;
    let scores = model.scores(&table)?;
    let labels = table.labels()?;
    let report = Report {
        rows: table.rows(),
        accuracy: metrics::accuracy(&scores, labels)?,
        auc: metrics::auc(&scores, labels)?,
        ks: metrics::ks(&scores, labels)?,
    };
    output.write(&report, |report| {
        output::fields(&[
            ("rows", report.rows.to_string()),
            ("accuracy", format!("{:.4}", report.accuracy)),
            ("AUC", format!("{:.4}", report.auc)),
            ("KS", format!("{:.4}", report.ks)),
        ])
    })
}

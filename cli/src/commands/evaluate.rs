use crate::output::{self, Output};
use serde::Serialize;
use std::path::PathBuf;
use sudare_apps::{metrics, table::Table};
use sudare_roles::{error::Result, model::Model};

/// Measure how well a decrypted model separates the classes of a table
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: sudare evaluate --model model.json --data test.csv --target low")]
pub struct Args {
    #[command(flatten)]
    labelled: Labelled,
}

/// A decrypted model and rows whose labels are known.
#[derive(Debug, clap::Args)]
pub struct Labelled {
    /// Model, as `sudare decrypt` writes it
    #[arg(long, value_name = "M.json")]
    model: PathBuf,
    /// CSV or Parquet file with the columns of the model and its target
    #[arg(long, value_name = "T.csv")]
    pub data: PathBuf,
    /// Column of 0 and 1; the model's target if left out
    #[arg(long, value_name = "COL")]
    target: Option<String>,
}

impl Labelled {
    /// Both, from their files.
    pub fn read(&self) -> Result<(Model, Table)> {
        let model = Model::read(&self.model)?;
        let target = self.target.as_deref().unwrap_or(&model.target);
        let table = model.read_table(&self.data, Some(target))?;
        Ok((model, table))
    }
}

#[derive(Serialize)]
struct Report {
    rows: usize,
    accuracy: f64,
    auc: f64,
    ks: f64,
}

pub fn run(args: &Args, output: Output) -> Result<()> {
    let (model, table) = args.labelled.read()?;
    let scores = model.scores(&table)?;
    let labels = &table.labels()?;
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

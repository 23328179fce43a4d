use crate::{
    output::{self, Output, say},
    values::TableFormat,
};
use serde::Serialize;
use std::path::{Path, PathBuf};
use sudare_roles::{
    error::{Error, Result},
    model::Model,
    report,
};
use sudare_table::{Table, metrics::Quality};

/// Measure how well a decrypted model tells the classes of a table apart
///
/// On rows that it was trained on, a model does better than on others: measure it on a table of its
/// own, or on the rows that `sudare encrypt --hold-out` left out.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    sudare evaluate --model model.json --data test.csv --target low\n  \
    sudare evaluate --model model.json --data births.csv --held-out")]
pub struct Args {
    #[command(flatten)]
    labelled: Labelled,
}

/// A decrypted model and rows whose classes are known.
#[derive(Debug, clap::Args)]
pub struct Labelled {
    /// Model, as `sudare decrypt` writes it
    #[arg(long, value_name = "M.json")]
    model: PathBuf,
    /// CSV or Parquet file with the columns of the model and its target
    #[arg(long, value_name = "T.csv")]
    pub data: PathBuf,
    /// Column of labels; the model's target if left out
    #[arg(long, value_name = "COL")]
    target: Option<String>,
    /// Only the rows that were held out: of the table that was encrypted with --hold-out, as it was
    #[arg(long)]
    held_out: bool,
    #[command(flatten)]
    format: TableFormat,
}

impl Labelled {
    /// Both, from their files.
    pub fn read(&self) -> Result<(Model, Table)> {
        let model = Model::read(&self.model)?;
        let table = self.table(&model, &self.data)?;
        if self.held_out {
            let held = model.rows_held_out(&table).map_err(|error| match error {
                Error::Usage(problem) => {
                    Error::Usage(format!("--held-out: {}: {problem}", self.data.display()))
                }
                other => other,
            })?;
            return Ok((model, held));
        }
        if model.held_out.is_some() {
            say(
                "note: if this is the table that was encrypted, --held-out measures the model on the \
                 rows that it was not trained on",
            );
        }
        Ok((model, table))
    }

    /// Another table, read as the first.
    pub fn table(&self, model: &Model, path: &Path) -> Result<Table> {
        let table =
            model.inputs()?.read_table(path, self.target.as_deref(), &self.format.reading())?;
        if table.target().is_none() {
            let target = self.target.as_ref().unwrap_or(&model.target);
            return Err(Error::Usage(format!(
                "{} has no column {target:?}, which says the classes of its rows: name another \
                 column with --target",
                path.display()
            )));
        }
        Ok(table)
    }
}

#[derive(Serialize)]
struct Report {
    #[serde(flatten)]
    quality: Quality,
}

pub fn run(args: &Args, output: Output) -> Result<()> {
    let (model, table) = args.labelled.read()?;
    let report = Report { quality: model.quality(&table)? };
    output.write(&report, |report| output::fields(&report::fields(&report.quality)))
}

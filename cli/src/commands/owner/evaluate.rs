use crate::{
    output::{self, Output, say},
    values::TableFormat,
};
use serde::Serialize;
use std::path::{Path, PathBuf};
use sudare_roles::{
    clear::{model::Model, report},
    error::{Error, Result},
};
use sudare_table::{Table, metrics::Quality};

/// Measure how well a decrypted model separates the classes of a table
///
/// A model does better on its training rows than on others. Measure it on a separate table, or on
/// the rows that `sudare encrypt --hold-out` left out.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    sudare evaluate --model model.json --data test.csv --target low\n  \
    sudare evaluate --model model.json --data births.csv --held-out")]
pub struct Args {
    #[command(flatten)]
    labelled: Labelled,
}

/// A decrypted model, and rows with known classes.
#[derive(Debug, clap::Args)]
pub struct Labelled {
    /// Model, as `sudare decrypt` writes it
    #[arg(long, value_name = "M.json")]
    model: PathBuf,
    /// CSV or Parquet file with the columns of the model and its target
    #[arg(long, value_name = "T.csv")]
    pub data: PathBuf,
    /// Column of labels; default: the model's target
    #[arg(long, value_name = "COL")]
    target: Option<String>,
    /// Use only the held-out rows of the unchanged table that you encrypted with --hold-out
    #[arg(long)]
    held_out: bool,
    #[command(flatten)]
    format: TableFormat,
}

impl Labelled {
    /// Reads the model and the table.
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
        // The command cannot know whether this is the training table, whose rows flatter the model.
        if model.held_out.is_some() {
            say(
                "note: if this is the encrypted table, pass --held-out to measure the model on the rows \
                 that it was not trained on",
            );
        }
        Ok((model, table))
    }

    /// Reads another table in the same way.
    pub fn table(&self, model: &Model, path: &Path) -> Result<Table> {
        let table =
            model.inputs()?.read_table(path, self.target.as_deref(), &self.format.reading())?;
        // Reading accepts tables without labels, because scores need none.
        if table.target().is_none() {
            let target = self.target.as_ref().unwrap_or(&model.target);
            return Err(Error::Usage(format!(
                "{} has no column {target:?} with the classes of its rows: pass another column with \
                 --target",
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

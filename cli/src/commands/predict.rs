use crate::{
    error::Result,
    files,
    model::{Model, csv_text},
    output::Output,
};
use serde::Serialize;
use std::path::PathBuf;
use sudare_apps::metrics::{self, MetricError};

/// Score the rows of a table with a decrypted model
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: sudare predict --model model.json --data new.csv -o scores.csv")]
pub struct Args {
    /// Model, as `sudare decrypt` writes it
    #[arg(long, value_name = "M.json")]
    model: PathBuf,
    /// CSV or Parquet file with the columns of the model; its target too, if labels are known
    #[arg(long, value_name = "T.csv")]
    data: PathBuf,
    /// Column of 0 and 1; the model's target if left out
    #[arg(long, value_name = "COL")]
    target: Option<String>,
    /// CSV file for scores and probabilities; standard output if left out
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Replace an existing file
    #[arg(long)]
    force: bool,
}

#[derive(Serialize)]
struct Report {
    rows: usize,
    /// Where labels are given.
    accuracy: Option<f64>,
    /// Where labels of both classes are given.
    auc: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    scores: Option<Vec<f64>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    probabilities: Option<Vec<f64>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<PathBuf>,
}

pub fn run(args: &Args, output: Output) -> Result<()> {
    if let Some(path) = &args.output {
        files::check_free(path, args.force)?;
    }
    let model = Model::read(&args.model)?;
    let table = model.read_table(&args.data, args.target.as_deref())?;
    let scores = model.scores(&table)?;
    let probabilities: Vec<f64> = scores.iter().map(|score| 1.0 / (1.0 + (-score).exp())).collect();
    let (accuracy, auc) = match table.labels() {
        Err(_) => (None, None),
        Ok(labels) => {
            let auc = match metrics::auc(&scores, labels) {
                Err(MetricError::OneClass { .. }) => None,
                other => Some(other?),
            };
            (Some(metrics::accuracy(&scores, labels)?), auc)
        }
    };
    let rows = scores.len();
    let csv = || {
        let lines = scores.iter().zip(&probabilities);
        let lines =
            lines.map(|(score, probability)| vec![score.to_string(), probability.to_string()]);
        csv_text(&["score", "probability"].map(str::to_owned), lines)
    };
    if let Some(path) = &args.output {
        files::write_text(path, &csv()?, args.force)?;
        let path = Some(path.clone());
        let report = Report { rows, accuracy, auc, scores: None, probabilities: None, path };
        return output.write(&report, text);
    }
    if !output.json {
        return output.write_text(&csv()?);
    }
    let (scores, probabilities) = (Some(scores), Some(probabilities));
    output.write(&Report { rows, accuracy, auc, scores, probabilities, path: None }, text)
}

fn text(report: &Report) -> String {
    let path = report.path.as_ref().map_or_else(String::new, |path| path.display().to_string());
    let quality = match (report.accuracy, report.auc) {
        (Some(accuracy), Some(auc)) => format!(", accuracy {accuracy:.4}, AUC {auc:.4}"),
        (Some(accuracy), None) => format!(", accuracy {accuracy:.4}"),
        _ => String::new(),
    };
    format!("{path}: {} rows scored{quality}\n", report.rows)
}

use super::inputs::ComputationFiles;
use crate::{output::Output, progress::Progress, values::TableFormat};
use serde::Serialize;
use std::{
    path::{Path, PathBuf},
    time::Instant,
};
use sudare_roles::{
    clear::model::{Model, NamedScores, OfRows},
    error::{Error, Result},
    format::label::Content,
    job::Plan,
    os::{files, machine},
    server::scoring::AnyModel,
    text::size,
};

/// Score rows by a model: in the clear, or encrypted rows on the server
///
/// In the clear, pass the rows with --data and a decrypted model with --model. On the server, pass
/// encrypted rows with -i. The model is then a decrypted one, or an encrypted one from `sudare
/// train` or `sudare encrypt --model`. The owner reads encrypted scores with `sudare decrypt`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    sudare predict --model model.json --data new.csv -o scores.csv\n  \
    sudare predict --evaluation-key evaluation.key --model model.ct -i new.ct -o scores.ct")]
pub struct Args {
    /// Model, as `sudare decrypt` writes it; for encrypted rows also an encrypted model
    #[arg(long, value_name = "FILE")]
    model: PathBuf,
    /// CSV or Parquet file with the columns of the model, and with its target if you know the
    /// labels
    #[arg(
        long,
        value_name = "T.csv",
        required_unless_present = "evaluation_key",
        conflicts_with = "evaluation_key"
    )]
    data: Option<PathBuf>,
    /// Column of labels; default: the model's target
    #[arg(long, value_name = "COL", conflicts_with = "evaluation_key")]
    target: Option<String>,
    #[command(flatten)]
    format: TableFormat,
    /// Evaluation key, to score encrypted rows
    #[arg(long, value_name = "FILE", requires = "input", requires = "output")]
    evaluation_key: Option<PathBuf>,
    /// Encrypted rows
    #[arg(short, long, value_name = "FILE", requires = "evaluation_key")]
    input: Option<PathBuf>,
    /// File for encrypted scores, or for scores and probabilities in CSV; default for CSV: standard
    /// output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Read the evaluation key from its file during the computation, without loading it; the file
    /// must not change meanwhile
    #[arg(long, requires = "evaluation_key")]
    map_keys: bool,
    /// Store half of the evaluation key and compute the other half when it is needed
    #[arg(long, requires = "evaluation_key")]
    small_keys: bool,
    /// Replace an existing file
    #[arg(long)]
    force: bool,
}

#[derive(Serialize)]
struct Report {
    rows: usize,
    /// Share of right predictions, if labels are given.
    accuracy: Option<f64>,
    /// Share of the largest class, if labels are given.
    largest_class: Option<f64>,
    /// Area under the ROC curve, if labels of both classes are given.
    auc: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    scores: Option<OfRows>,
    #[serde(skip_serializing_if = "Option::is_none")]
    probabilities: Option<OfRows>,
    #[serde(skip_serializing_if = "Option::is_none")]
    predicted: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<PathBuf>,
}

#[derive(Serialize)]
struct EncryptedReport {
    rows: usize,
    features: usize,
    /// `plain` or `encrypted`.
    model: &'static str,
    ciphertexts: usize,
    bytes: u64,
    seconds: f64,
    peak_rss_bytes: Option<u64>,
    path: PathBuf,
}

pub fn run(args: &Args, output: Output) -> Result<()> {
    match (&args.evaluation_key, &args.input, &args.output, &args.data) {
        (Some(evaluation_key), Some(input), Some(result), None) => {
            let files = ComputationFiles {
                evaluation_key: evaluation_key.clone(),
                input: vec![input.clone()],
                output: result.clone(),
                map_keys: args.map_keys,
                small_keys: args.small_keys,
                force: args.force,
            };
            encrypted(&files, &args.model, output)
        }
        (None, None, _, Some(data)) => plain(args, data, output),
        _ => Err(Error::Usage(
            "no rows: pass rows in the clear with --data, or encrypted rows with --evaluation-key, -i \
             and -o"
            .into(),
        )),
    }
}

fn encrypted(files: &ComputationFiles, model: &Path, output: Output) -> Result<()> {
    let (server, file) = files.open()?;
    let Plan::Predict(plan) = &server.plan else {
        return Err(Error::Usage(format!(
            "{} was encrypted for {}: encrypt rows to score with --like, under keys made with --for \
             predict:…, or under keys for a training made with --predict",
            files.first().display(),
            server.meta.job
        )));
    };
    let model = AnyModel::read(model, &server, plan)?;
    // Reading keys and model is not part of the time.
    let start = Instant::now();
    let scores = {
        let progress = Progress::new("Scoring", plan.groups());
        server.scores(plan, model.weights(), |done| progress.set(done))?
    };
    let seconds = start.elapsed().as_secs_f64();
    let ciphertexts = scores.len();
    let kind = match model {
        AnyModel::Plain { .. } => "plain",
        AnyModel::Encrypted { .. } => "encrypted",
    };
    let (results, meta) = model.results(scores, &server);
    let bytes = server.write(file, &results, &meta, Content::Scores)?;
    let (rows, features) = meta.job.shape()?;
    let report = EncryptedReport {
        rows,
        features,
        model: kind,
        ciphertexts,
        bytes,
        seconds,
        peak_rss_bytes: machine::peak_rss_bytes(),
        path: files.output.clone(),
    };
    output.write(&report, |report| {
        format!(
            "{}: scores of {} rows by the {} model, {}, {:.1} s\n",
            report.path.display(),
            report.rows,
            report.model,
            size::bytes(report.bytes),
            report.seconds
        )
    })
}

fn plain(args: &Args, data: &Path, output: Output) -> Result<()> {
    if let Some(path) = &args.output {
        files::check_free(path, args.force)?;
    }
    let model = Model::read(&args.model)?;
    let table = model.inputs()?.read_table(data, args.target.as_deref(), &args.format.reading())?;
    // Rows without labels are scored, too, without the figures that compare them.
    let members = table.members().ok();
    let scores = NamedScores::new(model.scores(&table)?, None, &model.classes, members)?;
    // Scores are data for programs, so standard output gets the CSV of a file and no report.
    if args.output.is_none() && !output.json {
        return output.write_data(&scores.to_csv()?);
    }
    if let Some(path) = &args.output {
        files::write_text(path, &scores.to_csv()?, args.force)?;
    }
    let NamedScores {
        rows, scores, probabilities, predicted, accuracy, auc, largest_class, ..
    } = scores;
    let path = args.output.clone();
    // With a file, its rows are not repeated in the report.
    let shown = |values: OfRows| path.is_none().then_some(values);
    let scores = shown(scores);
    let probabilities = shown(probabilities);
    let predicted = path.is_none().then_some(predicted);
    let report =
        Report { rows, accuracy, largest_class, auc, scores, probabilities, predicted, path };
    output.write(&report, text)
}

fn text(report: &Report) -> String {
    let path = report.path.as_ref().map_or_else(String::new, |path| path.display().to_string());
    let quality = [
        ("accuracy", report.accuracy),
        ("largest class", report.largest_class),
        ("AUC", report.auc),
    ];
    let quality = quality.iter().filter_map(|(name, x)| Some(format!(", {name} {:.4}", (*x)?)));
    let quality: String = quality.collect();
    format!("{path}: {} rows scored{quality}\n", report.rows)
}

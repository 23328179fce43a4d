use crate::{
    commands::shared::exact_key_files::ExactKeyFiles,
    output::{self, Output, say},
    passphrase,
    progress::Progress,
    values::finite,
};
use clap::ArgGroup;
use serde::Serialize;
use std::{
    fs::File,
    io::BufReader,
    path::{Path, PathBuf},
    sync::Arc,
    time::Instant,
};
use sudare::exact::serial::Reader;
use sudare_apps::trees::{Explanation, Forest, ForestPlan, Outside, PlanOptions, Setup};
use sudare_roles::{
    error::{Error, Result},
    key::Key,
    os::{
        files::{self, Access, NewFile},
        machine,
    },
    text::size,
    trees::{self, Owner, Planned, Rows, Server, Session},
};

/// Predict with a random forest or gradient boosted trees on encrypted rows
///
/// The server plans its model (plan) and sends the plan, which has neither thresholds nor leaves, to
/// the owner of the rows. The owner makes keys (keygen) and encrypts rows (encrypt). The server
/// predicts (predict). The owner decrypts the predictions (decrypt).
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    sudare trees plan --model model.json --data sample.csv -o plan.json\n  \
    sudare trees keygen --plan plan.json --out keys\n  \
    sudare trees encrypt --secret keys/secret.key --data rows.csv -o rows.ct\n  \
    sudare trees predict --model model.json --evaluation-key keys/evaluation.key -i rows.ct -o scores.ct\n  \
    sudare trees decrypt --secret keys/secret.key -i scores.ct")]
pub struct Args {
    #[command(subcommand)]
    step: Step,
}

#[derive(Debug, clap::Subcommand)]
enum Step {
    Plan(PlanArgs),
    Keygen(KeygenArgs),
    Encrypt(EncryptArgs),
    Predict(PredictArgs),
    Decrypt(DecryptArgs),
}

/// A model in the clear.
#[derive(Debug, clap::Args)]
struct Model {
    /// Model: JSON of XGBoost, text of LightGBM, an ONNX file with TreeEnsembleClassifier or
    /// TreeEnsembleRegressor, or JSON of sudare.trees.Forest.save in Python
    #[arg(long, value_name = "M")]
    model: PathBuf,
}

impl Model {
    fn read(&self) -> Result<Forest> {
        trees::read_forest(&self.model)
    }
}

/// Plan a model on the server, and explain its cost and leakage
///
/// Each feature gets a public grid, from the least to the greatest number in a sample of rows. Whole
/// numbers keep their values if they fit the digits. Other numbers are rounded to the grid.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example: sudare trees plan --model model.json --data sample.csv --digits 3 -o plan.json"
)]
struct PlanArgs {
    #[command(flatten)]
    model: Model,
    /// CSV or Parquet file with the features of sample rows, which need not be the rows to encrypt.
    /// The owner of the rows learns their least and greatest numbers
    #[arg(long, value_name = "T.csv")]
    data: PathBuf,
    /// Columns of the features in the order of the model [default: names in the model]
    #[arg(long, value_name = "COL,COL", value_delimiter = ',')]
    columns: Vec<String>,
    /// Digits of 4 bits for each feature: 2 for 256 points of its grid, 1 to 8
    #[arg(long, value_name = "N", default_value = "2", value_parser = clap::value_parser!(u32).range(1..=8))]
    digits: u32,
    /// Maximum error of a raw score by rounded leaves [default: the error of the fastest plan]
    #[arg(long, value_name = "X", value_parser = finite)]
    tolerance: Option<f64>,
    /// File for the plan, which goes to the owner of the rows
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Replace an existing file
    #[arg(long)]
    force: bool,
}

/// Make the keys for a plan: a secret, a public and an evaluation key file
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: sudare trees keygen --plan plan.json --out keys")]
struct KeygenArgs {
    /// Plan of the server
    #[arg(long, value_name = "FILE")]
    plan: PathBuf,
    #[command(flatten)]
    files: ExactKeyFiles,
}

/// Encrypt rows
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example: sudare trees encrypt --secret keys/secret.key --data rows.csv -o rows.ct",
    group(ArgGroup::new("key").args(["public", "secret"]).required(true))
)]
struct EncryptArgs {
    /// Public key
    #[arg(long, value_name = "FILE")]
    public: Option<PathBuf>,
    /// Secret key, in place of the public key: its ciphertexts have half the size
    #[arg(long, value_name = "FILE")]
    secret: Option<PathBuf>,
    #[command(flatten)]
    passphrase: passphrase::Source,
    /// CSV or Parquet file with a column for each feature. Other columns are left out
    #[arg(long, value_name = "T.csv")]
    data: PathBuf,
    /// Replace numbers outside the grid of their feature by its ends, in place of an error
    #[arg(long)]
    clamp: bool,
    /// File for the encrypted rows
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Replace an existing file
    #[arg(long)]
    force: bool,
}

/// Predict encrypted rows, on the server
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example: sudare trees predict --model model.json --evaluation-key evaluation.key -i rows.ct -o scores.ct"
)]
struct PredictArgs {
    #[command(flatten)]
    model: Model,
    /// Evaluation key
    #[arg(long, value_name = "FILE")]
    evaluation_key: PathBuf,
    /// Encrypted rows
    #[arg(short, long, value_name = "FILE")]
    input: PathBuf,
    /// File for the encrypted scores
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Replace an existing file
    #[arg(long)]
    force: bool,
}

/// Decrypt predictions
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example: sudare trees decrypt --secret keys/secret.key -i scores.ct -o predictions.csv"
)]
struct DecryptArgs {
    /// Secret key
    #[arg(long, value_name = "FILE")]
    secret: PathBuf,
    #[command(flatten)]
    passphrase: passphrase::Source,
    /// Encrypted scores
    #[arg(short, long, value_name = "FILE")]
    input: PathBuf,
    /// CSV file for the predictions [default: they are printed]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Replace an existing file
    #[arg(long, requires = "output")]
    force: bool,
}

pub fn run(args: &Args, output: Output) -> Result<()> {
    match &args.step {
        Step::Plan(args) => plan(args, output),
        Step::Keygen(args) => keygen(args, output),
        Step::Encrypt(args) => encrypt(args, output),
        Step::Predict(args) => predict(args, output),
        Step::Decrypt(args) => decrypt(args, output),
    }
}

#[derive(Serialize)]
struct PlanReport {
    #[serde(flatten)]
    explained: Explanation,
    path: PathBuf,
}

fn plan(args: &PlanArgs, output: Output) -> Result<()> {
    files::check_free(&args.output, args.force)?;
    let forest = args.model.read()?;
    let in_model = Error::in_trees(&args.model.model);
    let forest = forest.renamed(args.columns.clone(), Vec::new()).map_err(&in_model)?;
    let rows = trees::read_rows(&args.data, forest.features())?;
    let grid = trees::fitted(forest.features(), &rows, args.digits)?;
    let options = PlanOptions { tolerance: args.tolerance };
    let plan = ForestPlan::new(&forest, &grid, &options).map_err(&in_model)?;
    let explained = plan.explain()?;
    files::write_text(&args.output, &Planned::new(&plan).to_json()?, args.force)?;
    let report = PlanReport { explained, path: args.output.clone() };
    output.write(&report, plan_text)
}

fn plan_text(report: &PlanReport) -> String {
    let e = &report.explained;
    let mut fields = vec![
        ("plan", report.path.display().to_string()),
        ("model", format!("{} trees of height {}, {} thresholds", e.trees, e.height, e.thresholds)),
        ("ring", format!("N = 2^{}, {} levels, modulo {}", e.log_n, e.levels, e.t)),
        ("security", format!("{:.0} bits", e.security_bits)),
        ("keys", size::bytes(e.key_bytes)),
        (
            "rows",
            format!(
                "{} in a block, {} ciphertexts, {}, half by the secret key",
                e.block_rows,
                e.inputs,
                size::bytes(e.input_bytes)
            ),
        ),
        ("scores", format!("{} ciphertexts, {}", e.outputs, size::bytes(e.output_bytes))),
        ("operations", format!("{} relinearisations a block", e.relinearizations)),
        ("time", format!("about {:.1} s a block on one thread", e.seconds)),
        ("memory", format!("about {}", size::bytes(e.memory_bytes))),
        ("rounding", format!("a raw score is within {:.1e} of the model on the grid", e.error)),
    ];
    fields.extend(e.leakage.iter().map(|sentence| ("leakage", sentence.clone())));
    output::fields(&fields)
}

fn keygen(args: &KeygenArgs, output: Output) -> Result<()> {
    let text = files::read_text(&args.plan, trees::MAX_PLAN_BYTES)?;
    let planned = Planned::from_json(text.as_bytes(), &args.plan)?;
    let params = planned.params()?;
    let label = trees::key_label(&planned.setup)?;
    args.files.make(&params, &Setup::required_keys(&params), &label, output)
}

/// Opens a file of keys or ciphertexts.
fn open(path: &Path) -> Result<Reader<BufReader<File>>> {
    let (file, bytes) = files::open(path, Access::Shared)?;
    Reader::new(file, bytes).map_err(Error::in_file(path))
}

fn read_secret(path: &Path, source: passphrase::Source) -> Result<trees::Secret> {
    let secret = trees::read_secret(path, || source.of(path))?;
    if let Some(warning) = &secret.warning {
        say(format_args!("warning: {warning}"));
    }
    Ok(secret)
}

#[derive(Serialize)]
struct Encrypted {
    rows: usize,
    features: usize,
    bytes: u64,
    seconds: f64,
    path: PathBuf,
}

fn encrypt(args: &EncryptArgs, output: Output) -> Result<()> {
    files::check_free(&args.output, args.force)?;
    let start = Instant::now();
    let (session, key) = match (&args.public, &args.secret) {
        (Some(path), _) => {
            let reader = open(path)?;
            let in_file = Error::in_file(path);
            let session = Session::of(&reader).map_err(&in_file)?;
            let key = reader.public_key(&session.params).map_err(in_file)?;
            (session, Key::Public(Arc::new(key)))
        }
        (None, Some(path)) => {
            let secret = read_secret(path, args.passphrase)?;
            (secret.session, Key::Secret(secret.key))
        }
        (None, None) => {
            return Err(Error::Usage("no key: pass --public FILE or --secret FILE".into()));
        }
    };
    let names: Vec<String> = session.setup.features.iter().map(|f| f.name.clone()).collect();
    let numbers = trees::read_rows(&args.data, &names)?;
    let rows = numbers.len().checked_div(names.len()).unwrap_or(0);
    let outside = if args.clamp { Outside::Clamp } else { Outside::Refuse };
    let owner = Owner::new(session, key)?;
    let mut file = NewFile::create(&args.output, Access::Shared, args.force)?;
    let bytes = {
        let total = owner.ciphertexts(rows);
        let progress = Progress::new("Encrypting rows", total);
        owner
            .write_rows(&mut file, Rows { numbers: &numbers, outside }, |done| progress.set(done))?
    };
    file.finish()?;
    let seconds = start.elapsed().as_secs_f64();
    let report =
        Encrypted { rows, features: names.len(), bytes, seconds, path: args.output.clone() };
    output.write(&report, |report| {
        format!(
            "{}: {} rows of {} features, {}, {:.1} s\n",
            report.path.display(),
            report.rows,
            report.features,
            size::bytes(report.bytes),
            report.seconds
        )
    })
}

#[derive(Serialize)]
struct Predicted {
    rows: usize,
    seconds: f64,
    us_per_row: f64,
    bootstraps: usize,
    key_bytes: u64,
    bytes: u64,
    peak_rss_bytes: Option<u64>,
    path: PathBuf,
}

fn predict(args: &PredictArgs, output: Output) -> Result<()> {
    files::check_free(&args.output, args.force)?;
    let forest = args.model.read()?;
    let server = Server::new(open(&args.evaluation_key)?, &args.evaluation_key, &forest)?;
    let key_bytes = server.plan().explain()?.key_bytes;
    let rows = open(&args.input)?;
    let mut file = NewFile::create(&args.output, Access::Shared, args.force)?;
    let start = Instant::now();
    let scored = {
        let progress = Progress::new("Predicting blocks", 0);
        server.write_scores(rows, &args.input, &mut file, |done, _| progress.set(done))?
    };
    let seconds = start.elapsed().as_secs_f64();
    file.finish()?;
    let report = Predicted {
        rows: scored.rows,
        seconds,
        us_per_row: 1e6 * seconds / scored.rows as f64,
        bootstraps: 0,
        key_bytes,
        bytes: scored.bytes,
        peak_rss_bytes: machine::peak_rss_bytes(),
        path: args.output.clone(),
    };
    output.write(&report, |report| {
        format!(
            "{}: scores of {} rows, {}, {:.1} s, {:.0} us a row\n",
            report.path.display(),
            report.rows,
            size::bytes(report.bytes),
            report.seconds,
            report.us_per_row
        )
    })
}

#[derive(Serialize)]
struct Decrypted {
    rows: usize,
    /// Names of the columns of predictions.
    columns: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    predictions: Option<Vec<Vec<f64>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<PathBuf>,
}

fn decrypt(args: &DecryptArgs, output: Output) -> Result<()> {
    if let Some(path) = &args.output {
        files::check_free(path, args.force)?;
    }
    let secret = read_secret(&args.secret, args.passphrase)?;
    let found = trees::read_scores(&secret, open(&args.input)?, &args.input)?;
    let columns = trees::prediction_names(&secret.session.setup);
    let rows: Vec<Vec<f64>> = found.chunks_exact(columns.len()).map(<[f64]>::to_vec).collect();
    let table = trees::csv(&columns, &rows)?;
    match &args.output {
        Some(path) => {
            files::write_text(path, &table, args.force)?;
            let rows = rows.len();
            let report = Decrypted { rows, columns, predictions: None, path: args.output.clone() };
            output.write(&report, |report| format!("{}: {} rows\n", path.display(), report.rows))
        }
        None if output.json => {
            let count = rows.len();
            let report = Decrypted { rows: count, columns, predictions: Some(rows), path: None };
            output.write(&report, |_| String::new())
        }
        None => output.write_text(&table),
    }
}

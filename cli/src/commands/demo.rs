use super::keygen::Training;
use crate::{
    output::{self, Output, say},
    progress::{self, Progress},
};
use serde::Serialize;
use std::{path::PathBuf, sync::Arc, time::Instant};
use sudare::{
    ckks::{Decryptor, Encoder, Encryptor, Evaluator, serial},
    rlwe::KeyGenerator,
};
use sudare_apps::{
    logreg::reference,
    metrics,
    table::{Scaling, Table},
};
use sudare_roles::{
    artefacts::{Content, Meta, Plan, Purpose},
    encryption::shuffle,
    error::{Error, Result},
    files, machine,
};

/// Train on encrypted data, all roles in this process
///
/// The owner makes keys and encrypts a table, the server trains a logistic regression
/// on it, the owner decrypts the model and compares it with training in the clear. The
/// table is the Low Birth Weight Study, 189 rows of 9 features, unless another is
/// named.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  sudare demo\n  sudare demo --data births.csv --target low --iterations 3"
)]
pub struct Args {
    /// CSV file of numbers whose first line names the columns, or Parquet file (T.parquet)
    #[arg(long, value_name = "T.csv", requires = "target")]
    data: Option<PathBuf>,
    /// Column of 0 and 1 to learn
    #[arg(long, value_name = "COL", requires = "data")]
    target: Option<String>,
    #[command(flatten)]
    training: Training,
}

#[derive(Serialize)]
struct Report {
    dataset: String,
    rows: usize,
    features: usize,
    iterations: u32,
    bootstraps: u32,
    accuracy: f64,
    auc: f64,
    plain_accuracy: f64,
    plain_auc: f64,
    max_abs_weight_error: f64,
    weights: Vec<f64>,
    keygen_s: f64,
    encrypt_s: f64,
    train_s: f64,
    decrypt_s: f64,
    keys: usize,
    evaluation_key_bytes: u64,
    log_n: u32,
    security_bits: f64,
    threads: usize,
    peak_rss_bytes: Option<u64>,
}

/// Largest error of a weight, as a part of the largest weight.
const TOLERANCE: f64 = 1.0 / 1024.0;

pub fn run(args: &Args, output: Output) -> Result<()> {
    let (dataset, mut table) = match &args.data {
        Some(path) => {
            (path.display().to_string(), files::read_table(path, args.target.as_deref())?)
        }
        None => ("lbw".into(), Table::bundled("lbw")?),
    };
    table.check_for_training()?;
    let (rows, features) = (table.rows(), table.features());
    let purpose = Purpose::Train { rows, features };
    let job = super::keygen::job(purpose, &args.training)?;
    if job.takes_class_weights() {
        return Err(Error::Usage(
            "the demonstration has no class weights to give: write --class-weight balanced".into(),
        ));
    }
    let iterations = args.training.iterations;
    let params = job.auto_params()?;
    let plan = job.plan(&params)?;
    let Plan::Train(training_plan) = &plan else {
        return Err(Error::Bug("a training was planned as something else".into()));
    };
    shuffle(&plan, &mut table, None)?;
    let request = plan.required_keys();
    let label = Meta::of(job).label("auto", Content::Keys)?;
    let evaluation_key_bytes = serial::evaluation_keys_bytes(&params, request, &label)?;
    say(format_args!(
        "{dataset}: {rows} rows, {features} features; N = 2^{}, {} levels, {:.0} bits of security, \
         {} evaluation keys ({}){}",
        params.log_n(),
        params.top(),
        params.rlwe().security_bits(),
        request.count(),
        machine::bytes(evaluation_key_bytes),
        output::bootstraps(training_plan.bootstraps(iterations)),
    ));

    let start = Instant::now();
    let mut generator = KeyGenerator::new(params.rlwe())?;
    let secret = generator.secret_key()?;
    let public = Arc::new(generator.public_key(&secret)?);
    let keys = progress::evaluation_keys("Owner: making keys", &mut generator, &secret, request)?;
    let keygen_s = start.elapsed().as_secs_f64();

    let start = Instant::now();
    let encryptor = Encryptor::new(&params, public)?;
    let encrypted = {
        let progress = Progress::new("Owner: encrypting", training_plan.ciphertexts());
        training_plan.encrypt(&encryptor, &table, None, |done| progress.set(done))?
    };
    let encrypt_s = start.elapsed().as_secs_f64();

    let start = Instant::now();
    let evaluator = Evaluator::new(&params, Arc::new(keys))?;
    let model = {
        let progress = Progress::new("Server: training", iterations as usize);
        let batch = |iteration| &encrypted[training_plan.batch(iteration)];
        let trainer = training_plan.trainer(&evaluator)?;
        let mut training = trainer.start(batch(0))?;
        while training.iteration < iterations {
            progress.set(training.iteration as usize);
            trainer.step(batch(training.iteration), &mut training)?;
        }
        training_plan.model(&training)?
    };
    let train_s = start.elapsed().as_secs_f64();

    let start = Instant::now();
    let decryptor = Decryptor::new(&params, secret)?;
    let slots = Encoder::new(&params).decode_real(&decryptor.decrypt(&model)?)?;
    let weights = training_plan.decode(&slots);
    let decrypt_s = start.elapsed().as_secs_f64();

    let scaling = Scaling::max_abs(&table);
    let plain = reference::train(&scaling.signed_rows(&table)?, &training_plan.job().spec, None)?;
    let max_abs_weight_error =
        weights.iter().zip(&plain).map(|(a, b)| (a - b).abs()).fold(0.0, largest);
    let max_abs_weight = plain.iter().map(|w| w.abs()).fold(0.0, largest);
    if max_abs_weight_error.is_nan() || max_abs_weight_error > TOLERANCE * max_abs_weight {
        return Err(Error::WrongResult(format!(
            "a weight differs by {max_abs_weight_error:.2e} from training in the clear, whose \
             largest is {max_abs_weight:.2e}"
        )));
    }
    let design = scaling.design_rows(&table)?;
    let scores = |weights: &[f64]| -> Vec<f64> {
        design.iter().map(|x| x.iter().zip(weights).map(|(x, w)| x * w).sum()).collect()
    };
    let (encrypted_scores, plain_scores) = (scores(&weights), scores(&plain));
    let labels = &table.labels()?;
    let report = Report {
        dataset,
        rows,
        features,
        iterations,
        bootstraps: training_plan.bootstraps(iterations),
        accuracy: metrics::accuracy(&encrypted_scores, labels)?,
        auc: metrics::auc(&encrypted_scores, labels)?,
        plain_accuracy: metrics::accuracy(&plain_scores, labels)?,
        plain_auc: metrics::auc(&plain_scores, labels)?,
        max_abs_weight_error,
        weights,
        keygen_s,
        encrypt_s,
        train_s,
        decrypt_s,
        keys: request.count(),
        evaluation_key_bytes,
        log_n: params.log_n(),
        security_bits: params.rlwe().security_bits(),
        threads: sudare_arith::par::threads(),
        peak_rss_bytes: machine::peak_rss_bytes(),
    };
    output.write(&report, text)
}

/// The larger one, and NaN if either is.
fn largest(a: f64, b: f64) -> f64 {
    if b > a || b.is_nan() { b } else { a }
}

fn text(report: &Report) -> String {
    let seconds = |s: f64| format!("{s:.2} s");
    output::fields(&[
        ("accuracy", format!("{:.4} (in the clear {:.4})", report.accuracy, report.plain_accuracy)),
        ("AUC", format!("{:.4} (in the clear {:.4})", report.auc, report.plain_auc)),
        ("largest error of a weight", format!("{:.1e}", report.max_abs_weight_error)),
        ("making keys", seconds(report.keygen_s)),
        ("encrypting", seconds(report.encrypt_s)),
        ("training", format!("{}, {} iterations", seconds(report.train_s), report.iterations)),
        ("decrypting", seconds(report.decrypt_s)),
        ("peak memory", report.peak_rss_bytes.map_or_else(|| "unknown".into(), machine::bytes)),
    ])
}

#![cfg_attr(
    not(test),
    allow(
        clippy::indexing_slicing,
        clippy::arithmetic_side_effects,
        reason = "computes with what it made itself"
    )
)]

mod counts;

use crate::{
    commands::shared::training::Training,
    output::{self, Output, say},
    progress::{self, Progress},
    values::{TableFormat, tell_identifiers},
};
use serde::Serialize;
use std::{path::PathBuf, sync::Arc, time::Instant};
use sudare::{
    ckks::{Ciphertext, Decryptor, Encoder, Encryptor, Evaluator, serial},
    rlwe::{self, EvaluationKeys, KeyGenerator, KeyRequest, PublicKey, SecretKey},
};
use sudare_apps::{
    TablePlan,
    logreg::{self, ClassWeights, Penalty, Preparation, Prepared, TrainPlan, TrainSpec, reference},
};
use sudare_roles::{
    error::{Error, Result},
    format::label::{Content, Meta},
    job::Job,
    os::machine,
    owner::encryption::PreparedTable,
    text::size,
};
use sudare_table::{Table, metrics::Quality};

/// Train on encrypted data, all roles in this process
///
/// The owner makes keys and encrypts a table. The server trains a logistic regression on it. The
/// owner decrypts the model and compares it with the same steps in the clear, and with the model
/// that scikit-learn's LogisticRegression converges to. The default table is the Low Birth Weight
/// Study, with 189 rows of 9 features.
#[derive(Debug, clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Examples:\n  sudare demo\n  sudare demo --paper\n  sudare demo --data births.csv --target low --iterations 3\n  sudare demo counts"
)]
pub struct Args {
    /// CSV file whose first line names the columns, or Parquet file (T.parquet)
    #[arg(long, value_name = "T.csv", requires = "target")]
    data: Option<PathBuf>,
    /// Target column
    #[arg(long, value_name = "COL", requires = "data")]
    target: Option<String>,
    /// Train as the papers on encrypted training do: on columns that are only scaled, at the rate
    /// 10 / (t + 1), without a penalty. A good model then needs more than five iterations
    #[arg(long, conflicts_with = "preparation")]
    paper: bool,
    #[command(flatten)]
    training: Training,
    #[command(flatten)]
    format: TableFormat,
    #[command(subcommand)]
    other: Option<Other>,
}

/// Other demonstrations.
#[derive(Debug, clap::Subcommand)]
enum Other {
    Counts(counts::Args),
}

#[derive(Serialize)]
struct Report {
    dataset: String,
    rows: usize,
    features: usize,
    iterations: u32,
    bootstraps: u32,
    accuracy: f64,
    auc: Option<f64>,
    /// Share of the rows that are of the largest class.
    largest_class: f64,
    /// Accuracy of the same steps in the clear.
    plain_accuracy: f64,
    plain_auc: Option<f64>,
    /// Accuracy of the weights with the least loss, at scikit-learn's default penalty.
    converged_accuracy: f64,
    converged_auc: Option<f64>,
    /// Largest error of a weight, in the coordinates of the training.
    max_abs_weight_error: f64,
    /// Weights of each model: the intercept, then the weight of each column in its own unit.
    coefficients: Vec<Vec<f64>>,
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
    match &args.other {
        Some(Other::Counts(args)) => counts::run(args, output),
        None => train(args, output),
    }
}

fn train(args: &Args, output: Output) -> Result<()> {
    let (dataset, table) = match &args.data {
        Some(path) => {
            let (table, encoding) = args.format.reading().table(path, args.target.as_deref())?;
            tell_identifiers(&encoding);
            (path.display().to_string(), table)
        }
        None => ("lbw".into(), Table::bundled("lbw")?),
    };
    let rows = table.rows();
    let features = table.features();
    let spec = spec(args, &table)?;
    let job = Job::Train(logreg::Job { rows, features, spec });
    let iterations = spec.iterations;
    let params = job.auto_params()?;
    let plan = TrainPlan::new(&logreg::Job { rows, features, spec }, &params)?;
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
        size::bytes(evaluation_key_bytes),
        output::bootstraps(plan.bootstraps_within(iterations)),
    ));

    let ((secret, public, keys), keygen_s) = timed(|| make_keys(params.rlwe(), request))?;
    let prepared = PreparedTable::new(&plan, table, None, None)?;
    let prepared = prepared.rows(&plan)?;
    let (encrypted, encrypt_s) =
        timed(|| encrypt(&plan, &Encryptor::new(&params, Arc::new(public))?, &prepared))?;
    let (models, train_s) =
        timed(|| trained(&plan, &Evaluator::new(&params, Arc::new(keys))?, encrypted, iterations))?;
    let (weights, decrypt_s) = timed(|| {
        let decryptor = Decryptor::new(&params, secret)?;
        let encoder = Encoder::new(&params);
        let open = |model| Ok(plan.decode(&encoder.decode_real(&decryptor.decrypt(model)?)?));
        models.iter().map(open).collect::<Result<Vec<_>>>()
    })?;

    // The same polynomial and steps in the clear, so only encryption makes a difference.
    let plain = reference::train(&prepared, &spec)?;
    let max_abs_weight_error = compared(&weights, &plain)?;
    let quality = |weights| quality(&prepared, weights);
    let own = quality(&weights)?;
    let plain = quality(&plain)?;
    let converged = quality(&converged(&prepared, &spec)?)?;
    let of_columns = |weights: &Vec<f64>| prepared.transform().of_columns(weights);
    let report = Report {
        dataset,
        rows,
        features,
        iterations,
        bootstraps: plan.bootstraps_within(iterations),
        accuracy: own.accuracy,
        auc: own.auc,
        largest_class: own.largest_class,
        plain_accuracy: plain.accuracy,
        plain_auc: plain.auc,
        converged_accuracy: converged.accuracy,
        converged_auc: converged.auc,
        max_abs_weight_error,
        coefficients: weights.iter().map(of_columns).collect(),
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

/// Returns the result of `work` and its time in seconds.
fn timed<T>(work: impl FnOnce() -> Result<T>) -> Result<(T, f64)> {
    let start = Instant::now();
    let result = work()?;
    Ok((result, start.elapsed().as_secs_f64()))
}

/// Makes the keys of an owner, and the keys that the server requires.
fn make_keys(
    params: &rlwe::Params,
    request: &KeyRequest,
) -> Result<(SecretKey, PublicKey, EvaluationKeys)> {
    let mut generator = KeyGenerator::new(params)?;
    let secret = generator.secret_key()?;
    let public = generator.public_key(&secret)?;
    let keys = progress::evaluation_keys("Owner: making keys", &mut generator, &secret, request)?;
    Ok((secret, public, keys))
}

fn encrypt(
    plan: &TrainPlan,
    encryptor: &Encryptor,
    prepared: &Prepared<'_>,
) -> Result<Vec<Ciphertext>> {
    let progress = Progress::new("Owner: encrypting", plan.ciphertexts());
    // Inner products outside the sigmoid's range would train a wrong model without an error.
    plan.check(prepared)?;
    let made = plan.encryptions(encryptor, prepared).enumerate();
    let made = made.map(|(i, item)| item.inspect(|_| progress.set(i + 1)));
    Ok(made.collect::<sudare_apps::Result<_>>()?)
}

fn trained(
    plan: &TrainPlan,
    evaluator: &Evaluator,
    mut encrypted: Vec<Ciphertext>,
    iterations: u32,
) -> Result<Vec<Ciphertext>> {
    let progress = Progress::new("Server: training", iterations as usize);
    // Ciphertexts of rows come first, then the sums that contain the labels.
    let sums = encrypted.split_off(plan.row_ciphertexts());
    let trainer = plan.trainer(evaluator, sums)?;
    let mut training = trainer.start()?;
    while training.iteration < iterations {
        progress.set(training.iteration as usize);
        let batch = plan.batch(training.iteration);
        trainer.step(&encrypted[batch], &mut training)?;
    }
    Ok(plan.model(&training)?)
}

/// Returns the training for the table.
fn spec(args: &Args, table: &Table) -> Result<TrainSpec> {
    let mut training = args.training.clone();
    if args.paper {
        training.preparation = Preparation::Scale;
    }
    let spec = training.spec_for(table)?;
    match spec.class_weights {
        Some(ClassWeights::Given) => Err(Error::Usage(
            "the demonstration has no class weights to give: write --class-weight balanced".into(),
        )),
        _ => Ok(spec),
    }
}

/// Returns the largest error of a weight. Rejects a large one.
fn compared(weights: &[Vec<f64>], plain: &[Vec<f64>]) -> Result<f64> {
    let pairs = weights.iter().flatten().zip(plain.iter().flatten());
    let error = pairs.map(|(a, b)| (a - b).abs()).fold(0.0, largest);
    let weight = plain.iter().flatten().map(|w| w.abs()).fold(0.0, largest);
    // NaN is above nothing, so it needs its own test.
    match error.is_nan() || error > TOLERANCE * weight {
        true => Err(Error::WrongResult(format!(
            "a weight differs by {error:.2e} from training in the clear, whose largest is \
             {weight:.2e}"
        ))),
        false => Ok(error),
    }
}

/// Returns the weights that scikit-learn's LogisticRegression converges to by default.
fn converged(rows: &Prepared<'_>, spec: &TrainSpec) -> Result<Vec<Vec<f64>>> {
    let penalty = Penalty::C(1.0);
    let spec = TrainSpec { preparation: Preparation::Whiten, penalty, ..*spec };
    let table = rows.table();
    let whitened = Prepared::new(table, &spec, table.rows(), None)?;
    let under =
        |weights: &Vec<f64>| Ok(whitened.transform().weights_under(weights, rows.transform())?);
    whitened.optimum(&spec)?.iter().map(under).collect()
}

/// Measures the quality of weights on their training rows.
fn quality(rows: &Prepared<'_>, weights: &[Vec<f64>]) -> Result<Quality> {
    let entries = rows.transform().rows(rows.table().values());
    let of_model = |weights: &Vec<f64>| -> Vec<f64> {
        let products = entries.chunks_exact(weights.len());
        products.map(|x| x.iter().zip(weights).map(|(x, w)| x * w).sum()).collect()
    };
    let scores: Vec<Vec<f64>> = weights.iter().map(of_model).collect();
    Ok(Quality::of(&scores, rows.table().members()?)?)
}

/// Returns the larger number, or NaN if either is NaN.
fn largest(a: f64, b: f64) -> f64 {
    if b > a || b.is_nan() { b } else { a }
}

fn text(report: &Report) -> String {
    let seconds = |s: f64| format!("{s:.2} s");
    let known = |x: Option<f64>| x.map_or_else(|| "-".into(), |x| format!("{x:.4}"));
    output::fields(&[
        (
            "accuracy",
            format!(
                "{:.4} (in the clear {:.4}, scikit-learn {:.4}, the larger class {:.4})",
                report.accuracy,
                report.plain_accuracy,
                report.converged_accuracy,
                report.largest_class
            ),
        ),
        (
            "AUC",
            format!(
                "{} (in the clear {}, scikit-learn {})",
                known(report.auc),
                known(report.plain_auc),
                known(report.converged_auc)
            ),
        ),
        ("largest error of a weight", format!("{:.1e}", report.max_abs_weight_error)),
        ("making keys", seconds(report.keygen_s)),
        ("encrypting", seconds(report.encrypt_s)),
        ("training", format!("{}, {} iterations", seconds(report.train_s), report.iterations)),
        ("decrypting", seconds(report.decrypt_s)),
        ("peak memory", report.peak_rss_bytes.map_or_else(|| "unknown".into(), size::bytes)),
    ])
}

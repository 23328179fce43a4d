use crate::{
    args::class_weights,
    output::{Output, say},
    progress::Progress,
};
use serde::Serialize;
use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Instant,
};
use sudare::ckks::serial::Kind;
use sudare_apps::table::Table;
use sudare_roles::{
    artefacts::{Content, Job, Opened},
    encryption::{self, Encryption, KeyColumn, Written},
    error::{Error, Result},
    files::{self, Access, NewFile},
    machine,
    model::Model,
    scoring::Inputs,
};

/// Encrypt a table under a public key
///
/// The names and ranges of the columns travel encrypted with it. The numbers of rows
/// and columns are public. Rows are shuffled if they are trained on in batches. Rows to be
/// scored by a model are scaled as those that it was trained on, which --like names.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    sudare encrypt --public keys/public.key --data births.csv --target low -o births.ct\n  \
    sudare encrypt --public keys/public.key --data births.csv --target low --class-weight 1,2 -o births.ct\n  \
    sudare encrypt --public keys/public.key --data new.csv --like model.json -o new.ct\n  \
    sudare encrypt --public keys/public.key --data new.csv --like births.csv --target low -o new.ct\n  \
    sudare encrypt --public keys/public.key --model model.json -o secret-model.ct")]
pub struct Args {
    /// Public key
    #[arg(long, value_name = "FILE")]
    public: PathBuf,
    /// CSV file of numbers whose first line names the columns, or Parquet file (T.parquet)
    #[arg(long, value_name = "T.csv", required_unless_present = "model")]
    data: Option<PathBuf>,
    /// Column of 0 and 1 to learn; with --like, to compare scores with where the rows have it
    #[arg(long, value_name = "COL", conflicts_with = "model")]
    target: Option<String>,
    /// Column whose values tell which group a row belongs to
    #[arg(long, value_name = "COL", conflicts_with_all = ["model", "like"])]
    by: Option<String>,
    /// For keys of a training with given class weights: what a row with target 0 weighs and what one
    /// with 1 does, of which only the ratio counts. The server does not learn them
    #[arg(long, value_name = "W0,W1", value_parser = class_weights, conflicts_with_all = ["model", "like"])]
    class_weight: Option<[f64; 2]>,
    /// To score the rows by a model: the model, or any JSON file with its columns and divisors; or
    /// the table that it was trained on
    #[arg(long, value_name = "FILE", conflicts_with = "model")]
    like: Option<PathBuf>,
    /// Encrypt this model instead of a table, for a server that is to score rows by it unseen
    #[arg(long, value_name = "M.json", conflicts_with = "data")]
    model: Option<PathBuf>,
    /// The encrypted table
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Replace an existing file
    #[arg(long)]
    force: bool,
}

#[derive(Serialize)]
struct Report {
    rows: usize,
    features: usize,
    ciphertexts: usize,
    bytes: u64,
    seconds: f64,
    path: PathBuf,
}

pub fn run(args: &Args, output: Output) -> Result<()> {
    let start = Instant::now();
    files::check_free(&args.output, args.force)?;
    let key = Opened::open(&args.public, Kind::PublicKey)?;
    let (_, meta) = key.meta(&[Content::Keys])?;
    let (subject, job) = Subject::read(args, &meta.job)?;
    let params = key.params()?;
    let bits = params.rlwe().security_bits();
    if params.spec().insecure {
        say(format_args!("warning: this key has {bits:.1} bits of security only"));
    }
    let name = key.info().label.name.clone();
    let public = Arc::new(key.public_key(&params)?);
    let encryption = Encryption::new(job, &params, &name, public)?;
    let encryption = encryption.with_class_weights(args.class_weight);
    let mut file = NewFile::create(&args.output, Access::Shared, args.force)?;
    let (rows, features) = subject.shape();
    let progress = Progress::new("Encrypting", encryption.plan().ciphertexts());
    let done = |done| progress.set(done);
    let path = &args.output;
    let written = match subject {
        Subject::Table(table, key) => {
            encryption.write(&mut file, path, *table, key.as_ref(), done)?
        }
        Subject::Rows(table, inputs) => {
            encryption.write_rows(&mut file, path, &table, &inputs, done)?
        }
        Subject::Model(model) => encryption.write_model(&mut file, path, &model)?,
    };
    file.finish()?;
    drop(progress);
    let Written { ciphertexts, bytes } = written;
    let seconds = start.elapsed().as_secs_f64();
    let path = args.output.clone();
    let report = Report { rows, features, ciphertexts, bytes, seconds, path };
    output.write(&report, |report| {
        format!(
            "{}: {} rows and {} features in {} ciphertexts, {}, {:.1} s\n",
            report.path.display(),
            report.rows,
            report.features,
            report.ciphertexts,
            machine::bytes(report.bytes),
            report.seconds
        )
    })
}

/// What is encrypted.
enum Subject {
    /// With its key column, if it is summed by groups.
    Table(Box<Table>, Option<KeyColumn>),
    /// To be scored by a model with these features.
    Rows(Box<Table>, Inputs),
    Model(Box<Model>),
}

impl Subject {
    /// What the arguments name, and the job that it is encrypted for with keys for `job`.
    fn read(args: &Args, job: &Job) -> Result<(Self, Job)> {
        if let Some(path) = &args.model {
            let model = Model::read(path)?;
            return Ok((Self::Model(Box::new(model)), job.scoring(1)?));
        }
        let data = args.data.as_ref().ok_or_else(|| Error::Bug("encrypting nothing".into()))?;
        let Some(like) = &args.like else {
            let (table, key) = read_table(args, data, job)?;
            return Ok((Self::Table(Box::new(table), key), *job));
        };
        let target = args.target.as_deref();
        let inputs = Inputs::read(like, target)?;
        let table = inputs.read_table(data, target)?;
        let scoring = job.scoring(table.rows())?;
        expect_shape(data, (table.rows(), table.features()), &scoring)?;
        Ok((Self::Rows(Box::new(table), inputs), scoring))
    }

    /// Rows and features.
    fn shape(&self) -> (usize, usize) {
        match self {
            Self::Table(table, _) | Self::Rows(table, _) => (table.rows(), table.features()),
            Self::Model(model) => (1, model.columns.len()),
        }
    }
}

/// Refuses rows of another shape than they are scored in.
fn expect_shape(data: &Path, found: (usize, usize), job: &Job) -> Result<()> {
    if found == job.shape()? {
        return Ok(());
    }
    let (rows, features) = found;
    Err(Error::Usage(format!(
        "{} has {rows} rows and {features} features besides the target, the keys are for {job}: \
         give as many, or make keys with --for predict:{rows}x{features}",
        data.display()
    )))
}

/// The table and its key column, if the job can be done with it.
fn read_table(args: &Args, data: &Path, job: &Job) -> Result<(Table, Option<KeyColumn>)> {
    let (rows, features) = job.shape()?;
    if matches!(job, Job::Train(_)) && args.target.is_none() {
        return Err(Error::Usage(
            "these keys are for training, which needs labels: name the column of 0 and 1 with \
             --target"
                .into(),
        ));
    }
    if job.takes_class_weights() != args.class_weight.is_some() {
        return Err(Error::Usage(format!(
            "these keys are for {job}: {}",
            match args.class_weight {
                Some(_) => "leave out --class-weight, or make keys with --class-weight given",
                None => "say what rows with target 0 and with 1 weigh with --class-weight W0,W1",
            }
        )));
    }
    if matches!(job, Job::Groups(_)) != args.by.is_some() {
        return Err(Error::Usage(format!(
            "these keys are for {job}: {}",
            match args.by {
                Some(_) => "leave out --by, or make keys with --for groups:…",
                None => "name the column that tells groups apart with --by",
            }
        )));
    }
    if matches!(job, Job::Predict(_)) {
        return Err(encryption::unscaled());
    }
    let mut table = files::read_table(data, args.target.as_deref())?;
    let mut key = None;
    if let Some(name) = &args.by {
        let (rest, values) = table.without(name).map_err(Error::in_table(data))?;
        table = rest;
        key = Some(KeyColumn::new(name, &values));
    }
    let found = (table.rows(), table.features());
    let groups = key.as_ref().map(|key| key.grouping.labels().len());
    let as_planned = match (job, groups) {
        (Job::Groups(job), Some(groups)) => groups == job.groups,
        _ => true,
    };
    if found != (rows, features) || !as_planned {
        let what = match job {
            Job::Train(_) => "train",
            Job::Groups(_) => "groups",
            Job::Histogram(_) => "histogram",
            Job::Predict(_) => "predict",
            Job::Stats(_) | Job::Bootstrap => "stats",
        };
        let last = match (job, groups) {
            (Job::Histogram(job), _) => format!("x{}", job.bins),
            (_, Some(groups)) => format!("x{groups}"),
            _ => String::new(),
        };
        let found_groups = groups.map(|groups| format!(" in {groups} groups"));
        return Err(Error::Usage(format!(
            "{} has {} rows and {} features besides the target{}, the keys are for {job}: give \
             that table, or make keys with --for {what}:{}x{}{last}",
            data.display(),
            found.0,
            found.1,
            found_groups.unwrap_or_default(),
            found.0,
            found.1
        )));
    }
    if matches!(job, Job::Train(_)) {
        table.check_for_training().map_err(Error::in_table(data))?;
    }
    Ok((table, key))
}

use crate::{
    commands::shared::encryption_key::{EncryptionKey, OpenKey},
    output::{Output, say},
    progress::Progress,
    values::{ColumnEdges, TableFormat, class_weights, edges, share},
};
use serde::Serialize;
use std::{
    io::Read,
    path::{Path, PathBuf},
    sync::Arc,
    time::Instant,
};
use sudare::ckks::Params;
use sudare_apps::stats::Edges;
use sudare_roles::{
    encryption::{self, Encryption, Written},
    error::{Error, Result},
    features::Inputs,
    files::{self, Access, NewFile},
    job::{Job, KeyColumn},
    key::Key,
    label::Content,
    machine,
    model::Model,
    note::HeldOut,
    opened::Opened,
    pooled::transform::PooledTransform,
};
use sudare_table::Table;

/// Encrypt a table under a public key, or the owner's secret key
///
/// The names of the columns, and how they were prepared, travel encrypted with it. The number of
/// columns is public, and of rows how many the keys are for. Rows are shuffled if they are trained
/// on in batches. Rows to be scored by a model are prepared as those that it was trained on, which
/// --like names.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    sudare encrypt --public keys/public.key --data births.csv --target low -o births.ct\n  \
    sudare encrypt --secret keys/secret.key --data births.csv --target low -o births.ct\n  \
    sudare encrypt --public keys/public.key --data births.csv --target low --class-weight 1,2 -o births.ct\n  \
    sudare encrypt --public keys/public.key --expect DIGEST --data births.csv --target low -o births.ct\n  \
    sudare encrypt --public keys/public.key --data births.csv --edges age=10,20,30,50 -o bins.ct\n  \
    sudare encrypt --public keys/public.key --data new.csv --like model.json -o new.ct\n  \
    sudare encrypt --public keys/public.key --data new.csv --like births.csv --target low -o new.ct\n  \
    sudare encrypt --public keys/public.key --model model.json -o secret-model.ct")]
pub struct Args {
    #[command(flatten)]
    key: EncryptionKey,
    /// CSV file whose first line names the columns, or Parquet file (T.parquet)
    #[arg(long, value_name = "T.csv", required_unless_present = "model")]
    data: Option<PathBuf>,
    /// Column to learn; with --like, to compare scores with where the rows have it
    #[arg(long, value_name = "COL", conflicts_with = "model")]
    target: Option<String>,
    /// Column whose values tell which group a row belongs to
    #[arg(long, value_name = "COL", conflicts_with_all = ["model", "like"])]
    by: Option<String>,
    /// For keys of a histogram: the edges of bins, equal for bins of equal width, quantile for as many
    /// values in each, log for positive values, or numbers, one more than bins; values beyond them
    /// are in no bin. For one column with its name; give it once for each that differs from the
    /// others. The server learns the number of bins alone [default: equal]
    #[arg(long, value_name = "[COL=]equal|quantile|log|E,E,E", value_parser = edges, allow_hyphen_values = true, conflicts_with_all = ["model", "like", "transform"])]
    edges: Vec<ColumnEdges>,
    /// For keys of a training with given class weights: what a row of each class weighs, in the
    /// order of classes, as scikit-learn's class_weight. The larger their sum over all rows, the
    /// weaker is the penalty of --c. The server does not learn them
    #[arg(long, value_name = "W,W", value_parser = class_weights, conflicts_with = "model")]
    class_weight: Option<ClassWeightList>,
    /// Of a table to train on: leave out a share of the rows, such as 0.2, to measure the model on
    /// with `sudare evaluate --held-out`. Which they are goes with the model
    #[arg(long, value_name = "SHARE", value_parser = share, conflicts_with_all = ["model", "like", "by"])]
    hold_out: Option<f64>,
    /// Of one of several owners: how they prepare their rows, as `sudare pool transform` made it
    #[arg(long, value_name = "FILE.json", requires = "owner", conflicts_with_all = ["model", "like", "by", "hold_out", "class_weight", "target"])]
    transform: Option<PathBuf>,
    /// Whose rows they are
    #[arg(long, value_name = "NAME", requires = "transform")]
    owner: Option<String>,
    #[command(flatten)]
    format: TableFormat,
    /// To score the rows by a model: the model, or any JSON file with its columns and divisors; or
    /// the table that it was trained on, as it was
    #[arg(long, value_name = "FILE", conflicts_with = "model")]
    like: Option<PathBuf>,
    /// Encrypt this model instead of a table, for a server that is to score rows by it unseen
    #[arg(long, value_name = "M.json", conflicts_with = "data")]
    model: Option<PathBuf>,
    /// The encrypted table or model
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Replace an existing file
    #[arg(long)]
    force: bool,
}

/// A list that is one argument.
type ClassWeightList = Vec<f64>;

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
    let file = args.key.open()?;
    let (job, params, name) = match &file {
        OpenKey::Public(file) => made_for(file)?,
        OpenKey::Secret(file) => made_for(file.opened())?,
    };
    let (subject, job) = Subject::read(args, &job)?;
    let bits = params.rlwe().security_bits();
    if params.spec().insecure {
        say(format_args!("warning: this key has {bits:.1} bits of security only"));
    }
    let key = match file {
        OpenKey::Public(file) => Key::Public(Arc::new(file.public_key(&params)?)),
        OpenKey::Secret(file) => Key::Secret(args.key.secret_key(file, &params)?),
    };
    let encryption = Encryption::new(job, &params, &name, key)?;
    let encryption = encryption.with_class_weights(args.class_weight.clone());
    let mut file = NewFile::create(&args.output, Access::Shared, args.force)?;
    let (rows, features) = subject.shape();
    let progress = Progress::new("Encrypting", encryption.plan().ciphertexts());
    let done = |done| progress.set(done);
    let path = &args.output;
    let written = match subject {
        Subject::Table(table) => encryption.write(&mut file, path, *table, done)?,
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

/// The job that a key was made for, its parameters and their name.
fn made_for<R: Read>(key: &Opened<R>) -> Result<(Job, Params, String)> {
    let (_, meta) = key.meta(&[Content::Keys])?;
    Ok((meta.job, key.params()?, key.info().label.name.clone()))
}

/// What is encrypted.
enum Subject {
    /// To be computed with.
    Table(Box<encryption::Subject>),
    /// To be scored by a model with these features.
    Rows(Box<Table>, Box<Inputs>),
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
        if let (Some(path), Some(owner)) = (&args.transform, &args.owner) {
            let subject = read_pooled(args, data, (path, owner), job)?;
            return Ok((Self::Table(Box::new(subject)), *job));
        }
        let Some(like) = &args.like else {
            return Ok((Self::Table(Box::new(read_table(args, data, job)?)), *job));
        };
        let (target, reading) = (args.target.as_deref(), args.format.reading());
        let known = (target, args.class_weight.as_deref());
        let inputs = Inputs::read(like, job.scoring(1)?.trained(), known, &reading)?;
        let table = inputs.read_table(data, target, &reading)?;
        let scoring = job.scoring(table.rows())?;
        expect_shape(data, (table.rows(), table.features()), &scoring)?;
        Ok((Self::Rows(Box::new(table), Box::new(inputs)), scoring))
    }

    /// Rows and features.
    fn shape(&self) -> (usize, usize) {
        match self {
            Self::Table(subject) => (subject.table.rows(), subject.table.features()),
            Self::Rows(table, _) => (table.rows(), table.features()),
            Self::Model(model) => (1, model.columns.len()),
        }
    }
}

/// The table of one of several owners.
fn read_pooled(
    args: &Args,
    data: &Path,
    (path, owner): (&Path, &str),
    job: &Job,
) -> Result<encryption::Subject> {
    if !job.takes().labels {
        return Err(Error::Usage(format!(
            "these keys are for {job}: leave out --transform, which is for trainings"
        )));
    }
    let common = PooledTransform::read(path)?;
    let table = args.format.reading().pooled(data, common.schema())?;
    expect_shape(data, (table.rows(), table.features()), job)?;
    let pooled = Some((owner.to_owned(), common));
    Ok(encryption::Subject { pooled, ..table.into() })
}

/// Refuses a table that the keys are not for.
fn expect_shape(data: &Path, (rows, features): (usize, usize), job: &Job) -> Result<()> {
    let (most, needed) = job.shape()?;
    if rows <= most && features == needed {
        return Ok(());
    }
    Err(Error::Usage(format!(
        "{} has {rows} rows and {features} features besides the target, the keys are for {job}: \
         give a table of as many features and at most as many rows, or make keys with --for {}",
        data.display(),
        job.named(rows, features)?
    )))
}

/// Refuses options that the job does not take, and their lack where it does.
fn check_options(args: &Args, job: &Job) -> Result<()> {
    let takes = job.takes();
    if takes.labels && args.target.is_none() {
        return Err(Error::Usage(
            "these keys are for training, which needs labels: name the column to learn with \
             --target"
                .into(),
        ));
    }
    let wrong = |advice: &str| Err(Error::Usage(format!("these keys are for {job}: {advice}")));
    match (takes.class_weights, &args.class_weight) {
        (false, Some(_)) => {
            return wrong("leave out --class-weight, or make keys with --class-weight given");
        }
        (true, None) => return wrong("say what rows of each class weigh with --class-weight W,W"),
        _ => {}
    }
    match (takes.groups.is_some(), &args.by) {
        (false, Some(_)) => return wrong("leave out --by, or make keys with --for groups:…"),
        (true, None) => return wrong("name the column that tells groups apart with --by"),
        _ => {}
    }
    if takes.bins.is_none() && !args.edges.is_empty() {
        return wrong("leave out --edges, or make keys with --for histogram:…");
    }
    if args.hold_out.is_some() && !takes.labels {
        return wrong("leave out --hold-out, which is for trainings");
    }
    if takes.model {
        return Err(encryption::unprepared());
    }
    Ok(())
}

/// The table, if the job can be done with it.
fn read_table(args: &Args, data: &Path, job: &Job) -> Result<encryption::Subject> {
    check_options(args, job)?;
    let (mut table, encoding) = args.format.reading().table(data, args.target.as_deref())?;
    if table.dropped() > 0 {
        say(format_args!("{} rows with missing values are left out", table.dropped()));
    }
    let in_table = Error::in_table(data);
    let mut held_out = None;
    if let Some(share) = args.hold_out {
        let random = HeldOut::random(share)?;
        let (trained, held) = random.split(&table).map_err(&in_table)?;
        table = trained;
        held_out = Some((random, held));
    }
    let mut key = None;
    if let Some(name) = &args.by {
        let (rest, values) = table.without(name).map_err(&in_table)?;
        table = rest;
        key = Some(KeyColumn::new(name, &values)?);
    }
    expect_shape(data, (table.rows(), table.features()), job)?;
    expect_groups(data, key.as_ref(), job)?;
    if job.takes().labels {
        table.check_for_training().map_err(in_table)?;
        expect_classes(data, &table, job)?;
    }
    let edges = edges_of(&args.edges, table.columns())?;
    let encoding = Some(encoding);
    Ok(encryption::Subject { encoding, held_out, key, edges, ..table.into() })
}

/// The edges of bins of each column.
fn edges_of(given: &[ColumnEdges], columns: &[String]) -> Result<Vec<Edges>> {
    let for_all = given.iter().rfind(|given| given.column.is_none());
    let for_all = for_all.map_or(Edges::default(), |given| given.edges.clone());
    let mut edges = vec![for_all; columns.len()];
    for ColumnEdges { column, edges: own } in given {
        let Some(name) = column else { continue };
        let place = columns.iter().position(|other| other == name).and_then(|at| edges.get_mut(at));
        let Some(place) = place else {
            return Err(Error::Usage(format!(
                "--edges {name}=…: there is no column {name:?}; the columns are {}",
                columns.join(", ")
            )));
        };
        place.clone_from(own);
    }
    Ok(edges)
}

/// Refuses more groups than the keys are for.
fn expect_groups(data: &Path, key: Option<&KeyColumn>, job: &Job) -> Result<()> {
    let (Some(key), Some(most)) = (key, job.takes().groups) else { return Ok(()) };
    let found = key.grouping.labels().len();
    if found <= most {
        return Ok(());
    }
    let (rows, features) = job.shape()?;
    Err(Error::Usage(format!(
        "column {:?} of {} tells {found} groups apart, the keys are for {job}: make keys with --for \
         groups:{rows}x{features}x{found}",
        key.name,
        data.display()
    )))
}

/// Refuses a target of other classes than the keys are for.
fn expect_classes(data: &Path, table: &Table, job: &Job) -> Result<()> {
    let Some(spec) = job.training() else { return Ok(()) };
    let (found, needed) = (table.classes()?, spec.classes as usize);
    if found.len() == needed {
        return Ok(());
    }
    let shown: Vec<&str> = found.iter().take(5).map(String::as_str).collect();
    let more = if found.len() > shown.len() { ", …" } else { "" };
    Err(Error::Usage(format!(
        "{} has {} classes in column {:?} ({}{more}), the keys are for {needed}: make keys with \
         --classes {}, or name another column",
        data.display(),
        found.len(),
        table.target().unwrap_or_default(),
        shown.join(", "),
        found.len()
    )))
}

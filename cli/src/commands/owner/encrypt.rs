use crate::{
    commands::shared::encryption_key::{EncryptionKey, OpenKey},
    output::{Output, say},
    progress::Progress,
    values::{ColumnEdges, TableFormat, class_weights, edges, share, tell_identifiers},
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
    clear::{coding::Coding, features::Inputs, groups::KeyColumn, model::Model, note::HeldOut},
    error::{Error, Result},
    format::{label::Content, opened::Opened},
    job::Job,
    key::Key,
    os::files::{self, Access, NewFile},
    owner::encryption::{self, Encryption, Written},
    pooled::transform::PooledTransform,
    text::size,
};
use sudare_table::Table;

/// Encrypt a table under a public key, or under the owner's secret key
///
/// The names and the preparation of the columns are encrypted with the table. The number of columns
/// and the maximum number of rows of the keys are public. Rows are shuffled if the training uses
/// batches. To score rows by a model, prepare them like its training table with --like.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    sudare encrypt --public keys/public.key --data births.csv --target low -o births.ct\n  \
    sudare encrypt --secret keys/secret.key --data births.csv --target low -o births.ct\n  \
    sudare encrypt --public keys/public.key --data births.csv --target low --class-weight 1,2 -o births.ct\n  \
    sudare encrypt --public keys/public.key --expect DIGEST --data births.csv --target low -o births.ct\n  \
    sudare encrypt --public keys/public.key --data visits.csv --by ward --drop note --missing drop -o visits.ct\n  \
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
    /// Target column; with --like, the known labels to compare with the scores
    #[arg(long, value_name = "COL", conflicts_with = "model")]
    target: Option<String>,
    /// Column that defines the groups of rows
    #[arg(long, value_name = "COL", conflicts_with_all = ["model", "like"])]
    by: Option<String>,
    /// Edges of the bins of a histogram: equal, for bins of equal width; quantile, for bins with
    /// equal numbers of values; log, for positive values; or the numbers themselves, one more than
    /// bins. Values beyond the edges are in no bin. For a single column, put its name first, and
    /// repeat the option for each such column. The server learns only the number of bins [default:
    /// equal]
    #[arg(long, value_name = "[COL=]equal|quantile|log|E,E,E", value_parser = edges, allow_hyphen_values = true, conflicts_with_all = ["model", "like", "transform"])]
    edges: Vec<ColumnEdges>,
    /// Weight of a row of each class, in the order of classes, as in scikit-learn's class_weight:
    /// for keys of a training with --class-weight given. The larger their sum over all rows, the
    /// weaker is the penalty of --C. The server does not learn them
    #[arg(long, value_name = "W,W", value_parser = class_weights, conflicts_with = "model")]
    class_weight: Option<ClassWeightList>,
    /// Share of the rows to leave out of the training, such as 0.2, for `sudare evaluate
    /// --held-out`. The model records which rows they are
    #[arg(long, value_name = "SHARE", value_parser = share, conflicts_with_all = ["model", "like", "by"])]
    hold_out: Option<f64>,
    /// Transform file from `sudare pool transform`, when several owners train together
    #[arg(long, value_name = "FILE.json", requires = "owner", conflicts_with_all = ["model", "like", "by", "hold_out", "class_weight", "target"])]
    transform: Option<PathBuf>,
    /// Name of the owner of the rows, as the schema has it
    #[arg(long, value_name = "NAME", requires = "transform")]
    owner: Option<String>,
    #[command(flatten)]
    format: TableFormat,
    /// Coding of the table that the keys were planned for; default: coding.json in the directory of
    /// the key, if it exists. Table options replace it
    #[arg(long, value_name = "FILE.json", conflicts_with_all = ["model", "transform"])]
    coding: Option<PathBuf>,
    /// Model to score the rows by, or any JSON file with its columns and divisors; or the unchanged
    /// table that it was trained on
    #[arg(long, value_name = "FILE", conflicts_with = "model")]
    like: Option<PathBuf>,
    /// Model to encrypt instead of a table, for a server that scores rows by it without seeing it
    #[arg(long, value_name = "M.json", conflicts_with = "data")]
    model: Option<PathBuf>,
    /// File for the encrypted table or model
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
        OpenKey::Public(file) => job_of_key(file)?,
        OpenKey::Secret(file) => job_of_key(file.opened())?,
    };
    let key_id = match &file {
        OpenKey::Public(file) => file.info().key_id.to_string(),
        OpenKey::Secret(file) => file.opened().info().key_id.to_string(),
    };
    let coding = coding(args, &key_id)?;
    // The table is read before a passphrase is asked for, so that a mistake in it costs no typing.
    let (subject, job) = Subject::read(args, &job, coding.as_ref())?;
    let bits = params.rlwe().security_bits();
    if params.spec().insecure {
        say(format_args!("warning: this key has only {bits:.1} bits of security"));
    }
    let key = match file {
        OpenKey::Public(file) => Key::Public(Arc::new(file.public_key(&params)?)),
        OpenKey::Secret(file) => Key::Secret(args.key.secret_key(file, &params)?),
    };
    let encryption = Encryption::new(job, &params, &name, key)?;
    let encryption = encryption.with_class_weights(args.class_weight.clone());
    // Created only when the table is checked, and before the work that could take minutes.
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
            size::bytes(report.bytes),
            report.seconds
        )
    })
}

/// Returns the job of a key, its parameters and their name.
fn job_of_key<R: Read>(key: &Opened<R>) -> Result<(Job, Params, String)> {
    let (_, meta) = key.meta(&[Content::Keys])?;
    Ok((meta.job, key.params()?, key.info().label.name.clone()))
}

/// Returns the coding of the table, if the keys were planned for a table with one, unless options say how
/// to read it.
fn coding(args: &Args, key_id: &str) -> Result<Option<Coding>> {
    if args.model.is_some() || args.transform.is_some() {
        return Ok(None);
    }
    if let Some(path) = &args.coding {
        if !args.format.is_default() {
            return Err(Error::Usage(
                "--coding says how the table is read: leave it out, or the other options of the table"
                    .into(),
            ));
        }
        return Coding::read(path, key_id).map(Some);
    }
    let path = args.key.beside(Coding::FILE).filter(|path| path.exists());
    let Some(path) = path.filter(|_| args.format.is_default()) else { return Ok(None) };
    let coding = Coding::read(&path, key_id)?;
    let differs =
        |given: &Option<String>, known: Option<&str>| given.is_some() && given.as_deref() != known;
    let other = differs(&args.by, coding.by())
        || (args.like.is_none() && differs(&args.target, coding.target()));
    if other {
        return Ok(None);
    }
    say(format_args!("reading the table as {} says", path.display()));
    Ok(Some(coding))
}

/// Data to encrypt.
enum Subject {
    /// Rows to compute with.
    Table(Box<encryption::Subject>),
    /// Rows to score by a model with these features.
    Rows(Box<Table>, Box<Inputs>),
    Model(Box<Model>),
}

impl Subject {
    /// Reads the data that the arguments name, and the job that it is encrypted for under keys for
    /// `job`.
    fn read(args: &Args, job: &Job, coding: Option<&Coding>) -> Result<(Self, Job)> {
        if let Some(path) = &args.model {
            let model = Model::read(path)?;
            // A model depends on the columns only, so any number of rows serves.
            return Ok((Self::Model(Box::new(model)), job.scoring(1)?));
        }
        let data = args
            .data
            .as_ref()
            .ok_or_else(|| Error::Bug("neither a table nor a model is named".into()))?;
        if let (Some(path), Some(owner)) = (&args.transform, &args.owner) {
            let subject = read_pooled(args, data, path, owner, job)?;
            return Ok((Self::Table(Box::new(subject)), *job));
        }
        let Some(like) = &args.like else {
            return Ok((Self::Table(Box::new(read_table(args, data, job, coding)?)), *job));
        };
        let target = args.target.as_deref();
        let reading = coding.map_or_else(|| args.format.reading(), Coding::reading);
        let known = (target, args.class_weight.as_deref());
        // The number of rows is not known yet, and the model of the job does not depend on it.
        let scoring = job.scoring(1)?;
        let inputs = match coding.filter(|_| !Inputs::is_described(like)) {
            Some(coding) => {
                let (table, _) = coding.table(like)?;
                let encoding = Some(coding.encoding().clone());
                Inputs::of(&table, encoding, scoring.trained(), known.1)?
            }
            None => Inputs::read(like, scoring.trained(), known, &reading)?,
        };
        let table = inputs.read_table(data, target, &reading)?;
        let scoring = job.scoring(table.rows())?;
        // Any number of rows can be scored, so only the columns can differ.
        expect_shape(data, &table, &scoring)?;
        Ok((Self::Rows(Box::new(table), Box::new(inputs)), scoring))
    }

    /// Returns the numbers of rows and features.
    fn shape(&self) -> (usize, usize) {
        match self {
            Self::Table(subject) => (subject.table.rows(), subject.table.features()),
            Self::Rows(table, _) => (table.rows(), table.features()),
            Self::Model(model) => (1, model.columns.len()),
        }
    }
}

/// Reads the table of one of several owners.
fn read_pooled(
    args: &Args,
    data: &Path,
    path: &Path,
    owner: &str,
    job: &Job,
) -> Result<encryption::Subject> {
    if !job.required_inputs().labels {
        return Err(Error::Usage(format!(
            "these keys are for {job}, but --transform is for trainings: leave it out"
        )));
    }
    let common = PooledTransform::read(path)?;
    let table = args.format.reading().pooled(data, common.schema())?;
    expect_shape(data, &table, job)?;
    let pooled = Some((owner.to_owned(), common));
    Ok(encryption::Subject { pooled, ..table.into() })
}

/// Rejects a table that does not fit the keys.
fn expect_shape(data: &Path, table: &Table, job: &Job) -> Result<()> {
    let rows = table.rows();
    let features = table.features();
    let (most, needed) = job.shape()?;
    if rows <= most && features == needed {
        return Ok(());
    }
    Err(Error::Usage(format!(
        "{} has {rows} rows and {features} features besides the target, but the keys are for {job}: \
         use a table with that number of features and no more rows, or make keys with --for {}",
        data.display(),
        job.named(rows, features)?
    )))
}

/// Rejects options that the job does not use, and missing options that it needs.
fn check_options(args: &Args, job: &Job, coding: Option<&Coding>) -> Result<()> {
    let required = job.required_inputs();
    let target = args.target.as_deref().or(coding.and_then(Coding::target));
    let by = args.by.as_deref().or(coding.and_then(Coding::by));
    if required.labels && target.is_none() {
        return Err(Error::Usage(
            "these keys are for training, which needs labels: pass the target column with --target"
                .into(),
        ));
    }
    let wrong = |advice: &str| Err(Error::Usage(format!("these keys are for {job}: {advice}")));
    match (required.class_weights, &args.class_weight) {
        (false, Some(_)) => {
            return wrong("leave out --class-weight, or make keys with --class-weight given");
        }
        (true, None) => {
            return wrong("pass the weight of a row of each class with --class-weight W,W");
        }
        _ => {}
    }
    match (required.groups.is_some(), by) {
        (false, Some(_)) => return wrong("leave out --by, or make keys with --for groups:…"),
        (true, None) => return wrong("pass the column that tells groups apart with --by"),
        _ => {}
    }
    if required.bins.is_none() && !args.edges.is_empty() {
        return wrong("leave out --edges, or make keys with --for histogram:…");
    }
    if args.hold_out.is_some() && !required.labels {
        return wrong("--hold-out is for trainings: leave it out");
    }
    // These keys score rows, which need the preparation of a model: `--like`.
    if required.model {
        return Err(encryption::unprepared());
    }
    Ok(())
}

/// Reads the table, if it fits the job.
fn read_table(
    args: &Args,
    data: &Path,
    job: &Job,
    coding: Option<&Coding>,
) -> Result<encryption::Subject> {
    check_options(args, job, coding)?;
    let target = args.target.as_deref();
    let mut key = None;
    let (mut table, encoding) = match (coding, &args.by) {
        (Some(coding), _) => {
            let (table, of_coding) = coding.table(data)?;
            key = of_coding;
            (table, coding.encoding().clone())
        }
        (None, Some(by)) => {
            let (table, of_table, encoding) = args.format.reading().grouped(data, by, target)?;
            key = Some(of_table);
            (table, encoding)
        }
        (None, None) => args.format.reading().table(data, target)?,
    };
    if coding.is_none() {
        tell_identifiers(&encoding);
    }
    if table.dropped() > 0 {
        say(format_args!("left out {} rows with missing values", table.dropped()));
    }
    let in_table = Error::in_table(data);
    let mut held_out = None;
    if let Some(share) = args.hold_out {
        let random = HeldOut::random(share)?;
        let (trained, held) = random.split(&table).map_err(&in_table)?;
        table = trained;
        held_out = Some((random, held));
    }
    expect_shape(data, &table, job)?;
    expect_groups(data, key.as_ref(), job)?;
    if job.required_inputs().labels {
        table.check_for_training().map_err(in_table)?;
        expect_classes(data, &table, job)?;
    }
    let edges = edges_of(&args.edges, table.columns())?;
    let encoding = Some(encoding);
    Ok(encryption::Subject { encoding, held_out, key, edges, ..table.into() })
}

/// Returns the edges of the bins of each column.
fn edges_of(given: &[ColumnEdges], columns: &[String]) -> Result<Vec<Edges>> {
    // The last one counts, as with other repeated options. Columns named below override it.
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

/// Rejects more groups than the keys are for.
fn expect_groups(data: &Path, key: Option<&KeyColumn>, job: &Job) -> Result<()> {
    // `check_options` made sure that both are there, or neither.
    let (Some(key), Some(most)) = (key, job.required_inputs().groups) else { return Ok(()) };
    let found = key.labels.count();
    if found <= most {
        return Ok(());
    }
    let (rows, features) = job.shape()?;
    Err(Error::Usage(format!(
        "column {:?} of {} has {found} groups, but the keys are for {job}: make keys with --for \
         groups:{rows}x{features}x{found}",
        key.name,
        data.display()
    )))
}

/// Rejects a target with other classes than the keys are for.
fn expect_classes(data: &Path, table: &Table, job: &Job) -> Result<()> {
    let Some(spec) = job.training() else { return Ok(()) };
    let found = table.classes()?;
    let needed = spec.classes as usize;
    if found.len() == needed {
        return Ok(());
    }
    // A column of numbers that was named by mistake has a class for each value.
    let shown: Vec<&str> = found.iter().take(5).map(String::as_str).collect();
    let more = if found.len() > shown.len() { ", …" } else { "" };
    Err(Error::Usage(format!(
        "{} has {} classes in column {:?} ({}{more}), but the keys are for {needed}: make keys with \
         --classes {}, or pass another column",
        data.display(),
        found.len(),
        table.target().unwrap_or_default(),
        shown.join(", "),
        found.len()
    )))
}

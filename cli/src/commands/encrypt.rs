use crate::{
    artefacts::{self, Content, Job, Meta, Note, NoteScaling, Opened, Plan},
    error::{Error, Result},
    files::{self, Access, NewFile},
    output::{self, Output, say},
    progress::Progress,
};
use serde::Serialize;
use std::{path::PathBuf, sync::Arc, time::Instant};
use sudare::ckks::{
    Ciphertext, Encryptor,
    serial::{Kind, Shape},
};
use sudare_apps::{
    note,
    stats::{ColumnScaling, Grouping},
    table::{Scaling, Table},
};
use sudare_arith::prng::Seed;

/// Encrypt a table under a public key
///
/// The names and ranges of the columns travel encrypted with it. The numbers of rows
/// and columns are public. Rows are shuffled if they are trained on in batches.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example: sudare encrypt --public keys/public.key --data births.csv --target low -o births.ct"
)]
pub struct Args {
    /// Public key
    #[arg(long, value_name = "FILE")]
    public: PathBuf,
    /// CSV file of numbers whose first line names the columns
    #[arg(long, value_name = "T.csv")]
    data: PathBuf,
    /// Column of 0 and 1 to learn
    #[arg(long, value_name = "COL")]
    target: Option<String>,
    /// Column whose values tell which group a row belongs to
    #[arg(long, value_name = "COL")]
    by: Option<String>,
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
    let (mut table, groups_by) = read_table(args, &meta.job)?;
    let params = key.params()?;
    let bits = params.rlwe().security_bits();
    if params.spec().insecure {
        say(format_args!("warning: this key has {bits:.1} bits of security only"));
    }
    let name = key.info().label.name.clone();
    let plan = meta.job.plan(&params)?;
    shuffle(&plan, &mut table)?;
    let public = key.public_key(&params)?;
    let key_id = public.id();
    let encryptor = Encryptor::new(&params, Arc::new(public))?;
    let file = NewFile::create(&args.output, Access::Shared, args.force)?;
    let scaling = scaling(&plan, &table, groups_by.as_ref())?;
    let note = Note { columns: table.columns().to_vec(), scaling };
    let note = serde_json::to_vec(&note).map_err(|error| Error::Bug(error.to_string()))?;
    let note = note::encrypt(&encryptor, &params, &note)?;
    let label =
        Meta { note: note.len() as u32, ..Meta::of(meta.job) }.label(&name, Content::Table)?;

    let progress = Progress::new("Encrypting", plan.ciphertexts());
    let done = |done| progress.set(done);
    let (mut shapes, items): (Vec<Shape>, Items<'_>) = match &plan {
        Plan::Train(plan) => {
            let mut items = plan.encryptions(&encryptor, &table)?;
            let first = items.next().transpose()?;
            // All have the same.
            let shapes = vec![first.as_ref().map(Shape::of); plan.ciphertexts()];
            let items = first.map(Ok).into_iter().chain(items).enumerate().map(|(i, item)| {
                progress.set(i + 1);
                Ok(item?)
            });
            (shapes.into_iter().flatten().collect(), Box::new(items))
        }
        Plan::Stats(plan) => {
            of_all(plan.encrypt(&encryptor, &table, &ColumnScaling::of(&table), done)?)
        }
        Plan::Histogram(plan) => {
            of_all(plan.encrypt(&encryptor, &table, &ColumnScaling::of(&table), done)?)
        }
        Plan::Groups(plan) => {
            let Key { grouping, .. } = groups_by.as_ref().ok_or_else(Key::missing)?;
            let scaling = ColumnScaling::of(&table);
            of_all(plan.encrypt(&encryptor, &table, &scaling, grouping, done)?)
        }
    };
    shapes.extend(note.iter().map(Shape::of));
    let ciphertexts = shapes.len();
    let items = items.chain(note.into_iter().map(Ok));
    let bytes = artefacts::stream_ciphertexts(file, &params, key_id, shapes, items, &label)?;
    drop(progress);
    let report = Report {
        rows: table.rows(),
        features: table.features(),
        ciphertexts,
        bytes,
        seconds: start.elapsed().as_secs_f64(),
        path: args.output.clone(),
    };
    output.write(&report, |report| {
        format!(
            "{}: {} rows and {} features in {} ciphertexts, {}, {:.1} s\n",
            report.path.display(),
            report.rows,
            report.features,
            report.ciphertexts,
            output::bytes(report.bytes),
            report.seconds
        )
    })
}

/// Ciphertexts as they are made.
type Items<'a> = Box<dyn Iterator<Item = Result<Ciphertext>> + 'a>;

/// Those that there are already, with their shapes.
fn of_all<'a>(items: Vec<Ciphertext>) -> (Vec<Shape>, Items<'a>) {
    (items.iter().map(Shape::of).collect(), Box::new(items.into_iter().map(Ok)))
}

/// A column by whose values rows are grouped.
struct Key {
    name: String,
    grouping: Grouping,
}

impl Key {
    fn missing() -> Error {
        Error::Bug("groups without a key column".into())
    }
}

/// The table and its key column, if the job can be done with it.
fn read_table(args: &Args, job: &Job) -> Result<(Table, Option<Key>)> {
    let (rows, features) = job.shape()?;
    if matches!(job, Job::Train(_)) && args.target.is_none() {
        return Err(Error::Usage(
            "these keys are for training, which needs labels: name the column of 0 and 1 with \
             --target"
                .into(),
        ));
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
    let mut table = files::read_table(&args.data, args.target.as_deref())?;
    let mut key = None;
    if let Some(name) = &args.by {
        let (rest, values) = table.without(name).map_err(Error::in_table(&args.data))?;
        table = rest;
        key = Some(Key { name: name.clone(), grouping: Grouping::of(&values) });
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
            args.data.display(),
            found.0,
            found.1,
            found_groups.unwrap_or_default(),
            found.0,
            found.1
        )));
    }
    if matches!(job, Job::Train(_)) {
        table.check_for_training().map_err(Error::in_table(&args.data))?;
    }
    Ok((table, key))
}

/// Brings the rows of a table into an order that nobody knows, if they are trained on in batches,
/// whose order is public.
pub fn shuffle(plan: &Plan, table: &mut Table) -> Result<()> {
    if let Plan::Train(plan) = plan
        && plan.batches().count() > 1
    {
        table.shuffle(&Seed::random().map_err(sudare::Error::from)?);
    }
    Ok(())
}

/// What the owner needs to read a result.
fn scaling(plan: &Plan, table: &Table, key: Option<&Key>) -> Result<NoteScaling> {
    Ok(match plan {
        Plan::Train(_) => {
            let target = table.target().unwrap_or_default().to_owned();
            NoteScaling::Train { target, divisors: Scaling::max_abs(table) }
        }
        Plan::Stats(_) | Plan::Histogram(_) => NoteScaling::Stats(ColumnScaling::of(table)),
        Plan::Groups(_) => {
            let Key { name, grouping } = key.ok_or_else(Key::missing)?;
            let (scaling, labels) = (ColumnScaling::of(table), grouping.labels().to_vec());
            NoteScaling::Groups { scaling, key: name.clone(), labels }
        }
    })
}

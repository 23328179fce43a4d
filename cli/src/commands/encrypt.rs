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
    Ciphertext, Encryptor, Params,
    serial::{Kind, Shape},
};
use sudare_apps::{
    note,
    stats::ColumnScaling,
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
    let mut table = read_table(args, &meta.job)?;
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
    let note = encrypt_note(&plan, &params, &encryptor, &table)?;
    let label =
        Meta { note: note.len() as u32, ..Meta::of(meta.job) }.label(&name, Content::Table)?;

    let progress = Progress::new("Encrypting", plan.ciphertexts());
    let (mut shapes, items): (Vec<Shape>, Items<'_>) = match &plan {
        Plan::Train(plan) => {
            let mut items = plan.encryptions(&encryptor, &table)?;
            let first = items.next().transpose()?;
            // All have the same.
            let shapes = vec![first.as_ref().map(Shape::of); plan.ciphertexts()];
            let items = first.map(Ok).into_iter().chain(items);
            (shapes.into_iter().flatten().collect(), Box::new(items.map(|item| Ok(item?))))
        }
        Plan::Stats(plan) => {
            let scaling = ColumnScaling::of(&table);
            let items = plan.encrypt(&encryptor, &table, &scaling, |_| ())?;
            (items.iter().map(Shape::of).collect(), Box::new(items.into_iter().map(Ok)))
        }
    };
    shapes.extend(note.iter().map(Shape::of));
    let ciphertexts = shapes.len();
    let items = items.chain(note.into_iter().map(Ok)).enumerate().map(|(i, item)| {
        progress.set(i + 1);
        item
    });
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

/// The table, if the job can be done with it.
fn read_table(args: &Args, job: &Job) -> Result<Table> {
    let (rows, features) = job.shape()?;
    if matches!(job, Job::Train(_)) && args.target.is_none() {
        return Err(Error::Usage(
            "these keys are for training, which needs labels: name the column of 0 and 1 with \
             --target"
                .into(),
        ));
    }
    let table = files::read_table(&args.data, args.target.as_deref())?;
    let found = (table.rows(), table.features());
    if found != (rows, features) {
        return Err(Error::Usage(format!(
            "{} has {} rows and {} features besides the target, the keys are for {job}: give that \
             table, or make keys with --for {}:{}x{}",
            args.data.display(),
            found.0,
            found.1,
            if matches!(job, Job::Train(_)) { "train" } else { "stats" },
            found.0,
            found.1
        )));
    }
    if matches!(job, Job::Train(_)) {
        table.check_for_training().map_err(Error::in_table(&args.data))?;
    }
    Ok(table)
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

/// What comes back to the owner with a result.
fn encrypt_note(
    plan: &Plan,
    params: &Params,
    encryptor: &Encryptor,
    table: &Table,
) -> Result<Vec<Ciphertext>> {
    let scaling = match plan {
        Plan::Train(_) => {
            let target = table.target().unwrap_or_default().to_owned();
            NoteScaling::Train { target, divisors: Scaling::max_abs(table) }
        }
        Plan::Stats(_) => NoteScaling::Stats(ColumnScaling::of(table)),
    };
    let note = Note { columns: table.columns().to_vec(), scaling };
    let note = serde_json::to_vec(&note).map_err(|error| Error::Bug(error.to_string()))?;
    Ok(note::encrypt(encryptor, params, &note)?)
}

use crate::{
    artefacts::{Content, Job, Opened},
    encryption::{Encryption, KeyColumn, Written},
    error::{Error, Result},
    files::{self, Access, NewFile},
    output::{self, Output, say},
    progress::Progress,
};
use serde::Serialize;
use std::{path::PathBuf, sync::Arc, time::Instant};
use sudare::ckks::serial::Kind;
use sudare_apps::table::Table;

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
    /// CSV file of numbers whose first line names the columns, or Parquet file (T.parquet)
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
    let (table, groups_by) = read_table(args, &meta.job)?;
    let params = key.params()?;
    let bits = params.rlwe().security_bits();
    if params.spec().insecure {
        say(format_args!("warning: this key has {bits:.1} bits of security only"));
    }
    let name = key.info().label.name.clone();
    let public = Arc::new(key.public_key(&params)?);
    let encryption = Encryption::new(meta.job, &params, &name, public)?;
    let mut file = NewFile::create(&args.output, Access::Shared, args.force)?;
    let (rows, features) = (table.rows(), table.features());
    let progress = Progress::new("Encrypting", encryption.plan().ciphertexts());
    let done = |done| progress.set(done);
    let written = encryption.write(&mut file, &args.output, table, groups_by.as_ref(), done)?;
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
            output::bytes(report.bytes),
            report.seconds
        )
    })
}

/// The table and its key column, if the job can be done with it.
fn read_table(args: &Args, job: &Job) -> Result<(Table, Option<KeyColumn>)> {
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

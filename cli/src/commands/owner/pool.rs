use crate::{
    commands::shared::{encryption_key::PublicKeyFile, secret_key::SecretKeyFile},
    output::{Output, say},
    progress::Progress,
    values::{TableFormat, class_weights},
};
use serde::Serialize;
use std::{path::PathBuf, sync::Arc, time::Instant};
use sudare::ckks::{Decryptor, serial::Kind};
use sudare_roles::{
    error::{Error, Result},
    format::{
        label::{Content, Meta},
        opened::Opened,
    },
    os::files::{self, Access, NewFile},
    pooled::{
        self,
        sums::{self, JobKeys},
        transform::PooledTransform,
    },
    text::size,
};

/// Compute with the rows of several owners, who show them to no one
///
/// Each owner encrypts the sums of its columns (sums). The server adds them (add). The holder of
/// the key reads only the total: statistics of all rows (`sudare decrypt --schema`), or a transform
/// by which all owners prepare their rows (transform). The owners encrypt prepared rows (`sudare
/// encrypt --transform`), and the server trains on them together (`sudare train -i A -i B`).
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    sudare pool sums --public public.key --schema schema.json --owner north --data north.csv -o north.sums\n  \
    sudare pool add --schema schema.json -i north.sums -i south.sums -i west.sums -o all.sums\n  \
    sudare pool transform --secret keys/secret.key --schema schema.json -i all.sums -o transform.json")]
pub struct Args {
    #[command(subcommand)]
    step: Step,
}

#[derive(Debug, clap::Subcommand)]
enum Step {
    Sums(SumsArgs),
    Add(AddArgs),
    Transform(TransformArgs),
}

/// Encrypt the sums of an owner's columns
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example: sudare pool sums --public public.key --schema schema.json --owner north --data north.csv -o north.sums"
)]
struct SumsArgs {
    #[command(flatten)]
    public: PublicKeyFile,
    /// Schema that the owners agreed on
    #[arg(long, value_name = "S.json")]
    schema: PathBuf,
    /// Name of the owner of the rows, as the schema has it
    #[arg(long, value_name = "NAME")]
    owner: String,
    /// CSV or Parquet file with the columns of the schema
    #[arg(long, value_name = "T.csv")]
    data: PathBuf,
    #[command(flatten)]
    format: TableFormat,
    /// File for the encrypted sums
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Replace an existing file
    #[arg(long)]
    force: bool,
}

/// Add the encrypted sums of all owners on the server, without a key
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example: sudare pool add --schema schema.json -i north.sums -i south.sums -i west.sums -o all.sums"
)]
struct AddArgs {
    /// Schema that the owners agreed on
    #[arg(long, value_name = "S.json")]
    schema: PathBuf,
    /// Encrypted sums, one -i for each owner
    #[arg(short, long, value_name = "FILE", required = true)]
    input: Vec<PathBuf>,
    /// File for the encrypted total
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Replace an existing file
    #[arg(long)]
    force: bool,
}

/// Make the transform by which all owners prepare their rows
///
/// The file reveals means, spreads and correlations of all rows together. Pass it to the owners,
/// and not to the server.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example: sudare pool transform --secret keys/secret.key --schema schema.json -i all.sums -o transform.json"
)]
struct TransformArgs {
    #[command(flatten)]
    secret: SecretKeyFile,
    /// Schema that the owners agreed on
    #[arg(long, value_name = "S.json")]
    schema: PathBuf,
    /// Encrypted total
    #[arg(short, long, value_name = "FILE")]
    input: PathBuf,
    /// Weight of a row of each class, for keys of a training with --class-weight given
    #[arg(long, value_name = "W,W", value_parser = class_weights)]
    class_weight: Option<Weights>,
    /// File for the transform
    #[arg(short, long, value_name = "FILE.json")]
    output: PathBuf,
    /// Replace an existing file
    #[arg(long)]
    force: bool,
}

/// A list that is one argument.
type Weights = Vec<f64>;

#[derive(Serialize)]
struct Report {
    /// Rows of one owner, or of all owners where they are known.
    rows: Option<usize>,
    owners: usize,
    bytes: u64,
    seconds: f64,
    path: PathBuf,
}

pub fn run(args: &Args, output: Output) -> Result<()> {
    let start = Instant::now();
    let (rows, owners, bytes, path) = match &args.step {
        Step::Sums(args) => encrypt(args)?,
        Step::Add(args) => add(args)?,
        Step::Transform(args) => transform(args)?,
    };
    let seconds = start.elapsed().as_secs_f64();
    output.write(&Report { rows, owners, bytes, seconds, path: path.clone() }, |report| {
        let rows = report.rows.map_or_else(String::new, |rows| format!("{rows} rows, "));
        format!(
            "{}: {rows}{} owners, {}, {:.1} s\n",
            report.path.display(),
            report.owners,
            size::bytes(report.bytes),
            report.seconds
        )
    })
}

/// Rows if they are known, owners, bytes and the file.
type Made<'a> = (Option<usize>, usize, u64, &'a PathBuf);

fn encrypt(args: &SumsArgs) -> Result<Made<'_>> {
    files::check_free(&args.output, args.force)?;
    let key = args.public.open()?;
    let (_, Meta { job, .. }) = key.meta(&[Content::Keys])?;
    let schema = pooled::read_schema(&args.schema)?;
    let table = args.format.reading().pooled(&args.data, &schema)?;
    let params = key.params()?;
    let name = key.info().label.name.clone();
    let public = Arc::new(key.public_key(&params)?);
    let mut file = NewFile::create(&args.output, Access::Shared, args.force)?;
    let keys = JobKeys { job, params: &params, name: &name, public };
    let bytes = sums::write(&mut file, &args.output, keys, &schema, &args.owner, &table)?;
    file.finish()?;
    Ok((Some(table.rows()), schema.owners().len(), bytes, &args.output))
}

fn add(args: &AddArgs) -> Result<Made<'_>> {
    files::check_free(&args.output, args.force)?;
    let schema = pooled::read_schema(&args.schema)?;
    let inputs = args.input.iter().map(|path| Opened::open(path, Kind::Ciphertexts));
    let inputs = inputs.collect::<Result<_>>()?;
    let mut file = NewFile::create(&args.output, Access::Shared, args.force)?;
    let progress = Progress::new("Adding", args.input.len());
    let total = sums::add(inputs, &schema, |done| progress.set(done))?;
    let bytes = total.write(&mut file, &args.output)?;
    file.finish()?;
    Ok((None, schema.owners().len(), bytes, &args.output))
}

fn transform(args: &TransformArgs) -> Result<Made<'_>> {
    files::check_free(&args.output, args.force)?;
    let schema = pooled::read_schema(&args.schema)?;
    let secret = args.secret.open()?;
    let (_, made_for) = secret.opened().meta(&[Content::Keys])?;
    let params = secret.opened().params()?;
    let decryptor = Decryptor::new(&params, args.secret.key(secret, &params)?)?;
    let input = Opened::open(&args.input, Kind::Ciphertexts)?;
    let (job, totals) = sums::read(input, &schema, &params, &decryptor)?;
    // The file's job could be altered on the way. The label of the key is the holder's own.
    if job != made_for.job {
        return Err(Error::Usage(format!(
            "{} is for {job}, but the key was made for {}: use files of one job",
            args.input.display(),
            made_for.job
        )));
    }
    let transform = PooledTransform::new(&schema, &totals, &job, args.class_weight.clone())?;
    let text = transform.to_json()?;
    files::write_text(&args.output, &text, args.force)?;
    say(
        "only for the owners: the file reveals means, spreads and correlations of all rows together",
    );
    Ok((Some(totals.rows()), schema.owners().len(), text.len() as u64, &args.output))
}

use crate::{
    commands::shared::{
        encryption_key::{EncryptionKey, OpenKey},
        key_files::{KeyFiles, NewKeys},
        secret_key::SecretKeyFile,
    },
    output::Output,
    progress::Progress,
    values::finite,
};
use serde::Serialize;
use std::{collections::BTreeSet, path::PathBuf, sync::Arc, time::Instant};
use sudare::ckks::{Decryptor, serial::Kind};
use sudare_apps::search::{Answer, Metric, Mode, Plan, Spec, Threshold};
use sudare_roles::{
    error::{Error, Result},
    format::opened::Opened,
    os::{
        files::{self, Access, NewFile},
        machine,
    },
    search::{
        self, Answered, Asked, Builder, Explained, FileRecords, Found, Index, Payload, SearchKind,
        Searched, Server, Session, Setup, Value, Writer,
    },
    text::size,
};

mod text;

/// Find vectors near a query, where the server sees neither the vectors nor the query, or only one
/// of them
///
/// The owner makes keys (keygen) and encrypts an index of vectors (index) and a query (query). The
/// server searches (run). The owner reads the answer (open). Before you make a key, see the cost
/// and the leakage of a search (explain).
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    sudare search explain --for 50000x128 --answer matches --at 0.8 --margin 0.1\n  \
    sudare search keygen --for 50000x128 --answer matches --at 0.8 --margin 0.1 --out keys\n  \
    sudare search index --secret keys/secret.key --data vectors.npy -o index\n  \
    sudare search query --secret keys/secret.key --data query.npy -o query.ct\n  \
    sudare search run --evaluation-key evaluation.key -i query.ct --index index -o answer.ct\n  \
    sudare search open --secret keys/secret.key -i answer.ct")]
pub struct Args {
    #[command(subcommand)]
    step: Step,
}

#[derive(Debug, clap::Subcommand)]
enum Step {
    Explain(ExplainArgs),
    Keygen(KeygenArgs),
    Index(IndexArgs),
    Query(QueryArgs),
    Run(RunArgs),
    Open(OpenArgs),
}

/// The search: its data, its comparison and its answer.
#[derive(Debug, Clone, clap::Args)]
struct Job {
    /// Maximum number of vectors, with those that you will append, and their coordinates
    #[arg(long = "for", value_name = "ROWSxCOORDINATES", value_parser = shape)]
    shape: Shape,
    /// Comparison of vectors: cosine; inner, their inner product; or euclidean, their distance
    #[arg(long, value_name = "cosine|inner|euclidean", default_value = "cosine", value_parser = comparison)]
    metric: Comparison,
    /// Maximum norm of a vector, for inner products and distances
    #[arg(long, value_name = "X", value_parser = finite)]
    largest: Option<f64>,
    /// Maximum norm of a query, for inner products [default: the value of --largest]
    #[arg(long, value_name = "X", value_parser = finite)]
    largest_query: Option<f64>,
    /// View of the server: encrypted, where it sees neither index nor queries; plain-index, where
    /// it has the index in the clear; or plain-query, where it sees queries
    #[arg(long, value_name = "encrypted|plain-index|plain-query", default_value = "encrypted", value_parser = mode)]
    mode: Mode,
    /// Answer of the server. With keys for matches, it can also answer with scores and counts
    #[arg(long, value_name = "scores|count|matches", default_value = "scores")]
    answer: SearchKind,
    /// Threshold of counts and matches: minimum similarity, or maximum distance
    #[arg(long, value_name = "X", allow_negative_numbers = true, value_parser = finite)]
    at: Option<f64>,
    /// Distance from the threshold beyond which counts and matches are right. Within it, a vector
    /// may match or not
    #[arg(long, value_name = "X", value_parser = finite)]
    margin: Option<f64>,
    /// Maximum number of matches in an answer, except with a probability of 2^-20
    #[arg(long, value_name = "N", default_value = "32")]
    most: usize,
    /// Payload of each vector, which matches return: rows, only its number; integers:COLUMNSxBITS,
    /// such as integers:1x32; or bytes:MAXIMUM
    #[arg(long, value_name = "PAYLOAD", default_value = "rows")]
    payload: Payload,
}

#[derive(Debug, Clone, Copy)]
struct Shape {
    rows: usize,
    dimension: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Comparison {
    Cosine,
    Inner,
    Euclidean,
}

fn shape(text: &str) -> core::result::Result<Shape, &'static str> {
    let numbers = text.split_once('x').and_then(|(rows, dimension)| {
        Some(Shape { rows: rows.parse().ok()?, dimension: dimension.parse().ok()? })
    });
    numbers.ok_or("expected ROWSxCOORDINATES, such as 50000x128")
}

fn comparison(text: &str) -> core::result::Result<Comparison, &'static str> {
    match text {
        "cosine" => Ok(Comparison::Cosine),
        "inner" => Ok(Comparison::Inner),
        "euclidean" => Ok(Comparison::Euclidean),
        _ => Err("expected cosine, inner or euclidean"),
    }
}

fn mode(text: &str) -> core::result::Result<Mode, &'static str> {
    match text {
        "encrypted" => Ok(Mode::Encrypted),
        "plain-index" => Ok(Mode::PlainIndex),
        "plain-query" => Ok(Mode::PlainQuery),
        _ => Err("expected encrypted, plain-index or plain-query"),
    }
}

impl Job {
    fn setup(&self) -> Result<Setup> {
        let usage = |text: &str| Error::Usage(text.into());
        let largest = || {
            let help = "inner products and distances need the maximum norm of a vector: pass it \
                        with --largest";
            self.largest.ok_or_else(|| usage(help))
        };
        let metric = match self.metric {
            Comparison::Cosine if self.largest.or(self.largest_query).is_some() => {
                return Err(usage("the cosine does not depend on norms: leave out --largest"));
            }
            Comparison::Cosine => Metric::Cosine,
            Comparison::Inner => {
                let largest = largest()?;
                let largest_query = self.largest_query.unwrap_or(largest);
                Metric::InnerProduct { largest, largest_query }
            }
            Comparison::Euclidean if self.largest_query.is_some() => {
                return Err(usage(
                    "for distances, --largest is the maximum norm of vectors and queries: leave out --largest-query",
                ));
            }
            Comparison::Euclidean => Metric::Euclidean { largest: largest()? },
        };
        let threshold = match (self.at, self.margin) {
            (Some(at), Some(margin)) => Some(Threshold { at, margin }),
            (None, None) => None,
            _ => {
                return Err(usage(
                    "a threshold needs both --at and --margin: pass both, or leave both out",
                ));
            }
        };
        let answer = match (self.answer, threshold) {
            (SearchKind::Scores, None) => Answer::Scores,
            (SearchKind::Scores, Some(_)) => {
                return Err(usage(
                    "scores have no threshold: leave out --at and --margin, or pass --answer count or \
                     --answer matches",
                ));
            }
            (_, None) => {
                return Err(usage(
                    "counts and matches need a threshold: pass it with --at and --margin",
                ));
            }
            (SearchKind::Count, Some(threshold)) => Answer::Count(threshold),
            (SearchKind::Matches, Some(threshold)) => {
                // `Setup::new` replaces the 0 by the size of the payload.
                Answer::Matches { threshold, most: self.most, payload: 0 }
            }
        };
        let Shape { rows, dimension } = self.shape;
        Setup::new(Spec { dimension, rows, metric, mode: self.mode, answer }, self.payload)
    }

    fn name(setup: &Setup) -> String {
        let Spec { rows, dimension, .. } = setup.spec;
        format!("search:{rows}x{dimension}, {}", SearchKind::of(setup).name())
    }
}

/// Explain the cost and the leakage of a search, without keys
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example: sudare search explain --for 50000x128 --answer count --at 0.8 --margin 0.1"
)]
struct ExplainArgs {
    #[command(flatten)]
    job: Job,
}

/// Make the keys that one search needs: a secret, a public and an evaluation key file
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example: sudare search keygen --for 50000x128 --answer count --at 0.8 --margin 0.1 --out keys"
)]
struct KeygenArgs {
    #[command(flatten)]
    job: Job,
    #[command(flatten)]
    files: KeyFiles,
}

/// Opens the key that encrypts.
fn writer(key: &EncryptionKey) -> Result<Writer> {
    match key.open()? {
        OpenKey::Public(file) => Writer::public(file),
        OpenKey::Secret(file) => {
            let session = Session::of(file.opened())?;
            let key = key.secret_key(file, session.plan.params())?;
            Writer::secret(session, key)
        }
    }
}

/// Encrypt an index of vectors, or update it: unchanged blocks stay
///
/// To append vectors, run the command again with a longer file. To delete vectors, pass --delete.
/// An interrupted update continues when you run it again.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example: sudare search index --secret keys/secret.key --data vectors.npy --payloads ids.npy -o index"
)]
struct IndexArgs {
    #[command(flatten)]
    key: EncryptionKey,
    #[command(flatten)]
    records: RecordFiles,
    /// Directory for the encrypted index, which goes to the server
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,
    /// File of the owner's records of the index, which identify changed blocks [default: DIR.owner]
    #[arg(long, value_name = "FILE")]
    catalogue: Option<PathBuf>,
}

/// Records in the clear.
#[derive(Debug, clap::Args)]
struct RecordFiles {
    /// Vectors, one per row: a NumPy array (.npy) of floats or integers, or a CSV file
    #[arg(long, value_name = "V.npy")]
    data: PathBuf,
    /// Payloads of the vectors: a NumPy array of whole numbers, bytes or text, or a text file with
    /// one line per vector
    #[arg(long, value_name = "P.npy")]
    payloads: Option<PathBuf>,
    /// Rows to delete, counted from 0, in addition to those deleted before
    #[arg(long, value_name = "ROW,ROW", value_delimiter = ',')]
    delete: Vec<usize>,
}

impl RecordFiles {
    fn open(&self, setup: &Setup) -> Result<FileRecords> {
        let payloads = self.payloads.as_deref();
        FileRecords::open(&self.data, setup.spec.dimension, payloads, setup.payload)
    }
}

/// Encrypt a query
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example: sudare search query --secret keys/secret.key --data query.npy -o query.ct"
)]
struct QueryArgs {
    #[command(flatten)]
    key: EncryptionKey,
    /// Vector of the query: a NumPy array or a line of a CSV file
    #[arg(long, value_name = "Q.npy")]
    data: PathBuf,
    /// File for the encrypted query
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Replace an existing file
    #[arg(long)]
    force: bool,
}

/// Find vectors near a query, on the server
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example: sudare search run --evaluation-key evaluation.key -i query.ct --index index -o answer.ct"
)]
struct RunArgs {
    /// Evaluation key
    #[arg(long, value_name = "FILE")]
    evaluation_key: PathBuf,
    /// Encrypted query
    #[arg(short, long, value_name = "FILE", required_unless_present = "query")]
    input: Option<PathBuf>,
    /// Query in the clear, for keys of --mode plain-query
    #[arg(long, value_name = "Q.npy", conflicts_with = "input")]
    query: Option<PathBuf>,
    /// Encrypted index
    #[arg(long, value_name = "DIR", required_unless_present = "data")]
    index: Option<PathBuf>,
    /// Vectors in the clear, for keys of --mode plain-index
    #[arg(long, value_name = "V.npy", conflicts_with = "index")]
    data: Option<PathBuf>,
    /// Payloads of the vectors in the clear
    #[arg(long, value_name = "P.npy", requires = "data")]
    payloads: Option<PathBuf>,
    /// Rows of the vectors in the clear to leave out
    #[arg(long, value_name = "ROW,ROW", value_delimiter = ',', requires = "data")]
    delete: Vec<usize>,
    /// Answer to compute [default: the answer that the keys were made for]
    #[arg(long, value_name = "scores|count|matches")]
    answer: Option<SearchKind>,
    /// File for the encrypted answer
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Store half of the evaluation key and compute the other half when it is needed
    #[arg(long)]
    small_keys: bool,
    /// Replace an existing file
    #[arg(long)]
    force: bool,
}

/// Decrypt an answer and read it
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: sudare search open --secret keys/secret.key -i answer.ct --json")]
struct OpenArgs {
    #[command(flatten)]
    secret: SecretKeyFile,
    /// Encrypted answer
    #[arg(short, long, value_name = "FILE")]
    input: PathBuf,
    /// Number of the nearest vectors to list, for scores
    #[arg(long, value_name = "K", default_value = "10")]
    top: usize,
    /// File of the owner's records of the index, to leave out deleted rows, for scores
    #[arg(long, value_name = "FILE")]
    catalogue: Option<PathBuf>,
}

pub fn run(args: &Args, output: Output) -> Result<()> {
    match &args.step {
        Step::Explain(args) => explain(args, output),
        Step::Keygen(args) => keygen(args, output),
        Step::Index(args) => index(args, output),
        Step::Query(args) => query(args, output),
        Step::Run(args) => search(args, output),
        Step::Open(args) => open(args, output),
    }
}

fn explain(args: &ExplainArgs, output: Output) -> Result<()> {
    let setup = args.job.setup()?;
    let plan = Plan::new(&setup.spec, &Plan::auto_params(&setup.spec)?)?;
    let plan = text::Plan { job: Job::name(&setup), explained: Explained::of(&plan)? };
    output.write(&plan, text::explained)
}

fn keygen(args: &KeygenArgs, output: Output) -> Result<()> {
    args.files.check_free()?;
    let setup = args.job.setup()?;
    let params = Plan::auto_params(&setup.spec)?;
    let plan = Plan::new(&setup.spec, &params)?;
    let keys = NewKeys {
        table: None,
        params: &params,
        request: plan.required_keys(),
        job: Job::name(&setup),
        remark: String::new(),
        label: search::key_label("auto", &setup)?,
    };
    args.files.make(&keys, output)
}

#[derive(Serialize)]
struct Indexed {
    rows: usize,
    deleted: usize,
    blocks: usize,
    /// Blocks that were encrypted now, counted from 0.
    encrypted: Vec<usize>,
    /// Bytes of the encrypted blocks.
    bytes: u64,
    seconds: f64,
    path: PathBuf,
}

fn index(args: &IndexArgs, output: Output) -> Result<()> {
    let start = Instant::now();
    let folder = &args.output;
    let catalogue = args.catalogue.clone().unwrap_or_else(|| search::catalogue_path(folder));
    let mut builder = Builder::open(folder, &catalogue, Arc::new(writer(&args.key)?))?;
    let setup = builder.session().setup;
    let mut records = args.records.open(&setup)?;
    // Deleted rows stay deleted, although the file still has them.
    let deleted: BTreeSet<usize> =
        builder.deleted().iter().chain(&args.records.delete).copied().collect();
    let update = {
        let progress = Progress::new("Encrypting rows", setup.spec.rows);
        builder.update(&mut records, &deleted, |done| progress.set(done))?
    };
    let report = Indexed {
        rows: update.rows,
        deleted: deleted.len(),
        blocks: update.blocks,
        encrypted: update.encrypted,
        bytes: update.bytes,
        seconds: start.elapsed().as_secs_f64(),
        path: folder.clone(),
    };
    output.write(&report, |report| {
        format!(
            "{}: {} rows, {} deleted, {} of {} blocks encrypted, {}, {:.1} s\n",
            report.path.display(),
            report.rows,
            report.deleted,
            report.encrypted.len(),
            report.blocks,
            size::bytes(report.bytes),
            report.seconds
        )
    })
}

#[derive(Serialize)]
struct Written {
    bytes: u64,
    seconds: f64,
    path: PathBuf,
}

fn query(args: &QueryArgs, output: Output) -> Result<()> {
    files::check_free(&args.output, args.force)?;
    let start = Instant::now();
    let writer = writer(&args.key)?;
    let dimension = writer.session().setup.spec.dimension;
    let vector = search::read_vector(&args.data, dimension)?;
    let mut file = NewFile::create(&args.output, Access::Shared, args.force)?;
    let bytes = writer.write_query(&mut file, &vector)?;
    file.finish()?;
    let seconds = start.elapsed().as_secs_f64();
    let report = Written { bytes, seconds, path: args.output.clone() };
    output.write(&report, |report| {
        let bytes = size::bytes(report.bytes);
        format!("{}: a query, {bytes}, {:.1} s\n", report.path.display(), report.seconds)
    })
}

#[derive(Serialize)]
struct Answering {
    answer: &'static str,
    rows: usize,
    bytes: u64,
    seconds: f64,
    peak_rss_bytes: Option<u64>,
    path: PathBuf,
}

fn search(args: &RunArgs, output: Output) -> Result<()> {
    files::check_free(&args.output, args.force)?;
    let keys = Opened::open(&args.evaluation_key, Kind::EvaluationKeys)?;
    let server = Server::new(keys, args.small_keys)?;
    let session = server.session();
    let setup = session.setup;
    let wanted = args.answer.unwrap_or_else(|| SearchKind::of(&setup));
    let asked = match (&args.input, &args.query) {
        (Some(path), _) => Asked::Encrypted(Box::new(Opened::open(path, Kind::Ciphertexts)?)),
        (None, Some(path)) => Asked::Plain(search::read_vector(path, setup.spec.dimension)?),
        (None, None) => {
            return Err(Error::Usage(
                "no query: pass an encrypted query with -i, or one in the clear with --query"
                    .into(),
            ));
        }
    };
    let index = args.index.as_ref().map(|folder| Index::open(folder, session)).transpose()?;
    let deleted = args.delete.iter().copied().collect();
    let mut records = match &args.data {
        Some(data) => {
            let payloads = args.payloads.as_deref();
            Some(FileRecords::open(data, setup.spec.dimension, payloads, setup.payload)?)
        }
        None => None,
    };
    let searched = match (&index, &mut records) {
        (Some(index), _) => Searched::Index(index),
        (None, Some(records)) => Searched::Records(records, &deleted),
        (None, None) => {
            return Err(Error::Usage(
                "no index: pass an encrypted index with --index, or vectors with --data".into(),
            ));
        }
    };
    let mut file = NewFile::create(&args.output, Access::Shared, args.force)?;
    let start = Instant::now();
    let outcome = {
        let blocks = index.as_ref().map_or(0, Index::blocks);
        let progress = Progress::new("Searching blocks", blocks);
        server.run(asked, searched, wanted, |done| progress.set(done))?
    };
    let seconds = start.elapsed().as_secs_f64();
    let bytes = outcome.write(&mut file)?;
    file.finish()?;
    let report = Answering {
        answer: wanted.name(),
        rows: outcome.rows(),
        bytes,
        seconds,
        peak_rss_bytes: machine::peak_rss_bytes(),
        path: args.output.clone(),
    };
    output.write(&report, |report| {
        format!(
            "{}: {} of {} rows, {}, {:.1} s\n",
            report.path.display(),
            report.answer,
            report.rows,
            size::bytes(report.bytes),
            report.seconds
        )
    })
}

fn open(args: &OpenArgs, output: Output) -> Result<()> {
    let secret = args.secret.open()?;
    let session = Session::of(secret.opened())?;
    let deleted = match &args.catalogue {
        Some(path) => search::deleted(path, &session)?,
        None => BTreeSet::new(),
    };
    let answer = Opened::open(&args.input, Kind::Ciphertexts)?;
    let params = session.plan.params();
    let decryptor = Decryptor::new(params, args.secret.key(secret, params)?)?;
    let answered = search::open_answer(&session, &decryptor, answer)?;
    let nearest = answered.nearest(&session, &deleted, args.top);
    output.write(&text::Read::new(answered, nearest, &session), text::read)
}

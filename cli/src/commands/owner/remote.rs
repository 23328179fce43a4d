use crate::{
    output::{self, Output, say},
    progress::Progress,
    remote::{Client, Job, Request, read_token},
};
use serde::Serialize;
use std::{
    path::{Path, PathBuf},
    slice,
};
use sudare_roles::{
    error::{ReceiptError, Result},
    os::files::{self, Access, NewFile},
    owner::outgoing::{Destination, Outgoing},
    server::receipt::{Expected, Receipt, ServerKey},
    text::size,
};

/// Let a service compute (`sudare serve`): upload keys and tables, follow jobs, download results
///
/// `remote stats`, `groups`, `histogram`, `train` and `predict` do all of it. Data that the service
/// already has is not sent again, and an interrupted command continues when you run it again. The
/// command checks every file before it opens a connection: it sends only evaluation keys, encrypted
/// tables and models.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    sudare remote train --evaluation-key keys/evaluation.key -i births.ct -o model.ct \
    --url https://server.example --token-file clinic.token\n  \
    sudare remote status --url https://server.example --token-file clinic.token")]
pub struct Args {
    #[command(subcommand)]
    step: Step,
}

/// The service and its credentials.
#[derive(Debug, clap::Args)]
struct Service {
    /// Address of the service, such as https://server.example
    #[arg(long, value_name = "URL", env = "SUDARE_URL")]
    url: String,
    /// File of the token; default: the variable SUDARE_TOKEN
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// File of the certificates, in PEM, that sign the service's certificate; default: public
    /// authorities
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// Public key that checks the receipts of the service, as its operator publishes it (`sudare
    /// serve key`). Results without a receipt by this key are rejected
    #[arg(long, value_name = "KEY", env = "SUDARE_SERVER_KEY")]
    server_key: Option<ServerKey>,
}

#[derive(Debug, clap::Subcommand)]
enum Step {
    /// Compute statistics of the columns of an encrypted table
    Stats(Computation),
    /// Compute sums by groups of rows
    Groups(Computation),
    /// Count values in bins
    Histogram(Computation),
    /// Train a logistic regression
    Train {
        #[command(flatten)]
        computation: Computation,
        /// Iterations; default and maximum: the number that the keys were made for
        #[arg(long, value_name = "K", value_parser = clap::value_parser!(u32).range(1..))]
        iterations: Option<u32>,
        /// Store the weights after each iteration with the model
        #[arg(long)]
        history: bool,
    },
    /// Score encrypted rows by a model
    Predict {
        #[command(flatten)]
        computation: Computation,
        /// Encrypted model, or a decrypted model with --plain-model, or the digest of a model that
        /// the service has
        #[arg(long, value_name = "FILE|DIGEST")]
        model: String,
        #[command(flatten)]
        plain: Plain,
    },
    /// Upload files, and print their digests
    Upload {
        #[command(flatten)]
        service: Service,
        /// Evaluation keys, encrypted tables or models
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
        #[command(flatten)]
        plain: Plain,
    },
    /// Show the progress of a job, or of all jobs
    Status {
        #[command(flatten)]
        service: Service,
        /// Name of the job; default: all jobs
        job: Option<String>,
    },
    /// Wait until a job ends, and download its result
    Wait {
        #[command(flatten)]
        service: Service,
        /// Name of the job
        job: String,
        #[command(flatten)]
        result: ResultFile,
    },
    /// Cancel a job
    Cancel {
        #[command(flatten)]
        service: Service,
        /// Name of the job
        job: String,
    },
    /// Download a result
    Download {
        #[command(flatten)]
        service: Service,
        /// Digest of the result
        digest: String,
        #[command(flatten)]
        result: ResultFile,
    },
    /// Show the usage of the service and its quotas
    Usage {
        #[command(flatten)]
        service: Service,
    },
    /// List the keys, tables, models or results that the service has
    List {
        #[command(flatten)]
        service: Service,
        /// Collection
        #[arg(value_parser = COLLECTIONS)]
        collection: String,
    },
    /// Remove an object from the service
    Remove {
        #[command(flatten)]
        service: Service,
        /// Collection
        #[arg(value_parser = COLLECTIONS)]
        collection: String,
        /// Digest of the object
        digest: String,
    },
}

const COLLECTIONS: [&str; 4] = ["keys", "tables", "models", "results"];

/// Consent to send a decrypted model.
#[derive(Debug, clap::Args)]
struct Plain {
    /// Send a decrypted model, as `sudare decrypt` writes it: the server sees its weights
    #[arg(long)]
    plain_model: bool,
}

/// File of a result.
#[derive(Debug, clap::Args)]
struct ResultFile {
    /// File for the result
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Replace an existing file
    #[arg(long)]
    force: bool,
}

/// A computation: its inputs, its output and its service.
#[derive(Debug, clap::Args)]
struct Computation {
    #[command(flatten)]
    service: Service,
    /// Evaluation key
    #[arg(long, value_name = "FILE")]
    evaluation_key: PathBuf,
    /// Encrypted table; with tables of several owners, one -i for each
    #[arg(short, long, value_name = "FILE", required = true)]
    input: Vec<PathBuf>,
    /// File for the encrypted result
    #[arg(short, long, value_name = "FILE", required_unless_present = "detach")]
    output: Option<PathBuf>,
    /// Print the name of the job instead of waiting for it: see `sudare remote wait`
    #[arg(long, conflicts_with = "output")]
    detach: bool,
    /// Replace an existing file
    #[arg(long, requires = "output")]
    force: bool,
}

impl Service {
    fn client(&self) -> Result<Client> {
        let token = read_token(self.token_file.as_deref())?;
        Client::new(&self.url, &token, self.ca.as_deref())
    }
}

#[derive(Serialize)]
struct Uploaded {
    collection: &'static str,
    digest: String,
    path: PathBuf,
}

#[derive(Serialize)]
struct Downloaded {
    #[serde(skip_serializing_if = "Option::is_none")]
    job: Option<String>,
    digest: String,
    bytes: u64,
    path: PathBuf,
    receipt: Option<PathBuf>,
    server_key: Option<String>,
    pinned: bool,
}

/// A result to download, and the facts that its receipt must have.
struct Download<'a> {
    service: &'a Service,
    client: &'a Client,
    /// The job that made the result, unless the service does not know it.
    job: Option<&'a Job>,
    digest: &'a str,
    known: Expected<'a>,
}

pub fn run(args: &Args, output: Output) -> Result<()> {
    match &args.step {
        Step::Stats(computation) => compute(computation, "stats", &Extra::default(), output),
        Step::Groups(computation) => compute(computation, "groups", &Extra::default(), output),
        Step::Histogram(computation) => {
            compute(computation, "histogram", &Extra::default(), output)
        }
        Step::Train { computation, iterations, history } => {
            let extra = Extra { iterations: *iterations, history: *history, model: None };
            compute(computation, "train", &extra, output)
        }
        Step::Predict { computation, model, plain: Plain { plain_model } } => {
            let extra =
                Extra { model: Some(Model::named(model, *plain_model)?), ..Extra::default() };
            compute(computation, "predict", &extra, output)
        }
        Step::Upload { service, files, plain: Plain { plain_model } } => {
            let open =
                |path: &PathBuf| Outgoing::open(path, &Destination::COLLECTIONS, *plain_model);
            // All files are checked before the first one is sent.
            let files = files.iter().map(open).collect::<Result<Vec<_>>>()?;
            let client = service.client()?;
            for file in &files {
                let digest = upload(&client, file)?;
                let collection = file.destination().name();
                let path = file.path().to_owned();
                let uploaded = Uploaded { collection, digest, path };
                output.write(&uploaded, |of| {
                    format!("{}  {} ({})\n", of.digest, of.path.display(), of.collection)
                })?;
            }
            Ok(())
        }
        Step::Status { service, job } => {
            let client = service.client()?;
            match job {
                Some(id) => output.write(&client.job(id)?, |job| list_text(slice::from_ref(job))),
                None => output.write(&client.jobs()?, |jobs| list_text(jobs)),
            }
        }
        Step::Wait { service, job, result } => {
            // The names are taken before the wait, which may be long.
            let files = result.begin()?;
            let client = service.client()?;
            let job = wait(&client, job)?;
            let client = &client;
            let digest = job.result()?;
            let known = Expected::default();
            fetch(&Download { service, client, job: Some(&job), digest, known }, files, output)
        }
        Step::Cancel { service, job } => {
            let client = service.client()?;
            client.remove("jobs", job)?;
            output.write(&client.job(job)?, |job| list_text(slice::from_ref(job)))
        }
        Step::Download { service, digest, result } => {
            let files = result.begin()?;
            let client = &service.client()?;
            // A receipt belongs to a job, and the service finds no job by the digest of its result.
            let jobs = client.jobs()?;
            let job = jobs.iter().find(|job| job.result.as_ref() == Some(digest));
            let known = Expected::default();
            fetch(&Download { service, client, job, digest, known }, files, output)
        }
        Step::Usage { service } => output.write(&service.client()?.usage()?, usage_text),
        Step::List { service, collection } => {
            let objects = service.client()?.list(collection)?;
            output.write(&objects, |objects| objects_text(objects))
        }
        Step::Remove { service, collection, digest } => {
            service.client()?.remove(collection, digest)?;
            output.write(&digest, |digest| format!("removed {digest}\n"))
        }
    }
}

/// Files of a result and of its receipt next to it.
struct NewFiles {
    result: NewFile,
    receipt: NewFile,
}

impl NewFiles {
    fn create(path: &Path, force: bool) -> Result<Self> {
        let create = |path: &Path| NewFile::create(path, Access::Shared, force);
        Ok(Self { result: create(path)?, receipt: create(&Receipt::beside(path))? })
    }
}

impl ResultFile {
    fn begin(&self) -> Result<NewFiles> {
        NewFiles::create(&self.output, self.force)
    }
}

/// Inputs of some jobs besides keys and tables.
#[derive(Default)]
struct Extra {
    iterations: Option<u32>,
    history: bool,
    model: Option<Model>,
}

/// A model that rows are scored by.
enum Model {
    /// A model that the service has, by its digest.
    There(String),
    /// A model in a file.
    Here(Outgoing),
}

impl Model {
    fn named(name: &str, plain_model: bool) -> Result<Self> {
        // A digest of BLAKE3 in hexadecimal. A file with such a name needs `./` before it.
        let is_digest = name.len() == 64 && name.bytes().all(|byte| byte.is_ascii_hexdigit());
        if is_digest {
            return Ok(Self::There(name.into()));
        }
        Outgoing::open(name.as_ref(), &[Destination::Models], plain_model).map(Self::Here)
    }

    /// Returns the digest of the model, and uploads it if it is a file.
    fn digest(&self, client: &Client) -> Result<String> {
        match self {
            Self::There(digest) => Ok(digest.clone()),
            Self::Here(file) => upload(client, file),
        }
    }
}

fn compute(args: &Computation, kind: &str, extra: &Extra, output: Output) -> Result<()> {
    // The files of the result are created first: a job that cannot be stored would be computed in
    // vain.
    let files = args.output.as_ref();
    let files = files.map(|path| NewFiles::create(path, args.force)).transpose()?;
    // All files are checked before the first one is sent.
    let keys = Outgoing::open(&args.evaluation_key, &[Destination::Keys], false)?;
    let open = |path: &PathBuf| Outgoing::open(path, &[Destination::Tables], false);
    let tables = args.input.iter().map(open).collect::<Result<Vec<_>>>()?;
    let client = args.service.client()?;
    let keys = upload(&client, &keys)?;
    let tables = tables.iter().map(|table| upload(&client, table));
    let tables = tables.collect::<Result<Vec<_>>>()?;
    let model = extra.model.as_ref().map(|model| model.digest(&client)).transpose()?;
    let iterations = extra.iterations;
    let history = extra.history;
    let tables = &tables[..];
    let model = model.as_deref();
    let job = client.submit(&Request { kind, keys: &keys, tables, model, iterations, history })?;
    // Detached: there is no file to write, and `remote wait` downloads later.
    let Some(files) = files else {
        return output.write(&job, |job| format!("{}\n", job.id));
    };
    say(format_args!(
        "job {}: about {:.1} s of computing, {} of memory",
        job.id,
        job.predicted.seconds,
        size::bytes(job.predicted.memory_bytes)
    ));
    let job = wait(&client, &job.id)?;
    let known = Expected {
        kind: Some(kind),
        keys: Some(&keys),
        tables: Some(tables),
        model: Some(model),
        training: Some((iterations, history)),
        ..Expected::default()
    };
    let service = &args.service;
    let client = &client;
    let digest = job.result()?;
    fetch(&Download { service, client, job: Some(&job), digest, known }, files, output)
}

fn upload(client: &Client, file: &Outgoing) -> Result<String> {
    let sending = format!("Sending {}", file.path().display());
    let progress = Progress::new(sending, file.bytes() as usize);
    client.upload(file, |sent, _| progress.set(sent as usize))
}

fn wait(client: &Client, id: &str) -> Result<Job> {
    let mut progress: Option<(u64, Progress)> = None;
    client.wait(id, |job| {
        let total = job.progress.total;
        // A resumed job or another phase has another total, and bars cannot change theirs.
        if total > 0 && progress.as_ref().is_none_or(|(known, _)| *known != total) {
            progress = Some((total, Progress::new("Computing", total as usize)));
        }
        if let Some((_, progress)) = &progress {
            progress.set(job.progress.done as usize);
        }
    })
}

/// Downloads the receipt of a result, if the service has one, and checks its server and its job.
fn receipt(wanted: &Download<'_>) -> Result<Option<Receipt>> {
    let pinned = wanted.service.server_key.as_ref();
    let text = wanted.job.map(|job| wanted.client.receipt(&job.id)).transpose()?.flatten();
    let Some(text) = text else {
        // Without a named key a missing receipt proves nothing, but with one it could hide an
        // exchange.
        if pinned.is_some() {
            let job = wanted.job.map_or("none", |job| &job.id).into();
            return Err(ReceiptError::Missing { job }.into());
        }
        say("the server has no receipt of this result");
        return Ok(None);
    };
    let receipt = Receipt::read(&text)?;
    if let Some(key) = pinned {
        receipt.expect_server(key)?;
    }
    let job = wanted.job.map(|job| &job.id[..]);
    receipt.expect(&Expected { job, result: Some(wanted.digest), ..wanted.known })?;
    if pinned.is_none() {
        say(format_args!(
            "the receipt is signed by the server {}: ask its operator by another channel whether that is \
             its key, and pass it with --server-key from then on",
            receipt.statement().server_key
        ));
    }
    Ok(Some(receipt))
}

/// Downloads a result, after its receipt was checked.
fn fetch(wanted: &Download<'_>, files: NewFiles, output: Output) -> Result<()> {
    let NewFiles { result, receipt: mut file } = files;
    let path = result.path().to_owned();
    let receipt_path = file.path().to_owned();
    // The receipt comes first, so that a result of another server or job costs no download.
    let receipt = receipt(wanted)?;
    let mut progress: Option<Progress> = None;
    let bytes = wanted.client.download(wanted.digest, result, |have, total| {
        let progress = progress.get_or_insert_with(|| Progress::new("Receiving", total as usize));
        progress.set(have as usize);
    })?;
    drop(progress);
    match &receipt {
        Some(receipt) => {
            file.write_text(&receipt.text()?)?;
            file.finish()?;
        }
        // A receipt that lay there belongs to an older result.
        None => files::remove(&receipt_path)?,
    }
    let downloaded = Downloaded {
        job: wanted.job.map(|job| job.id.clone()),
        digest: wanted.digest.into(),
        bytes,
        path,
        receipt: receipt.as_ref().map(|_| receipt_path),
        server_key: receipt.map(|receipt| receipt.statement().server_key.clone()),
        pinned: wanted.service.server_key.is_some(),
    };
    output.write(&downloaded, |of| format!("{}: {}\n", of.path.display(), size::bytes(of.bytes)))
}

fn list_text(jobs: &[Job]) -> String {
    let rows = jobs.iter().map(|job| {
        let steps = match job.progress.total {
            0 => String::new(),
            total => format!("{} of {total}", job.progress.done),
        };
        let why = job.error.as_ref().map_or_else(String::new, |error| error.detail.clone());
        let kind = text(job.request.get("kind"));
        let result = job.result.clone().unwrap_or(why);
        vec![job.id.clone(), kind, job.state.clone(), steps, result]
    });
    output::table(&["job", "kind", "state", "steps", "result"], &rows.collect::<Vec<_>>())
}

/// Returns the text of a field, if it is there.
fn text(value: Option<&serde_json::Value>) -> String {
    value.and_then(serde_json::Value::as_str).unwrap_or_default().to_owned()
}

fn usage_text(usage: &serde_json::Value) -> String {
    let number = |place| usage.pointer(place).and_then(serde_json::Value::as_f64);
    let of = |used: Option<String>, limit: Option<String>| match limit {
        Some(limit) => format!("{} of {limit}", used.unwrap_or_default()),
        None => used.unwrap_or_default(),
    };
    let bytes = |place| number(place).map(|bytes| size::bytes(bytes as u64));
    let seconds = |place| number(place).map(|seconds| format!("{seconds:.1} s"));
    let count = |place| number(place).map(|count| count.to_string());
    output::fields(&[
        ("stored", of(bytes("/bytes/used"), bytes("/bytes/limit"))),
        ("jobs under way", of(count("/jobs/under_way"), count("/jobs/limit"))),
        (
            "processors today",
            of(seconds("/cpu_seconds/today"), seconds("/cpu_seconds/daily_limit")),
        ),
        (
            "processors in all",
            of(seconds("/cpu_seconds/total"), seconds("/cpu_seconds/total_limit")),
        ),
        ("requests a second", count("/requests/limit_a_second").unwrap_or_default()),
    ])
}

fn objects_text(objects: &[serde_json::Value]) -> String {
    let rows = objects.iter().map(|object| {
        let bytes = object.get("bytes").and_then(serde_json::Value::as_u64);
        let bytes = bytes.map_or_else(String::new, size::bytes);
        vec![text(object.get("digest")), bytes, text(object.pointer("/about/job"))]
    });
    output::table(&["digest", "size", "job"], &rows.collect::<Vec<_>>())
}

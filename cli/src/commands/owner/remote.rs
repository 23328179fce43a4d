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
    files::{self, Access, NewFile},
    machine,
    outgoing::{Destination, Outgoing},
    receipt::{Expected, Receipt, ServerKey},
};

/// Let a service compute (`sudare serve`): upload keys and tables, follow jobs, download results
///
/// `remote stats`, `groups`, `histogram`, `train` and `predict` do all of it: what the service has
/// already is not sent again, and a command that was stopped goes on when it is run again. Every file is
/// checked before a connection is opened: only evaluation keys, encrypted tables and models are sent.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    sudare remote train --evaluation-key keys/evaluation.key -i births.ct -o model.ct \
    --url https://server.example --token-file clinic.token\n  \
    sudare remote status --url https://server.example --token-file clinic.token")]
pub struct Args {
    #[command(subcommand)]
    step: Step,
}

/// Which service.
#[derive(Debug, clap::Args)]
struct Service {
    /// Address of the service, such as https://server.example
    #[arg(long, value_name = "URL", env = "SUDARE_URL")]
    url: String,
    /// File of the token; that in the variable SUDARE_TOKEN if left out
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// File of the certificates, in PEM, that sign the service's, if public ones do not
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// The key that the service signs receipts with, as its operator tells it (`sudare serve key`):
    /// results that come without a receipt of this key are refused
    #[arg(long, value_name = "KEY", env = "SUDARE_SERVER_KEY")]
    server_key: Option<ServerKey>,
}

#[derive(Debug, clap::Subcommand)]
enum Step {
    /// Statistics of the columns of an encrypted table
    Stats(Computation),
    /// Sums by groups of rows
    Groups(Computation),
    /// Counts of values in bins
    Histogram(Computation),
    /// Train a logistic regression
    Train {
        #[command(flatten)]
        computation: Computation,
        /// Iterations, at most as many as the keys were made for
        #[arg(long, value_name = "K", value_parser = clap::value_parser!(u32).range(1..))]
        iterations: Option<u32>,
        /// Keep the weights after each iteration with the model
        #[arg(long)]
        history: bool,
    },
    /// Score encrypted rows by a model
    Predict {
        #[command(flatten)]
        computation: Computation,
        /// Encrypted model, or one in clear with --plain-model; or the digest of a model that the
        /// service has
        #[arg(long, value_name = "FILE|DIGEST")]
        model: String,
        #[command(flatten)]
        plain: Plain,
    },
    /// Send a file, and print its digest
    Upload {
        #[command(flatten)]
        service: Service,
        /// Files of evaluation keys, encrypted tables or models
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
        #[command(flatten)]
        plain: Plain,
    },
    /// How far a job is, or all of them
    Status {
        #[command(flatten)]
        service: Service,
        /// Its name; all if left out
        job: Option<String>,
    },
    /// Wait until a job ends, and download its result
    Wait {
        #[command(flatten)]
        service: Service,
        /// Its name
        job: String,
        #[command(flatten)]
        result: ResultFile,
    },
    /// End a job
    Cancel {
        #[command(flatten)]
        service: Service,
        /// Its name
        job: String,
    },
    /// Download a result
    Download {
        #[command(flatten)]
        service: Service,
        /// Its digest
        digest: String,
        #[command(flatten)]
        result: ResultFile,
    },
    /// What was used of the service, and what may be
    Usage {
        #[command(flatten)]
        service: Service,
    },
    /// What the service has: keys, tables, models or results
    List {
        #[command(flatten)]
        service: Service,
        /// Of these
        #[arg(value_parser = COLLECTIONS)]
        collection: String,
    },
    /// Remove what the service has
    Remove {
        #[command(flatten)]
        service: Service,
        /// Of these
        #[arg(value_parser = COLLECTIONS)]
        collection: String,
        /// Its digest
        digest: String,
    },
}

const COLLECTIONS: [&str; 4] = ["keys", "tables", "models", "results"];

/// Whether a model may be sent in clear.
#[derive(Debug, clap::Args)]
struct Plain {
    /// Send a model that is not encrypted, such as `sudare decrypt` writes it: the server sees its
    /// weights
    #[arg(long)]
    plain_model: bool,
}

/// Where a result is written.
#[derive(Debug, clap::Args)]
struct ResultFile {
    /// File of the result
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Replace an existing file
    #[arg(long)]
    force: bool,
}

/// What is computed, with what and where.
#[derive(Debug, clap::Args)]
struct Computation {
    #[command(flatten)]
    service: Service,
    /// Evaluation key
    #[arg(long, value_name = "FILE")]
    evaluation_key: PathBuf,
    /// Encrypted table; to train on those of several owners, one -i for each
    #[arg(short, long, value_name = "FILE", required = true)]
    input: Vec<PathBuf>,
    /// Encrypted result
    #[arg(short, long, value_name = "FILE", required_unless_present = "detach")]
    output: Option<PathBuf>,
    /// Do not wait: print the job, for `sudare remote wait`
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

/// What is to be downloaded, and what is known of it.
struct Download<'a> {
    service: &'a Service,
    client: &'a Client,
    /// The job that made it, unless the service knows of none.
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
            let files = files.iter().map(open).collect::<Result<Vec<_>>>()?;
            let client = service.client()?;
            for file in &files {
                let digest = upload(&client, file)?;
                let (collection, path) = (file.destination().name(), file.path().to_owned());
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
            let files = result.begin()?;
            let client = service.client()?;
            let job = wait(&client, job)?;
            let (client, digest, known) = (&client, job.result()?, Expected::default());
            fetch(&Download { service, client, job: Some(&job), digest, known }, files, output)
        }
        Step::Cancel { service, job } => {
            let client = service.client()?;
            client.remove("jobs", job)?;
            output.write(&client.job(job)?, |job| list_text(slice::from_ref(job)))
        }
        Step::Download { service, digest, result } => {
            let (files, client) = (result.begin()?, &service.client()?);
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
            output.write(&digest, |digest| format!("{digest} is removed\n"))
        }
    }
}

/// The files of a result and, beside it, of its receipt.
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

/// What some jobs take beside keys and tables.
#[derive(Default)]
struct Extra {
    iterations: Option<u32>,
    history: bool,
    model: Option<Model>,
}

/// A model that rows are scored by.
enum Model {
    /// The service has it, under this digest.
    There(String),
    Here(Outgoing),
}

impl Model {
    fn named(name: &str, plain_model: bool) -> Result<Self> {
        let is_digest = name.len() == 64 && name.bytes().all(|byte| byte.is_ascii_hexdigit());
        if is_digest {
            return Ok(Self::There(name.into()));
        }
        Outgoing::open(name.as_ref(), &[Destination::Models], plain_model).map(Self::Here)
    }

    /// The digest of the model, which the service has then.
    fn digest(&self, client: &Client) -> Result<String> {
        match self {
            Self::There(digest) => Ok(digest.clone()),
            Self::Here(file) => upload(client, file),
        }
    }
}

fn compute(args: &Computation, kind: &str, extra: &Extra, output: Output) -> Result<()> {
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
    let (iterations, history) = (extra.iterations, extra.history);
    let (tables, model) = (&tables[..], model.as_deref());
    let job = client.submit(&Request { kind, keys: &keys, tables, model, iterations, history })?;
    let Some(files) = files else {
        return output.write(&job, |job| format!("{}\n", job.id));
    };
    say(format_args!(
        "job {}: about {:.1} s of computing, {} of memory",
        job.id,
        job.predicted.seconds,
        machine::bytes(job.predicted.memory_bytes)
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
    let (service, client, digest) = (&args.service, &client, job.result()?);
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
        if total > 0 && progress.as_ref().is_none_or(|(known, _)| *known != total) {
            progress = Some((total, Progress::new("Computing", total as usize)));
        }
        if let Some((_, progress)) = &progress {
            progress.set(job.progress.done as usize);
        }
    })
}

/// The receipt of a result, if the service has one, of the server and for the job that are meant.
fn receipt(wanted: &Download<'_>) -> Result<Option<Receipt>> {
    let pinned = wanted.service.server_key.as_ref();
    let text = wanted.job.map(|job| wanted.client.receipt(&job.id)).transpose()?.flatten();
    let Some(text) = text else {
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
            "the receipt is signed by the server {}: ask its operator, by another way, whether that is \
             its key, and name it with --server-key from then on",
            receipt.statement().server_key
        ));
    }
    Ok(Some(receipt))
}

/// Downloads a result and its receipt, which is checked before.
fn fetch(wanted: &Download<'_>, files: NewFiles, output: Output) -> Result<()> {
    let NewFiles { result, receipt: mut file } = files;
    let (path, receipt_path) = (result.path().to_owned(), file.path().to_owned());
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
        // One of the result that was there before is not of this one.
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
    output.write(&downloaded, |of| format!("{}: {}\n", of.path.display(), machine::bytes(of.bytes)))
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

/// What a field says, if it is there.
fn text(value: Option<&serde_json::Value>) -> String {
    value.and_then(serde_json::Value::as_str).unwrap_or_default().to_owned()
}

fn usage_text(usage: &serde_json::Value) -> String {
    let number = |place| usage.pointer(place).and_then(serde_json::Value::as_f64);
    let of = |used: Option<String>, limit: Option<String>| match limit {
        Some(limit) => format!("{} of {limit}", used.unwrap_or_default()),
        None => used.unwrap_or_default(),
    };
    let bytes = |place| number(place).map(|bytes| machine::bytes(bytes as u64));
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
        let bytes = bytes.map_or_else(String::new, machine::bytes);
        vec![text(object.get("digest")), bytes, text(object.pointer("/about/job"))]
    });
    output::table(&["digest", "size", "job"], &rows.collect::<Vec<_>>())
}

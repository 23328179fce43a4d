//! Private search: keys, an owner's index, a server, answers.

use crate::{
    error::{Error, Result},
    job,
    keys::{given_passphrase, unsealed},
    numbers::Numbers,
    plan::security_warning,
    source::IN_MEMORY,
};
use pyo3::{prelude::*, types::PyBytes};
use serde::Serialize;
use std::{
    collections::BTreeSet,
    fs::File,
    io::BufReader,
    path::{Path, PathBuf},
    sync::Arc,
};
use sudare::{
    ckks::{
        Decryptor, Params,
        serial::{self, Kind},
    },
    rlwe::{KeyGenerator, SecretKey},
};
use sudare_apps::search::{Plan, SearchError};
use sudare_roles::{
    error::Error as Engine,
    format::opened::Opened,
    os::files::{self, Access, NewFile},
    owner::secret::{self, SecretFile},
    search::{
        self, Answered, Asked, Batch, Builder, Explained, Index, Payload, Records, SearchKind,
        Searched, Server, Session, Setup, Value, Writer, key_label,
    },
};

fn json(value: &impl Serialize) -> Result<String> {
    serde_json::to_string(value).map_err(|_| Error::Bug("a description cannot be written as JSON"))
}

fn search_error(error: SearchError) -> Error {
    Engine::from(error).into()
}

/// A search, planned for parameters.
#[pyclass(frozen, module = "sudare._native")]
pub struct SearchPlan {
    setup: Setup,
    plan: Arc<Plan>,
}

#[pymethods]
impl SearchPlan {
    /// Plans a setup in JSON. For tests, pass `insecure_log_n` to use a ring of that size.
    #[staticmethod]
    #[pyo3(signature = (setup, insecure_log_n=None))]
    fn make(py: Python<'_>, setup: &str, insecure_log_n: Option<u32>) -> Result<Self> {
        let read: Setup = serde_json::from_str(setup)
            .map_err(|error| Engine::Usage(format!("this search cannot be planned: {error}")))?;
        job::run(py, None, move |_| {
            let setup = Setup::new(read.spec, read.payload)?;
            let mut params = Plan::auto_params(&setup.spec).map_err(search_error)?;
            if let Some(log_n) = insecure_log_n {
                let spec = params.spec().clone();
                params = Params::new(sudare::ckks::Spec { log_n, insecure: true, ..spec })?;
            }
            let plan = Plan::new(&setup.spec, &params).map_err(search_error)?;
            Ok(Self { setup, plan: Arc::new(plan) })
        })
    }

    /// Returns the costs and the leakage of the search, in JSON.
    fn explain(&self, py: Python<'_>) -> Result<String> {
        let plan = Arc::clone(&self.plan);
        job::run(py, None, move |_| json(&Explained::of(&plan)?))
    }

    /// Writes keys into a directory, created if it does not exist, as `sudare search keygen` does.
    #[pyo3(signature = (folder, passphrase=None, overwrite=false, progress=None))]
    fn write_keys(
        &self,
        py: Python<'_>,
        folder: PathBuf,
        passphrase: Option<String>,
        overwrite: bool,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> Result<()> {
        let plan = Arc::clone(&self.plan);
        let setup = self.setup;
        job::run(py, progress, move |progress| {
            let passphrase = given_passphrase(passphrase)?;
            files::make_folder(&folder)?;
            let params = plan.params();
            let label = key_label("auto", &setup)?;
            let path = |name: &str| folder.join(name);
            let new = |name: &str, access| NewFile::create(&path(name), access, overwrite);
            // All three names are taken before the work, so that an existing file costs no time.
            let mut secret_file = new("secret.key", Access::Owner)?;
            let mut public_file = new("public.key", Access::Shared)?;
            let mut evaluation_file = new("evaluation.key", Access::Shared)?;
            let request = plan.required_keys();
            progress.start("evaluation keys", request.count());
            // Files have seeds in place of the uniform halves, so these are not made at all.
            let mut generator = KeyGenerator::new(params.rlwe())?.small_keys(true);
            let secret: SecretKey = generator.secret_key()?;
            let public = generator.public_key(&secret)?;
            let keys =
                generator.evaluation_keys_with(&secret, request, |made| progress.set(made))?;
            let passphrase = passphrase.as_ref();
            let secret_path = path("secret.key");
            secret::write(&mut secret_file, &secret_path, params, &secret, &label, passphrase)?;
            serial::write_public_key(&mut public_file, params, &public, &label)?;
            let mut watched = progress.watch(&mut evaluation_file);
            serial::write_evaluation_keys(&mut watched, params, &keys, &label)?;
            // All files are written before the first one gets its name.
            for file in [secret_file, public_file, evaluation_file] {
                file.finish()?;
            }
            Ok(())
        })
    }
}

/// Records of an array in memory.
struct Table {
    vectors: Vec<f64>,
    payloads: Vec<Value>,
    payload: Payload,
    dimension: usize,
    row: usize,
}

impl Table {
    /// Makes records with these vectors, a row each, and these payloads.
    fn new(setup: &Setup, vectors: Numbers, payloads: Payloads) -> Self {
        let vectors = vectors.values;
        let dimension = setup.spec.dimension;
        let payloads = match payloads {
            (_, Some(rows), _) => rows.into_iter().map(Value::Integers).collect(),
            (_, None, Some(rows)) => rows.into_iter().map(Value::Bytes).collect(),
            (rows, None, None) => vec![Value::Nothing; rows],
        };
        Self { vectors, payloads, payload: setup.payload, dimension, row: 0 }
    }
}

/// The number of records, and their payloads: numbers, bytes, or neither.
type Payloads = (usize, Option<Vec<Vec<u64>>>, Option<Vec<Vec<u8>>>);

impl Records for Table {
    fn next(&mut self, most: usize) -> sudare_roles::error::Result<Batch> {
        let first = self.row;
        let end = self.payloads.len().min(self.row + most);
        self.row = end;
        let payloads = self.payloads[first..end].iter().enumerate();
        let payloads = payloads.map(|(i, value)| self.payload.pack(first + i, value));
        let vectors = self.vectors[first * self.dimension..end * self.dimension].to_vec();
        Ok(Batch { vectors, payloads: payloads.collect::<sudare_roles::error::Result<_>>()? })
    }
}

/// Encrypts for a search, by its public or its secret key.
#[pyclass(frozen, module = "sudare._native")]
pub struct SearchWriter(Arc<Writer>);

#[pymethods]
impl SearchWriter {
    /// Opens a writer with the public key in the file at `path`.
    #[staticmethod]
    fn public(py: Python<'_>, path: PathBuf) -> Result<Self> {
        job::run(py, None, move |_| {
            let file = Opened::open(&path, Kind::PublicKey)?;
            Ok(Self(Arc::new(Writer::public(file)?)))
        })
    }

    /// Returns the public part of the search, in JSON.
    fn setup(&self) -> Result<String> {
        json(&self.0.session().setup)
    }

    /// Encrypts a query, and returns its file.
    fn query(&self, py: Python<'_>, vector: Numbers) -> Result<Py<PyBytes>> {
        let writer = Arc::clone(&self.0);
        let vector = vector.values;
        let file = job::run(py, None, move |_| {
            let mut file = Vec::new();
            writer.write_query(&mut file, &vector)?;
            Ok(file)
        })?;
        Ok(PyBytes::new(py, &file).unbind())
    }

    /// Updates the index in a directory to these records. Returns the numbers of the encrypted blocks.
    #[pyo3(signature = (folder, catalogue, records, deleted, progress=None))]
    fn update(
        &self,
        py: Python<'_>,
        folder: PathBuf,
        catalogue: PathBuf,
        records: (Numbers, Payloads),
        deleted: BTreeSet<usize>,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> Result<Vec<usize>> {
        let (vectors, payloads) = records;
        let mut table = Table::new(&self.0.session().setup, vectors, payloads);
        let writer = Arc::clone(&self.0);
        job::run(py, progress, move |progress| {
            progress.start("records", table.payloads.len());
            let mut builder = Builder::open(&folder, &catalogue, writer)?;
            let done = builder.update(&mut table, &deleted, |rows| progress.set(rows))?;
            Ok(done.encrypted)
        })
    }
}

/// A secret key for a search.
#[pyclass(frozen, module = "sudare._native")]
pub struct SearchSecretKey {
    session: Arc<Session>,
    decryptor: Arc<Decryptor>,
    writer: Arc<Writer>,
}

/// The content of an answer; one part of it is present.
#[derive(IntoPyObject)]
struct Answer {
    /// The scores of all records.
    scores: Option<Vec<f64>>,
    count: Option<usize>,
    /// Rows, with the payloads in one of the fields below.
    rows: Option<Vec<usize>>,
    integers: Option<Vec<Vec<u64>>>,
    bytes: Option<Vec<Vec<u8>>>,
    crowded: usize,
    undecided: usize,
    more_than_planned: bool,
}

impl Answer {
    fn new(answered: Answered, payload: Payload) -> Self {
        let mut this = Self {
            scores: None,
            count: None,
            rows: None,
            integers: None,
            bytes: None,
            crowded: 0,
            undecided: 0,
            more_than_planned: false,
        };
        match answered {
            Answered::Scores(scores) => this.scores = Some(scores),
            Answered::Count { matches, undecided } => {
                (this.count, this.undecided) = (Some(matches), undecided);
            }
            Answered::Matches { found, crowded, undecided, more_than_planned } => {
                this.rows = Some(found.iter().map(|found| found.row).collect());
                (this.crowded, this.undecided) = (crowded, undecided);
                this.more_than_planned = more_than_planned;
                match payload {
                    // An empty list, unlike None, says that the search has payloads of this kind.
                    Payload::Rows => {}
                    Payload::Integers { .. } => this.integers = Some(Vec::new()),
                    Payload::Bytes { .. } => this.bytes = Some(Vec::new()),
                }
                for found in found {
                    match (found.payload, &mut this.integers, &mut this.bytes) {
                        (Value::Integers(numbers), Some(all), _) => all.push(numbers),
                        (Value::Bytes(bytes), _, Some(all)) => all.push(bytes),
                        _ => {}
                    }
                }
            }
        }
        this
    }
}

#[pymethods]
impl SearchSecretKey {
    /// Opens the key in the file at `path`.
    #[staticmethod]
    #[pyo3(signature = (path, passphrase=None))]
    fn open(py: Python<'_>, path: PathBuf, passphrase: Option<String>) -> Result<Self> {
        let (secret, warning) = job::run(py, None, move |_| {
            let file = SecretFile::open(&path)?;
            let session = Session::of(file.opened())?;
            let warning = file.warning();
            let params = session.plan.params().clone();
            let key = Arc::new(unsealed(file, &params, passphrase)?);
            let decryptor = Arc::new(Decryptor::new(&params, Arc::clone(&key))?);
            let writer = Arc::new(Writer::secret(session.clone(), key)?);
            Ok((Self { session: Arc::new(session), decryptor, writer }, warning))
        })?;
        // Outside the job, because Python's warnings need the interpreter lock.
        warning.map_or(Ok(()), |warning| security_warning(py, warning, 2))?;
        Ok(secret)
    }

    /// Returns the writer of this key.
    fn writer(&self) -> SearchWriter {
        SearchWriter(Arc::clone(&self.writer))
    }

    /// Returns the public part of the search, in JSON.
    fn setup(&self) -> Result<String> {
        json(&self.session.setup)
    }

    /// Bound on the errors of scores.
    #[getter]
    fn largest_error(&self) -> f64 {
        self.session.plan.largest_error()
    }

    /// Reads the file of an answer.
    fn read(&self, py: Python<'_>, answer: Vec<u8>) -> Result<Answer> {
        let session = Arc::clone(&self.session);
        let decryptor = Arc::clone(&self.decryptor);
        job::run(py, None, move |_| {
            let file = in_memory(&answer)?;
            let answered = search::open_answer(&session, &decryptor, file)?;
            Ok(Answer::new(answered, session.setup.payload))
        })
    }

    /// Returns the rows and the scores that are nearest, without deleted rows.
    fn nearest(
        &self,
        scores: Vec<f64>,
        deleted: BTreeSet<usize>,
        most: usize,
    ) -> (Vec<usize>, Vec<f64>) {
        let nearest = Answered::Scores(scores).nearest(&self.session, &deleted, most);
        nearest.unwrap_or_default().into_iter().unzip()
    }
}

fn in_memory(bytes: &[u8]) -> Result<Opened<&[u8]>> {
    Ok(Opened::new(bytes, bytes.len() as u64, Path::new(IN_MEMORY))?)
}

/// A server with the keys for a search.
#[pyclass(frozen, module = "sudare._native")]
pub struct SearchServer {
    server: Arc<Server>,
}

#[pymethods]
impl SearchServer {
    /// Opens a server with the evaluation keys in the file at `path`.
    #[staticmethod]
    fn open(py: Python<'_>, path: PathBuf) -> Result<Self> {
        job::run(py, None, move |_| {
            let keys: Opened<BufReader<File>> = Opened::open(&path, Kind::EvaluationKeys)?;
            Ok(Self { server: Arc::new(Server::new(keys, false)?) })
        })
    }

    /// Returns the public part of the search, in JSON.
    fn setup(&self) -> Result<String> {
        json(&self.server.session().setup)
    }

    /// Searches the index in a directory, and returns the file of the answer.
    #[pyo3(signature = (query, folder, wanted, progress=None))]
    fn search_index(
        &self,
        py: Python<'_>,
        query: Query,
        folder: PathBuf,
        wanted: Option<&str>,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> Result<Py<PyBytes>> {
        let server = Arc::clone(&self.server);
        let wanted = self.wanted(wanted)?;
        let file = job::run(py, progress, move |progress| {
            let index = Index::open(&folder, server.session())?;
            progress.start("blocks", index.blocks());
            let found = server
                .run(query.asked()?, Searched::Index(&index), wanted, |done| progress.set(done))?;
            written(&found)
        })?;
        Ok(PyBytes::new(py, &file).unbind())
    }

    /// Searches records in the clear, and returns the file of the answer.
    #[pyo3(signature = (query, records, deleted, wanted, progress=None))]
    fn search_records(
        &self,
        py: Python<'_>,
        query: Vec<u8>,
        records: (Numbers, Payloads),
        deleted: BTreeSet<usize>,
        wanted: Option<&str>,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> Result<Py<PyBytes>> {
        let server = Arc::clone(&self.server);
        let wanted = self.wanted(wanted)?;
        let (vectors, payloads) = records;
        let mut table = Table::new(&server.session().setup, vectors, payloads);
        let file = job::run(py, progress, move |progress| {
            // The number of blocks of records in the clear is known only after they are read.
            progress.start("blocks", 0);
            let asked = Asked::Encrypted(Box::new(in_memory(&query)?));
            let searched = Searched::Records(&mut table, &deleted);
            let found = server.run(asked, searched, wanted, |done| progress.set(done))?;
            written(&found)
        })?;
        Ok(PyBytes::new(py, &file).unbind())
    }
}

impl SearchServer {
    fn wanted(&self, name: Option<&str>) -> Result<SearchKind> {
        let planned = SearchKind::of(&self.server.session().setup);
        let named = name.map(|name| name.parse().map_err(|help: &str| Engine::Usage(help.into())));
        Ok(named.transpose()?.unwrap_or(planned))
    }
}

/// A query, encrypted or in the clear.
#[derive(FromPyObject)]
pub enum Query {
    Plain(Numbers),
    Encrypted(Vec<u8>),
}

impl Query {
    fn asked(&self) -> Result<Asked<&[u8]>> {
        Ok(match self {
            Self::Encrypted(file) => Asked::Encrypted(Box::new(in_memory(file)?)),
            Self::Plain(vector) => Asked::Plain(vector.values.clone()),
        })
    }
}

fn written(found: &search::Outcome) -> Result<Vec<u8>> {
    let mut file = Vec::new();
    found.write(&mut file)?;
    Ok(file)
}

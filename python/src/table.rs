//! Tables that are encrypted for one job, and their results: the files of the command line.

use crate::{
    array::Numbers,
    error::{Error, Result},
    job::{self, Progress},
    keys::{
        AnyKey, EvaluationKeys, Fingerprint, PublicKey, SecretKey, Source, reduce, save,
        shared_bytes,
    },
    plan::{AUTO, Parameters, ProgramReport, Report},
};
use pyo3::{
    prelude::*,
    pybacked::PyBackedBytes,
    types::{PyBytes, PyTuple},
};
use serde::Serialize;
use serde_json::json;
use std::{
    io::{self, BufReader, Cursor, Read, Seek, Write},
    ops::Range,
    path::{Path, PathBuf},
    sync::Arc,
};
use sudare::{
    circuits::cost::{Rates, Work},
    ckks::{
        Ciphertext, Params,
        serial::{Info, Kind},
    },
};
use sudare_apps::{
    logreg::{self, ClassWeights, LearningRate, Scores, SigmoidApprox, SigmoidDegree, TrainSpec},
    stats::{self, Cost, GroupJob, HistogramJob, StatsError, TTest},
    table::{self, Place, TableError},
};
use sudare_arith::prng::Seed;
use sudare_cli::{
    artefacts::{Content, Job, Meta, Opened, Plan},
    decryption,
    encryption::{Encryption, KeyColumn},
    error::Error as Engine,
    files::{self, Access, NewFile},
    model::{NamedGroups, NamedLeastSquares, NamedScores, NamedStatistics},
    server::Session,
};

/// What messages call a file that has no name.
pub(crate) const IN_MEMORY: &str = "the bytes in memory";

/// Ciphertexts of rows that a training computes with at a time, about.
const CIPHERTEXTS_AT_WORK: u64 = 64;

/// A job on a table of known shape, and parameters for it.
#[pyclass(frozen, module = "sudare._native")]
pub struct TablePlan {
    pub(crate) set: Parameters,
    pub(crate) job: Job,
    pub(crate) plan: Arc<Plan>,
}

#[pymethods]
impl TablePlan {
    /// Moments, covariances and correlations of columns.
    #[staticmethod]
    #[pyo3(signature = (rows, features, *, insecure_log_n=None))]
    fn statistics(
        py: Python<'_>,
        rows: usize,
        features: usize,
        insecure_log_n: Option<u32>,
    ) -> Result<Self> {
        Self::smallest(py, Job::Stats(stats::Job { rows, features }), insecure_log_n)
    }

    /// Sums of columns by groups of rows.
    #[staticmethod]
    #[pyo3(signature = (rows, features, groups, *, insecure_log_n=None))]
    fn groups(
        py: Python<'_>,
        rows: usize,
        features: usize,
        groups: usize,
        insecure_log_n: Option<u32>,
    ) -> Result<Self> {
        Self::smallest(py, Job::Groups(GroupJob { rows, features, groups }), insecure_log_n)
    }

    /// Counts of the values of columns in bins.
    #[staticmethod]
    #[pyo3(signature = (rows, features, bins, *, insecure_log_n=None))]
    fn histogram(
        py: Python<'_>,
        rows: usize,
        features: usize,
        bins: usize,
        insecure_log_n: Option<u32>,
    ) -> Result<Self> {
        Self::smallest(py, Job::Histogram(HistogramJob { rows, features, bins }), insecure_log_n)
    }

    /// Logistic regression.
    #[staticmethod]
    #[pyo3(signature = (
        rows, features, *, iterations=5, batch_size=None, learning_rate=10.0, constant_rate=false,
        sigmoid_range=None, sigmoid_degree=3, shared_bits=None, l2=0.0, workers=None,
        class_weights=None, insecure_log_n=None
    ))]
    #[expect(clippy::too_many_arguments, reason = "by name, from Python")]
    fn train(
        py: Python<'_>,
        rows: usize,
        features: usize,
        iterations: u32,
        batch_size: Option<usize>,
        learning_rate: f64,
        constant_rate: bool,
        sigmoid_range: Option<f64>,
        sigmoid_degree: u32,
        shared_bits: Option<u32>,
        l2: f64,
        workers: Option<usize>,
        class_weights: Option<&str>,
        insecure_log_n: Option<u32>,
    ) -> Result<Self> {
        let rate = match constant_rate {
            true => LearningRate::Constant(learning_rate),
            false => LearningRate::Decaying { initial: learning_rate },
        };
        let degree = SigmoidDegree::try_from(sigmoid_degree).map_err(Engine::from)?;
        let range = sigmoid_range.unwrap_or(SigmoidApprox::default().range);
        let class_weights = match class_weights {
            None => None,
            Some("balanced") => Some(ClassWeights::Balanced),
            Some("given") => Some(ClassWeights::Given),
            Some(found) => {
                let problem = format!("class_weights is {found:?}: balanced or given is needed");
                return Err(Engine::Usage(problem).into());
            }
        };
        let spec = TrainSpec {
            iterations,
            learning_rate: rate,
            sigmoid: SigmoidApprox { degree, range },
            batch: batch_size,
            shared_bits,
            l2,
            workers,
            class_weights,
            scorable: false,
        };
        Self::smallest(py, Job::Train(logreg::Job { rows, features, spec }), insecure_log_n)
    }

    /// The plan that keys were made for.
    #[staticmethod]
    fn of(py: Python<'_>, key: AnyKey<'_>) -> Result<Self> {
        let set = key.set().clone();
        let Some((_, Meta { job, .. })) = Meta::read(&set.label) else {
            return Err(other_job("keys for programs on arrays", "a key for a job on a table"));
        };
        job::run(py, None, move |_| Self::new(set, job))
    }

    #[getter]
    fn parameters(&self) -> Parameters {
        self.set.clone()
    }

    /// The job, as `sudare info` has it.
    #[getter]
    fn job(&self) -> String {
        self.job.to_string()
    }

    /// `train`, `stats`, `groups`, `histogram` or `predict`.
    #[getter]
    fn kind(&self) -> &'static str {
        kind(&self.job)
    }

    /// Rows of the table.
    #[getter]
    fn rows(&self) -> Result<usize> {
        Ok(self.job.shape()?.0)
    }

    /// Its columns, without target or key column.
    #[getter]
    fn features(&self) -> Result<usize> {
        Ok(self.job.shape()?.1)
    }

    /// Ciphertexts of the table.
    #[getter]
    fn blocks(&self) -> usize {
        self.plan.ciphertexts()
    }

    /// Sizes, security and time.
    fn report(&self, py: Python<'_>) -> Result<Report> {
        let (set, job, plan) = (self.set.clone(), self.job, Arc::clone(&self.plan));
        job::run(py, None, move |_| Self { set, job, plan }.measured())
    }

    /// A table, encrypted: `numbers` are rows of `columns`, `labels` those of 0 and 1 of the target,
    /// and `by` is the one of the columns whose values tell groups apart. `order` decides the order
    /// of rows in batches. `class_weights` are what rows of 0 and of 1 weigh, for a plan with given
    /// ones. With `path` the table is in that file and not in memory.
    #[pyo3(signature = (
        key, columns, numbers, *, target=None, labels=None, by=None, order=None,
        class_weights=None, path=None, overwrite=false, progress=None
    ))]
    #[expect(clippy::too_many_arguments, reason = "by name, from Python")]
    fn encrypt(
        &self,
        py: Python<'_>,
        key: &PublicKey,
        columns: Vec<String>,
        numbers: Numbers,
        target: Option<String>,
        labels: Option<Numbers>,
        by: Option<String>,
        order: Option<[u8; 32]>,
        class_weights: Option<[f64; 2]>,
        path: Option<PathBuf>,
        overwrite: bool,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> Result<Table> {
        self.check_key("the public key", &key.set)?;
        let (job, set, key) = (self.job, self.set.clone(), Arc::clone(&key.key));
        check_class_weights(&job, class_weights)?;
        let order = order.map(Seed::from_bytes);
        let encrypt = move |progress: &Progress, out: &mut dyn Write, path: &Path| -> Result<()> {
            let (table, by) = table(&job, columns, numbers, target, labels, by)?;
            let encryption = Encryption::new(job, &set.params, &set.label.name, key)?;
            let encryption = encryption.with_order(order).with_class_weights(class_weights);
            progress.start("encrypting", encryption.plan().ciphertexts());
            encryption.write(out, path, table, by.as_ref(), |done| progress.set(done))?;
            Ok(())
        };
        match path {
            None => {
                let bytes = job::run(py, progress, move |progress| {
                    let mut bytes = Vec::new();
                    encrypt(progress, &mut bytes, Path::new(IN_MEMORY))?;
                    Ok(bytes)
                })?;
                Ok(Table::in_memory(py, PyBytes::new(py, &bytes).unbind())?)
            }
            Some(path) => job::run(py, progress, move |progress| {
                let mut file = NewFile::create(&path, Access::Shared, overwrite)?;
                encrypt(progress, &mut file, &path)?;
                file.finish()?;
                Table::in_file(&path, None)
            }),
        }
    }
}

impl TablePlan {
    /// Sizes and security, and what the server does.
    fn measured(&self) -> Result<Report> {
        let params = &self.set.params;
        let cost = match &*self.plan {
            Plan::Stats(plan) => plan.cost(),
            Plan::Groups(plan) => plan.cost(),
            Plan::Histogram(plan) => plan.cost(),
            Plan::Train(plan) => {
                let (level, _) = plan.input();
                let ciphertext = 16 * (params.rlwe().limbs(level).q() << params.log_n()) as u64;
                let batch_bytes = plan.batch(0).len() as u64 * ciphertext;
                let input_bytes = plan.ciphertexts() as u64 * ciphertext;
                // The rows of two batches, and what becomes of some of them.
                let held_bytes = input_bytes.min(2 * batch_bytes)
                    + 2 * batch_bytes.min(CIPHERTEXTS_AT_WORK * ciphertext);
                let work = plan.work().map_err(Engine::from)?;
                let mut report = self.report_with(level.0, input_bytes, held_bytes, &work)?;
                report.bootstrap_levels = plan.bootstrap_levels();
                return Ok(report);
            }
            Plan::Predict(_) => return Report::new(&self.set, self.plan.required_keys(), None),
        };
        let Cost { depth, input_bytes, output_bytes, work } = cost.map_err(Engine::from)?;
        self.report_with(depth, input_bytes, 2 * (input_bytes + output_bytes), &work)
    }

    fn report_with(
        &self,
        depth: u32,
        input_bytes: u64,
        held_bytes: u64,
        work: &Work,
    ) -> Result<Report> {
        let (params, request) = (&self.set.params, self.plan.required_keys());
        let program = ProgramReport {
            depth,
            bootstraps: self.plan.bootstraps().into(),
            missing_keys: false,
            input_bytes,
            peak_memory_bytes: request.bytes(params.rlwe())? + held_bytes,
            seconds: work.seconds(&Rates::reference(params.log_n())),
            outputs: Vec::new(),
        };
        Report::new(&self.set, request, Some(program))
    }

    /// In the smallest secure ring, or one of another size without security if one is given.
    fn smallest(py: Python<'_>, job: Job, insecure_log_n: Option<u32>) -> Result<Self> {
        job::run(py, None, move |_| {
            let mut params = job.auto_params()?;
            if let Some(log_n) = insecure_log_n {
                let mut spec = params.spec().clone();
                (spec.log_n, spec.insecure) = (log_n, true);
                params = Params::new(spec)?;
            }
            let label = Meta::of(job).label(AUTO, Content::Keys)?;
            Self::new(Parameters::new(params, label)?, job)
        })
    }

    fn new(set: Parameters, job: Job) -> Result<Self> {
        let plan = Arc::new(job.plan(&set.params)?);
        Ok(Self { set, job, plan })
    }

    /// Refuses keys that were made for something else.
    pub(crate) fn check_key(&self, what: &'static str, set: &Parameters) -> Result<()> {
        let job = Meta::read(&set.label).map(|(_, meta)| meta.job);
        if job != Some(self.job) {
            let job = job.map_or("programs on arrays".into(), |job| job.to_string());
            let (found, needed) = (format!("{what} for {job}"), format!("one for {}", self.job));
            return Err(other_job(&found, &needed));
        }
        let (found, expected) = (set.params.rlwe().id(), self.set.params.rlwe().id());
        if found != expected {
            return Err(sudare::Error::ParamsMismatch { what, found, expected }.into());
        }
        Ok(())
    }
}

pub(crate) fn other_job(found: &str, needed: &str) -> Error {
    Error::OtherJob { found: found.into(), needed: needed.into() }
}

fn kind(job: &Job) -> &'static str {
    match job {
        Job::Train(_) => "train",
        Job::Stats(_) => "stats",
        Job::Groups(_) => "groups",
        Job::Histogram(_) => "histogram",
        Job::Predict(_) => "predict",
        Job::Bootstrap => "bootstrap",
    }
}

/// Refuses class weights that are not used, and their lack where they are.
pub(crate) fn check_class_weights(job: &Job, class_weights: Option<[f64; 2]>) -> Result<()> {
    let needed = job.takes_class_weights();
    expect_given(job, "class_weights", class_weights.is_some(), needed)
}

fn expect_given(job: &Job, name: &str, given: bool, needed: bool) -> Result<()> {
    if given == needed {
        return Ok(());
    }
    let advice = if needed { "is needed: give it" } else { "is not used: leave it out" };
    Err(Engine::Usage(format!("for {job}, {name} {advice}")).into())
}

/// The table and its key column, if they are what the job needs.
pub(crate) fn table(
    job: &Job,
    columns: Vec<String>,
    numbers: Numbers,
    target: Option<String>,
    labels: Option<Numbers>,
    by: Option<String>,
) -> Result<(table::Table, Option<KeyColumn>)> {
    let (rows, features) = job.shape()?;
    let given = [("target", target.is_some()), ("labels", labels.is_some()), ("by", by.is_some())];
    let training = matches!(job, Job::Train(_));
    let needed = [training, training, matches!(job, Job::Groups(_))];
    for ((name, given), needed) in given.into_iter().zip(needed) {
        expect_given(job, name, given, needed)?;
    }
    let shape = numbers.shape().to_vec();
    let as_planned = matches!(shape[..], [found, width] if found == rows
        && width == features + usize::from(by.is_some()) && width == columns.len());
    if !as_planned {
        let found = format!("numbers of shape {shape:?} in {} columns", columns.len());
        let by = if by.is_some() { " and the one that tells groups apart" } else { "" };
        let needed = format!("{rows} rows of {features} features{by}");
        return Err(Error::Shape { found, needed });
    }
    let values = numbers.to_plain().values;
    drop(numbers);
    let target = match target.zip(labels) {
        Some((name, labels)) => {
            let labels = labels.to_plain().values;
            let labels = binary(&name, &labels)?;
            Some((name, labels))
        }
        None => None,
    };
    let table = table::Table::new(columns, values, target).map_err(Engine::from)?;
    if training {
        table.check_for_training().map_err(Engine::from)?;
    }
    let Some(by) = by else { return Ok((table, None)) };
    let (table, values) = table.without(&by).map_err(Engine::from)?;
    let key = KeyColumn::new(&by, &values);
    if let Job::Groups(job) = job
        && key.grouping.labels().len() != job.groups
    {
        let found = format!("{} different values of {by:?}", key.grouping.labels().len());
        return Err(Error::Shape { found, needed: format!("{} groups", job.groups) });
    }
    Ok((table, Some(key)))
}

fn binary(column: &str, labels: &[f64]) -> Result<Vec<bool>> {
    let label = |(row, &found): (usize, &f64)| match found {
        0.0 => Ok(false),
        1.0 => Ok(true),
        _ => {
            let (place, column) = (Place::Row(row), column.to_owned());
            Err(Engine::from(TableError::TargetNotBinary { place, column, found }).into())
        }
    };
    labels.iter().enumerate().map(label).collect()
}

/// Something that a file can be read from.
pub trait Readable: Read + Seek {}

impl<T: Read + Seek> Readable for T {}

/// A file of ciphertexts, wherever it is.
pub type Input = Box<dyn Readable + Send>;

/// A table that is encrypted for one job.
#[pyclass(frozen, module = "sudare._native")]
pub struct Table {
    source: Source,
    info: Info,
    pub(crate) meta: Meta,
}

#[pymethods]
impl Table {
    /// The table in the file at `path`, which stays there.
    #[staticmethod]
    fn open(py: Python<'_>, path: PathBuf) -> Result<Self> {
        job::run(py, None, move |_| Self::in_file(&path, None))
    }

    /// As `open`, of the file that was pickled.
    #[staticmethod]
    fn _reopen(py: Python<'_>, path: PathBuf, digest: String, bytes: u64) -> Result<Self> {
        job::run(py, None, move |_| Self::in_file(&path, Some((&digest, bytes))))
    }

    /// The table that `to_bytes` gave.
    #[staticmethod]
    fn from_bytes(data: &Bound<'_, PyAny>) -> Result<Self> {
        Self::in_memory(data.py(), shared_bytes(data)?)
    }

    /// The table as the bytes of its file.
    fn to_bytes(&self, py: Python<'_>) -> Result<Py<PyBytes>> {
        match &self.source {
            Source::Memory(bytes) => Ok(bytes.clone_ref(py)),
            Source::File(file) => {
                let pickled = Some((&*file.digest, file.bytes));
                let (_, open) = job::detached(py, || Fingerprint::open(&file.path, pickled))?;
                read_file(py, open, file.bytes, &file.path)
            }
        }
    }

    /// Writes the table to a file.
    #[pyo3(signature = (path, *, overwrite=false))]
    fn save(&self, py: Python<'_>, path: PathBuf, overwrite: bool) -> Result<()> {
        let open = self.opener(py);
        job::detached(py, || {
            let mut input = open()?;
            save(&path, Access::Shared, overwrite, |file| Ok(io::copy(&mut input, file)?))
        })
    }

    /// The job that it was encrypted for, as `sudare info` has it.
    #[getter]
    fn job(&self) -> String {
        self.meta.job.to_string()
    }

    /// `train`, `stats`, `groups`, `histogram` or `predict`.
    #[getter]
    fn kind(&self) -> &'static str {
        kind(&self.meta.job)
    }

    /// Rows.
    #[getter]
    fn rows(&self) -> Result<usize> {
        Ok(self.meta.job.shape()?.0)
    }

    /// Columns, without target or key column.
    #[getter]
    fn features(&self) -> Result<usize> {
        Ok(self.meta.job.shape()?.1)
    }

    /// Ciphertexts, without those of names and ranges of columns.
    #[getter]
    fn blocks(&self) -> u64 {
        self.info.count.saturating_sub(self.meta.note.into())
    }

    /// The key pair, in hexadecimal.
    #[getter]
    fn key_id(&self) -> String {
        self.info.key_id.to_string()
    }

    /// Bytes of its file.
    #[getter]
    fn nbytes(&self) -> u64 {
        self.info.bytes
    }

    /// The file that it is in, or None.
    #[getter]
    fn path(&self) -> Option<&Path> {
        match &self.source {
            Source::Memory(_) => None,
            Source::File(file) => Some(&file.path),
        }
    }

    /// What the table was encrypted for, unless that is a training.
    #[pyo3(signature = (keys, progress=None))]
    fn compute(
        &self,
        py: Python<'_>,
        keys: &EvaluationKeys,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> Result<TableResult> {
        if let Job::Train(_) = self.meta.job {
            let found = format!("a table that was encrypted for {}", self.meta.job);
            return Err(other_job(&found, "a table for statistics, groups or histograms"));
        }
        let open = self.session(py, keys);
        let bytes = job::run(py, progress, move |progress| {
            let session = open()?;
            progress.start("computing", session.plan.outputs());
            let result = session.statistics(|done| progress.set(done))?;
            result_bytes(&session, result, &session.meta, Content::Statistics)
        })?;
        TableResult::new(py, PyBytes::new(py, &bytes).unbind(), Path::new(IN_MEMORY))
    }

    fn __reduce_ex__<'py>(
        slf: &Bound<'py, Self>,
        protocol: i32,
    ) -> Result<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        let (py, class) = (slf.py(), slf.get_type());
        Ok(match &slf.get().source {
            Source::Memory(bytes) => {
                reduce(class.getattr("from_bytes")?, bytes.bind(py).clone(), protocol)?
            }
            Source::File(file) => {
                let arguments = (&file.path, &file.digest, file.bytes).into_pyobject(py)?;
                (class.getattr("_reopen")?, arguments)
            }
        })
    }

    fn __repr__(&self) -> String {
        let megabytes = self.info.bytes as f64 / 1e6;
        let (job, key) = (&self.meta.job, self.info.key_id);
        let place = match &self.source {
            Source::Memory(_) => "memory".into(),
            Source::File(file) => format!("{:?}", file.path),
        };
        format!("EncryptedTable({job}, {megabytes:.1} MB in {place}, key_id={key})")
    }
}

impl Table {
    fn in_memory(py: Python<'_>, bytes: Py<PyBytes>) -> Result<Self> {
        let (info, meta) = header(in_memory(py, &bytes, Path::new(IN_MEMORY))?, &[Content::Table])?;
        Ok(Self { source: Source::Memory(bytes), info, meta })
    }

    fn in_file(path: &Path, pickled: Option<(&str, u64)>) -> Result<Self> {
        let (fingerprint, file) = Fingerprint::open(path, pickled)?;
        let opened = Opened::new(BufReader::new(file), fingerprint.bytes, path)?;
        let (info, meta) = header(opened, &[Content::Table])?;
        Ok(Self { source: Source::File(fingerprint), info, meta })
    }

    /// The digest of its file.
    pub(crate) fn digest(&self, py: Python<'_>) -> Result<[u8; 32]> {
        self.source.digest(py)
    }

    /// What opens its file, if it is the one that it was.
    fn opener(&self, py: Python<'_>) -> impl FnOnce() -> Result<Input> + Send + use<> {
        let source = match &self.source {
            Source::Memory(bytes) => Ok(PyBackedBytes::from(bytes.bind(py).clone())),
            Source::File(file) => Err((file.path.clone(), file.digest.clone(), file.bytes)),
        };
        move || match source {
            Ok(bytes) => Ok(Box::new(Cursor::new(bytes))),
            Err((path, digest, bytes)) => {
                let (_, file) = Fingerprint::open(&path, Some((&digest, bytes)))?;
                Ok(Box::new(BufReader::new(file)))
            }
        }
    }

    /// What makes a server ready to compute with the table.
    pub(crate) fn session(
        &self,
        py: Python<'_>,
        keys: &EvaluationKeys,
    ) -> impl FnOnce() -> Result<Session<Input>> + Send + use<> {
        let path = self.path().unwrap_or(Path::new(IN_MEMORY)).to_owned();
        let (open, bytes) = (self.opener(py), self.info.bytes);
        let (set, watch, keys) = (keys.set.clone(), keys.watch.clone(), Arc::clone(&keys.keys));
        move || {
            let (table, id) = (Opened::new(open()?, bytes, &path)?, keys.id());
            Ok(Session::new(table, &set.params, &set.label, id, || Ok((keys, watch)))?)
        }
    }

    /// What reads ciphertexts of the table, which is under the parameters.
    pub(crate) fn reader(
        &self,
        py: Python<'_>,
    ) -> impl FnOnce(&Params, Range<usize>) -> Result<Vec<Ciphertext>> + Send + use<> {
        let path = self.path().unwrap_or(Path::new(IN_MEMORY)).to_owned();
        let (open, bytes, note) = (self.opener(py), self.info.bytes, self.meta.note);
        move |params, numbers| {
            let table = Opened::new(open()?, bytes, &path)?.into_stored(params, note)?;
            Ok(table.read(numbers)?)
        }
    }
}

/// What the header of a file of ciphertexts says.
fn header<R: Read>(file: Opened<R>, contents: &[Content]) -> Result<(Info, Meta)> {
    let file = file.expect(Kind::Ciphertexts)?;
    let (_, meta) = file.meta(contents)?;
    Ok((file.info().clone(), meta))
}

/// A file in memory, which messages call `path`.
pub(crate) fn in_memory(
    py: Python<'_>,
    bytes: &Py<PyBytes>,
    path: &Path,
) -> Result<Opened<Cursor<PyBackedBytes>>> {
    let bytes = PyBackedBytes::from(bytes.bind(py).clone());
    let length = bytes.len() as u64;
    Ok(Opened::new(Cursor::new(bytes), length, path)?)
}

/// A whole file.
fn read_file(
    py: Python<'_>,
    mut file: impl Read + Send,
    bytes: u64,
    path: &Path,
) -> Result<Py<PyBytes>> {
    let length = usize::try_from(bytes).map_err(|_| Error::Bug("a file exceeds memory"))?;
    let content = PyBytes::new_with(py, length, |content| {
        let read = py.detach(|| file.read_exact(content));
        read.map_err(|error| Error::from(Engine::io("read", path, error)).into())
    })?;
    Ok(content.unbind())
}

/// The file of a result.
pub(crate) fn result_bytes(
    session: &Session<Input>,
    result: Vec<sudare::ckks::Ciphertext>,
    meta: &Meta,
    content: Content,
) -> Result<Vec<u8>> {
    let (mut bytes, items) = (Vec::new(), session.with_note(result));
    session.write_to(&mut bytes, Path::new(IN_MEMORY), &items, meta, content)?;
    Ok(bytes)
}

/// What was computed from an encrypted table, encrypted as well.
#[pyclass(frozen, name = "Result", module = "sudare._native")]
pub struct TableResult {
    file: Py<PyBytes>,
    info: Info,
    meta: Meta,
    content: Content,
}

#[pymethods]
impl TableResult {
    /// The result in the file at `path`.
    #[staticmethod]
    fn open(py: Python<'_>, path: PathBuf) -> Result<Self> {
        let (file, bytes) = files::open(&path, Access::Shared)?;
        Self::new(py, read_file(py, file, bytes, &path)?, &path)
    }

    /// The result that `to_bytes` gave.
    #[staticmethod]
    fn from_bytes(data: &Bound<'_, PyAny>) -> Result<Self> {
        Self::new(data.py(), shared_bytes(data)?, Path::new(IN_MEMORY))
    }

    /// The result as the bytes of its file.
    fn to_bytes(&self, py: Python<'_>) -> Py<PyBytes> {
        self.file.clone_ref(py)
    }

    /// Writes the result to a file.
    #[pyo3(signature = (path, *, overwrite=false))]
    fn save(&self, py: Python<'_>, path: PathBuf, overwrite: bool) -> Result<()> {
        let bytes = PyBackedBytes::from(self.file.bind(py).clone());
        job::detached(py, || {
            save(&path, Access::Shared, overwrite, |file| {
                file.write_all(&bytes)?;
                Ok(bytes.len() as u64)
            })
        })
    }

    /// The job of the table, as `sudare info` has it.
    #[getter]
    fn job(&self) -> String {
        self.meta.job.to_string()
    }

    /// `model`, `statistics` or `scores`.
    #[getter]
    fn content(&self) -> &'static str {
        self.content.name()
    }

    /// Iterations of a training.
    #[getter]
    fn iterations(&self) -> u32 {
        self.meta.iterations
    }

    /// The key pair, in hexadecimal.
    #[getter]
    fn key_id(&self) -> String {
        self.info.key_id.to_string()
    }

    /// Bytes of its file.
    #[getter]
    fn nbytes(&self) -> u64 {
        self.info.bytes
    }

    /// The values, for the owner of the key alone.
    fn decrypt(&self, py: Python<'_>, key: &SecretKey) -> Result<Decrypted> {
        let result = in_memory(py, &self.file, Path::new(IN_MEMORY))?;
        let (set, key) = (key.set.clone(), Arc::clone(&key.decryptor));
        job::run(py, None, move |_| {
            Ok(Decrypted(decryption::Decrypted::read(result, &set.params, &key)?))
        })
    }

    fn __reduce_ex__<'py>(
        slf: &Bound<'py, Self>,
        protocol: i32,
    ) -> Result<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        let bytes = slf.get().file.bind(slf.py()).clone();
        Ok(reduce(slf.get_type().getattr("from_bytes")?, bytes, protocol)?)
    }

    fn __repr__(&self) -> String {
        format!(
            "EncryptedResult({} of {}, key_id={})",
            self.content(),
            self.meta.job,
            self.info.key_id
        )
    }
}

impl TableResult {
    /// Of a file that messages call `path`.
    pub(crate) fn new(py: Python<'_>, file: Py<PyBytes>, path: &Path) -> Result<Self> {
        let opened = in_memory(py, &file, path)?.expect(Kind::Ciphertexts)?;
        let (content, meta) =
            opened.meta(&[Content::Model, Content::Statistics, Content::Scores])?;
        Ok(Self { info: opened.info().clone(), file, meta, content })
    }
}

/// A result in the clear, and what follows from it.
#[pyclass(frozen, module = "sudare._native")]
pub struct Decrypted(decryption::Decrypted);

/// Python's form of what JSON has.
pub(crate) fn to_python<'py>(py: Python<'py>, value: &impl Serialize) -> Result<Bound<'py, PyAny>> {
    let text = serde_json::to_string(value).map_err(|_| Error::Bug("a result has no JSON"))?;
    Ok(py.import("json")?.call_method1("loads", (text,))?)
}

#[pymethods]
impl Decrypted {
    /// The values, as `sudare decrypt --json` has them. What is undefined is None.
    fn values<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyAny>> {
        match &self.0 {
            decryption::Decrypted::Model { model, .. } => to_python(py, model),
            decryption::Decrypted::Statistics { columns, statistics } => to_python(
                py,
                &NamedStatistics {
                    kind: "statistics",
                    columns: columns.clone(),
                    statistics: statistics.clone(),
                    weighted_mean: None,
                    least_squares: None,
                    t_test: None,
                },
            ),
            decryption::Decrypted::Groups { key, labels, columns, statistics } => to_python(
                py,
                &NamedGroups {
                    kind: "groups",
                    key: key.clone(),
                    labels: labels.clone(),
                    columns: columns.clone(),
                    statistics: statistics.clone(),
                    t_test: None,
                },
            ),
            decryption::Decrypted::Histograms { rows, columns, histograms } => {
                let kind = "histograms";
                let (rows, columns) = (*rows, columns);
                to_python(
                    py,
                    &json!({ "kind": kind, "rows": rows, "columns": columns, "histograms": histograms }),
                )
            }
            decryption::Decrypted::Scores { scores: Scores { scores, probabilities }, labels } => {
                let (scores, probabilities) = (scores.clone(), probabilities.clone());
                to_python(py, &NamedScores::new(scores, probabilities, labels.as_deref())?)
            }
        }
    }

    /// Of statistics: the means weighted by column `weights`.
    fn weighted_mean(&self, weights: usize) -> Result<Vec<f64>> {
        Ok(self.statistics()?.1.weighted_mean(weights).map_err(Engine::from)?)
    }

    /// Of statistics: the linear model of column `target` on all others.
    fn least_squares<'py>(&self, py: Python<'py>, target: usize) -> Result<Bound<'py, PyAny>> {
        let (columns, statistics) = self.statistics()?;
        let fit = statistics.least_squares(target).map_err(Engine::from)?;
        to_python(py, &NamedLeastSquares::new(fit, columns))
    }

    /// Welch's test: of statistics between columns `a` and `b`, as a list of one; of groups between
    /// groups `a` and `b`, of each column, None where there is none.
    fn t_test<'py>(&self, py: Python<'py>, a: usize, b: usize) -> Result<Bound<'py, PyAny>> {
        let tests = || -> core::result::Result<Vec<Option<TTest>>, StatsError> {
            match &self.0 {
                decryption::Decrypted::Groups { columns, statistics, .. } => {
                    let test = |j| {
                        let (a, b) = (statistics.sample(a, j)?, statistics.sample(b, j)?);
                        Ok(TTest::welch(&a, &b).ok())
                    };
                    (0..columns.len()).map(test).collect()
                }
                decryption::Decrypted::Statistics { statistics, .. } => {
                    let (a, b) = (statistics.sample(a)?, statistics.sample(b)?);
                    Ok(vec![Some(TTest::welch(&a, &b)?)])
                }
                _ => Ok(Vec::new()),
            }
        };
        to_python(py, &tests().map_err(Engine::from)?)
    }

    /// Of histograms: of each column, below which values these parts of all lie.
    fn quantiles(&self, probabilities: Vec<f64>) -> Result<Vec<Vec<f64>>> {
        let decryption::Decrypted::Histograms { histograms, .. } = &self.0 else {
            return Err(other_job("another result", "that of histograms"));
        };
        let of_column = |histogram: &stats::Histogram| {
            probabilities
                .iter()
                .map(|&p| Ok(histogram.quantile(p).map_err(Engine::from)?))
                .collect()
        };
        histograms.iter().map(of_column).collect()
    }
}

impl Decrypted {
    fn statistics(&self) -> Result<(&[String], &stats::Statistics)> {
        match &self.0 {
            decryption::Decrypted::Statistics { columns, statistics } => Ok((columns, statistics)),
            _ => Err(other_job("another result", "that of statistics")),
        }
    }
}

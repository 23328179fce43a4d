//! Tables that are encrypted for one job, and their results: the files of the command line.

mod plan;
mod result;

pub use plan::TablePlan;
pub use result::{Decrypted, TableResult};

use crate::{
    arguments,
    data::{from_json, malformed},
    error::{Error, Result},
    job::{self, Progress},
    keys::{self, EvaluationKeys},
    source::{Fingerprint, IN_MEMORY, Input, Memory, Reduced, Source, read_all, save},
};
use pyo3::{prelude::*, types::PyBytes};
use std::{
    io::{self, BufReader, Cursor, Read, Write},
    ops::Range,
    path::{Path, PathBuf},
    sync::Arc,
};
use sudare::ckks::{
    Ciphertext, Params,
    serial::{Info, Kind},
};
use sudare_apps::logreg::ScorePlan;
use sudare_arith::mem::Mapping;
use sudare_roles::{
    clear::model::Model,
    format::{
        label::{Content, Meta, Origin},
        opened::Opened,
    },
    job::{Job, Plan},
    os::files::{Access, NewFile},
    server::{scoring, session::Session},
};

/// A table that is encrypted for one job.
#[pyclass(frozen, module = "sudare._native")]
pub struct Table {
    source: Source,
    info: Info,
    pub(crate) meta: Meta,
}

#[pymethods]
impl Table {
    /// Opens the table in the file at `path`, which stays there.
    #[staticmethod]
    fn open(py: Python<'_>, #[pyo3(from_py_with = arguments::path)] path: PathBuf) -> Result<Self> {
        job::run(py, None, move |_| Self::in_file(&path, None))
    }

    /// Opens the file that was pickled.
    #[staticmethod]
    fn _reopen(py: Python<'_>, path: PathBuf, digest: String, bytes: u64) -> Result<Self> {
        job::run(py, None, move |_| Self::in_file(&path, Some((&digest, bytes))))
    }

    /// Reads the table from the result of `to_bytes`.
    #[staticmethod]
    fn from_bytes(data: &Bound<'_, PyAny>) -> Result<Self> {
        Self::in_memory(Memory::from_python(data)?)
    }

    /// Returns the table as the bytes of its file.
    fn to_bytes(&self, py: Python<'_>) -> Result<Py<PyBytes>> {
        match &self.source {
            Source::Memory(memory) => Ok(memory.to_bytes(py)),
            Source::File(file) => {
                let open = self.source.opener();
                let bytes = file.bytes;
                let path = file.path.clone();
                let content = job::run(py, None, move |_| read_all(open()?, bytes, &path))?;
                Ok(PyBytes::new(py, &content).unbind())
            }
        }
    }

    /// Writes the table to a file.
    #[pyo3(signature = (path, *, overwrite=false))]
    fn save(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = arguments::path)] path: PathBuf,
        #[pyo3(from_py_with = arguments::overwrite)] overwrite: bool,
    ) -> Result<()> {
        // Opened before the new file exists: a table may be saved over its own file.
        let mut input = job::detached(py, self.source.opener())?;
        save(py, path, Access::Shared, overwrite, move |file| Ok(io::copy(&mut input, file)?))
    }

    /// The job of the table, as `sudare info` shows it.
    #[getter]
    fn job(&self) -> String {
        self.meta.job.to_string()
    }

    /// `train`, `stats`, `groups`, `histogram` or `predict`.
    #[getter]
    fn kind(&self) -> &'static str {
        self.meta.job.kind()
    }

    /// Maximum number of rows, which the keys fix.
    #[getter]
    fn rows(&self) -> Result<usize> {
        Ok(self.meta.job.shape()?.0)
    }

    /// The number of columns, without target or key column.
    #[getter]
    fn features(&self) -> Result<usize> {
        Ok(self.meta.job.shape()?.1)
    }

    /// The number of ciphertexts, without names and ranges of columns.
    #[getter]
    fn blocks(&self) -> u64 {
        // A damaged label may claim more ciphertexts of the note than the file has.
        self.info.count.saturating_sub(self.meta.note.into())
    }

    /// Fingerprint of the key pair, in hexadecimal.
    #[getter]
    fn key_id(&self) -> String {
        self.info.key_id.to_string()
    }

    /// Size of the file in bytes.
    #[getter]
    fn nbytes(&self) -> u64 {
        self.info.bytes
    }

    /// The file of the table, or None.
    #[getter]
    fn path(&self) -> Option<&Path> {
        self.source.path()
    }

    /// Computes the statistics that the table was encrypted for.
    #[pyo3(signature = (keys, progress=None))]
    fn compute(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = keys::evaluation)] keys: PyRef<'_, EvaluationKeys>,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> Result<TableResult> {
        if let Job::Train(_) | Job::Predict(_) = self.meta.job {
            let found = format!("a table that was encrypted for {}", self.meta.job);
            return Err(other_job(&found, "a table for statistics, groups or histograms"));
        }
        let open = session(&[self], &keys)?;
        let bytes = job::run(py, progress, move |progress| {
            let session = open()?;
            progress.start("computing", session.plan.outputs());
            let result = session.statistics(|done| progress.set(done))?;
            result_bytes(&session, result, &session.meta_of_result(), Content::Statistics)
        })?;
        TableResult::new(Memory::new(py, bytes), Path::new(IN_MEMORY))
    }

    /// Scores the rows by a model, which is encrypted or JSON.
    #[pyo3(signature = (keys, model, progress=None))]
    fn score(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = keys::evaluation)] keys: PyRef<'_, EvaluationKeys>,
        model: AnyModel<'_>,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> Result<TableResult> {
        // The model is read in the job, because an encrypted one is checked against keys and rows.
        let read: Box<ReadModel> = match model {
            AnyModel::Encrypted(model) => {
                let file = model.opened()?;
                Box::new(move |session, plan| {
                    Ok(scoring::AnyModel::encrypted(file, session, plan)?)
                })
            }
            AnyModel::Plain(text) => {
                let model = model_from(&text)?;
                Box::new(move |_, plan| Ok(scoring::AnyModel::plain(&model, plan)?))
            }
        };
        let open = session(&[self], &keys)?;
        let bytes = job::run(py, progress, move |progress| {
            let session = open()?;
            let Plan::Predict(plan) = &session.plan else {
                let found = format!("a table that was encrypted for {}", session.meta.job);
                return Err(other_job(&found, "rows that were encrypted to be scored"));
            };
            let model = read(&session, plan)?;
            progress.start("scoring", plan.groups());
            let scores = session.scores(plan, model.weights(), |done| progress.set(done))?;
            let (items, meta) = model.results(scores, &session);
            file_bytes(&session, &items, &meta, Content::Scores)
        })?;
        TableResult::new(Memory::new(py, bytes), Path::new(IN_MEMORY))
    }

    fn __reduce_ex__<'py>(slf: &Bound<'py, Self>, protocol: i32) -> Result<Reduced<'py>> {
        Ok(slf.get().source.reduce(&slf.get_type(), protocol)?)
    }

    fn __repr__(&self) -> String {
        let megabytes = self.info.bytes as f64 / 1e6;
        let job = &self.meta.job;
        let key = self.info.key_id;
        let place = self.source.place();
        format!("EncryptedTable({job}, {megabytes:.1} MB in {place}, key_id={key})")
    }
}

impl Table {
    /// Writes a table with `write`, to a file or in memory.
    pub(crate) fn written(
        py: Python<'_>,
        path: Option<PathBuf>,
        overwrite: bool,
        progress: Option<&Bound<'_, PyAny>>,
        write: impl FnOnce(&Progress, &mut dyn Write, &Path) -> Result<()> + Send + 'static,
    ) -> Result<Self> {
        let Some(path) = path else {
            let bytes = job::run(py, progress, move |progress| {
                let mut bytes = Vec::new();
                write(progress, &mut bytes, Path::new(IN_MEMORY))?;
                Ok(bytes)
            })?;
            return Self::in_memory(Memory::new(py, bytes));
        };
        job::run(py, progress, move |progress| {
            let mut file = NewFile::create(&path, Access::Shared, overwrite)?;
            write(progress, &mut file, &path)?;
            file.finish()?;
            Self::in_file(&path, None)
        })
    }

    fn in_memory(memory: Memory) -> Result<Self> {
        let (info, meta) = header(in_memory(&memory, Path::new(IN_MEMORY))?, &[Content::Table])?;
        Ok(Self { source: Source::Memory(memory), info, meta })
    }

    fn in_file(path: &Path, pickled: Option<(&str, u64)>) -> Result<Self> {
        let (fingerprint, file) = Fingerprint::open(path, pickled)?;
        let opened = Opened::new(BufReader::new(file), fingerprint.bytes, path)?;
        let (info, meta) = header(opened, &[Content::Table])?;
        Ok(Self { source: Source::File(fingerprint), info, meta })
    }

    /// Returns the digest of the file.
    pub(crate) fn digest(&self) -> Result<[u8; 32]> {
        self.source.digest()
    }

    /// Returns the name of the file in messages.
    fn place(&self) -> String {
        self.source.name().display().to_string()
    }

    /// Returns a function that reads ciphertexts of the table under its parameters.
    pub(crate) fn reader(
        &self,
    ) -> impl FnOnce(&Params, Range<usize>) -> Result<Vec<Ciphertext>> + Send + use<> {
        let path = self.source.name().to_owned();
        let open = self.source.opener();
        let bytes = self.info.bytes;
        let note = self.meta.note;
        move |params, numbers| {
            let table = Opened::new(open()?, bytes, &path)?.into_stored(params, note)?;
            Ok(table.read(numbers)?)
        }
    }
}

/// Returns a function that makes a server ready to compute with tables.
pub(crate) fn session(
    tables: &[&Table],
    keys: &EvaluationKeys,
) -> Result<impl FnOnce() -> Result<Session<Input>> + Send + use<>> {
    let digests = tables.iter().map(|table| table.digest()).collect::<Result<_>>()?;
    let origin = Origin::new(keys.digest()?, digests);
    let sources = tables
        .iter()
        .map(|table| (table.source.name().to_owned(), table.source.opener(), table.info.bytes));
    let sources: Vec<_> = sources.collect();
    let set = keys.set.clone();
    let watch = keys.watch.clone();
    let keys = Arc::clone(&keys.keys);
    Ok(move || {
        let sources = sources.into_iter();
        let tables = sources.map(|(path, open, bytes)| Ok(Opened::new(open()?, bytes, &path)?));
        let tables = tables.collect::<Result<_>>()?;
        let id = keys.id();
        let read = || Ok((keys, watch));
        Ok(Session::new(tables, &set.params, &set.label, id, origin, read)?)
    })
}

/// A model that rows are scored by.
#[derive(FromPyObject)]
enum AnyModel<'py> {
    Encrypted(PyRef<'py, TableResult>),
    /// A model in the clear, as JSON.
    Plain(String),
}

/// Reads a model that suits rows and their plan.
type ReadModel = dyn FnOnce(&Session<Input>, &ScorePlan) -> Result<scoring::AnyModel> + Send;

/// Reads the header of a file of ciphertexts.
fn header<R: Read>(file: Opened<R>, contents: &[Content]) -> Result<(Info, Meta)> {
    let file = file.expect(Kind::Ciphertexts)?;
    let (_, meta) = file.meta(contents)?;
    Ok((file.info().clone(), meta))
}

/// Opens a file in memory. Messages call it `path`.
pub(crate) fn in_memory(memory: &Memory, path: &Path) -> Result<Opened<Cursor<Mapping>>> {
    let bytes = memory.mapping();
    let length = bytes.len() as u64;
    Ok(Opened::new(Cursor::new(bytes), length, path)?)
}

/// Returns the file of a result with the note of its table.
pub(crate) fn result_bytes(
    session: &Session<Input>,
    result: Vec<Ciphertext>,
    meta: &Meta,
    content: Content,
) -> Result<Vec<u8>> {
    file_bytes(session, &session.with_note(result), meta, content)
}

/// Returns the file of a result.
fn file_bytes(
    session: &Session<Input>,
    items: &[Ciphertext],
    meta: &Meta,
    content: Content,
) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    session.write_to(&mut bytes, Path::new(IN_MEMORY), items, meta, content)?;
    Ok(bytes)
}

/// Reads a model from JSON of Python.
pub(crate) fn model_from(text: &str) -> Result<Model> {
    from_json::<Model>(text)?.checked().map_err(malformed)
}

pub(crate) fn other_job(found: &str, needed: &str) -> Error {
    Error::OtherJob { found: found.into(), needed: needed.into() }
}

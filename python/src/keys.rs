//! Keys as separate values: public, for evaluation, secret.

use crate::{
    error::{Error, Result},
    job,
    plan::{Parameters, Plan},
    table::TablePlan,
};
use pyo3::{
    prelude::*,
    pybacked::PyBackedBytes,
    types::{PyBytes, PyMemoryView, PyTuple},
};
use std::{
    fs::File,
    io::{self, Cursor, Read, Write},
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};
use sudare::{
    ckks::{
        Decryptor,
        serial::{self, Kind, Reader},
    },
    rlwe::{self, KeyGenerator, KeyId, KeyRequest, ParamsId},
};
use sudare_arith::mem::Mapping;
use sudare_cli::{
    error::Error as Engine,
    files::{self, Access, NewFile, Watch},
};

/// Encrypts. May be given to anybody.
#[pyclass(frozen, module = "sudare")]
pub struct PublicKey {
    pub(crate) set: Parameters,
    pub(crate) key: Arc<rlwe::PublicKey>,
}

/// Computes on what was encrypted. For the server.
#[pyclass(frozen, module = "sudare")]
pub struct EvaluationKeys {
    pub(crate) set: Parameters,
    pub(crate) keys: Arc<rlwe::EvaluationKeys>,
    source: Source,
    /// Of the file that they are mapped from, if they are.
    pub(crate) watch: Option<Arc<Watch>>,
}

/// Decrypts. For the owner alone.
#[pyclass(frozen, module = "sudare")]
pub struct SecretKey {
    pub(crate) set: Parameters,
    pub(crate) decryptor: Arc<Decryptor>,
}

/// Where a file is that is read when it is needed: of evaluation keys, whose first halves stay in
/// it, or of a table.
pub enum Source {
    Memory(Py<PyBytes>),
    File(Fingerprint),
}

impl Source {
    /// The digest of the file.
    pub fn digest(&self, py: Python<'_>) -> Result<[u8; 32]> {
        match self {
            Self::Memory(bytes) => {
                let file = PyBackedBytes::from(bytes.bind(py).clone());
                let length = file.len() as u64;
                Ok(serial::digest(Cursor::new(file), length)?)
            }
            Self::File(file) => {
                let digest = blake3::Hash::from_hex(&file.digest);
                Ok(digest.map_err(|_| Error::Bug("a digest is not in hexadecimal"))?.into())
            }
        }
    }
}

/// A file and what was in it.
pub struct Fingerprint {
    pub(crate) path: PathBuf,
    pub(crate) digest: String,
    pub(crate) bytes: u64,
}

impl Fingerprint {
    /// Opens a file, which has the digest and the bytes of the one that was pickled if one was.
    pub fn open(path: &Path, pickled: Option<(&str, u64)>) -> Result<(Self, File)> {
        let (file, bytes) = files::open(path, Access::Shared)?;
        let path = std::path::absolute(path).map_err(|error| Engine::io("find", path, error))?;
        let changed = |problem| Err(Engine::FileChanged { path: path.clone(), problem }.into());
        if let Some((_, needed)) = pickled
            && needed != bytes
        {
            return changed(format!("it has {bytes} bytes instead of {needed}"));
        }
        let (again, _) = files::open(&path, Access::Shared)?;
        let digest = serial::digest(again.into_inner(), bytes).map_err(Error::at(Some(&path)))?;
        let digest = blake3::Hash::from(digest).to_string();
        if pickled.is_some_and(|(needed, _)| needed != digest) {
            return changed("its digest is another".into());
        }
        Ok((Self { path, digest, bytes }, file.into_inner()))
    }
}

/// A file of keys or ciphertexts in memory.
pub fn shared_bytes(data: &Bound<'_, PyAny>) -> PyResult<Py<PyBytes>> {
    if let Ok(bytes) = data.cast::<PyBytes>() {
        return Ok(bytes.clone().unbind());
    }
    let view = PyMemoryView::from(data)?;
    let bytes = data.py().get_type::<PyBytes>().call1((view,))?;
    Ok(bytes.cast_into::<PyBytes>().map_err(PyErr::from)?.unbind())
}

/// Refuses a file of anything else, and reads its parameters.
pub fn read_set<R: Read>(reader: &Reader<R>, needed: Kind) -> sudare::Result<Parameters> {
    let info = reader.info();
    if info.kind != needed {
        return Err(sudare::Error::WrongKind { found: info.kind, needed });
    }
    Parameters::new(reader.params()?, info.label.clone())
}

/// Writes a file that is whole or absent.
pub fn save(
    path: &Path,
    access: Access,
    overwrite: bool,
    write: impl FnOnce(&mut NewFile) -> sudare::Result<u64>,
) -> Result<()> {
    let mut file = NewFile::create(path, access, overwrite)?;
    write(&mut file).map_err(Error::at(Some(path)))?;
    Ok(file.finish()?)
}

/// Refuses keys whose file was changed while it was mapped, if they are mapped: before and after
/// they are used.
pub fn check(watch: Option<&Watch>) -> Result<()> {
    Ok(watch.map_or(Ok(()), Watch::check)?)
}

/// Fills memory of Python's, looking for signals now and then.
struct Filling<'a> {
    rest: &'a mut [u8],
    next_look: Instant,
}

impl Write for Filling<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if Instant::now() >= self.next_look {
            Python::attach(|py| py.check_signals()).map_err(io::Error::other)?;
            self.next_look = Instant::now() + Duration::from_millis(50);
        }
        let (part, rest) = core::mem::take(&mut self.rest).split_at_mut(bytes.len());
        part.copy_from_slice(bytes);
        self.rest = rest;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Calls `write`, which writes so many bytes, on a new object of Python's.
pub fn fill_bytes(
    py: Python<'_>,
    len: u64,
    write: impl FnOnce(&mut (dyn Write + Send)) -> sudare::Result<u64> + Send,
) -> Result<Py<PyBytes>> {
    let len = usize::try_from(len).map_err(|_| Error::Bug("a file is larger than memory"))?;
    let bytes = PyBytes::new_with(py, len, |rest| {
        job::detached(py, || Ok(write(&mut Filling { rest, next_look: Instant::now() })?))?;
        // A signal that came while the lock was released, if writing did not see it.
        py.check_signals()
    })?;
    Ok(bytes.unbind())
}

/// How an object of `class` is pickled: `constructor` is called with the bytes, which protocol 5
/// can send beside the pickle.
pub fn reduce<'py>(
    constructor: Bound<'py, PyAny>,
    bytes: Bound<'py, PyBytes>,
    protocol: i32,
) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
    let py = constructor.py();
    let argument = match protocol {
        5.. => py.import("pickle")?.getattr("PickleBuffer")?.call1((bytes,))?,
        _ => bytes.into_any(),
    };
    Ok((constructor, PyTuple::new(py, [argument])?))
}

/// Any key.
#[derive(FromPyObject)]
pub enum AnyKey<'py> {
    Public(PyRef<'py, PublicKey>),
    Evaluation(PyRef<'py, EvaluationKeys>),
    Secret(PyRef<'py, SecretKey>),
}

impl AnyKey<'_> {
    /// The parameters, and what the key says of itself.
    pub fn set(&self) -> &Parameters {
        match self {
            Self::Public(key) => &key.set,
            Self::Evaluation(keys) => &keys.set,
            Self::Secret(key) => &key.set,
        }
    }

    /// What it is, the parameters and the key pair.
    fn identity(&self) -> (&'static str, ParamsId, KeyId) {
        let (what, id) = match self {
            Self::Public(key) => ("public key", key.key.id()),
            Self::Evaluation(keys) => ("set of evaluation keys", keys.keys.id()),
            Self::Secret(key) => ("secret key", key.decryptor.key_id()),
        };
        (what, self.set().params.rlwe().id(), id)
    }
}

/// Refuses a `key` of other parameters or of another pair than `first`.
#[pyfunction]
pub fn check_pair(first: AnyKey<'_>, key: AnyKey<'_>) -> Result<()> {
    let ((_, params, id), (what, own_params, own_id)) = (first.identity(), key.identity());
    if own_params != params {
        let (found, expected) = (own_params, params);
        return Err(sudare::Error::ParamsMismatch { what, found, expected }.into());
    }
    if own_id != id {
        let (found, expected) = (own_id, id);
        return Err(sudare::Error::KeyMismatch { what, found, expected }.into());
    }
    Ok(())
}

/// What keys are made for.
#[derive(FromPyObject)]
pub enum AnyPlan<'py> {
    Arrays(PyRef<'py, Plan>),
    Table(PyRef<'py, TablePlan>),
}

impl AnyPlan<'_> {
    fn keys(&self) -> (Parameters, KeyRequest) {
        match self {
            Self::Arrays(plan) => (plan.set.clone(), plan.request.clone()),
            Self::Table(plan) => (plan.set.clone(), plan.plan.required_keys().clone()),
        }
    }
}

/// Keys for a plan: public, for evaluation, secret.
///
/// The evaluation keys are made as their file in memory, which is what pickle then sends.
#[pyfunction]
#[pyo3(signature = (plan, progress=None))]
pub fn generate_keys(
    py: Python<'_>,
    plan: AnyPlan<'_>,
    progress: Option<&Bound<'_, PyAny>>,
) -> Result<(PublicKey, EvaluationKeys, SecretKey)> {
    let (set, needed) = plan.keys();
    let (params, request) = (set.params.clone(), needed.clone());
    let (public, small, secret) = job::run(py, progress, move |progress| {
        progress.start("evaluation keys", request.count());
        // Their uniform halves are expanded when the file is read.
        let mut generator = KeyGenerator::new(params.rlwe())?.small_keys(true);
        let secret = generator.secret_key()?;
        let public = generator.public_key(&secret)?;
        let keys = generator.evaluation_keys_with(&secret, &request, |made| progress.set(made))?;
        Ok((public, keys, Decryptor::new(&params, secret)?))
    })?;
    let bytes = serial::evaluation_keys_bytes(&set.params, &needed, &set.label)?;
    let bytes = fill_bytes(py, bytes, |mut out| {
        serial::write_evaluation_keys(&mut out, &set.params, &small, &set.label)
    })?;
    drop(small);
    let evaluation = EvaluationKeys::from_memory(py, bytes, Some(set.clone()))?;
    let public = PublicKey { set: set.clone(), key: Arc::new(public) };
    Ok((public, evaluation, SecretKey { set, decryptor: Arc::new(secret) }))
}

#[pymethods]
impl PublicKey {
    /// The key in the file at `path`.
    #[staticmethod]
    fn open(py: Python<'_>, path: PathBuf) -> Result<Self> {
        job::run(py, None, move |_| {
            let (file, bytes) = files::open(&path, Access::Shared)?;
            Self::read(Reader::new(file, bytes)).map_err(Error::at(Some(&path)))
        })
    }

    /// The key that `to_bytes` gave.
    #[staticmethod]
    fn from_bytes(data: &Bound<'_, PyAny>) -> Result<Self> {
        let (py, bytes) = (data.py(), shared_bytes(data)?);
        let file = PyBackedBytes::from(bytes.bind(py).clone());
        job::run(py, None, move |_| {
            Self::read(Reader::shared(Mapping::shared(file))).map_err(Error::from)
        })
    }

    /// The key as the bytes of its file.
    fn to_bytes(&self, py: Python<'_>) -> Result<Py<PyBytes>> {
        let mut file = Vec::new();
        job::detached(py, || Ok(self.write(&mut file)?))?;
        Ok(PyBytes::new(py, &file).unbind())
    }

    /// Writes the key to a file.
    #[pyo3(signature = (path, *, overwrite=false))]
    fn save(&self, py: Python<'_>, path: PathBuf, overwrite: bool) -> Result<()> {
        job::detached(py, || save(&path, Access::Shared, overwrite, |file| self.write(file)))
    }

    /// The key pair, in hexadecimal.
    #[getter]
    fn key_id(&self) -> String {
        self.key.id().to_string()
    }

    #[getter]
    fn _parameters(&self) -> Parameters {
        self.set.clone()
    }

    fn __reduce_ex__<'py>(
        slf: &Bound<'py, Self>,
        protocol: i32,
    ) -> Result<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        let bytes = slf.get().to_bytes(slf.py())?.into_bound(slf.py());
        Ok(reduce(slf.get_type().getattr("from_bytes")?, bytes, protocol)?)
    }

    fn __repr__(&self) -> String {
        format!("PublicKey(key_id={}, params={})", self.key.id(), self.set.params.rlwe().id())
    }
}

impl PublicKey {
    fn read<R: Read>(reader: sudare::Result<Reader<R>>) -> sudare::Result<Self> {
        let reader = reader?;
        let set = read_set(&reader, Kind::PublicKey)?;
        let key = Arc::new(reader.public_key(&set.params)?);
        Ok(Self { set, key })
    }

    fn write(&self, out: &mut impl Write) -> sudare::Result<u64> {
        serial::write_public_key(out, &self.set.params, &self.key, &self.set.label)
    }
}

#[pymethods]
impl SecretKey {
    /// The key in the file at `path`.
    #[staticmethod]
    fn open(py: Python<'_>, path: PathBuf) -> Result<Self> {
        job::run(py, None, move |_| {
            let (file, bytes) = files::open(&path, Access::Owner)?;
            let read = || {
                let reader = Reader::new(file, bytes)?;
                let set = read_set(&reader, Kind::SecretKey)?;
                let key = reader.secret_key(&set.params)?;
                let decryptor = Arc::new(Decryptor::new(&set.params, key)?);
                Ok(Self { set, decryptor })
            };
            read().map_err(Error::at(Some(&path)))
        })
    }

    /// Writes the key to a file that the user alone may read.
    #[pyo3(signature = (path, *, overwrite=false))]
    fn save(&self, py: Python<'_>, path: PathBuf, overwrite: bool) -> Result<()> {
        job::detached(py, || {
            save(&path, Access::Owner, overwrite, |file| {
                let (params, key) = (&self.set.params, self.decryptor.key());
                serial::write_secret_key(file, params, key, &self.set.label)
            })
        })
    }

    /// The key pair, in hexadecimal. Says nothing about the key.
    #[getter]
    fn key_id(&self) -> String {
        self.decryptor.key_id().to_string()
    }

    #[getter]
    fn _parameters(&self) -> Parameters {
        self.set.clone()
    }

    fn __reduce_ex__(&self, _protocol: i32) -> Result<()> {
        Err(Error::SecretKeyPickle)
    }

    fn __repr__(&self) -> String {
        format!("SecretKey(key_id={}, ...)", self.decryptor.key_id())
    }
}

#[pymethods]
impl EvaluationKeys {
    /// The keys in the file at `path`, of which half stays in it; `small` keys leave the other
    /// half out of memory, too, and compute it when it is used.
    #[staticmethod]
    #[pyo3(signature = (path, *, small=false))]
    fn open(py: Python<'_>, path: PathBuf, small: bool) -> Result<Self> {
        job::run(py, None, move |_| Self::open_file(&path, small, None))
    }

    /// As `open`, of the file that was pickled.
    #[staticmethod]
    fn _reopen(py: Python<'_>, path: PathBuf, digest: String, bytes: u64) -> Result<Self> {
        job::run(py, None, move |_| Self::open_file(&path, false, Some((&digest, bytes))))
    }

    /// The keys that `to_bytes` gave.
    #[staticmethod]
    fn from_bytes(data: &Bound<'_, PyAny>) -> Result<Self> {
        Self::from_memory(data.py(), shared_bytes(data)?, None)
    }

    /// The keys as the bytes of their file.
    fn to_bytes(&self, py: Python<'_>) -> Result<Py<PyBytes>> {
        match &self.source {
            Source::Memory(bytes) => Ok(bytes.clone_ref(py)),
            Source::File(_) => {
                check(self.watch.as_deref())?;
                fill_bytes(py, self.file_bytes()?, |mut out| self.write(&mut out))
            }
        }
    }

    /// Writes the keys to a file.
    #[pyo3(signature = (path, *, overwrite=false))]
    fn save(&self, py: Python<'_>, path: PathBuf, overwrite: bool) -> Result<()> {
        check(self.watch.as_deref())?;
        job::detached(py, || save(&path, Access::Shared, overwrite, |file| self.write(file)))
    }

    /// The key pair, in hexadecimal.
    #[getter]
    fn key_id(&self) -> String {
        self.keys.id().to_string()
    }

    /// Bytes of their file.
    #[getter]
    fn nbytes(&self) -> Result<u64> {
        Ok(self.file_bytes()?)
    }

    /// The file that they stay in, or None.
    #[getter]
    fn path(&self) -> Option<&Path> {
        match &self.source {
            Source::Memory(_) => None,
            Source::File(file) => Some(&file.path),
        }
    }

    /// How many keys they are.
    fn __len__(&self) -> usize {
        self.keys.fulfils().count()
    }

    #[getter]
    fn _parameters(&self) -> Parameters {
        self.set.clone()
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

    fn __repr__(&self) -> Result<String> {
        let place = match &self.source {
            Source::Memory(_) => "memory".into(),
            Source::File(file) => format!("{:?}", file.path),
        };
        Ok(format!(
            "EvaluationKeys({} keys, {:.1} MB in {place}, key_id={}, params={})",
            self.__len__(),
            self.file_bytes()? as f64 / 1e6,
            self.keys.id(),
            self.set.params.rlwe().id()
        ))
    }
}

impl EvaluationKeys {
    /// The digest of their file.
    pub(crate) fn digest(&self, py: Python<'_>) -> Result<[u8; 32]> {
        self.source.digest(py)
    }

    fn file_bytes(&self) -> sudare::Result<u64> {
        serial::evaluation_keys_bytes(&self.set.params, &self.keys.fulfils(), &self.set.label)
    }

    fn write(&self, out: &mut (impl Write + ?Sized)) -> sudare::Result<u64> {
        serial::write_evaluation_keys(out, &self.set.params, &self.keys, &self.set.label)
    }

    fn from_memory(py: Python<'_>, bytes: Py<PyBytes>, set: Option<Parameters>) -> Result<Self> {
        let file = PyBackedBytes::from(bytes.bind(py).clone());
        let (set, keys) = job::run(py, None, move |_| {
            let reader = Reader::shared(Mapping::shared(file))?;
            let set = set.map_or_else(|| read_set(&reader, Kind::EvaluationKeys), Ok)?;
            let keys = reader.evaluation_keys(&set.params)?;
            Ok((set, Arc::new(keys)))
        })?;
        Ok(Self { set, keys, source: Source::Memory(bytes), watch: None })
    }

    /// Maps a file, which has the digest and the bytes of the one that was pickled if one was.
    fn open_file(path: &Path, small: bool, pickled: Option<(&str, u64)>) -> Result<Self> {
        let (fingerprint, file) = Fingerprint::open(path, pickled)?;
        let watch = Some(Arc::new(Watch::new(&fingerprint.path, &file)?));
        let read = || {
            let reader = Reader::mapped(&file)?.small_keys(small);
            let set = read_set(&reader, Kind::EvaluationKeys)?;
            let keys = Arc::new(reader.evaluation_keys(&set.params)?);
            Ok((set, keys))
        };
        let (set, keys) = read().map_err(Error::at(Some(&fingerprint.path)))?;
        Ok(Self { set, keys, source: Source::File(fingerprint), watch })
    }
}

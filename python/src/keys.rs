//! Keys as separate values: public, for evaluation, secret.

use crate::{
    error::{Error, Result},
    job::{self, Progress},
    plan::{Parameters, Plan, security_warning},
    source::{Fingerprint, Memory, Reduced, Source, reduce, save},
    table::TablePlan,
};
use pyo3::{prelude::*, types::PyBytes};
use std::{
    io::{Cursor, Read},
    path::{Path, PathBuf},
    sync::Arc,
};
use sudare::{
    ckks::{
        Decryptor, Params,
        serial::{self, Kind, Label, Reader},
    },
    rlwe::{self, KeyGenerator, KeyId, KeyRequest, ParamsId},
};
use sudare_roles::{
    error::Error as Engine,
    files::{self, Access, NewFile, Watch},
    key::Key,
    ledger::Ledger,
    opened,
    sealed::Passphrase,
    secret::{self, SecretFile},
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
    /// Of its releases: beside the file that it is in, or in memory.
    ledger: Arc<Ledger>,
}

/// Refuses a file of anything else, and reads its parameters.
pub fn read_set<R: Read>(reader: &Reader<R>, needed: Kind) -> sudare::Result<Parameters> {
    let info = reader.info();
    if info.kind != needed {
        return Err(sudare::Error::WrongKind { found: info.kind, needed });
    }
    Parameters::new(reader.params()?, info.label.clone())
}

/// Refuses keys whose file was changed while it was mapped, if they are mapped: before and after
/// they are used.
pub fn check(watch: Option<&Watch>) -> Result<()> {
    Ok(watch.map_or(Ok(()), Watch::check)?)
}

/// A key that encrypts tables.
#[derive(FromPyObject)]
pub enum EncryptionKey<'py> {
    Public(PyRef<'py, PublicKey>),
    Secret(PyRef<'py, SecretKey>),
}

impl EncryptionKey<'_> {
    /// The parameters, and what the key says of itself.
    pub fn set(&self) -> &Parameters {
        match self {
            Self::Public(key) => &key.set,
            Self::Secret(key) => &key.set,
        }
    }

    /// What messages call it.
    pub fn what(&self) -> &'static str {
        match self {
            Self::Public(_) => "the public key",
            Self::Secret(_) => "the secret key",
        }
    }

    /// The key itself.
    pub fn key(&self) -> Key {
        match self {
            Self::Public(key) => Key::Public(Arc::clone(&key.key)),
            Self::Secret(key) => Key::Secret(Arc::clone(key.decryptor.key())),
        }
    }
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

/// Refuses a `key` of other parameters or of another pair than `first`, and a public one that only
/// says that it belongs to a secret one.
#[pyfunction]
pub fn check_pair(py: Python<'_>, first: AnyKey<'_>, key: AnyKey<'_>) -> Result<()> {
    let ((_, params, id), (what, own_params, own_id)) = (first.identity(), key.identity());
    if own_params != params {
        let (found, expected) = (own_params, params);
        return Err(sudare::Error::ParamsMismatch { what, found, expected }.into());
    }
    if own_id != id {
        let (found, expected) = (own_id, id);
        return Err(sudare::Error::KeyMismatch { what, found, expected }.into());
    }
    match (first, key) {
        (AnyKey::Secret(secret), AnyKey::Public(public))
        | (AnyKey::Public(public), AnyKey::Secret(secret)) => {
            let (params, decryptor) = (secret.set.params.clone(), Arc::clone(&secret.decryptor));
            let public = Arc::clone(&public.key);
            job::run(py, None, move |_| Ok(secret::expect_pair(&params, &decryptor, public)?))
        }
        _ => Ok(()),
    }
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

/// The key in a file, which is sealed by a passphrase or in clear.
pub(crate) fn unsealed(
    file: SecretFile,
    params: &Params,
    passphrase: Option<String>,
) -> Result<rlwe::SecretKey> {
    let path = file.opened().path().to_owned();
    Ok(file.key(params, || needed_passphrase(&path, passphrase))?)
}

/// The passphrase of a file that is sealed.
pub(crate) fn needed_passphrase(
    path: &Path,
    text: Option<String>,
) -> sudare_roles::error::Result<Passphrase> {
    let text = text.ok_or_else(|| Engine::Sealed { path: path.into() })?;
    Ok(Passphrase::new(text.into_bytes())?)
}

/// The passphrase to seal a file by, if one is given.
pub(crate) fn given_passphrase(text: Option<String>) -> Result<Option<Passphrase>> {
    let passphrase = text.map(|text| Passphrase::new(text.into_bytes()));
    Ok(passphrase.transpose().map_err(Engine::from)?)
}

/// Writes a secret key to a file that the user alone may read, sealed by a passphrase if one is given.
pub(crate) fn save_secret(
    (path, overwrite): (&Path, bool),
    (params, label, key): (&Params, &Label, &rlwe::SecretKey),
    passphrase: Option<String>,
    progress: &Progress,
) -> Result<()> {
    let passphrase = given_passphrase(passphrase)?;
    let mut file = NewFile::create(path, Access::Owner, overwrite)?;
    let out = &mut progress.watch(&mut file);
    secret::write((out, path), (params, key), label, passphrase.as_ref())?;
    Ok(file.finish()?)
}

/// The file of evaluation keys.
pub(crate) fn evaluation_key_file(
    params: &Params,
    keys: &rlwe::EvaluationKeys,
    label: &Label,
    progress: &Progress,
) -> Result<Vec<u8>> {
    let bytes = serial::evaluation_keys_bytes(params, &keys.fulfils(), label)?;
    let bytes = usize::try_from(bytes).map_err(|_| Error::Bug("a file exceeds memory"))?;
    let mut file = Vec::with_capacity(bytes);
    serial::write_evaluation_keys(&mut progress.watch(&mut file), params, keys, label)?;
    Ok(file)
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
    let (set, request) = plan.keys();
    let (params, label) = (set.params.clone(), set.label.clone());
    let (public, file, secret) = job::run(py, progress, move |progress| {
        progress.start("evaluation keys", request.count());
        // Their uniform halves are expanded when the file is read.
        let mut generator = KeyGenerator::new(params.rlwe())?.small_keys(true);
        let secret = generator.secret_key()?;
        let public = generator.public_key(&secret)?;
        let keys = generator.evaluation_keys_with(&secret, &request, |made| progress.set(made))?;
        let file = evaluation_key_file(&params, &keys, &label, progress)?;
        Ok((public, file, Decryptor::new(&params, secret)?))
    })?;
    let evaluation = EvaluationKeys::from_memory(py, Memory::new(py, file), Some(set.clone()))?;
    let public = PublicKey { set: set.clone(), key: Arc::new(public) };
    let ledger = Ledger::in_memory(set.params.rlwe().id(), secret.key_id());
    Ok((public, evaluation, SecretKey::new(set, secret, ledger)))
}

#[pymethods]
impl PublicKey {
    /// The key in the file at `path`.
    #[staticmethod]
    fn open(py: Python<'_>, path: PathBuf) -> Result<Self> {
        let key = job::run(py, None, move |_| {
            let (file, bytes) = files::open(&path, Access::Shared)?;
            Self::read(Reader::new(file, bytes)).map_err(Error::at(Some(&path)))
        })?;
        key.set.warn_if_insecure(py, 1)?;
        Ok(key)
    }

    /// The key that `to_bytes` gave.
    #[staticmethod]
    fn from_bytes(data: &Bound<'_, PyAny>) -> Result<Self> {
        let file = Memory::from_python(data)?.mapping();
        let read = move |_: &_| Self::read(Reader::shared(file)).map_err(Error::from);
        let key = job::run(data.py(), None, read)?;
        key.set.warn_if_insecure(data.py(), 1)?;
        Ok(key)
    }

    /// The key as the bytes of its file.
    fn to_bytes(&self, py: Python<'_>) -> Result<Py<PyBytes>> {
        let mut file = Vec::new();
        let (set, key) = (&self.set, &self.key);
        job::detached(py, || {
            Ok(serial::write_public_key(&mut file, &set.params, key, &set.label)?)
        })?;
        Ok(PyBytes::new(py, &file).unbind())
    }

    /// Writes the key to a file.
    #[pyo3(signature = (path, *, overwrite=false))]
    fn save(&self, py: Python<'_>, path: PathBuf, overwrite: bool) -> Result<()> {
        let (set, key) = (self.set.clone(), Arc::clone(&self.key));
        save(py, path, Access::Shared, overwrite, move |file| {
            serial::write_public_key(file, &set.params, &key, &set.label)
        })
    }

    /// The key pair, in hexadecimal.
    #[getter]
    fn key_id(&self) -> String {
        self.key.id().to_string()
    }

    /// The digest of its file, in hexadecimal, as `sudare keygen` prints it.
    #[getter]
    fn digest(&self, py: Python<'_>) -> Result<String> {
        job::detached(py, || {
            let mut file = Vec::new();
            serial::write_public_key(&mut file, &self.set.params, &self.key, &self.set.label)?;
            let bytes = file.len() as u64;
            Ok(blake3::Hash::from(serial::digest(Cursor::new(file), bytes)?).to_string())
        })
    }

    #[getter]
    fn _parameters(&self) -> Parameters {
        self.set.clone()
    }

    fn __reduce_ex__<'py>(slf: &Bound<'py, Self>, protocol: i32) -> Result<Reduced<'py>> {
        let bytes = slf.get().to_bytes(slf.py())?.into_bound(slf.py());
        Ok(reduce(&slf.get_type(), bytes, protocol)?)
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
}

#[pymethods]
impl SecretKey {
    /// The key in the file at `path`, which is sealed by a passphrase or in clear.
    #[staticmethod]
    #[pyo3(signature = (path, *, passphrase=None))]
    fn open(py: Python<'_>, path: PathBuf, passphrase: Option<String>) -> Result<Self> {
        let (key, warning) = job::run(py, None, move |_| {
            let file = SecretFile::open(&path)?;
            let (warning, label) = (file.warning(), file.opened().info().label.clone());
            let set = Parameters::new(file.opened().params()?, label)?;
            let key = unsealed(file, &set.params, passphrase)?;
            let decryptor = Decryptor::new(&set.params, key)?;
            let ledger = Ledger::beside(&path, set.params.rlwe().id(), decryptor.key_id())?;
            Ok((Self::new(set, decryptor, ledger), warning))
        })?;
        if let Some(warning) = warning {
            security_warning(py, warning, 1)?;
        }
        key.set.warn_if_insecure(py, 1)?;
        Ok(key)
    }

    /// Writes the key to a file that the user alone may read, sealed by a passphrase if one is
    /// given. Releases that were counted so far are counted beside that file, too; those of a key that
    /// was in memory only are so from then on.
    #[pyo3(signature = (path, *, overwrite=false, passphrase=None))]
    fn save(
        &self,
        py: Python<'_>,
        path: PathBuf,
        overwrite: bool,
        passphrase: Option<String>,
    ) -> Result<()> {
        let (set, decryptor) = (self.set.clone(), Arc::clone(&self.decryptor));
        let ledger = self.ledger();
        job::run(py, None, move |progress| {
            save_secret(
                (&path, overwrite),
                (&set.params, &set.label, decryptor.key().as_ref()),
                passphrase,
                progress,
            )?;
            Ok(ledger.copy_beside(&path)?)
        })
    }

    /// Results that others have seen: releases that were counted, and the most that there may be.
    #[getter]
    fn releases(&self, py: Python<'_>) -> Result<(u64, u64)> {
        let entries = job::detached(py, || Ok(self.ledger.entries()?))?;
        Ok((entries.counted(), entries.limit))
    }

    /// The file that releases are counted in; None if the key, and so their number, is in memory only.
    #[getter]
    fn ledger_path(&self) -> Option<PathBuf> {
        self.ledger.path()
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
        let keys = job::run(py, None, move |_| Self::open_file(&path, small, None))?;
        keys.set.warn_if_insecure(py, 1)?;
        Ok(keys)
    }

    /// As `open`, of the file that was pickled.
    #[staticmethod]
    fn _reopen(py: Python<'_>, path: PathBuf, digest: String, bytes: u64) -> Result<Self> {
        let open = move |_: &_| Self::open_file(&path, false, Some((&digest, bytes)));
        let keys = job::run(py, None, open)?;
        keys.set.warn_if_insecure(py, 1)?;
        Ok(keys)
    }

    /// The keys that `to_bytes` gave.
    #[staticmethod]
    fn from_bytes(data: &Bound<'_, PyAny>) -> Result<Self> {
        let keys = Self::from_memory(data.py(), Memory::from_python(data)?, None)?;
        keys.set.warn_if_insecure(data.py(), 1)?;
        Ok(keys)
    }

    /// The keys as the bytes of their file.
    fn to_bytes(&self, py: Python<'_>) -> Result<Py<PyBytes>> {
        match &self.source {
            Source::Memory(memory) => Ok(memory.to_bytes(py)),
            Source::File(_) => {
                check(self.watch.as_deref())?;
                let (set, keys) = (self.set.clone(), Arc::clone(&self.keys));
                let file = job::run(py, None, move |progress| {
                    evaluation_key_file(&set.params, &keys, &set.label, progress)
                })?;
                check(self.watch.as_deref())?;
                Ok(PyBytes::new(py, &file).unbind())
            }
        }
    }

    /// Writes the keys to a file.
    #[pyo3(signature = (path, *, overwrite=false))]
    fn save(&self, py: Python<'_>, path: PathBuf, overwrite: bool) -> Result<()> {
        check(self.watch.as_deref())?;
        let (set, keys) = (self.set.clone(), Arc::clone(&self.keys));
        save(py, path, Access::Shared, overwrite, move |file| {
            serial::write_evaluation_keys(file, &set.params, &keys, &set.label)
        })
    }

    /// The key pair, in hexadecimal.
    #[getter]
    fn key_id(&self) -> String {
        self.keys.id().to_string()
    }

    /// The digest of their file, in hexadecimal, as `sudare keygen` prints it.
    #[getter(digest)]
    fn digest_text(&self) -> Result<String> {
        Ok(blake3::Hash::from(self.digest()?).to_string())
    }

    /// Bytes of their file.
    #[getter]
    fn nbytes(&self) -> Result<u64> {
        Ok(self.file_bytes()?)
    }

    /// The file that they stay in, or None.
    #[getter]
    fn path(&self) -> Option<&Path> {
        self.source.path()
    }

    /// How many keys they are.
    fn __len__(&self) -> usize {
        self.keys.fulfils().count()
    }

    #[getter]
    fn _parameters(&self) -> Parameters {
        self.set.clone()
    }

    fn __reduce_ex__<'py>(slf: &Bound<'py, Self>, protocol: i32) -> Result<Reduced<'py>> {
        Ok(slf.get().source.reduce(&slf.get_type(), protocol)?)
    }

    fn __repr__(&self) -> Result<String> {
        Ok(format!(
            "EvaluationKeys({} keys, {:.1} MB in {}, key_id={}, params={})",
            self.__len__(),
            self.file_bytes()? as f64 / 1e6,
            self.source.place(),
            self.keys.id(),
            self.set.params.rlwe().id()
        ))
    }
}

impl SecretKey {
    fn new(set: Parameters, decryptor: Decryptor, ledger: Ledger) -> Self {
        Self { set, decryptor: Arc::new(decryptor), ledger: Arc::new(ledger) }
    }

    pub(crate) fn ledger(&self) -> Arc<Ledger> {
        Arc::clone(&self.ledger)
    }

    /// Warns before the first release of a key that is in a file.
    pub(crate) fn warn_of_new_ledger(&self, py: Python<'_>) -> Result<()> {
        let Some(notice) = self.ledger.notice() else { return Ok(()) };
        Ok(security_warning(py, notice, 2)?)
    }
}

impl EvaluationKeys {
    /// The digest of their file.
    pub(crate) fn digest(&self) -> Result<[u8; 32]> {
        self.source.digest()
    }

    fn file_bytes(&self) -> sudare::Result<u64> {
        serial::evaluation_keys_bytes(&self.set.params, &self.keys.fulfils(), &self.set.label)
    }

    fn from_memory(py: Python<'_>, memory: Memory, set: Option<Parameters>) -> Result<Self> {
        let file = memory.mapping();
        let (set, keys) = job::run(py, None, move |_| {
            let reader = Reader::shared(file)?;
            let set = set.map_or_else(|| read_set(&reader, Kind::EvaluationKeys), Ok)?;
            let keys = reader.evaluation_keys(&set.params)?;
            Ok((set, Arc::new(keys)))
        })?;
        Ok(Self { set, keys, source: Source::Memory(memory), watch: None })
    }

    /// Maps a file, which has the digest and the bytes of the one that was pickled if one was.
    fn open_file(path: &Path, small: bool, pickled: Option<(&str, u64)>) -> Result<Self> {
        let (fingerprint, file) = Fingerprint::open(path, pickled)?;
        let watch = Arc::new(Watch::new(&fingerprint.path, &file)?);
        let read = || {
            let reader = Reader::shared(watch.mapping().clone())?.small_keys(small);
            let set = read_set(&reader, Kind::EvaluationKeys)?;
            let keys = Arc::new(reader.evaluation_keys(&set.params)?);
            Ok((set, keys))
        };
        let (set, keys) = read().map_err(opened::in_file(&fingerprint.path, Some(&watch)))?;
        Ok(Self { set, keys, source: Source::File(fingerprint), watch: Some(watch) })
    }
}

//! Keys of arrays of integers as separate values: public, for evaluation, secret.

use super::{IntegerParameters, IntegerPlan};
use crate::{
    error::{Error, Result},
    job::{self, Progress},
    keys::{check, given_passphrase, needed_passphrase},
    plan::security_warning,
    source::{Fingerprint, Memory, Reduced, Source, reduce, save},
};
use pyo3::{prelude::*, types::PyBytes};
use std::{
    io::{Cursor, Read},
    path::{Path, PathBuf},
    sync::Arc,
};
use sudare::{
    exact::{
        Decryptor,
        serial::{self, Kind, Reader},
    },
    rlwe::{self, KeyGenerator, KeyId, ParamsId},
};
use sudare_roles::{
    exact_files::{self, Secret},
    files::{self, Access, NewFile, Watch},
    opened,
};

/// Encrypts integers. May be given to anybody.
#[pyclass(frozen, module = "sudare")]
pub struct IntegerPublicKey {
    pub(crate) set: IntegerParameters,
    pub(crate) key: Arc<rlwe::PublicKey>,
}

/// Computes on integers that were encrypted. For the server.
#[pyclass(frozen, module = "sudare")]
pub struct IntegerEvaluationKeys {
    pub(crate) set: IntegerParameters,
    pub(crate) keys: Arc<rlwe::EvaluationKeys>,
    source: Source,
    /// Of the file that they are mapped from, if they are.
    pub(crate) watch: Option<Arc<Watch>>,
}

/// Decrypts integers. For the owner alone.
#[pyclass(frozen, module = "sudare")]
pub struct IntegerSecretKey {
    pub(crate) set: IntegerParameters,
    pub(crate) decryptor: Arc<Decryptor>,
}

/// Refuses a file of anything else, and reads its parameters.
fn read_set<R: Read>(reader: &Reader<R>, needed: Kind) -> sudare::Result<IntegerParameters> {
    let setting = exact_files::read_setting(reader, needed)?;
    Ok(IntegerParameters { setting, label: reader.info().label.clone() })
}

/// Any key.
#[derive(FromPyObject)]
pub enum AnyKey<'py> {
    Public(PyRef<'py, IntegerPublicKey>),
    Evaluation(PyRef<'py, IntegerEvaluationKeys>),
    Secret(PyRef<'py, IntegerSecretKey>),
}

impl AnyKey<'_> {
    /// What it is, its parameters and the key pair.
    pub(super) fn identity(&self) -> (&'static str, &IntegerParameters, KeyId) {
        match self {
            Self::Public(key) => ("public key", &key.set, key.key.id()),
            Self::Evaluation(keys) => ("set of evaluation keys", &keys.set, keys.keys.id()),
            Self::Secret(key) => ("secret key", &key.set, key.decryptor.key_id()),
        }
    }
}

/// Refuses a `key` of other parameters, of another scheme or of another pair than `first`, and a
/// public one that only says that it belongs to a secret one.
#[pyfunction]
pub fn check_integer_pair(py: Python<'_>, first: AnyKey<'_>, key: AnyKey<'_>) -> Result<()> {
    let ((_, set, id), (what, own_set, own_id)) = (first.identity(), key.identity());
    let params = |set: &IntegerParameters| -> ParamsId { set.setting.params().rlwe().id() };
    let (found, expected) = (params(own_set), params(set));
    if found != expected {
        return Err(sudare::Error::ParamsMismatch { what, found, expected }.into());
    }
    let arithmetic = |set: &IntegerParameters| (set.setting.scheme(), set.setting.is_signed());
    if arithmetic(own_set) != arithmetic(set) {
        let of = |set: &IntegerParameters| {
            let signed = if set.setting.is_signed() { "signed" } else { "unsigned" };
            format!("keys of {signed} integers for {}", set.setting.scheme())
        };
        return Err(Error::OtherJob { found: of(own_set), needed: of(set) });
    }
    if own_id != id {
        let (found, expected) = (own_id, id);
        return Err(sudare::Error::KeyMismatch { what, found, expected }.into());
    }
    match (first, key) {
        (AnyKey::Secret(secret), AnyKey::Public(public))
        | (AnyKey::Public(public), AnyKey::Secret(secret)) => {
            let (setting, decryptor) = (secret.set.setting.clone(), Arc::clone(&secret.decryptor));
            let public = Arc::clone(&public.key);
            job::run(py, None, move |_| Ok(exact_files::expect_pair(&setting, &decryptor, public)?))
        }
        _ => Ok(()),
    }
}

/// The file of evaluation keys.
fn evaluation_key_file(
    set: &IntegerParameters,
    keys: &rlwe::EvaluationKeys,
    progress: &Progress,
) -> Result<Vec<u8>> {
    let (params, label) = (set.setting.params(), &set.label);
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
pub fn generate_integer_keys(
    py: Python<'_>,
    plan: &IntegerPlan,
    progress: Option<&Bound<'_, PyAny>>,
) -> Result<(IntegerPublicKey, IntegerEvaluationKeys, IntegerSecretKey)> {
    let (set, request) = (plan.set.clone(), plan.request.clone());
    let own_set = set.clone();
    let (public, file, secret) = job::run(py, progress, move |progress| {
        progress.start("evaluation keys", request.count());
        let params = own_set.setting.params();
        // Their uniform halves are expanded when the file is read.
        let mut generator = KeyGenerator::new(params.rlwe())?.small_keys(true);
        let secret = generator.secret_key()?;
        let public = generator.public_key(&secret)?;
        let keys = generator.evaluation_keys_with(&secret, &request, |made| progress.set(made))?;
        let file = evaluation_key_file(&own_set, &keys, progress)?;
        Ok((public, file, Decryptor::new(params, Arc::new(secret))?))
    })?;
    let memory = Memory::new(py, file);
    let evaluation = IntegerEvaluationKeys::from_memory(py, memory, Some(set.clone()))?;
    let public = IntegerPublicKey { set: set.clone(), key: Arc::new(public) };
    Ok((public, evaluation, IntegerSecretKey { set, decryptor: Arc::new(secret) }))
}

#[pymethods]
impl IntegerPublicKey {
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
        let file = job::detached(py, || Ok(self.file()?))?;
        Ok(PyBytes::new(py, &file).unbind())
    }

    /// Writes the key to a file.
    #[pyo3(signature = (path, *, overwrite=false))]
    fn save(&self, py: Python<'_>, path: PathBuf, overwrite: bool) -> Result<()> {
        let (set, key) = (self.set.clone(), Arc::clone(&self.key));
        save(py, path, Access::Shared, overwrite, move |file| {
            serial::write_public_key(file, set.setting.params(), &key, &set.label)
        })
    }

    /// The key pair, in hexadecimal.
    #[getter]
    fn key_id(&self) -> String {
        self.key.id().to_string()
    }

    /// The digest of its file, in hexadecimal.
    #[getter]
    fn digest(&self, py: Python<'_>) -> Result<String> {
        job::detached(py, || {
            let file = self.file()?;
            let bytes = file.len() as u64;
            Ok(blake3::Hash::from(serial::digest(Cursor::new(file), bytes)?).to_string())
        })
    }

    #[getter]
    fn _parameters(&self) -> IntegerParameters {
        self.set.clone()
    }

    fn __reduce_ex__<'py>(slf: &Bound<'py, Self>, protocol: i32) -> Result<Reduced<'py>> {
        let bytes = slf.get().to_bytes(slf.py())?.into_bound(slf.py());
        Ok(reduce(&slf.get_type(), bytes, protocol)?)
    }

    fn __repr__(&self) -> String {
        let params = self.set.setting.params().rlwe().id();
        format!("IntegerPublicKey(key_id={}, params={params})", self.key.id())
    }
}

impl IntegerPublicKey {
    fn read<R: Read>(reader: sudare::Result<Reader<R>>) -> sudare::Result<Self> {
        let reader = reader?;
        let set = read_set(&reader, Kind::PublicKey)?;
        let key = Arc::new(reader.public_key(set.setting.params())?);
        Ok(Self { set, key })
    }

    fn file(&self) -> sudare::Result<Vec<u8>> {
        let (mut file, set) = (Vec::new(), &self.set);
        serial::write_public_key(&mut file, set.setting.params(), &self.key, &set.label)?;
        Ok(file)
    }
}

#[pymethods]
impl IntegerSecretKey {
    /// The key in the file at `path`, which is sealed by a passphrase or in clear.
    #[staticmethod]
    #[pyo3(signature = (path, *, passphrase=None))]
    fn open(py: Python<'_>, path: PathBuf, passphrase: Option<String>) -> Result<Self> {
        let (key, warning) = job::run(py, None, move |_| {
            let passphrase = || needed_passphrase(&path, passphrase);
            let Secret { setting, label, key, warning } =
                exact_files::read_secret(&path, passphrase)?;
            let decryptor = Arc::new(Decryptor::new(setting.params(), Arc::new(key))?);
            Ok((Self { set: IntegerParameters { setting, label }, decryptor }, warning))
        })?;
        if let Some(warning) = warning {
            security_warning(py, warning, 1)?;
        }
        key.set.warn_if_insecure(py, 1)?;
        Ok(key)
    }

    /// Writes the key to a file that the user alone may read, sealed by a passphrase if one is
    /// given.
    #[pyo3(signature = (path, *, overwrite=false, passphrase=None))]
    fn save(
        &self,
        py: Python<'_>,
        path: PathBuf,
        overwrite: bool,
        passphrase: Option<String>,
    ) -> Result<()> {
        let (set, decryptor) = (self.set.clone(), Arc::clone(&self.decryptor));
        job::run(py, None, move |progress| {
            let passphrase = given_passphrase(passphrase)?;
            let mut file = NewFile::create(&path, Access::Owner, overwrite)?;
            let out = (&mut progress.watch(&mut file), &*path);
            let keys = (set.setting.params(), decryptor.key());
            exact_files::write_secret(out, keys, &set.label, passphrase.as_ref())?;
            Ok(file.finish()?)
        })
    }

    /// The key pair, in hexadecimal. Says nothing about the key.
    #[getter]
    fn key_id(&self) -> String {
        self.decryptor.key_id().to_string()
    }

    #[getter]
    fn _parameters(&self) -> IntegerParameters {
        self.set.clone()
    }

    fn __reduce_ex__(&self, _protocol: i32) -> Result<()> {
        Err(Error::SecretKeyPickle)
    }

    fn __repr__(&self) -> String {
        format!("IntegerSecretKey(key_id={}, ...)", self.decryptor.key_id())
    }
}

#[pymethods]
impl IntegerEvaluationKeys {
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
                let file =
                    job::run(py, None, move |progress| evaluation_key_file(&set, &keys, progress))?;
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
            serial::write_evaluation_keys(file, set.setting.params(), &keys, &set.label)
        })
    }

    /// The key pair, in hexadecimal.
    #[getter]
    fn key_id(&self) -> String {
        self.keys.id().to_string()
    }

    /// The digest of their file, in hexadecimal.
    #[getter]
    fn digest(&self) -> Result<String> {
        Ok(blake3::Hash::from(self.source.digest()?).to_string())
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
    fn _parameters(&self) -> IntegerParameters {
        self.set.clone()
    }

    fn __reduce_ex__<'py>(slf: &Bound<'py, Self>, protocol: i32) -> Result<Reduced<'py>> {
        Ok(slf.get().source.reduce(&slf.get_type(), protocol)?)
    }

    fn __repr__(&self) -> Result<String> {
        Ok(format!(
            "IntegerEvaluationKeys({} keys, {:.1} MB in {}, key_id={}, params={})",
            self.__len__(),
            self.file_bytes()? as f64 / 1e6,
            self.source.place(),
            self.keys.id(),
            self.set.setting.params().rlwe().id()
        ))
    }
}

impl IntegerEvaluationKeys {
    fn file_bytes(&self) -> sudare::Result<u64> {
        let set = &self.set;
        serial::evaluation_keys_bytes(set.setting.params(), &self.keys.fulfils(), &set.label)
    }

    fn from_memory(py: Python<'_>, memory: Memory, set: Option<IntegerParameters>) -> Result<Self> {
        let file = memory.mapping();
        let (set, keys) = job::run(py, None, move |_| {
            let reader = Reader::shared(file)?;
            let set = set.map_or_else(|| read_set(&reader, Kind::EvaluationKeys), Ok)?;
            let keys = reader.evaluation_keys(set.setting.params())?;
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
            let keys = Arc::new(reader.evaluation_keys(set.setting.params())?);
            Ok((set, keys))
        };
        let (set, keys) = read().map_err(opened::in_file(&fingerprint.path, Some(&watch)))?;
        Ok(Self { set, keys, source: Source::File(fingerprint), watch: Some(watch) })
    }
}

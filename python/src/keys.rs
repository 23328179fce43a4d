//! Keys as separate values: public, for evaluation, secret.

pub mod common;

pub use common::{check, evaluation_key_file};

use crate::{
    arguments,
    error::{Error, Result},
    job::{self, Progress},
    plan::{Parameters, Plan, security_warning},
    source::{Memory, Reduced, reduce},
    table::TablePlan,
};
use common::{Evaluation, Identity, KeySet, Public, generate, key_classes};
use pyo3::{prelude::*, types::PyBytes};
use std::{
    io::Read,
    path::{Path, PathBuf},
    sync::Arc,
};
use sudare::{
    ckks::{
        Decryptor, Params,
        serial::{Label, Reader},
    },
    rlwe::{self, KeyRequest},
};
use sudare_roles::{
    error::Error as Engine,
    key::Key,
    os::files::{Access, NewFile},
    owner::{
        ledger::Ledger,
        secret::{self, SecretFile},
    },
    sealed::Passphrase,
};

impl KeySet for Parameters {
    type Params = Params;
    type Decryptor = Decryptor;

    fn params(&self) -> &Params {
        &self.params
    }

    fn label(&self) -> &Label {
        &self.label
    }

    fn read<R: Read>(reader: &Reader<R>) -> sudare::Result<Self> {
        Self::new(reader.params()?, reader.info().label.clone())
    }

    fn expect_pair(&self, secret: &Decryptor, public: Arc<rlwe::PublicKey>) -> Result<()> {
        Ok(secret::expect_pair(&self.params, secret, public)?)
    }
}

key_classes! {
    Parameters, SecretKey;
    /// Encrypts. You may give it to anyone.
    PublicKey;
    /// Computes on encrypted values. For the server.
    EvaluationKeys;
    AnyKey, check_pair
}

/// Decrypts. For the owner alone.
#[pyclass(frozen, module = "sudare")]
pub struct SecretKey {
    pub(crate) set: Parameters,
    pub(crate) decryptor: Arc<Decryptor>,
    /// The ledger of the key's releases: next to its file, or in memory.
    ledger: Arc<Ledger>,
}

/// A key that encrypts tables.
#[derive(FromPyObject)]
pub enum EncryptionKey<'py> {
    Public(PyRef<'py, PublicKey>),
    Secret(PyRef<'py, SecretKey>),
}

impl EncryptionKey<'_> {
    /// Returns the parameters, and the label of the key.
    pub fn set(&self) -> &Parameters {
        match self {
            Self::Public(key) => &key.set,
            Self::Secret(key) => &key.set,
        }
    }

    /// Returns the name of the key in messages.
    pub fn what(&self) -> &'static str {
        match self {
            Self::Public(_) => "the public key",
            Self::Secret(_) => "the secret key",
        }
    }

    /// Returns the key itself.
    pub fn key(&self) -> Key {
        match self {
            Self::Public(key) => Key::Public(Arc::clone(&key.key)),
            Self::Secret(key) => Key::Secret(Arc::clone(key.decryptor.key())),
        }
    }
}

/// The plan that keys are made for.
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

/// Reads the key in a file, which is sealed by a passphrase or in clear.
pub(crate) fn unsealed(
    file: SecretFile,
    params: &Params,
    passphrase: Option<String>,
) -> Result<rlwe::SecretKey> {
    // `key` consumes the file, and the message for a missing passphrase names it.
    let path = file.opened().path().to_owned();
    Ok(file.key(params, || needed_passphrase(&path, passphrase))?)
}

/// Returns the passphrase of a sealed file.
pub(crate) fn needed_passphrase(
    path: &Path,
    text: Option<String>,
) -> sudare_roles::error::Result<Passphrase> {
    let text = text.ok_or_else(|| Engine::Sealed { path: path.into() })?;
    Ok(Passphrase::new(text.into_bytes())?)
}

/// Returns the passphrase to seal a file with, if there is one.
pub(crate) fn given_passphrase(text: Option<String>) -> Result<Option<Passphrase>> {
    let passphrase = text.map(|text| Passphrase::new(text.into_bytes()));
    Ok(passphrase.transpose().map_err(Engine::from)?)
}

/// Writes a secret key to a file that only the user may read, sealed if there is a passphrase.
pub(crate) fn save_secret(
    (path, overwrite): (&Path, bool),
    (params, label, key): (&Params, &Label, &rlwe::SecretKey),
    passphrase: Option<String>,
    progress: &Progress,
) -> Result<()> {
    // A bad passphrase is found before the file exists.
    let passphrase = given_passphrase(passphrase)?;
    let mut file = NewFile::create(path, Access::Owner, overwrite)?;
    let out = &mut progress.watch(&mut file);
    secret::write(out, path, params, key, label, passphrase.as_ref())?;
    Ok(file.finish()?)
}

/// Makes the keys for a plan: public, for evaluation, secret.
#[pyfunction]
#[pyo3(signature = (plan, progress=None))]
pub fn generate_keys(
    py: Python<'_>,
    plan: AnyPlan<'_>,
    progress: Option<&Bound<'_, PyAny>>,
) -> Result<(PublicKey, EvaluationKeys, SecretKey)> {
    let (set, request) = plan.keys();
    let (public, evaluation, secret) = generate(py, &set, request, progress)?;
    // A new key has no file yet. `save` moves the ledger next to it.
    let ledger = Ledger::in_memory(set.params.rlwe().id(), secret.id());
    let secret = Decryptor::new(&set.params, secret)?;
    Ok((PublicKey(public), EvaluationKeys(evaluation), SecretKey::new(set, secret, ledger)))
}

#[pymethods]
impl SecretKey {
    /// Opens the key in the file at `path`, which is sealed by a passphrase or in clear.
    #[staticmethod]
    #[pyo3(signature = (path, *, passphrase=None))]
    fn open(
        py: Python<'_>,
        #[pyo3(from_py_with = arguments::path)] path: PathBuf,
        #[pyo3(from_py_with = arguments::passphrase)] passphrase: Option<String>,
    ) -> Result<Self> {
        let (key, warning) = job::run(py, None, move |_| {
            let file = SecretFile::open(&path)?;
            let warning = file.warning();
            let label = file.opened().info().label.clone();
            let set = Parameters::new(file.opened().params()?, label)?;
            let key = unsealed(file, &set.params, passphrase)?;
            let decryptor = Decryptor::new(&set.params, key)?;
            let ledger = Ledger::beside(&path, set.params.rlwe().id(), decryptor.key_id())?;
            Ok((Self::new(set, decryptor, ledger), warning))
        })?;
        // Python's warnings need the interpreter lock, which the job does not hold.
        if let Some(warning) = warning {
            security_warning(py, warning, 1)?;
        }
        key.set.warn_if_insecure(py, 1)?;
        Ok(key)
    }

    /// Writes the key to a file that only the user may read, sealed if you pass a passphrase. A ledger
    /// next to the file counts the releases so far. A key that was only in memory counts its later
    /// releases there, too.
    #[pyo3(signature = (path, *, overwrite=false, passphrase=None))]
    fn save(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = arguments::path)] path: PathBuf,
        #[pyo3(from_py_with = arguments::overwrite)] overwrite: bool,
        #[pyo3(from_py_with = arguments::passphrase)] passphrase: Option<String>,
    ) -> Result<()> {
        let set = self.set.clone();
        let decryptor = Arc::clone(&self.decryptor);
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

    /// Counted releases of the key, and their maximum number.
    #[getter]
    fn releases(&self, py: Python<'_>) -> Result<(u64, u64)> {
        // Reads a file, which other processes may have changed since.
        let entries = job::detached(py, || Ok(self.ledger.entries()?))?;
        Ok((entries.counted(), entries.limit))
    }

    /// The file that counts releases, or None if the key is only in memory.
    #[getter]
    fn ledger_path(&self) -> Option<PathBuf> {
        self.ledger.path()
    }

    /// Fingerprint of the key pair, in hexadecimal. It reveals nothing about the key.
    #[getter]
    fn key_id(&self) -> String {
        self.decryptor.key_id().to_string()
    }

    #[getter]
    fn _parameters(&self) -> Parameters {
        self.set.clone()
    }

    fn __reduce_ex__(&self, _protocol: i32) -> Result<()> {
        // `copy.copy` and `pickle` both come here, so neither can move a key out of the process.
        Err(Error::SecretKeyPickle)
    }

    fn __repr__(&self) -> String {
        format!("SecretKey(key_id={}, ...)", self.decryptor.key_id())
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
        // A method of the package calls this code, and the warning points at the method's caller.
        Ok(security_warning(py, notice, 2)?)
    }
}

/// Reads the argument `keys` of a server.
pub fn evaluation<'py>(value: &Bound<'py, PyAny>) -> PyResult<PyRef<'py, EvaluationKeys>> {
    arguments::instance(value, "keys")
}

/// Reads the argument `key` of an owner.
pub fn secret<'py>(value: &Bound<'py, PyAny>) -> PyResult<PyRef<'py, SecretKey>> {
    arguments::instance(value, "key")
}

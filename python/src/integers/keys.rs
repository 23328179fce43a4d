//! Keys of arrays of integers as separate values: public, for evaluation, secret.

use super::{IntegerParameters, IntegerPlan};
use crate::{
    arguments,
    error::{Error, Result},
    job,
    keys::{
        common::{Evaluation, Identity, KeySet, Public, generate, key_classes},
        given_passphrase, needed_passphrase,
    },
    plan::security_warning,
    source::{Memory, Reduced, reduce},
};
use pyo3::{prelude::*, types::PyBytes};
use std::{
    io::Read,
    path::{Path, PathBuf},
    sync::Arc,
};
use sudare::{
    exact::{
        Decryptor, Params,
        serial::{Label, Reader},
    },
    rlwe,
};
use sudare_roles::{
    exact_files::{self, Secret},
    os::files::{Access, NewFile},
};

impl KeySet for IntegerParameters {
    type Params = Params;
    type Decryptor = Decryptor;

    fn params(&self) -> &Params {
        self.setting.params()
    }

    fn label(&self) -> &Label {
        &self.label
    }

    fn read<R: Read>(reader: &Reader<R>) -> sudare::Result<Self> {
        let setting = exact_files::read_setting(reader, reader.info().kind)?;
        Ok(Self { setting, label: reader.info().label.clone() })
    }

    fn expect_same(&self, other: &Self) -> Result<()> {
        // Parameters do not include these two: the same residues mean other integers.
        let arithmetic = |set: &Self| (set.setting.scheme(), set.setting.is_signed());
        if arithmetic(self) == arithmetic(other) {
            return Ok(());
        }
        let of = |set: &Self| {
            let signed = if set.setting.is_signed() { "signed" } else { "unsigned" };
            format!("keys of {signed} integers for {}", set.setting.scheme())
        };
        Err(Error::OtherJob { found: of(self), needed: of(other) })
    }

    fn expect_pair(&self, secret: &Decryptor, public: Arc<rlwe::PublicKey>) -> Result<()> {
        Ok(exact_files::expect_pair(&self.setting, secret, public)?)
    }
}

key_classes! {
    IntegerParameters, IntegerSecretKey;
    /// Encrypts integers. You may give it to anyone.
    IntegerPublicKey;
    /// Computes on encrypted integers. For the server.
    IntegerEvaluationKeys;
    AnyKey, check_integer_pair
}

/// Decrypts integers. For the owner alone.
#[pyclass(frozen, module = "sudare")]
pub struct IntegerSecretKey {
    pub(crate) set: IntegerParameters,
    pub(crate) decryptor: Arc<Decryptor>,
}

/// Makes the keys for a plan: public, for evaluation, secret.
#[pyfunction]
#[pyo3(signature = (plan, progress=None))]
pub fn generate_integer_keys(
    py: Python<'_>,
    plan: &IntegerPlan,
    progress: Option<&Bound<'_, PyAny>>,
) -> Result<(IntegerPublicKey, IntegerEvaluationKeys, IntegerSecretKey)> {
    let set = plan.set.clone();
    let (public, evaluation, secret) = generate(py, &set, plan.request.clone(), progress)?;
    let decryptor = Arc::new(Decryptor::new(set.setting.params(), Arc::new(secret))?);
    let secret = IntegerSecretKey { set, decryptor };
    Ok((IntegerPublicKey(public), IntegerEvaluationKeys(evaluation), secret))
}

#[pymethods]
impl IntegerSecretKey {
    /// Opens the key in the file at `path`, which is sealed by a passphrase or in clear.
    #[staticmethod]
    #[pyo3(signature = (path, *, passphrase=None))]
    fn open(
        py: Python<'_>,
        #[pyo3(from_py_with = arguments::path)] path: PathBuf,
        #[pyo3(from_py_with = arguments::passphrase)] passphrase: Option<String>,
    ) -> Result<Self> {
        let (key, warning) = job::run(py, None, move |_| {
            let passphrase = || needed_passphrase(&path, passphrase);
            let Secret { setting, label, key, warning } =
                exact_files::read_secret(&path, passphrase)?;
            let decryptor = Arc::new(Decryptor::new(setting.params(), Arc::new(key))?);
            Ok((Self { set: IntegerParameters { setting, label }, decryptor }, warning))
        })?;
        // Python's warnings need the interpreter lock, which the job does not hold.
        if let Some(warning) = warning {
            security_warning(py, warning, 1)?;
        }
        key.set.warn_if_insecure(py, 1)?;
        Ok(key)
    }

    /// Writes the key to a file that only the user may read, sealed if you pass a passphrase.
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
        job::run(py, None, move |progress| {
            // A bad passphrase is found before the file exists.
            let passphrase = given_passphrase(passphrase)?;
            let mut file = NewFile::create(&path, Access::Owner, overwrite)?;
            let out = &mut progress.watch(&mut file);
            let params = set.setting.params();
            let key = decryptor.key();
            exact_files::write_secret(out, &path, params, key, &set.label, passphrase.as_ref())?;
            Ok(file.finish()?)
        })
    }

    /// Fingerprint of the key pair, in hexadecimal. It reveals nothing about the key.
    #[getter]
    fn key_id(&self) -> String {
        self.decryptor.key_id().to_string()
    }

    #[getter]
    fn _parameters(&self) -> IntegerParameters {
        self.set.clone()
    }

    fn __reduce_ex__(&self, _protocol: i32) -> Result<()> {
        // `copy.copy` and `pickle` both come here, so neither can move a key out of the process.
        Err(Error::SecretKeyPickle)
    }

    fn __repr__(&self) -> String {
        format!("IntegerSecretKey(key_id={}, ...)", self.decryptor.key_id())
    }
}

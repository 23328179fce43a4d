//! The common part of the keys of all schemes.
//!
//! Classes of Python cannot be generic: `key_classes!` makes the classes of one scheme.

use crate::{
    error::{Error, Result},
    job::{self, Progress},
    source::{Fingerprint, Memory, Source, save},
};
use pyo3::{prelude::*, types::PyBytes};
use std::{
    io::{Cursor, Read},
    path::{Path, PathBuf},
    sync::Arc,
};
use sudare::rlwe::{
    self, KeyGenerator, KeyId, KeyRequest,
    serial::{self, Kind, Label, Reader, Scheme},
};
use sudare_roles::{
    format::opened,
    os::files::{self, Access, Watch},
};

/// Parameters of a scheme, with the label of files of keys under them.
pub trait KeySet: Clone + Send + Sync + 'static {
    /// Checked parameters.
    type Params: Scheme;
    /// The decryptor under the parameters.
    type Decryptor;

    /// The parameters.
    fn params(&self) -> &Self::Params;

    /// The label of files of keys.
    fn label(&self) -> &Label;

    /// Reads the parameters in the file of a key.
    ///
    /// # Errors
    /// The errors of making parameters.
    fn read<R: Read>(reader: &Reader<R, Self::Params>) -> sudare::Result<Self>;

    /// Refuses keys for other arithmetic under the same parameters.
    ///
    /// # Errors
    /// [`Error::OtherJob`].
    fn expect_same(&self, _other: &Self) -> Result<()> {
        Ok(())
    }

    /// Refuses a public key that only claims to belong to a secret key.
    ///
    /// # Errors
    /// [`ForgedKey`](sudare_roles::error::Error::ForgedKey).
    fn expect_pair(&self, secret: &Self::Decryptor, public: Arc<rlwe::PublicKey>) -> Result<()>;
}

/// Reads the parameters of a file, which must be of the needed kind.
pub fn read_set<S: KeySet, R: Read>(
    reader: &Reader<R, S::Params>,
    needed: Kind,
) -> sudare::Result<S> {
    let found = reader.info().kind;
    if found != needed {
        return Err(sudare::Error::WrongKind { found, needed });
    }
    S::read(reader)
}

/// Refuses mapped keys whose file was changed. Call it before and after you use the keys.
pub fn check(watch: Option<&Watch>) -> Result<()> {
    Ok(watch.map_or(Ok(()), Watch::check)?)
}

/// Writes the file of evaluation keys in memory.
pub fn evaluation_key_file<P: Scheme>(
    params: &P,
    keys: &rlwe::EvaluationKeys,
    label: &Label,
    progress: &Progress,
) -> Result<Vec<u8>> {
    let bytes = serial::evaluation_keys_bytes(params, &keys.fulfils(), label)?;
    let bytes = usize::try_from(bytes).map_err(|_| Error::Bug("a file exceeds memory"))?;
    // Keys take gigabytes: a vector that grows would need up to twice that for a moment.
    let mut file = Vec::with_capacity(bytes);
    serial::write_evaluation_keys(&mut progress.watch(&mut file), params, keys, label)?;
    Ok(file)
}

/// Makes keys: public, for evaluation, secret.
///
/// Evaluation keys are made as their file in memory, so that pickle can send it.
pub fn generate<S: KeySet>(
    py: Python<'_>,
    set: &S,
    request: KeyRequest,
    progress: Option<&Bound<'_, PyAny>>,
) -> Result<(Public<S>, Evaluation<S>, rlwe::SecretKey)> {
    let own = set.clone();
    let (public, file, secret) = job::run(py, progress, move |progress| {
        progress.start("evaluation keys", request.count());
        // A file has seeds in place of the uniform halves, so these are not made yet.
        let mut generator = KeyGenerator::new(own.params().as_ref())?.small_keys(true);
        let secret = generator.secret_key()?;
        let public = generator.public_key(&secret)?;
        let keys = generator.evaluation_keys_with(&secret, &request, |made| progress.set(made))?;
        let file = evaluation_key_file(own.params(), &keys, own.label(), progress)?;
        Ok((public, file, secret))
    })?;
    // Reading expands the uniform halves. The other halves stay in these bytes, without a copy.
    let evaluation = Evaluation::from_memory(py, Memory::new(py, file), Some(set.clone()))?;
    Ok((Public { set: set.clone(), key: Arc::new(public) }, evaluation, secret))
}

/// The facts that two keys must share to be used together.
pub struct Identity<'a, S> {
    /// Name of the key in messages.
    pub what: &'static str,
    pub set: &'a S,
    pub id: KeyId,
}

impl<S: KeySet> Identity<'_, S> {
    /// Refuses a key of other parameters, of other arithmetic or of another pair than `first`.
    pub fn expect_with(&self, first: &Self) -> Result<()> {
        let what = self.what;
        let id = |set: &S| set.params().as_ref().id();
        if id(self.set) != id(first.set) {
            let found = id(self.set);
            let expected = id(first.set);
            return Err(sudare::Error::ParamsMismatch { what, found, expected }.into());
        }
        // Parameters first: a comparison of arithmetic under other parameters means nothing.
        self.set.expect_same(first.set)?;
        if self.id != first.id {
            let found = self.id;
            let expected = first.id;
            return Err(sudare::Error::KeyMismatch { what, found, expected }.into());
        }
        Ok(())
    }
}

/// Encrypts.
pub struct Public<S> {
    pub set: S,
    pub key: Arc<rlwe::PublicKey>,
}

impl<S: KeySet> Public<S> {
    /// Opens the key in the file at `path`.
    pub fn open(py: Python<'_>, path: PathBuf) -> Result<Self> {
        job::run(py, None, move |_| {
            let (file, bytes) = files::open(&path, Access::Shared)?;
            Self::read(Reader::new(file, bytes)).map_err(Error::at(Some(&path)))
        })
    }

    /// Reads the key from the result of `to_bytes`.
    pub fn from_python(data: &Bound<'_, PyAny>) -> Result<Self> {
        let file = Memory::from_python(data)?.mapping();
        job::run(data.py(), None, move |_| Ok(Self::read(Reader::shared(file))?))
    }

    fn read<R: Read>(reader: sudare::Result<Reader<R, S::Params>>) -> sudare::Result<Self> {
        let reader = reader?;
        let set: S = read_set(&reader, Kind::PublicKey)?;
        let key = Arc::new(reader.public_key(set.params())?);
        Ok(Self { set, key })
    }

    fn file(&self) -> sudare::Result<Vec<u8>> {
        let mut file = Vec::new();
        serial::write_public_key(&mut file, self.set.params(), &self.key, self.set.label())?;
        Ok(file)
    }

    /// Returns the key as the bytes of its file.
    pub fn to_bytes(&self, py: Python<'_>) -> Result<Py<PyBytes>> {
        let file = job::detached(py, || Ok(self.file()?))?;
        Ok(PyBytes::new(py, &file).unbind())
    }

    /// Writes the key to a file.
    pub fn save(&self, py: Python<'_>, path: PathBuf, overwrite: bool) -> Result<()> {
        let set = self.set.clone();
        let key = Arc::clone(&self.key);
        save(py, path, Access::Shared, overwrite, move |file| {
            serial::write_public_key(file, set.params(), &key, set.label())
        })
    }

    /// Returns the digest of the key's file, in hexadecimal.
    pub fn digest(&self, py: Python<'_>) -> Result<String> {
        job::detached(py, || {
            let file = self.file()?;
            let bytes = file.len() as u64;
            let digest = serial::digest::<S::Params>(Cursor::new(file), bytes)?;
            Ok(blake3::Hash::from(digest).to_string())
        })
    }
}

/// Computes on encrypted values.
pub struct Evaluation<S> {
    pub set: S,
    pub keys: Arc<rlwe::EvaluationKeys>,
    source: Source,
    /// The watched file, if the keys are mapped from one.
    pub watch: Option<Arc<Watch>>,
}

impl<S: KeySet> Evaluation<S> {
    /// Opens the keys in a file. If the keys were pickled, the file must have the same digest and size.
    pub fn open(
        py: Python<'_>,
        path: PathBuf,
        small: bool,
        pickled: Option<(String, u64)>,
    ) -> Result<Self> {
        job::run(py, None, move |_| {
            let pickled = pickled.as_ref().map(|(digest, bytes)| (digest.as_str(), *bytes));
            Self::map(&path, small, pickled)
        })
    }

    fn map(path: &Path, small: bool, pickled: Option<(&str, u64)>) -> Result<Self> {
        let (fingerprint, file) = Fingerprint::open(path, pickled)?;
        let watch = Arc::new(Watch::new(&fingerprint.path, &file)?);
        let read = || {
            let reader = Reader::shared(watch.mapping().clone())?.small_keys(small);
            let set: S = read_set(&reader, Kind::EvaluationKeys)?;
            let keys = Arc::new(reader.evaluation_keys(set.params())?);
            Ok((set, keys))
        };
        // A file that was cut reads as zeros and looks malformed. The watch gives the true reason.
        let (set, keys) = read().map_err(opened::in_file(&fingerprint.path, Some(&watch)))?;
        Ok(Self { set, keys, source: Source::File(fingerprint), watch: Some(watch) })
    }

    /// Reads the keys in a file in memory. Pass `set` if you know the parameters.
    pub fn from_memory(py: Python<'_>, memory: Memory, set: Option<S>) -> Result<Self> {
        let file = memory.mapping();
        let (set, keys) = job::run(py, None, move |_| {
            let reader = Reader::shared(file)?;
            let set = set.map_or_else(|| read_set(&reader, Kind::EvaluationKeys), Ok)?;
            let keys = reader.evaluation_keys(set.params())?;
            Ok((set, Arc::new(keys)))
        })?;
        Ok(Self { set, keys, source: Source::Memory(memory), watch: None })
    }

    /// Returns the keys as the bytes of their file.
    pub fn to_bytes(&self, py: Python<'_>) -> Result<Py<PyBytes>> {
        match &self.source {
            Source::Memory(memory) => Ok(memory.to_bytes(py)),
            Source::File(_) => {
                // Mapped keys could change before the copy or during it. Either makes it wrong.
                check(self.watch.as_deref())?;
                let set = self.set.clone();
                let keys = Arc::clone(&self.keys);
                let file = job::run(py, None, move |progress| {
                    evaluation_key_file(set.params(), &keys, set.label(), progress)
                })?;
                check(self.watch.as_deref())?;
                Ok(PyBytes::new(py, &file).unbind())
            }
        }
    }

    /// Writes the keys to a file.
    pub fn save(&self, py: Python<'_>, path: PathBuf, overwrite: bool) -> Result<()> {
        check(self.watch.as_deref())?;
        let set = self.set.clone();
        let keys = Arc::clone(&self.keys);
        save(py, path, Access::Shared, overwrite, move |file| {
            serial::write_evaluation_keys(file, set.params(), &keys, set.label())
        })
    }

    /// Returns the place of the file.
    pub fn source(&self) -> &Source {
        &self.source
    }

    /// Returns the digest of the file.
    pub fn digest(&self) -> Result<[u8; 32]> {
        self.source.digest()
    }

    /// Returns the size of the file in bytes.
    pub fn file_bytes(&self) -> sudare::Result<u64> {
        serial::evaluation_keys_bytes(self.set.params(), &self.keys.fulfils(), self.set.label())
    }

    /// Returns the text that Python shows, with the name of the class.
    pub fn shown(&self, class: &str) -> Result<String> {
        Ok(format!(
            "{class}({} keys, {:.1} MB in {}, key_id={}, params={})",
            self.keys.fulfils().count(),
            self.file_bytes()? as f64 / 1e6,
            self.source.place(),
            self.keys.id(),
            self.set.params().as_ref().id()
        ))
    }
}

/// Makes the classes of public and evaluation keys under parameters `$set`, whose secret keys are
/// `$secret`, an enum of any key, and the function that compares two of them.
macro_rules! key_classes {
    (
        $set:ty, $secret:ident;
        $(#[$public_doc:meta])* $public:ident;
        $(#[$evaluation_doc:meta])* $evaluation:ident;
        $any:ident, $check_pair:ident
    ) => {
        $(#[$public_doc])*
        #[pyclass(frozen, module = "sudare")]
        pub struct $public(pub(crate) Public<$set>);

        impl core::ops::Deref for $public {
            type Target = Public<$set>;

            fn deref(&self) -> &Self::Target {
                &self.0
            }
        }

        #[pymethods]
        impl $public {
            /// Opens the key in the file at `path`.
            #[staticmethod]
            fn open(py: Python<'_>, #[pyo3(from_py_with = $crate::arguments::path)] path: PathBuf) -> Result<Self> {
                let key = Public::<$set>::open(py, path)?;
                key.set.warn_if_insecure(py, 1)?;
                Ok(Self(key))
            }

            /// Reads the key from the result of `to_bytes`.
            #[staticmethod]
            fn from_bytes(data: &Bound<'_, PyAny>) -> Result<Self> {
                let key = Public::<$set>::from_python(data)?;
                key.set.warn_if_insecure(data.py(), 1)?;
                Ok(Self(key))
            }

            /// Returns the key as the bytes of its file.
            fn to_bytes(&self, py: Python<'_>) -> Result<Py<PyBytes>> {
                self.0.to_bytes(py)
            }

            /// Writes the key to a file.
            #[pyo3(signature = (path, *, overwrite=false))]
            fn save(&self, py: Python<'_>, #[pyo3(from_py_with = $crate::arguments::path)] path: PathBuf, #[pyo3(from_py_with = $crate::arguments::overwrite)] overwrite: bool) -> Result<()> {
                self.0.save(py, path, overwrite)
            }

            /// The key pair, in hexadecimal.
            #[getter]
            fn key_id(&self) -> String {
                self.key.id().to_string()
            }

            /// Digest of the key's file, in hexadecimal, as `sudare keygen` prints it.
            #[getter]
            fn digest(&self, py: Python<'_>) -> Result<String> {
                self.0.digest(py)
            }

            #[getter]
            fn _parameters(&self) -> $set {
                self.set.clone()
            }

            fn __reduce_ex__<'py>(slf: &Bound<'py, Self>, protocol: i32) -> Result<Reduced<'py>> {
                let bytes = slf.get().to_bytes(slf.py())?.into_bound(slf.py());
                Ok(reduce(&slf.get_type(), bytes, protocol)?)
            }

            fn __repr__(&self) -> String {
                let params = KeySet::params(&self.set).rlwe().id();
                format!(concat!(stringify!($public), "(key_id={}, params={})"), self.key.id(), params)
            }
        }

        $(#[$evaluation_doc])*
        #[pyclass(frozen, module = "sudare")]
        pub struct $evaluation(pub(crate) Evaluation<$set>);

        impl core::ops::Deref for $evaluation {
            type Target = Evaluation<$set>;

            fn deref(&self) -> &Self::Target {
                &self.0
            }
        }

        #[pymethods]
        impl $evaluation {
            /// Opens the keys in the file at `path`. Half of each key stays in the file. The other half is in
            /// memory. With `small`, it is computed when it is used.
            #[staticmethod]
            #[pyo3(signature = (path, *, small=false))]
            fn open(py: Python<'_>, #[pyo3(from_py_with = $crate::arguments::path)] path: PathBuf, #[pyo3(from_py_with = $crate::arguments::small)] small: bool) -> Result<Self> {
                let keys = Evaluation::<$set>::open(py, path, small, None)?;
                keys.set.warn_if_insecure(py, 1)?;
                Ok(Self(keys))
            }

            /// Opens the file that was pickled.
            #[staticmethod]
            fn _reopen(py: Python<'_>, path: PathBuf, digest: String, bytes: u64) -> Result<Self> {
                let keys = Evaluation::<$set>::open(py, path, false, Some((digest, bytes)))?;
                keys.set.warn_if_insecure(py, 1)?;
                Ok(Self(keys))
            }

            /// Reads the keys from the result of `to_bytes`.
            #[staticmethod]
            fn from_bytes(data: &Bound<'_, PyAny>) -> Result<Self> {
                let memory = Memory::from_python(data)?;
                let keys = Evaluation::<$set>::from_memory(data.py(), memory, None)?;
                keys.set.warn_if_insecure(data.py(), 1)?;
                Ok(Self(keys))
            }

            /// Returns the keys as the bytes of their file.
            fn to_bytes(&self, py: Python<'_>) -> Result<Py<PyBytes>> {
                self.0.to_bytes(py)
            }

            /// Writes the keys to a file.
            #[pyo3(signature = (path, *, overwrite=false))]
            fn save(&self, py: Python<'_>, #[pyo3(from_py_with = $crate::arguments::path)] path: PathBuf, #[pyo3(from_py_with = $crate::arguments::overwrite)] overwrite: bool) -> Result<()> {
                self.0.save(py, path, overwrite)
            }

            /// The key pair, in hexadecimal.
            #[getter]
            fn key_id(&self) -> String {
                self.keys.id().to_string()
            }

            /// Digest of the file, in hexadecimal, as `sudare keygen` prints it.
            #[getter]
            fn digest(&self) -> Result<String> {
                Ok(blake3::Hash::from(self.0.digest()?).to_string())
            }

            /// Size of the file in bytes.
            #[getter]
            fn nbytes(&self) -> Result<u64> {
                Ok(self.file_bytes()?)
            }

            /// The file that the keys stay in, or None.
            #[getter]
            fn path(&self) -> Option<&Path> {
                self.source().path()
            }

            /// The number of keys.
            fn __len__(&self) -> usize {
                self.keys.fulfils().count()
            }

            #[getter]
            fn _parameters(&self) -> $set {
                self.set.clone()
            }

            fn __reduce_ex__<'py>(slf: &Bound<'py, Self>, protocol: i32) -> Result<Reduced<'py>> {
                // Mapped keys are pickled as their path and digest, so that workers map the same
                // file.
                Ok(slf.get().source().reduce(&slf.get_type(), protocol)?)
            }

            fn __repr__(&self) -> Result<String> {
                self.shown(stringify!($evaluation))
            }
        }

        /// Any key.
        #[derive(FromPyObject)]
        pub enum $any<'py> {
            Public(PyRef<'py, $public>),
            Evaluation(PyRef<'py, $evaluation>),
            Secret(PyRef<'py, $secret>),
        }

        impl $any<'_> {
            /// Returns the facts that the key must share with others.
            pub fn identity(&self) -> Identity<'_, $set> {
                let (what, set, id) = match self {
                    Self::Public(key) => ("public key", &key.set, key.key.id()),
                    Self::Evaluation(keys) => ("set of evaluation keys", &keys.set, keys.keys.id()),
                    Self::Secret(key) => ("secret key", &key.set, key.decryptor.key_id()),
                };
                Identity { what, set, id }
            }
        }

        /// Refuses a `key` of other parameters, of other arithmetic or of another pair than `first`. Also
        /// refuses a public key that only claims to belong to the secret one.
        #[pyfunction]
        pub fn $check_pair(py: Python<'_>, first: $any<'_>, key: $any<'_>) -> Result<()> {
            key.identity().expect_with(&first.identity())?;
            match (first, key) {
                ($any::Secret(secret), $any::Public(public))
                | ($any::Public(public), $any::Secret(secret)) => {
                    let set = secret.set.clone();
                    let public = Arc::clone(&public.key);
                    let decryptor = Arc::clone(&secret.decryptor);
                    // A file's header can claim any key pair. Only an encryption shows that the
                    // claim is true.
                    job::run(py, None, move |_| set.expect_pair(&decryptor, public))
                }
                _ => Ok(()),
            }
        }
    };
}

pub(crate) use key_classes;

//! Rows of several owners, who show them to no one: the files of `sudare schema` and `sudare pool`.

use crate::{
    arguments,
    data::{Data, Rules, Texts, frame},
    error::Result,
    job,
    keys::{PublicKey, SecretKey},
    numbers::Numbers,
    source::{IN_MEMORY, Memory, Reduced, save},
    table::{Decrypted, Table, in_memory, other_job},
};
use pyo3::{prelude::*, types::PyBytes};
use std::{
    io::{self, Cursor},
    path::{Path, PathBuf},
    sync::Arc,
};
use sudare::ckks::serial::{Info, Kind, Label};
use sudare_apps::pool;
use sudare_roles::{
    clear::decrypted,
    error::Error as Engine,
    format::label::{Content, Meta},
    job::Job,
    os::files::{self, Access},
    owner::encryption::{Encryption, Subject},
    pooled::{
        self,
        sums::{self, JobKeys},
        transform::PooledTransform,
    },
};

/// The agreement of several owners of rows.
#[pyclass(frozen, module = "sudare._native")]
pub struct Schema(Arc<pool::Schema>);

#[pymethods]
impl Schema {
    /// Drafts a schema from the table of one owner, for a target column if one is named.
    #[staticmethod]
    #[pyo3(signature = (columns, numbers, texts, rules, owners, *, target=None))]
    fn draft(
        py: Python<'_>,
        columns: Vec<String>,
        numbers: Numbers,
        texts: Texts,
        rules: &Rules,
        owners: Vec<String>,
        target: Option<String>,
    ) -> Result<Self> {
        job::detached(py, || {
            let frame = frame(columns, numbers, texts)?;
            let schema = pool::Schema::draft(&frame, target.as_deref(), &rules.0, &owners);
            Ok(Self(Arc::new(schema.map_err(Engine::from)?)))
        })
    }

    #[staticmethod]
    fn from_json(text: &str) -> Result<Self> {
        Ok(Self(Arc::new(pool::Schema::from_json(text).map_err(Engine::from)?)))
    }

    /// Opens the schema in the file at `path`.
    #[staticmethod]
    fn open(py: Python<'_>, #[pyo3(from_py_with = arguments::path)] path: PathBuf) -> Result<Self> {
        job::detached(py, || Ok(Self(Arc::new(pooled::read_schema(&path)?))))
    }

    fn to_json(&self) -> Result<String> {
        Ok(self.0.to_json().map_err(Engine::from)?)
    }

    #[getter]
    fn columns(&self) -> Vec<String> {
        self.0.columns().to_vec()
    }

    #[getter]
    fn classes(&self) -> Vec<String> {
        self.0.classes().to_vec()
    }

    #[getter]
    fn target(&self) -> Option<String> {
        self.0.encoding().target().map(str::to_owned)
    }

    #[getter]
    fn owners(&self) -> Vec<String> {
        self.0.owners().to_vec()
    }

    /// Reads the table of an owner by the schema.
    fn apply(
        &self,
        py: Python<'_>,
        columns: Vec<String>,
        numbers: Numbers,
        texts: Texts,
    ) -> Result<Data> {
        job::detached(py, || {
            let table = self.0.apply(&frame(columns, numbers, texts)?).map_err(Engine::from)?;
            Ok(Data { table: Arc::new(table), encoding: None })
        })
    }

    fn __eq__(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

/// Encrypted sums of the rows of an owner, or of all.
#[pyclass(frozen, module = "sudare._native")]
pub struct Sums {
    file: Memory,
    info: Info,
    meta: Meta,
}

#[pymethods]
impl Sums {
    /// Encrypts the sums of an owner's table.
    #[staticmethod]
    fn encrypt(
        py: Python<'_>,
        key: &PublicKey,
        schema: &Schema,
        owner: String,
        data: &Data,
    ) -> Result<Self> {
        let job = job_of(&key.set.label)?;
        let set = key.set.clone();
        let key = Arc::clone(&key.key);
        let schema = Arc::clone(&schema.0);
        let table = Arc::clone(&data.table);
        let bytes = job::run(py, None, move |_| {
            let mut bytes = Vec::new();
            let path = Path::new(IN_MEMORY);
            let keys = JobKeys { job, params: &set.params, name: &set.label.name, public: key };
            sums::write(&mut bytes, path, keys, &schema, &owner, &table)?;
            Ok(bytes)
        })?;
        Self::new(Memory::new(py, bytes), Path::new(IN_MEMORY))
    }

    /// Adds the sums of all owners of a schema. It needs no key.
    #[staticmethod]
    fn add(py: Python<'_>, schema: &Schema, parts: Vec<PyRef<'_, Self>>) -> Result<Self> {
        let files = parts.iter().map(|part| in_memory(&part.file, Path::new(IN_MEMORY)));
        let files = files.collect::<Result<_>>()?;
        let schema = Arc::clone(&schema.0);
        let bytes = job::run(py, None, move |_| {
            let mut bytes = Vec::new();
            sums::add(files, &schema, |_| ())?.write(&mut bytes, Path::new(IN_MEMORY))?;
            Ok(bytes)
        })?;
        Self::new(Memory::new(py, bytes), Path::new(IN_MEMORY))
    }

    /// Opens the sums in the file at `path`.
    #[staticmethod]
    fn open(py: Python<'_>, #[pyo3(from_py_with = arguments::path)] path: PathBuf) -> Result<Self> {
        Self::new(Memory::read(py, path.clone())?, &path)
    }

    /// Reads the sums from the result of `to_bytes`.
    #[staticmethod]
    fn from_bytes(data: &Bound<'_, PyAny>) -> Result<Self> {
        Self::new(Memory::from_python(data)?, Path::new(IN_MEMORY))
    }

    /// Returns the sums as the bytes of their file.
    fn to_bytes(&self, py: Python<'_>) -> Py<PyBytes> {
        self.file.to_bytes(py)
    }

    /// Writes the sums to a file.
    #[pyo3(signature = (path, *, overwrite=false))]
    fn save(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = arguments::path)] path: PathBuf,
        #[pyo3(from_py_with = arguments::overwrite)] overwrite: bool,
    ) -> Result<()> {
        let mut input = Cursor::new(self.file.mapping());
        save(py, path, Access::Shared, overwrite, move |file| Ok(io::copy(&mut input, file)?))
    }

    /// The owners of the summed rows.
    #[getter]
    fn owners(&self) -> Vec<String> {
        let pooled = self.meta.pooled.iter();
        let names = pooled.flat_map(|pooled| {
            // A file may name an owner that its list lacks. It must not end the program.
            pooled.owners.iter().filter_map(|&owner| pooled.of.get(owner as usize).cloned())
        });
        names.collect()
    }

    /// The job of the keys, as `sudare info` shows it.
    #[getter]
    fn job(&self) -> String {
        self.meta.job.to_string()
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

    /// Decrypts the statistics of all rows from the total of all owners, for the holder of the key.
    fn statistics(&self, py: Python<'_>, schema: &Schema, key: &SecretKey) -> Result<Decrypted> {
        let read = self.total(schema, key)?;
        let columns = schema.0.columns().to_vec();
        job::run(py, None, move |_| {
            let statistics = read()?.statistics();
            Ok(Decrypted::of(decrypted::Decrypted::Statistics { columns, statistics }))
        })
    }

    /// Makes the common preparation of rows from the total of all owners, for the holder of the key.
    /// `class_weights` are the weights of rows by class, for keys of a training with given weights.
    #[pyo3(signature = (schema, key, class_weights=None))]
    fn transform(
        &self,
        py: Python<'_>,
        schema: &Schema,
        key: &SecretKey,
        class_weights: Option<Vec<f64>>,
    ) -> Result<Transform> {
        let read = self.total(schema, key)?;
        let schema = Arc::clone(&schema.0);
        let job = self.meta.job;
        job::run(py, None, move |_| {
            let transform = PooledTransform::new(&schema, &read()?, &job, class_weights)?;
            Ok(Transform(Arc::new(transform)))
        })
    }

    fn __reduce_ex__<'py>(slf: &Bound<'py, Self>, protocol: i32) -> Result<Reduced<'py>> {
        Ok(slf.get().file.reduce(&slf.get_type(), protocol)?)
    }

    fn __repr__(&self) -> String {
        format!("EncryptedSums({}, key_id={})", self.owners().join(", "), self.key_id())
    }
}

impl Sums {
    fn new(file: Memory, path: &Path) -> Result<Self> {
        let opened = in_memory(&file, path)?.expect(Kind::Ciphertexts)?;
        let (_, meta) = opened.meta(&[Content::Sums])?;
        let info = opened.info().clone();
        Ok(Self { file, info, meta })
    }

    /// Returns a function that decrypts the total.
    fn total(
        &self,
        schema: &Schema,
        key: &SecretKey,
    ) -> Result<impl FnOnce() -> Result<pool::Totals> + Send + use<>> {
        let made_for = job_of(&key.set.label)?;
        if made_for != self.meta.job {
            let found = format!("sums for {} and a secret key for {made_for}", self.meta.job);
            return Err(other_job(&found, "the key that the sums were encrypted with"));
        }
        let file = in_memory(&self.file, Path::new(IN_MEMORY))?;
        let set = key.set.clone();
        let key = Arc::clone(&key.decryptor);
        let schema = Arc::clone(&schema.0);
        // Decrypting takes time, so callers run this in a job, without the interpreter lock.
        Ok(move || Ok(sums::read(file, &schema, &set.params, &key)?.1))
    }
}

/// The preparation of the rows of all owners.
#[pyclass(frozen, name = "PooledTransform", module = "sudare._native")]
pub struct Transform(Arc<PooledTransform>);

#[pymethods]
impl Transform {
    /// Opens the transform in the file at `path`.
    #[staticmethod]
    fn open(py: Python<'_>, #[pyo3(from_py_with = arguments::path)] path: PathBuf) -> Result<Self> {
        job::detached(py, || Ok(Self(Arc::new(PooledTransform::read(&path)?))))
    }

    /// Writes the transform to a file that only the user may read.
    #[pyo3(signature = (path, *, overwrite=false))]
    fn save(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = arguments::path)] path: PathBuf,
        #[pyo3(from_py_with = arguments::overwrite)] overwrite: bool,
    ) -> Result<()> {
        let transform = Arc::clone(&self.0);
        job::run(py, None, move |_| Ok(files::write_text(&path, &transform.to_json()?, overwrite)?))
    }

    #[staticmethod]
    fn from_json(text: &str) -> Result<Self> {
        Ok(Self(Arc::new(PooledTransform::from_json(text, Path::new(IN_MEMORY))?)))
    }

    fn to_json(&self) -> Result<String> {
        Ok(self.0.to_json()?)
    }

    /// The number of rows of all owners.
    #[getter]
    fn rows(&self) -> usize {
        self.0.rows()
    }

    /// The agreement of the owners.
    #[getter]
    fn schema(&self) -> Schema {
        Schema(Arc::new(self.0.schema().clone()))
    }

    /// Encrypts the table of an owner for a training on the tables of all owners. With `path`, the table
    /// goes to that file and not into memory.
    #[pyo3(signature = (key, owner, data, *, path=None, overwrite=false, progress=None))]
    #[expect(clippy::too_many_arguments, reason = "by name, from Python")]
    fn encrypt(
        &self,
        py: Python<'_>,
        key: &PublicKey,
        owner: String,
        data: &Data,
        path: Option<PathBuf>,
        overwrite: bool,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> Result<Table> {
        let job = job_of(&key.set.label)?;
        let set = key.set.clone();
        let key = Arc::clone(&key.key);
        let common = (*self.0).clone();
        let table = (*data.table).clone();
        Table::written(py, path, overwrite, progress, move |progress, out, path| {
            let encryption = Encryption::new(job, &set.params, &set.label.name, key)?;
            progress.start("encrypting", encryption.plan().ciphertexts());
            let subject = Subject { pooled: Some((owner, common)), ..Subject::from(table) };
            encryption.write(out, path, subject, |done| progress.set(done))?;
            Ok(())
        })
    }
}

/// Returns the job of keys with this label.
fn job_of(label: &Label) -> Result<Job> {
    let job = Meta::read(label).map(|(_, meta)| meta.job);
    job.ok_or_else(|| other_job("keys for programs on arrays", "a key for a job on a table"))
}

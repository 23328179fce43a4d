//! Encrypted arrays of integers, and the engine that computes with them.

use super::{
    IntegerParameters,
    keys::{AnyKey, IntegerEvaluationKeys, IntegerPublicKey, IntegerSecretKey},
};
use crate::{
    error::{Error, Result},
    job,
    keys::{check, common::Identity},
    numbers::Numbers,
    op::PyOp,
    source::{Memory, save, written},
};
use pyo3::{prelude::*, types::PyBytes};
use std::{io::Write, path::PathBuf, sync::Arc};
use sudare::{
    exact::{Encryptor, serial::Reader},
    rlwe::KeyId,
};
use sudare_apps::exact::{self, Engine, IntegerArray, IntegerRange, Operand as ExactOperand};
use sudare_roles::{
    exact_files,
    os::files::{Access, Watch},
};

/// An array that is encrypted, or in a file.
#[pyclass(frozen, module = "sudare._native")]
pub struct Integers(Form);

enum Form {
    Encrypted(Encrypted),
    /// The file of an array, its shape, and its key.
    Stored(Memory, Vec<usize>, KeyId),
}

#[derive(Clone)]
struct Encrypted {
    set: IntegerParameters,
    array: IntegerArray,
}

impl Encrypted {
    fn write(&self, out: &mut (impl Write + ?Sized)) -> sudare::Result<u64> {
        exact_files::write_array(out, &self.set.label.name, &self.set.setting, &self.array)
    }
}

impl Integers {
    fn of(set: &IntegerParameters, array: IntegerArray) -> Self {
        Self(Form::Encrypted(Encrypted { set: set.clone(), array }))
    }

    /// Reads the header of an array in a file. Ciphertexts are read later.
    fn stored(file: Memory) -> sudare::Result<Self> {
        let reader = Reader::shared(file.mapping())?;
        let (shape, key_id) = exact_files::array_facts(reader.info())?;
        Ok(Self(Form::Stored(file, shape, key_id)))
    }

    /// Returns the ciphertexts, read under these parameters.
    fn encrypted(&self, py: Python<'_>, set: &IntegerParameters) -> Result<IntegerArray> {
        match &self.0 {
            Form::Encrypted(found) => {
                found.array.check(&set.setting)?;
                Ok(found.array.clone())
            }
            Form::Stored(file, ..) => {
                let file = file.mapping();
                let setting = set.setting.clone();
                job::run(py, None, move |_| {
                    Ok(exact_files::read_array(Reader::shared(file)?, &setting)?)
                })
            }
        }
    }
}

#[pymethods]
impl Integers {
    #[staticmethod]
    fn from_bytes(data: &Bound<'_, PyAny>) -> Result<Self> {
        Ok(Self::stored(Memory::from_python(data)?)?)
    }

    #[staticmethod]
    fn open(py: Python<'_>, path: PathBuf) -> Result<Self> {
        let file = Memory::read(py, path.clone())?;
        Self::stored(file).map_err(Error::at(Some(&path)))
    }

    fn to_bytes(&self, py: Python<'_>) -> Result<Py<PyBytes>> {
        match &self.0 {
            Form::Encrypted(array) => {
                let array = array.clone();
                written(py, move |file| array.write(file))
            }
            Form::Stored(file, ..) => Ok(file.to_bytes(py)),
        }
    }

    #[pyo3(signature = (path, *, overwrite=false))]
    fn save(&self, py: Python<'_>, path: PathBuf, overwrite: bool) -> Result<()> {
        match &self.0 {
            Form::Encrypted(array) => {
                let array = array.clone();
                save(py, path, Access::Shared, overwrite, move |file| array.write(file))
            }
            Form::Stored(file, ..) => file.save(py, path, overwrite),
        }
    }

    /// Returns the same array with its ciphertexts read, to compute with it and this key.
    fn attached(&self, py: Python<'_>, key: AnyKey<'_>) -> Result<Self> {
        let Identity { set, id, .. } = key.identity();
        let array = self.encrypted(py, set)?;
        array.check_key(id)?;
        Ok(Self::of(set, array))
    }

    /// Returns the same elements in another shape.
    fn reshaped(&self, shape: Vec<usize>) -> Result<Self> {
        match &self.0 {
            Form::Encrypted(found) => Ok(Self::of(&found.set, found.array.reshaped(&shape)?)),
            Form::Stored(..) => Err(Error::Bug("an array in a file was to be computed with")),
        }
    }

    /// Returns the same elements, which are promised to lie between two integers.
    fn within(&self, low: i64, high: i64) -> Result<Self> {
        match &self.0 {
            Form::Encrypted(found) => {
                let range = IntegerRange { low, high };
                Ok(Self::of(&found.set, found.array.within(&found.set.setting, range)?))
            }
            Form::Stored(..) => Err(Error::Bug("an array in a file was to be computed with")),
        }
    }

    #[getter]
    fn range(&self) -> Option<(i64, i64)> {
        match &self.0 {
            Form::Encrypted(found) => {
                let IntegerRange { low, high } = found.array.range();
                Some((low, high))
            }
            Form::Stored(..) => None,
        }
    }

    #[getter]
    fn shape(&self) -> &[usize] {
        match &self.0 {
            Form::Encrypted(found) => found.array.shape(),
            Form::Stored(_, shape, _) => shape,
        }
    }

    #[getter]
    fn blocks(&self) -> Option<usize> {
        match &self.0 {
            Form::Encrypted(found) => Some(found.array.blocks().len()),
            Form::Stored(..) => None,
        }
    }

    #[getter]
    fn level(&self) -> Option<u32> {
        match &self.0 {
            Form::Encrypted(found) => Some(found.array.level().0),
            Form::Stored(..) => None,
        }
    }

    #[getter]
    fn nbytes(&self) -> usize {
        match &self.0 {
            Form::Encrypted(found) => found.array.nbytes() as usize,
            Form::Stored(file, ..) => file.mapping().len(),
        }
    }

    #[getter]
    fn key_id(&self) -> String {
        match &self.0 {
            Form::Encrypted(found) => {
                let first = found.array.blocks().first();
                first.map_or_else(String::new, |block| block.key_id().to_string())
            }
            Form::Stored(_, _, key_id) => key_id.to_string(),
        }
    }
}

/// Computes on arrays of integers.
#[pyclass(frozen, module = "sudare._native")]
pub struct IntegerEngine {
    set: IntegerParameters,
    engine: Arc<Engine>,
    /// The file that the keys are mapped from, if they are.
    watch: Option<Arc<Watch>>,
}

/// An operand from Python.
#[derive(FromPyObject)]
pub enum Operand<'py> {
    Array(PyRef<'py, Integers>),
    Plain(Numbers<i64>),
}

#[pymethods]
impl IntegerEngine {
    /// Makes an engine with these keys.
    #[staticmethod]
    fn execute(py: Python<'_>, keys: &IntegerEvaluationKeys) -> Result<Self> {
        let set = keys.set.clone();
        let watch = keys.watch.clone();
        let keys = Arc::clone(&keys.keys);
        let setting = set.setting.clone();
        let engine = job::run(py, None, move |_| Ok(Arc::new(Engine::new(&setting, keys)?)))?;
        Ok(Self { set, engine, watch })
    }

    /// Returns the result of an operation.
    #[pyo3(signature = (op, operands, progress=None))]
    fn apply(
        &self,
        py: Python<'_>,
        op: &PyOp,
        operands: Vec<Operand<'_>>,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> Result<Integers> {
        let value = |operand| match operand {
            Operand::Array(array) => array.encrypted(py, &self.set).map(ExactOperand::Encrypted),
            Operand::Plain(words) => Ok(ExactOperand::Plain(words.into())),
        };
        let operands = operands.into_iter().map(value).collect::<Result<Vec<_>>>()?;
        let op = op.0.clone();
        let engine = Arc::clone(&self.engine);
        let watch = self.watch.clone();
        let found = job::run(py, progress, move |_| {
            // Mapped keys could change before the work or during it. Either makes the result wrong.
            check(watch.as_deref())?;
            let result = op.apply_exactly(&engine, &operands)?;
            check(watch.as_deref())?;
            Ok(result)
        })?;
        Ok(Integers::of(&self.set, found))
    }

    /// Returns all integers of the range of an array, if they fit into a table.
    fn points(&self, py: Python<'_>, array: &Integers) -> Result<Vec<i64>> {
        let array = array.encrypted(py, &self.set)?;
        Ok(self.engine.table_points(&array)?)
    }

    /// Returns functions of each element, by their values for the points of an array.
    #[pyo3(signature = (array, functions, progress=None))]
    fn tables(
        &self,
        py: Python<'_>,
        array: &Integers,
        functions: Vec<Numbers<i64>>,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> Result<Vec<Integers>> {
        let array = array.encrypted(py, &self.set)?;
        let functions: Vec<Vec<i64>> = functions.into_iter().map(|f| f.values).collect();
        let engine = Arc::clone(&self.engine);
        let watch = self.watch.clone();
        let found = job::run(py, progress, move |_| {
            check(watch.as_deref())?;
            let results = engine.tables(&array, &functions)?;
            check(watch.as_deref())?;
            Ok(results)
        })?;
        Ok(found.into_iter().map(|array| Integers::of(&self.set, array)).collect())
    }
}

/// Encrypts a new array under the key.
#[pyfunction]
#[pyo3(signature = (key, words, declared=None, progress=None))]
pub fn encrypt_integers(
    py: Python<'_>,
    key: &IntegerPublicKey,
    words: Numbers<i64>,
    declared: Option<(i64, i64)>,
    progress: Option<&Bound<'_, PyAny>>,
) -> Result<Integers> {
    let setting = key.set.setting.clone();
    let own_key = Arc::clone(&key.key);
    let array = job::run(py, progress, move |_| {
        let encryptor = Encryptor::new(setting.params(), own_key)?;
        Ok(match declared {
            Some((low, high)) => {
                let range = IntegerRange { low, high };
                exact::encrypt_within(&encryptor, &setting, &words.into(), range)?
            }
            None => exact::encrypt(&encryptor, &setting, &words.into())?,
        })
    })?;
    Ok(Integers::of(&key.set, array))
}

/// Returns the values of an array.
#[pyfunction]
pub fn decrypt_integers(
    py: Python<'_>,
    key: &IntegerSecretKey,
    array: &Integers,
) -> Result<Numbers<i64>> {
    let setting = key.set.setting.clone();
    let decryptor = Arc::clone(&key.decryptor);
    let array = array.encrypted(py, &key.set)?;
    let plain = job::run(py, None, move |_| Ok(exact::decrypt(&decryptor, &setting, &array)?))?;
    Ok(plain.into())
}

/// Returns the number of bits by which the errors of an array may grow.
#[pyfunction]
pub fn integer_noise_budget(
    py: Python<'_>,
    key: &IntegerSecretKey,
    array: &Integers,
) -> Result<f64> {
    let decryptor = Arc::clone(&key.decryptor);
    let array = array.encrypted(py, &key.set)?;
    job::run(py, None, move |_| Ok(exact::budget(&decryptor, &array)?))
}

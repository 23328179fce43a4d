//! Encrypted arrays of integers, and where they are computed with.

use super::{
    IntegerParameters,
    keys::{AnyKey, IntegerEvaluationKeys, IntegerPublicKey, IntegerSecretKey},
};
use crate::{
    error::{Error, Result},
    job,
    keys::check,
    source::{Memory, save},
};
use pyo3::{prelude::*, pybacked::PyBackedBytes, types::PyBytes};
use std::{
    io::{self, Cursor, Write},
    path::PathBuf,
    sync::Arc,
};
use sudare::{
    exact::{Encryptor, serial::Reader},
    rlwe::KeyId,
};
use sudare_apps::{
    array,
    exact::{self, Engine, IntegerArray, PlainIntegers},
};
use sudare_roles::{
    exact_files,
    files::{Access, Watch},
};

/// Integers from Python: their shape and, in C order, their bytes, eight each.
#[derive(FromPyObject)]
pub struct Words(Vec<usize>, PyBackedBytes);

impl Words {
    fn to_plain(&self) -> PlainIntegers {
        let (words, _) = self.1.as_chunks();
        let values = words.iter().map(|&word| i64::from_ne_bytes(word)).collect();
        PlainIntegers::new(&self.0, values)
    }
}

/// Integers to Python.
type WordsOut<'py> = (Vec<usize>, Bound<'py, PyBytes>);

fn to_python(py: Python<'_>, plain: PlainIntegers) -> PyResult<WordsOut<'_>> {
    let bytes = PyBytes::new_with(py, 8 * plain.values.len(), |bytes| {
        let (words, _) = bytes.as_chunks_mut();
        words.iter_mut().zip(&plain.values).for_each(|(word, x)| *word = x.to_ne_bytes());
        Ok(())
    })?;
    Ok((plain.shape, bytes))
}

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

    /// The file of an array, its header read.
    fn stored(file: Memory) -> sudare::Result<Self> {
        let reader = Reader::shared(file.mapping())?;
        let (shape, key_id) = exact_files::array_facts(reader.info())?;
        Ok(Self(Form::Stored(file, shape, key_id)))
    }

    /// The ciphertexts under these parameters.
    fn encrypted(&self, py: Python<'_>, set: &IntegerParameters) -> Result<IntegerArray> {
        match &self.0 {
            Form::Encrypted(found) => {
                found.array.check(&set.setting)?;
                Ok(found.array.clone())
            }
            Form::Stored(file, ..) => {
                let (file, setting) = (file.mapping(), set.setting.clone());
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
                let bytes = job::run(py, None, move |progress| {
                    let mut file = Vec::new();
                    array.write(&mut progress.watch(&mut file))?;
                    Ok(file)
                })?;
                Ok(PyBytes::new(py, &bytes).unbind())
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
            Form::Stored(file, ..) => {
                let mut input = Cursor::new(file.mapping());
                save(py, path, Access::Shared, overwrite, move |file| {
                    Ok(io::copy(&mut input, file)?)
                })
            }
        }
    }

    /// The same array with its ciphertexts read, to compute with beside this key.
    fn attached(&self, py: Python<'_>, key: AnyKey<'_>) -> Result<Self> {
        let (_, parameters, key_id) = key.identity();
        let array = self.encrypted(py, parameters)?;
        array.check_key(key_id)?;
        Ok(Self::of(parameters, array))
    }

    /// The same elements in another shape.
    fn reshaped(&self, shape: Vec<usize>) -> Result<Self> {
        match &self.0 {
            Form::Encrypted(found) => Ok(Self::of(&found.set, found.array.reshaped(&shape)?)),
            Form::Stored(..) => Err(Error::Bug("an array in a file was to be computed with")),
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
    /// Of the file that the keys are mapped from, if they are.
    watch: Option<Arc<Watch>>,
}

/// An operand from Python.
#[derive(FromPyObject)]
pub enum Operand<'py> {
    Array(PyRef<'py, Integers>),
    Plain(Words),
}

/// The same, ready to be computed with.
enum Value {
    Encrypted(IntegerArray),
    Plain(PlainIntegers),
}

impl IntegerEngine {
    fn value(&self, py: Python<'_>, operand: &Operand<'_>) -> Result<Value> {
        Ok(match operand {
            Operand::Array(found) => Value::Encrypted(found.encrypted(py, &self.set)?),
            Operand::Plain(words) => Value::Plain(words.to_plain()),
        })
    }

    fn run(
        &self,
        py: Python<'_>,
        progress: Option<&Bound<'_, PyAny>>,
        work: impl FnOnce(&Engine) -> array::Result<IntegerArray> + Send + 'static,
    ) -> Result<Integers> {
        let (engine, watch) = (Arc::clone(&self.engine), self.watch.clone());
        let found = job::run(py, progress, move |_| {
            check(watch.as_deref())?;
            let result = work(&engine)?;
            check(watch.as_deref())?;
            Ok(result)
        })?;
        Ok(Integers::of(&self.set, found))
    }

    /// The result of an operation on one array.
    fn unary(
        &self,
        py: Python<'_>,
        operand: &Integers,
        progress: Option<&Bound<'_, PyAny>>,
        work: impl FnOnce(&Engine, &IntegerArray) -> array::Result<IntegerArray> + Send + 'static,
    ) -> Result<Integers> {
        let array = operand.encrypted(py, &self.set)?;
        self.run(py, progress, move |engine| work(engine, &array))
    }
}

/// What no caller asks for.
fn both_plain<T>() -> array::Result<T> {
    Err(sudare::Error::Circuit("neither operand is encrypted: encrypt one of them".into()).into())
}

/// The negatives; of the least word itself, which is in no range.
fn negated(plain: &PlainIntegers) -> PlainIntegers {
    PlainIntegers::new(&plain.shape, plain.values.iter().map(|x| x.wrapping_neg()).collect())
}

#[pymethods]
impl IntegerEngine {
    /// With these keys.
    #[staticmethod]
    fn execute(py: Python<'_>, keys: &IntegerEvaluationKeys) -> Result<Self> {
        let (set, watch, keys) = (keys.set.clone(), keys.watch.clone(), Arc::clone(&keys.keys));
        let setting = set.setting.clone();
        let engine = job::run(py, None, move |_| Ok(Arc::new(Engine::new(&setting, keys)?)))?;
        Ok(Self { set, engine, watch })
    }

    /// The sum.
    #[pyo3(signature = (left, right, progress=None))]
    fn add(
        &self,
        py: Python<'_>,
        left: Operand<'_>,
        right: Operand<'_>,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> Result<Integers> {
        let operands = (self.value(py, &left)?, self.value(py, &right)?);
        self.run(py, progress, move |engine| match &operands {
            (Value::Encrypted(a), Value::Encrypted(b)) => engine.add(a, b),
            (Value::Encrypted(a), Value::Plain(b)) | (Value::Plain(b), Value::Encrypted(a)) => {
                engine.add_plain(a, b)
            }
            (Value::Plain(_), Value::Plain(_)) => both_plain(),
        })
    }

    /// The difference.
    #[pyo3(signature = (left, right, progress=None))]
    fn sub(
        &self,
        py: Python<'_>,
        left: Operand<'_>,
        right: Operand<'_>,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> Result<Integers> {
        let operands = (self.value(py, &left)?, self.value(py, &right)?);
        self.run(py, progress, move |engine| match &operands {
            (Value::Encrypted(a), Value::Encrypted(b)) => engine.sub(a, b),
            (Value::Encrypted(a), Value::Plain(b)) => engine.add_plain(a, &negated(b)),
            (Value::Plain(a), Value::Encrypted(b)) => engine.add_plain(&engine.neg(b)?, a),
            (Value::Plain(_), Value::Plain(_)) => both_plain(),
        })
    }

    /// The product of elements.
    #[pyo3(signature = (left, right, progress=None))]
    fn mul(
        &self,
        py: Python<'_>,
        left: Operand<'_>,
        right: Operand<'_>,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> Result<Integers> {
        let operands = (self.value(py, &left)?, self.value(py, &right)?);
        self.run(py, progress, move |engine| match &operands {
            (Value::Encrypted(a), Value::Encrypted(b)) => engine.mul(a, b),
            (Value::Encrypted(a), Value::Plain(b)) | (Value::Plain(b), Value::Encrypted(a)) => {
                engine.mul_plain_array(a, b)
            }
            (Value::Plain(_), Value::Plain(_)) => both_plain(),
        })
    }

    /// The product of matrices, one of which is plain.
    #[pyo3(signature = (left, right, progress=None))]
    fn matmul(
        &self,
        py: Python<'_>,
        left: Operand<'_>,
        right: Operand<'_>,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> Result<Integers> {
        let operands = (self.value(py, &left)?, self.value(py, &right)?);
        self.run(py, progress, move |engine| match &operands {
            (Value::Plain(a), Value::Encrypted(b)) => engine.matmul_left(a, b),
            (Value::Encrypted(a), Value::Plain(b)) => engine.matmul_right(a, b),
            (Value::Encrypted(a), Value::Encrypted(b))
                if a.shape().len() == 1 && a.shape() == b.shape() =>
            {
                engine.sum(&engine.mul(a, b)?)
            }
            (Value::Encrypted(_), Value::Encrypted(_)) => Err(array::ArrayError::Argument {
                op: "multiply matrices",
                problem: "both are encrypted, which works for two vectors of one length: give one \
                          of the matrices in the clear"
                    .into(),
            }),
            (Value::Plain(_), Value::Plain(_)) => both_plain(),
        })
    }

    /// The negative.
    fn neg(&self, py: Python<'_>, operand: &Integers) -> Result<Integers> {
        self.unary(py, operand, None, |engine, a| engine.neg(a))
    }

    /// The power of each element.
    #[pyo3(signature = (operand, exponent, progress=None))]
    fn power(
        &self,
        py: Python<'_>,
        operand: &Integers,
        exponent: u64,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> Result<Integers> {
        self.unary(py, operand, progress, move |engine, a| engine.power(a, exponent))
    }

    /// The value of a polynomial at each element.
    #[pyo3(signature = (operand, coeffs, progress=None))]
    fn polynomial(
        &self,
        py: Python<'_>,
        operand: &Integers,
        coeffs: Words,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> Result<Integers> {
        let coeffs = coeffs.to_plain().values;
        self.unary(py, operand, progress, move |engine, a| engine.polynomial(a, &coeffs))
    }

    /// The same elements, bootstrapped.
    #[pyo3(signature = (operand, progress=None))]
    fn bootstrap(
        &self,
        py: Python<'_>,
        operand: &Integers,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> Result<Integers> {
        self.unary(py, operand, progress, |engine, a| engine.bootstrap(a))
    }

    /// Rows rotated to the left.
    #[pyo3(signature = (operand, k, progress=None))]
    fn rotate(
        &self,
        py: Python<'_>,
        operand: &Integers,
        k: i64,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> Result<Integers> {
        self.unary(py, operand, progress, move |engine, a| engine.rotate(a, k))
    }

    /// Both rows exchanged.
    fn swap_rows(&self, py: Python<'_>, operand: &Integers) -> Result<Integers> {
        self.unary(py, operand, None, |engine, a| engine.swap_rows(a))
    }

    /// The sum of all elements.
    #[pyo3(signature = (operand, progress=None))]
    fn sum(
        &self,
        py: Python<'_>,
        operand: &Integers,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> Result<Integers> {
        self.unary(py, operand, progress, |engine, a| engine.sum(a))
    }
}

/// A new array under the key.
#[pyfunction]
#[pyo3(signature = (key, words, progress=None))]
pub fn encrypt_integers(
    py: Python<'_>,
    key: &IntegerPublicKey,
    words: Words,
    progress: Option<&Bound<'_, PyAny>>,
) -> Result<Integers> {
    let (setting, own_key) = (key.set.setting.clone(), Arc::clone(&key.key));
    let array = job::run(py, progress, move |_| {
        let encryptor = Encryptor::new(setting.params(), own_key)?;
        Ok(exact::encrypt(&encryptor, &setting, &words.to_plain())?)
    })?;
    Ok(Integers::of(&key.set, array))
}

/// The values of an array.
#[pyfunction]
pub fn decrypt_integers<'py>(
    py: Python<'py>,
    key: &IntegerSecretKey,
    array: &Integers,
) -> Result<WordsOut<'py>> {
    let (setting, decryptor) = (key.set.setting.clone(), Arc::clone(&key.decryptor));
    let array = array.encrypted(py, &key.set)?;
    let plain = job::run(py, None, move |_| Ok(exact::decrypt(&decryptor, &setting, &array)?))?;
    Ok(to_python(py, plain)?)
}

/// The bits by which errors of an array could grow.
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

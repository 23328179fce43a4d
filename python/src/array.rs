//! Encrypted arrays, and the engines that compute with them.

use crate::{
    error::{Error, Result},
    job,
    keys::{self, EvaluationKeys, PublicKey, SecretKey},
    lineage::{Ancestor, Lineage},
    numbers::Numbers,
    op::{Op, PyOp, Value, refs},
    plan::{Bootstrapping, Parameters, Plan},
    source::{Memory, save, written},
    trace::Traced,
};
use pyo3::{prelude::*, types::PyBytes};
use std::{io::Write, path::PathBuf, sync::Arc};
use sudare::{
    circuits::ckks::{ComplexOps, cost},
    ckks::{
        self, Ciphertext, Encryptor, Release,
        serial::{self, Kind, Reader},
    },
    rlwe::{KeyId, KeyRequest, Level},
};
use sudare_apps::array::{self, Layout, PlainArray, Range, SimulatedArray, Simulator};
use sudare_arith::{mem::Mapping, prng::Seed};
use sudare_roles::{
    format::label::ArrayMeta,
    os::files::{Access, Watch},
    owner::ledger::Draft,
};

/// An array that is encrypted, simulated, or in a file.
#[pyclass(frozen, module = "sudare._native")]
pub struct Array(pub(crate) Form);

pub(crate) enum Form {
    Encrypted(Encrypted),
    Simulated(SimulatedArray, Option<Lineage>),
    /// The file of an encrypted array, the facts in its label, and its key.
    Stored(Memory, ArrayMeta, KeyId),
    /// An array of a program that is recorded.
    Traced(Traced),
}

#[derive(Clone)]
pub(crate) struct Encrypted {
    set: Parameters,
    array: array::Array<ckks::Evaluator>,
    lineage: Option<Lineage>,
}

impl Encrypted {
    fn blocks(&self) -> Vec<Ciphertext> {
        self.array.blocks().iter().map(|block| Ciphertext::clone(block)).collect()
    }

    fn write(&self, out: &mut (impl Write + ?Sized)) -> sudare::Result<u64> {
        let meta = ArrayMeta {
            layout: self.array.layout().clone(),
            padding_is_zero: self.array.padding_is_zero(),
            lineage: self.lineage.map(Lineage::digest),
            range: Some(self.array.range().public()),
        };
        let label = meta.label(&self.set.label.name)?;
        serial::write_ciphertexts(out, &self.set.params, &self.blocks(), &label)
    }

    /// Reads the array in a file. The file must have the parameters of `set`.
    fn read(file: Mapping, set: &Parameters) -> Result<Self> {
        let reader = Reader::shared(file)?;
        let meta = ArrayMeta::read(&reader.info().label)?;
        let blocks = reader.ciphertexts(&set.params)?;
        let layout = meta.layout;
        let padding_is_zero = meta.padding_is_zero;
        // Files of older versions have no range.
        let range = meta.range.map_or_else(Range::unknown, Range::from);
        let array = array::Array::from_ciphertexts(layout, blocks, padding_is_zero, range)?;
        Ok(Self { set: set.clone(), array, lineage: meta.lineage.map(Lineage::from_digest) })
    }
}

impl Array {
    /// Reads the header of an array in a file. Ciphertexts are read later.
    fn stored(file: Memory) -> sudare::Result<Self> {
        let reader = Reader::shared(file.mapping())?;
        let info = reader.info();
        if info.kind != Kind::Ciphertexts {
            return Err(sudare::Error::WrongKind { found: info.kind, needed: Kind::Ciphertexts });
        }
        let meta = ArrayMeta::read(&info.label)?;
        let key_id = info.key_id;
        Ok(Self(Form::Stored(file, meta, key_id)))
    }

    /// Returns the ciphertexts of the array, read under these parameters.
    fn encrypted(&self, py: Python<'_>, set: &Parameters) -> Result<Encrypted> {
        match &self.0 {
            Form::Encrypted(array) => Ok(array.clone()),
            Form::Simulated(..) => Err(Error::Simulation),
            Form::Traced(_) => Err(Error::Traced),
            Form::Stored(file, ..) => {
                let file = file.mapping();
                let set = set.clone();
                job::run(py, None, move |_| Encrypted::read(file, &set))
            }
        }
    }

    /// Returns the computation behind the array, if it is known.
    fn ancestor(&self) -> Option<Lineage> {
        match &self.0 {
            Form::Encrypted(array) => array.lineage,
            Form::Simulated(_, lineage) => *lineage,
            Form::Stored(_, meta, _) => meta.lineage.map(Lineage::from_digest),
            Form::Traced(_) => None,
        }
    }

    /// Returns the range of the elements, if it is known.
    fn known_range(&self) -> Option<Range> {
        match &self.0 {
            Form::Encrypted(array) => Some(array.array.range().clone()),
            Form::Simulated(array, _) => Some(array.range().clone()),
            Form::Stored(_, meta, _) => meta.range.map(Range::from),
            Form::Traced(_) => None,
        }
    }

    /// Returns the layout in ciphertexts, if it is known.
    fn layout(&self) -> Option<&Layout> {
        match &self.0 {
            Form::Encrypted(array) => Some(array.array.layout()),
            Form::Simulated(array, _) => Some(array.layout()),
            Form::Stored(_, meta, _) => Some(&meta.layout),
            Form::Traced(_) => None,
        }
    }
}

#[pymethods]
impl Array {
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
            Form::Simulated(..) => Err(Error::Simulation),
            Form::Traced(_) => Err(Error::Traced),
            // A file that was not read is passed on unchanged.
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
            Form::Simulated(..) => Err(Error::Simulation),
            Form::Traced(_) => Err(Error::Traced),
            Form::Stored(file, ..) => file.save(py, path, overwrite),
        }
    }

    /// Returns the same array with its ciphertexts read.
    fn attached(&self, py: Python<'_>, parameters: &Parameters) -> Result<Self> {
        Ok(Self(Form::Encrypted(self.encrypted(py, parameters)?)))
    }

    #[getter]
    fn shape(&self) -> &[usize] {
        match &self.0 {
            Form::Traced(array) => &array.shape,
            _ => self.layout().map_or(&[], Layout::shape),
        }
    }

    #[getter]
    fn blocks(&self) -> usize {
        self.layout().map_or(0, Layout::blocks)
    }

    #[getter]
    fn level(&self) -> Option<u32> {
        match &self.0 {
            Form::Encrypted(array) => Some(array.array.level().0),
            Form::Simulated(array, _) => Some(array.level().0),
            Form::Stored(..) | Form::Traced(_) => None,
        }
    }

    #[getter]
    fn log2_scale(&self) -> Option<f64> {
        match &self.0 {
            Form::Encrypted(array) => Some(array.array.scale().log2()),
            Form::Simulated(array, _) => Some(array.scale().log2()),
            Form::Stored(..) | Form::Traced(_) => None,
        }
    }

    #[getter]
    fn nbytes(&self) -> usize {
        match &self.0 {
            Form::Encrypted(array) => array.array.nbytes() as usize,
            // One complex double a slot.
            Form::Simulated(array, _) => (16 * array.blocks().len()) << array.layout().log_slots(),
            Form::Stored(file, ..) => file.mapping().len(),
            Form::Traced(_) => 0,
        }
    }

    #[getter]
    fn key_id(&self) -> Option<String> {
        match &self.0 {
            Form::Encrypted(array) => {
                array.array.blocks().first().map(|block| block.key_id().to_string())
            }
            Form::Simulated(..) | Form::Traced(_) => None,
            Form::Stored(_, _, key_id) => Some(key_id.to_string()),
        }
    }

    /// Digest of the computation behind the array, in hexadecimal.
    #[getter]
    fn lineage(&self) -> Option<String> {
        self.ancestor().map(Lineage::to_hex)
    }

    /// Two numbers between which all elements lie, if they are known.
    #[getter]
    fn range(&self) -> Option<(f64, f64)> {
        self.known_range().map(|range| range.interval().into_inner())
    }

    #[getter]
    fn log2_error(&self) -> Option<f64> {
        match &self.0 {
            Form::Simulated(array, _) => Some(array.noise_log2()),
            _ => None,
        }
    }
}

/// Computes on arrays, encrypted or in simulation.
#[pyclass(frozen, module = "sudare._native")]
pub struct Engine {
    set: Parameters,
    machine: Machine,
}

enum Machine {
    /// Computes on ciphertexts, with the watched file if the keys are mapped from one.
    Execution(Arc<Computer<ckks::Evaluator>>, Option<Arc<Watch>>),
    Simulation(Arc<Simulator>),
}

type Computer<E> = array::Engine<'static, E>;

/// Makes an engine with these keys, and with bootstrapping if the parameters have a way.
fn computer<E: ComplexOps>(
    set: &Parameters,
    evaluator: E,
    keys: &KeyRequest,
) -> Result<Computer<E>> {
    let evaluator = Arc::new(evaluator);
    let prepare = |way: &Bootstrapping| way.plan.prepare(&*evaluator).map(Arc::new);
    let bootstrapper = set.bootstrapping.as_ref().map(prepare).transpose()?;
    let engine = array::Engine::shared(evaluator, &set.params, bootstrapper)?;
    Ok(engine.for_keys(&set.params, keys))
}

impl Machine {
    fn simulator(&self) -> Result<&Arc<Simulator>> {
        match self {
            Self::Simulation(engine) => Ok(engine),
            Self::Execution(..) => Err(Error::Simulation),
        }
    }
}

/// An operand from Python.
#[derive(FromPyObject)]
pub enum Operand<'py> {
    Array(PyRef<'py, Array>),
    Plain(Numbers),
}

/// Turns operands into operands of an engine. `array` reads each array.
fn values<E: ComplexOps>(
    operands: Vec<Operand<'_>>,
    array: impl Fn(&Array) -> Result<array::Array<E>>,
) -> Result<Vec<Value<E>>> {
    let value = |operand| match operand {
        Operand::Array(operand) => array(&operand).map(Value::Encrypted),
        Operand::Plain(numbers) => Ok(Value::Plain(numbers.into())),
    };
    operands.into_iter().map(value).collect()
}

/// Returns the lineage of a result.
fn lineage(op: &Op, operands: &[Operand<'_>]) -> Option<Lineage> {
    let ancestors = operands.iter().map(|operand| match operand {
        Operand::Array(array) => Ancestor::Array(array.ancestor()),
        Operand::Plain(Numbers { shape, values }) => Ancestor::Plain { shape, values },
    });
    Lineage::of(op, ancestors)
}

#[pymethods]
impl Engine {
    /// Makes an engine with these keys.
    #[staticmethod]
    fn execute(py: Python<'_>, keys: &EvaluationKeys) -> Result<Self> {
        let set = keys.set.clone();
        let watch = keys.watch.clone();
        let keys = Arc::clone(&keys.keys);
        job::run(py, None, move |_| {
            // The keys decide how the engine rotates: see `for_keys`.
            let request = keys.fulfils();
            let evaluator = ckks::Evaluator::new(&set.params, keys)?;
            let engine = Arc::new(computer(&set, evaluator, &request)?);
            Ok(Self { set, machine: Machine::Execution(engine, watch) })
        })
    }

    /// Makes an engine on clear values, with the keys that a plan requires.
    #[staticmethod]
    fn simulate(py: Python<'_>, plan: &Plan) -> Result<Self> {
        let set = plan.set.clone();
        let request = plan.request.clone();
        job::run(py, None, move |_| {
            let evaluator = cost::Evaluator::new(&set.params, &request);
            // Simulation sees values, so it can refuse arguments that execution cannot see.
            let engine = computer(&set, evaluator, &request)?.with_checked_magnitudes();
            let machine = Machine::Simulation(Arc::new(engine));
            Ok(Self { set, machine })
        })
    }

    /// Returns the result of an operation.
    #[pyo3(signature = (op, operands, progress=None))]
    fn apply(
        &self,
        py: Python<'_>,
        op: &PyOp,
        operands: Vec<Operand<'_>>,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> Result<Array> {
        let op = op.0.clone();
        // Taken first, because `values` consumes the operands.
        let lineage = lineage(&op, &operands);
        Ok(Array(match &self.machine {
            Machine::Execution(engine, watch) => {
                let operands = values(operands, |array| Ok(array.encrypted(py, &self.set)?.array))?;
                let engine = Arc::clone(engine);
                let watch = watch.clone();
                let work = move |_: &_| {
                    // Mapped keys could change before the work or during it. Either makes the
                    // result wrong.
                    keys::check(watch.as_deref())?;
                    let result = op.apply(&engine, &refs(&operands))?;
                    keys::check(watch.as_deref())?;
                    Ok(result)
                };
                let array = job::run(py, progress, work)?;
                Form::Encrypted(Encrypted { set: self.set.clone(), array, lineage })
            }
            Machine::Simulation(engine) => {
                let operands = values(operands, |array| match &array.0 {
                    Form::Simulated(array, _) => Ok(array.clone()),
                    _ => Err(Error::Simulation),
                })?;
                let engine = Arc::clone(engine);
                let work = move |_: &_| Ok(op.apply(&engine, &refs(&operands))?);
                Form::Simulated(job::run(py, progress, work)?, lineage)
            }
        }))
    }

    /// Makes an array of clear values that behaves like an encrypted one. Its range is `declared`, or the
    /// range of the values.
    #[pyo3(signature = (numbers, declared=None))]
    fn encrypt_in_simulation(
        &self,
        py: Python<'_>,
        numbers: Numbers,
        declared: Option<(f64, f64)>,
    ) -> Result<Array> {
        let engine = Arc::clone(self.machine.simulator()?);
        let set = self.set.clone();
        let array = job::run(py, None, move |_| {
            let (level, layout) = set.new_array(&numbers.shape)?;
            let plain = numbers.into();
            let slots = engine.evaluator().slots();
            let array = array::simulate_encryption(slots, &set.params, &layout, &plain, level)?;
            Ok(in_range(array, &plain, declared)?)
        })?;
        let lineage = Lineage::input(array.shape());
        Ok(Array(Form::Simulated(array, Some(lineage))))
    }

    /// Returns the values of a simulated array.
    fn decrypt_in_simulation(&self, array: &Array) -> Result<Numbers> {
        match &array.0 {
            Form::Simulated(array, _) => Ok(array::simulate_decryption(array)?.into()),
            _ => Err(Error::Simulation),
        }
    }
}

/// Encrypts a new array under the key. Its range is `declared`, or the range of the values.
#[pyfunction]
#[pyo3(signature = (key, numbers, declared=None, progress=None))]
pub fn encrypt(
    py: Python<'_>,
    key: &PublicKey,
    numbers: Numbers,
    declared: Option<(f64, f64)>,
    progress: Option<&Bound<'_, PyAny>>,
) -> Result<Array> {
    let set = key.set.clone();
    let key = Arc::clone(&key.key);
    let array = job::run(py, progress, move |_| {
        let (level, layout) = set.new_array(&numbers.shape)?;
        let plain = numbers.into();
        let encryptor = Encryptor::new(&set.params, key)?;
        let array = array::encrypt(&encryptor, &set.params, &layout, &plain, level)?;
        let array = in_range(array, &plain, declared)?;
        let lineage = Some(Lineage::input(array.shape()));
        Ok(Encrypted { set, array, lineage })
    })?;
    Ok(Array(Form::Encrypted(array)))
}

/// Gives an array of these values the declared range, if there is one.
fn in_range<E: ComplexOps>(
    array: array::Array<E>,
    values: &PlainArray,
    declared: Option<(f64, f64)>,
) -> array::Result<array::Array<E>> {
    match declared {
        Some((low, high)) => array.declared(values, low, high),
        None => Ok(array),
    }
}

/// Returns the values of an array.
#[pyfunction]
pub fn decrypt(py: Python<'_>, key: &SecretKey, array: &Array) -> Result<Numbers> {
    let set = key.set.clone();
    let key = Arc::clone(&key.decryptor);
    let array = array.encrypted(py, &set)?.array;
    let plain = job::run(py, None, move |_| Ok(array::decrypt(&key, &set.params, &array)?))?;
    Ok(plain.into())
}

/// Returns the values of an array for others than the key's owner, and counts a release of the key.
/// `error` bounds the error of each value.
#[pyfunction]
pub fn release(
    py: Python<'_>,
    key: &SecretKey,
    array: &Array,
    error: f64,
    bits: u32,
) -> Result<Numbers> {
    // A warning that is turned into an exception must end the call before anything is counted.
    key.warn_of_new_ledger(py)?;
    let array = array.encrypted(py, &key.set)?;
    let ledger = key.ledger();
    let key = Arc::clone(&key.decryptor);
    let plain = job::run(py, None, move |_| {
        let plain = array::decrypt(&key, &array.set.params, &array.array)?;
        let decrypted = plain.values.iter().copied();
        // The noise depends on the ciphertexts, so the same result always gets the same noise.
        let mut draft = Draft::new(&key, bits, decrypted, |out| array.write(out))?;
        let values = Release::default().values(&plain.values, error, bits, &draft.noise())?;
        // Values may leave this function only after the ledger counted them.
        draft.count(&ledger)?;
        Ok(PlainArray { values, ..plain })
    })?;
    Ok(plain.into())
}

/// Releases values in the clear as `release` does. No key counts them.
#[pyfunction]
pub fn release_in_simulation(numbers: Numbers, error: f64, bits: u32) -> Result<Numbers> {
    // No ciphertext exists to derive the noise from, so each call draws new noise.
    let noise = Seed::random().map_err(sudare::Error::from)?;
    let values = Release::default().values(&numbers.values, error, bits, &noise)?;
    Ok(Numbers { values, ..numbers })
}

/// Returns the maximum number of bits after the point with which `count` values can be released.
#[pyfunction]
pub fn most_release_bits(count: usize, error: f64) -> Option<u32> {
    Release::default().most_bits(count, error)
}

impl Parameters {
    /// Returns the level and the layout of a new array.
    fn new_array(&self, shape: &[usize]) -> Result<(Level, Layout)> {
        let most = self.params.log_n() - 1;
        // Blocks may not have more slots than bootstrapping refreshes.
        let log_slots = self.bootstrapping.as_ref().map_or(most, |way| way.plan.spec().log_slots);
        let level = self.fresh_level();
        Ok((level, Layout::new(shape, log_slots)?))
    }
}

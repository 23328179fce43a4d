//! Encrypted arrays of words, and the engines that compute with them.

use crate::{
    error::{Error, Result},
    integers::{
        IntegerParameters, IntegerPlan,
        keys::{AnyKey, IntegerEvaluationKeys, IntegerPublicKey, IntegerSecretKey},
    },
    job,
    keys::{check, common::Identity},
    numbers::Numbers,
    source::{Memory, save, written},
};
use pyo3::{prelude::*, types::PyBytes};
use std::{io::Write, path::PathBuf, sync::Arc};
use sudare::exact::{Ciphertext, Encryptor, Form as CiphertextForm, serial::Reader};
use sudare_apps::{
    array::ArrayError,
    exact::{Comparison, IntegerRange},
    words::{
        self, Bitwise, Clear, ClearPlane, EncryptedPlane, EncryptedPlanes, Operand, Paired,
        PairedPlane, PlainWords, Plane, Radix, SimulatedPlanes, Usage, Word, WordOp, WordType,
        Words,
    },
};
use sudare_roles::{
    exact_files::{self, WordFacts},
    os::files::{Access, Watch},
};

/// Computes in the clear, and on the public properties of ciphertexts.
type Simulation = Words<Paired<Clear, SimulatedPlanes>>;
type SimulatedWord = Word<PairedPlane<ClearPlane, Plane<CiphertextForm>>>;

/// An array of words that is encrypted, simulated, or in a file.
#[pyclass(frozen, module = "sudare._native")]
pub struct WordArray(Form);

enum Form {
    Encrypted(Encrypted),
    /// The simulation that made the array, and its planes.
    Simulated(Arc<Simulation>, SimulatedWord),
    /// The file of an array, and its facts.
    Stored(Memory, WordFacts),
}

#[derive(Clone)]
struct Encrypted {
    set: IntegerParameters,
    word: Word<EncryptedPlane>,
}

impl Encrypted {
    fn write(&self, out: &mut (impl Write + ?Sized)) -> sudare::Result<u64> {
        exact_files::write_words(out, &self.set.label.name, &self.set.setting, &self.word)
    }

    fn blocks(&self) -> impl Iterator<Item = &Ciphertext> {
        self.word.planes().iter().flat_map(|plane| plane.blocks())
    }
}

fn refused(problem: &str) -> Error {
    Error::Array(ArrayError::Argument { op: "words", problem: problem.into() })
}

impl WordArray {
    fn of(set: &IntegerParameters, word: Word<EncryptedPlane>) -> Self {
        Self(Form::Encrypted(Encrypted { set: set.clone(), word }))
    }

    /// Reads the header of an array in a file. Ciphertexts are read later.
    fn stored(file: Memory) -> sudare::Result<Self> {
        let reader = Reader::shared(file.mapping())?;
        let facts = exact_files::word_facts(reader.info())?;
        Ok(Self(Form::Stored(file, facts)))
    }

    /// Returns the planes, read under these parameters.
    fn encrypted(&self, py: Python<'_>, set: &IntegerParameters) -> Result<Word<EncryptedPlane>> {
        match &self.0 {
            Form::Encrypted(found) => Ok(found.word.clone()),
            Form::Simulated(..) => Err(refused(
                "the array is of a simulation: encrypt the data with the context that computes",
            )),
            Form::Stored(file, _) => {
                let file = file.mapping();
                let setting = set.setting.clone();
                job::run(py, None, move |_| {
                    Ok(exact_files::read_words(Reader::shared(file)?, &setting)?)
                })
            }
        }
    }

    /// Returns the planes of this simulation.
    fn simulated(&self, simulation: &Arc<Simulation>) -> Result<SimulatedWord> {
        match &self.0 {
            Form::Simulated(own, word) if Arc::ptr_eq(own, simulation) => Ok(word.clone()),
            _ => Err(refused("a simulation has arrays of its own: encrypt the data in it")),
        }
    }

    fn in_memory(&self) -> Result<&Encrypted> {
        match &self.0 {
            Form::Encrypted(found) => Ok(found),
            Form::Simulated(..) => Err(refused("an array of a simulation has no ciphertexts")),
            Form::Stored(..) => Err(Error::Bug("an array in a file was to be computed with")),
        }
    }
}

#[pymethods]
impl WordArray {
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
        if let Form::Stored(file, _) = &self.0 {
            return Ok(file.to_bytes(py));
        }
        let array = self.in_memory()?.clone();
        written(py, move |file| array.write(file))
    }

    #[pyo3(signature = (path, *, overwrite=false))]
    fn save(&self, py: Python<'_>, path: PathBuf, overwrite: bool) -> Result<()> {
        if let Form::Stored(file, _) = &self.0 {
            return file.save(py, path, overwrite);
        }
        let array = self.in_memory()?.clone();
        save(py, path, Access::Shared, overwrite, move |file| array.write(file))
    }

    /// Returns the same array with its ciphertexts read, to compute with it and this key.
    fn attached(&self, py: Python<'_>, key: AnyKey<'_>) -> Result<Self> {
        let Identity { set, id, .. } = key.identity();
        let word = self.encrypted(py, set)?;
        word.planes().iter().try_for_each(|plane| plane.check(&set.setting, id))?;
        Ok(Self::of(set, word))
    }

    #[getter]
    fn shape(&self) -> Vec<usize> {
        match &self.0 {
            Form::Encrypted(found) => found.word.planes()[0].layout().shape().to_vec(),
            Form::Simulated(simulation, word) => simulation.shape(word).to_vec(),
            Form::Stored(_, facts) => facts.shape.clone(),
        }
    }

    /// Type of the elements, as NumPy names it.
    #[getter]
    fn dtype(&self) -> String {
        match &self.0 {
            Form::Encrypted(found) => found.word.kind().to_string(),
            Form::Simulated(_, word) => word.kind().to_string(),
            Form::Stored(_, facts) => facts.kind.to_string(),
        }
    }

    #[getter]
    fn digit_bits(&self) -> u32 {
        match &self.0 {
            Form::Encrypted(found) => found.word.radix().bits(),
            Form::Simulated(_, word) => word.radix().bits(),
            Form::Stored(_, facts) => facts.radix.bits(),
        }
    }

    #[getter]
    fn blocks(&self) -> Option<usize> {
        match &self.0 {
            Form::Encrypted(found) => Some(found.blocks().count()),
            Form::Simulated(_, word) => {
                Some(word.planes().iter().map(|plane| plane.1.blocks().len()).sum())
            }
            Form::Stored(..) => None,
        }
    }

    #[getter]
    fn level(&self) -> Option<u32> {
        match &self.0 {
            Form::Encrypted(found) => found.blocks().map(|block| block.level().0).min(),
            Form::Simulated(_, word) => {
                let forms = word.planes().iter().flat_map(|plane| plane.1.blocks());
                forms.map(|form| form.level.0).min()
            }
            Form::Stored(..) => None,
        }
    }

    #[getter]
    fn nbytes(&self) -> usize {
        match &self.0 {
            Form::Encrypted(found) => {
                let rows = found.blocks().flat_map(Ciphertext::polys).flat_map(|poly| poly.rows());
                rows.map(|row| 8 * row.len()).sum()
            }
            Form::Simulated(..) => 0,
            Form::Stored(file, _) => file.mapping().len(),
        }
    }

    #[getter]
    fn key_id(&self) -> Option<String> {
        match &self.0 {
            Form::Encrypted(found) => found.blocks().next().map(|block| block.key_id().to_string()),
            Form::Simulated(..) => None,
            Form::Stored(_, facts) => Some(facts.key_id.to_string()),
        }
    }
}

/// Computes on arrays of words.
#[pyclass(frozen, module = "sudare._native")]
pub struct WordEngine(Kind);

enum Kind {
    Encrypted {
        set: IntegerParameters,
        words: Arc<Words<EncryptedPlanes>>,
        /// The file that the keys are mapped from, if they are.
        watch: Option<Arc<Watch>>,
    },
    Simulated(Arc<Simulation>),
}

/// An operand from Python.
#[derive(FromPyObject)]
pub enum WordOperand<'py> {
    Array(PyRef<'py, WordArray>),
    Plain(Numbers<u64>),
}

impl From<Numbers<u64>> for PlainWords {
    fn from(Numbers { shape, values }: Numbers<u64>) -> Self {
        Self { shape, values }
    }
}

/// Reads an operation by the name of its function in NumPy.
fn operation(name: &str, numbers: Vec<u64>, dtype: Option<&str>) -> Result<WordOp> {
    let first = || numbers.first().copied().unwrap_or(0);
    // Counts beyond the width of any word shift alike.
    let count = || first().min(u64::from(u32::MAX)) as u32;
    Ok(match name {
        "add" => WordOp::Add,
        "subtract" => WordOp::Sub,
        "multiply" => WordOp::Mul,
        "negative" => WordOp::Neg,
        "absolute" => WordOp::Abs,
        "invert" => WordOp::Invert,
        "carry" => WordOp::Carry,
        "less" => WordOp::Compare(Comparison::Less),
        "less_equal" => WordOp::Compare(Comparison::LessEqual),
        "greater" => WordOp::Compare(Comparison::Greater),
        "greater_equal" => WordOp::Compare(Comparison::GreaterEqual),
        "equal" => WordOp::Compare(Comparison::Equal),
        "not_equal" => WordOp::Compare(Comparison::NotEqual),
        "where" => WordOp::Select,
        "minimum" => WordOp::Minimum,
        "maximum" => WordOp::Maximum,
        "bitwise_and" => WordOp::Bitwise(Bitwise::And),
        "bitwise_or" => WordOp::Bitwise(Bitwise::Or),
        "bitwise_xor" => WordOp::Bitwise(Bitwise::Xor),
        "left_shift" => WordOp::ShiftLeft(count()),
        "right_shift" => WordOp::ShiftRight(count()),
        "floor_divide" => WordOp::Quotient(first()),
        "remainder" => WordOp::Remainder(first()),
        "isin" => WordOp::IsIn(numbers),
        "searchsorted_left" => WordOp::SearchSorted { edges: numbers, right: false },
        "searchsorted_right" => WordOp::SearchSorted { edges: numbers, right: true },
        "reshape" => WordOp::Reshape(numbers.into_iter().map(|size| size as usize).collect()),
        "astype" => WordOp::Convert(dtype.unwrap_or_default().parse()?),
        _ => return Err(Error::Bug("words have no such operation")),
    })
}

/// The needs of a program, as a dictionary.
#[derive(IntoPyObject)]
struct Needs {
    relinearizations: u64,
    bootstraps: u64,
    depth: u32,
    seconds: f64,
    log2_failure: f64,
}

#[pymethods]
impl WordEngine {
    /// Makes an engine with these keys.
    #[staticmethod]
    fn execute(py: Python<'_>, keys: &IntegerEvaluationKeys) -> Result<Self> {
        let set = keys.set.clone();
        let watch = keys.watch.clone();
        let keys = Arc::clone(&keys.keys);
        let setting = set.setting.clone();
        let words = job::run(py, None, move |_| {
            Ok(Arc::new(Words::new(EncryptedPlanes::encrypted(&setting, keys)?)))
        })?;
        Ok(Self(Kind::Encrypted { set, words, watch }))
    }

    /// Makes an engine that computes in the clear, and refuses what encryption would refuse.
    #[staticmethod]
    fn simulate(py: Python<'_>, plan: &IntegerPlan) -> Result<Self> {
        let setting = plan.parameters().setting;
        let words = job::run(py, None, move |_| {
            let planes = SimulatedPlanes::simulated(&setting)?;
            Ok(Arc::new(Words::new(Paired(Clear::new(&setting), planes))))
        })?;
        Ok(Self(Kind::Simulated(words)))
    }

    /// Returns the result of an operation.
    #[pyo3(signature = (name, operands, numbers, dtype=None, progress=None))]
    fn apply(
        &self,
        py: Python<'_>,
        name: &str,
        operands: Vec<WordOperand<'_>>,
        numbers: Vec<u64>,
        dtype: Option<&str>,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> Result<WordArray> {
        let op = operation(name, numbers, dtype)?;
        match &self.0 {
            Kind::Encrypted { set, words, watch } => {
                let operand = |operand| match operand {
                    WordOperand::Array(array) => array.encrypted(py, set).map(Operand::Encrypted),
                    WordOperand::Plain(plain) => Ok(Operand::Plain(plain.into())),
                };
                let operands = operands.into_iter().map(operand).collect::<Result<Vec<_>>>()?;
                let words = Arc::clone(words);
                let watch = watch.clone();
                let setting = set.setting.clone();
                let word = job::run(py, progress, move |_| {
                    for operand in &operands {
                        let Operand::Encrypted(word) = operand else { continue };
                        let id = words.digits().key_id();
                        word.planes().iter().try_for_each(|plane| plane.check(&setting, id))?;
                    }
                    // Mapped keys could change before the work or during it. Either makes the
                    // result wrong.
                    check(watch.as_deref())?;
                    let word = op.apply(&words, &operands)?;
                    check(watch.as_deref())?;
                    Ok(word)
                })?;
                Ok(WordArray::of(set, word))
            }
            Kind::Simulated(words) => {
                let operand = |operand| match operand {
                    WordOperand::Array(array) => array.simulated(words).map(Operand::Encrypted),
                    WordOperand::Plain(plain) => Ok(Operand::Plain(plain.into())),
                };
                let operands = operands.into_iter().map(operand).collect::<Result<Vec<_>>>()?;
                let own = Arc::clone(words);
                let word = job::run(py, progress, move |_| Ok(op.apply(&own, &operands)?))?;
                Ok(WordArray(Form::Simulated(Arc::clone(words), word)))
            }
        }
    }

    /// Returns words as an array of the simulation.
    fn encrypt_in_simulation(
        &self,
        values: Numbers<u64>,
        dtype: &str,
        digit_bits: u32,
    ) -> Result<WordArray> {
        let Kind::Simulated(words) = &self.0 else {
            return Err(Error::Bug("the engine is no simulation"));
        };
        let kind: WordType = dtype.parse()?;
        let radix = Radix::of_bits(digit_bits)?;
        let Paired(clear, planes) = words.digits();
        let word =
            Word::made_of(&values.into(), kind, radix, |shape, digits, range: IntegerRange| {
                let own = clear.plane(shape, digits, range)?;
                Ok(PairedPlane(own, planes.fresh(shape, range)?))
            })?;
        Ok(WordArray(Form::Simulated(Arc::clone(words), word)))
    }

    /// Returns the values of an array of the simulation.
    fn decrypt_in_simulation(&self, array: &WordArray) -> Result<Numbers<u64>> {
        let Kind::Simulated(words) = &self.0 else {
            return Err(Error::Bug("the engine is no simulation"));
        };
        let word = array.simulated(words)?;
        let digits: Vec<_> = word.planes().iter().map(|plane| plane.0.values().to_vec()).collect();
        let found = PlainWords::of_digits(word.kind(), word.radix(), words.shape(&word), &digits);
        Ok(Numbers { shape: found.shape, values: found.values })
    }

    /// Returns the needs of everything that a simulation has computed.
    fn usage(&self) -> Result<Needs> {
        let Kind::Simulated(words) = &self.0 else {
            return Err(Error::Bug("the engine is no simulation"));
        };
        let Usage { relinearizations, bootstraps, depth, seconds, log2_failure } =
            words.digits().1.usage();
        Ok(Needs { relinearizations, bootstraps, depth, seconds, log2_failure })
    }
}

/// Encrypts a new array of words under the key.
#[pyfunction]
#[pyo3(signature = (key, values, dtype, digit_bits, progress=None))]
pub fn encrypt_words(
    py: Python<'_>,
    key: &IntegerPublicKey,
    values: Numbers<u64>,
    dtype: &str,
    digit_bits: u32,
    progress: Option<&Bound<'_, PyAny>>,
) -> Result<WordArray> {
    let kind: WordType = dtype.parse()?;
    let radix = Radix::of_bits(digit_bits)?;
    let setting = key.set.setting.clone();
    let own_key = Arc::clone(&key.key);
    let word = job::run(py, progress, move |_| {
        let encryptor = Encryptor::new(setting.params(), own_key)?;
        Ok(words::encrypt(&encryptor, &setting, &values.into(), kind, radix)?)
    })?;
    Ok(WordArray::of(&key.set, word))
}

/// Returns the values of an array of words.
#[pyfunction]
pub fn decrypt_words(
    py: Python<'_>,
    key: &IntegerSecretKey,
    array: &WordArray,
) -> Result<Numbers<u64>> {
    let setting = key.set.setting.clone();
    let decryptor = Arc::clone(&key.decryptor);
    let word = array.encrypted(py, &key.set)?;
    let plain = job::run(py, None, move |_| Ok(words::decrypt(&decryptor, &setting, &word)?))?;
    Ok(Numbers { shape: plain.shape, values: plain.values })
}

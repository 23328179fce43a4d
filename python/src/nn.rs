//! Networks on encrypted samples.

use crate::{
    error::{Error, Result},
    job,
    keys::{evaluation_key_file, save_secret, unsealed},
    numbers::Numbers,
    plan::security_warning,
};
use pyo3::{prelude::*, types::PyBytes};
use std::{
    io::{Read, Seek, SeekFrom},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};
use sudare::{
    ckks::{Ciphertext, Decryptor, Evaluator, Params, SymmetricEncryptor, serial},
    rlwe::{EvaluationKeys, KeyGenerator, KeyRequest, SecretKey},
};
use sudare_apps::nn::{self, HiddenPlan, NnError, Options, Outline, Plan, Prepared, Ranges};
use sudare_roles::{
    error::Error as Engine,
    os::files::{self, Access, NewFile},
    owner::secret::SecretFile,
};

/// Several samples, or their results: a row for each.
type Samples = Numbers;

/// A network in the clear.
#[pyclass(frozen, module = "sudare._native")]
pub struct Network(Arc<nn::Network>);

/// The computation of a network on encrypted samples.
#[pyclass(frozen, module = "sudare._native")]
pub struct NetworkPlan(Arc<Plan>);

/// The computation of a network with encrypted weights on encrypted samples, one after the other.
#[pyclass(frozen, module = "sudare._native")]
pub struct HiddenNetworkPlan(Arc<HiddenPlan>);

/// Encrypted weights of a network.
#[pyclass(frozen, module = "sudare._native")]
pub struct NetworkWeights(Arc<Vec<Ciphertext>>);

/// Encrypts samples and decrypts results. For the owner alone.
#[pyclass(frozen, module = "sudare._native")]
pub struct NetworkSecret {
    params: Params,
    encryptor: Arc<SymmetricEncryptor>,
    decryptor: Arc<Decryptor>,
}

/// Computes on encrypted samples. For the server.
#[pyclass(frozen, module = "sudare._native")]
pub struct NetworkKeys {
    keys: Arc<EvaluationKeys>,
    /// The preparation for the last plan. It takes seconds for a deep network, and every run uses it.
    ready: Arc<Mutex<Option<Ready>>>,
}

/// State that the runs of a plan share.
#[derive(Clone)]
struct Ready {
    plan: Arc<Plan>,
    evaluator: Arc<Evaluator>,
    prepared: Arc<Prepared<Evaluator>>,
}

impl Ready {
    fn new(plan: &Arc<Plan>, keys: Arc<EvaluationKeys>) -> Result<Self> {
        let evaluator = Evaluator::new(plan.params(), keys)?;
        let prepared = Arc::new(plan.prepare(&evaluator)?);
        Ok(Self { plan: Arc::clone(plan), evaluator: Arc::new(evaluator), prepared })
    }
}

impl NetworkKeys {
    fn new(keys: EvaluationKeys) -> Self {
        Self { keys: Arc::new(keys), ready: Arc::default() }
    }
}

/// Encrypted samples of one run, or their results.
#[pyclass(frozen, module = "sudare._native")]
pub struct NetworkBatch {
    ciphertexts: Arc<Vec<Ciphertext>>,
    #[pyo3(get)]
    samples: usize,
}

/// Splits samples into rows.
fn rows(samples: Samples) -> Result<Vec<Vec<f64>>> {
    match samples.shape[..] {
        [count, length] if count > 0 && length > 0 => {
            Ok(samples.values.chunks_exact(length).map(Vec::from).collect())
        }
        _ => Err(shape("samples", samples.shape.first().copied().unwrap_or(0), "1 or more")),
    }
}

fn samples(rows: &[Vec<f64>]) -> Samples {
    let shape = vec![rows.len(), rows.first().map_or(0, Vec::len)];
    Numbers { shape, values: rows.concat() }
}

fn slices(rows: &[Vec<f64>]) -> Vec<&[f64]> {
    rows.iter().map(Vec::as_slice).collect()
}

fn shape(what: &'static str, found: usize, needed: &str) -> Error {
    NnError::Shape { what, found, needed: needed.into() }.into()
}

/// Parses the JSON of `what`.
fn parsed<T: serde::de::DeserializeOwned>(what: &str, text: &str) -> Result<T> {
    let problem = |error: serde_json::Error| NnError::Network {
        problem: format!("has {what} that cannot be read: {error}"),
    };
    Ok(serde_json::from_str(text).map_err(problem)?)
}

/// Decides whether a file is an ONNX model, by its name or else by its first byte. A network of JSON
/// begins with a brace. An ONNX model does not.
fn is_onnx(path: &Path, bytes: &[u8]) -> bool {
    let named = |suffix| path.extension().is_some_and(|found| found.eq_ignore_ascii_case(suffix));
    let first = bytes.iter().find(|byte| !byte.is_ascii_whitespace());
    named("onnx") || (!named("json") && first != Some(&b'{'))
}

/// Returns a reader for parts of files. It reads only in the directory of the model.
fn beside(model: &Path) -> impl FnMut(&str, u64, usize) -> nn::Result<Vec<u8>> {
    let folder = match model.parent() {
        Some(folder) if folder != Path::new("") => folder.to_path_buf(),
        _ => PathBuf::from("."),
    };
    move |location, offset, count| {
        let problem = |problem: String| NnError::Onnx {
            problem: format!("its weights are in the file {location:?}, {problem}"),
        };
        let failed = |error: std::io::Error| problem(format!("which cannot be read: {error}"));
        let path = folder.join(location);
        // A model comes from strangers: a link in its directory, or `..`, could lead to any file.
        let found = path.canonicalize();
        let inside = folder.canonicalize();
        if !found.map_err(failed)?.starts_with(inside.map_err(failed)?) {
            let outside = "which is a link out of the directory of the model: put the file there";
            return Err(problem(outside.into()));
        }
        let opened = files::open(&path, Access::Shared);
        let (mut file, bytes) = opened.map_err(|error| problem(error.to_string()))?;
        // Checked before the allocation: the model claims these numbers.
        if offset.checked_add(count as u64).is_none_or(|end| end > bytes) {
            return Err(problem(format!("which has {bytes} bytes: too few")));
        }
        file.seek(SeekFrom::Start(offset)).map_err(failed)?;
        let mut part = vec![0; count];
        file.read_exact(&mut part).map_err(failed)?;
        Ok(part)
    }
}

fn written<T: serde::Serialize>(value: &T) -> Result<String> {
    serde_json::to_string(value).map_err(|_| Error::Bug("a description cannot be written"))
}

#[pymethods]
impl Network {
    /// Makes a network from its description.
    #[staticmethod]
    fn from_json(py: Python<'_>, text: String) -> Result<Self> {
        job::detached(py, || Ok(Self(Arc::new(nn::Network::from_json(&text)?))))
    }

    /// Reads a network from a file of JSON or an ONNX model. In an ONNX model, polynomials of this degree
    /// replace activations.
    #[staticmethod]
    fn load(py: Python<'_>, path: PathBuf, degree: usize) -> Result<Self> {
        job::detached(py, || {
            let (mut file, _) = files::open(&path, Access::Shared)?;
            let mut bytes = Vec::new();
            let failed = |error| Engine::io("read", &path, error);
            file.read_to_end(&mut bytes).map_err(failed)?;
            let network = match is_onnx(&path, &bytes) {
                true => nn::Network::from_onnx_with(&bytes, degree, &mut beside(&path))?,
                false => {
                    let text = str::from_utf8(&bytes).map_err(|_| NnError::Network {
                        problem: format!("in {} is not text in UTF-8", path.display()),
                    })?;
                    nn::Network::from_json(text)?
                }
            };
            Ok(Self(Arc::new(network)))
        })
    }

    /// Writes the description to a file.
    #[pyo3(signature = (path, *, overwrite=false))]
    fn save(&self, py: Python<'_>, path: PathBuf, overwrite: bool) -> Result<()> {
        job::detached(py, || {
            let mut file = NewFile::create(&path, Access::Shared, overwrite)?;
            file.write_text(&written(&*self.0)?)?;
            Ok(file.finish()?)
        })
    }

    #[getter]
    fn input(&self) -> Vec<usize> {
        self.0.input().to_vec()
    }

    #[getter]
    fn outputs(&self) -> usize {
        self.0.outputs()
    }

    fn forward(&self, py: Python<'_>, data: Samples) -> Result<Samples> {
        job::detached(py, || {
            let results =
                rows(data)?.iter().map(|x| self.0.forward(x)).collect::<nn::Result<Vec<_>>>()?;
            Ok(samples(&results))
        })
    }

    /// Returns the ranges of these samples, as JSON.
    fn calibrate(&self, py: Python<'_>, data: Samples, margin: f64) -> Result<String> {
        job::detached(py, || {
            let data = rows(data)?;
            written(&Ranges::calibrate(&self.0, slices(&data), margin)?)
        })
    }

    /// Returns the network with activations fitted to these samples.
    fn fitted(&self, py: Python<'_>, data: Samples, degree: usize, margin: f64) -> Result<Self> {
        let network = Arc::clone(&self.0);
        job::run(py, None, move |_| {
            Ok(Self(Arc::new(network.fitted(&slices(&rows(data)?), degree, margin)?)))
        })
    }

    /// Returns, as JSON, the knowledge of a server if weights are encrypted.
    fn outline(&self, py: Python<'_>, ranges: String, precision_bits: f64) -> Result<String> {
        job::detached(py, || {
            written(&Outline::of(&self.0, &parsed("ranges", &ranges)?, precision_bits)?)
        })
    }
}

impl NetworkSecret {
    fn new(params: &Params, key: SecretKey) -> Result<Self> {
        let key = Arc::new(key);
        Ok(Self {
            params: params.clone(),
            encryptor: Arc::new(SymmetricEncryptor::new(params, Arc::clone(&key))?),
            decryptor: Arc::new(Decryptor::new(params, key)?),
        })
    }
}

#[pymethods]
impl NetworkSecret {
    /// Writes the key to a file that only the user may read, sealed if you pass a passphrase.
    #[pyo3(signature = (path, *, overwrite=false, passphrase=None))]
    fn save(
        &self,
        py: Python<'_>,
        path: PathBuf,
        overwrite: bool,
        passphrase: Option<String>,
    ) -> Result<()> {
        let params = self.params.clone();
        let decryptor = Arc::clone(&self.decryptor);
        job::run(py, None, move |progress| {
            // The plan travels on its own, so the file needs no job in its label.
            let label = serial::Label::default();
            let key = decryptor.key().as_ref();
            save_secret((&path, overwrite), (&params, &label, key), passphrase, progress)
        })
    }
}

#[pymethods]
impl NetworkPlan {
    /// Plans a network for ranges and options, both as JSON.
    #[new]
    fn new(py: Python<'_>, network: &Network, ranges: String, options: String) -> Result<Self> {
        let network = Arc::clone(&network.0);
        job::run(py, None, move |_| {
            let ranges: Ranges = parsed("ranges", &ranges)?;
            let options: Options = parsed("options", &options)?;
            Ok(Self(Arc::new(Plan::new(&network, &ranges, options)?)))
        })
    }

    /// Returns sizes, as JSON.
    fn explain(&self, py: Python<'_>) -> Result<String> {
        let plan = Arc::clone(&self.0);
        job::run(py, None, move |_| written(&plan.explain()?))
    }

    #[getter]
    fn samples_per_run(&self) -> usize {
        self.0.samples_per_run()
    }

    fn generate_keys(&self, py: Python<'_>) -> Result<(NetworkSecret, NetworkKeys)> {
        let plan = Arc::clone(&self.0);
        job::run(py, None, move |_| generate_keys(plan.params(), plan.required_keys()))
    }

    fn encrypt(
        &self,
        py: Python<'_>,
        secret: &NetworkSecret,
        data: Samples,
    ) -> Result<NetworkBatch> {
        let plan = Arc::clone(&self.0);
        let encryptor = Arc::clone(&secret.encryptor);
        job::run(py, None, move |_| {
            let data = rows(data)?;
            let ciphertexts = Arc::new(plan.encrypt(&encryptor, &slices(&data))?);
            Ok(NetworkBatch { ciphertexts, samples: data.len() })
        })
    }

    fn run(
        &self,
        py: Python<'_>,
        keys: &NetworkKeys,
        batch: &NetworkBatch,
    ) -> Result<NetworkBatch> {
        let plan = Arc::clone(&self.0);
        let own = Arc::clone(&keys.keys);
        let ready = Arc::clone(&keys.ready);
        let inputs = Arc::clone(&batch.ciphertexts);
        let samples = batch.samples;
        job::run(py, None, move |_| {
            let mut ready = ready.lock().unwrap_or_else(PoisonError::into_inner);
            let known = ready.take().filter(|known| Arc::ptr_eq(&known.plan, &plan));
            let known = known.map_or_else(|| Ready::new(&plan, own), Ok)?;
            let Ready { evaluator, prepared, .. } = ready.insert(known).clone();
            drop(ready);
            let ciphertexts = Arc::new(plan.run(&*evaluator, &prepared, &inputs)?);
            Ok(NetworkBatch { ciphertexts, samples })
        })
    }

    fn decrypt(
        &self,
        py: Python<'_>,
        secret: &NetworkSecret,
        batch: &NetworkBatch,
    ) -> Result<Samples> {
        let plan = Arc::clone(&self.0);
        let decryptor = Arc::clone(&secret.decryptor);
        let results = Arc::clone(&batch.ciphertexts);
        let count = batch.samples;
        job::run(py, None, move |_| Ok(samples(&plan.decrypt(&decryptor, &results, count)?)))
    }

    /// Refuses samples outside the ranges.
    fn check(&self, py: Python<'_>, data: Samples) -> Result<()> {
        let plan = Arc::clone(&self.0);
        job::run(py, None, move |_| Ok(plan.check(&slices(&rows(data)?))?))
    }

    /// Runs the plan on clear samples. Returns the results, the error that encryption would add, and the
    /// bits left in the modulus.
    fn simulate(&self, py: Python<'_>, data: Samples) -> Result<(Samples, f64, f64)> {
        let plan = Arc::clone(&self.0);
        job::run(py, None, move |_| {
            let data = rows(data)?;
            let simulated = plan.simulate(&slices(&data))?;
            Ok((samples(&simulated.results), simulated.error, simulated.headroom_bits))
        })
    }

    /// Opens the file of a secret key for this plan.
    fn open_secret(
        &self,
        py: Python<'_>,
        path: PathBuf,
        passphrase: Option<String>,
    ) -> Result<NetworkSecret> {
        open_secret(py, self.0.params(), path, passphrase)
    }

    /// Reads keys from the result of [`NetworkPlan::write_keys`].
    fn read_keys(&self, py: Python<'_>, data: Vec<u8>) -> Result<NetworkKeys> {
        let plan = Arc::clone(&self.0);
        job::run(py, None, move |_| read_keys(plan.params(), &data))
    }

    fn write_keys<'py>(&self, py: Python<'py>, keys: &NetworkKeys) -> Result<Bound<'py, PyBytes>> {
        write_keys(py, self.0.params(), keys)
    }

    /// Reads a batch of `samples` samples from the result of [`NetworkPlan::write_batch`].
    fn read_batch(&self, py: Python<'_>, data: Vec<u8>, samples: usize) -> Result<NetworkBatch> {
        let plan = Arc::clone(&self.0);
        job::run(py, None, move |_| read_batch(plan.params(), &data, samples))
    }

    fn write_batch<'py>(
        &self,
        py: Python<'py>,
        batch: &NetworkBatch,
    ) -> Result<Bound<'py, PyBytes>> {
        write_batch(py, self.0.params(), batch)
    }
}

#[pymethods]
impl HiddenNetworkPlan {
    /// Plans a network by its outline as JSON.
    #[new]
    fn new(py: Python<'_>, outline: String) -> Result<Self> {
        job::run(py, None, move |_| {
            let outline: Outline = parsed("an outline", &outline)?;
            Ok(Self(Arc::new(HiddenPlan::new(&outline)?)))
        })
    }

    /// Returns sizes, as JSON.
    fn explain(&self, py: Python<'_>) -> Result<String> {
        let plan = Arc::clone(&self.0);
        job::run(py, None, move |_| written(&plan.explain()?))
    }

    fn generate_keys(&self, py: Python<'_>) -> Result<(NetworkSecret, NetworkKeys)> {
        let plan = Arc::clone(&self.0);
        job::run(py, None, move |_| generate_keys(plan.params(), plan.required_keys()))
    }

    /// Encrypts the weights, and returns the bytes of their file.
    fn encrypt_weights<'py>(
        &self,
        py: Python<'py>,
        secret: &NetworkSecret,
        network: &Network,
    ) -> Result<Bound<'py, PyBytes>> {
        let plan = Arc::clone(&self.0);
        let encryptor = Arc::clone(&secret.encryptor);
        let network = Arc::clone(&network.0);
        let file = job::run(py, None, move |_| -> Result<Vec<u8>> {
            let mut weights = Vec::with_capacity(plan.weights());
            plan.encrypt_weights(&encryptor, &network, |_, part| {
                weights.push(part);
                Ok(())
            })?;
            let mut file = Vec::new();
            let label = serial::Label::default();
            // The owner's key encrypts, so a seed replaces half of each ciphertext.
            serial::write_seeded_ciphertexts(&mut file, plan.params(), &weights, &label)?;
            Ok(file)
        })?;
        Ok(PyBytes::new(py, &file))
    }

    /// Reads weights from the result of [`HiddenNetworkPlan::encrypt_weights`].
    fn read_weights(&self, py: Python<'_>, data: Vec<u8>) -> Result<NetworkWeights> {
        let plan = Arc::clone(&self.0);
        job::run(py, None, move |_| {
            let weights = read_ciphertexts(plan.params(), &data)?;
            // Found here, a wrong file names its numbers. In a run it would fail in the middle.
            match weights.len() == plan.weights() {
                true => Ok(NetworkWeights(Arc::new(weights))),
                false => {
                    Err(shape("ciphertexts of weights", weights.len(), &plan.weights().to_string()))
                }
            }
        })
    }

    fn encrypt(
        &self,
        py: Python<'_>,
        secret: &NetworkSecret,
        data: Samples,
    ) -> Result<NetworkBatch> {
        let plan = Arc::clone(&self.0);
        let encryptor = Arc::clone(&secret.encryptor);
        job::run(py, None, move |_| {
            let encrypted = plan.encrypt(&encryptor, &one_row(data)?)?.into_ciphertext();
            Ok(NetworkBatch { ciphertexts: Arc::new(vec![encrypted]), samples: 1 })
        })
    }

    fn run(
        &self,
        py: Python<'_>,
        keys: &NetworkKeys,
        weights: &NetworkWeights,
        batch: &NetworkBatch,
    ) -> Result<NetworkBatch> {
        let plan = Arc::clone(&self.0);
        let keys = Arc::clone(&keys.keys);
        let weights = Arc::clone(&weights.0);
        let inputs = Arc::clone(&batch.ciphertexts);
        job::run(py, None, move |_| {
            let evaluator = Evaluator::new(plan.params(), keys)?;
            let read = |part: usize| {
                let found = weights.len();
                let needed = plan.weights().to_string();
                let what = "ciphertexts of weights";
                weights.get(part).cloned().ok_or(NnError::Shape { what, found, needed })
            };
            let prepared = plan.prepare(&evaluator)?;
            let result = plan.run(&evaluator, &prepared, read, one(&inputs)?)?;
            Ok(NetworkBatch { ciphertexts: Arc::new(vec![result]), samples: 1 })
        })
    }

    fn decrypt(
        &self,
        py: Python<'_>,
        secret: &NetworkSecret,
        batch: &NetworkBatch,
    ) -> Result<Samples> {
        let plan = Arc::clone(&self.0);
        let decryptor = Arc::clone(&secret.decryptor);
        let results = Arc::clone(&batch.ciphertexts);
        job::run(py, None, move |_| Ok(samples(&[plan.decrypt(&decryptor, one(&results)?)?])))
    }

    /// Refuses samples outside the ranges of a network.
    fn check(&self, py: Python<'_>, network: &Network, data: Samples) -> Result<()> {
        let plan = Arc::clone(&self.0);
        let network = Arc::clone(&network.0);
        job::run(py, None, move |_| Ok(plan.check(&network, &slices(&rows(data)?))?))
    }

    /// Returns the result of a run on a clear sample.
    fn simulate(&self, py: Python<'_>, network: &Network, data: Samples) -> Result<Samples> {
        let plan = Arc::clone(&self.0);
        let network = Arc::clone(&network.0);
        job::run(py, None, move |_| Ok(samples(&[plan.simulate(&network, &one_row(data)?)?])))
    }

    /// Opens the key in a file, as [`NetworkPlan`] does.
    fn open_secret(
        &self,
        py: Python<'_>,
        path: PathBuf,
        passphrase: Option<String>,
    ) -> Result<NetworkSecret> {
        open_secret(py, self.0.params(), path, passphrase)
    }

    /// Reads keys from the result of [`HiddenNetworkPlan::write_keys`].
    fn read_keys(&self, py: Python<'_>, data: Vec<u8>) -> Result<NetworkKeys> {
        let plan = Arc::clone(&self.0);
        job::run(py, None, move |_| read_keys(plan.params(), &data))
    }

    fn write_keys<'py>(&self, py: Python<'py>, keys: &NetworkKeys) -> Result<Bound<'py, PyBytes>> {
        write_keys(py, self.0.params(), keys)
    }

    /// Reads a sample or a result from the result of [`HiddenNetworkPlan::write_batch`].
    fn read_batch(&self, py: Python<'_>, data: Vec<u8>, samples: usize) -> Result<NetworkBatch> {
        let plan = Arc::clone(&self.0);
        job::run(py, None, move |_| read_batch(plan.params(), &data, samples))
    }

    fn write_batch<'py>(
        &self,
        py: Python<'py>,
        batch: &NetworkBatch,
    ) -> Result<Bound<'py, PyBytes>> {
        write_batch(py, self.0.params(), batch)
    }
}

fn generate_keys(params: &Params, needed: &KeyRequest) -> Result<(NetworkSecret, NetworkKeys)> {
    let mut keygen = KeyGenerator::new(params.rlwe())?;
    let secret = keygen.secret_key()?;
    let keys = keygen.evaluation_keys(&secret, needed)?;
    Ok((NetworkSecret::new(params, secret)?, NetworkKeys::new(keys)))
}

fn open_secret(
    py: Python<'_>,
    params: &Params,
    path: PathBuf,
    passphrase: Option<String>,
) -> Result<NetworkSecret> {
    let params = params.clone();
    let (secret, warning) = job::run(py, None, move |_| {
        let file = SecretFile::open(&path)?;
        let warning = file.warning();
        Ok((NetworkSecret::new(&params, unsealed(file, &params, passphrase)?)?, warning))
    })?;
    // Outside the job, because Python's warnings need the interpreter lock.
    warning.map_or(Ok(()), |warning| security_warning(py, warning, 2))?;
    Ok(secret)
}

fn read_keys(params: &Params, data: &[u8]) -> Result<NetworkKeys> {
    let reader = serial::Reader::new(data, data.len() as u64)?;
    Ok(NetworkKeys::new(reader.evaluation_keys(params)?))
}

fn write_keys<'py>(
    py: Python<'py>,
    params: &Params,
    keys: &NetworkKeys,
) -> Result<Bound<'py, PyBytes>> {
    let params = params.clone();
    let keys = Arc::clone(&keys.keys);
    let file = job::run(py, None, move |progress| {
        evaluation_key_file(&params, &keys, &serial::Label::default(), progress)
    })?;
    Ok(PyBytes::new(py, &file))
}

fn read_ciphertexts(params: &Params, data: &[u8]) -> Result<Vec<Ciphertext>> {
    Ok(serial::Reader::new(data, data.len() as u64)?.ciphertexts(params)?)
}

fn read_batch(params: &Params, data: &[u8], samples: usize) -> Result<NetworkBatch> {
    Ok(NetworkBatch { ciphertexts: Arc::new(read_ciphertexts(params, data)?), samples })
}

fn write_batch<'py>(
    py: Python<'py>,
    params: &Params,
    batch: &NetworkBatch,
) -> Result<Bound<'py, PyBytes>> {
    let mut file = Vec::new();
    let label = serial::Label::default();
    serial::write_ciphertexts(&mut file, params, &batch.ciphertexts, &label)?;
    Ok(PyBytes::new(py, &file))
}

/// Returns the ciphertext, if there is exactly one.
fn one(ciphertexts: &[Ciphertext]) -> Result<&Ciphertext> {
    match ciphertexts {
        [one] => Ok(one),
        more => Err(shape("ciphertexts of a sample", more.len(), "1")),
    }
}

/// Returns the sample, if there is exactly one.
fn one_row(data: Samples) -> Result<Vec<f64>> {
    let mut data = rows(data)?;
    match (data.pop(), data.len()) {
        (Some(row), 0) => Ok(row),
        (_, more) => Err(shape("samples", more + 1, "1")),
    }
}

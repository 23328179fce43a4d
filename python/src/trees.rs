//! Trees: models, plans, keys, encrypted rows and their predictions.

use crate::{
    error::{Error, Result},
    job,
    keys::{given_passphrase, needed_passphrase},
    numbers::Numbers,
    plan::security_warning,
};
use pyo3::{prelude::*, types::PyBytes};
use serde::Serialize;
use std::{
    io::Cursor,
    path::{Path, PathBuf},
    sync::Arc,
};
use sudare::{
    exact::serial::{self, Reader},
    rlwe::KeyGenerator,
};
use sudare_apps::trees::{Feature, Forest, ForestPlan, Outside, PlanOptions, Setup, TreesError};
use sudare_roles::{
    error::Error as Engine,
    exact_files,
    key::Key,
    os::files::{Access, NewFile},
    trees::{self, Owner, Planned, Rows, Server, Session},
};

fn trees_error(error: TreesError) -> Error {
    Engine::from(error).into()
}

fn json(value: &impl Serialize) -> Result<String> {
    serde_json::to_string(value).map_err(|_| Error::Bug("a description cannot be written as JSON"))
}

/// Reads a description that this package writes.
fn parsed<'a, T: serde::Deserialize<'a>>(what: &str, text: &'a str) -> Result<T> {
    serde_json::from_str(text).map_err(|error| {
        let problem = format!("has {what} that cannot be read ({error}): pass the text unchanged");
        trees_error(TreesError::Forest { problem })
    })
}

/// Opens a file in memory. Messages call it `name`.
fn reader(data: Vec<u8>, name: &str) -> Result<Reader<Cursor<Vec<u8>>>> {
    let bytes = data.len() as u64;
    Ok(Reader::new(Cursor::new(data), bytes).map_err(Engine::in_file(Path::new(name)))?)
}

/// A model in the clear.
#[pyclass(frozen, module = "sudare._native")]
pub struct TreesForest(Arc<Forest>);

#[pymethods]
impl TreesForest {
    /// Reads the content of the file of a model.
    #[staticmethod]
    fn read(py: Python<'_>, data: Vec<u8>) -> Result<Self> {
        job::run(py, None, move |_| Ok(Self(Arc::new(Forest::read(&data).map_err(trees_error)?))))
    }

    /// Reads the file of a model.
    #[staticmethod]
    fn load(py: Python<'_>, path: PathBuf) -> Result<Self> {
        job::run(py, None, move |_| Ok(Self(Arc::new(trees::read_forest(&path)?))))
    }

    /// Returns the model as JSON.
    fn to_json<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyBytes>> {
        let forest = Arc::clone(&self.0);
        let bytes = job::run(py, None, move |_| forest.to_json().map_err(trees_error))?;
        Ok(PyBytes::new(py, &bytes))
    }

    /// Returns the model with other names of features and of classes. No names keep them.
    fn renamed(&self, features: Vec<String>, classes: Vec<String>) -> Result<Self> {
        let forest = Forest::clone(&self.0);
        Ok(Self(Arc::new(forest.renamed(features, classes).map_err(trees_error)?)))
    }

    #[getter]
    fn features(&self) -> Vec<String> {
        self.0.features().to_vec()
    }

    #[getter]
    fn classes(&self) -> Vec<String> {
        self.0.classes().to_vec()
    }

    #[getter]
    fn trees(&self) -> usize {
        self.0.trees().len()
    }

    #[getter]
    fn predictions(&self) -> usize {
        self.0.link().predictions(self.0.outputs())
    }

    /// Returns the predictions for rows in the clear, a row for each.
    fn predict(&self, py: Python<'_>, rows: Numbers) -> Result<Numbers> {
        let forest = Arc::clone(&self.0);
        job::run(py, None, move |_| {
            let width = forest.features().len();
            let mut values = Vec::new();
            for (number, row) in rows.values.chunks(width).enumerate() {
                let found = forest.predict(row).map_err(|error| match error {
                    TreesError::Row { feature, found, least, most, .. } => {
                        TreesError::Row { feature, row: number, found, least, most }
                    }
                    other => other,
                });
                values.extend(found.map_err(trees_error)?);
            }
            let columns = forest.link().predictions(forest.outputs());
            Ok(Numbers { shape: vec![values.len() / columns, columns], values })
        })
    }
}

/// Fits grids to rows, and returns them as JSON.
#[pyfunction]
pub fn fit_trees_grid(features: Vec<String>, rows: Numbers, digits: u32) -> Result<String> {
    json(&trees::fitted(&features, &rows.values, digits)?)
}

/// The plan of a model, for the server.
#[pyclass(frozen, module = "sudare._native")]
pub struct TreesPlan {
    forest: Arc<Forest>,
    plan: Arc<ForestPlan>,
}

#[pymethods]
impl TreesPlan {
    #[new]
    #[pyo3(signature = (forest, grid, tolerance=None))]
    fn new(
        py: Python<'_>,
        forest: &TreesForest,
        grid: &str,
        tolerance: Option<f64>,
    ) -> Result<Self> {
        let grid: Vec<Feature> = parsed("a grid", grid)?;
        let forest = Arc::clone(&forest.0);
        job::run(py, None, move |_| {
            let options = PlanOptions { tolerance };
            let plan = ForestPlan::new(&forest, &grid, &options).map_err(trees_error)?;
            Ok(Self { forest, plan: Arc::new(plan) })
        })
    }

    /// Returns costs and leakage, as JSON.
    fn explain(&self) -> Result<String> {
        json(&self.plan.explain().map_err(trees_error)?)
    }

    /// Returns the facts for the owner, as JSON.
    fn planned(&self) -> Result<String> {
        Ok(Planned::new(&self.plan).to_json()?)
    }

    /// Computes the scores of encrypted rows, and returns the bytes of their file.
    #[pyo3(signature = (keys, rows, progress=None))]
    fn compute<'py>(
        &self,
        py: Python<'py>,
        keys: Vec<u8>,
        rows: Vec<u8>,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> Result<Bound<'py, PyBytes>> {
        let forest = Arc::clone(&self.forest);
        let file = job::run(py, progress, move |progress| {
            let server = Server::new(reader(keys, "keys")?, Path::new("keys"), &forest)?;
            let rows = reader(rows, "rows")?;
            let mut file = Vec::new();
            server.write_scores(rows, Path::new("rows"), &mut file, |done, total| match done {
                0 => progress.start("blocks", total),
                _ => progress.set(done),
            })?;
            Ok::<_, Error>(file)
        })?;
        Ok(PyBytes::new(py, &file))
    }
}

/// Encrypts rows and decrypts predictions. For the owner alone.
#[pyclass(frozen, module = "sudare._native")]
pub struct TreesSecret(Arc<trees::Secret>);

/// Makes the keys for a plan in JSON, and returns the secret key and the bytes of the evaluation keys.
#[pyfunction]
pub fn generate_trees_keys(py: Python<'_>, planned: &str) -> Result<(TreesSecret, Py<PyBytes>)> {
    let planned = Planned::from_json(planned.as_bytes(), Path::new("plan"))?;
    let (secret, file) = job::run(py, None, move |_| {
        let params = planned.params()?;
        let mut generator = KeyGenerator::new(params.rlwe())?.small_keys(true);
        let key = generator.secret_key()?;
        let label = trees::key_label(&planned.setup)?;
        let request = Setup::required_keys(&params);
        let mut file = Vec::new();
        let owner = (&mut generator, &key);
        serial::generate_evaluation_keys(&mut file, &params, owner, &request, &label, |_| {})?;
        let session = Session { setup: planned.setup, params, key: key.id() };
        let secret = trees::Secret { session, key: Arc::new(key), warning: None };
        Ok::<_, Error>((TreesSecret(Arc::new(secret)), file))
    })?;
    Ok((secret, PyBytes::new(py, &file).unbind()))
}

#[pymethods]
impl TreesSecret {
    /// Opens the key in the file at `path`.
    #[staticmethod]
    #[pyo3(signature = (path, passphrase=None))]
    fn open(py: Python<'_>, path: PathBuf, passphrase: Option<String>) -> Result<Self> {
        let secret = job::run(py, None, move |_| {
            let passphrase = || needed_passphrase(&path, passphrase);
            Ok::<_, Error>(trees::read_secret(&path, passphrase)?)
        })?;
        // Outside the job, because Python's warnings need the interpreter lock.
        secret.warning.clone().map_or(Ok(()), |warning| security_warning(py, warning, 2))?;
        Ok(Self(Arc::new(secret)))
    }

    /// Writes the key to a file that only the user may read, sealed if you pass a passphrase.
    #[pyo3(signature = (path, *, overwrite=false, passphrase=None))]
    fn save(
        &self,
        py: Python<'_>,
        path: PathBuf,
        overwrite: bool,
        passphrase: Option<String>,
    ) -> Result<()> {
        let secret = Arc::clone(&self.0);
        job::run(py, None, move |progress| {
            // A bad passphrase is found before the file exists.
            let passphrase = given_passphrase(passphrase)?;
            let label = trees::key_label(&secret.session.setup)?;
            let mut file = NewFile::create(&path, Access::Owner, overwrite)?;
            let out = &mut progress.watch(&mut file);
            let params = &secret.session.params;
            let passphrase = passphrase.as_ref();
            exact_files::write_secret(out, &path, params, &secret.key, &label, passphrase)?;
            Ok(file.finish()?)
        })
    }

    /// Returns the setup, as JSON.
    fn setup(&self) -> Result<String> {
        json(&self.0.session.setup)
    }

    /// Returns the key pair, in hexadecimal.
    #[getter]
    fn key_id(&self) -> String {
        self.0.session.key.to_string()
    }

    /// Encrypts rows, and returns the bytes of their file.
    #[pyo3(signature = (rows, clamp, progress=None))]
    fn encrypt<'py>(
        &self,
        py: Python<'py>,
        rows: Numbers,
        clamp: bool,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> Result<Bound<'py, PyBytes>> {
        let secret = Arc::clone(&self.0);
        let file = job::run(py, progress, move |progress| {
            let key = Key::Secret(Arc::clone(&secret.key));
            let owner = Owner::new(secret.session.clone(), key)?;
            let count = rows.shape.first().copied().unwrap_or(0);
            progress.start("ciphertexts", owner.ciphertexts(count));
            let outside = if clamp { Outside::Clamp } else { Outside::Refuse };
            let mut file = Vec::new();
            let rows = Rows { numbers: &rows.values, outside };
            owner.write_rows(&mut file, rows, |done| progress.set(done))?;
            Ok::<_, Error>(file)
        })?;
        Ok(PyBytes::new(py, &file))
    }

    /// Decrypts the predictions in a file of scores, a row for each.
    fn decrypt(&self, py: Python<'_>, scores: Vec<u8>) -> Result<Numbers> {
        let secret = Arc::clone(&self.0);
        job::run(py, None, move |_| {
            let scores = reader(scores, "scores")?;
            let values = trees::read_scores(&secret, scores, Path::new("scores"))?;
            let setup = &secret.session.setup;
            let columns = setup.link.predictions(setup.outputs.len());
            Ok::<_, Error>(Numbers { shape: vec![values.len() / columns, columns], values })
        })
    }
}

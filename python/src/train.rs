//! Trainings of a server, and jobs on tables in the clear.

use crate::{
    data::{Data, to_python},
    error::{Error, Result},
    job,
    keys::EvaluationKeys,
    share::{DetachedPart, Part, Worker},
    source::{IN_MEMORY, Input, Memory},
    table::{Table, TablePlan, TableResult, model_from, other_job, result_bytes, session},
};
use pyo3::{exceptions::PyUserWarning, prelude::*};
use serde::Serialize;
use std::{
    ffi::CString,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};
use sudare::rlwe::Level;
use sudare_apps::{
    TablePlan as _,
    logreg::{TrainPlan, reference},
    stats::{Statistics, StatsPlan},
};
use sudare_arith::prng::Seed;
use sudare_roles::{
    clear::{decrypted::TrainedModel, model::Model},
    error::Error as Engine,
    format::label::Content,
    job::{Job, Plan},
    os::files,
    owner::encryption::PreparedTable,
    server::training::{CheckpointFolder, TrainingServer},
};

/// A training on encrypted tables, by a server.
#[pyclass(frozen, module = "sudare._native")]
pub struct Trainer {
    server: Arc<Mutex<TrainingServer<Input>>>,
    worker: Worker,
}

#[pymethods]
impl Trainer {
    /// Starts a training on tables, or with `resume` continues from the last state in the directory
    /// `checkpoint`, which stores states. With `history`, the model has the weights after each
    /// iteration. Iterations that need no rows are done at once.
    #[new]
    #[pyo3(signature = (
        tables, keys, *, checkpoint=None, resume=false, overwrite=false, history=false
    ))]
    fn new(
        py: Python<'_>,
        tables: Vec<PyRef<'_, Table>>,
        keys: &EvaluationKeys,
        checkpoint: Option<PathBuf>,
        resume: bool,
        overwrite: bool,
        history: bool,
    ) -> Result<Self> {
        if resume && checkpoint.is_none() {
            let problem =
                "resume needs the directory of the states to continue from: pass checkpoint";
            return Err(Engine::Usage(problem.into()).into());
        }
        let tables: Vec<&Table> = tables.iter().map(|table| &**table).collect();
        let open = session(&tables, keys)?;
        let set = keys.set.clone();
        let watch = keys.watch.clone();
        let kept = checkpoint.map(|folder| CheckpointFolder { folder, resume, replace: overwrite });
        let (trainer, warnings) = job::run(py, None, move |_| {
            let session = open()?;
            if !matches!(session.plan, Plan::Train(_)) {
                let found = format!("a table that was encrypted for {}", session.meta.job);
                return Err(other_job(&found, "a table to train on"));
            }
            let mut warnings = Vec::new();
            let warn = |damaged: &str| warnings.push(damaged.to_owned());
            let server = TrainingServer::open(session, kept, history, warn)?;
            let session = server.session();
            let plan = Arc::clone(server.plan());
            let evaluator = Arc::clone(&session.evaluator);
            let worker = Worker::new(set, session.meta.job, plan, evaluator, watch);
            Ok((Self { worker, server: Arc::new(Mutex::new(server)) }, warnings))
        })?;
        // After the job, because Python's warnings need the interpreter lock.
        for warning in warnings {
            let text = CString::new(warning).unwrap_or_default();
            PyErr::warn(py, &py.get_type::<PyUserWarning>(), &text, 2)?;
        }
        Ok(trainer)
    }

    /// The number of finished iterations.
    #[getter]
    fn iteration(&self, py: Python<'_>) -> u32 {
        // Another thread may hold this mutex for a whole iteration. Waiting with the lock would
        // stop Python.
        py.detach(|| self.with(|server| server.training().iteration))
    }

    /// The number of all iterations.
    #[getter]
    fn iterations(&self) -> u32 {
        self.worker.plan.job().spec.iterations
    }

    /// The level of the weights.
    #[getter]
    fn level(&self, py: Python<'_>) -> Option<u32> {
        let weights = |server: &mut TrainingServer<Input>| {
            server.training().state.first().map(|weights| weights.level())
        };
        py.detach(|| self.with(weights)).map(|Level(level)| level)
    }

    /// Does the next iteration, and stores the state if there is a directory for it.
    fn step(&self, py: Python<'_>) -> Result<()> {
        self.run(py, |server| Ok(server.step()?))
    }

    /// Divides the rows of the next iteration into at most `most` shares. Each is a range of ciphertexts of
    /// the tables: its first one, and the one after its last.
    fn shares(&self, py: Python<'_>, most: usize) -> Vec<(usize, usize)> {
        let shares = self.worker.plan.shares(self.iteration(py), most);
        shares.into_iter().map(|share| (share.start, share.end)).collect()
    }

    /// Returns the ciphertexts of a share, to be sent to a worker.
    fn rows(&self, py: Python<'_>, start: usize, stop: usize) -> Result<Part> {
        let worker = self.worker.clone();
        let bytes = self.run(py, move |server| {
            let rows = server.session().tables.read(start..stop)?;
            worker.write_rows(start..stop, &rows)
        })?;
        Part::new(Memory::new(py, bytes))
    }

    /// Returns the point of the gradient of the next iteration. Bootstraps the weights first if their levels
    /// have run out.
    fn point(&self, py: Python<'_>) -> Result<Part> {
        let worker = self.worker.clone();
        let bytes = self.run(py, move |server| worker.write_point(&server.point()?))?;
        Part::new(Memory::new(py, bytes))
    }

    /// Does the next iteration, as `step`, with a gradient over all shares.
    fn update(&self, py: Python<'_>, gradient: &Part) -> Result<()> {
        let worker = self.worker.clone();
        let gradient = DetachedPart::new(gradient);
        self.run(py, move |server| Ok(server.update(worker.read_gradient(gradient)?)?))
    }

    /// Returns the worker of this process.
    #[getter]
    fn worker(&self) -> Worker {
        self.worker.clone()
    }

    /// Returns the encrypted weights after the finished iterations.
    fn model(&self, py: Python<'_>) -> Result<TableResult> {
        let bytes = self.run(py, |server| {
            let (items, meta) = server.model()?;
            result_bytes(server.session(), items, &meta, Content::Model)
        })?;
        TableResult::new(Memory::new(py, bytes), Path::new(IN_MEMORY))
    }
}

impl Trainer {
    fn with<T>(&self, f: impl FnOnce(&mut TrainingServer<Input>) -> T) -> T {
        f(&mut self.server.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn run<T: Send + 'static>(
        &self,
        py: Python<'_>,
        f: impl FnOnce(&mut TrainingServer<Input>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let server = Arc::clone(&self.server);
        job::run(py, None, move |_| f(&mut server.lock().unwrap_or_else(PoisonError::into_inner)))
    }
}

/// A model, and its predicted error under encryption.
#[derive(Serialize)]
struct SimulatedModel {
    #[serde(flatten)]
    model: Model,
    log2_error: f64,
}

#[derive(Serialize)]
struct SimulatedStatistics {
    columns: Vec<String>,
    #[serde(flatten)]
    statistics: Statistics,
}

fn to_json(values: &impl Serialize) -> Result<serde_json::Value> {
    serde_json::to_value(values).map_err(|_| Error::Bug("a result has no JSON"))
}

/// Options of training in the clear.
struct Simulation {
    order: Option<Seed>,
    class_weights: Option<Vec<f64>>,
    history: bool,
    calibrate: bool,
}

impl Simulation {
    fn model(
        self,
        plan: &TrainPlan,
        data: &Data,
        progress: impl Fn(u32),
    ) -> Result<SimulatedModel> {
        let table = &*data.table;
        let spec = plan.job().spec;
        let order = self.order.as_ref();
        let weights = self.class_weights.as_deref();
        let prepared = PreparedTable::new(plan, table.clone(), weights, order)?;
        let rows = prepared.rows(plan)?;
        let simulated = plan.simulate(&rows, progress).map_err(Engine::from)?;
        let history = self.history.then(|| reference::history(&rows, &spec)).transpose();
        // As in the file of a decrypted model, an encoding of numbers only is left out.
        let encoding = data.encoding.clone().filter(|encoding| !encoding.is_plain());
        let trained = prepared.trained(self.class_weights, encoding, None)?;
        let trained = TrainedModel::new(
            (Box::new(plan.clone()), spec.iterations),
            (table.columns().to_vec(), table.rows(), trained),
            (simulated.weights, history.map_err(Engine::from)?),
        )?;
        let model = match self.calibrate {
            true => trained.calibrated(table)?,
            false => trained.model,
        };
        Ok(SimulatedModel { model, log2_error: simulated.noise_log2 })
    }
}

/// Computes the job of a plan on a table in the clear, by the program that runs under encryption.
/// Returns the values of `Decrypted`, calibrated on request, and `log2_error` for a training. `order`
/// and `class_weights` are as for `TablePlan.encrypt`. With `history`, a training has the weights
/// after each iteration.
#[pyfunction]
#[pyo3(signature = (
    plan, data, *, order=None, class_weights=None, history=false, calibrate=false, progress=None
))]
#[expect(clippy::too_many_arguments, reason = "by name, from Python")]
pub fn simulate<'py>(
    py: Python<'py>,
    plan: &TablePlan,
    data: &Data,
    order: Option<[u8; 32]>,
    class_weights: Option<Vec<f64>>,
    history: bool,
    calibrate: bool,
    progress: Option<&Bound<'_, PyAny>>,
) -> Result<Bound<'py, PyAny>> {
    let job = plan.job;
    let params = plan.set.params.clone();
    let data = data.clone();
    let plan = Arc::clone(&plan.plan);
    let order = order.map(Seed::from_bytes);
    let simulation = Simulation { order, class_weights, history, calibrate };
    let values = job::run(py, progress, move |progress| match (&*plan, job) {
        (Plan::Train(plan), _) => {
            progress.start("training in the clear", plan.job().spec.iterations as usize);
            to_json(&simulation.model(plan, &data, |done| progress.set(done as usize))?)
        }
        (_, Job::Stats(job)) => {
            let plan = StatsPlan::new(&job, &params).map_err(Engine::from)?;
            progress.start("computing in the clear", plan.outputs());
            let statistics = plan.simulate(&data.table, |done| progress.set(done));
            let statistics = statistics.map_err(Engine::from)?;
            let columns = data.table.columns().to_vec();
            to_json(&SimulatedStatistics { columns, statistics })
        }
        _ => Err(other_job(
            &format!("a plan for {job}"),
            "a plan for a training or for statistics of columns",
        )),
    })?;
    to_python(py, &values)
}

/// Reads the model in a JSON file of the command line.
#[pyfunction]
pub fn read_model(py: Python<'_>, path: PathBuf) -> Result<Bound<'_, PyAny>> {
    let model = job::detached(py, || Ok(Model::read(&path)?))?;
    to_python(py, &model)
}

/// Writes a model (JSON) to such a file. Returns its categories of few rows, with the numbers of rows.
#[pyfunction]
pub fn write_model(path: PathBuf, model: &str, overwrite: bool) -> Result<Vec<(String, usize)>> {
    let model = model_from(model)?;
    let text = serde_json::to_string_pretty(&model);
    let text = text.map_err(|_| Error::Bug("a model has no JSON"))? + "\n";
    files::write_text(&path, &text, overwrite)?;
    let small = model.small_categories().into_iter();
    Ok(small.map(|(name, rows)| (name.to_owned(), rows)).collect())
}

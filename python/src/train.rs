//! Trainings of a server, and what tables give in the clear.

use crate::{
    array::Numbers,
    error::{Error, Result},
    job,
    keys::EvaluationKeys,
    share::{Held, Part, Worker},
    source::{IN_MEMORY, Input, Memory},
    table::{
        Table, TablePlan, TableResult, check_class_weights, from_json, other_job, result_bytes,
        table, to_python,
    },
};
use pyo3::{exceptions::PyUserWarning, prelude::*};
use serde::Serialize;
use std::{
    ffi::CString,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};
use sudare::{ckks::Ciphertext, rlwe::Level};
use sudare_apps::{
    logreg::{Gradient, Training, reference},
    stats::Statistics,
    table::Scaling,
};
use sudare_arith::prng::Seed;
use sudare_roles::{
    artefacts::{Content, Origin, Plan},
    checkpoint::Checkpoints,
    encryption,
    error::Error as Engine,
    files,
    model::{Model, ModelKind},
    server::{Batch, Session},
};

/// A training on an encrypted table, by a server.
#[pyclass(frozen, module = "sudare._native")]
pub struct Trainer(Arc<Server>);

struct Server {
    session: Session<Input>,
    worker: Worker,
    checkpoints: Option<Checkpoints>,
    /// Whether the weights after each iteration are kept.
    keeps_history: bool,
    state: Mutex<State>,
}

/// How far it is, and the rows that come next.
#[derive(Default)]
struct State {
    training: Option<Training>,
    rows: Batch,
    history: Vec<Ciphertext>,
}

#[pymethods]
impl Trainer {
    /// Of a table, from its beginning, or with `resume` from the last state in the folder
    /// `checkpoint`, where states are kept. With `history`, the weights after each iteration go
    /// with the model.
    #[new]
    #[pyo3(signature = (
        table, keys, *, checkpoint=None, resume=false, overwrite=false, history=false
    ))]
    fn new(
        py: Python<'_>,
        table: &Table,
        keys: &EvaluationKeys,
        checkpoint: Option<PathBuf>,
        resume: bool,
        overwrite: bool,
        history: bool,
    ) -> Result<Self> {
        if resume && checkpoint.is_none() {
            let problem = "resume takes the folder of the states to go on from: give checkpoint";
            return Err(Engine::Usage(problem.into()).into());
        }
        let (open, set, watch) = (table.session(keys), keys.set.clone(), keys.watch.clone());
        let origin = match &checkpoint {
            Some(_) => Some(Origin::new(keys.digest()?, table.digest()?)),
            None => None,
        };
        let (server, warnings) = job::run(py, None, move |_| {
            let session = open()?;
            let Plan::Train(plan) = &session.plan else {
                let found = format!("a table that was encrypted for {}", session.meta.job);
                return Err(other_job(&found, "a table to train on"));
            };
            let plan = Arc::new(plan.clone());
            let mut warnings = Vec::new();
            let (mut checkpoints, mut state) = (None, State::default());
            if let Some((folder, origin)) = checkpoint.zip(origin) {
                let states = Checkpoints::open(&folder, origin, resume || overwrite)?;
                if resume {
                    state.training = states.last(&plan, &session, |damaged| {
                        warnings.push(damaged.to_string());
                    })?;
                }
                if let (true, Some(training)) = (history, &state.training) {
                    state.history = states.weights(training, &session)?;
                }
                checkpoints = Some(states);
            }
            let evaluator = Arc::new(session.evaluator.clone());
            let worker = Worker::new(set, session.meta.job, plan, evaluator, watch)?;
            let (keeps_history, state) = (history, Mutex::new(state));
            Ok((Server { session, worker, checkpoints, keeps_history, state }, warnings))
        })?;
        for warning in warnings {
            let text = CString::new(warning).unwrap_or_default();
            PyErr::warn(py, &py.get_type::<PyUserWarning>(), &text, 2)?;
        }
        Ok(Self(Arc::new(server)))
    }

    /// Iterations done.
    #[getter]
    fn iteration(&self) -> u32 {
        self.0.with_state(|state| state.training.as_ref().map_or(0, |t| t.iteration))
    }

    /// Iterations in all.
    #[getter]
    fn iterations(&self) -> u32 {
        self.0.worker.plan.job().spec.iterations
    }

    /// The level of the weights, None before the first iteration.
    #[getter]
    fn level(&self) -> Option<u32> {
        let level = |t: &Training| t.state.first().map(|weights| weights.level());
        let level = self.0.with_state(|state| state.training.as_ref().and_then(level));
        level.map(|Level(level)| level)
    }

    /// Does the next iteration, or the first two, and keeps the state if there is a folder for it.
    fn step(&self, py: Python<'_>) -> Result<()> {
        let server = Arc::clone(&self.0);
        job::run(py, None, move |_| server.step())
    }

    /// Cuts the rows of the next iteration into at most `most` shares: which ciphertexts of the
    /// table they are, from one and up to another.
    fn shares(&self, most: usize) -> Vec<(usize, usize)> {
        let shares = self.0.worker.plan.shares(self.iteration(), most);
        shares.into_iter().map(|share| (share.start, share.end)).collect()
    }

    /// Those ciphertexts, to be sent to a worker.
    fn rows(&self, py: Python<'_>, start: usize, stop: usize) -> Result<Part> {
        let server = Arc::clone(&self.0);
        let bytes = job::run(py, None, move |_| {
            let rows = server.session.table.read(start..stop)?;
            server.worker.write_rows(start..stop, &rows)
        })?;
        Part::new(Memory::new(py, bytes))
    }

    /// Where the gradient of the next iteration is taken, None before the first. Weights are
    /// bootstrapped before if they have to be.
    fn point(&self, py: Python<'_>) -> Result<Option<Part>> {
        let server = Arc::clone(&self.0);
        let bytes = job::run(py, None, move |_| server.point())?;
        bytes.map(|bytes| Part::new(Memory::new(py, bytes))).transpose()
    }

    /// Does the next iteration, or the first two, as `step`, with a gradient over all shares.
    fn update(&self, py: Python<'_>, gradient: &Part) -> Result<()> {
        let (server, gradient) = (Arc::clone(&self.0), Held::new(gradient));
        job::run(py, None, move |_| {
            let gradient = server.worker.read_gradient(gradient)?;
            server.update(gradient)
        })
    }

    /// What computes parts of gradients here.
    #[getter]
    fn worker(&self) -> Worker {
        self.0.worker.clone()
    }

    /// The encrypted weights after the iterations that are done.
    fn model(&self, py: Python<'_>) -> Result<TableResult> {
        let server = Arc::clone(&self.0);
        let bytes = job::run(py, None, move |_| server.model())?;
        TableResult::new(Memory::new(py, bytes), Path::new(IN_MEMORY))
    }
}

impl Server {
    fn with_state<T>(&self, f: impl FnOnce(&mut State) -> T) -> T {
        f(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn step(&self) -> Result<()> {
        let (plan, table) = (&self.worker.plan, &self.session.table);
        self.with_state(|State { training, rows, history }| {
            let mut next = training.clone().unwrap_or_default();
            let after = plan.batch(next.iteration + 1);
            rows.bring(table, plan.batch(next.iteration))?;
            self.session.check_keys()?;
            rows.with_next(table, after, |batch| {
                Ok(self.worker.trainer.step(batch, &mut next)?)
            })?;
            self.keep(training, history, next)
        })
    }

    fn update(&self, gradient: Gradient) -> Result<()> {
        self.with_state(|State { training, history, .. }| {
            let mut next = training.clone().unwrap_or_default();
            self.worker.trainer.update(gradient, &mut next).map_err(Engine::from)?;
            self.keep(training, history, next)
        })
    }

    /// Takes the state after an iteration, once it is written where states are kept.
    fn keep(
        &self,
        training: &mut Option<Training>,
        history: &mut Vec<Ciphertext>,
        next: Training,
    ) -> Result<()> {
        let (plan, session) = (&self.worker.plan, &self.session);
        session.check_keys()?;
        let weights = match self.keeps_history {
            true => Some(plan.snapshot(&session.evaluator, &next).map_err(Engine::from)?),
            false => None,
        };
        if let Some(checkpoints) = &self.checkpoints {
            if let Some(weights) = &weights {
                checkpoints.write_weights(weights, next.iteration, session)?;
            }
            checkpoints.write(&next, session)?;
        }
        history.extend(weights);
        *training = Some(next);
        Ok(())
    }

    /// Refreshes the weights if need be.
    fn point(&self) -> Result<Option<Vec<u8>>> {
        self.with_state(|State { training, .. }| {
            let Some(training) = training else { return Ok(None) };
            self.session.check_keys()?;
            self.worker.trainer.refresh(training).map_err(Engine::from)?;
            self.worker.write_point(&training.point())
        })
    }

    fn model(&self) -> Result<Vec<u8>> {
        let (training, mut history) =
            self.with_state(|state| (state.training.clone(), state.history.clone()));
        let training = training.ok_or_else(|| {
            other_job("a training without iterations", "one with at least one step")
        })?;
        let model = self.worker.plan.model(&training).map_err(Engine::from)?;
        let meta = self.session.meta_after(training.iteration);
        history.insert(0, model);
        result_bytes(&self.session, history, &meta, Content::Model)
    }
}

/// A model, and the error that it would have.
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

/// What a plan's job gives for a table in the clear, by the program that runs under encryption:
/// the values that `Decrypted` has, and of a training `log2_error`. `order` decides the order of
/// rows in batches. `class_weights` are those of `TablePlan.encrypt`. With `history`, a training has
/// the weights after each iteration.
#[pyfunction]
#[pyo3(signature = (
    plan, columns, numbers, *, target=None, labels=None, order=None, class_weights=None,
    history=false, progress=None
))]
#[expect(clippy::too_many_arguments, reason = "by name, from Python")]
pub fn simulate<'py>(
    py: Python<'py>,
    plan: &TablePlan,
    columns: Vec<String>,
    numbers: Numbers,
    target: Option<String>,
    labels: Option<Numbers>,
    order: Option<[u8; 32]>,
    class_weights: Option<[f64; 2]>,
    history: bool,
    progress: Option<&Bound<'_, PyAny>>,
) -> Result<Bound<'py, PyAny>> {
    let (job, plan) = (plan.job, Arc::clone(&plan.plan));
    check_class_weights(&job, class_weights)?;
    let order = order.map(Seed::from_bytes);
    let values = job::run(py, progress, move |progress| {
        let (mut table, _) = table(&job, columns, numbers, target, labels, None)?;
        encryption::shuffle(&plan, &mut table, order.as_ref())?;
        match &*plan {
            Plan::Train(plan) => {
                let iterations = plan.job().spec.iterations;
                progress.start("training in the clear", iterations as usize);
                let done = |done: u32| progress.set(done as usize);
                let simulated = plan.simulate(&table, class_weights, done).map_err(Engine::from)?;
                let divisors = Scaling::max_abs(&table);
                let history = match history {
                    true => {
                        let rows = divisors.signed_rows(&table).map_err(Engine::from)?;
                        let spec = &plan.job().spec;
                        let history = reference::history(&rows, spec, class_weights);
                        Some(history.map_err(Engine::from)?)
                    }
                    false => None,
                };
                let model = Model {
                    kind: ModelKind::LogisticRegression,
                    weights: simulated.weights,
                    columns: table.columns().to_vec(),
                    target: table.target().unwrap_or_default().into(),
                    divisors,
                    iterations,
                    rows: table.rows(),
                    training: Some(plan.job().spec),
                    class_weights,
                    history,
                };
                to_json(&SimulatedModel { model, log2_error: simulated.noise_log2 })
            }
            Plan::Stats(plan) => {
                progress.start("computing in the clear", plan.outputs());
                let statistics = plan.simulate(&table, |done| progress.set(done));
                let statistics = statistics.map_err(Engine::from)?;
                let columns = table.columns().to_vec();
                to_json(&SimulatedStatistics { columns, statistics })
            }
            Plan::Groups(_) | Plan::Histogram(_) | Plan::Predict(_) => Err(other_job(
                &format!("a plan for {job}"),
                "one for a training or statistics of columns",
            )),
        }
    })?;
    to_python(py, &values)
}

/// The model in a JSON file of the command line.
#[pyfunction]
pub fn read_model(py: Python<'_>, path: PathBuf) -> Result<Bound<'_, PyAny>> {
    let model = job::detached(py, || Ok(Model::read(&path)?))?;
    to_python(py, &model)
}

/// Writes a model, given as JSON, to such a file.
#[pyfunction]
pub fn write_model(path: PathBuf, model: &str, overwrite: bool) -> Result<()> {
    let model: Model = from_json(model)?;
    let text = serde_json::to_string_pretty(&model);
    let text = text.map_err(|_| Error::Bug("a model has no JSON"))? + "\n";
    Ok(files::write_text(&path, &text, overwrite)?)
}

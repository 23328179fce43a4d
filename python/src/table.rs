//! Tables that are encrypted for one job, and their results: the files of the command line.

use crate::{
    data::{Data, choice, from_json, malformed, to_json, to_python},
    error::{Error, Result},
    job::{self, Progress},
    keys::{AnyKey, EvaluationKeys, PublicKey, SecretKey},
    plan::{AUTO, Parameters, ProgramReport, Report},
    source::{Fingerprint, IN_MEMORY, Input, Memory, Reduced, Source, read_all, save},
};
use pyo3::{prelude::*, types::PyBytes};
use serde_json::json;
use std::{
    io::{self, BufReader, Cursor, Read, Write},
    ops::Range,
    path::{Path, PathBuf},
    sync::Arc,
};
use sudare::{
    circuits::cost::{Rates, Work},
    ckks::{
        Ciphertext, Params,
        serial::{Info, Kind},
    },
};
use sudare_apps::{
    logreg::{
        self, ClassWeights, LearningRate, Penalty, Preparation, Prepared, Probability, ScoreJob,
        ScorePlan, ScoredModel, Scores, SigmoidApprox, SigmoidDegree, TrainPlan, TrainSpec,
    },
    stats::{self, Cost, GroupJob, HistogramJob, StatsError, TTest},
    table::{Categorical, EncodingOptions},
};
use sudare_arith::{mem::Mapping, prng::Seed};
use sudare_roles::{
    decryption::{self, Share},
    encryption::Encryption,
    error::Error as Engine,
    features::Inputs,
    files::{Access, NewFile},
    job::{Job, Plan},
    label::{Content, Meta, Origin},
    model::{Model, NamedGroups, NamedLeastSquares, NamedScores, NamedStatistics},
    opened::Opened,
    reading::Reading,
    scoring,
    server::Session,
};

/// Ciphertexts of rows that a training computes with at a time, about.
const CIPHERTEXTS_AT_WORK: u64 = 64;

/// A job on a table of known shape, and parameters for it.
#[pyclass(frozen, module = "sudare._native")]
pub struct TablePlan {
    pub(crate) set: Parameters,
    pub(crate) job: Job,
    pub(crate) plan: Arc<Plan>,
}

#[pymethods]
impl TablePlan {
    /// Moments, covariances and correlations of columns.
    #[staticmethod]
    #[pyo3(signature = (rows, features, *, share_bits=None, insecure_log_n=None))]
    fn statistics(
        py: Python<'_>,
        rows: usize,
        features: usize,
        share_bits: Option<u32>,
        insecure_log_n: Option<u32>,
    ) -> Result<Self> {
        Self::smallest(py, Job::Stats(stats::Job { rows, features }), share_bits, insecure_log_n)
    }

    /// Sums of columns by groups of rows.
    #[staticmethod]
    #[pyo3(signature = (rows, features, groups, *, share_bits=None, insecure_log_n=None))]
    fn groups(
        py: Python<'_>,
        rows: usize,
        features: usize,
        groups: usize,
        share_bits: Option<u32>,
        insecure_log_n: Option<u32>,
    ) -> Result<Self> {
        Self::smallest(
            py,
            Job::Groups(GroupJob { rows, features, groups }),
            share_bits,
            insecure_log_n,
        )
    }

    /// Counts of the values of columns in bins.
    #[staticmethod]
    #[pyo3(signature = (rows, features, bins, *, share_bits=None, insecure_log_n=None))]
    fn histogram(
        py: Python<'_>,
        rows: usize,
        features: usize,
        bins: usize,
        share_bits: Option<u32>,
        insecure_log_n: Option<u32>,
    ) -> Result<Self> {
        Self::smallest(
            py,
            Job::Histogram(HistogramJob { rows, features, bins }),
            share_bits,
            insecure_log_n,
        )
    }

    /// Logistic regression. What is left out is what suits a table of this shape, as
    /// `TrainSpec::recommended` has it, and the range of the sigmoid what suits the table `like`,
    /// whose classes weigh `weights`, if there is one.
    #[staticmethod]
    #[pyo3(signature = (
        rows, features, *, iterations=None, preparation="whiten", learning_rate=None, rate=None,
        batch_size=None, c=None, alpha=None, classes=2, sigmoid_range=None, sigmoid_degree=None,
        shared_bits=None, workers=None, class_weights=None, scorable=false, tables=1, like=None,
        weights=None, insecure_log_n=None
    ))]
    #[expect(clippy::too_many_arguments, reason = "by name, from Python")]
    fn train(
        py: Python<'_>,
        rows: usize,
        features: usize,
        iterations: Option<u32>,
        preparation: &str,
        learning_rate: Option<f64>,
        rate: Option<&str>,
        batch_size: Option<usize>,
        c: Option<f64>,
        alpha: Option<f64>,
        classes: u32,
        sigmoid_range: Option<f64>,
        sigmoid_degree: Option<u32>,
        shared_bits: Option<u32>,
        workers: Option<usize>,
        class_weights: Option<&str>,
        scorable: bool,
        tables: usize,
        like: Option<&Data>,
        weights: Option<Vec<f64>>,
        insecure_log_n: Option<u32>,
    ) -> Result<Self> {
        let preparation = match preparation {
            "whiten" => Preparation::Whiten,
            "standardize" => Preparation::Standardize,
            "scale" => Preparation::Scale,
            found => return Err(choice("preparation", found, "whiten, standardize or scale")),
        };
        let usual = job::detached(py, || {
            Ok(TrainSpec::recommended(rows, features, preparation).map_err(Engine::from)?)
        })?;
        let batch = batch_size.or(usual.batch);
        let mut sigmoid = usual.sigmoid;
        sigmoid.range = sigmoid_range.unwrap_or(sigmoid.range);
        if let Some(degree) = sigmoid_degree {
            sigmoid.degree = SigmoidDegree::try_from(degree).map_err(Engine::from)?;
        }
        if tables > 1 && sigmoid_range.is_none() {
            // Nobody sees the inner products of all rows.
            sigmoid.range = SigmoidApprox::POOLED_RANGE;
        }
        let spec = TrainSpec {
            iterations: iterations.unwrap_or(usual.iterations),
            preparation,
            learning_rate: step_sizes(&usual, learning_rate, rate, batch.is_some())?,
            sigmoid,
            penalty: penalty(c, alpha).unwrap_or(usual.penalty),
            batch,
            classes,
            class_weights: class_weights.map(source_of_weights).transpose()?,
            shared_bits,
            scorable,
            workers,
            tables,
        };
        let like = like.filter(|_| sigmoid_range.is_none() && preparation != Preparation::Scale);
        let spec = match like.cloned() {
            Some(like) => job::run(py, None, move |_| fitting(spec, &like, weights.as_deref()))?,
            None => spec,
        };
        Self::smallest(py, Job::Train(logreg::Job { rows, features, spec }), None, insecure_log_n)
    }

    /// Scores of rows by a model that is given, with probabilities to so many bits for scores up to
    /// `sigmoid_range`.
    #[staticmethod]
    #[pyo3(signature = (
        rows, features, *, classes=2, probability_bits=None, sigmoid_range=None,
        insecure_log_n=None
    ))]
    fn predict(
        py: Python<'_>,
        rows: usize,
        features: usize,
        classes: u32,
        probability_bits: Option<u32>,
        sigmoid_range: Option<f64>,
        insecure_log_n: Option<u32>,
    ) -> Result<Self> {
        let range = sigmoid_range.unwrap_or(SigmoidApprox::default().range);
        let probability = probability_bits.map(|bits| Probability { range, bits });
        let model = ScoredModel::Given { features, classes, probability };
        Self::smallest(py, Job::Predict(ScoreJob { rows, model }), None, insecure_log_n)
    }

    /// Scores of rows with keys that were made for that, or for a training that leaves a model to
    /// score by.
    #[staticmethod]
    fn scoring(py: Python<'_>, key: AnyKey<'_>, rows: usize) -> Result<Self> {
        let plan = Self::of(py, key)?;
        let job = plan.job.scoring(rows)?;
        job::run(py, None, move |_| Self::new(plan.set, job))
    }

    /// The plan that keys were made for.
    #[staticmethod]
    fn of(py: Python<'_>, key: AnyKey<'_>) -> Result<Self> {
        let set = key.set().clone();
        let Some((_, Meta { job, .. })) = Meta::read(&set.label) else {
            return Err(other_job("keys for programs on arrays", "a key for a job on a table"));
        };
        job::run(py, None, move |_| Self::new(set, job))
    }

    #[getter]
    fn parameters(&self) -> Parameters {
        self.set.clone()
    }

    /// The job, as `sudare info` has it.
    #[getter]
    fn job(&self) -> String {
        self.job.to_string()
    }

    /// `train`, `stats`, `groups`, `histogram` or `predict`.
    #[getter]
    fn kind(&self) -> &'static str {
        self.job.kind()
    }

    /// Most rows of the table.
    #[getter]
    fn rows(&self) -> Result<usize> {
        Ok(self.job.shape()?.0)
    }

    /// Its columns, without target or key column.
    #[getter]
    fn features(&self) -> Result<usize> {
        Ok(self.job.shape()?.1)
    }

    /// Ciphertexts of the table.
    #[getter]
    fn blocks(&self) -> usize {
        self.plan.ciphertexts()
    }

    /// Half the interval of the polynomial in place of the sigmoid, of a training.
    #[getter]
    fn sigmoid_range(&self) -> Option<f64> {
        self.job.training().map(|spec| spec.sigmoid.range)
    }

    /// Sizes, security and time.
    fn report(&self, py: Python<'_>) -> Result<Report> {
        let (set, job, plan) = (self.set.clone(), self.job, Arc::clone(&self.plan));
        job::run(py, None, move |_| Self { set, job, plan }.measured())
    }

    /// A table, encrypted. Column `by` tells groups of rows apart, `order` decides the order of
    /// rows in batches, and `class_weights` are what rows of each class weigh, for a plan with
    /// given ones. With `path` the table is in that file and not in memory.
    #[pyo3(signature = (
        key, data, *, by=None, order=None, class_weights=None, path=None, overwrite=false,
        progress=None
    ))]
    #[expect(clippy::too_many_arguments, reason = "by name, from Python")]
    fn encrypt(
        &self,
        py: Python<'_>,
        key: &PublicKey,
        data: &Data,
        by: Option<String>,
        order: Option<[u8; 32]>,
        class_weights: Option<Vec<f64>>,
        path: Option<PathBuf>,
        overwrite: bool,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> Result<Table> {
        self.check_key("the public key", &key.set)?;
        expect_given(&self.job, "by", by.is_some(), matches!(self.job, Job::Groups(_)))?;
        let (job, set, key, data) =
            (self.job, self.set.clone(), Arc::clone(&key.key), data.clone());
        let order = order.map(Seed::from_bytes);
        let encrypt = move |progress: &Progress, out: &mut dyn Write, path: &Path| -> Result<()> {
            let encryption = Encryption::new(job, &set.params, &set.label.name, key)?;
            let encryption = encryption.with_order(order).with_class_weights(class_weights);
            progress.start("encrypting", encryption.plan().ciphertexts());
            let subject = data.subject(by.as_deref())?;
            encryption.write(out, path, subject, |done| progress.set(done))?;
            Ok(())
        };
        Table::written(py, path, overwrite, progress, encrypt)
    }

    /// Rows to be scored, encrypted, and their classes, if they are known. `features` says as JSON
    /// what the features of the model are. Otherwise as `encrypt`.
    #[pyo3(signature = (key, data, features, *, path=None, overwrite=false, progress=None))]
    #[expect(clippy::too_many_arguments, reason = "by name, from Python")]
    fn encrypt_rows(
        &self,
        py: Python<'_>,
        key: &PublicKey,
        data: &Data,
        features: &str,
        path: Option<PathBuf>,
        overwrite: bool,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> Result<Table> {
        self.check_key("the public key", &key.set)?;
        let inputs: Inputs = from_json(features)?;
        let (job, set, key, table) =
            (self.job, self.set.clone(), Arc::clone(&key.key), Arc::clone(&data.table));
        let encrypt = move |progress: &Progress, out: &mut dyn Write, path: &Path| -> Result<()> {
            let encryption = Encryption::new(job, &set.params, &set.label.name, key)?;
            progress.start("encrypting", encryption.plan().ciphertexts());
            encryption.write_rows(out, path, &table, &inputs, |done| progress.set(done))?;
            Ok(())
        };
        Table::written(py, path, overwrite, progress, encrypt)
    }

    /// The features of a model that is trained on a table, as JSON, for rows that keys for this
    /// plan are to score. `class_weights` are those of `encrypt`.
    #[pyo3(signature = (data, *, class_weights=None))]
    fn features_of(
        &self,
        py: Python<'_>,
        data: &Data,
        class_weights: Option<Vec<f64>>,
    ) -> Result<String> {
        job::detached(py, || {
            let encoding = data.encoding.clone();
            let weights = class_weights.as_deref();
            to_json(&Inputs::of(&data.table, encoding, &self.job, weights)?)
        })
    }

    /// Those that a file says: a model, or, of another name, the table that one was trained on.
    #[pyo3(signature = (path, *, target=None, class_weights=None))]
    fn read_features(
        &self,
        py: Python<'_>,
        path: PathBuf,
        target: Option<&str>,
        class_weights: Option<Vec<f64>>,
    ) -> Result<String> {
        let encoding =
            EncodingOptions { categorical: Categorical::Every, ..EncodingOptions::default() };
        let reading = Reading { encoding, ..Reading::default() };
        let labels = (target, class_weights.as_deref());
        job::detached(py, || to_json(&Inputs::read(&path, &self.job, labels, &reading)?))
    }

    /// A model to score rows by, given as JSON, encrypted.
    fn encrypt_model(&self, py: Python<'_>, key: &PublicKey, model: &str) -> Result<TableResult> {
        self.check_key("the public key", &key.set)?;
        let model = model_from(model)?;
        let (job, set, key) = (self.job, self.set.clone(), Arc::clone(&key.key));
        let bytes = job::run(py, None, move |_| {
            let mut bytes = Vec::new();
            let encryption = Encryption::new(job, &set.params, &set.label.name, key)?;
            encryption.write_model(&mut bytes, Path::new(IN_MEMORY), &model)?;
            Ok(bytes)
        })?;
        TableResult::new(Memory::new(py, bytes), Path::new(IN_MEMORY))
    }
}

/// A model that Python gives as JSON.
pub(crate) fn model_from(text: &str) -> Result<Model> {
    from_json::<Model>(text)?.checked().map_err(malformed)
}

/// Step sizes as they are asked for. Of prepared columns, batches take smaller and smaller ones.
fn step_sizes(
    usual: &TrainSpec,
    initial: Option<f64>,
    rate: Option<&str>,
    in_batches: bool,
) -> Result<LearningRate> {
    let initial = initial.unwrap_or(usual.learning_rate.at(0));
    Ok(match (rate, usual.learning_rate) {
        (Some("constant"), _) => LearningRate::Constant(initial),
        (Some("slowing"), _) => LearningRate::Slowing { initial },
        (Some("decaying"), _) | (None, LearningRate::Decaying { .. }) => {
            LearningRate::Decaying { initial }
        }
        (Some(found), _) => {
            return Err(choice("rate", found, "constant, slowing or decaying"));
        }
        (None, _) if in_batches => LearningRate::Slowing { initial },
        (None, _) => LearningRate::Constant(initial),
    })
}

/// The penalty that is asked for: none for `alpha` 0 and, as scikit-learn has it, for infinite `c`.
fn penalty(c: Option<f64>, alpha: Option<f64>) -> Option<Penalty> {
    match (c, alpha) {
        (_, Some(0.0)) | (Some(f64::INFINITY), None) => Some(Penalty::None),
        (_, Some(alpha)) => Some(Penalty::Alpha(alpha)),
        (Some(c), None) => Some(Penalty::C(c)),
        (None, None) => None,
    }
}

fn source_of_weights(found: &str) -> Result<ClassWeights> {
    match found {
        "balanced" => Ok(ClassWeights::Balanced),
        "given" => Ok(ClassWeights::Given),
        _ => Err(choice("class_weights", found, "balanced or given")),
    }
}

/// The same with a sigmoid for the inner products of a table.
fn fitting(spec: TrainSpec, like: &Data, weights: Option<&[f64]>) -> Result<TrainSpec> {
    let table = &*like.table;
    table.check_for_training().map_err(Engine::from)?;
    let rows = Prepared::new(table, &spec, table.rows(), weights).map_err(Engine::from)?;
    Ok(spec.with_fitting_range(&rows).map_err(Engine::from)?)
}

impl TablePlan {
    /// Sizes and security, and what the server does.
    fn measured(&self) -> Result<Report> {
        let cost = match &*self.plan {
            Plan::Stats(plan) => plan.cost(),
            Plan::Groups(plan) => plan.cost(),
            Plan::Histogram(plan) => plan.cost(),
            Plan::Train(plan) => return self.training(plan),
            Plan::Predict(_) => return Report::new(&self.set, self.plan.required_keys(), None),
        };
        let Cost { depth, input_bytes, output_bytes, work } = cost.map_err(Engine::from)?;
        self.report_with(depth, input_bytes, 2 * (input_bytes + output_bytes), &work)
    }

    fn training(&self, plan: &TrainPlan) -> Result<Report> {
        let params = &self.set.params;
        let bytes = |level| 16 * (params.rlwe().limbs(level).q() << params.log_n()) as u64;
        let (level, _) = plan.input(0);
        let batch_bytes = plan.batch(0).len() as u64 * bytes(level);
        let input_bytes = plan.shapes().map(|shape| bytes(shape.level)).sum();
        // The rows of two batches, and what becomes of some of them.
        let held_bytes = (2 * batch_bytes).min(input_bytes)
            + 2 * batch_bytes.min(CIPHERTEXTS_AT_WORK * bytes(level));
        let work = plan.work().map_err(Engine::from)?;
        let mut report = self.report_with(level.0, input_bytes, held_bytes, &work)?;
        report.bootstrap_levels = plan.bootstrap_levels();
        Ok(report)
    }

    fn report_with(
        &self,
        depth: u32,
        input_bytes: u64,
        held_bytes: u64,
        work: &Work,
    ) -> Result<Report> {
        let (params, request) = (&self.set.params, self.plan.required_keys());
        let program = ProgramReport {
            depth,
            bootstraps: self.plan.bootstraps().into(),
            missing_keys: false,
            input_bytes,
            peak_memory_bytes: request.bytes(params.rlwe())? + held_bytes,
            seconds: work.seconds(&Rates::reference(params.log_n())),
            outputs: Vec::new(),
        };
        Report::new(&self.set, request, Some(program))
    }

    /// In the smallest secure ring, or one of another size without security if one is given, with
    /// the precision to share results to `share_bits` bits.
    fn smallest(
        py: Python<'_>,
        job: Job,
        share_bits: Option<u32>,
        insecure_log_n: Option<u32>,
    ) -> Result<Self> {
        job::run(py, None, move |_| {
            let mut params = match share_bits {
                None => job.auto_params()?,
                Some(bits) => job.shared_params(bits)?,
            };
            if let Some(log_n) = insecure_log_n {
                let mut spec = params.spec().clone();
                (spec.log_n, spec.insecure) = (log_n, true);
                params = Params::new(spec)?;
            }
            let label = Meta::of(job).label(AUTO, Content::Keys)?;
            let planned = Self::new(Parameters::new(params, label)?, job)?;
            share_bits.map_or(Ok(()), |bits| planned.plan.expect_shared(bits))?;
            Ok(planned)
        })
    }

    fn new(set: Parameters, job: Job) -> Result<Self> {
        let plan = Arc::new(job.plan(&set.params)?);
        Ok(Self { set, job, plan })
    }

    /// Refuses keys that were made for something else.
    pub(crate) fn check_key(&self, what: &'static str, set: &Parameters) -> Result<()> {
        let job = Meta::read(&set.label).map(|(_, meta)| meta.job);
        if !job.is_some_and(|job| job.serves(&self.job)) {
            let job = job.map_or("programs on arrays".into(), |job| job.to_string());
            let (found, needed) = (format!("{what} for {job}"), format!("one for {}", self.job));
            return Err(other_job(&found, &needed));
        }
        let (found, expected) = (set.params.rlwe().id(), self.set.params.rlwe().id());
        if found != expected {
            return Err(sudare::Error::ParamsMismatch { what, found, expected }.into());
        }
        Ok(())
    }
}

pub(crate) fn other_job(found: &str, needed: &str) -> Error {
    Error::OtherJob { found: found.into(), needed: needed.into() }
}

fn expect_given(job: &Job, name: &str, given: bool, needed: bool) -> Result<()> {
    if given == needed {
        return Ok(());
    }
    let advice = if needed { "is needed: give it" } else { "is not used: leave it out" };
    Err(Engine::Usage(format!("for {job}, {name} {advice}")).into())
}

/// A table that is encrypted for one job.
#[pyclass(frozen, module = "sudare._native")]
pub struct Table {
    source: Source,
    info: Info,
    pub(crate) meta: Meta,
}

#[pymethods]
impl Table {
    /// The table in the file at `path`, which stays there.
    #[staticmethod]
    fn open(py: Python<'_>, path: PathBuf) -> Result<Self> {
        job::run(py, None, move |_| Self::in_file(&path, None))
    }

    /// As `open`, of the file that was pickled.
    #[staticmethod]
    fn _reopen(py: Python<'_>, path: PathBuf, digest: String, bytes: u64) -> Result<Self> {
        job::run(py, None, move |_| Self::in_file(&path, Some((&digest, bytes))))
    }

    /// The table that `to_bytes` gave.
    #[staticmethod]
    fn from_bytes(data: &Bound<'_, PyAny>) -> Result<Self> {
        Self::in_memory(Memory::from_python(data)?)
    }

    /// The table as the bytes of its file.
    fn to_bytes(&self, py: Python<'_>) -> Result<Py<PyBytes>> {
        match &self.source {
            Source::Memory(memory) => Ok(memory.to_bytes(py)),
            Source::File(file) => {
                let (open, bytes, path) = (self.source.opener(), file.bytes, file.path.clone());
                let content = job::run(py, None, move |_| read_all(open()?, bytes, &path))?;
                Ok(PyBytes::new(py, &content).unbind())
            }
        }
    }

    /// Writes the table to a file.
    #[pyo3(signature = (path, *, overwrite=false))]
    fn save(&self, py: Python<'_>, path: PathBuf, overwrite: bool) -> Result<()> {
        // A table that is replaced by itself is open before that.
        let mut input = job::detached(py, self.source.opener())?;
        save(py, path, Access::Shared, overwrite, move |file| Ok(io::copy(&mut input, file)?))
    }

    /// The job that it was encrypted for, as `sudare info` has it.
    #[getter]
    fn job(&self) -> String {
        self.meta.job.to_string()
    }

    /// `train`, `stats`, `groups`, `histogram` or `predict`.
    #[getter]
    fn kind(&self) -> &'static str {
        self.meta.job.kind()
    }

    /// Most rows: those that the keys were made for.
    #[getter]
    fn rows(&self) -> Result<usize> {
        Ok(self.meta.job.shape()?.0)
    }

    /// Columns, without target or key column.
    #[getter]
    fn features(&self) -> Result<usize> {
        Ok(self.meta.job.shape()?.1)
    }

    /// Ciphertexts, without those of names and ranges of columns.
    #[getter]
    fn blocks(&self) -> u64 {
        self.info.count.saturating_sub(self.meta.note.into())
    }

    /// The key pair, in hexadecimal.
    #[getter]
    fn key_id(&self) -> String {
        self.info.key_id.to_string()
    }

    /// Bytes of its file.
    #[getter]
    fn nbytes(&self) -> u64 {
        self.info.bytes
    }

    /// The file that it is in, or None.
    #[getter]
    fn path(&self) -> Option<&Path> {
        self.source.path()
    }

    /// The statistics that the table was encrypted for.
    #[pyo3(signature = (keys, progress=None))]
    fn compute(
        &self,
        py: Python<'_>,
        keys: &EvaluationKeys,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> Result<TableResult> {
        if let Job::Train(_) | Job::Predict(_) = self.meta.job {
            let found = format!("a table that was encrypted for {}", self.meta.job);
            return Err(other_job(&found, "a table for statistics, groups or histograms"));
        }
        let open = session(&[self], keys)?;
        let bytes = job::run(py, progress, move |progress| {
            let session = open()?;
            progress.start("computing", session.plan.outputs());
            let result = session.statistics(|done| progress.set(done))?;
            result_bytes(&session, result, &session.meta_of_result(), Content::Statistics)
        })?;
        TableResult::new(Memory::new(py, bytes), Path::new(IN_MEMORY))
    }

    /// Scores of the rows by a model, encrypted or given as JSON.
    #[pyo3(signature = (keys, model, progress=None))]
    fn score(
        &self,
        py: Python<'_>,
        keys: &EvaluationKeys,
        model: AnyModel<'_>,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> Result<TableResult> {
        let read: Box<ReadModel> = match model {
            AnyModel::Encrypted(model) => {
                let file = in_memory(&model.file, Path::new(IN_MEMORY))?;
                Box::new(move |session, plan| {
                    Ok(scoring::AnyModel::encrypted(file, session, plan)?)
                })
            }
            AnyModel::Plain(text) => {
                let model = model_from(&text)?;
                Box::new(move |_, plan| Ok(scoring::AnyModel::plain(&model, plan)?))
            }
        };
        let open = session(&[self], keys)?;
        let bytes = job::run(py, progress, move |progress| {
            let session = open()?;
            let Plan::Predict(plan) = &session.plan else {
                let found = format!("a table that was encrypted for {}", session.meta.job);
                return Err(other_job(&found, "rows that were encrypted to be scored"));
            };
            let model = read(&session, plan)?;
            progress.start("scoring", plan.groups());
            let scores = session.scores(plan, model.weights(), |done| progress.set(done))?;
            let (items, meta) = model.results(scores, &session);
            file_bytes(&session, &items, &meta, Content::Scores)
        })?;
        TableResult::new(Memory::new(py, bytes), Path::new(IN_MEMORY))
    }

    fn __reduce_ex__<'py>(slf: &Bound<'py, Self>, protocol: i32) -> Result<Reduced<'py>> {
        Ok(slf.get().source.reduce(&slf.get_type(), protocol)?)
    }

    fn __repr__(&self) -> String {
        let megabytes = self.info.bytes as f64 / 1e6;
        let (job, key, place) = (&self.meta.job, self.info.key_id, self.source.place());
        format!("EncryptedTable({job}, {megabytes:.1} MB in {place}, key_id={key})")
    }
}

impl Table {
    /// What `write` writes, to a file or in memory.
    pub(crate) fn written(
        py: Python<'_>,
        path: Option<PathBuf>,
        overwrite: bool,
        progress: Option<&Bound<'_, PyAny>>,
        write: impl FnOnce(&Progress, &mut dyn Write, &Path) -> Result<()> + Send + 'static,
    ) -> Result<Self> {
        let Some(path) = path else {
            let bytes = job::run(py, progress, move |progress| {
                let mut bytes = Vec::new();
                write(progress, &mut bytes, Path::new(IN_MEMORY))?;
                Ok(bytes)
            })?;
            return Self::in_memory(Memory::new(py, bytes));
        };
        job::run(py, progress, move |progress| {
            let mut file = NewFile::create(&path, Access::Shared, overwrite)?;
            write(progress, &mut file, &path)?;
            file.finish()?;
            Self::in_file(&path, None)
        })
    }

    fn in_memory(memory: Memory) -> Result<Self> {
        let (info, meta) = header(in_memory(&memory, Path::new(IN_MEMORY))?, &[Content::Table])?;
        Ok(Self { source: Source::Memory(memory), info, meta })
    }

    fn in_file(path: &Path, pickled: Option<(&str, u64)>) -> Result<Self> {
        let (fingerprint, file) = Fingerprint::open(path, pickled)?;
        let opened = Opened::new(BufReader::new(file), fingerprint.bytes, path)?;
        let (info, meta) = header(opened, &[Content::Table])?;
        Ok(Self { source: Source::File(fingerprint), info, meta })
    }

    /// The digest of its file.
    pub(crate) fn digest(&self) -> Result<[u8; 32]> {
        self.source.digest()
    }

    /// What reads ciphertexts of the table, which is under the parameters.
    pub(crate) fn reader(
        &self,
    ) -> impl FnOnce(&Params, Range<usize>) -> Result<Vec<Ciphertext>> + Send + use<> {
        let path = self.source.name().to_owned();
        let (open, bytes, note) = (self.source.opener(), self.info.bytes, self.meta.note);
        move |params, numbers| {
            let table = Opened::new(open()?, bytes, &path)?.into_stored(params, note)?;
            Ok(table.read(numbers)?)
        }
    }
}

/// What makes a server ready to compute with tables.
pub(crate) fn session(
    tables: &[&Table],
    keys: &EvaluationKeys,
) -> Result<impl FnOnce() -> Result<Session<Input>> + Send + use<>> {
    let digests = tables.iter().map(|table| table.digest()).collect::<Result<_>>()?;
    let origin = Origin::new(keys.digest()?, digests);
    let sources = tables
        .iter()
        .map(|table| (table.source.name().to_owned(), table.source.opener(), table.info.bytes));
    let sources: Vec<_> = sources.collect();
    let (set, watch, keys) = (keys.set.clone(), keys.watch.clone(), Arc::clone(&keys.keys));
    Ok(move || {
        let sources = sources.into_iter();
        let tables = sources.map(|(path, open, bytes)| Ok(Opened::new(open()?, bytes, &path)?));
        let tables = tables.collect::<Result<_>>()?;
        let id = keys.id();
        let read = || Ok((keys, watch));
        Ok(Session::new(tables, &set.params, &set.label, id, origin, read)?)
    })
}

/// A model that rows are scored by.
#[derive(FromPyObject)]
enum AnyModel<'py> {
    Encrypted(PyRef<'py, TableResult>),
    /// As JSON.
    Plain(String),
}

/// Reads a model that suits rows and their plan.
type ReadModel = dyn FnOnce(&Session<Input>, &ScorePlan) -> Result<scoring::AnyModel> + Send;

/// What the header of a file of ciphertexts says.
fn header<R: Read>(file: Opened<R>, contents: &[Content]) -> Result<(Info, Meta)> {
    let file = file.expect(Kind::Ciphertexts)?;
    let (_, meta) = file.meta(contents)?;
    Ok((file.info().clone(), meta))
}

/// A file in memory, which messages call `path`.
pub(crate) fn in_memory(memory: &Memory, path: &Path) -> Result<Opened<Cursor<Mapping>>> {
    let bytes = memory.mapping();
    let length = bytes.len() as u64;
    Ok(Opened::new(Cursor::new(bytes), length, path)?)
}

/// The file of a result with the note of its table.
pub(crate) fn result_bytes(
    session: &Session<Input>,
    result: Vec<Ciphertext>,
    meta: &Meta,
    content: Content,
) -> Result<Vec<u8>> {
    file_bytes(session, &session.with_note(result), meta, content)
}

/// The file of a result.
fn file_bytes(
    session: &Session<Input>,
    items: &[Ciphertext],
    meta: &Meta,
    content: Content,
) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    session.write_to(&mut bytes, Path::new(IN_MEMORY), items, meta, content)?;
    Ok(bytes)
}

/// What was computed from an encrypted table, encrypted as well.
#[pyclass(frozen, name = "Result", module = "sudare._native")]
pub struct TableResult {
    file: Memory,
    info: Info,
    meta: Meta,
    content: Content,
}

#[pymethods]
impl TableResult {
    /// The result in the file at `path`.
    #[staticmethod]
    fn open(py: Python<'_>, path: PathBuf) -> Result<Self> {
        Self::new(Memory::read(py, path.clone())?, &path)
    }

    /// The result that `to_bytes` gave.
    #[staticmethod]
    fn from_bytes(data: &Bound<'_, PyAny>) -> Result<Self> {
        Self::new(Memory::from_python(data)?, Path::new(IN_MEMORY))
    }

    /// The result as the bytes of its file.
    fn to_bytes(&self, py: Python<'_>) -> Py<PyBytes> {
        self.file.to_bytes(py)
    }

    /// Writes the result to a file.
    #[pyo3(signature = (path, *, overwrite=false))]
    fn save(&self, py: Python<'_>, path: PathBuf, overwrite: bool) -> Result<()> {
        let mut input = Cursor::new(self.file.mapping());
        save(py, path, Access::Shared, overwrite, move |file| Ok(io::copy(&mut input, file)?))
    }

    /// The job of the table, as `sudare info` has it.
    #[getter]
    fn job(&self) -> String {
        self.meta.job.to_string()
    }

    /// `model`, `statistics` or `scores`.
    #[getter]
    fn content(&self) -> &'static str {
        self.content.name()
    }

    /// Iterations of a training.
    #[getter]
    fn iterations(&self) -> u32 {
        self.meta.iterations
    }

    /// The key pair, in hexadecimal.
    #[getter]
    fn key_id(&self) -> String {
        self.info.key_id.to_string()
    }

    /// Bytes of its file.
    #[getter]
    fn nbytes(&self) -> u64 {
        self.info.bytes
    }

    /// The values, for the owner of the key alone; with a number of bits as others may see them.
    #[pyo3(signature = (key, share_bits=None))]
    fn decrypt(
        &self,
        py: Python<'_>,
        key: &SecretKey,
        share_bits: Option<u32>,
    ) -> Result<Decrypted> {
        // How large errors can be follows from the job, which the server could have changed.
        let job = Meta::read(&key.set.label).map(|(_, meta)| meta.job);
        if !job.is_some_and(|job| job.serves(&self.meta.job)) {
            let job = job.map_or("programs on arrays".into(), |job| job.to_string());
            let found = format!("a result of {} and a secret key for {job}", self.meta.job);
            return Err(other_job(&found, "the key that its table was encrypted with"));
        }
        let result = in_memory(&self.file, Path::new(IN_MEMORY))?;
        if share_bits.is_some() {
            key.warn_of_new_ledger(py)?;
        }
        let (set, ledger, key) = (key.set.clone(), key.ledger(), Arc::clone(&key.decryptor));
        job::run(py, None, move |_| {
            let (params, key) = (&set.params, &key);
            let share = share_bits.map(|bits| Share { bits, ledger: &ledger });
            let decrypted = decryption::Decrypted::read(result, params, key, share)?;
            Ok(Decrypted { values: decrypted, shared: share_bits.is_some() })
        })
    }

    fn __reduce_ex__<'py>(slf: &Bound<'py, Self>, protocol: i32) -> Result<Reduced<'py>> {
        Ok(slf.get().file.reduce(&slf.get_type(), protocol)?)
    }

    fn __repr__(&self) -> String {
        format!(
            "EncryptedResult({} of {}, key_id={})",
            self.content(),
            self.meta.job,
            self.info.key_id
        )
    }
}

impl TableResult {
    /// Of a file that messages call `path`.
    pub(crate) fn new(file: Memory, path: &Path) -> Result<Self> {
        let opened = in_memory(&file, path)?.expect(Kind::Ciphertexts)?;
        let (content, meta) = opened.meta(&Content::RESULTS)?;
        Ok(Self { info: opened.info().clone(), file, meta, content })
    }
}

/// A result in the clear, and what follows from it.
#[pyclass(frozen, module = "sudare._native")]
pub struct Decrypted {
    values: decryption::Decrypted,
    /// Whether others than the owner of the key may see it.
    shared: bool,
}

impl Decrypted {
    /// For the owner of the key alone.
    pub(crate) fn of(values: decryption::Decrypted) -> Self {
        Self { values, shared: false }
    }
}

#[pymethods]
impl Decrypted {
    /// The values, as `sudare decrypt --json` has them. What is undefined is None.
    fn values<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyAny>> {
        match &self.values {
            decryption::Decrypted::Model(trained) => to_python(py, &trained.model),
            decryption::Decrypted::Statistics { columns, statistics } => to_python(
                py,
                &NamedStatistics {
                    kind: "statistics",
                    columns: columns.clone(),
                    statistics: statistics.clone(),
                    weighted_mean: None,
                    least_squares: None,
                    t_test: None,
                },
            ),
            decryption::Decrypted::Groups { key, labels, columns, statistics } => to_python(
                py,
                &NamedGroups {
                    kind: "groups",
                    key: key.clone(),
                    labels: labels.clone(),
                    columns: columns.clone(),
                    statistics: statistics.clone(),
                    t_test: None,
                },
            ),
            decryption::Decrypted::Histograms { rows, columns, histograms } => {
                let kind = "histograms";
                let (rows, columns) = (*rows, columns);
                to_python(
                    py,
                    &json!({ "kind": kind, "rows": rows, "columns": columns, "histograms": histograms }),
                )
            }
            decryption::Decrypted::Scores { scores, classes, members } => {
                let Scores { scores, probabilities } = scores.clone();
                let members = members.as_deref();
                to_python(py, &NamedScores::new(scores, probabilities, classes, members)?)
            }
        }
    }

    /// Of a training: the model whose probabilities are right on the table that it was trained on,
    /// with the labels of that.
    fn calibrated<'py>(&self, py: Python<'py>, data: &Data) -> Result<Bound<'py, PyAny>> {
        let decryption::Decrypted::Model(trained) = &self.values else {
            return Err(other_job("another result", "that of a training"));
        };
        if self.shared {
            return Err(Engine::Usage(
                "a model that is calibrated tells more of its table than one that is shared may: \
                 leave out share_bits, or take its values"
                    .into(),
            )
            .into());
        }
        let model = job::detached(py, || Ok(trained.calibrated(&data.table)?))?;
        to_python(py, &model)
    }

    /// Of statistics: the means weighted by column `weights`.
    fn weighted_mean(&self, weights: usize) -> Result<Vec<f64>> {
        Ok(self.statistics()?.1.weighted_mean(weights).map_err(Engine::from)?)
    }

    /// Of statistics: the linear model of column `target` on all others.
    fn least_squares<'py>(&self, py: Python<'py>, target: usize) -> Result<Bound<'py, PyAny>> {
        let (columns, statistics) = self.statistics()?;
        let fit = statistics.least_squares(target).map_err(Engine::from)?;
        to_python(py, &NamedLeastSquares::new(fit, columns))
    }

    /// Welch's test: of statistics between columns `a` and `b`, as a list of one; of groups between
    /// groups `a` and `b`, of each column, None where there is none.
    fn t_test<'py>(&self, py: Python<'py>, a: usize, b: usize) -> Result<Bound<'py, PyAny>> {
        let tests = || -> core::result::Result<Vec<Option<TTest>>, StatsError> {
            match &self.values {
                decryption::Decrypted::Groups { columns, statistics, .. } => {
                    let test = |j| {
                        let (a, b) = (statistics.sample(a, j)?, statistics.sample(b, j)?);
                        Ok(TTest::welch(&a, &b).ok())
                    };
                    (0..columns.len()).map(test).collect()
                }
                decryption::Decrypted::Statistics { statistics, .. } => {
                    let (a, b) = (statistics.sample(a)?, statistics.sample(b)?);
                    Ok(vec![Some(TTest::welch(&a, &b)?)])
                }
                _ => Ok(Vec::new()),
            }
        };
        to_python(py, &tests().map_err(Engine::from)?)
    }

    /// Of histograms: of each column, below which values these parts of all lie.
    fn quantiles(&self, probabilities: Vec<f64>) -> Result<Vec<Vec<f64>>> {
        let decryption::Decrypted::Histograms { histograms, .. } = &self.values else {
            return Err(other_job("another result", "that of histograms"));
        };
        let of_column = |histogram: &stats::Histogram| {
            probabilities
                .iter()
                .map(|&p| Ok(histogram.quantile(p).map_err(Engine::from)?))
                .collect()
        };
        histograms.iter().map(of_column).collect()
    }
}

impl Decrypted {
    fn statistics(&self) -> Result<(&[String], &stats::Statistics)> {
        match &self.values {
            decryption::Decrypted::Statistics { columns, statistics } => Ok((columns, statistics)),
            _ => Err(other_job("another result", "that of statistics")),
        }
    }
}

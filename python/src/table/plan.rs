//! Planned jobs on tables, and their costs.

use super::{Table, TableResult, model_from, other_job};
use crate::{
    data::{Data, choice, from_json, to_json},
    error::Result,
    job::{self, Progress},
    keys::{AnyKey, EncryptionKey},
    plan::{AUTO, Parameters, ProgramReport, Report},
    source::{IN_MEMORY, Memory},
};
use pyo3::prelude::*;
use std::{
    io::Write,
    path::{Path, PathBuf},
    sync::Arc,
};
use sudare::{
    circuits::ckks::cost::{Rates, Work},
    ckks::Params,
};
use sudare_apps::{
    logreg::{
        self, ClassWeights, LearningRate, Penalty, Preparation, Prepared, Probability, ScoreJob,
        ScoredModel, SigmoidApprox, SigmoidDegree, TrainPlan, TrainSpec,
    },
    stats::{self, Cost, Edges, GroupJob, HistogramJob},
};
use sudare_arith::prng::Seed;
use sudare_roles::{
    clear::{features::Inputs, reading::Reading},
    error::Error as Engine,
    format::label::{Content, Meta},
    job::{Job, Plan},
    owner::encryption::Encryption,
};
use sudare_table::{Categorical, EncodingOptions};

/// Approximate number of row ciphertexts that a training computes with at a time.
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
    /// Plans moments, covariances and correlations of columns.
    #[staticmethod]
    #[pyo3(signature = (rows, features, *, share_bits=None, insecure_log_n=None))]
    fn statistics(
        py: Python<'_>,
        rows: usize,
        features: usize,
        share_bits: Option<u32>,
        insecure_log_n: Option<u32>,
    ) -> Result<Self> {
        let precision = Precision::of(share_bits, false)?;
        Self::smallest(py, Job::Stats(stats::Job { rows, features }), precision, insecure_log_n)
    }

    /// Plans sums of columns by groups of rows.
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
            Precision::of(share_bits, false)?,
            insecure_log_n,
        )
    }

    /// Plans counts of the values of columns in bins. With `exact`, they are exact for any number of rows.
    #[staticmethod]
    #[pyo3(signature = (
        rows, features, bins, *, share_bits=None, exact=false, insecure_log_n=None
    ))]
    fn histogram(
        py: Python<'_>,
        rows: usize,
        features: usize,
        bins: usize,
        share_bits: Option<u32>,
        exact: bool,
        insecure_log_n: Option<u32>,
    ) -> Result<Self> {
        Self::smallest(
            py,
            Job::Histogram(HistogramJob { rows, features, bins }),
            Precision::of(share_bits, exact)?,
            insecure_log_n,
        )
    }

    /// Plans a logistic regression. Options that you leave out follow from the shape of the table:
    /// see `TrainSpec::recommended`. With `like`, the range of the sigmoid follows from that table,
    /// whose classes weigh `weights`.
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
        // Decided first: the default step sizes depend on batches.
        let batch = batch_size.or(usual.batch);
        let mut sigmoid = usual.sigmoid;
        sigmoid.range = sigmoid_range.unwrap_or(sigmoid.range);
        if let Some(degree) = sigmoid_degree {
            sigmoid.degree = SigmoidDegree::try_from(degree).map_err(Engine::from)?;
        }
        if tables > 1 && sigmoid_range.is_none() {
            // No owner can see the inner products of all rows, so the range cannot follow from them.
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
        // Columns that are only scaled keep the range of the papers, so there is nothing to fit.
        let like = like.filter(|_| sigmoid_range.is_none() && preparation != Preparation::Scale);
        let spec = match like.cloned() {
            Some(like) => job::run(py, None, move |_| fitting(spec, &like, weights.as_deref()))?,
            None => spec,
        };
        let job = Job::Train(logreg::Job { rows, features, spec });
        Self::smallest(py, job, Precision::Usual, insecure_log_n)
    }

    /// Plans scores of rows by a model from elsewhere. With `probability_bits`, the server also computes
    /// probabilities to that precision, for scores up to `sigmoid_range`. With `share_bits`, scores up to
    /// `score_range` can be shared to that precision.
    #[staticmethod]
    #[pyo3(signature = (
        rows, features, *, classes=2, probability_bits=None, sigmoid_range=None, share_bits=None,
        score_range=None, insecure_log_n=None
    ))]
    #[expect(clippy::too_many_arguments, reason = "by name, from Python")]
    fn predict(
        py: Python<'_>,
        rows: usize,
        features: usize,
        classes: u32,
        probability_bits: Option<u32>,
        sigmoid_range: Option<f64>,
        share_bits: Option<u32>,
        score_range: Option<f64>,
        insecure_log_n: Option<u32>,
    ) -> Result<Self> {
        let model = match score_range {
            Some(range) => ScoredModel::Shared { features, classes, range },
            None => {
                let range = sigmoid_range.unwrap_or(SigmoidApprox::default().range);
                let probability = probability_bits.map(|bits| Probability { range, bits });
                ScoredModel::Given { features, classes, probability }
            }
        };
        let precision = Precision::of(share_bits, false)?;
        Self::smallest(py, Job::Predict(ScoreJob { rows, model }), precision, insecure_log_n)
    }

    /// Plans scores of rows under existing keys for scores, or for a training whose model can score.
    #[staticmethod]
    fn scoring(py: Python<'_>, key: AnyKey<'_>, rows: usize) -> Result<Self> {
        let plan = Self::of(py, key)?;
        let job = plan.job.scoring(rows)?;
        job::run(py, None, move |_| Self::new(plan.set, job))
    }

    /// Returns the plan of existing keys.
    #[staticmethod]
    fn of(py: Python<'_>, key: AnyKey<'_>) -> Result<Self> {
        let set = key.identity().set.clone();
        let Some((_, Meta { job, .. })) = Meta::read(&set.label) else {
            return Err(other_job("keys for programs on arrays", "a key for a job on a table"));
        };
        job::run(py, None, move |_| Self::new(set, job))
    }

    #[getter]
    fn parameters(&self) -> Parameters {
        self.set.clone()
    }

    /// The job, as `sudare info` shows it.
    #[getter]
    fn job(&self) -> String {
        self.job.to_string()
    }

    /// `train`, `stats`, `groups`, `histogram` or `predict`.
    #[getter]
    fn kind(&self) -> &'static str {
        self.job.kind()
    }

    /// Maximum number of rows of the table.
    #[getter]
    fn rows(&self) -> Result<usize> {
        Ok(self.job.shape()?.0)
    }

    /// The number of columns, without target or key column.
    #[getter]
    fn features(&self) -> Result<usize> {
        Ok(self.job.shape()?.1)
    }

    /// The number of ciphertexts of the table.
    #[getter]
    fn blocks(&self) -> usize {
        self.plan.ciphertexts()
    }

    /// Half the interval of the polynomial in place of the sigmoid, of a training.
    #[getter]
    fn sigmoid_range(&self) -> Option<f64> {
        self.job.training().map(|spec| spec.sigmoid.range)
    }

    /// Returns sizes, security and time.
    fn report(&self, py: Python<'_>) -> Result<Report> {
        let set = self.set.clone();
        let job = self.job;
        let plan = Arc::clone(&self.plan);
        job::run(py, None, move |_| Self { set, job, plan }.measured())
    }

    /// Encrypts a table. Column `by` tells groups of rows apart. `edges` are the edges of bins, for all
    /// columns or for each: "equal", "quantile", "log" or numbers. The seed `order` decides the order of
    /// rows in batches. `class_weights` are the weights of rows by class, for a plan with given weights.
    /// With `path`, the table goes to that file and not into memory.
    #[pyo3(signature = (
        key, data, *, by=None, edges=None, order=None, class_weights=None, path=None,
        overwrite=false, progress=None
    ))]
    #[expect(clippy::too_many_arguments, reason = "by name, from Python")]
    fn encrypt(
        &self,
        py: Python<'_>,
        key: EncryptionKey<'_>,
        data: &Data,
        by: Option<String>,
        edges: Option<Vec<ColumnEdges>>,
        order: Option<[u8; 32]>,
        class_weights: Option<Vec<f64>>,
        path: Option<PathBuf>,
        overwrite: bool,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> Result<Table> {
        self.check_key(key.what(), key.set())?;
        expect_given(&self.job, "by", by.is_some(), matches!(self.job, Job::Groups(_)))?;
        // Histograms have default edges, so theirs may be missing.
        if !matches!(self.job, Job::Histogram(_)) {
            expect_given(&self.job, "edges", edges.is_some(), false)?;
        }
        let edges = edges.unwrap_or_else(|| vec![ColumnEdges::Named("equal".into())]);
        let edges = edges.into_iter().map(ColumnEdges::read).collect::<Result<Vec<_>>>()?;
        let job = self.job;
        let set = self.set.clone();
        let key = key.key();
        let data = data.clone();
        let order = order.map(Seed::from_bytes);
        let encrypt = move |progress: &Progress, out: &mut dyn Write, path: &Path| -> Result<()> {
            let encryption = Encryption::new(job, &set.params, &set.label.name, key)?;
            let encryption = encryption.with_order(order).with_class_weights(class_weights);
            progress.start("encrypting", encryption.plan().ciphertexts());
            let subject = data.subject(by.as_deref(), edges)?;
            encryption.write(out, path, subject, |done| progress.set(done))?;
            Ok(())
        };
        Table::written(py, path, overwrite, progress, encrypt)
    }

    /// Encrypts rows to be scored, with their classes if they are known. `features` describes the features
    /// of the model as JSON. The other arguments are as for `encrypt`.
    #[pyo3(signature = (key, data, features, *, path=None, overwrite=false, progress=None))]
    #[expect(clippy::too_many_arguments, reason = "by name, from Python")]
    fn encrypt_rows(
        &self,
        py: Python<'_>,
        key: EncryptionKey<'_>,
        data: &Data,
        features: &str,
        path: Option<PathBuf>,
        overwrite: bool,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> Result<Table> {
        self.check_key(key.what(), key.set())?;
        let inputs: Inputs = from_json(features)?;
        let job = self.job;
        let set = self.set.clone();
        let key = key.key();
        let table = Arc::clone(&data.table);
        let encrypt = move |progress: &Progress, out: &mut dyn Write, path: &Path| -> Result<()> {
            let encryption = Encryption::new(job, &set.params, &set.label.name, key)?;
            progress.start("encrypting", encryption.plan().ciphertexts());
            encryption.write_rows(out, path, &table, &inputs, |done| progress.set(done))?;
            Ok(())
        };
        Table::written(py, path, overwrite, progress, encrypt)
    }

    /// Returns, as JSON, the features of a model trained on a table, for rows to be scored under keys of
    /// this plan. `class_weights` are as for `encrypt`.
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
            to_json(&Inputs::of(&data.table, encoding, self.job.trained(), weights)?)
        })
    }

    /// Reads features from the file of a model or, with another name, of the table that a model was trained on.
    #[pyo3(signature = (path, *, target=None, class_weights=None))]
    fn read_features(
        &self,
        py: Python<'_>,
        path: PathBuf,
        target: Option<&str>,
        class_weights: Option<Vec<f64>>,
    ) -> Result<String> {
        let categorical = Categorical::Detect(Vec::new());
        let encoding = EncodingOptions { categorical, ..EncodingOptions::default() };
        let reading = Reading { encoding, ..Reading::default() };
        let labels = (target, class_weights.as_deref());
        job::detached(py, || to_json(&Inputs::read(&path, self.job.trained(), labels, &reading)?))
    }

    /// Encrypts a model (JSON) that scores rows.
    fn encrypt_model(
        &self,
        py: Python<'_>,
        key: EncryptionKey<'_>,
        model: &str,
    ) -> Result<TableResult> {
        self.check_key(key.what(), key.set())?;
        let model = model_from(model)?;
        let job = self.job;
        let set = self.set.clone();
        let key = key.key();
        let bytes = job::run(py, None, move |_| {
            let mut bytes = Vec::new();
            let encryption = Encryption::new(job, &set.params, &set.label.name, key)?;
            encryption.write_model(&mut bytes, Path::new(IN_MEMORY), &model)?;
            Ok(bytes)
        })?;
        TableResult::new(Memory::new(py, bytes), Path::new(IN_MEMORY))
    }
}

/// Edges of bins, as Python passes them.
#[derive(FromPyObject)]
enum ColumnEdges {
    Named(String),
    Given(Vec<f64>),
}

impl ColumnEdges {
    fn read(self) -> Result<Edges> {
        match self {
            Self::Given(edges) => Ok(Edges::Given(edges)),
            Self::Named(name) => match &name[..] {
                "equal" => Ok(Edges::Equal),
                "quantile" => Ok(Edges::Quantiles),
                "log" => Ok(Edges::Logarithmic),
                found => Err(choice("edges", found, "equal, quantile, log or numbers")),
            },
        }
    }
}

/// The precision of parameters.
#[derive(Clone, Copy)]
enum Precision {
    /// The precision of the job.
    Usual,
    /// Precise enough for exact results.
    Exact,
    /// Precise enough to share results to this number of bits.
    Shared(u32),
}

impl Precision {
    fn of(share_bits: Option<u32>, exact: bool) -> Result<Self> {
        match (share_bits, exact) {
            (None, false) => Ok(Self::Usual),
            (None, true) => Ok(Self::Exact),
            (Some(bits), false) => Ok(Self::Shared(bits)),
            (Some(_), true) => Err(Engine::Usage(
                "shared results have noise and are not exact: leave out exact or share_bits".into(),
            )
            .into()),
        }
    }
}

/// Returns the requested step sizes. By default, steps on batches of prepared columns get smaller.
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

/// Returns the requested penalty. `alpha` 0 disables it, and so does an infinite `c`, as in scikit-learn.
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

/// Returns the training with a sigmoid that covers the inner products of a table.
fn fitting(spec: TrainSpec, like: &Data, weights: Option<&[f64]>) -> Result<TrainSpec> {
    let table = &*like.table;
    table.check_for_training().map_err(Engine::from)?;
    let rows = Prepared::new(table, &spec, table.rows(), weights).map_err(Engine::from)?;
    Ok(spec.with_fitting_range(&rows).map_err(Engine::from)?)
}

impl TablePlan {
    /// Reports sizes, security and the work of the server.
    fn measured(&self) -> Result<Report> {
        match &*self.plan {
            Plan::Train(plan) => self.training(plan),
            Plan::Predict(_) => Report::new(&self.set, self.plan.required_keys(), None),
            Plan::Statistics(plan) => {
                let Cost { depth, input_bytes, output_bytes, work } = plan.cost()?;
                self.report_with(depth, input_bytes, 2 * (input_bytes + output_bytes), &work)
            }
        }
    }

    fn training(&self, plan: &TrainPlan) -> Result<Report> {
        let params = &self.set.params;
        // Two polynomials of eight bytes a residue.
        let bytes = |level| 16 * (params.rlwe().limbs(level).q() << params.log_n()) as u64;
        let (level, _) = plan.input(0);
        let batch_bytes = plan.batch(0).len() as u64 * bytes(level);
        let input_bytes = plan.shapes().map(|shape| bytes(shape.level)).sum();
        // The rows of two batches, since the next one is loaded meanwhile, and working copies of some.
        let held_bytes = (2 * batch_bytes).min(input_bytes)
            + 2 * batch_bytes.min(CIPHERTEXTS_AT_WORK * bytes(level));
        let work = plan.work().map_err(Engine::from)?;
        let mut report = self.report_with(level.0, input_bytes, held_bytes, &work)?;
        // The set's own way is for arrays. A training plans its bootstrapping itself.
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
        let params = &self.set.params;
        let request = self.plan.required_keys();
        let program = ProgramReport {
            depth,
            bootstraps: self.plan.bootstraps().into(),
            missing_keys: false,
            input_bytes,
            peak_memory_bytes: request.bytes(params.rlwe())? + held_bytes,
            seconds: work.seconds(&Rates::reference(params.log_n())),
            inputs: Vec::new(),
            outputs: Vec::new(),
        };
        Report::new(&self.set, request, Some(program))
    }

    /// Plans a job in the smallest secure ring with this precision. With `insecure_log_n`, the ring has
    /// that size and no security.
    fn smallest(
        py: Python<'_>,
        job: Job,
        precision: Precision,
        insecure_log_n: Option<u32>,
    ) -> Result<Self> {
        job::run(py, None, move |_| {
            let mut params = match precision {
                Precision::Usual => job.auto_params()?,
                Precision::Exact => job.exact_params()?,
                Precision::Shared(bits) => job.shared_params(bits)?,
            };
            if let Some(log_n) = insecure_log_n {
                let mut spec = params.spec().clone();
                (spec.log_n, spec.insecure) = (log_n, true);
                params = Params::new(spec)?;
            }
            let label = Meta::of(job).label(AUTO, Content::Keys)?;
            let planned = Self::new(Parameters::new(params, label)?, job)?;
            // With `insecure_log_n` the ring differs from the one that the precision was planned
            // for.
            if let Precision::Shared(bits) = precision {
                planned.plan.expect_shared(bits)?;
            }
            Ok(planned)
        })
    }

    fn new(set: Parameters, job: Job) -> Result<Self> {
        let plan = Arc::new(job.plan(&set.params)?);
        Ok(Self { set, job, plan })
    }

    /// Refuses keys of another job or of other parameters.
    pub(crate) fn check_key(&self, what: &'static str, set: &Parameters) -> Result<()> {
        // The job before the parameters: two jobs can share parameters, and the job names the
        // mistake better.
        let job = Meta::read(&set.label).map(|(_, meta)| meta.job);
        if !job.is_some_and(|job| job.serves(&self.job)) {
            let job = job.map_or("programs on arrays".into(), |job| job.to_string());
            let found = format!("{what} for {job}");
            let needed = format!("one for {}", self.job);
            return Err(other_job(&found, &needed));
        }
        let found = set.params.rlwe().id();
        let expected = self.set.params.rlwe().id();
        if found != expected {
            return Err(sudare::Error::ParamsMismatch { what, found, expected }.into());
        }
        Ok(())
    }
}

fn expect_given(job: &Job, name: &str, given: bool, needed: bool) -> Result<()> {
    if given == needed {
        return Ok(());
    }
    let advice = if needed { "is missing: pass it" } else { "is not used: leave it out" };
    Err(Engine::Usage(format!("{name} {advice} (the plan is for {job})")).into())
}

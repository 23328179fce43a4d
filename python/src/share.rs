//! A training that several processes share: the messages between them, and the work of each.

use crate::{
    error::Result,
    job,
    keys::{self, EvaluationKeys},
    plan::Parameters,
    source::{IN_MEMORY, Memory, Reduced},
    table::{Table, in_memory, other_job},
};
use core::ops::Range;
use pyo3::{prelude::*, types::PyBytes};
use std::{path::Path, sync::Arc};
use sudare::ckks::{
    Ciphertext, Evaluator,
    serial::{self, Info, Kind, Reader},
};
use sudare_apps::logreg::{Gradient, Gradients, Point, TrainPlan};
use sudare_arith::mem::Mapping;
use sudare_roles::{
    error::Error as Engine,
    format::label::{self, Holds, PartMeta},
    job::{Job, Plan},
    os::files::Watch,
};

/// Ciphertexts of a training on their way between processes, as the bytes of a file.
#[pyclass(frozen, module = "sudare._native")]
pub struct Part {
    file: Memory,
    info: Info,
    meta: PartMeta,
}

#[pymethods]
impl Part {
    #[staticmethod]
    fn from_bytes(data: &Bound<'_, PyAny>) -> Result<Self> {
        Self::new(Memory::from_python(data)?)
    }

    fn to_bytes(&self, py: Python<'_>) -> Py<PyBytes> {
        self.file.to_bytes(py)
    }

    /// `rows`, `point` or `gradient`.
    #[getter]
    fn holds(&self) -> &'static str {
        self.meta.holds.name()
    }

    /// The number of ciphertexts.
    #[getter]
    fn blocks(&self) -> u64 {
        self.info.count
    }

    /// Size of the file in bytes.
    #[getter]
    fn nbytes(&self) -> u64 {
        self.info.bytes
    }

    fn __reduce_ex__<'py>(slf: &Bound<'py, Self>, protocol: i32) -> Result<Reduced<'py>> {
        Ok(slf.get().file.reduce(&slf.get_type(), protocol)?)
    }
}

impl Part {
    pub(crate) fn new(file: Memory) -> Result<Self> {
        let opened = in_memory(&file, Path::new(IN_MEMORY))?.expect(Kind::Ciphertexts)?;
        let info = opened.info().clone();
        let Some(meta) = PartMeta::read(&info.label)? else {
            let found = format!("a file that holds {:?}", info.label.content);
            return Err(other_job(&found, PartMeta::CONTENT));
        };
        Ok(Self { file, info, meta })
    }
}

/// A part without Python objects, for work without the interpreter lock.
pub(crate) struct DetachedPart {
    meta: PartMeta,
    file: Mapping,
}

impl DetachedPart {
    pub(crate) fn new(part: &Part) -> Self {
        Self { meta: part.meta.clone(), file: part.file.mapping() }
    }
}

/// The source of a worker's rows.
#[derive(FromPyObject)]
pub enum Rows<'py> {
    Table(PyRef<'py, Table>),
    Part(PyRef<'py, Part>),
}

/// Computes parts of gradients, with the evaluation keys of a training.
#[pyclass(frozen, module = "sudare._native")]
#[derive(Clone)]
pub struct Worker {
    set: Parameters,
    job: Job,
    pub(crate) plan: Arc<TrainPlan>,
    evaluator: Arc<Evaluator>,
    /// The watched file, if the keys are mapped from one.
    watch: Option<Arc<Watch>>,
}

#[pymethods]
impl Worker {
    /// Makes a worker with these keys.
    #[new]
    fn open(py: Python<'_>, keys: &EvaluationKeys) -> Result<Self> {
        let set = keys.set.clone();
        let watch = keys.watch.clone();
        let keys = Arc::clone(&keys.keys);
        job::run(py, None, move |_| {
            let found = || format!("keys for {}", set.label.content);
            let meta = label::Meta::read(&set.label).map(|(_, meta)| meta);
            let job = meta.ok_or_else(|| other_job(&found(), "keys for a training"))?.job;
            let Plan::Train(plan) = job.plan(&set.params)? else {
                return Err(other_job(&format!("keys for {job}"), "keys for a training"));
            };
            let evaluator = Evaluator::new(&set.params, keys)?;
            Ok(Self::new(set, job, Arc::new(*plan), Arc::new(evaluator), watch))
        })
    }

    /// Computes the part of a gradient at `point` from ciphertexts `start..stop` of a table.
    fn gradient(
        &self,
        py: Python<'_>,
        point: &Part,
        start: usize,
        stop: usize,
        rows: Rows<'_>,
    ) -> Result<Part> {
        let worker = self.for_groups(point.meta.groups)?;
        let share = start..stop;
        // Tables and parts are Python objects, which work without the interpreter lock cannot
        // touch.
        let read: Box<dyn FnOnce() -> Result<Vec<Ciphertext>> + Send> = match rows {
            Rows::Table(table) => {
                if table.meta.job != self.job {
                    let found = format!("a table that was encrypted for {}", table.meta.job);
                    return Err(other_job(&found, &format!("a table for {}", self.job)));
                }
                let read = table.reader();
                let set = self.set.clone();
                let share = share.clone();
                Box::new(move || read(&set.params, share))
            }
            Rows::Part(part) => {
                let part = DetachedPart::new(&part);
                let worker = worker.clone();
                let share = share.clone();
                Box::new(move || worker.rows(part, &share))
            }
        };
        let point = DetachedPart::new(point);
        let bytes = job::run(py, None, move |_| {
            let point = worker.read_point(point)?;
            let rows = read()?;
            // Mapped keys could change before the work or during it. Either makes the part wrong.
            keys::check(worker.watch.as_deref())?;
            let gradient = worker.gradients()?.part(&point, share, &rows).map_err(Engine::from)?;
            keys::check(worker.watch.as_deref())?;
            worker.write_gradient(&gradient)
        })?;
        Part::new(Memory::new(py, bytes))
    }

    /// Returns the sum of parts of one gradient.
    fn sum(&self, py: Python<'_>, parts: Vec<PyRef<'_, Part>>) -> Result<Part> {
        let groups = parts.first().map_or(self.plan.groups(), |part| part.meta.groups);
        let worker = self.for_groups(groups)?;
        let parts: Vec<DetachedPart> = parts.iter().map(|part| DetachedPart::new(part)).collect();
        let bytes = job::run(py, None, move |_| {
            let parts = parts.into_iter().map(|part| worker.read_gradient(part));
            let parts = parts.collect::<Result<Vec<_>>>()?;
            worker.write_gradient(&worker.gradients()?.sum(&parts).map_err(Engine::from)?)
        })?;
        Part::new(Memory::new(py, bytes))
    }
}

impl Worker {
    /// Makes a worker of a job. The parameters have the label of the job's keys.
    pub(crate) fn new(
        set: Parameters,
        job: Job,
        plan: Arc<TrainPlan>,
        evaluator: Arc<Evaluator>,
        watch: Option<Arc<Watch>>,
    ) -> Self {
        Self { set, job, plan, evaluator, watch }
    }

    /// Returns the same worker for tables with `groups` groups of rows.
    fn for_groups(&self, groups: usize) -> Result<Self> {
        // The usual case, which spares planning the training again.
        if groups == self.plan.groups() {
            return Ok(self.clone());
        }
        let plan = self.plan.for_groups(groups).map_err(Engine::from)?;
        Ok(Self { plan: Arc::new(plan), ..self.clone() })
    }

    fn gradients(&self) -> Result<Gradients<'static, Evaluator>> {
        let gradients = Gradients::shared(Arc::clone(&self.plan), Arc::clone(&self.evaluator));
        Ok(gradients.map_err(Engine::from)?)
    }

    /// Writes rows for a worker.
    pub(crate) fn write_rows(&self, share: Range<usize>, rows: &[Ciphertext]) -> Result<Vec<u8>> {
        self.write(Holds::Rows, 0, vec![share], rows)
    }

    /// Writes the point of a gradient.
    pub(crate) fn write_point(&self, point: &Point) -> Result<Vec<u8>> {
        self.write(Holds::Point, point.iteration, Vec::new(), &point.v)
    }

    fn write_gradient(&self, gradient: &Gradient) -> Result<Vec<u8>> {
        let shares = gradient.shares.clone();
        self.write(Holds::Gradient, gradient.iteration, shares, &gradient.sums)
    }

    fn write(
        &self,
        holds: Holds,
        iteration: u32,
        shares: Vec<Range<usize>>,
        items: &[Ciphertext],
    ) -> Result<Vec<u8>> {
        let job = self.job;
        let groups = self.plan.groups();
        let meta = PartMeta { job, holds, groups, iteration, shares };
        let label = meta.label(&self.set.label.name)?;
        let mut bytes = Vec::new();
        serial::write_ciphertexts(&mut bytes, &self.set.params, items, &label)?;
        Ok(bytes)
    }

    fn rows(&self, part: DetachedPart, share: &Range<usize>) -> Result<Vec<Ciphertext>> {
        let found = part.meta.shares.clone();
        // Rows of another share would count under this share's numbers, and its own would be missing.
        if found != [share.clone()] {
            let found = format!("rows of ciphertexts {found:?}");
            return Err(other_job(&found, &format!("rows of {share:?}")));
        }
        self.read(part, Holds::Rows)
    }

    fn read_point(&self, part: DetachedPart) -> Result<Point> {
        let iteration = part.meta.iteration;
        Ok(Point { iteration, v: self.read(part, Holds::Point)? })
    }

    /// Reads a part of a gradient.
    pub(crate) fn read_gradient(&self, part: DetachedPart) -> Result<Gradient> {
        let iteration = part.meta.iteration;
        let shares = part.meta.shares.clone();
        Ok(Gradient { iteration, shares, sums: self.read(part, Holds::Gradient)? })
    }

    fn read(&self, part: DetachedPart, needed: Holds) -> Result<Vec<Ciphertext>> {
        let found = &part.meta;
        let groups = self.plan.groups();
        // A part of another training is a valid file, too, and its sum would be wrong without an
        // error.
        if (found.holds, found.job, found.groups) != (needed, self.job, groups) {
            let what = |job: &Job, holds: Holds, groups: usize| {
                format!("a part of {job} in {groups} groups of rows with its {}", holds.name())
            };
            let found = what(&found.job, found.holds, found.groups);
            return Err(other_job(&found, &what(&self.job, needed, groups)));
        }
        Ok(Reader::shared(part.file)?.ciphertexts(&self.set.params)?)
    }
}

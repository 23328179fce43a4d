//! Programs that are recorded, to plan them before anything is encrypted.

use crate::{
    array::{Array, Form, Operand},
    error::{Error, Result},
    job,
    lineage::{Ancestor, Lineage},
    op::{Op, PyOp, Value},
    plan::{Plan, plan_options},
};
use pyo3::prelude::*;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use sudare_apps::array::{self, ArrayError, PlainArray, Planned, SimulatedArray, Simulator};

/// A program, as its operations are recorded.
#[pyclass(frozen, module = "sudare._native")]
pub struct Trace(Arc<Mutex<Program>>);

/// An array of a traced program.
pub struct Traced {
    program: Arc<Mutex<Program>>,
    /// The place among all arrays of the program, the inputs first.
    place: usize,
    pub shape: Vec<usize>,
}

/// The recorded inputs and operations.
#[derive(Default, Clone)]
struct Program {
    inputs: Vec<Vec<usize>>,
    steps: Vec<(Op, Vec<Source>)>,
}

/// The source of an operand.
#[derive(Clone)]
enum Source {
    Array(usize),
    Plain(PlainArray),
}

impl Program {
    fn run(
        &self,
        engine: &Simulator,
        inputs: Vec<SimulatedArray>,
        outputs: &[usize],
    ) -> core::result::Result<Vec<SimulatedArray>, ArrayError> {
        let mut arrays: Vec<_> = inputs.into_iter().map(Value::Encrypted).collect();
        for (op, sources) in &self.steps {
            let plain = |source: &Source| match source {
                Source::Plain(plain) => Some(Value::Plain(plain.clone())),
                Source::Array(_) => None,
            };
            let plains: Vec<_> = sources.iter().map(plain).collect();
            let operands = sources.iter().zip(&plains).filter_map(|(source, plain)| match source {
                Source::Array(place) => arrays.get(*place),
                Source::Plain(_) => plain.as_ref(),
            });
            let result = op.apply(engine, &operands.collect::<Vec<_>>())?;
            arrays.push(Value::Encrypted(result));
        }
        let output = |&place: &usize| match arrays.get(place) {
            Some(Value::Encrypted(array)) => Some(array.clone()),
            _ => None,
        };
        Ok(outputs.iter().filter_map(output).collect())
    }
}

impl Program {
    /// Returns the lineages of the results.
    fn lineages(&self, outputs: &[usize]) -> Vec<Option<Lineage>> {
        let mut all: Vec<_> = self.inputs.iter().map(|shape| Some(Lineage::input(shape))).collect();
        for (op, sources) in &self.steps {
            let ancestors = sources.iter().map(|source| match source {
                Source::Array(place) => Ancestor::Array(all.get(*place).copied().flatten()),
                Source::Plain(PlainArray { shape, values }) => Ancestor::Plain { shape, values },
            });
            let lineage = Lineage::of(op, ancestors);
            all.push(lineage);
        }
        outputs.iter().map(|&place| all.get(place).copied().flatten()).collect()
    }
}

#[pymethods]
impl Trace {
    /// Begins a program with inputs of these shapes.
    #[new]
    fn new(shapes: Vec<Vec<usize>>) -> Self {
        Self(Arc::new(Mutex::new(Program { inputs: shapes, steps: Vec::new() })))
    }

    /// Returns the inputs.
    fn inputs(&self) -> Vec<Array> {
        let shapes = self.program().inputs.clone();
        shapes.into_iter().enumerate().map(|(place, shape)| self.array(place, shape)).collect()
    }

    /// Records an operation and returns its result.
    fn apply(&self, op: &PyOp, operands: Vec<Operand<'_>>) -> Result<Array> {
        let mut sources = Vec::with_capacity(operands.len());
        let mut shapes = Vec::with_capacity(operands.len());
        for operand in operands {
            match operand {
                Operand::Array(array) => {
                    let array = self.own(&array)?;
                    shapes.push(array.shape.clone());
                    sources.push(Source::Array(array.place));
                }
                Operand::Plain(numbers) => {
                    let plain = PlainArray::from(numbers);
                    shapes.push(plain.shape.clone());
                    sources.push(Source::Plain(plain));
                }
            }
        }
        let shapes: Vec<&[usize]> = shapes.iter().map(Vec::as_slice).collect();
        // A wrong shape fails here, at the line of the program, and not later while it is planned.
        let shape = op.0.shape(&shapes)?;
        let mut program = self.program();
        program.steps.push((op.0.clone(), sources));
        let place = program.inputs.len() + program.steps.len() - 1;
        drop(program);
        Ok(self.array(place, shape))
    }

    /// Plans the program with these results, in the smallest ring. With `bootstrap`, it bootstraps if no
    /// ring has the levels. With `share_bits`, results are precise enough to share them to that precision.
    /// With `assume_intervals`, arguments of functions are assumed to stay in their intervals. Inputs lie in
    /// `ranges`, where you give them.
    #[pyo3(signature = (outputs, *, bootstrap=false, share_bits=None, assume_intervals=false, ranges=Vec::new()))]
    fn plan(
        &self,
        py: Python<'_>,
        outputs: Vec<PyRef<'_, Array>>,
        bootstrap: bool,
        share_bits: Option<u32>,
        assume_intervals: bool,
        ranges: Vec<Option<(f64, f64)>>,
    ) -> Result<Plan> {
        // A copy: planning runs without the lock, and the program could grow meanwhile.
        let program = self.program().clone();
        let outputs = self.places(&outputs)?;
        job::run(py, None, move |_| {
            let shapes: Vec<&[usize]> = program.inputs.iter().map(Vec::as_slice).collect();
            let options = plan_options(bootstrap, share_bits, assume_intervals, ranges);
            let planned = array::plan(&shapes, &options, |engine, inputs| {
                program.run(engine, inputs, &outputs)
            })?;
            Plan::planned(planned, program.lineages(&outputs))
        })
    }

    /// Measures the costs of the program under the parameters of a plan. `assume_intervals` is as for
    /// [`Trace::plan`].
    #[pyo3(signature = (outputs, plan, *, assume_intervals=false))]
    fn measure(
        &self,
        py: Python<'_>,
        outputs: Vec<PyRef<'_, Array>>,
        plan: &Plan,
        assume_intervals: bool,
    ) -> Result<Plan> {
        let program = self.program().clone();
        let outputs = self.places(&outputs)?;
        let set = plan.set.clone();
        let request = plan.request.clone();
        job::run(py, None, move |_| {
            let shapes: Vec<&[usize]> = program.inputs.iter().map(Vec::as_slice).collect();
            let way = set.bootstrapping.as_ref();
            let way = way.map(|way| (set.label.name.clone(), &*way.plan));
            let planned: Planned = array::measure(
                &set.params,
                &request,
                way,
                &shapes,
                // The plan has its bootstrapping already. Only the intervals matter here.
                &plan_options(false, None, assume_intervals, Vec::new()),
                |engine, inputs| program.run(engine, inputs, &outputs),
            )?;
            let lineages = program.lineages(&outputs);
            Ok(Plan { set, request, program: Some((planned, lineages)) })
        })
    }
}

impl Trace {
    fn program(&self) -> MutexGuard<'_, Program> {
        // A step is pushed as a whole, so a panic leaves a valid program.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn array(&self, place: usize, shape: Vec<usize>) -> Array {
        Array(Form::Traced(Traced { program: Arc::clone(&self.0), place, shape }))
    }

    /// Returns the trace of an array, if it belongs to this program.
    fn own<'a>(&self, array: &'a Array) -> Result<&'a Traced> {
        match &array.0 {
            Form::Traced(array) if Arc::ptr_eq(&array.program, &self.0) => Ok(array),
            _ => Err(Error::Traced),
        }
    }

    fn places(&self, arrays: &[PyRef<'_, Array>]) -> Result<Vec<usize>> {
        arrays.iter().map(|array| Ok(self.own(array)?.place)).collect()
    }
}

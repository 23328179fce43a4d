//! Functions of elements, as polynomials made in the clear.

use crate::{
    error::{Error, Result},
    job,
    numbers::Numbers,
};
use pyo3::prelude::*;
use std::{ops::Range, sync::Arc};
use sudare_apps::functions::{self, Fit, Noise, PairFunction};

/// A function of one number or two, on an interval.
#[pyclass(frozen, module = "sudare._native")]
pub struct Function(pub Arc<Kind>);

/// A function, by the number of its operands.
#[derive(Debug)]
pub enum Kind {
    One(functions::Function),
    Pair(PairFunction),
}

impl Kind {
    fn make(name: &str, interval: Range<f64>, gap: f64, fit: Fit) -> sudare::Result<Self> {
        Ok(match name {
            "inverse" => Self::One(functions::inverse(interval, fit)?),
            "exp" => Self::One(functions::exp(interval, fit)?),
            "log" => Self::One(functions::log(interval, fit)?),
            "sqrt" => Self::One(functions::sqrt(interval, fit)?),
            "sigmoid" => Self::One(functions::sigmoid(interval, fit)?),
            "tanh" => Self::One(functions::tanh(interval, fit)?),
            "abs" => Self::One(functions::abs(interval, fit)?),
            "relu" => Self::One(functions::relu(interval, fit)?),
            "sign" => Self::One(functions::sign(interval, gap, fit)?),
            "step" => Self::One(functions::step(interval, gap, fit)?),
            "compare" => Self::Pair(functions::compare(interval, gap, fit)?),
            "maximum" => Self::Pair(functions::maximum(interval, fit)?),
            "minimum" => Self::Pair(functions::minimum(interval, fit)?),
            _ => {
                return Err(sudare::Error::Circuit(format!(
                    "{name:?} is not a function of sudare.functions"
                )));
            }
        })
    }

    /// Returns the function of one number, or of the difference of two numbers.
    pub fn of_one(&self) -> &functions::Function {
        match self {
            Self::One(function) => function,
            Self::Pair(pair) => pair.of_difference(),
        }
    }
}

#[pymethods]
impl Function {
    #[new]
    fn new(
        py: Python<'_>,
        name: &str,
        interval: (f64, f64),
        gap: f64,
        degree: Option<usize>,
        precision_bits: f64,
    ) -> Result<Self> {
        // A degree overrides the precision, which has a default in Python.
        let fit = degree.map_or(Fit::PrecisionBits(precision_bits), Fit::Degree);
        let make = || Ok(Kind::make(name, interval.0..interval.1, gap, fit)?);
        Ok(Self(Arc::new(job::detached(py, make)?)))
    }

    /// Makes the polynomial with these coefficients.
    #[staticmethod]
    fn polynomial(py: Python<'_>, coefficients: Vec<f64>, interval: (f64, f64)) -> Result<Self> {
        let make = || Ok(Kind::One(functions::polynomial(coefficients, interval.0..interval.1)?));
        Ok(Self(Arc::new(job::detached(py, make)?)))
    }

    #[getter]
    fn max_error(&self) -> f64 {
        self.0.of_one().max_error()
    }

    fn stated_error(&self, py: Python<'_>, argument: f64, between: f64) -> Result<f64> {
        let noise = Noise { argument, between };
        job::detached(py, || Ok(self.0.of_one().stated_error(noise)))
    }

    #[getter]
    fn depth(&self) -> u32 {
        self.0.of_one().depth()
    }

    #[getter]
    fn degrees(&self) -> Vec<usize> {
        self.0.of_one().stages().iter().map(|stage| stage.degree()).collect()
    }

    /// Returns the `exact` function, or its approximation, of numbers or pairs of numbers.
    fn evaluate(&self, operands: Vec<Numbers>, exact: bool) -> Result<Numbers> {
        let values = match (&*self.0, &operands[..]) {
            (Kind::One(f), [x]) => {
                let of = |&x: &f64| if exact { f.exact(x) } else { f.evaluate(x) };
                x.values.iter().map(of).collect()
            }
            (Kind::Pair(f), [a, b]) if a.values.len() == b.values.len() => {
                let of = |(&a, &b): (&f64, &f64)| match exact {
                    true => f.exact(a, b),
                    false => f.evaluate(a, b),
                };
                a.values.iter().zip(&b.values).map(of).collect()
            }
            _ => return Err(Error::Bug("a function was given other operands than it has")),
        };
        let shape = operands.into_iter().next().map_or_else(Vec::new, |x| x.shape);
        Ok(Numbers { shape, values })
    }
}

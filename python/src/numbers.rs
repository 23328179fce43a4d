//! Arrays of NumPy, which are copied once on their way in and never on their way out.

use numpy::{
    Element, PyArray1, PyArrayDyn, PyArrayMethods, PyReadonlyArrayDyn, PyUntypedArrayMethods,
};
use pyo3::prelude::*;
use sudare_apps::{array::PlainArray, exact::PlainIntegers};

/// The shape of an array of NumPy and, in C order, its elements.
pub struct Numbers<T = f64> {
    pub shape: Vec<usize>,
    pub values: Vec<T>,
}

impl<T: Element + Copy> FromPyObject<'_, '_> for Numbers<T> {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, '_, PyAny>) -> PyResult<Self> {
        let array: PyReadonlyArrayDyn<'_, T> = object.extract()?;
        let shape = array.shape().to_vec();
        let values = match array.as_slice() {
            // `as_slice` also accepts Fortran order, whose elements would be transposed here.
            Ok(values) if array.is_c_contiguous() => values.to_vec(),
            // Iteration follows C order for any strides, at the price of a slow copy.
            _ => array.as_array().iter().copied().collect(),
        };
        Ok(Self { shape, values })
    }
}

impl From<Numbers> for PlainArray {
    fn from(Numbers { shape, values }: Numbers) -> Self {
        Self { shape, values }
    }
}

impl From<Numbers<i64>> for PlainIntegers {
    fn from(Numbers { shape, values }: Numbers<i64>) -> Self {
        Self { shape, values }
    }
}

impl From<PlainArray> for Numbers {
    fn from(PlainArray { shape, values }: PlainArray) -> Self {
        Self { shape, values }
    }
}

impl From<PlainIntegers> for Numbers<i64> {
    fn from(PlainIntegers { shape, values }: PlainIntegers) -> Self {
        Self { shape, values }
    }
}

impl<'py, T: Element> IntoPyObject<'py> for Numbers<T> {
    type Target = PyArrayDyn<T>;
    type Output = Bound<'py, Self::Target>;
    type Error = PyErr;

    fn into_pyobject(self, py: Python<'py>) -> PyResult<Self::Output> {
        // NumPy takes over the vector, so results are not copied.
        PyArray1::from_vec(py, self.values).reshape(self.shape)
    }
}

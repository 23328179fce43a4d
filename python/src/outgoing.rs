//! Files on their way to a service.

use crate::{error::Result, job};
use pyo3::{prelude::*, types::PyBytes};
use std::{path::PathBuf, sync::Arc};
use sudare_roles::owner::outgoing;

/// An open file that may be sent to a collection of a service. Any other file is refused.
#[pyclass(frozen, module = "sudare._native")]
pub struct Outgoing(Arc<outgoing::Outgoing>);

#[pymethods]
impl Outgoing {
    /// Opens the file at `path`.
    #[new]
    #[pyo3(signature = (path, collection, plain_model))]
    fn new(path: PathBuf, collection: &str, plain_model: bool) -> Result<Self> {
        let collection = collection.parse()?;
        // Checked and sent by one open file, so no one can exchange it in between.
        Ok(Self(Arc::new(outgoing::Outgoing::open(&path, &[collection], plain_model)?)))
    }

    /// The collection.
    #[getter]
    fn collection(&self) -> &'static str {
        self.0.destination().name()
    }

    /// Bytes of the file.
    #[getter]
    fn size(&self) -> u64 {
        self.0.bytes()
    }

    /// Returns BLAKE3 of all bytes, in hexadecimal.
    fn digest(&self, py: Python<'_>) -> Result<String> {
        let file = Arc::clone(&self.0);
        job::run(py, None, move |_| Ok(file.digest()?))
    }

    /// Returns at most `most` bytes from `offset` on.
    fn part<'py>(&self, py: Python<'py>, offset: u64, most: u64) -> Result<Bound<'py, PyBytes>> {
        let part = job::detached(py, || Ok(self.0.part(offset, most)?))?;
        Ok(PyBytes::new(py, &part))
    }
}

//! Receipts of a service.

use crate::{data::to_python, error::Result};
use pyo3::prelude::*;
use sudare_roles::{
    error::Error,
    server::receipt::{Receipt, ServerKey},
};

fn key(text: &str) -> Result<ServerKey> {
    Ok(text.parse().map_err(|problem: &str| Error::Usage(format!("{text:?}: {problem}")))?)
}

/// Returns the key of a server in its canonical form.
#[pyfunction]
pub fn read_server_key(text: &str) -> Result<String> {
    Ok(key(text)?.to_string())
}

/// Checks the signature of a receipt, and its server if you name one. Returns the statement.
#[pyfunction]
#[pyo3(signature = (text, server_key))]
pub fn read_receipt<'py>(
    py: Python<'py>,
    text: &str,
    server_key: Option<&str>,
) -> Result<Bound<'py, PyAny>> {
    let receipt = Receipt::read(text).map_err(Error::Receipt)?;
    if let Some(text) = server_key {
        receipt.expect_server(&key(text)?).map_err(Error::Receipt)?;
    }
    to_python(py, receipt.statement())
}

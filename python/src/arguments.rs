//! Arguments of methods that users call without Python code in between, read by `sudare._plain`.

use pyo3::{PyClass, prelude::*};
use std::path::PathBuf;

/// Reads the path of a file.
pub fn path(value: &Bound<'_, PyAny>) -> PyResult<PathBuf> {
    read(value, "path_of", "path")?.extract()
}

/// Reads whether a file may be overwritten.
pub fn overwrite(value: &Bound<'_, PyAny>) -> PyResult<bool> {
    read(value, "flag", "overwrite")?.extract()
}

/// Reads whether keys shall take less memory.
pub fn small(value: &Bound<'_, PyAny>) -> PyResult<bool> {
    read(value, "flag", "small")?.extract()
}

/// Reads a passphrase, if there is one.
pub fn passphrase(value: &Bound<'_, PyAny>) -> PyResult<Option<String>> {
    match value.is_none() {
        true => Ok(None),
        false => read(value, "hidden", "passphrase")?.extract(),
    }
}

/// Reads the bits to which values are shared, if they are.
pub fn share_bits(value: &Bound<'_, PyAny>) -> PyResult<Option<u32>> {
    match value.is_none() {
        true => Ok(None),
        false => read(value, "whole", "share_bits")?.extract(),
    }
}

/// Reads whether rows are promised to stay in the range of the sigmoid.
pub fn assume_range(value: &Bound<'_, PyAny>) -> PyResult<bool> {
    read(value, "flag", "assume_range")?.extract()
}

/// Reads an object of a class.
pub fn instance<'py, T: PyClass>(value: &Bound<'py, PyAny>, name: &str) -> PyResult<PyRef<'py, T>> {
    let py = value.py();
    let kind = py.get_type::<T>();
    py.import("sudare._plain")?.call_method1("expect_type", (value, name, kind))?;
    Ok(value.cast::<T>()?.borrow())
}

/// Reads an argument, which messages call `name`.
fn read<'py>(value: &Bound<'py, PyAny>, reader: &str, name: &str) -> PyResult<Bound<'py, PyAny>> {
    value.py().import("sudare._plain")?.call_method1(reader, (value, name))
}

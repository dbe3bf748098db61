//! Core errors as Python exceptions, and objects as error messages show them.

use keysplit_core::Error;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyInt;

/// A core error as a Python exception.
pub(crate) fn raised(error: Error) -> PyErr {
    match error {
        Error::Value(text) => PyValueError::new_err(text),
        Error::Type(text) => PyTypeError::new_err(text),
    }
}

/// The repr of an object, on one line and truncated.
pub(crate) fn shown(object: &Bound<'_, PyAny>) -> PyResult<String> {
    if object.is_instance_of::<PyInt>() {
        let bits: u64 = object.call_method0("bit_length")?.extract()?;
        if bits > 200 {
            return Ok(format!("an integer of {bits} bits"));
        }
    }
    let text = object.repr()?.to_string_lossy().split_whitespace().collect::<Vec<_>>().join(" ");
    Ok(match text.char_indices().nth(60) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    })
}

//! Modules that somebody else may have imported.

use pyo3::prelude::*;
use pyo3::types::PyDict;

/// A module, unless nobody has imported it: then no object is of a class of its own.
pub(super) fn imported<'py>(py: Python<'py>, name: &str) -> PyResult<Option<Bound<'py, PyAny>>> {
    let modules = py.import("sys")?.getattr("modules")?;
    modules.cast::<PyDict>()?.get_item(name)
}

/// Whether an object is of a class of a module that somebody has imported.
pub(super) fn is_of(object: &Bound<'_, PyAny>, module: &Bound<'_, PyAny>, class: &str) -> PyResult<bool> {
    // A module that is being imported has none of its classes yet.
    module.getattr_opt(class)?.map_or(Ok(false), |class| object.is_instance(&class))
}

//! Modules that the user may have imported.

use pyo3::prelude::*;
use pyo3::types::PyDict;

/// A module, unless it is not imported: then no object is of one of its classes.
pub(super) fn imported<'py>(py: Python<'py>, name: &str) -> PyResult<Option<Bound<'py, PyAny>>> {
    let modules = py.import("sys")?.getattr("modules")?;
    modules.cast::<PyDict>()?.get_item(name)
}

/// Whether an object is of a class of an imported module.
pub(super) fn is_of(object: &Bound<'_, PyAny>, module: &Bound<'_, PyAny>, class: &str) -> PyResult<bool> {
    // A module that is still being imported has no classes yet.
    module.getattr_opt(class)?.map_or(Ok(false), |class| object.is_instance(&class))
}

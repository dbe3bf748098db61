//! Parameters of groupings, from Python values; the names of the groupings; the d solver.

use std::ops::RangeInclusive;

use keysplit_core::groupings::{REGISTRY, check as check_parameters};
use keysplit_core::{Arguments, MAX_WORKERS, Router, Source, Value};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyString};

use crate::errors::{raised, shown};
use crate::input::{Numbers, numbers, scalar_kind};

/// The result of an object's conversion method; `None` if it cannot convert.
fn converted<'py>(object: &Bound<'py, PyAny>, method: &str) -> PyResult<Option<Bound<'py, PyAny>>> {
    if !object.hasattr(method)? {
        return Ok(None);
    }
    match object.call_method0(method) {
        Err(error) if error.is_instance_of::<PyTypeError>(object.py()) => Ok(None),
        answer => answer.map(Some),
    }
}

/// A Python value for the core. NumPy's scalars count as the Python ones.
fn value(name: &str, object: &Bound<'_, PyAny>) -> PyResult<Value> {
    if object.is_none() {
        return Ok(Value::None);
    }
    if let Ok(truth) = object.cast::<PyBool>() {
        return Ok(Value::Bool(truth.is_true()));
    }
    if !object.is_instance_of::<PyString>() {
        if let Some(number) = converted(object, "__index__")? {
            return match number.extract() {
                Ok(number) => Ok(Value::Integer(number)),
                Err(_) => Err(PyValueError::new_err(format!("{name} must fit 64 bits, got {}", shown(&number)?))),
            };
        }
        if scalar_kind(object)? == Some('b') {
            return Ok(Value::Bool(object.is_truthy()?));
        }
        if let Some(number) = converted(object, "__float__")? {
            return Ok(Value::Number(number.extract()?));
        }
    }
    Ok(Value::Other(shown(object)?))
}

/// A whole number within `range`.
pub(crate) fn integer(name: &str, object: &Bound<'_, PyAny>, range: RangeInclusive<u64>) -> PyResult<u64> {
    let allowed = format!("in {}..={}", range.start(), range.end());
    match value(name, object)? {
        Value::Integer(number) => u64::try_from(number)
            .ok()
            .filter(|number| range.contains(number))
            .ok_or_else(|| PyValueError::new_err(format!("{name} must be {allowed}, got {number}"))),
        other => Err(PyTypeError::new_err(format!("{name} must be an integer {allowed}, got {other}"))),
    }
}

/// A dict for the core.
pub(crate) fn arguments(dict: &Bound<'_, PyDict>) -> PyResult<Arguments> {
    let mut arguments = Arguments::default();
    for (name, object) in dict {
        let name: String = name.extract()?;
        let value = value(&name, &object)?;
        arguments = arguments.with(&name, value);
    }
    Ok(arguments)
}

/// The registry names of all groupings, in order.
#[pyfunction]
pub(crate) fn groupings() -> Vec<&'static str> {
    REGISTRY.iter().map(|entry| entry.name).collect()
}

/// Check the parameters of a grouping; raise TypeError or ValueError if they are invalid.
#[pyfunction]
pub(crate) fn check(name: &str, params: &Bound<'_, PyDict>) -> PyResult<()> {
    check_parameters(name, &arguments(params)?).map_err(raised)
}

/// The most workers that a key may initially be sent to under a grouping's parameters.
#[pyfunction]
pub(crate) fn max_workers_per_key(name: &str, params: &Bound<'_, PyDict>) -> PyResult<u32> {
    Ok(Router::new(name, &arguments(params)?, Source(0)).map_err(raised)?.max_workers_per_key())
}

/// Solve for d, the number of candidates that the head needs.
///
/// The answer is the smallest d with which no set of frequent keys can overload its candidate workers.
///
/// Args:
///     head_counts: Messages of each key of the head, above 0, in descending order.
///     total: Messages of all keys, at least the sum of ``head_counts``.
///     workers: Number of workers, in 1..=65536.
///     tolerance: The imbalance allowed, a share of all messages, above 0 and at most 1; the paper's epsilon.
///
/// Returns:
///     d, at least 2; ``workers`` if no smaller d works.
///
/// Raises:
///     TypeError: An argument is not a number.
///     ValueError: An argument is out of range.
///
/// Source:
///     Nasir, De Francisci Morales, Kourtellis, Serafini, "When Two Choices Are not Enough", ICDE 2016, section
///     IV-A, Inequality (3).
///
/// Deviations:
///     none
///
/// Example:
///     >>> from keysplit._core import solve_choices
///     >>> solve_choices([100.0], 300.0, workers=10, tolerance=1e-4)
///     7
#[pyfunction]
pub(crate) fn solve_choices(
    head_counts: &Bound<'_, PyAny>,
    total: f64,
    workers: &Bound<'_, PyAny>,
    tolerance: f64,
) -> PyResult<u32> {
    let counts = numbers("head_counts", head_counts, Numbers::Any)?;
    let workers = integer("workers", workers, 1..=MAX_WORKERS)?;
    let refuse = |text: String| Err(PyValueError::new_err(text));
    if let Some(count) = counts.iter().find(|count| !(count.is_finite() && **count > 0.0)) {
        return refuse(format!("head_counts must be finite and above 0, got {count:?}"));
    }
    if let Some(pair) = counts.windows(2).find(|pair| pair[0] < pair[1]) {
        return refuse(format!("head_counts must be in descending order, got {:?} before {:?}", pair[0], pair[1]));
    }
    let sum: f64 = counts.iter().sum();
    if !(total.is_finite() && total > 0.0 && total >= sum) {
        return refuse(format!(
            "total must be finite, above 0 and at least the sum of head_counts, {sum:?}, got {total:?}"
        ));
    }
    if !(tolerance > 0.0 && tolerance <= 1.0) {
        return refuse(format!("tolerance must be above 0 and at most 1, got {tolerance:?}"));
    }
    Ok(keysplit_core::groupings::solve_choices(&counts, total, workers as u32, tolerance))
}

//! Numbers that go with the keys: weights, loads, numbers of workers.

use ::numpy::{PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods};
use keysplit_core::check_weights;
use pyo3::exceptions::{PyOverflowError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PySequence, PyString};

use super::{arrow, numpy, pandas};
use crate::errors::raised;

/// The numbers an argument accepts.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Numbers {
    /// Everything that fits a double; True and False are 1 and 0.
    Any,
    /// Integers, but not True and False.
    Whole,
}

/// Reads a number, infinite if it is too large; `None` if the object is not a number.
pub(crate) fn number(object: &Bound<'_, PyAny>) -> PyResult<Option<f64>> {
    match object.extract::<f64>() {
        Ok(number) => Ok(Some(number)),
        Err(error) if error.is_instance_of::<PyOverflowError>(object.py()) => Ok(Some(f64::INFINITY)),
        Err(error) if error.is_instance_of::<PyTypeError>(object.py()) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Reads a column of numbers: an Arrow array or stream, a NumPy array or any sequence.
pub(crate) fn numbers(name: &str, object: &Bound<'_, PyAny>, which: Numbers) -> PyResult<Vec<f64>> {
    let (whole, what) = (which == Numbers::Whole, if which == Numbers::Whole { "integers" } else { "numbers" });
    let refused = |got: &str| PyTypeError::new_err(format!("{name} must be {what}, got {got}"));
    let seen = pandas::numbers(object)?;
    let object = seen.as_ref().unwrap_or(object);
    if let Ok(array) = object.cast::<PyUntypedArray>() {
        match array.dtype().kind() {
            b'i' | b'u' => return numpy::numbers(name, array),
            b'f' | b'b' if !whole || array.is_empty() => return numpy::numbers(name, array),
            b'O' => {}
            _ => return Err(refused(&format!("an array of {}", array.dtype()))),
        }
    } else if let Some(numbers) = arrow::numbers(object, name, whole)? {
        return Ok(numbers);
    }
    let is_text = object.is_instance_of::<PyString>() || object.is_instance_of::<PyBytes>();
    let is_sequence = object.cast::<PySequence>().is_ok() || object.cast::<PyUntypedArray>().is_ok();
    if is_text || !is_sequence {
        return Err(refused(&format!("{} where a sequence is needed", object.get_type().name()?)));
    }
    object
        .try_iter()?
        .map(|item| {
            let item = item?;
            let fits = !whole || (!item.is_instance_of::<PyBool>() && item.hasattr("__index__")?);
            match number(&item)? {
                Some(number) if fits => Ok(number),
                _ => Err(refused(&item.get_type().name()?.to_string_lossy())),
            }
        })
        .collect()
}

/// Reads the weights of `messages` messages.
pub(crate) fn weights_of(object: &Bound<'_, PyAny>, messages: usize) -> PyResult<Vec<f64>> {
    let weights = numbers("weights", object, Numbers::Any)?;
    check_weights(&weights, messages).map_err(raised)?;
    Ok(weights)
}

/// Reads a column of worker numbers, each below `end`.
pub(crate) fn workers_of(name: &str, object: &Bound<'_, PyAny>, end: u64) -> PyResult<Vec<u32>> {
    let numbers = numbers(name, object, Numbers::Whole)?;
    match numbers.iter().find(|number| !(0.0..end as f64).contains(*number)) {
        None => Ok(numbers.into_iter().map(|number| number as u32).collect()),
        Some(number) => Err(PyValueError::new_err(format!("{name} must be in 0..={}, got {number}", end - 1))),
    }
}

//! Python objects: those of a list, a tuple or a NumPy array of objects.

use ::numpy::{PyUntypedArray, PyUntypedArrayMethods};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::{PyList, PySlice, PyTuple};

use super::numpy;

/// Strings of an array that become a list at a time: few enough to be in the cache when they are read.
const TOGETHER: usize = 1 << 11;

/// A column of objects.
pub(super) enum Items<'py> {
    List(Bound<'py, PyList>),
    Tuple(Bound<'py, PyTuple>),
    /// A NumPy array of objects.
    Objects(Bound<'py, PyUntypedArray>),
    /// A NumPy array of strings of any length.
    Strings(Bound<'py, PyUntypedArray>),
    Copied(Vec<Bound<'py, PyAny>>),
}

impl<'py> Items<'py> {
    fn len(&self) -> usize {
        match self {
            Self::List(list) => list.len(),
            Self::Tuple(tuple) => tuple.len(),
            Self::Objects(array) | Self::Strings(array) => array.len(),
            Self::Copied(items) => items.len(),
        }
    }

    /// Reads all in order, each while it is at hand: objects lie all over the memory.
    ///
    /// Reading may run Python code, such as a `utcoffset`; it fails if that changes the length.
    pub(super) fn read<T>(&self, mut read: impl FnMut(&Bound<'py, PyAny>) -> PyResult<T>) -> PyResult<Vec<T>> {
        let len = self.len();
        let mut found = Vec::with_capacity(len);
        match self {
            Self::List(list) => {
                for item in list.iter() {
                    found.push(read(&item)?);
                }
            }
            Self::Tuple(tuple) => {
                for item in tuple.iter() {
                    found.push(read(&item)?);
                }
            }
            Self::Objects(array) => {
                for item in (0..len).map_while(|at| numpy::object(array, at)) {
                    found.push(read(&item)?);
                }
            }
            Self::Strings(array) => {
                for from in (0..len).step_by(TOGETHER) {
                    let block = PySlice::new(array.py(), from as isize, (from + TOGETHER).min(len) as isize, 1);
                    for item in array.get_item(block)?.call_method0("tolist")?.cast_into::<PyList>()?.iter() {
                        found.push(read(&item)?);
                    }
                }
            }
            Self::Copied(items) => {
                for item in items {
                    found.push(read(item)?);
                }
            }
        }
        if found.len() != len || self.len() != len {
            return Err(PyRuntimeError::new_err("keys changed their length while they were read"));
        }
        Ok(found)
    }
}

//! The tables of a plan.

use keysplit_core::PlanTable as CoreTable;
use numpy::{IntoPyArray, PyArray1};
use pyo3::prelude::*;

use crate::errors::raised;
use crate::input::column_of;

/// The tables of a plan: a row's worker as a pure function of the hash of its key and a hash of the row.
///
/// Nothing is counted and nothing is drawn: a row goes to the same worker in every attempt, on every machine and in any
/// order. Let b be the binary logarithm of ``len(tail)``, and h and r the hashes of the key and the row as unsigned
/// 64-bit numbers. A key that is ``hashes[i]`` uses cell ``starts[i] + (((r >> 32) * lengths[i]) >> 32)``: ``first`` of
/// this cell if ``r & 0xffffffff`` is below its cut, else ``second``. Every other key goes to ``tail[h >> (64 - b)]``.
/// The arrays are copied. Threads may share a table.
///
/// Args:
///     tail: uint32 array: the worker of each bucket, in 0..=65535; a power of two in 2..=2**20 of them.
///     hashes: int64 array: the hashes of the keys that have cells, each once.
///     starts: uint32 array: the first cell of each of these keys.
///     lengths: uint32 array: the number of cells of each, at least 1.
///     cuts: int64 array: how many of 2**32 rows of a cell go to its first worker, in 0..=2**32.
///     first: uint32 array: the first worker of each cell, in 0..=65535.
///     second: uint32 array: the second worker of each cell, in 0..=65535.
///
/// Raises:
///     TypeError: An argument is not a one-dimensional array of the stated type.
///     ValueError: A number is out of range, lengths do not match or a hash is repeated.
///
/// Source:
///     Walker, "An Efficient Method for Generating Discrete Random Variables with General Distributions", ACM
///     Transactions on Mathematical Software 3(3), 1977.
///
/// Deviations:
///     The random number is a hash of the row, and shares are whole multiples of 2**-32.
///
/// Example:
///     >>> import numpy as np
///     >>> from keysplit._core import PlanTable
///     >>> numbers = lambda *values: np.array(values, dtype=np.uint32)
///     >>> longs = lambda *values: np.array(values, dtype=np.int64)
///     >>> table = PlanTable(
///     ...     numbers(0, 1), longs(7), numbers(0), numbers(2), longs(2**31, 2**32), numbers(5, 4), numbers(4, 0)
///     ... )
///     >>> table.route(longs(7, 7, 7, 8, -1), longs(0, 2**31, -(2**63), 0, 0)).tolist()
///     [5, 4, 4, 0, 1]
#[pyclass(frozen, module = "keysplit._core")]
pub(crate) struct PlanTable(CoreTable);

#[pymethods]
impl PlanTable {
    #[new]
    fn new(
        tail: &Bound<'_, PyAny>,
        hashes: &Bound<'_, PyAny>,
        starts: &Bound<'_, PyAny>,
        lengths: &Bound<'_, PyAny>,
        cuts: &Bound<'_, PyAny>,
        first: &Bound<'_, PyAny>,
        second: &Bound<'_, PyAny>,
    ) -> PyResult<Self> {
        let table = CoreTable::new(
            column_of("tail", tail)?,
            bits_of("hashes", hashes)?,
            column_of("starts", starts)?,
            column_of("lengths", lengths)?,
            column_of("cuts", cuts)?,
            column_of("first", first)?,
            column_of("second", second)?,
        );
        table.map(Self).map_err(raised)
    }

    /// Choose the worker of each row.
    ///
    /// Args:
    ///     hashes: int64 array: the hash of each row's key.
    ///     rows: int64 array: a hash of each row; default 0, for plans that split no key.
    ///
    /// Returns:
    ///     uint32 array of shape ``(len(hashes),)``.
    ///
    /// Raises:
    ///     TypeError: An argument is not a one-dimensional int64 array.
    ///     ValueError: ``hashes`` and ``rows`` differ in length.
    #[pyo3(signature = (hashes, rows = None))]
    fn route<'py>(
        &self,
        py: Python<'py>,
        hashes: &Bound<'py, PyAny>,
        rows: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyArray1<u32>>> {
        let hashes = bits_of("hashes", hashes)?;
        let rows = rows.map(|rows| bits_of("rows", rows)).transpose()?;
        let workers = py.detach(|| {
            let mut workers = vec![0; hashes.len()];
            self.0.route(&hashes, rows.as_deref(), &mut workers).map(|()| workers)
        });
        Ok(workers.map_err(raised)?.into_pyarray(py))
    }
}

/// The unsigned bits of an int64 array.
fn bits_of(name: &str, object: &Bound<'_, PyAny>) -> PyResult<Vec<u64>> {
    Ok(column_of::<i64>(name, object)?.into_iter().map(|number| number as u64).collect())
}

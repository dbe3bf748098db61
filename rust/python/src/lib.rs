//! The module `keysplit._core`: the Rust core in Python.
//!
//! Nothing is decided here. [`input`] turns what users pass into hashes; the other files pass these to the core.

mod errors;
mod input;
mod metrics;
mod params;
mod plan;
mod router;
mod simulate;
mod sketch;

use keysplit_core::hash::KeyHasher;
use numpy::{IntoPyArray, PyArray1};
use pyo3::prelude::*;

use crate::input::Keys;

/// The Rust core of keysplit.
#[pymodule]
mod _core {
    #[pymodule_export]
    use super::hash_keys;
    #[pymodule_export]
    use super::metrics::{imbalance, load_stddev, memory, relative_imbalance, replication};
    #[pymodule_export]
    use super::params::{check, groupings, max_workers_per_key, solve_choices};
    #[pymodule_export]
    use super::plan::PlanTable;
    #[pymodule_export]
    use super::router::Router;
    #[pymodule_export]
    use super::simulate::Simulation;
    #[pymodule_export]
    use super::sketch::SpaceSaving;
    use pyo3::exceptions::PyRuntimeWarning;
    use pyo3::prelude::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))?;
        if cfg!(debug_assertions) {
            let text = c"keysplit was built in debug mode and is slow; build it with `maturin develop --release`";
            PyErr::warn(module.py(), &module.py().get_type::<PyRuntimeWarning>(), text, 1)?;
        }
        Ok(())
    }
}

/// Hash keys: the 64-bit hashes that all groupings start from.
///
/// Equal keys have equal hashes through every kind of input and whatever the width of an integer. The hash never
/// changes between versions; ``docs/routing.md`` defines it to the bit.
///
/// Args:
///     keys: One key per message: an Arrow array or stream (pyarrow, pandas, polars, ...), a NumPy array, a list or a
///         tuple of integers from -2**63 to 2**64 - 1, strings, bytes, booleans, dates, timestamps, decimals or None. A
///         null is a key like any other.
///     seed: Which hash function of the family, in 0..=2**64 - 1.
///
/// Returns:
///     uint64 array of shape ``(len(keys),)``.
///
/// Raises:
///     TypeError: ``keys`` is not a column of keys, or holds floats.
///     ValueError: A key has no hash, such as an integer beyond 64 bits; or ``seed`` is out of range.
///
/// Source:
///     Integers: the finaliser of Steele, Lea and Flood, "Fast Splittable Pseudorandom Number Generators", OOPSLA
///     2014 (variant 13 of D. Stafford). Bytes: XXH3 of Y. Collet.
///
/// Deviations:
///     none
///
/// Example:
///     >>> import numpy as np
///     >>> from keysplit import hash_keys
///     >>> hash_keys([7, "seven", None]).dtype
///     dtype('uint64')
///     >>> bool((hash_keys([7, 8]) == hash_keys(np.array([7, 8], dtype=np.int16))).all())
///     True
#[pyfunction]
#[pyo3(signature = (keys, seed = None), text_signature = "(keys, seed=0)")]
fn hash_keys<'py>(keys: &Bound<'py, PyAny>, seed: Option<&Bound<'py, PyAny>>) -> PyResult<Bound<'py, PyArray1<u64>>> {
    let seed = seed.map_or(Ok(0), |seed| params::integer("seed", seed, 0..=u64::MAX))?;
    let py = keys.py();
    let keys = Keys::read(keys, &KeyHasher::new(seed))?;
    Ok(keys.into_hashes(py)?.into_pyarray(py))
}

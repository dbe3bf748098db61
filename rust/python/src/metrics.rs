//! How balanced loads are, and what splitting keys costs.

use keysplit_core::hash::KeyHasher;
use keysplit_core::metrics::{self, Replicas};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::errors::raised;
use crate::input::{Keys, Numbers, numbers, workers_of};

/// (max - mean) / sum of the loads of all workers; 0 when nothing was sent.
#[pyfunction]
pub(crate) fn imbalance(loads: &Bound<'_, PyAny>) -> PyResult<f64> {
    metrics::imbalance(&numbers("loads", loads, Numbers::Any)?).map_err(raised)
}

/// (max - mean) / mean of the loads of all workers; 0 when nothing was sent.
#[pyfunction]
pub(crate) fn relative_imbalance(loads: &Bound<'_, PyAny>) -> PyResult<f64> {
    metrics::relative_imbalance(&numbers("loads", loads, Numbers::Any)?).map_err(raised)
}

/// Standard deviation of the loads in per cent of their sum; 0 when nothing was sent.
#[pyfunction]
pub(crate) fn load_stddev(loads: &Bound<'_, PyAny>) -> PyResult<f64> {
    metrics::load_stddev(&numbers("loads", loads, Numbers::Any)?).map_err(raised)
}

/// Mean number of distinct workers per distinct key.
#[pyfunction]
pub(crate) fn replication(keys: &Bound<'_, PyAny>, workers: &Bound<'_, PyAny>) -> PyResult<f64> {
    let replicas = replicas(keys, workers)?;
    if replicas.keys() == 0 {
        return Err(PyValueError::new_err("keys must not be empty"));
    }
    Ok(replicas.memory() as f64 / replicas.keys() as f64)
}

/// Sum over the keys of the distinct workers each was sent to.
#[pyfunction]
pub(crate) fn memory(keys: &Bound<'_, PyAny>, workers: &Bound<'_, PyAny>) -> PyResult<u64> {
    Ok(replicas(keys, workers)?.memory())
}

fn replicas(keys: &Bound<'_, PyAny>, workers: &Bound<'_, PyAny>) -> PyResult<Replicas> {
    let py = keys.py();
    let keys = Keys::read(keys, &KeyHasher::new(0))?;
    let workers = workers_of("workers", workers, 1 << 32)?;
    if workers.len() != keys.len() {
        let text = format!("workers must be one per key, {} in all, got {}", keys.len(), workers.len());
        return Err(PyValueError::new_err(text));
    }
    py.detach(|| {
        let (mut replicas, mut from) = (Replicas::default(), 0);
        keys.blocks(|hashes| {
            replicas.add(hashes, &workers[from..from + hashes.len()]);
            from += hashes.len();
            Ok(())
        })?;
        Ok(replicas)
    })
}

//! One router class for all groupings.

use std::sync::{Mutex, MutexGuard, PoisonError};

use keysplit_core::hash::KeyHasher;
use keysplit_core::{Batch, Feedback, KeyHash, Router as CoreRouter, Source, Worker};
use numpy::{IntoPyArray, PyArray1};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyTuple};

use crate::errors::{raised, shown};
use crate::input::{Key, Keys, Numbers, number, numbers, weights_of, workers_of};
use crate::params::{arguments, integer};

/// One source's local view of one grouping: it chooses a worker for each message.
///
/// Created by the ``router`` method of a grouping's parameters. Routing a batch equals routing its messages one at a
/// time, wherever the stream is cut (for ``flexd``: at ends of segments). A router depends only on its parameters, its
/// source number and its inputs, never on a clock or a global random generator. Threads may share one: calls are
/// atomic, and the interpreter is released while they run.
///
/// Args:
///     name: Registry name of the grouping.
///     params: The grouping's parameters by name; all but ``workers`` have defaults.
///     source: Number of the source, in 0..=2**32 - 1; sources of one stream draw and take turns differently.
///     snapshot: What ``snapshot`` returned for the same grouping, parameters and source, to continue from.
///
/// Raises:
///     TypeError: A parameter is missing, unknown or of the wrong type.
///     ValueError: A parameter is out of range, or the snapshot is damaged or another router's.
///
/// Source:
///     Nasir et al., "When Two Choices Are not Enough", ICDE 2016, section II: sources route on their local load
///     estimates.
///
/// Deviations:
///     none
///
/// Example:
///     >>> from keysplit import Router
///     >>> router = Router("shuffle", {"workers": 3, "seed": 0}, source=0)
///     >>> workers = router.route(["a", "b", "a", None])
///     >>> workers.dtype, workers.shape
///     (dtype('uint32'), (4,))
///     >>> float(router.loads.sum())
///     4.0
#[pyclass(frozen, module = "keysplit")]
pub(crate) struct Router {
    name: String,
    params: Py<PyDict>,
    source: u32,
    hasher: KeyHasher,
    /// Locked only while detached from the interpreter: its holder may be waiting to attach.
    state: Mutex<CoreRouter>,
}

impl Router {
    fn lock(&self) -> MutexGuard<'_, CoreRouter> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn with<T: Send>(&self, py: Python<'_>, run: impl FnOnce(&mut CoreRouter) -> T + Send) -> T {
        py.detach(|| run(&mut self.lock()))
    }
}

#[pymethods]
impl Router {
    #[new]
    #[pyo3(signature = (name, params, source, snapshot = None))]
    fn new(
        name: String,
        params: &Bound<'_, PyDict>,
        source: &Bound<'_, PyAny>,
        snapshot: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let source = integer("source", source, 0..=u32::MAX.into())? as u32;
        let (arguments, number) = (arguments(params)?, Source(source));
        let router = match snapshot {
            None => CoreRouter::new(&name, &arguments, number),
            Some(bytes) => {
                let Ok(bytes) = bytes.cast::<PyBytes>() else {
                    let text = format!("snapshot must be bytes, got {}", bytes.get_type().name()?);
                    return Err(PyTypeError::new_err(text));
                };
                CoreRouter::from_snapshot(&name, &arguments, number, bytes.as_bytes())
            }
        };
        let router = router.map_err(raised)?;
        let seed = params.get_item("seed")?.map_or(Ok(0), |seed| integer("seed", &seed, 0..=u64::MAX))?;
        Ok(Self {
            name,
            params: params.copy()?.unbind(),
            source,
            hasher: KeyHasher::new(seed),
            state: Mutex::new(router),
        })
    }

    /// Choose a worker for each message, in order.
    ///
    /// Args:
    ///     keys: One key per message: an Arrow array or stream (pyarrow, pandas, polars, ...), a NumPy array, a list or
    ///         a tuple of integers from -2**63 to 2**64 - 1, strings, bytes, booleans, dates, timestamps, decimals or
    ///         None. A null is a key like any other.
    ///     weights: What each message adds to the load of its worker, finite and at least 0; default 1.
    ///     now: Seconds on the caller's monotonic clock, in -1e12..=1e12; for groupings that use time.
    ///
    /// Returns:
    ///     uint32 array of shape ``(len(keys),)``: numbers of present workers.
    ///
    /// Raises:
    ///     TypeError: ``keys`` is not a column of keys, or holds floats; ``weights`` or ``now`` are not numbers.
    ///     ValueError: A key has no hash, such as an integer beyond 64 bits; ``weights`` or ``now`` are out of range.
    ///         Nothing has been routed then.
    ///
    /// Example:
    ///     >>> from keysplit import Router
    ///     >>> router = Router("key", {"workers": 50, "seed": 0}, source=0)
    ///     >>> first, second = router.route(["a", "a"])
    ///     >>> bool(first == second)
    ///     True
    #[pyo3(signature = (keys, *, weights = None, now = None))]
    fn route<'py>(
        &self,
        py: Python<'py>,
        keys: &Bound<'py, PyAny>,
        weights: Option<&Bound<'py, PyAny>>,
        now: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyArray1<u32>>> {
        let now = now_of(now)?;
        let keys = Keys::read(keys, &self.hasher)?;
        let weights = weights.map(|given| weights_of(given, keys.len())).transpose()?;
        let workers = self.with(py, |router| route(router, &keys, weights.as_deref(), now))?;
        Ok(workers.into_pyarray(py))
    }

    /// float64 array of shape ``(workers,)``: the sum of weights that this source has sent to each worker. If workers
    /// have joined and left, one per number ever assigned; ``loads[worker_numbers]`` are the present ones.
    #[getter]
    fn loads<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f64>> {
        self.with(py, |router| router.loads()).into_pyarray(py)
    }

    /// The number of present workers.
    #[getter]
    fn workers(&self, py: Python<'_>) -> usize {
        self.with(py, |router| router.workers())
    }

    /// uint32 array: the numbers of the present workers, ascending.
    #[getter]
    fn worker_numbers<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<u32>> {
        self.with(py, |router| router.worker_numbers()).into_pyarray(py)
    }

    /// The registry name of the grouping.
    #[getter]
    fn grouping(&self) -> &str {
        &self.name
    }

    /// The number of the source.
    #[getter]
    fn source(&self) -> u32 {
        self.source
    }

    /// Return where a key's next message may go. Most groupings look ahead on a copy of their state.
    ///
    /// Args:
    ///     key: One key, of any type that a list of keys may hold.
    ///
    /// Returns:
    ///     uint32 array of the distinct candidates, in the order in which ties are broken.
    ///
    /// Raises:
    ///     TypeError: ``key`` is of an unsupported type.
    ///     ValueError: ``key`` has no hash, such as an integer beyond 64 bits.
    fn candidates<'py>(&self, py: Python<'py>, key: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyArray1<u32>>> {
        let hash = Key::read(key)?.hash(&self.hasher);
        Ok(self.with(py, |router| router.candidates(KeyHash(hash))).into_pyarray(py))
    }

    /// Save the state: a router restored from it continues exactly.
    ///
    /// Returns:
    ///     Bytes with a version and a checksum.
    fn snapshot<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.with(py, |router| router.snapshot()))
    }

    /// Add a worker, in elastic groupings.
    ///
    /// Returns:
    ///     The number of the new worker, the lowest that no present worker has.
    ///
    /// Raises:
    ///     ValueError: The grouping has a fixed number of workers, or no room for another one.
    ///
    /// Example:
    ///     >>> from keysplit import Router
    ///     >>> router = Router("ring", {"workers": 3, "seed": 0, "virtual_nodes": 10}, source=0)
    ///     >>> router.remove_worker(1)
    ///     >>> router.worker_numbers.tolist()
    ///     [0, 2]
    ///     >>> router.add_worker(), router.add_worker()
    ///     (1, 3)
    fn add_worker(&self, py: Python<'_>) -> PyResult<u32> {
        self.with(py, |router| router.add_worker()).map(|worker| worker.0).map_err(raised)
    }

    /// Remove a worker, in elastic groupings. What it was sent stays in the loads.
    ///
    /// Args:
    ///     worker: The number of a present worker that is not the last one.
    ///
    /// Raises:
    ///     TypeError: ``worker`` is not an integer.
    ///     ValueError: The grouping has a fixed number of workers, or ``worker`` is not present or the last one.
    fn remove_worker(&self, py: Python<'_>, worker: &Bound<'_, PyAny>) -> PyResult<()> {
        let worker = integer("worker", worker, 0..=u32::MAX.into())? as u32;
        self.with(py, |router| router.remove_worker(Worker(worker))).map_err(raised)
    }

    /// Report the state of the workers; groupings that need no feedback only check it.
    ///
    /// Args:
    ///     now: Seconds on the caller's monotonic clock, in -1e12..=1e12.
    ///     busy: Overloaded workers, in the order of their signals.
    ///     idle: Underloaded workers, in the order of their signals.
    ///     service_time_s: Seconds per message of weight 1, in 1e-12..=1e12: one number, or one per worker number,
    ///         ``len(router.loads)`` in all; those of absent workers are not used.
    ///     loads: What all other sources together have sent, finite and at least 0, one per worker number.
    ///
    /// Raises:
    ///     TypeError: An argument is of the wrong type.
    ///     ValueError: A worker, a time or a number of values is out of range.
    #[pyo3(signature = (*, now = None, busy = None, idle = None, service_time_s = None, loads = None))]
    fn observe(
        &self,
        py: Python<'_>,
        now: Option<&Bound<'_, PyAny>>,
        busy: Option<&Bound<'_, PyAny>>,
        idle: Option<&Bound<'_, PyAny>>,
        service_time_s: Option<&Bound<'_, PyAny>>,
        loads: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let now = now_of(now)?;
        let end = self.with(py, |router| router.numbers());
        let workers = |name, given: Option<&Bound<'_, PyAny>>| {
            given.map(|given| workers_of(name, given, end as u64)).transpose().map(Option::unwrap_or_default)
        };
        let (busy, idle) = (workers("busy", busy)?, workers("idle", idle)?);
        let service_time_s = service_time_s.map(|given| one_or_each("service_time_s", given)).transpose()?;
        let loads = loads.map(|given| numbers("loads", given, Numbers::Any)).transpose()?;
        self.with(py, |router| {
            let service_time_s = service_time_s.map(|given| match given {
                OneOrEach::One(number) => vec![number; router.numbers()],
                OneOrEach::Each(numbers) => numbers,
            });
            let (service_time_s, loads) = (service_time_s.as_deref(), loads.as_deref());
            router.observe(&Feedback { now, busy: &busy, idle: &idle, service_time_s, loads })
        })
        .map_err(raised)
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let pairs: Vec<String> = self
            .params
            .bind(py)
            .iter()
            .map(|(name, value)| Ok(format!("{name}={}", value.repr()?)))
            .collect::<PyResult<_>>()?;
        Ok(format!("<Router {}({}), source {}>", self.name, pairs.join(", "), self.source))
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let arguments = (&self.name, &self.params, self.source, self.snapshot(py));
        (py.get_type::<Self>(), arguments).into_pyobject(py)
    }
}

/// One number for all workers, or one per worker.
enum OneOrEach {
    One(f64),
    Each(Vec<f64>),
}

fn one_or_each(name: &str, given: &Bound<'_, PyAny>) -> PyResult<OneOrEach> {
    match number(given)? {
        Some(number) => Ok(OneOrEach::One(number)),
        None => numbers(name, given, Numbers::Any).map(OneOrEach::Each),
    }
}

/// Reads a time.
fn now_of(given: Option<&Bound<'_, PyAny>>) -> PyResult<Option<f64>> {
    let Some(given) = given else { return Ok(None) };
    match number(given)? {
        None => Err(PyTypeError::new_err(format!("now must be a number, got {}", shown(given)?))),
        now => Ok(now),
    }
}

/// Routes a batch. All checks come before its first message is routed.
fn route(router: &mut CoreRouter, keys: &Keys, weights: Option<&[f64]>, now: Option<f64>) -> PyResult<Vec<u32>> {
    router.advance(now).map_err(raised)?;
    let (mut workers, mut from, whole) = (vec![0; keys.len()], 0, router.segment_messages().is_some());
    let mut block = |hashes: &[u64]| {
        let range = from..from + hashes.len();
        from = range.end;
        let weights = weights.map(|weights| &weights[range.clone()]);
        router.route(&Batch { hashes, weights, now }, &mut workers[range]).map_err(raised)
    };
    if whole {
        let mut all = Vec::with_capacity(keys.len());
        keys.blocks(|hashes| {
            all.extend_from_slice(hashes);
            Ok(())
        })?;
        block(&all)?;
    } else {
        keys.blocks(block)?;
    }
    Ok(workers)
}

//! One router class for all groupings.

use std::sync::{Mutex, MutexGuard, PoisonError};

use keysplit_core::hash::KeyHasher;
use keysplit_core::{Batch, Router as CoreRouter};
use numpy::{IntoPyArray, PyArray1};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyTuple};

use crate::keys::{Key, Keys, Numbers, numbers, weights_of, workers_of};
use crate::params::{integer, params, raised};

/// One source's local view of one grouping: it decides, message by message, which worker each goes to.
///
/// Made by the ``router`` method of a grouping's parameters. Routing a batch equals routing its messages one at a
/// time, wherever the stream is cut. A router depends on its parameters, its source number and what it was given,
/// never on a clock or a global random generator. Threads may share one: a call is atomic, and the interpreter is
/// free while it runs.
///
/// Args:
///     name: Registry name of the grouping.
///     params: The grouping's parameters by name, ``workers`` and ``seed`` among them.
///     source: Number of the source, in 0..=2**32 - 1; sources of one stream draw and take turns differently.
///     snapshot: What ``snapshot`` gave for the same grouping, parameters and source, to continue from.
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
    workers: usize,
    hasher: KeyHasher,
    /// Waited for only while detached from the interpreter: whoever holds it may be waiting to attach.
    state: Mutex<CoreRouter>,
}

impl Router {
    fn lock(&self) -> MutexGuard<'_, CoreRouter> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn with<T: Send>(&self, py: Python<'_>, run: impl FnOnce(&mut CoreRouter) -> T + Send) -> T {
        py.detach(|| run(&mut self.lock()))
    }

    fn fixed(&self) -> PyErr {
        PyValueError::new_err(format!("{} has a fixed number of workers, {}", self.name, self.workers))
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
        let checked = self::params(params)?;
        let router = match snapshot {
            None => CoreRouter::new(&name, &checked, source),
            Some(bytes) => {
                let Ok(bytes) = bytes.cast::<PyBytes>() else {
                    let text = format!("snapshot must be bytes, got {}", bytes.get_type().name()?);
                    return Err(PyTypeError::new_err(text));
                };
                CoreRouter::from_snapshot(&name, &checked, source, bytes.as_bytes())
            }
        };
        let router = router.map_err(raised)?;
        let seed = params.get_item("seed")?.map_or(Ok(0), |seed| integer("seed", &seed, 0..=u64::MAX))?;
        Ok(Self {
            name,
            params: params.copy()?.unbind(),
            source,
            workers: router.loads().len(),
            hasher: KeyHasher::new(seed),
            state: Mutex::new(router),
        })
    }

    /// Choose a worker for each message, in order.
    ///
    /// Args:
    ///     keys: One key a message: an Arrow array or stream (pyarrow, pandas, polars, ...), a NumPy array, a list or
    ///         a tuple of integers from -2**63 to 2**64 - 1, strings, bytes, booleans, dates, timestamps, decimals
    ///         or None. A null is a key like any other.
    ///     weights: What each message adds to the load of its worker, finite and at least 0; 1 each if None.
    ///     now: Seconds on the caller's clock, finite, never going back; for groupings that use time.
    ///
    /// Returns:
    ///     uint32 array of shape ``(len(keys),)``, of workers in ``0..workers``.
    ///
    /// Raises:
    ///     TypeError: ``keys`` is not a column of keys, or of floats; ``weights`` or ``now`` are not numbers.
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
        now: Option<f64>,
    ) -> PyResult<Bound<'py, PyArray1<u32>>> {
        let keys = Keys::read(keys, &self.hasher)?;
        let weights = weights.map(|given| weights_of(given, keys.len())).transpose()?;
        let workers = self.with(py, |router| route(router, &keys, weights.as_deref(), now))?;
        Ok(workers.into_pyarray(py))
    }

    /// float64 array of shape ``(workers,)``: the sum of weights that this source has sent to each worker.
    #[getter]
    fn loads<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f64>> {
        self.with(py, |router| router.loads()).into_pyarray(py)
    }

    /// The number of workers.
    #[getter]
    fn workers(&self) -> usize {
        self.workers
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

    /// Tell where a key's next message may go.
    ///
    /// Args:
    ///     key: One key, of any type that a list of keys may hold.
    ///
    /// Returns:
    ///     uint32 array of the different candidates, in the order in which ties are decided.
    ///
    /// Raises:
    ///     TypeError: ``key`` is of a type that no key has.
    ///     ValueError: ``key`` has no hash, such as an integer beyond 64 bits.
    fn candidates<'py>(&self, py: Python<'py>, key: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyArray1<u32>>> {
        let hash = Key::read(key)?.hash(&self.hasher);
        Ok(self.with(py, |router| router.candidates(hash)).into_pyarray(py))
    }

    /// Save the state: a router made from it continues exactly as this one would.
    ///
    /// Returns:
    ///     Bytes with a version and a checksum.
    fn snapshot<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.with(py, |router| router.snapshot()))
    }

    /// Add a worker, in groupings that are elastic.
    ///
    /// Returns:
    ///     The number of the new worker.
    ///
    /// Raises:
    ///     ValueError: The grouping has a fixed number of workers.
    fn add_worker(&self) -> PyResult<usize> {
        Err(self.fixed())
    }

    /// Remove a worker, in groupings that are elastic.
    ///
    /// Args:
    ///     worker: The worker's number.
    ///
    /// Raises:
    ///     ValueError: The grouping has a fixed number of workers.
    #[expect(unused_variables, reason = "no grouping is elastic")]
    fn remove_worker(&self, worker: &Bound<'_, PyAny>) -> PyResult<()> {
        Err(self.fixed())
    }

    /// Tell how the workers fare; groupings that need no feedback only check it.
    ///
    /// Args:
    ///     now: Seconds on the caller's clock, finite, never going back.
    ///     busy: Workers that have become busy.
    ///     idle: Workers that have become idle.
    ///     service_time_s: Seconds that a message takes, finite and at least 0: one number, or one a worker.
    ///
    /// Raises:
    ///     TypeError: An argument is of the wrong type.
    ///     ValueError: A worker, a time or a number of values is out of range.
    #[pyo3(signature = (*, now = None, busy = None, idle = None, service_time_s = None))]
    fn observe(
        &self,
        py: Python<'_>,
        now: Option<f64>,
        busy: Option<&Bound<'_, PyAny>>,
        idle: Option<&Bound<'_, PyAny>>,
        service_time_s: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        for (name, named) in [("busy", busy), ("idle", idle)] {
            named.map(|named| workers_of(name, named, self.workers as u64)).transpose()?;
        }
        if let Some(given) = service_time_s {
            let times = match given.extract::<f64>() {
                Ok(time) => vec![time; self.workers],
                Err(error) if !error.is_instance_of::<PyTypeError>(py) => return Err(error),
                Err(_) => numbers("service_time_s", given, Numbers::Any)?,
            };
            if times.len() != self.workers {
                let text = format!("service_time_s must be one number or one a worker, got {}", times.len());
                return Err(PyValueError::new_err(text));
            }
            if let Some(time) = times.iter().find(|time| !(time.is_finite() && **time >= 0.0)) {
                let text = format!("service_time_s must be finite and at least 0, got {time:?}");
                return Err(PyValueError::new_err(text));
            }
        }
        self.with(py, |router| router.tell_time(now)).map_err(raised)
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

/// Routes a batch. Whatever can be wrong with it is found before its first message is routed.
fn route(router: &mut CoreRouter, keys: &Keys, weights: Option<&[f64]>, now: Option<f64>) -> PyResult<Vec<u32>> {
    router.tell_time(now).map_err(raised)?;
    let (mut workers, mut from) = (vec![0; keys.len()], 0);
    keys.blocks(|hashes| {
        let range = from..from + hashes.len();
        from = range.end;
        let weights = weights.map(|weights| &weights[range.clone()]);
        router.route(&Batch { hashes, weights, now }, &mut workers[range]).map_err(raised)
    })?;
    Ok(workers)
}

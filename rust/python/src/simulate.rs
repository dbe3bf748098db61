//! The simulator.

use std::sync::{Mutex, PoisonError};

use keysplit_core::hash::KeyHasher;
use keysplit_core::simulate::{
    Change, Config, Event, Latency, Options, PerWorker, Report, Simulation as CoreSimulation,
};
use numpy::{IntoPyArray, PyArrayMethods};
use pyo3::exceptions::{PyRuntimeError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors::{raised, shown};
use crate::input::{Keys, Numbers, number, numbers, weights_of};
use crate::params::{arguments, integer};

/// Blocks of keys between two checks for Ctrl-C: some million messages.
const PATIENCE: usize = 64;

/// Sources and workers in simulated time, fed in chunks; use it through ``keysplit.simulate``.
///
/// Args:
///     name: Registry name of the grouping.
///     params: The grouping's parameters by name; all but ``workers`` have defaults.
///     options: The scalar options of a simulation by name; missing ones have their defaults.
///     service_time_s: Seconds per message of weight 1 at capacity 1: one number, or one per worker.
///     capacities: Relative speeds, one per worker.
///     events: Tuples of "add", "remove" or "set_capacity", a position, a worker and a capacity; the last two are None
///         if the event has none.
///
/// Raises:
///     TypeError: An argument is of the wrong type.
///     ValueError: An argument is out of range, or an event cannot happen.
#[pyclass(frozen, module = "keysplit._core")]
pub(crate) struct Simulation {
    hasher: KeyHasher,
    /// None once it has ended or failed. Locked only while detached from the interpreter.
    state: Mutex<Option<CoreSimulation>>,
}

impl Simulation {
    /// Takes the simulation; a caller that does not put it back ends it.
    fn take(&self) -> PyResult<CoreSimulation> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.take().ok_or_else(|| PyRuntimeError::new_err("the simulation has ended or is running in another thread"))
    }
}

#[pymethods]
impl Simulation {
    #[new]
    #[pyo3(signature = (name, params, options, *, service_time_s = None, capacities = None, events = Vec::new()))]
    fn new(
        name: &str,
        params: &Bound<'_, PyDict>,
        options: &Bound<'_, PyDict>,
        service_time_s: Option<&Bound<'_, PyAny>>,
        capacities: Option<&Bound<'_, PyAny>>,
        events: Vec<Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let config = Config {
            options: Options::read(&arguments(options)?).map_err(raised)?,
            service_time_s: service_time_s.map(per_worker).transpose()?,
            capacities: capacities.map(|given| numbers("capacities", given, Numbers::Any)).transpose()?,
            events: events.iter().map(event).collect::<PyResult<_>>()?,
        };
        let simulation = CoreSimulation::new(name, &arguments(params)?, &config).map_err(raised)?;
        let seed = params.get_item("seed")?.map_or(Ok(0), |seed| integer("seed", &seed, 0..=u64::MAX))?;
        Ok(Self { hasher: KeyHasher::new(seed), state: Mutex::new(Some(simulation)) })
    }

    /// Send the next messages of the stream.
    ///
    /// Args:
    ///     keys: One key per message, as in ``Router.route``.
    ///     weights: What each message adds to the load of its worker, finite and at least 0; default 1.
    ///     threads: How many threads may be used, at least 1. The result does not depend on it.
    ///
    /// Raises:
    ///     TypeError: ``keys`` is not a column of keys, or holds floats; ``weights`` are not numbers.
    ///     ValueError: A key has no hash, or ``weights`` are out of range. Nothing has been sent then.
    ///     RuntimeError: The simulation has ended: ``finish`` was called, or it failed.
    #[pyo3(signature = (keys, weights = None, threads = 1))]
    fn add(
        &self,
        py: Python<'_>,
        keys: &Bound<'_, PyAny>,
        weights: Option<&Bound<'_, PyAny>>,
        threads: usize,
    ) -> PyResult<usize> {
        let keys = Keys::read(keys, &self.hasher)?;
        let weights = weights.map(|given| weights_of(given, keys.len())).transpose()?;
        py.detach(|| {
            let mut simulation = self.take()?;
            simulation.use_threads(threads);
            let (mut from, mut blocks) = (0, 0);
            keys.blocks(|hashes| {
                let range = from..from + hashes.len();
                from = range.end;
                blocks += 1;
                if blocks % PATIENCE == 0 {
                    Python::attach(|py| py.check_signals())?;
                }
                simulation.add(hashes, weights.as_ref().map(|weights| &weights[range])).map_err(raised)
            })?;
            *self.state.lock().unwrap_or_else(PoisonError::into_inner) = Some(simulation);
            Ok(keys.len())
        })
    }

    /// End the stream and return all figures.
    ///
    /// Returns:
    ///     Numbers and NumPy arrays by name; those of the timing model are None without one.
    ///
    /// Raises:
    ///     ValueError: The stream did not have the given length.
    ///     RuntimeError: The simulation has already ended.
    fn finish<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let report = py.detach(|| self.take()?.finish().map_err(raised))?;
        as_dict(py, report)
    }
}

fn as_dict(py: Python<'_>, report: Report) -> PyResult<Bound<'_, PyDict>> {
    let (numbers, mean_imbalance) = (report.loads.len(), report.samples.mean_imbalance());
    // Numbers assigned later had no queue.
    let table = |mut rows: Vec<Vec<f64>>, absent: f64| {
        let samples = rows.len();
        rows.iter_mut().for_each(|row| row.resize(numbers, absent));
        rows.concat().into_pyarray(py).reshape([samples, numbers])
    };
    let dict = PyDict::new(py);
    dict.set_item("messages", report.messages)?;
    dict.set_item("loads", report.loads.into_pyarray(py))?;
    dict.set_item("imbalance", report.imbalance)?;
    dict.set_item("relative_imbalance", report.relative_imbalance)?;
    dict.set_item("load_stddev", report.load_stddev)?;
    dict.set_item("mean_imbalance", mean_imbalance)?;
    dict.set_item("keys", report.keys)?;
    dict.set_item("pairs", report.pairs)?;
    dict.set_item("level", report.level)?;
    let positions: Vec<i64> = report.samples.positions.into_iter().map(|position| position as i64).collect();
    dict.set_item("positions", positions.into_pyarray(py))?;
    dict.set_item("imbalances", report.samples.imbalances.into_pyarray(py))?;
    let Some(times) = report.times else { return Ok(dict) };
    let Latency { mean, p50, p95, p99, max } = times.latency_s;
    let latency_s = PyDict::new(py);
    for (name, value) in [("mean", mean), ("p50", p50), ("p95", p95), ("p99", p99), ("max", max)] {
        latency_s.set_item(name, value)?;
    }
    dict.set_item("latency_s", latency_s)?;
    dict.set_item("makespan_s", times.makespan_s)?;
    dict.set_item("utilisation", times.utilisation.into_pyarray(py))?;
    dict.set_item("queues", table(report.samples.queues, 0.0)?)?;
    dict.set_item("latencies_s", table(report.samples.latencies_s, f64::NAN)?)?;
    Ok(dict)
}

fn per_worker(given: &Bound<'_, PyAny>) -> PyResult<PerWorker> {
    match number(given)? {
        Some(number) => Ok(PerWorker::All(number)),
        None => numbers("service_time_s", given, Numbers::Any).map(PerWorker::Each),
    }
}

fn event(given: &Bound<'_, PyAny>) -> PyResult<Event> {
    let (kind, position, worker, capacity): (String, Bound<'_, PyAny>, Bound<'_, PyAny>, Bound<'_, PyAny>) =
        given.extract()?;
    let position = integer("position", &position, 0..=1 << 53)?;
    let worker = || integer("worker", &worker, 0..=u32::MAX.into()).map(|worker| worker as u32);
    let capacity = || match number(&capacity)? {
        Some(capacity) => Ok(capacity),
        None => Err(PyTypeError::new_err(format!("capacity must be a number, got {}", shown(&capacity)?))),
    };
    let change = match kind.as_str() {
        "add" => Change::Add { capacity: capacity()? },
        "remove" => Change::Remove { worker: worker()? },
        _ => Change::SetCapacity { worker: worker()?, capacity: capacity()? },
    };
    Ok(Event { position, change })
}

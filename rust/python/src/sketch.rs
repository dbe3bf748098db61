//! SpaceSaving with the original keys.

use std::sync::{Mutex, MutexGuard, PoisonError};

use keysplit_core::KeyHash;
use keysplit_core::hash::KeyHasher;
use keysplit_core::sketch::{Origin, SpaceSaving as CoreSketch};
use keysplit_core::snapshot::Frame;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyFloat, PyType};

use crate::errors::raised;
use crate::input::{Key, Keys, Originals, weights_of};
use crate::params::integer;

type Any<'py> = Bound<'py, PyAny>;

/// The version of saved sketches.
const VERSION: u32 = 1;

/// SpaceSaving: the frequent keys of a stream in a fixed number of counters.
///
/// With N the sum of all weights and k the capacity: a key's true count lies in ``count - error .. count``, no error
/// exceeds N/k, and every key above N/k has a counter. Merging keeps all three. Threads may share a sketch.
///
/// Args:
///     capacity: The number of counters, in 1..=2**28; memory is allocated as keys arrive.
///
/// Raises:
///     TypeError: ``capacity`` is not an integer.
///     ValueError: ``capacity`` is out of range.
///
/// Source:
///     Metwally, Agrawal, El Abbadi, "Efficient Computation of Frequent and Top-k Elements in Data Streams", ICDT
///     2005. Merging: Berinde, Indyk, Cormode, Strauss, "Space-optimal Heavy Hitters with Strong Error Bounds", TODS
///     2010.
///
/// Deviations:
///     Of several smallest counters, a new key takes the one in the lowest slot; the paper leaves this open. Keys
///     with equal 64-bit hashes are one key.
///
/// Example:
///     >>> from keysplit import SpaceSaving
///     >>> sketch = SpaceSaving(capacity=2)
///     >>> sketch.update(["a", "a", "a", "b", "c"])
///     >>> sketch.top(2)
///     [('a', 3, 0), ('c', 2, 1)]
///     >>> sketch.total
///     5
#[pyclass(frozen, module = "keysplit")]
pub(crate) struct SpaceSaving {
    capacity: usize,
    /// Locked only while detached from the interpreter.
    state: Mutex<State>,
}

#[derive(Clone)]
struct State {
    sketch: CoreSketch,
    /// The key of each slot.
    keys: Vec<Key<'static>>,
    /// One plus the position in the current batch of each slot's new key; 0 between batches.
    taken: Vec<usize>,
}

impl State {
    fn new(sketch: CoreSketch, keys: Vec<Key<'static>>) -> Self {
        let taken = vec![0; keys.len()];
        Self { sketch, keys, taken }
    }

    /// Counts the messages of a batch.
    fn update(&mut self, keys: &Keys, originals: &Originals, weights: Option<&[f64]>) -> PyResult<()> {
        let Self { sketch, taken, .. } = self;
        let (mut from, mut changed) = (0, Vec::new());
        keys.blocks(|hashes| {
            let to = from + hashes.len();
            sketch.update(hashes, weights.map(|weights| &weights[from..to]), |row, touched| {
                if touched.fresh {
                    if touched.slot == taken.len() {
                        taken.push(0);
                    }
                    if taken[touched.slot] == 0 {
                        changed.push(touched.slot);
                    }
                    taken[touched.slot] = from + row + 1;
                }
            });
            from = to;
            Ok(())
        })?;
        self.keys.resize(self.taken.len(), Key::Null);
        for slot in changed {
            self.keys[slot] = originals.key(self.taken[slot] - 1);
            self.taken[slot] = 0;
        }
        Ok(())
    }

    /// Adds another sketch.
    fn merge(&mut self, other: &Self) -> PyResult<()> {
        let origins = self.sketch.merge(&other.sketch).map_err(raised)?;
        let key = |origin| match origin {
            Origin::Ours(slot) => self.keys[slot].clone(),
            Origin::Theirs(slot) => other.keys[slot].clone(),
        };
        self.keys = origins.into_iter().map(key).collect();
        self.taken = vec![0; self.keys.len()];
        Ok(())
    }

    fn to_bytes(&self) -> Vec<u8> {
        let saved = (self.sketch.capacity() as u64, self.sketch.save(), &self.keys);
        // Serialising plain data to memory cannot fail.
        let payload = &postcard::to_stdvec(&saved).unwrap_or_default();
        Frame { family: "sketch", version: VERSION, payload }.seal()
    }

    /// Reads what `to_bytes` returned; none if it is damaged. Newer versions are an error.
    fn from_bytes(bytes: &[u8]) -> keysplit_core::Result<Option<Self>> {
        let Some(frame) = Frame::open(bytes).filter(|frame| frame.family == "sketch") else { return Ok(None) };
        frame.check_version("data", VERSION)?;
        Ok(Self::of_payload(frame.payload))
    }

    fn of_payload(payload: &[u8]) -> Option<Self> {
        let (capacity, saved, keys): (u64, _, Vec<Key<'static>>) = postcard::from_bytes(payload).ok()?;
        let mut sketch = CoreSketch::new(capacity).ok()?;
        sketch.restore(saved).ok()?;
        let hasher = KeyHasher::new(0);
        let fit = keys.iter().map(|key| key.hash(&hasher)).eq(sketch.hashes().iter().copied());
        fit.then(|| Self::new(sketch, keys))
    }
}

impl SpaceSaving {
    fn of(state: State) -> Self {
        Self { capacity: state.sketch.capacity(), state: Mutex::new(state) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn with<T: Send>(&self, py: Python<'_>, run: impl FnOnce(&mut State) -> T + Send) -> T {
        py.detach(|| run(&mut self.lock()))
    }
}

#[pymethods]
impl SpaceSaving {
    #[new]
    fn new(capacity: &Any<'_>) -> PyResult<Self> {
        let sketch = CoreSketch::new(integer("capacity", capacity, 1..=CoreSketch::MAX_CAPACITY)?).map_err(raised)?;
        Ok(Self::of(State::new(sketch, Vec::new())))
    }

    /// Count messages.
    ///
    /// Args:
    ///     keys: One key per message: an Arrow array or stream (pyarrow, pandas, polars, ...), a NumPy array, a list or
    ///         a tuple of integers from -2**63 to 2**64 - 1, strings, bytes, booleans, dates, timestamps, decimals or
    ///         None.
    ///     weights: What each message adds to the count of its key, finite and at least 0; default 1.
    ///
    /// Raises:
    ///     TypeError: ``keys`` is not a column of keys, or holds floats; ``weights`` are not numbers.
    ///     ValueError: A key has no hash, such as an integer beyond 64 bits, or ``weights`` are out of range. Nothing
    ///         has been counted then.
    #[pyo3(signature = (keys, weights = None))]
    fn update(&self, py: Python<'_>, keys: &Any<'_>, weights: Option<&Any<'_>>) -> PyResult<()> {
        let (keys, originals) = Keys::read_with_originals(keys, &KeyHasher::new(0))?;
        let weights = weights.map(|given| weights_of(given, keys.len())).transpose()?;
        self.with(py, |state| state.update(&keys, &originals, weights.as_deref()))
    }

    /// Estimate the count of a key.
    ///
    /// Args:
    ///     key: One key, of any type that a list of keys may hold.
    ///
    /// Returns:
    ///     ``(count, error)``: the true count lies in ``count - error .. count``. Integers while all weights were whole
    ///     numbers, else floats.
    ///
    /// Raises:
    ///     TypeError: ``key`` is of an unsupported type.
    ///     ValueError: ``key`` has no hash, such as an integer beyond 64 bits.
    fn estimate<'py>(&self, key: &Any<'py>) -> PyResult<(Any<'py>, Any<'py>)> {
        let (py, hash) = (key.py(), Key::read(key)?.hash(&KeyHasher::new(0)));
        let ((count, error), whole) =
            self.with(py, |state| (state.sketch.estimate(KeyHash(hash)), state.sketch.is_whole()));
        Ok((number(py, count, whole)?, number(py, error, whole)?))
    }

    /// List the most frequent keys.
    ///
    /// Args:
    ///     k: How many at most, at least 0.
    ///
    /// Returns:
    ///     ``(key, count, error)`` of each, by descending count. Keys are returned as Python objects: a date as
    ///     ``datetime.date``; a timestamp with a time zone as ``datetime.datetime`` in UTC, one without as a naive one;
    ///     if ``datetime`` cannot represent it (nanoseconds, years beyond 9999), as ``numpy.datetime64``.
    ///
    /// Raises:
    ///     TypeError: ``k`` is not an integer.
    ///     ValueError: ``k`` is below 0.
    fn top<'py>(&self, k: &Any<'py>) -> PyResult<Vec<(Any<'py>, Any<'py>, Any<'py>)>> {
        let py = k.py();
        let limit = usize::try_from(integer("k", k, 0..=u64::MAX)?).unwrap_or(usize::MAX);
        let (top, whole) = self.with(py, |state| {
            let slots = state.sketch.top(limit).into_iter();
            let counter = |slot: usize| (state.keys[slot].clone(), state.sketch.count(slot), state.sketch.error(slot));
            (slots.map(counter).collect::<Vec<_>>(), state.sketch.is_whole())
        });
        top.into_iter()
            .map(|(key, count, error)| Ok((key.to_python(py)?, number(py, count, whole)?, number(py, error, whole)?)))
            .collect()
    }

    /// The sum of all weights: an integer while all weights were whole numbers, else a float.
    #[getter]
    fn total<'py>(&self, py: Python<'py>) -> PyResult<Any<'py>> {
        let (total, whole) = self.with(py, |state| (state.sketch.total(), state.sketch.is_whole()));
        number(py, total, whole)
    }

    /// The number of counters.
    #[getter]
    fn capacity(&self) -> usize {
        self.capacity
    }

    /// Add the counts of another sketch.
    ///
    /// The bounds hold for the merged sketch as for one sketch over both streams.
    ///
    /// Args:
    ///     other: A sketch of the same capacity; it is not changed.
    ///
    /// Raises:
    ///     TypeError: ``other`` is not a SpaceSaving.
    ///     ValueError: ``other`` has another capacity.
    fn merge(&self, other: &Any<'_>) -> PyResult<()> {
        let py = other.py();
        let Ok(other) = other.cast::<Self>() else {
            let text = format!("other must be a SpaceSaving, got {}", other.get_type().name()?);
            return Err(PyTypeError::new_err(text));
        };
        // Copied first: holding both locks could deadlock two threads that merge in opposite directions.
        let other = other.get().with(py, |state| state.clone());
        self.with(py, |state| state.merge(&other))
    }

    /// Save the sketch.
    ///
    /// Returns:
    ///     Bytes with a version and a checksum, which ``from_bytes`` reads.
    fn to_bytes<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.with(py, |state| state.to_bytes()))
    }

    /// Read what ``to_bytes`` returned; the sketch continues exactly.
    ///
    /// Args:
    ///     data: The bytes.
    ///
    /// Raises:
    ///     TypeError: ``data`` is not bytes.
    ///     ValueError: ``data`` is damaged, not a sketch, or of a newer version.
    ///
    /// Example:
    ///     >>> from keysplit import SpaceSaving
    ///     >>> sketch = SpaceSaving(capacity=10)
    ///     >>> sketch.update([None, 7, 7])
    ///     >>> SpaceSaving.from_bytes(sketch.to_bytes()).estimate(7)
    ///     (2, 0)
    #[classmethod]
    fn from_bytes(_class: &Bound<'_, PyType>, data: &Bound<'_, PyBytes>) -> PyResult<Self> {
        let (py, bytes) = (data.py(), data.as_bytes());
        py.detach(|| State::from_bytes(bytes)).map_err(raised)?.map(Self::of).ok_or_else(|| {
            PyValueError::new_err("data must be the output of SpaceSaving.to_bytes: it is damaged or not a sketch")
        })
    }

    fn __len__(&self, py: Python<'_>) -> usize {
        self.with(py, |state| state.sketch.len())
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let total = self.total(py)?;
        Ok(format!("<SpaceSaving(capacity={}), {} keys held, total {total}>", self.capacity, self.__len__(py)))
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Any<'py>, (Bound<'py, PyBytes>,))> {
        Ok((py.get_type::<Self>().getattr("from_bytes")?, (self.to_bytes(py),)))
    }
}

/// A count as Python shows it.
fn number(py: Python<'_>, count: f64, whole: bool) -> PyResult<Any<'_>> {
    let count = PyFloat::new(py, count);
    if whole && count.value().is_finite() { count.call_method0("__int__") } else { Ok(count.into_any()) }
}

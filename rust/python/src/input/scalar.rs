//! One key: from a Python object and back.

use std::borrow::Cow;

use keysplit_core::hash::KeyHasher;
use pyo3::IntoPyObjectExt;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{IntoPyDict, PyBool, PyByteArray, PyBytes, PyFloat, PyInt, PyString, PyTuple, PyType};

use super::key::{Key, float_refused, refused};
use super::numpy;
use crate::errors::shown;

impl<'a> Key<'a> {
    /// The hash of a Python scalar.
    #[inline]
    pub(crate) fn hash_of(object: &Bound<'_, PyAny>, hasher: &KeyHasher) -> PyResult<u64> {
        // Most objects are strings, which are faster told from others than from their subclasses.
        match object.cast_exact::<PyString>().map(PyStringMethods::to_str) {
            Ok(Ok(text)) => Ok(hasher.string(text.as_bytes())),
            _ => Ok(Key::read(object)?.hash(hasher)),
        }
    }

    /// Reads a Python scalar.
    pub(crate) fn read(object: &'a Bound<'_, PyAny>) -> PyResult<Self> {
        if let Ok(text) = object.cast::<PyString>() {
            return match text.to_str() {
                Ok(text) => Ok(Self::Text(Cow::Borrowed(text))),
                Err(_) => {
                    let text = shown(object)?;
                    Err(PyValueError::new_err(format!("keys must be strings without lone surrogates, got {text}")))
                }
            };
        }
        if object.is_none() {
            return Ok(Self::Null);
        }
        if let Ok(truth) = object.cast::<PyBool>() {
            return Ok(Self::Bool(truth.is_true()));
        }
        if object.is_instance_of::<PyInt>() {
            return match object.extract::<i64>() {
                Ok(number) => Ok(Self::Whole(number.into())),
                Err(_) => object.extract::<u64>().map(|number| Self::Whole(number.into())).or_else(|_| {
                    let number = shown(object)?;
                    Err(PyValueError::new_err(format!("keys must be in -2**63..=2**64-1 if integers, got {number}")))
                }),
            };
        }
        if let Ok(bytes) = object.cast::<PyBytes>() {
            return Ok(Self::Bytes(Cow::Borrowed(bytes.as_bytes())));
        }
        if let Ok(bytes) = object.cast::<PyByteArray>() {
            return Ok(Self::Bytes(Cow::Owned(bytes.to_vec())));
        }
        if object.is_instance_of::<PyFloat>() {
            return Err(float_refused(&shown(object)?));
        }
        let py = object.py();
        if object.is_instance(datetime(py)?)? {
            return Self::read_time(object);
        }
        if object.is_instance(date(py)?)? {
            return Ok(Self::Date(object.call_method0("toordinal")?.extract::<i64>()? - EPOCH_ORDINAL));
        }
        if object.is_instance(decimal(py)?)? {
            return Self::read_decimal(object);
        }
        match numpy::scalar_kind(object)? {
            Some('b') => Ok(Self::Bool(object.is_truthy()?)),
            Some('i' | 'u') => Ok(Self::Whole(object.call_method0("__index__")?.extract()?)),
            Some('f') => Err(float_refused(&shown(object)?)),
            Some('M') => numpy::time(object),
            _ => Err(refused(&object.get_type().name()?.to_string_lossy())),
        }
    }

    fn read_time(object: &Bound<'_, PyAny>) -> PyResult<Key<'static>> {
        let py = object.py();
        // A pandas Timestamp has nanoseconds, which the arithmetic below would drop; its NaT is a null.
        if !object.get_type().is(datetime(py)?) && object.hasattr("to_datetime64")? {
            return Ok(match numpy::time(&object.call_method0("to_datetime64")?)? {
                Key::Time { nanoseconds, .. } => Key::Time { nanoseconds, utc: !object.getattr("tzinfo")?.is_none() },
                other => other,
            });
        }
        let utc = !object.call_method0("utcoffset")?.is_none();
        let since = object.sub(epoch(py, utc)?)?;
        let part = |name| since.getattr(name)?.extract::<i128>();
        let seconds = part("days")? * 86_400 + part("seconds")?;
        Ok(Key::Time { nanoseconds: (seconds * 1_000_000 + part("microseconds")?) * 1000, utc })
    }

    fn read_decimal(object: &Bound<'_, PyAny>) -> PyResult<Key<'static>> {
        let beyond = |what: &str| -> PyErr {
            match shown(object) {
                Ok(text) => PyValueError::new_err(format!("keys must be decimals {what}, got {text}")),
                Err(error) => error,
            }
        };
        let (negative, mut digits, exponent): (u8, Vec<u8>, Bound<'_, PyAny>) =
            object.call_method0("as_tuple")?.cast_into::<PyTuple>()?.extract()?;
        let mut exponent: i64 = exponent.extract().map_err(|_| beyond("and finite"))?;
        while digits.last() == Some(&0) {
            digits.pop();
            exponent = exponent.saturating_add(1);
        }
        if digits.is_empty() {
            return Ok(Key::Decimal { unscaled: [0; 32], scale: 0 });
        }
        let scale = exponent.checked_neg().and_then(|scale| i32::try_from(scale).ok());
        let unscaled = signed(&digits, negative == 1);
        match (unscaled, scale) {
            (Some(unscaled), Some(scale)) => Ok(Key::Decimal { unscaled, scale }),
            _ => Err(beyond("that fit 256 bits and a scale of 32")),
        }
    }

    /// The key as a Python object with the same hash.
    pub(crate) fn to_python<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        match self {
            Self::Null => Ok(py.None().into_bound(py)),
            Self::Bool(truth) => truth.into_bound_py_any(py),
            Self::Whole(number) => number.into_bound_py_any(py),
            Self::Text(text) => text.into_bound_py_any(py),
            Self::Bytes(bytes) => Ok(PyBytes::new(py, bytes).into_any()),
            Self::Date(days) => match days.checked_add(EPOCH_ORDINAL) {
                Some(ordinal @ 1..=LAST_ORDINAL) => date(py)?.call_method1("fromordinal", (ordinal,)),
                _ => numpy::datetime64(py, *days, "D"),
            },
            Self::Time { nanoseconds, utc } => time_to_python(py, *nanoseconds, *utc),
            Self::Decimal { unscaled, scale } => {
                let signed = [("signed", true)].into_py_dict(py)?;
                let unscaled = py.get_type::<PyInt>().call_method("from_bytes", (unscaled, "little"), Some(&signed))?;
                decimal(py)?.call1((format!("{unscaled}E{}", -i64::from(*scale)),))
            }
        }
    }
}

/// A datetime if one can represent it, else a NumPy one of the coarsest unit that can.
fn time_to_python(py: Python<'_>, nanoseconds: i128, utc: bool) -> PyResult<Bound<'_, PyAny>> {
    let microseconds = nanoseconds.div_euclid(1000);
    if nanoseconds % 1000 == 0 && (FIRST_MICROSECOND..=LAST_MICROSECOND).contains(&microseconds) {
        let since = py.import("datetime")?.getattr("timedelta")?.call1((0, 0, microseconds))?;
        return epoch(py, utc)?.add(since);
    }
    let units = [(1_000_000_000, "s"), (1_000_000, "ms"), (1000, "us"), (1, "ns")];
    for (length, unit) in units {
        if let (0, Ok(count)) = (nanoseconds % length, i64::try_from(nanoseconds / length)) {
            return numpy::datetime64(py, count, unit);
        }
    }
    nanoseconds.into_bound_py_any(py)
}

/// Decimal digits, the first not 0, as 256 bits of little-endian two's complement, if they fit.
fn signed(digits: &[u8], negative: bool) -> Option<[u8; 32]> {
    let mut bytes = [0u8; 32];
    for &digit in digits {
        let mut carry = u16::from(digit);
        for byte in &mut bytes {
            carry += u16::from(*byte) * 10;
            *byte = carry as u8;
            carry >>= 8;
        }
        if carry > 0 {
            return None;
        }
    }
    if negative {
        let mut carry = true;
        for byte in &mut bytes {
            (*byte, carry) = (!*byte).overflowing_add(carry.into());
        }
    }
    ((bytes[31] >> 7 == 1) == negative).then_some(bytes)
}

const EPOCH_ORDINAL: i64 = 719_163;
const LAST_ORDINAL: i64 = 3_652_059;
const FIRST_MICROSECOND: i128 = -62_135_596_800_000_000;
const LAST_MICROSECOND: i128 = 253_402_300_799_999_999;

type Held<T> = PyOnceLock<Py<T>>;

fn datetime(py: Python<'_>) -> PyResult<&Bound<'_, PyType>> {
    static HELD: Held<PyType> = Held::new();
    HELD.import(py, "datetime", "datetime")
}

fn date(py: Python<'_>) -> PyResult<&Bound<'_, PyType>> {
    static HELD: Held<PyType> = Held::new();
    HELD.import(py, "datetime", "date")
}

fn decimal(py: Python<'_>) -> PyResult<&Bound<'_, PyType>> {
    static HELD: Held<PyType> = Held::new();
    HELD.import(py, "decimal", "Decimal")
}

fn epoch(py: Python<'_>, utc: bool) -> PyResult<&Bound<'_, PyAny>> {
    static WALL: Held<PyAny> = Held::new();
    static UTC: Held<PyAny> = Held::new();
    let held = if utc { &UTC } else { &WALL };
    let epoch = held.get_or_try_init(py, || {
        let zone = if utc { Some(py.import("datetime")?.getattr("timezone")?.getattr("utc")?) } else { None };
        let midnight = (1970, 1, 1, 0, 0, 0, 0, zone);
        datetime(py)?.call1(midnight).map(Bound::unbind)
    })?;
    Ok(epoch.bind(py))
}

//! NumPy arrays and scalars.

use std::ffi::c_int;
use std::sync::Arc;

use arrow_array::builder::{LargeBinaryBuilder, PrimitiveBuilder};
use arrow_array::types::{
    ArrowPrimitiveType, Date32Type, Int8Type, Int16Type, Int32Type, Int64Type, TimestampMicrosecondType,
    TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType, UInt8Type, UInt16Type, UInt32Type,
    UInt64Type,
};
use arrow_array::{ArrayRef, BooleanArray, PrimitiveArray};
use keysplit_core::hash::KeyHasher;
use numpy::npyffi::NPY_TYPES;
use numpy::{Element, PyArray1, PyArrayDescrMethods, PyArrayMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;

use super::chunk::Chunk;
use super::key::{Key, float_refused, refused};

/// Hashes the keys from a position on; attaches to the interpreter to read them.
pub(super) type HashFrom = Box<dyn Fn(usize, &mut [u64]) -> PyResult<()> + Send + Sync>;

/// The keys of a NumPy array.
pub(super) enum Column<'py> {
    /// Contiguous integers.
    Integers(Bound<'py, PyUntypedArray>),
    /// A copy without Python objects.
    Copied(Chunk),
    /// Python objects.
    Objects(Bound<'py, PyUntypedArray>),
    /// Strings of any length, as NumPy keeps them.
    Strings(Bound<'py, PyUntypedArray>),
    Empty,
}

/// Reads an array of keys.
pub(super) fn column<'py>(array: &Bound<'py, PyUntypedArray>, hasher: &KeyHasher) -> PyResult<Column<'py>> {
    let array = &plain(array, "keys")?;
    let dtype = array.dtype();
    match dtype.kind() {
        b'i' | b'u' => Ok(Column::Integers(array.clone())),
        b'b' => {
            let bytes = elements::<u8>(array, "u1")?;
            Ok(Column::Copied(Chunk::new(
                Arc::new(BooleanArray::from_iter(bytes.iter().map(|byte| Some(*byte != 0)))),
                hasher,
            )))
        }
        b'S' => {
            let (width, bytes) = (dtype.itemsize(), elements::<u8>(array, "u1")?);
            let mut items = LargeBinaryBuilder::with_capacity(array.len(), bytes.len());
            for at in 0..array.len() {
                items.append_value(without_padding(&bytes[at * width..][..width]));
            }
            Ok(Column::Copied(Chunk::new(Arc::new(items.finish()), hasher)))
        }
        b'U' => {
            let (width, points) = (dtype.itemsize() / 4, elements::<u32>(array, "u4")?);
            let mut items = LargeBinaryBuilder::with_capacity(array.len(), points.len());
            let (mut text, mut ascii) = (String::new(), Vec::new());
            for at in 0..array.len() {
                text.clear();
                let item = without_padding(&points[at * width..][..width]);
                if item.iter().all(|&point| point < 0x80) {
                    ascii.clear();
                    ascii.extend(item.iter().map(|&point| point as u8));
                    items.append_value(&ascii);
                    continue;
                }
                for &point in item {
                    text.push(char::from_u32(point).ok_or_else(|| {
                        PyValueError::new_err(format!(
                            "keys must be strings without lone surrogates, got one with code point {point:#x} at position {at}"
                        ))
                    })?);
                }
                items.append_value(text.as_bytes());
            }
            Ok(Column::Copied(Chunk::text(Arc::new(items.finish()), hasher)))
        }
        b'M' => Ok(Column::Copied(Chunk::new(moments(array)?, hasher))),
        b'O' => Ok(Column::Objects(array.clone())),
        b'T' => Ok(Column::Strings(array.clone())),
        // NumPy makes an empty list an array of floats.
        b'f' if array.is_empty() => Ok(Column::Empty),
        b'f' => Err(float_refused(&format!("an array of {dtype}"))),
        _ => Err(refused(&format!("an array of {dtype}"))),
    }
}

/// Numbers of an array as doubles.
pub(super) fn numbers(name: &str, array: &Bound<'_, PyUntypedArray>) -> PyResult<Vec<f64>> {
    let array = plain(array, name)?.call_method1("astype", ("f8",))?;
    Ok(array.cast::<PyArray1<f64>>()?.to_vec()?)
}

/// A copy of an array whose elements must have exactly this type.
pub(crate) fn column_of<T: Element + Copy>(name: &str, object: &Bound<'_, PyAny>) -> PyResult<Vec<T>> {
    let dtype = T::get_dtype(object.py());
    let refused = |got: String| PyTypeError::new_err(format!("{name} must be a NumPy array of {dtype}, got {got}"));
    let Ok(array) = object.cast::<PyUntypedArray>() else {
        return Err(refused(object.get_type().name()?.to_string()));
    };
    if !array.dtype().is_equiv_to(&dtype) {
        return Err(refused(format!("one of {}", array.dtype())));
    }
    Ok(plain(array, name)?.cast::<PyArray1<T>>()?.to_vec()?)
}

/// Letter of a NumPy scalar's type; `None` for other objects.
pub(crate) fn scalar_kind(object: &Bound<'_, PyAny>) -> PyResult<Option<char>> {
    static GENERIC: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    if !object.is_instance(GENERIC.import(object.py(), "numpy", "generic")?)? {
        return Ok(None);
    }
    object.getattr("dtype")?.getattr("kind")?.extract().map(Some)
}

/// The key of a `datetime64` scalar.
pub(super) fn time(scalar: &Bound<'_, PyAny>) -> PyResult<Key<'static>> {
    let array = scalar.py().import("numpy")?.call_method1("atleast_1d", (scalar,))?;
    let chunk = Chunk::new(moments(&plain(array.cast()?, "keys")?)?, &KeyHasher::new(0));
    Ok(chunk.key(0).into_owned())
}

/// A `datetime64` scalar.
pub(super) fn datetime64<'py>(py: Python<'py>, count: i64, unit: &str) -> PyResult<Bound<'py, PyAny>> {
    py.import("numpy")?.call_method1("datetime64", (count, unit))
}

/// The array itself if it is one-dimensional, contiguous and in native byte order, else such a copy.
fn plain<'py>(array: &Bound<'py, PyUntypedArray>, name: &str) -> PyResult<Bound<'py, PyUntypedArray>> {
    if array.ndim() != 1 {
        return Err(PyTypeError::new_err(format!("{name} must have one dimension, got {}", array.ndim())));
    }
    let exact = array.get_type().is(array.py().get_type::<PyUntypedArray>());
    if !exact && array.hasattr("mask")? && array.hasattr("filled")? {
        let text = format!("{name} must not be a masked array: pass array.filled(...) or array.compressed()");
        return Err(PyTypeError::new_err(text));
    }
    let dtype = array.dtype();
    if array.is_c_contiguous() && array.is_aligned() && dtype.is_native_byteorder() != Some(false) {
        return Ok(array.clone());
    }
    let native = dtype.call_method1("newbyteorder", ("=",))?;
    Ok(array.py().import("numpy")?.call_method1("require", (array, native, "CA"))?.cast_into()?)
}

/// The object at a place of an array of objects; `None` past its end, and if it has become another kind of array: reading an object
/// may run Python code.
#[inline]
pub(super) fn object<'py>(array: &Bound<'py, PyUntypedArray>, at: usize) -> Option<Bound<'py, PyAny>> {
    let array_of = array.as_array_ptr();
    // SAFETY: `array` keeps the NumPy array alive. Nothing here runs Python code, so what is read of it belongs together: it has one
    // dimension of objects, of which one is at this place, aligned or not. NumPy takes a null pointer for None.
    let object = unsafe {
        let fields = &(*array_of).fields;
        let holds_objects = fields.nd == 1 && (*fields.descr).fields.type_num == NPY_TYPES::NPY_OBJECT as c_int;
        if !holds_objects || at >= *fields.dimensions as usize {
            return None;
        }
        let place = fields.data.offset(at as isize * *fields.strides).cast::<*mut ffi::PyObject>();
        Bound::from_borrowed_ptr_or_opt(array.py(), place.read_unaligned())
    };
    Some(object.unwrap_or_else(|| array.py().None().into_bound(array.py())))
}

/// A view of a plain array's elements as another type.
fn elements<T: Element + Copy>(array: &Bound<'_, PyUntypedArray>, as_type: &str) -> PyResult<Vec<T>> {
    if array.is_empty() || array.dtype().itemsize() == 0 {
        return Ok(Vec::new());
    }
    let view = array.call_method1("view", (as_type,))?;
    Ok(view.cast::<PyArray1<T>>()?.to_vec()?)
}

fn without_padding<T: Copy + Default + PartialEq>(item: &[T]) -> &[T] {
    let end = item.iter().rposition(|element| *element != T::default()).map_or(0, |last| last + 1);
    &item[..end]
}

/// Integers of one width.
trait Integer: ArrowPrimitiveType<Native: Element> {
    fn hash(hasher: &KeyHasher, values: &[Self::Native], hashes: &mut [u64]);
}

macro_rules! integers {
    ($($method:ident: $($width:ident)*;)*) => {
        $($(impl Integer for $width {
            fn hash(hasher: &KeyHasher, values: &[Self::Native], hashes: &mut [u64]) {
                hasher.$method(values, hashes);
            }
        })*)*

        /// A way to hash the integers of a plain array in place.
        pub(super) fn in_place(array: &Bound<'_, PyUntypedArray>, hasher: &KeyHasher) -> PyResult<HashFrom> {
            None$($(.or_else(|| in_place_of::<$width>(array, hasher)))*)*.ok_or_else(|| of_no_width(array))
        }

        /// A copy of the integers of a plain array.
        pub(super) fn copied(array: &Bound<'_, PyUntypedArray>, hasher: &KeyHasher) -> PyResult<Chunk> {
            let copy = None$($(.or_else(|| copied_of::<$width>(array)))*)*.ok_or_else(|| of_no_width(array))?;
            Ok(Chunk::new(copy, hasher))
        }
    };
}

integers! {
    signed_column: Int64Type Int32Type Int16Type Int8Type;
    unsigned_column: UInt64Type UInt32Type UInt16Type UInt8Type;
}

fn of_no_width(array: &Bound<'_, PyUntypedArray>) -> PyErr {
    refused(&format!("an array of {}", array.dtype()))
}

fn in_place_of<T: Integer>(array: &Bound<'_, PyUntypedArray>, hasher: &KeyHasher) -> Option<HashFrom> {
    let (array, hasher) = (array.cast::<PyArray1<T::Native>>().ok()?.clone().unbind(), hasher.clone());
    Some(Box::new(move |from, hashes| {
        Python::attach(|py| {
            let array = array.bind(py).try_readonly()?;
            let values = array.as_slice().ok().and_then(|values| values.get(from..from + hashes.len()));
            let changed = || PyRuntimeError::new_err("keys changed their length while they were read");
            T::hash(&hasher, values.ok_or_else(changed)?, hashes);
            Ok(())
        })
    }))
}

fn copied_of<T: Integer>(array: &Bound<'_, PyUntypedArray>) -> Option<ArrayRef> {
    let values = array.cast::<PyArray1<T::Native>>().ok()?.to_vec().ok()?;
    Some(Arc::new(PrimitiveArray::<T>::new(values.into(), None)))
}

/// Dates or wall-clock times of a plain `datetime64` array; NaT is null.
fn moments(array: &Bound<'_, PyUntypedArray>) -> PyResult<ArrayRef> {
    let numpy = array.py().import("numpy")?;
    let (unit, count): (String, i64) = numpy.call_method1("datetime_data", (array.dtype(),))?.extract()?;
    if let "Y" | "M" | "W" | "D" = unit.as_str() {
        let days = array.call_method1("astype", ("M8[D]",))?;
        return scaled::<Date32Type>(days.cast()?, 1);
    }
    match unit.as_str() {
        "h" => scaled::<TimestampSecondType>(array, count.saturating_mul(3600)),
        "m" => scaled::<TimestampSecondType>(array, count.saturating_mul(60)),
        "s" => scaled::<TimestampSecondType>(array, count),
        "ms" => scaled::<TimestampMillisecondType>(array, count),
        "us" => scaled::<TimestampMicrosecondType>(array, count),
        // NaT alone has the unit "generic".
        "ns" | "generic" => scaled::<TimestampNanosecondType>(array, count),
        _ => {
            let text = format!("keys must be timestamps of nanoseconds or coarser, got datetime64[{unit}]");
            Err(PyTypeError::new_err(text))
        }
    }
}

/// The scaled ticks of a `datetime64` array.
fn scaled<T>(array: &Bound<'_, PyUntypedArray>, factor: i64) -> PyResult<ArrayRef>
where
    T: ArrowPrimitiveType<Native: TryFrom<i64>>,
{
    let ticks = elements::<i64>(array, "i8")?;
    let mut moments = PrimitiveBuilder::<T>::with_capacity(ticks.len());
    for tick in ticks {
        if tick == i64::MIN {
            moments.append_null();
            continue;
        }
        let moment = tick.checked_mul(factor).and_then(|moment| T::Native::try_from(moment).ok());
        moments.append_value(moment.ok_or_else(|| {
            let dtype = array.dtype();
            PyValueError::new_err(format!("keys must be dates and times that Arrow can hold, got {tick} in {dtype}"))
        })?);
    }
    Ok(Arc::new(moments.finish()))
}

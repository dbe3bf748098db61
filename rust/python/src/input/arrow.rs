//! Arrow arrays and streams, through the C data interface.

use std::panic::{AssertUnwindSafe, catch_unwind};

use arrow_array::cast::AsArray;
use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema, from_ffi_and_data_type};
use arrow_array::ffi_stream::{ArrayStreamReader, FFI_ArrowArrayStream};
use arrow_array::types::*;
use arrow_array::{Array, ArrayReader, NullArray, make_array};
use arrow_data::ArrayData;
use arrow_schema::{ArrowError, DataType};
use keysplit_core::hash::KeyHasher;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use super::chunk::Chunk;
use super::imported::{imported, is_of};
use super::key::{float_refused, refused};

/// The arrays of an object with an Arrow method, if `accepts` takes their type; `None` if it has no such method.
fn arrays(
    object: &Bound<'_, PyAny>,
    name: &str,
    accepts: &dyn Fn(&DataType) -> PyResult<()>,
) -> PyResult<Option<Vec<ArrayData>>> {
    let py = object.py();
    if let Some(chunks) = pyarrow_chunks(object)? {
        let mut arrays = Vec::new();
        for chunk in chunks {
            arrays.extend(self::arrays(&chunk, name, accepts)?.into_iter().flatten());
        }
        return Ok(Some(arrays));
    }
    if object.hasattr(intern!(py, "__arrow_c_array__"))? {
        let answer = object.call_method0(intern!(py, "__arrow_c_array__"))?;
        let (schema, array) = match answer.extract::<(Bound<'_, PyCapsule>, Bound<'_, PyCapsule>)>() {
            Ok(capsules) => capsules,
            Err(_) => return Err(no_capsule(name, "__arrow_c_array__", "a tuple of two capsules", &answer)?),
        };
        let schema = schema.pointer_checked(Some(c"arrow_schema"))?.cast::<FFI_ArrowSchema>();
        let array = array.pointer_checked(Some(c"arrow_array"))?.cast::<FFI_ArrowArray>();
        // SAFETY: a capsule of this name holds this struct (Arrow PyCapsule interface). The array is moved out of it
        // and leaves it released, as the interface asks.
        let (schema, array) = unsafe { (schema.as_ref(), FFI_ArrowArray::from_raw(array.as_ptr())) };
        let data_type = DataType::try_from(schema).map_err(|error| malformed(name, error))?;
        accepts(&data_type)?;
        if array.is_released() {
            return Err(malformed(name, "it is already released"));
        }
        if array.len().checked_add(array.offset()).is_none_or(|end| end > i64::MAX as usize) {
            return Err(malformed(name, "its length or offset is below 0"));
        }
        if data_type == DataType::Null {
            return Ok(Some(nulls(array.len())));
        }
        // SAFETY: the producer promises an array of this type.
        let data = guarded(name, || unsafe { from_ffi_and_data_type(array, data_type) })?;
        return Ok(Some(vec![within_pyarrow(data, object)?]));
    }
    if object.hasattr(intern!(py, "__arrow_c_stream__"))? {
        let capsule = object.call_method0(intern!(py, "__arrow_c_stream__"))?;
        let Ok(stream) = capsule.cast::<PyCapsule>() else {
            return Err(no_capsule(name, "__arrow_c_stream__", "a capsule", &capsule)?);
        };
        let stream = stream.pointer_checked(Some(c"arrow_array_stream"))?;
        // SAFETY: as above.
        let stream = unsafe { FFI_ArrowArrayStream::from_raw(stream.cast().as_ptr()) };
        let mut reader = ArrayStreamReader::try_new(stream).map_err(|error| malformed(name, error))?;
        accepts(reader.field().data_type())?;
        if *reader.field().data_type() == DataType::Null {
            return Ok(Some(nulls(object.len()?)));
        }
        let mut arrays = Vec::new();
        while let Some(array) = guarded(name, || reader.next().transpose())? {
            arrays.push(array.to_data());
        }
        return Ok(Some(arrays));
    }
    Ok(None)
}

/// The chunks of a pyarrow ChunkedArray; `None` for other objects and for no chunks.
fn pyarrow_chunks<'py>(object: &Bound<'py, PyAny>) -> PyResult<Option<Vec<Bound<'py, PyAny>>>> {
    match imported(object.py(), "pyarrow")? {
        Some(pyarrow) if is_of(object, &pyarrow, "ChunkedArray")? => {
            let chunks: Vec<_> = object.getattr("chunks")?.extract()?;
            Ok(Some(chunks).filter(|chunks| !chunks.is_empty()))
        }
        _ => Ok(None),
    }
}

/// The data of an array, its value bytes limited to the array's own if it is pyarrow's.
///
/// The C interface does not give the size of a string array's values. Their end is the last offset, which is wrong if
/// the offsets were overwritten. Pyarrow knows the size.
fn within_pyarrow(data: ArrayData, object: &Bound<'_, PyAny>) -> PyResult<ArrayData> {
    use DataType::*;
    match imported(object.py(), "pyarrow")? {
        Some(pyarrow) if is_of(object, &pyarrow, "Array")? => {}
        _ => return Ok(data),
    }
    match data.data_type() {
        Utf8 | LargeUtf8 | Binary | LargeBinary => {
            let buffers: Vec<Option<Bound<'_, PyAny>>> = object.call_method0("buffers")?.extract()?;
            let held = match buffers.last() {
                Some(Some(values)) => values.getattr("size")?.extract()?,
                _ => 0,
            };
            let mut buffers = data.buffers().to_vec();
            if let Some(values) = buffers.last_mut()
                && values.len() > held
            {
                *values = values.slice_with_length(0, held);
            }
            // SAFETY: `Chunk::checked` checks it all.
            Ok(unsafe { data.into_builder().buffers(buffers).build_unchecked() })
        }
        Dictionary(..) => {
            let values = object.getattr("dictionary")?;
            let children = data.child_data().iter().map(|child| within_pyarrow(child.clone(), &values));
            let children = children.collect::<PyResult<_>>()?;
            // SAFETY: as above.
            Ok(unsafe { data.into_builder().child_data(children).build_unchecked() })
        }
        _ => Ok(data),
    }
}

/// A column of nulls. Its buffers are not read: producers disagree on whether it has one.
fn nulls(len: usize) -> Vec<ArrayData> {
    vec![NullArray::new(len).to_data()]
}

fn no_capsule(name: &str, method: &str, what: &str, answer: &Bound<'_, PyAny>) -> PyResult<PyErr> {
    let got = answer.get_type().name()?;
    Ok(PyTypeError::new_err(format!("{name} must have a {method} that returns {what}, got {got}")))
}

pub(super) fn malformed(name: &str, why: impl ToString) -> PyErr {
    let why = why.to_string().replace('\n', " ");
    PyValueError::new_err(format!("{name} must come from a well-formed Arrow array or stream: {why}"))
}

/// Runs code that panics on some malformed arrays.
pub(super) fn guarded<T>(name: &str, run: impl FnOnce() -> Result<T, ArrowError>) -> PyResult<T> {
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(done) => done.map_err(|error| malformed(name, error)),
        Err(_) => Err(malformed(name, "its parts do not fit its type")),
    }
}

/// The keys of an object with an Arrow method.
pub(super) fn chunks(object: &Bound<'_, PyAny>, hasher: &KeyHasher) -> PyResult<Option<Vec<Chunk>>> {
    let Some(arrays) = arrays(object, "keys", &accept_keys)? else { return Ok(None) };
    arrays.into_iter().map(|data| Chunk::checked(data, hasher)).collect::<PyResult<_>>().map(Some)
}

fn accept_keys(data_type: &DataType) -> PyResult<()> {
    use DataType::*;
    match data_type {
        Null | Boolean | Int8 | Int16 | Int32 | Int64 | UInt8 | UInt16 | UInt32 | UInt64 => Ok(()),
        Utf8 | LargeUtf8 | Utf8View | Binary | LargeBinary | BinaryView | FixedSizeBinary(_) => Ok(()),
        Date32 | Date64 | Timestamp(..) | Decimal32(..) | Decimal64(..) | Decimal128(..) | Decimal256(..) => Ok(()),
        Dictionary(_, values) if !matches!(**values, Dictionary(..)) => accept_keys(values),
        Float16 | Float32 | Float64 => Err(float_refused(&format!("a column of {data_type}"))),
        Struct(fields) => Err(PyTypeError::new_err(format!(
            "keys must be one column, got a table or struct with {} of them: pass one, such as table[\"name\"]",
            fields.len()
        ))),
        _ => Err(refused(&format!("a column of {data_type}"))),
    }
}

/// The numbers of an object with an Arrow method, as doubles; only integers if `whole`.
pub(super) fn numbers(object: &Bound<'_, PyAny>, name: &str, whole: bool) -> PyResult<Option<Vec<f64>>> {
    let accept = |data_type: &DataType| match data_type {
        _ if data_type.is_integer() || (data_type.is_floating() || *data_type == DataType::Boolean) && !whole => Ok(()),
        _ => Err(PyTypeError::new_err(format!(
            "{name} must be {}, got a column of {data_type}",
            if whole { "integers" } else { "numbers" }
        ))),
    };
    let Some(arrays) = arrays(object, name, &accept)? else { return Ok(None) };
    let mut numbers = Vec::with_capacity(arrays.iter().map(ArrayData::len).sum());
    for data in arrays {
        let array = guarded(name, || data.validate_full().map(|()| make_array(data)))?;
        if array.null_count() > 0 {
            return Err(PyValueError::new_err(format!("{name} must not be null, got {} nulls", array.null_count())));
        }
        macro_rules! extend {
            ($type:ty, $number:expr) => {
                numbers.extend(array.as_primitive::<$type>().values().iter().map($number))
            };
        }
        match array.data_type() {
            DataType::Boolean => numbers.extend(array.as_boolean().values().iter().map(f64::from)),
            DataType::Int8 => extend!(Int8Type, |number| f64::from(*number)),
            DataType::Int16 => extend!(Int16Type, |number| f64::from(*number)),
            DataType::Int32 => extend!(Int32Type, |number| f64::from(*number)),
            DataType::Int64 => extend!(Int64Type, |number| *number as f64),
            DataType::UInt8 => extend!(UInt8Type, |number| f64::from(*number)),
            DataType::UInt16 => extend!(UInt16Type, |number| f64::from(*number)),
            DataType::UInt32 => extend!(UInt32Type, |number| f64::from(*number)),
            DataType::UInt64 => extend!(UInt64Type, |number| *number as f64),
            DataType::Float16 => extend!(Float16Type, |number| f64::from(*number)),
            DataType::Float32 => extend!(Float32Type, |number| f64::from(*number)),
            _ => extend!(Float64Type, |number| *number),
        }
    }
    Ok(Some(numbers))
}

//! pandas' Series and Index: their contents as a NumPy array, as Python objects or as a pyarrow array.
//!
//! pandas 2 has no Arrow capsules and those of pandas 3 refuse mixed objects, so neither is used. pandas is never
//! imported here: an object can only be one of its own if the user has imported it.

use ::numpy::{PyArray1, PyArrayDescr, PyArrayDescrMethods, PyArrayMethods, PyUntypedArray};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyList;

use super::imported::{imported, is_of};
use super::key::{float_refused, refused};

/// Integers up to this size are exact in a double.
const MOST_EXACT: f64 = 9_007_199_254_740_992.0;

/// The contents of a Series or an Index.
pub(super) enum Column<'py> {
    /// Values of a NumPy type.
    Array(Bound<'py, PyUntypedArray>),
    /// Python objects; None for missing values.
    Items(Vec<Bound<'py, PyAny>>),
    /// Values of a pandas extension type, as pyarrow's array.
    Arrow(Bound<'py, PyAny>),
}

/// The keys of a Series or an Index; `None` for other objects.
pub(super) fn keys<'py>(object: &Bound<'py, PyAny>) -> PyResult<Option<Column<'py>>> {
    let Some(pandas) = pandas_of(object)? else { return Ok(None) };
    if is_of(object, &pandas, "MultiIndex")? {
        let text = "keys must be one column, got a MultiIndex: pass one level, index.get_level_values(...)";
        return Err(PyTypeError::new_err(text));
    }
    let dtype = object.getattr("dtype")?;
    if dtype.getattr_opt("kind")?.is_some_and(|kind| kind.eq("f").unwrap_or(false)) {
        return if object.len()? == 0 { Ok(Some(Column::Items(Vec::new()))) } else { Err(floats_refused(object)?) };
    }
    column(object).map(Some)
}

/// The container of a Series' or an Index's numbers: a NumPy array, another array or a list; `None` for other objects.
pub(super) fn numbers<'py>(object: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
    if pandas_of(object)?.is_none() {
        return Ok(None);
    }
    Ok(Some(match column(object)? {
        Column::Array(array) => array.into_any(),
        Column::Items(items) => PyList::new(object.py(), items)?.into_any(),
        Column::Arrow(array) => array,
    }))
}

/// The module pandas, if the object is a Series or an Index.
fn pandas_of<'py>(object: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
    let Some(pandas) = imported(object.py(), "pandas")? else { return Ok(None) };
    let is_its_own = is_of(object, &pandas, "Series")? || is_of(object, &pandas, "Index")?;
    Ok(is_its_own.then_some(pandas))
}

fn column<'py>(object: &Bound<'py, PyAny>) -> PyResult<Column<'py>> {
    let py = object.py();
    let dtype = object.getattr("dtype")?;
    if let Ok(plain) = dtype.cast::<PyArrayDescr>() {
        return match plain.kind() {
            b'O' => items(object),
            _ => Ok(Column::Array(object.call_method0("to_numpy")?.cast_into()?)),
        };
    }
    let pyarrow = py.import("pyarrow")?;
    match pyarrow.getattr("Array")?.call_method1("from_pandas", (object,)) {
        Ok(array) if is_extension(&pyarrow, &array.getattr("type")?)? && !is_of_arrow(object)? => {
            Err(refused(&described(object)?))
        }
        Ok(array) => Ok(Column::Arrow(array)),
        // Such as a category of mixed objects. Unsupported keys are refused one by one.
        Err(error) if error.is_instance(py, &pyarrow.getattr("ArrowException")?) => {
            items(&object.call_method1("astype", ("object",))?)
        }
        Err(error) => Err(error),
    }
}

/// Whether an Arrow type, or that of a dictionary's values, means something else than its storage.
fn is_extension(pyarrow: &Bound<'_, PyModule>, data_type: &Bound<'_, PyAny>) -> PyResult<bool> {
    let (extension, dictionary) = (pyarrow.getattr("BaseExtensionType")?, pyarrow.getattr("DictionaryType")?);
    if data_type.is_instance(&dictionary)? {
        return is_extension(pyarrow, &data_type.getattr("value_type")?);
    }
    data_type.is_instance(&extension)
}

/// Whether the dtype is one of Arrow's own types.
fn is_of_arrow(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    object.getattr("dtype")?.hasattr("pyarrow_dtype")
}

fn items<'py>(object: &Bound<'py, PyAny>) -> PyResult<Column<'py>> {
    let none = object.py().None().into_bound(object.py());
    let list = object.call_method0("tolist")?.cast_into::<PyList>()?;
    let missing = object.py().import("numpy")?.call_method1("asarray", (object.call_method0("isna")?,))?;
    let missing = missing.cast::<PyArray1<bool>>()?.to_vec()?;
    let item = |(item, missing)| if missing { none.clone() } else { item };
    Ok(Column::Items(list.iter().zip(missing).map(item).collect()))
}

/// The error for floats; if they look like integers with nulls, it says how to pass these.
fn floats_refused(object: &Bound<'_, PyAny>) -> PyResult<PyErr> {
    let described = described(object)?;
    let present = object.call_method0("dropna")?.call_method1("to_numpy", ("float64",))?;
    let whole = |number: &f64| number.fract() == 0.0 && number.abs() <= MOST_EXACT;
    if !present.cast::<PyArray1<f64>>()?.to_vec()?.iter().all(whole) {
        return Ok(float_refused(&described));
    }
    Ok(PyTypeError::new_err(format!(
        "keys must not be floats, got {described} whose values are all whole or missing, which is how pandas holds \
         integers with nulls: pass pa.Array.from_pandas(keys, type=pa.int64()) or keys.astype(\"Int64\")"
    )))
}

/// "a Series of float64".
fn described(object: &Bound<'_, PyAny>) -> PyResult<String> {
    let name = object.get_type().name()?;
    let article = if name.to_string_lossy().starts_with(['A', 'E', 'I', 'O', 'U']) { "an" } else { "a" };
    Ok(format!("{article} {name} of {}", object.getattr("dtype")?))
}

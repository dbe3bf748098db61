//! The entry point: everything users pass as keys or numbers becomes hashes or doubles here, and nowhere else.
//!
//! All checks come before the first hash is returned, so that an error leaves no batch half routed.

mod arrow;
mod chunk;
mod imported;
mod items;
mod key;
mod numbers;
mod numpy;
mod pandas;
mod scalar;

use std::sync::Arc;

use ::numpy::{PyUntypedArray, PyUntypedArrayMethods};
use keysplit_core::hash::KeyHasher;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyList, PyString, PyTuple};

use items::Items;
pub(crate) use key::Key;
pub(crate) use numbers::{Numbers, number, numbers, weights_of, workers_of};
pub(crate) use numpy::{column_of, scalar_kind};

/// Keys hashed at a time: enough to amortise the call, few enough for the cache.
const BLOCK: usize = 1 << 16;

/// A column of keys.
pub(crate) struct Keys {
    len: usize,
    column: Column,
}

enum Column {
    /// Hashed already.
    Hashes(Vec<u64>),
    /// Arrow's memory: hashed without the interpreter. Concurrent changes give other hashes, nothing worse.
    Chunks(Arc<[chunk::Chunk]>),
    /// NumPy's memory, which Python may change: hashed while attached to the interpreter.
    InPlace(numpy::HashFrom),
}

/// The keys themselves, for callers that keep some of them.
pub(crate) enum Originals {
    Listed(Vec<Key<'static>>),
    /// Chunks, each with the position after its last key.
    Chunks(Arc<[chunk::Chunk]>, Vec<usize>),
}

/// The kinds of objects that hold keys.
enum Found<'py> {
    Items(Items<'py>),
    Chunks(Vec<chunk::Chunk>),
    Integers(Bound<'py, PyUntypedArray>),
}

fn find<'py>(keys: &Bound<'py, PyAny>, hasher: &KeyHasher) -> PyResult<Found<'py>> {
    if let Ok(array) = keys.cast::<PyUntypedArray>() {
        return find_in_array(array, hasher);
    }
    if let Ok(list) = keys.cast::<PyList>() {
        return Ok(Found::Items(Items::List(list.clone())));
    }
    if let Ok(tuple) = keys.cast::<PyTuple>() {
        return Ok(Found::Items(Items::Tuple(tuple.clone())));
    }
    match pandas::keys(keys)? {
        Some(pandas::Column::Array(array)) => return find_in_array(&array, hasher),
        Some(pandas::Column::Items(items)) => return Ok(Found::Items(Items::Copied(items))),
        Some(pandas::Column::Arrow(array)) => return find_in_arrow(&array, hasher),
        None => {}
    }
    find_in_arrow(keys, hasher)
}

fn find_in_array<'py>(array: &Bound<'py, PyUntypedArray>, hasher: &KeyHasher) -> PyResult<Found<'py>> {
    Ok(match numpy::column(array, hasher)? {
        numpy::Column::Integers(array) => Found::Integers(array),
        numpy::Column::Copied(chunk) => Found::Chunks(vec![chunk]),
        numpy::Column::Objects(array) => Found::Items(Items::Objects(array)),
        numpy::Column::Strings(array) => Found::Items(Items::Strings(array)),
        numpy::Column::Empty => Found::Items(Items::Copied(Vec::new())),
    })
}

fn find_in_arrow<'py>(keys: &Bound<'py, PyAny>, hasher: &KeyHasher) -> PyResult<Found<'py>> {
    if let Some(chunks) = arrow::chunks(keys, hasher)? {
        return Ok(Found::Chunks(chunks));
    }
    let name = keys.get_type().name()?;
    let is_single = keys.is_instance_of::<PyString>() || keys.is_instance_of::<PyBytes>();
    Err(PyTypeError::new_err(if is_single || keys.is_instance_of::<PyByteArray>() {
        format!("keys must be a column of keys, got a single {name}: pass a list, [key]")
    } else {
        format!("keys must be an Arrow array or stream, a NumPy array, a list or a tuple, got {name}")
    }))
}

impl Keys {
    /// Reads a column of keys.
    pub(crate) fn read(keys: &Bound<'_, PyAny>, hasher: &KeyHasher) -> PyResult<Self> {
        Ok(match find(keys, hasher)? {
            Found::Items(items) => Self::of_hashes(items.read(|item| Key::hash_of(item, hasher))?),
            Found::Chunks(chunks) => Self::of_chunks(chunks.into()),
            Found::Integers(array) => {
                let (len, hash) = (array.len(), numpy::in_place(&array, hasher)?);
                if len > BLOCK {
                    return Ok(Self { len, column: Column::InPlace(hash) });
                }
                let mut hashes = vec![0; len];
                hash(0, &mut hashes)?;
                Self::of_hashes(hashes)
            }
        })
    }

    /// Reads a column of keys for a caller that keeps some of them.
    pub(crate) fn read_with_originals(keys: &Bound<'_, PyAny>, hasher: &KeyHasher) -> PyResult<(Self, Originals)> {
        let chunks: Arc<[_]> = match find(keys, hasher)? {
            Found::Items(items) => {
                let keys = items.read(|item| Key::read(item).map(Key::into_owned))?;
                let hashes = keys.iter().map(|key| key.hash(hasher)).collect();
                return Ok((Self::of_hashes(hashes), Originals::Listed(keys)));
            }
            Found::Chunks(chunks) => chunks.into(),
            Found::Integers(array) => [numpy::copied(&array, hasher)?].into(),
        };
        let mut end = 0;
        let ends = chunks
            .iter()
            .map(|chunk| {
                end += chunk.len();
                end
            })
            .collect();
        Ok((Self::of_chunks(chunks.clone()), Originals::Chunks(chunks, ends)))
    }

    fn of_hashes(hashes: Vec<u64>) -> Self {
        Self { len: hashes.len(), column: Column::Hashes(hashes) }
    }

    fn of_chunks(chunks: Arc<[chunk::Chunk]>) -> Self {
        Self { len: chunks.iter().map(chunk::Chunk::len).sum(), column: Column::Chunks(chunks) }
    }

    /// The number of keys.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Passes on the hashes of all keys in order, a block at a time; call it detached from the interpreter.
    ///
    /// It fails by itself only if Python shrinks a NumPy array during the read.
    pub(crate) fn blocks(&self, mut take: impl FnMut(&[u64]) -> PyResult<()>) -> PyResult<()> {
        let mut buffer = match &self.column {
            Column::Hashes(hashes) => return take(hashes),
            _ => vec![0; self.len.min(BLOCK)],
        };
        let mut each = |len: usize, hash: &dyn Fn(usize, &mut [u64]) -> PyResult<()>| {
            (0..len).step_by(BLOCK).try_for_each(|from| {
                let hashes = &mut buffer[..(len - from).min(BLOCK)];
                hash(from, hashes)?;
                take(hashes)
            })
        };
        match &self.column {
            Column::Hashes(_) => Ok(()),
            Column::Chunks(chunks) => chunks.iter().try_for_each(|chunk| {
                each(chunk.len(), &|from, hashes| {
                    chunk.hash(from, hashes);
                    Ok(())
                })
            }),
            Column::InPlace(hash) => each(self.len, hash),
        }
    }

    /// The hashes of all keys.
    pub(crate) fn into_hashes(self, py: Python<'_>) -> PyResult<Vec<u64>> {
        match self.column {
            Column::Hashes(hashes) => Ok(hashes),
            Column::Chunks(chunks) => Ok(py.detach(|| {
                let mut hashes = vec![0; self.len];
                let mut rest = &mut hashes[..];
                for chunk in chunks.iter() {
                    let (own, others) = rest.split_at_mut(chunk.len());
                    chunk.hash(0, own);
                    rest = others;
                }
                hashes
            })),
            Column::InPlace(hash) => {
                let mut hashes = vec![0; self.len];
                hash(0, &mut hashes)?;
                Ok(hashes)
            }
        }
    }
}

impl Originals {
    /// The key at a position of the column.
    pub(crate) fn key(&self, at: usize) -> Key<'static> {
        match self {
            Self::Listed(keys) => keys[at].clone(),
            Self::Chunks(chunks, ends) => {
                let number = ends.partition_point(|&end| end <= at);
                let start = ends[number] - chunks[number].len();
                chunks[number].key(at - start).into_owned()
            }
        }
    }
}

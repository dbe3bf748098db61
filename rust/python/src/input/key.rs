//! What the hash of a key depends on; the errors for unsupported keys.

use std::borrow::Cow;

use keysplit_core::hash::KeyHasher;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use serde::{Deserialize, Serialize};

/// A key, as far as hashes distinguish keys.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Key<'a> {
    Null,
    Bool(bool),
    /// From -2^63 to 2^64 - 1.
    Whole(i128),
    Text(Cow<'a, str>),
    Bytes(Cow<'a, [u8]>),
    /// Days since 1970-01-01.
    Date(i64),
    /// Nanoseconds since 1970-01-01 00:00, of UTC or of a wall clock.
    Time {
        nanoseconds: i128,
        utc: bool,
    },
    /// `unscaled * 10^-scale`, `unscaled` in little-endian two's complement.
    Decimal {
        unscaled: [u8; 32],
        scale: i32,
    },
}

impl Key<'_> {
    /// The key's hash.
    pub(crate) fn hash(&self, hasher: &KeyHasher) -> u64 {
        match self {
            Self::Null => hasher.null(),
            Self::Bool(truth) => hasher.whole((*truth).into()),
            Self::Whole(number) => match i64::try_from(*number) {
                Ok(number) => hasher.whole(number),
                Err(_) => hasher.unsigned(*number as u64),
            },
            Self::Text(text) => hasher.string(text.as_bytes()),
            Self::Bytes(bytes) => hasher.binary(bytes),
            Self::Date(days) => hasher.whole(*days),
            Self::Time { nanoseconds, .. } => hash_nanoseconds(hasher, *nanoseconds),
            Self::Decimal { unscaled, scale } => hasher.decimal(*unscaled, *scale),
        }
    }

    /// The same key, owning its data.
    pub(crate) fn into_owned(self) -> Key<'static> {
        match self {
            Self::Null => Key::Null,
            Self::Bool(truth) => Key::Bool(truth),
            Self::Whole(number) => Key::Whole(number),
            Self::Text(text) => Key::Text(Cow::Owned(text.into_owned())),
            Self::Bytes(bytes) => Key::Bytes(Cow::Owned(bytes.into_owned())),
            Self::Date(days) => Key::Date(days),
            Self::Time { nanoseconds, utc } => Key::Time { nanoseconds, utc },
            Self::Decimal { unscaled, scale } => Key::Decimal { unscaled, scale },
        }
    }
}

/// The hash of a moment.
pub(super) fn hash_nanoseconds(hasher: &KeyHasher, nanoseconds: i128) -> u64 {
    match i64::try_from(nanoseconds) {
        Ok(nanoseconds) => hasher.whole(nanoseconds),
        Err(_) => hasher.decimal(widened(nanoseconds), 0),
    }
}

/// 256 bits of little-endian two's complement.
pub(super) fn widened(number: i128) -> [u8; 32] {
    let mut bytes = [if number < 0 { 0xFF } else { 0 }; 32];
    bytes[..16].copy_from_slice(&number.to_le_bytes());
    bytes
}

/// The error for an unsupported key type.
pub(super) fn refused(got: &str) -> PyErr {
    PyTypeError::new_err(format!(
        "keys must be integers, strings, bytes, booleans, dates, timestamps, decimals or None, got {got}"
    ))
}

/// The error for a float.
pub(super) fn float_refused(got: &str) -> PyErr {
    PyTypeError::new_err(format!(
        "keys must not be floats, got {got}: round them explicitly, then cast to integers, decimals or strings"
    ))
}

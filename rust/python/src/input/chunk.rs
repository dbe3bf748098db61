//! A part of an Arrow column of keys: checked once, then hashed.

use std::ops::Range;

use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::{Array, ArrayRef, BinaryViewArray, GenericByteArray, OffsetSizeTrait, make_array};
use arrow_buffer::ArrowNativeType;
use arrow_data::{ArrayData, ByteView, MAX_INLINE_VIEW_LEN};
use arrow_schema::{DataType, TimeUnit};
use keysplit_core::hash::KeyHasher;
use pyo3::prelude::*;

use super::arrow::{guarded, malformed};
use super::key::{Key, hash_nanoseconds, widened};

/// A part of a column, of a supported key type and checked: reading it cannot fail.
///
/// The memory may belong to others, who may change it after the check, even from another thread. The hashes are then
/// those of the new contents, but nothing outside is read: offsets and indices are copied before they are checked.
pub(crate) struct Chunk {
    hasher: KeyHasher,
    /// Strings are stored as binary: their bytes are hashed, so nothing checks that they are UTF-8.
    array: ArrayRef,
    text: bool,
    /// The values of a dictionary, and their hashes.
    dictionary: Option<(Box<Chunk>, Vec<u64>)>,
}

impl Chunk {
    pub(super) fn checked(data: ArrayData, hasher: &KeyHasher) -> PyResult<Self> {
        use DataType::*;
        let (binary, text) = match data.data_type() {
            Utf8 => (Binary, true),
            LargeUtf8 => (LargeBinary, true),
            Utf8View => (BinaryView, true),
            Dictionary(..) => return Self::checked_dictionary(data, hasher),
            other => (other.clone(), false),
        };
        // SAFETY: strings have the layout of binary, and `guarded` checks the rest.
        let data = unsafe { data.into_builder().data_type(binary).build_unchecked() };
        let array = guarded("keys", || match data.data_type() {
            // Stricter than the format: it also checks the values behind nulls.
            BinaryView => data.validate().map(|()| make_array(data)),
            _ => data.validate_data().map(|()| make_array(data)),
        })?;
        if let Some(views) = array.as_binary_view_opt() {
            let whole = |at| views.is_null(at) || view(views, at).is_some();
            if !(0..views.len()).all(whole) {
                return Err(malformed("keys", "a view points outside its buffers"));
            }
        }
        Ok(Self { text, ..Self::new(array, hasher) })
    }

    fn checked_dictionary(data: ArrayData, hasher: &KeyHasher) -> PyResult<Self> {
        let values =
            data.child_data().first().cloned().ok_or_else(|| malformed("keys", "a dictionary has no values"))?;
        let array = guarded("keys", || data.validate_data().map(|()| make_array(data)))?;
        let values = Self::checked(values, hasher)?;
        let mut hashes = vec![0; values.len()];
        values.hash(0, &mut hashes);
        Ok(Self { dictionary: Some((Box::new(values), hashes)), ..Self::new(array, hasher) })
    }

    /// A chunk built here.
    pub(super) fn new(array: ArrayRef, hasher: &KeyHasher) -> Self {
        Self { hasher: hasher.clone(), array, text: false, dictionary: None }
    }

    /// A chunk of strings built here, stored as binary.
    pub(super) fn text(array: ArrayRef, hasher: &KeyHasher) -> Self {
        Self { text: true, ..Self::new(array, hasher) }
    }

    pub(super) fn len(&self) -> usize {
        self.array.len()
    }

    /// Hashes the keys from a position on.
    pub(super) fn hash(&self, from: usize, hashes: &mut [u64]) {
        use DataType::*;
        let (array, hasher, range) = (&self.array, &self.hasher, from..from + hashes.len());
        macro_rules! column {
            ($method:ident, $type:ty) => {
                hasher.$method(&array.as_primitive::<$type>().values()[range.clone()], hashes)
            };
        }
        macro_rules! each {
            ($type:ty, $hash:expr) => {
                for (hash, &value) in hashes.iter_mut().zip(&array.as_primitive::<$type>().values()[range.clone()]) {
                    *hash = $hash(value);
                }
            };
        }
        let bytes = |bytes: &[u8]| if self.text { hasher.string(bytes) } else { hasher.binary(bytes) };
        macro_rules! bytes {
            ($value:expr) => {
                for (hash, at) in hashes.iter_mut().zip(range.clone()) {
                    *hash = bytes($value(at));
                }
            };
        }
        macro_rules! gather {
            ($type:ty) => {
                if let Some((_, values)) = &self.dictionary {
                    let indices = &array.as_dictionary::<$type>().keys().values()[range.clone()];
                    for (hash, index) in hashes.iter_mut().zip(indices) {
                        // Values behind nulls, and values changed later, may be out of range.
                        *hash = values.get(index.as_usize()).copied().unwrap_or_default();
                    }
                }
            };
        }
        let decimal = |unscaled: i128, scale: &i8| hasher.decimal(widened(unscaled), (*scale).into());
        match array.data_type() {
            Int8 => column!(signed_column, Int8Type),
            Int16 => column!(signed_column, Int16Type),
            Int32 => column!(signed_column, Int32Type),
            Int64 => column!(signed_column, Int64Type),
            UInt8 => column!(unsigned_column, UInt8Type),
            UInt16 => column!(unsigned_column, UInt16Type),
            UInt32 => column!(unsigned_column, UInt32Type),
            UInt64 => column!(unsigned_column, UInt64Type),
            Boolean => {
                let values = array.as_boolean().values();
                for (hash, at) in hashes.iter_mut().zip(range.clone()) {
                    *hash = hasher.whole(values.value(at).into());
                }
            }
            Binary => each_value(array.as_binary::<i32>(), range.clone(), |at, value| hashes[at] = bytes(value)),
            LargeBinary => each_value(array.as_binary::<i64>(), range.clone(), |at, value| hashes[at] = bytes(value)),
            BinaryView => bytes!(|at| view(array.as_binary_view(), at).unwrap_or_default()),
            FixedSizeBinary(_) => bytes!(|at| array.as_fixed_size_binary().value(at)),
            Date32 => column!(signed_column, Date32Type),
            Date64 => each!(Date64Type, |value| hasher.whole(days(value))),
            Timestamp(TimeUnit::Nanosecond, _) => column!(signed_column, TimestampNanosecondType),
            Timestamp(TimeUnit::Microsecond, _) => {
                each!(TimestampMicrosecondType, |value| hash_ticks(hasher, value, 1000))
            }
            Timestamp(TimeUnit::Millisecond, _) => {
                each!(TimestampMillisecondType, |value| hash_ticks(hasher, value, 1_000_000))
            }
            Timestamp(TimeUnit::Second, _) => {
                each!(TimestampSecondType, |value| hash_ticks(hasher, value, 1_000_000_000))
            }
            Decimal32(_, scale) => each!(Decimal32Type, |value| decimal(i128::from(value), scale)),
            Decimal64(_, scale) => each!(Decimal64Type, |value| decimal(i128::from(value), scale)),
            Decimal128(_, scale) => each!(Decimal128Type, |value| decimal(value, scale)),
            Decimal256(_, scale) => {
                each!(Decimal256Type, |value: <Decimal256Type as ArrowPrimitiveType>::Native| {
                    hasher.decimal(value.to_le_bytes(), (*scale).into())
                })
            }
            Dictionary(index, _) => match **index {
                Int8 => gather!(Int8Type),
                Int16 => gather!(Int16Type),
                Int32 => gather!(Int32Type),
                Int64 => gather!(Int64Type),
                UInt8 => gather!(UInt8Type),
                UInt16 => gather!(UInt16Type),
                UInt32 => gather!(UInt32Type),
                _ => gather!(UInt64Type),
            },
            // The null type, the only one left.
            _ => hashes.fill(hasher.null()),
        }
        if let Some(nulls) = array.nulls().filter(|nulls| nulls.null_count() > 0) {
            for at in (!&nulls.inner().slice(from, hashes.len())).set_indices() {
                hashes[at] = hasher.null();
            }
        }
    }

    /// The key at a position.
    pub(super) fn key(&self, at: usize) -> Key<'_> {
        use DataType::*;
        let array = &self.array;
        if array.is_null(at) {
            return Key::Null;
        }
        macro_rules! value {
            ($type:ty) => {
                array.as_primitive::<$type>().value(at)
            };
        }
        macro_rules! value_of {
            ($type:ty) => {{
                let index = array.as_dictionary::<$type>().keys().value(at).as_usize();
                let values = self.dictionary.as_ref().map(|(values, _)| values).filter(|values| index < values.len());
                values.map_or(Key::Null, |values| values.key(index))
            }};
        }
        // Copied before the check, so that they cannot change after it.
        let bytes = |bytes: &[u8]| match self.text {
            true => Key::Text(text_of(bytes.to_vec()).into()),
            false => Key::Bytes(bytes.to_vec().into()),
        };
        macro_rules! value_at {
            ($offset:ty) => {{
                let mut value = Key::Null;
                each_value(array.as_binary::<$offset>(), at..at + 1, |_, found| value = bytes(found));
                value
            }};
        }
        let time = |ticks: i64, unit: i128, zone: bool| Key::Time { nanoseconds: i128::from(ticks) * unit, utc: zone };
        let decimal = |unscaled, scale: &i8| Key::Decimal { unscaled: widened(unscaled), scale: (*scale).into() };
        match array.data_type() {
            Int8 => Key::Whole(value!(Int8Type).into()),
            Int16 => Key::Whole(value!(Int16Type).into()),
            Int32 => Key::Whole(value!(Int32Type).into()),
            Int64 => Key::Whole(value!(Int64Type).into()),
            UInt8 => Key::Whole(value!(UInt8Type).into()),
            UInt16 => Key::Whole(value!(UInt16Type).into()),
            UInt32 => Key::Whole(value!(UInt32Type).into()),
            UInt64 => Key::Whole(value!(UInt64Type).into()),
            Boolean => Key::Bool(array.as_boolean().value(at)),
            Binary => value_at!(i32),
            LargeBinary => value_at!(i64),
            BinaryView => bytes(view(array.as_binary_view(), at).unwrap_or_default()),
            FixedSizeBinary(_) => bytes(array.as_fixed_size_binary().value(at)),
            Date32 => Key::Date(value!(Date32Type).into()),
            Date64 => Key::Date(days(value!(Date64Type))),
            Timestamp(TimeUnit::Nanosecond, zone) => time(value!(TimestampNanosecondType), 1, zone.is_some()),
            Timestamp(TimeUnit::Microsecond, zone) => time(value!(TimestampMicrosecondType), 1000, zone.is_some()),
            Timestamp(TimeUnit::Millisecond, zone) => time(value!(TimestampMillisecondType), 1_000_000, zone.is_some()),
            Timestamp(TimeUnit::Second, zone) => time(value!(TimestampSecondType), 1_000_000_000, zone.is_some()),
            Decimal32(_, scale) => decimal(value!(Decimal32Type).into(), scale),
            Decimal64(_, scale) => decimal(value!(Decimal64Type).into(), scale),
            Decimal128(_, scale) => decimal(value!(Decimal128Type), scale),
            Decimal256(_, scale) => {
                Key::Decimal { unscaled: value!(Decimal256Type).to_le_bytes(), scale: (*scale).into() }
            }
            Dictionary(index, _) => match **index {
                Int8 => value_of!(Int8Type),
                Int16 => value_of!(Int16Type),
                Int32 => value_of!(Int32Type),
                Int64 => value_of!(Int64Type),
                UInt8 => value_of!(UInt8Type),
                UInt16 => value_of!(UInt16Type),
                UInt32 => value_of!(UInt32Type),
                _ => value_of!(UInt64Type),
            },
            _ => Key::Null,
        }
    }
}

/// Yields the values of a range, numbered from 0; an empty one where the offsets point outside.
#[inline]
fn each_value<O: OffsetSizeTrait>(
    array: &GenericByteArray<GenericBinaryType<O>>,
    range: Range<usize>,
    mut take: impl FnMut(usize, &[u8]),
) {
    /// Offsets copied at a time.
    const STEP: usize = 256;
    let (offsets, values) = (&array.value_offsets()[range.start..=range.end], &array.values()[..]);
    let mut copied = [O::default(); STEP + 1];
    for from in (0..range.len()).step_by(STEP) {
        let step = (range.len() - from).min(STEP);
        copied[..=step].copy_from_slice(&offsets[from..=from + step]);
        for (at, ends) in copied[..=step].windows(2).enumerate() {
            take(from + at, values.get(ends[0].as_usize()..ends[1].as_usize()).unwrap_or_default());
        }
    }
}

/// The bytes of a view, unless it points outside its buffers.
#[inline]
fn view(views: &BinaryViewArray, at: usize) -> Option<&[u8]> {
    let raw = &views.views()[at];
    let length = *raw as u32;
    if length <= MAX_INLINE_VIEW_LEN {
        // SAFETY: an inline view has its bytes, at most 12, after its length, little-endian.
        return Some(unsafe { BinaryViewArray::inline_value(raw, length as usize) });
    }
    let (view, length) = (ByteView::from(*raw), length as usize);
    let start = view.offset as usize;
    views.data_buffers().get(view.buffer_index as usize)?.get(start..start.checked_add(length)?)
}

/// Bytes as text, with replacement characters where they are not UTF-8.
fn text_of(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

/// Days of a date of milliseconds.
fn days(milliseconds: i64) -> i64 {
    milliseconds.div_euclid(86_400_000)
}

#[inline]
fn hash_ticks(hasher: &KeyHasher, ticks: i64, nanoseconds: i64) -> u64 {
    match ticks.checked_mul(nanoseconds) {
        Some(ticks) => hasher.whole(ticks),
        None => hash_nanoseconds(hasher, i128::from(ticks) * i128::from(nanoseconds)),
    }
}

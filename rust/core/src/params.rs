//! Parameters: from named arguments to typed structs.
//!
//! A caller passes [`Arguments`]: names with values of any type. Each grouping, and the simulation, has its own struct
//! for them. Serde reads it, defaults fill in what is missing, and the functions below check the type and range of each
//! number. A struct that was read only needs checks that involve two parameters.

use std::collections::{BTreeMap, btree_map};
use std::fmt::{self, Display};

use serde::de::value::MapAccessDeserializer;
use serde::de::{
    self, DeserializeOwned, DeserializeSeed, Deserializer, IntoDeserializer, MapAccess, Unexpected, Visitor,
};
use serde::{Deserialize, forward_to_deserialize_any};

use crate::error::{Error, Result};

/// The largest number of workers.
pub const MAX_WORKERS: u64 = 65_536;

/// The value of one parameter, unchecked.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// Not given: the grouping's default applies.
    None,
    /// True or false.
    Bool(bool),
    /// A whole number.
    Integer(i128),
    /// Any other number.
    Number(f64),
    /// Anything else, as the text to show in an error.
    Other(String),
}

impl Display for Value {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => out.write_str("None"),
            Self::Bool(value) => out.write_str(if *value { "True" } else { "False" }),
            Self::Integer(value) => write!(out, "{value}"),
            Self::Number(value) if value.is_nan() => out.write_str("nan"),
            Self::Number(value) => write!(out, "{value:?}"),
            Self::Other(text) => out.write_str(text),
        }
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<i32> for Value {
    fn from(value: i32) -> Self {
        Self::Integer(value.into())
    }
}

impl From<u64> for Value {
    fn from(value: u64) -> Self {
        Self::Integer(value.into())
    }
}

impl From<f64> for Value {
    fn from(value: f64) -> Self {
        Self::Number(value)
    }
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::None, Into::into)
    }
}

/// Parameters by name, as passed in by a caller.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Arguments(BTreeMap<String, Value>);

impl Arguments {
    /// The two parameters common to all groupings.
    pub fn new(workers: u64, seed: u64) -> Self {
        Self::default().with("workers", workers).with("seed", seed)
    }

    /// Adds or replaces one parameter.
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.0.insert(name.to_owned(), value.into());
        self
    }

    /// Reads them into the recipient's type; those of `required` must be given.
    pub(crate) fn read<T: DeserializeOwned>(&self, required: &[&str]) -> Result<T> {
        let pairs = Pairs { rest: self.0.iter(), value: None };
        let read = T::deserialize(MapAccessDeserializer::new(pairs)).map_err(|Refused(error)| error)?;
        match required.iter().find(|&&name| !self.0.contains_key(name)) {
            None => Ok(read),
            Some(name) => Err(Error::Type(format!("missing parameter {name}"))),
        }
    }
}

// Deserialisers for fields.

pub(crate) fn workers<'de, D: Deserializer<'de>>(given: D) -> Result<u32, D::Error> {
    whole::<1, MAX_WORKERS, D>(given).map(|workers| workers as u32)
}

pub(crate) fn seed<'de, D: Deserializer<'de>>(given: D) -> Result<u64, D::Error> {
    whole::<0, { u64::MAX }, D>(given)
}

/// A whole number within a range.
pub(crate) fn whole<'de, const LEAST: u64, const MOST: u64, D: Deserializer<'de>>(given: D) -> Result<u64, D::Error> {
    whole_of(LEAST, MOST, Value::deserialize(given)?)
}

/// A whole number within a range, or none.
pub(crate) fn optional_whole<'de, const LEAST: u64, const MOST: u64, D: Deserializer<'de>>(
    given: D,
) -> Result<Option<u64>, D::Error> {
    optional(given, |value| whole_of(LEAST, MOST, value))
}

pub(crate) fn boolean<'de, D: Deserializer<'de>>(given: D) -> Result<bool, D::Error> {
    match Value::deserialize(given)? {
        Value::Bool(value) => Ok(value),
        other => Err(wrong_type(&other, "True or False")),
    }
}

/// A number of seconds, or of messages per second, within the range that computations support.
pub(crate) fn seconds<'de, D: Deserializer<'de>>(given: D) -> Result<f64, D::Error> {
    seconds_of(Value::deserialize(given)?)
}

/// [`seconds`], or none.
pub(crate) fn optional_seconds<'de, D: Deserializer<'de>>(given: D) -> Result<Option<f64>, D::Error> {
    optional(given, seconds_of)
}

/// A number of seconds that may be 0.
pub(crate) fn span<'de, D: Deserializer<'de>>(given: D) -> Result<f64, D::Error> {
    number_of("in 0..=1e12", |value| (0.0..=1e12).contains(&value), Value::deserialize(given)?)
}

/// A fraction.
pub(crate) fn share<'de, D: Deserializer<'de>>(given: D) -> Result<f64, D::Error> {
    number_of("in 0..=1", |value| (0.0..=1.0).contains(&value), Value::deserialize(given)?)
}

/// A fraction above 0.
pub(crate) fn positive_share<'de, D: Deserializer<'de>>(given: D) -> Result<f64, D::Error> {
    positive_share_of(Value::deserialize(given)?)
}

/// The frequency from which a key counts as frequent, if given.
pub(crate) fn threshold<'de, D: Deserializer<'de>>(given: D) -> Result<Option<f64>, D::Error> {
    optional(given, positive_share_of)
}

/// A number of standard deviations.
pub(crate) fn deviations<'de, D: Deserializer<'de>>(given: D) -> Result<f64, D::Error> {
    number_of("in 0..=1000", |value| (0.0..=1000.0).contains(&value), Value::deserialize(given)?)
}

/// By how much a bin may exceed its fair share.
pub(crate) fn epsilon<'de, D: Deserializer<'de>>(given: D) -> Result<f64, D::Error> {
    let accepts = |epsilon| epsilon > 0.0 && epsilon <= 1000.0;
    number_of("above 0 and at most 1000", accepts, Value::deserialize(given)?)
}

fn seconds_of<E: de::Error>(value: Value) -> Result<f64, E> {
    number_of("in 1e-6..=1e12", |value| (1e-6..=1e12).contains(&value), value)
}

fn positive_share_of<E: de::Error>(value: Value) -> Result<f64, E> {
    number_of("above 0 and at most 1", |value| value > 0.0 && value <= 1.0, value)
}

pub(crate) fn optional<'de, D: Deserializer<'de>, T>(
    given: D,
    read: impl FnOnce(Value) -> Result<T, D::Error>,
) -> Result<Option<T>, D::Error> {
    match Value::deserialize(given)? {
        Value::None => Ok(None),
        value => read(value).map(Some),
    }
}

fn whole_of<E: de::Error>(least: u64, most: u64, value: Value) -> Result<u64, E> {
    let allowed = format!("in {least}..={most}");
    match value {
        Value::Integer(number) => u64::try_from(number)
            .ok()
            .filter(|number| (least..=most).contains(number))
            .ok_or_else(|| wrong_value(&value, &allowed)),
        other => Err(wrong_type(&other, &format!("an integer {allowed}"))),
    }
}

/// A number that `accepts`; `allowed` describes them.
pub(crate) fn number_of<E: de::Error>(allowed: &str, accepts: impl Fn(f64) -> bool, value: Value) -> Result<f64, E> {
    let number = match value {
        Value::Integer(value) => value as f64,
        Value::Number(value) => value + 0.0, // -0.0 becomes 0.0
        other => return Err(wrong_type(&other, &format!("a number {allowed}"))),
    };
    if accepts(number) { Ok(number) } else { Err(wrong_value(&Value::Number(number), allowed)) }
}

fn wrong_type<E: de::Error>(value: &Value, expected: &str) -> E {
    E::invalid_type(Unexpected::Other(&value.to_string()), &expected)
}

fn wrong_value<E: de::Error>(value: &Value, allowed: &str) -> E {
    E::invalid_value(Unexpected::Other(&value.to_string()), &allowed)
}

// How serde walks through arguments.

/// An error that does not name its parameter yet.
#[derive(Debug)]
struct Refused(Error);

impl Refused {
    fn name(self, parameter: &str) -> Self {
        Self(match self.0 {
            Error::Value(text) => Error::Value(format!("{parameter} {text}")),
            Error::Type(text) => Error::Type(format!("{parameter} {text}")),
        })
    }
}

impl Display for Refused {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(out)
    }
}

impl std::error::Error for Refused {}

impl de::Error for Refused {
    fn custom<T: Display>(text: T) -> Self {
        Self(Error::Value(text.to_string()))
    }

    fn invalid_type(given: Unexpected, expected: &dyn de::Expected) -> Self {
        Self(Error::Type(format!("must be {expected}, got {given}")))
    }

    fn invalid_value(given: Unexpected, expected: &dyn de::Expected) -> Self {
        Self(Error::Value(format!("must be {expected}, got {given}")))
    }

    fn unknown_field(name: &str, known: &'static [&'static str]) -> Self {
        Self(Error::Type(format!("unknown parameter {name}; this grouping takes {}", known.join(", "))))
    }
}

/// Names and values still to be read.
struct Pairs<'a> {
    rest: btree_map::Iter<'a, String, Value>,
    value: Option<(&'a str, &'a Value)>,
}

impl<'de> MapAccess<'de> for Pairs<'_> {
    type Error = Refused;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Refused> {
        let Some((name, value)) = self.rest.next() else { return Ok(None) };
        self.value = Some((name, value));
        seed.deserialize(name.as_str().into_deserializer()).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Refused> {
        let (name, value) = self.value.take().ok_or_else(|| de::Error::custom("a value has no name"))?;
        seed.deserialize(Given(value)).map_err(|refused| refused.name(name))
    }
}

/// A value for serde to read.
struct Given<'a>(&'a Value);

impl<'de> Deserializer<'de> for Given<'_> {
    type Error = Refused;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        match self.0 {
            Value::None => visitor.visit_unit(),
            Value::Bool(value) => visitor.visit_bool(*value),
            Value::Integer(value) => visitor.visit_i128(*value),
            Value::Number(value) => visitor.visit_f64(*value),
            Value::Other(text) => visitor.visit_str(text),
        }
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(given: D) -> Result<Self, D::Error> {
        struct AnyValue;

        impl Visitor<'_> for AnyValue {
            type Value = Value;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("a single value")
            }

            fn visit_unit<E>(self) -> Result<Value, E> {
                Ok(Value::None)
            }

            fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
                Ok(Value::Bool(value))
            }

            fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
                Ok(Value::Integer(value.into()))
            }

            fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
                Ok(Value::Integer(value.into()))
            }

            fn visit_i128<E>(self, value: i128) -> Result<Value, E> {
                Ok(Value::Integer(value))
            }

            fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
                Ok(Value::Number(value))
            }

            fn visit_str<E>(self, text: &str) -> Result<Value, E> {
                Ok(Value::Other(text.to_owned()))
            }
        }

        given.deserialize_any(AnyValue)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(default, deny_unknown_fields)]
    struct Few {
        #[serde(deserialize_with = "workers")]
        workers: u32,
        #[serde(deserialize_with = "optional_whole::<1, 10, _>")]
        capacity: Option<u64>,
        #[serde(deserialize_with = "epsilon")]
        epsilon: f64,
        #[serde(deserialize_with = "boolean")]
        distinct: bool,
    }

    impl Default for Few {
        fn default() -> Self {
            Self { workers: 1, capacity: Some(2), epsilon: 0.5, distinct: false }
        }
    }

    fn few() -> Arguments {
        Arguments::default().with("workers", 3)
    }

    #[test]
    fn what_is_not_named_has_its_default() {
        assert_eq!(few().read::<Few>(&["workers"]).unwrap(), Few { workers: 3, ..Few::default() });
        let all = few().with("capacity", None::<u64>).with("epsilon", 1).with("distinct", true);
        let read = Few { workers: 3, capacity: None, epsilon: 1.0, distinct: true };
        assert_eq!(all.read::<Few>(&["workers"]).unwrap(), read);
    }

    #[test]
    fn errors_name_parameter_range_and_value() {
        let text = |arguments: Arguments| match arguments.read::<Few>(&["workers"]).unwrap_err() {
            Error::Value(text) => format!("value: {text}"),
            Error::Type(text) => format!("type: {text}"),
        };
        let other = Value::Other("'x'".to_owned());
        assert_eq!(text(few().with("workers", 0)), "value: workers must be in 1..=65536, got 0");
        assert_eq!(text(few().with("capacity", other)), "type: capacity must be an integer in 1..=10, got 'x'");
        assert_eq!(text(few().with("epsilon", f64::NAN)), "value: epsilon must be above 0 and at most 1000, got nan");
        assert_eq!(text(few().with("distinct", 2.0)), "type: distinct must be True or False, got 2.0");
        assert_eq!(
            text(few().with("colour", 1)),
            "type: unknown parameter colour; this grouping takes workers, capacity, epsilon, distinct"
        );
        assert_eq!(text(Arguments::default()), "type: missing parameter workers");
    }
}

//! A grouping's parameters as a caller names them, and the checks of their types and ranges.

use std::collections::BTreeMap;
use std::fmt::{self, Display};
use std::ops::RangeInclusive;

use crate::error::{Error, Result};

/// The largest number of workers.
pub const MAX_WORKERS: u64 = 65_536;

/// The value of one parameter, before it is checked.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// Not given: the grouping's own default applies.
    None,
    /// True or false.
    Bool(bool),
    /// A whole number.
    Integer(i128),
    /// Any other number.
    Number(f64),
    /// Anything else, as the text that an error should show.
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

/// Named parameters of a grouping. Equal parameters print equally.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Params(BTreeMap<String, Value>);

impl Params {
    /// The two parameters that every grouping takes.
    pub fn new(workers: u64, seed: u64) -> Self {
        Self::default().with("workers", workers).with("seed", seed)
    }

    /// Adds or replaces one parameter.
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.0.insert(name.to_owned(), value.into());
        self
    }

    /// Refuses parameters that are not among `known`.
    pub(crate) fn only(&self, known: &[&str]) -> Result<()> {
        let common = ["workers", "seed"];
        match self.0.keys().find(|name| !common.contains(&name.as_str()) && !known.contains(&name.as_str())) {
            None => Ok(()),
            Some(name) => {
                let names = [&common[..], known].concat().join(", ");
                Err(Error::Type(format!("unknown parameter {name}; this grouping takes {names}")))
            }
        }
    }

    pub(crate) fn workers(&self) -> Result<u32> {
        Ok(self.integer("workers", 1..=MAX_WORKERS)? as u32)
    }

    pub(crate) fn seed(&self) -> Result<u64> {
        self.integer("seed", 0..=u64::MAX)
    }

    /// A whole number within `range`.
    pub(crate) fn integer(&self, name: &str, range: RangeInclusive<u64>) -> Result<u64> {
        let allowed = format!("in {}..={}", range.start(), range.end());
        match self.required(name)? {
            Value::Integer(value) => u64::try_from(*value)
                .ok()
                .filter(|value| range.contains(value))
                .ok_or_else(|| Error::value(format!("{name} must be {allowed}, got {value}"))),
            other => Err(Error::Type(format!("{name} must be an integer {allowed}, got {other}"))),
        }
    }

    /// A number that `accepts`; `allowed` says which in words.
    pub(crate) fn number(&self, name: &str, allowed: &str, accepts: impl Fn(f64) -> bool) -> Result<f64> {
        let value = match self.required(name)? {
            Value::Integer(value) => *value as f64,
            Value::Number(value) => *value + 0.0, // -0.0 becomes 0.0
            other => return Err(Error::Type(format!("{name} must be a number {allowed}, got {other}"))),
        };
        if accepts(value) {
            Ok(value)
        } else {
            Err(Error::value(format!("{name} must be {allowed}, got {}", Value::Number(value))))
        }
    }

    /// A number of seconds, or of messages a second, that computations can bear.
    pub(crate) fn seconds(&self, name: &str) -> Result<f64> {
        self.number(name, "in 1e-6..=1e12", |value| (1e-6..=1e12).contains(&value))
    }

    /// The share of the messages from which on a key is frequent, where one is given.
    pub(crate) fn threshold(&self) -> Result<Option<f64>> {
        if self.is_none("threshold")? {
            return Ok(None);
        }
        self.number("threshold", "above 0 and at most 1", |theta| theta > 0.0 && theta <= 1.0).map(Some)
    }

    /// True or false.
    pub(crate) fn boolean(&self, name: &str) -> Result<bool> {
        match self.required(name)? {
            Value::Bool(value) => Ok(*value),
            other => Err(Error::Type(format!("{name} must be True or False, got {other}"))),
        }
    }

    /// Whether the parameter was left to its default.
    pub(crate) fn is_none(&self, name: &str) -> Result<bool> {
        Ok(*self.required(name)? == Value::None)
    }

    fn required(&self, name: &str) -> Result<&Value> {
        self.0.get(name).ok_or_else(|| Error::Type(format!("missing parameter {name}")))
    }
}

impl Display for Params {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        // 1 and 1.0 are equal.
        let equal = |value: &Value| match value {
            Value::Number(number) if number.fract() == 0.0 => Value::Integer(*number as i128),
            other => other.clone(),
        };
        let pairs: Vec<String> = self.0.iter().map(|(name, value)| format!("{name}={}", equal(value))).collect();
        out.write_str(&pairs.join(", "))
    }
}

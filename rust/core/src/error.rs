//! The errors a caller can cause.

/// What was wrong with an argument; the text names the argument, the value and the allowed range.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The value is outside the allowed range.
    #[error("{0}")]
    Value(String),
    /// The argument does not accept values of this type.
    #[error("{0}")]
    Type(String),
}

impl Error {
    pub(crate) fn value(text: impl Into<String>) -> Self {
        Self::Value(text.into())
    }

    /// A snapshot that no router has written: what of it cannot be.
    pub(crate) fn damaged(what: &str) -> Self {
        Self::Value(format!("snapshot is damaged: {what}"))
    }
}

/// A result whose error is [`enum@Error`] unless it says otherwise.
pub type Result<T, E = Error> = std::result::Result<T, E>;

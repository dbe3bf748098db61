//! The frame of all stored data.
//!
//! A line of text with the family and its version, the payload, and a CRC-32 of all of it:
//!
//! ```text
//! keysplit router d_choices 2\n  payload  4 bytes
//! ```
//!
//! Each family (a grouping's routers, the sketches) has its own version numbers. The reader of a family knows all its
//! versions so far; [`Frame::check_version`] refuses newer ones with a one-line error.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::{Error, Result};

/// The contents of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame<'a> {
    /// The family: words separated by spaces.
    pub family: &'a str,
    /// The version within the family.
    pub version: u32,
    /// The payload, whose checksum was correct.
    pub payload: &'a [u8],
}

impl<'a> Frame<'a> {
    /// Reads a frame; none if it is damaged or not a frame.
    pub fn open(bytes: &'a [u8]) -> Option<Self> {
        let (body, _) = bytes.split_last_chunk::<4>().filter(|(body, sum)| checksum(body) == **sum)?;
        let end = body.iter().position(|&byte| byte == b'\n')?;
        let line = std::str::from_utf8(&body[..end]).ok()?.strip_prefix("keysplit ")?;
        let (family, version) = line.rsplit_once(' ')?;
        Some(Self { family, version: version.parse().ok()?, payload: &body[end + 1..] })
    }

    /// The bytes to store.
    pub fn seal(&self) -> Vec<u8> {
        let mut bytes = format!("keysplit {} {}\n", self.family, self.version).into_bytes();
        bytes.extend(self.payload);
        bytes.extend(checksum(&bytes));
        bytes
    }

    /// Refuses versions newer than `newest`; `name` is the name of the argument.
    pub fn check_version(&self, name: &str, newest: u32) -> Result<()> {
        if self.version <= newest {
            return Ok(());
        }
        let Self { family, version, .. } = self;
        let text = format!("{name} must be of a {family} of version {newest} at most, got {version}: update keysplit");
        Err(Error::Value(text))
    }
}

fn checksum(body: &[u8]) -> [u8; 4] {
    crc32fast::hash(body).to_le_bytes()
}

/// Plain data as bytes.
pub(crate) fn encode(state: &impl Serialize) -> Vec<u8> {
    // Serialising plain data to memory cannot fail.
    postcard::to_stdvec(state).unwrap_or_default()
}

/// Decodes what [`encode`] wrote.
pub(crate) fn decode<T: DeserializeOwned>(state: &[u8]) -> Result<T> {
    match postcard::take_from_bytes(state) {
        Ok((state, [])) => Ok(state),
        _ => Err(Error::damaged("its state cannot be read")),
    }
}

/// Text from a snapshot, fit for an error.
pub(crate) fn one_line(text: &str) -> String {
    text.replace(char::is_control, " ")
}

/// A number of messages or segments read from a snapshot, within the range of the counters.
pub(crate) fn checked_count(count: u64) -> Result<u64> {
    const MOST: u64 = 1 << 62;
    if count <= MOST { Ok(count) } else { Err(Error::damaged("it has too many messages")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_holds_what_was_sealed() {
        let frame = Frame { family: "router key", version: 12, payload: b"\nall \xff" };
        let bytes = frame.seal();
        assert!(bytes.starts_with(b"keysplit router key 12\n\nall \xff"));
        assert_eq!(Frame::open(&bytes), Some(frame));
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            assert_eq!(Frame::open(&damaged), None);
            assert_eq!(Frame::open(&bytes[..at]), None);
        }
    }

    #[test]
    fn newer_versions_are_refused_in_one_line() {
        let frame = Frame { family: "router key", version: 3, payload: b"" };
        frame.check_version("snapshot", 3).unwrap();
        let error = frame.check_version("snapshot", 2).unwrap_err().to_string();
        assert_eq!(error, "snapshot must be of a router key of version 2 at most, got 3: update keysplit");
    }
}

//! Typed scalars that must not be confused with each other.
//!
//! Columns stay plain slices of numbers: a batch's hashes, the workers returned, the loads of all workers. A value that
//! a loop takes out of one gets its type there. This costs nothing, and swapped arguments do not compile:
//!
//! ```
//! use keysplit_core::hash::candidate_pair;
//! use keysplit_core::{KeyHash, Worker};
//!
//! let (first, second): (Worker, Worker) = candidate_pair(KeyHash(7), 0, 50);
//! # assert!(first.0 < 50 && second.0 < 50);
//! ```
//!
//! ```compile_fail
//! use keysplit_core::hash::candidate_pair;
//! use keysplit_core::KeyHash;
//!
//! candidate_pair(0, KeyHash(7), 50);
//! ```

/// The hash of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct KeyHash(pub u64);

/// The number of a worker, or of a bin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct Worker(pub u32);

impl Worker {
    /// Its index in a column of all workers.
    #[inline(always)]
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// The number of a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct Source(pub u32);

/// A sum of weights as the bits of a [`Scale`](crate::amount::Scale). Amounts of one scale sort like the sums.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(transparent)]
pub(crate) struct Amount(pub(crate) u64);

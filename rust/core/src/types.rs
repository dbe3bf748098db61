//! Single values that are numbers to the processor and must not be mistaken for each other.
//!
//! Columns (a batch's hashes, the workers that are answered) stay plain slices of numbers; what a loop takes out of one
//! gets its type there. None of this costs anything.

/// The number of a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct Source(pub u32);

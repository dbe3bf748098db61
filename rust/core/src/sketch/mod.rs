//! Frequency sketches: which keys are frequent, in bounded memory.

mod counting_bloom;
mod index;
mod interval_counts;
mod space_saving;

pub(crate) use counting_bloom::CountingBloom;
pub(crate) use index::Index;
pub(crate) use interval_counts::{IntervalCounts, SavedCounts};
pub(crate) use space_saving::Block;
pub use space_saving::{Origin, SavedSketch, SpaceSaving, Touched};

//! Frequency sketches: which keys are frequent, in memory that does not grow with the stream.

mod index;
mod space_saving;

pub use space_saving::{Origin, SavedSketch, SpaceSaving, Touched};

//! Which keys are frequent enough for more than two candidates.
//!
//! ICDE 2016 paper, section III-A: the head is the set of keys whose frequency, estimated by SpaceSaving, is at least
//! theta; theta = 1/(5n) unless given. Below it two choices are enough.

use crate::amount::Scale;
use crate::error::{Error, Result};
use crate::sketch::{SpaceSaving, Touched};
use crate::types::{Amount, KeyHash};

/// The sketch of a source and the threshold of its head.
#[derive(Debug, Clone)]
pub(in crate::groupings) struct Head {
    pub(in crate::groupings) sketch: SpaceSaving,
    /// 1 / theta: with the default it is a whole number, and the test below exact.
    inverse: f64,
}

impl Head {
    /// An empty head; without a threshold it is 1/(5n), without a capacity the sketch has what the threshold needs.
    pub(in crate::groupings) fn new(
        workers: u32,
        threshold: Option<f64>,
        sketch_capacity: Option<u64>,
    ) -> Result<Self> {
        let inverse = threshold.map_or(5.0 * f64::from(workers), f64::recip);
        Ok(Self { sketch: new_sketch(threshold, sketch_capacity, 10.0 * inverse)?, inverse })
    }

    /// Counts a message; the counter it touched, and whether its key is in the head now.
    #[inline(always)]
    pub(in crate::groupings) fn count(&mut self, scale: Scale, hash: KeyHash, weight: Amount) -> (Touched, bool) {
        let touched = self.sketch.add(scale, hash, weight);
        (touched, self.holds(touched.slot))
    }

    /// Whether the key of a slot is in the head.
    #[inline(always)]
    pub(in crate::groupings) fn holds(&self, slot: usize) -> bool {
        self.sketch.count(slot) * self.inverse >= self.sketch.total()
    }

    /// This head after one more message of weight 1, and whether the key is in it then.
    pub(in crate::groupings) fn after(&self, hash: KeyHash) -> (Self, bool) {
        let (sketch, touched) = self.sketch.after(hash);
        let after = Self { sketch, inverse: self.inverse };
        let holds = after.holds(touched.slot);
        (after, holds)
    }

    /// Counts of the head's keys, in descending order.
    pub(in crate::groupings) fn counts(&self) -> Vec<f64> {
        let slots = 0..self.sketch.len();
        let mut counts: Vec<f64> = slots.filter(|&slot| self.holds(slot)).map(|slot| self.sketch.count(slot)).collect();
        counts.sort_unstable_by(|a, b| b.total_cmp(a));
        counts
    }
}

/// A sketch of `sketch_capacity` counters; where that is not given, of as many as the threshold needs.
pub(in crate::groupings) fn new_sketch(
    threshold: Option<f64>,
    sketch_capacity: Option<u64>,
    needed: f64,
) -> Result<SpaceSaving> {
    const MOST: u64 = SpaceSaving::MAX_CAPACITY;
    let capacity = sketch_capacity.map_or(needed.ceil().max(1000.0), |capacity| capacity as f64);
    if capacity > MOST as f64 {
        let (least, threshold) = (10.0 / MOST as f64, threshold.unwrap_or_default());
        return Err(Error::Value(format!(
            "threshold must be in {least:?}..=1 when sketch_capacity is None, got {threshold:?}"
        )));
    }
    SpaceSaving::new(capacity as u64)
}

//! Which keys are frequent enough for more than two candidates.
//!
//! ICDE 2016 paper, section III-A: the head is the set of keys whose frequency, estimated by SpaceSaving, is at least
//! theta; default theta = 1/(5n). Two choices are enough below it.

use wide::i64x8;

use crate::amount::Scale;
use crate::batch::BLOCK;
use crate::error::{Error, Result};
use crate::sketch::{Block, SpaceSaving};
use crate::types::{Amount, KeyHash};

/// The sketch of a source and the threshold of its head.
#[derive(Debug, Clone)]
pub(in crate::groupings) struct Head {
    pub(in crate::groupings) sketch: SpaceSaving,
    /// 1 / theta: a whole number by default, so the test below is exact.
    inverse: f64,
}

impl Head {
    /// An empty head; the threshold defaults to 1/(5n), the capacity to what the threshold needs.
    pub(in crate::groupings) fn new(
        workers: u32,
        threshold: Option<f64>,
        sketch_capacity: Option<u64>,
    ) -> Result<Self> {
        let inverse = threshold.map_or(5.0 * f64::from(workers), f64::recip);
        Ok(Self { sketch: new_sketch(threshold, sketch_capacity, 10.0 * inverse)?, inverse })
    }

    /// Counts the first messages, as [`SpaceSaving::count_block`] does; returns how many, and which of their keys were then in
    /// the head: bit i stands for message i.
    #[inline(always)]
    pub(in crate::groupings) fn count(
        &mut self,
        scale: Scale,
        hashes: &[u64],
        weights: Option<&[f64]>,
        block: &mut Block,
    ) -> (usize, u64) {
        let rows = self.sketch.count_block(scale, hashes, weights, block);
        let frequent = self.frequent(scale, rows, block);
        (rows, frequent)
    }

    /// Which messages' keys were in the head just after them.
    #[inline(always)]
    fn frequent(&self, scale: Scale, rows: usize, block: &Block) -> u64 {
        // While the sum of all weights grows from the first to the last message, one count is usually the least of the head.
        let (first, last) = (block.totals[0], block.totals[rows - 1]);
        if scale == Scale::Whole {
            let least = self.least_count(first);
            if least as f64 * self.inverse >= last as f64 {
                return at_least(least, &block.counts);
            }
        }
        let mut frequent = 0;
        for (row, (&count, &total)) in block.counts.iter().zip(&block.totals).enumerate() {
            let holds = scale.number(Amount(count)) * self.inverse >= scale.number(Amount(total));
            frequent |= u64::from(holds) << row;
        }
        frequent
    }

    /// The smallest whole count of a key in the head when the sum of all weights is `total`.
    #[inline(always)]
    fn least_count(&self, total: u64) -> u64 {
        let holds = |count: u64| count as f64 * self.inverse >= total as f64;
        // The quotient is rounded.
        let mut least = (total as f64 / self.inverse) as u64;
        while !holds(least) {
            least += 1;
        }
        while least > 0 && holds(least - 1) {
            least -= 1;
        }
        least
    }

    /// Whether the key of a slot is in the head.
    #[inline(always)]
    pub(in crate::groupings) fn holds(&self, slot: usize) -> bool {
        self.sketch.count(slot) * self.inverse >= self.sketch.total()
    }

    /// This head after one more message of weight 1, and whether the key is then in it.
    pub(in crate::groupings) fn after(&self, hash: KeyHash) -> (Self, bool) {
        let (sketch, touched) = self.sketch.after(hash);
        let after = Self { sketch, inverse: self.inverse };
        let holds = after.holds(touched.slot);
        (after, holds)
    }

    /// Counts of the keys of slots, in descending order.
    pub(in crate::groupings) fn counts(&self, slots: impl Iterator<Item = usize>) -> Vec<f64> {
        let mut counts: Vec<f64> = slots.map(|slot| self.sketch.count(slot)).collect();
        counts.sort_unstable_by(|a, b| b.total_cmp(a));
        counts
    }
}

/// Bit i is set where `counts[i]` is at least `least`; both are whole numbers below 2^53.
#[inline(always)]
fn at_least(least: u64, counts: &[u64; BLOCK]) -> u64 {
    let mut found = 0;
    for (part, counts) in counts.as_chunks::<8>().0.iter().enumerate() {
        // Signed numbers are compared in one step by every vector unit.
        let less = i64x8::new(counts.map(|count| count as i64)).simd_lt(i64x8::splat(least as i64)).to_bitmask();
        found |= u64::from(!less as u8) << (8 * part);
    }
    found
}

/// A sketch of `sketch_capacity` counters; by default as many as the threshold needs.
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

//! Equal bins of bounded capacity, filled by the power of random choices.
//!
//! CG paper (arXiv 1705.09073), section 5.1: workers themselves, or virtual workers.

use super::capacity::Capacity;
use super::probing::Prober;
use crate::amount::Scale;
use crate::batch::Batch;
use crate::error::Result;
use crate::state::loads::{Loads, SavedLoads};
use crate::types::{Amount, KeyHash, Worker};

#[derive(Clone)]
pub(in crate::groupings) struct Bins {
    capacity: Capacity,
    prober: Prober,
    loads: Loads,
}

/// What [`Bins::restore`] needs: the sum of all messages, and of each bin.
pub(in crate::groupings) type SavedBins = (f64, SavedLoads);

impl Bins {
    /// Empty bins with the capacity that `epsilon` gives.
    pub(in crate::groupings) fn new(epsilon: f64, bins: u32) -> Self {
        Self { capacity: Capacity::new(epsilon, bins), prober: Prober::new(bins), loads: Loads::new(bins) }
    }

    /// Prepares for a batch, whose weights are amounts of the returned scale.
    pub(in crate::groupings) fn expect(&mut self, batch: &Batch) -> Scale {
        let scale = self.loads.expect(batch.hashes.len(), batch.weights);
        self.capacity.expect(scale);
        scale
    }

    /// Puts a message into a bin and returns the bin.
    #[inline(always)]
    pub(in crate::groupings) fn throw(&mut self, scale: Scale, hash: KeyHash, weight: Amount) -> Worker {
        let capacity = self.capacity.next(scale, weight);
        let bin = self.prober.find(hash, capacity, &mut self.loads);
        self.loads.add(scale, bin, weight);
        bin
    }

    /// The load of each bin.
    pub(in crate::groupings) fn numbers(&self) -> Vec<f64> {
        self.loads.numbers()
    }

    pub(in crate::groupings) fn save(&self) -> SavedBins {
        (self.capacity.save(), self.loads.save())
    }

    /// Restores what [`Bins::save`] returned.
    pub(in crate::groupings) fn restore(&mut self, (sent, loads): SavedBins) -> Result<()> {
        self.capacity.restore(sent)?;
        self.prober.forget();
        self.loads.restore(loads)
    }
}

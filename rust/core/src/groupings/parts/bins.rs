//! Equal bins of bounded capacity, filled by the power of random choices.
//!
//! CG paper (arXiv 1705.09073), section 5.1: workers themselves, or virtual workers.

use super::bounded::{Bounded, SavedBounded};
use super::probing::{Drawn, Prober};
use crate::batch::Batch;
use crate::error::Result;
use crate::types::Worker;

#[derive(Clone)]
pub(in crate::groupings) struct Bins {
    bounded: Bounded,
    prober: Prober,
}

impl Bins {
    /// Empty bins with the capacity that `epsilon` gives.
    pub(in crate::groupings) fn new(epsilon: f64, bins: u32) -> Self {
        Self { bounded: Bounded::new(epsilon, bins), prober: Prober::new(bins) }
    }

    /// Puts the messages of a batch into bins; `owner` gives the worker of each bin.
    #[inline(always)]
    pub(in crate::groupings) fn throw(
        &mut self,
        batch: &Batch,
        workers: &mut [u32],
        owner: impl FnMut(Worker) -> Worker,
    ) {
        let Self { bounded, prober } = self;
        let bins = prober.bins();
        bounded.put(
            batch,
            workers,
            #[inline(always)]
            |hashes| Drawn::of(hashes, bins),
            #[inline(always)]
            |hash, drawn, row, capacity, loads| prober.find(hash, drawn, row, capacity, loads),
            owner,
        );
    }

    /// The load of each bin.
    pub(in crate::groupings) fn numbers(&self) -> Vec<f64> {
        self.bounded.numbers()
    }

    pub(in crate::groupings) fn save(&self) -> SavedBounded {
        self.bounded.save()
    }

    /// Restores what [`Bins::save`] returned.
    pub(in crate::groupings) fn restore(&mut self, saved: SavedBounded) -> Result<()> {
        self.prober.forget();
        self.bounded.restore(saved)
    }
}

//! Bins of which each takes messages up to a capacity, the same for all.

use super::capacity::Capacity;
use crate::batch::Batch;
use crate::error::Result;
use crate::state::loads::{Loads, SavedLoads, Unranked};
use crate::types::{Amount, KeyHash, Worker};

#[derive(Clone)]
pub(in crate::groupings) struct Bounded {
    capacity: Capacity,
    /// What each bin holds.
    loads: Loads,
}

/// What [`Bounded::restore`] needs: the sum of all messages, and of each bin.
pub(in crate::groupings) type SavedBounded = (f64, SavedLoads);

impl Bounded {
    /// Empty bins with the capacity that `epsilon` gives.
    pub(in crate::groupings) fn new(epsilon: f64, bins: u32) -> Self {
        Self { capacity: Capacity::new(epsilon, bins), loads: Loads::new(bins) }
    }

    /// Empties the bins, of which there are then so many; their numbers end before `numbers`.
    pub(in crate::groupings) fn restart(&mut self, bins: u32, numbers: usize) {
        self.capacity.restart(bins);
        self.loads = Loads::new(numbers as u32);
    }

    /// Puts the messages of a batch into bins, in order. `prepare` gets the hashes of a block, `find` one of them with what was
    /// prepared, its place in the block, the capacity, and what each bin holds; `worker` gives the worker of the bin found.
    #[inline(always)]
    pub(in crate::groupings) fn put<Prepared>(
        &mut self,
        batch: &Batch,
        workers: &mut [u32],
        mut prepare: impl FnMut(&[u64]) -> Prepared,
        mut find: impl FnMut(KeyHash, &Prepared, usize, Amount, &Unranked) -> Worker,
        mut worker: impl FnMut(Worker) -> Worker,
    ) {
        let Self { capacity, loads } = self;
        let scale = loads.expect(batch.hashes.len(), batch.weights);
        capacity.expect(scale);
        let mut loads = loads.unranked();
        batch.blocks(
            scale,
            workers,
            #[inline(always)]
            |scale, hashes, weights, workers| {
                let (prepared, mut loads, mut row) = (prepare(hashes), loads.again(), 0);
                while row < hashes.len() {
                    let weight = scale.amount(weights.map_or(1.0, |weights| weights[row]));
                    let most = if weights.is_none() { hashes.len() - row } else { 1 };
                    let (capacity, run) = capacity.run(scale, weight, most);
                    for row in row..row + run {
                        let bin = find(KeyHash(hashes[row]), &prepared, row, capacity, &loads);
                        loads.add(scale, bin, weight);
                        workers[row] = worker(bin).0;
                    }
                    row += run;
                }
            },
        );
    }

    /// What each bin holds.
    pub(in crate::groupings) fn numbers(&self) -> Vec<f64> {
        self.loads.numbers()
    }

    pub(in crate::groupings) fn save(&self) -> SavedBounded {
        (self.capacity.save(), self.loads.save())
    }

    /// Restores what [`Bounded::save`] returned.
    pub(in crate::groupings) fn restore(&mut self, (sent, loads): SavedBounded) -> Result<()> {
        self.capacity.restore(sent)?;
        self.loads.restore(loads)
    }
}

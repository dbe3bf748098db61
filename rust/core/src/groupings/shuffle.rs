//! Shuffle grouping (SG): messages go to the workers in turn, whatever their key.
//!
//! The other baseline (ICDE 2016 paper, section II-B): perfect balance of messages, and a partial state of every key on
//! every worker. The first turn depends on seed and source, so that sources do not march in step.

use super::{Grouping, decode, encode};
use crate::batch::Batch;
use crate::error::Result;
use crate::hash::Draws;
use crate::params::Params;
use crate::state::loads::Loads;

struct Shuffle {
    turn: Turn,
    loads: Loads,
}

/// Workers one after the other.
pub(super) struct Turn {
    workers: u32,
    next: u32,
}

impl Turn {
    pub(super) fn new(params: &Params, source: u32) -> Result<Self> {
        let workers = params.workers()?;
        Ok(Self { workers, next: Draws::new(params.seed()?, source).first_turn(workers) })
    }

    pub(super) fn next(&self) -> u32 {
        self.next
    }

    /// Continues from a saved turn; a damaged one still names a worker.
    pub(super) fn restore(&mut self, next: u32) {
        self.next = next % self.workers;
    }

    #[inline(always)]
    pub(super) fn take(&mut self) -> u32 {
        let worker = self.next;
        self.next = if worker + 1 == self.workers { 0 } else { worker + 1 };
        worker
    }
}

pub(super) fn build(params: &Params, source: u32) -> Result<Box<dyn Grouping>> {
    params.only(&[])?;
    Ok(Box::new(Shuffle { turn: Turn::new(params, source)?, loads: Loads::new(params.workers()?) }))
}

impl Grouping for Shuffle {
    fn route(&mut self, batch: &Batch, workers: &mut [u32]) {
        for worker in workers.iter_mut() {
            *worker = self.turn.take();
        }
        batch.sent(&mut self.loads, workers);
    }

    fn candidates(&self, _hash: u64) -> Vec<u32> {
        vec![self.turn.next()]
    }

    fn loads(&self) -> Vec<f64> {
        self.loads.numbers()
    }

    fn save(&self) -> Vec<u8> {
        encode(&(self.turn.next(), self.loads.save()))
    }

    fn restore(&mut self, state: &[u8]) -> Result<()> {
        let (next, loads) = decode(state)?;
        self.turn.restore(next);
        self.loads.restore(loads)
    }
}

//! Workers in turn.

use crate::hash::Draws;
use crate::types::Source;

/// Workers one after the other. The first turn depends on seed and source, so that sources do not march in step.
pub(in crate::groupings) struct Turn {
    workers: u32,
    next: u32,
}

impl Turn {
    pub(in crate::groupings) fn new(workers: u32, seed: u64, source: Source) -> Self {
        Self { workers, next: Draws::new(seed, source).first_turn(workers) }
    }

    pub(in crate::groupings) fn next(&self) -> u32 {
        self.next
    }

    /// Continues from a saved turn; a damaged one still names a worker.
    pub(in crate::groupings) fn restore(&mut self, next: u32) {
        self.next = next % self.workers;
    }

    #[inline(always)]
    pub(in crate::groupings) fn take(&mut self) -> u32 {
        let worker = self.next;
        self.next = if worker + 1 == self.workers { 0 } else { worker + 1 };
        worker
    }
}

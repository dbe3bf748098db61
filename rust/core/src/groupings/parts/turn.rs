//! Round-robin order of workers.

use crate::hash::Draws;
use crate::types::{Source, Worker};

/// Workers in round-robin order. The start depends on seed and source, so that sources are not in lockstep.
pub(in crate::groupings) struct Turn {
    workers: u32,
    next: Worker,
}

impl Turn {
    pub(in crate::groupings) fn new(workers: u32, seed: u64, source: Source) -> Self {
        Self { workers, next: Draws::new(seed, source).first_turn(workers) }
    }

    pub(in crate::groupings) fn next(&self) -> Worker {
        self.next
    }

    /// Restores a saved turn; a damaged one still names a valid worker.
    pub(in crate::groupings) fn restore(&mut self, next: Worker) {
        self.next = Worker(next.0 % self.workers);
    }

    #[inline(always)]
    pub(in crate::groupings) fn take(&mut self) -> Worker {
        self.take_if(true)
    }

    /// The worker whose turn it is; it is the next one's then, if this one takes it.
    #[inline(always)]
    pub(in crate::groupings) fn take_if(&mut self, takes: bool) -> Worker {
        let (worker, next) = (self.next, self.next.0 + u32::from(takes));
        self.next = Worker(if next == self.workers { 0 } else { next });
        worker
    }
}

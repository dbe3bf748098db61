//! Consistent grouping (CG): power of random choices over virtual workers, which move from busy workers to idle ones.
//!
//! CG paper (arXiv 1705.09073), sections 5.2 and 5.3. A worker of capacity c_w (all capacities sum to n) ends up with
//! about c_w times its first number of virtual workers, here *bins*. Only later messages are affected: no message or
//! state moves. Deviations: bins are probed 64 times a bin at most (see `power_of_random`); the clock is the caller's.

use super::parts::bins::Bins;
use super::parts::pairing::{Pairing, Signal};
use super::{Grouping, decode, encode, next_worker};
use crate::batch::Batch;
use crate::error::Result;
use crate::feedback::Feedback;
use crate::params::Params;
use crate::state::clock::Clock;
use crate::state::loads::Loads;

/// The most bins.
const MOST_BINS: u64 = 1 << 26;

#[derive(Clone)]
struct Consistent {
    slot_s: f64,
    clock: Clock,
    bins: Bins,
    pairing: Pairing,
    loads: Loads,
}

pub(super) fn build(params: &Params, _source: u32) -> Result<Box<dyn Grouping>> {
    params.only(&["virtual_workers", "epsilon", "slot_s", "messages_per_s"])?;
    params.seed()?;
    let workers = params.workers()?;
    let each = params.integer("virtual_workers", 1..=MOST_BINS / u64::from(workers))? as u32;
    Ok(Box::new(Consistent {
        slot_s: params.seconds("slot_s")?,
        clock: Clock::new(params)?,
        bins: Bins::new(params, workers * each)?,
        pairing: Pairing::new(workers, each),
        loads: Loads::new(workers),
    }))
}

impl Grouping for Consistent {
    fn route(&mut self, batch: &Batch, workers: &mut [u32]) {
        let pace = self.clock.expect(batch.now);
        let scale = self.bins.expect(batch);
        batch.each(
            scale,
            workers,
            #[inline(always)]
            |scale, hash, weight| {
                self.clock.message(pace);
                self.pairing.owner(self.bins.throw(scale, hash, weight))
            },
        );
        batch.sent(&mut self.loads, workers);
    }

    fn candidates(&self, hash: u64) -> Vec<u32> {
        next_worker(self, hash)
    }

    fn loads(&self) -> Vec<f64> {
        self.loads.numbers()
    }

    fn save(&self) -> Vec<u8> {
        encode(&(self.clock.save(), self.bins.save(), self.pairing.save(), self.loads.save()))
    }

    fn restore(&mut self, state: &[u8]) -> Result<()> {
        let (clock, bins, pairing, loads) = decode(state)?;
        self.clock.restore(clock)?;
        self.bins.restore(bins)?;
        self.pairing.restore(pairing)?;
        self.loads.restore(loads)
    }

    fn observe(&mut self, feedback: &Feedback) {
        self.clock.tell(feedback.now);
        let slot = (self.clock.time() / self.slot_s).floor();
        for (signal, workers) in [(Signal::Busy, feedback.busy), (Signal::Idle, feedback.idle)] {
            workers.iter().for_each(|&worker| self.pairing.hear(worker, signal, slot));
        }
        self.pairing.pair();
    }
}

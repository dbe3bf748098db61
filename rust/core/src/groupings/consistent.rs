//! Consistent grouping (CG): power of random choices over virtual workers, which move from busy workers to idle ones.
//!
//! CG paper (arXiv 1705.09073), sections 5.2 and 5.3. A worker of capacity c_w (all capacities sum to n) ends up with
//! about c_w times its initial number of virtual workers, called *bins* here. Only later messages are affected: no
//! message or state moves. Deviations: a message probes at most 64 candidates per bin (see `power_of_random`); the
//! clock is the caller's.

use serde::{Deserialize, Serialize};

use super::parts::bins::Bins;
use super::parts::pairing::{Pairing, Signal};
use super::{Grouping, Parameters, next_worker};
use crate::batch::Batch;
use crate::error::{Error, Result};
use crate::feedback::Feedback;
use crate::params;
use crate::snapshot::{decode, encode};
use crate::state::clock::Clock;
use crate::state::loads::Loads;
use crate::types::{KeyHash, Source, Worker};

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Params {
    #[serde(deserialize_with = "params::workers")]
    workers: u32,
    #[serde(deserialize_with = "params::seed")]
    seed: u64,
    /// Initial bins per worker.
    #[serde(deserialize_with = "params::whole::<1, MOST_BINS, _>")]
    virtual_workers: u64,
    /// By how much a load may exceed its fair share.
    #[serde(deserialize_with = "params::epsilon")]
    epsilon: f64,
    /// Length of a slot, in which one signal per worker counts.
    #[serde(deserialize_with = "params::seconds")]
    slot_s: f64,
    /// Rate of messages routed without a time.
    #[serde(deserialize_with = "params::seconds")]
    messages_per_s: f64,
}

impl Default for Params {
    fn default() -> Self {
        Self { workers: 1, seed: 0, virtual_workers: 10, epsilon: 0.01, slot_s: 1.0, messages_per_s: 1000.0 }
    }
}

impl Parameters for Params {
    fn check(&self) -> Result<()> {
        let most = MOST_BINS / u64::from(self.workers);
        if self.virtual_workers <= most {
            return Ok(());
        }
        Err(Error::Value(format!("virtual_workers must be in 1..={most}, got {}", self.virtual_workers)))
    }

    fn build(&self, _source: Source) -> Result<Box<dyn Grouping>> {
        let (workers, each) = (self.workers, self.virtual_workers as u32);
        Ok(Box::new(Consistent {
            slot_s: self.slot_s,
            clock: Clock::new(self.messages_per_s),
            bins: Bins::new(self.epsilon, workers * each),
            pairing: Pairing::new(workers, each),
            loads: Loads::new(workers),
        }))
    }
}

/// The largest number of bins.
const MOST_BINS: u64 = 1 << 26;

#[derive(Clone)]
struct Consistent {
    slot_s: f64,
    clock: Clock,
    bins: Bins,
    pairing: Pairing,
    loads: Loads,
}

impl Grouping for Consistent {
    fn route(&mut self, batch: &Batch, workers: &mut [u32]) {
        let pace = self.clock.expect(batch.now);
        let Self { bins, pairing, .. } = self;
        bins.throw(
            batch,
            workers,
            #[inline(always)]
            |bin| pairing.owner(bin),
        );
        self.clock.skip(workers.len(), pace);
        batch.sent(&mut self.loads, workers);
    }

    fn candidates(&self, hash: KeyHash) -> Vec<u32> {
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
        self.clock.observe(feedback.now);
        let slot = (self.clock.time() / self.slot_s).floor();
        for (signal, workers) in [(Signal::Busy, feedback.busy), (Signal::Idle, feedback.idle)] {
            workers.iter().for_each(|&worker| self.pairing.note(Worker(worker), signal, slot));
        }
        self.pairing.pair();
    }
}

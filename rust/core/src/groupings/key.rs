//! Key grouping (KG, fields grouping): every message of a key goes to one worker.
//!
//! The baseline of all five papers (ICDE 2016 paper, section II-B): a hash, and no state but the loads.

use super::{Grouping, decode, encode};
use crate::batch::Batch;
use crate::error::Result;
use crate::hash::{first_candidate, first_candidates};
use crate::params::Params;
use crate::state::loads::Loads;

struct Key {
    workers: u32,
    loads: Loads,
}

pub(super) fn build(params: &Params, _source: u32) -> Result<Box<dyn Grouping>> {
    params.only(&[])?;
    let (workers, _) = (params.workers()?, params.seed()?);
    Ok(Box::new(Key { workers, loads: Loads::new(workers) }))
}

impl Grouping for Key {
    fn route(&mut self, batch: &Batch, workers: &mut [u32]) {
        first_candidates(batch.hashes, self.workers, workers);
        batch.sent(&mut self.loads, workers);
    }

    fn candidates(&self, hash: u64) -> Vec<u32> {
        vec![first_candidate(hash, self.workers)]
    }

    fn max_workers_per_key(&self) -> u32 {
        1
    }

    fn loads(&self) -> Vec<f64> {
        self.loads.numbers()
    }

    fn save(&self) -> Vec<u8> {
        encode(&self.loads.save())
    }

    fn restore(&mut self, state: &[u8]) -> Result<()> {
        self.loads.restore(decode(state)?)
    }
}

//! Key grouping (KG, fields grouping): every message of a key goes to one worker.
//!
//! The baseline of all five papers (ICDE 2016 paper, section II-B): a hash, and no state but the loads.

use serde::{Deserialize, Serialize};

use super::{Grouping, Parameters};
use crate::batch::Batch;
use crate::error::Result;
use crate::hash::{first_candidate, first_candidates};
use crate::params;
use crate::snapshot::{decode, encode};
use crate::state::loads::Loads;
use crate::types::{KeyHash, Source};

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Params {
    #[serde(deserialize_with = "params::workers")]
    workers: u32,
    #[serde(deserialize_with = "params::seed")]
    seed: u64,
}

impl Default for Params {
    fn default() -> Self {
        Self { workers: 1, seed: 0 }
    }
}

impl Parameters for Params {
    fn build(&self, _source: Source) -> Result<Box<dyn Grouping>> {
        Ok(Box::new(Key { workers: self.workers, loads: Loads::new(self.workers) }))
    }
}

struct Key {
    workers: u32,
    loads: Loads,
}

impl Grouping for Key {
    fn route(&mut self, batch: &Batch, workers: &mut [u32]) {
        first_candidates(batch.hashes, self.workers, workers);
        batch.sent(&mut self.loads, workers);
    }

    fn candidates(&self, hash: KeyHash) -> Vec<u32> {
        vec![first_candidate(hash, self.workers).0]
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

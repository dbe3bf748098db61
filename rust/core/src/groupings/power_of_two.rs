//! Power of two choices (PoTC): the less loaded of two workers drawn at random for every message.
//!
//! CG paper (arXiv 1705.09073), sections 4.3 and 6.1.1. Draws ignore the key, so a key's state may end up on every
//! worker. They are counter-based: the draw of a message depends only on seed, source and position.

use serde::{Deserialize, Serialize};

use super::parts::choices::different;
use super::{Grouping, Parameters};
use crate::batch::Batch;
use crate::error::Result;
use crate::hash::Draws;
use crate::params;
use crate::snapshot::{checked_count, decode, encode};
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
    fn build(&self, source: Source) -> Result<Box<dyn Grouping>> {
        let (workers, draws) = (self.workers, Draws::new(self.seed, source));
        Ok(Box::new(PowerOfTwo { workers, draws, position: 0, loads: Loads::new(workers) }))
    }
}

struct PowerOfTwo {
    workers: u32,
    draws: Draws,
    position: u64,
    loads: Loads,
}

impl Grouping for PowerOfTwo {
    fn route(&mut self, batch: &Batch, workers: &mut [u32]) {
        let scale = self.loads.expect(batch.hashes.len(), batch.weights);
        let mut loads = self.loads.unranked();
        batch.blocks(
            scale,
            workers,
            #[inline(always)]
            |scale, hashes, weights, workers| {
                let [firsts, seconds] = self.draws.pairs(self.position, self.workers);
                self.position += hashes.len() as u64;
                loads.add_all_to_lesser(scale, [&firsts, &seconds], weights, workers);
            },
        );
    }

    fn candidates(&self, _hash: KeyHash) -> Vec<u32> {
        let (first, second) = self.draws.pair(self.position, self.workers);
        different([first, second].map(|worker| worker.0))
    }

    fn loads(&self) -> Vec<f64> {
        self.loads.numbers()
    }

    fn save(&self) -> Vec<u8> {
        encode(&(self.position, self.loads.save()))
    }

    fn restore(&mut self, state: &[u8]) -> Result<()> {
        let (position, loads) = decode(state)?;
        self.position = checked_count(position)?;
        self.loads.restore(loads)
    }
}

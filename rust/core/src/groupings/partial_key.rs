//! Partial key grouping (PKG) and Greedy-d: the least loaded of a key's first d candidates.
//!
//! Nasir et al., The Power of Both Choices (ICDE 2015); here after the ICDE 2016 paper, section II-B, and its
//! Greedy-d process, section III-B. A key's state lies on at most `choices` workers.

use serde::{Deserialize, Serialize};

use super::parts::choices::Choices;
use super::{Grouping, Parameters};
use crate::batch::{BLOCK, Batch};
use crate::error::Result;
use crate::params::{self, MAX_WORKERS};
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
    /// d: the candidates of a key.
    #[serde(deserialize_with = "params::whole::<1, MAX_WORKERS, _>")]
    choices: u64,
    /// Whether a key's candidates must differ.
    #[serde(deserialize_with = "params::boolean")]
    distinct: bool,
}

impl Default for Params {
    fn default() -> Self {
        Self { workers: 1, seed: 0, choices: 2, distinct: false }
    }
}

impl Parameters for Params {
    fn build(&self, _source: Source) -> Result<Box<dyn Grouping>> {
        let choices = Choices::new(self.workers, self.distinct);
        Ok(Box::new(PartialKey { choices, count: self.choices as usize, loads: Loads::new(self.workers) }))
    }
}

struct PartialKey {
    choices: Choices,
    count: usize,
    loads: Loads,
}

/// Up to so many candidates, those of a block of keys are drawn before any load is read.
const FEW: usize = 8;

impl Grouping for PartialKey {
    fn route(&mut self, batch: &Batch, workers: &mut [u32]) {
        let scale = self.loads.expect(batch.hashes.len(), batch.weights);
        if self.count <= FEW {
            let Self { choices, count, loads } = self;
            let (mut lists, mut loads) = ([[0; BLOCK]; FEW], loads.unranked());
            batch.blocks(
                scale,
                workers,
                #[inline(always)]
                |scale, hashes, weights, workers| {
                    let lists = &mut lists[..*count];
                    choices.fill(hashes, lists);
                    loads.add_all_to_least(scale, lists, weights, workers);
                },
            );
        } else {
            batch.each(
                scale,
                workers,
                #[inline(always)]
                |scale, hash, weight| {
                    let worker = self.choices.least_loaded(hash, self.count, &self.loads);
                    self.loads.add(scale, worker, weight);
                    worker
                },
            );
        }
    }

    fn candidates(&self, hash: KeyHash) -> Vec<u32> {
        self.choices.list(hash, self.count)
    }

    fn max_workers_per_key(&self) -> u32 {
        self.choices.workers.min(self.count as u32)
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

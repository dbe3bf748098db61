//! Partial key grouping (PKG) and Greedy-d: the least loaded of a key's first d candidates.
//!
//! Nasir et al., The Power of Both Choices (ICDE 2015); here after the ICDE 2016 paper, section II-B, and its
//! Greedy-d process, section III-B. A key's state lies on at most `choices` workers.

use super::parts::choices::Choices;
use super::{Grouping, decode, encode};
use crate::batch::Batch;
use crate::error::Result;
use crate::params::{MAX_WORKERS, Params};
use crate::state::loads::Loads;

struct PartialKey {
    choices: Choices,
    count: usize,
    loads: Loads,
}

pub(super) fn build(params: &Params, _source: u32) -> Result<Box<dyn Grouping>> {
    params.only(&["choices", "distinct"])?;
    params.seed()?;
    let choices = Choices::new(params)?;
    let count = params.integer("choices", 1..=MAX_WORKERS)? as usize;
    let loads = Loads::new(choices.workers);
    Ok(Box::new(PartialKey { choices, count, loads }))
}

impl Grouping for PartialKey {
    fn route(&mut self, batch: &Batch, workers: &mut [u32]) {
        let scale = self.loads.expect(batch.hashes.len(), batch.weights);
        if self.count == 2 {
            let mut loads = self.loads.pairs();
            batch.each(
                scale,
                workers,
                #[inline(always)]
                |scale, hash, weight| {
                    let (first, second) = self.choices.pair(hash);
                    loads.add_to_lesser(scale, first, second, weight)
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

    fn candidates(&self, hash: u64) -> Vec<u32> {
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

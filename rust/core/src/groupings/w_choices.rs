//! W-Choices: frequent keys to the least loaded of all workers, the others by two choices.
//!
//! ICDE 2016 paper, Algorithm 1 and section III-B. The least imbalance of the family; a frequent key's state may lie
//! on every worker.

use super::parts::choices::Choices;
use super::parts::head::Head;
use super::{Grouping, decode, encode};
use crate::batch::Batch;
use crate::error::Result;
use crate::params::Params;
use crate::state::loads::Loads;

struct WChoices {
    choices: Choices,
    head: Head,
    loads: Loads,
}

pub(super) fn build(params: &Params, _source: u32) -> Result<Box<dyn Grouping>> {
    params.only(&["threshold", "sketch_capacity", "distinct"])?;
    params.seed()?;
    let choices = Choices::new(params)?;
    let (head, loads) = (Head::new(params)?, Loads::new(choices.workers));
    Ok(Box::new(WChoices { choices, head, loads }))
}

impl Grouping for WChoices {
    fn route(&mut self, batch: &Batch, workers: &mut [u32]) {
        let scale = self.loads.expect(batch.hashes.len(), batch.weights);
        self.head.sketch.expect(batch.hashes.len(), batch.weights);
        batch.each(
            scale,
            workers,
            #[inline(always)]
            |scale, hash, weight| {
                if let (_, true) = self.head.count(scale, hash, weight) {
                    let worker = self.loads.least_of_all();
                    self.loads.add(scale, worker, weight);
                    worker
                } else {
                    let (first, second) = self.choices.pair(hash);
                    self.loads.add_to_lesser(scale, first, second, weight)
                }
            },
        );
    }

    fn candidates(&self, hash: u64) -> Vec<u32> {
        if let (_, true) = self.head.after(hash) {
            (0..self.choices.workers).collect()
        } else {
            self.choices.list(hash, 2)
        }
    }

    fn loads(&self) -> Vec<f64> {
        self.loads.numbers()
    }

    fn save(&self) -> Vec<u8> {
        encode(&(self.loads.save(), self.head.sketch.save()))
    }

    fn restore(&mut self, state: &[u8]) -> Result<()> {
        let (loads, sketch) = decode(state)?;
        self.head.sketch.restore(sketch)?;
        self.loads.restore(loads)
    }
}

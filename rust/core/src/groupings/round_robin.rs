//! Round-Robin head: frequent keys to the workers in turn, the others by two choices.
//!
//! The ICDE 2016 paper's baseline for W-Choices, section III-B: as much memory, but blind to the load that the tail
//! makes.

use super::parts::choices::Choices;
use super::parts::head::Head;
use super::shuffle::Turn;
use super::{Grouping, decode, encode};
use crate::batch::Batch;
use crate::error::Result;
use crate::params::Params;
use crate::state::loads::Loads;

struct RoundRobin {
    choices: Choices,
    head: Head,
    turn: Turn,
    loads: Loads,
}

pub(super) fn build(params: &Params, source: u32) -> Result<Box<dyn Grouping>> {
    params.only(&["threshold", "sketch_capacity", "distinct"])?;
    let choices = Choices::new(params)?;
    let (head, turn, loads) = (Head::new(params)?, Turn::new(params, source)?, Loads::new(choices.workers));
    Ok(Box::new(RoundRobin { choices, head, turn, loads }))
}

impl Grouping for RoundRobin {
    fn route(&mut self, batch: &Batch, workers: &mut [u32]) {
        let scale = self.loads.expect(batch.hashes.len(), batch.weights);
        self.head.sketch.expect(batch.hashes.len(), batch.weights);
        batch.each(
            scale,
            workers,
            #[inline(always)]
            |scale, hash, weight| {
                if let (_, true) = self.head.count(scale, hash, weight) {
                    let worker = self.turn.take();
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
        if let (_, true) = self.head.after(hash) { vec![self.turn.next()] } else { self.choices.list(hash, 2) }
    }

    fn loads(&self) -> Vec<f64> {
        self.loads.numbers()
    }

    fn save(&self) -> Vec<u8> {
        encode(&(self.turn.next(), self.loads.save(), self.head.sketch.save()))
    }

    fn restore(&mut self, state: &[u8]) -> Result<()> {
        let (next, loads, sketch) = decode(state)?;
        self.turn.restore(next);
        self.head.sketch.restore(sketch)?;
        self.loads.restore(loads)
    }
}

//! Power of two choices (PoTC): the less loaded of two workers drawn at random for every message.
//!
//! CG paper (arXiv 1705.09073), sections 4.3 and 6.1.1. The draws do not look at the key, so a key's state
//! may lie on every worker. They come from a counter: the draw of a message depends on seed, source and position alone.

use super::parts::choices::different;
use super::{Grouping, decode, encode};
use crate::batch::Batch;
use crate::error::Result;
use crate::hash::Draws;
use crate::params::Params;
use crate::state::loads::Loads;

struct PowerOfTwo {
    workers: u32,
    draws: Draws,
    position: u64,
    loads: Loads,
}

pub(super) fn build(params: &Params, source: u32) -> Result<Box<dyn Grouping>> {
    params.only(&[])?;
    let workers = params.workers()?;
    let draws = Draws::new(params.seed()?, source);
    Ok(Box::new(PowerOfTwo { workers, draws, position: 0, loads: Loads::new(workers) }))
}

impl Grouping for PowerOfTwo {
    fn route(&mut self, batch: &Batch, workers: &mut [u32]) {
        let scale = self.loads.expect(batch.hashes.len(), batch.weights);
        let mut loads = self.loads.pairs();
        batch.each(
            scale,
            workers,
            #[inline(always)]
            |scale, _, weight| {
                let (first, second) = self.draws.pair(self.position, self.workers);
                self.position += 1;
                loads.add_to_lesser(scale, first, second, weight)
            },
        );
    }

    fn candidates(&self, _hash: u64) -> Vec<u32> {
        let (first, second) = self.draws.pair(self.position, self.workers);
        different([first, second])
    }

    fn loads(&self) -> Vec<f64> {
        self.loads.numbers()
    }

    fn save(&self) -> Vec<u8> {
        encode(&(self.position, self.loads.save()))
    }

    fn restore(&mut self, state: &[u8]) -> Result<()> {
        let (position, loads) = decode(state)?;
        self.position = position;
        self.loads.restore(loads)
    }
}

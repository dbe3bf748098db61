//! Power of random choices (PoRC): a key's candidates are tried one after the other until a worker has room.
//!
//! CG paper (arXiv 1705.09073), section 5.1. No worker takes a message once it holds 1 + epsilon times its fair share,
//! rounded up; only frequent keys try many. Deviation: after 64 tries a worker the least loaded of all takes the
//! message, where the paper tries for ever.

use super::capacity::Capacity;
use super::probing::Prober;
use super::{Grouping, decode, encode, next_worker};
use crate::batch::Batch;
use crate::error::Result;
use crate::load::Loads;
use crate::params::Params;

#[derive(Clone)]
struct PowerOfRandom {
    capacity: Capacity,
    prober: Prober,
    loads: Loads,
}

pub(super) fn build(params: &Params, _source: u32) -> Result<Box<dyn Grouping>> {
    params.only(&["epsilon"])?;
    params.seed()?;
    let workers = params.workers()?;
    Ok(Box::new(PowerOfRandom {
        capacity: Capacity::new(params, workers)?,
        prober: Prober::new(workers),
        loads: Loads::new(workers),
    }))
}

impl Grouping for PowerOfRandom {
    fn route(&mut self, batch: &Batch, workers: &mut [u32]) {
        let scale = self.loads.expect(batch.hashes.len(), batch.weights);
        self.capacity.expect(scale);
        batch.each(
            scale,
            workers,
            #[inline(always)]
            |scale, hash, weight| {
                let capacity = self.capacity.next(scale, weight);
                let worker = self.prober.find(hash, capacity, &mut self.loads);
                self.loads.add(scale, worker, weight);
                worker
            },
        );
    }

    fn candidates(&self, hash: u64) -> Vec<u32> {
        next_worker(self, hash)
    }

    fn loads(&self) -> Vec<f64> {
        self.loads.numbers()
    }

    fn save(&self) -> Vec<u8> {
        encode(&(self.capacity.save(), self.loads.save()))
    }

    fn restore(&mut self, state: &[u8]) -> Result<()> {
        let (sent, loads) = decode(state)?;
        self.capacity.restore(sent)?;
        self.prober.forget();
        self.loads.restore(loads)
    }
}

//! Power of random choices (PoRC): a key's candidates are tried one after the other until a worker has room.
//!
//! CG paper (arXiv 1705.09073), section 5.1. No worker takes a message once it holds 1 + epsilon times its fair share,
//! rounded up; only frequent keys try many. Deviation: after 64 tries a worker the least loaded of all takes the
//! message, where the paper tries for ever.

use super::parts::bins::Bins;
use super::{Grouping, decode, encode, next_worker};
use crate::batch::Batch;
use crate::error::Result;
use crate::params::Params;

/// The workers are the bins.
#[derive(Clone)]
struct PowerOfRandom(Bins);

pub(super) fn build(params: &Params, _source: u32) -> Result<Box<dyn Grouping>> {
    params.only(&["epsilon"])?;
    params.seed()?;
    Ok(Box::new(PowerOfRandom(Bins::new(params, params.workers()?)?)))
}

impl Grouping for PowerOfRandom {
    fn route(&mut self, batch: &Batch, workers: &mut [u32]) {
        let scale = self.0.expect(batch);
        batch.each(
            scale,
            workers,
            #[inline(always)]
            |scale, hash, weight| self.0.throw(scale, hash, weight),
        );
    }

    fn candidates(&self, hash: u64) -> Vec<u32> {
        next_worker(self, hash)
    }

    fn loads(&self) -> Vec<f64> {
        self.0.numbers()
    }

    fn save(&self) -> Vec<u8> {
        encode(&self.0.save())
    }

    fn restore(&mut self, state: &[u8]) -> Result<()> {
        self.0.restore(decode(state)?)
    }
}

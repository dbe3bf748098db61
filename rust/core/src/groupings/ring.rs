//! Consistent hashing: a key goes to the worker of the next point clockwise on a ring of virtual nodes.
//!
//! Karger et al. (STOC 1997); CG paper (arXiv 1705.09073), section 4.2. As unbalanced as key grouping, but workers may
//! come and go: one that leaves moves only its own keys, one that comes takes only the keys that it wins.

use super::{Grouping, decode, encode};
use crate::batch::Batch;
use crate::error::Result;
use crate::hash::vectorised;
use crate::params::Params;
use crate::state::loads::Loads;
use crate::state::members::Members;
use crate::state::ring::Ring;

struct OnRing {
    ring: Ring,
    loads: Loads,
}

pub(super) fn build(params: &Params, _source: u32) -> Result<Box<dyn Grouping>> {
    params.only(&["virtual_nodes"])?;
    let ring = Ring::new(params)?;
    Ok(Box::new(OnRing { loads: Loads::new(ring.members().count()), ring }))
}

impl Grouping for OnRing {
    fn route(&mut self, batch: &Batch, workers: &mut [u32]) {
        let circle = self.ring.circle();
        vectorised(
            #[inline(always)]
            || {
                for (worker, &hash) in workers.iter_mut().zip(batch.hashes) {
                    *worker = circle.owner(hash);
                }
            },
        );
        batch.sent(&mut self.loads, workers);
    }

    fn candidates(&self, hash: u64) -> Vec<u32> {
        vec![self.ring.circle().owner(hash)]
    }

    fn loads(&self) -> Vec<f64> {
        self.loads.numbers()
    }

    fn save(&self) -> Vec<u8> {
        encode(&(self.ring.members(), self.loads.save()))
    }

    fn restore(&mut self, state: &[u8]) -> Result<()> {
        let (members, loads) = decode(state)?;
        self.ring.restore(members)?;
        self.loads.widen(self.ring.members().numbers());
        self.loads.restore(loads)
    }

    fn max_workers_per_key(&self) -> u32 {
        1
    }

    fn members(&self) -> Option<&Members> {
        Some(self.ring.members())
    }

    fn add_worker(&mut self, worker: u32) {
        self.ring.add(worker);
        self.loads.widen(self.ring.members().numbers());
    }

    fn remove_worker(&mut self, worker: u32) {
        self.ring.remove(worker);
    }

    fn most_workers(&self) -> u64 {
        self.ring.most_workers()
    }
}

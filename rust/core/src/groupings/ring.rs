//! Consistent hashing: a key goes to the worker of the next point clockwise on a ring of virtual nodes.
//!
//! Karger et al. (STOC 1997); CG paper (arXiv 1705.09073), section 4.2. As imbalanced as key grouping, but workers may
//! join and leave: a leaving worker moves only its own keys, a joining one takes only the keys that it wins.

use serde::{Deserialize, Serialize};

use super::{Grouping, Parameters};
use crate::batch::Batch;
use crate::error::Result;
use crate::hash::vectorised;
use crate::params;
use crate::snapshot::{decode, encode};
use crate::state::loads::Loads;
use crate::state::members::Members;
use crate::state::ring::{MOST_POINTS, Ring, check_points};
use crate::types::{KeyHash, Source, Worker};

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Params {
    #[serde(deserialize_with = "params::workers")]
    workers: u32,
    #[serde(deserialize_with = "params::seed")]
    seed: u64,
    /// Points of each worker on the ring.
    #[serde(deserialize_with = "params::whole::<1, MOST_POINTS, _>")]
    virtual_nodes: u64,
}

impl Default for Params {
    fn default() -> Self {
        Self { workers: 1, seed: 0, virtual_nodes: 100 }
    }
}

impl Parameters for Params {
    fn check(&self) -> Result<()> {
        check_points(self.workers, self.virtual_nodes)
    }

    fn build(&self, _source: Source) -> Result<Box<dyn Grouping>> {
        let ring = Ring::new(self.workers, self.seed, self.virtual_nodes);
        Ok(Box::new(OnRing { ring, loads: Loads::new(self.workers) }))
    }
}

struct OnRing {
    ring: Ring,
    loads: Loads,
}

impl Grouping for OnRing {
    fn route(&mut self, batch: &Batch, workers: &mut [u32]) {
        let circle = self.ring.circle();
        vectorised(
            #[inline(always)]
            || {
                for (worker, &hash) in workers.iter_mut().zip(batch.hashes) {
                    *worker = circle.owner(KeyHash(hash)).0;
                }
            },
        );
        batch.sent(&mut self.loads, workers);
    }

    fn candidates(&self, hash: KeyHash) -> Vec<u32> {
        vec![self.ring.circle().owner(hash).0]
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

    fn add_worker(&mut self, worker: Worker) {
        self.ring.add(worker);
        self.loads.widen(self.ring.members().numbers());
    }

    fn remove_worker(&mut self, worker: Worker) {
        self.ring.remove(worker);
    }

    fn most_workers(&self) -> u64 {
        self.ring.most_workers()
    }
}

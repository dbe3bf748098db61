//! Consistent hashing with bounded loads: a key goes clockwise to the first worker that has room.
//!
//! Mirrokni et al. (Consistent hashing with bounded loads, SODA 2018); CG paper (arXiv 1705.09073), section 4.2. No
//! worker takes a message once it holds 1 + epsilon times its fair share of all messages, rounded up. Deviation: the
//! counts behind the capacity are reset when a worker joins or leaves, since no message or state ever moves.

use serde::{Deserialize, Serialize};

use super::parts::bounded::Bounded;
use super::parts::memo::Memo;
use super::{Grouping, Parameters, next_worker};
use crate::batch::Batch;
use crate::error::Result;
use crate::params;
use crate::snapshot::{decode, encode};
use crate::state::loads::{Loads, Unranked};
use crate::state::members::Members;
use crate::state::ring::{Circle, MOST_POINTS, Ring, check_points};
use crate::types::{Amount, KeyHash, Source, Worker};

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
    /// By how much a load may exceed its fair share.
    #[serde(deserialize_with = "params::epsilon")]
    epsilon: f64,
}

impl Default for Params {
    fn default() -> Self {
        Self { workers: 1, seed: 0, virtual_nodes: 100, epsilon: 0.01 }
    }
}

impl Parameters for Params {
    fn check(&self) -> Result<()> {
        check_points(self.workers, self.virtual_nodes)
    }

    fn build(&self, _source: Source) -> Result<Box<dyn Grouping>> {
        Ok(Box::new(self.state()))
    }
}

#[derive(Clone)]
struct BoundedRing {
    ring: Ring,
    /// What was sent to each worker since a worker last joined or left.
    bounded: Bounded,
    memo: Memo,
    loads: Loads,
}

impl Params {
    fn state(&self) -> BoundedRing {
        let workers = self.workers;
        BoundedRing {
            ring: Ring::new(workers, self.seed, self.virtual_nodes),
            bounded: Bounded::new(self.epsilon, workers),
            memo: Memo::new(workers as usize),
            loads: Loads::new(workers),
        }
    }
}

impl BoundedRing {
    /// Starts the counts afresh: workers have changed.
    fn restart(&mut self) {
        let members = self.ring.members();
        self.bounded.restart(members.count(), members.numbers());
        self.memo.forget();
    }
}

/// The first worker from a position on below the capacity; the least loaded of all if there is none.
#[inline(always)]
fn walk(
    circle: &Circle,
    members: &Members,
    memo: &mut Memo,
    hash: KeyHash,
    start: usize,
    capacity: Amount,
    loads: &Unranked,
) -> Worker {
    for step in memo.probes(hash, capacity).max(1)..circle.len() as u32 {
        let position = start + step as usize;
        let worker = circle.at(if position < circle.len() { position } else { position - circle.len() });
        if loads.of(worker) < capacity {
            memo.note(hash, capacity, step);
            return worker;
        }
    }
    members.iter().min_by_key(|&worker| loads.of(worker)).unwrap_or(Worker(0))
}

impl Grouping for BoundedRing {
    fn route(&mut self, batch: &Batch, workers: &mut [u32]) {
        let Self { ring, bounded, memo, .. } = self;
        let (circle, members) = (ring.circle(), ring.members());
        bounded.put(
            batch,
            workers,
            #[inline(always)]
            |hashes| circle.positions(hashes),
            #[inline(always)]
            |hash, positions, row, capacity, loads| {
                let start = positions[row] as usize;
                let first = circle.at(start);
                if loads.of(first) < capacity {
                    return first;
                }
                walk(circle, members, memo, hash, start, capacity, loads)
            },
            |worker| worker,
        );
        batch.sent(&mut self.loads, workers);
    }

    fn candidates(&self, hash: KeyHash) -> Vec<u32> {
        self.ring.circle(); // built once, before copies are made
        next_worker(self, hash)
    }

    fn loads(&self) -> Vec<f64> {
        self.loads.numbers()
    }

    fn save(&self) -> Vec<u8> {
        encode(&(self.ring.members(), self.bounded.save(), self.loads.save()))
    }

    fn restore(&mut self, state: &[u8]) -> Result<()> {
        let (members, bounded, loads) = decode(state)?;
        self.ring.restore(members)?;
        self.restart();
        self.bounded.restore(bounded)?;
        self.loads.widen(self.ring.members().numbers());
        self.loads.restore(loads)
    }

    fn members(&self) -> Option<&Members> {
        Some(self.ring.members())
    }

    fn add_worker(&mut self, worker: Worker) {
        self.ring.add(worker);
        self.loads.widen(self.ring.members().numbers());
        self.restart();
    }

    fn remove_worker(&mut self, worker: Worker) {
        self.ring.remove(worker);
        self.restart();
    }

    fn most_workers(&self) -> u64 {
        self.ring.most_workers()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::KeyHasher;

    fn params(workers: u32, epsilon: f64) -> Params {
        Params { workers, seed: 1, virtual_nodes: 5, epsilon }
    }

    /// Routes as `docs/routing.md` defines it, message by message.
    fn naive(router: &BoundedRing, epsilon: f64, sent: f64, loads: &[f64], hash: u64, weight: f64) -> u32 {
        let members = router.ring.members();
        let capacity = (((1.0 + epsilon) * (sent + weight)) / f64::from(members.count())).ceil().max(1.0);
        let circle = router.ring.circle();
        let free = circle.walk(circle.position(KeyHash(hash))).find(|&worker| loads[worker.index()] < capacity);
        let least = members.iter().min_by(|&a, &b| loads[a.index()].total_cmp(&loads[b.index()]));
        free.or(least).unwrap().0
    }

    #[test]
    fn goes_to_the_first_worker_with_room() {
        let draws = KeyHasher::new(0);
        for (workers, epsilon) in [(1, 0.1), (2, 1e-300), (7, 0.01), (40, 0.01), (40, 2.0)] {
            let mut router = params(workers, epsilon).state();
            router.memo = Memo::new(4);
            let (mut sent, mut loads) = (0.0, vec![0.0; workers as usize + 1]);
            for message in 0..4000 {
                let draw = draws.whole(message);
                let hash = if draw.is_multiple_of(2) { draws.whole(-1) } else { draw };
                let weight = if message < 1000 {
                    1.0
                } else {
                    (draw >> 8) as f64 % 9.0 / if message < 2000 { 1.0 } else { 4.0 }
                };
                let mut chosen = [0];
                let weights = [weight];
                let batch = Batch { hashes: &[hash], weights: (message >= 1000).then_some(&weights), now: None };
                let expected = naive(&router, epsilon, sent, &loads, hash, weight);
                router.route(&batch, &mut chosen);
                assert_eq!(chosen[0], expected, "message {message} of {workers} workers");
                loads[chosen[0] as usize] += weight;
                sent += weight;
                if message % 700 == 699 {
                    let members = router.ring.members();
                    if members.contains(Worker(0)) && members.count() > 1 {
                        router.remove_worker(Worker(0))
                    } else {
                        router.add_worker(members.lowest_free())
                    }
                    (sent, loads) = (0.0, vec![0.0; router.ring.members().numbers() + 1]);
                }
            }
        }
    }
}

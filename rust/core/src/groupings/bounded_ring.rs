//! Consistent hashing with bounded loads: a key goes clockwise to the first worker that has room.
//!
//! Mirrokni et al. (Consistent hashing with bounded loads, SODA 2018); CG paper (arXiv 1705.09073), section 4.2. No
//! worker takes a message once it holds 1 + epsilon times its fair share of all messages, rounded up. Deviation: the
//! counts behind the capacity are reset when a worker joins or leaves, since no message or state ever moves.

use serde::{Deserialize, Serialize};

use super::parts::capacity::Capacity;
use super::parts::memo::Memo;
use super::{Grouping, Parameters, next_worker};
use crate::amount::Scale;
use crate::batch::Batch;
use crate::error::Result;
use crate::params;
use crate::snapshot::{decode, encode};
use crate::state::loads::Loads;
use crate::state::members::Members;
use crate::state::ring::{Circle, MOST_POINTS, Positions, Ring, check_points};
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
    bounded: Bounded,
    loads: Loads,
}

/// The counts behind the capacity.
#[derive(Clone)]
struct Bounded {
    capacity: Capacity,
    /// What was sent to each worker since a worker last joined or left.
    loads: Loads,
    memo: Memo,
}

impl Params {
    fn state(&self) -> BoundedRing {
        let workers = self.workers;
        let capacity = Capacity::new(self.epsilon, workers);
        let bounded = Bounded { capacity, loads: Loads::new(workers), memo: Memo::new(workers as usize) };
        let ring = Ring::new(workers, self.seed, self.virtual_nodes);
        BoundedRing { ring, bounded, loads: Loads::new(workers) }
    }
}

impl Bounded {
    fn restart(&mut self, members: &Members) {
        self.capacity.restart(members.count());
        self.loads = Loads::new(members.numbers() as u32);
        self.memo.forget();
    }

    #[inline(always)]
    fn choose(
        &mut self,
        circle: &Circle,
        members: &Members,
        scale: Scale,
        hash: KeyHash,
        start: usize,
        weight: Amount,
    ) -> Worker {
        let capacity = self.capacity.next(scale, weight);
        let first = circle.at(start);
        let worker =
            if self.loads.of(first) < capacity { first } else { self.walk(circle, members, hash, start, capacity) };
        self.loads.add(scale, worker, weight);
        worker
    }

    /// The first worker from `start` on below the capacity; the least loaded of all if there is none.
    #[inline(always)]
    fn walk(&mut self, circle: &Circle, members: &Members, hash: KeyHash, start: usize, capacity: Amount) -> Worker {
        for step in self.memo.probes(hash, capacity).max(1)..circle.len() as u32 {
            let position = start + step as usize;
            let worker = circle.at(if position < circle.len() { position } else { position - circle.len() });
            if self.loads.of(worker) < capacity {
                self.memo.note(hash, capacity, step);
                return worker;
            }
        }
        self.loads.least_of(members.iter())
    }
}

impl Grouping for BoundedRing {
    fn route(&mut self, batch: &Batch, workers: &mut [u32]) {
        let scale = self.bounded.loads.expect(batch.hashes.len(), batch.weights);
        self.bounded.capacity.expect(scale);
        let (circle, members) = (self.ring.circle(), self.ring.members());
        let mut positions = Positions::new(circle, batch.hashes);
        batch.each(
            scale,
            workers,
            #[inline(always)]
            |scale, hash, weight| self.bounded.choose(circle, members, scale, hash, positions.next(), weight),
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
        let bounded = (self.bounded.capacity.save(), self.bounded.loads.save());
        encode(&(self.ring.members(), bounded, self.loads.save()))
    }

    fn restore(&mut self, state: &[u8]) -> Result<()> {
        let (members, (sent, bounded), loads) = decode(state)?;
        self.ring.restore(members)?;
        let members = self.ring.members();
        self.bounded.restart(members);
        self.bounded.capacity.restore(sent)?;
        self.bounded.loads.restore(bounded)?;
        self.loads.widen(members.numbers());
        self.loads.restore(loads)
    }

    fn members(&self) -> Option<&Members> {
        Some(self.ring.members())
    }

    fn add_worker(&mut self, worker: Worker) {
        self.ring.add(worker);
        self.loads.widen(self.ring.members().numbers());
        self.bounded.restart(self.ring.members());
    }

    fn remove_worker(&mut self, worker: Worker) {
        self.ring.remove(worker);
        self.bounded.restart(self.ring.members());
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
            router.bounded.memo = Memo::new(4);
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

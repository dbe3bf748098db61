//! FISH: keys that are hot at present to as many workers as their frequency asks for, each message to the candidate
//! where it is expected to wait the shortest.
//!
//! FISH paper (arXiv 1806.00760), sections 4 and 5. Deviations, because the formulas of the paper are lost to us:
//! workers of a hot key halve with its frequency; the head is looked at on a schedule (`docs/routing.md`); counts are
//! rounded at each decay; what a key was given is forgotten with its counter; a new worker joins with the shortest
//! waiting time of the others.

mod hot_keys;
mod waiting;

use self::hot_keys::HotKeys;
use self::waiting::Waiting;
use super::{Grouping, decode, encode};
use crate::batch::Batch;
use crate::error::Result;
use crate::feedback::Feedback;
use crate::params::Params;
use crate::state::clock::Clock;
use crate::state::loads::Loads;
use crate::state::members::Members;
use crate::state::minimum::Sweep;
use crate::state::ring::{Circle, Positions, Ring};

struct Fish {
    ring: Ring,
    clock: Clock,
    keys: HotKeys,
    waiting: Waiting,
    searches: Searches,
    loads: Loads,
}

pub(super) fn build(params: &Params, _source: u32) -> Result<Box<dyn Grouping>> {
    params.only(&[
        "epoch_messages",
        "decay",
        "threshold",
        "sketch_capacity",
        "interval_s",
        "virtual_nodes",
        "messages_per_s",
    ])?;
    let (clock, keys, interval_s) = (Clock::new(params)?, HotKeys::new(params)?, params.seconds("interval_s")?);
    let ring = Ring::new(params)?;
    let waiting = Waiting::new(interval_s, ring.members());
    let loads = Loads::new(params.workers()?);
    Ok(Box::new(Fish { ring, clock, keys, waiting, searches: Searches::default(), loads }))
}

/// By slot of the sketch: where the candidate with the shortest waiting time was found last.
#[derive(Default)]
struct Searches(Vec<Search>);

/// The search for the best candidate of one hot key. Waiting times only grow within a version, so it goes on where it
/// stopped last.
#[derive(Clone)]
struct Search {
    candidates: Vec<u32>,
    version: u64,
    sweep: Sweep,
}

impl Search {
    const NEW: Self = Self { candidates: Vec::new(), version: 0, sweep: Sweep::NEW };
}

impl Searches {
    /// A slot has a new key.
    #[inline(always)]
    fn forget(&mut self, slot: usize) {
        if let Some(search) = self.0.get_mut(slot) {
            *search = Search::NEW;
        }
    }

    /// The candidate of the key in a slot where a message would wait the shortest.
    #[inline]
    fn shortest(&mut self, circle: &Circle, waiting: &Waiting, hash: u64, slot: usize, spread: usize) -> u32 {
        if self.0.len() <= slot {
            self.0.resize(slot + 1, Search::NEW);
        }
        let search = &mut self.0[slot];
        if search.candidates.len() != spread {
            search.candidates = circle.different(hash, spread);
            search.sweep = Sweep::NEW;
        }
        if search.version != waiting.version() {
            search.version = waiting.version();
            search.sweep = Sweep::NEW;
        }
        let candidates = &search.candidates;
        candidates[search.sweep.first_smallest_by(candidates.len(), |index| waiting.of(candidates[index]))]
    }
}

impl Grouping for Fish {
    fn route(&mut self, batch: &Batch, workers: &mut [u32]) {
        let scale = self.loads.expect(batch.hashes.len(), batch.weights);
        self.keys.expect(batch.hashes.len(), batch.weights);
        if batch.weights.is_some() {
            self.waiting.expect_weights();
        }
        let pace = self.clock.expect(batch.now);
        let start = self.clock.start();
        let Self { ring, clock, keys, waiting, searches, loads } = self;
        let (circle, members) = (ring.circle(), ring.members());
        let mut positions = Positions::new(circle, batch.hashes);
        batch.each(
            scale,
            workers,
            #[inline(always)]
            |scale, hash, weight| {
                waiting.pass(clock.message(pace), start, members);
                let position = positions.next();
                let counted = keys.count(members.count(), hash, scale.number(weight));
                if counted.fresh {
                    searches.forget(counted.slot);
                }
                let worker = if counted.spread == members.count() {
                    waiting.shortest_of_all()
                } else if counted.spread == 2 {
                    let (first, second) = circle.pair(position);
                    if waiting.of(second) < waiting.of(first) { second } else { first }
                } else {
                    searches.shortest(circle, waiting, hash, counted.slot, counted.spread as usize)
                };
                waiting.send(worker, scale.number(weight));
                loads.add(scale, worker, weight);
                worker
            },
        );
    }

    fn observe(&mut self, feedback: &Feedback) {
        self.clock.tell(feedback.now);
        if self.clock.started() {
            self.waiting.pass(self.clock.time(), self.clock.start(), self.ring.members());
        }
        if let Some(service_s) = feedback.service_time_s {
            self.waiting.sample(service_s, self.ring.members());
        }
    }

    fn candidates(&self, hash: u64) -> Vec<u32> {
        let members = self.ring.members();
        let spread = self.keys.next_spread(members.count(), hash);
        if spread == members.count() {
            members.iter().collect()
        } else {
            self.ring.circle().different(hash, spread as usize)
        }
    }

    fn members(&self) -> Option<&Members> {
        Some(self.ring.members())
    }

    fn most_workers(&self) -> u64 {
        self.ring.most_workers()
    }

    fn add_worker(&mut self, worker: u32) {
        self.ring.add(worker);
        self.loads.widen(self.ring.members().numbers());
        self.waiting.join(worker, self.ring.members());
        self.keys.look_again();
        self.searches = Searches::default();
    }

    fn remove_worker(&mut self, worker: u32) {
        self.ring.remove(worker);
        self.waiting.estimate(self.ring.members());
        self.keys.look_again();
        self.searches = Searches::default();
    }

    fn loads(&self) -> Vec<f64> {
        self.loads.numbers()
    }

    fn save(&self) -> Vec<u8> {
        encode(&(self.ring.members(), self.clock.save(), self.keys.save(), self.waiting.save(), self.loads.save()))
    }

    fn restore(&mut self, state: &[u8]) -> Result<()> {
        let (members, clock, keys, waiting, loads) = decode(state)?;
        self.ring.restore(members)?;
        self.clock.restore(clock)?;
        self.keys.restore(keys)?;
        self.waiting.restore(waiting, self.ring.members())?;
        self.loads.widen(self.ring.members().numbers());
        self.loads.restore(loads)?;
        self.searches = Searches::default();
        Ok(())
    }
}

//! FISH: currently hot keys get as many workers as their frequency needs, each message the candidate with the shortest
//! expected wait.
//!
//! FISH paper (arXiv 1806.00760), sections 4 and 5. Deviations, because the paper's formulas are not available: workers
//! of a hot key halve with its frequency; the head is evaluated on a schedule (`docs/routing.md`); counts are rounded
//! at each decay; a key's workers are dropped with its counter; a new worker starts with the shortest waiting time of
//! the others.

mod hot_keys;
mod waiting;

use serde::{Deserialize, Serialize};

use self::hot_keys::HotKeys;
use self::waiting::Waiting;
use super::{Grouping, Parameters};
use crate::batch::Batch;
use crate::error::Result;
use crate::feedback::Feedback;
use crate::params;
use crate::sketch::{Block, SpaceSaving};
use crate::snapshot::{decode, encode};
use crate::state::clock::Clock;
use crate::state::loads::Loads;
use crate::state::members::Members;
use crate::state::minimum::Sweep;
use crate::state::ring::{Circle, Different, MOST_POINTS, Positions, Ring, check_points};
use crate::types::{KeyHash, Source, Worker};

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Params {
    #[serde(deserialize_with = "params::workers")]
    workers: u32,
    #[serde(deserialize_with = "params::seed")]
    seed: u64,
    #[serde(deserialize_with = "params::whole::<1, { 1 << 32 }, _>")]
    epoch_messages: u64,
    #[serde(deserialize_with = "params::share")]
    decay: f64,
    /// theta; default 1/(4n).
    #[serde(deserialize_with = "params::threshold")]
    threshold: Option<f64>,
    #[serde(deserialize_with = "params::whole::<1, { SpaceSaving::MAX_CAPACITY }, _>")]
    sketch_capacity: u64,
    /// Interval between two estimates of the backlogs.
    #[serde(deserialize_with = "params::seconds")]
    interval_s: f64,
    /// Points of each worker on the ring.
    #[serde(deserialize_with = "params::whole::<1, MOST_POINTS, _>")]
    virtual_nodes: u64,
    /// Rate of messages routed without a time.
    #[serde(deserialize_with = "params::seconds")]
    messages_per_s: f64,
}

impl Default for Params {
    fn default() -> Self {
        Self {
            workers: 1,
            seed: 0,
            epoch_messages: 1000,
            decay: 0.2,
            threshold: None,
            sketch_capacity: 1000,
            interval_s: 10.0,
            virtual_nodes: 100,
            messages_per_s: 1000.0,
        }
    }
}

impl Parameters for Params {
    fn check(&self) -> Result<()> {
        check_points(self.workers, self.virtual_nodes)
    }

    fn build(&self, _source: Source) -> Result<Box<dyn Grouping>> {
        let ring = Ring::new(self.workers, self.seed, self.virtual_nodes);
        Ok(Box::new(Fish {
            clock: Clock::new(self.messages_per_s),
            keys: HotKeys::new(self)?,
            waiting: Waiting::new(self.interval_s, ring.members()),
            ring,
            searches: Searches::default(),
            loads: Loads::new(self.workers),
        }))
    }
}

struct Fish {
    ring: Ring,
    clock: Clock,
    keys: HotKeys,
    waiting: Waiting,
    searches: Searches,
    loads: Loads,
}

/// By slot of the sketch: where the candidate with the shortest waiting time was last found.
#[derive(Default)]
struct Searches(Vec<Search>);

/// The search for the best candidate of one hot key. Waiting times only grow within a version, so the search resumes
/// where it stopped.
#[derive(Clone)]
struct Search {
    /// The first candidates, as far as they were looked at: nearly always one of the first is idle enough.
    candidates: Different,
    /// How many the key has.
    spread: usize,
    version: u64,
    sweep: Sweep,
}

impl Search {
    fn new() -> Self {
        Self { candidates: Different::default(), spread: 0, version: 0, sweep: Sweep::NEW }
    }
}

/// By how many the candidates grow at least, once the search has looked at all.
const MORE: usize = 16;

impl Searches {
    /// A slot has been given to a new key.
    #[inline(always)]
    fn forget(&mut self, slot: usize) {
        if let Some(search) = self.0.get_mut(slot) {
            search.candidates.clear();
            search.sweep = Sweep::NEW;
        }
    }

    /// The candidate of the slot's key with the shortest waiting time; the key's walk begins at a position.
    #[inline]
    fn shortest(
        &mut self,
        circle: &Circle,
        waiting: &mut Waiting,
        position: usize,
        slot: usize,
        spread: usize,
    ) -> Worker {
        if self.0.len() <= slot {
            self.0.resize_with(slot + 1, Search::new);
        }
        let search = &mut self.0[slot];
        let floor = waiting.floor();
        if search.version != waiting.version() {
            search.version = waiting.version();
            search.sweep = Sweep::NEW;
        }
        if search.spread != spread {
            search.spread = spread;
            search.sweep.resize(floor);
        }
        let candidates = &mut search.candidates;
        let time = |index: usize| {
            if index >= candidates.workers.len() {
                candidates.extend(circle, position, spread.min((2 * index).max(MORE)));
            }
            waiting.of(Worker(candidates.workers[index].into()))
        };
        let least = search.sweep.first_smallest_by(spread, floor, time);
        Worker(candidates.workers[least].into())
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
        let mut block = Block::default();
        batch.parts(
            scale,
            workers,
            #[inline(always)]
            |scale, hashes, weights, workers| {
                let rows = keys.count(members.count(), hashes, weights, &mut block);
                for (row, chosen) in workers.iter_mut().take(rows).enumerate() {
                    waiting.pass(clock.message(pace), start, members);
                    let position = positions.next();
                    let spread = keys.spread(members.count(), &block, row);
                    let touched = block.touched(row);
                    if touched.fresh {
                        searches.forget(touched.slot);
                    }
                    let worker = if spread == members.count() {
                        waiting.shortest_of_all()
                    } else if spread == 2 {
                        let (first, second) = circle.pair(position);
                        if waiting.of(second) < waiting.of(first) { second } else { first }
                    } else {
                        searches.shortest(circle, waiting, position, touched.slot, spread as usize)
                    };
                    let weight = weights.map_or(1.0, |weights| weights[row]);
                    waiting.send(worker, weight);
                    loads.add(scale, worker, scale.amount(weight));
                    *chosen = worker.0;
                }
                rows
            },
        );
    }

    fn observe(&mut self, feedback: &Feedback) {
        self.clock.observe(feedback.now);
        if self.clock.started() {
            self.waiting.pass(self.clock.time(), self.clock.start(), self.ring.members());
        }
        if let Some(service_s) = feedback.service_time_s {
            self.waiting.sample(service_s, self.ring.members());
        }
    }

    fn candidates(&self, hash: KeyHash) -> Vec<u32> {
        let members = self.ring.members();
        let spread = self.keys.next_spread(members.count(), hash);
        if spread == members.count() {
            members.iter().map(|worker| worker.0).collect()
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

    fn add_worker(&mut self, worker: Worker) {
        self.ring.add(worker);
        self.loads.widen(self.ring.members().numbers());
        self.waiting.join(worker, self.ring.members());
        self.keys.look_again();
        self.searches = Searches::default();
    }

    fn remove_worker(&mut self, worker: Worker) {
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

//! FISH: currently hot keys get as many workers as their frequency needs, each message the candidate with the shortest
//! expected wait.
//!
//! FISH paper (arXiv 1806.00760), sections 4 and 5. Deviations, the first because the paper's formulas are not available:
//! workers of a hot key halve with its frequency; a hot key exceeds the threshold by more than chance explains; the head
//! is evaluated on a schedule (`docs/routing.md`); counts are rounded at each decay; a key's workers are dropped with its
//! counter; a new worker starts with the shortest waiting time of the others.

mod hot_keys;
mod waiting;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use self::hot_keys::{HotKeys, Saved, SavedOlder, Spreads};
use self::waiting::Waiting;
use super::{Grouping, Parameters};
use crate::batch::{BLOCK, Batch};
use crate::error::Result;
use crate::feedback::Feedback;
use crate::params;
use crate::sketch::SpaceSaving;
use crate::snapshot::{decode, encode};
use crate::state::clock::Clock;
use crate::state::loads::Loads;
use crate::state::members::Members;
use crate::state::ring::{Circle, Different, MOST_POINTS, Ring, check_points};
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
    /// By how many standard deviations a hot key's count exceeds that of a key of frequency theta.
    #[serde(deserialize_with = "params::deviations")]
    deviations: f64,
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
            deviations: 3.0,
            sketch_capacity: 1000,
            interval_s: 10.0,
            virtual_nodes: 100,
            messages_per_s: 1000.0,
        }
    }
}

impl Parameters for Params {
    const VERSION: u32 = 3;

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
            walks: Walks::default(),
            loads: Loads::new(self.workers),
        }))
    }
}

struct Fish {
    ring: Ring,
    clock: Clock,
    keys: HotKeys,
    waiting: Waiting,
    walks: Walks,
    loads: Loads,
}

/// The first candidates of hot keys, by where their walks begin on the ring: a hot key that cools, loses its counter and
/// comes back finds what it had. Of walks that share a place the latest one is kept.
#[derive(Default)]
struct Walks(Vec<Walk>);

#[derive(Clone)]
struct Walk {
    /// The position of its beginning; [`u32::MAX`] if there is none.
    position: u32,
    /// As far as they were looked at: nearly always one of the first is idle enough.
    candidates: Different,
}

impl Walk {
    fn new() -> Self {
        Self { position: u32::MAX, candidates: Different::default() }
    }
}

/// The most places for walks.
const PLACES: usize = 1 << 12;

/// Candidates compared at a time.
const STRIDE: usize = 8;

/// Half of how many candidates are found at first.
const LEAST: usize = 4;

impl Walks {
    /// Of the first `spread` candidates of a walk, the one with the shortest waiting time, the first among equals.
    ///
    /// A stride is compared without a branch, since the shortest may be anywhere in it. None of the workers is below the
    /// floor, so a candidate that equals it ends the search.
    #[inline]
    fn shortest(&mut self, circle: &Circle, waiting: &mut Waiting, position: usize, spread: usize) -> Worker {
        if self.0.is_empty() {
            self.0.resize(circle.len().next_power_of_two().min(PLACES), Walk::new());
        }
        let place = position & (self.0.len() - 1);
        let Walk { position: begin, candidates } = &mut self.0[place];
        if *begin != position as u32 {
            *begin = position as u32;
            candidates.clear();
        }
        let floor = waiting.floor().unwrap_or(0);
        let (mut worker, mut shortest) = (0, u64::MAX);
        let mut start = 0;
        while start < spread {
            if candidates.workers.len() < spread.min(start + STRIDE) {
                candidates.extend(circle, position, 2 * start.max(LEAST));
            }
            let these = &candidates.workers[start..];
            if let Some(these) = these.first_chunk::<STRIDE>() {
                for (at, &candidate) in these.iter().enumerate() {
                    let time = waiting.of(Worker(candidate.into()));
                    let time = time | 0u64.wrapping_sub(u64::from(start + at >= spread));
                    (worker, shortest) = if time < shortest { (candidate, time) } else { (worker, shortest) };
                }
            } else {
                for &candidate in &these[..spread - start] {
                    let time = waiting.of(Worker(candidate.into()));
                    (worker, shortest) = if time < shortest { (candidate, time) } else { (worker, shortest) };
                }
            }
            if shortest == floor {
                break;
            }
            start += STRIDE;
        }
        Worker(worker.into())
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
        let since = self.clock.start();
        let Self { ring, clock, keys, waiting, walks, loads } = self;
        let (circle, members) = (ring.circle(), ring.members());
        let mut spreads = Spreads::default();
        let mut positions = [0; BLOCK];
        let mut pairs = [(Worker(0), Worker(0)); BLOCK];
        batch.parts(
            scale,
            workers,
            #[inline(always)]
            |scale, hashes, weights, workers| {
                let rows = keys.count(members.count(), hashes, weights, &mut spreads);
                // Looked up ahead of the choices, so that the reads overlap.
                for ((position, pair), &hash) in positions.iter_mut().zip(&mut pairs).zip(&hashes[..rows]) {
                    *position = circle.position(KeyHash(hash));
                    *pair = circle.pair(*position);
                }
                let mut start = 0;
                while start < rows {
                    waiting.pass(clock.time(), since, members);
                    // The clock does not go back: if no interval ends by the last message, none does before.
                    let last = clock.time_after(rows - 1 - start, pace);
                    let end = if waiting.ends_by(last, since) { start + 1 } else { rows };
                    clock.skip(end - start, pace);
                    for row in start..end {
                        let spread = spreads.of[row];
                        let weight = weights.map_or(1.0, |weights| weights[row]);
                        workers[row] = if spread == members.count() {
                            waiting.send_to_shortest(weight).0
                        } else {
                            let worker = if spread == 2 {
                                let (first, second) = pairs[row];
                                waiting.shorter(first, second)
                            } else {
                                walks.shortest(circle, waiting, positions[row], spread as usize)
                            };
                            waiting.send(worker, weight);
                            worker.0
                        };
                    }
                    start = end;
                }
                // Apart from the choices, which do not need them.
                for (row, &worker) in workers[..rows].iter().enumerate() {
                    let weight = weights.map_or(1.0, |weights| weights[row]);
                    loads.add(scale, Worker(worker), scale.amount(weight));
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
        self.walks = Walks::default();
    }

    fn remove_worker(&mut self, worker: Worker) {
        self.ring.remove(worker);
        self.waiting.estimate(self.ring.members());
        self.keys.look_again();
        self.walks = Walks::default();
    }

    fn loads(&self) -> Vec<f64> {
        self.loads.numbers()
    }

    fn save(&self) -> Vec<u8> {
        encode(&(self.ring.members(), self.clock.save(), self.keys.save(), self.waiting.save(), self.loads.save()))
    }

    fn restore(&mut self, state: &[u8]) -> Result<()> {
        self.restore_as::<Saved>(state)
    }

    /// In versions 1 and 2 every key above the threshold was hot, and is in routers that go on from them.
    fn restore_older(&mut self, _version: u32, state: &[u8]) -> Result<()> {
        self.restore_as::<SavedOlder>(state)
    }
}

impl Fish {
    fn restore_as<Keys: DeserializeOwned + Into<Saved>>(&mut self, state: &[u8]) -> Result<()> {
        let (members, clock, keys, waiting, loads) = decode::<(_, _, Keys, _, _)>(state)?;
        self.ring.restore(members)?;
        self.clock.restore(clock)?;
        self.keys.restore(keys.into())?;
        self.waiting.restore(waiting, self.ring.members())?;
        self.loads.widen(self.ring.members().numbers());
        self.loads.restore(loads)?;
        self.walks = Walks::default();
        Ok(())
    }
}

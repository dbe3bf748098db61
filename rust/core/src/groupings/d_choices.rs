//! D-Choices: frequent keys to the least loaded of d candidates, d as small as balance allows, all others by two
//! choices.
//!
//! ICDE 2016 paper, Algorithm 1 and section IV-A. Deviations: d is solved on a schedule (`docs/routing.md`), not per
//! message, which changes the balance no more than noise does and makes it 50 times cheaper; every prefix of the head
//! is checked, where the authors' program checks the first and the last; d is at least 2 for every frequent key.

use serde::{Deserialize, Serialize};

use super::parts::choices::Choices;
use super::parts::head::Head;
use super::parts::solver::solve_choices;
use super::{Grouping, Parameters};
use crate::amount::Scale;
use crate::batch::Batch;
use crate::error::{Error, Result};
use crate::params;
use crate::sketch::{Block, SpaceSaving, Touched};
use crate::snapshot::{checked_count, decode, encode};
use crate::state::loads::Loads;
use crate::state::minimum::Sweep;
use crate::types::{Amount, KeyHash, Source, Worker};

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Params {
    #[serde(deserialize_with = "params::workers")]
    workers: u32,
    #[serde(deserialize_with = "params::seed")]
    seed: u64,
    /// theta; default 1/(5n).
    #[serde(deserialize_with = "params::threshold")]
    threshold: Option<f64>,
    /// epsilon: the imbalance that d may leave.
    #[serde(deserialize_with = "params::positive_share")]
    tolerance: f64,
    /// Default: as many counters as the threshold needs.
    #[serde(deserialize_with = "params::optional_whole::<1, { SpaceSaving::MAX_CAPACITY }, _>")]
    sketch_capacity: Option<u64>,
    /// Whether a key's candidates must differ.
    #[serde(deserialize_with = "params::boolean")]
    distinct: bool,
}

impl Default for Params {
    fn default() -> Self {
        Self { workers: 1, seed: 0, threshold: None, tolerance: 1e-4, sketch_capacity: None, distinct: false }
    }
}

impl Parameters for Params {
    fn check(&self) -> Result<()> {
        self.head().map(drop)
    }

    fn build(&self, _source: Source) -> Result<Box<dyn Grouping>> {
        Ok(Box::new(DChoices {
            choices: Choices::new(self.workers, self.distinct),
            tolerance: self.tolerance,
            head: self.head()?,
            loads: Loads::new(self.workers),
            position: 0,
            next: 0,
            count: 2,
            searches: Searches::default(),
        }))
    }
}

/// The longest interval between two solutions of d, in messages.
const LONGEST: u64 = 10_000;

struct DChoices {
    choices: Choices,
    tolerance: f64,
    head: Head,
    loads: Loads,
    /// Messages so far.
    position: u64,
    /// The position from which the next message of a frequent key solves d again.
    next: u64,
    /// d: candidates of a frequent key; the number of workers if all are candidates.
    count: u32,
    searches: Searches,
}

/// The searches of all keys that were frequent at their last messages, which all frequent keys were: counts only grow
/// by messages, and the total of all grows meanwhile.
#[derive(Default)]
struct Searches {
    each: Vec<Search>,
    /// By slot of the sketch: its index in `each`, or [`NONE`].
    places: Vec<u32>,
}

/// The place of a slot without a search.
const NONE: u32 = u32::MAX;

/// The search for the least loaded candidate of one frequent key.
///
/// Loads only grow, so the search resumes where it stopped, as long as key and d stay the same.
struct Search {
    slot: usize,
    /// The key's hash; another one's if the slot has been given to a new key since the last search.
    hash: KeyHash,
    candidates: Vec<u16>,
    /// How many of the candidates are searched.
    count: u32,
    sweep: Sweep,
}

impl Searches {
    /// The place of the search of a frequent key.
    #[inline(always)]
    fn place(&mut self, slot: usize) -> u32 {
        match self.places.get(slot) {
            Some(&place) if place != NONE => place,
            _ => self.begin(slot),
        }
    }

    #[cold]
    fn begin(&mut self, slot: usize) -> u32 {
        if self.places.len() <= slot {
            self.places.resize(slot + 1, NONE);
        }
        let place = self.each.len() as u32;
        self.places[slot] = place;
        self.each.push(Search { slot, hash: KeyHash(0), candidates: Vec::new(), count: 0, sweep: Sweep::NEW });
        place
    }

    /// Ends the searches of all keys but those of these slots.
    fn retain(&mut self, keeps: impl Fn(usize) -> bool) {
        let mut kept = 0;
        self.each.retain(|search| {
            let keep = keeps(search.slot);
            self.places[search.slot] = if keep { kept } else { NONE };
            kept += u32::from(keep);
            keep
        });
    }
}

impl Search {
    /// Index of the least loaded of the first `count` candidates of a key, no load of which is below `floor`.
    #[inline(always)]
    fn run(
        &mut self,
        choices: &Choices,
        hash: KeyHash,
        count: u32,
        floor: Option<u64>,
        load: impl Fn(Worker) -> u64,
    ) -> Worker {
        if self.hash != hash || self.count != count {
            self.prepare(choices, hash, count, floor);
        }
        let candidates = &self.candidates[..count as usize];
        let load = |index: usize| load(Worker(candidates[index].into()));
        let least = self.sweep.first_smallest_by(candidates.len(), floor, load);
        Worker(candidates[least].into())
    }

    #[cold]
    fn prepare(&mut self, choices: &Choices, hash: KeyHash, count: u32, floor: Option<u64>) {
        if self.hash != hash {
            self.hash = hash;
            self.candidates.clear();
            self.sweep = Sweep::NEW;
        }
        self.count = count;
        self.sweep.resize(floor);
        if self.candidates.len() < count as usize {
            choices.extend(hash, &mut self.candidates, count as usize);
        }
    }
}

impl Params {
    fn head(&self) -> Result<Head> {
        Head::new(self.workers, self.threshold, self.sketch_capacity)
    }
}

impl DChoices {
    /// Counts the first messages, as [`Head::count`] does. A message that may solve d is counted alone.
    #[inline(always)]
    fn count(&mut self, scale: Scale, hashes: &[u64], weights: Option<&[f64]>, block: &mut Block) -> (usize, u64) {
        let quiet = self.next.saturating_sub(self.position).max(1);
        self.head.count(scale, &hashes[..quiet.min(hashes.len() as u64) as usize], weights, block)
    }

    #[inline(always)]
    fn choose(&mut self, scale: Scale, hash: KeyHash, weight: Amount, touched: Touched, frequent: bool) -> Worker {
        let position = self.position;
        self.position += 1;
        if !frequent {
            let (first, second) = self.choices.pair(hash);
            return self.loads.add_to_lesser(scale, first, second, weight);
        }
        let mut place = self.searches.place(touched.slot);
        if position >= self.next {
            self.solve(position);
            place = self.searches.place(touched.slot);
        }
        if self.count >= self.choices.workers {
            return self.loads.add_to_least(scale, weight);
        }
        let floor = self.loads.floor();
        let search = &mut self.searches.each[place as usize];
        let worker = search.run(&self.choices, hash, self.count, floor, |worker| self.loads.of(worker).0);
        self.loads.add(scale, worker, weight);
        worker
    }

    /// Routes messages of weight 1, none of which may solve d, if they count as whole numbers and all others did.
    #[inline(always)]
    fn choose_all(&mut self, hashes: &[u64], block: &Block, frequent: u64, workers: &mut [u32]) -> bool {
        let Self { choices, loads, searches, count, .. } = self;
        let (choices, count) = (choices.clone(), *count);
        let all = count >= choices.workers;
        let done = loads.rising(
            #[inline(always)]
            |loads| {
                for (row, (worker, &hash)) in workers.iter_mut().zip(hashes).enumerate() {
                    let hash = KeyHash(hash);
                    if frequent >> row & 1 == 0 {
                        let (first, second) = choices.pair(hash);
                        *worker = loads.grow_lesser(first.index(), second.index()) as u32;
                        continue;
                    }
                    let place = searches.place(block.touched(row).slot);
                    if all {
                        *worker = loads.grow_first() as u32;
                        continue;
                    }
                    let floor = loads.floor();
                    let search = &mut searches.each[place as usize];
                    let values = loads.values();
                    let chosen = search.run(&choices, hash, count, Some(floor), |worker| values[worker.index()]);
                    loads.grow(chosen.index(), search.sweep.pass());
                    *worker = chosen.0;
                }
            },
        );
        if done {
            self.position += workers.len() as u64;
        }
        done
    }

    #[cold]
    fn solve(&mut self, position: u64) {
        self.next = position + 1 + LONGEST.min(position / 8);
        self.searches.retain(|slot| self.head.holds(slot));
        let counts = self.head.counts(self.searches.each.iter().map(|search| search.slot));
        self.count = self.solution(&counts, &self.head);
    }

    /// d for a head with these counts.
    fn solution(&self, counts: &[f64], head: &Head) -> u32 {
        solve_choices(counts, head.sketch.total(), self.choices.workers, self.tolerance)
    }
}

impl Grouping for DChoices {
    fn route(&mut self, batch: &Batch, workers: &mut [u32]) {
        let scale = self.loads.expect(batch.hashes.len(), batch.weights);
        self.head.sketch.expect(batch.hashes.len(), batch.weights);
        let mut block = Block::default();
        batch.parts(
            scale,
            workers,
            #[inline(always)]
            |scale, hashes, weights, workers| {
                let (rows, frequent) = self.count(scale, hashes, weights, &mut block);
                let is_plain = scale == Scale::Whole && weights.is_none() && self.position < self.next;
                if is_plain && self.choose_all(&hashes[..rows], &block, frequent, &mut workers[..rows]) {
                    return rows;
                }
                for (row, (worker, &hash)) in workers.iter_mut().zip(hashes).take(rows).enumerate() {
                    let weight = scale.amount(weights.map_or(1.0, |weights| weights[row]));
                    let frequent = frequent >> row & 1 == 1;
                    *worker = self.choose(scale, KeyHash(hash), weight, block.touched(row), frequent).0;
                }
                rows
            },
        );
    }

    fn candidates(&self, hash: KeyHash) -> Vec<u32> {
        let (head, frequent) = self.head.after(hash);
        if !frequent {
            return self.choices.list(hash, 2);
        }
        let count = if self.position >= self.next {
            let slots = (0..head.sketch.len()).filter(|&slot| head.holds(slot));
            self.solution(&head.counts(slots), &head)
        } else {
            self.count
        };
        if count >= self.choices.workers {
            (0..self.choices.workers).collect()
        } else {
            self.choices.list(hash, count as usize)
        }
    }

    fn loads(&self) -> Vec<f64> {
        self.loads.numbers()
    }

    fn save(&self) -> Vec<u8> {
        encode(&(self.position, self.next, self.count, self.loads.save(), self.head.sketch.save()))
    }

    fn restore(&mut self, state: &[u8]) -> Result<()> {
        let (position, next, count, loads, sketch) = decode(state)?;
        let position = checked_count(position)?;
        if !(1..=self.choices.workers.max(2)).contains(&count) || next > position + 1 + LONGEST {
            return Err(Error::damaged("its number of choices does not fit its workers"));
        }
        (self.position, self.next, self.count) = (position, next, count);
        self.head.sketch.restore(sketch)?;
        self.searches = Searches::default();
        for slot in (0..self.head.sketch.len()).filter(|&slot| self.head.holds(slot)) {
            self.searches.begin(slot);
        }
        self.loads.restore(loads)
    }
}

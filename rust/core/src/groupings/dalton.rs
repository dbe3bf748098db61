//! Dalton: a bandit learns the best worker of each hot key and occasionally explores others.
//!
//! Zapridou, Mytilinis, Ailamaki: Dalton: Learned Partitioning for Distributed Data Streams (PVLDB 16(3), 2022). A key
//! is hot when an interval has more of it than a worker's fair share of the interval before. The reward is high where a
//! worker received little of the last messages and where a key has few workers. Deviations: a source learns alone,
//! without what others have learnt; the number of workers per key limits exploration only, as in the authors' program.

use serde::{Deserialize, Serialize};

use super::{Grouping, Parameters};
use crate::amount::Scale;
use crate::batch::{BLOCK, Batch};
use crate::error::{Error, Result};
use crate::hash::{Draws, first_candidate, high, low, onto};
use crate::params::{self, MAX_WORKERS};
use crate::sketch::{Index, IntervalCounts, SavedCounts};
use crate::snapshot::{checked_count, decode, encode};
use crate::state::loads::Loads;
use crate::state::window::Window;
use crate::types::{KeyHash, Source, Worker};

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Params {
    #[serde(deserialize_with = "params::workers")]
    workers: u32,
    #[serde(deserialize_with = "params::seed")]
    seed: u64,
    #[serde(deserialize_with = "params::whole::<1, { 1 << 28 }, _>")]
    interval_messages: u64,
    #[serde(deserialize_with = "params::positive_share")]
    learning_rate: f64,
    #[serde(deserialize_with = "params::share")]
    exploration: f64,
    #[serde(deserialize_with = "params::whole::<1, MAX_WORKERS, _>")]
    max_split: u64,
}

impl Default for Params {
    fn default() -> Self {
        Self { workers: 1, seed: 0, interval_messages: 10000, learning_rate: 0.1, exploration: 0.1, max_split: 6 }
    }
}

impl Parameters for Params {
    fn build(&self, source: Source) -> Result<Box<dyn Grouping>> {
        Ok(Box::new(Dalton {
            bandit: Bandit::new(self, source),
            window: Window::new(self.interval_messages as usize, self.workers),
            loads: Loads::new(self.workers),
        }))
    }
}

/// The slot of a key that is not and was not hot.
const NONE: u32 = u32::MAX;

/// The initial value of an untried worker.
const UNTRIED: f64 = -2.0;

struct Dalton {
    bandit: Bandit,
    /// What this source has sent recently.
    window: Window,
    loads: Loads,
}

/// Hot keys and the values of their workers.
#[derive(Clone)]
struct Bandit {
    workers: u32,
    interval_messages: u64,
    learning_rate: f64,
    /// A draw below this explores.
    explore_below: u64,
    max_split: usize,
    draws: Draws,
    state: BanditState,
    counts: IntervalCounts,
    /// By place of a key among those counted exactly: its slot if it is or was hot, or [`NONE`].
    slots: Vec<u32>,
    hashes: Vec<u64>,
    index: Index,
    keys: Vec<HotKey>,
    /// Hot keys with `split` or more workers.
    full: usize,
}

/// The scalar state of a bandit.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct BanditState {
    position: u64,
    /// Messages in the current interval, reset when the next one begins.
    messages: u64,
    /// The sum of their weights, and that of the interval before.
    sum: f64,
    last: f64,
    /// The number of workers per key from which exploration adds no more.
    split: usize,
}

/// A key that is or was hot.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct HotKey {
    /// Whether it was found hot in this interval.
    now: bool,
    arms: Vec<Arm>,
    #[serde(skip)]
    best: Best,
}

/// The arm of the largest value, the first among equals.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Best {
    arm: u32,
    /// The largest value of the others.
    rival: f64,
}

/// A worker of a hot key and its value.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Arm {
    worker: u32,
    value: f64,
}

/// The chosen arm and its hot key.
struct Pulled {
    slot: usize,
    arm: usize,
}

impl Bandit {
    fn new(params: &Params, source: Source) -> Self {
        let (last, max_split) = (params.interval_messages as f64, params.max_split as usize);
        Self {
            workers: params.workers,
            interval_messages: params.interval_messages,
            learning_rate: params.learning_rate,
            explore_below: (params.exploration * 2f64.powi(32)).ceil() as u64,
            max_split,
            draws: Draws::new(params.seed, source),
            state: BanditState { position: 0, messages: 0, sum: 0.0, last, split: max_split.min(2) },
            counts: IntervalCounts::new(params.seed, 11),
            slots: Vec::new(),
            hashes: Vec::new(),
            index: Index::new(&[]),
            keys: Vec::new(),
            full: 0,
        }
    }

    /// Counts a key's message and chooses its worker by the bits drawn for it; for a hot key also the arm to reward.
    #[inline(always)]
    fn choose(&mut self, hash: KeyHash, guess: usize, bits: u64, weight: f64) -> (Worker, Option<Pulled>) {
        let (count, place) = self.counts.add(hash.0, guess, weight);
        let hot = count * f64::from(self.workers) > self.state.last;
        let slot = match self.slot(hash, place) {
            Some(slot) => slot,
            None if hot => self.heat(hash, place),
            None => return (first_candidate(hash, self.workers), None),
        };
        self.keys[slot].now |= hot;
        let arm = if u64::from(high(bits)) < self.explore_below {
            self.explore(slot, low(bits))
        } else {
            self.keys[slot].best.arm as usize
        };
        (Worker(self.keys[slot].arms[arm].worker), Some(Pulled { slot, arm }))
    }

    /// Begins an interval if one is over. Returns how many of so many messages are in the current one.
    #[inline(always)]
    fn run(&mut self, messages: usize) -> usize {
        if self.state.messages == self.interval_messages {
            self.end_interval();
        }
        messages.min((self.interval_messages - self.state.messages) as usize)
    }

    /// The slot of a key that is or was hot. Only the first message of an interval looks for it, unless the key is not
    /// counted exactly.
    #[inline(always)]
    fn slot(&mut self, hash: KeyHash, place: Option<usize>) -> Option<usize> {
        if let Some(&slot) = place.and_then(|place| self.slots.get(place)) {
            return (slot != NONE).then_some(slot as usize);
        }
        let slot = self.index.find(hash.0, &self.hashes);
        if place.is_some() {
            self.slots.push(slot.map_or(NONE, |slot| slot as u32));
        }
        slot
    }

    #[cold]
    fn end_interval(&mut self) {
        (self.state.last, self.state.sum, self.state.messages) = (self.state.sum, 0.0, 0);
        self.counts.clear();
        self.slots.clear();
        if !self.keys.iter().all(|key| key.now) {
            let mut kept = self.keys.iter().map(|key| key.now);
            self.hashes.retain(|_| kept.next() == Some(true));
            self.keys.retain(|key| key.now);
            self.index = Index::new(&self.hashes);
            self.full = self.count_full();
        }
        self.keys.iter_mut().for_each(|key| key.now = false);
    }

    /// A key becomes hot; returns its slot.
    #[cold]
    fn heat(&mut self, hash: KeyHash, place: Option<usize>) -> usize {
        let slot = self.hashes.len();
        if let Some(place) = place {
            self.slots[place] = slot as u32;
        }
        self.hashes.push(hash.0);
        self.index.insert(hash.0, slot, &self.hashes);
        let arms = vec![Arm { worker: first_candidate(hash, self.workers).0, value: UNTRIED }];
        self.full += usize::from(self.state.split == 1);
        self.keys.push(HotKey { now: true, best: Best::of(&arms), arms });
        slot
    }

    /// A random arm: any worker, or one of the key's own if it has enough.
    fn explore(&mut self, slot: usize, bits: u32) -> usize {
        let HotKey { arms, best, .. } = &mut self.keys[slot];
        if arms.len() >= self.state.split {
            return onto(bits, arms.len() as u32) as usize;
        }
        let worker = onto(bits, self.workers);
        if let Some(arm) = arms.iter().position(|arm| arm.worker == worker) {
            return arm;
        }
        arms.push(Arm { worker, value: UNTRIED });
        let arm = arms.len() - 1;
        *best = Best::of(arms);
        self.full += usize::from(arms.len() == self.state.split);
        if self.state.split < self.max_split && 10 * self.full >= 7 * self.keys.len() {
            self.state.split += 1;
            self.full = self.count_full();
        }
        arm
    }

    fn count_full(&self) -> usize {
        self.keys.iter().filter(|key| key.arms.len() >= self.state.split).count()
    }

    /// Rewards the chosen arm, given the load of its worker and of all workers in the window.
    #[inline(always)]
    fn learn(&mut self, Pulled { slot, arm }: Pulled, load: f64, all: f64) {
        let HotKey { arms, best, .. } = &mut self.keys[slot];
        let workers = f64::from(self.workers);
        let mean = all / workers;
        let most = load.max(mean);
        let excess = if most == 0.0 { 0.0 } else { (load - mean) / most };
        let reward = -(0.5 * excess + 0.5 * (arms.len() as f64 / workers));
        let value = &mut arms[arm].value;
        *value += self.learning_rate * (reward - *value);
        let stays_best = arm == best.arm as usize && *value > best.rival;
        if !stays_best {
            *best = Best::of(arms);
        }
    }

    fn restore(&mut self, state: BanditState, counts: SavedCounts, hashes: Vec<u64>, keys: Vec<HotKey>) -> Result<()> {
        let index = Index::new(&hashes);
        let sane = |key: &HotKey| {
            (1..=self.max_split).contains(&key.arms.len()) && key.arms.iter().all(|arm| arm.worker < self.workers)
        };
        let fits = state.messages <= self.interval_messages
            && state.sum >= 0.0
            && state.last >= 0.0
            && (self.max_split.min(2)..=self.max_split).contains(&state.split)
            && hashes.len() == keys.len()
            && index.tells_apart(&hashes)
            && keys.iter().all(sane);
        if !fits {
            return Err(Error::damaged("its hot keys do not fit its parameters"));
        }
        checked_count(state.position)?;
        self.counts.restore(counts)?;
        let slot = |&hash: &u64| index.find(hash, &hashes).map_or(NONE, |slot| slot as u32);
        self.slots = self.counts.hashes().iter().map(slot).collect();
        (self.state, self.hashes, self.index, self.keys) = (state, hashes, index, keys);
        self.keys.iter_mut().for_each(|key| key.best = Best::of(&key.arms));
        self.full = self.count_full();
        Ok(())
    }
}

impl Best {
    /// Of at least one arm. Infinite sums make values that are no numbers: then the first arm stays the best.
    fn of(arms: &[Arm]) -> Self {
        let (mut best, mut value, mut rival) = (0, arms[0].value, f64::NEG_INFINITY);
        for (arm, other) in (0..).zip(arms).skip(1) {
            if other.value > value {
                (best, rival, value) = (arm, value, other.value);
            } else {
                rival = rival.max(other.value);
            }
        }
        Self { arm: best, rival }
    }
}

impl Grouping for Dalton {
    fn route(&mut self, batch: &Batch, workers: &mut [u32]) {
        let Self { bandit, window, loads } = self;
        let mut guesses = [0; BLOCK];
        batch.blocks(
            Scale::Whole,
            workers,
            #[inline(always)]
            |_, hashes, weights, workers| {
                bandit.counts.guess(hashes, &mut guesses);
                let draws: [u64; BLOCK] = bandit.draws.block(bandit.state.position);
                bandit.state.position += hashes.len() as u64;
                let mut row = 0;
                while row < hashes.len() {
                    let (run, mut sum) = (bandit.run(hashes.len() - row), bandit.state.sum);
                    for row in row..row + run {
                        let weight = weights.map_or(1.0, |weights| weights[row] + 0.0); // no -0.0 in a snapshot
                        sum += weight;
                        let (worker, pulled) =
                            bandit.choose(KeyHash(hashes[row]), guesses[row] as usize, draws[row], weight);
                        let (load, all) = window.push(worker, weight);
                        if let Some(pulled) = pulled {
                            bandit.learn(pulled, load, all);
                        }
                        workers[row] = worker.0;
                    }
                    (bandit.state.messages, bandit.state.sum) = (bandit.state.messages + run as u64, sum);
                    row += run;
                }
            },
        );
        batch.sent(loads, workers);
    }

    fn candidates(&self, hash: KeyHash) -> Vec<u32> {
        let mut bandit = self.bandit.clone();
        bandit.run(1);
        let draw = bandit.draws.bits(bandit.state.position);
        vec![bandit.choose(hash, usize::MAX, draw, 1.0).0.0]
    }

    fn loads(&self) -> Vec<f64> {
        self.loads.numbers()
    }

    /// All workers in time, since a key that turns hot again explores elsewhere; the first one if nothing is explored.
    fn max_workers_per_key(&self) -> u32 {
        if self.bandit.max_split == 1 || self.bandit.explore_below == 0 { 1 } else { self.bandit.workers }
    }

    fn save(&self) -> Vec<u8> {
        let Bandit { state, counts, hashes, keys, .. } = &self.bandit;
        encode(&(state, counts.save(), hashes, keys, &self.window, self.loads.save()))
    }

    fn restore(&mut self, state: &[u8]) -> Result<()> {
        let (state, counts, hashes, keys, window, loads): (_, _, _, _, Window, _) = decode(state)?;
        self.bandit.restore(state, counts, hashes, keys)?;
        self.window.restore(window)?;
        self.loads.restore(loads)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bandit(workers: u32, interval_messages: u64, exploration: f64, max_split: u64) -> Bandit {
        let params = Params { workers, interval_messages, exploration, max_split, ..Params::default() };
        Bandit::new(&params, Source(0))
    }

    fn is_hot(bandit: &mut Bandit, hashes: &[u64]) -> Vec<bool> {
        let mut is_pulled = |hash| {
            bandit.run(1);
            bandit.state.messages += 1;
            bandit.state.sum += 1.0;
            bandit.choose(KeyHash(hash), usize::MAX, u64::MAX, 1.0).1.is_some()
        };
        hashes.iter().map(|&hash| is_pulled(hash)).collect()
    }

    #[test]
    fn a_hot_key_is_forgotten_an_interval_after_it_cooled() {
        let mut bandit = bandit(2, 4, 0.0, 6);
        // More than half of the last interval's four messages.
        assert_eq!(is_hot(&mut bandit, &[7, 7, 7, 8]), [false, false, true, false]);
        assert_eq!(is_hot(&mut bandit, &[8, 7, 8, 8]), [false, true, false, true]);
        assert_eq!(bandit.hashes, [7, 8]);
        assert_eq!(is_hot(&mut bandit, &[8, 7, 9, 9]), [true, false, false, false]);
        assert_eq!(bandit.hashes, [8]);
    }

    #[test]
    fn the_split_grows_when_most_hot_keys_have_reached_it() {
        let mut bandit = bandit(1000, 100, 1.0, 4);
        let slots = [1, 2, 3].map(|hash| bandit.heat(KeyHash(hash), None));
        for (step, (slot, split)) in
            [(0, 2), (1, 2), (2, 3), (0, 3), (1, 3), (2, 4), (0, 4), (1, 4)].into_iter().enumerate()
        {
            // No two of these draws are one worker.
            bandit.explore(slots[slot], (step as u32 + 1) << 28);
            assert_eq!(bandit.state.split, split, "after step {step}");
            assert_eq!(bandit.full, bandit.count_full());
        }
        assert_eq!(bandit.keys.iter().map(|key| key.arms.len()).collect::<Vec<_>>(), [4, 4, 3]);
        // The list of the first is full: the draw picks one of the four in it.
        assert_eq!([0, 1, 2, 3].map(|quarter| bandit.explore(slots[0], quarter << 30)), [0, 1, 2, 3]);
    }

    #[test]
    fn a_reward_moves_the_value_of_the_chosen_arm() {
        let mut bandit = bandit(4, 100, 0.0, 6);
        let slot = bandit.heat(KeyHash(5), None);
        bandit.keys[slot].arms.push(Arm { worker: 3, value: -0.5 });
        bandit.learn(Pulled { slot, arm: 1 }, 6.0, 8.0);
        let reward = -(0.5 * (4.0 / 6.0) + 0.5 * (2.0 / 4.0));
        assert_eq!(bandit.keys[slot].arms[1].value, -0.5 + 0.1 * (reward - -0.5));
        assert_eq!(bandit.keys[slot].arms[0].value, UNTRIED);
        assert_eq!(bandit.keys[slot].best, Best { arm: 1, rival: UNTRIED });
        bandit.learn(Pulled { slot, arm: 0 }, 0.0, 0.0);
        assert_eq!(bandit.keys[slot].arms[0].value, UNTRIED + 0.1 * (-0.25 - UNTRIED));
    }

    #[test]
    fn weights_of_minus_0_are_those_of_0() {
        let [saved, of_0] = [-0.0, 0.0].map(|weight| {
            let mut router = Params { workers: 2, ..Params::default() }.build(Source(0)).unwrap();
            router.route(&Batch { hashes: &[7], weights: Some(&[weight]), now: None }, &mut [0]);
            router.save()
        });
        assert_eq!(saved, of_0);
    }

    #[test]
    fn the_best_arm_is_the_first_of_the_largest_value_after_each_reward() {
        let draws = Draws::new(0, Source(0));
        for values in [[0.5, 0.25, 0.0], [0.0, -0.5, f64::NAN]] {
            let mut bandit = bandit(4, 100, 0.0, 6);
            let slot = bandit.heat(KeyHash(5), None);
            bandit.keys[slot].arms = [0, 1, 2].map(|worker| Arm { worker, value: UNTRIED }).into();
            for round in 0..2_000 {
                let (draw, arms) = (draws.bits(round), &bandit.keys[slot].arms);
                let first = (0..3).fold(0, |best, arm| if arms[arm].value > arms[best].value { arm } else { best });
                assert_eq!(bandit.keys[slot].best.arm as usize, first, "round {round} of {values:?}");
                // Usually the best one; equal values are frequent, as all rewards move a value by its whole distance.
                let arm = if draw.is_multiple_of(4) { (draw >> 8) as usize % 3 } else { first };
                bandit.learning_rate = 1.0;
                bandit.learn(Pulled { slot, arm }, 1.0 - values[(draw >> 16) as usize % 3], 4.0);
            }
        }
    }
}

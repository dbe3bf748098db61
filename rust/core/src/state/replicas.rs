//! Which keys were sent to which workers: exact as long as there is room, a uniform sample of the keys beyond that.
//!
//! A key's entry holds 64 of its workers; others, in groups of 64, are in a second table. Level e keeps one key in 2^e,
//! chosen by a hash of its hash, so what is kept does not depend on the order of the messages (`docs/simulation.md`).

use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashTable};

use crate::hash::Sampling;
use crate::types::KeyHash;

/// Bits of a place that encode the group: 2^32 workers are 2^26 groups.
const GROUP_BITS: u32 = 26;

/// Groups of keys cached outside the tables: few enough for the second-level cache.
const RECENT: usize = 1 << 14;

/// Messages processed together.
const BLOCK: usize = 512;

/// Keys, groups and (key, worker) pairs.
#[derive(Debug)]
pub struct Replicas {
    most_keys: usize,
    most_groups: usize,
    sampling: Sampling,
    level: u32,
    /// Places keys and groups in their tables. Drawn once per process, so that no adversarial keys can crowd them.
    secret: DefaultHashBuilder,
    keys: HashTable<Key>,
    groups: HashTable<Group>,
    pairs: u64,
    /// Keys ever kept.
    numbered: u64,
    /// The last record of each slot, so that a frequent key costs no look-up in a large table.
    recent: Vec<Recent>,
}

#[derive(Debug)]
struct Key {
    hash: u64,
    /// Its number, and which group of workers is stored here.
    place: u64,
    workers: u64,
}

#[derive(Debug)]
struct Group {
    /// The number of the key, and which group of its workers this is.
    place: u64,
    workers: u64,
}

#[derive(Debug, Clone, Copy)]
struct Recent {
    hash: u64,
    /// All the workers of the key in the group; all bits set if the key is not kept.
    workers: u64,
    group: u32,
}

impl Default for Replicas {
    /// Keeps all.
    fn default() -> Self {
        Self::new(usize::MAX, usize::MAX, 0)
    }
}

impl Replicas {
    /// Keeps at most this many keys and groups; the seed decides which keys beyond that.
    pub fn new(most_keys: usize, most_groups: usize, seed: u64) -> Self {
        Self {
            most_keys,
            most_groups,
            sampling: Sampling::new(seed),
            level: 0,
            secret: DefaultHashBuilder::default(),
            keys: HashTable::new(),
            groups: HashTable::new(),
            pairs: 0,
            numbered: 0,
            recent: vec![Recent { hash: 0, workers: 0, group: 0 }; RECENT],
        }
    }

    /// Records the messages of a batch.
    pub fn add(&mut self, hashes: &[u64], workers: &[u32]) {
        let mut others = [(0, 0); BLOCK];
        for (hashes, workers) in hashes.chunks(BLOCK).zip(workers.chunks(BLOCK)) {
            // First the cached ones, without a branch to mispredict; then look-ups that overlap.
            let mut count = 0;
            for (&hash, &worker) in hashes.iter().zip(workers) {
                others[count] = (hash, worker);
                count += usize::from(!self.remembers(hash, worker));
            }
            others[..count].iter().for_each(|&(hash, worker)| self.note(hash, worker));
        }
    }

    /// Records a message.
    #[inline(always)]
    pub(crate) fn note(&mut self, hash: u64, worker: u32) {
        if !self.remembers(hash, worker) {
            let group = worker / 64;
            self.recent[slot(hash, group)] =
                Recent { hash, workers: self.record(hash, group, 1 << (worker % 64)), group };
        }
    }

    #[inline(always)]
    fn remembers(&self, hash: u64, worker: u32) -> bool {
        let group = worker / 64;
        let recent = &self.recent[slot(hash, group)];
        (recent.hash == hash) & (recent.group == group) & ((recent.workers >> (worker % 64)) & 1 == 1)
    }

    /// The number of distinct keys kept.
    pub fn keys(&self) -> usize {
        self.keys.len()
    }

    /// Sum over the kept keys of the distinct workers each was sent to: the states to keep and merge.
    pub fn memory(&self) -> u64 {
        self.pairs
    }

    /// Each kept key stands for 2^level keys.
    pub fn level(&self) -> u32 {
        self.level
    }

    /// Records a worker of a key; returns all of the key's workers in the group.
    #[inline(never)]
    fn record(&mut self, hash: u64, group: u32, worker: u64) -> u64 {
        if !self.sampling.keeps(KeyHash(hash), self.level) {
            return u64::MAX;
        }
        let Some(key) = self.keys.find_mut(self.secret.hash_one(hash), |key| is_of(key.hash, hash)) else {
            return self.record_key(hash, group, worker);
        };
        let place = (key.place >> GROUP_BITS << GROUP_BITS) | u64::from(group);
        if key.place == place {
            return meet(&mut key.workers, worker, &mut self.pairs);
        }
        if let Some(found) = self.groups.find_mut(self.secret.hash_one(place), |found| is_of(found.place, place)) {
            return meet(&mut found.workers, worker, &mut self.pairs);
        }
        if !self.make_room(hash, 0) {
            return u64::MAX;
        }
        let Self { secret, groups, .. } = self;
        groups
            .insert_unique(secret.hash_one(place), Group { place, workers: worker }, |one| secret.hash_one(one.place));
        self.pairs += 1;
        worker
    }

    fn record_key(&mut self, hash: u64, group: u32, worker: u64) -> u64 {
        if !self.make_room(hash, 1) {
            return u64::MAX;
        }
        let place = (self.numbered << GROUP_BITS) | u64::from(group);
        self.numbered += 1;
        let Self { secret, keys, .. } = self;
        keys.insert_unique(secret.hash_one(hash), Key { hash, place, workers: worker }, |one| {
            secret.hash_one(one.hash)
        });
        self.pairs += 1;
        worker
    }

    /// Makes room for a group of a key, and for this many keys; returns whether the key is still kept.
    fn make_room(&mut self, hash: u64, keys: usize) -> bool {
        let is_full = |all: &Self| {
            all.keys.len() + keys > all.most_keys || all.keys.len() + all.groups.len() + 1 > all.most_groups
        };
        while self.level < u64::BITS && is_full(self) {
            self.level += 1;
            self.forget();
            if !self.sampling.keeps(KeyHash(hash), self.level) {
                return false;
            }
        }
        true
    }

    /// Drops the keys that the level does not keep.
    #[cold]
    fn forget(&mut self) {
        let mut gone = vec![0u64; self.numbered as usize / 64 + 1];
        let word_and_bit = |place: u64| {
            let number = place >> GROUP_BITS;
            ((number / 64) as usize, 1u64 << (number % 64))
        };
        self.keys.retain(|key| {
            let kept = self.sampling.keeps(KeyHash(key.hash), self.level);
            if !kept {
                self.pairs -= u64::from(key.workers.count_ones());
                let (word, bit) = word_and_bit(key.place);
                gone[word] |= bit;
            }
            kept
        });
        self.groups.retain(|group| {
            let (word, bit) = word_and_bit(group.place);
            let kept = gone[word] & bit == 0;
            if !kept {
                self.pairs -= u64::from(group.workers.count_ones());
            }
            kept
        });
    }
}

/// Whether an entry is the one looked for: one step of a look-up.
#[inline(always)]
fn is_of(entry: u64, wanted: u64) -> bool {
    #[cfg(test)]
    tests::STEPS.set(tests::STEPS.get() + 1);
    entry == wanted
}

/// Where a group of a key is cached.
#[inline(always)]
fn slot(hash: u64, group: u32) -> usize {
    (hash ^ u64::from(group).wrapping_mul(0x9E37_79B9)) as usize % RECENT
}

/// Adds a worker; returns all of them.
#[inline(always)]
fn meet(workers: &mut u64, worker: u64, pairs: &mut u64) -> u64 {
    *pairs += u64::from(*workers & worker == 0);
    *workers |= worker;
    *workers
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::collections::BTreeSet;

    use super::*;
    use crate::hash::KeyHasher;

    thread_local! {
        /// Entries visited by look-ups of this thread.
        pub(super) static STEPS: Cell<u64> = const { Cell::new(0) };
    }

    #[test]
    fn hashes_chosen_for_one_place_cost_few_steps_each() {
        let mut replicas = Replicas::default();
        let hashes: Vec<u64> = (0..20_000).map(|key| key << 16 | 5).collect();
        for worker in [0, 1, 64] {
            replicas.add(&hashes, &vec![worker; hashes.len()]);
        }
        assert_eq!((replicas.keys(), replicas.memory()), (20_000, 60_000));
        assert!((20_000..200_000).contains(&STEPS.get()), "{} steps", STEPS.get());
    }

    /// Messages of some keys on some workers, repeatedly.
    fn messages() -> Vec<(u64, u32)> {
        let keys = KeyHasher::new(3);
        let message = |draw: u64| (keys.whole((draw % 401) as i64), [0, 63, 64, 65, 7000][(draw >> 32) as usize % 5]);
        (0..20_000).map(|at| message(keys.whole(at))).collect()
    }

    #[test]
    fn keeps_all_pairs_while_there_is_room() {
        let mut replicas = Replicas::default();
        let mut pairs = BTreeSet::new();
        for (hash, worker) in messages() {
            replicas.note(hash, worker);
            pairs.insert((hash, worker));
            assert_eq!(replicas.memory(), pairs.len() as u64);
        }
        assert_eq!((replicas.keys(), replicas.level()), (401, 0));
    }

    #[test]
    fn the_sample_depends_on_what_was_met_alone() {
        let (mut messages, sampling) = (messages(), Sampling::new(5));
        for (most_keys, most_groups) in [(100, 10_000), (1000, 200), (7, 9), (401, 1203), (401, 1202)] {
            let mut replicas = Replicas::new(most_keys, most_groups, 5);
            messages.iter().for_each(|&(hash, worker)| replicas.note(hash, worker));
            let kept: BTreeSet<(u64, u32)> =
                messages.iter().copied().filter(|&(hash, _)| sampling.keeps(KeyHash(hash), replicas.level())).collect();
            let keys: BTreeSet<u64> = kept.iter().map(|&(hash, _)| hash).collect();
            assert_eq!((replicas.keys(), replicas.memory()), (keys.len(), kept.len() as u64));
            assert!(replicas.keys() <= most_keys && keys.len() * 3 <= most_groups);
            assert_eq!(replicas.level() == 0, most_keys >= 401 && most_groups >= 1203, "no sooner than it must");

            messages.reverse();
            let mut backwards = Replicas::new(most_keys, most_groups, 5);
            let (hashes, workers): (Vec<u64>, Vec<u32>) = messages.iter().copied().unzip();
            backwards.add(&hashes, &workers);
            assert_eq!(
                (replicas.keys(), replicas.memory(), replicas.level()),
                (backwards.keys(), backwards.memory(), backwards.level())
            );
        }
    }

    #[test]
    fn a_key_with_more_groups_than_there_is_room_for_is_not_kept() {
        let mut replicas = Replicas::new(10, 2, 0);
        (0..300).for_each(|worker| replicas.note(42, worker));
        assert_eq!((replicas.keys(), replicas.memory()), (0, 0));
        assert!(replicas.level() > 0);
    }
}

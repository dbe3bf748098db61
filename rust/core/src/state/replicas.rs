//! Which keys were sent to which workers: exact as long as there is room, a uniform sample of the keys beyond that.
//!
//! Messages are looked up without changing the tables, and what is new is recorded part by part, so that several threads
//! can do both. A key's slot holds 128 of its workers; others, in groups of 64, are in a second table. Level e
//! keeps one key in 2^e, chosen by a hash of its hash. So what is kept depends on the set of pairs alone, not on their
//! order nor on who recorded them (`docs/simulation.md`).

use std::mem::replace;
use std::slice::IterMut;

use hashbrown::HashTable;

use crate::hash::Sampling;
use crate::state::secret::Secret;
use crate::types::KeyHash;

/// Parts of the tables; a part of 1e5 keys fits into the second-level cache.
const PARTS: usize = 32;

/// Messages of which the new pairs are recorded together.
const TOGETHER: usize = 1 << 17;

/// Messages whose look-ups overlap.
const BLOCK: usize = 512;

/// Workers in the entry of a key, and of a group.
const SPAN: u32 = 128;
const GROUP: u32 = 64;

/// Keys, groups and (key, worker) pairs.
#[derive(Debug)]
pub struct Replicas {
    tables: Tables,
    new: Pairs,
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
        Self { tables: Tables::new(most_keys, most_groups, seed), new: Pairs::default() }
    }

    /// Records the messages of a batch.
    pub fn add(&mut self, hashes: &[u64], workers: &[u32]) {
        for (hashes, workers) in hashes.chunks(TOGETHER).zip(workers.chunks(TOGETHER)) {
            self.tables.collect(hashes, workers, &mut self.new);
            let new = &self.new;
            self.tables.parts().for_each(|part| part.record(new));
            self.tables.settle();
            self.new.clear();
        }
    }

    /// The number of distinct keys kept.
    pub fn keys(&self) -> usize {
        self.tables.keys()
    }

    /// Sum over the kept keys of the distinct workers each was sent to: the states to keep and merge.
    pub fn memory(&self) -> u64 {
        self.tables.pairs()
    }

    /// Each kept key stands for 2^level keys.
    pub fn level(&self) -> u32 {
        self.tables.level
    }
}

/// Pairs still to be recorded, by part; some may have been recorded before.
#[derive(Debug)]
pub(crate) struct Pairs([Vec<(u64, u32)>; PARTS]);

impl Default for Pairs {
    fn default() -> Self {
        Self([const { Vec::new() }; PARTS])
    }
}

impl Pairs {
    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.0.iter().map(Vec::len).sum()
    }

    /// Forgets them.
    pub(crate) fn clear(&mut self) {
        self.0.iter_mut().for_each(Vec::clear);
    }
}

/// All kept keys with their workers.
#[derive(Debug)]
pub(crate) struct Tables {
    most_keys: usize,
    most_groups: usize,
    sampling: Sampling,
    level: u32,
    parts: Vec<Part>,
}

impl Tables {
    pub(crate) fn new(most_keys: usize, most_groups: usize, seed: u64) -> Self {
        let secret = Secret::default();
        let parts = (0..PARTS).map(|number| Part::new(number, secret.clone())).collect();
        Self { most_keys, most_groups, sampling: Sampling::new(seed), level: 0, parts }
    }

    /// Collects the pairs that have not been recorded.
    pub(crate) fn collect(&self, hashes: &[u64], workers: &[u32], new: &mut Pairs) {
        let mut others = [(0, 0); BLOCK];
        for (hashes, workers) in hashes.chunks(BLOCK).zip(workers.chunks(BLOCK)) {
            // First the usual case, without a branch to mispredict, so that look-ups overlap.
            let mut count = 0;
            for (&hash, &worker) in hashes.iter().zip(workers) {
                others[count] = (hash, worker);
                count += usize::from(!self.parts[part_of(hash)].has_at_home(hash, worker));
            }
            others[..count].iter().for_each(|&(hash, worker)| self.note(hash, worker, new));
        }
    }

    /// Collects the pair of a message unless it has been recorded.
    #[inline(always)]
    pub(crate) fn note(&self, hash: u64, worker: u32, new: &mut Pairs) {
        let part = part_of(hash);
        let kept = self.level == 0 || self.sampling.keeps(KeyHash(hash), self.level);
        if kept && !self.parts[part].has(hash, worker) {
            new.0[part].push((hash, worker));
        }
    }

    /// The parts; once all have recorded, [`Tables::settle`].
    pub(crate) fn parts(&mut self) -> IterMut<'_, Part> {
        self.parts.iter_mut()
    }

    /// Drops keys, as many levels as it takes, if there are too many of them.
    pub(crate) fn settle(&mut self) {
        while self.level < u64::BITS && (self.keys() > self.most_keys || self.groups() > self.most_groups) {
            self.level += 1;
            self.parts.iter_mut().for_each(|part| part.keep(&self.sampling, self.level));
        }
    }

    pub(crate) fn keys(&self) -> usize {
        self.parts.iter().map(|part| part.keys).sum()
    }

    fn groups(&self) -> usize {
        self.parts.iter().map(|part| part.groups).sum()
    }

    pub(crate) fn pairs(&self) -> u64 {
        self.parts.iter().map(|part| part.pairs).sum()
    }

    pub(crate) fn level(&self) -> u32 {
        self.level
    }
}

/// A part of the keys.
#[derive(Debug)]
pub(crate) struct Part {
    number: usize,
    /// Places keys and groups in the tables. Drawn once per process, so that no adversarial keys can crowd them.
    secret: Secret,
    /// Keys by hash, each in the first vacant slot from its home on; a power of two.
    slots: Vec<Slot>,
    keys: usize,
    others: HashTable<Group>,
    /// Groups of 64 workers with at least one that the key was sent to.
    groups: usize,
    pairs: u64,
}

/// A key, with those of its workers in the span of its first message.
#[derive(Debug, Clone, Copy, Default)]
#[repr(align(32))]
struct Slot {
    hash: u64,
    /// 0 if the slot is vacant.
    span_plus_1: u32,
    workers: [u64; (SPAN / GROUP) as usize],
}

/// Workers of a key outside that span.
#[derive(Debug)]
struct Group {
    hash: u64,
    workers: u64,
    group: u32,
}

impl Slot {
    /// Which word and which bit is a worker's.
    #[inline(always)]
    fn word_and_bit(worker: u32) -> (usize, u64) {
        ((worker / GROUP % 2) as usize, 1 << (worker % GROUP))
    }

    #[inline(always)]
    fn has(&self, hash: u64, worker: u32) -> bool {
        let (word, bit) = Self::word_and_bit(worker);
        (self.hash == hash) & (self.span_plus_1 == worker / SPAN + 1) & (self.workers[word] & bit != 0)
    }
}

impl Part {
    fn new(number: usize, secret: Secret) -> Self {
        let (slots, others) = (vec![Slot::default(); 4], HashTable::new());
        Self { number, secret, slots, keys: 0, others, groups: 0, pairs: 0 }
    }

    /// Whether the key is at its home with this worker: true for most recorded pairs, false for all others.
    #[inline(always)]
    fn has_at_home(&self, hash: u64, worker: u32) -> bool {
        self.slots[self.home(hash)].has(hash, worker)
    }

    /// Whether the pair was recorded.
    #[inline(always)]
    fn has(&self, hash: u64, worker: u32) -> bool {
        let slot = &self.slots[self.find(hash)];
        if slot.span_plus_1 == worker / SPAN + 1 || slot.span_plus_1 == 0 {
            return slot.has(hash, worker);
        }
        let group = worker / GROUP;
        let found = self.others.find(self.secret.place((hash, group)), |other| other.is(hash, group));
        found.is_some_and(|other| other.workers & Slot::word_and_bit(worker).1 != 0)
    }

    #[inline(always)]
    fn home(&self, hash: u64) -> usize {
        self.secret.place(hash) as usize & (self.slots.len() - 1)
    }

    /// Where the key is, or the vacant slot where it belongs.
    #[inline(always)]
    fn find(&self, hash: u64) -> usize {
        let mut at = self.home(hash);
        while !is_of(self.slots[at].hash, hash) && self.slots[at].span_plus_1 != 0 {
            at = (at + 1) & (self.slots.len() - 1);
        }
        at
    }

    /// Records those pairs that belong to this part.
    pub(crate) fn record(&mut self, pairs: &Pairs) {
        for &(hash, worker) in &pairs.0[self.number] {
            self.record_one(hash, worker);
        }
    }

    fn record_one(&mut self, hash: u64, worker: u32) {
        let (span_plus_1, (word, bit)) = (worker / SPAN + 1, Slot::word_and_bit(worker));
        let mut at = self.find(hash);
        if self.slots[at].span_plus_1 == 0 {
            if (self.keys + 1) * 4 > self.slots.len() * 3 {
                self.place(2 * self.slots.len());
                at = self.find(hash);
            }
            self.keys += 1;
            self.slots[at] = Slot { hash, span_plus_1, workers: [0; 2] };
        }
        let slot = &mut self.slots[at];
        let workers = if slot.span_plus_1 == span_plus_1 {
            &mut slot.workers[word]
        } else {
            let (secret, group) = (&self.secret, worker / GROUP);
            let others = self.others.entry(
                secret.place((hash, group)),
                |other| other.is(hash, group),
                |other| secret.place((other.hash, other.group)),
            );
            &mut others.or_insert(Group { hash, workers: 0, group }).into_mut().workers
        };
        self.groups += usize::from(*workers == 0);
        self.pairs += u64::from(*workers & bit == 0);
        *workers |= bit;
    }

    /// Moves the keys to this many slots.
    #[cold]
    fn place(&mut self, slots: usize) {
        let before = replace(&mut self.slots, vec![Slot::default(); slots]);
        for slot in before.into_iter().filter(|slot| slot.span_plus_1 != 0) {
            let at = self.find(slot.hash);
            self.slots[at] = slot;
        }
    }

    /// Drops the keys that the level does not keep.
    #[cold]
    fn keep(&mut self, sampling: &Sampling, level: u32) {
        let Self { slots, keys, others, groups, pairs, .. } = self;
        let mut keeps = |hash, workers: &[u64]| {
            let kept = sampling.keeps(KeyHash(hash), level);
            if !kept {
                *groups -= workers.iter().filter(|&&some| some != 0).count();
                *pairs -= workers.iter().map(|some| u64::from(some.count_ones())).sum::<u64>();
            }
            kept
        };
        for slot in slots.iter_mut().filter(|slot| slot.span_plus_1 != 0) {
            if !keeps(slot.hash, &slot.workers) {
                *slot = Slot::default();
                *keys -= 1;
            }
        }
        others.retain(|other| keeps(other.hash, &[other.workers]));
        self.place(self.slots.len());
    }
}

impl Group {
    #[inline(always)]
    fn is(&self, hash: u64, group: u32) -> bool {
        is_of(self.hash, hash) && self.group == group
    }
}

/// Which part a key belongs to.
#[inline(always)]
fn part_of(hash: u64) -> usize {
    (hash >> 32) as usize % PARTS
}

/// Whether an entry is the one looked for: one step of a look-up.
#[inline(always)]
fn is_of(entry: u64, wanted: u64) -> bool {
    #[cfg(test)]
    tests::STEPS.set(tests::STEPS.get() + 1);
    entry == wanted
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
        let hashes: Vec<u64> = (0..20_000).map(|key| key << 38 | 5).collect();
        for worker in [0, 1, 128] {
            replicas.add(&hashes, &vec![worker; hashes.len()]);
        }
        assert_eq!((replicas.keys(), replicas.memory()), (20_000, 60_000));
        assert!((20_000..2_000_000).contains(&STEPS.get()), "{} steps", STEPS.get());
    }

    #[test]
    fn groups_of_hashes_that_differ_by_them_cost_few_steps_each() {
        let mut replicas = Replicas::default();
        let hashes: Vec<u64> = (0..1000).collect();
        for span in 0..100 {
            // The other groups of a key, XORed with its hash, are those of all keys.
            replicas.add(&hashes, &vec![span * SPAN; hashes.len()]);
        }
        assert_eq!((replicas.keys(), replicas.memory()), (1000, 100_000));
        assert!((100_000..5_000_000).contains(&STEPS.get()), "{} steps", STEPS.get());
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
            replicas.add(&[hash], &[worker]);
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
            messages.iter().for_each(|&(hash, worker)| replicas.add(&[hash], &[worker]));
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
        (0..300).for_each(|worker| replicas.add(&[42], &[worker]));
        assert_eq!((replicas.keys(), replicas.memory()), (0, 0));
        assert!(replicas.level() > 0);
    }
}

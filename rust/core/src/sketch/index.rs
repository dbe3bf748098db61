//! Where a key's counter is: a hash table from 64-bit hashes to slots, optimised for hits and for constant replacement.
//!
//! A hash belongs to one bucket of eight places. A bucket is one cache line, and its tags (the high halves of the
//! hashes) are compared all at once, so a look-up has no loop and one branch. What does not fit its bucket is spilled,
//! which is rare because a bucket holds at most two hashes on average. Adversarial keys can fill a bucket; the spill
//! table uses a secret drawn once per process, so it cannot be overfilled. The answers depend on the hashes alone.

use hashbrown::HashTable;
use wide::u32x8;

use crate::state::secret::Secret;

/// Places per bucket.
const PLACES: usize = 8;

/// The slot of a free place. Its tag is 0, which few hashes have: an old one would often be looked for again.
const FREE: u32 = 1 << 31;

#[derive(Debug, Clone)]
#[repr(align(64))]
struct Bucket {
    tags: [u32; PLACES],
    slots: [u32; PLACES],
}

impl Bucket {
    const EMPTY: Self = Self { tags: [0; PLACES], slots: [FREE; PLACES] };
}

/// Bit i is set where `values[i]` is the one looked for.
#[inline(always)]
fn places_of(wanted: u32, values: &[u32; PLACES]) -> u32 {
    u32x8::new(*values).simd_eq(u32x8::splat(wanted)).to_bitmask()
}

#[inline(always)]
fn tag(hash: u64) -> u32 {
    (hash >> 32) as u32
}

/// Maps hashes to slots. The hashes themselves belong to the caller, who passes them in by slot.
#[derive(Debug, Clone)]
pub(crate) struct Index {
    buckets: Vec<Bucket>,
    spill: Spill,
}

/// The hashes whose buckets are full, and their slots.
#[derive(Debug, Clone, Default)]
struct Spill {
    secret: Secret,
    table: HashTable<(u64, u32)>,
    /// Bit i is set if bucket i, modulo the bits, had hashes spilled since the table was last empty.
    buckets: [u64; 16],
}

impl Spill {
    /// Whether a hash may be here.
    #[inline(always)]
    fn may_have(&self, hash: u64) -> bool {
        !self.table.is_empty() && self.buckets[hash as usize / 64 % 16] >> (hash % 64) & 1 == 1
    }

    #[cold]
    fn find(&self, hash: u64) -> Option<usize> {
        self.table.find(self.secret.place(hash), |entry| is_of(entry, hash)).map(|&(_, slot)| slot as usize)
    }

    #[cold]
    fn insert(&mut self, hash: u64, slot: u32) {
        let Self { secret, table, buckets } = self;
        if table.is_empty() {
            buckets.fill(0);
        }
        buckets[hash as usize / 64 % 16] |= 1 << (hash % 64);
        table.insert_unique(secret.place(hash), (hash, slot), |&(hash, _)| secret.place(hash));
    }

    #[cold]
    fn remove(&mut self, hash: u64) {
        if let Ok(entry) = self.table.find_entry(self.secret.place(hash), |entry| is_of(entry, hash)) {
            entry.remove();
        }
    }
}

/// Whether an entry is that of a hash: one step of a look-up in the spill table.
fn is_of(entry: &(u64, u32), hash: u64) -> bool {
    #[cfg(test)]
    tests::STEPS.set(tests::STEPS.get() + 1);
    entry.0 == hash
}

impl Index {
    /// An index of the hashes of all slots.
    pub(crate) fn new(hashes: &[u64]) -> Self {
        let buckets = (hashes.len() / 2 + 1).next_power_of_two().max(16);
        let mut index = Self { buckets: vec![Bucket::EMPTY; buckets], spill: Spill::default() };
        for (slot, &hash) in hashes.iter().enumerate() {
            index.settle(hash, slot);
        }
        index
    }

    /// Forgets all hashes, but keeps the memory.
    pub(crate) fn clear(&mut self, hashes: &[u64]) {
        for &hash in hashes {
            let number = self.bucket(hash);
            self.buckets[number] = Bucket::EMPTY;
        }
        self.spill.table.clear();
    }

    #[inline(always)]
    fn bucket(&self, hash: u64) -> usize {
        hash as usize & (self.buckets.len() - 1)
    }

    /// The slot of `hash`, if it has one.
    #[inline(always)]
    pub(crate) fn find(&self, hash: u64, hashes: &[u64]) -> Option<usize> {
        let bucket = &self.buckets[self.bucket(hash)];
        let mut places = places_of(tag(hash), &bucket.tags);
        while places != 0 {
            let slot = bucket.slots[places.trailing_zeros() as usize] as usize;
            // A free place has no slot, and an equal tag may be another key's.
            if hashes.get(slot) == Some(&hash) {
                return Some(slot);
            }
            places &= places - 1;
        }
        if self.spill.may_have(hash) { self.spill.find(hash) } else { None }
    }

    /// The only slot that `hash` can have, but for rare cases, without a branch; if it has none, the slot of another hash,
    /// or 0.
    #[inline(always)]
    pub(crate) fn guess(&self, hash: u64) -> usize {
        let bucket = &self.buckets[self.bucket(hash)];
        let places = places_of(tag(hash), &bucket.tags);
        (bucket.slots[places.trailing_zeros() as usize % PLACES] & !FREE) as usize
    }

    /// Whether every slot is found by its hash.
    pub(crate) fn tells_apart(&self, hashes: &[u64]) -> bool {
        hashes.iter().enumerate().all(|(slot, &hash)| self.find(hash, hashes) == Some(slot))
    }

    /// Assigns the last slot, which is new, to `hash`, which had none.
    #[inline(always)]
    pub(crate) fn insert(&mut self, hash: u64, slot: usize, hashes: &[u64]) {
        if hashes.len() > 2 * self.buckets.len() {
            *self = Self::new(hashes);
        } else {
            self.settle(hash, slot);
        }
    }

    /// Assigns the slot of one hash to another, which had none.
    #[inline(always)]
    pub(crate) fn replace(&mut self, slot: usize, old: u64, new: u64) {
        let number = self.bucket(old);
        let bucket = &mut self.buckets[number];
        let places = places_of(slot as u32, &bucket.slots);
        if places == 0 {
            self.spill.remove(old);
        } else {
            let place = places.trailing_zeros() as usize % PLACES;
            (bucket.tags[place], bucket.slots[place]) = (0, FREE);
        }
        self.settle(new, slot);
    }

    #[inline(always)]
    fn settle(&mut self, hash: u64, slot: usize) {
        let number = self.bucket(hash);
        let bucket = &mut self.buckets[number];
        // Only free places have the highest bit of their slots set.
        let free = u32x8::new(bucket.slots).to_bitmask();
        if free == 0 {
            self.spill.insert(hash, slot as u32);
        } else {
            let place = free.trailing_zeros() as usize % PLACES;
            (bucket.tags[place], bucket.slots[place]) = (tag(hash), slot as u32);
        }
    }
}

/// Keys per block.
const AHEAD: usize = 64;

/// The slots of a batch's keys, guessed a block ahead: the reads overlap. A loop that also writes would wait for each.
pub(crate) struct Guesses<'a> {
    hashes: &'a [u64],
    guesses: [u32; AHEAD],
    at: usize,
}

impl<'a> Guesses<'a> {
    pub(crate) fn new(hashes: &'a [u64]) -> Self {
        Self { hashes, guesses: [0; AHEAD], at: AHEAD }
    }

    /// What [`Index::guess`] gave for the next key, which must exist, perhaps before others were inserted.
    #[inline(always)]
    pub(crate) fn next(&mut self, index: &Index) -> usize {
        if self.at == AHEAD {
            let (block, rest) = self.hashes.split_at(self.hashes.len().min(AHEAD));
            for (guess, &hash) in self.guesses.iter_mut().zip(block) {
                *guess = index.guess(hash) as u32;
            }
            (self.hashes, self.at) = (rest, 0);
        }
        let guess = self.guesses[self.at % AHEAD];
        self.at += 1;
        guess as usize
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::hash::KeyHasher;

    thread_local! {
        /// Spilled entries visited by look-ups of this thread.
        pub(super) static STEPS: Cell<usize> = const { Cell::new(0) };
    }

    /// Hashes that all belong to one bucket, among others.
    fn crowded(count: i64) -> Vec<u64> {
        let keys = KeyHasher::new(0);
        (0..count).map(|key| if key % 3 == 0 { (key as u64) << 32 | 5 } else { keys.whole(key) }).collect()
    }

    #[test]
    fn finds_every_hash_in_crowded_buckets() {
        let hashes = crowded(1000);
        let mut index = Index::new(&[]);
        for slot in 0..hashes.len() {
            assert_eq!(index.find(hashes[slot], &hashes[..slot]), None);
            index.insert(hashes[slot], slot, &hashes[..=slot]);
        }
        assert!(!index.spill.table.is_empty(), "the crowd must not fit its bucket");
        for (slot, &hash) in hashes.iter().enumerate() {
            assert_eq!(index.find(hash, &hashes), Some(slot));
        }
    }

    #[test]
    fn is_as_new_when_cleared() {
        let mut hashes = crowded(1000);
        let mut index = Index::new(&hashes);
        index.clear(&hashes);
        hashes.reverse();
        for slot in 0..hashes.len() {
            assert_eq!(index.find(hashes[slot], &hashes[..slot]), None);
            index.insert(hashes[slot], slot, &hashes[..=slot]);
        }
        assert!(index.tells_apart(&hashes));
    }

    #[test]
    fn forgets_replaced_hashes_only() {
        let mut hashes = crowded(300);
        let mut index = Index::new(&hashes);
        for slot in (0..hashes.len()).step_by(2) {
            let gone = std::mem::replace(&mut hashes[slot], (slot as u64 + 1) << 44 | 5);
            index.replace(slot, gone, hashes[slot]);
            assert_eq!(index.find(gone, &hashes), None);
        }
        for (slot, &hash) in hashes.iter().enumerate() {
            assert_eq!(index.find(hash, &hashes), Some(slot));
        }
    }

    #[test]
    fn hashes_chosen_for_one_bucket_cost_few_steps_each() {
        const HASHES: u64 = 20_000;
        let mut hashes: Vec<u64> = (0..HASHES).map(|high| high << 32 | 5).collect();
        let mut index = Index::new(&[]);
        for slot in 0..hashes.len() {
            assert_eq!(index.find(hashes[slot], &hashes[..slot]), None);
            index.insert(hashes[slot], slot, &hashes[..=slot]);
        }
        for slot in 0..hashes.len() {
            let gone = hashes[slot];
            hashes[slot] |= 1 << 63;
            index.replace(slot, gone, hashes[slot]);
            assert_eq!(index.find(hashes[slot], &hashes), Some(slot));
        }
        // Each is looked for three times and removed once, and entries are only looked at if they share a tag of 7 bits.
        let steps = STEPS.get() as u64;
        assert!((HASHES..6 * HASHES).contains(&steps), "{steps} steps");
    }
}

//! Where a key's counter is: a hash table from 64-bit hashes to slots, optimised for hits and for constant replacement.
//!
//! A hash belongs to one bucket of eleven places. A bucket is one cache line, and its tags (a byte of each hash) are
//! compared all at once, so a look-up has no loop and one branch. What does not fit its bucket is spilled, which is rare
//! because a bucket holds at most four hashes on average. Adversarial keys can fill a bucket; the spill table uses a
//! secret drawn once per process, so it cannot be overfilled. The answers depend on the hashes alone.

use std::mem::replace;

use hashbrown::HashTable;
use wide::u8x16;

use crate::state::secret::Secret;

/// Places per bucket.
const PLACES: usize = 11;

/// How many hashes a bucket holds at most, on average.
const CROWD: usize = 4;

/// The place of a slot whose hash is spilled.
const SPILLED: u32 = u32::MAX;

/// A byte of a hash that is not 0, four times: so a vector of it is loaded from memory in one step.
#[derive(Clone, Copy)]
struct Tag(u32);

impl Tag {
    /// That of a free place.
    const NONE: Self = Self(0);

    #[inline(always)]
    fn of(hash: u64) -> Self {
        Self(((hash >> 56) as u32).max(1) * 0x0101_0101)
    }
}

/// The slots of all places, four bytes each, and four bytes that count the hashes spilled; then a byte for the tag of each
/// place, and zeros. As bytes, all of it is reached without a test of bounds.
#[derive(Debug, Clone)]
#[repr(align(64))]
struct Bucket([u8; 64]);

/// Where the tags begin.
const TAGS: usize = 48;

impl Bucket {
    /// Of a free place, the slot and the tag are 0.
    const EMPTY: Self = Self([0; 64]);

    /// Bit i is set where place i has this tag.
    #[inline(always)]
    fn places_of(&self, tag: Tag) -> u32 {
        let mut wanted = [0; 16];
        wanted.copy_from_slice([tag.0.to_ne_bytes(); 4].as_flattened());
        u8x16::new(self.0.as_chunks().0[TAGS / 16]).simd_eq(u8x16::new(wanted)).to_bitmask()
    }

    /// Bit i is set where place i is free.
    #[inline(always)]
    fn free(&self) -> u32 {
        self.places_of(Tag::NONE) & ((1 << PLACES) - 1)
    }

    /// The slot of the first of some places; if there are none, that of the first place.
    #[inline(always)]
    fn slot(&self, places: u32) -> usize {
        self.word(places.trailing_zeros() as usize % 16) as usize
    }

    #[inline(always)]
    fn set(&mut self, place: usize, tag: Tag, slot: u32) {
        self.0.as_chunks_mut().0[place % 16] = slot.to_ne_bytes();
        self.0[TAGS + place % 16] = tag.0 as u8;
    }

    /// How many of its hashes are spilled.
    #[inline(always)]
    fn spilled(&self) -> u32 {
        self.word(PLACES)
    }

    fn set_spilled(&mut self, spilled: u32) {
        self.0.as_chunks_mut().0[PLACES] = spilled.to_ne_bytes();
    }

    #[inline(always)]
    fn word(&self, number: usize) -> u32 {
        u32::from_ne_bytes(self.0.as_chunks().0[number])
    }
}

/// Maps hashes to slots. The hashes themselves belong to the caller, who passes them in by slot.
#[derive(Debug, Clone)]
pub(crate) struct Index {
    buckets: Vec<Bucket>,
    /// By slot: sixteen times the number of its hash's bucket plus the place in it, or [`SPILLED`].
    places: Vec<u32>,
    spill: Spill,
}

/// Where a hash without a slot belongs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Room {
    bucket: usize,
    /// Bit i is set if place i is free.
    free: u32,
}

/// The hashes whose buckets are full, and their slots.
#[derive(Debug, Clone, Default)]
struct Spill {
    secret: Secret,
    table: HashTable<(u64, u32)>,
}

impl Spill {
    #[cold]
    fn find(&self, hash: u64) -> Option<usize> {
        self.table.find(self.secret.place(hash), |entry| is_of(entry, hash)).map(|&(_, slot)| slot as usize)
    }

    fn insert(&mut self, hash: u64, slot: u32) {
        let Self { secret, table } = self;
        table.insert_unique(secret.place(hash), (hash, slot), |&(hash, _)| secret.place(hash));
    }

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
        let buckets = (hashes.len() / CROWD + 1).next_power_of_two().max(16);
        let places = Vec::with_capacity(hashes.len());
        let mut index = Self { buckets: vec![Bucket::EMPTY; buckets], places, spill: Spill::default() };
        for (slot, &hash) in hashes.iter().enumerate() {
            index.append(hash, slot);
        }
        index
    }

    /// Forgets all hashes, but keeps the memory.
    pub(crate) fn clear(&mut self, hashes: &[u64]) {
        if hashes.len() < self.buckets.len() {
            for &hash in hashes {
                let number = self.bucket(hash);
                self.buckets[number] = Bucket::EMPTY;
            }
        } else {
            self.buckets.fill(Bucket::EMPTY);
        }
        self.places.clear();
        self.spill.table.clear();
    }

    #[inline(always)]
    fn bucket(&self, hash: u64) -> usize {
        hash as usize & (self.buckets.len() - 1)
    }

    /// The slot of `hash`, if it has one.
    #[inline(always)]
    pub(crate) fn find(&self, hash: u64, hashes: &[u64]) -> Option<usize> {
        self.find_in(&self.buckets[self.bucket(hash)], hash, hashes)
    }

    #[inline(always)]
    fn find_in(&self, bucket: &Bucket, hash: u64, hashes: &[u64]) -> Option<usize> {
        let mut places = bucket.places_of(Tag::of(hash));
        while places != 0 {
            let slot = bucket.slot(places);
            // An equal tag may be another key's.
            if hashes.get(slot) == Some(&hash) {
                return Some(slot);
            }
            places &= places - 1;
        }
        if bucket.spilled() != 0 { self.spill.find(hash) } else { None }
    }

    /// The slot of `hash`, or room for it if it has none.
    #[inline(always)]
    pub(crate) fn find_or_room(&self, hash: u64, hashes: &[u64]) -> Result<usize, Room> {
        let number = self.bucket(hash);
        let bucket = &self.buckets[number];
        self.find_in(bucket, hash, hashes).ok_or_else(|| Room { bucket: number, free: bucket.free() })
    }

    /// Guesses the slots of a block of hashes, without a branch: the only slot that a hash can have, but for rare cases; if it
    /// has none, the slot of another hash, or 0.
    #[inline(always)]
    pub(crate) fn guess<const LEN: usize>(&self, hashes: &[u64], slots: &mut [u32; LEN]) {
        // The tags of all first, which are made several at a time.
        let mut tags = [Tag::NONE; LEN];
        for (tag, &hash) in tags.iter_mut().zip(hashes) {
            *tag = Tag::of(hash);
        }
        for ((slot, &hash), &tag) in slots.iter_mut().zip(hashes).zip(&tags) {
            let bucket = &self.buckets[self.bucket(hash)];
            *slot = bucket.slot(bucket.places_of(tag)) as u32;
        }
    }

    /// Whether every slot is found by its hash.
    pub(crate) fn tells_apart(&self, hashes: &[u64]) -> bool {
        hashes.iter().enumerate().all(|(slot, &hash)| self.find(hash, hashes) == Some(slot))
    }

    /// Assigns the last slot, which is new, to `hash`, which had none.
    #[inline(always)]
    pub(crate) fn insert(&mut self, hash: u64, slot: usize, hashes: &[u64]) {
        if hashes.len() > CROWD * self.buckets.len() {
            *self = Self::new(hashes);
        } else {
            self.append(hash, slot);
        }
    }

    fn append(&mut self, hash: u64, slot: usize) {
        let number = self.bucket(hash);
        let free = self.buckets[number].free();
        let place = self.settle(hash, slot, Room { bucket: number, free });
        self.places.push(place);
    }

    /// Assigns the slot of one hash to another, which has this room.
    #[inline(always)]
    pub(crate) fn replace(&mut self, slot: usize, old: u64, new: u64, room: Room) {
        let place = self.settle(new, slot, room);
        let before = replace(&mut self.places[slot], place);
        match self.buckets.get_mut(before as usize / 16) {
            Some(bucket) => bucket.set(before as usize % 16, Tag::NONE, 0),
            None => self.forget_spilled(old),
        }
    }

    #[inline(always)]
    fn settle(&mut self, hash: u64, slot: usize, room: Room) -> u32 {
        if room.free == 0 {
            return self.spill(hash, slot);
        }
        let (bucket, place) = (&mut self.buckets[room.bucket], room.free.trailing_zeros() as usize);
        bucket.set(place, Tag::of(hash), slot as u32);
        (16 * room.bucket + place) as u32
    }

    #[cold]
    fn spill(&mut self, hash: u64, slot: usize) -> u32 {
        self.spill.insert(hash, slot as u32);
        let number = self.bucket(hash);
        let bucket = &mut self.buckets[number];
        bucket.set_spilled(bucket.spilled() + 1);
        SPILLED
    }

    #[cold]
    fn forget_spilled(&mut self, hash: u64) {
        self.spill.remove(hash);
        let number = self.bucket(hash);
        let bucket = &mut self.buckets[number];
        bucket.set_spilled(bucket.spilled() - 1);
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

    /// Assigns a slot to its new hash.
    fn move_to(index: &mut Index, slot: usize, gone: u64, hashes: &[u64]) {
        let before: Vec<u64> =
            hashes.iter().enumerate().map(|(at, &hash)| if at == slot { gone } else { hash }).collect();
        index.replace(slot, gone, hashes[slot], index.find_or_room(hashes[slot], &before).unwrap_err());
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
    fn guesses_are_right_but_for_rare_cases_and_never_slots_that_were_cleared() {
        let keys = KeyHasher::new(0);
        let mut hashes: Vec<u64> = (0..1000).map(|key| keys.whole(key)).collect();
        let mut index = Index::new(&hashes);
        for slot in 500..1000 {
            let gone = hashes[slot];
            hashes[slot] = keys.whole(-1 - slot as i64);
            move_to(&mut index, slot, gone, &hashes);
        }
        let mut guesses = [0; 1000];
        index.guess(&hashes, &mut guesses);
        let wrong = (0..1000).filter(|&slot| guesses[slot] as usize != slot).count();
        assert!(wrong < 30, "{wrong} of 1000");
        index.clear(&hashes);
        index.insert(7, 0, &[7]);
        index.guess(&(0..1000).map(|key| keys.whole(key)).collect::<Vec<u64>>(), &mut guesses);
        assert_eq!(guesses, [0; 1000]);
    }

    #[test]
    fn forgets_replaced_hashes_only() {
        let mut hashes = crowded(300);
        let mut index = Index::new(&hashes);
        for slot in (0..hashes.len()).step_by(2) {
            let gone = replace(&mut hashes[slot], (slot as u64 + 1) << 44 | 5);
            move_to(&mut index, slot, gone, &hashes);
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
            move_to(&mut index, slot, gone, &hashes);
            assert_eq!(index.find(hashes[slot], &hashes), Some(slot));
        }
        // Each is looked for three times and removed once, and entries are only looked at if they share a tag of 7 bits.
        let steps = STEPS.get() as u64;
        assert!((HASHES..6 * HASHES).contains(&steps), "{steps} steps");
    }
}

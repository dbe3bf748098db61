//! SpaceSaving: the frequent keys of a stream in k counters.
//!
//! Metwally, Agrawal, El Abbadi: Efficient Computation of Frequent and Top-k Elements in Data Streams (ICDT
//! 2005). Guarantees, with N the sum of all weights: a key's true count lies in `count - error ..= count`;
//! no error exceeds N/k; every key above N/k has a counter. Merging keeps all three (Berinde, Indyk, Cormode, Strauss:
//! Space-optimal Heavy Hitters with Strong Error Bounds, TODS 2010; Agarwal et al.: Mergeable Summaries, TODS 2013).
//!
//! The paper leaves open which of several smallest counters a new key takes: here, the one in the lowest slot. Counters
//! are not kept sorted: between decays counts only grow, so a [`Minimum`] finds the smallest.

use std::mem::replace;

use serde::{Deserialize, Serialize};

use super::index::{Index, Room};
use crate::amount::Scale;
use crate::batch::BLOCK;
use crate::error::{Error, Result};
use crate::hash::vectorised;
use crate::state::minimum::Minimum;
use crate::types::{Amount, KeyHash};

/// A sketch over 64-bit key hashes.
///
/// ```
/// use keysplit_core::KeyHash;
/// use keysplit_core::sketch::SpaceSaving;
///
/// let mut sketch = SpaceSaving::new(2)?;
/// sketch.update(&[1, 1, 1, 2, 3], None, |_, _| {});
/// assert_eq!(sketch.estimate(KeyHash(1)), (3.0, 0.0));
/// assert_eq!(sketch.estimate(KeyHash(3)), (2.0, 1.0)); // took the counter of 2
/// # Ok::<(), keysplit_core::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct SpaceSaving {
    capacity: usize,
    scale: Scale,
    total: Amount,
    hashes: Vec<u64>,
    counts: Vec<u64>,
    errors: Vec<u64>,
    index: Index,
    least: Minimum,
}

/// The counter that an update touched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Touched {
    /// Its slot.
    pub slot: usize,
    /// Whether the key has just been given the counter.
    pub fresh: bool,
}

/// What messages that were counted together have touched.
#[derive(Debug, Clone)]
pub(crate) struct Block {
    /// By message: the slot of its key's counter.
    slots: [u32; BLOCK],
    /// By message: its key's count and the sum of all weights just after it, as amounts of the sketch's scale.
    pub(crate) counts: [u64; BLOCK],
    pub(crate) totals: [u64; BLOCK],
    /// Bit i is set if message i's key has just been given its counter.
    fresh: u64,
}

impl Default for Block {
    fn default() -> Self {
        Self { slots: [0; BLOCK], counts: [0; BLOCK], totals: [0; BLOCK], fresh: 0 }
    }
}

impl Block {
    /// Bit i is set if message i's key has just been given its counter.
    #[inline(always)]
    pub(crate) fn all_fresh(&self) -> u64 {
        self.fresh
    }

    /// The counter that a message has touched.
    #[inline(always)]
    pub(crate) fn touched(&self, row: usize) -> Touched {
        Touched { slot: self.slots[row] as usize, fresh: self.fresh >> row & 1 == 1 }
    }
}

/// The origin of a merged sketch's counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// A slot of the sketch merged into.
    Ours(usize),
    /// A slot of the other sketch.
    Theirs(usize),
}

/// What [`SpaceSaving::restore`] needs to continue exactly.
#[derive(Debug, Serialize, Deserialize)]
pub struct SavedSketch {
    scale: Scale,
    total: u64,
    hashes: Vec<u64>,
    counts: Vec<u64>,
    errors: Vec<u64>,
}

impl SpaceSaving {
    /// The largest number of counters.
    pub const MAX_CAPACITY: u64 = 1 << 28;

    /// A sketch of at most `capacity` counters; memory is allocated as keys arrive.
    pub fn new(capacity: u64) -> Result<Self> {
        if !(1..=Self::MAX_CAPACITY).contains(&capacity) {
            return Err(Error::value(format!("capacity must be in 1..={}, got {capacity}", Self::MAX_CAPACITY)));
        }
        Ok(Self {
            capacity: capacity as usize,
            scale: Scale::Whole,
            total: Amount(0),
            hashes: Vec::new(),
            counts: Vec::new(),
            errors: Vec::new(),
            index: Index::new(&[]),
            least: Minimum::default(),
        })
    }

    /// Resets all counts but keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.index.clear(&self.hashes);
        self.hashes.clear();
        self.counts.clear();
        self.errors.clear();
        (self.scale, self.total, self.least) = (Scale::Whole, Amount(0), Minimum::default());
    }

    /// The largest number of counters it keeps.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// The number of counters in use.
    pub fn len(&self) -> usize {
        self.hashes.len()
    }

    /// Whether no key has been counted.
    pub fn is_empty(&self) -> bool {
        self.hashes.is_empty()
    }

    /// Sum of all weights.
    #[inline(always)]
    pub fn total(&self) -> f64 {
        self.scale.number(self.total)
    }

    /// Whether all weights so far were whole numbers with a sum of at most 2^53.
    pub fn is_whole(&self) -> bool {
        self.scale == Scale::Whole
    }

    /// The key hashes, in slot order.
    pub fn hashes(&self) -> &[u64] {
        &self.hashes
    }

    /// The slot of a key, if it has a counter.
    #[inline(always)]
    pub(crate) fn slot(&self, hash: KeyHash) -> Option<usize> {
        self.index.find(hash.0, &self.hashes)
    }

    /// The count of the key in a slot.
    #[inline(always)]
    pub fn count(&self, slot: usize) -> f64 {
        self.scale.number(Amount(self.counts[slot]))
    }

    /// By how much the count of the key in a slot may be too large.
    pub fn error(&self, slot: usize) -> f64 {
        self.scale.number(Amount(self.errors[slot]))
    }

    /// Counts a batch of messages, of weight 1 if no weights are given; calls `touch` for each.
    pub fn update(&mut self, hashes: &[u64], weights: Option<&[f64]>, touch: impl FnMut(usize, Touched)) {
        let scale = self.expect(hashes.len(), weights);
        vectorised(
            #[inline(always)]
            || match (scale, weights) {
                (Scale::Whole, None) => self.update_in_blocks(Scale::Whole, hashes, None, touch),
                (scale, weights) => self.update_in_blocks(scale, hashes, weights, touch),
            },
        );
    }

    #[inline(always)]
    fn update_in_blocks(
        &mut self,
        scale: Scale,
        hashes: &[u64],
        weights: Option<&[f64]>,
        mut touch: impl FnMut(usize, Touched),
    ) {
        let (mut start, mut block) = (0, Block::default());
        while start < hashes.len() {
            let rows = self.count_block(scale, &hashes[start..], weights.map(|weights| &weights[start..]), &mut block);
            for row in 0..rows {
                touch(start + row, block.touched(row));
            }
            start += rows;
        }
    }

    /// Prepares for a batch; later additions are of the returned scale.
    pub(crate) fn expect(&mut self, messages: usize, weights: Option<&[f64]>) -> Scale {
        if weights.is_some() {
            self.least.expect_uneven_steps();
        }
        if self.scale == Scale::Whole && self.scale.with_batch(self.total, messages, weights) == Scale::Fractional {
            self.become_fractional();
        }
        self.scale
    }

    /// This sketch after one more message of weight 1, and the counter that it touches.
    pub(crate) fn after(&self, hash: KeyHash) -> (Self, Touched) {
        let mut after = self.clone();
        let mut block = Block::default();
        after.count_block(self.scale, &[hash.0], None, &mut block);
        (after, block.touched(0))
    }

    /// The counts as amounts of the sketch's scale, in slot order.
    pub(crate) fn amounts(&self) -> &[u64] {
        &self.counts
    }

    /// Multiplies all counts and errors by a factor in 0..=1, then applies the monotonic `round`.
    pub(crate) fn decay(&mut self, factor: f64, round: impl Fn(f64) -> f64) {
        // At factor 0 even an infinite sum becomes 0.
        let lower = |amount: u64| if factor == 0.0 { 0.0 } else { f64::from_bits(amount) * factor };
        self.become_fractional();
        self.total = Scale::Fractional.amount(lower(self.total.0));
        vectorised(
            #[inline(always)]
            || {
                for amounts in [&mut self.counts, &mut self.errors] {
                    amounts.iter_mut().for_each(|amount| *amount = round(lower(*amount)).to_bits());
                }
            },
        );
        self.least.forget();
    }

    /// Switches to doubles from here on.
    pub(crate) fn become_fractional(&mut self) {
        if self.scale == Scale::Fractional {
            return;
        }
        self.scale.into_fractional(&mut self.counts);
        self.scale.into_fractional(&mut self.errors);
        self.total = Scale::Fractional.amount(self.total());
        self.scale = Scale::Fractional;
        self.least.forget();
    }

    pub(crate) fn is_full(&self) -> bool {
        self.hashes.len() == self.capacity
    }

    /// Counts the first messages, a block of them at most, of weight 1 if no weights are given. Returns how many.
    #[inline(never)]
    pub(crate) fn count_block(
        &mut self,
        scale: Scale,
        hashes: &[u64],
        weights: Option<&[f64]>,
        block: &mut Block,
    ) -> usize {
        let hashes = &hashes[..hashes.len().min(BLOCK)];
        block.fresh = 0;
        let even = weights.is_none() && !self.least.has_uneven_steps() && !self.is_empty();
        vectorised(
            #[inline(always)]
            || match scale {
                Scale::Whole if even => self.count_even(Scale::Whole, hashes, block),
                Scale::Fractional if even => self.count_even(Scale::Fractional, hashes, block),
                scale => self.count_uneven(scale, hashes, weights, block),
            },
        );
        hashes.len()
    }

    #[inline(always)]
    fn count_uneven(&mut self, scale: Scale, hashes: &[u64], weights: Option<&[f64]>, block: &mut Block) {
        for (row, &hash) in hashes.iter().enumerate() {
            let weight = scale.amount(weights.map_or(1.0, |weights| weights[row]));
            self.total = scale.sum(self.total, weight);
            block.totals[row] = self.total.0;
            self.count_next(scale, hash, weight, row, block);
        }
    }

    /// Counts messages of weight 1. Keys are looked up a block ahead: the reads overlap, and a wrong prediction of
    /// whether a key has a counter is noticed early.
    #[inline(always)]
    fn count_even(&mut self, scale: Scale, hashes: &[u64], block: &mut Block) {
        let (one, mut total) = (scale.amount(1.0), self.total);
        for after in &mut block.totals[..hashes.len()] {
            total = scale.sum(total, one);
            *after = total.0;
        }
        self.total = total;
        // Whole blocks are compiled by themselves.
        match <&[u64; BLOCK]>::try_from(hashes) {
            Ok(whole) => {
                self.index.guess(whole, &mut block.slots);
                self.count_looked_up(scale, whole, BLOCK, block);
            }
            Err(_) => {
                self.index.guess(hashes, &mut block.slots);
                // Only whole groups of rows are counted: the others' keys are not those of their slots.
                block.slots[hashes.len()..].fill(0);
                let mut padded = [!self.hashes[0]; BLOCK];
                padded[..hashes.len()].copy_from_slice(hashes);
                self.count_looked_up(scale, &padded, hashes.len(), block);
            }
        }
    }

    /// Counts messages of weight 1, at least one, whose keys were looked up.
    #[inline(always)]
    fn count_looked_up(&mut self, scale: Scale, hashes: &[u64; BLOCK], rows: usize, block: &mut Block) {
        if self.least.left() == 0 && self.is_full() {
            self.least.floor(&self.counts);
        }
        let level = Amount(self.least.level());
        if self.least.left() >= rows && scale.sum(level, scale.amount(1.0)) > level {
            self.count_apart(scale, level, hashes, rows, block);
        } else if self.least.left() == 0 && self.capacity - self.len() >= rows {
            self.count_with_room(scale, hashes, rows, block);
        } else {
            self.count_in_order(scale, &hashes[..rows], block);
        }
    }

    /// Counts messages of weight 1 during which the level stays what it is: there are as many counters at it.
    ///
    /// A key above the level then keeps its slot and changes no other key's. Such keys are counted first, without a branch
    /// to mispredict, and the others follow in order.
    #[inline(always)]
    fn count_apart(&mut self, scale: Scale, level: Amount, hashes: &[u64; BLOCK], rows: usize, block: &mut Block) {
        let one = scale.amount(1.0);
        let mut others = self.count_known(scale, |count| count > level.0, hashes, rows, block);
        let Self { hashes: keys, counts, errors, index, least, .. } = self;
        let slots = keys.len();
        let (keys, counts, errors) = (&mut keys[..slots], &mut counts[..slots], &mut errors[..slots]);
        let raised = scale.sum(level, one).0;
        let are_even = least.rising(
            counts,
            #[inline(always)]
            |counts| {
                while others != 0 {
                    let row = others.trailing_zeros() as usize;
                    let hash = hashes[row];
                    let (slot, count) = match index.find_or_room(hash, keys) {
                        Ok(slot) => {
                            let count = scale.sum(Amount(counts.values()[slot]), one).0;
                            counts.grow_to(slot, count);
                            (slot, count)
                        }
                        Err(room) => {
                            let slot = counts.grow_first_to(raised);
                            index.replace(slot, replace(&mut keys[slot], hash), hash, room);
                            errors[slot] = level.0;
                            block.fresh |= 1 << row;
                            (slot, raised)
                        }
                    };
                    (block.slots[row], block.counts[row]) = (slot as u32, count);
                    others &= others - 1;
                }
            },
        );
        debug_assert!(are_even);
    }

    /// Counts messages of weight 1, for each of which there is room for a new counter: those whose keys have counters first,
    /// without a branch to mispredict.
    #[inline(always)]
    fn count_with_room(&mut self, scale: Scale, hashes: &[u64; BLOCK], rows: usize, block: &mut Block) {
        let mut others = self.count_known(scale, |_| true, hashes, rows, block);
        while others != 0 {
            let row = others.trailing_zeros() as usize;
            self.count_next(scale, hashes[row], scale.amount(1.0), row, block);
            others &= others - 1;
        }
    }

    /// Counts the messages of weight 1 whose keys are in the slots that were looked up, if `may` holds for their counts.
    /// Returns which the others are: bit i stands for message i.
    #[inline(always)]
    fn count_known(
        &mut self,
        scale: Scale,
        may: impl Fn(u64) -> bool,
        hashes: &[u64; BLOCK],
        rows: usize,
        block: &mut Block,
    ) -> u64 {
        let (slots, one) = (self.hashes.len(), scale.amount(1.0));
        let (keys, counts) = (&self.hashes[..slots], &mut self.counts[..slots]);
        let mut known = 0;
        for start in (0..rows).step_by(8) {
            let mut these = 0;
            for lane in 0..8 {
                let row = start + lane;
                let slot = block.slots[row] as usize;
                let before = counts[slot];
                let is_known = u64::from((keys[slot] == hashes[row]) & may(before));
                // Stored also where it stays as it is: the address then waits for nothing. A mask chooses, because a
                // branch would often be mispredicted.
                let count = match scale {
                    Scale::Whole => before + is_known,
                    Scale::Fractional => {
                        let more = scale.sum(Amount(before), one).0;
                        before ^ ((before ^ more) & 0u64.wrapping_sub(is_known))
                    }
                };
                (counts[slot], block.counts[row]) = (count, count);
                these |= is_known << lane;
            }
            known |= these << start;
        }
        !known & u64::MAX >> (BLOCK - rows)
    }

    /// Counts messages of weight 1 whose keys were looked up, one after the other.
    #[inline(always)]
    fn count_in_order(&mut self, scale: Scale, hashes: &[u64], block: &mut Block) {
        let (one, mut row) = (scale.amount(1.0), 0);
        loop {
            let (level, slots) = (self.least.level(), self.hashes.len());
            let (keys, counts) = (&self.hashes[..slots], &mut self.counts[..slots]);
            while row < hashes.len() {
                let slot = block.slots[row] as usize;
                if keys[slot] != hashes[row] || counts[slot] == level {
                    break;
                }
                counts[slot] = scale.sum(Amount(counts[slot]), one).0;
                block.counts[row] = counts[slot];
                row += 1;
            }
            if row == hashes.len() {
                return;
            }
            self.count_next(scale, hashes[row], one, row, block);
            row += 1;
        }
    }

    /// Counts a message of the block.
    #[inline(always)]
    fn count_next(&mut self, scale: Scale, hash: u64, weight: Amount, row: usize, block: &mut Block) {
        let Touched { slot, fresh } = self.add(scale, hash, weight);
        block.slots[row] = slot as u32;
        block.counts[row] = self.counts[slot];
        block.fresh |= u64::from(fresh) << row;
    }

    /// Adds the weight of a message, an amount of the sketch's scale, to a counter, but not to the total.
    #[inline(always)]
    fn add(&mut self, scale: Scale, hash: u64, weight: Amount) -> Touched {
        match self.index.find_or_room(hash, &self.hashes) {
            Ok(slot) => {
                self.counts[slot] = scale.sum(Amount(self.counts[slot]), weight).0;
                self.least.grown(&self.counts, slot, self.counts[slot]);
                Touched { slot, fresh: false }
            }
            Err(room) if self.is_full() => Touched { slot: self.replace(scale, hash, weight, room), fresh: true },
            Err(_) => Touched { slot: self.append(hash, weight), fresh: true },
        }
    }

    #[cold]
    fn append(&mut self, hash: u64, weight: Amount) -> usize {
        let slot = self.hashes.len();
        self.hashes.push(hash);
        self.counts.push(weight.0);
        self.errors.push(0);
        self.index.insert(hash, slot, &self.hashes);
        slot
    }

    #[inline(always)]
    fn replace(&mut self, scale: Scale, hash: u64, weight: Amount, room: Room) -> usize {
        let slot = self.least.first_smallest(&self.counts);
        self.errors[slot] = self.counts[slot];
        self.least.grow_first(&mut self.counts, |count| scale.sum(Amount(count), weight).0);
        self.index.replace(slot, replace(&mut self.hashes[slot], hash), hash, room);
        slot
    }

    /// (count, error) of a key; both are the smallest count when it has no counter.
    pub fn estimate(&self, hash: KeyHash) -> (f64, f64) {
        let (count, error) = self.bounds(hash.0, self.absent());
        (self.scale.number(count), self.scale.number(error))
    }

    /// (count, error) of a key, both `absent` when it has no counter.
    fn bounds(&self, hash: u64, absent: Amount) -> (Amount, Amount) {
        let held = |slot| (Amount(self.counts[slot]), Amount(self.errors[slot]));
        self.index.find(hash, &self.hashes).map_or((absent, absent), held)
    }

    /// An upper bound on the count of a key without a counter.
    fn absent(&self) -> Amount {
        Amount(if self.is_full() { self.counts.iter().copied().min().unwrap_or(0) } else { 0 })
    }

    /// Slots by descending count, in slot order among equals; at most `limit`.
    pub fn top(&self, limit: usize) -> Vec<usize> {
        let mut slots: Vec<usize> = (0..self.len()).collect();
        slots.sort_by_key(|&slot| std::cmp::Reverse(self.counts[slot]));
        slots.truncate(limit);
        slots
    }

    /// Adds the counts of another sketch of the same capacity; returns where each slot's key came from.
    pub fn merge(&mut self, other: &Self) -> Result<Vec<Origin>> {
        if self.capacity != other.capacity {
            return Err(Error::value(format!(
                "other must have the capacity of this sketch, {}, got {}",
                self.capacity, other.capacity
            )));
        }
        let mut other = other.clone();
        if self.scale.with_sum(self.total, other.total()) == Scale::Fractional || other.scale == Scale::Fractional {
            self.become_fractional();
            other.become_fractional();
        }
        let sum = |one, other| self.scale.sum(one, other);
        let ours = self.hashes.iter().enumerate().map(|(slot, &hash)| (hash, Origin::Ours(slot)));
        let theirs = other.hashes.iter().enumerate().map(|(slot, &hash)| (hash, Origin::Theirs(slot)));
        let (missing_here, missing_there) = (self.absent(), other.absent());
        let mut merged: Vec<(Amount, Amount, u64, Origin)> = ours
            .chain(theirs.filter(|&(hash, _)| self.index.find(hash, &self.hashes).is_none()))
            .map(|(hash, origin)| {
                let (count, error) = self.bounds(hash, missing_here);
                let (more, doubt) = other.bounds(hash, missing_there);
                (sum(count, more), sum(error, doubt), hash, origin)
            })
            .collect();
        merged.sort_by_key(|&(count, ..)| std::cmp::Reverse(count));
        merged.truncate(self.capacity);
        self.restore(SavedSketch {
            scale: self.scale,
            total: sum(self.total, other.total).0,
            counts: merged.iter().map(|&(count, ..)| count.0).collect(),
            errors: merged.iter().map(|&(_, error, ..)| error.0).collect(),
            hashes: merged.iter().map(|&(_, _, hash, _)| hash).collect(),
        })?;
        Ok(merged.into_iter().map(|(.., origin)| origin).collect())
    }

    /// What [`SpaceSaving::restore`] needs to continue exactly.
    pub fn save(&self) -> SavedSketch {
        SavedSketch {
            scale: self.scale,
            total: self.total.0,
            hashes: self.hashes.clone(),
            counts: self.counts.clone(),
            errors: self.errors.clone(),
        }
    }

    /// Restores what [`SpaceSaving::save`] returned.
    pub fn restore(&mut self, saved: SavedSketch) -> Result<()> {
        let damaged = || Error::value("saved sketch is damaged");
        let SavedSketch { scale, total, hashes, counts, errors } = saved;
        let sane = |amounts: &[u64]| amounts.len() == hashes.len() && scale.holds(amounts);
        if hashes.len() > self.capacity || !scale.holds(&[total]) || !sane(&counts) || !sane(&errors) {
            return Err(damaged());
        }
        let index = Index::new(&hashes);
        if !index.tells_apart(&hashes) {
            return Err(damaged());
        }
        let (capacity, least) = (self.capacity, Minimum::default());
        *self = Self { capacity, scale, total: Amount(total), hashes, counts, errors, index, least };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::KeyHasher;

    /// The hashes, counts and errors of all slots after a stream, and what each of its messages touched and counted.
    fn after(mut sketch: SpaceSaving, stream: &[u64], together: usize) -> (SpaceSaving, Vec<(Touched, u64, u64)>) {
        let (mut block, mut rows) = (Block::default(), Vec::new());
        for part in stream.chunks(together) {
            let scale = sketch.expect(part.len(), None);
            let counted = sketch.count_block(scale, part, None, &mut block);
            assert_eq!(counted, part.len());
            rows.extend((0..counted).map(|row| (block.touched(row), block.counts[row], block.totals[row])));
        }
        (sketch, rows)
    }

    #[test]
    fn messages_counted_together_are_counted_like_one_after_the_other() {
        let keys = KeyHasher::new(0);
        // Half of the messages are of few keys; all others are rare, and some of them repeat within a block.
        let key = |draw: u64| if draw.is_multiple_of(2) { (draw >> 8) % 37 } else { (draw >> 8) % 3001 };
        let stream: Vec<u64> = (0..30_000).map(|at| keys.whole(key(keys.whole(at)) as i64)).collect();
        for (capacity, fractional) in [(1000, false), (1000, true), (100, false), (63, false), (5, true)] {
            let mut sketch = SpaceSaving::new(capacity).unwrap();
            if fractional {
                sketch.become_fractional();
            }
            let (alone, one_by_one) = after(sketch.clone(), &stream, 1);
            let (blocks, together) = after(sketch, &stream, BLOCK);
            assert_eq!(together, one_by_one);
            assert_eq!((&blocks.hashes, &blocks.counts), (&alone.hashes, &alone.counts));
            assert_eq!((&blocks.errors, blocks.total), (&alone.errors, alone.total));
        }
    }

    #[test]
    fn a_count_too_large_to_grow_by_one_stays_the_smallest() {
        let (keys, most) = (KeyHasher::new(0), (1u64 << 53) as f64);
        let mut sketch = SpaceSaving::new(100).unwrap();
        let hashes: Vec<u64> = (0..300).map(|key| keys.whole(key)).collect();
        sketch.update(&hashes[..100], Some(&[most; 100]), |_, _| {});
        // Restored as it is, it no longer expects uneven steps.
        let saved = sketch.save();
        sketch.restore(saved).unwrap();
        let (alone, one_by_one) = after(sketch.clone(), &hashes[100..228], 1);
        let (blocks, together) = after(sketch, &hashes[100..228], BLOCK);
        assert_eq!(together, one_by_one);
        assert!(together.iter().all(|(touched, ..)| *touched == Touched { slot: 0, fresh: true }));
        assert_eq!(blocks.hashes, alone.hashes);
    }

    #[test]
    fn hashes_chosen_for_one_bucket_are_counted_like_others() {
        let keys = KeyHasher::new(0);
        let stream: Vec<i64> = (0..20_000).map(|at| keys.whole(at).trailing_zeros() as i64 * 1000 + at % 999).collect();
        let mut plain = SpaceSaving::new(700).unwrap();
        let mut crowded = SpaceSaving::new(700).unwrap();
        for &key in &stream {
            let hash = (key as u64) << 32 | 5;
            let mut touched = Vec::new();
            crowded.update(&[hash], None, |_, one| touched.push(one));
            plain.update(&[keys.whole(key)], None, |_, other| touched.push(other));
            assert_eq!(touched[0], touched[1]);
        }
        assert!(plain.is_full());
        assert_eq!((&crowded.counts, &crowded.errors), (&plain.counts, &plain.errors));
    }
}

//! What keys have found full.
//!
//! As long as the capacity does not rise, bins only fill up: a frequent key need not look again where it found no room.
//! A small table remembers that for the keys that looked furthest; what it forgets costs time, never another answer.

use crate::types::{Amount, KeyHash};
use std::ops::RangeInclusive;

/// How many keys are remembered: enough of the frequent ones of every stream, and few enough to be at hand.
const KEYS: RangeInclusive<usize> = 1 << 10..=1 << 16;

/// A key that found bins full.
#[derive(Debug, Clone)]
struct Blocked {
    hash: KeyHash,
    /// So much at least is in each of them; 0 in an entry that no key has.
    capacity: Amount,
    /// So many of its probes, without a gap from the first, found one.
    probes: u32,
}

impl Blocked {
    const NONE: Self = Self { hash: KeyHash(0), capacity: Amount(0), probes: 0 };
}

/// Keys and how far they probed in vain; a probe is a candidate, or a point of a walk.
#[derive(Debug, Clone)]
pub(in crate::groupings) struct Memo(Vec<Blocked>);

impl Memo {
    /// A memo for so many bins.
    pub(in crate::groupings) fn new(bins: usize) -> Self {
        Self(vec![Blocked::NONE; (bins / 4).clamp(*KEYS.start(), *KEYS.end()).next_power_of_two()])
    }

    /// Starts afresh: the bins have been replaced by others.
    pub(in crate::groupings) fn forget(&mut self) {
        self.0.fill(Blocked::NONE);
    }

    #[inline(always)]
    fn place(&self, hash: KeyHash) -> usize {
        hash.0 as usize & (self.0.len() - 1)
    }

    /// How many probes of a key are known to be in vain at a capacity, which is at least 1.
    #[inline(always)]
    pub(in crate::groupings) fn probes(&self, hash: KeyHash, capacity: Amount) -> u32 {
        let entry = &self.0[self.place(hash)];
        if entry.hash == hash && capacity <= entry.capacity { entry.probes } else { 0 }
    }

    /// Notes how many probes of a key were in vain at a capacity, unless that drives out a key that probed more.
    #[inline(always)]
    pub(in crate::groupings) fn note(&mut self, hash: KeyHash, capacity: Amount, probes: u32) {
        let place = self.place(hash);
        let entry = &mut self.0[place];
        if capacity != entry.capacity || probes >= entry.probes {
            *entry = Blocked { hash, capacity, probes };
        }
    }
}

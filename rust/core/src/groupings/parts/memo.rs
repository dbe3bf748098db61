//! Bins that keys have found full.
//!
//! Bins only fill up while the capacity does not rise, so a frequent key can skip those it found full. A small table
//! remembers them for the keys that probed furthest; forgetting costs time, never changes an answer.

use crate::types::{Amount, KeyHash};
use std::ops::RangeInclusive;

/// How many keys are remembered: enough for the frequent ones, few enough for the cache.
const KEYS: RangeInclusive<usize> = 1 << 10..=1 << 16;

/// A key that found bins full.
#[derive(Debug, Clone)]
struct Blocked {
    hash: KeyHash,
    /// A lower bound on the load of each of these bins; 0 in an unused entry.
    capacity: Amount,
    /// How many of its first probes, without a gap, found a full bin.
    probes: u32,
}

impl Blocked {
    const NONE: Self = Self { hash: KeyHash(0), capacity: Amount(0), probes: 0 };
}

/// Keys and how many probes failed; a probe is a candidate, or a point of a walk.
#[derive(Debug, Clone)]
pub(in crate::groupings) struct Memo(Vec<Blocked>);

impl Memo {
    /// A memo for this many bins.
    pub(in crate::groupings) fn new(bins: usize) -> Self {
        Self(vec![Blocked::NONE; (bins / 4).clamp(*KEYS.start(), *KEYS.end()).next_power_of_two()])
    }

    /// Starts afresh: the bins were replaced.
    pub(in crate::groupings) fn forget(&mut self) {
        self.0.fill(Blocked::NONE);
    }

    #[inline(always)]
    fn place(&self, hash: KeyHash) -> usize {
        hash.0 as usize & (self.0.len() - 1)
    }

    /// How many first probes of a key are known to fail at a capacity of at least 1.
    #[inline(always)]
    pub(in crate::groupings) fn probes(&self, hash: KeyHash, capacity: Amount) -> u32 {
        let entry = &self.0[self.place(hash)];
        if entry.hash == hash && capacity <= entry.capacity { entry.probes } else { 0 }
    }

    /// Records how many probes of a key failed at a capacity, unless that evicts a key with more failed probes.
    #[inline(always)]
    pub(in crate::groupings) fn note(&mut self, hash: KeyHash, capacity: Amount, probes: u32) {
        let place = self.place(hash);
        let entry = &mut self.0[place];
        if capacity != entry.capacity || probes >= entry.probes {
            *entry = Blocked { hash, capacity, probes };
        }
    }
}

//! The cells of each frequent key.
//!
//! A key is in one of two places (R. Pagh, F. F. Rodler, "Cuckoo Hashing", Journal of Algorithms 51(2), 2004), so a
//! look-up has no loop and no branch to mispredict. Keys without a place, which takes adversarial hashes, are in a
//! sorted list: no look-up takes more steps than a binary search.

use std::hint::select_unpredictable;

/// How many keys are moved for a new one before one of them goes to the overflow list.
const MOST_MOVES: usize = 64;

/// The cells of a frequent key.
#[derive(Debug, Clone, Copy)]
pub(super) struct Run {
    pub(super) hash: u64,
    pub(super) start: u32,
    pub(super) length: u32,
}

impl Run {
    /// No cells.
    const NONE: Self = Self { hash: 0, start: 0, length: 0 };
}

/// Maps the hashes of frequent keys to their runs.
#[derive(Debug, Clone)]
pub(super) struct FrequentKeys {
    /// A key is in its first or its second place; at most a quarter of all places are taken.
    places: Vec<[Run; 2]>,
    /// The keys without a place, ascending by hash; nearly always empty.
    spill: Vec<Run>,
}

impl FrequentKeys {
    pub(super) fn new(runs: &[Run]) -> Self {
        let pairs = (2 * runs.len()).next_power_of_two().max(2) as u64;
        // A free place holds a hash that is never looked up there.
        let free = |pair: u64| [!pair, !pair << 32].map(|hash| Run { hash, ..Run::NONE });
        let mut keys = Self { places: (0..pairs).map(free).collect(), spill: Vec::new() };
        for &run in runs {
            keys.settle(run);
        }
        keys.spill.sort_unstable_by_key(|run| run.hash);
        keys
    }

    /// Where the first (0) or second (1) place of a hash is.
    #[inline(always)]
    fn pair(&self, hash: u64, which: usize) -> usize {
        (hash >> (32 * which)) as usize & (self.places.len() - 1)
    }

    fn settle(&mut self, mut run: Run) {
        for which in (0..2).cycle().take(MOST_MOVES) {
            let pair = self.pair(run.hash, which);
            std::mem::swap(&mut self.places[pair][which], &mut run);
            if run.length == 0 {
                return;
            }
        }
        self.spill.push(run);
    }

    /// The run of a hash and whether it has one; if not, an arbitrary run.
    #[inline(always)]
    pub(super) fn find(&self, hash: u64) -> (Run, bool) {
        let [one, other] = [0, 1].map(|which| self.places[self.pair(hash, which)][which]);
        let is_one = one.hash == hash;
        let run = Run {
            hash,
            start: select_unpredictable(is_one, one.start, other.start),
            length: select_unpredictable(is_one, one.length, other.length),
        };
        let found = is_one | (other.hash == hash);
        if self.spill.is_empty() || found { (run, found) } else { self.find_spilled(hash) }
    }

    #[cold]
    fn find_spilled(&self, hash: u64) -> (Run, bool) {
        match self.spill.binary_search_by_key(&hash, |run| run.hash) {
            Ok(at) => (self.spill[at], true),
            Err(_) => (Run::NONE, false),
        }
    }
}

#[cfg(test)]
/// Hashes that all have the same two places, and others.
pub(super) fn crowded(count: u64) -> Vec<u64> {
    let keys = crate::hash::KeyHasher::new(0);
    (0..count).map(|key| if key % 2 == 0 { key << 16 } else { keys.unsigned(key) }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::KeyHasher;

    #[test]
    fn only_a_crowd_is_without_a_place() {
        let keys = KeyHasher::new(0);
        for count in [1, 2, 30, 1000, 50_000] {
            let runs: Vec<Run> = (0..count).map(|key| Run { hash: keys.whole(key), start: 0, length: 1 }).collect();
            let keys_of = FrequentKeys::new(&runs);
            assert!(keys_of.spill.is_empty());
            assert!(keys_of.places.len() >= 2 * runs.len());
        }
        let runs: Vec<Run> = crowded(2000).into_iter().map(|hash| Run { hash, start: 0, length: 1 }).collect();
        assert_eq!(FrequentKeys::new(&runs).spill.len(), 998);
    }
}

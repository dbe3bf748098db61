//! Counting Bloom filter: a set of keys that supports removal.
//!
//! Fan, Cao, Almeida, Broder: Summary Cache (SIGCOMM 1998). A key in the set is always found; another key is a false
//! positive if its four counters all belong to keys in the set.

use crate::hash::Places;
use crate::types::KeyHash;

#[derive(Debug, Clone)]
pub(crate) struct CountingBloom {
    places: Places,
    counters: Vec<u32>,
}

impl CountingBloom {
    /// An empty set of this many counters.
    pub(crate) fn new(seed: u64, tag: u64, counters: u32) -> Self {
        Self { places: Places::new(seed, tag, counters), counters: vec![0; counters as usize] }
    }

    /// Adds a key that is not in the set.
    pub(crate) fn insert(&mut self, hash: u64) {
        for place in self.places.four(KeyHash(hash)) {
            self.counters[place] += 1;
        }
    }

    /// Removes a key that is in the set.
    pub(crate) fn remove(&mut self, hash: u64) {
        for place in self.places.four(KeyHash(hash)) {
            self.counters[place] -= 1;
        }
    }

    /// Whether a key is in the set, or a false positive.
    #[inline(always)]
    pub(crate) fn contains(&self, hash: u64) -> bool {
        self.places.four(KeyHash(hash)).iter().all(|&place| self.counters[place] > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::KeyHasher;

    #[test]
    fn keys_that_are_in_are_found_whatever_else_comes_and_goes() {
        let keys = KeyHasher::new(0);
        for counters in [1, 7, 4096] {
            let mut filter = CountingBloom::new(0, 10, counters);
            (0..100).for_each(|key| filter.insert(keys.whole(key)));
            (0..100).step_by(2).for_each(|key| filter.remove(keys.whole(key)));
            assert!((1..100).step_by(2).all(|key| filter.contains(keys.whole(key))));
            assert_eq!(filter.counters.iter().sum::<u32>(), 200);
            (1..100).step_by(2).for_each(|key| filter.remove(keys.whole(key)));
            assert!(!(0..100).any(|key| filter.contains(keys.whole(key))));
        }
    }

    #[test]
    fn few_others_are_found_in_a_large_filter() {
        let keys = KeyHasher::new(0);
        let mut filter = CountingBloom::new(0, 10, 4096);
        (0..100).for_each(|key| filter.insert(keys.whole(key)));
        let mistaken = (100..10_100).filter(|&key| filter.contains(keys.whole(key))).count();
        assert!(mistaken < 10, "{mistaken} of 10,000");
    }
}

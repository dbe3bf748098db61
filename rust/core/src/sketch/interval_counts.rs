//! Counts of keys within an interval: exact for the first 10,000 keys, count-min for the others.
//!
//! Cormode, Muthukrishnan: An Improved Data Stream Summary: The Count-Min Sketch and its Applications (LATIN 2004): a
//! count is never too small, and in each of four rows of 8,192 counters too large by the keys that share the counter.

use serde::{Deserialize, Serialize};

use crate::batch::BLOCK;
use crate::error::{Error, Result};
use crate::hash::Places;
use crate::sketch::index::Index;
use crate::types::KeyHash;

/// Keys counted exactly.
const EXACT: usize = 10_000;
const ROWS: usize = 4;
const WIDTH: usize = 8192;

#[derive(Debug, Clone)]
pub(crate) struct IntervalCounts {
    /// The keys counted exactly, in the order of their first messages, and their counts.
    hashes: Vec<u64>,
    counts: Vec<f64>,
    index: Index,
    places: Places,
    /// The concatenated rows of the count-min sketch; empty until a key needs them.
    shared: Vec<f64>,
}

/// What [`IntervalCounts::restore`] needs.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct SavedCounts {
    exact: Vec<(u64, f64)>,
    shared: Vec<f64>,
}

impl IntervalCounts {
    pub(crate) fn new(seed: u64, tag: u64) -> Self {
        let places = Places::new(seed, tag, WIDTH as u32);
        Self { hashes: Vec::new(), counts: Vec::new(), index: Index::new(&[]), places, shared: Vec::new() }
    }

    /// The hashes of the keys that are counted exactly, in the order of their first messages.
    pub(crate) fn hashes(&self) -> &[u64] {
        &self.hashes
    }

    /// Guesses at the places among them of the keys of a block.
    #[inline(always)]
    pub(crate) fn guess(&self, hashes: &[u64], guesses: &mut [u32; BLOCK]) {
        self.index.guess(hashes, guesses);
    }

    /// Counts a message; returns the new count of its key, and its place if it is counted exactly.
    #[inline(always)]
    pub(crate) fn add(&mut self, hash: u64, guess: usize, weight: f64) -> (f64, Option<usize>) {
        let place = if self.hashes.get(guess) == Some(&hash) {
            guess
        } else {
            match self.index.find(hash, &self.hashes) {
                Some(place) => place,
                None => return self.add_new(hash, weight),
            }
        };
        let count = &mut self.counts[place];
        *count += weight;
        (*count, Some(place))
    }

    #[inline]
    fn add_new(&mut self, hash: u64, weight: f64) -> (f64, Option<usize>) {
        let place = self.hashes.len();
        if place < EXACT {
            self.hashes.push(hash);
            self.counts.push(weight);
            self.index.insert(hash, place, &self.hashes);
            return (weight, Some(place));
        }
        (self.add_shared(hash, weight), None)
    }

    #[cold]
    fn add_shared(&mut self, hash: u64, weight: f64) -> f64 {
        self.shared.resize(ROWS * WIDTH, 0.0);
        let mut least = f64::INFINITY;
        for (row, place) in self.places.four(KeyHash(hash)).into_iter().enumerate() {
            let count = &mut self.shared[row * WIDTH + place];
            *count += weight;
            least = least.min(*count);
        }
        least
    }

    /// Resets all counts.
    pub(crate) fn clear(&mut self) {
        self.index.clear(&self.hashes);
        self.hashes.clear();
        self.counts.clear();
        self.shared.clear();
    }

    pub(crate) fn save(&self) -> SavedCounts {
        let mut exact: Vec<(u64, f64)> = self.hashes.iter().copied().zip(self.counts.iter().copied()).collect();
        exact.sort_unstable_by_key(|&(hash, _)| hash);
        SavedCounts { exact, shared: self.shared.clone() }
    }

    pub(crate) fn restore(&mut self, SavedCounts { exact, shared }: SavedCounts) -> Result<()> {
        let sane = |&count: &f64| count >= 0.0;
        if exact.len() > EXACT
            || !exact.is_sorted_by(|one, other| one.0 < other.0)
            || !exact.iter().all(|(_, count)| sane(count))
            || ![0, ROWS * WIDTH].contains(&shared.len())
            || !shared.iter().all(sane)
        {
            return Err(Error::damaged("its counts are invalid"));
        }
        (self.hashes, self.counts) = exact.into_iter().unzip();
        self.index = Index::new(&self.hashes);
        self.shared = shared;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::KeyHasher;

    #[test]
    fn counts_are_exact_at_first_and_never_too_small() {
        let keys = KeyHasher::new(0);
        let mut counts = IntervalCounts::new(0, 11);
        for round in 1..=3 {
            for key in 0..30_000 {
                let count = counts.add(keys.whole(key), 7, 0.5).0;
                let own = f64::from(round) * 0.5;
                assert!(if key < 10_000 { count == own } else { count >= own && count < 30.0 });
            }
        }
        let places = counts.places.four(KeyHash(keys.whole(20_000)));
        let least = (0..4).map(|row| counts.shared[row * WIDTH + places[row]]).fold(f64::INFINITY, f64::min);
        assert_eq!(counts.add(keys.whole(20_000), 7, 1.0).0, least + 1.0);

        let mut again = IntervalCounts::new(0, 11);
        again.restore(counts.save()).unwrap();
        for key in [5, 9_999, 10_000, 20_000] {
            assert_eq!(again.add(keys.whole(key), 7, 1.0).0, counts.add(keys.whole(key), 7, 1.0).0);
        }
        counts.clear();
        assert_eq!(counts.add(keys.whole(20_000), 7, 1.0).0, 1.0);
    }
}

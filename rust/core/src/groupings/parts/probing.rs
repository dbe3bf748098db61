//! The power of random choices over bins: a key's candidates are probed until one is below the capacity.
//!
//! CG paper (arXiv 1705.09073), section 5.1. The answers are those of the naive loop, whose cost grows with the number
//! of bins; a frequent key does not probe again what it has found full.

use super::choices::Choices;
use super::memo::Memo;
use crate::batch::BLOCK;
use crate::hash::candidate_pair;
use crate::state::loads::Unranked;
use crate::types::{Amount, KeyHash, Worker};

/// The most probes of a message, per bin.
const PROBES: u64 = 64;

/// How many candidates are drawn for all keys of a block at a time, before any is probed.
const DRAWN: usize = 4;

/// The first candidates of a block of keys: a list of the first ones, one of the second ones, and so on.
pub(in crate::groupings) struct Drawn([[u32; BLOCK]; DRAWN]);

impl Drawn {
    #[inline(always)]
    pub(in crate::groupings) fn of(hashes: &[u64], bins: u32) -> Self {
        let mut lists = [[0; BLOCK]; DRAWN];
        Choices::new(bins, false).fill(hashes, &mut lists);
        Self(lists)
    }
}

/// Probes candidates for bins.
#[derive(Debug, Clone)]
pub(in crate::groupings) struct Prober {
    bins: u32,
    memo: Memo,
}

impl Prober {
    pub(in crate::groupings) fn new(bins: u32) -> Self {
        Self { bins, memo: Memo::new(bins as usize) }
    }

    pub(in crate::groupings) fn bins(&self) -> u32 {
        self.bins
    }

    /// Starts afresh: the bins were replaced.
    pub(in crate::groupings) fn forget(&mut self) {
        self.memo.forget();
    }

    /// The first candidate of a block's key below the capacity; the least loaded bin if there is none.
    #[inline(always)]
    pub(in crate::groupings) fn find(
        &mut self,
        hash: KeyHash,
        Drawn(lists): &Drawn,
        row: usize,
        capacity: Amount,
        loads: &Unranked,
    ) -> Worker {
        for list in lists {
            let bin = Worker(list[row]);
            if loads.of(bin) < capacity {
                return bin;
            }
        }
        self.find_further(hash, capacity, loads)
    }

    #[inline(always)]
    fn find_further(&mut self, hash: KeyHash, capacity: Amount, loads: &Unranked) -> Worker {
        let known = u64::from(self.memo.probes(hash, capacity)).max(DRAWN as u64);
        let most = PROBES * u64::from(self.bins);
        for pair in known / 2..most / 2 {
            let (first, second) = candidate_pair(hash, pair, self.bins);
            for (probe, bin) in [(2 * pair, first), (2 * pair + 1, second)] {
                if loads.of(bin) < capacity {
                    self.memo.note(hash, capacity, probe as u32);
                    return bin;
                }
            }
        }
        self.memo.note(hash, capacity, u32::try_from(most).unwrap_or(u32::MAX));
        loads.least()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::amount::Scale;
    use crate::hash::{KeyHasher, candidates};
    use crate::state::loads::Loads;

    /// Compares with the naive loop, for two frequent keys and many others at capacities that rise and fall.
    fn check(bins: u32, slack: u64, capacity: impl Fn(u64, u64) -> u64) {
        let draws = KeyHasher::new(bins.into());
        let (mut prober, mut loads) = (Prober::new(bins), Loads::new(bins));
        for message in 0..2000 {
            let draw = draws.whole(message as i64);
            let hash = if draw.is_multiple_of(2) { draws.whole((draw >> 8) as i64 % 3) } else { draw };
            let capacity = capacity(slack + message / u64::from(bins), draw);
            let (hash, capacity) = (KeyHash(hash), Amount(capacity));
            let naive = candidates(hash, bins).take(64 * bins as usize).find(|&bin| loads.of(bin) < capacity);
            let least = (0..bins).map(Worker).min_by_key(|&bin| loads.of(bin)).unwrap();
            let drawn = Drawn::of(&[hash.0], bins);
            let bin = prober.find(hash, &drawn, 0, capacity, &loads.unranked());
            assert_eq!(bin, naive.unwrap_or(least), "message {message} of {bins} bins");
            loads.add(Scale::Whole, bin, Amount(1));
        }
    }

    #[test]
    fn finds_what_the_plain_loop_finds() {
        for bins in [1, 2, 3, 10, 100, 1000] {
            check(bins, 1, |level, _| level);
            check(bins, 2, |level, _| level);
            check(bins, 1, |level, draw| level + draw % 3);
        }
    }

    #[test]
    fn where_nothing_is_free_the_least_loaded_bin_is_taken() {
        for bins in [1, 2, 7, 30] {
            check(bins, 0, |level, _| level.max(1));
            check(bins, 0, |_, draw| 1 + draw % 2);
        }
    }
}

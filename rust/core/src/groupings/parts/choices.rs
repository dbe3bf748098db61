//! The candidate workers of a key, with repetitions or without.

use crate::batch::BLOCK;
use crate::hash::{candidate_pair, candidates};
use crate::state::loads::Loads;
use crate::types::{Amount, KeyHash, Worker};

/// Up to this many candidates are searched faster than a table of all workers is built.
const FEW: usize = 64;

/// How candidates are drawn: over how many workers, and whether a key's candidates must differ, as in Storm.
#[derive(Debug, Clone)]
pub(in crate::groupings) struct Choices {
    pub(in crate::groupings) workers: u32,
    distinct: bool,
}

impl Choices {
    pub(in crate::groupings) fn new(workers: u32, distinct: bool) -> Self {
        Self { workers, distinct }
    }

    /// The first two candidates; the same worker twice where there is only one.
    #[inline(always)]
    pub(in crate::groupings) fn pair(&self, hash: KeyHash) -> (Worker, Worker) {
        let (first, second) = candidate_pair(hash, 0, self.workers);
        if self.distinct && first == second && self.workers > 1 {
            let other = candidates(hash, self.workers).find(|&worker| worker != first);
            return (first, other.unwrap_or(first));
        }
        (first, second)
    }

    /// The first candidates of all keys of a block, and the second ones, as [`Choices::pair`] gives them.
    #[inline(always)]
    pub(in crate::groupings) fn pairs(&self, hashes: &[u64]) -> [[u32; BLOCK]; 2] {
        let mut lists = [[0; BLOCK]; 2];
        self.fill(hashes, &mut lists);
        lists
    }

    /// Fills lists with the candidates of all keys of a block: the first ones, the second ones, and so on. If they must
    /// differ and there are not as many workers, those that are missing are the first again.
    #[inline(always)]
    pub(in crate::groupings) fn fill(&self, hashes: &[u64], lists: &mut [[u32; BLOCK]]) {
        for (pair, lists) in (0..).zip(lists.chunks_mut(2)) {
            let drawn = hashes.iter().map(|&hash| candidate_pair(KeyHash(hash), pair, self.workers));
            if let [firsts, seconds] = lists {
                for ((first, second), pair) in firsts.iter_mut().zip(seconds).zip(drawn) {
                    (*first, *second) = (pair.0.0, pair.1.0);
                }
            } else {
                lists[0].iter_mut().zip(drawn).for_each(|(first, pair)| *first = pair.0.0);
            }
        }
        // Apart, so that the loop above takes several keys at a time.
        if self.distinct {
            for (row, &hash) in hashes.iter().enumerate() {
                let repeats = |list: usize| lists[..list].iter().any(|before| before[row] == lists[list][row]);
                if (1..lists.len()).any(repeats) {
                    let (most, mut found) = (lists.len().min(self.workers as usize), 1);
                    for candidate in candidates(KeyHash(hash), self.workers) {
                        if found == most {
                            break;
                        }
                        if lists[..found].iter().all(|list| list[row] != candidate.0) {
                            lists[found][row] = candidate.0;
                            found += 1;
                        }
                    }
                    let first = lists[0][row];
                    lists[found..].iter_mut().for_each(|list| list[row] = first);
                }
            }
        }
    }

    /// Least loaded of the first `count` candidates, the first among equals.
    #[inline(always)]
    pub(in crate::groupings) fn least_loaded(&self, hash: KeyHash, count: usize, loads: &Loads) -> Worker {
        if self.distinct {
            return loads.least_of(self.list(hash, count).into_iter().map(Worker));
        }
        let (mut best, mut least) = (Worker(0), Amount(u64::MAX));
        let mut compare = |worker: Worker| {
            let load = loads.of(worker);
            if load < least {
                (best, least) = (worker, load);
            }
        };
        for pair in 0..count / 2 {
            let (first, second) = candidate_pair(hash, pair as u64, self.workers);
            compare(first);
            compare(second);
        }
        if count % 2 == 1 {
            compare(candidate_pair(hash, count as u64 / 2, self.workers).0);
        }
        best
    }

    /// Extends the list of a key's first candidates to `count` (or to all workers, if they must differ).
    pub(in crate::groupings) fn extend(&self, hash: KeyHash, list: &mut Vec<u16>, count: usize) {
        let sequence = candidates(hash, self.workers).map(|worker| worker.0 as u16); // workers are below 65,536
        if !self.distinct {
            list.extend(sequence.skip(list.len()).take(count - list.len()));
            return;
        }
        list.clear();
        let count = count.min(self.workers as usize);
        if count <= FEW {
            for worker in sequence {
                if list.len() == count {
                    break;
                }
                if !list.contains(&worker) {
                    list.push(worker);
                }
            }
        } else {
            let mut seen = vec![false; self.workers as usize];
            list.extend(sequence.filter(|&worker| !std::mem::replace(&mut seen[worker as usize], true)).take(count));
        }
    }

    /// The distinct workers among the first `count` candidates, in candidate order.
    pub(in crate::groupings) fn list(&self, hash: KeyHash, count: usize) -> Vec<u32> {
        let mut list = Vec::new();
        self.extend(hash, &mut list, count);
        different(list.into_iter().map(u32::from))
    }
}

/// The distinct workers of a list, in its order.
pub(in crate::groupings) fn different(workers: impl IntoIterator<Item = u32>) -> Vec<u32> {
    let mut seen = hashbrown::HashSet::new();
    workers.into_iter().filter(|&worker| seen.insert(worker)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::KeyHasher;

    #[test]
    fn the_candidates_of_a_block_are_those_of_its_keys() {
        let keys = KeyHasher::new(0);
        let hashes: Vec<u64> = (0..50).map(|key| keys.whole(key)).collect();
        let cases = [1, 2, 3, 5, 7, 8, 9, 100].into_iter().flat_map(|workers| [(workers, false), (workers, true)]);
        for (workers, distinct) in cases {
            let choices = Choices::new(workers, distinct);
            let [firsts, seconds] = choices.pairs(&hashes);
            for (row, &hash) in hashes.iter().enumerate() {
                assert_eq!((Worker(firsts[row]), Worker(seconds[row])), choices.pair(KeyHash(hash)));
            }
            for count in 1..=8 {
                let mut lists = [[0; BLOCK]; 8];
                choices.fill(&hashes, &mut lists[..count]);
                for (row, &hash) in hashes.iter().enumerate() {
                    let filled: Vec<u32> = lists[..count].iter().map(|list| list[row]).collect();
                    let listed = choices.list(KeyHash(hash), count);
                    if distinct {
                        assert_eq!(filled[..listed.len()], listed, "{count} of {workers}");
                        assert!(filled[listed.len()..].iter().all(|&worker| worker == listed[0]));
                    } else {
                        assert_eq!(different(filled), listed, "{count} of {workers}");
                    }
                }
            }
        }
    }
}

//! The tables of FlexD: the workers of each key that was hot, and when it is split again.

use hashbrown::HashMap;
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use super::joint_loads::JointLoads;
use crate::error::{Error, Result};
use crate::types::{KeyHash, Worker};

/// T_f and the lists of Algorithm 1.
#[derive(Debug, Clone)]
pub(super) struct Tables {
    workers: u32,
    /// theta: a key is hot from this frequency on.
    pub(super) threshold: f64,
    /// delta: a key's threshold grows by this factor when it is split.
    growth: f64,
    /// Keys kept by a cleaning.
    most_keys: usize,
    entries: Vec<Entry>,
    numbers: HashMap<u64, u32>,
}

#[derive(Debug, Clone)]
struct Entry {
    hash: u64,
    /// T_f: the key is split from this frequency on.
    threshold: f64,
    /// The latest segment in which the key was hot.
    last_hot: u64,
    /// Its frequency in that segment.
    frequency: f64,
    /// Its workers, in the order they were added, most often few. Empty until its first message is assigned.
    list: SmallVec<[u16; 8]>,
}

/// What [`Tables::restore`] needs.
#[derive(Serialize, Deserialize)]
pub(super) struct SavedTables(Vec<(u64, f64, u64, Vec<u16>)>);

impl Tables {
    pub(super) fn new(workers: u32, threshold: f64, growth: f64, most_keys: usize) -> Self {
        Self { workers, threshold, growth, most_keys, entries: Vec::new(), numbers: HashMap::new() }
    }

    /// The entry of a key that is hot in a segment and has a message there.
    pub(super) fn heat(&mut self, hash: KeyHash, frequency: f64, segment: u64) -> u32 {
        let number = *self.numbers.entry(hash.0).or_insert_with(|| {
            self.entries.push(Entry {
                hash: hash.0,
                threshold: self.threshold,
                last_hot: 0,
                frequency: 0.0,
                list: SmallVec::new(),
            });
            self.entries.len() as u32 - 1
        });
        let entry = &mut self.entries[number as usize];
        (entry.frequency, entry.last_hot) = (frequency, segment);
        number
    }

    /// The worker for a message of a key that is hot in this segment.
    #[inline(always)]
    pub(super) fn choose(&mut self, number: u32, loads: &mut JointLoads) -> Worker {
        let entry = &mut self.entries[number as usize];
        if entry.list.len() == self.workers as usize {
            loads.least_of_all()
        } else if entry.frequency < entry.threshold && !entry.list.is_empty() {
            loads.least_of(entry.list.iter().map(|&worker| Worker(worker.into())))
        } else {
            entry.split(self.growth, self.workers, loads)
        }
    }

    /// The workers of a key, and the segment in which it was last hot.
    pub(super) fn list(&self, hash: KeyHash) -> Option<(Vec<u32>, u64)> {
        let entry = &self.entries[*self.numbers.get(&hash.0)? as usize];
        let mut list: Vec<u32> = entry.list.iter().map(|&worker| worker.into()).collect();
        if list.len() == self.workers as usize {
            list.sort_unstable();
        }
        Some((list, entry.last_hot))
    }

    /// Whether the tables hold enough keys to be cleaned.
    pub(super) fn are_crowded(&self) -> bool {
        self.entries.len() >= 2 * self.most_keys
    }

    /// Keeps the most recently hot keys, the most split first among equals.
    pub(super) fn clean(&mut self) {
        if self.entries.len() <= self.most_keys {
            return;
        }
        self.entries.select_nth_unstable_by(self.most_keys, |one, other| {
            let by_last_hot = other.last_hot.cmp(&one.last_hot);
            by_last_hot.then(other.threshold.total_cmp(&one.threshold)).then(one.hash.cmp(&other.hash))
        });
        self.entries.truncate(self.most_keys);
        self.number();
    }

    fn number(&mut self) {
        let hashes = self.entries.iter().map(|entry| entry.hash);
        self.numbers = hashes.zip(0..).collect();
    }

    pub(super) fn save(&self) -> SavedTables {
        let entries = self.entries.iter();
        SavedTables(entries.map(|entry| (entry.hash, entry.threshold, entry.last_hot, entry.list.to_vec())).collect())
    }

    /// Restores saved tables for this many workers, after this many segments.
    pub(super) fn restore(&mut self, SavedTables(saved): SavedTables, segments: u64) -> Result<()> {
        let keys = saved.len();
        let mut last_seen = vec![usize::MAX; self.workers as usize];
        self.entries.clear();
        for (key, (hash, threshold, last_hot, list)) in saved.into_iter().enumerate() {
            let is_new = |&worker: &u16| {
                last_seen.get_mut(worker as usize).is_some_and(|last| std::mem::replace(last, key) != key)
            };
            let fits = !list.is_empty() && list.iter().all(is_new) && threshold >= self.threshold;
            if !fits || last_hot >= segments {
                return Err(Error::damaged("the workers of a key do not fit"));
            }
            self.entries.push(Entry { hash, threshold, last_hot, frequency: 0.0, list: list.into() });
        }
        self.number();
        if self.numbers.len() != keys {
            return Err(Error::damaged("a key has two lists of workers"));
        }
        Ok(())
    }
}

impl Entry {
    /// The least loaded worker that the key does not yet have joins its list and takes the message.
    #[cold]
    fn split(&mut self, growth: f64, workers: u32, loads: &mut JointLoads) -> Worker {
        if !self.list.is_empty() {
            self.threshold *= growth;
        }
        let mut worker = loads.least_of_all();
        if self.list.contains(&(worker.0 as u16)) {
            let mut others = vec![true; workers as usize];
            self.list.iter().for_each(|&worker| others[worker as usize] = false);
            worker = loads.least_of((0..workers).map(Worker).filter(|worker| others[worker.index()]));
        }
        self.list.push(worker.0 as u16); // workers are below 65,536
        worker
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::Amount;

    /// Tables with a threshold of 0.125 that doubles, and loads of 3, 0, 1 and 5.
    fn tables() -> (Tables, JointLoads) {
        let mut loads = JointLoads::new(4);
        let scale = loads.expect(9, None);
        for (worker, load) in [(0, 3), (2, 1), (3, 5)] {
            loads.add(scale, Worker(worker), Amount(load));
        }
        (Tables::new(4, 0.125, 2.0, 2), loads)
    }

    #[test]
    fn a_key_is_split_until_its_threshold_exceeds_its_frequency() {
        let (mut tables, mut loads) = tables();
        let number = tables.heat(KeyHash(77), 0.3, 0);
        let mut choose = || {
            let worker = tables.choose(number, &mut loads);
            let scale = loads.expect(1, None);
            loads.add(scale, worker, Amount(1));
            worker.0
        };
        assert_eq!(choose(), 1, "the least loaded of all");
        assert_eq!(choose(), 2, "not worker 1, who is no more loaded and has the key");
        assert_eq!(choose(), 0);
        assert_eq!([choose(), choose(), choose()], [1, 1, 2], "the threshold is 0.5 now");
        assert_eq!(tables.entries[0].list[..], [1, 2, 0]);
        assert_eq!(tables.entries[0].threshold, 0.5);
    }

    #[test]
    fn a_key_of_all_workers_takes_the_lowest_of_the_least_loaded() {
        let (mut tables, mut loads) = tables();
        let number = tables.heat(KeyHash(77), 1.0, 0);
        let chosen = [(); 6].map(|()| {
            let worker = tables.choose(number, &mut loads);
            let scale = loads.expect(1, None);
            loads.add(scale, worker, Amount(1));
            worker.0
        });
        // Loads are 3, 1, 1 and 5 after the first one.
        assert_eq!(chosen[..4], [1, 2, 0, 3]);
        assert_eq!(chosen[4..], [1, 1], "although worker 2 is as loaded the second time: 4, 2, 2, 6");
        assert_eq!(tables.list(KeyHash(77)), Some((vec![0, 1, 2, 3], 0)));
        assert_eq!(tables.list(KeyHash(78)), None);
    }

    #[test]
    fn cleaning_keeps_the_latest_then_the_most_divided_then_the_smallest_hash() {
        let (mut tables, _) = tables();
        for (hash, segment, threshold) in [(9, 2, 0.125), (8, 2, 0.125), (7, 1, 4.0), (6, 2, 0.25), (5, 0, 8.0)] {
            let number = tables.heat(KeyHash(hash), 0.2, segment);
            tables.entries[number as usize].threshold = threshold;
            assert_eq!(tables.are_crowded(), tables.entries.len() >= 4);
        }
        tables.clean();
        let hashes: Vec<u64> = tables.entries.iter().map(|entry| entry.hash).collect();
        assert_eq!(hashes, [6, 8]);
        assert_eq!(tables.numbers.len(), 2);
        assert_eq!((tables.heat(KeyHash(8), 0.2, 3), tables.heat(KeyHash(5), 0.2, 3)), (1, 2), "key 5 has a new entry");
    }

    #[test]
    fn damaged_tables_are_refused() {
        let (mut tables, _) = tables();
        let good = (1, 0.125, 4, vec![3, 0]);
        let mut restore = |saved: &[(u64, f64, u64, Vec<u16>)]| tables.restore(SavedTables(saved.to_vec()), 5).is_ok();
        assert!(restore(&[good.clone(), (2, f64::INFINITY, 0, vec![0])]));
        assert!(!restore(&[good.clone(), good]), "the same key twice");
        for damaged in [
            (1, 0.124, 4, vec![0]),
            (1, f64::NAN, 4, vec![0]),
            (1, 0.125, 5, vec![0]),
            (1, 0.125, 4, vec![]),
            (1, 0.125, 4, vec![4]),
            (1, 0.125, 4, vec![2, 2]),
        ] {
            assert!(!restore(std::slice::from_ref(&damaged)), "{damaged:?}");
        }
    }
}

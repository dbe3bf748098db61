//! Which worker owns which bins, and how busy workers hand bins over to idle ones.
//!
//! CG paper (arXiv 1705.09073), section 5.3: *worker delegation* (a worker compares its utilisation with two thresholds
//! and signals one bit) and *pairing* (a bin moves from the worker that has been busy longest to the one that has been
//! idle longest, so that the number of bins stays the same). The paper does not say which bin moves: here it is the one
//! acquired last.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::types::Worker;

/// What a worker signals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::groupings) enum Signal {
    Busy,
    Idle,
}

/// The bins of each worker, at least one, and the workers waiting for a partner.
#[derive(Debug, Clone)]
pub(in crate::groupings) struct Pairing {
    /// By bin.
    owners: Vec<u16>,
    /// By worker: its bins, the last acquired on top.
    stacks: Vec<Vec<u32>>,
    /// Busy and idle workers, in the order of their signals, no worker twice or, except for `moved`, in both.
    queues: [VecDeque<u32>; 2],
    /// Whether a queued worker may also still be in the other queue.
    moved: bool,
    /// By worker: the queue it is in.
    standing: Vec<Option<Signal>>,
    /// By worker: the time slot of its last accepted signal.
    slots: Vec<Option<f64>>,
}

/// What [`Pairing::restore`] needs.
#[derive(Debug, Serialize, Deserialize)]
pub(in crate::groupings) struct SavedPairing {
    stacks: Vec<Vec<u32>>,
    queues: [VecDeque<u32>; 2],
    slots: Vec<Option<f64>>,
}

impl Pairing {
    /// Assigns `each` bins to each worker.
    pub(in crate::groupings) fn new(workers: u32, each: u32) -> Self {
        let count = workers as usize;
        let bins = workers * each;
        Self {
            owners: (0..bins).map(|bin| (bin % workers) as u16).collect(), // workers are below 65,536
            stacks: (0..workers).map(|worker| (worker..bins).step_by(count).collect()).collect(),
            queues: Default::default(),
            moved: false,
            standing: vec![None; count],
            slots: vec![None; count],
        }
    }

    /// The worker of a bin.
    #[inline(always)]
    pub(in crate::groupings) fn owner(&self, bin: Worker) -> Worker {
        Worker(self.owners[bin.index()].into())
    }

    /// Records a worker's signal in a time slot, one per slot. Call [`Pairing::pair`] once all are recorded.
    pub(in crate::groupings) fn note(&mut self, worker: Worker, signal: Signal, slot: f64) {
        let index = worker.index();
        if self.slots[index].replace(slot) == Some(slot) || self.standing[index] == Some(signal) {
            return;
        }
        self.moved |= self.standing[index].replace(signal).is_some();
        self.queues[signal as usize].push_back(worker.0);
    }

    /// Moves a bin from each busy worker that finds an idle partner.
    pub(in crate::groupings) fn pair(&mut self) {
        if std::mem::take(&mut self.moved) {
            for (signal, queue) in [Signal::Busy, Signal::Idle].into_iter().zip(&mut self.queues) {
                queue.retain(|&worker| self.standing[worker as usize] == Some(signal));
            }
        }
        let [busy, idle] = &mut self.queues;
        while let (Some(&from), Some(&to)) = (busy.front(), idle.front()) {
            busy.pop_front();
            self.standing[from as usize] = None;
            if self.stacks[from as usize].len() == 1 {
                continue;
            }
            idle.pop_front();
            self.standing[to as usize] = None;
            if let Some(bin) = self.stacks[from as usize].pop() {
                self.stacks[to as usize].push(bin);
                self.owners[bin as usize] = to as u16;
            }
        }
    }

    pub(in crate::groupings) fn save(&self) -> SavedPairing {
        SavedPairing { stacks: self.stacks.clone(), queues: self.queues.clone(), slots: self.slots.clone() }
    }

    /// Restores a saved pairing of as many workers and bins.
    pub(in crate::groupings) fn restore(&mut self, SavedPairing { stacks, queues, slots }: SavedPairing) -> Result<()> {
        let workers = self.stacks.len();
        let (mut owners, mut standing) = (vec![None; self.owners.len()], vec![None; workers]);
        let mut fits = stacks.len() == workers
            && slots.len() == workers
            && stacks.iter().all(|stack| !stack.is_empty())
            && slots.iter().flatten().all(|slot| !slot.is_nan());
        for (worker, stack) in stacks.iter().enumerate() {
            for &bin in stack {
                fits &= owners.get_mut(bin as usize).is_some_and(|owner| owner.replace(worker as u16).is_none());
            }
        }
        for (signal, queue) in [Signal::Busy, Signal::Idle].into_iter().zip(&queues) {
            for &worker in queue {
                fits &= standing.get_mut(worker as usize).is_some_and(|place| place.replace(signal).is_none());
            }
        }
        fits &= owners.iter().all(Option::is_some);
        if !fits {
            return Err(Error::damaged("its bins do not fit its workers"));
        }
        self.owners = owners.into_iter().flatten().collect();
        (self.stacks, self.queues, self.standing, self.slots) = (stacks, queues, standing, slots);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::Signal::{Busy, Idle};
    use super::*;
    use crate::hash::KeyHasher;

    fn queues(pairing: &Pairing) -> [Vec<u32>; 2] {
        pairing.queues.clone().map(Vec::from)
    }

    /// Every bin belongs to one worker, every worker has one, nobody is queued twice, and one queue is empty.
    fn check(pairing: &Pairing) {
        let mut bins: Vec<u32> = pairing.stacks.concat();
        bins.sort_unstable();
        assert_eq!(bins, (0..pairing.owners.len() as u32).collect::<Vec<_>>());
        for (worker, stack) in pairing.stacks.iter().enumerate() {
            assert!(!stack.is_empty());
            assert!(stack.iter().all(|&bin| pairing.owner(Worker(bin)) == Worker(worker as u32)));
        }
        let waiting: Vec<u32> = pairing.queues.iter().flatten().copied().collect();
        for (worker, standing) in pairing.standing.iter().enumerate() {
            let places = waiting.iter().filter(|&&waiting| waiting == worker as u32).count();
            assert_eq!(places, usize::from(standing.is_some()));
        }
        assert!(pairing.queues.iter().any(VecDeque::is_empty));
    }

    #[test]
    fn bins_and_queues_stay_whole() {
        for workers in [1, 2, 5] {
            let mut pairing = Pairing::new(workers, 3);
            check(&pairing);
            let draws = KeyHasher::new(0);
            for turn in 0..2000 {
                let draw = draws.whole(turn);
                for part in 0..draw % 4 {
                    let signal = if draw >> (8 + part) & 1 == 0 { Busy } else { Idle };
                    pairing.note(Worker((draw >> (16 + 8 * part)) as u32 % workers), signal, (turn / 3) as f64);
                }
                pairing.pair();
                check(&pairing);
                if turn % 100 == 0 {
                    let mut other = Pairing::new(workers, 3);
                    other.restore(pairing.save()).unwrap();
                    assert_eq!(format!("{other:?}"), format!("{pairing:?}"));
                }
            }
        }
    }

    #[test]
    fn the_bin_acquired_last_goes_first() {
        let mut pairing = Pairing::new(3, 2);
        pairing.note(Worker(0), Busy, 0.0);
        pairing.note(Worker(2), Idle, 0.0);
        pairing.pair();
        assert_eq!(pairing.stacks, [vec![0], vec![1, 4], vec![2, 5, 3]]);
        pairing.note(Worker(2), Busy, 1.0);
        pairing.note(Worker(1), Idle, 1.0);
        pairing.pair();
        assert_eq!(pairing.stacks, [vec![0], vec![1, 4, 3], vec![2, 5]]);
    }

    #[test]
    fn a_signal_counts_once_per_slot_and_a_worker_keeps_its_last_bin() {
        let mut pairing = Pairing::new(3, 1);
        pairing.note(Worker(1), Idle, 0.0);
        pairing.note(Worker(1), Busy, 0.0);
        assert_eq!(queues(&pairing), [vec![], vec![1]]);
        pairing.note(Worker(0), Idle, 0.0);
        pairing.pair();
        pairing.note(Worker(1), Busy, 1.0);
        pairing.pair();
        assert_eq!(queues(&pairing), [vec![], vec![0]]);
        assert_eq!(pairing.stacks, [[0], [1], [2]]);
        pairing.note(Worker(0), Idle, 1.0);
        pairing.note(Worker(2), Idle, 1.0);
        pairing.note(Worker(0), Idle, 2.0);
        assert_eq!(queues(&pairing), [vec![], vec![0, 2]]);
    }

    #[test]
    fn damaged_pairings_are_refused() {
        let damages: [fn(&mut SavedPairing); 9] = [
            |saved| saved.stacks.truncate(2),
            |saved| saved.stacks[0].push(0),
            |saved| saved.stacks[0][0] = 6,
            |saved| saved.stacks[0][0] = 1,
            |saved| saved.stacks = vec![vec![], vec![1, 4, 0, 3], vec![2, 5]],
            |saved| saved.slots.truncate(2),
            |saved| saved.slots[0] = Some(f64::NAN),
            |saved| saved.queues[0].push_back(3),
            |saved| saved.queues.iter_mut().for_each(|queue| queue.push_back(1)),
        ];
        let mut pairing = Pairing::new(3, 2);
        for damage in damages {
            let mut saved = pairing.save();
            damage(&mut saved);
            assert!(pairing.restore(saved).is_err());
        }
        pairing.restore(pairing.save()).unwrap();
    }
}

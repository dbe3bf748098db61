//! The present workers of an elastic grouping.

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::types::Worker;

/// The numbers of the present workers. A worker keeps its number; a new one takes the lowest free number.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Members {
    /// Presence by number, for all numbers ever assigned.
    present: Vec<bool>,
    count: u32,
}

impl Members {
    /// The workers 0 to `workers - 1`.
    pub fn new(workers: u32) -> Self {
        Self { present: vec![true; workers as usize], count: workers }
    }

    /// The number of present workers.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// The number of numbers ever assigned.
    pub fn numbers(&self) -> usize {
        self.present.len()
    }

    /// Whether the worker of a number is present.
    pub fn contains(&self, worker: Worker) -> bool {
        self.present.get(worker.index()) == Some(&true)
    }

    /// The numbers of the present workers, ascending.
    pub fn iter(&self) -> impl Iterator<Item = Worker> {
        self.present.iter().enumerate().filter(|&(_, &present)| present).map(|(worker, _)| Worker(worker as u32))
    }

    /// The lowest number that no present worker has.
    pub fn lowest_free(&self) -> Worker {
        Worker(self.present.iter().position(|&present| !present).unwrap_or(self.present.len()) as u32)
    }

    /// Adds a worker; its number is free and at most one above all others.
    pub(crate) fn join(&mut self, worker: Worker) {
        if worker.index() == self.present.len() {
            self.present.push(false);
        }
        self.present[worker.index()] = true;
        self.count += 1;
    }

    /// Removes a present worker.
    pub(crate) fn leave(&mut self, worker: Worker) {
        self.present[worker.index()] = false;
        self.count -= 1;
    }

    /// Checks members read from a snapshot.
    pub(crate) fn checked(self) -> Result<Self> {
        if self.count == 0 || self.iter().count() != self.count as usize {
            return Err(Error::damaged("its workers are inconsistent"));
        }
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newcomers_take_the_lowest_free_number() {
        let mut members = Members::new(3);
        members.leave(Worker(1));
        assert_eq!(members.iter().collect::<Vec<_>>(), [0, 2].map(Worker));
        assert_eq!(members.lowest_free(), Worker(1));
        members.join(Worker(1));
        assert_eq!(members.lowest_free(), Worker(3));
        members.join(Worker(3));
        assert_eq!((members.count(), members.numbers()), (4, 4));
        assert!(members.contains(Worker(3)) && !members.contains(Worker(4)));
    }
}

//! What each worker was sent by the last messages: a sliding window.
//!
//! Sums that grow and shrink lose small terms beside large ones, so they are recomputed periodically.

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::types::Worker;

/// The workers and weights of the last messages, and their sums.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Window {
    size: usize,
    /// A circular buffer once it is full: the oldest message is at `next`.
    workers: Vec<u32>,
    weights: Vec<f64>,
    next: usize,
    loads: Vec<f64>,
    all: f64,
    /// Messages since the sums were last recomputed.
    since: usize,
    /// Whether it is known that all weights have been 1 since the sums were exact: then they still are.
    #[serde(skip)]
    even: bool,
}

impl Window {
    /// An empty window of `size` messages; memory is allocated as they arrive.
    pub(crate) fn new(size: usize, workers: u32) -> Self {
        let loads = vec![0.0; workers as usize];
        Self { size, workers: Vec::new(), weights: Vec::new(), next: 0, loads, all: 0.0, since: 0, even: true }
    }

    /// The sums are recomputed after this many messages: a multiple of the window, to be worth the work.
    fn period(&self) -> usize {
        self.size * self.loads.len().div_ceil(self.size)
    }

    /// A message enters and the oldest one leaves; returns the new sums of its worker and of all workers.
    #[inline(always)]
    pub(crate) fn push(&mut self, worker: Worker, weight: f64) -> (f64, f64) {
        self.even &= weight == 1.0;
        self.loads[worker.index()] += weight;
        self.all += weight;
        if self.workers.len() < self.size {
            self.workers.push(worker.0);
            self.weights.push(weight);
        } else {
            let left = std::mem::replace(&mut self.workers[self.next], worker.0);
            let less = std::mem::replace(&mut self.weights[self.next], weight);
            lower(&mut self.loads[left as usize], less);
            lower(&mut self.all, less);
        }
        (self.since, self.next) = (self.since + 1, self.next + 1);
        if self.next == self.size {
            self.next = 0;
            if self.since == self.period() {
                self.add_up();
            }
        }
        (self.loads[worker.index()], self.all)
    }

    /// The sums of the full window, whose oldest message is at 0.
    #[cold]
    fn add_up(&mut self) {
        self.since = 0;
        if self.even {
            return;
        }
        self.all = 0.0;
        self.loads.fill(0.0);
        for (&worker, &weight) in self.workers.iter().zip(&self.weights) {
            self.loads[worker as usize] += weight;
            self.all += weight;
        }
        self.even = self.weights.iter().all(|&weight| weight == 1.0);
    }

    /// Restores a window of this size and number of workers.
    pub(crate) fn restore(&mut self, saved: Self) -> Result<()> {
        let Self { size, workers, weights, next, loads, all, since, even: _ } = &saved;
        let messages = workers.len();
        let sums = |values: &[f64]| values.iter().all(|&value| value >= 0.0);
        if *size != self.size
            || weights.len() != messages
            || messages > *size
            || next >= size
            || *since >= self.period()
            || since % size != *next
            || (messages < *size && *next != messages)
            || loads.len() != self.loads.len()
            || workers.iter().any(|&worker| worker as usize >= loads.len())
            || !(sums(weights) && sums(loads) && sums(&[*all]))
        {
            return Err(Error::damaged("its window does not fit its parameters"));
        }
        *self = saved;
        Ok(())
    }
}

/// Rounding does not make a sum negative.
#[inline(always)]
fn lower(sum: &mut f64, weight: f64) {
    *sum -= weight;
    if *sum < 0.0 {
        *sum = 0.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_message_leaves() {
        let mut window = Window::new(3, 2);
        let sums: Vec<(f64, f64)> = [(0, 1.0), (1, 2.0), (0, 4.0), (1, 8.0), (1, 16.0)]
            .map(|(worker, weight)| window.push(Worker(worker), weight))
            .into();
        assert_eq!(sums, [(1.0, 1.0), (2.0, 3.0), (5.0, 7.0), (10.0, 14.0), (24.0, 28.0)]);

        let mut again = Window::new(3, 2);
        again.restore(window.clone()).unwrap();
        assert_eq!(again.push(Worker(0), 0.5), window.push(Worker(0), 0.5));
        assert!(Window::new(2, 2).restore(window.clone()).is_err());
        assert!(Window::new(3, 1).restore(window.clone()).is_err());
    }

    #[test]
    fn sums_do_not_fall_below_zero() {
        let mut window = Window::new(1, 3);
        window.push(Worker(0), 0.1);
        assert_eq!(window.push(Worker(0), 1e17), (1e17, 1e17));
        window.push(Worker(1), 0.3); // the third message
        window.push(Worker(0), 1e17);
        assert_eq!(window.push(Worker(0), 0.3), (0.0, 0.0));
    }

    #[test]
    fn sums_of_a_window_are_added_up_anew_whatever_its_weights() {
        for weights in [[1.0, 1.0, 1.0], [0.1, 0.7, 0.3], [1.0, 0.1, 1.0], [1.0, 1.0, 2.7], [1e20, 1.0, 1.0]] {
            let mut window = Window::new(3, 1);
            for round in 0..20 {
                // Other orders in other rounds, so that what rounding has lost does not come back by itself.
                let order = [0, 1, 2].map(|place| weights[(place * (1 + round % 2) + round) % 3]);
                let sums = order.map(|weight| window.push(Worker(0), weight));
                let sum = order.iter().fold(0.0, |sum, weight| sum + weight);
                assert_eq!(sums[2], (sum, sum), "round {round} of {weights:?}");
            }
        }
    }

    #[test]
    fn what_a_large_weight_hid_comes_back() {
        let mut window = Window::new(3, 2);
        let sums = [1e20, 1.0, 2.0, 4.0, 8.0, 16.0].map(|weight| window.push(Worker(1), weight));
        assert_eq!(sums[3], (0.0, 0.0), "7 in truth");
        assert_eq!(sums[5], (28.0, 28.0));
        let mut wide = Window::new(3, 5);
        let sums = [1e20, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0].map(|weight| wide.push(Worker(1), weight));
        assert_eq!(sums[3..], [(0.0, 0.0), (7.0, 7.0), (28.0, 28.0), (56.0, 56.0)]);
        let mut again = Window::new(3, 5);
        again.restore(wide.clone()).unwrap();
        assert_eq!(again.push(Worker(1), 1.0), wide.push(Worker(1), 1.0));
    }
}

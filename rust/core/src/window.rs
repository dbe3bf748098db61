//! What each worker has been sent by the last messages: a sliding window over them.

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// The workers and weights of the last messages, and their sums.
#[derive(Debug)]
pub(crate) struct Window {
    size: usize,
    /// A ring once it is full: the oldest message stands at `next`.
    workers: Vec<u32>,
    weights: Vec<f64>,
    next: usize,
    loads: Vec<f64>,
    all: f64,
}

/// What [`Window::restore`] needs.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct SavedWindow {
    workers: Vec<u32>,
    weights: Vec<f64>,
    next: usize,
    loads: Vec<f64>,
    all: f64,
}

impl Window {
    /// An empty window of `size` messages; memory is taken as they arrive.
    pub(crate) fn new(size: usize, workers: u32) -> Self {
        let loads = vec![0.0; workers as usize];
        Self { size, workers: Vec::new(), weights: Vec::new(), next: 0, loads, all: 0.0 }
    }

    /// A message enters and the oldest one leaves; the sums of its worker and of all workers after that.
    #[inline(always)]
    pub(crate) fn push(&mut self, worker: u32, weight: f64) -> (f64, f64) {
        self.loads[worker as usize] += weight;
        self.all += weight;
        if self.workers.len() < self.size {
            self.workers.push(worker);
            self.weights.push(weight);
        } else {
            let left = std::mem::replace(&mut self.workers[self.next], worker);
            let less = std::mem::replace(&mut self.weights[self.next], weight);
            lower(&mut self.loads[left as usize], less);
            lower(&mut self.all, less);
        }
        self.next = if self.next + 1 == self.size { 0 } else { self.next + 1 };
        (self.loads[worker as usize], self.all)
    }

    pub(crate) fn save(&self) -> SavedWindow {
        SavedWindow {
            workers: self.workers.clone(),
            weights: self.weights.clone(),
            next: self.next,
            loads: self.loads.clone(),
            all: self.all,
        }
    }

    pub(crate) fn restore(&mut self, saved: SavedWindow) -> Result<()> {
        let SavedWindow { workers, weights, next, loads, all } = saved;
        let messages = workers.len();
        let sums = |values: &[f64]| values.iter().all(|&value| value >= 0.0);
        if weights.len() != messages
            || messages > self.size
            || next >= self.size
            || (messages < self.size && next != messages)
            || loads.len() != self.loads.len()
            || workers.iter().any(|&worker| worker as usize >= loads.len())
            || !(sums(&weights) && sums(&loads) && sums(&[all]))
        {
            return Err(Error::value("snapshot is damaged: its window does not fit its parameters"));
        }
        *self = Self { size: self.size, workers, weights, next, loads, all };
        Ok(())
    }
}

/// Rounding does not take a sum below zero.
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
            .map(|(worker, weight)| window.push(worker, weight))
            .into();
        assert_eq!(sums, [(1.0, 1.0), (2.0, 3.0), (5.0, 7.0), (10.0, 14.0), (24.0, 28.0)]);

        let mut again = Window::new(3, 2);
        again.restore(window.save()).unwrap();
        assert_eq!(again.push(0, 0.5), window.push(0, 0.5));
        assert!(Window::new(2, 2).restore(window.save()).is_err());
        assert!(Window::new(3, 1).restore(window.save()).is_err());
    }

    #[test]
    fn sums_do_not_fall_below_zero() {
        let mut window = Window::new(1, 1);
        window.push(0, 0.1);
        window.push(0, 1e17);
        assert_eq!(window.push(0, 0.3), (0.0, 0.0));
    }
}

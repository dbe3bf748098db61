//! What one source has sent to each worker, and the least loaded of them.

use serde::{Deserialize, Serialize};

use crate::amount::{Scale, batch_sum};
use crate::error::{Error, Result};
use crate::state::minimum::{Minimum, Rising, first_minimum};
use crate::types::{Amount, Worker};

/// The local load vector of a source.
#[derive(Debug, Clone)]
pub(crate) struct Loads {
    scale: Scale,
    total: Amount,
    amounts: Vec<u64>,
    least: Minimum,
}

/// What [`Loads::restore`] needs.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct SavedLoads(Scale, u64, Vec<u64>);

impl Loads {
    pub(crate) fn new(workers: u32) -> Self {
        Self { scale: Scale::Whole, total: Amount(0), amounts: vec![0; workers as usize], least: Minimum::default() }
    }

    pub(crate) fn save(&self) -> SavedLoads {
        SavedLoads(self.scale, self.total.0, self.amounts.clone())
    }

    /// Restores saved loads of this many workers.
    pub(crate) fn restore(&mut self, SavedLoads(scale, total, amounts): SavedLoads) -> Result<()> {
        if amounts.len() != self.amounts.len() || !scale.holds(&amounts) || !scale.holds(&[total]) {
            return Err(Error::damaged("its loads do not fit its workers"));
        }
        *self = Self { scale, total: Amount(total), amounts, least: Minimum::default() };
        Ok(())
    }

    /// Makes room for more workers, with load 0.
    pub(crate) fn widen(&mut self, workers: usize) {
        self.amounts.resize(workers.max(self.amounts.len()), 0);
        self.least.forget();
    }

    /// The loads as numbers.
    pub(crate) fn numbers(&self) -> Vec<f64> {
        self.scale.numbers(&self.amounts)
    }

    /// Prepares for a batch; later additions are of the returned scale.
    pub(crate) fn expect(&mut self, messages: usize, weights: Option<&[f64]>) -> Scale {
        if weights.is_some() {
            self.least.expect_uneven_steps();
        }
        if self.scale == Scale::Whole && self.scale.with_batch(self.total, messages, weights) == Scale::Fractional {
            self.scale.into_fractional(&mut self.amounts);
            self.total = Scale::Fractional.amount(self.scale.number(self.total));
            self.scale = Scale::Fractional;
            self.least.forget();
        }
        self.total = self.scale.sum(self.total, self.scale.amount(batch_sum(messages, weights)));
        self.scale
    }

    #[inline(always)]
    pub(crate) fn of(&self, worker: Worker) -> Amount {
        Amount(self.amounts[worker.index()])
    }

    /// Sends a message to the less loaded of two workers, the first among equals.
    #[inline(always)]
    pub(crate) fn add_to_lesser(&mut self, scale: Scale, first: Worker, second: Worker, weight: Amount) -> Worker {
        let lesser = self.of(first).min(self.of(second));
        let worker = Pairs(&mut self.amounts).add_to_lesser(scale, first, second, weight);
        self.least.grown(&self.amounts, worker.index(), scale.sum(lesser, weight).0);
        worker
    }

    /// The loads for a loop over messages of weight 1 that count as whole numbers, unless there were other weights before.
    #[inline(always)]
    pub(crate) fn rising(&mut self, run: impl FnOnce(&mut Rising)) -> bool {
        self.least.rising(&mut self.amounts, run)
    }

    /// The loads for a loop that never needs the least loaded of all.
    pub(crate) fn pairs(&mut self) -> Pairs<'_> {
        Pairs(&mut self.amounts)
    }

    #[inline(always)]
    pub(crate) fn add(&mut self, scale: Scale, worker: Worker, weight: Amount) {
        let load = scale.sum(self.of(worker), weight).0;
        self.amounts[worker.index()] = load;
        self.least.grown(&self.amounts, worker.index(), load);
    }

    /// Sends a message to the least loaded of all workers, the lowest-numbered among equals.
    #[inline(always)]
    pub(crate) fn add_to_least(&mut self, scale: Scale, weight: Amount) -> Worker {
        let add = |load| scale.sum(Amount(load), weight).0;
        Worker(self.least.grow_first(&mut self.amounts, add) as u32)
    }

    /// Least loaded of the candidates, the first among equals.
    #[inline(always)]
    pub(crate) fn least_of(&self, candidates: impl IntoIterator<Item = Worker>) -> Worker {
        let (mut best, mut least) = (Worker(0), Amount(u64::MAX));
        for worker in candidates {
            let load = self.of(worker);
            if load < least {
                (best, least) = (worker, load);
            }
        }
        best
    }

    /// Least loaded of so many workers in a row from one on, the lowest-numbered after the highest; the first among equals.
    #[inline(always)]
    pub(crate) fn least_in_row(&self, first: Worker, width: u32) -> Worker {
        let (workers, first) = (self.amounts.len(), first.index());
        let end = first + width as usize;
        let (ahead, least_ahead) = first_minimum(&self.amounts[first..end.min(workers)]);
        let (around, least_around) = first_minimum(&self.amounts[..end.saturating_sub(workers)]);
        Worker(if least_ahead <= least_around { first + ahead } else { around } as u32)
    }

    /// The smallest load of all workers, if it is known without a search among them.
    #[inline(always)]
    pub(crate) fn floor(&mut self) -> Option<u64> {
        self.least.floor(&self.amounts)
    }

    /// Least loaded of all workers, the lowest-numbered among equals.
    #[inline(always)]
    pub(crate) fn least_of_all(&mut self) -> Worker {
        Worker(self.least.first_smallest(&self.amounts) as u32)
    }
}

/// Loads in a loop over messages whose workers are never the least loaded of all.
pub(crate) struct Pairs<'a>(&'a mut [u64]);

impl Pairs<'_> {
    /// Sends a message to the less loaded of two workers, the first among equals.
    ///
    /// Both loads are stored, one of them unchanged: the addresses then do not wait for the comparison, which removes the
    /// longest dependency chain of Greedy-2. The choice uses masks, because a branch would be mispredicted every other time.
    #[inline(always)]
    pub(crate) fn add_to_lesser(&mut self, scale: Scale, first: Worker, second: Worker, weight: Amount) -> Worker {
        let (one, two) = (self.0[first.index()], self.0[second.index()]);
        let second_is_less = 0u64.wrapping_sub(u64::from(two < one));
        self.0[second.index()] = scale.sum(Amount(two), Amount(weight.0 & second_is_less)).0;
        self.0[first.index()] = scale.sum(Amount(one), Amount(weight.0 & !second_is_less)).0;
        Worker(first.0 ^ ((first.0 ^ second.0) & second_is_less as u32))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::KeyHasher;

    #[test]
    fn the_least_loaded_in_a_row_is_the_first_of_its_workers_in_order() {
        let draws = KeyHasher::new(0);
        for workers in [1, 2, 7, 64, 65, 200] {
            let mut loads = Loads::new(workers);
            for round in 0..500 {
                let draw = |number: i64| draws.whole(4 * round + number) as u32 % workers;
                loads.add(Scale::Whole, Worker(draw(0)), Amount(1));
                let (first, width) = (draw(1), 1 + draw(2));
                let row = (first..first + width).map(|worker| Worker(worker % workers));
                let found = loads.least_in_row(Worker(first), width);
                assert_eq!(found, loads.least_of(row), "{width} of {workers} from {first} on");
            }
        }
    }
}

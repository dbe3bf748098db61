//! What one source has sent to each worker, and the least loaded of them.

use std::hint::select_unpredictable;

use serde::{Deserialize, Serialize};

use crate::amount::{Scale, batch_sum};
use crate::batch::BLOCK;
use crate::error::{Error, Result};
use crate::state::minimum::{Minimum, Rising};
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
        let worker = Unranked(&mut self.amounts).add_to_lesser(scale, first, second, weight);
        self.least.grown(&self.amounts, worker.index(), scale.sum(lesser, weight).0);
        worker
    }

    /// The loads for a loop over messages of weight 1 that count as whole numbers, unless there were other weights before.
    #[inline(always)]
    pub(crate) fn rising(&mut self, run: impl FnOnce(&mut Rising)) -> bool {
        self.least.rising(&mut self.amounts, run)
    }

    /// The loads for a loop that keeps no track of the least loaded of all.
    pub(crate) fn unranked(&mut self) -> Unranked<'_> {
        Unranked(&mut self.amounts)
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

    /// A worker of the row that starts with `first`: the highest-numbered worker is followed by the lowest.
    #[inline(always)]
    pub(crate) fn nth(&self, first: Worker, index: u32) -> Worker {
        let (workers, worker) = (self.amounts.len() as u32, first.0 + index);
        Worker(if worker < workers { worker } else { worker - workers })
    }

    /// So many workers of the row that starts with `first`.
    #[inline(always)]
    pub(crate) fn row(&self, first: Worker, width: u32) -> impl Iterator<Item = Worker> {
        (0..width).map(move |index| self.nth(first, index))
    }

    /// The loads of so many workers of the row that starts with `first`, in two parts.
    #[inline(always)]
    pub(crate) fn in_row(&self, first: Worker, width: u32) -> [&[u64]; 2] {
        let (workers, end) = (self.amounts.len(), first.index() + width as usize);
        [&self.amounts[first.index()..end.min(workers)], &self.amounts[..end.saturating_sub(workers)]]
    }

    /// Whether at least two loads of a row are below a limit.
    #[inline(always)]
    pub(crate) fn two_below(&self, first: Worker, width: u32, limit: Amount) -> bool {
        let mut found = 0;
        self.in_row(first, width).into_iter().flat_map(|loads| loads.chunks(BELOW)).any(|loads| {
            found += loads.iter().map(|&load| u64::from(load < limit.0)).sum::<u64>();
            found >= 2
        })
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

/// So many loads are compared before it is asked whether enough are below a limit.
const BELOW: usize = 64;

/// Loads in a loop that keeps no track of the least loaded of all.
pub(crate) struct Unranked<'a>(&'a mut [u64]);

impl Unranked<'_> {
    /// The same loads: a loop that has them for itself keeps their address in a register.
    #[inline(always)]
    pub(crate) fn again(&mut self) -> Unranked<'_> {
        Unranked(self.0)
    }

    #[inline(always)]
    pub(crate) fn of(&self, worker: Worker) -> Amount {
        Amount(self.0[worker.index()])
    }

    #[inline(always)]
    pub(crate) fn add(&mut self, scale: Scale, worker: Worker, weight: Amount) {
        self.0[worker.index()] = scale.sum(self.of(worker), weight).0;
    }

    /// The least loaded of all workers, the lowest-numbered among equals, by a look at each.
    #[cold]
    pub(crate) fn least(&self) -> Worker {
        let least = (0..self.0.len()).min_by_key(|&worker| self.0[worker]);
        Worker(least.unwrap_or(0) as u32)
    }

    /// Sends messages, of weight 1 if no weights are given, to the less loaded of their two workers, the first among equals;
    /// writes the worker of each.
    #[inline(always)]
    pub(crate) fn add_all_to_lesser(
        &mut self,
        scale: Scale,
        [firsts, seconds]: [&[u32; BLOCK]; 2],
        weights: Option<&[f64]>,
        workers: &mut [u32],
    ) {
        let mut loads = self.again();
        for (row, ((worker, &first), &second)) in workers.iter_mut().zip(firsts).zip(seconds).enumerate() {
            let weight = scale.amount(weights.map_or(1.0, |weights| weights[row]));
            *worker = loads.add_to_lesser(scale, Worker(first), Worker(second), weight).0;
        }
    }

    /// As [`Unranked::add_all_to_lesser`], where each message has a worker of every list.
    #[inline(always)]
    pub(crate) fn add_all_to_least(
        &mut self,
        scale: Scale,
        lists: &[[u32; BLOCK]],
        weights: Option<&[f64]>,
        workers: &mut [u32],
    ) {
        match lists {
            [first, second] => self.add_all_to_lesser(scale, [first, second], weights, workers),
            [first, second, third] => self.add_all_to_one(scale, [first, second, third], weights, workers),
            [first, second, third, fourth] => {
                self.add_all_to_one(scale, [first, second, third, fourth], weights, workers)
            }
            lists => {
                let loads = &mut *self.0;
                for (row, worker) in workers.iter_mut().enumerate() {
                    let (mut best, mut least) = (0, u64::MAX);
                    for list in lists {
                        let load = loads[list[row] as usize];
                        let is_less = load < least;
                        best = select_unpredictable(is_less, list[row], best);
                        least = select_unpredictable(is_less, load, least);
                    }
                    let weight = scale.amount(weights.map_or(1.0, |weights| weights[row]));
                    loads[best as usize] = scale.sum(Amount(least), weight).0;
                    *worker = best;
                }
            }
        }
    }

    /// [`Unranked::add_all_to_least`] of few lists: all loads are stored, as by [`Unranked::add_to_lesser`]. The first is stored
    /// last, since a worker that is in a list again has its old load there.
    #[inline(always)]
    fn add_all_to_one<const LISTS: usize>(
        &mut self,
        scale: Scale,
        lists: [&[u32; BLOCK]; LISTS],
        weights: Option<&[f64]>,
        workers: &mut [u32],
    ) {
        let loads = &mut *self.0;
        for (row, worker) in workers.iter_mut().enumerate() {
            let all = lists.map(|list| loads[list[row] as usize]);
            let (mut best, mut least) = (0, all[0]);
            for (list, &load) in all.iter().enumerate().skip(1) {
                let is_less = load < least;
                best = select_unpredictable(is_less, list, best);
                least = select_unpredictable(is_less, load, least);
            }
            let weight = scale.amount(weights.map_or(1.0, |weights| weights[row]));
            for (list, &load) in all.iter().enumerate().rev() {
                let is_best = 0u64.wrapping_sub(u64::from(list == best));
                loads[lists[list][row] as usize] = scale.sum(Amount(load), Amount(weight.0 & is_best)).0;
            }
            *worker = lists[best][row];
        }
    }

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
    fn two_loads_below_a_limit_are_found_wherever_they_are_in_a_row() {
        let draws = KeyHasher::new(0);
        for workers in [1, 2, 7, 64, 65, 200] {
            let mut loads = Loads::new(workers);
            for round in 0..500 {
                let draw = |number: i64| draws.whole(4 * round + number) as u32 % workers;
                loads.add(Scale::Whole, Worker(draw(0)), Amount(1));
                let (first, width, limit) = (Worker(draw(1)), 1 + draw(2), Amount(draw(3).into()));
                let below = loads.row(first, width).filter(|&worker| loads.of(worker) < limit).count();
                assert_eq!(loads.two_below(first, width, limit), below >= 2, "{width} of {workers} from {first:?} on");
            }
        }
    }

    #[test]
    fn messages_of_a_block_go_where_they_go_one_by_one() {
        let draws = KeyHasher::new(0);
        for (workers, lists) in [(1, 3), (2, 2), (3, 3), (5, 4), (9, 4), (5, 5), (9, 8)] {
            let (mut loads, mut one_by_one) = (Loads::new(workers), Loads::new(workers));
            for round in 0..200 {
                let draw = |number: usize| draws.whole(round * 1_000 + number as i64);
                let weights: Vec<f64> = (0..BLOCK).map(|row| (draw(row) % 3) as f64).collect();
                let weights = (round % 2 == 1).then_some(&weights[..]);
                let candidate = |list: usize, row: usize| draw(BLOCK * (1 + list) + row) as u32 % workers;
                let drawn: Vec<[u32; BLOCK]> =
                    (0..lists).map(|list| std::array::from_fn(|row| candidate(list, row))).collect();
                let mut chosen = [0; BLOCK];
                loads.unranked().add_all_to_least(Scale::Whole, &drawn, weights, &mut chosen);
                for (row, chosen) in chosen.into_iter().enumerate() {
                    let best = one_by_one.least_of(drawn.iter().map(|list| Worker(list[row])));
                    assert_eq!(Worker(chosen), best, "message {row} of round {round}, {lists} of {workers}");
                    let weight = Scale::Whole.amount(weights.map_or(1.0, |weights| weights[row]));
                    one_by_one.add(Scale::Whole, best, weight);
                }
                assert_eq!(loads.amounts, one_by_one.amounts);
            }
        }
    }
}

//! What one source has sent to each worker, and the least loaded of them.

use serde::{Deserialize, Serialize};

use crate::amount::{Scale, batch_sum};
use crate::error::{Error, Result};
use crate::state::minimum::Minimum;

/// The local load vector of a source.
#[derive(Debug, Clone)]
pub(crate) struct Loads {
    scale: Scale,
    total: u64,
    amounts: Vec<u64>,
    least: Minimum,
}

/// What [`Loads::restore`] needs.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct SavedLoads(Scale, u64, Vec<u64>);

impl Loads {
    pub(crate) fn new(workers: u32) -> Self {
        Self { scale: Scale::Whole, total: 0, amounts: vec![0; workers as usize], least: Minimum::default() }
    }

    pub(crate) fn save(&self) -> SavedLoads {
        SavedLoads(self.scale, self.total, self.amounts.clone())
    }

    /// Continues from saved loads of as many workers.
    pub(crate) fn restore(&mut self, SavedLoads(scale, total, amounts): SavedLoads) -> Result<()> {
        if amounts.len() != self.amounts.len() || !scale.holds(&amounts) || !scale.holds(&[total]) {
            return Err(Error::value("snapshot is damaged: its loads do not fit its workers"));
        }
        *self = Self { scale, total, amounts, least: Minimum::default() };
        Ok(())
    }

    /// Makes room for more workers, who have been sent nothing.
    pub(crate) fn widen(&mut self, workers: usize) {
        self.amounts.resize(workers.max(self.amounts.len()), 0);
        self.least.forget();
    }

    /// The loads as numbers.
    pub(crate) fn numbers(&self) -> Vec<f64> {
        self.scale.numbers(&self.amounts)
    }

    /// Prepares for a batch; what is added from here on is of the scale that it returns.
    pub(crate) fn expect(&mut self, messages: usize, weights: Option<&[f64]>) -> Scale {
        if weights.is_some() {
            self.least.expect_uneven_steps();
        }
        if self.scale == Scale::Whole && self.scale.with_batch(self.total, messages, weights) == Scale::Fractional {
            self.scale.into_fractional(&mut self.amounts);
            self.scale.into_fractional(std::slice::from_mut(&mut self.total));
            self.scale = Scale::Fractional;
            self.least.forget();
        }
        self.total = self.scale.sum(self.total, self.scale.amount(batch_sum(messages, weights)));
        self.scale
    }

    #[inline(always)]
    pub(crate) fn of(&self, worker: u32) -> u64 {
        self.amounts[worker as usize]
    }

    /// Sends a message to the less loaded of two workers, the first if they are level.
    #[inline(always)]
    pub(crate) fn add_to_lesser(&mut self, scale: Scale, first: u32, second: u32, weight: u64) -> u32 {
        let worker = Pairs(&mut self.amounts).add_to_lesser(scale, first, second, weight);
        self.least.grown(&self.amounts, worker as usize);
        worker
    }

    /// The loads for a loop that never asks for the least loaded of all.
    pub(crate) fn pairs(&mut self) -> Pairs<'_> {
        Pairs(&mut self.amounts)
    }

    #[inline(always)]
    pub(crate) fn add(&mut self, scale: Scale, worker: u32, weight: u64) {
        let load = &mut self.amounts[worker as usize];
        *load = scale.sum(*load, weight);
        self.least.grown(&self.amounts, worker as usize);
    }

    /// Least loaded of the candidates, the first among equals.
    #[inline(always)]
    pub(crate) fn least_of(&self, candidates: impl IntoIterator<Item = u32>) -> u32 {
        let (mut best, mut least) = (0, u64::MAX);
        for worker in candidates {
            let load = self.of(worker);
            if load < least {
                (best, least) = (worker, load);
            }
        }
        best
    }

    /// Least loaded of all workers, the lowest-numbered among equals.
    #[inline(always)]
    pub(crate) fn least_of_all(&mut self) -> u32 {
        self.least.first_smallest(&self.amounts) as u32
    }
}

/// Loads in a loop over pairs of candidates.
pub(crate) struct Pairs<'a>(&'a mut [u64]);

impl Pairs<'_> {
    /// Sends a message to the less loaded of two workers, the first if they are level.
    ///
    /// Both loads are stored, one of them unchanged: the addresses do not wait for the comparison then, which
    /// takes the longest chain out of Greedy-2. The choice is made by masks, because a branch would be guessed wrongly
    /// every other time.
    #[inline(always)]
    pub(crate) fn add_to_lesser(&mut self, scale: Scale, first: u32, second: u32, weight: u64) -> u32 {
        let (one, two) = (self.0[first as usize], self.0[second as usize]);
        let second_is_less = 0u64.wrapping_sub(u64::from(two < one));
        self.0[second as usize] = scale.sum(two, weight & second_is_less);
        self.0[first as usize] = scale.sum(one, weight & !second_is_less);
        first ^ ((first ^ second) & second_is_less as u32)
    }
}

//! The capacity of each of several equal bins.
//!
//! Mirrokni et al. (Consistent hashing with bounded loads, SODA 2018); CG paper (arXiv 1705.09073), sections 4.2 and
//! 5.1: no bin takes a message once it holds 1 + epsilon times its fair share of all that was sent, rounded up.

use crate::amount::Scale;
use crate::error::{Error, Result};
use crate::types::Amount;

/// The capacity of each bin, which grows with the messages sent.
#[derive(Debug, Clone)]
pub(in crate::groupings) struct Capacity {
    /// 1 + epsilon.
    slack: f64,
    bins: f64,
    /// The sum of the weights of all messages.
    sent: f64,
    /// The capacity for every sum up to `until`, as an amount of the scale.
    level: Amount,
    until: f64,
    scale: Scale,
}

impl Capacity {
    pub(in crate::groupings) fn new(epsilon: f64, bins: u32) -> Self {
        Self::of(1.0 + epsilon, bins)
    }

    fn of(slack: f64, bins: u32) -> Self {
        Self { slack, bins: bins.into(), sent: 0.0, level: Amount(0), until: -1.0, scale: Scale::Whole }
    }

    /// Starts afresh with another number of bins.
    pub(in crate::groupings) fn restart(&mut self, bins: u32) {
        *self = Self::of(self.slack, bins);
    }

    /// Prepares for a batch whose weights are amounts of this scale.
    pub(in crate::groupings) fn expect(&mut self, scale: Scale) {
        if self.scale != scale {
            (self.scale, self.until) = (scale, -1.0);
        }
    }

    /// The capacity for the next message, as an amount.
    #[inline(always)]
    pub(in crate::groupings) fn next(&mut self, scale: Scale, weight: Amount) -> Amount {
        self.sent += scale.number(weight);
        if self.sent > self.until {
            self.change(scale);
        }
        self.level
    }

    /// The capacity for the next of at most so many messages of equal weight, and for how many of them it is known: one at least.
    #[inline(always)]
    pub(in crate::groupings) fn run(&mut self, scale: Scale, weight: Amount, most: usize) -> (Amount, usize) {
        let level = self.next(scale, weight);
        if scale == Scale::Fractional || weight.0 != 1 {
            return (level, 1);
        }
        // Whole numbers are added exactly, in whatever order.
        let others = ((self.until - self.sent) as usize).min(most - 1);
        self.sent += others as f64;
        (level, 1 + others)
    }

    #[cold]
    fn change(&mut self, scale: Scale) {
        let level = self.solve(self.sent);
        // The capacity never falls as the sum grows: all sums between two with the same capacity have it too.
        let last = level * self.bins / self.slack;
        let until = if self.solve(last) == level { last } else { self.sent };
        (self.level, self.until) = (scale.amount(level), until.max(self.sent));
    }

    fn solve(&self, sum: f64) -> f64 {
        ((self.slack * sum) / self.bins).ceil().max(1.0)
    }

    pub(in crate::groupings) fn save(&self) -> f64 {
        self.sent
    }

    pub(in crate::groupings) fn restore(&mut self, sent: f64) -> Result<()> {
        if sent.is_nan() || sent < 0.0 {
            return Err(Error::damaged("its capacity cannot be computed"));
        }
        (self.sent, self.until) = (sent, -1.0);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::KeyHasher;

    fn check(epsilon: f64, bins: u32, scale: Scale, weight: impl Fn(u64) -> f64) {
        let mut capacity = Capacity::of(1.0 + epsilon, bins);
        capacity.expect(scale);
        let mut sent = 0.0;
        for message in 0..5000 {
            let weight = weight(message);
            let expected = f64::max(1.0, (((1.0 + epsilon) * (sent + weight)) / f64::from(bins)).ceil());
            assert_eq!(scale.number(capacity.next(scale, scale.amount(weight))), expected, "message {message}");
            sent += weight;
        }
    }

    #[test]
    fn the_capacity_is_that_of_the_formula() {
        let draws = KeyHasher::new(0);
        for epsilon in [1e-300, 1e-16, 0.01, 0.1, 1.0 / 3.0, 1.0, 7.0, 1000.0] {
            for bins in [1, 2, 3, 10, 49, 100, 1000, 1 << 26] {
                check(epsilon, bins, Scale::Whole, |_| 1.0);
                check(epsilon, bins, Scale::Whole, |message| (draws.whole(message as i64) % 5) as f64);
                check(epsilon, bins, Scale::Fractional, |message| (draws.whole(message as i64) % 5000) as f64 / 1000.0);
                check(epsilon, bins, Scale::Fractional, |message| (message % 2) as f64 * 1e308);
            }
        }
    }

    #[test]
    fn messages_of_a_run_have_the_capacities_of_one_after_the_other() {
        let draws = KeyHasher::new(0);
        for (sent, bins) in [(0.0, 1), (0.0, 3), (0.0, 100), (2f64.powi(52) - 1e3, 3), (1e15, 7)] {
            let (mut runs, mut singly) = (Capacity::of(1.01, bins), Capacity::of(1.01, bins));
            runs.restore(sent).unwrap();
            singly.restore(sent).unwrap();
            for message in 0..1000 {
                let weight = if message < 500 { 1 } else { draws.whole(message) % 3 };
                let most = 1 + draws.whole(-1 - message) as usize % 64;
                let (capacity, run) = runs.run(Scale::Whole, Amount(weight), most);
                assert!((1..=most).contains(&run));
                for _ in 0..run {
                    assert_eq!(singly.next(Scale::Whole, Amount(weight)), capacity, "message {message}, {bins} bins");
                }
                assert_eq!(runs.sent, singly.sent);
            }
        }
    }

    #[test]
    fn a_large_sum_has_its_capacity() {
        for (sent, bins) in [(2f64.powi(52) - 1e3, 3), (2f64.powi(52) - 1e3, 100), (1e15, 7)] {
            let mut capacity = Capacity::of(1.01, bins);
            capacity.restore(sent).unwrap();
            for message in 1..2000 {
                let expected = ((1.01 * (sent + f64::from(message))) / f64::from(bins)).ceil();
                assert_eq!(capacity.next(Scale::Whole, Amount(1)), Amount(expected as u64));
            }
        }
    }
}

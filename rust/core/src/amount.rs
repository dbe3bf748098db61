//! Sums of weights, stored as 64 bits that compare like the numbers they encode.
//!
//! A sum is an integer as long as all weights are whole numbers and their sum stays below 2^53; before the first batch
//! that breaks this, all sums become doubles. Doubles are exact up to 2^53, so it does not matter where a stream is
//! cut. The bits of non-negative doubles sort like the numbers. Code that only compares (least loaded worker, smallest
//! counter) therefore works on the bits and never asks which encoding they are. Integers are worth it: adding doubles
//! makes Greedy-2 several times slower.

use serde::{Deserialize, Serialize};

use crate::types::Amount;

/// How the bits of an amount encode a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) enum Scale {
    /// An integer.
    #[default]
    Whole,
    /// A non-negative double.
    Fractional,
}

/// Every whole number below this is exact as a double. A sum of doubles that should exceed it is not rounded below it.
const EXACT_BELOW: f64 = (1u64 << 53) as f64;

impl Scale {
    /// The scale for sums of `total` so far and of a batch of messages, of weight 1 if no weights are given.
    pub(crate) fn with_batch(self, total: Amount, messages: usize, weights: Option<&[f64]>) -> Self {
        let whole = match weights {
            None => true,
            Some(weights) => weights.iter().all(|weight| weight.fract() == 0.0),
        };
        if whole { self.with_sum(total, batch_sum(messages, weights)) } else { Self::Fractional }
    }

    /// The scale for sums of `total` so far and of a number.
    pub(crate) fn with_sum(self, total: Amount, number: f64) -> Self {
        if self.number(total) + number < EXACT_BELOW { self } else { Self::Fractional }
    }

    /// The bits of a number.
    #[inline(always)]
    pub(crate) fn amount(self, number: f64) -> Amount {
        Amount(match self {
            Self::Whole => number as u64,
            // Adding zero turns -0.0, whose bits would sort last, into 0.0.
            Self::Fractional => (number + 0.0).to_bits(),
        })
    }

    /// The smallest amount that is not below a number of at least 0.
    #[inline(always)]
    pub(crate) fn amount_from(self, number: f64) -> Amount {
        match self {
            Self::Whole => self.amount(number.ceil()),
            Self::Fractional => self.amount(number),
        }
    }

    /// The number that the bits encode.
    #[inline(always)]
    pub(crate) fn number(self, amount: Amount) -> f64 {
        match self {
            Self::Whole => amount.0 as f64,
            Self::Fractional => f64::from_bits(amount.0),
        }
    }

    /// The sum of two amounts.
    #[inline(always)]
    pub(crate) fn sum(self, Amount(one): Amount, Amount(other): Amount) -> Amount {
        Amount(match self {
            Self::Whole => one + other,
            Self::Fractional => (f64::from_bits(one) + f64::from_bits(other)).to_bits(),
        })
    }

    /// Turns amounts of this scale into doubles.
    pub(crate) fn into_fractional(self, amounts: &mut [u64]) {
        for amount in amounts {
            *amount = Self::Fractional.amount(self.number(Amount(*amount))).0;
        }
    }

    /// The numbers that the amounts encode.
    pub(crate) fn numbers(self, amounts: &[u64]) -> Vec<f64> {
        amounts.iter().map(|&amount| self.number(Amount(amount))).collect()
    }

    /// Whether every amount is a number that a sum of weights can reach.
    pub(crate) fn holds(self, amounts: &[u64]) -> bool {
        match self {
            Self::Whole => amounts.iter().all(|&amount| amount < EXACT_BELOW as u64),
            Self::Fractional => amounts.iter().all(|&bits| f64::from_bits(bits) >= 0.0 && bits >> 63 == 0),
        }
    }
}

/// The sum of a batch of messages, of weight 1 if no weights are given.
pub(crate) fn batch_sum(messages: usize, weights: Option<&[f64]>) -> f64 {
    weights.map_or(messages as f64, |weights| weights.iter().sum())
}

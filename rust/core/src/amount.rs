//! Sums of weights as 64 bits that compare like the numbers they stand for.
//!
//! As long as all weights are whole numbers a sum is an integer; the first weight with a fraction turns all sums into
//! doubles. Bits of doubles that are not negative are in the order of the numbers, so whatever only compares (the least
//! loaded worker, the smallest counter) works on the bits and never asks which of the two they are. Integers are worth
//! it: adding doubles makes Greedy-2 several times slower.

use serde::{Deserialize, Serialize};

/// What the bits of an amount mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) enum Scale {
    /// An integer.
    #[default]
    Whole,
    /// A double that is not negative.
    Fractional,
}

/// The largest weight that keeps sums whole: 2^23 of them still fit.
const LARGEST_WHOLE: f64 = (1u64 << 40) as f64;

impl Scale {
    /// The scale that holds all of these weights.
    pub(crate) fn fit(weights: &[f64]) -> Self {
        let whole = |&weight: &f64| weight.fract() == 0.0 && weight <= LARGEST_WHOLE;
        if weights.iter().all(whole) { Self::Whole } else { Self::Fractional }
    }

    /// The bits of a number.
    #[inline(always)]
    pub(crate) fn amount(self, number: f64) -> u64 {
        match self {
            Self::Whole => number as u64,
            // Adding zero turns -0.0, whose bits would be the largest of all, into 0.0.
            Self::Fractional => (number + 0.0).to_bits(),
        }
    }

    /// The number that bits stand for.
    #[inline(always)]
    pub(crate) fn number(self, amount: u64) -> f64 {
        match self {
            Self::Whole => amount as f64,
            Self::Fractional => f64::from_bits(amount),
        }
    }

    /// The sum of two amounts.
    #[inline(always)]
    pub(crate) fn sum(self, one: u64, other: u64) -> u64 {
        match self {
            Self::Whole => one + other,
            Self::Fractional => (f64::from_bits(one) + f64::from_bits(other)).to_bits(),
        }
    }

    /// Turns amounts of this scale into doubles.
    pub(crate) fn into_fractional(self, amounts: &mut [u64]) {
        for amount in amounts {
            *amount = Self::Fractional.amount(self.number(*amount));
        }
    }

    /// The numbers that amounts stand for.
    pub(crate) fn numbers(self, amounts: &[u64]) -> Vec<f64> {
        amounts.iter().map(|&amount| self.number(amount)).collect()
    }

    /// Whether every amount is a number that sums of weights can reach.
    pub(crate) fn holds(self, amounts: &[u64]) -> bool {
        self == Self::Whole || amounts.iter().all(|&bits| f64::from_bits(bits).is_finite() && bits >> 63 == 0)
    }
}

//! How many candidates the head needs: FINDOPTIMALCHOICES of the ICDE 2016 paper, section IV-A.

use std::ops::Range;

use crate::hash::vectorised;

/// The smallest d with which no set of frequent keys can overload its candidate workers, by Inequality (3); `workers`
/// if no smaller d works.
///
/// `head_counts` are the counts of the frequent keys in descending order, `total` that of all messages. Powers are
/// computed by squaring in a fixed order, so every machine finds the same d.
///
/// ```
/// use keysplit_core::groupings::solve_choices;
///
/// // One key with a third of the messages on 10 workers: four would do if no two of its candidates coincided.
/// assert_eq!(solve_choices(&[100.0], 300.0, 10, 1e-4), 7);
/// ```
pub fn solve_choices(head_counts: &[f64], total: f64, workers: u32, tolerance: f64) -> u32 {
    let Some(first) = head_counts.first() else { return workers.min(2) };
    let n = f64::from(workers);
    let inequality = Inequality::new(head_counts, total, n, tolerance);
    // The prefix that refused one d usually refuses the next one too: it is checked first.
    let mut strict = 0;
    let mut choices = ((first * n) / total).ceil().max(2.0);
    while choices < n {
        let d = choices as u64;
        let refusing = inequality.first_refused(strict..strict + 1, d);
        match refusing.or_else(|| inequality.first_refused(0..inequality.undecided(d), d)) {
            None => return d as u32,
            Some(refusing) => strict = refusing,
        }
        choices += 1.0;
    }
    workers
}

/// Inequality (3) for one stream: the load of the first h head keys on their candidate workers, against what these
/// workers may take.
struct Inequality {
    /// By prefix of the head: the share of its keys.
    prefixes: Vec<f64>,
    /// Whether all prefixes are shares, at most 1 but for rounding.
    are_shares: bool,
    /// Share of the head.
    head: f64,
    /// Share of all other keys.
    tail: f64,
    /// (n - 1) / n to the powers of 1, 2, 4, ...
    squares: [f64; 64],
    /// 1 + n * tolerance.
    slack: f64,
}

/// Prefixes checked together.
const LANES: usize = 8;

impl Inequality {
    fn new(head_counts: &[f64], total: f64, n: f64, tolerance: f64) -> Self {
        let mut sum = 0.0;
        let prefixes = head_counts.iter().map(|count| {
            sum += count;
            sum / total
        });
        let prefixes: Vec<f64> = prefixes.collect();
        let head = sum / total;
        let are_shares = head <= 1.0 + 1e-9 && head_counts.last() >= Some(&0.0);
        let mut squares = [1.0 - 1.0 / n; 64];
        for power in 1..squares.len() {
            squares[power] = squares[power - 1] * squares[power - 1];
        }
        Self { prefixes, are_shares, head, tail: 1.0 - head, squares, slack: 1.0 + n * tolerance }
    }

    /// How many of the shortest prefixes may be refused.
    ///
    /// From some number of keys on, the workers that are no candidates are fewer than a double can tell from none: the
    /// shares of all keys, which sum up to 1, are then compared with the slack.
    fn undecided(&self, choices: u64) -> usize {
        const FEW: f64 = 45.0; // e^-45 is below 2^-64
        if !self.are_shares || self.slack < 1.0 + 1e-6 {
            return self.prefixes.len();
        }
        let keys = (FEW / (-self.squares[0].ln() * choices as f64)).ceil();
        self.prefixes.len().min(keys as usize)
    }

    /// The first of some prefixes that is refused, with `choices` candidates for each key.
    fn first_refused(&self, prefixes: Range<usize>, choices: u64) -> Option<usize> {
        let mut first = None;
        vectorised(
            #[inline(always)]
            || {
                first = prefixes.clone().step_by(LANES).find_map(|start| {
                    let refused = self.refused(start, choices);
                    let place = start + refused.trailing_zeros() as usize;
                    (refused != 0 && place < prefixes.end).then_some(place)
                });
            },
        );
        first
    }

    /// Bit i is set if prefix `start + i` is refused.
    #[inline(always)]
    fn refused(&self, start: usize, choices: u64) -> u32 {
        let (mut prefixes, rest) = ([0.0; LANES], &self.prefixes[start..]);
        prefixes.iter_mut().zip(rest).for_each(|(lane, &prefix)| *lane = prefix);
        let exponents: [u64; LANES] = std::array::from_fn(|lane| (start + lane + 1) as u64 * choices);
        let mut others = [1.0; LANES];
        for bit in 0..u64::BITS - exponents[LANES - 1].leading_zeros() {
            for (others, exponent) in others.iter_mut().zip(exponents) {
                *others *= if exponent >> bit & 1 == 1 { self.squares[bit as usize] } else { 1.0 };
            }
        }
        // x is b_h / n: the expected share of the workers that h keys with d candidates each may go to.
        let x = others.map(|others| 1.0 - others);
        let (of_head, of_tail) = (power(x, choices), power(x, 2));
        let mut refused = 0;
        for lane in 0..LANES {
            let prefix = prefixes[lane];
            let load = prefix + of_head[lane] * (self.head - prefix) + of_tail[lane] * self.tail;
            let holds = load <= x[lane] * self.slack;
            refused |= u32::from(!holds) << lane;
        }
        refused
    }
}

/// Each base^exponent by squaring.
#[inline(always)]
fn power(mut bases: [f64; LANES], mut exponent: u64) -> [f64; LANES] {
    let mut results = [1.0; LANES];
    while exponent > 0 {
        if exponent & 1 == 1 {
            results.iter_mut().zip(bases).for_each(|(result, base)| *result *= base);
        }
        exponent >>= 1;
        if exponent > 0 {
            bases.iter_mut().for_each(|base| *base *= *base);
        }
    }
    results
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raised(base: f64, exponent: u64) -> f64 {
        power([base; LANES], exponent)[0]
    }

    /// The definition, prefix by prefix.
    fn naive(counts: &[f64], total: f64, workers: u32, tolerance: f64) -> u32 {
        let n = f64::from(workers);
        let head = counts.iter().fold(0.0, |sum, count| sum + count) / total;
        let holds = |d: u64| {
            let mut sum = 0.0;
            counts.iter().zip(1u64..).all(|(count, h)| {
                sum += count;
                let (prefix, x) = (sum / total, 1.0 - raised(1.0 - 1.0 / n, h * d));
                prefix + raised(x, d) * (head - prefix) + raised(x, 2) * (1.0 - head) <= x * (1.0 + n * tolerance)
            })
        };
        let least = ((counts[0] * n) / total).ceil().max(2.0);
        if least < n {
            (least as u64..u64::from(workers)).find(|&d| holds(d)).map_or(workers, |d| d as u32)
        } else {
            workers
        }
    }

    #[test]
    fn long_heads_have_the_d_of_the_definition() {
        let longest = [1, 7, 8, 9, 64, 1000];
        for keys in longest {
            let counts: Vec<f64> = (1..=keys).map(|rank| (1e6 / f64::from(rank)).floor()).collect();
            let sum: f64 = counts.iter().sum();
            for workers in [2, 3, 50, 500] {
                for (total, tolerance) in [(sum, 1e-4), (4.0 * sum, 1e-4), (4.0 * sum, 1e-12), (9.0 * sum, 0.1)] {
                    let d = solve_choices(&counts, total, workers, tolerance);
                    assert_eq!(d, naive(&counts, total, workers, tolerance), "{keys} keys, {workers} workers");
                }
            }
        }
    }

    #[test]
    fn heads_that_are_no_shares_of_the_total_are_checked_as_well() {
        for (count, total) in [(5.0, 100.0), (1e308, 1e308), (3.0, f64::INFINITY), (0.0, 0.0), (f64::NAN, 1.0)] {
            for workers in [7, 300] {
                let counts = [count; 30];
                assert_eq!(solve_choices(&counts, total, workers, 1e-4), naive(&counts, total, workers, 1e-4));
            }
        }
    }
}

//! The first minimum of values that only grow.
//!
//! Groupings constantly need the least loaded worker, and the sketch its smallest counter; in both, values never
//! shrink. A value can then leave the lowest level but none can enter it, so within a level the first minimum only
//! moves to the right: a [`Sweep`] walks each level once. With messages of weight 1 that is at most one step
//! per message. With uneven weights values rarely tie; for them [`Minimum`] keeps a tournament tree. Both return the
//! same value: the first minimum.

use wide::u64x8;

/// Values examined at a time.
const WINDOW: usize = 64;

/// Progress of the scan of the current level.
#[derive(Debug, Clone)]
pub(crate) struct Sweep {
    level: u64,
    /// No value before this index is at the level.
    start: usize,
    /// Which of the values from `start` on were at the level when examined.
    seen: u64,
}

impl Sweep {
    /// A sweep before its first scan.
    pub(crate) const NEW: Self = Self { level: u64::MAX, start: usize::MAX - WINDOW, seen: 0 };

    /// Index of the first minimum. The values have not shrunk since the last call; there is at least one.
    #[inline(always)]
    pub(crate) fn first_smallest(&mut self, values: &[u64]) -> usize {
        loop {
            while self.seen != 0 {
                let index = self.start + self.seen.trailing_zeros() as usize;
                if values[index] == self.level {
                    return index;
                }
                self.seen &= self.seen - 1;
            }
            self.look_on(values);
        }
    }

    /// Examines the next window, or the first one of the next level.
    #[inline(always)]
    fn look_on(&mut self, values: &[u64]) {
        self.start += WINDOW;
        if self.start >= values.len() {
            self.start = 0;
            self.level = smallest(values);
        }
        let window = &values[self.start..values.len().min(self.start + WINDOW)];
        let (parts, rest) = window.as_chunks::<LANES>();
        for (part, values) in parts.iter().enumerate() {
            let found = u64x8::new(*values).simd_eq(u64x8::splat(self.level)).to_bitmask();
            self.seen |= u64::from(found) << (part * LANES);
        }
        for (lane, &value) in rest.iter().enumerate() {
            self.seen |= u64::from(value == self.level) << (parts.len() * LANES + lane);
        }
    }

    /// The same over `len` values that `value` looks up one by one. A value not found within a few steps is searched
    /// for among all.
    #[inline(always)]
    pub(crate) fn first_smallest_by(&mut self, len: usize, value: impl Fn(usize) -> u64) -> usize {
        let near = len.min(self.start.saturating_add(STEPS));
        while self.start < near {
            if value(self.start) == self.level {
                return self.start;
            }
            self.start += 1;
        }
        // Four minima at once, because each depends on the previous one.
        let mut least = [u64::MAX; 4];
        let whole = len - len % 4;
        for index in (0..whole).step_by(4) {
            for (lane, least) in least.iter_mut().enumerate() {
                *least = (*least).min(value(index + lane));
            }
        }
        self.level = (whole..len).map(&value).chain(least).fold(u64::MAX, u64::min);
        self.start = (0..len).find(|&index| value(index) == self.level).unwrap_or(0);
        self.start
    }
}

/// How many values are examined one by one.
const STEPS: usize = 8;

const LANES: usize = 8;

#[inline(always)]
fn smallest(values: &[u64]) -> u64 {
    values.iter().copied().fold(u64::MAX, u64::min)
}

/// The first minimum of a list of values that only grow, by even or uneven steps.
#[derive(Debug, Clone)]
pub(crate) struct Minimum {
    sweep: Sweep,
    uneven: bool,
    tree: Option<Tournament>,
}

impl Default for Minimum {
    fn default() -> Self {
        Self { sweep: Sweep::NEW, uneven: false, tree: None }
    }
}

impl Minimum {
    /// Announces uneven steps: the next search builds a tree.
    pub(crate) fn expect_uneven_steps(&mut self) {
        self.uneven = true;
    }

    /// Starts afresh: the values were replaced.
    pub(crate) fn forget(&mut self) {
        (self.sweep, self.tree) = (Sweep::NEW, None);
    }

    /// Reports that `values[index]` has grown.
    #[inline(always)]
    pub(crate) fn grown(&mut self, values: &[u64], index: usize) {
        if let Some(tree) = &mut self.tree {
            tree.replay(values, index);
        }
    }

    /// Index of the first minimum. There is at least one value, and their number has not changed since the first
    /// search.
    #[inline(always)]
    pub(crate) fn first_smallest(&mut self, values: &[u64]) -> usize {
        if self.uneven {
            self.tree.get_or_insert_with(|| Tournament::new(values)).winner()
        } else {
            self.sweep.first_smallest(values)
        }
    }
}

/// A complete binary tree whose inner nodes hold the index of the first minimum of their leaves.
#[derive(Debug, Clone)]
struct Tournament {
    /// Nodes in level order, the root at 1; the leaf of value i is node `leaves + i`.
    nodes: Vec<u32>,
}

/// The index in a leaf without a value: it loses to every other.
const VACANT: u32 = u32::MAX;

impl Tournament {
    fn new(values: &[u64]) -> Self {
        let leaves = values.len().next_power_of_two();
        let mut nodes = vec![VACANT; 2 * leaves];
        for (index, leaf) in nodes[leaves..].iter_mut().take(values.len()).enumerate() {
            *leaf = index as u32;
        }
        for node in (1..leaves).rev() {
            nodes[node] = Self::better(values, nodes[2 * node], nodes[2 * node + 1]);
        }
        Self { nodes }
    }

    fn better(values: &[u64], left: u32, right: u32) -> u32 {
        if right == VACANT || values[left as usize] <= values[right as usize] { left } else { right }
    }

    fn replay(&mut self, values: &[u64], index: usize) {
        let mut node = (self.nodes.len() / 2 + index) / 2;
        // Above the nodes it has won, a growing value changes nothing.
        while node > 0 && self.nodes[node] == index as u32 {
            self.nodes[node] = Self::better(values, self.nodes[2 * node], self.nodes[2 * node + 1]);
            node /= 2;
        }
    }

    fn winner(&self) -> usize {
        self.nodes[1] as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::KeyHasher;

    /// Grows values by steps and compares the first minimum after each.
    fn check(len: usize, step: impl Fn(u64) -> u64, mut find: impl FnMut(&[u64], Option<usize>) -> usize) {
        let draws = KeyHasher::new(len as u64);
        let mut values = vec![0; len];
        let mut grown = None;
        for round in 0..5_000 {
            let found = find(&values, grown);
            let expected = (0..len).min_by_key(|&index| values[index]).unwrap();
            assert_eq!(found, expected, "round {round} of {len} values");
            let draw = draws.whole(round);
            // Usually the minimum grows, as in the groupings and the sketch.
            let index = if draw.is_multiple_of(4) { (draw >> 8) as usize % len } else { found };
            values[index] += step(draw >> 32);
            grown = Some(index);
        }
    }

    const LENGTHS: [usize; 9] = [1, 2, 3, 7, 8, 63, 64, 65, 200];

    #[test]
    fn sweep_names_the_first_smallest() {
        for len in LENGTHS {
            let mut sweep = Sweep::NEW;
            check(len, |_| 1, |values, _| sweep.first_smallest(values));
            let mut sweep = Sweep::NEW;
            check(len, |draw| draw % 3, |values, _| sweep.first_smallest(values));
        }
    }

    #[test]
    fn sweep_one_by_one_names_the_first_smallest() {
        for len in LENGTHS {
            let mut sweep = Sweep::NEW;
            check(len, |draw| 1 + draw % 2, |values, _| sweep.first_smallest_by(values.len(), |index| values[index]));
        }
    }

    #[test]
    fn tournament_names_the_first_smallest() {
        for len in LENGTHS {
            let mut minimum = Minimum::default();
            minimum.expect_uneven_steps();
            check(
                len,
                |draw| draw % 10,
                |values, grown| {
                    grown.into_iter().for_each(|index| minimum.grown(values, index));
                    minimum.first_smallest(values)
                },
            );
        }
    }

    #[test]
    fn uneven_steps_may_begin_at_any_time() {
        let mut minimum = Minimum::default();
        let mut round = 0;
        check(
            50,
            |draw| 1 + draw % 5,
            |values, grown| {
                grown.into_iter().for_each(|index| minimum.grown(values, index));
                round += 1;
                if round == 777 {
                    minimum.expect_uneven_steps();
                }
                minimum.first_smallest(values)
            },
        );
    }
}

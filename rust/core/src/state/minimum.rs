//! The first minimum of values that only grow.
//!
//! Groupings constantly need the least loaded worker, and the sketch its smallest counter; in both, values never
//! shrink. A value can then leave the lowest level but none can enter it, so within a level the first minimum only
//! moves to the right: a [`Sweep`] walks each level once. With messages of weight 1 that is at most one step
//! per message. With uneven weights values rarely tie; for them [`Minimum`] keeps a tournament tree. Both return the
//! same value: the first minimum.

use std::hint::select_unpredictable;

use wide::u64x8;

use crate::hash::vectorised;

/// The values at the lowest level, while it lasts.
#[derive(Debug, Clone)]
struct Level {
    value: u64,
    /// Bit i is set while value i is at the level. Empty before the first search.
    words: Vec<u64>,
    /// No word before this one has a bit set.
    start: usize,
    /// How many bits are set.
    left: usize,
}

impl Level {
    /// No level: it is found by the first search.
    const NONE: Self = Self { value: u64::MAX, words: Vec::new(), start: 0, left: 0 };

    /// Starts afresh, but keeps the memory.
    fn forget(&mut self) {
        (self.value, self.left) = (u64::MAX, 0);
        self.words.clear();
    }

    /// Index of the first value at the level.
    #[inline(always)]
    fn first(&mut self, values: &[u64]) -> usize {
        if self.left == 0 {
            self.find(values);
        }
        while self.words[self.start] == 0 {
            self.start += 1;
        }
        self.start * WORD + self.words[self.start].trailing_zeros() as usize
    }

    /// The first value at the level, which has some, leaves it; returns its index.
    #[inline(always)]
    fn leave_first(&mut self) -> usize {
        while self.words[self.start] == 0 {
            self.start += 1;
        }
        let word = self.words[self.start];
        self.words[self.start] = word & (word - 1);
        self.left -= 1;
        self.start * WORD + word.trailing_zeros() as usize
    }

    /// Grows the first value at the level; returns its index. That it was at the level is known without a look at it, so
    /// the next call does not wait for it.
    #[inline(always)]
    fn grow_first(&mut self, values: &mut [u64], grow: impl Fn(u64) -> u64) -> usize {
        if self.left == 0 {
            self.find(values);
        }
        let value = grow(self.value);
        let index = if value == self.value { self.first(values) } else { self.leave_first() };
        values[index] = value;
        index
    }

    /// As [`Level::grow_first`], where what a value grows to depends on its index.
    #[inline(always)]
    fn grow_first_by(&mut self, values: &mut [u64], grow: impl FnOnce(usize) -> u64) -> usize {
        let index = self.first(values);
        let value = grow(index);
        values[index] = value;
        if value != self.value {
            let word = &mut self.words[self.start];
            *word &= *word - 1;
            self.left -= 1;
        }
        index
    }

    /// Reports that a value has grown.
    #[inline(always)]
    fn grown(&mut self, index: usize, value: u64) {
        if let Some(word) = self.words.get_mut(index / WORD) {
            let left = u64::from(value != self.value) << (index % WORD) & *word;
            *word ^= left;
            self.left -= usize::from(left != 0);
        }
    }

    /// Finds the next level.
    #[inline(never)]
    fn find(&mut self, values: &[u64]) {
        self.words.resize(values.len().div_ceil(WORD), 0);
        (self.value, self.left) = find_level(values, &mut self.words);
        self.start = 0;
    }
}

/// Sets the bit of each value at the lowest level, and clears the others; returns the level and how many are at it.
#[inline(never)]
pub(crate) fn find_level(values: &[u64], words: &mut [u64]) -> (u64, usize) {
    let mut level = u64::MAX;
    vectorised(
        #[inline(always)]
        || {
            level = values.iter().copied().fold(u64::MAX, u64::min);
            for (word, values) in words.iter_mut().zip(values.chunks(WORD)) {
                *word = equals(values, level);
            }
        },
    );
    (level, words.iter().map(|word| word.count_ones() as usize).sum())
}

/// Values per word.
pub(crate) const WORD: usize = 64;

const LANES: usize = 8;

/// Bit i is set where value i, of at most 64, is the one looked for.
#[inline(always)]
fn equals(values: &[u64], wanted: u64) -> u64 {
    let (parts, rest) = values.as_chunks::<LANES>();
    let mut found = 0;
    for (part, values) in parts.iter().enumerate() {
        let equal = u64x8::new(*values).simd_eq(u64x8::splat(wanted)).to_bitmask();
        found |= u64::from(equal) << (part * LANES);
    }
    for (lane, &value) in rest.iter().enumerate() {
        found |= u64::from(value == wanted) << (parts.len() * LANES + lane);
    }
    found
}

/// Progress of a search that is repeated over values looked up one by one.
#[derive(Debug, Clone)]
pub(crate) struct Sweep {
    /// No value is below the level, and none before `start` is at it.
    level: u64,
    start: usize,
}

impl Sweep {
    /// A sweep before its first search.
    pub(crate) const NEW: Self = Self { level: 0, start: 0 };

    /// The list grows or shrinks at its end, while none of its values is below `floor`. A search at the floor goes on:
    /// no new value can be below it.
    #[inline(always)]
    pub(crate) fn resize(&mut self, floor: Option<u64>) {
        if floor != Some(self.level) {
            *self = Self::NEW;
        }
    }

    /// Index of the first minimum of `len` values, which have not shrunk since the last call. If it is known that none is
    /// below `floor`, the first that equals it is looked for among more than a few; values after that are not asked for.
    #[inline(always)]
    pub(crate) fn first_smallest_by(
        &mut self,
        len: usize,
        floor: Option<u64>,
        mut value: impl FnMut(usize) -> u64,
    ) -> usize {
        if let Some(floor) = floor {
            if len <= FEW {
                // Without a branch, because which of them it is, is hard to predict.
                (self.level, self.start) = (u64::MAX, 0);
                for index in 0..len {
                    let value = value(index);
                    let is_less = value < self.level;
                    self.level = select_unpredictable(is_less, value, self.level);
                    self.start = select_unpredictable(is_less, index, self.start);
                }
                return self.start;
            }
            if floor > self.level {
                (self.level, self.start) = (floor, 0);
            }
            // Values after the level have often grown by one step since: that is found sooner than the minimum of all.
            for _ in 0..2 {
                if let Some(index) = (self.start..len).find(|&index| value(index) == self.level) {
                    self.start = index;
                    return index;
                }
                (self.level, self.start) = (self.level + 1, 0);
            }
        } else {
            // By uneven steps values rarely tie.
            let near = len.min(self.start.saturating_add(STEPS));
            if let Some(index) = (self.start..near).find(|&index| value(index) == self.level) {
                self.start = index;
                return index;
            }
        }
        self.search_all(len, value)
    }

    /// The value found last has grown by 1, as this returns it: the next search need not look at it again.
    #[inline(always)]
    pub(crate) fn pass(&mut self) -> u64 {
        self.start += 1;
        self.level
    }

    #[inline(never)]
    fn search_all(&mut self, len: usize, mut value: impl FnMut(usize) -> u64) -> usize {
        // Four minima at once, because each depends on the previous one.
        let mut least = [u64::MAX; 4];
        let whole = len - len % 4;
        for index in (0..whole).step_by(4) {
            for (lane, least) in least.iter_mut().enumerate() {
                *least = (*least).min(value(index + lane));
            }
        }
        self.level = (whole..len).map(&mut value).chain(least).fold(u64::MAX, u64::min);
        self.start = (0..len).find(|&index| value(index) == self.level).unwrap_or(0);
        self.start
    }
}

/// By even steps: up to this many values are all looked at.
const FEW: usize = 16;

/// By uneven steps: how many values are examined one by one.
const STEPS: usize = 8;

/// The first minimum of a list of values that only grow, by even or uneven steps.
#[derive(Debug, Clone)]
pub(crate) struct Minimum {
    level: Level,
    /// Whether a search needs to know of later growth.
    searched: bool,
    uneven: bool,
    tree: Option<Tournament>,
}

impl Default for Minimum {
    fn default() -> Self {
        Self { level: Level::NONE, searched: false, uneven: false, tree: None }
    }
}

impl Minimum {
    /// Announces uneven steps: the next search builds a tree.
    pub(crate) fn expect_uneven_steps(&mut self) {
        self.uneven = true;
    }

    /// Starts afresh: the values were replaced.
    pub(crate) fn forget(&mut self) {
        self.level.forget();
        (self.searched, self.tree) = (false, None);
    }

    /// Reports that `values[index]` has grown to `value`.
    #[inline(always)]
    pub(crate) fn grown(&mut self, values: &[u64], index: usize, value: u64) {
        if !self.searched {
            return;
        }
        if let Some(tree) = &mut self.tree {
            tree.replay(values, index);
        } else {
            self.level.grown(index, value);
        }
    }

    /// Whether steps may be uneven.
    pub(crate) fn has_uneven_steps(&self) -> bool {
        self.uneven
    }

    /// While steps are even: values other than this may grow without a report.
    #[inline(always)]
    pub(crate) fn level(&self) -> u64 {
        self.level.value
    }

    /// While steps are even: how many values are at the level; 0 if it has not been searched for.
    #[inline(always)]
    pub(crate) fn left(&self) -> usize {
        self.level.left
    }

    /// The smallest value, if steps are even.
    #[inline(always)]
    pub(crate) fn floor(&mut self, values: &[u64]) -> Option<u64> {
        if self.uneven {
            return None;
        }
        self.searched = true;
        if self.level.left == 0 {
            self.level.find(values);
        }
        Some(self.level.value)
    }

    /// The values and their level for a loop of even steps; returns false, and does nothing, if steps may be uneven.
    #[inline(always)]
    pub(crate) fn rising(&mut self, values: &mut [u64], run: impl FnOnce(&mut Rising)) -> bool {
        let Some(value) = self.floor(values) else { return false };
        let Level { words, start, left, .. } = &mut self.level;
        let mut rising = Rising { values, words, value, start: *start, left: *left };
        run(&mut rising);
        let Rising { value, start, left, .. } = rising;
        (self.level.value, self.level.start, self.level.left) = (value, start, left);
        true
    }

    /// Grows the first minimum, as [`Minimum::first_smallest`] finds it; returns its index.
    #[inline(always)]
    pub(crate) fn grow_first(&mut self, values: &mut [u64], grow: impl Fn(u64) -> u64) -> usize {
        self.searched = true;
        if !self.uneven {
            return self.level.grow_first(values, grow);
        }
        let index = self.first_smallest(values);
        values[index] = grow(values[index]);
        self.grown(values, index, values[index]);
        index
    }

    /// As [`Minimum::grow_first`], where what a value grows to depends on its index.
    #[inline(always)]
    pub(crate) fn grow_first_by(&mut self, values: &mut [u64], grow: impl FnOnce(usize) -> u64) -> usize {
        self.searched = true;
        if !self.uneven {
            return self.level.grow_first_by(values, grow);
        }
        let index = self.first_smallest(values);
        values[index] = grow(index);
        self.grown(values, index, values[index]);
        index
    }

    /// Index of the first minimum. There is at least one value, and their number has not changed since the first
    /// search.
    #[inline(always)]
    pub(crate) fn first_smallest(&mut self, values: &[u64]) -> usize {
        self.searched = true;
        if self.uneven {
            self.tree.get_or_insert_with(|| Tournament::new(values)).winner()
        } else {
            self.level.first(values)
        }
    }
}

/// Values that grow by even steps, and their level, for a loop. What changes at every step is not in memory, where the
/// compiler would have to expect that a value stored is part of it; [`Minimum::rising`] puts it back.
pub(crate) struct Rising<'a> {
    values: &'a mut [u64],
    words: &'a mut [u64],
    value: u64,
    start: usize,
    left: usize,
}

impl Rising<'_> {
    /// The values.
    #[inline(always)]
    pub(crate) fn values(&self) -> &[u64] {
        self.values
    }

    /// The smallest value.
    #[inline(always)]
    pub(crate) fn floor(&mut self) -> u64 {
        if self.left == 0 {
            self.find();
        }
        self.value
    }

    /// The first smallest value grows by 1; returns its index. That it was the smallest is known without a look at it.
    #[inline(always)]
    pub(crate) fn grow_first(&mut self) -> usize {
        let value = self.floor() + 1;
        self.grow_first_to(value)
    }

    /// The first value at the level, which has some, grows to another; returns its index.
    #[inline(always)]
    pub(crate) fn grow_first_to(&mut self, value: u64) -> usize {
        while self.words[self.start] == 0 {
            self.start += 1;
        }
        let word = self.words[self.start];
        self.words[self.start] = word & (word - 1);
        self.left -= 1;
        let index = self.start * WORD + word.trailing_zeros() as usize;
        self.values[index] = value;
        index
    }

    /// For each message in turn, grows the first smallest value of all by 1 where its bit of `of_all` is set, and otherwise the
    /// smaller of two, the first if they are equal; writes its index. Nothing here is a branch that is often mispredicted.
    #[inline(always)]
    pub(crate) fn grow_mixed(&mut self, of_all: u64, firsts: &[u32], seconds: &[u32], chosen: &mut [u32]) {
        let mut word = self.words[self.start];
        for (row, ((chosen, &first), &second)) in chosen.iter_mut().zip(firsts).zip(seconds).enumerate() {
            if self.left == 0 {
                self.find();
                word = self.words[0];
            }
            while word == 0 {
                self.start += 1;
                word = self.words[self.start];
            }
            let of_all = of_all >> row & 1 == 1;
            let (first, second) = (first as usize, second as usize);
            let (one, two) = (self.values[first], self.values[second]);
            let lesser = select_unpredictable(two < one, second, first);
            let top = self.start * WORD + word.trailing_zeros() as usize;
            let index = select_unpredictable(of_all, top, lesser);
            let value = select_unpredictable(of_all, self.value, one.min(two));
            self.values[index] = value + 1;
            // The next message waits for the word, which therefore changes without a look at memory.
            let own = u64::from(lesser / WORD == self.start) << (lesser % WORD);
            word &= !select_unpredictable(of_all, word & word.wrapping_neg(), own);
            self.words[index / WORD] &= !(1 << (index % WORD));
            self.left -= usize::from(value == self.value);
            *chosen = index as u32;
        }
    }

    /// A value, which is known, grows by 1.
    #[inline(always)]
    pub(crate) fn grow(&mut self, index: usize, value: u64) {
        self.values[index] = value + 1;
        self.words[index / WORD] &= !(1 << (index % WORD));
        self.left -= usize::from(value == self.value);
    }

    /// The smaller of two values grows by 1, the first if they are equal; returns its index. Both are stored, and the
    /// choice uses a mask, as in [`Unranked::add_to_lesser`](crate::state::loads::Unranked::add_to_lesser).
    #[inline(always)]
    pub(crate) fn grow_lesser(&mut self, first: usize, second: usize) -> usize {
        let (one, two) = (self.values[first], self.values[second]);
        let second_is_less = u64::from(two < one);
        self.values[second] = two + second_is_less;
        self.values[first] = one + (1 - second_is_less);
        let index = first ^ ((first ^ second) & 0usize.wrapping_sub(second_is_less as usize));
        self.grown(index);
        index
    }

    /// A value grows to another.
    #[inline(always)]
    pub(crate) fn grow_to(&mut self, index: usize, value: u64) {
        self.values[index] = value;
        self.grown(index);
    }

    #[inline(always)]
    fn grown(&mut self, index: usize) {
        let word = &mut self.words[index / WORD];
        let left = *word >> (index % WORD) & 1;
        *word ^= left << (index % WORD);
        self.left -= left as usize;
    }

    /// Inlined: if anything took the address of this, all of it would be in memory.
    #[inline(always)]
    fn find(&mut self) {
        (self.value, self.left) = find_level(self.values, self.words);
        self.start = 0;
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

    /// Reports growth and searches.
    fn search(minimum: &mut Minimum) -> impl FnMut(&[u64], Option<usize>) -> usize {
        |values, grown| {
            grown.into_iter().for_each(|index| minimum.grown(values, index, values[index]));
            minimum.first_smallest(values)
        }
    }

    #[test]
    fn level_names_the_first_smallest() {
        for len in LENGTHS {
            check(len, |_| 1, search(&mut Minimum::default()));
            check(len, |draw| draw % 3, search(&mut Minimum::default()));
        }
    }

    #[test]
    fn growing_the_first_minimum_is_finding_it_and_reporting_its_growth() {
        let draws = KeyHasher::new(0);
        for (uneven, most) in [(false, u64::MAX), (false, 3), (true, u64::MAX)] {
            for len in LENGTHS {
                let (mut values, mut minimum) = (vec![0; len], Minimum::default());
                let mut grown = Minimum::default();
                if uneven {
                    minimum.expect_uneven_steps();
                    grown.expect_uneven_steps();
                }
                for round in 0..2_000 {
                    let draw = draws.whole(round);
                    let step = if uneven { draw % 5 } else { 1 };
                    let grow = |value: u64| (value + step).min(most.max(value));
                    let (mut others, first) = (values.clone(), minimum.first_smallest(&values));
                    assert_eq!(grown.grow_first(&mut others, grow), first, "round {round} of {len} values");
                    values[first] = grow(values[first]);
                    minimum.grown(&values, first, values[first]);
                    assert_eq!(values, others);
                    let other = (draw >> 8) as usize % len;
                    values[other] = grow(values[other]);
                    minimum.grown(&values, other, values[other]);
                    grown.grown(&values, other, values[other]);
                }
            }
        }
    }

    #[test]
    fn steps_of_both_kinds_together_are_those_one_by_one() {
        let draws = KeyHasher::new(0);
        for len in LENGTHS {
            let (mut values, mut minimum) = (vec![0; len], Minimum::default());
            let (mut others, mut one_by_one) = (values.clone(), minimum.clone());
            for round in 0..200 {
                let of_all = draws.whole(-1 - round);
                let [firsts, seconds] = [0, 1].map(|choice| {
                    let draw = |row| (draws.whole(128 * round + 2 * row as i64 + choice) % len as u64) as u32;
                    (0..64).map(draw).collect::<Vec<u32>>()
                });
                let mut chosen = [0; 64];
                assert!(minimum.rising(&mut values, |values| values.grow_mixed(
                    of_all,
                    &firsts,
                    &seconds,
                    &mut chosen
                )));
                one_by_one.rising(&mut others, |values| {
                    for (row, &chosen) in chosen.iter().enumerate() {
                        let (first, second) = (firsts[row] as usize, seconds[row] as usize);
                        let is_of_all = of_all >> row & 1 == 1;
                        let index = if is_of_all { values.grow_first() } else { values.grow_lesser(first, second) };
                        assert_eq!(chosen as usize, index, "message {row} of round {round}, {len} values");
                    }
                });
                assert_eq!(values, others);
            }
        }
    }

    #[test]
    fn sweep_one_by_one_names_the_first_smallest() {
        for len in LENGTHS {
            let mut sweep = Sweep::NEW;
            let step = |draw| 1 + draw % 2;
            check(len, step, |values, _| sweep.first_smallest_by(values.len(), None, |index| values[index]));
            let mut sweep = Sweep::NEW;
            check(len, step, |values, _| {
                let least = values.iter().copied().min().unwrap();
                // Now and then the floor is lower than all values.
                let floor = least - least % 2;
                sweep.first_smallest_by(values.len(), Some(floor), |index| values[index])
            });
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
                    grown.into_iter().for_each(|index| minimum.grown(values, index, values[index]));
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
                grown.into_iter().for_each(|index| minimum.grown(values, index, values[index]));
                round += 1;
                if round == 777 {
                    minimum.expect_uneven_steps();
                }
                minimum.first_smallest(values)
            },
        );
    }
}

//! The least loaded of a key's consecutive workers.
//!
//! Loads only grow: a worker can leave the lowest load of a row, but none can come to it. So the workers that were at it
//! are found once for many messages, and what has happened to each is looked at when its turn comes.

use crate::state::loads::Loads;
use crate::state::minimum::{WORD, find_level};
use crate::types::{Amount, KeyHash, Worker};

/// The rows of workers of all keys that were searched.
#[derive(Debug, Clone, Default)]
pub(super) struct Rows {
    each: Vec<Row>,
    /// By slot of the key's item: its index in `each`, or [`NONE`].
    places: Vec<u32>,
}

/// The place of a slot without a row.
const NONE: u32 = u32::MAX;

impl Rows {
    /// The row of the key in a slot.
    #[inline(always)]
    pub(super) fn of(&mut self, slot: usize, hash: KeyHash) -> &mut Row {
        let place = match self.places.get(slot) {
            Some(&place) if place != NONE => place as usize,
            _ => self.begin(slot),
        };
        let row = &mut self.each[place];
        if row.hash != hash {
            *row = Row::new(hash);
        }
        row
    }

    #[cold]
    fn begin(&mut self, slot: usize) -> usize {
        if self.places.len() <= slot {
            self.places.resize(slot + 1, NONE);
        }
        let place = self.each.len();
        self.places[slot] = place as u32;
        self.each.push(Row::new(KeyHash(0)));
        place
    }
}

/// The workers at the lowest load of one key's row.
#[derive(Debug, Clone)]
pub(super) struct Row {
    /// The hash of the key; another one's if the slot has been given to a new key.
    hash: KeyHash,
    /// No load is below it.
    level: u64,
    /// Of every worker at the level the bit is set, by its place in the row; so may be those of others that were at it.
    words: Vec<u64>,
    /// No word before this one has a bit set.
    start: usize,
    /// The loads of a search, in the row's order.
    values: Vec<u64>,
}

impl Row {
    fn new(hash: KeyHash) -> Self {
        Self { hash, level: 0, words: Vec::new(), start: 0, values: Vec::new() }
    }

    /// The least loaded of the row's workers, which start with `first`; the first among equals.
    #[inline(always)]
    pub(super) fn least(&mut self, loads: &Loads, first: Worker, width: u32) -> Worker {
        loop {
            while let Some(word) = self.words.get_mut(self.start) {
                if *word == 0 {
                    self.start += 1;
                    continue;
                }
                let index = self.start * WORD + word.trailing_zeros() as usize;
                let worker = loads.nth(first, index as u32);
                if loads.of(worker).0 == self.level {
                    return worker;
                }
                *word &= *word - 1;
            }
            self.search(loads, first, width);
        }
    }

    #[inline(never)]
    fn search(&mut self, loads: &Loads, first: Worker, width: u32) {
        self.values.clear();
        loads.in_row(first, width).into_iter().for_each(|part| self.values.extend_from_slice(part));
        self.words.resize(self.values.len().div_ceil(WORD), 0);
        (self.level, _) = find_level(&self.values, &mut self.words);
        self.start = 0;
    }

    /// The row gets a last worker, which is its least loaded one, and which then has this load.
    pub(super) fn widen(&mut self, index: u32, Amount(load): Amount) {
        let index = index as usize;
        if load < self.level {
            self.level = load;
            self.words.fill(0);
        }
        if load == self.level {
            self.words.resize(index / WORD + 1, 0);
            self.words[index / WORD] |= 1 << (index % WORD);
            self.start = self.start.min(index / WORD);
        }
    }

    /// The row loses its last worker.
    pub(super) fn narrow(&mut self, index: u32) {
        if let Some(word) = self.words.get_mut(index as usize / WORD) {
            *word &= !(1 << (index as usize % WORD));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::amount::Scale;
    use crate::hash::KeyHasher;

    #[test]
    fn a_row_names_the_first_of_its_least_loaded_workers() {
        let draws = KeyHasher::new(0);
        for workers in [1, 2, 7, 64, 65, 200] {
            let (mut loads, mut rows, mut widths) = (Loads::new(workers), Rows::default(), [1; 3]);
            for round in 0..3_000 {
                let draw = |number: i64| draws.whole(8 * round + number);
                let slot = draw(0) as usize % 3;
                let first = Worker(draws.whole(-1 - slot as i64) as u32 % workers);
                // A slot is given to a new key now and then, which has another number of workers.
                let hash = KeyHash(round as u64 / 500);
                let (row, width) = (rows.of(slot, hash), &mut widths[slot]);
                if round % 500 < 3 {
                    *width = 1 + draw(1) as u32 % workers;
                    *row = Row::new(hash);
                }
                let found = row.least(&loads, first, *width);
                assert_eq!(found, loads.least_of(loads.row(first, *width)), "{width} of {workers} in round {round}");
                let weight = Amount(draw(2) % 3);
                let next = loads.nth(first, *width % workers);
                if *width < workers && loads.of(next) < loads.of(found) && draw(3) % 2 == 0 {
                    row.widen(*width, Scale::Whole.sum(loads.of(next), weight));
                    *width += 1;
                    loads.add(Scale::Whole, next, weight);
                } else if *width > 1 && draw(4) % 8 == 0 {
                    *width -= 1;
                    row.narrow(*width);
                } else {
                    // Usually the least loaded one, as in the grouping.
                    let other = Worker(draw(5) as u32 % workers);
                    loads.add(Scale::Whole, if draw(6) % 4 == 0 { other } else { found }, weight);
                }
            }
        }
    }
}

//! The least loaded of a key's consecutive workers.
//!
//! Loads only grow: a worker can leave the lowest load of a row, but none can come to it. So the workers that were at it
//! are found once for many messages, and what has happened to each is looked at when its turn comes.

use crate::state::loads::Loads;
use crate::state::minimum::{WORD, find_level};
use crate::types::{Amount, Worker};

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
    /// The row of the key in a slot: so many workers from the first on. While a key has few workers, nobody looks after its
    /// row, and slots are given to other keys; with the same workers whatever is known of them holds.
    #[inline(always)]
    pub(super) fn of(&mut self, slot: usize, first: Worker, width: u32) -> &mut Row {
        let place = match self.places.get(slot) {
            Some(&place) if place != NONE => place as usize,
            _ => self.begin(slot),
        };
        let row = &mut self.each[place];
        if (row.first, row.width) != (first, width) {
            *row = Row::new(first, width);
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
        self.each.push(Row::new(Worker(0), 0));
        place
    }
}

/// The workers at the lowest load of one key's row.
#[derive(Debug, Clone)]
pub(super) struct Row {
    first: Worker,
    width: u32,
    /// No load is below it.
    level: u64,
    /// Of every worker at the level the bit is set, by its place in the row; so may be those of others that were at it.
    words: Vec<u64>,
    /// No word before this one has a bit set.
    start: usize,
    /// The loads of a search, in the row's order.
    values: Vec<u64>,
    /// No load but that of `below` is below this.
    limit: Amount,
    below: Worker,
}

impl Row {
    fn new(first: Worker, width: u32) -> Self {
        let (words, values) = (Vec::new(), Vec::new());
        Self { first, width, level: 0, words, start: 0, values, limit: Amount(0), below: first }
    }

    /// The least loaded worker, the first among equals.
    #[inline(always)]
    pub(super) fn least(&mut self, loads: &Loads) -> Worker {
        loop {
            while let Some(word) = self.words.get_mut(self.start) {
                if *word == 0 {
                    self.start += 1;
                    continue;
                }
                let index = self.start * WORD + word.trailing_zeros() as usize;
                let worker = loads.nth(self.first, index as u32);
                if loads.of(worker).0 == self.level {
                    return worker;
                }
                *word &= *word - 1;
            }
            self.search(loads);
        }
    }

    #[inline(never)]
    fn search(&mut self, loads: &Loads) {
        self.values.clear();
        loads.in_row(self.first, self.width).into_iter().for_each(|part| self.values.extend_from_slice(part));
        self.words.resize(self.values.len().div_ceil(WORD), 0);
        (self.level, _) = find_level(&self.values, &mut self.words);
        self.start = 0;
    }

    /// Whether at least two loads are below a limit, as that of `least`, the least loaded worker, is.
    #[inline(always)]
    pub(super) fn two_below(&mut self, loads: &Loads, least: Worker, limit: Amount) -> bool {
        if self.below == least && limit <= self.limit {
            return false;
        }
        let found = loads.two_below(self.first, self.width, limit);
        if !found {
            (self.below, self.limit) = (least, limit);
        }
        found
    }

    /// The row gets a last worker, which is less loaded than the others, none of which is below a limit, and which then has this load.
    pub(super) fn widen(&mut self, worker: Worker, Amount(load): Amount, limit: Amount) {
        (self.below, self.limit) = (worker, limit);
        let index = self.width as usize;
        self.width += 1;
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
    pub(super) fn narrow(&mut self) {
        self.width -= 1;
        let index = self.width as usize;
        if let Some(word) = self.words.get_mut(index / WORD) {
            *word &= !(1 << (index % WORD));
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
            let (mut loads, mut rows) = (Loads::new(workers), Rows::default());
            // Keys and how many workers they have. They change slots, and their number of workers elsewhere, now and then.
            let (mut widths, mut slots) = ([1; 3], [0, 1, 2]);
            for round in 0..5_000 {
                let draw = |number: i64| draws.whole(8 * round + number);
                let key = draw(0) as usize % 3;
                if draw(7) % 100 == 0 {
                    slots.rotate_left(1);
                    widths[key] = 1 + draw(1) as u32 % workers;
                }
                let (first, width) = (Worker(draws.whole(-1 - key as i64) as u32 % workers), &mut widths[key]);
                let row = rows.of(slots[key], first, *width);
                let found = row.least(&loads);
                assert_eq!(found, loads.least_of(loads.row(first, *width)), "{width} of {workers} in round {round}");
                let (limit, weight) = (Amount(loads.of(found).0 + draw(3) % 3), Amount(draw(2) % 3));
                if loads.of(found) < limit {
                    let below = loads.row(first, *width).filter(|&worker| loads.of(worker) < limit).count();
                    assert_eq!(
                        row.two_below(&loads, found, limit),
                        below >= 2,
                        "{width} of {workers} in round {round}"
                    );
                    if below >= 2 && draw(4) % 2 == 0 {
                        *width -= 1;
                        row.narrow();
                        continue;
                    }
                } else if *width < workers {
                    let next = loads.nth(first, *width);
                    if loads.of(next) < loads.of(found) {
                        row.widen(next, Scale::Whole.sum(loads.of(next), weight), limit);
                        *width += 1;
                        loads.add(Scale::Whole, next, weight);
                        continue;
                    }
                }
                // Usually the least loaded one, as in the grouping.
                let other = Worker(draw(5) as u32 % workers);
                loads.add(Scale::Whole, if draw(6) % 4 == 0 { other } else { found }, weight);
            }
        }
    }
}

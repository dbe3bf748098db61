//! The tables of a plan: a row's worker as a pure function of two hashes.
//!
//! Nothing is counted and nothing is drawn: a row goes to the same worker in every attempt, on every machine and in any
//! order. Let b be the binary logarithm of the length of `tail`, h the hash of the row's key and r the hash of the row
//! itself, both unsigned 64-bit numbers:
//!
//! ```text
//! h is hashes[i]:    cell = starts[i] + (((r >> 32) * lengths[i]) >> 32)
//!                    worker = first[cell] if (r & 0xffffffff) < cuts[cell], else second[cell]
//! h is none of them: worker = tail[h >> (64 - b)]
//! ```
//!
//! A run of cells is an alias table: A. J. Walker, "An Efficient Method for Generating Discrete Random Variables with
//! General Distributions", ACM Transactions on Mathematical Software 3(3), 1977. Each cell of a run takes an equal part
//! of the values of r, to within one of its 2^32 high halves, and `cuts[cell]` of the 2^32 low halves of these go to
//! `first[cell]`.
//!
//! ```
//! use keysplit_core::PlanTable;
//!
//! // Two buckets; the key of hash 7 is frequent: 3/4 of its rows go to worker 4, 1/4 to worker 5.
//! let table = PlanTable::new(vec![0, 1], vec![7], vec![0], vec![2], vec![1 << 31, 1 << 32], vec![5, 4], vec![4, 0])?;
//! let (keys, rows) = ([7, 7, 7, 8, u64::MAX], [0, 1 << 31, 1 << 63, 0, 0]);
//! let mut workers = [0; 5];
//! table.route(&keys, Some(&rows), &mut workers)?;
//! assert_eq!(workers, [5, 4, 4, 0, 1]);
//! # Ok::<(), keysplit_core::Error>(())
//! ```

mod frequent;

use std::hint::select_unpredictable;

use hashbrown::HashSet;

use self::frequent::{FrequentKeys, Run};
use crate::error::{Error, Result};
use crate::hash::{high, low, onto};
use crate::params::MAX_WORKERS;

/// The most buckets of the tail.
const MOST_BUCKETS: usize = 1 << 20;

/// The cut of a cell that always takes its first worker.
const WHOLE: u64 = 1 << 32;

/// The tables of a plan, ready to route rows.
#[derive(Debug, Clone)]
pub struct PlanTable {
    tail: Vec<u32>,
    /// 64 - b.
    shift: u32,
    head: FrequentKeys,
    cells: Vec<Cell>,
}

#[derive(Debug, Clone, Copy)]
struct Cell {
    cut: u64,
    first: u32,
    second: u32,
}

impl PlanTable {
    /// Checks and indexes the tables: `tail` has one worker per bucket, a power of two in 2..=2^20 of them; `hashes`
    /// differ, and `starts` and `lengths` give the cells of each, at least 1; `cuts`, `first` and `second` are the
    /// cells, with cuts in 0..=2^32 (signed, like Spark's longs, so that an error shows the value given). Workers are
    /// in 0..65,536.
    pub fn new(
        tail: Vec<u32>,
        hashes: Vec<u64>,
        starts: Vec<u32>,
        lengths: Vec<u32>,
        cuts: Vec<i64>,
        first: Vec<u32>,
        second: Vec<u32>,
    ) -> Result<Self> {
        if !tail.len().is_power_of_two() || !(2..=MOST_BUCKETS).contains(&tail.len()) {
            let text = format!("tail must have a power of two in 2..={MOST_BUCKETS} as its length, got {}", tail.len());
            return Err(Error::Value(text));
        }
        same_length("starts", starts.len(), "hash", hashes.len())?;
        same_length("lengths", lengths.len(), "hash", hashes.len())?;
        same_length("first", first.len(), "cut", cuts.len())?;
        same_length("second", second.len(), "cut", cuts.len())?;
        check_each("tail", &tail, MAX_WORKERS - 1)?;
        check_each("cuts", &cuts, WHOLE)?;
        check_each("first", &first, MAX_WORKERS - 1)?;
        check_each("second", &second, MAX_WORKERS - 1)?;
        let mut seen = HashSet::with_capacity(hashes.len());
        if let Some(hash) = hashes.iter().find(|hash| !seen.insert(**hash)) {
            return Err(Error::Value(format!("hashes must differ from each other, got {hash:#x} twice")));
        }
        let mut runs = Vec::with_capacity(hashes.len());
        for (at, ((&hash, &start), &length)) in hashes.iter().zip(&starts).zip(&lengths).enumerate() {
            if length == 0 {
                return Err(Error::Value(format!("lengths must be at least 1, got 0 at position {at}")));
            }
            if u64::from(start) + u64::from(length) > cuts.len() as u64 {
                let (cells, end) = (cuts.len(), u64::from(start) + u64::from(length));
                let text = format!(
                    "starts + lengths must be at most the number of cells, {cells}, got {end} at position {at}"
                );
                return Err(Error::Value(text));
            }
            runs.push(Run { hash, start, length });
        }
        let mut cells: Vec<Cell> = cuts
            .into_iter()
            .zip(first.into_iter().zip(second))
            .map(|(cut, (first, second))| Cell { cut: cut as u64, first, second })
            .collect();
        if cells.is_empty() {
            // A dummy run, read for keys outside the head.
            cells.push(Cell { cut: 0, first: 0, second: 0 });
        }
        Ok(Self { shift: 64 - tail.len().trailing_zeros(), tail, head: FrequentKeys::new(&runs), cells })
    }

    /// Writes the worker of each row, from the hash of its key and its own hash, to `workers`. Without `rows` a row's
    /// own hash is 0: for plans that split no key. Fails if the lengths differ.
    pub fn route(&self, keys: &[u64], rows: Option<&[u64]>, workers: &mut [u32]) -> Result<()> {
        same_length("workers", workers.len(), "key", keys.len())?;
        match rows {
            None => {
                for (worker, &key) in workers.iter_mut().zip(keys) {
                    *worker = self.worker(key, 0);
                }
            }
            Some(rows) => {
                same_length("rows", rows.len(), "key", keys.len())?;
                for ((worker, &key), &row) in workers.iter_mut().zip(keys).zip(rows) {
                    *worker = self.worker(key, row);
                }
            }
        }
        Ok(())
    }

    #[inline(always)]
    fn worker(&self, key: u64, row: u64) -> u32 {
        let (run, frequent) = self.head.find(key);
        // Both answers are computed: a mispredicted branch costs more.
        let cell = &self.cells[run.start as usize + onto(high(row), run.length) as usize];
        let split = select_unpredictable(u64::from(low(row)) < cell.cut, cell.first, cell.second);
        select_unpredictable(frequent, split, self.tail[(key >> self.shift) as usize])
    }
}

fn same_length(name: &str, length: usize, each: &str, wanted: usize) -> Result<()> {
    if length == wanted {
        return Ok(());
    }
    Err(Error::Value(format!("{name} must be one per {each}, {wanted} in all, got {length}")))
}

fn check_each<T: Copy + Into<i64>>(name: &str, numbers: &[T], most: u64) -> Result<()> {
    let fits = |&number: &T| u64::try_from(number.into()).is_ok_and(|number| number <= most);
    match numbers.iter().position(|number| !fits(number)) {
        None => Ok(()),
        Some(at) => {
            let number: i64 = numbers[at].into();
            Err(Error::Value(format!("{name} must be in 0..={most}, got {number} at position {at}")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::frequent::crowded;
    use super::*;

    const EXTREMES: [u64; 6] = [0, 1, u32::MAX as u64, 1 << 32, 1 << 63, u64::MAX];

    /// A table in which key number i has one cell, which goes to worker 100 + i; all others go to worker 0 or 1.
    fn one_cell_each(hashes: &[u64]) -> PlanTable {
        let numbers: Vec<u32> = (0..hashes.len() as u32).collect();
        let workers: Vec<u32> = numbers.iter().map(|number| 100 + number).collect();
        let (ones, cuts) = (vec![1; hashes.len()], vec![1 << 32; hashes.len()]);
        PlanTable::new(vec![0, 1], hashes.to_vec(), numbers, ones, cuts, workers.clone(), workers).unwrap()
    }

    fn worker(table: &PlanTable, key: u64, row: u64) -> u32 {
        let mut workers = [u32::MAX];
        table.route(&[key], Some(&[row]), &mut workers).unwrap();
        workers[0]
    }

    #[test]
    fn finds_every_key_of_the_head_and_no_other() {
        for hashes in [vec![], vec![0], vec![u64::MAX], EXTREMES.to_vec(), crowded(4000)] {
            let table = one_cell_each(&hashes);
            for (at, &hash) in hashes.iter().enumerate() {
                assert_eq!(EXTREMES.map(|row| worker(&table, hash, row)), [100 + at as u32; 6]);
            }
            for hash in EXTREMES.into_iter().chain((0..8000).map(|key| key << 15 ^ 1 << 63)) {
                if !hashes.contains(&hash) {
                    assert_eq!(worker(&table, hash, u64::MAX), (hash >> 63) as u32);
                }
            }
        }
    }

    #[test]
    fn the_tail_goes_by_the_top_bits() {
        for bits in [1, 2, 12, 20] {
            let buckets = 1u32 << bits;
            let tail: Vec<u32> = (0..buckets).map(|bucket| bucket % 65_536).collect();
            let table = PlanTable::new(tail, vec![], vec![], vec![], vec![], vec![], vec![]).unwrap();
            for bucket in [0, 1, buckets / 2, buckets - 1] {
                let lowest = u64::from(bucket) << (64 - bits);
                for key in [lowest, lowest | (u64::MAX >> bits)] {
                    assert_eq!(worker(&table, key, u64::MAX), bucket % 65_536);
                }
            }
        }
    }

    #[test]
    fn a_run_is_an_alias_table() {
        let cuts = vec![0, 0, 1, 1 << 32];
        let table = PlanTable::new(vec![9, 9], vec![5], vec![1], vec![3], cuts, vec![0, 1, 2, 3], vec![10, 11, 12, 13])
            .unwrap();
        // The first high halves of the second and third of three cells.
        let (second, third) = ((1u64 << 32).div_ceil(3) << 32, (2u64 << 32).div_ceil(3) << 32);
        let half = u64::from(u32::MAX);
        for (row, expected) in [
            (0, 11),
            (second - 1, 11),
            (second, 2),
            (second | 1, 12),
            (third - 1, 12),
            (third - half - 1, 2),
            (third, 3),
            (third | half, 3),
            (u64::MAX, 3),
        ] {
            assert_eq!(worker(&table, 5, row), expected, "row {row:#x}");
        }
    }

    #[test]
    fn without_rows_a_row_is_zero() {
        let table = one_cell_each(&[3, 4]);
        let keys = [3, 4, 5, u64::MAX];
        let mut workers = [9; 4];
        table.route(&keys, None, &mut workers).unwrap();
        assert_eq!(workers, [100, 101, 0, 1]);
        table.route(&[], None, &mut []).unwrap();
    }

    #[test]
    fn refuses_other_lengths() {
        let table = one_cell_each(&[3]);
        let text = |outcome: Result<()>| outcome.unwrap_err().to_string();
        assert_eq!(text(table.route(&[1, 2], None, &mut [0])), "workers must be one per key, 2 in all, got 1");
        assert_eq!(text(table.route(&[1, 2], Some(&[0; 3]), &mut [0; 2])), "rows must be one per key, 2 in all, got 3");
    }
}

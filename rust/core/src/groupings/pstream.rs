//! PStream: keys found hot by coin tosses go to the workers in turn, all others to one worker.
//!
//! Chen, Zhang, Jin: PStream: A Popularity-Aware Differentiated Distributed Stream Processing System (IEEE Transactions
//! on Computers, 2021). One message in 2^coins enters a synopsis and sets one bit of its key's bitmap, each bit half as
//! likely as the one before. A key with two bits is hot: it is recorded in a counting Bloom filter, and stays there
//! until its bitmap is empty. Bitmaps shift as entries arrive, so keys cool down. A bit's number counts all heads, as
//! in the authors' program. Deviations: the filter has 16,384 counters by default, because 16 saturate; coins are the
//! router's random draws.

use hashbrown::HashMap;
use serde::{Deserialize, Deserializer, Serialize};

use super::parts::turn::Turn;
use super::{Grouping, Parameters};
use crate::batch::Batch;
use crate::error::{Error, Result};
use crate::hash::{Draws, first_candidate};
use crate::params::{self, Value};
use crate::sketch::CountingBloom;
use crate::snapshot::{checked_count, decode, encode};
use crate::state::loads::{Loads, SavedLoads};
use crate::types::{KeyHash, Source, Worker};

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Params {
    #[serde(deserialize_with = "params::workers")]
    workers: u32,
    #[serde(deserialize_with = "params::seed")]
    seed: u64,
    #[serde(deserialize_with = "params::whole::<0, 32, _>")]
    coins: u64,
    #[serde(deserialize_with = "params::whole::<0, 60, _>")]
    most_coins: u64,
    #[serde(deserialize_with = "decay")]
    decay: f64,
    #[serde(deserialize_with = "params::whole::<1, { 1 << 28 }, _>")]
    filter_counters: u64,
}

impl Default for Params {
    fn default() -> Self {
        Self { workers: 1, seed: 0, coins: 6, most_coins: 16, decay: 0.01, filter_counters: 16384 }
    }
}

impl Parameters for Params {
    const VERSION: u32 = 3;

    fn check(&self) -> Result<()> {
        if self.most_coins >= self.coins {
            return Ok(());
        }
        Err(Error::Value(format!("most_coins must be in {}..=60, got {}", self.coins, self.most_coins)))
    }

    fn build(&self, source: Source) -> Result<Box<dyn Grouping>> {
        let predictor = Predictor {
            coins: self.coins as u32,
            most_coins: self.most_coins as u32,
            period: (1.0 / self.decay) as u64,
            draws: Draws::new(self.seed, source),
            position: 0,
            entries: 0,
            synopsis: HashMap::new(),
            recorded: CountingBloom::new(self.seed, 10, self.filter_counters as u32),
        };
        let (workers, turn) = (self.workers, Turn::new(self.workers, self.seed, source));
        Ok(Box::new(PStream { workers, predictor, turn, loads: Loads::new(workers) }))
    }
}

fn decay<'de, D: Deserializer<'de>>(given: D) -> Result<f64, D::Error> {
    params::number_of("in 1e-6..=1", |decay| (1e-6..=1.0).contains(&decay), Value::deserialize(given)?)
}

struct PStream {
    workers: u32,
    predictor: Predictor,
    turn: Turn,
    loads: Loads,
}

/// Which keys are hot.
#[derive(Clone)]
struct Predictor {
    coins: u32,
    most_coins: u32,
    /// Entries between two shifts.
    period: u64,
    draws: Draws,
    position: u64,
    /// Entries since the last shift.
    entries: u64,
    /// No bitmap is empty.
    synopsis: HashMap<u64, Entry>,
    /// The keys recorded as hot in their entries.
    recorded: CountingBloom,
}

/// The synopsis entry of a key.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
struct Entry {
    bitmap: u64,
    /// Whether the key has had two bits since it entered: it stays in the filter as long as in the synopsis.
    recorded: bool,
}

impl Predictor {
    /// Tosses the coins of a message; returns whether its key is then hot.
    #[inline(always)]
    fn is_hot(&mut self, hash: u64) -> bool {
        let heads = self.draws.bits(self.position).trailing_zeros();
        self.position += 1;
        if heads >= self.coins {
            self.enter(hash, heads.min(self.most_coins));
        }
        self.recorded.contains(hash)
    }

    /// Whether this key would be hot as that of the next message.
    fn would_be_hot(&self, hash: u64) -> bool {
        if self.draws.bits(self.position).trailing_zeros() >= self.coins {
            return self.clone().is_hot(hash);
        }
        self.recorded.contains(hash)
    }

    fn enter(&mut self, hash: u64, bit: u32) {
        let entry = self.synopsis.entry(hash).or_default();
        entry.bitmap |= 1 << bit;
        if !entry.recorded && entry.bitmap.count_ones() >= 2 {
            entry.recorded = true;
            self.recorded.insert(hash);
        }
        self.entries += 1;
        if self.entries == self.period {
            self.shift();
        }
    }

    fn shift(&mut self) {
        self.entries = 0;
        self.synopsis.retain(|&hash, entry| {
            entry.bitmap >>= 1;
            if entry.bitmap == 0 && entry.recorded {
                self.recorded.remove(hash);
            }
            entry.bitmap != 0
        });
    }

    /// The synopsis in a canonical order.
    fn save(&self) -> Vec<(u64, Entry)> {
        let mut synopsis: Vec<(u64, Entry)> = self.synopsis.iter().map(|(&hash, &entry)| (hash, entry)).collect();
        synopsis.sort_unstable_by_key(|&(hash, _)| hash);
        synopsis
    }

    /// Restores a saved synopsis.
    fn restore(&mut self, position: u64, entries: u64, synopsis: &[(u64, Entry)]) -> Result<()> {
        let width = self.most_coins + 1;
        let sane = |&(_, Entry { bitmap, recorded }): &(u64, Entry)| {
            bitmap != 0 && bitmap >> width == 0 && (recorded || bitmap.is_power_of_two())
        };
        if entries >= self.period || !synopsis.iter().all(sane) || !synopsis.is_sorted_by(|one, other| one.0 < other.0)
        {
            return Err(Error::damaged("its synopsis does not fit its parameters"));
        }
        (self.position, self.entries) = (checked_count(position)?, entries);
        self.synopsis = synopsis.iter().copied().collect();
        synopsis.iter().filter(|(_, entry)| entry.recorded).for_each(|&(hash, _)| self.recorded.insert(hash));
        Ok(())
    }
}

impl Grouping for PStream {
    fn route(&mut self, batch: &Batch, workers: &mut [u32]) {
        for (worker, &hash) in workers.iter_mut().zip(batch.hashes) {
            let hot = self.predictor.is_hot(hash);
            *worker = if hot { self.turn.take() } else { first_candidate(KeyHash(hash), self.workers) }.0;
        }
        batch.sent(&mut self.loads, workers);
    }

    fn candidates(&self, hash: KeyHash) -> Vec<u32> {
        let hot = self.predictor.would_be_hot(hash.0);
        vec![if hot { self.turn.next() } else { first_candidate(hash, self.workers) }.0]
    }

    fn loads(&self) -> Vec<f64> {
        self.loads.numbers()
    }

    fn save(&self) -> Vec<u8> {
        let Predictor { position, entries, .. } = self.predictor;
        encode(&(position, entries, self.predictor.save(), self.turn.next().0, self.loads.save()))
    }

    fn restore(&mut self, state: &[u8]) -> Result<()> {
        self.restore_from(decode(state)?)
    }

    /// Versions 1 and 2 numbered bits by the heads after `coins`, and recorded keys while they had two bits.
    fn restore_older(&mut self, _version: u32, state: &[u8]) -> Result<()> {
        let (position, entries, bitmaps, next, loads): (_, _, Vec<(u64, u64)>, _, _) = decode(state)?;
        let width = self.predictor.most_coins - self.predictor.coins + 1;
        let entry = |bitmap: u64| match bitmap >> width {
            0 => Entry { bitmap: bitmap << self.predictor.coins, recorded: bitmap.count_ones() >= 2 },
            _ => Entry::default(),
        };
        let synopsis = bitmaps.into_iter().map(|(hash, bitmap)| (hash, entry(bitmap))).collect();
        self.restore_from((position, entries, synopsis, next, loads))
    }
}

/// What a snapshot holds: position, entries, synopsis, the next worker in turn, loads.
type Saved = (u64, u64, Vec<(u64, Entry)>, u32, SavedLoads);

impl PStream {
    fn restore_from(&mut self, (position, entries, synopsis, next, loads): Saved) -> Result<()> {
        self.predictor.restore(position, entries, &synopsis)?;
        self.turn.restore(Worker(next));
        self.loads.restore(loads)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two entries a shift, bitmaps of seven places.
    fn predictor() -> Predictor {
        Predictor {
            coins: 2,
            most_coins: 6,
            period: 2,
            draws: Draws::new(0, Source(0)),
            position: 0,
            entries: 0,
            synopsis: HashMap::new(),
            recorded: CountingBloom::new(0, 10, 1000),
        }
    }

    fn entry(bitmap: u64, recorded: bool) -> Entry {
        Entry { bitmap, recorded }
    }

    #[test]
    fn a_key_is_recorded_from_two_bits_on_until_it_has_none() {
        let mut predictor = predictor();
        predictor.enter(7, 3);
        assert!(!predictor.recorded.contains(7));
        predictor.enter(7, 1);
        // The second entry shifts.
        assert_eq!(predictor.save(), [(7, entry(0b101, true))]);
        assert!(predictor.recorded.contains(7));
        predictor.enter(8, 0);
        predictor.enter(9, 4);
        // 7 keeps a bit, 8 has none left.
        assert_eq!(predictor.save(), [(7, entry(0b10, true)), (9, entry(0b1000, false))]);
        assert!(predictor.recorded.contains(7));
        predictor.enter(9, 3);
        predictor.enter(8, 0);
        assert_eq!(predictor.save(), [(7, entry(0b1, true)), (9, entry(0b100, false))]);
        predictor.enter(9, 4);
        predictor.enter(8, 0);
        // 7 has none left.
        assert_eq!(predictor.save(), [(9, entry(0b1010, true))]);
        assert!(!predictor.recorded.contains(7));
        assert!(predictor.recorded.contains(9));
    }

    #[test]
    fn coins_set_bits_half_as_likely_each() {
        let mut predictor = Predictor { period: u64::MAX, ..predictor() };
        for hash in 0..64_000 {
            predictor.is_hot(hash);
        }
        let bits = |bit| predictor.synopsis.values().filter(|entry| entry.bitmap == 1u64 << bit).count();
        assert_eq!(predictor.synopsis.len() as u64, predictor.entries);
        for (bit, expected) in [(2, 8000), (3, 4000), (4, 2000), (5, 1000), (6, 1000)] {
            assert!(bits(bit).abs_diff(expected) < expected / 8, "bit {bit} {} times", bits(bit));
        }
    }

    #[test]
    fn a_restored_synopsis_records_the_same_keys() {
        let mut predictor = Predictor { period: 500, ..predictor() };
        for message in 0..10_000 {
            predictor.is_hot(message * message % 100);
        }
        let mut again = Predictor { period: 500, ..self::predictor() };
        again.restore(predictor.position, predictor.entries, &predictor.save()).unwrap();
        for message in 0..10_000 {
            assert_eq!(predictor.is_hot(message % 50), again.is_hot(message % 50));
        }
        let one = entry(1, false);
        let damaged = [
            vec![(1, entry(0, false))],
            vec![(1, entry(128, false))],
            vec![(1, entry(3, false))],
            vec![(2, one), (1, one)],
            vec![(1, one), (1, one)],
        ];
        for damaged in damaged {
            assert!(again.restore(0, 0, &damaged).is_err());
        }
        assert!(again.restore(0, 500, &[]).is_err());
    }
}

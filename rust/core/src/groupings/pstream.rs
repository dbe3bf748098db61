//! PStream: keys that coins show to be hot go to the workers in turn, the others to one worker.
//!
//! Chen, Zhang, Jin: PStream: A Popularity-Aware Differentiated Distributed Stream Processing System (IEEE Transactions
//! on Computers, 2021). One message in 2^coins enters a synopsis and sets one bit of its key's bitmap, every further
//! bit half as likely; a key with two bits is hot and stands in a counting Bloom filter. Bitmaps shift as entries go
//! by, so that keys cool down. Deviations: the filter has 16,384 counters by default, because 16 saturate; coins are
//! the router's random draws.

use serde::{Deserialize, Deserializer, Serialize};

use hashbrown::HashMap;

use super::parts::turn::Turn;
use super::{Grouping, Parameters};
use crate::batch::Batch;
use crate::error::{Error, Result};
use crate::hash::{Draws, first_candidate};
use crate::params::{self, Value};
use crate::sketch::CountingBloom;
use crate::snapshot::{checked_count, decode, encode};
use crate::state::loads::Loads;
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
            bitmaps: HashMap::new(),
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
    /// The synopsis. No bitmap is empty.
    bitmaps: HashMap<u64, u64>,
    /// Keys with two bits or more.
    recorded: CountingBloom,
}

fn is_hot(bitmap: u64) -> bool {
    bitmap.count_ones() >= 2
}

impl Predictor {
    /// Tosses the coins of a message; whether its key is hot then.
    #[inline(always)]
    fn is_hot(&mut self, hash: u64) -> bool {
        let heads = self.draws.bits(self.position).trailing_zeros();
        self.position += 1;
        if heads >= self.coins {
            self.enter(hash, heads.min(self.most_coins) - self.coins);
        }
        self.recorded.contains(hash)
    }

    /// Whether the key of the next message is hot if it is this one.
    fn would_be_hot(&self, hash: u64) -> bool {
        if self.draws.bits(self.position).trailing_zeros() >= self.coins {
            return self.clone().is_hot(hash);
        }
        self.recorded.contains(hash)
    }

    fn enter(&mut self, hash: u64, bit: u32) {
        let bitmap = self.bitmaps.entry(hash).or_insert(0);
        let was_hot = is_hot(*bitmap);
        *bitmap |= 1 << bit;
        if !was_hot && is_hot(*bitmap) {
            self.recorded.insert(hash);
        }
        self.entries += 1;
        if self.entries == self.period {
            self.shift();
        }
    }

    fn shift(&mut self) {
        self.entries = 0;
        self.bitmaps.retain(|&hash, bitmap| {
            let was_hot = is_hot(*bitmap);
            *bitmap >>= 1;
            if was_hot && !is_hot(*bitmap) {
                self.recorded.remove(hash);
            }
            *bitmap != 0
        });
    }

    /// The synopsis in an order of its own.
    fn save(&self) -> Vec<(u64, u64)> {
        let mut bitmaps: Vec<(u64, u64)> = self.bitmaps.iter().map(|(&hash, &bitmap)| (hash, bitmap)).collect();
        bitmaps.sort_unstable();
        bitmaps
    }

    /// Continues from a saved synopsis.
    fn restore(&mut self, position: u64, entries: u64, bitmaps: &[(u64, u64)]) -> Result<()> {
        let width = self.most_coins - self.coins + 1;
        let sane = |&(_, bitmap): &(u64, u64)| bitmap != 0 && bitmap >> width == 0;
        if entries >= self.period || !bitmaps.iter().all(sane) || !bitmaps.is_sorted_by(|one, other| one.0 < other.0) {
            return Err(Error::value("snapshot is damaged: its synopsis does not fit its parameters"));
        }
        (self.position, self.entries) = (checked_count(position)?, entries);
        self.bitmaps = bitmaps.iter().copied().collect();
        bitmaps.iter().filter(|&&(_, bitmap)| is_hot(bitmap)).for_each(|&(hash, _)| self.recorded.insert(hash));
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
        let (position, entries, bitmaps, next, loads): (_, _, Vec<(u64, u64)>, _, _) = decode(state)?;
        self.predictor.restore(position, entries, &bitmaps)?;
        self.turn.restore(Worker(next));
        self.loads.restore(loads)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two entries a shift, bitmaps of five places.
    fn predictor() -> Predictor {
        Predictor {
            coins: 2,
            most_coins: 6,
            period: 2,
            draws: Draws::new(0, Source(0)),
            position: 0,
            entries: 0,
            bitmaps: HashMap::new(),
            recorded: CountingBloom::new(0, 10, 1000),
        }
    }

    #[test]
    fn a_key_is_recorded_while_it_has_two_bits() {
        let mut predictor = predictor();
        predictor.enter(7, 3);
        assert!(!predictor.recorded.contains(7));
        predictor.enter(7, 1);
        // The second entry shifts.
        assert_eq!(predictor.save(), [(7, 0b101)]);
        assert!(predictor.recorded.contains(7));
        predictor.enter(8, 0);
        predictor.enter(9, 4);
        // 7 keeps a bit, 8 has none left.
        assert_eq!(predictor.save(), [(7, 0b10), (9, 0b1000)]);
        assert!(!predictor.recorded.contains(7));
        predictor.enter(9, 3);
        predictor.enter(7, 1);
        assert_eq!(predictor.save(), [(7, 0b1), (9, 0b100)]);
    }

    #[test]
    fn coins_set_bits_half_as_likely_each() {
        let mut predictor = Predictor { period: u64::MAX, ..predictor() };
        for hash in 0..64_000 {
            predictor.is_hot(hash);
        }
        let bits = |bit| predictor.bitmaps.values().filter(|&&bitmap| bitmap == 1u64 << bit).count();
        assert_eq!(predictor.bitmaps.len() as u64, predictor.entries);
        for (bit, expected) in [(0, 8000), (1, 4000), (2, 2000), (3, 1000), (4, 1000)] {
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
        for damaged in [vec![(1, 0)], vec![(1, 32)], vec![(2, 1), (1, 1)], vec![(1, 1), (1, 1)]] {
            assert!(again.restore(0, 0, &damaged).is_err());
        }
        assert!(again.restore(0, 500, &[]).is_err());
    }
}

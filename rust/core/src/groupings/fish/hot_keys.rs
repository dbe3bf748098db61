//! Which keys are currently hot, and on how many workers: FISH paper, section 4.1.

use serde::{Deserialize, Serialize};

use super::Params;
use crate::amount::Scale;
use crate::error::{Error, Result};
use crate::hash::vectorised;
use crate::sketch::{Block, SavedSketch, SpaceSaving, Touched};
use crate::snapshot::checked_count;
use crate::types::KeyHash;

/// Epoch-based counting with decay, and the classification of hot keys (CHK).
#[derive(Debug, Clone)]
pub(super) struct HotKeys {
    epoch_messages: u64,
    decay: f64,
    /// 1 / theta; default 4n.
    inverse: Option<f64>,
    sketch: SpaceSaving,
    state: State,
}

/// The mutable state, except for the sketch.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct State {
    /// Messages so far.
    position: u64,
    /// Messages of this epoch, and the sum of their weights.
    epoch: (u64, f64),
    /// The message from which the head is re-evaluated.
    next: u64,
    /// The largest count at the last evaluation of the head.
    top: f64,
    /// The fewest workers of a hot key.
    least: u32,
    /// By slot: the most workers that its key was given.
    given: Vec<u32>,
}

/// What [`HotKeys::restore`] needs.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Saved(SavedSketch, State);

/// Counters examined at a time.
const STRIDE: usize = 16;

/// 2^900: means up to here, and down to its reciprocal, can be rounded to.
const BEARABLE: f64 = f64::from_bits((1023 + 900) << 52);

/// 2^53: doubles have no fractions from here on.
const BEYOND_FRACTIONS: f64 = (1u64 << 53) as f64;

impl HotKeys {
    pub(super) fn new(params: &Params) -> Result<Self> {
        let mut sketch = SpaceSaving::new(params.sketch_capacity)?;
        sketch.become_fractional();
        Ok(Self {
            epoch_messages: params.epoch_messages,
            decay: params.decay,
            inverse: params.threshold.map(f64::recip),
            sketch,
            state: State::default(),
        })
    }

    /// Prepares for a batch of messages.
    pub(super) fn expect(&mut self, messages: usize, weights: Option<&[f64]>) {
        self.sketch.expect(messages, weights);
    }

    /// The next message re-evaluates the head, because the workers or all counts have changed.
    pub(super) fn look_again(&mut self) {
        self.state.next = 0;
    }

    /// Counts the first messages, of weight 1 if no weights are given; returns how many. An epoch begins with the first
    /// one only, and only a message that is counted alone re-evaluates the head.
    pub(super) fn count(&mut self, workers: u32, hashes: &[u64], weights: Option<&[f64]>, block: &mut Block) -> usize {
        if self.state.epoch.0 == self.epoch_messages {
            self.end_epoch();
        }
        let quiet = self.state.next.saturating_sub(self.state.position).max(1);
        let most = quiet.min(self.epoch_messages - self.state.epoch.0).min(hashes.len() as u64) as usize;
        let rows = self.sketch.count_block(Scale::Fractional, &hashes[..most], weights, block);
        self.state.epoch.0 += rows as u64;
        match weights {
            None => self.state.epoch.1 += rows as f64,
            Some(weights) => weights[..rows].iter().for_each(|weight| self.state.epoch.1 += weight),
        }
        if self.state.position >= self.state.next {
            self.look(workers, self.inverse(workers));
        }
        self.state.position += rows as u64;
        rows
    }

    /// 1 / theta.
    #[inline(always)]
    fn inverse(&self, workers: u32) -> f64 {
        self.inverse.unwrap_or(4.0 * f64::from(workers))
    }

    /// Classifies the key of a counted message: the number of its candidates. Called for each, in their order.
    #[inline(always)]
    pub(super) fn spread(&mut self, workers: u32, block: &Block, row: usize) -> u32 {
        let Touched { slot, fresh } = block.touched(row);
        if slot == self.state.given.len() {
            self.state.given.push(0);
        }
        let inverse = self.inverse(workers);
        let given = &mut self.state.given[slot];
        if fresh {
            *given = 0;
        }
        let (count, total) = (f64::from_bits(block.counts[row]), f64::from_bits(block.totals[row]));
        if count * inverse > total {
            *given = halved(workers, self.state.top, count).max(self.state.least).max(*given).min(workers);
            return *given;
        }
        2.min(workers)
    }

    /// The inter-epoch decay. Counts are rounded down to sixteenths of a typical weight, so that rare keys stay equal
    /// and the smallest counter is found without a search.
    #[cold]
    fn end_epoch(&mut self) {
        let (messages, weight) = std::mem::take(&mut self.state.epoch);
        if self.decay >= 1.0 {
            return;
        }
        let mean = weight / messages as f64;
        let bearable = BEARABLE.recip() < mean && mean < BEARABLE;
        // Clearing the fraction of the mean leaves the largest power of two not above it.
        let grain = f64::from_bits(mean.to_bits() >> 52 << 52) / 16.0;
        let grains_of_one = if bearable { 1.0 / grain } else { f64::INFINITY };
        self.sketch.decay(
            self.decay,
            #[inline(always)]
            |decayed| {
                let grains = decayed * grains_of_one;
                if grains < BEYOND_FRACTIONS { grains.floor() * grain } else { decayed }
            },
        );
        self.look_again();
    }

    /// Evaluates the head: how hot the hottest key is, and how many workers hot keys need on average.
    #[cold]
    fn look(&mut self, workers: u32, inverse: f64) {
        let state = &mut self.state;
        state.next = state.position + 1 + (state.position / 8).min(self.epoch_messages / 4);
        let (counts, total) = (self.sketch.amounts(), self.sketch.total());
        let (mut sum, mut number, mut top) = (0.0, 0u32, 0);
        vectorised(
            #[inline(always)]
            || {
                let hot = |count: u64| f64::from_bits(count) * inverse > total;
                let (blocks, rest) = counts.as_chunks::<STRIDE>();
                for counts in blocks.iter().map(<[u64; STRIDE]>::as_slice).chain([rest]) {
                    // The bits of non-negative numbers sort like the numbers.
                    top = counts.iter().copied().fold(top, u64::max);
                    // Nearly all keys are cold: they are skipped a block at a time.
                    if counts.iter().fold(false, |any, &count| any | hot(count)) {
                        for &count in counts.iter().filter(|&&count| hot(count)) {
                            sum += f64::from_bits(count);
                            number += 1;
                        }
                    }
                }
            },
        );
        state.top = f64::from_bits(top);
        let needed = (f64::from(workers) * (sum / total)) / f64::from(number);
        state.least = if number == 0 { 2 } else { needed.ceil().max(2.0) as u32 };
    }

    /// The number of candidates of the next message's key if it has weight 1.
    pub(super) fn next_spread(&self, workers: u32, hash: KeyHash) -> u32 {
        let (mut after, mut block) = (self.clone(), Block::default());
        after.count(workers, &[hash.0], None, &mut block);
        after.spread(workers, &block, 0)
    }

    pub(super) fn save(&self) -> Saved {
        Saved(self.sketch.save(), self.state.clone())
    }

    pub(super) fn restore(&mut self, Saved(sketch, state): Saved) -> Result<()> {
        self.sketch.restore(sketch)?;
        let sane = |number: f64| number >= 0.0;
        let State { position, epoch, next, top, least, ref given } = state;
        checked_count(position)?;
        // No key is hot before the head is first evaluated.
        let looked = least >= 2 || position >= next;
        if given.len() != self.sketch.len()
            || !(sane(epoch.1) && sane(top) && looked)
            || epoch.0 > self.epoch_messages
            || next > position + 1 + self.epoch_messages / 4
        {
            return Err(Error::damaged("its hot keys do not fit their counters"));
        }
        self.sketch.become_fractional();
        self.state = state;
        Ok(())
    }
}

/// All workers for the hottest keys, half of them below half that frequency, a quarter below a quarter, and so on.
#[inline(always)]
fn halved(workers: u32, top: f64, count: f64) -> u32 {
    let ratio = top.max(count) / count;
    // The exponent is the logarithm to base 2, rounded down.
    let halvings = (ratio.to_bits() >> 52).saturating_sub(1023);
    workers >> halvings.min(31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(keys: &mut HotKeys, hash: u64) {
        let mut block = Block::default();
        keys.count(10, &[hash], None, &mut block);
        keys.spread(10, &block, 0);
    }

    #[test]
    fn workers_halve_with_the_frequency() {
        let spreads = [100.0, 51.0, 50.0, 49.0, 25.0, 24.9, 1e-300].map(|count| halved(100, 100.0, count));
        assert_eq!(spreads, [100, 100, 50, 50, 25, 25, 0]);
        assert_eq!(halved(100, 0.0, 7.0), 100);
    }

    #[test]
    fn counters_decay_by_epochs() {
        let params = Params { workers: 10, sketch_capacity: 5, epoch_messages: 10, decay: 0.25, ..Params::default() };
        let mut keys = HotKeys::new(&params).unwrap();
        for message in 0..10 {
            count(&mut keys, u64::from(message > 6));
        }
        assert_eq!(
            (keys.sketch.estimate(KeyHash(0)).0, keys.sketch.estimate(KeyHash(1)).0, keys.sketch.total()),
            (7.0, 3.0, 10.0)
        );
        count(&mut keys, 1);
        // 1.75, and 0.75 + 1
        assert_eq!(
            (keys.sketch.estimate(KeyHash(0)).0, keys.sketch.estimate(KeyHash(1)).0, keys.sketch.total()),
            (1.75, 1.75, 3.5)
        );
    }

    #[test]
    fn absurd_numbers_are_refused() {
        let params = Params { workers: 10, sketch_capacity: 5, epoch_messages: 10, ..Params::default() };
        let mut keys = HotKeys::new(&params).unwrap();
        for _ in 0..7 {
            count(&mut keys, 1);
        }
        let damages: [fn(&mut State); 8] = [
            |state| (state.position, state.next, state.least) = (6, 7, 0),
            |state| (state.position, state.next, state.least) = (6, 7, 1),
            |state| state.position = u64::MAX,
            |state| state.next = u64::MAX,
            |state| state.epoch.0 = 11,
            |state| state.epoch.1 = f64::NAN,
            |state| state.top = -1.0,
            |state| state.given.push(1),
        ];
        for damage in damages {
            let Saved(sketch, mut state) = keys.save();
            damage(&mut state);
            assert!(HotKeys::new(&params).unwrap().restore(Saved(sketch, state)).is_err());
        }
        HotKeys::new(&params).unwrap().restore(keys.save()).unwrap();
    }
}

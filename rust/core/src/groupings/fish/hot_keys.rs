//! Which keys are currently hot, and on how many workers: FISH paper, section 4.1.

use serde::{Deserialize, Serialize};

use super::Params;
use crate::amount::Scale;
use crate::batch::BLOCK;
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
    deviations: f64,
    sketch: SpaceSaving,
    state: State,
    /// Messages of earlier epochs, which decay as counts do; infinitely many where the threshold alone decides.
    earlier: f64,
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

/// The numbers of candidates of messages that were counted together.
#[derive(Debug, Clone)]
pub(super) struct Spreads {
    block: Block,
    /// By message.
    pub(super) of: [u32; BLOCK],
}

impl Default for Spreads {
    fn default() -> Self {
        Self { block: Block::default(), of: [0; BLOCK] }
    }
}

/// What [`HotKeys::restore`] needs.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Saved(SavedSketch, State, f64);

/// The same in versions 1 and 2.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct SavedOlder(SavedSketch, State);

impl From<SavedOlder> for Saved {
    fn from(SavedOlder(sketch, state): SavedOlder) -> Self {
        Self(sketch, state, f64::INFINITY)
    }
}

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
            inverse: params.threshold.map(|threshold| threshold.recip().min(f64::MAX)),
            deviations: params.deviations,
            sketch,
            state: State::default(),
            earlier: 0.0,
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

    /// Counts the first messages, of weight 1 if no weights are given, and classifies their keys; returns how many. An epoch
    /// begins with the first one only, and only a message that is counted alone re-evaluates the head.
    #[inline(always)]
    pub(super) fn count(
        &mut self,
        workers: u32,
        hashes: &[u64],
        weights: Option<&[f64]>,
        spreads: &mut Spreads,
    ) -> usize {
        if self.state.epoch.0 == self.epoch_messages {
            self.end_epoch();
        }
        let quiet = self.state.next.saturating_sub(self.state.position).max(1);
        let most = quiet.min(self.epoch_messages - self.state.epoch.0).min(hashes.len() as u64) as usize;
        let rows = self.sketch.count_block(Scale::Fractional, &hashes[..most], weights, &mut spreads.block);
        self.state.epoch.0 += rows as u64;
        match weights {
            None => self.state.epoch.1 += rows as f64,
            Some(weights) => weights[..rows].iter().for_each(|weight| self.state.epoch.1 += weight),
        }
        if self.state.position >= self.state.next {
            self.look(workers);
        }
        self.state.position += rows as u64;
        self.classify(workers, rows, spreads);
        rows
    }

    /// 1 / theta.
    #[inline(always)]
    fn inverse(&self, workers: u32) -> f64 {
        self.inverse.unwrap_or(4.0 * f64::from(workers))
    }

    /// How many times theta a hot key's frequency is at least, if `messages` of this epoch are counted. A key of frequency
    /// theta comes as often as a Poisson variable of that mean, whose variance is its mean.
    #[inline(always)]
    fn beyond_chance(&self, inverse: f64, messages: f64) -> f64 {
        1.0 + self.deviations * (inverse / (self.earlier + messages)).sqrt()
    }

    /// Classifies the keys of counted messages, in their order.
    #[inline(always)]
    fn classify(&mut self, workers: u32, rows: usize, spreads: &mut Spreads) {
        let (inverse, few) = (self.inverse(workers), 2.min(workers));
        let Spreads { block, of } = spreads;
        let (messages, mut hot, mut maybe) = (self.state.epoch.0 as f64, 0, 0);
        // Totals do not fall, and what is beyond chance does not rise.
        let least = f64::from_bits(block.totals[0]) * self.beyond_chance(inverse, messages);
        let before = messages - rows as f64;
        for (row, (&count, &total)) in block.counts.iter().zip(&block.totals).enumerate() {
            let beyond = f64::from_bits(total) * self.beyond_chance(inverse, before + (row + 1) as f64);
            let frequency = f64::from_bits(count) * inverse;
            hot |= u64::from(frequency > beyond) << row;
            maybe |= u64::from(frequency > least) << row;
        }
        let counted = u64::MAX >> (BLOCK - rows);
        let (fresh, hot, maybe) = (block.all_fresh(), hot & counted, maybe & counted);
        of.fill(few);
        let State { top, least, given, .. } = &mut self.state;
        let heat = |given: &mut u32, count: u64| {
            *given = halved(workers, *top, f64::from_bits(count)).max(*least).max(*given).min(workers);
            *given
        };
        if fresh & maybe == 0 && given.len() == self.sketch.len() {
            // A counter is given away when it is the smallest, which is then less than that of any hot key: so none of those
            // that are given to other keys here was a hot key's, and their order does not matter.
            for row in bits(fresh) {
                given[block.touched(row).slot] = 0;
            }
            // Apart: where a division comes right before, the larger number is chosen by a branch.
            for row in bits(hot) {
                of[row] = halved(workers, *top, f64::from_bits(block.counts[row])).max(*least);
            }
            for row in bits(hot) {
                let given = &mut given[block.touched(row).slot];
                *given = of[row].max(*given).min(workers);
                of[row] = *given;
            }
        } else {
            given.resize(self.sketch.len(), 0);
            for row in bits(fresh | hot) {
                let Touched { slot, fresh } = block.touched(row);
                if fresh {
                    given[slot] = 0;
                }
                if hot >> row & 1 == 1 {
                    of[row] = heat(&mut given[slot], block.counts[row]);
                }
            }
        }
    }

    /// The inter-epoch decay. Counts are rounded down to sixteenths of a typical weight, so that rare keys stay equal
    /// and the smallest counter is found without a search.
    #[cold]
    fn end_epoch(&mut self) {
        let (messages, weight) = std::mem::take(&mut self.state.epoch);
        if self.earlier.is_finite() {
            self.earlier = (self.earlier + messages as f64) * self.decay;
        }
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
    fn look(&mut self, workers: u32) {
        let inverse = self.inverse(workers);
        let beyond = self.sketch.total() * self.beyond_chance(inverse, self.state.epoch.0 as f64);
        let state = &mut self.state;
        state.next = state.position + 1 + (state.position / 8).min(self.epoch_messages / 4);
        let (counts, total) = (self.sketch.amounts(), self.sketch.total());
        let (mut sum, mut number, mut top) = (0.0, 0u32, 0);
        vectorised(
            #[inline(always)]
            || {
                for counts in counts.chunks(BLOCK) {
                    let mut hot = 0;
                    for (place, &count) in counts.iter().enumerate() {
                        // The bits of non-negative numbers sort like the numbers.
                        top = top.max(count);
                        hot |= u64::from(f64::from_bits(count) * inverse > beyond) << place;
                    }
                    number += hot.count_ones();
                    for place in bits(hot) {
                        sum += f64::from_bits(counts[place]);
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
        let mut spreads = Spreads::default();
        self.clone().count(workers, &[hash.0], None, &mut spreads);
        spreads.of[0]
    }

    pub(super) fn save(&self) -> Saved {
        Saved(self.sketch.save(), self.state.clone(), self.earlier)
    }

    pub(super) fn restore(&mut self, Saved(sketch, state, earlier): Saved) -> Result<()> {
        self.sketch.restore(sketch)?;
        let sane = |number: f64| number >= 0.0;
        let State { position, epoch, next, top, least, ref given } = state;
        checked_count(position)?;
        // No key is hot before the head is first evaluated.
        let looked = least >= 2 || position >= next;
        if given.len() != self.sketch.len()
            || !(sane(epoch.1) && sane(top) && sane(earlier) && looked)
            || epoch.0 > self.epoch_messages
            || next > position + 1 + self.epoch_messages / 4
        {
            return Err(Error::damaged("its hot keys do not fit their counters"));
        }
        self.sketch.become_fractional();
        (self.state, self.earlier) = (state, earlier);
        Ok(())
    }
}

/// The places of the bits that are set, from the lowest one on.
#[inline(always)]
fn bits(mut word: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let bit = word.trailing_zeros() as usize;
        let more = word != 0;
        word &= word.wrapping_sub(1);
        more.then_some(bit % BLOCK)
    })
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
    use std::collections::BTreeSet;

    use super::*;
    use crate::hash::KeyHasher;

    fn count(keys: &mut HotKeys, hash: u64) {
        keys.count(10, &[hash], None, &mut Spreads::default());
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
    fn rare_keys_are_not_hot_by_chance() {
        let draws = KeyHasher::new(0);
        // A hundredth of the messages have one key, the others one of 10,000.
        let hashes: Vec<u64> = (0..50_000)
            .map(|row| draws.whole(row))
            .map(|draw| if draw % 100 == 0 { 0 } else { 1 + draw % 10_000 })
            .collect();
        let hot = |deviations| {
            let params = Params { workers: 128, deviations, ..Params::default() };
            let (mut keys, mut spreads, mut hot) =
                (HotKeys::new(&params).unwrap(), Spreads::default(), BTreeSet::new());
            for (message, hash) in hashes.iter().enumerate() {
                keys.count(128, &[*hash], None, &mut spreads);
                // Of the first messages all are hot.
                if message > 1_000 && spreads.of[0] > 2 {
                    hot.insert(*hash);
                }
            }
            hot
        };
        assert_eq!(hot(3.0), BTreeSet::from([0]));
        assert!(hot(0.0).len() > 100);
    }

    #[test]
    fn keys_counted_together_are_classified_as_one_by_one() {
        let draws = KeyHasher::new(0);
        for (capacity, keys) in [(2, 4), (5, 9), (20, 60)] {
            // Some keys are hotter than others.
            let hashes: Vec<u64> = (0..4000).map(|row| draws.whole(row)).map(|draw| draw % (1 + draw % keys)).collect();
            let params = Params { workers: 40, sketch_capacity: capacity, decay: 0.5, ..Params::default() };
            let (mut one, mut other) = (HotKeys::new(&params).unwrap(), HotKeys::new(&params).unwrap());
            let (mut spreads, mut start) = (Spreads::default(), 0);
            while start < hashes.len() {
                let rows = one.count(40, &hashes[start..], None, &mut spreads);
                for (row, hash) in hashes[start..start + rows].iter().enumerate() {
                    let mut single = Spreads::default();
                    assert_eq!(other.count(40, &[*hash], None, &mut single), 1);
                    assert_eq!(spreads.of[row], single.of[0], "message {} of {keys} keys", start + row);
                }
                start += rows;
            }
            assert_eq!(one.state.given, other.state.given);
        }
    }

    #[test]
    fn absurd_numbers_are_refused() {
        let params = Params { workers: 10, sketch_capacity: 5, epoch_messages: 10, ..Params::default() };
        let mut keys = HotKeys::new(&params).unwrap();
        for _ in 0..7 {
            count(&mut keys, 1);
        }
        let damages: [fn(&mut State, &mut f64); 9] = [
            |state, _| (state.position, state.next, state.least) = (6, 7, 0),
            |state, _| (state.position, state.next, state.least) = (6, 7, 1),
            |state, _| state.position = u64::MAX,
            |state, _| state.next = u64::MAX,
            |state, _| state.epoch.0 = 11,
            |state, _| state.epoch.1 = f64::NAN,
            |state, _| state.top = -1.0,
            |state, _| state.given.push(1),
            |_, earlier| *earlier = f64::NAN,
        ];
        for damage in damages {
            let Saved(sketch, mut state, mut earlier) = keys.save();
            damage(&mut state, &mut earlier);
            assert!(HotKeys::new(&params).unwrap().restore(Saved(sketch, state, earlier)).is_err());
        }
        HotKeys::new(&params).unwrap().restore(keys.save()).unwrap();
    }
}

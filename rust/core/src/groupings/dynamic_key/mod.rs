//! Dynamic Key Grouping: keys that stay frequent gain workers one by one, and lose them again.
//!
//! DKG paper, section 4: keys advance through three spaces (section 4.1, Algorithms 1 to 3). A key has two workers. An
//! old key whose least loaded worker is overloaded gets the next worker if that one is less loaded, up to the maximum
//! of Table 1; any key drops its last worker when two of its workers are not overloaded (section 4.4, Algorithms 4 to
//! 6). Deviations: the cycles run on the router's clock, before messages, not in a thread; for the others see
//! `docs/groupings/dynamic_key.md`.

mod rows;
mod spaces;

use serde::{Deserialize, Serialize};

use self::rows::Rows;
use self::spaces::{Space, Spaces};
use super::{Grouping, Parameters};
use crate::amount::Scale;
use crate::batch::{BLOCK, Batch};
use crate::error::{Error, Result};
use crate::feedback::Feedback;
use crate::hash::first_candidate;
use crate::params;
use crate::snapshot::{decode, encode};
use crate::state::clock::Clock;
use crate::state::loads::Loads;
use crate::types::{Amount, KeyHash, Source, Worker};

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Params {
    #[serde(deserialize_with = "params::workers")]
    workers: u32,
    #[serde(deserialize_with = "params::seed")]
    seed: u64,
    #[serde(deserialize_with = "params::whole::<1, { 1 << 28 }, _>")]
    expected_keys: u64,
    #[serde(deserialize_with = "params::span")]
    warm_up_s: f64,
    #[serde(deserialize_with = "params::seconds")]
    teenage_interval_s: f64,
    #[serde(deserialize_with = "params::seconds")]
    old_interval_s: f64,
    #[serde(deserialize_with = "params::span")]
    check_interval_s: f64,
    /// Rate of messages routed without a time.
    #[serde(deserialize_with = "params::seconds")]
    messages_per_s: f64,
}

impl Default for Params {
    fn default() -> Self {
        Self {
            workers: 1,
            seed: 0,
            expected_keys: 100,
            warm_up_s: 15.0,
            teenage_interval_s: 15.0,
            old_interval_s: 60.0,
            check_interval_s: 0.0,
            messages_per_s: 1000.0,
        }
    }
}

impl Parameters for Params {
    fn build(&self, _source: Source) -> Result<Box<dyn Grouping>> {
        let workers = self.workers;
        let (limit, most) = limits(workers);
        Ok(Box::new(DynamicKey {
            workers,
            scaling: Scaling { warm_up_s: self.warm_up_s, check_interval_s: self.check_interval_s, limit, most },
            clock: Clock::new(self.messages_per_s),
            teenage: Cycle { interval_s: self.teenage_interval_s, due: None },
            old: Cycle { interval_s: self.old_interval_s, due: None },
            sent: 0.0,
            loads: Loads::new(workers),
            spaces: Spaces::new(self.expected_keys as usize, workers.min(2)),
            rows: Rows::default(),
        }))
    }
}

#[derive(Clone)]
struct DynamicKey {
    workers: u32,
    scaling: Scaling,
    clock: Clock,
    teenage: Cycle,
    old: Cycle,
    /// Sum of all weights.
    sent: f64,
    loads: Loads,
    spaces: Spaces,
    rows: Rows,
}

/// When a key gets another worker.
#[derive(Clone)]
struct Scaling {
    warm_up_s: f64,
    check_interval_s: f64,
    /// L_s: the load, in per cent of the total, from which a worker is overloaded.
    limit: f64,
    /// The most workers of a key.
    most: u32,
}

/// A message, with what was looked up and drawn for its block.
struct Message {
    hash: KeyHash,
    /// Where its key's item may be.
    guess: usize,
    /// Its key's first worker.
    first: Worker,
    weight: Amount,
    time: f64,
}

/// Up to so many workers are compared one by one.
const FEW: u32 = 16;

/// Something that happens periodically.
#[derive(Clone)]
struct Cycle {
    interval_s: f64,
    /// When it is next due, once the router has started.
    due: Option<f64>,
}

/// The load in per cent from which a worker is overloaded, and the most workers of a key (section 4.4, Table 1).
fn limits(workers: u32) -> (f64, u32) {
    let share = 100.0 / f64::from(workers);
    let limit = share + share.sqrt();
    (limit, workers.min((100.0 / limit) as u32 + 1))
}

impl Cycle {
    /// Whether it is due before a message of this time.
    #[inline(always)]
    fn happens(&mut self, start: f64, time: f64) -> bool {
        let due = *self.due.get_or_insert(start + self.interval_s);
        if time < due {
            return false;
        }
        self.due = Some(due + (((time - due) / self.interval_s).floor() + 1.0) * self.interval_s);
        true
    }

    /// Whether it is due before a message of this time, once the router has started.
    #[inline(always)]
    fn is_due(&self, time: f64) -> bool {
        self.due.is_some_and(|due| time >= due)
    }

    fn restore(&mut self, due: Option<f64>) -> Result<()> {
        if due.is_some_and(f64::is_nan) {
            return Err(Error::damaged("a cycle has no valid time"));
        }
        self.due = due;
        Ok(())
    }
}

impl DynamicKey {
    /// Runs the cycles that are due before the next message.
    #[inline(always)]
    fn run_cycles(&mut self, start: f64) {
        let time = self.clock.time();
        if self.teenage.happens(start, time) {
            self.spaces.cut();
            // Few keys are left, in other slots.
            self.rows = Rows::default();
            self.spaces.promote(Space::Baby, Space::Teenage);
        }
        if self.old.happens(start, time) {
            self.spaces.promote(Space::Teenage, Space::Old);
        }
    }

    /// Sends a message before which no cycle is due, of a router that has started at this time.
    #[inline(always)]
    fn send(&mut self, start: f64, scale: Scale, message: &Message) -> Worker {
        let number = scale.number(message.weight);
        let slot = self.spaces.see(message.hash, message.guess, number, message.time);
        let worker = self.scale(start, scale, message, slot);
        self.sent += number;
        self.loads.add(scale, worker, message.weight);
        worker
    }

    /// Algorithms 4 to 6: the least loaded of the key's workers, after scaling the key out or in where due.
    #[inline(always)]
    fn scale(&mut self, start: f64, scale: Scale, message: &Message, slot: usize) -> Worker {
        let &Message { first, time, weight, .. } = message;
        let Scaling { warm_up_s, check_interval_s, limit, most } = self.scaling;
        let item = self.spaces.items[slot];
        let may_grow = item.space == Space::Old && time - start > warm_up_s && time - item.checked >= check_interval_s;
        if item.width == 2 && !may_grow {
            return self.loads.least_of(self.loads.row(first, 2));
        }
        let limit = scale.amount_from((limit * self.sent) / 100.0);
        let mut row = (item.width > FEW).then(|| self.rows.of(slot, first, item.width));
        let (mut width, mut checked) = (item.width, item.checked);
        let best = loop {
            let best = match &mut row {
                Some(row) => row.least(&self.loads),
                None => self.loads.least_of(self.loads.row(first, width)),
            };
            let load = self.loads.of(best);
            if load >= limit {
                // None of the others is below the limit either.
                if may_grow && width < most {
                    checked = time;
                    let next = self.loads.nth(first, width);
                    let least = self.loads.of(next);
                    if least < load {
                        row.into_iter().for_each(|row| row.widen(next, scale.sum(least, weight), limit));
                        width += 1;
                        break next;
                    }
                }
                break best;
            }
            let two_below = match &mut row {
                _ if width <= 2 => false,
                Some(row) => row.two_below(&self.loads, best, limit),
                None => self.loads.two_below(first, width, limit),
            };
            if !two_below {
                break best;
            }
            width -= 1;
            row.iter_mut().for_each(|row| row.narrow());
        };
        let item = &mut self.spaces.items[slot];
        (item.width, item.checked) = (width, checked);
        best
    }
}

impl Grouping for DynamicKey {
    fn route(&mut self, batch: &Batch, workers: &mut [u32]) {
        let pace = self.clock.expect(batch.now);
        let start = self.clock.start();
        let scale = self.loads.expect(batch.hashes.len(), batch.weights);
        let [mut guesses, mut firsts] = [[0; BLOCK]; 2];
        batch.blocks(
            scale,
            workers,
            #[inline(always)]
            |scale, hashes, weights, workers| {
                self.spaces.guess(hashes, &mut guesses);
                for (first, &hash) in firsts.iter_mut().zip(hashes) {
                    *first = first_candidate(KeyHash(hash), self.workers).0;
                }
                let mut row = 0;
                while row < hashes.len() {
                    self.run_cycles(start);
                    // The clock does not go back: if no cycle is due by the last message, none is before.
                    let last = self.clock.time_after(hashes.len() - 1 - row, pace);
                    let is_due = self.teenage.is_due(last) || self.old.is_due(last);
                    let end = if is_due { row + 1 } else { hashes.len() };
                    for row in row..end {
                        let message = Message {
                            hash: KeyHash(hashes[row]),
                            guess: guesses[row] as usize,
                            first: Worker(firsts[row]),
                            weight: scale.amount(weights.map_or(1.0, |weights| weights[row])),
                            time: self.clock.message(pace),
                        };
                        workers[row] = self.send(start, scale, &message).0;
                    }
                    row = end;
                }
            },
        );
    }

    fn candidates(&self, hash: KeyHash) -> Vec<u32> {
        let mut after = self.clone();
        after.route(&Batch::unit(&[hash.0]), &mut [0]);
        let width = after.spaces.find(hash).map_or(1, |slot| after.spaces.items[slot].width);
        self.loads.row(first_candidate(hash, self.workers), width).map(|worker| worker.0).collect()
    }

    fn loads(&self) -> Vec<f64> {
        self.loads.numbers()
    }

    fn max_workers_per_key(&self) -> u32 {
        self.scaling.most
    }

    fn observe(&mut self, feedback: &Feedback) {
        self.clock.observe(feedback.now);
    }

    fn save(&self) -> Vec<u8> {
        let cycles = (self.teenage.due, self.old.due);
        encode(&(self.clock.save(), cycles, self.sent, self.loads.save(), self.spaces.save()))
    }

    fn restore(&mut self, state: &[u8]) -> Result<()> {
        let (clock, (teenage_due, old_due), sent, loads, (hashes, items)) = decode(state)?;
        self.clock.restore(clock)?;
        self.teenage.restore(teenage_due)?;
        self.old.restore(old_due)?;
        self.sent = Some(sent).filter(|&sent| sent >= 0.0).ok_or_else(|| Error::damaged("its messages have no sum"))?;
        self.loads.restore(loads)?;
        self.rows = Rows::default();
        self.spaces.restore(hashes, items, self.scaling.most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::KeyHasher;

    fn router(workers: u32) -> Box<dyn Grouping> {
        let params = Params {
            workers,
            expected_keys: 20,
            warm_up_s: 1.0,
            teenage_interval_s: 2.0,
            old_interval_s: 3.0,
            messages_per_s: 100.0,
            ..Params::default()
        };
        params.build(Source(0)).unwrap()
    }

    /// Skewed hashes: one key has every other message, one of the next every fourth, and so on.
    fn skewed(messages: i64) -> Vec<u64> {
        let keys = KeyHasher::new(5);
        let key = |draw: u64| i64::from(draw.trailing_zeros()) * 10 + (draw >> 60) as i64;
        (0..messages).map(|message| keys.whole(key(keys.whole(message)))).collect()
    }

    #[test]
    fn limits_are_those_of_table_1() {
        let table = [(5, 24.47, 5), (10, 13.16, 8), (20, 7.24, 14), (50, 3.41, 30), (100, 2.00, 51)];
        for (workers, limit, most) in table {
            let ours = limits(workers);
            assert!((ours.0 - limit).abs() < 0.005, "{workers} workers: {}", ours.0);
            assert_eq!(ours.1, most, "{workers} workers");
        }
        assert_eq!(limits(1).1, 1);
        assert_eq!(limits(2).1, 2);
    }

    #[test]
    fn a_cycle_is_due_at_multiples_of_its_interval() {
        let mut cycle = Cycle { interval_s: 15.0, due: None };
        let happened = [5.0, 19.9, 20.0, 20.0, 34.9, 71.0, 79.9, 80.0].map(|time| cycle.happens(5.0, time));
        assert_eq!(happened, [false, false, true, false, false, true, false, true]);
    }

    #[test]
    fn a_frequent_key_scales_out_when_it_is_old_and_down_when_it_cools() {
        let hot = KeyHasher::new(0).whole(1);
        let mut router = router(10);
        let mut route = |hashes: &[u64]| {
            let mut workers = vec![0; hashes.len()];
            router.route(&Batch::unit(hashes), &mut workers);
            workers.sort_unstable();
            workers.dedup();
            (router.candidates(KeyHash(hot)).len(), workers.len())
        };
        // It becomes teenage after 2 s and old after 3 s.
        assert_eq!(route(&[hot; 299]), (2, 2), "the key is not old yet");
        let (width, used) = route(&[hot; 2000]);
        assert!(width > 2);
        assert_eq!(used, 8, "Table 1 has at most 8 of 10 workers");
        let others: Vec<u64> = (2..20_000).map(|key| KeyHasher::new(0).whole(key)).collect();
        route(&others);
        assert_eq!(route(&[hot]).0, 2, "the key is rare by now");
    }

    #[test]
    fn snapshots_continue_exactly() {
        let hashes = skewed(3000);
        let weights: Vec<f64> = hashes.iter().map(|hash| (hash % 5) as f64 / 4.0).collect();
        for weights in [None, Some(&weights[..])] {
            for cut in [0, 1, 150, 301, 1200] {
                let part = |from: usize, to: usize| Batch {
                    hashes: &hashes[from..to],
                    weights: weights.map(|weights| &weights[from..to]),
                    now: None,
                };
                let mut whole = vec![0; 3000];
                router(7).route(&part(0, 3000), &mut whole);
                let mut parts = vec![0; 3000];
                let (mut first, mut second) = (router(7), router(7));
                if cut > 0 {
                    first.route(&part(0, cut), &mut parts[..cut]);
                }
                second.restore(&first.save()).unwrap();
                second.route(&part(cut, 3000), &mut parts[cut..]);
                assert_eq!(parts, whole, "cut at {cut}");
            }
        }
    }

    #[test]
    fn damaged_cycles_are_refused() {
        let mut cycle = Cycle { interval_s: 1.0, due: None };
        assert!(cycle.restore(Some(f64::NAN)).is_err());
        assert!(cycle.restore(Some(f64::INFINITY)).is_ok(), "never");
    }
}

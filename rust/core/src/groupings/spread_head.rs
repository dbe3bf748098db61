//! W-Choices and Round-Robin: frequent keys over all workers, all others by two choices.
//!
//! ICDE 2016 paper, Algorithm 1 and section III-B. The two differ in one rule. W-Choices sends a message of a frequent
//! key to the least loaded of all workers: the lowest imbalance of the family. Round-Robin, its baseline, takes the
//! workers in turn: it needs as much memory but ignores the load of the tail. A frequent key's state may end up on
//! every worker.

use std::hint::select_unpredictable;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::parts::choices::Choices;
use super::parts::head::Head;
use super::parts::turn::Turn;
use super::{Grouping, Parameters};
use crate::amount::Scale;
use crate::batch::Batch;
use crate::error::Result;
use crate::params;
use crate::sketch::{Block, SpaceSaving};
use crate::snapshot::{decode, encode};
use crate::state::loads::Loads;
use crate::types::{Amount, KeyHash, Source, Worker};

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Params {
    #[serde(deserialize_with = "params::workers")]
    workers: u32,
    #[serde(deserialize_with = "params::seed")]
    seed: u64,
    /// theta; default 1/(5n).
    #[serde(deserialize_with = "params::threshold")]
    threshold: Option<f64>,
    /// Default: as many counters as the threshold needs.
    #[serde(deserialize_with = "params::optional_whole::<1, { SpaceSaving::MAX_CAPACITY }, _>")]
    sketch_capacity: Option<u64>,
    /// Whether a key's candidates must differ.
    #[serde(deserialize_with = "params::boolean")]
    distinct: bool,
}

impl Default for Params {
    fn default() -> Self {
        Self { workers: 1, seed: 0, threshold: None, sketch_capacity: None, distinct: false }
    }
}

impl Params {
    fn head(&self) -> Result<Head> {
        Head::new(self.workers, self.threshold, self.sketch_capacity)
    }

    fn build<R: Rule + 'static>(&self, rule: R) -> Result<Box<dyn Grouping>> {
        let choices = Choices::new(self.workers, self.distinct);
        Ok(Box::new(SpreadHead { choices, head: self.head()?, rule, loads: Loads::new(self.workers) }))
    }
}

/// W-Choices.
#[derive(Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct WChoices(Params);

impl Parameters for WChoices {
    fn check(&self) -> Result<()> {
        self.0.head().map(drop)
    }

    fn build(&self, _source: Source) -> Result<Box<dyn Grouping>> {
        self.0.build(LeastLoaded)
    }
}

/// Round-Robin head.
#[derive(Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct RoundRobin(Params);

impl Parameters for RoundRobin {
    fn check(&self) -> Result<()> {
        self.0.head().map(drop)
    }

    fn build(&self, source: Source) -> Result<Box<dyn Grouping>> {
        self.0.build(Turn::new(self.0.workers, self.0.seed, source))
    }
}

/// Which worker takes a message of a frequent key.
trait Rule: Send {
    /// Its part of a snapshot.
    type Saved: Serialize + DeserializeOwned;

    /// Chooses the worker, and adds the message to its load.
    fn send(&mut self, loads: &mut Loads, scale: Scale, weight: Amount) -> Worker;

    /// Routes messages of weight 1 that count as whole numbers, those of frequent keys as [`Rule::send`] does; bit i of
    /// `frequent` stands for message i. Returns false, and does nothing, if there were other weights before.
    fn send_all(
        &mut self,
        loads: &mut Loads,
        choices: &Choices,
        hashes: &[u64],
        frequent: u64,
        workers: &mut [u32],
    ) -> bool;

    /// The workers that may be next.
    fn candidates(&self, workers: u32) -> Vec<u32>;

    fn save(&self) -> Self::Saved;

    fn restore(&mut self, saved: Self::Saved);
}

/// The least loaded of all.
struct LeastLoaded;

impl Rule for LeastLoaded {
    type Saved = ();

    #[inline(always)]
    fn send(&mut self, loads: &mut Loads, scale: Scale, weight: Amount) -> Worker {
        loads.add_to_least(scale, weight)
    }

    #[inline(always)]
    fn send_all(
        &mut self,
        loads: &mut Loads,
        choices: &Choices,
        hashes: &[u64],
        frequent: u64,
        workers: &mut [u32],
    ) -> bool {
        let [firsts, seconds] = choices.pairs(hashes);
        loads.rising(
            #[inline(always)]
            |loads| {
                // Where there are many of both kinds, which is next is hard to predict.
                if (16..=48).contains(&frequent.count_ones()) {
                    return loads.grow_mixed(frequent, &firsts, &seconds, workers);
                }
                for (row, ((worker, first), second)) in workers.iter_mut().zip(firsts).zip(seconds).enumerate() {
                    *worker = if frequent >> row & 1 == 1 {
                        loads.grow_first() as u32
                    } else {
                        loads.grow_lesser(first as usize, second as usize) as u32
                    };
                }
            },
        )
    }

    fn candidates(&self, workers: u32) -> Vec<u32> {
        (0..workers).collect()
    }

    fn save(&self) {}

    fn restore(&mut self, (): ()) {}
}

/// In round-robin order.
impl Rule for Turn {
    type Saved = u32;

    #[inline(always)]
    fn send(&mut self, loads: &mut Loads, scale: Scale, weight: Amount) -> Worker {
        let worker = self.take();
        loads.add(scale, worker, weight);
        worker
    }

    #[inline(always)]
    fn send_all(
        &mut self,
        loads: &mut Loads,
        choices: &Choices,
        hashes: &[u64],
        frequent: u64,
        workers: &mut [u32],
    ) -> bool {
        let ([firsts, seconds], mut loads) = (choices.pairs(hashes), loads.unranked());
        for (row, ((worker, first), second)) in workers.iter_mut().zip(firsts).zip(seconds).enumerate() {
            // Which keys are frequent is hard to predict: a frequent key's two choices are the worker whose turn it is.
            let is_frequent = frequent >> row & 1 == 1;
            let turn = self.take_if(is_frequent);
            let choice = |choice| select_unpredictable(is_frequent, turn, Worker(choice));
            *worker = loads.add_to_lesser(Scale::Whole, choice(first), choice(second), Amount(1)).0;
        }
        true
    }

    fn candidates(&self, _workers: u32) -> Vec<u32> {
        vec![self.next().0]
    }

    fn save(&self) -> u32 {
        self.next().0
    }

    fn restore(&mut self, next: u32) {
        Turn::restore(self, Worker(next));
    }
}

struct SpreadHead<R> {
    choices: Choices,
    head: Head,
    rule: R,
    loads: Loads,
}

impl<R: Rule> Grouping for SpreadHead<R> {
    fn route(&mut self, batch: &Batch, workers: &mut [u32]) {
        let scale = self.loads.expect(batch.hashes.len(), batch.weights);
        self.head.sketch.expect(batch.hashes.len(), batch.weights);
        let Self { choices, head, rule, loads } = self;
        let mut block = Block::default();
        batch.parts(
            scale,
            workers,
            #[inline(always)]
            |scale, hashes, weights, workers| {
                let (rows, frequent) = head.count(scale, hashes, weights, &mut block);
                let is_plain = scale == Scale::Whole && weights.is_none();
                if is_plain && rule.send_all(loads, choices, &hashes[..rows], frequent, &mut workers[..rows]) {
                    return rows;
                }
                for (row, (worker, &hash)) in workers.iter_mut().zip(hashes).take(rows).enumerate() {
                    let weight = scale.amount(weights.map_or(1.0, |weights| weights[row]));
                    *worker = if frequent >> row & 1 == 1 {
                        rule.send(loads, scale, weight).0
                    } else {
                        let (first, second) = choices.pair(KeyHash(hash));
                        loads.add_to_lesser(scale, first, second, weight).0
                    };
                }
                rows
            },
        );
    }

    fn candidates(&self, hash: KeyHash) -> Vec<u32> {
        if let (_, true) = self.head.after(hash) {
            self.rule.candidates(self.choices.workers)
        } else {
            self.choices.list(hash, 2)
        }
    }

    fn loads(&self) -> Vec<f64> {
        self.loads.numbers()
    }

    fn save(&self) -> Vec<u8> {
        encode(&(self.rule.save(), self.loads.save(), self.head.sketch.save()))
    }

    fn restore(&mut self, state: &[u8]) -> Result<()> {
        let (rule, loads, sketch) = decode(state)?;
        self.rule.restore(rule);
        self.head.sketch.restore(sketch)?;
        self.loads.restore(loads)
    }
}

//! Distribution-aware key grouping: learn the key distribution, then plan a worker per key.
//!
//! Rivetti, Querzoni, Anceaume, Busnel, Sericola: Efficient Key Grouping for Near-Optimal Load Balancing in Stream
//! Processing Systems (DEBS 2015). Heavy hitters are placed one by one, all other keys by hash bucket; largest first,
//! each to the least loaded worker. Deviations: key grouping is used during learning; the bucket hash is keysplit's
//! own.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use serde::{Deserialize, Deserializer, Serialize};

use super::{Grouping, Parameters};
use crate::batch::Batch;
use crate::error::{Error, Result};
use crate::hash::{Places, first_candidate, first_candidates, vectorised};
use crate::params;
use crate::sketch::{Index, SavedSketch, SpaceSaving};
use crate::snapshot::{decode, encode};
use crate::state::loads::Loads;
use crate::types::{KeyHash, Source};

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Params {
    #[serde(deserialize_with = "params::workers")]
    workers: u32,
    #[serde(deserialize_with = "params::seed")]
    seed: u64,
    #[serde(deserialize_with = "params::whole::<1, { 1 << 53 }, _>")]
    learning_messages: u64,
    /// theta; default 1/(5n).
    #[serde(deserialize_with = "threshold")]
    threshold: Option<f64>,
    /// Default 2n.
    #[serde(deserialize_with = "params::optional_whole::<1, { 1 << 26 }, _>")]
    buckets: Option<u64>,
}

impl Default for Params {
    fn default() -> Self {
        Self { workers: 1, seed: 0, learning_messages: 10000, threshold: None, buckets: None }
    }
}

impl Parameters for Params {
    fn build(&self, _source: Source) -> Result<Box<dyn Grouping>> {
        let inverse = self.threshold.map_or(5.0 * f64::from(self.workers), f64::recip);
        let buckets = self.buckets.map_or(2 * self.workers, |buckets| buckets as u32);
        Ok(Box::new(DistributionAware {
            workers: self.workers,
            learning_messages: self.learning_messages,
            inverse,
            buckets,
            places: Places::new(self.seed, 9, buckets),
            loads: Loads::new(self.workers),
            phase: Phase::Learning(Learning {
                left: self.learning_messages,
                sketch: new_sketch(inverse)?,
                buckets: vec![0.0; buckets as usize],
            }),
        }))
    }
}

/// A threshold that the largest sketch can resolve, or none.
fn threshold<'de, D: Deserializer<'de>>(given: D) -> Result<Option<f64>, D::Error> {
    let least = 2.0 / SpaceSaving::MAX_CAPACITY as f64;
    let accepts = |theta| (least..=1.0).contains(&theta);
    params::optional(given, |value| params::number_of(&format!("in {least:?}..=1"), accepts, value))
}

struct DistributionAware {
    workers: u32,
    learning_messages: u64,
    /// 1 / theta.
    inverse: f64,
    /// The number of buckets, and the bucket of a key.
    buckets: u32,
    places: Places,
    loads: Loads,
    phase: Phase,
}

enum Phase {
    Learning(Learning),
    Planned(Assignment),
}

/// What has been learnt of the distribution so far.
struct Learning {
    /// Messages still to learn from.
    left: u64,
    sketch: SpaceSaving,
    /// Sum of the weights of each bucket's keys.
    buckets: Vec<f64>,
}

/// A worker for every key.
struct Assignment {
    /// Heavy hitters, their workers, and their index.
    hashes: Vec<u64>,
    workers: Vec<u32>,
    index: Index,
    /// The worker of each bucket.
    buckets: Vec<u32>,
}

#[derive(Serialize, Deserialize)]
enum SavedPhase {
    Learning { left: u64, sketch: SavedSketch, buckets: Vec<f64> },
    Planned { hashes: Vec<u64>, workers: Vec<u32>, buckets: Vec<u32> },
}

/// Counts keys with an error of at most theta / 2.
fn new_sketch(inverse: f64) -> Result<SpaceSaving> {
    SpaceSaving::new((2.0 * inverse).ceil() as u64)
}

impl Learning {
    /// Learns from the first messages of a batch; returns from how many.
    fn count(&mut self, batch: &Batch, places: &Places) -> usize {
        let messages = self.left.min(batch.hashes.len() as u64) as usize;
        let (hashes, weights) = (&batch.hashes[..messages], batch.weights.map(|weights| &weights[..messages]));
        self.left -= messages as u64;
        self.sketch.update(hashes, weights, |_, _| {});
        for (row, &hash) in hashes.iter().enumerate() {
            self.buckets[places.first(KeyHash(hash))] += weights.map_or(1.0, |weights| weights[row]);
        }
        messages
    }

    /// Places heavy hitters and buckets, largest first, each on the least loaded worker so far.
    fn plan(&self, workers: u32, inverse: f64, places: &Places) -> Assignment {
        let mut buckets = self.buckets.clone();
        let (mut hashes, mut parts) = (Vec::new(), Vec::new());
        for (slot, &hash) in self.sketch.hashes().iter().enumerate() {
            let count = self.sketch.count(slot);
            if count * inverse >= self.sketch.total() {
                let bucket = &mut buckets[places.first(KeyHash(hash))];
                *bucket = (*bucket - count).max(0.0);
                parts.push((count, hashes.len()));
                hashes.push(hash);
            }
        }
        let heavy = hashes.len();
        parts.extend(buckets.iter().enumerate().map(|(bucket, &count)| (count, heavy + bucket)));
        parts.sort_by(|(one, _), (other, _)| other.total_cmp(one));
        // The bits of non-negative doubles sort like the numbers.
        let mut sums: BinaryHeap<_> = (0..workers).map(|worker| Reverse((0u64, 0u32, worker))).collect();
        let mut chosen = vec![0; parts.len()];
        for (count, part) in parts {
            if let Some(mut least) = sums.peek_mut() {
                let Reverse((sum, parts, worker)) = &mut *least;
                chosen[part] = *worker;
                *sum = (f64::from_bits(*sum) + count).to_bits();
                *parts += 1;
            }
        }
        let buckets = chosen.split_off(heavy);
        Assignment { index: Index::new(&hashes), hashes, workers: chosen, buckets }
    }
}

impl Assignment {
    #[inline(always)]
    fn worker(&self, hash: KeyHash, places: &Places) -> u32 {
        match self.index.find(hash.0, &self.hashes) {
            Some(slot) => self.workers[slot],
            None => self.buckets[places.first(hash)],
        }
    }
}

impl Grouping for DistributionAware {
    fn route(&mut self, batch: &Batch, workers: &mut [u32]) {
        let mut learnt = 0;
        if let Phase::Learning(learning) = &mut self.phase {
            learnt = learning.count(batch, &self.places);
            first_candidates(&batch.hashes[..learnt], self.workers, &mut workers[..learnt]);
            if learning.left == 0 {
                self.phase = Phase::Planned(learning.plan(self.workers, self.inverse, &self.places));
            }
        }
        if let Phase::Planned(plan) = &self.phase {
            vectorised(
                #[inline(always)]
                || {
                    for (worker, &hash) in workers.iter_mut().zip(batch.hashes).skip(learnt) {
                        *worker = plan.worker(KeyHash(hash), &self.places);
                    }
                },
            );
        }
        batch.sent(&mut self.loads, workers);
    }

    fn candidates(&self, hash: KeyHash) -> Vec<u32> {
        match &self.phase {
            Phase::Learning(_) => vec![first_candidate(hash, self.workers).0],
            Phase::Planned(plan) => vec![plan.worker(hash, &self.places)],
        }
    }

    fn loads(&self) -> Vec<f64> {
        self.loads.numbers()
    }

    /// The first candidate during learning, the planned worker afterwards.
    fn max_workers_per_key(&self) -> u32 {
        self.workers.min(2)
    }

    fn save(&self) -> Vec<u8> {
        let phase = match &self.phase {
            Phase::Learning(learning) => SavedPhase::Learning {
                left: learning.left,
                sketch: learning.sketch.save(),
                buckets: learning.buckets.clone(),
            },
            Phase::Planned(plan) => SavedPhase::Planned {
                hashes: plan.hashes.clone(),
                workers: plan.workers.clone(),
                buckets: plan.buckets.clone(),
            },
        };
        encode(&(phase, self.loads.save()))
    }

    fn restore(&mut self, state: &[u8]) -> Result<()> {
        let damaged = || Error::damaged("its plan does not fit its parameters");
        let (phase, loads) = decode(state)?;
        self.loads.restore(loads)?;
        self.phase = match phase {
            SavedPhase::Learning { left, sketch: saved, buckets } => {
                if !(1..=self.learning_messages).contains(&left)
                    || buckets.len() != self.buckets as usize
                    || !buckets.iter().all(|&sum| sum >= 0.0)
                {
                    return Err(damaged());
                }
                let mut sketch = new_sketch(self.inverse)?;
                sketch.restore(saved)?;
                Phase::Learning(Learning { left, sketch, buckets })
            }
            SavedPhase::Planned { hashes, workers, buckets } => {
                let index = Index::new(&hashes);
                if hashes.len() != workers.len()
                    || buckets.len() != self.buckets as usize
                    || workers.iter().chain(&buckets).any(|&worker| worker >= self.workers)
                    || !index.tells_apart(&hashes)
                {
                    return Err(damaged());
                }
                Phase::Planned(Assignment { hashes, workers, index, buckets })
            }
        };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::KeyHasher;

    #[test]
    fn the_plan_gives_the_largest_part_to_the_emptiest_worker() {
        let keys = KeyHasher::new(0);
        let places = Places::new(0, 9, 6);
        // 40 messages of one key, 20 of another, and 30 keys of one message.
        let hashes: Vec<u64> = (0..90).map(|at| keys.whole([0, 0, 0, 0, 1, 1, at, at, at][at as usize % 9])).collect();
        let mut learning = Learning { left: 90, sketch: new_sketch(10.0).unwrap(), buckets: vec![0.0; 6] };
        assert_eq!(learning.count(&Batch::unit(&hashes), &places), 90);
        let all = learning.buckets.clone();
        let plan = learning.plan(3, 10.0, &places);

        let heavy = [keys.whole(0), keys.whole(1)];
        assert_eq!(plan.hashes[..2], heavy);
        let mut parts: Vec<(f64, usize)> =
            (0..plan.hashes.len()).map(|slot| (learning.sketch.count(slot), slot)).collect();
        assert_eq!([parts[0].0, parts[1].0], [40.0, 20.0]);
        for (bucket, &sum) in all.iter().enumerate() {
            let inside = (0..plan.hashes.len()).filter(|&slot| places.first(KeyHash(plan.hashes[slot])) == bucket);
            let rest = inside.fold(sum, |rest, slot| (rest - learning.sketch.count(slot)).max(0.0));
            parts.push((rest, plan.hashes.len() + bucket));
        }
        parts.sort_by(|one, other| other.0.total_cmp(&one.0));
        let mut sums = [0.0; 3];
        for (count, part) in parts {
            let least = (0..3).fold(0, |least, worker| if sums[worker] < sums[least] { worker } else { least });
            let given = plan.workers.get(part).unwrap_or_else(|| &plan.buckets[part - plan.workers.len()]);
            assert_eq!(*given, least as u32);
            sums[least] += count;
        }
    }
}

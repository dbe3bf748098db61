//! FlexD: micro-batches; the more often a key has been split, the more frequent it must be to be split again.
//!
//! FlexD paper, section 4 and Algorithm 1. A segment is counted before any of its messages is assigned, so the first
//! message of a burst already benefits. Deviations: a router is one operator with its own scheduler; a batch is cut
//! into segments and nothing is held back for the next one; a key's first threshold is that of hot keys, not its own
//! frequency; frequencies in a short segment are relative to a full one; a key whose list holds all workers takes the
//! least loaded of all. `observe` passes in what other schedulers have sent.

mod joint_loads;
mod scheduler;
mod tables;

use serde::{Deserialize, Deserializer, Serialize};

use self::scheduler::{SavedScheduler, Scheduler};
use super::parts::head::new_sketch;
use super::{Grouping, Parameters};
use crate::batch::Batch;
use crate::error::{Error, Result};
use crate::feedback::Feedback;
use crate::params::{self, Value};
use crate::sketch::SpaceSaving;
use crate::snapshot::{decode, encode};
use crate::state::clock::{Clock, ClockState};
use crate::types::{KeyHash, Source};

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Params {
    #[serde(deserialize_with = "params::workers")]
    workers: u32,
    #[serde(deserialize_with = "params::seed")]
    seed: u64,
    #[serde(deserialize_with = "params::whole::<1, { 1 << 32 }, _>")]
    segment_messages: u64,
    /// theta; default 1/(20n), 1/(5n) in snapshots before version 3.
    #[serde(deserialize_with = "params::threshold")]
    threshold: Option<f64>,
    /// delta: a key's threshold grows by this factor when it is split.
    #[serde(deserialize_with = "growth")]
    growth: f64,
    /// Default: as many counters as the threshold needs.
    #[serde(deserialize_with = "params::optional_whole::<1, { SpaceSaving::MAX_CAPACITY }, _>")]
    sketch_capacity: Option<u64>,
    /// Keys kept by a cleaning.
    #[serde(deserialize_with = "params::whole::<1, { 1 << 28 }, _>")]
    table_keys: u64,
    #[serde(deserialize_with = "params::seconds")]
    clean_interval_s: f64,
    /// Rate of messages routed without a time.
    #[serde(deserialize_with = "params::seconds")]
    messages_per_s: f64,
}

impl Default for Params {
    fn default() -> Self {
        Self {
            workers: 1,
            seed: 0,
            segment_messages: 10000,
            threshold: None,
            growth: 1.5,
            sketch_capacity: None,
            table_keys: 50000,
            clean_interval_s: 600.0,
            messages_per_s: 1000.0,
        }
    }
}

impl Parameters for Params {
    const VERSION: u32 = 3;

    fn meant(&self, version: u32) -> Option<Self> {
        (version < 3).then(|| self.with_theta(self.former_theta()))
    }

    fn check(&self) -> Result<()> {
        self.sketch().map(drop)
    }

    fn build(&self, _source: Source) -> Result<Box<dyn Grouping>> {
        Ok(Box::new(FlexD {
            clock: Clock::new(self.messages_per_s),
            params: self.clone(),
            scheduler: Scheduler::new(self)?,
        }))
    }
}

impl Params {
    /// theta.
    fn theta(&self) -> f64 {
        self.threshold.unwrap_or(1.0 / (20.0 * f64::from(self.workers)))
    }

    /// theta before version 3.
    fn former_theta(&self) -> f64 {
        self.threshold.unwrap_or(1.0 / (5.0 * f64::from(self.workers)))
    }

    fn with_theta(&self, theta: f64) -> Self {
        Self { threshold: Some(theta), ..self.clone() }
    }

    fn sketch(&self) -> Result<SpaceSaving> {
        new_sketch(self.threshold, self.sketch_capacity, 10.0 / self.theta())
    }
}

fn growth<'de, D: Deserializer<'de>>(given: D) -> Result<f64, D::Error> {
    let accepts = |delta| delta > 1.0 && delta <= 1e6;
    params::number_of("above 1 and at most 1e6", accepts, Value::deserialize(given)?)
}

#[derive(Clone)]
struct FlexD {
    params: Params,
    clock: Clock,
    /// Its theta is that of the parameters, or of the snapshot that it was restored from.
    scheduler: Scheduler,
}

impl FlexD {
    fn segment_messages(&self) -> usize {
        self.params.segment_messages as usize
    }

    fn restore_from(&mut self, theta: f64, clock: ClockState, scheduler: SavedScheduler) -> Result<()> {
        if ![self.params.theta(), self.params.former_theta()].contains(&theta) {
            return Err(Error::damaged("its threshold is not that of its parameters"));
        }
        self.scheduler = Scheduler::new(&self.params.with_theta(theta))?;
        self.clock.restore(clock)?;
        self.scheduler.restore(scheduler)
    }
}

impl Grouping for FlexD {
    fn route(&mut self, batch: &Batch, workers: &mut [u32]) {
        let pace = self.clock.expect(batch.now);
        self.scheduler.begin(self.clock.start());
        let size = self.segment_messages();
        for (messages, workers) in batch.chunks(size).zip(workers.chunks_mut(size)) {
            let time = self.clock.time();
            self.clock.skip(messages.hashes.len(), pace);
            self.scheduler.assign(&messages, time, workers);
        }
    }

    fn candidates(&self, hash: KeyHash) -> Vec<u32> {
        let mut after = self.clone();
        let mut worker = [0];
        after.route(&Batch::unit(&[hash.0]), &mut worker);
        match after.scheduler.list(hash) {
            None => worker.to_vec(),
            Some((list, true)) => list,
            // One message does not make it hot again, a whole segment may.
            Some((list, false)) => {
                let others = list.into_iter().filter(|&other| other != worker[0]);
                worker.into_iter().chain(others).collect()
            }
        }
    }

    fn loads(&self) -> Vec<f64> {
        self.scheduler.loads()
    }

    fn save(&self) -> Vec<u8> {
        encode(&(self.scheduler.theta(), self.clock.save(), self.scheduler.save()))
    }

    fn restore(&mut self, state: &[u8]) -> Result<()> {
        let (theta, clock, scheduler) = decode(state)?;
        self.restore_from(theta, clock, scheduler)
    }

    /// Versions 1 and 2 go on by their default threshold, which they did not save.
    fn restore_older(&mut self, _version: u32, state: &[u8]) -> Result<()> {
        let (clock, scheduler) = decode(state)?;
        self.restore_from(self.params.former_theta(), clock, scheduler)
    }

    fn observe(&mut self, feedback: &Feedback) {
        self.clock.observe(feedback.now);
        if let Some(loads) = feedback.loads {
            self.scheduler.set_other_loads(loads);
        }
    }

    fn segment_messages(&self) -> Option<usize> {
        Some(self.segment_messages())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::{KeyHasher, first_candidate};
    use crate::sketch::SpaceSaving;

    const MESSAGES: usize = 3000;

    fn params(capacity: u64) -> Params {
        Params {
            workers: 7,
            segment_messages: 100,
            sketch_capacity: Some(capacity),
            table_keys: 5,
            clean_interval_s: 6.5,
            messages_per_s: 100.0,
            ..Params::default()
        }
    }

    fn start(params: Params) -> Box<dyn Grouping> {
        params.build(Source(0)).unwrap()
    }

    /// Skewed hashes whose frequent keys change over time.
    fn hashes() -> Vec<u64> {
        let keys = KeyHasher::new(5);
        let key = |message: usize, draw: u64| (message / 700 * 50) as i64 + i64::from(draw.trailing_zeros()) * 3;
        (0..MESSAGES)
            .map(|message| {
                let draw = keys.whole(message as i64);
                keys.whole(if draw >> 62 == 0 { (draw >> 54) as i64 } else { key(message, draw) })
            })
            .collect()
    }

    /// Algorithm 1 as the definition states it.
    struct Naive {
        capacity: u64,
        tables: Vec<(u64, f64, usize, Vec<u32>)>,
        loads: [f64; 7],
        others: [f64; 7],
        clean: f64,
        segments: usize,
    }

    impl Naive {
        fn least(&self, workers: impl IntoIterator<Item = u32>) -> u32 {
            let load = |worker: u32| self.loads[worker as usize] + self.others[worker as usize];
            let better = |best: u32, worker: u32| if load(worker) < load(best) { worker } else { best };
            workers.into_iter().reduce(better).unwrap()
        }

        fn route(&mut self, hashes: &[u64], weights: &[f64], time: f64) -> Vec<u32> {
            if time >= self.clean || self.tables.len() >= 10 {
                self.tables.sort_by(|a, b| b.2.cmp(&a.2).then(b.1.total_cmp(&a.1)).then(a.0.cmp(&b.0)));
                self.tables.truncate(5);
                self.clean = time + 6.5;
            }
            let mut sketch = SpaceSaving::new(self.capacity).unwrap();
            sketch.update(hashes, Some(weights), |_, _| {});
            let theta = 1.0 / 140.0;
            let mut table = Vec::new();
            for (hash, weight) in hashes.iter().zip(weights) {
                let frequency = sketch.estimate(KeyHash(*hash)).0 / sketch.total() * (hashes.len() as f64 / 100.0);
                let at = self.tables.iter().position(|entry| entry.0 == *hash);
                let worker = if frequency < theta {
                    first_candidate(KeyHash(*hash), 7).0
                } else if let Some(at) = at {
                    let (_, threshold, last_hot, list) = &mut self.tables[at];
                    *last_hot = self.segments;
                    if list.len() == 7 {
                        self.least(0..7)
                    } else if frequency < *threshold {
                        let list = list.clone();
                        self.least(list)
                    } else {
                        *threshold *= 1.5;
                        let list = list.clone();
                        let worker = self.least((0..7).filter(|worker| !list.contains(worker)));
                        self.tables[at].3.push(worker);
                        worker
                    }
                } else {
                    let worker = self.least(0..7);
                    self.tables.push((*hash, theta, self.segments, vec![worker]));
                    worker
                };
                self.loads[worker as usize] += weight;
                table.push(worker);
            }
            self.segments += 1;
            table
        }
    }

    #[test]
    fn routes_as_algorithm_1_does() {
        let hashes = hashes();
        let whole = vec![1.0; MESSAGES];
        let fractional: Vec<f64> = hashes.iter().map(|hash| (hash % 7) as f64 / 3.0).collect();
        for (capacity, weights) in [(1000, &whole), (10, &whole), (1000, &fractional), (10, &fractional)] {
            let mut router = start(params(capacity));
            let (loads, others, clean) = ([0.0; 7], [0.0; 7], 6.5);
            let mut naive = Naive { capacity, tables: Vec::new(), loads, others, clean, segments: 0 };
            let mut workers = vec![0; MESSAGES];
            let mut expected = Vec::new();
            for half in [0..1500, 1500..MESSAGES] {
                if half.start > 0 {
                    naive.others = [1.5, 40.0, 0.0, 3.25, 900.0, 2.0, 0.0];
                    router.observe(&Feedback { loads: Some(&naive.others), ..Default::default() });
                }
                let batch = Batch { hashes: &hashes[half.clone()], weights: Some(&weights[half.clone()]), now: None };
                router.route(&batch, &mut workers[half.clone()]);
                for start in half.step_by(100) {
                    let segment = start..start + 100;
                    let time = start as f64 * 0.01;
                    expected.extend(naive.route(&hashes[segment.clone()], &weights[segment], time));
                }
            }
            assert_eq!(workers, expected, "capacity {capacity}");
            assert_eq!(router.loads(), naive.loads);
            let longest = naive.tables.iter().map(|entry| entry.3.len()).max();
            assert!(longest.is_some_and(|length| length > 3), "some key must be split");
        }
    }

    #[test]
    fn cuts_at_ends_of_segments_and_snapshots_change_nothing() {
        let hashes = hashes();
        let mut whole = vec![0; MESSAGES];
        start(params(50)).route(&Batch::unit(&hashes), &mut whole);
        for size in [100, 300, 1000] {
            let mut parts = vec![0; MESSAGES];
            let mut router = start(params(50));
            for (hashes, parts) in hashes.chunks(size).zip(parts.chunks_mut(size)) {
                router.route(&Batch::unit(hashes), parts);
                let saved = router.save();
                router = start(params(50));
                router.restore(&saved).unwrap();
            }
            assert_eq!(parts, whole, "parts of {size}");
        }
    }

    #[test]
    fn a_message_is_a_segment_of_its_own_to_candidates() {
        let hash = KeyHash(KeyHasher::new(0).whole(1));
        let router = start(Params { segment_messages: 141, ..params(50) });
        assert_eq!(router.candidates(hash), [first_candidate(hash, 7).0], "1/141 is not hot");
        let mut router = start(Params { segment_messages: 140, ..params(50) });
        assert_eq!(router.candidates(hash), [0], "1/140 is: the least loaded of all");
        let mut workers = [0; 9];
        router.route(&Batch::unit(&[hash.0; 9]), &mut workers);
        // 9 of 140 are 9 theta: the threshold grew until 1.5^6.
        assert_eq!(router.candidates(hash), [0, 1, 2, 3, 4, 5, 6]);
        assert_eq!(router.segment_messages(), Some(140));
    }
}

//! How FlexD assigns a segment: count it, find the hot keys, then assign message by message.
//!
//! Paper's sections 4.2 to 4.4 and Algorithm 1. The tables and the loads last from segment to segment.

use serde::{Deserialize, Serialize};

use super::Params;
use super::joint_loads::{JointLoads, SavedJointLoads};
use super::tables::{SavedTables, Tables};
use crate::batch::{BLOCK, Batch};
use crate::error::{Error, Result};
use crate::hash::first_candidate;
use crate::sketch::SpaceSaving;
use crate::snapshot::checked_count;
use crate::types::{KeyHash, Worker};

/// The entry of a key that is not hot.
const COLD: u32 = u32::MAX;

/// State between segments, and reused memory.
#[derive(Debug, Clone)]
pub(super) struct Scheduler {
    workers: u32,
    segment_messages: f64,
    clean_interval_s: f64,
    /// When the tables are next cleaned, once the router has started.
    clean: Option<f64>,
    /// Segments so far.
    segments: u64,
    tables: Tables,
    loads: JointLoads,
    sketch: SpaceSaving,
    /// By message of the segment: the slot of the sketch that counted it.
    slots: Vec<u32>,
    /// By slot: the entry of the key that ends up with it.
    routes: Vec<u32>,
    /// The frequency of a key without a counter.
    absent_frequency: f64,
}

/// What [`Scheduler::restore`] needs.
#[derive(Serialize, Deserialize)]
pub(super) struct SavedScheduler {
    clean: Option<f64>,
    segments: u64,
    tables: SavedTables,
    loads: SavedJointLoads,
}

impl Scheduler {
    pub(super) fn new(params: &Params) -> Result<Self> {
        let (workers, most_keys) = (params.workers, params.table_keys as usize);
        Ok(Self {
            workers,
            segment_messages: params.segment_messages as f64,
            clean_interval_s: params.clean_interval_s,
            clean: None,
            segments: 0,
            tables: Tables::new(workers, params.theta(), params.growth, most_keys),
            loads: JointLoads::new(workers),
            sketch: params.sketch()?,
            slots: Vec::new(),
            routes: Vec::new(),
            absent_frequency: 0.0,
        })
    }

    /// The router started at this time, now or earlier.
    pub(super) fn begin(&mut self, start: f64) {
        self.clean.get_or_insert(start + self.clean_interval_s);
    }

    /// Chooses the worker of each message of a segment whose first message arrives at this time.
    pub(super) fn assign(&mut self, messages: &Batch, time: f64, workers: &mut [u32]) {
        self.clean_up(time);
        self.count(messages);
        self.find_routes(messages.hashes.len());
        self.choose(messages, workers);
        self.segments += 1;
    }

    /// Passes in what all other schedulers together have sent to each worker.
    pub(super) fn set_other_loads(&mut self, loads: &[f64]) {
        self.loads.set_others(loads);
    }

    /// The share of a segment from which a key is hot.
    pub(super) fn theta(&self) -> f64 {
        self.tables.threshold
    }

    /// What this scheduler has sent to each worker.
    pub(super) fn loads(&self) -> Vec<f64> {
        self.loads.own()
    }

    /// The workers of a key that was once hot, and whether it was hot in the latest segment.
    pub(super) fn list(&self, hash: KeyHash) -> Option<(Vec<u32>, bool)> {
        let (list, last_hot) = self.tables.list(hash)?;
        Some((list, last_hot + 1 == self.segments))
    }

    pub(super) fn save(&self) -> SavedScheduler {
        SavedScheduler {
            clean: self.clean,
            segments: self.segments,
            tables: self.tables.save(),
            loads: self.loads.save(),
        }
    }

    /// Restores what [`Scheduler::save`] returned.
    pub(super) fn restore(&mut self, saved: SavedScheduler) -> Result<()> {
        if saved.clean.is_some_and(f64::is_nan) {
            return Err(Error::damaged("its next cleaning has no valid time"));
        }
        self.tables.restore(saved.tables, checked_count(saved.segments)?)?;
        (self.clean, self.segments) = (saved.clean, saved.segments);
        self.loads.restore(saved.loads)
    }

    /// Step 1: bounds the size of the tables.
    fn clean_up(&mut self, time: f64) {
        let due = self.clean.is_some_and(|clean| time >= clean);
        if due || self.tables.are_crowded() {
            self.tables.clean();
            self.clean = Some(time + self.clean_interval_s);
        }
    }

    /// Step 2: a sketch of this segment alone.
    fn count(&mut self, messages: &Batch) {
        self.sketch.clear();
        self.slots.clear();
        let slots = &mut self.slots;
        self.sketch.update(
            messages.hashes,
            messages.weights,
            #[inline(always)]
            |_, touched| slots.push(touched.slot as u32),
        );
    }

    /// Finds out which counted keys are hot, and whether keys that lost their counters are.
    fn find_routes(&mut self, messages: usize) {
        let (total, threshold) = (self.sketch.total(), self.tables.threshold);
        let whole = messages as f64 / self.segment_messages;
        let frequency = |count: f64| if total == 0.0 { 0.0 } else { (count / total) * whole };
        let mut least = f64::INFINITY;
        self.routes.clear();
        for (slot, &hash) in self.sketch.hashes().iter().enumerate() {
            let count = self.sketch.count(slot);
            least = least.min(count);
            let frequency = frequency(count);
            // Not the same as `frequency >= threshold`: a key of infinite count has no frequency but is hot.
            let cold = frequency < threshold;
            self.routes.push(if cold { COLD } else { self.tables.heat(KeyHash(hash), frequency, self.segments) });
        }
        self.absent_frequency = frequency(if self.sketch.is_full() { least } else { 0.0 });
    }

    /// Step 3: Algorithm 1, message by message.
    fn choose(&mut self, messages: &Batch, chosen: &mut [u32]) {
        let scale = self.loads.expect(messages.hashes.len(), messages.weights);
        let Self { workers, segments, tables, loads, sketch, slots, routes, absent_frequency, .. } = self;
        let (counted, workers) = (sketch.hashes(), *workers);
        let absent_is_cold = *absent_frequency < tables.threshold;
        let mut slots = &slots[..];
        messages.blocks(
            scale,
            chosen,
            #[inline(always)]
            |scale, hashes, weights, chosen| {
                let (block, others) = slots.split_at(hashes.len());
                slots = others;
                // The reads for a block overlap; a loop that also writes would wait for each.
                let (mut found, mut firsts) = ([COLD; BLOCK], [0; BLOCK]);
                for ((found, &hash), &slot) in found.iter_mut().zip(hashes).zip(block) {
                    let slot = slot as usize;
                    *found = if counted[slot] == hash {
                        routes[slot]
                    } else {
                        // Another key has taken the counter since.
                        match sketch.slot(KeyHash(hash)) {
                            Some(slot) => routes[slot],
                            None if absent_is_cold => COLD,
                            None => tables.heat(KeyHash(hash), *absent_frequency, *segments),
                        }
                    };
                }
                for (first, &hash) in firsts.iter_mut().zip(hashes) {
                    *first = first_candidate(KeyHash(hash), workers).0;
                }
                for (row, ((chosen, &route), &first)) in chosen.iter_mut().zip(&found).zip(&firsts).enumerate() {
                    let worker = if route == COLD { Worker(first) } else { tables.choose(route, loads) };
                    loads.add(scale, worker, scale.amount(weights.map_or(1.0, |weights| weights[row])));
                    *chosen = worker.0;
                }
            },
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn params() -> Params {
        Params {
            workers: 4,
            segment_messages: 8,
            threshold: Some(0.25),
            sketch_capacity: Some(8),
            table_keys: 100,
            clean_interval_s: 10.0,
            ..Params::default()
        }
    }

    fn scheduler(table_keys: u64) -> Scheduler {
        started(&Params { table_keys, ..params() })
    }

    fn started(params: &Params) -> Scheduler {
        let mut scheduler = Scheduler::new(params).unwrap();
        scheduler.begin(0.0);
        scheduler
    }

    fn run(scheduler: &mut Scheduler, hashes: &[u64], time: f64) -> Vec<u32> {
        let mut workers = vec![9; hashes.len()];
        scheduler.assign(&Batch::unit(hashes), time, &mut workers);
        workers
    }

    /// Keys of the first worker of four.
    const HOT: u64 = 5;
    const RARE: [u64; 7] = [10, 11, 12, 13, 14, 15, 16];

    #[test]
    fn a_hot_key_is_split_until_its_threshold_exceeds_its_frequency() {
        let mut scheduler = scheduler(100);
        // The thresholds of 1/4, 3/8, 9/16 and 27/32 are all below 1.
        assert_eq!(run(&mut scheduler, &[HOT; 8], 0.0), [0, 1, 2, 3, 0, 1, 2, 3]);
        assert_eq!(scheduler.segments, 1);
        assert_eq!(scheduler.loads(), [2.0; 4]);
        assert_eq!(scheduler.list(KeyHash(HOT)), Some((vec![0, 1, 2, 3], true)));
    }

    #[test]
    fn the_first_message_of_a_burst_benefits() {
        let mut scheduler = scheduler(100);
        assert_eq!(run(&mut scheduler, &RARE, 0.0), [0; 7]);
        let table = run(&mut scheduler, &[HOT, 10, 11, 12, 13, 14, 15, HOT], 0.0);
        assert_eq!(table, [1, 0, 0, 0, 0, 0, 0, 2], "the least loaded ones; the others by hash");
        assert_eq!(scheduler.list(KeyHash(HOT)), Some((vec![1, 2], true)));
        run(&mut scheduler, &RARE, 0.0);
        assert_eq!(scheduler.list(KeyHash(HOT)), Some((vec![1, 2], false)));
    }

    #[test]
    fn frequency_in_a_short_segment_is_relative_to_a_whole_one() {
        let mut scheduler = scheduler(100);
        assert_eq!(run(&mut scheduler, &[HOT], 0.0), [0]);
        assert_eq!(scheduler.list(KeyHash(HOT)), None, "1 of 8");
        assert_eq!(run(&mut scheduler, &[HOT, HOT], 0.0), [1, 2]);
        assert_eq!(scheduler.list(KeyHash(HOT)), Some((vec![1, 2], true)), "2 of 8");
    }

    #[test]
    fn a_key_whose_counter_was_taken_may_still_be_hot() {
        let mut scheduler = started(&Params { sketch_capacity: Some(1), ..params() });
        // The one counter stands at 3 of 3 in the end: all three keys count as 3 of 8.
        assert_eq!(run(&mut scheduler, &[1, 2, 3], 0.0), [0, 1, 2]);
        assert_eq!(scheduler.list(KeyHash(1)), Some((vec![0], true)));
        assert_eq!(run(&mut scheduler, &[1, 1, 2], 0.0), [3, 1, 0]);
        assert_eq!(scheduler.list(KeyHash(1)), Some((vec![0, 3, 1], true)));
    }

    #[test]
    fn weights_count_and_a_segment_without_weight_has_no_hot_keys() {
        let mut scheduler = scheduler(100);
        let mut run = |weights: &[f64]| {
            let messages = Batch { hashes: &[HOT, 10, 11, 12, 13, 14, 15, 16], weights: Some(weights), now: None };
            let mut workers = vec![9; 8];
            scheduler.assign(&messages, 0.0, &mut workers);
            workers
        };
        assert_eq!(run(&[0.0; 8]), [0; 8]);
        assert_eq!(run(&[0.5; 8]), [0; 8]);
        assert_eq!(run(&[3.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5])[0], 1, "half of the weight");
    }

    #[test]
    fn tables_are_cleaned_when_it_is_time_or_when_they_are_crowded() {
        let mut scheduler = scheduler(1);
        run(&mut scheduler, &[1, 1], 0.0);
        assert_eq!(scheduler.clean, Some(10.0));
        run(&mut scheduler, &[2, 2], 9.9);
        assert_eq!(
            scheduler.tables.list(KeyHash(1)),
            Some((vec![0, 1], 0)),
            "two keys are twice one, but only when looked at"
        );
        run(&mut scheduler, &RARE, 9.9);
        assert_eq!((scheduler.tables.list(KeyHash(1)), scheduler.clean), (None, Some(19.9)), "key 2 was hot later");
        assert_eq!(scheduler.tables.list(KeyHash(2)), Some((vec![2, 3], 1)));
        let mut scheduler = self::scheduler(1);
        run(&mut scheduler, &[1, 1], 10.0);
        assert_eq!(scheduler.clean, Some(20.0), "it was time");
    }

    #[test]
    fn schedulers_that_exchange_loads_avoid_the_same_workers() {
        let (mut one, mut other) = (scheduler(100), scheduler(100));
        assert_eq!(run(&mut one, &[1, 1], 0.0), [0, 1]);
        assert_eq!(run(&mut other, &[2, 2], 0.0), [0, 1], "they do not know of each other");
        let (ours, theirs) = (one.loads(), other.loads());
        one.set_other_loads(&theirs);
        other.set_other_loads(&ours);
        assert_eq!(run(&mut one, &[3, 3], 0.0), [2, 3]);
        assert_eq!(run(&mut other, &[4, 4], 0.0), [2, 3], "what was passed in counts once, not with every segment");
        other.set_other_loads(&one.loads());
        assert_eq!(run(&mut other, &[6, 6, 6, 6], 0.0), [0, 1, 2, 0]);
        assert_eq!(other.loads(), [3.0, 2.0, 2.0, 1.0], "the loads of others are not its own");
    }
}

//! A router: one source's local view of one grouping, with its snapshots.

use serde::{Deserialize, Serialize};

use crate::batch::{Batch, check_weights};
use crate::error::{Error, Result};
use crate::feedback::Feedback;
use crate::groupings::{Entry, Grouping, find};
use crate::params::{Arguments, Value};
use crate::snapshot::{Frame, decode, encode, one_line};
use crate::state::clock::{LATEST, is_time};
use crate::state::members::Members;
use crate::types::{KeyHash, Source, Worker};

/// The state of one source. It never reads a clock, the environment or a shared random generator.
pub struct Router {
    about: About,
    grouping: Box<dyn Grouping>,
}

/// What must match for a snapshot to be restored, and the latest time passed in.
struct About {
    entry: &'static Entry,
    /// As returned by [`Checked::stored`](crate::groupings::Checked::stored).
    params: String,
    source: Source,
    now: Option<f64>,
}

/// Contents of a snapshot besides the grouping and its version, which the frame names.
#[derive(Serialize, Deserialize)]
struct Stored {
    params: String,
    source: u32,
    now: Option<f64>,
    state: Vec<u8>,
}

/// A snapshot of version 1, whose frame does not name the grouping. Parameters are as in `choices=2, distinct=False`.
#[derive(Deserialize)]
struct StoredFirst {
    grouping: String,
    params: String,
    source: u32,
    now: Option<f64>,
    state: Vec<u8>,
}

/// The family of a grouping's snapshots is this and its name.
const FAMILY: &str = "router";

impl Router {
    /// A router that has not routed anything.
    pub fn new(grouping: &str, arguments: &Arguments, source: Source) -> Result<Self> {
        let entry = find(grouping)?;
        let params = entry.read(arguments)?;
        let about = About { entry, params: params.stored(), source, now: None };
        Ok(Self { about, grouping: params.build(source)? })
    }

    /// Chooses a worker for each message. An error leaves the router unchanged.
    pub fn route(&mut self, batch: &Batch, workers: &mut [u32]) -> Result<()> {
        if workers.len() != batch.hashes.len() {
            return Err(Error::Value(format!(
                "workers must have a place for each of the {} messages, got {}",
                batch.hashes.len(),
                workers.len()
            )));
        }
        if let Some(weights) = batch.weights {
            check_weights(weights, batch.hashes.len())?;
        }
        self.advance(batch.now)?;
        if !batch.hashes.is_empty() {
            self.grouping.route(batch, workers);
        }
        Ok(())
    }

    /// Advances the caller's clock.
    pub fn advance(&mut self, now: Option<f64>) -> Result<()> {
        let Some(time) = now else { return Ok(()) };
        let least = self.about.now.unwrap_or(-LATEST);
        if !(least..=LATEST).contains(&time) {
            return Err(Error::Value(format!("now must be in {least:?}..={LATEST:?}, got {}", Value::Number(time))));
        }
        self.about.now = now;
        Ok(())
    }

    /// Takes feedback from the workers. An error leaves the router unchanged.
    pub fn observe(&mut self, feedback: &Feedback) -> Result<()> {
        feedback.check(self.numbers())?;
        self.advance(feedback.now)?;
        self.grouping.observe(feedback);
        Ok(())
    }

    /// Adds a worker and returns its number, the lowest that no present worker has.
    pub fn add_worker(&mut self) -> Result<Worker> {
        let members = self.elastic()?;
        let (more, most) = (u64::from(members.count()) + 1, self.grouping.most_workers());
        if more > most {
            return Err(Error::Value(format!("workers must be in 1..={most}, got {more}")));
        }
        let worker = members.lowest_free();
        self.grouping.add_worker(worker);
        Ok(worker)
    }

    /// Removes a worker; its load is kept.
    pub fn remove_worker(&mut self, worker: Worker) -> Result<()> {
        let members = self.elastic()?;
        if !members.contains(worker) {
            return Err(Error::Value(format!("worker must be the number of a present worker, got {}", worker.0)));
        }
        if members.count() == 1 {
            return Err(Error::Value(format!("worker must not be the last one, got {}", worker.0)));
        }
        self.grouping.remove_worker(worker);
        Ok(())
    }

    fn elastic(&self) -> Result<&Members> {
        self.grouping.members().ok_or_else(|| {
            let (name, workers) = (self.about.entry.name, self.workers());
            Error::Value(format!("{name} has a fixed number of workers, {workers}"))
        })
    }

    /// The number of workers.
    pub fn workers(&self) -> usize {
        self.grouping.members().map_or_else(|| self.grouping.loads().len(), |members| members.count() as usize)
    }

    /// The number of worker numbers ever assigned.
    pub fn numbers(&self) -> usize {
        self.grouping.members().map_or_else(|| self.grouping.loads().len(), Members::numbers)
    }

    /// The numbers of the present workers, ascending.
    pub fn worker_numbers(&self) -> Vec<u32> {
        match self.grouping.members() {
            Some(members) => members.iter().map(|worker| worker.0).collect(),
            None => (0..self.workers() as u32).collect(),
        }
    }

    /// The most workers that a key may currently be sent to.
    pub fn max_workers_per_key(&self) -> u32 {
        self.grouping.max_workers_per_key()
    }

    /// The segment size if the grouping processes whole segments; then results depend on where a stream is cut.
    pub fn segment_messages(&self) -> Option<usize> {
        self.grouping.segment_messages()
    }

    /// The workers that the next message may go to if it has this key and weight 1.
    pub fn candidates(&self, hash: KeyHash) -> Vec<u32> {
        self.grouping.candidates(hash)
    }

    /// What this source has sent to each worker.
    pub fn loads(&self) -> Vec<f64> {
        self.grouping.loads()
    }

    /// The state as bytes; [`Router::from_snapshot`] continues from it exactly.
    pub fn snapshot(&self) -> Vec<u8> {
        let About { entry, params, source, now } = &self.about;
        let stored = Stored { params: params.clone(), source: source.0, now: *now, state: self.grouping.save() };
        let family = format!("{FAMILY} {}", entry.name);
        Frame { family: &family, version: entry.version, payload: &encode(&stored) }.seal()
    }

    /// A router that continues exactly from the snapshot, for the same grouping, parameters and source. The snapshot
    /// may be of an older version; parameters it does not know have their defaults.
    pub fn from_snapshot(grouping: &str, arguments: &Arguments, source: Source, snapshot: &[u8]) -> Result<Self> {
        let mut router = Self::new(grouping, arguments, source)?;
        let frame = Frame::open(snapshot).ok_or_else(|| Error::value(DAMAGED))?;
        let (name, stored) = match frame.family.split_once(' ') {
            Some((FAMILY, name)) => {
                must_agree("grouping", name, router.about.entry.name)?;
                frame.check_version("snapshot", router.about.entry.version)?;
                (name.to_owned(), decode(frame.payload)?)
            }
            None if frame.family == FAMILY => {
                frame.check_version("snapshot", 1)?;
                let StoredFirst { grouping, params, source, now, state } = decode(frame.payload)?;
                (grouping, Stored { params: as_json(&params), source, now, state })
            }
            _ => return Err(Error::value(DAMAGED)),
        };
        let About { entry, params, .. } = &router.about;
        must_agree("grouping", &name, entry.name)?;
        must_agree("source", &stored.source.to_string(), &source.0.to_string())?;
        let theirs = entry.read_stored(&stored.params)?;
        if theirs.meant(frame.version).as_ref() != Some(params) {
            must_agree("set of parameters", &theirs.stored(), params)?;
        }
        if stored.now.is_some_and(|now| !is_time(now)) {
            return Err(Error::damaged("its time is invalid"));
        }
        if frame.version == entry.version {
            router.grouping.restore(&stored.state)?;
        } else {
            router.grouping.restore_older(frame.version, &stored.state)?;
        }
        router.about.now = stored.now;
        Ok(router)
    }
}

const DAMAGED: &str = "snapshot is damaged or not a router's";

fn must_agree(what: &str, theirs: &str, ours: &str) -> Result<()> {
    if theirs == ours {
        return Ok(());
    }
    Err(Error::Value(format!("snapshot is of another {what}: {}, not {ours}", one_line(theirs))))
}

/// The parameters of version 1 in the current format.
fn as_json(params: &str) -> String {
    let pairs = params.split(", ").filter_map(|pair| pair.split_once('='));
    let value = |text| match text {
        "None" => "null",
        "True" => "true",
        "False" => "false",
        number => number,
    };
    let pairs: Vec<String> = pairs.map(|(name, text)| format!("\"{name}\":{}", value(text))).collect();
    format!("{{{}}}", pairs.join(","))
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;
    use crate::groupings::REGISTRY;
    use crate::hash::KeyHasher;

    /// Numbers drawn from a seed.
    struct Dice(KeyHasher, i64);

    impl Dice {
        fn new(seed: u64) -> Self {
            Self(KeyHasher::new(seed), 0)
        }

        fn below(&mut self, end: usize) -> usize {
            self.1 += 1;
            (self.0.whole(self.1) % end as u64) as usize
        }
    }

    /// Small parameters, so that all rules apply within a short stream.
    fn cases() -> Vec<(&'static str, Arguments)> {
        let on = |workers| Arguments::new(workers, 0);
        let mut cases: Vec<(&str, Arguments)> =
            REGISTRY.iter().flat_map(|entry| [(entry.name, on(1)), (entry.name, on(7))]).collect();
        let head = || on(7).with("threshold", 0.1).with("sketch_capacity", 3);
        let fish = on(7).with("epoch_messages", 5).with("sketch_capacity", 3).with("virtual_nodes", 2);
        let flexd = on(5).with("segment_messages", 8).with("threshold", 0.2).with("table_keys", 2);
        let dynamic = on(9).with("expected_keys", 5).with("warm_up_s", 0.0).with("teenage_interval_s", 0.01);
        cases.extend([
            ("partial_key", on(7).with("choices", 4).with("distinct", true)),
            ("bounded_ring", on(5).with("virtual_nodes", 2).with("epsilon", 0.1)),
            ("round_robin", head()),
            ("w_choices", head()),
            ("d_choices", head()),
            ("d_choices", on(40).with("threshold", 0.1).with("distinct", true)),
            ("consistent", on(3).with("virtual_workers", 2)),
            ("fish", fish.clone()),
            ("fish", fish.with("threshold", 0.1).with("interval_s", 0.01)),
            ("flexd", flexd.clone()),
            ("flexd", flexd.with("sketch_capacity", 2).with("clean_interval_s", 0.01)),
            ("dynamic_key", dynamic.with("old_interval_s", 0.02)),
            ("distribution_aware", on(5).with("learning_messages", 20).with("buckets", 4)),
            ("pstream", on(5).with("coins", 0).with("most_coins", 3).with("decay", 0.2)),
            ("dalton", on(5).with("interval_messages", 8).with("exploration", 0.5).with("max_split", 3)),
        ]);
        cases
    }

    /// All operations of a router.
    fn exercise(router: &mut Router, dice: &mut Dice) {
        let keys = KeyHasher::new(0);
        let numbers = router.numbers();
        let (loads, service_time_s) = (vec![1.5; numbers], vec![0.5; numbers]);
        for round in 0..3 {
            let hashes: Vec<u64> = (0..30).map(|_| keys.whole([0, 1, 2, 3][dice.below(4)] * 7 % 5)).collect();
            let weights: Vec<f64> = (0..30).map(|_| dice.below(5) as f64 / 2.0).collect();
            let mut workers = vec![u32::MAX; hashes.len()];
            let weights = (round == 1).then_some(&weights[..]);
            router.route(&Batch { hashes: &hashes, weights, now: None }, &mut workers).unwrap();
            let present = router.worker_numbers();
            assert!(workers.iter().all(|worker| present.contains(worker)), "{workers:?} among {present:?}");
            assert!(hashes[..3].iter().all(|&hash| !router.candidates(KeyHash(hash)).is_empty()));
            assert!((1..=router.workers() as u32).contains(&router.max_workers_per_key()));
            assert_eq!(router.loads().len(), router.numbers());
            if router.numbers() == numbers {
                let (busy, idle) = (&[0][..], &[numbers as u32 - 1][..]);
                let (service_time_s, loads) = (Some(&service_time_s[..]), Some(&loads[..]));
                router.observe(&Feedback { now: None, busy, idle, service_time_s, loads }).unwrap();
            }
            // Groupings with a fixed number of workers, and full rings, refuse.
            let _ = router.add_worker();
            let _ = router.remove_worker(Worker(present[0]));
        }
        router.snapshot();
    }

    /// The snapshot of a router in use.
    fn stored(name: &str, arguments: &Arguments, dice: &mut Dice) -> Stored {
        let mut router = Router::new(name, arguments, Source(0)).unwrap();
        if dice.below(8) > 0 {
            exercise(&mut router, dice);
        }
        let About { params, now, .. } = &router.about;
        Stored { params: params.clone(), source: 0, now: *now, state: router.grouping.save() }
    }

    /// Numbers to substitute for others, as they are stored.
    fn absurd(dice: &mut Dice) -> Vec<u8> {
        const DOUBLES: [f64; 10] =
            [0.0, -0.0, 1.0, -1.0, 5e-324, 1e300, f64::MAX, f64::INFINITY, f64::NEG_INFINITY, f64::NAN];
        const WHOLE: [u64; 12] =
            [0, 1, 2, 127, 255, 65_535, 65_536, (1 << 32) - 1, (1 << 53) - 1, 1 << 53, u64::MAX - 1, u64::MAX];
        if dice.below(2) == 0 {
            DOUBLES[dice.below(DOUBLES.len())].to_le_bytes().to_vec()
        } else {
            encode(&WHOLE[dice.below(WHOLE.len())])
        }
    }

    fn mutate(state: &mut Vec<u8>, other: &[u8], dice: &mut Dice) {
        for _ in 0..=dice.below(3) {
            if state.is_empty() {
                return;
            }
            let at = dice.below(state.len());
            match dice.below(7) {
                0 => state[at] ^= 1 << dice.below(8),
                1 => state[at] = dice.below(256) as u8,
                2 => drop(state.remove(at)),
                3 => state.truncate(at),
                4 => {
                    let end = state.len().min(at + 8);
                    state[at..end].copy_from_slice(&absurd(dice).repeat(8)[..end - at]);
                }
                5 => {
                    // Replaces a whole number, if there is one.
                    let end = state[at..].iter().position(|&byte| byte < 128).map_or(state.len(), |end| at + end + 1);
                    drop(state.splice(at..end, absurd(dice)));
                }
                _ => {
                    let end = state.len().min(other.len()).max(at);
                    let end = end.min(at + 1 + dice.below(40)).min(other.len());
                    if at < end {
                        state[at..end].copy_from_slice(&other[at..end]);
                    }
                }
            }
        }
    }

    #[test]
    fn no_snapshot_makes_a_router_panic() {
        let rounds: usize = std::env::var("KEYSPLIT_FUZZ_ROUNDS").map_or(150, |rounds| rounds.parse().unwrap());
        let mut faults = Vec::new();
        for (number, (name, arguments)) in cases().into_iter().enumerate() {
            let dice = &mut Dice::new(number as u64);
            let entry = find(name).unwrap();
            let mut accepted = 0;
            for round in 0..rounds {
                let mut stored = stored(name, &arguments, dice);
                let other = self::stored(name, &arguments, dice);
                mutate(&mut stored.state, &other.state, dice);
                let family = format!("{FAMILY} {name}");
                let bytes = Frame { family: &family, version: entry.version, payload: &encode(&stored) }.seal();
                let run = || match Router::from_snapshot(name, &arguments, Source(0), &bytes) {
                    Err(Error::Value(text)) => {
                        assert!(text.contains("damaged") && !text.contains('\n'), "{text}");
                        false
                    }
                    Err(error) => panic!("{error}"),
                    Ok(mut router) => {
                        exercise(&mut router, dice);
                        true
                    }
                };
                match catch_unwind(AssertUnwindSafe(run)) {
                    Ok(was) => accepted += usize::from(was),
                    Err(_) => faults.push(format!("round {round} of {name}, {arguments:?}: {:?}", stored.state)),
                }
            }
            assert!(accepted > 0, "nothing of {name} was accepted");
        }
        assert!(faults.is_empty(), "{} faults, such as {}", faults.len(), faults[0]);
    }
}

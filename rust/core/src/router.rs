//! A router: one source's local view of one grouping, with its snapshots.

use serde::{Deserialize, Serialize};

use crate::batch::{Batch, check_weights};
use crate::error::{Error, Result};
use crate::feedback::Feedback;
use crate::groupings::{Entry, Grouping, find};
use crate::params::{Arguments, Value};
use crate::snapshot::{Frame, decode, encode};
use crate::state::members::Members;
use crate::types::Source;

/// The state of one source. It never reads a clock, the environment or a shared random generator.
pub struct Router {
    about: About,
    grouping: Box<dyn Grouping>,
}

/// What must agree for a snapshot to be continued, and the last time that was passed in.
struct About {
    entry: &'static Entry,
    /// As [`Checked::stored`](crate::groupings::Checked::stored) gives them.
    params: String,
    source: Source,
    now: Option<f64>,
}

/// What a snapshot holds beside the grouping and its version, which its frame names.
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

/// Seconds, either way: so large times are in another unit, and adding a millisecond would be lost.
const LATEST: f64 = 1e12;

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

    /// Chooses a worker for each message. An error leaves the router as it was.
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
        self.tell_time(batch.now)?;
        if !batch.hashes.is_empty() {
            self.grouping.route(batch, workers);
        }
        Ok(())
    }

    /// Moves the caller's clock on.
    pub fn tell_time(&mut self, now: Option<f64>) -> Result<()> {
        let Some(time) = now else { return Ok(()) };
        let least = self.about.now.unwrap_or(-LATEST);
        if !(least..=LATEST).contains(&time) {
            return Err(Error::Value(format!("now must be in {least:?}..={LATEST:?}, got {}", Value::Number(time))));
        }
        self.about.now = now;
        Ok(())
    }

    /// Hears how the workers fare. An error leaves the router as it was.
    pub fn observe(&mut self, feedback: &Feedback) -> Result<()> {
        feedback.check(self.numbers())?;
        self.tell_time(feedback.now)?;
        self.grouping.observe(feedback);
        Ok(())
    }

    /// Adds a worker and returns its number, the lowest that no present worker has.
    pub fn add_worker(&mut self) -> Result<u32> {
        let members = self.elastic()?;
        let (more, most) = (u64::from(members.count()) + 1, self.grouping.most_workers());
        if more > most {
            return Err(Error::Value(format!("workers must be in 1..={most}, got {more}")));
        }
        let worker = members.lowest_free();
        self.grouping.add_worker(worker);
        Ok(worker)
    }

    /// Removes a worker, who keeps what it was sent.
    pub fn remove_worker(&mut self, worker: u32) -> Result<()> {
        let members = self.elastic()?;
        if !members.contains(worker) {
            return Err(Error::Value(format!("worker must be the number of a present worker, got {worker}")));
        }
        if members.count() == 1 {
            return Err(Error::Value(format!("worker must not be the last one, got {worker}")));
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

    /// How many worker numbers were ever given.
    pub fn numbers(&self) -> usize {
        self.grouping.members().map_or_else(|| self.grouping.loads().len(), Members::numbers)
    }

    /// The numbers of the present workers, ascending.
    pub fn worker_numbers(&self) -> Vec<u32> {
        match self.grouping.members() {
            Some(members) => members.iter().collect(),
            None => (0..self.workers() as u32).collect(),
        }
    }

    /// The most workers that a key may be sent to as things stand.
    pub fn max_workers_per_key(&self) -> u32 {
        self.grouping.max_workers_per_key()
    }

    /// The size of the segments that the grouping looks at as a whole, if it has any: then it matters where a stream is cut.
    pub fn segment_messages(&self) -> Option<usize> {
        self.grouping.segment_messages()
    }

    /// The workers that the next message may go to if it has this key and weight 1.
    pub fn candidates(&self, hash: u64) -> Vec<u32> {
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

    /// A router that continues as the one of the snapshot would, made for the same grouping, parameters and source. The
    /// snapshot may be of an older version; a parameter that it does not know has its default there.
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
        must_agree("set of parameters", &entry.read_stored(&stored.params)?.stored(), params)?;
        if stored.now.is_some_and(|now| !(-LATEST..=LATEST).contains(&now)) {
            return Err(Error::value("snapshot is damaged: its time is none"));
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
    Err(Error::Value(format!("snapshot is of another {what}: {theirs}, not {ours}")))
}

/// The parameters of version 1 as those of today.
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

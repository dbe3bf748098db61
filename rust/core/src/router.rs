//! A router: one source's local view of one grouping, with its snapshots.

use serde::{Deserialize, Serialize};

use crate::batch::{Batch, check_weights};
use crate::error::{Error, Result};
use crate::feedback::Feedback;
use crate::groupings::{Grouping, find};
use crate::params::{Params, Value};
use crate::state::members::Members;

/// The state of one source. It never reads a clock, the environment or a shared random generator.
pub struct Router {
    about: About,
    grouping: Box<dyn Grouping>,
}

/// What must agree for a snapshot to be continued, and the last time the caller told.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct About {
    grouping: String,
    params: String,
    source: u32,
    now: Option<f64>,
}

/// Seconds, either way: so large times are in another unit, and adding a millisecond would be lost.
const LATEST: f64 = 1e12;

const MAGIC: &[u8] = b"keysplit router 1\n";

impl Router {
    /// A router that has not routed anything.
    pub fn new(grouping: &str, params: &Params, source: u32) -> Result<Self> {
        let entry = find(grouping)?;
        let about = About { grouping: entry.name.to_owned(), params: params.to_string(), source, now: None };
        Ok(Self { about, grouping: (entry.build)(params, source)? })
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
            let (name, workers) = (&self.about.grouping, self.workers());
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
        let mut bytes = MAGIC.to_vec();
        // Writing plain data to memory has nothing that can fail.
        bytes.extend(postcard::to_stdvec(&(&self.about, self.grouping.save())).unwrap_or_default());
        bytes.extend(crc32fast::hash(&bytes).to_le_bytes());
        bytes
    }

    /// A router that continues as the one of the snapshot would, made for the same grouping, parameters and source.
    pub fn from_snapshot(grouping: &str, params: &Params, source: u32, snapshot: &[u8]) -> Result<Self> {
        let mut router = Self::new(grouping, params, source)?;
        let (about, state) = read(snapshot)?;
        for (what, theirs, ours) in [
            ("grouping", &about.grouping, &router.about.grouping),
            ("set of parameters", &about.params, &router.about.params),
            ("source", &about.source.to_string(), &source.to_string()),
        ] {
            if theirs != ours {
                return Err(Error::Value(format!("snapshot is of another {what}: {theirs}, not {ours}")));
            }
        }
        router.grouping.restore(&state)?;
        router.about.now = about.now;
        Ok(router)
    }
}

fn read(snapshot: &[u8]) -> Result<(About, Vec<u8>)> {
    let parts = snapshot.split_last_chunk::<4>().filter(|(body, sum)| crc32fast::hash(body).to_le_bytes() == **sum);
    parts
        .and_then(|(body, _)| body.strip_prefix(MAGIC))
        .and_then(|body| postcard::from_bytes(body).ok())
        .ok_or_else(|| Error::value("snapshot is damaged or not a router's"))
}

//! The groupings: a file each, one trait, one registry.

mod bounded_ring;
mod consistent;
mod d_choices;
mod dalton;
mod distribution_aware;
mod dynamic_key;
mod fish;
mod flexd;
mod key;
mod partial_key;
mod parts;
mod power_of_random;
mod power_of_two;
mod pstream;
mod ring;
mod round_robin;
mod shuffle;
mod w_choices;

pub use parts::solver::solve_choices;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::batch::Batch;
use crate::error::{Error, Result};
use crate::feedback::Feedback;
use crate::params::{MAX_WORKERS, Params};
use crate::state::members::Members;

/// One source's state under one grouping.
pub trait Grouping: Send {
    /// Chooses a worker for every message of the batch, in order. There is one at least, and `workers` is as long.
    fn route(&mut self, batch: &Batch, workers: &mut [u32]);

    /// The workers that the next message may go to if it has this key and weight 1, in candidate order.
    fn candidates(&self, hash: u64) -> Vec<u32>;

    /// What this source has sent to each worker.
    fn loads(&self) -> Vec<f64>;

    /// The state as bytes, without the parameters.
    fn save(&self) -> Vec<u8>;

    /// Continues from what [`Grouping::save`] gave under the same parameters.
    fn restore(&mut self, state: &[u8]) -> Result<()>;

    /// The most workers that a key may be sent to as things stand, all of them unless the grouping knows better.
    fn max_workers_per_key(&self) -> u32 {
        self.members().map_or(self.loads().len() as u32, Members::count)
    }

    /// Hears how the workers fare.
    fn observe(&mut self, _feedback: &Feedback) {}

    /// The size of the segments that it looks at as a whole, if it has any: then only cuts at their ends change nothing.
    fn segment_messages(&self) -> Option<usize> {
        None
    }

    /// The workers, where they may come and go.
    fn members(&self) -> Option<&Members> {
        None
    }

    /// A worker comes. Called only if there are [`Grouping::members`], with the lowest free number.
    fn add_worker(&mut self, _worker: u32) {}

    /// A present worker that is not the last one goes. Called only if there are [`Grouping::members`].
    fn remove_worker(&mut self, _worker: u32) {}

    /// The most workers that its parameters have room for.
    fn most_workers(&self) -> u64 {
        MAX_WORKERS
    }
}

/// A grouping's name and how its state is made from parameters and a source number.
pub struct Entry {
    /// The registry name.
    pub name: &'static str,
    pub(crate) build: fn(&Params, u32) -> Result<Box<dyn Grouping>>,
}

/// Every grouping.
pub const REGISTRY: &[Entry] = &[
    Entry { name: "shuffle", build: shuffle::build },
    Entry { name: "key", build: key::build },
    Entry { name: "partial_key", build: partial_key::build },
    Entry { name: "power_of_two", build: power_of_two::build },
    Entry { name: "ring", build: ring::build },
    Entry { name: "bounded_ring", build: bounded_ring::build },
    Entry { name: "power_of_random", build: power_of_random::build },
    Entry { name: "round_robin", build: round_robin::build },
    Entry { name: "d_choices", build: d_choices::build },
    Entry { name: "w_choices", build: w_choices::build },
    Entry { name: "consistent", build: consistent::build },
    Entry { name: "fish", build: fish::build },
    Entry { name: "flexd", build: flexd::build },
    Entry { name: "dynamic_key", build: dynamic_key::build },
    Entry { name: "distribution_aware", build: distribution_aware::build },
    Entry { name: "pstream", build: pstream::build },
    Entry { name: "dalton", build: dalton::build },
];

/// Finds a grouping by name.
pub(crate) fn find(name: &str) -> Result<&'static Entry> {
    REGISTRY.iter().find(|entry| entry.name == name).ok_or_else(|| {
        let names: Vec<&str> = REGISTRY.iter().map(|entry| entry.name).collect();
        Error::value(format!("grouping must be one of {}, got {name:?}", names.join(", ")))
    })
}

/// Where a copy of the grouping sends a message of weight 1.
fn next_worker(grouping: &(impl Grouping + Clone), hash: u64) -> Vec<u32> {
    let mut worker = [0];
    grouping.clone().route(&Batch::unit(&[hash]), &mut worker);
    worker.to_vec()
}

fn encode(state: &impl Serialize) -> Vec<u8> {
    // Writing plain data to memory has nothing that can fail.
    postcard::to_stdvec(state).unwrap_or_default()
}

fn decode<T: DeserializeOwned>(state: &[u8]) -> Result<T> {
    match postcard::take_from_bytes(state) {
        Ok((state, [])) => Ok(state),
        _ => Err(Error::value("snapshot is damaged: its state cannot be read")),
    }
}

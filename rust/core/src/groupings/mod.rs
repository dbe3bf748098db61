//! The groupings: a file each, one trait, one registry.

mod choices;
mod d_choices;
mod d_solver;
mod head;
mod key;
mod partial_key;
mod power_of_two;
mod round_robin;
mod shuffle;
mod w_choices;

pub use d_solver::solve_choices;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::batch::Batch;
use crate::error::{Error, Result};
use crate::params::Params;

/// One source's state under one grouping.
pub trait Grouping: Send {
    /// Chooses a worker for every message of the batch, in order. `workers` is as long as the batch.
    fn route(&mut self, batch: &Batch, workers: &mut [u32]);

    /// The workers that the next message may go to if it has this key and weight 1, in candidate order.
    fn candidates(&self, hash: u64) -> Vec<u32>;

    /// What this source has sent to each worker.
    fn loads(&self) -> Vec<f64>;

    /// The state as bytes, without the parameters.
    fn save(&self) -> Vec<u8>;

    /// Continues from what [`Grouping::save`] gave under the same parameters.
    fn restore(&mut self, state: &[u8]) -> Result<()>;
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
    Entry { name: "round_robin", build: round_robin::build },
    Entry { name: "d_choices", build: d_choices::build },
    Entry { name: "w_choices", build: w_choices::build },
];

/// Finds a grouping by name.
pub(crate) fn find(name: &str) -> Result<&'static Entry> {
    REGISTRY.iter().find(|entry| entry.name == name).ok_or_else(|| {
        let names: Vec<&str> = REGISTRY.iter().map(|entry| entry.name).collect();
        Error::value(format!("grouping must be one of {}, got {name:?}", names.join(", ")))
    })
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

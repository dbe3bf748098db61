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
mod shuffle;
mod spread_head;

pub use parts::solver::solve_choices;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::batch::Batch;
use crate::error::{Error, Result};
use crate::feedback::Feedback;
use crate::params::{Arguments, MAX_WORKERS};
use crate::snapshot::one_line;
use crate::state::members::Members;
use crate::types::{KeyHash, Source, Worker};

/// One source's state under one grouping.
pub trait Grouping: Send {
    /// Chooses a worker for every message of a non-empty batch, in order. `workers` has the same length.
    fn route(&mut self, batch: &Batch, workers: &mut [u32]);

    /// The workers that the next message may go to if it has this key and weight 1, in candidate order.
    fn candidates(&self, hash: KeyHash) -> Vec<u32>;

    /// What this source has sent to each worker.
    fn loads(&self) -> Vec<f64>;

    /// The state as bytes, without the parameters.
    fn save(&self) -> Vec<u8>;

    /// Restores what [`Grouping::save`] returned under the same parameters.
    fn restore(&mut self, state: &[u8]) -> Result<()>;

    /// Restores what an older version (at least 1) saved; by default the format is unchanged.
    fn restore_older(&mut self, _version: u32, state: &[u8]) -> Result<()> {
        self.restore(state)
    }

    /// The most workers that a key may currently be sent to; all of them unless the grouping has a tighter bound.
    fn max_workers_per_key(&self) -> u32 {
        self.members().map_or(self.loads().len() as u32, Members::count)
    }

    /// Takes feedback from the workers.
    fn observe(&mut self, _feedback: &Feedback) {}

    /// The segment size if the grouping processes whole segments; then results depend on cuts within a segment.
    fn segment_messages(&self) -> Option<usize> {
        None
    }

    /// The workers of an elastic grouping.
    fn members(&self) -> Option<&Members> {
        None
    }

    /// Adds a worker. Called only if there are [`Grouping::members`], with the lowest free number.
    fn add_worker(&mut self, _worker: Worker) {}

    /// Removes a present worker that is not the last one. Called only if there are [`Grouping::members`].
    fn remove_worker(&mut self, _worker: Worker) {}

    /// The most workers that the parameters allow.
    fn most_workers(&self) -> u64 {
        MAX_WORKERS
    }
}

/// The parameters of a grouping: a struct that serde reads, with a default for every field but `workers`.
trait Parameters: Serialize + DeserializeOwned {
    /// The version of its snapshots. It increases whenever the output of [`Grouping::save`], or what a router makes of
    /// it, changes. A new parameter with a default does not count.
    const VERSION: u32 = 2;

    /// These parameters as they were meant when an older version stored them, if a default has changed since.
    fn meant(&self, _version: u32) -> Option<Self> {
        None
    }

    /// Checks constraints between parameters; each one alone was checked when it was read.
    fn check(&self) -> Result<()> {
        Ok(())
    }

    /// The initial state of a source.
    fn build(&self, source: Source) -> Result<Box<dyn Grouping>>;
}

/// A grouping: its name and the reader of its parameters.
#[derive(Debug)]
pub struct Entry {
    /// The registry name.
    pub name: &'static str,
    /// The version of its routers' snapshots.
    pub version: u32,
    read: fn(&Arguments) -> Result<Box<dyn Checked>>,
    read_stored: fn(&str) -> Result<Box<dyn Checked>>,
}

impl Entry {
    const fn of<P: Parameters + 'static>(name: &'static str) -> Self {
        Self {
            name,
            version: P::VERSION,
            read: |arguments| checked(arguments.read::<P>(&["workers"])?),
            read_stored: |text| match serde_json::from_str::<P>(text) {
                Ok(params) => checked(params),
                Err(error) => {
                    let text = one_line(&format!("snapshot must be of known parameters, got {text}: {error}"));
                    Err(Error::Value(text))
                }
            },
        }
    }

    /// Reads and checks parameters.
    pub(crate) fn read(&self, arguments: &Arguments) -> Result<Box<dyn Checked>> {
        (self.read)(arguments)
    }

    /// Reads the output of [`Checked::stored`], of this version or an older one.
    pub(crate) fn read_stored(&self, text: &str) -> Result<Box<dyn Checked>> {
        (self.read_stored)(text)
    }
}

fn checked(params: impl Parameters + 'static) -> Result<Box<dyn Checked>> {
    params.check()?;
    Ok(Box::new(params))
}

/// Checked parameters of some grouping.
pub(crate) trait Checked {
    /// The initial state of a source.
    fn build(&self, source: Source) -> Result<Box<dyn Grouping>>;

    /// All parameters as a JSON object. Equal parameters have equal texts.
    fn stored(&self) -> String;

    /// [`Parameters::meant`], stored.
    fn meant(&self, version: u32) -> Option<String>;
}

impl<P: Parameters> Checked for P {
    fn build(&self, source: Source) -> Result<Box<dyn Grouping>> {
        Parameters::build(self, source)
    }

    fn stored(&self) -> String {
        // Serialising names and finite numbers cannot fail.
        serde_json::to_string(self).unwrap_or_default()
    }

    fn meant(&self, version: u32) -> Option<String> {
        Parameters::meant(self, version).map(|params| params.stored())
    }
}

/// Every grouping.
pub const REGISTRY: &[Entry] = &[
    Entry::of::<shuffle::Params>("shuffle"),
    Entry::of::<key::Params>("key"),
    Entry::of::<partial_key::Params>("partial_key"),
    Entry::of::<power_of_two::Params>("power_of_two"),
    Entry::of::<ring::Params>("ring"),
    Entry::of::<bounded_ring::Params>("bounded_ring"),
    Entry::of::<power_of_random::Params>("power_of_random"),
    Entry::of::<spread_head::RoundRobin>("round_robin"),
    Entry::of::<d_choices::Params>("d_choices"),
    Entry::of::<spread_head::WChoices>("w_choices"),
    Entry::of::<consistent::Params>("consistent"),
    Entry::of::<fish::Params>("fish"),
    Entry::of::<flexd::Params>("flexd"),
    Entry::of::<dynamic_key::Params>("dynamic_key"),
    Entry::of::<distribution_aware::Params>("distribution_aware"),
    Entry::of::<pstream::Params>("pstream"),
    Entry::of::<dalton::Params>("dalton"),
];

/// Finds a grouping by name.
pub(crate) fn find(name: &str) -> Result<&'static Entry> {
    REGISTRY.iter().find(|entry| entry.name == name).ok_or_else(|| {
        let names: Vec<&str> = REGISTRY.iter().map(|entry| entry.name).collect();
        Error::value(format!("grouping must be one of {}, got {name:?}", names.join(", ")))
    })
}

/// Checks the parameters of a grouping without building anything.
pub fn check(grouping: &str, arguments: &Arguments) -> Result<()> {
    find(grouping)?.read(arguments).map(drop)
}

/// Where a copy of the grouping sends a message of weight 1.
fn next_worker(grouping: &(impl Grouping + Clone), hash: KeyHash) -> Vec<u32> {
    let mut worker = [0];
    grouping.clone().route(&Batch::unit(&[hash.0]), &mut worker);
    worker.to_vec()
}

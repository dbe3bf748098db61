//! What a simulation is asked for, and the checks of it.

use serde::Deserialize;

use crate::error::{Error, Result};
use crate::params::{self, Arguments, Value};
use crate::router::Router;
use crate::types::Worker;

/// What a simulation is asked for.
#[derive(Debug, Clone, Default)]
pub struct Config {
    /// The single numbers.
    pub options: Options,
    /// Seconds that a message of weight 1 takes at capacity 1; there is no timing model without.
    pub service_time_s: Option<PerWorker>,
    /// Relative speeds of the workers, 1 each if not given.
    pub capacities: Option<Vec<f64>>,
    /// What happens on the way, in any order.
    pub events: Vec<Event>,
}

/// The single numbers of a simulation, checked. Without a timing model the last six are not used.
#[derive(Debug, Clone, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    #[serde(deserialize_with = "params::whole::<1, 65_536, _>")]
    pub(super) sources: u64,
    /// Decides which keys stand for the others where there are too many.
    #[serde(deserialize_with = "params::seed")]
    pub(super) seed: u64,
    /// The length of the stream, where it is known.
    #[serde(deserialize_with = "params::optional_whole::<0, { 1 << 53 }, _>")]
    pub(super) messages: Option<u64>,
    #[serde(deserialize_with = "params::whole::<0, 1_000_000, _>")]
    pub(super) samples: u64,
    /// Keys that are kept, and groups of workers of a key.
    #[serde(deserialize_with = "params::whole::<1, { 1 << 37 }, _>")]
    pub(super) most_keys: u64,
    #[serde(deserialize_with = "params::whole::<1, { 1 << 37 }, _>")]
    pub(super) most_groups: u64,
    #[serde(deserialize_with = "params::optional_seconds")]
    arrival_rate_per_s: Option<f64>,
    #[serde(deserialize_with = "params::optional_whole::<1, 100_000_000, _>")]
    in_flight: Option<u64>,
    #[serde(deserialize_with = "params::seconds")]
    feedback_interval_s: f64,
    #[serde(deserialize_with = "params::span")]
    busy_above: f64,
    #[serde(deserialize_with = "params::span")]
    idle_below: f64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            sources: 1,
            seed: 0,
            messages: None,
            samples: 100,
            most_keys: 10_000_000,
            most_groups: 100_000_000,
            arrival_rate_per_s: None,
            in_flight: None,
            feedback_interval_s: 1.0,
            busy_above: 0.85,
            idle_below: 0.75,
        }
    }
}

impl Options {
    /// Reads and checks them; what is not named has its default.
    pub fn read(arguments: &Arguments) -> Result<Self> {
        arguments.read(&[])
    }
}

/// One number for all workers, or one each.
#[derive(Debug, Clone)]
pub enum PerWorker {
    /// The same for all.
    All(f64),
    /// One a worker.
    Each(Vec<f64>),
}

/// What happens before the message at a position arrives.
#[derive(Debug, Clone, Copy)]
pub struct Event {
    /// From 0.
    pub position: u64,
    /// What happens.
    pub change: Change,
}

/// What happens to a worker.
#[derive(Debug, Clone, Copy)]
pub enum Change {
    /// One comes.
    Add {
        /// Its relative speed.
        capacity: f64,
    },
    /// One goes; it finishes what it was sent.
    Remove {
        /// Its number.
        worker: u32,
    },
    /// One becomes slower or faster.
    SetCapacity {
        /// Its number.
        worker: u32,
        /// Its relative speed from now on.
        capacity: f64,
    },
}

/// The checked timing model.
#[derive(Debug)]
pub(super) struct Timed {
    pub(super) service_time_s: Vec<f64>,
    /// Of a worker that is added.
    pub(super) newcomer_s: f64,
    pub(super) capacities: Vec<f64>,
    pub(super) arrivals: Arrivals,
    pub(super) feedback_interval_s: f64,
    pub(super) busy_above: f64,
    pub(super) idle_below: f64,
}

/// When messages arrive.
#[derive(Debug, Clone, Copy)]
pub(super) enum Arrivals {
    /// So many a second.
    Rate(f64),
    /// As soon as there are fewer than so many on their way.
    InFlight(usize),
}

const CAPACITY: &str = "in 1e-12..=1e12";

impl Config {
    /// The timing model for workers of so many numbers.
    pub(super) fn timed(&self, workers: usize) -> Result<Option<Timed>> {
        let Some(service_time_s) = &self.service_time_s else {
            for (name, absent) in [
                ("arrival_rate_per_s", self.options.arrival_rate_per_s.is_none()),
                ("in_flight", self.options.in_flight.is_none()),
                ("capacities", self.capacities.is_none()),
            ] {
                if !absent {
                    return Err(Error::Value(format!("{name} must be None without service_time_s")));
                }
            }
            return Ok(None);
        };
        let seconds = |value: f64| (0.0..=1e12).contains(&value);
        let (service_time_s, newcomer_s) = match service_time_s {
            PerWorker::All(one) => (vec![*one; workers], *one),
            PerWorker::Each(each) => (each.clone(), each.iter().fold(0.0, |sum, one| sum + one) / each.len() as f64),
        };
        one_a_worker("service_time_s", &service_time_s, workers, "in 0..=1e12", seconds)?;
        let capacities = self.capacities.clone().unwrap_or_else(|| vec![1.0; workers]);
        one_a_worker("capacities", &capacities, workers, CAPACITY, is_capacity)?;

        let options = &self.options;
        let arrivals = match (options.arrival_rate_per_s, options.in_flight) {
            (Some(_), Some(_)) => return Err(Error::value("in_flight must be None where arrival_rate_per_s is given")),
            (Some(rate), None) => Arrivals::Rate(rate),
            (None, Some(messages)) => Arrivals::InFlight(messages as usize),
            (None, None) => Arrivals::InFlight(100 * workers),
        };
        Ok(Some(Timed {
            service_time_s,
            newcomer_s,
            capacities,
            arrivals,
            feedback_interval_s: options.feedback_interval_s,
            busy_above: options.busy_above,
            idle_below: options.idle_below,
        }))
    }

    /// The events in their order, all of them tried out on a router that has sent nothing.
    pub(super) fn in_order(&self, mut router: Router) -> Result<Vec<Event>> {
        let mut events = self.events.clone();
        events.sort_by_key(|event| event.position);
        for Event { position, change } in &events {
            let happened = match *change {
                Change::Add { capacity } => check_capacity(capacity).and_then(|()| router.add_worker().map(drop)),
                Change::Remove { worker } => router.remove_worker(Worker(worker)),
                Change::SetCapacity { .. } if self.service_time_s.is_none() => {
                    Err(Error::value("SetCapacity must not be used without service_time_s"))
                }
                Change::SetCapacity { worker, capacity } => {
                    check_capacity(capacity).and_then(|()| check_present(&router, worker))
                }
            };
            if let Err(error) = happened {
                return Err(Error::Value(format!("events at position {position}: {error}")));
            }
        }
        Ok(events)
    }
}

fn is_capacity(value: f64) -> bool {
    (1e-12..=1e12).contains(&value)
}

fn check_capacity(capacity: f64) -> Result<()> {
    if is_capacity(capacity) {
        return Ok(());
    }
    Err(Error::Value(format!("capacity must be {CAPACITY}, got {}", Value::Number(capacity))))
}

fn check_present(router: &Router, worker: u32) -> Result<()> {
    if router.worker_numbers().contains(&worker) {
        return Ok(());
    }
    Err(Error::Value(format!("worker must be the number of a present worker, got {worker}")))
}

fn one_a_worker(
    name: &str,
    values: &[f64],
    workers: usize,
    allowed: &str,
    accepts: impl Fn(f64) -> bool,
) -> Result<()> {
    if values.len() != workers {
        return Err(Error::Value(format!("{name} must be one a worker, {workers} in all, got {}", values.len())));
    }
    match values.iter().find(|&&value| !accepts(value)) {
        None => Ok(()),
        Some(value) => Err(Error::Value(format!("{name} must be {allowed}, got {}", Value::Number(*value)))),
    }
}

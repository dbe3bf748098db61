//! The configuration of a simulation and its checks.

use serde::Deserialize;

use crate::error::{Error, Result};
use crate::params::{self, Arguments, Value};
use crate::router::Router;
use crate::types::Worker;

/// The configuration of a simulation.
#[derive(Debug, Clone, Default)]
pub struct Config {
    /// The scalar options.
    pub options: Options,
    /// Seconds per message of weight 1 at capacity 1; without it there is no timing model.
    pub service_time_s: Option<PerWorker>,
    /// Relative speeds of the workers; default 1.
    pub capacities: Option<Vec<f64>>,
    /// Events, in any order.
    pub events: Vec<Event>,
}

/// The checked scalar options of a simulation. Without a timing model the last six are not used.
#[derive(Debug, Clone, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    #[serde(deserialize_with = "params::whole::<1, 65_536, _>")]
    pub(super) sources: u64,
    /// Decides which keys are sampled when there are too many.
    #[serde(deserialize_with = "params::seed")]
    pub(super) seed: u64,
    /// The length of the stream, if known.
    #[serde(deserialize_with = "params::optional_whole::<0, { 1 << 53 }, _>")]
    pub(super) messages: Option<u64>,
    #[serde(deserialize_with = "params::whole::<0, 1_000_000, _>")]
    pub(super) samples: u64,
    /// Keys kept, and groups of workers per key.
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
    /// Reads and checks them; missing ones have their defaults.
    pub fn read(arguments: &Arguments) -> Result<Self> {
        arguments.read(&[])
    }
}

/// One number for all workers, or one per worker.
#[derive(Debug, Clone)]
pub enum PerWorker {
    /// The same for all.
    All(f64),
    /// One per worker.
    Each(Vec<f64>),
}

/// An event before the message at a position.
#[derive(Debug, Clone, Copy)]
pub struct Event {
    /// Counted from 0.
    pub position: u64,
    /// What happens.
    pub change: Change,
}

/// What happens to a worker.
#[derive(Debug, Clone, Copy)]
pub enum Change {
    /// A worker is added.
    Add {
        /// Its relative speed.
        capacity: f64,
    },
    /// A worker is removed; it finishes what it was sent.
    Remove {
        /// Its number.
        worker: u32,
    },
    /// A worker's speed changes.
    SetCapacity {
        /// Its number.
        worker: u32,
        /// Its new relative speed.
        capacity: f64,
    },
}

/// The checked timing model.
#[derive(Debug)]
pub(super) struct Timed {
    pub(super) service_time_s: Vec<f64>,
    /// Of an added worker.
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
    /// At this rate per second.
    Rate(f64),
    /// As soon as fewer than this many are in flight.
    InFlight(usize),
}

const CAPACITY: &str = "in 1e-12..=1e12";

impl Config {
    /// The timing model for this many worker numbers.
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
            (Some(_), Some(_)) => return Err(Error::value("in_flight must be None if arrival_rate_per_s is given")),
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

    /// The events in order, each checked on a router that has sent nothing.
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
        return Err(Error::Value(format!("{name} must be one per worker, {workers} in all, got {}", values.len())));
    }
    match values.iter().find(|&&value| !accepts(value)) {
        None => Ok(()),
        Some(value) => Err(Error::Value(format!("{name} must be {allowed}, got {}", Value::Number(*value)))),
    }
}

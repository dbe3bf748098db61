//! Sources and workers in simulated time: how a grouping handles a stream.
//!
//! Messages go to the sources in turn, each source routes on its own, and with service times the workers serve queues
//! and report to the sources. `docs/simulation.md` defines it all to the bit. A stream comes in chunks of any size;
//! where it is cut does not matter. Memory does not grow with its length, except for the (key, worker) pairs, which are
//! sampled beyond a limit.
//!
//! ```
//! use keysplit_core::Arguments;
//! use keysplit_core::hash::KeyHasher;
//! use keysplit_core::simulate::{Config, Options, Simulation};
//!
//! let options = Options::read(&Arguments::default().with("sources", 2).with("samples", 10))?;
//! let config = Config { options, ..Config::default() };
//! let mut simulation = Simulation::new("partial_key", &Arguments::new(4, 0), &config)?;
//! let keys = KeyHasher::new(0);
//! simulation.add(&[7, 7, 8, 7].map(|key| keys.whole(key)), None)?;
//! let report = simulation.finish()?;
//! assert_eq!(report.loads.iter().sum::<f64>(), 4.0);
//! assert_eq!(report.keys, 2);
//! # Ok::<(), keysplit_core::Error>(())
//! ```

mod config;
mod latencies;
mod samples;
mod signals;
mod sources;
mod timing;

use std::iter::Peekable;
use std::vec::IntoIter;

pub use config::{Change, Config, Event, Options, PerWorker};
pub use latencies::Latency;
pub use samples::Sampled;
pub use timing::Times;

use samples::Samples;
use sources::{Messages, Sources};
use timing::Timing;

use crate::batch::check_weights;
use crate::error::{Error, Result};
use crate::feedback::Feedback;
use crate::metrics;
use crate::params::Arguments;
use crate::router::Router;
use crate::state::replicas::Replicas;
use crate::types::{Source, Worker};

/// Messages of a source that are routed at a time, so that its router's state stays in the cache for most of them.
const BLOCK: usize = 1 << 16;

/// The most messages of all sources that are routed at a time.
const MOST: usize = 1 << 19;

/// Simulated sources and workers, and the statistics so far.
pub struct Simulation {
    sources: Sources,
    held: Option<Held>,
    segments: Option<Segments>,
    events: Peekable<IntoIter<Event>>,
    timing: Option<Timing>,
    samples: Samples,
    replicas: Replicas,
    expected: Option<u64>,
    /// Messages so far.
    count: u64,
}

/// Messages held back until there are enough of them.
struct Held {
    size: usize,
    hashes: Vec<u64>,
    /// Their weights, or none if all are 1.
    weights: Vec<f64>,
}

/// Routed segments: the worker of each message, decided when the first message of the segment arrived.
#[derive(Default)]
struct Segments(Vec<u32>);

/// The result.
#[derive(Debug, Clone)]
pub struct Report {
    /// Messages of the stream.
    pub messages: u64,
    /// The load of each number.
    pub loads: Vec<f64>,
    /// [`metrics::imbalance`] of the loads.
    pub imbalance: f64,
    /// [`metrics::relative_imbalance`] of the loads.
    pub relative_imbalance: f64,
    /// [`metrics::load_stddev`] of the loads.
    pub load_stddev: f64,
    /// Number of distinct keys kept.
    pub keys: u64,
    /// Sum over them of the distinct workers each was sent to.
    pub pairs: u64,
    /// Each kept key stands for 2^level keys.
    pub level: u32,
    /// The samples.
    pub samples: Sampled,
    /// Figures of the timing model, if any.
    pub times: Option<Times>,
}

impl Simulation {
    /// A simulation of a grouping before its first message.
    pub fn new(grouping: &str, arguments: &Arguments, config: &Config) -> Result<Self> {
        let options = &config.options;
        let replicas = Replicas::new(options.most_keys as usize, options.most_groups as usize, options.seed);

        let trial = Router::new(grouping, arguments, Source(0))?;
        let timed = config.timed(trial.numbers())?;
        let segment_messages = trial.segment_messages();
        let size = match (segment_messages, options.sources as usize) {
            (Some(messages), sources) => Some(messages.saturating_mul(sources)),
            (None, sources) if sources > 1 && timed.is_none() => Some((BLOCK * sources).min(MOST)),
            _ => None,
        };
        let events = config.in_order(trial)?;
        Ok(Self {
            sources: Sources::new(grouping, arguments, options.sources)?,
            held: size.map(|size| Held { size, hashes: Vec::new(), weights: Vec::new() }),
            segments: segment_messages.map(|_| Segments::default()),
            events: events.into_iter().peekable(),
            timing: timed.map(Timing::new),
            samples: Samples::new(options.samples, options.messages),
            replicas,
            expected: options.messages,
            count: 0,
        })
    }

    /// The next messages of the stream, of weight 1 if no weights are given. An error ends the simulation.
    pub fn add(&mut self, hashes: &[u64], weights: Option<&[f64]>) -> Result<()> {
        if let Some(weights) = weights {
            check_weights(weights, hashes.len())?;
        }
        let mut messages = Messages { position: self.count, hashes, weights };
        let Some(mut held) = self.held.take() else { return self.send(messages) };
        while !messages.hashes.is_empty() {
            messages = held.take(messages);
            if held.hashes.len() == held.size {
                self.send(held.messages(self.count))?;
                held.clear();
            }
        }
        self.held = Some(held);
        Ok(())
    }

    /// Ends the stream and returns the result.
    pub fn finish(mut self) -> Result<Report> {
        if let Some(held) = self.held.take() {
            self.send(held.messages(self.count))?;
        }
        if let Some(expected) = self.expected.filter(|&expected| expected != self.count) {
            let text = format!("messages must be the length of the stream, {}, got {expected}", self.count);
            return Err(Error::Value(text));
        }
        if self.samples.is_due_at_the_end(self.count) {
            self.sample()?;
        }
        let loads = self.sources.loads();
        Ok(Report {
            messages: self.count,
            imbalance: metrics::imbalance(&loads)?,
            relative_imbalance: metrics::relative_imbalance(&loads)?,
            load_stddev: metrics::load_stddev(&loads)?,
            loads,
            keys: self.replicas.keys() as u64,
            pairs: self.replicas.memory(),
            level: self.replicas.level(),
            samples: self.samples.into_sampled(),
            times: self.timing.map(|timing| timing.times()),
        })
    }

    fn send(&mut self, messages: Messages) -> Result<()> {
        if self.timing.is_none() && self.segments.is_none() { self.stride(messages) } else { self.walk(messages) }
    }

    /// Routes messages in blocks that end where an event or a sample is due.
    fn stride(&mut self, mut messages: Messages) -> Result<()> {
        while !messages.hashes.is_empty() {
            self.apply_events()?;
            let event = self.events.peek().map_or(u64::MAX, |event| event.position);
            let due = usize::try_from(self.samples.next().min(event) - self.count).unwrap_or(usize::MAX);
            let (block, others) = messages.split_at(messages.hashes.len().min(MOST).min(due));
            let (hashes, workers) = self.sources.route_all(block)?;
            self.replicas.add(hashes, workers);
            self.count = others.position;
            if self.count == self.samples.next() {
                self.sample()?;
            }
            messages = others;
        }
        Ok(())
    }

    /// Routes messages one by one, or a source's whole segment when its first message arrives.
    fn walk(&mut self, messages: Messages) -> Result<()> {
        let sources = self.sources.count();
        for place in 0..messages.hashes.len() {
            let now = self.timing.as_mut().map(|timing| timing.arrive(self.count)).transpose()?;
            self.apply_events()?;
            self.pass_feedback(now)?;

            let worker = match &mut self.segments {
                None => {
                    let worker = self.sources.route_one(messages, place, now)?;
                    self.replicas.note(messages.hashes[place], worker);
                    worker
                }
                Some(Segments(workers)) => {
                    if place < sources {
                        workers.resize(messages.hashes.len(), 0);
                        let (hashes, own) = self.sources.route_rest(messages, place, now)?;
                        self.replicas.add(hashes, own);
                        let places = workers[place..].iter_mut().step_by(sources);
                        places.zip(own).for_each(|(worker, &own)| *worker = own);
                    }
                    workers[place]
                }
            };
            self.sources.send(self.count, worker, messages.weight(place));
            if let Some(timing) = &mut self.timing {
                timing.serve(worker, messages.weight(place))?;
            }
            self.count += 1;
            if self.count == self.samples.next() {
                self.sample()?;
            }
        }
        Ok(())
    }

    /// Applies the events before the next message.
    #[inline(always)]
    fn apply_events(&mut self) -> Result<()> {
        while let Some(event) = self.events.next_if(|event| event.position == self.count) {
            match event.change {
                Change::Add { capacity } => {
                    let mut worker = Worker(0);
                    for router in self.sources.iter_mut() {
                        worker = router.add_worker()?;
                    }
                    self.timing.iter_mut().for_each(|timing| timing.add_worker(worker.0, capacity));
                }
                Change::Remove { worker } => {
                    for router in self.sources.iter_mut() {
                        router.remove_worker(Worker(worker))?;
                    }
                }
                Change::SetCapacity { worker, capacity } => {
                    self.timing.iter_mut().for_each(|timing| timing.set_capacity(worker, capacity));
                }
            }
        }
        Ok(())
    }

    /// Passes the workers' feedback to all sources when due.
    #[inline(always)]
    fn pass_feedback(&mut self, now: Option<f64>) -> Result<()> {
        let Some(timing) = self.timing.as_mut().filter(|timing| timing.signals_are_due()) else { return Ok(()) };
        let (busy, idle, service_time_s) = timing.signal(&self.sources.any().worker_numbers());
        let (loads, own): (_, Vec<_>) = (self.sources.loads(), self.sources.loads_of_each().collect());
        for (router, own) in self.sources.iter_mut().zip(own) {
            let others: Vec<f64> = loads.iter().zip(own).map(|(load, own)| (load - own).max(0.0)).collect();
            let (service_time_s, loads) = (Some(&service_time_s[..]), Some(&others[..]));
            router.observe(&Feedback { now, busy: &busy, idle: &idle, service_time_s, loads })?;
        }
        Ok(())
    }

    #[cold]
    fn sample(&mut self) -> Result<()> {
        let timed = self.timing.as_mut().map(Timing::sample);
        self.samples.take(self.count, &self.sources.loads(), timed)
    }
}

impl Held {
    /// Takes as many as fit; returns the others.
    fn take<'a>(&mut self, messages: Messages<'a>) -> Messages<'a> {
        let room = self.size - self.hashes.len();
        let (taken, others) = messages.split_at(room.min(messages.hashes.len()));
        if taken.weights.is_some() || !self.weights.is_empty() {
            // Unweighted messages among weighted ones: weight 1.
            self.weights.resize(self.hashes.len(), 1.0);
            self.weights.extend_from_slice(taken.weights.unwrap_or_default());
            self.weights.resize(self.hashes.len() + taken.hashes.len(), 1.0);
        }
        self.hashes.extend_from_slice(taken.hashes);
        others
    }

    fn messages(&self, position: u64) -> Messages<'_> {
        let weights = (!self.weights.is_empty()).then_some(&self.weights[..]);
        Messages { position, hashes: &self.hashes, weights }
    }

    fn clear(&mut self) {
        self.hashes.clear();
        self.weights.clear();
    }
}

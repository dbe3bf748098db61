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
mod tracking;

use std::iter::Peekable;
use std::vec::IntoIter;

pub use config::{Change, Config, Event, Options, PerWorker};
pub use latencies::Latency;
pub use samples::Sampled;
pub use timing::Times;

use samples::Samples;
use sources::Sources;
use timing::Timing;
use tracking::Tracking;

use crate::batch::check_weights;
use crate::error::{Error, Result};
use crate::feedback::Feedback;
use crate::metrics;
use crate::params::Arguments;
use crate::router::Router;
use crate::state::replicas::Tables;
use crate::types::{Source, Worker};

/// Messages that are held before several threads send them: enough to be worth starting these.
const MANY: usize = 1 << 18;

/// Messages that are held before one thread sends them: few enough for the second-level cache, beside the state of a router.
const FEW: usize = 1 << 14;

/// Of these at least so many for each source, but no more than [`MANY`] in all.
const EACH: usize = 1 << 12;

/// The most loads kept at a time for samples.
const LOADS: usize = 1 << 20;

/// Simulated sources and workers, and the statistics so far.
pub struct Simulation {
    sources: Sources,
    tracking: Tracking,
    events: Peekable<IntoIter<Event>>,
    timing: Option<Timing>,
    samples: Samples,
    expected: Option<u64>,
    /// Messages sent so far.
    count: u64,
    threads: usize,
}

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
        let trial = Router::new(grouping, arguments, Source(0))?;
        let timed = config.timed(trial.numbers())?;
        let events = config.in_order(trial)?;
        let tables = Tables::new(options.most_keys as usize, options.most_groups as usize, options.seed);
        let mut simulation = Self {
            sources: Sources::new(grouping, arguments, options.sources)?,
            tracking: Tracking::new(tables),
            events: events.into_iter().peekable(),
            timing: timed.map(Timing::new),
            samples: Samples::new(options.samples, options.messages),
            expected: options.messages,
            count: 0,
            threads: 1,
        };
        simulation.use_threads(1);
        Ok(simulation)
    }

    /// How many threads may be used from now on; the result does not depend on it. A timing model uses one.
    pub fn use_threads(&mut self, threads: usize) {
        self.threads = threads.max(1);
        let sources = self.sources.each.len();
        // What one source sends is routed by one thread.
        let is_alone = self.threads == 1 || sources == 1 || self.timing.is_some();
        self.sources.hold_about(if is_alone { (EACH * sources).clamp(FEW, MANY) } else { MANY });
    }

    /// The next messages of the stream, of weight 1 if no weights are given. An error ends the simulation.
    pub fn add(&mut self, mut hashes: &[u64], mut weights: Option<&[f64]>) -> Result<()> {
        if let Some(weights) = weights {
            check_weights(weights, hashes.len())?;
        }
        while !hashes.is_empty() {
            let taken = self.sources.hold(hashes, weights);
            hashes = &hashes[taken..];
            weights = weights.map(|weights| &weights[taken..]);
            if self.sources.are_full() {
                self.send()?;
            }
        }
        Ok(())
    }

    /// Ends the stream and returns the result.
    pub fn finish(mut self) -> Result<Report> {
        self.send()?;
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
            keys: self.tracking.tables().keys() as u64,
            pairs: self.tracking.tables().pairs(),
            level: self.tracking.tables().level(),
            samples: self.samples.into_sampled(),
            times: self.timing.map(|timing| timing.times()),
        })
    }

    /// Sends all messages held.
    fn send(&mut self) -> Result<()> {
        if self.timing.is_none() {
            self.stride()?
        } else {
            self.walk()?
        }
        self.sources.release();
        Ok(())
    }

    /// Sends messages source by source, up to the next event.
    fn stride(&mut self) -> Result<()> {
        while self.count < self.sources.end() {
            self.apply_events()?;
            let event = self.events.peek().map_or(u64::MAX, |event| event.position);
            let most = LOADS / (self.sources.each.len() * self.sources.any().numbers());
            let due = self.samples.due(self.sources.end().min(event), most.max(1));
            let end = self.sources.end().min(event);
            let end = if due.len() < most.max(1) { end } else { due[due.len() - 1] };
            self.tracking.send(&mut self.sources, end, &due, self.threads)?;
            self.count = end;
            for (place, &count) in due.iter().enumerate() {
                self.samples.take(count, &self.sources.sampled(place), None)?;
            }
        }
        Ok(())
    }

    /// Sends messages one by one, as they arrive.
    fn walk(&mut self) -> Result<()> {
        while self.count < self.sources.end() {
            let now = self.timing.as_mut().map(|timing| timing.arrive(self.count)).transpose()?;
            self.apply_events()?;
            self.pass_feedback(now)?;
            let sent = self.sources.send(self.count, now)?;
            self.tracking.note(sent.hash, sent.worker);
            if let Some(timing) = &mut self.timing {
                timing.serve(sent.worker, sent.weight)?;
            }
            self.count += 1;
            if self.count == self.samples.next() {
                self.sample()?;
            }
        }
        self.tracking.record(1)
    }

    /// Applies the events before the next message.
    #[inline(always)]
    fn apply_events(&mut self) -> Result<()> {
        while let Some(event) = self.events.next_if(|event| event.position == self.count) {
            match event.change {
                Change::Add { capacity } => {
                    let mut worker = Worker(0);
                    for router in self.sources.routers() {
                        worker = router.add_worker()?;
                    }
                    self.timing.iter_mut().for_each(|timing| timing.add_worker(worker.0, capacity));
                }
                Change::Remove { worker } => {
                    for router in self.sources.routers() {
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
        for (router, own) in self.sources.routers().zip(own) {
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

//! The timing model: arrivals, and workers that serve their queues in order.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::config::{Arrivals, Timed};
use super::latencies::{Latencies, Latency};
use super::signals::Signals;
use crate::error::{Error, Result};
use crate::params::Value;

/// The end of simulated time: the sources' clocks go no further.
const LATEST: f64 = 1e12;

/// Simulated time, and the queues of all numbers.
#[derive(Debug)]
pub(super) struct Timing {
    arrivals: Arrivals,
    /// When in-flight messages finish, as bits, which sort like non-negative times.
    finishes: BinaryHeap<Reverse<u64>>,
    /// When the last message arrived.
    now: f64,
    newcomer_s: f64,
    /// Seconds per message of weight 1: at capacity 1, and currently.
    service_time_s: Vec<f64>,
    pace: Vec<f64>,
    /// When each number finishes what it was sent.
    free: Vec<f64>,
    /// Seconds of work of each number.
    busy: Vec<f64>,
    signals: Signals,
    latencies: Latencies,
    /// Latencies since the last sample: their sum and count.
    lately: Vec<(f64, u64)>,
    makespan_s: f64,
}

/// Figures in seconds.
#[derive(Debug, Clone)]
pub struct Times {
    /// When the last message was finished.
    pub makespan_s: f64,
    /// The share of that time that each number was busy.
    pub utilisation: Vec<f64>,
    /// Seconds from a message's arrival until it is finished.
    pub latency_s: Latency,
}

impl Timing {
    pub(super) fn new(timed: Timed) -> Self {
        let Timed { service_time_s, newcomer_s, capacities, arrivals, .. } = timed;
        let workers = service_time_s.len();
        Self {
            arrivals,
            finishes: BinaryHeap::new(),
            now: 0.0,
            newcomer_s,
            pace: service_time_s.iter().zip(capacities).map(|(seconds, capacity)| seconds / capacity).collect(),
            service_time_s,
            free: vec![0.0; workers],
            busy: vec![0.0; workers],
            signals: Signals::new(timed.feedback_interval_s, timed.busy_above, timed.idle_below, workers),
            latencies: Latencies::default(),
            lately: vec![(0.0, 0); workers],
            makespan_s: 0.0,
        }
    }

    /// The message at a position arrives; returns the time.
    #[inline(always)]
    pub(super) fn arrive(&mut self, position: u64) -> Result<f64> {
        match self.arrivals {
            Arrivals::Rate(rate) => self.now = position as f64 / rate,
            Arrivals::InFlight(most) => {
                if let Some(Reverse(first)) = self.finishes.peek().filter(|_| self.finishes.len() == most) {
                    self.now = self.now.max(f64::from_bits(*first));
                }
            }
        }
        within(self.now)?;
        Ok(self.now)
    }

    /// Sends the message that has just arrived to a worker.
    #[inline(always)]
    pub(super) fn serve(&mut self, worker: u32, weight: f64) -> Result<()> {
        let worker = worker as usize;
        let work = weight * self.pace[worker];
        let finish = self.now.max(self.free[worker]) + work;
        within(finish)?;
        self.free[worker] = finish;
        self.busy[worker] += work;
        self.signals.send(worker, work);
        if let Arrivals::InFlight(most) = self.arrivals {
            // The first message to finish made room for this one.
            if self.finishes.len() == most {
                if let Some(mut first) = self.finishes.peek_mut() {
                    *first = Reverse(finish.to_bits());
                }
            } else {
                self.finishes.push(Reverse(finish.to_bits()));
            }
        }
        self.makespan_s = self.makespan_s.max(finish);
        let latency = finish - self.now;
        self.latencies.add(latency);
        self.lately[worker].0 += latency;
        self.lately[worker].1 += 1;
        Ok(())
    }

    /// A worker joins, with an empty queue.
    pub(super) fn add_worker(&mut self, worker: u32, capacity: f64) {
        let worker = worker as usize;
        let numbers = self.free.len().max(worker + 1);
        for values in [&mut self.service_time_s, &mut self.pace, &mut self.free, &mut self.busy] {
            values.resize(numbers, 0.0);
        }
        self.lately.resize(numbers, (0.0, 0));
        self.service_time_s[worker] = self.newcomer_s;
        self.pace[worker] = self.newcomer_s / capacity;
        self.free[worker] = self.now;
        self.signals.add_worker(worker);
    }

    /// Changes a worker's speed, also for queued messages.
    pub(super) fn set_capacity(&mut self, worker: u32, capacity: f64) {
        let worker = worker as usize;
        let pace = self.service_time_s[worker] / capacity;
        if self.free[worker] > self.now {
            self.free[worker] = self.now + (self.free[worker] - self.now) * (pace / self.pace[worker]);
        }
        self.pace[worker] = pace;
    }

    /// Whether feedback is due.
    #[inline(always)]
    pub(super) fn signals_are_due(&self) -> bool {
        self.signals.are_due(self.now)
    }

    /// The busy and the idle present workers, and the service time of each number.
    pub(super) fn signal(&mut self, present: &[u32]) -> (Vec<u32>, Vec<u32>, Vec<f64>) {
        let (busy, idle) = self.signals.signal(self.now, &self.free, present);
        (busy, idle, self.pace.iter().map(|pace| pace.clamp(1e-12, 1e12)).collect())
    }

    /// The queue of each number, in messages of weight 1, and its mean latency since the last sample.
    pub(super) fn sample(&mut self) -> (Vec<f64>, Vec<f64>) {
        let waiting = self.free.iter().zip(&self.pace);
        let queue =
            waiting.map(|(free, pace)| if *pace == 0.0 { 0.0 } else { (free - self.now).max(0.0) / pace }).collect();
        let latency_s = self.lately.iter().map(|&(sum, messages)| sum / messages as f64).collect();
        self.lately.fill((0.0, 0));
        (queue, latency_s)
    }

    /// All figures.
    pub(super) fn times(&self) -> Times {
        let share = |busy: &f64| if self.makespan_s > 0.0 { busy / self.makespan_s } else { 0.0 };
        Times {
            makespan_s: self.makespan_s,
            utilisation: self.busy.iter().map(share).collect(),
            latency_s: self.latencies.summary(),
        }
    }
}

/// Checks that a time is within the range of the sources' clocks.
#[inline(always)]
fn within(time: f64) -> Result<()> {
    if time <= LATEST {
        return Ok(());
    }
    Err(Error::Value(format!("simulated time must be in 0..=1e12 seconds, got {}", Value::Number(time))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timing(service_time_s: &[f64], arrivals: Arrivals) -> Timing {
        Timing::new(Timed {
            service_time_s: service_time_s.to_vec(),
            newcomer_s: 0.5,
            capacities: vec![1.0; service_time_s.len()],
            arrivals,
            feedback_interval_s: 1.0,
            busy_above: 0.85,
            idle_below: 0.75,
        })
    }

    #[test]
    fn a_queue_is_served_in_order() {
        let mut timing = timing(&[1.0, 2.0], Arrivals::Rate(2.0));
        let arrivals: Vec<f64> = (0..4)
            .map(|position| {
                let now = timing.arrive(position).unwrap();
                timing.serve((position == 3).into(), 1.0).unwrap();
                now
            })
            .collect();
        assert_eq!(arrivals, [0.0, 0.5, 1.0, 1.5]);
        assert_eq!(timing.free, [3.0, 3.5]);
        let (queue, latency_s) = timing.sample();
        assert_eq!((queue, latency_s), (vec![1.5, 1.0], vec![1.5, 2.0]));
        assert!(timing.sample().1.iter().all(|latency| latency.is_nan()));
        assert_eq!(timing.times().utilisation, [3.0 / 3.5, 2.0 / 3.5]);
    }

    #[test]
    fn no_more_than_the_allowed_messages_are_in_flight() {
        let mut timing = timing(&[1.0, 3.0], Arrivals::InFlight(2));
        let mut arrivals = Vec::new();
        for (position, worker) in [0, 1, 0, 0, 0].into_iter().enumerate() {
            arrivals.push(timing.arrive(position as u64).unwrap());
            timing.serve(worker, 1.0).unwrap();
        }
        assert_eq!(arrivals, [0.0, 0.0, 1.0, 2.0, 3.0]);
    }

    #[test]
    fn what_waits_is_served_at_the_new_capacity() {
        let mut timing = timing(&[1.0], Arrivals::Rate(1.0));
        (0..2).for_each(|position| {
            timing.arrive(position).unwrap();
            timing.serve(0, 3.0).unwrap();
        });
        timing.arrive(2).unwrap();
        timing.set_capacity(0, 4.0);
        assert_eq!((timing.free[0], timing.pace[0]), (3.0, 0.25));
        timing.add_worker(1, 2.0);
        assert_eq!((timing.free[1], timing.pace[1]), (2.0, 0.25));
        timing.serve(1, 1.0).unwrap();
        assert_eq!(timing.free[1], 2.25);
    }

    #[test]
    fn time_has_an_end() {
        let mut timing = timing(&[1e12], Arrivals::Rate(1.0));
        timing.arrive(0).unwrap();
        timing.serve(0, 1.0).unwrap();
        let error = timing.serve(0, f64::MAX).unwrap_err().to_string();
        assert_eq!(error, "simulated time must be in 0..=1e12 seconds, got inf");
        assert!(timing.arrive(1_000_000_000_001).is_err());
    }
}

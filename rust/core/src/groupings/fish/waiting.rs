//! How long a message would wait at each worker: FISH paper, section 4.2 (heuristic worker assignment).

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::state::members::Members;
use crate::state::minimum::Minimum;
use crate::types::Worker;

/// A source's own estimate, from what it has sent and the time per message.
#[derive(Debug, Clone)]
pub(super) struct Waiting {
    interval_s: f64,
    state: State,
    /// Waiting times as bits, which sort like the times; [`ABSENT`] for absent workers.
    times: Vec<u64>,
    least: Minimum,
    /// Changes whenever a waiting time may have fallen; within a version they only grow.
    version: u64,
}

/// By worker number, and since when.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct State {
    interval_start: Option<f64>,
    /// Backlog in messages at the start of the interval.
    backlog: Vec<f64>,
    /// Messages sent since then.
    sent: Vec<f64>,
    /// Seconds per message.
    service_s: Vec<f64>,
    /// Whether waiting times are so diverse that ties are rare.
    uneven: bool,
}

/// Larger than any time.
const ABSENT: u64 = u64::MAX;

impl Waiting {
    pub(super) fn new(interval_s: f64, members: &Members) -> Self {
        let workers = members.numbers();
        let [backlog, sent, service_s] = [0.0, 0.0, 1.0].map(|value| vec![value; workers]);
        let state = State { interval_start: None, backlog, sent, service_s, uneven: false };
        let mut waiting = Self { interval_s, state, times: Vec::new(), least: Minimum::default(), version: 0 };
        waiting.estimate(members);
        waiting
    }

    /// Changes whenever an estimate may have fallen.
    #[inline(always)]
    pub(super) fn version(&self) -> u64 {
        self.version
    }

    #[inline(always)]
    pub(super) fn of(&self, worker: Worker) -> u64 {
        self.times[worker.index()]
    }

    /// The worker with the shortest waiting time, the lowest-numbered among equals.
    #[inline(always)]
    pub(super) fn shortest_of_all(&mut self) -> Worker {
        Worker(self.least.first_smallest(&self.times) as u32)
    }

    /// The shortest waiting time of all, if it is known without a search among them.
    #[inline(always)]
    pub(super) fn floor(&mut self) -> Option<u64> {
        self.least.floor(&self.times)
    }

    /// Weights other than 1 follow.
    pub(super) fn expect_weights(&mut self) {
        self.state.uneven = true;
        self.least.expect_uneven_steps();
    }

    /// Sends a message of this weight to a worker.
    #[inline(always)]
    pub(super) fn send(&mut self, worker: Worker, weight: f64) {
        let at = worker.index();
        self.state.sent[at] += weight;
        let time = self.time(at).to_bits();
        self.times[at] = time;
        self.least.grown(&self.times, at, time);
    }

    #[inline(always)]
    fn time(&self, at: usize) -> f64 {
        (self.state.backlog[at] + self.state.sent[at]) * self.state.service_s[at]
    }

    /// Advances the time; `start` is when the router started.
    #[inline(always)]
    pub(super) fn pass(&mut self, time: f64, start: f64, members: &Members) {
        if time - self.state.interval_start.unwrap_or(start) >= self.interval_s {
            self.end_intervals(time, start, members);
        }
    }

    /// Backlogs grow by what was sent in the interval and shrink by what was served meanwhile.
    #[cold]
    fn end_intervals(&mut self, time: f64, start: f64, members: &Members) {
        let state = &mut self.state;
        let begin = state.interval_start.unwrap_or(start);
        let elapsed = ((time - begin) / self.interval_s).floor() * self.interval_s;
        state.interval_start = Some(begin + elapsed);
        for ((backlog, sent), service_s) in state.backlog.iter_mut().zip(&mut state.sent).zip(&state.service_s) {
            *backlog = ((*backlog + *sent) - elapsed / service_s).max(0.0);
            *sent = 0.0;
        }
        self.estimate(members);
    }

    /// Takes sampled service times, one per worker number.
    pub(super) fn sample(&mut self, service_s: &[f64], members: &Members) {
        for worker in members.iter() {
            self.state.service_s[worker.index()] = service_s[worker.index()];
        }
        self.state.uneven |= service_s.iter().any(|&time| time != service_s[0]);
        self.estimate(members);
    }

    /// A worker joins. It starts with the shortest waiting time of the others and their average speed.
    pub(super) fn join(&mut self, worker: Worker, members: &Members) {
        let others = || members.iter().filter(|&other| other != worker);
        let mut sum = 0.0;
        others().for_each(|other| sum += self.state.service_s[other.index()]);
        let service_s = sum / others().count() as f64;
        let shortest = f64::from_bits(others().map(|other| self.of(other)).fold(u64::MAX, u64::min));
        let state = &mut self.state;
        for (values, value) in
            [(&mut state.backlog, shortest / service_s), (&mut state.sent, 0.0), (&mut state.service_s, service_s)]
        {
            values.resize(members.numbers(), 0.0);
            values[worker.index()] = value;
        }
        state.uneven |= service_s != 1.0;
        self.estimate(members);
    }

    /// Recomputes all waiting times.
    pub(super) fn estimate(&mut self, members: &Members) {
        self.times = (0..members.numbers())
            .map(|at| if members.contains(Worker(at as u32)) { self.time(at).to_bits() } else { ABSENT })
            .collect();
        self.version += 1;
        self.least = Minimum::default();
        if self.state.uneven {
            self.least.expect_uneven_steps();
        }
    }

    pub(super) fn save(&self) -> State {
        self.state.clone()
    }

    /// Continues from a saved state of these workers.
    pub(super) fn restore(&mut self, state: State, members: &Members) -> Result<()> {
        let sane = |values: &[f64]| values.len() == members.numbers() && values.iter().all(|&value| value >= 0.0);
        let started = state.interval_start.is_none_or(f64::is_finite);
        if !(started && sane(&state.backlog) && sane(&state.sent) && sane(&state.service_s)) {
            return Err(Error::damaged("its waiting times do not fit its workers"));
        }
        self.state = state;
        self.estimate(members);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_sent_and_done() {
        let members = Members::new(2);
        let mut waiting = Waiting::new(10.0, &members);
        waiting.sample(&[1.0, 2.0], &members);
        (0..30).for_each(|_| waiting.send(Worker(0), 1.0));
        (0..4).for_each(|_| waiting.send(Worker(1), 1.0));
        let times = |waiting: &Waiting| waiting.times.iter().map(|&bits| f64::from_bits(bits)).collect::<Vec<_>>();
        assert_eq!(times(&waiting), [30.0, 8.0]);
        waiting.pass(9.9, 0.0, &members);
        assert_eq!(times(&waiting), [30.0, 8.0]);
        waiting.pass(25.0, 0.0, &members);
        assert_eq!(times(&waiting), [10.0, 0.0]);
        waiting.pass(29.9, 0.0, &members);
        assert_eq!(times(&waiting), [10.0, 0.0]);
        waiting.pass(30.0, 0.0, &members);
        assert_eq!(times(&waiting), [0.0, 0.0]);
    }
}

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
    interval_start: Option<f64>,
    /// By worker number.
    queues: Vec<Queue>,
    /// Whether waiting times are so diverse that ties are rare.
    uneven: bool,
    /// Waiting times as bits, which sort like the times; [`ABSENT`] for absent workers.
    times: Vec<u64>,
    least: Minimum,
}

/// The messages of one worker.
#[derive(Debug, Clone, Copy)]
struct Queue {
    /// In messages, at the start of the interval.
    backlog: f64,
    /// Messages since then.
    sent: f64,
    /// Seconds per message.
    service_s: f64,
}

impl Queue {
    #[inline(always)]
    fn time(&self) -> u64 {
        ((self.backlog + self.sent) * self.service_s).to_bits()
    }
}

/// What [`Waiting::restore`] needs: [`Queue`]s by column.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct State {
    interval_start: Option<f64>,
    backlog: Vec<f64>,
    sent: Vec<f64>,
    service_s: Vec<f64>,
    uneven: bool,
}

/// Larger than any time.
const ABSENT: u64 = u64::MAX;

impl Waiting {
    pub(super) fn new(interval_s: f64, members: &Members) -> Self {
        let mut waiting = Self {
            interval_s,
            interval_start: None,
            queues: vec![Queue { backlog: 0.0, sent: 0.0, service_s: 1.0 }; members.numbers()],
            uneven: false,
            times: Vec::new(),
            least: Minimum::default(),
        };
        waiting.estimate(members);
        waiting
    }

    #[inline(always)]
    pub(super) fn of(&self, worker: Worker) -> u64 {
        self.times[worker.index()]
    }

    /// The one of two workers with the shorter waiting time, the first among equals. Masks choose it, because a branch would
    /// often be mispredicted.
    #[inline(always)]
    pub(super) fn shorter(&self, first: Worker, second: Worker) -> Worker {
        let second_is_shorter = 0u32.wrapping_sub(u32::from(self.of(second) < self.of(first)));
        Worker(first.0 ^ ((first.0 ^ second.0) & second_is_shorter))
    }

    /// The shortest waiting time of all, if it is known without a search among them.
    #[inline(always)]
    pub(super) fn floor(&mut self) -> Option<u64> {
        self.least.floor(&self.times)
    }

    /// Weights other than 1 follow.
    pub(super) fn expect_weights(&mut self) {
        self.uneven = true;
        self.least.expect_uneven_steps();
    }

    /// Sends a message of this weight to a worker.
    #[inline(always)]
    pub(super) fn send(&mut self, worker: Worker, weight: f64) {
        let at = worker.index();
        let queue = &mut self.queues[at];
        queue.sent += weight;
        let time = queue.time();
        self.times[at] = time;
        self.least.grown(&self.times, at, time);
    }

    /// Sends a message of this weight to the worker with the shortest waiting time, the lowest-numbered among equals.
    #[inline(always)]
    pub(super) fn send_to_shortest(&mut self, weight: f64) -> Worker {
        let queues = &mut self.queues;
        let grow = |at: usize| {
            queues[at].sent += weight;
            queues[at].time()
        };
        Worker(self.least.grow_first_by(&mut self.times, grow) as u32)
    }

    /// Advances the time; `start` is when the router started.
    #[inline(always)]
    pub(super) fn pass(&mut self, time: f64, start: f64, members: &Members) {
        if self.ends_by(time, start) {
            self.end_intervals(time, start, members);
        }
    }

    /// Whether the interval ends by a time.
    #[inline(always)]
    pub(super) fn ends_by(&self, time: f64, start: f64) -> bool {
        time - self.interval_start.unwrap_or(start) >= self.interval_s
    }

    /// Backlogs grow by what was sent in the interval and shrink by what was served meanwhile.
    #[cold]
    fn end_intervals(&mut self, time: f64, start: f64, members: &Members) {
        let begin = self.interval_start.unwrap_or(start);
        let elapsed = ((time - begin) / self.interval_s).floor() * self.interval_s;
        self.interval_start = Some(begin + elapsed);
        for Queue { backlog, sent, service_s } in &mut self.queues {
            *backlog = ((*backlog + *sent) - elapsed / *service_s).max(0.0);
            *sent = 0.0;
        }
        self.estimate(members);
    }

    /// Takes sampled service times, one per worker number.
    pub(super) fn sample(&mut self, service_s: &[f64], members: &Members) {
        for worker in members.iter() {
            self.queues[worker.index()].service_s = service_s[worker.index()];
        }
        self.uneven |= service_s.iter().any(|&time| time != service_s[0]);
        self.estimate(members);
    }

    /// A worker joins. It starts with the shortest waiting time of the others and their average speed.
    pub(super) fn join(&mut self, worker: Worker, members: &Members) {
        let others = || members.iter().filter(|&other| other != worker);
        let mut sum = 0.0;
        others().for_each(|other| sum += self.queues[other.index()].service_s);
        let service_s = sum / others().count() as f64;
        let shortest = f64::from_bits(others().map(|other| self.of(other)).fold(u64::MAX, u64::min));
        let absent = Queue { backlog: 0.0, sent: 0.0, service_s: 0.0 };
        self.queues.resize(members.numbers(), absent);
        self.queues[worker.index()] = Queue { backlog: shortest / service_s, sent: 0.0, service_s };
        self.uneven |= service_s != 1.0;
        self.estimate(members);
    }

    /// Recomputes all waiting times.
    pub(super) fn estimate(&mut self, members: &Members) {
        self.times = (0..members.numbers())
            .map(|at| if members.contains(Worker(at as u32)) { self.queues[at].time() } else { ABSENT })
            .collect();
        self.least = Minimum::default();
        if self.uneven {
            self.least.expect_uneven_steps();
        }
    }

    pub(super) fn save(&self) -> State {
        let column = |of: fn(&Queue) -> f64| self.queues.iter().map(of).collect();
        State {
            interval_start: self.interval_start,
            backlog: column(|queue| queue.backlog),
            sent: column(|queue| queue.sent),
            service_s: column(|queue| queue.service_s),
            uneven: self.uneven,
        }
    }

    /// Continues from a saved state of these workers.
    pub(super) fn restore(&mut self, state: State, members: &Members) -> Result<()> {
        let State { interval_start, backlog, sent, service_s, uneven } = state;
        let sane = |values: &[f64]| values.len() == members.numbers() && values.iter().all(|&value| value >= 0.0);
        let started = interval_start.is_none_or(f64::is_finite);
        if !(started && sane(&backlog) && sane(&sent) && sane(&service_s)) {
            return Err(Error::damaged("its waiting times do not fit its workers"));
        }
        (self.interval_start, self.uneven) = (interval_start, uneven);
        let columns = backlog.into_iter().zip(sent).zip(service_s);
        self.queues = columns.map(|((backlog, sent), service_s)| Queue { backlog, sent, service_s }).collect();
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

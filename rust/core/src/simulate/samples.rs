//! When samples are taken, and what they contain.

use crate::error::Result;
use crate::metrics::imbalance;

/// The samples so far, and when the next are due.
#[derive(Debug)]
pub(super) struct Samples {
    schedule: Schedule,
    /// The message count of each sample.
    positions: Vec<u64>,
    imbalances: Vec<f64>,
    queues: Vec<Vec<f64>>,
    latencies_s: Vec<Vec<f64>>,
}

/// When samples are taken.
#[derive(Debug, Clone)]
struct Schedule {
    every: Every,
    /// Message count at the next sample.
    next: u64,
}

#[derive(Debug, Clone)]
enum Every {
    /// `samples` equidistant ones over `messages`, `taken` so far; those at the same message are merged.
    Even { messages: u64, samples: u64, taken: u64 },
    /// One every `stride` messages, which doubles when 2 * `samples` are kept.
    Stride { samples: u64, stride: u64, kept: u64 },
}

/// The samples' contents, one entry per sample; queues and latencies are empty without a timing model.
#[derive(Debug, Clone)]
pub struct Sampled {
    /// The number of messages before each sample.
    pub positions: Vec<u64>,
    /// The imbalance of the loads.
    pub imbalances: Vec<f64>,
    /// Messages of weight 1 that are waiting, per worker number.
    pub queues: Vec<Vec<f64>>,
    /// Mean latency of the messages sent to each number since the previous sample.
    pub latencies_s: Vec<Vec<f64>>,
}

impl Samples {
    /// The samples of a stream, with its length if known.
    pub(super) fn new(samples: u64, messages: Option<u64>) -> Self {
        Self {
            schedule: Schedule::new(samples, messages),
            positions: Vec::new(),
            imbalances: Vec::new(),
            queues: Vec::new(),
            latencies_s: Vec::new(),
        }
    }

    /// The number of messages after which the next sample is due.
    #[inline(always)]
    pub(super) fn next(&self) -> u64 {
        self.schedule.next
    }

    /// The message counts at the next samples that are due until then, not more than so many.
    pub(super) fn due(&self, until: u64, most: usize) -> Vec<u64> {
        let mut schedule = self.schedule.clone();
        let mut due = Vec::new();
        while schedule.next <= until && due.len() < most {
            due.push(schedule.next);
            schedule.advance();
        }
        due
    }

    /// Takes a sample, with queues and latencies if there is a timing model.
    pub(super) fn take(&mut self, count: u64, loads: &[f64], timed: Option<(Vec<f64>, Vec<f64>)>) -> Result<()> {
        self.positions.push(count);
        self.imbalances.push(imbalance(loads)?);
        if let Some((queue, latency_s)) = timed {
            self.queues.push(queue);
            self.latencies_s.push(latency_s);
        }
        if self.schedule.advance() {
            every_other(&mut self.positions);
            every_other(&mut self.imbalances);
            every_other(&mut self.queues);
            every_other(&mut self.latencies_s);
        }
        Ok(())
    }

    /// Whether another one is due at the end of this many messages.
    pub(super) fn is_due_at_the_end(&self, count: u64) -> bool {
        match self.schedule.every {
            Every::Even { .. } | Every::Stride { samples: 0, .. } => false,
            Every::Stride { .. } => count > 0 && self.positions.last() != Some(&count),
        }
    }

    /// All samples.
    pub(super) fn into_sampled(self) -> Sampled {
        let Self { positions, imbalances, queues, latencies_s, .. } = self;
        Sampled { positions, imbalances, queues, latencies_s }
    }
}

impl Schedule {
    fn new(samples: u64, messages: Option<u64>) -> Self {
        let every = match messages {
            Some(messages) => Every::Even { messages, samples, taken: 0 },
            None => Every::Stride { samples, stride: 1, kept: 0 },
        };
        let mut schedule = Self { every, next: 0 };
        schedule.plan();
        schedule
    }

    /// Counts the sample that was due; returns whether every other one is dropped.
    fn advance(&mut self) -> bool {
        let mut drops = false;
        if let Every::Stride { samples, stride, kept } = &mut self.every {
            *kept += 1;
            drops = *kept == 2 * *samples;
            if drops {
                (*stride, *kept) = (2 * *stride, *samples);
            }
        }
        self.plan();
        drops
    }

    /// Sets `next`, after the samples so far.
    fn plan(&mut self) {
        let last = self.next;
        self.next = match &mut self.every {
            Every::Even { messages, samples, taken } => {
                let at = |taken: u64| (u128::from(taken) * u128::from(*messages)).div_ceil(u128::from(*samples)) as u64;
                loop {
                    if *taken == *samples {
                        break u64::MAX;
                    }
                    *taken += 1;
                    if at(*taken) > last {
                        break at(*taken);
                    }
                }
            }
            Every::Stride { samples: 0, .. } => u64::MAX,
            Every::Stride { stride, .. } => last + *stride - last % *stride,
        };
    }
}

impl Sampled {
    /// The mean of the imbalances, 0 if there are none.
    pub fn mean_imbalance(&self) -> f64 {
        let sum = self.imbalances.iter().fold(0.0, |sum, imbalance| sum + imbalance);
        if self.imbalances.is_empty() { 0.0 } else { sum / self.imbalances.len() as f64 }
    }
}

/// Drops the first, the third and so on.
fn every_other<T>(values: &mut Vec<T>) {
    let mut keep = true;
    values.retain(|_| {
        keep = !keep;
        keep
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn positions(samples: u64, known: bool, messages: u64) -> Vec<u64> {
        let mut taken = Samples::new(samples, known.then_some(messages));
        for count in 1..=messages {
            if count == taken.next() {
                taken.take(count, &[1.0], None).unwrap();
            }
        }
        if taken.is_due_at_the_end(messages) {
            taken.take(messages, &[1.0], None).unwrap();
        }
        taken.into_sampled().positions
    }

    #[test]
    fn samples_of_a_known_length_are_even() {
        assert_eq!(positions(4, true, 10), [3, 5, 8, 10]);
        assert_eq!(positions(100, true, 3), [1, 2, 3]);
        assert_eq!(positions(3, true, 3), [1, 2, 3]);
        assert_eq!(positions(1, true, 7), [7]);
        assert_eq!(positions(7, true, 0), [0; 0]);
        assert_eq!(positions(0, true, 7), [0; 0]);
    }

    #[test]
    fn samples_of_an_unknown_length_thin_out() {
        assert_eq!(positions(2, false, 3), [1, 2, 3]);
        assert_eq!(positions(2, false, 4), [2, 4]);
        assert_eq!(positions(2, false, 5), [2, 4, 5]);
        assert_eq!(positions(2, false, 7), [4, 7]);
        assert_eq!(positions(2, false, 8), [4, 8]);
        assert_eq!(positions(1, false, 5), [5]);
        assert_eq!(positions(3, false, 1000), [256, 512, 768, 1000]);
        assert_eq!(positions(3, false, 0), [0; 0]);
        assert_eq!(positions(0, false, 7), [0; 0]);
    }
}

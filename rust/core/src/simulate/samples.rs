//! When samples are taken, and what they contain.

use crate::error::Result;
use crate::metrics::imbalance;

/// When samples are taken.
#[derive(Debug)]
pub(super) struct Samples {
    schedule: Schedule,
    next: u64,
    /// The message count of each sample.
    positions: Vec<u64>,
    imbalances: Vec<f64>,
    queues: Vec<Vec<f64>>,
    latencies_s: Vec<Vec<f64>>,
}

#[derive(Debug)]
enum Schedule {
    /// `samples` equidistant ones over `messages`, `taken` so far; those at the same message are merged.
    Even { messages: u64, samples: u64, taken: u64 },
    /// One every `stride` messages, which doubles when there are 2 * `samples`.
    Open { samples: usize, stride: u64 },
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
        let schedule = match messages {
            Some(messages) => Schedule::Even { messages, samples, taken: 0 },
            None => Schedule::Open { samples: samples as usize, stride: 1 },
        };
        let mut samples = Self {
            schedule,
            next: 0,
            positions: Vec::new(),
            imbalances: Vec::new(),
            queues: Vec::new(),
            latencies_s: Vec::new(),
        };
        samples.plan();
        samples
    }

    /// The number of messages after which the next sample is due.
    #[inline(always)]
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// Takes a sample, with queues and latencies if there is a timing model.
    pub(super) fn take(&mut self, count: u64, loads: &[f64], timed: Option<(Vec<f64>, Vec<f64>)>) -> Result<()> {
        self.positions.push(count);
        self.imbalances.push(imbalance(loads)?);
        if let Some((queue, latency_s)) = timed {
            self.queues.push(queue);
            self.latencies_s.push(latency_s);
        }
        self.plan();
        Ok(())
    }

    /// Sets `next`, after the samples so far.
    fn plan(&mut self) {
        let last = self.positions.last().copied().unwrap_or(0);
        match &mut self.schedule {
            Schedule::Even { messages, samples, taken } => {
                let at = |taken: u64| (u128::from(taken) * u128::from(*messages)).div_ceil(u128::from(*samples)) as u64;
                while *taken < *samples {
                    *taken += 1;
                    if at(*taken) > last {
                        self.next = at(*taken);
                        return;
                    }
                }
                self.next = u64::MAX;
            }
            Schedule::Open { samples: 0, .. } => self.next = u64::MAX,
            Schedule::Open { samples, stride } => {
                if self.positions.len() == 2 * *samples {
                    *stride *= 2;
                    every_other(&mut self.positions);
                    every_other(&mut self.imbalances);
                    every_other(&mut self.queues);
                    every_other(&mut self.latencies_s);
                }
                self.next = last + *stride - last % *stride;
            }
        }
    }

    /// Whether another one is due at the end of this many messages.
    pub(super) fn is_due_at_the_end(&self, count: u64) -> bool {
        match self.schedule {
            Schedule::Even { .. } | Schedule::Open { samples: 0, .. } => false,
            Schedule::Open { .. } => count > 0 && self.positions.last() != Some(&count),
        }
    }

    /// All samples.
    pub(super) fn into_sampled(self) -> Sampled {
        let Self { positions, imbalances, queues, latencies_s, .. } = self;
        Sampled { positions, imbalances, queues, latencies_s }
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

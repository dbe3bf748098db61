//! Feedback: when workers report to the sources, and what.

/// Workers' work since they last reported.
#[derive(Debug)]
pub(super) struct Signals {
    interval_s: f64,
    busy_above: f64,
    idle_below: f64,
    /// Intervals completed at the last feedback.
    intervals: u64,
    next_s: f64,
    last_s: f64,
    /// When each number would have been free, at the last feedback.
    free_then: Vec<f64>,
    /// Seconds of work sent to each number since.
    sent: Vec<f64>,
}

impl Signals {
    pub(super) fn new(interval_s: f64, busy_above: f64, idle_below: f64, workers: usize) -> Self {
        let zeros = vec![0.0; workers];
        let (free_then, sent) = (zeros.clone(), zeros);
        Self { interval_s, busy_above, idle_below, intervals: 0, next_s: interval_s, last_s: 0.0, free_then, sent }
    }

    /// A worker is sent so much work.
    #[inline(always)]
    pub(super) fn send(&mut self, worker: usize, work: f64) {
        self.sent[worker] += work;
    }

    /// A worker joins, with an empty queue.
    pub(super) fn add_worker(&mut self, worker: usize) {
        for values in [&mut self.free_then, &mut self.sent] {
            values.resize(values.len().max(worker + 1), 0.0);
            values[worker] = 0.0;
        }
    }

    /// Whether feedback is due.
    #[inline(always)]
    pub(super) fn are_due(&self, now: f64) -> bool {
        now >= self.next_s
    }

    /// The busy and the idle present workers, given when each number will be free.
    pub(super) fn signal(&mut self, now: f64, free: &[f64], present: &[u32]) -> (Vec<u32>, Vec<u32>) {
        let slot = now - self.last_s;
        let utilisation = |&&worker: &&u32| {
            let worker = worker as usize;
            ((self.free_then[worker] - self.last_s).max(0.0) + self.sent[worker]) / slot
        };
        let busy = present.iter().filter(|worker| utilisation(worker) > self.busy_above).copied().collect();
        let idle = present.iter().filter(|worker| utilisation(worker) < self.idle_below).copied().collect();

        self.skip_to(now);
        self.last_s = now;
        self.free_then.copy_from_slice(free);
        self.sent.fill(0.0);
        (busy, idle)
    }

    /// Counts the completed intervals.
    fn skip_to(&mut self, now: f64) {
        let end = |intervals: u64| intervals as f64 * self.interval_s;
        // As if counted one by one: the quotient may be off by one.
        let mut intervals = ((now / self.interval_s) as u64).max(self.intervals);
        while end(intervals) > now {
            intervals -= 1;
        }
        while end(intervals + 1) <= now {
            intervals += 1;
        }
        (self.intervals, self.next_s) = (intervals, end(intervals + 1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_report_once_per_interval() {
        let mut signals = Signals::new(0.1, 0.85, 0.75, 3);
        assert!(!signals.are_due(0.09));
        assert!(signals.are_due(0.1));
        signals.send(0, 0.3);
        signals.send(1, 0.28);
        // 0.35 s: at most 0.85 of it are 0.2975, at least 0.75 are 0.2625.
        assert_eq!(signals.signal(0.35, &[0.35, 0.36, 9.0], &[0, 1, 2]), (vec![0], vec![2]));
        assert!(!signals.are_due(0.4 - 1e-9) && signals.are_due(0.4));
        // Worker 2 has been left 8.65 s, worker 1 next to nothing.
        assert_eq!(signals.signal(0.4, &[0.4; 3], &[1, 2]), (vec![2], vec![1]));
    }

    #[test]
    fn intervals_are_counted_as_one_by_one() {
        for interval_s in [0.1, 0.3, 1e-3, 7.0] {
            let mut signals = Signals::new(interval_s, 1.0, 0.0, 0);
            let mut counted = 0u64;
            for step in 1..2000 {
                let now = f64::from(step) * 0.1;
                while (counted + 1) as f64 * interval_s <= now {
                    counted += 1;
                }
                signals.skip_to(now);
                assert_eq!(signals.intervals, counted, "{interval_s} at {now}");
            }
        }
    }
}

//! The clock of a router whose rules run on time.
//!
//! It shows the latest time passed in; messages without a time advance it by a fixed step each, so that results are
//! repeatable (`docs/routing.md`).

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::snapshot::checked_count;

/// Seconds, never decreasing once started.
#[derive(Debug, Clone)]
pub(crate) struct Clock {
    step: f64,
    state: ClockState,
}

/// A snapshot's part of a clock.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct ClockState {
    base: f64,
    /// Messages since `base`.
    count: u64,
    /// Time of the first message, or of an earlier observation.
    start: Option<f64>,
}

impl Clock {
    /// A clock that has not started; messages without a time arrive at this rate.
    pub(crate) fn new(messages_per_s: f64) -> Self {
        Self { step: 1.0 / messages_per_s, state: ClockState::default() }
    }

    #[inline(always)]
    pub(crate) fn time(&self) -> f64 {
        self.state.base + self.state.count as f64 * self.step
    }

    /// The start of the router; the current time if it has not started.
    pub(crate) fn start(&self) -> f64 {
        self.state.start.unwrap_or_else(|| self.time())
    }

    /// Whether the router has started.
    pub(crate) fn started(&self) -> bool {
        self.state.start.is_some()
    }

    /// Sets the clock to the time of an observation.
    pub(crate) fn observe(&mut self, now: Option<f64>) {
        self.move_to(now);
        if now.is_some() {
            self.begin();
        }
    }

    /// Starts a non-empty batch; returns how time advances over its messages.
    pub(crate) fn expect(&mut self, now: Option<f64>) -> Pace {
        self.move_to(now);
        self.begin();
        Pace(u64::from(now.is_none()))
    }

    /// The time of the next message.
    #[inline(always)]
    pub(crate) fn message(&mut self, pace: Pace) -> f64 {
        let time = self.time();
        self.state.count += pace.0;
        time
    }

    /// The time of a message after so many others.
    #[inline(always)]
    pub(crate) fn time_after(&self, messages: usize, pace: Pace) -> f64 {
        self.state.base + (self.state.count + messages as u64 * pace.0) as f64 * self.step
    }

    /// Advances by this many messages.
    pub(crate) fn skip(&mut self, messages: usize, pace: Pace) {
        self.state.count += messages as u64 * pace.0;
    }

    fn move_to(&mut self, now: Option<f64>) {
        if let Some(now) = now.filter(|&now| !self.started() || now > self.time()) {
            (self.state.base, self.state.count) = (now, 0);
        }
    }

    fn begin(&mut self) {
        self.state.start = Some(self.start());
    }

    pub(crate) fn save(&self) -> ClockState {
        self.state.clone()
    }

    pub(crate) fn restore(&mut self, state: ClockState) -> Result<()> {
        checked_count(state.count)?;
        if !is_time(state.base) || state.start.is_some_and(|start| !is_time(start)) {
            return Err(Error::damaged("its clock has no valid time"));
        }
        self.state = state;
        Ok(())
    }
}

/// Whether a caller's clock may show this number of seconds: larger ones are in another unit, and adding a millisecond
/// would be lost.
pub(crate) fn is_time(seconds: f64) -> bool {
    (-LATEST..=LATEST).contains(&seconds)
}

/// The latest time a caller's clock may show.
pub(crate) const LATEST: f64 = 1e12;

/// The number of steps per message: none in a batch that has a time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pace(u64);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_without_a_time_move_the_clock_on() {
        let mut clock = Clock::new(4.0);
        assert!(!clock.started());
        let pace = clock.expect(None);
        assert_eq!([clock.message(pace), clock.message(pace), clock.message(pace)], [0.0, 0.25, 0.5]);
        let pace = clock.expect(Some(7.0));
        assert_eq!([clock.message(pace), clock.message(pace)], [7.0, 7.0]);
        let pace = clock.expect(Some(6.0));
        assert_eq!(clock.message(pace), 7.0);
        let pace = clock.expect(None);
        assert_eq!([clock.message(pace), clock.message(pace)], [7.0, 7.25]);
        assert_eq!(clock.start(), 0.0);
    }

    #[test]
    fn the_first_time_may_be_before_0() {
        let mut clock = Clock::new(4.0);
        clock.observe(Some(-7.0));
        assert_eq!((clock.start(), clock.time()), (-7.0, -7.0));
        clock.observe(Some(-8.0));
        assert_eq!(clock.time(), -7.0);
    }
}

//! What workers and other sources report to a source.

use crate::error::{Error, Result};
use crate::params::Value;

/// Signals and samples; a field left out is not updated.
#[derive(Debug, Clone, Copy, Default)]
pub struct Feedback<'a> {
    /// Seconds on the caller's monotonic clock.
    pub now: Option<f64>,
    /// Overloaded workers, in the order of their signals.
    pub busy: &'a [u32],
    /// Underloaded workers, in the order of their signals.
    pub idle: &'a [u32],
    /// Seconds per message of weight 1, per worker number, in 1e-12..=1e12.
    pub service_time_s: Option<&'a [f64]>,
    /// What all other sources together have sent, per worker number, finite and at least 0.
    pub loads: Option<&'a [f64]>,
}

impl Feedback<'_> {
    /// Checks everything but the time, for this many worker numbers.
    pub(crate) fn check(&self, numbers: usize) -> Result<()> {
        for (name, workers) in [("busy", self.busy), ("idle", self.idle)] {
            if let Some(worker) = workers.iter().find(|&&worker| worker as usize >= numbers) {
                return Err(Error::Value(format!("{name} must be in 0..={}, got {worker}", numbers - 1)));
            }
        }
        let per_worker = [
            ("service_time_s", self.service_time_s, 1e-12..=1e12, "in 1e-12..=1e12"),
            ("loads", self.loads, 0.0..=f64::MAX, "finite and at least 0"),
        ];
        for (name, values, range, allowed) in per_worker {
            let Some(values) = values else { continue };
            if values.len() != numbers {
                return Err(Error::Value(format!(
                    "{name} must be one per worker, {numbers} in all, got {}",
                    values.len()
                )));
            }
            if let Some(value) = values.iter().find(|value| !range.contains(value)) {
                return Err(Error::Value(format!("{name} must be {allowed}, got {}", Value::Number(*value))));
            }
        }
        Ok(())
    }
}

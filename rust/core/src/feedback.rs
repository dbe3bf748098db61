//! What workers and other sources let a source know.

use crate::error::{Error, Result};
use crate::params::Value;

/// Signals and samples; whatever is left out is not known anew.
#[derive(Debug, Clone, Copy, Default)]
pub struct Feedback<'a> {
    /// Seconds on the caller's clock, which never goes back.
    pub now: Option<f64>,
    /// Workers that have more to do than they can, in the order of their signals.
    pub busy: &'a [u32],
    /// Workers that have less to do than they can, in the order of their signals.
    pub idle: &'a [u32],
    /// Seconds that a message of weight 1 takes, a worker number, in 1e-12..=1e12.
    pub service_time_s: Option<&'a [f64]>,
    /// What the other sources together have sent, a worker number, finite and at least 0.
    pub loads: Option<&'a [f64]>,
}

impl Feedback<'_> {
    /// Checks all but the time, for workers of so many numbers.
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
                    "{name} must be one a worker, {numbers} in all, got {}",
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

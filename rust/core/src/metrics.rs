//! How balanced loads are, and what splitting keys costs.

use crate::error::{Error, Result};
pub use crate::state::replicas::Replicas;

/// (max - mean) / sum of the loads, 0 when nothing was sent (ICDE 2016 paper, section II-C).
pub fn imbalance(loads: &[f64]) -> Result<f64> {
    let spread = Spread::of(loads)?;
    Ok(spread.over(spread.max - spread.mean, spread.sum))
}

/// (max - mean) / mean of the loads, 0 when nothing was sent (FlexD's lambda).
pub fn relative_imbalance(loads: &[f64]) -> Result<f64> {
    let spread = Spread::of(loads)?;
    Ok(spread.over(spread.max - spread.mean, spread.mean))
}

/// Standard deviation of the loads in per cent of their sum, 0 when nothing was sent (DKG's StdDev).
pub fn load_stddev(loads: &[f64]) -> Result<f64> {
    let spread = Spread::of(loads)?;
    // squares of very large or small loads are out of a float's range: a power of two changes no digit
    let scale = f64::from_bits(spread.max.to_bits() & f64::INFINITY.to_bits()).max(f64::MIN_POSITIVE);
    let squares: f64 = loads.iter().map(|load| ((load - spread.mean) / scale).powi(2)).sum();
    Ok(100.0 * spread.over((squares / loads.len() as f64).sqrt(), spread.sum / scale))
}

struct Spread {
    sum: f64,
    mean: f64,
    max: f64,
}

impl Spread {
    fn of(loads: &[f64]) -> Result<Self> {
        if loads.is_empty() {
            return Err(Error::value("loads must have a load for at least one worker, got none"));
        }
        if let Some(load) = loads.iter().find(|load| !(load.is_finite() && **load >= 0.0)) {
            return Err(Error::Value(format!("loads must be finite and at least 0, got {load:?}")));
        }
        let sum: f64 = loads.iter().sum();
        if !sum.is_finite() {
            return Err(Error::value("loads must have a finite sum, got inf"));
        }
        Ok(Self { sum, mean: sum / loads.len() as f64, max: loads.iter().copied().fold(0.0, f64::max) })
    }

    fn over(&self, difference: f64, whole: f64) -> f64 {
        if self.sum > 0.0 { difference / whole } else { 0.0 }
    }
}

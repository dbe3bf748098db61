//! Power of random choices: one choice after another until there is room.

use super::{Route, candidate};

const EPSILON: f64 = 0.01;

pub fn power_of_random(workers: u32) -> Route {
    let mut loads = vec![0u64; workers as usize];
    let mut sent = 0u64;
    Box::new(move |key| {
        sent += 1;
        let capacity = ((1.0 + EPSILON) * sent as f64 / f64::from(workers)).ceil() as u64;
        let worker =
            (0..).map(|choice| candidate(key, choice, workers)).find(|&worker| loads[worker] < capacity).unwrap_or(0);
        loads[worker] += 1;
        worker as u32
    })
}

//! What is routed in the benchmarks, and by what.

use keysplit_core::Arguments;
use keysplit_core::groupings::REGISTRY;
use keysplit_core::hash::KeyHasher;

/// Workers of a case whose label does not say otherwise.
pub const WORKERS: u32 = 100;
/// Distinct keys of a stream.
pub const KEYS: usize = 100_000;
/// Messages of a stream.
pub const MESSAGES: usize = 1_000_000;

/// Keys drawn with probability proportional to rank^-exponent, by a small generator of fixed seed.
pub fn zipf(exponent: f64) -> Vec<i64> {
    let mut cumulated: Vec<f64> = (1..=KEYS).map(|rank| (rank as f64).powf(-exponent)).collect();
    for rank in 1..KEYS {
        cumulated[rank] += cumulated[rank - 1];
    }
    let whole = cumulated[KEYS - 1];
    let draws = KeyHasher::new(1);
    (0..MESSAGES as i64)
        .map(|message| {
            let share = (draws.whole(message) >> 11) as f64 / (1u64 << 53) as f64;
            cumulated.partition_point(|&sum| sum <= share * whole) as i64
        })
        .collect()
}

/// Every case by its label: the grouping's name and its parameters, the paper's unless the label says otherwise.
pub fn cases() -> Vec<(&'static str, &'static str, Arguments)> {
    let on = |workers: u32| Arguments::new(workers.into(), 0);
    let mut cases = vec![
        ("greedy_4", "partial_key", on(WORKERS).with("choices", 4)),
        ("greedy_8", "partial_key", on(WORKERS).with("choices", 8)),
        ("power_of_random_1000", "power_of_random", on(1000)),
        ("power_of_random_10000", "power_of_random", on(10_000)),
    ];
    cases.extend(REGISTRY.iter().map(|entry| (entry.name, entry.name, on(WORKERS))));
    cases
}

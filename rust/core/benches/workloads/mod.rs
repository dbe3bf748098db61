//! What is routed in the benchmarks, and by what.

use keysplit_core::Params;
use keysplit_core::hash::KeyHasher;

pub const WORKERS: u32 = 100;
pub const KEYS: usize = 100_000;
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
pub fn cases() -> Vec<(&'static str, &'static str, Params)> {
    let on = |workers: u32| Params::new(workers.into(), 0);
    let common = || on(WORKERS);
    let head = || common().with("threshold", None::<f64>).with("sketch_capacity", None::<u64>).with("distinct", false);
    let greedy = |choices: i32| common().with("choices", choices).with("distinct", false);
    let clock = || common().with("messages_per_s", 1000.0);
    vec![
        ("shuffle", "shuffle", common()),
        ("key", "key", common()),
        ("partial_key", "partial_key", greedy(2)),
        ("greedy_4", "partial_key", greedy(4)),
        ("greedy_8", "partial_key", greedy(8)),
        ("power_of_two", "power_of_two", common()),
        ("ring", "ring", common().with("virtual_nodes", 100)),
        ("bounded_ring", "bounded_ring", common().with("virtual_nodes", 100).with("epsilon", 0.01)),
        ("power_of_random", "power_of_random", common().with("epsilon", 0.01)),
        ("power_of_random_1000", "power_of_random", on(1000).with("epsilon", 0.01)),
        ("power_of_random_10000", "power_of_random", on(10_000).with("epsilon", 0.01)),
        ("round_robin", "round_robin", head()),
        ("d_choices", "d_choices", head().with("tolerance", 1e-4)),
        ("w_choices", "w_choices", head()),
        ("consistent", "consistent", clock().with("virtual_workers", 10).with("epsilon", 0.01).with("slot_s", 1.0)),
        (
            "fish",
            "fish",
            clock()
                .with("epoch_messages", 1000)
                .with("decay", 0.2)
                .with("threshold", None::<f64>)
                .with("sketch_capacity", 1000)
                .with("interval_s", 10.0)
                .with("virtual_nodes", 100),
        ),
        (
            "flexd",
            "flexd",
            clock()
                .with("segment_messages", 10_000)
                .with("threshold", None::<f64>)
                .with("growth", 1.5)
                .with("sketch_capacity", None::<u64>)
                .with("table_keys", 50_000)
                .with("clean_interval_s", 600.0),
        ),
        (
            "dynamic_key",
            "dynamic_key",
            clock()
                .with("expected_keys", 100)
                .with("warm_up_s", 15.0)
                .with("teenage_interval_s", 15.0)
                .with("old_interval_s", 60.0)
                .with("check_interval_s", 0.0),
        ),
        (
            "distribution_aware",
            "distribution_aware",
            common().with("learning_messages", 10_000).with("threshold", None::<f64>).with("buckets", None::<u64>),
        ),
        (
            "pstream",
            "pstream",
            common().with("coins", 6).with("most_coins", 16).with("decay", 0.01).with("filter_counters", 16_384),
        ),
        (
            "dalton",
            "dalton",
            common()
                .with("interval_messages", 10_000)
                .with("learning_rate", 0.1)
                .with("exploration", 0.1)
                .with("max_split", 6),
        ),
    ]
}

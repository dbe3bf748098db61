//! Cost a message of every grouping, beside the key-grouping kernel and naive programs.
//!
//! Run by `cargo bench -p keysplit-core`. Thread CPU time, so that a shared machine disturbs less; compare by the ratio
//! to `kernel/hash_and_map` and `keysplit/key` of the same run, never by absolute time. Streams are Zipf, 1e5 keys, 1e6
//! messages.

mod naive;

use std::time::Duration;

use cpu_time::ThreadTime;
use criterion::measurement::{Measurement, ValueFormatter, WallTime};
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use keysplit_core::hash::{KeyHasher, first_candidate};
use keysplit_core::sketch::SpaceSaving;
use keysplit_core::{Batch, Params, Router};

const WORKERS: u32 = 100;
const KEYS: usize = 100_000;
const MESSAGES: usize = 1_000_000;
/// Keys hashed in one go, but for what needs whole batches: their hashes stay in the first-level cache.
const BLOCK: usize = 2048;

/// CPU time of this thread.
struct CpuTime;

impl Measurement for CpuTime {
    type Intermediate = ThreadTime;
    type Value = Duration;

    fn start(&self) -> ThreadTime {
        ThreadTime::now()
    }

    fn end(&self, start: ThreadTime) -> Duration {
        start.elapsed()
    }

    fn add(&self, one: &Duration, other: &Duration) -> Duration {
        *one + *other
    }

    fn zero(&self) -> Duration {
        Duration::ZERO
    }

    fn to_f64(&self, value: &Duration) -> f64 {
        WallTime.to_f64(value)
    }

    fn formatter(&self) -> &dyn ValueFormatter {
        WallTime.formatter()
    }
}

/// Keys drawn with probability proportional to rank^-exponent, by a small generator of fixed seed.
fn zipf(exponent: f64) -> Vec<i64> {
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

/// Hashes and routes as many keys in one go as there is room for hashes.
fn in_blocks(keys: &[i64], hashes: &mut [u64], workers: &mut [u32], mut route: impl FnMut(&[u64], &mut [u32])) {
    let hasher = KeyHasher::new(0);
    for (keys, workers) in keys.chunks(hashes.len()).zip(workers.chunks_mut(hashes.len())) {
        let hashes = &mut hashes[..keys.len()];
        hasher.signed_column(keys, hashes);
        route(hashes, workers);
    }
}

/// Every case by its label: the grouping's name and its parameters, the paper's unless the label says otherwise.
fn cases() -> Vec<(&'static str, &'static str, Params)> {
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

fn groupings(criterion: &mut Criterion<CpuTime>) {
    for exponent in [1.0, 1.4] {
        let keys = zipf(exponent);
        let (mut workers, mut hashes) = (vec![0; MESSAGES], vec![0; MESSAGES]);
        let mut group = criterion.benchmark_group(format!("zipf_{exponent:.1}"));
        group.throughput(Throughput::Elements(MESSAGES as u64)).sample_size(10);
        group.bench_function(BenchmarkId::new("kernel", "read_and_write"), |bench| {
            bench.iter(|| {
                for (worker, &key) in workers.iter_mut().zip(&keys) {
                    *worker = key as u32;
                }
                std::hint::black_box(&mut workers);
            });
        });
        group.bench_function(BenchmarkId::new("kernel", "hash_and_map"), |bench| {
            bench.iter(|| {
                in_blocks(&keys, &mut hashes[..BLOCK], &mut workers, |hashes, workers| {
                    for (worker, &hash) in workers.iter_mut().zip(hashes) {
                        *worker = first_candidate(hash, WORKERS);
                    }
                });
            });
        });
        for (label, name, params) in &cases() {
            let mut router = Router::new(name, params, 0).expect("the parameters are right");
            let block = if router.needs_whole_batches() { MESSAGES } else { BLOCK };
            group.bench_function(BenchmarkId::new("keysplit", label), |bench| {
                bench.iter(|| {
                    in_blocks(&keys, &mut hashes[..block], &mut workers, |hashes, workers| {
                        router.route(&Batch::unit(hashes), workers).expect("there is a place for each");
                    });
                });
            });
        }
        group.bench_function(BenchmarkId::new("keysplit", "space_saving_1000"), |bench| {
            let mut sketch = SpaceSaving::new(1000).expect("the capacity is right");
            bench.iter(|| {
                in_blocks(&keys, &mut hashes[..BLOCK], &mut workers, |hashes, _| {
                    sketch.update(hashes, None, |_, _| {});
                });
            });
        });
        for (label, mut route) in naive::all(WORKERS) {
            group.bench_function(BenchmarkId::new("naive", label), |bench| {
                bench.iter(|| {
                    for (worker, &key) in workers.iter_mut().zip(&keys) {
                        *worker = route(key);
                    }
                });
            });
        }
        group.finish();
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .with_measurement(CpuTime)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1));
    targets = groupings
}
criterion_main!(benches);

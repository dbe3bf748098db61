//! Cost per message of every grouping, beside the key-grouping kernel and naive programs.
//!
//! Run by `make bench`. Thread CPU time, so that a shared machine disturbs less; compare by the ratio to
//! `kernel/hash_and_map` and `keysplit/key` of the same run, never by absolute time. Streams are Zipf, 1e5 keys, 1e6
//! messages.

mod naive;

use std::time::Duration;

use cpu_time::ThreadTime;
use criterion::measurement::{Measurement, ValueFormatter, WallTime};
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use keysplit_benches::workloads::{MESSAGES, WORKERS, cases, zipf};
use keysplit_core::hash::{KeyHasher, first_candidate};
use keysplit_core::sketch::SpaceSaving;
use keysplit_core::{Batch, KeyHash, Router, Source};

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

/// Hashes and routes as many keys in one go as there is room for hashes.
fn in_blocks(keys: &[i64], hashes: &mut [u64], workers: &mut [u32], mut route: impl FnMut(&[u64], &mut [u32])) {
    let hasher = KeyHasher::new(0);
    for (keys, workers) in keys.chunks(hashes.len()).zip(workers.chunks_mut(hashes.len())) {
        let hashes = &mut hashes[..keys.len()];
        hasher.signed_column(keys, hashes);
        route(hashes, workers);
    }
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
                        *worker = first_candidate(KeyHash(hash), WORKERS).0;
                    }
                });
            });
        });
        for (label, name, params) in &cases() {
            let mut router = Router::new(name, params, Source(0)).expect("the parameters are right");
            let block = if router.segment_messages().is_some() { MESSAGES } else { BLOCK };
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

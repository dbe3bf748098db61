//! Rust's crates beside keysplit's core. Arguments: files of int64 keys. Prints `file|task|name|ns per message`.

use std::hint::black_box;

use cpu_time::ThreadTime;
use datasketches::frequencies::FrequentItemsSketch;
use hashring::HashRing;
use keysplit_core::hash::KeyHasher;
use keysplit_core::sketch::SpaceSaving;
use keysplit_core::{Arguments, Batch, Router, Source};

const ROUNDS: usize = 7;
const WORKERS: u32 = 100;
const COUNTERS: u64 = 768;
const POINTS: u32 = 100;

fn main() {
    for path in std::env::args().skip(1) {
        let bytes = std::fs::read(&path).expect("the file can be read");
        let keys: Vec<i64> = bytes.chunks_exact(8).map(|key| i64::from_le_bytes(key.try_into().unwrap())).collect();
        let hash = || {
            let mut hashes = vec![0; keys.len()];
            KeyHasher::new(0).signed_column(&keys, &mut hashes);
            hashes
        };
        let ours = |name: &str, arguments: Arguments| {
            let mut router = Router::new(name, &arguments, Source(0)).expect("the arguments are right");
            let (hashes, mut workers) = (hash(), vec![0; keys.len()]);
            for (hashes, workers) in hashes.chunks(1 << 16).zip(workers.chunks_mut(1 << 16)) {
                router.route(&Batch::unit(hashes), workers).expect("there is a place for each");
            }
            black_box(workers);
        };
        let ring: HashRing<(u32, u32)> = {
            let mut ring = HashRing::new();
            ring.batch_add((0..WORKERS).flat_map(|worker| (0..POINTS).map(move |point| (worker, point))).collect());
            ring
        };
        let tasks: [(&str, &str, &dyn Fn()); 4] = [
            ("frequent keys", "keysplit", &|| {
                let mut sketch = SpaceSaving::new(COUNTERS).expect("the capacity is right");
                sketch.update(&hash(), None, |_, _| {});
                black_box(sketch);
            }),
            ("frequent keys", "datasketches 0.6", &|| {
                let mut sketch = FrequentItemsSketch::<i64>::new(1024).expect("the size is right");
                keys.iter().for_each(|&key| sketch.update(key));
                black_box(sketch);
            }),
            ("ring", "keysplit", &|| {
                ours("ring", Arguments::new(WORKERS.into(), 0).with("virtual_nodes", u64::from(POINTS)))
            }),
            ("ring", "hashring 0.3", &|| {
                let workers: Vec<u32> = keys.iter().map(|key| ring.get(key).expect("there are workers").0).collect();
                black_box(workers);
            }),
        ];
        let mut times = [const { Vec::new() }; 4];
        for _ in 0..=ROUNDS {
            for ((_, _, run), times) in tasks.iter().zip(&mut times) {
                let start = ThreadTime::now();
                run();
                times.push(start.elapsed().as_secs_f64() * 1e9 / keys.len() as f64);
            }
        }
        for ((task, name, _), mut times) in tasks.iter().zip(times) {
            times.remove(0); // the first warms up
            times.sort_by(f64::total_cmp);
            println!("{path}|{task}|{name}|{}", times[ROUNDS / 2]);
        }
    }
}

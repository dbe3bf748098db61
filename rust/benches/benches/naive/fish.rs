//! FISH: decayed counts in a hash map, candidates from an ordered map of points, waiting times by a scan.

use std::collections::{BTreeMap, HashMap};

use super::{Route, candidate};

const COUNTERS: usize = 1000;
const EPOCH: u64 = 1000;
const DECAY: f64 = 0.2;
const VIRTUAL_NODES: u32 = 100;
/// Messages that the workers take in an interval of ten seconds.
const INTERVAL: u64 = 10_000;
/// Messages that one worker serves in an interval.
const SERVED: f64 = 10.0;

#[derive(Clone, Copy, Default)]
struct Counter {
    count: f64,
    most_workers: u32,
}

/// Looks at the head as seldom as the fast version does.
pub fn fish(workers: u32) -> Route {
    let ring: BTreeMap<u64, u32> = (0..workers)
        .flat_map(|worker| (1..=VIRTUAL_NODES).map(move |node| (point(worker.into(), node), worker)))
        .collect();
    let mut counters: HashMap<i64, Counter> = HashMap::new();
    let (mut total, mut messages) = (0.0, 0u64);
    let (mut top, mut least_workers, mut next) = (0.0, 2, 0);
    let (mut backlog, mut sent) = (vec![0.0; workers as usize], vec![0.0; workers as usize]);
    Box::new(move |key| {
        if messages > 0 && messages.is_multiple_of(EPOCH) {
            counters.values_mut().for_each(|counter| counter.count *= DECAY);
            total *= DECAY;
        }
        if messages > 0 && messages.is_multiple_of(INTERVAL) {
            for (backlog, sent) in backlog.iter_mut().zip(&mut sent) {
                *backlog = f64::max(0.0, *backlog + *sent - SERVED);
                *sent = 0.0;
            }
        }
        let counter = count(&mut counters, key);
        total += 1.0;
        let threshold = total / (4.0 * f64::from(workers));
        if messages >= next {
            let hot = || counters.values().map(|counter| counter.count).filter(|&count| count > threshold);
            top = hot().fold(0.0, f64::max);
            let number = hot().count().max(1) as f64;
            least_workers = (f64::from(workers) * hot().sum::<f64>() / total / number).ceil().max(2.0) as u32;
            next = messages + 1 + (messages / 8).min(EPOCH / 4);
        }
        messages += 1;
        let mut choices = 2;
        if counter.count > threshold {
            let halvings = (top.max(counter.count) / counter.count).log2().floor() as i32;
            choices = (workers >> halvings.min(31)).max(least_workers).max(counter.most_workers).min(workers);
            counters.insert(key, Counter { most_workers: choices, ..counter });
        }
        let candidates =
            if choices == workers { (0..workers).collect() } else { walk(&ring, point(key, 0), choices as usize) };
        let waits = |&worker: &u32| backlog[worker as usize] + sent[worker as usize];
        let worker = candidates.into_iter().min_by(|one, other| waits(one).total_cmp(&waits(other))).unwrap_or(0);
        sent[worker as usize] += 1.0;
        worker
    })
}

fn point(key: i64, node: u32) -> u64 {
    (candidate(key, 2 * node, u32::MAX) as u64) << 32 | candidate(key, 2 * node + 1, u32::MAX) as u64
}

/// Counts a message; a key without a counter gets a free one, else the smallest.
fn count(counters: &mut HashMap<i64, Counter>, key: i64) -> Counter {
    if counters.len() == COUNTERS && !counters.contains_key(&key) {
        let smallest = counters.iter().min_by(|(_, one), (_, other)| one.count.total_cmp(&other.count));
        if let Some((&gone, &Counter { count, .. })) = smallest {
            counters.remove(&gone);
            counters.insert(key, Counter { count, most_workers: 0 });
        }
    }
    let counter = counters.entry(key).or_default();
    counter.count += 1.0;
    *counter
}

/// The first different workers clockwise.
fn walk(ring: &BTreeMap<u64, u32>, start: u64, most: usize) -> Vec<u32> {
    let mut found = Vec::with_capacity(most);
    for (_, &worker) in ring.range(start..).chain(ring) {
        if found.len() == most {
            break;
        }
        if !found.contains(&worker) {
            found.push(worker);
        }
    }
    found
}

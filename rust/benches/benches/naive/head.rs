//! SpaceSaving, and the groupings that use it to find the head.

use std::collections::{BTreeSet, HashMap};

use super::{Route, candidate, least};

/// SpaceSaving over an ordered set of (count, key).
struct SpaceSaving {
    capacity: usize,
    total: u64,
    counts: HashMap<i64, u64>,
    order: BTreeSet<(u64, i64)>,
}

impl SpaceSaving {
    fn new(capacity: usize) -> Self {
        Self { capacity, total: 0, counts: HashMap::new(), order: BTreeSet::new() }
    }

    fn update(&mut self, key: i64) -> u64 {
        self.total += 1;
        let mut count = 0;
        if let Some(&old) = self.counts.get(&key) {
            self.order.remove(&(old, key));
            count = old;
        } else if self.counts.len() == self.capacity
            && let Some((smallest, gone)) = self.order.pop_first()
        {
            self.counts.remove(&gone);
            count = smallest;
        }
        self.counts.insert(key, count + 1);
        self.order.insert((count + 1, key));
        count + 1
    }
}

pub fn space_saving_only() -> Route {
    let mut sketch = SpaceSaving::new(1000);
    Box::new(move |key| sketch.update(key) as u32)
}

/// The groupings that distinguish head and tail: `head` chooses for the messages of the head, the tail has two choices.
fn with_head(workers: u32, mut head: impl FnMut(i64, &SpaceSaving, &[u64]) -> usize + 'static) -> Route {
    let mut sketch = SpaceSaving::new(50 * workers as usize);
    let mut loads = vec![0; workers as usize];
    Box::new(move |key| {
        let count = sketch.update(key);
        let worker = if count * 5 * u64::from(workers) >= sketch.total {
            head(key, &sketch, &loads)
        } else {
            least(&loads, (0..2).map(|choice| candidate(key, choice, workers)))
        };
        loads[worker] += 1;
        worker as u32
    })
}

pub fn round_robin(workers: u32) -> Route {
    let mut turn = 0;
    with_head(workers, move |_, _, _| {
        turn = (turn + 1) % workers as usize;
        turn
    })
}

pub fn w_choices(workers: u32) -> Route {
    with_head(workers, move |_, _, loads| least(loads, 0..workers as usize))
}

/// Solves d as seldom as the fast version does.
pub fn d_choices(workers: u32) -> Route {
    let (mut choices, mut next) = (2, 0);
    with_head(workers, move |key, sketch, loads| {
        let position = sketch.total - 1;
        if position >= next {
            choices = solve(sketch, workers);
            next = position + 1 + (position / 8).min(10_000);
        }
        if choices < workers {
            least(loads, (0..choices).map(|choice| candidate(key, choice, workers)))
        } else {
            least(loads, 0..workers as usize)
        }
    })
}

/// The smallest d that keeps every prefix of the head within the tolerance.
fn solve(sketch: &SpaceSaving, workers: u32) -> u32 {
    let (n, total) = (f64::from(workers), sketch.total as f64);
    let shares: Vec<f64> = sketch.order.iter().rev().map(|&(count, _)| count as f64 / total).collect();
    let head: Vec<f64> = shares.into_iter().take_while(|share| share * 5.0 * n >= 1.0).collect();
    let whole: f64 = head.iter().sum();
    let fits = |d: u32| {
        let mut prefix = 0.0;
        head.iter().zip(1..).all(|(share, keys)| {
            prefix += share;
            let reached = 1.0 - (1.0 - 1.0 / n).powf(f64::from(keys * d));
            let load = prefix + reached.powf(f64::from(d)) * (whole - prefix) + reached * reached * (1.0 - whole);
            load <= reached * (1.0 + n * 1e-4)
        })
    };
    let least = (head[0] * n).ceil().max(2.0) as u32;
    (least..workers).find(|&d| fits(d)).unwrap_or(workers)
}

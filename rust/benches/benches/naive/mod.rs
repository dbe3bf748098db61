//! Straightforward programs: hash maps, ordered sets, modulo, a scan over all workers. The baseline for the fast
//! versions.

mod capacity;
mod choices;
mod fish;
mod head;

use std::hash::{DefaultHasher, Hash, Hasher};

/// A router from keys to workers.
pub type Route = Box<dyn FnMut(i64) -> u32>;

/// Every naive program by name.
pub fn all(workers: u32) -> Vec<(&'static str, Route)> {
    vec![
        ("shuffle", choices::shuffle(workers)),
        ("key", choices::key(workers)),
        ("partial_key", choices::greedy(workers, 2)),
        ("greedy_4", choices::greedy(workers, 4)),
        ("greedy_8", choices::greedy(workers, 8)),
        ("power_of_two", choices::power_of_two(workers)),
        ("power_of_random_1000", capacity::power_of_random(1000)),
        ("space_saving_1000", head::space_saving_only()),
        ("round_robin", head::round_robin(workers)),
        ("d_choices", head::d_choices(workers)),
        ("w_choices", head::w_choices(workers)),
        ("fish", fish::fish(workers)),
    ]
}

/// Candidate number `choice` of a key.
fn candidate(key: i64, choice: u32, workers: u32) -> usize {
    let mut hasher = DefaultHasher::new();
    (key, choice).hash(&mut hasher);
    (hasher.finish() % u64::from(workers)) as usize
}

fn least(loads: &[u64], candidates: impl Iterator<Item = usize>) -> usize {
    candidates.min_by_key(|&worker| loads[worker]).unwrap_or(0)
}

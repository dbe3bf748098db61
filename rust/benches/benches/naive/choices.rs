//! Groupings that depend only on the key and the loads.

use super::{Route, candidate, least};

pub fn shuffle(workers: u32) -> Route {
    let mut position = 0u64;
    Box::new(move |_| {
        position += 1;
        (position % u64::from(workers)) as u32
    })
}

pub fn key(workers: u32) -> Route {
    Box::new(move |key| candidate(key, 0, workers) as u32)
}

pub fn greedy(workers: u32, choices: u32) -> Route {
    let mut loads = vec![0; workers as usize];
    Box::new(move |key| {
        let worker = least(&loads, (0..choices).map(|choice| candidate(key, choice, workers)));
        loads[worker] += 1;
        worker as u32
    })
}

pub fn power_of_two(workers: u32) -> Route {
    let mut loads = vec![0; workers as usize];
    let mut position = 0;
    Box::new(move |_| {
        position += 1;
        let worker = least(&loads, (0..2).map(|choice| candidate(position, choice, workers)));
        loads[worker] += 1;
        worker as u32
    })
}

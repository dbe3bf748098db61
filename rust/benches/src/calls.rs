//! Every case of the benchmarks as a call that routes a part of a stream, on the streams one after the other.

use keysplit_core::hash::KeyHasher;
use keysplit_core::sketch::SpaceSaving;
use keysplit_core::{Batch, Router, Source};

use crate::workloads::{cases, zipf};

/// The vector unit that routing uses here, unless it was compiled for less.
#[cfg(target_arch = "x86_64")]
pub fn vectors() -> &'static str {
    match pulp::Arch::new() {
        pulp::Arch::V4(_) => "AVX-512",
        pulp::Arch::V3(_) => "AVX2",
        _ => "generic x86-64",
    }
}

/// The vector unit that routing uses here, unless it was compiled for less.
#[cfg(not(target_arch = "x86_64"))]
pub fn vectors() -> &'static str {
    std::env::consts::ARCH
}

/// Passes to `measure` the label of each chosen case, the exponent of its stream, and a call that routes this many
/// messages. A call continues where the last one ended. The cases of the command line are chosen, or all.
pub fn each(messages: usize, mut measure: impl FnMut(&str, f64, &mut dyn FnMut())) {
    let chosen: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    let is_chosen = |label: &str| chosen.is_empty() || chosen.iter().any(|chosen| chosen == label);
    for exponent in [1.0, 1.4] {
        let mut hashes = vec![0; messages];
        KeyHasher::new(0).signed_column(&zipf(exponent)[..messages], &mut hashes);
        let mut workers = vec![0; messages];
        for (label, name, params) in cases().iter().filter(|(label, ..)| is_chosen(label)) {
            let mut router = Router::new(name, params, Source(0)).expect("valid parameters");
            let mut now = 0.0;
            measure(label, exponent, &mut || {
                now += 1.0;
                let batch = Batch { now: Some(now), ..Batch::unit(&hashes) };
                router.route(&batch, &mut workers).expect("a valid batch");
            });
        }
        if is_chosen("space_saving_1000") {
            let mut sketch = SpaceSaving::new(1000).expect("a valid capacity");
            measure("space_saving_1000", exponent, &mut || sketch.update(&hashes, None, |_, _| {}));
        }
    }
}

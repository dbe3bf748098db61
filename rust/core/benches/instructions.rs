//! What `benches/instructions.py` runs under a profiler: every case once to warm up, then once more in `counted`.
//!
//! Prints the vector unit that routing uses there, and then a line per counted call: the case and the exponent of its
//! stream.

mod workloads;

use keysplit_core::hash::KeyHasher;
use keysplit_core::sketch::SpaceSaving;
use keysplit_core::{Batch, Router, Source};

use workloads::{cases, zipf};

/// Messages of a call: enough for a steady state, as a profiler is slow.
const MESSAGES: usize = 200_000;

/// The only part that is counted.
#[inline(never)]
fn counted(run: &mut dyn FnMut()) {
    run();
}

#[cfg(target_arch = "x86_64")]
fn vectors() -> &'static str {
    match pulp::Arch::new() {
        pulp::Arch::V4(_) => "AVX-512",
        pulp::Arch::V3(_) => "AVX2",
        _ => "generic x86-64",
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn vectors() -> &'static str {
    std::env::consts::ARCH
}

fn main() {
    let chosen: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    let is_chosen = |label: &str| chosen.is_empty() || chosen.iter().any(|chosen| chosen == label);
    println!("{}", vectors());
    for exponent in [1.0, 1.4] {
        let mut hashes = vec![0; MESSAGES];
        KeyHasher::new(0).signed_column(&zipf(exponent)[..MESSAGES], &mut hashes);
        let measure = |label: &str, run: &mut dyn FnMut()| {
            run();
            counted(run);
            println!("{label} {exponent:.1}");
        };
        let mut workers = vec![0; MESSAGES];
        for (label, name, params) in cases().iter().filter(|(label, ..)| is_chosen(label)) {
            let mut router = Router::new(name, params, Source(0)).expect("valid parameters");
            let mut now = 0.0;
            measure(label, &mut || {
                now += 1.0;
                let batch = Batch { now: Some(now), ..Batch::unit(&hashes) };
                router.route(&batch, &mut workers).expect("a valid batch");
            });
        }
        if is_chosen("space_saving_1000") {
            let mut sketch = SpaceSaving::new(1000).expect("a valid capacity");
            measure("space_saving_1000", &mut || sketch.update(&hashes, None, |_, _| {}));
        }
    }
}

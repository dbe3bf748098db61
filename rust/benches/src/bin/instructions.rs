//! What `benches/instructions.py` runs under a profiler: every case once to warm up, then once more in `counted`.
//!
//! Prints the vector unit that routing uses there, and then a line per counted call: the case and the exponent of its
//! stream.

use keysplit_benches::calls;

/// Messages of a call: enough for a steady state, as a profiler is slow.
const MESSAGES: usize = 200_000;

/// The only part that is counted.
#[inline(never)]
fn counted(run: &mut dyn FnMut()) {
    run();
}

fn main() {
    println!("{}", calls::vectors());
    calls::each(MESSAGES, |label, exponent, run| {
        run();
        counted(run);
        println!("{label} {exponent:.1}");
    });
}

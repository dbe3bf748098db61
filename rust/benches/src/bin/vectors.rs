//! What `benches/vectors.py` runs, compiled in several ways: every case a few times.
//!
//! Prints the vector unit that routing uses unless it was compiled for less. Then, per call, a line with the case and the
//! exponent of its stream; waits for a line on standard input, so that the programs take turns; and prints a line with
//! the nanoseconds of thread CPU time per message. The first call of a case warms up.

use std::io::stdin;

use cpu_time::ThreadTime;
use keysplit_benches::calls;
use keysplit_benches::workloads::MESSAGES;

/// Calls of a case.
const ROUNDS: usize = 25;

fn main() {
    println!("{}", calls::vectors());
    let mut turn = String::new();
    calls::each(MESSAGES, |label, exponent, run| {
        for _ in 0..ROUNDS {
            println!("{label} {exponent:.1}");
            stdin().read_line(&mut turn).expect("a line of text");
            let start = ThreadTime::now();
            run();
            println!("{}", start.elapsed().as_secs_f64() * 1e9 / MESSAGES as f64);
        }
    });
}

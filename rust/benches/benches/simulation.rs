//! What a simulation costs beside the routers that it runs, without and with time.
//!
//! Run by `cargo bench -p keysplit-benches --bench simulation`, which prints a table; names of groupings may follow
//! after `--`. Thread CPU time; the parts of a row are measured in turns, so that a shared machine disturbs the ratio
//! less. The streams are those of the groupings' benchmark; everything has seen its stream once before it is measured.

use cpu_time::ThreadTime;
use keysplit_benches::workloads::{MESSAGES, WORKERS, cases, zipf};
use keysplit_core::hash::KeyHasher;
use keysplit_core::metrics::Replicas;
use keysplit_core::simulate::{Config, Options, PerWorker, Simulation};
use keysplit_core::{Arguments, Batch, Router, Source};

/// Rounds of measurements, of which the medians are shown.
const ROUNDS: usize = 9;

/// Hashes that are handed over in one go, as the binding does.
const BLOCK: usize = 1 << 16;

/// What a simulation may cost, as a ratio to its routers and the tracking of replicas.
const ALLOWED: f64 = 1.3;

/// From which cost of its routers on.
const FROM_NS: f64 = 5.0;

fn main() {
    let chosen: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    let header = "routers ns | replicas ns | simulation ns | over both | without replicas, over routers | with time ns";
    println!("| grouping | z | sources | {header} |\n| --- |{}", " ---: |".repeat(8));
    for exponent in [1.0, 1.4] {
        let mut hashes = vec![0; MESSAGES];
        KeyHasher::new(0).signed_column(&zipf(exponent), &mut hashes);
        for (label, name, params) in &cases() {
            if chosen.is_empty() || chosen.iter().any(|chosen| chosen == label) {
                for sources in [1, 5] {
                    row(label, name, params, exponent, sources, &hashes);
                }
            }
        }
    }
}

fn row(label: &str, name: &str, params: &Arguments, exponent: f64, sources: usize, hashes: &[u64]) {
    let mut routers = Routers::new(name, params, sources, hashes);
    let (mut plain, mut timed) = (simulation(name, params, sources, false), simulation(name, params, sources, true));
    let mut replicas = Replicas::default();
    let mut times = [const { Vec::new() }; 4];
    for round in 0..=ROUNDS {
        let taken = [
            ns(|| routers.route()),
            ns(|| add(&mut plain, hashes)),
            ns(|| routers.note(&mut replicas)),
            ns(|| add(&mut timed, hashes)),
        ];
        if round > 0 {
            times.iter_mut().zip(taken).for_each(|(times, taken)| times.push(taken));
        }
    }
    let [routers, plain, replicas, timed] = times.map(median);
    let (over_both, without) = (plain / (routers + replicas), (plain - replicas) / routers);
    let verdict = if over_both <= ALLOWED || routers < FROM_NS { "" } else { " (NOT MET)" };
    let ratios = format!("{over_both:.2}{verdict} | {without:.2}");
    let figures = format!("{routers:.1} | {replicas:.1} | {plain:.1} | {ratios} | {timed:.0}");
    println!("| {label} | {exponent:.1} | {sources} | {figures} |");
}

/// One router per source, each with its own messages in one piece.
struct Routers(Vec<(Router, Vec<u64>, Vec<u32>)>);

impl Routers {
    fn new(name: &str, params: &Arguments, sources: usize, hashes: &[u64]) -> Self {
        let of = |source| {
            let router = Router::new(name, params, Source(source as u32)).expect("the parameters are right");
            let own: Vec<u64> = hashes.iter().skip(source).step_by(sources).copied().collect();
            let workers = vec![0; own.len()];
            (router, own, workers)
        };
        Self((0..sources).map(of).collect())
    }

    fn route(&mut self) {
        for (router, hashes, workers) in &mut self.0 {
            let block = if router.segment_messages().is_some() { MESSAGES } else { BLOCK };
            for (hashes, workers) in hashes.chunks(block).zip(workers.chunks_mut(block)) {
                router.route(&Batch::unit(hashes), workers).expect("there is a place for each");
            }
        }
    }

    fn note(&self, replicas: &mut Replicas) {
        self.0.iter().for_each(|(_, hashes, workers)| replicas.add(hashes, workers));
    }
}

fn simulation(name: &str, params: &Arguments, sources: usize, timed: bool) -> Simulation {
    let options = Arguments::default()
        .with("sources", sources as u64)
        .with("messages", ((ROUNDS + 1) * MESSAGES) as u64)
        .with("samples", 10)
        .with("arrival_rate_per_s", timed.then_some(0.8 * f64::from(WORKERS)))
        .with("feedback_interval_s", 100.0);
    let options = Options::read(&options).expect("the options are right");
    let service_time_s = timed.then_some(PerWorker::All(1.0));
    Simulation::new(name, params, &Config { options, service_time_s, ..Config::default() })
        .expect("the arguments are right")
}

fn add(simulation: &mut Simulation, hashes: &[u64]) {
    for hashes in hashes.chunks(BLOCK) {
        simulation.add(hashes, None).expect("nothing goes wrong");
    }
}

/// Nanoseconds per message.
fn ns(run: impl FnOnce()) -> f64 {
    let start = ThreadTime::now();
    run();
    start.elapsed().as_secs_f64() * 1e9 / MESSAGES as f64
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

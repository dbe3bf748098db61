//! Skew-aware stream partitioning without Python: key hashing, sketches and the groupings.
//!
//! A *grouping* sends keyed messages from a source to workers. [`Router`] is one source's local view of one grouping;
//! [`groupings::REGISTRY`] lists them. `docs/routing.md` defines a router's output to the bit.
//!
//! ```
//! use keysplit_core::{Arguments, Batch, Router, Source, hash::KeyHasher};
//!
//! let arguments = Arguments::new(50, 0).with("choices", 2);
//! let mut router = Router::new("partial_key", &arguments, Source(0))?;
//! let keys = KeyHasher::new(0);
//! let hashes: Vec<u64> = [7, 7, 8].iter().map(|&key| keys.whole(key)).collect();
//! let mut workers = vec![0; hashes.len()];
//! router.route(&Batch::unit(&hashes), &mut workers)?;
//! assert!(workers.iter().all(|&worker| worker < 50));
//! # Ok::<(), keysplit_core::Error>(())
//! ```
//!
//! # Reading order
//!
//! 1. `types.rs`, [`hash`], `amount.rs`: what a key, a worker and a load are. Hashes come in as columns of `u64` and
//!    workers go out as columns of `u32`; in between they are typed [`KeyHash`] and [`Worker`].
//! 2. `router.rs` and `batch.rs`: the path of a batch. [`Router::route`] checks it, then the grouping chooses a worker
//!    per message in the loop of `Batch::each`.
//! 3. `groupings/mod.rs`: the trait of their states, the trait of their parameters, the registry. Then the groupings:
//!    `key`, `partial_key`, `d_choices` first; the others are variations or stand alone.
//! 4. `groupings/parts/`: what several groupings share (head of frequent keys, candidates, bins of bounded capacity).
//!    `state/`: what nearly all are made of (loads, their minimum, clock, members, ring).
//! 5. [`sketch`]: which keys are frequent. `params.rs`: how arguments become a grouping's parameters. [`snapshot`]: the
//!    frame of stored data.
//! 6. [`simulate`] and [`metrics`] build on routers; `plan/` is independent: a row's worker as a pure function.
#![forbid(unsafe_code)]

mod amount;
mod batch;
mod error;
mod feedback;
pub mod groupings;
pub mod hash;
pub mod metrics;
mod params;
mod plan;
mod router;
pub mod simulate;
pub mod sketch;
pub mod snapshot;
mod state;
mod types;

pub use batch::{Batch, check_weights};
pub use error::{Error, Result};
pub use feedback::Feedback;
pub use params::{Arguments, MAX_WORKERS, Value};
pub use plan::PlanTable;
pub use router::Router;
pub use state::members::Members;
pub use types::{KeyHash, Source, Worker};

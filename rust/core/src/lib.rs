//! Skew-aware stream partitioning without Python: key hashing, sketches and the groupings.
//!
//! A *grouping* sends keyed messages from a source to workers. [`Router`] is one source's local view of one grouping;
//! [`groupings::REGISTRY`] lists them. What a router answers is defined to the bit in `docs/routing.md`.
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
//! # In which order to read
//!
//! 1. `types.rs`, [`hash`], `amount.rs`: what a key, a worker and a load are. Hashes come in columns of `u64`, answers go
//!    out in columns of `u32`; in between a hash is a [`KeyHash`] and a worker a [`Worker`].
//! 2. `router.rs` and `batch.rs`: the way of a batch. [`Router::route`] checks it, the grouping chooses a worker for each
//!    message in the loop of `Batch::each`.
//! 3. `groupings/mod.rs`: the trait of their states, the trait of their parameters, the registry. Then the groupings by
//!    themselves: `key`, `partial_key`, `d_choices` first; the others are variations, or apart.
//! 4. `groupings/parts/` is what several groupings share: the head of frequent keys, candidates, bins of bounded capacity.
//!    `state/` is what nearly all are made of: loads, the smallest of them, the clock, the members, the ring.
//! 5. [`sketch`]: which keys are frequent. `params.rs`: how arguments become a grouping's parameters. [`snapshot`]: the
//!    frame of what is stored.
//! 6. [`simulate`] and [`metrics`] are built on routers, `plan/` stands by itself: a row's worker as a pure function.
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

//! Skew-aware stream partitioning without Python: key hashing, sketches and the groupings.
//!
//! A *grouping* sends keyed messages from a source to workers. [`Router`] is one source's local view of
//! one grouping; [`groupings::REGISTRY`] lists them. Below the door a key is a `u64` hash
//! ([`hash::KeyHasher`]) and a worker a `u32`. What a router answers is defined to the bit in
//! `docs/routing.md`.
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

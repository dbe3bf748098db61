//! Power of random choices (PoRC): a key's candidates are probed in order until a worker has room.
//!
//! CG paper (arXiv 1705.09073), section 5.1. No worker takes a message once it holds 1 + epsilon times its fair share,
//! rounded up; only frequent keys probe many candidates. Deviation: after 64 probes per worker the least loaded of all
//! takes the message; the paper sets no limit.

use serde::{Deserialize, Serialize};

use super::parts::bins::Bins;
use super::{Grouping, Parameters, next_worker};
use crate::batch::Batch;
use crate::error::Result;
use crate::params;
use crate::snapshot::{decode, encode};
use crate::types::{KeyHash, Source};

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Params {
    #[serde(deserialize_with = "params::workers")]
    workers: u32,
    #[serde(deserialize_with = "params::seed")]
    seed: u64,
    /// By how much a load may exceed its fair share.
    #[serde(deserialize_with = "params::epsilon")]
    epsilon: f64,
}

impl Default for Params {
    fn default() -> Self {
        Self { workers: 1, seed: 0, epsilon: 0.01 }
    }
}

impl Parameters for Params {
    fn build(&self, _source: Source) -> Result<Box<dyn Grouping>> {
        Ok(Box::new(PowerOfRandom(Bins::new(self.epsilon, self.workers))))
    }
}

/// The workers are the bins.
#[derive(Clone)]
struct PowerOfRandom(Bins);

impl Grouping for PowerOfRandom {
    fn route(&mut self, batch: &Batch, workers: &mut [u32]) {
        self.0.throw(batch, workers, |bin| bin);
    }

    fn candidates(&self, hash: KeyHash) -> Vec<u32> {
        next_worker(self, hash)
    }

    fn loads(&self) -> Vec<f64> {
        self.0.numbers()
    }

    fn save(&self) -> Vec<u8> {
        encode(&self.0.save())
    }

    fn restore(&mut self, state: &[u8]) -> Result<()> {
        self.0.restore(decode(state)?)
    }
}

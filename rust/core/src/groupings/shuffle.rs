//! Shuffle grouping (SG): messages go to the workers in turn, whatever their key.
//!
//! The other baseline (ICDE 2016 paper, section II-B): perfect balance of messages, and a partial state of every key on
//! every worker.

use serde::{Deserialize, Serialize};

use super::parts::turn::Turn;
use super::{Grouping, Parameters};
use crate::batch::Batch;
use crate::error::Result;
use crate::params;
use crate::snapshot::{decode, encode};
use crate::state::loads::Loads;
use crate::types::{KeyHash, Source, Worker};

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Params {
    #[serde(deserialize_with = "params::workers")]
    workers: u32,
    #[serde(deserialize_with = "params::seed")]
    seed: u64,
}

impl Default for Params {
    fn default() -> Self {
        Self { workers: 1, seed: 0 }
    }
}

impl Parameters for Params {
    fn build(&self, source: Source) -> Result<Box<dyn Grouping>> {
        let turn = Turn::new(self.workers, self.seed, source);
        Ok(Box::new(Shuffle { turn, loads: Loads::new(self.workers) }))
    }
}

struct Shuffle {
    turn: Turn,
    loads: Loads,
}

impl Grouping for Shuffle {
    fn route(&mut self, batch: &Batch, workers: &mut [u32]) {
        for worker in workers.iter_mut() {
            *worker = self.turn.take().0;
        }
        batch.sent(&mut self.loads, workers);
    }

    fn candidates(&self, _hash: KeyHash) -> Vec<u32> {
        vec![self.turn.next().0]
    }

    fn loads(&self) -> Vec<f64> {
        self.loads.numbers()
    }

    fn save(&self) -> Vec<u8> {
        encode(&(self.turn.next().0, self.loads.save()))
    }

    fn restore(&mut self, state: &[u8]) -> Result<()> {
        let (next, loads) = decode(state)?;
        self.turn.restore(Worker(next));
        self.loads.restore(loads)
    }
}

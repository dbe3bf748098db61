//! What a source has sent to each worker, plus what the other sources are known to have sent.

use serde::{Deserialize, Serialize};

use crate::amount::Scale;
use crate::error::{Error, Result};
use crate::state::loads::{Loads, SavedLoads};
use crate::state::minimum::Minimum;
use crate::types::{Amount, Worker};

/// Own loads, and those of the others once passed in.
#[derive(Debug, Clone)]
pub(super) struct JointLoads {
    own: Loads,
    others: Option<Others>,
}

#[derive(Debug, Clone)]
struct Others {
    loads: Vec<f64>,
    /// Own load and the others' load of each worker, as the bits of a double.
    sums: Vec<u64>,
    least: Minimum,
}

/// What [`JointLoads::restore`] needs.
#[derive(Serialize, Deserialize)]
pub(super) struct SavedJointLoads(SavedLoads, Option<Vec<f64>>);

impl JointLoads {
    pub(super) fn new(workers: u32) -> Self {
        Self { own: Loads::new(workers), others: None }
    }

    /// What this source has sent.
    pub(super) fn own(&self) -> Vec<f64> {
        self.own.numbers()
    }

    /// Replaces what the other sources together are known to have sent to each worker.
    pub(super) fn set_others(&mut self, loads: &[f64]) {
        let sum = |(own, others): (f64, &f64)| Scale::Fractional.amount(own + others).0;
        let sums = self.own.numbers().into_iter().zip(loads).map(sum).collect();
        let mut least = Minimum::default();
        least.expect_uneven_steps();
        self.others = Some(Others { loads: loads.to_vec(), sums, least });
    }

    /// Prepares for a batch; later additions are of the returned scale.
    pub(super) fn expect(&mut self, messages: usize, weights: Option<&[f64]>) -> Scale {
        self.own.expect(messages, weights)
    }

    /// Adds a message sent by this source.
    #[inline(always)]
    pub(super) fn add(&mut self, scale: Scale, worker: Worker, weight: Amount) {
        self.own.add(scale, worker, weight);
        if let Some(Others { loads, sums, least }) = &mut self.others {
            let index = worker.index();
            sums[index] = Scale::Fractional.amount(scale.number(self.own.of(worker)) + loads[index]).0;
            least.grown(sums, index, sums[index]);
        }
    }

    /// Least loaded of the candidates, the first among equals.
    #[inline(always)]
    pub(super) fn least_of(&self, candidates: impl IntoIterator<Item = Worker>) -> Worker {
        match &self.others {
            None => self.own.least_of(candidates),
            Some(others) => {
                candidates.into_iter().min_by_key(|worker| others.sums[worker.index()]).unwrap_or(Worker(0))
            }
        }
    }

    /// Least loaded of all workers, the lowest-numbered among equals.
    #[inline(always)]
    pub(super) fn least_of_all(&mut self) -> Worker {
        match &mut self.others {
            None => self.own.least_of_all(),
            Some(others) => Worker(others.least.first_smallest(&others.sums) as u32),
        }
    }

    pub(super) fn save(&self) -> SavedJointLoads {
        SavedJointLoads(self.own.save(), self.others.as_ref().map(|others| others.loads.clone()))
    }

    /// Restores saved loads of this many workers.
    pub(super) fn restore(&mut self, SavedJointLoads(own, others): SavedJointLoads) -> Result<()> {
        self.own.restore(own)?;
        self.others = None;
        let Some(others) = others else { return Ok(()) };
        if others.len() != self.own().len() || !others.iter().all(|load| load.is_finite() && *load >= 0.0) {
            return Err(Error::damaged("the loads of the other sources do not fit its workers"));
        }
        self.set_others(&others);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_loads_and_those_of_others_are_summed() {
        let mut loads = JointLoads::new(3);
        let scale = loads.expect(10, None);
        loads.add(scale, Worker(0), Amount(2));
        assert_eq!(loads.least_of_all(), Worker(1));
        loads.set_others(&[0.0, 2.5, 2.0]);
        assert_eq!(loads.least_of_all(), Worker(0), "level with worker 2");
        assert_eq!((loads.least_of([2, 0].map(Worker)), loads.least_of([1, 2].map(Worker))), (Worker(2), Worker(2)));
        loads.add(scale, Worker(0), Amount(1));
        assert_eq!(loads.least_of_all(), Worker(2));
        loads.set_others(&[0.0, 0.0, 0.0]);
        assert_eq!(loads.least_of_all(), Worker(1), "what was known before is forgotten");
        assert_eq!(loads.own(), [3.0, 0.0, 0.0]);
    }

    #[test]
    fn damaged_loads_are_refused() {
        let mut loads = JointLoads::new(2);
        for others in [vec![1.0], vec![1.0, f64::NAN], vec![1.0, -1.0]] {
            let saved = SavedJointLoads(Loads::new(2).save(), Some(others));
            assert!(loads.restore(saved).is_err());
        }
        let mut other = JointLoads::new(2);
        other.set_others(&[3.0, 1.0]);
        loads.restore(other.save()).unwrap();
        assert_eq!(loads.least_of_all(), Worker(1));
    }
}

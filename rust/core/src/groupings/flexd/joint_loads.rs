//! What a source has sent to each worker together with what it was told that the others have.

use serde::{Deserialize, Serialize};

use crate::amount::Scale;
use crate::error::{Error, Result};
use crate::state::loads::{Loads, SavedLoads};
use crate::state::minimum::Minimum;
use crate::types::{Amount, Worker};

/// Own loads, and those of the others once they were told.
#[derive(Debug, Clone)]
pub(super) struct JointLoads {
    own: Loads,
    told: Option<Told>,
}

#[derive(Debug, Clone)]
struct Told {
    loads: Vec<f64>,
    /// Own load and told load of each worker, as the bits of a double.
    sums: Vec<u64>,
    least: Minimum,
}

/// What [`JointLoads::restore`] needs.
#[derive(Serialize, Deserialize)]
pub(super) struct SavedJointLoads(SavedLoads, Option<Vec<f64>>);

impl JointLoads {
    pub(super) fn new(workers: u32) -> Self {
        Self { own: Loads::new(workers), told: None }
    }

    /// What this source has sent.
    pub(super) fn own(&self) -> Vec<f64> {
        self.own.numbers()
    }

    /// Hears what the others together have sent to each worker, which replaces what was heard before.
    pub(super) fn hear(&mut self, loads: &[f64]) {
        let sum = |(own, told): (f64, &f64)| Scale::Fractional.amount(own + told).0;
        let sums = self.own.numbers().into_iter().zip(loads).map(sum).collect();
        let mut least = Minimum::default();
        least.expect_uneven_steps();
        self.told = Some(Told { loads: loads.to_vec(), sums, least });
    }

    /// Prepares for a batch; what is added from here on is of the scale that it returns.
    pub(super) fn expect(&mut self, messages: usize, weights: Option<&[f64]>) -> Scale {
        self.own.expect(messages, weights)
    }

    /// This source sends a message.
    #[inline(always)]
    pub(super) fn add(&mut self, scale: Scale, worker: Worker, weight: Amount) {
        self.own.add(scale, worker, weight);
        if let Some(Told { loads, sums, least }) = &mut self.told {
            let index = worker.index();
            sums[index] = Scale::Fractional.amount(scale.number(self.own.of(worker)) + loads[index]).0;
            least.grown(sums, index);
        }
    }

    /// Least loaded of the candidates, the first among equals.
    #[inline(always)]
    pub(super) fn least_of(&self, candidates: impl IntoIterator<Item = Worker>) -> Worker {
        match &self.told {
            None => self.own.least_of(candidates),
            Some(told) => candidates.into_iter().min_by_key(|worker| told.sums[worker.index()]).unwrap_or(Worker(0)),
        }
    }

    /// Least loaded of all workers, the lowest-numbered among equals.
    #[inline(always)]
    pub(super) fn least_of_all(&mut self) -> Worker {
        match &mut self.told {
            None => self.own.least_of_all(),
            Some(told) => Worker(told.least.first_smallest(&told.sums) as u32),
        }
    }

    pub(super) fn save(&self) -> SavedJointLoads {
        SavedJointLoads(self.own.save(), self.told.as_ref().map(|told| told.loads.clone()))
    }

    /// Continues from saved loads of as many workers.
    pub(super) fn restore(&mut self, SavedJointLoads(own, told): SavedJointLoads) -> Result<()> {
        self.own.restore(own)?;
        self.told = None;
        let Some(told) = told else { return Ok(()) };
        if told.len() != self.own().len() || !told.iter().all(|load| load.is_finite() && *load >= 0.0) {
            return Err(Error::value("snapshot is damaged: the loads that it was told do not fit its workers"));
        }
        self.hear(&told);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_and_told_loads_are_summed() {
        let mut loads = JointLoads::new(3);
        let scale = loads.expect(10, None);
        loads.add(scale, Worker(0), Amount(2));
        assert_eq!(loads.least_of_all(), Worker(1));
        loads.hear(&[0.0, 2.5, 2.0]);
        assert_eq!(loads.least_of_all(), Worker(0), "level with worker 2");
        assert_eq!((loads.least_of([2, 0].map(Worker)), loads.least_of([1, 2].map(Worker))), (Worker(2), Worker(2)));
        loads.add(scale, Worker(0), Amount(1));
        assert_eq!(loads.least_of_all(), Worker(2));
        loads.hear(&[0.0, 0.0, 0.0]);
        assert_eq!(loads.least_of_all(), Worker(1), "what was told before is forgotten");
        assert_eq!(loads.own(), [3.0, 0.0, 0.0]);
    }

    #[test]
    fn damaged_loads_are_refused() {
        let mut loads = JointLoads::new(2);
        for told in [vec![1.0], vec![1.0, f64::NAN], vec![1.0, -1.0]] {
            let saved = SavedJointLoads(Loads::new(2).save(), Some(told));
            assert!(loads.restore(saved).is_err());
        }
        let mut other = JointLoads::new(2);
        other.hear(&[3.0, 1.0]);
        loads.restore(other.save()).unwrap();
        assert_eq!(loads.least_of_all(), Worker(1));
    }
}

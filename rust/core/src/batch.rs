//! A batch of messages: what a source passes to its router in one call.

use crate::amount::Scale;
use crate::error::{Error, Result};
use crate::hash::vectorised;
use crate::params::Value;
use crate::state::loads::Loads;
use crate::types::{Amount, KeyHash, Worker};

/// The most messages that are looked up, or drawn for, before any of them is sent: their reads overlap, and what they need stays in the
/// first-level cache.
pub(crate) const BLOCK: usize = 64;

/// Messages in order of arrival at a source.
#[derive(Debug, Clone, Copy)]
pub struct Batch<'a> {
    /// Hash of each message's key.
    pub hashes: &'a [u64],
    /// Weight of each message, finite and at least 0; default 1.
    pub weights: Option<&'a [f64]>,
    /// Seconds on the caller's monotonic clock.
    pub now: Option<f64>,
}

impl<'a> Batch<'a> {
    /// Messages of weight 1.
    pub fn unit(hashes: &'a [u64]) -> Self {
        Self { hashes, weights: None, now: None }
    }

    /// The messages in chunks of one size (the last may be shorter), without a time.
    pub(crate) fn chunks(&self, size: usize) -> impl Iterator<Item = Batch<'a>> {
        let (hashes, weights) = (self.hashes, self.weights);
        (0..hashes.len()).step_by(size).map(move |start| {
            let place = start..hashes.len().min(start.saturating_add(size));
            Batch { hashes: &hashes[place.clone()], weights: weights.map(|weights| &weights[place]), now: None }
        })
    }

    /// Chooses the worker of each message from its key hash and its weight, as an amount of the scale.
    ///
    /// The common case is compiled separately, so that `choose`, which must be inlined, is compiled once for whole
    /// numbers and weight 1.
    #[inline(always)]
    pub(crate) fn each(
        &self,
        scale: Scale,
        workers: &mut [u32],
        mut choose: impl FnMut(Scale, KeyHash, Amount) -> Worker,
    ) {
        vectorised(
            #[inline(always)]
            || match (scale, self.weights) {
                (Scale::Whole, None) => {
                    for (worker, &hash) in workers.iter_mut().zip(self.hashes) {
                        *worker = choose(Scale::Whole, KeyHash(hash), Amount(1)).0;
                    }
                }
                (scale, weights) => {
                    for (row, (worker, &hash)) in workers.iter_mut().zip(self.hashes).enumerate() {
                        let weight = weights.map_or(1.0, |weights| weights[row]);
                        *worker = choose(scale, KeyHash(hash), scale.amount(weight)).0;
                    }
                }
            },
        );
    }

    /// Routes the messages a part at a time: `route` gets those that are left, with their weights and with places for
    /// their workers, and returns how many it has routed, at least one.
    ///
    /// The common case is compiled separately, as by [`Batch::each`].
    #[inline(always)]
    pub(crate) fn parts(
        &self,
        scale: Scale,
        workers: &mut [u32],
        mut route: impl FnMut(Scale, &[u64], Option<&[f64]>, &mut [u32]) -> usize,
    ) {
        vectorised(
            #[inline(always)]
            || {
                let mut start = 0;
                match (scale, self.weights) {
                    (Scale::Whole, None) => {
                        while start < workers.len() {
                            start += route(Scale::Whole, &self.hashes[start..], None, &mut workers[start..]);
                        }
                    }
                    (scale, weights) => {
                        while start < workers.len() {
                            let weights = weights.map(|weights| &weights[start..]);
                            start += route(scale, &self.hashes[start..], weights, &mut workers[start..]);
                        }
                    }
                }
            },
        );
    }

    /// Routes the messages a block at a time, as [`Batch::parts`] does.
    #[inline(always)]
    pub(crate) fn blocks(
        &self,
        scale: Scale,
        workers: &mut [u32],
        mut route: impl FnMut(Scale, &[u64], Option<&[f64]>, &mut [u32]),
    ) {
        self.parts(
            scale,
            workers,
            #[inline(always)]
            |scale, hashes, weights, workers| {
                let rows = hashes.len().min(BLOCK);
                route(scale, &hashes[..rows], weights.map(|weights| &weights[..rows]), &mut workers[..rows]);
                rows
            },
        );
    }

    /// Adds the weights of routed messages to `loads`.
    pub(crate) fn sent(&self, loads: &mut Loads, workers: &[u32]) {
        match (loads.expect(self.hashes.len(), self.weights), self.weights) {
            (Scale::Whole, None) => {
                workers.iter().for_each(|&worker| loads.add(Scale::Whole, Worker(worker), Amount(1)))
            }
            (scale, weights) => {
                for (row, &worker) in workers.iter().enumerate() {
                    loads.add(scale, Worker(worker), scale.amount(weights.map_or(1.0, |weights| weights[row])));
                }
            }
        }
    }
}

/// Checks that there is one finite weight of at least 0 per message.
pub fn check_weights(weights: &[f64], messages: usize) -> Result<()> {
    if weights.len() != messages {
        return Err(Error::Value(format!("weights must be one per key, {messages} in all, got {}", weights.len())));
    }
    match weights.iter().position(|weight| !(weight.is_finite() && *weight >= 0.0)) {
        None => Ok(()),
        Some(at) => Err(Error::Value(format!(
            "weights must be finite and at least 0, got {} at position {at}",
            Value::Number(weights[at])
        ))),
    }
}

//! The sources of a stream: message t belongs to source t modulo their number, each with its own router.

use crate::batch::Batch;
use crate::error::Result;
use crate::params::Arguments;
use crate::router::Router;
use crate::types::Source;

/// Messages in stream order.
#[derive(Debug, Clone, Copy)]
pub(super) struct Messages<'a> {
    /// Position of the first one in the stream.
    pub(super) position: u64,
    pub(super) hashes: &'a [u64],
    pub(super) weights: Option<&'a [f64]>,
}

impl<'a> Messages<'a> {
    /// The first messages, and the others.
    pub(super) fn split_at(self, at: usize) -> (Self, Self) {
        let (hashes, other_hashes) = self.hashes.split_at(at);
        let (weights, other_weights) = self.weights.map(|weights| weights.split_at(at)).unzip();
        let others = Self { position: self.position + at as u64, hashes: other_hashes, weights: other_weights };
        (Self { hashes, weights, ..self }, others)
    }

    #[inline(always)]
    pub(super) fn weight(&self, at: usize) -> f64 {
        self.weights.map_or(1.0, |weights| weights[at])
    }
}

/// One router per source.
pub(super) struct Sources {
    routers: Vec<Router>,
    /// What each source has sent to each number, where the router's loads contain more than that.
    sent: Option<Vec<Vec<f64>>>,
    hashes: Vec<u64>,
    weights: Vec<f64>,
    workers: Vec<u32>,
}

impl Sources {
    /// Sources that have sent nothing.
    pub(super) fn new(grouping: &str, arguments: &Arguments, sources: u64) -> Result<Self> {
        let routers: Vec<Router> = (0..sources as u32)
            .map(|source| Router::new(grouping, arguments, Source(source)))
            .collect::<Result<_>>()?;
        // When the first message of a segment arrives, its router has already routed the whole segment.
        let sent = routers[0].segment_messages().map(|_| vec![vec![0.0; routers[0].numbers()]; routers.len()]);
        Ok(Self { routers, sent, hashes: Vec::new(), weights: Vec::new(), workers: Vec::new() })
    }

    pub(super) fn count(&self) -> usize {
        self.routers.len()
    }

    /// One of the routers, which all have the same workers.
    pub(super) fn any(&self) -> &Router {
        &self.routers[0]
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Router> {
        self.routers.iter_mut()
    }

    /// Routes all messages without a time, one source after the other; returns them and their workers.
    pub(super) fn route_all<'a>(&'a mut self, messages: Messages<'a>) -> Result<(&'a [u64], &'a [u32])> {
        self.clear();
        for place in 0..messages.hashes.len().min(self.routers.len()) {
            self.route_own(messages, place, usize::MAX, None)?;
        }
        Ok((if self.routers.len() == 1 { messages.hashes } else { &self.hashes }, &self.workers))
    }

    /// Routes the message at an index; returns its worker.
    #[inline(always)]
    pub(super) fn route_one(&mut self, messages: Messages, place: usize, now: Option<f64>) -> Result<u32> {
        self.clear();
        self.route_own(messages, place, 1, now)?;
        Ok(self.workers[0])
    }

    /// Routes the message at an index and all later ones of its source; returns their hashes and workers.
    pub(super) fn route_rest<'a>(
        &'a mut self,
        messages: Messages<'a>,
        place: usize,
        now: Option<f64>,
    ) -> Result<(&'a [u64], &'a [u32])> {
        self.clear();
        self.route_own(messages, place, usize::MAX, now)?;
        Ok((if self.routers.len() == 1 { &messages.hashes[place..] } else { &self.hashes }, &self.workers))
    }

    fn clear(&mut self) {
        self.hashes.clear();
        self.weights.clear();
        self.workers.clear();
    }

    #[inline(always)]
    fn route_own(&mut self, messages: Messages, place: usize, most: usize, now: Option<f64>) -> Result<()> {
        let (sources, from) = (self.routers.len(), self.workers.len());
        let source = (messages.position + place as u64) % sources as u64;
        let (hashes, weights) = if sources == 1 {
            let end = messages.hashes.len().min(place.saturating_add(most));
            (&messages.hashes[place..end], messages.weights.map(|weights| &weights[place..end]))
        } else {
            self.hashes.extend(messages.hashes[place..].iter().step_by(sources).take(most));
            let weights = messages.weights.map(|weights| {
                self.weights.extend(weights[place..].iter().step_by(sources).take(most));
                &self.weights[from..]
            });
            (&self.hashes[from..], weights)
        };
        self.workers.resize(from + hashes.len(), 0);
        self.routers[source as usize].route(&Batch { hashes, weights, now }, &mut self.workers[from..])
    }

    /// Records that the message at a position was sent.
    #[inline(always)]
    pub(super) fn send(&mut self, position: u64, worker: u32, weight: f64) {
        if let Some(sent) = &mut self.sent {
            let source = position % sent.len() as u64;
            sent[source as usize][worker as usize] += weight;
        }
    }

    /// The load of each source on each number.
    pub(super) fn loads_of_each(&self) -> impl Iterator<Item = Vec<f64>> {
        self.routers.iter().enumerate().map(|(source, router)| match &self.sent {
            Some(sent) => sent[source].clone(),
            None => router.loads(),
        })
    }

    /// The load of each number.
    pub(super) fn loads(&self) -> Vec<f64> {
        let mut loads = vec![0.0; self.routers[0].numbers()];
        for own in self.loads_of_each() {
            loads.iter_mut().zip(own).for_each(|(load, own)| *load += own);
        }
        loads
    }
}

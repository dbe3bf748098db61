//! The sources of a stream: message t belongs to source t modulo their number, each with its own router.

use crate::batch::Batch;
use crate::error::Result;
use crate::params::Arguments;
use crate::router::Router;
use crate::types;

/// All sources, and the messages that are held until there are enough of them.
pub(super) struct Sources {
    pub(super) each: Vec<Source>,
    /// Position in the stream of the first message held.
    start: u64,
    /// Messages held.
    count: usize,
    /// How many are held at most.
    most: usize,
}

/// A source with its messages.
pub(super) struct Source {
    number: u64,
    router: Router,
    /// The messages of a call, where the router works on segments.
    segment: Option<usize>,
    /// What has been sent to each number, where the router's loads contain more than that.
    sent: Option<Vec<f64>>,
    /// The messages held, and the workers of those already routed.
    hashes: Vec<u64>,
    /// None if all are 1.
    weights: Vec<f64>,
    workers: Vec<u32>,
    /// Of them, those that have been sent.
    arrived: usize,
    /// The loads at the samples that are due.
    pub(super) sampled: Vec<Vec<f64>>,
}

/// A message that has been sent.
pub(super) struct Sent {
    pub(super) hash: u64,
    pub(super) worker: u32,
    pub(super) weight: f64,
}

impl Sources {
    /// Sources that have sent nothing, and hold none yet.
    pub(super) fn new(grouping: &str, arguments: &Arguments, sources: u64) -> Result<Self> {
        let each = (0..sources).map(|number| Source::new(grouping, arguments, number)).collect::<Result<_>>()?;
        Ok(Self { each, start: 0, count: 0, most: 0 })
    }

    /// Holds about this many messages from now on, in whole segments, and what is held already.
    pub(super) fn hold_about(&mut self, messages: usize) {
        let segments = self.each[0].segment.map_or(1, |each| each.saturating_mul(self.each.len()));
        self.most = (messages / segments).max(self.count.div_ceil(segments)).max(1).saturating_mul(segments);
    }

    /// Holds as many messages as there is room for; returns how many.
    pub(super) fn hold(&mut self, hashes: &[u64], weights: Option<&[f64]>) -> usize {
        let taken = hashes.len().min(self.most - self.count);
        let (sources, next) = (self.each.len(), self.start + self.count as u64);
        for place in 0..taken.min(sources) {
            let source = &mut self.each[((next + place as u64) % sources as u64) as usize];
            source.hold(&hashes[place..taken], weights.map(|weights| &weights[place..taken]), sources);
        }
        self.count += taken;
        taken
    }

    /// Whether no more can be held.
    pub(super) fn are_full(&self) -> bool {
        self.count == self.most
    }

    /// Messages held.
    pub(super) fn held(&self) -> usize {
        self.count
    }

    /// Where the messages held end in the stream.
    pub(super) fn end(&self) -> u64 {
        self.start + self.count as u64
    }

    /// Position in the stream of the first message held, and the number of sources.
    pub(super) fn stream(&self) -> (u64, u64) {
        (self.start, self.each.len() as u64)
    }

    /// Forgets the messages held, which have all been sent.
    pub(super) fn release(&mut self) {
        self.start = self.end();
        self.count = 0;
        self.each.iter_mut().for_each(Source::release);
    }

    /// Sends the message at a position, of which all before have been sent.
    #[inline(always)]
    pub(super) fn send(&mut self, position: u64, now: Option<f64>) -> Result<Sent> {
        let sources = self.each.len() as u64;
        self.each[(position % sources) as usize].send(now)
    }

    /// One of the routers, which all have the same workers.
    pub(super) fn any(&self) -> &Router {
        &self.each[0].router
    }

    pub(super) fn routers(&mut self) -> impl Iterator<Item = &mut Router> {
        self.each.iter_mut().map(|source| &mut source.router)
    }

    /// The load of each source on each number.
    pub(super) fn loads_of_each(&self) -> impl Iterator<Item = Vec<f64>> {
        self.each.iter().map(Source::loads)
    }

    /// The load of each number.
    pub(super) fn loads(&self) -> Vec<f64> {
        self.sum(self.loads_of_each())
    }

    /// The load of each number at the first samples that were due.
    pub(super) fn sampled(&self, place: usize) -> Vec<f64> {
        self.sum(self.each.iter().map(|source| &source.sampled[place]))
    }

    fn sum<Loads: AsRef<[f64]>>(&self, each: impl Iterator<Item = Loads>) -> Vec<f64> {
        let mut loads = vec![0.0; self.any().numbers()];
        for own in each {
            loads.iter_mut().zip(own.as_ref()).for_each(|(load, own)| *load += own);
        }
        loads
    }
}

impl Source {
    fn new(grouping: &str, arguments: &Arguments, number: u64) -> Result<Self> {
        let router = Router::new(grouping, arguments, types::Source(number as u32))?;
        let segment = router.segment_messages();
        // When the first message of a segment is sent, its router has already routed the whole segment.
        let sent = segment.map(|_| vec![0.0; router.numbers()]);
        let (hashes, weights, workers, sampled) = Default::default();
        Ok(Self { number, router, segment, sent, hashes, weights, workers, arrived: 0, sampled })
    }

    /// Takes the first of the messages and every so many-th after it.
    fn hold(&mut self, hashes: &[u64], weights: Option<&[f64]>, sources: usize) {
        let before = self.hashes.len();
        if weights.is_some() || !self.weights.is_empty() {
            // Unweighted messages among weighted ones: weight 1.
            self.weights.resize(before, 1.0);
            self.weights.resize(before + hashes.len().div_ceil(sources), 1.0);
            weights.iter().for_each(|weights| gather(&mut self.weights[before..], weights, sources));
        }
        self.hashes.resize(before + hashes.len().div_ceil(sources), 0);
        gather(&mut self.hashes[before..], hashes, sources);
    }

    fn release(&mut self) {
        self.hashes.clear();
        self.weights.clear();
        self.workers.clear();
        self.arrived = 0;
    }

    /// Sends all own messages before a position in the stream without a time, keeps the loads at those where a sample
    /// is due, and returns what was sent.
    pub(super) fn send_until(
        &mut self,
        end: u64,
        due: &[u64],
        (start, sources): (u64, u64),
    ) -> Result<(&[u64], &[u32])> {
        let first = self.arrived;
        // Own messages before a position.
        let before = |position: u64| (position + sources - 1 - self.number) / sources;
        let held = |position: u64| (before(position) - before(start)) as usize;
        let (ends, end) = (due.iter().map(|&position| held(position)).collect::<Vec<_>>(), held(end));
        self.sampled.clear();
        for until in ends {
            self.advance(until)?;
            self.sampled.push(self.loads());
        }
        self.advance(end)?;
        Ok((&self.hashes[first..end], &self.workers[first..end]))
    }

    fn advance(&mut self, end: usize) -> Result<()> {
        while self.workers.len() < end {
            let most = self.segment.unwrap_or(end - self.arrived);
            self.route(most, None)?;
        }
        for place in self.arrived..end {
            if let Some(sent) = &mut self.sent {
                sent[self.workers[place] as usize] += self.weights.get(place).unwrap_or(&1.0);
            }
        }
        self.arrived = end;
        Ok(())
    }

    /// Sends the next message.
    #[inline(always)]
    fn send(&mut self, now: Option<f64>) -> Result<Sent> {
        let place = self.arrived;
        if place == self.workers.len() {
            self.route(self.segment.unwrap_or(1), now)?;
        }
        let weight = *self.weights.get(place).unwrap_or(&1.0);
        let sent = Sent { hash: self.hashes[place], worker: self.workers[place], weight };
        if let Some(loads) = &mut self.sent {
            loads[sent.worker as usize] += weight;
        }
        self.arrived += 1;
        Ok(sent)
    }

    /// Routes the next messages.
    #[inline(always)]
    fn route(&mut self, most: usize, now: Option<f64>) -> Result<()> {
        let from = self.workers.len();
        let end = self.hashes.len().min(from.saturating_add(most));
        self.workers.resize(end, 0);
        let weights = (!self.weights.is_empty()).then(|| &self.weights[from..end]);
        self.router.route(&Batch { hashes: &self.hashes[from..end], weights, now }, &mut self.workers[from..])
    }

    fn loads(&self) -> Vec<f64> {
        self.sent.clone().unwrap_or_else(|| self.router.loads())
    }
}

/// Copies the first value and every so many-th after it.
fn gather<T: Copy>(into: &mut [T], values: &[T], every: usize) {
    into.iter_mut().zip(values.chunks(every)).for_each(|(to, from)| *to = from[0]);
}

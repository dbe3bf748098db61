//! Sources that send side by side, and the tables of keys and workers that take up what they have sent.
//!
//! Sources know nothing of each other, and the tables depend only on the set of what was recorded. So any thread may
//! take the next source or the next part of the tables, and the result is that of one thread.

use std::panic::resume_unwind;
use std::sync::{Mutex, PoisonError};
use std::thread;

use super::sources::Sources;
use crate::error::Result;
use crate::state::replicas::{Pairs, Tables};

/// Messages for which another thread is worth starting.
const LEAST: usize = 1 << 13;

/// The tables, and what they do not contain yet.
pub(super) struct Tracking {
    tables: Tables,
    /// One per thread.
    new: Vec<Pairs>,
}

impl Tracking {
    pub(super) fn new(tables: Tables) -> Self {
        Self { tables, new: vec![Pairs::default()] }
    }

    /// The tables, which contain all that was recorded.
    pub(super) fn tables(&self) -> &Tables {
        &self.tables
    }

    /// Notes a message, to be recorded later.
    #[inline(always)]
    pub(super) fn note(&mut self, hash: u64, worker: u32) {
        self.tables.note(hash, worker, &mut self.new[0]);
    }

    /// All sources send their messages before a position, on at most so many threads, and keep their loads where a
    /// sample is due.
    pub(super) fn send(&mut self, sources: &mut Sources, end: u64, due: &[u64], threads: usize) -> Result<()> {
        let threads = if sources.held() < LEAST { 1 } else { threads };
        self.new.resize_with(self.new.len().max(threads), Pairs::default);
        let (tables, stream, some) = (&self.tables, sources.stream(), sources.each.len().div_ceil(8 * threads));
        share(sources.each.chunks_mut(some), &mut self.new[..threads], |some, new| {
            some.iter_mut().try_for_each(|source| {
                let (hashes, workers) = source.send_until(end, due, stream)?;
                tables.collect(hashes, workers, new);
                Ok(())
            })
        })?;
        self.record(threads)
    }

    /// Records all that was noted, on at most so many threads.
    pub(super) fn record(&mut self, threads: usize) -> Result<()> {
        let new = &self.new;
        let threads = if new.iter().map(Pairs::count).sum::<usize>() < LEAST { 1 } else { threads };
        share(self.tables.parts(), &mut vec![(); threads], |part, ()| {
            new.iter().for_each(|pairs| part.record(pairs));
            Ok(())
        })?;
        self.new.iter_mut().for_each(Pairs::clear);
        self.tables.settle();
        Ok(())
    }
}

/// Does all tasks, on a thread per lane.
fn share<Task, Lane: Send>(
    tasks: impl Iterator<Item = Task> + Send,
    lanes: &mut [Lane],
    work: impl Fn(Task, &mut Lane) -> Result<()> + Sync,
) -> Result<()> {
    let tasks = Mutex::new(tasks);
    let next = || tasks.lock().unwrap_or_else(PoisonError::into_inner).next();
    let run = |lane: &mut Lane| {
        while let Some(task) = next() {
            work(task, lane)?;
        }
        Ok(())
    };
    let mut lanes = lanes.iter_mut();
    let own = lanes.next();
    thread::scope(|scope| {
        let others: Vec<_> = lanes.map(|lane| scope.spawn(|| run(lane))).collect();
        let done = own.map_or(Ok(()), run);
        let others = others.into_iter().map(|other| other.join().unwrap_or_else(|panic| resume_unwind(panic)));
        others.fold(done, Result::and)
    })
}

//! The consistent-hashing ring: every worker has points on a circle of 2^64 places, and a key goes clockwise from its
//! hash.
//!
//! Karger et al. (STOC 1997); CG paper (arXiv 1705.09073), section 4.2. A leaving worker moves only its own keys, a
//! joining one takes only the keys that it wins. A look-up reads one entry of a table over the top bits of the hash,
//! which nearly always decides on which side of the only point there the hash lies. The same table sorts the points.

use std::cell::OnceCell;
use std::sync::Arc;

use crate::batch::BLOCK;
use crate::error::{Error, Result};
use crate::hash::Points;
use crate::params::MAX_WORKERS;
use crate::state::members::Members;
use crate::types::{KeyHash, Worker};

/// The most points of all workers together.
pub(crate) const MOST_POINTS: u64 = 1 << 26;

/// The most bits that index the table of a circle.
const MOST_BITS: u32 = 22;

/// Words of a table of few workers.
const SOME: usize = 4;

/// Up to this many workers are searched faster than a table of all workers is built.
const FEW: usize = 256;

/// Checks that all points fit.
pub(crate) fn check_points(workers: u32, virtual_nodes: u64) -> Result<()> {
    let most = MOST_POINTS / u64::from(workers);
    if virtual_nodes <= most {
        return Ok(());
    }
    Err(Error::Value(format!("virtual_nodes must be in 1..={most}, got {virtual_nodes}")))
}

/// The present workers and their points, which are placed on first use.
#[derive(Debug, Clone)]
pub(crate) struct Ring {
    points: Points,
    virtual_nodes: u32,
    members: Members,
    circle: OnceCell<Arc<Circle>>,
}

impl Ring {
    /// A ring of workers with this many points each; [`check_points`] has accepted their number.
    pub(crate) fn new(workers: u32, seed: u64, virtual_nodes: u64) -> Self {
        Self {
            points: Points::new(seed),
            virtual_nodes: virtual_nodes as u32,
            members: Members::new(workers),
            circle: OnceCell::new(),
        }
    }

    pub(crate) fn members(&self) -> &Members {
        &self.members
    }

    /// The most workers whose points fit.
    pub(crate) fn most_workers(&self) -> u64 {
        MAX_WORKERS.min(MOST_POINTS / u64::from(self.virtual_nodes))
    }

    /// Adds a worker, with the lowest free number.
    pub(crate) fn add(&mut self, worker: Worker) {
        self.members.join(worker);
        self.circle.take();
    }

    /// Removes a present worker.
    pub(crate) fn remove(&mut self, worker: Worker) {
        self.members.leave(worker);
        self.circle.take();
    }

    /// Restores the members of a snapshot.
    pub(crate) fn restore(&mut self, members: Members) -> Result<()> {
        let members = members.checked()?;
        let points = u64::from(members.count()) * u64::from(self.virtual_nodes);
        if members.numbers() < self.members.numbers() || members.numbers() as u64 > MAX_WORKERS || points > MOST_POINTS
        {
            return Err(Error::damaged("its workers do not fit the ring"));
        }
        self.members = members;
        self.circle.take();
        Ok(())
    }

    /// The points of the present workers. A loop over messages should get them once.
    #[inline(always)]
    pub(crate) fn circle(&self) -> &Circle {
        self.circle.get_or_init(|| {
            let points = |worker: Worker| {
                let first = u64::from(worker.0) * u64::from(self.virtual_nodes);
                (first..first + u64::from(self.virtual_nodes)).map(|number| self.points.point(number))
            };
            let count = self.members.count() as usize * self.virtual_nodes as usize;
            Arc::new(Circle::new(count, || {
                self.members.iter().flat_map(|worker| points(worker).map(move |point| (point, worker)))
            }))
        })
    }
}

/// Points in ascending order, and the worker of each.
#[derive(Debug)]
pub(crate) struct Circle {
    /// The last one repeats the first, past the end of the circle.
    points: Vec<u64>,
    owners: Vec<u16>,
    /// By the top bits of a place.
    sectors: Vec<Sector>,
    bits: u32,
    /// More than the number of any worker.
    numbers: usize,
}

/// The places of the circle with equal top bits.
#[derive(Debug, Clone, Copy, Default)]
struct Sector {
    /// The first point from its beginning on.
    start: u32,
    /// The 31 bits after the top bits of its first point, all set if it has none; then a bit: whether it has more
    /// points.
    split: u32,
}

impl Circle {
    /// A circle of `count` points, at least one, which `list` returns with their workers, the same at each call.
    fn new<I: Iterator<Item = (u64, Worker)>>(count: usize, list: impl Fn() -> I) -> Self {
        let bits = (2 * count).next_power_of_two().ilog2().min(MOST_BITS);
        let sector = |place: u64| (place >> (u64::BITS - bits)) as usize;
        let mut sectors = vec![Sector::default(); 1 << bits];
        for (point, _) in list() {
            sectors[sector(point)].start += 1;
        }
        let mut end = 0;
        for sector in &mut sectors {
            end += sector.start;
            *sector = Sector { start: end, split: u32::MAX - 1 };
        }
        // Each point is put before those its sector already has; so ends become starts.
        let (mut points, mut owners) = (vec![u64::MAX; count + 1], vec![0; count + 1]);
        for (point, worker) in list() {
            let start = &mut sectors[sector(point)].start;
            *start -= 1;
            points[*start as usize] = point;
            owners[*start as usize] = worker.0 as u16; // workers are below 65,536
        }
        // Only points of one sector, which are few, may be out of order.
        for end in 1..count {
            let mut at = end;
            while at > 0 && points[at - 1] > points[at] {
                points.swap(at - 1, at);
                owners.swap(at - 1, at);
                at -= 1;
            }
        }
        for (index, &point) in points[..count].iter().enumerate() {
            let sector = &mut sectors[sector(point)];
            if index == sector.start as usize {
                sector.split = rest(point, bits) << 1;
            } else {
                sector.split |= 1;
            }
        }
        owners[count] = owners[0];
        let numbers = 1 + usize::from(owners.iter().copied().max().unwrap_or(0));
        Self { points, owners, sectors, bits, numbers }
    }

    /// The number of points.
    #[inline(always)]
    pub(crate) fn len(&self) -> usize {
        self.points.len() - 1
    }

    /// Where the walk of a key begins; past the last point [`Circle::len`], which is equivalent to 0.
    #[inline(always)]
    pub(crate) fn position(&self, KeyHash(hash): KeyHash) -> usize {
        let sector = self.sectors[(hash >> (u64::BITS - self.bits)) as usize];
        let (rest, split) = (rest(hash, self.bits), sector.split >> 1);
        if (sector.split & 1 == 1) | (rest == split) {
            return self.position_from(sector.start as usize, hash);
        }
        sector.start as usize + usize::from(rest > split)
    }

    /// Where the walks of a block of keys begin. The reads overlap; a loop that also writes would wait for each.
    #[inline(always)]
    pub(crate) fn positions(&self, hashes: &[u64]) -> [u32; BLOCK] {
        let mut found = [0; BLOCK];
        for (found, &hash) in found.iter_mut().zip(hashes) {
            *found = self.position(KeyHash(hash)) as u32;
        }
        found
    }

    #[cold]
    fn position_from(&self, mut position: usize, hash: u64) -> usize {
        while self.points[position] < hash {
            position += 1;
        }
        position
    }

    /// The worker of a position, up to [`Circle::len`].
    #[inline(always)]
    pub(crate) fn at(&self, position: usize) -> Worker {
        Worker(self.owners[position].into())
    }

    /// The worker of the first point of a key's walk.
    #[inline(always)]
    pub(crate) fn owner(&self, hash: KeyHash) -> Worker {
        self.at(self.position(hash))
    }

    /// The workers of all points clockwise from a position, once around, repetitions included.
    pub(crate) fn walk(&self, position: usize) -> impl Iterator<Item = Worker> {
        self.walk_on(position, 0).map(|worker| Worker(worker.into()))
    }

    /// What is left of a walk after so many points.
    fn walk_on(&self, position: usize, passed: usize) -> impl Iterator<Item = u16> {
        let owners = &self.owners[..self.len()];
        let (before, after) = owners.split_at(position);
        let skipped = passed.min(after.len());
        after[skipped..].iter().chain(&before[passed - skipped..]).copied()
    }

    /// The first two distinct workers of a walk from a position; the same worker twice if there is only one.
    #[inline(always)]
    pub(crate) fn pair(&self, position: usize) -> (Worker, Worker) {
        let first = self.at(position);
        // The last owner repeats the first, so there is nearly always a next one.
        match self.owners.get(position + 1) {
            Some(&next) if u32::from(next) != first.0 => (first, Worker(next.into())),
            _ => (first, self.find_other(position, first)),
        }
    }

    #[cold]
    fn find_other(&self, position: usize, first: Worker) -> Worker {
        self.walk(position).find(|&worker| worker != first).unwrap_or(first)
    }

    /// The first `count` distinct workers of a key's walk, all if there are fewer.
    pub(crate) fn different(&self, hash: KeyHash, count: usize) -> Vec<u32> {
        let mut found = Different::default();
        found.extend(self, self.position(hash), count);
        found.workers.into_iter().map(u32::from).collect()
    }
}

/// The first distinct workers of a walk, found as far as they are needed.
#[derive(Debug, Clone, Default)]
pub(crate) struct Different {
    pub(crate) workers: Vec<u16>,
    /// How many points were walked past.
    passed: usize,
}

impl Different {
    /// Walks on from a position, always the same, until there are `count` workers; all, if there are fewer.
    pub(crate) fn extend(&mut self, circle: &Circle, position: usize, count: usize) {
        if circle.numbers <= 64 * SOME {
            self.extend_by::<SOME>(circle, position, count, |_, _| true);
        } else if count <= FEW {
            // Others of equal last bits have usually not been met, so few are searched for.
            self.extend_by::<{ FEW / 16 }>(circle, position, count, <[u16]>::contains);
        } else {
            self.extend_by::<{ MAX_WORKERS as usize / 64 }>(circle, position, count, |_, _| true);
        }
    }

    /// Marks the workers in a table of so many words, by their last bits. `is_one` says whether a worker whose mark is set is
    /// in the list.
    #[inline(always)]
    fn extend_by<const WORDS: usize>(
        &mut self,
        circle: &Circle,
        position: usize,
        count: usize,
        is_one: impl Fn(&[u16], &u16) -> bool,
    ) {
        let mut marks = [0u64; WORDS];
        let mut mark = |worker: u16| {
            let (word, bit) = (&mut marks[usize::from(worker) / 64 % WORDS], 1 << (worker % 64));
            std::mem::replace(word, *word | bit) & bit != 0
        };
        self.workers.iter().for_each(|&worker| _ = mark(worker));
        let mut walk = circle.walk_on(position, self.passed);
        while self.workers.len() < count
            && let Some(worker) = walk.next()
        {
            self.passed += 1;
            if !(mark(worker) && is_one(&self.workers, &worker)) {
                self.workers.push(worker);
            }
        }
    }

    /// Forgets the walk, but keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.workers.clear();
        self.passed = 0;
    }
}

/// The 31 bits of a place after its top bits.
#[inline(always)]
fn rest(place: u64, bits: u32) -> u32 {
    ((place << bits) >> 33) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::KeyHasher;

    fn ring(workers: u32, virtual_nodes: u64) -> Ring {
        Ring::new(workers, 7, virtual_nodes)
    }

    /// Hashes all over the circle, including its ends and the neighbours of points.
    fn hashes(circle: &Circle) -> Vec<u64> {
        let keys = KeyHasher::new(0);
        let around = circle.points.iter().flat_map(|&p| [p.wrapping_sub(1), p, p.wrapping_add(1)]).take(300);
        (0..1000).map(|key| keys.whole(key)).chain(around).chain([0, 1, u64::MAX - 1, u64::MAX]).collect()
    }

    /// The walk of a hash as `docs/routing.md` defines it.
    fn naive_walk(ring: &Ring, hash: u64) -> Vec<Worker> {
        let nodes = u64::from(ring.virtual_nodes);
        let mut points: Vec<(u64, Worker)> = ring
            .members()
            .iter()
            .flat_map(|worker| (0..nodes).map(move |node| (u64::from(worker.0) * nodes + node, worker)))
            .map(|(number, worker)| (ring.points.point(number), worker))
            .collect();
        points.sort_unstable_by_key(|&(point, _)| (point < hash, point));
        points.into_iter().map(|(_, worker)| worker).collect()
    }

    fn check(ring: &Ring) {
        let circle = ring.circle();
        assert_eq!(circle.len(), ring.members().count() as usize * ring.virtual_nodes as usize);
        for hash in hashes(circle) {
            let walk = naive_walk(ring, hash);
            let hash = KeyHash(hash);
            assert_eq!(circle.owner(hash), walk[0]);
            assert_eq!(circle.walk(circle.position(hash)).collect::<Vec<_>>(), walk);
            let mut different = Vec::new();
            walk.into_iter().for_each(|worker| {
                if !different.contains(&worker) {
                    different.push(worker)
                }
            });
            let mut found = Different::default();
            for count in [1, 2, 3, 64, 200, 256, 257, 1000] {
                let expected: Vec<_> = different.iter().take(count).map(|worker| worker.0).collect();
                assert_eq!(circle.different(hash, count), expected);
                found.extend(circle, circle.position(hash), count);
                assert_eq!(found.workers.iter().map(|&worker| u32::from(worker)).collect::<Vec<_>>(), expected);
            }
            assert_eq!(circle.pair(circle.position(hash)), (different[0], *different.get(1).unwrap_or(&different[0])));
        }
    }

    #[test]
    fn points_and_walks_are_those_of_the_definition() {
        for (workers, nodes) in [(1, 1), (1, 5), (2, 1), (7, 3), (80, 2), (300, 2)] {
            check(&ring(workers, nodes));
        }
    }

    #[test]
    fn points_follow_the_members() {
        let mut ring = ring(5, 4);
        check(&ring);
        ring.remove(Worker(2));
        check(&ring);
        ring.remove(Worker(0));
        ring.add(Worker(0));
        ring.add(Worker(2));
        ring.add(Worker(5));
        check(&ring);
    }

    #[test]
    fn room_is_for_so_many_points() {
        assert_eq!(ring(1000, 1 << 16).most_workers(), 1 << 10);
        assert_eq!(ring(1000, 100).most_workers(), 1 << 16);
    }

    #[test]
    fn damaged_members_are_refused() {
        let mut ring = ring(3, 2);
        assert!(ring.restore(Members::new(2)).is_err());
        assert!(ring.restore(Members::new(65_537)).is_err());
        ring.restore(Members::new(4)).unwrap();
        check(&ring);
    }
}

//! The three spaces that keys advance through: DKG paper, section 4.1 and Algorithms 1 to 3.

use std::cmp::Ordering;

use serde::{Deserialize, Serialize};

use crate::batch::BLOCK;
use crate::error::{Error, Result};
use crate::sketch::Index;
use crate::types::KeyHash;

/// The space a key has reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Space {
    Baby,
    Teenage,
    Old,
}

/// A key item (section 4.1); the hash of its key is stored beside it.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct Item {
    /// Sum of the weights of its messages.
    count: f64,
    seen: f64,
    /// When it was last checked for scaling out; minus infinity if never.
    pub(super) checked: f64,
    /// w: its number of workers.
    pub(super) width: u32,
    pub(super) space: Space,
}

/// The three spaces of key items. Their order matters only to a cycle, so it is not kept in between.
#[derive(Debug, Clone)]
pub(super) struct Spaces {
    /// By [`Space`]. The baby space is cut to its size only in a cycle.
    sizes: [usize; 3],
    /// Workers of a new key.
    width: u32,
    hashes: Vec<u64>,
    /// By slot.
    pub(super) items: Vec<Item>,
    index: Index,
}

impl Spaces {
    /// Spaces for this many keys, which start with `width` workers.
    pub(super) fn new(expected_keys: usize, width: u32) -> Self {
        let (old, teenage) = (expected_keys / 10, 4 * expected_keys / 10);
        let sizes = [expected_keys - old - teenage, teenage, old].map(|size| size.max(1));
        Self { sizes, width, hashes: Vec::new(), items: Vec::new(), index: Index::new(&[]) }
    }

    /// The slot of a key's item.
    #[inline(always)]
    pub(super) fn find(&self, hash: KeyHash) -> Option<usize> {
        self.index.find(hash.0, &self.hashes)
    }

    /// Guesses at the slots of the keys of a block.
    #[inline(always)]
    pub(super) fn guess(&self, hashes: &[u64], guesses: &mut [u32; BLOCK]) {
        self.index.guess(hashes, guesses);
    }

    /// Counts a message; returns the slot of its item, which may be the one guessed.
    #[inline(always)]
    pub(super) fn see(&mut self, hash: KeyHash, guess: usize, weight: f64, time: f64) -> usize {
        let slot = if self.hashes.get(guess) == Some(&hash.0) {
            guess
        } else {
            self.find(hash).unwrap_or_else(|| self.create(hash))
        };
        let item = &mut self.items[slot];
        item.count += weight;
        item.seen = time;
        slot
    }

    #[inline]
    fn create(&mut self, hash: KeyHash) -> usize {
        let (width, checked) = (self.width, f64::NEG_INFINITY);
        self.add(hash.0, Item { count: 0.0, seen: 0.0, checked, width, space: Space::Baby })
    }

    #[inline]
    fn add(&mut self, hash: u64, item: Item) -> usize {
        let slot = self.hashes.len();
        self.hashes.push(hash);
        self.items.push(item);
        self.index.insert(hash, slot, &self.hashes);
        slot
    }

    /// The order of two slots in a space: more occurrences first.
    fn order(&self, one: u32, other: u32) -> Ordering {
        let [a, b] = [one, other].map(|slot| &self.items[slot as usize]);
        let by_count = b.count.total_cmp(&a.count).then(b.seen.total_cmp(&a.seen));
        by_count.then_with(|| self.hashes[one as usize].cmp(&self.hashes[other as usize]))
    }

    /// The slots of a space.
    fn slots(&self, space: Space) -> Vec<u32> {
        let slots = 0..self.items.len() as u32;
        slots.filter(|&slot| self.items[slot as usize].space == space).collect()
    }

    /// The slots of a space, in its order.
    fn sorted(&self, space: Space) -> Vec<u32> {
        let mut slots = self.slots(space);
        slots.sort_unstable_by(|&one, &other| self.order(one, other));
        slots
    }

    /// Drops the last items of the baby space, down to its size.
    #[cold]
    pub(super) fn cut(&mut self) {
        let size = self.sizes[Space::Baby as usize];
        let (mut kept, mut babies, mut least) = (Vec::new(), Vec::new(), 0.0);
        for (slot, item) in (0..).zip(&self.items) {
            if item.space != Space::Baby {
                kept.push(slot);
            } else if item.count >= least {
                babies.push(slot);
                // Of most items it is known from the count that others come before them.
                if babies.len() == 4 * size {
                    self.select(&mut babies, size);
                    least = self.items[babies[size - 1] as usize].count;
                }
            }
        }
        self.select(&mut babies, size);
        kept.append(&mut babies);
        if kept.len() == self.items.len() {
            return;
        }
        let (hashes, items): (Vec<u64>, Vec<Item>) =
            kept.iter().map(|&slot| (self.hashes[slot as usize], self.items[slot as usize])).unzip();
        self.index.clear(&self.hashes);
        // The memory is kept: there will be as many new keys until the next cycle.
        self.hashes.clear();
        self.items.clear();
        for (hash, item) in hashes.into_iter().zip(items) {
            self.add(hash, item);
        }
    }

    /// Keeps the first slots of a space, in its order, up to so many; the last of them is behind all others.
    fn select(&self, slots: &mut Vec<u32>, size: usize) {
        if slots.len() > size {
            slots.select_nth_unstable_by(size - 1, |&one, &other| self.order(one, other));
            slots.truncate(size);
        }
    }

    /// Algorithm 3. Items that were swapped never move again, so the best of one space meet the worst of the other in
    /// order.
    #[cold]
    pub(super) fn promote(&mut self, from: Space, to: Space) {
        let source = self.sorted(from);
        let room = self.sizes[to as usize] - self.slots(to).len();
        let (first, others) = source.split_at(room.min(source.len()));
        for &slot in first {
            self.items[slot as usize].space = to;
        }
        for (&up, down) in others.iter().zip(self.sorted(to).into_iter().rev()) {
            let [up, down] = [up, down].map(|slot| slot as usize);
            if self.items[up].count <= self.items[down].count {
                break;
            }
            (self.items[up].space, self.items[down].space) = (to, from);
        }
    }

    pub(super) fn save(&self) -> (&[u64], &[Item]) {
        (&self.hashes, &self.items)
    }

    /// Restores the items of a snapshot, with at most `most` workers each.
    pub(super) fn restore(&mut self, hashes: Vec<u64>, items: Vec<Item>, most: u32) -> Result<()> {
        let sane = |item: &Item| {
            let widths = self.width..=most;
            item.count >= 0.0 && item.seen.is_finite() && !item.checked.is_nan() && widths.contains(&item.width)
        };
        let fits = |space: Space| items.iter().filter(|item| item.space == space).count() <= self.sizes[space as usize];
        let index = Index::new(&hashes);
        let spaces_fit = fits(Space::Teenage) && fits(Space::Old);
        if hashes.len() != items.len() || !index.tells_apart(&hashes) || !spaces_fit || !items.iter().all(sane) {
            return Err(Error::damaged("its keys do not fit their spaces"));
        }
        (self.hashes, self.items, self.index) = (hashes, items, index);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::KeyHasher;

    /// Items of the given counts, seen at time 0, with hashes 0, 1, ...
    fn spaces(expected_keys: usize, counts: &[(Space, f64)]) -> Spaces {
        let mut spaces = Spaces::new(expected_keys, 2);
        for (hash, &(space, count)) in counts.iter().enumerate() {
            let slot = spaces.see(KeyHash(hash as u64), 0, count, 0.0);
            spaces.items[slot].space = space;
        }
        spaces
    }

    fn hashes_in(spaces: &Spaces, space: Space) -> Vec<u64> {
        spaces.sorted(space).into_iter().map(|slot| spaces.hashes[slot as usize]).collect()
    }

    #[test]
    fn sizes_are_10_40_and_50_per_cent() {
        assert_eq!(Spaces::new(100, 2).sizes, [50, 40, 10]);
        assert_eq!(Spaces::new(19, 2).sizes, [11, 7, 1]);
        assert_eq!(Spaces::new(1, 2).sizes, [1, 1, 1]);
    }

    #[test]
    fn baby_keeps_the_most_frequent_then_the_latest_then_the_smallest_hash() {
        use Space::{Baby, Old, Teenage};
        let mut spaces = spaces(4, &[(Baby, 1.0), (Baby, 2.0), (Old, 0.0), (Baby, 2.0), (Baby, 2.0), (Teenage, 0.0)]);
        assert_eq!(spaces.sizes[0], 3);
        spaces.see(KeyHash(4), 0, 0.0, 1.0);
        spaces.cut();
        assert_eq!(hashes_in(&spaces, Baby), [4, 1, 3]);
        assert_eq!((hashes_in(&spaces, Teenage), hashes_in(&spaces, Old)), (vec![5], vec![2]));
        assert_eq!(spaces.find(KeyHash(0)), None, "it is forgotten");
        assert_eq!(spaces.find(KeyHash(3)).map(|slot| spaces.hashes[slot]), Some(3));
    }

    #[test]
    fn baby_keeps_the_first_of_many_in_its_order() {
        let draws = KeyHasher::new(2);
        for round in 0..200 {
            let draw = |item: i64| draws.whole(round * 1000 + item);
            // Few counts and times, so that many items are equal in both.
            let counts: Vec<(Space, f64)> = (0..300).map(|item| (Space::Baby, (draw(item) % 3) as f64)).collect();
            let mut spaces = spaces(10, &counts);
            for (slot, item) in spaces.items.iter_mut().enumerate() {
                item.seen = (draw(slot as i64 + 500) % 4) as f64;
                item.space = if slot % 100 == 7 { Space::Teenage } else { Space::Baby };
            }
            let mut expected = hashes_in(&spaces, Space::Baby);
            expected.truncate(spaces.sizes[0]);
            let teenage = hashes_in(&spaces, Space::Teenage);
            spaces.cut();
            assert_eq!(hashes_in(&spaces, Space::Baby), expected, "round {round}");
            assert_eq!(hashes_in(&spaces, Space::Teenage), teenage);
            assert!(spaces.index.tells_apart(&spaces.hashes));
        }
    }

    #[test]
    fn promotion_fills_room_and_then_swaps_what_is_strictly_more_frequent() {
        use Space::{Baby, Teenage};
        // Room for 4 in the teenage space, which holds 3.
        let counts =
            [(Teenage, 3.0), (Teenage, 7.0), (Teenage, 5.0), (Baby, 9.0), (Baby, 4.0), (Baby, 5.0), (Baby, 8.0)];
        let mut spaces = spaces(10, &counts);
        spaces.promote(Baby, Teenage);
        assert_eq!(hashes_in(&spaces, Teenage), [3, 6, 1, 2], "5 is not more frequent than 2");
        assert_eq!(hashes_in(&spaces, Baby), [5, 4, 0]);
    }

    /// Promotion as the definition states it, one item at a time.
    fn promote_one_by_one(spaces: &mut Spaces, from: Space, to: Space) {
        while spaces.slots(to).len() < spaces.sizes[to as usize] {
            let Some(&first) = spaces.sorted(from).first() else { break };
            spaces.items[first as usize].space = to;
        }
        for _ in 0..spaces.slots(to).len() {
            let (Some(first), Some(last)) = (spaces.sorted(from).first().copied(), spaces.sorted(to).last().copied())
            else {
                break;
            };
            let [up, down] = [first, last].map(|slot| slot as usize);
            if spaces.items[up].count <= spaces.items[down].count {
                break;
            }
            (spaces.items[up].space, spaces.items[down].space) = (to, from);
        }
    }

    #[test]
    fn promotion_is_the_same_one_by_one() {
        let draws = KeyHasher::new(1);
        for round in 0..500 {
            let draw = |item: i64| draws.whole(round * 100 + item);
            let items = 1 + draw(0) as i64 % 12;
            let counts: Vec<(Space, f64)> =
                (1..=items.abs()).map(|item| (Space::Baby, (draw(item) % 4) as f64)).collect();
            let mut fast = spaces(10, &counts);
            for (slot, item) in fast.items.iter_mut().enumerate().take(4) {
                item.space = if draw(slot as i64 + 50) % 2 == 0 { Space::Teenage } else { Space::Baby };
                item.seen = (draw(slot as i64 + 70) % 2) as f64;
            }
            let mut slow = fast.clone();
            fast.promote(Space::Baby, Space::Teenage);
            promote_one_by_one(&mut slow, Space::Baby, Space::Teenage);
            assert_eq!(hashes_in(&fast, Space::Teenage), hashes_in(&slow, Space::Teenage), "round {round}");
            assert_eq!(hashes_in(&fast, Space::Baby), hashes_in(&slow, Space::Baby), "round {round}");
        }
    }

    #[test]
    fn damaged_spaces_are_refused() {
        let item = Item { count: 1.0, seen: 0.0, checked: f64::NEG_INFINITY, width: 2, space: Space::Old };
        let restore = |hashes: &[u64], items: &[Item]| {
            // One item at most in the old space, eight workers of a key at most.
            Spaces::new(10, 2).restore(hashes.to_vec(), items.to_vec(), 8).is_ok()
        };
        assert!(restore(&[1], &[item]));
        assert!(!restore(&[1, 2], &[item]));
        assert!(!restore(&[1, 1], &[Item { space: Space::Baby, ..item }; 2]));
        assert!(!restore(&[1, 2], &[item; 2]), "too many old ones");
        for damaged in [
            Item { count: f64::NAN, ..item },
            Item { seen: f64::INFINITY, ..item },
            Item { checked: f64::NAN, ..item },
            Item { width: 1, ..item },
            Item { width: 9, ..item },
        ] {
            assert!(!restore(&[1], &[damaged]), "{damaged:?}");
        }
    }
}

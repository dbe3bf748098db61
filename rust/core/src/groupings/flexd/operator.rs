//! The operator of FlexD: COLLECT, SEND, ASSIGN.
//!
//! Paper's section 4.2 and figure 5. A state is a type, and what leads from it to the next one takes it by value: there
//! is no other order.

use super::{RoutingTable, Segment};
use crate::batch::Batch;
use crate::state::clock::{Clock, Pace};

/// COLLECT: cuts the next segment off a batch.
pub(super) struct Collecting<'a> {
    batch: &'a Batch<'a>,
    workers: &'a mut [u32],
    /// Most messages of a segment.
    size: usize,
    /// Messages of the batch that have a worker.
    assigned: usize,
    clock: &'a mut Clock,
    pace: Pace,
}

/// SEND: the messages of a segment wait for a routing table.
pub(super) struct Sending<'a> {
    operator: Collecting<'a>,
    segment: Segment<'a>,
}

/// ASSIGN: the table has come.
pub(super) struct Assigning<'a, 't> {
    operator: Collecting<'a>,
    table: RoutingTable<'t>,
}

impl<'a> Collecting<'a> {
    /// An operator at the start of a batch; `workers` has a place for each message.
    pub(super) fn new(
        batch: &'a Batch<'a>,
        workers: &'a mut [u32],
        size: usize,
        clock: &'a mut Clock,
        pace: Pace,
    ) -> Self {
        Self { batch, workers, size, assigned: 0, clock, pace }
    }

    /// Collects a segment, unless all messages are assigned. Only the last one of a batch may be short.
    pub(super) fn collect(self) -> Option<Sending<'a>> {
        let left = self.batch.hashes.len() - self.assigned;
        if left == 0 {
            return None;
        }
        let places = self.assigned..self.assigned + left.min(self.size);
        let time = self.clock.time();
        for _ in places.clone() {
            self.clock.message(self.pace);
        }
        let messages = Batch {
            hashes: &self.batch.hashes[places.clone()],
            weights: self.batch.weights.map(|weights| &weights[places]),
            now: None,
        };
        Some(Sending { operator: self, segment: Segment { messages, time } })
    }
}

impl<'a> Sending<'a> {
    /// What goes to the scheduler.
    pub(super) fn segment(&self) -> Segment<'a> {
        self.segment
    }

    /// The scheduler has answered.
    pub(super) fn receive(self, table: RoutingTable<'_>) -> Assigning<'a, '_> {
        debug_assert_eq!(table.0.len(), self.segment.messages.hashes.len(), "a table is of one segment");
        Assigning { operator: self.operator, table }
    }
}

impl<'a> Assigning<'a, '_> {
    /// Gives each message of the segment its worker and goes on collecting.
    pub(super) fn assign(self) -> Collecting<'a> {
        let Self { mut operator, table: RoutingTable(table) } = self;
        let end = operator.assigned + table.len();
        operator.workers[operator.assigned..end].copy_from_slice(table);
        operator.assigned = end;
        operator
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::params::Params;

    fn clock() -> Clock {
        Clock::new(&Params::new(1, 0).with("messages_per_s", 2.0)).unwrap()
    }

    #[test]
    fn collects_sends_and_assigns_segment_by_segment() {
        let hashes = [10, 11, 12, 13, 14];
        let weights = [1.0, 2.0, 3.0, 4.0, 5.0];
        let batch = Batch { hashes: &hashes, weights: Some(&weights), now: None };
        let (mut workers, mut clock) = ([9; 5], clock());
        let pace = clock.expect(batch.now);

        let sending = Collecting::new(&batch, &mut workers, 3, &mut clock, pace).collect().expect("there are messages");
        let segment = sending.segment();
        assert_eq!((segment.messages.hashes, segment.messages.weights), (&hashes[..3], Some(&weights[..3])));
        assert_eq!(segment.time, 0.0);

        let collecting = sending.receive(RoutingTable(&[1, 2, 3])).assign();
        assert_eq!(collecting.workers, [1, 2, 3, 9, 9]);

        let sending = collecting.collect().expect("two messages are left");
        let segment = sending.segment();
        assert_eq!((segment.messages.hashes, segment.messages.weights), (&hashes[3..], Some(&weights[3..])));
        assert_eq!(segment.time, 1.5, "the first three messages have moved the clock on");

        let collecting = sending.receive(RoutingTable(&[4, 5])).assign();
        assert_eq!(collecting.workers, [1, 2, 3, 4, 5]);
        assert!(collecting.collect().is_none(), "the batch is done");
        assert_eq!(clock.time(), 2.5);
    }

    #[test]
    fn a_batch_that_ends_with_a_segment_has_no_empty_one() {
        let (mut workers, mut clock) = ([9; 2], clock());
        let batch = Batch { hashes: &[1, 2], weights: None, now: Some(7.0) };
        let pace = clock.expect(batch.now);
        let sending = Collecting::new(&batch, &mut workers, 2, &mut clock, pace).collect().expect("there are messages");
        assert_eq!(sending.segment().time, 7.0);
        assert!(sending.receive(RoutingTable(&[0, 0])).assign().collect().is_none());
        assert_eq!(clock.time(), 7.0, "messages of a batch with a time do not move the clock");
    }

    #[test]
    #[should_panic(expected = "a table is of one segment")]
    #[cfg(debug_assertions)]
    fn a_table_of_another_segment_is_refused() {
        let (mut workers, mut clock) = ([9; 2], clock());
        let batch = Batch::unit(&[1, 2]);
        let pace = clock.expect(batch.now);
        let sending = Collecting::new(&batch, &mut workers, 2, &mut clock, pace).collect().expect("there are messages");
        sending.receive(RoutingTable(&[0]));
    }
}

//! Parts that several groupings share: the head of frequent keys, candidates, bins of bounded capacity.

pub(super) mod bins;
pub(super) mod bounded;
pub(super) mod capacity;
pub(super) mod choices;
pub(super) mod head;
pub(super) mod memo;
pub(super) mod pairing;
pub(super) mod probing;
pub(super) mod solver;
pub(super) mod turn;

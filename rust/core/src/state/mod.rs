//! The state that groupings are made of: loads, members, time.

pub(crate) mod clock;
pub(crate) mod loads;
pub(crate) mod members;
pub(crate) mod minimum;
pub(crate) mod replicas;
pub(crate) mod ring;
pub(crate) mod secret;
pub(crate) mod window;

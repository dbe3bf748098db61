//! What groupings are made of: what a source has sent, who is there, what time it is.

pub(crate) mod clock;
pub(crate) mod loads;
pub(crate) mod members;
pub(crate) mod minimum;
pub(crate) mod replicas;
pub(crate) mod ring;
pub(crate) mod window;

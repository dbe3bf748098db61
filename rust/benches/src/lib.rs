//! What the benchmarks of the core share. A crate of its own: who tests the core compiles no benchmark.

pub mod calls;
pub mod workloads;

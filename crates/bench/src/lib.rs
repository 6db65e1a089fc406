//! Benchmarks of any NFSv3 server.

pub mod random;
pub mod wire;

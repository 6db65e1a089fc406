//! What another log device would bring: the load as it was recorded, run through the latencies of the device as they
//! were measured.

pub mod candidate;
pub mod latency;
pub mod replay;
pub mod warmth;

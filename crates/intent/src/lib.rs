//! The intent log as a library: rings of frames on one or more legs, records that are opaque bytes, and
//! those who wait until theirs is durable.
//!
//! The problem: a pool commits every few seconds, and a synchronous request cannot wait for that. So what it
//! changed goes, as a record, into a preallocated ring beside the pool; the reply leaves when the record is on
//! stable storage; and after a crash the records that no transaction group had taken in are replayed.
//!
//! The idea is that nothing on this path may need anything but one device write: no allocation, no
//! metadata, no transaction group. Records that arrive while a write is on its way ride together in the next
//! one (natural batching; no timer). Each frame says which records were durable when it left, so that recovery
//! can tell a torn tail, which nobody was promised, from damage to what was acknowledged.
//!
//! Why rings and not chains of allocated blocks: a chain needs the allocator inside the commit, and at its
//! end a missing block and a lost one look the same. The price is a fixed size, hence reservations.
//!
//! The crate knows no files and has no clock of its own, and makes no threads: a recovery reads ahead by the helpers that
//! it is given, a thread of the pool calls [`Lane::run`], whoever waits may write in place through its promise, and the simulator
//! calls [`Lane::drive_frame`]. docs/log.md tells the life of a record from here to its replay.

mod checkpoint;
mod config;
mod failure;
mod frame;
mod gather;
mod lane;
mod promise;
pub mod recovery;
mod ring;
mod stats;

#[cfg(test)]
mod testdisk;

pub use checkpoint::Checkpoint;
pub use config::{LaneConfig, Leg, LegFailed, LegSet, StaleLeg};
pub use failure::LaneFailed;
pub use frame::{FrameHeader, RecordHead, RecordName, RecordShape};
pub use lane::{Appended, Lane, Reservation, RingLook};
pub use ring::{Fill, LaneGeometry, RingFull};
pub use stats::{BySize, LaneStats};

//! For tests: disks in memory, which may fail, rot and keep a journal, what is asked of a vdev in memory, and a world with
//! fixed numbers around them.
//!
//! Here stands what the tests of more than one crate, the simulator or a fuzz target put in the place of a device. What one
//! test file alone needs stands in it. No crate of the product sees this one, so that none of it can be reached in
//! production; only `tally_disk` and `tally_members` are seen from here, whose traits these are.

mod device;
mod faulty;
mod memory;
mod world;

pub use device::MemBlockDev;
pub use faulty::{Entry, FaultyDisk, Journal};
pub use memory::{MemDisk, MemOpener};
pub use world::World;

//! The ground floor: words and numbers that every crate shares, and the three things an engine may not
//! fetch for itself (time, randomness, a promise that somebody else keeps).
//!
//! Nothing in here does I/O apart from [`SystemClock`] and [`SystemRng`], which the binary hands down
//! and the simulator replaces.

mod blocking;
mod checksum;
mod clock;
pub mod codec;
mod histogram;
mod mark;
mod promise;
mod rng;
mod size;
mod timing;
mod units;

pub use blocking::{LongWork, Seat, blocking, seat_this_thread};
pub use checksum::{BlockChecksum, block_checksum, log_checksum, name_hash};
pub use clock::{Clock, SystemClock};
pub use histogram::Histogram;
pub use mark::{Known, SessionBytes, SlotMark};
pub use promise::{Broken, Fate, FirstBroken, Keeper, Kept, Promise, Wait, all_of};
pub use rng::{Rng, SystemRng};
pub use size::{Size, SizeError};
pub use timing::{Speed, Timing};
pub use units::{
    DatasetId, Dseq, FileTime, Generation, LaneId, Lsn, ObjectId, PoolGuid, Time, Txg, VdevGuid, VdevIndex,
};

/// The unit of everything that reaches a disk: blocks, frames and labels start and end on it, because
/// O_DIRECT asks for it on 4Kn devices and because no smaller write is atomic anywhere we care for.
pub const SECTOR: usize = 4096;

/// Rounds `bytes` up to a whole number of [`SECTOR`]s.
#[must_use]
pub const fn round_to_sector(bytes: u64) -> u64 {
    bytes.next_multiple_of(SECTOR as u64)
}

//! Recordings of what disks were told: every write with its data, every flush, and marks in between that say how
//! far somebody else was.
//!
//! The format is that of Linux's device-mapper target `log-writes`, so that a recording of the kernel's own making
//! is read as well. That target stands before one device, and a flush in its log names none. Before a pool on
//! several disks the order between the disks is what matters (a log frame, then the pool's blocks, then the
//! uberblock), and two targets with a log each have none in common. So [`disks`] are network block devices of our
//! own that share one recording. It adds two things, both of which other readers of the format can pass over:
//!
//! - All disks lie side by side in one space of sectors, and a flush carries the first sector of its disk. (The
//!   kernel writes zero: the first disk.)
//! - Marks `disk:NAME:FIRST:SECTORS` say where which disk lies; they come before its first write.
//!
//! The order of entries is what a reader relies on. The kernel's target logs a FUA write when it is complete, and a
//! flush when it is complete, after all writes that had completed when it began. Our disks log what they are told
//! when they carry it out, before they answer. Either way an entry stands before every mark that was set after
//! somebody had been told of it.
//!
//! ```text
//!   0 magic u64 | 8 version u64 | 16 entries u64 | 24 bytes of a sector u32          filled to a sector; then entries:
//!   0 sector u64 | 8 sectors u64 | 16 flags u64 | 24 length of a mark u64 | mark     filled to a sector
//!   data of a write, as many sectors as its entry says
//! ```
//!
//! Numbers are little-endian. Flags: 1 flush, 2 FUA, 4 discard, 8 mark, 16 metadata (of no interest here).

pub mod disks;
mod entry;
mod read;
mod write;

pub use read::{Event, Recording};
#[cfg(test)]
pub(crate) use write::Writer;

#[cfg(test)]
mod tests;

//! What a crash has left, read without changing anything: [`scan`] walks one lane and decides where it ends,
//! [`merge`] puts the records of all lanes into the order of each dataset, and [`list_frames`] shows whatever
//! frames there are to somebody who inspects a pool.
//!
//! Recovery has one commit point: the uberblock in which the replay is complete and each lane has a new epoch
//! and an empty ring. Nothing is appended before it, and what was cut is not erased, because the epoch kills
//! it. So a crash during recovery is decided again from the same disks, by the same table (`decide`), and what
//! was synced meanwhile is skipped by the datasets' cursors (rules F1).

mod decide;
pub(crate) mod leg;
mod list;
mod merge;
mod scan;

pub use list::{FrameInfo, RecordInfo, RingVisit, list_frames, visit_ring};
pub use merge::{Cursor, DatasetReplay, DatasetVerdict, MergeError, Merged, merge};
pub use scan::{
    Contradiction, Disowned, LaneScan, LegFault, RecoveredRecord, ScanError, Verdict, scan, synced_at_the_beginning,
};

#[cfg(test)]
mod crash_tests;
#[cfg(test)]
mod table_tests;
#[cfg(test)]
mod tests;

//! Where on a vdev the next run is looked for. Hints: they keep in order what is written in order, and nothing rests on them.
//!
//! Groups have one cursor, and what is placed ahead of them another. With one for both, a fold that wrote a file in runs of a
//! mebibyte, while a client placed another, put each into the gaps of the other: whoever read either had a turn of the disk
//! for each mebibyte. The two keep apart by regions, as each spares that in which the other one is, and begin side by side,
//! since a disk that turns writes now at one and now at the other. Second copies have a third, far from both.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use tally_base::Txg;

use super::UNBORN;
use super::bitmap::REGION_SECTORS;

/// All of them, in sectors of the vdev: behind the last run that was handed out.
pub(super) struct Cursors {
    groups: AtomicU64,
    unborn: AtomicU64,
    copies: AtomicU64,
}

/// Where one of them stands.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cursor {
    pub(super) region: usize,
    pub(super) sector: u32,
}

impl Default for Cursors {
    fn default() -> Self {
        let [groups, copies] = [0, u64::MAX].map(AtomicU64::new);
        Self { groups, unborn: AtomicU64::new(u64::from(REGION_SECTORS)), copies }
    }
}

impl Cursor {
    pub(super) const START: Self = Self { region: 0, sector: 0 };

    fn at(sector: u64) -> Self {
        let region = usize::try_from(sector / u64::from(REGION_SECTORS)).unwrap_or(0);
        Self { region, sector: (sector % u64::from(REGION_SECTORS)) as u32 }
    }
}

impl Cursors {
    /// From where a run for `txg` is looked for; and where the others are, who are spared as long as there is room
    /// elsewhere.
    pub(super) fn of(&self, txg: Txg) -> (Cursor, Option<Cursor>) {
        let [own, other] = if txg == UNBORN { [&self.unborn, &self.groups] } else { [&self.groups, &self.unborn] };
        (Cursor::at(own.load(Ordering::Relaxed)), Some(Cursor::at(other.load(Ordering::Relaxed))))
    }

    pub(super) fn advance(&self, txg: Txg, to: u64) {
        let own = if txg == UNBORN { &self.unborn } else { &self.groups };
        own.store(to, Ordering::Relaxed);
    }

    /// Behind the last run of second copies; beyond every vdev if there was none.
    pub(super) fn copies(&self) -> u64 {
        self.copies.load(Ordering::Relaxed)
    }

    pub(super) fn set_copies(&self, to: u64) {
        self.copies.store(to, Ordering::Relaxed);
    }

    /// What was handed out last is not needed.
    pub(super) fn take_back(&self, run: Range<u64>) {
        for cursor in [&self.groups, &self.unborn, &self.copies] {
            // Failure means that it is elsewhere, or that somebody moved it on, which is as good.
            let _ = cursor.compare_exchange(run.end, run.start, Ordering::Relaxed, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests;

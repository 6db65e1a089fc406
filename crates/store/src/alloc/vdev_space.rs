//! The free space of one top-level vdev: its regions, and where the next run is looked for.

use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use tally_base::{SECTOR, Txg};

use super::bitmap::REGION_SECTORS;
use super::region::{Region, Run};
use crate::bp::Dva;

/// Several threads may allocate at once; each region has its own lock, and none is held while another is taken.
pub(super) struct VdevSpace {
    index: u32,
    sectors: u64,
    excluded: u64,
    pub(super) regions: Vec<Mutex<Region>>,
    /// The sector behind the last run that was handed out. A hint: it keeps runs in order, nothing rests on it.
    cursor: AtomicU64,
    /// Free sectors: the sum over the regions.
    free: AtomicU64,
}

impl VdevSpace {
    pub(super) fn new(index: u32, data_bytes: u64) -> Self {
        let sectors = data_bytes / SECTOR as u64;
        let region = u64::from(REGION_SECTORS);
        let regions = (0..sectors.div_ceil(region))
            .map(|at| Mutex::new(Region::new((sectors - at * region).min(region) as u32)))
            .collect();
        Self { index, sectors, excluded: 0, regions, cursor: AtomicU64::new(0), free: AtomicU64::new(sectors) }
    }

    /// A vdev of which only the size is known: nothing of it is free, and no region can be asked.
    pub(super) fn without_maps(index: u32, data_bytes: u64) -> Self {
        let (sectors, free) = (data_bytes / SECTOR as u64, AtomicU64::new(0));
        Self { index, sectors, excluded: 0, regions: Vec::new(), cursor: AtomicU64::new(0), free }
    }

    pub(super) fn sectors(&self) -> u64 {
        self.sectors
    }

    pub(super) fn excluded(&self) -> u64 {
        self.excluded
    }

    pub(super) fn set_excluded(&mut self, sectors: u64) {
        self.excluded = sectors;
    }

    pub(super) fn free(&self) -> u64 {
        self.free.load(Ordering::Relaxed)
    }

    /// Counts the free sectors anew, after the regions were restored.
    pub(super) fn recount(&mut self) {
        let free = self.regions.iter_mut().map(|region| u64::from(region.get_mut().free())).sum();
        self.free = AtomicU64::new(free);
    }

    /// A run of `want` sectors in one piece near the cursor; where there is none, one that is shorter, but not
    /// shorter than `at_least`.
    pub(super) fn take(&self, txg: Txg, want: u32, at_least: u32) -> Option<Dva> {
        let want = want.min(REGION_SECTORS);
        let mut length = want.max(at_least);
        loop {
            if let Some(dva) = self.take_exact(txg, length, want.max(at_least)) {
                return Some(dva);
            }
            if length == at_least {
                return None;
            }
            length = (length / 2).max(at_least);
        }
    }

    fn take_exact(&self, txg: Txg, length: u32, most: u32) -> Option<Dva> {
        // Going round keeps writes in order; where space is scarce, filling up from the front fragments it less.
        let is_scarce = self.free() < self.sectors / 4;
        let cursor = if is_scarce { 0 } else { self.cursor.load(Ordering::Relaxed) };
        let count = self.regions.len();
        let first = usize::try_from(cursor / u64::from(REGION_SECTORS)).unwrap_or(0) % count.max(1);
        // The cursor's region comes twice: from the cursor on, and at last from its start.
        for step in 0..=count {
            let at = (first + step) % count.max(1);
            let from = if step == 0 { (cursor % u64::from(REGION_SECTORS)) as u32 } else { 0 };
            let run = self.regions.get(at)?.lock().take(txg, from, length, most);
            if let Some(run) = run {
                self.free.fetch_sub(u64::from(run.1), Ordering::Relaxed);
                let dva = self.dva(at, run);
                self.cursor.store(dva.end() / SECTOR as u64, Ordering::Relaxed);
                return Some(dva);
            }
        }
        None
    }

    fn dva(&self, region: usize, run: Run) -> Dva {
        let sector = region as u64 * u64::from(REGION_SECTORS) + u64::from(run.0);
        Dva { vdev: self.index, offset: sector * SECTOR as u64, sectors: run.1 }
    }

    /// Whether the range lies on the vdev, whole sectors and not empty.
    pub(super) fn contains(&self, dva: &Dva) -> bool {
        dva.sectors > 0
            && dva.offset.is_multiple_of(SECTOR as u64)
            && dva.offset.checked_add(dva.bytes()).is_some_and(|end| end / SECTOR as u64 <= self.sectors)
    }

    /// Calls `act` for the part of the range in each region; the range lies on the vdev. Runs that were handed
    /// out lie in one region, but coalesced ranges may span several.
    fn each(&self, dva: &Dva, mut act: impl FnMut(&mut Region, Run) -> bool) -> bool {
        let mut at = dva.offset / SECTOR as u64;
        let end = at + u64::from(dva.sectors);
        let mut all = true;
        while at < end {
            let region = usize::try_from(at / u64::from(REGION_SECTORS)).unwrap_or(usize::MAX);
            let start = (at % u64::from(REGION_SECTORS)) as u32;
            let length = u64::from(REGION_SECTORS - start).min(end - at) as u32;
            all &= self.regions.get(region).is_some_and(|region| act(&mut region.lock(), (start, length)));
            at += u64::from(length);
        }
        all
    }

    /// Whether all of the range is busy, or free.
    pub(super) fn all(&self, dva: &Dva, busy: bool) -> bool {
        self.each(dva, |region, run| region.all(run, busy))
    }

    pub(super) fn exclude(&mut self, dva: &Dva) {
        self.each(dva, |region, run| {
            region.exclude(run);
            true
        });
        self.excluded += u64::from(dva.sectors);
        self.free.fetch_sub(u64::from(dva.sectors), Ordering::Relaxed);
    }

    /// Makes the range busy in memory only; false, and nothing changed, if any of it is not free.
    pub(super) fn claim(&self, dva: &Dva) -> bool {
        let free = self.all(dva, false) && self.each(dva, Region::claim);
        if free {
            self.free.fetch_sub(u64::from(dva.sectors), Ordering::Relaxed);
        }
        free
    }

    pub(super) fn adopt(&self, dva: &Dva, txg: Txg) {
        self.each(dva, |region, run| {
            region.adopt(run, txg);
            true
        });
    }

    /// See [`Region::settle`].
    pub(super) fn settle(&self, dva: &Dva, txg: Txg) -> bool {
        self.each(dva, |region, run| region.settle(run, txg))
    }

    pub(super) fn unclaim(&self, dva: &Dva) {
        self.each(dva, |region, run| {
            region.unclaim(run);
            true
        });
        self.free.fetch_add(u64::from(dva.sectors), Ordering::Relaxed);
    }

    pub(super) fn give(&self, dva: &Dva, txg: Txg) -> bool {
        self.each(dva, |region, run| {
            let given = region.give(run, txg);
            if given {
                self.free.fetch_add(u64::from(run.1), Ordering::Relaxed);
            }
            given
        })
    }

    /// See [`Region::abandon`]. A run that ends at the cursor takes the cursor back with it, so that what a
    /// writer did not need is where the next one begins.
    pub(super) fn abandon(&self, dva: &Dva) -> bool {
        let (start, end) = (dva.offset / SECTOR as u64, dva.end() / SECTOR as u64);
        let abandoned = self.each(dva, |region, run| {
            let abandoned = region.abandon(run);
            if abandoned {
                self.free.fetch_add(u64::from(run.1), Ordering::Relaxed);
            }
            abandoned
        });
        if abandoned {
            // Failure means that somebody moved the cursor on, which is as good.
            let _ = self.cursor.compare_exchange(end, start, Ordering::Relaxed, Ordering::Relaxed);
        }
        abandoned
    }

    /// The regions whose space map `txg` must write.
    pub(super) fn touched(&self, txg: Txg) -> Vec<usize> {
        (0..self.regions.len()).filter(|at| self.regions[*at].lock().is_touched(txg)).collect()
    }
}

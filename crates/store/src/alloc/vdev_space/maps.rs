//! The maps of a vdev's regions: read from disk where somebody needs them, fenced off or refused where they cannot be had, and let
//! go again. What is ripe for a region is applied as its map comes.

use std::ops::Range;
use std::sync::atomic::Ordering;

use parking_lot::Mutex;
use tally_base::SECTOR;

use super::VdevSpace;
use crate::alloc::bitmap::{Bitmap, REGION_SECTORS};
use crate::alloc::load::SectorError;
use crate::alloc::region::{Region, Run};
use crate::alloc::space_line::SpaceLine;
use crate::bp::Dva;

/// Maps that devices may refuse between two groups. Then no further ones of the vdev are read: each may take half a minute.
const REFUSALS_MAX: usize = 8;

const REGION_BYTES: u64 = REGION_SECTORS as u64 * SECTOR as u64;

impl VdevSpace {
    /// Sees to it that what is in use of a region is known. False if it cannot be.
    pub(super) fn load(&self, at: usize, region: &mut Region) -> bool {
        if region.needs_map() && self.may_ask() {
            self.load_from_disk(at, region);
        }
        !region.needs_map() && !region.is_fenced()
    }

    /// Whether maps are read: a device that has refused many is let alone until the next group.
    pub(in crate::alloc) fn may_ask(&self) -> bool {
        self.refusals.load(Ordering::Relaxed) < REFUSALS_MAX
    }

    /// A group is durable, or a map could be read: others are read again.
    pub(in crate::alloc) fn forget_refusals(&self) {
        self.refusals.store(0, Ordering::Relaxed);
    }

    /// Reads a map once more that a device has refused. Whether it is in memory now.
    pub(in crate::alloc) fn ask_again(&self, at: usize) -> bool {
        self.change(at, |at, region| {
            if region.is_refused() {
                self.load_from_disk(at, region);
            }
            region.has_map()
        })
    }

    #[cold]
    fn load_from_disk(&self, at: usize, region: &mut Region) {
        let Some(line) = region.line() else { return };
        let (place, was_refused) = ((self.index, at), region.is_refused());
        let restored = self.read_map(at, &line, region.sectors()).map(|map| region.restore(map, line.figures));
        // Of a map that was refused before, nothing counts as free.
        let free = u64::from(line.figures.free);
        match restored {
            Ok(()) => {
                // The device gives again.
                self.forget_refusals();
                if was_refused {
                    self.free.fetch_add(free + self.maps.relent(place), Ordering::Relaxed);
                }
                self.apply_ripe(at, region);
            }
            Err(why) => {
                let is_refused = matches!(&why, SectorError::Block(error) if error.is_of_device());
                region.fence(is_refused);
                let waiting = if is_refused {
                    self.refusals.fetch_add(1, Ordering::Relaxed);
                    self.maps.refuse(place, &why, free)
                } else {
                    self.maps.fence(place, &why)
                };
                if !was_refused {
                    self.free.fetch_sub(free + waiting, Ordering::Relaxed);
                }
            }
        }
    }

    /// The map of a region, if it is what its line says, and has neither itself free nor a ring.
    fn read_map(&self, at: usize, line: &SpaceLine, sectors: u32) -> Result<Bitmap, SectorError> {
        let map = self.maps.read(line)?;
        let found = map.figures(sectors);
        if found != line.figures {
            return Err(SectorError::Figures { said: line.figures, found });
        }
        let has = |run: Run| run.0.saturating_add(run.1) <= sectors && map.all(run, true);
        let is_own = |dva: &Dva| dva.vdev == self.index && dva.offset / REGION_BYTES == at as u64;
        let in_region = |dva: &Dva| ((dva.offset % REGION_BYTES / SECTOR as u64) as u32, dva.sectors);
        // A map that gives itself away gives others away, too.
        if !line.places().filter(is_own).all(|dva| has(in_region(&dva))) {
            return Err(SectorError::OwnFree);
        }
        let of_ring = |ring: &&Dva| ring.vdev == self.index && self.contains(ring);
        let mut parts = self.maps.rings().iter().filter(of_ring).flat_map(|ring| self.parts(ring));
        let holds_rings = parts.all(|(region_of, run)| region_of != at || has(run));
        if holds_rings { Ok(map) } else { Err(SectorError::RingFree) }
    }

    /// What is in use of a region, ripe frees included. A map that is read for that is not kept. None where it cannot be known:
    /// whoever needs the map tells what is wrong.
    pub(super) fn busy(&self, at: usize, region: &Region) -> Option<Bitmap> {
        if !region.needs_map() {
            return region.busy();
        }
        self.read_map(at, &region.line()?, region.sectors()).ok()
    }

    /// Runs that are in use of a region, or may be, in bytes of the vdev ([`super::occupied`]).
    pub(in crate::alloc) fn occupied_in(&self, at: usize) -> Vec<Range<u64>> {
        let Some(region) = self.regions.get(at).map(Mutex::lock) else { return Vec::new() };
        let (sectors, busy) = (region.sectors(), self.busy(at, &region));
        drop(region);
        let mut runs = Vec::new();
        let mut next = 0;
        while let Some(run) = busy.as_ref().map_or_else(|| Some((0, sectors)), |busy| busy.busy_run(next, sectors))
            && next < sectors
        {
            let dva = self.dva(at, run);
            runs.push(dva.offset..dva.end());
            next = run.0 + run.1;
        }
        runs
    }

    /// What is ripe for a region whose map has just come into memory is free in it.
    fn apply_ripe(&self, at: usize, region: &mut Region) {
        let place = (self.index, at);
        if !self.maps.ripe.lock().waits_for(place) {
            return;
        }
        let txg = self.maps.applying();
        // It is listed before its frees are forgotten: a commit that does not know of these must know of that.
        region.expect_changes(txg);
        self.list(at, region);
        for run in self.maps.ripe.lock().take(place) {
            if !region.give(run, txg) {
                self.free.fetch_sub(u64::from(run.1), Ordering::Relaxed);
                self.maps.count_bad_frees(1);
                tracing::error!(dva = %self.dva(at, run), "a range that is not allocated was freed; it stays as it is");
            }
        }
    }

    /// The vdev was shorter, and ended in this region after so many sectors. Its map is as long.
    pub(in crate::alloc) fn grow_region(&self, at: usize, was_sectors: u32) {
        let region_sectors = u64::from(REGION_SECTORS);
        let sectors = (self.sectors - at as u64 * region_sectors).min(region_sectors) as u32;
        let before = self.change(at, |at, region| {
            let before = region.free();
            // A region without a map is free, and the rest of it as well.
            if region.line().is_some() {
                region.shrink_to(was_sectors);
                self.load(at, region);
                region.grow(sectors);
            }
            Some((before, region.free()))
        });
        if let Some((before, after)) = before.filter(|(before, after)| after > before) {
            self.free.fetch_add(u64::from(after - before), Ordering::Relaxed);
        }
    }

    /// Reads a region's map, and applies what waits for it.
    pub(in crate::alloc) fn load_region(&self, at: usize) -> bool {
        self.change(at, |at, region| self.load(at, region))
    }

    /// Lets a region's map go, if it is on disk as it is. Whether it is gone.
    pub(in crate::alloc) fn unload_region(&self, at: usize) -> bool {
        self.regions.get(at).is_none_or(|region| region.lock().unload())
    }
}

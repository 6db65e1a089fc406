//! Where the next run of a vdev is looked for: near a cursor, by the tree of longest runs, and for second copies far from the first.

use std::ops::Range;
use std::sync::atomic::Ordering;

use tally_base::{SECTOR, Txg};

use super::VdevSpace;
use crate::alloc::bitmap::REGION_SECTORS;
use crate::alloc::cursors::Cursor;
use crate::alloc::longest::Sectors;
use crate::bp::Dva;

impl VdevSpace {
    /// A run of `want` sectors in one piece near the cursor; where there is none, one that is shorter, but not
    /// shorter than `at_least`.
    pub(in crate::alloc) fn take(&self, txg: Txg, want: u32, at_least: u32) -> Option<Dva> {
        let most = want.min(REGION_SECTORS).max(at_least);
        let mut length = most;
        loop {
            if let Some(dva) = self.take_exact(txg, length, most) {
                return Some(dva);
            }
            if length == at_least {
                return None;
            }
            length = (length / 2).max(at_least);
        }
    }

    fn take_exact(&self, txg: Txg, length: u32, most: u32) -> Option<Dva> {
        let want = Sectors::try_from(length).ok()?;
        if self.longest.lock().longest() < want {
            return None;
        }
        // Going round keeps writes in order; where space is scarce, filling up from the front fragments it less.
        let is_scarce = self.free() < self.sectors / 4;
        let (own, spared) = if is_scarce { (Cursor::START, None) } else { self.cursors.of(txg) };
        let take_at = |at: Cursor| self.take_from(txg, at.region, at.sector, length, most);
        let beside = spared.map(|spared| spared.region);
        // From the next region to the end, and then from the front on: at last the cursor's region from its start.
        Some(own)
            .filter(|own| Some(own.region) != beside)
            .and_then(take_at)
            .or_else(|| self.take_between(txg, own.region + 1..self.regions.len(), beside, want, most))
            .or_else(|| self.take_between(txg, 0..own.region + 1, beside, want, most))
            // There is none but where the others are.
            .or_else(|| take_at(spared?))
            .or_else(|| take_at(Cursor { sector: 0, ..spared? }))
    }

    /// A run in one of these regions but the spared one: the first that has it. Each that may have one and has not is looked
    /// at, and says so from then on.
    fn take_between(
        &self,
        txg: Txg,
        regions: Range<usize>,
        spared: Option<usize>,
        want: Sectors,
        most: u32,
    ) -> Option<Dva> {
        let mut from = regions.start;
        loop {
            let at = self.longest.lock().next(from, want).filter(|at| *at < regions.end)?;
            if spared != Some(at)
                && let Some(dva) = self.take_from(txg, at, 0, u32::from(want), most)
            {
                return Some(dva);
            }
            from = at + 1;
        }
    }

    fn take_from(&self, txg: Txg, region: usize, from: u32, length: u32, most: u32) -> Option<Dva> {
        let dva = self.take_in(txg, region, from..REGION_SECTORS, length, most)?;
        self.cursors.advance(txg, dva.end() / SECTOR as u64);
        Some(dva)
    }

    /// A run in these sectors of a region.
    fn take_in(&self, txg: Txg, region: usize, sectors: Range<u32>, length: u32, most: u32) -> Option<Dva> {
        self.examined.fetch_add(1, Ordering::Relaxed);
        let run = self.change(region, |number, region| {
            // Its line tells as much without its map.
            if !region.may_have(length) || !self.load(number, region) {
                return None;
            }
            region.take(txg, sectors, length, most)
        })?;
        self.free.fetch_sub(u64::from(run.1), Ordering::Relaxed);
        Some(self.dva(region, run))
    }

    /// A run of `want` sectors, or a shorter one of `at_least`, for second copies: an eighth of the vdev away from what they
    /// are copies of, if that lies here. It is looked for behind the last one, or else half a vdev away.
    pub(in crate::alloc) fn take_for_copies(
        &self,
        txg: Txg,
        near: Option<&Dva>,
        want: u32,
        at_least: u32,
    ) -> Option<Dva> {
        let want = want.min(REGION_SECTORS).max(at_least);
        let gap = self.apart_sectors();
        let (start, end) = near.map_or((0, 0), |near| (near.offset / SECTOR as u64, near.end() / SECTOR as u64));
        let allowed = match near {
            Some(_) => [0..start.saturating_sub(gap), end.saturating_add(gap)..self.sectors],
            None => [0..0, 0..self.sectors],
        };
        let last = Some(self.cursors.copies()).filter(|at| allowed.iter().any(|range| range.contains(at)));
        let from = last.unwrap_or_else(|| (start + self.sectors / 2) % self.sectors.max(1));
        let behind = allowed.clone().map(|range| range.start.max(from)..range.end);
        let take = |length| behind.iter().chain(&allowed).find_map(|range| self.take_within(txg, range, length, want));
        take(want).or_else(|| take(at_least))
    }

    /// How far apart the two copies of a block lie on one vdev, at least.
    pub(in crate::alloc) fn apart_sectors(&self) -> u64 {
        self.sectors / 8
    }

    /// A run in these sectors of the vdev, for a copy.
    fn take_within(&self, txg: Txg, range: &Range<u64>, length: u32, most: u32) -> Option<Dva> {
        let want = Sectors::try_from(length).ok()?;
        let region_sectors = u64::from(REGION_SECTORS);
        let mut from = range.start;
        while from < range.end {
            let next = self.longest.lock().next(usize::try_from(from / region_sectors).ok()?, want)?;
            let first = next as u64 * region_sectors;
            if first >= range.end {
                return None;
            }
            let within = (from.max(first) - first) as u32..(range.end - first).min(region_sectors) as u32;
            if let Some(dva) = self.take_in(txg, next, within, length, most) {
                self.cursors.set_copies(dva.end() / SECTOR as u64);
                return Some(dva);
            }
            from = first + region_sectors;
        }
        None
    }
}

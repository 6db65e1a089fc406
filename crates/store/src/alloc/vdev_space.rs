//! The free space of one top-level vdev: its regions, and where the next run is looked for.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use tally_base::{SECTOR, Txg, VdevIndex};

use super::bitmap::REGION_SECTORS;
use super::cursors::{Cursor, Cursors};
use super::longest::{LongestRuns, Sectors};
use super::region::{Region, Run};
use crate::bp::Dva;

/// Several threads may allocate at once; each region has its own lock, and none is held while another is taken.
pub(super) struct VdevSpace {
    index: VdevIndex,
    sectors: u64,
    excluded: u64,
    pub(super) regions: Vec<Mutex<Region>>,
    cursors: Cursors,
    /// Where long runs may be; behind the region's lock.
    longest: Mutex<LongestRuns>,
    /// Free sectors: the sum over the regions.
    free: AtomicU64,
    /// Regions that were looked at for runs.
    examined: AtomicU64,
}

impl VdevSpace {
    pub(super) fn new(index: VdevIndex, data_bytes: u64) -> Self {
        let sectors = data_bytes / SECTOR as u64;
        let region = u64::from(REGION_SECTORS);
        let regions = (0..sectors.div_ceil(region))
            .map(|at| Mutex::new(Region::new((sectors - at * region).min(region) as u32)))
            .collect();
        let mut vdev = Self { regions, ..Self::without_maps(index, data_bytes) };
        vdev.recount();
        vdev
    }

    /// A vdev of which only the size is known: nothing of it is free, and no region can be asked.
    pub(super) fn without_maps(index: VdevIndex, data_bytes: u64) -> Self {
        Self {
            index,
            sectors: data_bytes / SECTOR as u64,
            excluded: 0,
            regions: Vec::new(),
            cursors: Cursors::default(),
            longest: Mutex::new(LongestRuns::new(std::iter::empty())),
            free: AtomicU64::new(0),
            examined: AtomicU64::new(0),
        }
    }

    pub(super) fn index(&self) -> VdevIndex {
        self.index
    }

    pub(super) fn sectors(&self) -> u64 {
        self.sectors
    }

    pub(super) fn excluded(&self) -> u64 {
        self.excluded
    }

    #[cfg(test)]
    pub(super) fn examined(&self) -> u64 {
        self.examined.load(Ordering::Relaxed)
    }

    pub(super) fn set_excluded(&mut self, sectors: u64) {
        self.excluded = sectors;
    }

    pub(super) fn free(&self) -> u64 {
        self.free.load(Ordering::Relaxed)
    }

    /// Counts the free sectors and the longest runs anew, after the regions were restored.
    pub(super) fn recount(&mut self) {
        let longest = self.regions.iter_mut().map(|region| region.get_mut().longest_at_most());
        self.longest = Mutex::new(LongestRuns::new(longest));
        let free = self.regions.iter_mut().map(|region| u64::from(region.get_mut().free())).sum();
        self.free = AtomicU64::new(free);
    }

    /// A run of `want` sectors in one piece near the cursor; where there is none, one that is shorter, but not
    /// shorter than `at_least`.
    pub(super) fn take(&self, txg: Txg, want: u32, at_least: u32) -> Option<Dva> {
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
        let run = self.change(region, |region| region.take(txg, sectors, length, most))?;
        self.free.fetch_sub(u64::from(run.1), Ordering::Relaxed);
        Some(self.dva(region, run))
    }

    /// A run of `want` sectors, or a shorter one of `at_least`, for second copies: an eighth of the vdev away from what they
    /// are copies of, if that lies here. It is looked for behind the last one, or else half a vdev away.
    pub(super) fn take_for_copies(&self, txg: Txg, near: Option<&Dva>, want: u32, at_least: u32) -> Option<Dva> {
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
    pub(super) fn apart_sectors(&self) -> u64 {
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

    /// Changes a region, and keeps what is known of its longest run.
    fn change<R: Default>(&self, at: usize, act: impl FnOnce(&mut Region) -> R) -> R {
        let Some(region) = self.regions.get(at) else { return R::default() };
        let mut region = region.lock();
        let before = region.longest_at_most();
        let result = act(&mut region);
        let after = region.longest_at_most();
        if before != after {
            self.longest.lock().set(at, after);
        }
        result
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
            all &= self.change(region, |region| act(region, (start, length)));
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

    /// See [`Region::unborn`], in sectors of the vdev.
    pub(super) fn unborn(&self) -> Vec<Range<u64>> {
        let of_region = |(at, region): (usize, &Mutex<Region>)| {
            let start = at as u64 * u64::from(REGION_SECTORS);
            let range = |run: &Run| start + u64::from(run.0)..start + u64::from(run.0) + u64::from(run.1);
            region.lock().unborn().iter().map(range).collect::<Vec<_>>()
        };
        self.regions.iter().enumerate().flat_map(of_region).collect()
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

    /// See [`Region::abandon`]. A run that ends at a cursor takes that cursor back with it, so that what a
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
            self.cursors.take_back(start..end);
        }
        abandoned
    }

    /// The regions whose space map `txg` must write.
    pub(super) fn touched(&self, txg: Txg) -> Vec<usize> {
        (0..self.regions.len()).filter(|at| self.regions[*at].lock().is_touched(txg)).collect()
    }
}

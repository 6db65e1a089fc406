//! The free space of one top-level vdev: its regions, and where the next run is looked for.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use parking_lot::Mutex;
use tally_base::{SECTOR, Txg, VdevIndex};

use super::bitmap::{Bitmap, REGION_SECTORS};
use super::cursors::{Cursor, Cursors};
use super::load::SectorError;
use super::longest::{LongestRuns, Sectors};
use super::maps::Maps;
use super::region::{Region, Run};
use super::space_index::FANOUT;
use super::space_line::SpaceLine;
use crate::bp::Dva;

/// Maps that devices may refuse between two groups. Then no further ones of the vdev are read: each may take half a minute.
const REFUSALS_MAX: usize = 8;

/// Several threads may allocate at once; each region has its own lock, and none is held while another is taken.
pub(super) struct VdevSpace {
    index: VdevIndex,
    sectors: u64,
    excluded: u64,
    pub(super) regions: Vec<Mutex<Region>>,
    cursors: Cursors,
    /// Where long runs may be; behind the region's lock.
    longest: Mutex<LongestRuns>,
    /// Regions that may have changed since their map was written; behind the region's lock.
    dirty: Mutex<BTreeSet<usize>>,
    maps: Arc<Maps>,
    /// Maps that a device has refused since the last group.
    refusals: AtomicUsize,
    /// Free sectors: the sum over the regions, and what is ripe.
    free: AtomicU64,
    /// Regions that were looked at for runs.
    examined: AtomicU64,
}

impl VdevSpace {
    pub(super) fn new(index: VdevIndex, data_bytes: u64, maps: &Arc<Maps>) -> Self {
        let sectors = data_bytes / SECTOR as u64;
        let region = u64::from(REGION_SECTORS);
        let regions = (0..sectors.div_ceil(region))
            .map(|at| Mutex::new(Region::new((sectors - at * region).min(region) as u32)))
            .collect();
        let mut vdev = Self { regions, ..Self::without_maps(index, data_bytes, maps) };
        vdev.recount();
        vdev
    }

    /// A vdev of which only the size is known: nothing of it is free, and no region can be asked.
    pub(super) fn without_maps(index: VdevIndex, data_bytes: u64, maps: &Arc<Maps>) -> Self {
        Self {
            index,
            sectors: data_bytes / SECTOR as u64,
            excluded: 0,
            regions: Vec::new(),
            cursors: Cursors::default(),
            longest: Mutex::new(LongestRuns::new(std::iter::empty())),
            dirty: Mutex::default(),
            maps: Arc::clone(maps),
            refusals: AtomicUsize::new(0),
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

    /// Changes a region, and keeps what is known of its longest run, and of who may have changed.
    fn change<R: Default>(&self, at: usize, act: impl FnOnce(usize, &mut Region) -> R) -> R {
        let Some(region) = self.regions.get(at) else { return R::default() };
        let mut region = region.lock();
        let (before, had_map) = (region.longest_at_most(), region.has_map());
        let result = act(at, &mut region);
        let after = region.longest_at_most();
        if before != after {
            self.longest.lock().set(at, after);
        }
        if !had_map && region.has_map() {
            self.maps.note_loaded((self.index, at));
        }
        self.list(at, &mut region);
        result
    }

    fn list(&self, at: usize, region: &mut Region) {
        if region.note_listed() {
            self.dirty.lock().insert(at);
        }
    }

    /// Sees to it that what is in use of a region is known. False if it cannot be.
    fn load(&self, at: usize, region: &mut Region) -> bool {
        if region.needs_map() && self.may_ask() {
            self.load_from_disk(at, region);
        }
        !region.needs_map() && !region.is_fenced()
    }

    /// Whether maps are read: a device that has refused many is let alone until the next group.
    pub(super) fn may_ask(&self) -> bool {
        self.refusals.load(Ordering::Relaxed) < REFUSALS_MAX
    }

    /// A group is durable, or a map could be read: others are read again.
    pub(super) fn forget_refusals(&self) {
        self.refusals.store(0, Ordering::Relaxed);
    }

    /// Reads a map once more that a device has refused. Whether it is in memory now.
    pub(super) fn ask_again(&self, at: usize) -> bool {
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
    fn busy(&self, at: usize, region: &Region) -> Option<Bitmap> {
        if !region.needs_map() {
            return region.busy();
        }
        self.read_map(at, &region.line()?, region.sectors()).ok()
    }

    /// Runs that are in use of a region, or may be, in bytes of the vdev ([`super::occupied`]).
    pub(super) fn occupied_in(&self, at: usize) -> Vec<Range<u64>> {
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
    pub(super) fn grow_region(&self, at: usize, was_sectors: u32) {
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
    pub(super) fn load_region(&self, at: usize) -> bool {
        self.change(at, |at, region| self.load(at, region))
    }

    /// Lets a region's map go, if it is on disk as it is. Whether it is gone.
    pub(super) fn unload_region(&self, at: usize) -> bool {
        self.regions.get(at).is_none_or(|region| region.lock().unload())
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

    /// Calls `act` for the part of the range in each region, and its number; the range lies on the vdev. Runs that were handed
    /// out lie in one region, but coalesced ranges may span several.
    fn each(&self, dva: &Dva, mut act: impl FnMut(usize, &mut Region, Run) -> bool) -> bool {
        let mut all = true;
        for (region, run) in self.parts(dva) {
            all &= self.change(region, |at, region| act(at, region, run));
        }
        all
    }

    /// The part of a range in each region.
    pub(super) fn parts(&self, dva: &Dva) -> impl Iterator<Item = (usize, Run)> + use<> {
        let mut at = dva.offset / SECTOR as u64;
        let end = at + u64::from(dva.sectors);
        std::iter::from_fn(move || {
            let region = usize::try_from(at / u64::from(REGION_SECTORS)).unwrap_or(usize::MAX);
            let start = (at % u64::from(REGION_SECTORS)) as u32;
            let length = u64::from(REGION_SECTORS - start).min(end - at) as u32;
            at += u64::from(length);
            (length > 0).then_some((region, (start, length)))
        })
    }

    /// Whether all of the range is busy, or free. Reads the map.
    pub(super) fn all(&self, dva: &Dva, busy: bool) -> bool {
        self.each(dva, |at, region, run| {
            self.load(at, region);
            region.all(run, busy)
        })
    }

    /// Whether all of the range is busy, as far as is known without reading a map.
    pub(super) fn may_be_busy(&self, dva: &Dva) -> bool {
        self.each(dva, |_, region, run| region.all(run, true))
    }

    pub(super) fn exclude(&mut self, dva: &Dva) {
        self.each(dva, |_, region, run| {
            region.exclude(run);
            true
        });
        self.excluded += u64::from(dva.sectors);
        self.free.fetch_sub(u64::from(dva.sectors), Ordering::Relaxed);
    }

    /// See [`Region::unborn`], in sectors of the vdev.
    pub(super) fn unborn(&self) -> Vec<Range<u64>> {
        let of_region = |at: usize| {
            let start = at as u64 * u64::from(REGION_SECTORS);
            let range = |run: &Run| start + u64::from(run.0)..start + u64::from(run.0) + u64::from(run.1);
            self.regions[at].lock().unborn().iter().map(range).collect::<Vec<_>>()
        };
        self.listed().into_iter().flat_map(of_region).collect()
    }

    /// See [`Region::settle`].
    pub(super) fn settle(&self, dva: &Dva, txg: Txg) -> bool {
        self.each(dva, |_, region, run| region.settle(run, txg))
    }

    /// Frees what was committed, in the map of `txg`. False if any of it was not allocated.
    pub(super) fn give(&self, dva: &Dva, txg: Txg) -> bool {
        self.each(dva, |at, region, run| self.load(at, region) && self.give_in(region, run, txg))
    }

    fn give_in(&self, region: &mut Region, run: Run, txg: Txg) -> bool {
        let given = region.give(run, txg);
        if given {
            self.free.fetch_add(u64::from(run.1), Ordering::Relaxed);
        }
        given
    }

    /// What `freed` has freed may be used: in the maps that are in memory, at once; in others when they are read. False if
    /// any of it was not allocated.
    pub(super) fn ripen(&self, dva: &Dva, freed: Txg) -> bool {
        self.each(dva, |at, region, run| {
            if region.needs_map() || region.is_fenced() {
                self.wait_ripe(at, region, run, freed);
                return true;
            }
            self.give_in(region, run, self.maps.applying())
        })
    }

    /// The same of a list that an import finds ripe: what is in a map already is left out.
    pub(super) fn restore_ripe(&self, dva: &Dva, freed: Txg) -> bool {
        self.each(dva, |at, region, run| {
            if region.line().is_none_or(|line| line.applied >= freed) {
                return true;
            }
            if region.has_map() {
                return self.give_in(region, run, self.maps.applying());
            }
            self.wait_ripe(at, region, run, freed);
            true
        })
    }

    fn wait_ripe(&self, at: usize, region: &Region, run: Run, freed: Txg) {
        if !self.maps.ripe.lock().add((self.index, at), run, freed) {
            self.maps.count_bad_frees(1);
            tracing::error!(dva = %self.dva(at, run), "a range was freed in two groups");
        } else if !region.is_fenced() {
            self.free.fetch_add(u64::from(run.1), Ordering::Relaxed);
        }
    }

    /// See [`Region::begin_survey`]: of all regions whose maps can be had. Those that are not in memory are read and not kept.
    pub(super) fn begin_survey(&self) {
        for (at, region) in self.regions.iter().enumerate() {
            let mut region = region.lock();
            match self.busy(at, &region) {
                Some(busy) => region.begin_survey(busy),
                None => region.end_survey(),
            }
        }
    }

    /// See [`Region::end_survey`].
    pub(super) fn end_survey(&self) {
        self.regions.iter().for_each(|region| region.lock().end_survey());
    }

    /// See [`Region::meet`].
    pub(super) fn meet(&self, dva: &Dva) -> bool {
        let parts = self.parts(dva);
        parts.fold(true, |all, (at, run)| self.regions.get(at).is_none_or(|region| region.lock().meet(run)) && all)
    }

    /// Ranges that nothing has named, in order.
    pub(super) fn unmet(&self) -> impl Iterator<Item = Dva> + use<'_> {
        let of_region = move |(at, region): (usize, &Mutex<Region>)| {
            let runs: Vec<_> = region.lock().unmet().collect();
            runs.into_iter().map(move |run| self.dva(at, run))
        };
        self.regions.iter().enumerate().flat_map(of_region)
    }

    /// What of a range is free becomes an allocation of `txg`.
    pub(super) fn take_back(&self, dva: &Dva, txg: Txg) {
        self.each(dva, |at, region, run| {
            if self.load(at, region) {
                self.free.fetch_sub(u64::from(region.take_back(run, txg)), Ordering::Relaxed);
            }
            true
        });
    }

    /// See [`Region::abandon`]. A run that ends at a cursor takes that cursor back with it, so that what a
    /// writer did not need is where the next one begins.
    pub(super) fn abandon(&self, dva: &Dva) -> bool {
        let (start, end) = (dva.offset / SECTOR as u64, dva.end() / SECTOR as u64);
        let abandoned = self.each(dva, |_, region, run| {
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

    /// Whether a region's map, if it has one, is in memory, wherever the range lies.
    pub(super) fn is_in_memory(&self, dva: &Dva) -> bool {
        self.each(dva, |_, region, _| !region.needs_map() && !region.is_fenced())
    }

    /// The regions whose space map `txg` must write. Of a million regions a group looks at those that changed (rules S51).
    pub(super) fn touched(&self, txg: Txg) -> Vec<usize> {
        let mut listed = self.listed();
        listed.retain(|at| self.regions[*at].lock().is_touched(txg));
        listed
    }

    /// The regions that may have what is in no map yet.
    fn listed(&self) -> Vec<usize> {
        self.dirty.lock().iter().copied().collect()
    }

    /// A sector of the index: the lines of its regions.
    pub(super) fn encode_lines(&self, at: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(SECTOR);
        for region in self.regions.iter().skip(at * FANOUT).take(FANOUT) {
            bytes.extend_from_slice(region.lock().line_bytes());
        }
        bytes.resize(SECTOR, 0);
        bytes
    }

    /// Regions of which all is in the maps that were written need not be looked at again.
    pub(super) fn forget_clean(&self) {
        for at in self.listed() {
            let mut region = self.regions[at].lock();
            if region.note_unlisted() {
                self.dirty.lock().remove(&at);
            }
        }
    }
}

const REGION_BYTES: u64 = REGION_SECTORS as u64 * SECTOR as u64;

//! The free space of one top-level vdev: its regions, and what of them is taken and given. Where the next run is looked for stands
//! in `runs`, which maps are in memory in `maps`, and what a survey has of it in `survey`.

mod maps;
mod runs;
mod survey;

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use parking_lot::Mutex;
use tally_base::{SECTOR, Txg, VdevIndex};

use super::bitmap::REGION_SECTORS;
use super::cursors::Cursors;
use super::longest::LongestRuns;
use super::maps::Maps;
use super::region::{Region, Run};
use super::space_index::FANOUT;
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

//! The allocator: which sectors of the pool are in use.
//!
//! **The problem.** A copy-on-write pool allocates and frees all the time, from several threads and for several
//! txgs at once (the fold of the syncing one, early writes of the open one), and what it persists must be exactly
//! the state at the border of one txg, although persisting it allocates and frees as well. After a crash nothing
//! may be leaked, and nothing reused that an uberblock which can still be chosen names.
//!
//! **The idea.** Each vdev is cut into regions of 128 MiB, whose bitmap is one sector. An index has a line for each, which
//! says how much is free there ([`space_line`]); a bitmap is read when its region is needed ([`maps`]), and is what
//! allocations are made from. A txg's changes are noted beside the bitmap ([`region`]), and those that are not
//! committed are taken out of what a commit writes ([`commit`]): only touched regions are written. Freed blocks wait
//! on a list of their txg, persisted too, until no uberblock in the window names them ([`deferred`]), and from then on
//! until their region's bitmap is in memory ([`ripe`]).
//!
//! **Why not otherwise.** Extents in a B+tree above the allocator are what ZFS and redb regret: a knot. A log of
//! deltas for each region saves nothing while a delta and the whole bitmap both cost one sector; a common log for
//! all regions must be replayed and condensed, and saves sectors only where frees are scattered over thousands of
//! regions, where the blocks that replaced them cost far more.
//!
//! **Finding a run.** Above the regions of a vdev stands a tree of how long the longest run in each may be
//! ([`longest`]), so that a run costs a look at one or two regions on a full and aged pool of any size.
//!
//! **Whoever copies a vdev** is told what of it is in use, region by region ([`occupied`]).
//!
//! **What it costs.** In memory 92 bytes for each region, and 4 KiB for each of those in use, 8192 at most but for what
//! is not committed. On disk a sector for each touched region and for each index sector above it, in each txg.
//!
//! Lock order: `persisted`, then `deferred` or who asks for refused maps, then a region, then one of: its vdev's longest runs, its dirty
//! regions, those of [`maps`]. `pinned` is asked under none of them.

mod apart;
mod bitmap;
mod commit;
mod cursors;
mod deferred;
mod inspect;
mod load;
mod longest;
mod maps;
mod occupied;
mod place;
mod region;
mod ripe;
mod root;
mod space_index;
mod space_line;
mod survey;
mod unborn;
mod vdev_space;

use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use parking_lot::{Mutex, RwLock};
use tally_base::{SECTOR, Txg, VdevIndex};

pub use bitmap::Figures;
pub use commit::Committed;
pub use inspect::SpaceVisit;
pub use load::{LoadError, SectorError};
pub use root::AllocRoot;
pub use space_line::SpaceLine;
pub(crate) use survey::Survey;
pub use unborn::Unborn;

use deferred::Deferred;
use maps::Maps;
use space_index::SpaceIndex;
use tally_members::blockdev::BlockDevs;
use vdev_space::VdevSpace;

use crate::block::NoSpace;
use crate::bp::Dva;

/// The group of blocks that are written ahead of any group that will name them. No space map contains them until they
/// are settled ([`Allocator::settle`]), so that a crash leaks none; and they may be written while groups come and go.
pub const UNBORN: Txg = Txg(u64::MAX);

/// See the module's head.
pub struct Allocator {
    devs: BlockDevs,
    vdevs: Vec<VdevSpace>,
    /// Whose turn it is: each vdev's credit, see [`Self::turn`].
    credits: Mutex<Vec<i64>>,
    deferred: Mutex<Deferred>,
    persisted: Mutex<Persisted>,
    maps: Arc<Maps>,
    /// What is given to nobody any more ([`survey`]). Hardly ever anything.
    pinned: RwLock<Vec<Dva>>,
    /// Whether a scrub looks for what nothing names.
    is_surveyed: AtomicBool,
    /// Lists of frees that could not be read when it was loaded.
    lost_lists: u64,
}

/// Regions of which ripe frees are applied for somebody who can do with less.
const RIPE_TRIES: usize = 8;

/// What the newest commit wrote.
struct Persisted {
    txg: Txg,
    indexes: Vec<SpaceIndex>,
}

/// The pool's space in bytes. `total = allocated + deferred + free`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Space {
    /// All data vdevs, less what is excluded from allocation.
    pub total: u64,
    /// Bytes in use, the allocator's own sectors included.
    pub allocated: u64,
    /// Bytes that were freed, and are not reusable yet.
    pub deferred: u64,
    /// Bytes that can be given to anybody at once.
    pub free: u64,
}

impl Allocator {
    /// The allocator of a new pool. `excluded` ranges (vdev, offset, bytes) are never allocated; they are rounded
    /// outwards to whole sectors, must lie on their vdev and must not overlap.
    #[must_use]
    pub fn create(devs: &BlockDevs, excluded: &[(VdevIndex, u64, u64)]) -> Self {
        let maps = Arc::new(Maps::new(devs));
        let mut vdevs: Vec<_> =
            devs.iter().map(|(index, dev)| VdevSpace::new(*index, dev.data_bytes(), &maps)).collect();
        for (vdev, offset, bytes) in excluded {
            let sector = SECTOR as u64;
            let start = offset / sector * sector;
            let sectors = u32::try_from((offset + bytes - start).div_ceil(sector)).expect("below 16 TiB");
            let dva = Dva { vdev: *vdev, offset: start, sectors };
            let vdev = vdevs.iter_mut().find(|space| space.index() == *vdev && space.contains(&dva));
            vdev.unwrap_or_else(|| panic!("the excluded range {dva} lies outside its vdev")).exclude(&dva);
        }
        let indexes = vdevs.iter().map(|vdev| SpaceIndex::new(vdev.regions.len())).collect();
        Self::assemble(devs, maps, vdevs, Persisted { txg: Txg(0), indexes })
    }

    fn assemble(devs: &BlockDevs, maps: Arc<Maps>, vdevs: Vec<VdevSpace>, persisted: Persisted) -> Self {
        Self {
            devs: devs.clone(),
            credits: Mutex::new(vec![0; vdevs.len()]),
            vdevs,
            deferred: Mutex::default(),
            persisted: Mutex::new(persisted),
            maps,
            pinned: RwLock::default(),
            is_surveyed: AtomicBool::new(false),
            lost_lists: 0,
        }
    }

    /// From now on as many bytes of space maps stay in memory, of those that are on disk as they are.
    pub fn keep_maps(&self, bytes: u64) {
        self.maps.keep(bytes);
    }

    /// `bytes` in one piece, for a block that `txg` writes.
    pub fn alloc(&self, txg: Txg, bytes: u64) -> Result<Dva, NoSpace> {
        self.alloc_run(txg, bytes, bytes)
    }

    /// A run of `want` bytes in one piece; where the pool is too fragmented, a shorter one of at least `at_least`.
    /// What the writer does not need goes back by [`Self::shrink`].
    pub fn alloc_run(&self, txg: Txg, want: u64, at_least: u64) -> Result<Dva, NoSpace> {
        self.alloc_run_within(usize::MAX, txg, want, at_least)
    }

    /// The same, but where there is none, what is ripe is applied in a few regions only: whoever asks takes less instead.
    pub(crate) fn alloc_run_or_else(&self, txg: Txg, want: u64, at_least: u64) -> Result<Dva, NoSpace> {
        self.alloc_run_within(RIPE_TRIES, txg, want, at_least)
    }

    fn alloc_run_within(&self, tries: usize, txg: Txg, want: u64, at_least: u64) -> Result<Dva, NoSpace> {
        let (want, at_least) = (sectors_of_run(want), sectors_of_run(at_least));
        let first = self.turn();
        let in_turn = || {
            let order = (0..self.vdevs.len()).map(|step| (first + step) % self.vdevs.len());
            order.filter_map(|at| self.vdevs.get(at)).find_map(|vdev| vdev.take(txg, want, at_least))
        };
        let found = in_turn();
        let found = found.or_else(|| (0..tries).map_while(|_| self.apply_ripe()).find_map(|()| in_turn()));
        // Whoever can do with less does, before a device is asked again.
        let is_last_word = tries == usize::MAX;
        let found = found.or_else(|| if is_last_word && self.ask_before_failing() { in_turn() } else { None });
        found.ok_or_else(|| self.no_space(u64::from(at_least) * SECTOR as u64))
    }

    /// Why there are not so many bytes in one piece.
    fn no_space(&self, bytes: u64) -> NoSpace {
        let (fenced, refused) = (self.maps.fenced_count(), self.maps.refused_count());
        NoSpace { bytes, free: self.space().free, fenced, refused }
    }

    /// Reads the map of a region for which something is ripe. `None` if there is no such region that can be read.
    fn apply_ripe(&self) -> Option<()> {
        let may_ask = |index| self.vdev(index).is_some_and(VdevSpace::may_ask);
        let (index, region) = self.maps.ripe.lock().any_region(may_ask)?;
        self.vdev(index)?.load_region(region);
        Some(())
    }

    /// Asks once more for space maps that a device has refused, for a few of them: those that are due behind a group, or any.
    /// Whether one was had. The caller is the only one who asks.
    fn ask_again(&self, behind: Option<Txg>) -> bool {
        let asked = self.maps.to_ask(behind).into_iter();
        asked
            .map(|(index, region)| self.vdev(index).is_some_and(|vdev| vdev.ask_again(region)))
            .fold(false, |any, had| any | had)
    }

    /// The same for whoever has found no room. Whether he should look again: somebody else may have asked meanwhile.
    fn ask_before_failing(&self) -> bool {
        let before = self.maps.refused_count();
        if before == 0 {
            return false;
        }
        let _asking = self.maps.asking.lock();
        self.ask_again(None) || self.maps.refused_count() < before
    }

    /// A group is durable: space maps that a device has refused are asked for again, if it is time for that.
    pub fn ask_behind(&self, durable: Txg) {
        self.vdevs.iter().for_each(VdevSpace::forget_refusals);
        if let Some(_asking) = self.maps.asking.try_lock() {
            self.ask_again(Some(durable));
        }
    }

    /// Before somebody is told that there is no room: where there would be some if a device gave the space maps that it has
    /// refused, it is asked once more. Whether it gave one; `None` if it has refused none.
    pub fn ask_for_room(&self) -> Option<bool> {
        // Who asks already may wait for that device for long.
        (self.maps.withheld() > 0).then(|| self.maps.asking.try_lock().is_some_and(|_asking| self.ask_again(None)))
    }

    /// The vdev whose turn it is: each gains credit by its free space, and the richest pays for the run, so that
    /// vdevs of different sizes fill up together, without bursts on one of them.
    fn turn(&self) -> usize {
        if self.vdevs.len() == 1 {
            return 0;
        }
        let mut credits = self.credits.lock();
        let mut total = 0;
        for (credit, vdev) in credits.iter_mut().zip(&self.vdevs) {
            let free = i64::try_from(vdev.free()).unwrap_or(i64::MAX >> 16);
            *credit = credit.saturating_add(free);
            total += free;
        }
        let richest = (0..credits.len()).max_by_key(|at| credits[*at]).unwrap_or(0);
        if let Some(credit) = credits.get_mut(richest) {
            *credit = credit.saturating_sub(total);
        }
        richest
    }

    /// Gives back all but the first `used` bytes of a run that no txg has committed yet.
    pub fn shrink(&self, run: Dva, used: u64) {
        let used = used.div_ceil(SECTOR as u64).min(u64::from(run.sectors));
        let rest = Dva { offset: run.offset + used * SECTOR as u64, sectors: run.sectors - used as u32, ..run };
        if rest.sectors > 0 {
            self.abandon(rest);
        }
    }

    /// Frees a block of a committed txg. It is reusable once the uberblock after `txg`'s is durable, see
    /// [`Self::released`]. A block that a log record names is freed in this way too, even if no txg has committed it.
    pub fn free(&self, dva: Dva, txg: Txg) {
        if self.is_pinned(&dva) {
            return;
        }
        // Half of a bad range may be somebody else's: it is leaked rather than freed.
        if self.vdev_of(&dva).is_some_and(|vdev| vdev.may_be_busy(&dva)) {
            self.deferred.lock().add(txg, dva);
        } else {
            self.count_bad_free(&dva);
        }
    }

    /// Gives a block back at once: one that no durable structure names.
    pub fn abandon(&self, dva: Dva) {
        let Some(vdev) = self.vdev_of(&dva) else { return self.count_bad_free(&dva) };
        if self.is_pinned(&dva) {
            return;
        }
        if !vdev.abandon(&dva) {
            // Committed, and yet named by nothing: the next space map has it free, or a list if that is not at hand.
            let persisted = self.persisted.lock();
            let txg = persisted.txg.next();
            if !vdev.is_in_memory(&dva) {
                self.deferred.lock().add(txg, dva);
            } else if !vdev.give(&dva, txg) {
                self.count_bad_free(&dva);
            }
        }
    }

    /// A block that was allocated under [`UNBORN`] becomes an allocation of the group that names it now. False if it was
    /// not.
    pub fn settle(&self, dva: Dva, txg: Txg) -> bool {
        self.vdev_of(&dva).is_some_and(|vdev| vdev.settle(&dva, txg))
    }

    /// The uberblock of `durable` is on disk: what txgs before it freed may be used again.
    pub fn released(&self, durable: Txg) {
        self.released_before(durable, durable);
    }

    /// The same where some of that is still needed: only what groups before `reusable` freed may be used again.
    pub fn released_before(&self, durable: Txg, reusable: Txg) {
        let newest = self.persisted.lock().txg;
        assert!(durable <= newest, "group {durable} cannot be durable: {newest} was the last to be written (F8)");
        if durable == newest {
            // Before the frees come: they can as well wait for a map.
            self.maps.trim(|(index, region)| self.vdev(index).is_none_or(|vdev| vdev.unload_region(region)));
        }
        let lists = self.deferred.lock().release(durable, reusable);
        self.maps.set_ripe_through(Txg(reusable.0.saturating_sub(1)));
        for (txg, range) in lists.iter().flat_map(|(txg, list)| list.iter().map(move |range| (*txg, range))) {
            // It stays allocated, and with it what was joined to it on the list: a leak, for a scrub of another import.
            if self.is_pinned(range) {
                continue;
            }
            if !self.vdev_of(range).is_some_and(|vdev| vdev.ripen(range, txg)) {
                self.count_bad_free(range);
            }
        }
        self.bound_ripe();
        self.deferred.lock().tidy(&mut self.maps.ripe.lock());
    }

    /// Sectors that groups behind `from`, up to `to`, have freed, and that wait.
    pub(crate) fn waiting_sectors(&self, from: Txg, to: Txg) -> u64 {
        self.deferred.lock().sectors_of((Bound::Excluded(from), Bound::Included(to)))
    }

    /// Where too much waits for maps, those for which most does are read, and the next group writes them.
    fn bound_ripe(&self) {
        let by_most = {
            let ripe = self.maps.ripe.lock();
            if ripe.len() <= ripe::RANGES_MAX {
                return;
            }
            ripe.by_most()
        };
        let mut len = by_most.iter().map(|(count, _)| count).sum::<usize>();
        for (count, (index, region)) in by_most {
            if len <= ripe::RANGES_LEFT {
                return;
            }
            len -= count;
            self.vdev(index).map(|vdev| vdev.load_region(region));
        }
    }

    /// The pool's space, to the byte.
    pub fn space(&self) -> Space {
        let sector = SECTOR as u64;
        let deferred = self.deferred.lock().sectors() * sector;
        let total = self.vdevs.iter().map(|vdev| vdev.sectors() - vdev.excluded()).sum::<u64>() * sector;
        let free = self.vdevs.iter().map(VdevSpace::free).sum::<u64>() * sector;
        Space { total, allocated: total.saturating_sub(free).saturating_sub(deferred), deferred, free }
    }

    /// The group of the newest commit.
    pub fn persisted_txg(&self) -> Txg {
        self.persisted.lock().txg
    }

    /// Free bytes of a vdev, if it is a data vdev of the pool.
    pub fn vdev_free(&self, index: VdevIndex) -> Option<u64> {
        self.vdev(index).map(|vdev| vdev.free() * SECTOR as u64)
    }

    /// Bytes of the allocator's own sectors: space maps, their index, and deferred lists. For checks: it asks every region.
    pub fn own_bytes(&self) -> u64 {
        let persisted = self.persisted.lock();
        let index: usize = persisted.indexes.iter().map(|index| index.places().count()).sum();
        let map_sectors = |region: &Mutex<region::Region>| region.lock().line().map_or(0, |line| line.places().count());
        let maps: usize = self.vdevs.iter().flat_map(|vdev| &vdev.regions).map(map_sectors).sum();
        ((index + maps) as u64 + self.deferred.lock().chain_sectors()) * SECTOR as u64
    }

    /// How many regions are fenced off since their space maps cannot be used, and of the first ones why.
    pub fn fenced(&self) -> (usize, Vec<String>) {
        self.maps.fenced()
    }

    /// How many regions cannot be had for now since a device refuses their space maps, and of the first ones why.
    pub fn refused(&self) -> (usize, Vec<String>) {
        self.maps.refused()
    }

    /// Lists of frees that the import could not read: what they name stays in use, and nothing knows it any more.
    pub fn lost_lists(&self) -> u64 {
        self.lost_lists
    }

    /// Frees of what was not allocated: each is a bug or damage, and leaked the range rather than harm another.
    pub fn bad_free_count(&self) -> u64 {
        self.maps.bad_free_count()
    }

    /// Whether the range is in use (by anything: a block, a deferred free), or may be, since its map cannot be read.
    /// For checks: it reads maps.
    pub fn is_busy(&self, dva: &Dva) -> bool {
        self.vdev_of(dva).is_some_and(|vdev| vdev.all(dva, true))
    }

    fn vdev(&self, index: VdevIndex) -> Option<&VdevSpace> {
        self.vdevs.binary_search_by_key(&index, VdevSpace::index).ok().and_then(|at| self.vdevs.get(at))
    }

    fn vdev_of(&self, dva: &Dva) -> Option<&VdevSpace> {
        self.vdev(dva.vdev).filter(|vdev| vdev.contains(dva))
    }

    fn count_freed_twice(&self, count: usize) {
        self.maps.count_bad_frees(count as u64);
        if count > 0 {
            tracing::error!(count, "ranges were freed twice in one txg");
        }
    }

    fn count_bad_free(&self, dva: &Dva) {
        self.maps.count_bad_frees(1);
        tracing::error!(%dva, "a range that is not allocated was freed; it stays as it is");
    }
}

/// Whole sectors for so many bytes, at least one. More than a range can have are found nowhere.
fn sectors_of_run(bytes: u64) -> u32 {
    u32::try_from(bytes.div_ceil(SECTOR as u64)).unwrap_or(u32::MAX).max(1)
}

#[cfg(test)]
mod aged;
#[cfg(test)]
mod paper;
#[cfg(test)]
mod tests;

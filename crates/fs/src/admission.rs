//! Admission: what an operation may use up is asked for before it takes a lock, since it may have to wait (rules F3).
//!
//! A WRITE asks first whether it may bring its data ([`Filesystem::pass`]). Then, in this order: do pool and dataset take
//! changes, is the operation's time sure not to come again, does the quota allow it, is there room for the fold, for
//! dirty bytes and in the pool, and for its records in the ring. What an operation was admitted with it holds until it is
//! over, used or not. Who is refused has nothing and holds no lock. It is run again if the answer is
//! [`FsError::Throttled`], once what the outcome says to wait for is over.

use std::ops::Range;

use smallvec::SmallVec;
use tally_base::Wait;
use tally_intent::Reservation;
use tally_store::pool::{NotServing, SpaceClass};
use tally_store::txg::{Admission, Destination, NotAdmitted, Pass, PromisedRoom, RingUse};
use tally_vfs::{FsError, ObjectRef, Outcome};

use crate::cost::FoldCost;
use crate::filesystem::Filesystem;
use crate::group::Pending;
use crate::record::RECORD_OVERHEAD_MAX;
use crate::subtree::Coming;

/// Dirty memory that an operation costs beside its data: layer, keys, inode.
pub(crate) const OPERATION_DIRTY_BYTES: u64 = 1024;

/// What an operation was admitted with.
pub(crate) struct Admitted {
    pub(crate) dirty: Admission,
    /// What it may take of the pool.
    pub(crate) spare: Spare,
    pub(crate) rings: SmallVec<[Reservation; 1]>,
    pub(crate) pending: Pending,
}

/// What an operation was admitted with of the pool, less what has gone back since.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spare {
    /// What its fold may take.
    pub(crate) fold_bytes: u64,
    /// What it draws of what was promised.
    pub(crate) drawn_bytes: u64,
}

/// What an operation asks to be admitted with.
pub(crate) struct Ask {
    /// Bytes of data that become dirty.
    pub(crate) data_bytes: u64,
    /// Bodies of the records it may append, bytes each; empty for data that is not logged.
    pub(crate) records: SmallVec<[usize; 1]>,
    /// What folding its changes costs.
    pub(crate) fold: FoldCost,
    /// By how much the dataset may grow, at most. What takes the place of as much does not count.
    pub(crate) growth_bytes: u64,
    /// Which reserve of the pool it may touch.
    pub(crate) class: SpaceClass,
    /// Room that it promises, or draws of what was promised (rules V42).
    pub(crate) room: PromisedRoom,
}

/// What the fold of a namespace or attribute operation may write anew: four leaves of names and inodes.
const METADATA_FOLD_BYTES: u64 = 4 * (16 << 10);
/// A removal, or a rename over another object, touches as many again, and what the object held.
pub(crate) const REMOVAL_FOLD_BYTES: u64 = 2 * METADATA_FOLD_BYTES;

impl Ask {
    /// A namespace or attribute operation: one record without data.
    pub(crate) fn metadata(class: SpaceClass) -> Self {
        let bytes = if class == SpaceClass::Write { METADATA_FOLD_BYTES } else { REMOVAL_FOLD_BYTES };
        let records = SmallVec::from_elem(RECORD_OVERHEAD_MAX, 1);
        let fold = FoldCost { bytes, ..FoldCost::default() };
        Self { data_bytes: 0, records, fold, growth_bytes: 0, class, room: PromisedRoom::default() }
    }

    /// Making the dataset grow by so much, at most.
    pub(crate) fn growing(self, growth_bytes: u64) -> Self {
        Self { growth_bytes, ..self }
    }

    /// With so much more for the fold to do.
    pub(crate) fn folding(mut self, more: FoldCost) -> Self {
        self.fold.bytes = self.fold.bytes.saturating_add(more.bytes);
        self.fold.patch_bytes = self.fold.patch_bytes.saturating_add(more.patch_bytes);
        self
    }

    pub(crate) fn rename() -> Self {
        Self::metadata(SpaceClass::Rename)
    }
}

impl Filesystem {
    /// Asks for everything an operation will need. Refusals are answered with [`Refusal::outcome`].
    pub(crate) fn admit(&self, ask: &Ask) -> Result<Admitted, Refusal> {
        self.check_takes_changes()?;
        if self.dataset.effective().readonly {
            return Err(Refusal::now(FsError::ReadOnly));
        }
        let log = self.log();
        if !ask.records.is_empty() && log.is_none() {
            self.check_lease()?;
        }
        let bytes = ask.data_bytes + OPERATION_DIRTY_BYTES;
        self.check_quota(ask.growth_bytes)?;
        let throttled = || Refusal::until(self.pool.txgs.next_sync());
        if let Ok(patch_bytes @ 1..) = u64::try_from(ask.fold.patch_bytes) {
            self.pool.txgs.check_patch(patch_bytes).map_err(|_| throttled())?;
        }
        let dirty = self.pool.admit_with(ask.class, bytes, ask.fold.bytes, ask.room).map_err(|why| match why {
            NotAdmitted::Dirty => throttled(),
            // What was set aside or freed, and is not reusable yet, may be enough, or what was removed or cut in
            // whichever dataset: let groups pass before giving up.
            NotAdmitted::Space if self.standing.pool_has_orphans() => throttled(),
            NotAdmitted::Space if !self.may_come_to_promise(ask.room.promised_bytes) => self.no_room(),
            NotAdmitted::Space => self.pool.space_coming(ask.class).map_or_else(|| self.no_room(), Refusal::until),
        })?;
        let mut rings = SmallVec::new();
        if let Some(lane) = log {
            for body in &ask.records {
                match lane.reserve(*body) {
                    Ok(reservation) => rings.push(reservation),
                    Err(_) if lane.has_ended() => break,
                    Err(_) => return Err(throttled()),
                }
            }
            self.pool.watch_ring(&lane);
        }
        Ok(Admitted {
            dirty,
            spare: Spare { fold_bytes: ask.fold.bytes, drawn_bytes: ask.room.drawn_bytes },
            rings,
            pending: Pending { bytes, growth_bytes: ask.growth_bytes, shrink_bytes: 0 },
        })
    }

    /// Whether there will be room for what is to be promised, if anything is.
    fn may_come_to_promise(&self, bytes: u64) -> bool {
        bytes == 0 || self.pool.may_come_to_promise(bytes)
    }

    /// Groups bring no room. Where a device refuses space maps, it is asked once more, and what it says is told: that the pool is
    /// full is not known then.
    fn no_room(&self) -> Refusal {
        match self.pool.ask_for_room() {
            None => Refusal::now(FsError::NoSpace),
            Some(true) => Refusal::until(self.pool.txgs.next_sync()),
            Some(false) => Refusal::now(FsError::Io),
        }
    }

    /// Leave to bring the data of `range` at all, which is asked for first: where more comes than the disks take, each waits
    /// his turn (`tally_store::txg`, "the slope").
    pub(crate) fn pass(&self, object: ObjectRef, range: Range<u64>, ring: RingUse) -> Result<Option<Pass>, Refusal> {
        let destination = Destination([self.dataset.birth.id.0, object.id.0, range.start]);
        self.pool.txgs.pass(destination, range.end - range.start, ring).map_err(Refusal::until)
    }

    /// Whether the pool takes changes. Before that is known nothing may be asked of the lane: a pool that is only read
    /// has none.
    pub(crate) fn check_takes_changes(&self) -> Result<(), Refusal> {
        self.pool.check_serving().map_err(|not_serving| match not_serving {
            NotServing::Wait => Refusal::now(FsError::Unavailable),
            NotServing::Failed => Refusal::now(FsError::Io),
        })?;
        if self.pool.read_only() { Err(Refusal::now(FsError::ReadOnly)) } else { Ok(()) }
    }

    /// Before a change that only its group tells: whether its time is sure not to come again after a crash.
    pub(crate) fn check_lease(&self) -> Result<(), Refusal> {
        self.pool.renewed_lease().map_or(Ok(()), |wait| Err(Refusal::until(wait)))
    }

    /// Whether there is a quota that what the dataset takes counts against.
    pub(crate) fn has_quota(&self) -> bool {
        self.dataset.effective().refquota.is_some() || self.standing.has_quota()
    }

    pub(crate) fn check_quota(&self, growth_bytes: u64) -> Result<(), Refusal> {
        if growth_bytes == 0 {
            return Ok(());
        }
        let txgs = &self.pool.txgs;
        if let Some(quota) = self.dataset.effective().refquota {
            // In this order: what is no longer pending is in the root that is looked at next.
            let coming = Coming::of(self.groups.lock().values().map(|group| &group.pending));
            let root = self.dataset.root();
            let charged_bytes = root.used_bytes.saturating_add(root.reserved_bytes);
            coming.check(quota, charged_bytes, root.orphan_count > 0, growth_bytes, || txgs.next_sync())?;
        }
        let synced = txgs.last_synced();
        self.standing.chain().iter().try_for_each(|sum| sum.check(growth_bytes, synced, || txgs.next_sync()))
    }

    /// By how much the groups that are not folded yet may make the dataset grow.
    pub(crate) fn pending_growth_bytes(&self) -> u64 {
        self.groups.lock().values().map(|group| group.pending.growth_bytes).sum()
    }
}

/// Why an operation was not admitted.
pub(crate) struct Refusal {
    error: FsError,
    wait: Wait,
}

impl Refusal {
    pub(crate) fn now(error: FsError) -> Self {
        Self { error, wait: Wait::Ready }
    }

    /// It may be admitted when this is over.
    pub(crate) fn until(wait: Wait) -> Self {
        Self { error: FsError::Throttled, wait }
    }

    pub(crate) fn into_error(self) -> FsError {
        self.error
    }

    pub(crate) fn outcome<T>(self) -> Outcome<T> {
        Outcome { result: Err(self.error), changes: SmallVec::new(), wait: self.wait }
    }
}

//! Who is let in: space, rings, and whether the pool serves at all.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tally_base::{Fate, Kept, Lsn, Promise, SECTOR, Txg, Wait};
use tally_intent::Lane;
use tally_members::label::FailMode;

use super::Pool;
use crate::alloc::Space;
use crate::txg::{Admission, Cause, NotAdmitted, RingUse, Txgs};

/// How deep into its reserve the pool lets an operation go (rules F19). A replay is not asked: what it brings was admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpaceClass {
    /// New data and new names: stops at the reserve.
    Write,
    /// RENAME, and properties that become longer, which take little and seldom: stops at three quarters of it. Clients rename a
    /// file that is open instead of removing it; and whatever the names and properties grow to, there is room left to remove them.
    Rename,
    /// What frees space, and administration: stops at half of it.
    Remove,
}

/// The pool takes no changes for now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotServing {
    /// It will when it is imported again: clients wait.
    Wait,
    /// It is suspended, and its failmode says that clients are to be told so.
    Failed,
}

/// A copy-on-write pool needs room to remove things. This share of it, and at least what a few groups write
/// for the least change (a path of leaves in each of three groups), is kept back, but never more than a quarter.
const RESERVE_SHARE: u64 = 32;
const RESERVE_BYTES_MIN: u64 = 16 * (64 << 10) * 4;

/// What part of the reserve marks may take.
const MARKS_PART: u64 = 4;
/// As many reserves free are few.
const SHORT: u64 = 4;

impl Pool {
    /// Whether operations may begin.
    pub fn check_serving(&self) -> Result<(), NotServing> {
        if self.closed.load(Ordering::Acquire) {
            return Err(NotServing::Wait);
        }
        match self.fault.get() {
            None => Ok(()),
            Some(_) => match self.roster.failmode() {
                FailMode::Wait => Err(NotServing::Wait),
                FailMode::Continue => Err(NotServing::Failed),
            },
        }
    }

    pub(super) fn reserve_bytes(space: &Space) -> u64 {
        (space.total / RESERVE_SHARE).max(RESERVE_BYTES_MIN).min(space.total / 4)
    }

    /// Free sectors, and whether they are so few that nothing is kept for old roots.
    pub(super) fn room_for_old_roots(&self) -> (u64, bool) {
        let space = self.io.allocator().space();
        (space.free / SECTOR as u64, space.free < SHORT * Self::reserve_bytes(&space))
    }

    /// Lets an operation in that will dirty `bytes` of memory and whose fold may take `fold_bytes`, if that fits beside all
    /// that is not synced yet: what is acknowledged must be foldable (rules F19).
    pub fn admit(&self, class: SpaceClass, bytes: u64, fold_bytes: u64) -> Result<Admission, NotAdmitted> {
        self.txgs.admit_within(bytes, fold_bytes, |folding| self.has_space(class, folding))
    }

    /// Whether folds may take so much. What a fold has allocated counts twice until its group is synced.
    fn has_space(&self, class: SpaceClass, folding: u64) -> bool {
        let space = self.io.allocator().space();
        let reserve = Self::reserve_bytes(&space);
        let kept_back = match class {
            SpaceClass::Write => reserve,
            SpaceClass::Rename => reserve / 4 * 3,
            SpaceClass::Remove => reserve / 2,
        };
        space.free >= kept_back.saturating_add(folding).saturating_add(self.remembered_fold_bytes())
    }

    /// Marks take a part of the reserve at most, or nothing could be removed from a full pool.
    pub(super) fn bound_marks(&self) {
        self.marks.bound(Self::reserve_bytes(&self.io.allocator().space()) / MARKS_PART);
    }

    /// What the fold of all that is remembered of requests may take.
    pub(super) fn remembered_fold_bytes(&self) -> u64 {
        self.replies.fold_bytes().saturating_add(self.marks.fold_bytes())
    }

    /// Tells, while a group is written, whether so many bytes may go to what nobody was promised: if a WRITE that takes as
    /// much would be let in (rules S4).
    pub(super) fn can_spare(&self) -> impl Fn(&Space, u64) -> bool + Send + Sync + use<> {
        let (txgs, replies_bytes) = (Arc::clone(&self.txgs), self.remembered_fold_bytes());
        move |space, bytes| {
            let kept_back = Self::reserve_bytes(space).saturating_add(replies_bytes);
            space.free >= kept_back.saturating_add(txgs.fold_bytes()).saturating_add(bytes)
        }
    }

    /// Whether groups that are not synced yet, or frees that are not reusable yet, will bring space, and when.
    #[must_use]
    pub fn space_coming(&self) -> Option<Wait> {
        // The fold takes what it really needs, which is mostly far less than what was set aside for it.
        let set_aside = self.txgs.fold_bytes() > 0;
        let space = self.io.allocator().space();
        (set_aside || space.deferred > Self::reserve_bytes(&space) / 4).then(|| self.txgs.next_sync())
    }

    /// Asks a device once more that refuses space maps, see [`Allocator::ask_for_room`](crate::alloc::Allocator::ask_for_room).
    pub fn ask_for_room(&self) -> Option<bool> {
        self.io.allocator().ask_for_room()
    }

    /// Bytes that an ordinary user could still write.
    #[must_use]
    pub fn free_bytes(&self) -> u64 {
        let space = self.io.allocator().space();
        let dirty = self.txgs.dirty_bytes();
        // What is deferred will be free in a moment, and users count on what they have removed.
        (space.free + space.deferred).saturating_sub(Self::reserve_bytes(&space) + dirty + dirty / 2)
    }

    /// Starts a sync when a ring is a third full: a group needs time, and the ring must not fill meanwhile (rules F28).
    pub fn watch_ring(&self, lane: &Lane) {
        let fill = lane.fill();
        if fill.used > fill.size / 3 {
            self.txgs.want(Cause::Ring);
        }
    }

    /// Bytes of data ahead of the disks near which those who bring more wait, in the group that has the least room in its
    /// ring: a third of that at most (a fourth for what waits for a COMMIT).
    #[must_use]
    pub fn ahead_bytes_max(&self) -> u64 {
        let rings = self.lanes().iter().filter(|lane| !lane.has_ended()).map(|lane| lane.geometry().size).min();
        self.txgs.ahead_bytes_max(rings.map_or(RingUse::None, RingUse::Logged))
    }

    /// What a reply that rests on record `lsn` of `lane`, and appended `record_bytes`, waits for. Should the lane fail, the promise goes over to
    /// transaction group `txg`, which contains the record's change (rules F25).
    #[must_use]
    pub fn log_promise(&self, lane: &Arc<Lane>, lsn: Lsn, record_bytes: u64, txg: Txg) -> Wait {
        match lane.promise(lsn, record_bytes) {
            Wait::Ready => Wait::Ready,
            Wait::On(log) => Wait::On(Box::new(LogPromise { log, txgs: Arc::clone(&self.txgs), txg })),
        }
    }

    /// Runs one step of the replay under a hold.
    pub fn replay_in(&self, dirty_bytes: u64, step: impl FnOnce(Txg)) {
        // The replay is alone and syncs by itself, so admission cannot fail for long; it is only counted.
        let hold = self.txgs.hold(self.txgs.admit(dirty_bytes + 1024, dirty_bytes + 1024).ok());
        step(hold.txg());
    }
}

/// A record in the log, or else its transaction group.
struct LogPromise {
    log: Box<dyn Promise>,
    txgs: Arc<Txgs>,
    txg: Txg,
}

impl Promise for LogPromise {
    fn poll(&self) -> Option<Fate> {
        if self.txgs.last_synced() >= self.txg {
            return Some(Ok(Kept::GROUP));
        }
        // A broken log is not the last word: `then` goes on with the group.
        self.log.poll().filter(Result::is_ok)
    }

    fn drive(&self) -> Option<Fate> {
        self.log.drive().filter(Result::is_ok)
    }

    fn then(self: Box<Self>, then: Box<dyn FnOnce(Fate) + Send>) {
        let Self { log, txgs, txg } = *self;
        log.then(Box::new(move |outcome| {
            if outcome.is_ok() {
                return then(outcome);
            }
            match txgs.promise(txg) {
                Wait::Ready => then(Ok(Kept::GROUP)),
                Wait::On(group) => group.then(then),
            }
        }));
    }
}

//! Who is let in: space, rings, and whether the pool serves at all.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tally_base::{Fate, Kept, Lsn, Promise, SECTOR, Txg, Wait};
use tally_intent::Lane;
use tally_members::label::FailMode;

use super::Pool;
use crate::alloc::Space;
use crate::txg::{Admission, Cause, NotAdmitted, PromisedRoom, RingUse, Txgs};

/// How deep into its reserve the pool lets an operation go (rules F19). A replay is not asked: what it brings was admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpaceClass {
    /// New data and new names: stops at the reserve.
    Write,
    /// Data for which room was promised (rules V42): stops at half of the reserve. What it adds is drawn from the promise; of the reserve it only has for some
    /// groups what it replaces, and the leaves above that.
    Promised,
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

/// What is left to who makes room by those who write what was promised: two removals. Where many write anew what is there, each removal waits for groups, and finds this then.
const FOR_REMOVALS_BYTES: u64 = 256 << 10;

/// What the fold of one WRITE may take beside what it draws of a promise: all of it, if it writes anew what is there. Where anything is promised so much is
/// kept free beside, for one WRITE after the other: a mebibyte, the blocks at both ends, and leaves.
const PROMISED_WRITE_BYTES: u64 = (3 << 20) + (256 << 10);

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
        let free = space.free.saturating_sub(Self::kept_for_promises(self.txgs.promised()));
        (free / SECTOR as u64, free < SHORT * Self::reserve_bytes(&space))
    }

    /// Lets an operation in that will dirty `bytes` of memory and whose fold may take `fold_bytes`, if that fits beside all
    /// that is not synced yet: what is acknowledged must be foldable (rules F19).
    pub fn admit(&self, class: SpaceClass, bytes: u64, fold_bytes: u64) -> Result<Admission, NotAdmitted> {
        self.admit_with(class, bytes, fold_bytes, PromisedRoom::default())
    }

    /// The same for an operation that promises room, or draws of what was promised.
    pub fn admit_with(
        &self,
        class: SpaceClass,
        bytes: u64,
        fold_bytes: u64,
        room: PromisedRoom,
    ) -> Result<Admission, NotAdmitted> {
        self.txgs.admit_within(bytes, fold_bytes, room, |folding, promised| self.has_space(class, folding, promised))
    }

    /// Whether folds may take so much where so much is promised. What a fold has allocated counts twice until its group is synced.
    fn has_space(&self, class: SpaceClass, folding: u64, promised: PromisedRoom) -> bool {
        let space = self.io.allocator().space();
        let reserve = Self::reserve_bytes(&space);
        let has_beside = |kept_back: u64| space.free >= kept_back.saturating_add(folding);
        let others = Self::kept_for_promises(promised).saturating_add(self.remembered_fold_bytes());
        match class {
            SpaceClass::Write => has_beside(reserve.saturating_add(others)),
            SpaceClass::Rename => has_beside((reserve / 4 * 3).saturating_add(others)),
            // What makes room is never refused for the sake of a promise: it gives back more than it takes.
            SpaceClass::Remove => has_beside((reserve / 2).saturating_add(self.remembered_fold_bytes())),
            // Its own promise it may use up, and nobody else's; and its fold has to find room before what it replaces is free.
            SpaceClass::Promised => {
                let drawn = folding.saturating_sub(promised.drawn_bytes).saturating_add(promised.promised_bytes);
                let left =
                    (reserve / 2).saturating_add(self.remembered_fold_bytes()).saturating_add(FOR_REMOVALS_BYTES);
                has_beside(left) && space.free >= left.saturating_add(drawn)
            }
        }
    }

    /// What is to stay free for the sake of what is promised.
    fn kept_for_promises(promised: PromisedRoom) -> u64 {
        let for_one = if promised.promised_bytes > 0 { PROMISED_WRITE_BYTES + FOR_REMOVALS_BYTES } else { 0 };
        promised.left_bytes().saturating_add(for_one)
    }

    /// Whether so much could never be promised, however long somebody waits.
    #[must_use]
    pub fn is_more_than_all(&self, bytes: u64) -> bool {
        bytes > self.io.allocator().space().total
    }

    /// Whether so much more may be promised once all is free that groups bring back: what folds have set aside only takes of that. Who asks for more is not to wait, as in a
    /// pool that others write to there is always a group that may bring something.
    #[must_use]
    pub fn may_come_to_promise(&self, bytes: u64) -> bool {
        let space = self.io.allocator().space();
        let kept_back = Self::reserve_bytes(&space).saturating_add(Self::kept_for_promises(self.txgs.promised()));
        space.free.saturating_add(space.deferred) >= kept_back.saturating_add(bytes)
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
            let promised_bytes = Self::kept_for_promises(txgs.promised());
            let kept_back = Self::reserve_bytes(space).saturating_add(replies_bytes).saturating_add(promised_bytes);
            space.free >= kept_back.saturating_add(txgs.fold_bytes()).saturating_add(bytes)
        }
    }

    /// Whether groups that are not synced yet, or frees that are not reusable yet, will bring space, and when.
    #[must_use]
    pub fn space_coming(&self, class: SpaceClass) -> Option<Wait> {
        // The fold takes what it really needs, which is mostly far less than what was set aside for it.
        let set_aside = self.txgs.fold_bytes() > 0;
        let space = self.io.allocator().space();
        // Who was promised room is refused for the sake of what is deferred, and of nothing else: far more than each group defers of its own.
        let part = if class == SpaceClass::Promised { 16 } else { 4 };
        (set_aside || space.deferred > Self::reserve_bytes(&space) / part).then(|| self.txgs.next_sync())
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
        let kept_back = Self::reserve_bytes(&space).saturating_add(Self::kept_for_promises(self.txgs.promised()));
        (space.free + space.deferred).saturating_sub(kept_back.saturating_add(dirty + dirty / 2))
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

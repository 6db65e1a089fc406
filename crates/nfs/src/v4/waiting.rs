//! Blocked locks: who was refused a range and would wait for it is told when it is free (RFC 8881 §18.10.4 and §20.11). Who that is stands in
//! [`Waiters`](super::state::Waiters).
//!
//! ```text
//!  LOCK (READW, WRITEW) refused ─▶ wait_for ─▶ does he wait for himself? ─▶ DEADLOCK, or DENIED with a place
//!  LOCKU, CLOSE, a lock for reading in the place of one for writing, a client's end ─▶ freed ─┐
//!  twice a second: who did not come, what others freed ─────────────▶ look_after_waiters ─────┴▶ is it free? ─▶ CB_NOTIFY_LOCK
//! ```
//!
//! Whether a range is free is asked of the file system, which knows all protocols' locks, with no lock held. So whoever frees something without a word to here is noticed half a second later; what
//! programs of this machine free is said here at once (`service/this_machine.rs`). The file system tells of it as well ([`Watch`](tally_vfs::locks::Watch)), but under the object's locks, where it could not be asked.
//!
//! *Deadlocks.* He who asks has his place before he is looked for, so that of two who close a ring at once one sees it. Of those in the way of a wait one is followed, so a ring
//! through others who share a range may be missed: they poll, as without queues. A waiter who was interrupted is not told from one who waits, for
//! [`FRESH`](super::state::FRESH) at most: that DEADLOCK may come of such a one is the price.

use bytes::Bytes;
use tally_vfs::locks::{Lock, NotLocked, Range};
use tally_vfs::{Holder, ObjectRef, Vfs};

use super::below::file_system;
use super::house::House;
use super::state::bounds::{DEADLOCK_STEPS_MAX, WAITERS_LOOKED_AT};
use super::state::{Callback, ClientId, Errand, FileId, LockOwner, LockWait};
use super::status::Status;
use crate::exports::Exports;
use crate::xdr::Encoder;

const CB_NOTIFY_LOCK: u32 = 13;

impl House {
    /// Somebody was refused what he would wait for, as this one holds it. He has a place now, if there is room, unless he would wait for himself.
    pub(super) fn wait_for(&self, exports: &dyn Exports, wait: LockWait, held_by: Holder) -> Result<(), Status> {
        let owner = wait.owner.clone();
        let _has_a_place = self.waiters.join(wait, self.now());
        if self.leads_back(exports, &owner, held_by) {
            self.waiters.leave(&owner);
            return Err(Status::Deadlock);
        }
        Ok(())
    }

    /// Whether one waits, over others, for this owner.
    fn leads_back(&self, exports: &dyn Exports, owner: &LockOwner, mut holder: Holder) -> bool {
        for _ in 0..DEADLOCK_STEPS_MAX {
            let Some((client, name)) = self.locks().named(holder) else { return false };
            let next = LockOwner { client, name };
            if next == *owner {
                return true;
            }
            let Some(wait) = self.waiters.wait_of(&next, self.now()) else { return false };
            match self.test(exports, &wait) {
                Some(Err(NotLocked::Held(held))) => holder = held.holder,
                _ => return false,
            }
        }
        false
    }

    /// Whether what somebody waits for is free; nothing, where the file is not served as it was.
    fn test(&self, exports: &dyn Exports, wait: &LockWait) -> Option<Result<(), NotLocked>> {
        let holder = self.locks().holder(wait.owner.client, &wait.owner.name);
        let vfs = file_system(exports, &wait.file)?;
        Some(vfs.test_range(wait.file.object, Lock { holder, range: wait.range, kind: wait.kind }))
    }

    /// An owner has what he waited for, has asked for something else, or his client does not know that he may come.
    pub(super) fn waits_no_more(&self, owner: &LockOwner) {
        self.waiters.leave(owner);
    }

    /// An open is closed, and what was locked below it is free.
    pub(super) fn freed_below(&self, exports: &dyn Exports, file: &FileId, open: Holder) {
        self.waiters.close(file, open);
        self.freed(exports, file, None);
    }

    /// Something of a file may be free, in this range if one is named: tells those who can have what they wait for.
    pub(super) fn freed(&self, exports: &dyn Exports, file: &FileId, range: Option<Range>) {
        self.tell_waiters(exports, file, range);
        self.lock_for_hosts(exports, file);
    }

    /// Something of an object was freed by somebody who is no client, nor a host.
    pub(crate) fn freed_by_others(&self, exports: &dyn Exports, (vfs, object): (&dyn Vfs, ObjectRef)) {
        self.freed(exports, &FileId::of(vfs, object), None);
    }

    fn tell_waiters(&self, exports: &dyn Exports, file: &FileId, range: Option<Range>) {
        if self.waiters.is_empty() {
            return;
        }
        let queued = self.waiters.queue(file, range, self.now());
        let mut promised = queued.told;
        for wait in queued.waiting.into_iter().take(WAITERS_LOOKED_AT) {
            if promised.iter().any(|other| other.conflicts_with(&wait)) {
                continue;
            }
            match self.test(exports, &wait) {
                None => return self.waiters.forget_file(file),
                Some(Err(NotLocked::Held(_))) => {}
                Some(Err(NotLocked::Failed(_))) => self.waiters.leave(&wait.owner),
                Some(Ok(())) if self.notify(&wait) => promised.push(wait),
                Some(Ok(())) => {}
            }
        }
    }

    /// Calls a client for one of its owners. False: that cannot be, for now, and others behind him may have what he waits for.
    fn notify(&self, wait: &LockWait) -> bool {
        if !self.waiters.tell(wait, self.now()) {
            return false;
        }
        let errand = Errand::NotifyLock(wait.owner.clone(), wait.file);
        let is_called = self.call(Some(wait.session), &errand, &Callback::new(notify_lock(wait))).is_some();
        if !is_called {
            self.waiters.has_not_told(wait);
        }
        is_called
    }

    /// Whether somebody waits, or a client is waited for.
    pub(crate) fn has_waiters(&self) -> bool {
        !self.waiters.is_empty() || self.has_calls() || self.delegations().has_recalled()
    }

    /// Twice a second: who was told and did not come has lost his place, and what is free by now is told.
    pub(crate) fn look_after_waiters(&self, exports: &dyn Exports) {
        self.end_overdue_calls();
        self.look_after_recalls(exports);
        if self.waiters.is_empty() {
            return;
        }
        // One that hangs in a file system keeps one worker, and not another one each time.
        let Some(_alone) = self.looking_after_waiters.try_lock() else { return };
        self.waiters.forget_late(self.now());
        self.waiters.files().iter().for_each(|file| self.freed(exports, file, None));
    }

    /// A client is gone.
    pub(super) fn forget_waiters(&self, client: ClientId) {
        self.waiters.forget_client(client);
    }
}

/// `CB_NOTIFY_LOCK4args`: the file as the client knows it, and its owner.
fn notify_lock(wait: &LockWait) -> Bytes {
    let mut words = Encoder::new();
    words.u32(CB_NOTIFY_LOCK).opaque(&wait.handle).u64(wait.owner.client.0).opaque(&wait.owner.name);
    words.into_vec().into()
}

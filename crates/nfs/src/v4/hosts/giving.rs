//! What hosts wait for is locked for them when it is free, and taken back from who does not take it.

use std::sync::atomic::Ordering::SeqCst;

use tally_vfs::locks::{Lock, NotLocked, Range};
use tally_vfs::{FsError, ObjectRef, Vfs};

use super::{ALL, House};
use crate::exports::{Exports, PoolExports};
use crate::nlm::waiting::Calling;
use crate::v4::below::{Below, below, file_system, is_over};
use crate::v4::state::FileId;
use crate::v4::state::bounds::WAITERS_LOOKED_AT;

/// Most ranges of an owner that are looked at for what it has of another one.
const RANGES_LOOKED_AT: usize = 4096;

impl House {
    /// Something of a file may be free: it is locked for those hosts that wait for it, in their order, and they are to be called.
    pub(in crate::v4) fn lock_for_hosts(&self, exports: &dyn Exports, file: &FileId) {
        if self.hosts.waiting.load(SeqCst) == 0 || !self.hosts.hosts.lock().waiting.is_waited_for(file) {
            return;
        }
        let Some((vfs, pool)) = file_system(exports, file).zip(exports.pool(file.of.pool)) else {
            if is_over(exports, &file.of) {
                let mut hosts = self.hosts.hosts.lock();
                hosts.waiting.forget_file(file);
                hosts.forget_left(self.now());
            }
            return;
        };
        if vfs.is_waited_for() {
            return;
        }
        let queue = self.hosts.hosts.lock().waiting.queue(file, WAITERS_LOOKED_AT);
        for calling in queue {
            if self.lock_for_waiter(exports, (&*vfs, &*pool), &calling) {
                self.hosts.ring();
            }
        }
    }

    /// Whether it is his.
    fn lock_for_waiter(
        &self,
        exports: &dyn Exports,
        (vfs, pool): (&dyn Vfs, &dyn PoolExports),
        calling: &Calling<FileId>,
    ) -> bool {
        let (file, wanted) = (&calling.wait.file, calling.wait.lock());
        if matches!(vfs.test_range(file.object, wanted), Err(NotLocked::Held(_))) {
            return false;
        }
        let Some(named) = self.hosts.hosts.lock().named(wanted.holder) else { return false };
        let presence = self.presence_of_host(named.address, wanted.holder.client);
        // Whoever looks does so for all pools: where another one is about it, and may wait for a disk, that is left to the next look.
        let Ok(given) = self.grant_or_not_now(pool, &presence) else { return false };
        let given = match given.at_once() {
            Ok(given) => given,
            // Not before its record is durable (N1): then it is locked for him at the next look.
            Err(promise) => {
                promise.then(Box::new(|_| ()));
                return false;
            }
        };
        let alone = self.hosts.singly.begin(*file);
        if !self.hosts.hosts.lock().waiting.waits(calling.number, file) {
            return false;
        }
        let had = held_of(vfs, file.object, wanted);
        match vfs.lock_unopened(file.object, wanted) {
            Ok(()) => {}
            // A client of version 4 keeps the file (N7).
            Err(NotLocked::Failed(FsError::Delegated(object))) => {
                drop(alone);
                let _recalled = self.kept_out(exports, (vfs, object), None, false);
                return false;
            }
            Err(_) => return false,
        }
        let is_given = self.tracking.given(pool.guid(), given).is_ok();
        let mut hosts = self.hosts.hosts.lock();
        if is_given && hosts.waiting.promote(calling.number, file, had.clone(), self.now()) {
            hosts.note(wanted.holder, *file, true, self.now());
            return true;
        }
        let is_gone = hosts.named(wanted.holder).is_none();
        drop(hosts);
        if is_gone {
            // Of all of it nothing is split.
            let _unlocked = vfs.unlock_range(file.object, wanted.holder, ALL);
        } else {
            give_up_here(vfs, file.object, wanted, &had);
        }
        false
    }

    /// An owner has a range no more, but for what he had of it.
    pub(super) fn give_up(&self, exports: &dyn Exports, file: &FileId, given_up: Lock, had: &[Lock]) {
        // With its mount it is over.
        let Some(below) = below(exports, file) else { return };
        let alone = self.hosts.singly.begin(*file);
        self.take_back(&below, file, given_up, had);
        drop(alone);
        self.freed(exports, file, Some(given_up.range));
    }

    /// The same, of who is alone at the file and tells others behind that.
    pub(super) fn take_back(&self, below: &Below, file: &FileId, given_up: Lock, had: &[Lock]) {
        match below {
            Below::Here(vfs) => give_up_here(&**vfs, file.object, given_up, had),
            // Where it had something for reading that stays locked for writing: nobody can lock there, and it is too much and not too little.
            Below::Retained(of) => {
                let unlock = |range| _ = of.unlock_range(file.object, given_up.holder, range);
                beside(given_up.range, had).into_iter().for_each(unlock);
            }
        }
        let mut hosts = self.hosts.hosts.lock();
        hosts.note(given_up.holder, *file, below.has_ranges(file.object, given_up.holder), self.now());
        hosts.forget_left(self.now());
    }
}

/// What an owner has of a range.
pub(super) fn held_of(vfs: &dyn Vfs, object: ObjectRef, wanted: Lock) -> Vec<Lock> {
    let mut held = vfs.ranges(object, wanted.holder, RANGES_LOOKED_AT);
    held.retain(|held| held.range.overlaps(wanted.range));
    held
}

/// Whether that is all of it.
pub(super) fn has_all(held: &[Lock], wanted: &Lock) -> bool {
    held.iter().any(|held| {
        held.kind == wanted.kind
            && held.range.first() <= wanted.range.first()
            && held.range.last() >= wanted.range.last()
    })
}

/// An owner has a range no more, but for what he had of it: that is his without a moment between.
fn give_up_here(vfs: &dyn Vfs, object: ObjectRef, given_up: Lock, had: &[Lock]) {
    // His own ranges are in nobody's way but others', who have had none of it. What he has beside it he may have unlocked since.
    for held in had {
        let (first, last) =
            (held.range.first().max(given_up.range.first()), held.range.last().min(given_up.range.last()));
        let range = Range::between(first, last);
        let _locked = range.map(|range| vfs.lock_unopened(object, Lock { range, ..*held }));
    }
    for range in beside(given_up.range, had) {
        // Where there is no room for what is left of a range, it stays until its owner unlocks more.
        let _unlocked = vfs.unlock_range(object, given_up.holder, range);
    }
}

/// What of a range is in none of these.
fn beside(range: Range, had: &[Lock]) -> Vec<Range> {
    let mut had: Vec<_> = had.iter().map(|held| held.range).collect();
    had.sort_unstable_by_key(|held| held.first());
    let (mut from, mut left) = (Some(range.first()), Vec::new());
    for held in &had {
        let before = from.zip(held.first().checked_sub(1));
        left.extend(before.and_then(|(from, last)| Range::between(from, last)));
        from = held.last().checked_add(1);
    }
    left.extend(from.and_then(|from| Range::between(from, range.last())));
    left
}

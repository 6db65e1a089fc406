//! What programs have locked with fcntl(2), in the one table of locks where those of clients are.
//!
//! *Owners* are the kernel's: a process, or rather its table of descriptors, or one open description (`F_OFD_SETLK`). It does not say which, and keeps nothing of what it has asked for. What a process has
//! locked of a file goes when that closes any descriptor of it, of which FLUSH tells by the owner. What a description has goes with it, of which RELEASE tells by the open's number alone. So of each owner is kept here through which opens it has
//! locked, until FLUSH: a RELEASE may come late, when its process has locked anew through another one.
//!
//! *A mount of the dataset may be over*: its pool was suspended, and is taken up anew. Then others may have had what was locked here, before anybody comes to ask for it again. So it is not asked for: it is lost, and files of which
//! something was locked are told of (rules V44; `Opens::note_unlocked`).
//!
//! *Locks.* A shard's is held over the file system, as with opens: who has locked something and who stands here are the same.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use smallvec::SmallVec;
use tally_base::ObjectId;
use tally_vfs::locks::{Kind, Lock, NotLocked, Range};
use tally_vfs::{ClientNumber, FsError, Holder, MountNumber, ObjectRef, OwnerNumber, Vfs};

pub(crate) use crate::journal::Locker;
use crate::journal::{Entry, Journal, State};

/// Files whose numbers fall together wait for each other where they are locked.
const SHARDS: usize = 64;

/// All of a mount.
pub(crate) struct Locked {
    client: ClientNumber,
    journal: Option<Arc<Journal>>,
    shards: Vec<Mutex<Shard>>,
}

struct Shard {
    /// In whose table it is.
    mount: MountNumber,
    /// Owners that have locked something, by file.
    owners: BTreeMap<(ObjectId, u64), Owner>,
}

struct Owner {
    object: ObjectRef,
    pid: u32,
    /// Opens through which it has locked.
    through: SmallVec<[u64; 1]>,
}

impl Locked {
    /// Nothing, of this client.
    pub(crate) fn new(client: ClientNumber, journal: Option<Arc<Journal>>) -> Self {
        let shard = || Mutex::new(Shard { mount: MountNumber(0), owners: BTreeMap::new() });
        Self { client, journal, shards: std::iter::repeat_with(shard).take(SHARDS).collect() }
    }

    fn note(&self, entry: &Entry<'_>) {
        if let Some(journal) = &self.journal {
            journal.note(entry);
        }
    }

    /// Who an owner is in the table. Opens have owners below 8 there, and the kernel's are 64 scrambled bits: where one should be such a number all the same nothing goes wrong, as none is ended with all that it has.
    pub(crate) const fn holder(&self, owner: u64) -> Holder {
        Holder { client: self.client, owner: OwnerNumber(owner) }
    }

    fn shard(&self, object: ObjectId) -> &Mutex<Shard> {
        &self.shards[object.0 as usize % SHARDS]
    }

    /// Locks a range, or says who has it.
    pub(crate) fn lock(
        &self,
        vfs: &dyn Vfs,
        object: ObjectRef,
        by: Locker,
        (range, kind): (Range, Kind),
    ) -> Result<(), NotLocked> {
        let mut shard = self.shard(object.id).lock();
        if shard.mount != vfs.mount() {
            // It is over by now, or begins.
            return Err(FsError::Unavailable.into());
        }
        // Who has locked it for writing gives that up by this, and others may have it before this returns.
        let gives_up = kind == Kind::Read && shard.owners.contains_key(&(object.id, by.owner));
        if gives_up {
            self.note(&Entry::Locked { object, by, range, kind });
        }
        if let Err(refused) = vfs.lock_unopened(object, Lock { holder: self.holder(by.owner), range, kind }) {
            if gives_up {
                self.note(&Entry::Unlocked { object: object.id, owner: by.owner, range });
                self.note_all(vfs, object, by.owner, &shard);
            }
            return Err(refused);
        }
        let none = || Owner { object, pid: by.pid, through: SmallVec::new() };
        let owner = shard.owners.entry((object.id, by.owner)).or_insert_with(none);
        owner.pid = by.pid;
        if !owner.through.contains(&by.fh) {
            owner.through.push(by.fh);
        }
        self.note(&Entry::Locked { object, by, range, kind });
        Ok(())
    }

    /// What another process had locked through opens of this mount is locked here. Gives the files of which something is another one's by now.
    pub(crate) fn take_over(&self, vfs: &dyn Vfs, before: &State) -> Vec<ObjectId> {
        let mut lost = Vec::new();
        for ((_, number), owner) in &before.owners {
            let by = |fh: &u64| Locker { owner: *number, fh: *fh, pid: owner.pid };
            let lock = |fh| owner.ranges.iter().all(|range| self.lock(vfs, owner.object, by(fh), *range).is_ok());
            if !owner.through.iter().all(lock) {
                // All or nothing of it: the rest would keep others out of what is not told as whole.
                let _was_locked = self.unlock(vfs, owner.object.id, *number, Range::ALL);
                self.note(&Entry::Unlocked { object: owner.object.id, owner: *number, range: Range::ALL });
                lost.push(owner.object.id);
            }
        }
        lost.dedup();
        lost
    }

    /// Unlocks a range, what of it is locked. Gives the file, if anything was. [`FsError::Unavailable`]: this mount of the dataset is over.
    pub(crate) fn unlock(
        &self,
        vfs: &dyn Vfs,
        object: ObjectId,
        owner: u64,
        range: Range,
    ) -> Result<Option<ObjectRef>, FsError> {
        let mut shard = self.shard(object).lock();
        if shard.mount != vfs.mount() {
            // What stands here is in the table of another one.
            return Err(FsError::Unavailable);
        }
        let Some(object) = shard.owners.get(&(object, owner)).map(|owner| owner.object) else { return Ok(None) };
        let holder = self.holder(owner);
        // Nobody else has it before that is written down. Where it cannot be, as one range would be two, it is locked again.
        self.note(&Entry::Unlocked { object: object.id, owner, range });
        if let Err(error) = vfs.unlock_range(object, holder, range) {
            self.note_all(vfs, object, owner, &shard);
            return Err(error);
        }
        if !vfs.has_ranges(object, holder) {
            shard.owners.remove(&(object.id, owner));
        }
        Ok(Some(object))
    }

    /// All that an owner has locked of a file stands in the journal.
    fn note_all(&self, vfs: &dyn Vfs, object: ObjectRef, owner: u64, shard: &Shard) {
        let Some(Owner { pid, through, .. }) = shard.owners.get(&(object.id, owner)) else { return };
        let Some(fh) = through.first() else { return };
        let by = Locker { owner, fh: *fh, pid: *pid };
        if self.journal.is_some() {
            for Lock { range, kind, .. } in vfs.ranges(object, self.holder(owner), usize::MAX) {
                self.note(&Entry::Locked { object, by, range, kind });
            }
        }
    }

    /// A descriptor is closed: its process has nothing of the file any more.
    pub(crate) fn flush(&self, vfs: &dyn Vfs, object: ObjectId, owner: u64) -> Result<Option<ObjectRef>, FsError> {
        // Of all of it nothing is split, for which there might be no room.
        self.unlock(vfs, object, owner, Range::ALL)
    }

    /// An open is gone, with those that have locked through it alone.
    pub(crate) fn release(&self, vfs: Option<&dyn Vfs>, object: ObjectId, fh: u64) -> Option<ObjectRef> {
        let mut shard = self.shard(object).lock();
        let mut freed = None;
        for ((_, number), owner) in shard.owners.range_mut((object, 0)..=(object, u64::MAX)) {
            owner.through.retain(|through| *through != fh);
            if owner.through.is_empty() {
                freed = Some(owner.object);
                self.give_up(vfs, owner.object, *number);
            }
        }
        if freed.is_some() {
            shard.owners.retain(|_, owner| !owner.through.is_empty());
        }
        freed
    }

    /// All are gone. Gives the files.
    pub(crate) fn release_all(&self, vfs: Option<&dyn Vfs>) -> Vec<ObjectRef> {
        let mut freed = Vec::new();
        for shard in &self.shards {
            for ((_, number), owner) in std::mem::take(&mut shard.lock().owners) {
                self.give_up(vfs, owner.object, number);
                freed.push(owner.object);
            }
        }
        freed.dedup();
        freed
    }

    fn give_up(&self, vfs: Option<&dyn Vfs>, object: ObjectRef, owner: u64) {
        if let Some(vfs) = vfs {
            // Of all of it nothing is split.
            let _unlocked = vfs.unlock_range(object, self.holder(owner), Range::ALL);
        }
    }

    /// The dataset is mounted anew. Gives the files of which something was locked.
    pub(crate) fn lost_to(&self, mount: MountNumber) -> Vec<ObjectId> {
        let mut lost = Vec::new();
        for shard in &self.shards {
            let mut shard = shard.lock();
            shard.mount = mount;
            for (object, owner) in std::mem::take(&mut shard.owners).into_keys() {
                self.note(&Entry::Unlocked { object, owner, range: Range::ALL });
                lost.push(object);
            }
        }
        lost.dedup();
        lost
    }

    /// As which process an owner in the table is shown: none, if it is none of this mount's.
    pub(crate) fn pid(&self, object: ObjectId, holder: Holder) -> u32 {
        if holder.client != self.client {
            return 0;
        }
        self.shard(object).lock().owners.get(&(object, holder.owner.0)).map_or(0, |owner| owner.pid)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Weak;

    use tally_vfs::locks::Watch;
    use tally_vfs::model::{Model, ModelOptions};
    use tally_vfs::{CreateHow, Cred, Identity as _, Locks as _, Names as _, OpCtx, Series, SetAttr};

    use super::*;

    /// What the journal has when others hear that something is free.
    struct Heard {
        journal: Arc<Journal>,
        ranges: Mutex<Vec<Vec<(Range, Kind)>>>,
    }

    impl Watch for Heard {
        fn freed(&self, _: ObjectId, _: Range) {
            let state = self.journal.state().expect("it is whole");
            self.ranges.lock().push(state.owners.into_values().flat_map(|owner| owner.ranges).collect());
        }
    }

    /// Whoever is killed there leaves no more than others have not.
    #[test]
    fn what_is_given_up_is_written_down_before_others_can_have_it() {
        let vfs = Model::new(&ModelOptions::default());
        let root = Cred::root();
        let how = CreateHow::Unchecked(SetAttr::default());
        let file = vfs.create(OpCtx::of(&root), vfs.root(), b"f", &how).result.unwrap().object;
        let journal = Arc::new(Journal::begin(b"tank").unwrap());
        let locked = Locked::new(ClientNumber::of(Series::HERE, 1), Some(Arc::clone(&journal)));
        locked.lost_to(tally_vfs::Identity::mount(&vfs));
        let heard = Arc::new(Heard { journal, ranges: Mutex::default() });
        vfs.watch(&(Arc::downgrade(&heard) as Weak<dyn Watch>));
        let by = Locker { owner: 9, fh: 1, pid: 7 };
        locked.lock(&vfs, file, by, (Range::ALL, Kind::Write)).unwrap();
        locked.lock(&vfs, file, by, (Range::ALL, Kind::Read)).unwrap();
        locked.unlock(&vfs, file.id, 9, Range::ALL).unwrap();
        let heard = std::mem::take(&mut *heard.ranges.lock());
        assert_eq!(heard.last(), Some(&Vec::new()), "the end of all");
        assert!(heard.iter().all(|ranges| !ranges.contains(&(Range::ALL, Kind::Write))), "{heard:?}");
        assert!(heard.contains(&vec![(Range::ALL, Kind::Read)]), "{heard:?}");
    }
}

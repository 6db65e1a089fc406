//! A mounted dataset: how an operation takes its locks, and becomes a record in the log and a layer in memory. How it
//! is admitted stands in [`crate::admission`]. The operations themselves stand in [`crate::ops`], the reads in
//! [`crate::read`].
//!
//! Every operation goes the same way and no other (rules F3); what breaks if two steps are swapped stands there:
//!
//! ```text
//!  admit            room in the ring, for dirty bytes, in the pool: the only step that may have to wait, and
//!                   then it has nothing and is run again later
//!  lock             all objects it looks at, in id order
//!  read, validate   may read the disk
//!  hold             the open transaction group; never blocks
//!  append           the record takes its dseq and its place in the lane
//!  apply            the same record changes the layers; a COMMIT only notes there what the log has
//!  release          hold, then locks
//!  wait             in the caller: until the log (or the group) has it
//! ```
//!
//! No lock is held over the wait, so that thousands of creators in one directory share a few device writes.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use arc_swap::ArcSwap;
use parking_lot::RwLock;
use smallvec::SmallVec;
use tally_base::codec::{DecodeError, Reader};
use tally_base::{Dseq, Generation, Lsn, ObjectId, SlotMark, Time, Txg, Wait, round_to_sector};
use tally_intent::{Appended, Lane, Reservation};
use tally_store::dataset::{Dataset, DatasetIo, DatasetRoot, OBJECT_CHARGE};
use tally_store::key::{Class, Key};
use tally_store::pool::Pool;
use tally_store::txg::Brought;
use tally_vfs::{Change, FileKind, FsError, ObjectRef, Outcome, RememberedReply, ReplyKey};

use crate::admission::{Admitted, Refusal, Spare};
use crate::ahead::Ahead;
use crate::cost;
use crate::damage::{Damage, Part};
use crate::group::Groups;
use crate::inode::Inode;
use crate::mount::Mount;
use crate::object::{Locked, ObjectState, ObjectTable, RestsOn};
use crate::ops::{Ancestry, Following};
use crate::record::{self, InodeAfter, Record, RecordKind};
use crate::subtree::Standing;

/// From which transaction group on operations are logged, or no longer logged (rules F13).
#[derive(Clone, Copy, Debug)]
pub(crate) struct LogSwitch {
    pub(crate) before: bool,
    pub(crate) at: Txg,
    pub(crate) after: bool,
}

impl LogSwitch {
    pub(crate) fn logged(self, txg: Txg) -> bool {
        if txg < self.at { self.before } else { self.after }
    }
}

/// A dataset that is mounted: what comes in by the door is carried out here.
pub struct Filesystem {
    pub(crate) pool: Arc<Pool>,
    pub(crate) dataset: Arc<Dataset>,
    pub(crate) objects: ObjectTable,
    /// Of which files a WRITE places more than its own bytes.
    pub(crate) following: Following,
    pub(crate) log_switch: ArcSwap<LogSwitch>,
    /// Ids that were drawn, and may be lost, are never drawn again (rules F15).
    pub(crate) next_object: AtomicU64,
    pub(crate) next_dseq: AtomicU64,
    /// What WRITEs and COMMITs answer.
    pub(crate) verifier: u64,
    /// Cross-directory renames of directories, one at a time (rules F22).
    pub(crate) ancestry: Ancestry,
    /// Directories on which child datasets are mounted.
    pub(crate) mountpoints: RwLock<HashSet<ObjectId>>,
    /// What it has of groups that are not synced yet.
    pub(crate) groups: Groups,
    /// What it counts for with those above it, and what they may take together.
    pub(crate) standing: Standing,
    /// Which mount it is, and what clients have open of it.
    pub(crate) claims: Arc<Mount>,
    /// Somebody may claim again what he had open before a restart: any file may be open.
    pub(crate) holds_all: AtomicBool,
    /// Ids from this one on are not in the newest tree: of an object, or of a directory entry. Known to the fold alone.
    pub(crate) first_new: AtomicU64,
    /// What could not be read, and was not seen whole since.
    pub(crate) damage: Damage,
    /// Who reads ahead for the whole pool.
    pub(crate) ahead: Arc<Ahead>,
    /// Objects came into the table since the last group that was told of its end.
    pub(crate) is_looked_at: AtomicBool,
    /// Set in the group in which the dataset is destroyed: from then on nothing is logged for it, since its tombstone
    /// covers the log up to that group only.
    pub(crate) gone: AtomicBool,
}

impl Filesystem {
    /// Mounts a dataset of an imported pool.
    #[must_use]
    pub(crate) fn mount(pool: &Arc<Pool>, ahead: &Arc<Ahead>, mount: Arc<Mount>, dataset: &Arc<Dataset>) -> Arc<Self> {
        let root = dataset.root();
        let life = pool.life();
        let filesystem = Arc::new(Self {
            pool: Arc::clone(pool),
            dataset: Arc::clone(dataset),
            objects: ObjectTable::default(),
            following: Following::default(),
            log_switch: ArcSwap::from_pointee(LogSwitch { before: root.logged, at: root.log_from, after: root.logged }),
            next_object: AtomicU64::new(life.first_object(&root).0),
            next_dseq: AtomicU64::new(root.replay_dseq.next().0),
            verifier: life.verifier_of(&root),
            ancestry: Ancestry::default(),
            mountpoints: RwLock::default(),
            groups: Groups::default(),
            standing: Standing::new(&root, dataset.effective().quota),
            claims: mount,
            holds_all: AtomicBool::new(false),
            first_new: AtomicU64::new(root.next_object.0),
            damage: Damage::new(pool.damage_of(dataset.birth.id)),
            ahead: Arc::clone(ahead),
            is_looked_at: AtomicBool::new(false),
            gone: AtomicBool::new(false),
        });
        let client: Arc<dyn tally_store::dataset::DatasetClient> = Arc::clone(&filesystem) as _;
        dataset.attach(Arc::downgrade(&client));
        filesystem
    }

    /// The door to its blocks.
    #[inline]
    pub(crate) fn io(&self) -> &DatasetIo {
        self.dataset.io()
    }

    /// The lane that takes its records; `None` while that has no disk, and changes wait for their transaction group.
    pub(crate) fn lane(&self) -> Option<Arc<Lane>> {
        self.pool.lane(self.pool.home_of(&self.dataset.birth))
    }

    pub(crate) fn root(&self) -> ObjectRef {
        ObjectRef { id: self.dataset.birth.root_object, generation: self.dataset.birth.root_generation }
    }

    /// Whether an object is a child dataset's mount point.
    pub(crate) fn is_mountpoint(&self, id: ObjectId) -> bool {
        self.mountpoints.read().contains(&id)
    }

    /// Server time for a change that has a record, never the same twice and never going back.
    pub(crate) fn now(&self) -> Time {
        let unlogged = if self.log().is_some() { None } else { self.pool.issue_unlogged_time() };
        // Without a log there was room below the lease when this was admitted ([`Self::check_lease`]).
        unlogged.unwrap_or_else(|| self.pool.issue_time())
    }

    /// Server time for a change that has no record. Refused if a logged one has passed the lease since it was checked.
    pub(crate) fn unlogged_now(&self) -> Result<Time, Refusal> {
        self.pool.issue_unlogged_time().ok_or_else(|| Refusal::until(self.pool.txgs.next_sync()))
    }

    /// The log that records go to now.
    pub(crate) fn log(&self) -> Option<Arc<Lane>> {
        self.logs_now().then(|| self.lane()).flatten().filter(|lane| !lane.has_ended())
    }

    /// An id that was never used, for an object or a directory entry.
    pub(crate) fn draw_id(&self) -> ObjectId {
        ObjectId(self.next_object.fetch_add(1, Ordering::Relaxed))
    }

    pub(crate) fn draw_generation(&self) -> Generation {
        Generation(self.pool.platform.rng.next_u64())
    }

    /// Whether operations that begin now are logged.
    pub(crate) fn logs_now(&self) -> bool {
        self.log_switch.load().after
    }

    /// Locks objects and loads their inodes. On an error the locks are released.
    pub(crate) fn lock(&self, ids: &[ObjectId]) -> Result<Locked, FsError> {
        // If it is refused, somebody has to let go of the objects all the same: once a group is enough.
        if !self.is_looked_at.load(Ordering::Relaxed) {
            self.is_looked_at.store(true, Ordering::Relaxed);
            self.dataset.note_look();
        }
        let mut locked = Locked::lock(&self.objects, ids);
        let floor = self.change_floor(&self.dataset.root());
        for (id, state) in locked.states_mut() {
            self.load(id, state)?;
            if let Some(inode) = &mut state.inode {
                inode.change = inode.change.max(floor);
            }
        }
        Ok(locked)
    }

    pub(crate) fn load(&self, id: ObjectId, state: &mut ObjectState) -> Result<(), FsError> {
        if !state.loaded {
            state.inode = self.stored_inode(&self.dataset.root(), id)?;
            state.loaded = true;
        }
        Ok(())
    }

    /// No change that is shown is older: an older one may have been followed by others that are lost.
    pub(crate) fn change_floor(&self, root: &DatasetRoot) -> Time {
        self.pool.life().change_floor.max(root.change_floor)
    }

    /// The inode in the tree.
    pub(crate) fn stored_inode(&self, root: &DatasetRoot, id: ObjectId) -> Result<Option<Inode>, FsError> {
        let key = Key::new(Class::Inode, id.0, 0, 0);
        let damaged = |error: &dyn std::fmt::Display| self.damaged(id, Part::Attributes, error);
        let Some(value) = self.io().get(&root.tree, &key).map_err(|error| damaged(&error))? else {
            return Ok(None);
        };
        let inode = Inode::decode(&mut Reader::new(&value, "inode")).map_err(|error| match error {
            DecodeError::Malformed(error) => damaged(&error),
            DecodeError::Newer(what) => self.newer(id, what),
        })?;
        if id >= root.next_object {
            return Err(damaged(&"its id was never drawn"));
        }
        // An orphan waits for the reaper and is nobody's any more.
        Ok((inode.nlink > 0).then_some(inode))
    }

    /// Reports what a newer program has written, which is no damage, and turns it into an error for the client.
    #[cold]
    pub(crate) fn newer(&self, id: ObjectId, what: &'static str) -> FsError {
        self.broken(&format!(
            "object {id} is {what}, written by a newer version of tally: it is left as it is; use that version to have it"
        ))
    }

    /// Reports damage, and turns it into an error for the client.
    pub(crate) fn broken(&self, error: &dyn std::fmt::Display) -> FsError {
        tracing::error!(dataset = %self.dataset.birth.id, "{error}");
        FsError::Io
    }

    /// Carries `record` out: hold, append, apply. The locks stay with the caller, who releases them before it waits.
    pub(crate) fn carry_out(&self, admitted: Admitted, locked: &mut Locked, kind: RecordKind, record: Record) -> Wait {
        self.carry_out_all(admitted, locked, SmallVec::from_elem((kind, record), 1))
    }

    /// Carries several records of one operation out, in one transaction group.
    pub(crate) fn carry_out_all(
        &self,
        admitted: Admitted,
        locked: &mut Locked,
        records: SmallVec<[(RecordKind, Record); 1]>,
    ) -> Wait {
        let mut spare = admitted.spare;
        self.append_all(admitted, locked, records, |locked, txg, record, is_logged| {
            self.charge_fold(locked, txg, &record, is_logged, &mut spare);
            self.note_shrinking(txg, locked, &record);
            self.apply(locked, txg, record, is_logged);
        })
    }

    /// Appends records of one operation to the log, in one transaction group. `after_each` brings memory to what the record
    /// says, and is told whether the log has taken it. Gives what the reply waits for.
    pub(crate) fn append_all(
        &self,
        mut admitted: Admitted,
        locked: &mut Locked,
        records: SmallVec<[(RecordKind, Record); 1]>,
        mut after_each: impl FnMut(&mut Locked, Txg, Record, bool),
    ) -> Wait {
        let mut rings = std::mem::take(&mut admitted.rings).into_iter();
        self.with_hold(admitted, |txg| {
            let switch = **self.log_switch.load();
            let logged = switch.logged(txg);
            // A record above a change that the log does not have could not be replayed.
            let sound = logged && locked.unlogged() <= self.pool.txgs.last_synced();
            let (mut last, mut record_bytes) = (Lsn(0), 0);
            let mut all_logged = logged;
            for (kind, record) in records {
                record.assert_sound(|object| locked.state(object).inode.as_ref());
                let appended = if sound { self.append(rings.next(), txg, kind, &record) } else { None };
                all_logged &= appended.is_some();
                after_each(locked, txg, record, appended.is_some());
                if let Some(appended) = appended {
                    locked.states_mut().for_each(|(_, state)| state.note_record(appended));
                    last = last.max(appended.lsn);
                    record_bytes += appended.body_bytes;
                }
            }
            for (_, state) in locked.states_mut() {
                if logged && !all_logged {
                    state.unlogged = txg;
                }
            }
            self.wait_of(switch, txg, all_logged.then_some((last, record_bytes)))
        })
    }

    /// Counts what the dataset may shrink by, for those who meet its quota before the group is folded.
    fn note_shrinking(&self, txg: Txg, locked: &Locked, record: &Record) {
        if !self.has_quota() {
            return;
        }
        let shrinks = |after: &InodeAfter| {
            let before = locked.state(after.object).inode.as_ref()?;
            let unreserved = before.reserved_room();
            Some(match &after.inode {
                // What is cut off may be all that was there: the rest may be a hole, or hardly anything once
                // compressed. And what was written since the last fold counts, which nobody has seen compressed.
                Some(inode) if inode.kind == FileKind::File && inode.size < before.size => {
                    most_bytes(before).saturating_add(unreserved)
                }
                Some(inode) => before.charged().saturating_sub(inode.charged()),
                None => most_bytes(before).saturating_add(unreserved).saturating_add(OBJECT_CHARGE),
            })
        };
        let punched = record.punch.as_ref().and_then(|(object, range)| {
            let before = locked.state(*object).inode.as_ref()?;
            Some(most_bytes(before).saturating_add(before.reserved_room()).min(2 * (range.end - range.start)))
        });
        let bytes = record.inodes.iter().filter_map(shrinks).chain(punched).fold(0, u64::saturating_add);
        self.standing.note(txg, 0, bytes);
        let mut groups = self.groups.lock();
        let pending = &mut groups.entry(txg).or_default().pending;
        pending.shrink_bytes = pending.shrink_bytes.saturating_add(bytes);
    }

    /// Tells the group what a record that is about to be applied really costs its fold. What the group has counted
    /// before goes back, from the `spare_bytes` that the operation was admitted with.
    pub(crate) fn charge_fold(&self, locked: &Locked, txg: Txg, record: &Record, takes_ring: bool, spare: &mut Spare) {
        let Some(cost) = cost::of_record(locked, txg, record) else { return };
        let known_bytes = cost.known_bytes.min(spare.fold_bytes);
        spare.fold_bytes -= known_bytes;
        let undrawn_bytes = known_bytes.min(spare.drawn_bytes);
        spare.drawn_bytes -= undrawn_bytes;
        if undrawn_bytes > 0 {
            // Before its room goes back, or somebody would be let in on both.
            self.pool.txgs.draw_less(txg, undrawn_bytes);
        }
        let brought = cost::brought(locked, txg, record, takes_ring);
        if cost.patch_bytes != 0 || known_bytes > 0 || brought.more_bytes > 0 {
            self.pool.txgs.charge_fold(txg, cost.patch_bytes, known_bytes, brought);
        }
    }

    /// Gives back what was asked for so that a record can be replayed, as far as its group has counted it already.
    pub(crate) fn charge_replay(&self, locked: &Locked, txg: Txg, record: &Record, spare_bytes: &mut u64) {
        let known_bytes = cost::of_record(locked, txg, record).map_or(0, |cost| cost.known_bytes.min(*spare_bytes));
        *spare_bytes -= known_bytes;
        if known_bytes > 0 {
            self.pool.txgs.charge_fold(txg, 0, known_bytes, Brought::default());
        }
    }

    /// Runs `change` under a hold on the open transaction group, which gets the admitted bytes.
    pub(crate) fn with_hold<R>(&self, admitted: Admitted, change: impl FnOnce(Txg) -> R) -> R {
        let hold = self.pool.txgs.hold(Some(admitted.dirty));
        let txg = hold.txg();
        {
            let mut groups = self.groups.lock();
            let pending = &mut groups.entry(txg).or_default().pending;
            pending.bytes += admitted.pending.bytes;
            pending.growth_bytes += admitted.pending.growth_bytes;
        }
        if admitted.pending.growth_bytes > 0 {
            self.standing.note(txg, admitted.pending.growth_bytes, 0);
        }
        self.dataset.note_change(txg);
        // The log may have a record that memory has not, or memory half of a change: neither may be built upon.
        let _both_or_none = self
            .pool
            .suspends_on_panic("a change was carried out in part because of a bug; please report it with the log");
        change(txg)
    }

    /// Whether the switch to or from `disabled` is not on disk yet: only a whole group can be relied on then.
    pub(crate) fn is_under_way(&self, switch: LogSwitch, txg: Txg) -> bool {
        txg >= switch.at && self.pool.txgs.last_synced().next() < switch.at
    }

    /// What the reply to stable changes waits for that only group `txg` makes durable.
    pub(crate) fn wait_for_group(&self, txg: Txg) -> Wait {
        self.wait_of(**self.log_switch.load(), txg, None)
    }

    /// What the reply to an operation of `txg` waits for. `logged`: its last record, and the bytes of all of them, if
    /// the log has taken them all.
    fn wait_of(&self, switch: LogSwitch, txg: Txg, logged: Option<(Lsn, u64)>) -> Wait {
        if self.is_under_way(switch, txg) {
            return self.pool.txgs.promise(txg);
        }
        if !switch.logged(txg) {
            self.expose(txg);
            return Wait::Ready;
        }
        // A lane that failed, or has no disk, takes no records: the group is the promise then (rules F25).
        match logged.and_then(|logged| Some((self.lane()?, logged))) {
            Some((lane, (last, record_bytes))) => self.pool.log_promise(&lane, last, record_bytes, txg),
            None => self.pool.txgs.promise(txg),
        }
    }

    fn expose(&self, txg: Txg) {
        self.dataset.note_change(txg);
        // Only the first of a group counts: it is the oldest until the group is synced.
        self.groups.lock().entry(txg).or_default().exposed_since.get_or_insert_with(|| self.pool.platform.clock.now());
    }

    fn append(&self, ring: Option<Reservation>, txg: Txg, kind: RecordKind, record: &Record) -> Option<Appended> {
        if self.gone.load(Ordering::Acquire) {
            return None;
        }
        let head = record.encode_head();
        let mut parts: SmallVec<[&[u8]; 4]> = SmallVec::new();
        parts.push(&head);
        parts.extend(record.data_parts());
        let id = self.dataset.birth.id;
        // The room is in the lane of the admission, which may have lost its disk, and got another, since.
        let ring = ring?;
        ring.lane().append(ring, id, &self.next_dseq, txg, record.name(kind), &parts).ok()
    }

    /// Changes the layers of `txg` as `record` says: the one place where records change them, for operations and for replay.
    pub(crate) fn apply(&self, locked: &mut Locked, txg: Txg, record: Record, logged: bool) {
        let mut dirty: SmallVec<[ObjectId; 4]> = SmallVec::new();
        for after in record.inodes {
            let state = locked.state_mut(after.object);
            let layer = state.layer_mut(txg);
            if after.inode.is_none() {
                layer.data.discard();
                // What was set in this very group is nobody's to free: it is not in the tree yet.
                layer.keys.retain(|key, _| key.class != Class::Xattr);
            }
            layer.inode.clone_from(&after.inode);
            state.inode = after.inode;
            state.loaded = true;
            dirty.push(after.object);
        }
        for (key, value) in record.keys {
            locked.state_mut(ObjectId(key.object)).layer_mut(txg).keys.insert(key, value);
            dirty.push(ObjectId(key.object));
        }
        if let Some((object, size)) = record.truncate {
            locked.state_mut(object).layer_mut(txg).data.truncate(size);
            dirty.push(object);
        }
        if let Some((object, range)) = record.punch {
            locked.state_mut(object).layer_mut(txg).data.punch(range);
            dirty.push(object);
        }
        // What is reserved stands in the inode.
        dirty.extend(record.reserve.map(|(object, _)| object));
        if let Some(data) = record.data {
            let layer = locked.state_mut(data.object).layer_mut(txg);
            for (offset, bytes) in data.pieces {
                layer.data.insert(offset, crate::layer::Piece::Memory { bytes, logged });
            }
            dirty.push(data.object);
        }
        if let Some((key, reply)) = record.reply {
            let now = self.pool.time_in_service();
            self.pool.replies.remember(self.dataset.birth.id, txg, now, key.0, record::encode_reply(reply));
        }
        if let Some((mark, reply)) = record.mark {
            let now = self.pool.time_in_service();
            self.pool.marks.remember(self.dataset.birth.id, txg, now, &mark, record::encode_reply(reply));
        }
        self.groups.lock().entry(txg).or_default().dirty.extend(dirty);
    }

    /// The outcome of an operation that changed nothing: it still waits for what it looked at (rules F9).
    pub(crate) fn refused<T>(&self, locked: &Locked, changes: SmallVec<[Change; 2]>, error: FsError) -> Outcome<T> {
        Outcome { result: Err(error), changes, wait: self.wait_for_seen(locked) }
    }

    /// The wait for everything that the locked objects rest on.
    pub(crate) fn wait_for_seen(&self, locked: &Locked) -> Wait {
        self.wait_for(locked.rests_on())
    }

    /// The wait for what an answer rests on.
    pub(crate) fn wait_for(&self, seen: RestsOn) -> Wait {
        let open = self.pool.txgs.open();
        if seen.unlogged > self.pool.txgs.last_synced() || self.is_under_way(**self.log_switch.load(), open) {
            return self.pool.txgs.promise(open);
        }
        let last = seen.last_lsn;
        if last == Lsn(0) {
            return Wait::Ready;
        }
        self.lane().map_or_else(|| self.pool.txgs.promise(open), |lane| self.pool.log_promise(&lane, last, 0, open))
    }

    /// The answer that was given to a request with this key before, from a sender whose number `is_his` says yes to.
    pub(crate) fn remembered_of(&self, key: &ReplyKey, is_his: &dyn Fn(u64) -> bool) -> Option<RememberedReply> {
        // What a suspended pool remembers may never have become durable: its client was told so.
        self.pool.check_serving().ok()?;
        let now = self.pool.time_in_service();
        let value = self.pool.replies.recall(self.dataset.birth.id, now, &key.0, is_his)?;
        record::decode_reply(&mut Reader::new(&value, "remembered reply")).ok()
    }

    /// The answer that was given to an operation of a session.
    pub(crate) fn performed(&self, mark: &SlotMark) -> Option<RememberedReply> {
        // As above.
        self.pool.check_serving().ok()?;
        let value = self.pool.marks.recall(self.dataset.birth.id, mark)?;
        record::decode_reply(&mut Reader::new(&value, "mark of a slot")).ok()
    }

    /// Bytes that are acknowledged but not durable, and since when, in a dataset with `sync=disabled`.
    #[must_use]
    pub fn exposure(&self) -> (u64, Option<Time>) {
        let groups = self.groups.lock();
        let exposed = || groups.iter().filter_map(|(txg, group)| Some((*txg, group.exposed_since?)));
        // What was acknowledged while its group was being synced is kept a moment too long.
        let synced = self.pool.txgs.last_synced();
        let Some((_, since)) = exposed().find(|(txg, _)| *txg > synced) else { return (0, None) };
        // A COMMIT exposes what older groups hold of its file, too.
        let newest = exposed().next_back().map_or(Txg(0), |(txg, _)| txg);
        (groups.range(..=newest).map(|(_, group)| group.pending.bytes).sum(), Some(since))
    }

    /// The highest position in the dataset's history that was replayed, by `txg`, or that a new record will follow.
    pub(crate) fn resume_log_after(&self, dseq: Dseq, txg: Txg) {
        self.dataset.note_change(txg);
        self.groups.lock().entry(txg).or_default().replayed = Some(dseq);
        self.next_dseq.fetch_max(dseq.next().0, Ordering::Relaxed);
    }
}

/// What a file may take on disk, at most, whether or not it was folded as it is.
fn most_bytes(inode: &Inode) -> u64 {
    let content = if inode.kind == FileKind::File { inode.used.max(round_to_sector(inode.size)) } else { inode.used };
    content.saturating_add(inode.xattrs.bytes.into())
}

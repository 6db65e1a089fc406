//! One transaction group to disk; the steps stand in the head of [`super`].

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use tally_base::{Broken, DatasetId, Txg};
use tally_members::roster::RosterError;
use tally_members::uberblock::Uberblock;
use tally_members::vdev::{LegState, Vdev, VdevLeg};

use super::catalog::{Entries, key_of};
use super::root::PoolRoot;
use super::window::{RootArea, Window};
use super::{Pool, Syncing};
use crate::alloc::AllocRoot;
use crate::block::BlockError;
use crate::bp::{BlockKind, BlockPtr, Compression};
use crate::dataset::{Dataset, DatasetRoot, DatasetWriter};
use crate::run::{RedundantMetadata, RunWriter};

/// Why a transaction group was not synced. The pool is suspended then.
#[derive(Debug, thiserror::Error)]
pub enum SyncError {
    /// It was suspended before.
    #[error("{0}")]
    Suspended(Broken),
    /// It is imported for reading only.
    #[error("the pool is imported read-only")]
    ReadOnly,
    /// It was exported or destroyed, and may be somebody else's by now.
    #[error("the pool was put away; import it again")]
    PutAway,
    /// A block could not be read or written.
    #[error("{0}")]
    Block(#[from] BlockError),
    /// The uberblock or a label could not be written.
    #[error("{0}")]
    Roster(#[from] RosterError),
    /// No time behind it could be written down.
    #[error("the clock is beyond the year 2250, and nothing can be stamped with that: set it right first")]
    Clock,
}

/// See [`Pool::suspends_on_panic`].
pub struct SuspendsOnPanic<'a> {
    pub(super) pool: &'a Pool,
    pub(super) why: &'static str,
}

impl Drop for SuspendsOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.pool.suspend(self.why);
        }
    }
}

/// Whether a root without its allocator's part is read in the form in which it was written. Its numbers may be others where
/// faulty software has made them: those that cannot be are refused.
fn is_read_as_written(head: &[u8]) -> bool {
    let mut bytes = head.to_vec();
    AllocRoot::empty().encode(&mut bytes);
    PoolRoot::decode(&bytes.into()).map_or(true, |(root, _)| root.encode() == head)
}

/// A dataset with the root that the group gives it; `None`: the one that it has.
type Folded = (Arc<Dataset>, Option<DatasetRoot>);

impl Syncing {
    /// So much room is promised by what a dataset's newest root says.
    pub(super) fn promise(&mut self, dataset: DatasetId, bytes: u64) {
        match bytes {
            0 => self.promised.remove(&dataset),
            bytes => self.promised.insert(dataset, bytes),
        };
    }

    /// What all datasets promise.
    pub(super) fn promised_bytes(&self) -> u64 {
        self.promised.values().fold(0, |sum, bytes| sum.saturating_add(*bytes))
    }

    /// Up to which group the log's records are in the trees once `txg` is synced (rules F1).
    fn log_txg(&self, txg: Txg) -> Txg {
        if self.unreplayed.is_none() { txg } else { self.log_txg }
    }
}

impl Pool {
    /// Closes the open group and makes it durable. Gives its number.
    pub fn sync(&self) -> Result<Txg, SyncError> {
        let mut syncing = self.lock_for_group();
        self.sync_locked(&mut syncing, false)
    }

    /// Syncs everything, says in the labels that the pool was put away, and takes nothing any more.
    pub fn export(&self) -> Result<(), SyncError> {
        self.put_away(false)
    }

    /// Gives the pool up: like an export, but it is not offered for import again.
    pub fn destroy(&self) -> Result<(), SyncError> {
        self.put_away(true)
    }

    /// Whatever goes wrong, nothing is written afterwards, nobody is left waiting, and all threads of the pool end: a pool
    /// that was suspended can be let go, and imported again once its disks are back.
    fn put_away(&self, destroy: bool) -> Result<(), SyncError> {
        self.closed.store(true, Ordering::Release);
        self.txgs.stop();
        let mut syncing = self.lock_for_group();
        let retired = if self.read_only { Ok(()) } else { self.retire(&mut syncing, destroy) };
        // Whoever waits for the lock, or comes later, must find that there is nothing left to sync.
        syncing.put_away = true;
        self.txgs.fail(Broken("the pool was put away".into()));
        for lane in self.lanes().iter() {
            lane.close();
        }
        retired
    }

    /// The last group, and the word in the labels.
    fn retire(&self, syncing: &mut Syncing, destroy: bool) -> Result<(), SyncError> {
        // Operations that were admitted before may still be on their way to a hold.
        while self.txgs.dirty_bytes() > 0 {
            self.sync_locked(syncing, false)?;
        }
        let txg = self.sync_locked(syncing, true)?;
        if destroy {
            self.roster.destroy(txg)?
        } else {
            self.roster.export(txg)?
        }
        Ok(())
    }

    pub(super) fn sync_locked(&self, syncing: &mut Syncing, clean: bool) -> Result<Txg, SyncError> {
        self.check_syncing(syncing)?;
        let clock = &self.platform.clock;
        let closing = clock.monotonic();
        let txg = self.txgs.close();
        let quiet = clock.monotonic();
        let dirty_bytes = self.txgs.dirty_bytes_of(txg);
        // A group that was closed and whose sync panicked is lost from memory: no later one may become durable above it.
        let _all_or_nothing = self.suspends_on_panic(
            "a transaction group could not be synced because of a bug; please report it with the log",
        );
        // Groups are closed here only, under the lock, and a group that was closed and not synced has suspended the pool.
        assert_eq!(txg, self.txgs.last_synced().next(), "every group is synced before the next one is closed");
        assert!(txg > syncing.uberblock.txg, "the first group of an import is above all that were seen (rules F1)");
        // Also records of this group that nobody waits for, before its uberblock says where the rings begin.
        self.lanes().iter().for_each(|lane| lane.write_gathered());
        match self.write_group(syncing, txg, clean) {
            Ok(folded) => {
                let synced = clock.monotonic();
                self.history.note(txg, dirty_bytes, [closing, quiet, synced]);
                self.txgs.keep_pace(txg, synced.saturating_sub(quiet));
                self.break_even.note(dirty_bytes, synced.saturating_sub(quiet), &self.lanes());
                self.publish(syncing, txg, folded);
                Ok(txg)
            }
            Err(error) => {
                self.suspend(&error.to_string());
                Err(error)
            }
        }
    }

    /// Whether another group can be synced at all.
    pub(super) fn check_syncing(&self, syncing: &Syncing) -> Result<(), SyncError> {
        if self.read_only {
            return Err(SyncError::ReadOnly);
        }
        if syncing.put_away {
            return Err(SyncError::PutAway);
        }
        self.fault.get().map_or(Ok(()), |fault| Err(SyncError::Suspended(fault.clone())))
    }

    fn write_group(&self, syncing: &mut Syncing, txg: Txg, clean: bool) -> Result<Vec<Folded>, SyncError> {
        self.keep_reached();
        let txgs = Arc::clone(&self.txgs);
        let out = self.io.writer(txg).telling(move |bytes| txgs.wrote(txg, bytes));
        let mut out = out.with_copies(self.redundant_metadata(), self.can_spare());
        let folded = self.fold_datasets(syncing, txg, &mut out)?;
        self.fold_replies(syncing, txg, &mut out)?;
        if let Some(old) = syncing.root.take() {
            self.io.free(&old, txg);
        }
        // A tombstone is needed while the log may hold records of its dataset: as long as the oldest importable
        // uberblock's lanes do, which is the previous one's.
        self.tombstones.lock().retain(|_, destroyed| txg.0 <= destroyed.0 + 2);
        let log_txg = syncing.log_txg(txg);
        let mut head = self.encode_root(syncing, log_txg);
        debug_assert!(is_read_as_written(&head), "what the root says is what an import will read");
        let head_bytes = head.len();
        let (root, _) = out.commit(head_bytes, |alloc| {
            alloc.encode(&mut head);
            head
        })?;
        // Up to the next uberblock nothing of what this one calls whole is used again (rules S55).
        syncing.window = self.window_with(syncing, txg);
        assert_eq!(root.birth, txg, "the root was written by this group's own writer");
        assert_eq!(
            self.io.allocator().persisted_txg(),
            txg,
            "the space maps were written with the root that names them"
        );
        self.flush_blocks(txg)?;
        let uberblock = self.uberblock_of(syncing, txg, &root, clean);
        assert!(uberblock.time_lease > uberblock.time, "the lease counts from what was issued (rules F14)");
        for (lane, checkpoint) in &uberblock.lanes {
            // A lane's tail is moved by releases only, and those go by uberblocks that are durable.
            let before = syncing.uberblock.lanes.iter().find(|(id, old)| id == lane && old.epoch == checkpoint.epoch);
            assert!(
                before.is_none_or(|(_, old)| old.tail_pos <= checkpoint.tail_pos),
                "the tail of lane {lane} went back: what was trimmed may be overwritten"
            );
        }
        self.roster.write_uberblock(&uberblock)?;
        self.time.set_lease(uberblock.time_lease);
        if syncing.unreplayed.is_none() {
            self.release_rings(&uberblock);
        }
        syncing.root = Some(root);
        syncing.log_txg = log_txg;
        syncing.previous = uberblock.hash();
        syncing.uberblock = uberblock;
        Ok(folded)
    }

    /// A vdev of one disk has nothing else to repair a leaf from, and neither has a mirror of which one disk counts.
    fn redundant_metadata(&self) -> RedundantMetadata {
        let counts = |leg: &Arc<VdevLeg>| leg.state() == LegState::Online;
        let is_single = |vdev: &Arc<Vdev>| vdev.legs().iter().filter(|leg| counts(leg)).count() < 2;
        if self.roster.data_vdevs().any(is_single) { RedundantMetadata::All } else { RedundantMetadata::Most }
    }

    /// What the uberblock of `txg` will name is durable when this returns (I2), on every leg that is not struck off.
    fn flush_blocks(&self, txg: Txg) -> Result<(), BlockError> {
        let written: Vec<_> = self.roster.data_legs().map(|leg| (leg.write_count(), leg)).collect();
        self.io.flush(self.platform.fanout.as_ref())?;
        let is_durable = |(writes, leg): &(u64, Arc<VdevLeg>)| !leg.takes_writes() || leg.has_flushed(*writes);
        assert!(written.iter().all(is_durable), "what uberblock {txg} will name is in a cache");
        Ok(())
    }

    /// Folds the datasets that have changed, and takes their entries into the catalog.
    fn fold_datasets(&self, syncing: &mut Syncing, txg: Txg, out: &mut RunWriter) -> Result<Vec<Folded>, SyncError> {
        let (changed, gone) = self.changed_datasets(txg);
        gone.iter().for_each(|id| syncing.promise(*id, 0));
        let (mut folded, mut entries) = (Vec::new(), Entries::new());
        for dataset in changed {
            let old = dataset.root();
            let changed = dataset.client().filter(|client| client.has_changed(txg, &old));
            let writer = |out| DatasetWriter::new(dataset.io(), out);
            let root = changed.map(|client| client.fold(txg, &old, writer(out))).transpose()?;
            entries.insert(key_of(dataset.birth.id), dataset.entry(root.as_ref().unwrap_or(&old)));
            folded.push((dataset, root));
        }
        let mut gone: Vec<_> = gone.into_iter().map(key_of).collect();
        syncing.catalog.note_datasets(&entries, &gone);
        debug_assert!(self.all_is_told(syncing, txg, &folded), "a change of a dataset was not noted");
        // Behind the folds, which may have met damage; what is learnt from here on is the next group's (rules S56).
        let (kept, forgotten) = self.kept.take();
        entries.extend(kept);
        gone.extend(forgotten);
        self.bound_marks();
        let (marks, forgotten) = self.marks.take(txg, self.time_in_service());
        entries.extend(marks);
        gone.extend(forgotten);
        let marks = || self.marks.all(txg);
        let all = || self.entries(&folded).into_iter().chain(self.kept.all()).chain(marks()).collect();
        syncing.catalog.fold(&self.io, out, entries, &gone, all)?;
        Ok(folded)
    }

    /// The datasets that `txg` may have changed, in the order of ids, and those that it has removed. No others are looked at (rules S2).
    fn changed_datasets(&self, txg: Txg) -> (Vec<Arc<Dataset>>, Vec<DatasetId>) {
        let noted = self.changes.take(txg);
        let datasets = self.datasets.read();
        let (there, gone): (Vec<_>, Vec<_>) = noted.into_iter().partition(|id| datasets.contains_key(id));
        let changed = there.iter().filter_map(|id| datasets.get(id).cloned()).collect();
        (changed, gone)
    }

    /// The entries of all datasets, with the roots that a group gives them.
    pub(super) fn entries(&self, folded: &[Folded]) -> Entries {
        let entry_of = |dataset: &Arc<Dataset>| {
            let at = folded.binary_search_by_key(&dataset.birth.id, |(folded, _)| folded.birth.id);
            let new = at.ok().and_then(|at| folded[at].1.as_ref());
            new.map_or_else(|| dataset.entry(&dataset.root()), |new| dataset.entry(new))
        };
        self.datasets.read().values().map(|dataset| (key_of(dataset.birth.id), entry_of(dataset))).collect()
    }

    /// Whether the catalog was told of every dataset what it is, and none has changes that nobody folds.
    fn all_is_told(&self, syncing: &Syncing, txg: Txg, folded: &[Folded]) -> bool {
        let is_folded = |id| folded.binary_search_by_key(&id, |(folded, _)| folded.birth.id).is_ok();
        let holds_changes = |dataset: &Arc<Dataset>| dataset.client().is_some_and(|it| it.holds_changes_of(txg));
        let are_all_folded = self.datasets().iter().all(|it| is_folded(it.birth.id) || !holds_changes(it));
        are_all_folded && syncing.catalog.was_told(&self.entries(folded))
    }

    fn fold_replies(&self, syncing: &mut Syncing, txg: Txg, out: &mut RunWriter) -> Result<(), SyncError> {
        for (bucket, content) in self.replies.fold(txg) {
            let block = out.put_bytes(BlockKind::Replies, content.into(), Compression::Lz4)?;
            if let Some(old) = syncing.reply_blocks[bucket].replace(block) {
                self.io.free(&old, txg);
            }
        }
        Ok(())
    }

    /// The root without the allocator's part.
    fn encode_root(&self, syncing: &Syncing, log_txg: Txg) -> Vec<u8> {
        assert!(syncing.log_txg <= log_txg, "what is in the trees stays in them: the log's cursor does not go back");
        let root = PoolRoot {
            next_dataset: self.next_dataset.load(Ordering::Relaxed),
            log_txg,
            life: self.life(),
            catalog: syncing.catalog.tree().clone(),
            reply_blocks: syncing.reply_blocks,
            tombstones: self.tombstones.lock().clone(),
        };
        root.encode()
    }

    /// The roots that stay whole until the uberblock after that of `txg`.
    fn window_with(&self, syncing: &Syncing, txg: Txg) -> Window {
        let alloc = self.io.allocator();
        let (free, is_short) = self.room_for_old_roots();
        let depth = syncing.window.depth_for(free, is_short, |from, to| alloc.waiting_sectors(from, to));
        syncing.window.with(txg, depth)
    }

    fn uberblock_of(&self, syncing: &Syncing, txg: Txg, root: &BlockPtr, clean: bool) -> Uberblock {
        let now = self.issue_time();
        Uberblock {
            txg,
            previous: syncing.previous,
            time: now,
            time_lease: self.time.lease_from(now),
            root: RootArea { root: *root, depth: syncing.window.depth() }.encode(),
            lanes: self.checkpoints(syncing, txg, clean),
            clean,
            config_sequence: self.roster.config().sequence,
            ..syncing.uberblock.clone()
        }
    }

    fn publish(&self, syncing: &mut Syncing, txg: Txg, folded: Vec<Folded>) {
        for (dataset, root) in folded {
            let Some(root) = root else { continue };
            syncing.promise(dataset.birth.id, root.reserved_bytes);
            let old = dataset.publish(root);
            let reader: Weak<DatasetRoot> = Arc::downgrade(&old);
            syncing.old_roots.push((Txg(txg.0 - 1), reader));
            if let Some(client) = dataset.client() {
                client.synced(txg);
                if client.is_due_again(&dataset.root()) {
                    dataset.note_change(txg.next());
                }
            }
        }
        self.io.forget_freed();
        self.release_frees(syncing);
        self.txgs.synced(txg, syncing.promised_bytes());
        self.pace_walks();
        self.io.allocator().ask_behind(txg);
    }
}

//! The fold: one transaction group's layers become blocks and tree changes.
//!
//! Only here is old content read to complete a partial block, and only here is decided how a file is laid out: up to
//! [`SMALL_MAX`] bytes under one key of the tree, so that thousands of small files reach the pool as a few long
//! writes; beyond, in blocks of the file's record size, each under its own extent key. A file changes sides once,
//! when it outgrows the limit.
//!
//! A closed layer never changes, so the fold holds no lock while it reads and writes.
//!
//! **What cannot be read ends nothing.** Operations do not read what the fold will read, or each small overwrite of
//! cold data would wait for a disk; so a block that has rotted is met here first, above changes that were acknowledged.
//! They are carried out as far as can be, and nothing is ever made up (docs/design/0015):
//! - The rest of a partly written block is unknown: the block is written with what is known and given up
//!   ([`BlockPtr::given_up`]), so that it cannot be read until all of it is written in one group.
//! - What a leaf of extents named is not freed, and counted. Extents behind a cut must not come back, so that leaf is
//!   given up.
//! - An inode is the newest one that memory has. The tree takes it in around its leaf
//!   ([`tally_store::tree::Around`]).

mod content;
mod extents;
mod removal;
mod reserved;
mod stored;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::atomic::Ordering;

use tally_base::{LongWork, ObjectId, Txg};
use tally_store::block::BlockError;
use tally_store::bp::{BlockPtr, Compression, Dva};
use tally_store::dataset::{ACCOUNT_MAX, DatasetClient, DatasetRoot, DatasetWriter, OBJECT_CHARGE};
use tally_store::key::{Class, Key};
use tally_store::tree::{Around, Change};
use tally_vfs::FileKind;

pub(crate) use self::content::SMALL_MAX;
pub(crate) use self::extents::{SHARED_PIECE_BYTES_MIN, whole_blocks};
pub(crate) use self::removal::{OrphanKind, extents_at_most};
use self::reserved::Weighing;
use self::stored::{Stored, absence};
use crate::filesystem::Filesystem;
use crate::group::Folded;
use crate::inode::{Inode, Layout};
use crate::layer::Layer;

/// What the fold of one group collects.
struct Fold<'a> {
    fs: &'a Filesystem,
    old: &'a DatasetRoot,
    out: DatasetWriter<'a>,
    compression: Compression,
    changes: Vec<(Key, Change)>,
    /// No id from this one on is in the old tree.
    first_new: u64,
    /// Nodes of the old tree that could not be read, and hold what must not come back; and for each of them a key in
    /// it.
    lost: Vec<BlockPtr>,
    lost_keys: BTreeSet<Key>,
    /// Files that were cut, and from which extent on nothing is left of what they had.
    cuts: HashMap<ObjectId, u64>,
    folded: Vec<Folded>,
    used_bytes: u64,
    object_count: u64,
    orphan_count: u64,
    reserved_bytes: u64,
    /// What is taken of what is reserved of the file that is folded, if anything is.
    weighing: Option<Weighing>,
    /// Extents of what was removed or cut that this group may still look at.
    reap_extents_left: usize,
    /// Extents that it may still count for what is reserved.
    weigh_extents_left: usize,
}

impl DatasetClient for Filesystem {
    fn has_changed(&self, txg: Txg, root: &DatasetRoot) -> bool {
        self.holds_changes_of(txg)
            || root.orphan_count > 0
            || self.next_object.load(Ordering::Relaxed) != self.pool.life().first_object(root).0
            || self.logging_after(txg, root) != (root.logged, root.log_from)
            || self.groups.replayed_up_to(txg).is_some_and(|dseq| dseq != root.replay_dseq)
            // What only its end matters to.
            || self.groups.lock().range(..=txg).any(|(_, group)| group.exposed_since.is_some())
            || self.is_looked_at.load(Ordering::Relaxed)
    }

    fn is_due_again(&self, root: &DatasetRoot) -> bool {
        root.orphan_count > 0
    }

    fn holds_changes_of(&self, txg: Txg) -> bool {
        self.groups.hold_changes_of(txg)
    }

    fn fold(&self, txg: Txg, old: &DatasetRoot, out: DatasetWriter<'_>) -> Result<DatasetRoot, BlockError> {
        let dirty = self.groups.take_dirty(txg);
        let compression = self.dataset.effective().compression.into();
        let mut fold = Fold {
            fs: self,
            old,
            out,
            compression,
            changes: Vec::with_capacity(dirty.len() * 4),
            first_new: self.first_new.load(Ordering::Relaxed),
            lost: Vec::new(),
            lost_keys: BTreeSet::new(),
            cuts: HashMap::new(),
            folded: Vec::new(),
            used_bytes: old.used_bytes,
            object_count: old.object_count,
            orphan_count: old.orphan_count,
            reserved_bytes: old.reserved_bytes,
            weighing: None,
            reap_extents_left: self.pool.tuning.reap_extents_max,
            weigh_extents_left: self.pool.tuning.reap_extents_max,
        };
        fold.reap(&dirty)?;
        for id in dirty {
            let layer = self.objects.find(id).and_then(|object| object.read().layer(txg).cloned());
            let layer = layer.expect("a dirty object keeps its layer until the group is synced");
            fold.object(id, &layer)?;
            fold.out.step();
        }
        fold.order_changes();
        let absence = |key: &Key| absence(self.io(), old, &fold.cuts, key);
        let around = Around { first_new: fold.first_new, absence: &absence, lost: &fold.lost };
        let tree = fold.out.merge(&old.tree, &fold.changes, &around)?;
        self.first_new.fetch_max(fold.ids_end(), Ordering::Relaxed);
        let (logged, log_from) = self.logging_after(txg, old);
        let root = DatasetRoot {
            tree,
            replay_dseq: self.groups.replayed_up_to(txg).unwrap_or(old.replay_dseq),
            logged,
            log_from,
            next_object: ObjectId(self.next_object.load(Ordering::Relaxed)),
            life: self.pool.life().number,
            verifier: old.verifier,
            change_floor: old.change_floor,
            used_bytes: fold.used_bytes,
            object_count: fold.object_count,
            orphan_count: fold.orphan_count,
            reserved_bytes: fold.reserved_bytes,
        };
        self.groups.lock().entry(txg).or_default().folded = fold.folded;
        Ok(root)
    }

    fn synced(&self, txg: Txg) {
        let mut work = LongWork::default();
        let folded = self.groups.lock().get_mut(&txg).map(|group| std::mem::take(&mut group.folded));
        for Folded { id, used, cuts, reserved_bytes } in folded.unwrap_or_default() {
            work.step();
            let Some(object) = self.objects.find(id) else { continue };
            let mut state = object.write();
            state.layers.retain(|layer| layer.txg > txg);
            // Of a file only the fold knows what it takes; what others use is written down with each change.
            if let Some(inode) = state.inode.as_mut().filter(|inode| inode.kind == FileKind::File) {
                (inode.used, inode.cuts) = (used, cuts);
                if let Some(reserved) = &mut inode.reserved {
                    reserved.bytes = reserved_bytes;
                }
            }
        }
        self.is_looked_at.store(false, Ordering::Relaxed);
        self.objects.sweep();
        self.standing.count(&self.dataset.root());
        self.groups.forget(txg);
    }
}

impl Filesystem {
    /// What the root of `txg` says of logging: whether, and from which group on.
    fn logging_after(&self, txg: Txg, old: &DatasetRoot) -> (bool, Txg) {
        let switch = **self.log_switch.load();
        if switch.at <= txg.next() { (switch.after, switch.at) } else { (switch.before, old.log_from) }
    }
}

impl Fold<'_> {
    fn object(&mut self, id: ObjectId, layer: &Layer) -> Result<(), BlockError> {
        for (key, value) in &layer.keys {
            self.changes.push((*key, value.clone().map_or(Change::Delete, Change::Put)));
        }
        match (&layer.inode, self.stored_inode(id)?) {
            (Some(inode), Stored::Known(old)) => return self.changed(id, inode, old.as_ref(), layer),
            (Some(inode), Stored::Unknown) => {
                let old = self.presumed_inode(id, inode)?;
                return self.changed(id, inode, Some(&old), layer);
            }
            (None, Stored::Known(Some(old))) => self.removed(id, Some(&old))?,
            (None, Stored::Unknown) => self.removed(id, None)?,
            (None, Stored::Known(None)) => {
                self.folded.push(Folded { id, used: 0, cuts: None, reserved_bytes: 0 });
            }
        }
        self.free_placed(layer, &HashSet::new());
        Ok(())
    }

    /// Sorts the changes, and makes sure that the merge comes by the nodes that were lost.
    fn order_changes(&mut self) {
        self.changes.sort_by_key(|(key, _)| *key);
        if self.lost_keys.is_empty() {
            return;
        }
        let changed: HashSet<Key> = self.changes.iter().map(|(key, _)| *key).collect();
        let touches = self.lost_keys.iter().filter(|key| !changed.contains(key));
        let touches: Vec<_> = touches.map(|key| (*key, Change::Delete)).collect();
        self.changes.extend(touches);
        self.changes.sort_by_key(|(key, _)| *key);
    }

    /// Behind all ids that the changes bring into the tree.
    fn ids_end(&self) -> u64 {
        let ids = self.changes.iter().map(|(key, _)| match key.class {
            Class::DirEntry => key.object.max(key.a),
            Class::DirHash => key.object.max(key.b),
            _ => key.object,
        });
        ids.max().map_or(0, |id| id.saturating_add(1))
    }

    fn changed(&mut self, id: ObjectId, inode: &Inode, old: Option<&Inode>, layer: &Layer) -> Result<(), BlockError> {
        let mut inode = inode.clone();
        let (was_used, was_charged) = old.map_or((0, 0), |old| (old.used, old.charged()));
        let was_reserved = old.map_or(0, Inode::reserved_bytes);
        inode.layout = old.map_or(Layout::Small, |old| old.layout);
        inode.cuts = old.and_then(|old| old.cuts.clone());
        if inode.kind == FileKind::File {
            inode.used = was_used;
            let first_change = self.changes.len();
            self.weighing = self.weigh(id, &inode, old)?;
            self.content(id, &mut inode, old, layer)?;
            self.reap_cut(id, &mut inode, first_change)?;
            if let Some(weighing) = self.weighing.take() {
                weighing.settle(&mut inode);
            }
            self.note_cuts(id, old, &inode);
        }
        if old.is_none() {
            self.object_count = self.object_count.saturating_add(1);
            self.used_bytes = self.used_bytes.saturating_add(OBJECT_CHARGE);
        }
        let used_bytes = self.used_bytes.saturating_sub(was_charged).saturating_add(inode.charged());
        self.used_bytes = used_bytes.min(ACCOUNT_MAX);
        let reserved_bytes = inode.reserved_bytes();
        self.account_reserved(was_reserved, reserved_bytes);
        self.folded.push(Folded { id, used: inode.used, cuts: inode.cuts.clone(), reserved_bytes });
        self.put_inode(id, &inode);
        Ok(())
    }

    fn put_inode(&mut self, id: ObjectId, inode: &Inode) {
        let mut value = Vec::with_capacity(128);
        inode.encode_stored(&mut value);
        self.changes.push((Key::new(Class::Inode, id.0, 0, 0), Change::Put(value.into())));
    }

    fn free(&self, block: &BlockPtr) {
        self.out.release(block);
    }

    /// Frees the blocks that were placed ahead and are not `kept`: overwritten or cut since.
    fn free_placed(&self, layer: &Layer, kept: &HashSet<Dva>) {
        layer.data.placed().iter().filter(|block| !kept.contains(&block.dva)).for_each(|block| self.free(block));
    }
}

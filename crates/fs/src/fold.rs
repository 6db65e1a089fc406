//! The fold: one transaction group's layers become blocks and tree changes.
//!
//! Only here is old content read to complete a partial block, and only here is decided how a file is laid out: up to
//! [`SMALL_MAX`] bytes under one key of the tree, so that thousands of small files reach the pool as a few long
//! writes; beyond, in blocks of the file's record size, each under its own extent key. A file changes sides once,
//! when it outgrows the limit.
//!
//! A closed layer never changes, so the fold holds no lock while it reads and writes.

use std::collections::HashSet;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use tally_base::{LongWork, ObjectId, SECTOR, Txg};
use tally_store::block::BlockError;
use tally_store::bp::{BlockKind, BlockPtr, Compression, Dva};
use tally_store::dataset::{ACCOUNT_MAX, DatasetClient, DatasetRoot, OBJECT_CHARGE};
use tally_store::key::{Class, Key};
use tally_store::run::RunWriter;
use tally_store::tree::Change;

use crate::filesystem::Filesystem;
use crate::inode::{Inode, Layout};
use crate::layer::{Layer, Piece, Seen};
use crate::sight::decode_pointer;
use crate::vfs::{FILE_SIZE_MAX, FileKind, FsError};

/// Largest file that is kept under one key: one that a block of its own would not need a second sector for. Measured in
/// docs/design/0003. Files up to 16 KiB were kept so before; those that were stay until they are written.
pub(crate) const SMALL_MAX: u64 = 4 << 10;

/// Extents of removed files that one transaction group frees; the others are left to the reaper, which goes on in the
/// groups behind (rules F11).
const REAP_EXTENTS_MAX: usize = 32 << 10;

/// A removed file with more bytes on disk than this is left to the reaper, to keep the group short; so are those with
/// which the files that one group removes would have too many extents together.
const REAP_FROM_BYTES: u64 = 1 << 30;

/// What the fold of one group collects.
struct Fold<'a> {
    fs: &'a Filesystem,
    old: &'a DatasetRoot,
    out: &'a mut RunWriter,
    compression: Compression,
    changes: Vec<(Key, Change)>,
    used: Vec<(ObjectId, u64)>,
    used_bytes: u64,
    object_count: u64,
    orphan_count: u64,
    /// Extents of removed files that may still be freed in this group.
    reap_extents_left: usize,
}

impl DatasetClient for Filesystem {
    fn fold(&self, txg: Txg, old: &DatasetRoot, out: &mut RunWriter) -> Result<DatasetRoot, BlockError> {
        let mut dirty: Vec<ObjectId> = self.dirty.lock().remove(&txg).unwrap_or_default().into_iter().collect();
        dirty.sort_unstable();
        let compression = self.dataset.effective().compression.into();
        let mut fold = Fold {
            fs: self,
            old,
            out,
            compression,
            changes: Vec::with_capacity(dirty.len() * 4),
            used: Vec::new(),
            used_bytes: old.used_bytes,
            object_count: old.object_count,
            orphan_count: old.orphan_count,
            reap_extents_left: REAP_EXTENTS_MAX,
        };
        fold.reap()?;
        for id in dirty {
            let layer = self.objects.find(id).and_then(|object| object.read().layer(txg).cloned());
            let layer = layer.expect("a dirty object keeps its layer until the group is synced");
            fold.object(id, &layer)?;
            fold.out.step();
        }
        fold.changes.sort_by_key(|(key, _)| *key);
        let tree = old.tree.apply(&self.pool.io, fold.out, &fold.changes)?;
        let switch = **self.log_switch.load();
        let switched = switch.at <= txg.next();
        let root = DatasetRoot {
            tree,
            log_txg: old.log_txg,
            replay_dseq: self.replayed_up_to(txg),
            logged: if switched { switch.after } else { switch.before },
            log_from: if switched { switch.at } else { old.log_from },
            next_object: ObjectId(self.next_object.load(Ordering::Relaxed)),
            verifier: self.verifier.load(Ordering::Relaxed),
            used_bytes: fold.used_bytes,
            object_count: fold.object_count,
            orphan_count: fold.orphan_count,
        };
        self.folded_used.lock().insert(txg, fold.used);
        Ok(root)
    }

    fn synced(&self, txg: Txg) {
        let mut work = LongWork::default();
        for (id, used) in self.folded_used.lock().remove(&txg).unwrap_or_default() {
            work.step();
            let Some(object) = self.objects.find(id) else { continue };
            let mut state = object.write();
            state.layers.retain(|layer| layer.txg > txg);
            // Of a file only the fold knows what it takes; what others use is written down with each change.
            if let Some(inode) = state.inode.as_mut().filter(|inode| inode.kind == FileKind::File) {
                inode.used = used;
            }
        }
        self.objects.sweep();
        self.pending.lock().retain(|group, _| *group > txg);
        self.exposed.lock().retain(|group, _| *group > txg);
    }
}

impl Fold<'_> {
    fn object(&mut self, id: ObjectId, layer: &Layer) -> Result<(), BlockError> {
        for (key, value) in &layer.keys {
            self.changes.push((*key, value.clone().map_or(Change::Delete, Change::Put)));
        }
        let old = self.stored_inode(id)?;
        match (&layer.inode, &old) {
            (Some(inode), _) => return self.changed(id, inode, old.as_ref(), layer),
            (None, Some(old)) => self.removed(id, old)?,
            (None, None) => self.used.push((id, 0)),
        }
        self.free_placed(layer, &HashSet::new());
        Ok(())
    }

    fn stored_inode(&self, id: ObjectId) -> Result<Option<Inode>, BlockError> {
        let value = self.old.tree.get(&self.fs.pool.io, &Key::new(Class::Inode, id.0, 0, 0))?;
        value.map(|value| decode_inode(self.old, &value)).transpose()
    }

    fn changed(&mut self, id: ObjectId, inode: &Inode, old: Option<&Inode>, layer: &Layer) -> Result<(), BlockError> {
        let mut inode = inode.clone();
        let was_used = old.map_or(0, |old| old.used);
        inode.layout = old.map_or(Layout::Small, |old| old.layout);
        if inode.kind == FileKind::File {
            inode.used = was_used;
            self.content(id, &mut inode, old, layer)?;
        }
        if old.is_none() {
            self.object_count = self.object_count.saturating_add(1);
            self.used_bytes = self.used_bytes.saturating_add(OBJECT_CHARGE);
        }
        let used_bytes = self.used_bytes.saturating_sub(was_used).saturating_add(inode.used);
        self.used_bytes = used_bytes.min(ACCOUNT_MAX);
        self.used.push((id, inode.used));
        self.put_inode(id, &inode);
        Ok(())
    }

    fn put_inode(&mut self, id: ObjectId, inode: &Inode) {
        let mut value = Vec::with_capacity(128);
        inode.encode(&mut value);
        self.changes.push((Key::new(Class::Inode, id.0, 0, 0), Change::Put(value.into())));
    }

    fn removed(&mut self, id: ObjectId, old: &Inode) -> Result<(), BlockError> {
        self.used.push((id, 0));
        let is_much = old.used > REAP_FROM_BYTES || extents_at_most(old) > self.reap_extents_left as u64;
        if old.kind == FileKind::File && is_much {
            let mut orphan = old.clone();
            orphan.nlink = 0;
            self.put_inode(id, &orphan);
            self.changes.push((Key::new(Class::Orphan, id.0, 0, 0), Change::Put(Bytes::from_static(&[1]))));
            self.orphan_count = self.orphan_count.saturating_add(1);
            return Ok(());
        }
        let freed = self.drop_extents(id, 0, usize::MAX)?;
        self.reap_extents_left = self.reap_extents_left.saturating_sub(freed);
        self.changes.push((Key::new(Class::Small, id.0, 0, 0), Change::Delete));
        self.drop_inode(id, old.used);
        Ok(())
    }

    fn drop_inode(&mut self, id: ObjectId, used: u64) {
        self.changes.push((Key::new(Class::Inode, id.0, 0, 0), Change::Delete));
        self.object_count = self.object_count.saturating_sub(1);
        self.used_bytes = self.used_bytes.saturating_sub(OBJECT_CHARGE.saturating_add(used));
    }

    /// Frees a bounded number of extents of removed files. Where it stops the next group goes on: what is freed is
    /// gone from the tree, so the tree is the cursor.
    fn reap(&mut self) -> Result<(), BlockError> {
        if self.old.orphan_count == 0 {
            return Ok(());
        }
        let (from, to) = (Key::new(Class::Orphan, 0, 0, 0), Key::new(Class::Orphan, u64::MAX, 0, 0));
        for orphan in self.old.tree.range(&self.fs.pool.io, &from, &to) {
            let (key, _) = orphan?;
            let id = ObjectId(key.object);
            let freed = self.drop_extents(id, 0, self.reap_extents_left)?;
            self.reap_extents_left -= freed;
            if self.reap_extents_left == 0 {
                return Ok(());
            }
            let used = self.stored_inode(id)?.map_or(0, |inode| inode.used);
            self.drop_inode(id, used);
            self.changes.push((key, Change::Delete));
        }
        // Whatever the root has claimed: these were all.
        self.orphan_count = 0;
        Ok(())
    }

    /// Deletes the stored extents from offset `from` on, at most `max`, and frees their blocks. Gives their number.
    fn drop_extents(&mut self, id: ObjectId, from: u64, max: usize) -> Result<usize, BlockError> {
        let (first, end) = (Key::new(Class::Extent, id.0, from, 0), Key::new(Class::Extent, id.0, u64::MAX, 0));
        let mut count = 0;
        for extent in self.old.tree.range(&self.fs.pool.io, &first, &end).take(max) {
            let (key, value) = extent?;
            self.free(&decode_extent(self.old, &value)?);
            self.changes.push((key, Change::Delete));
            count += 1;
        }
        Ok(count)
    }

    fn free(&self, block: &BlockPtr) {
        self.fs.pool.io.free(block, self.out.txg());
    }

    /// Frees the blocks that were placed ahead and are not `kept`: overwritten or cut since.
    fn free_placed(&self, layer: &Layer, kept: &HashSet<Dva>) {
        layer.data.placed().iter().filter(|block| !kept.contains(&block.dva)).for_each(|block| self.free(block));
    }

    fn content(
        &mut self,
        id: ObjectId,
        inode: &mut Inode,
        old: Option<&Inode>,
        layer: &Layer,
    ) -> Result<(), BlockError> {
        let resized = old.map_or(0, |old| old.size) != inode.size;
        if layer.data.is_empty() && !resized {
            return Ok(());
        }
        if inode.layout == Layout::Small && inode.size <= SMALL_MAX && layer.data.placed().is_empty() {
            return self.small_content(id, inode, old, layer);
        }
        self.extents(id, inode, old, layer)
    }

    /// The whole content under one key. Zeroes at the end are not stored.
    fn small_content(
        &mut self,
        id: ObjectId,
        inode: &mut Inode,
        old: Option<&Inode>,
        layer: &Layer,
    ) -> Result<(), BlockError> {
        let stored = if old.is_some() { self.stored_small(id)? } else { Bytes::new() };
        let mut content = self.block_content(0, inode.size, layer, &|into| copy_prefix(&stored, into))?;
        let length = content.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        content.truncate(length);
        inode.used = length as u64;
        let change = if content.is_empty() { Change::Delete } else { Change::Put(content.into()) };
        self.changes.push((Key::new(Class::Small, id.0, 0, 0), change));
        Ok(())
    }

    fn stored_small(&self, id: ObjectId) -> Result<Bytes, BlockError> {
        let value = self.old.tree.get(&self.fs.pool.io, &Key::new(Class::Small, id.0, 0, 0))?;
        Ok(value.unwrap_or_default())
    }

    /// The content in blocks: those that were touched are written anew, those behind a cut go.
    fn extents(
        &mut self,
        id: ObjectId,
        inode: &mut Inode,
        old: Option<&Inode>,
        layer: &Layer,
    ) -> Result<(), BlockError> {
        let record_size = inode.record_size();
        let old_size = old.map_or(0, |old| old.size);
        let outgrown = old.is_some_and(|old| old.layout == Layout::Small);
        let small = if outgrown { self.stored_small(id)? } else { Bytes::new() };
        if outgrown {
            self.changes.push((Key::new(Class::Small, id.0, 0, 0), Change::Delete));
            inode.used = 0;
        }
        inode.layout = Layout::Extents;
        let in_extents = old.is_some() && !outgrown;
        let cut = layer.data.cut().unwrap_or(u64::MAX);
        let rewritten = touched_blocks(layer, inode.size, record_size, cut.min(old_size), small.len() as u64);
        if in_extents && cut < old_size {
            self.cut_extents(id, inode, cut.next_multiple_of(record_size), &rewritten)?;
        }
        let mut kept = HashSet::new();
        for start in rewritten {
            let length = record_size.min(inode.size - start);
            let replaced = if in_extents && start < old_size { self.stored_extent(id, start)? } else { None };
            let base = |into: &mut [u8]| -> Result<(), BlockError> {
                if outgrown {
                    return copy_prefix(small.get(start as usize..).unwrap_or_default(), into);
                }
                let Some(block) = &replaced else { return Ok(()) };
                copy_prefix(&self.fs.pool.io.read(block)?, into)
            };
            let whole = placed_whole(layer, start, length);
            let block = match whole {
                Some(block) => Some(block),
                None => {
                    let content = self.block_content(start, length, layer, &base)?;
                    if content.iter().all(|byte| *byte == 0) {
                        None
                    } else {
                        Some(self.out.put_bytes(BlockKind::Data, content.into(), self.compression)?)
                    }
                }
            };
            self.replace_extent(id, inode, start, replaced.as_ref(), block.as_ref());
            kept.extend(whole.map(|block| block.dva));
        }
        self.free_placed(layer, &kept);
        Ok(())
    }

    fn stored_extent(&self, id: ObjectId, start: u64) -> Result<Option<BlockPtr>, BlockError> {
        let value = self.old.tree.get(&self.fs.pool.io, &Key::new(Class::Extent, id.0, start, 0))?;
        value.map(|value| decode_extent(self.old, &value)).transpose()
    }

    fn replace_extent(
        &mut self,
        id: ObjectId,
        inode: &mut Inode,
        start: u64,
        old: Option<&BlockPtr>,
        new: Option<&BlockPtr>,
    ) {
        if let Some(old) = old {
            self.free(old);
            inode.used = inode.used.saturating_sub(old.asize());
        }
        let key = Key::new(Class::Extent, id.0, start, 0);
        match (old, new) {
            (_, Some(new)) => {
                // An inode that claims all the bytes there can be would become one that cannot be read.
                inode.used = inode.used.saturating_add(new.asize()).min(FILE_SIZE_MAX);
                self.changes.push((key, Change::Put(Bytes::copy_from_slice(&new.encode()))));
            }
            (Some(_), None) => self.changes.push((key, Change::Delete)),
            (None, None) => {}
        }
    }

    /// Deletes the stored extents from `from` on, but for those that are rewritten anyway.
    fn cut_extents(&mut self, id: ObjectId, inode: &mut Inode, from: u64, rewritten: &[u64]) -> Result<(), BlockError> {
        let (first, end) = (Key::new(Class::Extent, id.0, from, 0), Key::new(Class::Extent, id.0, u64::MAX, 0));
        for extent in self.old.tree.range(&self.fs.pool.io, &first, &end) {
            let (key, value) = extent?;
            if rewritten.binary_search(&key.a).is_err() {
                let block = decode_extent(self.old, &value)?;
                self.replace_extent(id, inode, key.a, Some(&block), None);
            }
        }
        Ok(())
    }

    /// The bytes `start..start + length` as the layer sees them above what `base` fills in.
    fn block_content(
        &self,
        start: u64,
        length: u64,
        layer: &Layer,
        base: &dyn Fn(&mut [u8]) -> Result<(), BlockError>,
    ) -> Result<Vec<u8>, BlockError> {
        let mut content = vec![0; length as usize];
        let view = layer.data.view(start..start + length);
        if view.iter().any(|(_, seen)| matches!(seen, Seen::Below)) {
            base(&mut content)?;
        }
        for (part, seen) in view {
            let into = &mut content[(part.start - start) as usize..(part.end - start) as usize];
            match seen {
                Seen::Piece(Piece::Memory { bytes, .. }) => into.copy_from_slice(&bytes),
                Seen::Piece(Piece::Placed { block, skip, length }) => {
                    let bytes = self.fs.pool.io.read(&block)?;
                    into.copy_from_slice(&bytes[skip as usize..(skip + length) as usize]);
                }
                Seen::Zero => into.fill(0),
                Seen::Below => {}
            }
        }
        Ok(content)
    }
}

/// How many extents a file can have: one for each record up to its end, of a sector at least.
fn extents_at_most(inode: &Inode) -> u64 {
    match inode.layout {
        Layout::Small => 0,
        Layout::Extents => inode.size.div_ceil(inode.record_size()).min(inode.used / SECTOR as u64),
    }
}

/// Copies as much of `from` as there is; what is behind it stays zero.
fn copy_prefix(from: &[u8], into: &mut [u8]) -> Result<(), BlockError> {
    let length = from.len().min(into.len());
    into[..length].copy_from_slice(&from[..length]);
    Ok(())
}

/// The block that was placed ahead and is the whole of `start..start + length`.
fn placed_whole(layer: &Layer, start: u64, length: u64) -> Option<BlockPtr> {
    match &layer.data.view(start..start + length)[..] {
        [(_, Seen::Piece(Piece::Placed { block, skip: 0, length: of_piece }))]
            if *of_piece == length && u64::from(block.lsize) == length =>
        {
            Some(*block)
        }
        _ => None,
    }
}

/// Starts of the blocks to be written anew, ascending: under a piece, under the cut, and all that a small content fills.
fn touched_blocks(layer: &Layer, size: u64, record_size: u64, cut: u64, small: u64) -> Vec<u64> {
    let mut starts: Vec<u64> = Vec::new();
    let mut touch = |from: u64, to: u64| {
        let mut start = from / record_size * record_size;
        while start < to.min(size) {
            starts.push(start);
            start += record_size;
        }
    };
    for (offset, piece) in layer.data.pieces() {
        touch(offset, offset + piece.length());
    }
    if layer.data.cut().is_some() && !cut.is_multiple_of(record_size) {
        touch(cut, cut + 1);
    }
    touch(0, small);
    starts.sort_unstable();
    starts.dedup();
    starts
}

fn decode_inode(root: &DatasetRoot, value: &Bytes) -> Result<Inode, BlockError> {
    Inode::decode(&mut tally_base::codec::Reader::new(value, "inode")).map_err(|_| malformed(root, "inode"))
}

fn decode_extent(root: &DatasetRoot, value: &Bytes) -> Result<BlockPtr, BlockError> {
    decode_pointer(value).ok_or_else(|| malformed(root, "extent"))
}

fn malformed(root: &DatasetRoot, what: &'static str) -> BlockError {
    BlockError::Malformed { bp: *root.tree.root().expect("a value came out of this tree"), what }
}

impl Filesystem {
    /// Whether removed files still wait for the reaper, so that another group is worth syncing.
    #[must_use]
    pub fn has_orphans(&self) -> bool {
        self.dataset.root().orphan_count > 0
    }

    /// Whether an object is a child dataset's mount point.
    pub(crate) fn is_mountpoint(&self, id: ObjectId) -> bool {
        self.mountpoints.read().contains(&id)
    }

    /// Refuses to remove or rename these directories: child datasets are mounted on them.
    pub fn set_mountpoints(&self, ids: impl IntoIterator<Item = ObjectId>) {
        *self.mountpoints.write() = ids.into_iter().collect();
    }
}

impl From<&BlockError> for FsError {
    fn from(error: &BlockError) -> Self {
        if matches!(error, BlockError::NoSpace(_)) { Self::NoSpace } else { Self::Io }
    }
}

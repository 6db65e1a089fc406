//! The fold: one transaction group's layers become blocks and tree changes.
//!
//! Only here is old content read to complete a partial block, and only here is decided how a file is laid out: up to
//! [`SMALL_MAX`] bytes under one key of the tree, so that thousands of small files reach the pool as a few long
//! writes; beyond, in blocks of the file's record size, each under its own extent key. A file changes sides once,
//! when it outgrows the limit.
//!
//! A closed layer never changes, so the fold holds no lock while it reads and writes.
//!
//! **What cannot be read ends nothing.** Operations do not read what the fold will read, or each small overwrite of cold data
//! would wait for a disk; so a block that has rotted is met here first, above changes that were acknowledged. They are
//! carried out as far as can be, and nothing is ever made up (docs/design/0015):
//! - The rest of a partly written block is unknown: the block is written with what is known and given up
//!   ([`BlockPtr::given_up`]), so that it cannot be read until all of it is written in one group.
//! - What a leaf of extents named is not freed, and counted. Extents behind a cut must not come back, so that leaf is given up.
//! - An inode is the newest one that memory has. The tree takes it in around its leaf ([`tally_store::tree::Around`]).

use std::collections::{BTreeSet, HashMap, HashSet};
use std::ops::Range;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use tally_base::{LongWork, ObjectId, SECTOR, Txg};
use tally_store::block::BlockError;
use tally_store::bp::{BlockKind, BlockPtr, Compression, Dva};
use tally_store::dataset::{ACCOUNT_MAX, DatasetClient, DatasetRoot, OBJECT_CHARGE};
use tally_store::io::BlockIo;
use tally_store::key::{Absence, Class, Key};
use tally_store::run::RunWriter;
use tally_store::tree::{Around, Change, VALUE_BYTES_MAX};

use crate::damage::Part;
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
    /// No id from this one on is in the old tree.
    first_new: u64,
    /// Nodes of the old tree that could not be read, and hold what must not come back; and for each of them a key in it.
    lost: Vec<BlockPtr>,
    lost_keys: BTreeSet<Key>,
    /// Files that were cut, and from which extent on nothing is left of what they had.
    cuts: HashMap<ObjectId, u64>,
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
            first_new: self.first_new.load(Ordering::Relaxed),
            lost: Vec::new(),
            lost_keys: BTreeSet::new(),
            cuts: HashMap::new(),
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
        fold.order_changes();
        let absence = |key: &Key| absence(&self.pool.io, old, &fold.cuts, key);
        let around = Around { first_new: fold.first_new, absence: &absence, lost: &fold.lost };
        let tree = old.tree.apply_around(&self.pool.io, fold.out, &fold.changes, &around)?;
        self.first_new.fetch_max(fold.ids_end(), Ordering::Relaxed);
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

/// What the old tree says of something.
enum Stored<T> {
    /// This.
    Known(T),
    /// It cannot be read.
    Unknown,
}

impl<'a> Fold<'a> {
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
            (None, Stored::Known(None)) => self.used.push((id, 0)),
        }
        self.free_placed(layer, &HashSet::new());
        Ok(())
    }

    fn stored_inode(&self, id: ObjectId) -> Result<Stored<Option<Inode>>, BlockError> {
        if id.0 >= self.first_new {
            return Ok(Stored::Known(None));
        }
        let value = self.old.tree.get(&self.fs.pool.io, &Key::new(Class::Inode, id.0, 0, 0));
        let inode = value.and_then(|value| value.map(|value| decode_inode(self.old, &value)).transpose());
        self.unless_damaged(id, Part::Attributes, inode)
    }

    /// What was read, if it was; an error only where the pool cannot go on.
    fn unless_damaged<T>(
        &self,
        id: ObjectId,
        part: Part,
        read: Result<T, BlockError>,
    ) -> Result<Stored<T>, BlockError> {
        match read {
            Ok(read) => Ok(Stored::Known(read)),
            Err(error) => {
                let what = error.to_string();
                self.fs.pool.io.check_damage(error)?;
                self.fs.damaged(id, part, &what);
                if part == Part::Space {
                    self.fs.pool.io.note_leak();
                }
                Ok(Stored::Unknown)
            }
        }
    }

    /// In place of an inode that cannot be read: what the fold asks of the old one, at the most. Whether a file was
    /// laid out in extents its extents tell.
    fn presumed_inode(&self, id: ObjectId, inode: &Inode) -> Result<Inode, BlockError> {
        let (first, end) = (Key::new(Class::Extent, id.0, 0, 0), Key::new(Class::Extent, id.0, u64::MAX, 0));
        let extent = self.old.tree.range(&self.fs.pool.io, &first, &end).next().transpose();
        let layout = match self.unless_damaged(id, Part::Attributes, extent)? {
            Stored::Known(None) => Layout::Small,
            Stored::Known(Some(_)) | Stored::Unknown => Layout::Extents,
        };
        Ok(Inode { layout, size: FILE_SIZE_MAX, ..inode.clone() })
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

    /// Without an old inode nobody knows how much it was; all that is found of it goes.
    fn removed(&mut self, id: ObjectId, old: Option<&Inode>) -> Result<(), BlockError> {
        self.used.push((id, 0));
        let is_much = |old: &&Inode| old.used > REAP_FROM_BYTES || extents_at_most(old) > self.reap_extents_left as u64;
        if let Some(old) = old.filter(|old| old.kind == FileKind::File).filter(is_much) {
            let mut orphan = old.clone();
            orphan.nlink = 0;
            self.put_inode(id, &orphan);
            self.changes.push((Key::new(Class::Orphan, id.0, 0, 0), Change::Put(Bytes::from_static(&[1]))));
            self.orphan_count = self.orphan_count.saturating_add(1);
            return Ok(());
        }
        let freed = self.drop_extents(id, 0, usize::MAX)?;
        self.reap_extents_left = self.reap_extents_left.saturating_sub(freed);
        if old.is_none_or(|old| old.layout == Layout::Small) {
            self.changes.push((Key::new(Class::Small, id.0, 0, 0), Change::Delete));
        }
        self.drop_inode(id, old.map_or(0, |old| old.used));
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
        let (tree, fs) = (&self.old.tree, self.fs);
        for orphan in tree.range(&fs.pool.io, &from, &to).around_damage() {
            // Orphans that cannot be found keep what they have.
            let root = fs.root_ref().id;
            let Stored::Known((key, _)) = self.unless_damaged(root, Part::Space, orphan)? else { continue };
            let id = ObjectId(key.object);
            let freed = self.drop_extents(id, 0, self.reap_extents_left)?;
            self.reap_extents_left -= freed;
            if self.reap_extents_left == 0 {
                return Ok(());
            }
            let inode = match self.stored_inode(id)? {
                Stored::Known(inode) => inode,
                Stored::Unknown => None,
            };
            self.drop_inode(id, inode.map_or(0, |inode| inode.used));
            self.changes.push((key, Change::Delete));
        }
        // Whatever the root has claimed: these were all.
        self.orphan_count = 0;
        Ok(())
    }

    /// Deletes the stored extents from offset `from` on, at most `max`, and frees their blocks. Gives their number. Those in a
    /// leaf that cannot be read stay where they are: their object's id is never used again, so nobody comes by them.
    fn drop_extents(&mut self, id: ObjectId, from: u64, max: usize) -> Result<usize, BlockError> {
        let (first, end) = (Key::new(Class::Extent, id.0, from, 0), Key::new(Class::Extent, id.0, u64::MAX, 0));
        let (old, fs) = (self.old, self.fs);
        let mut count = 0;
        for extent in old.tree.range(&fs.pool.io, &first, &end).around_damage() {
            if count == max {
                break;
            }
            let Stored::Known((key, value)) = self.unless_damaged(id, Part::Space, extent)? else { continue };
            if let Stored::Known(block) = self.unless_damaged(id, Part::Space, decode_extent(old, &value))? {
                self.free(&block);
            }
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
        let may_be_small = inode.layout == Layout::Small && inode.size <= SMALL_MAX && layer.data.placed().is_empty();
        if may_be_small && self.small_content(id, inode, old, layer)? {
            return Ok(());
        }
        self.extents(id, inode, old, layer)
    }

    /// Whether readers will find that the tree does not hold the key, once it does not: above a leaf that cannot be
    /// read they would not.
    fn can_be_absent(&self, key: &Key) -> Result<bool, BlockError> {
        match self.old.tree.read_around(&self.fs.pool.io, key) {
            Ok(()) => Ok(true),
            Err(error) => self.fs.pool.io.check_damage(error).map(|_| false),
        }
    }

    /// The whole content under one key, where it is known. Zeroes at the end are not stored.
    fn small_content(
        &mut self,
        id: ObjectId,
        inode: &mut Inode,
        old: Option<&Inode>,
        layer: &Layer,
    ) -> Result<bool, BlockError> {
        let stored = self.stored_small(id, old)?;
        let base = |into: &mut [u8]| {
            if let Stored::Known(stored) = &stored {
                copy_prefix(stored, into);
            }
            Ok(matches!(stored, Stored::Known(_)))
        };
        let Content { mut bytes, is_whole } = self.block_content(id, 0, inode.size, layer, &base)?;
        if !is_whole {
            return Ok(false);
        }
        let length = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        bytes.truncate(length);
        inode.used = length as u64;
        let key = Key::new(Class::Small, id.0, 0, 0);
        // Above a leaf that cannot be read only a value can say that there is nothing, or that it is zeroes.
        let is_absent =
            bytes.is_empty() && matches!(stored, Stored::Known(_)) && (inode.size == 0 || self.can_be_absent(&key)?);
        let change = if is_absent { Change::Delete } else { Change::Put(bytes.into()) };
        self.changes.push((key, change));
        Ok(true)
    }

    /// What is stored of a small file. Of one that was empty nothing is.
    fn stored_small(&self, id: ObjectId, old: Option<&Inode>) -> Result<Stored<Bytes>, BlockError> {
        if old.is_none_or(|old| old.size == 0) {
            return Ok(Stored::Known(Bytes::new()));
        }
        let value = self.old.tree.get(&self.fs.pool.io, &Key::new(Class::Small, id.0, 0, 0));
        self.unless_damaged(id, Part::Content(0), value.map(Option::unwrap_or_default))
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
        let small = if outgrown { self.stored_small(id, old)? } else { Stored::Known(Bytes::new()) };
        let small_bytes = match &small {
            Stored::Known(small) => small.len() as u64,
            Stored::Unknown => old_size.min(VALUE_BYTES_MAX as u64),
        };
        if outgrown {
            self.changes.push((Key::new(Class::Small, id.0, 0, 0), Change::Delete));
            inode.used = 0;
        }
        inode.layout = Layout::Extents;
        let in_extents = old.is_some() && !outgrown;
        let cut = layer.data.cut().unwrap_or(u64::MAX);
        let mut rewritten = touched_blocks(layer, inode.size, record_size, cut.min(old_size), small_bytes);
        let blocks_end = cut.min(old_size).next_multiple_of(record_size).min(old.map_or(0, Inode::blocks_end));
        self.mark_hole(id, blocks_end..inode.size, record_size, &mut rewritten)?;
        if in_extents && cut < old_size {
            let from = cut.next_multiple_of(record_size);
            self.cut_extents(id, inode, from, &rewritten)?;
            self.cuts.insert(id, from);
        }
        let mut kept = HashSet::new();
        for start in rewritten {
            let length = record_size.min(inode.size - start);
            let replaced =
                if in_extents && start < old_size { self.stored_extent(id, start)? } else { Stored::Known(None) };
            let base = |into: &mut [u8]| self.base(id, start, outgrown.then_some(&small), &replaced, into);
            let whole = placed_whole(layer, start, length);
            let block = match whole {
                Some(block) => Some(block),
                None => {
                    let content = self.block_content(id, start, length, layer, &base)?;
                    let is_absent = matches!(replaced, Stored::Known(_)) && self.is_hole(id, start, &content)?;
                    if is_absent { None } else { Some(self.put_content(content)?) }
                }
            };
            let replaced = match replaced {
                Stored::Known(replaced) => replaced,
                Stored::Unknown => {
                    self.fs.damaged(id, Part::Space, &"a block that was replaced is not found");
                    self.fs.pool.io.note_leak();
                    None
                }
            };
            self.replace_extent(id, inode, start, replaced.as_ref(), block.as_ref());
            kept.extend(whole.map(|block| block.dva));
        }
        self.free_placed(layer, &kept);
        Ok(())
    }

    /// The file has grown, and has had no blocks in `grown`. If it has none at the beginning either, it is a hole; and
    /// where the leaf for it cannot be read, nobody could tell that. So a block of zeroes is written there: the tree
    /// takes it in beside the leaf, in a new one that tells of all that is behind. The same in each leaf further on, to
    /// which the hole may reach where the file was longer once.
    fn mark_hole(
        &self,
        id: ObjectId,
        grown: Range<u64>,
        record_size: u64,
        rewritten: &mut Vec<u64>,
    ) -> Result<(), BlockError> {
        if grown.is_empty() {
            return Ok(());
        }
        let key = |start| Key::new(Class::Extent, id.0, start, 0);
        if let Err(at) = rewritten.binary_search(&grown.start)
            && !self.can_be_absent(&key(grown.start))?
        {
            rewritten.insert(at, grown.start);
        }
        if id.0 >= self.first_new {
            // No leaf was ever cut at its offsets.
            return Ok(());
        }
        let io = &self.fs.pool.io;
        let mut stored = self.old.tree.range(io, &key(grown.start), &key(grown.end)).around_damage();
        while let Some(extent) = stored.next() {
            if let Err(error) = extent {
                io.check_damage(error)?;
                let start = stored.failed_at().a.next_multiple_of(record_size);
                if let Err(at) = rewritten.binary_search(&start)
                    && start < grown.end
                {
                    rewritten.insert(at, start);
                }
            }
        }
        Ok(())
    }

    /// What was at `start` of a file: `small` is all its content, where it outgrows that, else `replaced` was its block.
    /// False if that cannot be read.
    fn base(
        &self,
        id: ObjectId,
        start: u64,
        small: Option<&Stored<Bytes>>,
        replaced: &Stored<Option<BlockPtr>>,
        into: &mut [u8],
    ) -> Result<bool, BlockError> {
        match (small, replaced) {
            (Some(Stored::Known(small)), _) => copy_prefix(small.get(start as usize..).unwrap_or_default(), into),
            (Some(Stored::Unknown), _) | (None, Stored::Unknown) => return Ok(false),
            (None, Stored::Known(None)) => {}
            (None, Stored::Known(Some(block))) => {
                let read = self.fs.pool.io.read(block);
                match self.unless_damaged(id, Part::Content(start), read)? {
                    Stored::Known(bytes) => copy_prefix(&bytes, into),
                    Stored::Unknown => return Ok(false),
                }
            }
        }
        Ok(true)
    }

    /// Whether a block of this content need not be: it is zeroes, and readers will find that it is not there.
    fn is_hole(&self, id: ObjectId, start: u64, content: &Content) -> Result<bool, BlockError> {
        let is_zeroes = content.is_whole && content.bytes.iter().all(|byte| *byte == 0);
        Ok(is_zeroes && self.can_be_absent(&Key::new(Class::Extent, id.0, start, 0))?)
    }

    fn put_content(&mut self, content: Content) -> Result<BlockPtr, BlockError> {
        let Content { bytes, is_whole } = content;
        if is_whole {
            // Zeroes that only say that there is nothing were not asked for: they must not take a whole block.
            let is_zeroes = bytes.iter().all(|byte| *byte == 0);
            let compression = if is_zeroes { Compression::Lz4 } else { self.compression };
            self.out.put_bytes(BlockKind::Data, bytes.into(), compression)
        } else {
            self.out.put_given_up(BlockKind::Data, &bytes, self.compression)
        }
    }

    fn stored_extent(&self, id: ObjectId, start: u64) -> Result<Stored<Option<BlockPtr>>, BlockError> {
        let value = self.old.tree.get(&self.fs.pool.io, &Key::new(Class::Extent, id.0, start, 0));
        let block = value.and_then(|value| value.map(|value| decode_extent(self.old, &value)).transpose());
        self.unless_damaged(id, Part::Content(start), block)
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
        let (old, fs) = (self.old, self.fs);
        let mut extents = old.tree.range(&fs.pool.io, &first, &end).around_damage();
        while let Some(extent) = extents.next() {
            let node = extent.as_ref().err().and_then(|error| error.unreadable().copied());
            let Stored::Known((key, value)) = self.unless_damaged(id, Part::Space, extent)? else {
                self.lost.extend(node);
                self.lost_keys.insert(extents.failed_at());
                continue;
            };
            if rewritten.binary_search(&key.a).is_err() {
                match self.unless_damaged(id, Part::Space, decode_extent(old, &value))? {
                    Stored::Known(block) => self.replace_extent(id, inode, key.a, Some(&block), None),
                    Stored::Unknown => self.changes.push((key, Change::Delete)),
                }
            }
        }
        Ok(())
    }

    /// The bytes `start..start + length` as the layer sees them above what `base` fills in, if it can.
    fn block_content(
        &self,
        id: ObjectId,
        start: u64,
        length: u64,
        layer: &Layer,
        base: &dyn Fn(&mut [u8]) -> Result<bool, BlockError>,
    ) -> Result<Content, BlockError> {
        let mut content = Content { bytes: vec![0; length as usize], is_whole: true };
        let view = layer.data.view(start..start + length);
        if view.iter().any(|(_, seen)| matches!(seen, Seen::Below)) {
            content.is_whole = base(&mut content.bytes)?;
        }
        for (part, seen) in view {
            let into = &mut content.bytes[(part.start - start) as usize..(part.end - start) as usize];
            match seen {
                Seen::Piece(Piece::Memory { bytes, .. }) => into.copy_from_slice(&bytes),
                Seen::Piece(Piece::Placed { block, skip, length }) => {
                    let read = self.fs.pool.io.read(&block);
                    match self.unless_damaged(id, Part::Content(part.start), read)? {
                        Stored::Known(bytes) => into.copy_from_slice(&bytes[skip as usize..(skip + length) as usize]),
                        Stored::Unknown => content.is_whole = false,
                    }
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

/// Content of a block or a small file.
struct Content {
    bytes: Vec<u8>,
    /// Whether all of it is known; zeroes stand for what is not.
    is_whole: bool,
}

/// Copies as much of `from` as there is; what is behind it stays zero.
fn copy_prefix(from: &[u8], into: &mut [u8]) {
    let length = from.len().min(into.len());
    into[..length].copy_from_slice(&from[..length]);
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

/// From where on the new tree has no other key of the same class and object than those that are put, if the old inode can
/// be read and says so, or the file was cut.
fn absence(io: &BlockIo, old: &DatasetRoot, cuts: &HashMap<ObjectId, u64>, key: &Key) -> Option<Absence> {
    let absent_from = |from, is_new| Absence { from: Key::new(key.class, key.object, from, 0), is_new };
    let cut = cuts.get(&ObjectId(key.object)).copied().filter(|_| key.class == Class::Extent);
    let cut_away = cut.map(|from| absent_from(from, false));
    let Ok(value) = old.tree.get(io, &Key::new(Class::Inode, key.object, 0, 0)) else { return cut_away };
    let Ok(inode) = value.map(|value| decode_inode(old, &value)).transpose() else { return cut_away };
    let never_from = match (key.class, inode) {
        (Class::DirEntry | Class::DirHash, inode) if inode.as_ref().is_none_or(Inode::is_empty_directory) => 0,
        (Class::Extent, inode) => inode.map_or(0, |inode| inode.blocks_end()),
        _ => return None,
    };
    match cut {
        Some(cut) if cut < never_from => cut_away,
        _ => Some(absent_from(never_from, true)),
    }
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

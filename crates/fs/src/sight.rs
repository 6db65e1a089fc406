//! One object as a reader sees it: the layers of the groups that are not synced, newest first, then the tree.
//!
//! The tree's root is fetched after the object's lock is held. A layer goes only once the root that contains it is
//! published, so whoever finds no layer finds its content in the root (rules F11).

mod xattr;

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use smallvec::SmallVec;
use tally_base::{ObjectId, blocking, name_hash};
use tally_store::block::BlockError;
use tally_store::bp::BlockPtr;
use tally_store::dataset::DatasetRoot;
use tally_store::io::Standing;
use tally_store::key::{Class, Key};
use tally_vfs::{FileKind, FsError, ObjectRef};

use crate::ahead::{ColdRead, Lone};
use crate::damage::Part;
use crate::entry::decode_entry;
use crate::filesystem::Filesystem;
use crate::inode::{Inode, Layout};
use crate::layer::{DataLayer, Layer, Piece, Seen, see_through};
use crate::object::{ObjectState, RestsOn};
use crate::schema::decode_pointer;

/// An object under a lock, with the tree below it.
pub(crate) struct Sight<'a> {
    pub(crate) fs: &'a Filesystem,
    pub(crate) id: ObjectId,
    state: Option<&'a ObjectState>,
    pub(crate) root: Arc<DatasetRoot>,
}

/// A directory entry that was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) entry: ObjectId,
    pub(crate) object: ObjectId,
}

impl Filesystem {
    /// Looks at an object that the caller has locked.
    pub(crate) fn sight<'a>(&'a self, id: ObjectId, state: &'a ObjectState) -> Sight<'a> {
        Sight { fs: self, id, state: Some(state), root: self.dataset.root() }
    }

    /// Looks at an object under its shared lock.
    pub(crate) fn see<R>(&self, id: ObjectId, look: impl FnOnce(&Sight<'_>) -> R) -> R {
        let Some(object) = self.objects.find(id) else {
            return look(&Sight { fs: self, id, state: None, root: self.dataset.root() });
        };
        let state = object.try_read().unwrap_or_else(|| blocking(|| object.read()));
        look(&Sight { fs: self, id, state: state.loaded.then_some(&*state), root: self.dataset.root() })
    }
}

impl Sight<'_> {
    pub(crate) fn damaged(&self, part: Part, error: &dyn std::fmt::Display) -> FsError {
        self.fs.damaged(self.id, part, error)
    }

    /// What groups have changed that are not synced, oldest first.
    pub(crate) fn layers(&self) -> &[Arc<Layer>] {
        self.state.map_or(&[], |state| &state.layers)
    }

    /// The newest inode.
    pub(crate) fn inode(&self) -> Result<Option<Inode>, FsError> {
        let mut inode = match self.state {
            Some(state) => state.inode.clone(),
            None => self.fs.stored_inode(&self.root, self.id)?,
        };
        if let Some(inode) = &mut inode {
            inode.change = inode.change.max(self.fs.change_floor(&self.root));
        }
        Ok(inode)
    }

    /// Its dirty content in the newest group that has any.
    pub(crate) fn newest_data(&self) -> Option<&DataLayer> {
        self.state?.layers.last().map(|layer| &layer.data)
    }

    /// What an answer rests on that looked here. What nobody is changing is in the tree, and durable.
    pub(crate) fn rests_on(&self) -> RestsOn {
        self.state.map(ObjectState::rests_on).unwrap_or_default()
    }

    /// The inode, if the object exists under the generation of `object`.
    pub(crate) fn live(&self, object: ObjectRef) -> Result<Inode, FsError> {
        self.inode()?.filter(|inode| inode.generation == object.generation).ok_or(FsError::Stale)
    }

    /// The inode of a directory.
    pub(crate) fn live_directory(&self, object: ObjectRef) -> Result<Inode, FsError> {
        let inode = self.live(object)?;
        if inode.kind == FileKind::Directory { Ok(inode) } else { Err(FsError::NotDirectory) }
    }

    /// The value under one of the object's keys.
    pub(crate) fn value(&self, key: &Key) -> Result<Option<Bytes>, FsError> {
        let layers = self.layers();
        if let Some(value) = layers.iter().rev().find_map(|layer| layer.keys.get(key)) {
            return Ok(value.clone());
        }
        self.unless_nothing_is_stored(key.class, self.fs.io().get(&self.root.tree, key))
    }

    /// What was read of a directory's names, or of extended attributes, in the tree. Where they cannot be read it may still be that the stored
    /// inode knows of none: a directory that was made above a leaf that had rotted is not damaged by it.
    fn unless_nothing_is_stored<T>(
        &self,
        class: Class,
        read: Result<Option<T>, BlockError>,
    ) -> Result<Option<T>, FsError> {
        let (has_none, part): (fn(&Inode) -> bool, _) = match class {
            Class::Xattr => (|inode| inode.xattrs.is_empty(), Part::Xattrs),
            _ => (Inode::is_empty_directory, Part::Names),
        };
        read.or_else(|error| match self.fs.stored_inode(&self.root, self.id) {
            Ok(inode) if inode.as_ref().is_none_or(has_none) => Ok(None),
            _ => Err(self.damaged(part, &error)),
        })
    }

    /// The object's keys from `from` to `to` (exclusive) with their values, in order, at most `max`.
    pub(crate) fn range(&self, from: Key, to: Key, max: usize) -> Result<Vec<(Key, Bytes)>, FsError> {
        let layers = self.layers();
        let mut overlays: SmallVec<[_; 3]> =
            layers.iter().rev().map(|layer| layer.keys.range(from..to).peekable()).collect();
        let mut stored = self.fs.io().range(&self.root.tree, &from, &to);
        let mut next_stored = self.unless_nothing_is_stored(from.class, stored.next().transpose())?;
        let mut found = Vec::new();
        while found.len() < max {
            let in_layers = overlays.iter_mut().filter_map(|layer| layer.peek().map(|(key, _)| **key)).min();
            let Some(key) = in_layers.into_iter().chain(next_stored.as_ref().map(|(key, _)| *key)).min() else { break };
            let mut value = None;
            // The newest layer that knows the key speaks; the others step over it.
            for layer in &mut overlays {
                if let Some((_, of_layer)) = layer.next_if(|(of_layer, _)| **of_layer == key) {
                    value = value.or(Some(of_layer.clone()));
                }
            }
            if next_stored.as_ref().is_some_and(|(of_tree, _)| *of_tree == key) {
                let (_, of_tree) = next_stored.take().expect("it was just looked at");
                value = value.or(Some(Some(of_tree)));
                next_stored = self.unless_nothing_is_stored(from.class, stored.next().transpose())?;
            }
            if let Some(Some(value)) = value {
                found.push((key, value));
            }
        }
        Ok(found)
    }

    /// Finds a name in this directory.
    pub(crate) fn find(&self, name: &[u8]) -> Result<Option<Found>, FsError> {
        let hash = name_hash(self.fs.dataset.birth.name_key, name);
        let from = Key::new(Class::DirHash, self.id.0, hash, 0);
        let to = Key::new(Class::DirHash, self.id.0, hash, u64::MAX);
        for (key, _) in self.range(from, to, usize::MAX)? {
            let entry_key = Key::new(Class::DirEntry, self.id.0, key.b, 0);
            let Some(value) = self.value(&entry_key)? else { continue };
            let (object, entry_name) =
                decode_entry(&value).ok_or_else(|| self.damaged(Part::Names, &"damaged directory entry"))?;
            if entry_name == name {
                return Ok(Some(Found { entry: ObjectId(key.b), object }));
            }
        }
        Ok(None)
    }

    /// Whether the directory has no entries.
    pub(crate) fn is_empty_directory(&self) -> Result<bool, FsError> {
        let from = Key::new(Class::DirEntry, self.id.0, 0, 0);
        let to = Key::new(Class::DirEntry, self.id.0, u64::MAX, 0);
        Ok(self.range(from, to, 1)?.is_empty())
    }

    /// The content of `range`, in pieces that add up to it.
    pub(crate) fn content(&self, range: Range<u64>) -> Result<SmallVec<[Bytes; 4]>, FsError> {
        let mut out = SmallVec::new();
        for (_, part, seen) in see_through(self.layers(), range) {
            match seen {
                Seen::Piece(Piece::Memory { bytes, .. }) => out.push(bytes),
                Seen::Piece(Piece::Placed { block, skip, length }) => {
                    let read = self.fs.io().read(&block);
                    let bytes = read.map_err(|error| self.damaged(Part::Content(part.start), &error))?;
                    out.push(bytes.slice(skip as usize..(skip + length) as usize));
                }
                Seen::Zero => push_zeroes(part.end - part.start, &mut out),
                Seen::Below => self.stored_content(part, &mut out)?,
            }
        }
        Ok(out)
    }

    /// The content in the tree. What lies behind the stored size is zeroes.
    fn stored_content(&self, range: Range<u64>, out: &mut SmallVec<[Bytes; 4]>) -> Result<(), FsError> {
        let Some(inode) = self.fs.stored_inode(&self.root, self.id)? else {
            push_zeroes(range.end - range.start, out);
            return Ok(());
        };
        let (stored, behind) = (range.start..range.end.min(inode.size), range.start.max(inode.size)..range.end);
        self.content_of(&inode, stored, out)?;
        push_zeroes(behind.end.saturating_sub(behind.start), out);
        Ok(())
    }

    /// The content in the tree up to the stored size.
    fn content_of(&self, inode: &Inode, range: Range<u64>, out: &mut SmallVec<[Bytes; 4]>) -> Result<(), FsError> {
        if range.is_empty() {
            return Ok(());
        }
        if inode.layout == Layout::Small {
            let key = Key::new(Class::Small, self.id.0, 0, 0);
            let whole = self.fs.io().get(&self.root.tree, &key);
            let whole = whole.map_err(|error| self.damaged(Part::Content(0), &error))?;
            push_part(&whole.unwrap_or_default(), 0, range, out);
            return Ok(());
        }
        let record_size = inode.record_size();
        let first = range.start / record_size * record_size;
        let mut starts: SmallVec<[u64; 16]> = SmallVec::new();
        let mut start = first;
        while start < range.end {
            starts.push(start);
            start += record_size;
        }
        let blocks = self.stored_blocks(inode, &starts)?;
        let _lone = self.before_the_disk(inode, &starts, &blocks);
        for (start, block) in starts.into_iter().zip(blocks) {
            let part = range.start.max(start)..range.end.min(start + record_size);
            match block {
                Some(block) => {
                    let is_from_disk = self.fs.damage.has_places() && self.fs.io().standing(&block) == Standing::Stored;
                    let read = self.fs.io().read(&block);
                    let bytes = read.map_err(|error| self.fs.damaged_block(self.id, start, &error))?;
                    if is_from_disk {
                        self.fs.is_whole(self.id, start);
                    }
                    push_part(&bytes, start, part, out);
                }
                None => push_zeroes(part.end - part.start, out),
            }
        }
        Ok(())
    }

    /// Pointers of the blocks that start at `starts`.
    fn stored_blocks(&self, inode: &Inode, starts: &[u64]) -> Result<SmallVec<[Option<BlockPtr>; 16]>, FsError> {
        starts.iter().map(|start| self.fs.stored_block(&self.root, (self.id, inode), *start)).collect()
    }

    /// What is to be done before blocks are read: whoever reads ahead is told of those that are not cached, and several are
    /// read at once, so that a cold disk sees them together. To be held until they are read.
    fn before_the_disk(&self, inode: &Inode, starts: &[u64], blocks: &[Option<BlockPtr>]) -> Option<Lone<'_>> {
        let io = self.fs.io();
        let standing = |(start, block): (&u64, &Option<BlockPtr>)| Some((*start, io.standing(block.as_ref()?)));
        let standings: SmallVec<[_; 16]> = starts.iter().zip(blocks).filter_map(standing).collect();
        if standings.iter().all(|(_, standing)| *standing == Standing::Cached) {
            return None;
        }
        let lone = self.fs.ahead.note(&ColdRead {
            dataset: &self.fs.dataset,
            object: self.id,
            blocks: &standings,
            record_size: inode.record_size(),
            file_bytes: inode.size,
        });
        if standings.len() > 1 {
            let present: Vec<BlockPtr> = blocks.iter().flatten().copied().collect();
            io.read_together(&present);
        }
        lone
    }
}

impl Filesystem {
    /// The pointer to the block at `start` of the file whose stored inode this is. A block that was cut away and is still in the
    /// tree is nobody's ([`crate::cuts`]).
    pub(crate) fn stored_block(
        &self,
        root: &DatasetRoot,
        (id, inode): (ObjectId, &Inode),
        start: u64,
    ) -> Result<Option<BlockPtr>, FsError> {
        let key = Key::new(Class::Extent, id.0, start, 0);
        let damaged = |error: &dyn std::fmt::Display| self.damaged(id, Part::Content(start), error);
        let value = self.io().get(&root.tree, &key).map_err(|error| damaged(&error))?;
        let block = value.map(|value| decode_pointer(&value).ok_or_else(|| damaged(&"damaged extent"))).transpose()?;
        Ok(block.filter(|block| !inode.has_cut(start, block.birth)))
    }
}

/// Zeroes to point at, instead of making them.
static ZEROES: [u8; 128 * 1024] = [0; 128 * 1024];

fn push_zeroes(mut count: u64, out: &mut SmallVec<[Bytes; 4]>) {
    while count > 0 {
        let part = count.min(ZEROES.len() as u64);
        out.push(Bytes::from_static(&ZEROES[..part as usize]));
        count -= part;
    }
}

/// The part `range` of a block that starts at `start`; zeroes behind its end.
fn push_part(block: &Bytes, start: u64, range: Range<u64>, out: &mut SmallVec<[Bytes; 4]>) {
    let end = start + block.len() as u64;
    let known = range.start.min(end)..range.end.min(end);
    if !known.is_empty() {
        out.push(block.slice((known.start - start) as usize..(known.end - start) as usize));
    }
    push_zeroes(range.end - range.end.min(end.max(range.start)), out);
}

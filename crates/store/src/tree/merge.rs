//! The merge of a txg's changes into a tree, in two passes.
//!
//! The first goes down level by level along the changes, reading each level's touched nodes together, and ends
//! with the touched leaves in key order. The second goes through the tree recursively and rebuilds what is
//! touched, from the leaves upwards, with the leaves being read ahead in windows. So on a cold tree hundreds of
//! leaves are asked for at a time, where a plain recursion would wait for one after the other.
//!
//! A node that cannot be read ends nothing: [`super::around`] tells how its changes are taken in beside it.

use std::collections::VecDeque;

use bytes::Bytes;

use super::around::{self, Around, Part};
use super::balance::{Draft, InnerDraft, LeafDraft, Slot, Untouched, even_out};
use super::bounds::Bounds;
use super::inner::{self, Child};
use super::leaf::{self, Entry};
use super::{Change, Release, Tree, VALUE_BYTES_MAX, malformed_block, read_inner, view_inner, view_leaf};
use crate::block::BlockError;
use crate::bp::{BlockKind, BlockPtr, Compression};
use crate::io::BlockIo;
use crate::key::{Class, Key};
use crate::run::{RedundantMetadata, RunWriter};

/// Leaves that are read ahead: at most 4 MiB of them.
const WINDOW: usize = 64;

/// So many new neighbours are taken for a sequence that will go on growing where they stand.
const SEQUENCE_MIN: usize = 8;

type Changes = [(Key, Change)];

/// The tree after `changes`, and whether a node could not be read on the way.
pub(super) fn apply(
    tree: &Tree,
    io: &BlockIo,
    out: &mut RunWriter,
    changes: &Changes,
    around: &Around<'_>,
    release: Release<'_>,
) -> Result<(Tree, bool), BlockError> {
    assert!(changes.is_sorted_by(|a, b| a.0 < b.0), "changes come in ascending order, without duplicates");
    if changes.is_empty() {
        return Ok((tree.clone(), false));
    }
    let mut lost = around.lost.to_vec();
    let feed = LeafFeed::plan(tree, io, changes, &mut lost)?;
    let has_gone_around = lost.len() > around.lost.len();
    let mut merger = Merger { io, out, release, feed, entry_count: tree.entry_count, around, lost, has_gone_around };
    let tree = merger.apply(tree, changes)?;
    Ok((tree, merger.has_gone_around))
}

/// The second pass.
pub(super) struct Merger<'a> {
    pub(super) io: &'a BlockIo,
    out: &'a mut RunWriter,
    release: Release<'a>,
    feed: LeafFeed,
    entry_count: u64,
    around: &'a Around<'a>,
    /// Nodes that could not be read: whoever comes by them again must find the same.
    lost: Vec<BlockPtr>,
    /// A node was lost, or an untouched neighbour.
    has_gone_around: bool,
}

impl Merger<'_> {
    fn apply(&mut self, tree: &Tree, changes: &Changes) -> Result<Tree, BlockError> {
        let rebuilt = match tree.root {
            None => {
                let drafts = self.merge_entries(Vec::new(), changes).map(into_drafts).unwrap_or_default();
                Some((even_out(drafts, self)?, 0))
            }
            Some(bp) => {
                // No key stands above a root.
                let root = Untouched { child: Child { key: Key::MIN, bp }, bounds: Bounds::default() };
                self.rebuild_root(&root, tree.height, changes)?
            }
        };
        match rebuilt {
            Some((children, height)) => self.root_of(children, height),
            None => Ok(tree.clone()),
        }
    }

    /// The nodes that take the root's place, or its children, and their height.
    fn rebuild_root(
        &mut self,
        root: &Untouched,
        height: u8,
        changes: &Changes,
    ) -> Result<Option<(Vec<Child>, u8)>, BlockError> {
        if height == 0 {
            let Some(slots) = self.rebuild_leaf(root, changes)? else { return Ok(None) };
            return Ok(Some((even_out(slots, self)?, 0)));
        }
        let Some(mut slots) = self.rebuild_inner(root, height, changes)? else { return Ok(None) };
        match slots.pop() {
            Some(Slot::Fresh(draft)) if slots.is_empty() => Ok(Some((draft.children, height - 1))),
            last => {
                slots.extend(last);
                Ok(Some((even_out(slots, self)?, height)))
            }
        }
    }

    /// Builds levels above `children`, which are nodes of `height`, until one is left.
    fn root_of(&mut self, mut children: Vec<Child>, mut height: u8) -> Result<Tree, BlockError> {
        while children.len() > 1 {
            height += 1;
            if height > inner::HEIGHT_MAX {
                // Only a root that claims more than there is gets here. What is written could never be read.
                let bp = children[0].bp;
                return Err(BlockError::Malformed { bp, what: "nodes on so few levels as a tree has" });
            }
            let draft = InnerDraft { height, children, grows_at_end: true };
            children = even_out(vec![Slot::Fresh(draft)], self)?;
        }
        let Some(mut root) = children.first().map(|child| child.bp) else { return Ok(Tree::empty()) };
        // A root with one child is no root.
        while height > 0 {
            let read = read_inner(self.io, &root, height);
            let Some(bytes) = self.known(&root, read)? else { break };
            let node = view_inner(&root, &bytes)?;
            if node.count() > 1 {
                break;
            }
            let child = node.pointer(0).map_err(|malformed| malformed_block(&root, malformed))?;
            self.free(&root);
            root = child;
            height -= 1;
        }
        // Where entries were lost nobody knows how many there are; that there are some goes without saying.
        Ok(Tree { root: Some(root), height, entry_count: self.entry_count.max(1) })
    }

    /// What a node becomes that has changes below it: one draft, perhaps without children, or what stands around it if
    /// it cannot be read; `None` if nothing changes.
    fn rebuild_inner(
        &mut self,
        untouched: &Untouched,
        height: u8,
        changes: &Changes,
    ) -> Result<Option<Vec<Slot<InnerDraft>>>, BlockError> {
        let (bp, bounds) = (&untouched.child.bp, untouched.bounds);
        let read = read_inner(self.io, bp, height).and_then(|bytes| {
            bounds.check_inner(bp, &view_inner(bp, &bytes)?)?;
            Ok(bytes)
        });
        let Some(bytes) = self.known(bp, read)? else {
            let build = |merger: &mut Self, from, puts: &Changes| merger.new_inner(height, from, puts);
            return self.rebuild_around(untouched, height, changes, build);
        };
        let node = view_inner(bp, &bytes)?;
        let mut touched = Vec::new();
        for (at, share) in node.shares(changes, |change| &change.0) {
            let child = node.child(at).map_err(|malformed| malformed_block(bp, malformed))?;
            touched.push((Untouched { child, bounds: bounds.of_child(&node, at) }, share));
        }
        let (children, first_touched) = if height == 1 {
            self.rebuild_children(touched, |merger, untouched, share| merger.rebuild_leaf(untouched, share))?
        } else {
            self.rebuild_children(touched, |merger, untouched, share| {
                let mut slots = merger.rebuild_inner(untouched, height - 1, share)?;
                if let Some(slots) = &mut slots {
                    slots.retain(|slot| !matches!(slot, Slot::Fresh(draft) if draft.children.is_empty()));
                }
                Ok(slots)
            })?
        };
        let Some(children) = children else { return Ok(None) };
        self.free(bp);
        let grows_at_end = first_touched + 1 >= node.count();
        Ok(Some(vec![Slot::Fresh(InnerDraft { height, children, grows_at_end })]))
    }

    /// Rebuilds the children that have changes, and settles them all: the new children, and which of the old
    /// ones was the first to change.
    fn rebuild_children<D: super::balance::Draft>(
        &mut self,
        children: Vec<(Untouched, &Changes)>,
        rebuild: impl Fn(&mut Self, &Untouched, &Changes) -> Result<Option<Vec<Slot<D>>>, BlockError>,
    ) -> Result<(Option<Vec<Child>>, usize), BlockError> {
        let mut slots = Vec::with_capacity(children.len() + 1);
        let mut first_touched = None;
        for (at, (untouched, share)) in children.into_iter().enumerate() {
            let rebuilt = if share.is_empty() { None } else { rebuild(self, &untouched, share)? };
            match rebuilt {
                None => slots.push(Slot::Untouched(untouched)),
                Some(drafts) => {
                    first_touched.get_or_insert(at);
                    slots.extend(drafts);
                }
            }
        }
        match first_touched {
            Some(first_touched) => Ok((Some(even_out(slots, self)?), first_touched)),
            None => Ok((None, 0)),
        }
    }

    /// What a leaf becomes: a draft for each class, none at all if it is emptied, or what stands around it if it cannot
    /// be read; `None` if nothing changes.
    fn rebuild_leaf(
        &mut self,
        untouched: &Untouched,
        changes: &Changes,
    ) -> Result<Option<Vec<Slot<LeafDraft>>>, BlockError> {
        let bp = &untouched.child.bp;
        let read = self.feed.next(self.io, bp).and_then(|bytes| entries_of(bp, &bytes, untouched.bounds));
        let Some(old) = self.known(bp, read)? else {
            return self.rebuild_around(untouched, 0, changes, |merger, from, puts| Ok(merger.new_leaves(from, puts)));
        };
        let Some(drafts) = self.merge_entries(old, changes) else { return Ok(None) };
        self.free(bp);
        // A place that shrank to what is left in it would leave keys to the node before, and that one may become
        // unreadable.
        Ok(Some(into_drafts(beginning_at(untouched.child.key, drafts))))
    }

    /// What was read of a node; `None` if it cannot be read, and one can go on around it.
    fn known<T>(&mut self, bp: &BlockPtr, read: Result<T, BlockError>) -> Result<Option<T>, BlockError> {
        if self.lost.contains(bp) {
            return Ok(None);
        }
        match read {
            Ok(content) => Ok(Some(content)),
            Err(error) => {
                self.go_around(error)?;
                self.lost.push(*bp);
                Ok(None)
            }
        }
    }

    /// Nothing but the damage of one block is gone around.
    pub(super) fn go_around(&mut self, error: BlockError) -> Result<(), BlockError> {
        let bp = self.io.check_damage(error)?;
        tracing::error!(txg = %self.out.txg(), "a node of a tree cannot be read: [{bp}]; changes are taken in around it");
        self.has_gone_around = true;
        Ok(())
    }

    /// What takes the place of a node that cannot be read. `build` makes nodes of its height for what is new, from a
    /// key on.
    fn rebuild_around<D: Draft>(
        &mut self,
        untouched: &Untouched,
        height: u8,
        changes: &Changes,
        build: impl Fn(&mut Self, Key, &Changes) -> Result<Vec<Slot<D>>, BlockError>,
    ) -> Result<Option<Vec<Slot<D>>>, BlockError> {
        let bp = untouched.child.bp;
        let plan = around::plan(untouched, height, changes, self.around);
        if !plan.changes_anything() {
            return Ok(None);
        }
        let mut old = Some(if plan.is_stale { bp.given_up() } else { bp });
        let mut slots = Vec::new();
        for part in plan.parts {
            match part {
                Part::Known(from, puts) => slots.extend(build(self, from, &puts)?),
                Part::Unknown(key) => {
                    let bp = match old.take() {
                        Some(bp) => bp,
                        None => self.out.put_given_up(bp.kind, &bp.encode(), Compression::Off)?,
                    };
                    slots.push(Slot::Untouched(Untouched { child: Child { key, bp }, bounds: untouched.bounds }));
                }
            }
        }
        if old.is_some() {
            // All that it can have held is known by now.
            self.free(&bp);
        }
        Ok(Some(slots))
    }

    fn new_leaves(&mut self, from: Key, puts: &Changes) -> Vec<Slot<LeafDraft>> {
        let drafts = self.merge_entries(Vec::new(), puts).unwrap_or_default();
        into_drafts(beginning_at(from, drafts))
    }

    fn new_inner(&mut self, height: u8, from: Key, puts: &Changes) -> Result<Vec<Slot<InnerDraft>>, BlockError> {
        let leaves = self.new_leaves(from, puts);
        let mut children = even_out(leaves, self)?;
        for height in 1..height {
            children = even_out(vec![Slot::Fresh(InnerDraft { height, children, grows_at_end: true })], self)?;
        }
        Ok(vec![Slot::Fresh(InnerDraft { height, children, grows_at_end: true })])
    }

    /// Merges sorted entries and changes. `None` if nothing changes.
    fn merge_entries(&mut self, old: Vec<Entry>, changes: &Changes) -> Option<Vec<LeafDraft>> {
        let mut merged = Merged::with_capacity(old.len() + changes.len());
        let (old_count, mut added, mut removed) = (old.len(), 0, 0);
        let mut old = old.into_iter().peekable();
        for (key, change) in changes {
            while let Some(entry) = old.next_if(|entry| entry.key < *key) {
                merged.keep(entry);
            }
            let replaced = old.next_if(|entry| entry.key == *key);
            match (change, replaced) {
                (Change::Put(value), Some(entry)) if entry.value == *value => merged.keep(entry),
                (Change::Put(value), Some(_)) => merged.replace(*key, value),
                (Change::Put(value), None) => {
                    added += 1;
                    merged.insert(*key, value);
                }
                (Change::Delete, Some(_)) => {
                    removed += 1;
                    merged.changed = true;
                }
                (Change::Delete, None) => {}
            }
        }
        old.for_each(|entry| merged.keep(entry));
        assert_eq!(merged.entries.len() + removed, old_count + added, "every entry is old, or was put, or is gone");
        // The count is what a damaged root claims, so it may be anything.
        self.entry_count = self.entry_count.saturating_add(added as u64).saturating_sub(removed as u64);
        merged.changed.then(|| merged.into_drafts())
    }

    /// Entries of a leaf that no change touches.
    pub(super) fn read_entries(&mut self, untouched: &Untouched) -> Result<Vec<Entry>, BlockError> {
        let bp = &untouched.child.bp;
        let bytes = super::read_leaf(self.io, bp)?;
        entries_of(bp, &bytes, untouched.bounds)
    }

    pub(super) fn free(&mut self, bp: &BlockPtr) {
        (self.release)(bp);
    }

    /// Writes a node of which the first key is `first`.
    pub(super) fn put(&mut self, kind: BlockKind, first: &Key, bytes: Bytes) -> Result<BlockPtr, BlockError> {
        let least = match (kind, first.class) {
            (BlockKind::Leaf, Class::Small) => return self.out.put_bytes(kind, bytes, Compression::Lz4),
            (BlockKind::Leaf, class) if !class.is_of_catalog() => RedundantMetadata::All,
            _ => RedundantMetadata::Most,
        };
        self.out.put_metadata(kind, bytes, Compression::Lz4, least)
    }
}

/// Lets the first of them have its place from `place` on.
fn beginning_at(place: Key, mut drafts: Vec<LeafDraft>) -> Vec<LeafDraft> {
    if let Some(first) = drafts.first_mut() {
        first.begin_at(place);
    }
    drafts
}

fn into_drafts(drafts: Vec<LeafDraft>) -> Vec<Slot<LeafDraft>> {
    drafts.into_iter().map(Slot::Fresh).collect()
}

fn entries_of(bp: &BlockPtr, bytes: &Bytes, bounds: Bounds) -> Result<Vec<Entry>, BlockError> {
    let leaf = view_leaf(bp, bytes)?;
    bounds.check_leaf(bp, &leaf)?;
    let entry = |at| Some(Entry { key: leaf.key(at)?, value: bytes.slice(leaf.value(at)) });
    Ok((0..leaf.count()).filter_map(entry).collect())
}

/// The outcome of a merge while it grows.
struct Merged {
    entries: Vec<Entry>,
    changed: bool,
    /// Where new keys stand: the first one's position, and the end of the last one.
    inserted: Option<(usize, usize)>,
    inserted_count: usize,
}

impl Merged {
    fn with_capacity(count: usize) -> Self {
        Self { entries: Vec::with_capacity(count), changed: false, inserted: None, inserted_count: 0 }
    }

    fn keep(&mut self, entry: Entry) {
        self.entries.push(entry);
    }

    fn replace(&mut self, key: Key, value: &Bytes) {
        assert!(value.len() <= VALUE_BYTES_MAX, "a value of {} bytes for {key:?}", value.len());
        self.entries.push(Entry { key, value: value.clone() });
        self.changed = true;
    }

    fn insert(&mut self, key: Key, value: &Bytes) {
        let first = self.inserted.map_or(self.entries.len(), |(first, _)| first);
        self.replace(key, value);
        self.inserted = Some((first, self.entries.len()));
        self.inserted_count += 1;
    }

    /// Where a sequence grows: new keys stand together, and they are many or stand at the end.
    fn grows_at(&self) -> Option<usize> {
        let (first, end) = self.inserted?;
        let together = end - first == self.inserted_count;
        (together && (self.inserted_count >= SEQUENCE_MIN || end == self.entries.len())).then_some(end)
    }

    /// A draft for each class.
    fn into_drafts(self) -> Vec<LeafDraft> {
        let grows_at = self.grows_at();
        let single =
            self.entries.first().map(|entry| entry.key.class) == self.entries.last().map(|entry| entry.key.class);
        if single {
            let drafts = (!self.entries.is_empty()).then(|| LeafDraft::new(self.entries, grows_at));
            return drafts.into_iter().collect();
        }
        let mut drafts = Vec::new();
        let mut start = 0;
        for entries in self.entries.chunk_by(|a, b| a.key.class == b.key.class) {
            let end = start + entries.len();
            // A class that came with this txg, or grows at its end, is a sequence too; the others are cut evenly.
            let grows_at = match self.inserted {
                Some((first, last)) if first <= start && last >= end => Some(entries.len()),
                _ => grows_at.filter(|at| (start + 1..=end).contains(at)).map(|at| at - start),
            };
            drafts.push(LeafDraft::new(entries.to_vec(), grows_at));
            start = end;
        }
        drafts
    }
}

/// The first pass, and the touched leaves in key order as the second one needs them.
struct LeafFeed {
    leaves: Vec<BlockPtr>,
    /// Leaves before this one have been read.
    next: usize,
    ready: VecDeque<Result<Bytes, BlockError>>,
}

impl LeafFeed {
    /// Nodes that cannot be read, and one can go around, are added to `lost`.
    fn plan(tree: &Tree, io: &BlockIo, changes: &Changes, lost: &mut Vec<BlockPtr>) -> Result<Self, BlockError> {
        let mut level: Vec<(BlockPtr, &Changes)> = tree.root.iter().map(|root| (*root, changes)).collect();
        for _ in 0..tree.height {
            let mut below = Vec::with_capacity(level.len() * 2);
            for window in level.chunks(WINDOW) {
                let pointers: Vec<_> = window.iter().map(|(bp, _)| *bp).collect();
                let nodes = io.read_many(&pointers, BlockKind::TreeNode, inner::check);
                for ((bp, changes), bytes) in window.iter().zip(nodes) {
                    match bytes.and_then(|bytes| touched_children(bp, &bytes, changes)) {
                        Ok(children) => below.extend(children),
                        Err(error) => lost.push(io.check_damage(error)?),
                    }
                }
            }
            level = below;
        }
        let leaves = level.into_iter().map(|(bp, _)| bp).collect();
        Ok(Self { leaves, next: 0, ready: VecDeque::new() })
    }

    /// The bytes of a touched leaf. They are asked for in the order of the plan; it may have leaves below a node that
    /// the second pass cannot read any more, which are passed over.
    fn next(&mut self, io: &BlockIo, bp: &BlockPtr) -> Result<Bytes, BlockError> {
        while self.next < self.leaves.len() {
            if self.ready.is_empty() {
                let end = (self.next + WINDOW).min(self.leaves.len());
                self.ready.extend(io.read_many(&self.leaves[self.next..end], BlockKind::Leaf, leaf::check));
            }
            let leaf = self.leaves[self.next];
            self.next += 1;
            match self.ready.pop_front() {
                Some(bytes) if leaf == *bp => return bytes,
                _ => {}
            }
        }
        super::read_leaf(io, bp)
    }
}

fn touched_children<'c>(
    bp: &BlockPtr,
    bytes: &Bytes,
    changes: &'c Changes,
) -> Result<Vec<(BlockPtr, &'c Changes)>, BlockError> {
    let node = view_inner(bp, bytes)?;
    let touched = node.shares(changes, |change| &change.0).filter(|(_, share)| !share.is_empty());
    let child = |(at, share)| Ok((node.pointer(at).map_err(|malformed| malformed_block(bp, malformed))?, share));
    touched.map(child).collect()
}

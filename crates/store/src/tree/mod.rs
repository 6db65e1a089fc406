//! An immutable copy-on-write B+tree from [`Key`]s to byte strings: what a dataset is made of, and the catalog of all datasets.
//!
//! **The problem.** Every few seconds a txg brings tens of thousands of changes, in all parts of the key space;
//! readers must not wait for them; and what a crash leaves must be either the old tree or the new one.
//!
//! **The idea.** A tree is a root pointer. It is changed by one call for each txg, [`Tree::apply`], which merges a
//! sorted list of changes in one pass: the touched leaves are read ahead in key order, rebuilt together with the
//! nodes above them in new places, and a new root pointer is returned. Readers of the old one are not disturbed.
//! There are no locks, no latches, no parent or sibling pointers, and no block is written twice in a txg.
//!
//! **Why not otherwise.** Inserting key by key into dirty nodes costs a descent for each key and keeps a second,
//! mutable form of every node. An LSM tree writes less, but reads and space are worse, and its compaction is a
//! second background writer that competes with the log.
//!
//! **What it costs.** Changing one entry rewrites its leaf (16 KiB, or 64 KiB for small files' content) and the
//! path above; changes to neighbours share that. See [`leaf`] and [`inner`] for the layouts.

mod around;
mod balance;
mod bounds;
mod cursor;
mod inner;
mod leaf;
mod merge;
mod quiet;
mod step;
mod walk;

use bytes::Bytes;
use tally_base::Txg;
use tally_base::codec::{Malformed, Put, Reader};

pub use around::Around;
pub use cursor::RangeIter;
pub use step::Step;
pub use walk::{Visit, WalkSummary};

use crate::block::BlockError;
use crate::bp::{BlockKind, BlockPtr};
use crate::io::{BlockIo, Nodes};
use crate::key::{Class, Key};
use crate::run::RunWriter;
use inner::Inner;
use leaf::Leaf;

/// Encoded size of a [`Tree`].
pub const TREE_BYTES: usize = 80;

/// The longest value that a tree takes.
pub const VALUE_BYTES_MAX: usize = 32 << 10;

/// What becomes of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// It has this value from now on.
    Put(Bytes),
    /// It is gone; deleting what is not there is no error.
    Delete,
}

/// What becomes of a node that a merge replaces.
pub(crate) type Release<'a> = &'a dyn Fn(&BlockPtr);

/// One version of a tree. Cheap to clone; the blocks behind it must not have been freed and reused.
///
/// ```text
///   0      1        2          8         16             80
///   +------+--------+----------+---------+--------------+
///   | zero | height | zero     | entries | root pointer |   no root: 64 zeroes, height and entries 0
///   +------+--------+----------+---------+--------------+
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tree {
    root: Option<BlockPtr>,
    height: u8,
    entry_count: u64,
}

impl Tree {
    /// A tree without entries.
    #[must_use]
    pub fn empty() -> Self {
        Self::default()
    }

    /// Entries in its leaves; 0 is an empty tree.
    #[must_use]
    pub fn entry_count(&self) -> u64 {
        self.entry_count
    }

    /// The root's pointer; none if there are no entries.
    #[must_use]
    pub fn root(&self) -> Option<&BlockPtr> {
        self.root.as_ref()
    }

    /// Levels above the leaves.
    #[must_use]
    pub fn height(&self) -> u8 {
        self.height
    }

    /// The bytes of the drawing above.
    #[must_use]
    pub fn encode(&self) -> [u8; TREE_BYTES] {
        assert!(self.height <= inner::HEIGHT_MAX, "a tree of {} levels could not be read", self.height);
        let mut bytes = Vec::with_capacity(TREE_BYTES);
        bytes.put_u8(0);
        bytes.put_u8(self.height);
        bytes.put(&[0; 6]);
        bytes.put_u64(self.entry_count);
        bytes.put(&BlockPtr::encode_option(self.root.as_ref()));
        bytes.try_into().expect("1 + 1 + 6 + 8 + 64 bytes")
    }

    /// The tree of an encoding.
    pub fn decode(bytes: &[u8; TREE_BYTES]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(bytes, "tree root");
        let (zero, height) = (reader.u8()?, reader.u8()?);
        let zeroes = reader.array::<6>()?;
        let entry_count = reader.u64()?;
        let root = BlockPtr::decode_option(&reader.array()?)?;
        let kind = if height == 0 { BlockKind::Leaf } else { BlockKind::TreeNode };
        let sound = zero == 0
            && zeroes == [0; 6]
            && height <= inner::HEIGHT_MAX
            && match &root {
                Some(root) => root.kind == kind && entry_count > 0,
                None => height == 0 && entry_count == 0,
            };
        if sound { Ok(Self { root, height, entry_count }) } else { Err(reader.malformed()) }
    }

    /// The value of `key`: a slice of its cached leaf, which it keeps in memory while it lives.
    pub fn get(&self, io: &BlockIo, key: &Key) -> Result<Option<Bytes>, BlockError> {
        let Some(mut bp) = self.root else { return Ok(None) };
        for height in (1..=self.height).rev() {
            let bytes = read_inner(io, &bp, height)?;
            let node = view_inner(&bp, &bytes)?;
            let at = node.position(key);
            if height == 1 && node.is_of_another_class(at, key.class) {
                return Ok(None);
            }
            bp = node.pointer(at).map_err(|malformed| malformed_block(&bp, malformed))?;
        }
        let bytes = read_leaf(io, &bp)?;
        let leaf = view_leaf(&bp, &bytes)?;
        Ok(leaf.find(key).map(|at| bytes.slice(leaf.value(at))))
    }

    /// Reads the leaf that tells whether `key` is there, and the one before it, to which its place goes if it is
    /// emptied. An error if either cannot be read.
    pub fn read_neighbours(&self, io: &BlockIo, key: &Key) -> Result<(), BlockError> {
        let Some(mut bp) = self.root else { return Ok(()) };
        let mut before = None;
        for height in (1..=self.height).rev() {
            let bytes = read_inner(io, &bp, height)?;
            let node = view_inner(&bp, &bytes)?;
            let child = |at| node.pointer(at).map_err(|malformed| malformed_block(&bp, malformed));
            let at = node.position(key);
            if height == 1 && node.is_of_another_class(at, key.class) {
                return Ok(());
            }
            if let Some(at) = at.checked_sub(1) {
                let is_of_another = height == 1 && node.is_of_another_class(at, key.class);
                before = if is_of_another { None } else { Some((child(at)?, height - 1)) };
            }
            bp = child(at)?;
        }
        read_leaf(io, &bp)?;
        let Some((mut bp, height)) = before else { return Ok(()) };
        for height in (1..=height).rev() {
            let bytes = read_inner(io, &bp, height)?;
            let node = view_inner(&bp, &bytes)?;
            let last = node.count() - 1;
            if height == 1 && node.is_of_another_class(last, key.class) {
                return Ok(());
            }
            bp = node.pointer(last).map_err(|malformed| malformed_block(&bp, malformed))?;
        }
        read_leaf(io, &bp).map(|_| ())
    }

    /// The entries from `from` up to, not including, `to`, in order. Leaves are read as the iterator gets there.
    /// After an error it ends.
    #[must_use]
    pub fn range<'io>(&self, io: &'io BlockIo, from: &Key, to: &Key) -> RangeIter<'io> {
        RangeIter::new(io, self, *from, *to)
    }

    /// Visits the entries from `from` up to, not including, `to`, as far as they can be had without a word: for whoever goes
    /// ahead of a reader. `false`: something could not be had, and what is behind it was left out.
    pub fn scan_quietly(
        &self,
        io: &BlockIo,
        nodes: Nodes,
        (from, to): (&Key, &Key),
        visit: &mut dyn FnMut(Key, &[u8]),
    ) -> bool {
        quiet::scan(self, io, nodes, (from, to), visit).is_some()
    }

    /// The tree of the pool itself after `changes`, which must be in ascending order without duplicates. Replaced blocks are
    /// freed with the writer's txg. After an error blocks have been written and freed for nothing: the txg is lost.
    pub fn apply(&self, io: &BlockIo, out: &mut RunWriter, changes: &[(Key, Change)]) -> Result<Self, BlockError> {
        self.apply_noting(io, out, changes).map(|(tree, _)| tree)
    }

    /// [`Self::apply`] for the tree of a dataset, which gives nodes back by its own door; by a caller who knows more, which
    /// counts where nodes cannot be read: those are no error, see [`around`].
    pub(crate) fn apply_around(
        &self,
        io: &BlockIo,
        out: &mut RunWriter,
        changes: &[(Key, Change)],
        around: &Around<'_>,
        release: Release<'_>,
    ) -> Result<Self, BlockError> {
        merge::apply(self, io, out, changes, around, release).map(|(tree, _)| tree)
    }

    /// [`Self::apply`], and whether a node could not be read on the way: for a caller who knows all entries by heart, and
    /// then gives up a tree that has a hole in it.
    pub(crate) fn apply_noting(
        &self,
        io: &BlockIo,
        out: &mut RunWriter,
        changes: &[(Key, Change)],
    ) -> Result<(Self, bool), BlockError> {
        let txg = out.txg();
        merge::apply(self, io, out, changes, &Around::NOTHING, &|bp| io.free(bp, txg))
    }

    /// Visits every block and entry in key order, goes on after damage, and counts. For checks and inspection.
    pub fn check(&self, io: &BlockIo, visit: &mut dyn FnMut(Visit<'_>)) -> WalkSummary {
        walk::walk(self, io, None, visit)
    }

    /// The leaf that may hold `from` (none: the first), with the way to it, or the first one behind it that was written in
    /// group `since` or later. Visits its entries of `only`; a leaf that cannot have any is not read.
    pub fn step(
        &self,
        io: &BlockIo,
        from: Option<&Key>,
        only: Class,
        since: Txg,
        visit: &mut dyn FnMut(Key, &[u8]),
    ) -> Step {
        step::step(self, io, from, only, since, visit)
    }

    /// Visits every block, and the entries of `class`, perhaps with others. Leaves without such entries are not read,
    /// so that giving a tree up costs its inner nodes and not its content.
    pub fn visit_class(&self, io: &BlockIo, class: Class, visit: &mut dyn FnMut(Visit<'_>)) {
        walk::walk(self, io, Some(class), visit);
    }
}

/// What newer programs keep in a node that this one takes for none, if the classes of its keys say so.
pub(crate) fn of_newer_programs(bytes: &[u8]) -> Option<&'static str> {
    leaf::class_number(bytes).into_iter().chain(inner::class_numbers(bytes)).find_map(Class::reserved)
}

fn malformed_block(bp: &BlockPtr, malformed: Malformed) -> BlockError {
    BlockError::Malformed { bp: *bp, what: malformed.0 }
}

/// The bytes of an inner node of this height.
#[inline]
fn read_inner(io: &BlockIo, bp: &BlockPtr, height: u8) -> Result<Bytes, BlockError> {
    let bytes = io.read_checked(bp, BlockKind::TreeNode, inner::check)?;
    if view_inner(bp, &bytes)?.height() == height {
        Ok(bytes)
    } else {
        Err(BlockError::Malformed { bp: *bp, what: "tree node of this height" })
    }
}

#[inline]
fn view_inner<'a>(bp: &BlockPtr, bytes: &'a [u8]) -> Result<Inner<'a>, BlockError> {
    Inner::view(bytes).map_err(|malformed| malformed_block(bp, malformed))
}

/// The bytes of a leaf.
#[inline]
fn read_leaf(io: &BlockIo, bp: &BlockPtr) -> Result<Bytes, BlockError> {
    io.read_checked(bp, BlockKind::Leaf, leaf::check)
}

#[inline]
fn view_leaf<'a>(bp: &BlockPtr, bytes: &'a [u8]) -> Result<Leaf<'a>, BlockError> {
    Leaf::view(bytes).map_err(|malformed| malformed_block(bp, malformed))
}

#[cfg(test)]
mod tests;

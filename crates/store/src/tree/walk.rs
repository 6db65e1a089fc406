//! Going through a whole tree: for checks and for `tally inspect`. Damage is reported and walked around; what
//! lies behind a damaged pointer is what is missing, and its key range is named.

use super::inner::{self, Inner};
use super::leaf::Leaf;
use super::{Tree, malformed_block, read_inner, read_leaf, view_inner, view_leaf};
use crate::block::BlockError;
use crate::bp::BlockPtr;
use crate::io::BlockIo;
use crate::key::{Class, Key};

/// What a walk has come to.
#[derive(Clone, Copy)]
pub enum Visit<'a> {
    /// A block that was read and is sound.
    Block {
        /// Its pointer.
        bp: &'a BlockPtr,
        /// 0 for a leaf.
        height: u8,
        /// Entries, or children.
        count: usize,
    },
    /// An entry.
    Entry {
        /// Its key.
        key: Key,
        /// Its value.
        value: &'a [u8],
    },
    /// A block that is missing from the walk, or should not look as it does.
    Damage {
        /// Its pointer.
        bp: &'a BlockPtr,
        /// 0 for a leaf.
        height: u8,
        /// The smallest key that may be affected; none: from the beginning.
        from: Option<Key>,
        /// The first key that is not affected; none: to the end.
        to: Option<Key>,
        /// What is wrong.
        error: &'a BlockError,
    },
}

/// What a walk has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WalkSummary {
    /// Sound leaves.
    pub leaf_count: u64,
    /// Sound inner nodes.
    pub node_count: u64,
    /// Entries in them.
    pub entry_count: u64,
    /// Bytes before compression.
    pub logical_bytes: u64,
    /// Bytes on disk.
    pub allocated_bytes: u64,
    /// Damaged pointers and blocks.
    pub damage_count: u64,
}

struct Walk<'a> {
    io: &'a BlockIo,
    visit: &'a mut dyn FnMut(Visit<'_>),
    summary: WalkSummary,
    /// Leaves that cannot have entries of this class are not read.
    only: Option<Class>,
}

/// The key range that a node's place in the tree allows.
#[derive(Clone, Copy)]
struct Bounds {
    from: Option<Key>,
    to: Option<Key>,
}

impl Bounds {
    fn hold(&self, first: Option<Key>, last: Option<Key>) -> bool {
        let above = self.from.is_none_or(|from| first.is_none_or(|first| from <= first));
        above && self.to.is_none_or(|to| last.is_none_or(|last| last < to))
    }

    /// Whether a key of `class` may lie within.
    fn may_hold(&self, class: Class) -> bool {
        let (first, behind) = (Key::new(class, 0, 0, 0), Key::new(class, u64::MAX, u64::MAX, u64::MAX));
        self.from.is_none_or(|from| from <= behind) && self.to.is_none_or(|to| first < to)
    }
}

pub(super) fn walk(tree: &Tree, io: &BlockIo, only: Option<Class>, visit: &mut dyn FnMut(Visit<'_>)) -> WalkSummary {
    let mut walk = Walk { io, visit, summary: WalkSummary::default(), only };
    if let Some(root) = &tree.root {
        walk.node(root, tree.height, Bounds { from: None, to: None });
    }
    walk.summary
}

impl Walk<'_> {
    fn node(&mut self, bp: &BlockPtr, height: u8, bounds: Bounds) {
        if height == 0 && self.only.is_some_and(|class| !bounds.may_hold(class)) {
            (self.visit)(Visit::Block { bp, height, count: 0 });
            return;
        }
        let outcome = if height == 0 { self.leaf(bp, bounds) } else { self.inner(bp, height, bounds) };
        if let Err(error) = outcome {
            self.summary.damage_count += 1;
            (self.visit)(Visit::Damage { bp, height, from: bounds.from, to: bounds.to, error: &error });
        }
    }

    fn leaf(&mut self, bp: &BlockPtr, bounds: Bounds) -> Result<(), BlockError> {
        let bytes = read_leaf(self.io, bp)?;
        let leaf: Leaf<'_> = view_leaf(bp, &bytes)?;
        self.summary.leaf_count += 1;
        self.count(bp, 0, leaf.count());
        for at in 0..leaf.count() {
            let value = bytes.get(leaf.value(at)).unwrap_or_default();
            if let Some(key) = leaf.key(at) {
                self.summary.entry_count += 1;
                (self.visit)(Visit::Entry { key, value });
            }
        }
        in_bounds(bp, bounds.hold(leaf.key(0), leaf.key(leaf.count() - 1)))
    }

    fn inner(&mut self, bp: &BlockPtr, height: u8, bounds: Bounds) -> Result<(), BlockError> {
        let bytes = read_inner(self.io, bp, height)?;
        let node: Inner<'_> = view_inner(bp, &bytes)?;
        self.summary.node_count += 1;
        self.count(bp, height, node.count());
        for at in 0..node.count() {
            let child = node.child(at).map_err(|malformed| malformed_block(bp, malformed))?;
            // The first child may hold keys below its own, down to the bound of the node.
            let from = if at == 0 { bounds.from } else { Some(child.key) };
            debug_assert_eq!(child.bp.kind, inner::child_kind(height), "checked when the node was read");
            self.node(&child.bp, height - 1, Bounds { from, to: node.key(at + 1).or(bounds.to) });
        }
        in_bounds(bp, bounds.hold(node.key(0), node.key(node.count() - 1)))
    }

    fn count(&mut self, bp: &BlockPtr, height: u8, count: usize) {
        self.summary.logical_bytes += u64::from(bp.lsize);
        self.summary.allocated_bytes += bp.asize();
        (self.visit)(Visit::Block { bp, height, count });
    }
}

fn in_bounds(bp: &BlockPtr, holds: bool) -> Result<(), BlockError> {
    if holds { Ok(()) } else { Err(BlockError::Malformed { bp: *bp, what: "keys of its place in the tree" }) }
}

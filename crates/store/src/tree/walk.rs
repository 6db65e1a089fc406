//! Going through a whole tree: for checks and for `tally inspect`. Damage is reported and walked around; what
//! lies behind a damaged pointer is what is missing, and its key range is named.

use super::bounds::Bounds;
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
        /// As its parent, or the root, has it.
        bp: &'a BlockPtr,
        /// 0 for a leaf.
        height: u8,
        /// Entries of a leaf, children of an inner node.
        count: usize,
    },
    /// An entry of a sound leaf, in the order of the keys.
    Entry {
        /// Unique in the tree, and larger than those before it.
        key: Key,
        /// Its value, as it stands in the leaf.
        value: &'a [u8],
    },
    /// A block that is missing from the walk, or should not look as it does.
    Damage {
        /// As its parent, or the root, has it.
        bp: &'a BlockPtr,
        /// 0 for a leaf.
        height: u8,
        /// The smallest key that may be affected; none: from the beginning.
        from: Option<Key>,
        /// The first key that is not affected; none: to the end.
        to: Option<Key>,
        /// Why it, and with it all below it, cannot be read.
        error: &'a BlockError,
    },
}

/// What a walk has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WalkSummary {
    /// Leaves that could be read and are sound.
    pub leaf_count: u64,
    /// Inner nodes that could be read and are sound.
    pub node_count: u64,
    /// Entries of the sound leaves.
    pub entry_count: u64,
    /// Bytes of sound leaves and nodes before compression.
    pub logical_bytes: u64,
    /// Bytes that they take on disk, whole sectors.
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

pub(super) fn walk(tree: &Tree, io: &BlockIo, only: Option<Class>, visit: &mut dyn FnMut(Visit<'_>)) -> WalkSummary {
    let mut walk = Walk { io, visit, summary: WalkSummary::default(), only };
    if let Some(root) = &tree.root {
        walk.node(root, tree.height, Bounds::default());
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
            let (from, to) = bounds.range();
            (self.visit)(Visit::Damage { bp, height, from, to, error: &error });
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
        bounds.check_leaf(bp, &leaf)
    }

    fn inner(&mut self, bp: &BlockPtr, height: u8, bounds: Bounds) -> Result<(), BlockError> {
        let bytes = read_inner(self.io, bp, height)?;
        let node: Inner<'_> = view_inner(bp, &bytes)?;
        self.summary.node_count += 1;
        self.count(bp, height, node.count());
        bounds.check_inner(bp, &node)?;
        for at in 0..node.count() {
            let child = node.child(at).map_err(|malformed| malformed_block(bp, malformed))?;
            debug_assert_eq!(child.bp.kind, inner::child_kind(height), "checked when the node was read");
            self.node(&child.bp, height - 1, bounds.of_child(&node, at));
        }
        Ok(())
    }

    fn count(&mut self, bp: &BlockPtr, height: u8, count: usize) {
        self.summary.logical_bytes += u64::from(bp.lsize);
        self.summary.allocated_bytes += bp.asize();
        (self.visit)(Visit::Block { bp, height, count });
    }
}

//! Which keys a node may hold: what its place in the tree allows.
//!
//! A checksum says that a node was written so, not that it belongs where it is named. A node that is named twice, by
//! faulty software or on purpose, would be gone through twice, and its children four times, and so on: eight levels of
//! that never end. So whoever goes through a tree compares each node with its place before going below it. Places do
//! not overlap, and a node's smallest key lies in one of them at most, so each node is gone through once.

use super::{inner::Inner, leaf::Leaf};
use crate::block::BlockError;
use crate::bp::BlockPtr;
use crate::key::{Class, Key};

/// From the first key up to, not including, the second. Without a key the range is open.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Bounds {
    pub(super) from: Option<Key>,
    pub(super) to: Option<Key>,
    /// Of a leaf below a node: the class of all its keys. Whoever looks for one of another class does not look into it.
    class: Option<Class>,
}

impl Bounds {
    /// What child `at` of `node` may hold, if these are the node's own bounds.
    pub(super) fn of_child(&self, node: &Inner<'_>, at: usize) -> Self {
        // The first child may hold keys below its own, down to the bound of the node.
        let from = if at == 0 { self.from } else { node.key(at) };
        let class = node.key(at).filter(|_| node.height() == 1).map(|key| key.class);
        Self { from, to: node.key(at + 1).or(self.to), class }
    }

    /// The first key that a node with these bounds may hold, and the first one behind it.
    pub(super) fn range(&self) -> (Option<Key>, Option<Key>) {
        let Some(class) = self.class else { return (self.from, self.to) };
        let to = [self.to, class.end()].into_iter().flatten().min();
        (self.from.max(Some(Key::new(class, 0, 0, 0))), to)
    }

    /// An error if the node's keys lie outside.
    pub(super) fn check_inner(&self, bp: &BlockPtr, node: &Inner<'_>) -> Result<(), BlockError> {
        self.check(bp, node.key(0), node.key(node.count() - 1))
    }

    /// An error if the leaf's keys lie outside, or are of another class.
    pub(super) fn check_leaf(&self, bp: &BlockPtr, leaf: &Leaf<'_>) -> Result<(), BlockError> {
        let (first, last) = (leaf.key(0), leaf.key(leaf.count() - 1));
        if self.class.is_some_and(|class| first.is_none_or(|first| first.class != class)) {
            return Err(misplaced(bp));
        }
        self.check(bp, first, last)
    }

    fn check(&self, bp: &BlockPtr, first: Option<Key>, last: Option<Key>) -> Result<(), BlockError> {
        let is_above = self.from.is_none_or(|from| first.is_none_or(|first| from <= first));
        let is_below = self.to.is_none_or(|to| last.is_none_or(|last| last < to));
        if is_above && is_below { Ok(()) } else { Err(misplaced(bp)) }
    }

    /// Whether a key of `class` may lie within.
    pub(super) fn may_hold(&self, class: Class) -> bool {
        let (first, behind) = (Key::new(class, 0, 0, 0), Key::new(class, u64::MAX, u64::MAX, u64::MAX));
        self.from.is_none_or(|from| from <= behind) && self.to.is_none_or(|to| first < to)
    }
}

pub(super) fn misplaced(bp: &BlockPtr) -> BlockError {
    BlockError::Malformed { bp: *bp, what: "keys of its place in the tree" }
}

//! A look at a range of a tree by somebody who goes ahead of its reader. Where a node cannot be had, or is not what it
//! should be, that is no error: the reader will find out, and tell.

use super::{Tree, view_inner, view_leaf};
use super::{inner, leaf};
use crate::bp::{BlockKind, BlockPtr};
use crate::io::{BlockIo, Nodes};
use crate::key::Key;

/// See [`Tree::scan_quietly`]. `None`: what could not be had has ended the look.
pub(super) fn scan(
    tree: &Tree,
    io: &BlockIo,
    nodes: Nodes,
    range: (&Key, &Key),
    visit: &mut dyn FnMut(Key, &[u8]),
) -> Option<()> {
    below(io, nodes, &tree.root?, tree.height, range, visit)
}

fn below(
    io: &BlockIo,
    nodes: Nodes,
    bp: &BlockPtr,
    height: u8,
    (from, to): (&Key, &Key),
    visit: &mut dyn FnMut(Key, &[u8]),
) -> Option<()> {
    if height == 0 {
        let bytes = io.read_quietly(bp, nodes, BlockKind::Leaf, leaf::check)?;
        let leaf = view_leaf(bp, &bytes).ok()?;
        for at in leaf.lower_bound(from)..leaf.lower_bound(to) {
            visit(leaf.key(at)?, &bytes[leaf.value(at)]);
        }
        return Some(());
    }
    let bytes = io.read_quietly(bp, nodes, BlockKind::TreeNode, inner::check)?;
    let node = view_inner(bp, &bytes).ok().filter(|node| node.height() == height)?;
    let mut at = node.position(from);
    loop {
        below(io, nodes, &node.pointer(at).ok()?, height - 1, (from, to), visit)?;
        at += 1;
        if node.key(at).is_none_or(|key| key >= *to) {
            return Some(());
        }
    }
}

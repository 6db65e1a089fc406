//! A look at a range of a tree by somebody who goes ahead of its reader. It reads nodes that are not cached, and where one
//! cannot be had, or is not what it should be, that is no error: the reader will find out, and tell.

use super::{Tree, view_inner, view_leaf};
use super::{inner, leaf};
use crate::bp::{BlockKind, BlockPtr};
use crate::io::BlockIo;
use crate::key::Key;

/// See [`Tree::scan_quietly`].
pub(super) fn scan(tree: &Tree, io: &BlockIo, range: (&Key, &Key), max: usize, visit: &mut dyn FnMut(Key, &[u8])) {
    let Some(root) = tree.root else { return };
    let mut left = max;
    // What could not be had has ended the look.
    let _done = below(io, &root, tree.height, range, &mut |key, value| {
        visit(key, value);
        left -= 1;
        left > 0
    });
}

/// `None` ends the look.
fn below(
    io: &BlockIo,
    bp: &BlockPtr,
    height: u8,
    (from, to): (&Key, &Key),
    visit: &mut dyn FnMut(Key, &[u8]) -> bool,
) -> Option<()> {
    if height == 0 {
        let bytes = io.read_quietly(bp, BlockKind::Leaf, leaf::check)?;
        let leaf = view_leaf(bp, &bytes).ok()?;
        for at in leaf.lower_bound(from)..leaf.lower_bound(to) {
            if !visit(leaf.key(at)?, &bytes[leaf.value(at)]) {
                return None;
            }
        }
        return Some(());
    }
    let bytes = io.read_quietly(bp, BlockKind::TreeNode, inner::check)?;
    let node = view_inner(bp, &bytes).ok().filter(|node| node.height() == height)?;
    let mut at = node.position(from);
    loop {
        below(io, &node.pointer(at).ok()?, height - 1, (from, to), visit)?;
        at += 1;
        if node.key(at).is_none_or(|key| key >= *to) {
            return Some(());
        }
    }
}

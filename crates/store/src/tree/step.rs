//! Going through a tree that changes meanwhile: one leaf at a time, each in the newest version.
//!
//! A walk of hours cannot hold on to one version: nothing that was freed since could be used again. So it goes by keys.
//! Each step takes the newest root and goes down to the leaf behind the last one. What has moved into a place that the
//! walk has passed was written after it began.

use tally_base::Txg;

use super::bounds::Bounds;
use super::{Tree, malformed_block, read_inner, read_leaf, view_inner, view_leaf};
use crate::block::BlockError;
use crate::bp::BlockPtr;
use crate::io::BlockIo;
use crate::key::{Class, Key};

/// One leaf, and the way to it.
#[derive(Debug, Default)]
pub struct Step {
    /// The nodes from the root on, and the leaf; shorter where a node is damaged, or nothing below it was written lately.
    pub way: Vec<BlockPtr>,
    /// Where the next step begins; none: this was the last.
    pub next: Option<Key>,
    /// What is the matter with the last of `way`. What hangs from it is passed over.
    pub damage: Option<BlockError>,
}

/// What lies below a node on the way.
type Below = Option<(BlockPtr, Bounds)>;

pub(super) fn step(
    tree: &Tree,
    io: &BlockIo,
    from: Option<&Key>,
    only: Class,
    since: Txg,
    visit: &mut dyn FnMut(Key, &[u8]),
) -> Step {
    let mut step = Step::default();
    // A node is written anew with whatever hangs from it.
    let Some(mut bp) = tree.root.filter(|root| root.written >= since) else { return step };
    let mut bounds = Bounds::default();
    for height in (0..=tree.height).rev() {
        step.way.push(bp);
        let below = if height == 0 {
            leaf(io, &bp, bounds, from, only, visit)
        } else {
            child(io, &bp, height, bounds, from, since)
        };
        match below {
            Ok(Some(below)) => (bp, bounds) = below,
            Ok(None) => break,
            Err(error) => {
                step.damage = Some(error);
                break;
            }
        }
    }
    // A faulty tree may lead back; then there is no way on.
    step.next = bounds.to.filter(|next| from.is_none_or(|from| from < next));
    step
}

/// The child that may hold `from`, or the first one behind it that was written since then.
fn child(
    io: &BlockIo,
    bp: &BlockPtr,
    height: u8,
    bounds: Bounds,
    from: Option<&Key>,
    since: Txg,
) -> Result<Below, BlockError> {
    let bytes = read_inner(io, bp, height)?;
    let node = view_inner(bp, &bytes)?;
    bounds.check_inner(bp, &node)?;
    for at in from.map_or(0, |key| node.position(key))..node.count() {
        let pointer = node.pointer(at).map_err(|malformed| malformed_block(bp, malformed))?;
        if pointer.written >= since {
            return Ok(Some((pointer, bounds.of_child(&node, at))));
        }
    }
    Ok(None)
}

/// What the leaf has from `from` on: what stands before that was visited in a leaf that has been joined with this one since.
fn leaf(
    io: &BlockIo,
    bp: &BlockPtr,
    bounds: Bounds,
    from: Option<&Key>,
    only: Class,
    visit: &mut dyn FnMut(Key, &[u8]),
) -> Result<Below, BlockError> {
    if !bounds.may_hold(only) {
        return Ok(None);
    }
    let bytes = read_leaf(io, bp)?;
    let leaf = view_leaf(bp, &bytes)?;
    bounds.check_leaf(bp, &leaf)?;
    for at in 0..leaf.count() {
        if let Some(key) = leaf.key(at).filter(|key| key.class == only && from.is_none_or(|from| *from <= *key)) {
            visit(key, bytes.get(leaf.value(at)).unwrap_or_default());
        }
    }
    Ok(None)
}

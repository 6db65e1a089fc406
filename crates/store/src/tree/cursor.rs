use bytes::Bytes;

use super::bounds::Bounds;
use super::{Tree, malformed_block, read_inner, read_leaf, view_inner, view_leaf};
use crate::block::BlockError;
use crate::bp::BlockPtr;
use crate::io::BlockIo;
use crate::key::Key;

/// Leaves that are read ahead once a scan has gone on to a second one; doubled each time, up to the maximum.
const AHEAD_MIN: usize = 8;
const AHEAD_MAX: usize = 64;

/// The entries of a range, in order. See [`Tree::range`].
pub struct RangeIter<'io> {
    io: &'io BlockIo,
    from: Key,
    to: Key,
    /// Where to begin; taken by the first call.
    root: Option<(BlockPtr, u8)>,
    /// The nodes above the current leaf, the root first.
    path: Vec<Step>,
    leaf: Option<LeafStep>,
    /// How many children are read ahead the next time.
    ahead_count: usize,
    /// Whether it goes on behind what cannot be read.
    goes_around: bool,
    /// A key that the node would hold, or that was the first to be asked for, whose way down was gone last.
    toward: Key,
}

struct Step {
    bp: BlockPtr,
    bytes: Bytes,
    height: u8,
    bounds: Bounds,
    /// The next child to go to.
    next: usize,
    /// Children below this one have been read ahead.
    ahead: usize,
}

struct LeafStep {
    bp: BlockPtr,
    bytes: Bytes,
    next: usize,
    end: usize,
}

impl<'io> RangeIter<'io> {
    pub(super) fn new(io: &'io BlockIo, tree: &Tree, from: Key, to: Key) -> Self {
        let root = tree.root.filter(|_| from < to).map(|root| (root, tree.height));
        let (path, leaf, ahead_count) = (Vec::new(), None, AHEAD_MIN);
        Self { io, from, to, root, path, leaf, ahead_count, goes_around: false, toward: from }
    }

    /// Goes on behind a node that cannot be read, once its error was given.
    #[must_use]
    pub fn around_damage(self) -> Self {
        Self { goes_around: true, ..self }
    }

    /// Behind an error: a key of the range that is looked for in the node that could not be read.
    #[must_use]
    pub fn failed_at(&self) -> Key {
        self.toward.max(self.from)
    }

    fn stop(&mut self) {
        self.root = None;
        self.path.clear();
        self.leaf = None;
    }

    fn entry(&mut self) -> Option<Result<(Key, Bytes), BlockError>> {
        let step = self.leaf.as_mut().filter(|step| step.next < step.end)?;
        let leaf = match view_leaf(&step.bp, &step.bytes) {
            Ok(leaf) => leaf,
            Err(error) => return Some(Err(error)),
        };
        let at = step.next;
        step.next += 1;
        Some(Ok((leaf.key(at)?, step.bytes.slice(leaf.value(at)))))
    }

    /// Goes to the next leaf that may hold entries of the range. False if there is none.
    fn advance(&mut self) -> Result<bool, BlockError> {
        self.leaf = None;
        if let Some((root, height)) = self.root.take() {
            self.descend(root, height, Bounds::default(), true)?;
            return Ok(true);
        }
        while let Some(step) = self.path.last_mut() {
            let bytes = step.bytes.clone();
            let node = view_inner(&step.bp, &bytes)?;
            match node.key(step.next) {
                Some(key) if key < self.to => {
                    read_ahead(self.io, &self.to, step, &mut self.ahead_count);
                    let child = node.pointer(step.next).map_err(|malformed| malformed_block(&step.bp, malformed))?;
                    let (height, bounds) = (step.height - 1, step.bounds.of_child(&node, step.next));
                    step.next += 1;
                    self.toward = key;
                    self.descend(child, height, bounds, false)?;
                    return Ok(true);
                }
                _ => self.path.pop(),
            };
        }
        Ok(false)
    }

    /// Down to a leaf: along `from` at the very first, along the first children later.
    fn descend(
        &mut self,
        mut bp: BlockPtr,
        height: u8,
        mut bounds: Bounds,
        along_from: bool,
    ) -> Result<(), BlockError> {
        for height in (1..=height).rev() {
            let bytes = read_inner(self.io, &bp, height)?;
            let node = view_inner(&bp, &bytes)?;
            bounds.check_inner(&bp, &node)?;
            let at = if along_from { node.position(&self.from) } else { 0 };
            let child = node.pointer(at).map_err(|malformed| malformed_block(&bp, malformed))?;
            let below = bounds.of_child(&node, at);
            // The range begins behind the last leaf of the class before: that one has nothing of it, whether it can be
            // read or not.
            let is_before = along_from && height == 1 && node.key(at).is_some_and(|key| key.class < self.from.class);
            self.path.push(Step { bp, bytes, height, bounds, next: at + 1, ahead: at + 1 });
            if is_before {
                return Ok(());
            }
            (bp, bounds) = (child, below);
        }
        let bytes = read_leaf(self.io, &bp)?;
        let leaf = view_leaf(&bp, &bytes)?;
        bounds.check_leaf(&bp, &leaf)?;
        let next = if along_from { leaf.lower_bound(&self.from) } else { 0 };
        let end = leaf.lower_bound(&self.to);
        self.leaf = Some(LeafStep { bp, bytes, next, end });
        Ok(())
    }
}

/// Reads the next children together, as far as they belong to the range.
fn read_ahead(io: &BlockIo, to: &Key, step: &mut Step, count: &mut usize) {
    if step.next < step.ahead {
        return;
    }
    let Ok(node) = view_inner(&step.bp, &step.bytes) else { return };
    let wanted =
        (step.next..node.count().min(step.next + *count)).take_while(|at| node.key(*at).is_some_and(|key| key < *to));
    let pointers: Vec<_> = wanted.filter_map(|at| node.pointer(at).ok()).collect();
    step.ahead = step.next + pointers.len().max(1);
    if pointers.len() > 1 {
        *count = (*count * 2).min(AHEAD_MAX);
        io.read_together(&pointers);
    }
}

impl Iterator for RangeIter<'_> {
    type Item = Result<(Key, Bytes), BlockError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(entry) = self.entry() {
                return Some(entry);
            }
            match self.advance() {
                Ok(true) => {}
                Ok(false) => return None,
                Err(error) => {
                    // The path ends above the node that could not be read, behind its place.
                    if !self.goes_around {
                        self.stop();
                    }
                    return Some(Err(error));
                }
            }
        }
    }
}

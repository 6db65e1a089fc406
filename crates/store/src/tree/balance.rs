//! How full nodes are. A node that was rebuilt is a draft until its neighbours are known: one that became too
//! empty is joined with a neighbour, one that became too full is cut, and only then is anything written.
//!
//! A draft is too empty below a third of its limit, and joined where the two fit into one node. So of two
//! neighbours that were touched at least one is more than a third full, and together they are more than full.
//! A join with an untouched neighbour costs reading it; its size is known from its pointer, so it is read only if
//! it will be joined.

use bytes::Bytes;
use tally_base::SECTOR;

use super::bounds::{Bounds, misplaced};
use super::inner::{self, Child, Inner};
use super::leaf::{self, Entry};
use super::merge::Merger;
use crate::block::BlockError;
use crate::bp::BlockKind;
use crate::key::Key;

/// A node that is to be written, if nothing is joined with it or cut from it before.
pub(super) trait Draft: Sized {
    /// Size, in the unit of `size_max`.
    fn size(&self) -> usize;
    /// The size at which it is cut.
    fn size_max(&self) -> usize;
    /// The size of both in one node; none if they may not be joined.
    fn joined_size(&self, next: &Self) -> Option<usize>;
    /// The same for a neighbour that is still on disk.
    fn joined_size_with(&self, kept: &Child) -> Option<usize>;
    fn join(&mut self, next: Self);
    /// Makes a draft of a neighbour on disk, to be joined with this one, and frees it.
    fn thaw(&self, untouched: &Untouched, merger: &mut Merger<'_>) -> Result<Self, BlockError>;
    /// Cuts and writes.
    fn write(self, merger: &mut Merger<'_>, out: &mut Vec<Child>) -> Result<(), BlockError>;

    fn is_sparse(&self) -> bool {
        self.size() * 3 < self.size_max()
    }
}

/// A child that is untouched so far, and what its place allows it to hold: nobody has looked into it yet.
#[derive(Clone, Copy)]
pub(super) struct Untouched {
    pub(super) child: Child,
    pub(super) bounds: Bounds,
}

/// A child of a node that is being rebuilt.
#[allow(clippy::large_enum_variant)] // At most the children of a node, for as long as it is rebuilt.
pub(super) enum Slot<D> {
    /// Untouched, on disk.
    Untouched(Untouched),
    Fresh(D),
}

/// Joins what is sparse, cuts what is too large, and writes: the node's new children.
pub(super) fn even_out<D: Draft>(slots: Vec<Slot<D>>, merger: &mut Merger<'_>) -> Result<Vec<Child>, BlockError> {
    let mut settled: Vec<Slot<D>> = Vec::with_capacity(slots.len());
    for slot in slots {
        let slot = match settled.pop() {
            Some(before) => join(before, slot, merger, &mut settled)?,
            None => slot,
        };
        settled.push(slot);
    }
    let mut children = Vec::with_capacity(settled.len());
    for slot in settled {
        match slot {
            Slot::Untouched(untouched) => children.push(untouched.child),
            Slot::Fresh(draft) => draft.write(merger, &mut children)?,
        }
    }
    Ok(children)
}

/// Two neighbours become one, which is returned; or the first is settled and the second returned.
fn join<D: Draft>(
    before: Slot<D>,
    after: Slot<D>,
    merger: &mut Merger<'_>,
    settled: &mut Vec<Slot<D>>,
) -> Result<Slot<D>, BlockError> {
    let fits = |draft: &D, size: Option<usize>| size.is_some_and(|size| size <= draft.size_max());
    match (before, after) {
        (Slot::Fresh(mut a), Slot::Fresh(b)) if (a.is_sparse() || b.is_sparse()) && fits(&a, a.joined_size(&b)) => {
            a.join(b);
            Ok(Slot::Fresh(a))
        }
        (Slot::Fresh(mut a), Slot::Untouched(b)) if a.is_sparse() && fits(&a, a.joined_size_with(&b.child)) => {
            // A neighbour that cannot be read stays where it is: no change asks anything of it.
            match a.thaw(&b, merger) {
                Ok(b) => {
                    a.join(b);
                    Ok(Slot::Fresh(a))
                }
                Err(error) => {
                    merger.go_around(error)?;
                    settled.push(Slot::Fresh(a));
                    Ok(Slot::Untouched(b))
                }
            }
        }
        (Slot::Untouched(a), Slot::Fresh(b)) if b.is_sparse() && fits(&b, b.joined_size_with(&a.child)) => {
            match b.thaw(&a, merger) {
                Ok(mut a) => {
                    a.join(b);
                    Ok(Slot::Fresh(a))
                }
                Err(error) => {
                    merger.go_around(error)?;
                    settled.push(Slot::Untouched(a));
                    Ok(Slot::Fresh(b))
                }
            }
        }
        (before, after) => {
            settled.push(before);
            Ok(after)
        }
    }
}

/// A leaf's entries, all of one class, at least one.
pub(super) struct LeafDraft {
    /// Where its place begins: the key that will stand above it.
    from: Key,
    entries: Vec<Entry>,
    bytes: usize,
    /// Where new entries end, if they all stand together: a sequence that grows there.
    grows_at: Option<usize>,
}

impl LeafDraft {
    pub(super) fn new(entries: Vec<Entry>, grows_at: Option<usize>) -> Self {
        let bytes = leaf::HEAD_BYTES + entries.iter().map(Entry::bytes).sum::<usize>();
        let from = entries.first().expect("a draft has entries").key;
        Self { from, entries, bytes, grows_at }
    }

    /// Lets its place begin at `place`, if that is before its keys and of their class.
    pub(super) fn begin_at(&mut self, place: Key) {
        // Nothing stands above a root, so that its place says nothing.
        if place.class == self.class() && place != Key::MIN {
            self.from = self.from.min(place);
        }
    }

    fn class(&self) -> crate::key::Class {
        self.from.class
    }
}

impl Draft for LeafDraft {
    fn size(&self) -> usize {
        self.bytes
    }

    fn size_max(&self) -> usize {
        leaf::bytes_max(self.class())
    }

    fn joined_size(&self, next: &Self) -> Option<usize> {
        (self.class() == next.class()).then_some(self.bytes + next.bytes - leaf::HEAD_BYTES)
    }

    fn joined_size_with(&self, kept: &Child) -> Option<usize> {
        (self.class() == kept.key.class).then_some(self.bytes + kept.bp.lsize as usize)
    }

    fn join(&mut self, next: Self) {
        self.bytes += next.bytes - leaf::HEAD_BYTES;
        self.entries.extend(next.entries);
        self.grows_at = None;
    }

    fn thaw(&self, untouched: &Untouched, merger: &mut Merger<'_>) -> Result<Self, BlockError> {
        let bp = &untouched.child.bp;
        let entries = merger.read_entries(untouched)?;
        // Only the key above it was of this class so far.
        if entries.first().is_none_or(|entry| entry.key.class != self.class()) {
            return Err(misplaced(bp));
        }
        merger.free(bp);
        let mut draft = Self::new(entries, None);
        draft.begin_at(untouched.child.key);
        Ok(draft)
    }

    fn write(self, merger: &mut Merger<'_>, out: &mut Vec<Child>) -> Result<(), BlockError> {
        let limit = self.size_max() - leaf::HEAD_BYTES;
        let size = |entry: &Entry| entry.bytes();
        let (grown, rest) = match self.grows_at {
            Some(at) if self.bytes > self.size_max() => self.entries.split_at(at),
            _ => self.entries.split_at(0),
        };
        let first = out.len();
        for entries in cut(grown, limit, Fill::Full, size).chain(cut(rest, limit, Fill::Even, size)) {
            write_pieces(entries, merger, out, &|entries| leaf::encode(entries), BlockKind::Leaf, &|entry| entry.key)?;
        }
        if let Some(child) = out.get_mut(first) {
            child.key = self.from;
        }
        Ok(())
    }
}

/// A node's children, at least one.
pub(super) struct InnerDraft {
    pub(super) height: u8,
    pub(super) children: Vec<Child>,
    /// New children stand at the end only.
    pub(super) grows_at_end: bool,
}

impl Draft for InnerDraft {
    fn size(&self) -> usize {
        self.children.len()
    }

    fn size_max(&self) -> usize {
        inner::CHILDREN_MAX
    }

    fn joined_size(&self, next: &Self) -> Option<usize> {
        Some(self.size() + next.size())
    }

    fn joined_size_with(&self, kept: &Child) -> Option<usize> {
        Some(self.size() + inner::child_count(kept.bp.lsize as usize))
    }

    fn join(&mut self, next: Self) {
        self.children.extend(next.children);
        self.grows_at_end = false;
    }

    fn thaw(&self, untouched: &Untouched, merger: &mut Merger<'_>) -> Result<Self, BlockError> {
        let bp = &untouched.child.bp;
        let bytes = super::read_inner(merger.io, bp, self.height)?;
        let malformed = |malformed| super::malformed_block(bp, malformed);
        let node = Inner::view(&bytes).map_err(malformed)?;
        untouched.bounds.check_inner(bp, &node)?;
        let children = (0..node.count()).map(|at| node.child(at)).collect::<Result<_, _>>().map_err(malformed)?;
        merger.free(bp);
        Ok(Self { height: self.height, children, grows_at_end: false })
    }

    fn write(self, merger: &mut Merger<'_>, out: &mut Vec<Child>) -> Result<(), BlockError> {
        let fill = if self.grows_at_end { Fill::Full } else { Fill::Even };
        for children in cut(&self.children, inner::CHILDREN_MAX, fill, |_| 1) {
            let encode = |children: &[Child]| inner::encode(self.height, children);
            write_pieces(children, merger, out, &encode, BlockKind::TreeNode, &|child| child.key)?;
        }
        Ok(())
    }
}

/// Writes one node, or, where the pool is too fragmented for its size, two of half the size, and so on: what was
/// promised to clients must be folded as long as there are sectors, in one piece or not.
fn write_pieces<T>(
    piece: &[T],
    merger: &mut Merger<'_>,
    out: &mut Vec<Child>,
    encode: &dyn Fn(&[T]) -> Vec<u8>,
    kind: BlockKind,
    key_of: &dyn Fn(&T) -> Key,
) -> Result<(), BlockError> {
    let key = key_of(piece.first().expect("a cut is not empty"));
    let bytes = Bytes::from(encode(piece));
    let can_shrink = piece.len() > 1 && bytes.len() > SECTOR;
    match merger.put(kind, &key, bytes) {
        Ok(bp) => out.push(Child { key, bp }),
        Err(BlockError::NoSpace(_)) if can_shrink => {
            let (left, right) = piece.split_at(piece.len() / 2);
            write_pieces(left, merger, out, encode, kind, key_of)?;
            write_pieces(right, merger, out, encode, kind, key_of)?;
        }
        Err(error) => return Err(error),
    }
    Ok(())
}

/// How what is cut shares its content.
#[derive(Clone, Copy)]
enum Fill {
    /// Each as full as it may be, but for the last: the place where a sequence grows.
    Full,
    /// All about equally: new keys may come anywhere.
    Even,
}

/// Cuts into as few pieces as fit; a piece of a single element may be larger than `limit`.
fn cut<T>(all: &[T], limit: usize, fill: Fill, size: impl Fn(&T) -> usize) -> impl Iterator<Item = &[T]> {
    let total: usize = all.iter().map(&size).sum();
    let goal = match fill {
        Fill::Full => limit,
        Fill::Even => total.div_ceil(total.div_ceil(limit).max(1)),
    };
    let mut rest = all;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let mut sum = 0;
        let mut fits = |element: &T| {
            // Even pieces may exceed the goal by their last element, or one more piece would be needed at the end.
            let within = sum < goal && sum + size(element) <= limit;
            sum += size(element);
            within
        };
        let count = rest.iter().take_while(|element| fits(element)).count().max(1);
        let (piece, others) = rest.split_at(count);
        rest = others;
        Some(piece)
    })
}

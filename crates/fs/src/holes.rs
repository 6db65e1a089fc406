//! Where a file has content, and where holes: under the object's lock, in the layers of groups that are not synced and in the tree together (rules V42).
//!
//! A hole reads as zeroes. Nobody promises that zeroes are a hole: in memory they are content, until a fold finds them. So whoever looks for content may stop
//! anywhere and call it that, and whoever looks for a hole may call the end of the file one, as every file has one there: a look goes over so many blocks and pieces and no more.

use std::ops::{ControlFlow, Range};

use tally_store::key::{Class, Key};
use tally_vfs::{FsError, Sought};

use crate::damage::Part;
use crate::inode::{Inode, Layout};
use crate::layer::{Seen, see_through};
use crate::schema::decode_pointer;
use crate::sight::Sight;

/// So many blocks, and parts of what is dirty, are looked at: blocks of 128 KiB are 2 GiB, in 80 leaves.
const BLOCKS_MAX: usize = 16 << 10;
/// So many pieces of what is dirty are listed at a time: a client may have made them of a byte each.
const PIECES_MAX: usize = 1024;
/// The layers are asked for so much first, and each time for twice as much: what is dirty and far behind is not listed, and a file of 2^63 bytes takes forty.
const WINDOW_BYTES: u64 = 16 << 20;

/// A look that goes on, or what it found; nothing: it has gone as far as it may.
type Look = ControlFlow<Option<u64>>;

impl Sight<'_> {
    /// Where content or a hole begins from `offset` on in a file of that size, if there is one before its end.
    pub(crate) fn seek(&self, size: u64, offset: u64, what: Sought) -> Result<Option<u64>, FsError> {
        let (mut at, mut window, mut left) = (offset, WINDOW_BYTES, BLOCKS_MAX);
        let mut stored = None;
        while at < size {
            if left == 0 {
                return Ok((what == Sought::Data).then_some(at));
            }
            let mut end = at.saturating_add(window).min(size);
            while end - at > 1 && self.has_many_pieces(at..end) {
                end = at + (end - at) / 2;
            }
            window = end - at;
            let parts = see_through(self.layers(), at..end);
            left = left.saturating_sub(parts.len());
            for (_, part, seen) in parts {
                let look = match seen {
                    Seen::Piece(_) => found(what == Sought::Data, part.start),
                    Seen::Zero => found(what == Sought::Hole, part.start),
                    Seen::Below => {
                        if stored.is_none() {
                            stored = Some(self.fs.stored_inode(&self.root, self.id)?);
                        }
                        self.seek_stored(stored.as_ref().and_then(Option::as_ref), part, what, &mut left)?
                    }
                };
                if let ControlFlow::Break(found) = look {
                    return Ok(found);
                }
            }
            (at, window) = (end, window.saturating_mul(2));
        }
        Ok(None)
    }

    /// Whether more is dirty there than is listed at a time.
    fn has_many_pieces(&self, range: Range<u64>) -> bool {
        let mut left = PIECES_MAX;
        for layer in self.layers() {
            left -= layer.data.piece_count(range.clone(), left);
        }
        left == 0
    }

    /// The same in `range` of the tree. What lies behind the stored size is a hole.
    fn seek_stored(
        &self,
        inode: Option<&Inode>,
        range: Range<u64>,
        what: Sought,
        left: &mut usize,
    ) -> Result<Look, FsError> {
        let end = range.end.min(inode.map_or(0, |inode| inode.size));
        let look = match inode.filter(|_| range.start < end) {
            None => ControlFlow::Continue(range.start),
            Some(inode) if inode.layout == Layout::Small => self.seek_small(range.start..end, what)?,
            Some(inode) => self.seek_blocks(inode, range.start..end, what, left)?,
        };
        Ok(match look {
            // Behind the last content.
            ControlFlow::Continue(at) if at < range.end => found(what == Sought::Hole, at),
            ControlFlow::Continue(_) => ControlFlow::Continue(()),
            ControlFlow::Break(found) => ControlFlow::Break(found),
        })
    }

    /// In what is all under one key. Goes on behind the content.
    fn seek_small(&self, range: Range<u64>, what: Sought) -> Result<ControlFlow<Option<u64>, u64>, FsError> {
        let whole = self.fs.io().get(&self.root.tree, &Key::new(Class::Small, self.id.0, 0, 0));
        let length = whole.map_err(|error| self.damaged(Part::Content(0), &error))?.map_or(0, |whole| whole.len());
        let end = range.end.min(length as u64);
        Ok(match what {
            Sought::Data if range.start < end => ControlFlow::Break(Some(range.start)),
            _ => ControlFlow::Continue(range.start.max(end)),
        })
    }

    /// In blocks. Goes on behind the last of those that there are.
    fn seek_blocks(
        &self,
        inode: &Inode,
        range: Range<u64>,
        what: Sought,
        left: &mut usize,
    ) -> Result<ControlFlow<Option<u64>, u64>, FsError> {
        let record_size = inode.record_size();
        let [from, to] = [range.start / record_size * record_size, range.end]
            .map(|offset| Key::new(Class::Extent, self.id.0, offset, 0));
        let mut at = range.start;
        for extent in self.fs.io().range(&self.root.tree, &from, &to) {
            let (key, value) = extent.map_err(|error| self.damaged(Part::Content(at), &error))?;
            let start = key.a.max(range.start);
            if *left == 0 {
                return Ok(ControlFlow::Break((what == Sought::Data).then_some(start)));
            }
            *left -= 1;
            let block = decode_pointer(&value);
            let block = block.ok_or_else(|| self.damaged(Part::Content(key.a), &"damaged extent"))?;
            // No extent has more in its key than the offset, but for faulty software's.
            if key.b != 0 || inode.has_cut(key.a, block.birth) {
                continue;
            }
            match what {
                Sought::Data => return Ok(ControlFlow::Break(Some(start))),
                Sought::Hole if at < start => return Ok(ControlFlow::Break(Some(at))),
                Sought::Hole => at = key.a.saturating_add(record_size).min(range.end),
            }
        }
        Ok(ControlFlow::Continue(at))
    }
}

fn found(is_it: bool, at: u64) -> Look {
    if is_it { ControlFlow::Break(Some(at)) } else { ControlFlow::Continue(()) }
}

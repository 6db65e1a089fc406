//! A file in blocks of its record size, each under its own extent key. The blocks that the layer touches are written
//! anew, those behind a cut go, and a hole is the key that is not there: where the leaf for it cannot be read, a block
//! of zeroes says so instead.

use std::collections::HashSet;
use std::ops::Range;

use bytes::Bytes;
use tally_base::ObjectId;
use tally_store::block::BlockError;
use tally_store::bp::{BlockPtr, Compression};
use tally_store::key::{Class, Key};
use tally_store::tree::{Change, VALUE_BYTES_MAX};
use tally_vfs::{FILE_SIZE_MAX, WRITE_BYTES_MAX};

use super::Fold;
use super::content::{Content, copy_prefix};
use super::removal::extents_at_most;
use super::stored::{Stored, decode_extent};
use crate::cuts::{Cuts, PUNCHES_MAX, SHORT_PUNCHES_MAX};
use crate::damage::Part;
use crate::inode::{Inode, Layout};
use crate::layer::{Layer, Piece, Seen};

/// A block of a piece from this length on goes to the pool and into the cache as the WRITE has brought it, and is not copied:
/// of the longest WRITE's buffer no more than a fifth is kept alive for nothing (rules P5).
pub(crate) const SHARED_PIECE_BYTES_MIN: u64 = WRITE_BYTES_MAX as u64 * 4 / 5;

impl Fold<'_> {
    /// The content in blocks: those that were touched are written anew, those behind a cut go.
    pub(super) fn extents(
        &mut self,
        id: ObjectId,
        inode: &mut Inode,
        old: Option<&Inode>,
        layer: &Layer,
    ) -> Result<(), BlockError> {
        let record_size = inode.record_size();
        let old_size = old.map_or(0, |old| old.size);
        let outgrown = old.is_some_and(|old| old.layout == Layout::Small);
        let small = if outgrown { self.stored_small(id, old)? } else { Stored::Known(Bytes::new()) };
        let small_bytes = match &small {
            Stored::Known(small) => small.len() as u64,
            Stored::Unknown => old_size.min(VALUE_BYTES_MAX as u64),
        };
        if outgrown {
            self.changes.push((Key::new(Class::Small, id.0, 0, 0), Change::Delete));
            inode.used = 0;
        }
        inode.layout = Layout::Extents;
        let in_extents = old.is_some() && !outgrown;
        let cut = layer.data.cut().unwrap_or(u64::MAX);
        let mut rewritten = touched_blocks(layer, inode.size, record_size, cut.min(old_size), small_bytes);
        let blocks_end = cut.min(old_size).next_multiple_of(record_size).min(old.map_or(0, Inode::blocks_end));
        self.mark_hole(id, blocks_end..inode.size, record_size, &mut rewritten)?;
        if in_extents && cut < old_size {
            self.cut(id, inode, old, cut.next_multiple_of(record_size), &rewritten)?;
        }
        if let Some(old) = old.filter(|_| in_extents) {
            for range in layer.data.punched().ranges() {
                let whole = whole_blocks(inode, &range);
                self.punch(id, inode, old, whole.start..whole.end.min(blocks_end), &rewritten)?;
            }
        }
        // Behind the end there may be what was cut away and is not freed yet.
        let extents_end = old.map_or(0, Inode::extents_end);
        let small = outgrown.then_some(&small);
        let mut kept = HashSet::new();
        for start in rewritten {
            let length = record_size.min(inode.size - start);
            let replaced =
                if in_extents && start < extents_end { self.stored_extent(id, start)? } else { Stored::Known(None) };
            let whole = placed_whole(layer, start, length);
            let block = match whole {
                Some(block) => Some(block),
                None => {
                    let is_cut = |block: &BlockPtr| old.is_some_and(|old| old.has_cut(start, block.birth));
                    let base = match &replaced {
                        Stored::Known(Some(block)) if is_cut(block) => Stored::Known(None),
                        other => *other,
                    };
                    self.write_block(id, start..start + length, layer, (small, &base), old_size)?
                }
            };
            let replaced = self.found_or_leaked(id, &replaced);
            self.replace_extent(id, inode, start, replaced.as_ref(), block.as_ref());
            kept.extend(whole.map(|block| block.dva));
        }
        self.free_placed(layer, &kept);
        Ok(())
    }

    /// Writes `range` anew, with what was there ([`Self::base`]) below what the layer has. Gives no block for a hole.
    fn write_block(
        &mut self,
        id: ObjectId,
        range: Range<u64>,
        layer: &Layer,
        (small, replaced): (Option<&Stored<Bytes>>, &Stored<Option<BlockPtr>>),
        old_size: u64,
    ) -> Result<Option<BlockPtr>, BlockError> {
        let brought = layer.data.of_long_piece(&range, SHARED_PIECE_BYTES_MIN);
        if let Some(bytes) = brought.filter(|bytes| bytes.iter().any(|byte| *byte != 0)) {
            return self.out.put_shared(bytes, self.compression).map(Some);
        }
        let base = |into: &mut [u8]| self.base(id, range.start, small, replaced, into);
        let content = self.block_content(id, range.clone(), layer, old_size, &base)?;
        let is_absent = matches!(replaced, Stored::Known(_)) && self.is_hole(id, range.start, &content)?;
        if is_absent { Ok(None) } else { self.put_content(content).map(Some) }
    }

    /// The block that was replaced, to be freed. One that is not found stays allocated, and is counted.
    fn found_or_leaked(&self, id: ObjectId, replaced: &Stored<Option<BlockPtr>>) -> Option<BlockPtr> {
        match *replaced {
            Stored::Known(replaced) => replaced,
            Stored::Unknown => {
                self.fs.damaged(id, Part::Space, &"a block that was replaced is not found");
                self.fs.io().note_leak();
                None
            }
        }
    }

    /// The file has grown, and has had no blocks in `grown`. If it has none at the beginning either, it is a hole; and
    /// where the leaf for it cannot be read, nobody could tell that. So a block of zeroes is written there: the tree
    /// takes it in beside the leaf, in a new one that tells of all that is behind. The same in each leaf further on, to
    /// which the hole may reach where the file was longer once.
    fn mark_hole(
        &self,
        id: ObjectId,
        grown: Range<u64>,
        record_size: u64,
        rewritten: &mut Vec<u64>,
    ) -> Result<(), BlockError> {
        if grown.is_empty() {
            return Ok(());
        }
        let key = |start| Key::new(Class::Extent, id.0, start, 0);
        if let Err(at) = rewritten.binary_search(&grown.start)
            && !self.can_be_absent(&key(grown.start))?
        {
            rewritten.insert(at, grown.start);
        }
        if id.0 >= self.first_new {
            // No leaf was ever cut at its offsets.
            return Ok(());
        }
        let io = self.fs.io();
        let mut stored = io.range(&self.old.tree, &key(grown.start), &key(grown.end)).around_damage();
        while let Some(extent) = stored.next() {
            if let Err(error) = extent {
                io.check_damage(error)?;
                let start = stored.failed_at().a.next_multiple_of(record_size);
                if let Err(at) = rewritten.binary_search(&start)
                    && start < grown.end
                {
                    rewritten.insert(at, start);
                }
            }
        }
        Ok(())
    }

    /// What was at `start` of a file: `small` is all its content, where it outgrows that, else `replaced` was its
    /// block. False if that cannot be read.
    fn base(
        &self,
        id: ObjectId,
        start: u64,
        small: Option<&Stored<Bytes>>,
        replaced: &Stored<Option<BlockPtr>>,
        into: &mut [u8],
    ) -> Result<bool, BlockError> {
        match (small, replaced) {
            (Some(Stored::Known(small)), _) => copy_prefix(small.get(start as usize..).unwrap_or_default(), into),
            (Some(Stored::Unknown), _) | (None, Stored::Unknown) => return Ok(false),
            (None, Stored::Known(None)) => {}
            (None, Stored::Known(Some(block))) => {
                let read = self.fs.io().read_to_rewrite(block);
                match self.unless_damaged(id, Part::Content(start), read)? {
                    Stored::Known(bytes) => copy_prefix(&bytes, into),
                    Stored::Unknown => return Ok(false),
                }
            }
        }
        Ok(true)
    }

    /// Whether a block of this content need not be: it is zeroes, and readers will find that it is not there.
    fn is_hole(&self, id: ObjectId, start: u64, content: &Content) -> Result<bool, BlockError> {
        let is_zeroes = content.is_whole && content.bytes.iter().all(|byte| *byte == 0);
        Ok(is_zeroes && self.can_be_absent(&Key::new(Class::Extent, id.0, start, 0))?)
    }

    fn put_content(&mut self, content: Content) -> Result<BlockPtr, BlockError> {
        let Content { bytes, is_whole } = content;
        if is_whole {
            // Zeroes that only say that there is nothing were not asked for: they must not take a whole block.
            let is_zeroes = bytes.iter().all(|byte| *byte == 0);
            let compression = if is_zeroes { Compression::Lz4 } else { self.compression };
            self.out.put(bytes.into(), compression)
        } else {
            self.out.put_given_up(&bytes, self.compression)
        }
    }

    /// Of what is stored from `from` on nothing exists any more. It is freed now, if it is little; else the cut is noted,
    /// and the reaper frees it ([`Cuts`]).
    fn cut(
        &mut self,
        id: ObjectId,
        inode: &mut Inode,
        old: Option<&Inode>,
        from: u64,
        rewritten: &[u64],
    ) -> Result<(), BlockError> {
        let cuts = inode.cuts.as_deref();
        let (blocks_end, extents_end) = old.map_or((0, 0), |old| (old.blocks_end(), old.extents_end()));
        // What is behind the old end was cut before, and however much it is, this cut has nothing to do with it. Only what the
        // reaper had to pass over goes with it.
        let is_reaped_behind = blocks_end < extents_end && cuts.is_some_and(Cuts::is_waiting);
        let extents_max = old.map_or(0, |old| extents_at_most(old, from..blocks_end));
        self.cuts.insert(id, from);
        if extents_max > self.reap_extents_left as u64
            && let Some(noted) = Cuts::with(cuts, from, extents_end, self.out.txg())
        {
            inode.cuts = Some(Box::new(noted));
            return Ok(());
        }
        if is_reaped_behind {
            return self.cut_extents(id, inode, from..blocks_end, rewritten);
        }
        inode.cuts = Cuts::up_to(cuts, from).map(Box::new);
        self.cut_extents(id, inode, from..u64::MAX, rewritten)
    }

    /// Of what is stored in `range`, which is whole blocks, nothing exists any more. It is freed now, if it is little; else the
    /// punch is noted, and the reaper frees it ([`Cuts`]). Short ones leave room for long ones, which the door lets in as long as
    /// there is some (`ops/punch.rs`).
    fn punch(
        &mut self,
        id: ObjectId,
        inode: &mut Inode,
        old: &Inode,
        range: Range<u64>,
        rewritten: &[u64],
    ) -> Result<(), BlockError> {
        if range.is_empty() {
            return Ok(());
        }
        let extents_max = extents_at_most(old, range.clone());
        let is_long = extents_max > self.fs.pool.tuning.reap_extents_max as u64;
        let punches_max = if is_long { PUNCHES_MAX } else { SHORT_PUNCHES_MAX };
        if extents_max > self.reap_extents_left as u64
            && let Some(noted) = Cuts::punched(inode.cuts.as_deref(), range.clone(), self.out.txg(), punches_max)
        {
            inode.cuts = Some(Box::new(noted));
            return Ok(());
        }
        self.cut_extents(id, inode, range, rewritten)
    }

    /// Deletes the stored extents of `range`, but for those that are rewritten anyway.
    fn cut_extents(
        &mut self,
        id: ObjectId,
        inode: &mut Inode,
        range: Range<u64>,
        rewritten: &[u64],
    ) -> Result<(), BlockError> {
        let [first, end] = [range.start, range.end].map(|offset| Key::new(Class::Extent, id.0, offset, 0));
        let (old, fs) = (self.old, self.fs);
        let mut extents = fs.io().range(&old.tree, &first, &end).around_damage();
        while let Some(extent) = extents.next() {
            let node = extent.as_ref().err().and_then(|error| error.unreadable().copied());
            let Stored::Known((key, value)) = self.unless_damaged(id, Part::Space, extent)? else {
                self.lost.extend(node);
                self.lost_keys.insert(extents.failed_at());
                continue;
            };
            self.reap_extents_left = self.reap_extents_left.saturating_sub(1);
            // No extent has more in its key than the offset, but for faulty software's.
            if key.b == 0 && rewritten.binary_search(&key.a).is_err() {
                match self.unless_damaged(id, Part::Space, decode_extent(old, &value))? {
                    Stored::Known(block) => self.replace_extent(id, inode, key.a, Some(&block), None),
                    Stored::Unknown => self.changes.push((key, Change::Delete)),
                }
            }
        }
        Ok(())
    }

    pub(super) fn replace_extent(
        &mut self,
        id: ObjectId,
        inode: &mut Inode,
        start: u64,
        old: Option<&BlockPtr>,
        new: Option<&BlockPtr>,
    ) {
        if let Some(weighing) = &mut self.weighing {
            weighing.replaced(start, old, new);
        }
        if let Some(old) = old {
            self.free(old);
            inode.used = inode.used.saturating_sub(old.asize());
        }
        let key = Key::new(Class::Extent, id.0, start, 0);
        match (old, new) {
            (_, Some(new)) => {
                // An inode that claims all the bytes there can be would become one that cannot be read.
                inode.used = inode.used.saturating_add(new.asize()).min(FILE_SIZE_MAX);
                self.changes.push((key, Change::Put(Bytes::copy_from_slice(&new.encode()))));
            }
            (Some(_), None) => self.changes.push((key, Change::Delete)),
            (None, None) => {}
        }
    }
}

/// The whole blocks in `range`, perhaps none.
pub(crate) fn whole_blocks(inode: &Inode, range: &Range<u64>) -> Range<u64> {
    let record_size = inode.record_size();
    range.start.next_multiple_of(record_size)..range.end / record_size * record_size
}

/// The block that was placed ahead and is the whole of `start..start + length`.
fn placed_whole(layer: &Layer, start: u64, length: u64) -> Option<BlockPtr> {
    match &layer.data.view(start..start + length)[..] {
        [(_, Seen::Piece(Piece::Placed { block, skip: 0, length: of_piece }))]
            if *of_piece == length && u64::from(block.lsize) == length =>
        {
            Some(*block)
        }
        _ => None,
    }
}

/// Starts of the blocks to be written anew, ascending: under a piece, under the cut and the borders of punches, and all that a small content
/// fills.
fn touched_blocks(layer: &Layer, size: u64, record_size: u64, cut: u64, small: u64) -> Vec<u64> {
    let mut starts: Vec<u64> = Vec::new();
    let mut touch = |from: u64, to: u64| {
        let mut start = from / record_size * record_size;
        while start < to.min(size) {
            starts.push(start);
            start += record_size;
        }
    };
    for (offset, piece) in layer.data.pieces() {
        touch(offset, offset + piece.length());
    }
    if layer.data.cut().is_some() && !cut.is_multiple_of(record_size) {
        touch(cut, cut + 1);
    }
    for range in layer.data.punched().ranges() {
        for border in [range.start, range.end].into_iter().filter(|border| !border.is_multiple_of(record_size)) {
            touch(border, border + 1);
        }
    }
    touch(0, small);
    starts.sort_unstable();
    starts.dedup();
    starts
}

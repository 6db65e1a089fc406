//! The content of a changed file: under one key while it is small and known, else in extents ([`super::extents`]).

use std::ops::Range;

use tally_base::ObjectId;
use tally_store::block::BlockError;
use tally_store::key::{Class, Key};
use tally_store::tree::Change;

use super::Fold;
use super::stored::Stored;
use crate::damage::Part;
use crate::inode::{Inode, Layout};
use crate::layer::{Layer, Piece, Seen};

/// Largest file that is kept under one key: one that a block of its own would not need a second sector for. Measured in
/// docs/design/0003. Files up to 16 KiB were kept so before; those that were stay until they are written.
pub(crate) const SMALL_MAX: u64 = 4 << 10;

/// Content of a block or a small file.
pub(super) struct Content {
    pub(super) bytes: Vec<u8>,
    /// Whether all of it is known; zeroes stand for what is not.
    pub(super) is_whole: bool,
}

impl Fold<'_> {
    pub(super) fn content(
        &mut self,
        id: ObjectId,
        inode: &mut Inode,
        old: Option<&Inode>,
        layer: &Layer,
    ) -> Result<(), BlockError> {
        let resized = old.map_or(0, |old| old.size) != inode.size;
        if layer.data.is_empty() && !resized {
            return Ok(());
        }
        let may_be_small = inode.layout == Layout::Small && inode.size <= SMALL_MAX && layer.data.placed().is_empty();
        if may_be_small && self.small_content(id, inode, old, layer)? {
            return Ok(());
        }
        self.extents(id, inode, old, layer)
    }

    /// The whole content under one key, where it is known. Zeroes at the end are not stored.
    fn small_content(
        &mut self,
        id: ObjectId,
        inode: &mut Inode,
        old: Option<&Inode>,
        layer: &Layer,
    ) -> Result<bool, BlockError> {
        let stored = self.stored_small(id, old)?;
        let base = |into: &mut [u8]| {
            if let Stored::Known(stored) = &stored {
                copy_prefix(stored, into);
            }
            Ok(matches!(stored, Stored::Known(_)))
        };
        let old_size = old.map_or(0, |old| old.size);
        let Content { mut bytes, is_whole } = self.block_content(id, 0..inode.size, layer, old_size, &base)?;
        if !is_whole {
            return Ok(false);
        }
        let length = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        bytes.truncate(length);
        inode.used = length as u64;
        let key = Key::new(Class::Small, id.0, 0, 0);
        // Above a leaf that cannot be read only a value can say that there is nothing, or that it is zeroes.
        let is_absent =
            bytes.is_empty() && matches!(stored, Stored::Known(_)) && (inode.size == 0 || self.can_be_absent(&key)?);
        let change = if is_absent { Change::Delete } else { Change::Put(bytes.into()) };
        self.changes.push((key, change));
        Ok(true)
    }

    /// The bytes `range` as the layer sees them above what `base` fills in, if it can. It is not asked for what lies
    /// behind `old_size`: there was nothing, whether the block that ends there can be read or not.
    pub(super) fn block_content(
        &self,
        id: ObjectId,
        range: Range<u64>,
        layer: &Layer,
        old_size: u64,
        base: &dyn Fn(&mut [u8]) -> Result<bool, BlockError>,
    ) -> Result<Content, BlockError> {
        let start = range.start;
        let mut content = Content { bytes: vec![0; (range.end - start) as usize], is_whole: true };
        let view = layer.data.view(range);
        if view.iter().any(|(part, seen)| matches!(seen, Seen::Below) && part.start < old_size) {
            content.is_whole = base(&mut content.bytes)?;
        }
        for (part, seen) in view {
            let into = &mut content.bytes[(part.start - start) as usize..(part.end - start) as usize];
            match seen {
                Seen::Piece(Piece::Memory { bytes, .. }) => into.copy_from_slice(&bytes),
                Seen::Piece(Piece::Placed { block, skip, length }) => {
                    let read = self.fs.io().read_to_rewrite(&block);
                    match self.unless_damaged(id, Part::Content(start), read)? {
                        Stored::Known(bytes) => into.copy_from_slice(&bytes[skip as usize..(skip + length) as usize]),
                        Stored::Unknown => content.is_whole = false,
                    }
                }
                Seen::Zero => into.fill(0),
                Seen::Below => {}
            }
        }
        Ok(content)
    }
}

/// Copies as much of `from` as there is; what is behind it stays zero.
pub(super) fn copy_prefix(from: &[u8], into: &mut [u8]) {
    let length = from.len().min(into.len());
    into[..length].copy_from_slice(&from[..length]);
}

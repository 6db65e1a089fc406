//! What the store has to know of the keys of files: only extents name blocks.

use tally_base::ObjectId;
use tally_store::bp::{BLOCK_PTR_BYTES, BlockPtr};
use tally_store::dataset::Schema;
use tally_store::key::{Class, Key};

/// The schema of every dataset of files, for whoever loads a pool.
#[derive(Clone, Copy, Debug)]
pub struct Files;

impl Schema for Files {
    fn blocks(&self) -> Class {
        Class::Extent
    }

    fn block(&self, key: &Key, value: &[u8]) -> Option<BlockPtr> {
        if key.class == Class::Extent { decode_pointer(value) } else { None }
    }

    fn content_of(&self, key: &Key) -> (ObjectId, u64) {
        (ObjectId(key.object), key.a)
    }
}

/// The block pointer in an extent's value.
pub(crate) fn decode_pointer(value: &[u8]) -> Option<BlockPtr> {
    let bytes: &[u8; BLOCK_PTR_BYTES] = value.try_into().ok()?;
    BlockPtr::decode(bytes).ok()
}

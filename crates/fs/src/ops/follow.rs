//! What stayed in memory follows when its file is placed.
//!
//! The first bytes of a file stay in memory, for the log ([`Filesystem::may_gather`]). Once there are more than the log
//! takes sooner than a group, no COMMIT will log them, and the group would write them while its COMMIT waits. So a WRITE
//! that places its own blocks takes whole blocks of them along, no more than it has bytes itself.
//!
//! Placing waits for a device and is done with nothing held. What is in memory may be written over, cut, logged or closed
//! with its group meanwhile. Under the lock a follower is looked at again: it counts only where the open group still has
//! the same bytes at the same addresses, in no record. Else its block is given back, and what is there stays.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use foldhash::HashSet;
use parking_lot::Mutex;
use tally_base::{ObjectId, Txg};
use tally_store::block::BlockError;
use tally_store::bp::Compression;
use tally_store::dataset::{Placed, Placer};
use tally_store::pool::SpaceClass;
use tally_store::txg::Admission;
use tally_vfs::ObjectRef;

use crate::filesystem::Filesystem;
use crate::fold::SHARED_PIECE_BYTES_MIN;
use crate::layer::{DataLayer, Fragments, Unlogged};

/// A block that earlier WRITEs left in memory, and its place now.
pub(super) struct Follower<'a> {
    pub(super) offset: u64,
    /// What of memory was placed. It is kept, so that the same address is the same content.
    pub(super) content: Fragments,
    pub(super) block: Placed<'a>,
}

impl Follower<'_> {
    /// Whether it is still what `layer` has there, and no record carries it.
    pub(super) fn is_current(&self, layer: &DataLayer) -> bool {
        let place = |bytes: &Bytes| (bytes.as_ptr(), bytes.len());
        let now = layer.unlogged(self.offset..self.offset + u64::from(self.block.bytes()));
        now.is_some_and(|now| now.iter().map(place).eq(self.content.iter().map(place)))
    }
}

/// Places such blocks, in front of those of the WRITE itself. What the pool has no room for has its place in memory.
pub(super) fn place<'a>(
    blocks: Vec<Unlogged>,
    out: &mut Placer<'a>,
    compression: Compression,
    followers: &mut Vec<Follower<'a>>,
) -> Result<(), BlockError> {
    for Unlogged { offset, content, piece_bytes } in blocks {
        let bytes = match content.as_slice() {
            // As a fold takes it: a block of a shorter piece may be what is left of a WRITE that others have written
            // over, and would keep all of its buffer (rules P5).
            [whole] if piece_bytes >= SHARED_PIECE_BYTES_MIN => whole.clone(),
            fragments => fragments.concat().into(),
        };
        match out.put(bytes, compression) {
            Ok(block) => followers.push(Follower { offset, content, block }),
            Err(BlockError::NoSpace(_)) => return Ok(()),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// The files of which a WRITE takes something along: one at a time, as two would place the same.
#[derive(Debug, Default)]
pub(crate) struct Following(Arc<Mutex<HashSet<ObjectId>>>);

impl Following {
    fn claim(&self, id: ObjectId) -> Option<Claim> {
        let is_first = self.0.lock().insert(id);
        is_first.then(|| Claim { id, looked: (Txg(0), 0), room: None, files: Arc::clone(&self.0) })
    }
}

/// As long as this is there nobody else takes anything of the file along.
pub(super) struct Claim {
    id: ObjectId,
    /// Up to where it was looked for something, in the layer of this group.
    looked: (Txg, u64),
    /// Room for what it takes along: that of what is in memory stays the fold's until the blocks count.
    room: Option<Admission>,
    files: Arc<Mutex<HashSet<ObjectId>>>,
}

impl Claim {
    /// Whoever is next goes on from there.
    pub(super) fn note_looked(&self, txg: Txg, layer: &mut DataLayer) {
        let (looked_in, to) = self.looked;
        if looked_in == txg {
            layer.note_looked(to);
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.files.lock().remove(&self.id);
    }
}

impl Filesystem {
    /// The whole blocks, `record_size` long, that earlier WRITEs left in memory: no more of them than the `range` of a
    /// WRITE, which waits for twice its own bytes at most, and none that it writes over.
    pub(super) fn claim_followers(
        &self,
        object: ObjectRef,
        record_size: u64,
        range: &Range<u64>,
    ) -> Option<(Claim, Vec<Unlogged>)> {
        let mut claim = self.following.claim(object.id)?;
        let open = self.pool.txgs.open();
        let (mut blocks, looked_to) = self.objects.look(object.id, |state| {
            let data = &state.layer(open)?.data;
            Some(data.unlogged_blocks(record_size, range.end - range.start, range))
        })?;
        claim.looked = (open, looked_to);
        if !blocks.is_empty() {
            claim.room = self.pool.admit(SpaceClass::Write, 0, blocks.len() as u64 * record_size).ok();
            // In a full pool all that is free is promised.
            if claim.room.is_none() {
                blocks.clear();
            }
        }
        Some((claim, blocks))
    }
}

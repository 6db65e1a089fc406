//! The one door through which a dataset touches blocks: it reads, puts, places and releases them here, and nowhere else.
//!
//! **The problem.** The blocks of a pool are all alike, and those of a dataset will not be: whether one may be freed depends on
//! its snapshots, and how one is read on its key. Whoever reached for the pool's blocks himself, from the fold or from a
//! merge, would have to know that, and the one who was forgotten gives a block of a snapshot to another file (rules S25).
//!
//! **The idea.** Whoever fills a dataset ([`super::DatasetClient`]) is given this and neither the pool's I/O nor its allocator.
//!
//! | verb | of which blocks |
//! |---|---|
//! | read | nodes of its tree ([`DatasetIo::get`], [`DatasetIo::range`]), and content ([`DatasetIo::read`]); ahead of readers, too |
//! | put | content of the group that is folded, and nodes by the merge: [`DatasetWriter`], over the runs that the group's datasets share |
//! | place | content ahead of any group: [`Placed`], which is settled in one, or goes back by itself |
//! | release | what a group does not name any more: all of them go through [`DatasetIo::let_go`] |
//!
//! **What does not come by here.** Blocks of the pool itself: its root, the catalog, remembered replies, and what the allocator
//! takes for its maps. No dataset has a say in those, and they are freed straight to the group's list. A scrub reads below the
//! door, by vdev: it compares checksums, and needs no content.
//!
//! **What it costs.** A pointer and a comparison for each call.

use std::sync::Arc;

use bytes::Bytes;
use tally_base::Txg;

use super::Schema;
use crate::alloc::UNBORN;
use crate::block::BlockError;
use crate::bp::{BlockKind, BlockPtr, Compression};
use crate::io::{BlockIo, Flight, Nodes, Standing, ToFetch};
use crate::key::Key;
use crate::run::RunWriter;
use crate::tree::{Around, Change, RangeIter, Tree};

/// Reads and gives back the blocks of one dataset.
pub struct DatasetIo {
    pub(super) io: Arc<BlockIo>,
    pub(super) schema: &'static dyn Schema,
}

impl DatasetIo {
    pub(crate) fn new(io: &Arc<BlockIo>, schema: &'static dyn Schema) -> Self {
        Self { io: Arc::clone(io), schema }
    }

    /// Frees a block that the group `txg` does not name any more; it was named by an older one, or is settled.
    #[inline]
    pub fn release(&self, bp: &BlockPtr, txg: Txg) {
        self.let_go(bp, |io, bp| io.free(bp, txg));
    }

    /// Every block that leaves the dataset comes by here, and `free` is what becomes of it: the place for whoever else has
    /// a claim to it to be asked, and the only one (rules S25).
    #[inline]
    pub(super) fn let_go(&self, bp: &BlockPtr, free: impl FnOnce(&BlockIo, &BlockPtr)) {
        free(&self.io, bp);
    }

    /// A block could not be read when what it names was to be released: that stays allocated, and nothing names it.
    pub fn note_leak(&self) {
        self.io.note_leak();
    }

    /// The block that could not be read, if that is all, see [`BlockIo::check_damage`].
    pub fn check_damage(&self, error: BlockError) -> Result<BlockPtr, BlockError> {
        self.io.check_damage(error)
    }
}

impl DatasetIo {
    /// A block's content, expanded and checked against its pointer.
    #[inline]
    pub fn read(&self, bp: &BlockPtr) -> Result<Bytes, BlockError> {
        self.io.read(bp)
    }

    /// The content of a block that is about to be written anew. It has no reader, and is nobody's miss.
    pub fn read_to_rewrite(&self, bp: &BlockPtr) -> Result<Bytes, BlockError> {
        self.io.read_to_rewrite(bp)
    }

    /// Reads blocks into the cache, see [`BlockIo::read_together`].
    pub fn read_together(&self, bps: &[BlockPtr]) {
        self.io.read_together(bps);
    }

    /// How a block stands for somebody who is about to read it.
    #[inline]
    pub fn standing(&self, bp: &BlockPtr) -> Standing {
        self.io.standing(bp)
    }

    /// The most that may be fetched ahead at a time, in bytes.
    pub fn fetched_bytes_max(&self) -> u64 {
        self.io.fetched_bytes_max()
    }

    /// Plans to fetch blocks ahead of their reader, see [`BlockIo::plan_ahead`].
    pub fn plan_ahead(&self, blocks: &[ToFetch]) -> Vec<Arc<Flight>> {
        self.io.plan_ahead(blocks)
    }

    /// Carries out a flight that was planned here, unless somebody else does or has.
    pub fn fetch(&self, flight: &Flight) {
        self.io.fetch(flight);
    }

    /// Nobody will carry this flight out, unless somebody has begun.
    pub fn give_up(&self, flight: &Flight) {
        self.io.give_up(flight);
    }
}

/// Reading the tree, of any version that is not given back.
impl DatasetIo {
    /// See [`Tree::get`].
    #[inline]
    pub fn get(&self, tree: &Tree, key: &Key) -> Result<Option<Bytes>, BlockError> {
        tree.get(&self.io, key)
    }

    /// See [`Tree::range`].
    #[inline]
    pub fn range(&self, tree: &Tree, from: &Key, to: &Key) -> RangeIter<'_> {
        tree.range(&self.io, from, to)
    }

    /// See [`Tree::read_neighbours`].
    pub fn read_neighbours(&self, tree: &Tree, key: &Key) -> Result<(), BlockError> {
        tree.read_neighbours(&self.io, key)
    }

    /// See [`Tree::scan_quietly`].
    pub fn scan_quietly(
        &self,
        tree: &Tree,
        nodes: Nodes,
        range: (&Key, &Key),
        visit: &mut dyn FnMut(Key, &[u8]),
    ) -> bool {
        tree.scan_quietly(&self.io, nodes, range, visit)
    }
}

/// What a group writes of one dataset: its blocks go into the runs of all.
pub struct DatasetWriter<'a> {
    io: &'a DatasetIo,
    out: &'a mut RunWriter,
}

impl<'a> DatasetWriter<'a> {
    pub(crate) fn new(io: &'a DatasetIo, out: &'a mut RunWriter) -> Self {
        Self { io, out }
    }

    /// The group that is written.
    #[must_use]
    pub fn txg(&self) -> Txg {
        self.out.txg()
    }

    /// A step of what is done for this group: lets others have the processor now and then.
    pub fn step(&mut self) {
        self.out.step();
    }

    /// Adds a block of content, which can be read at once; `data` itself goes into the cache.
    pub fn put(&mut self, data: Bytes, compression: Compression) -> Result<BlockPtr, BlockError> {
        self.out.put_bytes(BlockKind::Data, data, compression)
    }

    /// The same of a part of a long WRITE, see [`RunWriter::put_shared`].
    pub fn put_shared(&mut self, data: Bytes, compression: Compression) -> Result<BlockPtr, BlockError> {
        self.out.put_shared(BlockKind::Data, data, compression)
    }

    /// The same of content of which only part is known, see [`RunWriter::put_given_up`].
    pub fn put_given_up(&mut self, data: &[u8], compression: Compression) -> Result<BlockPtr, BlockError> {
        self.out.put_given_up(BlockKind::Data, data, compression)
    }

    /// The tree after `changes`, see [`Tree::apply_around`]. The nodes that they replace are released.
    pub fn merge(&mut self, tree: &Tree, changes: &[(Key, Change)], around: &Around<'_>) -> Result<Tree, BlockError> {
        let (io, txg) = (self.io, self.out.txg());
        tree.apply_around(&io.io, self.out, changes, around, &|bp| io.release(bp, txg))
    }

    /// Frees a block that the group does not name any more.
    #[inline]
    pub fn release(&self, bp: &BlockPtr) {
        self.io.release(bp, self.out.txg());
    }
}

/// Writes content to its final place while no group names it.
pub struct Placer<'a> {
    io: &'a DatasetIo,
    out: RunWriter,
}

/// A block in its final place, which no group names yet. It goes back when this is dropped, unless it was settled.
#[must_use = "what is not settled goes back"]
pub struct Placed<'a> {
    io: &'a DatasetIo,
    bp: BlockPtr,
}

impl DatasetIo {
    /// For placing about `bytes` together, and no more: what others place meanwhile lies directly behind.
    #[must_use]
    pub fn placer(&self, bytes: u64) -> Placer<'_> {
        Placer { io: self, out: self.io.writer(UNBORN).expecting(bytes) }
    }
}

impl<'a> Placer<'a> {
    /// Places a block of content; `data` itself goes into the cache.
    pub fn put(&mut self, data: Bytes, compression: Compression) -> Result<Placed<'a>, BlockError> {
        let bp = self.out.put_bytes(BlockKind::Data, data, compression)?;
        Ok(Placed { io: self.io, bp })
    }

    /// Writes what is not written yet.
    pub fn finish(self) -> Result<(), BlockError> {
        self.out.finish().map(|_| ())
    }
}

impl Placed<'_> {
    /// Bytes of content, before compression.
    #[must_use]
    pub fn bytes(&self) -> u32 {
        self.bp.lsize
    }

    /// It belongs to the group `txg` from now on, and is known by the pointer that this gives.
    pub fn settle(self, txg: Txg) -> BlockPtr {
        let settled = self.io.io.settle(&self.bp, txg).expect("it was allocated for a WRITE, and for nothing else");
        std::mem::forget(self);
        settled
    }
}

impl Drop for Placed<'_> {
    fn drop(&mut self) {
        self.io.io.abandon(&self.bp);
    }
}

#[cfg(test)]
mod tests;

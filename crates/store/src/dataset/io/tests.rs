//! The door gives back what it is told to, and nobody gives anything back beside it.

use std::cell::RefCell;

use tally_base::ObjectId;
use tally_disk::Helpers;
use tally_fakes::MemBlockDev;
use tally_members::blockdev::numbered;

use super::*;
use crate::alloc::Allocator;
use crate::bp::BLOCK_PTR_BYTES;
use crate::key::Class;
use crate::tree::Visit;

/// Extents name blocks.
struct Extents;

impl Schema for Extents {
    fn blocks(&self) -> Class {
        Class::Extent
    }

    fn block(&self, key: &Key, value: &[u8]) -> Option<BlockPtr> {
        let bytes: &[u8; BLOCK_PTR_BYTES] = value.try_into().ok()?;
        BlockPtr::decode(bytes).ok().filter(|_| key.class == Class::Extent)
    }

    fn content_of(&self, key: &Key) -> (ObjectId, u64) {
        (ObjectId(key.object), key.a)
    }
}

fn door() -> DatasetIo {
    let devs = numbered([Arc::new(MemBlockDev::new(64 << 20)) as _]);
    let alloc = Arc::new(Allocator::create(&devs, &[]));
    DatasetIo::new(&BlockIo::new(devs, alloc, 8 << 20, Helpers::Threads), &Extents)
}

fn inode(object: u64, fill: u8) -> (Key, Change) {
    (Key::new(Class::Inode, object, 0, 0), Change::Put(vec![fill; 100].into()))
}

/// The tree of a group: with 4,000 inodes, and `blocks` of content.
fn tree_of(door: &DatasetIo, blocks: u64) -> Tree {
    let mut run = door.io.writer(Txg(1));
    let mut out = DatasetWriter::new(door, &mut run);
    let mut changes: Vec<_> = (1..=4000).map(|object| inode(object, 1)).collect();
    for at in 0..blocks {
        let block = out.put(vec![at as u8 + 1; 128 << 10].into(), Compression::Off).expect("there is space");
        changes.push((Key::new(Class::Extent, 1, at << 17, 0), Change::Put(block.encode().to_vec().into())));
    }
    let tree = out.merge(&Tree::empty(), &changes, &Around::NOTHING).expect("there is space");
    run.finish().expect("memory takes it");
    tree
}

fn deferred(door: &DatasetIo) -> u64 {
    door.io.allocator().space().deferred
}

/// A merge that freed a node by itself would pass by the border of a snapshot.
#[test]
fn a_merge_frees_nothing_but_what_it_releases() {
    let door = door();
    let tree = tree_of(&door, 0);
    let mut old = Vec::new();
    tree.check(&door.io, &mut |visit| {
        if let Visit::Block { bp, .. } = visit {
            old.push(*bp);
        }
    });
    let changes: Vec<_> = (1..=4000).step_by(500).map(|object| inode(object, 2)).collect();
    let released = RefCell::new(Vec::new());
    let mut run = door.io.writer(Txg(2));
    tree.apply_around(&door.io, &mut run, &changes, &Around::NOTHING, &|bp| released.borrow_mut().push(*bp))
        .expect("there is space");
    run.finish().expect("memory takes it");
    let released = released.into_inner();
    assert!(released.len() > 8 && released.iter().all(|bp| old.contains(bp)), "{released:?} of {old:?}");
    assert_eq!(deferred(&door), 0, "nobody has freed them");

    let mut run = door.io.writer(Txg(2));
    let mut out = DatasetWriter::new(&door, &mut run);
    out.merge(&tree, &changes, &Around::NOTHING).expect("there is space");
    run.finish().expect("memory takes it");
    assert_eq!(deferred(&door), released.iter().map(BlockPtr::asize).sum::<u64>(), "the same by the door");
}

/// Each way out of a WRITE that fails gives back what it has placed, since it need not say so.
#[test]
fn what_is_placed_goes_back_unless_it_is_settled() {
    let door = door();
    let free = || door.io.allocator().space().free;
    let before = free();
    let mut out = door.placer(256 << 10);
    let mut place = |fill| out.put(vec![fill; 128 << 10].into(), Compression::Off).expect("there is space");
    let (kept, failed) = (place(1), place(2));
    out.finish().expect("memory takes it");
    assert_eq!(before - free(), 256 << 10);
    drop(failed);
    assert_eq!(before - free(), 128 << 10);
    let settled = kept.settle(Txg(1));
    assert_eq!((settled.birth, before - free()), (Txg(1), 128 << 10));
    assert_eq!(door.read(&settled).expect("it is there"), vec![1; 128 << 10]);
    door.release(&settled, Txg(2));
    assert_eq!(deferred(&door), 128 << 10);
}

#[test]
fn all_that_a_tree_names_goes_with_it_whether_it_was_looked_for_before_or_not() {
    for is_found_before in [true, false] {
        let door = door();
        let tree = tree_of(&door, 3);
        let allocated = door.io.allocator().space().allocated;
        let before = if is_found_before { tree.clone() } else { Tree::empty() };
        let belongings = door.belongings(&before);
        assert_eq!(deferred(&door), 0, "a look frees nothing");
        assert_eq!(door.release_all(&tree, belongings, Txg(2)), 0, "all of it could be read");
        assert_eq!(deferred(&door), allocated);
    }
}

//! Trees and space maps, with numbers in the place of pointers.

use std::collections::BTreeMap;
use std::sync::Arc;

use tally_base::{SECTOR, Txg, VdevIndex};
use tally_members::blockdev::{BlockDevs, numbered};
use tally_store::alloc::{Allocator, SpaceLine};
use tally_store::bp::{BLOCK_PTR_BYTES, BlockKind, BlockPtr};
use tally_store::key::{Class, Key};
use tally_store::tree::TREE_BYTES;

use super::{Seed, put_blob, trimmed};
use crate::blocks::{START_BYTES, SparseDev, at, lines_in, pointers_in};
use crate::golden::{Golden, PartKind};
use crate::node::ROOT_AT;
use crate::space::{DEVICE_BYTES, LINE_BYTES, LINE_HEAD_BYTES, ROOT_HEAD_BYTES};

pub(super) fn seeds() -> Vec<Seed> {
    let mut seeds = real_leaves();
    seeds.extend(made_trees());
    seeds.extend(spaces());
    seeds
}

/// A pointer to a block of the input.
fn pointer(number: u64, kind: BlockKind) -> [u8; BLOCK_PTR_BYTES] {
    let mut pointer = [0; BLOCK_PTR_BYTES];
    pointer[at::START..at::START + START_BYTES].copy_from_slice(&number.to_le_bytes()[..START_BYTES]);
    // No second copy.
    pointer[at::VDEV_2..at::VDEV_2 + 2].copy_from_slice(&u16::MAX.to_le_bytes());
    pointer[at::KIND] = kind as u8;
    pointer[at::SUM] = 1;
    pointer[at::BIRTH] = 3;
    pointer[at::WRITTEN] = 3;
    pointer
}

/// The encoding of a tree's root, and blocks.
fn tree(height: u8, entries: u64, root: &[u8; BLOCK_PTR_BYTES], blocks: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = vec![0; TREE_BYTES];
    bytes[1] = height;
    bytes[8..16].copy_from_slice(&entries.to_le_bytes());
    bytes[ROOT_AT..].copy_from_slice(root);
    blocks.iter().for_each(|block| put_blob(&mut bytes, block));
    bytes
}

/// Every leaf of the golden image as a tree of its own, plain and packed.
fn real_leaves() -> Vec<Seed> {
    let mut seeds = Vec::new();
    for part in &Golden::open().parts {
        let PartKind::Block(found) = part.kind else { continue };
        if found.kind != BlockKind::Leaf || part.content.len() > 4 << 10 {
            continue;
        }
        let entries = u64::from(u16::from_le_bytes(part.content[6..8].try_into().expect("two bytes")));
        let mut root = pointer(0, BlockKind::Leaf);
        let name = format!("leaf-{}", seeds.len());
        seeds.push(Seed::new("node", &name, tree(0, entries, &root, std::slice::from_ref(&part.content))));
        for (coding, packed) in [
            (1, lz4_flex::block::compress(&part.content)),
            (2, zstd::bulk::compress(&part.content, 3).expect("memory is there")),
        ] {
            root[at::CODING] = coding;
            root[at::LSIZE..at::PSIZE].copy_from_slice(&(part.content.len() as u32).to_le_bytes());
            let is_shorter = packed.len() <= part.content.len();
            let seed = Seed::new("node", format!("{name}-packed-{coding}"), tree(0, entries, &root, &[packed]));
            seeds.push(if is_shorter { seed } else { seed.refused() });
        }
    }
    seeds
}

fn leaf(entries: &[(Key, &[u8])]) -> Vec<u8> {
    let mut bytes = b"TLF2".to_vec();
    bytes.extend([entries[0].0.class as u8, 0]);
    bytes.extend((entries.len() as u16).to_le_bytes());
    bytes.extend([0; 8]);
    entries.iter().for_each(|(key, _)| bytes.extend_from_slice(&key.encode()[1..]));
    let mut end = 0;
    for (_, value) in entries {
        end += value.len() as u32;
        bytes.extend(end.to_le_bytes());
    }
    entries.iter().for_each(|(_, value)| bytes.extend_from_slice(value));
    with_length(bytes)
}

fn inner(height: u8, children: &[(Key, u64)]) -> Vec<u8> {
    let mut bytes = b"TND2".to_vec();
    bytes.extend([height, 0]);
    bytes.extend((children.len() as u16).to_le_bytes());
    bytes.extend([0; 8]);
    children.iter().for_each(|(key, _)| bytes.extend_from_slice(&key.encode()));
    let kind = if height == 1 { BlockKind::Leaf } else { BlockKind::TreeNode };
    children.iter().for_each(|(_, number)| bytes.extend_from_slice(&pointer(*number, kind)));
    with_length(bytes)
}

fn with_length(mut bytes: Vec<u8>) -> Vec<u8> {
    let length = (bytes.len() as u32).to_le_bytes();
    bytes[8..12].copy_from_slice(&length);
    bytes
}

/// Trees of one, two and three levels, smaller than a real one would be.
fn made_trees() -> Vec<Seed> {
    let key = |class, object, a| Key::new(class, object, a, 0);
    let leaves = [
        leaf(&[(key(Class::Inode, 3, 0), b"one"), (key(Class::Inode, 5, 0), b"another")]),
        leaf(&[(key(Class::DirEntry, 3, 4), b"entry")]),
        leaf(&[(key(Class::Extent, 5, 0), &[1; 64]), (key(Class::Extent, 5, 4096), &[2; 64])]),
        leaf(&[(key(Class::Small, 6, 0), b"a small file")]),
    ];
    let first = |number: usize| {
        [key(Class::Inode, 3, 0), key(Class::DirEntry, 0, 0), key(Class::Extent, 5, 0), key(Class::Small, 0, 0)][number]
    };
    let child = |leaf: usize, behind: u64| (first(leaf), behind + leaf as u64);
    let two = inner(1, &[child(0, 1), child(1, 1), child(2, 1), child(3, 1)]);
    let low = [inner(1, &[child(0, 3), child(1, 3)]), inner(1, &[child(2, 3), child(3, 3)])];
    let top = inner(2, &[(first(0), 1), (first(2), 2)]);
    let node = pointer(0, BlockKind::TreeNode);
    let one = tree(0, 2, &pointer(0, BlockKind::Leaf), &leaves[..1]);
    let two = tree(1, 6, &node, &[&[two][..], &leaves].concat());
    let three = tree(2, 6, &node, &[&[top][..], &low, &leaves].concat());
    let seeds = [("one-level", one), ("two-levels", two), ("three-levels", three), ("empty", vec![0; TREE_BYTES])];
    seeds.into_iter().map(|(name, bytes)| Seed::new("node", name, bytes)).collect()
}

/// Allocators that were committed: a new one, one in use, one with much on its lists.
fn spaces() -> Vec<Seed> {
    let mut seeds = Vec::new();
    for (name, excluded, takes, frees) in
        [("new", 0, 0, 0), ("in-use", 1 << 20, 20, 4), ("freed", 64 << 10, 300, 290), ("deferred", 0, 900, 500)]
    {
        let devs = numbered(DEVICE_BYTES.map(|bytes| Arc::new(SparseDev::new(bytes)) as _));
        let excluded = (excluded > 0).then_some((VdevIndex(0), 1 << 20, excluded));
        let allocator = Allocator::create(&devs, excluded.as_slice());
        let taken: Vec<_> = (0..takes).filter_map(|turn| allocator.alloc(Txg(1), (turn % 7 + 1) * 4096).ok()).collect();
        let first = allocator.commit(Txg(1), 1000, true).expect("there is room");
        first.write(&devs).expect("devices in memory");
        taken.iter().step_by(2).take(frees).for_each(|dva| allocator.free(*dva, Txg(2)));
        let second = allocator.commit(Txg(2), 1000, true).expect("there is room");
        second.write(&devs).expect("devices in memory");
        for (committed, txg) in [(first, 1), (second, 2)] {
            let mut root = Vec::new();
            committed.root.encode(&mut root);
            let mut sectors = Sectors { devs: &devs, found: BTreeMap::new() };
            for line in root[ROOT_HEAD_BYTES..].chunks_exact(LINE_BYTES) {
                sectors.take(&line[LINE_HEAD_BYTES..]);
            }
            let mut bytes = vec![txg];
            put_blob(&mut bytes, &root);
            for ((vdev, number), sector) in &sectors.found {
                bytes.extend((*vdev << 15 | *number as u16).to_le_bytes());
                put_blob(&mut bytes, trimmed(sector));
            }
            seeds.push(Seed::new("space", format!("{name}-{txg}"), bytes));
        }
    }
    seeds
}

/// Sectors that hang from a root, by vdev and number.
struct Sectors<'a> {
    devs: &'a BlockDevs,
    found: BTreeMap<(u16, u64), Vec<u8>>,
}

impl Sectors<'_> {
    /// Takes up the sector that a pointer names by its number, and those below it.
    fn take(&mut self, pointer: &[u8]) {
        let Ok(found) = BlockPtr::decode(pointer.first_chunk().expect("64 bytes")) else { return };
        let number = found.dva.offset / SECTOR as u64;
        let place = (found.dva.vdev.0, number);
        if !self.found.contains_key(&place) {
            let read = self.devs[&found.dva.vdev].read(found.dva.offset, SECTOR, &|_| true);
            let sector = read.expect("it was written").to_vec();
            let mut sector = sector;
            for at in pointers_in(&sector, found.kind as u8) {
                self.take(&sector[at..at + BLOCK_PTR_BYTES]);
            }
            for line in lines_in(&mut sector, found.kind as u8) {
                let line = SpaceLine::decode(line.first_chunk().expect("64 bytes")).expect("it was written");
                self.take(&line.expect("it is not all zero").pointer().encode());
            }
            self.found.insert(place, sector);
        }
    }
}

//! The allocator: its root, space maps, the index above them, and deferred-free lists.
//!
//! An input is a group's number, the encoding of an allocator's root, and sectors, which are filled up with zeroes. In every pointer
//! the offset is the number of a sector ([`crate::blocks`]).

use std::sync::Arc;

use tally_base::codec::Reader;
use tally_base::{Txg, VdevIndex};
use tally_disk::Helpers;
use tally_members::blockdev::{BlockDevs, numbered};
use tally_store::alloc::{AllocRoot, Allocator, SpaceVisit};
use tally_store::bp::{BLOCK_PTR_BYTES, Dva};

use crate::blocks::Blocks;
use crate::heap;
use crate::input::Input;

/// One region, and one and a half with an index above.
pub(crate) const DEVICE_BYTES: [u64; 2] = [8 << 20, 192 << 20];
/// Before the lines of an encoded root, before the pointer of a line, and a whole line.
pub(crate) const ROOT_HEAD_BYTES: usize = 16;
pub(crate) const LINE_HEAD_BYTES: usize = 24;
pub(crate) const LINE_BYTES: usize = LINE_HEAD_BYTES + BLOCK_PTR_BYTES;
/// Room for the pool's root that a commit leaves.
const POOL_ROOT_BYTES: usize = 1000;
/// Blocks that are taken from what was loaded.
const TAKEN: [u64; 4] = [1, 5000, 64 << 10, 1 << 20];

/// Bitmaps of three regions, twice each, and what a commit writes.
const HEAP_BYTES: usize = 2 << 20;
const HEAP_FACTOR: usize = 32;

/// See the module's head.
pub(crate) fn allocator(data: &[u8]) -> bool {
    heap::at_most(HEAP_BYTES + HEAP_FACTOR * data.len(), || {
        let mut input = Input::new(data);
        let txg = Txg(u64::from(input.u8()));
        let mut bytes = input.blob().to_vec();
        let mut blocks = Blocks::placed(&mut input);
        for line in bytes.get_mut(ROOT_HEAD_BYTES..).unwrap_or_default().chunks_exact_mut(LINE_BYTES) {
            blocks.resolve(&mut line[LINE_HEAD_BYTES..]);
        }
        let Some(root) = decode(&bytes) else { return false };
        let devices = DEVICE_BYTES.iter().zip(0..).map(|(bytes, vdev)| Arc::new(blocks.device(vdev, *bytes)) as _);
        let devs = numbered(devices);
        root.inspect(&devs, &mut |visit| {
            if let SpaceVisit::Damage { error, .. } = visit {
                drop(error.to_string());
            }
        });
        let Ok(allocator) = Allocator::load(&devs, &root, txg, Helpers::Serial, &mut Vec::new()) else { return false };
        go_on(&allocator, &devs, txg);
        true
    })
}

/// The root of an encoding, which must be all of it.
fn decode(bytes: &[u8]) -> Option<AllocRoot> {
    let mut reader = Reader::new(bytes, "fuzzed allocator root");
    let root = AllocRoot::decode(&mut reader).ok()?;
    let read = bytes.len() - reader.rest().len();
    let mut again = Vec::new();
    root.encode(&mut again);
    assert_eq!(again.len(), read, "what was read can be written");
    Some(root)
}

/// What a pool does with an allocator that it has loaded: takes, frees, and commits.
fn go_on(allocator: &Allocator, devs: &BlockDevs, loaded: Txg) {
    let txg = loaded.next();
    check_space(allocator);
    let mut taken: Vec<Dva> = Vec::new();
    for bytes in TAKEN {
        let Ok(dva) = allocator.alloc(txg, bytes) else { continue };
        assert!(dva.bytes() >= bytes && allocator.is_busy(&dva), "what was taken is taken");
        let apart = |other: &Dva| other.vdev != dva.vdev || other.end() <= dva.offset || dva.end() <= other.offset;
        assert!(taken.iter().all(apart), "{dva} was taken before");
        taken.push(dva);
    }
    if let Some(dva) = taken.first() {
        allocator.abandon(*dva);
    }
    allocator.free(Dva { vdev: VdevIndex(0), offset: 64 << 10, sectors: 2 }, txg);
    allocator.released(loaded);
    check_space(allocator);
    let Ok(committed) = allocator.commit(txg, POOL_ROOT_BYTES, true) else { return };
    committed.write(devs).expect("devices in memory");
    allocator.released(txg);
    check_space(allocator);
    let again = Allocator::load(devs, &committed.root, txg, Helpers::Serial, &mut Vec::new())
        .expect("what was committed can be loaded");
    for dva in taken.iter().skip(1) {
        assert!(again.is_busy(dva), "{dva} was committed");
    }
    check_space(&again);
}

fn check_space(allocator: &Allocator) {
    let space = allocator.space();
    assert!(space.free <= DEVICE_BYTES.iter().sum(), "{space:?}");
    let free_of = |place| allocator.vdev_free(VdevIndex::at(place)?);
    let free: u64 = (0..DEVICE_BYTES.len()).filter_map(free_of).sum();
    assert_eq!(free, space.free, "the vdevs' free space is the pool's");
}

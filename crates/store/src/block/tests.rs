use tally_base::{Seat, Txg, VdevIndex, seat_this_thread};
use tally_fakes::MemBlockDev;
use tally_members::blockdev::{BlockDev, numbered};

use super::*;
use crate::bp::BlockKind;
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

/// Text that compresses, and bytes that do not.
fn samples() -> Vec<Vec<u8>> {
    let text = b"a tally stick was a log ".repeat(2000);
    let mut state = 1_u64;
    let noise = (0..20_000)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 56) as u8
        })
        .collect();
    vec![text, noise, vec![7; 100], vec![7; SECTOR], vec![7; SECTOR + 1]]
}

fn store(devs: &BlockDevs, data: &[u8], compression: Compression, offset: u64) -> BlockPtr {
    let mut scratch = Vec::new();
    let sealed = seal(data, compression, &mut scratch);
    let mut sectors = sealed.bytes().to_vec();
    sectors.resize(sealed.sectors() as usize * SECTOR, 0);
    write_sectors(devs, VdevIndex(0), offset, &sectors).expect("memory takes it");
    BlockPtr {
        dva: Dva { vdev: VdevIndex(0), offset, sectors: sealed.sectors() },
        copy: None,
        in_pieces: false,
        lsize: data.len() as u32,
        psize: sealed.bytes().len() as u32,
        coding: sealed.coding(),
        kind: BlockKind::Data,
        birth: Txg(1),
        written: Txg(1),
        checksum: block_checksum(sealed.bytes()),
    }
}

#[test]
fn what_is_sealed_is_opened_and_compression_saves_whole_sectors() {
    let devs = numbered([Arc::new(MemBlockDev::new(1 << 20)) as _]);
    for compression in [Compression::Off, Compression::Lz4, Compression::Zstd(3)] {
        for data in samples() {
            let bp = store(&devs, &data, compression, 8192);
            assert!(bp.coding == Coding::Raw || bp.dva.sectors < sectors_of(data.len()));
            assert!(data.len() > SECTOR || bp.coding == Coding::Raw);
            assert_eq!(open(&devs, &bp).expect("just written"), data);
        }
    }
}

#[test]
fn rot_is_found_and_the_second_copy_serves() {
    let dev = Arc::new(MemBlockDev::new(1 << 20));
    let devs = numbered([dev.clone() as _]);
    let data = &samples()[0];
    let single = store(&devs, data, Compression::Lz4, 0);
    let second = store(&devs, data, Compression::Lz4, 65536);
    let double = BlockPtr { copy: Some(second.dva), ..single };
    dev.rot(100, 1);
    assert!(matches!(open(&devs, &single), Err(BlockError::Unreadable { .. })));
    assert_eq!(open(&devs, &double).expect("the second copy is good"), data);
}

#[test]
fn damaged_pointers_are_errors() {
    let devs = numbered([Arc::new(MemBlockDev::new(1 << 20)) as _]);
    let good = store(&devs, &samples()[0], Compression::Lz4, 0);
    let place = |vdev, offset| BlockPtr { dva: Dva { vdev: VdevIndex(vdev), offset, ..good.dva }, ..good };
    let cases = [
        ("vdev", place(1, 0)),
        ("vdev huge", place(u16::MAX, 0)),
        ("beyond the end", place(0, 1 << 20)),
        ("offset overflows", place(0, !4095)),
        ("asize 0", BlockPtr { dva: Dva { sectors: 0, ..good.dva }, ..good }),
        ("lsize huge", BlockPtr { lsize: u32::MAX, ..good }),
        ("psize huge", BlockPtr { psize: u32::MAX, lsize: u32::MAX, ..good }),
    ];
    for (what, bp) in cases {
        assert!(matches!(open(&devs, &bp), Err(BlockError::Pointer { .. })), "{what}");
    }
    let shorter = BlockPtr { lsize: good.lsize - 1, ..good };
    assert!(matches!(open(&devs, &shorter), Err(BlockError::Malformed { .. })));
}

/// Counts how often a thread has said that it sits still.
#[derive(Default)]
struct Sat(Cell<u32>);

impl Seat for Sat {
    fn sits_down(&self) {
        self.0.set(self.0.get() + 1);
    }

    fn stands_up(&self) {}
}

#[test]
fn who_reads_or_writes_a_block_says_that_it_sits_still() {
    let devs = numbered([Arc::new(MemBlockDev::new(1 << 20)) as _]);
    let sat = Rc::new(Sat::default());
    seat_this_thread(Rc::clone(&sat) as Rc<dyn Seat>);
    let bp = store(&devs, &[7; SECTOR], Compression::Off, 0);
    assert_eq!(sat.0.get(), 1, "a write");
    open(&devs, &bp).expect("it was just written");
    assert_eq!(sat.0.get(), 2, "a read");
    open_stretch(&devs, &[&bp]).expect("it was just written");
    assert_eq!(sat.0.get(), 3, "a read of neighbours");
}

/// For a disk that turns each write is a turn; but a log on the same disk waits for one no longer than for a run (rules P3).
/// The second case took two runs in one write.
#[test]
fn neighbours_are_written_together_up_to_a_bound() {
    const MIB: u64 = 1 << 20;
    let cases: &[(&[(u64, usize)], u64)] = &[
        (&[(2 * SECTOR as u64, SECTOR), (0, SECTOR), (SECTOR as u64, SECTOR)], 1),
        (&[(0, MIB as usize / 2), (MIB / 2, MIB as usize)], 2),
        (&[(0, MIB as usize - SECTOR), (MIB - SECTOR as u64, SECTOR), (MIB, SECTOR)], 2),
        (&[(0, 2 * MIB as usize), (2 * MIB, SECTOR)], 2),
        (&[(0, SECTOR), (2 * SECTOR as u64, SECTOR)], 2),
        (&[], 0),
    ];
    for (places, writes) in cases {
        let mem = Arc::new(MemBlockDev::new(4 * MIB));
        let devs = numbered([mem.clone() as _]);
        let contents: Vec<_> = places.iter().zip(1..).map(|((_, length), byte)| vec![byte; *length]).collect();
        let dva = |(offset, length): &(u64, usize)| Dva {
            vdev: VdevIndex(0),
            offset: *offset,
            sectors: (*length / SECTOR) as u32,
        };
        let parts = places.iter().map(dva).zip(contents.iter().map(|content| &content[..])).collect();
        write_together(&devs, parts, MIB as usize).expect("memory takes it");
        assert_eq!(mem.write_count(), *writes, "{places:?}");
        for ((offset, length), content) in places.iter().zip(&contents) {
            let found = mem.read(*offset, *length, &|_| true).expect("in memory");
            assert!(found[..] == content[..], "{places:?} at {offset}");
        }
    }
}

use std::sync::Arc;

use tally_disk::{AlignedBuf, Disk, Durability, MemDisk};

use crate::model::{Model, Operation};
use crate::random::Random;
use crate::volatile::{Honesty, VolatileDisk};

fn sectors(byte: u8, count: usize) -> AlignedBuf {
    let mut buf = AlignedBuf::zeroed(count * 4096);
    buf.fill(byte);
    buf
}

fn bytes_at(disk: &dyn Disk, offset: u64, count: usize) -> Vec<u8> {
    let mut buf = AlignedBuf::zeroed(count * 4096);
    disk.read(offset, &mut buf).unwrap();
    buf.chunks(4096).map(|sector| sector[0]).collect()
}

/// What a kill leaves is what the disk below has.
#[test]
fn a_kill_loses_some_of_what_was_not_flushed_and_nothing_else() {
    let below = Arc::new(MemDisk::new(1 << 20));
    let disk = VolatileDisk::new(below.clone(), Honesty::Honest, Random::new(7, 0));
    disk.write(0, &sectors(1, 8), Durability::Durable).unwrap();
    assert_eq!(bytes_at(&*below, 0, 8), [1; 8]);
    disk.write(0, &sectors(2, 8), Durability::Cached).unwrap();
    assert_eq!(bytes_at(&disk, 0, 8), [2; 8], "the server itself sees what it wrote");
    let after_a_kill = bytes_at(&*below, 0, 8);
    assert!(after_a_kill.contains(&1) && after_a_kill.contains(&2), "{after_a_kill:?}");
    // A durable write above cached ones is not undone by the next flush.
    disk.write(4096, &sectors(3, 1), Durability::Durable).unwrap();
    disk.flush().unwrap();
    assert_eq!(bytes_at(&*below, 0, 8), [2, 3, 2, 2, 2, 2, 2, 2]);
    assert_eq!(disk.cached_sectors(), 0);
}

#[test]
fn a_lying_disk_loses_durable_writes() {
    let below = Arc::new(MemDisk::new(1 << 20));
    let disk = VolatileDisk::new(below.clone(), Honesty::ForgetsDurable, Random::new(7, 0));
    disk.write(0, &sectors(1, 64), Durability::Durable).unwrap();
    assert!(bytes_at(&*below, 0, 64).contains(&0));
    assert!(disk.write(1 << 20, &sectors(1, 1), Durability::Cached).is_err());
}

#[test]
fn open_writes_allow_old_and_new_bytes_and_no_others() {
    let mut model = Model::new(vec![1], vec![2]);
    let id = model.next_id();
    model.apply(&Operation::Create { dir: 0, name: "f".into(), id, exclusive: false }, Some(vec![3]));
    model.written(id, 0, b"aaaa".to_vec(), true, [1; 8]).unwrap();
    model.written(id, 2, b"bbbb".to_vec(), false, [1; 8]).unwrap();
    let node = &model.nodes[&id];
    assert_eq!(node.current(), b"aabbbb");
    let cases: [(&[u8], bool); 8] = [
        (b"aaaa", true),
        (b"aabbbb", true),
        (b"aabaa", false),
        (b"aabab\0", true),
        (b"aabb\0b", true),
        (b"aab", false),
        (b"xaaa", false),
        (b"aabbbbb", false),
    ];
    for (actual, allowed) in cases {
        assert_eq!(node.allows(actual).is_ok(), allowed, "{actual:?}");
    }
    // With the verifier unchanged, answered writes are promised.
    let mut kept = node.clone();
    kept.keep_answered();
    assert!(kept.allows(b"aaaa").is_err() && kept.allows(b"aabbbb").is_ok());
    assert!(model.written(id, 0, b"c".to_vec(), false, [2; 8]).is_err(), "a verifier that changes in between");
}

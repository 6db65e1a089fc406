use std::sync::Arc;
use std::time::{Duration, Instant};

use tally_disk::{AlignedBuf, Disk, Durability};
use tally_fakes::MemDisk;

use crate::model::{Model, Operation};
use crate::random::Random;
use crate::slow::{SlowDisk, Slowness};
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

/// Two writers at once take twice as long: the device has no queue. Nothing is said about the longest time.
#[test]
fn a_paced_disk_does_one_durable_write_at_a_time() {
    let pace = Duration::from_millis(20);
    let disk = SlowDisk::new(Arc::new(MemDisk::new(1 << 20)), Slowness::Paced(pace));
    let started = Instant::now();
    std::thread::scope(|scope| {
        for offset in [0, 4096] {
            let disk = &disk;
            scope.spawn(move || disk.write(offset, &sectors(1, 1), Durability::Durable).unwrap());
        }
    });
    assert!(started.elapsed() >= 2 * pace);
    assert_eq!(bytes_at(&disk, 0, 2), [1; 2]);
}

/// A disk with a queue: reads take their time too, ten of them at once, and a long one as often as it has mebibytes.
#[test]
fn a_queued_disk_does_ten_things_at_once_and_each_takes_its_time() {
    let each = Duration::from_millis(20);
    let disk = SlowDisk::new(Arc::new(MemDisk::new(4 << 20)), Slowness::Queued(each));
    let time = |act: &dyn Fn()| {
        let started = Instant::now();
        act();
        started.elapsed()
    };
    assert!(time(&|| drop(bytes_at(&disk, 0, 1))) >= each, "a read");
    assert!(time(&|| drop(bytes_at(&disk, 0, 257))) >= 2 * each, "a read of more than a mebibyte");
    assert!(time(&|| disk.write(0, &sectors(1, 1), Durability::Cached).unwrap()) >= each, "a cached write");
    assert!(time(&|| disk.flush().unwrap()) >= each, "a flush");
    let crowd = |count: usize| {
        std::thread::scope(|scope| (0..count).for_each(|_| drop(scope.spawn(|| bytes_at(&disk, 0, 1)))));
    };
    assert!(time(&|| crowd(11)) >= 2 * each, "one more than there is room for");
}

#[test]
fn a_turning_disk_does_one_thing_at_a_time_whatever_it_is() {
    let turn = Duration::from_millis(20);
    let disk = SlowDisk::new(Arc::new(MemDisk::new(1 << 20)), Slowness::Turning(turn));
    let started = Instant::now();
    disk.write(0, &sectors(1, 1), Durability::Cached).unwrap();
    assert_eq!(bytes_at(&disk, 0, 1), [1]);
    disk.flush().unwrap();
    assert!(started.elapsed() >= 3 * turn);
}

#[test]
fn a_held_disk_takes_cached_writes_and_flushes_when_the_gate_is_gone() {
    let folder = tempfile::tempdir().unwrap();
    let gate = folder.path().join("gate");
    std::fs::write(&gate, "").unwrap();
    let disk = Arc::new(SlowDisk::new(Arc::new(MemDisk::new(1 << 20)), Slowness::HeldWhile(gate.clone())));
    disk.write(0, &sectors(1, 1), Durability::Cached).unwrap();
    let (flushed, seen) = std::sync::mpsc::channel();
    let flushing = Arc::clone(&disk);
    let thread = std::thread::spawn(move || {
        flushing.flush().unwrap();
        flushed.send(()).unwrap();
    });
    assert!(seen.recv_timeout(Duration::from_millis(200)).is_err(), "the gate is there");
    std::fs::remove_file(&gate).unwrap();
    seen.recv().unwrap();
    thread.join().unwrap();
}

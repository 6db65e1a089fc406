use std::io::ErrorKind;
use std::path::PathBuf;

use super::*;

const MIB: u64 = 1 << 20;

fn file_of(size: u64) -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("disk");
    File::create(&path).unwrap().set_len(size).unwrap();
    (dir, path)
}

fn pattern(length: usize, seed: u8) -> AlignedBuf {
    let mut buf = AlignedBuf::zeroed(length);
    for (index, byte) in buf.iter_mut().enumerate() {
        *byte = (index / 7) as u8 ^ seed;
    }
    buf
}

/// Writes and reads back by every way there is: cached, durable, aligned and unaligned buffers.
fn exercise(disk: &dyn Disk) {
    let end = disk.geometry().size;
    for (offset, length, durability) in [
        (0, 4096, Durability::Cached),
        (4096, 65536, Durability::Durable),
        (end - 4096, 4096, Durability::Durable),
        (end - 8192, 4096, Durability::Cached),
    ] {
        let written = pattern(length, offset as u8 ^ length as u8);
        disk.write(offset, &written, durability).unwrap();
        let mut read = AlignedBuf::zeroed(length);
        disk.read(offset, &mut read).unwrap();
        assert_eq!(*read, *written, "{length} bytes at {offset}, {durability:?}");
    }
    // Longer than one request takes parts, and of several lengths.
    let written = pattern(1100 * 4096, 5);
    disk.write(0, &written, Durability::Cached).unwrap();
    for lengths in [vec![4096; 1100], vec![4096, 131_072, 8192]] {
        let mut parts: Vec<_> = lengths.iter().map(|length| AlignedBuf::zeroed(*length)).collect();
        disk.read_parts(0, &mut parts).unwrap();
        let read: Vec<u8> = parts.iter().flat_map(|part| part.to_vec()).collect();
        assert_eq!(read, written[..read.len()], "{} parts", lengths.len());
        assert!(disk.read_parts(end - 4096, &mut parts).is_err(), "beyond the end");
    }
    let mut unaligned = vec![0; 4096 + 1];
    unaligned[1..].copy_from_slice(&pattern(4096, 99));
    disk.write(0, &unaligned[1..], Durability::Durable).unwrap();
    let mut back = vec![0; 4096 + 1];
    disk.read(0, &mut back[1..]).unwrap();
    assert_eq!(back, unaligned);
    disk.flush().unwrap();
    disk.discard(4096, 65536).unwrap();
}

#[test]
fn bytes_come_back_from_a_file() {
    let (_dir, path) = file_of(8 * MIB);
    let disk = FileDisk::open(&path, Access::Exclusive).unwrap();
    assert_eq!(disk.geometry().size, 8 * MIB);
    exercise(&disk);
}

#[test]
fn a_remainder_below_a_sector_is_left_off() {
    let (_dir, path) = file_of(3 * 4096 + 17);
    let disk = FileDisk::open(&path, Access::Exclusive).unwrap();
    assert_eq!(disk.geometry().size, 3 * 4096);
    let past = disk.read(3 * 4096, &mut AlignedBuf::zeroed(4096)).unwrap_err();
    assert_eq!(past.kind(), ErrorKind::InvalidInput);
}

#[test]
fn ranges_beyond_the_end_are_errors_and_change_nothing() {
    let (_dir, path) = file_of(8192);
    let disk = FileDisk::open(&path, Access::Exclusive).unwrap();
    for offset in [4096, 8192, u64::MAX / 4096 * 4096] {
        assert!(disk.write(offset, &pattern(8192, 1), Durability::Cached).is_err(), "write at {offset}");
        assert!(disk.read(offset, &mut AlignedBuf::zeroed(8192)).is_err(), "read at {offset}");
        assert!(disk.discard(offset, 8192).is_err(), "discard at {offset}");
    }
    assert_eq!(fs::metadata(&path).unwrap().len(), 8192);
}

#[test]
#[should_panic(expected = "inside a sector")]
fn an_offset_inside_a_sector_is_a_bug() {
    let (_dir, path) = file_of(8192);
    let _ = FileDisk::open(&path, Access::Exclusive).unwrap().read(512, &mut AlignedBuf::zeroed(4096));
}

#[test]
fn one_owner_at_a_time_and_readers_beside_it() {
    let (_dir, path) = file_of(8192);
    let owner = FileDisk::open(&path, Access::Exclusive).unwrap();
    let second = FileDisk::open(&path, Access::Exclusive).unwrap_err();
    assert_eq!(second.kind(), ErrorKind::WouldBlock);
    assert!(second.to_string().contains("in use"), "{second}");
    let reader = FileDisk::open(&path, Access::ReadOnly).unwrap();
    reader.read(0, &mut AlignedBuf::zeroed(4096)).unwrap();
    assert!(reader.write(0, &pattern(4096, 1), Durability::Cached).is_err(), "a reader cannot write");
    drop(owner);
    FileDisk::open(&path, Access::Exclusive).expect("the lock went with its owner");
}

#[test]
fn what_is_no_disk_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    for (path, kind) in [
        (dir.path().to_owned(), ErrorKind::InvalidInput),
        (PathBuf::from("/dev/null"), ErrorKind::InvalidInput),
        (dir.path().join("absent"), ErrorKind::NotFound),
    ] {
        let error = FileDisk::open(&path, Access::Exclusive).unwrap_err();
        assert_eq!(error.kind(), kind, "{}: {error}", path.display());
    }
}

#[test]
fn without_rwf_dsync_a_durable_write_flushes() {
    let (_dir, path) = file_of(8 * MIB);
    let disk = FileDisk::open(&path, Access::Exclusive).unwrap();
    disk.flushes_itself.store(true, Ordering::Relaxed);
    exercise(&disk);
}

/// On a device with a cache, FUA or not, `RWF_DSYNC` is a flush more than a write and an `fdatasync`; on one that
/// writes through it is the write alone. A partition's queue is that of its disk.
#[test]
fn a_device_with_a_volatile_cache_is_flushed_after_a_plain_write() {
    let disk = tempfile::tempdir().unwrap();
    let partition = disk.path().join("part1");
    for folder in ["queue", "part1"] {
        fs::create_dir(disk.path().join(folder)).unwrap();
    }
    for (cache, volatile) in [("write back", true), ("write through", false), ("", false)] {
        for fua in ["0", "1"] {
            fs::write(disk.path().join("queue/write_cache"), format!("{cache}\n")).unwrap();
            fs::write(disk.path().join("queue/fua"), format!("{fua}\n")).unwrap();
            for path in [disk.path(), &partition] {
                let queue = Queue { device: 0, path: path.to_owned() };
                assert_eq!(queue.has_volatile_cache(), volatile, "{cache:?}, fua {fua}, {}", path.display());
            }
        }
    }
}

use std::io::ErrorKind;

use tally_disk::AlignedBuf;

use super::*;

#[test]
fn bytes_come_back_over_chunk_borders() {
    let disk = MemDisk::new(1 << 20);
    let mut written = AlignedBuf::zeroed(3 * CHUNK_BYTES);
    for (index, byte) in written.iter_mut().enumerate() {
        *byte = (index / 251) as u8;
    }
    let offset = CHUNK_BYTES as u64 - 4096;
    disk.write(offset, &written, Durability::Cached).unwrap();
    let mut read = AlignedBuf::zeroed(written.len());
    disk.read(offset, &mut read).unwrap();
    assert_eq!(*read, *written);
    let content = disk.content();
    assert!(content[..offset as usize].iter().all(|byte| *byte == 0), "what was never written is zero");
    assert_eq!(MemDisk::from_bytes(&content).content(), content);
}

#[test]
fn the_size_is_whole_sectors_and_the_end_is_the_end() {
    let disk = MemDisk::new(4096 * 5 + 100);
    assert_eq!(disk.geometry().size, 4096 * 5);
    assert!(disk.read(4096 * 5, &mut [0; 4096]).is_err());
    assert!(disk.write(4096 * 4, &[0; 8192], Durability::Cached).is_err());
    disk.write(4096 * 4, &[1; 4096], Durability::Cached).unwrap();
}

#[test]
fn the_opener_keeps_locks() {
    let opener = MemOpener::default();
    let path = Path::new("/mem/a");
    opener.create(path, 8192, true, &mut |_| true).unwrap();
    assert_eq!(opener.create(path, 8192, true, &mut |_| true).unwrap_err().kind(), ErrorKind::AlreadyExists);
    let owner = opener.open(path, Access::Exclusive).unwrap();
    assert_eq!(opener.open(path, Access::Exclusive).err().unwrap().kind(), ErrorKind::WouldBlock);
    let reader = opener.open(path, Access::ReadOnly).unwrap();
    owner.write(0, &[7; 4096], Durability::Durable).unwrap();
    let mut buf = [0; 4096];
    reader.read(0, &mut buf).unwrap();
    assert_eq!(buf, [7; 4096]);
    assert!(reader.write(0, &buf, Durability::Cached).is_err());
    drop(owner);
    opener.open(path, Access::Exclusive).expect("free again");
    assert_eq!(opener.list(Path::new("/mem")).unwrap(), [path]);
    opener.remove(path);
    assert_eq!(opener.open(path, Access::ReadOnly).err().unwrap().kind(), ErrorKind::NotFound);
}

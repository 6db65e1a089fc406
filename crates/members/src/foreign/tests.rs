use tally_disk::Durability;
use tally_fakes::MemDisk;

use super::*;

fn with(at: usize, magic: &[u8]) -> MemDisk {
    let disk = MemDisk::new(1 << 20);
    let sector = at / SECTOR * SECTOR;
    let mut bytes = vec![0; 2 * SECTOR];
    bytes.truncate(((1 << 20) - sector).min(2 * SECTOR));
    bytes[at - sector..at - sector + magic.len()].copy_from_slice(magic);
    disk.write(sector as u64, &bytes, Durability::Durable).unwrap();
    disk
}

#[test]
fn what_others_have_put_there_is_known() {
    for (at, magic, what) in SIGNATURES {
        assert_eq!(content(&with(at, magic)).unwrap(), Some(what), "at {at}");
    }
    for magic in ZFS_UBERBLOCKS {
        assert_eq!(content(&with(ZFS_RING + 4 * ZFS_STEP, &magic)).unwrap(), Some("a disk of a ZFS pool"));
    }
    for at in md_places(1 << 20) {
        assert_eq!(content(&with(at as usize, MD)).unwrap(), Some("a part of a RAID (md)"), "at {at}");
    }
    assert_eq!(content(&MemDisk::new(1 << 20)).unwrap(), None);
    assert_eq!(content(&MemDisk::new(64 << 10)).unwrap(), None, "one that ends before some of them begin");
}

/// A boot sector has the signature of a table of partitions too.
#[test]
fn a_table_of_partitions_is_not_told_of_what_says_more() {
    let disk = with(0x1fe, b"\x55\xaa");
    let mut first = vec![0; SECTOR];
    disk.read(0, &mut first).unwrap();
    first[3..11].copy_from_slice(b"NTFS    ");
    disk.write(0, &first, Durability::Durable).unwrap();
    assert_eq!(content(&disk).unwrap(), Some("an NTFS file system"));
}

//! What others have put on a device: enough of it to ask before it is written over. Signatures as libblkid and the file systems' own documentation have them.

use std::io;

use tally_base::SECTOR;
use tally_disk::{AlignedBuf, Disk};

/// All signatures begin within this.
const LOOKED_AT: u64 = 256 << 10;

/// Where something says what it is, and what it is. The first that fits is told.
const SIGNATURES: [(usize, &[u8], &str); 30] = [
    (0x438, b"\x53\xef", "an ext2, ext3 or ext4 file system"),
    (0, b"XFSB", "an XFS file system"),
    (0x1_0040, b"_BHRfS_M", "a btrfs file system"),
    (0x400, b"\x10\x20\xf5\xf2", "an F2FS file system"),
    (0x1018, b"\xc6\x85\x73\xf6", "a bcache device or a bcachefs file system"),
    (0, b"LUKS\xba\xbe", "an encrypted device (LUKS)"),
    (0x200, b"LABELONE", "a physical volume of LVM"),
    (0, b"LABELONE", "a physical volume of LVM"),
    (0, b"\xfc\x4e\x2b\xa9", "a part of a RAID (md)"),
    (0x1000, b"\xfc\x4e\x2b\xa9", "a part of a RAID (md)"),
    (0, b"bluestore block device", "an OSD of Ceph"),
    (0xff6, b"SWAPSPACE2", "swap space"),
    (0xff6, b"SWAP-SPACE", "swap space"),
    (3, b"NTFS    ", "an NTFS file system"),
    (3, b"EXFAT   ", "an exFAT file system"),
    (0x36, b"FAT1", "a FAT file system"),
    (0x52, b"FAT32", "a FAT file system"),
    (0x8001, b"CD001", "an ISO 9660 image"),
    (0x200, b"EFI PART", "a table of partitions (GPT)"),
    (0x1000, b"EFI PART", "a table of partitions (GPT)"),
    (0x1fe, b"\x55\xaa", "a table of partitions, or what boots"),
    (0, b"hsqs", "a squashfs image"),
    (0x8000, b"JFS1", "a JFS file system"),
    (0x1_0034, b"ReIsEr", "a ReiserFS file system"),
    (0x400, b"H+", "an HFS+ file system"),
    (0x400, b"HX", "an HFS+ file system"),
    (0x20, b"NXSB", "an APFS container"),
    (0x1_055c, b"\x19\x01\x54\x19", "a UFS file system"),
    (0x406, b"\x34\x34", "a NILFS2 file system"),
    (0x1_0000, b"\x01\x16\x19\x70", "a GFS2 file system"),
];
/// Of an uberblock of ZFS, in either order of bytes; it has a ring of them behind the names of its label, a kilobyte or more each.
const ZFS_UBERBLOCKS: [[u8; 8]; 2] = [0x00ba_b10c_u64.to_le_bytes(), 0x00ba_b10c_u64.to_be_bytes()];
const ZFS_RING: usize = 128 << 10;
const ZFS_STEP: usize = 1 << 10;

/// Where a part of an md RAID of the formats 0.90 and 1.0 says so: near the end.
fn md_places(size: u64) -> [u64; 2] {
    const KEPT: u64 = 64 << 10;
    [(size / KEPT * KEPT).saturating_sub(KEPT), (size / 512).saturating_sub(16) / 8 * 8 * 512]
}
const MD: &[u8] = b"\xfc\x4e\x2b\xa9";

/// What is on it that is known, and is none of ours.
///
/// # Errors
///
/// It cannot be read.
pub fn content(disk: &dyn Disk) -> io::Result<Option<&'static str>> {
    let length = disk.geometry().size.min(LOOKED_AT) / SECTOR as u64 * SECTOR as u64;
    let mut start = AlignedBuf::zeroed(usize::try_from(length).expect("it is bounded"));
    disk.read(0, &mut start)?;
    let says = |at: usize, magic: &[u8]| start.get(at..at + magic.len()) == Some(magic);
    let known = SIGNATURES.iter().find(|(at, magic, _)| says(*at, magic)).map(|(_, _, what)| *what);
    let is_zfs =
        || (ZFS_RING..start.len()).step_by(ZFS_STEP).any(|at| ZFS_UBERBLOCKS.iter().any(|magic| says(at, magic)));
    if let Some(known) = known.or_else(|| is_zfs().then_some("a disk of a ZFS pool")) {
        return Ok(Some(known));
    }
    let mut sector = AlignedBuf::zeroed(SECTOR);
    for at in md_places(disk.geometry().size).into_iter().filter(|at| *at >= length) {
        disk.read(at, &mut sector)?;
        if sector.starts_with(MD) {
            return Ok(Some("a part of a RAID (md)"));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests;

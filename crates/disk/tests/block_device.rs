//! A real block device. In a process of its own: a child that another
//! test forks would share our locks for a moment.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;

use tally_disk::{Access, AlignedBuf, Disk, Durability, FileDisk};

const MIB: u64 = 1 << 20;

/// A loop device, taken down when dropped.
struct LoopDevice(PathBuf);

impl LoopDevice {
    fn over(backing: &Path) -> Result<Self, String> {
        let output = Command::new("losetup").args(["--find", "--show"]).arg(backing).output();
        let output = output.map_err(|error| format!("losetup cannot be run: {error}"))?;
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).trim().to_owned());
        }
        Ok(Self(PathBuf::from(String::from_utf8_lossy(&output.stdout).trim())))
    }

    /// Flushes that the kernel has sent to it so far (the kernel's Documentation/block/stat.rst).
    fn flushes(&self) -> u64 {
        let stat = Path::new("/sys/block").join(self.0.file_name().unwrap()).join("stat");
        let stat = fs::read_to_string(stat).unwrap();
        stat.split_whitespace().nth(15).expect("Linux counts flushes since 5.5").parse().unwrap()
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        let _ = Command::new("losetup").arg("--detach").arg(&self.0).status();
    }
}

#[test]
#[ignore = "needs root and a loop device; `cargo xtask test` runs it"]
fn a_block_device_is_a_disk_with_one_owner() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("backing");
    File::create(&path).unwrap().set_len(8 * MIB).unwrap();
    let device = LoopDevice::over(&path).unwrap_or_else(|reason| panic!("no loop device: {reason}"));
    let disk = FileDisk::open(&device.0, Access::Exclusive).unwrap();
    assert_eq!(disk.geometry().size, 8 * MIB);
    for (offset, durability) in [(0, Durability::Cached), (8 * MIB - 8192, Durability::Durable)] {
        disk.write(offset, &[durability as u8 + 1; 8192], durability).unwrap();
        let mut read = AlignedBuf::zeroed(8192);
        disk.read(offset, &mut read).unwrap();
        assert_eq!(*read, [durability as u8 + 1; 8192]);
    }
    disk.flush().unwrap();

    // It has a cache and no FUA, where the kernel makes two of RWF_DSYNC.
    let before = device.flushes();
    (0..64).for_each(|n| disk.write(n * 4096, &[7; 4096], Durability::Durable).unwrap());
    assert_eq!(device.flushes() - before, 64, "one flush for each durable write");

    disk.discard(4096, 65536).unwrap();
    let second = FileDisk::open(&device.0, Access::Exclusive).unwrap_err();
    assert_eq!(second.kind(), ErrorKind::WouldBlock);
    drop(disk);
    // As udev looks behind each close: `pool create` looked at a disk, and then found it in use.
    let glance = File::open(&device.0).unwrap();
    glance.lock_shared().unwrap();
    let disk = FileDisk::open(&device.0, Access::Exclusive).expect("the device is free again");
    drop(glance);
    let second = FileDisk::open(&device.0, Access::Exclusive).unwrap_err();
    assert_eq!(second.kind(), ErrorKind::WouldBlock, "it is owned as firmly as without one who looked");
    drop(disk);
    // As a partitioner has it.
    let alone = File::open(&device.0).unwrap();
    alone.lock().unwrap();
    let second = FileDisk::open(&device.0, Access::Exclusive).unwrap_err();
    assert_eq!(second.kind(), ErrorKind::WouldBlock);
}

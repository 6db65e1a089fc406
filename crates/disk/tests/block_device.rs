//! A real block device, where this machine lets us make one. In a process of its own: a child that another
//! test forks would share our locks for a moment.

use std::fs::File;
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
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        let _ = Command::new("losetup").arg("--detach").arg(&self.0).status();
    }
}

#[test]
fn a_block_device_is_a_disk_with_one_owner() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("backing");
    File::create(&path).unwrap().set_len(8 * MIB).unwrap();
    let device = match LoopDevice::over(&path) {
        Ok(device) => device,
        Err(reason) => {
            println!("SKIPPED 1 test: no loop device ({reason})");
            return;
        }
    };
    let disk = FileDisk::open(&device.0, Access::Exclusive).unwrap();
    assert_eq!(disk.geometry().size, 8 * MIB);
    for (offset, durability) in [(0, Durability::Cached), (8 * MIB - 8192, Durability::Durable)] {
        disk.write(offset, &[durability as u8 + 1; 8192], durability).unwrap();
        let mut read = AlignedBuf::zeroed(8192);
        disk.read(offset, &mut read).unwrap();
        assert_eq!(*read, [durability as u8 + 1; 8192]);
    }
    disk.flush().unwrap();
    disk.discard(4096, 65536).unwrap();
    let second = FileDisk::open(&device.0, Access::Exclusive).unwrap_err();
    assert_eq!(second.kind(), ErrorKind::WouldBlock);
    drop(disk);
    FileDisk::open(&device.0, Access::Exclusive).expect("the device is free again");
}

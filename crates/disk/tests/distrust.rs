//! A failed durable write and the disks of its device. Alone in its process, as the failure is everybody's on that
//! device.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use tally_disk::{Access, Disk, Durability, FileDisk, TrustedDisk};

fn open(path: &Path, access: Access) -> TrustedDisk {
    TrustedDisk::new(Arc::new(FileDisk::open(path, access).unwrap()))
}

/// A durable write is a flush, too: the kernel tells its error once, and the next `fdatasync` of the description has
/// nothing left to complain of. It was believed, and with it whatever had been in the cache, here and in the file
/// beside it.
#[test]
fn after_a_failed_durable_write_no_flush_of_the_device_is_believed_until_it_is_opened_again() {
    let dir = tempfile::tempdir().unwrap();
    let paths = ["log", "pool"].map(|name| dir.path().join(name));
    for path in &paths {
        File::create(path).unwrap().set_len(8192).unwrap();
    }
    let pool = open(&paths[1], Access::Exclusive);
    pool.write(0, &[1; 4096], Durability::Cached).unwrap();
    pool.flush().unwrap();
    // A disk that can only be read refuses the write in the kernel, and syncs what it is asked to.
    let log = open(&paths[0], Access::ReadOnly);
    log.flush().unwrap();
    log.write(0, &[2; 4096], Durability::Durable).unwrap_err();
    assert!(log.flush().is_err());
    assert!(pool.flush().is_err() && pool.write(0, &[3; 4096], Durability::Durable).is_err());
    drop(pool);
    open(&paths[1], Access::Exclusive).flush().expect("it was opened again");
}

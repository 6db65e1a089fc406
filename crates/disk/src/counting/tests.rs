use super::*;
use crate::MemDisk;

#[test]
fn every_request_is_counted_once() {
    let disk = CountingDisk::new(Arc::new(MemDisk::new(64 << 10)));
    disk.write(0, &[1; 8192], Durability::Cached).unwrap();
    disk.write(0, &[1; 4096], Durability::Durable).unwrap();
    disk.read(0, &mut [0; 4096]).unwrap();
    disk.flush().unwrap();
    disk.discard(0, 4096).unwrap();
    assert!(disk.read(64 << 10, &mut [0; 4096]).is_err());
    let expected = IoCounts {
        reads: 2,
        read_bytes: 8192,
        writes: 2,
        write_bytes: 12288,
        durable_writes: 1,
        flushes: 1,
        discards: 1,
        errors: 1,
    };
    assert_eq!(disk.counts(), expected);
}

use std::sync::atomic::{AtomicBool, Ordering};

use tally_disk::{Geometry, SystemOpener};
use tally_fakes::MemDisk;

use super::*;

/// Zeroes everywhere but where it says; a block device to those who ask by path is not at hand in a test.
struct Noted {
    disk: MemDisk,
    written: AtomicBool,
}

impl Disk for Noted {
    fn read(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        self.disk.read(offset, buf)
    }
    fn write(&self, offset: u64, buf: &[u8], durability: Durability) -> io::Result<()> {
        self.written.store(true, Ordering::Relaxed);
        self.disk.write(offset, buf, durability)
    }
    fn flush(&self) -> io::Result<()> {
        self.disk.flush()
    }
    fn discard(&self, offset: u64, length: u64) -> io::Result<()> {
        self.disk.discard(offset, length)
    }
    fn geometry(&self) -> Geometry {
        self.disk.geometry()
    }
}

fn device(size: u64, data_at: Option<u64>) -> Arc<Noted> {
    let disk = MemDisk::new(size);
    if let Some(offset) = data_at {
        disk.write(offset, &buffer(4096, 3), Durability::Cached).expect("it is memory");
    }
    Arc::new(Noted { disk, written: AtomicBool::new(false) })
}

#[test]
fn a_device_with_data_anywhere_that_counts_is_left_alone() {
    let size = 4 * AREA_BYTES;
    for data_at in [0, 8192, AREA_BYTES - 4096, size - 4096] {
        let disk = device(size, Some(data_at));
        let refusal = Place::of_device(Path::new("/dev/x"), disk.clone()).err().expect("it holds data");
        assert!(matches!(refusal, CandidateError::InUse { .. }), "{refusal}");
        assert!(!disk.written.load(Ordering::Relaxed));
    }
    let small = Place::of_device(Path::new("/dev/x"), device(AREA_BYTES / 2, None));
    assert!(matches!(small.err(), Some(CandidateError::Small { .. })));
}

#[test]
fn a_blank_device_is_blank_again() {
    let disk = device(2 * AREA_BYTES, None);
    let place = Place::of_device(Path::new("/dev/x"), disk.clone()).expect("it is blank");
    assert!(!one_at_a_time(&*place.disk, 4096, 3).expect("it is memory").ns.is_empty());
    assert!(disk.written.load(Ordering::Relaxed));
    place.close().expect("it is memory");
    assert!(Place::of_device(Path::new("/dev/x"), disk).is_ok());
}

#[test]
fn in_a_directory_nothing_stays_and_a_file_is_refused() {
    // Where the tests are built there is a disk; what is below /tmp may be memory.
    let program = std::env::current_exe().expect("this program");
    let dir = tempfile::tempdir_in(program.parent().expect("it is in a directory")).expect("a directory");
    let file = dir.path().join("mine");
    std::fs::write(&file, b"precious").expect("a file");
    let refusal = measure(&file, &SystemOpener, &mut |_| {}).expect_err("it is a file");
    assert!(refusal.to_string().contains("Name the directory"), "{refusal}");
    let measured = measure(dir.path(), &SystemOpener, &mut |_| {}).expect("a directory on a disk");
    assert_eq!(measured.depths.len(), DEPTHS.len());
    assert_eq!(measured.device.samples().len(), LENGTHS.len());
    assert_eq!(std::fs::read_dir(dir.path()).expect("a directory").count(), 1, "the file that was there");
}

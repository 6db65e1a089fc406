//! Disks that are only counters, in files of the kernel's format, so that the referee's real reader reads them.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

/// What a flush takes. Short, so that a lone request takes about as long as on a good disk.
const FLUSH: Duration = Duration::from_micros(50);

/// A folder that looks like `/sys/class/block`, with disks that have a write cache and no FUA.
pub(crate) struct Kernel(tempfile::TempDir);

impl Kernel {
    pub(crate) fn new() -> Self {
        let kernel = Self(tempfile::tempdir().unwrap());
        fs::create_dir(kernel.block()).unwrap();
        kernel
    }

    pub(crate) fn block(&self) -> PathBuf {
        self.0.path().join("block")
    }

    pub(crate) fn disk(&self, name: &str) -> Disk {
        let folder = self.0.path().join("devices").join(name);
        fs::create_dir_all(folder.join("queue")).unwrap();
        fs::write(folder.join("queue/write_cache"), "write back\n").unwrap();
        fs::write(folder.join("queue/fua"), "0\n").unwrap();
        symlink(&folder, self.block().join(name)).unwrap();
        Disk::new(&folder.join("stat"))
    }
}

/// One of them.
pub(crate) struct Disk {
    stat: File,
    counters: Mutex<Counters>,
}

#[derive(Default)]
struct Counters {
    writes: u64,
    sectors: u64,
    flushes: u64,
}

impl Disk {
    fn new(stat: &Path) -> Self {
        let disk = Self { stat: File::create(stat).unwrap(), counters: Mutex::default() };
        disk.count(|_| {});
        disk
    }

    /// Completes a write.
    pub(crate) fn write(&self, bytes: u64) {
        self.count(|counters| {
            counters.writes += 1;
            counters.sectors += bytes.div_ceil(512);
        });
    }

    /// Completes a flush.
    pub(crate) fn flush(&self) {
        thread::sleep(FLUSH);
        self.count(|counters| counters.flushes += 1);
    }

    /// Fields of equal width and one system call, so that no reader sees half of a number.
    fn count(&self, change: impl FnOnce(&mut Counters)) {
        let mut counters = self.counters.lock().unwrap();
        change(&mut counters);
        let Counters { writes, sectors, flushes } = *counters;
        let text = format!("0 0 0 0 {writes:015} 0 {sectors:015} 0 0 0 0 0 0 0 0 {flushes:015} 0\n");
        self.stat.write_all_at(text.as_bytes(), 0).unwrap();
    }
}

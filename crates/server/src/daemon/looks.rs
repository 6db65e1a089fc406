//! Disks that somebody has open for a moment, to see what a command would do (`-n`).
//!
//! The problem: whoever wants to know whether a disk may be used has to lock it as its user would, or he tells of a disk that is somebody else's. Meanwhile
//! whoever needs it in earnest finds it in use: an import was refused, as its disk was "in use by another process".
//!
//! The idea: commands that open disks wait until the looks of this process are over. Not for long, as a look may be at a disk that hangs;
//! and a look itself does not wait for others.
//!
//! udev looks, too: behind each close of a block device that could be written to, as behind a look, or wipefs, it has the device for itself while the kernel reads its partitions anew.
//! Nobody is told of that, so a block device that is in use is waited for in any case.

use std::cell::Cell;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use std::{fs, io, thread};

use tally_disk::{Access, Disk, Opener};

/// How long a disk may be in use by a look, and how often that is asked.
const LOOK_MAX: Duration = Duration::from_secs(2);
/// See [`LOOK_MAX`].
const LOOK_PAUSE: Duration = Duration::from_millis(20);

thread_local! {
    /// Whether this thread only looks.
    static LOOKS: Cell<bool> = const { Cell::new(false) };
}

/// The looks that are under way.
#[derive(Default)]
pub(super) struct Looks(AtomicUsize);

impl Looks {
    /// Does something that is a look.
    pub(super) fn look<T>(&self, work: impl FnOnce() -> T) -> T {
        let _look = Look::begin(&self.0);
        work()
    }

    fn are_under_way(&self) -> bool {
        self.0.load(Ordering::Acquire) > 0
    }
}

/// One look of this thread.
struct Look<'a>(&'a AtomicUsize);

impl<'a> Look<'a> {
    fn begin(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::AcqRel);
        LOOKS.set(true);
        Self(count)
    }
}

impl Drop for Look<'_> {
    fn drop(&mut self) {
        LOOKS.set(false);
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Opens disks as another one does, and waits for looks.
pub(super) struct BesideLooks {
    pub(super) opener: Arc<dyn Opener>,
    pub(super) looks: Arc<Looks>,
}

fn is_block_device(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|metadata| metadata.file_type().is_block_device())
}

impl Opener for BesideLooks {
    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn Disk>> {
        let began = Instant::now();
        loop {
            // Asked before: it may be over behind the refusal.
            let is_looked_at = !LOOKS.get() && self.looks.are_under_way() || is_block_device(path);
            let may_pass = is_looked_at && began.elapsed() < LOOK_MAX;
            match self.opener.open(path, access) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock && may_pass => thread::sleep(LOOK_PAUSE),
                opened => return opened,
            }
        }
    }

    fn create(&self, path: &Path, size: u64, prewrite: bool, progress: &mut dyn FnMut(u64) -> bool) -> io::Result<()> {
        self.opener.create(path, size, prewrite, progress)
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<PathBuf>> {
        self.opener.list(directory)
    }
}

//! Disks: a numbered row of bytes that keeps what was flushed. This crate holds every system call that the
//! engine makes, behind a trait of five verbs that tests and the simulator implement too.
//!
//! Writes come in two kinds. A **cached** write may be lost or torn by a power cut until [`Disk::flush`] returns; a
//! **durable** one (DSYNC, or a write and its flush) is on stable storage when it returns. An error of either, or of a
//! flush, means that the bytes may or may not be there: nobody retries on trust, and after a failed flush or durable
//! write nothing later on that device is believed until it is opened again (`trust`).

mod buffer;
mod counting;
mod device;
mod fanout;
mod file;
mod helpers;
mod patience;
mod patient;
mod platform;
mod system;
mod trust;
mod turns;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use buffer::AlignedBuf;
pub use counting::{CountingDisk, IoCounts, IoKind, IoTimes};
pub use fanout::{Fanout, SerialFanout, ThreadFanout, Work};
pub use file::FileDisk;
pub use helpers::{Begun, BegunWithin, Helpers, Within};
pub use patience::{Limit, Patience};
pub use patient::PatientDisk;
pub use platform::{Host, Platform};
pub use system::SystemOpener;
pub use trust::TrustedDisk;
pub use turns::{Share, Turn, Turns, aside};

/// How a write is to be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// In the device's cache: durable after the next [`Disk::flush`] that returns success.
    Cached,
    /// On stable storage before the call returns.
    Durable,
}

/// What is known about a disk when it is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Usable bytes, a whole number of 4 KiB sectors.
    pub size: u64,
    /// Whether seeks cost (a spinning disk).
    pub rotational: bool,
    /// Whether the device says that it writes through, so that a durable write needs no flush.
    pub write_through: bool,
}

/// A disk, a file or memory. Offsets and lengths are whole 4 KiB sectors; anything else is the caller's bug
/// and panics. Buffers should come from [`AlignedBuf`]; others cost a copy.
pub trait Disk: Send + Sync {
    /// Fills `buf` from `offset`. A range beyond the end is an error.
    fn read(&self, offset: u64, buf: &mut [u8]) -> io::Result<()>;

    /// Fills `parts`, whole sectors each, with what lies from `offset` on: one request where the disk takes it as one.
    fn read_parts(&self, offset: u64, parts: &mut [AlignedBuf]) -> io::Result<()> {
        let mut whole = AlignedBuf::zeroed(parts.iter().map(|part| part.len()).sum());
        self.read(offset, &mut whole)?;
        whole.part_into(parts);
        Ok(())
    }

    /// Writes all of `buf` at `offset`.
    fn write(&self, offset: u64, buf: &[u8], durability: Durability) -> io::Result<()>;

    /// Makes every completed write durable.
    fn flush(&self) -> io::Result<()>;

    /// Says that a range is no longer needed. Its content is undefined afterwards; devices that cannot do it ignore it.
    fn discard(&self, offset: u64, length: u64) -> io::Result<()>;

    /// Size and kind.
    fn geometry(&self) -> Geometry;

    /// Numbers of the devices below, whose caches it shares with other disks on them; none: it has a device of its own.
    fn devices(&self) -> Vec<u64> {
        Vec::new()
    }

    /// The disk below, and who decides for how long it is waited for, where that is not until it answers.
    fn patient(&self) -> Option<(Arc<dyn Disk>, Arc<dyn Patience>)> {
        None
    }
}

/// How a disk is to be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// For inspection: no lock is taken and nothing can be written.
    ReadOnly,
    /// To own it: a lock is taken on the very file description that does the I/O (rules F24), and a block
    /// device is opened exclusively. Fails with [`io::ErrorKind::WouldBlock`] when somebody else owns it.
    Exclusive,
}

/// Opens disks by path: the seam at which tests put other disks under a whole server.
pub trait Opener: Send + Sync {
    /// Opens an existing file or block device.
    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn Disk>>;

    /// Makes a file of `size` bytes, all of them allocated and, with `prewrite`, written with zeroes (a DSYNC
    /// write into an unwritten extent costs many times one into a written extent). `progress` hears of bytes
    /// done, and says whether to go on: if not, there is no file, and the error is [`io::ErrorKind::Interrupted`]. Fails
    /// with [`io::ErrorKind::AlreadyExists`] where there is something already.
    fn create(&self, path: &Path, size: u64, prewrite: bool, progress: &mut dyn FnMut(u64) -> bool) -> io::Result<()>;

    /// Paths in `directory` that may be worth opening, in order of name: files and block devices. An opener whose
    /// paths are not those of the file system has its own answer.
    fn list(&self, directory: &Path) -> io::Result<Vec<PathBuf>> {
        use std::os::unix::fs::FileTypeExt;
        let mut paths = Vec::new();
        for entry in std::fs::read_dir(directory)? {
            let entry = entry?;
            let path = entry.path();
            // What the directory says of it: one that is a mount of a pool's dataset would be asked of this very process, which is about to look for the pool.
            let Ok(mut file_type) = entry.file_type() else { continue };
            if file_type.is_symlink() {
                // Followed: /dev/disk/by-id is full of them. One that leads nowhere is no disk.
                let Ok(metadata) = std::fs::metadata(&path) else { continue };
                file_type = metadata.file_type();
            }
            if file_type.is_file() || file_type.is_block_device() {
                paths.push(path);
            }
        }
        paths.sort();
        Ok(paths)
    }
}

/// Asserts what the trait asks of its callers: for whoever implements it.
pub fn assert_sectors(offset: u64, length: u64) {
    let sector = tally_base::SECTOR as u64;
    assert!(offset.is_multiple_of(sector), "disk I/O at {offset}, inside a sector");
    assert!(length.is_multiple_of(sector), "disk I/O of {length} bytes, which are no whole sectors");
}

/// A range beyond the end of the disk is an error of the world: the disk may have shrunk, the pointer may be rot.
pub fn check_range(geometry: &Geometry, offset: u64, length: u64) -> io::Result<()> {
    if offset.checked_add(length).is_some_and(|end| end <= geometry.size) {
        return Ok(());
    }
    let size = geometry.size;
    let message = format!("{length} bytes at {offset} lie beyond the end of a disk of {size} bytes");
    Err(io::Error::new(io::ErrorKind::InvalidInput, message))
}

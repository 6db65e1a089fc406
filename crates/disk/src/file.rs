//! A disk that is a file or a block device.
//!
//! It says what the kernel says. Whether that is still believed after a failure is for [`crate::TrustedDisk`].
//!
//! Three decisions shape this module.
//!
//! *The lock lives on the description that does the I/O* (I8, rules F24). A request that a killed process left
//! in flight keeps its open file description alive, and with it the `flock`; so whoever gets the lock knows
//! that no write of the dead process can still land. A lock file beside the disk would be free too early.
//! `O_EXCL` keeps mounts and other claimants away from a block device besides.
//!
//! *`O_DIRECT` where it can be had.* The store keeps its own cache of verified blocks; a second one in the
//! kernel would double the memory and turn a flush into a long write-back. File systems that refuse it
//! (tmpfs of old, some network ones) are used through the page cache, and the log says so once.
//!
//! *DSYNC per write, not per open.* One description serves cached bulk and durable frames. On a file `RWF_DSYNC` is
//! whatever its file system needs, a write with FUA alone at best; where the flag is unknown, a write followed by
//! `fdatasync` does the same. On a block device with a volatile cache it is that pair from the start: `RWF_DSYNC` there
//! becomes a write with FUA, or a write and a flush, and *another* flush behind it (docs/design/0019).

use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{FallocateFlags, FlockOperation, OFlags, fallocate, fdatasync, flock};
use rustix::io::{Errno, ReadWriteFlags, preadv, pwritev2};
use tally_base::SECTOR;

use crate::{Access, AlignedBuf, Disk, Durability, Geometry, assert_sectors};

/// Most parts of one request: `IOV_MAX` of Linux.
const PARTS_MAX: usize = 1024;

/// A regular file or a block device.
#[derive(Debug)]
pub struct FileDisk {
    file: File,
    geometry: Geometry,
    kind: Kind,
    /// Whether the page cache is passed by, so that buffers must be aligned.
    direct: bool,
    /// A durable write is a write and an `fdatasync`: `RWF_DSYNC` would flush once more, or was refused once.
    flushes_itself: AtomicBool,
    /// The devices whose caches it shares.
    devices: Vec<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    File,
    BlockDevice,
}

impl FileDisk {
    /// Opens what stands at `path`. The lock of [`Access::Exclusive`] is held until the disk is dropped.
    pub fn open(path: &Path, access: Access) -> io::Result<Self> {
        let kind = kind_of(path, &fs::metadata(path)?)?;
        let (mut file, direct) = open_direct(path, access, kind)?;
        // Between the look at the path and the open somebody may have put another thing there.
        if kind_of(path, &file.metadata()?)? != kind {
            return Err(io::Error::other(format!("{} changed its kind while it was opened", path.display())));
        }
        if access == Access::Exclusive {
            lock(&file, path, kind)?;
        }
        let size = match kind {
            Kind::File => file.metadata()?.len(),
            Kind::BlockDevice => file.seek(SeekFrom::End(0))?,
        };
        let queue = Queue::of(&file, kind)?;
        let geometry = queue.geometry(size / SECTOR as u64 * SECTOR as u64);
        let flushes_itself = kind == Kind::BlockDevice && direct && queue.has_volatile_cache();
        Ok(Self {
            file,
            geometry,
            kind,
            direct,
            flushes_itself: AtomicBool::new(flushes_itself),
            devices: queue.devices(),
        })
    }

    /// Whether I/O passes by the page cache.
    #[must_use]
    pub fn is_direct(&self) -> bool {
        self.direct
    }

    fn check_range(&self, offset: u64, length: u64) -> io::Result<()> {
        crate::check_range(&self.geometry, offset, length)
    }

    /// At most [`PARTS_MAX`] of them.
    fn read_some_parts(&self, offset: u64, parts: &mut [AlignedBuf]) -> io::Result<()> {
        let mut slices: Vec<_> = parts.iter_mut().map(|part| io::IoSliceMut::new(part)).collect();
        let mut came = match preadv(&self.file, &mut slices, offset) {
            Ok(length) => length,
            Err(Errno::INTR) => 0,
            Err(errno) => return Err(errno.into()),
        };
        // What a signal or the end of an extent cut off comes part by part.
        let mut at = offset;
        for part in parts {
            if came < part.len() {
                self.file.read_exact_at(part, at)?;
            }
            came = came.saturating_sub(part.len());
            at += part.len() as u64;
        }
        Ok(())
    }

    fn write_aligned(&self, offset: u64, buf: &[u8], durability: Durability) -> io::Result<()> {
        match durability {
            Durability::Cached => self.file.write_all_at(buf, offset),
            Durability::Durable => self.write_durable(offset, buf),
        }
    }

    fn write_durable(&self, offset: u64, buf: &[u8]) -> io::Result<()> {
        if !self.flushes_itself.load(Ordering::Relaxed) {
            match self.write_dsync(offset, buf) {
                // It has done nothing, and so lost nothing.
                Err(error) if error.raw_os_error() == Some(Errno::OPNOTSUPP.raw_os_error()) => {
                    self.flushes_itself.store(true, Ordering::Relaxed);
                }
                outcome => return outcome,
            }
        }
        self.file.write_all_at(buf, offset)?;
        Ok(fdatasync(&self.file)?)
    }

    fn write_dsync(&self, mut offset: u64, mut buf: &[u8]) -> io::Result<()> {
        while !buf.is_empty() {
            match pwritev2(&self.file, &[io::IoSlice::new(buf)], offset, ReadWriteFlags::DSYNC) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => {
                    buf = buf.get(written..).unwrap_or_default();
                    offset += written as u64;
                }
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(())
    }
}

impl Disk for FileDisk {
    fn read(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        assert_sectors(offset, buf.len() as u64);
        self.check_range(offset, buf.len() as u64)?;
        if !self.direct || is_aligned(buf) {
            return self.file.read_exact_at(buf, offset);
        }
        let mut aligned = AlignedBuf::zeroed(buf.len());
        self.file.read_exact_at(&mut aligned, offset)?;
        buf.copy_from_slice(&aligned);
        Ok(())
    }

    fn read_parts(&self, offset: u64, parts: &mut [AlignedBuf]) -> io::Result<()> {
        let length = parts.iter().map(|part| part.len() as u64).sum();
        assert_sectors(offset, length);
        self.check_range(offset, length)?;
        let mut at = offset;
        for parts in parts.chunks_mut(PARTS_MAX) {
            self.read_some_parts(at, parts)?;
            at += parts.iter().map(|part| part.len() as u64).sum::<u64>();
        }
        Ok(())
    }

    fn write(&self, offset: u64, buf: &[u8], durability: Durability) -> io::Result<()> {
        assert_sectors(offset, buf.len() as u64);
        self.check_range(offset, buf.len() as u64)?;
        if !self.direct || is_aligned(buf) {
            return self.write_aligned(offset, buf, durability);
        }
        let mut aligned = AlignedBuf::with_capacity(buf.len());
        aligned.extend_from_slice(buf);
        self.write_aligned(offset, &aligned, durability)
    }

    fn flush(&self) -> io::Result<()> {
        Ok(fdatasync(&self.file)?)
    }

    fn discard(&self, offset: u64, length: u64) -> io::Result<()> {
        assert_sectors(offset, length);
        self.check_range(offset, length)?;
        // A file keeps its blocks: giving them back would turn the next durable write into an allocation, which
        // costs many times as much and can fail for space.
        if self.kind == Kind::File || length == 0 {
            return Ok(());
        }
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        match fallocate(&self.file, flags, offset, length) {
            Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::NODEV) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn devices(&self) -> Vec<u64> {
        self.devices.clone()
    }
}

fn is_aligned(buf: &[u8]) -> bool {
    buf.as_ptr().addr().is_multiple_of(SECTOR)
}

fn kind_of(path: &Path, metadata: &fs::Metadata) -> io::Result<Kind> {
    let file_type = metadata.file_type();
    if file_type.is_file() {
        Ok(Kind::File)
    } else if file_type.is_block_device() {
        Ok(Kind::BlockDevice)
    } else {
        let path = path.display();
        Err(io::Error::new(io::ErrorKind::InvalidInput, format!("{path} is neither a file nor a block device")))
    }
}

/// Opens past the page cache where that works, through it where it does not.
fn open_direct(path: &Path, access: Access, kind: Kind) -> io::Result<(File, bool)> {
    let open = |extra: OFlags| {
        let exclusive = access == Access::Exclusive && kind == Kind::BlockDevice;
        let flags = extra | if exclusive { OFlags::EXCL } else { OFlags::empty() } | OFlags::CLOEXEC;
        OpenOptions::new()
            .read(true)
            .write(access == Access::Exclusive)
            .custom_flags(flags.bits().cast_signed())
            .open(path)
            .map_err(|error| busy_as_would_block(error, path))
    };
    match open(OFlags::DIRECT) {
        Ok(file) => Ok((file, true)),
        Err(error) if error.raw_os_error() == Some(Errno::INVAL.raw_os_error()) => {
            tracing::warn!(path = %path.display(), "no O_DIRECT here: reads and writes go through the page cache");
            Ok((open(OFlags::empty())?, false))
        }
        Err(error) => Err(error),
    }
}

/// A block device that is mounted or claimed answers EBUSY; to callers that is the same as a lock held elsewhere.
fn busy_as_would_block(error: io::Error, path: &Path) -> io::Error {
    if error.raw_os_error() == Some(Errno::BUSY.raw_os_error()) { in_use(path) } else { error }
}

fn in_use(path: &Path) -> io::Error {
    io::Error::new(io::ErrorKind::WouldBlock, format!("{} is in use by another process", path.display()))
}

/// Takes the lock that keeps other processes from a file.
///
/// Of a block device the claim of `O_EXCL` does that, which was there before. Its lock tells those who only look, as udev does at
/// each disk that somebody has closed who could write to it (systemd's rules for locks on block devices): one who is looking
/// right now holds it shared and takes nothing away, so shared is enough beside him. Who holds it alone, as a partitioner does, is refused.
fn lock(file: &File, path: &Path, kind: Kind) -> io::Result<()> {
    let outcome = match flock(file, FlockOperation::NonBlockingLockExclusive) {
        Err(Errno::WOULDBLOCK) if kind == Kind::BlockDevice => flock(file, FlockOperation::NonBlockingLockShared),
        outcome => outcome,
    };
    outcome.map_err(|errno| if errno == Errno::WOULDBLOCK { in_use(path) } else { errno.into() })
}

/// How many floors of stacked devices are looked through.
const STACKED_MAX: u32 = 8;

/// Where the kernel says what lies below: the attributes of a block device's queue.
struct Queue {
    /// The device, or the one below the file system.
    device: u64,
    path: PathBuf,
}

impl Queue {
    fn of(file: &File, kind: Kind) -> io::Result<Self> {
        let metadata = file.metadata()?;
        let device = if kind == Kind::BlockDevice { metadata.rdev() } else { metadata.dev() };
        Ok(Self::of_device(device))
    }

    fn of_device(device: u64) -> Self {
        let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
        Self { device, path: format!("/sys/dev/block/{major}:{minor}").into() }
    }

    /// The whole devices below, whose caches are flushed: of a partition the one that it is part of, of a stacked
    /// device those that it lies on. A file system that names none counts as a device of its own.
    fn devices(&self) -> Vec<u64> {
        let mut devices = Vec::new();
        self.collect_devices(STACKED_MAX, &mut devices);
        devices.sort_unstable();
        devices.dedup();
        devices
    }

    fn collect_devices(&self, floors: u32, devices: &mut Vec<u64>) {
        let slaves = fs::read_dir(self.path.join("slaves")).into_iter().flatten().flatten();
        let mut below: Vec<_> = slaves.filter_map(|slave| device_in(&slave.path().join("dev"))).collect();
        if self.path.join("partition").exists() {
            below.extend(device_in(&self.path.join("../dev")));
        }
        if below.is_empty() || floors == 0 {
            devices.push(self.device);
        }
        below
            .iter()
            .filter(|_| floors > 0)
            .for_each(|device| Self::of_device(*device).collect_devices(floors - 1, devices));
    }

    fn says(&self, attribute: &str, value: &str) -> bool {
        // A partition has no queue of its own; that of the whole device is one floor up.
        let places = ["queue", "../queue"].map(|queue| self.path.join(queue).join(attribute));
        let text = places.iter().find_map(|path| fs::read_to_string(path).ok());
        text.is_some_and(|text| text.trim() == value)
    }

    /// What the kernel does not say (of a network file system, an unusual device) counts as fast and volatile: the
    /// cautious answer for durability.
    fn geometry(&self, size: u64) -> Geometry {
        let (rotational, write_through) = (self.says("rotational", "1"), self.says("write_cache", "write through"));
        Geometry { size, rotational, write_through }
    }

    /// Whether the device says that a write may be in its cache alone. FUA is not asked for: it makes `RWF_DSYNC` no
    /// cheaper.
    fn has_volatile_cache(&self) -> bool {
        self.says("write_cache", "write back")
    }
}

/// The device number in a `dev` file, `8:1`.
fn device_in(path: &Path) -> Option<u64> {
    let text = fs::read_to_string(path).ok()?;
    let (major, minor) = text.trim().split_once(':')?;
    Some(rustix::fs::makedev(major.parse().ok()?, minor.parse().ok()?))
}

#[cfg(test)]
mod tests;

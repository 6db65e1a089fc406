//! The machine's own files and block devices.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{FallocateFlags, FlockOperation, fallocate, flock};
use rustix::io::Errno;
use tally_base::SECTOR;

use crate::{Access, AlignedBuf, Disk, Durability, FileDisk, Opener};

/// Written at once when a new file is filled with zeroes: long enough to stream on any disk, short enough
/// that progress moves.
const ZERO_CHUNK_BYTES: u64 = 4 << 20;

/// Opens paths of the file system.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemOpener;

impl Opener for SystemOpener {
    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn Disk>> {
        Ok(Arc::new(FileDisk::open(path, access)?))
    }

    fn create(&self, path: &Path, size: u64, prewrite: bool, progress: &mut dyn FnMut(u64) -> bool) -> io::Result<()> {
        if size == 0 || !size.is_multiple_of(SECTOR as u64) {
            let message = format!("a disk file takes a whole number of {SECTOR}-byte sectors, not {size} bytes");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
        let filled = fill(&file, path, size, prewrite, progress);
        if filled.is_err() {
            // Half a file is of no use to anybody, and would stand in the way of the next attempt. But it has its size before
            // it is written out, and who has made something of it by then has its lock.
            if flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok() {
                let _ = fs::remove_file(path);
            }
        }
        filled
    }
}

/// Gives the new file its blocks, and its name a durable place in the directory.
fn fill(file: &File, path: &Path, size: u64, prewrite: bool, progress: &mut dyn FnMut(u64) -> bool) -> io::Result<()> {
    let allocated = match fallocate(file, FallocateFlags::empty(), 0, size) {
        Ok(()) => true,
        // Only by writing does such a file system promise the space.
        Err(Errno::OPNOTSUPP) => false,
        Err(errno) => return Err(errno.into()),
    };
    if !allocated {
        file.set_len(size)?;
    }
    if prewrite || !allocated {
        write_zeroes(path, size, progress)?;
    }
    file.sync_all()?;
    sync_parent(path)
}

fn write_zeroes(path: &Path, size: u64, progress: &mut dyn FnMut(u64) -> bool) -> io::Result<()> {
    let disk = FileDisk::open(path, Access::Exclusive)?;
    let zeroes = AlignedBuf::zeroed(usize::try_from(size.min(ZERO_CHUNK_BYTES)).expect("at most the chunk"));
    let mut done = 0;
    while done < size {
        let length = (size - done).min(ZERO_CHUNK_BYTES);
        let chunk = &zeroes[..usize::try_from(length).expect("at most the chunk")];
        disk.write(done, chunk, Durability::Cached)?;
        done += length;
        if !progress(done) {
            return Err(io::ErrorKind::Interrupted.into());
        }
    }
    disk.flush()
}

fn sync_parent(path: &Path) -> io::Result<()> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(parent)?.sync_all()
}

#[cfg(test)]
mod tests;

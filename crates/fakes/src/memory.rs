//! Disks in memory, and an opener that knows only those.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};
use tally_disk::{Access, Disk, Durability, Geometry, Opener, assert_sectors, check_range};

/// Memory is taken in pieces of this size at the first write, so that a large and mostly empty disk is cheap.
const CHUNK_BYTES: usize = 64 << 10;

/// A disk of bytes in memory: every write is at once as durable as it will ever be.
pub struct MemDisk {
    size: u64,
    /// `None` reads as zeroes. One lock a chunk: a request takes them in ascending order, one at a time.
    chunks: Vec<RwLock<Option<Box<[u8]>>>>,
}

impl MemDisk {
    /// `size` bytes of zero; a remainder below a sector is left off, as on a real disk.
    #[must_use]
    pub fn new(size: u64) -> Self {
        let size = size / tally_base::SECTOR as u64 * tally_base::SECTOR as u64;
        let chunk_count = usize::try_from(size.div_ceil(CHUNK_BYTES as u64)).expect("a memory disk fits in memory");
        Self { size, chunks: (0..chunk_count).map(|_| RwLock::new(None)).collect() }
    }

    /// A disk with this content.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Self {
        let disk = Self::new(bytes.len() as u64);
        for (chunk, part) in disk.chunks.iter().zip(bytes.chunks(CHUNK_BYTES)) {
            let mut content = vec![0; CHUNK_BYTES];
            content[..part.len()].copy_from_slice(part);
            *chunk.write() = Some(content.into());
        }
        disk
    }

    /// Another disk with the same content. Memory that nothing was written to is not taken again.
    #[must_use]
    pub fn fork(&self) -> Self {
        Self { size: self.size, chunks: self.chunks.iter().map(|chunk| RwLock::new(chunk.read().clone())).collect() }
    }

    /// A copy of every byte: what a power cut at this moment would leave.
    #[must_use]
    pub fn content(&self) -> Vec<u8> {
        let mut bytes = vec![0; usize::try_from(self.size).expect("a memory disk fits in memory")];
        self.copy_out(0, &mut bytes);
        bytes
    }

    fn copy_out(&self, offset: u64, buf: &mut [u8]) {
        for (index, start, range) in pieces(offset, buf.len()) {
            let part = &mut buf[range];
            match &*self.chunks[index].read() {
                Some(chunk) => part.copy_from_slice(&chunk[start..start + part.len()]),
                None => part.fill(0),
            }
        }
    }
}

impl Disk for MemDisk {
    fn read(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        assert_sectors(offset, buf.len() as u64);
        check_range(&self.geometry(), offset, buf.len() as u64)?;
        self.copy_out(offset, buf);
        Ok(())
    }

    fn write(&self, offset: u64, buf: &[u8], _: Durability) -> io::Result<()> {
        assert_sectors(offset, buf.len() as u64);
        check_range(&self.geometry(), offset, buf.len() as u64)?;
        for (index, start, range) in pieces(offset, buf.len()) {
            let part = &buf[range];
            let mut chunk = self.chunks[index].write();
            let chunk = chunk.get_or_insert_with(|| vec![0; CHUNK_BYTES].into());
            chunk[start..start + part.len()].copy_from_slice(part);
        }
        Ok(())
    }

    fn flush(&self) -> io::Result<()> {
        Ok(())
    }

    fn discard(&self, offset: u64, length: u64) -> io::Result<()> {
        assert_sectors(offset, length);
        check_range(&self.geometry(), offset, length)
    }

    fn geometry(&self) -> Geometry {
        Geometry { size: self.size, rotational: false, write_through: true }
    }
}

/// Cuts a range of the disk at chunk borders: (chunk, offset in it, range of the caller's buffer).
fn pieces(offset: u64, length: usize) -> impl Iterator<Item = (usize, usize, std::ops::Range<usize>)> {
    let first = usize::try_from(offset).expect("inside a disk that fits in memory");
    let mut done = 0;
    std::iter::from_fn(move || {
        let at = first + done;
        let start = at % CHUNK_BYTES;
        let taken = (CHUNK_BYTES - start).min(length - done);
        let piece = (at / CHUNK_BYTES, start, done..done + taken);
        done += taken;
        (taken > 0).then_some(piece)
    })
}

/// An opener whose paths name disks that a test has put there. It keeps locks as the real one does: a
/// disk opened exclusively is refused to others until the handle is dropped.
#[derive(Default)]
pub struct MemOpener {
    disks: Mutex<BTreeMap<PathBuf, Entry>>,
}

struct Entry {
    disk: Arc<dyn Disk>,
    /// Alive as long as somebody owns the disk.
    owner: std::sync::Weak<()>,
}

impl MemOpener {
    /// Puts a disk at `path`, in place of what was there.
    pub fn put(&self, path: impl Into<PathBuf>, disk: Arc<dyn Disk>) {
        self.disks.lock().insert(path.into(), Entry { disk, owner: std::sync::Weak::new() });
    }

    /// Takes the disk at `path` away, as if its cable had been pulled before the next open.
    pub fn remove(&self, path: &Path) -> Option<Arc<dyn Disk>> {
        self.disks.lock().remove(path).map(|entry| entry.disk)
    }
}

impl Opener for MemOpener {
    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn Disk>> {
        let mut disks = self.disks.lock();
        let entry = disks.get_mut(path).ok_or_else(|| {
            io::Error::new(io::ErrorKind::NotFound, format!("there is nothing at {}", path.display()))
        })?;
        if access == Access::ReadOnly {
            return Ok(Arc::new(OpenedDisk { disk: Arc::clone(&entry.disk), access, _owner: None }));
        }
        if entry.owner.strong_count() > 0 {
            let message = format!("{} is in use by another process", path.display());
            return Err(io::Error::new(io::ErrorKind::WouldBlock, message));
        }
        let owner = Arc::new(());
        entry.owner = Arc::downgrade(&owner);
        Ok(Arc::new(OpenedDisk { disk: Arc::clone(&entry.disk), access, _owner: Some(owner) }))
    }

    fn create(&self, path: &Path, size: u64, _: bool, progress: &mut dyn FnMut(u64) -> bool) -> io::Result<()> {
        if self.disks.lock().contains_key(path) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        if !progress(size) {
            return Err(io::ErrorKind::Interrupted.into());
        }
        self.put(path, Arc::new(MemDisk::new(size)));
        Ok(())
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<PathBuf>> {
        Ok(self.disks.lock().keys().filter(|path| path.parent() == Some(directory)).cloned().collect())
    }
}

/// A disk as one opener sees it; dropping it gives the lock back.
struct OpenedDisk {
    disk: Arc<dyn Disk>,
    access: Access,
    _owner: Option<Arc<()>>,
}

impl Disk for OpenedDisk {
    fn read(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        self.disk.read(offset, buf)
    }

    fn write(&self, offset: u64, buf: &[u8], durability: Durability) -> io::Result<()> {
        if self.access == Access::ReadOnly {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
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

#[cfg(test)]
mod tests;

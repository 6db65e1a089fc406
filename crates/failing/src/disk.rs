//! A file that stands for a disk with a write cache: it knows what it held before whatever is not durable yet.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::{Mutex, MutexGuard};

/// See the module's head.
pub struct Disk {
    file: File,
    /// What was overwritten since the last flush, in that order.
    unflushed: Mutex<Vec<Old>>,
}

struct Old {
    offset: u64,
    bytes: Vec<u8>,
}

impl Disk {
    /// The disk that this file stands for.
    #[must_use]
    pub fn new(file: File) -> Self {
        Self { file, unflushed: Mutex::default() }
    }

    /// Reads; less than asked for at the end.
    pub fn read(&self, offset: u64, length: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; length];
        let mut done = 0;
        while done < length {
            match self.file.read_at(&mut bytes[done..], offset + done as u64)? {
                0 => break,
                count => done += count,
            }
        }
        bytes.truncate(done);
        Ok(bytes)
    }

    /// Writes, into the cache or through it.
    pub fn write(&self, offset: u64, data: &[u8], durable: bool) -> io::Result<()> {
        let mut unflushed = self.lock();
        if durable {
            unflushed.iter_mut().for_each(|old| old.keeps(offset, data));
        } else {
            unflushed.push(Old { offset, bytes: self.read(offset, data.len())? });
        }
        self.file.write_all_at(data, offset)
    }

    /// Empties the cache. This machine keeps its power, so nothing else is done.
    pub fn flush(&self) {
        self.lock().clear();
    }

    /// Loses the cache.
    pub fn lose(&self) -> io::Result<()> {
        self.lock().drain(..).rev().try_for_each(|old| self.file.write_all_at(&old.bytes, old.offset))
    }

    /// Cuts or lengthens the file.
    pub fn resize(&self, size: u64) -> io::Result<()> {
        self.file.set_len(size)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Old>> {
        self.unflushed.lock().expect("no holder of the cache panics")
    }
}

impl Old {
    /// `data` at `offset` is durable: it is there whatever is lost.
    fn keeps(&mut self, offset: u64, data: &[u8]) {
        let end = (self.offset + self.bytes.len() as u64).min(offset + data.len() as u64);
        let start = self.offset.max(offset);
        if start < end {
            let length = (end - start) as usize;
            let (to, from) = ((start - self.offset) as usize, (start - offset) as usize);
            self.bytes[to..to + length].copy_from_slice(&data[from..from + length]);
        }
    }
}

//! Writes a recording, entry by entry.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use super::entry::{ENTRY_BYTES, Entry, FLUSH, FUA, Head, MARK, SECTOR};

/// A recording that grows.
pub(crate) struct Writer {
    file: File,
    entries: u64,
}

impl Writer {
    pub(crate) fn create(path: &Path) -> Result<Self> {
        let file = File::create(path).with_context(|| format!("cannot make {}", path.display()))?;
        let mut writer = Self { file, entries: 0 };
        writer.file.write_all(&writer.head())?;
        Ok(writer)
    }

    pub(crate) fn write(&mut self, sector: u64, data: &[u8], durable: bool) -> Result<()> {
        ensure!(data.len().is_multiple_of(SECTOR), "a write of {} bytes is not whole sectors", data.len());
        let sectors = (data.len() / SECTOR) as u64;
        let entry = Entry { sector, sectors, flags: if durable { FUA } else { 0 }, mark_bytes: 0 };
        self.add(entry, &[], data)
    }

    pub(crate) fn flush(&mut self, sector: u64) -> Result<()> {
        self.add(Entry { sector, flags: FLUSH, ..Entry::default() }, &[], &[])
    }

    /// What stands before a mark is in the file when this returns.
    pub(crate) fn mark(&mut self, text: &str) -> Result<()> {
        ensure!(text.len() <= SECTOR - ENTRY_BYTES, "a mark of {} bytes does not fit its sector", text.len());
        let entry = Entry { flags: MARK, mark_bytes: text.len() as u64, ..Entry::default() };
        self.add(entry, text.as_bytes(), &[])?;
        Ok(self.file.write_all_at(&self.head(), 0)?)
    }

    fn add(&mut self, entry: Entry, mark: &[u8], data: &[u8]) -> Result<()> {
        let mut bytes = entry.encode();
        bytes.extend(mark);
        bytes.resize(SECTOR, 0);
        bytes.extend(data);
        self.file.write_all(&bytes)?;
        self.entries += 1;
        Ok(())
    }

    fn head(&self) -> Vec<u8> {
        Head { entries: self.entries, sector_bytes: SECTOR }.encode()
    }
}

//! Reads a whole recording into memory, and refuses one that says what it cannot stand for.

use std::ops::Range;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};

use super::entry::{DISCARD, ENTRY_BYTES, Entry, FLUSH, FUA, Head, MARK, METADATA};

/// A disk that was recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disk {
    pub name: String,
    pub bytes: u64,
    /// Where it begins in the recording's space of sectors.
    first: u64,
}

/// What happened, in order. Disks are numbered as in [`Recording::disks`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// `durable` when complete: it was written through the cache.
    Write {
        /// The number of its disk.
        disk: usize,
        /// Where, bytes from its beginning.
        offset: u64,
        /// Where in the recording its bytes are.
        data: Range<usize>,
        /// It was written through the cache.
        durable: bool,
    },
    /// Everything that the disk had been told before is durable when this is complete.
    Flush {
        /// The number of its disk.
        disk: usize,
    },
    /// Whoever used the disks said where he was.
    Mark(String),
}

/// A recording, read from its file.
pub struct Recording {
    /// The disks that were recorded.
    pub disks: Vec<Disk>,
    /// What they were told.
    pub events: Vec<Event>,
    bytes: Vec<u8>,
    sector_bytes: usize,
}

impl Recording {
    /// Reads all of it.
    pub fn read(path: &Path) -> Result<Self> {
        let bytes = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        Self::parse(bytes).with_context(|| format!("recording {}", path.display()))
    }

    pub(super) fn parse(bytes: Vec<u8>) -> Result<Self> {
        let head = Head::decode(&bytes)?;
        let mut recording = Self { disks: Vec::new(), events: Vec::new(), bytes, sector_bytes: head.sector_bytes };
        let mut at = head.sector_bytes;
        for number in 0..head.entries {
            at = recording.entry(at).with_context(|| format!("entry {number}"))?;
        }
        Ok(recording)
    }

    /// The bytes of a write.
    pub fn data(&self, range: &Range<usize>) -> &[u8] {
        &self.bytes[range.clone()]
    }

    /// Takes the entry at `at`; gives where the next one begins.
    fn entry(&mut self, at: usize) -> Result<usize> {
        let end = at + self.sector_bytes;
        let sector = self.bytes.get(at..end).context("the recording is cut off")?;
        let entry = Entry::decode(sector)?;
        let known = FLUSH | FUA | MARK | METADATA;
        ensure!(entry.flags & DISCARD == 0, "a discard, after which nobody knows what a disk holds");
        ensure!(entry.flags & !known == 0, "unknown flags {:x}", entry.flags);
        if entry.flags & MARK != 0 {
            let length = usize::try_from(entry.mark_bytes)?;
            let text = sector.get(ENTRY_BYTES..).and_then(|rest| rest.get(..length)).context("a mark too long")?;
            let text = std::str::from_utf8(text)?.to_owned();
            self.mark(text)?;
            return Ok(end);
        }
        ensure!(entry.mark_bytes == 0, "{} bytes that are neither a mark nor a write", entry.mark_bytes);
        // A flush goes ahead of the data that comes with it.
        if entry.flags & FLUSH != 0 {
            let (disk, _) = self.place(entry.sector, 0)?;
            self.events.push(Event::Flush { disk });
        }
        if entry.sectors == 0 {
            return Ok(end);
        }
        let length = usize::try_from(entry.sectors)?.checked_mul(self.sector_bytes).context("a write too long")?;
        let data = end..end.checked_add(length).context("a write too long")?;
        ensure!(data.end <= self.bytes.len(), "the recording is cut off within a write");
        let (disk, offset) = self.place(entry.sector, length as u64)?;
        self.events.push(Event::Write { disk, offset, data: data.clone(), durable: entry.flags & FUA != 0 });
        Ok(data.end)
    }

    fn mark(&mut self, text: String) -> Result<()> {
        let Some(disk) = text.strip_prefix("disk:") else {
            self.events.push(Event::Mark(text));
            return Ok(());
        };
        let [name, first, sectors] = disk.split(':').collect::<Vec<_>>()[..] else { bail!("no disk: {text}") };
        let bytes = |sectors: &str| Ok::<_, anyhow::Error>(sectors.parse::<u64>()? * self.sector_bytes as u64);
        self.disks.push(Disk { name: name.into(), bytes: bytes(sectors)?, first: bytes(first)? });
        Ok(())
    }

    /// Which disk a sector belongs to, and where on it.
    fn place(&self, sector: u64, length: u64) -> Result<(usize, u64)> {
        let at = sector.checked_mul(self.sector_bytes as u64).context("a sector beyond everything")?;
        let holds = |disk: &Disk| {
            at.checked_sub(disk.first)
                .and_then(|offset| offset.checked_add(length))
                .is_some_and(|end| end <= disk.bytes && at < disk.first + disk.bytes)
        };
        let disk = self.disks.iter().position(holds).with_context(|| format!("sector {sector} lies on no disk"))?;
        Ok((disk, at - self.disks[disk].first))
    }
}

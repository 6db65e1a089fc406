//! What disks hold at one moment of a recording, and what the power may leave of it.
//!
//! A disk is what is durable on it and the writes in its cache. A write goes into the cache; a flush of that disk
//! empties it onto the medium; a durable (FUA) write goes to the medium alone, and what the cache holds of the same
//! sectors is older and gone. At a power cut the medium stays, and of every cached write any set of 512-byte sectors
//! may have reached it, in any order.
//!
//! *Any order* needs no case of its own. Where two cached writes overlap, an older one that reaches the medium
//! last leaves the same bytes there as the older one alone, and the newer one's sectors are drawn one by one.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use anyhow::Result;

use super::draw::Draw;
use crate::recording::{Event, Recording};

/// The unit that reaches the medium whole.
pub(super) const SECTOR: usize = 512;
const PAGE: usize = 4096;

/// All disks of a recording, at one moment.
pub(super) struct Media<'a> {
    recording: &'a Recording,
    disks: Vec<Medium<'a>>,
}

#[derive(Default)]
struct Medium<'a> {
    /// Pages that are not all zeroes, by number.
    durable: BTreeMap<u64, Box<[u8; PAGE]>>,
    /// Pieces of writes, the oldest first.
    cached: Vec<Piece<'a>>,
}

/// Some sectors side by side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece<'a> {
    pub(super) disk: usize,
    pub(super) offset: u64,
    pub(super) data: &'a [u8],
}

impl<'a> Media<'a> {
    /// Before the first write: zeroes.
    pub(super) fn new(recording: &'a Recording) -> Self {
        let disks = recording.disks.iter().map(|_| Medium::default()).collect();
        Self { recording, disks }
    }

    /// Goes on to when this is complete.
    pub(super) fn apply(&mut self, event: &Event) {
        match event {
            Event::Write { disk, durable, .. } => {
                let piece = self.piece(event).expect("a write has bytes");
                let medium = &mut self.disks[*disk];
                if *durable {
                    medium.supersede(piece);
                    medium.store(piece);
                } else {
                    medium.cached.push(piece);
                }
            }
            Event::Flush { disk } => {
                let medium = &mut self.disks[*disk];
                let cached = std::mem::take(&mut medium.cached);
                cached.iter().for_each(|piece| medium.store(*piece));
            }
            Event::Mark(_) => {}
        }
    }

    fn piece(&self, event: &Event) -> Option<Piece<'a>> {
        let Event::Write { disk, offset, data, .. } = event else { return None };
        Some(Piece { disk: *disk, offset: *offset, data: self.recording.data(data) })
    }

    /// What the caches hold.
    pub(super) fn cached(&self) -> Vec<Piece<'a>> {
        self.disks.iter().flat_map(|medium| medium.cached.iter().copied()).collect()
    }

    /// What the caches hold, and behind it a write under way.
    pub(super) fn uncertain(&self, under_way: &Event) -> Vec<Piece<'a>> {
        self.cached().into_iter().chain(self.piece(under_way)).collect()
    }

    /// Makes the disks as files, named as in the recording: what is durable, and on top of it `survivors` in order.
    pub(super) fn write(&self, folder: &Path, survivors: &[Piece<'_>]) -> Result<()> {
        for (index, (medium, disk)) in self.disks.iter().zip(&self.recording.disks).enumerate() {
            let file = File::create(folder.join(&disk.name))?;
            file.set_len(disk.bytes)?;
            for (number, page) in &medium.durable {
                file.write_all_at(&page[..], number * PAGE as u64)?;
            }
            for piece in survivors.iter().filter(|piece| piece.disk == index) {
                file.write_all_at(piece.data, piece.offset)?;
            }
        }
        Ok(())
    }
}

impl<'a> Medium<'a> {
    fn store(&mut self, piece: Piece<'_>) {
        let mut offset = usize::try_from(piece.offset).expect("the disk is in memory");
        let mut data = piece.data;
        while !data.is_empty() {
            let within = offset % PAGE;
            let (now, rest) = data.split_at(data.len().min(PAGE - within));
            let number = (offset / PAGE) as u64;
            if now.iter().any(|byte| *byte != 0) || self.durable.contains_key(&number) {
                let page = self.durable.entry(number).or_insert_with(|| Box::new([0; PAGE]));
                page[within..within + now.len()].copy_from_slice(now);
            }
            (offset, data) = (offset + now.len(), rest);
        }
    }

    /// Takes out of the cache what `newer` has written past it.
    fn supersede(&mut self, newer: Piece<'_>) {
        if self.cached.iter().any(|old| old.offset < newer.end() && newer.offset < old.end()) {
            self.cached = self.cached.iter().flat_map(|old| old.without(newer)).collect();
        }
    }
}

impl<'a> Piece<'a> {
    fn end(&self) -> u64 {
        self.offset + self.data.len() as u64
    }

    /// What is left of it before and behind another piece.
    fn without(self, other: Piece<'_>) -> impl Iterator<Item = Piece<'a>> {
        let cut =
            |at: u64| usize::try_from(at.clamp(self.offset, self.end()) - self.offset).expect("a part of a slice");
        let (before, behind) = (cut(other.offset), cut(other.end()).max(cut(other.offset)));
        let part = move |range: std::ops::Range<usize>| Piece {
            offset: self.offset + range.start as u64,
            data: &self.data[range],
            ..self
        };
        [part(0..before), part(behind..self.data.len())].into_iter().filter(|piece| !piece.data.is_empty())
    }

    /// The sectors of it that survive a power cut.
    pub(super) fn survivors(self, draw: &mut Draw) -> Vec<Piece<'a>> {
        let kept = draw.kept(self.data.len() / SECTOR);
        let sectors = self.data.chunks_exact(SECTOR).enumerate().zip(kept);
        sectors
            .filter(|(_, kept)| *kept)
            .map(|((index, data), _)| Piece { offset: self.offset + (index * SECTOR) as u64, data, ..self })
            .collect()
    }
}

#[cfg(test)]
mod tests;

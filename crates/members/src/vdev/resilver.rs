//! Copying a leg: the whole data area from legs that have everything to one that is joining.
//!
//! A joining leg gets every new write already (`Resilvering`), so one pass over the area is enough. Each
//! step reads and writes with writers kept out of the vdev, so that the copy of a moment ago cannot overwrite a
//! write of now. The ring of an intent log is left out: the roster fills it with zeroes before the leg joins, and then
//! the lane brings its own frames there.
//!
//! **Bad sectors.** A step that no leg can read is read again sector by sector, each from whichever leg has it. So bad
//! sectors at different places of two legs cost nothing, and one that nobody can read costs itself and no neighbour.
//! What is left is reported by its place: no leg may be taken away on the strength of a copy that lacks something.
//!
//! **Rot.** Blocks cannot be verified here, as only pointers know their checksums, and what the leg gives whose turn it
//! is may be rotten where another is sound. The pool, which has the pointers, goes over the blocks behind this pass, before
//! the copy counts ([`Vdev::secure`]).

use std::ops::Range;
use std::sync::Arc;

use tally_base::{SECTOR, VdevGuid};
use tally_disk::{AlignedBuf, Turns, aside};

use super::{LegState, Vdev, VdevError, VdevLeg};
use crate::blockdev::{BlockDev, BlockDevError};

/// Copied in one step, with writers kept out: long enough to stream, short enough not to be felt.
const STEP_BYTES: u64 = 1 << 20;

/// Ranges that a report names. More of them say nothing new to a person, and a dying disk may have millions.
const UNREAD_RANGES_MAX: usize = 64;

/// What a copy came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResilverReport {
    /// Bytes written to the joining leg.
    pub copied_bytes: u64,
    /// Bytes that no leg could read: what was there is as lost as it was before.
    pub unreadable_bytes: u64,
    /// Where those are in the data area, in order; the first so many of them.
    pub unread: Vec<Range<u64>>,
}

impl ResilverReport {
    fn note_unread(&mut self, sector: u64) {
        let end = sector + SECTOR as u64;
        self.unreadable_bytes += SECTOR as u64;
        let is_full = self.unread.len() >= UNREAD_RANGES_MAX;
        match self.unread.last_mut() {
            Some(last) if last.end == sector => last.end = end,
            _ if is_full => {}
            _ => self.unread.push(sector..end),
        }
    }
}

/// A copy that is under way.
struct Copying<'a> {
    vdev: &'a Vdev,
    target: Arc<VdevLeg>,
    report: ResilverReport,
    /// Of all legs: one is read, and one written.
    turns: Turns,
    progress: &'a mut dyn FnMut(u64) -> bool,
}

impl Vdev {
    /// Copies the data area to a leg in state `Resilvering`, and flushes it. The leg stays in that state: the roster puts
    /// it online once the labels say so. `progress` hears of bytes done, and ends the copy by answering `false`.
    pub fn resilver(
        &self,
        leg: VdevGuid,
        progress: &mut dyn FnMut(u64) -> bool,
    ) -> Result<ResilverReport, BlockDevError> {
        let target = self.leg(leg).ok_or_else(|| self.no_such_leg(leg, "belongs to it"))?;
        // One that hangs owes an answer for ever, and nobody waits for it.
        let legs: Vec<_> = self.legs().into_iter().filter(|leg| leg.takes_writes()).collect();
        let turns = Turns::on_all(legs.iter().filter_map(|leg| Some(leg.disk()?.turns())));
        let mut copying = Copying { vdev: self, target, report: ResilverReport::default(), turns, progress };
        let data_bytes = self.data_bytes();
        let ring = self.ring.map_or(data_bytes..data_bytes, |ring| ring.start..ring.start.saturating_add(ring.length));
        let mut done = 0;
        while done < data_bytes {
            if ring.contains(&done) {
                done = ring.end;
                continue;
            }
            let border = if done < ring.start { ring.start } else { data_bytes };
            let length = self.take_turn(&copying.turns).of(STEP_BYTES).min(border - done);
            copying.step(done, length)?;
            done += length;
        }
        self.flush_leg(&copying.target)?;
        Ok(copying.report)
    }

    fn no_such_leg(&self, leg: VdevGuid, wanted: &'static str) -> BlockDevError {
        VdevError::NoSuchLeg { vdev: self.guid, leg, wanted }.into()
    }

    /// Flushes one leg, whoever else has just done so: nothing that counts from here on rests on another flush's account.
    pub(super) fn flush_leg(&self, leg: &VdevLeg) -> Result<(), BlockDevError> {
        leg.flush_always().or_else(|error| {
            self.strike_off(leg, &error)?;
            Err(error.into())
        })
    }
}

impl Copying<'_> {
    fn step(&mut self, offset: u64, length: u64) -> Result<(), BlockDevError> {
        if self.copy(offset, length)? {
            self.report.copied_bytes += length;
            return self.tell(offset + length);
        }
        for sector in (offset..offset + length).step_by(SECTOR) {
            if self.copy(sector, SECTOR as u64)? {
                self.report.copied_bytes += SECTOR as u64;
            } else {
                self.report.note_unread(sector);
            }
            // A bad sector can take a disk many seconds: whoever wants to stop the copy need not wait for all of them.
            self.tell(sector + SECTOR as u64)?;
        }
        Ok(())
    }

    fn tell(&mut self, done: u64) -> Result<(), BlockDevError> {
        let goes_on = (self.progress)(done);
        if goes_on { Ok(()) } else { Err(self.not("is still wanted: the copy was stopped")) }
    }

    fn not(&self, wanted: &'static str) -> BlockDevError {
        self.vdev.no_such_leg(self.target.guid(), wanted)
    }

    /// Copies a range from the first leg that can read all of it; `false` if there is none.
    fn copy(&self, offset: u64, length: u64) -> Result<bool, BlockDevError> {
        if self.target.state() != LegState::Resilvering {
            return Err(self.not("is being copied"));
        }
        let mut buf = AlignedBuf::zeroed(usize::try_from(length).expect("at most one step"));
        let written = {
            let _alone = self.vdev.repair.write();
            let sources = self.vdev.readable(offset, 0).legs;
            if sources.is_empty() {
                return Err(VdevError::NoLeg { vdev: self.vdev.guid, last: None }.into());
            }
            if !sources.iter().any(|source| aside(|| source.read_data(offset, &mut buf)).is_ok()) {
                return Ok(false);
            }
            aside(|| self.target.write_data(offset, &buf))
        };
        if let Err(error) = written {
            self.vdev.strike_off(&self.target, &error)?;
            return Err(error.into());
        }
        Ok(true)
    }
}

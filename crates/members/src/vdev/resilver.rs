//! Copying places of the data area as they are, from legs that have everything to one that is joining.
//!
//! A joining leg gets every new write already (`Resilvering`), and what the newest group names is brought to it block by block
//! ([`Vdev::bring`]). What no pointer leads to is copied here; whoever knows the space says what that is, range by range
//! (docs/design/0060). Each step reads and writes with writers kept out of the vdev, so that the copy of a moment ago cannot overwrite a
//! write of now. The ring of an intent log is left out: the roster sees to it before the leg joins, and then
//! the lane brings its own frames there.
//!
//! **Holes.** A step reads through short ones, as a disk that turns is there sooner than at another request, and writes what is
//! in use and nothing else.
//!
//! **Bad sectors.** A step that no leg can read is read again sector by sector, each from whichever leg has it. So bad
//! sectors at different places of two legs cost nothing, and one that nobody can read costs itself and no neighbour.
//! What is left is reported by its place: no leg may be taken away on the strength of a copy that lacks something.
//!
//! **Several copies.** Two disks that join one vdev have a copy each. Their steps take turns, one after the other, and wait for
//! clients as one would ([`CopyTurns`]): both together have the share of one, however many there are.
//!
//! **Rot.** Blocks cannot be verified here, as only pointers know their checksums, and what the leg gives whose turn it
//! is may be rotten where another is sound. So whatever a pointer leads to is brought behind this, or instead of it.

use std::ops::Range;
use std::sync::{Arc, Weak};

use parking_lot::MutexGuard;
use tally_base::{SECTOR, VdevGuid};
use tally_disk::{AlignedBuf, Turn, Turns, aside};

use super::{LegState, Vdev, VdevError, VdevLeg};
use crate::blockdev::BlockDevError;

/// Copied in one step, with writers kept out: long enough to stream, short enough not to be felt.
const STEP_BYTES: u64 = 1 << 20;

/// A hole up to this length is read along: a disk that turns is over it in the time of a request, or less.
const HOLE_BYTES_MAX: u64 = 64 << 10;

/// Each is a write, and writers wait for all of a step.
const RANGES_PER_STEP_MAX: usize = 16;
/// The same while clients are at work: each of them may be in one of the writes that wait.
const RANGES_PER_PIECE_MAX: usize = 4;

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
    /// This one, and what came of the rest of the copy.
    #[must_use]
    pub fn followed_by(&self, rest: &Self) -> Self {
        let unread = self.unread.iter().chain(&rest.unread).take(UNREAD_RANGES_MAX);
        Self {
            copied_bytes: self.copied_bytes.saturating_add(rest.copied_bytes),
            unreadable_bytes: self.unreadable_bytes.saturating_add(rest.unreadable_bytes),
            unread: unread.cloned().collect(),
        }
    }

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

/// The turns of all copies to one vdev, on all legs that are there: one is read, and one written. Held for a step.
#[derive(Default)]
pub(super) struct CopyTurns {
    /// Nobody keeps a leg's disk open that has left.
    legs: Vec<Weak<VdevLeg>>,
    turns: Option<Turns>,
}

impl CopyTurns {
    /// On these legs; the turns are others when the legs are.
    fn on(&mut self, legs: &[Arc<VdevLeg>]) -> &Turns {
        let legs: Vec<_> = legs.iter().map(Arc::downgrade).collect();
        let is_same =
            self.legs.len() == legs.len() && self.legs.iter().zip(&legs).all(|(one, other)| one.ptr_eq(other));
        if !is_same {
            self.turns = None;
            self.legs = legs;
        }
        let legs = &self.legs;
        self.turns.get_or_insert_with(|| {
            let disks: Vec<_> = legs.iter().filter_map(|leg| leg.upgrade()?.disk().cloned()).collect();
            Turns::on_all(disks.iter().map(|disk| disk.turns()))
        })
    }
}

/// A copy that is under way.
struct Copying<'a> {
    vdev: &'a Vdev,
    target: Arc<VdevLeg>,
    report: ResilverReport,
    progress: &'a mut dyn FnMut(u64) -> bool,
}

/// What is still to be copied, in order.
struct Queue<'a> {
    ranges: &'a mut dyn Iterator<Item = Range<u64>>,
    /// What is left of the last one that was asked for.
    rest: Range<u64>,
}

impl Queue<'_> {
    /// What is copied in one step, with the holes in between. Nothing: all was.
    fn next(&mut self, turn: Turn) -> Vec<Range<u64>> {
        let bytes_max = turn.of(STEP_BYTES);
        let ranges_max = if turn == Turn::Whole { RANGES_PER_STEP_MAX } else { RANGES_PER_PIECE_MAX };
        let mut step: Vec<Range<u64>> = Vec::new();
        loop {
            while self.rest.is_empty() {
                let Some(range) = self.ranges.next() else { return step };
                self.rest = range;
            }
            let (first, end) = step
                .first()
                .zip(step.last())
                .map_or((self.rest.start, self.rest.start), |(first, last)| (first.start, last.end));
            let border = first.saturating_add(bytes_max);
            let is_far = self.rest.start.saturating_sub(end) > HOLE_BYTES_MAX || self.rest.start >= border;
            if is_far || step.len() >= ranges_max {
                return step;
            }
            let part = self.rest.start..self.rest.end.min(border);
            self.rest.start = part.end;
            step.push(part);
        }
    }
}

impl Vdev {
    /// Copies `ranges` of the data area to a leg in state `Resilvering`, and flushes it. The leg stays in that state: the
    /// roster puts it online once the labels say so. The ranges are whole sectors, in order, and each is asked for when the copy has come
    /// there. `progress` hears of bytes that were copied, or could not be, and ends the copy by answering `false`.
    pub fn resilver(
        &self,
        leg: VdevGuid,
        ranges: &mut dyn Iterator<Item = Range<u64>>,
        progress: &mut dyn FnMut(u64) -> bool,
    ) -> Result<ResilverReport, BlockDevError> {
        let target = self.leg(leg).ok_or_else(|| self.no_such_leg(leg, "belongs to it"))?;
        let ring = self.ring.map_or(0..0, |ring| ring.start..ring.start.saturating_add(ring.length));
        let mut without_ring =
            ranges.flat_map(|range| [range.start..range.end.min(ring.start), range.start.max(ring.end)..range.end]);
        let mut queue = Queue { ranges: &mut without_ring, rest: 0..0 };
        let mut copying = Copying { vdev: self, target, report: ResilverReport::default(), progress };
        loop {
            let (turn, of_all_copies) = self.turn_of_copies(false);
            let step = queue.next(turn);
            if step.is_empty() {
                break;
            }
            let is_copied = copying.copy(&step)?;
            // The next one is another copy's, if there is one.
            MutexGuard::unlock_fair(of_all_copies);
            copying.note(&step, is_copied)?;
        }
        self.flush_leg(&copying.target)?;
        Ok(copying.report)
    }

    /// The next turn of a copy to this vdev; while what comes with it is held no other copy has one. A copy that `holds` blocks hurries where
    /// other walks do.
    pub(super) fn turn_of_copies(&self, holds: bool) -> (Turn, MutexGuard<'_, CopyTurns>) {
        let mut of_all_copies = self.copies.lock();
        // One that hangs owes an answer for ever, and nobody waits for it.
        let legs: Vec<_> = self.legs().into_iter().filter(|leg| leg.takes_writes()).collect();
        let turn = self.take_turn_of_copy(of_all_copies.on(&legs), holds);
        (turn, of_all_copies)
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
    /// Tells of a step, and reads what no leg gave in one piece sector by sector.
    fn note(&mut self, ranges: &[Range<u64>], is_copied: bool) -> Result<(), BlockDevError> {
        if is_copied {
            self.report.copied_bytes += ranges.iter().map(|range| range.end - range.start).sum::<u64>();
            return self.tell();
        }
        for sector in ranges.iter().flat_map(|range| range.clone().step_by(SECTOR)) {
            let sector = sector..sector + SECTOR as u64;
            if self.copy(std::slice::from_ref(&sector))? {
                self.report.copied_bytes += SECTOR as u64;
            } else {
                self.report.note_unread(sector.start);
            }
            // A bad sector can take a disk many seconds: whoever wants to stop the copy need not wait for all of them.
            self.tell()?;
        }
        Ok(())
    }

    fn tell(&mut self) -> Result<(), BlockDevError> {
        let goes_on = (self.progress)(self.report.copied_bytes + self.report.unreadable_bytes);
        if goes_on { Ok(()) } else { Err(self.not("is still wanted: the copy was stopped")) }
    }

    fn not(&self, wanted: &'static str) -> BlockDevError {
        self.vdev.no_such_leg(self.target.guid(), wanted)
    }

    /// Copies ranges that lie close together from the first leg that can read all of them, with the holes in between; `false` if
    /// there is none.
    fn copy(&self, ranges: &[Range<u64>]) -> Result<bool, BlockDevError> {
        let Some((first, last)) = ranges.first().zip(ranges.last()) else { return Ok(true) };
        if self.target.state() != LegState::Resilvering {
            return Err(self.not("is being copied"));
        }
        let (start, length) = (first.start, last.end - first.start);
        self.vdev.check(start, length)?;
        let mut buf = AlignedBuf::zeroed(usize::try_from(length).expect("at most one step"));
        let written = {
            let _alone = self.vdev.writers.alone(start..start + length);
            let sources = self.vdev.readable(start, 0).legs;
            if sources.is_empty() {
                return Err(VdevError::NoLeg { vdev: self.vdev.guid, last: None }.into());
            }
            if !sources.iter().any(|source| aside(|| source.read_data(start, &mut buf)).is_ok()) {
                return Ok(false);
            }
            let place = |range: &Range<u64>| (range.start - start) as usize..(range.end - start) as usize;
            aside(|| ranges.iter().try_for_each(|range| self.target.write_data(range.start, &buf[place(range)])))
        };
        if let Err(error) = written {
            self.vdev.strike_off(&self.target, &error)?;
            return Err(error.into());
        }
        Ok(true)
    }
}

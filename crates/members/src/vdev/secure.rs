//! Making sure of a range before a leg counts, or before one leaves: that the legs which are to keep it have it right.
//!
//! A copy takes what it is given, and legs rot apart from each other. So whoever knows how the bytes must be asks here,
//! range by range, and what the keepers lack is given to them by any leg that has it; or by the caller, where no leg has
//! and there is a second copy elsewhere.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tally_base::VdevGuid;
use tally_disk::{AlignedBuf, Share, Turn, aside};

use super::{LegState, Vdev, VdevError, VdevLeg};
use crate::blockdev::BlockDevError;

/// How a range stands with the legs that are to keep it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Secured {
    /// Each of them had it.
    Sound,
    /// Those that lacked it are joining; now each that is left has it.
    Given,
    /// A leg that counts had it wrong, or could not read it; now that one has it, if it is left, and so has each of the keepers.
    Repaired,
    /// No leg has it.
    Lost {
        /// Whether some leg outside the keepers could not be read, so that what it has there is not known; or any leg has it, and
        /// the last keeper refuses it.
        unread: bool,
    },
}

/// What has come of giving a range to legs that lack it.
enum Given {
    /// One of them took it at least; the others were struck off.
    Taken,
    /// All of them refused it and were struck off, or the last one did, which stays.
    Refused,
    /// Whoever was to give it does not have it, or could not be read.
    Nothing { is_read: bool },
}

impl Vdev {
    /// Sees to it that each of `keepers` has a range for which `is_right` is true: one alone would be the next that
    /// fails. They may be joining ones.
    pub fn secure(
        &self,
        offset: u64,
        length: usize,
        is_right: &dyn Fn(&[u8]) -> bool,
        keepers: &[VdevGuid],
    ) -> Result<Secured, BlockDevError> {
        self.secure_those(offset, length, is_right, (keepers, true))
    }

    /// The same of a leg that joins and has missed the range: it is given it whatever can be read there, as it may have refused it (rules S57).
    pub fn secure_missed(
        &self,
        offset: u64,
        length: usize,
        is_right: &dyn Fn(&[u8]) -> bool,
        joining: VdevGuid,
    ) -> Result<Secured, BlockDevError> {
        self.secure_those(offset, length, is_right, (&[joining], false))
    }

    fn secure_those(
        &self,
        offset: u64,
        length: usize,
        is_right: &dyn Fn(&[u8]) -> bool,
        (keepers, are_believed): (&[VdevGuid], bool),
    ) -> Result<Secured, BlockDevError> {
        self.check(offset, length as u64)?;
        let is_keeper = |leg: &Arc<VdevLeg>| keepers.contains(&leg.guid());
        let (mut keepers, mut others): (Vec<_>, Vec<_>) = self.legs().into_iter().partition(is_keeper);
        keepers.retain(|leg| leg.takes_writes());
        // One that was struck off may be the only one that has it right: the checksum tells.
        others.retain(|leg| leg.disk().is_some());
        // As for any read: what was brought and was wrong came from the first of them.
        let order: Vec<_> = self.readable(offset, length).legs.iter().map(|leg| leg.guid()).collect();
        others.sort_by_key(|leg| order.iter().position(|guid| *guid == leg.guid()).unwrap_or(usize::MAX));
        if keepers.is_empty() {
            return Err(VdevError::NoLeg { vdev: self.guid, last: None }.into());
        }
        let mut buf = AlignedBuf::zeroed(length);
        let mut has = |leg: &Arc<VdevLeg>| {
            if let Some(disk) = leg.disk() {
                self.take_turn(disk.turns(), leg.share());
            }
            aside(|| leg.has(offset, &mut buf, is_right)).unwrap_or(false)
        };
        // Behind the read: what was refused meanwhile was read, too.
        let is_believed = |leg: &Arc<VdevLeg>| are_believed && !leg.refused.has(offset, length);
        let (good, lacking): (Vec<_>, Vec<_>) =
            keepers.into_iter().partition(|leg| are_believed && has(leg) && is_believed(leg));
        if lacking.is_empty() {
            return Ok(Secured::Sound);
        }
        let is_damage = lacking.iter().any(|leg| leg.state() == LegState::Online);
        let (mut unread, mut wrong) = (false, Vec::new());
        // Who is not believed may be the only one that has it.
        let doubtful: Vec<_> = lacking.iter().filter(|leg| !is_believed(leg)).cloned().collect();
        for leg in good.iter().chain(&others).chain(&doubtful) {
            // Its own writes are nobody's for whom a walk would wait.
            match aside(|| self.give(leg, &lacking, offset, &mut buf, is_right))? {
                Given::Taken => {
                    // Who counts and did not have it needs it as much as whoever joins.
                    let mut mend = || aside(|| self.give(leg, &wrong, offset, &mut buf, is_right));
                    let is_mended = !wrong.is_empty() && matches!(mend()?, Given::Taken);
                    return Ok(if is_damage || is_mended { Secured::Repaired } else { Secured::Given });
                }
                // Nobody who has it may leave on the strength of this.
                Given::Refused if lacking.iter().any(|leg| leg.takes_writes()) => {
                    return Ok(Secured::Lost { unread: true });
                }
                // They were struck off, and are no keepers any more.
                Given::Refused if !good.is_empty() => return Ok(Secured::Sound),
                Given::Refused => return Err(VdevError::NoLeg { vdev: self.guid, last: None }.into()),
                // What a joining leg has it was given by the others.
                Given::Nothing { is_read } => {
                    unread |= !is_read && leg.state() != LegState::Resilvering;
                    wrong.extend(Some(leg).filter(|leg| leg.state() == LegState::Online).cloned());
                }
            }
        }
        Ok(Secured::Lost { unread })
    }

    /// Whether a leg that takes writes has a range for which `is_right` is true: for whoever asks [`Self::secure`] about each
    /// part of a range that is not right as a whole. Nothing is counted. It waits its turn, and reads piece by piece beside others (rules P4).
    #[must_use]
    pub fn leg_has(&self, leg: VdevGuid, offset: u64, length: usize, is_right: &dyn Fn(&[u8]) -> bool) -> bool {
        let Some(leg) = self.leg(leg).filter(|leg| leg.takes_writes()) else { return false };
        let (Some(disk), Ok(())) = (leg.disk(), self.check(offset, length as u64)) else { return false };
        let (mut buf, mut done) = (AlignedBuf::zeroed(length), 0);
        while done < length {
            let until = done + self.take_turn(disk.turns(), leg.share()).of((length - done) as u64) as usize;
            if aside(|| leg.read_data(offset + done as u64, &mut buf[done..until])).is_err() {
                return false;
            }
            done = until;
        }
        is_right(&buf) && !leg.refused.has(offset, length)
    }

    /// Gives a leg that joins a range as the first leg that counts has it, read once and verified on the way: beside others piece by
    /// piece, as a copy does. `false` where it has not got all of it, which [`Self::secure`] then goes about block by block:
    /// that leg has it wrong, or somebody has written there meanwhile.
    pub fn bring(
        &self,
        leg: VdevGuid,
        offset: u64,
        length: usize,
        is_right: &dyn Fn(&[u8]) -> bool,
    ) -> Result<bool, BlockDevError> {
        let range = offset..offset + length as u64;
        self.check(offset, length as u64)?;
        self.may_write()?;
        let is_joining = |leg: &Arc<VdevLeg>| leg.state() == LegState::Resilvering;
        let Some(target) = self.leg(leg).filter(is_joining) else { return Ok(false) };
        let Some(source) = self.readable(offset, length).legs.into_iter().next() else { return Ok(false) };
        let (watch, mut bytes) = (self.writers.watch(range), AlignedBuf::zeroed(length));
        let is_read = self.by_pieces(length, &mut |piece| {
            Ok(aside(|| source.read_data(offset + piece.start as u64, &mut bytes[piece])).is_ok())
        });
        if !is_read? || !is_right(&bytes) {
            return Ok(false);
        }
        self.by_pieces(length, &mut |piece| {
            let write = || aside(|| target.write_data(offset + piece.start as u64, &bytes[piece]));
            match watch.alone(|is_touched| (!is_touched).then(write)) {
                Some(Err(error)) => self.strike_off(&target, &error).map_err(Into::into).and(Err(error.into())),
                written => Ok(written.is_some()),
            }
        })
    }

    /// Does something by the turns of the copies to this vdev, for as long as it succeeds. Several at once where nobody else wants anything, and
    /// else one after the other; and at once where what walks hold is needed.
    fn by_pieces(
        &self,
        length: usize,
        work: &mut dyn FnMut(Range<usize>) -> Result<bool, BlockDevError>,
    ) -> Result<bool, BlockDevError> {
        let mut done = 0;
        while done < length {
            let (turn, alone) = self.turn_of_copies(true);
            let until = done + turn.of((length - done) as u64) as usize;
            let alone = (turn == Turn::Piece).then_some(alone);
            let goes_on = work(done..until)?;
            drop(alone);
            if !goes_on {
                return Ok(false);
            }
            done = until;
        }
        Ok(true)
    }

    /// Writes to each of `keepers` that takes writes what no leg here has right, and another vdev, or another place on this
    /// one, has. Whether each that is left took it.
    pub fn restore(&self, offset: u64, bytes: &AlignedBuf, keepers: &[VdevGuid]) -> Result<bool, BlockDevError> {
        self.check(offset, bytes.len() as u64)?;
        self.may_write()?;
        let mut legs = self.legs();
        legs.retain(|leg| keepers.contains(&leg.guid()) && leg.takes_writes());
        let _alone = self.writers.alone(offset..offset + bytes.len() as u64);
        aside(|| self.hand_out(&legs, None, offset, bytes))
    }

    /// Makes what was given to these legs durable. One that refuses is struck off, as where it refuses a write, and the others
    /// have everything: an error if it cannot be, or if none of them is left.
    pub fn flush_legs(&self, guids: &[VdevGuid]) -> Result<(), BlockDevError> {
        let legs = self.legs();
        let (mut is_kept, mut refused) = (false, None);
        for leg in legs.iter().filter(|leg| guids.contains(&leg.guid()) && leg.takes_writes()) {
            match aside(|| self.flush_leg(leg)) {
                Ok(()) => is_kept = true,
                Err(error) if leg.takes_writes() => return Err(error),
                Err(error) => refused = Some(error),
            }
        }
        match refused {
            _ if is_kept || guids.is_empty() => Ok(()),
            Some(error) => Err(error),
            // They were struck off before.
            None => Err(VdevError::NoLeg { vdev: self.guid, last: None }.into()),
        }
    }

    /// Makes what a leg that joins was given durable. Whether it has come so far: one that refuses is struck off.
    pub fn flush_joining(&self, guid: VdevGuid) -> bool {
        let joins = |leg: &Arc<VdevLeg>| leg.state() == LegState::Resilvering;
        // Behind the flush once more: a disk that has failed meanwhile may have lost what it had before.
        self.leg(guid).filter(joins).is_some_and(|leg| aside(|| self.flush_leg(&leg)).is_ok() && joins(&leg))
    }

    /// Writes to keepers that lack it what `good` has, looked at with writers kept out (rules S5).
    fn give(
        &self,
        good: &VdevLeg,
        lacking: &[Arc<VdevLeg>],
        offset: u64,
        buf: &mut AlignedBuf,
        is_right: &dyn Fn(&[u8]) -> bool,
    ) -> Result<Given, BlockDevError> {
        self.may_write()?;
        let _alone = self.writers.alone(offset..offset + buf.len() as u64);
        match good.has(offset, buf, is_right) {
            Ok(true) => {}
            other => return Ok(Given::Nothing { is_read: other.is_ok() }),
        }
        let is_taken = self.hand_out(lacking, Some(good), offset, buf)?;
        Ok(if is_taken { Given::Taken } else { Given::Refused })
    }

    /// Writes to these legs, with other writers kept out by the caller; to the one that it was read from at the end. Those that refuse it are struck off, but for
    /// the last one: nothing rests on what it was to be given, and the pool would end with it; nor is the one from which it was read, where nobody
    /// else has taken it. Whether all took it that are left.
    fn hand_out(
        &self,
        legs: &[Arc<VdevLeg>],
        from: Option<&VdevLeg>,
        offset: u64,
        bytes: &AlignedBuf,
    ) -> Result<bool, BlockDevError> {
        let (mut is_taken, mut is_refused) = (false, false);
        let (itself, others): (Vec<_>, Vec<_>) =
            legs.iter().partition(|leg| from.is_some_and(|from| from.guid() == leg.guid()));
        for leg in others.into_iter().chain(itself.iter().copied()) {
            let is_itself = itself.iter().any(|other| Arc::ptr_eq(other, leg));
            let is_last = self.is_last(leg) || is_itself && !is_taken && leg.state() == LegState::Online;
            if is_last {
                // Before it can be read; a write that is taken takes it off again.
                leg.refused.note(offset, bytes.len());
            }
            match leg.write_data(offset, bytes) {
                Ok(()) => {
                    // A joining leg had it never, and is no disk that went wrong.
                    leg.repaired.fetch_add(u64::from(leg.state() == LegState::Online), Ordering::Relaxed);
                    is_taken = true;
                }
                Err(error) if is_last || self.is_last(leg) => {
                    is_refused = true;
                    leg.refused.note(offset, bytes.len());
                    tracing::error!(vdev = %self.guid, leg = %leg.guid(), offset, %error, "the only disk cannot be repaired");
                }
                Err(error) => self.strike_off(leg, &error)?,
            }
        }
        Ok(is_taken && !is_refused)
    }

    /// Whether a leg counts and no other one does.
    fn is_last(&self, leg: &VdevLeg) -> bool {
        let mut online = self.legs().into_iter().filter(|leg| leg.state() == LegState::Online);
        online.next().is_some_and(|first| first.guid() == leg.guid()) && online.next().is_none()
    }
}

impl VdevLeg {
    /// Who looks at a leg that joins is its copy, and in a hurry.
    fn share(&self) -> Share {
        if self.state() == LegState::Resilvering { Share::Quarter } else { Share::Fiftieth }
    }

    /// Whether it has the right bytes; an error if it cannot be read. What a joining leg has wrong was copied wrong, and
    /// is no error of its disk.
    fn has(&self, offset: u64, buf: &mut AlignedBuf, is_right: &dyn Fn(&[u8]) -> bool) -> std::io::Result<bool> {
        self.read_data(offset, buf)?;
        let right = is_right(buf);
        if !right && self.state() == LegState::Online {
            self.checksum_errors.fetch_add(1, Ordering::Relaxed);
        }
        Ok(right)
    }
}

//! Making sure of a range before a leg counts, or before one leaves: that the legs which are to keep it have it right.
//!
//! A copy takes what it is given, and legs rot apart from each other. So whoever knows how the bytes must be asks here,
//! range by range, and what the keepers lack is given to them by any leg that has it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tally_base::VdevGuid;
use tally_disk::AlignedBuf;

use super::{LegState, Vdev, VdevError, VdevLeg};
use crate::blockdev::BlockDevError;

/// How a range stands with the legs that are to keep it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Secured {
    /// One of them had it.
    Sound,
    /// None of them had it; now all of them do.
    Repaired,
    /// No leg has it.
    Lost {
        /// Whether some leg outside the keepers could not be read: what it has there is not known.
        unread: bool,
    },
}

impl Vdev {
    /// Sees to it that one of `keepers` has a range for which `is_right` is true. They may be joining ones.
    pub fn secure(
        &self,
        offset: u64,
        length: usize,
        is_right: &dyn Fn(&[u8]) -> bool,
        keepers: &[VdevGuid],
    ) -> Result<Secured, BlockDevError> {
        self.check(offset, length as u64)?;
        let is_keeper = |leg: &Arc<VdevLeg>| keepers.contains(&leg.guid());
        let (mut keepers, mut others): (Vec<_>, Vec<_>) = self.legs().into_iter().partition(is_keeper);
        keepers.retain(|leg| leg.takes_writes());
        // One that was struck off may be the only one that has it right: the checksum tells.
        others.retain(|leg| leg.disk().is_some());
        if keepers.is_empty() {
            return Err(VdevError::NoLeg { vdev: self.guid, last: None }.into());
        }
        let mut buf = AlignedBuf::zeroed(length);
        if keepers.iter().any(|leg| leg.has(offset, &mut buf, is_right).unwrap_or(false)) {
            return Ok(Secured::Sound);
        }
        let mut unread = false;
        for leg in &others {
            match leg.has(offset, &mut buf, is_right) {
                Ok(true) => return self.give(leg, &keepers, offset, &mut buf, is_right),
                Ok(false) => {}
                // What a joining leg has it was given by the others.
                Err(_) => unread |= leg.state() != LegState::Resilvering,
            }
        }
        Ok(Secured::Lost { unread })
    }

    /// Makes what was given to these legs durable.
    pub fn flush_legs(&self, guids: &[VdevGuid]) -> Result<(), BlockDevError> {
        let legs = self.legs();
        let mut written = legs.iter().filter(|leg| guids.contains(&leg.guid()) && leg.takes_writes());
        written.try_for_each(|leg| self.flush_leg(leg))
    }

    /// Writes to the keepers what `good` has, after a second look at it with writers kept out.
    fn give(
        &self,
        good: &VdevLeg,
        keepers: &[Arc<VdevLeg>],
        offset: u64,
        buf: &mut AlignedBuf,
        is_right: &dyn Fn(&[u8]) -> bool,
    ) -> Result<Secured, BlockDevError> {
        self.may_write()?;
        let _alone = self.repair.write();
        match good.has(offset, buf, is_right) {
            Ok(true) => {}
            other => return Ok(Secured::Lost { unread: other.is_err() }),
        }
        let mut outcome = Err(VdevError::NoLeg { vdev: self.guid, last: None }.into());
        for leg in keepers {
            match leg.write_data(offset, buf) {
                Ok(()) => {
                    // A joining leg had it never, and is no disk that went wrong.
                    leg.repaired.fetch_add(u64::from(leg.state() == LegState::Online), Ordering::Relaxed);
                    outcome = Ok(Secured::Repaired);
                }
                Err(error) => self.strike_off(leg, &error)?,
            }
        }
        outcome
    }
}

impl VdevLeg {
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

//! A top-level vdev: one leg, or several that all hold the same.
//!
//! The problem: a mirror is worth having only if one bad leg never shows. So a read has to know which leg is
//! right, and a write that one leg refused must never be believed on the strength of the others before it is
//! certain that the refusing leg will not be believed either.
//!
//! The idea for reads: the caller brings the check along (only the block pointer knows the checksum), and legs
//! are tried until one passes; then those that did not are written again from it. The repair keeps all
//! writers out and looks a second time under it, so that it cannot undo a write that came between.
//!
//! The idea for writes: a leg that fails is struck off in the labels of the others before the write (or the
//! flush) returns success: [`Membership::leg_failed`] does that, is idempotent, and blocks until it is durable.
//! A leg between failure and strike is `Failing`; whoever meets one calls the same door and so waits for the
//! same strike. Without it an import that finds only the failed leg would take its old content for the newest.
//!
//! Data offsets count from the start of the data area, behind the first label.
//!
//! **Locks.** `legs` is held for copying the list only. `writers` is shared by writes and taken alone by repairs and by
//! what a copy writes; the membership's own lock comes after it. What a leg has refused, and was given, is noted last.

mod given;
mod leg;
mod pace;
mod patience;
mod read;
mod refused;
mod resilver;
mod secure;
mod writers;

use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};

use parking_lot::{Mutex, RwLock};
use tally_base::{Clock, SECTOR, Txg, VdevGuid, VdevIndex};
use tally_disk::{AlignedBuf, Disk, Durability, Fanout, IoKind, Share, Turn, Turns, Work};

pub(crate) use leg::write_out_ring;
pub use leg::{LegErrors, LegState, VdevLeg};
pub use pace::Late;
use resilver::CopyTurns;
pub use resilver::ResilverReport;
pub use secure::Secured;

use self::pace::{Order, lateness};
use self::read::{Asking, read_quietly};
use self::writers::Writers;
use crate::blockdev::{BlockDev, BlockDevError, probes};
use crate::label::{HangLimit, LABEL_BYTES, RingArea, VdevClass, VdevConfig};

/// Neighbouring reads within this many bytes go to the same leg, so that a sequential reader keeps one disk streaming
/// and not all of them seeking.
const READ_STRIPE_BYTES: u64 = 1 << 20;

/// From this size on the legs of a mirror are written at the same time: below it a thread costs more than it saves.
const PARALLEL_WRITE_BYTES_MIN: usize = 128 << 10;

/// What has come of asking several legs.
type Outcomes = Vec<(Arc<VdevLeg>, io::Result<()>)>;

/// Who decides which legs belong to the pool, and makes it durable.
pub trait Membership: Send + Sync {
    /// Strikes a leg off in the labels of the others; returns when that is durable, or says why it cannot be. Calling
    /// it again for the same leg does nothing and returns the same.
    fn leg_failed(&self, leg: VdevGuid, cause: &io::Error) -> Result<(), String>;

    /// Who carries out something on several legs, at the same time if the pool has threads for it.
    fn fanout(&self) -> Arc<dyn Fanout>;

    /// By which whoever walks over a leg waits for his turn.
    fn clock(&self) -> Arc<dyn Clock>;

    /// Whether walks wait for no turn now: what they hold is needed.
    fn walks_hurry(&self) -> bool {
        false
    }

    /// After how long a leg that hangs is left.
    fn hang_limit(&self) -> HangLimit;

    /// Whether a leg of which an answer has been due for so long may be left: the others have everything. If so it is
    /// `Failing` when this returns, and the next one that is asked about is told so. Waits for no disk.
    fn may_leave(&self, leg: &VdevLeg) -> bool;

    /// Whether the pool may be written: it was claimed, and nothing has suspended it since (I7).
    fn may_write(&self) -> bool;
}

/// Why a vdev could not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum VdevError {
    /// No leg is left that may be used.
    #[error("vdev {vdev} has no usable leg left: {}", last.as_deref().unwrap_or("all are missing or stale"))]
    NoLeg {
        /// Which vdev.
        vdev: VdevGuid,
        /// What the last one said.
        last: Option<String>,
    },
    /// A leg failed and could not be struck off, so nothing may rest on the others.
    #[error("vdev {vdev}: leg {leg} failed, and that could not be recorded in the other labels ({cause})")]
    NotStruckOff {
        /// Which vdev.
        vdev: VdevGuid,
        /// Which leg.
        leg: VdevGuid,
        /// Why not.
        cause: String,
    },
    /// The pool is open for reading only, or suspended.
    #[error("vdev {vdev} may not be written: the pool is open for reading only, exported or suspended")]
    NotWritable {
        /// Which vdev.
        vdev: VdevGuid,
    },
    /// A leg that is not there, or not in the state for this.
    #[error("vdev {vdev} has no leg {leg} that {wanted}")]
    NoSuchLeg {
        /// Which vdev.
        vdev: VdevGuid,
        /// Which leg.
        leg: VdevGuid,
        /// What it should be.
        wanted: &'static str,
    },
}

impl From<VdevError> for BlockDevError {
    fn from(error: VdevError) -> Self {
        Self::Other(Box::new(error))
    }
}

/// One top-level vdev.
pub struct Vdev {
    guid: VdevGuid,
    index: VdevIndex,
    class: VdevClass,
    data_bytes: u64,
    ring: Option<RingArea>,
    legs: Arc<RwLock<Vec<Arc<VdevLeg>>>>,
    writers: Writers,
    /// Before `writers`; copies alone wait for it.
    copies: Mutex<CopyTurns>,
    membership: OnceLock<std::sync::Weak<dyn Membership>>,
}

impl Vdev {
    /// A vdev of these legs.
    #[must_use]
    pub fn new(config: &VdevConfig, legs: Vec<Arc<VdevLeg>>) -> Self {
        Self {
            guid: config.guid,
            index: config.index,
            class: config.class,
            data_bytes: config.data_bytes,
            ring: config.ring,
            legs: Arc::new(RwLock::new(legs)),
            writers: Writers::default(),
            copies: Mutex::default(),
            membership: OnceLock::new(),
        }
    }

    /// Says who strikes off legs. Once; before that, and after the membership is gone, nothing can be written.
    pub(crate) fn set_membership(&self, membership: std::sync::Weak<dyn Membership>) {
        // A second call would be a bug of the assembly, and the first answer stays.
        let _ = self.membership.set(membership);
        self.legs().iter().for_each(|leg| self.limit_patience_with(leg));
    }

    /// Its place in the pool's configuration: what block pointers say.
    #[must_use]
    pub fn index(&self) -> VdevIndex {
        self.index
    }

    /// Its name for ever.
    #[must_use]
    pub fn guid(&self) -> VdevGuid {
        self.guid
    }

    /// What it holds.
    #[must_use]
    pub fn class(&self) -> VdevClass {
        self.class
    }

    /// Its legs, in the order of the configuration.
    #[must_use]
    pub fn legs(&self) -> Vec<Arc<VdevLeg>> {
        self.legs.read().clone()
    }

    /// One of its legs.
    #[must_use]
    pub fn leg(&self, guid: VdevGuid) -> Option<Arc<VdevLeg>> {
        self.legs.read().iter().find(|leg| leg.guid() == guid).cloned()
    }

    /// Whether any leg has everything.
    #[must_use]
    pub(crate) fn is_usable(&self) -> bool {
        self.legs.read().iter().any(|leg| leg.state() == LegState::Online)
    }

    /// Takes up a leg, or another object for the same one (its disk came back).
    pub(crate) fn put_leg(&self, leg: Arc<VdevLeg>) {
        self.limit_patience_with(&leg);
        let mut legs = self.legs.write();
        match legs.iter_mut().find(|known| known.guid() == leg.guid()) {
            Some(known) => *known = leg,
            None => legs.push(leg),
        }
    }

    /// Forgets a leg.
    pub(crate) fn take_leg(&self, guid: VdevGuid) {
        self.legs.write().retain(|leg| leg.guid() != guid);
    }

    fn check(&self, offset: u64, length: u64) -> Result<(), BlockDevError> {
        assert!(offset.is_multiple_of(SECTOR as u64), "offset {offset} inside a sector");
        assert!(length.is_multiple_of(SECTOR as u64), "{length} bytes are no whole sectors");
        let inside = offset.checked_add(length).is_some_and(|end| end <= self.data_bytes);
        if inside { Ok(()) } else { Err(BlockDevError::OutOfRange { data_bytes: self.data_bytes }) }
    }

    fn membership(&self) -> Option<Arc<dyn Membership>> {
        self.membership.get().and_then(std::sync::Weak::upgrade)
    }

    /// A walk's turn. The caller holds no lock of this vdev.
    fn take_turn(&self, turns: &Turns, share: Share) -> Turn {
        let waits = self.membership().filter(|members| !members.walks_hurry());
        waits.map_or(Turn::Whole, |members| turns.take(members.clock().as_ref(), share))
    }

    /// The turn of a copy. One that goes by places holds no block, so nobody waits for it: where walks hurry with what they
    /// hold, it does not.
    fn take_turn_of_copy(&self, turns: &Turns, holds: bool) -> Turn {
        let waits = self.membership().filter(|members| !holds || !members.walks_hurry());
        waits.map_or(Turn::Whole, |members| turns.take(members.clock().as_ref(), Share::Quarter))
    }

    fn may_write(&self) -> Result<(), VdevError> {
        let may = self.membership().is_some_and(|membership| membership.may_write());
        if may { Ok(()) } else { Err(VdevError::NotWritable { vdev: self.guid }) }
    }

    /// Whether a leg is read behind the others, as it is slow.
    #[must_use]
    pub fn lateness(&self, leg: VdevGuid) -> Option<Late> {
        let mut legs = self.legs();
        legs.retain(|leg| leg.state() == LegState::Online);
        lateness(legs.iter().find(|one| one.guid() == leg)?, &legs)
    }

    /// Online legs for a read of so many bytes: the one whose turn it is at `offset` first, and late ones last.
    fn readable(&self, offset: u64, length: usize) -> Order {
        let mut legs = self.legs();
        legs.retain(|leg| leg.state() == LegState::Online);
        if !legs.is_empty() {
            let turn = offset / READ_STRIPE_BYTES % legs.len() as u64;
            legs.rotate_left(usize::try_from(turn).expect("below the number of legs"));
        }
        if legs.len() < 2 {
            return Order { in_time: legs.len(), legs };
        }
        Order::of(legs, length)
    }

    /// Writes what `good` has to the legs that did not have it, after a second look at all of them with writers kept
    /// out.
    fn repair(
        &self,
        offset: u64,
        good: &VdevLeg,
        bad: &[Arc<VdevLeg>],
        verify: &dyn Fn(&[u8]) -> bool,
        (length, written): (usize, Option<Txg>),
    ) {
        if self.may_write().is_err() {
            return;
        }
        let _alone = self.writers.alone(offset..offset + length as u64);
        let mut content = AlignedBuf::zeroed(length);
        if good.read_data(offset, &mut content).is_err() || !verify(&content) {
            // The block was freed and its place written anew since: there is nothing to repair any more.
            return;
        }
        for leg in bad.iter().filter(|leg| leg.state() == LegState::Online) {
            match leg.write_data(offset, &content) {
                Ok(()) => {
                    leg.given.note_if_known(written);
                    leg.repaired.fetch_add(1, Ordering::Relaxed);
                    tracing::info!(vdev = %self.guid, leg = %leg.guid(), offset, length, "repaired from a mirror leg");
                }
                Err(error) => {
                    leg.given.note_if_known(written);
                    // The caller has its data. That the leg is not struck off concerns the next write, which asks
                    // again.
                    if let Err(error) = self.strike_off(leg, &error) {
                        tracing::error!(vdev = %self.guid, leg = %leg.guid(), %error, "a leg cannot be repaired");
                    }
                }
            }
        }
    }

    fn read_and_repair(
        &self,
        offset: u64,
        length: usize,
        verify: &dyn Fn(&[u8]) -> bool,
        written: Option<Txg>,
    ) -> Result<AlignedBuf, BlockDevError> {
        self.check(offset, length as u64)?;
        let (mut bad, mut last) = (Vec::new(), None);
        let mut reads = self.reads(offset, length);
        while let Some((leg, outcome)) = reads.next() {
            match leg.note_read(outcome) {
                Ok(buf) if verify(&buf) => {
                    if !bad.is_empty() {
                        self.repair(offset, &leg, &bad, verify, (length, written));
                    }
                    return Ok(buf);
                }
                Ok(_) => {
                    leg.checksum_errors.fetch_add(1, Ordering::Relaxed);
                    tracing::warn!(vdev = %self.guid, leg = %leg.guid(), offset, length, "a block is damaged");
                }
                Err(error) => last = Some(error),
            }
            bad.push(leg);
        }
        match (bad.is_empty(), last) {
            (true, _) => Err(VdevError::NoLeg { vdev: self.guid, last: None }.into()),
            (false, Some(error)) => Err(error.into()),
            (false, None) => Err(BlockDevError::NoGoodCopy),
        }
    }

    /// Takes a failed leg out, and returns only when the labels of the others say so.
    pub(crate) fn strike_off(&self, leg: &VdevLeg, cause: &io::Error) -> Result<(), VdevError> {
        leg.set_state(LegState::Failing);
        let not_struck_off = |cause| VdevError::NotStruckOff { vdev: self.guid, leg: leg.guid(), cause };
        let membership = self.membership().ok_or_else(|| not_struck_off("the pool is closed".to_owned()))?;
        tracing::warn!(vdev = %self.guid, leg = %leg.guid(), %cause, "a leg failed");
        membership.leg_failed(leg.guid(), cause).map_err(not_struck_off)?;
        leg.set_state(LegState::Faulted);
        Ok(())
    }

    /// Judges the outcome of something that was asked of several legs: some leg must have done it, and those that
    /// failed, now or a moment ago in another thread, must be struck off.
    fn strike_off_failed(&self, outcomes: Outcomes) -> Result<(), BlockDevError> {
        if !outcomes.iter().any(|(leg, outcome)| outcome.is_ok() && leg.state() == LegState::Online) {
            let last = outcomes.into_iter().filter_map(|(_, outcome)| outcome.err()).next_back();
            return Err(VdevError::NoLeg { vdev: self.guid, last: last.map(|error| error.to_string()) }.into());
        }
        for (leg, outcome) in &outcomes {
            if let Err(error) = outcome {
                self.strike_off(leg, error)?;
            }
        }
        for leg in self.legs().iter().filter(|leg| leg.state() == LegState::Failing) {
            self.strike_off(leg, &io::Error::other("it failed in another request"))?;
        }
        Ok(())
    }
}

impl BlockDev for Vdev {
    fn data_bytes(&self) -> u64 {
        self.data_bytes
    }

    fn read(&self, offset: u64, length: usize, verify: &dyn Fn(&[u8]) -> bool) -> Result<AlignedBuf, BlockDevError> {
        self.read_and_repair(offset, length, verify, None)
    }

    fn read_written(
        &self,
        offset: u64,
        length: usize,
        verify: &dyn Fn(&[u8]) -> bool,
        written: Txg,
    ) -> Result<AlignedBuf, BlockDevError> {
        self.read_and_repair(offset, length, verify, Some(written))
    }

    fn write(&self, offset: u64, buf: &[u8]) -> Result<(), BlockDevError> {
        self.check(offset, buf.len() as u64)?;
        self.may_write()?;
        // Until those that failed are struck off: a copy must not read from them what the others had before.
        let _shared = self.writers.shared(offset..offset + buf.len() as u64);
        let mut legs = self.legs();
        legs.retain(|leg| leg.takes_writes());
        let outcomes = self.write_legs(legs, offset, buf)?;
        self.strike_off_failed(outcomes)
    }

    fn flush(&self) -> Result<(), BlockDevError> {
        self.may_write()?;
        let mut legs = self.legs();
        legs.retain(|leg| leg.takes_writes());
        let covered: Vec<u64> = legs.iter().map(|leg| leg.write_count()).collect();
        let is_due: Vec<bool> = legs.iter().zip(&covered).map(|(leg, covered)| !leg.has_flushed(*covered)).collect();
        let due = legs.iter().zip(&is_due).filter(|(_, is_due)| **is_due);
        let work: Vec<Work> = due.map(|(leg, _)| leg.flush_work()).collect();
        let mut flushed = if work.is_empty() { Vec::new() } else { self.members()?.fanout().each(work) }.into_iter();
        let outcomes = legs.into_iter().zip(covered).zip(is_due).map(|((leg, covered), is_due)| {
            let outcome = if is_due { flushed.next().unwrap_or_else(|| Err(gone())) } else { Ok(()) };
            let outcome = leg.note_flush(covered, outcome);
            (leg, outcome)
        });
        self.strike_off_failed(outcomes.collect())
    }

    /// From the leg that has least to read: neighbours stay together in the first place because they are read in one go.
    fn read_ahead(&self, offset: u64, parts: &mut [AlignedBuf]) -> bool {
        let length = parts.iter().map(|part| part.len() as u64).sum();
        if self.check(offset, length).is_err() {
            return false;
        }
        let Order { mut legs, in_time } = self.readable(offset, usize::try_from(length).unwrap_or(usize::MAX));
        legs.truncate(in_time.max(1));
        let leg = legs.into_iter().min_by_key(|leg| leg.active(IoKind::Read));
        if let Some(leg) = leg.as_ref().filter(|leg| leg.patient().is_some_and(|disk| disk.is_limited())) {
            return read_quietly((leg, self.clock()), offset, parts);
        }
        let disk = leg.as_ref().and_then(|leg| leg.disk());
        disk.is_some_and(|disk| disk.read_parts(LABEL_BYTES + offset, parts).is_ok())
    }

    fn is_behind(&self) -> bool {
        let legs = self.legs.read();
        let waits = |leg: &Arc<VdevLeg>| leg.active(IoKind::DurableWrite) + leg.active(IoKind::Flush);
        legs.iter().map(waits).sum::<u64>() > legs.len() as u64
    }

    fn answers(&self) -> bool {
        let mut buf = AlignedBuf::zeroed(SECTOR);
        let mut answers =
            |leg: &Arc<VdevLeg>| probes(self.data_bytes).any(|offset| leg.read_data(offset, &mut buf).is_ok());
        self.is_usable() && self.readable(0, SECTOR).legs.iter().all(&mut answers)
    }

    fn discard(&self, offset: u64, length: u64) -> Result<(), BlockDevError> {
        self.check(offset, length)?;
        self.may_write()?;
        for leg in self.legs().iter().filter(|leg| leg.takes_writes()) {
            if let Some(disk) = leg.patient()
                && let Err(error) = disk.discard(LABEL_BYTES + offset, length)
            {
                // Only a hint was lost.
                tracing::debug!(leg = %leg.guid(), %error, "a discard was refused");
            }
        }
        Ok(())
    }
}

/// The reads of a range, one leg after the other.
enum Reads {
    /// There is one leg, which is read in place.
    Alone(Option<Arc<VdevLeg>>, u64, usize),
    Several(Asking),
}

impl Vdev {
    fn clock(&self) -> Option<Arc<dyn Clock>> {
        self.membership().map(|members| members.clock())
    }

    fn reads(&self, offset: u64, length: usize) -> Reads {
        let mut order = self.readable(offset, length);
        if order.legs.len() < 2 {
            return Reads::Alone(order.legs.pop(), offset, length);
        }
        let clock = self.clock();
        let probes = clock.as_ref().is_some_and(|clock| order.probes(length, clock.monotonic()));
        Reads::Several(Asking::of(order.legs, (offset, length), (clock, probes)))
    }
}

impl Reads {
    fn next(&mut self) -> Option<(Arc<VdevLeg>, io::Result<AlignedBuf>)> {
        match self {
            Self::Several(asking) => asking.next(),
            Self::Alone(leg, offset, length) => {
                let (leg, mut buf) = (leg.take()?, AlignedBuf::zeroed(*length));
                let outcome =
                    leg.patient().ok_or_else(gone).and_then(|disk| disk.read(LABEL_BYTES + *offset, &mut buf));
                Some((leg, outcome.map(|()| buf)))
            }
        }
    }
}

impl Vdev {
    fn members(&self) -> Result<Arc<dyn Membership>, VdevError> {
        self.membership().ok_or(VdevError::NotWritable { vdev: self.guid })
    }

    /// Writes these legs, at the same time where that is worth a thread each, or they are not to wait for each other.
    fn write_legs(&self, legs: Vec<Arc<VdevLeg>>, offset: u64, buf: &[u8]) -> Result<Outcomes, VdevError> {
        let is_limited = |leg: &Arc<VdevLeg>| leg.patient().is_some_and(|disk| disk.is_limited());
        if legs.len() < 2 || buf.len() < PARALLEL_WRITE_BYTES_MIN && !legs.iter().any(is_limited) {
            let write = |leg: Arc<VdevLeg>| {
                let outcome = leg.write_data(offset, buf);
                (leg, outcome)
            };
            return Ok(legs.into_iter().map(write).collect());
        }
        let target = |leg: &Arc<VdevLeg>| Some((Arc::clone(leg.patient()?) as Arc<dyn Disk>, LABEL_BYTES + offset));
        let (there, gone_ones): (Vec<_>, Vec<_>) = legs.into_iter().partition(|leg| leg.patient().is_some());
        let targets: Vec<_> = there.iter().filter_map(target).collect();
        let outcomes = self.members()?.fanout().write(&targets, buf, Durability::Cached);
        let written = there.into_iter().zip(outcomes).map(|(leg, outcome)| {
            let outcome = leg.note_data(offset, buf.len(), outcome);
            (leg, outcome)
        });
        Ok(written.chain(gone_ones.into_iter().map(|leg| (leg, Err(gone())))).collect())
    }
}

impl VdevLeg {
    /// Requests of a kind that the disk has now.
    fn active(&self, kind: IoKind) -> u64 {
        self.disk().map_or(0, |disk| disk.times(kind).active())
    }

    fn read_data(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        self.note_read(self.patient().ok_or_else(gone).and_then(|disk| disk.read(LABEL_BYTES + offset, buf)))
    }

    /// Counts a failed read.
    fn note_read<T>(&self, outcome: io::Result<T>) -> io::Result<T> {
        if outcome.is_err() {
            self.read_errors.fetch_add(1, Ordering::Relaxed);
        }
        outcome
    }

    fn write_data(&self, offset: u64, buf: &[u8]) -> io::Result<()> {
        let disk = self.patient().ok_or_else(gone)?;
        self.note_data(offset, buf.len(), disk.write(LABEL_BYTES + offset, buf, Durability::Cached))
    }

    /// Counts a write of a block.
    fn note_data(&self, offset: u64, length: usize, outcome: io::Result<()>) -> io::Result<()> {
        self.note_write(outcome)?;
        self.refused.taken(offset, length);
        // After the write: a flush that looked before it has not covered it.
        self.writes.fetch_add(1, Ordering::Release);
        Ok(())
    }

    /// Flushes the disk, also where every write of a block is durable already.
    fn flush_always(&self) -> io::Result<()> {
        let covered = self.write_count();
        self.note_flush(covered, self.patient().ok_or_else(gone).and_then(|disk| disk.flush()))
    }

    fn flush_work(&self) -> Work {
        self.patient().map_or_else(|| Work::new(|| Err(gone())), |disk| disk.work(|disk| disk.flush()))
    }

    /// Counts a flush that covers so many writes.
    fn note_flush(&self, covered: u64, outcome: io::Result<()>) -> io::Result<()> {
        self.note_write(outcome)?;
        self.flushed.fetch_max(covered, Ordering::AcqRel);
        // Of what it has refused no flush tells: if it is struck off, it lacks those groups.
        if !self.refused.is_any() {
            self.given.flushed(covered, &self.writes);
        }
        Ok(())
    }

    /// Counts a failed write.
    pub(crate) fn note_write<T, E>(&self, outcome: Result<T, E>) -> Result<T, E> {
        if outcome.is_err() {
            self.write_errors.fetch_add(1, Ordering::Relaxed);
        }
        outcome
    }
}

fn gone() -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, "the disk is gone")
}

#[cfg(test)]
mod tests;

//! One leg: a disk with a place in the pool, and what has gone wrong with it.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tally_base::VdevGuid;
use tally_disk::{AlignedBuf, CountingDisk, Disk, Durability, IoCounts, PatientDisk, TrustedDisk};

use super::given::Given;
use super::pace::Pace;
use super::refused::Refused;
use crate::label::{self, LABEL_BYTES, RingArea};

/// The zeroes of a ring are written in pieces of this size.
const ZERO_CHUNK_BYTES: u64 = 4 << 20;

/// How a leg stands.
///
/// ```text
///            copied                 failed            left out in the labels
///  Resilvering ────► Online ────────────────► Failing ───────────────────► Faulted
///       └────────────────────────────────────────┘
///  Stale, Missing, Offline: found so at import, or put away since; whoever takes it up again makes a new leg of it
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum LegState {
    /// It has all that was written, and is read.
    Online = 0,
    /// Gets every new write and is being given the old ones; not read from.
    Resilvering = 1,
    /// There, but it has missed writes: neither read nor written.
    Stale = 2,
    /// Not there, or its label is damaged beyond reading.
    Missing = 3,
    /// It failed, and the labels of the others do not say so yet: whoever meets this state waits for that.
    Failing = 4,
    /// It failed, and the labels of the others say so.
    Faulted = 5,
    /// Taken out of use by command: its disk is closed.
    Offline = 6,
}

impl LegState {
    const ALL: [Self; 7] =
        [Self::Online, Self::Resilvering, Self::Stale, Self::Missing, Self::Failing, Self::Faulted, Self::Offline];

    /// The word that `status` prints.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Online => "ONLINE",
            Self::Resilvering => "RESILVERING",
            Self::Stale => "STALE",
            Self::Missing => "MISSING",
            Self::Failing | Self::Faulted => "FAULTED",
            Self::Offline => "OFFLINE",
        }
    }
}

/// Errors of a leg since the pool was opened, or somebody has cleared them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LegErrors {
    /// Reads that the device refused.
    pub read: u64,
    /// Writes and flushes that it refused.
    pub write: u64,
    /// Reads that returned something else than had been written.
    pub checksum: u64,
    /// Ranges that it had wrong or could not read, and that were written again from where they were right.
    pub repaired: u64,
}

/// A disk with a place in a vdev.
pub struct VdevLeg {
    guid: VdevGuid,
    path: PathBuf,
    disk: Option<Arc<PatientDisk>>,
    state: AtomicU8,
    /// It was found left behind, and has every frame of its lane, as the last one that had any: they are replayed from it.
    has_frames: bool,
    /// It hung, and whoever has waited so long for it was told to leave.
    left_after: OnceLock<Duration>,
    /// Apart from the disk: who hears late of a read holds no disk open.
    pub(super) pace: Arc<Pace>,
    /// Writes of blocks that were carried out.
    pub(super) writes: AtomicU64,
    /// How many of them a flush has made durable.
    pub(super) flushed: AtomicU64,
    /// Blocks that it was given anew, until a flush has covered them.
    pub(crate) given: Given,
    /// Places that a repair could not write, and that may be read as if it had.
    pub(super) refused: Refused,
    pub(super) read_errors: AtomicU64,
    pub(super) write_errors: AtomicU64,
    pub(super) checksum_errors: AtomicU64,
    pub(super) repaired: AtomicU64,
    /// Slow requests that the disk had counted when somebody cleared its errors.
    slow_before: AtomicU64,
}

impl VdevLeg {
    /// A leg in this state; one without a disk is missing, if nobody has taken it out of use.
    #[must_use]
    pub fn new(guid: VdevGuid, path: PathBuf, disk: Option<Arc<dyn Disk>>, state: LegState) -> Self {
        let is_away = disk.is_none() && state != LegState::Offline;
        let state = if is_away { LegState::Missing } else { state };
        Self {
            guid,
            path,
            disk: disk
                .map(|disk| Arc::new(PatientDisk::new(Arc::new(CountingDisk::new(Arc::new(TrustedDisk::new(disk))))))),
            state: AtomicU8::new(state as u8),
            has_frames: false,
            left_after: OnceLock::new(),
            pace: Arc::default(),
            writes: AtomicU64::new(0),
            flushed: AtomicU64::new(0),
            given: Given::default(),
            refused: Refused::default(),
            read_errors: AtomicU64::new(0),
            write_errors: AtomicU64::new(0),
            checksum_errors: AtomicU64::new(0),
            repaired: AtomicU64::new(0),
            slow_before: AtomicU64::new(0),
        }
    }

    pub(crate) fn with_frames(self) -> Self {
        Self { has_frames: true, ..self }
    }

    /// Whether an import finds the frames of its lane on it: one that counts, or the last of a lane in a data vdev, where another leg had everything
    /// else when it failed.
    pub(crate) fn has_frames(&self) -> bool {
        let state = self.state();
        state == LegState::Online || state == LegState::Stale && self.has_frames
    }

    /// Its name for ever.
    #[must_use]
    pub fn guid(&self) -> VdevGuid {
        self.guid
    }

    /// Where it was found, or last seen.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The disk, if it is there: for whoever only looks, or can wait until it answers.
    #[must_use]
    pub fn disk(&self) -> Option<&Arc<CountingDisk>> {
        self.disk.as_ref().map(|disk| disk.counting())
    }

    /// The disk, if it is there, whose requests are left where it hangs and others stand in for it.
    #[must_use]
    pub fn patient(&self) -> Option<&Arc<PatientDisk>> {
        self.disk.as_ref()
    }

    /// For how long it was waited for before it was left: it hung. Only another leg object, with its disk opened anew, is
    /// ever believed again.
    #[must_use]
    pub fn left_after(&self) -> Option<Duration> {
        self.left_after.get().copied()
    }

    pub(super) fn leave(&self, after: Duration) {
        // Whoever leaves it later has waited for the same.
        let _first = self.left_after.set(after);
    }

    /// How it stands.
    #[must_use]
    pub fn state(&self) -> LegState {
        LegState::ALL[usize::from(self.state.load(Ordering::Acquire)).min(LegState::ALL.len() - 1)]
    }

    pub(crate) fn set_state(&self, state: LegState) {
        self.state.store(state as u8, Ordering::Release);
    }

    /// Goes from one state to another, unless somebody has put it into a third one meanwhile.
    pub(crate) fn pass(&self, from: LegState, to: LegState) -> bool {
        self.state.compare_exchange(from as u8, to as u8, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// What went wrong so far.
    #[must_use]
    pub fn errors(&self) -> LegErrors {
        LegErrors {
            read: self.read_errors.load(Ordering::Relaxed),
            write: self.write_errors.load(Ordering::Relaxed),
            checksum: self.checksum_errors.load(Ordering::Relaxed),
            repaired: self.repaired.load(Ordering::Relaxed),
        }
    }

    /// Counts errors anew.
    pub fn clear_errors(&self) {
        for count in [&self.read_errors, &self.write_errors, &self.checksum_errors, &self.repaired] {
            count.store(0, Ordering::Relaxed);
        }
        self.slow_before.store(self.disk().map_or(0, |disk| disk.slow_count()), Ordering::Relaxed);
    }

    /// Requests that took a second or longer, since the pool was opened or somebody has cleared that.
    #[must_use]
    pub fn slow_count(&self) -> u64 {
        let count = self.disk().map_or(0, |disk| disk.slow_count());
        count.saturating_sub(self.slow_before.load(Ordering::Relaxed))
    }

    /// Counts what a look at its labels and uberblocks has found, and how much of that is right again.
    pub(crate) fn note_damage(&self, found: u64, repaired: u64) {
        self.checksum_errors.fetch_add(found, Ordering::Relaxed);
        self.repaired.fetch_add(repaired, Ordering::Relaxed);
    }

    /// What the disk was asked to do so far; zeroes for a missing one.
    #[must_use]
    pub fn counts(&self) -> IoCounts {
        self.disk().map(|disk| disk.counts()).unwrap_or_default()
    }

    /// Writes of blocks so far.
    #[must_use]
    pub fn write_count(&self) -> u64 {
        self.writes.load(Ordering::Acquire)
    }

    /// Whether so many of them are durable.
    #[must_use]
    pub fn has_flushed(&self, write_count: u64) -> bool {
        self.flushed.load(Ordering::Acquire) >= write_count
    }

    /// Erases the label of a leg that has left its pool, so that nobody takes it for a disk of that. A courtesy, which
    /// takes as long as its disk likes: whoever calls this must hold nothing that others wait for. A disk that refused
    /// a durable write refuses this too, until it is opened again.
    pub fn erase_label(&self) -> io::Result<()> {
        self.disk().map_or(Ok(()), |disk| label::wipe(disk.as_ref()))
    }

    /// Whether writes must reach it.
    #[must_use]
    pub fn takes_writes(&self) -> bool {
        matches!(self.state(), LegState::Online | LegState::Resilvering)
    }
}

/// Fills a ring with zeroes, durably: no block of it is unwritten, and no frame of an earlier life stands there.
pub(crate) fn write_out_ring(disk: &dyn Disk, ring: RingArea) -> io::Result<()> {
    let zeroes = AlignedBuf::zeroed(usize::try_from(ring.length.min(ZERO_CHUNK_BYTES)).expect("at most the chunk"));
    let mut done = 0;
    while done < ring.length {
        let length = (ring.length - done).min(ZERO_CHUNK_BYTES);
        let chunk = &zeroes[..usize::try_from(length).expect("at most the chunk")];
        disk.write(LABEL_BYTES + ring.start + done, chunk, Durability::Cached)?;
        done += length;
    }
    disk.flush()
}

//! Positions in a ring, and the account of its bytes.
//!
//! A **position** counts bytes since the ring was new and never wraps; the offset on the disk is the position
//! modulo the ring's size. Positions say which lap a frame belongs to, so that an old frame can never be taken
//! for a new one.
//!
//! **Wrap.** A frame does not wrap around. Where fewer than Fmax bytes are left before the end of the ring, the
//! next frame begins at offset 0 of the next lap. The rule looks at Fmax and not at the frame, so that recovery
//! knows where the next frame begins without having seen it, and needs no pad frame (rules F7).
//!
//! **Account.** [`Budget`] holds one number, *committed*:
//!
//! ```text
//!  committed = (head − released tail)  +  records gathered, not yet in a frame  +  reservations
//! ```
//!
//! A record is charged when it is reserved, with what it would take in a frame of its own; frames that carry
//! several take less, and give the difference back when they are closed. Gaps at the end of a lap are charged
//! when they appear, so a reservation is granted only while a further Fmax would fit: between the released tail
//! and one ring size behind it lies at most one end of a lap, hence at most one gap. So whoever holds a
//! reservation will find room, and the head can never pass the tail; that is asserted at each frame.

use std::sync::atomic::{AtomicU64, Ordering::AcqRel, Ordering::Acquire};

use tally_base::SECTOR;

use crate::frame::{HEADER_BYTES, RECORD_HEAD_BYTES, frame_bytes, record_bytes};

/// Frames are never longer than this, whatever the ring's size: a longer write only delays who comes next. 4 MiB of
/// content and what stands around it are one frame, so that a COMMIT of them may be one write.
const FRAME_BYTES_CAP: u64 = (4 << 20) + (64 << 10);
/// One frame takes at most this part of the ring (rules F5).
const FRAMES_PER_RING_MIN: u64 = 8;
/// How many frames may be on their way at once, for ever, because recovery's window depends on it.
const FRAMES_IN_FLIGHT_MAX: u32 = 4;

/// Shape of a lane's ring: fixed for its life, kept in the pool's configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneGeometry {
    /// Bytes on each leg, a multiple of 4 KiB.
    pub size: u64,
    /// Fmax: the longest frame, at most an eighth of the ring, a multiple of 4 KiB.
    pub frame_bytes_max: u32,
    /// K: how many frames may be on their way at once.
    pub frames_in_flight_max: u32,
}

impl LaneGeometry {
    /// The shape for a ring of at most `size` bytes.
    ///
    /// # Panics
    /// Below 64 KiB there is no room for frames in flight beside live ones.
    #[must_use]
    pub fn for_size(size: u64) -> Self {
        let size = size - size % SECTOR as u64;
        let frame_max = (size / FRAMES_PER_RING_MIN).min(FRAME_BYTES_CAP);
        let frame_max = frame_max - frame_max % SECTOR as u64;
        let geometry = Self {
            size,
            frame_bytes_max: u32::try_from(frame_max).expect("it is capped"),
            frames_in_flight_max: FRAMES_IN_FLIGHT_MAX,
        };
        geometry.validate().expect("a ring has at least 64 KiB");
        geometry
    }

    /// Whether the numbers fit each other: for geometries that were read from a label.
    pub fn validate(&self) -> Result<(), &'static str> {
        let sector = SECTOR as u64;
        let frame_max = u64::from(self.frame_bytes_max);
        if !self.size.is_multiple_of(sector) || !frame_max.is_multiple_of(sector) {
            return Err("ring and frame sizes are multiples of 4 KiB");
        }
        if frame_max < 2 * sector || frame_max > FRAME_BYTES_CAP || frame_max > self.size / FRAMES_PER_RING_MIN {
            return Err("a frame has at least 8 KiB, at most 4 MiB and 64 KiB, and at most an eighth of its ring");
        }
        if self.frames_in_flight_max == 0 || self.frames_in_flight_max > FRAMES_IN_FLIGHT_MAX {
            return Err("between one and four frames may be in flight");
        }
        if self.size > 1 << 48 {
            return Err("a ring has at most 256 TiB");
        }
        Ok(())
    }

    /// The longest body that a record may have.
    #[must_use]
    pub fn record_bytes_max(&self) -> usize {
        self.frame_bytes_max as usize - HEADER_BYTES - RECORD_HEAD_BYTES
    }

    /// What a record is charged when it is reserved: a frame of its own.
    pub(crate) fn charge(&self, body_bytes: usize) -> u64 {
        frame_bytes(record_bytes(body_bytes))
    }

    /// Where on a leg's ring a position lies.
    pub(crate) fn offset(&self, pos: u64) -> u64 {
        pos % self.size
    }

    /// Where a frame begins when the one before it ended at `pos`.
    pub(crate) fn place(&self, pos: u64) -> u64 {
        let left = self.size - self.offset(pos);
        if left < u64::from(self.frame_bytes_max) { pos.saturating_add(left) } else { pos }
    }

    /// How far behind the first invalid position recovery looks for later frames: K of them, and a gap.
    pub(crate) fn window_bytes(&self) -> u64 {
        ((u64::from(self.frames_in_flight_max) + 1) * u64::from(self.frame_bytes_max)).min(self.size)
    }
}

/// How full a ring is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fill {
    /// Bytes of the ring.
    pub size: u64,
    /// Bytes that live frames, gathered records and reservations take.
    pub used: u64,
}

/// Why a reservation was refused. Nothing is held; a transaction group makes room.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RingFull {
    /// There is no room now.
    #[error(
        "the ring of the intent log is full: {used_bytes} of {size_bytes} bytes are taken and {needed_bytes} more were \
         asked for; wait for a transaction group"
    )]
    Full {
        /// Bytes asked for, padding included.
        needed_bytes: u64,
        /// Bytes that live frames, gathered records and reservations have.
        used_bytes: u64,
        /// Bytes of the ring.
        size_bytes: u64,
    },
    /// There will never be room: split the record.
    #[error("a record of {body_bytes} bytes can never be logged; the longest has {body_bytes_max}")]
    RecordTooLong {
        /// Bytes of the body.
        body_bytes: usize,
        /// The most that this lane takes.
        body_bytes_max: usize,
    },
}

/// The account of a ring's bytes. Lock-free, because a reservation is made before any lock is taken.
#[derive(Debug)]
pub(crate) struct Budget {
    size: u64,
    frame_bytes_max: u64,
    committed: AtomicU64,
}

impl Budget {
    /// Of a ring in which nothing lives yet.
    pub(crate) fn new(geometry: &LaneGeometry) -> Self {
        Self { size: geometry.size, frame_bytes_max: u64::from(geometry.frame_bytes_max), committed: AtomicU64::new(0) }
    }

    /// Takes `bytes` if they fit, with the gap that they might cause.
    pub(crate) fn take(&self, bytes: u64) -> Result<(), RingFull> {
        let fits = |committed: u64| {
            let after = committed.checked_add(bytes)?;
            (after.checked_add(self.frame_bytes_max)? <= self.size).then_some(after)
        };
        self.committed.fetch_update(AcqRel, Acquire, fits).map(|_| ()).map_err(|used_bytes| RingFull::Full {
            needed_bytes: bytes,
            used_bytes,
            size_bytes: self.size,
        })
    }

    /// Gives bytes back.
    pub(crate) fn give(&self, bytes: u64) {
        let before = self.committed.fetch_sub(bytes, AcqRel);
        assert!(before >= bytes, "{bytes} bytes were given back to a ring that had lent {before}");
    }

    /// A frame was closed: it takes `frame_bytes` (with the gap behind it) instead of what its records were charged.
    pub(crate) fn charge_frame(&self, charged: u64, frame_bytes: u64) {
        if charged >= frame_bytes {
            self.give(charged - frame_bytes);
        } else {
            self.committed.fetch_add(frame_bytes - charged, AcqRel);
        }
    }

    /// How full it is.
    pub(crate) fn fill(&self) -> Fill {
        Fill { size: self.size, used: self.committed.load(Acquire) }
    }
}

#[cfg(test)]
#[path = "ring_tests.rs"]
mod tests;

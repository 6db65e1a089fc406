//! When a walk over a whole disk may ask it for something, beside those who wait for theirs.
//!
//! **The problem.** A scrub reads as much as a disk gives. Who asks for something meanwhile comes behind reads of megabytes:
//! a commit that takes half a millisecond takes ten (rules P4).
//!
//! **The idea.** A walk asks when nobody else has for a while ([`QUIET`]), and then for as much as it likes; and where others
//! never leave off, for a little in so much time ([`WAIT_MAX`], [`TURN`], [`PIECE_BYTES`]). Whether others are there it
//! sees by two counts of the device, of requests that came and that were answered, before and after a wait. They do nothing
//! for it but count. What the walk asks itself does not count ([`aside`]), and all else does: reads and frames of the log,
//! what a group writes, other pools on the same device.
//!
//! ```text
//!   nobody has come since the last whole turn ─────────────────────────▶ Whole
//!   somebody has ──▶ wait QUIET ──▶ nobody came, nothing is owed ──────▶ Whole
//!                      ▲    └─ somebody did ─┐
//!                      └─────────────────────┴─ WAIT_MAX in all ───────▶ Piece, and more of them until TURN is over
//! ```
//!
//! **It always goes on.** By the number of waits and not by what a clock says or a disk answers: a request that hangs keeps the
//! walk at pieces, and a clock that stands still lets it go at once (`Clock::sleep`). Several threads of walks on one
//! disk take turns, one after the other.
//!
//! **Who is in a hurry.** While a disk is copied its mirror has a leg less than somebody has paid for. So a copy waits for three
//! times as long as its pieces took, and no longer ([`Share::Quarter`]): a quarter of the disk's time, and more of
//! one that needs over 17 ms for a piece, since nobody waits longer than [`WAIT_MAX`].
//! That nobody has come for [`QUIET`] it sees over several such waits.
//!
//! **What it costs.** Who asks after a pause may come behind one turn in full. Linux' RAID goes by the same counts
//! (docs/design/0057).

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use parking_lot::Mutex;
use tally_base::Clock;

use crate::device::Device;

/// So long nobody else must have asked: longer than a client that works on takes between two requests, with a network in
/// between.
const QUIET: Duration = Duration::from_millis(20);
/// A walk that is there waits no longer.
const WAIT_MAX: Duration = Duration::from_millis(50);
/// After that it may ask for so long before it waits again: a fiftieth of the disk's time, and one request at least.
const TURN: Duration = Duration::from_millis(1);
/// For no more than this at once: a quarter of a millisecond on flash, about what a durable write takes.
const PIECE_BYTES: u64 = 256 << 10;

/// A copy has so much of a disk's time as others need not wait for: one part in four.
const PARTS: u32 = 4;

/// How much of its time a disk has for a walk, while others never leave off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Share {
    /// For a scrub, or a look at every block: it has time.
    Fiftieth,
    /// For a copy to a disk that does not count yet.
    Quarter,
}

/// How much a walk may ask for at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// Nobody else wants anything.
    Whole,
    /// Others do: a piece of 256 KiB.
    Piece,
}

impl Turn {
    /// So many bytes of so many.
    #[must_use]
    pub fn of(self, bytes: u64) -> u64 {
        match self {
            Self::Whole => bytes,
            Self::Piece => bytes.min(PIECE_BYTES),
        }
    }
}

/// The turns of walks on some devices.
pub struct Turns {
    devices: Vec<Arc<Device>>,
    /// Held while somebody waits for a turn.
    last: Mutex<Last>,
}

/// Of the last turn.
#[derive(Default)]
struct Last {
    /// What had come by then, if it was a whole one: that nobody comes within a piece says little.
    seen: Option<Seen>,
    /// Until when more pieces may follow.
    until: Duration,
    /// Since when nobody has come, of what was looked at; and what had come by then.
    calm: Option<(Seen, Duration)>,
}

/// How many requests of others had come by a moment, and how many were answered by then.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Seen {
    asked: u64,
    answered: u64,
}

impl Turns {
    pub(crate) fn on(devices: &[Arc<Device>]) -> Self {
        Self { devices: devices.to_vec(), last: Mutex::default() }
    }

    /// On all that these are on: for a walk that asks several disks at once.
    #[must_use]
    pub fn on_all<'a>(turns: impl IntoIterator<Item = &'a Self>) -> Self {
        Self { devices: turns.into_iter().flat_map(|turns| turns.devices.clone()).collect(), last: Mutex::default() }
    }

    /// Waits for a turn. The caller must hold nothing that others wait for.
    pub fn take(&self, clock: &dyn Clock, share: Share) -> Turn {
        let mut last = self.last.lock();
        if last.seen.is_some_and(|seen| self.is_quiet_since(seen)) {
            return Turn::Whole;
        }
        if clock.monotonic() < last.until {
            return Turn::Piece;
        }
        let turn = match share {
            Share::Fiftieth => self.wait(clock),
            Share::Quarter => self.wait_for_a_quarter(clock, &mut last),
        };
        (last.seen, last.until) = match turn {
            Turn::Whole => (Some(self.look()), Duration::ZERO),
            Turn::Piece => (None, clock.monotonic() + TURN),
        };
        turn
    }

    fn wait(&self, clock: &dyn Clock) -> Turn {
        let mut waited = Duration::ZERO;
        while waited < WAIT_MAX {
            let (seen, pause) = (self.look(), QUIET.min(WAIT_MAX - waited));
            clock.sleep(pause);
            waited += pause;
            if pause == QUIET && self.is_quiet_since(seen) {
                return Turn::Whole;
            }
        }
        Turn::Piece
    }

    /// For three times as long as what came of the last turn took.
    fn wait_for_a_quarter(&self, clock: &dyn Clock, last: &mut Last) -> Turn {
        let before = clock.monotonic();
        let took = before.saturating_sub(last.until.saturating_sub(TURN));
        let (seen, since) = last.calm.filter(|(seen, _)| self.is_quiet_since(*seen)).unwrap_or((self.look(), before));
        clock.sleep((took * (PARTS - 1)).clamp(TURN * (PARTS - 1), WAIT_MAX));
        let (now, is_quiet) = (clock.monotonic(), self.is_quiet_since(seen));
        last.calm = is_quiet.then_some((seen, since));
        let is_long = now.saturating_sub(since) >= QUIET || now == before;
        if is_quiet && is_long { Turn::Whole } else { Turn::Piece }
    }

    /// Whether nothing was owed then, and nobody has come since.
    fn is_quiet_since(&self, seen: Seen) -> bool {
        seen.asked == seen.answered && self.look() == seen
    }

    fn look(&self) -> Seen {
        let sum =
            |count: fn(&Device) -> u64| self.devices.iter().map(|device| count(device)).fold(0, u64::wrapping_add);
        // In this order: a request in between looks as if it were owed, and not as if there were none.
        let answered = sum(|device| device.answered.load(Ordering::Acquire));
        Seen { asked: sum(|device| device.asked.load(Ordering::Acquire)), answered }
    }
}

/// A request that somebody waits for, until it is dropped.
pub(crate) struct Asked<'a>(&'a [Arc<Device>]);

impl<'a> Asked<'a> {
    /// Nothing for what is done aside.
    pub(crate) fn now(devices: &'a [Arc<Device>]) -> Self {
        let devices = if is_aside() { &[] } else { devices };
        devices.iter().for_each(|device| _ = device.asked.fetch_add(1, Ordering::AcqRel));
        Self(devices)
    }
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        self.0.iter().for_each(|device| _ = device.answered.fetch_add(1, Ordering::AcqRel));
    }
}

thread_local! {
    static ASIDE: Cell<bool> = const { Cell::new(false) };
}

/// Does what nobody waits for: what this thread, or a helper for it, asks of disks meanwhile keeps no walk waiting.
pub fn aside<T>(work: impl FnOnce() -> T) -> T {
    as_aside(true, work)
}

pub(crate) fn as_aside<T>(is_aside: bool, work: impl FnOnce() -> T) -> T {
    let _back = Back(ASIDE.replace(is_aside));
    work()
}

pub(crate) fn is_aside() -> bool {
    ASIDE.get()
}

/// Also when the work panics.
struct Back(bool);

impl Drop for Back {
    fn drop(&mut self) {
        ASIDE.set(self.0);
    }
}

#[cfg(test)]
mod tests;

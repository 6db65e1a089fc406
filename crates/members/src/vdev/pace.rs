//! Which leg of a mirror is expected to answer a read first.
//!
//! The problem: a disk that is about to die, or that a neighbour keeps busy, answers each read, after 200 ms. It fails nothing and hangs
//! for nobody, and if each leg gets its part of the reads every second client waits for it.
//!
//! The idea: each leg remembers how long its reads took lately, small and large ones apart, for each that it had at once. One
//! that is expected to take several times as long as another is *late*, and is read behind those that are not. Where no leg is, the
//! place decides as before, so that neighbours come from one disk. A leg that is not read is not measured either: now and then a
//! read is asked of a late one **besides**, which nobody waits for, and so it is found out when it is well again.
//!
//! One long answer makes no leg late: it counts as a few times what was usual. Times are the pool's clock's, so that a simulated
//! pool chooses the same each time.

use std::cmp::Ordering::{Equal, Greater, Less};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tally_disk::IoKind;

use super::VdevLeg;
use super::read::is_silent;

/// Reads from this size on are large: what they take is mostly their bytes.
const LARGE_BYTES: usize = 256 << 10;
/// Each answer changes what is expected by this part of the difference.
const PART: u32 = 8;
/// And by this one if none came for [`PROBE_EVERY`]: what was known is old.
const PART_OF_OLD: u32 = 2;
/// An answer counts as at most so many times what was expected.
const OUTLIER_TIMES: u32 = 8;
/// A leg is late that is expected to take so many times as long as the quickest one,
const LATE_TIMES: u32 = 3;
/// and at least so much longer: where each is quick, two disks bring more than one.
const LATE_MIN: Duration = Duration::from_millis(1);
/// So often a late leg is asked besides.
const PROBE_EVERY: Duration = Duration::from_secs(1);

/// How long reads of a leg took lately.
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// Small ones, and large ones.
    sizes: Mutex<[Size; 2]>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Size {
    /// Of a read that is alone there. `None` before the first answer.
    each: Option<Duration>,
    /// When one was last answered.
    answered_at: Duration,
    /// When it was last asked besides.
    asked_at: Duration,
}

impl Pace {
    /// A read of so many bytes was answered at `now` after so long, one of `at_once` that the disk had when it began.
    pub(super) fn note(&self, length: usize, took: Duration, at_once: u64, now: Duration) {
        let sample = took / u32::try_from(at_once).unwrap_or(u32::MAX).max(1);
        let mut sizes = self.sizes.lock();
        let size = &mut sizes[class(length)];
        let is_old = now.saturating_sub(size.answered_at) >= PROBE_EVERY;
        let part = if is_old { PART_OF_OLD } else { PART };
        size.each = Some(match size.each {
            Some(before) if sample > before => {
                // Of a clock that stood still.
                let before = before.max(Duration::from_micros(1));
                before + (sample.max(before).min(before * OUTLIER_TIMES) - before) / part
            }
            Some(before) => before - (before - sample) / part,
            None => sample,
        });
        size.answered_at = now;
    }

    /// How long a read of so many bytes is expected to take beside so many others.
    pub(super) fn expected(&self, length: usize, others: u64) -> Option<Duration> {
        let each = self.sizes.lock()[class(length)].each?;
        Some(each * u32::try_from(others + 1).unwrap_or(u32::MAX).min(1 << 16))
    }

    /// Whether nobody has heard of it for so long that it is asked besides. Who is told so asks.
    fn is_due(&self, length: usize, now: Duration) -> bool {
        let size = &mut self.sizes.lock()[class(length)];
        let is_due = now.saturating_sub(size.answered_at.max(size.asked_at)) >= PROBE_EVERY;
        if is_due {
            // Who comes meanwhile does not.
            size.asked_at = now;
        }
        is_due
    }
}

const fn class(length: usize) -> usize {
    (length >= LARGE_BYTES) as usize
}

/// Legs in the order in which they are read.
pub(super) struct Order {
    pub(super) legs: Vec<Arc<VdevLeg>>,
    /// So many of them, the first ones, are not late.
    pub(super) in_time: usize,
}

/// How soon a leg is read, the soonest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    InTime,
    Late,
    /// It has owed an answer for long: those that are late do answer.
    Silent,
}

impl Order {
    /// Puts those last that are late for a read of so many bytes, or silent, and leaves the others as they are.
    pub(super) fn of(legs: Vec<Arc<VdevLeg>>, length: usize) -> Self {
        let expected = |leg: &VdevLeg| leg.pace.expected(length, leg.active(IoKind::Read));
        let quickest = legs.iter().filter_map(|leg| expected(leg)).min();
        let rank = |leg: &VdevLeg| {
            if is_silent(leg) {
                Rank::Silent
            } else if is_late(expected(leg), quickest) {
                Rank::Late
            } else {
                Rank::InTime
            }
        };
        // Each is asked once: what it says may change meanwhile, and a sort must not see that. Mostly all are in time.
        let ranks = || legs.iter().map(|leg| rank(leg)).enumerate();
        let Some((first, found)) = ranks().find(|(_, rank)| *rank != Rank::InTime) else {
            return Self { in_time: legs.len(), legs };
        };
        let rank = |(place, leg): (usize, Arc<VdevLeg>)| match place.cmp(&first) {
            Less => (Rank::InTime, leg),
            Equal => (found, leg),
            Greater => (rank(&leg), leg),
        };
        let mut ranked: Vec<_> = legs.into_iter().enumerate().map(rank).collect();
        ranked.sort_by_key(|(rank, _)| *rank);
        let in_time = ranked.partition_point(|(rank, _)| *rank == Rank::InTime);
        Self { legs: ranked.into_iter().map(|(_, leg)| leg).collect(), in_time }
    }

    /// If a late leg is to be asked besides, it is the second one now.
    pub(super) fn probes(&mut self, length: usize, now: Duration) -> bool {
        let late = self.legs.iter().skip(self.in_time.max(1));
        // Who owes an answer says nothing by another question, and each takes a helper.
        let due =
            late.map(|leg| leg.active(IoKind::Read) == 0 && leg.pace.is_due(length, now)).position(|is_due| is_due);
        if let Some(place) = due {
            self.legs[1..].swap(0, place + self.in_time.max(1) - 1);
        }
        due.is_some()
    }
}

fn is_late(expected: Option<Duration>, quickest: Option<Duration>) -> bool {
    let Some((expected, quickest)) = expected.zip(quickest) else { return false };
    expected > quickest * LATE_TIMES && expected - quickest > LATE_MIN
}

/// A leg that is read behind others, as it is late.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Late {
    /// What a small read of it is expected to take.
    pub takes: Duration,
    /// And what it takes with the quickest leg.
    pub quickest: Duration,
}

/// Whether one of these legs is read behind the others, by its small reads or its large ones. As it stands without requests.
pub(super) fn lateness(leg: &VdevLeg, legs: &[Arc<VdevLeg>]) -> Option<Late> {
    [0, LARGE_BYTES].into_iter().find_map(|length| {
        let takes = leg.pace.expected(length, 0)?;
        let quickest = legs.iter().filter_map(|leg| leg.pace.expected(length, 0)).min()?;
        is_late(Some(takes), Some(quickest)).then_some(Late { takes, quickest })
    })
}

#[cfg(test)]
mod tests;

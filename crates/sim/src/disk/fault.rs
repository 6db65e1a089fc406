//! What a disk refuses, what it says untruly, and how long it keeps its caller waiting. Either as chance has it, or, for
//! whoever tries all of them, at one request of many ([`Mishap`]).

use std::io;
use std::time::Duration;

use parking_lot::Mutex;

/// A kind of request that fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Reading.
    Read,
    /// A write into the device's cache.
    Write,
    /// A durable write. What it was to write may be there, in part.
    DurableWrite,
    /// A flush. What was not flushed is on the medium in part, and no later flush saves the rest.
    Flush,
    /// A durable write whose flush of the device has failed: it takes along what was in the cache, as a failed flush does.
    CacheWithDurableWrite,
}

/// How many there are.
const FAULTS: usize = 5;

impl Fault {
    /// All of them.
    pub const ALL: [Self; FAULTS] =
        [Self::Read, Self::Write, Self::DurableWrite, Self::Flush, Self::CacheWithDurableWrite];
}

/// A write that the disk answers with a success, and does not do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lie {
    /// Nothing is written.
    Lost,
    /// It is written over something else, which this number chooses.
    Misdirected(u64),
}

/// What befalls one request, behind so many others of its sort.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mishap {
    /// It fails: one of these, and none behind it.
    Once(Sort),
    /// It fails, and so do all of its sort from then on.
    ForGood(Sort),
    /// It fails, and so does everything from then on, of any sort: the disk is gone.
    Gone,
    /// What it reads has rotted on the medium, page for page, and nobody is told.
    Rot,
    /// Of what it writes the first half is there, and nobody is told.
    Half,
    /// A write is not what the disk says, and nobody is told.
    Lies(Lie),
    /// A durable write fails, and takes along what was in the cache.
    TakesCache,
    /// It takes so long.
    Hangs(Duration),
    /// A write or a flush is not answered, and no other one from then on ([`Faults::fall_silent`]).
    Silence,
}

/// What a write leaves that the disk refuses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Left {
    /// Nobody reads it, and when the power goes some of it may be there. Only for who does nothing more until then: a disk that
    /// is asked for it is to know what it has.
    #[default]
    Unread,
    /// It is read, and when the power goes some of it may be there.
    Read,
    /// Nothing of it is there.
    Nothing,
}

/// A sort of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sort {
    /// Reads.
    Read,
    /// Writes, durable or not.
    Write,
    /// Flushes.
    Flush,
}

impl Fault {
    fn sort(self) -> Sort {
        match self {
            Self::Read => Sort::Read,
            Self::Write | Self::DurableWrite | Self::CacheWithDurableWrite => Sort::Write,
            Self::Flush => Sort::Flush,
        }
    }
}

impl Mishap {
    /// Whether it counts requests that fail in this manner.
    fn counts(self, fault: Fault) -> bool {
        match self {
            Self::Once(sort) | Self::ForGood(sort) => fault.sort() == sort,
            Self::Gone | Self::Hangs(_) => true,
            Self::Rot => fault.sort() == Sort::Read,
            Self::Half | Self::Lies(_) => fault.sort() == Sort::Write,
            Self::TakesCache => fault == Fault::DurableWrite,
            Self::Silence => fault.sort() != Sort::Read,
        }
    }
}

/// What is to go wrong with a disk's requests.
#[derive(Debug, Default)]
pub struct Faults(Mutex<Planned>);

#[derive(Debug, Default)]
struct Planned {
    /// How many of the next requests of each kind fail.
    refused: [u32; FAULTS],
    /// Writes until one is not what the disk says, and how.
    lie: Option<(u32, Lie)>,
    /// How many of the next requests take how long.
    hanging: (u32, Duration),
    /// What a refused write leaves.
    left: Left,
    /// Writes and flushes are not answered, as far as whoever asks can do without.
    is_silent: bool,
    /// Requests until one that something befalls, and what.
    mishap: Option<(u64, Mishap)>,
}

impl Planned {
    fn suffer(&mut self, mishap: Mishap, fault: Fault) {
        match mishap {
            Mishap::Once(_) => self.refused[fault as usize] = 1,
            Mishap::ForGood(sort) => {
                let of_sort = Fault::ALL.into_iter().filter(|fault| fault.sort() == sort);
                of_sort.for_each(|fault| self.refused[fault as usize] = u32::MAX);
            }
            Mishap::Gone => self.refused = [u32::MAX; FAULTS],
            Mishap::Lies(lie) => self.lie = Some((0, lie)),
            Mishap::TakesCache => self.refused[Fault::CacheWithDurableWrite as usize] = 1,
            Mishap::Hangs(time) => self.hanging = (1, time),
            Mishap::Silence => self.is_silent = true,
            Mishap::Rot | Mishap::Half => {}
        }
    }
}

impl Faults {
    /// The next `count` requests of this kind fail.
    pub fn set(&self, fault: Fault, count: u32) {
        self.0.lock().refused[fault as usize] = count;
    }

    /// What refused writes leave from now on.
    pub fn leave(&self, left: Left) {
        self.0.lock().left = left;
    }

    pub(super) fn left(&self) -> Left {
        self.0.lock().left
    }

    /// Every request fails from now on, as if the cable were out.
    pub fn all(&self) {
        self.0.lock().refused = [u32::MAX; FAULTS];
    }

    /// Behind `writes` others, one write is not done, and nobody is told.
    pub fn lie(&self, writes: u32, lie: Lie) {
        self.0.lock().lie = Some((writes, lie));
    }

    /// The next `count` requests take so long.
    pub fn hang(&self, count: u32, time: Duration) {
        self.0.lock().hanging = (count, time);
    }

    /// From now on it answers no write and no flush, unless somebody has to wait until it does.
    pub fn fall_silent(&self) {
        self.0.lock().is_silent = true;
    }

    /// It answers again.
    pub fn answer(&self) {
        self.0.lock().is_silent = false;
    }

    /// Whether it answers nothing that it is asked from now on.
    #[must_use]
    pub fn is_silent(&self) -> bool {
        self.0.lock().is_silent
    }

    /// Behind so many requests of its sort, this befalls one.
    pub fn plan(&self, behind: u64, mishap: Mishap) {
        self.0.lock().mishap = Some((behind, mishap));
    }

    /// Whether what was planned has not come yet.
    #[must_use]
    pub fn is_pending(&self) -> bool {
        self.0.lock().mishap.is_some()
    }

    /// Nothing fails any more.
    pub fn clear(&self) {
        let mut planned = self.0.lock();
        *planned = Planned { left: planned.left, ..Planned::default() };
    }

    /// Whether a request of this kind is going to fail.
    pub fn refuses(&self, fault: Fault) -> bool {
        self.0.lock().refused[fault as usize] > 0
    }

    /// What befalls the request that comes now, which fails in this manner if it fails. What it says of failures, lies and time
    /// is for who asks for those next.
    pub(super) fn meet(&self, fault: Fault) -> Option<Mishap> {
        let planned = &mut *self.0.lock();
        let (left, mishap) = planned.mishap.as_mut()?;
        if !mishap.counts(fault) {
            return None;
        }
        if *left > 0 {
            *left -= 1;
            return None;
        }
        let mishap = *mishap;
        planned.mishap = None;
        planned.suffer(mishap, fault);
        Some(mishap)
    }

    pub(super) fn strike(&self, fault: Fault) -> io::Result<()> {
        let left = &mut self.0.lock().refused[fault as usize];
        if *left == 0 {
            return Ok(());
        }
        *left = left.saturating_sub(u32::from(*left < u32::MAX));
        Err(io::Error::other(format!("a {fault:?} that the seed lets fail")))
    }

    /// Whether the write that comes now is the one that is not done.
    pub(super) fn lies(&self) -> Option<Lie> {
        let planned = &mut *self.0.lock();
        match &mut planned.lie {
            Some((0, _)) => planned.lie.take().map(|(_, lie)| lie),
            Some((left, _)) => {
                *left -= 1;
                None
            }
            None => None,
        }
    }

    /// How long the request that comes now takes.
    pub(super) fn delay(&self) -> Duration {
        let (left, time) = &mut self.0.lock().hanging;
        if *left == 0 {
            return Duration::ZERO;
        }
        *left -= 1;
        *time
    }
}

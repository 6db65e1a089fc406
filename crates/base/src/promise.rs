//! What stands between a change in memory and the reply that promises it: somebody's word that it will be
//! durable. The file system hands one out with every result; the protocol server keeps the reply back
//! until it is kept, and need not know whether the log or a transaction group keeps it.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::LaneId;

/// The promise cannot be kept: the change may or may not survive a power cut, so no reply may rest on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken(pub String);

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the change could not be made durable: {}", self.0)
    }
}

impl std::error::Error for Broken {}

/// Who kept a promise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Keeper {
    /// Nobody: it was kept already.
    #[default]
    Nobody,
    /// A frame of this lane of the intent log.
    Log(LaneId),
    /// A transaction group, as where a lane has ended: no frame was written for it.
    Group,
}

/// How a promise was kept, and what that took: what the one who waited is told, so that costs can be said to be
/// somebody's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    /// Who made it true, and so whose device time and bytes these are.
    pub by: Keeper,
    /// How long the device was at the frame that kept it; zero if no frame did.
    pub device: Duration,
    /// Bytes of the log records that the operation itself appended, without their heads.
    pub record_bytes: u64,
    /// Their part of what was written to each leg of the log, headers and padding included.
    pub frame_bytes: u64,
}

impl Kept {
    /// By a transaction group.
    pub const GROUP: Self = Self { by: Keeper::Group, device: Duration::ZERO, record_bytes: 0, frame_bytes: 0 };
}

impl Kept {
    /// What both took. Of two devices that were waited for by one, the slower one counts.
    #[must_use]
    fn and(self, other: Self) -> Self {
        Self {
            by: if other.by == Keeper::Nobody { self.by } else { other.by },
            device: self.device.max(other.device),
            record_bytes: self.record_bytes + other.record_bytes,
            frame_bytes: self.frame_bytes + other.frame_bytes,
        }
    }
}

/// What became of a promise.
pub type Fate = Result<Kept, Broken>;

/// A change that is on its way to stable storage.
pub trait Promise: Send {
    /// Whether it is kept by now. Never blocks.
    fn poll(&self) -> Option<Fate>;

    /// Does the device write in the calling thread if that is the fastest way (the write slot is free and
    /// no other frame is on its way), and returns the outcome, with the time that this thread itself was in the device;
    /// returns `None` at once where it is not.
    fn drive(&self) -> Option<Fate>;

    /// Calls `then` once, when the outcome is known: at once in this thread, or later in another one.
    /// `then` must be short and must not block: it runs where the next device write waits.
    fn then(self: Box<Self>, then: Box<dyn FnOnce(Fate) + Send>);
}

/// Several promises as one, in the order in which they were given: it is kept when all are, and broken with the first that is.
struct All {
    promises: Vec<Box<dyn Promise>>,
    broken: Arc<AtomicUsize>,
}

/// Which of several promises was the first that was not kept, once their outcome is known.
#[derive(Debug, Default)]
pub struct FirstBroken(Option<Arc<AtomicUsize>>);

impl FirstBroken {
    /// By its place among them. It means nothing where all were kept.
    #[must_use]
    pub fn place(&self) -> usize {
        self.0.as_ref().map_or(0, |place| place.load(Ordering::Acquire))
    }
}

/// One promise for all of these. A lone one stays what it is.
#[must_use]
pub fn all_of(mut promises: Vec<Box<dyn Promise>>) -> (Box<dyn Promise>, FirstBroken) {
    if promises.len() == 1
        && let Some(lone) = promises.pop()
    {
        return (lone, FirstBroken::default());
    }
    let broken = Arc::new(AtomicUsize::new(0));
    (Box::new(All { promises, broken: Arc::clone(&broken) }), FirstBroken(Some(broken)))
}

impl All {
    /// Of what became of each, in their order; nothing as long as one is open before which none was broken.
    fn outcome(&self, fates: impl Iterator<Item = Option<Fate>>) -> Option<Fate> {
        let mut kept = Kept::default();
        for (place, fate) in fates.enumerate() {
            match fate? {
                Ok(more) => kept = kept.and(more),
                Err(why) => {
                    self.broken.store(place, Ordering::Release);
                    return Some(Err(why));
                }
            }
        }
        Some(Ok(kept))
    }
}

impl Promise for All {
    fn poll(&self) -> Option<Fate> {
        self.outcome(self.promises.iter().map(|promise| promise.poll()))
    }

    /// The frame of the last one takes along what was appended before it to the same log. What is elsewhere, [`Self::then`] waits for.
    fn drive(&self) -> Option<Fate> {
        let (last, before) = self.promises.split_last()?;
        let driven = last.drive()?;
        self.outcome(before.iter().map(|promise| promise.poll()).chain([Some(driven)]))
    }

    fn then(self: Box<Self>, then: Box<dyn FnOnce(Fate) + Send>) {
        let Self { promises, broken } = *self;
        wait_in_turn(promises.into_iter().enumerate(), Kept::default(), broken, then);
    }
}

/// Waits for one after another: those behind the first are mostly kept by then.
fn wait_in_turn(
    mut rest: std::iter::Enumerate<std::vec::IntoIter<Box<dyn Promise>>>,
    kept: Kept,
    broken: Arc<AtomicUsize>,
    then: Box<dyn FnOnce(Fate) + Send>,
) {
    let Some((place, promise)) = rest.next() else { return then(Ok(kept)) };
    promise.then(Box::new(move |fate| match fate {
        Ok(more) => wait_in_turn(rest, kept.and(more), broken, then),
        Err(why) => {
            broken.store(place, Ordering::Release);
            then(Err(why));
        }
    }));
}

/// What a reply has to wait for.
#[derive(Default)]
pub enum Wait {
    /// Nothing: everything the reply rests on is durable, or need not be.
    #[default]
    Ready,
    /// Until this is kept; whoever answers without that tells a lie.
    On(Box<dyn Promise>),
}

impl Wait {
    /// Blocks until the outcome is known. For tools and tests: the server never blocks here.
    pub fn block(self) -> Fate {
        let Self::On(promise) = self else { return Ok(Kept::default()) };
        if let Some(fate) = promise.drive() {
            return fate;
        }
        let (sender, receiver) = std::sync::mpsc::channel();
        promise.then(Box::new(move |outcome| {
            // A receiver that is gone no longer cares.
            let _ = sender.send(outcome);
        }));
        receiver.recv().unwrap_or_else(|_| Err(Broken("the log was closed".into())))
    }
}

impl fmt::Debug for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ready => "Ready",
            Self::On(_) => "On(..)",
        })
    }
}

#[cfg(test)]
mod tests;

//! What stands between a change in memory and the reply that promises it: somebody's word that it will be
//! durable. The file system hands one out with every result; the protocol server keeps the reply back
//! until it is kept, and need not know whether the log or a transaction group keeps it.

use std::fmt;
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

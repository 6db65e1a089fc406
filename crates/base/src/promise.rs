//! What stands between a change in memory and the reply that promises it: somebody's word that it will be
//! durable. The file system hands one out with every result; the protocol server keeps the reply back
//! until it is kept, and need not know whether the log or a transaction group keeps it.

use std::fmt;
use std::time::Duration;

/// The promise cannot be kept: the change may or may not survive a power cut, so no reply may rest on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken(pub String);

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the change could not be made durable: {}", self.0)
    }
}

impl std::error::Error for Broken {}

/// A promise that was seen to in the calling thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Driven {
    /// Whether it is kept.
    pub outcome: Result<(), Broken>,
    /// How long the thread was in the device for it.
    pub in_device: Duration,
}

impl From<Result<(), Broken>> for Driven {
    /// The outcome was there already.
    fn from(outcome: Result<(), Broken>) -> Self {
        Self { outcome, in_device: Duration::ZERO }
    }
}

/// A change that is on its way to stable storage.
pub trait Promise: Send {
    /// Whether it is kept by now. Never blocks.
    fn poll(&self) -> Option<Result<(), Broken>>;

    /// Does the device write in the calling thread if that is the fastest way (the write slot is free and
    /// no other frame is on its way), and returns the outcome; returns `None` at once where it is not.
    fn drive(&self) -> Option<Driven>;

    /// Calls `then` once, when the outcome is known: at once in this thread, or later in another one.
    /// `then` must be short and must not block: it runs where the next device write waits.
    fn then(self: Box<Self>, then: Box<dyn FnOnce(Result<(), Broken>) + Send>);
}

/// What a reply has to wait for.
#[derive(Default)]
pub enum Wait {
    /// Nothing: everything the reply rests on is durable, or need not be.
    #[default]
    Ready,
    /// A promise.
    On(Box<dyn Promise>),
}

impl Wait {
    /// Blocks until the outcome is known. For tools and tests: the server never blocks here.
    pub fn block(self) -> Result<(), Broken> {
        let Self::On(promise) = self else { return Ok(()) };
        if let Some(driven) = promise.drive() {
            return driven.outcome;
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

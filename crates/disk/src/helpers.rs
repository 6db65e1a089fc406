//! Threads beside the caller's: the one door to them for the engine (`intent`, `members`, `store`, `fs`). What goes to several
//! disks at once has helpers of its own, that stay ([`Fanout`](crate::Fanout)); here is work of the engine itself: blocks that are
//! read together, a log that is read ahead, a replay that is decoded and synced beside itself.
//!
//! **Why one door.** What happens in one thread depends on its input alone, and a simulation of it can be repeated; so whoever
//! runs the engine says once whether it may have threads, in its [`Platform`](crate::Platform). A thread that somebody starts
//! elsewhere is one that a simulation does not know of, and a test of the workspace forbids it.
//!
//! **What it costs.** Threads live as long as the work: a start takes tens of microseconds, and what they do takes milliseconds.
//! Nothing that a request waits for comes this way but reads of many blocks. Where the system has no thread to give, the caller
//! does the work himself, or does without.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{Builder, JoinHandle, Scope, ScopedJoinHandle};

use tally_base::blocking;

/// Whether there are threads beside the caller's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Helpers {
    /// As many as the work wants.
    Threads,
    /// None: one thing after the other, in the caller's thread, in the order in which it was asked for.
    Serial,
}

impl Helpers {
    /// Calls `work` for 0..count, up to `depth` at a time, and returns when all are done.
    pub fn each(self, count: usize, depth: usize, work: &(dyn Fn(usize) + Sync)) {
        if self == Self::Serial || count <= 1 || depth <= 1 {
            return (0..count).for_each(work);
        }
        let next = AtomicUsize::new(0);
        let drain = || {
            loop {
                let at = next.fetch_add(1, Ordering::Relaxed);
                if at >= count {
                    return;
                }
                work(at);
            }
        };
        std::thread::scope(|scope| {
            for _ in 1..depth.min(count) {
                // Where the system has no thread to give, this one does the work alone.
                let _ = Builder::new().spawn_scoped(scope, drain);
            }
            // The others may be at it for longer than this one.
            blocking(drain);
        });
    }

    /// Begins something whose result is wanted later, in a thread of this name; `None`: nobody does it.
    pub fn begin<T: Send + 'static>(self, name: &str, work: impl FnOnce() -> T + Send + 'static) -> Option<Begun<T>> {
        if self == Self::Serial {
            return None;
        }
        Builder::new().name(name.into()).spawn(work).ok().map(|thread| Begun(Some(thread)))
    }

    /// Helpers that may borrow what lives longer than `run`: when this returns, all that they have begun has ended.
    pub fn within<'env, T>(self, run: impl for<'scope> FnOnce(Within<'scope, 'env>) -> T) -> T {
        std::thread::scope(|scope| run(Within { helpers: self, scope }))
    }
}

/// Something that is done beside the caller. It is always waited for: it may have a disk open, and whoever gives up a pool may open
/// that disk anew at once.
pub struct Begun<T>(Option<JoinHandle<T>>);

impl<T> Begun<T> {
    /// Waits for its result; nothing if it died.
    pub fn result(mut self) -> Option<T> {
        self.0.take()?.join().ok()
    }
}

impl<T> Drop for Begun<T> {
    fn drop(&mut self) {
        if let Some(thread) = self.0.take() {
            // Nobody needs its result.
            let _ = thread.join();
        }
    }
}

/// Helpers of one call.
#[derive(Clone, Copy)]
pub struct Within<'scope, 'env> {
    helpers: Helpers,
    scope: &'scope Scope<'scope, 'env>,
}

impl<'scope> Within<'scope, '_> {
    /// Begins something; `None`: nobody does it.
    pub fn begin<T: Send + 'scope>(self, work: impl FnOnce() -> T + Send + 'scope) -> Option<BegunWithin<'scope, T>> {
        if self.helpers == Helpers::Serial {
            return None;
        }
        Builder::new().spawn_scoped(self.scope, work).ok().map(BegunWithin)
    }
}

/// Something that is done beside the caller, and ends within the call.
pub struct BegunWithin<'scope, T>(ScopedJoinHandle<'scope, T>);

impl<T> BegunWithin<'_, T> {
    /// Whether its result is there.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.0.is_finished()
    }

    /// Waits for its result. If it panicked, so does this.
    pub fn result(self) -> T {
        self.0.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

#[cfg(test)]
mod tests;

//! A recording of the load: when each request came and what it took, kept only while somebody asks for it.
//!
//! Always recording would cost memory for nobody. One look at a flag is what a request pays while nobody records.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use parking_lot::Mutex;

use super::accounts::Paid;

/// Requests of one recording; what comes later is not in it.
pub const EVENTS_MAX: usize = 150_000;

/// One request whose answer was sent.
#[derive(Clone, Copy, Debug)]
pub struct Event {
    /// Number of its connection.
    pub connection: u64,
    /// When its last byte was read.
    pub read_at: Instant,
    /// Its bytes and times, as the accounts have them.
    pub paid: Paid,
}

/// Records while it is on.
#[derive(Debug, Default)]
pub struct Recorder {
    on: AtomicBool,
    events: Mutex<Vec<Event>>,
}

impl Recorder {
    /// Begins a recording; `false` if one is under way.
    pub fn begin(&self) -> bool {
        let mut events = self.events.lock();
        if self.on.swap(true, Ordering::Relaxed) {
            return false;
        }
        events.clear();
        true
    }

    /// Ends it, and gives what was recorded, in the order of replies.
    pub fn end(&self) -> Vec<Event> {
        self.on.store(false, Ordering::Relaxed);
        std::mem::take(&mut *self.events.lock())
    }

    /// Whether there is room for more.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.events.lock().len() < EVENTS_MAX
    }

    /// One more, if somebody records.
    pub(crate) fn note(&self, event: impl FnOnce() -> Event) {
        if !self.on.load(Ordering::Relaxed) {
            return;
        }
        let mut events = self.events.lock();
        if events.len() < EVENTS_MAX && self.on.load(Ordering::Relaxed) {
            events.push(event());
        }
    }
}

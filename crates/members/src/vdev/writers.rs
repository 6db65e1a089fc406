//! Who writes to the legs of a vdev: many at the same time, or one alone who must know what the legs have.
//!
//! Whoever copies reads with nobody kept out, and writes alone what he has read. In between somebody may have written to the same
//! place: so he says beforehand which range he is about to read ([`Writers::watch`]), and everybody who writes there leaves a mark (rules S5).

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Shared by writes, and taken alone by repairs and by what a copy writes. Behind the lock are the ranges that are watched: few, and mostly none.
#[derive(Default)]
pub(super) struct Writers(RwLock<Vec<Arc<Watched>>>);

struct Watched {
    range: Range<u64>,
    is_touched: AtomicBool,
}

impl Writers {
    /// To write a range beside others.
    pub(super) fn shared(&self, range: Range<u64>) -> impl Sized {
        let watched: RwLockReadGuard<'_, _> = self.0.read();
        mark(&watched, &range);
        watched
    }

    /// To look at a range and write it with all others kept out.
    pub(super) fn alone(&self, range: Range<u64>) -> impl Sized {
        let watched: RwLockWriteGuard<'_, _> = self.0.write();
        mark(&watched, &range);
        watched
    }

    /// From here on it is known whether somebody writes to this range; all who have begun before are through.
    pub(super) fn watch(&self, range: Range<u64>) -> Watch<'_> {
        let watched = Arc::new(Watched { range, is_touched: AtomicBool::new(false) });
        self.0.write().push(Arc::clone(&watched));
        Watch { writers: self, watched }
    }
}

fn mark(watched: &[Arc<Watched>], range: &Range<u64>) {
    let meets = |watched: &&Arc<Watched>| watched.range.start < range.end && range.start < watched.range.end;
    // The lock carries it over: whoever asks has it alone.
    watched.iter().filter(meets).for_each(|watched| watched.is_touched.store(true, Ordering::Relaxed));
}

/// A range that somebody has read, or is about to; until it is dropped.
pub(super) struct Watch<'a> {
    writers: &'a Writers,
    watched: Arc<Watched>,
}

impl Watch<'_> {
    /// Calls `write` with all others kept out: with whether somebody has written to the range since it is watched.
    pub(super) fn alone<T>(&self, write: impl FnOnce(bool) -> T) -> T {
        let _alone = self.writers.0.write();
        write(self.watched.is_touched.load(Ordering::Relaxed))
    }
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        self.writers.0.write().retain(|watched| !Arc::ptr_eq(watched, &self.watched));
    }
}

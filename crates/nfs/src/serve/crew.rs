//! How many workers there are, and what they are at.
//!
//! A worker that is ready to run and is not on a processor holds requests and replies that others could have carried
//! out: with 32 workers on two processors, the slowest hundredth of the requests of 64 clients took eight times as
//! long as the middle. So only a few run at once, and only a few sit in epoll, from where an event would have
//! them run; the rest is called when those wait for devices or locks.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use parking_lot::{Condvar, Mutex};

/// The workers.
pub(super) struct Crew {
    /// Most that run before another is called; and most that sit in epoll, ready to run.
    running_max: usize,
    all: AtomicUsize,
    /// Those that are in epoll, or are on their way there because they were called.
    watching: AtomicUsize,
    /// Those that are at work, and not in a device or behind a lock.
    running: AtomicUsize,
    bench: Mutex<Bench>,
    called: Condvar,
}

/// Workers that nobody needs now.
#[derive(Default)]
struct Bench {
    sitting: usize,
    calls: usize,
    ended: bool,
}

impl Crew {
    pub(super) fn new(running_max: usize) -> Self {
        Self {
            running_max: running_max.max(1),
            all: AtomicUsize::new(0),
            watching: AtomicUsize::new(0),
            running: AtomicUsize::new(0),
            bench: Mutex::default(),
            called: Condvar::new(),
        }
    }

    pub(super) fn count(&self) -> usize {
        self.all.load(SeqCst)
    }

    /// Whether somebody waits in epoll, and so takes the next event.
    pub(super) fn is_watched(&self) -> bool {
        self.watching.load(SeqCst) > 0
    }

    /// Whether nobody watches, and a processor may have nothing to do.
    pub(super) fn wants_one_more(&self) -> bool {
        !self.is_watched() && self.running.load(SeqCst) < self.running_max
    }

    /// Sends a worker from the bench to the epoll; false if the bench is empty.
    pub(super) fn call(&self) -> bool {
        let mut bench = self.bench.lock();
        if bench.sitting == 0 {
            return false;
        }
        // Somebody else may have been faster.
        if !self.is_watched() {
            bench.sitting -= 1;
            bench.calls += 1;
            self.watching.fetch_add(1, SeqCst);
            self.called.notify_one();
        }
        true
    }

    /// Counts a new worker, which is on its way to the epoll; gives its number, or nothing if there are `most`.
    pub(super) fn hire(&self, most: usize) -> Option<usize> {
        let hired = self.all.fetch_update(SeqCst, SeqCst, |all| (all < most).then_some(all + 1)).ok()?;
        self.watching.fetch_add(1, SeqCst);
        Some(hired)
    }

    /// Takes [`Self::hire`] back.
    pub(super) fn dismiss(&self) {
        self.all.fetch_sub(1, SeqCst);
        self.watching.fetch_sub(1, SeqCst);
    }

    /// A worker has nothing to do. Returns when it may wait in epoll, which can take long.
    pub(super) fn enter_watch(&self) {
        self.running.fetch_sub(1, SeqCst);
        if self.watching.fetch_add(1, SeqCst) < self.running_max {
            return;
        }
        let mut bench = self.bench.lock();
        // Under the lock of those who call: whoever finds nobody watching finds this one on the bench.
        if self.watching.fetch_sub(1, SeqCst) <= self.running_max || bench.ended {
            self.watching.fetch_add(1, SeqCst);
            return;
        }
        bench.sitting += 1;
        while bench.calls == 0 && !bench.ended {
            self.called.wait(&mut bench);
        }
        if bench.calls > 0 {
            bench.calls -= 1;
        } else {
            self.watching.fetch_add(1, SeqCst);
        }
    }

    /// It comes from epoll.
    pub(super) fn leave_watch(&self) {
        self.running.fetch_add(1, SeqCst);
        self.watching.fetch_sub(1, SeqCst);
    }

    /// It waits for a device or a lock.
    pub(super) fn sit_down(&self) {
        self.running.fetch_sub(1, SeqCst);
    }

    /// It goes on.
    pub(super) fn stand_up(&self) {
        self.running.fetch_add(1, SeqCst);
    }

    /// Everybody leaves the bench, and nobody sits down on it again.
    pub(super) fn end(&self) {
        self.bench.lock().ended = true;
        self.called.notify_all();
    }
}

//! Requests that are under way, and those that are to be run again.
//!
//! ```text
//!            begin                  promised
//!  (nobody) ───────▶ Runs ────────────────────────▶ Promised ──▶ end: answered by who keeps the promise
//!                    │  ▲ └─── end: answered
//!               park │  │ next: it is due
//!                    ▼  │
//!                   Parked ──▶ interrupt: answered EINTR, and nothing was done
//! ```
//!
//! A program that waits and gets a signal has the kernel say so (INTERRUPT). Who is parked has done nothing, and is let go. What is promised has happened, and its answer comes. What
//! runs is told when it would be parked. An INTERRUPT may be read before the request that it is about has begun here: then the kernel is asked to say it again (EAGAIN).
//!
//! *Bounds.* The kernel sends one request for each thread that waits, which is bounded by what the machine takes; but a parked one keeps what it has brought, so those are
//! [`PARKED_MAX`] and [`PARKED_BYTES_MAX`] together, and who finds no room stays in his thread.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Instant;

use bytes::Bytes;
use foldhash::HashMap;
use parking_lot::{Condvar, Mutex};
use tally_vfs::ObjectRef;

use crate::opens::Way;

/// Most that are parked.
pub(crate) const PARKED_MAX: usize = 4096;
/// Most that they have brought together, bytes: as many writes of the longest kind as a few hundred programs have under way.
pub(crate) const PARKED_BYTES_MAX: usize = 128 << 20;

/// A request, until it is answered.
#[derive(Debug)]
pub(crate) struct Job {
    /// Its number.
    pub(crate) unique: u64,
    /// All of it.
    pub(crate) message: Bytes,
    /// When it came.
    pub(crate) since: Instant,
}

/// What a thread that runs things again is given.
#[derive(Debug)]
pub(crate) enum Task {
    /// Run it again.
    Run(Job),
    /// What was opened for a request that nobody heard the answer of.
    Close(ObjectRef, Way),
}

/// Why a request is not parked.
#[derive(Debug)]
pub(crate) enum NotParked {
    /// Its program has been interrupted.
    Interrupted,
    /// There is no room.
    Full(Job),
}

/// What an INTERRUPT comes to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Interrupted {
    /// Nobody knows the request, yet or any more.
    Unknown,
    /// It is answered in time.
    Noted,
    /// It did nothing, and is not run again.
    LetGo,
}

enum State {
    Runs { interrupted: bool },
    Promised,
    Parked(Job),
}

#[derive(Default)]
struct Places {
    requests: HashMap<u64, State>,
    due: BinaryHeap<Reverse<(Instant, u64)>>,
    to_close: Vec<(ObjectRef, Way)>,
    parked: usize,
    parked_bytes: usize,
    ended: bool,
}

/// All of a mount.
#[derive(Default)]
pub(crate) struct UnderWay {
    places: Mutex<Places>,
    changed: Condvar,
}

impl UnderWay {
    /// One has come. Whether it is alone.
    pub(crate) fn begin(&self, unique: u64) -> bool {
        let mut places = self.places.lock();
        places.requests.insert(unique, State::Runs { interrupted: false });
        places.requests.len() == 1
    }

    /// What it has done happens, and will be answered.
    pub(crate) fn promised(&self, unique: u64) {
        self.places.lock().requests.insert(unique, State::Promised);
    }

    /// It is answered.
    pub(crate) fn end(&self, unique: u64) {
        self.places.lock().requests.remove(&unique);
    }

    /// It is to be run again, at that time or when it is woken.
    pub(crate) fn park(&self, job: Job, due: Option<Instant>) -> Result<(), NotParked> {
        let mut places = self.places.lock();
        if matches!(places.requests.get(&job.unique), Some(State::Runs { interrupted: true })) {
            return Err(NotParked::Interrupted);
        }
        if places.parked >= PARKED_MAX || places.parked_bytes + job.message.len() > PARKED_BYTES_MAX {
            return Err(NotParked::Full(job));
        }
        places.parked += 1;
        places.parked_bytes += job.message.len();
        let unique = job.unique;
        places.requests.insert(unique, State::Parked(job));
        if let Some(due) = due {
            places.due.push(Reverse((due, unique)));
            self.changed.notify_one();
        }
        Ok(())
    }

    /// What it waited for is over.
    pub(crate) fn wake(&self, unique: u64) {
        self.places.lock().due.push(Reverse((Instant::now(), unique)));
        self.changed.notify_one();
    }

    /// To be closed by a thread that may wait for the file's lock.
    pub(crate) fn close(&self, object: ObjectRef, way: Way) {
        self.places.lock().to_close.push((object, way));
        self.changed.notify_one();
    }

    /// A program is interrupted.
    pub(crate) fn interrupt(&self, unique: u64) -> Interrupted {
        let mut places = self.places.lock();
        match places.requests.get_mut(&unique) {
            None => Interrupted::Unknown,
            Some(State::Promised) => Interrupted::Noted,
            Some(State::Runs { interrupted }) => {
                *interrupted = true;
                Interrupted::Noted
            }
            Some(State::Parked(_)) => {
                drop(places.unpark(unique));
                Interrupted::LetGo
            }
        }
    }

    /// What is due next; waits for it. Nothing: it is the end.
    pub(crate) fn next(&self) -> Option<Task> {
        let mut places = self.places.lock();
        loop {
            if places.ended {
                return None;
            }
            if let Some((object, way)) = places.to_close.pop() {
                return Some(Task::Close(object, way));
            }
            match places.due.peek().copied() {
                None => self.changed.wait(&mut places),
                Some(Reverse((due, _))) if due > Instant::now() => {
                    let _ = self.changed.wait_until(&mut places, due);
                }
                Some(Reverse((_, unique))) => {
                    places.due.pop();
                    // Whoever was interrupted meanwhile is there no more.
                    if let Some(job) = places.unpark(unique) {
                        places.requests.insert(unique, State::Runs { interrupted: false });
                        return Some(Task::Run(job));
                    }
                }
            }
        }
    }

    /// How many are parked.
    pub(crate) fn parked(&self) -> usize {
        self.places.lock().parked
    }

    /// Nothing is run again.
    pub(crate) fn finish(&self) {
        let mut places = self.places.lock();
        *places = Places { ended: true, ..Places::default() };
        self.changed.notify_all();
    }
}

impl Places {
    fn unpark(&mut self, unique: u64) -> Option<Job> {
        match self.requests.remove(&unique)? {
            State::Parked(job) => {
                self.parked -= 1;
                self.parked_bytes -= job.message.len();
                Some(job)
            }
            other => {
                self.requests.insert(unique, other);
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn job(unique: u64, bytes: usize) -> Job {
        Job { unique, message: vec![0; bytes].into(), since: Instant::now() }
    }

    #[test]
    fn who_is_parked_is_run_again_or_interrupted_and_never_both() {
        let under_way = UnderWay::default();
        let now = Instant::now();
        assert!(under_way.begin(1) && !under_way.begin(2));
        under_way.park(job(1, 8), Some(now + Duration::from_millis(5))).unwrap();
        under_way.park(job(2, 8), Some(now)).unwrap();
        assert_eq!(under_way.interrupt(2), Interrupted::LetGo);
        assert_eq!(under_way.interrupt(2), Interrupted::Unknown);
        assert!(matches!(under_way.next(), Some(Task::Run(Job { unique: 1, .. }))));
        assert!(now.elapsed() >= Duration::from_millis(5) && under_way.parked() == 0);

        // What runs hears of it when it would wait, and what has happened is answered.
        assert_eq!(under_way.interrupt(1), Interrupted::Noted);
        assert!(matches!(under_way.park(job(1, 8), None), Err(NotParked::Interrupted)));
        under_way.begin(3);
        under_way.promised(3);
        assert_eq!(under_way.interrupt(3), Interrupted::Noted);
        under_way.end(3);
        assert_eq!(under_way.interrupt(3), Interrupted::Unknown);
    }

    #[test]
    fn who_is_woken_before_anybody_looks_is_not_missed() {
        let under_way = UnderWay::default();
        under_way.begin(1);
        under_way.park(job(1, 8), None).unwrap();
        under_way.wake(1);
        // Of one that is gone nobody hears.
        under_way.wake(7);
        assert!(matches!(under_way.next(), Some(Task::Run(Job { unique: 1, .. }))));
        under_way.finish();
        assert!(under_way.next().is_none());
    }

    #[test]
    fn what_is_parked_is_bounded_by_number_and_by_bytes() {
        let under_way = UnderWay::default();
        let full = |unique, bytes| {
            under_way.begin(unique);
            matches!(under_way.park(job(unique, bytes), None), Err(NotParked::Full(_)))
        };
        let halves = (0..3).map(|unique| full(unique, PARKED_BYTES_MAX / 2)).collect::<Vec<_>>();
        assert_eq!(halves, [false, false, true]);
        (0..2).for_each(|unique| assert_eq!(under_way.interrupt(unique), Interrupted::LetGo));
        assert_eq!((10..).position(|unique| full(unique, 1)), Some(PARKED_MAX));
    }
}

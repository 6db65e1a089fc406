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
//! A program that waits and gets a signal has the kernel say so (INTERRUPT), of the first signal and whichever it is. Who is parked has done nothing, and is let go: where he waits for a range, by any signal, as `F_SETLKW` is; else he is *patient*, and let go where the signal ends his program (`signals`), which is looked for
//! from his first one on, each [`LOOK`], as the kernel tells of no second. What is promised has happened, and its answer comes. What runs is told when it would be parked. An INTERRUPT may be read before the request that it is about has begun here: then the kernel is asked to say it again (EAGAIN).
//!
//! *Who is kept out by what another one has* of a file says so ([`UnderWay::awaits`]) and asks then once more: what is freed from there on, at whichever door, makes him due, also where he is not parked yet (rules V44).
//! The kernel waits for each answer, whatever signals come: so who is granted a range in the moment in which he is interrupted has it, and is told so.
//!
//! *Bounds.* The kernel sends one request for each thread that waits, which is bounded by what the machine takes; but a parked one keeps what it has brought, so those are
//! [`PARKED_MAX`] and [`PARKED_BYTES_MAX`] together, and who finds no room stays in his thread. Locks may be waited for without an end: those are [`AWAITING_MAX`], which leaves room for others.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use bytes::Bytes;
use foldhash::HashMap;
use parking_lot::{Condvar, Mutex, MutexGuard};
use smallvec::SmallVec;
use tally_base::ObjectId;
use tally_vfs::ObjectRef;
use tally_vfs::locks::{Range, Watch};

use crate::signals;
use crate::wire;

/// Most that are parked.
pub(crate) const PARKED_MAX: usize = 4096;
/// Most that they have brought together, bytes: as many writes of the longest kind as a few hundred programs have under way.
pub(crate) const PARKED_BYTES_MAX: usize = 128 << 20;
/// Most that wait for what others have of a file.
pub(crate) const AWAITING_MAX: usize = 2048;

const _: () = assert!(AWAITING_MAX < PARKED_MAX);

/// How often it is looked whether programs are about to end that have had a signal and wait on.
const LOOK: Duration = Duration::from_secs(1);

/// A request, until it is answered.
#[derive(Clone, Debug)]
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
    /// Its program ends: it is answered EINTR, and nothing was done.
    LetGo(u64),
    /// What was opened for a request that nobody heard the answer of.
    Close(ObjectRef, u64),
}

/// Why a request is not parked.
#[derive(Debug)]
pub(crate) enum NotParked {
    /// Its program has been interrupted.
    Interrupted,
    /// There is no room.
    Full(Job),
    /// Nothing is run here any more.
    Over(Job),
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

struct Request {
    state: State,
    /// Its program has a signal.
    interrupted: bool,
    awaits: Option<Awaited>,
    /// Since when it is kept out by what a client was given to keep, and by nothing else.
    kept_out: Option<Instant>,
}

enum State {
    Runs,
    Promised,
    /// And when it is run again. `is_patient`: only what ends its program ends that.
    Parked {
        job: Job,
        due: Option<Instant>,
        is_patient: bool,
    },
}

/// What somebody needs that others have.
struct Awaited {
    object: ObjectId,
    range: Range,
    /// Something of it was given up since he has asked last.
    is_freed: bool,
}

#[derive(Default)]
struct Places {
    requests: HashMap<u64, Request>,
    /// Those that are parked, by when they are run again.
    due: BTreeSet<(Instant, u64)>,
    /// Those that await something, by whose it is.
    awaiting: BTreeSet<(ObjectId, u64)>,
    /// Those that are parked, are patient and have had a signal; and when they are looked at.
    signalled: BTreeSet<u64>,
    look: Option<Instant>,
    /// Whose program ends: nobody has answered yet.
    let_go: Vec<u64>,
    to_close: Vec<(ObjectRef, u64)>,
    parked: usize,
    parked_bytes: usize,
    ended: bool,
}

/// All of a mount.
pub(crate) struct UnderWay {
    places: Mutex<Places>,
    changed: Condvar,
    /// Whether the program of a request is about to end.
    is_ending: Box<dyn Fn(&Job) -> bool + Send + Sync>,
}

impl Default for UnderWay {
    fn default() -> Self {
        let is_ending = |job: &Job| wire::header(&job.message).map_or(true, |who| signals::is_ending(&who));
        Self { places: Mutex::default(), changed: Condvar::new(), is_ending: Box::new(is_ending) }
    }
}

impl UnderWay {
    /// One has come. Whether no other one runs.
    pub(crate) fn begin(&self, unique: u64) -> bool {
        let mut places = self.places.lock();
        // No kernel has two of one number; a descriptor may be anybody's.
        drop(places.forget(unique));
        places
            .requests
            .insert(unique, Request { state: State::Runs, interrupted: false, awaits: None, kept_out: None });
        places.requests.len() - places.parked == 1
    }

    /// What it has done happens, and will be answered.
    pub(crate) fn promised(&self, unique: u64) {
        if let Some(request) = self.places.lock().requests.get_mut(&unique) {
            request.state = State::Promised;
        }
    }

    /// It is answered.
    pub(crate) fn end(&self, unique: u64) {
        drop(self.places.lock().forget(unique));
    }

    /// One that runs needs what others have of an object. False: as many as may be need such a thing.
    pub(crate) fn awaits(&self, unique: u64, object: ObjectId, range: Range) -> bool {
        let mut places = self.places.lock();
        let Places { requests, awaiting, .. } = &mut *places;
        let Some(request) = requests.get_mut(&unique) else { return false };
        if !awaiting.contains(&(object, unique)) {
            if awaiting.len() >= AWAITING_MAX {
                return false;
            }
            if let Some(before) = &request.awaits {
                awaiting.remove(&(before.object, unique));
            }
            awaiting.insert((object, unique));
        }
        request.awaits = Some(Awaited { object, range, is_freed: false });
        true
    }

    /// One that runs is kept out by what a client was given to keep: for how long by now. Each time that it is run again it is said anew, or has waited for something else.
    pub(crate) fn kept_out(&self, unique: u64, now: Instant) -> Duration {
        let mut places = self.places.lock();
        let since = places.requests.get_mut(&unique).map(|request| *request.kept_out.get_or_insert(now));
        since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since))
    }

    /// It waits for something else.
    pub(crate) fn is_not_kept_out(&self, unique: u64) {
        if let Some(request) = self.places.lock().requests.get_mut(&unique) {
            request.kept_out = None;
        }
    }

    /// It is to be run again, at that time or when it is woken. `is_patient`: no signal ends that but one that ends its program.
    pub(crate) fn park(&self, job: Job, due: Option<Instant>, is_patient: bool) -> Result<(), NotParked> {
        let mut places = self.places.lock();
        let (unique, bytes) = (job.unique, job.message.len());
        if places.ended {
            return Err(NotParked::Over(job));
        }
        let has_room = places.parked < PARKED_MAX && places.parked_bytes + bytes <= PARKED_BYTES_MAX;
        let Some(request) = places.requests.get_mut(&unique) else { return Err(NotParked::Interrupted) };
        let is_signalled = request.interrupted;
        if is_signalled && (!is_patient || (self.is_ending)(&job)) {
            return Err(NotParked::Interrupted);
        }
        if !has_room {
            return Err(NotParked::Full(job));
        }
        let is_freed = request.awaits.as_ref().is_some_and(|awaits| awaits.is_freed);
        request.state = State::Parked { job, due: None, is_patient };
        if is_signalled {
            places.signalled(unique);
            self.changed.notify_one();
        }
        places.parked += 1;
        places.parked_bytes += bytes;
        if let Some(due) = if is_freed { Some(Instant::now()) } else { due } {
            places.run_at(unique, due);
            self.changed.notify_one();
        }
        Ok(())
    }

    /// What it waited for is over.
    pub(crate) fn wake(&self, unique: u64) {
        self.places.lock().run_at(unique, Instant::now());
        self.changed.notify_one();
    }

    /// To be closed by a thread that may wait for the file's lock.
    pub(crate) fn close(&self, object: ObjectRef, fh: u64) {
        self.places.lock().to_close.push((object, fh));
        self.changed.notify_one();
    }

    /// A program is interrupted.
    pub(crate) fn interrupt(&self, unique: u64) -> Interrupted {
        let mut places = self.places.lock();
        let Some(request) = places.requests.get_mut(&unique) else { return Interrupted::Unknown };
        request.interrupted = true;
        let State::Parked { job, is_patient, .. } = &request.state else { return Interrupted::Noted };
        if !is_patient || (self.is_ending)(job) {
            drop(places.forget(unique));
            return Interrupted::LetGo;
        }
        places.signalled(unique);
        self.changed.notify_one();
        Interrupted::Noted
    }

    /// What is due next; waits for it. Nothing: it is the end.
    pub(crate) fn next(&self) -> Option<Task> {
        let mut places = self.places.lock();
        loop {
            if places.ended {
                return None;
            }
            if let Some((object, fh)) = places.to_close.pop() {
                return Some(Task::Close(object, fh));
            }
            if let Some(unique) = places.let_go.pop() {
                return Some(Task::LetGo(unique));
            }
            let now = Instant::now();
            if places.look.is_some_and(|look| look <= now) {
                places.look = Some(now + LOOK);
                self.look_at_signalled(&mut places);
                continue;
            }
            if let Some((due, unique)) = places.due.first().copied().filter(|(due, _)| *due <= now) {
                places.due.remove(&(due, unique));
                if let Some(job) = places.unpark(unique) {
                    return Some(Task::Run(job));
                }
                continue;
            }
            let until = places.due.first().map(|(due, _)| *due).into_iter().chain(places.look).min();
            match until {
                None => self.changed.wait(&mut places),
                Some(until) => _ = self.changed.wait_until(&mut places, until),
            }
        }
    }

    /// Those whose programs end by now are let go. Nobody waits for what the kernel says of them.
    fn look_at_signalled(&self, places: &mut MutexGuard<'_, Places>) {
        let parked = |unique: &u64| match &places.requests.get(unique)?.state {
            State::Parked { job, .. } => Some(job.clone()),
            _ => None,
        };
        let jobs: Vec<_> = places.signalled.iter().filter_map(parked).collect();
        let ending = MutexGuard::unlocked(places, || {
            jobs.iter().filter(|job| (self.is_ending)(job)).map(|job| job.unique).collect::<Vec<_>>()
        });
        for unique in ending {
            if places.signalled.contains(&unique) {
                drop(places.forget(unique));
                places.let_go.push(unique);
            }
        }
        if places.signalled.is_empty() {
            places.look = None;
        }
    }

    /// How many are parked.
    pub(crate) fn parked(&self) -> usize {
        self.places.lock().parked
    }

    /// Nothing is run again. Gives what was to be, and whom nobody has told yet that he is let go.
    pub(crate) fn finish(&self) -> (Vec<Job>, Vec<u64>) {
        let mut places = self.places.lock();
        let before = std::mem::replace(&mut *places, Places { ended: true, ..Places::default() });
        self.changed.notify_all();
        let parked = before.requests.into_values().filter_map(|request| match request.state {
            State::Parked { job, .. } => Some(job),
            State::Runs | State::Promised => None,
        });
        (parked.collect(), before.let_go)
    }
}

#[cfg(test)]
impl UnderWay {
    pub(crate) fn is_under_way(&self, unique: u64) -> bool {
        self.places.lock().requests.contains_key(&unique)
    }

    /// How many are due, now or later.
    pub(crate) fn due(&self) -> usize {
        let places = self.places.lock();
        assert!(places.due.len() <= places.parked && places.awaiting.len() <= places.requests.len());
        places.due.len()
    }
}

impl Watch for UnderWay {
    fn freed(&self, object: ObjectId, range: Range) {
        let mut places = self.places.lock();
        let those = places.awaiting.range((object, 0)..=(object, u64::MAX)).map(|(_, unique)| *unique);
        for unique in those.collect::<SmallVec<[u64; 4]>>() {
            let awaits = places.requests.get_mut(&unique).and_then(|request| request.awaits.as_mut());
            let Some(awaits) = awaits.filter(|awaits| awaits.range.overlaps(range)) else { continue };
            awaits.is_freed = true;
            places.run_at(unique, Instant::now());
            self.changed.notify_one();
        }
    }
}

impl Places {
    /// One that is parked is run then, and not when it was to be before.
    fn run_at(&mut self, unique: u64, time: Instant) {
        if let Some(Request { state: State::Parked { due, .. }, .. }) = self.requests.get_mut(&unique) {
            if let Some(before) = due.replace(time) {
                self.due.remove(&(before, unique));
            }
            self.due.insert((time, unique));
        }
    }

    /// One that is parked, and patient, has had a signal.
    fn signalled(&mut self, unique: u64) {
        self.signalled.insert(unique);
        self.look.get_or_insert_with(|| Instant::now() + LOOK);
    }

    /// One that is parked runs.
    fn unpark(&mut self, unique: u64) -> Option<Job> {
        let request = self.requests.get_mut(&unique)?;
        match std::mem::replace(&mut request.state, State::Runs) {
            State::Parked { job, .. } => {
                self.parked -= 1;
                self.parked_bytes -= job.message.len();
                self.signalled.remove(&unique);
                Some(job)
            }
            other => {
                request.state = other;
                None
            }
        }
    }

    /// It is no more.
    fn forget(&mut self, unique: u64) -> Option<Request> {
        let request = self.requests.remove(&unique)?;
        if let State::Parked { job, due, .. } = &request.state {
            self.signalled.remove(&unique);
            self.parked -= 1;
            self.parked_bytes -= job.message.len();
            if let Some(due) = due {
                self.due.remove(&(*due, unique));
            }
        }
        if let Some(awaits) = &request.awaits {
            self.awaiting.remove(&(awaits.object, unique));
        }
        Some(request)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn job(unique: u64, bytes: usize) -> Job {
        Job { unique, message: vec![0; bytes].into(), since: Instant::now() }
    }

    #[test]
    fn who_is_parked_is_run_again_or_interrupted_and_never_both() {
        let under_way = UnderWay::default();
        let now = Instant::now();
        assert!(under_way.begin(1) && !under_way.begin(2));
        under_way.park(job(1, 8), Some(now + Duration::from_millis(5)), false).unwrap();
        under_way.park(job(2, 8), Some(now), false).unwrap();
        assert_eq!(under_way.interrupt(2), Interrupted::LetGo);
        assert_eq!(under_way.interrupt(2), Interrupted::Unknown);
        assert!(matches!(under_way.next(), Some(Task::Run(Job { unique: 1, .. }))));
        assert!(now.elapsed() >= Duration::from_millis(5) && under_way.parked() == 0);

        // What runs hears of it when it would wait, and what has happened is answered.
        assert_eq!(under_way.interrupt(1), Interrupted::Noted);
        assert!(matches!(under_way.park(job(1, 8), None, false), Err(NotParked::Interrupted)));
        under_way.begin(3);
        under_way.promised(3);
        assert_eq!(under_way.interrupt(3), Interrupted::Noted);
        under_way.end(3);
        assert_eq!(under_way.interrupt(3), Interrupted::Unknown);
    }

    /// Whose programs end is said by a test.
    fn with_programs() -> (UnderWay, Arc<Mutex<BTreeSet<u64>>>) {
        let ending = Arc::new(Mutex::new(BTreeSet::new()));
        let those = Arc::clone(&ending);
        let is_ending = Box::new(move |job: &Job| those.lock().contains(&job.unique));
        (UnderWay { is_ending, ..UnderWay::default() }, ending)
    }

    /// A pool was suspended, and each signal that a program got broke its call off, of which it had never heard before; then none did, and nobody could kill it.
    #[test]
    fn who_is_patient_is_let_go_by_what_ends_his_program_alone() {
        let (under_way, ending) = with_programs();
        (1..5).for_each(|unique| _ = under_way.begin(unique));
        (1..4).for_each(|unique| under_way.park(job(unique, 8), None, true).unwrap());
        ending.lock().insert(1);
        assert_eq!(
            [1, 2, 3].map(|unique| under_way.interrupt(unique)),
            [Interrupted::LetGo, Interrupted::Noted, Interrupted::Noted]
        );
        // Of the signal that ends it nobody is told.
        ending.lock().insert(3);
        assert!(matches!(under_way.next(), Some(Task::LetGo(3))));
        // One that runs meanwhile is told of it when it would wait once more, or is looked at again.
        under_way.wake(2);
        assert!(matches!(under_way.next(), Some(Task::Run(Job { unique: 2, .. }))));
        under_way.park(job(2, 8), None, true).unwrap();
        ending.lock().extend([2, 4]);
        assert!(matches!(under_way.next(), Some(Task::LetGo(2))));
        assert_eq!(under_way.interrupt(4), Interrupted::Noted);
        assert!(matches!(under_way.park(job(4, 8), None, true), Err(NotParked::Interrupted)));
        let places = under_way.places.lock();
        assert!(places.signalled.is_empty() && places.parked == 0 && places.parked_bytes == 0);
    }

    /// A program with a timer heard EINTR of each `fsync` that took more than one part of the log.
    #[test]
    fn who_waits_for_what_comes_by_itself_hears_of_no_signal() {
        let (under_way, _) = with_programs();
        under_way.begin(1);
        under_way.park(job(1, 8), None, true).unwrap();
        assert_eq!(under_way.interrupt(1), Interrupted::Noted);
        under_way.wake(1);
        assert!(matches!(under_way.next(), Some(Task::Run(Job { unique: 1, .. }))));
        // Nor does it where it has to wait for that once more, and it does where it waits for a range.
        under_way.park(job(1, 8), None, true).unwrap();
        under_way.wake(1);
        assert!(matches!(under_way.next(), Some(Task::Run(Job { unique: 1, .. }))));
        assert!(matches!(under_way.park(job(1, 8), None, false), Err(NotParked::Interrupted)));
    }

    #[test]
    fn who_is_woken_before_anybody_looks_is_not_missed() {
        let under_way = UnderWay::default();
        under_way.begin(1);
        under_way.park(job(1, 8), None, false).unwrap();
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
            matches!(under_way.park(job(unique, bytes), None, false), Err(NotParked::Full(_)))
        };
        let halves = (0..3).map(|unique| full(unique, PARKED_BYTES_MAX / 2)).collect::<Vec<_>>();
        assert_eq!(halves, [false, false, true]);
        (0..2).for_each(|unique| assert_eq!(under_way.interrupt(unique), Interrupted::LetGo));
        assert_eq!((10..).position(|unique| full(unique, 1)), Some(PARKED_MAX));
    }

    const FILE: ObjectId = ObjectId(7);

    fn awaits(under_way: &UnderWay, unique: u64, first: u64) -> bool {
        under_way.begin(unique);
        under_way.awaits(unique, FILE, Range::between(first, first + 9).unwrap())
    }

    /// Between the refusal and the parking there is a moment in which the holder unlocks.
    #[test]
    fn what_is_freed_before_somebody_is_parked_for_it_is_not_missed() {
        let under_way = UnderWay::default();
        assert!(awaits(&under_way, 1, 0) && awaits(&under_way, 2, 0) && awaits(&under_way, 3, 20));
        under_way.park(job(2, 8), None, false).unwrap();
        under_way.freed(ObjectId(8), Range::ALL);
        under_way.freed(FILE, Range::between(9, 12).unwrap());
        assert_eq!(under_way.due(), 1);
        under_way.park(job(1, 8), None, false).unwrap();
        under_way.park(job(3, 8), None, false).unwrap();
        assert_eq!(under_way.due(), 2, "who waits for another range is not woken");
        assert!(matches!(under_way.next(), Some(Task::Run(Job { unique: 2, .. }))));
        // He asks again, and is refused by somebody who was faster.
        assert!(under_way.awaits(2, FILE, Range::ALL));
        under_way.park(job(2, 8), None, false).unwrap();
        assert_eq!(under_way.due(), 1);
        // What was answered, and who was interrupted, awaits nothing any more.
        assert!(matches!(under_way.next(), Some(Task::Run(Job { unique: 1, .. }))));
        under_way.end(1);
        assert_eq!(under_way.interrupt(3), Interrupted::LetGo);
        under_way.freed(FILE, Range::ALL);
        assert_eq!((under_way.due(), under_way.places.lock().awaiting.len()), (1, 1));
    }

    /// The holder unlocks, and unlocks, for as long as somebody waits who looks by himself as well.
    #[test]
    fn who_is_woken_often_is_due_once() {
        let under_way = UnderWay::default();
        awaits(&under_way, 1, 0);
        for _ in 0..100 {
            under_way.park(job(1, 8), Some(Instant::now() + Duration::from_secs(3600)), false).unwrap();
            (0..3).for_each(|_| under_way.freed(FILE, Range::ALL));
            assert_eq!(under_way.due(), 1);
            assert!(matches!(under_way.next(), Some(Task::Run(Job { unique: 1, .. }))));
            assert_eq!(under_way.due(), 0);
        }
        // A number that is there already, as no kernel would give it.
        under_way.park(job(1, 8), Some(Instant::now()), false).unwrap();
        under_way.begin(1);
        assert_eq!((under_way.due(), under_way.parked()), (0, 0));
    }

    #[test]
    fn who_awaits_something_leaves_room_for_others() {
        let under_way = UnderWay::default();
        assert_eq!((0..).position(|unique| !awaits(&under_way, unique, 0)), Some(AWAITING_MAX));
        under_way.end(5);
        assert!(awaits(&under_way, 9_999, 0));
        assert!(!under_way.awaits(77_777, FILE, Range::ALL), "it is not under way");
    }

    #[test]
    fn who_is_parked_keeps_nobody_from_being_alone() {
        let under_way = UnderWay::default();
        assert!(under_way.begin(1));
        under_way.park(job(1, 8), None, false).unwrap();
        assert!(under_way.begin(2) && !under_way.begin(3));
    }
}

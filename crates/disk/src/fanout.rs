//! Several disks at once: how a frame reaches the legs of a mirrored log, and a flush, a label and an uberblock all
//! disks of a pool. One after the other, 24 disks of 10 ms would take a quarter of a second for each.
//!
//! Two synchronous writes from one thread cost twice the latency of one (rules P2). A thread spawned for each
//! frame would cost tens of microseconds; so helpers stay, and sleep on a channel of their own between frames.
//! What is asked of one disk alone the caller does himself: a log on one leg never meets another thread. Of several he does
//! the first that has to be waited for however long that takes; where he may leave all of them ([`Patience`]) he does none,
//! as whoever is at a disk that hangs cannot leave it.
//!
//! A helper cannot borrow the caller's buffer without unsafe code, and may have it for longer than the caller waits, so the
//! helpers share one copy of it. That is a few hundred nanoseconds for a usual frame, and the write takes a hundred times as
//! long.

use std::io;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use crate::patience::not_answered;
use crate::{AlignedBuf, Disk, Durability, Patience};

/// Something to be done to one disk.
pub struct Work {
    run: Box<dyn FnOnce() -> io::Result<()> + Send>,
    patience: Option<Arc<dyn Patience>>,
    /// What it is done to.
    disk: Option<Arc<dyn Disk>>,
}

impl Work {
    /// Waited for until it has ended.
    #[must_use]
    pub fn new(run: impl FnOnce() -> io::Result<()> + Send + 'static) -> Self {
        Self { run: Box::new(run), patience: None, disk: None }
    }

    /// Something to be done to a disk, which may be left as that says. It owns whatever it needs.
    #[must_use]
    pub fn on(
        disk: &Arc<dyn Disk>,
        patience: Arc<dyn Patience>,
        run: impl FnOnce(&dyn Disk) -> io::Result<()> + Send + 'static,
    ) -> Self {
        let below = Arc::clone(disk);
        let run = Box::new(move || run(below.as_ref()));
        Self { run, patience: Some(patience), disk: Some(Arc::clone(disk)) }
    }

    /// The disk of something that may be left: as long as somebody has it, it stays open.
    #[must_use]
    pub fn disk(&self) -> Option<&Arc<dyn Disk>> {
        self.disk.as_ref()
    }

    /// Does it, in this thread.
    pub fn run(self) -> io::Result<()> {
        (self.run)()
    }

    /// Who decides whether it may be left, where it has an owner of its own.
    #[must_use]
    pub fn patience(&self) -> Option<Arc<dyn Patience>> {
        self.patience.clone().filter(|patience| patience.limit().has_owner())
    }
}

/// Does the same to several disks.
pub trait Fanout: Send + Sync {
    /// Carries out all of it; one outcome each, in the same order. It may ask for more while it is carried out. What was left
    /// is an error.
    fn each(&self, work: Vec<Work>) -> Vec<io::Result<()>>;

    /// Writes `buf` to every target (a disk and an offset on it); one outcome each, in the same order.
    fn write(&self, targets: &[(Arc<dyn Disk>, u64)], buf: &[u8], durability: Durability) -> Vec<io::Result<()>>;

    /// Has something done that nobody waits for; gives it back if there is nobody to do it.
    fn begin(&self, work: Work) -> Result<(), Work>;
}

/// One target after the other, in the caller's thread: for the simulator, and where order must be known. Nothing is left.
#[derive(Clone, Copy, Debug, Default)]
pub struct SerialFanout;

impl Fanout for SerialFanout {
    fn each(&self, work: Vec<Work>) -> Vec<io::Result<()>> {
        work.into_iter().map(Work::run).collect()
    }

    fn write(&self, targets: &[(Arc<dyn Disk>, u64)], buf: &[u8], durability: Durability) -> Vec<io::Result<()>> {
        let write = |(disk, offset): &(Arc<dyn Disk>, u64)| match disk.patient() {
            Some((below, _)) => below.write(*offset, buf, durability),
            None => disk.write(*offset, buf, durability),
        };
        targets.iter().map(write).collect()
    }

    fn begin(&self, work: Work) -> Result<(), Work> {
        Err(work)
    }
}

/// More helpers than this would mean as many stuck disks; what comes on top is done by the caller in turn. Both copies of an
/// uberblock go to 64 disks at once, and disks that hang keep some for good.
const HELPERS_MAX: usize = 512;

/// So often whoever waits looks whether he may leave. Nobody looks who is answered sooner.
const LOOK: Duration = Duration::from_millis(50);

/// All targets at the same time.
#[derive(Default)]
pub struct ThreadFanout {
    pool: Arc<Mutex<HelperPool>>,
}

#[derive(Default)]
struct HelperPool {
    /// Doors of the helpers that wait for work. Dropping a door ends its helper.
    idle: Vec<Sender<Job>>,
    helper_count: usize,
}

/// What a helper does for one caller. It carries the door of the helper that runs it, so that the helper can put it
/// back.
struct Job {
    work: Work,
    /// None: nobody waits for it.
    answer: Option<Answer>,
    door: Sender<Job>,
}

/// What a helper owes whoever waits: given once, and be it because it panicked.
struct Answer {
    target: usize,
    to: Option<Arc<Answers>>,
}

impl Answer {
    fn give(&mut self, outcome: io::Result<()>) {
        if let Some(answers) = self.to.take() {
            answers.put(self.target, outcome);
        }
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        self.give(died());
    }
}

/// Where the answers for one caller come together. Only the last one wakes him.
struct Answers {
    given: Mutex<Given>,
    all_there: Condvar,
}

struct Given {
    outcomes: Vec<Option<io::Result<()>>>,
    missing: usize,
}

impl Answers {
    fn put(&self, target: usize, outcome: io::Result<()>) {
        let mut given = self.given.lock();
        // Whoever has left it does not hear it.
        if let Some(place @ None) = given.outcomes.get_mut(target) {
            *place = Some(outcome);
            given.missing -= 1;
        }
        let is_last = given.missing == 0;
        drop(given);
        if is_last {
            self.all_there.notify_one();
        }
    }
}

fn died() -> io::Result<()> {
    Err(io::Error::other("the helper thread died"))
}

impl Fanout for ThreadFanout {
    fn each(&self, work: Vec<Work>) -> Vec<io::Result<()>> {
        if let [one] = work.as_slice()
            && one.patience().is_none()
        {
            return work.into_iter().map(Work::run).collect();
        }
        let mut waiting = Waiting::for_as_many_as(work.len());
        let mut own = Vec::new();
        for (index, work) in work.into_iter().enumerate() {
            let patience = work.patience();
            if patience.is_none() && own.is_empty() {
                own.push((index, work));
                continue;
            }
            match self.hand_out(work, Some(waiting.answer_for(index))) {
                Ok(()) => waiting.patience[index] = patience,
                Err(work) => own.push((index, work)),
            }
        }
        for (index, work) in own {
            waiting.answers.put(index, work.run());
        }
        waiting.wait()
    }

    fn write(&self, targets: &[(Arc<dyn Disk>, u64)], buf: &[u8], durability: Durability) -> Vec<io::Result<()>> {
        if let [(disk, offset)] = targets {
            return vec![disk.write(*offset, buf, durability)];
        }
        let shared = Arc::new(AlignedBuf::copy_of(buf));
        let write = |(disk, offset): &(Arc<dyn Disk>, u64)| {
            let (offset, buf) = (*offset, Arc::clone(&shared));
            if let Some((below, patience)) = disk.patient() {
                return Work::on(&below, patience, move |disk| disk.write(offset, &buf, durability));
            }
            let disk = Arc::clone(disk);
            Work::new(move || disk.write(offset, &buf, durability))
        };
        self.each(targets.iter().map(write).collect())
    }

    fn begin(&self, work: Work) -> Result<(), Work> {
        self.hand_out(work, None)
    }
}

impl ThreadFanout {
    /// Gives the work back if no helper takes it.
    fn hand_out(&self, work: Work, answer: Option<Answer>) -> Result<(), Work> {
        let Some(door) = self.helper() else { return Err(not_handed_out(work, answer)) };
        let job = Job { work, answer, door: door.clone() };
        door.send(job).map_err(|unsent| not_handed_out(unsent.0.work, unsent.0.answer))
    }

    /// An idle helper, or a new one.
    fn helper(&self) -> Option<Sender<Job>> {
        let mut pool = self.pool.lock();
        if let Some(door) = pool.idle.pop() {
            return Some(door);
        }
        if pool.helper_count == HELPERS_MAX {
            return None;
        }
        let (door, jobs) = mpsc::channel();
        let home = Arc::downgrade(&self.pool);
        let spawned = std::thread::Builder::new().name("tally-leg".into()).spawn(move || help(&jobs, &home));
        spawned.ok()?;
        pool.helper_count += 1;
        Some(door)
    }
}

/// Nobody owes an answer for work that its caller does.
fn not_handed_out(work: Work, answer: Option<Answer>) -> Work {
    answer.into_iter().for_each(|mut answer| drop(answer.to.take()));
    work
}

/// A caller, and what he waits for.
struct Waiting {
    began: Instant,
    /// Who decides, for each that may be left.
    patience: Vec<Option<Arc<dyn Patience>>>,
    answers: Arc<Answers>,
}

impl Waiting {
    fn for_as_many_as(count: usize) -> Self {
        let given = Given { outcomes: (0..count).map(|_| None).collect(), missing: count };
        let answers = Arc::new(Answers { given: Mutex::new(given), all_there: Condvar::new() });
        Self { began: Instant::now(), patience: vec![None; count], answers }
    }

    fn answer_for(&self, target: usize) -> Answer {
        Answer { target, to: Some(Arc::clone(&self.answers)) }
    }

    /// Until each has answered or was left.
    fn wait(self) -> Vec<io::Result<()>> {
        let mut given = self.answers.given.lock();
        // A helper that dies answers, too.
        while given.missing > 0 {
            if self.answers.all_there.wait_for(&mut given, LOOK).timed_out() {
                drop(given);
                self.leave();
                given = self.answers.given.lock();
            }
        }
        given.outcomes.drain(..).map(|outcome| outcome.unwrap_or_else(died)).collect()
    }

    /// Leaves those that may be left by now. What was decided holds, also where the answer comes meanwhile.
    fn leave(&self) {
        let waited = self.began.elapsed();
        for (index, patience) in self.patience.iter().enumerate() {
            let Some(patience) = patience else { continue };
            let is_missing = self.answers.given.lock().outcomes[index].is_none();
            // The limit is asked for each time: somebody may set one because he waits.
            let is_over = || patience.limit().is_over(waited);
            if is_missing && (patience.has_left() || is_over() && patience.may_leave(waited)) {
                let mut given = self.answers.given.lock();
                given.missing -= usize::from(given.outcomes[index].is_none());
                given.outcomes[index] = Some(Err(not_answered(waited)));
            }
        }
    }
}

/// A helper's life: it ends when its door is dropped, that is with the fanout.
fn help(jobs: &Receiver<Job>, home: &Weak<Mutex<HelperPool>>) {
    // A disk that panics takes its helper along; the pool must then be free to start another.
    let _count = Counted(home);
    while let Ok(Job { work, mut answer, door }) = jobs.recv() {
        // What the work holds is gone before the answer: whoever hears it may let go of the disk, and open it anew.
        let outcome = work.run();
        let Some(pool) = home.upgrade() else { return };
        // Idle before the answer: the caller's next frame finds this helper and starts no second one.
        pool.lock().idle.push(door);
        drop(pool);
        if let Some(answer) = &mut answer {
            answer.give(outcome);
        }
    }
}

struct Counted<'a>(&'a Weak<Mutex<HelperPool>>);

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        if let Some(pool) = self.0.upgrade() {
            pool.lock().helper_count -= 1;
        }
    }
}

#[cfg(test)]
mod tests;

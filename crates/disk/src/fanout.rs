//! Several disks at once: how a frame reaches the legs of a mirrored log, and a flush, a label and an uberblock all
//! disks of a pool. One after the other, 24 disks of 10 ms would take a quarter of a second for each.
//!
//! Two synchronous writes from one thread cost twice the latency of one (rules P2). A thread spawned for each
//! frame would cost tens of microseconds; so helpers stay, and sleep on a channel of their own between frames.
//! The caller always writes the first leg itself: a log on one leg never meets another thread.
//!
//! A helper cannot borrow the caller's buffer without unsafe code, so the helpers share one copy of it. That
//! is a few hundred nanoseconds for a usual frame, and the write takes a hundred times as long.

use std::io;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use crate::{AlignedBuf, Disk, Durability};

/// Something to be done to one disk.
pub type Work = Box<dyn FnOnce() -> io::Result<()> + Send>;

/// Does the same to several disks.
pub trait Fanout: Send + Sync {
    /// Carries out all of it; one outcome each, in the same order. It may ask for more while it is carried out.
    fn each(&self, work: Vec<Work>) -> Vec<io::Result<()>>;

    /// Writes `buf` to every target (a disk and an offset on it); one outcome each, in the same order.
    fn write_durable(&self, targets: &[(Arc<dyn Disk>, u64)], buf: &[u8]) -> Vec<io::Result<()>>;
}

/// One target after the other, in the caller's thread: for the simulator, and where order must be known.
#[derive(Clone, Copy, Debug, Default)]
pub struct SerialFanout;

impl Fanout for SerialFanout {
    fn each(&self, work: Vec<Work>) -> Vec<io::Result<()>> {
        work.into_iter().map(|work| work()).collect()
    }

    fn write_durable(&self, targets: &[(Arc<dyn Disk>, u64)], buf: &[u8]) -> Vec<io::Result<()>> {
        targets.iter().map(|(disk, offset)| disk.write(*offset, buf, Durability::Durable)).collect()
    }
}

/// More helpers than this would mean as many stuck disks; what comes on top is done by the caller in turn. Both copies of an
/// uberblock go to 64 disks at once.
const HELPERS_MAX: usize = 128;

/// All targets at the same time: the caller does the first, helper threads the others.
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
    target: usize,
    outcomes: Sender<(usize, io::Result<()>)>,
    door: Sender<Job>,
}

impl Fanout for ThreadFanout {
    fn each(&self, work: Vec<Work>) -> Vec<io::Result<()>> {
        let mut work = work.into_iter();
        let Some(first) = work.next() else { return Vec::new() };
        self.run(first, work)
    }

    fn write_durable(&self, targets: &[(Arc<dyn Disk>, u64)], buf: &[u8]) -> Vec<io::Result<()>> {
        let Some(((first, first_offset), others)) = targets.split_first() else { return Vec::new() };
        let own = || first.write(*first_offset, buf, Durability::Durable);
        if others.is_empty() {
            return vec![own()];
        }
        let shared = Arc::new(copy_of(buf));
        let write = |(disk, offset): &(Arc<dyn Disk>, u64)| -> Work {
            let (disk, offset, buf) = (Arc::clone(disk), *offset, Arc::clone(&shared));
            Box::new(move || disk.write(offset, &buf, Durability::Durable))
        };
        self.run(own, others.iter().map(write))
    }
}

impl ThreadFanout {
    /// The caller's own part, and the others' meanwhile.
    fn run(
        &self,
        own: impl FnOnce() -> io::Result<()>,
        others: impl ExactSizeIterator<Item = Work>,
    ) -> Vec<io::Result<()>> {
        let (sender, outcomes) = mpsc::channel();
        let died = || Err(io::Error::other("the helper thread died"));
        let mut result: Vec<_> = (0..=others.len()).map(|_| died()).collect();
        let mut left_over = Vec::new();
        for (index, work) in others.enumerate() {
            if let Err(work) = self.hand_out(work, index + 1, &sender) {
                left_over.push((index + 1, work));
            }
        }
        drop(sender);
        result[0] = own();
        for (index, work) in left_over {
            result[index] = work();
        }
        // Ends when every job has been answered or dropped, so a helper that panics leaves its error in place.
        for (index, outcome) in outcomes {
            result[index] = outcome;
        }
        result
    }

    /// Gives the work back if no helper takes it.
    fn hand_out(&self, work: Work, target: usize, outcomes: &Sender<(usize, io::Result<()>)>) -> Result<(), Work> {
        let Some(door) = self.helper() else { return Err(work) };
        let job = Job { work, target, outcomes: outcomes.clone(), door: door.clone() };
        door.send(job).map_err(|unsent| unsent.0.work)
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

/// A helper's life: it ends when its door is dropped, that is with the fanout.
fn help(jobs: &Receiver<Job>, home: &Weak<Mutex<HelperPool>>) {
    // A disk that panics takes its helper along; the pool must then be free to start another.
    let _count = Counted(home);
    while let Ok(Job { work, target, outcomes, door }) = jobs.recv() {
        // What the work holds is gone before the answer: whoever hears it may let go of the disk, and open it anew.
        let outcome = work();
        let Some(pool) = home.upgrade() else { return };
        // Idle before the answer: the caller's next frame finds this helper and starts no second one.
        pool.lock().idle.push(door);
        drop(pool);
        let _ = outcomes.send((target, outcome));
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

fn copy_of(buf: &[u8]) -> AlignedBuf {
    let mut copy = AlignedBuf::with_capacity(buf.len());
    copy.extend_from_slice(buf);
    copy
}

#[cfg(test)]
mod tests;

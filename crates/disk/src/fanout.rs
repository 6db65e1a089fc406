//! One buffer to several disks at once: how a frame reaches the legs of a mirrored log.
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

/// Writes the same bytes durably to several disks.
pub trait Fanout: Send + Sync {
    /// Writes `buf` to every target (a disk and an offset on it); one outcome each, in the same order.
    fn write_durable(&self, targets: &[(Arc<dyn Disk>, u64)], buf: &[u8]) -> Vec<io::Result<()>>;
}

/// One target after the other, in the caller's thread: for the simulator, and where order must be known.
#[derive(Clone, Copy, Debug, Default)]
pub struct SerialFanout;

impl Fanout for SerialFanout {
    fn write_durable(&self, targets: &[(Arc<dyn Disk>, u64)], buf: &[u8]) -> Vec<io::Result<()>> {
        targets.iter().map(|(disk, offset)| disk.write(*offset, buf, Durability::Durable)).collect()
    }
}

/// More helpers than this would mean as many stuck disks; what comes on top is written by the caller in turn.
const HELPERS_MAX: usize = 64;

/// All targets at the same time: the caller writes the first, helper threads the others.
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

/// One leg's write. It carries the door of the helper that runs it, so that the helper can put it back.
struct Job {
    disk: Arc<dyn Disk>,
    offset: u64,
    buf: Arc<AlignedBuf>,
    target: usize,
    outcomes: Sender<(usize, io::Result<()>)>,
    door: Sender<Job>,
}

impl Fanout for ThreadFanout {
    fn write_durable(&self, targets: &[(Arc<dyn Disk>, u64)], buf: &[u8]) -> Vec<io::Result<()>> {
        let Some(((first, first_offset), others)) = targets.split_first() else { return Vec::new() };
        if others.is_empty() {
            return vec![first.write(*first_offset, buf, Durability::Durable)];
        }
        let (sender, outcomes) = mpsc::channel();
        let mut left_over = Vec::new();
        let shared = Arc::new(copy_of(buf));
        for (index, (disk, offset)) in others.iter().enumerate() {
            if !self.hand_out(disk, *offset, &shared, index + 1, &sender) {
                left_over.push(index + 1);
            }
        }
        drop(sender);
        let mut result: Vec<_> = targets.iter().map(|_| Err(io::Error::other("the helper thread died"))).collect();
        result[0] = first.write(*first_offset, buf, Durability::Durable);
        for index in left_over {
            let (disk, offset) = &targets[index];
            result[index] = disk.write(*offset, buf, Durability::Durable);
        }
        // Ends when every job has been answered or dropped, so a helper that panics leaves its error in place.
        for (index, outcome) in outcomes {
            result[index] = outcome;
        }
        result
    }
}

impl ThreadFanout {
    fn hand_out(
        &self,
        disk: &Arc<dyn Disk>,
        offset: u64,
        buf: &Arc<AlignedBuf>,
        target: usize,
        outcomes: &Sender<(usize, io::Result<()>)>,
    ) -> bool {
        let Some(door) = self.helper() else { return false };
        let job = Job {
            disk: Arc::clone(disk),
            offset,
            buf: Arc::clone(buf),
            target,
            outcomes: outcomes.clone(),
            door: door.clone(),
        };
        door.send(job).is_ok()
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
    while let Ok(Job { disk, offset, buf, target, outcomes, door }) = jobs.recv() {
        let outcome = disk.write(offset, &buf, Durability::Durable);
        // Before the answer: whoever hears it may let go of the disk, and open it anew.
        drop((buf, disk));
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

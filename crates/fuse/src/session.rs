//! One mount: threads that read what the kernel asks, and the way of each answer.
//!
//! *Threads.* [`READERS`] read requests and carry them out; a read of a disk keeps one of them, and others go on. [`AGAIN`] run again what was parked. An answer that waits for
//! a promise is given by the thread that keeps it, which is one write(2) into the kernel's memory and waits for nothing.
//!
//! *The end.* The kernel says ENODEV when the file system is mounted no more; the last thread that ends, those that run things again included, gives up what is open and locked. A descriptor that fails otherwise, or has an end, is not read any more, and closing it
//! ends the mount for its programs (ENOTCONN).

use std::io::IoSlice;
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use std::{io, thread};

use bytes::{Bytes, BytesMut};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;
use tally_base::{Fate, Promise};
use tally_vfs::{ClientNumber, Series, WRITE_BYTES_MAX};

use crate::door::{Door, Opened, Step, Until};
use crate::source::Source;
use crate::under_way::{Interrupted, Job, NotParked, Task, UnderWay};
use crate::wire::{self, InitIn, Op, Reply, can};

/// Threads that read requests, of each mount: as many reads of disks may be under way, and each has a buffer of a longest WRITE.
const READERS: usize = 6;
/// Threads that run requests again.
const AGAIN: usize = 2;
/// What may stand before the data of a WRITE; the kernel wants no less.
const HEAD_BYTES_MAX: usize = 4096;
/// When something is tried again at first that nobody says the end of.
const MOMENT: Duration = Duration::from_millis(20);
/// And when it has waited for long: thousands may wait for a pool that is suspended.
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// When who waits for what others have looks by himself: nobody tells him where his dataset was mounted anew, and somebody else keeps what was there before.
const LOOKS_AGAIN: Duration = Duration::from_secs(10);
/// Most pieces of one write(2).
const PIECES_MAX: usize = 1024;

/// What is wanted of what the kernel offers. Several requests of one `write` with `O_DIRECT` at a time are not (ASYNC_DIO): appended, each would find an end of its own. Its write-back cache is not: it would own sizes and times that others change.
const WANTED: u32 = can::ASYNC_READ
    | can::POSIX_LOCKS
    | can::ATOMIC_O_TRUNC
    | can::EXPORT_SUPPORT
    | can::BIG_WRITES
    | can::AUTO_INVAL_DATA
    | can::DO_READDIRPLUS
    | can::READDIRPLUS_AUTO
    | can::PARALLEL_DIROPS
    | can::MAX_PAGES
    | can::HANDLE_KILLPRIV_V2;

/// Numbers of mounts as clients.
static NEXT_CLIENT: AtomicU32 = AtomicU32::new(0);

/// A mount that is served.
pub struct Session {
    shared: Arc<Shared>,
}

/// What came of a start.
pub type Started = io::Result<Session>;

struct Shared {
    device: OwnedFd,
    door: Door,
    under_way: Arc<UnderWay>,
    readers: AtomicUsize,
    /// The same, with those that run things again.
    threads: AtomicUsize,
    /// Somebody writes the log in his own thread.
    drives: AtomicBool,
    /// Threads that have a request of their own which finds no room.
    staying: AtomicUsize,
}

impl Session {
    /// Serves what is mounted over this descriptor of /dev/fuse, until the kernel has it mounted no more.
    ///
    /// # Errors
    ///
    /// There are no threads, or no numbers any more.
    pub fn start(device: OwnedFd, source: Arc<dyn Source>) -> Started {
        let number = NEXT_CLIENT.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |number| number.checked_add(1));
        let number = number.map_err(|_| io::Error::other("this process has mounted as often as it has numbers for"))?;
        let under_way = Arc::new(UnderWay::default());
        let shared = Arc::new(Shared {
            device,
            door: Door::new(source, ClientNumber::of(Series::HERE, number), Arc::clone(&under_way)),
            under_way,
            readers: AtomicUsize::new(READERS),
            threads: AtomicUsize::new(READERS + AGAIN),
            drives: AtomicBool::new(false),
            staying: AtomicUsize::new(0),
        });
        for number in 0..AGAIN {
            let again = Arc::clone(&shared);
            let begun = thread::Builder::new().name(format!("fuse again {number}")).spawn(move || again.run_again());
            if let Err(error) = begun {
                shared.under_way.finish();
                return Err(error);
            }
        }
        for number in 0..READERS {
            let reader = Arc::clone(&shared);
            let begun = thread::Builder::new().name(format!("fuse {number}")).spawn(move || reader.read());
            match begun {
                Ok(_) => {}
                Err(error) if number == 0 => {
                    shared.under_way.finish();
                    return Err(error);
                }
                // Fewer serve as well.
                Err(_) => shared.stop_reading(),
            }
        }
        Ok(Self { shared })
    }

    /// How many requests wait to be run again.
    #[must_use]
    pub fn parked(&self) -> usize {
        self.shared.under_way.parked()
    }
}

impl Shared {
    fn read(self: &Arc<Self>) {
        let mut buffer = vec![0; WRITE_BYTES_MAX as usize + HEAD_BYTES_MAX];
        loop {
            match rustix::io::read(&self.device, &mut buffer) {
                // No kernel says so.
                Ok(0) => {
                    tracing::error!("the kernel's requests have come to an end: this mount is not served any more");
                    break;
                }
                Ok(bytes) => {
                    let message = buffer.get(..bytes).unwrap_or_default();
                    self.take(Bytes::copy_from_slice(message));
                }
                Err(Errno::NODEV) => break,
                // Of a request that was taken back before it was read.
                Err(Errno::INTR | Errno::NOENT) => {}
                // Whoever made it may have it wait for nobody, and would have this ask without an end.
                Err(Errno::AGAIN) if self.waits().is_ok() => {}
                Err(errno) => {
                    tracing::error!(%errno, "the kernel's requests cannot be read: this mount is not served any more");
                    break;
                }
            }
        }
        self.stop_reading();
    }

    /// Who reads waits from here on.
    fn waits(&self) -> rustix::io::Result<()> {
        fcntl_setfl(&self.device, fcntl_getfl(&self.device)? - OFlags::NONBLOCK)
    }

    /// A reader ends.
    fn stop_reading(&self) {
        if self.readers.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.under_way.finish();
        }
        self.leave();
    }

    /// A thread ends. One that ran something until now may have opened a file for it.
    fn leave(&self) {
        if self.threads.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.door.close_all();
            self.door.source().ended();
        }
    }

    fn run_again(self: &Arc<Self>) {
        while let Some(task) = self.under_way.next() {
            match task {
                Task::Run(job) => self.run(job, false),
                Task::LetGo(unique) => self.answer(unique, &Errno::INTR.into()),
                Task::Close(object, way) => self.door.close(object, way),
            }
        }
        self.leave();
    }

    fn take(self: &Arc<Self>, message: Bytes) {
        let Ok(header) = wire::header(&message) else {
            return tracing::error!(bytes = message.len(), "the kernel sent what is no request");
        };
        match wire::decode(&message).map(|request| request.op) {
            Ok(Op::Init(asked)) => self.answer(header.unique, &begin(&asked)),
            Ok(Op::Interrupt { unique }) => self.interrupt(header.unique, unique),
            _ => {
                let is_alone = self.under_way.begin(header.unique);
                self.run(Job { unique: header.unique, message, since: Instant::now() }, is_alone);
            }
        }
    }

    /// Nobody waits for an answer to this itself.
    fn interrupt(&self, unique: u64, of: u64) {
        match self.under_way.interrupt(of) {
            Interrupted::Noted => {}
            Interrupted::LetGo => self.answer(of, &Errno::INTR.into()),
            // It may be on its way to here: then it is said again. Where it is answered already, nothing comes of this.
            Interrupted::Unknown => self.answer(unique, &Errno::AGAIN.into()),
        }
    }

    /// Carries a request out, as often as it takes while it cannot be parked. `is_alone`: nobody else's is under way.
    fn run(self: &Arc<Self>, mut job: Job, is_alone: bool) {
        loop {
            let step = catch_unwind(AssertUnwindSafe(|| self.door.run(&job))).unwrap_or_else(|_| {
                tracing::error!(
                    "an operation panicked; its program got EIO, the mount goes on. Please report this with the log"
                );
                Errno::IO.into()
            });
            let until = match step {
                Step::Silent => return self.under_way.end(job.unique),
                Step::Reply(reply, opened) => return self.finish(job.unique, &reply, opened),
                Step::Wait(promise, reply, opened) => {
                    return self.wait(job.unique, promise, (reply, opened), is_alone);
                }
                Step::Again(until) => until,
            };
            let (unique, now) = (job.unique, Instant::now());
            if !matches!(until, Until::GivenBack) {
                self.under_way.is_not_kept_out(unique);
            }
            let (due, is_patient) = match &until {
                Until::Moment | Until::GivenBack => (Some(now + pause(job.since.elapsed())), true),
                Until::Grace => (Some(now + pause(job.since.elapsed())), false),
                Until::Freed => (Some(now + LOOKS_AGAIN), false),
                Until::Kept(_) => (None, true),
            };
            match self.under_way.park(job, due, is_patient) {
                Ok(()) => {
                    if let Until::Kept(promise) = until {
                        let shared = Arc::clone(self);
                        promise.then(Box::new(move |_| shared.under_way.wake(unique)));
                    }
                    return;
                }
                Err(NotParked::Interrupted) => return self.finish(unique, &Errno::INTR.into(), None),
                Err(NotParked::Full(back)) => {
                    // One reader reads on, or nobody would hear of signals, and of the end.
                    if self.staying.fetch_add(1, Ordering::AcqRel) + 1 >= READERS {
                        self.staying.fetch_sub(1, Ordering::AcqRel);
                        return self.finish(unique, &Errno::NOMEM.into(), None);
                    }
                    thread::sleep(MOMENT);
                    self.staying.fetch_sub(1, Ordering::AcqRel);
                    job = back;
                }
            }
        }
    }

    /// The answer comes when the promise is kept.
    fn wait(
        self: &Arc<Self>,
        unique: u64,
        promise: Box<dyn Promise>,
        (reply, opened): (Reply, Opened),
        is_alone: bool,
    ) {
        // With nobody else's under way the log would be written for this one alone, and it waits for that anyway. One thread may be in a device at a time, the others read on.
        if is_alone && !self.drives.swap(true, Ordering::AcqRel) {
            let driven = promise.drive();
            self.drives.store(false, Ordering::Release);
            if let Some(fate) = driven {
                return self.fate(unique, &fate, &reply, opened);
            }
        }
        self.under_way.promised(unique);
        let shared = Arc::clone(self);
        promise.then(Box::new(move |fate| shared.fate(unique, &fate, &reply, opened)));
    }

    fn fate(&self, unique: u64, fate: &Fate, reply: &Reply, opened: Opened) {
        match fate {
            Ok(_) => self.finish(unique, reply, opened),
            Err(broken) => {
                tracing::error!(%broken, "the answer to a program was replaced by an I/O error");
                self.finish(unique, &Errno::IO.into(), opened);
            }
        }
    }

    fn finish(&self, unique: u64, reply: &Reply, opened: Opened) {
        self.under_way.end(unique);
        let is_heard = self.send(unique, reply);
        if let Some((object, way)) = opened.filter(|_| !is_heard || reply.is_error()) {
            self.under_way.close(object, way);
        }
    }

    fn answer(&self, unique: u64, reply: &Reply) {
        let _is_heard = self.send(unique, reply);
    }

    /// False: nobody waits for it any more.
    fn send(&self, unique: u64, reply: &Reply) -> bool {
        let (head, body) = reply.framed(unique);
        let mut pieces = vec![IoSlice::new(&head)];
        let mut whole = BytesMut::new();
        if body.len() < PIECES_MAX {
            pieces.extend(body.iter().map(|piece| IoSlice::new(piece)));
        } else {
            body.iter().for_each(|piece| whole.extend_from_slice(piece));
            pieces.push(IoSlice::new(&whole));
        }
        match rustix::io::writev(&self.device, &pieces) {
            Ok(_) => true,
            // Its program is gone, or the whole mount.
            Err(Errno::NOENT | Errno::NODEV) => false,
            Err(errno) => {
                tracing::error!(%errno, "the kernel does not take an answer");
                false
            }
        }
    }
}

/// How long who has waited for so long waits before he tries again.
fn pause(waited: Duration) -> Duration {
    (waited / 8).clamp(MOMENT, PAUSE_MAX)
}

/// The answer to INIT.
fn begin(asked: &InitIn) -> Reply {
    match asked.major {
        // A newer one asks again in this version.
        major if major > wire::MAJOR => wire::init(wire::MINOR, 0, 0, 0),
        wire::MAJOR if asked.minor >= wire::MINOR_MIN => {
            wire::init(asked.minor, asked.max_readahead, asked.flags & WANTED, WRITE_BYTES_MAX)
        }
        _ => {
            tracing::error!(
                asked.major,
                asked.minor,
                "the kernel's FUSE is older than 7.31 (Linux 5.4), and not spoken"
            );
            Errno::PROTO.into()
        }
    }
}

#[cfg(test)]
mod tests;

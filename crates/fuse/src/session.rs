//! One mount: threads that read what the kernel asks, and the way of each answer.
//!
//! *Threads.* [`READERS`] read requests and carry them out; a read of a disk keeps one of them, and others go on. [`AGAIN`] run again what was parked. An answer that waits for
//! a promise is given by the thread that keeps it, which is one write(2) into the kernel's memory and waits for nothing.
//!
//! *The end.* The kernel says ENODEV when the file system is mounted no more; the last thread that ends, those that run things again included, gives up what is open and locked. A descriptor that fails otherwise, or has an end, is not read any more, and closing it
//! ends the mount for its programs (ENOTCONN).
//!
//! *Handed over.* Where the descriptor and a [`Journal`] are kept by somebody who outlives this process, the mount goes on behind it: nothing more is read, what was read is answered or left, and nothing is closed. A reader waits for requests
//! and for the word to stop at once, so none is read that nobody would carry out (rules V45).

use std::io::IoSlice;
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use std::{io, thread};

use bytes::{Bytes, BytesMut};
use parking_lot::{Condvar, Mutex};
use rustix::event::{EventfdFlags, epoll, eventfd};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;
use tally_base::{Fate, Promise};
use tally_vfs::{ClientNumber, Series, WRITE_BYTES_MAX};

use crate::door::{Door, Step, Until, With};
use crate::journal::Entry;
use crate::keeping::Keeping;
use crate::source::Source;
use crate::under_way::{Interrupted, Job, NotParked, Task, UnderWay};
use crate::wire::{self, HEAD_BYTES_MAX, InitIn, Op, Reply, can};

/// Threads that read requests, of each mount: as many reads of disks may be under way, and each has a buffer of a longest WRITE.
const READERS: usize = 6;
/// Threads that run requests again.
const AGAIN: usize = 2;
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
    | can::HANDLE_KILLPRIV_V2
    | can::INIT_EXT;
/// The same of the bits that follow.
const WANTED_MORE: u32 = can::HAS_RESEND;

/// Numbers of mounts as clients.
static NEXT_CLIENT: AtomicU32 = AtomicU32::new(0);

/// A mount that is served.
#[derive(Clone)]
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
    /// Readers are to stop, and hear of it by this.
    is_handed_over: AtomicBool,
    stop: OwnedFd,
    /// Whether all threads have ended.
    has_ended: Mutex<bool>,
    ended: Condvar,
    /// Whether the kernel asks again what was read and not answered.
    can_resend: AtomicBool,
}

impl Session {
    /// Serves what is mounted over this descriptor of /dev/fuse, until the kernel has it mounted no more. With what is kept of it whoever comes behind this process goes on; where that is of a process
    /// before this one, what its programs have open and locked is so before this returns, if the dataset is there.
    ///
    /// # Errors
    ///
    /// There are no threads, or no numbers any more.
    pub fn start(device: OwnedFd, source: Arc<dyn Source>, keeping: Option<Keeping>) -> Started {
        let number = NEXT_CLIENT.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |number| number.checked_add(1));
        let number = number.map_err(|_| io::Error::other("this process has mounted as often as it has numbers for"))?;
        let under_way = Arc::new(UnderWay::default());
        let (journal, mut before) = keeping.map_or((None, None), Keeping::into_parts);
        let left = before.as_mut().map(|before| std::mem::take(&mut before.left)).unwrap_or_default();
        let (is_taken_over, can_resend) =
            (before.is_some(), before.as_ref().is_some_and(|it| it.can_resend == Some(true)));
        // Readers look for requests, and wait for them and for the end elsewhere.
        fcntl_setfl(&device, fcntl_getfl(&device)? | OFlags::NONBLOCK)?;
        let client = ClientNumber::of(Series::HERE, number);
        let shared = Arc::new(Shared {
            device,
            door: Door::new(source, client, Arc::clone(&under_way), (journal, before)),
            under_way,
            readers: AtomicUsize::new(READERS),
            threads: AtomicUsize::new(READERS + AGAIN),
            drives: AtomicBool::new(false),
            staying: AtomicUsize::new(0),
            is_handed_over: AtomicBool::new(false),
            stop: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
            has_ended: Mutex::new(false),
            ended: Condvar::new(),
            can_resend: AtomicBool::new(can_resend),
        });
        shared.door.take_over();
        for number in 0..AGAIN {
            let again = Arc::clone(&shared);
            let begun = thread::Builder::new().name(format!("fuse again {number}")).spawn(move || again.run_again());
            if let Err(error) = begun {
                return Err(shared.ends_unstarted(error));
            }
        }
        if is_taken_over {
            shared.take_up(left);
        }
        for number in 0..READERS {
            let reader = Arc::clone(&shared);
            let begun = thread::Builder::new().name(format!("fuse {number}")).spawn(move || reader.read());
            match begun {
                Ok(_) => {}
                Err(error) if number == 0 => {
                    return Err(shared.ends_unstarted(error));
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

    /// What programs have open and locked is so in the dataset, if that is there by now.
    pub fn take_over(&self) {
        self.shared.door.take_over();
    }

    /// What groups have made durable since the last time is owed by no commit any more.
    pub fn settle(&self) {
        self.shared.door.settle();
    }

    /// Reads no more requests, for whoever goes on behind this process. Promises that are kept from here on are answered still.
    pub fn hand_over(&self) {
        self.shared.is_handed_over.store(true, Ordering::Release);
        // Eight bytes always fit, once.
        let _told = rustix::io::write(&self.shared.stop, &1_u64.to_ne_bytes());
        self.shared.finish_all();
    }

    /// Waits until then for each request that was read to be answered, to wait for a promise, or to be left. False: some are at a disk still.
    #[must_use]
    pub fn is_handed_over(&self, until: Instant) -> bool {
        let mut has_ended = self.shared.has_ended.lock();
        while !*has_ended && !self.shared.ended.wait_until(&mut has_ended, until).timed_out() {}
        *has_ended
    }

    /// What was handed over is whole: all that was written is durable, and all that was promised is answered, as the pool was exported.
    pub fn ends_well(&self) {
        self.shared.door.note(&Entry::EndsWell);
    }
}

impl Shared {
    fn read(self: &Arc<Self>) {
        if let Err(errno) = self.read_on() {
            tracing::error!(%errno, "the kernel's requests cannot be read: this mount is not served any more");
        }
        self.stop_reading();
    }

    fn read_on(self: &Arc<Self>) -> rustix::io::Result<()> {
        let waits = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        // One reader is woken for one request.
        let requests = epoll::EventFlags::IN | epoll::EventFlags::EXCLUSIVE;
        epoll::add(&waits, &self.device, epoll::EventData::new_u64(0), requests)?;
        epoll::add(&waits, &self.stop, epoll::EventData::new_u64(0), epoll::EventFlags::IN)?;
        let mut buffer = vec![0; WRITE_BYTES_MAX as usize + HEAD_BYTES_MAX];
        let mut events = [epoll::Event { flags: epoll::EventFlags::empty(), data: epoll::EventData::new_u64(0) }; 2];
        loop {
            match epoll::wait(&waits, &mut events[..], None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
            if self.is_handed_over.load(Ordering::Acquire) {
                return Ok(());
            }
            match rustix::io::read(&self.device, &mut buffer) {
                // No kernel says so.
                Ok(0) => {
                    tracing::error!("the kernel's requests have come to an end: this mount is not served any more");
                    return Ok(());
                }
                Ok(bytes) => {
                    let message = buffer.get(..bytes).unwrap_or_default();
                    self.take(Bytes::copy_from_slice(message));
                }
                Err(Errno::NODEV) => return Ok(()),
                // Another one has it, or it was taken back before it was read.
                Err(Errno::INTR | Errno::NOENT | Errno::AGAIN) => {}
                Err(errno) => return Err(errno),
            }
        }
    }

    /// There are no threads for it.
    fn ends_unstarted(&self, error: io::Error) -> io::Error {
        drop(self.under_way.finish());
        self.door.close_all();
        error
    }

    /// A reader ends.
    fn stop_reading(&self) {
        if self.readers.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.finish_all();
        }
        self.leave();
    }

    /// A thread ends. One that ran something until now may have opened a file for it.
    fn leave(&self) {
        if self.threads.fetch_sub(1, Ordering::AcqRel) == 1 {
            if !self.is_handed_over.load(Ordering::Acquire) {
                self.door.close_all();
                self.door.source().ended();
            }
            *self.has_ended.lock() = true;
            self.ended.notify_all();
        }
    }

    /// Nothing is run again, whoever says so first: the last reader, or who hands it over.
    fn finish_all(&self) {
        let (parked, let_go) = self.under_way.finish();
        if self.is_handed_over.load(Ordering::Acquire) {
            parked.iter().for_each(|job| self.leave_to_the_next(job));
            let_go.into_iter().for_each(|unique| self.answer(unique, &Errno::INTR.into()));
        }
    }

    /// It was read, and nothing was done: the kernel is asked for it again, or it is written down.
    fn leave_to_the_next(&self, job: &Job) {
        if !self.can_resend.load(Ordering::Acquire) {
            self.door.note(&Entry::Left { message: &job.message });
        }
    }

    /// What the process before this one has read and not answered.
    fn take_up(self: &Arc<Self>, left: Vec<Bytes>) {
        // What is not carried out behind this is lost with this process, and its mount.
        self.door.note(&Entry::TakenUp);
        if self.can_resend.load(Ordering::Acquire) {
            if let Err(errno) = rustix::io::write(&self.device, &wire::ask_again()) {
                tracing::error!(%errno, "the kernel does not ask again: programs that wait for an answer wait on");
            }
            return;
        }
        let now = Instant::now();
        for message in left {
            let Ok(header) = wire::header(&message) else { continue };
            self.under_way.begin(header.unique);
            // As many found room before.
            let job = Job { unique: header.unique, message, since: now };
            if let Err(NotParked::Full(job)) = self.under_way.park(job, Some(now), true) {
                self.finish(job.unique, &Errno::NOMEM.into(), With::Nothing);
            }
        }
    }

    fn run_again(self: &Arc<Self>) {
        while let Some(task) = self.under_way.next() {
            match task {
                Task::Run(job) => self.run(job, false),
                Task::Close(object, fh) => self.door.release(object.id, fh),
                Task::LetGo(unique) => self.answer(unique, &Errno::INTR.into()),
            }
        }
        self.leave();
    }

    fn take(self: &Arc<Self>, message: Bytes) {
        let Ok(header) = wire::header(&message) else {
            return tracing::error!(bytes = message.len(), "the kernel sent what is no request");
        };
        match wire::decode(&message).map(|request| request.op) {
            Ok(Op::Init { asked, flags2 }) => self.begin(header.unique, &asked, flags2),
            Ok(Op::Interrupt { unique }) => self.interrupt(header.unique, unique),
            _ => {
                let is_alone = self.under_way.begin(header.unique);
                self.run(Job { unique: header.unique, message, since: Instant::now() }, is_alone);
            }
        }
    }

    fn begin(&self, unique: u64, asked: &InitIn, flags2: u32) {
        let (reply, flags2) = begin(asked, flags2);
        let can_resend = !reply.is_error() && flags2 & can::HAS_RESEND != 0;
        self.can_resend.store(can_resend, Ordering::Release);
        self.door.note(&Entry::Agreed { can_resend });
        self.answer(unique, &reply);
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
                Step::Reply(reply, with) => return self.finish(job.unique, &reply, with),
                Step::Wait(promise, reply, with) => {
                    return self.wait(job.unique, promise, (reply, with), is_alone);
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
                Err(NotParked::Interrupted) => return self.finish(unique, &Errno::INTR.into(), With::Nothing),
                Err(NotParked::Over(job)) if self.is_handed_over.load(Ordering::Acquire) => {
                    return self.leave_to_the_next(&job);
                }
                // Nobody waits any more.
                Err(NotParked::Over(job)) => return self.finish(job.unique, &Errno::INTR.into(), With::Nothing),
                Err(NotParked::Full(back)) => {
                    // One reader reads on, or nobody would hear of signals, and of the end.
                    if self.staying.fetch_add(1, Ordering::AcqRel) + 1 >= READERS {
                        self.staying.fetch_sub(1, Ordering::AcqRel);
                        return self.finish(unique, &Errno::NOMEM.into(), With::Nothing);
                    }
                    thread::sleep(MOMENT);
                    self.staying.fetch_sub(1, Ordering::AcqRel);
                    job = back;
                }
            }
        }
    }

    /// The answer comes when the promise is kept.
    fn wait(self: &Arc<Self>, unique: u64, promise: Box<dyn Promise>, (reply, with): (Reply, With), is_alone: bool) {
        // With nobody else's under way the log would be written for this one alone, and it waits for that anyway. One thread may be in a device at a time, the others read on.
        if is_alone && !self.drives.swap(true, Ordering::AcqRel) {
            let driven = promise.drive();
            self.drives.store(false, Ordering::Release);
            if let Some(fate) = driven {
                return self.fate(unique, &fate, &reply, with);
            }
        }
        self.under_way.promised(unique);
        let shared = Arc::clone(self);
        promise.then(Box::new(move |fate| shared.fate(unique, &fate, &reply, with)));
    }

    fn fate(&self, unique: u64, fate: &Fate, reply: &Reply, with: With) {
        match fate {
            Ok(_) => self.finish(unique, reply, with),
            Err(broken) => {
                tracing::error!(%broken, "the answer to a program was replaced by an I/O error");
                self.finish(unique, &Errno::IO.into(), with);
            }
        }
    }

    fn finish(&self, unique: u64, reply: &Reply, with: With) {
        self.under_way.end(unique);
        if reply.is_error()
            && let Some((fh, object)) = self.door.opened_for(unique)
        {
            // It was open before, and nobody will close it.
            self.under_way.close(object, fh);
        }
        // An open that nobody hears of is closed.
        match with {
            With::Opened(object, fh) if reply.is_error() => {
                self.under_way.close(object, fh);
                self.answer(unique, reply);
            }
            With::Opened(object, fh) => {
                self.door.with_answer(unique, with);
                if !self.send(unique, reply) {
                    self.door.note(&Entry::Released { object: object.id, fh });
                    self.under_way.close(object, fh);
                }
            }
            With::Settled(..) | With::Nothing => {
                if !reply.is_error() {
                    self.door.with_answer(unique, with);
                }
                self.answer(unique, reply);
            }
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

/// The answer to INIT, and which of the bits that follow are agreed upon.
fn begin(asked: &InitIn, flags2: u32) -> (Reply, u32) {
    match asked.major {
        // A newer one asks again in this version.
        major if major > wire::MAJOR => (wire::init(wire::MINOR, 0, (0, 0), 0), 0),
        wire::MAJOR if asked.minor >= wire::MINOR_MIN => {
            let flags = asked.flags & WANTED;
            let more = if flags & can::INIT_EXT != 0 { flags2 & WANTED_MORE } else { 0 };
            (wire::init(asked.minor, asked.max_readahead, (flags, more), WRITE_BYTES_MAX), more)
        }
        _ => {
            tracing::error!(
                asked.major,
                asked.minor,
                "the kernel's FUSE is older than 7.31 (Linux 5.4), and not spoken"
            );
            (Errno::PROTO.into(), 0)
        }
    }
}

#[cfg(test)]
mod tests;

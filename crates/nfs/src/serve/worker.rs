//! A worker: waits for an event, receives, runs, waits or hands over, sends.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::time::{Duration, Instant};

use bytes::Bytes;
use smallvec::SmallVec;
use tally_base::{Fate, Promise, Seat, blocking, seat_this_thread};

use super::accept::accept;
use super::connection::Connection;
use super::hub::Hub;
use super::input::{End, SCRATCH_BYTES};
use super::poller::{Ready, WAKE};
use super::queue::{Task, Work};
use crate::rpc::{Refusal, Reply};
use crate::service::Step;
use crate::stats::count;

/// Tasks of the queue that a worker does before it looks at the epoll again, so that neither starves.
const TASKS_PER_LOOK: usize = 16;

/// The life of a worker.
pub(super) fn work(hub: &Arc<Hub>) {
    let mut scratch = vec![0; SCRATCH_BYTES];
    hub.crew.leave_watch();
    seat_this_thread(Rc::new(WorkerSeat(hub.clone())));
    while !hub.ended.load(SeqCst) {
        // An operation's panic is caught where it is carried out. What is left is a bug behind it, as in the log that
        // this worker writes: the request is answered when it is dropped, and a worker fewer would help nobody.
        if catch_unwind(AssertUnwindSafe(|| turn(hub, &mut scratch))).is_err() {
            count(&hub.service.stats().panics);
            tracing::error!(
                "a worker panicked; its requests got an I/O error, the server goes on. Please report this with the log"
            );
        }
    }
    // The next one may be asleep.
    hub.poller.wake();
}

/// Does what waits, then what happens next.
fn turn(hub: &Arc<Hub>, scratch: &mut [u8]) {
    let busy = do_tasks(hub);
    match next_event(hub, !busy) {
        Some(ready) if ready.token == WAKE => hub.wake_pending.store(false, SeqCst),
        Some(ready) => handle(hub, ready, scratch),
        None => {}
    }
}

/// Keeps the watch while a worker waits for a device or a lock.
struct WorkerSeat(Arc<Hub>);

impl Seat for WorkerSeat {
    fn sits_down(&self) {
        self.0.crew.sit_down();
        self.0.keep_watch();
    }

    fn stands_up(&self) {
        self.0.crew.stand_up();
    }
}

/// Does what waits in the queue, within bounds; true if something is left.
fn do_tasks(hub: &Arc<Hub>) -> bool {
    for _ in 0..TASKS_PER_LOOK {
        let Some((task, more)) = hub.queue.pop() else { return false };
        if more {
            hub.wake_one();
        }
        match task {
            Task::Run(work) => drop(run(hub, work, false)),
            Task::Settle(batch) => settle_all(hub, batch),
        }
    }
    true
}

/// Waits in epoll, counted as idle; a task that came just before that is not slept over.
fn next_event(hub: &Hub, block: bool) -> Option<Ready> {
    if !block {
        return poll(hub, false);
    }
    hub.crew.enter_watch();
    let ready = poll(hub, hub.queue.is_empty() && !hub.ended.load(SeqCst));
    hub.crew.leave_watch();
    ready
}

fn poll(hub: &Hub, block: bool) -> Option<Ready> {
    hub.poller.wait(block).unwrap_or_else(|error| {
        tracing::error!(%error, "waiting for connections failed");
        std::thread::sleep(std::time::Duration::from_millis(10));
        None
    })
}

fn handle(hub: &Arc<Hub>, ready: Ready, scratch: &mut [u8]) {
    if usize::try_from(ready.token).is_ok_and(|token| token <= hub.listeners.len()) {
        hub.keep_watch();
        return accept(hub, ready.token);
    }
    let Some(connection) = hub.connection(ready.token) else { return };
    if ready.writable {
        connection.output.room_again();
        flush(hub, &connection);
    }
    if ready.readable && !hub.stopping.load(SeqCst) {
        // Who asks one thing at a time has mostly sent the next when the reply is on its way, and this worker is awake.
        while receive(hub, &connection, scratch) {
            if !hub.may_read(&connection) {
                return hub.arm(&connection);
            }
        }
        return;
    }
    if ready.broken {
        return hub.close(&connection);
    }
    hub.arm(&connection);
}

/// Receives what is there, gives all requests but the last to others, arms the connection, runs the last. True: its
/// reply is sent and the connection is not armed, so that it has to be received from again.
fn receive(hub: &Arc<Hub>, connection: &Arc<Connection>, scratch: &mut [u8]) -> bool {
    let mut found = Vec::new();
    let (received, held_bytes) = {
        let mut input = connection.input.lock();
        let received = input.receive(&connection.stream, scratch, &mut found);
        (received, input.held_bytes())
    };
    let read_at = Instant::now();
    let fits =
        (held_bytes == 0 && connection.partial_bytes.load(Relaxed) == 0) || hub.count_partial(connection, held_bytes);
    let alone = found.len() == 1;
    let last = open_all(hub, connection, found, read_at);
    match received {
        Ok(()) if fits => hub.arm(connection),
        Ok(()) => {
            tracing::warn!(peer = %connection.link.peer(), "connection closed: incomplete records hold too much memory");
            hub.close(connection);
        }
        Err(end) => {
            report(connection, &end);
            hub.close(connection);
        }
    }
    last.is_some_and(|work| run(hub, work, alone))
}

fn report(connection: &Connection, end: &End) {
    let peer = connection.link.peer();
    match end {
        End::Closed => tracing::debug!(%peer, "connection closed by the client"),
        End::Record(error) => tracing::warn!(%peer, %error, "connection closed"),
        End::Io(error) => tracing::debug!(%peer, %error, "connection broken"),
    }
}

/// Opens the records; all requests but the last go to the queue.
fn open_all(hub: &Arc<Hub>, connection: &Arc<Connection>, found: Vec<Bytes>, read_at: Instant) -> Option<Box<Work>> {
    let mut last: Option<Box<Work>> = None;
    for record in found {
        match hub.service.open(record, &connection.link, read_at) {
            Ok(job) => {
                let charge = hub.charge(connection, job.record_bytes());
                let work = Box::new(Work { job, connection: connection.clone(), charge });
                if let Some(before) = last.replace(work) {
                    hub.push_run(before);
                }
            }
            Err(Refusal::Answer(reply)) => {
                connection.output.push(*reply);
                flush(hub, connection);
            }
            Err(Refusal::NotACall) => {
                tracing::warn!(peer = %connection.link.peer(), "connection closed: it sent something that is no RPC call");
                hub.close(connection);
            }
        }
    }
    last
}

/// Carries a request out. `alone`: it was the only one that its connection had. True: see [`receive`].
fn run(hub: &Arc<Hub>, mut work: Box<Work>, alone: bool) -> bool {
    if work.connection.output.held_bytes() > hub.options.output_bytes_max {
        stall(hub, work);
        return false;
    }
    hub.keep_watch();
    match hub.service.run(&mut work.job) {
        Step::Reply(reply) => {
            answer(hub, &mut work, reply);
            sent(hub, &[work]);
        }
        Step::Attached => {}
        Step::Again(promise) => {
            let hub = hub.clone();
            promise.then(Box::new(move |_| hub.push_run(work)));
        }
        Step::Wait(promise) => return wait(hub, work, promise, alone),
    }
    false
}

/// The client does not take its replies: this request waits until it has.
fn stall(hub: &Arc<Hub>, work: Box<Work>) {
    let connection = work.connection.clone();
    connection.stalled.lock().push_back(work);
    // The last reply may have left between the two.
    resume_stalled(hub, &connection);
}

fn resume_stalled(hub: &Hub, connection: &Connection) {
    if connection.output.held_bytes() > hub.options.output_bytes_max && connection.link.is_open() {
        return;
    }
    let stalled = std::mem::take(&mut *connection.stalled.lock());
    stalled.into_iter().for_each(|work| hub.push_run(work));
}

/// Writes the log here if this request is alone in the house as far as this worker can see and others watch
/// the connections; otherwise leaves word where the reply goes. True: see [`receive`].
fn wait(hub: &Arc<Hub>, mut work: Box<Work>, promise: Box<dyn Promise>, alone: bool) -> bool {
    let is_fastest = alone && hub.options.drive_in_place && hub.crew.is_watched() && hub.queue.is_empty();
    if is_fastest && let Some(fate) = blocking(|| promise.drive()) {
        work.job.settled(&fate);
        work.job.times.in_device = fate.as_ref().map_or(Duration::ZERO, |kept| kept.device);
        hub.service.stats().driven.fetch_add(1, Relaxed);
        // Others watched it while the device was busy. What the reply brings is for this worker: nobody is woken.
        hub.disarm(&work.connection);
        settle_all(hub, vec![(work, fate)]);
        return true;
    }
    hub.service.stats().handed_over.fetch_add(1, Relaxed);
    let hub = hub.clone();
    promise.then(Box::new(move |fate| {
        work.job.settled(&fate);
        hub.push_settled(work, fate);
    }));
    false
}

/// Sends the replies of requests whose wait is over; those of one connection together.
fn settle_all(hub: &Arc<Hub>, batch: Vec<(Box<Work>, Fate)>) {
    let mut works = SmallVec::<[Box<Work>; 4]>::new();
    for (mut work, outcome) in batch {
        let reply = hub.service.settle(&mut work.job, outcome);
        answer(hub, &mut work, reply);
        works.push(work);
    }
    sent(hub, &works);
}

/// Puts a reply where it goes, and where else it is waited for.
fn answer(hub: &Arc<Hub>, work: &mut Work, reply: Reply) {
    for link in hub.service.finish(&mut work.job, &reply) {
        if let Some(other) = hub.connection(link.id()) {
            other.output.push(reply.clone());
            if !Arc::ptr_eq(&other, &work.connection) {
                flush(hub, &other);
            }
        }
    }
    if work.connection.link.is_open() {
        work.connection.output.push(reply);
    }
}

/// Sends, and notes how long everything took.
fn sent(hub: &Arc<Hub>, works: &[Box<Work>]) {
    let mut flushed = SmallVec::<[u64; 8]>::new();
    for work in works {
        let id = work.connection.link.id();
        if !flushed.contains(&id) {
            flushed.push(id);
            flush(hub, &work.connection);
        }
    }
    let now = Instant::now();
    works.iter().for_each(|work| hub.service.sent(&work.job, now));
}

/// Sends a reply for a request that is dropped. The connection is not closed if that fails: that would drop requests in
/// the midst of dropping one, and the epoll tells of a broken socket as well.
pub(super) fn tell(hub: &Arc<Hub>, connection: &Arc<Connection>, reply: Reply) {
    if connection.link.is_open() {
        connection.output.push(reply);
        let _ = send(hub, connection);
    }
}

fn flush(hub: &Arc<Hub>, connection: &Arc<Connection>) {
    if let Err(error) = send(hub, connection) {
        tracing::debug!(%error, peer = %connection.link.peer(), "a reply could not be sent");
        return hub.close(connection);
    }
    if !connection.stalled.lock().is_empty() {
        resume_stalled(hub, connection);
    }
}

/// Sends what the socket takes, and has the epoll tell when it takes more.
fn send(hub: &Arc<Hub>, connection: &Arc<Connection>) -> io::Result<()> {
    let was_full = connection.output.is_full();
    connection.output.flush(&connection.stream)?;
    if !was_full && connection.output.is_full() {
        hub.arm(connection);
    }
    Ok(())
}

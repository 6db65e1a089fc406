//! A worker: waits for an event, receives, runs, waits or hands over, sends.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::time::{Duration, Instant};

use bytes::Bytes;
use smallvec::SmallVec;
use tally_base::{Fate, Promise, Seat, blocking, seat_this_thread};

use super::backlog::Next;
use super::complaints::Complaint;
use super::hub::Hub;
use super::input::{End, Input, SCRATCH_BYTES};
use super::ledger::Debt;
use super::poller::{Ready, WAKE};
use super::queue::Task;
use super::warden;
use super::work::{Connection, Work};
use crate::rpc::{Refusal, Reply, is_reply};
use crate::service::Step;
use crate::stats::count;

/// Tasks of the queue that a worker does before it looks at the epoll again, so that neither starves.
const TASKS_PER_LOOK: usize = 16;
/// Nor more of them than this takes: a directory's listing is a thousand GETATTRs, and who has just asked waits in epoll.
const TASKS_TIME_MAX: Duration = Duration::from_micros(300);
/// For so long a worker takes events while tasks wait.
const EVENTS_TIME_MAX: Duration = Duration::from_micros(600);
/// A request that has waited so long is worth the question whether its client is still there.
const QUESTION_AGE: Duration = Duration::from_millis(5);

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

/// Does what waits, then what happens next. While more waits it takes all events that are there, within bounds: with one
/// of them a turn, who asks one thing at a time stood behind thousands that had asked for much.
fn turn(hub: &Arc<Hub>, scratch: &mut [u8]) {
    let busy = do_tasks(hub);
    // Here and not between events: who takes the wake has to look into the queue, or what it was for waits.
    if busy && hub.crew.give_way() {
        return hub.crew.leave_watch();
    }
    // For those who ask one thing at a time a turn of others is what they wait for behind each device.
    if busy && hub.crew.offer_processor() {
        count(&hub.service.stats().processors_offered);
    }
    let began = busy.then(Instant::now);
    loop {
        match next_event(hub, !busy) {
            Some(ready) if ready.token == WAKE => hub.wake_pending.store(false, SeqCst),
            Some(ready) => {
                handle(hub, ready, scratch);
                hub.make_calls();
            }
            None => return,
        }
        if began.is_none_or(|began| began.elapsed() > EVENTS_TIME_MAX) {
            return;
        }
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
    let mut began = None;
    for _ in 0..TASKS_PER_LOOK {
        let Some((task, more)) = hub.queue.pop() else { return false };
        if more {
            hub.wake_one();
        }
        match task {
            Task::Run(connection) => run_next(hub, &connection),
            Task::Reply(batch) => reply_to_all(hub, batch),
            Task::Look => hub.service.look_after_waiters(),
        }
        hub.make_calls();
        if more && began.get_or_insert_with(Instant::now).elapsed() > TASKS_TIME_MAX {
            return true;
        }
    }
    true
}

/// Carries out the next request of a connection, if its replies are taken.
fn run_next(hub: &Arc<Hub>, connection: &Arc<Connection>) {
    match connection.backlog.next(&connection.account, hub.may_reply(connection)) {
        Next::Work(work, more) => {
            if more {
                hub.list(connection.clone());
            }
            if work.job.times.read_at.elapsed() > QUESTION_AGE && !connection.link.is_alive() {
                // What it sent before it hung up is in the backlog, and nobody is there for the replies.
                return connection.drop_backlog();
            }
            run(hub, work, false);
        }
        Next::Parked { crossed, over } => {
            if crossed {
                hub.resume_crowded_out();
            }
            if over {
                warden::close_debtors(hub);
            }
            // The last reply may have left between the two.
            hub.resume(connection);
        }
        Next::Nothing => {}
    }
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

/// Receives what is there, arms the connection, and runs the request if it was the only one; several go to all workers.
/// True: its reply is sent and the connection is not armed, so that it has to be received from again.
fn receive(hub: &Arc<Hub>, connection: &Arc<Connection>, scratch: &mut [u8]) -> bool {
    let mut found = Vec::new();
    let mut input = connection.input.lock();
    let received = input.receive(&connection.stream, scratch, &mut found);
    let read_at = Instant::now();
    let over = note_progress(hub, connection, &input, !found.is_empty(), read_at);
    drop(input);
    if over {
        warden::close_debtors(hub);
    }
    let alone = open_all(hub, connection, found, read_at);
    match received {
        Ok(()) => hub.arm(connection),
        Err(end) => {
            report(hub, connection, &end);
            hub.close(connection);
        }
    }
    alone.is_some_and(|work| run(hub, work, true))
}

/// Notes that something came, since when a record is on its way, and what that holds: under the input's lock, or the end of
/// the record would be noted before its beginning. True: somebody has to go.
fn note_progress(hub: &Hub, connection: &Connection, input: &Input, ended: bool, at: Instant) -> bool {
    let now_ms = hub.ms_at(at);
    connection.heard_ms.store(now_ms, Relaxed);
    if ended {
        connection.has_asked.store(true, Relaxed);
    }
    if !input.is_partial() {
        if connection.record_began_ms.load(Relaxed) != 0 {
            connection.record_began_ms.store(0, Relaxed);
        }
        return connection.account.owes(Debt::Record) && connection.account.owe(Debt::Record, 0);
    }
    connection.record_comes(ended, input.arrived_bytes() as u64, now_ms);
    connection.account.owe(Debt::Record, input.held_bytes())
}

fn report(hub: &Hub, connection: &Connection, end: &End) {
    let peer = connection.link.peer();
    match end {
        End::Closed => tracing::debug!(%peer, "connection closed by the client"),
        End::Record(error) => {
            tracing::debug!(%peer, %error, "connection closed");
            hub.complaints.add(Complaint::NoRecord, peer);
        }
        End::Io(error) => tracing::debug!(%peer, %error, "connection broken"),
    }
}

/// Opens the records. Gives the request if it is the only one that the connection has; else all go to the queue.
fn open_all(hub: &Arc<Hub>, connection: &Arc<Connection>, found: Vec<Bytes>, read_at: Instant) -> Option<Box<Work>> {
    let alone = found.len() == 1 && connection.backlog.is_empty();
    for record in found {
        if is_reply(&record) {
            hub.take_reply(connection, &record);
            continue;
        }
        match hub.service.open(record, &connection.link, read_at) {
            Ok(job) => {
                let charge = hub.charge(connection, job.record_bytes());
                let work = Box::new(Work { job, connection: connection.clone(), charge });
                if alone {
                    return Some(work);
                }
                hub.push_run(work);
            }
            Err(Refusal::Answer(reply)) => {
                connection.output.push(*reply);
                flush(hub, connection);
            }
            Err(Refusal::NotACall) => {
                hub.complaints.add(Complaint::NoCall, connection.link.peer());
                hub.close(connection);
            }
        }
    }
    None
}

/// Carries a request out. `alone`: it was the only one that its connection had. True: see [`receive`].
fn run(hub: &Arc<Hub>, mut work: Box<Work>, alone: bool) -> bool {
    if alone && !hub.may_reply(&work.connection) {
        hub.push_run(work);
        return false;
    }
    hub.keep_watch();
    match hub.service.run(&mut work.job) {
        Step::Reply(_) if hub.service.stays_in_doubt(&mut work.job, None) => hub.keep_in_doubt(work),
        // That nothing was done would be a lie.
        Step::Reply(_) if work.job.is_told_to_come_again() && hub.doubtful.has_like(&work.job) => {
            hub.service.leave(&mut work.job);
        }
        Step::Reply(reply) => {
            answer(hub, &mut work, reply);
            sent(hub, &[work]);
        }
        Step::Attached => {}
        Step::Again(promise) => {
            let again = hub.clone();
            promise.then(Box::new(move |_| again.push_run(work)));
            // Whoever looks at times may be asleep for longer than anybody is parked.
            if hub.service.has_parked() {
                hub.rouse();
            }
        }
        Step::Wait(promise) => return wait(hub, work, promise, alone),
    }
    false
}

/// Writes the log here if this request is alone in the house as far as this worker can see and others watch
/// the connections; otherwise leaves word where the reply goes. True: see [`receive`].
fn wait(hub: &Arc<Hub>, mut work: Box<Work>, promise: Box<dyn Promise>, alone: bool) -> bool {
    let is_fastest = alone && hub.options.drive_in_place && hub.crew.is_watched() && hub.queue.is_empty();
    if is_fastest && let Some(fate) = blocking(|| promise.drive()) {
        work.job.wait_ended(&fate);
        work.job.times.in_device = fate.as_ref().map_or(Duration::ZERO, |kept| kept.device);
        hub.service.stats().driven.fetch_add(1, Relaxed);
        // Others watched it while the device was busy. What the reply brings is for this worker: nobody is woken.
        hub.disarm(&work.connection);
        reply_to_all(hub, vec![(work, fate)]);
        return true;
    }
    hub.service.stats().handed_over.fetch_add(1, Relaxed);
    let hub = hub.clone();
    promise.then(Box::new(move |fate| {
        work.job.wait_ended(&fate);
        hub.push_reply(work, fate);
    }));
    false
}

/// Sends the replies of requests whose wait is over; those of one connection together.
fn reply_to_all(hub: &Arc<Hub>, batch: Vec<(Box<Work>, Fate)>) {
    let mut works = SmallVec::<[Box<Work>; 4]>::new();
    for (mut work, outcome) in batch {
        if outcome.is_err() && hub.doubtful.has_room(&work) && hub.service.stays_in_doubt(&mut work.job, Some(&outcome))
        {
            hub.keep_in_doubt(work);
            continue;
        }
        let reply = hub.service.reply_after_wait(&mut work.job, outcome);
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

fn flush(hub: &Arc<Hub>, connection: &Arc<Connection>) {
    if let Err(error) = hub.send(connection) {
        tracing::debug!(%error, peer = %connection.link.peer(), "a reply could not be sent");
        return hub.close(connection);
    }
    hub.resume(connection);
    if connection.account.owes(Debt::Replies) && connection.account.is_over_debt() {
        warden::close_debtors(hub);
    }
}

//! What all workers share: connections, queues, counts and bounds.

use std::collections::HashMap;
use std::io;
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, RwLock};
use tally_base::Fate;

use super::backlog::Added;
use super::complaints::Complaints;
use super::crew::Crew;
use super::doubtful::Doubtful;
use super::ledger::{Ledger, Room};
use super::options::ServeOptions;
use super::poller::{Poller, WAKE};
use super::queue::Queue;
use super::work::{Charge, Connection, Work};
use crate::service::Service;

/// Tokens of connections start here.
const FIRST_CONNECTION: u64 = WAKE + 1;
/// Threads that are there from the start: one works, one watches.
const WORKERS_MIN: usize = 2;
/// How often [`Hub::stop`] looks whether the house is empty.
const STOP_STEP: Duration = Duration::from_millis(2);

/// The shared state. Locks: `Connection::arming` before `crowded_out`; `closing_debtors` before everything; all others are
/// leaves.
pub(super) struct Hub {
    pub(super) service: Arc<Service>,
    pub(super) options: ServeOptions,
    pub(super) poller: Poller,
    pub(super) queue: Queue<Arc<Connection>, Box<Work>>,
    pub(super) ledger: Arc<Ledger>,
    pub(super) complaints: Complaints,
    /// Requests that wait for their pool to serve again.
    pub(super) doubtful: Doubtful,
    /// Held by whoever closes those that owe too much.
    pub(super) closing_debtors: Mutex<()>,
    listeners: Vec<TcpListener>,
    pub(super) datagrams: Vec<UdpSocket>,
    bodies: Bodies,
    pub(super) start: Instant,
    connections: RwLock<HashMap<u64, Arc<Connection>>>,
    next_connection: AtomicU64,
    /// Requests in the house.
    pub(super) request_count: AtomicUsize,
    /// Connections that are not read because too much work is in the house.
    crowded_out: Mutex<Vec<Arc<Connection>>>,
    pub(super) crew: Crew,
    workers: Mutex<Vec<JoinHandle<()>>>,
    /// The threads at the door, and the warden.
    others: Mutex<Vec<JoinHandle<()>>>,
    /// Told to threads that sleep when nothing more is read.
    roused: (Mutex<()>, Condvar),
    /// A wake is on its way, and whoever gets it will look into the queue.
    pub(super) wake_pending: AtomicBool,
    /// Nothing more is read.
    pub(super) stopping: AtomicBool,
    /// Workers end.
    pub(super) ended: AtomicBool,
}

/// What its threads do. They stand above the hub, which starts and ends them, and knows no more of them.
#[derive(Clone, Copy)]
pub(super) struct Bodies {
    pub(super) worker: fn(&Arc<Hub>),
    /// Of the thread at one listener.
    pub(super) door: fn(&Arc<Hub>, &TcpListener),
    pub(super) warden: fn(&Arc<Hub>),
    /// Of the one that calls hosts that lock for version 3.
    pub(super) errands: fn(&Arc<Hub>),
    /// Of the thread at one socket for datagrams.
    pub(super) monitor: fn(&Arc<Hub>, &UdpSocket),
}

impl Hub {
    pub(super) fn start(
        service: Arc<Service>,
        (listeners, datagrams): (Vec<TcpListener>, Vec<UdpSocket>),
        options: ServeOptions,
        bodies: Bodies,
    ) -> io::Result<Arc<Self>> {
        let hub = Arc::new(Self {
            service,
            poller: Poller::new()?,
            queue: Queue::default(),
            ledger: Ledger::new(options.record_bytes_max, options.debt_bytes_max),
            complaints: Complaints::default(),
            doubtful: Doubtful::new(options.record_bytes_max),
            closing_debtors: Mutex::default(),
            listeners,
            datagrams,
            bodies,
            start: Instant::now(),
            connections: RwLock::default(),
            next_connection: AtomicU64::new(FIRST_CONNECTION),
            request_count: AtomicUsize::new(0),
            crowded_out: Mutex::default(),
            crew: Crew::new(options.workers_running_max),
            options,
            workers: Mutex::default(),
            others: Mutex::default(),
            roused: Default::default(),
            wake_pending: AtomicBool::new(false),
            stopping: AtomicBool::new(false),
            ended: AtomicBool::new(false),
        });
        *hub.service.stats().holder.lock() = Some(hub.ledger.house().clone());
        for _ in 0..WORKERS_MIN {
            hub.spawn_worker()?;
        }
        for at in 0..hub.listeners.len() {
            hub.spawn_other("nfs-door", move |hub| {
                if let Some(listener) = hub.listeners.get(at) {
                    (hub.bodies.door)(hub, listener);
                }
            })?;
        }
        hub.spawn_other("nfs-warden", bodies.warden)?;
        if hub.service.locks_for_3() {
            hub.spawn_other("nfs-errands", bodies.errands)?;
        }
        for at in 0..hub.datagrams.len() {
            hub.spawn_other("nfs-monitor", move |hub| {
                if let Some(socket) = hub.datagrams.get(at) {
                    (hub.bodies.monitor)(hub, socket);
                }
            })?;
        }
        Ok(hub)
    }

    fn spawn_other(self: &Arc<Self>, name: &str, work: impl FnOnce(&Arc<Self>) + Send + 'static) -> io::Result<()> {
        let hub = self.clone();
        let started = std::thread::Builder::new().name(name.into()).spawn(move || work(&hub))?;
        self.others.lock().push(started);
        Ok(())
    }

    /// Milliseconds since it started, and at least one.
    pub(super) fn now_ms(&self) -> u64 {
        self.ms_at(Instant::now())
    }

    pub(super) fn ms_at(&self, time: Instant) -> u64 {
        let since = time.saturating_duration_since(self.start);
        since.as_secs() * 1000 + u64::from(since.subsec_millis()) + 1
    }

    /// Sleeps, but not longer than the hub reads; true if it reads no more.
    pub(super) fn sleep(&self, time: Duration) -> bool {
        let mut guard = self.roused.0.lock();
        if !self.stopping.load(SeqCst) {
            self.roused.1.wait_for(&mut guard, time);
        }
        self.stopping.load(SeqCst)
    }

    /// Ends the sleep of those who look at times: there is something to look at more often.
    pub(super) fn rouse(&self) {
        drop(self.roused.0.lock());
        self.roused.1.notify_all();
    }

    /// Has a worker watch the epoll if none does and there may be one more.
    pub(super) fn keep_watch(self: &Arc<Self>) {
        if self.crew.wants_one_more()
            && !self.crew.call()
            && self.crew.count() < self.options.workers_max
            && let Err(error) = self.spawn_worker()
        {
            tracing::warn!(%error, "cannot start another worker thread; requests wait for each other meanwhile");
        }
    }

    fn spawn_worker(self: &Arc<Self>) -> io::Result<()> {
        let Some(number) = self.crew.hire(self.options.workers_max.max(WORKERS_MIN)) else { return Ok(()) };
        let (hub, work) = (self.clone(), self.bodies.worker);
        let started = std::thread::Builder::new().name(format!("nfs-{number}")).spawn(move || work(&hub));
        match started {
            Ok(handle) => self.workers.lock().push(handle),
            Err(error) => {
                self.crew.dismiss();
                return Err(error);
            }
        }
        Ok(())
    }

    /// The connection of a token or link id.
    pub(super) fn connection(&self, id: u64) -> Option<Arc<Connection>> {
        self.connections.read().get(&id).cloned()
    }

    pub(super) fn all_connections(&self) -> Vec<Arc<Connection>> {
        self.connections.read().values().cloned().collect()
    }

    pub(super) fn connection_count(&self) -> usize {
        self.connections.read().len()
    }

    /// Takes a new connection in.
    pub(super) fn open(&self, stream: TcpStream, peer: std::net::SocketAddr) -> io::Result<()> {
        let id = self.next_connection.fetch_add(1, SeqCst);
        let account = self.ledger.open(peer.ip());
        let connection = Arc::new(Connection::new(id, peer, stream, account, self.now_ms()));
        self.connections.write().insert(id, connection.clone());
        self.service.stats().connections.fetch_add(1, SeqCst);
        self.poller.add(&connection.stream, id).inspect_err(|_| self.close(&connection))
    }

    /// Ends a connection; further calls do nothing.
    pub(super) fn close(&self, connection: &Arc<Connection>) {
        if self.connections.write().remove(&connection.link.id()).is_none() {
            return;
        }
        {
            let _arming = connection.arming.lock();
            self.poller.remove(&connection.stream);
            connection.shut_down();
        }
        connection.drop_backlog();
        connection.account.forgive();
        self.service.disconnected(&connection.link);
        // Behind that: they are not made over it once more.
        connection.calls.close().iter().for_each(|id| self.service.call_lost(id, true));
        self.service.stats().connections.fetch_sub(1, SeqCst);
    }

    /// Arms a connection for its next event: reading unless a bound forbids it, sending if its socket is full.
    pub(super) fn arm(&self, connection: &Arc<Connection>) {
        if let Err(error) = self.try_arm(connection) {
            tracing::warn!(%error, peer = %connection.link.peer(), "cannot watch a connection; it is closed");
            self.close(connection);
        }
    }

    /// Until it is armed again, nobody is told of what the connection sends. It fails only if the connection is gone.
    pub(super) fn disarm(&self, connection: &Connection) {
        let _arming = connection.arming.lock();
        if connection.link.is_open() {
            let _ = self.poller.arm(&connection.stream, connection.link.id(), false, false);
        }
    }

    fn try_arm(&self, connection: &Arc<Connection>) -> io::Result<()> {
        let _arming = connection.arming.lock();
        if !connection.link.is_open() {
            return Ok(());
        }
        // Said before it is judged: whoever makes room afterwards sees it and arms again.
        let was_paused = connection.paused.swap(true, SeqCst);
        let mut room = self.room(connection);
        if room == Room::CrowdedOut && !connection.crowded_out.swap(true, SeqCst) {
            self.crowded_out.lock().push(connection.clone());
            room = self.room(connection);
        }
        let read = room == Room::Free;
        if read {
            if was_paused {
                connection.end_pause(self.now_ms());
            }
            connection.paused.store(false, SeqCst);
        } else if !was_paused {
            connection.excuse_pause(self.now_ms());
        }
        let write = connection.output.is_full();
        self.poller.arm(&connection.stream, connection.link.id(), read, write)
    }

    /// Whether no bound forbids to read on.
    pub(super) fn may_read(&self, connection: &Connection) -> bool {
        self.room(connection) == Room::Free
    }

    fn room(&self, connection: &Connection) -> Room {
        let is_waited_for = self.stopping.load(SeqCst)
            || connection.account.request_count() >= self.options.requests_per_connection_max
            || !self.may_reply(connection);
        if is_waited_for { Room::Taken } else { connection.account.room() }
    }

    /// Whether its replies are taken, or few enough wait.
    pub(super) fn may_reply(&self, connection: &Connection) -> bool {
        connection.account.may_owe(connection.output.held_bytes(), self.options.output_bytes_max)
    }

    /// Counts a request in; it is counted out when the charge is dropped.
    pub(super) fn charge(self: &Arc<Self>, connection: &Arc<Connection>, bytes: usize) -> Charge {
        self.request_count.fetch_add(1, SeqCst);
        Charge::new(self.clone(), connection.clone(), bytes)
    }

    pub(super) fn push_run(&self, work: Box<Work>) {
        let (connection, bytes) = (work.connection.clone(), work.charge.bytes());
        match connection.backlog.push(work, bytes, &connection.account) {
            Added::List => self.list(connection),
            Added::Waits { crossed: true } => self.resume_crowded_out(),
            Added::Waits { crossed: false } => {}
            Added::Refused(work) => drop(work),
        }
    }

    /// A connection has requests to be carried out.
    pub(super) fn list(&self, connection: Arc<Connection>) {
        self.queue.list(connection);
        self.wake_one();
    }

    /// If its replies are taken again, what waited for that goes on.
    pub(super) fn resume(&self, connection: &Arc<Connection>) {
        let goes_on = connection.backlog.is_parked() && self.may_reply(connection);
        if goes_on && connection.backlog.unpark(&connection.account) {
            self.list(connection.clone());
        }
        if connection.paused.load(SeqCst) && self.may_read(connection) {
            self.arm(connection);
        }
    }

    /// Keeps a request that nobody can answer yet.
    pub(super) fn keep_in_doubt(&self, work: Box<Work>) {
        self.doubtful.keep(work);
        self.rouse();
        // Said before it is looked at, there and here: one of both sees it.
        if self.stopping.load(SeqCst) {
            self.doubtful.leave_all(&self.service);
        }
    }

    pub(super) fn push_reply(&self, work: Box<Work>, outcome: Fate) {
        self.queue.push_reply(work, outcome);
        self.wake_one();
    }

    /// Wakes a worker, if one waits and none is being woken.
    pub(super) fn wake_one(&self) {
        if self.crew.is_watched() && !self.wake_pending.swap(true, SeqCst) {
            self.poller.wake();
        }
    }

    /// See [`super::Server::stop`].
    pub(super) fn stop(self: &Arc<Self>) -> usize {
        self.stopping.store(true, SeqCst);
        self.rouse();
        for listener in &self.listeners {
            // Linux wakes a thread that accepts on a socket that is shut down; where it did not, that thread would end
            // with the process.
            let _ = rustix::net::shutdown(listener, rustix::net::Shutdown::Both);
        }
        self.doubtful.leave_all(&self.service);
        self.service.end_holding();
        let deadline = Instant::now() + self.options.stop_patience;
        while self.request_count.load(SeqCst) > 0 && Instant::now() < deadline {
            // Whoever looks at times looks no more.
            self.service.end_parking();
            // Nobody has begun what waits for a peer to take replies, and nobody waits for that peer.
            let parked = self.all_connections().into_iter().filter(|connection| connection.backlog.is_parked());
            parked.for_each(|connection| connection.drop_backlog());
            std::thread::sleep(STOP_STEP);
        }
        let unfinished = self.request_count.load(SeqCst);
        self.ended.store(true, SeqCst);
        self.all_connections().iter().for_each(|connection| self.close(connection));
        self.poller.wake();
        self.crew.end();
        self.join_workers(deadline + STOP_STEP * 50);
        self.queue.clear();
        self.crowded_out.lock().clear();
        if unfinished > 0 {
            tracing::warn!(
                unfinished,
                "stopped with requests that did not finish in time; their clients will ask again"
            );
        }
        unfinished
    }

    /// Each worker that ends wakes the next. One that hangs in an operation is left behind.
    fn join_workers(&self, deadline: Instant) {
        let mut workers = std::mem::take(&mut *self.workers.lock());
        workers.append(&mut self.others.lock());
        for worker in workers {
            while !worker.is_finished() && Instant::now() < deadline {
                self.poller.wake();
                std::thread::sleep(Duration::from_micros(200));
            }
            if worker.is_finished() {
                // A worker catches panics of operations; its own would have been logged by the hook.
                let _ = worker.join();
            }
        }
    }

    /// Less work is in the house: connections that wait for that are read again.
    pub(super) fn resume_crowded_out(&self) {
        let waiting = std::mem::take(&mut *self.crowded_out.lock());
        for connection in waiting {
            connection.crowded_out.store(false, SeqCst);
            self.arm(&connection);
        }
    }
}

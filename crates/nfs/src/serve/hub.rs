//! What all workers share: connections, queues, counts and bounds.

use std::collections::HashMap;
use std::io;
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::{Mutex, RwLock};
use tally_base::Fate;

use super::ServeOptions;
use super::connection::Connection;
use super::crew::Crew;
use super::poller::Poller;
use super::queue::{Queue, Work};
use super::worker;
use crate::service::Service;

/// Tokens of connections start here; listeners are below.
const FIRST_CONNECTION: u64 = 1 << 16;
/// Threads that are there from the start: one works, one watches.
const WORKERS_MIN: usize = 2;
/// How often [`Hub::stop`] looks whether the house is empty.
const STOP_STEP: Duration = Duration::from_millis(2);

/// The shared state. Locks: `Connection::arming` before `paused`; all others are leaves.
pub(super) struct Hub {
    pub(super) service: Arc<Service>,
    pub(super) options: ServeOptions,
    pub(super) poller: Poller,
    pub(super) queue: Queue,
    pub(super) listeners: Vec<TcpListener>,
    connections: RwLock<HashMap<u64, Arc<Connection>>>,
    next_connection: AtomicU64,
    /// Requests in the house.
    pub(super) request_count: AtomicUsize,
    /// Bytes of their records.
    record_bytes: AtomicUsize,
    /// Bytes of partial records.
    pub(super) partial_bytes: AtomicUsize,
    /// Connections that are not read because of `record_bytes`.
    paused: Mutex<Vec<Arc<Connection>>>,
    pub(super) crew: Crew,
    workers: Mutex<Vec<JoinHandle<()>>>,
    /// A wake is on its way, and whoever gets it will look into the queue.
    pub(super) wake_pending: AtomicBool,
    /// Nothing more is read.
    pub(super) stopping: AtomicBool,
    /// Workers end.
    pub(super) ended: AtomicBool,
}

impl Hub {
    pub(super) fn start(
        service: Arc<Service>,
        listeners: Vec<TcpListener>,
        options: ServeOptions,
    ) -> io::Result<Arc<Self>> {
        let hub = Arc::new(Self {
            service,
            poller: Poller::new()?,
            queue: Queue::default(),
            listeners,
            connections: RwLock::default(),
            next_connection: AtomicU64::new(FIRST_CONNECTION),
            request_count: AtomicUsize::new(0),
            record_bytes: AtomicUsize::new(0),
            partial_bytes: AtomicUsize::new(0),
            paused: Mutex::default(),
            crew: Crew::new(options.workers_running_max),
            options,
            workers: Mutex::default(),
            wake_pending: AtomicBool::new(false),
            stopping: AtomicBool::new(false),
            ended: AtomicBool::new(false),
        });
        for (token, listener) in (1_u64..).zip(&hub.listeners) {
            hub.poller.add(listener, token)?;
        }
        for _ in 0..WORKERS_MIN {
            hub.spawn_worker()?;
        }
        Ok(hub)
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
        let hub = self.clone();
        let started = std::thread::Builder::new().name(format!("nfs-{number}")).spawn(move || worker::work(&hub));
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

    pub(super) fn connection_count(&self) -> usize {
        self.connections.read().len()
    }

    /// Takes a new connection in.
    pub(super) fn admit(&self, stream: TcpStream, peer: std::net::SocketAddr) -> io::Result<()> {
        let id = self.next_connection.fetch_add(1, SeqCst);
        let connection = Arc::new(Connection::new(id, peer, stream));
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
        connection.drop_stalled();
        self.partial_bytes.fetch_sub(connection.partial_bytes.swap(0, SeqCst), SeqCst);
        self.service.stats().connections.fetch_sub(1, SeqCst);
    }

    /// Arms a connection for its next event: reading unless a bound forbids it, sending if its socket is full.
    pub(super) fn arm(self: &Arc<Self>, connection: &Arc<Connection>) {
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
        connection.paused.store(true, SeqCst);
        let mut read = self.may_read(connection);
        if !read && self.record_bytes.load(SeqCst) > self.options.record_bytes_max {
            self.paused.lock().push(connection.clone());
            read = self.may_read(connection);
        }
        if read {
            connection.paused.store(false, SeqCst);
        }
        let write = connection.output.is_full();
        self.poller.arm(&connection.stream, connection.link.id(), read, write)
    }

    /// Whether no bound forbids to read on.
    pub(super) fn may_read(&self, connection: &Connection) -> bool {
        !self.stopping.load(SeqCst)
            && connection.request_count.load(SeqCst) < self.options.requests_per_connection_max
            && connection.output.held_bytes() <= self.options.output_bytes_max
            && self.record_bytes.load(SeqCst) <= self.options.record_bytes_max
    }

    /// Counts a request in; it is counted out when the charge is dropped.
    pub(super) fn charge(self: &Arc<Self>, connection: &Arc<Connection>, bytes: usize) -> Charge {
        connection.request_count.fetch_add(1, SeqCst);
        self.request_count.fetch_add(1, SeqCst);
        self.record_bytes.fetch_add(bytes, SeqCst);
        Charge { hub: self.clone(), connection: connection.clone(), bytes }
    }

    /// Counts what a partial record holds. False: too much is held in all, the connection has to go.
    pub(super) fn count_partial(&self, connection: &Connection, bytes: usize) -> bool {
        let before = connection.partial_bytes.swap(bytes, SeqCst);
        let total = self.partial_bytes.fetch_add(bytes, SeqCst).wrapping_add(bytes);
        self.partial_bytes.fetch_sub(before, SeqCst);
        bytes <= before || total.saturating_sub(before) <= self.options.partial_bytes_max
    }

    pub(super) fn push_run(&self, work: Box<Work>) {
        self.queue.push_run(work);
        self.wake_one();
    }

    pub(super) fn push_settled(&self, work: Box<Work>, outcome: Fate) {
        self.queue.push_settled(work, outcome);
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
        for listener in &self.listeners {
            self.poller.remove(listener);
        }
        let deadline = Instant::now() + self.options.stop_patience;
        while self.request_count.load(SeqCst) > 0 && Instant::now() < deadline {
            std::thread::sleep(STOP_STEP);
        }
        let unfinished = self.request_count.load(SeqCst);
        self.ended.store(true, SeqCst);
        let open: Vec<_> = self.connections.read().values().cloned().collect();
        open.iter().for_each(|connection| self.close(connection));
        self.poller.wake();
        self.crew.end();
        self.join_workers(deadline + STOP_STEP * 50);
        self.queue.clear();
        self.paused.lock().clear();
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
        let workers = std::mem::take(&mut *self.workers.lock());
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

    /// Room was made below the bound on records: connections that wait for it are read again.
    fn resume_paused(self: &Arc<Self>) {
        let paused = std::mem::take(&mut *self.paused.lock());
        paused.iter().for_each(|connection| self.arm(connection));
    }
}

/// A request's share of the bounds.
pub(super) struct Charge {
    hub: Arc<Hub>,
    connection: Arc<Connection>,
    bytes: usize,
}

impl Charge {
    pub(super) fn hub(&self) -> &Arc<Hub> {
        &self.hub
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        let hub = &self.hub;
        let over = hub.record_bytes.fetch_sub(self.bytes, SeqCst) > hub.options.record_bytes_max;
        self.connection.request_count.fetch_sub(1, SeqCst);
        hub.request_count.fetch_sub(1, SeqCst);
        if over {
            hub.resume_paused();
        }
        if self.connection.paused.load(SeqCst) && !hub.stopping.load(SeqCst) {
            hub.arm(&self.connection);
        }
    }
}

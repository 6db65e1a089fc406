//! Sockets, workers, waiting and sending: plain threads over one epoll.
//!
//! The problem is one client that sends a request, waits for the reply, and sends the next: every handover
//! from one thread to another costs as much as all our other work on a SETATTR. So whoever reads a request
//! also runs it, writes the log for it ([`tally_base::Promise::drive`]) and sends the reply, in one thread
//! and without a hop. A pool of workers shares one epoll of all connections; each connection is armed for
//! one event at a time, and a worker arms it again *before* it runs what it read, so that another worker
//! takes the next request of the same connection meanwhile. An async runtime was the obvious other way: its
//! workers must never block, so the device write would need another thread, and that is the hop.
//!
//! ```text
//!          epoll: all connections, and a wake
//!            │ one event each
//!   worker ──┴─ read ─ records ─ several ──▶ backlog, run queue: one of each connection in turn ──▶ any worker
//!            └─ arm again ─ run the one ──┬─ nothing to wait for ──────────────▶ send
//!                                         ├─ lone, others idle: drive() here ──▶ send
//!                                         └─ then(): settled queue ──▶ any worker: send, many at once
//! ```
//!
//! A cold READ, or a write of the log, blocks its worker and nothing else (rules P1), as others watch: when the last of
//! those goes to work, and fewer run than there are processors, another is called or started (`crew`). The cost:
//! threads, and a mutex for the queues, which the lone client's path touches once, finding them empty.
//!
//! A host that nobody trusts gets no further than its own account (I6): `ledger` says who may hold what, `warden` who
//! has to go. `accept` is a thread of its own, so that nobody waits at the door behind those who leave.

mod accept;
mod backlog;
mod complaints;
mod connection;
mod crew;
mod doubtful;
mod hub;
mod input;
mod ledger;
mod output;
mod poller;
mod queue;
mod sending;
mod warden;
mod worker;

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::num::NonZero;
use std::sync::Arc;
use std::time::Duration;

use crate::service::Service;
use crate::stats::{Held, Stats};
use hub::{Bodies, Hub};

/// How much the server takes on at once.
#[derive(Clone, Debug)]
pub struct ServeOptions {
    /// Most threads. A cold READ and a device write each hold one.
    pub workers_max: usize,
    /// Most threads that run at once: those in a device or behind a lock do not. More than there are processors only
    /// wait for each other, each with replies in hand.
    pub workers_running_max: usize,
    /// Most connections at once; who comes on top takes an idle one's place, or is closed.
    pub connections_max: usize,
    /// Most requests of one connection that are in the house.
    pub requests_per_connection_max: usize,
    /// Bytes of requests that can be carried out, all connections together; of an address half of it.
    pub record_bytes_max: usize,
    /// Bytes of what waits for peers, all connections together; of an address half of it: records that have not arrived
    /// in full, replies that are not taken, and requests behind those.
    pub debt_bytes_max: usize,
    /// Bytes of replies that wait for one connection's socket before its requests wait too.
    pub output_bytes_max: usize,
    /// How long a record may pause before it is complete.
    pub record_silence_max: Duration,
    /// How long a record may take that comes slowly.
    pub record_time_max: Duration,
    /// How long a client may take nothing of its replies.
    pub unread_time_max: Duration,
    /// How long [`Server::stop`] waits for requests in the house.
    pub stop_patience: Duration,
    /// Whether a worker may write the log for its own request. Off only to measure what it gains.
    pub drive_in_place: bool,
}

impl Default for ServeOptions {
    fn default() -> Self {
        Self {
            workers_max: 32,
            // One more, since a thread that is to run is not always on a processor.
            workers_running_max: std::thread::available_parallelism().map_or(1, NonZero::get) + 1,
            connections_max: 4096,
            requests_per_connection_max: 256,
            record_bytes_max: 256 << 20,
            debt_bytes_max: 256 << 20,
            output_bytes_max: 4 << 20,
            record_silence_max: Duration::from_secs(10),
            record_time_max: Duration::from_secs(60),
            unread_time_max: Duration::from_secs(60),
            stop_patience: Duration::from_secs(10),
            drive_in_place: true,
        }
    }
}

/// Why the server cannot start.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// An address cannot be had.
    #[error("cannot listen on {address}: {source}; is another NFS server running? Choose another port with --port")]
    Listen {
        /// The address that was asked for.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// The system refuses something every server needs.
    #[error("cannot set up the server: {0}; check the limits on open files and threads")]
    System(#[from] io::Error),
}

/// Who works here.
const BODIES: Bodies = Bodies { worker: worker::work, door: accept::keep, warden: warden::keep };

/// A running server. Dropping it without [`Server::stop`] leaves it running until the process ends.
pub struct Server {
    hub: Arc<Hub>,
    addresses: Vec<SocketAddr>,
}

impl Server {
    /// Listens on all of `listen` and serves.
    pub fn start(service: Arc<Service>, listen: &[SocketAddr], options: &ServeOptions) -> Result<Self, ServeError> {
        let listeners = listen.iter().map(|address| accept::listen(*address)).collect::<Result<Vec<_>, _>>()?;
        Self::start_on(service, listeners, options)
    }

    /// Serves on sockets that listen already: who starts a server may want to know that it has its port before
    /// it does anything else.
    pub fn start_on(
        service: Arc<Service>,
        listeners: Vec<TcpListener>,
        options: &ServeOptions,
    ) -> Result<Self, ServeError> {
        listeners.iter().try_for_each(|listener| listener.set_nonblocking(false))?;
        let addresses = listeners.iter().map(|listener| listener.local_addr()).collect::<Result<_, _>>()?;
        let hub = Hub::start(service, listeners, options.clone(), BODIES)?;
        Ok(Self { hub, addresses })
    }

    /// Where it listens; ports that were asked for as 0 are filled in.
    #[must_use]
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// What the account says now (`ledger`).
    #[must_use]
    pub fn held(&self) -> Held {
        self.stats().held()
    }

    /// What it counts.
    #[must_use]
    pub fn stats(&self) -> &Arc<Stats> {
        self.hub.service.stats()
    }

    /// Takes no more requests, finishes those in the house within bounds, and ends all threads. Gives the
    /// number of requests that were not finished in time.
    #[must_use = "unfinished requests mean that replies were lost"]
    pub fn stop(self) -> usize {
        self.hub.stop()
    }
}

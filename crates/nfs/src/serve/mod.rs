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
//!                                         └─ then(): reply queue ──▶ any worker: send, many at once
//! ```
//!
//! A cold READ, or a write of the log, blocks its worker and nothing else (rules P1), as others watch: when the last of
//! those goes to work, and fewer run than there are processors, another is called or started (`crew`). The cost:
//! threads, and a mutex for the queues, which the lone client's path touches once, finding them empty.
//!
//! Calls of ours to clients (`calling`) lie in an outbox until whoever has done something else looks into it.
//!
//! A host that nobody trusts gets no further than its own account (I6): `ledger` says who may hold what, `warden` who
//! has to go. `accept` is a thread of its own, so that nobody waits at the door behind those who leave.

mod accept;
mod backlog;
mod calling;
mod complaints;
mod connection;
mod crew;
mod doubtful;
mod errands;
mod hub;
mod input;
mod ledger;
mod options;
mod output;
mod poller;
mod queue;
mod sending;
mod warden;
mod work;
mod worker;

use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::sync::Arc;

use crate::rpcbind::Transport;
use crate::service::Service;
use crate::stats::{Held, Stats};
use hub::{Bodies, Hub};

pub use accept::ServeError;
pub use options::ServeOptions;

/// Who works here.
const BODIES: Bodies = Bodies {
    worker: worker::work,
    door: accept::keep,
    warden: warden::keep,
    errands: errands::keep,
    monitor: errands::listen,
};

/// Where the status monitors of hosts say what they have to say: at the port of NFS, by datagrams. Without these they are not heard but over connections.
fn datagrams(addresses: &[SocketAddr]) -> Vec<UdpSocket> {
    let bind = |address: &SocketAddr| {
        let bound = errands::bind(*address);
        if let Err(error) = &bound {
            tracing::warn!(%address, %error, "hosts of NFSv3 cannot say here by UDP that they have started anew: what they had locked stays locked until `tally client evict` ends them");
        }
        bound.ok()
    };
    addresses.iter().filter_map(bind).collect()
}

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
        let addresses: Vec<SocketAddr> =
            listeners.iter().map(|listener| listener.local_addr()).collect::<Result<_, _>>()?;
        let datagrams = if service.locks_for_3() { datagrams(&addresses) } else { Vec::new() };
        let hub = Hub::start(service, (listeners, datagrams), options.clone(), BODIES)?;
        Ok(Self { hub, addresses })
    }

    /// Where it listens; ports that were asked for as 0 are filled in.
    #[must_use]
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// By what it is told that hosts of NFSv3 have started anew, if it locks for those: by datagrams where it could have a socket for them.
    #[must_use]
    pub fn heard_by(&self) -> Vec<Transport> {
        let by_datagram = (!self.hub.datagrams.is_empty()).then_some(Transport::Udp);
        let heard_by = [Transport::Tcp].into_iter().chain(by_datagram);
        heard_by.filter(|_| self.hub.service.locks_for_3()).collect()
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

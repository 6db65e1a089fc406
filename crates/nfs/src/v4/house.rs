//! What all compounds share.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tally_base::{Rng, SystemRng};
use tally_vfs::{ClientNumber, Series};

use super::callbacks::Callbacks;
use super::endings::Endings;
use super::hosts::HostDesk;
use super::naming::{NameService, Naming};
use super::parking::Parking;
use super::recalls::Counted;
use super::state::{
    BootId, ClientId, Clients, Delegations, LEASE_DEFAULT, LeaseClock, Locks, Opens, Orders, SessionId, Sessions,
    Waiters,
};
use super::status::Status;
use super::tracking::Tracking;
use super::v3_use::V3Use;

/// The clients, their sessions, what they have open, locked and delegated, who waits for what of it, and the time of their leases.
pub struct House {
    clients: Mutex<Clients>,
    sessions: Arc<Sessions>,
    opens: Opens,
    orders: Arc<Orders>,
    locks: Locks,
    delegations: Delegations,
    pub(super) delegated: Counted,
    pub(super) parking: Parking,
    pub(super) waiters: Waiters,
    /// Held by who looks after them.
    pub(super) looking_after_waiters: Mutex<()>,
    pub(super) callbacks: Callbacks,
    pub(super) endings: Endings,
    pub(super) tracking: Tracking,
    pub(super) v3_use: V3Use,
    pub(super) naming: Naming,
    pub(super) hosts: HostDesk,
    leases: LeaseClock,
    boot: BootId,
    identity: [u8; 16],
}

impl Default for House {
    fn default() -> Self {
        Self::new(LEASE_DEFAULT)
    }
}

impl House {
    /// That of a server whose clients have leases of this length.
    #[must_use]
    pub fn new(lease: Duration) -> Self {
        // An id of another start is told from one of this by a draw: a clock may go back.
        let boot = BootId(Series::drawn((SystemRng.next_u64() >> 32) as u32).number());
        let (clients, opens) = (Clients::new(boot, lease), Opens::new(boot, &SystemRng));
        let (locks, delegations) = (Locks::new(boot, &SystemRng), Delegations::new(boot, &SystemRng, lease));
        let mut identity = [0; 16];
        SystemRng.fill(&mut identity);
        Self {
            sessions: clients.sessions(),
            clients: Mutex::new(clients),
            opens,
            orders: Arc::default(),
            locks,
            delegations,
            delegated: Counted::default(),
            parking: Parking::default(),
            waiters: Waiters::new(lease),
            looking_after_waiters: Mutex::default(),
            callbacks: Callbacks::default(),
            endings: Endings::default(),
            tracking: Tracking::new(lease),
            v3_use: V3Use::default(),
            naming: Naming::default(),
            hosts: HostDesk::new(boot),
            leases: LeaseClock::new(lease),
            boot,
            identity,
        }
    }

    /// The same, of a server that is the same one behind a restart: on this machine, with its state in this place. A client that finds another server
    /// claims nothing again.
    #[must_use]
    pub fn known_as(self, host: u64, place: &[u8]) -> Self {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&host.to_be_bytes()).update(place);
        let identity = *hasher.finalize().as_bytes().first_chunk().expect("half of a hash");
        Self { identity, ..self }
    }

    /// The same, whose owners have names of this domain as well, which this service knows.
    ///
    /// # Errors
    ///
    /// A thread that asks it cannot be started.
    pub fn naming_owners(self, domain: &str, service: &Arc<dyn NameService>) -> io::Result<Self> {
        let naming = Naming::of_domain(domain, service, self.parking.clone())?;
        Ok(Self { naming, ..self })
    }

    /// The register of clients.
    pub(super) fn clients(&self) -> MutexGuard<'_, Clients> {
        self.clients.lock()
    }

    /// Their sessions, without its lock.
    pub(super) fn sessions(&self) -> &Sessions {
        &self.sessions
    }

    /// Whether somebody with a claim is a client of version 4, whose lease may be over. Hosts of version 3 and mounts of this machine have none.
    pub(super) fn is_of_version_4(&self, client: ClientNumber) -> bool {
        client.series().number() == self.boot.0
    }

    /// Whether a session is of this start of the server: one that is not there any more is over, and no pool knows of it.
    pub(super) fn is_of_this_start(&self, session: SessionId) -> bool {
        session.0.first_chunk() == Some(&self.boot.0.to_be_bytes())
    }

    /// What they have open.
    pub(super) fn opens(&self) -> &Opens {
        &self.opens
    }

    /// In which order its owners of minor version 0 do that.
    pub(super) fn orders(&self) -> &Arc<Orders> {
        &self.orders
    }

    /// And what they have locked below that.
    pub(super) fn locks(&self) -> &Locks {
        &self.locks
    }

    /// What clients were given to keep until they are asked for it.
    pub(super) fn delegations(&self) -> &Delegations {
        &self.delegations
    }

    /// Whether there is who asks, in this session, or in minor version 0 by himself, whose lease begins anew.
    pub(super) fn check_there(&self, session: Option<SessionId>, client: ClientId) -> Result<(), Status> {
        match session {
            Some(session) => self.sessions().find(session).map(drop).ok_or(Status::BadSession),
            None => Ok(self.clients().renew(client, self.heard())?),
        }
    }

    /// Whether a client has something open, or delegated.
    pub(super) fn holds(&self, client: ClientId) -> bool {
        self.opens.holds(client) || self.delegations.holds(client)
    }

    /// How long a client may say nothing.
    pub(super) fn lease(&self) -> Duration {
        self.leases.lease()
    }

    /// By the clock of leases.
    pub(super) fn now(&self) -> Duration {
        self.leases.now()
    }

    /// When a word counts as said that a client says now.
    pub(super) fn heard(&self) -> Duration {
        self.leases.heard()
    }

    /// It is `at` by a clock that does not go back, and requests are carried out: leases go on. Where nobody says so they stand still.
    pub(crate) fn look_at_clock(&self, at: Duration) {
        self.leases.look(at);
        self.opens.look_at_clock(self.now());
        self.locks.look_at_clock(self.now());
    }

    /// Whose sessions these are (`server_owner4`, and its scope): of the host, not of a pool, which may move (rules V40).
    pub(super) fn identity(&self) -> &[u8] {
        &self.identity
    }

    /// A connection is closed.
    pub(crate) fn disconnected(&self, connection: u64) {
        self.sessions.disconnect(connection);
    }
}

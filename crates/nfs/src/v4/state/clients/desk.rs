//! A server of minor version 1, as the tests of its state talk to it.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use tally_base::Rng;

use super::{ClientId, Clients, Created, Exchanged, Introduction, LEASE_DEFAULT, Principal, Proof, Sender, Wanted};
use crate::rpc::Caller;
use crate::v4::state::{Begun, BootId, Channel, Guard, Sequence, Sessions, Terms};
use crate::v4::status::Status;

/// Draws that a seed repeats (SplitMix64).
pub(in crate::v4::state) struct Draws(pub(in crate::v4::state) AtomicU64);

impl Draws {
    pub(in crate::v4::state) fn below(&self, bound: u64) -> u64 {
        self.next_u64() % bound
    }
}

impl Rng for Draws {
    fn fill(&self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            let mut word = self.0.fetch_add(0x9e37_79b9_7f4a_7c15, Relaxed);
            word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
            chunk.copy_from_slice(&(word ^ word >> 31).to_le_bytes()[..chunk.len()]);
        }
    }
}

pub(in crate::v4::state) const ROOT: Principal = Principal::User(0);
pub(in crate::v4::state) const OTHER: Principal = Principal::User(5);

/// From a port of a superuser's, on a host that a rule names.
pub(in crate::v4::state) fn by(principal: Principal) -> Sender {
    Sender { principal, address: [10, 0, 0, 1].into(), proof: Proof::Superuser, is_named: true }
}

/// As Linux asks.
pub(in crate::v4::state) const CHANNEL: Channel =
    Channel { request_bytes: 1 << 20, reply_bytes: 1 << 20, cached_bytes: 4096, operations: 8, slots: 64 };

pub(in crate::v4::state) struct Desk {
    pub(in crate::v4::state) clients: Clients,
    pub(in crate::v4::state) sessions: Arc<Sessions>,
    pub(in crate::v4::state) now: Duration,
    pub(in crate::v4::state) rng: Draws,
    /// Who has something open.
    pub(in crate::v4::state) held: HashSet<ClientId>,
}

impl Desk {
    pub(in crate::v4::state) fn new(seed: u64) -> Self {
        let clients = Clients::new(BootId(7), LEASE_DEFAULT);
        let (sessions, rng) = (clients.sessions(), Draws(seed.into()));
        Self { clients, sessions, now: Duration::ZERO, rng, held: HashSet::new() }
    }

    pub(in crate::v4::state) fn exchange(
        &mut self,
        name: &str,
        start: u8,
        principal: Principal,
    ) -> Result<Exchanged, Status> {
        self.exchange_for(name, start, principal, false)
    }

    pub(in crate::v4::state) fn exchange_for(
        &mut self,
        name: &str,
        start: u8,
        principal: Principal,
        is_update: bool,
    ) -> Result<Exchanged, Status> {
        self.now += Duration::from_micros(100);
        let introduction = Introduction { name: name.into(), verifier: [start; 8], sender: by(principal) };
        self.clients.exchange_id(introduction, is_update, &|id| self.held.contains(&id), self.now)
    }

    pub(in crate::v4::state) fn create(&mut self, wanted: &Wanted) -> Result<(Created, Option<ClientId>), Status> {
        self.clients.create_session(wanted, &|id| self.held.contains(&id), &self.rng, self.now)
    }

    pub(in crate::v4::state) fn destroy_client(&mut self, id: ClientId) -> Result<(), Status> {
        self.clients.destroy_client(id, &by(OTHER), &|id| self.held.contains(&id))
    }

    /// A client with a session, over connection 1.
    pub(in crate::v4::state) fn known(&mut self, name: &str, start: u8) -> Created {
        let exchanged = self.exchange(name, start, ROOT).unwrap();
        self.create(&wants(exchanged.id, exchanged.sequence)).unwrap().0
    }

    pub(in crate::v4::state) fn begin(&self, asked: &Sequence) -> Result<Begun, Status> {
        self.sessions.begin(asked, self.now)
    }

    /// A request that is new.
    pub(in crate::v4::state) fn new_on(&self, created: &Created, slot: u32, sequence: u32) -> Guard {
        match self.begin(&sequence_on(created, slot, sequence)) {
            Ok(Begun::New(guard, _)) => guard,
            other => panic!("{other:?}"),
        }
    }

    pub(in crate::v4::state) fn flags(&self, created: &Created, slot: u32, sequence: u32) -> u32 {
        match self.begin(&sequence_on(created, slot, sequence)) {
            Ok(Begun::New(_, shown)) => shown.flags,
            other => panic!("{other:?}"),
        }
    }

    pub(in crate::v4::state) fn lives(&self, created: &Created) -> bool {
        self.sessions.find(created.session).is_some()
    }
}

pub(in crate::v4::state) fn wants(client: ClientId, sequence: u32) -> Wanted {
    let (fore, back) = (CHANNEL, CHANNEL);
    let terms = Terms { minor: 1, program: 0x4000_0000, caller: Some(Caller::Nobody) };
    let (calls_back, persists) = (false, false);
    Wanted { client, sequence, fore, back, calls_back, persists, terms, sender: by(ROOT), connection: 1 }
}

pub(in crate::v4::state) fn sequence_on(created: &Created, slot: u32, sequence: u32) -> Sequence {
    let session = created.session;
    Sequence { session, slot, sequence, highest: slot, cache_this: false, fingerprint: 77, connection: 1 }
}

/// What becomes of a request, in one word.
pub(in crate::v4::state) fn word(told: &Result<Begun, Status>) -> String {
    match told {
        Ok(Begun::New(..)) => "new".into(),
        Ok(Begun::Retry(_)) => "retry".into(),
        Ok(Begun::InProgress) => "in progress".into(),
        Ok(Begun::Uncached(_)) => "uncached".into(),
        Ok(Begun::Faulted(..)) => "faulted".into(),
        Err(status) => format!("{status:?}"),
    }
}

//! A client as an administrator sees it.

use std::net::IpAddr;
use std::time::Duration;

use super::{ClientId, Principal, Record};
use crate::v4::state::SessionId;

/// What is asked for, and how much of it: all is more than anybody reads.
#[derive(Clone, Copy, Debug)]
pub struct Which {
    /// Of this client alone.
    pub client: Option<ClientId>,
    /// No more than so many.
    pub most: usize,
}

impl Which {
    /// Whether this client is asked for.
    #[must_use]
    pub fn is_of(self, client: ClientId) -> bool {
        self.client.is_none_or(|asked| asked == client)
    }
}

/// A confirmed client. Times are by the clock of leases.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known {
    /// Its id.
    pub client: ClientId,
    /// What it calls itself, up to 1,024 bytes of any kind.
    pub name: Vec<u8>,
    /// From where it has introduced itself.
    pub address: IpAddr,
    /// By whom.
    pub principal: Principal,
    /// The minor version that it speaks; of one with sessions that of its newest request, if there was one.
    pub minor: Option<u32>,
    /// How long it may say nothing.
    pub lease: Duration,
    /// When it introduced itself.
    pub since: Duration,
    /// When it last said a word.
    pub heard: Duration,
    /// Its sessions.
    pub sessions: Vec<SessionId>,
}

/// What a client calls itself, for people: other bytes than letters, digits and the like as `\x00`.
#[must_use]
pub fn printable(name: &[u8]) -> String {
    name.escape_ascii().to_string()
}

impl Known {
    /// Whether its lease is over.
    #[must_use]
    pub fn is_late(&self, now: Duration) -> bool {
        self.heard + self.lease < now
    }

    pub(super) fn new(record: &Record) -> Self {
        let (introduction, presence) = (&record.introduction, &record.presence);
        Self {
            client: record.id,
            name: introduction.name.clone(),
            address: introduction.sender.address,
            principal: introduction.sender.principal,
            minor: if presence.key().is_of_sessions() { presence.minor() } else { Some(0) },
            lease: presence.lease(),
            since: presence.since(),
            heard: presence.heard(),
            sessions: record.sessions().to_vec(),
        }
    }
}

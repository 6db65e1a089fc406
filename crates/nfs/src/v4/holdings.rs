//! Who holds what, for who administers the server: clients, their sessions, what they have open and locked; and the end of a client that he wants gone.
//!
//! What is told is copied shard by shard, each as it is when it is looked at, so that no client waits for as long as all of it takes; and no more than was asked for.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use tally_vfs::locks::{Kind, Range};

use super::below::below;
use super::house::House;
use super::state::{Channel, ClientId, FileId, Known, Revoked, SeenOpen, SessionId, Which};
pub use super::tracking::GraceSeen;
use crate::exports::Exports;

/// What clients hold of a server.
pub struct Holdings<'a> {
    pub(crate) house: &'a House,
    pub(crate) exports: &'a dyn Exports,
}

/// Some of it.
#[derive(Clone, Debug)]
pub struct Page<T> {
    /// As of when, by the clock of leases.
    pub now: Duration,
    /// What was asked for.
    pub shown: Vec<T>,
    /// How many there are besides, at least.
    pub more: usize,
}

/// A client, and how much it has.
#[derive(Clone, Debug)]
pub struct ClientSeen {
    /// Who it is.
    pub known: Known,
    /// Whether it is a host that locks for version 3, and no client of version 4.
    pub is_host: bool,
    /// Whether its lease is over, and it is kept by courtesy.
    pub is_late: bool,
    /// How many files it has open, those that were taken from it too.
    pub opens: usize,
    /// How many stateids of locks it has.
    pub locks: usize,
    /// How many files it was given to keep, those that were taken from it too.
    pub delegations: usize,
}

/// A session.
#[derive(Clone, Copy, Debug)]
pub struct SessionSeen {
    /// Its id.
    pub session: SessionId,
    /// Whose it is.
    pub client: ClientId,
    /// What was granted for requests.
    pub fore: Channel,
    /// How many requests are being carried out.
    pub in_use: usize,
    /// How many connections it has.
    pub connections: usize,
    /// How many of these it may be called back on.
    pub back: usize,
}

/// A range that is locked, or that somebody waits for, or a stateid of which nothing is locked any more.
#[derive(Clone, Debug)]
pub struct LockSeen {
    /// Whose it is.
    pub client: ClientId,
    /// What the owner calls itself; nothing where it was revoked.
    pub owner: Option<Arc<[u8]>>,
    /// What is locked.
    pub file: FileId,
    /// Which bytes, and what for.
    pub range: Option<(Range, Kind)>,
    /// If it was taken from its client.
    pub revoked: Option<Revoked>,
    /// Another one has it, and this one is to be called when it is free.
    pub waits: bool,
    /// As of when the owner has something locked there, or waits for this.
    pub since: Duration,
}

/// How much there is of all of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Clients that are confirmed.
    pub clients: usize,
    /// Those of them whose leases are over.
    pub late: usize,
    /// Their sessions.
    pub sessions: usize,
    /// Files that they have open, by owner, those that were taken from them too.
    pub opens: usize,
    /// Their stateids of locks.
    pub locks: usize,
    /// What they were given to keep until they are asked for it, that which was taken from them too.
    pub delegations: usize,
    /// Of these, what they are asked for.
    pub recalled: usize,
}

/// What has happened to delegations since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct DelegationsSince {
    pub granted: u64,
    /// They were asked for.
    pub recalled: u64,
    /// They were given back.
    pub returned: u64,
    /// They were taken, as their clients did not give them back, or with their mounts.
    pub revoked: u64,
}

impl Holdings<'_> {
    /// How much there is.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let (clients, late) = {
            let register = self.house.clients();
            (register.counts().0, register.late_count(self.house.now()))
        };
        let (sessions, _) = self.house.sessions().counts();
        let ((_, opens), (.., locks)) = (self.house.opens().counts(), self.house.locks().counts());
        let (delegations, recalled, _) = self.house.delegations().counts();
        Counts { clients, late, sessions, opens, locks, delegations, recalled }
    }

    /// What has happened to delegations.
    #[must_use]
    pub fn delegations_since(&self) -> DelegationsSince {
        let counted = &self.house.delegated;
        let [granted, recalled, returned, revoked] =
            [&counted.granted, &counted.recalled, &counted.returned, &counted.revoked].map(|count| count.load(Relaxed));
        DelegationsSince { granted, recalled, returned, revoked }
    }

    /// Pools, by name, in which clients may claim again what they had open before this start.
    #[must_use]
    pub fn graces(&self) -> Vec<(String, GraceSeen)> {
        let pools = self.exports.pools();
        let seen = pools.iter().map(|pool| Some((pool.pool_name().to_owned(), self.house.grace(pool.guid())?)));
        seen.flatten().collect()
    }

    /// Clients that are confirmed.
    #[must_use]
    pub fn clients(&self, which: Which) -> Page<ClientSeen> {
        let (known, more) = self.house.clients().known(which);
        let mut shown: Vec<_> = known.into_iter().map(|known| self.client(known)).collect();
        let (hosts, unseen) = self.house.hosts_seen(Which { most: which.most - shown.len(), ..which });
        shown.extend(hosts);
        self.page(shown, more + unseen)
    }

    fn client(&self, known: Known) -> ClientSeen {
        let (_, opens) = self.house.opens().counts_of(known.client);
        let locks = self.house.locks().count_of(known.client);
        let delegations = self.house.delegations().count_of(known.client);
        ClientSeen { is_late: known.is_late(self.house.now()), is_host: false, known, opens, locks, delegations }
    }

    /// Their sessions.
    #[must_use]
    pub fn sessions(&self, which: Which) -> Page<SessionSeen> {
        let (known, _) = self.house.clients().known(Which { most: usize::MAX, ..which });
        let mut ids = known.iter().flat_map(|known| known.sessions.iter().copied());
        let shown = ids.by_ref().take(which.most).filter_map(|id| self.session(id)).collect();
        self.page(shown, ids.count())
    }

    fn session(&self, id: SessionId) -> Option<SessionSeen> {
        let session = self.house.sessions().find(id)?;
        let (connections, back) = session.connection_counts();
        let (client, fore, in_use) = (session.presence().client(), *session.fore(), session.in_use());
        Some(SessionSeen { session: id, client, fore, in_use, connections, back })
    }

    /// What they have open.
    #[must_use]
    pub fn opens(&self, which: Which) -> Page<SeenOpen> {
        let (shown, more) = self.house.opens().seen(which);
        self.page(shown, more)
    }

    /// What they have locked, range by range, and what they wait for.
    #[must_use]
    pub fn locks(&self, which: Which) -> Page<LockSeen> {
        let (seen, mut more) = self.house.locks().seen(which);
        let mut shown: Vec<LockSeen> = Vec::new();
        for state in seen {
            let room = which.most - shown.len();
            if room == 0 {
                more += 1;
                continue;
            }
            let (file, holder) = (state.locked.file, state.locked.holder);
            let below = below(self.exports, &file).filter(|_| state.revoked.is_none());
            // One more than there is room for, to tell whether there is more.
            let ranges = below.map_or_else(Vec::new, |below| below.ranges(file.object, holder, room.saturating_add(1)));
            more += ranges.len().saturating_sub(room);
            let of_range = |range| LockSeen {
                client: state.locked.client,
                owner: state.owner.clone(),
                file,
                range,
                revoked: state.revoked,
                waits: false,
                since: state.since,
            };
            match ranges.is_empty() {
                true => shown.push(of_range(None)),
                false => shown.extend(ranges.iter().take(room).map(|lock| of_range(Some((lock.range, lock.kind))))),
            }
        }
        let (waiting, unseen) = self.house.waiters.seen(Which { most: which.most - shown.len(), ..which });
        shown.extend(waiting.into_iter().map(|(wait, since)| LockSeen {
            client: wait.owner.client,
            owner: Some(wait.owner.name),
            file: wait.file,
            range: Some((wait.range, wait.kind)),
            revoked: None,
            waits: true,
            since,
        }));
        let (of_hosts, unseen_of_hosts) =
            self.house.host_locks_seen(self.exports, Which { most: which.most - shown.len(), ..which });
        shown.extend(of_hosts);
        self.page(shown, more + unseen + unseen_of_hosts)
    }

    /// Ends a client, whatever its lease: all that it has open and locked is others' to have, once the pools know that it may not claim it again (rules V24). It is told so at
    /// its next request: BADSESSION, or STALE_CLIENTID and EXPIRED of minor version 0. Gives who it was, and what it had.
    #[must_use]
    pub fn evict(&self, client: ClientId) -> Option<ClientSeen> {
        let (known, _) = self.house.clients().known(Which { client: Some(client), most: 1 });
        let Some(known) = known.into_iter().next() else { return self.house.evict_host(self.exports, client) };
        let seen = self.client(known);
        let is_there = self.house.clients().evict(client);
        self.house.close_for_the_gone(self.exports);
        Some(seen).filter(|_| is_there)
    }

    /// Whether those who were ended may claim nothing again, behind a crash too, within this time. Nobody is given what was theirs before that.
    #[must_use]
    pub fn are_out_of_the_lists(&self, time: Duration) -> bool {
        self.house.tracking.are_durable_within(time)
    }

    fn page<T>(&self, shown: Vec<T>, more: usize) -> Page<T> {
        Page { now: self.house.now(), shown, more }
    }
}

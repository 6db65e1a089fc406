//! Hosts, what they have locked and what they wait for, for who administers the server; and the end of one.

use std::sync::Arc;

use super::House;
use crate::exports::Exports;
use crate::nlm::hosts::{Named, Seen};
use crate::v4::below::below;
use crate::v4::holdings::{ClientSeen, LockSeen};
use crate::v4::state::{ClientId, Known, Principal, Which};

impl House {
    /// Hosts that are known, and how many there are besides.
    pub(in crate::v4) fn hosts_seen(&self, which: Which) -> (Vec<ClientSeen>, usize) {
        let hosts = self.hosts.hosts.lock();
        let (mut seen, _) = hosts.seen(usize::MAX);
        drop(hosts);
        seen.retain(|host| which.is_of(ClientId(host.client.0)));
        let more = seen.len().saturating_sub(which.most);
        seen.truncate(which.most);
        (seen.iter().map(|host| self.host_seen(host)).collect(), more)
    }

    fn host_seen(&self, host: &Seen) -> ClientSeen {
        let known = Known {
            client: ClientId(host.client.0),
            name: host.name.to_vec(),
            address: host.address,
            principal: Principal::Nobody,
            minor: None,
            lease: self.lease(),
            since: host.since,
            // It says nothing as long as all is well.
            heard: self.now(),
            sessions: Vec::new(),
        };
        ClientSeen { known, is_host: true, is_late: false, opens: 0, locks: host.files, delegations: 0 }
    }

    /// What they have locked, range by range, and what they wait for; and how much there is besides, at least.
    pub(in crate::v4) fn host_locks_seen(&self, exports: &dyn Exports, which: Which) -> (Vec<LockSeen>, usize) {
        let hosts = self.hosts.hosts.lock();
        let mut held = hosts.held();
        held.retain(|(holder, ..)| which.is_of(ClientId(holder.client.0)));
        let named = |holder| hosts.named(holder).as_ref().map(owner);
        let held: Vec<_> = held.into_iter().map(|(holder, file, since)| (holder, file, since, named(holder))).collect();
        let waits = hosts.waiting.seen().filter(|(wait, _)| which.is_of(ClientId(wait.holder.client.0)));
        let waits: Vec<_> = waits
            .map(|(wait, since)| LockSeen {
                client: ClientId(wait.holder.client.0),
                owner: named(wait.holder),
                file: wait.file,
                range: Some((wait.range, wait.kind)),
                revoked: None,
                waits: true,
                since,
            })
            .collect();
        drop(hosts);
        let (mut seen, mut more) = (Vec::new(), 0);
        for (holder, file, since, owner) in held {
            let room = which.most - seen.len();
            if room == 0 {
                more += 1;
                continue;
            }
            let ranges = below(exports, &file).map_or_else(Vec::new, |below| below.ranges(file.object, holder, room));
            seen.extend(ranges.iter().map(|lock| LockSeen {
                client: ClientId(holder.client.0),
                owner: owner.clone(),
                file,
                range: Some((lock.range, lock.kind)),
                revoked: None,
                waits: false,
                since,
            }));
        }
        let room = which.most - seen.len();
        more += waits.len().saturating_sub(room);
        seen.extend(waits.into_iter().take(room));
        (seen, more)
    }

    /// Ends a host: all that it has is others'. It does not know of that.
    pub(in crate::v4) fn evict_host(&self, exports: &dyn Exports, client: ClientId) -> Option<ClientSeen> {
        let seen = self.hosts_seen(Which { client: Some(client), most: 1 }).0.pop()?;
        self.host_started_anew(exports, seen.known.address, None);
        Some(seen)
    }
}

/// Its process, by the number that it has there.
fn owner(named: &Named) -> Arc<[u8]> {
    format!("process {}", named.process).into_bytes().into()
}

//! What is in the way of an operation, and goes out of it: clients whose lease is over (`state/clients/courtesy.rs`; rules V20). What they had is closed below when
//! this says that it is worth another try.

use std::net::IpAddr;

use tally_vfs::{ClientNumber, FsError, Outcome};

use super::house::House;
use super::state::ClientId;
use crate::exports::Exports;

/// How often something is tried again as somebody was in the way who is gone by then: others may have come.
const ATTEMPTS_MAX: u32 = 8;

/// Tries something as often as what was in its way is gone.
pub(super) fn past<T, E>(
    mut attempt: impl FnMut() -> T,
    mut makes_way: impl FnMut(&T) -> Result<bool, E>,
) -> Result<T, E> {
    for _ in 0..ATTEMPTS_MAX {
        let outcome = attempt();
        if !makes_way(&outcome)? {
            return Ok(outcome);
        }
    }
    Ok(attempt())
}

/// What came of asking the file system.
pub(super) trait Refusable {
    /// Why it refused, if it did.
    fn refused(&self) -> Option<FsError>;
}

impl<T> Refusable for Result<T, FsError> {
    fn refused(&self) -> Option<FsError> {
        self.as_ref().err().copied()
    }
}

impl<T> Refusable for Outcome<T> {
    fn refused(&self) -> Option<FsError> {
        self.error()
    }
}

impl House {
    /// Ends clients that are in somebody's way, if the lease of each is over. Who has none, as a host of version 3 and a mount of this machine, goes when he likes (rules V44).
    pub(crate) fn end_late(&self, exports: &dyn Exports, in_the_way: &[ClientNumber]) -> bool {
        if !in_the_way.iter().all(|client| self.is_of_version_4(*client)) {
            return false;
        }
        let clients: Vec<_> = in_the_way.iter().map(|number| ClientId(number.0)).collect();
        let now = self.now();
        if clients.is_empty() || !self.clients().end_late(&clients, now) {
            return false;
        }
        self.close_for_the_gone(exports);
        true
    }

    /// Makes room for an open of this client, where there is none for anybody, or its address has its half of all.
    pub(super) fn make_room_for(&self, exports: &dyn Exports, client: ClientId) -> bool {
        let of = match self.has_room_at_its_address(client) {
            true if !self.opens().is_full() => return false,
            true => None,
            false => self.clients().neighbours(client).map(|(address, _)| address),
        };
        self.end_silent(exports, of)
    }

    /// Ends the client that was silent for longest, of all or from one address, if its lease is over and it holds something.
    pub(super) fn end_silent(&self, exports: &dyn Exports, of: Option<IpAddr>) -> bool {
        let now = self.now();
        let is_ended = self.clients().end_silent(of, &|id| self.holds(id), now);
        if is_ended {
            self.close_for_the_gone(exports);
        }
        is_ended
    }

    /// Whether the clients from the address of this one have less open than one address may have (rules V35).
    pub(super) fn has_room_at_its_address(&self, client: ClientId) -> bool {
        self.opens()
            .has_room_of_address(|| self.clients().neighbours(client).map_or_else(Vec::new, |(_, clients)| clients))
    }
}

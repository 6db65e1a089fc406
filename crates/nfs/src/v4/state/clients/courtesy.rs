//! Clients whose lease is over (rules V20). Nothing ends by that alone: such a client may only have been cut off, and what it holds is nobody's loss. It is ended
//! as a whole, so that it is told when it comes back (BADSESSION, STALE_CLIENTID), and only
//!
//! ```text
//!  by whom                                                    │ which
//!  ───────────────────────────────────────────────────────────┼──────────────────────────────────────────────────────────────
//!  somebody whom it keeps from opening something, or doing it │ all that are in his way, if nobody else is: [`Clients::end_late`]
//!  somebody for whose opens or owners there is no room        │ the one that was silent for longest and holds something; of the
//!                                                             │ address that has its half of all of them: [`Clients::end_silent`]
//!  a client for which there is no room                        │ likewise, where none holds nothing: [`Clients::way_for`]
//!  nobody for [`COURTESY`](super::COURTESY)                   │ it
//!  an administrator                                           │ whom he names, late or not: [`Clients::evict`]
//! ```
//!
//! One of which a request is being carried out is not late: it may wait for a disk, and not for its client.

use std::net::IpAddr;
use std::time::Duration;

use super::{CLIENTS_MAX, CONFIRMED, ClientId, Clients, Full, OF_ADDRESS_MAX, Record, WAITING, Why, to_give_way};

impl Clients {
    /// Ends these, if the lease of each is over. True if none of them is there any more.
    pub fn end_late(&mut self, clients: &[ClientId], now: Duration) -> bool {
        let is_live = |id: &ClientId| self.confirmed.get(id).is_some_and(|record| !self.is_over(record, now));
        if clients.iter().any(is_live) {
            return false;
        }
        clients.iter().for_each(|id| self.end(*id, Why::Late));
        true
    }

    /// Ends the one that was silent for longest, of all, or of those from one address, whose lease is over and that holds something. Whether there was one.
    pub fn end_silent(&mut self, of: Option<IpAddr>, holds: &dyn Fn(ClientId) -> bool, now: Duration) -> bool {
        let is_asked = |record: &&Record| of.is_none_or(|of| record.address() == of);
        let late =
            self.confirmed.values().filter(is_asked).filter(|record| self.is_over(record, now) && holds(record.id));
        let Some(silent) = late.min_by_key(|record| (record.presence.heard(), record.id)).map(|record| record.id)
        else {
            return false;
        };
        self.end(silent, Why::Late);
        true
    }

    /// From where a client introduced itself.
    #[must_use]
    pub fn address_of(&self, id: ClientId) -> Option<IpAddr> {
        self.confirmed.get(&id).map(|record| record.introduction.sender.address)
    }

    /// The same, and who else did.
    #[must_use]
    pub fn neighbours(&self, id: ClientId) -> Option<(IpAddr, Vec<ClientId>)> {
        let address = self.confirmed.get(&id)?.address();
        let is_of_address = |record: &&Record| record.address() == address;
        Some((address, self.confirmed.values().filter(is_of_address).map(|record| record.id).collect()))
    }

    /// Who has to go before the waiting one with this id can be confirmed, if anybody has to.
    pub(super) fn way_for(
        &self,
        id: ClientId,
        holds: &dyn Fn(ClientId) -> bool,
        now: Duration,
    ) -> Result<Option<ClientId>, Full> {
        let waiting = &self.waiting[&id];
        if self.ids(&waiting.name())[CONFIRMED].is_some() {
            // It takes the place of that one.
            return Ok(None);
        }
        let costs = |record: &Record| {
            let is_held = holds(record.id) || !record.sessions().is_empty();
            (!is_held || self.is_over(record, now)).then_some(is_held)
        };
        to_give_way(&self.confirmed, waiting.address(), (CLIENTS_MAX, OF_ADDRESS_MAX), &costs)
    }

    /// Whether its lease is over.
    fn is_over(&self, record: &Record, now: Duration) -> bool {
        let is_asked = || record.sessions().iter().any(|id| self.sessions.find(*id).is_some_and(|it| it.in_use() > 0));
        record.presence.is_late(now) && !is_asked()
    }

    /// A client goes, with what it was about to change.
    pub(super) fn end(&mut self, id: ClientId, why: Why) {
        self.forget_as(id, CONFIRMED, why);
        self.forget_as(id, WAITING, why);
    }
}

#[cfg(test)]
mod tests;

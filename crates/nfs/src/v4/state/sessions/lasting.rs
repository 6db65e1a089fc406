//! Which sessions are persistent (RFC 8881 §2.10.6.5; rules V7): those for whose marks there is room in every pool.
//!
//! A slot's last request has at most [`MARKS_OF_REQUEST_MAX`] marks, so a session is charged for its slots. It is not refused for want of
//! room, but is none of these.
//!
//! ```text
//!  left of 16,384 slots     │ slots of a persistent session
//!  ─────────────────────────┼──────────────────────────────
//!  more than a half         │ as many as memory gives
//!  less                     │ 16 at most
//!  none, or of its address  │ it is not persistent
//! ```

use std::net::IpAddr;
use std::sync::Arc;

use foldhash::HashMap;
use parking_lot::Mutex;

use super::SessionId;
use crate::v4::state::bounds::{SLOTS_LASTING_MAX, SLOTS_LASTING_OF_ADDRESS_MAX, SLOTS_LASTING_SHORT};

/// Slots of persistent sessions.
#[derive(Debug, Default)]
pub(super) struct Lasting(Arc<Mutex<Slots>>);

#[derive(Debug, Default)]
struct Slots {
    all: u32,
    of: HashMap<IpAddr, u32>,
    /// Sessions of which there is nothing left, since this was asked last.
    over: Vec<SessionId>,
}

impl Lasting {
    /// For a session from that address which is to have so many slots: how many it gets.
    pub(super) fn charge(&self, session: SessionId, address: IpAddr, slots: u32) -> Option<(u32, LastingCharge)> {
        let mut charged = self.0.lock();
        let left = SLOTS_LASTING_MAX.saturating_sub(charged.all);
        let slots = if left > SLOTS_LASTING_MAX / 2 { slots } else { slots.min(SLOTS_LASTING_SHORT) };
        let own = charged.of.get(&address).copied().unwrap_or_default() + slots;
        if slots > left || own > SLOTS_LASTING_OF_ADDRESS_MAX {
            return None;
        }
        charged.all += slots;
        charged.of.insert(address, own);
        Some((slots, LastingCharge { account: self.0.clone(), session, address, slots }))
    }

    /// The sessions of which there is nothing left since this was asked last, not even a request that is carried out: nobody asks again for what they have changed.
    pub(super) fn take_over(&self) -> Vec<SessionId> {
        std::mem::take(&mut self.0.lock().over)
    }
}

/// What a session has of them, for as long as there is something of it.
#[derive(Debug)]
pub(super) struct LastingCharge {
    account: Arc<Mutex<Slots>>,
    session: SessionId,
    address: IpAddr,
    slots: u32,
}

impl Drop for LastingCharge {
    fn drop(&mut self) {
        let mut charged = self.account.lock();
        charged.all -= self.slots;
        charged.over.push(self.session);
        let Some(own) = charged.of.get_mut(&self.address) else { return };
        *own -= self.slots;
        if *own == 0 {
            charged.of.remove(&self.address);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_its_part_and_what_is_short_is_given_in_small_pieces() {
        let (lasting, mut kept) = (Lasting::default(), Vec::new());
        let from = |host: u32| IpAddr::from(host.to_be_bytes());
        let mut of_one = 0;
        let id = SessionId([7; 16]);
        while let Some((slots, charge)) = lasting.charge(id, from(1), 64) {
            assert_eq!(slots, 64);
            of_one += slots;
            kept.push(charge);
        }
        assert_eq!(of_one, SLOTS_LASTING_OF_ADDRESS_MAX);
        let (mut given, mut host) = (of_one, 2);
        while let Some((slots, charge)) = lasting.charge(id, from(host), 64) {
            let is_short = SLOTS_LASTING_MAX - given <= SLOTS_LASTING_MAX / 2;
            assert_eq!(slots, if is_short { SLOTS_LASTING_SHORT } else { 64 });
            given += slots;
            host += 1;
            kept.push(charge);
        }
        assert_eq!(given, SLOTS_LASTING_MAX);
        let count = kept.len();
        drop(kept);
        assert_eq!(lasting.take_over().len(), count);
        assert!(lasting.0.lock().of.is_empty() && lasting.0.lock().all == 0);
        assert!(lasting.charge(id, from(1), 64).is_some());
    }
}
